"""Key columns of matching: coded as levels, or compared as numbers."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import MAX_LEVELS, Codes, Variable
from bayes_risk.release.release import SAME

MISSING = ("level", "wildcard", "never")


class Key(NamedTuple):
    """One key column, coded: of the targets (n_t,), and as it was released, (n,) or (m, n)."""

    target: Codes
    released: Codes
    n_levels: int


def checked_missing(missing: str | Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    """How each key treats missing values."""
    if isinstance(missing, str):
        missing = dict.fromkeys(keys, missing)
    if not isinstance(missing, Mapping):
        raise InputError(f"missing={missing!r}; give one of {MISSING}, or a dict of column to one")
    for name, how in missing.items():
        if name not in keys:
            raise InputError(
                f"missing names {name!r}, which is no key ({list(keys)}); leave it out"
            )
        if how not in MISSING:
            raise InputError(f"missing[{name!r}]={how!r}; give one of {MISSING}")
    return {name: missing.get(name, "level") for name in keys}


def unsynthesized_key(
    name: str, target: pd.Series, original: pd.Series, tables: Sequence[pd.DataFrame]
) -> Key:
    """Code a key that the releases carry over; where they leave it out, it is the original's."""
    columns = [original, target, *(table[name] for table in tables if name in table)]
    codes, n_levels = coded(name, columns, ["the original", "the targets", *_shown(name, tables)])
    for released, where in zip(codes[2:], _shown(name, tables), strict=True):
        check_unchanged(name, int((released != codes[0]).sum()), len(original), where)
    return Key(codes[1], codes[0], n_levels)


def synthesized_key(
    name: str, target: pd.Series, original: pd.Series, tables: Sequence[pd.DataFrame]
) -> Key:
    """Code a key that every release shows in its own way."""
    where = ["the original", "the targets", *(source(l) for l in range(1, len(tables) + 1))]
    codes, n_levels = coded(name, [original, target, *(table[name] for table in tables)], where)
    return Key(codes[1], np.stack(codes[2:]), n_levels)


def check_unchanged(name: str, n_changed: int, n: int, where: str) -> None:
    """A key under known= is the original's in every release."""
    if n_changed:
        raise InputError(
            f"column {name!r} of {where} differs from the original in {n_changed:,} of {n:,} "
            "records, but known= means unsynthesised: if it was synthesised, put it under "
            "synthesized=; if rows stand in another order, give both tables the same index"
        )


def coded(name: str, columns: Sequence[pd.Series], where: Sequence[str]) -> tuple[list[Codes], int]:
    """Code one key over several tables, named by ``where``; levels are all that they hold.

    Only distinct values pass through the codec: a million records cost a hash each.
    """
    at: dict[int, Any] = {id(c): pd.factorize(c, use_na_sentinel=False) for c in columns}
    parts = [at[id(column)] for column in columns]
    distinct = [pd.Series(np.asarray(values, dtype=object), name=name) for _, values in parts]
    present = [[v for v in values if not _is_missing(v)] for values in distinct]
    _check_storage(name, columns, present, where)
    levels = tuple(dict.fromkeys(v for values in present for v in values))
    variable = Variable(name, levels, True, object)
    codes = [
        variable.encode(values, place)[at]
        for (at, _), values, place in zip(parts, distinct, where, strict=True)
    ]
    return codes, variable.n_levels


def _shown(name: str, tables: Sequence[pd.DataFrame]) -> list[str]:
    """The releases that hold a column."""
    return [source(l) for l, table in enumerate(tables, start=1) if name in table]


def _check_storage(
    name: str, columns: Sequence[pd.Series], present: list[list[Any]], where: Sequence[str]
) -> None:
    """Refuse values that could never be equal, or that are equal only by accident."""
    kind = _kinds(present[0])
    for column, values, place in zip(columns, present, where, strict=True):
        if pd.api.types.is_numeric_dtype(column) and len(values) > MAX_LEVELS:
            raise InputError(
                f"key {name!r} ({column.dtype}) of {place} has {len(values):,} distinct "
                f"values, more than {MAX_LEVELS:,}, and looks continuous: "
                f"match it within a radius (radius={{{name!r}: 0.1}}); or cut it into the same "
                f"categories in all files (pandas.cut), leave it out, or, if it is a code, say so "
                f"with astype('category')"
            )
        if kind and values and not kind & _kinds(values):
            raise InputError(
                f"key {name!r} holds {_words(kind)} in {where[0]} and {_words(_kinds(values))} "
                f"in {place}, so nothing could ever match; store it as one type"
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


def ranked(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], int]:
    """Rank of each number from 1 up, those within `SAME` of the next sharing one; missing: 0.

    And the number of ranks, 0 included. Cost: sorting of distinct numbers.
    """
    where, distinct = pd.factorize(values)  # -1: missing
    order = np.argsort(distinct)
    level = np.arange(1, len(distinct) + 1)
    if distinct.dtype.kind == "f" and len(distinct):
        low, high = distinct[order][:-1], distinct[order][1:]
        with np.errstate(over="ignore", invalid="ignore"):
            new = high - low > SAME * np.minimum(np.abs(low), np.abs(high))
        level = 1 + np.cumsum([0, *new])
    rank = np.zeros(len(distinct) + 1, dtype=np.int64)  # the last is that of -1
    rank[order] = level
    return rank[where], int(rank.max()) + 1
