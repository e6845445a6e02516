"""How probable possible households are, in closed form, and households drawn without rejection.

Given the class g of a household of 1 + r persons, the head's cell b, and the partner's cell s, the
other members are independent. With psi_g(c) the probability of a member's cell, its class summed
out, and A_e = sum of psi_g over the members who are no partner and go with b and partners of class
e (e = 0: no partner),

    P(possible | g, b, r) = A_0^r + r sum_s psi_g(s) A_e(s)^(r-1).

An impossible household is drawn member by member until it is one: with Q_t the probability above of
t members, the t-th makes it impossible with probability Q_(t-1) - Q_t. All after that are summed
out. Only how often each cell is drawn enters a sweep.
"""

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Ints, Rng

from .rules import Layout, Persons, RuleCells, Rules

TINY = 1e-300
TRIES = 10_000  # of a cell, the rarer the more rarely it is wanted


class Theta(NamedTuple):
    """One draw of the parameters; S sizes, F classes of households, M of members in each."""

    pi: Array  # (S, F)
    lam: Array  # (Dh, F): levels of household and head
    omega: Array  # (F, M)
    phi: Array  # (Dm, F, M): levels of members


class CellMasses(NamedTuple):
    """Probabilities of the cells that the rules name, under one draw."""

    head: Array  # (B, F)
    member: Array  # (C, F, M): with the member's class
    psi: Array  # (C, F): that summed out

    @classmethod
    def of(cls, theta: Theta, rules: Rules) -> "CellMasses":
        """Of all cells."""
        head = of_cells(rules.heads, theta.lam, np.ones(theta.lam.shape[1]))
        member = of_cells(rules.members, theta.phi, theta.omega)
        return cls(head, member, member @ np.ones(member.shape[2]))


class Masses(NamedTuple):
    """Probabilities of what is possible, under one draw."""

    theta: Theta
    rules: Rules
    layout: Layout
    cells: CellMasses
    fits: Array  # (E + 1, B, F): A_e
    partners: Array  # (E, B, F): partners of class e who go with the head
    begun: Array  # (R, B, F): P(possible | g, b, r) of r = 0, 1 .. further members

    @classmethod
    def of(cls, theta: Theta, rules: Rules, layout: Layout) -> "Masses":
        """Of the cells that the rules name."""
        cells = CellMasses.of(theta, rules)
        fits = (rules.sets @ cells.psi)[rules.set_of]
        partners = np.zeros_like(fits[1:])
        for e, own in enumerate(partners, start=1):
            some = rules.of_spouse == e
            own[:] = rules.spouse[:, some] @ cells.psi[some]
        begun = np.empty((int(layout.sizes[-1]), *cells.head.shape))
        none, one = np.ones_like(fits[0]), partners.copy()  # A_0^r; psi A_e^(r - 1)
        for r, found in enumerate(begun):
            none *= fits[0] if r else 1.0
            one *= fits[1:] if r > 1 else 1.0
            np.minimum(none + r * one.sum(axis=0), 1.0, out=found)
            found[~rules.head] = 0.0
        return cls(theta, rules, layout, cells, fits, partners, begun)

    def by_size(self) -> Array:
        """P(possible | size), (S,)."""
        each = (self.cells.head * self.begun[self.layout.sizes - 1]).sum(axis=1)
        return np.asarray((self.theta.pi * each).sum(axis=1))


def of_cells(cells: RuleCells, levels: Array, weight: Array) -> Array:
    """Product over the columns of a cell, times a weight of each class."""
    found = np.broadcast_to(weight, (1, *weight.shape))
    for begin, d in zip(cells.begin, cells.dims, strict=True):
        found = (found[:, None] * levels[begin : begin + d]).reshape(-1, *weight.shape)
    return np.ascontiguousarray(found)


class DrawnCells(NamedTuple):
    """Households by cells: of each its size, class and head, and the cells of further members."""

    size: Ints
    label: Ints
    heads: Ints
    first: Ints
    cells: Ints


