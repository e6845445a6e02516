"""Compiled: a sampler over the rows that an intruder does not know, given several releases.

The law is p(y)^(1-m) prod_l p(Theta^l) p(y | Theta^l) p(Z^(l) | ., Theta^l). One sweep draws

1. each Theta^l given y and Z^(l), by the sweeps of a fit with these data;
2. *base chains*, whose labels are draws of p(labels | y), anew one after another, in between
3. each unknown row: proposed from p(. | Theta^l) of one l, accepted by the weights
   prod_{l' != l} p(y_j | Theta^l') / p(y_j | y_-j)^(m-1).

The labels of the base chains are draws given y, so that p(y' | y_-j) / p(y_j | y_-j) is the mean
over them of the ratio of predictives, counts without row j. These follow every change of a row at
once: with old counts the rows of one sweep would answer those of the last, and swing for m > 2.
Derivation: `docs/weaker-knowledge.md`.

Arrays of the W base chains: counts ``n0[W, K]`` and ``M0[W, D, K]``, the latter with a added;
labels ``label0[W, U]`` of the known units and ``row_label0[W, R]`` of the R unknown rows.
``fall[c, n]`` is the product over the c-th 16 variables of 1 / (n + d_j a).
"""

import math

import numba
import numpy as np

from .kept_columns import conditional_sweep
from .predictive_kernels import collapse_draws
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
    sweep,
)


@numba.njit(cache=True, nogil=True)
def log_mass(row, weights, phi, masses):
    """Fill masses, proportional to weights times rows of phi; log of their sum."""
    scale, w, K = 0.0, row.shape[0], masses.shape[0]
    for k in range(K):
        masses[k] = weights[k]
    for j in range(0, w - 3, 4):  # four variables a pass: masses are read and written once
        r0, r1, r2, r3 = row[j], row[j + 1], row[j + 2], row[j + 3]
        for k in range(K):
            masses[k] *= (phi[r0, k] * phi[r1, k]) * (phi[r2, k] * phi[r3, k])
        if j % RESCALE_EVERY == RESCALE_EVERY - 4:
            scale += shrink(masses)
    for j in range(w - w % 4, w):
        r0 = row[j]
        for k in range(K):
            masses[k] *= phi[r0, k]
    return math.log(max(total_of(masses), TINY)) + scale


@numba.njit(cache=True, nogil=True)
def log_mass_of_counts(row, weights, n, M, fall, masses):
    """The same with M / (n + d a) in place of phi; weights hold the first 16 of the divisors."""
    if fall.shape[0] == 1:
        return log_mass(row, weights, M, masses)
    scale, w, K = 0.0, row.shape[0], masses.shape[0]
    for c in range(fall.shape[0]):
        last = min((c + 1) * RESCALE_EVERY, w)
        part = row[c * RESCALE_EVERY : last]
        if c == 0:
            scale += log_mass(part, weights, M, masses)
            continue
        top = total_of(masses)
        for k in range(K):
            masses[k] *= fall[c, n[k]] / top
        scale += log_mass(part, masses, M, masses)
    return scale


@numba.njit(cache=True, nogil=True, fastmath={"reassoc"})
def total_of(masses):
    """Their sum."""
    total = 0.0
    for k in range(masses.shape[0]):
        total += masses[k]
    return total


@numba.njit(cache=True, nogil=True)
def shrink(masses):
    """Divide by the largest; its log is returned."""
    top = TINY
    for k in range(masses.shape[0]):
        top = max(top, masses[k])
    for k in range(masses.shape[0]):
        masses[k] /= top
    return math.log(top)


@numba.njit(cache=True, nogil=True)
def log_of_sum(x):
    """log sum exp."""
    top = x.max()
    total = 0.0
    for i in range(x.shape[0]):
        total += math.exp(x[i] - top)
    return top + math.log(total)


