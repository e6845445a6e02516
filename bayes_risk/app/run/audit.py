"""An audit, sweep or comparison: data, fit, release, every risk that is asked for, verdict.

What a run would refuse is refused before a model is sampled: the model is declared and given the
table, all but for its draws, and the library's own checks are asked of it: synthesis, and every
audit, with the table itself in the place of the release.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from inspect import signature
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk._core.arguments import taken
from bayes_risk._core.checkpoint import rehearsal, within
from bayes_risk._core.errors import InputError, ModelError, place_of
from bayes_risk._core.memory import at_stage
from bayes_risk._core.progress import Progress, no_progress
from bayes_risk._core.shown import Shown
from bayes_risk.app.run.next_steps import at_risk, next_steps
from bayes_risk.app.study.declare import (
    AUDITS,
    Prepared,
    begin,
    compare_options,
    fit_model,
    household_results,
    provenance_of,
    read_grouped,
    read_record_columns,
    read_release,
    scale_ends,
    sweep_options,
    synthesis_options,
)
from bayes_risk.app.study.keys import in_section, placed
from bayes_risk.app.study.study import Study, candidate_study, changed, files_in, values_of
from bayes_risk.data.microdata import same_records
from bayes_risk.evidence.contract import Fit
from bayes_risk.evidence.methods import EvidenceMethod
from bayes_risk.evidence.prior_weights import check_columns
from bayes_risk.evidence.problem import AuditProblem
from bayes_risk.matching.households import check_households
from bayes_risk.release.correspondence import RowCorrespondence
from bayes_risk.release.provenance import Provenance, data_hash
from bayes_risk.reporting.verdicts.verdict import Verdict, judge
from bayes_risk.studies.attribute_settings import audit_of, swept
from bayes_risk.studies.bounds import InherentBounds
from bayes_risk.utilities.context_result import ContextMeasures

Work = dict[str, int]  # sizes, by name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunResult(Shown):
    """What every run of a study says of itself.

    ``diagnostics`` are those of the fit, with counts of records and ``notes`` where it has them;
    empty when nothing was fitted, and for trees, forests and comparisons.
    """

    study: Study  # the settings, all of them
    random_seed: int  # the one given, or drawn when none was
    data_sha256: str  # of the data file, or demo table
    model_sha256: Mapping[str, str] = field(default_factory=dict)  # files of the model, when read
    seconds: Mapping[str, float]  # wall time of each stage
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance | None = None  # the files that were read, and what the data hold

    def __repr__(self) -> str:
        own = {f.name for f in fields(RunResult)} | {"release", "evidence"}
        parts = [getattr(self, f.name) for f in fields(self) if f.name not in own]
        return "\n\n".join([self.study.title, *(repr(part) for part in parts if part is not None)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class StudyResult(RunResult):
    """What one audit found; None: not asked for. Reweighting made fit, release, attribute risk."""

    release: br.Release | None  # None: of no column is known that it was synthesised
    reweighting: br.Reweighting | None = None
    attribute: br.AttributeRisk | None = None
    evidence: br.AttributeEvidence | None = None  # of the release alone
    identification: br.IdentificationRisk | br.MatchCounts | None = None
    utility: br.Utility | None = None
    context: ContextMeasures | None = None
    household_matching: br.HouseholdMatching | None = None
    household_risk: br.HouseholdRisk | None = None
    household_attribute_risk: br.HouseholdRisk | None = None
    bounds: InherentBounds | None = None
    privacy_loss: br.PrivacyLoss | None = None
    membership: br.Membership | None = None
    full_table: br.FullTableRisk | None = None
    correspondence: RowCorrespondence | None = None  # of files whose rows are in question
    alone: bool = False  # files were matched, and nothing else was asked
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
    """Time of each stage; ``tell`` is told of all but the first, in which a run may be refused."""

    now: Callable[[], float] = time.perf_counter
    tell: Progress = no_progress
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time what is done in the block, the steps that are kept of it under the stage's name."""
        start, tell = self.now(), self.tell if self.seconds else no_progress
        with within(stage), at_stage(stage):
            tell(stage, 0, 1)
            yield
            tell(stage, 1, 1)
        self.seconds[stage] = self.now() - start


