"""What matching counts with: codes of keys, candidates, and sums of 1/D that compare exactly.

Letters: ``n`` records, ``m`` releases, ``n_t`` targets, ``B`` boxes (exact keys, or intervals) that
they have, ``u`` the number of a target key, ``z`` that of a released key (-1: no target has it),
``N`` match counts, ``D`` how many may be the target (0: nothing matches). Derivation, and why no
floating-point tolerance serves: ``docs/identification.md``.
"""

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import Array, Flags, Ints

LARGEST = 2**62
PRIME = 2**61 - 1
LEADERS, TOP, MARK, RIVAL, ONE = range(5)  # see `no_leaders`
FAR = 2**61
TABLE_PER_RECORD = 8
REACH = 2**31  # of codes that number rows as they are


class Weights(NamedTuple):
    """``1/D`` of each box and release (B, m), made for exact comparison of sums.

    ``share = floor(scale / D)`` with m shares below 2^63: sums that differ by m or more are ordered
    as their fractions are. ``residue = 1/D`` modulo a prime: unequal ones belong to unequal sums.
    ``reach[:, k-1]`` is the sum of the k largest shares.
    """

    share: Ints
    residue: Ints
    reach: Ints

    @classmethod
    def of(cls, D: Array, scale: int) -> "Weights":
        """Weigh D (m, B); 0 where nothing matches."""
        sizes, place = np.unique(D.T, return_inverse=True)
        exact = [Fraction(size) for size in sizes.tolist()]
        share = [int(scale / size) if size else 0 for size in exact]
        inverse = [
            size.denominator * pow(size.numerator, -1, PRIME) % PRIME if size else 0
            for size in exact
        ]
        place = place.reshape(D.T.shape)
        return cls.ranked(np.array(share, np.int64)[place], np.array(inverse, np.int64)[place])

    @classmethod
    def ranked(cls, share: Ints, residue: Ints) -> "Weights":
        """Weights of some releases."""
        reach = np.cumsum(np.sort(share, axis=1)[:, ::-1], axis=1)
        return cls(*map(np.ascontiguousarray, (share, residue, reach)))


def no_leaders(boxes: int, contests: int) -> Ints:
    """Who has the largest sum of 1/D, (B, A, 5): nobody yet; over all releases and without each.

    `LEADERS` counts the records of the largest sum so far, `TOP` is their digits, `MARK` their
    residue, `RIVAL` the largest digits of another residue that came within m of them; `ONE` is the
    person whose all of these records are, -1 if they are several persons'.
    """
    return np.tile(np.array([0, -FAR, -1, -2 * FAR, -1]), (boxes, contests, 1))


def doubts(leaders: Ints, m: int) -> list[list[int]]:
    """Boxes and contests in which two sums are too near to tell the larger."""
    return np.argwhere(leaders[..., RIVAL] > leaders[..., TOP] - m).tolist()


def largest_sums(shows: Flags, D: Array, without: int | None) -> Flags:
    """Which sums of 1/D (m,) over the releases marked (m, P) are the largest, as fractions."""
    used = [l for l, size in enumerate(D.tolist()) if size and l != without]
    sums = [sum((1 / Fraction(D[l]) for l in used if row[l]), Fraction(0)) for row in shows.T]
    return np.array([total == max(sums) for total in sums], dtype=np.bool_)


class Matches(NamedTuple):
    """The intruder's candidates for each target, per release (m, n) or pooled (n,)."""

    c: Ints  # released records with the highest match probability
    hits: Ints  # how many of them are the target's: 0 or 1, more where persons have several records
    one: Ints  # the person whose all of them are, 0 where each record is one; -1: several persons
    no_match: Flags  # no released record has the target's full key
    top: Array  # the highest match probability
    inside: Array  # that the target is in the file: of all records together, or 1 if that is known

    @property
    def outside(self) -> Array:
        """Pr(J = n + 1): the target is not in the file."""
        return 1 - self.inside

    @property
    def T(self) -> Flags:
        """The true record is among them; a record of the target's person."""
        return np.asarray(self.hits > 0)

    @property
    def K(self) -> Flags:
        """One candidate, and it is the true record: ``c T = 1``; all of them the target's."""
        return np.asarray(self.T & (self.hits == self.c))

    @property
    def F(self) -> Flags:
        """One candidate, and it is not the true record: ``c (1 - T) = 1``; another person's all."""
        return ~self.T & (self.one >= 0)

    @property
    def probability(self) -> Array:
        """``T / c``, the chance that a candidate taken at random is the target; 0 where c = 0."""
        return self.hits / np.maximum(self.c, 1)


