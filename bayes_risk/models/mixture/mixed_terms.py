"""Compiled: log masses of targets and guesses, class by class, in a mixture of any families.

A guess is one of a few points in every guessed column, so each point meets each class once a draw,
and a guess is a product of what was found. The sum over classes runs over probabilities, those of
the likeliest guess being 1, and over logs for guesses below 1e-200: masses may differ by factors of
exp(1e6). Log masses of levels, and of the distinct values of numbers in a block of targets, are
tabulated once a draw, class by class; the target's own class comes after. Sums over draws are kept
as (sum, what it is relative to, log of what is too small for it). Kernels with ``_nrt=False``
allocate nothing, and do not count references to arrays at each call: that took three quarters of
the time.

Variables are numbered counts, reals, levels; a level's value is its row of phi. ``draw`` is a
`PredictiveDraw`, ``targets`` are `CaseArrays`, ``guesses`` `PointArrays`, ``numbers``
`NumberValues`.
"""

import math

import numba
import numpy as np

from .families import (
    exponentials,
    largest,
    log_add,
    log_number_density,
    log_rise,
    log_sum_of,
    number_parameters,
)
from .kernel_arguments import OwnValues
from .sweep import TINY

SMALL = 1e-200  # of the likeliest guess; the exponentials go far below
LEAST = -1e300  # instead of the log of no probability, of which nothing is taken


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def class_powers(n, alpha, pi, order, k0, w, every, out):
    """log E[pi_k^w | labels, w less in the k0-th class] of the classes in ``order``; or of pi."""
    K = n.shape[0]
    if pi.shape[0] > 0:
        for t in range(out.shape[0]):
            out[t] = w * math.log(max(pi[order[t]], TINY))
        return
    removed, log_rest, rest = order[k0] if k0 < out.shape[0] else K, 0.0, -math.inf
    after = n.sum() - (w if removed < K else 0.0)
    for k in range(K - 1):
        here = 1.0 + n[k] - (w if k == removed else 0.0)
        after -= here - 1.0
        both = log_rise(here + alpha + after, w)
        every[k] = log_rest + log_rise(here, w) - both
        log_rest += log_rise(alpha + after, w) - both
    every[K - 1] = log_rest
    for k in range(K):
        if n[k] == 0.0 and k != removed:
            rest = log_add(rest, every[k])
    for t in range(out.shape[0]):
        k = order[t]
        out[t] = every[k]
        if n[k] == 0.0 and k != removed:
            out[t], rest = rest, -math.inf


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"}, _nrt=False)
def fill_reals(x, constant, S, out):
    """out[k] = log of a Student density of x, ``S``: factor of its square, mean, log top, power."""
    for k in range(out.shape[0]):
        q = S[0, k] * (x - S[1, k]) * (x - S[1, k])
        r = q / (2.0 + q)
        s = r * r
        t = 1.0 / 15.0 + s * (1.0 / 17.0 + s * (1.0 / 19.0 + s / 21.0))
        t = 1.0 / 9.0 + s * (1.0 / 11.0 + s * (1.0 / 13.0 + s * t))
        t = 1.0 + s * (1.0 / 3.0 + s * (1.0 / 5.0 + s * (1.0 / 7.0 + s * t)))
        out[k] = constant + S[2, k] - S[3, k] * (2.0 * r * t)
    for k in range(out.shape[0]):
        q = S[0, k] * (x - S[1, k]) * (x - S[1, k])
        if q > 0.5:
            out[k] = constant + S[2, k] - S[3, k] * math.log1p(q)


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def fill_draw(M, phi, layout, fixed, numbers, work):
    """Parameters of all numbers, logs of all levels and of distinct values of numbers."""
    S, P, T, last = work.S, work.P, work.T, -1
    starts, p = layout.starts, layout.shape.shape[0]
    p_r = p + layout.reals.shape[0]
    D, K = phi.shape
    for v in range(p_r):
        for k in range(K):
            number_parameters(M, phi, layout, fixed[v], v, k, work.nothing, P[v, k])
    for q in range(starts.shape[0] - 1):
        for k in range(K):
            total = 0.0
            for row in range(starts[q], starts[q + 1]):
                total += M[row, k] + layout.level if not fixed[p_r + q] else phi[row, k]
            P[p_r + q, k, 0] = total
            for row in range(starts[q], starts[q + 1]):
                here = phi[row, k] if fixed[p_r + q] else M[row, k] + layout.level
                T[row, k] = math.log(max(here, TINY) / total)
    for i in range(numbers.variables.shape[0]):
        v, x, e = numbers.variables[i], numbers.values[i, 0], numbers.values[i, 1]
        if v < p or fixed[v] or x - x != 0.0:
            for k in range(K):
                of = P[v, k]
                of_x = numbers.constants[i]
                T[D + i, k] = log_number_density(x, e, of, v >= p, layout.inflated, 1.0, of_x)
            continue
        if v != last:
            last = v
            for k in range(K):
                kappa = P[v, k, 1]
                S[0, k] = 0.5 * kappa / ((kappa + 1.0) * P[v, k, 3])
                S[1, k], S[2, k], S[3, k] = P[v, k, 0], P[v, k, 4], P[v, k, 2] + 0.5
        fill_reals(x, numbers.constants[i, 0], S, T[D + i])


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def own_values(targets, h, u, v, p):
    """What the data hold of variable v of a target."""
    flag, of_z = 0.0, 0.0
    if v < p:
        flag, of_z = 1.0 * targets.flags[h, u, v], 1.0 * targets.flags[h, u, p + v]
    y, z, e = targets.data[u, v], targets.linked[u, v], targets.exposure[u, v]
    return OwnValues(targets.power[u], y, z, e, flag, of_z)


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def set_gone(case, own, given_z, gone):
    """What is taken out of the sums of a class before a value of a variable is looked at."""
    y, z, e = case.own, case.linked, case.exposure
    gone[:, 0] = 0.0
    if own and y == y:
        gone[0, 0], gone[0, 1], gone[0, 2], gone[0, 3] = case.power, y, e, case.flag
    if z == z and own != given_z:
        gone[1, 0], gone[1, 1], gone[1, 2] = 1.0 if own else -1.0, z, e
        gone[1, 3] = case.linked_flag if own else 0.0
    return gone[0, 0] != 0.0 or gone[1, 0] != 0.0


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def log_value(M, phi, P, T, layout, fixed, v, k, x, e, changed, gone, w, constants, of):
    """log E[p(x)^w] of variable v in class k; ``changed``: something is ``gone`` from its sums."""
    p, p_r = layout.shape.shape[0], layout.shape.shape[0] + layout.reals.shape[0]
    if v >= p_r:
        row = int(x)
        if w == 1.0 and not changed:
            return T[row, k]
        if fixed:
            return w * math.log(max(phi[row, k], TINY))
        here, total = M[row, k] + layout.level, P[v, k, 0]
        for i in range(gone.shape[0]):
            if gone[i, 0] != 0.0:
                total -= gone[i, 0]
                if gone[i, 1] == row:
                    here -= gone[i, 0]
        here, total = max(here, TINY), max(total, TINY)
        if w == 1.0:  # log E[x^w], x ~ Beta(here, total - here)
            return math.log(here / total)
        return log_rise(here, w) - log_rise(total, w)
    if not changed or fixed:
        return log_number_density(x, e, P[v, k], v >= p, layout.inflated, w, constants)
    number_parameters(M, phi, layout, False, v, k, gone, of)
    return log_number_density(x, e, of, v >= p, layout.inflated, w, constants)


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def add_value(
    M, phi, P, T, layout, fixed, v, case, k0, x, row, given_z, w, constants, gone, of, out
):
    """Add to out[k] the log of E[p(x)^w] of variable v, in ``row`` of T; k0 without the target."""
    e, K = case.exposure, out.shape[0]
    changed = set_gone(case, False, given_z, gone)
    mine = out[k0] if k0 < K else 0.0
    if row >= 0 and w == 1.0 and not changed:
        for k in range(K):
            out[k] += T[row, k]
    else:
        for k in range(K):
            if out[k] > -math.inf:
                out[k] += log_value(
                    M, phi, P, T, layout, fixed, v, k, x, e, changed, gone, w, constants, of
                )
    if k0 < K:
        changed = set_gone(case, True, given_z, gone)
        out[k0] = mine + log_value(
            M, phi, P, T, layout, fixed, v, k0, x, e, changed, gone, w, constants, of
        )


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def both_kinds(M, phi, layout, case, v, k, own, gone, of):
    """Chance that the own synthetic zero of a count is structural; parameters if not, and if so."""
    e = case.exposure
    set_gone(case, own, False, gone)
    if not own:
        gone[1, 0] = 0.0
    number_parameters(M, phi, layout, False, v, k, gone, of[0])
    psi, alive = of[0, 3], -of[0, 0] * math.log1p(e / of[0, 1])
    for s in range(2):
        gone[2, 0], gone[2, 1], gone[2, 2], gone[2, 3] = -1.0, 0.0, e, s
        number_parameters(M, phi, layout, False, v, k, gone, of[s])
    return psi / (psi + (1.0 - psi) * math.exp(alive))


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def log_of_both(share, x, e, of, w, constants):
    """log mass of a count whose class has a parameter set with chance 1 - share, or another."""
    first = log_number_density(x, e, of[0], False, True, w, constants)
    second = log_number_density(x, e, of[1], False, True, w, constants)
    return log_add(math.log1p(-share) + first, math.log(share) + second)


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def rest_terms(draw, layout, fixed, targets, h, u, which, work, out):
    """out[k]: log of the class's weight and of all (0), not guessed (1), or given (2) values."""
    M, phi, P, T, gone, of = draw.M, draw.phi, draw.P, draw.T, work.gone, work.of
    k0, p, w = targets.label[h, u], layout.shape.shape[0], 1.0 if which == 2 else targets.power[u]
    p_r = p + layout.reals.shape[0]
    if w == 1.0:
        for k in range(out.shape[0]):
            out[k] = draw.log_weights[k0, k]
    else:
        class_powers(draw.n, draw.alpha, draw.pi, draw.order, k0, w, work.every, out)
    anything = False
    for v in range(targets.values.shape[1]):
        case, x, z = own_values(targets, h, u, v, p), targets.values[u, v], targets.linked[u, v]
        wanted = targets.given[u, v] if which == 2 else not (which == 1 and work.guessed[v])
        take, take_z = x == x and wanted, z == z and (which != 2 or targets.given_linked[u, v])
        anything |= take or take_z
        if take_z:
            add_value(
                M, phi, P, T, layout, fixed[v], v, case, k0, z, int(z) if v >= p_r else -1, False,
                1.0, targets.linked_constants[u, v], gone, of[0], out,
            )  # fmt: skip
        if take and take_z and layout.inflated and v < p and z == 0.0 and not fixed[v]:
            for k in range(out.shape[0]):
                share = both_kinds(M, phi, layout, case, v, k, k == k0, gone, of)
                out[k] += log_of_both(share, x, case.exposure, of, w, targets.constants[u, v])
        elif take:
            add_value(
                M, phi, P, T, layout, fixed[v], v, case, k0, x,
                int(x) if v >= p_r else targets.rows[u, v], take_z, w, targets.constants[u, v],
                gone, of[0], out,
            )  # fmt: skip
    return anything


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def point_terms(draw, layout, fixed, targets, guesses, h, u, work, L):
    """L[i, c, k]: log masses of the points that guesses have in each guessed variable."""
    M, phi, P, T, gone, of = draw.M, draw.phi, draw.P, draw.T, work.gone, work.of
    k0, K = targets.label[h, u], L.shape[2]
    p, r = layout.shape.shape[0], layout.reals.shape[0]
    for i in range(guesses.columns.shape[0]):
        v, some = guesses.columns[i], guesses.n_points[u, i]
        case = own_values(targets, h, u, v, p)
        w, z, e = case.power, case.linked, case.exposure
        first, last = k0, min(k0 + 1, K)
        if w != 1.0 or set_gone(case, False, True, gone):
            first, last = 0, K
        for c in range(some):
            row = int(guesses.values[u, i, c]) if v >= p + r else guesses.rows[u, i, c]
            for k in range(K):
                L[i, c, k] = T[row, k]
        for k in range(first, last):
            own = k == k0
            changed, share = set_gone(case, own, True, gone), -1.0
            plain = v >= p + r or fixed[v] or not changed
            if not plain and layout.inflated and v < p and z == 0.0:
                share = both_kinds(M, phi, layout, case, v, k, own, gone, of)
            elif not plain:
                number_parameters(M, phi, layout, False, v, k, gone, of[0])
            for c in range(some):
                x, of_x = guesses.values[u, i, c], guesses.constants[u, i, c]
                if plain:
                    L[i, c, k] = log_value(
                        M, phi, P, T, layout, fixed[v], v, k, x, e, changed, gone, w, of_x, of[0]
                    )
                elif share >= 0.0:
                    L[i, c, k] = log_of_both(share, x, e, of, w, of_x)
                else:
                    L[i, c, k] = log_number_density(x, e, of[0], v >= p, layout.inflated, w, of_x)


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def log_guess(rest, L, cells, u, g, terms):
    """Log mass of one guess over all classes, by logs alone."""
    for k in range(rest.shape[0]):
        terms[k] = rest[k]
        for i in range(cells.shape[2]):
            terms[k] += L[i, cells[u, g, i], k]
    return log_sum_of(terms)