@numba.njit(cache=True, nogil=True)
def power_of_mean(total, squares, W, power):
    """mean^power of W values with this sum and sum of squares, less what their noise adds to it.

    E[x^-k] = p^-k (1 + k (k + 1) v / 2 W + ..) for the mean x of W values of squared coefficient of
    variation v: the negative powers that are divided by would be too small.
    """
    mean = total / W
    v = max(squares / W - mean * mean, 0.0) * W / (W - 1.0) / (mean * mean)
    out = 1.0 + 0.5 * power * (power + 1) * v / W
    for _ in range(power):
        out *= mean
    return out


@numba.njit(cache=True, nogil=True)
def log_power_of_mean(log_p, power):
    """The same in logs."""
    top, total, squares = log_p.max(), 0.0, 0.0
    for b in range(log_p.shape[0]):
        p = math.exp(log_p[b] - top)
        total += p
        squares += p * p
    return math.log(power_of_mean(total, squares, log_p.shape[0], power)) + power * top


@numba.njit(cache=True, nogil=True)
def count(row, k, n, M, by, weights, pi, fall):
    """Put a row into class k, or take it out."""
    n[k] += by
    weights[k] = pi[k] * fall[0, n[k]]
    for j in range(row.shape[0]):
        M[row[j], k] += by


@numba.njit(cache=True, nogil=True)
def propose(rng, old, starts, free, shown, pi, phi, masses, new):
    """Values of the free columns: a class given the rest of the row, then a level for each.

    ``old`` (w,) may have more than p columns: synthetic levels of the record's own class.
    """
    p = starts.shape[0] - 1
    masses[:] = pi
    for i in range(shown.shape[0] + old.shape[0] - p):
        r = old[shown[i] if i < shown.shape[0] else p + i - shown.shape[0]]
        for k in range(masses.shape[0]):
            masses[k] *= phi[r, k]
        if i % RESCALE_EVERY == RESCALE_EVERY - 1:
            shrink(masses)
    cumulate(masses)
    k = draw_class(rng, masses)
    new[:] = old
    for i in range(free.shape[0]):
        level, end = starts[free[i]], starts[free[i] + 1]
        u = rng.random()
        while level < end - 1 and u >= phi[level, k]:
            u -= phi[level, k]
            level += 1
        new[free[i]] = level


@numba.njit(cache=True, nogil=True)
def same(x, y):
    """Whether two rows agree."""
    for j in range(x.shape[0]):
        if x[j] != y[j]:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def impute_rows(rng, layout, theta, base, rows, first, last):
    """Propose and accept rows first .. last - 1 once each; returns how many were accepted.

    ``rows[m, R, w]``: row j of data set l, its p own levels first and alike in all l.
    """
    starts, _, free, shown, fall = layout
    pi, phi = theta
    pi0, n0, M0, row_label0 = base
    (m, _, w), (W, K), p = rows.shape, pi0.shape, starts.shape[0] - 1
    masses, new = np.empty(K), np.empty(w, rows.dtype)
    before, after, weights = np.empty((W, K)), np.empty((W, K)), np.empty((W, K))
    log_before, log_after = np.empty(W), np.empty(W)
    accepted = 0
    for b in range(W):
        for k in range(K):
            weights[b, k] = pi0[b, k] * fall[0, n0[b, k]]
    for j in range(first, last):
        chosen = int(rng.random() * m)
        propose(
            rng, rows[chosen, j], starts, free, shown, pi[chosen], phi[chosen], masses, new
        )  # fmt: skip
        if same(new, rows[chosen, j]):
            accepted += 1
            continue
        gain = 0.0
        for l in range(m):
            if l != chosen:
                gain -= log_mass(rows[l, j], pi[l], phi[l], masses)
                new[p:] = rows[l, j, p:]
                gain += log_mass(new, pi[l], phi[l], masses)
        old, fresh = rows[0, j, :p], new[:p]
        for b in range(W):
            n, M, base_weights = n0[b], M0[b], weights[b]
            count(old, row_label0[b, j], n, M, -1.0, base_weights, pi0[b], fall)
            log_before[b] = log_mass_of_counts(old, base_weights, n, M, fall, before[b])
            log_after[b] = log_mass_of_counts(fresh, base_weights, n, M, fall, after[b])
        for b in range(W):
            log_after[b] -= log_before[b]
        gain -= log_power_of_mean(log_after, m - 1)
        taken = math.log(max(rng.random(), TINY)) < gain
        accepted += taken
        if taken:
            for l in range(m):
                rows[l, j, :p] = fresh
        for b in range(W):
            cumulated = after[b] if taken else before[b]
            cumulate(cumulated)
            label = draw_class(rng, cumulated)
            row_label0[b, j] = label
            count(rows[0, j, :p], label, n0[b], M0[b], 1.0, weights[b], pi0[b], fall)
    return accepted


