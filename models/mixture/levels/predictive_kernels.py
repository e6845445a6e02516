"""Compiled loops of the collapsed predictive: counts from draws, masses of targets and guesses.

Shapes: ``Q[D, K]`` probability of a level in a class, ``tau[p, K]`` class totals plus prior mass,
``terms[K]`` mass of the target's values class by class. The target's own class ``k0`` is reckoned
apart, with what the data hold of the target taken out: ``held[U, p]`` of its own values (-1: none)
and ``linked[U, p]`` of its synthetic ones; ``k0 = K`` means that there is nothing to take out.
``observed[U, p]`` and ``conditioned[U, p]`` are own and synthetic values that it is conditional
on. Loops index whole arrays instead of passing slices: a slice costs a reference count, and threads
share it.
"""

import math

import numba
import numpy as np

from bayes_risk.models.mixture.sweep import RESCALE_EVERY, TINY, draw_labels


@numba.njit(cache=True, nogil=True)
def collapse_draws(rng, data, extra, theta, layout, out):
    """Fill Q, tau, n and labels of every draw: labels drawn anew, then their counts."""
    pi, phi = theta
    starts, a, fixed = layout
    Q, tau, n, label = out
    n_z, M = np.zeros(pi.shape[1], np.int64), np.zeros(phi.shape[1:], np.int64)
    M_z, u_label = np.zeros_like(M), np.zeros(data[0].shape[0], np.int64)
    z_label = np.zeros(extra[0].shape[0], np.int64)
    for h in range(pi.shape[0]):
        draw_labels(rng, data[0], data[1], pi[h], phi[h], n[h], M, u_label)
        if z_label.shape[0] > 0:
            draw_labels(rng, extra[0], extra[1], pi[h], phi[h], n_z, M_z, z_label)
            M += M_z
        label[h] = u_label
        fill_levels(M, phi[h], starts, a, fixed, Q[h], tau[h])


@numba.njit(cache=True, nogil=True)
def fill_levels(M, phi, starts, a, fixed, Q, tau):
    """Q and tau of one draw: level probabilities given the counts M, or as drawn where fixed."""
    Q[-1] = 1.0
    for j in range(starts.shape[0] - 1):
        d = starts[j + 1] - starts[j]
        for k in range(M.shape[1]):
            total = d * a
            for r in range(starts[j], starts[j + 1]):
                total += M[r, k]
            tau[j, k] = total
            for r in range(starts[j], starts[j + 1]):
                Q[r, k] = phi[r, k] if fixed[j] else (M[r, k] + a) / total


@numba.njit(cache=True, nogil=True)
def class_weights(n, alpha, removed, out):
    """E[pi_k | labels less one of class `removed`], the stick-breaking predictive; shape (K,).

    prod_{l<k} (alpha + n_{>l}) / (1 + alpha + n_{>=l}) times (1 + n_k) / (1 + alpha + n_{>=k}).
    """
    K = n.shape[0]
    at_least = n.sum() - (removed < K)
    rest = 1.0
    for k in range(K - 1):
        here = n[k] - (k == removed)
        out[k] = rest * (1.0 + here) / (1.0 + alpha + at_least)
        rest *= (alpha + at_least - here) / (1.0 + alpha + at_least)
        at_least -= here
    out[K - 1] = rest


@numba.njit(cache=True, nogil=True)
def own_class(Q, tau, fixed, j, y, z, k0, level):
    """F(level) in the target's own class, its y (and linked z) taken out of the counts first.

    ``y = -1``: the counts hold no y of the target.
    """
    if fixed[j]:
        return Q[level, k0] * (Q[z, k0] if z >= 0 else 1.0)
    left = tau[j, k0] - (y >= 0) - (z >= 0)
    here = (Q[level, k0] * tau[j, k0] - (level == y) - (level == z)) / left
    if z < 0:
        return here
    at_z = Q[z, k0] * tau[j, k0] - (z == y) - 1.0
    return here * (at_z + (level == z)) / (left + 1.0)


@numba.njit(cache=True, nogil=True)
def linked_factor(Q, tau, fixed, j, z, same, k):
    """Probability of the linked level z after another value in class k (same: equal to z)."""
    if fixed[j]:
        return Q[z, k]
    return (Q[z, k] * tau[j, k] + same) / (tau[j, k] + 1.0)


