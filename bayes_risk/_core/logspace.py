"""Sums and ratios of probabilities whose logs are given."""

import numpy as np

from .arrays import Array

BLOCK = 2**16  # numbers that are copied at a time


def log_sum(x: Array, axis: int = 0) -> Array:
    """log sum exp(x) along an axis; minus infinity where nothing is there."""
    if axis == 0 and x.ndim == 2 and x.size > BLOCK:  # of all at once there would be a copy
        parts = np.array_split(np.arange(x.shape[1]), -(-x.size // BLOCK))
        return np.concatenate([log_sum(x[:, of[0] : of[-1] + 1]) for of in parts])
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
