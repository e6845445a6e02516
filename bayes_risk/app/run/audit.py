"""An audit, sweep or comparison: data, fit, release, every risk that is asked for, verdict.

What a run would refuse is refused before a model is sampled, which may take long: the model is
declared and given the table, all but for its draws, and the library's own checks are asked of it:
synthesis, and every audit, with the table itself in the place of the release. What is refused of a
table that was released unchanged is refused of the release too.
"""

import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from inspect import signature
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk._core.checkpoint import rehearsal, within
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.memory import at_stage
from bayes_risk._core.shown import Shown
from bayes_risk.app.study.declare import (
    AUDITS,
    Prepared,
    begin,
    bounds_of,
    compare_options,
    fit_model,
    matching_options,
    provenance_of,
    read_data,
    read_release,
    sweep_options,
    synthesis_options,
)
from bayes_risk.app.study.sections import INTRUDER
from bayes_risk.app.study.study import Study, candidate_study, changed
from bayes_risk.evidence.contract import Fit
from bayes_risk.matching.correspondence import RowCorrespondence, correspondence
from bayes_risk.matching.input import read_rows
from bayes_risk.release.provenance import Provenance
from bayes_risk.release.synthpop import read_releases
from bayes_risk.reporting.verdicts.verdict import Verdict, judge
from bayes_risk.studies.bounds import InherentBounds
from bayes_risk.studies.grid import Swept, audit_of, swept, taken
from bayes_risk.utilities.context_result import ContextMeasures

Progress = Callable[[str, int, int], None]


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
    identification: br.IdentificationRisk | br.MatchCounts | None
    utility: br.Utility | None = None
    context: ContextMeasures | None = None
    bounds: InherentBounds | None = None
    privacy_loss: br.PrivacyLoss | None = None
    membership: br.Membership | None = None
    full_table: br.FullTableRisk | None = None
    correspondence: RowCorrespondence | None = None  # of files whose rows are in question
    notes: tuple[str, ...] | None = None  # on what was asked of files alone; None: a study
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SweepResult(RunResult):
    """Risk at every setting of a sweep; its base is the audit that the study describes."""

    sensitivity: br.Sensitivity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ComparisonResult(RunResult):
    """Risk and utility of a study's candidates."""

    comparison: br.Comparison


@dataclass(slots=True)
class Clock:
    """Time of each stage, wall time unless another clock is given.

    ``tell`` is told where each begins and ends, but for the first, in which a run may be refused.
    """

    now: Callable[[], float] = time.perf_counter
    tell: Progress | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time what is done in the block, the steps that are kept of it under the stage's name."""
        start, tell = self.now(), self.tell if self.seconds else None
        with within(stage), at_stage(stage):
            if tell is not None:
                tell(stage, 0, 1)
            yield
            if tell is not None:
                tell(stage, 1, 1)
        self.seconds[stage] = self.now() - start


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
        "fit": fitted and not weighed and study.needs_fit,
        "release": fitted and not weighed and study.release.files is None,
        "sweep": what == "sweep",
        "comparison": what == "compare",
        "report": study.output.folder is not None,
    }
    if what in ("audit", "identify"):
        asked |= {one.stage: getattr(study, name) is not None for name, one in AUDITS.items()}
    return [words for words in STAGES if asked.get(words)]


def seeds_of(seed: int) -> list[int]:
    """Of fit, release, attribute risk, membership, full table, utility, context, and bounds."""
    return [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(8)]


def diagnostics_of(fit: Any) -> dict[str, Any]:
    """What the fit says of itself; notes of prediction models in words."""
    if fit is None:
        return {}
    found, notes = dict(fit.diagnostics), getattr(fit, "notes", None)
    return found if notes is None else found | {"notes": list(notes)}


