"""Families of columns of a mixture, compiled: levels (Dirichlet), counts (gamma), reals (normal).

A column is of one family; any number of each may stand in a table. Layout of ``phi[D, K]``, one
column a class: p rates of the counts, p chances of a structural zero (0 where there are none), r
means and r precisions of the reals, the levels below one another, and a last row of ones, the level
that padding points to. ``M[D + 2 p + r, K]`` holds sums in the same rows: of counts, of structural
zeros, of reals and of their squares, of levels; then of exposures and of values that are no
structural zeros, and the number of reals. A unit may hold several values of a column (its own and
its synthetic ones): column j of ``counts`` is of count ``j % p``, of ``reals`` of real ``j % r``.

``data`` are `Rows`, exposure 0 where a unit says nothing of a count, NaN where it says nothing of a
real; of levels alone `LevelRows`, and nothing is compiled for numbers.

A mass of a count is ``x log(lambda) - e lambda``, a product of precomputed rows. At counts of 1e9
that is 2e10 and its last digit 4e-6, so large counts get a second pass: ``x log(lambda_k /
lambda_b) - e (lambda_k - lambda_b)`` against the best class b, over the classes within reach of it.
"""

import math

import numba
import numpy as np

from .kernel_arguments import LabelBuffers, LogTables
from .masses import LOG_2_PI, log_negative_binomial, log_poisson, stirling_error
from .sweep import (
    RESCALE_EVERY,
    TINY,
    class_masses,
    cumulate,
    draw_class,
    draw_classes,
    log_gamma_draw,
)

LOWEST = -640.0  # of logs whose exponentials are looked at
FAR = -40.0  # a class this far below the best gets no mass: 4e-18 of it
SMALL = 1e-250  # sum of products whose terms may be lost
LARGE = 2.0**20  # counts above get the second pass; below, a first-pass mass is right to 1e-8
HALF_LOG_2PI = 0.5 * LOG_2_PI
ALMOST_ONE = 1.0 - 2.0**-53
PARAMETERS = 5  # of a number in a class


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def log_add(x, y):
    """log(exp x + exp y)."""
    top, other = max(x, y), min(x, y)
    return top if other == -math.inf else top + math.log1p(math.exp(other - top))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_normal(x, mean, precision):
    """log Normal(x; mean, 1 / precision)."""
    return 0.5 * (math.log(precision) - LOG_2_PI - precision * (x - mean) ** 2)