@numba.njit(cache=True, nogil=True)
def truth_terms(Q, tau, fixed, truth, linked, held, u, k0, base, terms):
    """Class by class the mass of the target's values; (own class's mass, log scale) are returned.

    ``terms[k0]`` is set to zero: the target's own class is reckoned apart, without the target.
    """
    K = terms.shape[0]
    scale, own = 0.0, 0.0
    for k in range(K):
        terms[k] = base[k0, k]
    if k0 < K:
        own = base[k0, k0]
    for j in range(truth.shape[1]):
        y, z = truth[u, j], linked[u, j]
        for k in range(K):
            terms[k] *= Q[y, k]
        if z >= 0:
            for k in range(K):
                terms[k] *= linked_factor(Q, tau, fixed, j, z, y == z, k)
        if k0 < K:
            own *= own_class(Q, tau, fixed, j, held[u, j], z, k0, y)
        if j % RESCALE_EVERY == RESCALE_EVERY - 1:
            top = max(own, TINY)
            for k in range(K):
                top = max(top, terms[k])
            scale += math.log(top)
            own /= top
            for k in range(K):
                terms[k] /= top
    if k0 < K:
        terms[k0] = 0.0
    return own, scale


@numba.njit(cache=True, nogil=True)
def log_condition(Q, tau, fixed, held, linked, observed, conditioned, base, u, k0, masses):
    """log sum_k base_k prod over what is observed of the target, its own or synthetic values.

    In its own class these are taken out of the counts first. Zero if nothing is observed.
    """
    K = masses.shape[0]
    scale, own, anything = 0.0, 0.0, False
    for k in range(K):
        masses[k] = base[k0, k]
    for j in range(observed.shape[1]):
        for level, mine in ((observed[u, j], held[u, j]), (conditioned[u, j], linked[u, j])):
            if level >= 0:
                anything = True
                if k0 < K:
                    own = masses[k0] * own_class(Q, tau, fixed, j, mine, -1, k0, level)
                for k in range(K):
                    masses[k] *= Q[level, k]
                if k0 < K:
                    masses[k0] = own
        if j % RESCALE_EVERY == RESCALE_EVERY - 1:
            top = max(masses.max(), TINY)
            scale += math.log(top)
            for k in range(K):
                masses[k] /= top
    return math.log(max(masses.sum(), TINY)) + scale if anything else 0.0


@numba.njit(cache=True, nogil=True)
def without_columns(Q, inverse, tau, fixed, columns, truth, linked, u, terms, W):
    """W[j, 0]: terms divided by the factor of the true level of guessed variable j.

    ``W[j, 1]``: the same where a guess changes the factor of the linked level.
    """
    for j in range(columns.shape[0]):
        c = columns[j]
        y, z = truth[u, c], linked[u, c]
        for k in range(terms.shape[0]):
            W[j, 0, k] = terms[k] * inverse[y, k]
        if z >= 0:
            for k in range(terms.shape[0]):
                then = linked_factor(Q, tau, fixed, c, z, y != z, k)
                W[j, 1, k] = W[j, 0, k] * then / linked_factor(Q, tau, fixed, c, z, y == z, k)


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def dot(W, j, e, Q, r):
    """sum_k W[j, e, k] Q[r, k]."""
    total = 0.0
    for k in range(Q.shape[1]):
        total += W[j, e, k] * Q[r, k]
    return total


@numba.njit(cache=True, nogil=True)
def changes_of(guesses, truth, columns):
    """How many variables each guess changes, and which is the first; shapes (U, G)."""
    count = np.zeros(guesses.shape[:2], np.int64)
    first = np.zeros(guesses.shape[:2], np.int64)
    for u in range(guesses.shape[0]):
        for g in range(guesses.shape[1]):
            for j in range(columns.shape[0] - 1, -1, -1):
                if guesses[u, g, j] != truth[u, columns[j]]:
                    count[u, g] += 1
                    first[u, g] = j
    return count, first


