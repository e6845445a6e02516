"""Compiled: masses of targets and guesses of counts, class by class, summed over draws in logs.

A guess is one of a few points in every guessed column, so each point meets each class once a draw,
and a guess is a product of what was found. The sum over classes runs over probabilities, those of
the likeliest guess being 1, and over logs for guesses below 1e-200: masses may differ by factors of
exp(1e6). Sums over draws are kept as (sum, what it is relative to, log of what is too small for
it).

``tables``: M (H, D + 2 p, K), phi (H, D, K), fixed. ``draws``: n (H, K), alpha (H,), pi (H, K).
``prior``: shape, rate, zeros, their prior, level, starts. ``targets``: label (H, U), structural
(H, U, p), truth, exposure, constant and split (U, p), rows of covariates' levels (U, q), and the
counts and exposures (U, p) that are taken out of the target's class: truth and exposure, where the
data hold the target's values.
``guesses``: the guessed columns; their points, the constants and splits of those (U, q', C), how
many points (U, q'), the point of the truth (U, q') and of each guess (U, G, q').
"""

import math

import numba
import numpy as np

from .collapse import class_parameters, log_class_weights, log_level, log_mass
from .masses import stirling_error

FAR = -40.0  # a class so far below another one adds nothing to it: 4e-18
LOG_RANGE = 500.0
SMALL = 1e-200  # of the likeliest guess; exp(-LOG_RANGE) is far below
TINY = 1e-250
STEP = 200.0  # of logs, beyond which a sum is put aside


@numba.njit(cache=True, nogil=True)
def log_sum_of(terms):
    """log sum exp."""
    top = -math.inf
    for k in range(terms.shape[0]):
        top = max(top, terms[k])
    if top == -math.inf:
        return top
    total = 0.0
    for k in range(terms.shape[0]):
        if terms[k] - top > FAR:
            total += math.exp(terms[k] - top)
    return top + math.log(total)


@numba.njit(cache=True, nogil=True)
def log_add(x, y):
    """log(exp x + exp y)."""
    top, other = max(x, y), min(x, y)
    return top if other == -math.inf else top + math.log1p(math.exp(other - top))


@numba.njit(cache=True, nogil=True)
def rest_terms(tables, draws, prior, targets, guessed, h, u, out):
    """out[k]: log of weight and of the target's own values in the columns that are not guessed."""
    M, phi, fixed = tables[0][h], tables[1][h], tables[2]
    label, structural, truth, exposure, constant, split, positions, gone, gone_e = targets
    k0 = label[h, u]
    log_class_weights(draws[0][h], draws[1][h], draws[2][h], fixed, k0, out)
    for j in range(truth.shape[1]):
        if not guessed[j]:
            x, e, s = truth[u, j], exposure[u, j], structural[h, u, j]
            for k in range(out.shape[0]):
                A, B, psi = class_parameters(
                    M, phi, fixed, prior, j, k, k == k0, gone[u, j], gone_e[u, j], s
                )
                out[k] += split[u, j]
                error = stirling_error(A)
                out[k] += log_mass(x, e, A, B, psi, prior[2], fixed, constant[u, j], error)
    for q in range(positions.shape[1]):
        row = positions[u, q]
        if row >= 0:
            for k in range(out.shape[0]):
                out[k] += log_level(M, phi, fixed, prior, row, q, k, int(k == k0))


@numba.njit(cache=True, nogil=True)
def bounds(rest, L, n_points, u, k):
    """Largest and smallest log mass that any guess can have in a class."""
    most, least = rest[k], rest[k]
    for i in range(L.shape[0]):
        high, low = L[i, 0, k], L[i, 0, k]
        for c in range(1, n_points[u, i]):
            high, low = max(high, L[i, c, k]), min(low, L[i, c, k])
        most, least = most + high, least + low
    return most, least


@numba.njit(cache=True, nogil=True)
def class_points(tables, prior, targets, guesses, h, u, k, L):
    """L[j, c, k]: log mass of each point of each guessed column in class k."""
    M, phi, fixed = tables[0][h], tables[1][h], tables[2]
    label, structural, _, exposure = targets[:4]
    gone, gone_e = targets[7:]
    columns, points, constants, splits, n_points = guesses[:5]
    own = k == label[h, u]
    for i in range(columns.shape[0]):
        j = columns[i]
        e, s = exposure[u, j], structural[h, u, j]
        A, B, psi = class_parameters(M, phi, fixed, prior, j, k, own, gone[u, j], gone_e[u, j], s)
        error = stirling_error(A)
        for c in range(n_points[u, i]):
            x, constant = points[u, i, c], constants[u, i, c]
            mass = log_mass(x, e, A, B, psi, prior[2], fixed, constant, error)
            L[i, c, k] = mass + splits[u, i, c]


@numba.njit(cache=True, nogil=True)
def point_terms(tables, prior, targets, guesses, h, u, rest, L):
    """L[j, c, k] of the classes that matter; minus infinity of those that cannot.

    A mass is at most 1, so a class whose ``rest`` is far below the least that another class gives
    to any guess adds nothing to any. The class that the rest points to is looked at first.
    """
    n_points, first = guesses[4], 0
    for k in range(rest.shape[0]):
        first = k if rest[k] > rest[first] else first
    class_points(tables, prior, targets, guesses, h, u, first, L)
    least = bounds(rest, L, n_points, u, first)[1]
    for k in range(rest.shape[0]):
        if k == first:
            continue
        if rest[k] < least + FAR:
            L[:, :, k] = -math.inf
        else:
            class_points(tables, prior, targets, guesses, h, u, k, L)


