"""Population counts of the cells of some keys: looked up, and summed over keys."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.loglinear import independent_mean
from bayes_risk._core.validate import known_columns

from .keys import KeyLevels, check_once, distinct, found_in

Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellCounts:
    """F_t of tabulated cells, in each of S draws, and the rule for all others.

    Attributes
    ----------
    levels : KeyLevels
        The keys and their levels.
    cells : ndarray of int64, shape (U, q)
        Level codes of the tabulated cells, each once.
    table : ndarray, shape (S, U)
        F_t of these; S = 1 without draws.
    others : tuple of float and of shares
        With independent keys (main effects) F_t of all other cells is the number, the people not in
        the sample, times the product of the keys' shares. Else that number is 0.
    """

    levels: KeyLevels
    cells: Ids
    table: Reals
    others: tuple[float, tuple[Reals, ...]] = (0.0, ())

    @classmethod
    def summed(cls, df: pd.DataFrame, keys: Sequence[str], amount: Reals) -> "CellCounts":
        """Add up an amount over the rows of each cell of a table."""
        levels = KeyLevels.of(df, keys)
        cells, F = levels.cells(df, amount)
        return cls(levels=levels, cells=cells, table=F[None])

    def at(self, df: pd.DataFrame) -> Reals:
        """F_t at the keys of a table's rows, shape (S, n)."""
        first, cell, asked = self._asked(df)
        row = found_in(self.cells, asked, self.levels.n_levels)
        F = np.where(row >= 0, self.table[:, row], independent_mean(*self.others, asked))
        return np.asarray(F[:, cell])

    def how_many_cells(self, df: pd.DataFrame) -> int:
        """Number of distinct cells among a table's rows."""
        return len(self._asked(df)[0])

    def _asked(self, df: pd.DataFrame) -> tuple[Ids, Ids, Ids]:
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
        levels, cells = self.levels.over(kept), self.cells[:, kept]
        first, cell = distinct(cells, levels.n_levels)
        rest, shares = self.others
        some = tuple(shares[a] for a in kept) if rest else ()
        # of the people whom the rule places: what the tabulated cells do not hold already
        more = independent_mean(rest, some, cells[first])
        more -= np.bincount(cell, independent_mean(rest, shares, self.cells), len(first))
        table = np.stack([np.bincount(cell, F, len(first)) + more for F in self.table])
        return CellCounts(levels=levels, cells=cells[first], table=table, others=(rest, some))
