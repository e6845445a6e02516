"""Exact matching on categorical keys by sorting and counting; never all pairs.

Letters: ``n`` records, ``m`` releases, ``n_t`` targets, ``U`` distinct target keys, ``u`` the
number of a target key, ``z`` the number of a released key (-1: no target has it), ``N`` match
counts, ``D``, shape (m, U), how many may be the target (0: nothing matches).

Records that show key u in the same releases have the same pooled probability for every target that
holds u. So the pairs (key, record) are counted as pairs (key, set of releases), of which there are
at most ``2^m - 1`` a key, however many records there are (those of files are counted in
``matching/parquet_counts.py``). Weights 1/D are whole numbers, so that sums of them compare as the
fractions do. Derivation, and why no floating-point tolerance serves: ``docs/identification.md``.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import Array, Flags, Ints

LARGEST = 2**62
PRIME = 2**61 - 1
SIMPLE, FAR = 2**20, 2.0**53  # denominators of simple fractions; more people than can be counted


def whole_weights(D: Array, largest: int) -> tuple[Ints, Ints, Flags]:
    """Weigh in 64 bits: weights (m, U), units (weights of 1) and which keys fit, both (U,).

    The unit is the least common multiple of the numerators of a key's D; where some D is no simple
    fraction, the largest multiple of that, and its weight is rounded.
    """
    over, under = _simple_fractions(D)
    multiple, fits = common_multiple(over, largest)
    fits &= D.max(axis=0) < FAR  # else a weight could come to nothing
    rough = (D > 0) & (over == 0)
    unit = np.where(rough.any(axis=0), largest // len(D) // multiple, 1) * multiple
    weight = np.where(over > 0, unit // np.maximum(over, 1) * under, 0)
    rounded = rough & fits
    weight[rounded] = np.rint((unit / np.maximum(D, 1))[rounded]).astype(np.int64)
    return weight, unit, fits


def _simple_fractions(D: Array) -> tuple[Ints, Ints]:
    """``D = over / under`` in lowest terms, ``under`` up to 2^20; ``over = 0`` if D has none."""
    with np.errstate(over="ignore"):
        scaled = D * SIMPLE
    simple = (D < 2**31) & (scaled == np.rint(scaled))
    over = np.where(simple, scaled, 0).astype(np.int64)
    common = np.gcd(over, SIMPLE)
    return over // common, SIMPLE // common


def common_multiple(N: Ints, largest: int) -> tuple[Ints, Flags]:
    """Find the least common multiple of each column's non-zero counts; does m times it fit."""
    multiple = np.ones(N.shape[1], dtype=np.int64)
    fits = np.ones(N.shape[1], dtype=np.bool_)
    for row in np.maximum(N, 1):
        step = row // np.gcd(multiple, row)
        fits &= multiple <= largest // len(N) // step
        multiple = np.where(fits, multiple * step, 1)
    return multiple, fits