# --- the label of a unit, given the parameters ------------------------------------------------


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_tables(pi, phi, layout):
    """Logs of weights, of phi, of 1 - psi, and of a zero at exposure 1."""
    p, r, inflated = layout.shape.shape[0], layout.reals.shape[0], layout.inflated
    D, K = phi.shape
    log_pi, log_phi = np.empty(K), np.zeros((D, K))
    log_alive, at_zero = np.zeros((p, K)), np.zeros((p, K))
    for k in range(K):
        log_pi[k] = math.log(max(pi[k], TINY))
    for row in range(D):
        if not (p <= row < 2 * p and not inflated) and not 2 * p <= row < 2 * p + r:
            for k in range(K):
                log_phi[row, k] = math.log(max(phi[row, k], TINY))
    if inflated:
        for j in range(p):
            for k in range(K):
                log_alive[j, k] = math.log1p(-phi[p + j, k])
                at_zero[j, k] = log_add(log_phi[p + j, k], log_alive[j, k] - phi[j, k])
    return LogTables(log_pi, log_phi, log_alive, at_zero)


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False, forceinline=True)
def log_class_masses(data, u, phi, layout, tables, out):
    """out[k] = log(pi_k p(unit u | k)) up to a constant; the largest is returned."""
    positions, log_phi, log_alive = data.positions, tables.log_phi, tables.log_alive
    p, r, inflated = layout.shape.shape[0], layout.reals.shape[0], layout.inflated
    K, w, ones, large = out.shape[0], positions.shape[1], log_phi.shape[0] - 1, False
    for k in range(K):
        out[k] = tables.log_pi[k]
    for i in range(0, w, 4):  # several columns a pass: a quarter of the traffic
        a, b = positions[u, i], positions[u, i + 1] if i + 1 < w else ones
        c = positions[u, i + 2] if i + 2 < w else ones
        d = positions[u, i + 3] if i + 3 < w else ones
        for k in range(K):
            out[k] += (log_phi[a, k] + log_phi[b, k]) + (log_phi[c, k] + log_phi[d, k])
    if len(data) == 1:
        return largest(out)
    counts, exposure, reals = data.counts, data.exposure, data.reals
    n, step = counts.shape[1], 1 if inflated else 2
    for i in range(0, n, step):
        x, e, j = counts[u, i], exposure[u, i], i % p
        large |= x > LARGE
        if inflated and e > 0.0:
            if x > 0.0:
                for k in range(K):
                    out[k] += x * log_phi[j, k] - e * phi[j, k] + log_alive[j, k]
            elif e == 1.0:
                for k in range(K):
                    out[k] += tables.at_zero[j, k]
            else:
                for k in range(K):
                    out[k] += log_add(log_phi[p + j, k], log_alive[j, k] - e * phi[j, k])
        else:
            two = step == 2 and i + 1 < n
            y, f, l = (counts[u, i + 1], exposure[u, i + 1], (i + 1) % p) if two else (0.0, 0.0, j)
            large |= y > LARGE
            for k in range(K):
                first, second = x * log_phi[j, k] - e * phi[j, k], y * log_phi[l, k] - f * phi[l, k]
                out[k] += first + second
    n = reals.shape[1]
    for i in range(0, n, 2):
        x, j = reals[u, i], 2 * p + i % r
        y, l = (reals[u, i + 1], 2 * p + (i + 1) % r) if i + 1 < n else (np.nan, j)
        half_x, half_y = 0.5 if x == x else 0.0, 0.5 if y == y else 0.0
        x, y = x if x == x else 0.0, y if y == y else 0.0
        for k in range(K):
            first, second = x - phi[j, k], y - phi[l, k]
            first = half_x * (log_phi[j + r, k] - phi[j + r, k] * first * first)
            out[k] += first + half_y * (log_phi[l + r, k] - phi[l + r, k] * second * second)
    if large:
        refine(data, u, phi, layout, tables, out)
    return largest(out)


@numba.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc"}, _nrt=False
)
def largest(out):
    """The largest entry; the flags let it be found in vectors."""
    top = out[0]
    for k in range(1, out.shape[0]):
        top = out[k] if out[k] > top else top
    return top


