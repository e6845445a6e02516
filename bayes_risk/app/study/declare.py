"""From the sections of a study to what the library takes: models, options, tables, and audits."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

import bayes_risk as br
from bayes_risk._core.arguments import taken
from bayes_risk._core.checkpoint import begin_work
from bayes_risk._core.errors import InputError, place_of
from bayes_risk._core.formats import toml_value
from bayes_risk._core.validate import known_columns
from bayes_risk.data.coarsening import coarsened
from bayes_risk.data.groups import groups_of
from bayes_risk.data.record_weights import positive_numbers
from bayes_risk.data.table import read_table
from bayes_risk.data.variables import Variable, declare_levels, declared
from bayes_risk.demo import demo_data
from bayes_risk.evidence.contract import drawn_as
from bayes_risk.intruder.intruder import KNOWN
from bayes_risk.matching.households import households_beside
from bayes_risk.matching.question import MatchingOptions
from bayes_risk.matching.result import NOBODYS
from bayes_risk.matching.risk import identified
from bayes_risk.release.alike import codes_as_in, read_like
from bayes_risk.release.correspondence import correspondence
from bayes_risk.release.provenance import DataFile, Provenance, data_hash, describe, release_files
from bayes_risk.release.synthpop import files_of_releases, read_releases
from bayes_risk.risk.groups import with_groups
from bayes_risk.risk.join import check_earlier, given_history
from bayes_risk.studies.attribute_settings import SHARES
from bayes_risk.studies.bounds import InherentBounds, level_numbers

from .keys import in_section, refused
from .sections import DataSection, made_guesses
from .signatures import functions_in, made
from .study import Study, candidate_study, changed, values_of


def fit_model(study: Study, declaration: Any, df: pd.DataFrame, **how: Any) -> Any:
    """Fit a declaration to the table, or take the draws or trees that the study brings."""
    method = getattr(declaration, study.model.fit_method)
    options = study.model.fit_options() | taken(method, **how, missing=study.data.missing)
    if (kept := study.record_columns) is not None:
        weights = getattr(study.model, "weights", None)
        options |= {} if weights is None else {"weights": weights}
        names = weights, study.data.household if study.model.grouped else None
        df = df.assign(**{name: kept.loc[df.index, name] for name in names if name is not None})
    return method(df=df, **options)


def begin(study: Study, declaration: Any, df: pd.DataFrame, **how: Any) -> Any:
    """The fit before its draws, which has checked all that a fit checks."""
    return fit_model(study, declaration, df, sample=False, random_seed=0, **how)


def matching_options(study: Study, df: pd.DataFrame, releases: Any) -> dict[str, Any]:
    """``[identification]`` as keyword arguments of ``identification_risk``."""
    section = study.identification
    known_columns("public", study.thresholds.public or {}, df)
    population = _population(study, df, releases)
    options = made(section.given_to(br.identification_risk))
    return {**options, "population": population, "person": study.data.person}


def _population(study: Study, df: pd.DataFrame, releases: Any) -> Any:
    """Counts of a file, or of a log-linear model of the exact keys."""
    section, data = study.identification, study.data
    given, keys = section.population, [*section.known, *section.synthesized]
    if given is None:
        return None
    if given.file is not None:
        own = data.reading | {"index": None}
        people = read_like(given.file, df[keys], **own, other_levels=True)
        return br.Population.counted(people, keys)
    if given.fitted_to == "original":
        return br.Population.log_linear(df, keys, size=given.size)
    tables = getattr(releases, "datasets", releases)
    return [br.Population.log_linear(table, keys, size=given.size) for table in tables]


def utility_options(study: Study) -> dict[str, Any]:
    """``[utility]`` as keyword arguments of ``utility``; the files of the analyses are run."""
    names = study.utility.analyses
    called = [name.place[1] for name in names]
    if len({*called}) < len(called):
        raise refused("utility", "analyses", called, ": give each function a name of its own")
    made = functions_in(names, key="analyses", section="utility")
    analyses = dict(zip(called, made, strict=True)) or None
    return {**study.utility.given_to(br.utility), "analyses": analyses}


def bounds_options(study: Study) -> dict[str, Any]:
    """``[bounds]`` as keyword arguments of ``release_bounds``; m is the release's if left out."""
    return {k: v for k, v in study.bounds or () if k != "m" or v is not None}


def synthesis_options(study: Study) -> dict[str, Any]:
    """``[release]`` as options of ``synthesize``; those left to the model are left out."""
    given = {key: value for key, value in study.release if value is not None and key != "files"}
    return {"columns": None, **given}