def result_of(study: Study, what: str, seed: int, **how: Any) -> RunResult:
    """Every audit of a study; its attribute audit at every setting of ``[sweep]``, no other audit.

    Or every replicate of the candidates of ``[compare]``. ``how``: n_jobs, progress.
    """
    clock, seeds = Clock(tell=how["progress"]), seeds_of(seed)
    own: dict[str, Any] = {"random_seed": seed, "seconds": clock.seconds}
    if what == "compare":
        with clock("data"):
            df, sha256 = read_data(study.data)
            candidates, options = candidates_of(study, df), compare_options(study, df)
            own["provenance"] = provenance_of(study, df, sha256, candidates)
        with clock("comparison"):
            comparison = br.compare(candidates, df, random_seed=seed, **options, **how)
        return ComparisonResult(study=study, comparison=comparison, data_sha256=sha256, **own)
    if what == "identify":
        return matched(study, clock, own)
    study = alone(study) if what == "sweep" else study
    with clock("data"):
        if study.needs_fit:
            study.model.declared()  # what is wrong shows first
        df, sha256 = read_data(study.data)
        declaration, release = checked_inputs(study, df)
        own["provenance"] = provenance_of(study, df, sha256, {"": release})
    ready = fit_and_release(study, declaration, df, release, clock, seeds=seeds, **how)
    loop = ready.reweighting
    own |= {"study": study, "data_sha256": sha256, "diagnostics": diagnostics_of(ready.fit)}
    if what == "audit":
        found = audits(study, ready, clock, seeds[2:], how)
        return StudyResult(release=ready.release, reweighting=loop, **found, **own)

    def refit(declaration: Any) -> Any:
        weights = {} if loop is None else {"weights": loop.rounds[-1].weights}
        again = weights | {"random_seed": seeds[0], "n_jobs": how["n_jobs"]}
        return fit_model(study, declaration, df, **again)

    with clock("sweep"):
        options = sweep_options(study, ready.fit, ready.release) | how
        sensitivity = br.sensitivity(
            ready.fit, ready.release, refit=refit, random_seed=seeds[2], **options
        )
    return SweepResult(sensitivity=sensitivity, **own)


def matched(study: Study, clock: Clock, own: Mapping[str, Any]) -> StudyResult:
    """Matching of files made elsewhere, of which nothing is known but their keys."""
    keys, section = study.identification, study.release
    with clock("data"):
        df, sha256 = read_data(study.data)
        tables = read_releases(section.files or [], df, **study.data.reading)
    with clock("identification risk"):
        options = matching_options(study, df, tables)
        risk = br.identification_risk(df, tables, **options)
        rows = None
        if isinstance(risk, br.IdentificationRisk):
            rows = correspondence(df, read_rows(df, tables, True)[0], keys.synthesized)
    release = br.Release(datasets=tables, synthesized=keys.synthesized, classes="new")
    notes = [  # a share was meant, perhaps
        f"--radius {name}={rule.units:g} reaches {rule.units:g} units to either side, and {name} "
        f"holds whole numbers, so that it must be equal; for {100 * rule.units:g} % write "
        f"{name}={100 * rule.units:g}%"
        for name, rule in (options["radius"] or {}).items()
        if isinstance(rule, br.Absolute)
        and 0 < rule.units < 1
        and (df[name].dropna() % 1 == 0).all()
    ]
    return StudyResult(
        study=study,
        data_sha256=sha256,
        release=release,
        attribute=None,
        identification=risk,
        correspondence=rows,
        notes=tuple(notes),
        verdict=judge(None, risk, study.thresholds.made(), rows=rows),
        provenance=provenance_of(study, df, sha256, {"": release}),
        **own,
    )


def alone(study: Study) -> Study:
    """The study of a sweep: its attribute audit alone."""
    return study.model_copy(update=dict.fromkeys(set(AUDITS) - {"attribute"}))


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


