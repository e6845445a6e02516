"""Values of some columns of households drawn given all others, so that the whole is possible.

With t_j(c) the probability that member j has its known values and the cell c, given the household's
class g and the head's cell b, and a_j(e) the sum of those cells that fit,

    P(b, g) = prod_j a_j(0) + sum_j sum_s t_j(s) prod_{k != j} a_k(e(s)),    s the partner's cell;

class and head are drawn from it, then whether and who the partner is, then each other member.
"""

import numba
import numpy as np

from bayes_risk._core.arrays import Flags, Rng

from .masses import Theta, choose
from .rules import Layout, Persons, Rules


def completed(
    theta: Theta, rules: Rules, layout: Layout, persons: Persons, columns: Flags, *, rng: Rng
) -> Persons:
    """The same households, ``columns`` (p,) of the table drawn anew given the others."""
    household, member = persons.household.copy(), persons.member.copy()
    heads = columns[[*layout.own, *layout.person]]
    members = columns[[layout.relate, *layout.person]]
    tables = []
    for cells, open_ in ((rules.heads, heads), (rules.members, members)):
        fixed = (cells.levels() + cells.begin).astype(np.int32)
        tables.append((fixed, cells.columns, open_))
    complete(
        rng,
        (household, member, *persons[2:4]),
        tuple(theta),
        tuple(tables),
        (rules.head, rules.other, rules.spouse, rules.of_spouse),
        (layout.of_household, layout.of_member),
    )
    return persons._replace(household=household, member=member)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def consistent(row, fixed, columns, open_, out):
    """RuleCells that have the known levels of a row; their number."""
    n = 0
    for c in range(fixed.shape[0]):
        good = True
        for q in range(columns.shape[0]):
            k = columns[q]
            good = good and (open_[k] or fixed[c, q] == row[k])
        if good:
            out[n] = c
            n += 1
    return n


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_members(rows, g, omega, phi, table, cells, counts, w, t):
    """w[j, m]: members' known values and classes; t[j, k]: with the k-th of their cells."""
    fixed, columns, open_ = table
    for j in range(rows.shape[0]):
        for m in range(omega.shape[1]):
            w[j, m] = omega[g, m]
            for k in range(rows.shape[1]):
                if not open_[k]:
                    w[j, m] *= phi[rows[j, k], g, m]
        for a in range(counts[j]):
            t[j, a] = 0.0
            for m in range(omega.shape[1]):
                p = w[j, m]
                for q in range(columns.shape[0]):
                    if open_[columns[q]]:
                        p *= phi[fixed[cells[j, a], q], g, m]
                t[j, a] += p


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_sums(t, cells, counts, b, other, sums):
    """sums[j, e]: cells of member j who go with head b and partners of class e."""
    for e in range(other.shape[0]):
        for j in range(counts.shape[0]):
            sums[j, e] = 0.0
            for a in range(counts[j]):
                if other[e, b, cells[j, a]]:
                    sums[j, e] += t[j, a]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def but_one(sums, e, j):
    """Product over all members but one."""
    p = 1.0
    for k in range(sums.shape[0]):
        if k != j:
            p *= sums[k, e]
    return p


