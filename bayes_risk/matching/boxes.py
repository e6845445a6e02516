"""Matching by exact keys, or by windows in sorted order within a radius; never all pairs.

Letters as in ``_core/matching.py``; ``u`` numbers a target's *exact* keys, and a record matches if
it holds these and its numeric keys lie in the target's box. Records are sorted by exact
key, then by bucket of one numeric key, then by value of another: those in a target's box lie in a
few stretches, one for each bucket that the box touches; what two numeric keys hold is counted from
a stretch of each one's order. A released value that is NaN lies in every interval, and such values
come last. Derivation: ``docs/identification.md``.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.matching import (
    LARGEST,
    LEADERS,
    ONE,
    TOP,
    Cells,
    Matches,
    Weights,
    count_matches,
    doubts,
    largest_sums,
    no_leaders,
    settle,
)

SAMPLE = 1000
SHORT = 4  # records of a stretch below which finer buckets do not pay
LONG = 50  # records of a target's windows up to which looking through them is the least work


class NumericKey(NamedTuple):
    """One key to be matched as a number: each target's value and interval, and what was released.

    ``low``, ``y`` and ``high``, shape (n_t,); both ends are inside; ``value`` has shape (m, n). A
    released value that is NaN lies in every interval.
    """

    y: Array
    low: Array
    high: Array
    value: Array


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

    def of_release(self, l: int) -> "Windows":
        """Those of one release."""
        at = slice(*self.first[l, [0, -1]])
        first = self.first[[l]] - at.start
        return Windows(self.order[[l]], first, self.start[at], self.stop[at])


def windows_of(u: Ints, z: Ints, keys: Sequence[NumericKey]) -> Windows:
    """Sort by the narrowest key, within buckets of the second narrowest where that pays."""
    shares = [_share(key) for key in keys]
    line, *others = (keys[k] for k in np.argsort(shares, kind="stable"))
    cuts = np.zeros(0)
    if others:
        in_cell = count_matches(z, int(max(u.max(), z.max())) + 1)[:, u].mean()
        finest = min(1 / sorted(shares)[1], in_cell * min(shares) / SHORT)
        cuts = _cuts(others[0].value, int(finest))
    across = others[0] if len(cuts) else None
    rows = [_stretches(u, code, line, l, across, cuts) for l, code in enumerate(z)]
    order, visits, start, stop = zip(*rows, strict=True)
    ends = np.cumsum(np.concatenate(visits)).reshape(len(z), len(u))
    first = np.column_stack([np.append(0, ends[:-1, -1]), ends])
    return Windows(np.stack(order), first, np.concatenate(start), np.concatenate(stop))


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


def _stretches(
    u: Ints, code: Ints, key: NumericKey, l: int, across: NumericKey | None, cuts: Array
) -> tuple[Ints, Ints, Ints, Ints]:
    """Order of release l, number of stretches of each target (n_t,), starts and stops."""
    n, value = len(code), key.value[l]
    bucket, B, target, cell = _visits(u, n, l, across, cuts)
    by_value = np.argsort(value)  # NaN last
    value = value[by_value]
    number = (code * B + bucket) * n  # + rank
    number[by_value] += np.arange(n)
    order = np.argsort(number)
    number = number[order]
    present = n - int(np.isnan(value).sum())
    low, high = (p[target] for p in _places(value[:present], key.low, key.high))
    cell = cell * n
    ends = [(cell + low, cell + np.maximum(low, high))]
    if present < n:
        ends.append((cell + present, cell + n))
    start, stop = (np.column_stack(side).reshape(-1) for side in zip(*ends, strict=True))
    visits = np.bincount(target, minlength=len(u)) * len(ends)
    return order, visits, *_places(number, start, stop - 1)  # whole numbers


def _visits(
    u: Ints, n: int, l: int, across: NumericKey | None, cuts: Array
) -> tuple[Ints, int, Ints, Ints]:
    """Bucket of each record (n,); number B of buckets, the last without values; cells by target."""
    if across is None:
        return np.zeros(n, np.int64), 1, np.arange(len(u)), u
    gone, rest = np.isnan(across.value[l]), len(cuts) + 1
    bucket = np.where(gone, rest, np.searchsorted(cuts, across.value[l], "right"))
    low, high = (np.searchsorted(cuts, end, "right") for end in (across.low, across.high))
    visited = np.where(across.low <= across.high, high - low + 1, 0)
    count = visited + gone.any()
    target = np.repeat(np.arange(len(u)), count)
    step = np.arange(len(target)) - np.repeat(np.cumsum(count) - count, count)
    at = np.where(step < visited[target], low[target] + step, rest)
    return bucket, rest + 1, target, u[target] * (rest + 1) + at


def _places(ordered: Array | Ints, low: Array | Ints, high: Array | Ints) -> Ints:
    """Where values from low to high, both inside, start and stop, shape (2, ...)."""
    turn, places = np.argsort(low), np.empty((2, len(low)), np.int64)
    places[0, turn] = np.searchsorted(ordered, low[turn], "left")
    places[1, turn] = np.searchsorted(ordered, high[turn], "right")
    return places


BOX = float("inf")
ROUND = 1.0  # ellipses; `radii.decided` has moved the ends, so that their rim is in or out


class OwnRows(NamedTuple):
    """The rows of each target: its record, or all records of its person."""

    rows: Ints  # those of a target stand one after the other
    first: Ints  # (n_t,): where
    many: Ints  # (n_t,): how many; 0: the target is not in the file
    person: Ints | None  # (n,): person of each row; None: each is one

    @classmethod
    def of(cls, place: Ints, person: Ints | None = None, whose: Ints | None = None) -> "OwnRows":
        """Records of targets, -1: none; or all rows of their persons, who may have none."""
        if person is None or whose is None:
            return cls(place, np.arange(len(place)), (place >= 0).astype(np.int64), None)
        size = np.bincount(person, minlength=int(whose.max()) + 1)
        first = np.cumsum(size) - size
        return cls(np.argsort(person, kind="stable"), first[whose], size[whose], person)

    def each(self) -> Iterator[tuple[Ints, Ints]]:
        """Targets that have a first row, and that row; a second; and so on."""
        for k in range(int(self.many.max(initial=0))):
            targets = np.flatnonzero(self.many > k)
            yield targets, self.rows[self.first[targets] + k]


class Boxes(NamedTuple):
    """B boxes that targets have, who stands where, and how many each box holds."""

    u: Ints  # (B,): numbers of the boxes' exact keys
    z: Ints  # (m, n): of released ones
    keys: Sequence[NumericKey]  # of boxes
    # where to look for the records of a box; None: boxes are keys, or nobody is to look
    windows: Windows | None
    N: Ints  # (m, B): records of release l in the box
    of: Ints  # (n_t,): each target's box
    own: OwnRows
    many: Ints  # (n,): records that each row of z stands for
    # what the squared distances, each in units of the interval's half width on that side, may add
    # up to: 1 for ellipses, infinite for boxes
    limit: float

    def holds(self, targets: Ints, rows: Ints) -> Flags:
        """Whether rows lie in the boxes of targets, row by row in each release, (m, ...)."""
        box = self.of[targets]
        inside = _inside(self.keys, box, rows, self.limit)
        return np.asarray((self.z[:, rows] == self.u[box]) & inside)

    def candidates(self) -> tuple[Ints, Ints, Ints]:
        """Of each target and release: `c`, `hits` and `one` of `Matches`, (m, n_t)."""
        hits = np.zeros((len(self.z), len(self.of)), np.int64)
        for targets, rows in self.own.each():
            hits[:, targets] += self.holds(targets, rows)
        return self.N[:, self.of], hits, self._one()[:, self.of]

    def _one(self) -> Ints:
        """The person whose all records of a box are, (m, B): as of `Matches`."""
        if self.own.person is None:
            return np.where(self.N == 1, 0, -1)
        leaders = [no_leaders(len(self.u), 1) for _ in self.z]
        for l, whose in enumerate(leaders):  # in one release whoever matches leads
            alike = (self.N[[l]].T > 0).astype(np.int64)
            keys = [key._replace(value=key.value[[l]]) for key in self.keys]
            windows = self.windows and self.windows.of_release(l)
            there = self._replace(z=self.z[[l]], N=self.N[[l]], keys=keys, windows=windows)
            _pool(there, Weights.ranked(alike, alike), [None], whose)
        return np.stack([whose[:, 0, ONE] for whose in leaders])


def box_up(
    u: Ints, z: Ints, own: OwnRows, keys: Sequence[NumericKey], *, limit: float = BOX
) -> Boxes:
    """Sort the releases, and count the records in every target's box; ``u``: its exact key."""
    limit = limit if len(keys) > 1 else BOX
    of, many = np.arange(len(u)), np.ones(z.shape[1], dtype=np.int64)
    if not keys:
        exact = np.arange(u.max() + 1)
        return Boxes(exact, z, keys, None, count_matches(z, len(exact)), u, own, many, limit)
    two = len(keys) == 2 and limit == BOX
    looked_at = len(z) > 1 or not two or own.person is not None  # else nobody will pool
    windows = windows_of(u, z, keys) if looked_at else None
    if windows is None or (two and (windows.stop - windows.start).sum() > LONG * z.size):
        N = _counts_of_two(u, z, keys)
    else:
        N = _counts(windows, keys, limit)
    return Boxes(u, z, keys, windows, N, of, own, many, limit)


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


