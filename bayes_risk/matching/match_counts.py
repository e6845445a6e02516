"""Compiled loops of matching in boxes: who lies in a target's box, and who leads when pooled.

With one numeric key, `ReleaseMatches` holds, of one target at a time, ``inside[j, l]``: record j
matches in release l. Records are kept by how often they do: ``bucket[k, :size[k]]`` lists those
that match in k releases, record j at ``place[j]`` of bucket ``depth[j]`` (0: in no list). With
several, boxes are looked through one by one, or two counted by a tree; with none, records enter the
boxes of the keys that they show. Loops index whole arrays: passing slices is dear.
Derivation: ``docs/identification.md``.
"""

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Flags, Ints
from bayes_risk._core.matching import LEADERS, MARK, ONE, PRIME, RIVAL, TOP


class ReleaseMatches(NamedTuple):
    """Which records match in which releases, by the number of releases."""

    inside: Flags  # (n + 1, m); the last for targets without a record
    depth: npt.NDArray[np.int32]  # (n,)
    place: npt.NDArray[np.int32]  # (n,)
    bucket: npt.NDArray[np.int32]  # (m + 1, n)
    size: Ints  # (m + 1,)


@numba.njit(cache=True, nogil=True)
def sweep(turns, windows, weights, leaders, a, person):
    """Pool boxes that have one numeric key, in turn of its value: windows slide. Contest a."""
    order, start, stop = windows
    m, n = order.shape
    matches = ReleaseMatches(
        np.zeros((n + 1, m), np.bool_),
        np.zeros(n, np.int32),
        np.zeros(n, np.int32),
        np.zeros((m + 1, n), np.int32),
        np.zeros(m + 1, np.int64),
    )
    low, high = np.zeros(m, np.int64), np.zeros(m, np.int64)
    for i in turns:
        for l in range(m):
            slide(matches, order[l], l, low, high, start[i, l], stop[i, l])
        find_leaders(matches, leaders, i, a, weights, person)


@numba.njit(cache=True, nogil=True)
def slide(matches, row, l, low, high, start, stop):
    """Move release l's window; it grows before it shrinks, so low <= high always."""
    for q in range(high[l], stop):
        move_record(matches, row[q], l, True)
    for q in range(start, low[l]):
        move_record(matches, row[q], l, True)
    for q in range(stop, high[l]):
        move_record(matches, row[q], l, False)
    for q in range(low[l], start):
        move_record(matches, row[q], l, False)
    low[l], high[l] = start, stop


@numba.njit(cache=True, nogil=True)
def matches_counted(windows, rows, limit):
    """N[i, l]: records of release l in target i's windows whose numeric keys all fit."""
    _, first, start, stop = windows
    m, n_targets = first.shape[0], first.shape[1] - 1
    N = np.zeros((n_targets, m), np.int64)
    for l in range(m):
        for i in range(n_targets):
            for v in range(first[l, i], first[l, i + 1]):
                for q in range(start[v], stop[v]):
                    N[i, l] += holds(rows, i, l, q, limit)
    return N


@numba.njit(cache=True, nogil=True)
def count_in_both(rank, ends, turn, others, N):
    """N[i], 0 at first: records in target i's stretches of one order, and of another as well.

    Record q of the one order stands at ``rank[q]`` of the other. ``ends``, ``others``, (n_t, 2S):
    start and stop of each stretch in the one (all visited in ``turn``) and in the other. Records
    enter a binary indexed tree (Fenwick 1994) in the one order, which tells how many of them stand
    before a place of the other: O(log n) a record and an end.
    """
    n, entered, per_target = len(rank), 0, ends.shape[1]
    tree = np.zeros(n + 1, np.int32)
    for e in turn:
        i, v = e // per_target, e % per_target
        for q in range(entered, ends[i, v]):
            k = rank[q] + 1
            while k <= n:
                tree[k] += 1
                k += k & -k
        entered = ends[i, v]
        for w in range(others.shape[1]):
            k = others[i, w]
            while k > 0:  # what stands before a start is taken off, in either order
                N[i] += tree[k] if (v + w) % 2 == 0 else -tree[k]
                k -= k & -k


@numba.njit(cache=True, nogil=True)
def holds(rows, i, a, b, limit):
    """Whether released values [a, b] lie in target i's box, or its ellipse; NaN does anyway."""
    low, y, high, value = rows
    total = 0.0
    for d in range(low.shape[1]):
        x = value[a, b, d]
        if np.isnan(x):
            continue
        if not low[i, d] <= x <= high[i, d]:
            return False
        if limit < np.inf and x != y[i, d]:
            reach = y[i, d] - low[i, d] if x < y[i, d] else high[i, d] - y[i, d]
            total += ((x - y[i, d]) / reach) ** 2
    return total <= limit


@numba.njit(cache=True, nogil=True)
def move_record(matches, j, l, enters):
    """Let record j enter, or leave, those that match in release l."""
    inside, depth, place, bucket, size = matches
    inside[j, l] = enters
    k = depth[j]
    if k > 0:  # the last of the bucket takes its place
        size[k] -= 1
        last = bucket[k, size[k]]
        bucket[k, place[j]], place[last] = last, place[j]
    k += 1 if enters else -1
    depth[j] = k
    if k > 0:
        place[j] = size[k]
        bucket[k, size[k]] = j
        size[k] += 1


