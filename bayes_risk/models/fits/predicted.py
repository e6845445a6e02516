"""Predictives of donors: what the values of similar records say of one that is left out.

Trees and donors draw what they hold, so that a value which nobody else holds would be impossible
before the release. One further record keeps it possible: of a category it has each of d levels with
1 / d; of a number, a Student t (3 degrees of freedom) with mean and deviation of all other records.
A number that many records share, such as 0, keeps its share; kernels lie around all others.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import betaln

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.logspace import log_sum
from bayes_risk.intruder.guesses import PointMasses

DF = 3
SILVERMAN = 1.06


class Spread(NamedTuple):
    """Mean and deviation of a number among records, that of each target left out, (U,)."""

    mean: Array
    sd: Array

    @classmethod
    def without(cls, values: Array, own: Array, fitted: Flags) -> "Spread":
        """``values`` (n,); ``own`` (U,) of the targets, among them if ``fitted`` (U,)."""
        values = values[np.isfinite(values)]
        if not len(values):  # whose outcomes are not known
            return cls(np.zeros(len(own)), np.ones(len(own)))
        fitted, at = fitted & np.isfinite(own), float(values.mean())
        moved = np.where(fitted, own - at, 0.0)
        n = np.maximum(len(values) - fitted, 1)
        mean = -moved / n
        square = np.maximum(((values - at) ** 2).sum() - moved**2, 0.0) / n - mean**2
        return cls(at + mean, np.maximum(np.sqrt(np.maximum(square, 0.0)), least_sd(values)))


def least_sd(values: Array) -> float:
    """A deviation where all numbers are equal: of one of them, as it is stored."""
    return float(np.finfo(float).eps * max(float(np.abs(values).max()), 1.0))


def log_level(count: Array, total: Array | float, d: int) -> Array:
    """log p of a level that ``count`` of ``total`` records have, one of d."""
    return np.asarray(np.log((count + 1.0 / d) / (total + 1.0)))


def log_predicted(
    points: Array, values: Array, weights: Array, spread: Spread, shared: PointMasses
) -> Array:
    """Log density at points (R,): records' ``values`` (1, N), weights (R or 1, N), what is shared.

    Where guesses are held values, the density of those that few records share sums to one.
    """
    if not len(shared.values):
        return log_kernel_density(points, values, weights, spread)
    own = weights * ~np.isin(values, shared.values)
    parts = [log_kernel_density(points, values, own, spread) + np.log(own.sum(axis=1) + 1.0)]
    of_all: Array | float = 0.0
    if shared.held is not None and len(shared.held):
        mean = Spread(spread.mean[:1], spread.sd[:1])
        of_all = log_sum(log_kernel_density(shared.held, values, own.mean(axis=0)[None], mean))
    with np.errstate(divide="ignore"):
        for value, log_width in zip(shared.values, shared.log_width, strict=True):
            count = np.log((weights * (values == value)).sum(axis=1))
            parts.append(np.where(points == value, count - log_width + of_all, -np.inf))
    return np.asarray(log_sum(np.stack(parts)) - np.log(weights.sum(axis=1) + 1.0))


def log_kernel_density(points: Array, values: Array, weights: Array, spread: Spread) -> Array:
    """Log density at points (R,): weighted kernels (R or 1, N), the bandwidth Silverman's."""
    total = weights.sum(axis=1)
    centre = (weights * np.where(weights > 0, values, 0.0)).sum(axis=1) / np.maximum(total, 1e-300)
    square = (weights * np.where(weights > 0, values - centre[:, None], 0.0) ** 2).sum(axis=1)
    h = SILVERMAN * np.sqrt((square + spread.sd**2) / (total + 1.0)) * (total + 1.0) ** -0.2
    z = (points[:, None] - values) / h[:, None]
    with np.errstate(divide="ignore"):
        near = np.log(weights) - 0.5 * z**2 - np.log(h[:, None] * np.sqrt(2.0 * np.pi))
    away = ((points - spread.mean) / spread.sd) ** 2 / DF
    far = -betaln(0.5, DF / 2) - 0.5 * (np.log(DF) + (DF + 1) * np.log1p(away)) - np.log(spread.sd)
    both = np.concatenate([np.broadcast_to(near, z.shape).T, far[None]])
    return np.asarray(log_sum(both) - np.log(total + 1.0))