class Chances(NamedTuple):
    """Of the targets with ``T = 1``: how many have c candidates, by ascending c.

    Each counts as often as its own records are among them. Parts of a file add up in any order:
    these are whole numbers.
    """

    c: Ints
    targets: Ints

    @classmethod
    def of(cls, c: Ints, targets: Ints) -> "Chances":
        """Add up targets with the same c."""
        distinct, place = np.unique(c, return_inverse=True)
        total = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(total, place, targets)
        return cls(distinct[total > 0], total[total > 0])

    @classmethod
    def of_targets(cls, c: Ints, hits: Ints | Flags) -> "Chances":
        """Count single targets, shapes (n,)."""
        targets = np.bincount(c, hits).astype(np.int64)
        some = np.flatnonzero(targets)
        return cls(some, targets[some])

    def expected(self) -> float:
        """``sum T / c``: one rounding a value of c and one of the sum, whatever the order."""
        return math.fsum(t / c for c, t in zip(self.c.tolist(), self.targets.tolist(), strict=True))


class Cells(NamedTuple):
    """Each target's cell of unsynthesised keys: what is left to go by where nothing matches."""

    size: Ints  # (n_t,): released records in it
    own: Ints  # (n_t,): how many of them are the target's
    one: Ints  # (n_t,): the person whose all of them are, as of `Matches`
    used: bool  # the intruder goes by it (the fallback rule)
    certain: bool  # he knows that the target is in the file, matched or not


class Combinations:
    """One number for each record, equal where all columns added so far are equal.

    Mixed radix, ``number <- number * d_j + code_j``. When the product of the radices would exceed
    `largest`, the numbers so far are renumbered in order, which needs at most one per record.
    """

    def __init__(self, n: int, largest: int = LARGEST) -> None:
        self.number: Ints = np.zeros(n, dtype=np.int64)
        self.size, self.largest = 1, largest

    def add(self, codes: npt.NDArray[np.integer], size: int) -> None:
        """Take a column in, whose codes are below `size`."""
        if self.size > self.largest // size:
            self.dense()
        self.number, self.size = self.number * size + codes, self.size * size

    def dense(self) -> Ints:
        """Numbers 0, 1, ... without gaps, in order."""
        if self.size <= TABLE_PER_RECORD * len(self.number):  # few enough to look each one up
            occurs = np.bincount(self.number, minlength=self.size) > 0
            self.number, self.size = (np.cumsum(occurs) - 1)[self.number], int(occurs.sum())
        else:
            distinct, self.number = np.unique(self.number, return_inverse=True)
            self.size = len(distinct)
        return self.number


def distinct_rows(table: npt.NDArray[Any]) -> tuple[Ints, Ints, Ints]:
    """First row of each distinct row (n, q), which of them each row is, how many there are."""
    cells = Combinations(len(table))
    for column in table.T:
        low, high = (0, REACH) if not len(column) else (column.min(), column.max())
        if table.dtype.kind == "f" or int(high) - int(low) >= REACH:
            values, column = np.unique(column, return_inverse=True)
            low, high = 0, len(values)
        cells.add(column.astype(np.int64) - int(low), int(high) - int(low) + 1)
    which = cells.dense()
    first = np.empty(cells.size if len(table) else 0, np.int64)
    first[which[::-1]] = np.arange(len(table))[::-1]
    return first, which, np.bincount(which, minlength=len(first))


def number_keys(target: Ints, released: Ints) -> tuple[Ints, Ints]:
    """Keys 0 .. U-1 of targets (n_t,), and the same in releases (m, n); -1: no target's."""
    keys, u = np.unique(target, return_inverse=True)
    top = max(int(keys[-1]), int(released.max()))
    if top < TABLE_PER_RECORD * released.size:  # few enough cells to look each one up
        number = np.full(top + 1, -1, dtype=np.int64)
        number[keys] = np.arange(len(keys))
        return u, number[released]
    place = np.minimum(np.searchsorted(keys, released), len(keys) - 1)
    return u, np.where(keys[place] == released, place, -1)


def count_matches(z: Ints, n_keys: int) -> Ints:
    """N[l, u]: records of release l that hold target key u, shape (m, U)."""
    return np.stack([np.bincount(row + 1, minlength=n_keys + 1)[1:] for row in z])


def jackknife_error(left_out: Array) -> float:
    """Jackknife error ``sqrt((m-1)/m sum_l (x_l - mean)^2)`` of m left-out estimates."""
    m = len(left_out)
    return float(np.sqrt((m - 1) / m * ((left_out - left_out.mean()) ** 2).sum()))


def settle(found: Matches, cells: Cells) -> Matches:
    """Where nothing matches, take the whole cell of unsynthesised keys, or nobody."""
    nothing = found.no_match
    if not nothing.any():
        return found
    found = found._replace(inside=np.where(nothing, float(cells.certain), found.inside))
    if not cells.used:
        return found
    unmatched = nothing & (cells.size > 0)
    return found._replace(
        c=np.where(nothing, cells.size, found.c),
        hits=np.where(nothing, cells.own, found.hits),
        one=np.where(nothing, cells.one, found.one),
        top=np.where(unmatched, 1 / np.maximum(cells.size, 1), found.top),
    )
