"""Where to look for the records in a target's box: sorted stretches, never the whole file.

Records are sorted by exact key, then by bucket of one numeric key, then by value of another. Those
in a target's box lie in a few stretches: one for each bucket that the box touches. Letters as in
``boxes``; a released value that is NaN lies in every interval, and such values come last.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .matching import Ids, Reals, count_matches

SAMPLE = 1000
SHORT = 4  # records of a stretch below which finer buckets do not pay


class NumericKey(NamedTuple):
    """One key to be matched as a number: each target's value and interval, and what was released.

    ``low``, ``y`` and ``high``, shape (n_t,); both ends are inside; ``value`` has shape (m, n). A
    released value that is NaN lies in every interval.
    """

    y: Reals
    low: Reals
    high: Reals
    value: Reals

    @property
    def sortable(self) -> bool:
        """Whether all released values have a place in order."""
        return not np.isnan(self.value).any()


class Windows(NamedTuple):
    """Released records in order, and each target's stretches of them.

    ``order``, shape (m, n), lists records. Target i's candidates in release l stand there from
    ``start[v]`` up to ``stop[v]``, for v from ``first[l, i]`` up to ``first[l, i + 1]``.
    """

    order: Ids
    first: Ids
    start: Ids
    stop: Ids

    def single(self) -> tuple[Ids, Ids]:
        """Starts and stops, (n_t, m), where every target has one stretch."""
        m, n_targets = self.first.shape[0], self.first.shape[1] - 1
        start, stop = (ends.reshape(m, n_targets).T for ends in (self.start, self.stop))
        return np.ascontiguousarray(start), np.ascontiguousarray(stop)


def windows_of(u: Ids, z: Ids, keys: Sequence[NumericKey]) -> Windows:
    """Sort by the narrowest key, within buckets of the second narrowest where that pays.

    Parameters
    ----------
    u : ndarray of int64, shape (n_t,)
        Number of each target's exact key.
    z : ndarray of int64, shape (m, n)
        Number of each released exact key; -1 if no target has it.
    keys : sequence of NumericKey
        At least one.

    Returns
    -------
    Windows
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

    record: Ids
    low: Ids
    visited: Ids
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


def _cuts(value: Reals, n_buckets: int) -> Reals:
    """Values that cut a key into buckets of about equal size."""
    rows = value[:, :: max(1, value.shape[1] // (SAMPLE * max(n_buckets, 1)))]
    present = np.sort(rows[~np.isnan(rows)])
    if n_buckets < 2 or not len(present):
        return np.zeros(0)
    cuts: Reals = np.unique(present[np.arange(1, n_buckets) * len(present) // n_buckets])
    return cuts


def _buckets(key: NumericKey, l: int, cuts: Reals) -> Buckets:
    value = key.value[l]
    gone = np.isnan(value)
    rest = len(cuts) + 1
    record = np.where(gone, rest, np.searchsorted(cuts, value, "right"))
    low = np.searchsorted(cuts, key.low, "right")
    count = np.searchsorted(cuts, key.high, "right") - low + 1
    return Buckets(record, low, np.where(key.low <= key.high, count, 0), rest + 1, bool(gone.any()))


def _stretches(
    u: Ids, code: Ids, key: NumericKey, l: int, across: Buckets | None
) -> tuple[Ids, Ids, Ids, Ids]:
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


def _visits(u: Ids, across: Buckets | None) -> tuple[Ids, Ids]:
    """Targets and cells (exact key and bucket) to be visited, target by target."""
    if across is None:
        return np.arange(len(u)), u
    count = across.visited + across.rest
    target = np.repeat(np.arange(len(u)), count)
    step = np.arange(len(target)) - np.repeat(np.cumsum(count) - count, count)
    bucket = np.where(step < across.visited[target], across.low[target] + step, across.B - 1)
    return target, u[target] * across.B + bucket
