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

NODES = 256  # that are kept of all paths
LARGEST = 2**22  # numbers that are kept for them
APART = -2  # a node that is not kept


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
def leaf_members(
    predictors, axis, outcome, value, targets, present, min_leaf, k, z, bounds, of_z, most=NODES
):
    """Counts k (U, G, W) of y_-i and z (m, U, G, W) of Z in the leaf of each target.

    ``bounds`` (2, U, G, W): numbers from and up to, ``of_z`` (m, N): of Z; those of y come last in
    the row of ``value``: (2, n), what the tree is grown on, and what is counted. Most paths begin
    alike: rows and sums of the first ``most`` nodes are kept, all records counted, and each target
    takes itself out.
    """
    X, XZ, levels, ordered = predictors
    n, P = X.shape
    C, D, m, N = axis.shape[1], levels.max(), of_z.shape[0], of_z.shape[1]
    most, used = min(most, LARGEST // (n + m * N + P * D * C) + 1), 0
    parent, split, side = np.full((3, most), -1)
    masks, sums = np.zeros((most, D), np.bool_), np.empty((most, P, D, C))
    held, pures = np.empty((most, P, D)), np.empty(most)
    rows_of, z_of = np.empty((most, n), np.int64), np.empty((most, m * N), np.int64)
    sizes = np.zeros((2, most), np.int64)
    own_rows, own_z = np.empty(n, np.int64), np.empty(m * N, np.int64)
    every_row, every_z = np.flatnonzero(present), np.arange(m * N)
    total, there = np.zeros((P, D, C)), np.zeros((P, D))
    pure_of_all = _summed(X, outcome, value, every_row, total, there)
    score = np.zeros((P, D))
    for i in every_row:
        for p in range(P):
            score[p, X[i, p]] += axis[p, outcome[i]] * value[0, i]
    H, count, order = np.empty_like(total), np.empty_like(there), np.empty((P, D), np.int64)
    left, every, mask = np.empty(C), np.empty(C), np.zeros(D, np.bool_)
    for u in range(len(targets)):
        i, own = targets[u], int(present[targets[u]])
        rows, zs, node, pure = every_row, every_z, -1, pure_of_all
        H[:], count[:] = total, there
        _take_out(X, outcome, value, i, own, H, count)
        _ordered(axis, outcome, value, predictors, i, own, score, count, order)
        while len(rows) - own >= 2 * min_leaf:
            inside = len(rows) - own
            every[:] = 0.0
            for level in range(levels[0]):
                every += H[0, level]
            best, at_p, at_rank = -1.0, -1, 0
            for p in range(P):
                left[:], n_left = 0.0, 0.0
                for at in range(levels[p] - 1):
                    level = order[p, at]
                    if count[p, level] == 0:
                        continue
                    n_left += count[p, level]
                    of_left = of_right = 0.0
                    for c in range(C):
                        left[c] += H[p, level, c]
                        of_left += left[c] ** 2
                        of_right += (every[c] - left[c]) ** 2
                    if n_left >= min_leaf and inside - n_left >= min_leaf:
                        crit = of_left / n_left + of_right / (inside - n_left)
                        if crit > best * (1 + 1e-12):
                            best, at_p, at_rank = crit, p, at
            if at_p < 0:
                break
            if (every**2).sum() / inside >= (pure - own * value[0, i] ** 2) * (1 - 1e-12):
                break
            d = levels[at_p]
            mask[:d] = False
            mask[order[at_p, : at_rank + 1]] = True
            goes_left = int(mask[X[i, at_p]])
            child = -1
            for e in range(used):
                if parent[e] == node and split[e] == at_p and side[e] == goes_left:
                    if np.array_equal(masks[e, :d], mask[:d]):
                        child = e
                        break
            if child >= 0:
                rows, zs = rows_of[child, : sizes[0, child]], z_of[child, : sizes[1, child]]
                H[:], count[:], pure = sums[child], held[child], pures[child]
                node = child
            else:
                keep = node != APART and used < most
                here, here_z = (rows_of[used], z_of[used]) if keep else (own_rows, own_z)
                rows = here[: _on_side(X[:, at_p], rows, mask, goes_left, here)]
                zs = here_z[: _on_side(XZ[:, at_p], zs, mask, goes_left, here_z)]
                pure = _summed(X, outcome, value, rows, H, count)
                if keep:
                    parent[used], split[used], side[used] = node, at_p, goes_left
                    masks[used, :d], sums[used], held[used] = mask[:d], H, count
                    pures[used], sizes[0, used], sizes[1, used] = pure, len(rows), len(zs)
                    node, used = used, used + 1
                else:
                    node = APART
            _take_out(X, outcome, value, i, own, H, count)
        for g in range(k.shape[1]):
            for w in range(k.shape[2]):
                low, high = bounds[0, u, g, w], bounds[1, u, g, w]
                for row in rows:
                    k[u, g, w] += row != i and low <= value[1, row] <= high
                for row in zs:
                    l = row // N
                    z[l, u, g, w] += low <= of_z[l, row - l * N] <= high


@numba.njit(cache=True, nogil=True)
def _summed(X, outcome, value, rows, H, count):
    """Sums H (P, D, C) and counts (P, D) of some rows by level; returns their sum of squares."""
    H[:], count[:], pure = 0.0, 0.0, 0.0
    for r in rows:
        pure += value[0, r] ** 2
        for p in range(X.shape[1]):
            H[p, X[r, p], outcome[r]] += value[0, r]
            count[p, X[r, p]] += 1
    return pure


@numba.njit(cache=True, nogil=True)
def _take_out(X, outcome, value, i, own, H, count):
    """The sums without a record, if it is among them."""
    for p in range(X.shape[1]):
        H[p, X[i, p], outcome[i]] -= own * value[0, i]
        count[p, X[i, p]] -= own


@numba.njit(cache=True, nogil=True)
def _ordered(axis, outcome, value, predictors, i, own, score, count, order):
    """Levels of each predictor in their order, without a record."""
    X, _, levels, ordered = predictors
    for p in range(X.shape[1]):
        place = np.arange(levels[p]).astype(np.float64)
        if not ordered[p]:
            for level in range(levels[p]):
                off = own * axis[p, outcome[i]] * value[0, i] if level == X[i, p] else 0.0
                there = count[p, level]
                place[level] = (score[p, level] - off) / there if there > 0 else np.inf
        order[p, : levels[p]] = np.argsort(place, kind="mergesort")


@numba.njit(cache=True, nogil=True)
def _on_side(level, rows, mask, goes_left, out):
    """Rows whose level is on a side of a split, into ``out``, which may be theirs; how many."""
    kept = 0
    for row in rows:
        if mask[level[row]] == goes_left:
            out[kept] = row
            kept += 1
    return kept
