"""Key columns of matching: coded as levels, or numbers to be compared within a radius."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.boxes import NumericKey
from bayes_risk._core.errors import InputError
from bayes_risk.microdata import MAX_LEVELS, Codes, Variable

Reals = npt.NDArray[np.float64]


class Key(NamedTuple):
    """One key column, coded over the original (row 0) and the releases (rows 1..m)."""

    codes: Codes  # shape (m + 1, n)
    n_levels: int


def checked_radius(
    radius: Mapping[str, float] | None, synthesized: Sequence[str]
) -> dict[str, float]:
    """Return the radius of each numeric key, in the order of `synthesized`; none is ``{}``."""
    if radius is None:
        return {}
    if not isinstance(radius, Mapping):
        raise InputError(
            f"radius={radius!r} is a {type(radius).__name__}; give a dict of column to relative "
            f"radius, such as radius={{'income': 0.1}}"
        )
    for name in radius:
        if name not in synthesized:
            raise InputError(
                f"radius names {name!r}, which is not under synthesized ({list(synthesized)}); "
                f"list it there, or leave it out: keys under known are matched exactly"
            )
    return {name: _relative(name, radius[name]) for name in synthesized if name in radius}


def _relative(name: str, r: Any) -> float:
    number = float(r) if isinstance(r, Real) and not isinstance(r, bool) else -1.0
    if not 0 <= number < float("inf"):
        raise InputError(
            f"radius[{name!r}]={r!r} is no relative radius; give a finite number >= 0 (0.1 is 10 %)"
        )
    return number


def numeric_key(name: str, columns: Sequence[pd.Series], radius: float) -> NumericKey:
    """Compare a key as numbers: the original's column, then those of the releases."""
    y, *value = (_numbers(name, column, source(l)) for l, column in enumerate(columns))
    return NumericKey(y, np.stack(value), radius)


def _numbers(name: str, column: pd.Series, where: str) -> Reals:
    dtype, is_a = column.dtype, pd.api.types
    if (
        not is_a.is_numeric_dtype(dtype)
        or is_a.is_bool_dtype(dtype)
        or is_a.is_complex_dtype(dtype)
    ):
        raise InputError(
            f"key {name!r} ({dtype}) of {where} holds no real numbers, which a radius needs; "
            f"convert it (pandas.to_numeric), or leave it out of radius"
        )
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    for what, wrong in (("missing", np.isnan(values)), ("infinite", np.isinf(values))):
        if wrong.any():
            raise InputError(
                f"key {name!r} of {where} has {what} values in {wrong.sum():,} of {len(values):,} "
                f"records, which lie within no radius; fill them in, or cut the key into "
                f"categories (pandas.cut) and leave it out of radius"
            )
    return values


def unsynthesized_key(name: str, original: pd.DataFrame, tables: Sequence[pd.DataFrame]) -> Key:
    """Code a key that the releases carry over; where they leave it out, it is the original's."""
    key = coded(name, [original[name], *(table.get(name, original[name]) for table in tables)])
    differs = (key.codes[1:] != key.codes[0]).sum(axis=1)
    if differs.any():
        l = int(np.argmax(differs > 0))
        raise InputError(
            f"column {name!r} of release {l + 1} differs from the original in {differs[l]:,} of "
            f"{len(original):,} records, but known= means unsynthesised: if it was synthesised, "
            f"put it under synthesized=; if rows stand in another order, give both tables the same "
            f"index"
        )
    return key


def coded(name: str, columns: Sequence[pd.Series]) -> Key:
    """Code one key over the original and its releases; levels are the union of what they hold.

    Only distinct values pass through the codec: a million records cost a hash each.
    """
    parts = [pd.factorize(column, use_na_sentinel=False) for column in columns]
    distinct = [pd.Series(np.asarray(values, dtype=object), name=name) for _, values in parts]
    present = [[v for v in values if not _is_missing(v)] for values in distinct]
    _check_storage(name, columns, present)
    levels = tuple(dict.fromkeys(v for values in present for v in values))
    variable = Variable(name, levels, True, object)
    codes = [
        variable.encode(values, source(l))[place]
        for l, ((place, _), values) in enumerate(zip(parts, distinct, strict=True))
    ]
    return Key(np.stack(codes), variable.n_levels)


def _check_storage(name: str, columns: Sequence[pd.Series], present: list[list[Any]]) -> None:
    """Refuse values that could never be equal, or that are equal only by accident."""
    kind = _kinds(present[0])
    for l, values in enumerate(present):
        if pd.api.types.is_numeric_dtype(columns[l]) and len(values) > MAX_LEVELS:
            raise InputError(
                f"key {name!r} ({columns[l].dtype}) of {source(l)} has {len(values):,} distinct "
                f"values, more than {MAX_LEVELS:,}, and looks continuous: if it was synthesised, "
                f"match it within a radius (radius={{{name!r}: 0.1}}); or cut it into the same "
                f"categories in all files (pandas.cut), leave it out, or, if it is a code, say so "
                f"with astype('category')"
            )
        if kind and values and not kind & _kinds(values):
            raise InputError(
                f"key {name!r} holds {_words(kind)} in the original and {_words(_kinds(values))} "
                f"in {source(l)}, so nothing could ever match; store it as one type"
            )


def _kinds(values: Sequence[Any]) -> frozenset[str]:
    return frozenset(_kind(v) for v in values)


def _kind(value: Any) -> str:
    if isinstance(value, (Real, np.bool_)):
        return "numbers"
    return "text" if isinstance(value, str) else f"{type(value).__name__} values"


def _words(kinds: frozenset[str]) -> str:
    return " and ".join(sorted(kinds))


def _is_missing(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def source(l: int) -> str:
    """Name table l, the original being table 0."""
    return "the original" if l == 0 else f"release {l}"
