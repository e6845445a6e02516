"""The blocked Gibbs sweep of a truncated Dirichlet-process mixture of products of multinomials.

It runs on the *units* of `state.py`, equal ones drawn together with their multiplicity. Layout as
in `families.py`: one column a class, so that products over variables run over contiguous rows.
"""

import math

import numba

RESCALE_EVERY = 16
TINY = 1e-300


@numba.njit(cache=True, nogil=True, error_model="numpy")
def class_masses(positions, pi, phi, out):
    """out[k] proportional to pi_k prod_j phi_k(level j); rescaled so that nothing underflows."""
    K = pi.shape[0]
    for k in range(K):
        out[k] = pi[k]
    p = positions.shape[0]
    for j in range(0, p - 1, 2):  # two variables a pass: half the traffic
        a, b = positions[j], positions[j + 1]
        for k in range(K):
            out[k] *= phi[a, k] * phi[b, k]
        if j % RESCALE_EVERY == RESCALE_EVERY - 2:
            top = TINY
            for k in range(K):
                top = max(top, out[k])
            for k in range(K):
                out[k] /= top
    if p % 2 == 1:
        a = positions[p - 1]
        for k in range(K):
            out[k] *= phi[a, k]


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def cumulate(masses):
    """Running sums, in place."""
    for k in range(1, masses.shape[0]):
        masses[k] += masses[k - 1]


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def draw_class(rng, cumulated):
    """Index k with probability proportional to its mass: how many running sums lie below u."""
    last = cumulated.shape[0] - 1
    u = rng.random() * cumulated[last]
    k = 0
    for i in range(last):  # counting without a branch is faster than searching
        k += u >= cumulated[i]
    return k


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_gamma_draw(rng, shape):
    """Log of a standard gamma draw; exact where the draw itself would underflow (shapes near 0).

    A floor in place of this made small concentrations too rare: found by enumeration.
    """
    if shape >= 1.0:
        return math.log(rng.standard_gamma(shape))
    return math.log(rng.standard_gamma(shape + 1.0)) + math.log(max(rng.random(), TINY)) / shape


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_stick(rng, here, after, alpha):
    """V ~ Beta(1 + here, alpha + after); returns V and log(1 - V)."""
    x = log_gamma_draw(rng, 1.0 + here)
    y = log_gamma_draw(rng, alpha + after)
    top = max(x, y)
    total = top + math.log(math.exp(x - top) + math.exp(y - top))
    return math.exp(x - total), y - total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_sticks(rng, n, alpha, log_left, pi):
    """V_k ~ Beta(1 + n_k, alpha + n_{>k}) and pi_k = V_k prod_{l<k} (1 - V_l); returns log pi_K.

    ``log_left[k]`` keeps log(1 - V_k), which may be far below what 1 - V_k can show.
    """
    K = n.shape[0]
    after = n.sum()
    log_rest = 0.0
    for k in range(K - 1):
        after -= n[k]
        V, log_left[k] = draw_stick(rng, n[k], after, alpha)
        pi[k] = math.exp(log_rest) * V
        log_rest += log_left[k]
    pi[K - 1] = math.exp(log_rest)
    return log_rest


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_alpha(rng, n_sticks, log_rest, prior):
    """alpha ~ Gamma(a + K - 1, rate b - log pi_K)."""
    return max(rng.standard_gamma(prior[0] + n_sticks) / (prior[1] - log_rest), TINY)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_order(here, after, alpha):
    """log E[V^here (1 - V)^after] for V ~ Beta(1, alpha), up to what no order changes."""
    return (
        math.lgamma(1.0 + here)
        + math.lgamma(alpha + after)
        - math.lgamma(1.0 + alpha + here + after)
    )


@numba.njit(cache=True, nogil=True, error_model="numpy")
def swap_neighbours(rng, alpha, n, M):
    """Metropolis swaps of neighbouring classes, sticks integrated out (module notes, "order").

    The likelihood does not see the order of the classes, only the stick-breaking prior does.
    """
    K = n.shape[0]
    after = 0
    for k in range(K - 2, -1, -1):
        a, b = n[k], n[k + 1]
        if a != b:
            now = log_order(a, b + after, alpha)
            then = log_order(b, a + after, alpha)
            if k + 1 < K - 1:  # the last class has no stick of its own
                now += log_order(b, after, alpha)
                then += log_order(a, after, alpha)
            if math.log(rng.random()) < then - now:
                n[k], n[k + 1] = b, a
                for c in range(M.shape[0]):
                    M[c, k], M[c, k + 1] = M[c, k + 1], M[c, k]
        after += n[k + 1]
