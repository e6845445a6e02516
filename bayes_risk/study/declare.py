"""From the sections of a study to what the library takes: models, guesses, priors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.study.functions import functions_in, guarded
from bayes_risk.study.identification import IdentificationSection, RadiusSection
from bayes_risk.study.models import (
    BinomialSection,
    CARTSection,
    DPMPMSection,
    ForestSection,
    ModelSection,
    PMMSection,
    PyMCSection,
    RegressionPriorSection,
    RegressionSection,
)
from bayes_risk.study.sections import (
    AttributeSection,
    DistributionSection,
    GridSection,
    PriorDensity,
    PriorFactor,
)
from bayes_risk.study.study import Study
from bayes_risk.tables import read_table
from bayes_risk.variables import Number

WHOLE_FAMILIES = ("poisson", "negative-binomial")
FIT_TAKES = {
    "CART": ("random_seed", "progress"),
    "Forest": ("random_seed", "progress", "n_jobs"),
    "PMM": ("progress",),
}


def declare_model(model: ModelSection) -> Any:
    """The declaration that a ``[model]`` stands for; no work yet."""
    if isinstance(model, DPMPMSection):
        return br.models.DPMPM(
            n_classes=model.n_classes,
            concentration_prior=model.concentration_prior,
            level_prior=model.level_prior,
        )
    if isinstance(model, PyMCSection):
        (build,) = functions_in([model.file], key="build")
        return br.models.PyMCModel(build, columns=model.columns)
    if isinstance(model, RegressionSection):
        return br.models.Regression(
            model.formulas,
            families={name: _family(family) for name, family in model.families.items()},
            prior=_regression_prior(model.prior),
            priors={name: _regression_prior(prior) for name, prior in model.priors.items()},
        )
    return _declare_unsampled(model)


def _declare_unsampled(model: CARTSection | ForestSection | PMMSection) -> Any:
    """Trees, forests and matching: the keys are the arguments."""
    keys = model.model_dump(exclude={"kind"})
    if isinstance(model, CARTSection):
        return br.models.CART(**keys)
    if isinstance(model, ForestSection):
        return br.models.Forest(**keys)
    functions = functions_in(model.files, key="constraints")
    constraints = [
        guarded(function, path, key="constraints")
        for function, (path, _) in zip(functions, model.files, strict=True)
    ]
    return br.models.PMM(**keys | {"constraints": constraints})


def fit_model(study: Study, declaration: Any, df: pd.DataFrame, **how: Any) -> Any:
    """Fit a declaration to the table, or take the draws that the study brings."""
    model, missing = study.model, study.data.missing
    if isinstance(model, CARTSection | ForestSection | PMMSection):
        taken = {key: value for key, value in how.items() if key in FIT_TAKES[model.kind]}
        return declaration.fit(df, missing=missing, **taken)
    if isinstance(model, RegressionSection):
        if isinstance(model.draws, dict):
            tables = {name: read_table(path) for name, path in model.draws.items()}
            return declaration.from_draws(df, tables, missing=missing)
        how["nuts_sampler"] = model.nuts_sampler
    return declaration.fit(
        df, draws=model.draws, tune=model.tune, chains=model.chains, missing=missing, **how
    )


def attribute_options(section: AttributeSection) -> dict[str, Any]:
    """``[attribute]`` as keyword arguments of ``attribute_risk``."""
    return {
        "intruder": br.Intruder(knows_columns=tuple(section.knows_columns)),
        "guesses": declare_guesses(section.guesses, section.guess_budget),
        "prior": _prior(section.prior),
        "targets": None if section.targets == "all" else section.targets,
        "evidence": section.evidence,
        "target_mcse": section.target_mcse,
        "max_doublings": section.max_doublings,
        "refit_budget": section.refit_budget,
    }


def identification_options(
    section: IdentificationSection, df: pd.DataFrame, releases: Sequence[pd.DataFrame]
) -> dict[str, Any]:
    """``[identification]`` as keyword arguments of ``identification_risk``."""
    options = section.model_dump(exclude={"radius", "population"})
    options["radius"] = {c: _radius(r) for c, r in (section.radius or {}).items()} or None
    options["population"] = _population(section, df, releases)
    return options


def _radius(given: float | RadiusSection) -> Any:
    if not isinstance(given, RadiusSection):
        return given
    if given.absolute is not None:
        return br.Absolute(given.absolute)
    if given.quantile is not None:
        return br.Quantile(given.quantile)
    return br.SD(given.sd or 0.0, groups=given.groups or 1)


def _population(
    section: IdentificationSection, df: pd.DataFrame, releases: Sequence[pd.DataFrame]
) -> Any:
    """Counts of a file, or of a log-linear model of the exact keys."""
    if section.population is None:
        return None
    given = section.population
    keys = [*section.known, *section.synthesized]
    if given.file is not None:
        return br.Population.counted(read_table(given.file), keys)
    size = given.size
    if given.fitted_to == "original":
        return br.Population.log_linear(df, keys, size=size)
    return [br.Population.log_linear(table, keys, size=size) for table in releases]


def declare_guesses(guesses: str | GridSection | Mapping[str, Any], budget: int) -> Any:
    """Neighbourhood, grid for all numbers, or joint grid."""
    if isinstance(guesses, GridSection):
        return br.Grid(**guesses.model_dump())
    if isinstance(guesses, str):
        return br.Neighbourhood(1 if guesses == "neighbourhood" else int(guesses.split("-")[1]))
    grids = {
        name: br.Levels() if grid == "levels" else br.Grid(**grid.model_dump())
        for name, grid in guesses.items()
    }
    return br.JointGrid(grids, budget=budget)


def check_columns(model: ModelSection, df: pd.DataFrame) -> None:
    """Find columns that trees, forests and matching cannot use before anything is fitted."""
    if not isinstance(model, CARTSection | ForestSection | PMMSection):
        return
    identifying = model.identifying if isinstance(model, PMMSection) else []
    for key, names in (("order", model.order), ("identifying", identifying)):
        for name in names:
            if name not in df.columns:
                raise InputError(
                    f"[model] {key} names column {name!r}; the data have {list(df.columns)}"
                )
    numbers = [name for name in model.order if _is_number(df[name])]
    if isinstance(model, ForestSection) and numbers:
        raise InputError(
            f"[model] order names column {numbers[0]!r}, which is a number, and forests synthesise "
            'categories; declare its levels in [data.levels], or take kind = "CART"'
        )


def check_guesses(study: Study, df: pd.DataFrame) -> None:
    """Find guesses that do not suit the data before a model is fitted, which may take long."""
    section, names = study.attribute, study.synthesized
    if section is None or names is None or isinstance(study.model, DPMPMSection):
        return
    for name in names:
        if name in df.columns and name not in section.knows_columns:
            _check_column(name, df[name], section, _family_named(study.model, name))


def _check_column(name: str, column: pd.Series, section: AttributeSection, family: Any) -> None:
    """One guessed column: numbers have grids, and the grids a place for the truth."""
    by_family = family not in ("bernoulli", "ordered", "categorical")
    number = _is_number(column) if family is None else by_family
    guesses = section.guesses
    grid = guesses.get(name) if isinstance(guesses, dict) else guesses
    label = f"[attribute] guesses.{name}"
    if not number:
        if isinstance(guesses, dict) and isinstance(grid, GridSection):
            raise InputError(f'{label}: the column is a category; give "levels"')
        return
    if not isinstance(grid, GridSection):
        raise InputError(
            f"{label}: the column is a number, and a number needs a grid: "
            f"guesses = {{ {name} = {{ percent = 10, n = 11 }} }}"
        )
    whole = family in WHOLE_FAMILIES or isinstance(family, BinomialSection)
    if section.targets == "all" and not whole and column.notna().all():
        br.Grid(**grid.model_dump()).points(column.to_numpy(dtype=float), Number.of(column, name))


def _is_number(column: pd.Series) -> bool:
    kinds = pd.api.types
    return kinds.is_numeric_dtype(column.dtype) and not kinds.is_bool_dtype(column.dtype)


def _family_named(model: ModelSection, name: str) -> Any:
    return model.families.get(name) if isinstance(model, RegressionSection) else None


def _family(family: str | BinomialSection) -> Any:
    return br.models.Binomial(trials=family.binomial) if not isinstance(family, str) else family


def _regression_prior(prior: str | RegressionPriorSection) -> Any:
    if isinstance(prior, str):
        return br.models.RegressionPrior.reference()
    return br.models.RegressionPrior(**prior.model_dump())


def _prior(prior: str | PriorFactor | PriorDensity) -> Any:
    if isinstance(prior, PriorFactor):
        return br.TruthFactor(prior.truth_factor)
    if isinstance(prior, PriorDensity):
        return br.Density({name: _frozen(given) for name, given in prior.density.items()})
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
