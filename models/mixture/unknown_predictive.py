"""Compiled: predictives of targets and guesses from draws in which unknown records are imputed.

With the target out of all B = m + W sets of sums of a draw,

    h(y) = prod_l p(y, z^(l) | y_-t, Z^(l), labels^l) / p(y | y_-t)^(m-1),

p(y | y_-t) the mean over base chains of p_b(y) / p_b(r) over that of 1 / p_b(r), r the row that
stands in the table for the target.

``tables``: n (H, B, K), M (H, B, ., K), alpha (H, B), pi (H, B, K), fixed variables with a release
and before (2, V), m. ``targets``: labels (H, B, U), structural zeros (H, B, U, 2 p), values (U, V),
exposures (U, V), constants (U, V, 2), synthetic values (m + 1, U, V) and their constants, who is
known (U,), imputed values (H, U, F), what is given of own and synthetic values (U, V), weights
(U,), and the imputed variables (F,).
"""

import math

import numba
import numpy as np

from .families import PARAMETERS, log_sum_of
from .masses import count_constants
from .mixed_terms import (
    SMALL,
    fill_draw,
    first_changes,
    guess_masses,
    log_add,
    log_guess,
    point_terms,
    rest_terms,
    scale,
)
from .unknown_kernels import log_power_of_mean


@numba.njit(cache=True, nogil=True)
def sets_of(tables, layout, h, P, T):
    """Fill parameters and logs of all sets of a draw."""
    _, all_M, _, _, fixed, m = tables
    p, r = layout[2].shape[0], layout[6].shape[0]
    D = all_M.shape[2] - 2 * p - r
    for b in range(all_M.shape[1]):
        fill_draw(all_M[h, b], all_M[h, b, :D], layout, fixed[int(b >= m)], P[b], T[b])


@numba.njit(cache=True, nogil=True)
def set_of(tables, P, T, h, b):
    """One set as the predictives of a single fit take it, and its fixed variables."""
    all_n, all_M, all_alpha, all_pi, fixed, m = tables
    here = fixed[int(b >= m)]
    pi = all_pi[h, b, : all_pi.shape[2] if here.any() else 0]
    draw = all_n[h, b], all_alpha[h, b], pi, all_M[h, b], all_M[h, b, : T.shape[1]], P[b], T[b]
    return draw, here


@numba.njit(cache=True, nogil=True)
def case_of(targets, x, constants, held, h, b):
    """Targets of one set with these values; ``held`` stands in the tables."""
    label, flags, _, exposure, _, linked, z_constants, _, _, given, given_z, w, _ = targets
    v = min(b, linked.shape[0] - 1)
    return (
        label[h], flags[h], x, exposure, linked[v], held, given, given_z, w, constants,
        z_constants[v],
    )  # fmt: skip


@numba.njit(cache=True, nogil=True)
def hold_rows(targets, h, p, held, constants):
    """What stands in the tables, the truth or an imputed row, and constants of its counts."""
    known, imputed, free = targets[7], targets[8], targets[12]
    for u in range(known.shape[0]):
        if not known[u]:
            for c in range(free.shape[0]):
                held[u, free[c]] = imputed[h, u, c]
            count_constants(held[u, :p], 1.0, constants[u, :p])


@numba.njit(cache=True, nogil=True)
def log_joint(log_p, tilt, m):
    """log h, but for the normaliser of the tilt, from the log densities of the B sets."""
    return log_p[:m].sum() - log_power_of_mean(log_p[m:] - tilt, m - 1)


@numba.njit(cache=True, nogil=True)
def room_of(tables, layout, V):
    """Room for parameters, logs, terms, and what `rest_terms` takes."""
    _, B, K = tables[0].shape
    p, r = layout[2].shape[0], layout[6].shape[0]
    P, T = np.empty((B, p + r, K, PARAMETERS)), np.zeros((B, tables[1].shape[2] - 2 * p - r, K))
    return P, T, np.empty(K), (np.zeros(V, np.bool_), np.zeros((3, 4)), np.empty((2, PARAMETERS)))


