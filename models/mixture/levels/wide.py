"""Guesses of levels that change several variables at once (Hamming distance 2 and more), by pairs.

A guess that changes variables a and b has, class by class, the truth's mass times two ratios, so
all such guesses of a target are the entries of ``V diag(terms) V'``, with ``V[level, k]`` the ratio
of a changed level to the true one: a small symmetric product for each target and draw, added up
over the draws of a batch before any guess is looked up. Guesses with more changes share the product
of their first ones with the guess before. The target's own class is one of the columns, with the
target taken out. Classes that nobody is in are all alike and are one column.
"""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk.models.mixture.sweep import TINY

from .predictive_kernels import class_weights, linked_factor, own_class, truth_terms

CHUNK = 8  # draws whose levels are held side by side
STRIP = 16  # places that are added side by side


@numba.njit(cache=True, nogil=True)
def changed_levels(guesses, truth, columns, low, offset, none):
    """Places of the changed levels of each guess, in order, filled up with `none`; (U, G, c)."""
    U, G, q = guesses.shape
    most = 2
    for u in range(U):
        for g in range(G):
            count = 0
            for j in range(q):
                count += guesses[u, g, j] != truth[u, columns[j]]
            most = max(most, count)
    out = np.full((U, G, most), none, np.int32)
    for u in range(U):
        for g in range(G):
            c = 0
            for j in range(q):
                if guesses[u, g, j] != truth[u, columns[j]]:
                    out[u, g, c] = offset[j] + guesses[u, g, j] - low[j]
                    c += 1
    return out


@numba.njit(cache=True, nogil=True)
def kept_classes(n, merge, kept):
    """Column of each class, `kept` (K,); how many columns there are."""
    n_kept, empty = 0, -1
    for k in range(n.shape[0]):
        if not merge or n[k] > 0:
            kept[k] = n_kept
            n_kept += 1
        else:
            if empty < 0:
                empty = n_kept
                n_kept += 1
            kept[k] = empty
    return n_kept


@numba.njit(cache=True, nogil=True)
def fill_draw(Q, n, alpha, pi, integrated, kept, base, levels, inverse):
    """Class weights without each class's member, levels by column and their inverses; columns."""
    K = n.shape[0]
    n_kept = kept_classes(n, integrated, kept)
    for k in range(K + 1):
        if not integrated:
            base[k] = pi
        elif k == K or n[k] > 0:  # an empty class has no target to take out
            class_weights(n, alpha, k, base[k])
    for k in range(K):
        for r in range(Q.shape[0]):
            levels[kept[k], r] = Q[r, k]
            inverse[kept[k], r] = 1.0 / max(Q[r, k], TINY)
    return n_kept


@numba.njit(cache=True, nogil=True)
def fill_ratios(
    Q, tau, fixed, columns, truth, linked, held, u, k0, kept, n_kept, levels, inverse,
    low, offset, V,
):  # fmt: skip
    """V[k, place] = what changing to a level multiplies the truth's mass by in class k."""
    K = Q.shape[1]
    for j in range(columns.shape[0]):
        c = columns[j]
        y, z = truth[u, c], linked[u, c]
        shift, end = low[j] - offset[j], offset[j + 1]
        first, last = np.uint64(offset[j]), np.uint64(end)
        above = np.uint64(low[j]) - first
        for k in range(n_kept):
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
                        V[kept[k], place] = Q[level, k] * inverse[kept[k], y] * then / now
        if k0 < K:
            one = 1.0 / max(own_class(Q, tau, fixed, c, held[u, c], z, k0, y), TINY)
            for place in range(offset[j], end):
                mass = own_class(Q, tau, fixed, c, held[u, c], z, k0, place + shift)
                V[kept[k0], place] = mass * one


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def add_pairs(V, terms, n_kept, later, own_place, u, pairs):
    """Add sum_k terms_k V[k, a] V[k, b] to pairs[u, a, b], for b of later variables or none.

    The loop over b runs on whole strips, with indices that cannot be negative: else it is not done
    several at a time. What it adds for b of the same variable is never looked up.
    """
    width, strip, end = own_place.shape[1], np.uint64(STRIP), np.uint64(V.shape[1])
    for a in range(width):
        if own_place[u, a]:
            continue
        begin = np.uint64(later[a]) // strip * strip
        for k in range(0, n_kept, 4):  # four classes a pass: fewer stores
            w, x = terms[k] * V[k, a], terms[k + 1] * V[k + 1, a]
            y, z = terms[k + 2] * V[k + 2, a], terms[k + 3] * V[k + 3, a]
            for b in range(begin, end):
                pairs[u, a, b] += w * V[k, b] + x * V[k + 1, b] + y * V[k + 2, b] + z * V[k + 3, b]


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def add_more(V, terms, n_kept, places, u, product, by_level, out):
    """Add the masses of guesses with three changes and more to out[u]."""
    none, most = by_level.shape[0] - 1, places.shape[2]
    for a in range(none + 1):
        for k in range(n_kept):
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
            for k in range(n_kept):
                product[k] = terms[k]
            for c in range(last):
                a = places[u, g, c]
                shared[c] = a
                for k in range(n_kept):
                    product[k] *= by_level[a, k]
        before = last
        a, total = places[u, g, last], 0.0
        for k in range(n_kept):
            total += product[k] * by_level[a, k]
        out[u, g] += total


