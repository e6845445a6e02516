"""Sums and ratios of probabilities whose logs are given."""

import numpy as np

from .arrays import Array

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
