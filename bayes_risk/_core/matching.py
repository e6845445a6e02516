"""Exact matching on categorical keys by sorting and counting; never all pairs.

Letters: ``n`` records, ``m`` releases, ``U`` distinct target keys, ``u`` the number of a target
key, ``z`` the number of a released key (-1: no target has it), ``N`` match counts. Derivation:
``docs/identification.md``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

LARGEST = 2**62
TABLE_PER_RECORD = 8

Ids = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
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
    """

    c: Ids
    T: Flags
    no_match: Flags

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


class Pairs(NamedTuple):
    """Pairs (target key, released record) that match in some release, by key, then record.

    ``u`` and ``j``, shape (P,), are sorted; pair ``k`` owns the entries from ``start[k]`` on.
    ``cell``, shape (E,), says where in ``weight.ravel()`` the weight of an entry lies; ``weight``
    has shape (m, U).
    """

    u: Ids
    j: Ids
    start: Ids
    cell: Ids
    weight: npt.NDArray[Any]


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


def cell_sizes(code: Ids) -> Ids:
    """Count the records in each record's cell, shape (n,)."""
    _, cell, size = np.unique(code, return_inverse=True, return_counts=True)
    return size[cell]


def count_matches(z: Ids, n_keys: int) -> Ids:
    """N[l, u]: records of release l that hold target key u, shape (m, U)."""
    return np.stack([np.bincount(row + 1, minlength=n_keys + 1)[1:] for row in z])


def match_each(u: Ids, z: Ids, n_us: Ids, *, fallback: bool) -> Matches:
    """Find the candidates in each release by itself, arrays of shape (m, n).

    ``c = N[l, u_i]`` and ``T = 1[z[l, i] = u_i]``. Where nothing matches: ``c = n_us``, ``T = 1``
    with the fallback rule, else ``c = T = 0``.
    """
    N = count_matches(z, int(u.max()) + 1)  # shape (m, U)
    return settle(N[:, u], z == u, n_us, fallback)


