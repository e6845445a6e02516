"""Compiled loops of Pareto smoothing: the largest weights give way to quantiles of their fit.

Of H weights, those above the (S+1)-th largest are the tail. Their excess x over it, in units of it,
gets a generalised Pareto distribution by Zhang & Stephens (2009): b is averaged over a grid, each
point weighted by its profile likelihood; given b, the index is the mean of ``log(1 - b x)``. It is
drawn to 1/2 as if by ten further points. The r-th smallest tail weight then becomes the quantile
at (r - 1/2) / S, at most the largest weight there was (Vehtari et al. 2024). Excess and quantile
never leave logs but by ``expm1`` and ``log1p``: weights that differ little keep their digits.
"""

import math

import numba
import numpy as np

GOOD_KHAT = 0.7  # of a tail index: above, a few draws decide (Vehtari et al. 2024)
SMALLEST = math.log(np.finfo(np.float64).tiny)  # of a weight, against the largest
NEGLIGIBLE = 10 * np.finfo(np.float64).eps
PRIOR_POINTS = 10  # of index 1/2
NO_INDEX = np.finfo(np.float64).eps  # beneath it the tail is exponential
LEAST_TAIL = 5


@numba.njit(cache=True, nogil=True, error_model="numpy")
def smooth_tails(rows, cutoffs, khat):
    """Smooth each row of log weights above its cutoff in place; k-hats, infinite where not."""
    for u in range(len(rows)):
        row = rows[u]
        cutoff = max(cutoffs[u], row.max() + SMALLEST)
        where = np.flatnonzero(row > cutoff)
        khat[u] = np.inf
        if len(where) >= LEAST_TAIL:
            where = where[np.argsort(row[where])]
            k, sigma = pareto_fit(np.expm1(row[where] - cutoff))
            khat[u] = k
            if math.isfinite(k):
                replace(row, where, cutoff, k, sigma)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def replace(row, where, cutoff, k, sigma):
    """Put quantiles of the fit into the places of the tail, which are in order."""
    top = row[where[-1]]
    for r in range(len(where)):
        left = math.log1p(-(r + 0.5) / len(where))
        excess = -left if abs(k) < NO_INDEX else math.expm1(-k * left) / k
        row[where[r]] = min(cutoff + math.log1p(sigma * excess), top)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def pareto_fit(x):
    """Index and scale of the generalised Pareto distribution of excesses in order."""
    b, weight = grid(x)
    middle = (b * weight).sum()
    k = index_given(x, middle)
    n = len(x)
    return (n * k + PRIOR_POINTS * 0.5) / (n + PRIOR_POINTS), -k / middle


@numba.njit(cache=True, nogil=True, error_model="numpy")
def grid(x):
    """Values of b by quantiles of its prior, and their weights, the negligible left out."""
    n = len(x)
    size = 30 + int(math.sqrt(n))
    b, loglik = np.empty(size), np.empty(size)
    for i in range(size):
        quantile = 1 - math.sqrt(size / (i + 0.5))
        b[i] = quantile / (3 * x[int(n / 4 + 0.5) - 1]) + 1 / x[-1]
        k = index_given(x, b[i])
        loglik[i] = n * (math.log(-b[i] / k) - k - 1)
    weight = np.exp(loglik - loglik.max())
    weight /= weight.sum()
    weight[weight < NEGLIGIBLE] = 0.0
    return b, weight / weight.sum()


@numba.njit(cache=True, nogil=True, error_model="numpy")
def index_given(x, b):
    """Index of largest likelihood given b: the mean of ``log(1 - b x)``."""
    total = 0.0
    for value in x:
        total += math.log1p(-b * value)
    return total / len(x)
