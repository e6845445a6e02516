"""Compiled: densities of the smoothed values that one node shows, for any guess of a target.

Of all records: kernels, and allocations of values to records. Given the records' weights, drawn by
data augmentation: a *case* is the place of the target's value among the node's (-1: it is not
there), and the guessed value (minus infinity: the guess does not lead through the node). The weight
of the target or the guess, b, is integrated by Gauss's rule for its Beta(1, n) distribution, n the
number of others.

Letters: ``N`` records with values `genuine`, ``V`` distinct ones, each of ``times`` records; ``R``
released values ``z``, ``Z`` distinct ones, each ``count`` times. See `docs/trees.md`, "Smoothed
leaves".
"""

import math

import numba
import numpy as np

from bayes_risk.data.precision import SAME

STEPS = 400_000  # of allocations in a node with many values


@numba.njit(cache=True, nogil=True)
def of_node(genuine, z, how, simulation, node, out):
    """log p of sorted values z shown by records with values `genuine`, by batch."""
    whole, plain, atom = how
    N, R = len(genuine), len(z)
    out[:] = -np.inf
    if N == 0 or (atom and genuine.min() < genuine.max()):
        return
    y, times = _counted(genuine[:-1])
    y, times = np.append(y, genuine[-1]), np.append(times, 1.0)  # the last by itself, last
    log_k = log_kernels(y, z, shape_of(genuine), whole)  # shape (R, V)
    scale, edges = 0.0, np.empty((R, len(y)))
    for r in range(R):
        top = log_k[r].max()
        if top == -np.inf:
            return
        scale += top
        if r > 0 and z[r] == z[r - 1]:
            log_k[r], edges[r] = log_k[r - 1], edges[r - 1]
        else:
            log_k[r] = np.exp(log_k[r] - top)
            edges[r] = np.cumsum(times * log_k[r])
    if plain or R == 1 or N == 1:
        out[:] = scale + np.log(edges[:, -1] / N).sum()
    else:
        draws = simulation[0] + np.uint64(node), simulation[2]
        _allocated(log_k, edges, N, scale, draws, out)


@numba.njit(cache=True, nogil=True)
def _counted(values):
    """Distinct values, sorted, and how often each occurs."""
    distinct = np.unique(values)
    times = np.zeros(len(distinct))
    for value in values:
        times[np.searchsorted(distinct, value)] += 1
    return distinct, times


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
def shape_of(genuine):
    """Smallest and largest value of a node's records, and their bandwidth; 0 without a range."""
    low, high = genuine.min(), genuine.max()
    return low, high, bandwidth(genuine) if low < high else 0.0


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
    n, moved = len(values), values - values.min()  # a mean of large values has their rounding
    sd = math.sqrt(((moved - moved.mean()) ** 2).sum() / (n - 1))
    ordered, quartile = np.sort(moved), np.empty(2)
    for upper in range(2):  # np.quantile compiles for seconds
        rank = 1 + (n - 1) * (0.25 + 0.5 * upper)
        at, more = int(rank), rank - int(rank)
        quartile[upper] = ordered[at - 1] * (1 - more) + ordered[at] * more
    spread = (quartile[1] - quartile[0]) / 1.34
    return 0.9 * (min(sd, spread) if spread > 0 else sd) * n**-0.2


BURN_IN = 10  # in units of the time in which draws forget


@numba.njit(cache=True, nogil=True)
def drawn_weights(log_k, count, times, chains, kept, seed):
    """Draws of w (S, V), chain after chain, and one record's share in the weight of each value.

    Sweeps: a_r | w, z, then w | a ~ Dirichlet(1 + n), which keeps R / (N + R) of the past at most.
    """
    edges, (_, k) = np.empty(log_k.shape), _scaled(log_k)
    apart = 1 + min(int(count.sum() / times.sum()), 9)
    W, share = np.empty((chains * kept, len(times))), np.ones((chains * kept, len(times)))
    n_sweeps = 0
    for chain in range(chains):
        w = times / times.sum()
        for step in range(-BURN_IN, kept):
            for _ in range(apart):
                n_sweeps += 1
                _sweep(k, count, times, edges, (seed, n_sweeps), w)
            if step >= 0:
                W[chain * kept + step] = w
    for s in range(len(W)):
        for v in range(len(times)):
            if times[v] > 1.0:  # Beta(1, n - 1), whatever is released
                share[s, v] -= uniform(seed, -1 - s, v) ** (1 / (times[v] - 1))
    return W, share


