"""The blocked Gibbs sweep of a mixture of any families, with record weights and kept columns.

Labels, order of classes, sticks and concentration are those of `sweep.py`; what the families say
stands in `families.py`, the step for columns that a release keeps in `kept_columns.py`, that for
structural zeros in `zeros.py`, moves of whole classes in `mixed_split_merge.py`. Tables of
levels alone that all count in full have a faster loop of their own in `sampler.py`.
"""

import math

import numba
import numpy as np

from .families import draw_labels, draw_parameters, log_count, log_normal, log_terms
from .kept_columns import log_ratio, mixed, sums_after, update_levels, update_sticks
from .mixed_split_merge import draw_each_label, individuals, split_merge
from .sweep import TINY, draw_alpha, draw_sticks, keep_draw, swap_neighbours
from .zeros import fall, fall_given


@numba.njit(cache=True, nogil=True)
def part_masses(parts, phi, layout):
    """g[k, v] = p(v-th unsynthesised part | k), relative to its likeliest class."""
    K, V = phi.shape[1], parts[0].shape[0]
    g, terms, even = np.empty((K, V)), np.empty(K), np.ones(K)
    for v in range(V):
        log_terms(parts, v, even, phi, layout, terms)
        top = terms.max()
        for k in range(K):
            g[k, v] = math.exp(terms[k] - top)
    return g


@numba.njit(cache=True, nogil=True)
def log_gain_of(M, new, phi, layout, v, k):
    """log p(sums | new) / p(sums | phi) of number v in class k."""
    p, r, D = layout[2].shape[0], layout[6].shape[0], phi.shape[0]
    if v < p:
        ratio, step = math.log(new[v, k] / phi[v, k]), new[v, k] - phi[v, k]
        gain = M[v, k] * ratio - M[D + v, k] * step
        if layout[4]:
            here, then = phi[p + v, k], new[p + v, k]
            gain += M[p + v, k] * math.log(then / here)
            gain += M[D + p + v, k] * (math.log1p(-then) - math.log1p(-here))
        return gain
    j = 2 * p + v - p
    n, total, squares = M[D + p + v, k], M[j, k], M[j + r, k]
    gain = 0.5 * n * math.log(new[j + r, k] / phi[j + r, k])
    gain -= 0.5 * new[j + r, k] * (squares - 2.0 * new[j, k] * total + n * new[j, k] ** 2)
    gain += 0.5 * phi[j + r, k] * (squares - 2.0 * phi[j, k] * total + n * phi[j, k] ** 2)
    return gain


@numba.njit(cache=True, nogil=True)
def rows_of(layout, D, v):
    """First and last row of phi, and further rows, of a number."""
    p, r = layout[2].shape[0], layout[6].shape[0]
    return (v, p + v) if v < p else (p + v, p + r + v)


@numba.njit(cache=True, nogil=True)
def factors_of(parts, phi, new, layout, v, k, more):
    """more[part] = p(number v of the part | new) / p(... | phi) in class k."""
    _, counts, exposure, reals = parts
    p = layout[2].shape[0]
    here, also = rows_of(layout, phi.shape[0], v)
    for i in range(more.shape[0]):
        more[i] = 1.0
        if v < p and exposure[i, v] > 0.0:
            x, e = counts[i, v], exposure[i, v]
            gain = log_count(x, e * new[here, k], new[also, k], layout[4])
            gain -= log_count(x, e * phi[here, k], phi[also, k], layout[4])
            more[i] = math.exp(gain)
        elif v >= p and reals[i, v - p] == reals[i, v - p]:
            x = reals[i, v - p]
            gain = log_normal(x, new[here, k], new[also, k])
            more[i] = math.exp(gain - log_normal(x, phi[here, k], phi[also, k]))


@numba.njit(cache=True, nogil=True)
def update_numbers(rng, parts, c, v, proposal, M_z, layout, pi, phi, g):
    """Propose the parameters of number v from those given y alone, class by class.

    S_v is summed from what lies before, in and after class k, as in `update_levels`.
    """
    inverse, R = 1.0 / np.maximum(mixed(pi, g), TINY), sums_after(pi, g)
    V = c.shape[0]
    head, S_new, more = np.zeros(V), np.empty(V), np.empty(V)
    here, also = rows_of(layout, phi.shape[0], v)
    for k in range(pi.shape[0]):
        gain = log_gain_of(M_z, proposal, phi, layout, v, k)
        factors_of(parts, phi, proposal, layout, v, k, more)
        for i in range(V):
            S_new[i] = head[i] + pi[k] * g[k, i] * more[i] + R[k, i]
        if math.log(rng.random()) < gain - log_ratio(S_new, inverse, c):
            for i in range(V):
                g[k, i] *= more[i]
                inverse[i] = 1.0 / max(S_new[i], TINY)
            phi[here, k], phi[also, k] = proposal[here, k], proposal[also, k]
        for i in range(V):
            head[i] += pi[k] * g[k, i]