def long_weights(
    D: Array, chosen: Flags
) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]]:
    """Weigh the chosen keys in Python integers; the other columns are 0. And their unit."""
    whole = np.frompyfunc(float.as_integer_ratio, 1, 1)(D[:, chosen])
    over, under = (np.frompyfunc(lambda ratio, k=k: ratio[k], 1, 1)(whole) for k in (0, 1))
    weight, unit = np.zeros(D.shape, dtype=object), np.ones(D.shape[1], dtype=object)
    matched = D[:, chosen] > 0
    over[~matched] = 1
    unit[chosen] = np.lcm.reduce(over, axis=0)
    weight[:, chosen] = np.where(matched, unit[chosen] // over * under, 0)
    return weight, unit


TABLE_PER_ENTRY = 8


class ReleaseSets(NamedTuple):
    """Distinct (key, set of releases) that records show, by key."""

    u: Ints  # (P,): the key, ascending
    shows: Flags  # (m, P): the releases of the set
    records: Ints  # (P,): how many records show the key in just these releases
    own: Ints  # (n_t,): the pair of each target's own record and key; -1: none

    def entries(self) -> tuple[Ints, Ints]:
        """Where each pair's releases begin, (P,), and all of them one after the other, (E,)."""
        size = self.shows.sum(axis=0)
        return np.cumsum(size) - size, np.nonzero(self.shows.T)[1]


def release_sets(
    u: Ints, z: Ints, place: Ints, n_keys: int, *, largest: int = LARGEST
) -> ReleaseSets:
    """Count the records that show a key in the same releases.

    Time O(m^2 n), and a sort of at most m n numbers where U 2^m is larger than that. ``largest``:
    where U 2^m is larger, records are counted one by one; lower only to test.
    """
    m, n = z.shape
    if n_keys > largest >> m:
        return _one_by_one(u, z, place)
    code = np.where(place >= 0, (u << m) + _bits(u, z[:, place]), u << m)
    shown = [_first_shown(z, l) for l in range(m)]
    if n_keys << m <= TABLE_PER_ENTRY * m * n:
        table = np.zeros(n_keys << m, dtype=np.int64)
        for codes in shown:
            table += np.bincount(codes, minlength=len(table))
        pairs = np.flatnonzero(table)
        number = np.full(len(table), -1, dtype=np.int64)
        number[pairs] = np.arange(len(pairs))
        records, own = table[pairs], number[code]
    else:
        pairs, records = _counted(np.concatenate(shown))
        own = _places(pairs, code)
    shows = np.array([(pairs >> l) & 1 == 1 for l in range(m)])
    return ReleaseSets(pairs >> m, shows, records, own)


def _one_by_one(u: Ints, z: Ints, place: Ints) -> ReleaseSets:
    """Pairs (key, record) as they are: for so many releases that hardly two records agree."""
    n = z.shape[1]
    pairs = np.unique((z * n + np.arange(n))[z >= 0])
    key, j = np.divmod(pairs, n)
    own = _places(pairs, np.where(place >= 0, u * n + place, -1))
    return ReleaseSets(key, z[:, j] == key, np.ones(len(pairs), dtype=np.int64), own)


def _bits(key: Ints, z: Ints) -> Ints:
    """One bit for each release that shows the key."""
    bits = np.zeros(len(key), dtype=np.int64)
    for l, row in enumerate(z):
        bits |= (row == key).astype(np.int64) << l
    return bits


def _first_shown(z: Ints, l: int) -> Ints:
    """Codes (key, set) of the keys that release l is the first to show of a record."""
    new = z[l] >= 0
    for row in z[:l]:
        new &= row != z[l]
    rows = z[:, new]
    return np.asarray((rows[l] << len(z)) + _bits(rows[l], rows))


def _counted(codes: Ints) -> tuple[Ints, Ints]:
    codes = np.sort(codes)
    start = np.flatnonzero(np.diff(codes, prepend=-1))
    return codes[start], np.diff(start, append=len(codes))


def _places(pairs: Ints, code: Ints) -> Ints:
    if not len(pairs):
        return np.full(len(code), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(pairs, code), len(pairs) - 1)
    return np.asarray(np.where(pairs[place] == code, place, -1))


TABLE_PER_RECORD = 8


class Matches(NamedTuple):
    """The intruder's candidates for each target, per release (m, n) or pooled (n,)."""

    c: Ints  # released records with the highest match probability
    T: Flags  # the true record is among them
    no_match: Flags  # no released record has the target's full key
    top: Array  # the highest match probability
    inside: Array  # that the target is in the file: of all records together, or 1 if that is known

    @property
    def outside(self) -> Array:
        """Pr(J = n + 1): the target is not in the file."""
        return 1 - self.inside

    @property
    def K(self) -> Flags:
        """One candidate, and it is the true record: ``c T = 1``."""
        return self.T & self._single

    @property
    def F(self) -> Flags:
        """One candidate, and it is not the true record: ``c (1 - T) = 1``."""
        return ~self.T & self._single

    @property
    def _single(self) -> Flags:
        return np.asarray(self.c == 1)

    @property
    def probability(self) -> Array:
        """``T / c``, the chance that a candidate taken at random is the target; 0 where c = 0."""
        return self.T / np.maximum(self.c, 1)


class Chances(NamedTuple):
    """Of the targets with ``T = 1``: how many have c candidates, by ascending c.

    Parts of a file add up in any order: these are whole numbers.
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
    def of_targets(cls, c: Ints, T: Flags) -> "Chances":
        """Count single targets, shapes (n,)."""
        targets = np.bincount(c[T])
        some = np.flatnonzero(targets)
        return cls(some, targets[some])

    def expected(self) -> float:
        """``sum T / c``: one rounding a value of c and one of the sum, whatever the order."""
        return math.fsum(t / c for c, t in zip(self.c.tolist(), self.targets.tolist(), strict=True))


class Cells(NamedTuple):
    """Each target's cell of unsynthesised keys: what is left to go by where nothing matches."""

    size: Ints  # (n_t,): released records in it
    own: Flags  # (n_t,): the target's record is one of them
    used: bool  # the intruder goes by it (the fallback rule)
    certain: bool  # he knows that the target is in the file, matched or not


class Pairs(NamedTuple):
    """Pairs (target key, set of releases that show it), by key.

    A record's probability depends only on the set of releases in which it matches.
    """

    u: Ints  # (P,), sorted
    start: Ints  # (P,): where the pair's entries, one for each release, begin
    records: Ints  # (P,): records that match in just these
    own: Ints  # (n_t,): the pair of each target's own record, or -1
    cell: Ints  # (E,): where in ``weight.ravel()`` the weight of an entry lies
    weight: npt.NDArray[Any]  # (m, U)
    unit: npt.NDArray[Any]  # (U,): the weight of a probability of 1


def cell_codes(
    digits: Sequence[npt.NDArray[np.integer]],
    n_levels: Sequence[int],
    *,
    shape: tuple[int, ...],
    largest: int = LARGEST,
) -> Ints:
    """Code the cells of a cross-classification: equal codes if and only if all digits are equal.

    Mixed radix, ``code <- code * d_j + digit_j``, of digits that are broadcast to `shape`. When the
    product of the radices would exceed `largest`, the codes so far are renumbered ``0, 1, ...`` in
    order, which needs at most one number per record, and the walk goes on.
    """
    code = np.zeros(shape, dtype=np.int64)
    size = 1
    for digit, radix in zip(digits, n_levels, strict=True):
        if size > largest // radix:
            cells, code = np.unique(code, return_inverse=True)
            size = len(cells)
        code = code * radix + digit
        size *= radix
    return code


def number_keys(target: Ints, released: Ints) -> tuple[Ints, Ints]:
    """Number the distinct target keys 0 .. U-1, and find them again in the releases.

    From cell codes (n_t,) and (m, n): ``u`` of targets, and ``z`` of released keys, -1: no
    target's.
    """
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


def match_each(u: Ints, z: Ints, place: Ints, D: Array, cells: Cells) -> Matches:
    """Find the candidates in each release by itself, arrays of shape (m, n_t).

    ``c = N[l, u_i]`` and ``T = 1[z[l, place_i] = u_i]``. Where nothing matches: the target's cell
    with the fallback rule, else ``c = T = 0``. A record that matches is the target with probability
    1 / D; D is not less than the number N that match; with everybody known to be in the file, N.
    """
    N = count_matches(z, D.shape[1])  # shape (m, U)
    T = (place >= 0) & (z[:, place] == u)
    with np.errstate(divide="ignore", invalid="ignore"):
        top, inside = np.where(N > 0, 1 / D, 0.0), np.where(N > 0, N / D, 0.0)
    return settle(N[:, u], T, top[:, u], inside[:, u], cells)


def pair_up(u: Ints, z: Ints, D: Array, *, place: Ints, largest: int = LARGEST) -> list[Pairs]:
    """Count the records of every set of releases that shows a target key, with exact weights.

    Where all D of a key are simple fractions, the weight ``1/D[l, u]`` is carried as the integer
    ``L_u / D[l, u]``, ``L_u`` the least common multiple of their numerators over releases with a
    match: sums of such weights are equal exactly when the sums of the fractions are. No
    floating-point tolerance could promise that: two sums of m fractions may differ by ``1 / L_u``,
    which for m = 5 and counts in the thousands is below 1e-16. Other D (estimates) are carried in
    62 digits, as large a multiple of ``L_u`` as fits: equal sums of equal terms stay equal.

    At most two blocks: keys whose sums fit 64 bits (are below `largest`), and the rest, summed as
    Python integers. Time O(m n log n), memory O(m n).
    """
    N = count_matches(z, D.shape[1])
    return weigh_sets(release_sets(u, z, place, len(N[0])), np.where(N > 0, D, 0.0), largest)


def weigh_sets(sets: ReleaseSets, D: Array, largest: int = LARGEST) -> list[Pairs]:
    """Weigh counted sets of releases as `pair_up` says; D (m, U) is 0 where nothing matches."""
    weight, unit, fits = whole_weights(D, largest)
    blocks = []
    if fits.any():
        blocks.append(_pairs(sets, fits, weight, unit))
    if not fits.all():
        blocks.append(_pairs(sets, ~fits, *long_weights(D, ~fits)))
    return [block for block in blocks if len(block.u)]


def match_pooled(
    blocks: Sequence[Pairs], u: Ints, each: Matches, cells: Cells, *, without: int | None = None
) -> Matches:
    """Find the candidates by the probability pooled over releases, arrays of shape (n_t,).

    ``Pr(J = j | t) = (1/m) sum_l 1[j matches t in release l] / D[l, t]``; c counts the j that
    attain the maximum. The fallback rule adds the same amount to every j of the target's cell of
    unsynthesised keys, and whoever matches lies in that cell: where anything matches in any release
    it moves no maximum, and where nothing does the whole cell ties. So it is never written out.
    """
    kept = [l for l in range(len(each.c)) if l != without]
    n_keys = int(u.max()) + 1
    c, top = np.zeros(n_keys, dtype=np.int64), np.zeros(n_keys)
    T = np.zeros(len(u), dtype=np.bool_)
    for pairs in blocks:
        first, best, maximum = best_pairs(pairs, without)
        key = pairs.u[first]
        c[key] = np.add.reduceat(best * pairs.records, first)
        top[key] = (maximum / pairs.unit[key]).astype(float) / len(kept)
        T |= (pairs.own >= 0) & best[pairs.own]
    top_u = top[u] + share_of_cell(each, cells, kept)
    return settle(c[u], T, top_u, each.inside[kept].mean(axis=0), cells)


def jackknife_error(left_out: Array) -> float:
    """Jackknife error ``sqrt((m-1)/m sum_l (x_l - mean)^2)`` of m left-out estimates."""
    m = len(left_out)
    return float(np.sqrt((m - 1) / m * ((left_out - left_out.mean()) ** 2).sum()))


def settle(c: Ints, T: Flags, top: Array, inside: Array, cells: Cells) -> Matches:
    """Where nothing matches, take the whole cell of unsynthesised keys, or nobody."""
    nothing = c == 0
    inside = np.where(nothing, float(cells.certain), inside)
    if not cells.used:
        return Matches(c, T, nothing, top, inside)
    lost = nothing & (cells.size > 0)
    return Matches(
        np.where(nothing, cells.size, c),
        T | nothing & cells.own,
        nothing,
        np.where(lost, 1 / np.maximum(cells.size, 1), top),
        inside,
    )


def share_of_cell(each: Matches, cells: Cells, kept: Sequence[int]) -> Array:
    """What the fallback rule adds to everybody in the cell, shape (n_t,)."""
    if not cells.used:
        return np.zeros(len(cells.size))
    return np.asarray(each.no_match[kept].mean(axis=0) / np.maximum(cells.size, 1))


def _pairs(
    sets: ReleaseSets, chosen: Flags, weight: npt.NDArray[Any], unit: npt.NDArray[Any]
) -> Pairs:
    """Pairs of the chosen keys."""
    rows = np.flatnonzero(chosen[sets.u])
    number = np.full(len(sets.u) + 1, -1, dtype=np.int64)
    number[rows] = np.arange(len(rows))
    part = sets._replace(u=sets.u[rows], shows=sets.shows[:, rows], records=sets.records[rows])
    start, release = part.entries()
    key = np.repeat(part.u, np.diff(start, append=len(release)))
    return Pairs(
        part.u, start, part.records, number[sets.own], release * weight.shape[1] + key, weight, unit
    )


def best_pairs(pairs: Pairs, without: int | None) -> tuple[Ints, Flags, npt.NDArray[Any]]:
    """Find where each key's pairs begin, which attain their key's maximum, and the maxima."""
    weight = pairs.weight
    if without is not None:
        weight = weight.copy()
        weight[without] = 0
    total = np.add.reduceat(weight.ravel()[pairs.cell], pairs.start)  # shape (P,)
    first = np.flatnonzero(np.diff(pairs.u, prepend=-1))
    size = np.diff(first, append=len(total))
    maximum = np.maximum.reduceat(total, first)
    return first, (total == np.repeat(maximum, size)) & (total > 0), maximum
