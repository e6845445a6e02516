"""Trees with a guess in the place of a record's value, and how likely they make the files.

A generator that grows trees grows them on the record's value too: another value gives other leaves,
here and there in the file. So for each record and guess a tree is grown on y_-i and the guess, by
the criterion of CART: the largest ``sum_c S_c^2 / n`` over both sides, S_c the count of level c, or
the sum of a number. Levels of a predictor are ordered by the first principal component of the
shares (a number's mean) that they have, the record's own level with the guess.

Guesses go down together as long as they split alike. What lies beside their way is grown only after
guesses of a record have parted: before, it is the same for all of them.
"""

import math
from typing import NamedTuple

import numba
import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints

SMALL = 0.1  # added to counts: a file may show what a leaf does not hold
SLACK = 4.0  # what a guess adds to the score of one split over another's, of categories, at most
FLOOR = 1e-6  # of the variance in a leaf, of that of all


class Predictors(NamedTuple):
    """Levels X (n, P), Z (m * N, P), number of levels (P,), whether they have an order (P,)."""

    X: Ints
    Z: Ints
    levels: Ints
    ordered: Flags


class Outcome(NamedTuple):
    """What trees are of: kind (n,) and value (n,) of y, the same of Z (m * N,); number of kinds.

    A category is a kind of value 1; a number, less the mean, is a value of the only kind.
    """

    kind: Ints
    value: Array
    kind_Z: Ints
    value_Z: Array
    kinds: int


class PlacedGuesses(NamedTuple):
    """Record, kind and value of each guess (Q,), in the order of records."""

    record: Ints
    kind: Ints
    value: Array


def axes(predictors: Predictors, outcome: Outcome) -> Array:
    """For each predictor, what a kind adds to the score of its level, (P, kinds)."""
    out = np.ones((len(predictors.levels), outcome.kinds))
    for p, d in enumerate(predictors.levels):
        if outcome.kinds > 1 and not predictors.ordered[p]:
            table = np.zeros((d, outcome.kinds))
            np.add.at(table, (predictors.X[:, p], outcome.kind), 1.0)
            weight = table.sum(axis=1)
            shares = table / np.maximum(weight, 1.0)[:, None]
            centred = shares - weight @ shares / weight.sum()
            out[p] = np.linalg.svd(centred * np.sqrt(weight)[:, None], full_matrices=False)[2][0]
    return out


