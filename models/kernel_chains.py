"""Weights of the records of a node given the smoothed values it shows: data augmentation.

Letters: ``V`` distinct values of records, each of ``times`` records; ``Z`` distinct released
values, each released ``count`` times. See `docs/trees.md`, "Smoothed leaves".
"""

import numba
import numpy as np

BURN_IN = 10  # in units of the time in which draws forget


@numba.njit(cache=True, nogil=True)
def drawn_weights(log_k, count, times, chains, kept, seed):
    """Posterior draws of w, chain after chain: of the records of each value, and one's share.

    log_k : shape (Z, V). Returns W, shape (S, V), and the share of one record in the weight of all
    that hold its value, shape (S, V). Sweeps: a_r | w, z, then w | a ~ Dirichlet(1 + n). What a
    sweep keeps of the past is at most R / (N + R).
    """
    np.random.seed(seed)
    edges = np.empty(log_k.shape)
    k = np.empty(log_k.shape)
    for r in range(len(log_k)):
        k[r] = np.exp(log_k[r] - log_k[r].max())
    apart = 1 + min(int(count.sum() / times.sum()), 9)
    W, share = np.empty((chains * kept, len(times))), np.empty((chains * kept, len(times)))
    for chain in range(chains):
        w = times / times.sum()
        for step in range(-BURN_IN, kept):
            for _ in range(apart):
                _sweep(k, count, times, edges, w)
            if step >= 0:
                W[chain * kept + step] = w
        for s in range(chain * kept, (chain + 1) * kept):
            for v in range(len(times)):  # Beta(1, n - 1), whatever is released
                alone = times[v] == 1.0
                share[s, v] = 1.0 if alone else 1.0 - np.random.random() ** (1 / (times[v] - 1))
    return W, share


@numba.njit(cache=True, nogil=True)
def _sweep(k, count, times, edges, w):
    """Allocate every released value to a value of records, then draw their weights anew."""
    n = times.copy()
    for r in range(len(k)):
        at = 0.0
        for v in range(len(w)):
            at += w[v] * k[r, v]
            edges[r, v] = at
        for _ in range(count[r]):
            v = np.searchsorted(edges[r], np.random.random() * at, side="right")
            n[min(v, len(w) - 1)] += 1.0
    total = 0.0
    for v in range(len(w)):
        w[v] = np.random.standard_gamma(n[v])
        total += w[v]
    w /= total
