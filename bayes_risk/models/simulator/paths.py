"""Leaves that records would be in, in trees that have not seen them: only their own path is grown.

A tree for a column on all records depends on the target's value. For each target the path from the
root to its leaf is grown on the records of y_-i alone, by the criterion of CART: the largest
``sum_c S_c^2 / n`` over both sides, S_c the count of level c, or the sum of a number. Levels of a
predictor are ordered by the first principal component of the shares (a number's mean) that they
have, its own level without the target. Rows of Z and of y_-i in that leaf are counted.
"""

from typing import NamedTuple

import numba
import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints


class Predictors(NamedTuple):
    """Levels X (n, P), Z (N', P), number of levels (P,), whether they have an order (P,)."""

    X: Ints
    Z: Ints
    levels: Ints
    ordered: Flags


def axes(predictors: Predictors, outcome: Ints, value: Array, kinds: int) -> Array:
    """For each predictor, what an outcome adds to the score of its level, (P, kinds)."""
    out = np.ones((len(predictors.levels), kinds))
    for p, d in enumerate(predictors.levels):
        if kinds > 1 and not predictors.ordered[p]:
            table = np.zeros((d, kinds))
            np.add.at(table, (predictors.X[:, p], outcome), value)
            weight = table.sum(axis=1)
            shares = table / np.maximum(weight, 1.0)[:, None]
            centred = shares - weight @ shares / weight.sum()
            out[p] = np.linalg.svd(centred * np.sqrt(weight)[:, None], full_matrices=False)[2][0]
    return out


@numba.njit(cache=True, nogil=True)
def leaf_members(predictors, axis, outcome, value, targets, present, min_leaf, k, z, bounds, of_z):
    """Counts k (U, G, W) of y_-i and z (m, U, G, W) of Z in the leaf of each target.

    ``bounds`` (2, U, G, W): numbers from and up to, ``of_z`` (m, N): of Z; those of y come last in
    the row of ``value``: (2, n), what the tree is grown on, and what is counted.
    """
    X, XZ, levels, ordered = predictors
    n, P = X.shape
    C, D, m, N = axis.shape[1], levels.max(), of_z.shape[0], of_z.shape[1]
    total = np.zeros((P, D, C))
    held = np.zeros((P, D))
    score = np.zeros((P, D))
    for i in range(n):
        if present[i]:
            for p in range(P):
                total[p, X[i, p], outcome[i]] += value[0, i]
                held[p, X[i, p]] += 1
                score[p, X[i, p]] += axis[p, outcome[i]] * value[0, i]
    H, count, rank = np.empty_like(total), np.empty_like(held), np.empty((P, D), np.int64)
    mine, zs = np.empty(n, np.int64), np.empty(m * N, np.int64)
    left, every = np.empty(C), np.empty(C)
    for u in range(len(targets)):
        i = targets[u]
        inside = 0
        for row in range(n):
            if present[row] and row != i:
                mine[inside] = row
                inside += 1
        n_z = m * N
        for row in range(n_z):
            zs[row] = row
        H[:], count[:] = total, held
        own = 1.0 if present[i] else 0.0
        for p in range(P):
            H[p, X[i, p], outcome[i]] -= own * value[0, i]
            count[p, X[i, p]] -= own
            place = np.arange(levels[p]).astype(np.float64)
            if not ordered[p]:
                for level in range(levels[p]):
                    off = own * axis[p, outcome[i]] * value[0, i] if level == X[i, p] else 0.0
                    there = count[p, level]
                    place[level] = (score[p, level] - off) / there if there > 0 else np.inf
            order = np.argsort(place, kind="mergesort")
            for at in range(levels[p]):
                rank[p, order[at]] = at
        while inside >= 2 * min_leaf:
            best, at_p, at_rank = -1.0, -1, 0
            for p in range(P):
                d = levels[p]
                order = np.empty(d, np.int64)
                for level in range(d):
                    order[rank[p, level]] = level
                every[:] = 0.0
                for level in range(d):
                    every += H[p, level]
                left[:], n_left = 0.0, 0.0
                for at in range(d - 1):
                    level = order[at]
                    if count[p, level] == 0:
                        continue
                    left += H[p, level]
                    n_left += count[p, level]
                    if n_left < min_leaf or inside - n_left < min_leaf:
                        continue
                    crit = 0.0
                    for c in range(C):
                        crit += left[c] ** 2 / n_left
                        crit += (every[c] - left[c]) ** 2 / (inside - n_left)
                    if crit > best * (1 + 1e-12):
                        best, at_p, at_rank = crit, p, at
            if at_p < 0:
                break
            pure = 0.0
            for row in range(inside):
                pure += value[0, mine[row]] ** 2
            if (every**2).sum() / inside >= pure * (1 - 1e-12):
                break
            goes_left = rank[at_p, X[i, at_p]] <= at_rank
            H[:], count[:], kept = 0.0, 0.0, 0
            for row in range(inside):
                r = mine[row]
                if (rank[at_p, X[r, at_p]] <= at_rank) == goes_left:
                    mine[kept] = r
                    kept += 1
                    for p in range(P):
                        H[p, X[r, p], outcome[r]] += value[0, r]
                        count[p, X[r, p]] += 1
            inside, kept = kept, 0
            for row in range(n_z):
                if (rank[at_p, XZ[zs[row], at_p]] <= at_rank) == goes_left:
                    zs[kept] = zs[row]
                    kept += 1
            n_z = kept
        for g in range(k.shape[1]):
            for w in range(k.shape[2]):
                low, high = bounds[0, u, g, w], bounds[1, u, g, w]
                for row in range(inside):
                    k[u, g, w] += low <= value[1, mine[row]] <= high
                for row in range(n_z):
                    l = zs[row] // N
                    z[l, u, g, w] += low <= of_z[l, zs[row] - l * N] <= high
