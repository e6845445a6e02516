"""Compiled loops of the collapsed predictive: counts from draws, masses of targets and guesses.

``tables`` are `LevelTables`, ``Q`` and ``tau`` those of a draw, ``targets`` `LevelTargets`,
``guesses`` `LevelGuesses`; ``terms[K]`` mass of the target's values class by class. The target's
own class ``k0`` is reckoned apart, with what the data hold of the target taken out: ``data`` of its
own values and ``linked`` of its synthetic ones; ``k0 = K`` means that there is nothing to take out.
Loops index whole arrays instead of passing slices: a slice costs a reference count, and threads
share it.

A guess that changes two variables has, class by class, the truth's mass times two ratios, so all
such guesses of a target are the entries of ``V diag(terms) V'``, with ``V[level, k]`` the ratio of
a changed level to the true one: a small symmetric product for each target and draw, added up over
the draws of a batch before any guess is looked up. Guesses with more changes share the product of
their first ones with the guess before. The target's own class is one of the columns, with the
target taken out.

Of a whole table a *term* is a draw and a class in it, the target's own one a term like any other;
classes that nobody is in are all alike and make one term. ``factor[place, t]`` is the probability
of a level in term t, the target taken out of its own class; ``log_base[t]`` what is the same for
every cell: the weight of the class, and the variables that are not guessed.
"""

import math

import numba
import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints

from .kernel_arguments import LevelTables, LevelTargets, WideLayout, WidePlaces
from .sweep import RESCALE_EVERY, TINY

LEAST = 1e-30  # probability of a level in single precision


@numba.njit(cache=True, nogil=True, error_model="numpy")
def own_class(Q, tau, fixed, j, y, z, k0, level):
    """F(level) in the target's own class, its y (-1: none held) and linked z taken out first."""
    if fixed[j]:
        return Q[level, k0] * (Q[z, k0] if z >= 0 else 1.0)
    left = tau[j, k0] - (y >= 0) - (z >= 0)
    here = (Q[level, k0] * tau[j, k0] - (level == y) - (level == z)) / left
    if z < 0:
        return here
    at_z = Q[z, k0] * tau[j, k0] - (z == y) - 1.0
    return here * (at_z + (level == z)) / (left + 1.0)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def linked_factor(Q, tau, fixed, j, z, same, k):
    """Probability of the linked level z after another value in class k (same: equal to z)."""
    if fixed[j]:
        return Q[z, k]
    return (Q[z, k] * tau[j, k] + same) / (tau[j, k] + 1.0)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def truth_terms(Q, tau, fixed, values, linked, data, u, k0, base, terms):
    """Mass of a target's values (-1: not told) by class, 0 in its own; of that; log scale."""
    K = terms.shape[0]
    scale, own = 0.0, base[k0, k0] if k0 < K else 0.0
    for k in range(K):
        terms[k] = base[k0, k]
    for j in range(values.shape[1]):
        y, z = values[u, j], linked[u, j]
        if y >= 0:
            for k in range(K):
                terms[k] *= Q[y, k]
            if k0 < K:
                own *= own_class(Q, tau, fixed, j, data[u, j], z, k0, y)
        if z >= 0:
            for k in range(K):
                terms[k] *= linked_factor(Q, tau, fixed, j, z, y == z, k) if y >= 0 else Q[z, k]
            if k0 < K and y < 0:
                own *= own_class(Q, tau, fixed, j, z, -1, k0, z)
        if j % RESCALE_EVERY == RESCALE_EVERY - 1:
            top = max(own, TINY)
            for k in range(K):
                top = max(top, terms[k])
            scale += math.log(top)
            own /= top
            for k in range(K):
                terms[k] /= top
    if k0 < K:
        terms[k0] = 0.0
    return own, scale


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def guess_masses(
    Q, inverse, tau, layout, targets, guesses, u, k0, own, total, terms, W, own_level, product, v,
    out,
):  # fmt: skip
    """Add v times the mass of every guess to out[u].

    ``W[j, 0]``: terms over the factor of the true level of guessed variable j, ``W[j, 1]``: the
    same where a guess changes the factor of the linked level.
    """
    fixed, columns, truth, linked = layout.fixed, layout.columns, targets.truth, targets.linked
    data, levels, K = targets.data, guesses.levels, terms.shape[0]
    for j in range(columns.shape[0]):
        c = columns[j]
        y, z = truth[u, c], linked[u, c]
        for k in range(K):
            W[j, 0, k] = terms[k] * inverse[y, k]
        if z >= 0:
            for k in range(K):
                then = linked_factor(Q, tau, fixed, c, z, y != z, k)
                W[j, 1, k] = W[j, 0, k] * then / linked_factor(Q, tau, fixed, c, z, y == z, k)
        if k0 < K:
            own_level[j] = 1.0 / own_class(Q, tau, fixed, c, data[u, c], z, k0, y)
    for g in range(levels.shape[1]):
        mass = 0.0
        if guesses.changes[u, g] == 0:
            mass = total
        elif guesses.changes[u, g] == 1:
            j = guesses.first[u, g]
            c, r = columns[j], levels[u, g, j]
            y, z = truth[u, c], linked[u, c]
            e = int(z >= 0 and (r == z) != (y == z))
            for k in range(K):
                mass += W[j, e, k] * Q[r, k]
            if k0 < K:
                mass += own * own_class(Q, tau, fixed, c, data[u, c], z, k0, r) * own_level[j]
        else:
            for k in range(K):
                product[k] = terms[k]
            mine = own if k0 < K else 0.0
            for j in range(columns.shape[0]):
                c, r = columns[j], levels[u, g, j]
                y, z = truth[u, c], linked[u, c]
                if r == y:
                    continue
                e = int(z >= 0 and (r == z) != (y == z))
                for k in range(K):
                    if terms[k] > 0.0:
                        product[k] *= Q[r, k] * W[j, e, k] / terms[k]
                if k0 < K:
                    mine *= own_class(Q, tau, fixed, c, data[u, c], z, k0, r) * own_level[j]
            for k in range(K):
                mass += product[k]
            mass += mine
        out[u, g] += v * mass