def match_each(boxes: Boxes, D: Array, cells: Cells) -> Matches:
    """Candidates in each release by itself, (m, n_t): ``c = N``; where nothing matches its cell."""
    with np.errstate(divide="ignore", invalid="ignore"):
        chances = [np.where(boxes.N > 0, x / D, 0.0) for x in (1.0, boxes.N)]
    top, inside = (x.take(boxes.of, axis=1) for x in chances)
    c, hits, one = boxes.candidates()
    return settle(Matches(c, hits, one, c == 0, top, inside), cells)


def match_pooled(
    boxes: Boxes,
    D: Array,
    each: Matches,
    cells: Cells,
    *,
    left_out: bool = True,
    largest: int = LARGEST,
) -> list[Matches]:
    """Find the candidates by the probability pooled over releases, arrays of shape (n_t,).

    ``Pr(J = j | t) = (1/m) sum_l 1[j matches t in release l] / D[l, t]``; c counts the j that
    attain the maximum. The fallback rule adds the same amount to every j of the target's cell, and
    whoever matches lies in that cell: where anything matches in any release it moves no maximum,
    and where nothing does the whole cell ties. So it is never written out.

    With ``left_out``, if m > 2, also without each release. ``largest``: what sums of shares may
    come to; lower only to test: more sums are then too near.
    """
    from .match_counts import attained

    m = len(boxes.N)
    if m == 1:  # pooled is that release
        return [Matches(*(column[0] for column in each))]
    contests = [None, *range(m)] if left_out and m > 2 else [None]
    scale, counted = largest // m, np.where(boxes.N > 0, D, 0.0)
    weights = Weights.of(counted, scale)
    leaders = no_leaders(len(boxes.u), len(contests))
    _pool(boxes, weights, contests, leaders)
    c_of, top_of, one_of = leaders.T[[LEADERS, TOP, ONE]]
    hits = np.zeros((len(contests), len(boxes.of)), np.int64)
    for targets, own in boxes.own.each():
        inside = np.ascontiguousarray(boxes.holds(targets, own).T)
        attained(inside, targets, boxes.of, weights, leaders, hits)
    for b, a in doubts(leaders, m):
        match = (boxes.z == boxes.u[b]) & _inside(boxes.keys, b, slice(None), boxes.limit)
        rows, pattern = np.unique(match, axis=1, return_inverse=True)
        best = largest_sums(rows, counted[:, b], contests[a])[pattern]
        who = np.unique(_persons(boxes)[best])
        c_of[a, b], one_of[a, b] = boxes.many[best].sum(), who[0] if len(who) == 1 else -1
        hits[a, boxes.of == b] = 0
        for targets, own in boxes.own.each():
            hits[a, targets] += best[own] & (boxes.of[targets] == b)
    nothing = boxes.N == 0
    present = np.divide(boxes.N, D, out=np.full(D.shape, float(cells.certain)), where=~nothing)
    pooled = []
    for a, l in enumerate(contests):  # sums of 1/D over the releases kept become probabilities
        kept = [k for k in range(m) if k != l]
        top = np.where(c_of[a] > 0, top_of[a] / scale, 0.0) / len(kept)
        missed, inside = (x[kept].mean(axis=0)[boxes.of] for x in (nothing, present))
        top = top[boxes.of] + missed / np.maximum(cells.size, 1) * cells.used  # the fallback rule
        c, one = c_of[a][boxes.of], one_of[a][boxes.of]
        pooled.append(settle(Matches(c, hits[a], one, c == 0, top, inside), cells))
    return pooled


