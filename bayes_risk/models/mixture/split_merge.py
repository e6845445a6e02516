"""Split and merge moves of a mixture's chain, weights and parameters integrated out.

After the labels z are drawn, R moves leave p(z | alpha, y) as it is, and the sweep then draws V and
phi given the labels, as ever: one step of a partially collapsed Gibbs sampler. A move splits one
class in two, the second half into an empty slot, or merges two. Members are dealt to the halves one
after the other (Dahl 2005), by odds that may be any: what a deal costs is in the ratio. Those of
levels are the predictive odds, of numbers those at the means of the parameters, which are renewed
after each of the first members and after some of the later ones; of a record of weight w they have
power w. Such a record counts w wherever the likelihood does, and one where a member is chosen.
Structural zeros of counts are drawn with the labels and stay as they are while labels move.

Weights and level probabilities integrate out:

    p(z|alpha) = prod_{k<K} E[V_k^{n_k} (1-V_k)^{n_{>k}}]
               = prod_{k<K} B(1 + n_k, alpha + n_{>k}) / B(1, alpha),
    p(y|z)     = prod_k prod_j  prod_c G(a + M_kj(c)) / G(a)  /  [ G(d_j a + T_kj) / G(d_j a) ],

G the gamma function. A record linked to its synthetic values counts as one, with both. The sweep
draws z | theta, alpha, y; moves z by kernels that leave p(z|alpha,y) invariant; draws V, phi given
z, and alpha | V.

*Split.* With m occupied classes, m_2 of at least two members: choose class k among the m_2, two of
its n members in order, i and j, which separate, and a random order of the others, which choose one
after another with odds n_B p(y_t|B) / (n_A p(y_t|A)) given those allocated so far (Dahl 2005); q is
the product of these chances. B goes to an empty slot e in proportion to p(z'_e|alpha). *Merge*: two
occupied classes in order; all of e go to k; q as if allocated as they are. The chances there and
back are

    1/m_2 · 1/(n (n-1)) · q · p(z'_e|alpha) / sum_e' p(z'_e'|alpha),
    1/((m+1) m) · 1/(n_A n_B),

so a split is accepted with chance min(1, r), a merge with min(1, 1/r),

    r = p(y_A) p(y_B) / p(y_A,y_B) · sum_e p(z'_e|alpha) / p(z|alpha)
        · m_2 n (n-1) / ((m+1) m n_A n_B q).

*Numbers, weights.* Rates, chances of structural zeros and amounts of a class give p(y|z) the
factors

    B^A G(A+X)/(G(A)(B+E)^(A+X)),   B(a0+n0,b0+n1)/B(a0,b0),
    G(a')b^a(k/k')^½/(G(a)b'^a'(2pi)^(n/2)),   X=sum wx,   E=sum we,   n=sum w,
    k'=k+n,   a'=a+n/2,   b'=b+sum w(x-m)^2/2-(sum w(x-m))^2/(2k').

Dahl (2005), technical report, Texas A&M.
"""

import math
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags

from .families import add_numbers, log_marginal, log_sum_of, real_given
from .kernel_arguments import LevelLayout, LevelSides, NumberSides
from .state import LevelRows, Rows
from .sweep import TINY, cumulate, draw_class, log_order

NOBODY = 2  # the empty column of sums
BIG, REACH = 1e100, 200.0  # bounds of odds, and of what numbers add to their log
SMALL = 1e-150  # product of chances that is put aside as a log
FEW, EVERY = 32, 8  # members after each of which parameters are renewed; thereafter


class Individuals(NamedTuple):
    """Individuals one by one, of U units."""

    data: LevelRows | Rows
    power: Array  # (U,); none: all 1
    owner: npt.NDArray[np.int32]  # (N,): the unit of each individual
    flags: Flags  # (N, c): which of its zeros are structural
    variable: npt.NDArray[np.uint64]  # (D,): the column of each row of levels


@numba.njit(cache=True, nogil=True, error_model="numpy")
def individuals(units, layout, wanted):
    """Rows of all individuals, and room for labels and sides; of nobody if none are wanted."""
    multiplicity, starts = units.multiplicity, layout.starts
    variable = np.empty(starts[-1] + 1, np.uint64)
    for j in range(starts.shape[0] - 1):
        variable[starts[j] : starts[j + 1]] = j
    variable[-1] = starts.shape[0] - 1
    owner = np.empty(multiplicity.sum() if wanted else 0, np.int32)
    at = 0
    for u in range(multiplicity.shape[0] if wanted else 0):
        owner[at : at + multiplicity[u]] = u
        at += multiplicity[u]
    p, r, z = layout.shape.shape[0], layout.reals.shape[0], np.zeros(at, np.int16)
    S, T = np.zeros((starts[-1] + 1 + 2 * p + r, 3)), np.empty((2, starts.shape[0]))
    n, size = np.empty(2), np.empty(2, np.int64)
    if len(units) == 2:
        flags = np.zeros((at, 0), np.bool_)
        rows = Individuals(units.data, np.empty(0), owner, flags, variable)
        return rows, z, LevelSides(S, n, size, T)
    flags, P = np.zeros((at, units.data.counts.shape[1]), np.bool_), np.empty((2, p + r, 4))
    rows = Individuals(units.data, units.power, owner, flags, variable)
    return rows, z, NumberSides(S, n, size, T, P)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def below(rng, n):
    """An integer from 0 to n - 1."""
    return min(int(rng.random() * n), n - 1)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def gather(z, k, members, count):
    """Append the individuals of class k, with room for one more; returns how many there are now."""
    for i in range(z.shape[0]):
        members[count] = i
        count += z[i] == k
    return count


