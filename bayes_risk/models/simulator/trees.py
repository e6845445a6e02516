"""Trees with a guess in the place of a record's level, and how likely they make the files.

A generator that grows trees grows them on the record's level too: another one gives other leaves,
here and there in the file. So for each record and guess a tree is grown on y_-i and the guess, by
the criterion of CART: the largest ``sum_c S_c^2 / n`` over both sides, S_c the count of level c.
Levels of a predictor are ordered by the first principal component of the shares that they have,
the record's own level with the guess.

Guesses go down together as long as they split alike. What lies beside their way is grown only after
guesses of a record have parted: before, it is the same for all of them.
"""

import math
from typing import NamedTuple

import numba
import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints

SLACK = 4.0  # what a guess adds to the score of one split over another's, at most


class Predictors(NamedTuple):
    """Levels X (n, P), Z (m * N, P), number of levels (P,), whether they have an order (P,)."""

    X: Ints
    Z: Ints
    levels: Ints
    ordered: Flags


class Outcome(NamedTuple):
    """What trees are of: levels of y (n,) and of Z (m * N,); how many there are; files m."""

    y: Ints
    Z: Ints
    levels: int
    m: int


class PlacedGuesses(NamedTuple):
    """Record and level of each guess (Q,), in the order of records."""

    record: Ints
    level: Ints


def axes(predictors: Predictors, outcome: Outcome) -> Array:
    """For each predictor, what a level of the outcome adds to the score of its own, (P, C)."""
    out = np.ones((len(predictors.levels), outcome.levels))
    for p, d in enumerate(predictors.levels):
        if not predictors.ordered[p]:
            table = np.zeros((d, outcome.levels))
            np.add.at(table, (predictors.X[:, p], outcome.y), 1.0)
            weight = table.sum(axis=1)
            shares = table / np.maximum(weight, 1.0)[:, None]
            centred = shares - weight @ shares / weight.sum()
            out[p] = np.linalg.svd(centred * np.sqrt(weight)[:, None], full_matrices=False)[2][0]
    return out


@numba.njit(cache=True, nogil=True)
def trees_with_guesses(predictors, axis, outcome, guesses, rule, log_p):
    """Log likelihood of the files under the tree of each guess (Q,), into ``log_p``.

    Up to a constant for each record; without guesses (1,) that of y's tree. ``rule``: records in a
    leaf, at least, and the law (two) of what it shows.
    """
    X, XZ, levels, ordered = predictors
    record, new = guesses
    of_y, C = outcome[0], outcome[2]
    min_leaf, added, drawn = rule
    law = added, drawn
    P, D, Q = X.shape[1], levels.max(), len(record)
    sums, count, crit = np.empty((P, D, C)), np.empty((P, D)), np.empty((P, D))
    left, n_left, square = np.empty((P + 1, D, C)), np.empty((P + 1, D)), np.empty((P + 1, D, 2))
    node = sums, count, crit, left, n_left, square
    orders, ranks = np.empty((P + 1, D), np.int64), np.empty((P, D), np.int64)
    everyone = np.arange(len(X))
    _sum(X, of_y, everyone, node)
    score, counts = np.zeros((P, D)), count.copy()
    moved, apart = np.zeros((Q, P), np.bool_), np.zeros(len(X), np.bool_)
    for p in range(P):
        for l in range(D):
            orders[P, l] = orders[p, l] = l
            for c in range(C):
                score[p, l] += sums[p, l, c] * axis[p, c]
        if not ordered[p]:
            _order(score[p], counts[p], orders[P], 0, 0.0, orders[p])
            for q in range(Q):
                i = record[q]
                off = axis[p, new[q]] - axis[p, of_y[i]]
                _order(score[p], counts[p], orders[p], X[i, p], off, orders[P])
                moved[q, p] = not np.array_equal(orders[P], orders[p])
        for rank in range(D):
            ranks[p, orders[p, rank]] = rank
    by_guess = moved, axis, score, counts, orders, ranks
    none = np.arange(0)
    stack = [(everyone, np.arange(len(XZ)), np.arange(Q), np.arange(int(Q == 0)))]
    while len(stack) > 0:
        rows, zs, who, add = stack.pop()  # ``add``: whose likelihood it is part of, no more
        if len(who) == 0 and len(zs) == 0:
            continue
        total, best = _splits(predictors, of_y, orders, min_leaf, rows, node)
        if len(who) == 0:
            if best < 0 or total.max() == len(rows):
                log_p[add] += _log_likelihood(_shown(rows, zs, outcome), law)
                continue
            p, at = divmod(crit.argmax(), D)
            for side in (True, False):
                goes = (ranks[p] <= at) == side
                stack.append((_only(rows, X, p, goes), _only(zs, XZ, p, goes), who, add))
            continue
        least = max(best - SLACK, 0.0)  # of what a guess may make the best
        child, children = np.full(len(who), -1), np.int64(0)  # no literal, which compiles anew
        masks, on = np.empty((len(who), D), np.bool_), np.empty(len(who), np.int64)
        for t in range(len(who)):
            q, i = who[t], record[who[t]]
            if len(rows) >= 2 * min_leaf:  # also without splits in the common order of levels
                of = total, len(rows), least
                p, at, o = _chosen(q, predictors, of_y, guesses, min_leaf, of, node, by_guess)
                if p >= 0:
                    child[t] = _group(p, orders[o], at, X[i, p], on, masks, children)
                    children = max(children, child[t] + 1)
            if t and record[who[t - 1]] == i and child[t] != child[t - 1]:
                apart[i] = True
        leaves = who[child < 0]
        shown = _shown(rows, zs, outcome) if len(leaves) else np.empty((0, C))
        for q in leaves:
            shown[0, of_y[record[q]]] -= 1.0
            shown[0, new[q]] += 1.0
            log_p[q] += _log_likelihood(shown, law)
            shown[0, new[q]] -= 1.0
            shown[0, of_y[record[q]]] += 1.0
        for e in range(children):
            its, p, parted = who[child == e], on[e], False
            for q in its:
                parted |= apart[record[q]]
            goes = masks[e]
            stack.append((_only(rows, X, p, goes), _only(zs, XZ, p, goes), its, none))
            if parted:
                stack.append((_only(rows, X, p, ~goes), _only(zs, XZ, p, ~goes), none, its))