def _persons(boxes: Boxes) -> Ints:
    """The person of each row; -1: it stands for records of several."""
    each = np.arange(boxes.z.shape[1]) if boxes.own.person is None else boxes.own.person
    return np.where(boxes.many == 1, each, -1)


def _counts(windows: Windows, keys: Sequence[NumericKey], limit: float) -> Ints:
    if _slides(keys):
        start, stop = windows.single()
        return np.ascontiguousarray((stop - start).T)
    from .match_counts import (
        matches_counted,  # numba: half a second that exact matching need not wait
    )

    N: Ints = matches_counted(windows, _by_window(windows, keys), limit)
    return np.ascontiguousarray(N.T)


def _counts_of_two(u: Ints, z: Ints, keys: Sequence[NumericKey]) -> Ints:
    """Records that stand in a target's stretches both in the order of one key and of the other."""
    from .match_counts import count_in_both

    N = np.zeros((len(z), len(u)), np.int64)
    for l, code in enumerate(z):
        (order, _, *line), (other, _, *across) = (
            _stretches(u, code, key, l, None, np.empty(0)) for key in keys
        )
        rank = np.empty(len(code), np.int32)
        rank[other] = np.arange(len(code))
        ends, others = (np.column_stack(side).reshape(len(u), -1) for side in (line, across))
        count_in_both(rank[order], ends, np.argsort(ends, axis=None), others, N[l])
    return N