@numba.njit(cache=True, nogil=True, error_model="numpy")
def refine(data, u, phi, layout, tables, out):
    """Masses against the best class instead, of classes within reach of it; others none."""
    positions, counts, exposure, reals = data.positions, data.counts, data.exposure, data.reals
    log_pi, log_phi, log_alive = tables.log_pi, tables.log_phi, tables.log_alive
    p, r, inflated = layout.shape.shape[0], layout.reals.shape[0], layout.inflated
    b, size = 0, 0.0
    for k in range(out.shape[0]):
        if out[k] > out[b]:
            b = k
    for c in range(counts.shape[1]):
        j = c % p
        size += counts[u, c] * abs(log_phi[j, b]) + exposure[u, c] * phi[j, b]
    reach = out[b] + FAR - 1e-14 * size
    for k in range(out.shape[0]):
        if out[k] < reach:
            out[k] = -np.inf
            continue
        if k == b:
            continue
        total = log_pi[k] - log_pi[b]
        for c in range(counts.shape[1]):
            x, e, j = counts[u, c], exposure[u, c], c % p
            if inflated and e > 0.0 and x == 0.0:
                total += log_add(log_phi[p + j, k], log_alive[j, k] - e * phi[j, k])
                total -= log_add(log_phi[p + j, b], log_alive[j, b] - e * phi[j, b])
                continue
            step = phi[j, k] - phi[j, b]
            if x > 0.0:
                near = abs(step) < 0.5 * phi[j, b]
                total += x * (
                    math.log1p(step / phi[j, b]) if near else math.log(phi[j, k] / phi[j, b])
                )
                total += log_alive[j, k] - log_alive[j, b]
            total -= e * step
        for c in range(reals.shape[1]):
            x, mean, precision = reals[u, c], 2 * p + c % r, 2 * p + r + c % r
            if x == x:
                total += log_normal(x, phi[mean, k], phi[precision, k])
                total -= log_normal(x, phi[mean, b], phi[precision, b])
        for j in range(positions.shape[1]):
            total += log_phi[positions[u, j], k] - log_phi[positions[u, j], b]
        out[k] = total
    out[b] = 0.0


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def exponentials(top, out):
    """out[k] = exp(out[k] - top), in vectors: to 1e-12 of itself above exp(-40)."""
    for k in range(out.shape[0]):
        gap = out[k] - top
        r = max(gap, LOWEST) / 1024.0
        t = 1.0 / 720.0 + r * (1.0 / 5040.0 + r / 40320.0)
        t = 1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * t))
        t = 1.0 + r * (1.0 + r * (0.5 + r * t))
        for _ in range(10):
            t *= t
        out[k] = t if gap > LOWEST else 0.0


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def cumulated_masses(data, power, u, phi, layout, tables, out):
    """Running sums of p(k | unit u), to the unit's power, up to a factor."""
    top = log_class_masses(data, u, phi, layout, tables, out)
    if power.shape[0] > 0:
        for k in range(out.shape[0]):
            out[k] = power[u] * (out[k] - top)
        top = 0.0
    exponentials(top, out)
    cumulate(out)


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def add_numbers(data, u, k, w, copies, dead, layout, M):
    """Count the numbers of copies of a unit in class k, w each; dead[c] zeros are structural."""
    p, r, D = layout.shape.shape[0], layout.reals.shape[0], layout.starts[-1] + 1
    for c in range(data.counts.shape[1]):  # arrays are not taken out first: that counts references
        e, j = data.exposure[u, c], c % p
        if e > 0.0:
            alive = copies - dead[c]
            M[j, k] += w * copies * data.counts[u, c]
            M[p + j, k] += w * dead[c]
            M[D + j, k] += w * alive * e
            M[D + p + j, k] += w * alive
    for c in range(data.reals.shape[1]):
        x, j = data.reals[u, c], c % r
        if x == x:
            M[2 * p + j, k] += w * copies * x
            M[2 * p + r + j, k] += w * copies * x * x
            M[D + 2 * p + j, k] += w * copies


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_labels(rng, units, pi, phi, layout, n, M, label, flags, size):
    """Class labels z ~ p(z | y, pi, phi) of all units; fills the sums n and M.

    ``label[u]`` keeps the label of one individual of unit u, ``flags[u, c]`` which of its zeros are
    structural; with ``size`` (K,), not empty, both are kept of all. Without M ``label`` alone.
    """
    width = units.data.positions.shape[1] + 1
    products, masses = np.empty((width, pi.shape[0])), np.empty(pi.shape[0])
    copies, tables = np.zeros(pi.shape[0], np.int64), None
    dead = copies
    if len(units) > 2:  # levels that count in full need no logs
        tables = log_tables(pi, phi, layout)
        dead = np.zeros(units.data.counts.shape[1], np.int64)
    n[:] = 0.0
    M[:] = 0.0
    size[:] = 0
    work = LabelBuffers(products, masses, copies, dead)
    label_units(rng, units, pi, phi, layout, tables, work, n, M, label, flags, size)


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def label_units(rng, units, pi, phi, layout, tables, work, n, M, label, flags, size):
    """What `draw_labels` does once there is room: all of it, as calls would count references."""
    data, multiplicity, masses = units.data, units.multiplicity, work.masses
    copies, dead = work.copies, work.dead
    positions, K, p, at, w = data.positions, pi.shape[0], layout.shape.shape[0], 0, 1.0
    for u in range(multiplicity.shape[0]):
        if len(units) == 2:
            class_masses(positions, u, pi, phi, work.products, masses)
        else:
            cumulated_masses(data, units.power, u, phi, layout, tables, masses)
            w = units.power[u] if units.power.shape[0] > 0 else 1.0
        one = draw_class(rng, masses)
        if M.shape[0] == 0:
            label[u] = one
            continue
        copies[one] += 1
        draw_classes(rng, masses, multiplicity[u] - 1, copies)
        single = multiplicity[u] == 1
        for k in range(one if single else 0, one + 1 if single else K):
            left, copies[k] = copies[k], 0
            if left == 0:
                continue
            if len(units) > 2 and data.counts.shape[1] + data.reals.shape[1] > 0:
                for c in range(data.counts.shape[1]):  # how many zeros are structural
                    e, j, dead[c] = data.exposure[u, c], c % p, 0
                    if layout.inflated and e > 0.0 and data.counts[u, c] == 0.0:
                        psi = phi[p + j, k]
                        q = psi / (psi + (1.0 - psi) * math.exp(-e * phi[j, k]))
                        for _ in range(left):
                            dead[c] += rng.random() < q
                add_numbers(data, u, k, w, left, dead, layout, M)
            n[k] += w * left
            for j in range(positions.shape[1]):
                M[positions[u, j], k] += w * left
            first, last = u, u + (k == one)
            if size.shape[0] > 0:
                size[k] += left
                first, last = at, at + left
                at = last
            for i in range(first, last):
                label[i] = k
                for c in range(flags.shape[1]):
                    flags[i, c] = dead[c] > 0 and rng.random() * left < dead[c]
                    dead[c] -= flags[i, c]
                left -= 1


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def log_sum_of(terms):
    """log sum exp, whose exponentials are left in ``terms``; -inf of nothing."""
    top, total = largest(terms), 0.0
    if top == -math.inf:
        return top
    exponentials(top, terms)
    for k in range(terms.shape[0]):
        total += terms[k]
    return top + math.log(total)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def fill_log_masses(data, pi, phi, layout, out):
    """out[h, u] = log sum_k pi_hk p(row u | k, phi_h); rows with large counts term by term."""
    p, r, positions = layout.shape.shape[0], layout.reals.shape[0], data.positions
    terms, constants = np.empty(pi.shape[1]), np.zeros(out.shape[1])
    products = np.empty((positions.shape[1] + 1, pi.shape[1]))
    if len(data) > 1:
        counts, exposure, reals = data.counts, data.exposure, data.reals
        for u in range(out.shape[1]):
            for c in range(counts.shape[1]):
                x, e = counts[u, c], exposure[u, c]
                if x > LARGE:
                    constants[u] = np.nan
                elif x > 0.0:
                    constants[u] += x * math.log(e) - math.lgamma(x + 1.0)
            for c in range(reals.shape[1]):
                constants[u] -= HALF_LOG_2PI if reals[u, c] == reals[u, c] else 0.0
    for h in range(pi.shape[0]):
        tables = log_tables(pi[h], phi[h], layout)
        for u in range(out.shape[1]):
            if len(data) == 1 and positions.shape[1] < RESCALE_EVERY:
                class_masses(positions, u, pi[h], phi[h], products, terms[:0])
                total = 0.0
                for k in range(terms.shape[0]):
                    total += products[-1, k]
                out[h, u] = math.log(max(total, TINY))
                if total > SMALL:
                    continue
            if len(data) == 1 or constants[u] == constants[u]:
                log_class_masses(data, u, phi[h], layout, tables, terms)
                out[h, u] = constants[u] + log_sum_of(terms)
                continue
            for k in range(terms.shape[0]):
                terms[k] = math.log(max(pi[h, k], TINY))
                for c in range(counts.shape[1]):
                    of = phi[h, c % p, k], 0.0, 0.0, phi[h, p + c % p, k], 0.0
                    x, e = counts[u, c], exposure[u, c]
                    terms[k] += log_number_density(
                        x, e, of, False, layout.inflated, 1.0, (0.0, 0.0)
                    )
                for c in range(reals.shape[1]):
                    mean, precision = phi[h, 2 * p + c % r, k], phi[h, 2 * p + r + c % r, k]
                    of = mean, 0.0, precision, 0.0, 0.0
                    terms[k] += log_number_density(
                        reals[u, c], 1.0, of, True, False, 1.0, (0.0, 0.0)
                    )
                for j in range(positions.shape[1]):
                    terms[k] += math.log(max(phi[h, positions[u, j], k], TINY))
            out[h, u] = log_sum_of(terms)