@numba.njit(cache=True, nogil=True)
def update_given(rng, given, layout, prior, alpha, log_left, pi, phi, n, M, n_z, M_z, g):
    """Weights and parameters from the sums of confidential and synthetic rows; returns alpha.

    ``given``: unsynthesised parts, how often each divides, their rows of levels (w, V) and which
    columns those are. n and M become the sums of both.
    """
    parts, c, us, us_columns = given
    p, r, starts = layout[2].shape[0], layout[6].shape[0], layout[0]
    log_rest = update_sticks(rng, n, n_z, alpha, log_left, pi, g, c)
    proposal = phi.copy()
    draw_parameters(rng, M, layout, proposal)
    kept = np.zeros(p + r + starts.shape[0] - 1, np.bool_)
    for j in range(us_columns.shape[0]):
        update_levels(rng, us[j], c, starts, us_columns[j], proposal, M_z, pi, phi, g)
        kept[p + r + us_columns[j]] = True
    for v in range(p + r):
        if (
            (parts[2][:, v] > 0.0).any()
            if v < p
            else (parts[3][:, v - p] == parts[3][:, v - p]).any()
        ):
            update_numbers(rng, parts, c, v, proposal, M_z, layout, pi, phi, g)
            kept[v] = True
    M += M_z
    n += n_z
    draw_parameters(rng, M, layout, proposal)
    for v in range(p + r):
        if not kept[v]:
            here, also = rows_of(layout, phi.shape[0], v)
            phi[here], phi[also] = proposal[here], proposal[also]
    for j in range(starts.shape[0] - 1):
        if not kept[p + r + j]:
            phi[starts[j] : starts[j + 1]] = proposal[starts[j] : starts[j + 1]]
    return draw_alpha(rng, n.shape[0] - 1, log_rest, prior)


@numba.njit(cache=True, nogil=True)
def sums_of(rng, data, layout, zero, N, pi, phi, n, M, n_z, M_z, label, flags):
    """Labels anew, then sums: of records (n, M), and of synthetic rows drawn given others.

    With structural zeros the records that fell into them are among the sums. Returns how many fell
    beside the records, what divides each part with what fell there, and part_masses.
    """
    units, rows, parts, c, us, us_columns = data
    draw_labels(rng, units, pi, phi, layout, n, M, label, flags)
    fallen = 0
    if zero[0].shape[0] > 0:
        fallen = fall(rng, N, zero, pi, phi, n, M)
    g = np.empty((0, 0))
    if c.shape[0] > 0:
        other = np.empty(rows[1].shape[0], np.int64)
        draw_labels(rng, rows, pi, phi, layout, n_z, M_z, other, flags[:0])
        g = part_masses(parts, phi, layout)
        if zero[0].shape[0] > 0:
            c = fall_given(rng, zero, us, us_columns, c, pi, phi, g, n_z, M_z)
    return fallen, c, g


@numba.njit(cache=True, nogil=True)
def run(rng, data, layout, prior, state, thin, swaps, out, first, last):
    """Draws first .. last - 1 of one chain, `thin` sweeps each; arrays of `state` are updated.

    ``data``: units, synthetic rows, unsynthesised parts, how often each divides, their rows of
    levels and which columns those are; ``layout``: the families', structural zeros, how many rows
    are normalised, and how many splits or merges a sweep tries: none where rows are drawn given
    others, whose divisors the moves do not know, and none with boxes of structural zeros, whose
    records have classes but no labels.
    """
    families, zero, N, splits = layout
    alpha, log_left, pi, phi = state
    K, extra = pi.shape[0], 2 * families[2].shape[0] + families[6].shape[0]
    n, M = np.zeros(K), np.zeros((phi.shape[0] + extra, K))
    n_z, M_z = np.zeros_like(n), np.zeros_like(M)
    label, flags = np.zeros(data[0][1].shape[0], np.int64), np.zeros((0, 0), np.bool_)
    splits *= data[3].shape[0] == 0 and zero[0].shape[0] == 0
    rows, z = individuals(data[0], families, splits > 0)
    classes, tally = (n, np.zeros(K, np.int64), M), np.zeros((2, 2), np.int64)
    c, g = data[3], np.empty((0, 0))
    for h in range(first, last):
        for _ in range(thin):
            if splits > 0:
                draw_each_label(rng, rows, pi, phi, families, classes, z)
                split_merge(rng, splits, rows, families, alpha[0], classes, z, tally)
            else:
                _, c, g = sums_of(
                    rng, data, families, zero, N, pi, phi, n, M, n_z, M_z, label, flags
                )
            if c.shape[0] > 0:
                alpha[0] = update_given(
                    rng, (data[2], c, data[4], data[5]), families, prior,
                    alpha[0], log_left, pi, phi, n, M, n_z, M_z, g,
                )  # fmt: skip
                continue
            if swaps:
                swap_neighbours(rng, alpha[0], n, M)
            log_rest = draw_sticks(rng, n, alpha[0], log_left, pi)
            draw_parameters(rng, M, families, phi)
            alpha[0] = draw_alpha(rng, K - 1, log_rest, prior)
        keep_draw(state, n, out, h)
