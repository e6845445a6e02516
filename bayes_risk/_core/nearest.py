"""Distance to the nearest record, of categories and numbers at once, exactly and without dummies.

Squared distances add up over columns: ``(x - y)^2`` of numbers, 1 between two different levels, and
1 between a missing number and any that is there. Records stand in a tree, made by halving again and
again. No record is nearer than the box around its part of the tree, so most parts are skipped.
"""

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints

LEAF = 32  # records of a leaf at most, unless all are alike
CUTTING = 16  # columns by which parts of the tree are halved
SAMPLE = 1_000  # records that decide which columns these are
FEW = 64  # records of a part that decide by which column it is halved
DEEP = 128  # parts that wait in a search, at most: two a level


class Points(NamedTuple):
    """Codes of levels (n, C), from 0 on, and scaled numbers (n, K), NaN where missing."""

    codes: npt.NDArray[np.int32]
    numbers: Array

    def only(self, rows: Ints) -> "Points":
        """Some of the records."""
        return Points(self.codes[rows], self.numbers[rows])


class RecordTree(NamedTuple):
    """P parts of the records, each before its two halves, with the box that it spans."""

    start: Ints  # (P,), of its records
    end: Ints
    right: Ints  # its second half; -1: it is a leaf
    low_code: npt.NDArray[np.int32]  # (P, C)
    high_code: npt.NDArray[np.int32]
    low: Array  # (P, K), of numbers that are there
    high: Array
    missing: Flags  # (P, K), whether some number is missing
    alike: Flags  # (P,), whether all its records are equal


class Index(NamedTuple):
    """Points in the order of a tree."""

    order: Ints
    tree: RecordTree
    points: Points


