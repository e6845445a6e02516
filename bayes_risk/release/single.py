"""Single persons: amounts that one person and one released record share, and what else they share.

That an amount is equal to the last digit says nothing of other columns that nearly equal amounts
would not say. Of a copied record it does. `links` derives the tests.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import bdtrc

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.logspace import log_drawn

from . import persons
from .links_result import AMOUNTS, LARGEST, SURE, Link
from .seen import LEAST, Seen

BINS = 10  # groups of like amounts that agree
NEAR = 100  # records of nearly equal amounts, on either side, at most
OF_N = 20  # and one in so many of the table's
GENUINE = 0.8  # share of the file's values from which equal ones say nothing
FORETOLD = 2  # times as often as others agree columns that an amount explains
GROUPED = 50  # levels of a column whose largest amounts are compared, at most
RUN = 20  # largest amounts of the original that are looked for
MANY = 5_000  # equal amounts of a column that are looked at


class Amounts(NamedTuple):
    """Values of one amount in the original and in a file, and the rows in which they stand alone.

    ``values``: of each table's rows; ``at``: rows of both of a value that one person has in either;
    ``pure``: rows of values that two persons of one table have, and nobody else.
    """

    values: tuple[Array, Array]
    at: tuple[Ints, Ints]
    pure: tuple[tuple[Ints, Ints], tuple[Ints, Ints]]
    once: tuple[Flags, Flags]  # rows whose value one person of their table has
    shared: Flags  # rows of the original whose value the file has
    single: Flags  # and one person of the original and of the file
    foreign: bool  # whether the file has enough values that the original does not have


def single_persons(seen: Seen) -> Iterator[Link]:
    """Equal amounts whose other columns agree, or whose rows are the same; largest amounts."""
    for l in range(1, seen.m1):
        binned = {c: _binned(seen, c, l) for c in seen.names}
        for name in seen.made:
            if not seen.is_fine(name):
                continue
            amounts = _amounts(seen, name, l)
            alike = [1.0]
            if not amounts.foreign:  # donors' values, or whole numbers, are equal anyway
                amounts = amounts._replace(at=(amounts.at[0][:0], amounts.at[1][:0]))
            yield from _agreeing(seen, name, l, amounts, binned, alike)
            yield from _largest(seen, name, l, amounts, min(alike))


def _amounts(seen: Seen, name: str, l: int) -> Amounts:
    """Who has each value of a column, once a person."""
    column = seen.column(name)
    codes = column.codes[0], column.codes[l]
    who = seen.tables.of_person(0), seen.tables.of_person(l)
    own, shown = (persons.holders(c, w, column.size) for c, w in zip(codes, who, strict=True))
    own[0] = shown[0] = 0  # missing
    first = [np.zeros(column.size, np.int64) for _ in codes]
    for place, code in zip(first, codes, strict=True):
        place[code[::-1]] = np.arange(len(code))[::-1]
    last = [np.zeros(column.size, np.int64) for _ in codes]
    for place, code in zip(last, codes, strict=True):
        place[code] = np.arange(len(code))
    both = np.flatnonzero((own == 1) & (shown == 1))
    twice = np.flatnonzero((own == 2) & (shown == 0)), np.flatnonzero((own == 0) & (shown == 2))
    return Amounts(
        (column.values[codes[0]], column.values[codes[1]]),
        (first[0][both], first[1][both]),
        ((first[0][twice[0]], last[0][twice[0]]), (first[1][twice[1]], last[1][twice[1]])),
        (own[codes[0]] == 1, shown[codes[1]] == 1),
        shown[codes[0]] > 0,
        (own[codes[0]] == 1) & (shown[codes[0]] == 1),
        bool((own[shown > 0] > 0).mean() < GENUINE) if shown.any() else False,
    )


def _binned(seen: Seen, name: str, l: int) -> tuple[Ints, Ints]:
    """Levels of a column, or groups of like amounts."""
    if (found := seen.amounts(name, (0, l))) is None:
        codes = seen.column(name).codes
        return codes[0], codes[l]
    y, z = (np.nan_to_num(np.minimum(v / 2 * BINS, BINS - 1), nan=-1).astype(int) for v in found)
    return y, z


def _agreeing(
    seen: Seen,
    name: str,
    l: int,
    amounts: Amounts,
    binned: dict[str, tuple[Ints, Ints]],
    alike: list[float],
) -> Iterator[Link]:
    """Pairs of equal amounts that agree in the other columns, or are the same row."""
    ordered = bool(seen.tables.corresponds[l - 1])
    i, j = amounts.at
    if len(i) > MANY:
        some = np.sort(np.random.default_rng(0).choice(len(i), MANY, replace=False))
        i, j, fold = i[some], j[some], len(i) / MANY
    else:
        fold = 1.0
    if seen.tables.persons:  # a person once
        use = np.unique(seen.tables.persons[0][i], return_index=True)[1]
        i, j = i[use], j[use]
    y, z = _near(amounts, i, j)
    fold *= seen.folds[0]
    largest = amounts.values[0]
    own = np.flatnonzero(amounts.once[0] & ~np.isnan(largest))
    top = own[np.argsort(-largest[own], kind="stable")[:RUN]]
    far = _near(amounts, top, top[:0])[0]
    same = [a == b for a, b in ((i, j), y, z)]
    if ordered:
        by = np.concatenate(same[1:])
        yield _tested(AMOUNTS, l, (name,), same[0], by, np.zeros(0, bool), fold)
        if _equal_at(top, i, same[0]):
            alike.append((1 + int((far[0] == far[1]).sum())) / (1 + len(far[0])))
    others = [c for c in (seen.made if ordered and seen.kept else seen.names) if c != name]
    a, b = (np.concatenate(side) for side in zip(y, z, strict=True))
    others = [c for c in others if not (seen.is_fine(c) and _foretold(*binned[c], a, b))]
    if not others:
        return
    free, *apart = (~one if ordered and seen.kept else np.ones(len(one), bool) for one in same)
    pure = [
        sum((binned[c][side][a] == binned[c][side][b]).astype(int) for c in others)
        for side, (a, b) in enumerate(amounts.pure)
    ]
    equal, *near = (
        sum((binned[c][0][a] == binned[c][1][b]).astype(int) for c in others)
        for a, b in ((i, j), y, z)
    )
    for less in (0, 1) if len(others) > 2 else (0,):
        least = len(others) - less
        by = np.concatenate([n[a] >= least for n, a in zip(near, apart, strict=True)])
        names = (name, *others)
        if not less and _equal_at(top, i, free & (equal >= least)):
            of_top = sum((binned[c][0][far[0]] == binned[c][1][far[1]]).astype(int) for c in others)
            alike.append((1 + int((of_top >= least).sum())) / (1 + len(far[0])))
        yield _tested(
            AMOUNTS, l, names, equal[free] >= least, by, np.concatenate(pure) >= least, fold
        )


def _near(amounts: Amounts, i: Ints, j: Ints) -> list[tuple[Ints, Ints]]:
    """Pairs of nearly equal amounts: each row with those next to it in the other table."""
    pairs = []
    for side, rows in ((1, i), (0, j)):
        values, own = amounts.values[side], amounts.values[1 - side]
        use = np.flatnonzero(amounts.once[side])
        use = use[np.argsort(values[use], kind="stable")]
        width = int(np.clip(len(use) // OF_N, 3, NEAR))
        middle = np.searchsorted(values[use], own[rows])
        place = middle[:, None] + np.arange(-width, width + 1)
        there = (place >= 0) & (place < len(use))
        other = use[np.clip(place, 0, max(len(use) - 1, 0))] if len(use) else place
        there &= values[other] != own[rows][:, None] if len(use) else False
        first = np.broadcast_to(rows[:, None], other.shape)[there]
        pairs.append((first, other[there]) if side else (other[there], first))
    return pairs


def _equal_at(top: Ints, i: Ints, hits: Flags) -> bool:
    """Whether the largest amount is in a pair that agrees."""
    return len(top) > 0 and bool((hits & (i == top[0])).any())


def _foretold(y: Ints, z: Ints, i: Ints, j: Ints) -> bool:
    """Whether groups of a column agree far more often for nearly equal amounts than for any."""
    shares = (np.bincount(v + 1, minlength=BINS + 1) / len(v) for v in (y, z))
    return len(i) > 0 and bool(
        (y[i] == z[j]).mean() > FORETOLD * np.prod(list(shares), axis=0).sum()
    )


def _tested(
    test: str, l: int, names: tuple[str, ...], hits: Flags, near: Flags, pure: Flags, fold: float
) -> Link:
    """Pairs that agree, against those that nearly equal amounts and one table's pairs have."""
    of, found = len(hits), int(hits.sum())
    share, p = _no_more(found, of, near)
    k = int(pure.sum())
    if k and bdtrc(k - 1, len(pure), share) <= SURE:  # computed from other columns
        more = _no_more(found, of, pure)
        share, p = max(share, more[0]), max(p, more[1])
    return Link.of_pairs((test, l, names), of, found, share, fold)._replace(p=p)


