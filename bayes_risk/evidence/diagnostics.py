"""How far a number can be trusted: Pareto k-hat, effective sample size, R-hat.

The only door to Pareto smoothing and to ArviZ's convergence diagnostics.
"""

import numpy as np

from bayes_risk._compat import effective_draws, split_rhat
from bayes_risk._core import pareto
from bayes_risk._core.arrays import Array

EQUAL = 1e-10
MIN_DRAWS = 25


def khat_threshold(n_draws: int) -> float:
    """Largest k-hat that can be trusted, ``min(1 - 1/log10(H), 0.7)`` (Vehtari et al. 2024).

    >>> round(khat_threshold(1000), 3), khat_threshold(100_000)
    (0.667, 0.7)
    """
    return float(min(1.0 - 1.0 / np.log10(max(n_draws, 11)), pareto.GOOD_KHAT))


def pareto_smoothed(log_weights: Array, reff: float = 1.0) -> tuple[Array, Array]:
    """Smooth the largest importance weights (logs) of each column (H, U), and tell its tail index.

    ``reff``: effective draws per draw. Smoothed log weights are not normalised; columns of equal
    weights need no smoothing, and their k-hat (U,) is 0.

    The smoothing is that of Vehtari et al. (2024), draw for draw what ``arviz.psislw`` does before
    ArviZ 1. Discrete tails, whose ties no Pareto tail has, are bounded and left as they are.

    Blurred ties gave k-hats up to 10 for weights of which the largest was not twice the median. So
    the largest weight has a say: of S draws from a Pareto tail it exceeds the smallest by ``log S -
    log(-log 0.001)`` times k (in logs) or more with probability 0.999. A k-hat above what it allows
    is replaced by that, and the weights stay as they are (`tests/evidence/test_diagnostics.py`).

    Cost: O(U (H + S sqrt(S))) for tails of S weights; 0.1 ms a column at H = 1,000.
    """
    H, U = log_weights.shape
    smoothed, khat = log_weights.copy(), np.zeros(U)
    vary = np.flatnonzero(np.ptp(log_weights, axis=0) > EQUAL)
    if H < MIN_DRAWS:
        khat[vary] = np.inf
    elif len(vary):
        rows = np.ascontiguousarray(log_weights[:, vary].T)
        size = int(np.ceil(min(0.2 * H, 3 * np.sqrt(H / reff))))
        lw, k = rows.copy(), np.empty(len(rows))
        tail = np.sort(rows, axis=1)[:, -size - 1 :]
        pareto.smooth_tails(lw, tail[:, 0].copy(), k)
        allowed = _largest_allows(tail[:, 1:])
        sound = np.isfinite(k) & np.isfinite(lw).all(axis=1) & (k <= allowed)
        smoothed[:, vary[sound]] = lw[sound].T
        khat[vary] = np.where(sound, k, allowed)
    return smoothed, khat


def _largest_allows(tail: Array) -> Array:
    """Largest Pareto index that ordered tails (U, S) do not contradict; 0 for discrete ones."""
    S = tail.shape[1]
    spread = np.log(S) - np.log(-np.log(0.001))
    allowed = np.ptp(tail, axis=1) / spread if spread > 0 else np.full(len(tail), np.inf)
    return np.where((np.diff(tail, axis=1) > EQUAL).sum(axis=1) < S // 2, 0.0, allowed)


def weight_ess(log_weights: Array) -> Array:
    """Effective number of draws ``(sum w)^2 / sum w^2`` of each column, shape (U,)."""
    w = np.exp(log_weights - log_weights.max(axis=0))
    return np.asarray(w.sum(axis=0) ** 2 / (w**2).sum(axis=0))


def ess_and_rhat(values: Array, n_chains: int) -> tuple[Array, Array]:
    """Bulk ESS and rank-normalised split R-hat of each column of (H, U); constants: H and 1."""
    H, U = values.shape
    ess, rhat = np.full(U, float(H)), np.ones(U)
    by_chain = values.reshape(n_chains, H // n_chains, U)
    for u in np.flatnonzero(np.ptp(values, axis=0) > EQUAL):
        with np.errstate(divide="ignore", invalid="ignore"):
            ess[u] = effective_draws(by_chain[:, :, u])
            rhat[u] = split_rhat(by_chain[:, :, u]) if n_chains > 1 else np.nan
    return ess, rhat


def relative_efficiency(values: Array, n_chains: int, at_most: int = 40) -> float:
    """Median effective draws per draw over a few columns of (H, U), at most 1."""
    some = np.linspace(0, values.shape[1] - 1, min(at_most, values.shape[1])).astype(int)
    ess, _ = ess_and_rhat(values[:, some], n_chains)
    return float(np.clip(np.median(ess) / len(values), 1e-3, 1.0))
