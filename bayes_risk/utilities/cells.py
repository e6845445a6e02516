"""Two tables of counts compared: the original's cells o and the release's cells s.

Letters: k cells that either file occupies, n_1 and n_2 records, N = n_1 + n_2, c = n_2 / N. What a
release would show that was drawn from the original's own proportions stands beside each measure;
derivations in ``docs/utility.md``.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, xlog1py, xlogy

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

DENSE = 4  # cells per record up to which counting beats sorting


class Counts(NamedTuple):
    """Occupied cells (k,): both files' records, and which level of an unsynthesised column."""

    original: Reals
    release: Reals
    within: Ints | None


class TableDistance(NamedTuple):
    """Measures of one table and, with ``null_``, what a faithful release would show.

    ``pmse``: propensity-score mean squared error of the saturated model; ``df``: its degrees of
    freedom; ``ratio``: pMSE over its null expectation (S_pMSE); ``total_variation`` and
    ``hellinger``: distances from 0 to 1.
    """

    pmse: float
    null_pmse: float
    df: float
    ratio: float
    total_variation: float
    null_total_variation: float
    hellinger: float
    null_hellinger: float


def group_edges(y: Reals, groups: int) -> Reals:
    """Where to cut a number: its quantiles in the original, missing values left out."""
    seen = y[~np.isnan(y)]
    return np.unique(np.quantile(seen, np.linspace(0, 1, groups + 1)[1:-1]))


def group_of(values: Reals, edges: Reals) -> Ints:
    """Group of each value, ``0 .. len(edges)``; one more for missing values."""
    return np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values))


def counts(y: Ints, z: Ints, size: int, width: int | None = None) -> Counts:
    """Occupied cells of codes below ``size``; with ``width`` levels of the last column.

    ``width``: cells are ``level of the unsynthesised column * width + level of the other``.
    """
    if size <= DENSE * (len(y) + len(z)):
        o, s = (np.bincount(x, minlength=size).astype(float) for x in (y, z))
        cell = np.flatnonzero(o + s)
        o, s = o[cell], s[cell]
    else:
        cell, where = np.unique(np.concatenate([y, z]), return_inverse=True)
        o, s = (
            np.bincount(x, minlength=len(cell)).astype(float)
            for x in (where[: len(y)], where[len(y) :])
        )
    return Counts(o, s, None if width is None else cell // width)


def total_variation(y: Ints, z: Ints, size: int) -> float:
    """``1/2 sum |share in the original - share in the release|``: 0 the same, 1 nothing shared."""
    table = counts(y, z, size)
    return _total_variation(table.original / len(y), table.release / len(z))


def distance(table: Counts, replaced: float = 1.0) -> TableDistance:
    """All measures of a table; a share f of the records was replaced."""
    varying = replaced * (2 - replaced)  # f (2 - f): the new values vary, and whose they replace
    o, s, within = table
    n_1, n_2 = o.sum(), s.sum()
    N, c = n_1 + n_2, n_2 / (n_1 + n_2)
    # pMSE = sum_j (o_j + s_j) (s_j / (o_j + s_j) - c)^2 / N
    pmse = float(((o + s) * (s / (o + s) - c) ** 2).sum() / N)
    fixed = 1 if within is None else len(np.unique(within))
    df = len(o) - fixed
    # E = df c (1 - c)^2 / N, as the original is fixed and s_j varies about o_j n_2 / n_1
    expected = df * c * (1 - c) ** 2 / N * varying
    p, q = o / n_1, s / n_2
    return TableDistance(
        pmse=pmse,
        null_pmse=float(expected),
        df=float(df),
        ratio=pmse / expected if expected > 0 else float("nan"),
        total_variation=_total_variation(p, q),
        null_total_variation=_null_total_variation(o, n_1, n_2, within) * varying**0.5,
        hellinger=float(np.sqrt(0.5 * ((np.sqrt(p) - np.sqrt(q)) ** 2).sum())),
        # 8 n_2 H^2 is the Freeman-Tukey statistic, about chi-squared with df
        null_hellinger=float(np.sqrt(df * varying / (8 * n_2))),
    )


def mutual_information(joint: Ints, size: tuple[int, int]) -> float:
    """Mutual information in nats of a pair of columns, whose cells are ``first * d_2 + second``."""
    cell, number = np.unique(joint, return_counts=True)
    n = len(joint)
    first, second = np.divmod(cell, size[1])
    rows = np.bincount(first, weights=number, minlength=size[0])[first]
    columns = np.bincount(second, weights=number, minlength=size[1])[second]
    # sum p log(p / (p_1 p_2))
    return float((number / n * np.log(number * n / (rows * columns))).sum())


def _total_variation(p: Reals, q: Reals) -> float:
    return float(0.5 * np.abs(p - q).sum())


def _null_total_variation(o: Reals, n_1: float, n_2: float, within: Ints | None) -> float:
    """Expected distance, were s_j binomial about the original's proportions."""
    if within is None:
        drawn, share = np.full(len(o), n_2), o / n_1
    else:
        total = np.bincount(within, weights=o)[within]
        drawn, share = total * n_2 / n_1, np.divide(o, total, out=np.zeros(len(o)), where=total > 0)
    return float(0.5 * _mean_deviation(drawn, share).sum() / n_2)


def _mean_deviation(n: Reals, p: Reals) -> Reals:
    """``E|X - np|`` of binomials (De Moivre): ``2 k C(n, k) p^k (1 - p)^(n - k + 1)``."""
    k = np.minimum(np.floor(n * p), n - 1) + 1
    k = np.maximum(k, 1.0)
    log_choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(np.maximum(n - k, 0) + 1)
    log_value = np.log(2 * k) + log_choose + xlogy(k, p) + xlog1py(n - k + 1, -p)
    return np.where((p > 0) & (p < 1), np.exp(log_value), 0.0)