@numba.njit(cache=True, nogil=True)
def look_up(pairs, places, none, out):
    """Add to out[u, g] the sums of guesses with at most two changes."""
    most = places.shape[2]
    for u in range(places.shape[0]):
        for g in range(places.shape[1]):
            if most == 2 or places[u, g, 2] == none:
                out[u, g] += pairs[u, places[u, g, 0], places[u, g, 1]]


@numba.njit(cache=True, nogil=True)
def predict_wide(tables, layout, targets, weights, batch, sums):
    """Add the weighted p_h(y*) / p_h(y_i) of every guess to the sums of its batch, (B, U, G)."""
    all_Q, all_tau, n, alpha, pi, integrated = tables
    fixed, columns, low, offset, later = layout
    label, truth, linked, held, places, own_place = targets
    H, K = n.shape
    U, D, width = truth.shape[0], all_Q.shape[1], own_place.shape[1]
    base, kept = np.zeros((CHUNK, K + 1, K)), np.empty((CHUNK, K), np.int64)
    levels, inverse = np.zeros((CHUNK, K, D)), np.zeros((CHUNK, K, D))
    n_kept = np.empty(CHUNK, np.int64)
    terms, merged, product = np.empty(K), np.empty(K + 4), np.empty(K)
    padded = (width + STRIP - 1) // STRIP * STRIP
    V, by_level = np.zeros((K + 4, padded)), np.empty((width, K))
    pairs = np.zeros((U, width, padded))
    first = 0
    while first < H:
        last = first + 1
        while last < H and last < first + CHUNK and batch[last] == batch[first]:
            last += 1
        for h in range(first, last):
            c = h - first
            n_kept[c] = fill_draw(
                all_Q[h], n[h], alpha[h], pi[h], integrated, kept[c], base[c], levels[c], inverse[c]
            )
        out = sums[batch[first]]
        for u in range(U):
            for h in range(first, last):
                c, k0 = h - first, label[h, u]
                own, _ = truth_terms(
                    all_Q[h], all_tau[h], fixed, truth, linked, held, u, k0, base[c], terms
                )
                merged[:] = 0.0
                total = own
                for k in range(K):
                    merged[kept[c, k]] += terms[k]
                    total += terms[k]
                if k0 < K:
                    merged[kept[c, k0]] += own
                merged *= weights[h, u] / max(total, TINY)
                V[:, width - 1] = 1.0
                fill_ratios(
                    all_Q[h], all_tau[h], fixed, columns, truth, linked, held, u, k0, kept[c],
                    n_kept[c], levels[c], inverse[c], low, offset, V,
                )  # fmt: skip
                add_pairs(V, merged, n_kept[c], later, own_place, u, pairs)
                if places.shape[2] > 2:
                    add_more(V, merged, n_kept[c], places, u, product, by_level, out)
        if last == H or batch[last] != batch[first]:
            look_up(pairs, places, width - 1, out)
            pairs[:] = 0.0
        first = last


Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
CROWDED = 8  # places squared for each guess, above which pairs are too thinly used


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places:
    """The guessed levels of all variables in one row, a place for each, and one for "no change".

    ``low`` (q,) and ``offset`` (q + 1,): level ``r`` of variable j has place ``offset[j] + r -
    low[j]``; ``later`` (L + 1,) the first place of a later variable.
    """

    low: Ints
    offset: Ints
    later: Ints

    @classmethod
    def of(cls, truth: Ints, guesses: Ints) -> "Places":
        """Places of the true levels (U, q) and of guesses (U, G, q)."""
        low = np.minimum(truth.min(axis=0), guesses.min(axis=(0, 1)))
        high = np.maximum(truth.max(axis=0), guesses.max(axis=(0, 1)))
        width = high - low + 1
        offset = np.concatenate([[0], np.cumsum(width)]).astype(np.int64)
        later = np.append(np.repeat(offset[1:], width), offset[-1]).astype(np.int64)
        return cls(low=low.astype(np.int64), offset=offset, later=later)

    def own(self, truth: Ints) -> npt.NDArray[np.bool_]:
        """Places of the true levels (U, q), shape (U, L + 1)."""
        flags = np.zeros((len(truth), len(self.later)), dtype=bool)
        np.put_along_axis(flags, truth - self.low + self.offset[:-1], True, axis=1)
        return flags


def wide_sums(
    tables: tuple[npt.NDArray[np.generic] | bool, ...],
    fixed: npt.NDArray[np.bool_],
    columns: Ints,
    targets: tuple[Any, ...],
    guesses: Ints,
    weights: Array,
    batch: Ints,
) -> Array | None:
    """Weighted p_h(y*) / p_h(y_i) summed over each batch, (B, U, G), of guesses (U, G, q).

    ``targets``: labels (H, U), rows of own, linked and held levels (U, p). None: hardly any guess
    changes two variables, or so few of the pairs are asked for that one by one is faster.
    """
    truth = targets[1][:, columns]
    if not guesses.size or int((guesses != truth[:, None]).sum(axis=2).max()) < 2:
        return None
    places = Places.of(truth, guesses)
    if len(places.later) ** 2 > CROWDED * guesses.shape[1]:
        return None
    changed = changed_levels(
        guesses, targets[1], columns, places.low, places.offset, places.offset[-1]
    )
    sums = np.zeros((int(batch.max()) + 1, *guesses.shape[:2]))
    predict_wide(
        tables,
        (fixed, columns, places.low, places.offset, places.later),
        (*targets, changed, places.own(truth)),
        weights,
        batch,
        sums,
    )
    return sums
