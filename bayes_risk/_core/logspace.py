"""Sums of probabilities whose logs are given."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def log_sum(x: Array, axis: int = 0) -> Array:
    """log sum exp(x) along an axis; minus infinity where nothing is there."""
    top = np.maximum(x.max(axis=axis, keepdims=True), -1e300)
    with np.errstate(divide="ignore"):
        total: Array = np.log(np.exp(x - top).sum(axis=axis)) + np.squeeze(top, axis=axis)
    return total
