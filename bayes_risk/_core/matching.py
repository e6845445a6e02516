"""Exact matching on categorical keys by sorting and counting; never all pairs.

Letters: ``n`` records, ``m`` releases, ``n_t`` targets, ``U`` distinct target keys, ``u`` the
number of a target key, ``z`` the number of a released key (-1: no target has it), ``N`` match
counts, ``D`` how many may be the target. Derivation: ``docs/identification.md``.

Which sets of releases show a key: all that the pooled probability of a record depends on.

Records that show key u in the same releases have the same pooled probability for every target that
holds u. So the pairs (key, record) are counted as pairs (key, set of releases), of which there are
at most ``2^m - 1`` a key, however many records there are. For tables in memory; those of files are
counted in ``matching/parquet_counts.py``.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .weights import LARGEST, long_weights, whole_weights

TABLE_PER_ENTRY = 8
Ids = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class ReleaseSets(NamedTuple):
    """Distinct (key, set of releases) that records show, by key.

    Attributes
    ----------
    u : ndarray of int64, shape (P,)
        The key, ascending.
    shows : ndarray of bool, shape (m, P)
        The releases of the set.
    records : ndarray of int64, shape (P,)
        How many records show the key in just these releases.
    own : ndarray of int64, shape (n_t,)
        The pair of each target's own record and key; -1 if it shows the key in no release, or the
        target has no record.
    """

    u: Ids
    shows: Flags
    records: Ids
    own: Ids

    def entries(self) -> tuple[Ids, Ids]:
        """Where each pair's releases begin, (P,), and all of them one after the other, (E,)."""
        size = self.shows.sum(axis=0)
        return np.cumsum(size) - size, np.nonzero(self.shows.T)[1]


def release_sets(u: Ids, z: Ids, place: Ids, n_keys: int, *, largest: int = LARGEST) -> ReleaseSets:
    """Count the records that show a key in the same releases.

    Parameters
    ----------
    u, place : ndarrays of int64, shape (n_t,)
        Number of each target's key; its record, or -1.
    z : ndarray of int64, shape (m, n)
        Number of each released key; -1 if no target has it.
    n_keys : int
        Number U of distinct target keys.
    largest : int
        Where U 2^m is larger, records are counted one by one; lower only to test.

    Returns
    -------
    ReleaseSets
        Time O(m^2 n), and a sort of at most m n numbers where U 2^m is larger than that.
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


def _one_by_one(u: Ids, z: Ids, place: Ids) -> ReleaseSets:
    """Pairs (key, record) as they are: for so many releases that hardly two records agree."""
    n = z.shape[1]
    pairs = np.unique((z * n + np.arange(n))[z >= 0])
    key, j = np.divmod(pairs, n)
    own = _places(pairs, np.where(place >= 0, u * n + place, -1))
    return ReleaseSets(key, z[:, j] == key, np.ones(len(pairs), dtype=np.int64), own)


def _bits(key: Ids, z: Ids) -> Ids:
    """One bit for each release that shows the key."""
    bits = np.zeros(len(key), dtype=np.int64)
    for l, row in enumerate(z):
        bits |= (row == key).astype(np.int64) << l
    return bits


def _first_shown(z: Ids, l: int) -> Ids:
    """Codes (key, set) of the keys that release l is the first to show of a record."""
    new = z[l] >= 0
    for row in z[:l]:
        new &= row != z[l]
    rows = z[:, new]
    code: Ids = (rows[l] << len(z)) + _bits(rows[l], rows)
    return code


def _counted(codes: Ids) -> tuple[Ids, Ids]:
    codes = np.sort(codes)
    start = np.flatnonzero(np.diff(codes, prepend=-1))
    return codes[start], np.diff(start, append=len(codes))


def _places(pairs: Ids, code: Ids) -> Ids:
    if not len(pairs):
        return np.full(len(code), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(pairs, code), len(pairs) - 1)
    found: Ids = np.where(pairs[place] == code, place, -1)
    return found


TABLE_PER_RECORD = 8
Reals = npt.NDArray[np.float64]


class Matches(NamedTuple):
    """The intruder's candidates for each target, per release (m, n) or pooled (n,).

    Attributes
    ----------
    c : ndarray of int64
        Number of released records with the highest match probability.
    T : ndarray of bool
        The true record is among them.
    no_match : ndarray of bool
        No released record has the target's full key.
    top : ndarray
        The highest match probability.
    inside : ndarray
        Probability that the target is in the file: that of all records together, or 1 for an
        intruder who knows that it is.
    """

    c: Ids
    T: Flags
    no_match: Flags
    top: Reals
    inside: Reals

    @property
    def outside(self) -> Reals:
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
        single: Flags = self.c == 1
        return single

    @property
    def probability(self) -> Reals:
        """``T / c``, the chance that a candidate taken at random is the target; 0 where c = 0."""
        return self.T / np.maximum(self.c, 1)


class Chances(NamedTuple):
    """Of the targets with ``T = 1``: how many have c candidates, by ascending c.

    Parts of a file add up in any order: these are whole numbers.
    """

    c: Ids
    targets: Ids

    @classmethod
    def of(cls, c: Ids, targets: Ids) -> "Chances":
        """Add up targets with the same c."""
        distinct, place = np.unique(c, return_inverse=True)
        total = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(total, place, targets)
        return cls(distinct[total > 0], total[total > 0])

    @classmethod
    def of_targets(cls, c: Ids, T: Flags) -> "Chances":
        """Count single targets, shapes (n,)."""
        targets = np.bincount(c[T])
        some = np.flatnonzero(targets)
        return cls(some, targets[some])

    def expected(self) -> float:
        """``sum T / c``: one rounding a value of c and one of the sum, whatever the order."""
        return math.fsum(t / c for c, t in zip(self.c.tolist(), self.targets.tolist(), strict=True))


class Cells(NamedTuple):
    """Each target's cell of unsynthesised keys: what is left to go by where nothing matches.

    ``size``, shape (n_t,): released records in it. ``own``, shape (n_t,): the target's record is
    one of them. ``used``: whether the intruder goes by it (the fallback rule). ``certain``: he
    knows that the target is in the file, matched or not.
    """

    size: Ids
    own: Flags
    used: bool
    certain: bool


class Pairs(NamedTuple):
    """Pairs (target key, set of releases that show it), by key.

    A record's probability depends only on the set of releases in which it matches: ``records``,
    shape (P,), match in just these. ``u``, shape (P,), is sorted; pair ``k`` owns the entries from
    ``start[k]`` on. ``own``, shape (n_t,): the pair of each target's own record, or -1. ``cell``,
    shape (E,), says where in ``weight.ravel()`` the weight of an entry lies; ``weight`` has shape
    (m, U), and ``unit``, shape (U,), is the weight of a probability of 1.
    """

    u: Ids
    start: Ids
    records: Ids
    own: Ids
    cell: Ids
    weight: npt.NDArray[Any]
    unit: npt.NDArray[Any]


def cell_codes(
    digits: Sequence[npt.NDArray[np.integer]],
    n_levels: Sequence[int],
    *,
    shape: tuple[int, ...],
    largest: int = LARGEST,
) -> Ids:
    """Code the cells of a cross-classification: equal codes if and only if all digits are equal.

    Mixed radix, ``code <- code * d_j + digit_j``. When the product of the radices would exceed
    `largest`, the codes so far are renumbered ``0, 1, ...`` in order, which needs at most one
    number per record, and the walk goes on.

    Parameters
    ----------
    digits : sequence of integer arrays, each broadcastable to `shape`
        Level codes ``0 .. d_j - 1``, one array per key.
    n_levels : sequence of int
        The radices d_j.
    shape : tuple of int
        Shape of the result; also of the constant code when there are no keys.
    largest : int
        Where to renumber; lower only to test.

    Returns
    -------
    ndarray of int64, shape `shape`
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