def _no_more(found: int, of: int, others: Flags) -> tuple[float, float]:
    """Share of other pairs that agree, and Fisher's p-value if as many of all do."""
    k, size = int(others.sum()), len(others)
    more = np.arange(found, min(of, found + k) + 1)
    p = float(np.exp(log_drawn(more, found + k, of, of + size)).sum()) if found else 1.0
    return (1 + k) / (1 + size), p


def _largest(seen: Seen, name: str, l: int, amounts: Amounts, alike: float) -> Iterator[Link]:
    """Largest amounts, of all and by level, that one person has; ``alike``: share that agrees."""
    y, z = amounts.values
    use = [np.flatnonzero(~np.isnan(v)) for v in amounts.values]
    if min(map(len, use)) < LEAST:
        return
    shared, round_ = _shared(y, amounts)
    own = use[0][amounts.once[0][use[0]]]
    order = own[np.argsort(-y[own], kind="stable")]
    for k in (1, RUN):
        top, inner = order[:k], order[k:]
        if len(inner) < k:
            continue
        denser = (z >= y[top[-1]]).sum() / k / (len(use[1]) / len(use[0]))
        chance = shared(round_[top], inner) * max(1.0, denser)
        hits = amounts.single[top]
        by = min(float(chance.mean()) * (alike if k == 1 else 1.0), 1.0)
        yield Link.of_pairs((LARGEST, l, (name,)), len(top), int(hits.sum()), by, 1.0)
    for by_name in seen.names:
        column = seen.column(by_name)
        if by_name == name or seen.is_fine(by_name) or column.size > GROUPED + 1:
            continue
        tops, one_each, more = list[int](), 0, 0
        for level in np.unique(column.codes[0]):
            a, b = (
                rows[column.codes[t][rows] == level] for t, rows in zip((0, l), use, strict=True)
            )
            if min(len(a), len(b)) < LEAST:
                continue
            top = max(y[a].max(), z[b].max())
            both = int((y[a] == top).sum()), int((z[b] == top).sum())
            tops.append(int(a[y[a].argmax()]))
            one_each += both == (1, 1)
            more += sum(both) > 1 and both != (1, 1)
        if tops:
            inner = np.setdiff1d(own, tops)
            chance = float(shared(round_[tops], inner).mean())
            # amounts are cut off: one of each table no more often than two of one
            by = max(chance, 0.5 * (more > 0))
            yield Link.of_pairs((LARGEST, l, (name, by_name)), len(tops), one_each, by, 1.0)


def _shared(y: Array, amounts: Amounts) -> tuple[Callable[[Ints, Ints], Array], Ints]:
    """Share of some rows' values, as round as some are, that the file has; how round each is."""
    round_ = _roundness(y)

    def shares(least: Ints, rows: Ints) -> Array:
        there, of = amounts.shared[rows], round_[rows]
        found = {int(k): (1 + int(there[of >= k].sum())) / (1 + int((of >= k).sum()))
                 for k in np.unique(least)}  # fmt: skip
        return np.array([found[int(k)] for k in least])

    return shares, round_


def _roundness(values: Array) -> Ints:
    """How many digits each value ends in zeros, of units that all are multiples of."""
    there = ~np.isnan(values)
    found = np.zeros(len(values), np.int64)
    for k in range(-6, 12):
        unit = 10.0**k
        of = np.minimum(np.abs(values[there]), unit * 2.0**53) / unit  # beyond it all are multiples
        found[there] += (np.abs(of - np.round(of)) < 1e-6) & (values[there] != 0)
    return found