@numba.njit(cache=True, nogil=True, error_model="numpy")
def predict(tables, layout, targets, guesses, weights, batch, log_truth, sums):
    """Fill log p_h(y_i) (H, U), or with guesses add p_h(y*) / p_h(y_i) to sums (B, U, G)."""
    fixed, truth, data, given_z = layout.fixed, targets.truth, targets.data, targets.given_linked
    H, D, K = tables.Q.shape
    U, G, q = truth.shape[0], guesses.levels.shape[1], layout.columns.shape[0]
    inverse = np.empty((D, K))
    terms, product = np.empty(K), np.empty(K)
    W, own_level = np.empty((q, 2, K)), np.ones(q)
    given = np.zeros(U, np.bool_)
    for u in range(U):
        given[u] = (targets.given[u] >= 0).any() or (given_z[u] >= 0).any()
    for h in range(H):
        Q, tau, base, out = tables.Q[h], tables.tau[h], tables.weights[h], sums[batch[h]]
        for row in range(Q.shape[0] if G > 0 else 0):
            for k in range(K):
                inverse[row, k] = 1.0 / max(Q[row, k], TINY)
        for u in range(U):
            k0 = targets.label[h, u]
            own, scale = truth_terms(Q, tau, fixed, truth, targets.linked, data, u, k0, base, terms)
            total = max(own + terms.sum(), TINY)
            if G == 0:
                log_truth[h, u] = math.log(total) + scale
                if given[u]:
                    own, scale = truth_terms(
                        Q, tau, fixed, targets.given, given_z, data, u, k0, base, product
                    )
                    log_truth[h, u] -= math.log(max(own + product.sum(), TINY)) + scale
            else:
                guess_masses(
                    Q, inverse, tau, layout, targets, guesses, u, k0, own, total, terms, W,
                    own_level, product, weights[h, u] / total, out,
                )  # fmt: skip


