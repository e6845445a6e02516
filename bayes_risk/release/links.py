"""What files show of single persons beyond chance: nearest pairs and own rows.

Both tests ask one question, whether a file knows persons of the original, and answer it without a
model. ``docs/reading-the-numbers.md`` derives them.

*Nearest pairs.* Put the records of the original and of a file together. Where both are drawn
without knowing each other, at densities ``a`` and ``b`` around a point, two records there that are
each other's nearest are one of each with probability ``2 a b / (a + b)^2``, at most one half,
whatever the densities are. Among n and N records that may stand for each other it is
``2 n N / ((n + N)(n + N - 1))``.

*Own rows.* Where row i of a file is record i, it shows nothing of the record beyond the kept
columns if the rows could stand in any order among those with the same kept values. Then the row
that is nearest to a record is its own in one case per cell, with a variance of at most one.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import gammaincinv
from scipy.stats import beta, binom, poisson

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import Combinations
from bayes_risk._core.nearest import Points, halved, nearest_units, ranks, two_nearest
from bayes_risk.data.columns import ROW_NUMBERS, names_records
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.variables import FEW, holds_text

from . import persons
from .links_result import ALIKE, IDENTICAL, NEAREST, OWN, UNIQUES, VALUES, Link, Links
from .tables import Released, Tables, tables_of

TIMES = (1.0, 3.0, 10.0)  # how much nearer than the next record
LOOKED_AT = 2_000  # records of large files for whom the nearest are looked up
MANY = 20_000  # records whose own rows are compared
LEAST = 5  # pairs or rows below which nothing can be seen
SMALL = 12  # records of a kept cell of which one pair counts
FORETOLD = 0.9  # share of the variance of values above which kept columns explain them
GROUP = 2  # records of like predictions where kept values are all different
WIDE = 20  # columns of which each is left out in turn
APART = 1_000.0  # distance of different kept cells, of which columns add up to some units
SURE = 0.05  # two-sided, of the limits of a number of persons
DOUBLES = 0.02  # share of pairs of equal records that a table without any was rid of
NEARLY, TOLD = 0.9, 20  # share of different records that stand k times, and how many tell it


def links(
    original: pd.DataFrame | Microdata | Tables,
    release: Released | pd.DataFrame | Sequence[pd.DataFrame] | None = None,
    *,
    keys: Sequence[str] = (),
    corresponds: bool | None = None,
    person: str | None = None,
) -> Links:
    r"""Test whether released files show persons of the original beyond chance, without a model.

    *Nearest pairs.* Put the n records of the original and the N of a file together. Two records
    that are each other's nearest are one of each table with probability
    :math:`2ab/(a+b)^2 \le 1/2`, if the file was drawn without knowledge of these persons at
    density b where the original's is a. Equal records count where exactly two are equal.

    *Own rows.* If row i is record i, and rows could as well stand in any order among those with
    the same kept values, the released row that is nearest to a record is its own once a cell.

    Parameters
    ----------
    original : DataFrame or Microdata, n records
        The confidential file.
    release : Release, DataFrame, or list of m DataFrames
        The released files.
    keys : list of str
        Columns that an intruder knows: tested on their own besides.
    corresponds : bool, optional
        Whether row i of a file is record i; by default where it has as many and the same index.
    person : str, optional
        The column that names persons, as of `exposure`: each counts once.

    Returns
    -------
    Links
        Tests, with the number of persons that each sees beyond chance; facts of columns.

    Raises
    ------
    InputError
        As of `exposure`.

    See Also
    --------
    exposure : Counts of equal records and values.

    Notes
    -----
    *Assumptions.* Densities are about the same at the two records of a pair. Within cells of kept
    columns, of n and N records, the bound is :math:`2nN/((n+N)(n+N-1))` where this is larger. Where
    kept values are nearly all different, own rows are tested in pairs of records of which trees,
    grown on other records, predict like values; ``by_chance`` is approximate there.

    *Several tests.* Each is made on all columns, on all but one, on single amounts and on the keys;
    p-values are multiplied by the number of tests (Bonferroni).

    *Cost.* Time O(m p n log n) for p columns; nearest records are looked up for 2,000 records a
    test at most. Memory O(n p).

    References
    ----------
    Henze, N. (1988). A multivariate two-sample test based on the number of nearest neighbor type
    coincidences. Annals of Statistics 16, 772-783.
    """
    read = original if isinstance(original, Tables) else tables_of(original, release, corresponds)
    tables = read.by_person(person)
    seen = _Seen(tables)
    tests = [*_pairs(seen, keys), *_own_rows(seen)] if seen.made or seen.ranks else []
    adjusted = [one._replace(p=min(1.0, one.p * len(tests))) for one in tests]
    return Links(
        n=tables.n_persons,
        m=tables.m,
        made=(*seen.made, *seen.ranks),
        tests=tuple(sorted(adjusted, key=lambda one: (one.p, -one.low))),
        unchanged={name: seen.alone(name) for name in seen.kept},
        outside=tables.outside(),
        identifiers=seen.named,
    )


class _Seen:
    """Columns that are compared, those that were synthesised, and cells of those kept.

    Identifiers, and columns with one value in the original or in a file, say nothing of nearness.
    Numbers in another unit than the original's are compared by their ranks in each table.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        skipped = {c: w for c, w in tables.identifiers().items() if self._names(c, w)}
        named = [c for c, why in skipped.items() if why != ROW_NUMBERS]
        self.named = {c: self._shown(c) for c in named}
        asked = [c for c in tables.names if c not in skipped]
        self.names = [c for c in asked if tables.compared(c) is not None and self._varies(c)]
        self.ranks = {c: found for c in asked if c in tables.left_out and (found := self._own(c))}
        self.kept, self.cells = self._kept(self.names)
        self.made = [c for c in self.names if c not in self.kept]
        folds = [1 if tables.persons else self._fold(l) for l in range(self.m1)]
        self.folds = [max(fold, folds[0]) for fold in folds]

    def _names(self, name: str, why: str) -> bool:
        """Whether a column names or numbers records; other numbers may be amounts.

        So may those that several records have, whatever their name (`num_shares`).
        """
        if name == self.tables.person:
            return True
        if name in (self.tables.made or ()):
            return False
        column = self.tables.frames[0][name]
        named = names_records(str(name)) and column.is_unique
        return holds_text(column) or why == ROW_NUMBERS or named

    def _kept(self, names: Sequence[str]) -> tuple[list[str], list[Ints]]:
        """Those that were kept, and their cells; where rows moved, those kept together."""
        tables = self.tables
        kept, cells = list[str](), [np.zeros(n, np.int64) for n in tables.sizes]
        for name in filter(self._is_kept, names):
            stacked = Combinations(int(tables.sizes.sum()))
            stacked.add(np.concatenate(cells), 1 + int(cells[0].max()))
            stacked.add(tables.stacked(name), tables.column(name).size)
            parts = tables.parts(stacked.dense())
            if tables.corresponds.all() or _all_equal(parts, stacked.size):
                kept.append(name)
                cells = parts
        return kept, cells

    def _records(self, l: int) -> Ints:
        """Number of each record of table l, the same for records equal in all columns."""
        records = Combinations(int(self.tables.sizes[l]))
        for name in self.names:
            column = self.tables.column(name)
            records.add(column.codes[l], column.size)
        return records.dense()

    def _fold(self, l: int) -> int:
        """How many times everybody stands in table l, in all columns: each, or nearly each."""
        counts = np.bincount(self._records(l))
        if not self.names or len(counts) < TOLD:
            return int(np.gcd.reduce(counts)) if self.names else 1
        times = range(2, min(int(counts.max()), TOLD) + 1)
        return max((k for k in times if (counts % k == 0).mean() >= NEARLY), default=1)

    def once(self, l: int) -> Ints:
        """Rows of table l that were replaced, one for each that stands there several times."""
        if self.folds[l] == 1 or self.tables.replaced is not None:
            return np.arange(self.tables.sizes[l])[self.rows(l)]
        of = self._records(l)
        order = np.argsort(of, kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(of))])
        before = np.arange(len(of)) - first[of[order]]
        return np.sort(order[before % self.folds[l] == 0])

    def keeps_apart(self, l: int) -> bool:
        """Whether one table was made without doubles, and the other has some of its own.

        Records that keep apart are nearest to others' by that alone.
        """
        rows = [self.once(0), self.once(l)]
        records = Combinations(sum(map(len, rows)))
        for name in self.names:
            column = self.tables.column(name)
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

    def _varies(self, name: str) -> bool:
        return all((codes != codes[0]).any() for codes in self.tables.column(name).codes[: self.m1])

    @property
    def m1(self) -> int:
        """The original and its files."""
        return self.tables.m + 1

    def _is_kept(self, name: str) -> bool:
        """Whether every file has the original's values, in its rows where these correspond."""
        column, there = self.tables.column(name), self.tables.corresponds
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
        if any(name in f and self.tables.why_names(f[name]) == ROW_NUMBERS for f in frames):
            return 0
        y, *files = column.codes[: self.m1]
        shown = np.isin(y, np.concatenate(files)) & (y > 0)
        return int(persons.holders(shown.astype(np.int64), self.tables.of_person(0), 2)[1])

    def alone(self, name: str) -> int:
        """Persons whose value of a column nobody else has."""
        column, who = self.tables.column(name), self.tables.of_person(0)
        codes = column.codes[0]
        once = (persons.holders(codes, who, column.size)[codes] == 1) & (codes > 0)
        return int(persons.holders(once.astype(np.int64), who, 2)[1])

    def rows(self, l: int) -> Flags | slice:
        """Rows of table l that were replaced, where the release names them."""
        replaced = self.tables.replaced
        return slice(None) if replaced is None else replaced

    def sorted(self) -> Flags:
        """Of each file, whether it and the original are sorted by a synthesised column.

        Within the kept cells: rows are then near each other whoever they are of.
        """
        found = np.zeros(self.m1 - 1, bool)
        same = self.cells[0][1:] == self.cells[0][:-1]
        for name in self.made if self.tables.corresponds.any() else ():
            column = self.tables.column(name)
            order = np.arange(column.size)
            if len(column.values):
                order[np.argsort(column.values)] = np.arange(column.size)
            steps = [
                np.diff(order[column.codes[l]])[same]
                if not l or self.tables.corresponds[l - 1]
                else np.array([1.0, -1.0])
                for l in range(self.m1)
            ]
            up, down = ([bool((sign * s >= 0).all()) for s in steps] for sign in (1, -1))
            varied = [bool((s != 0).any()) for s in steps]
            found |= [
                v and varied[0] and (u and up[0] or d and down[0])
                for u, d, v in zip(up[1:], down[1:], varied[1:], strict=True)
            ]
        return found

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

    def amounts(self, name: str, tables: Sequence[int]) -> list[Array] | None:
        """Ranks of a column among some tables, the same for equal values; None: of categories."""
        if name in self.ranks:
            return [self.ranks[name][l] for l in tables]
        column = self.tables.column(name)
        if column.kind not in ("numbers", "dates") or len(column.values) <= FEW + 1:
            return None
        parts = [column.values[column.codes[l]] for l in tables]
        return np.split(ranks(np.concatenate(parts)), np.cumsum([len(p) for p in parts])[:-1])

    def points(self, names: Sequence[str], l: int) -> tuple[Points, Points]:
        """Records of the original and of file l: levels, ranks of numbers, kept cells."""
        codes: list[Any] = []
        numbers: list[Any] = [[c * APART for c in (self.cells[0], self.cells[l])]]
        for name in names:
            amounts = self.amounts(name, (0, l))
            if amounts is not None:
                numbers.append(amounts)
            else:
                column = self.tables.column(name)
                codes.append([column.codes[0], column.codes[l]])
        y, z = (
            Points(
                np.column_stack([np.empty((n, 0), np.int32), *[p[side] for p in codes]]),
                np.column_stack([p[side].astype(float) for p in numbers]),
            )
            for side, n in enumerate((self.tables.sizes[0], self.tables.sizes[l]))
        )
        return y.only(self.once(0)), z.only(self.once(l))


