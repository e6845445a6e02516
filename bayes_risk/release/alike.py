"""A release in the terms of its original: the same text, levels and dates."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.data.columns import missing_code
from bayes_risk.data.kinds import STATISTICAL, checked_file, kind_of
from bayes_risk.data.spelling import respelled, spelled_values
from bayes_risk.data.table import Missing, indexed, stored_table
from bayes_risk.data.variables import Levels, holds_text, is_numeric

# in a text file, and where a release of codes holds no letters
USUAL = ("dates written as text", "dates as days", "numbers", "dates", "truth values")


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
    """Read a release of `original` in its terms: text, categories of its levels, numbers, dates."""
    file = checked_file(path)
    text, how = text_columns(original), words(file, original)
    among = [*map(str, original.columns), *([index] if index else [])]
    written |= {"text": text, "numbers": number_columns(original)}
    table = stored_table(file, None, among=among, how=how, missing=missing, **written)
    if same_rows and index is not None and index not in table.columns:
        if len(table) == len(original):
            table = table.set_axis(original.index)
        return like_original(table, original, repr(str(file)))
    bound = original.select_dtypes(exclude="category") if other_levels else original
    return like_original(indexed(table, index, file), bound, repr(str(file)))


def like_original(table: pd.DataFrame, original: pd.DataFrame, source: str) -> pd.DataFrame:
    """Give a release's columns the text, levels, numbers and dates of the original's."""
    made = {}
    for name in table.columns:
        if name in original.columns and isinstance(table[name], pd.Series):
            made[name] = _converted(table[name], original[name], str(name), source)
    return table.assign(**made) if made else table


def codes_as_in(
    original: pd.DataFrame, table: pd.DataFrame, codes: Mapping[str, float]
) -> pd.DataFrame:
    """Give a release the original's form of missing numbers: these codes, or empty cells."""
    made = {}
    for name, code in codes.items():
        if name in table and name in original and is_numeric(table[name].dtype):
            empty = bool(original[name].isna().any())
            made[name] = (
                table[name].mask(table[name] == code) if empty else table[name].fillna(code)
            )
    return table.assign(**made) if made else table


def coded_as_in(original: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Give missing numbers of a file the code that the original has for them, and the file not."""
    codes = {}
    for name in (c for c in table.columns if c in original):
        own, shown = original[name], table[name]
        if not (isinstance(own, pd.Series) and isinstance(shown, pd.Series)):
            continue  # a column that stands there twice is refused later
        if not (is_numeric(own.dtype) and is_numeric(shown.dtype)) or own.isna().any():
            continue
        code = missing_code(own) if shown.isna().any() else None
        if code is not None and not (shown == code).any():
            codes[name] = code
    return codes_as_in(original, table, codes)


def _converted(column: pd.Series, original: pd.Series, name: str, source: str) -> pd.Series:
    """One column in the original's terms; left as it is where it cannot be compared."""
    kind, own = original.dtype, column.dtype
    if _is_category(original) and _is_category(column):
        column = column.astype(column.cat.categories.dtype)
    elif not _is_category(original) and (own == kind or own.kind in "iuf" and kind.kind in "iuf"):
        if not holds_text(original):
            whole = own == "Int64" and kind == np.dtype(float)
            return column.astype(float) if whole else column
    where, distinct = pd.factorize(column)
    genuine = spelled_values(pd.factorize(original)[1])
    given = spelled_values(distinct)
    if given.kind == genuine.kind and not _is_category(original):
        if given.kind != "text" or pd.Index(given.values).isin(genuine.known).all():
            return column
    absent = bool(original.isna().any())
    try:
        found = respelled(name, genuine, given, absent, ("the original", source))
    except InputError:
        if _is_category(original) or _is_date(original):
            raise
        return column
    if found.how not in ("", *USUAL):
        warnings.warn(f"column {name!r} of {source} is read {found.in_words()}", stacklevel=2)
    if not _is_category(original) and not found.how and given.kind == genuine.kind:
        return column
    converted = [*found.values.astype(object), None]
    values = pd.Series([converted[i] for i in where], column.index, np.dtype(object))
    if _is_category(original):
        return _as_levels(values, original.dtype, f"column {name!r} of {source}")
    if genuine.kind == "dates":
        stamps = values.dropna().astype(np.int64).to_numpy().astype("datetime64[us]")
        dates = pd.Series(pd.NaT, column.index, dtype="datetime64[us]")
        dates[values.notna()] = stamps
        return dates
    return values.infer_objects()


def _as_levels(values: pd.Series, dtype: Any, where: str) -> pd.Series:
    """A category of the original's levels; any other value is an error."""
    levels = dtype.categories
    known = spelled_values(levels)
    at = dict(zip(known.values.tolist(), levels, strict=True))
    strange = (values.notna() & ~values.isin(list(at))).to_numpy()
    if strange.any():  # neither the value nor the levels are told: they are the data's
        raise InputError(
            f"{where} holds a value in row {int(strange.argmax()) + 1} which is none of the "
            f"original's {len(levels):,} levels (so in {strange.sum():,} rows); if the file "
            "holds codes, write it with labels; if the value can be, declare it among the "
            "original's levels"
        )
    return values.map(at, na_action="ignore").astype(dtype)


def text_columns(original: pd.DataFrame) -> list[str]:
    """Columns that a delimited release must leave as text."""
    return [str(c) for c in original.columns if holds_text(original[c]) or _is_date(original[c])]


def number_columns(original: pd.DataFrame) -> list[str]:
    """Columns that are numbers in a delimited release, however it writes them."""
    return [str(c) for c in original.columns if is_numeric(original[c].dtype)]


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