@numba.njit(cache=True, nogil=True)
def _only(rows, X, p, goes):
    """Rows whose level of a predictor is one of some."""
    out, n = np.empty(len(rows), np.int64), 0
    for r in rows:
        out[n] = r
        n += goes[X[r, p]]
    return out[:n].copy()


@numba.njit(cache=True, nogil=True)
def _group(p, order, at, level, on, masks, groups):
    """Number of those that split by a predictor and go with the same levels; new, or one before."""
    own = masks[groups]
    own[:] = False
    for rank in range(len(order)):
        own[order[rank]] = rank <= at
    if not own[level]:
        own[:] = ~own
    on[groups], e = p, 0
    while on[e] != p or not np.array_equal(masks[e], own):
        e += 1
    return e


@numba.njit(cache=True, nogil=True)
def _sum(X, of_y, rows, node):
    """Counts of some rows by level and outcome (P, D, C), and by level (P, D)."""
    sums, count = node[0], node[1]
    sums[:], count[:] = 0.0, 0.0
    for r in rows:
        for p in range(X.shape[1]):
            sums[p, X[r, p], of_y[r]] += 1.0
            count[p, X[r, p]] += 1.0


@numba.njit(cache=True, nogil=True)
def _order(score, counts, start, level, off, out):
    """Levels of a predictor by their mean scores, one with ``off``; those of nobody last."""
    for at in range(len(start)):
        l, to = start[at], at
        mine = (score[l] + (off if l == level else 0.0)) / counts[l] if counts[l] > 0 else np.inf
        while to > 0:
            b = out[to - 1]
            its = (score[b] + (off if b == level else 0.0)) / counts[b] if counts[b] > 0 else np.inf
            if its < mine or (its == mine and b < l):
                break
            out[to] = b
            to -= 1
        out[to] = l


@numba.njit(cache=True, nogil=True)
def _splits(predictors, of_y, orders, min_leaf, rows, node):
    """Counts (C,) and the best score of a node; scores (P, D) are left in it."""
    sums, count, crit, left, n_left, square = node
    n, best = len(rows), -1.0
    _sum(predictors[0], of_y, rows, node)
    total = sums[0].sum(axis=0)
    crit[:] = -1.0
    for p in range(len(crit)):
        _cumulate(sums[p], count[p], orders[p], total, left[p], n_left[p], square[p])
        for at in range(predictors[2][p] - 1):
            a = n_left[p, at]
            if count[p, orders[p, at]] > 0 and a >= min_leaf and n - a >= min_leaf:
                crit[p, at] = square[p, at, 0] / a + square[p, at, 1] / (n - a)
                best = max(best, crit[p, at])
    return total, best


