"""Compiled loops of the full table: factors of every level in every draw and class, and products.

A *term* is a draw and a class in it; classes that nobody is in are all alike and make one term.
``factor[place, t]`` is the probability of a level in term t, the target taken out of its own class;
``log_base[t]`` what is the same for every cell: the weight of the class, and the variables that are
not guessed.
"""

import math

import numba
import numpy as np

from .predictive_kernels import class_weights, linked_factor, own_class
from .sweep import TINY


@numba.njit(cache=True, nogil=True)
def level_factor(Q, tau, fixed, j, y, z, k0, k, level):
    """Probability of a level, and of the linked one with it, in class k without the target."""
    if k == k0:
        return own_class(Q, tau, fixed, j, y, z, k0, level)
    if z >= 0:
        return Q[level, k] * linked_factor(Q, tau, fixed, j, z, level == z, k)
    return Q[level, k]


@numba.njit(cache=True, nogil=True)
def fill_terms(tables, layout, target, draws, factor, log_base, log_truth, draw_of):
    """Fill the terms of some draws for one target; how many there are.

    ``log_truth`` (T,): log mass of the target's own values; ``draw_of`` (T,): place of the draw.
    """
    Q, tau, n, alpha, pi, integrated = tables
    fixed, place, n_levels = layout  # place[j]: first place of a guessed variable, else -1
    label, truth, linked, held, begin = target
    K, t = n.shape[1], 0
    base = np.empty(K)
    for i in range(draws.shape[0]):
        h, k0, empty = draws[i], label[draws[i]], -1
        if integrated:
            class_weights(n[h], alpha[h], k0, base)
        else:
            base[:] = pi[h]
        mass_of_empty = 0.0
        for k in range(K):
            if integrated and n[h, k] == 0:
                mass_of_empty += base[k]
                if empty >= 0:
                    continue
                empty = t
            log_base[t] = math.log(max(base[k], TINY))
            log_truth[t] = 0.0
            draw_of[t] = i
            for j in range(truth.shape[0]):
                own = level_factor(Q[h], tau[h], fixed, j, held[j], linked[j], k0, k, truth[j])
                if place[j] < 0:
                    log_base[t] += math.log(max(own, TINY))
                else:
                    log_truth[t] += math.log(max(own, TINY))
                    for c in range(n_levels[j]):
                        factor[place[j] + c, t] = level_factor(
                            Q[h], tau[h], fixed, j, held[j], linked[j], k0, k, begin[j] + c
                        )
            t += 1
        if empty >= 0:
            log_base[empty] += math.log(max(mass_of_empty, TINY)) - math.log(
                max(base[n[h] == 0][0], TINY)
            )
    for s in range(t):
        log_truth[s] += log_base[s]
    return t


@numba.njit(cache=True, nogil=True)
def multiply_factors(factor, places, out):
    """out[c, t] = prod_v factor[places[c, v], t]."""
    for c in range(places.shape[0]):
        for t in range(factor.shape[1]):
            out[c, t] = factor[places[c, 0], t]
        for v in range(1, places.shape[1]):
            for t in range(factor.shape[1]):
                out[c, t] *= factor[places[c, v], t]
