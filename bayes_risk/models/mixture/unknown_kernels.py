"""Compiled: a sampler over records that an intruder does not know, given several releases.

The law, the sweep and the *base chains* are derived in `unknown.py`. The base chains
follow every change of a row at once: else the rows of one sweep would answer those of the last, and
swing for m > 2.

A chain's state, B = m + W sets of parameters and the unknown rows, is an `ImputingState`; ``rows``
are `UnknownArrays`, ``tables`` `ImputingTables`, ``data`` a `ReleaseData`.
"""

import math
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Ints

from .families import (
    FAR,
    PARAMETERS,
    draw_labels,
    draw_parameters,
    exponentials,
    largest,
    log_number_density,
    log_sum_of,
    number_parameters,
)
from .kept_columns import number_rows
from .kernel_arguments import (
    ChainPoint,
    CollapsedDraws,
    DrawArrays,
    DrawBuffers,
    ImputingTables,
    NumberSizes,
    NumberValues,
    SweepLayout,
)
from .masses import count_constant
from .mixed_terms import fill_draw
from .sampler import collapse_draws, sample_draws
from .state import GivenArrays, LevelRows, LevelUnits, NumberUnits, Rows
from .sweep import TINY, cumulate, draw_alpha, draw_class, draw_sticks, swap_neighbours


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_power_of_mean(log_p, power):
    """log of mean^power of W values, given by their logs, less what their noise adds to it.

    E[x^-k] = p^-k (1 + k (k + 1) v / 2 W + ..), v the squared coefficient of variation.
    """
    W, top, total, squares = log_p.shape[0], log_p.max(), 0.0, 0.0
    for b in range(W):
        p = math.exp(log_p[b] - top)
        total += p
        squares += p * p
    mean = total / W
    v = max(squares / W - mean * mean, 0.0) * W / (W - 1.0) / (mean * mean)
    out = 1.0 + 0.5 * power * (power + 1) * v / W
    for _ in range(power):
        out *= mean
    return math.log(out) + power * top


# --- masses of a row in all classes -----------------------------------------------------------


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_terms(x, e, variables, n, P, T, sizes, first, out):
    """Add to out[k] log p(values | class k); counts only where they matter beside class `first`."""
    p, r, inflated, F = sizes.p, sizes.r, sizes.inflated, variables.shape[0]
    c, counts = 0, False
    while c < F:
        v = variables[c]
        four = v >= p + r and c + 3 < F  # in ascending order: all of them are levels
        if four and v < variables[c + 1] < variables[c + 2] < variables[c + 3]:
            r0, r1, r2, r3 = int(x[c]), int(x[c + 1]), int(x[c + 2]), int(x[c + 3])
            for k in range(out.shape[0]):
                out[k] += (T[r0, k] + T[r1, k]) + (T[r2, k] + T[r3, k])
            c += 4
            continue
        if v >= p + r:
            r0 = int(x[c])
            for k in range(out.shape[0]):
                out[k] += T[r0, k]
        elif v >= p and x[c] == x[c]:
            for k in range(out.shape[0]):
                out[k] += log_number_density(x[c], 1.0, P[v, k], True, inflated, 1.0, (0.0, 0.0))
        counts |= v < p
        c += 1
    if not counts:
        return
    least = out[first] + FAR  # every mass of a count is at most 1
    for c in range(F):
        v = variables[c]
        if v < p and x[c] == x[c]:
            constants = (0.0, count_constant(x[c]))
            least += log_number_density(x[c], e[c], P[v, first], False, inflated, 1.0, constants)
    for c in range(F):
        v, of_empty = variables[c], math.nan
        if v >= p or x[c] != x[c]:
            continue
        constants = (0.0, count_constant(x[c]))
        for k in range(out.shape[0]):
            if out[k] < least:
                continue
            term = of_empty
            if n[k] > 0.0 or term != term:
                term = log_number_density(x[c], e[c], P[v, k], False, inflated, 1.0, constants)
            if n[k] == 0.0:
                of_empty = term
            out[k] += term


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def log_mass(x, e, variables, start, n, P, T, sizes, first, out):
    """out[k] = exp(start[k]) p(values | class k) over the largest; log of the sum of all."""
    for k in range(out.shape[0]):
        out[k] = start[k]
    add_terms(x, e, variables, n, P, T, sizes, first, out)
    return log_sum_of(out)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_weights(n, logs, log_alpha, out):
    """Log weights of classes, sticks integrated out, less log divisors of levels; by tables."""
    K, after, rest = out.shape[0], 0, 0.0
    for k in range(K):
        after += int(n[k])
    for k in range(K - 1):
        here, total = int(n[k]), log_alpha[after + 1]
        out[k] = rest + logs.counts[here + 1] - total - logs.divisors[here]
        after -= here
        rest += log_alpha[after] - total
    out[K - 1] = rest - logs.divisors[int(n[K - 1])]


