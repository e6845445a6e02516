"""The blocked Gibbs sweep of a truncated Dirichlet-process mixture of products of Poissons.

Sticks, concentration, order of the classes and levels of covariates are `latent_class`'s. What is
new are the conjugate draws of rates and chances of a structural zero.
"""

import math

import numba
import numpy as np

from bayes_risk.models.mixture.categorical.sweep import (
    TINY,
    draw_alpha,
    draw_levels,
    draw_sticks,
    keep_draw,
    log_gamma_draw,
    swap_neighbours,
)

from .kernels import draw_labels

ALMOST_ONE = 1.0 - 2.0**-53


@numba.njit(cache=True, nogil=True)
def draw_rates(rng, M, layout, phi):
    """lambda_kj ~ Gamma(shape_j + S_kj, rate_j + E_kj), psi_kj ~ Beta(a0 + zeros, b0 + others)."""
    shape, rate, zeros, beta = layout[:4]
    p, D = shape.shape[0], phi.shape[0]
    for j in range(p):
        for k in range(phi.shape[1]):
            g = rng.standard_gamma(shape[j] + M[j, k])
            phi[j, k] = max(g / (rate[j] + M[D + j, k]), TINY)
    if zeros:
        for j in range(p):
            for k in range(phi.shape[1]):
                x = log_gamma_draw(rng, beta[0] + M[p + j, k])
                y = log_gamma_draw(rng, beta[1] + M[D + p + j, k])
                top = max(x, y)
                psi = math.exp(x - top) / (math.exp(x - top) + math.exp(y - top))
                phi[p + j, k] = min(max(psi, TINY), ALMOST_ONE)


@numba.njit(cache=True, nogil=True)
def sweep(
    rng, data, multiplicity, layout, prior, swaps, alpha, log_left, pi, phi, n, M, label
):  # fmt: skip
    """One blocked Gibbs sweep: labels, order, weights, rates, levels; returns alpha."""
    draw_labels(rng, data, multiplicity, pi, phi, layout[2], n, M, label)
    if swaps:
        swap_neighbours(rng, alpha, n, M)
    log_rest = draw_sticks(rng, n, alpha, log_left, pi)
    draw_rates(rng, M, layout, phi)
    draw_levels(rng, M, layout[5], layout[4], phi)
    return draw_alpha(rng, n.shape[0] - 1, log_rest, prior)


@numba.njit(cache=True, nogil=True)
def run(rng, units, layout, prior, state, thin, swaps, out, first, last):
    """Draws first .. last - 1 of one chain, `thin` sweeps each; arrays of `state` are updated.

    ``layout``: shape, rate, whether there are structural zeros, their prior, level, starts.
    """
    data, multiplicity = units
    alpha, log_left, pi, phi = state
    D, K = phi.shape
    n, M = np.zeros(K, np.int64), np.zeros((D + 2 * layout[0].shape[0], K))
    label = np.zeros(multiplicity.shape[0], np.int64)
    for h in range(first, last):
        for _ in range(thin):
            alpha[0] = sweep(
                rng, data, multiplicity, layout, prior, swaps,
                alpha[0], log_left, pi, phi, n, M, label,
            )  # fmt: skip
        keep_draw(state, n, out, h)
