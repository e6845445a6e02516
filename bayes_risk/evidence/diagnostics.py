"""How far a number can be trusted: Pareto k-hat, effective sample size, R-hat.

The only door to Pareto smoothing and to ArviZ's convergence diagnostics.
"""

import numpy as np
import numpy.typing as npt

from bayes_risk._compat import effective_draws, split_rhat
from bayes_risk._core import pareto

Array = npt.NDArray[np.float64]
EQUAL = 1e-10
MIN_DRAWS = 25


def khat_threshold(n_draws: int) -> float:
    """Largest k-hat that can be trusted, ``min(1 - 1/log10(H), 0.7)`` (Vehtari et al. 2024).

    Parameters
    ----------
    n_draws : int
        Number H of draws.

    Returns
    -------
    float

    Examples
    --------
    >>> round(khat_threshold(1000), 3), khat_threshold(100_000)
    (0.667, 0.7)
    """
    return float(min(1.0 - 1.0 / np.log10(max(n_draws, 11)), 0.7))


def pareto_smoothed(log_weights: Array, reff: float = 1.0) -> tuple[Array, Array]:
    """Smooth the largest importance weights of each column.

    Parameters
    ----------
    log_weights : ndarray, shape (H, U)
        Log weights (not log likelihoods) of H draws for U targets.
    reff : float
        Effective draws per draw.

    Returns
    -------
    smoothed : ndarray, shape (H, U)
        Log weights, not normalised.
    khat : ndarray, shape (U,)
        Tail index; columns of equal weights need no smoothing and get 0.

    Notes
    -----
    The smoothing is that of Vehtari et al. (2024), draw for draw what ``arviz.psislw`` does before
    ArviZ 1. It has no answer for weights that are all the same, which is the best case, and gives
    NaN or a biased fit where the tail consists of ties: the weights of tiny tables take few values,
    and no Pareto tail has atoms. Discrete tails are bounded; they are left as they are, k-hat 0.

    Blurred ties, as labels make them when the concentration is sampled too, gave k-hats up to 10
    for weights of which the largest was not twice the median. So the largest weight has a say: of
    S draws from a Pareto tail it exceeds the smallest by ``log S - log(-log 0.001)`` times k (in
    logs) or more with probability 0.999. A k-hat above what it allows is replaced by that, and
    the weights are left as they are: with errors that hold, unlike smoothed ones (simulations in
    `tests/test_diagnostics.py`, refits in `docs/evidence.md`).

    Cost: O(U (H + S sqrt(S))) for tails of S weights; 0.1 ms a column at H = 1,000.
    """
    H, U = log_weights.shape
    smoothed, khat = log_weights.copy(), np.zeros(U)
    vary = np.flatnonzero(np.ptp(log_weights, axis=0) > EQUAL)
    if H < MIN_DRAWS:
        khat[vary] = np.inf
    elif len(vary):
        rows = np.ascontiguousarray(log_weights[:, vary].T)
        tail, lw, k = _tail(rows, reff), rows.copy(), np.empty(len(rows))
        pareto.smooth(lw, tail.shape[1], k)
        allowed = np.where(_tied(tail), 0.0, _largest_allows(tail))
        sound = np.isfinite(k) & np.isfinite(lw).all(axis=1) & (k <= allowed)
        smoothed[:, vary[sound]] = lw[sound].T
        khat[vary] = np.where(sound, k, allowed)
    return smoothed, khat


def _tail(rows: Array, reff: float) -> Array:
    """The largest weights of each row, those that would be smoothed, in order; shape (U, S)."""
    H = rows.shape[1]
    size = int(np.ceil(min(0.2 * H, 3 * np.sqrt(H / reff))))
    return np.sort(rows, axis=1)[:, -size:]


def _tied(tail: Array) -> npt.NDArray[np.bool_]:
    """Whether a tail is discrete: at most half its values distinct."""
    few: npt.NDArray[np.bool_] = (np.diff(tail, axis=1) > EQUAL).sum(axis=1) < tail.shape[1] // 2
    return few


def _largest_allows(tail: Array) -> Array:
    """Largest Pareto index that the largest weight does not contradict; short tails set none."""
    spread = np.log(tail.shape[1]) - np.log(-np.log(0.001))
    return np.ptp(tail, axis=1) / spread if spread > 0 else np.full(len(tail), np.inf)


def weight_ess(log_weights: Array) -> Array:
    """Effective number of draws ``(sum w)^2 / sum w^2`` of each column, shape (U,)."""
    w = np.exp(log_weights - log_weights.max(axis=0))
    ess: Array = w.sum(axis=0) ** 2 / (w**2).sum(axis=0)
    return ess


def ess_and_rhat(values: Array, n_chains: int) -> tuple[Array, Array]:
    """Bulk ESS and rank-normalised split R-hat of each column of (H, U); constants: H and 1.

    Chains that stand still at different places: R-hat is infinite.
    """
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