@numba.njit(cache=True, nogil=True)
def draw_base(rng, known, layout, concentration, swaps, chain, rows, label0, row_label0):
    """One base chain: weights and levels given its counts, then labels and counts anew."""
    positions, multiplicity = known
    starts, a = layout[0], layout[1]
    alpha, log_left, pi, n, M, phi, n_rows, M_rows = chain
    if swaps:
        swap_neighbours(rng, alpha[0], n, M)
    log_rest = draw_sticks(rng, n, alpha[0], log_left, pi)
    draw_levels(rng, M, starts, 0.0, phi)
    alpha[0] = draw_alpha(rng, n.shape[0] - 1, log_rest, concentration)
    draw_labels(rng, positions, multiplicity, pi, phi, n, M, label0)
    p = starts.shape[0] - 1
    once = np.ones(rows.shape[1], np.int64)
    draw_labels(rng, rows[0, :, :p], once, pi, phi, n_rows, M_rows, row_label0)
    n += n_rows
    M += M_rows + a


@numba.njit(cache=True, nogil=True)
def run(
    rng, data, known, layout, concentration, swaps, theta, base, rows, n_sweeps
):  # fmt: skip
    """Sweeps of the whole; returns the share of rows accepted.

    ``data``: units of all data sets below one another with the unknown rows last (``ptr``), and for
    releases drawn given columns their synthetic rows (``z_ptr``) and denominators.
    """
    positions, multiplicity, ptr, z_positions, z_multiplicity, z_ptr, us, c, us_columns = data
    alpha, log_left, pi, phi = theta
    alpha0, log_left0, pi0, n0, M0, label0, row_label0 = base
    starts, a = layout[0], layout[1]
    (m, R), (W, K) = rows.shape[:2], pi0.shape
    n, M = np.zeros(K, np.int64), np.zeros(phi.shape[1:], np.int64)
    label, phi0 = np.zeros(positions.shape[0], np.int64), np.ones(phi.shape[1:])
    n_rows, M_rows = np.zeros(K, np.int64), np.zeros(phi.shape[1:])
    accepted = 0
    for _ in range(n_sweeps):
        for l in range(m):
            here, times = positions[ptr[l] : ptr[l + 1]], multiplicity[ptr[l] : ptr[l + 1]]
            here[here.shape[0] - R :] = rows[l]
            if us.shape[0] == 0:
                alpha[l] = sweep(
                    rng, here, times, starts, a, concentration, swaps,
                    alpha[l], log_left[l], pi[l], phi[l], n, M, label,
                )  # fmt: skip
            else:
                z = slice(z_ptr[l], z_ptr[l + 1])
                given = (z_positions[z], z_multiplicity[z], us, c, us_columns)
                alpha[l] = conditional_sweep(
                    rng, here, times, given, starts, a, concentration,
                    alpha[l], log_left[l], pi[l], phi[l], n, M, label,
                )  # fmt: skip
        for b in range(W):
            chain = (alpha0[b : b + 1], log_left0[b], pi0[b], n0[b], M0[b], phi0, n_rows, M_rows)
            draw_base(
                rng, known, layout, concentration, swaps, chain, rows, label0[b], row_label0[b]
            )  # fmt: skip
            accepted += impute_rows(
                rng, layout, (pi, phi), (pi0, n0, M0, row_label0), rows,
                b * R // W, (b + 1) * R // W,
            )  # fmt: skip
    return accepted / max(n_sweeps * R, 1)


