"""Fits of regressions, to the confidential table or from external draws; draws for ArviZ."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._compat import draws_of_posterior, group, holds_draws, plain_name
from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.variables import LARGEST
from bayes_risk.evidence.contract import Progress
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.models.fits.progress import ticker
from bayes_risk.models.fits.sampling import Length, mixing

from .families import CategoricalLogit
from .fit import RegressionFit
from .glm import Nuts
from .part import Coefficients, Part
from .posterior import (
    ExactPart,
    ExternalPart,
    FittedPart,
    PartPosterior,
    RegressionPosterior,
    SampledPart,
)

CHAINS = ["chain", "draw"]


def fitted(
    model: Any,
    data: Microdata,
    parts: Sequence[Part],
    weights: Array | None,
    length: Length,
    nuts_sampler: str,
    rng: np.random.Generator,
    progress: Progress | None,
    *,
    sample: bool = True,
) -> RegressionFit:
    """Fit each regression of a `Regression` to the confidential table, one after another."""
    sampled = [p for p in parts if not p.family.exact]
    tick = ticker(progress, "fit", max(len(sampled), 1) * length.steps)
    held: list[PartPosterior] = []
    for part, child in zip(parts, rng.spawn(len(parts)), strict=True):
        rows = replace(part.rows(data.codes, "the original"), weights=weights)
        if part.family.exact:
            held.append(ExactPart.fitted(part, rows, length.draws, length.chains, child))
        else:
            nuts = Nuts(part, nuts_sampler)
            how: Any = {"rng": child, "tick": tick, "sample": sample}
            held.append(SampledPart.fitted(part, rows, nuts, length, **how))
    diagnostics: dict[str, float] = {}
    if sample:
        values = np.column_stack([v for p in held for v in flat(p.part, p.draws).values()])
        mixed = mixing(*ess_and_rhat(values, length.chains), length.chains)
        diagnostics = {"draws": length.draws, "chains": length.chains, **mixed}
    return RegressionFit(
        model=model,
        microdata=data,
        idata=to_idata(held) if sample else None,
        posterior=RegressionPosterior(parts=held),
        diagnostics=diagnostics,
        weights=weights,
    )


def from_external(model: Any, data: Microdata, parts: Sequence[Part], draws: Any) -> RegressionFit:
    """A fit of a `Regression` made of draws from elsewhere."""
    tables = _tables(parts, draws)
    held = [ExternalPart(part=p, draws=_coefficients(p, *tables[p.name])) for p in parts]
    sizes = {p.part.name: len(p.draws) for p in held}
    if len(set(sizes.values())) > 1:
        raise InputError(f"the numbers of draws differ ({sizes}); give the same number of each")
    chains = held[0].draws.n_chains
    return RegressionFit(
        model=model,
        microdata=data,
        idata=to_idata(held),
        posterior=RegressionPosterior(parts=held),
        diagnostics={"draws": len(held[0].draws) // chains, "chains": chains},
    )


def column_names(part: Part) -> list[list[str]]:
    """Names of the coefficients in a table of draws: one list for each outcome level."""
    if not isinstance(part.family, CategoricalLogit):
        return [list(part.design.names)]
    levels = part.microdata.variables[part.column].labels[1:]
    return [[f"{name}[{level}]" for name in part.design.names] for level in levels]


def to_idata(parts: Sequence[FittedPart]) -> Any:
    """All draws as ArviZ keeps them, one variable a coefficient: ``income: age``."""
    posterior = {
        f"{held.part.name}: {name}": values.reshape(held.draws.n_chains, -1)
        for held in parts
        for name, values in flat(held.part, held.draws).items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer draws than chains are as they are
        return draws_of_posterior(posterior)


def flat(part: Part, draws: Coefficients) -> dict[str, Array]:
    """Every parameter by its name in a table of draws, each of shape (H,)."""
    beta = draws.beta[:, :, None] if draws.beta.ndim == 2 else draws.beta
    out = {
        name: beta[:, k, c]
        for c, names in enumerate(column_names(part))
        for k, name in enumerate(names)
    }
    for key, values in draws.extra.items():
        if key == "cut":
            out |= {f"cut[{c + 1}]": values[:, c] for c in range(values.shape[1])}
        else:
            out[key] = values
    return out


def _tables(parts: Sequence[Part], draws: Any) -> dict[str, tuple[pd.DataFrame, int]]:
    """A table of draws and its number of chains for each regression."""
    if holds_draws(draws):
        table, chains = _from_arviz(draws)
        found = {}
        for name in (part.name for part in parts):
            prefix = f"{name}: "
            chosen = [c for c in table.columns if c.startswith(prefix)]
            if not chosen:
                raise InputError(
                    f"the posterior has no variables of {name!r}; they are named "
                    f"{prefix + 'Intercept'!r}, ..., or give a mapping of column to draws"
                )
            own = table[chosen].set_axis([c.removeprefix(prefix) for c in chosen], axis=1)
            found[name] = own, chains
        return found
    if not isinstance(draws, Mapping):
        raise InputError(
            f"draws is a {type(draws).__name__}; give a mapping of column to DataFrame, or ArviZ's "
            "DataTree or InferenceData"
        )
    absent = [p.name for p in parts if p.name not in draws]
    if absent:
        raise InputError(f"draws has none of {absent}; give a table of draws for each formula")
    return {part.name: _table(draws[part.name], part.name) for part in parts}


def _table(given: Any, name: str) -> tuple[pd.DataFrame, int]:
    if holds_draws(given):
        return _from_arviz(given)
    if not isinstance(given, pd.DataFrame):
        raise InputError(
            f"the draws of {name!r} are a {type(given).__name__}; give a DataFrame with one column "
            "per coefficient, or ArviZ's DataTree or InferenceData"
        )
    return given, 1


def _from_arviz(idata: Any) -> tuple[pd.DataFrame, int]:
    """Scalar variables of a posterior, chain after chain."""
    posterior = group(idata, "posterior")
    scalars = [k for k, v in posterior.data_vars.items() if sorted(map(str, v.dims)) == CHAINS]
    columns = {plain_name(str(k)): posterior[k].transpose(*CHAINS).values.ravel() for k in scalars}
    return pd.DataFrame(columns), posterior.sizes.get("chain", 1)


def _coefficients(part: Part, table: pd.DataFrame, chains: int) -> Coefficients:
    """Draws of one regression from its table."""
    if len(table) < 2:
        raise InputError(f"the draws of {part.name!r} are {len(table)}; give at least 2")
    beta = np.stack(
        [
            np.column_stack([*(_column(part, table, n) for n in names), np.zeros((len(table), 0))])
            for names in column_names(part)
        ],
        axis=2,
    )
    extra = {}
    for key in part.family.extra:
        if key == "cut":
            names = [f"cut[{c}]" for c in range(1, part.n_levels)]
            extra[key] = np.column_stack([_column(part, table, n) for n in names])
            _check(part, "cut", bool((np.diff(extra[key], axis=1) > 0).all()), "increase")
        else:
            extra[key] = _column(part, table, key)
            _check(part, key, bool((extra[key] > 0).all()), "be above 0")
    nominal = isinstance(part.family, CategoricalLogit)
    return Coefficients(beta=beta if nominal else beta[:, :, 0], extra=extra, n_chains=chains)


def _column(part: Part, table: pd.DataFrame, name: str) -> Array:
    """One coefficient's draws; brms puts b_ in front of its name, and whole levels are 2 or 2.0."""
    names = (name, name.replace(".0]", "]"))
    found = next((c for n in names for c in (n, f"b_{n}") if c in table.columns), None)
    if found is None:
        raise InputError(
            f"the draws of {part.name!r} lack the coefficient {name!r}; they have "
            f"{list(table.columns)}"
        )
    try:
        values = table[found].to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    _check(part, name, bool(np.isfinite(values).all()), "be finite numbers")
    _check(part, name, bool((np.abs(values) <= LARGEST).all()), f"be at most {LARGEST:g} in size")
    return values


def _check(part: Part, name: str, right: bool, what: str) -> None:
    if not right:
        raise InputError(f"the draws of {name!r} of {part.name!r} must {what}; mend the table")