@numba.njit(cache=True, nogil=True)
def _sweep(k, count, times, edges, random, w):
    """Allocate every released value to a value of records, then draw their weights anew."""
    seed, step = random
    n, used = times.copy(), 0
    for r in range(len(k)):
        at = 0.0
        for v in range(len(w)):
            at += w[v] * k[r, v]
            edges[r, v] = at
        for _ in range(count[r]):
            v = np.searchsorted(edges[r], uniform(seed, step, used) * at, side="right")
            n[min(v, len(w) - 1)] += 1.0
            used += 1
    for v in range(len(w)):  # Gamma(n): so many exponential times
        product, w[v] = 1.0, 0.0
        for _ in range(int(n[v])):
            product *= uniform(seed, step, used)
            used += 1
            if product < 1e-200:
                w[v], product = w[v] - math.log(product), 1.0
        w[v] -= math.log(product)
    w /= w.sum()


POINTS = 8  # of the rule, at least: exact for as many as 15 released values
BANDWIDTHS = 6  # at which the density of all records is kept
REACH = 0.12  # of these, in log bandwidth
MANY = 16  # distinct values from which interpolation is faster
TINY = 1e-300
AT_ONCE = 8  # factors between two looks at the size of their product
LARGE = 25.0  # log of a factor; as many of them are not yet infinite


@numba.njit(cache=True, nogil=True)
def reference(genuine, z, whole, draws, seed):
    """A node as it is: values, draws of their weights, and log f_w(z) at some bandwidths."""
    y, times = _counted(genuine)
    shown, count = _counted(z)
    shape = shape_of(genuine)
    log_k = log_kernels(y, shown, shape, whole)
    W, share = drawn_weights(log_k, count.astype(np.int64), times, draws[0], draws[1], seed)
    n_tables = BANDWIDTHS if len(y) >= MANY and shape[2] > 0.0 else 0
    tables = np.empty((n_tables, len(W) * len(shown)))
    for p in range(n_tables):
        wide = (shape[0], shape[1], shape[2] * math.exp(_place(p)))
        log_k = log_kernels(y, shown, wide, whole)
        top, k = _scaled(log_k)
        tables[p] = (np.log(np.dot(W, k.T)) + top).ravel()
    scale = np.zeros(len(shown))
    for p in range(n_tables):
        for s in range(len(W)):
            for r in range(len(shown)):
                scale[r] += tables[p, s * len(shown) + r] / (n_tables * len(W))
    return genuine, (y, times), (shown, count.astype(np.int64)), shape, (W, share), (tables, scale)


@numba.njit(cache=True, nogil=True)
def log_shown(node, whole, case, rule, out):
    """log of the density of the shown values given the others' weights, for each draw (S,)."""
    genuine, (y, times), (z, count), at_rest, (W, share), tables = node
    mine, value = case
    with_guess = records(genuine, y[mine] if mine >= 0 else -np.inf, value)
    if len(with_guess) == 0:
        out[:] = -np.inf
        return
    shape = shape_of(with_guess)
    atoms_only = not whole and at_rest[2] == 0.0
    if beyond(z, shape) or (atoms_only and shape[2] > 0.0):
        out[:] = -np.inf
        return
    one_kernel = np.full(len(z), -np.inf)
    if value > -np.inf:
        one_kernel = log_kernels(np.array([value]), z, shape, whole)[:, 0]
    f = np.empty((len(W), len(z)))
    done, top = _interpolated(node, whole, case, shape, one_kernel, f)
    if not done:
        top = _summed(node, whole, case, shape, one_kernel, f)
    _integrated(f, np.exp(one_kernel - top), (count * top).sum(), count, rule, out)


@numba.njit(cache=True, nogil=True)
def points_for(N, R):
    """Number of points from which errors of log p stay below 1e-4 or so."""
    return POINTS if R < 2 * POINTS else POINTS * min(4, 1 + int(R / (1.25 * N)))


@numba.njit(cache=True, nogil=True)
def beta_rule(n, points):
    """Gauss's points and weights for Beta(1, n), exact to degree 2 ``points`` - 1."""
    if n == 0.0:  # nobody else
        return np.ones(1), np.ones(1)
    alpha = n - 1.0
    jacobi = np.zeros((points, points))
    jacobi[0, 0] = 1.0 / (alpha + 2)
    for k in range(1, points):
        a = 2 * k + alpha
        jacobi[k, k] = (2 * k * (k + alpha + 1) + alpha) / (a * (a + 2))
        off = k * (k + alpha) / a / math.sqrt((a + 1) * (a - 1))
        jacobi[k, k - 1], jacobi[k - 1, k] = off, off
    at, vectors = np.linalg.eigh(jacobi)
    return at, vectors[0] ** 2


