"""Nearest pairs: of two records that are each other's nearest, at most half are one of each table.

Put the records of the original and of a file together. Where both are drawn without knowing each
other, at densities ``a`` and ``b`` around a point, two records there that are each other's nearest
are one of each with probability ``2 a b / (a + b)^2``, at most one half, whatever the densities
are. Among n and N records that may stand for each other it is ``2 n N / ((n + N)(n + N - 1))``.
"""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from bayes_risk._core.arrays import Flags, Ints
from bayes_risk._core.matching import Combinations
from bayes_risk._core.nearest import Points, nearest_units
from bayes_risk.data.variables import FEW

from . import persons
from .links_result import IDENTICAL, NEAREST, UNIQUES, VALUES, Link
from .seen import APART, LEAST, LOOKED_AT, TIMES, Seen

THINNED = (4, 16)  # of so many rows of a file one is drawn: of copies one alone is left then
THIN = 20  # rows that are left of a file at least
SMALL = 12  # records of a kept cell of which one pair counts


def equal_pairs(seen: Seen, keys: Sequence[str]) -> Iterator[Link]:
    """Pairs of equal records on many sets of columns, then those that are only nearest."""
    known = [c for c in keys if c in seen.names]
    of_keys = seen.kept_of([c for c in known if c in seen.kept])[1]
    nothing = [np.zeros(n, np.int64) for n in seen.tables.sizes]
    near = list(seen.sets())
    sets = [(IDENTICAL, names, seen.cells) for names in near]
    sets += [(VALUES, (c,), nothing) for c in seen.made if seen.column(c).size > FEW + 1]
    sets += [(UNIQUES, tuple(known), of_keys)] if {*known} & {*seen.made} else []
    apart = [seen.keeps_apart(l) for l in range(1, seen.m1)]
    for (test, names, cells), l in product(sets, range(1, seen.m1)):
        if test == IDENTICAL and apart[l - 1]:
            continue
        yield from _equal_pairs(seen, test, names, cells, l)
    small = sum(seen.tables.sizes[:2]) <= 5 * LOOKED_AT
    close = [(*names, *seen.ranks) for names in (near if small else near[:1])]
    close += seen.two() if small else []
    for names, l in product(close, (l for l in range(1, seen.m1) if not apart[l - 1])):
        yield from _nearest_pairs(seen, names, l)
    for l, part in product(range(1, seen.m1), THINNED):
        if len(seen.once(l)) >= part * THIN and not (apart[l - 1] or seen.tables.persons):
            for names in near:
                yield from _equal_pairs(seen, IDENTICAL, names, seen.cells, l, part)
            yield from _nearest_pairs(seen, close[0], l, part)


def _equal_pairs(
    seen: Seen, test: str, names: tuple[str, ...], kept: Sequence[Ints], l: int, part: int = 1
) -> Iterator[Link]:
    """Cells of exactly two equal records: one of each table, or two of one."""
    rows = [seen.once(0), seen.once(l, part)]
    cell = [kept[0][rows[0]], kept[l][rows[1]]]
    cells = Combinations(sum(map(len, cell)))
    cells.add(np.concatenate(cell), int(kept[0].max()) + 1)
    for name in names:
        column = seen.column(name)
        cells.add(np.concatenate([column.codes[0][rows[0]], column.codes[l][rows[1]]]), column.size)
    at = np.split(cells.dense(), [len(cell[0])])
    who = [seen.tables.of_person(k, part) for k, part in zip((0, l), rows, strict=True)]
    own, shown = (persons.holders(part, w, cells.size) for part, w in zip(at, who, strict=True))
    of_cell = np.zeros(cells.size, np.int64)
    of_cell[np.concatenate(at)] = np.concatenate(cell)
    two, same = own + shown == 2, None
    if test == VALUES and seen.kept and seen.tables.corresponds[l - 1]:
        _, *same = np.intersect1d(rows[0], rows[1], return_indices=True)
        of, its = (part[place] for part, place in zip(at, same, strict=True))
        two[of[of == its]] = False
    pairs = persons.each_once(at, who, np.flatnonzero(two), same)
    most = 1 + int(kept[0].max())
    sizes = [persons.holders(c, w, most) for c, w in zip(cell, who, strict=True)]
    found = of_cell[pairs], own[pairs] == 1
    yield from _tested((test, l, names), found, sizes, seen.folds[0] / _alone(part))