# --- parameters given sums --------------------------------------------------------------------


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def real_given(n, total, squares, prior):
    """m, kappa, a, b of a real's class, given its sums; the prior's where nobody is left."""
    m, kappa, a, b = prior[0], prior[1], prior[2], prior[3]
    if n <= 1e-9:
        return m, kappa, a, b
    more = kappa + n
    mean = (kappa * m + total) / more
    left = squares - 2.0 * mean * total + mean * mean * n + kappa * (mean - m) ** 2
    return mean, more, a + 0.5 * n, b + 0.5 * max(left, 0.0)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_parameters(rng, M, layout, phi):
    """All of phi given sums: counts, reals, levels."""
    starts, shape, rate, beta, reals = (
        layout.starts, layout.shape, layout.rate, layout.beta, layout.reals,
    )  # fmt: skip
    p, r, D = shape.shape[0], reals.shape[0], phi.shape[0]
    for v in range(p):
        for k in range(phi.shape[1]):
            g = rng.standard_gamma(shape[v] + M[v, k])
            phi[v, k] = max(g / (rate[v] + M[D + v, k]), TINY)
            if layout.inflated:
                x = log_gamma_draw(rng, beta[0] + M[p + v, k])
                y = log_gamma_draw(rng, beta[1] + M[D + p + v, k])
                top = max(x, y)
                psi = math.exp(x - top) / (math.exp(x - top) + math.exp(y - top))
                phi[p + v, k] = min(max(psi, TINY), ALMOST_ONE)
    for j in range(r):
        for k in range(phi.shape[1]):
            m, kappa, a, b = real_given(
                M[D + 2 * p + j, k], M[2 * p + j, k], M[2 * p + r + j, k], reals[j]
            )
            precision = max(rng.standard_gamma(a) / b, TINY)
            phi[2 * p + r + j, k] = precision
            phi[2 * p + j, k] = m + rng.standard_normal() / math.sqrt(kappa * precision)
    total = np.empty(phi.shape[1])
    for q in range(starts.shape[0] - 1):  # phi_kq ~ Dirichlet(a + M_kq)
        total[:] = 0.0
        for row in range(starts[q], starts[q + 1]):
            for k in range(phi.shape[1]):
                g = max(rng.standard_gamma(layout.level + M[row, k]), TINY)
                phi[row, k] = g
                total[k] += g
        for row in range(starts[q], starts[q + 1]):
            for k in range(phi.shape[1]):
                phi[row, k] /= total[k]


