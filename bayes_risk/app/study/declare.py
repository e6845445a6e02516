"""From the sections of a study to what the library takes: models, options, tables, and audits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk._core.checkpoint import begin_work
from bayes_risk._core.errors import InputError
from bayes_risk.data.table import read_table
from bayes_risk.data.variables import Variable, declare_levels
from bayes_risk.demo import demo_data
from bayes_risk.evidence.contract import drawn
from bayes_risk.matching.result import NOBODYS
from bayes_risk.release.alike import read_like
from bayes_risk.release.provenance import DataFile, Provenance, data_hash, describe, release_files
from bayes_risk.release.synthpop import files_of_releases, read_releases
from bayes_risk.studies.bounds import InherentBounds, numbers_of
from bayes_risk.studies.grid import SHARES, taken

from .keys import FunctionName
from .sections import DataSection, made_guesses, made_prior
from .signatures import ModelSection, functions_in
from .study import Study, Values, candidate_study, changed, label_of, labelled


def fit_model(study: Study, declaration: Any, df: pd.DataFrame, **how: Any) -> Any:
    """Fit a declaration to the table, or take the draws or trees that the study brings."""
    way = getattr(declaration, study.model.way)
    options = study.model.fit_options() | taken(way, **how, missing=study.data.missing)
    return way(df=df, **options)


def begin(study: Study, declaration: Any, df: pd.DataFrame, **how: Any) -> Any:
    """The fit before its draws, which has checked all that a fit checks."""
    return fit_model(study, declaration, df, sample=False, random_seed=0, **how)


def matching_options(
    study: Study, df: pd.DataFrame, releases: Sequence[pd.DataFrame]
) -> dict[str, Any]:
    """``[identification]`` as keyword arguments of ``identification_risk``."""
    section = study.identification
    radius = {name: made_prior(given) for name, given in (section.radius or {}).items()}
    others = {"radius": radius or None, "population": _population(study, df, releases)}
    return {**section.given_to(br.identification_risk), **others}


def _population(study: Study, df: pd.DataFrame, releases: Sequence[pd.DataFrame]) -> Any:
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
    return [br.Population.log_linear(table, keys, size=given.size) for table in releases]


def utility_options(study: Study) -> dict[str, Any]:
    """``[utility]`` as keyword arguments of ``utility``; the files of the analyses are run."""
    names = [FunctionName(name) for name in study.utility.analyses]
    called = [name.place[1] for name in names]
    if repeated := [name for name in called if called.count(name) > 1]:
        raise InputError(
            f"[utility] analyses names two functions {repeated[0]!r}, by which results are told "
            "apart; give each a name of its own"
        )
    made = functions_in(names, key="analyses", section="[utility]")
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
    section = study.compare
    audit, keys = study.attribute, study.identification

    def matching(files: Any) -> dict[str, Any]:
        return matching_options(study, df, getattr(files, "datasets", files))

    return {
        "attribute": None if audit is None else audit.options,
        "identification": None if keys is None else matching,
        "utility": {} if study.utility is None else utility_options(study),
        "replicates": section.replicates,
        "bounds": bounds_options(study) if section.bounds and study.bounds else section.bounds,
    }


def sweep_options(study: Study, fit: Any, release: br.Release) -> dict[str, Any]:
    """``[sweep]`` as keyword arguments of ``sensitivity``; the study's own audit is the base."""
    section, audit = study.sweep, study.attribute
    options, over, base = audit.options, {}, {}
    for key, own in _own(study, section, fit, release).items():
        given = getattr(section, key)
        factor = "prior" if key == "priors" else key
        over[factor], base[factor] = _varied(key, given, own, audit.guess_budget)
        options.pop(factor, None)
    if sizes := section.values("m"):
        over["m"], base["m"] = list(dict.fromkeys([*sizes, study.m])), study.m
    if section.model is not None:
        over["hyper"] = {
            "kind" if key == "synthesizer" else key: _hyper(study.model, key, values)
            for key, values in section.model.items()
        }
    return {**options, "over": over, "base": base, "one_at_a_time": not section.combinations}


def _own(study: Study, section: Any, fit: Any, release: br.Release) -> dict[str, Any]:
    """The study's own value of each key that is varied, m and the model aside."""
    audit = study.attribute
    knows = audit.knows.knows_records
    own: dict[str, Any] = {
        "priors": audit.prior or "uniform",
        "knows_records": list(knows) if isinstance(knows, tuple) else knows,
        "knows_columns": audit.knows_columns,
        "guesses": audit.guesses,
        "classes": release.classes,
        "parameters": drawn(fit, release),
        # left to the library: the first listed
        "evidence": audit.evidence or [*section.values("evidence"), None][0],
    }
    return {key: own[key] for key in own if key in section.factors}


