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
TRIES = 12


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


class DrawnCells(NamedTuple):
    """Households by cells: of each its size, class and head, and the cells of further members."""

    size: Ints
    label: Ints
    heads: Ints
    first: Ints
    cells: Ints


def drawn_cells(masses: Masses, many: Ints, *, possible: bool, rng: Rng) -> DrawnCells:
    """So many possible or impossible households of each size (S,)."""
    theta, rules, layout, of_cell = masses[:4]
    B, F = of_cell.head.shape
    b, g = [], []
    for s, fit in enumerate(masses.possible):
        weights = theta.pi[s] * of_cell.head * (fit if possible else 1.0 - fit)
        weights = np.maximum(weights, 0.0).ravel()
        counts = rng.multinomial(int(many[s]), weights / max(weights.sum(), TINY))
        at = np.repeat(np.arange(B * F), counts)
        at = rng.permutation(at) if possible else at  # of the others only counts are used
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
    return DrawnCells(size, label, heads, first, cells)


def impossible_counts(masses: Masses, many: Ints, *, rng: Rng) -> Theta:
    """Counts, as `add_counts` has them, of so many impossible households of each size (S,)."""
    theta, rules, layout, of_cell = masses[:4]
    drawn = drawn_cells(masses, many, possible=False, rng=rng)
    (B, F), (C, _, M) = of_cell.head.shape, of_cell.member.shape

    def counted(place: Ints, label: Ints, n: int) -> Ints:
        return np.bincount(place * F + label, minlength=n * F).reshape(n, F)

    b, pi = (counted(x, drawn.label, n) for x, n in ((drawn.heads, B), (drawn.size, len(many))))
    c = counted(drawn.cells, np.repeat(drawn.label, np.diff(drawn.first)), C)
    some = c > 0
    members = np.zeros((C, F, M), np.int64)
    members[some] = multinomials(rng, c[some], of_cell.member[some])
    lam, phi = np.zeros_like(theta.lam), np.zeros_like(theta.phi)
    for counts, cells, starts, levels, out in (
        (b, rules.heads, layout.of_household, theta.lam, lam),
        (members, rules.members, layout.of_member, theta.phi, phi),
    ):
        whole, by_class = counts.reshape(*cells.dims, *counts.shape[1:]), counts.sum(axis=0)
        for q in range(len(starts) - 1):
            part = slice(starts[q], starts[q + 1])
            if q in cells.columns:
                k = int(np.flatnonzero(cells.columns == q)[0])
                others = tuple(x for x in range(len(cells.dims)) if x != k)
                out[part] = whole.sum(axis=others)
            else:
                p = np.moveaxis(levels[part], 0, -1)
                out[part] = np.moveaxis(multinomials(rng, by_class, p), -1, 0)
    return Theta(pi.astype(float), lam, members.sum(axis=0).astype(float), phi)


def multinomials(rng: Rng, n: Ints, p: Array) -> Ints:
    """Draws for each n, probabilities along the last axis up to a factor."""
    whole = np.maximum(p.sum(axis=-1, keepdims=True), TINY)
    return rng.multinomial(n, p / whole)


def drawn_households(masses: Masses, many: Ints, *, possible: bool, rng: Rng) -> Persons:
    """So many possible or impossible households of each size (S,)."""
    theta, rules, layout, of_cell = masses[:4]
    size, label, heads, first, cells = drawn_cells(masses, many, possible=possible, rng=rng)
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
def several(t, p, none, least):
    """Probability that so many of t members are partners, each with p; none[t]: that no one is."""
    if least <= 0:
        return 1.0
    if least == 1:
        return 1.0 - none[t]
    return max(1.0 - none[t] - (t * p * none[t - 1] if t else 0.0), 0.0)


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
    among = np.zeros((F, S))  # partners, cumulated
    most = (first[1:] - first[:-1]).max() if label.shape[0] else 0
    nobody = np.ones((F, most + 1))  # of so many members is a partner
    for g in range(F):
        inside, k = 0.0, 0
        for c in range(C):
            if of_spouse[c]:
                total[g] += psi[g, c]
                among[g, k] = total[g]
                k += 1
            else:
                inside += psi[g, c]
            below[g, c] = inside
        for t in range(most):
            nobody[g, t + 1] = nobody[g, t] * (1.0 - total[g])
    for i in range(label.shape[0]):
        g, b, r, at = label[i], heads[i], first[i + 1] - first[i], first[i]
        if r == 0:
            continue
        p, none = total[g], nobody[g]
        same = i > 0 and label[i - 1] == g and heads[i - 1] == b and first[i] - first[i - 1] == r
        if not same:  # kinds of the household before
            kinds[0], kinds[1] = fits[0, b, g] ** r, 0.0
            if not possible:
                kinds[0], kinds[1] = max(none[r] - kinds[0], 0.0), several(r, p, none, 2)
            for e in range(E):
                power[e] = fits[e, b, g] ** (r - 1)
            for k in range(S):
                s = partners[k]
                fit = power[of_spouse[s]] if spouse[b, s] else 0.0
                if not possible:
                    fit = max(none[r - 1] - fit, 0.0)
                kinds[k + 2] = r * psi[g, s] * fit
            for k in range(S + 1):
                kinds[k + 1] += kinds[k]
        kind = min(np.searchsorted(kinds, rng.random() * kinds[S + 1], side="right"), S + 1)
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
                yes = p * several(t, p, none, need - 1)
                no = (1.0 - p) * several(t, p, none, need)
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
                c = partners[min(np.searchsorted(among[g], u * p, side="right"), S - 1)]
            elif who[j] > 0:
                for _ in range(TRIES):  # mostly enough, and faster than looking at all cells
                    x = np.searchsorted(below[g], rng.random() * below[g, C - 1], side="right")
                    if x < C and of_spouse[x] == 0 and other[e, b, x] == (who[j] == 1):
                        c = x
                        break
            if c < 0 and 0 < who[j] < 3:
                whole = fits[e, b, g] if who[j] == 1 else 1.0 - p - fits[e, b, g]
                c = fitting_cell(u * whole, psi[g], other[e, b], of_spouse, who[j] == 1)
            if c < 0:
                c = min(np.searchsorted(below[g], u * below[g, C - 1], side="right"), C - 1)
            cells[j] = c


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_rest(rng, cell, label, fixed, columns, free, starts, weight, levels, rows):
    """Columns of rows given their cells and the class of their households."""
    M = weight.shape[2]
    room = np.empty(max(M, (starts[1:] - starts[:-1]).max()))
    for i in range(rows.shape[0]):
        g, c, m = label[i], cell[i], 0
        if M > 1:
            for k in range(M):
                room[k] = weight[c, g, k]
            m = choose(rng.random(), room, M)
        for q in range(columns.shape[0]):
            rows[i, columns[q]] = fixed[c, q]
        for q in range(free.shape[0]):
            begin, end = starts[free[q]], starts[free[q] + 1]
            for v in range(begin, end):
                room[v - begin] = levels[v, g, m]
            rows[i, free[q]] = begin + choose(rng.random(), room, end - begin)
