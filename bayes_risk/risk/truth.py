"""Where the truth stands among the guesses: its rank, its ties, its log odds."""

import numpy as np

from bayes_risk._core.arrays import Array, Ints

TIE_TOLERANCE = 1e-9


def ranks_of(log_p: Array, truth: Ints) -> tuple[Ints, Ints]:
    """Rank of the truth (1 = likeliest) and how many other guesses tie with it, shape (n,)."""
    mine = np.take_along_axis(log_p, truth[None, :], axis=0)
    rank = 1 + (log_p > mine + TIE_TOLERANCE).sum(axis=0)
    ties = (np.abs(difference(log_p, mine)) <= TIE_TOLERANCE).sum(axis=0) - 1
    return rank, np.where(np.isfinite(mine[0]), ties, 0)


def log_odds(log_p_truth: Array, log_p: Array, truth: Ints) -> Array:
    """log p/(1-p) of the truth; 1-p is summed over the others, so p near 1 keeps its digits."""
    others = log_p.copy()
    np.put_along_axis(others, truth[None, :], -np.inf, axis=0)
    top = np.maximum(others.max(axis=0), -1e300)
    with np.errstate(divide="ignore"):
        rest: Array = top + np.log(np.exp(others - top).sum(axis=0))
    return log_p_truth - rest


def difference(x: Array, y: Array) -> Array:
    """Difference of logs; NaN where both are the same infinity."""
    with np.errstate(invalid="ignore"):
        out: Array = x - y
    return out
