"""Compiled loops of weighted Poisson mixtures: sweeps with powers, and the tempered predictive.

A unit of power w enters with ``sum_k (pi_k f_k(y))^w``: its label has probabilities proportional to
``(pi_k f_k)^w``, and it counts w in its class. Derivation: `docs/sensitivity.md`.
Layout of ``M[3 p, K]``: weighted sums of counts, nothing, and weighted exposures, as the first rows
in `poisson_kernels`; there are neither structural zeros nor covariates.
"""

import math

import numba
import numpy as np

from bayes_risk.models.mixture.categorical.sweep import (
    TINY,
    cumulate,
    draw_alpha,
    draw_class,
    draw_sticks,
    keep_draw,
    swap_neighbours,
)
from bayes_risk.models.mixture.categorical.weighted_kernels import class_powers

from .kernels import log_poisson
from .masses import LOG_2_PI, count_constant, is_count, log_negative_binomial, stirling_error
from .sweep import draw_rates


@numba.njit(cache=True, nogil=True)
def tempered_masses(x, e, power, log_pi, phi, log_phi, out):
    """out[k] = (pi_k p(x | k))^power, the largest about 1.

    Differences from the best class: at counts of 1e9 the masses themselves have no digits left.
    """
    p, K, best = x.shape[0], out.shape[0], 0
    for k in range(K):
        out[k] = log_pi[k]
        for j in range(p):
            out[k] += x[j] * log_phi[j, k] - e[j] * phi[j, k]
        best = k if out[k] > out[best] else best
    for k in range(K):
        total = log_pi[k] - log_pi[best]
        for j in range(p):
            step = phi[j, k] - phi[j, best]
            if x[j] > 0.0:
                if abs(step) < 0.5 * phi[j, best]:
                    total += x[j] * math.log1p(step / phi[j, best])
                else:
                    total += x[j] * (log_phi[j, k] - log_phi[j, best])
            total -= e[j] * step
        out[k] = power * total
    top = out.max()
    for k in range(K):
        out[k] = math.exp(out[k] - top)


@numba.njit(cache=True, nogil=True)
def draw_tempered_labels(rng, data, multiplicity, pi, phi, n, M, first_label):
    """Labels with probabilities proportional to (pi_k f_k)^power; fills weighted counts n, M.

    ``first_label[u]`` keeps the label of one individual of unit u.
    """
    counts, exposure, power = data
    p, K = counts.shape[1], pi.shape[0]
    masses, copies = np.empty(K), np.zeros(K, np.int64)
    log_pi, log_phi = np.log(np.maximum(pi, TINY)), np.log(np.maximum(phi[:p], TINY))
    n[:] = 0.0
    M[:] = 0.0
    for u in range(multiplicity.shape[0]):
        tempered_masses(counts[u], exposure[u], power[u], log_pi, phi, log_phi, masses)
        cumulate(masses)
        first_label[u] = draw_class(rng, masses)
        copies[first_label[u]] += 1
        for _ in range(multiplicity[u] - 1):
            copies[draw_class(rng, masses)] += 1
        for k in range(K):
            if copies[k] > 0:
                w = power[u] * copies[k]
                n[k] += w
                for j in range(p):
                    M[j, k] += w * counts[u, j]
                    M[2 * p + j, k] += w * exposure[u, j]
                copies[k] = 0


@numba.njit(cache=True, nogil=True)
def run_weighted(rng, units, layout, prior, state, thin, swaps, out, first, last):
    """Draws first .. last - 1 of one chain, `thin` sweeps each; arrays of `state` are updated."""
    data, multiplicity = units
    alpha, log_left, pi, phi = state
    D, K = phi.shape
    n, M = np.zeros(K), np.zeros((D + layout[0].shape[0], K))
    label = np.zeros(multiplicity.shape[0], np.int64)
    for h in range(first, last):
        for _ in range(thin):
            draw_tempered_labels(rng, data, multiplicity, pi, phi, n, M, label)
            if swaps:
                swap_neighbours(rng, alpha[0], n, M)
            log_rest = draw_sticks(rng, n, alpha[0], log_left, pi)
            draw_rates(rng, M, layout, phi)
            alpha[0] = draw_alpha(rng, K - 1, log_rest, prior)
        keep_draw(state, n, out, h)


