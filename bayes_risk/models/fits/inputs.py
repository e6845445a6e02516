"""What fits of trees, donors and PyMC models are given: a table read, an order, an outcome."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import Microdata, checked_table
from bayes_risk.data.variables import is_numeric, stand_ins


def microdata(
    df: pd.DataFrame,
    columns: Sequence[str] | None,
    *,
    levels: Mapping[str, Iterable[Hashable]] | None,
    numbers: Sequence[str] | None = None,
    near: bool = False,
    **how: Any,
) -> Microdata:
    """The table; columns of numeric dtype are numbers, but for ``levels`` or if others are told."""
    checked_table(df)
    if numbers is None:
        names, named = df.columns if columns is None else columns, levels or {}
        numbers = [c for c in names if c in df and c not in named and is_numeric(df[c].dtype)]
    if near and how["missing"] == "level":
        given = how.get("missing_numbers") or {}
        how["missing_numbers"] = stand_ins(df, numbers, near=True) | given
    return Microdata.from_frame(df, columns=columns, numbers=numbers, levels=levels, **how)


def column_order(name: str, given: Sequence[str], otherwise: str = "") -> tuple[str, ...]:
    """Names of at least one column, none twice."""
    if isinstance(given, str) or not len(given):
        raise InputError(name, given, f"; give a list of at least one column name{otherwise}")
    return tuple(known_columns(name, list(given), list(given)))


def check_outcome(
    data: Microdata, column: int, predictors: Ints, rows: Any, cure: str = ""
) -> None:
    """Refuse an outcome that nothing predicts, or that has one value among some records."""
    name = data.columns[column]
    if not len(predictors):
        raise InputError(
            f"column {name!r} has no predictor: order names every column; leave one out of it{cure}"
        )
    if np.ptp(data.codes[rows, column]) == 0:
        raise InputError(
            f"column {name!r} has the same value for every record that is replaced, so there is "
            "nothing to synthesise; leave it out of order"
        )