def fit_and_release(
    study: Study,
    declaration: Any,
    df: pd.DataFrame,
    release: br.Release | None,
    clock: Clock,
    *,
    seeds: list[int],
    **how: Any,
) -> Prepared:
    """Fit and release of a table, or the loop that makes them; a release made elsewhere stays."""
    fit: Any = None
    loop = None
    if (section := study.reweight) is not None:
        with clock("reweighting"):  # fit, synthesise and audit, weigh down, again
            own = {"missing": study.data.missing, "n_jobs": how["n_jobs"]}
            loop = br.reweight(
                declaration,
                df,
                **section.given_to(br.reweight),
                weights_from=br.LinearWeights(**section.given_to(br.LinearWeights)),
                fit=study.model.fit_options() | taken(declaration.fit, **own),
                synthesis=synthesis_options(study),
                audit=study.attribute.options | {"n_jobs": how["n_jobs"]},
                random_seed=seeds[0],
                progress=how["progress"],
            )
        fit, release = loop.fit, loop.release
    elif study.needs_fit:
        with clock("fit"):
            fit = fit_model(study, declaration, df, random_seed=seeds[0], **how)
    if release is None:
        with clock("release"):
            release = fit.synthesize(random_seed=seeds[1], **synthesis_options(study))
    return Prepared(df=df, declaration=declaration, fit=fit, release=release, reweighting=loop)


def checked_inputs(study: Study, df: pd.DataFrame) -> tuple[Any, br.Release | None]:
    """The declaration and the release made elsewhere, after every check that needs no sampling.

    A run, and a dry run of it, call this before the first draw.
    """
    declaration = study.model.declared(df) if study.needs_fit else None
    return declaration, rehearse(study, df, unsampled(study, declaration, df))


def candidates_of(study: Study, df: pd.DataFrame) -> dict[str, Any]:
    """Every candidate as ``compare`` takes it, checked against the table."""
    found: dict[str, Any] = {}
    any_made: dict[str, None] = {}
    for name in study.compare.candidates:
        try:
            one = candidate_study(study, name, df)
            found[name] = _candidate(one, df)
        except InputError as error:
            raise InputError(f"[compare.{name}]: {error}") from None
        any_made |= dict.fromkeys(one.synthesized_in(df))
    if study.compare.bounds:
        with named(study, "bounds"):
            bounds_of(study, df, [*any_made], m=1, random_seed=0)
    return found


def _candidate(study: Study, df: pd.DataFrame) -> Any:
    declaration, release = checked_inputs(study, df)
    if release is not None:
        return release
    own = {} if study.attribute is None else study.attribute.options
    options = synthesis_options(study)
    return br.Candidate(
        SimpleNamespace(fit=partial(fit_model, study, declaration)),
        m=options.pop("m"),
        columns=options.pop("columns"),
        synthesis=options,
        attribute={k: v for k, v in own.items() if k != "targets"},
    )


# --- before a model is sampled --------------------------------------------------------------------


def unsampled(study: Study, declaration: Any, df: pd.DataFrame) -> Fit | None:
    """The fit before its draws; None: there is none, or the model has none such."""
    if declaration is None:
        return None
    way = getattr(declaration, study.model.way)
    if study.model.way == "fit" and "sample" not in signature(way).parameters:
        return None
    with named(study, "model"):
        fit = begin(study, declaration, df)
    if study.reweight is not None:
        with named(study, "reweight"):
            fit = begin(study, declaration, df, weights=np.full(len(df), 0.5))
    return cast(Fit, fit)