@numba.njit(cache=True, nogil=True)
def weighted_counts(rng, units, theta, out):
    """Labels drawn anew for every draw, and what they count: n (H, K), M (H, 3 p, K), label."""
    data, multiplicity = units
    pi, phi = theta
    n, M, label = out
    own = np.zeros(multiplicity.shape[0], np.int64)
    for h in range(pi.shape[0]):
        draw_tempered_labels(rng, data, multiplicity, pi[h], phi[h], n[h], M[h], own)
        label[h] = own


@numba.njit(cache=True, nogil=True)
def power_constant(x, w):
    """log Gamma(w x + 1) - w log Gamma(x + 1) - w x log w, by Stirling errors, which do not cancel.

    What E[Poisson(x; e r)^w] has beyond a negative binomial mass of w x at exposure w e.
    """
    if x == 0.0 or w == 1.0:
        return 0.0
    logs = 0.5 * math.log(w * x) - 0.5 * w * math.log(x) + 0.5 * (1.0 - w) * LOG_2_PI
    return logs + stirling_error(w * x) - w * stirling_error(x)


@numba.njit(cache=True, nogil=True)
def log_power_mass(x, e, A, B, w, constants, error):
    """log E[Poisson(x; e r)^w], r ~ Gamma(A, rate B); B = 0: r is A itself.

    ``constants``: `power_constant` of x, `count_constant` of w x; ``error`` `stirling_error` of A.
    """
    if not is_count(x):
        return -math.inf
    if B == 0.0:
        return w * log_poisson(x, e * A)
    return constants[0] + log_negative_binomial(w * x, A, B, w * e, constants[1], error)


@numba.njit(cache=True, nogil=True)
def rate_given(total, exposure, left, prior, j):
    """Gamma posterior of a rate from the weighted sums of a class, of weight ``left`` in all."""
    shape, rate = prior
    if left <= 0.0:  # nobody is left, and no rounding either
        return shape[j], rate[j]
    return shape[j] + max(total, 0.0), rate[j] + max(exposure, 0.0)


@numba.njit(cache=True, nogil=True)
def fill_rates(n, M, phi, prior, fixed, rates):
    """Shapes, rates and Stirling errors of all classes, nobody taken out; of drawn rates B = 0."""
    A, B, error = rates
    p = A.shape[0]
    for j in range(p):
        for k in range(A.shape[1]):
            if fixed:
                A[j, k], B[j, k], error[j, k] = phi[j, k], 0.0, 0.0
                continue
            A[j, k], B[j, k] = rate_given(M[j, k], M[2 * p + j, k], n[k], prior, j)
            error[j, k] = stirling_error(A[j, k])


@numba.njit(cache=True, nogil=True)
def take_out(n, M, prior, k, target, rates):
    """The same for one class without a target (x, e, w) that lies in it."""
    x, e, w = target
    A, B, error = rates
    p = A.shape[0]
    for j in range(p):
        A[j, k], B[j, k] = rate_given(
            M[j, k] - w * x[j], M[2 * p + j, k] - w * e[j], n[k] - w, prior, j
        )
        error[j, k] = stirling_error(A[j, k])


@numba.njit(cache=True, nogil=True)
def log_add(out):
    """log of the sum of exponentials."""
    top = out.max()
    if top == -math.inf:
        return top
    total = 0.0
    for k in range(out.shape[0]):
        total += math.exp(out[k] - top)
    return top + math.log(total)


