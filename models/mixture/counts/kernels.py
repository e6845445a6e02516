"""Masses of counts and labels, for a mixture of products of Poissons.

Layout: ``phi[D, K]`` as in `poisson_state`. ``M[D + 2 p, K]`` counts in the same rows: sums of the
counts, structural zeros, levels; then the exposure and the number of values that are no structural
zeros.

A mass is ``x log(lambda) - e lambda``, a product of precomputed rows. At counts of 1e9 that is 2e10
and its last digit 4e-6, so large counts get a second pass: ``x log(lambda_k / lambda_b) -
e (lambda_k - lambda_b)`` against the best class b, over the few classes within reach of it.
"""

import math

import numba
import numpy as np

from bayes_risk.models.mixture.categorical.sweep import TINY, cumulate, draw_class

FAR = -40.0  # a class this far below the best gets no mass: 4e-18 of it
LARGE = 2.0**20  # counts above get the second pass; below, a first-pass mass is right to 1e-8
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@numba.njit(cache=True, nogil=True)
def log_deviance(x, mean):
    """x log(mean / x) + x - mean, at most 0, without cancellation near mean = x."""
    if x == 0.0:
        return -mean
    r = (mean - x) / x
    if abs(r) < 0.01:  # log(1 + r) - r = -r^2 (1/2 - r/3 + r^2/4 - ...)
        total, power = 0.0, 1.0
        for i in range(2, 12):
            total += power / i
            power *= -r
        return -x * r * r * total
    return x * math.log(mean / x) + x - mean


@numba.njit(cache=True, nogil=True)
def log_poisson(x, mean):
    """log Poisson(x; mean) by Loader's expansion: right to 1e-15 of itself at any size of count."""
    if x == 0.0:
        return -mean
    if x < 16.0:
        return x * math.log(mean) - mean - math.lgamma(x + 1.0)
    r = 1.0 / (x * x)  # what Stirling's formula leaves of log x!
    rest = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - r / 1188) * r) * r) * r) / x
    return log_deviance(x, mean) - rest - HALF_LOG_2PI - 0.5 * math.log(x)


@numba.njit(cache=True, nogil=True)
def log_zero(log_psi, log_alive, mean):
    """log(psi + (1 - psi) exp(-mean)): a zero of either kind."""
    alive = log_alive - mean
    top = max(log_psi, alive)
    return top + math.log(math.exp(log_psi - top) + math.exp(alive - top))


@numba.njit(cache=True, nogil=True)
def fill_tables(pi, phi, p, zeros, tables):
    """Logs of weights, of phi, of 1 - psi, and of a zero at exposure 1."""
    log_pi, log_phi, log_alive, at_zero = tables
    for k in range(pi.shape[0]):
        log_pi[k] = math.log(max(pi[k], TINY))
    for r in range(phi.shape[0]):
        if zeros or r < p or r >= 2 * p:
            for k in range(phi.shape[1]):
                log_phi[r, k] = math.log(max(phi[r, k], TINY))
    if zeros:
        for j in range(p):
            for k in range(phi.shape[1]):
                log_alive[j, k] = math.log1p(-phi[p + j, k])
                at_zero[j, k] = log_zero(log_phi[p + j, k], log_alive[j, k], phi[j, k])


@numba.njit(cache=True, nogil=True)
def room_for_tables(p, D, K):
    """Arrays that `fill_tables` fills."""
    return np.empty(K), np.zeros((D, K)), np.zeros((p, K)), np.zeros((p, K))


