"""What the targets of a table of profiles run: candidates and true matches, as whole numbers.

Every measure of identification risk is a sum of whole numbers over cells of unsynthesised keys, or
of ``T / c``, for which it is enough to know how many targets have a given c and ``T = 1``. So parts
of a file give `Tally` objects that add up to the file's, in any order. Letters: ``P`` profiles,
``U`` target keys, ``m`` releases, ``R`` rows: the m releases, pooled, and, for m > 2, pooled
without each of them.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .profiles import Layout, Profiles
from .weights import LARGEST, common_multiple

Ids = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]

NEAR = 1e-12  # relative: sums of m fractions in floating point are nearer than this to their value


class Chances(NamedTuple):
    """Of the targets with ``T = 1``: how many have c candidates, by ascending c."""

    c: Ids
    targets: Ids

    @classmethod
    def of(cls, c: Ids, targets: Ids) -> "Chances":
        """Add up targets with the same c."""
        c, targets = c[targets > 0], targets[targets > 0]
        if not len(c):
            return cls(c, targets)
        order = np.argsort(c, kind="stable")
        start = np.flatnonzero(np.diff(c[order], prepend=-1))
        return cls(c[order][start], np.add.reduceat(targets[order], start))

    @classmethod
    def of_targets(cls, c: Ids, T: Flags) -> "Chances":
        """Count single targets, shapes (n,)."""
        targets = np.bincount(c[T])
        some = np.flatnonzero(targets)
        return cls(some, targets[some])

    def expected(self) -> float:
        """``sum T / c``: one rounding a value of c and one of the sum, whatever the order."""
        return math.fsum(t / c for c, t in zip(self.c.tolist(), self.targets.tolist(), strict=True))


class Tally(NamedTuple):
    """Whole numbers of a file or of some of its cells.

    Attributes
    ----------
    n, cells, profiles : int
        Targets, distinct unsynthesised keys, and distinct profiles.
    counts : ndarray of int64, shape (R, 5)
        Targets with K = 1, with F = 1, with c = 1, with no match, with c > 0.
    chances : tuple of R Chances
    """

    n: int
    cells: int
    profiles: int
    counts: Ids
    chances: tuple[Chances, ...]


def add(tallies: Sequence[Tally]) -> Tally:
    """Add up the tallies of different cells."""
    chances = tuple(
        Chances.of(*(np.concatenate(part) for part in zip(*row, strict=True)))
        for row in zip(*(tally.chances for tally in tallies), strict=True)
    )
    return Tally(
        sum(tally.n for tally in tallies),
        sum(tally.cells for tally in tallies),
        sum(tally.profiles for tally in tallies),
        np.sum([tally.counts for tally in tallies], axis=0),
        chances,
    )


def tally(table: Profiles, layout: Layout, *, fallback: bool) -> Tally:
    """Match all targets of a table that holds whole cells.

    Per release: ``c = N[l, u]``, and T = 1 for the targets of key u whose own record shows it
    there. Pooled: the probability of a record is that of its set of releases,
    ``(1/m) sum_l 1[l in set] / N[l, u]``, so c adds up the records of the sets that attain the
    highest, T the targets. Where nothing matches: the cell with the fallback rule, else nobody.
    """
    keys = _Keys.of(table, layout)
    m = len(keys.N)
    own = [keys.add_up(keys.held * bit) for bit in keys.bits]
    rows = [keys.settle(c, T, fallback) for c, T in zip(keys.N, own, strict=True)]
    weights = _Weights.of(keys.N)
    for without in [None, *(l for l in range(m) if m > 2)]:
        best = weights.best(keys, without)
        found = keys.add_up(keys.shown * best), keys.add_up(keys.held * best)
        rows.append(keys.settle(*found, fallback))
    counts, chances = zip(*rows, strict=True)
    return Tally(int(keys.n.sum()), keys.cells, len(table.records), np.array(counts), chances)


class _Keys(NamedTuple):
    """Target keys and their profiles.

    ``start`` (U,): where a key's profiles begin; ``key`` (P,): the key of each; ``bits`` (m, P):
    the releases; ``shown`` and ``held`` (P,): records that show it, targets that hold it; ``n``
    (U,): targets; ``N`` (m, U): matches; ``size`` (U,): records in the key's cell.
    """

    start: Ids
    key: Ids
    bits: Flags
    shown: Ids
    held: Ids
    n: Ids
    N: Ids
    size: Ids
    cells: int

    @classmethod
    def of(cls, table: Profiles, layout: Layout) -> "_Keys":
        words, count = _wanted(table, layout)
        start = layout.starts(words, layout.n_keys)
        bits = [layout.digit(words, layout.n_keys + l) == 1 for l in range(layout.m)]
        is_held = layout.digit(words, len(layout.radix) - 1) == 1
        shown, held = np.where(is_held, 0, count), np.where(is_held, count, 0)
        n = np.add.reduceat(held, start)
        cell = layout.starts(words[:, start], layout.n_known)
        size = np.add.reduceat(n, cell)
        return cls(
            start,
            np.repeat(np.arange(len(start)), np.diff(start, append=len(count))),
            np.array(bits),
            shown,
            held,
            n,
            np.stack([np.add.reduceat(shown * bit, start) for bit in bits]),
            np.repeat(size, np.diff(cell, append=len(start))),
            len(cell),
        )

    def add_up(self, values: Ids) -> Ids:
        """Sums over each key's profiles, shape (U,)."""
        total: Ids = np.add.reduceat(values, self.start)
        return total

    def settle(self, c: Ids, T: Ids, fallback: bool) -> tuple[Ids, Chances]:
        """Go to the cell where nothing matches, and count; T (U,): targets with ``T = 1``."""
        n, nothing = self.n, c == 0
        if fallback:
            c, T = np.where(nothing, self.size, c), np.where(nothing, n, T)
        one = c == 1
        counts = [T[one], (n - T)[one], n[one], n[nothing], n[c > 0]]
        return np.array([part.sum() for part in counts], dtype=np.int64), Chances.of(c, T)