@numba.njit(cache=True, nogil=True)
def truth_densities(tables, layout, targets, out):
    """out[h, u] = log h(y_i), for targets that are not known times an estimate of 1 / sum h."""
    truth, constants, known, m = targets[2], targets[4], targets[7], tables[5]
    (H, B, _), p = tables[0].shape, layout[2].shape[0]
    P, T, terms, room = room_of(tables, layout, truth.shape[1])
    held, of_held = truth.copy(), np.zeros(constants.shape)
    log_p, log_r, log_q = np.empty(B), np.empty(B), np.empty(m)
    for h in range(H):
        sets_of(tables, layout, h, P, T)
        hold_rows(targets, h, p, held, of_held)
        for u in range(truth.shape[0]):
            for b in range(B):
                draw, fixed = set_of(tables, P, T, h, b)
                case = case_of(targets, truth, constants, held, h, b)
                rest_terms(draw, layout, fixed, case, b, u, 0, room, terms)
                log_p[b] = log_sum_of(terms)
                log_r[b] = log_p[b]
                if not known[u]:
                    case = case_of(targets, held, of_held, held, h, b)
                    rest_terms(draw, layout, fixed, case, b, u, 0, room, terms)
                    log_r[b] = log_sum_of(terms)
                    if b < m:
                        rest_terms(draw, layout, fixed, case, b, u, 2, room, terms)
                        log_q[b] = log_r[b] - log_sum_of(terms)
            norm = (m - 1) * (log_sum_of(-log_r[m:]) - math.log(B - m))
            out[h, u] = log_joint(log_p, log_r[m:], m) + norm
            if not known[u]:
                log_h = log_joint(log_r, log_r[m:], m) + norm
                out[h, u] += log_sum_of(log_q) - math.log(m) - log_h


@numba.njit(cache=True, nogil=True)
def guess_densities(tables, layout, targets, guesses, log_weights, batch, out):
    """Add log of the batch's sum of exp(log_weights) h(y*) / h(y_i) to out[b, g, u]."""
    columns, points, _, n_points, truth_at, cells, _ = guesses
    truth, constants, known, m = targets[2], targets[4], targets[7], tables[5]
    (H, B, K), p = tables[0].shape, layout[2].shape[0]
    (U, G, q), C = cells.shape, points.shape[2]
    P, T, terms, room = room_of(tables, layout, truth.shape[1])
    room[0][columns] = True
    rest, products = np.empty(K), np.empty((q, K))
    L, R = np.empty((q, C, K)), np.empty((q, C, K))
    held, of_held = truth.copy(), np.zeros(constants.shape)
    first, masses = np.empty((U, G), np.int64), np.empty(G)
    log_p, found, tilt = np.empty(B), np.empty((G, B)), np.empty(B)
    first_changes(cells, first)
    for h in range(H):
        sets_of(tables, layout, h, P, T)
        hold_rows(targets, h, p, held, of_held)
        for u in range(U):
            for b in range(B):
                draw, fixed = set_of(tables, P, T, h, b)
                case = case_of(targets, truth, constants, held, h, b)
                rest_terms(draw, layout, fixed, case, b, u, 1, room, rest)
                point_terms(draw, layout, fixed, case, guesses, b, u, rest, room, L)
                kept, top = scale(rest, L, n_points, u, R, products[0])
                log_p[b] = log_guess(rest, L, truth_at, u, 0, terms)
                guess_masses(R, cells, u, first, kept, products, masses)
                for g in range(G):
                    if masses[g] > SMALL:
                        found[g, b] = math.log(masses[g]) + top
                    else:
                        found[g, b] = log_guess(rest, L, cells, u, g, terms)
                tilt[b] = log_p[b]
                if not known[u] and b >= m:
                    case = case_of(targets, held, of_held, held, h, b)
                    rest_terms(draw, layout, fixed, case, b, u, 0, room, terms)
                    tilt[b] = log_sum_of(terms)
            log_v = log_weights[h, u] - log_joint(log_p, tilt[m:], m)
            for g in range(G):
                if found[g].min() > -math.inf:
                    log_h = log_joint(found[g], tilt[m:], m)
                    out[batch[h], g, u] = log_add(out[batch[h], g, u], log_v + log_h)