@numba.njit(cache=True, nogil=True)
def log_class_masses(data, u, phi, zeros, tables, out):
    """out[k] = log(pi_k p(unit u | k)) up to a constant; the largest is returned, and its class."""
    counts, exposure, positions = data
    log_pi, log_phi, log_alive, at_zero = tables
    p, K, large = counts.shape[1], out.shape[0], False
    for k in range(K):
        out[k] = log_pi[k]
    for j in range(p):
        x, e = counts[u, j], exposure[u, j]
        large |= x > LARGE
        if zeros and e > 0.0:
            if x > 0.0:
                for k in range(K):
                    out[k] += x * log_phi[j, k] - e * phi[j, k] + log_alive[j, k]
            elif e == 1.0:
                for k in range(K):
                    out[k] += at_zero[j, k]
            else:
                for k in range(K):
                    out[k] += log_zero(log_phi[p + j, k], log_alive[j, k], e * phi[j, k])
        else:
            for k in range(K):
                out[k] += x * log_phi[j, k] - e * phi[j, k]
    for j in range(positions.shape[1]):
        row = positions[u, j]
        if row >= 0:
            for k in range(K):
                out[k] += log_phi[row, k]
    if large:
        refine(data, u, phi, zeros, tables, out)
    return largest(out)


@numba.njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def largest(out):
    """The largest entry; the flags let it be found in vectors."""
    top = out[0]
    for k in range(1, out.shape[0]):
        top = out[k] if out[k] > top else top
    return top


@numba.njit(cache=True, nogil=True)
def refine(data, u, phi, zeros, tables, out):
    """Masses against the best class instead, of classes within reach of it; others none."""
    counts, exposure, positions = data
    log_pi, log_phi, log_alive, at_zero = tables
    p, b, size = counts.shape[1], 0, 0.0
    for k in range(out.shape[0]):
        if out[k] > out[b]:
            b = k
    for j in range(p):
        size += counts[u, j] * abs(log_phi[j, b]) + exposure[u, j] * phi[j, b]
    reach = out[b] + FAR - 1e-14 * size
    for k in range(out.shape[0]):
        if out[k] < reach:
            out[k] = -np.inf
            continue
        if k == b:
            continue
        total = log_pi[k] - log_pi[b]
        for j in range(p):
            x, e = counts[u, j], exposure[u, j]
            if zeros and e > 0.0 and x == 0.0:
                total += log_zero(log_phi[p + j, k], log_alive[j, k], e * phi[j, k])
                total -= log_zero(log_phi[p + j, b], log_alive[j, b], e * phi[j, b])
                continue
            step = phi[j, k] - phi[j, b]
            if x > 0.0:
                near = abs(step) < 0.5 * phi[j, b]
                total += x * (
                    math.log1p(step / phi[j, b]) if near else math.log(phi[j, k] / phi[j, b])
                )
                total += log_alive[j, k] - log_alive[j, b]
            total -= e * step
        for j in range(positions.shape[1]):
            row = positions[u, j]
            if row >= 0:
                total += log_phi[row, k] - log_phi[row, b]
        out[k] = total
    out[b] = 0.0


@numba.njit(cache=True, nogil=True)
def exponentials(top, out):
    """out[k] = exp(out[k] - top), 0 below exp(-40), to 1e-10 of itself; in vectors, not one by one.

    exp(g) = exp(g / 64)^64, Taylor's series of degree 12 on [-0.625, 0].
    """
    for k in range(out.shape[0]):
        gap = out[k] - top
        r = max(gap, FAR) / 64.0
        t = 1.0 / 39916800.0 + r / 479001600.0
        t = 1.0 / 3628800.0 + r * t
        t = 1.0 / 362880.0 + r * t
        t = 1.0 / 40320.0 + r * t
        t = 1.0 / 5040.0 + r * t
        t = 1.0 / 720.0 + r * t
        t = 1.0 / 120.0 + r * t
        t = 1.0 / 24.0 + r * t
        t = 1.0 / 6.0 + r * t
        t = 0.5 + r * t
        t = 1.0 + r * t
        t = 1.0 + r * t
        t *= t
        t *= t
        t *= t
        t *= t
        t *= t
        t *= t
        out[k] = t if gap > FAR else 0.0


@numba.njit(cache=True, nogil=True)
def cumulated_masses(data, u, phi, zeros, tables, out):
    """Running sums of p(k | unit u), up to a factor."""
    exponentials(log_class_masses(data, u, phi, zeros, tables, out), out)
    cumulate(out)