def rehearse(study: Study, df: pd.DataFrame, fit: Fit | None) -> br.Release | None:
    """Try every audit of a study, as far as to its first draw; gives the release made elsewhere.

    It costs matching, context measures without distances, analyses and guesses once.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come with the audit itself
        usual = stand_in(study, df, fit)
        release = read_release(study, df, usual)
        shown = usual if release is None else release
        ready = Prepared(df=df, declaration=None, fit=fit, release=shown.first(2))
        small, how = _at_little_cost(study), {"n_jobs": 1, "progress": None}
        for name, audit in AUDITS.items():
            if getattr(small, name) is not None and (fit is not None or not audit.of_model):
                with named(study, name), rehearsal():
                    audit.work(small, ready, {}, 0, how)
        if fit is not None and study.sweep is not None:
            with named(study, "sweep"):
                _try_sweep(study, df, fit, shown)
    return release


def _at_little_cost(study: Study) -> Study:
    """The study as it is rehearsed: what is drawn may be other records, and need not be many."""
    few = {"context": {"lookups": 1}, "bounds": {"m": 1}, "membership": {"held_out": None}}
    sections: dict[str, Any] = {
        name: getattr(study, name).model_copy(update=less)
        for name, less in few.items()
        if getattr(study, name) is not None
    }
    if (audit := study.attribute) is not None and isinstance(audit.targets, int):
        sections["attribute"] = audit.placed_anywhere()
    if study.compare is not None:  # whose ends are those of all candidates
        sections["bounds"] = None
    return study.model_copy(update=sections)


def stand_in(study: Study, df: pd.DataFrame, fit: Fit | None) -> br.Release:
    """The table in the place of the release that the model makes, or that was made elsewhere."""
    rows = np.resize(np.arange(len(df)), study.release.n or len(df))
    table = df if len(rows) == len(df) else df.iloc[rows].reset_index(drop=True)
    tables, made = [table] * study.m, None
    if fit is not None and study.release.files is None:
        for key in ("classes", "n"):
            if getattr(study.release, key) is not None:
                _check_taken(key, study, fit, "[release]")
        with named(study, "release"):
            try:
                made = fit.synthesize(random_seed=0, **synthesis_options(study))
            except ModelError:  # draws may make better values
                made = None
    if made is not None:
        return replace(made, datasets=tables)
    with named(study, "release"):
        return br.Release(
            datasets=tables,
            synthesized=study.synthesized_in(df),
            classes=study.release.classes or "new",
            parameters=study.release.parameters,
        )


def _check_taken(key: str, study: Study, fit: Fit, where: str) -> None:
    if key not in signature(fit.synthesize).parameters:
        kind = study.model.kind
        raise InputError(f'{where} {key} means nothing to kind = "{kind}"; leave it out')


def _try_sweep(study: Study, df: pd.DataFrame, fit: Fit, release: br.Release) -> None:
    """Every setting of a sweep."""
    if study.sweep.classes is not None:
        _check_taken("classes", study, fit, "[sweep]")
    for key, values in (study.sweep.model or {}).items():
        for value in values.values() if isinstance(values, Mapping) else values:
            model: Any = fit
            if key == "power":
                model.model.power_scaled(float(value))
            else:
                other = changed(study.model, key, value).declared(df)
                begin(study, other, df)
    factors, options, alone = factors_of(study, fit, release)
    named_priors = factors.axes.get("prior", [("", options.get("prior") or "uniform")])
    every = br.Mixture([(1.0, prior) for _, prior in named_priors])
    for setting in factors.settings(one_at_a_time=alone):
        shown, how = audit_of(factors, setting, release, options)
        m = factors.value("m", setting) if "m" in setting else release.m
        with rehearsal():
            br.attribute_evidence(fit, shown.first(m), search_prior=every, **how)


def factors_of(study: Study, fit: Fit, release: br.Release) -> tuple[Swept, dict[str, Any], bool]:
    """What a sweep varies, its options, and whether one at a time."""
    options = sweep_options(study, fit, release)
    over, base, alone = (options.pop(key) for key in ("over", "base", "one_at_a_time"))
    return swept(fit, release, over, base, options), options, alone


@contextmanager
def named(study: Study, section: str) -> Iterator[None]:
    """Name the section, and write arguments as keys."""
    try:
        yield
    except InputError as error:
        key = re.match(r"\w+", str(error))
        own = section == "attribute" and key is not None and key[0] in INTRUDER.model_fields
        raise InputError(study.model.said(error, f"[{section}{'.intruder' * own}]")) from None
