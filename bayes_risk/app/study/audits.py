"""Every audit of a study: its section as arguments of the library, and what it takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk._core.checkpoint import begin_work
from bayes_risk.data.variables import Variable
from bayes_risk.release.provenance import Provenance
from bayes_risk.studies.bounds import InherentBounds, numbers_of

from .declare import (
    bounds_options,
    fit_model,
    matching_options,
    membership_options,
    read_beside,
    synthesize,
    utility_options,
)
from .study import Study

Found = Mapping[str, Any]  # results by the name of the section, of the audits before
How = Mapping[str, Any]  # n_jobs, progress


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
        return {name: number.value for name, number in numbers.items()}

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
        release = synthesize(fit, study, random_seed=seeds[2])
    options = membership_options(section) | {**how, "others": others, "random_seed": seeds[3]}
    return {"membership": br.membership(fit, release, **options)}


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
