"""From the sections of a study to what the library takes: models, guesses, priors, options."""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.evidence.contract import drawn
from bayes_risk.intruder.grids import JointGrid, Levels
from bayes_risk.intruder.guesses import Neighbourhood
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.intruder.priors import Density, Interval, Mixture, TruthFactor
from bayes_risk.matching.population import Population
from bayes_risk.matching.radii import SD, Absolute, Quantile
from bayes_risk.release.release import Release

from .agreement import changed
from .contents import Contents
from .measures import IdentificationSection, MembershipSection, RadiusSection
from .models import ModelSection, Part
from .reading import read_people
from .sections import (
    BY_MODEL,
    AttributeSection,
    DistributionSection,
    PriorDensity,
    PriorFactor,
    PriorInterval,
    PriorMixture,
)
from .sweep import SHARES, SweepSection, Values, labelled


def declare(study: Contents, df: pd.DataFrame | None = None) -> Any:
    """The declaration that ``[model]`` stands for, its keys the arguments; no work yet.

    Without the table, rules that are to be read as the data are left out.
    """
    try:
        return study.model.declared(df)
    except InputError as error:
        raise InputError(study.model.said(error)) from None


def fit_model(study: Contents, declaration: Any, df: pd.DataFrame, **how: Any) -> Any:
    """Fit a declaration to the table, or take the draws or trees that the study brings."""
    way = study.model.way
    how |= {"missing": study.data.missing}
    options = study.model.fit_options() | taken(declaration, way, **how)
    return getattr(declaration, way)(df=df, **options)


def taken(declaration: Any, way: str = "fit", **how: Any) -> dict[str, Any]:
    """What of some options the way to the fit takes; matching, say, draws nothing."""
    takes = signature(getattr(declaration, way)).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes):
        return how
    return {parameter.name: how[parameter.name] for parameter in takes if parameter.name in how}


def attribute_options(section: AttributeSection) -> dict[str, Any]:
    """``[attribute]`` as keyword arguments of ``attribute_risk``."""
    named = {} if section.prior is None else {"prior": declare_prior(section.prior)}
    return {
        "intruder": _intruder(section),
        "guesses": declare_guesses(section.guesses, section.guess_budget),
        **named,
        "targets": None if section.targets == "all" else section.targets,
        **{key: getattr(section, key) for key in BY_MODEL},
    }


def placed_anywhere(section: AttributeSection) -> AttributeSection:
    """The same guesses for any record: a grid without a place for the truth stops nothing here.

    Whether there is one is asked of the targets, when they are audited.
    """
    given = section.guesses
    guesses: Any = _anywhere(given)
    if isinstance(given, dict):
        guesses = {name: _anywhere(grid) for name, grid in given.items()}
    return section.model_copy(update={"guesses": guesses})


def _anywhere(grid: Any) -> Any:
    stops = isinstance(grid, Part) and grid.made().truth == "error"
    return grid.model_copy(update={"truth": "nearest"}) if stops else grid


def _intruder(section: AttributeSection) -> Any:
    if section.intruder is None:
        return Intruder(knows_columns=tuple(section.knows_columns))
    return section.intruder.declared(section.knows_columns)


def membership_options(section: MembershipSection) -> dict[str, Any]:
    """``[membership]`` as options of ``membership``."""
    asked = section.model_dump(exclude={"held_out", "others", "records", "knows_records"})
    asked["records"] = None if section.records == "all" else section.records
    return asked | {"intruder": Intruder(knows_records=section.knows_records)}


def matching_options(
    study: Contents, df: pd.DataFrame, releases: Sequence[pd.DataFrame]
) -> dict[str, Any]:
    """``[identification]`` as keyword arguments of ``identification_risk``."""
    section = study.identification
    assert section is not None
    options = section.model_dump(exclude={"radius", "population"})
    options["radius"] = {c: _radius(r) for c, r in (section.radius or {}).items()} or None
    options["population"] = _population(study, section, df, releases)
    return options


def _radius(given: float | RadiusSection) -> Any:
    if not isinstance(given, RadiusSection):
        return given
    if given.absolute is not None:
        return Absolute(given.absolute)
    if given.quantile is not None:
        return Quantile(given.quantile)
    return SD(given.sd or 0.0, groups=given.groups or 1)


def _population(
    study: Contents,
    section: IdentificationSection,
    df: pd.DataFrame,
    releases: Sequence[pd.DataFrame],
) -> Any:
    """Counts of a file, or of a log-linear model of the exact keys."""
    if section.population is None:
        return None
    given = section.population
    keys = [*section.known, *section.synthesized]
    if given.file is not None:
        data = study.data
        people = read_people(given.file, df[keys], missing=data.missing_codes, na=data.na)
        return Population.counted(people, keys)
    size = given.size
    if given.fitted_to == "original":
        return Population.log_linear(df, keys, size=size)
    return [Population.log_linear(table, keys, size=size) for table in releases]


def declare_guesses(guesses: str | Part | Mapping[str, Any], budget: int) -> Any:
    """Neighbourhood, grid for all numbers, or joint grid."""
    if isinstance(guesses, Part):
        return guesses.made()
    if isinstance(guesses, str):
        return Neighbourhood(1 if guesses == "neighbourhood" else int(guesses.split("-")[1]))
    grids = {name: Levels() if grid == "levels" else grid.made() for name, grid in guesses.items()}
    return JointGrid(grids, budget=budget)