def _varied(key: str, given: Values, own: Any, budget: int) -> tuple[Any, Any]:
    """Values as the library takes them, and the label of the study's own."""
    if key == "knows_records" and isinstance(given, list):
        values = [*given, *([] if own in given else [own])]
        if not any(isinstance(value, list) for value in values):  # a curve over shares
            return values, SHARES.get(own, own)
    pairs, label = labelled(given, own)
    ways: dict[str, Any] = {"priors": made_prior, "guesses": partial(made_guesses, budget=budget)}
    way = ways.get(key, lambda value: value)
    return {name: way(value) for name, value in pairs.items()}, label


def _hyper(model: ModelSection, key: str, given: Any) -> Any:
    """Values of a hyper-parameter as the model's declaration has them."""
    if isinstance(given, Mapping):
        return {str(label): _value(model, key, value) for label, value in given.items()}
    values = [_value(model, key, value) for value in given]
    if all(isinstance(value, int | float) for value in values):
        return values
    return {label_of(value): v for value, v in zip(given, values, strict=True)}


def _value(model: ModelSection, key: str, given: Any) -> Any:
    if key == "power":
        return float(given)
    name = "kind" if key == "synthesizer" else key
    return getattr(changed(model, key, given).declared(), name)


# --- tables -------------------------------------------------------------------------------------


def read_data(data: DataSection) -> tuple[pd.DataFrame, str]:
    """The confidential table with its declared levels, and its hash."""
    if data.path is None:
        df = demo_data(str(data.demo))
        sha256 = data_hash(df)
    else:
        how = data.reading | {"columns": data.columns, "levels": data.levels, "days": data.days}
        df = read_table(data.path, **how)
        sha256 = data_hash(data.path)
    absent = [c for c in data.columns or [] if c not in df.columns]
    if absent:
        raise InputError(f"[data] columns names {absent[0]!r}; the data have {list(df.columns)}")
    df = df if data.columns is None else df[data.columns]
    return declare_levels(df, data.listed_levels, "the data"), sha256


def read_release(
    study: Study, df: pd.DataFrame, usual: br.Release | None = None
) -> br.Release | None:
    """Releases made elsewhere, if the study names any; of the classes of those the model makes."""
    given = study.release
    if given.files is None:
        return None
    tables = read_releases(given.files, df, **study.data.reading)
    return br.Release(
        datasets=[_declared(study, t, f"release {l}") for l, t in enumerate(tables, start=1)],
        synthesized=given.columns or [],
        classes=given.classes or ("new" if usual is None else usual.classes),
        parameters=given.parameters,
    )


def _declared(study: Study, table: pd.DataFrame, what: str) -> pd.DataFrame:
    levels = {c: v for c, v in study.data.listed_levels.items() if c in table.columns}
    return declare_levels(table, levels, what)


def provenance_of(
    study: Study, df: pd.DataFrame, sha256: str, releases: Mapping[str, Any]
) -> Provenance:
    """The files that were just read: the data, and releases made elsewhere."""
    path, (rows, columns) = study.data.path, df.shape
    name = f"demo table {study.data.demo}" if path is None else path.name
    files = [DataFile(role="data", name=name, rows=rows, columns=columns, sha256=sha256)]
    for candidate, release in releases.items():
        given = (candidate_study(study, candidate) if candidate else study).release.files
        if given is not None and isinstance(release, br.Release):
            note = f" of {candidate}" if candidate else ""
            files += release_files(files_of_releases(given), release.datasets, note=note)
    return Provenance(files=tuple(files), described=describe(df))


def read_beside(study: Study, path: Path | None, df: pd.DataFrame) -> pd.DataFrame | None:
    """A table of other people, read as the data are; None: there is none."""
    if path is None:
        return None
    return _declared(study, read_like(path, df, **study.data.reading), repr(path.name))


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
    lost = study.attribute.privacy_loss
    if ready.reweighting is not None:
        risk = ready.reweighting.risk
        return {"attribute": risk, "privacy_loss": br.privacy_loss(risk) if lost else None}
    options = {**study.attribute.options, **how, "before": study.attribute.before}
    prior = options.pop("prior", None)
    search = {} if prior is None else {"search_prior": prior}
    evidence = br.attribute_evidence(
        ready.fit, ready.release, random_seed=seed, **search, **options
    )
    risk = evidence.risk(prior)
    return {"attribute": risk, "privacy_loss": br.privacy_loss(evidence) if lost else None}


