"""Monte Carlo error from batches of draws: between chains, and between the halves of chains.

A *deviation* is how far the estimate from one batch of draws lies from the estimate of all of them.
Its first axis counts independent fits F, its second the B = 2 C batches: halves of C chains, in
order.
"""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def batch_of_draws(n_draws: int, n_chains: int) -> npt.NDArray[np.int64]:
    """Batch of each draw, chain after chain, two batches a chain; shape (H,)."""
    size = n_draws // n_chains
    half = (np.arange(size) >= size // 2).astype(np.int64)
    return np.concatenate([2 * c + half for c in range(n_chains)])


def variance_of_estimate(deviations: Array) -> Array:
    """Variance of the sum over fits of batch means, shape of ``deviations`` without (F, B).

    For each fit the larger of two estimates: s^2 / B between the halves of chains, which has more
    degrees of freedom, and s^2 / C between whole chains, which sees chains that never met.
    """
    variance: Array = variance_by_fit(deviations).sum(axis=0)
    return variance


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
    variance: Array = (centred**2).sum(axis=1) / (n * (n - 1))
    return variance
