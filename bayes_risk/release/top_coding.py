"""Columns that the files cut off where the original goes on: top-coded, or bottom-coded.

A file is top-coded at M if every larger value became M, or the mean of those above a cut. It then
has a heap of records at M and none beyond, and the original has values beyond M. Whoever knows this
matches each of those with M. A column that merely has a smaller maximum has no such heap.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.formats import ends_in_words, plain
from bayes_risk.data.equality import Coded, last_decimal
from bayes_risk.data.precision import SAME

FEWEST = 3  # records at a cut, and values of the column
SURE, DOUBT = 1e-6, 1e-3  # chance of heap and empty tail, from which a cut is certain, or possible
RARE = 0.05  # the same where no value is nearly as heavy; of a gap below a heap that is a mean
WEAK = 0.2  # chance of the heap alone, from which it is none
WITHIN = 2.0  # times the records that are expected at a cut there are at most, or a half at least


class CutEnd(NamedTuple):
    """An end of a column at which the files have a heap, and the original has values beyond.

    ``beyond``: (size,), codes of values that became the cut, if there is one; ``most``: those and
    all that no file shows below it; ``heaps``: (m,), its code in each file; ``certain``,
    ``possible``: what the counts alone tell.
    """

    words: str
    at: float
    beyond: Flags
    most: Flags
    heaps: Ints
    certain: bool
    possible: bool


def cut_ends(values: Array, counts: Sequence[Ints], missing: float | None = None) -> list[CutEnd]:
    """Ends at which files may be cut, of the codes of a number.

    ``values``: of each code, (size,), the first missing; ``counts``: records of each code, (size,),
    in the original, then in each file; ``missing``: a value that stands for missing.
    """
    found = []
    for word, sign in (("top-coded", 1), ("bottom-coded", -1)):
        order = 1 + np.argsort(sign * values[1:], kind="stable")
        order = order[values[order] != missing]
        Y, *Z = (count[order].astype(np.int64) for count in counts)
        shown = [np.flatnonzero(z) for z in Z]
        if min(map(len, shown)) < FEWEST:
            continue
        heaps, last = np.array([s[-1] for s in shown]), int(max(s[-2] for s in shown))
        first, K = int(heaps.min()), [int(z[h]) for z, h in zip(Z, heaps, strict=True)]
        if first <= last or min(K) < FEWEST or not all(Y[h + 1 :].any() for h in heaps):
            continue
        shares = [z.sum() / (Y.sum() + z.sum()) for z in Z]
        start = _start(values[order], Y, Z, last, first, min(shares))
        each = [_chances(Y, *one, start) for one in zip(Z, heaps, shares, strict=True)]
        beyond, most = np.zeros((2, len(values)), bool)
        beyond[order[start:]] = most[order[last + 1 :]] = True
        at = sorted({float(values[order[h]]) + 0.0 for h in heaps})
        where = ends_in_words(*(plain(end, 15) for end in (at[0], at[-1])))
        records = ends_in_words(f"{min(K):,}", f"{max(K):,}") + " records"
        records += " of each file" if len(Z) > 1 else ""
        found.append(
            CutEnd(
                f"{word} at {where}, which {records} have",
                at[0],
                beyond,
                most,
                order[heaps],
                certain=all(chance <= SURE and far for chance, far in each),
                possible=all(chance <= (RARE if far else DOUBT) for chance, far in each),
            )
        )
    return found


def cut_off(found: Coded, m: int, ends: Sequence[CutEnd]) -> Coded:
    """A column of the original, m files and others, in which all that became a cut has one code."""
    parts, values = [*found.codes], found.values
    for end in ends:
        for l, codes in enumerate(found.codes):
            cut = codes == end.heaps[l - 1] if 0 < l <= m else end.beyond[codes]
            parts[l] = np.where(cut, len(values), parts[l])
        values = np.append(values, end.at)
    return found._replace(codes=tuple(parts), size=len(values), values=values)


def _chances(Y: Ints, z: Ints, h: int, share: float, start: int) -> tuple[float, bool]:
    """Chance of a file's heap and its empty tail; whether no other value is nearly as heavy.

    By chance a record of the pooled tail is the file's with probability ``share``. Clumps, as
    donors or rounding make them, show at other values too. A heap of another size than the
    original's values from ``start`` on is no cut, nor is one of a usual size: their chance is 1.
    """
    K, many, gone = int(z[h]), int(Y[start:].sum()), int(Y[h + 1 :].sum())
    expected = many * share / (1 - share)
    sides = bdtr(K, K + many, share), bdtrc(K - 1, K + many, share)
    every = np.asarray(bdtrc(z - 1.0, Y + z, share))  # of as many of the file's, and more
    heap, alike = float(every[h]), expected / WITHIN <= K <= expected * WITHIN
    if heap > WEAK or not (alike or 2 * min(sides) > DOUBT):
        return 1.0, False
    inner = np.arange(len(z)) < h
    inner[np.flatnonzero(z)[0]] = False  # the other end may be cut too
    return heap * (1 - share) ** gone, heap <= every[inner].min(initial=1.0) ** 2


def _start(v: Array, Y: Ints, Z: Sequence[Ints], last: int, heap: int, share: float) -> int:
    """From where the original's values are at the heap: from it on, or from below if it is a mean.

    That no file has a value of a gap below the heap, where the original has many, is no chance. If
    the heap is the mean of all from some value of the gap on, that is where the file was cut.
    """
    chance = (1 - share) ** int(Y[last + 1 : heap].sum())
    if chance > RARE:
        return heap
    there = last + 1 + np.flatnonzero(Y[last + 1 : heap])
    above = np.cumsum((v * Y)[::-1])[::-1] / np.maximum(np.cumsum(Y[::-1])[::-1], 1)
    unit = last_decimal(v[np.any(Z, axis=0)]) / 2
    near = np.abs(above[there] - v[heap]) <= max(unit, SAME * abs(v[heap])) * (1 + SAME)
    if near.any():
        return int(there[near][0])
    return last + 1 if chance <= DOUBT else heap
