"""An audit, sweep or comparison: data, fit, release, every risk that is asked for, verdict."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk._core.formats import begun, number, significant
from bayes_risk.app.study.declare import (
    bounds_options,
    compare_options,
    fit_model,
    matching_options,
    membership_options,
    provenance_of,
    read_beside,
    read_data,
    sweep_options,
    utility_options,
)
from bayes_risk.app.study.prepare import (
    Clock,
    Prepared,
    candidates_of,
    needs_fit,
    prepare,
    synthesize,
)
from bayes_risk.app.study.study import Study
from bayes_risk.data.base_result import Result, Table, spread, value
from bayes_risk.data.variables import Variable
from bayes_risk.release.provenance import Provenance
from bayes_risk.reporting.verdicts.verdict import Verdict, judge
from bayes_risk.studies.compare import Number, of_identification, of_utility
from bayes_risk.studies.comparison import MEASURES
from bayes_risk.utilities.context_result import MEANINGS, ContextMeasures

PLACES = ("minimum", "release", "maximum", "unchanged")
CONTEXT = ("repu", "disco", "dcap", "tcap")  # shares that a release without distances has
HEADLINES = ("expected_match_risk", "pmse_cart", "repu")  # the first of each kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InherentBounds(Result):
    """Measures of a release beside those at the ends of the scale; made by a study's ``[bounds]``.

    See Also
    --------
    bayes_risk.release_bounds : Makes the releases; what they bound, and what not.
    """

    found: pd.DataFrame  # a row per measure; context measures with their target, ``disco (job)``
    patterns: tuple[str, ...]  # columns; none: all records share one pattern
    alone: int  # records with a pattern of their own, which keep their values at the maximum
    n: int
    m: int  # data sets of each end
    seed_entropy: str  # of the ends

    def summary(self) -> pd.DataFrame:
        """One row per measure: as `ReleaseBounds.between`, and ``mcse`` of the release."""
        return self.found

    def sentence(self) -> str:
        """The result in plain words."""
        by = f"with the same {', '.join(self.patterns)}" if self.patterns else "of the whole file"
        told = [
            "The scale goes from values drawn uniformly (minimum) to values redrawn among records "
            f"{by} (maximum; {self.alone:,} of {self.n:,} records are alone there and keep theirs)."
        ]
        told += [_stands(name, self.found.loc[name]) for name in self.headlines]
        return " ".join(told)

    @property
    def headlines(self) -> list[str]:
        """A measure of each kind: of identification, of utility, of context."""
        return [name for name in HEADLINES if name in self.found.index]

    def line(self) -> str:
        """The first measure between the ends."""
        name = [*self.headlines, *self.found.index][0]
        row = self.found.loc[name]
        return (
            f"{words_of(name)} {number(row['release'])}, between {number(row['minimum'])} (uniform "
            f"values) and {number(row['maximum'])} (redrawn within patterns)"
        )

    def tables(self) -> dict[str, Table]:
        """Each measure at both ends, of the release between them, and unchanged."""
        found = Table(
            note=(
                "The ends bound what synthesis given the patterns can do on average. A model that "
                "knows more columns, or copies records, can be above the maximum, and that is a "
                "finding. Where the ends are close together the position is noise."
            ),
            caption=f"Means over {self.m:,} data sets each.",
            frame=self.found,
            labels=lambda name: begun(words_of(str(name))),
            columns=[
                *((begun(place), value(place, significant, digits=4)) for place in PLACES),
                ("Release, 2 s.e.", spread("mcse", "release")),
                ("Position (0 to 1)", value("position", digits=2)),
            ],
            file="bounds",
        )
        return {"measures": found}


def words_of(measure: str) -> str:
    """A measure in words: ``DiSCO of job``."""
    if measure in MEASURES:
        return MEASURES[measure].words
    name, _, target = measure.partition(" (")
    written = MEANINGS[name].written
    return f"{written} of {target[:-1]}" if target else written


def _stands(name: str, row: Any) -> str:
    where = "" if pd.isna(row["position"]) else f", at {number(row['position'], 2)} of the way"
    return (
        f"{begun(words_of(name))}: {number(row['release'])}, between {number(row['minimum'])} and "
        f"{number(row['maximum'])}{where} ({number(row['unchanged'])} unchanged)."
    )


def measured(
    study: Study,
    df: pd.DataFrame,
    release: br.Release,
    clock: Clock,
    *,
    seeds: Sequence[int],
    n_jobs: int,
    **context: Any,
) -> dict[str, Any]:
    """What the study measures of a release without a model: results by the name of the section.

    ``seeds``: of utility, and of context measures.
    """
    found: dict[str, Any] = {}
    if study.identification is not None:
        with clock("identification risk"):
            options = matching_options(study, df, release.datasets)
            found["identification"] = br.identification_risk(df, release, **options)
    if study.utility is not None:
        with clock("utility"):
            options = utility_options(study) | {"random_seed": seeds[0], "n_jobs": n_jobs}
            found["utility"] = br.utility(df, release, **options)
    if study.context is not None:
        with clock("context measures"):
            options = study.context.model_dump() | {"random_seed": seeds[1]} | context
            found["context"] = br.context_measures(df, release, **options)
    return found


def numbers_of(found: Mapping[str, Any]) -> dict[str, Number]:
    """File-level numbers of such results, by name."""
    numbers: dict[str, Number] = {}
    if found.get("identification") is not None:
        numbers |= of_identification(found["identification"])
    if found.get("utility") is not None:
        numbers |= of_utility(found["utility"])
    if (context := found.get("context")) is not None:
        nan, values = float("nan"), context.summary()["value"].tolist()
        numbers |= {
            f"{name} ({target})" if target else name: Number(number, nan, nan)
            for (target, name), number in zip(context.rows, values, strict=True)
            if name in CONTEXT
        }
    return numbers


def bounds_of(
    study: Study,
    df: pd.DataFrame,
    release: br.Release,
    found: Mapping[str, Any],
    *,
    random_seed: int,
    n_jobs: int,
) -> InherentBounds | None:
    """The numbers of the release beside those at both ends of the scale."""
    own = numbers_of(found)
    if not own:
        return None
    seeds = np.random.SeedSequence(random_seed).generate_state(2)
    usual: dict[str, Any] = {"synthesized": release.synthesized, "m": release.m}
    ends = br.release_bounds(df, random_seed=int(seeds[0]), **usual | bounds_options(study))
    without: dict[str, Any] = {"distances": False, "holdout": None}
    how: dict[str, Any] = {"seeds": [int(seeds[1])] * 2, "n_jobs": n_jobs, **without}

    def values(one: br.Release) -> dict[Hashable, float]:
        numbers = own if one is release else numbers_of(measured(study, df, one, Clock(), **how))
        return {name: number.value for name, number in numbers.items()}

    table = ends.between(release, values)
    return InherentBounds(
        found=table.assign(mcse=[own[name].mcse for name in table.index]),
        patterns=tuple(map(str, ends.patterns)),
        alone=ends.alone,
        n=len(df),
        m=ends.minimum.m,
        seed_entropy=str(random_seed),
    )


# --- the scale between both ends of risk --------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunResult:
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
    "attribute risk": 40,
    "identification risk": 5,
    "utility": 10,
    "context measures": 5,
    "bounds": 20,
    "membership": 30,
    "full table": 20,
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
    for words in STAGES if what == "audit" else ():
        section = words.removesuffix(" risk").removesuffix(" measures").replace(" ", "_")
        asked.setdefault(words, getattr(study, section, None) is not None)
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
    """Every audit that the study asks for, by name of its section, and the verdict."""
    df, release, n_jobs = ready.df, ready.release, how["n_jobs"]
    found: dict[str, Any] = {"attribute": None, "identification": None}
    if study.attribute is not None:
        with clock("attribute risk"):
            found["attribute"], found["privacy_loss"] = _attribute(study, ready, seeds[0], how)
    held_out = None if study.context is None else read_beside(study, study.context.holdout, df)
    own: dict[str, Any] = {"n_jobs": n_jobs, "holdout": held_out}
    found |= measured(study, df, release, clock, seeds=seeds[3:5], **own)
    if study.bounds is not None:
        with clock("bounds"):
            how_far = {"random_seed": seeds[5], "n_jobs": n_jobs}
            found["bounds"] = bounds_of(study, df, release, found, **how_far)
    if study.membership is not None:
        with clock("membership"):
            found["membership"] = _membership(study, ready, seeds[1], how)
    if study.full_table is not None:
        with clock("full table"):
            found["full_table"] = _full_table(study, ready, found["attribute"], seeds[2], how)
    verdict = judge(
        found["attribute"],
        found["identification"],
        study.thresholds.made(),
        diagnostics=diagnostics_of(ready.fit),
        membership=found.get("membership"),
        utility=found.get("utility"),
    )
    return found | {"verdict": verdict}


def _attribute(
    study: Study, ready: Prepared, seed: int, how: dict[str, Any]
) -> tuple[br.AttributeRisk, br.PrivacyLoss | None]:
    """Attribute risk, of the last round if there were rounds; and privacy loss if asked for."""
    lost = study.attribute.privacy_loss
    if ready.reweighting is not None:
        risk = ready.reweighting.risk
        return risk, br.privacy_loss(risk) if lost else None
    options = study.attribute.options | how | {"before": study.attribute.before}
    prior = options.pop("prior", None)
    search = {} if prior is None else {"search_prior": prior}
    evidence = br.attribute_evidence(
        ready.fit, ready.release, random_seed=seed, **search, **options
    )
    return evidence.risk(prior), br.privacy_loss(evidence) if lost else None


def _membership(study: Study, ready: Prepared, seed: int, how: dict[str, Any]) -> br.Membership:
    """Who is in the data: asked of the release, or of one made without the records held out."""
    df, fit, release, section = ready.df, ready.fit, ready.release, study.membership
    seeds = [int(s.generate_state(1)[0]) for s in np.random.SeedSequence(seed).spawn(4)]
    others = read_beside(study, section.others, df)
    if section.held_out is not None:
        order = np.random.default_rng(seeds[0]).permutation(len(df))
        cut = min(max(round(section.held_out * len(order)), 1), len(order) - 1)
        others, kept = df.iloc[np.sort(order[:cut])], df.iloc[np.sort(order[cut:])]
        levels = {v.name: v.levels for v in fit.microdata.variables if isinstance(v, Variable)}
        own = {"levels": levels, "random_seed": seeds[1], **how}
        fit = fit_model(study, ready.declaration, kept, **own)
        release = synthesize(fit, study, random_seed=seeds[2])
    options = membership_options(section) | how
    return br.membership(fit, release, others=others, random_seed=seeds[3], **options)


def _full_table(
    study: Study,
    ready: Prepared,
    attribute: br.AttributeRisk | None,
    seed: int,
    how: dict[str, Any],
) -> br.FullTableRisk:
    """Where the truth stands among all values, of the records at highest risk."""
    options = study.full_table.model_dump() | how | {"random_seed": seed}
    if isinstance(options["targets"], int) and attribute is not None:
        options["targets"] = list(attribute.worst(options["targets"]).index)
    intruder = None if study.attribute is None else study.attribute.knows
    return br.full_table_risk(ready.fit, ready.release, intruder=intruder, **options)