# --- unknown rows -----------------------------------------------------------------------------


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_values(rng, e, free, absent, phi, layout, k, out):
    """Values of the imputed variables from class k; NaN where a number is drawn to be missing."""
    starts, p, r = layout.starts, layout.shape.shape[0], layout.reals.shape[0]
    for c in range(free.shape[0]):
        v = free[c]
        if v >= p + r:
            level, end = starts[v - p - r], starts[v - p - r + 1]
            u = rng.random()
            while level < end - 1 and u >= phi[level, k]:
                u -= phi[level, k]
                level += 1
            out[c] = level
        elif v >= p:
            sd = 1.0 / math.sqrt(phi[p + r + v, k])
            out[c] = phi[p + v, k] + sd * rng.standard_normal()
        else:
            out[c] = rng.poisson(e[c] * phi[v, k])
            if layout.inflated and rng.random() < phi[p + v, k]:
                out[c] = 0.0
    for c in range(free.shape[0]):
        if absent[c, 0] >= 0 and out[absent[c, 0]] == absent[c, 1]:
            out[c] = math.nan


@numba.njit(cache=True, nogil=True, error_model="numpy")
def move_values(x, e, variables, flags, k, by, layout, sizes, level_logs, M, P, T):
    """Put values into class k, or take them out; its parameters follow."""
    p, r, D = sizes.p, sizes.r, T.shape[0]
    for c in range(variables.shape[0]):
        v = variables[c]
        if v >= p + r:
            row = int(x[c])
            M[row, k] += by
            T[row, k] = level_logs[int(M[row, k])]
            continue
        if x[c] != x[c]:
            continue
        if v < p and flags[v]:
            M[p + v, k] += by
        elif v < p:
            M[v, k] += by * x[c]
            M[D + v, k] += by * e[c]
            M[D + p + v, k] += by
        else:
            M[p + v, k] += by * x[c]
            M[p + r + v, k] += by * x[c] * x[c]
            M[D + p + v, k] += by
        number_parameters(M, T, layout, False, v, k, np.zeros((0, 4)), P[v, k])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_flags(rng, x, e, variables, k, sizes, P, flags):
    """Which zeros are structural, given the class and its sums."""
    for c in range(variables.shape[0]):
        v = variables[c]
        if sizes.inflated and v < sizes.p:
            A, B, psi = P[v, k, 0], P[v, k, 1], P[v, k, 3]
            alive = (1.0 - psi) * math.exp(-A * math.log1p(e[c] / B))
            flags[v] = x[c] == 0.0 and rng.random() * (psi + alive) < psi


