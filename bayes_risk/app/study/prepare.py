"""From a study to what is audited: the table, the fit, the release (or the loop that makes it).

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
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk._core.checkpoint import within
from bayes_risk._core.errors import InputError, ModelError
from bayes_risk._core.memory import at_stage
from bayes_risk.evidence.contract import Fit
from bayes_risk.evidence.methods import choose_method
from bayes_risk.evidence.prior_weights import log_prior
from bayes_risk.evidence.problem import AuditProblem
from bayes_risk.release.provenance import Provenance
from bayes_risk.risk.full_table.risk import check_size, problem_of
from bayes_risk.risk.full_table.tables import Table
from bayes_risk.risk.membership.audit import membership_problem
from bayes_risk.studies.grid import Swept, audit_of, swept, taken
from bayes_risk.utilities.combining import inferences
from bayes_risk.utilities.result import checked_analyses
from bayes_risk.utilities.tables import columns_of, tables_of

from .declare import (
    begin,
    bounds_options,
    declare,
    fit_model,
    matching_options,
    membership_options,
    provenance_of,
    read_beside,
    read_data,
    read_release,
    sweep_options,
    synthesis_options,
    utility_options,
)
from .sections import INTRUDER
from .study import Study, candidate_study, changed, with_sorted_keys

Progress = Callable[[str, int, int], None]


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """What an audit starts from; no declaration, no fit: for files that need no model."""

    df: pd.DataFrame  # the confidential table, levels declared
    declaration: Any
    fit: Any
    release: br.Release
    data_sha256: str = ""
    reweighting: br.Reweighting | None = None  # the loop that made fit and release
    provenance: Provenance | None = None


def prepare(study: Study, clock: Clock, *, seeds: list[int], **how: Any) -> Prepared:
    """Read the table, check the study against it, fit and synthesise.

    The clock is told the time of the stages "data", "fit", "release" (or "reweighting").
    """
    with clock("data"):
        if needs_fit(study):
            declare(study)  # what is wrong shows first
        df, sha256 = read_data(study.data)
        declaration, release = checked_inputs(study, df)
        provenance = provenance_of(study, df, sha256, {"": release})
    ready = fit_and_release(study, declaration, df, release, clock, seeds=seeds, **how)
    return replace(ready, data_sha256=sha256, provenance=provenance)


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
    fit, loop = None, None
    if study.reweight is not None:
        with clock("reweighting"):
            loop = _reweight(study, declaration, df, seeds[0], **how)
        fit, release = loop.fit, loop.release
    elif needs_fit(study):
        with clock("fit"):
            fit = fit_model(study, declaration, df, random_seed=seeds[0], **how)
    if release is None:
        with clock("release"):
            release = synthesize(fit, study, random_seed=seeds[1])
    return Prepared(df=df, declaration=declaration, fit=fit, release=release, reweighting=loop)


def checked_inputs(study: Study, df: pd.DataFrame) -> tuple[Any, br.Release | None]:
    """The declaration and the release made elsewhere, after every check that needs no sampling.

    A run, and a dry run of it, call this before the first draw.
    """
    declaration = declare(study, df) if needs_fit(study) else None
    return declaration, rehearse(study, df, unsampled(study, declaration, df))


def needs_fit(study: Study) -> bool:
    """Whether the model has to be fitted: to make the release, or to audit it."""
    audits = (study.attribute, study.membership, study.full_table)
    return study.release.files is None or any(section is not None for section in audits)


def synthesize(fit: Any, study: Study, *, random_seed: int) -> br.Release:
    """The release that a fit makes."""
    release: br.Release = fit.synthesize(random_seed=random_seed, **synthesis_options(study))
    return release


def _reweight(
    study: Study, declaration: Any, df: pd.DataFrame, random_seed: int, **how: Any
) -> br.Reweighting:
    """Fit, synthesise and audit, weigh down, again."""
    section, own = study.reweight, {"missing": study.data.missing, "n_jobs": how["n_jobs"]}
    return br.reweight(
        declaration,
        df,
        **section.given_to(br.reweight),
        weights_from=br.LinearWeights(**section.given_to(br.LinearWeights)),
        fit=study.model.fit_options() | taken(declaration.fit, **own),
        synthesis=synthesis_options(study),
        audit=study.attribute.options | {"n_jobs": how["n_jobs"]},
        random_seed=random_seed,
        progress=how["progress"],
    )


def candidates_of(study: Study, df: pd.DataFrame) -> dict[str, Any]:
    """Every candidate as ``compare`` takes it, checked against the table."""
    found: dict[str, Any] = {}
    any_made: dict[str, None] = {}
    for name in study.compare.candidates:
        try:
            one = candidate_study(study, name)
            found[name] = _declared(one, df)
        except InputError as error:
            raise InputError(f"[compare.{name}]: {error}") from None
        any_made |= dict.fromkeys(one.synthesized_in(df))
    if study.compare.bounds:
        rehearse_ends(study, df, [*any_made])
    return found


def _declared(study: Study, df: pd.DataFrame) -> Any:
    if study.identification is not None:  # sorted by what is synthesised, as for each release
        keys = with_sorted_keys(study.identification, study.synthesized_in(df))
        study = study.model_copy(update={"identification": keys})
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


SAMPLED = {"predictive", "imputed", "independent-releases", "refit"}  # from a base fit's draws


def unsampled(study: Study, declaration: Any, df: pd.DataFrame) -> Fit | None:
    """The fit before its draws; None: there is none, or the model has none such."""
    if declaration is None:
        return None
    way = getattr(declaration, study.model.way)
    if study.model.way == "fit" and "sample" not in signature(way).parameters:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come with the fit itself
        with named(study, "model"):
            fit = begin(study, declaration, df)
        if study.reweight is not None:
            with named(study, "reweight"):
                fit = begin(study, declaration, df, weights=np.full(len(df), 0.5))
    return cast(Fit, fit)


def rehearse(study: Study, df: pd.DataFrame, fit: Fit | None) -> br.Release | None:
    """Try every audit of a study that needs no draws; gives the release made elsewhere.

    It costs matching, context measures without distances, analyses and guesses once.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come with the audit itself
        usual = stand_in(study, df, fit)
        release = read_release(study, df, usual)
        shown = usual if release is None else release
        _rehearse_without_model(study, df, shown.first(2))
        if fit is not None:
            _rehearse_audits(study, df, fit, shown.first(2))
            if study.sweep is not None:
                with named(study, "sweep"):
                    _try_sweep(study, df, fit, shown)
    return release


