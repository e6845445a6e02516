"""Which sets of releases show a key: all that the pooled probability of a record depends on.

Records that show key u in the same releases have the same pooled probability for every target that
holds u. So the pairs (key, record) are counted as pairs (key, set of releases), of which there are
at most ``2^m - 1`` a key, however many records there are. For tables in memory; those of files are
counted in `profiles.py`.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .weights import LARGEST

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
