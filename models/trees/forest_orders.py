"""Orders of synthesis compared by a measure of the user's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from math import factorial
from typing import Any

import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.release.release import Release

from .forest_fit import ForestFit

MAX_ORDERS = 24


def search_orders(
    model: Any,
    df: pd.DataFrame,
    value: Callable[[ForestFit, Release], float | Mapping[str, float]],
    *,
    orders: Sequence[Sequence[str]] | None = None,
    m: int = 5,
    random_seed: int = 0,
    **how: Any,
) -> pd.DataFrame:
    """A user's measure of the releases that different orders of synthesis make.

    Caiola & Reiter (2010) advise to try several orders and to compare utility and risk.

    Parameters
    ----------
    model : Forest
        Its ``order`` names the columns.
    df : DataFrame
        The confidential table.
    value : callable
        ``value(fit, release)``: a number, or several with their names.
    orders : list of lists of str, optional
        Orders to try; all by default, for up to four columns.
    m : int
        Data sets of each release.
    random_seed : int
        The same for every order.
    **how
        Passed on to `Forest.fit`.

    Returns
    -------
    DataFrame
        One row per order: ``order`` (the columns joined by ", ") and ``value``, or the names given.

    Raises
    ------
    InputError
        ``order="amount"`` without ``orders``; more than 24 orders that are not listed.
    """
    if orders is None:
        if model.order == "amount":
            raise InputError('order="amount" names no columns to order; list the orders (orders=)')
        if factorial(len(model.order)) > MAX_ORDERS:
            raise InputError(
                f"order names {len(model.order)} columns, which can stand in "
                f"{factorial(len(model.order)):,} orders; list those to try (orders=), at most "
                f"{MAX_ORDERS} are tried unlisted"
            )
        orders = list(permutations(model.order))
    table = []
    for order in orders:
        fit = replace(model, order=tuple(order)).fit(df, random_seed=random_seed, **how)
        found = value(fit, fit.synthesize(m, random_seed=random_seed))
        named = dict(found) if isinstance(found, Mapping) else {"value": found}
        table.append({"order": ", ".join(order)} | named)
    return pd.DataFrame(table)