@numba.njit(cache=True, nogil=True, error_model="numpy")
def impute_rows(rng, layout, logs, rows, state, tables, first, last):
    """Propose and accept rows first .. last - 1 once each."""
    free, kinds, n_own, shown, shown_e = (
        rows.free, rows.kinds, rows.n_own, rows.shown, rows.shown_exposure,
    )  # fmt: skip
    n, M, label, flags = state.n, state.M, state.label, state.flags
    log_pi, all_P, all_T, level_logs = tables.log_pi, tables.P, tables.T, logs.levels
    (m, K), W, own_kinds = log_pi.shape, n.shape[0], kinds[:n_own]
    sizes = NumberSizes(layout.shape.shape[0], layout.reals.shape[0], layout.inflated)
    given, start, everybody = np.empty((m, K)), np.empty(K), np.ones(K)
    masses, before, after = np.empty(K), np.empty((W, K)), np.empty((W, K))
    new, change = np.empty(free.shape[0]), np.empty(W)
    for j in range(first, last):
        old, e = state.y[j], rows.exposure[j]
        own_x, own_e = shown[0, j, :n_own], shown_e[j, :n_own]
        for l in range(m):
            given[l] = log_pi[l]
            add_terms(
                shown[l, j], shown_e[j], kinds, everybody, all_P[l], all_T[l], sizes, 0, given[l]
            )
        chosen = int(rng.random() * m)
        masses[:] = given[chosen]
        exponentials(largest(masses), masses)
        cumulate(masses)
        k = draw_class(rng, masses)
        draw_values(rng, e, free, rows.absent, state.phi[chosen], layout, k, new)
        if np.array_equal(new, old):
            continue
        gain = 0.0
        for l in range(m):
            if l != chosen:
                P, T, mine = all_P[l], all_T[l], given[l]
                gain += log_mass(new, e, free, mine, everybody, P, T, sizes, k, masses)
                gain -= log_mass(old, e, free, mine, everybody, P, T, sizes, k, masses)
        for b in range(W):
            own, P, T, n_b, M_b = label[b, j], all_P[m + b], all_T[m + b], n[b], M[b]
            n_b[own] -= 1.0
            zeros = flags[b, j]
            move_values(
                own_x, own_e, own_kinds, zeros, own, -1.0, layout, sizes, level_logs, M_b, P, T
            )
            move_values(old, e, free, zeros, own, -1.0, layout, sizes, level_logs, M_b, P, T)
            log_weights(n_b, logs, tables.log_alpha[b], start)
            add_terms(own_x, own_e, own_kinds, n_b, P, T, sizes, own, start)
            change[b] = log_mass(new, e, free, start, n_b, P, T, sizes, own, after[b])
            change[b] -= log_mass(old, e, free, start, n_b, P, T, sizes, own, before[b])
        gain -= log_power_of_mean(change, m - 1)
        taken = math.log(max(rng.random(), TINY)) < gain
        if taken:
            old[:] = new
        for b in range(W):
            P, T, M_b, zeros = all_P[m + b], all_T[m + b], M[b], flags[b, j]
            cumulated = after[b] if taken else before[b]
            cumulate(cumulated)
            own = draw_class(rng, cumulated)
            label[b, j] = own
            draw_flags(rng, own_x, own_e, own_kinds, own, sizes, P, zeros)
            draw_flags(rng, old, e, free, own, sizes, P, zeros)
            n[b, own] += 1.0
            move_values(
                own_x, own_e, own_kinds, zeros, own, 1.0, layout, sizes, level_logs, M_b, P, T
            )
            move_values(old, e, free, zeros, own, 1.0, layout, sizes, level_logs, M_b, P, T)


# --- sweeps -----------------------------------------------------------------------------------


class StackedLevels(NamedTuple):
    """Units of levels alone below one another; ``ends (B + 1,)``: where each data set begins."""

    positions: npt.NDArray[np.int32]
    times: Ints
    ends: Ints


class StackedRows(NamedTuple):
    """The same of any families, as `Rows`."""

    positions: npt.NDArray[np.int32]
    counts: Array
    exposure: Array
    reals: Array
    times: Ints
    ends: Ints


