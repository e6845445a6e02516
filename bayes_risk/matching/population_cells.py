"""Cells of a cross-classification of key columns, and population counts of them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import cell_codes
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import MAX_LEVELS
from bayes_risk.data.variables import scalar

from .input import kinds, kinds_in_words
from .loglinear import independent_mean


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyLevels:
    """The levels of some key columns; missing values are one more level, the last."""

    keys: tuple[str, ...]
    levels: tuple[tuple[Hashable, ...], ...]

    @classmethod
    def from_table(cls, df: pd.DataFrame, keys: Sequence[str]) -> "KeyLevels":
        """Read the levels of a table."""
        found = tuple(_present(df[name]) for name in keys)
        for name, values in zip(keys, found, strict=True):
            if pd.api.types.is_numeric_dtype(df[name].dtype) and len(values) > MAX_LEVELS:
                raise InputError(
                    f"key {name!r} ({df[name].dtype}) has {len(values):,} distinct values, more "
                    f"than {MAX_LEVELS:,}, and looks continuous: cut it into categories "
                    "(pandas.cut), leave it out, or, if it is a code, say so with "
                    "astype('category')"
                )
        return cls(keys=tuple(keys), levels=found)

    @property
    def n_levels(self) -> list[int]:
        """Number of codes per key, the one for missing values included."""
        return [len(values) + 1 for values in self.levels]

    def encode(self, df: pd.DataFrame) -> Ints:
        """Codes of a table's rows, shape (n, q); -1 for a value that is no level."""
        codes = np.empty((len(df), len(self.keys)), dtype=np.int64)
        for a, (name, values) in enumerate(zip(self.keys, self.levels, strict=True)):
            codes[:, a] = _codes(name, df[name], values)
        return codes

    def cells(self, df: pd.DataFrame, amount: Array) -> tuple[Ints, Array]:
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


def distinct(codes: Ints, n_levels: Sequence[int]) -> tuple[Ints, Ints]:
    """First row of each distinct row of codes (n, q), and the number of each row's cell (n,)."""
    code = cell_codes(list(codes.T), list(n_levels), shape=(len(codes),))
    _, first, cell = np.unique(code, return_index=True, return_inverse=True)
    return first, cell


def found_in(table: Ints, codes: Ints, n_levels: Sequence[int]) -> Ints:
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


def _codes(name: str, column: pd.Series, levels: tuple[Hashable, ...]) -> Ints:
    where, _ = pd.factorize(column)  # -1: missing
    values = _present(column)
    if values and levels and not kinds(values) & kinds(levels):
        raise InputError(
            f"key {name!r} holds {kinds_in_words(levels)} in the population and "
            f"{kinds_in_words(values)} in the table given, so nothing could ever match; store it "
            "as one type"
        )
    number = pd.Index(levels, dtype=object).get_indexer(pd.Index(values, dtype=object))
    return np.append(number, len(levels))[where].astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellCounts:
    """F_t of tabulated cells, in each of S draws, and the rule for all others."""

    levels: KeyLevels
    cells: Ints  # (U, q): level codes of the tabulated cells, each once
    table: Array  # (S, U): F_t of these; S = 1 without draws
    # with independent keys F_t of other cells is the number, the people not in the sample, times
    # the product of the keys' shares; else that number is 0
    others: tuple[float, tuple[Array, ...]] = (0.0, ())

    def at(self, df: pd.DataFrame) -> Array:
        """F_t at the keys of a table's rows, shape (S, n)."""
        first, cell, asked = self.asked(df)
        row = found_in(self.cells, asked, self.levels.n_levels)
        F = np.where(row >= 0, self.table[:, row], independent_mean(*self.others, asked))
        return np.asarray(F[:, cell])

    def asked(self, df: pd.DataFrame) -> tuple[Ints, Ints, Ints]:
        """First row of each distinct cell, the cell of each row, and the cells' codes."""
        if not isinstance(df, pd.DataFrame):
            raise InputError(f"the table is a {type(df).__name__}; give a pandas DataFrame")
        for name in self.levels.keys:
            check_once(df, name, "the table")
        codes = self.levels.encode(df)
        first, cell = distinct(codes + 1, [d + 1 for d in self.levels.n_levels])
        return first, cell, codes[first]

    def over(self, keys: Sequence[str]) -> "CellCounts":
        """Sum over all keys but these."""
        present = self.levels.keys
        kept = [present.index(name) for name in known_columns("keys", keys, present)]
        known = tuple(self.levels.levels[a] for a in kept)
        levels = KeyLevels(keys=tuple(present[a] for a in kept), levels=known)
        cells = self.cells[:, kept]
        first, cell = distinct(cells, levels.n_levels)
        rest, shares = self.others
        some = tuple(shares[a] for a in kept) if rest else ()
        # of the people whom the rule places: what the tabulated cells do not hold already
        more = independent_mean(rest, some, cells[first])
        more -= np.bincount(cell, independent_mean(rest, shares, self.cells), len(first))
        table = np.stack([np.bincount(cell, F, len(first)) + more for F in self.table])
        return CellCounts(levels=levels, cells=cells[first], table=table, others=(rest, some))