@numba.njit(cache=True, nogil=True)
def others_mass(guesses, truth, linked, u, g, columns, Q, W, terms, product):
    """Mass of a guess in the classes that the target is not in; any number of changes."""
    K = terms.shape[0]
    for k in range(K):
        product[k] = terms[k]
    for j in range(columns.shape[0]):
        y, z, r = truth[u, columns[j]], linked[u, columns[j]], guesses[u, g, j]
        if r != y:
            e = int(z >= 0 and (r == z) != (y == z))
            for k in range(K):
                if terms[k] > 0.0:
                    product[k] *= Q[r, k] * W[j, e, k] / terms[k]
    total = 0.0
    for k in range(K):
        total += product[k]
    return total


@numba.njit(cache=True, nogil=True)
def own_mass(guesses, truth, linked, held, u, g, columns, Q, tau, fixed, k0, own, own_level):
    """Mass of a guess in the target's own class."""
    for j in range(columns.shape[0]):
        c, r = columns[j], guesses[u, g, j]
        if r != truth[u, c]:
            factor = own_class(Q, tau, fixed, c, held[u, c], linked[u, c], k0, r)
            own *= factor * own_level[j]
    return own


@numba.njit(cache=True, nogil=True)
def guess_masses(
    Q, tau, fixed, columns, truth, linked, held, guesses, u, k0, own, total,
    changes, terms, W, own_level, product, v, out,
):  # fmt: skip
    """Add v times the mass of every guess to out[u]."""
    count, first = changes
    K = terms.shape[0]
    if k0 < K:
        for j in range(columns.shape[0]):
            c = columns[j]
            own_level[j] = 1.0 / own_class(
                Q, tau, fixed, c, held[u, c], linked[u, c], k0, truth[u, c]
            )
    for g in range(guesses.shape[1]):
        if count[u, g] == 0:
            out[u, g] += v * total
        elif count[u, g] == 1:
            j = first[u, g]
            c, r = columns[j], guesses[u, g, j]
            y, z = truth[u, c], linked[u, c]
            mass = dot(W, j, int(z >= 0 and (r == z) != (y == z)), Q, r)
            if k0 < K:
                mass += own * own_class(Q, tau, fixed, c, held[u, c], z, k0, r) * own_level[j]
            out[u, g] += v * mass
        else:
            mass = others_mass(guesses, truth, linked, u, g, columns, Q, W, terms, product)
            if k0 < K:
                mass += own_mass(
                    guesses, truth, linked, held, u, g, columns, Q, tau, fixed, k0, own, own_level
                )
            out[u, g] += v * mass


@numba.njit(cache=True, nogil=True)
def predict(tables, layout, targets, weights, batch, log_truth, sums):
    """Fill log p_h(y_i), shape (H, U), if there are no guesses (G = 0).

    Else add the weighted p_h(y*) / p_h(y_i) to the sums of their batch, shape (B, U, G).
    """
    all_Q, all_tau, n, alpha, pi, integrated = tables
    fixed, columns = layout
    label, truth, linked, held, observed, conditioned, guesses = targets
    H, K = n.shape
    U, G, q = truth.shape[0], guesses.shape[1], columns.shape[0]
    base, inverse = np.empty((K + 1, K)), np.empty(all_Q.shape[1:])
    terms, product = np.empty(K), np.empty(K)
    W, own_level = np.empty((q, 2, K)), np.ones(q)
    changes = changes_of(guesses, truth, columns)
    for h in range(H):
        Q, tau, out = all_Q[h], all_tau[h], sums[batch[h]]
        for k in range(K + 1):
            if integrated:
                if k == K or n[h, k] > 0:  # an empty class has no target to take out
                    class_weights(n[h], alpha[h], k, base[k])
            else:
                base[k] = pi[h]
        if G > 0:
            inverse[:] = 1.0 / np.maximum(Q, TINY)
        for u in range(U):
            k0 = label[h, u]
            own, scale = truth_terms(Q, tau, fixed, truth, linked, held, u, k0, base, terms)
            total = own
            for k in range(K):
                total += terms[k]
            total = max(total, TINY)
            if G == 0:
                log_truth[h, u] = math.log(total) + scale
                log_truth[h, u] -= log_condition(
                    Q, tau, fixed, held, linked, observed, conditioned, base, u, k0, product
                )
            else:
                without_columns(Q, inverse, tau, fixed, columns, truth, linked, u, terms, W)
                guess_masses(
                    Q, tau, fixed, columns, truth, linked, held, guesses, u, k0, own, total,
                    changes, terms, W, own_level, product, weights[h, u] / total, out,
                )  # fmt: skip
