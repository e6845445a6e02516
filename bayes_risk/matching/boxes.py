"""Matching on numeric keys within a radius: windows in sorted order; never all pairs.

Letters as in ``_core/matching.py``; here ``u`` numbers a target's *exact* keys, and a record
matches if it holds these and its numeric keys lie in the target's box. Records are sorted by exact
key, then by bucket of one numeric key, then by value of another: those in a target's box lie in a
few stretches, one for each bucket that the box touches. A released value that is NaN lies in every
interval, and such values come last. Derivation: ``docs/identification.md``.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.matching import (
    LARGEST,
    PRIME,
    Cells,
    Matches,
    count_matches,
    settle,
    share_of_cell,
)

SAMPLE = 1000
SHORT = 4  # records of a stretch below which finer buckets do not pay


class NumericKey(NamedTuple):
    """One key to be matched as a number: each target's value and interval, and what was released.

    ``low``, ``y`` and ``high``, shape (n_t,); both ends are inside; ``value`` has shape (m, n). A
    released value that is NaN lies in every interval.
    """

    y: Array
    low: Array
    high: Array
    value: Array

    @property
    def sortable(self) -> bool:
        """Whether all released values have a place in order."""
        return not np.isnan(self.value).any()


class Windows(NamedTuple):
    """Released records in order, and each target's stretches of them.

    ``order``, shape (m, n), lists records. Target i's candidates in release l stand there from
    ``start[v]`` up to ``stop[v]``, for v from ``first[l, i]`` up to ``first[l, i + 1]``.
    """

    order: Ints
    first: Ints
    start: Ints
    stop: Ints

    def single(self) -> tuple[Ints, Ints]:
        """Starts and stops, (n_t, m), where every target has one stretch."""
        m, n_targets = self.first.shape[0], self.first.shape[1] - 1
        start, stop = (ends.reshape(m, n_targets).T for ends in (self.start, self.stop))
        return np.ascontiguousarray(start), np.ascontiguousarray(stop)


def windows_of(u: Ints, z: Ints, keys: Sequence[NumericKey]) -> Windows:
    """Sort by the narrowest key, within buckets of the second narrowest where that pays.

    Time O(m n log n), memory O(m n) and about two stretches a target and release.
    """
    shares = [_share(key) for key in keys]
    line, *others = (keys[k] for k in np.argsort(shares, kind="stable"))
    cuts = np.zeros(0)
    if others:
        in_cell = count_matches(z, int(max(u.max(), z.max())) + 1)[:, u].mean()
        finest = min(1 / sorted(shares)[1], in_cell * min(shares) / SHORT)
        cuts = _cuts(others[0].value, int(finest))
    rows = []
    for l, code in enumerate(z):
        across = _buckets(others[0], l, cuts) if len(cuts) else None
        rows.append(_stretches(u, code, line, l, across))
    order, visits, start, stop = zip(*rows, strict=True)
    ends = np.cumsum(np.concatenate(visits)).reshape(len(z), len(u))
    first = np.column_stack([np.append(0, ends[:-1, -1]), ends])
    return Windows(np.stack(order), first, np.concatenate(start), np.concatenate(stop))


class Buckets(NamedTuple):
    """Bucket of each record (n,), and each target's first bucket (n_t,) and number of them.

    Bucket ``B - 1`` holds the records without a value; if there are any, every target visits it.
    """

    record: Ints
    low: Ints
    visited: Ints
    B: int
    rest: bool


def _share(key: NumericKey) -> float:
    """Share of the records in a target's interval, on average; from a sample, at least 1 / n."""
    rows = key.value[:, :: max(1, key.value.shape[1] // SAMPLE)]
    step = max(1, len(key.y) // SAMPLE)
    value = np.sort(rows[~np.isnan(rows)])
    inside = np.searchsorted(value, key.high[::step], "right") - np.searchsorted(
        value, key.low[::step], "left"
    )
    share = (np.maximum(inside, 0).mean() + rows.size - value.size) / rows.size
    return float(max(share, 1 / key.value.shape[1]))


def _cuts(value: Array, n_buckets: int) -> Array:
    """Values that cut a key into buckets of about equal size."""
    rows = value[:, :: max(1, value.shape[1] // (SAMPLE * max(n_buckets, 1)))]
    present = np.sort(rows[~np.isnan(rows)])
    if n_buckets < 2 or not len(present):
        return np.zeros(0)
    return np.asarray(np.unique(present[np.arange(1, n_buckets) * len(present) // n_buckets]))


def _buckets(key: NumericKey, l: int, cuts: Array) -> Buckets:
    value = key.value[l]
    gone = np.isnan(value)
    rest = len(cuts) + 1
    record = np.where(gone, rest, np.searchsorted(cuts, value, "right"))
    low = np.searchsorted(cuts, key.low, "right")
    count = np.searchsorted(cuts, key.high, "right") - low + 1
    return Buckets(record, low, np.where(key.low <= key.high, count, 0), rest + 1, bool(gone.any()))


def _stretches(
    u: Ints, code: Ints, key: NumericKey, l: int, across: Buckets | None
) -> tuple[Ints, Ints, Ints, Ints]:
    """Order of release l, number of stretches of each target (n_t,), starts and stops."""
    n, value = len(code), key.value[l]
    target, cell = _visits(u, across)
    by_value = np.argsort(value)  # NaN last
    value = value[by_value]
    number = (code if across is None else code * across.B + across.record) * n  # + rank
    number[by_value] += np.arange(n)
    order = np.argsort(number)
    number = number[order]
    present = n - int(np.isnan(value).sum())
    low = np.searchsorted(value[:present], key.low, "left")[target]
    high = np.searchsorted(value[:present], key.high, "right")[target]
    ends = [(cell * n + low, cell * n + np.maximum(low, high))]
    if present < n:
        ends.append((cell * n + present, cell * n + n))
    start, stop = (
        np.searchsorted(number, np.column_stack(side).reshape(-1))
        for side in zip(*ends, strict=True)
    )
    return order, np.bincount(target, minlength=len(u)) * len(ends), start, stop


def _visits(u: Ints, across: Buckets | None) -> tuple[Ints, Ints]:
    """Targets and cells (exact key and bucket) to be visited, target by target."""
    if across is None:
        return np.arange(len(u)), u
    count = across.visited + across.rest
    target = np.repeat(np.arange(len(u)), count)
    step = np.arange(len(target)) - np.repeat(np.cumsum(count) - count, count)
    bucket = np.where(step < across.visited[target], across.low[target] + step, across.B - 1)
    return target, u[target] * across.B + bucket


BOX = float("inf")
ROUND, OPEN_ROUND = 1 + 1e-12, 1 - 1e-12  # ellipses with their rim, 12 digits thin, or without


class Boxes(NamedTuple):
    """Targets' boxes, who stands where, and how many each box holds."""

    u: Ints  # (n_t,): numbers of targets' exact keys
    z: Ints  # (m, n): of released ones
    place: Ints  # (n_t,): each target's record; -1: it is not in the file
    keys: Sequence[NumericKey]
    windows: Windows  # where to look for the records of a box
    N: Ints  # (m, n_t): records of release l in target i's box
    own: Flags  # (m, n_t): target i's record of release l lies in its box
    # what the squared distances, each in units of the interval's half width on that side, may add
    # up to: about 1 for ellipses, infinite for boxes
    limit: float


class Weights(NamedTuple):
    """``1/D`` of each target and release (n_t, m), made for exact comparison of sums.

    ``share = floor(scale / D)`` with m shares below 2^63: sums that differ by m or more are ordered
    as their fractions are. ``residue = 1/D`` modulo a prime: unequal ones belong to unequal sums.
    ``reach[:, k-1]`` is the sum of the k largest shares.
    """

    share: Ints
    residue: Ints
    reach: Ints


def box_up(
    u: Ints, z: Ints, place: Ints, keys: Sequence[NumericKey], *, limit: float = BOX
) -> Boxes:
    """Sort the releases, and count the records in every target's box.

    ``place``: each target's record, -1: none; at least one numeric key; ``limit``: `ROUND` or
    `OPEN_ROUND` makes ellipses. Time O(m n log n) with one key; with more, each window is looked
    through once.
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
    return np.asarray(fits & (total <= limit))


def match_each_box(boxes: Boxes, D: Array, cells: Cells) -> Matches:
    """As `match_each`, with boxes in the place of keys; D has shape (m, n_t)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        top, inside = (np.where(boxes.N > 0, x / D, 0.0) for x in (1.0, boxes.N))
    return settle(boxes.N, boxes.own, top, inside, cells)


def match_pooled_boxes(
    boxes: Boxes, D: Array, each: Matches, cells: Cells, *, largest: int = LARGEST
) -> list[Matches]:
    """As `match_pooled`, with boxes: over all releases; then, if m > 2, without each of them.

    ``largest``: what sums of shares may come to; lower only to test: more sums are then too near.
    """
    m = len(boxes.N)
    if m == 1:  # pooled is that release
        return [Matches(*(column[0] for column in each))]
    contests = [None, *range(m)] if m > 2 else [None]
    scale = largest // m
    weights = _weights(np.where(boxes.N > 0, D, 0.0), scale)
    c, digits = np.zeros((2, len(contests), len(boxes.u)), np.int64)
    T, doubt = np.zeros((2, len(contests), len(boxes.u)), np.bool_)
    pool = _sweep if _slides(boxes.keys) else _scan
    pool(boxes, weights, contests, (c, T, doubt, digits))
    for a, i in np.argwhere(doubt).tolist():
        c[a, i], T[a, i] = _in_fractions(boxes, D, i, contests[a])
    found = []
    for a, l in enumerate(contests):  # sums of 1/D over the releases kept become probabilities
        kept = [k for k in range(m) if k != l]
        top = np.where(c[a] > 0, digits[a] / scale, 0.0) / len(kept)
        top += share_of_cell(each, cells, kept)
        found.append(settle(c[a], T[a], top, each.inside[kept].mean(axis=0), cells))
    return found


def _counts(windows: Windows, keys: Sequence[NumericKey], limit: float) -> Ints:
    if _slides(keys):
        start, stop = windows.single()
        return np.ascontiguousarray((stop - start).T)
    from .match_counts import count  # numba: half a second that exact matching need not wait

    N: Ints = count(windows, _by_window(windows, keys), limit)
    return np.ascontiguousarray(N.T)


def _slides(keys: Sequence[NumericKey]) -> bool:
    """Whether a target's records are one stretch."""
    return len(keys) == 1 and keys[0].sortable


def _sweep(
    boxes: Boxes, weights: Weights, contests: Sequence[int | None], out: tuple[Ints | Flags, ...]
) -> None:
    """Pool by one numeric key: c, T, doubts and digits, one row a contest (release left out)."""
    from .match_counts import no_matches, sweep

    m, n = boxes.z.shape
    key, order = boxes.keys[0], boxes.windows.order
    turns = np.lexsort((key.y, np.isinf(key.low), boxes.u))
    start, stop = boxes.windows.single()
    for a, l in enumerate(contests):
        kept = np.delete(np.arange(m), [] if l is None else l)
        windows = order[kept], *(np.ascontiguousarray(ends[:, kept]) for ends in (start, stop))
        rest = _ranked(weights.share[:, kept], weights.residue[:, kept])
        found = tuple(rows[a : a + 1] for rows in out)
        sweep(no_matches(n, len(kept)), turns, boxes.place, windows, rest, found)


def _scan(
    boxes: Boxes, weights: Weights, contests: Sequence[int | None], out: tuple[Ints | Flags, ...]
) -> None:
    """Pool by several numeric keys, likewise; all contests at once."""
    from .match_counts import scan

    rows = _by_window(boxes.windows, boxes.keys)
    records = _stacked(boxes.keys, [k.value.T for k in boxes.keys])
    by_record = boxes.u, np.ascontiguousarray(boxes.z.T), records
    visits = np.argsort(-weights.share, axis=1)  # smallest N first
    scan(by_record, boxes.place, boxes.windows, rows, boxes.limit, visits, weights, out)


def _by_window(windows: Windows, keys: Sequence[NumericKey]) -> tuple[Array, ...]:
    """Ends and middles, shape (n_t, p); values in the windows' order, (m, n, p)."""
    return _stacked(keys, [np.take_along_axis(k.value, windows.order, axis=1) for k in keys])


def _stacked(keys: Sequence[NumericKey], values: Sequence[Array]) -> tuple[Array, ...]:
    """Lower ends, targets' values and upper ends of all keys, (n_t, p); and what was released."""
    low, y, high = ([getattr(k, name) for k in keys] for name in ("low", "y", "high"))
    return tuple(np.stack(columns, axis=-1) for columns in (low, y, high, values))


def _weights(D: Array, scale: int) -> Weights:
    """Weights of each target and release; D is 0 where nothing matches."""
    sizes, place = np.unique(D.T, return_inverse=True)
    share = [int(scale / Fraction(size)) if size else 0 for size in sizes.tolist()]
    inverse = [
        size.denominator * pow(size.numerator, -1, PRIME) % PRIME if size else 0  # modulo the prime
        for size in map(Fraction, sizes.tolist())
    ]
    place = place.reshape(D.T.shape)
    return _ranked(np.array(share, np.int64)[place], np.array(inverse, np.int64)[place])


def _ranked(share: Ints, residue: Ints) -> Weights:
    reach = np.cumsum(np.sort(share, axis=1)[:, ::-1], axis=1)
    return Weights(np.ascontiguousarray(share), np.ascontiguousarray(residue), reach)


def _in_fractions(boxes: Boxes, D: Array, i: int, without: int | None) -> tuple[int, bool]:
    """Compare the sums of target i as fractions: where digits and residues left a doubt."""
    match = (boxes.z == boxes.u[i]) & _inside(boxes.keys, i, slice(None), boxes.limit)  # (m, n)
    rows, pattern, size = np.unique(match, axis=1, return_inverse=True, return_counts=True)
    used = [l for l, N in enumerate(boxes.N[:, i]) if N and l != without]
    sums = [sum((1 / Fraction(D[l, i]) for l in used if row[l]), Fraction(0)) for row in rows.T]
    best = np.array([total == max(sums) for total in sums])
    place = boxes.place[i]
    return int(size[best].sum()), bool(place >= 0 and best[pattern[place]])
