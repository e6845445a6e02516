"""A release in the terms of its original: the same text, levels and dates."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.data.kinds import STATISTICAL, checked_file, kind_of
from bayes_risk.data.table import Missing, in_days, indexed, stored_table
from bayes_risk.data.variables import Levels, holds_text, is_numeric


def read_like(
    path: Path,
    original: pd.DataFrame,
    *,
    index: str | None = None,
    missing: Missing = "error",
    same_rows: bool = False,
    other_levels: bool = False,
    **written: Any,
) -> pd.DataFrame:
    """Read a release of `original`: what is text, a category or a date there is one here.

    A code list such as ``1, 2, x`` makes the original's column text; a release that happens to hold
    only ``1`` and ``2`` must not turn into numbers that match nothing. A category's levels are the
    original's, unless there may be `other_levels`: a population holds people who cannot be in the
    file. A file of the `same_rows` may leave out the labels: as many rows are the original's, in
    its order; any other number is nobody's.
    """
    file = checked_file(path)
    text, how = text_columns(original), words(file, original)
    among = [*map(str, original.columns), *([index] if index else [])]
    table = stored_table(file, None, among=among, text=text, how=how, missing=missing, **written)
    if same_rows and index is not None and index not in table.columns:
        if len(table) == len(original):
            table = table.set_axis(original.index)
        return aligned(table, original, repr(str(file)))
    bound = original.select_dtypes(exclude="category") if other_levels else original
    return aligned(indexed(table, index, file), bound, repr(str(file)))


def aligned(table: pd.DataFrame, original: pd.DataFrame, source: str) -> pd.DataFrame:
    """Give a release's columns the levels and dates of the original's."""
    made = {
        name: _converted(table[name], original[name], f"column {name!r} of {source}")
        for name in table.columns
        if name in original.columns
    }
    return table.assign(**made) if made else table


def _converted(column: pd.Series, original: pd.Series, where: str) -> pd.Series:
    if isinstance(original.dtype, pd.CategoricalDtype):
        levels = original.dtype.categories
        values = column.astype(column.cat.categories.dtype) if _is_category(column) else column
        strange = (values.notna() & ~values.isin(levels)).to_numpy()
        if strange.any():  # neither the value nor the levels are told: they are the data's
            raise InputError(
                f"{where} holds a value in row {int(strange.argmax()) + 1} which is none of the "
                f"original's {len(levels):,} levels (so in {strange.sum():,} rows); if the file "
                "holds codes, write it with labels; if the value can be, declare it among the "
                "original's levels"
            )
        return values.astype(original.dtype)
    if _is_date(original) and holds_text(column):
        try:
            return pd.to_datetime(column, format="ISO8601")
        except ValueError:
            raise InputError(
                f"{where} holds text that is no date such as 2020-01-31, and the original holds "
                "dates; write the dates so"
            ) from None
    if is_numeric(original.dtype) and holds_text(column):
        with suppress(InputError):  # it is no column of dates, and is told elsewhere
            return in_days(column, where)
    return column


def text_columns(original: pd.DataFrame) -> list[str]:
    """Columns that a delimited release must leave as text."""
    return [str(c) for c in original.columns if holds_text(original[c]) or _is_date(original[c])]


def words(file: Path, original: pd.DataFrame) -> Levels:
    """What the labels of a release stand for, where the original has said it."""
    if kind_of(file) not in STATISTICAL:
        return {}
    return {
        str(c): "labels" if holds_text(original[c]) else "codes"
        for c in original.columns
        if _is_category(original[c]) or pd.api.types.is_numeric_dtype(original[c].dtype)
    }


def _is_category(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype)


def _is_date(column: pd.Series) -> bool:
    return bool(pd.api.types.is_datetime64_any_dtype(column.dtype))