def _all_equal(parts: Sequence[Ints], size: int) -> bool:
    """Whether all tables have the same values, in whatever order."""
    first, *others = (np.bincount(part, minlength=size) for part in parts)
    return all(np.array_equal(first, other) for other in others)


# --- nearest pairs --------------------------------------------------------------------------------


def _pairs(seen: _Seen, keys: Sequence[str]) -> Iterator[Link]:
    """Pairs of equal records on many sets of columns, then those that are only nearest."""
    known = [c for c in keys if c in seen.names]
    of_keys = seen._kept([c for c in known if c in seen.kept])[1]
    nothing = [np.zeros(n, np.int64) for n in seen.tables.sizes]
    near = list(seen.sets())
    sets = [(IDENTICAL, names, seen.cells) for names in near]
    sets += [(VALUES, (c,), nothing) for c in seen.made if seen.amounts(c, (0,)) is not None]
    sets += [(UNIQUES, tuple(known), of_keys)] if {*known} & {*seen.made} else []
    apart = [seen.keeps_apart(l) for l in range(1, seen.m1)]
    for (test, names, cells), l in product(sets, range(1, seen.m1)):
        if test == IDENTICAL and apart[l - 1]:
            continue
        if (one := _equal_pairs(seen, test, names, cells, l)) is not None:
            yield one
    if sum(seen.tables.sizes[:2]) > 5 * LOOKED_AT:
        near = near[:1]
    for names, l in product(near, (l for l in range(1, seen.m1) if not apart[l - 1])):
        yield from _nearest_pairs(seen, (*names, *seen.ranks), l)


