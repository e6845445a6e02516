"""The blocked Gibbs sweep of a truncated Dirichlet-process mixture of products of multinomials.

It runs on the *units* of `state.py`, equal ones drawn together with their multiplicity. Layout as
in `families.py`: one column a class, so that products over variables run over contiguous rows.
"""

import math

import numba

RESCALE_EVERY = 16
MANY = 32  # individuals from which binomials are faster than a class for each
TINY = 1e-300


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def class_masses(positions, u, pi, phi, products, cumulated):
    """Running sums of pi_k prod_j phi_k(level j of row u), up to a factor: nothing underflows.

    ``products[j]`` (p + 1, K) are those of the first j levels, kept from a row that begins alike.
    Without room for sums there are the products alone.
    """
    first, p, K = 0, positions.shape[1], pi.shape[0]
    if u == 0:
        for k in range(K):
            products[0, k] = pi[k]
    else:
        while first < p and positions[u, first] == positions[u - 1, first]:
            first += 1
    for j in range(first, p):
        a = positions[u, j]
        for k in range(K):
            products[j + 1, k] = products[j, k] * phi[a, k]
        if j % RESCALE_EVERY == RESCALE_EVERY - 1:
            top = TINY
            for k in range(K):
                top = max(top, products[j + 1, k])
            for k in range(K):
                products[j + 1, k] /= top
    total = 0.0
    for k in range(cumulated.shape[0]):
        total += products[p, k]
        cumulated[k] = total


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


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def draw_classes(rng, cumulated, times, copies):
    """Count the classes of so many individuals in ``copies``; many by one binomial a class."""
    k, last, below = 0, cumulated.shape[0] - 1, 0.0
    if times < MANY:
        for _ in range(times):
            copies[draw_class(rng, cumulated)] += 1
        return
    while times > 0 and k < last and below < cumulated[last]:
        q = (cumulated[k] - below) / (cumulated[last] - below)
        drawn, u = 0, rng.random()
        if times * q > 1.0:
            drawn = rng.binomial(times, q)
        elif u >= 1.0 - times * q:  # seldom: else nobody, whose mass is at least that
            mass = (1.0 - q) ** times
            while u >= mass and drawn < times:
                u -= mass
                drawn += 1
                mass *= (times - drawn + 1) * q / (drawn * (1.0 - q))
        copies[k] += drawn
        times -= drawn
        below = cumulated[k]
        k += 1
    copies[last] += times


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_gamma_draw(rng, shape):
    """Log of a standard gamma draw; exact where the draw itself would underflow (shapes near 0)."""
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
    """V_k ~ Beta(1 + n_k, alpha + n_{>k}), log_left = log(1 - V_k) and pi_k; returns log pi_K."""
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
def class_weights(n, alpha, removed, out):
    """E[pi_k | labels less one of class `removed`], the stick-breaking predictive; shape (K,)."""
    K = n.shape[0]
    whole_number = n.sum() - (removed < K)
    rest = 1.0
    for k in range(K - 1):
        here = n[k] - (k == removed)
        out[k] = rest * (1.0 + here) / (1.0 + alpha + whole_number)
        rest *= (alpha + whole_number - here) / (1.0 + alpha + whole_number)
        whole_number -= here
    out[K - 1] = rest


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
    """Metropolis swaps of neighbouring classes, sticks integrated out."""
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
