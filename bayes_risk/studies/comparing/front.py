"""The Pareto front: candidates that no other beats in both risk and utility."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def dominates(losses: Array) -> Flags:
    """Whether candidate b is at least as good as a in both, and better in one.

    Parameters
    ----------
    losses : ndarray, shape (..., C, 2)
        Less is better.

    Returns
    -------
    ndarray of bool, shape (..., C, C)
        ``[a, b]``: b dominates a.
    """
    a, b = losses[..., :, None, :], losses[..., None, :, :]
    return np.asarray((b <= a).all(axis=-1) & (b < a).any(axis=-1))


def on_front(losses: Array) -> Flags:
    """Candidates that nobody dominates, shape (..., C)."""
    return np.asarray(~dominates(losses).any(axis=-1))


def drawn_means(replicates: Array, errors: Array, size: int, rng: np.random.Generator) -> Array:
    r"""Where the mean of a candidate may lie, given its replicates.

    Of R > 1 replicates with mean :math:`\bar x` and covariance S, draws of
    :math:`\bar x + t`, t bivariate Student with R - 1 degrees of freedom and scale S / R (the
    posterior of each mean under a flat prior of mean and log variance). With deviations D of shape
    (R, 2) and w standard normal, :math:`D^\top w / \sqrt{R (R - 1)}` has covariance S / R. Of one
    replicate, normal draws with its Monte Carlo errors.

    Parameters
    ----------
    replicates : ndarray, shape (R, 2)
    errors : ndarray, shape (2,)
        Of a single replicate; NaN counts as none.
    size : int
    rng : Generator

    Returns
    -------
    ndarray, shape (size, 2)
    """
    R, mean = len(replicates), replicates.mean(axis=0)
    if R == 1:
        spread: Array = rng.standard_normal((size, 2)) * np.nan_to_num(errors)
        return np.asarray(mean + spread)
    normal = rng.standard_normal((size, R)) @ (replicates - mean) / np.sqrt(R * (R - 1))
    scale = np.sqrt(rng.chisquare(R - 1, size=size) / (R - 1))
    return np.asarray(mean + normal / scale[:, None])