@numba.njit(cache=True, nogil=True)
def _cumulate(sums, count, order, total, left, n_left, square):
    """What lies left of each split of a predictor, and the sums of squares on both sides."""
    n, so_far = 0.0, np.zeros(len(total))
    for at in range(len(order)):
        n += count[order[at]]
        of_left = of_right = 0.0
        for c in range(len(total)):
            so_far[c] += sums[order[at], c]
            left[at, c] = so_far[c]
            of_left += so_far[c] ** 2
            of_right += (total[c] - so_far[c]) ** 2
        n_left[at], square[at, 0], square[at, 1] = n, of_left, of_right


@numba.njit(cache=True, nogil=True)
def _chosen(q, predictors, of_y, guesses, min_leaf, of, node, by_guess):
    """The split of largest score with guess q: predictor, place, row of orders; -1: a leaf."""
    X, levels = predictors[0], predictors[2]
    _, count, crit, left, n_left, square = node
    moved, axis, score, counts, orders, ranks = by_guess
    total, n, least = of
    i, g, P = guesses[0][q], guesses[1][q], len(levels)
    c = of_y[i]
    best, at_p, at_rank, at_order = -1.0, -1, 0, 0
    if total[g] + (c != g) == n:  # all have one level
        return at_p, at_rank, at_order
    for p in range(P):
        if not moved[q, p]:
            for at in range(levels[p] - 1):
                if crit[p, at] >= least:
                    on_left, a = ranks[p, X[i, p]] <= at, n_left[p, at]
                    found = _score(left[p, at], total, square[p, at], a, n, on_left, c, g)
                    if found > best * (1 + 1e-12):
                        best, at_p, at_rank, at_order = found, p, at, p
        else:
            off, on_left = axis[p, g] - axis[p, c], False
            _order(score[p], counts[p], orders[p], X[i, p], off, orders[P])
            _cumulate(node[0][p], count[p], orders[P], total, left[P], n_left[P], square[P])
            for at in range(levels[p] - 1):
                a, level = n_left[P, at], orders[P, at]
                on_left |= level == X[i, p]
                if count[p, level] > 0 and a >= min_leaf and n - a >= min_leaf:
                    found = _score(left[P, at], total, square[P, at], a, n, on_left, c, g)
                    if found > best * (1 + 1e-12):
                        best, at_p, at_rank, at_order = found, p, at, P
    if at_order == P:
        off = axis[at_p, g] - axis[at_p, c]
        _order(score[at_p], counts[at_p], orders[at_p], X[i, at_p], off, orders[P])
    return at_p, at_rank, at_order


@numba.njit(cache=True, nogil=True)
def _score(left, total, square, a, n, on_left, c, g):
    """Score of a split if one of level c has g, and lies left or right; ``a`` of ``n`` lie left."""
    of_left, of_right = square
    if c != g and on_left:  # of the squares (S_c - 1)^2 + (S_g + 1)^2
        of_left += 2.0 * (left[g] - left[c] + 1.0)
    elif c != g:
        of_right += 2.0 * (total[g] - left[g] - total[c] + left[c] + 1.0)
    return of_left / a + of_right / (n - a)


@numba.njit(cache=True, nogil=True)
def _shown(rows, zs, outcome):
    """Counts (1 + m, C) of y and of files in a leaf."""
    of_y, of_Z, C, m = outcome
    out, N = np.zeros((1 + m, C)), max(len(of_Z) // m, 1)
    for r in rows:
        out[0, of_y[r]] += 1.0
    for r in zs:
        out[1 + r // N, of_Z[r]] += 1.0
    return out


@numba.njit(cache=True, nogil=True)
def _log_likelihood(shown, law):
    """Of what files show in a leaf, under the law."""
    added, drawn = law
    out, n = 0.0, shown[0].sum() + shown.shape[1] * added
    for l in range(1, len(shown)):
        N = shown[l].sum()
        out += math.lgamma(n) - math.lgamma(n + N) if drawn else -N * math.log(n)
        for c in range(shown.shape[1]):
            a, z = shown[0, c] + added, shown[l, c]
            if z > 0:
                out += math.lgamma(a + z) - math.lgamma(a) if drawn else z * math.log(a)
    return out
