"""A comparison: several ways to make a release, again and again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.app.output import Provenance
from bayes_risk.app.study.candidates import candidates_of, compare_options
from bayes_risk.app.study.making import Clock, Progress, provenance_of, read_data
from bayes_risk.app.study.study import Study
from bayes_risk.studies.comparing.result import Comparison

from .shared import in_folder


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparisonResult:
    """What one comparison of a study's candidates found.

    Attributes
    ----------
    study : Study
    random_seed : int
    data_sha256 : str
    comparison : Comparison
    seconds : mapping of str to float
        Wall time of each stage.
    provenance : Provenance or None
        As in `StudyResult`.
    """

    study: Study
    random_seed: int
    data_sha256: str
    comparison: Comparison
    seconds: Mapping[str, float]
    provenance: Provenance | None = None

    def __repr__(self) -> str:
        return f"{self.study.title}\n\n{self.comparison!r}"


def run_compare(
    study: Study,
    *,
    overwrite: bool = False,
    restart: bool = False,
    progress: Progress | None = None,
    n_jobs: int = 2,
    backend: str | None = None,
    max_memory: str | int | None = None,
    command: str = "",
) -> ComparisonResult:
    """Compare the candidates of ``[compare]``, and write a folder if the study names one.

    Parameters
    ----------
    study, overwrite, restart, progress, n_jobs, backend, max_memory, command
        As in `run_study`. What the study says of membership, the full table and a sweep is left
        aside.

    Returns
    -------
    ComparisonResult

    Raises
    ------
    InputError
        A study without ``[compare]``; as `run_study`.
    MemoryCeilingError
        As `run_study`.
    """
    if study.compare is None:
        raise InputError(
            "the study has no [compare]: name candidates, as in [compare.trees] and "
            'model = { kind = "CART", order = ["income"] }'
        )
    from bayes_risk.reporting.compared import write_comparison

    from .costs import held_beneath

    given: dict[str, Any] = {"n_jobs": n_jobs, "backend": backend, "progress": progress}
    with held_beneath(study, "comparison", max_memory, **given) as how:
        return in_folder(
            study,
            "comparison",
            lambda seed: _compare(study, seed, **how),
            write_comparison,
            overwrite=overwrite,
            restart=restart,
            command=command,
            backend=backend,
            **how,
        )


def _compare(
    study: Study, seed: int, *, n_jobs: int, progress: Progress | None
) -> ComparisonResult:
    clock = Clock()
    with clock("data"):
        df, sha256 = read_data(study.data)
        candidates, options = candidates_of(study, df), compare_options(study, df)
        provenance = provenance_of(study, df, sha256, candidates)
    with clock("comparison"):
        how: dict[str, Any] = {"random_seed": seed, "n_jobs": n_jobs, "progress": progress}
        found = br.compare(candidates, df, **options, **how)
    return ComparisonResult(
        study=study,
        random_seed=seed,
        data_sha256=sha256,
        comparison=found,
        seconds=clock.seconds,
        provenance=provenance,
    )