def stand_in(study: Study, df: pd.DataFrame, fit: Fit | None) -> br.Release:
    """The table in the place of the release that the model makes, or that was made elsewhere."""
    tables, made = [df] * study.m, None
    if fit is not None and study.release.files is None:
        if study.release.classes is not None:
            _check_classes(study, fit, "[release]")
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


def _check_classes(study: Study, fit: Fit, where: str) -> None:
    if "classes" not in signature(fit.synthesize).parameters:
        kind = study.model.kind
        raise InputError(f'{where} classes means nothing to kind = "{kind}"; leave it out')


def rehearse_ends(study: Study, df: pd.DataFrame, made: list[str]) -> None:
    """Try ``[bounds]`` of releases with these columns synthesised."""
    with named(study, "bounds"):
        how = {"synthesized": made} | bounds_options(study)
        br.release_bounds(df, random_seed=0, **how | {"m": min(how.get("m", 1), 1)})


def _rehearse_without_model(study: Study, df: pd.DataFrame, release: br.Release) -> None:
    """Matching, utility, context measures, bounds, and whoever is compared."""
    if study.identification is not None:
        with named(study, "identification"):
            matching = matching_options(study, df, release.datasets)
            br.identification_risk(df, release, **matching)
    if (asked := study.utility) is not None:
        with named(study, "utility"):
            tables = tables_of(df, release, asked.columns, None)
            columns_of(tables, asked.numbers, asked.groups, asked.missing)
            analyses = checked_analyses(utility_options(study)["analyses"])
            inferences(analyses, tables, asked.rules, asked.confidence)
    if study.context is not None:
        with named(study, "context"):
            holdout = read_beside(study, study.context.holdout, df)
            few: dict[str, Any] = {"lookups": 1, "random_seed": 0, "holdout": holdout}
            br.context_measures(df, release, **study.context.model_dump() | few)
    if study.bounds is not None and study.compare is None:
        rehearse_ends(study, df, list(release.synthesized))


def _rehearse_audits(study: Study, df: pd.DataFrame, fit: Fit, release: br.Release) -> None:
    """Targets, intruders, guesses, priors and evidence."""
    rng = np.random.default_rng(0)
    if (section := study.attribute) is not None:
        with named(study, "attribute"):
            drawn = not isinstance(section.targets, list) and section.targets != "all"
            options = (section.placed_anywhere() if drawn else section).options
            _try_audit(fit, release, options, [options.get("prior", "uniform")])
    if study.full_table is not None:
        with named(study, "full_table"):
            intruder = None if study.attribute is None else study.attribute.knows
            given = study.full_table.targets
            targets = given if isinstance(given, list) else 1
            problem, _ = problem_of(fit, release, intruder, targets, rng, rng)
            check_size(Table.of(fit.microdata.n_levels[problem.cases.columns]))
    if study.membership is not None:
        with named(study, "membership"):
            options = membership_options(study.membership)
            asked, records = options["intruder"], options["records"]
            membership_problem(fit, release, asked, records, rng, rng)
            if (people := read_beside(study, study.membership.others, df)) is not None:
                fit.microdata.encode(people, "others")


def _try_audit(
    fit: Fit, release: br.Release, options: Mapping[str, Any], priors: list[Any]
) -> None:
    """All of `attribute_risk` that comes before its evidence, and the priors after it."""
    rng = np.random.default_rng(0)
    how = [options["intruder"], options["guesses"], options["targets"]]
    problem = AuditProblem.prepare(fit, release, *how, choose=rng, knowing=rng)
    method = choose_method(problem, options["evidence"])
    cases, can = problem.cases, problem.capabilities
    if can.weaker is not None and problem.intruder.is_competitor:
        can.weaker.weaker_in_words(problem.intruder, problem.release, cases)
    has_base = method.name in SAMPLED - can.computed
    base = np.zeros((len(cases.guesses.codes), len(cases))) if has_base else None
    for prior in priors:
        log_prior(prior, fit.microdata, cases, problem.release, base)


def _try_sweep(study: Study, df: pd.DataFrame, fit: Fit, release: br.Release) -> None:
    """Every setting of a sweep."""
    if study.sweep.classes is not None:
        _check_classes(study, fit, "[sweep]")
    for key, values in (study.sweep.model or {}).items():
        for value in values.values() if isinstance(values, Mapping) else values:
            model: Any = fit
            if key == "power":
                model.model.power_scaled(float(value))
            else:
                other = changed(study.model, key, value).declared(df)
                begin(study, other, df)
    factors, options, alone = factors_of(study, fit, release)
    priors = [value for _, value in factors.axes.get("prior", [("", options.get("prior"))])]
    for setting in factors.settings(one_at_a_time=alone):
        shown, how = audit_of(factors, setting, release, options)
        m = factors.value("m", setting) if "m" in setting else release.m
        _try_audit(fit, shown.first(m), how, [prior or "uniform" for prior in priors])


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
