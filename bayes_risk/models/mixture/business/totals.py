"""Dealing of totals, MM and TCMM: the confidential total of a group goes to its own records.

Given the labels, the counts of a group are Poisson with a common rate, so given their total they
are multinomial with chances e_i / sum e: the deal is a draw from the same distribution that the
confidential values have.
"""

import numpy as np

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import in_range

TAIL = -1


def checked_quantile(kind: str, quantile: float) -> float:
    """A quantile strictly between 0 and 1, for TCMM alone."""
    if kind != "TCMM":
        text = f"has no meaning for {kind}; leave it out, or declare TCMM"
        raise InputError("quantile", quantile, text)
    return in_range("quantile", quantile)


def thresholds(counts: Array, quantile: float) -> Array:
    """Least value with at least that share of records at or below it, by column, shape (p,)."""
    limits: Array = np.quantile(counts, quantile, axis=0, method="inverted_cdf")
    return limits


def groups_of(labels: Ints, counts: Array, quantile: float | None) -> Ints:
    """Which records share a total, by column: their components, or the tail -1; shape (n, p)."""
    groups = np.repeat(labels[:, None], counts.shape[1], axis=1)
    if quantile is not None:
        groups[counts > thresholds(counts, quantile)] = TAIL
    return groups


def dealt(rng: np.random.Generator, counts: Array, exposure: Array, groups: Ints) -> Ints:
    """Each group's total, dealt to its records by Multinomial(T; e_i / sum e), (n, p)."""
    out = np.empty(counts.shape, np.int64)
    for j in range(counts.shape[1]):
        x = counts[:, j].astype(np.int64)
        for group in np.unique(groups[:, j]):
            mine = groups[:, j] == group
            e = exposure[mine, j]
            out[mine, j] = rng.multinomial(x[mine].sum(), e / e.sum())
    return out
