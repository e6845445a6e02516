"""Split and merge moves of a latent-class chain, weights and level probabilities integrated out.

After the labels z are drawn, R moves leave p(z | alpha, y) as it is, and the sweep then draws V and
phi given the labels, as ever: one step of a partially collapsed Gibbs sampler. A move splits one
class in two, the second half into an empty slot, or merges two. Members are dealt to the halves one
after the other (Dahl 2005). The derivation stands in `docs/mixtures.md`.

A side of a split is ``M2[s, D]`` counts of levels, ``T2[s, p + 1]`` totals of variables plus prior
mass (the last for padding, whose only level is sure) and ``n2[s]`` individuals.
"""

import math

import numba
import numpy as np

from bayes_risk.models.mixture.sweep import (
    TINY,
    class_masses,
    cumulate,
    draw_alpha,
    draw_class,
    draw_levels,
    draw_sticks,
    log_order,
    swap_neighbours,
)

BIG = 1e100


@numba.njit(cache=True, nogil=True)
def owners(multiplicity):
    """The unit of each individual, shape (n,)."""
    out = np.empty(multiplicity.sum(), np.int32)
    at = 0
    for u in range(multiplicity.shape[0]):
        out[at : at + multiplicity[u]] = u
        at += multiplicity[u]
    return out


@numba.njit(cache=True, nogil=True)
def variables(starts):
    """The variable of each row of phi, shape (D,); that of the padding row is p."""
    out = np.empty(starts[-1] + 1, np.int32)
    for j in range(starts.shape[0] - 1):
        out[starts[j] : starts[j + 1]] = j
    out[-1] = starts.shape[0] - 1
    return out


@numba.njit(cache=True, nogil=True)
def draw_each_label(rng, positions, owner, pi, phi, n, M, z):
    """z_i ~ p(z_i | y_i, pi, phi) of every individual; the stream of `draw_labels`."""
    masses = np.empty(pi.shape[0])
    n[:] = 0
    M[:] = 0
    for i in range(owner.shape[0]):
        u = owner[i]
        if i == 0 or owner[i - 1] != u:
            class_masses(positions[u], pi, phi, masses)
            cumulate(masses)
        k = draw_class(rng, masses)
        z[i] = k
        n[k] += 1
        for j in range(positions.shape[1]):
            M[positions[u, j], k] += 1


@numba.njit(cache=True, nogil=True)
def below(rng, n):
    """An integer from 0 to n - 1."""
    return min(int(rng.random() * n), n - 1)


@numba.njit(cache=True, nogil=True)
def shuffle(rng, members, first, count):
    """A random order of members[first:count]."""
    for t in range(count - 1, first, -1):
        r = first + below(rng, t - first + 1)
        members[t], members[r] = members[r], members[t]


@numba.njit(cache=True, nogil=True)
def gather(z, k, members, count):
    """Append the individuals of class k; returns how many there are now."""
    for i in range(z.shape[0]):
        members[count] = i
        count += z[i] == k
    return count


@numba.njit(cache=True, nogil=True)
def empty_sides(layout, sides):
    """Nobody on either side."""
    starts, a, _ = layout
    M2, T2, n2 = sides
    M2[:] = 0
    n2[:] = 0
    for j in range(starts.shape[0] - 1):
        T2[:, j] = a * (starts[j + 1] - starts[j])
    T2[:, -1] = a


@numba.njit(cache=True, nogil=True)
def add_row(row, variable, sides, s, by):
    """Put one individual on side s (by = 1), or take them off (by = -1)."""
    M2, T2, n2 = sides
    n2[s] += by
    for j in range(row.shape[0]):
        M2[s, row[j]] += by
        T2[s, variable[row[j]]] += by


@numba.njit(cache=True, nogil=True)
def odds_of_second(row, layout, sides):
    """n_B p(row | B) / (n_A p(row | A)), held in range; levels of one row count one by one."""
    _, a, variable = layout
    M2, T2, n2 = sides
    odds = n2[1] / n2[0]
    for j in range(row.shape[0]):
        r, v = row[j], variable[row[j]]
        odds *= ((M2[1, r] + a) * T2[0, v]) / ((M2[0, r] + a) * T2[1, v])
        odds = min(max(odds, 1.0 / BIG), BIG)
    return odds


