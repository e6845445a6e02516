"""Latent classes with structural zeros: the records that fell into them, and what is possible.

The model is cut off: ``p(y | Theta) = 1{y not in S} f(y | Theta) / (1 - pi_0(S; Theta))``. Its
sampler adds the ``n_0 ~ NegBinomial(N, pi_0)`` records that fell into S (Manrique-Vallier & Reiter
2014), and so do the predictives here. See `docs/mixtures.md`.

``zero`` is a `ZeroLayout`; ``G[F, K]`` the probability of a side in a class, the sum
of phi over its levels, 1 if it leaves out none: a box has mass ``prod_j G[of[b, j], k]`` there.

*Predictive.* With x_0 the augmented records and m(.) the probability with Theta integrated out,

    p(y)    = sum C(N + n_0 - 1, n_0) m(y, z, x_0),
    p(y_-i) = sum C(N + n_0 - 2, n_0) m(y_-i, z_-i, x_0),
    p_h(y*) = q_h(y*) (N+n_0-1) / (N-1),    p(y_i|y_-i) = 1 / E[1 / p_h(y_i)],    y* not in S,

with q_h the collapsed predictive that counts them; for a target not among the N records (N+n_0) /
N.

*Some columns only.* p(Z_i|y_us,i,Theta) = f(Z_i,y_us,i) / D(y_us,i), D(v) = sum_k pi_k g_k(v) (1 -
mu_k(v)); with S(v) = sum_k pi_k g_k(v)

    D(v)^-c = sum_m C(c + m - 1, m) (S(v) - D(v))^m S(v)^-(c+m),

so NegBinomial(c, 1 - D(v) / S(v)) augmented records join.
"""

import math

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.disjoint_boxes import rows_in
from bayes_risk._core.errors import ModelError

from .state import Draws, Prior, Units, ZeroLayout, n_normalised
from .sweep import TINY, class_masses, cumulate, draw_class

ROUNDING = 1e-13
LEAST = 1e-9  # of what is left: no more than a billion fallen records for each that is there
FEW = 8