def stages_of(study: Study, what: str) -> dict[str, int]:
    """The stages of a run in their order, and what each takes beside the others, roughly."""
    fitted, weighed = what != "compare", study.reweight is not None
    audits = AUDITS if what == "audit" else {}
    stages = [
        ("data", 2, True),
        ("reweighting", 200, fitted and weighed),
        ("fit", 30, fitted and not weighed and study.needs_fit),
        ("release", 1, fitted and not weighed and study.release.files is None),
        ("sweep", 200, what == "sweep"),
        ("comparison", 200, what == "compare"),
        *((one.stage, one.share, getattr(study, name)) for name, one in audits.items()),
        ("households", 1, study.data.household if what == "audit" else None),
        ("report", 2, study.output.folder),
    ]
    return {stage: share for stage, share, given in stages if given not in (None, False)}


def stage_seeds(seed: int) -> list[int]:
    """Of fit, release, attribute risk, membership, full table, utility, context, and bounds."""
    return [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(8)]


def diagnostics_of(fit: Any) -> dict[str, Any]:
    """What the fit says of itself; notes of prediction models in words."""
    if fit is None:
        return {}
    found, notes = dict(fit.diagnostics), getattr(fit, "notes", None)
    return found if notes is None else found | {"notes": list(notes)}


def result_of(
    study: Study, what: str, seed: int, read: Callable[[], None] = lambda: None, **how: Any
) -> RunResult:
    """Every audit of a study; its attribute audit at every setting of ``[sweep]``, no other audit.

    Or every replicate of the candidates of ``[compare]``. ``read`` is called when all files are
    read. ``how``: n_jobs, progress.
    """
    clock, seeds = Clock(tell=how["progress"]), stage_seeds(seed)
    with clock("data"):
        df, sha256, grouped = read_grouped(study.data)
        study, df = read_record_columns(study, df, grouped)
        runs = tried_of(study, what, df)
        files = {name: one.release for name, one in runs.items()}
        provenance = provenance_of(study, df, sha256, files)
        of_model = {path.name: data_hash(path) for path in files_in(study.model)}
        read()
    own: dict[str, Any] = {"random_seed": seed, "seconds": clock.seconds, "study": study}
    own |= {"data_sha256": sha256, "model_sha256": of_model, "provenance": provenance}
    if what == "compare":
        candidates = {name: _candidate(one) for name, one in runs.items()}
        options = compare_options(study, df) | how
        with clock("comparison"):
            comparison = br.compare(candidates, df, random_seed=seed, **options)
        return ComparisonResult(comparison=comparison, **own)
    one = runs[""]
    ready = fit_and_release(one, df, clock, seeds=seeds, **how)
    loop = ready.reweighting
    own |= {"study": one.study, "diagnostics": diagnostics_of(ready.fit)}
    if what == "audit":
        found = audits(study, ready, clock, seeds[2:], how)
        if grouped is not None:
            with clock("households"):
                found |= household_results(study, ready, found, grouped)
        found = judged(study, ready, found)
        return StudyResult(release=ready.release, reweighting=loop, **found, **own)

    again: dict[str, Any] = {} if loop is None else {"weights": loop.rounds[-1].weights}
    again |= {"random_seed": seeds[0], "n_jobs": how["n_jobs"]}

    def refit(declaration: Any) -> Any:
        return fit_model(study, declaration, df, **again)

    with clock("sweep"):
        options = sweep_options(study, df, ready.fit, ready.release) | how
        sensitivity = br.sensitivity(
            ready.fit, ready.release, refit=refit, random_seed=seeds[2], **options
        )
    return SweepResult(sensitivity=sensitivity, **own)


def audits(
    study: Study, ready: Prepared, clock: Clock, seeds: list[int], how: dict[str, Any]
) -> dict[str, Any]:
    """Every audit that the study asks for, by name of its section."""
    found: dict[str, Any] = {}
    for name, audit in AUDITS.items():
        if getattr(study, name) is not None:
            with clock(audit.stage):
                found |= audit.work(study, ready, found, seeds[audit.seed], how)
    return found


def judged(study: Study, ready: Prepared, found: dict[str, Any]) -> dict[str, Any]:
    """The results of the audits, and the verdict over them."""
    person, shown = study.data.person, None
    if person is not None and found.get("identification") is None:
        shown = br.exposure(ready.df, ready.release, person=person)
    verdict = judge(
        found.get("attribute"),
        found.get("identification"),
        study.thresholds.made(),
        exposure=shown,
        diagnostics=diagnostics_of(ready.fit),
        rows=found.get("correspondence"),
        membership=found.get("membership"),
        utility=found.get("utility"),
        households=found.get("household_matching"),
    )
    named = at_risk(found.get("attribute"), ready.df, ready.release, verdict)
    verdict = replace(verdict, steps=next_steps(study, ready.df, verdict), at_risk=named)
    if verdict.prior:
        found["attribute"] = replace(found["attribute"], worst_under=verdict.prior)
    return found | {"verdict": verdict}


