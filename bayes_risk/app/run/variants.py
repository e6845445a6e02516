"""The audits that a run is made of: one, settings of a sweep, candidates of a comparison."""

import math
from dataclasses import dataclass, replace
from typing import Any

from bayes_risk.app.costs import Sizes
from bayes_risk.app.study.candidates import candidate_study, candidates_of
from bayes_risk.app.study.making import checked
from bayes_risk.app.study.study import Study
from bayes_risk.app.study.sweep import SweepSection

from .sizes import sizes_of

ASIDE = ("identification", "utility", "context", "bounds", "membership", "full_table")
NEW_FITS = ("knows_records", "knows_columns", "classes", "model")


@dataclass(frozen=True, slots=True)
class Variant:
    """One audit.

    Attributes
    ----------
    study : Study
    sizes : Sizes
    times : int
        How often it is made.
    """

    study: Study
    sizes: Sizes
    times: int = 1


def alone(study: Study) -> Study:
    """The study of a sweep: its attribute audit alone."""
    return study.model_copy(update=dict.fromkeys(ASIDE))


def checked_variants(study: Study, df: Any, kind: str) -> list[Variant]:
    """Every audit of a run, checked against the table.

    Parameters
    ----------
    study : Study
    df : DataFrame
    kind : {"audit", "sweep", "comparison"}

    Returns
    -------
    list of Variant
        Of a sweep those that differ in guesses.

    Raises
    ------
    InputError
        Settings that do not fit the table.
    """
    if kind == "comparison" and study.compare is not None:
        candidates_of(study, df)
        return [_candidate(study, name, df) for name in study.compare.candidates]
    if kind == "sweep" and study.sweep is not None:
        checked(alone(study), df)
        return _settings(alone(study), study.sweep, df)
    checked(study, df)
    return [Variant(study, sizes_of(study, df))]


def settings_of(study: Study, kind: str) -> int:
    """How many audits are made."""
    if kind == "comparison" and study.compare is not None:
        files = [candidate_study(study, n).release.files for n in study.compare.candidates]
        return sum(1 if given is not None else study.compare.replicates for given in files)
    if kind == "sweep" and study.sweep is not None:
        return _count(study, [f for f in study.sweep.factors if f not in ("priors", "m")])
    return 1


def _candidate(study: Study, name: str, df: Any) -> Variant:
    assert study.compare is not None
    one = candidate_study(study, name)
    if study.compare.bounds:
        one = one.model_copy(update={"bounds": study.bounds})
    times = study.compare.replicates if one.release.files is None else 1
    return Variant(one, replace(sizes_of(one, df), written=False), times)


def _settings(study: Study, section: SweepSection, df: Any) -> list[Variant]:
    """The study with each set of guesses, and each that is known of the target."""
    assert study.attribute is not None
    guesses = [study.attribute.guesses, *section.values("guesses")]
    known = [study.attribute.knows_columns, *section.values("knows_columns")]
    fits = _count(study, [f for f in section.factors if f in NEW_FITS])
    priors = 1 + len(section.values("priors"))
    found = []
    for update in [{"guesses": g} for g in guesses] + [{"knows_columns": k} for k in known[1:]]:
        audit = study.attribute.model_copy(update=update)
        sizes = sizes_of(study.model_copy(update={"attribute": audit}), df)
        found.append(Variant(study, replace(sizes, priors=priors, fit_sets=fits, written=False)))
    return [replace(found[0], times=settings_of(study, "sweep")), *found[1:]]


def _count(study: Study, factors: list[str]) -> int:
    """Settings of some factors, the study's own among them: each by itself, or all together."""
    section, audit = study.sweep, study.attribute
    assert section is not None and audit is not None
    own = {
        "knows_records": "all-but-target",
        "knows_columns": audit.knows_columns,
        "guesses": audit.guesses,
        "classes": study.classes,
        "evidence": audit.evidence or section.values("evidence")[:1],
    }
    sizes: list[int] = []
    for factor in factors:
        if factor == "model":
            sizes += [1 + len(values) for values in (section.model or {}).values()]
            continue
        values = section.values(factor)
        sizes.append(len(values) + (own[factor] not in values and own[factor] != values[:1]))
    return math.prod(sizes) if section.combinations else 1 + sum(k - 1 for k in sizes)
