"""Matching on numeric keys within a radius: windows in sorted order; never all pairs.

Letters as in ``matching``; here ``u`` numbers a target's *exact* keys, and a record matches if it
holds these and its numeric keys lie in the target's box. Derivation: ``docs/identification.md``.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from .matching import LARGEST, Flags, Ids, Matches, Reals, settle


class NumericKey(NamedTuple):
    """One key to be matched within a radius: true values, released values, relative radius."""

    y: Reals  # shape (n,)
    value: Reals  # shape (m, n)
    radius: float

    @property
    def ends(self) -> tuple[Reals, Reals]:
        """``y - r |y|`` and ``y + r |y|``, both of them inside."""
        with np.errstate(over="ignore"):
            reach = self.radius * np.abs(self.y)
            return self.y - reach, self.y + reach

    @property
    def own(self) -> Flags:
        """Whether record i's released value lies in target i's interval, shape (m, n)."""
        low, high = self.ends
        return (low <= self.value) & (self.value <= high)


class Windows(NamedTuple):
    """Released records by exact key and first numeric key; each target's stretch of them.

    ``order``, shape (m, n), lists records; target i's candidates in release l are those from
    ``start[l, i]`` up to ``stop[l, i]``, shapes (m, n).
    """

    order: Ids
    start: Ids
    stop: Ids


class Boxes(NamedTuple):
    """Targets' boxes, who stands where, and how many each box holds.

    Attributes
    ----------
    u, z : ndarrays of int64, shapes (n,) and (m, n)
        Numbers of targets' and released exact keys.
    keys : list of NumericKey
        The first is the one that the windows go by.
    windows : Windows
    N : ndarray of int64, shape (m, n)
        Records of release l in target i's box.
    own : ndarray of bool, shape (m, n)
        Record i of release l lies in target i's box.
    """

    u: Ids
    z: Ids
    keys: Sequence[NumericKey]
    windows: Windows
    N: Ids
    own: Flags


class Weights(NamedTuple):
    """``1/N`` of each target and release (n, m), made for exact comparison of sums.

    ``share = floor(scale / N)`` with m shares below 2^63: sums that differ by m or more are ordered
    as their fractions are. ``residue = 1/N`` modulo a prime: unequal ones belong to unequal sums.
    ``reach[:, k-1]`` is the sum of the k largest shares.
    """

    share: Ids
    residue: Ids
    reach: Ids


def box_up(u: Ids, z: Ids, keys: Sequence[NumericKey]) -> Boxes:
    """Sort the releases, and count the records in every target's box.

    Parameters
    ----------
    u : ndarray of int64, shape (n,)
        Number of each target's exact key.
    z : ndarray of int64, shape (m, n)
        Number of each released exact key; -1 if no target has it.
    keys : sequence of NumericKey
        At least one. The one with the narrowest windows is put first.

    Returns
    -------
    Boxes
        Time O(m n log n) with one key; with more, each window is looked through once.
    """
    windows = [_windows(u, z, key) for key in keys]
    first = int(np.argmin([(w.stop - w.start).sum() for w in windows]))
    keys = [keys[first], *keys[:first], *keys[first + 1 :]]
    own = np.logical_and.reduce([z == u, *(key.own for key in keys)])
    return Boxes(u, z, keys, windows[first], _counts(windows[first], keys[1:]), own)


def match_each_box(boxes: Boxes, n_us: Ids, *, fallback: bool) -> Matches:
    """Find the candidates in each release by itself, arrays of shape (m, n)."""
    return settle(boxes.N, boxes.own, n_us, fallback)


def match_pooled_boxes(
    boxes: Boxes, n_us: Ids, *, fallback: bool, largest: int = LARGEST
) -> list[Matches]:
    """Find the candidates by the probability pooled over releases, arrays of shape (n,).

    As `match_pooled`, with boxes in the place of keys.

    Parameters
    ----------
    boxes : Boxes
        From `box_up`.
    n_us : ndarray of int64, shape (n,)
        Size of each target's cell of unsynthesised keys.
    fallback : bool
        What to do where nothing matches in any release: c = n_us, T = 1; or c = T = 0.
    largest : int
        What sums of shares may come to; lower only to test: more sums are then too near.

    Returns
    -------
    list of Matches
        Pooled over all releases; then, if m > 2, without each of them.
    """
    m = len(boxes.N)
    if m == 1:  # pooled is that release
        return [settle(boxes.N[0], boxes.own[0], n_us, fallback)]
    contests = [None, *range(m)] if m > 2 else [None]
    pool = _sweep if len(boxes.keys) == 1 else _scan
    c, T, doubt = pool(boxes, _weights(boxes.N, largest // m), contests)
    for a, i in np.argwhere(doubt).tolist():
        c[a, i], T[a, i] = _in_fractions(boxes, i, contests[a])
    return [settle(*found, n_us, fallback) for found in zip(c, T, strict=True)]


def _windows(u: Ids, z: Ids, key: NumericKey) -> Windows:
    """Number records by exact key, then by rank of the value, and find the ends' numbers."""
    n = len(u)
    low, high = key.ends
    rows = []
    for code, value in zip(z, key.value, strict=True):
        by_value = np.argsort(value)
        number = code * n  # + rank; below U n
        number[by_value] += np.arange(n)
        order = np.argsort(number)
        value, number = value[by_value], number[order]
        start = np.searchsorted(number, u * n + np.searchsorted(value, low, "left"))
        stop = np.searchsorted(number, u * n + np.searchsorted(value, high, "right"))
        rows.append((order, start, stop))
    return Windows(*(np.stack(row) for row in zip(*rows, strict=True)))


