"""Cells of a cross-classification: key columns as level codes, equal rows counted once."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import cell_codes
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import MAX_LEVELS
from bayes_risk.data.variables import scalar

Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyLevels:
    """The levels of some key columns; missing values are one more level, the last.

    ``levels`` holds one tuple of plain values per key.
    """

    keys: tuple[str, ...]
    levels: tuple[tuple[Hashable, ...], ...]

    @classmethod
    def of(cls, df: pd.DataFrame, keys: Sequence[str]) -> "KeyLevels":
        """Read the levels of a table."""
        found = tuple(_present(df[name]) for name in keys)
        for name, values in zip(keys, found, strict=True):
            _check_discrete(name, df[name], values)
        return cls(keys=tuple(keys), levels=found)

    @property
    def n_levels(self) -> list[int]:
        """Number of codes per key, the one for missing values included."""
        return [len(values) + 1 for values in self.levels]

    def over(self, kept: Sequence[int]) -> "KeyLevels":
        """The levels of some of the keys, by position."""
        return KeyLevels(
            keys=tuple(self.keys[a] for a in kept), levels=tuple(self.levels[a] for a in kept)
        )

    def encode(self, df: pd.DataFrame) -> Ids:
        """Codes of a table's rows, shape (n, q); -1 for a value that is no level."""
        codes = np.empty((len(df), len(self.keys)), dtype=np.int64)
        for a, (name, values) in enumerate(zip(self.keys, self.levels, strict=True)):
            codes[:, a] = _codes(name, df[name], values)
        return codes

    def cells(self, df: pd.DataFrame, amount: Reals) -> tuple[Ids, Reals]:
        """Distinct cells of a table's rows (U, q), and the sum of an amount in each (U,)."""
        codes = self.encode(df)
        first, cell = distinct(codes, self.n_levels)
        return codes[first], np.bincount(cell, amount, len(first)).astype(np.float64)


def checked_table(df: Any, keys: Any, what: str) -> list[str]:
    """Return the keys as a list of columns that a table of at least one record has, each once."""
    if not isinstance(df, pd.DataFrame):
        raise InputError(f"{what} is a {type(df).__name__}; give a pandas DataFrame")
    names = known_columns("keys", keys, list(df.columns))
    if not names:
        raise InputError("keys is empty; name at least one key column")
    if not len(df):
        raise InputError(f"{what} has no records; give at least one")
    for name in names:
        check_once(df, name, what)
    return names


def check_once(df: pd.DataFrame, name: Any, what: str) -> None:
    """Check that a column is there, and only once."""
    if name not in df.columns:
        raise InputError(f"{what} lacks column {name!r}; it has {list(df.columns)}")
    if isinstance(df[name], pd.DataFrame):
        raise InputError(f"{what} has column {name!r} more than once; rename or drop one")


def distinct(codes: Ids, n_levels: Sequence[int]) -> tuple[Ids, Ids]:
    """First row of each distinct row of codes (n, q), and the number of each row's cell (n,)."""
    code = cell_codes(list(codes.T), list(n_levels), shape=(len(codes),))
    _, first, cell = np.unique(code, return_index=True, return_inverse=True)
    return first, cell


def found_in(table: Ids, codes: Ids, n_levels: Sequence[int]) -> Ids:
    """Where rows of codes (n, q) stand in a table of distinct rows (U, q); -1 for nowhere."""
    both = np.concatenate([table, codes]) + 1  # -1, no level, is a digit like others
    U, wider = len(table), [d + 1 for d in n_levels]
    code = cell_codes(list(both.T), wider, shape=(len(both),))
    order = np.argsort(code[:U])
    at = np.minimum(np.searchsorted(code[:U], code[U:], sorter=order), U - 1)
    row = order[at]
    return np.where(code[row] == code[U:], row, -1)


def _present(column: pd.Series) -> tuple[Hashable, ...]:
    """Distinct values that are not missing, in the order of first appearance."""
    _, values = pd.factorize(column)
    return tuple(scalar(v) for v in pd.Index(values).astype(object))


def _codes(name: str, column: pd.Series, levels: tuple[Hashable, ...]) -> Ids:
    where, _ = pd.factorize(column)  # -1: missing
    values = _present(column)
    if values and levels and not _kinds(values) & _kinds(levels):
        raise InputError(
            f"key {name!r} holds {_words(levels)} in the population and {_words(values)} in the "
            f"table given, so nothing could ever match; store it as one type"
        )
    number = pd.Index(levels, dtype=object).get_indexer(pd.Index(values, dtype=object))
    return np.append(number, len(levels))[where].astype(np.int64)


def _check_discrete(name: str, column: pd.Series, values: tuple[Hashable, ...]) -> None:
    if pd.api.types.is_numeric_dtype(column.dtype) and len(values) > MAX_LEVELS:
        raise InputError(
            f"key {name!r} ({column.dtype}) has {len(values):,} distinct values, more than "
            f"{MAX_LEVELS:,}, and looks continuous: cut it into categories (pandas.cut), leave it "
            f"out, or, if it is a code, say so with astype('category')"
        )


def _kinds(values: Sequence[Any]) -> set[str]:
    return {_kind(v) for v in values}


def _kind(value: Any) -> str:
    if isinstance(value, Real | np.bool_):
        return "numbers"
    return "text" if isinstance(value, str) else f"{type(value).__name__} values"


def _words(values: Sequence[Any]) -> str:
    return " and ".join(sorted(_kinds(values)))
