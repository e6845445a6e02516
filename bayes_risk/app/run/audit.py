"""An audit, sweep or comparison: data, fit, release, every risk that is asked for, verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import bayes_risk as br
from bayes_risk.app.study.audits import (
    InherentBounds,
    Measured,
    bounds_of,
    context_of,
    full_table_of,
    membership_of,
    utility_of,
)
from bayes_risk.app.study.declare import (
    attribute_options,
    compare_options,
    fit_model,
    matching_options,
    sweep_options,
)
from bayes_risk.app.study.prepare import Clock, Prepared, candidates_of, prepare
from bayes_risk.app.study.reading import provenance_of, read_data
from bayes_risk.app.study.sections import AttributeSection
from bayes_risk.app.study.study import Study
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.release.provenance import Provenance
from bayes_risk.release.release import Release
from bayes_risk.reporting.verdicts.verdict import Verdict, judge
from bayes_risk.risk.full_table.result import FullTableRisk
from bayes_risk.risk.membership.result import Membership
from bayes_risk.risk.privacy_loss_result import PrivacyLoss
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.studies.comparison import Comparison
from bayes_risk.studies.reweighting_result import Reweighting
from bayes_risk.studies.sensitivity_result import Sensitivity
from bayes_risk.utilities.context_result import ContextMeasures
from bayes_risk.utilities.result import Utility


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunResult:
    """What every run of a study says of itself.

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
        fitted, and for trees, forests and comparisons.
    seconds : mapping of str to float
        Wall time of each stage.
    provenance : Provenance or None
        The files that were read: name, rows, columns, SHA-256; and what the data hold.
    """

    study: Study
    random_seed: int
    data_sha256: str
    seconds: Mapping[str, float]
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyResult(RunResult):
    """What one audit found.

    Attributes
    ----------
    study, random_seed, data_sha256, diagnostics, seconds, provenance
        As in `RunResult`.
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
    """

    release: Release
    attribute: AttributeRisk | None
    identification: IdentificationRisk | None
    verdict: Verdict
    utility: Utility | None = None
    context: ContextMeasures | None = None
    bounds: InherentBounds | None = None
    membership: Membership | None = None
    full_table: FullTableRisk | None = None
    privacy_loss: PrivacyLoss | None = None
    reweighting: Reweighting | None = None

    def __repr__(self) -> str:
        parts: list[Any] = [self.reweighting, self.attribute, self.identification]
        parts += [self.utility, self.context, self.bounds]
        parts += [self.privacy_loss, self.membership, self.full_table]
        return "\n\n".join([self.study.title, *(repr(p) for p in parts if p), repr(self.verdict)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SweepResult(RunResult):
    """What one sweep of a study found.

    Attributes
    ----------
    study, random_seed, data_sha256, diagnostics, seconds, provenance
        As in `RunResult`.
    sensitivity : Sensitivity
        Risk at every setting; its base is the audit that the study describes.
    """

    sensitivity: Sensitivity

    def __repr__(self) -> str:
        return f"{self.study.title}\n\n{self.sensitivity!r}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparisonResult(RunResult):
    """What one comparison of a study's candidates found.

    Attributes
    ----------
    study, random_seed, data_sha256, diagnostics, seconds, provenance
        As in `RunResult`.
    comparison : Comparison
    """

    comparison: Comparison

    def __repr__(self) -> str:
        return f"{self.study.title}\n\n{self.comparison!r}"


def seeds_of(seed: int) -> list[int]:
    """Of fit, release, attribute risk, membership, full table, utility, context, and bounds."""
    return [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(8)]


def diagnostics_of(fit: Any) -> dict[str, Any]:
    """What the fit says of itself; notes of prediction models in words."""
    if fit is None:
        return {}
    found, notes = dict(fit.diagnostics), getattr(fit, "notes", None)
    return found if notes is None else found | {"notes": list(notes)}


def audit_of(study: Study, seed: int, **how: Any) -> StudyResult:
    """Every audit of a study."""
    clock, seeds = Clock(), seeds_of(seed)
    ready = prepare(study, clock, seeds=seeds, **how)
    return StudyResult(
        release=ready.release,
        reweighting=ready.reweighting,
        **audits(study, ready, clock, seeds[2:], how),
        **_of_itself(study, seed, clock, ready),
    )


def sweep_of(study: Study, seed: int, **how: Any) -> SweepResult:
    """The attribute audit at every setting of ``[sweep]``; no other audit."""
    study = alone(study)
    clock, seeds = Clock(), seeds_of(seed)
    ready = prepare(study, clock, seeds=seeds, **how)
    weights = None if ready.reweighting is None else ready.reweighting.rounds[-1].weights
    given: dict[str, Any] = {} if weights is None else {"weights": weights}

    def refit(declaration: Any) -> Any:
        again = given | {"random_seed": seeds[0], "n_jobs": how["n_jobs"]}
        return fit_model(study, declaration, ready.df, **again)

    with clock("sweep"):
        options = sweep_options(study, ready.fit, ready.release)
        found = br.sensitivity(
            ready.fit, ready.release, refit=refit, random_seed=seeds[2], **how, **options
        )
    return SweepResult(sensitivity=found, **_of_itself(study, seed, clock, ready))


def compare_of(study: Study, seed: int, **how: Any) -> ComparisonResult:
    """Every replicate of the candidates of ``[compare]``."""
    clock = Clock()
    with clock("data"):
        df, sha256 = read_data(study.data)
        candidates, options = candidates_of(study, df), compare_options(study, df)
        provenance = provenance_of(study, df, sha256, candidates)
    with clock("comparison"):
        found = br.compare(candidates, df, random_seed=seed, **options, **how)
    return ComparisonResult(
        study=study,
        random_seed=seed,
        data_sha256=sha256,
        comparison=found,
        seconds=clock.seconds,
        provenance=provenance,
    )


ASIDE = ("identification", "utility", "context", "bounds", "membership", "full_table")


def alone(study: Study) -> Study:
    """The study of a sweep: its attribute audit alone."""
    return study.model_copy(update=dict.fromkeys(ASIDE))


def _of_itself(study: Study, seed: int, clock: Clock, ready: Prepared) -> dict[str, Any]:
    return {
        "study": study,
        "random_seed": seed,
        "data_sha256": ready.data_sha256,
        "diagnostics": diagnostics_of(ready.fit),
        "seconds": clock.seconds,
        "provenance": ready.provenance,
    }


def audits(
    study: Study, ready: Prepared, clock: Clock, seeds: list[int], how: dict[str, Any]
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
            diagnostics=diagnostics_of(ready.fit),
            membership=membership,
            utility=utility,
            where="study",
        ),
    }


def _attribute(
    section: AttributeSection, ready: Prepared, seed: int, how: dict[str, Any]
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
