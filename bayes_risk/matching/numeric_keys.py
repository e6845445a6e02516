"""Keys that are compared as numbers: within a radius, or with missing values that are no level."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.windows import NumericKey

from .keys import Key, check_unchanged, source
from .radii import Radius, checked_ends

Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
LAST = np.finfo(np.float64).max  # an end beyond the largest number is no end
SAME = 1e-12  # relative: what a number may lose on its way through a text file


class Compared(NamedTuple):
    """How a key is compared: as a number, by its level, or both (is it missing, and if not)."""

    key: NumericKey | None
    level: Key | None


def numeric_key(
    target: pd.Series,
    original: pd.Series,
    tables: Sequence[pd.DataFrame],
    radius: Radius,
    *,
    unsynthesized: bool,
    missing: str,
    closed: bool,
) -> Compared:
    """Compare a key as numbers: those of the targets with those of the releases.

    Released values have shape (m, n), or (1, n) if the key is unsynthesised.
    """
    name = str(original.name)
    column = _numbers(original, "the original", missing)
    y = _numbers(target, "the targets", missing)
    shown = [
        _numbers(table[original.name], source(l), missing)
        for l, table in enumerate(tables, start=1)
        if original.name in table or not unsynthesized
    ]
    if unsynthesized:
        for l, values in enumerate(shown, start=1):
            same = np.isclose(values, column, rtol=SAME, atol=0.0, equal_nan=True)
            check_unchanged(name, int((~same).sum()), len(column), source(l))
        shown = [column]
    present = column[~np.isnan(column)]
    if not len(present):
        raise InputError(f"key {name!r} is missing in every record of the original; leave it out")
    around = np.where(np.isnan(y), present[0], y)
    low, high = _finite(checked_ends(name, radius, around, present), around, closed)
    key = NumericKey(y, low, high, np.stack(shown))
    return _by_level(key) if missing == "level" else Compared(_by_rule(key, missing), None)


def _finite(ends: tuple[Reals, Reals], y: Reals, closed: bool) -> tuple[Reals, Reals]:
    """Finite ends of closed intervals. Open ones end a number earlier, but not before y itself.

    The file's smallest value is the lower end of its own `Quantile`: it belongs to it all the same.
    """
    low, high = (np.clip(end, -LAST, LAST) for end in ends)
    if closed:
        return low, high
    point = low == high  # nothing is inside
    return (
        np.where((low < y) | point, np.nextafter(low, np.inf), low),
        np.where((high > y) | point, np.nextafter(high, -np.inf), high),
    )


def code_key(key: Key, gone: tuple[Flags, Flags], missing: str) -> NumericKey:
    """A categorical key whose missing values are no level; ``gone``: targets', released ones."""
    y, value = key.target.astype(float), np.atleast_2d(key.released).astype(float)
    y[gone[0]], value[np.atleast_2d(gone[1])] = np.nan, np.nan
    return _by_rule(NumericKey(y, y, y, value), missing)


def _by_level(key: NumericKey) -> Compared:
    """Missing values match each other: whether a value is missing becomes a key of its own."""
    lost, gone = np.isnan(key.y), np.isnan(key.value)
    if not lost.any() and not gone.any():
        return Compared(key, None)
    y, low, high = (np.where(lost, 0.0, x) for x in key[:3])
    level = Key(lost.astype(np.int64), gone.astype(np.int64), 2)
    return Compared(NumericKey(y, low, high, np.where(gone, 0.0, key.value)), level)


def _by_rule(key: NumericKey, missing: str) -> NumericKey:
    """Missing values match anything, or nothing."""
    y, low, high, value = key
    lost, wild = np.isnan(y), missing == "wildcard"
    reach = (-np.inf, np.inf) if wild else (np.inf, -np.inf)
    return NumericKey(
        np.where(lost, 0.0, y),
        np.where(lost, reach[0], low),
        np.where(lost, reach[1], high),
        value if wild else np.where(np.isnan(value), np.inf, value),
    )


def _numbers(column: pd.Series, where: str, missing: str) -> Reals:
    dtype, is_a = column.dtype, pd.api.types
    if (
        not is_a.is_numeric_dtype(dtype)
        or is_a.is_bool_dtype(dtype)
        or is_a.is_complex_dtype(dtype)
    ):
        raise InputError(
            f"key {column.name!r} ({dtype}) of {where} holds no real numbers, which a radius "
            "needs; convert it (pandas.to_numeric), or leave it out of radius"
        )
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(values).any():
        raise InputError(
            f"key {column.name!r} of {where} has infinite values in {np.isinf(values).sum():,} of "
            f"{len(values):,} records, which lie within no radius; mend them, or cut the key into "
            "categories (pandas.cut) and leave it out of radius"
        )
    return values