def index_of(points: Points) -> Index:
    """The tree of some points: time O(n log n)."""
    n, seen = len(points.codes), np.zeros(int(points.codes.max(initial=0)) + 1, np.int64)
    some = np.arange(0, n, n // SAMPLE + 1)
    gain = _gains(points, some, np.arange(sum(c.shape[1] for c in points)), seen)
    order, tree = _tree_of(points, np.argsort(-gain, kind="stable")[:CUTTING], seen)
    return Index(order, tree, points.only(order))


def nearest(points: Points, query: Points, own: Ints | None = None) -> Array:
    """Distances (N,) to the nearest point, NaN without one; ``own``: rows that are left out."""
    if len(points.codes) < (1 if own is None else 2):
        return np.full(len(query.codes), np.nan)
    return np.asarray(np.sqrt(two_nearest(points, query, own).first))


class Two(NamedTuple):
    """The nearest point of each asked record: its row, squared distance, that of the next one."""

    row: Ints
    first: Array
    second: Array  # of another unit than the first; inf: there is none
    ties: Ints  # points that are as near as the nearest


def two_nearest(
    points: Points | Index,
    query: Points,
    own: Ints | None = None,
    units: Ints | None = None,
    limit: Array | None = None,
    reach: float = np.inf,
) -> Two:
    """Squared distances of the asked records to the two nearest points; cost as of `nearest`.

    ``units``: of whom each point is; those of the asked record's own are left out. ``limit``: the
    search for a record ends with any point that is nearer than this squared distance. ``reach``:
    points that are so many times as far as the nearest, in squares, need not be found.
    """
    order, tree, ordered = points if isinstance(points, Index) else index_of(points)
    place = np.full(len(query.codes), -1) if own is None else np.argsort(order)[own]
    unit = order if units is None else units[order]
    least = np.zeros(len(place)) if limit is None else limit
    found = _search(ordered, tree, query, place, unit, units is None, least, float(reach))
    return Two(order[found[0]], *found[1:])


def nearest_units(points: Points, units: Ints, wanted: Ints, limit: Array | None = None) -> Two:
    """Of each asked unit, that of the nearest point of another, by the nearest of its own points.

    ``row`` is a unit here, and ``ties`` the row of its own point. ``limit``: as of `two_nearest`,
    of each asked unit.
    """
    rows = np.flatnonzero(np.isin(units, wanted))
    least = np.full(1 + int(units.max()), np.inf)
    np.minimum.at(least, wanted, 0.0 if limit is None else limit)
    near = two_nearest(points, points.only(rows), rows, units, least[units[rows]])
    order = np.lexsort((rows, near.first, units[rows]))
    of, start, place = np.unique(units[rows][order], return_index=True, return_inverse=True)
    best = order[start]
    to = units[near.row[best]]
    same = units[near.row[order]] == to[place]
    next_one = np.where(same, near.second[order], near.first[order])
    second = np.minimum.reduceat(next_one, start)
    at = np.searchsorted(of, wanted)
    return Two(to[at], near.first[best][at], second[at], rows[best][at])


def ranks(values: Array) -> Array:
    """Mid-ranks of numbers from 0 to 2, so that two of them differ like two levels; NaN stays."""
    there = ~np.isnan(values)
    found = np.full(len(values), np.nan)
    _, place, ties = np.unique(values[there], return_inverse=True, return_counts=True)
    found[there] = (2 * np.cumsum(ties) - ties + 1)[place] / max(there.sum(), 1)
    return found


def halved(scores: Array, most: int) -> Ints:
    """Groups of at most so many records, halved by the score that differs most."""
    group = np.zeros(len(scores), np.int64)
    parts, done = [np.arange(len(scores))], 0
    while parts:
        rows = parts.pop()
        if len(rows) <= most:
            group[rows] = done
            done += 1
            continue
        half, widest = len(rows) // 2, int(np.argmax(scores[rows].std(axis=0)))
        rows = rows[np.argpartition(scores[rows, widest], half)]
        parts += [rows[half:], rows[:half]]
    return group


@numba.njit(cache=True, nogil=True)
def _tree_of(points, cutting, seen):  # type: ignore[no-untyped-def]  # numba reads no annotations
    """Order of the records in a tree, and the tree. ``seen``: a zero for each code.

    Loops instead of rows at once: what numba compiles for these takes seconds.
    """
    (n, C), K = points.codes.shape, points.numbers.shape[1]
    most = 4 * n // LEAF + 3
    order, keys = np.arange(n), np.empty(n)
    start, end, right = np.empty(most, np.int64), np.empty(most, np.int64), np.full(most, -1)
    wait, P = [(0, n, -1)], 0
    while wait:
        lo, hi, whole = wait.pop()
        start[P], end[P] = lo, hi
        if whole >= 0:
            right[whole] = P
        if hi - lo > LEAF:
            gain = _gains(points, order[lo : hi : (hi - lo) // FEW + 1].copy(), cutting, seen)
            if gain.max() == 0:
                gain = _gains(points, order[lo:hi], cutting, seen)
            if gain.max() > 0:
                half = (lo + hi) // 2
                _halve(points, order, keys, lo, hi, half, cutting[np.argmax(gain)])
                wait += [(half, hi, P), (lo, half, -1)]
        P += 1
    low_code, high_code = np.empty((P, C), np.int32), np.empty((P, C), np.int32)
    low, high = np.full((P, K), np.nan), np.full((P, K), np.nan)
    missing, alike = np.zeros((P, K), np.bool_), np.zeros(P, np.bool_)
    for b in range(P - 1, -1, -1):
        if right[b] < 0:
            first, alike[b] = order[start[b]], True
            for c in range(C):
                low_code[b, c], high_code[b, c] = points.codes[first, c], points.codes[first, c]
            for at in range(start[b], end[b]):
                i = order[at]
                for c in range(C):
                    low_code[b, c] = min(low_code[b, c], points.codes[i, c])
                    high_code[b, c] = max(high_code[b, c], points.codes[i, c])
                for k in range(K):
                    x = points.numbers[i, k]
                    missing[b, k] |= np.isnan(x)
                    low[b, k], high[b, k] = _wider(low[b, k], high[b, k], x, x)
            for c in range(C):
                alike[b] &= low_code[b, c] == high_code[b, c]
            for k in range(K):
                same = not missing[b, k] and low[b, k] == high[b, k]
                alike[b] &= same or np.isnan(low[b, k])
        else:
            one, other = b + 1, right[b]
            for c in range(C):
                low_code[b, c] = min(low_code[one, c], low_code[other, c])
                high_code[b, c] = max(high_code[one, c], high_code[other, c])
            for k in range(K):
                missing[b, k] = missing[one, k] or missing[other, k]
                low[b, k], high[b, k] = _wider(
                    low[one, k], high[one, k], low[other, k], high[other, k]
                )
    boxes = low_code, high_code, low, high, missing, alike
    return order, RecordTree(start[:P], end[:P], right[:P], *boxes)


@numba.njit(cache=True, nogil=True)
def _wider(low, high, least, most):  # type: ignore[no-untyped-def]
    """Two intervals in one; NaN is none."""
    return (
        least if least < low or low != low else low,
        most if most > high or high != high else high,
    )


@numba.njit(cache=True, nogil=True)
def _gains(points, rows, columns, seen):  # type: ignore[no-untyped-def]
    """About how much half the mean squared distance of two records shrinks where halves part."""
    C, found, n = points.codes.shape[1], np.zeros(len(columns)), len(rows)
    for at in range(len(columns)):
        j = columns[at]
        if j < C:
            same = 0.0
            for i in rows:
                seen[points.codes[i, j]] += 1
            for i in rows:
                same += seen[points.codes[i, j]]  # which add up to the square of each level's
            for i in rows:
                seen[points.codes[i, j]] = 0
            same /= n * n
            found[at] = min(1 - same, same) / 2 if same < 1 else 0.0
        else:
            there, total, squares = 0, 0.0, 0.0
            for i in rows:
                x = points.numbers[i, j - C]
                if x == x:
                    there, total = there + 1, total + x
            for i in rows:
                x = points.numbers[i, j - C]
                if x == x:
                    squares += (x - total / there) ** 2
            missing = 1 - there / n
            found[at] = missing * (1 - missing) / 2
            if there:
                found[at] += 0.75 * squares / there
    return found


@numba.njit(cache=True, nogil=True)
def _halve(points, order, keys, lo, hi, half, column):  # type: ignore[no-untyped-def]
    """Order records lo to hi so that none from half on is less in a column than any before."""
    C = points.codes.shape[1]
    for i in range(lo, hi):
        keys[i] = points.codes[order[i], column] if column < C else np.inf
        if column >= C and not np.isnan(points.numbers[order[i], column - C]):
            keys[i] = points.numbers[order[i], column - C]
    first, last = lo, hi - 1
    while first < last:
        middle, i, j = keys[(first + last) // 2], first, last
        while i <= j:
            while keys[i] < middle:
                i += 1
            while keys[j] > middle:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                order[i], order[j] = order[j], order[i]
                i, j = i + 1, j - 1
        if half <= j:
            last = j
        elif half >= i:
            first = i
        else:
            break


@numba.njit(cache=True, nogil=True)
def _search(points, tree, query, own, unit, single, limit, reach):  # type: ignore[no-untyped-def]
    """Place of the nearest point, squared distances to it and the next, and how many tie."""
    N = len(query.codes)
    row, ties = np.zeros(N, np.int64), np.zeros(N, np.int64)
    first, second = np.full(N, np.inf), np.full(N, np.inf)
    wait, bound = np.empty(DEEP, np.int64), np.empty(DEEP)
    for q in range(N):
        wait[0], bound[0], waiting = 0, 0.0, 1
        while waiting and first[q] >= limit[q]:
            waiting -= 1
            b = wait[waiting]
            far = reach * first[q] if reach * first[q] < second[q] else second[q]
            if bound[waiting] > first[q] and bound[waiting] >= far:
                continue
            if tree.right[b] >= 0:
                one, other = b + 1, tree.right[b]
                near, next_one = _outside(tree, one, query, q), _outside(tree, other, query, q)
                if near > next_one:
                    one, other, near, next_one = other, one, next_one, near
                wait[waiting], bound[waiting] = other, next_one
                wait[waiting + 1], bound[waiting + 1] = one, near
                waiting += 2
                continue
            begin, end, each = tree.start[b], tree.end[b], 1
            if single and tree.alike[b]:
                inside = begin <= own[q] < end
                each, begin = end - begin - inside, begin + (own[q] == begin)
                end = begin + (each > 0)
            for i in range(begin, end):
                if own[q] >= 0 and unit[i] == unit[own[q]]:
                    continue
                d = _apart(points, i, query, q, np.nextafter(far, np.inf))
                again = ties[q] > 0 and unit[i] == unit[row[q]]
                if d < first[q]:
                    second[q] = d if each > 1 else second[q] if again else first[q]
                    row[q], first[q], ties[q] = i, d, each
                elif d == first[q] and not again:
                    second[q], ties[q] = d, ties[q] + each
                elif d < second[q] and not again:
                    second[q] = d
    return row, first, second, ties


@numba.njit(cache=True, nogil=True)
def _apart(points, i, query, q, best):  # type: ignore[no-untyped-def]
    """Squared distance of point i to asked record q, or something from ``best`` on."""
    total = 0.0
    for c in range(points.codes.shape[1]):
        total += points.codes[i, c] != query.codes[q, c]
        if total >= best:
            return total
    for k in range(points.numbers.shape[1]):
        step = points.numbers[i, k] - query.numbers[q, k]
        if step == step:
            total += step * step
        else:  # one is missing, or both are
            total += np.isnan(points.numbers[i, k]) != np.isnan(query.numbers[q, k])
        if total >= best:
            return total
    return total


@numba.njit(cache=True, nogil=True)
def _outside(tree, b, query, q):  # type: ignore[no-untyped-def]
    """What no record of block b is nearer to asked record q than: added in the same order."""
    total = 0.0
    for c in range(tree.low_code.shape[1]):
        code = query.codes[q, c]
        total += code < tree.low_code[b, c] or code > tree.high_code[b, c]
    for k in range(tree.low.shape[1]):
        x, low, high = query.numbers[q, k], tree.low[b, k], tree.high[b, k]
        if np.isnan(x):
            total += not tree.missing[b, k]
            continue
        step = max(low - x, x - high, 0.0) if low == low else 1.0
        total += min(step * step, 1.0) if tree.missing[b, k] else step * step
    return total
