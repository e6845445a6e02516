"""Draws of a nested mixture given households, and what they say of a person who is left out.

For an intruder who knows all others, those of the same household too, H* the household with a guess
in the target's place and R the rest of it,

    p(y* | R, Theta) = p(H* | Theta) / sum over possible y of p(H_y | Theta),

the probability that the whole is possible being in both. Parameters are drawn, not integrated out:
weights 1 / p(y_i | R, Theta) take the target out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk.data.households import Households
from bayes_risk.data.microdata import Codes, Microdata, require_columns
from bayes_risk.evidence.contract import Predictive, Targets
from bayes_risk.evidence.household import MemberTerms

from .masses import TINY, CellMasses, Masses
from .rules import Layout, Persons, households_in
from .sampler import Hole, Model, NestedDraws, fill_member, hole_of, nested_chains, side_by_side

Positions = npt.NDArray[np.int32]
SHORTEST = 50  # sweeps of a warm-up
FEWER = 8  # of the sweeps of a chain in a refit, whose draws are not weighted, one a sweep


class Person(NamedTuple):
    """Where a person stands: household, and member of it; -1: the head."""

    i: int
    j: int


def whereabouts(persons: Persons, rows: Ints) -> list[Person]:
    """Of the persons in these rows of the table."""
    n = len(persons.head_row) + len(persons.member_row)
    of, member = np.empty(n, np.int64), np.full(n, -1)
    of[persons.head_row] = np.arange(len(persons.head_row))
    of[persons.member_row] = np.repeat(np.arange(len(persons.size)), np.diff(persons.first))
    member[persons.member_row] = np.arange(len(persons.member_row))
    return [Person(int(of[r]), int(member[r])) for r in rows]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_rest(i, j, persons, known, pi, lam, psi, out):
    """out[g] = p(rest of the household of a person, class g), up to a factor; psi: of members."""
    household, member, first, size = persons
    out[:] = pi[size[i]]
    for k in known:
        out *= lam[household[i, k]]
    for at in range(first[i], first[i + 1]):
        if at != j:
            out *= psi[at - first[i]]
    out /= max(out.max(), 1e-300)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def fill_products(base, levels, columns, own, W):
    """W[c, k] = base[k] times the levels of the own row but for column c; the sum of the whole."""
    q, K, total = columns.shape[0], base.shape[0], 0.0
    for k in range(K):
        W[q, k] = base[k]
    for c in range(q):
        at = own[columns[c]]
        for k in range(K):
            W[c, k] = W[q, k]
            W[q, k] *= levels[at, k]
    for k in range(K):
        total += W[q, k]
        W[q, k] = 1.0
    for c in range(q - 1, -1, -1):
        at = own[columns[c]]
        for k in range(K):
            W[c, k] *= W[q, k]
            W[q, k] *= levels[at, k]
    return max(total, 1e-300)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def add_levels(weight, W, levels, begin, end, out):
    """out[v] += weight sum_k W[k] levels[v, k] of the levels of a column."""
    for v in range(begin, end):
        total = 0.0
        for k in range(W.shape[0]):
            total += W[k] * levels[v, k]
        out[v] += weight * total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_draws(which, persons, known, own, draws, allowed, columns, starts, found, guesses):
    """log p(own | rest) of each person under each draw (H, U); ratios of guesses to it, summed.

    Person u is of a kind: head of others, head who lives alone, member; ``columns`` that count for
    it. Sums go by level of the one column that differs, or by guess where several do.
    """
    weights, batch, rows, several, sums, more = guesses
    pis, lams, omegas, phis = draws
    set_of, masses = allowed
    first = persons[2]
    (H, F, M), U = omegas.shape, which.shape[0]
    K, most = F * M, max(1, (first[1:] - first[:-1]).max())
    psi, w, rest, base = np.empty((most, F)), np.empty(K), np.empty(F), np.empty(K)
    W, V = np.empty((own.shape[1] + 1, K)), np.empty((own.shape[1] + 1, F))
    for h in range(H):
        pi, lam = pis[h].astype(np.float64), lams[h].astype(np.float64)
        of_classes, levels = side_by_side(omegas[h], phis[h])
        seen = -1
        for u in range(U):
            i, j = which[u]
            if i != seen:
                seen = i
                for at in range(first[i], first[i + 1]):
                    fill_member(persons[1][at], of_classes, levels, w, psi[at - first[i]])
            kind = 2 if j >= 0 else int(first[i + 1] == first[i])
            some = columns[kind]
            fill_rest(i, j, persons, known[kind], pi, lam, psi, rest)
            if kind == 2:
                for m in range(M):
                    for g in range(F):
                        base[m * F + g] = rest[g] * of_classes[m * F + g]
                total = fill_products(base, levels, some, own[u], W)
            else:
                total = fill_products(rest, lam, some, own[u], V)
            below = 0.0
            for g in range(F):
                below += rest[g] * masses[h, set_of[u], g]
            found[h, u] = np.log(total) - np.log(max(below, 1e-300))
            if rows.shape[1] == 0:
                continue
            weight, out = weights[h, u] / total, sums[batch[h], u]
            out[-1] += weights[h, u]
            for c in range(some.shape[0]):
                begin, end = starts[kind][some[c]], starts[kind][some[c] + 1]
                if kind == 2:
                    add_levels(weight, W[c], levels, begin, end, out)
                else:
                    add_levels(weight, V[c], lam, begin, end, out)
            for a in several[u]:
                if a < 0:
                    break
                p = 0.0
                for k in range(K if kind == 2 else F):
                    x = base[k] if kind == 2 else rest[k]
                    for c in some:
                        x *= levels[rows[u, a, c], k] if kind == 2 else lam[rows[u, a, c], k]
                    p += x
                more[batch[h], u, a] += weight * p


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_members_guesses(heads, rows, columns, theta, out):
    """out[u, g, a] = log p(guess (G, U, q) of person u | class g) under a draw."""
    pi, lam, omega, phi = theta
    of_classes, levels = side_by_side(omega, phi)
    psi, w = np.empty(out.shape[1]), np.empty(omega.size)
    for u in range(rows.shape[1]):
        for a in range(rows.shape[0]):
            if heads[u]:
                psi[:] = 1.0
                for k in columns:
                    psi *= lam[rows[a, u, k]]
            else:
                n = 0
                while n < rows.shape[2] and rows[a, u, n] >= 0:
                    n += 1
                fill_member(rows[a, u, :n], of_classes, levels, w, psi)
            out[u, :, a] = np.log(np.maximum(psi, 1e-300))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NestedPredictive:
    """Draws of p(y* | rest of the household, theta_h); nothing is integrated out."""

    model: Model
    persons: Persons  # of the confidential table
    draws: NestedDraws
    targets: Targets
    which: Ints  # (U, 2): household and member of each
    allowed: "Allowed"
    batch: Ints  # shape (H,): halves of chains, in order

    def log_truth(self, block: slice) -> Array:
        return self._pass(block, np.zeros((len(self.draws), 0)))[0]

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        top = np.stack([log_weights[self.batch == b].max(axis=0) for b in np.unique(self.batch)])
        _, sums, cell = self._pass(block, np.exp(log_weights - top[self.batch]))
        logs = np.log(np.maximum(sums, TINY)) + top[..., None]
        return np.asarray(logs.swapaxes(1, 2)[:, cell])

    def _pass(self, block: slice, weights: Array) -> tuple[Array, Array, Ints]:
        """log p(own | rest, theta_h) (H, U), up to what the rest allows; sums of guesses' ratios.

        The latter with weights (H, U), by batch (B, U, G'), and the G' of each guess.
        """
        layout, which = self.model.layout, np.ascontiguousarray(self.which[block])
        profiles, heads, U = self.targets.profiles[block], which[:, 1] < 0, len(which)
        codes, cell = self.targets.rows(frozenset(map(int, self.targets.columns)), block)
        (own,) = positions(profiles[None], heads, layout)
        codes = codes if weights.size else codes[:0]
        rows = np.ascontiguousarray(positions(codes, heads, layout).swapaxes(0, 1))
        every = np.arange(len(layout.of_household) - 1)
        common = np.arange(len(layout.own))
        fixed = np.setdiff1d(common, self.model.rules.heads.columns)  # known, and in no cell
        columns = np.setdiff1d(every, fixed), every, np.arange(len(layout.of_member) - 1)
        kind = np.where(heads, np.diff(self.persons.first)[which[:, 0]] == 0, 2)
        counted = np.array([np.isin(np.arange(own.shape[1]), x) for x in columns])[kind]
        changed = (rows != own[:, None]) & counted[:, None]
        n, width = changed.sum(axis=2), int(max(layout.of_household[-1], layout.of_member[-1]))
        place = np.take_along_axis(rows, changed.argmax(axis=2)[..., None], 2)[..., 0]
        place = np.where(n == 1, place, width)
        most = int((n > 1).sum(axis=1).max(initial=0)) + 1  # lists of guesses, which end with -1
        several = np.sort(np.where(n > 1, np.arange(n.shape[1]), n.shape[1]), axis=1)[:, :most]
        several = np.column_stack([several, np.full(U, n.shape[1])])
        several[several == n.shape[1]] = -1
        B = int(self.batch.max()) + 1
        sums, more = np.zeros((B, U, width + 1)), np.zeros((B, U, n.shape[1] if most > 1 else 0))
        found = np.empty((len(self.draws), U))
        allowed = self.allowed.set_of[block], self.allowed.masses
        starts = layout.of_household, layout.of_household, layout.of_member
        guesses = weights, self.batch, rows, several, sums, more
        known = fixed, every[:0], every
        at = which, self.persons[:4], known, own, self.draws[:4], allowed, columns, starts
        add_draws(*at, found, guesses)
        sums = np.take_along_axis(sums, np.broadcast_to(place, (B, *place.shape)), 2)
        return found, np.where(n > 1, more, sums) if most > 1 else sums, cell


def positions(codes: Codes, heads: Flags, layout: Layout) -> Positions:
    """Positions of guesses (G, U, q): of heads with household columns, of members."""
    own = codes[..., [*layout.own, *layout.person]] + layout.of_household[:-1]
    relation = codes[..., layout.relate] - (codes[..., layout.relate] > layout.head)
    relation = np.minimum(relation, layout.of_member[1] - 1)
    member = codes[..., layout.person] + layout.of_member[1:-1]
    width = max(own.shape[-1], 1 + member.shape[-1])
    out = np.full((*codes.shape[:2], width), -1, np.int32)
    out[:, heads, : own.shape[-1]] = own[:, heads]
    out[:, ~heads, 0] = relation[:, ~heads]
    out[:, ~heads, 1 : 1 + member.shape[-1]] = member[:, ~heads]
    return out


class Allowed(NamedTuple):
    """Cells that the rest of their household allows persons who are left out."""

    set_of: Ints  # (U,): which of them each has; many have the same
    masses: Array  # (H, sets, F): of those cells under each draw

    @classmethod
    def of(cls, model: Model, persons: Persons, which: Ints, draws: NestedDraws) -> "Allowed":
        """Of persons (U, 2)."""
        cells = [hole_of(model, persons, *at).allowed for at in which.tolist()]
        sets, set_of = list[tuple[int, Array]](), np.empty(len(which), np.int64)
        n = 0
        for side, some in enumerate((which[:, 1] < 0, which[:, 1] >= 0)):  # heads, members
            if some.any():
                mine = np.array([cells[u] for u in np.flatnonzero(some)])
                packed = np.packbits(mine, axis=1)
                _, first, of = np.unique(packed, axis=0, return_index=True, return_inverse=True)
                set_of[some], n = n + of.ravel(), n + len(first)
                sets.append((side, mine[first].astype(float)))
        found = np.empty((len(draws), n, model.prior.n_classes))
        for h in range(len(draws)):
            p = CellMasses.of(draws.theta(h), model.rules)
            found[h] = np.concatenate([x @ (p.head, p.psi)[side] for side, x in sets])
        return cls(set_of, found)


@dataclass(frozen=True, slots=True, eq=False)
class NestedHouseholds:
    """Densities of whole households, of `evidence.household.Jointly`."""

    model: Model
    number: Ints  # (n,): household of each record
    declared: Households

    @property
    def id(self) -> str:
        """The column of households."""
        return self.declared.id

    @property
    def relate(self) -> str:
        """The column of the relation to the head."""
        return str(self.declared.relate)

    def terms(self, posterior: "NestedPosterior", members: Targets) -> list[MemberTerms]:
        """By draw and class of households."""
        layout, draws = self.model.layout, posterior.draws
        codes, cell = members.rows(frozenset(map(int, members.columns)))
        heads = members.profiles[:, layout.relate] == layout.head
        rows, every = positions(codes, heads, layout), np.arange(len(layout.of_household) - 1)
        (H, _, F), (G, J, _) = draws.pi.shape, rows.shape
        out = np.empty((H, J, F, G))
        for h in range(H):
            fill_members_guesses(heads, rows, every, draws.theta(h), out[h])
        s = int(np.searchsorted(layout.sizes, J))
        log_pi = (
            np.log(np.maximum(draws.pi[:, s].astype(float), TINY))
            - log_possible_sizes(posterior)[:, s, None]
        )
        log_p = [np.ascontiguousarray(out[:, a].reshape(H * F, G)[:, cell]) for a in range(J)]
        return [MemberTerms(log_pi.ravel(), log_p, np.repeat(np.arange(H), F), draws.batch)]

    def without(
        self, posterior: "NestedPosterior", members: Targets, *, rng: Rng, n_jobs: int
    ) -> "NestedPosterior":
        i, _ = whereabouts(posterior.own, members.record[:1])[0]
        return posterior.left_out(posterior.persons.without(i), rng=rng, n_jobs=n_jobs)

    def excluded(self, members: Targets, codes: Codes) -> Flags:
        """Which households differ in their columns, have another head, or break a rule, (A,)."""
        layout, (J, p) = self.model.layout, codes.shape[1:]
        own, relate = codes[..., layout.own], codes[..., layout.relate]
        heads = members.profiles[:J, layout.relate] == layout.head
        wrong = (own != own[:, :1]).any(axis=(1, 2)) | ((relate == layout.head) != heads).any(
            axis=1
        )
        if J == len(members):
            right = np.flatnonzero(~wrong)
            rows, number = codes[right].reshape(-1, p), np.repeat(np.arange(len(right)), J)
            wrong[right] = ~self.model.rules.allow(households_in(rows, layout, number))
        return np.asarray(wrong)

    def later(self, codes: Codes) -> Ints:
        return np.asarray(codes[:, self.model.layout.relate] != self.model.layout.head, np.int64)

    def outside(self, others: pd.DataFrame, data: Microdata) -> tuple[Codes, Ints]:
        require_columns(others, data.columns, "others")
        number, name = self.declared.of(others, "others").number, self.declared.id
        variable: Any = data.variables[data.columns.index(name)]
        codes = data.encode(others.assign(**{name: variable.levels[0]}), "others")
        self.model.rules.refuse(households_in(codes, self.model.layout, number), "others")
        return codes, number


@lru_cache(maxsize=16)
def log_possible_sizes(posterior: "NestedPosterior") -> Array:
    """log P(possible | size) of each draw, (H, S)."""
    model, draws = posterior.model, posterior.draws
    each = (Masses.of(draws.theta(h), model.rules, model.layout) for h in range(len(draws)))
    return np.log(np.maximum([one.by_size() for one in each], TINY))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NestedPosterior:
    """Draws of a nested mixture given households.

    ``persons``: those that were seen; ``own``: those of the confidential table, which are audited.
    """

    model: Model
    persons: Persons
    own: Persons
    draws: NestedDraws
    thin: int
    hole: Hole | None = None

    @property
    def n_draws(self) -> int:
        """Number H of draws kept."""
        return len(self.draws)

    def predictives(self, targets: Targets, *, rng: Rng) -> list[Predictive]:
        which = np.array(whereabouts(self.own, targets.record), np.int64)
        allowed = Allowed.of(self.model, self.own, which, self.draws)
        how: dict[str, Any] = {"model": self.model, "persons": self.own, "draws": self.draws}
        at: dict[str, Any] = {"targets": targets, "which": which, "allowed": allowed}
        return [NestedPredictive(**how, **at, batch=self.draws.batch)]

    def doubled(self, *, rng: Rng, n_jobs: int) -> "NestedPosterior":
        """Every second draw, and as many new ones twice as far apart."""
        size, C = len(self.draws) // self.draws.n_chains, self.draws.n_chains
        kept = np.arange(1, size, 2)
        again = replace(self, thin=2 * self.thin)
        new = again.refitted(self.persons, 0, rng=rng, n_jobs=n_jobs, n_draws=size - len(kept))

        def joined(old: Array, more: Array) -> Array:
            parts = (x.reshape(C, -1, *x.shape[1:]) for x in (old, more))
            first, last = parts
            both = np.concatenate([first[:, kept], last], axis=1)
            return both.reshape(-1, *old.shape[1:])

        arrays = [joined(*pair) for pair in zip(self.draws[:5], new.draws[:5], strict=True)]
        return replace(again, draws=NestedDraws.of(arrays, C))

    def refitted(
        self,
        persons: Persons,
        tune: int,
        *,
        rng: Rng,
        n_jobs: int = 1,
        n_draws: int | None = None,
        thin: int | None = None,
        tick: Callable[[int], None] = lambda done: None,
        hole: Hole | None = None,
    ) -> "NestedPosterior":
        """The same model on other households, started where these chains stopped."""
        C = self.draws.n_chains
        size = len(self.draws) // C
        last = [(self.draws.theta(h), self.draws.alpha[h]) for h in range(size - 1, C * size, size)]
        hole = hole or self.hole
        how: dict[str, Any] = {"rng": rng, "n_jobs": n_jobs, "tick": tick, "hole": hole}
        draws = nested_chains(
            self.model, persons, last, (n_draws or size, tune, thin or self.thin), **how
        )
        return replace(self, persons=persons, draws=draws, hole=hole)

    def left_out(
        self, persons: Persons, *, rng: Rng, n_jobs: int = 1, hole: Hole | None = None
    ) -> "NestedPosterior":
        """Draws without a household, or a person, from where these chains stopped."""
        sweeps = len(self.draws) // self.draws.n_chains * self.thin
        how: dict[str, Any] = {"rng": rng, "n_jobs": n_jobs, "hole": hole}
        return self.refitted(persons, SHORTEST // 4, n_draws=max(sweeps // FEWER, 2), thin=1, **how)


def impossible_guesses(
    model: Model, persons: Persons, profiles: Codes, columns: Ints, codes: Codes, record: Ints
) -> Flags:
    """Which guesses (G, U, q) the rest of the target's household excludes, (G, U)."""
    layout, out = model.layout, np.zeros(codes.shape[:2], bool)
    for u, (i, j) in enumerate(whereabouts(persons, record)):
        rows = np.repeat(profiles[u][None], len(codes), axis=0)
        rows[:, columns] = codes[:, u]
        wrong = (rows[:, layout.relate] == layout.head) != (j < 0)
        if persons.first[i + 1] > persons.first[i]:  # other members show what they have in common
            wrong |= (rows[:, layout.own] != profiles[u][layout.own]).any(axis=1)
        allowed, rules = hole_of(model, persons, i, j).allowed, model.rules
        if j < 0:
            own = rows[:, [*layout.own, *layout.person]] + layout.of_household[:-1]
            at = rules.heads.at(own)
        else:
            relation = rows[:, layout.relate] - (rows[:, layout.relate] > layout.head)
            relation = np.minimum(relation, layout.of_member[1] - 1)
            at = rules.members.at(
                np.column_stack([relation, rows[:, layout.person] + layout.of_member[1:-1]])
            )
        out[:, u] = wrong | ~allowed[at]
    return out