@numba.njit(cache=True, nogil=True)
def allocate(rng, members, count, rows, layout, goal, forced, side, sides):
    """Deal members[2:count] to the sides of members[0] and members[1]; returns log q of the deal.

    If ``forced`` the deal is made to end in ``goal``, and log q is what it would have cost.
    """
    positions, owner = rows
    variable = layout[2]
    empty_sides(layout, sides)
    for s in range(2):
        side[s] = s
        add_row(positions[owner[members[s]]], variable, sides, s, 1)
    log_q = 0.0
    for t in range(2, count):
        row = positions[owner[members[t]]]
        odds = odds_of_second(row, layout, sides)
        side[t] = goal[t] if forced else rng.random() * (1.0 + odds) < odds
        log_q += (math.log(odds) if side[t] else 0.0) - math.log1p(odds)
        add_row(row, variable, sides, side[t], 1)
    return log_q


@numba.njit(cache=True, nogil=True)
def log_gain(layout, sides):
    """log p(y_A) p(y_B) / p(y_A, y_B): Dirichlet-multinomials of two classes against one."""
    starts, a, _ = layout
    M2, T2, n2 = sides
    total = 0.0
    for j in range(starts.shape[0] - 1):
        prior = a * (starts[j + 1] - starts[j])
        both = T2[0, j] + T2[1, j] - prior
        total += math.lgamma(both) + math.lgamma(prior)
        total -= math.lgamma(T2[0, j]) + math.lgamma(T2[1, j])
        for r in range(starts[j], starts[j + 1]):
            if M2[0, r] > 0 and M2[1, r] > 0:
                total += math.lgamma(a + M2[0, r]) + math.lgamma(a + M2[1, r])
                total -= math.lgamma(a + M2[0, r] + M2[1, r]) + math.lgamma(a)
    return total


@numba.njit(cache=True, nogil=True)
def log_slots(n, extra, alpha, out):
    """out[e] = log p(z | alpha), up to a constant, if `extra` more sit in slot e, which is empty.

    Taken slots have -inf. One pass from either end.
    """
    K = n.shape[0]
    after, tail = 0, 0.0
    for e in range(K - 1, -1, -1):  # sticks from e on
        out[e] = -np.inf
        if n[e] == 0:
            out[e] = tail + (log_order(extra, after, alpha) if e < K - 1 else 0.0)
        if e < K - 1:
            tail += log_order(n[e], after, alpha)
        after += n[e]
    head = 0.0
    for e in range(K):  # sticks before e
        out[e] += head
        after -= n[e]
        head += log_order(n[e], after + extra, alpha)


@numba.njit(cache=True, nogil=True)
def log_sum(logs):
    """log sum exp."""
    top, total = logs.max(), 0.0
    for k in range(logs.shape[0]):
        total += math.exp(logs[k] - top)
    return top + math.log(total)


@numba.njit(cache=True, nogil=True)
def log_labels(n, alpha):
    """log p(z | alpha) up to a constant."""
    after, total = 0, 0.0
    for k in range(n.shape[0] - 1, -1, -1):
        if k < n.shape[0] - 1:
            total += log_order(n[k], after, alpha)
        after += n[k]
    return total


@numba.njit(cache=True, nogil=True)
def log_labels_ratio(n, size, k, n2, size2, alpha, slots):
    """log of the acceptance ratio of a split of class k but for data and deal: labels, choices.

    ``n``, ``n2`` are counts of classes before it and of its sides, weighted where records are;
    ``size``, ``size2`` individuals. ``n`` is as it was on return; ``slots`` are filled for side 1.
    """
    occupied, splittable = (size > 0).sum(), (size > 1).sum()
    now = log_labels(n, alpha)
    n[k] = n2[0]
    log_slots(n, n2[1], alpha, slots)
    n[k] = n2[0] + n2[1]
    back = -math.log(occupied * (occupied + 1.0)) - math.log(size2[0]) - math.log(size2[1])
    there = -math.log(splittable) - math.log(size[k]) - math.log(size[k] - 1.0)
    return log_sum(slots) - now + back - there


@numba.njit(cache=True, nogil=True)
def log_split_ratio(n, k, layout, sides, alpha, log_q, slots):
    """log of the acceptance ratio of a split of class k, n being counts before it."""
    labels = log_labels_ratio(n, n, k, sides[2], sides[2], alpha, slots)
    return log_gain(layout, sides) + labels - log_q


@numba.njit(cache=True, nogil=True)
def pick(rng, n, least, other):
    """A class with at least so many members, not `other`, chosen uniformly; -1 if there is none."""
    count = 0
    for k in range(n.shape[0]):
        count += n[k] >= least and k != other
    if count == 0:
        return -1
    r = below(rng, count)
    for k in range(n.shape[0]):
        if n[k] >= least and k != other:
            if r == 0:
                return k
            r -= 1
    return -1


@numba.njit(cache=True, nogil=True)
def pick_slot(rng, slots):
    """An empty slot, chosen in proportion to p(z | alpha)."""
    masses = np.exp(slots - slots.max())
    cumulate(masses)
    return draw_class(rng, masses)


