"""log p of the smoothed values that one node shows: kernels, and allocations of values to records.

Letters: ``N`` records with values `held`, ``R`` released values ``z``. See `kernel_evidence`.
"""

import math

import numba
import numpy as np

SAME = 1e-12  # relative: what a number may lose on its way through a text file


@numba.njit(cache=True, nogil=True)
def mean_of(batch, deviations, sign):
    """Log of the mean of batches; their relative deviations are added, with a sign."""
    top = batch.max()
    mean = np.exp(batch - top).mean()
    deviations += sign * (np.exp(batch - top) / mean - 1.0)
    return top + np.log(mean)


@numba.njit(cache=True, nogil=True)
def of_node(held, z, how, simulation, node, out):
    """log p of values z shown by records with values `held`, by batch; effective particles."""
    whole, plain, atom = how
    seed, _, particles = simulation
    N, R = len(held), len(z)
    out[:] = -np.inf
    if N == 0 or (atom and held.min() < held.max()):
        return np.inf
    log_k = _log_kernels(held, z, whole)  # shape (R, N)
    scale = 0.0
    for r in range(R):
        top = log_k[r].max()
        if top == -np.inf:
            return np.inf
        scale += top
        log_k[r] = np.exp(log_k[r] - top)
    edges = np.empty((R, N))
    for r in range(R):
        edges[r] = np.cumsum(log_k[r])
    if plain or R == 1 or N == 1:
        out[:] = scale + np.log(edges[:, -1] / N).sum()
        return np.inf
    return _allocated(log_k, edges, scale, seed + np.uint64(node), particles, out)


@numba.njit(cache=True, nogil=True)
def _allocated(k, edges, scale, seed, particles, out):
    """Mean weight of allocations drawn one value after another, by batch (its log)."""
    R, N = k.shape
    given = np.empty(R, np.int64)
    log_w = np.empty(len(out) * particles)
    for s in range(len(log_w)):
        log_w[s], weight = scale, 1.0
        for r in range(R):
            total = edges[r, -1]
            for q in range(r):
                total += k[r, given[q]]
            weight *= total / (N + r)
            if weight < 1e-200:
                log_w[s], weight = log_w[s] + np.log(weight), 1.0
            given[r] = _picked(_uniform(seed, s, r) * total, k[r], edges[r], given, r)
        log_w[s] += np.log(weight)
    top = log_w.max()
    w = np.exp(log_w - top)
    for b in range(len(out)):
        out[b] = top + np.log(w[b * particles : (b + 1) * particles].mean())
    return w.sum() ** 2 / (w**2).sum()


@numba.njit(cache=True, nogil=True)
def _picked(at, k, edges, given, r):
    """The record at a point of the line: first each record once, then those given before."""
    if at < edges[-1]:
        return min(np.searchsorted(edges, at, side="right"), len(k) - 1)
    at -= edges[-1]
    for q in range(r):
        at -= k[given[q]]
        if at < 0:
            return given[q]
    return given[r - 1]


@numba.njit(cache=True, nogil=True)
def _uniform(seed, s, r):
    """A number of (0, 1) that belongs to a node, a particle and a step (splitmix64)."""
    x = seed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(s) * np.uint64(0xD1B54A32D192ED03)
    x += np.uint64(r + 1) * np.uint64(0x8CB92BA72F3D8DD7)
    for _ in range(2):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (np.float64(x >> np.uint64(11)) + 0.5) / 9007199254740992.0


@numba.njit(cache=True, nogil=True)
def _log_kernels(held, z, whole):
    """log K(z_r | y_i) within the range of `held`, shape (R, N); without a range: atoms."""
    low, high = held.min(), held.max()
    near = SAME * max(abs(low), abs(high))
    out = np.full((len(z), len(held)), -np.inf)
    h = bandwidth(held) if low < high else 0.0
    for r in range(len(z)):
        if z[r] < low - near or z[r] > high + near:
            continue
        if h == 0.0:
            out[r] = 0.0
            continue
        for i in range(len(held)):
            a, b = (low - held[i]) / h, (high - held[i]) / h
            x = (z[r] - held[i]) / h
            if whole:
                top = _log_between(max(a, x - 0.5 / h), min(b, x + 0.5 / h))
            else:
                top = -0.5 * x * x - 0.9189385332046727 - math.log(h)
            out[r, i] = top - _log_between(a, b)
    return out


@numba.njit(cache=True, nogil=True)
def _log_between(a, b):
    """log of Phi(b) - Phi(a), also far from the middle."""
    if a > 0:
        a, b = -b, -a
    if b > 0:
        return math.log1p(-0.5 * math.erfc(-a / math.sqrt(2.0)) - 0.5 * math.erfc(b / math.sqrt(2)))
    upper, lower = _log_ndtr(b), _log_ndtr(a)
    return upper + math.log1p(-math.exp(lower - upper)) if lower < upper else -np.inf


@numba.njit(cache=True, nogil=True)
def _log_ndtr(x):
    """log Phi(x) for x <= 0; an asymptotic series below -30."""
    if x > -30:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2.0)))
    s = 1.0 / (x * x)
    return -0.5 * x * x - 0.9189385332046727 - math.log(-x) + math.log1p(-s + 3 * s * s)


@numba.njit(cache=True, nogil=True)
def bandwidth(values):
    """Silverman's rule, 0.9 min(sd, IQR / 1.34) n^(-1/5); the sd alone where the IQR is 0."""
    n = len(values)
    sd = math.sqrt(((values - values.mean()) ** 2).sum() / (n - 1))
    q = np.quantile(values, np.array([0.25, 0.75]))
    spread = (q[1] - q[0]) / 1.34
    return 0.9 * (min(sd, spread) if spread > 0 else sd) * n**-0.2