@numba.njit(cache=True, nogil=True, error_model="numpy")
def renew(S, layout, s, P):
    """Parameters of the numbers of a side, at their means given its sums."""
    shape, rate, beta, reals = layout.shape, layout.rate, layout.beta, layout.reals
    p, r, D = shape.shape[0], reals.shape[0], layout.starts[-1] + 1
    for v in range(p):
        mean = (shape[v] + S[v, s]) / (rate[v] + S[D + v, s])
        P[s, v, 0], P[s, v, 1] = mean, math.log(mean)
        if layout.inflated:
            both = beta[0] + S[p + v, s] + beta[1] + S[D + p + v, s]
            P[s, v, 2] = math.log((beta[0] + S[p + v, s]) / both)
            P[s, v, 3] = math.log((beta[1] + S[D + p + v, s]) / both)
    for j in range(r):
        m, kappa, a, b = real_given(
            S[D + 2 * p + j, s], S[2 * p + j, s], S[2 * p + r + j, s], reals[j]
        )
        precision = a * kappa / (b * (kappa + 1.0))
        P[s, p + j, 0], P[s, p + j, 1], P[s, p + j, 2] = m, precision, 0.5 * math.log(precision)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_odds_of_numbers(data, u, flags, i, layout, P):
    """log p(numbers | B) / p(numbers | A), held in range; flags[i, c]: a structural zero."""
    p, r, total = layout.shape.shape[0], layout.reals.shape[0], 0.0
    for c in range(data.counts.shape[1]):
        x, e, v = data.counts[u, c], data.exposure[u, c], c % p
        if e > 0.0:
            if layout.inflated:
                kind = 2 if flags[i, c] else 3
                total += P[1, v, kind] - P[0, v, kind]
            if not flags[i, c]:
                total += x * (P[1, v, 1] - P[0, v, 1]) - e * (P[1, v, 0] - P[0, v, 0])
    for c in range(data.reals.shape[1]):
        x, v = data.reals[u, c], p + c % r
        if x == x:
            first, second = x - P[0, v, 0], x - P[1, v, 0]
            total += P[1, v, 2] - P[0, v, 2]
            total += 0.5 * (P[0, v, 1] * first * first - P[1, v, 1] * second * second)
    return min(max(total, -REACH), REACH)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def allocate(rng, members, count, rows, layout, goal, forced, side, sides):
    """Deal members[2:count] to the sides of members[0] and members[1]; returns log q of the deal.

    If ``forced`` it is made to end in ``goal``. The odds are n_B p(row | B) / (n_A p(row | A)).
    """
    data, power, owner, flags, variable = (
        rows.data, rows.power, rows.owner, rows.flags, rows.variable,
    )  # fmt: skip
    S, n2, size2, T = sides.S, sides.n, sides.size, sides.T
    positions, starts, a = data.positions, layout.starts, layout.level
    S[:] = 0.0
    n2[:] = 0.0
    size2[:] = 0
    for j in range(starts.shape[0] - 1):
        T[:, j] = a * (starts[j + 1] - starts[j])
    T[:, -1] = a
    if len(sides) > 4:
        for s in range(2):
            renew(S, layout, s, sides.P)
    log_q, chance, q, zero, one = 0.0, 1.0, positions.shape[1], np.uint64(0), np.uint64(1)
    for t in range(count):
        i = members[t]
        u, s = np.int64(owner[i]), t
        w = power[u] if power.shape[0] > 0 else 1.0
        if t >= 2:
            odds, second, first = 1.0, n2[1], n2[0]
            for j in range(q):
                row = np.uint64(positions[u, j])
                second *= (S[row, one] + a) * T[zero, variable[row]]
                first *= (S[row, zero] + a) * T[one, variable[row]]
                if j % 8 == 7:  # few divisions, and nothing overflows
                    odds = min(max(odds * (second / first), 1.0 / BIG), BIG)
                    first = second = 1.0
            odds = min(max(odds * (second / first), 1.0 / BIG), BIG)
            if len(sides) > 4 and sides.P.shape[1] > 0:
                odds *= math.exp(log_odds_of_numbers(data, u, flags, i, layout, sides.P))
                odds = min(max(odds, 1.0 / BIG), BIG)
            if w != 1.0:
                odds = odds**w
            s = int(goal[t]) if forced else int(rng.random() * (1.0 + odds) < odds)
            chance *= (odds if s == 1 else 1.0) / (1.0 + odds)
            if chance < SMALL:
                log_q, chance = log_q + math.log(chance), 1.0
        side[t] = s
        size2[s] += 1
        n2[s] += w
        side_s = np.uint64(s)
        for j in range(q):
            row = np.uint64(positions[u, j])
            S[row, side_s] += w
            T[side_s, variable[row]] += w
        if len(sides) > 4 and sides.P.shape[1] > 0:
            add_numbers(data, u, s, w, 1, flags[i], layout, S)
            if size2[s] <= FEW or size2[s] % EVERY == 0:
                renew(S, layout, s, sides.P)
    return log_q + math.log(chance)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_slots(n, extra, alpha, out):
    """out[e] = log p(z | alpha), up to a constant, if `extra` more sit in slot e; taken: -inf."""
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_split_ratio(classes, k, layout, sides, alpha, log_q, slots):
    """log of the acceptance ratio of a split of class k, ``classes`` as before it.

    p(y_A) p(y_B) / p(y_A, y_B) = p(y_B) / p(y_B | y_A). ``slots``: chances of side 1.
    """
    S, n2, size2, n, size = sides.S, sides.n, sides.size, classes.n, classes.size
    families = layout if len(sides) > 4 else LevelLayout(layout.starts, layout.level)
    gain = 0.0
    for seen in range(0, NOBODY + 1, NOBODY):  # one call: a constant would compile it twice
        gain = log_marginal(S, families, 1, seen) - gain
    after, now = 0, 0.0  # log p(z | alpha) up to a constant
    for c in range(n.shape[0] - 1, -1, -1):
        if c < n.shape[0] - 1:
            now += log_order(n[c], after, alpha)
        after += n[c]
    n[k] = n2[0]
    log_slots(n, n2[1], alpha, slots)
    n[k] = n2[0] + n2[1]
    occupied, splittable = (size > 0).sum(), (size > 1).sum()
    back = -math.log(occupied * (occupied + 1.0)) - math.log(size2[0]) - math.log(size2[1])
    there = -math.log(splittable) - math.log(size[k]) - math.log(size[k] - 1.0)
    return gain + (log_sum_of(slots) - now + back - there) - log_q