@numba.njit(cache=True, nogil=True)
def find_leaders(matches, leaders, i, a, weights, person):
    """Find target i's leaders: buckets are visited from the deepest, until none can catch up."""
    share, residue, reach = weights
    m = share.shape[1]
    live = np.sum(residue[i] > 0)
    for k in range(live, 0, -1):
        if leaders[i, a, LEADERS] > 0 and reach[i, k - 1] <= leaders[i, a, TOP] - m:
            break
        many = matches.size[k]
        for q in range(min(many, 1) if k == live else many):
            who = person[matches.bucket[k, q]]
            for other in range(1, many if k == live else 0):
                if person[matches.bucket[k, other]] != who:
                    who = -1
                    break
            s, r = total(matches.inside, matches.bucket[k, q], share, residue, i)
            enter(leaders, i, a, s, r, m, many if k == live else 1, who)


@numba.njit(cache=True, nogil=True)
def scan(boxes, windows, rows, limit, visits, weights, leaders, person):
    """Pool boxes that have several numeric keys: windows are looked through, smallest N first."""
    order, first, start, stop = windows
    share, residue, reach = weights
    n_boxes, m = share.shape
    inside = np.zeros((1, m), np.bool_)
    for i in range(n_boxes):
        rest = reach[i, m - 1]
        for v in range(m):
            if over(leaders, i, rest, m):
                break
            l = visits[i, v]
            for w in range(first[l, i], first[l, i + 1]):
                for q in range(start[w], stop[w]):
                    if holds(rows, i, l, q, limit) and locate(
                        boxes, limit, i, order[l, q], visits, v, inside
                    ):
                        contend(leaders, i, inside, 0, share, residue, 1, person[order[l, q]])
            rest -= share[i, l]


@numba.njit(cache=True, nogil=True)
def locate(boxes, limit, i, j, visits, v, inside):
    """inside[0, l]: record j of release l is in target i's box. False: met before visit v."""
    u, z, own = boxes
    for w in range(inside.shape[1]):
        l = visits[i, w]
        fits = z[j, l] == u[i] and holds(own, i, j, l, limit)
        if fits and w < v:
            return False
        inside[0, l] = fits
    return True


@numba.njit(cache=True, nogil=True)
def total(inside, j, share, residue, i):
    """Sum target i's 1/D over the releases where row j is inside: in digits, modulo a prime."""
    s, r = 0, 0
    for l in range(inside.shape[1]):
        if inside[j, l]:
            s += share[i, l]
            r += residue[i, l]
            if r >= PRIME:
                r -= PRIME
    return s, r


@numba.njit(cache=True, nogil=True)
def less(s, r, inside, j, l, share, residue, i):
    """Take release l out of such a sum."""
    if not inside[j, l]:
        return s, r
    r -= residue[i, l]
    return s - share[i, l], r + PRIME if r < 0 else r


@numba.njit(cache=True, nogil=True)
def contend(leaders, i, inside, j, share, residue, many, who):
    """Let the records of row j into every contest of box i where they match at all."""
    m = share.shape[1]
    s, r = total(inside, j, share, residue, i)
    enter(leaders, i, 0, s, r, m, many, who)
    for a in range(1, leaders.shape[1]):
        s_a, r_a = less(s, r, inside, j, a - 1, share, residue, i)
        if r_a > 0:
            enter(leaders, i, a, s_a, r_a, m, many, who)


@numba.njit(cache=True, nogil=True)
def enter(leaders, i, a, s, r, m, many, who):
    """Let `many` records of one sum into contest a: s are its digits, r its residue."""
    top = leaders[i, a, TOP]
    if r == leaders[i, a, MARK] and s > top - m:
        leaders[i, a, LEADERS] += many
        leaders[i, a, TOP] = max(top, s)
        leaders[i, a, ONE] = who if leaders[i, a, ONE] == who else -1
    elif s - m >= top:
        leaders[i, a, LEADERS], leaders[i, a, TOP], leaders[i, a, MARK] = many, s, r
        leaders[i, a, ONE] = who
    elif s > top - m:
        leaders[i, a, RIVAL] = max(leaders[i, a, RIVAL], s)


@numba.njit(cache=True, nogil=True)
def over(leaders, i, rest, m):
    """Whether nobody still to come can catch up in any contest of box i."""
    for a in range(leaders.shape[1]):
        if leaders[i, a, LEADERS] == 0 or rest > leaders[i, a, TOP] - m:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def attained(inside, targets, of, weights, leaders, hits):
    """Count row j for its target, in every contest in which it has the largest sum of the box."""
    share, residue, _ = weights
    m = inside.shape[1]
    for j in range(len(targets)):
        i = of[targets[j]]
        s, r = total(inside, j, share, residue, i)
        for a in range(leaders.shape[1]):
            s_a, r_a = (s, r) if a == 0 else less(s, r, inside, j, a - 1, share, residue, i)
            if r_a == leaders[i, a, MARK] and s_a > leaders[i, a, TOP] - m:
                hits[a, targets[j]] += 1


@numba.njit(cache=True, nogil=True)
def pool_keys(z, many, weights, leaders, person):
    """Pool keys row by row, each of which may hold another key in every release."""
    share, residue, _ = weights
    m, n = z.shape
    inside = np.zeros((1, m), np.bool_)
    for j in range(n):
        for l in range(m):
            first = m
            for k in range(m - 1, -1, -1):
                inside[0, k] = z[k, j] == z[l, j]
                first = k if inside[0, k] else first
            if first == l and z[l, j] >= 0:
                contend(leaders, z[l, j], inside, 0, share, residue, many[j], person[j])
