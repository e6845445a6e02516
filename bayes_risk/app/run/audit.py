"""An audit, sweep or comparison: data, fit, release, every risk that is asked for, verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

import bayes_risk as br
from bayes_risk._core.shown import Shown
from bayes_risk.app.study.audits import AUDITS, Prepared
from bayes_risk.app.study.declare import (
    compare_options,
    fit_model,
    provenance_of,
    read_data,
    sweep_options,
)
from bayes_risk.app.study.prepare import Clock, candidates_of, needs_fit, prepare
from bayes_risk.app.study.study import Study
from bayes_risk.release.provenance import Provenance
from bayes_risk.reporting.verdicts.verdict import Verdict, judge
from bayes_risk.studies.bounds import InherentBounds
from bayes_risk.utilities.context_result import ContextMeasures


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunResult(Shown):
    """What every run of a study says of itself.

    ``diagnostics`` are those of the fit: chains, draws, R-hat and effective sample size of the log
    predictives or parameters, occupied classes; or counts of records, and ``notes``. Empty when
    nothing was fitted, and for trees, forests and comparisons.
    """

    study: Study  # the settings, all of them
    random_seed: int  # the one given, or drawn when none was
    data_sha256: str  # of the data file, or demo table
    seconds: Mapping[str, float]  # wall time of each stage
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance | None = None  # the files that were read, and what the data hold

    def __repr__(self) -> str:
        own = {f.name for f in fields(RunResult)} | {"release"}
        parts = [getattr(self, f.name) for f in fields(self) if f.name not in own]
        return "\n\n".join([self.study.title, *(repr(part) for part in parts if part is not None)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class StudyResult(RunResult):
    """What one audit found; None: not asked for. Reweighting made fit, release, attribute risk."""

    release: br.Release
    reweighting: br.Reweighting | None = None
    attribute: br.AttributeRisk | None
    identification: br.IdentificationRisk | None
    utility: br.Utility | None = None
    context: ContextMeasures | None = None
    bounds: InherentBounds | None = None
    privacy_loss: br.PrivacyLoss | None = None
    membership: br.Membership | None = None
    full_table: br.FullTableRisk | None = None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SweepResult(RunResult):
    """Risk at every setting of a sweep; its base is the audit that the study describes."""

    sensitivity: br.Sensitivity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ComparisonResult(RunResult):
    """Risk and utility of a study's candidates."""

    comparison: br.Comparison


def seeds_of(seed: int) -> list[int]:
    """Of fit, release, attribute risk, membership, full table, utility, context, and bounds."""
    return [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(8)]


def diagnostics_of(fit: Any) -> dict[str, Any]:
    """What the fit says of itself; notes of prediction models in words."""
    if fit is None:
        return {}
    found, notes = dict(fit.diagnostics), getattr(fit, "notes", None)
    return found if notes is None else found | {"notes": list(notes)}


STAGES = {  # of runs, in their order, and what each takes beside the others, roughly
    "data": 2,
    "reweighting": 200,
    "fit": 30,
    "release": 1,
    "sweep": 200,
    "comparison": 200,
    **{audit.stage: audit.share for audit in AUDITS.values()},
    "report": 2,
}


def stages_of(study: Study, what: str) -> list[str]:
    """The stages of a run, in their order."""
    fitted, weighed = what != "compare", study.reweight is not None
    asked = {
        "data": True,
        "reweighting": fitted and weighed,
        "fit": fitted and not weighed and needs_fit(study),
        "release": fitted and not weighed and study.release.files is None,
        "sweep": what == "sweep",
        "comparison": what == "compare",
        "report": study.output.folder is not None,
    }
    if what == "audit":
        asked |= {one.stage: getattr(study, name) is not None for name, one in AUDITS.items()}
    return [words for words in STAGES if asked.get(words)]


def audit_of(study: Study, seed: int, **how: Any) -> StudyResult:
    """Every audit of a study."""
    clock, seeds = Clock(tell=how["progress"]), seeds_of(seed)
    ready = prepare(study, clock, seeds=seeds, **how)
    found = audits(study, ready, clock, seeds[2:], how)
    return StudyResult(
        release=ready.release,
        reweighting=ready.reweighting,
        **found,
        **_of_itself(study, seed, clock, ready),
    )


def sweep_of(study: Study, seed: int, **how: Any) -> SweepResult:
    """The attribute audit at every setting of ``[sweep]``; no other audit."""
    study = alone(study)
    clock, seeds = Clock(tell=how["progress"]), seeds_of(seed)
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
    clock = Clock(tell=how["progress"])
    with clock("data"):
        df, sha256 = read_data(study.data)
        candidates, options = candidates_of(study, df), compare_options(study, df)
        provenance = provenance_of(study, df, sha256, candidates)
    with clock("comparison"):
        found = br.compare(candidates, df, random_seed=seed, **options, **how)
    own: dict[str, Any] = {"data_sha256": sha256, "provenance": provenance}
    own["seconds"] = clock.seconds
    return ComparisonResult(study=study, random_seed=seed, comparison=found, **own)


def alone(study: Study) -> Study:
    """The study of a sweep: its attribute audit alone."""
    return study.model_copy(update=dict.fromkeys(set(AUDITS) - {"attribute"}))


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
    """Every audit that the study asks for, by name of its section, and the verdict."""
    found: dict[str, Any] = {"attribute": None, "identification": None}
    for name, audit in AUDITS.items():
        if getattr(study, name) is not None:
            with clock(audit.stage):
                found |= audit.work(study, ready, found, seeds[audit.seed], how)
    verdict = judge(
        found["attribute"],
        found["identification"],
        study.thresholds.made(),
        diagnostics=diagnostics_of(ready.fit),
        membership=found.get("membership"),
        utility=found.get("utility"),
    )
    return found | {"verdict": verdict}