@numba.njit(cache=True, nogil=True, error_model="numpy")
def box_masses(zero, phi, columns):
    """G[F, K], and prod over the given columns of it: mass of each box in each class, (B, K)."""
    of, narrow, ptr, rows = zero.of, zero.narrow, zero.ptr, zero.rows
    G, out = np.ones((narrow.shape[0], phi.shape[1])), np.ones((of.shape[0], phi.shape[1]))
    for f in range(narrow.shape[0]):
        if narrow[f]:
            G[f] = 0.0
            for r in rows[ptr[f] : ptr[f + 1]]:
                for k in range(phi.shape[1]):
                    G[f, k] += phi[r, k]
    for b in range(of.shape[0]):
        for j in columns:
            f = of[b, j]
            if narrow[f]:
                for k in range(G.shape[1]):
                    out[b, k] *= G[f, k]
    return G, out


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fall(rng, N, zero, pi, phi, n, M):
    """Add the n_0 ~ NegBinomial(N, pi_0) records that fell into boxes to n[K], M[D, K]; n_0."""
    of, narrow = zero.of, zero.narrow
    K, columns = pi.shape[0], np.arange(of.shape[1])
    mass, total = box_masses(zero, phi, columns)[1], 0.0
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_fallen_levels(rng, zero, T, phi, M):
    """Deal T[f, k] records to the levels of their side in proportion to phi; adds to M."""
    narrow, ptr, rows = zero.narrow, zero.ptr, zero.rows
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def meets(boxes, b, rows, v, columns):
    """Whether box b holds the levels rows[j, v] of the given columns, j along rows."""
    for j in range(columns.shape[0]):
        if not boxes[b, rows[j, v]]:
            return False
    return True


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fall_given(rng, zero, us, us_columns, c, pi, phi, g, n, M):
    """The same for releases drawn given unsynthesised values; returns c + what fell, part by part.

    1 / D_v^c, D_v what is possible of S_v = sum_k pi_k g[k, v], becomes S_v^-(c + m) times the
    chance of m ~ NegBinomial(c, 1 - D_v / S_v) records.
    """
    boxes, of, narrow = zero.boxes, zero.of, zero.narrow
    K, B = pi.shape[0], boxes.shape[0]
    others = np.array([j for j in range(of.shape[1]) if not (us_columns == j).any()])
    mass = box_masses(zero, phi, others)[1]
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
        last, rest, ahead = slices * K - 1, within, fallen
        if 0 < fallen < FEW:  # one by one; many by binomials
            cumulate(shares[: last + 1])
            for _ in range(fallen):
                counts[draw_class(rng, shares[: last + 1])] += 1
            ahead = 0
        for i in range(last + 1):
            if ahead > 0:
                share = min(max(shares[i] / max(rest, TINY), 0.0), 1.0)
                counts[i] = rng.binomial(ahead, share) if i < last else ahead
                ahead -= counts[i]
                rest -= shares[i]
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_log_possible(all_pi, all_phi, given, rows, zero, out):
    """out[h, u] = log of the share of what is possible, given the unsynthesised values of a row."""
    boxes, others, us_columns = zero.boxes, np.flatnonzero(~given), np.flatnonzero(given)
    us = np.ascontiguousarray(rows.T[given])  # shape (u, U)
    weights, K = np.empty(all_pi.shape[1]), all_pi.shape[1]
    for h in range(all_pi.shape[0]):
        phi, mass = all_phi[h], box_masses(zero, all_phi[h], others)[1]
        for u in range(rows.shape[0]):
            weights[:] = all_pi[h]
            for j in range(us.shape[0]):
                for k in range(K):
                    weights[k] *= phi[us[j, u], k]
            within = 0.0
            for b in range(mass.shape[0]):
                if meets(boxes, b, us, u, us_columns):
                    for k in range(K):
                        within += weights[k] * mass[b, k]
            out[h, u] = math.log(max(1.0 - within / max(weights.sum(), TINY), LEAST))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def share_left(alive, boxes, level, tails, k):
    """What is left of one in class k after the boxes alive that hold a level (-1: all of them)."""
    within = 0.0
    for b in range(alive.shape[0]):
        if alive[b] and (level < 0 or boxes[b, level]):
            within += tails[b, k]
    return 1.0 - within if within < 1.0 - ROUNDING else 0.0  # nothing where that is rounding


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_rows(rng, positions, zero, known, pi, phi, starts, columns, out):
    """Synthetic level codes that are possible together with what is known; out (n, q).

    A class, then level after level, each weighted with the share of what is still possible after
    it. ``positions`` (n, w): levels of ``known`` (p,) columns; without boxes ``zero`` is None.
    """
    K, masses, weights = pi.shape[0], np.empty(pi.shape[0]), np.empty(phi.shape[0])
    buffer = np.empty((positions.shape[1] + 1, K))
    if zero is not None:
        boxes, us, us_columns = zero.boxes, np.ascontiguousarray(positions.T), np.flatnonzero(known)
        tails = np.ones((columns.shape[0] + 1, boxes.shape[0], K))
        for j in range(columns.shape[0]):  # mass of a box in the columns from j on
            mass = box_masses(zero, phi, columns[j:][::-1].copy())[1]
            for b in range(mass.shape[0]):  # arrays put into arrays compile for seconds
                for k in range(K):
                    tails[j, b, k] = mass[b, k]
        alive, everywhere = np.zeros(boxes.shape[0], np.bool_), np.int64(-1)
    for i in range(positions.shape[0]):
        class_masses(positions, i, pi, phi, buffer, masses)
        if zero is not None:
            for b in range(alive.shape[0]):
                alive[b] = meets(boxes, b, us, i, us_columns)
            for k in range(K):
                masses[k] = buffer[-1, k] * share_left(alive, boxes, everywhere, tails[0], k)
            cumulate(masses)
        drawn = draw_class(rng, masses)
        for j in range(columns.shape[0]):
            begin, end = starts[columns[j]], starts[columns[j] + 1]
            for r in range(begin, end):
                weights[r] = phi[r, drawn]
                if zero is not None:
                    weights[r] *= share_left(alive, boxes, r, tails[j + 1], drawn)
            cumulate(weights[begin:end])
            level = begin + draw_class(rng, weights[begin:end])
            out[i, j] = level - begin
            if zero is not None:
                for b in range(alive.shape[0]):
                    alive[b] = alive[b] and boxes[b, level]


def log_possible(zeros: ZeroLayout, draws: Draws) -> Array:
    """log(1 - pi_0) of each draw, shape (H,)."""
    nothing = np.zeros((1, len(zeros.starts) - 1), np.int64)
    return np.asarray(log_possible_given(zeros, draws, nothing, nothing[0] > 0)[:, 0])


def log_possible_given(
    zeros: ZeroLayout, draws: Draws, rows: npt.NDArray[np.integer], known: Flags
) -> Array:
    """log of the share of what is possible given the known columns of rows (V, p), (H, V)."""
    out = np.empty((len(draws), len(rows)))
    fill_log_possible(draws.pi, draws.phi, known, rows.astype(np.int64), zeros, out)
    return out


def possible_rows(
    prior: Prior,
    given: npt.NDArray[np.int32],
    known: Flags,
    pi: Array,
    phi: Array,
    columns: Ints,
    *,
    rng: Rng,
) -> npt.NDArray[np.int32]:
    """Codes (n, q) of columns drawn given levels (n, w), restricted to what is possible."""
    out, given = np.empty((len(given), len(columns)), np.int32), np.ascontiguousarray(given)
    zeros, starts = prior.zeros, prior.starts
    draw_rows(rng, given, zeros, known, pi.copy(), phi.copy(), starts, columns, out)  # writeable
    if zeros is None:
        return out
    rows = np.empty((len(out), len(known)), np.int64)
    rows[:, known], rows[:, columns] = given, out + starts[columns]
    if rows_in(zeros.boxes, rows).any():
        raise ModelError(
            "a draw of the model gives some record's possible values a probability below rounding; "
            "synthesise with another random_seed, or fit with more draws"
        )
    return out


def log_factors(units: Units, n_0: Ints, unit: Ints) -> Array:
    """What a density is multiplied with given that n_0 records fell, (H, U), in logs."""
    return np.log1p(n_0[:, None] / (n_normalised(units) - 1.0 * (unit >= 0)))
