"""Records of both files counted by key and by key and target: sorted, never compared in pairs.

Letters as in Raab, Nowok & Dibben (2024): ``d_q`` and ``s_q`` records of the original and the
release with key q, ``d_tq`` and ``s_tq`` those that have target t besides, ``N_d`` and ``N_s`` all
records.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints

IDENTITY = ("uio", "uis", "uiois", "repu")
ATTRIBUTE = (
    *("dorig", "dsyn", "iso", "dis", "disco", "disdio", "correct"),
    *("base_cap", "capd", "caps", "dcap", "tcap"),
)


class Keyed(NamedTuple):
    """Number of each record's key in the original (n,) and the release (n',), below ``size``."""

    original: Ints
    release: Ints
    size: int


class Identity(NamedTuple):
    """Counts of records behind `IDENTITY`, their denominators, and the replicated uniques (n,)."""

    counts: tuple[float, ...]
    of: tuple[float, ...]
    replicated: Flags


class Attribute(NamedTuple):
    """Counts of records behind `ATTRIBUTE`, their denominators, and who is in DiSCO (n,)."""

    counts: tuple[float, ...]
    of: tuple[float, ...]
    disclosed: Flags


def keyed(columns: Sequence[tuple[Ints, Ints, int]]) -> Keyed:
    """Combinations of codes (original, release, levels) as one number each."""
    n = len(columns[0][0])
    where, size = np.zeros(n + len(columns[0][1]), dtype=np.int64), 1
    for original, release, levels in columns:
        where = where * levels + np.concatenate([original, release])
        seen, where = np.unique(where, return_inverse=True)
        size = len(seen)
    return Keyed(where[:n], where[n:], size)


def identity(key: Keyed) -> Identity:
    """Uniques of the original and the release, and those that are both."""
    d, s = _count(key.original, key.size), _count(key.release, key.size)
    N_d, N_s = float(len(key.original)), float(len(key.release))
    single = d == 1
    replicated = single & (s == 1)
    counts = (single.sum(), (s == 1).sum(), (single & (s > 0)).sum(), replicated.sum())
    return Identity(tuple(map(float, counts)), (N_d, N_s, N_d, N_d), replicated[key.original])


def attribute(key: Keyed, target: tuple[Ints, Ints, int]) -> Attribute:
    """Which keys give a target away, in either file, and how often rightly."""
    both = keyed([(key.original, key.release, key.size), target])
    d, s = _count(key.original, key.size), _count(key.release, key.size)
    d_t, s_t = _count(both.original, both.size), _count(both.release, both.size)
    q = np.zeros(both.size, dtype=np.int64)  # key of each pair of key and target
    q[both.original], q[both.release] = key.original, key.release
    share_d = np.divide(d_t, d[q], out=np.zeros(both.size), where=d[q] > 0)
    share_s = np.divide(s_t, s[q], out=np.zeros(both.size), where=s[q] > 0)
    in_s, sure_d, sure_s = s[q] > 0, d_t == d[q], (s_t == s[q]) & (s_t > 0)
    one_target = np.bincount(q[s_t > 0], minlength=key.size) == 1  # keys disclosive in the release
    N_d, N_s = float(len(key.original)), float(len(key.release))
    margin = _count(target[0], target[2]) / N_d
    found, dis = float(d_t[in_s].sum()), float((d * one_target).sum())
    disco = float(d_t[sure_s].sum())
    counts = (
        float(d_t[sure_d].sum()),  # Dorig
        float(s_t[sure_s].sum()),  # Dsyn
        found,  # iSO
        dis,  # DiS
        disco,  # DiSCO
        float(d_t[sure_s & sure_d].sum()),  # DiSDiO
        disco,  # DiSCO of DiS
        float((margin**2).sum() * N_d),  # baseCAPd
        float((share_d * d_t).sum()),  # CAPd
        float((share_s * s_t).sum()),  # CAPs
        float((share_s * d_t).sum()),  # DCAP
        disco,  # TCAP
    )
    of = (N_d, N_s, N_d, N_d, N_d, N_d, dis, N_d, N_d, N_s, N_d, found)
    return Attribute(counts, of, sure_s[both.original])


def _count(cells: Ints, size: int) -> Array:
    return np.bincount(cells, minlength=size).astype(float)
