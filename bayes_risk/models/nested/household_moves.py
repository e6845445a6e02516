"""Split and merge moves of classes of households, all parameters integrated out.

The derivation of `models.mixture.split_merge` holds with a household in the place of a record. Its
size is one more column, with sticks of its own; its members keep the places of their classes within
the class of the household, where those have sticks and levels of their own. Impossible households
move as others do, with the columns that they have (-1: it has none). A move begins with two of the
data, and its chances count those alone.

Many impossible households keep classes as they are: of 6,000 splits none was accepted where there
were seven for each possible one, and 1 to 2 % where there were fewer than possible ones.
"""

import math

import numba
import numpy as np

from bayes_risk.models.mixture.families import log_rise, log_sum_of
from bayes_risk.models.mixture.split_merge import below, gather, log_slots, pick
from bayes_risk.models.mixture.sweep import TINY, cumulate, draw_class, log_order

BIG = 1e100  # bound of odds


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_household(i, persons, classes, side, s):
    """A household on a side of a move; ``side``: counts of sizes, levels, members and theirs."""
    household, member, first, size = persons
    pi, lam, omega, phi = side
    pi[size[i], s] += 1.0
    for k in range(household.shape[1]):
        if household[i, k] >= 0:
            lam[household[i, k], s] += 1.0
    for j in range(first[i], first[i + 1]):
        omega[classes[j], s] += 1.0
        for k in range(member.shape[1]):
            if member[j, k] >= 0:
                phi[member[j, k], classes[j], s] += 1.0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def odds_of_household(i, persons, classes, level, side, n):
    """Odds of side 1 given the n (2,) households on each; any would do, see the derivation."""
    household, member, first, size = persons
    pi, lam, omega, phi = side
    odds = (pi[size[i], 1] + 1.0) / (pi[size[i], 0] + 1.0)
    for k in range(household.shape[1]):
        at = household[i, k]
        if at >= 0:
            odds *= (lam[at, 1] + level) * (n[0] + 1.0) / ((lam[at, 0] + level) * (n[1] + 1.0))
    for j in range(first[i], first[i + 1]):
        m = classes[j]
        for k in range(member.shape[1]):
            at = member[j, k]
            if at >= 0:
                odds *= (phi[at, m, 1] + level) * (omega[m, 0] + 1.0)
                odds /= (phi[at, m, 0] + level) * (omega[m, 1] + 1.0)
        odds = min(max(odds, 1.0 / BIG), BIG)
    return min(max(odds, 1.0 / BIG), BIG)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def allocate_households(rng, some, persons, classes, level, goal, forced, taken, side):
    """Allocate households some[2:] to the sides of the first two; returns log q of that.

    If ``forced`` it is made to end in ``goal``.
    """
    pi, lam, omega, phi = side
    pi[:], lam[:], omega[:] = 0.0, 0.0, 0.0
    phi[:] = 0.0
    log_q, n = 0.0, np.zeros(2)
    for t in range(some.shape[0]):
        s = t
        if t >= 2:
            odds = odds_of_household(some[t], persons, classes, level, side, n)
            s = goal[t] if forced else int(rng.random() * (1.0 + odds) < odds)
            log_q += math.log((odds if s == 1 else 1.0) / (1.0 + odds))
        taken[t] = s
        n[s] += 1.0
        add_household(some[t], persons, classes, side, s)
    return log_q


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_gain(rows, starts, level):
    """log p(A) p(B) / p(A and B) of columns whose levels (D, 2) are on sides A and B."""
    total = 0.0
    for q in range(starts.shape[0] - 1):
        a = b = 0.0
        for v in range(starts[q], starts[q + 1]):
            if rows[v, 0] > 0.0 and rows[v, 1] > 0.0:
                total += log_rise(level, rows[v, 1]) - log_rise(level + rows[v, 0], rows[v, 1])
            a, b = a + rows[v, 0], b + rows[v, 1]
        if a > 0.0 and b > 0.0:
            d = level * (starts[q + 1] - starts[q])
            total += log_rise(d + a, b) - log_rise(d, b)
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_sticks(n, alpha):
    """log p(labels | alpha) of counts n (K,), up to what no counts change."""
    total, after = 0.0, 0.0
    for k in range(n.shape[0] - 1, -1, -1):
        if k < n.shape[0] - 1:
            total += log_order(n[k], after, alpha) - log_order(0.0, 0.0, alpha)
        after += n[k]
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_ratio_of_split(n, own, k, side, sides, starts, prior, log_q, slots):
    """log of the acceptance ratio of a split of class k; n (S, F) of each size as before it.

    ``own`` (F,), ``sides`` (2,): those of the data. ``slots``: chances of the slots of side 1.
    """
    (pi, lam, omega, phi), (level, alpha, beta) = side, prior
    total = log_gain(lam, starts[0], level) - log_sticks(omega[:, 0] + omega[:, 1], beta)
    for s in range(2):
        total += log_sticks(np.ascontiguousarray(omega[:, s]), beta)
    for m in range(omega.shape[0]):
        total += log_gain(np.ascontiguousarray(phi[:, m]), starts[1], level)
    some = np.empty(n.shape[1])
    slots[:] = 0.0
    for s in range(n.shape[0]):
        total -= log_sticks(n[s], alpha) + (n.shape[1] - 1) * log_order(0.0, 0.0, alpha)
        n[s, k] = pi[s, 0]
        log_slots(n[s], pi[s, 1], alpha, some)
        n[s, k] = pi[s, 0] + pi[s, 1]
        slots += some
    a, b = sides[0], sides[1]
    occupied, splittable = (own > 0).sum(), (own > 1).sum()
    back = -math.log(occupied * (occupied + 1.0)) - math.log(a) - math.log(b)
    there = -math.log(splittable) - math.log(a + b) - math.log(a + b - 1.0)
    return total + log_sum_of(slots) + back - there - log_q