@numba.njit(cache=True, nogil=True)
def choose_split(rng, size, z, members):
    """A class of two or more, its members in a random order, and their number; 0: no split."""
    k = pick(rng, size, 2, -1)
    if k < 0 or size.min() > 0:
        return -1, 0
    count = gather(z, k, members, 0)
    shuffle(rng, members, 0, count)
    return k, count


@numba.njit(cache=True, nogil=True)
def choose_merge(rng, size, z, members, goal):
    """Two classes, members of both in a random order after one of either, and their number; or 0.

    ``goal`` tells who is of the second class.
    """
    k = pick(rng, size, 1, -1)
    e = pick(rng, size, 1, k)
    if e < 0:
        return k, e, 0
    count = gather(z, e, members, gather(z, k, members, 0))
    for s, r in enumerate((below(rng, size[k]), size[k] + below(rng, size[e]))):
        members[s], members[r] = members[r], members[s]
    shuffle(rng, members, 2, count)
    for t in range(count):
        goal[t] = z[members[t]] == e
    return k, e, count


@numba.njit(cache=True, nogil=True)
def accepted(rng, log_ratio):
    """Whether a proposal is taken."""
    return math.log(max(rng.random(), TINY)) < log_ratio


@numba.njit(cache=True, nogil=True)
def room_of(n_individuals):
    """Members, sides and goals of a move; one more of each: `gather` writes before it counts."""
    count = n_individuals + 1
    return np.empty(count, np.int32), np.empty(count, np.int8), np.empty(count, np.int8)


@numba.njit(cache=True, nogil=True)
def split(rng, rows, layout, alpha, n, M, z, room):
    """Propose to split a class; returns whether it was."""
    (members, side, goal), sides, slots = room
    k, count = choose_split(rng, n, z, members)
    if count == 0:
        return False
    log_q = allocate(rng, members, count, rows, layout, goal, False, side, sides)
    if not accepted(rng, log_split_ratio(n, k, layout, sides, alpha, log_q, slots)):
        return False
    e = pick_slot(rng, slots)
    n[k], n[e] = sides[2][0], sides[2][1]
    for r in range(M.shape[0]):
        M[r, k], M[r, e] = sides[0][0, r], sides[0][1, r]
    for t in range(count):
        if side[t]:
            z[members[t]] = e
    return True


@numba.njit(cache=True, nogil=True)
def merge(rng, rows, layout, alpha, n, M, z, room):
    """Propose to merge class e into class k; returns whether it was."""
    (members, side, goal), sides, slots = room
    k, e, count = choose_merge(rng, n, z, members, goal)
    if count == 0:
        return False
    log_q = allocate(rng, members, count, rows, layout, goal, True, side, sides)
    old = n[e]
    n[k], n[e] = n[k] + old, 0
    if not accepted(rng, -log_split_ratio(n, k, layout, sides, alpha, log_q, slots)):
        n[k], n[e] = n[k] - old, old
        return False
    for r in range(M.shape[0]):
        M[r, k], M[r, e] = M[r, k] + M[r, e], 0
    for t in range(count):
        z[members[t]] = k
    return True


@numba.njit(cache=True, nogil=True)
def split_merge(rng, moves, rows, layout, alpha, n, M, z, tally):
    """`moves` proposals, a split or a merge by a coin; tally[kind, 0 or 1] counts tries, moves."""
    p = layout[0].shape[0] - 1
    sides = np.empty((2, M.shape[0]), np.int64), np.empty((2, p + 1)), np.empty(2, np.int64)
    room = room_of(z.shape[0]), sides, np.empty(n.shape[0])
    for _ in range(moves):
        kind = int(rng.random() < 0.5)
        tally[kind, 0] += 1
        if kind == 0:
            tally[0, 1] += split(rng, rows, layout, alpha, n, M, z, room)
        else:
            tally[1, 1] += merge(rng, rows, layout, alpha, n, M, z, room)


@numba.njit(cache=True, nogil=True)
def sweep_with_splits(
    rng, rows, layout, prior, swaps, splits, alpha, log_left, pi, phi, n, M, z, tally
):
    """`sweep.sweep` with `splits` moves of whole classes in it; returns alpha."""
    draw_each_label(rng, rows[0], rows[1], pi, phi, n, M, z)
    split_merge(rng, splits, rows, layout, alpha, n, M, z, tally)
    if swaps:
        swap_neighbours(rng, alpha, n, M)
    log_rest = draw_sticks(rng, n, alpha, log_left, pi)
    draw_levels(rng, M, layout[0], layout[1], phi)
    return draw_alpha(rng, n.shape[0] - 1, log_rest, prior)
