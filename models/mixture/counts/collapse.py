"""Compiled: labels redrawn for kept draws, and what each class then knows of rates and zeros.

Shapes: ``M[D + 2 p, K]`` sums of counts, structural zeros, levels, exposure and values that are no
structural zeros, as in `poisson_kernels`. Class ``k0`` of the target is reckoned with the target
taken out; ``k0 = K`` means that there is nothing to take out.
"""

import math

import numba
import numpy as np

from bayes_risk.models.mixture.categorical.predictive_kernels import class_weights
from bayes_risk.models.mixture.categorical.sweep import TINY, draw_class

from .kernels import add_unit, cumulated_masses, fill_tables, log_poisson, log_zero, room_for_tables
from .masses import log_negative_binomial


@numba.njit(cache=True, nogil=True)
def collapse_draws(rng, units, theta, layout, wanted, out):
    """Labels anew for each draw; fills n, M, and label and structural zeros of wanted units.

    ``wanted[u]`` numbers the units that are looked at, -1 for the others. Of a unit that stands for
    several equal individuals, label and zeros of one of them are kept.
    """
    data, multiplicity = units
    all_pi, all_phi = theta
    p, zeros = layout
    all_n, all_M, label, structural = out
    K, D, U = all_pi.shape[1], all_phi.shape[1], multiplicity.shape[0]
    tables = room_for_tables(p, D, K)
    masses, copies, before = np.empty(K), np.zeros(K, np.int64), np.zeros(p)
    for h in range(all_pi.shape[0]):
        phi, n, M = all_phi[h], all_n[h], all_M[h]
        fill_tables(all_pi[h], phi, p, zeros, tables)
        n[:] = 0
        M[:] = 0.0
        for u in range(U):
            cumulated_masses(data, u, phi, zeros, tables, masses)
            first = draw_class(rng, masses)
            copies[first] += 1
            for _ in range(multiplicity[u] - 1):
                copies[draw_class(rng, masses)] += 1
            w, alike = wanted[u], copies[first]
            if w >= 0:
                for j in range(p):
                    before[j] = M[p + j, first] if zeros else 0.0
            for k in range(K) if multiplicity[u] > 1 else range(first, first + 1):
                if copies[k] > 0:
                    add_unit(rng, data, u, k, phi, zeros, copies, n, M)
            if w >= 0:
                label[h, w] = first
                if zeros:
                    for j in range(p):
                        share = (M[p + j, first] - before[j]) / alike
                        structural[h, w, j] = rng.random() < share


@numba.njit(cache=True, nogil=True)
def rate_given(M, prior, D, j, k, taken, x, e):
    """Shape and rate of the gamma posterior of a rate, the target's value taken out (or not)."""
    shape, rate = prior[0][j], prior[1][j]
    p = prior[0].shape[0]
    total, exposure, values = M[j, k], M[D + j, k], M[D + p + j, k]
    if taken and e > 0.0:
        total, exposure, values = total - x, exposure - e, values - 1.0
    if values < 0.5:  # nobody is left, and no rounding either
        return shape, rate
    return shape + total, rate + max(exposure, 0.0)


@numba.njit(cache=True, nogil=True)
def zero_given(M, prior, D, j, k, taken, structural):
    """Expected chance of a structural zero, the target's value taken out (or not)."""
    p, a, b = prior[0].shape[0], prior[3][0], prior[3][1]
    zeros, values = M[p + j, k], M[D + p + j, k]
    if taken:
        zeros, values = zeros - structural, values - (not structural)
    return (a + zeros) / (a + zeros + b + values)


@numba.njit(cache=True, nogil=True)
def class_parameters(M, phi, fixed, prior, j, k, taken, x, e, structural):
    """(shape, rate, chance of a structural zero) of a count in a class; fixed: (rate, 0, chance).

    ``taken``: the target, whose value is x at exposure e, is in this class and is left out of it.
    """
    p, D = prior[0].shape[0], phi.shape[0]
    if fixed:
        return phi[j, k], 0.0, phi[p + j, k]
    A, B = rate_given(M, prior, D, j, k, taken and not structural, x, e)
    return A, B, zero_given(M, prior, D, j, k, taken and e > 0.0, structural) if prior[2] else 0.0


@numba.njit(cache=True, nogil=True)
def log_mass(x, e, A, B, psi, zeros, fixed, constant, error):
    """Log mass of a count whose class has these parameters; minus infinity for what is no count.

    ``constant`` is `count_constant` of x, ``error`` the `stirling_error` of A. At exposure 0
    nothing is said.
    """
    if e <= 0.0:
        return 0.0
    if x < 0.0:
        return -math.inf
    if fixed:
        out = log_poisson(x, e * A)
    else:
        out = log_negative_binomial(x, A, B, e, constant, error)
    if not zeros:
        return out
    if x > 0.0:
        return math.log1p(-psi) + out
    return log_zero(math.log(psi), math.log1p(-psi), -out)


@numba.njit(cache=True, nogil=True)
def log_level(M, phi, fixed, prior, row, q, k, taken):
    """log probability of a covariate's level in a class, the target taken out (or not)."""
    if fixed:
        return math.log(max(phi[row, k], TINY))
    level, starts = prior[4], prior[5]
    total = 0.0
    for r in range(starts[q], starts[q + 1]):
        total += M[r, k] + level
    return math.log((M[row, k] + level - taken) / (total - taken))


@numba.njit(cache=True, nogil=True)
def log_class_weights(n, alpha, pi, fixed, k0, out):
    """log class weights: as drawn, or integrated out given the labels less the target's."""
    if fixed:
        out[:] = pi
    else:
        class_weights(n, alpha, k0, out)
    for k in range(out.shape[0]):
        out[k] = math.log(max(out[k], TINY))
