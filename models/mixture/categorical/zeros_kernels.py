"""Compiled loops of latent classes with structural zeros: the records that fell into the zeros.

Derivations stand in `docs/mixtures.md`. ``zero`` is the tuple of a `ZeroLayout`: ``boxes
[B, D]`` flags of levels; ``of[B, p]`` the factor of each box and variable; ``narrow[F]`` whether a
factor leaves out any level; its levels are ``rows[ptr[f]:ptr[f + 1]]``. ``G[F, K]`` is the
probability of a factor in a class, so that a box has mass ``prod_j G[of[b, j], k]`` there.
"""

import numba
import numpy as np
import numpy.typing as npt

from .kept_columns import update_given, us_masses
from .predictive_kernels import fill_levels
from .state import Draws, Prior, Units, n_normalised
from .sweep import (
    TINY,
    cumulate,
    draw_alpha,
    draw_class,
    draw_labels,
    draw_levels,
    draw_sticks,
    keep_draw,
    swap_neighbours,
)

LEAST = 1e-9  # of what is left: no more than a billion fallen records for each that is there
FEW = 8

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@numba.njit(cache=True, nogil=True)
def factor_masses(zero, phi):
    """G[f, k] = sum of phi over the levels of factor f; 1 for factors that leave out none."""
    _, _, narrow, ptr, rows = zero
    G = np.ones((narrow.shape[0], phi.shape[1]))
    for f in range(narrow.shape[0]):
        if narrow[f]:
            G[f] = 0.0
            for r in rows[ptr[f] : ptr[f + 1]]:
                for k in range(phi.shape[1]):
                    G[f, k] += phi[r, k]
    return G


@numba.njit(cache=True, nogil=True)
def box_masses(zero, G, columns):
    """prod over the given columns of G: mass of each box in each class, shape (B, K)."""
    _, of, narrow, _, _ = zero
    out = np.ones((of.shape[0], G.shape[1]))
    for b in range(of.shape[0]):
        for j in columns:
            f = of[b, j]
            if narrow[f]:
                for k in range(G.shape[1]):
                    out[b, k] *= G[f, k]
    return out


@numba.njit(cache=True, nogil=True)
def fill_zero_mass(zero, pi, phi, out):
    """out[h] = pi_0, the mass of all boxes under draw h."""
    columns = np.arange(zero[1].shape[1])
    for h in range(pi.shape[0]):
        mass = box_masses(zero, factor_masses(zero, phi[h]), columns)
        out[h] = 0.0
        for b in range(mass.shape[0]):
            for k in range(mass.shape[1]):
                out[h] += pi[h, k] * mass[b, k]


@numba.njit(cache=True, nogil=True)
def fall(rng, N, zero, pi, phi, n, M):
    """Add to n[K] and M[D, K] the n_0 ~ NegBinomial(N, pi_0) records that fell into the boxes.

    By class and box they are Poisson, given t ~ Gamma(N) / (1 - pi_0). Returns n_0.
    """
    _, of, narrow, _, _ = zero
    K, columns = pi.shape[0], np.arange(of.shape[1])
    G = factor_masses(zero, phi)
    mass = box_masses(zero, G, columns)
    total = 0.0
    for b in range(mass.shape[0]):
        for k in range(K):
            mass[b, k] *= pi[k]
            total += mass[b, k]
    t = rng.standard_gamma(float(N)) / max(1.0 - total, LEAST)
    T = np.zeros((narrow.shape[0], K), np.int64)
    fallen = 0
    for b in range(mass.shape[0]):
        for k in range(K):
            count = rng.poisson(t * mass[b, k])
            if count > 0:
                fallen += count
                n[k] += count
                for j in columns:
                    T[of[b, j], k] += count
    draw_fallen_levels(rng, zero, T, phi, M)
    return fallen


