"""Split and merge moves of mixtures of any families, weights and parameters integrated out.

The moves are those of `levels/split_merge.py`, where what any family needs is told; here is
what families say: the odds of a member's side, and marginal likelihoods. A record of weight w
counts w wherever the likelihood does, and one where a member is chosen. Structural zeros of counts
are drawn with the labels and stay as they are while labels move. The derivation stands in
`docs/mixtures.md`.

``rows``: data of units, powers (none: all 1), the unit of each individual, which of its zeros are
structural, and the column of each row of levels. ``classes``: weighted counts, individuals, sums.
The sides of a split are ``S``, sums as ``M`` with a column a side and a third of nobody, ``n2``
and ``size2``, parameters ``P[3, V]`` of numbers, totals ``T[3, q]`` of levels and prior mass, and a
list of values gone, of none.
"""

import math

import numba
import numpy as np

from bayes_risk.models.mixture.levels.split_merge import (
    accepted,
    choose_merge,
    choose_split,
    log_labels_ratio,
    owners,
    pick_slot,
    room_of,
    variables,
)

from .families import (
    PARAMETERS,
    add_unit,
    cumulated_masses,
    draw_structural,
    log_marginal,
    log_number,
    log_share,
    number_parameters,
    tables_of,
)
from .sweep import draw_class

NOBODY = 2  # the empty column of S


@numba.njit(cache=True, nogil=True)
def individuals(units, layout, wanted):
    """Rows of all individuals, and room for their labels; of nobody if none are wanted."""
    data, multiplicity, power = units
    owner = owners(multiplicity if wanted else multiplicity[:0])
    flags = np.zeros((owner.shape[0], data[1].shape[1]), np.bool_)
    return (data, power, owner, flags, variables(layout[0])), np.zeros(owner.shape[0], np.int16)


@numba.njit(cache=True, nogil=True)
def draw_each_label(rng, rows, pi, phi, layout, classes, z):
    """z_i ~ p(z_i | y_i, pi, phi) of every individual, and which of its zeros are structural."""
    data, power, owner, flags, _ = rows
    n, size, M = classes
    tables, masses = tables_of(pi, phi, layout), np.empty(pi.shape[0])
    n[:] = 0.0
    size[:] = 0
    M[:] = 0.0
    for i in range(owner.shape[0]):
        u = owner[i]
        if i == 0 or owner[i - 1] != u:
            cumulated_masses(data, power, u, phi, layout, tables, masses)
        k = draw_class(rng, masses)
        z[i] = k
        size[k] += 1
        draw_structural(rng, data, u, k, 1, phi, layout, flags[i])
        add_unit(data, u, k, power[u] if power.shape[0] > 0 else 1.0, 1, flags[i], layout, n, M)


@numba.njit(cache=True, nogil=True)
def new_sides(layout, n_sums):
    """Room for two sides; parameters and totals of nobody."""
    starts, n_numbers = layout[0], layout[2].shape[0] + layout[6].shape[0]
    D, q, nothing = starts[-1] + 1, starts.shape[0] - 1, np.zeros((0, 4))
    S, P, T = np.zeros((n_sums, 3)), np.empty((3, n_numbers, PARAMETERS)), np.empty((3, q))
    for v in range(n_numbers):
        number_parameters(S, S[:D], layout, False, v, NOBODY, nothing, P[NOBODY, v])
    for j in range(q):
        T[NOBODY, j] = layout[1] * (starts[j + 1] - starts[j])
    return S, np.empty(2), np.empty(2, np.int64), P, T, nothing


@numba.njit(cache=True, nogil=True)
def empty_sides(sides):
    """Nobody on either side."""
    S, n2, size2, P, T, _ = sides
    S[:] = 0.0
    n2[:] = 0.0
    size2[:] = 0
    for s in range(2):
        P[s] = P[NOBODY]
        T[s] = T[NOBODY]


@numba.njit(cache=True, nogil=True)
def add_member(rows, i, w, layout, sides, s):
    """Put an individual on side s; parameters of what it has values of follow."""
    data, _, owner, flags, variable = rows
    S, n2, size2, P, T, nothing = sides
    u, p, r, D = owner[i], layout[2].shape[0], layout[6].shape[0], layout[0][-1] + 1
    positions, counts, exposure, reals = data
    size2[s] += 1
    add_unit(data, u, s, w, 1, flags[i], layout, n2, S)
    for c in range(counts.shape[1]):
        if exposure[u, c] > 0.0:
            number_parameters(S, S[:D], layout, False, c % p, s, nothing, P[s, c % p])
    for c in range(reals.shape[1]):
        if reals[u, c] == reals[u, c]:
            v = p + c % r
            number_parameters(S, S[:D], layout, False, v, s, nothing, P[s, v])
    for j in range(positions.shape[1]):
        if positions[u, j] < D - 1:
            T[s, variable[positions[u, j]]] += w