class _Weights(NamedTuple):
    """``weight`` (m, U): 1/N as whole numbers of one unit a key; ``long``, (U,): keys with none.

    The unit is one over the least common multiple of the key's counts. Where that leaves 64 bits,
    sums are first compared in floating point, and those that are near in fractions.
    """

    N: Ids
    weight: Ids
    long: Flags

    @classmethod
    def of(cls, N: Ids, *, largest: int = LARGEST) -> "_Weights":
        multiple, fits = common_multiple(N, largest)
        return cls(N, np.where(N > 0, multiple // np.maximum(N, 1), 0), ~fits)

    def best(self, keys: _Keys, without: int | None) -> Flags:
        """Which profiles attain the highest probability of their key, shape (P,)."""
        kept = [l for l in range(len(self.N)) if l != without]
        total = _sums(keys, self.weight, kept)
        best: Flags = (total == _highest(keys, total)) & (total > 0)
        if self.long.any():
            long = self.long[keys.key]
            best[long] = self._best_long(keys, kept)[long]
        return best

    def _best_long(self, keys: _Keys, kept: Sequence[int]) -> Flags:
        total = _sums(keys, np.where(self.N > 0, 1 / np.maximum(self.N, 1), 0.0), kept)
        near = (total > 0) & (total >= _highest(keys, total) * (1 - NEAR)) & self.long[keys.key]
        several = keys.add_up((near & (keys.shown > 0)).astype(np.int64))[keys.key] > 1
        rows = np.flatnonzero(near & several)
        exact = np.array(
            [
                sum(Fraction(1, int(self.N[l, keys.key[row]])) for l in kept if keys.bits[l, row])
                for row in rows
            ],
            dtype=object,
        )
        best: Flags = near & ~several
        if len(rows):
            start = np.flatnonzero(np.diff(keys.key[rows], prepend=-1))
            highest = np.maximum.reduceat(exact, start)
            best[rows] = exact == np.repeat(highest, np.diff(start, append=len(rows)))
        return best


def _sums(keys: _Keys, weight: npt.NDArray[Any], kept: Sequence[int]) -> npt.NDArray[Any]:
    """``sum_l 1[l in set] w[l, u]`` of every profile, shape (P,)."""
    total = np.zeros(len(keys.key), dtype=weight.dtype)
    for l in kept:
        total += keys.bits[l] * weight[l][keys.key]
    return total


def _highest(keys: _Keys, total: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The highest sum of each profile's key, shape (P,)."""
    highest: npt.NDArray[Any] = np.maximum.reduceat(total, keys.start)[keys.key]
    return highest


def _wanted(table: Profiles, layout: Layout) -> tuple[Ids, Ids]:
    """The profiles of keys that some target holds."""
    words, count = table
    start = layout.starts(words, layout.n_keys)
    held = layout.digit(words, len(layout.radix) - 1)
    wanted = np.repeat(np.add.reduceat(held, start) > 0, np.diff(start, append=len(count)))
    return words[:, wanted], count[wanted]