# --- masses with the parameters integrated out ------------------------------------------------


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def log_rise(x, w):
    """log Gamma(x + w) - log Gamma(x)."""
    return math.lgamma(x + w) - math.lgamma(x)


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def log_top(kappa, a, b, w):
    """log E[Normal(m; mean, 1 / precision)^w], the largest of a real's class."""
    if w == 1.0 and a > 20.0:  # Gamma(a + 1/2) / Gamma(a) as a series
        s = 1.0 / (a * a)
        rise = (s * (1.0 / 192.0 - s * (1.0 / 640.0 - s * 17.0 / 14336.0)) - 0.125) / a
        return rise + 0.5 * (math.log(a * kappa / ((kappa + 1.0) * b)) - LOG_2_PI)
    rise = math.lgamma(a + 0.5 * w) - math.lgamma(a) - 0.5 * w * (LOG_2_PI + math.log(b))
    return rise + 0.5 * math.log(kappa / (kappa + w))


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def number_parameters(M, phi, layout, fixed, v, k, gone, out):
    """Parameters of number v in class k, values taken out of its sums (or put in, weight < 0).

    Counts: shape, rate (0: the shape is the rate itself), Stirling error of the shape, chance of a
    structural zero. Reals: m, kappa (0: mean and precision), a, b and the largest log density.
    ``gone[i]``: weight, value, exposure, whether a structural zero.
    """
    shape, rate, beta, reals = layout.shape, layout.rate, layout.beta, layout.reals
    p, r, D = shape.shape[0], reals.shape[0], phi.shape[0]
    if v < p:
        out[2] = 0.0
        if fixed:
            out[0], out[1], out[3] = phi[v, k], 0.0, phi[p + v, k]
            return
        total, exposure, values, zeros = M[v, k], M[D + v, k], M[D + p + v, k], M[p + v, k]
        for i in range(gone.shape[0]):
            w, x, e, s = gone[i, 0], gone[i, 1], gone[i, 2], gone[i, 3]
            if w != 0.0 and e > 0.0:
                zeros -= w * s
                if s == 0.0:
                    total, exposure, values = total - w * x, exposure - w * e, values - w
        if values < 1e-9:  # nobody is left, and no rounding either
            out[0], out[1] = shape[v], rate[v]
        else:
            out[0], out[1] = shape[v] + max(total, 0.0), rate[v] + max(exposure, 0.0)
        out[2] = stirling_error(out[0])
        out[3] = 0.0
        if layout.inflated:
            out[3] = (beta[0] + zeros) / (beta[0] + zeros + beta[1] + values)
        return
    j = v - p
    if fixed:
        out[0], out[1], out[2] = phi[2 * p + j, k], 0.0, phi[2 * p + r + j, k]
        return
    n, total, squares = M[D + 2 * p + j, k], M[2 * p + j, k], M[2 * p + r + j, k]
    for i in range(gone.shape[0]):
        w, x = gone[i, 0], gone[i, 1]
        if w != 0.0:
            n, total, squares = n - w, total - w * x, squares - w * x * x
    out[0], out[1], out[2], out[3] = real_given(n, total, squares, reals[j])
    out[4] = log_top(out[1], out[2], out[3], 1.0)


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def log_number_density(x, e, of, is_real, inflated, w, constants):
    """log E[p(x | class)^w] of a number with parameters ``of`` and `count_constants`, or volume."""
    if is_real:
        if x != x:
            return 0.0
        if x - x != 0.0:
            return -math.inf
        m, kappa, a, b = of[0], of[1], of[2], of[3]
        if kappa == 0.0:
            return w * (log_normal(x, m, a) + constants[0])
        top = of[4] if w == 1.0 else log_top(kappa, a, b, w)
        spread = 0.5 * kappa * w / (kappa + w) * (x - m) ** 2
        return w * constants[0] + top - (a + 0.5 * w) * math.log1p(spread / b)
    if e <= 0.0 or x != x:
        return 0.0
    if not (x >= 0.0 and x == math.floor(x)):
        return -math.inf
    A, B, error, psi = of[0], of[1], of[2], of[3]
    if B == 0.0:
        out = w * log_poisson(x, e * A)
    else:
        out = constants[0] + log_negative_binomial(w * x, A, B, w * e, constants[1], error)
    if not inflated:
        return out
    if x > 0.0:
        return math.log1p(-psi) + out
    return log_add(math.log(psi), math.log1p(-psi) + out)


