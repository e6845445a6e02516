"""Sums and ratios of probabilities whose logs are given."""

from typing import Any

import numpy as np
from scipy.special import gammaln

from .arrays import Array, Ints

BLOCK = 2**16  # numbers that are copied at a time


def log_sum(x: Array, axis: int = 0) -> Array:
    """log sum exp(x) along an axis; minus infinity where nothing is there."""
    wide = max(BLOCK // max(len(x), 1), 1)  # columns; of all at once there would be a copy
    if axis == 0 and x.ndim == 2 and x.shape[1] > wide:
        return np.concatenate([log_sum(x[:, k : k + wide]) for k in range(0, x.shape[1], wide)])
    top = np.maximum(x.max(axis=axis, keepdims=True), -1e300)
    share = x - top
    with np.errstate(divide="ignore"):
        total: Array = np.log(np.exp(share, out=share).sum(axis=axis)) + np.squeeze(top, axis=axis)
    return total


def change(x: Array, y: Array, nothing: float = -np.inf) -> Array:
    """Difference x - y of logs; where x is minus infinity (nothing allows it), ``nothing``."""
    possible = x > -np.inf
    out = np.full(np.broadcast_shapes(x.shape, y.shape), nothing)
    np.subtract(x, y, out=out, where=np.broadcast_to(possible, out.shape))
    return out


def log_drawn(k: Ints, marked: Any, drawn: Any, of: Any) -> Array:
    """log probability that k marked ones are among those drawn of all (hypergeometric)."""
    parts = ((marked, k), (of - marked, drawn - k), (of, drawn))
    possible = (k <= marked) & (k <= drawn) & (drawn - k <= of - marked)
    with np.errstate(invalid="ignore"):  # infinity less infinity, where it is impossible
        logs = [gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1) for n, x in parts]
        return np.where(possible, logs[0] + logs[1] - logs[2], -np.inf)