def _slides(keys: Sequence[NumericKey]) -> bool:
    """Whether a target's records are one stretch."""
    return len(keys) == 1 and not np.isnan(keys[0].value).any()


def _pool(boxes: Boxes, weights: Weights, contests: Sequence[int | None], leaders: Ints) -> None:
    """Find who leads, by whatever keys there are."""
    from .match_counts import pool_keys, scan, sweep

    windows, keys, person = boxes.windows, boxes.keys, _persons(boxes)
    if windows is None:
        pool_keys(boxes.z, boxes.many, weights, leaders, person)
    elif _slides(keys):  # one contest (release left out) after the other
        m = len(boxes.z)
        turns = np.lexsort((keys[0].y, np.isinf(keys[0].low), boxes.u))
        start, stop = windows.single()
        for a, l in enumerate(contests):
            kept = np.delete(np.arange(m), [] if l is None else l)
            ends = (np.ascontiguousarray(side[:, kept]) for side in (start, stop))
            rest = Weights.ranked(weights.share[:, kept], weights.residue[:, kept])
            slid = windows.order[kept], *ends
            sweep(turns, slid, rest, leaders, a, person)
    else:  # all contests at once
        records = _stacked(keys, [key.value.T for key in keys])
        by_record = boxes.u, np.ascontiguousarray(boxes.z.T), records
        visits = np.argsort(-weights.share, axis=1)  # smallest N first
        rows = _by_window(windows, keys)
        scan(by_record, windows, rows, boxes.limit, visits, weights, leaders, person)


def _by_window(windows: Windows, keys: Sequence[NumericKey]) -> tuple[Array, ...]:
    """Ends and middles, shape (n_t, p); values in the windows' order, (m, n, p)."""
    return _stacked(keys, [np.take_along_axis(k.value, windows.order, axis=1) for k in keys])


def _stacked(keys: Sequence[NumericKey], values: Sequence[Array]) -> tuple[Array, ...]:
    """Lower ends, targets' values and upper ends of all keys, (n_t, p); and what was released."""
    low, y, high = ([getattr(k, name) for k in keys] for name in ("low", "y", "high"))
    return tuple(
        np.ascontiguousarray(np.stack(columns, axis=-1)) for columns in (low, y, high, values)
    )