@numba.njit(cache=True, nogil=True)
def trees_with_guesses(predictors, axis, outcome, guesses, min_leaf, near, out):
    """Of each guess: rows k (Q, W) and z (m, Q, W) in its leaf, log likelihood of the files (Q,).

    These are ``out``; the likelihood up to a constant for each record, or without guesses (1,) that
    of y's tree. ``near``: rows of y, and of Z file by file, in the order of what is counted; that
    of y (n,) and of Z (m * N,); numbers from and up to (2, Q, W).
    """
    X, XZ, levels, ordered = predictors
    record, new, put = guesses
    kind, value, m, log_p = outcome[0], outcome[1], len(out[1]), out[2]
    P, D, C, Q = X.shape[1], levels.max(), axis.shape[1], len(record)
    sums, count, crit = np.empty((P, D, C)), np.empty((P, D)), np.empty((P, D))
    left, n_left, square = np.empty((P + 1, D, C)), np.empty((P + 1, D)), np.empty((P + 1, D, 2))
    node = sums, count, crit, left, n_left, square
    orders, ranks = np.empty((P + 1, D), np.int64), np.empty((P, D), np.int64)
    _sum(X, outcome, near[0], node)
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
                off = axis[p, new[q]] * put[q] - axis[p, kind[i]] * value[i]
                _order(score[p], counts[p], orders[p], X[i, p], off, orders[P])
                moved[q, p] = not np.array_equal(orders[P], orders[p])
        for rank in range(D):
            ranks[p, orders[p, rank]] = rank
    by_guess = moved, axis, score, counts, orders, ranks
    floor, none = FLOOR * (value**2).mean(), np.arange(0)
    stack = [(near[0], near[1], np.arange(Q), np.arange(int(Q == 0)))]
    while len(stack) > 0:
        rows, zs, who, add = stack.pop()  # ``add``: whose likelihood it is part of, no more
        if len(who) == 0 and len(zs) == 0:
            continue
        pure, total, best = _splits(predictors, outcome, orders, min_leaf, rows, node)
        if len(who) == 0:
            if best < 0 or (total**2).sum() / len(rows) >= pure * (1 - 1e-12):
                log_p[add] += _log_likelihood(_shown(rows, zs, outcome, m), C, floor)
                continue
            p, at = divmod(crit.argmax(), D)
            for side in (True, False):
                goes = (ranks[p] <= at) == side
                stack.append((_only(rows, X, p, goes), _only(zs, XZ, p, goes), who, add))
            continue
        least = max(best - (SLACK if C > 1 else np.inf), 0.0)  # of what a guess may make the best
        child, children = np.full(len(who), -1), np.int64(0)  # no literal, which compiles anew
        masks, on = np.empty((len(who), D), np.bool_), np.empty(len(who), np.int64)
        for t in range(len(who)):
            q, i = who[t], record[who[t]]
            if len(rows) >= 2 * min_leaf:  # also without splits in the common order of levels
                of = pure, total, len(rows), least
                p, at, o = _chosen(q, predictors, outcome, guesses, min_leaf, of, node, by_guess)
                if p >= 0:
                    child[t] = _group(p, orders[o], at, X[i, p], on, masks, children)
                    children = max(children, child[t] + 1)
            if t and record[who[t - 1]] == i and child[t] != child[t - 1]:
                apart[i] = True
        _leaves(rows, zs, who[child < 0], outcome, guesses, near, floor, out)
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
def _sum(X, outcome, rows, node):
    """Sums (P, D, C) and counts (P, D) of some rows by level; returns their sum of squares."""
    sums, count = node[0], node[1]
    sums[:], count[:], pure = 0.0, 0.0, 0.0
    for r in rows:
        pure += outcome[1][r] ** 2
        for p in range(X.shape[1]):
            sums[p, X[r, p], outcome[0][r]] += outcome[1][r]
            count[p, X[r, p]] += 1
    return pure


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
def _splits(predictors, outcome, orders, min_leaf, rows, node):
    """Sum of squares, sums (C,) and the best score of a node; scores (P, D) are left in it."""
    sums, count, crit, left, n_left, square = node
    n, pure, best = len(rows), _sum(predictors[0], outcome, rows, node), -1.0
    total = sums[0].sum(axis=0)
    crit[:] = -1.0
    for p in range(len(crit)):
        _cumulate(sums[p], count[p], orders[p], total, left[p], n_left[p], square[p])
        for at in range(predictors[2][p] - 1):
            a = n_left[p, at]
            if count[p, orders[p, at]] > 0 and a >= min_leaf and n - a >= min_leaf:
                crit[p, at] = square[p, at, 0] / a + square[p, at, 1] / (n - a)
                best = max(best, crit[p, at])
    return pure, total, best


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
def _chosen(q, predictors, outcome, guesses, min_leaf, of, node, by_guess):
    """The split of largest score with guess q: predictor, place, row of orders; -1: a leaf."""
    X, levels = predictors[0], predictors[2]
    _, count, crit, left, n_left, square = node
    moved, axis, score, counts, orders, ranks = by_guess
    pure, total, n, least = of
    i, g, w, P = guesses[0][q], guesses[1][q], guesses[2][q], len(levels)
    c, v = outcome[0][i], outcome[1][i]
    change = c, g, v, w
    best, at_p, at_rank, at_order = -1.0, -1, 0, 0
    if _square((total**2).sum(), total[c], total[g], change) / n >= (pure - v**2 + w**2) * (
        1 - 1e-12
    ):
        return at_p, at_rank, at_order
    for p in range(P):
        if not moved[q, p]:
            for at in range(levels[p] - 1):
                if crit[p, at] >= least:
                    on_left, a = ranks[p, X[i, p]] <= at, n_left[p, at]
                    found = _score(left[p, at], total, square[p, at], a, n, on_left, change)
                    if found > best * (1 + 1e-12):
                        best, at_p, at_rank, at_order = found, p, at, p
        else:
            off, on_left = axis[p, g] * w - axis[p, c] * v, False
            _order(score[p], counts[p], orders[p], X[i, p], off, orders[P])
            _cumulate(node[0][p], count[p], orders[P], total, left[P], n_left[P], square[P])
            for at in range(levels[p] - 1):
                a, level = n_left[P, at], orders[P, at]
                on_left |= level == X[i, p]
                if count[p, level] > 0 and a >= min_leaf and n - a >= min_leaf:
                    found = _score(left[P, at], total, square[P, at], a, n, on_left, change)
                    if found > best * (1 + 1e-12):
                        best, at_p, at_rank, at_order = found, p, at, P
    if at_order == P:
        off = axis[at_p, g] * w - axis[at_p, c] * v
        _order(score[at_p], counts[at_p], orders[at_p], X[i, at_p], off, orders[P])
    return at_p, at_rank, at_order


