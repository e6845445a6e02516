"""An audit: data, fit, release, every risk that the study asks for, verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import bayes_risk as br
from bayes_risk.app.output import Provenance, write_study
from bayes_risk.app.study.declare import attribute_options, matching_options
from bayes_risk.app.study.further import full_table_of, membership_of
from bayes_risk.app.study.inherent import InherentBounds
from bayes_risk.app.study.making import Clock, Made, Progress, made
from bayes_risk.app.study.sections import AttributeSection
from bayes_risk.app.study.study import Study
from bayes_risk.app.study.utility import utility_of
from bayes_risk.app.study.yardsticks import Measured, bounds_of, context_of
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.release.release import Release
from bayes_risk.reporting.verdicts.verdict import Verdict, judge
from bayes_risk.risk.full_table.result import FullTableRisk
from bayes_risk.risk.membership.result import Membership
from bayes_risk.risk.privacy_loss_result import PrivacyLoss
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.studies.reweighting_result import Reweighting
from bayes_risk.utilities.context_result import ContextMeasures
from bayes_risk.utilities.result import Utility

from .shared import diagnostics_of, in_folder, seeds_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyResult:
    """What one run of a study found.

    Attributes
    ----------
    study : Study
        The settings, all of them.
    random_seed : int
        The seed given, or the one drawn when none was.
    data_sha256 : str
        Hash of the data file (or demo table).
    diagnostics : mapping
        Of the fit: chains, draws, R-hat and effective sample size of the log predictives or
        parameters, occupied classes; or counts of records, and ``notes``. Empty when nothing was
        fitted, and for trees and forests.
    release : Release
    attribute : AttributeRisk or None
    identification : IdentificationRisk or None
    utility : Utility or None
    context : ContextMeasures or None
    bounds : InherentBounds or None
    membership : Membership or None
    full_table : FullTableRisk or None
    privacy_loss : PrivacyLoss or None
    reweighting : Reweighting or None
        The loop that made fit, release and attribute risk.
    verdict : Verdict
    seconds : mapping of str to float
        Wall time of each stage.
    provenance : Provenance or None
        The files that were read: name, rows, columns, SHA-256; and what the data hold.
    """

    study: Study
    random_seed: int
    data_sha256: str
    diagnostics: Mapping[str, Any]
    release: Release
    attribute: AttributeRisk | None
    identification: IdentificationRisk | None
    verdict: Verdict
    seconds: Mapping[str, float]
    utility: Utility | None = None
    context: ContextMeasures | None = None
    bounds: InherentBounds | None = None
    membership: Membership | None = None
    full_table: FullTableRisk | None = None
    privacy_loss: PrivacyLoss | None = None
    reweighting: Reweighting | None = None
    provenance: Provenance | None = None

    def __repr__(self) -> str:
        parts: list[Any] = [self.reweighting, self.attribute, self.identification]
        parts += [self.utility, self.context, self.bounds]
        parts += [self.privacy_loss, self.membership, self.full_table]
        return "\n\n".join([self.study.title, *(repr(p) for p in parts if p), repr(self.verdict)])


def run_study(
    study: Study,
    *,
    overwrite: bool = False,
    restart: bool = False,
    progress: Progress | None = None,
    n_jobs: int = 2,
    backend: str | None = None,
    max_memory: str | int | None = None,
    command: str = "",
) -> StudyResult:
    """Run a study, and write its folder if it names one.

    Parameters
    ----------
    study : Study
        From `read_study`, or made in a script.
    overwrite : bool
        Replace an output folder that an earlier run wrote.
    restart : bool
        Throw away the steps that a stopped run finished. By default the same study goes on from
        them, and ends with the same bytes as without the stop.
    progress : callable (stage, done, total), optional
        Called as work proceeds; quiet by default.
    n_jobs : int
        Number of workers. Results do not depend on it.
    backend : {"threads", "loky", "dask"}, optional
        Workers: threads; processes of joblib; or a Dask cluster of ``n_jobs`` processes on this
        machine, begun and closed by the run. By default those of joblib's ``parallel_config``,
        threads if it says nothing. Results do not depend on it.
    max_memory : str or int, optional
        The most memory to take, ``"2GiB"`` or a number of bytes: blocks are made smaller and
        workers fewer to keep beneath it, and the run stops where it is passed all the same. Results
        do not depend on it.
    command : str
        How the run was started, for the manifest.

    Returns
    -------
    StudyResult

    Raises
    ------
    InputError
        Data or settings that do not fit; an output folder that exists (before any work is done), or
        that another run is writing; finished steps of a run that was not the same; more work than
        ``max_memory`` can hold, with the estimate; ``"dask"`` without its packages.
    MemoryCeilingError
        More was taken than ``max_memory``. Finished steps are kept: the same with more goes on.
    ChildProcessError
        Workers died again and again. Finished steps are kept.
    """
    from .costs import held_beneath

    given: dict[str, Any] = {"n_jobs": n_jobs, "backend": backend, "progress": progress}
    with held_beneath(study, "audit", max_memory, **given) as how:
        return in_folder(
            study,
            "audit",
            lambda seed: _run(study, seed, **how),
            write_study,
            overwrite=overwrite,
            restart=restart,
            command=command,
            backend=backend,
            **how,
        )


def _run(study: Study, seed: int, progress: Progress | None, n_jobs: int) -> StudyResult:
    clock = Clock()
    seeds = seeds_of(seed)
    how: dict[str, Any] = {"n_jobs": n_jobs, "progress": progress}
    ready = made(study, clock, seeds=seeds, **how)
    return StudyResult(
        study=study,
        random_seed=seed,
        data_sha256=ready.data_sha256,
        diagnostics=diagnostics_of(study, ready.fit),
        release=ready.release,
        reweighting=ready.reweighting,
        **audits(study, ready, clock, seeds[2:], how),
        seconds=clock.seconds,
        provenance=ready.provenance,
    )


def audits(
    study: Study, ready: Made, clock: Clock, seeds: list[int], how: dict[str, Any]
) -> dict[str, Any]:
    """Every audit that the study asks for, and the verdict on the two risks."""
    attribute = loss = identification = membership = full_table = utility = None
    context = bounds = None
    if study.attribute is not None:
        with clock("attribute risk"):
            attribute, loss = _attribute(study.attribute, ready, seeds[0], how)
    if study.identification is not None:
        with clock("identification risk"):
            df, release = ready.df, ready.release
            matching = matching_options(study, df, release.datasets)
            identification = br.identification_risk(df, release, **matching)
    if study.utility is not None:
        with clock("utility"):
            utility = utility_of(study, ready, random_seed=seeds[3], n_jobs=how["n_jobs"])
    if study.context is not None:
        with clock("context measures"):
            context = context_of(study, ready, random_seed=seeds[4])
    if study.bounds is not None:
        with clock("bounds"):
            measured = Measured(identification=identification, utility=utility, context=context)
            how_many = {"random_seed": seeds[5], "n_jobs": how["n_jobs"]}
            bounds = bounds_of(study, ready, measured, **how_many)
    if study.membership is not None:
        with clock("membership"):
            membership = membership_of(study, ready, random_seed=seeds[1], **how)
    if study.full_table is not None:
        with clock("full table"):
            full_table = full_table_of(study, ready, attribute, random_seed=seeds[2], **how)
    return {
        "attribute": attribute,
        "privacy_loss": loss,
        "identification": identification,
        "utility": utility,
        "context": context,
        "bounds": bounds,
        "membership": membership,
        "full_table": full_table,
        "verdict": judge(
            attribute,
            identification,
            study.thresholds.limits(),
            diagnostics=diagnostics_of(study, ready.fit),
            membership=membership,
            utility=utility,
            where="study",
        ),
    }


def _attribute(
    section: AttributeSection, ready: Made, seed: int, how: dict[str, Any]
) -> tuple[AttributeRisk, PrivacyLoss | None]:
    """Attribute risk, of the last round if there were rounds; and privacy loss if asked for."""
    if ready.reweighting is not None:
        risk = ready.reweighting.risk
        return risk, br.privacy_loss(risk) if section.privacy_loss else None
    options = attribute_options(section) | how
    prior = options.pop("prior", None)
    search = {} if prior is None else {"search_prior": prior}
    evidence = br.attribute_evidence(
        ready.fit, ready.release, random_seed=seed, **search, **options
    )
    return evidence.risk(prior), br.privacy_loss(evidence) if section.privacy_loss else None
