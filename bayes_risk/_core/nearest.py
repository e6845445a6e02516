"""Distance to the nearest record, of categories and numbers at once, exactly and without dummies.

Squared distances add up over columns: ``(x - y)^2`` of numbers, 1 between two different levels, and
1 between a missing number and any that is there. Records stand in blocks, made by halving again and
again. No record is nearer than the box around its block, so most blocks are never looked into.
"""

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from bayes_risk._core.arrays import Array, Flags, Ints

BLOCK = 64  # records of a block at most, or the square root of all
CUTTING = 16  # columns by which blocks are halved
SAMPLE = 1_000  # records of a block that tell by which


class Points(NamedTuple):
    """Records as codes of levels (n, C) and scaled numbers (n, K), NaN where missing."""

    codes: npt.NDArray[np.int32]
    numbers: Array

    def only(self, rows: Ints) -> "Points":
        """Some of the records."""
        return Points(self.codes[rows], self.numbers[rows])


class Boxes(NamedTuple):
    """What B blocks of records span, (B, C) and (B, K) each; numbers that are there, if any."""

    start: Ints  # (B + 1,)
    low_code: npt.NDArray[np.int32]
    high_code: npt.NDArray[np.int32]
    low: Array
    high: Array
    lost: Flags  # some number is missing


def nearest(points: Points, asked: Points, own: Ints | None = None) -> Array:
    """Distances of the asked records to the nearest point, (N,); NaN where there is none.

    ``own``: rows of the points that the asked records are, each of which is left out. Memory O(n)
    for n points, time O(n log n) and at most that of N x n distances.
    """
    if len(points.codes) < (1 if own is None else 2):
        return np.full(len(asked.codes), np.nan)
    turned, boxes, place, _ = _in_blocks(points, own, len(asked.codes))
    return np.asarray(np.sqrt(_search(turned, boxes, asked, place)))


class Two(NamedTuple):
    """The nearest point of each asked record: its row, squared distance, that of the next one."""

    row: Ints
    first: Array
    second: Array  # of another unit than the first; inf: there is none
    ties: Ints  # points that are as near as the nearest


def two_nearest(
    points: Points, asked: Points, own: Ints | None = None, units: Ints | None = None
) -> Two:
    """Squared distances of the asked records to the two nearest points; cost as of `nearest`.

    ``units``: of whom each point is; those of the asked record's own are left out.
    """
    turned, boxes, place, order = _in_blocks(points, own, len(asked.codes))
    unit = order if units is None else units[order]
    row, first, second, ties = _search_two(turned, boxes, asked, place, unit)
    return Two(order[row], first, second, ties)


def nearest_units(points: Points, units: Ints, asked: Ints) -> Two:
    """Of each asked unit, that of the nearest point of another, by the nearest of its own points.

    ``row`` is a unit here, and ``ties`` the row of its own point.
    """
    rows = np.flatnonzero(np.isin(units, asked))
    near = two_nearest(points, points.only(rows), rows, units)
    order = np.lexsort((rows, near.first, units[rows]))
    of, start, place = np.unique(units[rows][order], return_index=True, return_inverse=True)
    best = order[start]
    to = units[near.row[best]]
    same = units[near.row[order]] == to[place]
    next_one = np.where(same, near.second[order], near.first[order])
    second = np.minimum.reduceat(next_one, start)
    at = np.searchsorted(of, asked)
    return Two(to[at], near.first[best][at], second[at], rows[best][at])


def ranks(values: Array) -> Array:
    """Mid-ranks of numbers from 0 to 2, so that two of them differ like two levels; NaN stays."""
    there = ~np.isnan(values)
    found = np.full(len(values), np.nan)
    found[there] = 2 * rankdata(values[there]) / max(there.sum(), 1)
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


def _in_blocks(points: Points, own: Ints | None, n: int) -> tuple[Points, "Boxes", Ints, Ints]:
    """Points by block, the boxes, where the n asked records are among them (-1), their rows."""
    spread = np.array(
        [_halving(c) for c in points.codes.T] + [_halving(c) for c in points.numbers.T]
    )
    blocks = _blocks(points, np.argsort(-spread, kind="stable")[:CUTTING])
    order, start = np.concatenate(blocks), np.cumsum([0, *map(len, blocks)])
    place = np.full(n, -1) if own is None else np.argsort(order)[own]
    turned = points.only(order)
    with np.errstate(invalid="ignore"):
        boxes = Boxes(
            start,
            np.minimum.reduceat(turned.codes, start[:-1], axis=0),
            np.maximum.reduceat(turned.codes, start[:-1], axis=0),
            np.fmin.reduceat(turned.numbers, start[:-1], axis=0),
            np.fmax.reduceat(turned.numbers, start[:-1], axis=0),
            np.logical_or.reduceat(np.isnan(turned.numbers), start[:-1], axis=0),
        )
    return turned, boxes, place, order


