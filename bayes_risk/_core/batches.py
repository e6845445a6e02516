"""Monte Carlo error from batches of draws: between chains, and between the halves of chains.

A *deviation* is how far the estimate from one batch of draws lies from the estimate of all of them.
Its first axis counts independent fits F, its second the B = 2 C batches: halves of C chains, in
order.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import fdtri, stdtrit

from .arrays import Array, Flags, Ints


def batch_of_draws(n_draws: int, n_chains: int) -> Ints:
    """Batch of each draw, chain after chain, two batches a chain; shape (H,)."""
    size = n_draws // n_chains
    half = (np.arange(size) >= size // 2).astype(np.int64)
    return np.concatenate([2 * c + half for c in range(n_chains)])


def variance_of_estimate(deviations: Array) -> Array:
    """Variance of the sum over fits of batch means, shape of ``deviations`` without (F, B).

    For each fit the larger of two estimates: s^2 / B between the halves of chains, which has more
    degrees of freedom, and s^2 / C between whole chains, which sees chains that never met.
    """
    return np.asarray(variance_by_fit(deviations).sum(axis=0))


def variance_by_fit(deviations: Array) -> Array:
    """The same, fit by fit; shape of ``deviations`` without B."""
    halves = _variance_of_mean(deviations)
    if deviations.shape[1] < 4:
        return halves
    chains = 0.5 * (deviations[:, 0::2] + deviations[:, 1::2])
    return np.maximum(halves, _variance_of_mean(chains))


def _variance_of_mean(x: Array) -> Array:
    """Sample variance over axis 1, divided by its length."""
    centred = x - x.mean(axis=1, keepdims=True)
    n = x.shape[1]
    return np.asarray((centred**2).sum(axis=1) / (n * (n - 1)))


def standard_error(deviations: Array, *, few: bool) -> Array:
    """Monte Carlo error of a sum over fits; ``few``: of a few chains, with `student_factor`."""
    variance = variance_by_fit(deviations)
    error: Array = np.sqrt(variance.sum(axis=0))
    return error * student_factor(variance, deviations.shape[1]) if few else error


def student_factor(variance: Array, n_batches: int) -> Array:
    """How much wider than the normal 95 % interval one with errors between chains has to be.

    Student's t with the degrees of freedom of Welch and Satterthwaite, C - 1 from each fit of
    C = B / 2 chains; ``variance`` of each fit (F, ...), the result (...).
    """
    freedom = max(n_batches // 2 - 1, 1)
    squares = (variance**2).sum(axis=0) / freedom
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(squares > 0, squares / variance.sum(axis=0) ** 2, 0.0)
    return np.asarray(np.interp(inverse, _INVERSE, _FACTOR))


def zeros(shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
    """Zeros that take no room, and cannot be written to."""
    return np.broadcast_to(np.zeros((), dtype=dtype), shape)


def in_batches(deviations: Any, B: int) -> Any:
    """Deviations (F, B', G, U) of neighbouring chains together, so that the variance stays."""
    own = deviations.shape[1]
    if own == B:
        return deviations
    if not deviations.any():
        return zeros((len(deviations), B, *deviations.shape[2:]), deviations.dtype)
    halves = 2 if own % 2 == 0 and B % 2 == 0 else 1
    units, groups = own // halves, B // halves
    out = np.empty((len(deviations), B, *deviations.shape[2:]), dtype=deviations.dtype)
    for g, members in enumerate(np.array_split(np.arange(units), groups)):
        scale = np.sqrt(len(members) * groups / units)  # of means of unequal numbers
        for half in range(halves):
            mean = deviations[:, members * halves + half].mean(axis=1)
            out[:, g * halves + half] = scale * mean
    return out


def chains_disagree(deviations: Array, level: float = 0.001) -> Flags:
    """Whether whole chains of any fit differ by more than their halves do, by their variances."""
    F, B = deviations.shape[:2]
    C = B // 2
    if C < 2:
        return np.zeros(deviations.shape[2:], dtype=bool)
    first, second = deviations[:, 0::2], deviations[:, 1::2]
    within = ((first - second) ** 2).sum(axis=1) / (2 * C)
    between = 2 * (0.5 * (first + second)).var(axis=1, ddof=1)
    return np.asarray((between > fdtri(C - 1, C, 1 - level / F) * within).any(axis=0))


_FREEDOM = np.array(
    [np.inf, 100, 50, 30, 20, 15, 12, 10, 8, 7, 6, 5, 4, 3.5, 3, 2.5, 2, 1.75, 1.5, 1.25, 1]
)
_INVERSE = 1.0 / _FREEDOM
_FACTOR = stdtrit(_FREEDOM, 0.975) / stdtrit(np.inf, 0.975)
