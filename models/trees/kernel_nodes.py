"""log p of the smoothed values that one node shows: kernels, and allocations of values to records.

Letters: ``N`` records with values `held`, ``R`` released values ``z``. See `kernel_evidence`.
"""

import math

import numba
import numpy as np

SAME = 1e-12  # relative: what a number may lose on its way through a text file
STEPS = 400_000  # of allocations in a node with many values


@numba.njit(cache=True, nogil=True)
def of_node(held, z, how, simulation, node, out):
    """log p of values z shown by records with values `held`, by batch; effective particles.

    ``z`` is sorted. The last record keeps its place on the line of random numbers, whatever its
    value, and so do the others.
    """
    whole, plain, atom = how
    N, R = len(held), len(z)
    out[:] = -np.inf
    if N == 0 or (atom and held.min() < held.max()):
        return np.inf
    y, times = _grouped(held)
    log_k = log_kernels(y, z, shape_of(held), whole)  # shape (R, V)
    scale, edges = 0.0, np.empty((R, len(y)))
    for r in range(R):
        top = log_k[r].max()
        if top == -np.inf:
            return np.inf
        scale += top
        if r > 0 and z[r] == z[r - 1]:
            log_k[r], edges[r] = log_k[r - 1], edges[r - 1]
        else:
            log_k[r] = np.exp(log_k[r] - top)
            edges[r] = np.cumsum(times * log_k[r])
    if plain or R == 1 or N == 1:
        out[:] = scale + np.log(edges[:, -1] / N).sum()
        return np.inf
    return _allocated(log_k, edges, N, scale, (simulation[0] + np.uint64(node), simulation[2]), out)


@numba.njit(cache=True, nogil=True)
def _grouped(held):
    """Distinct values and how many records have each; the last record by itself, last."""
    y, times = np.empty(len(held)), np.empty(len(held))
    V = 0
    for value in np.sort(held[:-1]):
        if V > 0 and y[V - 1] == value:
            times[V - 1] += 1
        else:
            y[V], times[V] = value, 1.0
            V += 1
    y[V], times[V] = held[-1], 1.0
    return y[: V + 1], times[: V + 1]


@numba.njit(cache=True, nogil=True)
def _allocated(k, edges, N, scale, draws, out):
    """Mean weight of allocations drawn one value after another, by batch (its log)."""
    R = len(k)
    seed, most = draws
    particles = max(min(STEPS // (len(out) * R * R), most), min(most, 4))
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
            given[r] = _picked(uniform(seed, s, r) * total, k[r], edges[r], given, r)
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
def uniform(seed, s, r):
    """A number of (0, 1) that belongs to a node, a particle and a step (splitmix64)."""
    x = seed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(s) * np.uint64(0xD1B54A32D192ED03)
    x += np.uint64(r + 1) * np.uint64(0x8CB92BA72F3D8DD7)
    for _ in range(2):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (np.float64(x >> np.uint64(11)) + 0.5) / 9007199254740992.0


@numba.njit(cache=True, nogil=True)
def shape_of(held):
    """Smallest and largest value of a node's records, and their bandwidth; 0 without a range."""
    low, high = held.min(), held.max()
    return low, high, bandwidth(held) if low < high else 0.0


@numba.njit(cache=True, nogil=True)
def beyond(z, shape):
    """Whether some of the sorted values ``z`` lie beyond the range of a node's records."""
    near = SAME * max(abs(shape[0]), abs(shape[1]))
    return z[0] < shape[0] - near or z[-1] > shape[1] + near


@numba.njit(cache=True, nogil=True)
def log_kernels(y, z, shape, whole):
    """log K(z_r | y_v), shape (R, V), ``z`` sorted; without a range: atoms."""
    low, high, h = shape
    near = SAME * max(abs(low), abs(high))
    out = np.full((len(z), len(y)), -np.inf)
    inside = np.zeros(len(y))  # log of the mass of each kernel within the range
    if h > 0.0:
        for v in range(len(y)):
            inside[v] = _log_between((low - y[v]) / h, (high - y[v]) / h)
    for r in range(len(z)):
        if z[r] < low - near or z[r] > high + near:
            continue
        if h == 0.0:
            out[r] = 0.0
        elif r > 0 and z[r] == z[r - 1]:
            out[r] = out[r - 1]
        else:
            for v in range(len(y)):
                out[r, v] = _log_kernel(z[r], y[v], h, (low, high), whole) - inside[v]
    return out


@numba.njit(cache=True, nogil=True)
def _log_kernel(z, y, h, ends, whole):
    """log of the density at z of a normal around y, or of the mass that is rounded to z."""
    if whole:
        return _log_between((max(ends[0], z - 0.5) - y) / h, (min(ends[1], z + 0.5) - y) / h)
    x = (z - y) / h
    return -0.5 * x * x - 0.9189385332046727 - math.log(h)


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