class ReleaseData(NamedTuple):
    """Units of m data sets, then of the table alone, unknown rows last; as `GivenArrays`."""

    units: StackedLevels | StackedRows
    given: StackedLevels | StackedRows
    parts: LevelRows | Rows
    divides: Ints
    levels: npt.NDArray[np.int32]
    columns: Ints


@numba.njit(cache=True, nogil=True, error_model="numpy")
def block(stacked, l):
    """Units of data set l."""
    s = slice(stacked.ends[l], stacked.ends[l + 1])
    if len(stacked) == 3:
        return LevelUnits(LevelRows(stacked.positions[s]), stacked.times[s])
    counts, exposure, reals = stacked.counts[s], stacked.exposure[s], stacked.reals[s]
    rows = Rows(stacked.positions[s], counts, exposure, reals)
    return NumberUnits(rows, stacked.times[s], np.empty(0))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def part_of(data, l):
    """Data set l as a fit takes it, the unknown rows last; block m is the table alone."""
    rows, divides = block(data.given, l), data.divides
    s = slice(0, divides.shape[0] if l < data.given.ends.shape[0] - 2 else 0)
    given = GivenArrays(rows, data.parts, divides[s], data.levels, data.columns)
    return block(data.units, l), given


@numba.njit(cache=True, nogil=True, error_model="numpy")
def place_rows(data, rows, layout, y):
    """Put the unknown rows last among a data set's units."""
    free, e = rows.free, rows.exposure
    p, p_r = layout.shape.shape[0], layout.shape.shape[0] + layout.reals.shape[0]
    R = y.shape[0]
    for i in range(R):
        u = data.positions.shape[0] - R + i
        for c in range(free.shape[0]):
            v = free[c]
            if v >= p_r:
                data.positions[u, v - p_r] = int(y[i, c])
            elif len(data) > 1:
                observed = y[i, c] == y[i, c]
                if v >= p:
                    data.reals[u, v - p] = y[i, c]
                else:
                    data.counts[u, v] = y[i, c] if observed else 0.0
                    data.exposure[u, v] = e[i, c] if observed else 0.0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def label_base(rng, table, layout, pi, phi, n, M, label, flags):
    """Labels of the table, of which sums are kept, and labels and zeros of the unknown rows."""
    (R, p), U = flags.shape, table.multiplicity.shape[0]
    c = table.data.counts.shape[1] if len(table) > 2 else 0
    all_label, all_flags = np.empty(U, np.int16), np.zeros((U, c), np.bool_)
    draw_labels(rng, table, pi, phi, layout, n, M, all_label, all_flags, np.empty(0, np.int64))
    label[:] = all_label[U - R :]
    flags[:] = all_flags[U - R :, :p]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_base(M, alpha, layout, level_logs, P, T, log_alpha):
    """What `impute_rows` looks up of one base chain: parameters, logs of levels, of alpha + i."""
    for k in range(M.shape[1]):
        for v in range(P.shape[0]):
            number_parameters(M, T, layout, False, v, k, np.zeros((0, 4)), P[v, k])
        for row in range(layout.starts[0], layout.starts[-1]):
            T[row, k] = level_logs[int(M[row, k])]
    for i in range(log_alpha.shape[0]):
        log_alpha[i] = math.log(alpha + i)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def sweeps(rng, data, layout, concentration, swaps, rows, state, n_sweeps):
    """Sweeps of the whole."""
    families, logs = layout.families, layout.logs
    alpha, log_left, pi, phi = state.alpha, state.log_left, state.pi, state.phi
    n, M, label, flags, y = state.n, state.M, state.label, state.flags, state.y
    (B, D, K), (W, R), starts = phi.shape, label.shape, families.starts
    m, V = B - W, families.shape.shape[0] + families.reals.shape[0] + starts.shape[0] - 1
    P, T, log_pi = np.empty((B, V, K, PARAMETERS)), np.zeros((B, D, K)), np.empty((m, K))
    fixed, nothing, S = np.ones(V, np.bool_), np.zeros((0, 4)), np.empty((4, K))
    numbers = NumberValues(np.empty(0, np.int64), np.empty((0, 2)), np.empty((0, 2)))
    out = DrawArrays(
        np.empty(1), np.empty((1, K - 1)), np.empty((1, K)), np.empty((1, D, K)),
        np.empty(1, np.int64),
    )  # fmt: skip
    table, log_alpha = block(data.units, m), np.empty((W, logs.counts.shape[0]))
    for b in range(W):
        fill_base(M[b], alpha[m + b], families, logs.levels, P[m + b], T[m + b], log_alpha[b])
    none, once = np.int64(0), np.int64(1)  # literals would be compiled anew
    for _ in range(n_sweeps):
        for l in range(m):
            (units, given), s = part_of(data, l), slice(l, l + 1)
            place_rows(units.data, rows, families, y)
            sample_draws(
                rng, units, given, None, SweepLayout(families, 0, 0), concentration,
                ChainPoint(alpha[s], log_left[l], pi[l], phi[l]), once, swaps, out, none, once,
            )  # fmt: skip
            fill_draw(M[0], phi[l], families, fixed, numbers, DrawBuffers(nothing, S, P[l], T[l]))
            for k in range(K):
                log_pi[l, k] = math.log(max(pi[l, k], TINY))
        for b in range(W):
            at = m + b
            if swaps:
                swap_neighbours(rng, alpha[at], n[b], M[b])
            log_rest = draw_sticks(rng, n[b], alpha[at], log_left[at], pi[at])
            draw_parameters(rng, M[b], families, phi[at])
            alpha[at] = draw_alpha(rng, K - 1, log_rest, concentration)
            place_rows(table.data, rows, families, y)
            label_base(rng, table, families, pi[at], phi[at], n[b], M[b], label[b], flags[b])
            fill_base(M[b], alpha[at], families, logs.levels, P[at], T[at], log_alpha[b])
            impute_rows(
                rng, families, logs, rows, state, ImputingTables(log_pi, P, T, log_alpha),
                b * R // W, (b + 1) * R // W,
            )  # fmt: skip