@numba.njit(cache=True, nogil=True)
def _square(square, old, new, change):
    """Sum of squares of sums after a change: kind c of value v becomes kind g of value w."""
    c, g, v, w = change
    if c == g:
        return square - old**2 + (old - v + w) ** 2
    return square - old**2 + (old - v) ** 2 - new**2 + (new + w) ** 2


@numba.njit(cache=True, nogil=True)
def _score(left, total, square, a, n, on_left, change):
    """Score of a split with a guess in place; ``a`` of ``n`` rows lie left."""
    c, g = change[0], change[1]
    if on_left:
        return _square(square[0], left[c], left[g], change) / a + square[1] / (n - a)
    of_right = _square(square[1], total[c] - left[c], total[g] - left[g], change)
    return square[0] / a + of_right / (n - a)


@numba.njit(cache=True, nogil=True)
def _shown(rows, zs, outcome, m):
    """Counts (1 + m, C) of y and of files in a leaf; of a number (1 + m, 3): its moments."""
    kind, value, kind_Z, value_Z, C = outcome
    out, N = np.zeros((1 + m, C if C > 1 else 3)), max(len(kind_Z) // m, 1)
    for part in range(2):
        for r in rows if part == 0 else zs:
            l = 0 if part == 0 else 1 + r // N
            if C > 1:
                out[l, kind[r] if part == 0 else kind_Z[r]] += 1.0
            else:
                v = value[r] if part == 0 else value_Z[r]
                out[l, 0] += 1.0
                out[l, 1] += v
                out[l, 2] += v**2
    return out


@numba.njit(cache=True, nogil=True)
def _log_likelihood(shown, C, floor):
    """Of what files show in a leaf: Dirichlet-multinomial, or normal; up to a constant."""
    out, n = 0.0, shown[0].sum() + C * SMALL
    if C == 1:
        n, mean = shown[0, 0], shown[0, 1] / shown[0, 0]
        variance = max(shown[0, 2] / n - mean**2, floor)
    for l in range(1, len(shown)):
        if C == 1:
            N, first, second = shown[l]
            out -= 0.5 * (
                N * math.log(variance) + (second - 2 * mean * first + N * mean**2) / variance
            )
            continue
        out += math.lgamma(n) - math.lgamma(n + shown[l].sum())
        for c in range(C):
            if shown[l, c] > 0:
                a = shown[0, c] + SMALL
                out += math.lgamma(a + shown[l, c]) - math.lgamma(a)
    return out


@numba.njit(cache=True, nogil=True)
def _leaves(rows, zs, who, outcome, guesses, near, floor, out):
    """Likelihood, and rows near each guess, of those whose leaf this is."""
    if len(who) == 0:
        return
    _, _, of_y, of_z, bounds = near
    k, z, log_p = out
    m = len(z)
    shown, C = _shown(rows, zs, outcome, m), outcome[4]
    ends = np.zeros(m + 1, np.int64)
    for l in range(m):
        ends[l + 1] = ends[l] + np.int64(shown[1 + l].sum() if C > 1 else shown[1 + l, 0])
    for q in who:
        i, g, w = guesses[0][q], guesses[1][q], guesses[2][q]
        c, v, own = outcome[0][i], outcome[1][i], shown[0].copy()
        if C > 1:
            shown[0, c] -= 1.0
            shown[0, g] += 1.0
        else:
            shown[0, 1] += w - v
            shown[0, 2] += w**2 - v**2
        log_p[q] += _log_likelihood(shown, C, floor)
        shown[0] = own
        for b in range(k.shape[1]):
            low, high = bounds[0, q, b], bounds[1, q, b]
            k[q, b] = _between(of_y, rows, low, high) - int(low <= of_y[i] <= high)
            for l in range(m):
                z[l, q, b] = _between(of_z, zs[ends[l] : ends[l + 1]], low, high)


@numba.njit(cache=True, nogil=True)
def _between(line, rows, low, high):
    """How many of some rows, in order, have numbers from low up to high."""
    ends = [0, 0]
    for side in range(2):
        a, b = 0, len(rows)
        while a < b:
            middle = (a + b) // 2
            beyond = line[rows[middle]] > high if side else line[rows[middle]] >= low
            a, b = (a, middle) if beyond else (middle + 1, b)
        ends[side] = a
    return ends[1] - ends[0]
