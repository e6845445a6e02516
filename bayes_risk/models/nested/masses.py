"""How probable possible households are, in closed form, and households drawn without rejection.

Given the class g of a household of 1 + r persons, the head's cell b, and the partner's cell s, the
other members are independent. With psi_g(c) the probability of a member's cell, its class summed
out, and A_e = sum of psi_g over the members who are no partner and go with b and partners of class
e (e = 0: no partner),

    P(possible | g, b, r) = A_0^r + r sum_s psi_g(s) A_e(s)^(r-1).

Impossible households have no partner, one, or several. Of the first two the first member who does
not fit is drawn, then those before, who fit, and those after, who may be anybody.
"""

from typing import NamedTuple

import numba
import numpy as np

from bayes_risk._core.arrays import Array, Ints, Rng

from .rules import Layout, Persons, RuleCells, Rules

TINY = 1e-300


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
        return cls(head, member, member.sum(axis=2))


class Masses(NamedTuple):
    """Probabilities of what is possible, under one draw."""

    theta: Theta
    rules: Rules
    layout: Layout
    cells: CellMasses
    fits: Array  # (E + 1, B, F): A_e
    possible: Array  # (S, B, F): P(possible | g, b) of households of each size

    @classmethod
    def of(cls, theta: Theta, rules: Rules, layout: Layout) -> "Masses":
        """Of the cells that the rules name."""
        cells = CellMasses.of(theta, rules)
        fits = (rules.sets @ cells.psi)[rules.set_of]
        partner = np.zeros_like(fits[1:])  # partners of class e who go with the head
        for e, own in enumerate(partner, start=1):
            some = rules.of_spouse == e
            own[:] = rules.spouse[:, some] @ cells.psi[some]
        possible = np.empty((len(layout.sizes), *cells.head.shape))
        none, one = np.ones_like(fits[0]), partner.copy()  # A_0^r; psi A_e^(r - 1)
        for r in range(int(layout.sizes[-1])):
            if r:
                none *= fits[0]
            if r > 1:
                one *= fits[1:]
            if r + 1 in layout.sizes:
                found = none + r * one.sum(axis=0) if r else none
                s = int(np.searchsorted(layout.sizes, r + 1))
                possible[s] = np.where(rules.head[:, None], np.minimum(found, 1.0), 0.0)
        return cls(theta, rules, layout, cells, fits, possible)

    def by_size(self) -> Array:
        """P(possible | size), (S,)."""
        each = (self.cells.head * self.possible).sum(axis=1)
        return np.asarray((self.theta.pi * each).sum(axis=1))


def of_cells(cells: RuleCells, levels: Array, weight: Array) -> Array:
    """Product over the columns of a cell, times a weight of each class."""
    found = np.broadcast_to(weight, (1, *weight.shape))
    for begin, d in zip(cells.begin, cells.dims, strict=True):
        found = (found[:, None] * levels[begin : begin + d]).reshape(-1, *weight.shape)
    return np.ascontiguousarray(found)