@numba.njit(cache=True, nogil=True, error_model="numpy")
def keep(rng, data, layout, fixed, rows, state, wanted, tracked, out, h):
    """Write a state as draw h: sums with Theta integrated out, and the tracked rows."""
    families = layout.families
    alpha, log_left, pi, phi, n, M = (
        state.alpha, state.log_left, state.pi, state.phi, state.n, state.M,
    )  # fmt: skip
    B, W, starts = phi.shape[0], n.shape[0], families.starts
    m, p_r = B - W, families.shape.shape[0] + families.reals.shape[0]
    fallen = np.zeros(1, np.int64)
    for b in range(B):
        l, s = min(b, m), slice(b, b + 1)
        if b >= m:
            draw_sticks(rng, n[b - m], alpha[b], log_left[b], pi[b])
            draw_parameters(rng, M[b - m], families, phi[b])
        units, given = part_of(data, l)
        place_rows(units.data, rows, families, state.y)
        collapse_draws(
            rng, units, given, None, SweepLayout(families, 0, 0), pi[s], phi[s], wanted[l],
            CollapsedDraws(out.n[h, s], out.M[h, s], out.label[h, s], out.flags[h, s], fallen),
        )  # fmt: skip
        out.alpha[h, b], out.pi[h, b] = alpha[b], pi[b]
        for v in range(fixed.shape[0] if b < m else 0):
            if fixed[v] and v < p_r:
                here, also = number_rows(families, v)
                out.M[h, b, here], out.M[h, b, also] = phi[b, here], phi[b, also]
            elif fixed[v]:
                q = slice(starts[v - p_r], starts[v - p_r + 1])
                out.M[h, b, q] = phi[b, q]
    for i in range(tracked.shape[0]):
        out.rows[h, i] = state.y[tracked[i]]