@numba.njit(cache=True, nogil=True, error_model="numpy")
def partner_weights(t, cells, counts, b, spouse, of_spouse, sums, out):
    """Weights of no partner, out[0, 0], and of member j with the a-th cell, out[1 + j, a]."""
    out[0, 0], total = but_one(sums, 0, -1), 0.0
    for j in range(counts.shape[0]):
        for a in range(counts[j]):
            s = cells[j, a]
            fit = of_spouse[s] > 0 and spouse[b, s]
            out[1 + j, a] = t[j, a] * but_one(sums, of_spouse[s], j) if fit else 0.0
            total += out[1 + j, a]
    return total + out[0, 0]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def complete(rng, persons, theta, tables, rules, starts):
    """Open columns of each household, in place."""
    household, member, first, size = persons
    pi, lam, omega, phi = theta
    of_heads, of_members = tables
    head, other, spouse, of_spouse = rules
    F, M, B, C = pi.shape[1], omega.shape[1], head.shape[0], of_spouse.shape[0]
    most = max((first[1:] - first[:-1]).max(), 1)
    heads, cells = np.empty(B, np.int64), np.empty((most, C), np.int64)
    counts_, w, t = np.zeros(most, np.int64), np.empty((most, M)), np.empty((most, C))
    sums_, who = np.empty((most, other.shape[0])), np.zeros((most + 1, C))
    buffer = np.empty(max(C, M, phi.shape[0], lam.shape[0]))
    for i in range(household.shape[0]):
        rows, r = member[first[i] : first[i + 1]], first[i + 1] - first[i]
        counts, sums = counts_[:r], sums_[:r]
        n_heads = consistent(household[i], of_heads[0], of_heads[1], of_heads[2], heads)
        for j in range(r):
            counts[j] = consistent(rows[j], of_members[0], of_members[1], of_members[2], cells[j])
        joint = np.zeros(n_heads * F)
        for g in range(F):
            p = pi[size[i], g]
            for k in range(household.shape[1]):
                if not of_heads[2][k]:
                    p *= lam[household[i, k], g]
            fill_members(rows, g, omega, phi, of_members, cells, counts, w, t)
            for a in range(n_heads):
                b = heads[a]
                if not head[b]:
                    continue
                whole = p
                for q in range(of_heads[1].shape[0]):
                    if of_heads[2][of_heads[1][q]]:
                        whole *= lam[of_heads[0][b, q], g]
                fill_sums(t, cells, counts, b, other, sums)
                whole *= partner_weights(t, cells, counts, b, spouse, of_spouse, sums, who)
                joint[g * n_heads + a] = whole
        chosen = choose(rng.random(), joint, joint.shape[0])
        g, b = chosen // n_heads, heads[chosen % n_heads]
        fill_members(rows, g, omega, phi, of_members, cells, counts, w, t)
        fill_sums(t, cells, counts, b, other, sums)
        total = partner_weights(t, cells, counts, b, spouse, of_spouse, sums, who)
        left, partner, cell = rng.random() * total - who[0, 0], -1, -1
        for j in range(r):
            for a in range(counts[j]):
                if left >= 0.0 and who[1 + j, a] > 0.0:
                    left -= who[1 + j, a]
                    partner, cell = j, cells[j, a]
        e = of_spouse[cell] if partner >= 0 else 0
        for q in range(of_heads[1].shape[0]):
            household[i, of_heads[1][q]] = of_heads[0][b, q]
        for k in range(household.shape[1]):
            if of_heads[2][k] and not (of_heads[1] == k).any():
                begin, end = starts[0][k], starts[0][k + 1]
                buffer[: end - begin] = lam[begin:end, g]
                household[i, k] = begin + choose(rng.random(), buffer, end - begin)
        for j in range(r):
            c = cell
            if j != partner:
                for a in range(counts[j]):
                    buffer[a] = t[j, a] if other[e, b, cells[j, a]] else 0.0
                c = cells[j, choose(rng.random(), buffer, counts[j])]
            for m in range(M):
                buffer[m] = w[j, m]
                for q in range(of_members[1].shape[0]):
                    if of_members[2][of_members[1][q]]:
                        buffer[m] *= phi[of_members[0][c, q], g, m]
            m = choose(rng.random(), buffer, M)
            for q in range(of_members[1].shape[0]):
                rows[j, of_members[1][q]] = of_members[0][c, q]
            for k in range(rows.shape[1]):
                if of_members[2][k] and not (of_members[1] == k).any():
                    begin, end = starts[1][k], starts[1][k + 1]
                    buffer[: end - begin] = phi[begin:end, g, m]
                    rows[j, k] = begin + choose(rng.random(), buffer, end - begin)
