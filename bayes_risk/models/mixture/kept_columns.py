"""Augmented fits when some columns are not synthesised and classes are fresh.

The release then has density prod_i p(Z_i, y_us,i | theta) / p(y_us,i | theta). The numerator is one
more row per record; the denominators, S_v = sum_k pi_k prod_{j in us} phi_kj(y_vj), touch the
weights and the level probabilities of the unsynthesised variables only, and break conjugacy there.

Metropolis within Gibbs: each stick V_k, and each Dirichlet vector phi_kj (j unsynthesised), is
proposed from its conditional given the *confidential* records alone, and accepted with the ratio of
what remains, the conditional density of the synthetic rows' labels and unsynthesised values:

    V_k:     V^{n^Z_k} (1 - V)^{n^Z_{>k}}  /  prod_v S_v^{c_v}
    phi_kj:  prod_c phi_kj(c)^{M^Z_kj(c)}   /  prod_v S_v^{c_v}

One proposal touches one class, so S_v is updated in one pass over the V distinct unsynthesised
parts.
"""

import math

import numba
import numpy as np

from .families import draw_parameters, log_add, log_class_masses, log_tables
from .sweep import TINY, draw_alpha, draw_stick

BIG, FEW = 1e20, 8  # BIG ** (FEW + 1) is still a number


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_ratio(S_new, inverse, c):
    """sum_v c_v log(S_v' / S_v), given 1 / S_v; one logarithm for many factors."""
    total, product = 0.0, 1.0
    for v in range(c.shape[0]):
        factor = max(S_new[v] * inverse[v], TINY)
        if c[v] > FEW or factor > BIG or factor < 1.0 / BIG:
            total += c[v] * math.log(factor)
            continue
        for _ in range(c[v]):
            product *= factor
        if product > BIG or product < 1.0 / BIG:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def part_masses(parts, phi, layout):
    """g[k, v] = p(v-th unsynthesised part | k), with numbers relative to its likeliest class."""
    K, V = phi.shape[1], parts.positions.shape[0]
    g, terms, even = np.ones((K, V)), np.empty(K), np.ones(K)
    if len(parts) == 1:
        for j in range(parts.positions.shape[1]):
            for k in range(K):
                for v in range(V):
                    g[k, v] *= phi[parts.positions[v, j], k]
        return g
    tables = log_tables(even, phi, layout)
    for v in range(V):
        top = log_class_masses(parts, v, phi, layout, tables, terms)
        for k in range(K):
            g[k, v] = math.exp(terms[k] - top)
    return g


@numba.njit(cache=True, nogil=True, error_model="numpy")
def number_rows(layout, v):
    """First and last row of phi, and further rows, of a number."""
    p, r = layout.shape.shape[0], layout.reals.shape[0]
    return (v, p + v) if v < p else (p + v, p + r + v)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def number_factors(M, new, phi, parts, layout, v, k, more):
    """log p(sums | new) / p(sums | phi) of number v in class k; more[part]: ratio of its value."""
    p, D, (here, also) = layout.shape.shape[0], phi.shape[0], number_rows(layout, v)
    now, then, psi, psi_new = phi[here, k], new[here, k], phi[also, k], new[also, k]
    if v >= p:  # mean, and psi the precision
        n, total, squares = M[D + here, k], M[here, k], M[also, k]
        gain = 0.5 * n * math.log(psi_new / psi)
        gain -= 0.5 * psi_new * (squares - 2.0 * then * total + n * then**2)
        gain += 0.5 * psi * (squares - 2.0 * now * total + n * now**2)
        for i in range(more.shape[0]):
            x = parts.reals[i, v - p]
            gap = psi_new * (x - then) ** 2 - psi * (x - now) ** 2
            more[i] = math.exp(0.5 * (math.log(psi_new / psi) - gap)) if x == x else 1.0
        return gain
    step, alive = then - now, 0.0
    gain = M[v, k] * math.log(then / now) - M[D + v, k] * step
    if layout.inflated:
        alive = math.log1p(-psi_new) - math.log1p(-psi)
        gain += M[also, k] * math.log(psi_new / psi) + M[D + also, k] * alive
    for i in range(more.shape[0]):
        x, e, change = parts.counts[i, v], parts.exposure[i, v], 0.0
        if e > 0.0 and layout.inflated and x == 0.0:
            change = log_add(math.log(psi_new), math.log1p(-psi_new) - e * then)
            change -= log_add(math.log(psi), math.log1p(-psi) - e * now)
        elif e > 0.0:
            change = x * math.log1p(step / now) - e * step + alive
        more[i] = math.exp(change)
    return gain