@numba.njit(cache=True, nogil=True)
def keep(rng, data, layout, fixed, theta, base, rows, of_known, tracked_rows, out, h):
    """Write a state as draw h: counts with Theta integrated out, labels of records and rows.

    ``of_known[m + 1, N]``: unit of each known record in data set l, and in the table (last);
    ``tracked_rows``: unknown rows of which labels and values are kept.
    """
    positions, multiplicity, ptr, z_positions, z_multiplicity, z_ptr = data[:6]
    alpha, _, pi, phi = theta
    alpha0, _, _, n0, M0, label0, row_label0 = base
    Q, tau, n, all_alpha, out_pi, known_label, seat_label, seat_rows = out
    starts, a = layout[0], layout[1]
    m, R = rows.shape[:2]
    for l in range(m):
        here, times = positions[ptr[l] : ptr[l + 1]], multiplicity[ptr[l] : ptr[l + 1]]
        here[here.shape[0] - R :] = rows[l]
        label = np.zeros((1, here.shape[0]), np.int16)
        z = slice(z_ptr[l], z_ptr[l + 1])
        collapse_draws(
            rng,
            (here, times),
            (z_positions[z], z_multiplicity[z]),
            (pi[l : l + 1], phi[l : l + 1]),
            (starts, a, fixed),
            (Q[h, l : l + 1], tau[h, l : l + 1], n[h, l : l + 1], label),
        )
        all_alpha[h, l], out_pi[h, l] = alpha[l], pi[l]
        for i in range(of_known.shape[1]):
            known_label[h, l, i] = label[0, of_known[l, i]]
        for i in range(tracked_rows.shape[0]):
            seat_label[h, l, i] = label[0, here.shape[0] - R + tracked_rows[i]]
    for b in range(alpha0.shape[0]):
        at = m + b
        Q[h, at, -1] = 1.0
        for j in range(starts.shape[0] - 1):
            d = starts[j + 1] - starts[j]
            for k in range(n0.shape[1]):
                tau[h, at, j, k] = n0[b, k] + d * a
                for r in range(starts[j], starts[j + 1]):
                    Q[h, at, r, k] = M0[b, r, k] / tau[h, at, j, k]
        n[h, at], all_alpha[h, at], out_pi[h, at] = n0[b], alpha0[b], pi[0]
        for i in range(of_known.shape[1]):
            known_label[h, at, i] = label0[b, of_known[m, i]]
        for i in range(tracked_rows.shape[0]):
            seat_label[h, at, i] = row_label0[b, tracked_rows[i]]
    for i in range(tracked_rows.shape[0]):
        seat_rows[h, i] = rows[0, tracked_rows[i], : seat_rows.shape[2]]


@numba.njit(cache=True, nogil=True)
def start_base(rng, known, a, phi, base, rows):
    """Labels and counts of the base chains, given their parameters."""
    positions, multiplicity = known
    alpha, _, pi, n, M, label0, row_label0 = base
    p, once = positions.shape[1], np.ones(rows.shape[1], np.int64)
    n_rows, M_rows = np.zeros(n.shape[1], np.int64), np.zeros(M.shape[1:])
    for b in range(alpha.shape[0]):
        draw_labels(rng, positions, multiplicity, pi[b], phi[b], n[b], M[b], label0[b])
        draw_labels(rng, rows[0, :, :p], once, pi[b], phi[b], n_rows, M_rows, row_label0[b])
        n[b] += n_rows
        M[b] += M_rows + a