@numba.njit(cache=True, nogil=True, error_model="numpy")
def pick(rng, n, least, other):
    """A class with at least so many members, not `other`, chosen uniformly; -1 if there is none."""
    some, count = np.empty(n.shape[0], np.int64), 0
    for k in range(n.shape[0]):
        some[count] = k
        count += n[k] >= least and k != other
    return some[below(rng, count)] if count > 0 else -1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def split_merge(rng, moves, rows, layout, alpha, classes, z, sides, tally):
    """`moves` proposals, a split or a merge by a coin; tally[kind, 0 or 1] counts tries, moves."""
    n, size, M, S, n2, size2 = (
        classes.n, classes.size, classes.M, sides.S, sides.n, sides.size,
    )  # fmt: skip
    most, slots = z.shape[0] + 1, np.empty(n.shape[0])
    members, side, goal = np.empty(most, np.int32), np.empty(most, np.int8), np.empty(most, np.int8)
    for _ in range(moves):
        merges = rng.random() < 0.5
        kind = int(merges)
        tally[kind, 0] += 1
        k, e = pick(rng, size, 2 - kind, size.shape[0]), -1
        if merges:
            e = pick(rng, size, kind, k)
        if (e if merges else k) < 0 or (not merges and size.min() > 0):
            continue
        count = gather(z, k, members, np.int64(0))
        if merges:
            count = gather(z, e, members, count)
            first, second = below(rng, size[k]), size[k] + below(rng, size[e])
            members[0], members[first] = members[first], members[0]
            members[1], members[second] = members[second], members[1]
        for t in range(count - 1, 2 * kind, -1):  # the others in a random order
            r = 2 * kind + below(rng, t - 2 * kind + 1)
            members[t], members[r] = members[r], members[t]
        for t in range(count):
            goal[t] = merges and z[members[t]] == e
        log_q = allocate(rng, members, count, rows, layout, goal, merges, side, sides)
        if merges:
            n[k], n[e], size[k], size[e] = n2[0] + n2[1], 0.0, count, 0
        log_ratio = log_split_ratio(classes, k, layout, sides, alpha, log_q, slots)
        taken = math.log(max(rng.random(), TINY)) < (-log_ratio if merges else log_ratio)
        tally[kind, 1] += taken
        if merges and not taken:
            n[k], n[e], size[k], size[e] = n2[0], n2[1], size2[0], size2[1]
        elif merges:
            for c in range(M.shape[0]):
                M[c, k] += M[c, e]
                M[c, e] = 0.0
            for t in range(count):
                z[members[t]] = k
        elif taken:
            # an empty slot, in proportion to p(z | alpha), as `log_split_ratio` has left it
            cumulate(slots)
            e = draw_class(rng, slots)
            n[k], n[e], size[k], size[e] = n2[0], n2[1], size2[0], size2[1]
            for c in range(M.shape[0]):
                M[c, k], M[c, e] = S[c, 0], S[c, 1]
            for t in range(count):
                if side[t]:
                    z[members[t]] = e