ABREAST = 16  # draws whose classes, and targets whose masses, stand side by side


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp"})
def predict_one_change(tables, layout, targets, places, weights, batch, log_truth, sums):
    """As `predict`, of guesses that change one variable: matrix products in single precision.

    Class by class a guess has the truth's mass times Q[level] / Q[true level]. No term is negative:
    a sum is right to N 2^-24 of itself, N = 16 K + 8 (Higham 2002, section 3.1). ``places (U, G)``:
    row of phi of the changed level, the last one where nothing changes.
    """
    all_Q, all_tau, weights_of = tables.Q, tables.tau, tables.weights
    fixed, columns, starts = layout.fixed, layout.columns, layout.starts
    label, truth = targets.label, targets.truth
    (H, D, K), (U, p), X = all_Q.shape, truth.shape, ABREAST * (all_Q.shape[2] + 8)
    single, with_guesses, nobody = np.float32, weights.shape[0] > 0, np.uint64(X - 1)
    P, tau, base, masses = np.ones((D, X)), np.ones((p, X)), np.ones((K + 1, X)), np.zeros((U, D))
    own, product, logs, scale = np.zeros((D, X)), np.ones((p + 1, X)), np.zeros(D), np.zeros(p + 1)
    Q, inverse, gain = np.zeros((D, X), single), np.zeros((D, X), single), np.zeros((D, X), single)
    share, at, first = np.zeros((ABREAST, X), single), np.zeros(ABREAST + 1, np.uint64), 0
    mine, own_x = np.zeros((ABREAST, ABREAST), single), np.zeros((ABREAST, ABREAST), np.uint64)
    while first < H:
        last, X = first, 0
        P[:], base[:] = LEAST, 0.0
        while last < H and last < first + ABREAST and batch[last] == batch[first]:
            size = K
            while size > 1 and weights_of[last, K, size - 1] == 0.0:
                size -= 1
            for r in range(D):
                for k in range(size):
                    P[r, X + k] = all_Q[last, r, k]
            for j in range(p):
                for k in range(size):
                    tau[j, X + k] = all_tau[last, j, k]
            for l in range(K + 1):
                for k in range(size):
                    base[l, X + k] = 0.0 if l == k else weights_of[last, l, k]
            X += (size + 7) // 8 * 8  # whole vectors: the last places have weight zero
            last += 1
            at[last - first] = X
        for j in range(p):
            for r in range(starts[j], starts[j + 1]):
                mean = 0.0
                for x in range(X):
                    mean += P[r, x] / X
                logs[r] = math.log(mean)
                for x in range(X):
                    y, t = P[r, x], tau[j, x]
                    left = y if fixed[j] else max(y - 1.0 / t, TINY)
                    P[r, x], Q[r, x], inverse[r, x] = y / mean, y, 1.0 / y
                    own[r, x] = (left if fixed[j] else left * t / (t - 1.0)) / mean
                    gain[r, x] = y / left if left > LEAST else 1.0
        for begin in range(0, U, ABREAST):
            end = min(begin + ABREAST, U)
            for u in range(begin, end):
                same, v = 0, u - begin
                while u > 0 and same < p and truth[u, same] == truth[u - 1, same]:
                    same += 1
                for j in range(same, p):
                    y = truth[u, j]
                    scale[j + 1] = scale[j] + logs[y]
                    for x in range(X):
                        product[j + 1, x] = product[j, x] * P[y, x]
                for h in range(first, last):
                    i, k0, x0, one = h - first, label[h, u], nobody, 0.0
                    if k0 < K:
                        x0, one = at[i] + np.uint64(k0), weights_of[h, k0, k0]
                    for j in range(p):
                        one *= own[truth[u, j], x0]
                    total = one
                    for x in range(at[i], at[i + 1]):
                        total += product[p, x] * base[k0, x]
                    if not with_guesses:
                        log_truth[h, u] = math.log(max(total, TINY)) + scale[p]
                        continue
                    factor = weights[h, u] / max(total, TINY)
                    for x in range(at[i], at[i + 1]):
                        share[v, x] = product[p, x] * base[k0, x] * factor
                    own_x[v, i], mine[v, i] = x0, one * factor
                    masses[u, D - 1] += weights[h, u]
            for c in columns if with_guesses else columns[:0]:
                for v in range(end - begin):
                    for i in range(last - first):
                        share[v, own_x[v, i]] = mine[v, i] * gain[truth[begin + v, c], own_x[v, i]]
                for u in range(begin, end):
                    v, y, stop = u - begin, truth[u, c], starts[c + 1]
                    for r in range(starts[c], stop - 1, 3):  # three at a time, or one
                        level, other = r + (r >= y), r + 1 + (r + 1 >= y) if r + 2 < stop else y
                        third = r + 2 + (r + 2 >= y) if r + 3 < stop else y
                        s = t = w = single(0.0)
                        if r + 2 < stop:
                            for x in range(X):
                                here = share[v, x] * inverse[y, x]
                                s += here * Q[level, x]
                                t += here * Q[other, x]
                                w += here * Q[third, x]
                        else:
                            for x in range(X):
                                s += share[v, x] * inverse[y, x] * Q[level, x]
                        masses[u, level] += s
                        masses[u, other] += t
                        masses[u, third] += w
        if with_guesses and (last == H or batch[last] != batch[first]):
            for u in range(U):
                for g in range(places.shape[1]):
                    sums[batch[first], u, g] += masses[u, places[u, g]]
            masses[:] = 0.0
        first = last