def drawn_cells(masses: Masses, many: Ints, *, rng: Rng) -> DrawnCells:
    """So many possible households of each size (S,)."""
    theta, rules, layout, of_cell = masses[:4]
    B, F = of_cell.head.shape
    b, g = [], []
    for s, fit in enumerate(masses.begun[layout.sizes - 1]):
        counts = multinomials(rng, many[s], (theta.pi[s] * of_cell.head * fit).ravel())
        at = rng.permutation(np.repeat(np.arange(B * F), counts))
        b.append(at // F)
        g.append(at % F)
    heads, label = np.concatenate(b), np.concatenate(g)
    size = np.repeat(np.arange(len(many)), many)
    first = np.concatenate([[0], np.cumsum(layout.sizes[size] - 1)]).astype(np.int64)
    cells = np.empty(first[-1], np.int64)
    partners = np.flatnonzero(rules.of_spouse)
    psi = np.ascontiguousarray(of_cell.psi.T)
    rule = rules.other, rules.spouse, rules.of_spouse, partners
    draw_cells(rng, label, heads, first, psi, masses.fits, *rule, cells)
    return DrawnCells(size, label, heads, first, cells)


class DrawnImpossible(NamedTuple):
    """Impossible households: how often each of their levels was drawn; themselves, if kept.

    Columns that no rule names are summed out, as are members who come after one by whom a household
    is impossible: both may be anything. Positions of those columns are -1.
    """

    counts: Theta
    persons: Persons
    label: Ints  # class of each
    classes: Ints  # and of its members


def drawn_impossible(masses: Masses, many: Ints, kept: bool, *, rng: Rng) -> DrawnImpossible:
    """So many impossible households of each size (S,)."""
    theta, rules, layout, of_cell = masses[:4]
    weights = theta.pi[:, None] * of_cell.head * (1.0 - masses.begun[layout.sizes - 1])
    each = np.zeros(weights.shape, np.int64)
    spread_draws(rng, many, weights.reshape(len(many), -1), each.reshape(len(many), -1))
    n, N = int(many.sum()) * kept, int(many @ (layout.sizes - 1)) * kept
    label, heads, size, cells, classes = (np.empty(k, np.int64) for k in (n, n, n, N, N))
    first, lam = np.zeros(n + 1, np.int64), np.zeros(theta.lam.shape)
    omega, phi = np.zeros(theta.omega.shape), np.zeros(theta.phi.shape)
    psi, rule = np.ascontiguousarray(of_cell.psi.T), (rules.other, rules.spouse, rules.of_spouse)
    given = masses.begun, masses.fits, masses.partners
    drawn = label, heads, size, first, cells, classes
    counts = rules.members.levels() + rules.members.begin, omega, phi
    further = layout.sizes - 1
    draw_violations(rng, each, further, given, psi, rule, of_cell.member, counts, drawn)
    whole = each.sum(axis=0).reshape(*rules.heads.dims, -1)
    for k, q in enumerate(rules.heads.columns):
        others = tuple(x for x in range(len(rules.heads.dims)) if x != k)
        lam[layout.of_household[q] : layout.of_household[q + 1]] = whole.sum(axis=others)
    rows = list[npt.NDArray[np.int32]]()
    for of, at, starts in (
        (rules.heads, heads, layout.of_household),
        (rules.members, cells[: first[-1]], layout.of_member),
    ):
        rows.append(np.full((len(at), len(starts) - 1), -1, np.int32))
        rows[-1][:, of.columns] = (of.levels() + of.begin)[at]
    (household, member), nothing = rows, np.empty(0, np.int64)
    persons = Persons(household, member, first, size, nothing, nothing)
    found = Theta(each.sum(axis=1).astype(float), lam, omega, phi)
    return DrawnImpossible(found, persons, label, classes[: first[-1]])


def multinomials(rng: Rng, n: Ints, p: Array) -> Ints:
    """Draws for each n, probabilities along the last axis up to a factor."""
    whole = np.maximum(p.sum(axis=-1, keepdims=True), TINY)
    return rng.multinomial(n, p / whole)


def drawn_households(masses: Masses, many: Ints, *, rng: Rng) -> Persons:
    """So many possible households of each size (S,)."""
    theta, rules, layout, of_cell = masses[:4]
    size, label, heads, first, cells = drawn_cells(masses, many, rng=rng)
    (B, F), n, N = of_cell.head.shape, len(heads), len(cells)
    household = np.empty((n, len(layout.of_household) - 1), np.int32)
    member = np.empty((N, len(layout.of_member) - 1), np.int32)
    of = np.repeat(label, np.diff(first))
    lam = np.ascontiguousarray(theta.lam[:, :, None])
    for rows, cell, where, starts, of_each, levels, weight in (
        (household, heads, label, layout.of_household, rules.heads, lam, np.ones((B, F, 1))),
        (member, cells, of, layout.of_member, rules.members, theta.phi, of_cell.member),
    ):
        fixed = of_each.levels() + of_each.begin
        free = np.setdiff1d(np.arange(len(starts) - 1), of_each.columns)
        draw_rest(rng, cell, where, fixed, of_each.columns, free, starts, weight, levels, rows)
    nothing = np.empty(0, np.int64)
    return Persons(household, member, first, size, nothing, nothing)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def spread_draws(rng, many, weights, out):
    """Adds many[s] draws over weights (S, C) to ``out``, by uniforms in order: their spacings."""
    for s in range(many.shape[0]):
        n, total, whole = many[s], 0.0, 0.0
        at = np.empty(n)
        for k in range(n):
            total += rng.standard_exponential()
            at[k] = total
        total += rng.standard_exponential()
        for c in range(weights.shape[1]):
            whole += weights[s, c]
        below, c, last = weights[s, 0], 0, weights.shape[1] - 1
        for k in range(n):
            u = at[k] / total * whole
            while below <= u and c < last:
                c += 1
                below += weights[s, c]
            out[s, c] += 1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def choose(u, weights, n):
    """Place among n weights, which need not sum to 1; u is uniform."""
    total = 0.0
    for k in range(n):
        total += weights[k]
    left, last = u * total, 0
    for k in range(n):
        if weights[k] > 0.0:
            last = k
            left -= weights[k]
            if left < 0.0:
                return k
    return last


@numba.njit(cache=True, nogil=True, error_model="numpy")
def drawn_place(u, weights, n):
    """Place among n cumulated weights; u is uniform."""
    u *= weights[n - 1]
    begin, end = 0, n - 1
    while begin < end:
        middle = (begin + end) // 2
        if weights[middle] > u:
            end = middle
        else:
            begin = middle + 1
    return begin


@numba.njit(cache=True, nogil=True, error_model="numpy")
def one_cell(rng, alias, which, rule, e, but, b):
    """Cell of one who is no partner, goes with class e (-1: any), and not with class ``but``.

    Where ``which`` is 1: of a partner of class e, 0: who does not go with the head. -1: none found.
    """
    share, other_cell, cells, number = alias
    other, spouse, of_spouse = rule
    for _ in range(TRIES if number[which] else 0):
        u = rng.random() * number[which]
        k = int(u)
        if u - k >= share[which, k]:
            k = other_cell[which, k]
        c = cells[which, k]
        if which:
            good = e < 0 or e == (of_spouse[c] if spouse[b, c] else 0)
        else:
            good = (e < 0 or other[e, b, c]) and (but < 0 or not other[but, b, c])
        if good:
            return c
    return -1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_alias(weights, buffer, share, other_cell):
    """Tables of Walker's alias method (1977): cell c with probability share[c], else another."""
    C, total, small, large = weights.shape[0], 0.0, 0, weights.shape[0]
    for c in range(C):
        total += weights[c]
    for c in range(C):
        share[c] = weights[c] * C / total if total > 0.0 else 1.0
        other_cell[c] = c
        if share[c] < 1.0:
            buffer[small] = c
            small += 1
        else:
            large -= 1
            buffer[large] = c
    while small > 0 and large < C:
        small -= 1
        c, big = buffer[small], buffer[large]
        other_cell[c] = big
        share[big] -= 1.0 - share[c]
        if share[big] < 1.0:
            large += 1
            buffer[small] = big
            small += 1
    for k in range(small):  # what rounding leaves
        share[buffer[k]] = 1.0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def small_power(x, k):
    """x to a small whole number k."""
    y = 1.0
    for _ in range(k):
        y *= x
    return y


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_kinds(t, x, good, p, kinds):
    """Ways in which the t-th member makes a household impossible, cumulated; see `draw_violations`.

    0: does not fit, 1: a partner who does not go with the head, and with a partner of class e,
    3 e: does not fit, 3 e + 1: another; 3 e - 1: is that partner, and some before do not fit.
    """
    alone = small_power(x[0], t - 1)
    kinds[0] = alone * (1.0 - p - x[0])
    kinds[1] = alone * (p - good.sum())
    for e in range(1, x.shape[0]):
        beside = good[e - 1] * (t - 1) * small_power(x[e], t - 2)
        kinds[3 * e - 1] = good[e - 1] * (alone - small_power(x[e], t - 1))
        kinds[3 * e] = beside * (1.0 - p - x[e])
        kinds[3 * e + 1] = beside * p
    for k in range(kinds.shape[0]):
        kinds[k] = max(kinds[k], 0.0) + (kinds[k - 1] if k else 0.0)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_found(found, cell):
    """A cell at the end of a list that begins with its length; -1: none."""
    found[0] += cell >= 0
    found[found[0]] = cell if cell >= 0 else found[found[0]]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_violations(rng, many, further, given, psi, rule, member, counts, drawn):
    """Counts of classes and levels of members of impossible households (S, B, F); each, if kept.

    Only of the first t of each, the last of whom makes it impossible.
    """
    (fixed, omega, phi), (label, heads, size, first, cells_of, classes) = counts, drawn
    kept = label.shape[0] > 0
    begun, fits, good = given
    of_spouse = rule[2]
    (S, B, F), C, M, (R, E) = many.shape, psi.shape[1], member.shape[2], (len(begun), len(good))
    share, other_cell = np.empty((2, C)), np.empty((2, C), np.int64)
    cells, number = np.empty((2, C), np.int64), np.zeros(2, np.int64)
    alias, weights, buffer = (share, other_cell, cells, number), np.empty(C), np.empty(C, np.int64)
    for c in range(C):
        which = int(of_spouse[c] > 0)
        cells[which, number[which]] = c
        number[which] += 1
    kinds, filled, h, n = np.empty((R, 3 * E + 2)), np.empty(R, np.bool_), 0, 0
    found = np.zeros(R + 2, np.int64)
    for g in range(F):
        if not many[:, :, g].any():
            continue
        for which in range(2):
            partners = 0.0
            for k in range(number[which]):
                weights[k] = psi[g, cells[which, k]]
                partners += weights[k]
            fill_alias(weights[: number[which]], buffer, share[which], other_cell[which])
        for b in range(B):
            filled[:] = False
            for s in range(S):
                for _ in range(many[s, b, g]):
                    if kept:
                        label[h], heads[h], size[h] = g, b, s
                        h += 1
                        first[h] = n
                    u, t = rng.random() * (1.0 - begun[further[s], b, g]), 0
                    while t < further[s] and u >= 1.0 - begun[t, b, g]:
                        t += 1
                    if t == 0:
                        continue
                    if not filled[t]:
                        fill_kinds(t, fits[:, b, g], good[:, b, g], partners, kinds[t])
                        filled[t] = True
                    kind, u = 0, rng.random() * kinds[t, 3 * E + 1]
                    while kind < 3 * E + 1 and kinds[t, kind] <= u:
                        kind += 1
                    e, violation, place = (kind + 1) // 3, kind % 3, -1
                    if violation == 2:  # who is the first before the partner not to fit
                        y, place = fits[e, b, g] / fits[0, b, g], 0
                        u = rng.random() * (1.0 - small_power(y, t - 1))
                        while place < t - 2 and u >= 1.0 - small_power(y, place + 1):
                            place += 1
                    found[0] = 0  # how many members, then their cells
                    for j in range(t - 1 - (e > 0 and violation < 2)):
                        goes, but = 0 if 0 <= place <= j else e, e if j == place else -1
                        add_found(found, one_cell(rng, alias, 0, rule, goes, but, b))
                    if e:
                        add_found(found, one_cell(rng, alias, 1, rule, e, -1, b))
                    if violation == 0:
                        add_found(found, one_cell(rng, alias, 0, rule, -1, e, b))
                    elif violation == 1:
                        add_found(found, one_cell(rng, alias, 1, rule, -1 if e else 0, -1, b))
                    for c in found[1 : found[0] + 1]:
                        u, m = rng.random() * psi[g, c] - member[c, g, 0], 0
                        while u >= 0.0 and m < M - 1:
                            m += 1
                            u -= member[c, g, m]
                        omega[g, m] += 1.0
                        for q in range(fixed.shape[1]):
                            phi[fixed[c, q], g, m] += 1.0
                        if kept:
                            cells_of[n], classes[n] = c, m
                            n += 1
                            first[h] = n


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_cells(rng, label, heads, first, psi, fits, other, spouse, of_spouse, partners, cells):
    """Members' cells of possible households with these classes and heads."""
    C, S = psi.shape[1], partners.shape[0]
    kinds, every = np.empty(S + 1), np.empty(C)
    for i in range(label.shape[0]):
        g, b, r, at = label[i], heads[i], first[i + 1] - first[i], first[i]
        if r == 0:
            continue
        kinds[0] = small_power(fits[0, b, g], r)  # no partner, or which
        for k in range(S):
            s = partners[k]
            fit = small_power(fits[of_spouse[s], b, g], r - 1) if spouse[b, s] else 0.0
            kinds[k + 1] = kinds[k] + r * psi[g, s] * fit
        kind, place, e = drawn_place(rng.random(), kinds, S + 1), -1, 0
        if kind:
            place, e = at + int(rng.random() * r), of_spouse[partners[kind - 1]]
        total = 0.0
        for c in range(C):
            total += psi[g, c] if other[e, b, c] else 0.0
            every[c] = total
        for j in range(at, at + r):
            u = rng.random()
            cells[j] = partners[kind - 1] if j == place else drawn_place(u, every, C)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_rest(rng, cell, label, fixed, columns, free, starts, weight, levels, rows):
    """Columns of rows given their cells and the class of their households."""
    M = weight.shape[2]
    buffer = np.empty(max(M, (starts[1:] - starts[:-1]).max()))
    for i in range(rows.shape[0]):
        g, c, m = label[i], cell[i], 0
        if M > 1:
            for k in range(M):
                buffer[k] = weight[c, g, k]
            m = choose(rng.random(), buffer, M)
        for q in range(columns.shape[0]):
            rows[i, columns[q]] = fixed[c, q]
        for q in range(free.shape[0]):
            begin, end = starts[free[q]], starts[free[q] + 1]
            for v in range(begin, end):
                buffer[v - begin] = levels[v, g, m]
            rows[i, free[q]] = begin + choose(rng.random(), buffer, end - begin)
