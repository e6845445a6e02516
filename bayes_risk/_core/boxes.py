"""Matching on numeric keys within a radius: windows in sorted order; never all pairs.

Letters as in ``matching``; here ``u`` numbers a target's *exact* keys, and a record matches if it
holds these and its numeric keys lie in the target's box. Derivation: ``docs/identification.md``.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from .matching import Cells, Flags, Ids, Matches, Reals, settle, share_of_cell
from .weights import LARGEST
from .windows import NumericKey, Windows, windows_of

BOX = float("inf")
ROUND, OPEN_ROUND = 1 + 1e-12, 1 - 1e-12  # ellipses with their rim, 12 digits thin, or without


class Boxes(NamedTuple):
    """Targets' boxes, who stands where, and how many each box holds.

    Attributes
    ----------
    u, z : ndarrays of int64, shapes (n_t,) and (m, n)
        Numbers of targets' and released exact keys.
    place : ndarray of int64, shape (n_t,)
        Each target's record; -1: it is not in the file.
    keys : list of NumericKey
    windows : Windows
        Where to look for the records of a box.
    N : ndarray of int64, shape (m, n_t)
        Records of release l in target i's box.
    own : ndarray of bool, shape (m, n_t)
        Target i's record of release l lies in its box.
    limit : float
        What the squared distances, each in units of the interval's half width on that side, may
        add up to: about 1 for ellipses, infinite for boxes.
    """

    u: Ids
    z: Ids
    place: Ids
    keys: Sequence[NumericKey]
    windows: Windows
    N: Ids
    own: Flags
    limit: float


class Weights(NamedTuple):
    """``1/D`` of each target and release (n_t, m), made for exact comparison of sums.

    ``share = floor(scale / D)`` with m shares below 2^63: sums that differ by m or more are ordered
    as their fractions are. ``residue = 1/D`` modulo a prime: unequal ones belong to unequal sums.
    ``reach[:, k-1]`` is the sum of the k largest shares.
    """

    share: Ids
    residue: Ids
    reach: Ids


def box_up(u: Ids, z: Ids, place: Ids, keys: Sequence[NumericKey], *, limit: float = BOX) -> Boxes:
    """Sort the releases, and count the records in every target's box.

    Parameters
    ----------
    u : ndarray of int64, shape (n_t,)
        Number of each target's exact key.
    z : ndarray of int64, shape (m, n)
        Number of each released exact key; -1 if no target has it.
    place : ndarray of int64, shape (n_t,)
        Each target's record; -1: it is not in the file.
    keys : sequence of NumericKey
        At least one.
    limit : float
        `ROUND` or `OPEN_ROUND`: ellipses instead of boxes.

    Returns
    -------
    Boxes
        Time O(m n log n) with one key; with more, each window is looked through once.
    """
    limit = limit if len(keys) > 1 else BOX
    own = (place >= 0) & (z[:, place] == u) & _inside(keys, slice(None), place, limit)
    windows = windows_of(u, z, keys)
    return Boxes(u, z, place, keys, windows, _counts(windows, keys, limit), own, limit)


def _inside(keys: Sequence[NumericKey], i: Any, j: Any, limit: float) -> Flags:
    """Whether released values of records j lie in the boxes of targets i, shape (m, ...)."""
    total, fits = np.zeros(()), np.ones((), dtype=bool)
    for key in keys:
        y, low, high, value = key.y[i], key.low[i], key.high[i], key.value[:, j]
        fits = fits & (np.isnan(value) | (low <= value) & (value <= high))
        if limit < BOX:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = (value - y) / np.where(value < y, y - low, high - y)
            total = total + np.where(np.isfinite(step), step, 0.0) ** 2
    inside: Flags = fits & (total <= limit)
    return inside


def match_each_box(boxes: Boxes, D: Reals, cells: Cells) -> Matches:
    """Find the candidates in each release by itself, arrays of shape (m, n_t).

    ``D``, shape (m, n_t): how many may be the target, as in `match_each`.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        top, inside = (np.where(boxes.N > 0, x / D, 0.0) for x in (1.0, boxes.N))
    return settle(boxes.N, boxes.own, top, inside, cells)


def match_pooled_boxes(
    boxes: Boxes, D: Reals, each: Matches, cells: Cells, *, largest: int = LARGEST
) -> list[Matches]:
    """Find the candidates by the probability pooled over releases, arrays of shape (n_t,).

    As `match_pooled`, with boxes in the place of keys.

    Parameters
    ----------
    boxes : Boxes
        From `box_up`.
    D : ndarray, shape (m, n_t)
        How many may be the target.
    each : Matches
        Of the releases by themselves.
    cells : Cells
    largest : int
        What sums of shares may come to; lower only to test: more sums are then too near.

    Returns
    -------
    list of Matches
        Pooled over all releases; then, if m > 2, without each of them.
    """
    m = len(boxes.N)
    if m == 1:  # pooled is that release
        return [Matches(*(column[0] for column in each))]
    contests = [None, *range(m)] if m > 2 else [None]
    pool = _sweep if _slides(boxes.keys) else _scan
    scale = largest // m
    found = pool(boxes, _weights(np.where(boxes.N > 0, D, 0.0), scale), contests)
    c, T, doubt, digits = found
    for a, i in np.argwhere(doubt).tolist():
        c[a, i], T[a, i] = _in_fractions(boxes, D, i, contests[a])
    return [
        _settled(c[a], T[a], digits[a] / scale, each, cells, [k for k in range(m) if k != l])
        for a, l in enumerate(contests)
    ]


