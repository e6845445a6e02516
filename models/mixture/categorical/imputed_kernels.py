"""Compiled: predictives of targets and guesses from draws in which unknown rows are imputed.

A draw holds B = m + W sets of counts: of y with each data set, then of y alone by the W base
chains. Joint density of a row, target taken out of all counts:

    h(y) = prod_l p(y | y_-t, Z^(l), labels^l) / p(y | y_-t)^(m-1).

The labels of the base chains are draws given y, row r of the target in it: p(y | y_-t) is the mean
of p_b(y) / p_b(r) over that of 1 / p_b(r). ``tilt[W]`` is log p_b(r).
What is indexed by ``side`` has two entries, with the release and before it.
"""

import math

import numba
import numpy as np

from .imputation_kernels import log_of_sum, log_power_of_mean, power_of_mean
from .predictive_kernels import (
    changes_of,
    class_weights,
    guess_masses,
    log_condition,
    truth_terms,
    without_columns,
)
from .sweep import TINY

FEW = 1e-60  # its powers, and its square, are still numbers


@numba.njit(cache=True, nogil=True)
def fill_weights(n, alpha, pi, m, integrated, out):
    """Class weights out[B, K + 1, K] by the class of what is taken out; K: nothing."""
    for b in range(n.shape[0]):
        for k in range(n.shape[1] + 1):
            if b < m and not integrated:
                out[b, k] = pi[b]
            elif k == n.shape[1] or n[b, k] > 0:
                class_weights(n[b], alpha[b], k, out[b, k])


@numba.njit(cache=True, nogil=True)
def log_joint(log_p, tilt, m):
    """log h from the log densities of the B sets."""
    norm = log_of_sum(-tilt) - math.log(tilt.shape[0])
    return log_p[:m].sum() - log_power_of_mean(log_p[m:] - tilt, m - 1) + (m - 1) * norm


@numba.njit(cache=True, nogil=True)
def fill_seats(tables, fixed, m, seats, label, linked, told, out, tilt):
    """out[h, s] = log q(y_s) - log h(y_s) of the row imputed in seat s; q is what proposes it.

    Its mean given all else is 1 / sum over y of h(y), the normaliser of the row's conditional.
    ``tilt[h, s]`` is filled too.
    """
    Q, tau, n, alpha, pi, integrated = tables
    (H, B, K), S = n.shape, seats.shape[1]
    base, terms = np.empty((B, K + 1, K)), np.empty(K)
    log_p, log_q = np.empty(B), np.empty(m)
    for h in range(H):
        fill_weights(n[h], alpha[h], pi[h], m, integrated, base)
        rows = seats[h]
        for s in range(S):
            for b in range(B):
                side, k0 = int(b >= m), label[h, b, s]
                z = linked[min(b, m)]
                own, scale = truth_terms(
                    Q[h, b], tau[h, b], fixed[side], rows, z, rows, s, k0, base[b], terms
                )
                log_p[b] = math.log(max(own + terms.sum(), TINY)) + scale
                if b < m:
                    log_q[b] = log_p[b] - log_condition(
                        Q[h, b], tau[h, b], fixed[0], rows, z, told, z, base[b], s, k0, terms
                    )
            tilt[h, s] = log_p[m:]
            out[h, s] = log_of_sum(log_q) - math.log(m) - log_joint(log_p, log_p[m:], m)


@numba.njit(cache=True, nogil=True)
def predict_joint(tables, layout, targets, of_row, weights, batch, log_truth, sums):
    """Fill log h(y_i) + log_c, shape (H, U), if there are no guesses (G = 0).

    Else add the weighted h(y*) / h(y_i) to the sums of their batch, shape (B, U, G). ``log_c
    (H, U)`` and ``tilt (H, U, W)`` of imputed rows are those of `fill_seats`.
    """
    all_Q, all_tau, n, alpha, pi, integrated = tables
    fixed, columns, m = layout
    label, truth, linked, imputed, known, guesses = targets
    log_c, tilt = of_row
    H, B, K = n.shape
    U, G, q = truth.shape[0], guesses.shape[1], columns.shape[0]
    base, inverse = np.empty((B, K + 1, K)), np.empty(all_Q.shape[1:])
    terms, product, W = np.empty((B, K)), np.empty(K), np.empty((q, 2, K))
    own, total, log_p, share = np.empty(B), np.empty(B), np.empty(B), np.empty(B)
    own_level, held, found = np.ones(q), truth.copy(), np.empty((U, G))
    joint, before, squares = np.empty(G), np.empty(G), np.empty(G)
    changes = changes_of(guesses, truth, columns)
    for h in range(H):
        fill_weights(n[h], alpha[h], pi[h], m, integrated, base)
        if G > 0:
            inverse[:] = 1.0 / np.maximum(all_Q[h], TINY)
        for u in range(U):
            if not known[u]:
                held[u] = imputed[h, u]
            for b in range(B):
                side = int(b >= m)
                own[b], scale = truth_terms(
                    all_Q[h, b], all_tau[h, b], fixed[side], truth, linked[min(b, m)], held,
                    u, label[h, b, u], base[b], terms[b],
                )  # fmt: skip
                total[b] = max(own[b] + terms[b].sum(), TINY)
                log_p[b] = math.log(total[b]) + scale
            row = log_p[m:] if known[u] else tilt[h, u]
            if G == 0:
                log_truth[h, u] = log_joint(log_p, row, m) + log_c[h, u]
                continue
            share[m:] = log_p[m:] - row
            share[m:] = np.exp(share[m:] - share[m:].max())
            joint[:], before[:], squares[:] = 1.0, 0.0, 0.0
            at_truth = power_of_mean(share[m:].sum(), (share[m:] ** 2).sum(), B - m, m - 1)
            for b in range(B):
                side, z = int(b >= m), linked[min(b, m)]
                Q, tau = all_Q[h, b], all_tau[h, b]
                found[u] = 0.0
                without_columns(
                    Q, inverse[b], tau, fixed[side], columns, truth, z, u, terms[b], W
                )  # fmt: skip
                guess_masses(
                    Q, tau, fixed[side], columns, truth, z, held, guesses, u, label[h, b, u],
                    own[b], total[b], changes, terms[b], W, own_level, product, 1.0 / total[b],
                    found,
                )  # fmt: skip
                for g in range(G):
                    if b < m:
                        joint[g] *= found[u, g]
                    else:
                        p = share[b] * found[u, g]
                        before[g] += p
                        squares[g] += p * p
            w = weights[h, u] * at_truth
            for g in range(G):
                below = power_of_mean(max(before[g], FEW), squares[g], B - m, m - 1)
                sums[batch[h], u, g] += w * joint[g] / below
