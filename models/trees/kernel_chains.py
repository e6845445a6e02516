"""Weights of the records of a node given the smoothed values it shows: data augmentation.

Letters: ``V`` distinct values of records, each of ``times`` records; ``Z`` distinct released
values, each released ``count`` times. See `docs/trees.md`, "Smoothed leaves".
"""

import math

import numba
import numpy as np

from .kernel_nodes import uniform

BURN_IN = 10  # in units of the time in which draws forget


@numba.njit(cache=True, nogil=True)
def drawn_weights(log_k, count, times, chains, kept, seed):
    """Posterior draws of w, chain after chain: of the records of each value, and one's share.

    log_k : shape (Z, V). Returns W, shape (S, V), and the share of one record in the weight of all
    that hold its value, shape (S, V). Sweeps: a_r | w, z, then w | a ~ Dirichlet(1 + n). What a
    sweep keeps of the past is at most R / (N + R).
    """
    edges, k = np.empty(log_k.shape), np.empty(log_k.shape)
    for r in range(len(log_k)):
        k[r] = np.exp(log_k[r] - log_k[r].max())
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