def _settled(
    c: Ids, T: Flags, total: Reals, each: Matches, cells: Cells, kept: Sequence[int]
) -> Matches:
    """Sums of 1/D over the releases kept become probabilities."""
    top = np.where(c > 0, total, 0.0) / len(kept) + share_of_cell(each, cells, kept)
    return settle(c, T, top, each.inside[kept].mean(axis=0), cells)


def _counts(windows: Windows, keys: Sequence[NumericKey], limit: float) -> Ids:
    if _slides(keys):
        start, stop = windows.single()
        return np.ascontiguousarray((stop - start).T)
    from .crowd import count  # numba: half a second that exact matching need not wait

    N: Ids = count(windows, _by_window(windows, keys), limit)
    return np.ascontiguousarray(N.T)


def _slides(keys: Sequence[NumericKey]) -> bool:
    """Whether a target's records are one stretch."""
    return len(keys) == 1 and keys[0].sortable


def _sweep(
    boxes: Boxes, weights: Weights, contests: Sequence[int | None]
) -> tuple[Ids, Flags, Flags, Ids]:
    """Pool by one numeric key: c, T, doubts and digits, one row a contest (release left out)."""
    from .crowd import nobody, sweep

    m, n = boxes.z.shape
    key, order = boxes.keys[0], boxes.windows.order
    turns = np.lexsort((key.y, np.isinf(key.low), boxes.u))
    start, stop = boxes.windows.single()
    out = _empty(len(contests), len(boxes.u))
    for a, l in enumerate(contests):
        kept = np.delete(np.arange(m), [] if l is None else l)
        windows = order[kept], *(np.ascontiguousarray(ends[:, kept]) for ends in (start, stop))
        rest = _ranked(weights.share[:, kept], weights.residue[:, kept])
        found = tuple(rows[a : a + 1] for rows in out)
        sweep(nobody(n, len(kept)), turns, boxes.place, windows, rest, found)
    return out


def _scan(
    boxes: Boxes, weights: Weights, contests: Sequence[int | None]
) -> tuple[Ids, Flags, Flags, Ids]:
    """Pool by several numeric keys, likewise; all contests at once."""
    from .crowd import scan

    out = _empty(len(contests), boxes.N.shape[1])
    rows = _by_window(boxes.windows, boxes.keys)
    visits = np.argsort(-weights.share, axis=1)  # smallest N first
    scan(_by_record(boxes), boxes.place, boxes.windows, rows, boxes.limit, visits, weights, out)
    return out


def _empty(n_contests: int, n_targets: int) -> tuple[Ids, Flags, Flags, Ids]:
    shape = (n_contests, n_targets)
    flags = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    return np.zeros(shape, np.int64), *flags, np.zeros(shape, np.int64)


def _by_window(windows: Windows, keys: Sequence[NumericKey]) -> tuple[Reals, Reals, Reals, Reals]:
    """Ends and middles, shape (n_t, p); values in the windows' order, (m, n, p)."""
    value = np.stack([np.take_along_axis(k.value, windows.order, axis=1) for k in keys], axis=-1)
    return *_ends(keys), value


def _ends(keys: Sequence[NumericKey]) -> tuple[Reals, Reals, Reals]:
    """Lower ends, values and upper ends of all keys, each (n_t, p)."""
    stacks = [[k.low for k in keys], [k.y for k in keys], [k.high for k in keys]]
    low, y, high = (np.stack(ends, axis=-1) for ends in stacks)
    return low, y, high


def _by_record(boxes: Boxes) -> tuple[Ids, Ids, tuple[Reals, Reals, Reals, Reals]]:
    """Exact keys (n_t,), (n, m); ends and middles (n_t, p), and values (n, m, p)."""
    value = np.stack([k.value.T for k in boxes.keys], axis=-1)
    return boxes.u, np.ascontiguousarray(boxes.z.T), (*_ends(boxes.keys), value)


def _weights(D: Reals, scale: int) -> Weights:
    """Weights of each target and release; D is 0 where nothing matches."""
    sizes, place = np.unique(D.T, return_inverse=True)
    share = [int(scale / Fraction(size)) if size else 0 for size in sizes.tolist()]
    inverse = [_residue(Fraction(size)) if size else 0 for size in sizes.tolist()]
    place = place.reshape(D.T.shape)
    return _ranked(np.array(share, np.int64)[place], np.array(inverse, np.int64)[place])


def _residue(size: Fraction) -> int:
    """1 / size modulo the prime."""
    from .crowd import PRIME

    return size.denominator * pow(size.numerator, -1, PRIME) % PRIME


def _ranked(share: Ids, residue: Ids) -> Weights:
    reach = np.cumsum(np.sort(share, axis=1)[:, ::-1], axis=1)
    return Weights(np.ascontiguousarray(share), np.ascontiguousarray(residue), reach)


def _in_fractions(boxes: Boxes, D: Reals, i: int, without: int | None) -> tuple[int, bool]:
    """Compare the sums of target i as fractions: where digits and residues left a doubt."""
    match = (boxes.z == boxes.u[i]) & _inside(boxes.keys, i, slice(None), boxes.limit)  # (m, n)
    rows, pattern, size = np.unique(match, axis=1, return_inverse=True, return_counts=True)
    used = [l for l, N in enumerate(boxes.N[:, i]) if N and l != without]
    sums = [sum((1 / Fraction(D[l, i]) for l in used if row[l]), Fraction(0)) for row in rows.T]
    best = np.array([total == max(sums) for total in sums])
    place = boxes.place[i]
    return int(size[best].sum()), bool(place >= 0 and best[pattern[place]])