def compare_options(study: Study, df: pd.DataFrame) -> dict[str, Any]:
    """``[compare]`` as keyword arguments of ``compare``."""
    audit, section, utility = study.attribute, study.compare, study.utility
    kept, name = study.record_columns, study.data.household
    households = None if kept is None or name is None else kept[name]

    def identification(releases: Any) -> dict[str, Any]:
        found = matching_options(study, df, releases)
        return found | {"households": households, "members": study.identification.members}

    return {
        "attribute": audit and audit.options,
        "identification": study.identification and identification,
        "utility": utility_options(study) if utility else {},
        "replicates": section.replicates,
        "thresholds": study.thresholds.made(),
        "bounds": bounds_options(study) if section.bounds and study.bounds else section.bounds,
    }


OWN = "as in the study"
ANYTHING = TypeAdapter[Any](Any)


def sweep_options(study: Study, df: pd.DataFrame, fit: Any, release: br.Release) -> dict[str, Any]:
    """``[sweep]`` as keyword arguments of ``sensitivity``; the study's own audit is the base."""
    section, audit = study.sweep, study.attribute
    over_numbers = any(c in fit.microdata.numbers for c in release.synthesized)
    knows, evidence = audit.knows.knows_records, audit.evidence
    if evidence is None and section.evidence:  # left to the library: the first listed
        evidence = next(iter(values_of(section.evidence)))
    own: dict[str, Any] = {
        "priors": audit.prior or "uniform",
        "knows_records": list(knows) if isinstance(knows, tuple) else knows,
        "knows_columns": audit.knows_columns,
        "guesses": audit.guesses or ("predictive" if over_numbers else "neighbourhood"),
        "classes": release.classes,
        "parameters": drawn_as(fit, release),
        "evidence": evidence,
        "m": study.m,
    }
    options, over, base = audit.options, {}, {}
    ways: dict[str, Any] = {
        "priors": made,
        "guesses": partial(made_guesses, budget=audit.guess_budget),
    }
    for key, value in own.items():
        if (given := getattr(section, key)) is not None:
            factor = "prior" if key == "priors" else key
            over[factor], base[factor] = _axis(key, given, value, ways.get(key, lambda one: one))
            options.pop(factor, None)
    for key, given in (section.model or {}).items():
        values: Any = [_hyper(study, df, key, value) for value in values_of(given)]
        if isinstance(given, Mapping) or not all(isinstance(v, int | float) for v in values):
            labels = given if isinstance(given, Mapping) else map(label_of, given)
            values = dict(zip(labels, values, strict=True))
        over.setdefault("hyper", {})["kind" if key == "synthesizer" else key] = values
    return {**options, "over": over, "base": base, "one_at_a_time": not section.combinations}