@numba.njit(cache=True, nogil=True)
def records(genuine, old, new):
    """Values of the records of a node under a guess in the place of a value; infinite: none."""
    others = np.delete(genuine, np.argmax(genuine == old)) if old > -np.inf else genuine
    return np.append(others, new) if new > -np.inf else others


@numba.njit(cache=True, nogil=True)
def _place(p):
    """A Chebyshev point, on the scale of log bandwidths."""
    return REACH * math.cos(math.pi * (p + 0.5) / BANDWIDTHS)


@numba.njit(cache=True, nogil=True)
def _scaled(log_k):
    """Largest log kernel of each row, and the kernels divided by it."""
    top, k = np.empty(len(log_k)), np.empty(log_k.shape)
    for r in range(len(log_k)):
        top[r] = log_k[r].max()
        k[r] = np.exp(log_k[r] - top[r])
    return top, k


@numba.njit(cache=True, nogil=True)
def _summed(node, whole, case, shape, one_kernel, f):
    """Density f of the others' mixture, kernel by kernel, divided by exp(top); returns top (Z,)."""
    _, (y, times), (z, _), _, (W, share), _ = node
    mine = case[0]
    log_k = log_kernels(y, z, shape, whole)
    weights = W.copy()
    if mine >= 0:
        weights[:, mine] *= 1.0 - share[:, mine]
        if times[mine] == 1.0:
            log_k[:, mine] = -np.inf
    for s in range(len(weights)):
        weights[s] /= max(weights[s].sum(), TINY)  # nobody: nothing
    top = np.maximum(one_kernel, _scaled(log_k)[0])
    for r in range(len(z)):
        log_k[r] = np.exp(log_k[r] - top[r])
    f[:] = np.dot(weights, log_k.T)
    return top


@numba.njit(cache=True, nogil=True)
def _interpolated(node, whole, case, shape, one_kernel, f):
    """The same from the mixtures of all records at bandwidths nearby; False where that is rough."""
    _, (y, _), (z, _), at_rest, (W, share), (tables, top) = node
    mine = case[0]
    if len(tables) == 0 or shape[0] != at_rest[0] or shape[1] != at_rest[1]:
        return False, top
    at = math.log(shape[2] / at_rest[2])
    if abs(at) > REACH or (one_kernel - top).max() > LARGE:
        return False, top
    log_f = np.dot(_lagrange(at), tables)
    removed = np.zeros(len(z))
    if mine >= 0:
        removed = log_kernels(y[mine : mine + 1], z, shape, whole)[:, 0] - top
        if removed.max() > LARGE:
            return False, top
        removed = np.exp(removed)
    for s in range(len(W)):
        w = W[s, mine] * share[s, mine] if mine >= 0 else 0.0
        for r in range(len(z)):
            of_all = math.exp(log_f[s * len(z) + r] - top[r])
            f[s, r] = (of_all - w * removed[r]) / (1.0 - w)
            if of_all - w * removed[r] < 0.01 * of_all:
                return False, top
    return True, top


@numba.njit(cache=True, nogil=True)
def _lagrange(at):
    """Weights of the kept bandwidths at a log bandwidth between them."""
    out = np.ones(BANDWIDTHS)
    for p in range(BANDWIDTHS):
        for q in range(BANDWIDTHS):
            if q != p:
                out[p] *= (at - _place(q)) / (_place(p) - _place(q))
    return out


@numba.njit(cache=True, nogil=True)
def _integrated(f, k, scale, count, rule, out):
    """log E_b prod_r [(1 - b) f(z_r) + b K(z_r)]^count_r, for each draw of f (S, Z)."""
    at, weight = rule
    product, factor = np.empty(len(at)), np.empty(len(at))
    for s in range(len(f)):
        total, since = scale, 0
        product[:] = weight
        for r in range(len(k)):
            here = f[s, r]
            away = k[r] - here
            for q in range(len(at)):
                factor[q] = here + at[q] * away
            for _ in range(count[r]):
                for q in range(len(at)):
                    product[q] *= factor[q]
                since += 1
                top = product.max() if since % AT_ONCE == 0 else 1.0
                if top != 0.0 and not 1e-100 < top < 1e100:
                    product /= top
                    total += math.log(top)
        out[s] = total + np.log(product.sum())