CHUNK = 8  # draws whose levels are held side by side
STRIP = 16  # places that are added side by side


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_ratios(Q, tau, layout, targets, u, k0, levels, inverse, V):
    """V[k, place] = what changing to a level multiplies the truth's mass by in class k."""
    K, fixed, low, offset = Q.shape[1], layout.fixed, layout.low, layout.offset
    truth, linked, data = targets.truth, targets.linked, targets.data
    for j in range(layout.columns.shape[0]):
        c = layout.columns[j]
        y, z = truth[u, c], linked[u, c]
        shift, end = low[j] - offset[j], offset[j + 1]
        first, last = np.uint64(offset[j]), np.uint64(end)
        above = np.uint64(low[j]) - first
        for k in range(K):
            one = inverse[k, y]
            for place in range(first, last):
                V[k, place] = levels[k, place + above] * one
        if z >= 0:
            for k in range(K):
                now = linked_factor(Q, tau, fixed, c, z, y == z, k)
                then = linked_factor(Q, tau, fixed, c, z, y != z, k)
                for place in range(offset[j], end):
                    level = place + shift
                    if (level == z) != (y == z):
                        V[k, place] = Q[level, k] * inverse[k, y] * then / now
        if k0 < K:
            one = 1.0 / max(own_class(Q, tau, fixed, c, data[u, c], z, k0, y), TINY)
            for place in range(offset[j], end):
                mass = own_class(Q, tau, fixed, c, data[u, c], z, k0, place + shift)
                V[k0, place] = mass * one


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def add_pairs(V, terms, later, own_place, u, pairs):
    """Add sum_k terms_k V[k, a] V[k, b] to pairs[u, a, b], for b of later variables or none.

    The loop over b runs on whole strips, with indices that cannot be negative, in vectors.
    """
    width, strip, end = own_place.shape[1], np.uint64(STRIP), np.uint64(V.shape[1])
    for a in range(width):
        if own_place[u, a]:
            continue
        begin = np.uint64(later[a]) // strip * strip
        for k in range(0, V.shape[0], 4):  # four classes a pass: fewer stores
            w, x = terms[k] * V[k, a], terms[k + 1] * V[k + 1, a]
            y, z = terms[k + 2] * V[k + 2, a], terms[k + 3] * V[k + 3, a]
            for b in range(begin, end):
                pairs[u, a, b] += w * V[k, b] + x * V[k + 1, b] + y * V[k + 2, b] + z * V[k + 3, b]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def add_more(V, terms, places, u, product, by_level, out):
    """Add the masses of guesses with three changes and more to out[u]."""
    none, most, K = by_level.shape[0] - 1, places.shape[2], by_level.shape[1]
    for a in range(none + 1):
        for k in range(K):
            by_level[a, k] = V[k, a]
    before, shared = -1, np.empty(most, np.int64)  # how many changes the product holds, and which
    for g in range(places.shape[1]):
        if places[u, g, 2] == none:
            continue
        last = 2
        while last + 1 < most and places[u, g, last + 1] != none:
            last += 1
        same = before == last
        for c in range(last):
            same = same and places[u, g, c] == shared[c]
        if not same:
            for k in range(K):
                product[k] = terms[k]
            for c in range(last):
                a = places[u, g, c]
                shared[c] = a
                for k in range(K):
                    product[k] *= by_level[a, k]
        before = last
        a, total = places[u, g, last], 0.0
        for k in range(K):
            total += product[k] * by_level[a, k]
        out[u, g] += total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def predict_wide(tables, layout, targets, places, weights, batch, sums):
    """Add the weighted p_h(y*) / p_h(y_i) of every guess to the sums of its batch, (B, U, G)."""
    all_Q, all_tau, guesses = tables.Q, tables.tau, places.guesses
    H, D, K = all_Q.shape
    U, width = places.own.shape
    levels, inverse = np.zeros((CHUNK, K, D)), np.zeros((CHUNK, K, D))
    whole, padded = (K + 3) // 4 * 4, (width + STRIP - 1) // STRIP * STRIP
    terms, product = np.zeros(whole), np.empty(K)
    V, by_level = np.zeros((whole, padded)), np.empty((width, K))
    pairs = np.zeros((U, width, padded))
    first = 0
    while first < H:
        last = first + 1
        while last < H and last < first + CHUNK and batch[last] == batch[first]:
            last += 1
        for h in range(first, last):
            for k in range(K):
                for r in range(D):
                    levels[h - first, k, r] = all_Q[h, r, k]
                    inverse[h - first, k, r] = 1.0 / max(all_Q[h, r, k], TINY)
        out = sums[batch[first]]
        for u in range(U):
            for h in range(first, last):
                c, k0 = h - first, targets.label[h, u]
                own, _ = truth_terms(
                    all_Q[h], all_tau[h], layout.fixed, targets.truth, targets.linked, targets.data,
                    u, k0, tables.weights[h], terms[:K],
                )  # fmt: skip
                if k0 < K:
                    terms[k0] = own
                terms *= weights[h, u] / max(terms.sum(), TINY)
                V[:, width - 1] = 1.0
                fill_ratios(all_Q[h], all_tau[h], layout, targets, u, k0, levels[c], inverse[c], V)
                add_pairs(V, terms, layout.later, places.own, u, pairs)
                if guesses.shape[2] > 2:
                    add_more(V, terms, guesses, u, product, by_level, out)
        if last == H or batch[last] != batch[first]:
            for u in range(U):  # guesses with at most two changes
                for g in range(guesses.shape[1]):
                    if guesses.shape[2] == 2 or guesses[u, g, 2] == width - 1:
                        out[u, g] += pairs[u, guesses[u, g, 0], guesses[u, g, 1]]
            pairs[:] = 0.0
        first = last