def fit_and_release(
    one: "Tried", df: pd.DataFrame, clock: Clock, *, seeds: list[int], **how: Any
) -> Prepared:
    """Fit and release of a table, or the loop that makes them; a release made elsewhere stays."""
    study, declaration, release = one.study, one.declaration, one.release
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


def _candidate(one: "Tried") -> Any:
    """A candidate as ``compare`` takes it."""
    if one.release is not None:
        return one.release
    options, audit = synthesis_options(one.study), one.study.attribute
    own = {} if audit is None else {k: v for k, v in audit.options.items() if k != "targets"}
    model = SimpleNamespace(fit=partial(fit_model, one.study, one.declaration))
    m, columns = options.pop("m"), options.pop("columns")
    return br.Candidate(model, m=m, columns=columns, synthesis=options, attribute=own)


# --- before a model is sampled --------------------------------------------------------------------


def work_of(problem: AuditProblem, method: EvidenceMethod) -> Work:
    """Sizes with which an audit of attribute risk begins; no draws: evidence in closed form."""
    fit, offer = problem.fit, problem.capabilities[method.offer]
    guesses, cases, columns = problem.cases.guesses.codes.shape
    if fit.records_differ or problem.release.classes == "own":  # the release tells them apart
        cases = len(problem.rows)
    closed = offer.compute is not None
    chain_sizes = {} if closed or offer.strategy is None else {"chains": offer.strategy.n_chains}
    sizes = {"cases": cases, "guesses": guesses, "columns": columns}
    return sizes | {"draws": 0 if closed else fit.n_draws} | chain_sizes


class Tried(NamedTuple):
    """A study after every check that needs no sampling, and what those have made."""

    study: Study
    declaration: Any  # None: no model is needed
    fit: Any  # before its draws
    release: br.Release | None  # made elsewhere
    work: list[Work]  # of the attribute audit; of a sweep at each setting, m aside


def tried_of(study: Study, what: str, df: pd.DataFrame) -> dict[str, Tried]:
    """The audits of a run, checked against the table before a first draw: one, or by candidate."""
    if what == "sweep":  # its attribute audit alone
        study = study.model_copy(update=dict.fromkeys(set(AUDITS) - {"attribute"}))
    if what != "compare":
        return {"": tried(study, df, what)}
    found: dict[str, Tried] = {}
    for name in study.compare.candidates:
        one = candidate_study(study, name, df)
        try:
            found[name] = tried(one, df)
        except InputError as error:
            raise placed(error).inside(f"[compare.{name}]") from None
    if study.compare.bounds:
        made = [c for one in found.values() for c in one.study.synthesized_in(df)]
        with worded_for(study, "bounds"):
            scale_ends(study, df, [*dict.fromkeys(made)], m=1, random_seed=0)
    return found


def tried(study: Study, df: pd.DataFrame, what: str = "audit") -> Tried:
    """Try every audit of a study on the table itself, as far as to its first draw.

    It costs matching, context measures without distances, analyses and guesses once.
    """
    declaration = study.declared(df) if study.needs_fit else None
    fit = unsampled(study, declaration, df)
    work: list[Work] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come with the audit itself
        usual = stand_in(study, df, fit)
        release = read_release(study, df, usual)
        shown = usual if release is None else release
        ready = Prepared(df=df, declaration=None, fit=fit, release=shown.first(2))
        # what is drawn may be other records, and need not be many
        few: dict[str, Any] = {"context": {"lookups": 1}, "bounds": {"m": 1}}
        if (section := study.attribute) is not None and isinstance(section.targets, int):
            few["attribute"] = {"guesses": section.placed_anywhere().guesses}
        small = with_keys(study, membership={"held_out": None}, **few)
        how = {"n_jobs": 1, "progress": None}
        for name, audit in AUDITS.items():
            if getattr(small, name) is not None and (fit is not None or not audit.of_model):
                with worded_for(study, name), rehearsal() as begun:
                    audit.work(small, ready, {}, 0, how)
                with worded_for(study, name):
                    if name == "identification":
                        check_file_households(study, shown)
                    if name == "attribute" and begun:
                        check_prior(study, begun["problem"])
                if begun:
                    work.append(work_of(begun["problem"], begun["method"]))
        if fit is not None and study.sweep is not None:
            with worded_for(study, "sweep"):
                settings = _try_sweep(study, df, fit, shown)
            work = settings if what == "sweep" else work
    return Tried(study, declaration, fit, release, work)