def _axis(key: str, given: Any, own: Any, convert: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Values of a factor as the library takes them, and the label of the study's own."""
    if key == "m" or key == "knows_records" and isinstance(given, list):  # in order of themselves
        values = [*values_of(given), *([] if own in values_of(given) else [own])]
        if not any(isinstance(value, list) for value in values):
            return values, SHARES.get(own, own)
    labelled = isinstance(given, Mapping)
    pairs = dict(given) if labelled else {label_of(value): value for value in given}
    found = [label for label, value in pairs.items() if value == own]
    if not found:
        found = [OWN if labelled else label_of(own)]
        pairs = {found[0]: own, **pairs}
    return {label: convert(value) for label, value in pairs.items()}, found[0]


def label_of(value: Any) -> str:
    """A value as the file has it, for labels."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return " + ".join(value) or "none"
    given = ANYTHING.dump_python(value, exclude_unset=True)
    text = value if isinstance(value, str) else toml_value(given).removeprefix("{ ")
    return re.sub(r"(?<=\d)\.0\b", "", text.removesuffix(" }"))


def _hyper(study: Study, df: pd.DataFrame, key: str, given: Any) -> Any:
    """A value of a hyper-parameter as the model's declaration has it."""
    if key == "power":
        return float(given)
    model = changed(study, key, given)
    return getattr(study.declared(df, model), model.own[key].name)


# --- tables -------------------------------------------------------------------------------------


class Grouped(NamedTuple):
    """The households that ``[data]`` names, and the columns that say so, of all records."""

    own: br.Households
    columns: pd.DataFrame


def read_data(data: DataSection) -> tuple[pd.DataFrame, str]:
    """The confidential table with its declared levels, and its hash."""
    return read_grouped(data)[:2]


@in_section("data")
def read_grouped(data: DataSection) -> tuple[pd.DataFrame, str, Grouped | None]:
    """The same, and its households, checked: no model sees their column."""
    own = data.households
    if data.path is None:
        df = demo_data(str(data.demo))
        sha256 = data_hash(df)
    else:
        levels = {c: given for c, given in data.levels.items() if c not in data.coarsen}
        columns = data.columns if own is None else None
        how = data.reading | {"columns": columns, "levels": levels, "days": data.days}
        df = read_table(data.path, **how)
        sha256 = data_hash(data.path)
    grouped = None
    if own is not None:
        own.of(df)
        names = dict.fromkeys((own.id, own.relate, *own.variables))
        grouped = Grouped(own, df[[name for name in names if name is not None]])
    if data.columns is not None:
        df = df[known_columns("columns", data.columns, df)]
    for name, coarser in data.coarsen.items():
        known_columns("coarsen", [name], df)
        df = df.assign(**{name: coarsened(df[name], **coarser.model_dump())})
    known_columns("person", [] if data.person is None else [data.person], df)
    if data.household in df:  # kept beside it
        df = df.drop(columns=data.household)
    return declare_levels(df, declared(data.levels), "the data"), sha256, grouped


def read_record_columns(
    study: Study, df: pd.DataFrame, grouped: Grouped | None = None
) -> tuple[Study, pd.DataFrame]:
    """The study with weights and households of records, and the table without those columns."""
    named = study.weights_named()
    found = pd.DataFrame(index=df.index)
    if grouped is not None:
        found[grouped.own.id] = grouped.columns[grouped.own.id]
    for name, where in named.items():
        with in_section(where[0]):
            known_columns(where[1], [name], df)
            try:
                found[name] = positive_numbers(df, name, place_of(0, df))
            except InputError as error:
                raise InputError(where[1], f": {error.text}") from None
        if where[1] == "in_file" and (below := int((found[name] < 1).sum())):
            raise refused(
                *where,
                f": column {name!r} has {below:,} weights below 1, and 1 / weight is to be a "
                "probability; give weights that count people",
            )
    if not found.size:
        return study, df
    return study.with_record_columns(found), df.drop(columns=[*named])


def household_results(study: Study, ready: "Prepared", found: "Found", grouped: Grouped) -> "Found":
    """Matching of households by the exact keys, and household risk of what was found of persons."""
    own, more = grouped
    df = ready.df.assign(**more[[c for c in more if c not in ready.df]])
    risk, attribute, made = found.get("identification"), found.get("attribute"), dict[str, Any]()
    if isinstance(risk, br.IdentificationRisk):
        section, files = study.identification, ready.release.datasets
        given = files if all(set(ready.df) <= set(table) for table in files) else ready.release
        how = {"household": own, "members": section.members, "fallback": section.fallback}
        if (matching := households_beside(risk, df, given, **how)) is not None:
            made["household_matching"] = matching
        made["household_risk"] = br.household_risk(risk, df[own.id])
    if attribute is not None and len(attribute.index) == len(df):
        made["household_attribute_risk"] = br.household_risk(attribute, df[own.id])
    return made


@in_section("release")
def read_release(
    study: Study, df: pd.DataFrame, usual: br.Release | None = None
) -> br.Release | None:
    """Releases made elsewhere, if the study names any; of the classes of those the model makes."""
    given = study.release
    if given.files is None:
        return None
    return br.Release(
        datasets=[
            codes_as_in(df, table, getattr(study.model, "missing_numbers", None) or {})
            for table in read_releases(given.files, df, **study.data.reading)
        ],
        synthesized=given.columns or [],
        classes=given.classes or ("new" if usual is None else usual.classes),
        parameters=given.parameters,
    )


def provenance_of(
    study: Study, df: pd.DataFrame, sha256: str, releases: Mapping[str, Any]
) -> Provenance:
    """The files that were just read: the data, and releases made elsewhere."""
    path, (rows, columns) = study.data.path, df.shape
    name = f"demo table {study.data.demo}" if path is None else path.name
    files = [DataFile(role="data", name=name, rows=rows, columns=columns, sha256=sha256)]
    for candidate, release in releases.items():
        given = (candidate_study(study, candidate) if candidate else study).release.files
        if given is not None and release is not None:
            note = f" of {candidate}" if candidate else ""
            tables = getattr(release, "datasets", release)
            files += release_files(files_of_releases(given), tables, note=note)
    named = [] if study.history is None else study.history.files()
    for role, path in named:
        if path.is_file():  # else refused where it is read
            files.append(DataFile(role=role, name=path.name, sha256=data_hash(path)))
    return Provenance(files=tuple(files), described=describe(df))


# --- audits: what a section asks for ------------------------------------------------------------

Found = Mapping[str, Any]  # results by the name of the section, of the audits before
How = Mapping[str, Any]  # n_jobs, progress


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """What an audit starts from; no declaration, no fit: for files that need no model."""

    df: pd.DataFrame  # the confidential table, levels declared
    declaration: Any
    fit: Any
    release: br.Release
    reweighting: br.Reweighting | None = None  # the loop that made fit and release


def _attribute(study: Study, ready: Prepared, found: Found, seed: int, how: How) -> Found:
    """Attribute risk, of the last round if there were rounds; and privacy loss if asked for."""
    wants_loss, by, df = study.attribute.privacy_loss, study.attribute.by, ready.df
    gain = study.thresholds.made().attribute_gain
    if len(by):
        groups_of(by, df)
    if ready.reweighting is not None:
        risk = with_groups(ready.reweighting.risk, by, df, gain)
        return {"attribute": risk, "privacy_loss": br.privacy_loss(risk) if wants_loss else None}
    earlier, of_waves = earlier_evidence(study, ready.fit)
    options = {**study.attribute.options, **how, "before": study.attribute.before}
    if (prior := options.pop("prior", None)) is not None:
        options["search_prior"] = prior
    evidence = br.attribute_evidence(ready.fit, ready.release, random_seed=seed, **options)
    of: Any = evidence
    if earlier:
        with in_section("history"):
            of = given_history(earlier, evidence, prior=prior, **of_waves)
    risk = with_groups(of if earlier else evidence.risk(prior), by, df, gain)
    loss_of = br.privacy_loss(of) if wants_loss else None
    return {"attribute": risk, "evidence": evidence, "privacy_loss": loss_of}


def earlier_evidence(study: Study, fit: Any) -> tuple[list[br.AttributeEvidence], dict[str, Any]]:
    """What ``[history]`` names, checked against the table before anything is sampled; and how."""
    if study.history is None:
        return [], {}
    with in_section("history"):
        earlier, how = (
            [br.open_evidence(path) for path in study.history.evidence],
            study.history.how(),
        )
        check_earlier(earlier, fit.microdata, **how)
    return earlier, how


def _identification(study: Study, ready: Prepared, found: Found, seed: int, how: How) -> Found:
    options = matching_options(study, ready.df, ready.release.datasets)
    if study.release.files is not None and study.attribute is None:
        files = ready.release.datasets  # judged as `identify` does, by what differs
        whole = all(set(ready.df) <= set(table) for table in files)
        return identified_rows(ready.df, files if whole else ready.release, options)
    return {"identification": br.identification_risk(ready.df, ready.release, **options)}


def identified_rows(df: pd.DataFrame, release: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Matching of files made elsewhere, and whether their rows are the original's."""
    how = MatchingOptions(**options)
    risk, read = identified(df, release, how)
    rows = None
    if isinstance(risk, br.IdentificationRisk):
        rows = correspondence(read, how.synthesized, stated=how.corresponds is True)
    return {"identification": risk, "correspondence": rows}


def _utility(study: Study, ready: Prepared, found: Found, seed: int, how: How) -> Found:
    options = utility_options(study) | {"random_seed": seed, "n_jobs": how["n_jobs"]}
    return {"utility": br.utility(ready.df, ready.release, **options)}


def _context(study: Study, ready: Prepared, found: Found, seed: int, how: How) -> Found:
    options = study.context.model_dump() | {"random_seed": seed}
    if (path := study.context.holdout) is not None:
        options["holdout"] = read_like(path, ready.df, **study.data.reading)
    return {"context": br.context_measures(ready.df, ready.release, **options)}


def _bounds(study: Study, ready: Prepared, found: Found, seed: int, how: How) -> Found:
    """The numbers that files alone give beside those at both ends of the scale."""
    df, release = ready.df, ready.release
    seeds = [int(one) for one in np.random.SeedSequence(seed).generate_state(2)]
    ends = scale_ends(study, df, list(release.synthesized), m=release.m, random_seed=seeds[0])
    begin_work()
    own = level_numbers(found)
    if study.context is not None:  # distances are the release's own
        near = study.context.model_copy(update={"distances": False, "holdout": None})
        study = study.model_copy(update={"context": near})

    def values(one: br.Release) -> dict[Any, float]:
        made: dict[str, Any] = {}
        for name in () if one is release else ("identification", "utility", "context"):
            if getattr(study, name) is not None:
                there = replace(ready, release=one)
                made |= AUDITS[name].work(study, there, {}, seeds[1], how)
        numbers = own if one is release else level_numbers(made)
        return {name: number.value for name, number in numbers.items() if name in own}

    if not own:
        raise refused("bounds", f"has nothing to show; add [utility] or [context]. {NOBODYS}")
    table = ends.between(release, values)
    bounds = InherentBounds(
        found=table.assign(mcse=[own[name].mcse for name in table.index]),
        patterns=tuple(map(str, ends.patterns)),
        alone=ends.alone,
        n=len(df),
        m=ends.minimum.m,
        seed_entropy=str(seed),
    )
    return {"bounds": bounds}


def scale_ends(study: Study, df: pd.DataFrame, made: list[str], **usual: Any) -> Any:
    """Releases at both ends of the scale, of these columns; ``usual`` where the study is silent."""
    return br.release_bounds(df, **{"synthesized": made, **usual, **bounds_options(study)})


def _membership(study: Study, ready: Prepared, found: Found, seed: int, how: How) -> Found:
    """Who is in the data: asked of the release, or of one made without the records held out."""
    df, fit, release, section = ready.df, ready.fit, ready.release, study.membership
    seeds = [int(s.generate_state(1)[0]) for s in np.random.SeedSequence(seed).spawn(4)]
    name = study.data.household if study.model.grouped else None
    if name is not None and study.record_columns is not None:  # of whole households
        df = df.assign(**{name: study.record_columns.loc[df.index, name]})
    others = section.others and read_like(section.others, df, **study.data.reading)
    if section.held_out is not None:
        unit = np.arange(len(df)) if name is None else pd.factorize(df[name])[0]
        order = np.random.default_rng(seeds[0]).permutation(int(unit.max()) + 1)
        cut = min(max(round(section.held_out * len(order)), 1), len(order) - 1)
        out = np.isin(unit, order[:cut])
        others, kept = df[out], df[~out]
        variables = (v for v in fit.microdata.variables if isinstance(v, Variable))
        levels = {v.name: v.levels for v in variables if v.name != name}
        own = {"levels": levels, "random_seed": seeds[1], **how}
        fit = fit_model(study, ready.declaration, kept, **own)
        release = fit.synthesize(random_seed=seeds[2], **synthesis_options(study))
    options = section.given_to(br.membership) | {
        "intruder": br.Intruder(
            section.knows_records, household=KNOWN if name is None else "unknown"
        ),
        "records": None if section.records == "all" else section.records,
        "others": others,
    }
    risk = br.membership(fit, release, random_seed=seeds[3], **options, **how)
    if section.held_out is not None:
        description = (
            f"{risk.assumptions['records']} Measured on a release of its own, made without the "
            f"{int((~risk.member).sum()):,} records held out as people outside the data."
        )
        risk = replace(risk, assumptions={**risk.assumptions, "records": description})
    return {"membership": risk}


def _full_table(study: Study, ready: Prepared, found: Found, seed: int, how: How) -> Found:
    """Where the truth stands among all values, of the records at highest risk."""
    options = {key: made(value) for key, value in study.full_table} | {**how, "random_seed": seed}
    attribute = found.get("attribute")
    if isinstance(options["targets"], int) and attribute is not None:
        options["targets"] = list(attribute.worst(options["targets"]).index)
    intruder = None if study.attribute is None else study.attribute.knows
    risk = br.full_table_risk(ready.fit, ready.release, intruder=intruder, **options)
    return {"full_table": risk}


class StudyAudit(NamedTuple):
    """What a section asks for."""

    stage: str
    share: int  # of the time, beside the other stages of a run, roughly
    seed: int  # which of the run's
    work: Callable[[Study, Prepared, Found, int, How], Found]
    of_model: bool = False  # whether it is asked of the fit


AUDITS = {  # by section, in the order of a run
    "attribute": StudyAudit("attribute risk", 40, 0, _attribute, of_model=True),
    "identification": StudyAudit("identification risk", 5, 0, _identification),
    "utility": StudyAudit("utility", 10, 3, _utility),
    "context": StudyAudit("context measures", 5, 4, _context),
    "bounds": StudyAudit("bounds", 20, 5, _bounds),
    "membership": StudyAudit("membership", 30, 1, _membership, of_model=True),
    "full_table": StudyAudit("full table", 20, 2, _full_table, of_model=True),
}