@numba.njit(cache=True, nogil=True)
def class_logs(n, alpha, pi, fixed, k0, w, out):
    """log E[pi_k^w]: as drawn, or integrated out given the labels less the target's."""
    if fixed:
        for k in range(out.shape[0]):
            out[k] = w * math.log(max(pi[k], TINY))
        return
    class_powers(n, alpha, k0, w, out)
    for k in range(out.shape[0]):
        out[k] = math.log(max(out[k], TINY))


@numba.njit(cache=True, nogil=True)
def constants_of(values, w, out):
    """`power_constant` of counts and `count_constant` of w times them; of no counts, anything."""
    for i in range(values.shape[0]):
        v = max(values[i], 0.0)
        out[i, 0], out[i, 1] = power_constant(v, w), count_constant(w * v)


@numba.njit(cache=True, nogil=True)
def truth_masses(target, own, rates, mass, terms):
    """Add the target's counts to the class weights ``mass``; ``terms`` (p, K) keeps what each."""
    x, e, w = target
    A, B, error = rates
    for j in range(A.shape[0]):
        for k in range(A.shape[1]):
            terms[j, k] = log_power_mass(x[j], e[j], A[j, k], B[j, k], w, own[j], error[j, k])
            mass[k] += terms[j, k]


@numba.njit(cache=True, nogil=True)
def guess_mass(target, guess, new, columns, rates, known, product):
    """log mass of a guess: the truth's, the terms of the changed counts exchanged."""
    x, e, w = target
    A, B, error = rates
    mass, terms = known
    product[:] = mass
    for c in range(columns.shape[0]):
        j, v = columns[c], guess[c]
        if v != x[j]:
            for k in range(A.shape[1]):
                term = log_power_mass(v, e[j], A[j, k], B[j, k], w, new[c], error[j, k])
                product[k] += term - terms[j, k]
    return log_add(product)


@numba.njit(cache=True, nogil=True)
def log_plus(a, b):
    """log(exp(a) + exp(b))."""
    top = max(a, b)
    return top if top == -math.inf else top + math.log1p(math.exp(min(a, b) - top))


@numba.njit(cache=True, nogil=True)
def predict_powers(tables, prior, targets, weights, batch, log_truth, sums):
    """Fill log E_h[g_i(y_i)] (H, U), and add log sums of weights E_h[g(y*)] / E_h[g(y_i)].

    ``sums`` (B, G, U); with G = 0 the truth alone is looked at.
    """
    n, M, alpha, pi, phi, fixed = tables
    label, truth, exposure, power, columns, guesses = targets
    K, (U, p), (G, _, q) = n.shape[1], truth.shape, guesses.shape
    mass, terms, product = np.empty(K), np.empty((p, K)), np.empty(K)
    rates = np.empty((p, K)), np.empty((p, K)), np.empty((p, K))
    kept = np.empty((3, p))
    own, new = np.empty((U, p, 2)), np.empty((G, U, q, 2))
    for u in range(U):
        constants_of(truth[u], power[u], own[u])
        for g in range(G):
            constants_of(guesses[g, u], power[u], new[g, u])
    for h in range(n.shape[0]):
        fill_rates(n[h], M[h], phi[h], prior, fixed, rates)
        for u in range(U):
            k0, target = label[h, u], (truth[u], exposure[u], power[u])
            if k0 < K:
                for i in range(3):
                    kept[i] = rates[i][:, k0]
                take_out(n[h], M[h], prior, k0, target, rates)
            class_logs(n[h], alpha[h], pi[h], fixed, k0, power[u], mass)
            truth_masses(target, own[u], rates, mass, terms)
            log_truth[h, u] = log_add(mass)
            for g in range(G):
                value = guess_mass(
                    target, guesses[g, u], new[g, u], columns, rates, (mass, terms), product
                )
                value += weights[h, u] - log_truth[h, u]
                sums[batch[h], g, u] = log_plus(sums[batch[h], g, u], value)
            if k0 < K:
                for i in range(3):
                    rates[i][:, k0] = kept[i]