def _equal_pairs(
    seen: _Seen, test: str, names: tuple[str, ...], kept: Sequence[Ints], l: int
) -> Link | None:
    """Cells of exactly two equal records: one of each table, or two of one.

    Of single values a row and its own record are left out where columns were kept: these may
    foretell both.
    """
    tables, rows = seen.tables, [seen.once(0), seen.once(l)]
    cell = [kept[0][rows[0]], kept[l][rows[1]]]
    cells = Combinations(sum(map(len, cell)))
    cells.add(np.concatenate(cell), int(kept[0].max()) + 1)
    for name in names:
        column = tables.column(name)
        cells.add(np.concatenate([column.codes[0][rows[0]], column.codes[l][rows[1]]]), column.size)
    at = np.split(cells.dense(), [len(cell[0])])
    who = [tables.of_person(k, part) for k, part in zip((0, l), rows, strict=True)]
    own, shown = (persons.holders(part, w, cells.size) for part, w in zip(at, who, strict=True))
    of_cell = np.zeros(cells.size, np.int64)
    of_cell[np.concatenate(at)] = np.concatenate(cell)
    two, same = own + shown == 2, None
    if test == VALUES and seen.kept and tables.corresponds[l - 1]:
        _, *same = np.intersect1d(rows[0], rows[1], return_indices=True)
        of, its = (part[place] for part, place in zip(at, same, strict=True))
        two[of[of == its]] = False
    pairs = persons.each_once(at, who, np.flatnonzero(two), same)
    most = 1 + int(kept[0].max())
    sizes = [persons.holders(c, w, most) for c, w in zip(cell, who, strict=True)]
    return _tested(test, names, l, (of_cell[pairs], own[pairs] == 1), sizes, seen.folds[0])