def _halving(column: npt.NDArray[np.number]) -> float:
    """About how much half the mean squared distance of two records shrinks where halves part."""
    if column.dtype.kind == "f":
        present = column[~np.isnan(column)]
        return 0.75 * float(present.var()) if len(present) else 0.0
    same = float((np.unique(column, return_counts=True)[1] ** 2).sum()) / len(column) ** 2
    return min(1 - same, same) / 2 if same < 1 else 0.0


def _blocks(points: Points, columns: Ints) -> list[Ints]:
    """Rows in blocks: each is halved at the median of the column of which halves differ most."""
    C = points.codes.shape[1]
    line = [points.codes[:, j] if j < C else points.numbers[:, j - C] for j in columns]
    most = max(BLOCK, int(len(points.codes) ** 0.5))
    parts, done = [np.arange(len(points.codes))], list[Ints]()
    while parts:
        rows = parts.pop()
        some = rows[:: len(rows) // SAMPLE + 1]
        gain = [_halving(column[some]) for column in line] if len(rows) > most else [0.0]
        if max(gain) == 0:  # few records, or all of them alike
            done.append(rows)
            continue
        half = len(rows) // 2
        rows = rows[np.argpartition(line[int(np.argmax(gain))][rows], half)]
        parts += [rows[half:], rows[:half]]
    return done


@numba.njit(cache=True, nogil=True)
def _search(points, boxes, asked, own):  # type: ignore[no-untyped-def]  # numba reads no annotations
    """Squared distances to the nearest point but that at ``own``."""
    found = np.empty(len(asked.codes))
    bound = np.empty(len(boxes.start) - 1)
    for q in range(len(found)):
        for b in range(len(bound)):
            bound[b] = _outside(boxes, b, asked, q)
        first, best = int(np.argmin(bound)), np.inf
        for turn in range(-1, len(bound)):
            b = first if turn < 0 else turn
            if turn == first or bound[b] >= best:
                continue
            for i in range(boxes.start[b], boxes.start[b + 1]):
                if i != own[q]:
                    best = min(best, _apart(points, i, asked, q, best))
        found[q] = best
    return found


@numba.njit(cache=True, nogil=True)
def _search_two(points, boxes, asked, own, unit):  # type: ignore[no-untyped-def]
    """Place of the nearest point, squared distances to it and the next, and how many tie."""
    N = len(asked.codes)
    row, ties = np.zeros(N, np.int64), np.zeros(N, np.int64)
    first, second = np.full(N, np.inf), np.full(N, np.inf)
    bound = np.empty(len(boxes.start) - 1)
    for q in range(N):
        for b in range(len(bound)):
            bound[b] = _outside(boxes, b, asked, q)
        begin = int(np.argmin(bound))
        for turn in range(-1, len(bound)):
            b = begin if turn < 0 else turn
            if turn == begin or bound[b] > first[q] and bound[b] >= second[q]:
                continue
            for i in range(boxes.start[b], boxes.start[b + 1]):
                if own[q] >= 0 and unit[i] == unit[own[q]]:
                    continue
                d = _apart(points, i, asked, q, np.nextafter(second[q], np.inf))
                again = ties[q] > 0 and unit[i] == unit[row[q]]
                if d < first[q]:
                    second[q] = second[q] if again else first[q]
                    row[q], first[q], ties[q] = i, d, 1
                elif d == first[q] and not again:
                    second[q], ties[q] = d, ties[q] + 1
                elif d < second[q] and not again:
                    second[q] = d
    return row, first, second, ties


@numba.njit(cache=True, nogil=True)
def _apart(points, i, asked, q, best):  # type: ignore[no-untyped-def]
    """Squared distance of point i to asked record q, or something from ``best`` on."""
    total = 0.0
    for c in range(points.codes.shape[1]):
        total += points.codes[i, c] != asked.codes[q, c]
        if total >= best:
            return total
    for k in range(points.numbers.shape[1]):
        step = points.numbers[i, k] - asked.numbers[q, k]
        if step == step:
            total += step * step
        else:  # one is missing, or both are
            total += np.isnan(points.numbers[i, k]) != np.isnan(asked.numbers[q, k])
        if total >= best:
            return total
    return total


@numba.njit(cache=True, nogil=True)
def _outside(boxes, b, asked, q):  # type: ignore[no-untyped-def]
    """What no record of block b is nearer to asked record q than: added in the same order."""
    total = 0.0
    for c in range(boxes.low_code.shape[1]):
        code = asked.codes[q, c]
        total += code < boxes.low_code[b, c] or code > boxes.high_code[b, c]
    for k in range(boxes.low.shape[1]):
        x, low, high = asked.numbers[q, k], boxes.low[b, k], boxes.high[b, k]
        if np.isnan(x):
            total += not boxes.lost[b, k]
            continue
        step = max(low - x, x - high, 0.0) if low == low else 1.0
        total += min(step * step, 1.0) if boxes.lost[b, k] else step * step
    return total
