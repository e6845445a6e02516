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

from .sweep import TINY, draw_alpha, draw_labels, draw_levels, draw_stick

BIG, FEW = 1e20, 8  # BIG ** (FEW + 1) is still a number


@numba.njit(cache=True, nogil=True)
def conditional_sweep(
    rng, positions, multiplicity, given, starts, a, prior, alpha, log_left, pi, phi, n, M, label
):
    """One sweep of p(theta, labels | y, Z) with Z_i drawn given y_us,i; returns alpha."""
    z_positions, z_multiplicity, us, c, us_columns = given
    n_z, M_z = np.zeros_like(n), np.zeros_like(M)
    z_label = np.zeros(z_positions.shape[0], np.int64)
    draw_labels(rng, positions, multiplicity, pi, phi, n, M, label)
    draw_labels(rng, z_positions, z_multiplicity, pi, phi, n_z, M_z, z_label)
    g = us_masses(us, phi)
    return update_given(
        rng, (us, c, us_columns), starts, a, prior,
        alpha, log_left, pi, phi, n, M, n_z, M_z, g,
    )  # fmt: skip


@numba.njit(cache=True, nogil=True)
def update_given(
    rng, given, starts, a, prior, alpha, log_left, pi, phi, n, M, n_z, M_z, g
):  # fmt: skip
    """Weights and levels from the counts of confidential and synthetic rows; returns alpha.

    ``given``: unsynthesised parts, how often each divides, their columns. n and M become the sums.
    """
    us, c, us_columns = given
    log_rest = update_sticks(rng, n, n_z, alpha, log_left, pi, g, c)
    proposal = np.empty_like(phi)
    draw_levels(rng, M, starts, a, proposal)
    for j in range(us_columns.shape[0]):
        update_levels(rng, us[j], c, starts, us_columns[j], proposal, M_z, pi, phi, g)
    M += M_z
    n += n_z
    draw_levels(rng, M, starts, a, proposal)
    free = np.ones(starts.shape[0] - 1, np.bool_)
    free[us_columns] = False
    for j in range(free.shape[0]):
        if free[j]:
            phi[starts[j] : starts[j + 1]] = proposal[starts[j] : starts[j + 1]]
    return draw_alpha(rng, n.shape[0] - 1, log_rest, prior)


@numba.njit(cache=True, nogil=True)
def us_masses(us, phi):
    """g[k, v] = prod_{j in us} phi_kj(y_vj); us[j, v] are rows of phi."""
    g = np.ones((phi.shape[1], us.shape[1]))
    for j in range(us.shape[0]):
        for k in range(phi.shape[1]):
            for v in range(us.shape[1]):
                g[k, v] *= phi[us[j, v], k]
    return g


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def mixed(pi, g):
    """S_v = sum_k pi_k g[k, v]."""
    S = np.zeros(g.shape[1])
    for k in range(g.shape[0]):
        for v in range(g.shape[1]):
            S[v] += pi[k] * g[k, v]
    return S


@numba.njit(cache=True, nogil=True)
def later_masses(log_left, g):
    """T[k, v] = sum_{l>k} g_lv pi_l / prod_{j<=k} (1 - V_j), shape (K - 1, V).

    By recursion from the last class, never by subtraction: 1 - V_k may be far below rounding.
    """
    K = g.shape[0]
    T = np.empty((K - 1, g.shape[1]))
    for k in range(K - 2, -1, -1):
        if k == K - 2:
            T[k] = g[k + 1]
        else:
            V, left = -math.expm1(log_left[k + 1]), math.exp(log_left[k + 1])
            for v in range(g.shape[1]):
                T[k, v] = V * g[k + 1, v] + left * T[k + 1, v]
    return T


@numba.njit(cache=True, nogil=True)
def update_sticks(rng, n, n_z, alpha, log_left, pi, g, c):
    """Propose each V_k from Beta(1 + n_k, alpha + n_{>k}); returns log pi_K."""
    K = n.shape[0]
    after, after_z = n.sum(), n_z.sum()
    head, S_new = np.zeros(c.shape[0]), np.empty(c.shape[0])
    inverse = 1.0 / np.maximum(mixed(pi, g), TINY)
    T = later_masses(log_left, g)
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
    return log_rest


@numba.njit(cache=True, nogil=True)
def sums_after(pi, g):
    """R[k, v] = sum_{l>k} pi_l g[l, v], shape (K, V)."""
    R = np.zeros(g.shape)
    for k in range(g.shape[0] - 2, -1, -1):
        for v in range(g.shape[1]):
            R[k, v] = R[k + 1, v] + pi[k + 1] * g[k + 1, v]
    return R


@numba.njit(cache=True, nogil=True)
def update_levels(rng, rows, c, starts, column, proposal, M_z, pi, phi, g):
    """Propose phi_kj from Dirichlet(a + M_kj), class by class; rows[v] is the level of part v.

    S is summed from what lies before, in and after class k: differences of sums would lose the
    small terms that decide when a class's own term falls far below rounding.
    """
    inverse, R = 1.0 / np.maximum(mixed(pi, g), TINY), sums_after(pi, g)
    head, S_new = np.zeros(c.shape[0]), np.empty(c.shape[0])
    more = np.empty(phi.shape[0])
    for k in range(pi.shape[0]):
        gain = 0.0
        for r in range(starts[column], starts[column + 1]):
            more[r] = proposal[r, k] / phi[r, k]
            if M_z[r, k] > 0:
                gain += M_z[r, k] * math.log(max(more[r], TINY))
        for v in range(c.shape[0]):
            S_new[v] = head[v] + pi[k] * g[k, v] * more[rows[v]] + R[k, v]
        if math.log(rng.random()) < gain - log_ratio(S_new, inverse, c):
            for v in range(c.shape[0]):
                g[k, v] *= more[rows[v]]
                inverse[v] = 1.0 / max(S_new[v], TINY)
            for r in range(starts[column], starts[column + 1]):
                phi[r, k] = proposal[r, k]
        for v in range(c.shape[0]):
            head[v] += pi[k] * g[k, v]
