"""Compiled loops of weighted latent classes: sweeps with powers, and the tempered predictive.

A unit of power w enters with ``sum_k (pi_k f_k(y))^w``: its label has probabilities proportional to
``(pi_k f_k)^w``, and it counts w in its class. Derivation: `docs/sensitivity.md`.
Counts are sums of dyadic numbers (`latent_weighted.py`), so adding and taking away is exact.
"""

import math

import numba
import numpy as np

from .kept_columns import update_levels, update_sticks, us_masses
from .sweep import (
    RESCALE_EVERY,
    TINY,
    cumulate,
    draw_alpha,
    draw_class,
    draw_labels,
    draw_levels,
    draw_sticks,
    swap_neighbours,
)


@numba.njit(cache=True, nogil=True)
def tempered_masses(positions, power, log_pi, log_phi, out):
    """out[k] proportional to (pi_k prod_j phi_k(level j))^power, the largest being 1."""
    top = -np.inf
    for k in range(log_pi.shape[0]):
        out[k] = log_pi[k]
    for j in range(positions.shape[0]):
        for k in range(log_pi.shape[0]):
            out[k] += log_phi[positions[j], k]
    for k in range(log_pi.shape[0]):
        top = max(top, out[k])
    for k in range(log_pi.shape[0]):
        out[k] = math.exp(power * (out[k] - top))


@numba.njit(cache=True, nogil=True)
def draw_tempered_labels(rng, positions, multiplicity, power, pi, phi, n, M, first_label):
    """Labels z with probabilities proportional to (pi_k f_k)^power; fills weighted counts n, M.

    ``first_label[u]`` keeps the label of one individual of unit u.
    """
    K = pi.shape[0]
    masses, copies = np.empty(K), np.zeros(K, np.int64)
    log_pi, log_phi = np.log(np.maximum(pi, TINY)), np.log(np.maximum(phi, TINY))
    n[:] = 0.0
    M[:] = 0.0
    for u in range(positions.shape[0]):
        tempered_masses(positions[u], power[u], log_pi, log_phi, masses)
        cumulate(masses)
        first_label[u] = draw_class(rng, masses)
        copies[first_label[u]] += 1
        for _ in range(multiplicity[u] - 1):
            copies[draw_class(rng, masses)] += 1
        for k in range(K):
            if copies[k] > 0:
                n[k] += power[u] * copies[k]
                for j in range(positions.shape[1]):
                    M[positions[u, j], k] += power[u] * copies[k]
                copies[k] = 0


@numba.njit(cache=True, nogil=True)
def weighted_sweep(
    rng, positions, multiplicity, power, starts, a, prior, swaps, alpha, log_left, pi, phi, n, M,
    label,
):  # fmt: skip
    """One blocked Gibbs sweep of the pseudo-posterior; returns alpha."""
    draw_tempered_labels(rng, positions, multiplicity, power, pi, phi, n, M, label)
    if swaps:
        swap_neighbours(rng, alpha, n, M)
    log_rest = draw_sticks(rng, n, alpha, log_left, pi)
    draw_levels(rng, M, starts, a, phi)
    return draw_alpha(rng, n.shape[0] - 1, log_rest, prior)


@numba.njit(cache=True, nogil=True)
def weighted_conditional_sweep(
    rng, positions, multiplicity, power, given, starts, a, prior, alpha, log_left, pi, phi, n, M,
    label,
):  # fmt: skip
    """The same with synthetic rows, of weight 1, drawn given y_us,i (see `conditional_sweep`)."""
    z_positions, z_multiplicity, us, c, us_columns = given
    n_z, M_z = np.zeros(n.shape[0], np.int64), np.zeros(M.shape, np.int64)
    z_label = np.zeros(z_positions.shape[0], np.int64)
    draw_tempered_labels(rng, positions, multiplicity, power, pi, phi, n, M, label)
    draw_labels(rng, z_positions, z_multiplicity, pi, phi, n_z, M_z, z_label)
    g = us_masses(us, phi)
    log_rest = update_sticks(rng, n, n_z, alpha, log_left, pi, g, c)
    proposal = np.empty_like(phi)
    draw_levels(rng, M, starts, a, proposal)
    for j in range(us_columns.shape[0]):
        update_levels(rng, us[j], c, starts, us_columns[j], proposal, M_z, pi, phi, g)
    M += M_z
    n += n_z
    draw_levels(rng, M, starts, a, proposal)
    free = np.ones(starts.shape[0] - 1, np.bool_)
    free[us_columns] = False
    for j in range(free.shape[0]):
        if free[j]:
            phi[starts[j] : starts[j + 1]] = proposal[starts[j] : starts[j + 1]]
    return draw_alpha(rng, n.shape[0] - 1, log_rest, prior)


@numba.njit(cache=True, nogil=True)
def weighted_counts(rng, data, extra, theta, out):
    """Labels drawn anew for every draw, and what they count: n (H, K), M (H, D, K), label."""
    positions, multiplicity, power = data
    pi, phi = theta
    n, M, label = out
    n_z, M_z = np.zeros(pi.shape[1], np.int64), np.zeros(phi.shape[1:], np.int64)
    u_label, z_label = np.zeros(positions.shape[0], np.int64), np.zeros(len(extra[0]), np.int64)
    for h in range(pi.shape[0]):
        draw_tempered_labels(
            rng, positions, multiplicity, power, pi[h], phi[h], n[h], M[h], u_label
        )
        if z_label.shape[0] > 0:
            draw_labels(rng, extra[0], extra[1], pi[h], phi[h], n_z, M_z, z_label)
            M[h] += M_z
        label[h] = u_label