def _alone(part: int) -> float:
    """Share of persons with several copies of whom one is left in a part of a file, at most."""
    return (1 - 1 / part) ** (part - 1)


def _nearest_pairs(seen: Seen, names: tuple[str, ...], l: int, part: int = 1) -> Iterator[Link]:
    """Pairs of records that are each other's nearest by some factor, and not equal to others."""
    y, z = seen.points(names, l, part)
    both = Points(np.concatenate([y.codes, z.codes]), np.concatenate([y.numbers, z.numbers]))
    rows = seen.once(0), seen.once(l, part)
    who = [seen.tables.of_person(k, at) for k, at in zip((0, l), rows, strict=True)]
    units, n = persons.stacked_persons(who, len(y.codes), len(both.codes))
    drawn, N = np.unique(units), int(units.max()) + 1
    rng = np.random.default_rng(0)  # the same records in every run
    if len(units) > LOOKED_AT:
        drawn = np.sort(rng.choice(drawn, LOOKED_AT * len(drawn) // len(units), replace=False))
    there = nearest_units(both, units, drawn)
    back = nearest_units(both, units, there.row, there.first)
    mutual = (back.row == drawn) & (there.first < APART**2)
    mutual &= (drawn < there.row) | ~np.isin(there.row, drawn)  # each pair once
    next_one = np.minimum(there.second, back.second)
    share = 1 - (1 - len(drawn) / N) ** 2  # of the pairs, by one record or the other
    cell = [(side.numbers[:, 0] / APART).astype(np.int64) for side in (y, z)]
    cells, most = np.concatenate(cell), 1 + int(cell[0].max())
    sizes = [persons.holders(c, w, most) for c, w in zip(cell, who, strict=True)]
    ahead = np.full(len(drawn), np.inf)  # how much nearer than the next, squared
    np.divide(next_one, there.first, out=ahead, where=there.first > 0)
    order = np.lexsort((rng.random(len(drawn)), -ahead))  # of ties any
    fold = seen.folds[0] / share / _alone(part)
    for times in TIMES:
        pairs = order[(mutual & (next_one > times**2 * there.first))[order]]
        mixed = (drawn[pairs] < n) != (there.row[pairs] < n)
        yield from _tested((NEAREST, l, names), (cells[there.ties[pairs]], mixed), sizes, fold)


def _tested(
    what: tuple[str, int, tuple[str, ...]],
    pairs: tuple[Ints, Flags],
    sizes: Sequence[Ints],
    fold: float,
) -> Iterator[Link]:
    """Pairs by kept cell, and which are mixed; of a small cell the first counts.

    ``sizes``: records of the original and of the file in each cell; ``fold``: persons for whom a
    pair stands. What comes first must not depend on whose the two records are.
    """
    kept, mixed = pairs
    n, N = sizes
    total = (n + N)[kept]
    first = np.zeros(len(kept), bool)
    first[np.unique(kept, return_index=True)[1]] = True
    use = (total > 2) & (first | (total > SMALL)) & (N[kept] > 0)
    kept, mixed, total = kept[use], mixed[use], total[use]
    if len(kept) < LEAST:
        return
    chance = np.maximum(2 * n[kept] * N[kept] / (total * (total - 1.0)), 0.5)
    by = float(chance.mean())
    yield Link.of_pairs(what, len(kept), int(mixed.sum()), by, fold)