@numba.njit(cache=True, nogil=True, error_model="numpy")
def update_variable(rng, parts, c, us, j, v, proposal, M_z, layout, pi, phi, g):
    """Propose the parameters of variable v from those given y alone, class by class.

    S is summed from what lies before, in and after class k: differences of sums would lose the
    small terms that decide when a class's own term falls far below rounding.
    """
    V, p_r = c.shape[0], layout.shape.shape[0] + layout.reals.shape[0]
    inverse = 1.0 / np.maximum((pi[:, None] * g).sum(axis=0), TINY)
    R = np.zeros(g.shape)
    for k in range(g.shape[0] - 2, -1, -1):  # R[k, v] = sum_{l>k} pi_l g[l, v]
        for i in range(V):
            R[k, i] = R[k + 1, i] + pi[k + 1] * g[k + 1, i]
    head, S_new, more = np.zeros(V), np.empty(V), np.empty(V)
    begin, end = (0, 0) if v < p_r else (layout.starts[v - p_r], layout.starts[v - p_r + 1])
    ratio = np.empty(end - begin)
    for k in range(pi.shape[0]):
        if len(parts) > 1 and v < p_r:
            gain = number_factors(M_z, proposal, phi, parts, layout, v, k, more)
        else:
            gain = 0.0
            for r in range(begin, end):
                ratio[r - begin] = proposal[r, k] / phi[r, k]
                if M_z[r, k] > 0:
                    gain += M_z[r, k] * math.log(max(ratio[r - begin], TINY))
            for i in range(V):
                more[i] = ratio[us[j, i] - begin]
        for i in range(V):
            S_new[i] = head[i] + pi[k] * g[k, i] * more[i] + R[k, i]
        if math.log(rng.random()) < gain - log_ratio(S_new, inverse, c):
            for i in range(V):
                g[k, i] *= more[i]
                inverse[i] = 1.0 / max(S_new[i], TINY)
            if v < p_r:
                here, also = number_rows(layout, v)
                phi[here, k], phi[also, k] = proposal[here, k], proposal[also, k]
            for r in range(begin, end):
                phi[r, k] = proposal[r, k]
        for i in range(V):
            head[i] += pi[k] * g[k, i]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def update_given(rng, parts, given, c, layout, prior, alpha, log_left, pi, phi, sums, sums_z, g):
    """Weights and parameters from the sums of confidential and synthetic rows; returns alpha.

    ``c``: how often each part divides. T[k, v] = sum_{l>k} g_lv pi_l / prod_{j<=k} (1 - V_j) is
    summed from the last class, never by subtraction: 1 - V_k may be far below rounding.
    """
    us, us_columns = given.levels, given.columns
    n, M, n_z, M_z = sums.n, sums.M, sums_z.n, sums_z.M
    p, r, starts = layout.shape.shape[0], layout.reals.shape[0], layout.starts
    K, T = n.shape[0], np.empty((n.shape[0] - 1, c.shape[0]))
    for k in range(K - 2, -1, -1):
        if k == K - 2:
            T[k] = g[k + 1]
        else:
            V, left = -math.expm1(log_left[k + 1]), math.exp(log_left[k + 1])
            for v in range(c.shape[0]):
                T[k, v] = V * g[k + 1, v] + left * T[k + 1, v]
    after, after_z = n.sum(), n_z.sum()
    head, S_new = np.zeros(c.shape[0]), np.empty(c.shape[0])
    inverse = 1.0 / np.maximum((pi[:, None] * g).sum(axis=0), TINY)
    log_rest = 0.0
    for k in range(K - 1):
        after -= n[k]
        after_z -= n_z[k]
        V, log_new_left = draw_stick(rng, n[k], after, alpha)
        old, rest = -math.expm1(log_left[k]), math.exp(log_rest)
        here, beyond = rest * V, rest * math.exp(log_new_left)
        for v in range(c.shape[0]):
            S_new[v] = head[v] + here * g[k, v] + beyond * T[k, v]
        gain = n_z[k] * math.log(max(V, TINY) / max(old, TINY))
        gain += after_z * (log_new_left - log_left[k]) - log_ratio(S_new, inverse, c)
        if math.log(rng.random()) < gain:
            log_left[k] = log_new_left
            inverse[:] = 1.0 / np.maximum(S_new, TINY)
        pi[k] = -rest * math.expm1(log_left[k])
        for v in range(c.shape[0]):
            head[v] += pi[k] * g[k, v]
        log_rest += log_left[k]
    pi[K - 1] = math.exp(log_rest)
    proposal = phi.copy()
    draw_parameters(rng, M, layout, proposal)
    kept = np.zeros(p + r + starts.shape[0] - 1, np.bool_)
    for j in range(us_columns.shape[0]):
        v = p + r + us_columns[j]
        update_variable(rng, parts, c, us, j, v, proposal, M_z, layout, pi, phi, g)
        kept[v] = True
    if len(parts) > 1:
        for v in range(p + r):
            x = parts.exposure[:, v] if v < p else parts.reals[:, v - p]
            if (x > 0.0).any() if v < p else (x == x).any():
                update_variable(rng, parts, c, us, 0, v, proposal, M_z, layout, pi, phi, g)
                kept[v] = True
    M += M_z
    n += n_z
    draw_parameters(rng, M, layout, proposal)
    for v in range(p + r):
        if not kept[v]:
            here, also = number_rows(layout, v)
            phi[here], phi[also] = proposal[here], proposal[also]
    for j in range(starts.shape[0] - 1):
        if not kept[p + r + j]:
            phi[starts[j] : starts[j + 1]] = proposal[starts[j] : starts[j + 1]]
    return draw_alpha(rng, n.shape[0] - 1, log_rest, prior)
