"""Columns of an original and its files that are compared, cells of those kept, and points."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import Combinations
from bayes_risk._core.nearest import Points, ranks
from bayes_risk.data.columns import ROW_NUMBERS, are_dates, names_records, why_identifier
from bayes_risk.data.equality import ELSEWHERE, Coded, coded_numbers
from bayes_risk.data.table import in_days
from bayes_risk.data.variables import FEW, holds_text

from . import persons
from .tables import Tables

LEAST = 5  # pairs or rows below which nothing can be seen
WIDE = 20  # columns of which each is left out in turn
QUARTILES, SPREAD = (0.25, 0.75), 2.0  # amounts in one unit spread alike up to this factor
FEW_AMOUNTS = 8  # amounts of which every two are looked at together
LOOKED_AT = 2_000  # records of large files for whom the nearest are looked up
APART = 1_000.0  # distance of different kept cells, of which columns add up to some units
DOUBLES = 0.02  # share of pairs of equal records that a table without any was rid of
TIMES = (1.0, 3.0, 10.0)  # how much nearer than the next record
NEARLY, ENOUGH = 0.9, 20  # share of different records that stand k times, and how many tell it


class Seen:
    """Columns that are compared, those that were synthesised, and cells of those kept.

    Identifiers, and columns with one value in the original or in a file, say nothing of nearness.
    Numbers in another unit than the original's are compared by their ranks in each table.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._once: dict[tuple[int, int], Ints] = {}
        self.scaled: Mapping[str, Coded] = {}
        self.ranks: Mapping[str, list[Array]] = {}
        skipped = {c: w for c, w in tables.identifiers().items() if self._names(c, w)}
        named = [c for c, why in skipped.items() if why != ROW_NUMBERS]
        self.named = {c: self._shown(c) for c in named}
        examined = [c for c in tables.names if c not in skipped]
        names = [
            c
            for c in examined
            if (one := tables.compared(c)) is not None
            and all((codes != codes[0]).any() for codes in one.codes[: self.m1])
        ]
        self.scaled = {c: one for c in names if (one := self._scaled(c)) is not None}
        apart = [c for c in examined if c in tables.left_out or (c in names and self._elsewhere(c))]
        self.ranks = {c: found for c in apart if (found := self._own(c))}
        self.names = [c for c in names if c not in self.ranks]
        self.kept, self.cells = self.kept_of(self.names)
        self.made = [c for c in self.names if c not in self.kept]
        folds = [1 if tables.persons else self._fold(l) for l in range(self.m1)]
        self.folds = [max(fold, folds[0]) for fold in folds]

    def column(self, name: str) -> Coded:
        """A column of all tables, in the original's unit."""
        return self.scaled.get(name) or self.tables.column(name)

    def _has_numbers(self, name: str) -> bool:
        """Whether a column holds amounts."""
        return self.column(name).kind == "numbers" and self.amounts(name, (0,)) is not None

    def is_fine(self, name: str) -> bool:
        """Whether a column holds numbers or dates of many values."""
        column = self.column(name)
        return column.kind in ("numbers", "dates") and len(column.values) > FEW + 1

    def _scaled(self, name: str) -> Coded | None:
        """Dates as days; amounts that a file has in cents or thousands, in the original's unit."""
        column = self.tables.column(name)
        if column.kind == "text":
            frames = self.tables.frames[: self.m1]
            if not frames or not all(name in f and are_dates(f[name]) for f in frames):
                return None
            days = [in_days(f[name], name).to_numpy(dtype=float) for f in frames]
            return coded_numbers(name, days)
        if not self._has_numbers(name):
            return None
        parts = [column.values[codes] for codes in column.codes[: self.m1]]
        size = [float(np.median(np.abs(v[~np.isnan(v)]))) for v in parts]
        if min(size) == 0:
            return None
        tens = [round(np.log10(one / size[0])) for one in size]
        turned = [v / 10.0**k if k > 0 else v * 10.0**-k for v, k in zip(parts, tens, strict=True)]
        spread = [float(np.ptp(np.nanquantile(v, QUARTILES))) for v in turned]
        alike = all(spread[0] / SPREAD <= one <= SPREAD * spread[0] for one in spread)
        return coded_numbers(name, turned) if any(tens) and alike else None

    def _elsewhere(self, name: str) -> bool:
        """Whether a file's amounts lie where the original has none, as in another unit."""
        if not self._has_numbers(name):
            return False
        y, *files = (self.values(name, l) for l in range(self.m1))
        low, high = np.nanquantile(y, [0.05, 0.95])
        return any(np.mean((z >= low) & (z <= high)) < ELSEWHERE for z in files)

    def _names(self, name: str, why: str) -> bool:
        """Whether a column names or numbers records; other numbers may be amounts."""
        if name == self.tables.person:
            return True
        if name in (self.tables.made or ()):
            return False
        column = self.tables.frames[0][name]
        named = names_records(str(name)) and column.is_unique
        return holds_text(column) or why == ROW_NUMBERS or named

    def kept_of(self, names: Sequence[str]) -> tuple[list[str], list[Ints]]:
        """Those that were kept, and their cells; where rows moved, those kept together."""
        tables = self.tables
        kept, cells = list[str](), [np.zeros(n, np.int64) for n in tables.sizes]
        for name in filter(self._is_kept, names):
            stacked = Combinations(int(tables.sizes.sum()))
            stacked.add(np.concatenate(cells), 1 + int(cells[0].max()))
            stacked.add(np.concatenate(self.column(name).codes[: self.m1]), self.column(name).size)
            parts = tables.parts(stacked.dense())
            if tables.corresponds.all() or _all_equal(parts, stacked.size):
                kept.append(name)
                cells = parts
        return kept, cells

    def _records(self, l: int) -> Ints:
        """Number of each record of table l, the same for records equal in all columns."""
        records = Combinations(int(self.tables.sizes[l]))
        for name in self.names:
            column = self.column(name)
            records.add(column.codes[l], column.size)
        return records.dense()

    def _fold(self, l: int) -> int:
        """How many times everybody stands in table l, in all columns: each, or nearly each."""
        counts = np.bincount(self._records(l))
        if not self.names or len(counts) < ENOUGH:
            return int(np.gcd.reduce(counts)) if self.names else 1
        times = range(2, min(int(counts.max()), ENOUGH) + 1)
        return max((k for k in times if (counts % k == 0).mean() >= NEARLY), default=1)

    def once(self, l: int, part: int = 1) -> Ints:
        """Rows of table l that were replaced, once each; one in ``part`` of them, at random."""
        if (l, part) not in self._once:
            self._once[l, part] = self._drawn(l, part)
        return self._once[l, part]

    def _drawn(self, l: int, part: int) -> Ints:
        if self.folds[l] == 1 or self.tables.replaced is not None:
            rows = np.arange(self.tables.sizes[l])[self.rows(l)]
        else:
            of = self._records(l)
            order = np.argsort(of, kind="stable")
            first = np.concatenate([[0], np.cumsum(np.bincount(of))])
            before = np.arange(len(of)) - first[of[order]]
            rows = order[before % self.folds[l] == 0]
        if part > 1:  # the same rows in every run, and in any order
            rows = rows[np.lexsort([self.values(c, l)[rows] for c in self.names])]
            rows = np.random.default_rng(part).permutation(rows)[: len(rows) // part]
        return np.sort(rows)

    def values(self, name: str, l: int) -> Array:
        """Numbers of a column, or codes of its levels."""
        column = self.column(name)
        codes = column.codes[l]
        return column.values[codes] if len(column.values) else codes.astype(float)

    def keeps_apart(self, l: int) -> bool:
        """Whether one table was made without doubles, and the other has some of its own."""
        rows = [self.once(0), self.once(l)]
        records = Combinations(sum(map(len, rows)))
        for name in self.names:
            column = self.column(name)
            stacked = [column.codes[k][part] for k, part in zip((0, l), rows, strict=True)]
            records.add(np.concatenate(stacked), column.size)
        parts = zip(np.split(records.dense(), [len(rows[0])]), (0, l), rows, strict=True)
        y, z = (
            persons.holders(p, self.tables.of_person(k, at), records.size) for p, k, at in parts
        )
        twice = [int(((one == 2) & (other == 0)).sum()) for one, other in ((y, z), (z, y))]
        least = max(LEAST, DOUBLES * min(map(len, rows)))
        return max(twice) >= least and min(y.max(), z.max()) == 1

    def _own(self, name: str) -> list[Array]:
        """Ranks of a column in each table; empty: it holds no numbers of different values."""
        if not self.tables.frames:  # codes alone
            return []
        try:
            numbers = self.tables.numbers(name)[: self.m1]
        except InputError:
            return []
        varied = all(len(np.unique(v[~np.isnan(v)])) > 1 for v in numbers)
        return [ranks(v) for v in numbers] if varied else []

    @property
    def m1(self) -> int:
        """The original and its files."""
        return self.tables.m + 1

    def _is_kept(self, name: str) -> bool:
        """Whether every file has the original's values, in its rows where these correspond."""
        column, there = self.column(name), self.tables.corresponds
        y, *files = column.codes[: self.m1]
        if self.tables.made is not None and name in self.tables.made:
            return False
        if there.all():
            return not any(bool((z != y).any()) for z in files)
        return _all_equal(column.codes[: self.m1], column.size)

    def _shown(self, name: str) -> int:
        """Persons whose value of a column some file has."""
        column = self.tables.compared(name)
        if column is None:
            return 0
        frames = self.tables.frames[1 : self.m1]
        why = persons.why_person if name == self.tables.person else why_identifier
        if any(name in f and why(f[name], "id") == ROW_NUMBERS for f in frames):
            return 0
        y, *files = column.codes[: self.m1]
        return self._persons(np.isin(y, np.concatenate(files)) & (y > 0))

    def _persons(self, rows: Flags) -> int:
        """Persons of whom some row of the original is marked."""
        who = self.tables.of_person(0)
        return int(persons.holders(rows.astype(np.int64), who, 2)[1])

    def alone(self, name: str) -> int:
        """Persons whose value of a column nobody else has."""
        codes = self.column(name).codes[0]
        return self._alone(codes, codes > 0)

    def _alone(self, codes: Ints, there: Flags | bool = True) -> int:
        once = persons.holders(codes, self.tables.of_person(0), 1 + int(codes.max()))[codes] == 1
        return self._persons(once & there)

    def alone_together(self) -> int:
        """Persons whose values of the kept columns together nobody else has."""
        return self._alone(self.cells[0]) if self.kept else 0

    def copies(self) -> dict[str, tuple[str, int]]:
        """Columns outside the original that hold a column of it in which most are alone."""
        tables, found = self.tables, dict[str, tuple[str, int]]()
        if not tables.outside():
            return found
        once = {c: int((~tables.frames[0][c].duplicated(keep=False)).sum()) for c in tables.names}
        most = [c for c in once if 2 * once[c] > tables.n]
        for there, frame in zip(tables.corresponds, tables.frames[1 : self.m1], strict=True):
            for name in frame.columns[~frame.columns.isin(tables.names)].drop_duplicates(
                keep=False
            ):
                for own in most:
                    if _copied(tables.frames[0][own], frame[name], bool(there)):
                        found[str(name)] = str(own), once[own]
        return found

    def rows(self, l: int) -> Flags | slice:
        """Rows of table l that were replaced, where the release names them."""
        replaced = self.tables.replaced
        return slice(None) if replaced is None else replaced

    def sorted_cells(self, l: int) -> Ints:
        """Kept cells of the original's rows, parted by columns that sort it and file l alike."""
        cells, left = self.cells[0], list(self.made)
        while (name := next((c for c in left if self._sorts(c, l, cells)), None)) is not None:
            left.remove(name)
            parted = Combinations(len(cells))
            parted.add(cells, 1 + int(cells.max()))
            for codes in (self.column(name).codes[k] for k in (0, l)):
                parted.add(codes, self.column(name).size)
            cells = parted.dense()
        return cells

    def _sorts(self, name: str, l: int, cells: Ints) -> bool:
        """Whether the original and file l are sorted by a column within cells, the same way."""
        column, same = self.column(name), cells[1:] == cells[:-1]
        order = np.arange(column.size)
        if len(column.values):
            order[np.argsort(column.values)] = np.arange(column.size)
        steps = [np.diff(order[column.codes[k]])[same] for k in (0, l)]
        varied = all(bool((s != 0).any()) for s in steps)
        return varied and any(all(bool((sign * s >= 0).all()) for s in steps) for sign in (1, -1))

    def row_of(self, l: int, rows: Ints) -> Ints:
        """Rows of file l of some records: their own; of moved rows those of the same kept cell."""
        if self.tables.corresponds[l - 1]:
            return rows
        of_cell = np.empty(1 + int(self.cells[0].max()), np.int64)
        of_cell[self.cells[l]] = np.arange(len(self.cells[l]))
        return np.asarray(of_cell[self.cells[0][rows]])

    def sets(self) -> Iterator[tuple[str, ...]]:
        """All synthesised columns, and all but one of them."""
        yield tuple(self.made)
        if 2 < len(self.made) <= WIDE:
            for name in self.made:
                yield tuple(c for c in self.made if c != name)

    def two(self) -> list[tuple[str, ...]]:
        """Every two amounts of a few: places, or values that stay where others are redrawn."""
        made = (*self.made, *self.ranks)
        numbers = [c for c in made if self.amounts(c, (0,)) is not None]
        return [*combinations(numbers, 2)] if 3 < len(made) and len(numbers) <= FEW_AMOUNTS else []

    def amounts(self, name: str, tables: Sequence[int]) -> list[Array] | None:
        """Ranks of a column among some tables, the same for equal values; None: of categories."""
        if name in self.ranks:
            return [self.ranks[name][l] for l in tables]
        if not self.is_fine(name):
            return None
        column = self.column(name)
        parts = [column.values[column.codes[l]] for l in tables]
        return np.split(ranks(np.concatenate(parts)), np.cumsum([len(p) for p in parts])[:-1])

    def mean(self, name: str, tables: Sequence[int], rows: Sequence[Ints]) -> list[Array] | None:
        """Ranks, of some rows, of a number and of its mean over files; None: no numbers."""
        if name in self.ranks or not self._has_numbers(name):
            return None
        column = self.column(name)
        y, *files = (column.values[column.codes[l][at]] for l, at in zip(tables, rows, strict=True))
        with np.errstate(over="ignore"):
            mean = np.mean(files, axis=0)
        mean = np.where(np.isinf(mean), np.sum(np.divide(files, len(files)), axis=0), mean)
        return np.split(ranks(np.concatenate([y, mean])), 2)

    def points(self, names: Sequence[str], l: int, part: int = 1) -> tuple[Points, Points]:
        """Records of the original and of a part of file l: levels, ranks of numbers, kept cells."""
        codes: list[Any] = []
        numbers: list[Any] = [[c * APART for c in (self.cells[0], self.cells[l])]]
        for name in names:
            amounts = self.amounts(name, (0, l))
            if amounts is not None:
                numbers.append(amounts)
            else:
                column = self.column(name)
                codes.append([column.codes[0], column.codes[l]])
        y, z = (
            Points(
                np.column_stack([np.empty((n, 0)), *[p[side] for p in codes]]).astype(np.int32),
                np.column_stack([p[side].astype(float) for p in numbers]),
            )
            for side, n in enumerate((self.tables.sizes[0], self.tables.sizes[l]))
        )
        return y.only(self.once(0)), z.only(self.once(l, part))


def _copied(column: pd.Series, other: pd.Series, same_rows: bool) -> bool:
    """Whether another column has the same values; row by row, or numbers in the same order."""
    name = str(column.name)
    pair = Tables.of(column.to_frame(name), other.to_frame(name), own=same_rows)
    coded = pair.compared(name)
    if coded is not None and _all_equal(coded.codes, coded.size):
        return not same_rows or bool((coded.codes[0] == coded.codes[1]).all())
    try:
        order, z = ranks(pair.numbers(name)[0]), pair.numbers(name)[1]
    except InputError:
        return False
    steps = np.diff(order)
    if not same_rows or (steps >= 0).all() or (steps <= 0).all():  # of a sorted file by itself
        return False
    return any(np.array_equal(order, ranks(v), equal_nan=True) for v in (z, -z))


def _all_equal(parts: Sequence[Ints], size: int) -> bool:
    """Whether all tables have the same values, in whatever order."""
    first, *others = (np.bincount(part, minlength=size) for part in parts)
    return all(np.array_equal(first, other) for other in others)