def _identification(study: Study, ready: Prepared, found: Found, seed: int, how: How) -> Found:
    options = matching_options(study, ready.df, ready.release.datasets)
    return {"identification": br.identification_risk(ready.df, ready.release, **options)}


def _utility(study: Study, ready: Prepared, found: Found, seed: int, how: How) -> Found:
    options = utility_options(study) | {"random_seed": seed, "n_jobs": how["n_jobs"]}
    return {"utility": br.utility(ready.df, ready.release, **options)}


def _context(study: Study, ready: Prepared, found: Found, seed: int, how: How) -> Found:
    options = study.context.model_dump() | {"random_seed": seed}
    options["holdout"] = read_beside(study, study.context.holdout, ready.df)
    return {"context": br.context_measures(ready.df, ready.release, **options)}


def _bounds(study: Study, ready: Prepared, found: Found, seed: int, how: How) -> Found:
    """The numbers that files alone give beside those at both ends of the scale."""
    df, release = ready.df, ready.release
    seeds = [int(one) for one in np.random.SeedSequence(seed).generate_state(2)]
    ends = bounds_of(study, df, list(release.synthesized), m=release.m, random_seed=seeds[0])
    begin_work()
    own = numbers_of(found)
    if study.context is not None:  # distances are the release's own
        near = study.context.model_copy(update={"distances": False, "holdout": None})
        study = study.model_copy(update={"context": near})

    def values(one: br.Release) -> dict[Any, float]:
        made: dict[str, Any] = {}
        for name in () if one is release else ("identification", "utility", "context"):
            if getattr(study, name) is not None:
                there = replace(ready, release=one)
                made |= AUDITS[name].work(study, there, {}, seeds[1], how)
        numbers = own if one is release else numbers_of(made)
        return {name: number.value for name, number in numbers.items() if name in own}

    if not own:
        raise InputError(f"{NOBODYS} [bounds] has nothing to show; add [utility] or [context]")
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


def bounds_of(study: Study, df: pd.DataFrame, made: list[str], **usual: Any) -> Any:
    """Releases at both ends of the scale, of these columns; ``usual`` where the study is silent."""
    return br.release_bounds(df, **{"synthesized": made, **usual, **bounds_options(study)})


def _membership(study: Study, ready: Prepared, found: Found, seed: int, how: How) -> Found:
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
        release = fit.synthesize(random_seed=seeds[2], **synthesis_options(study))
    options = section.given_to(br.membership) | {
        "intruder": br.Intruder(section.knows_records),
        "records": None if section.records == "all" else section.records,
        "others": others,
    }
    return {"membership": br.membership(fit, release, random_seed=seeds[3], **options, **how)}


def _full_table(study: Study, ready: Prepared, found: Found, seed: int, how: How) -> Found:
    """Where the truth stands among all values, of the records at highest risk."""
    options = {**study.full_table.model_dump(), **how, "random_seed": seed}
    attribute = found.get("attribute")
    if isinstance(options["targets"], int) and attribute is not None:
        options["targets"] = list(attribute.worst(options["targets"]).index)
    intruder = None if study.attribute is None else study.attribute.knows
    risk = br.full_table_risk(ready.fit, ready.release, intruder=intruder, **options)
    return {"full_table": risk}


class Audit(NamedTuple):
    """What a section asks for."""

    stage: str
    share: int  # of the time, beside the other stages of a run, roughly
    seed: int  # which of the run's
    work: Callable[[Study, Prepared, Found, int, How], Found]
    of_model: bool = False  # whether it is asked of the fit


AUDITS = {  # by section, in the order of a run
    "attribute": Audit("attribute risk", 40, 0, _attribute, of_model=True),
    "identification": Audit("identification risk", 5, 0, _identification),
    "utility": Audit("utility", 10, 3, _utility),
    "context": Audit("context measures", 5, 4, _context),
    "bounds": Audit("bounds", 20, 5, _bounds),
    "membership": Audit("membership", 30, 1, _membership, of_model=True),
    "full_table": Audit("full table", 20, 2, _full_table, of_model=True),
}
