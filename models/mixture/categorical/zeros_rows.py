"""Compiled loops of latent classes with structural zeros: rows possible given some levels.

Shapes and the tuple ``zero`` are those of `latent_zeros_kernels.py`.
"""

import math

import numba
import numpy as np

from .sweep import TINY, cumulate, draw_class
from .zeros_kernels import LEAST, box_masses, factor_masses, meets

ROUNDING = 1e-13


@numba.njit(cache=True, nogil=True)
def fill_log_possible(tables, given, label, truth, zero, out):
    """out[h, u] = log of the share of what is possible, given the target's unsynthesised values.

    sum_k w_k (1 - sum_b prod_j G_bjk) / sum_k w_k, w_k = pi_k prod of the given levels, the target
    taken out of its own class (label K: nowhere).
    """
    all_Q, all_tau, pi = tables
    others, us_columns = np.flatnonzero(~given), np.flatnonzero(given)
    us = np.ascontiguousarray(truth.T[given])  # shape (u, U)
    weights, K = np.empty(pi.shape[1]), pi.shape[1]
    for h in range(pi.shape[0]):
        Q, G = all_Q[h], factor_masses(zero, all_Q[h])
        mass = box_masses(zero, G, others)
        for u in range(truth.shape[0]):
            weights[:] = pi[h]
            for j in range(us.shape[0]):
                for k in range(K):
                    weights[k] *= Q[us[j, u], k]
            k0, within = label[h, u], 0.0
            for b in range(mass.shape[0]):
                if meets(zero[0], b, us, u, us_columns):
                    for k in range(K):
                        if k == k0:
                            within += weights[k] * own_share(
                                zero, G, all_tau[h], truth, u, b, k, others
                            )
                        else:
                            within += weights[k] * mass[b, k]
            out[h, u] = math.log(max(1.0 - within / max(weights.sum(), TINY), LEAST))


@numba.njit(cache=True, nogil=True)
def own_share(zero, G, tau, truth, u, b, k, columns):
    """Mass of box b in the class k of target u, with the target taken out of the counts."""
    boxes, of, narrow, _, _ = zero
    share = 1.0
    for j in columns:
        f = of[b, j]
        if narrow[f]:
            share *= (G[f, k] * tau[j, k] - boxes[b, truth[u, j]]) / (tau[j, k] - 1.0)
    return share


@numba.njit(cache=True, nogil=True)
def draw_possible_rows(rng, positions, zero, known, pi, phi, starts, columns, out):
    """Synthetic level codes that are possible together with what is known; out (n, q).

    A class in proportion to what is possible there, then level after level: each weighted with the
    share of what is still possible after it, which boxes that are disjoint give as one minus a sum.
    ``positions`` (n, w) are the levels of the columns that are ``known`` (p,).
    """
    boxes, of, narrow, _, _ = zero
    K, B, us_columns = pi.shape[0], boxes.shape[0], np.flatnonzero(known)
    G = factor_masses(zero, phi)
    tails = np.ones((columns.shape[0] + 1, B, K))  # mass of a box in the columns from j on
    for j in range(columns.shape[0] - 1, -1, -1):
        for b in range(B):
            f = of[b, columns[j]]
            for k in range(K):
                tails[j, b, k] = tails[j + 1, b, k] * (G[f, k] if narrow[f] else 1.0)
    us = np.ascontiguousarray(positions.T)
    masses, alive = np.empty(K), np.zeros(B, np.bool_)
    for i in range(positions.shape[0]):
        for b in range(B):
            alive[b] = meets(boxes, b, us, i, us_columns)
        for k in range(K):
            masses[k] = pi[k]
            for j in range(us.shape[0]):
                masses[k] *= phi[us[j, i], k]
            masses[k] *= share_left(within_alive(alive, tails, 0, k))
        cumulate(masses)
        drawn = draw_class(rng, masses)
        for j in range(columns.shape[0]):
            begin, end = starts[columns[j]], starts[columns[j] + 1]
            level = draw_possible_level(rng, begin, end, boxes, alive, tails, j, drawn, phi)
            out[i, j] = level - begin
            for b in range(B):
                alive[b] = alive[b] and boxes[b, level]


@numba.njit(cache=True, nogil=True)
def share_left(within):
    """What is left of one; nothing where that is rounding."""
    return 1.0 - within if within < 1.0 - ROUNDING else 0.0


@numba.njit(cache=True, nogil=True)
def within_alive(alive, tails, j, k):
    """Mass, from column j on, of the boxes that hold all that was drawn before."""
    total = 0.0
    for b in range(alive.shape[0]):
        if alive[b]:
            total += tails[j, b, k]
    return total


@numba.njit(cache=True, nogil=True)
def draw_possible_level(rng, begin, end, boxes, alive, tails, j, k, phi):
    """One level of column j in class k, weighted with what stays possible after it."""
    weights = np.empty(end - begin)
    for r in range(begin, end):
        within = 0.0
        for b in range(alive.shape[0]):
            if alive[b] and boxes[b, r]:
                within += tails[j + 1, b, k]
        weights[r - begin] = phi[r, k] * share_left(within)
    cumulate(weights)
    return begin + draw_class(rng, weights)
