"""What a population is made from: checked numbers, and posterior draws of its counts."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.loglinear import fit_loglinear, independent_mean, margins_of, support
from bayes_risk._core.validate import positive

from .counts import CellCounts
from .keys import KeyLevels, check_once, found_in
from .posterior import CHAINS, MAX_DRAWN_CELLS, posterior_means

Reals = npt.NDArray[np.float64]


class LogLinearModel(NamedTuple):
    """1: main effects, 2: all two-way interactions; and the sampling fraction pi."""

    interactions: int
    pi: float


def sampling_fraction(size: float | None, fraction: float | None, n: int) -> float:
    """Return pi in (0, 1] from the size of the population or from itself."""
    if (size is None) == (fraction is None):
        raise InputError(
            f"size={size} and fraction={fraction}; give one of them: how many people the "
            f"population has, or which share of them was sampled"
        )
    if size is not None:
        if positive("size", size) < n:
            raise InputError(
                f"size={size} is smaller than the sample of {n:,} records; give the number of "
                f"people in the population"
            )
        return n / float(size)
    if positive("fraction", fraction) > 1:
        raise InputError(f"fraction={fraction} is above 1; give the sampling fraction, in (0, 1]")
    return float(fraction)  # type: ignore[arg-type]


def checked_interactions(interactions: Any) -> int:
    """Return 1 or 2."""
    if isinstance(interactions, bool) or interactions not in (1, 2):
        raise InputError(
            f"interactions={interactions!r} is not known; give 1 (main effects) or 2 (all two-way "
            f"interactions)"
        )
    return int(interactions)


def positive_numbers(column: pd.Series, name: str, what: str, *, zero: bool = False) -> Reals:
    """Return a column as finite numbers above 0, or at least 0."""
    if not pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        raise InputError(
            f"column {name!r} ({column.dtype}) of {what} does not hold numbers; convert it "
            f"(pandas.to_numeric)"
        )
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    below = values < 0 if zero else values <= 0
    least = "negative" if zero else "0 or negative"
    for wrong, which in ((~np.isfinite(values), "missing or infinite"), (below, least)):
        if wrong.any():
            raise InputError(
                f"column {name!r} of {what} is {which} in {wrong.sum():,} of {len(values):,} rows; "
                f"correct them, or drop those rows"
            )
    return values


def tidy(table: Any) -> pd.DataFrame:
    """Return a population table with one column per key, and ``count``."""
    if isinstance(table, pd.Series):
        if any(name is None or name == "count" for name in table.index.names):
            raise InputError(
                f"the index of the population table is named {list(table.index.names)}; name it "
                f"after the key columns (rename_axis)"
            )
        return table.rename("count").reset_index()
    if not isinstance(table, pd.DataFrame):
        raise InputError(
            f"the population table is a {type(table).__name__}; give a Series indexed by the keys, "
            f"or a DataFrame with key columns and a column 'count'"
        )
    check_once(table, "count", "the population table")
    return table


def fitted(df: pd.DataFrame, keys: list[str], model: LogLinearModel) -> dict[str, Any]:
    """Expected F_t given the sample counts: fields of a `Population`."""
    levels = KeyLevels.of(df, keys)
    cells, N = levels.cells(df, np.ones(len(df)))
    fit = fit_loglinear(cells, N, levels.n_levels, interactions=model.interactions)
    odds = (1 - model.pi) / model.pi
    if fit.shares:
        others = (odds * fit.n, fit.shares)
        table = (N + independent_mean(*others, cells))[None]
        counts = CellCounts(levels=levels, cells=cells, table=table, others=others)
    else:
        F = odds * fit.mu
        F[found_in(fit.cells, cells, levels.n_levels)] += N  # an observed cell can be populated
        counts = CellCounts(levels=levels, cells=fit.cells, table=F[None])
    told = {"cells": float(len(fit.cells)), "cycles": float(fit.cycles), "gap": fit.gap}
    return {"cell_counts": counts, "diagnostics": told}


def drawn(
    df: pd.DataFrame,
    keys: list[str],
    model: LogLinearModel,
    *,
    draws: int,
    random_seed: Any,
) -> dict[str, Any]:
    """Posterior draws of F_t over all cells that can be populated: fields of a `Population`."""
    rng = np.random.default_rng(random_seed)
    for_mu, for_F = rng.spawn(2)
    levels = KeyLevels.of(df, keys)
    observed, N = levels.cells(df, np.ones(len(df)))
    terms = margins_of(len(keys), model.interactions)
    cells = support(observed, levels.n_levels, terms, limit=MAX_DRAWN_CELLS)
    cells = cells[np.lexsort(cells.T)]
    count = np.zeros(len(cells), dtype=np.int64)
    count[found_in(cells, observed, levels.n_levels)] = N
    S = -(-draws // CHAINS) * CHAINS
    found = posterior_means(cells, count, terms=terms, draws=S, rng=for_mu)
    # F_t - N_t | mu_t ~ Poisson(mu_t (1 - pi) / pi)
    F = count + for_F.poisson(found.mu * (1 - model.pi) / model.pi)
    return {
        "cell_counts": CellCounts(levels=levels, cells=cells, table=F.astype(np.float64)),
        "diagnostics": found.diagnostics,
        "seed_entropy": str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
    }
