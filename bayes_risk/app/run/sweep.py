"""A sweep: the attribute audit of a study again and again, at other assumptions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.app.output import Provenance
from bayes_risk.app.study.declare import fit_model
from bayes_risk.app.study.making import Clock, Progress, made
from bayes_risk.app.study.study import Study
from bayes_risk.app.study.varying import sweep_options
from bayes_risk.studies.sweeping.result import Sensitivity

from .shared import diagnostics_of, in_folder, seeds_of
from .variants import alone


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SweepResult:
    """What one sweep of a study found.

    Attributes
    ----------
    study : Study
    random_seed : int
    data_sha256 : str
    diagnostics : mapping
        Of the fit, as in `StudyResult`.
    sensitivity : Sensitivity
        Risk at every setting; its base is the audit that the study describes.
    seconds : mapping of str to float
        Wall time of each stage.
    provenance : Provenance or None
        As in `StudyResult`.
    """

    study: Study
    random_seed: int
    data_sha256: str
    diagnostics: Mapping[str, Any]
    sensitivity: Sensitivity
    seconds: Mapping[str, float]
    provenance: Provenance | None = None

    def __repr__(self) -> str:
        return f"{self.study.title}\n\n{self.sensitivity!r}"


def run_sweep(
    study: Study,
    *,
    overwrite: bool = False,
    restart: bool = False,
    progress: Progress | None = None,
    n_jobs: int = 2,
    backend: str | None = None,
    max_memory: str | int | None = None,
    command: str = "",
) -> SweepResult:
    """Vary an audit as the study's ``[sweep]`` says, and write a folder if the study names one.

    Parameters
    ----------
    study, overwrite, restart, progress, n_jobs, backend, max_memory, command
        As in `run_study`. What the study says of identification, membership and the full table is
        left aside.

    Returns
    -------
    SweepResult

    Raises
    ------
    InputError
        A study without ``[sweep]``; as `run_study`.
    MemoryCeilingError
        As `run_study`.
    """
    if study.sweep is None:
        raise InputError(
            'the study has no [sweep]: say what varies, as in priors = ["uniform", "marginal"]'
        )
    study = alone(study)
    from bayes_risk.reporting.swept import write_sweep

    from .costs import held_beneath

    given: dict[str, Any] = {"n_jobs": n_jobs, "backend": backend, "progress": progress}
    with held_beneath(study, "sweep", max_memory, **given) as how:
        return in_folder(
            study,
            "sweep",
            lambda seed: _sweep(study, seed, **how),
            write_sweep,
            overwrite=overwrite,
            restart=restart,
            command=command,
            backend=backend,
            **how,
        )


def _sweep(study: Study, seed: int, *, n_jobs: int, progress: Progress | None) -> SweepResult:
    clock = Clock()
    seeds = seeds_of(seed)
    ready = made(study, clock, seeds=seeds, n_jobs=n_jobs, progress=progress)
    weights = None if ready.reweighting is None else ready.reweighting.rounds[-1].weights

    def refit(declaration: Any) -> Any:
        how = {} if weights is None else {"weights": weights}
        return fit_model(study, declaration, ready.df, random_seed=seeds[0], n_jobs=n_jobs, **how)

    with clock("sweep"):
        found = br.sensitivity(
            ready.fit,
            ready.release,
            refit=refit,
            random_seed=seeds[2],
            n_jobs=n_jobs,
            progress=progress,
            **sweep_options(study),
        )
    return SweepResult(
        study=study,
        random_seed=seed,
        data_sha256=ready.data_sha256,
        diagnostics=diagnostics_of(study, ready.fit),
        sensitivity=found,
        seconds=clock.seconds,
        provenance=ready.provenance,
    )