def number_keys(target: Ids, released: Ids) -> tuple[Ids, Ids]:
    """Give the distinct target keys numbers 0 .. U-1, and find them again in the releases.

    Parameters
    ----------
    target : ndarray of int64, shape (n,)
        Cell codes of the targets' keys.
    released : ndarray of int64, shape (m, n)
        Cell codes of the released keys, numbered alike.

    Returns
    -------
    u : ndarray of int64, shape (n,)
        Number of each target's key.
    z : ndarray of int64, shape (m, n)
        Number of each released key; -1 if no target has it.
    """
    keys, u = np.unique(target, return_inverse=True)
    top = max(int(keys[-1]), int(released.max()))
    if top < TABLE_PER_RECORD * released.size:  # few enough cells to look each one up
        number = np.full(top + 1, -1, dtype=np.int64)
        number[keys] = np.arange(len(keys))
        return u, number[released]
    place = np.minimum(np.searchsorted(keys, released), len(keys) - 1)
    return u, np.where(keys[place] == released, place, -1)


def count_matches(z: Ids, n_keys: int) -> Ids:
    """N[l, u]: records of release l that hold target key u, shape (m, U)."""
    return np.stack([np.bincount(row + 1, minlength=n_keys + 1)[1:] for row in z])


def match_each(u: Ids, z: Ids, place: Ids, D: Reals, cells: Cells) -> Matches:
    """Find the candidates in each release by itself, arrays of shape (m, n_t).

    ``c = N[l, u_i]`` and ``T = 1[z[l, place_i] = u_i]``. Where nothing matches: the target's cell
    with the fallback rule, else ``c = T = 0``.

    Parameters
    ----------
    u : ndarray of int64, shape (n_t,)
        Number of each target's key.
    z : ndarray of int64, shape (m, n)
        Number of each released key; -1 if no target has it.
    place : ndarray of int64, shape (n_t,)
        Each target's record, each once; -1: it is not in the file.
    D : ndarray, shape (m, U)
        How many may be the target: a record that matches is it with probability 1 / D. Not less
        than the number N that match; with everybody known to be in the file, N.
    cells : Cells
    """
    N = count_matches(z, D.shape[1])  # shape (m, U)
    T = (place >= 0) & (z[:, place] == u)
    with np.errstate(divide="ignore", invalid="ignore"):
        top, inside = np.where(N > 0, 1 / D, 0.0), np.where(N > 0, N / D, 0.0)
    return settle(N[:, u], T, top[:, u], inside[:, u], cells)