@numba.njit(cache=True, nogil=True)
def log_rise(x, w):
    """log Gamma(x + w) - log Gamma(x)."""
    return math.lgamma(x + w) - math.lgamma(x)


@numba.njit(cache=True, nogil=True)
def class_powers(n, alpha, removed, w, out):
    """E[pi_k^w | labels, w less in class `removed`], sticks integrated out; shape (K,).

    E[V_k^w] prod_{l<k} E[(1 - V_l)^w], V_k ~ Beta(1 + n_k, alpha + n_{>k}).
    """
    K = n.shape[0]
    after = n.sum() - (w if removed < K else 0.0)
    log_rest = 0.0
    for k in range(K - 1):
        here = 1.0 + n[k] - (w if k == removed else 0.0)
        after -= here - 1.0
        both = log_rise(here + alpha + after, w)
        out[k] = math.exp(log_rest + log_rise(here, w) - both)
        log_rest += log_rise(alpha + after, w) - both
    out[K - 1] = math.exp(log_rest)


@numba.njit(cache=True, nogil=True)
def level_powers(M, phi, starts, a, fixed, w, F, others, same):
    """E[phi^w] of every level and class, shape (D, K): three cases.

    ``F``: nothing taken out; in the target's own class, w of it taken out, ``others``: of a level
    that is not its own, ``same``: of its own level. Fixed columns: phi^w itself.
    """
    for j in range(starts.shape[0] - 1):
        for k in range(M.shape[1]):
            total = (starts[j + 1] - starts[j]) * a
            for r in range(starts[j], starts[j + 1]):
                total += M[r, k]
            up = math.exp(-log_rise(total, w))
            down = math.exp(-log_rise(total - w, w)) if total > w else 1.0
            for r in range(starts[j], starts[j + 1]):
                if fixed[j]:
                    F[r, k] = max(phi[r, k], TINY) ** w
                    others[r, k] = same[r, k] = F[r, k]
                    continue
                x = a + M[r, k]
                rise = math.exp(log_rise(x, w))
                F[r, k] = rise * up
                others[r, k] = rise * down
                same[r, k] = math.exp(log_rise(x - w, w)) * down if x > w else 1.0


@numba.njit(cache=True, nogil=True)
def log_given(pi, phi, given, row):
    """log sum_k pi_k prod_j phi_kj over the given variables: what the release was drawn given."""
    total = 0.0
    for k in range(pi.shape[0]):
        mass = pi[k]
        for j in range(row.shape[0]):
            if given[j]:
                mass *= phi[row[j], k]
        total += mass
    return math.log(max(total, TINY))


@numba.njit(cache=True, nogil=True)
def truth_powers(F, same, row, base, k0, terms):
    """Class by class the mass of the target's values, without it in its own class; log scale."""
    K = terms.shape[0]
    scale = 0.0
    for k in range(K):
        terms[k] = base[k]
    for j in range(row.shape[0]):
        for k in range(K):
            terms[k] *= same[row[j], k] if k == k0 else F[row[j], k]
        if j % RESCALE_EVERY == RESCALE_EVERY - 1:
            top = max(TINY, terms.max())
            scale += math.log(top)
            for k in range(K):
                terms[k] /= top
    return scale


@numba.njit(cache=True, nogil=True)
def guess_power(F, others, same, row, columns, guess, k0, terms, product):
    """Mass of a guess: the truth's with the factors of the changed variables exchanged."""
    for k in range(terms.shape[0]):
        product[k] = terms[k]
    for j in range(columns.shape[0]):
        y, r = row[columns[j]], guess[j]
        if r != y:
            for k in range(terms.shape[0]):
                if k == k0:
                    product[k] *= others[r, k] / max(same[y, k], TINY)
                else:
                    product[k] *= F[r, k] / max(F[y, k], TINY)
    total = 0.0
    for k in range(terms.shape[0]):
        total += product[k]
    return total


@numba.njit(cache=True, nogil=True)
def predict_powers(tables, layout, targets, weights, batch, log_truth, sums):
    """Fill log E_h[g_i(y_i)], shape (H, U), if there are no guesses (G = 0).

    Else add the weighted E_h[g_i(y*)] / E_h[g_i(y_i)] to the sums of their batch, (B, U, G).
    Targets of equal power should stand together: tables are made anew wherever it changes.
    """
    all_M, n, alpha, pi, phi = tables
    starts, a, fixed, given, columns, integrated = layout
    label, truth, guesses, power = targets
    H, K = n.shape
    U, G = truth.shape[0], guesses.shape[1]
    F, others = np.ones(phi.shape[1:]), np.ones(phi.shape[1:])
    same, base = np.ones(phi.shape[1:]), np.empty((K + 1, K))
    terms, product = np.empty(K), np.empty(K)
    conditioned = given.any()
    for h in range(H):
        for u in range(U):
            w = power[u]
            if u == 0 or w != power[u - 1]:
                level_powers(all_M[h], phi[h], starts, a, fixed, w, F, others, same)
                for k in range(K + 1):
                    if not integrated:
                        base[k] = pi[h] ** w
                    elif k == K or n[h, k] >= w:
                        class_powers(n[h], alpha[h], k, w, base[k])
            k0 = label[h, u]
            scale = truth_powers(F, same, truth[u], base[k0], k0, terms)
            total = max(terms.sum(), TINY)
            if G == 0:
                log_truth[h, u] = math.log(total) + scale
                if conditioned:
                    log_truth[h, u] -= log_given(pi[h], phi[h], given, truth[u])
            for g in range(G):
                mass = guess_power(
                    F, others, same, truth[u], columns, guesses[u, g], k0, terms, product
                )
                sums[batch[h], u, g] += weights[h, u] * mass / total