@numba.njit(cache=True, nogil=True, error_model="numpy")
def move_households(rng, moves, N, persons, classes, shape, starts, prior, label):
    """So many proposals, a split or a merge by a coin; labels are changed.

    N: households of the data, which come first. ``shape``: S, F, M; ``prior``: of a level, and both
    concentrations.
    """
    every, (S, F, M) = label.shape[0], shape
    levels = starts[0][-1], starts[1][-1]
    side = np.empty((S, 2)), np.empty((levels[0], 2)), np.empty((M, 2)), np.empty((levels[1], M, 2))
    n, slots, members = np.zeros((S, F)), np.empty(F), np.empty(every + 1, np.int64)
    taken, goal, own = np.empty(every + 1, np.int64), np.empty(every + 1, np.int64), np.zeros(F)
    for i in range(every):
        n[persons[3][i], label[i]] += 1.0
        own[label[i]] += i < N
    for _ in range(moves):
        merges = rng.random() < 0.5
        k, e = pick(rng, own, 1 if merges else 2, F), -1
        if merges:
            e = pick(rng, own, 1, k)
        if (e if merges else k) < 0:
            continue
        first = gather(label, k, members, 0)
        count = gather(label, e, members, first) if merges else first
        a = below(rng, int(own[k]))
        members[0], members[a] = members[a], members[0]
        b = first + below(rng, int(own[e])) if merges else 1 + below(rng, int(own[k]) - 1)
        members[1], members[b] = members[b], members[1]
        for t in range(count - 1, 2, -1):  # the others in a random order
            r = 2 + below(rng, t - 1)
            members[t], members[r] = members[r], members[t]
        for t in range(count):
            goal[t] = merges and label[members[t]] == e
        some = members[:count]
        log_q = allocate_households(
            rng, some, persons, classes, prior[0], goal, merges, taken, side
        )
        sides = np.zeros(2)
        for t in range(count):
            sides[taken[t]] += some[t] < N
        if merges:
            n[:, k] += n[:, e]
            n[:, e], own[k], own[e] = 0.0, own[k] + own[e], 0.0
        log_ratio = log_ratio_of_split(n, own, k, side, sides, starts, prior, log_q, slots)
        yes = math.log(max(rng.random(), TINY)) < (-log_ratio if merges else log_ratio)
        if merges and yes:
            label[some] = k
        elif yes:
            cumulate(slots)
            e = draw_class(rng, slots)
            for t in range(count):
                if taken[t]:
                    label[some[t]] = e
        if yes != merges:  # two classes
            n[:, k], n[:, e] = side[0][:, 0], side[0][:, 1]
            own[k], own[e] = sides[0], sides[1]