def _nearest_pairs(seen: _Seen, names: tuple[str, ...], l: int) -> Iterator[Link]:
    """Pairs of records that are each other's nearest by some factor, and not equal to others."""
    y, z = seen.points(names, l)
    both = Points(np.concatenate([y.codes, z.codes]), np.concatenate([y.numbers, z.numbers]))
    who = [seen.tables.of_person(k, seen.once(k)) for k in (0, l)]
    units, n = persons.stacked(who, len(y.codes), len(both.codes))
    asked, N = np.unique(units), int(units.max()) + 1
    if len(units) > LOOKED_AT:
        rng = np.random.default_rng(0)  # the same records in every run
        asked = np.sort(rng.choice(asked, LOOKED_AT * len(asked) // len(units), replace=False))
    there = nearest_units(both, units, asked)
    back = nearest_units(both, units, there.row)
    mutual = (back.row == asked) & (there.first < APART**2)
    mutual &= (asked < there.row) | ~np.isin(there.row, asked)  # each pair once
    next_one = np.minimum(there.second, back.second)
    share = 1 - (1 - len(asked) / N) ** 2  # of the pairs, by one record or the other
    cell = [(side.numbers[:, 0] / APART).astype(np.int64) for side in (y, z)]
    cells, most = np.concatenate(cell), 1 + int(cell[0].max())
    sizes = [persons.holders(c, w, most) for c, w in zip(cell, who, strict=True)]
    for times in TIMES:
        pairs = np.flatnonzero(mutual & (next_one > times**2 * there.first))
        mixed = (asked[pairs] < n) != (there.row[pairs] < n)
        found = _tested(NEAREST, names, l, (cells[there.ties[pairs]], mixed), sizes, seen.folds[0])
        if found is not None:
            yield found._replace(persons=found.persons / share, low=found.low / share)


def _tested(
    test: str,
    names: tuple[str, ...],
    l: int,
    pairs: tuple[Ints, Flags],
    sizes: Sequence[Ints],
    fold: int,
) -> Link | None:
    """Pairs by kept cell, and which are mixed; of a small cell one counts.

    ``sizes``: records of the original and of the file in each cell; ``fold``: how often each person
    stands in the original.
    """
    kept, mixed = pairs
    n, N = sizes
    total = (n + N)[kept]
    first = np.zeros(len(kept), bool)
    first[np.unique(kept, return_index=True)[1]] = True
    use = (total > 2) & (first | (total > SMALL)) & (N[kept] > 0)
    kept, mixed, total = kept[use], mixed[use], total[use]
    if len(kept) < LEAST:
        return None
    chance = np.maximum(2 * n[kept] * N[kept] / (total * (total - 1.0)), 0.5)
    K, found, by = len(kept), int(mixed.sum()), float(chance.mean())
    low = float(beta.ppf(SURE / 2, found, K - found + 1)) if found else 0.0
    persons, least = ((share - by) * K / (1 - by) if by < 1 else 0.0 for share in (found / K, low))
    p = float(binom.sf(found - 1, K, by))
    return Link(test, l, names, K, found, by * K, p, max(persons, 0) * fold, max(least, 0) * fold)


# --- own rows -------------------------------------------------------------------------------------


def _own_rows(seen: _Seen) -> Iterator[Link]:
    """Rows whose own record is nearest, in each file and in the mean of all.

    Who is alone with the kept values has a row of their own also where rows were moved, and is
    compared with whom trees predict alike.
    """
    there = seen.tables.corresponds & ~seen.sorted()
    rows = np.arange(seen.tables.n)[seen.rows(1)]
    cell, who = seen.cells[0][rows], persons.each_or(seen.tables.of_person(0, rows), rows)
    single = np.bincount(cell)[cell] == 1
    cell = persons.cells_of(cell, who)
    alone = np.bincount(cell)[cell] == 1
    files = [l for l in range(1, seen.m1) if there[l - 1]]
    if len(files) and not alone.all():
        yield from _own_rows_of(seen, OWN, files, rows[~alone], cell[~alone])
    files = [l for l in range(1, seen.m1) if there.all() or seen.kept]
    alone &= single | there.all()
    if len(files) and seen.kept and alone.sum() >= LEAST:
        some = rows[alone][persons.one_row(who[alone])]
        alike = _alike(seen, files, some)
        yield from _own_rows_of(seen, ALIKE, files, some, alike)


def _own_rows_of(
    seen: _Seen, test: str, files: Sequence[int], rows: Ints, cell: Ints
) -> Iterator[Link]:
    made = (*seen.made, *seen.ranks)
    sets = [made] + [(c,) for c in made if len(made) > 1]
    groups = [[l] for l in files] + ([files] if len(files) > 1 else [])
    who = persons.each_or(seen.tables.of_person(0, rows), rows)
    for names, group in product(sets, groups):
        one = _own(*_features(seen, names, group, rows), cell, who)
        if one is not None:
            of, found, cells = one
            low = float(gammaincinv(found, SURE / 2)) if found else 0.0
            beyond, least = (max(k - cells, 0.0) / (1 - cells / of) for k in (found, low))
            scale = max(1.0, len(np.unique(who)) / of) if len(rows) > MANY else 1.0
            p = float(poisson.sf(np.floor(found) - 1, cells))
            file = group[0] if len(group) == 1 else 0
            yield Link(test, file, names, of, found, cells, p, beyond * scale, least * scale)


def _features(
    seen: _Seen, names: Sequence[str], files: Sequence[int], rows: Ints
) -> tuple[Array, Array]:
    """Columns of the original and the mean of some files: ranks, and shares of levels."""
    y, z = [], []
    places = [rows, *(seen.row_of(l, rows) for l in files)]
    for name in names:
        amounts = seen.amounts(name, (0, *files))
        if amounts is not None:
            of_ranks = [part[at] for part, at in zip(amounts, places, strict=True)]
            lost = [np.isnan(part).astype(float) for part in of_ranks]
            full = [np.where(np.isnan(part), 1.0, part) for part in of_ranks]
            pairs = [full, lost] if np.any(lost) else [full]
        else:
            column = seen.tables.column(name)
            parts = [column.codes[l][at] for l, at in zip((0, *files), places, strict=True)]
            held = np.flatnonzero(np.bincount(np.concatenate(parts), minlength=column.size))
            pairs = [[(p == v) / np.sqrt(2) for p in parts] for v in held[:WIDE]]
        for first, *others in pairs:
            y.append(first)
            z.append(np.mean(others, axis=0))
    return np.column_stack(y), np.column_stack(z)


def _own(y: Array, z: Array, cell: Ints, who: Ints) -> persons.Own | None:
    """Persons looked at in cells of two or more, own rows that are nearest, those by chance."""
    size = np.bincount(cell)
    of = np.flatnonzero(size[cell] > 1)
    if len(of) < LEAST:
        return None
    if len(of) > MANY:
        every = np.unique(who[of])
        some = np.random.default_rng(0).choice(every, MANY * len(every) // len(of), replace=False)
        of = of[np.isin(who[of], some)]
    sides = [
        Points(np.empty((len(x), 0), np.int32), np.column_stack([cell * APART, x])) for x in (y, z)
    ]
    near = two_nearest(sides[1], sides[0].only(of))
    own = ((sides[1].numbers[of] - sides[0].numbers[of]) ** 2).sum(axis=1)
    return persons.own_nearest(near, own, who[of], size[cell[of]])


def _alike(seen: _Seen, files: Sequence[int], rows: Ints) -> Ints:
    """Pairs of records for which the files' values, given kept columns, are predicted alike.

    Predictions are made for records that were not used. A value that kept columns predict nearly
    for certain says nothing: those of which more than `FORETOLD` of the variance is explained are
    left out; alone is everybody if all are.
    """
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    tables, some = seen.tables, np.arange(len(rows))
    kept = []
    for name in seen.kept:
        column = tables.column(name)
        codes = column.codes[0][rows]
        kept.append(column.values[codes] if len(column.values) else codes.astype(float))
    made = (*seen.made, *seen.ranks)
    asked, known = _features(seen, made, files, rows)[1], np.column_stack(kept)
    known = np.where(np.isnan(known), np.nanmin(known, axis=0) - 1, known)
    if len(rows) > MANY:
        some = np.random.default_rng(0).choice(some, MANY, replace=False)
    trees = ExtraTreesRegressor(30, min_samples_leaf=5, random_state=0)
    smooth = make_pipeline(
        StandardScaler(), PolynomialFeatures(2 if len(kept) <= WIDE else 1), StandardScaler(),
        RidgeCV(np.logspace(-3, 4, 8)),
    )  # fmt: skip
    folds = KFold(5, shuffle=True, random_state=0)
    shown = asked[some]

    def guess(model: Any, of: Array) -> Array:
        found = cross_val_predict(model, known[some], np.squeeze(of), cv=folds)
        return np.asarray(found).reshape(of.shape)

    found = [guess(smooth, shown), guess(trees, shown)]
    found.append(found[0] + guess(trees, shown - found[0]))
    lost = np.array([((shown - one) ** 2).sum(axis=0) for one in found])
    predicted = np.choose(lost.argmin(axis=0), found)
    group = np.arange(len(rows)) + len(rows)  # alone
    left = ((asked[some] - predicted) ** 2).sum(axis=0)
    if (left >= (1 - FORETOLD) * ((asked - asked.mean(axis=0)) ** 2)[some].sum(axis=0)).all():
        group[some] = halved(predicted, GROUP)
    return np.asarray(np.unique(group, return_inverse=True)[1])