@numba.njit(cache=True, nogil=True)
def truth_masses(tables, draws, prior, targets, out):
    """out[h, u] = log p_h(values of the target), the target taken out."""
    terms = np.empty(draws[0].shape[1])
    guessed = np.zeros(targets[2].shape[1], np.bool_)
    for h in range(out.shape[0]):
        for u in range(out.shape[1]):
            rest_terms(tables, draws, prior, targets, guessed, h, u, terms)
            out[h, u] = log_sum_of(terms)


@numba.njit(cache=True, nogil=True)
def scale(rest, L, n_points, u, R, base):
    """Probabilities of points over the likeliest, for the classes that matter to some guess.

    ``R[j, c, i]`` belongs to the i-th class kept, ``base[i]`` to its likeliest guess. How many are
    kept, and the log of what was divided out, are returned.
    """
    q, K = L.shape[0], L.shape[2]
    top, low = -math.inf, -math.inf
    for k in range(K):
        most, least = bounds(rest, L, n_points, u, k)
        top, low = max(top, most), max(low, least)
    reach, kept = max(top - LOG_RANGE, low + FAR), 0
    for k in range(K):
        most = bounds(rest, L, n_points, u, k)[0]
        if most < reach or most == -math.inf:
            continue
        base[kept] = math.exp(most - top)
        for i in range(q):
            high = L[i, 0, k]
            for c in range(1, n_points[u, i]):
                high = max(high, L[i, c, k])
            for c in range(n_points[u, i]):
                R[i, c, kept] = math.exp(L[i, c, k] - high)
        kept += 1
    return kept, top


@numba.njit(cache=True, nogil=True)
def log_guess(rest, L, cells, u, g, terms):
    """Log mass of one guess over all classes, by logs alone."""
    for k in range(rest.shape[0]):
        terms[k] = rest[k]
        for i in range(cells.shape[2]):
            terms[k] += L[i, cells[u, g, i], k]
    return log_sum_of(terms)


@numba.njit(cache=True, nogil=True)
def put_aside(sums, relative, small, b):
    """Move the sums of a batch to the logs of what is too small."""
    for g in range(sums.shape[1]):
        if sums[b, g] > 0.0:
            small[b, g] = log_add(small[b, g], math.log(sums[b, g]) + relative[b])
            sums[b, g] = 0.0


@numba.njit(cache=True, nogil=True)
def first_changes(cells, u, first):
    """first[g]: the first column in which a guess differs from the one before."""
    q = cells.shape[2]
    for g in range(cells.shape[1]):
        first[g] = 0
        while g > 0 and first[g] < q - 1 and cells[u, g, first[g]] == cells[u, g - 1, first[g]]:
            first[g] += 1


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def guess_masses(R, cells, u, first, kept, products, masses):
    """Masses of guesses over the likeliest; products of what a guess shares with the one before.

    ``products[j, i]``: base and the first j columns' points in class i.
    """
    q = cells.shape[2]
    for g in range(cells.shape[1]):
        for j in range(first[g], q - 1):
            c = cells[u, g, j]
            for i in range(kept):
                products[j + 1, i] = products[j, i] * R[j, c, i]
        mass, c = 0.0, cells[u, g, q - 1]
        for i in range(kept):
            mass += products[q - 1, i] * R[q - 1, c, i]
        masses[g] = mass


@numba.njit(cache=True, nogil=True)
def add_draw(rest, L, cells, u, masses, log_v, top, b, sums, relative, small, terms):
    """Add exp(log_v) times the mass of every guess to the sums of a batch."""
    s = log_v + top
    if s == -math.inf:
        return
    if s > relative[b] + STEP:
        put_aside(sums, relative, small, b)
        relative[b] = s
    factor = math.exp(s - relative[b])
    least = max(SMALL, TINY / factor) if factor > 0.0 else math.inf
    for g in range(masses.shape[0]):
        if masses[g] > least:
            sums[b, g] += masses[g] * factor
        else:
            found = log_v + log_guess(rest, L, cells, u, g, terms)
            small[b, g] = log_add(small[b, g], found)


@numba.njit(cache=True, nogil=True)
def guess_sums(tables, draws, prior, targets, guesses, log_weights, batch, out):
    """out[b, g, u] = log of the batch's sum of exp(log_weights) p_h(y*) / p_h(y_i)."""
    columns, points, n_points = guesses[0], guesses[1], guesses[4]
    truth_at, cells = guesses[5], guesses[6]
    H, K, q, C = draws[0].shape[0], draws[0].shape[1], points.shape[1], points.shape[2]
    B, G, U = out.shape
    rest, terms, products = np.empty(K), np.empty(K), np.empty((q, K))
    L, R = np.empty((q, C, K)), np.empty((q, C, K))
    guessed = np.zeros(targets[2].shape[1], np.bool_)
    guessed[columns] = True
    sums, small, relative = np.empty((B, G)), np.empty((B, G)), np.empty(B)
    first, masses = np.empty(G, np.int64), np.empty(G)
    for u in range(U):
        sums[:], small[:], relative[:] = 0.0, -math.inf, -math.inf
        first_changes(cells, u, first)
        for h in range(H):
            rest_terms(tables, draws, prior, targets, guessed, h, u, rest)
            point_terms(tables, prior, targets, guesses, h, u, rest, L)
            kept, top = scale(rest, L, n_points, u, R, products[0])
            log_v = log_weights[h, u] - log_guess(rest, L, truth_at, u, 0, terms)
            guess_masses(R, cells, u, first, kept, products, masses)
            add_draw(rest, L, cells, u, masses, log_v, top, batch[h], sums, relative, small, terms)
        for b in range(B):
            put_aside(sums, relative, small, b)
            out[b, :, u] = small[b]