# --- marginal likelihoods of classes -----------------------------------------------------------


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_marginal(M, layout, k, seen):
    """log p(class k | class `seen`), all parameters integrated out; an empty class was not seen.

    Of a rate over the likelihood at the likeliest rate, which has more digits at large sums. Left
    out are factors e^x / x! of records, the same in any class.
    """
    starts, level, total = layout.starts, layout.level, 0.0
    if len(layout) > 2:
        beta, D = layout.beta, starts[-1] + 1
        p, r = layout.shape.shape[0], layout.reals.shape[0]
        of, nothing = np.empty(PARAMETERS), np.zeros((0, 4))
        for v in range(p + r):
            number_parameters(M, M[:D], layout, False, v, seen, nothing, of)
            if v < p:
                x, e, zeros, values = M[v, k], M[D + v, k], M[p + v, k], M[D + p + v, k]
                of_count = 0.0
                if e > 0.0:
                    of_count += log_negative_binomial(x, of[0], of[1], e, 0.0, of[2])
                if layout.inflated:
                    a, b = beta[0] + M[p + v, seen], beta[1] + M[D + p + v, seen]
                    rise = log_rise(a, zeros) + log_rise(b, values)
                    of_count += rise - log_rise(a + b, zeros + values)
                total += of_count
            else:
                n, x, squares = M[D + p + v, k], M[p + v, k], M[p + r + v, k]
                _, kappa, a, b = real_given(n, x, squares, of)
                of_real = log_rise(of[2], a - of[2])
                of_real = of_real - (a - of[2]) * math.log(b) - of[2] * math.log(b / of[3])
                total += of_real + 0.5 * math.log(of[1] / kappa) - 0.5 * n * LOG_2_PI
    for q in range(starts.shape[0] - 1):  # Dirichlet-multinomials
        of_levels, before, more = 0.0, 0.0, 0.0
        for row in range(starts[q], starts[q + 1]):
            before += M[row, seen] + level
            more += M[row, k]
            if M[row, k] > 0.0:
                of_levels += log_rise(M[row, seen] + level, M[row, k])
        total += of_levels - log_rise(before, more)
    return total