def check_file_households(study: Study, release: br.Release) -> None:
    """Files of the original's records have its households."""
    kept, name = study.record_columns, study.data.household
    if kept is None or name not in kept or study.identification.corresponds is False:
        return
    if all(len(table) == len(kept) for table in release.datasets):
        by_label = [kept, *(same_records(kept.index, table, "") for table in release.datasets)]
        places = [place_of(l, table) for l, table in enumerate(by_label)]
        check_households(by_label, places, name, pd.factorize(kept[name])[0])


def check_prior(study: Study, problem: AuditProblem) -> None:
    """A prior about columns is about guessed numbers."""
    data, columns = problem.release.microdata, problem.cases.columns
    names = [data.columns[j] for j in columns]
    check_columns(study.attribute.options.get("prior"), [n for n in names if n in data.numbers])


def unsampled(study: Study, declaration: Any, df: pd.DataFrame) -> Fit | None:
    """The fit before its draws; None: there is none, or the model has none such."""
    if declaration is None:
        return None
    method = getattr(declaration, study.model.fit_method)
    if study.model.fit_method == "fit" and "sample" not in signature(method).parameters:
        return None
    with worded_for(study, "model"):
        fit = begin(study, declaration, df)
    if study.reweight is not None:
        with worded_for(study, "reweight"):
            fit = begin(study, declaration, df, weights=np.full(len(df), 0.5))
    return cast(Fit, fit)


def with_keys(study: Study, **sections: Mapping[str, Any]) -> Study:
    """The same study with other values of some keys, in sections that it has."""
    there = {name: part for name in sections if (part := getattr(study, name)) is not None}
    changes = {name: part.model_copy(update=sections[name]) for name, part in there.items()}
    return study.model_copy(update=changes)


def stand_in(study: Study, df: pd.DataFrame, fit: Fit | None) -> br.Release:
    """The table in the place of the release that the model makes, or that was made elsewhere."""
    rows = np.resize(np.arange(len(df)), study.release.n or len(df))
    table = df if len(rows) == len(df) else df.iloc[rows].reset_index(drop=True)
    tables = [table] * study.m
    with worded_for(study, "release"):
        if fit is not None and study.release.files is None:
            for key in ("classes", "n"):
                if getattr(study.release, key) is not None:
                    _check_taken(key, study, fit)
            with suppress(ModelError):  # draws may make better values
                made = fit.synthesize(random_seed=0, **synthesis_options(study))
                return replace(made, datasets=tables)
        return br.Release(
            datasets=tables,
            synthesized=study.synthesized_in(df),
            classes=study.release.classes or "new",
            parameters=study.release.parameters,
        )


def _check_taken(key: str, study: Study, fit: Fit) -> None:
    if key not in signature(fit.synthesize).parameters:
        raise InputError(key, f'means nothing to kind = "{study.model.kind}"; leave it out')


def _try_sweep(study: Study, df: pd.DataFrame, fit: Fit, release: br.Release) -> list[Work]:
    """Every setting of a sweep."""
    if study.sweep.classes is not None:
        _check_taken("classes", study, fit)
    for key, values in (study.sweep.model or {}).items():
        for value in values_of(values):
            if key == "power":
                cast(Any, fit).model.power_scaled(float(value))
            else:
                begin(study, study.declared(df, changed(study, key, value)), df)
    options = sweep_options(study, df, fit, release)
    over, base, alone = (options.pop(key) for key in ("over", "base", "one_at_a_time"))
    factors = swept(fit, release, over, base, options)
    named_priors = factors.grid.axes.get("prior", [("", options.get("prior") or "uniform")])
    every = br.MixedPrior([(1.0, prior) for _, prior in named_priors])
    found: dict[Any, Work] = {}
    for setting in factors.settings(one_at_a_time=alone):
        shown, how = audit_of(factors, setting, release, options)
        m = factors.grid.value("m", setting) if "m" in setting else release.m
        with rehearsal() as begun:
            br.attribute_evidence(fit, shown.first(m), search_prior=every, **how)
        found[tuple(pair for pair in setting.items() if pair[0] != "m")] = work_of(
            begun["problem"], begun["method"]
        )
    return list(found.values())


@contextmanager
def worded_for(study: Study, section: str) -> Iterator[None]:
    """Word errors of the library for the section that has the argument as a key."""
    with in_section(section), study.model.named() if section == "model" else nullcontext():
        yield