def _counts(windows: Windows, others: Sequence[NumericKey]) -> Ids:
    if not others:
        return windows.stop - windows.start
    from .crowd import count  # numba: half a second that exact matching need not wait

    _, start, stop = _by_target(windows)
    N: Ids = count(start, stop, _by_window(windows, others))
    return np.ascontiguousarray(N.T)


def _sweep(
    boxes: Boxes, weights: Weights, contests: Sequence[int | None]
) -> tuple[Ids, Flags, Flags]:
    """Pool by one numeric key: c, T and doubts, one row a contest (the release left out)."""
    from .crowd import nobody, sweep

    m, n = boxes.N.shape
    turns = np.lexsort((boxes.keys[0].y, boxes.u))
    order, start, stop = boxes.windows
    out = _empty(len(contests), n)
    for a, l in enumerate(contests):
        kept = np.delete(np.arange(m), [] if l is None else l)
        windows = Windows(order[kept], start[kept], stop[kept])
        rest = _ranked(weights.share[:, kept], weights.residue[:, kept])
        found = tuple(rows[a : a + 1] for rows in out)
        sweep(nobody(n, len(kept)), turns, _by_target(windows), rest, found)
    return out


def _scan(
    boxes: Boxes, weights: Weights, contests: Sequence[int | None]
) -> tuple[Ids, Flags, Flags]:
    """Pool by several numeric keys, likewise; all contests at once."""
    from .crowd import scan

    out = _empty(len(contests), boxes.N.shape[1])
    others = _by_window(boxes.windows, boxes.keys[1:])
    visits = np.argsort(-weights.share, axis=1)  # smallest N first
    scan(_by_record(boxes), _by_target(boxes.windows), others, visits, weights, out)
    return out


def _empty(n_contests: int, n: int) -> tuple[Ids, Flags, Flags]:
    shape = (n_contests, n)
    return np.zeros(shape, np.int64), np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)


def _by_target(windows: Windows) -> tuple[Ids, Ids, Ids]:
    """Lay a target's starts and stops side by side, shape (n, m)."""
    start, stop = (np.ascontiguousarray(ends.T) for ends in (windows.start, windows.stop))
    return windows.order, start, stop


def _by_window(windows: Windows, others: Sequence[NumericKey]) -> tuple[Reals, Reals, Reals]:
    """Ends of the other keys, shape (n, p - 1); values in the windows' order, (m, n, p - 1)."""
    low, high = (np.stack(ends, axis=-1) for ends in zip(*(k.ends for k in others), strict=True))
    value = np.stack([np.take_along_axis(k.value, windows.order, axis=1) for k in others], axis=-1)
    return low, high, value


def _by_record(boxes: Boxes) -> tuple[Ids, Ids, Reals, Reals, Reals]:
    """Exact keys (n,), (n, m); ends (n, p); values (n, m, p): a record's together."""
    low, high = (np.stack(e, axis=-1) for e in zip(*(k.ends for k in boxes.keys), strict=True))
    value = np.stack([k.value.T for k in boxes.keys], axis=-1)
    return boxes.u, np.ascontiguousarray(boxes.z.T), low, high, value


def _weights(N: Ids, scale: int) -> Weights:
    from .crowd import PRIME

    sizes, place = np.unique(N.T, return_inverse=True)
    inverse = [pow(int(size), -1, PRIME) if size else 0 for size in sizes]
    share = np.where(N.T > 0, scale // np.maximum(N.T, 1), 0)
    return _ranked(share, np.array(inverse, dtype=np.int64)[place.reshape(share.shape)])


def _ranked(share: Ids, residue: Ids) -> Weights:
    reach = np.cumsum(np.sort(share, axis=1)[:, ::-1], axis=1)
    return Weights(np.ascontiguousarray(share), np.ascontiguousarray(residue), reach)


def _in_fractions(boxes: Boxes, i: int, without: int | None) -> tuple[int, bool]:
    """Compare the sums of target i as fractions: where digits and residues left a doubt."""
    match = boxes.z == boxes.u[i]  # shape (m, n)
    for key in boxes.keys:
        low, high = (ends[i] for ends in key.ends)
        match &= (low <= key.value) & (key.value <= high)
    rows, pattern, size = np.unique(match, axis=1, return_inverse=True, return_counts=True)
    used = [l for l, N in enumerate(boxes.N[:, i]) if N and l != without]
    sums = [
        sum((Fraction(1, int(boxes.N[l, i])) for l in used if row[l]), Fraction(0))
        for row in rows.T
    ]
    best = np.array([total == max(sums) for total in sums])
    return int(size[best].sum()), bool(best[pattern[i]])
