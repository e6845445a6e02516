"""Leaves that records would be in, in trees that have not seen them: only their own path is grown.

A tree for a column on all records depends on the target's value. For each target the path from the
root to its leaf is grown on the records of y_-i alone, by the criterion of CART: the largest
``sum_c S_c^2 / n`` over both sides, S_c the count of level c, or the sum of a number. Levels of a
predictor are ordered by the first principal component of the shares (a number's mean) that they
have, its own level without the target. Rows of Z and of y_-i in that leaf are counted.

Most paths begin alike: targets go down together as long as they split alike. The sums of a node are
of all its records, and each target takes itself out of them.
"""

from typing import NamedTuple

import numba
import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints

FEW = 8  # splits of a node that there is room for at first


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
    P, D, C = X.shape[1], levels.max(), axis.shape[1]
    rows, orders = np.flatnonzero(present), np.empty((P + 1, D), np.int64)  # the last: a target's
    H, count = np.empty((P, D, C)), np.empty((P, D))
    _summed(X, outcome, value, rows, H, count)
    score, held = (H * axis.reshape(P, 1, C)).sum(axis=2), count.copy()
    moved = np.zeros((len(targets), P), np.bool_)  # whose order of levels is not that of all
    for p in range(P):
        orders[p] = _order(score[p], held[p], ordered[p], 0, 0.0, 0)
        if not ordered[p]:
            for u in range(len(targets)):
                i = targets[u]
                off = axis[p, outcome[i]] * value[0, i]
                mine = _order(score[p], held[p], False, X[i, p], off, int(present[i]))
                moved[u, p] = (mine != orders[p]).any()
    left, n_left, squares = np.empty((P + 1, D, C)), np.empty((P + 1, D)), np.empty((P + 1, D, 2))
    mask, best_order = np.empty(D, np.bool_), np.empty(D, np.int64)
    stack = [(rows, np.arange(len(XZ)), np.arange(len(targets)))]
    while len(stack) > 0:
        rows, zs, who = stack.pop()
        pure = _summed(X, outcome, value, rows, H, count)
        total = H[0].sum(axis=0)
        for p in range(P):
            _cumulated(H[p], count[p], orders[p], total, left[p], n_left[p], squares[p])
        child, children = np.full(len(who), -1), 0
        masks, on = np.empty((FEW, D), np.bool_), np.empty((FEW, 2), np.int64)
        for t in range(len(who)):
            i, u = targets[who[t]], who[t]
            own, c, best, at_p, at_rank = int(present[i]), outcome[i], -1.0, -1, 0
            v, inside = own * value[0, i], len(rows) - own
            if inside >= 2 * min_leaf:
                for p in range(P):
                    q, taken = p, 0
                    if moved[u, p]:
                        q, off = P, axis[p, c] * value[0, i]
                        orders[q] = _order(score[p], held[p], False, X[i, p], off, own)
                        _cumulated(H[p], count[p], orders[q], total, left[q], n_left[q], squares[q])
                    for at in range(levels[p] - 1):
                        level = orders[q, at]
                        here = own if level == X[i, p] else 0
                        taken += here
                        if count[p, level] == here:
                            continue
                        a = n_left[q, at] - taken
                        if a < min_leaf or inside - a < min_leaf:
                            continue
                        l, r = left[q, at, c], total[c] - left[q, at, c]
                        of_left = squares[q, at, 0] - l**2 + (l - taken * v) ** 2
                        of_right = squares[q, at, 1] - r**2 + (r - (own - taken) * v) ** 2
                        crit = of_left / a + of_right / (inside - a)
                        if crit > best * (1 + 1e-12):
                            best, at_p, at_rank = crit, p, at
                            best_order[:] = orders[q]
            of_all = (total**2).sum() - total[c] ** 2 + (total[c] - v) ** 2
            if at_p < 0 or of_all / inside >= (pure - own * value[0, i] ** 2) * (1 - 1e-12):
                _counted(rows, zs, i, value[1], of_z, bounds[:, u], k[u], z[:, u])
                continue
            mask[:] = False
            mask[best_order[: at_rank + 1]] = True
            side = int(mask[X[i, at_p]])
            for e in range(children):
                if on[e, 0] == at_p and on[e, 1] == side and (masks[e] == mask).all():
                    child[t] = e
                    break
            if child[t] < 0:
                if children == len(masks):
                    masks, on = np.concatenate((masks, masks)), np.concatenate((on, on))
                child[t], masks[children], on[children] = children, mask, (at_p, side)
                children += 1
        for e in range(children):
            p, side = on[e]
            goes = masks[e]
            its = rows[goes[X[rows, p]] == side], zs[goes[XZ[zs, p]] == side]
            stack.append((its[0], its[1], who[child == e]))


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
def _order(score, held, ordered, level, off, own):
    """Levels of a predictor in their order; of one ``own`` records are left out, with ``off``."""
    place = np.arange(len(score)).astype(np.float64)
    if not ordered:
        for l in range(len(score)):
            out = own if l == level else 0
            there = held[l] - out
            place[l] = (score[l] - out * off) / there if there > 0 else np.inf
    return np.argsort(place, kind="mergesort")


@numba.njit(cache=True, nogil=True)
def _cumulated(H, count, order, total, left, n_left, squares):
    """What lies left of each split of a predictor, and the sums of squares on both sides."""
    n, so_far = 0.0, np.zeros(H.shape[1])
    for at in range(len(order)):
        level = order[at]
        n += count[level]
        of_left = of_right = 0.0
        for c in range(H.shape[1]):
            so_far[c] += H[level, c]
            left[at, c] = so_far[c]
            of_left += so_far[c] ** 2
            of_right += (total[c] - so_far[c]) ** 2
        n_left[at], squares[at, 0], squares[at, 1] = n, of_left, of_right


@numba.njit(cache=True, nogil=True)
def _counted(rows, zs, i, of_y, of_z, bounds, k, z):
    """Rows of a leaf near each guess of record i."""
    N = of_z.shape[1]
    for g in range(k.shape[0]):
        for w in range(k.shape[1]):
            low, high = bounds[0, g, w], bounds[1, g, w]
            for row in rows:
                k[g, w] += row != i and low <= of_y[row] <= high
            for row in zs:
                l = row // N
                z[l, g, w] += low <= of_z[l, row - l * N] <= high