@numba.njit(cache=True, nogil=True)
def draw_fallen_levels(rng, zero, T, phi, M):
    """Deal T[f, k] records to the levels of their factor in proportion to phi; adds to M."""
    _, _, narrow, ptr, rows = zero
    for f in range(narrow.shape[0]):
        for k in range(phi.shape[1]):
            left, rest = T[f, k], 0.0
            if left == 0:
                continue
            for r in rows[ptr[f] : ptr[f + 1]]:
                rest += phi[r, k]
            last = rows[ptr[f + 1] - 1]
            for r in rows[ptr[f] : ptr[f + 1]]:
                here = left
                if r != last:
                    here = rng.binomial(left, min(max(phi[r, k] / max(rest, TINY), 0.0), 1.0))
                rest -= phi[r, k]
                M[r, k] += here
                left -= here
                if left == 0:
                    break


@numba.njit(cache=True, nogil=True)
def meets(boxes, b, rows, v, columns):
    """Whether box b holds the levels rows[j, v] of the given columns, j along rows."""
    for j in range(columns.shape[0]):
        if not boxes[b, rows[j, v]]:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def fall_given(rng, zero, us, us_columns, c, pi, phi, g, n, M):
    """The same for releases drawn given unsynthesised values; returns c + what fell, part by part.

    1 / D_v^c, D_v what is possible of S_v = sum_k pi_k g[k, v], becomes S_v^-(c + m) times the
    chance of m ~ NegBinomial(c, 1 - D_v / S_v) records that fell given part v.
    """
    boxes, of, narrow, _, _ = zero
    K, B = pi.shape[0], boxes.shape[0]
    others = np.array([j for j in range(of.shape[1]) if not (us_columns == j).any()])
    mass = box_masses(zero, factor_masses(zero, phi), others)
    T = np.zeros((narrow.shape[0], K), np.int64)
    shares, counts, which = np.empty(B * K), np.zeros(B * K, np.int64), np.empty(B, np.int64)
    out = c.copy()
    for v in range(c.shape[0]):
        whole, within, slices = 0.0, 0.0, 0
        for k in range(K):
            whole += pi[k] * g[k, v]
        for b in range(B):
            if meets(boxes, b, us, v, us_columns):
                for k in range(K):
                    shares[slices * K + k] = pi[k] * g[k, v] * mass[b, k]
                    within += shares[slices * K + k]
                which[slices] = b
                slices += 1
        if c[v] == 0 or not within > 0.0:
            continue
        left = max(whole - within, LEAST * whole)
        fallen = rng.poisson(rng.standard_gamma(float(c[v])) * within / left)
        out[v] += fallen
        deal(rng, fallen, shares[: slices * K], within, counts)
        for i in range(slices * K):
            if counts[i] > 0:
                b, k = which[i // K], i % K
                n[k] += counts[i]
                for j in range(us_columns.shape[0]):
                    M[us[j, v], k] += counts[i]
                for j in others:
                    T[of[b, j], k] += counts[i]
                counts[i] = 0
    draw_fallen_levels(rng, zero, T, phi, M)
    return out


@numba.njit(cache=True, nogil=True)
def deal(rng, total, shares, whole, counts):
    """Add a multinomial of `total` to counts; few one by one, many by binomials. Spoils shares."""
    if total == 0:
        return
    if total < FEW:
        cumulate(shares)
        for _ in range(total):
            counts[draw_class(rng, shares)] += 1
        return
    left, rest = total, whole
    for i in range(shares.shape[0] - 1):
        here = rng.binomial(left, min(max(shares[i] / max(rest, TINY), 0.0), 1.0))
        counts[i] += here
        left -= here
        rest -= shares[i]
        if left == 0:
            return
    counts[shares.shape[0] - 1] += left


@numba.njit(cache=True, nogil=True)
def draw_counts(rng, data, N, zero, pi, phi, n, M, label):
    """Labels of the units and the records that fell: counts of both; returns n_0."""
    draw_labels(rng, data[0], data[1], pi, phi, n, M, label)
    return fall(rng, N, zero, pi, phi, n, M)


@numba.njit(cache=True, nogil=True)
def draw_counts_given(rng, given, zero, g, pi, phi, n, M):
    """The same of synthetic rows drawn given unsynthesised values; returns c with what fell."""
    label = np.zeros(given[0].shape[0], np.int64)
    draw_labels(rng, given[0], given[1], pi, phi, n, M, label)
    return fall_given(rng, zero, given[2], given[4], given[3], pi, phi, g, n, M)


@numba.njit(cache=True, nogil=True)
def run(rng, data, layout, prior, state, thin, swaps, out, first, last):
    """Draws first .. last - 1 of one chain, `thin` sweeps each; arrays of `state` are updated."""
    positions, multiplicity, given = data
    starts, a, zero, N = layout
    alpha, log_left, pi, phi = state
    K, units = pi.shape[0], (positions, multiplicity)
    n, M = np.zeros(K, np.int64), np.zeros(phi.shape, np.int64)
    label = np.zeros(positions.shape[0], np.int64)
    for h in range(first, last):
        for _ in range(thin):
            draw_counts(rng, units, N, zero, pi, phi, n, M, label)
            if given[2].shape[0] == 0:
                if swaps:
                    swap_neighbours(rng, alpha[0], n, M)
                log_rest = draw_sticks(rng, n, alpha[0], log_left, pi)
                draw_levels(rng, M, starts, a, phi)
                alpha[0] = draw_alpha(rng, K - 1, log_rest, prior)
            else:
                g, n_z, M_z = us_masses(given[2], phi), np.zeros_like(n), np.zeros_like(M)
                c = draw_counts_given(rng, given, zero, g, pi, phi, n_z, M_z)
                alpha[0] = update_given(
                    rng, (given[2], c, given[4]), starts, a, prior,
                    alpha[0], log_left, pi, phi, n, M, n_z, M_z, g,
                )  # fmt: skip
        keep_draw(state, n, out, h)


@numba.njit(cache=True, nogil=True)
def collapse_fallen(rng, data, given, theta, layout, out):
    """Fill Q, tau, n, labels and n_0 of every draw: records and what fell, drawn anew."""
    pi, phi = theta
    starts, a, fixed, zero, N = layout
    Q, tau, n, label, fallen = out
    n_z, M = np.zeros(pi.shape[1], np.int64), np.zeros(phi.shape[1:], np.int64)
    M_z, u_label = np.zeros_like(M), np.zeros(data[0].shape[0], np.int64)
    for h in range(pi.shape[0]):
        fallen[h] = draw_counts(rng, data, N, zero, pi[h], phi[h], n[h], M, u_label)
        if given[2].shape[0] > 0:
            g = us_masses(given[2], phi[h])
            draw_counts_given(rng, given, zero, g, pi[h], phi[h], n_z, M_z)
            M += M_z
        label[h] = u_label
        fill_levels(M, phi[h], starts, a, fixed, Q[h], tau[h])


def collapse_fallen_into(
    prior: Prior,
    units: Units,
    draws: Draws,
    given: tuple[npt.NDArray[np.integer], ...],
    fixed: Flags,
    out: tuple[npt.NDArray[np.generic], ...],
    *,
    rng: np.random.Generator,
) -> Ints:
    """Fill Q, tau, n and labels with the records that fell counted; how many did, shape (H,)."""
    zeros, fallen = prior.zeros, np.empty(len(draws), np.int64)
    if zeros is None:
        raise TypeError("the prior has no structural zeros")
    collapse_fallen(
        rng,
        (units.positions, units.multiplicity),
        given,
        (draws.pi, draws.phi),
        (prior.starts, prior.level, fixed, zeros.arrays, n_normalised(units)),
        (*out, fallen),
    )
    return fallen