@numba.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"}, _nrt=False
)
def likeliest_masses(R, cells, u, first, products, masses):
    """Masses of guesses over the likeliest; products of what a guess shares with the one before."""
    q, K = cells.shape[2], products.shape[1]
    for g in range(cells.shape[1]):
        for i in range(first[u, g], q - 1):
            c = cells[u, g, i]
            for k in range(K):
                products[i + 1, k] = products[i, k] * R[i, c, k]
        mass, c = 0.0, cells[u, g, q - 1]
        for k in range(K):
            mass += products[q - 1, k] * R[q - 1, c, k]
        masses[g] = mass


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def put_aside(sums, relative, small):
    """Move sums (G,) to the logs of what is too small."""
    for g in range(sums.shape[0]):
        if sums[g] > 0.0:
            small[g] = log_add(small[g], math.log(sums[g]) + relative)
            sums[g] = 0.0


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def points_of(draw, layout, fixed, targets, guesses, h, u, found):
    """Masses of all guesses by a draw; log of what they are over, and log of the truth's."""
    terms, rest, L, R, most = found.terms, found.rest, found.L, found.R, found.products[0]
    rest_terms(draw, layout, fixed, targets, h, u, np.int64(1), found.spare, rest)
    point_terms(draw, layout, fixed, targets, guesses, h, u, found.spare, L)
    for k in range(rest.shape[0]):
        most[k] = rest[k]
    for i in range(L.shape[0]):
        some = guesses.n_points[u, i]
        for k in range(rest.shape[0]):
            terms[k] = L[i, 0, k]
        for c in range(1, some):
            for k in range(rest.shape[0]):
                terms[k] = max(terms[k], L[i, c, k])
        for k in range(rest.shape[0]):
            most[k] += terms[k]
            terms[k] = max(terms[k], LEAST)
        for c in range(some):
            for k in range(rest.shape[0]):
                R[i, c, k] = L[i, c, k] - terms[k]
            exponentials(0.0, R[i, c])
    top = largest(most)
    exponentials(top, most)
    likeliest_masses(R, guesses.cells, u, guesses.first, found.products, found.masses)
    return top, log_guess(rest, L, guesses.truth, u, 0, terms)