def pair_up(u: Ids, z: Ids, *, largest: int = LARGEST) -> list[Pairs]:
    """List every (target key, released record) that matches somewhere, with exact weights.

    The weight ``1/N[l, u]`` is carried as the integer ``L_u / N[l, u]``, ``L_u`` the least common
    multiple of key u's non-zero counts: sums of such weights are equal exactly when the sums of the
    fractions are. No floating-point tolerance could promise that: two sums of m fractions may
    differ by ``1 / L_u``, which for m = 5 and counts in the thousands is below 1e-16.

    Parameters
    ----------
    u : ndarray of int64, shape (n,)
    z : ndarray of int64, shape (m, n)
    largest : int
        Keys whose sums could exceed this are summed as Python integers; lower only to test.

    Returns
    -------
    list of Pairs
        At most two: keys whose sums fit 64 bits, and the rest. Time O(m n log n), memory O(m n).
    """
    N = count_matches(z, int(u.max()) + 1)
    multiple, fits = _common_multiple(N, largest)
    blocks = []
    if fits.any():
        weight = np.where(N > 0, multiple // np.maximum(N, 1), 0)
        blocks.append(_pairs(np.where(fits[z], z, -1), weight))
    if not fits.all():
        blocks.append(_pairs(np.where(fits[z], -1, z), _long_weights(N, ~fits)))
    return [block for block in blocks if len(block.u)]


def match_pooled(
    blocks: Sequence[Pairs],
    u: Ids,
    n_us: Ids,
    *,
    fallback: bool,
    without: int | None = None,
) -> Matches:
    """Find the candidates by the probability pooled over releases, arrays of shape (n,).

    ``Pr(J = j | t) = (1/m) sum_l 1[j matches t in release l] / N[l, t]``; c counts the j that
    attain the maximum. The fallback rule adds the same amount to every j of the target's cell of
    unsynthesised keys, and whoever matches lies in that cell: where anything matches in any release
    it moves no maximum, and where nothing does the whole cell ties. So it is never written out.

    Parameters
    ----------
    blocks : list of Pairs
        From `pair_up`.
    u, n_us : ndarrays of int64, shape (n,)
        Number of each target's key; size of its cell of unsynthesised keys.
    fallback : bool
        What to do where nothing matches in any release: c = n_us, T = 1; or c = T = 0.
    without : int, optional
        Leave this release out.
    """
    c = np.zeros(int(u.max()) + 1, dtype=np.int64)
    T = np.zeros(len(u), dtype=np.bool_)
    for pairs in blocks:
        first, best = _best(pairs, without)
        c[pairs.u[first]] = np.add.reduceat(best, first, dtype=np.int64)
        mine = best & (pairs.u == u[pairs.j])  # pairs of a target's key with the true record
        T[pairs.j[mine]] = True
    return settle(c[u], T, n_us, fallback)


def jackknife_error(left_out: Reals) -> float:
    """Return the jackknife standard error, ``sqrt((m-1)/m sum_l (x_l - mean)^2)``.

    Parameters
    ----------
    left_out : ndarray, shape (m,)
        The estimate without release l.
    """
    m = len(left_out)
    return float(np.sqrt((m - 1) / m * ((left_out - left_out.mean()) ** 2).sum()))


def settle(c: Ids, T: Flags, n_us: Ids, fallback: bool) -> Matches:
    """Where nothing matches, take the whole cell of unsynthesised keys, or nobody."""
    nothing = c == 0
    if not fallback:
        return Matches(c, T, nothing)
    return Matches(np.where(nothing, n_us, c), T | nothing, nothing)


def _common_multiple(N: Ids, largest: int) -> tuple[Ids, Flags]:
    """Find the least common multiple of each column's non-zero counts; does m times it fit."""
    multiple = np.ones(N.shape[1], dtype=np.int64)
    fits = np.ones(N.shape[1], dtype=np.bool_)
    for row in np.maximum(N, 1):
        step = row // np.gcd(multiple, row)
        fits &= multiple <= largest // len(N) // step
        multiple = np.where(fits, multiple * step, 1)
    return multiple, fits


def _long_weights(N: Ids, chosen: Flags) -> npt.NDArray[Any]:
    """Weigh the chosen keys in Python integers; the other columns are 0."""
    counts = np.maximum(N[:, chosen], 1).astype(object)
    weight = np.zeros(N.shape, dtype=object)
    weight[:, chosen] = np.where(N[:, chosen] > 0, np.lcm.reduce(counts, axis=0) // counts, 0)
    return weight


def _pairs(z: Ids, weight: npt.NDArray[Any]) -> Pairs:
    """Sort the entries (key, record, release) as one number each, and cut them into pairs."""
    m, n = z.shape
    order = (z * n + np.arange(n)) * m + np.arange(m)[:, None]  # below U n m
    order = np.sort(order[z >= 0])
    pair, release = np.divmod(order, m)
    start = _starts(pair)
    key = pair // n
    return Pairs(key[start], pair[start] % n, start, release * weight.shape[1] + key, weight)


def _best(pairs: Pairs, without: int | None) -> tuple[Ids, Flags]:
    """Find where each key's pairs begin, and which pairs attain their key's maximum."""
    weight = pairs.weight
    if without is not None:
        weight = weight.copy()
        weight[without] = 0
    total = np.add.reduceat(weight.ravel()[pairs.cell], pairs.start)  # shape (P,)
    first = _starts(pairs.u)
    size = np.diff(first, append=len(total))
    maximum = np.repeat(np.maximum.reduceat(total, first), size)
    return first, (total == maximum) & (total > 0)


def _starts(values: Ids) -> Ids:
    """Find where each run of equal values begins."""
    return np.flatnonzero(np.diff(values, prepend=-1))