def drawn_households(
    masses: Masses, many: Ints, *, possible: bool, rng: Rng
) -> tuple[Persons, Ints, Ints]:
    """So many possible or impossible households of each size (S,), with classes, and members'."""
    theta, rules, layout, of_cell = masses[:4]
    B, F = of_cell.head.shape
    b, g = [], []
    for s, fit in enumerate(masses.possible):
        weights = theta.pi[s] * of_cell.head * (fit if possible else 1.0 - fit)
        weights = np.maximum(weights, 0.0).ravel()
        counts = rng.multinomial(int(many[s]), weights / max(weights.sum(), TINY))
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
    draw_cells(rng, possible, label, heads, first, psi, masses.fits, *rule, cells)
    n, N = len(heads), len(cells)
    household = np.empty((n, len(layout.of_household) - 1), np.int32)
    member, classes = np.empty((N, len(layout.of_member) - 1), np.int32), np.empty(N, np.int64)
    of = np.repeat(label, np.diff(first))
    lam = np.ascontiguousarray(theta.lam[:, :, None])
    for rows, cell, where, starts, of_each, levels, weight, k in (
        (household, heads, label, layout.of_household, rules.heads, lam, np.ones((B, F, 1)), None),
        (member, cells, of, layout.of_member, rules.members, theta.phi, of_cell.member, classes),
    ):
        fixed = of_each.levels() + of_each.begin
        free = np.setdiff1d(np.arange(len(starts) - 1), of_each.columns)
        k = np.empty(len(rows), np.int64) if k is None else k
        draw_rest(rng, cell, where, fixed, of_each.columns, free, starts, weight, levels, k, rows)
    nothing = np.empty(0, np.int64)
    return Persons(household, member, first, size, nothing, nothing), label, classes


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
def several(t, p, least):
    """Probability that of t members, each a partner with p, so many are."""
    if least <= 0:
        return 1.0
    none = (1.0 - p) ** t
    if least == 1:
        return 1.0 - none
    return max(1.0 - none - (t * p * (1.0 - p) ** (t - 1) if t else 0.0), 0.0)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fitting_cell(left, psi, fits, of_spouse, want):
    """Cell of no partner that fits, or does not; ``left`` is uniform below their sum."""
    last = -1
    for c in range(psi.shape[0]):
        if psi[c] > 0.0 and fits[c] == want and of_spouse[c] == 0:
            last = c
            left -= psi[c]
            if left < 0.0:
                break
    return last


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_cells(
    rng, possible, label, heads, first, psi, fits, other, spouse, of_spouse, partners, cells
):
    """Members' cells of households with these classes and heads."""
    (F, C), S, E = psi.shape, partners.shape[0], other.shape[0]
    kinds, who, power = np.empty(S + 2), np.empty(cells.shape[0], np.int64), np.empty(E)
    total, below = np.zeros(F), np.zeros((F, C))  # of partners; of all others, cumulated
    for g in range(F):
        inside = 0.0
        for c in range(C):
            if of_spouse[c]:
                total[g] += psi[g, c]
            else:
                inside += psi[g, c]
            below[g, c] = inside
    for i in range(label.shape[0]):
        g, b, r, at = label[i], heads[i], first[i + 1] - first[i], first[i]
        if r == 0:
            continue
        p = total[g]
        kinds[0], kinds[1], others = fits[0, b, g] ** r, 0.0, (1.0 - p) ** (r - 1)
        if not possible:
            kinds[0], kinds[1] = max((1.0 - p) * others - kinds[0], 0.0), several(r, p, 2)
        for e in range(E):
            power[e] = fits[e, b, g] ** (r - 1)
        for k in range(S):
            s = partners[k]
            fit = power[of_spouse[s]] if spouse[b, s] else 0.0
            if not possible:
                fit = max(others - fit, 0.0)
            kinds[k + 2] = r * psi[g, s] * fit
        kind = choose(rng.random(), kinds, S + 2)
        need, e, fitting = 2, 0, True  # partners who are to come; class; whether the partner fits
        if kind > 1:
            s = partners[kind - 2]
            e, fitting = of_spouse[s], spouse[b, s]
            place = at + int(rng.random() * r)
        # who: 0 anybody but partners, 1 fits, 2 does not, 3 a partner, 4 is drawn
        left = 0
        for j in range(at, at + r):
            who[j] = 1 if possible else 0
            if kind == 1:
                t = at + r - j - 1
                yes = p * several(t, p, need - 1)
                no = (1.0 - p) * several(t, p, need)
                if rng.random() * (yes + no) < yes:
                    who[j] = 3
                    need -= 1
            elif kind > 1 and j == place:
                who[j] = 4
                cells[j] = s
            else:
                left += 1
        if not possible and kind != 1 and fitting and left:
            x = min(fits[e, b, g] / (1.0 - p), 1.0)
            u, bad = rng.random() * (1.0 - x**left), 0
            mass = 1.0 - x
            while bad < left - 1 and u >= mass:
                u -= mass
                mass *= x
                bad += 1
            for j in range(at, at + r):
                if who[j] != 4:
                    if bad >= 0:
                        who[j] = 1 if bad > 0 else 2
                    bad -= 1
        for j in range(at, at + r):
            if who[j] == 4:
                continue
            u, c = rng.random(), -1
            if who[j] == 3:
                for k in range(S):
                    kinds[k] = psi[g, partners[k]]
                c = partners[choose(u, kinds, S)]
            elif who[j] > 0:
                whole = fits[e, b, g] if who[j] == 1 else 1.0 - p - fits[e, b, g]
                c = fitting_cell(u * whole, psi[g], other[e, b], of_spouse, who[j] == 1)
            if c < 0:
                c = min(np.searchsorted(below[g], u * below[g, C - 1], side="right"), C - 1)
            cells[j] = c


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_rest(rng, cell, label, fixed, columns, free, starts, weight, levels, classes, rows):
    """Classes of rows, and their columns, given their cells and the class of their households."""
    M = weight.shape[2]
    room = np.empty(max(M, (starts[1:] - starts[:-1]).max()))
    for i in range(rows.shape[0]):
        g, c, m = label[i], cell[i], 0
        if M > 1:
            for k in range(M):
                room[k] = weight[c, g, k]
            m = choose(rng.random(), room, M)
        classes[i] = m
        for q in range(columns.shape[0]):
            rows[i, columns[q]] = fixed[c, q]
        for q in range(free.shape[0]):
            begin, end = starts[free[q]], starts[free[q] + 1]
            for v in range(begin, end):
                room[v - begin] = levels[v, g, m]
            rows[i, free[q]] = begin + choose(rng.random(), room, end - begin)