@numba.njit(cache=True, nogil=True)
def log_odds(rows, i, w, layout, sides, nothing):
    """log of n_B^w E[f(values)^w | B] over n_A^w E[f(values)^w | A]; those of a row one by one."""
    data, _, owner, flags, variable = rows
    S, n2, _, P, T, _ = sides
    u, p, r, a = owner[i], layout[2].shape[0], layout[6].shape[0], layout[1]
    positions, counts, exposure, reals = data
    total = w * math.log(n2[1] / n2[0])
    for c in range(counts.shape[1]):
        x, e, A, B = counts[u, c], exposure[u, c], P[0, c % p], P[1, c % p]
        if e > 0.0:
            if flags[i, c]:
                total += w * math.log(B[3] / A[3])
                continue
            if layout[4]:
                total += w * math.log((1.0 - B[3]) / (1.0 - A[3]))
            total += log_number(x, e, B, False, False, w, nothing)
            total -= log_number(x, e, A, False, False, w, nothing)
    for c in range(reals.shape[1]):
        x, v = reals[u, c], p + c % r
        if x == x:
            total += log_number(x, 1.0, P[1, v], True, False, w, nothing)
            total -= log_number(x, 1.0, P[0, v], True, False, w, nothing)
    for j in range(positions.shape[1]):
        row = positions[u, j]
        if row < layout[0][-1]:
            v = variable[row]
            total += log_share(S[row, 1] + a, T[1, v], w) - log_share(S[row, 0] + a, T[0, v], w)
    return total


@numba.njit(cache=True, nogil=True)
def allocate(rng, members, count, rows, layout, goal, forced, side, sides):
    """Deal members[2:count] to the sides of members[0] and members[1]; returns log q of the deal.

    If ``forced`` the deal is made to end in ``goal``, and log q is what it would have cost.
    """
    power, owner, nothing = rows[1], rows[2], np.zeros(2)
    empty_sides(sides)
    log_q = 0.0
    for t in range(count):
        i = members[t]
        w = power[owner[i]] if power.shape[0] > 0 else 1.0
        if t < 2:
            side[t] = t
        else:
            odds = log_odds(rows, i, w, layout, sides, nothing)
            side[t] = goal[t] if forced else rng.random() * (1.0 + math.exp(-odds)) < 1.0
            lost = odds if side[t] == 0 else -odds
            log_q -= max(lost, 0.0) + math.log1p(math.exp(-abs(lost)))
        add_member(rows, i, w, layout, sides, side[t])
    return log_q


@numba.njit(cache=True, nogil=True)
def log_split_ratio(classes, k, layout, sides, alpha, log_q, slots):
    """log of the acceptance ratio of a split of class k, ``classes`` as before it.

    p(y_A) p(y_B) / p(y_A, y_B) = p(y_B) / p(y_B | y_A).
    """
    S, n2, size2 = sides[:3]
    gain = log_marginal(S, layout, 1, NOBODY) - log_marginal(S, layout, 1, 0)
    return gain + log_labels_ratio(classes[0], classes[1], k, n2, size2, alpha, slots) - log_q


@numba.njit(cache=True, nogil=True)
def split(rng, rows, layout, alpha, classes, z, room):
    """Propose to split a class; returns whether it was."""
    (members, side, goal), sides, slots = room
    n, size, M = classes
    k, count = choose_split(rng, size, z, members)
    if count == 0:
        return False
    log_q = allocate(rng, members, count, rows, layout, goal, False, side, sides)
    if not accepted(rng, log_split_ratio(classes, k, layout, sides, alpha, log_q, slots)):
        return False
    e = pick_slot(rng, slots)
    for s, c in enumerate((k, e)):
        n[c], size[c], M[:, c] = sides[1][s], sides[2][s], sides[0][:, s]
    for t in range(count):
        if side[t]:
            z[members[t]] = e
    return True


@numba.njit(cache=True, nogil=True)
def merge(rng, rows, layout, alpha, classes, z, room):
    """Propose to merge class e into class k; returns whether it was."""
    (members, side, goal), sides, slots = room
    (n, size, M), n2, size2 = classes, sides[1], sides[2]
    k, e, count = choose_merge(rng, size, z, members, goal)
    if count == 0:
        return False
    log_q = allocate(rng, members, count, rows, layout, goal, True, side, sides)
    n[k], n[e], size[k], size[e] = n2[0] + n2[1], 0.0, count, 0
    if not accepted(rng, -log_split_ratio(classes, k, layout, sides, alpha, log_q, slots)):
        n[k], n[e], size[k], size[e] = n2[0], n2[1], size2[0], size2[1]
        return False
    M[:, k] += M[:, e]
    M[:, e] = 0.0
    for t in range(count):
        z[members[t]] = k
    return True


@numba.njit(cache=True, nogil=True)
def split_merge(rng, moves, rows, layout, alpha, classes, z, tally):
    """`moves` proposals, a split or a merge by a coin; tally[kind, 0 or 1] counts tries, moves."""
    sides = new_sides(layout, classes[2].shape[0])
    room = room_of(z.shape[0]), sides, np.empty(classes[0].shape[0])
    for _ in range(moves):
        kind = int(rng.random() < 0.5)
        tally[kind, 0] += 1
        if kind == 0:
            tally[0, 1] += split(rng, rows, layout, alpha, classes, z, room)
        else:
            tally[1, 1] += merge(rng, rows, layout, alpha, classes, z, room)