@numba.njit(cache=True, nogil=True)
def draw_labels(rng, data, multiplicity, pi, phi, zeros, n, M, first_label):
    """Class labels z ~ p(z | y, pi, phi) of all units; fills n[K] and M[D + 2 p, K].

    ``first_label[u]`` keeps the label of one individual of unit u.
    """
    K, D, p = pi.shape[0], phi.shape[0], data[0].shape[1]
    tables = room_for_tables(p, D, K)
    fill_tables(pi, phi, p, zeros, tables)
    masses, copies = np.empty(K), np.zeros(K, np.int64)
    n[:] = 0
    M[:] = 0.0
    for u in range(multiplicity.shape[0]):
        cumulated_masses(data, u, phi, zeros, tables, masses)
        k = draw_class(rng, masses)
        first_label[u] = k
        copies[k] += 1
        for _ in range(multiplicity[u] - 1):
            copies[draw_class(rng, masses)] += 1
        if multiplicity[u] == 1:
            add_unit(rng, data, u, k, phi, zeros, copies, n, M)
        else:
            for c in range(K):
                if copies[c] > 0:
                    add_unit(rng, data, u, c, phi, zeros, copies, n, M)


@numba.njit(cache=True, nogil=True)
def add_unit(rng, data, u, k, phi, zeros, copies, n, M):
    """Count the copies of a unit that fell into class k, and forget them."""
    counts, exposure, positions = data
    D, p, c = phi.shape[0], counts.shape[1], copies[k]
    n[k] += c
    for j in range(p):
        x, e = counts[u, j], exposure[u, j]
        if e > 0.0:
            alive = c
            if zeros and x == 0.0:
                alive -= structural(rng, phi[p + j, k], e * phi[j, k], c)
                M[p + j, k] += c - alive
            M[j, k] += c * x
            M[D + j, k] += alive * e
            M[D + p + j, k] += alive
    for j in range(positions.shape[1]):
        if positions[u, j] >= 0:
            M[positions[u, j], k] += c
    copies[k] = 0


@numba.njit(cache=True, nogil=True)
def structural(rng, psi, mean, copies):
    """How many of so many zeros are structural."""
    q, found = psi / (psi + (1.0 - psi) * math.exp(-mean)), 0
    for _ in range(copies):
        found += rng.random() < q
    return found


@numba.njit(cache=True, nogil=True)
def draw_row_labels(rng, data, pi, phi, zeros, label):
    """A class for each row given its values: label[i] ~ p(k | row i, pi, phi)."""
    K, p = pi.shape[0], data[0].shape[1]
    tables, masses = room_for_tables(p, phi.shape[0], K), np.empty(K)
    fill_tables(pi, phi, p, zeros, tables)
    for i in range(label.shape[0]):
        cumulated_masses(data, i, phi, zeros, tables, masses)
        label[i] = draw_class(rng, masses)


@numba.njit(cache=True, nogil=True)
def fill_log_masses(data, pi, phi, zeros, out):
    """out[h, u] = log sum_k pi_hk p(row u | k, phi_h), the densities complete."""
    counts, exposure, positions = data
    p, masses = counts.shape[1], np.empty(pi.shape[1])
    for h in range(pi.shape[0]):
        for u in range(out.shape[1]):
            top = -np.inf
            for k in range(masses.shape[0]):
                total = math.log(max(pi[h, k], TINY))
                for j in range(p):
                    if exposure[u, j] > 0.0:
                        total += log_count(
                            counts[u, j], exposure[u, j] * phi[h, j, k], phi[h, p + j, k], zeros
                        )
                for j in range(positions.shape[1]):
                    if positions[u, j] >= 0:
                        total += math.log(max(phi[h, positions[u, j], k], TINY))
                masses[k] = total
                top = max(top, total)
            share = 0.0
            for k in range(masses.shape[0]):
                share += math.exp(masses[k] - top)
            out[h, u] = top + math.log(share)


@numba.njit(cache=True, nogil=True)
def log_count(x, mean, psi, zeros):
    """Log probability of one count, a structural zero or Poisson."""
    if not zeros:
        return log_poisson(x, mean)
    if x == 0.0:
        return log_zero(math.log(psi), math.log1p(-psi), mean)
    return math.log1p(-psi) + log_poisson(x, mean)