MAX_SQUARED_PLACES = 8  # places squared for each guess, above which pairs are too thinly used


def wide_sums(
    tables: LevelTables,
    fixed: Flags,
    columns: Ints,
    targets: LevelTargets,
    guesses: Ints,
    weights: Array,
    batch: Ints,
) -> Array | None:
    """Weighted p_h(y*) / p_h(y_i) by batch, (B, U, G), of guesses (U, G, q); None: few pairs."""
    truth = targets.truth[:, columns]
    changed = guesses != truth[:, None]
    most = int(changed.sum(axis=2).max())
    # all levels of all variables have a place in one row, and "no change" the last
    low = np.minimum(truth.min(axis=0), guesses.min(axis=(0, 1))).astype(np.int64)
    width = np.maximum(truth.max(axis=0), guesses.max(axis=(0, 1))) - low + 1
    offset = np.concatenate([[0], np.cumsum(width)]).astype(np.int64)
    later = np.append(np.repeat(offset[1:], width), offset[-1]).astype(np.int64)
    if len(later) ** 2 > MAX_SQUARED_PLACES * guesses.shape[1]:
        return None
    places = np.where(changed, guesses - low + offset[:-1], offset[-1]).astype(np.int32)
    places.sort(axis=2)  # of the changed levels, in order, filled up with "no change"
    own = np.zeros((len(truth), len(later)), dtype=bool)
    np.put_along_axis(own, truth - low + offset[:-1], True, axis=1)
    sums = np.zeros((int(batch.max()) + 1, *guesses.shape[:2]))
    of_guesses = WidePlaces(np.ascontiguousarray(places[:, :, :most]), own)
    layout = WideLayout(fixed, columns, low, offset, later)
    predict_wide(tables, layout, targets, of_guesses, weights, batch, sums)
    return sums


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_terms(tables, layout, targets, draws, factor, log_base, log_truth, draw_of):
    """Fill the terms of some draws for one target, their log masses and draws; their number."""
    Q, tau, weights, t = tables.Q, tables.tau, tables.weights, 0
    fixed, place, starts = layout.fixed, layout.place, layout.starts
    truth, linked, data = targets.truth[0], targets.linked[0], targets.data[0]
    for i in range(draws.shape[0]):
        h, k0 = draws[i], targets.label[draws[i], 0]
        for k in range(Q.shape[2]):
            if weights[h, k0, k] == 0.0:
                continue
            log_base[t] = math.log(weights[h, k0, k])
            log_truth[t] = 0.0
            draw_of[t] = i
            for j in range(truth.shape[0]):
                z, guessed = linked[j], place[j] >= 0
                logs = log_truth if guessed else log_base
                first, last = (starts[j], starts[j + 1]) if guessed else (truth[j], truth[j] + 1)
                for level in range(first, last):
                    here = Q[h, level, k]
                    if k == k0:
                        here = own_class(Q[h], tau[h], fixed, j, data[j], z, k0, level)
                    elif z >= 0:
                        here *= linked_factor(Q[h], tau[h], fixed, j, z, level == z, k)
                    if guessed:
                        factor[place[j] + level - first, t] = here
                    if level == truth[j]:
                        logs[t] += math.log(max(here, TINY))
            t += 1
    for s in range(t):
        log_truth[s] += log_base[s]
    return t