def declare_prior(prior: Any) -> Any:
    """A word, or the section of a prior, as the library is told."""
    if isinstance(prior, PriorFactor):
        return TruthFactor(prior.truth_factor)
    if isinstance(prior, PriorInterval):
        how = prior.model_dump(exclude={"interval"})
        return Interval(*prior.interval, **how)
    if isinstance(prior, PriorDensity):
        return Density({name: _frozen(given) for name, given in prior.density.items()})
    if isinstance(prior, PriorMixture):
        return Mixture([(weight, declare_prior(part)) for weight, part in prior.mixture])
    return prior


def _frozen(given: DistributionSection) -> Any:
    """A frozen distribution of SciPy."""
    from scipy import stats

    if given.normal is not None:
        return stats.norm(*given.normal)
    if given.lognormal is not None:
        mu, sigma = given.lognormal
        return stats.lognorm(s=sigma, scale=np.exp(mu))
    if given.uniform is None:
        raise InputError("a density needs a distribution: { normal = [10.0, 1.0] }")
    low, high = given.uniform
    return stats.uniform(loc=low, scale=high - low)


def synthesis_options(study: Contents) -> dict[str, Any]:
    """``[release]`` as options of ``synthesize``; those left to the model are left out."""
    release = study.release
    given = {"classes": release.classes, "parameters": release.parameters}
    return {"m": release.m, "columns": release.columns} | {
        key: value for key, value in given.items() if value is not None
    }


def compare_options(study: Contents, df: pd.DataFrame) -> dict[str, Any]:
    """``[compare]`` as keyword arguments of ``compare``."""
    section = study.compare
    assert section is not None
    audit, keys = study.attribute, study.identification

    def matching(files: Any) -> dict[str, Any]:
        return matching_options(study, df, getattr(files, "datasets", files))

    return {
        "attribute": None if audit is None else attribute_options(audit),
        "identification": None if keys is None else matching,
        "utility": {} if study.utility is None else study.utility.options,
        "replicates": section.replicates,
        "bounds": study.bounds.options if section.bounds and study.bounds else section.bounds,
    }


def sweep_options(study: Contents, fit: Any, release: Release) -> dict[str, Any]:
    """``[sweep]`` as keyword arguments of ``sensitivity``; the study's own audit is the base."""
    section, audit = study.sweep, study.attribute
    assert section is not None and audit is not None
    options, over, base = attribute_options(audit), {}, {}
    for key, own in _own(study, section, fit, release).items():
        given = getattr(section, key)
        factor = "prior" if key == "priors" else key
        over[factor], base[factor] = _varied(key, given, own, audit.guess_budget)
        options.pop(factor, None)
    if section.m is not None:
        over["m"], base["m"] = sorted({*section.m, study.m}), study.m
    if section.model is not None:
        over["hyper"] = {
            "kind" if key == "synthesizer" else key: _hyper(study.model, key, values)
            for key, values in section.model.items()
        }
    return options | {"over": over, "base": base, "one_at_a_time": not section.combinations}


def _own(study: Contents, section: SweepSection, fit: Any, release: Release) -> dict[str, Any]:
    """The study's own value of each key that is varied, m and the model aside."""
    audit = study.attribute
    assert audit is not None
    own: dict[str, Any] = {
        "priors": audit.prior or "uniform",
        "knows_records": "all-but-target",
        "knows_columns": audit.knows_columns,
        "guesses": audit.guesses,
        "classes": release.classes,
        "parameters": drawn(fit, release),
        "evidence": audit.evidence,
    }
    if audit.intruder is not None:
        own["knows_records"] = audit.intruder.knows_records
    if section.evidence is not None and audit.evidence is None:
        own["evidence"] = section.values("evidence")[0]  # left to the library: the first listed
    return {key: own[key] for key in own if key in section.factors}


def _varied(key: str, given: Values, own: Any, budget: int) -> tuple[Any, Any]:
    """Values as the library takes them, and the label of the study's own."""
    if key == "knows_records" and isinstance(given, list):
        values = [*given, *([] if own in given else [own])]
        if not any(isinstance(value, list) for value in values):  # a curve over shares
            return values, SHARES.get(own, own)
    pairs, label = labelled(key, given, own)
    if key == "priors":
        return {name: declare_prior(value) for name, value in pairs.items()}, label
    if key == "guesses":
        return {name: declare_guesses(value, budget) for name, value in pairs.items()}, label
    return pairs, label


def _hyper(model: ModelSection, key: str, given: Any) -> Any:
    """Values of a hyper-parameter as the model's declaration has them."""
    if isinstance(given, Mapping):
        return {str(label): _value(model, key, value) for label, value in given.items()}
    values = [_value(model, key, value) for value in given]
    if all(isinstance(value, int | float) for value in values):
        return values
    return {_shown(value): v for value, v in zip(given, values, strict=True)}


def _value(model: ModelSection, key: str, given: Any) -> Any:
    if key == "power":
        return float(given)
    name = "kind" if key == "synthesizer" else key
    return getattr(changed(model, key, given).declared(), name)


def _shown(value: Any) -> str:
    """A value that is no number, for labels: as the file has it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{k} = {v}" for k, v in value.items())
    return str(value)