def pair_up(u: Ids, z: Ids, D: Reals, *, place: Ids, largest: int = LARGEST) -> list[Pairs]:
    """Count the records of every set of releases that shows a target key, with exact weights.

    Where all D of a key are simple fractions, the weight ``1/D[l, u]`` is carried as the integer
    ``L_u / D[l, u]``, ``L_u`` the least common multiple of their numerators over releases with a
    match: sums of such weights are equal exactly when the sums of the fractions are. No
    floating-point tolerance could promise that: two sums of m fractions may differ by ``1 / L_u``,
    which for m = 5 and counts in the thousands is below 1e-16. Other D (estimates) are carried in
    62 digits, as large a multiple of ``L_u`` as fits: equal sums of equal terms stay equal.

    Parameters
    ----------
    u : ndarray of int64, shape (n_t,)
    z : ndarray of int64, shape (m, n)
    D : ndarray, shape (m, U)
        As in `match_each`.
    place : ndarray of int64, shape (n_t,)
        Each target's record; -1: it is not in the file.
    largest : int
        Keys whose sums could exceed this are summed as Python integers; lower only to test.

    Returns
    -------
    list of Pairs
        At most two: keys whose sums fit 64 bits, and the rest. Time O(m n log n), memory O(m n).
    """
    N = count_matches(z, D.shape[1])
    return weigh_sets(release_sets(u, z, place, len(N[0])), np.where(N > 0, D, 0.0), largest)


def weigh_sets(sets: ReleaseSets, D: Reals, largest: int = LARGEST) -> list[Pairs]:
    """Weigh counted sets of releases as `pair_up` says; D (m, U) is 0 where nothing matches."""
    weight, unit, fits = whole_weights(D, largest)
    blocks = []
    if fits.any():
        blocks.append(_pairs(sets, fits, weight, unit))
    if not fits.all():
        blocks.append(_pairs(sets, ~fits, *long_weights(D, ~fits)))
    return [block for block in blocks if len(block.u)]


def match_pooled(
    blocks: Sequence[Pairs],
    u: Ids,
    each: Matches,
    cells: Cells,
    *,
    without: int | None = None,
) -> Matches:
    """Find the candidates by the probability pooled over releases, arrays of shape (n_t,).

    ``Pr(J = j | t) = (1/m) sum_l 1[j matches t in release l] / D[l, t]``; c counts the j that
    attain the maximum. The fallback rule adds the same amount to every j of the target's cell of
    unsynthesised keys, and whoever matches lies in that cell: where anything matches in any release
    it moves no maximum, and where nothing does the whole cell ties. So it is never written out.

    Parameters
    ----------
    blocks : list of Pairs
        From `pair_up`.
    u : ndarray of int64, shape (n_t,)
        Number of each target's key.
    each : Matches
        Of the m releases by themselves.
    cells : Cells
    without : int, optional
        Leave this release out.
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


def jackknife_error(left_out: Reals) -> float:
    """Return the jackknife standard error, ``sqrt((m-1)/m sum_l (x_l - mean)^2)``.

    Parameters
    ----------
    left_out : ndarray, shape (m,)
        The estimate without release l.
    """
    m = len(left_out)
    return float(np.sqrt((m - 1) / m * ((left_out - left_out.mean()) ** 2).sum()))


def settle(c: Ids, T: Flags, top: Reals, inside: Reals, cells: Cells) -> Matches:
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


def share_of_cell(each: Matches, cells: Cells, kept: Sequence[int]) -> Reals:
    """What the fallback rule adds to everybody in the cell, shape (n_t,)."""
    if not cells.used:
        return np.zeros(len(cells.size))
    share: Reals = each.no_match[kept].mean(axis=0) / np.maximum(cells.size, 1)
    return share


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


def best_pairs(pairs: Pairs, without: int | None) -> tuple[Ids, Flags, npt.NDArray[Any]]:
    """Find where each key's pairs begin, which attain their key's maximum, and the maxima."""
    weight = pairs.weight
    if without is not None:
        weight = weight.copy()
        weight[without] = 0
    total = np.add.reduceat(weight.ravel()[pairs.cell], pairs.start)  # shape (P,)
    first = _starts(pairs.u)
    size = np.diff(first, append=len(total))
    maximum = np.maximum.reduceat(total, first)
    return first, (total == np.repeat(maximum, size)) & (total > 0), maximum


def _starts(values: Ids) -> Ids:
    """Find where each run of equal values begins."""
    return np.flatnonzero(np.diff(values, prepend=-1))
