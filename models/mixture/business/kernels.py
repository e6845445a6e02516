"""Compiled loops of the business competitors: classes learnt from rows, mixtures of masses.

``M[D + 2 p, K]`` as in `poisson_kernels`. Rows of A and B are gamma posteriors of one count's rate.
"""

import math

import numba
import numpy as np

from bayes_risk.models.mixture.categorical.predictive_kernels import class_weights
from bayes_risk.models.mixture.counts.kernels import draw_labels, log_poisson
from bayes_risk.models.mixture.counts.masses import (
    count_constant,
    gap,
    log_negative_binomial,
    stirling_error,
)


@numba.njit(cache=True, nogil=True)
def log_binomial(y, total, chance):
    """log Binomial(y; total, chance) by Loader's expansion; -inf outside 0 .. total."""
    if y < 0.0 or y > total:
        return -np.inf
    rest = total - y
    if chance >= 1.0:
        return 0.0 if rest == 0.0 else -np.inf
    if y == 0.0:
        return total * math.log1p(-chance)
    if rest == 0.0:
        return total * math.log(chance)
    ahead = total * chance - y
    return (
        count_constant(total)
        - count_constant(y)
        - count_constant(rest)
        - _deviance(y, ahead)
        - _deviance(rest, -ahead)
    )


@numba.njit(cache=True, nogil=True)
def _deviance(x, change):
    """x f(change / x) with f(v) = v - log(1 + v)."""
    return x * gap(max(change / x, -1.0 + 1e-15))


@numba.vectorize(cache=True)
def binomial_masses(y, total, chance):
    """`log_binomial`, entry by entry."""
    return log_binomial(y, total, chance)


@numba.vectorize(cache=True)
def poisson_of(y, mean):
    """log Poisson(y; mean), entry by entry; -inf below 0."""
    if y < 0.0:
        return -np.inf
    return log_poisson(y, mean)


@numba.vectorize(cache=True)
def negative_binomial_masses(y, A, B, exposure):
    """log of the mass of a count whose rate is Gamma(A, B); -inf below 0."""
    if y < 0.0:
        return -np.inf
    return log_negative_binomial(y, A, B, exposure, count_constant(y), stirling_error(A))


@numba.njit(cache=True, nogil=True)
def learn(rng, data, multiplicity, theta, zeros, n, M, weights, label):
    """Labels drawn anew for every draw: counts n[H, K], sums M[H, D + 2 p, K], E[pi | labels]."""
    alpha, pi, phi = theta
    for h in range(pi.shape[0]):
        draw_labels(rng, data, multiplicity, pi[h], phi[h], zeros, n[h], M[h], label[h])
        class_weights(n[h], alpha[h], n.shape[1], weights[h])


@numba.njit(cache=True, nogil=True)
def add_log(x, y):
    """log(exp x + exp y)."""
    top = max(x, y)
    if top == -np.inf:
        return top
    return top + math.log(math.exp(x - top) + math.exp(y - top))


@numba.njit(cache=True, nogil=True)
def mixed_counts(y, log_weight, A, B, exposure, out):
    """out[h, g] = log sum_k weight_hk NegBin(y_g; A_hk, B_hk, exposure)."""
    error = np.empty(A.shape[1])
    for h in range(A.shape[0]):
        for k in range(A.shape[1]):
            error[k] = stirling_error(A[h, k])
        for g in range(y.shape[0]):
            constant, total = count_constant(y[g]), -np.inf
            if y[g] >= 0.0:
                for k in range(A.shape[1]):
                    if log_weight[h, k] > -np.inf:
                        mass = log_negative_binomial(
                            y[g], A[h, k], B[h, k], exposure, constant, error[k]
                        )
                        total = add_log(total, log_weight[h, k] + mass)
            out[h, g] = total


@numba.njit(cache=True, nogil=True)
def mixed_binomials(y, log_weight, total, chance, out):
    """out[h, g] = log sum_k weight_hk Binomial(y_g; total_hk, chance_hk)."""
    for h in range(total.shape[0]):
        for g in range(y.shape[0]):
            mass = -np.inf
            for k in range(total.shape[1]):
                if log_weight[h, k] > -np.inf:
                    one = log_binomial(y[g], total[h, k], chance[h, k])
                    mass = add_log(mass, log_weight[h, k] + one)
            out[h, g] = mass


@numba.njit(cache=True, nogil=True)
def mixed_pairs(log_first, log_second, log_same, out):
    """out[g] = log(sum over k != l of first_gk second_gl + sum_k same_gk); shapes (G, K).

    The sum over all l but k is one of those before and one of those after: nothing cancels.
    """
    G, K = log_first.shape
    after = np.empty(K + 1)
    for g in range(G):
        top_first, top_second, same = -np.inf, -np.inf, -np.inf
        for k in range(K):
            top_first = max(top_first, log_first[g, k])
            top_second = max(top_second, log_second[g, k])
            same = add_log(same, log_same[g, k])
        out[g] = same
        if top_first == -np.inf or top_second == -np.inf:
            continue
        after[K] = 0.0
        for k in range(K - 1, -1, -1):
            after[k] = after[k + 1] + math.exp(log_second[g, k] - top_second)
        total, before = 0.0, 0.0
        for k in range(K):
            total += math.exp(log_first[g, k] - top_first) * (before + after[k + 1])
            before += math.exp(log_second[g, k] - top_second)
        if total > 0.0:
            out[g] = add_log(same, math.log(total) + top_first + top_second)
