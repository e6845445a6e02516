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

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Predictive, Targets
from bayes_risk.evidence.household import MemberTerms

from .masses import TINY, CellMasses, Masses, Theta
from .rules import Layout, Persons, Rules, households_in
from .sampler import Hole, Model, NestedDraws, fill_member, hole_of, nested_chains

Positions = npt.NDArray[np.int32]


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
def fill_rest(which, persons, own_free, theta, out):
    """out[u, g] = p(rest of the household of person u, class g) under a draw."""
    household, member, first, size = persons
    pi, lam, omega, phi = theta
    psi = np.empty(len(omega))
    for u in range(which.shape[0]):
        i, j = which[u]
        out[u] = pi[size[i]]
        if j >= 0:
            for k in range(household.shape[1]):
                out[u] *= lam[household[i, k]]
        elif first[i + 1] > first[i]:
            for k in own_free:
                out[u] *= lam[household[i, k]]
        for at in range(first[i], first[i + 1]):
            if at == j:
                continue
            fill_member(member[at], omega, phi, psi)
            out[u] *= psi
        out[u] /= max(out[u].max(), 1e-300)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_person(row, is_head, columns, theta, out):
    """out[g] = p(a head's ``columns``, or a member | class g of the household)."""
    pi, lam, omega, phi = theta
    if is_head:
        out[:] = 1.0
        for k in columns:
            out *= lam[row[k]]
    else:
        n = 0
        while n < row.shape[0] and row[n] >= 0:
            n += 1
        fill_member(row[:n], omega, phi, out)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def add_ratios(base, table, columns, own, rows, weight, W, out):
    """out[a] += weight p(row a) / p(own), p a sum over classes of base and levels; the log of it.

    W[c]: all but column c, of rows that differ from the own in that column alone.
    """
    q, K, total = columns.shape[0], base.shape[0], 0.0
    W[q] = base
    for c in range(q):
        W[c] = W[q]
        for k in range(K):
            W[q, k] *= table[own[columns[c]], k]
    for k in range(K):
        total += W[q, k]
        W[q, k] = 1.0
    for c in range(q - 1, -1, -1):
        for k in range(K):
            W[c, k] *= W[q, k]
            W[q, k] *= table[own[columns[c]], k]
    total = max(total, 1e-300)
    for a in range(out.shape[0]):
        changed, at, p = 0, 0, 0.0
        for c in range(q):
            if rows[a, columns[c]] != own[columns[c]]:
                changed, at = changed + 1, c
        if changed == 0:
            p = total
        elif changed == 1:
            row = rows[a, columns[at]]
            for k in range(K):
                p += W[at, k] * table[row, k]
        else:
            for k in range(K):
                x = base[k]
                for c in range(q):
                    x *= table[rows[a, columns[c]], k]
                p += x
        out[a] += weight * p / total
    return np.log(total)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_guesses(which, first, rest, own, rows, columns, theta, weights, log_truth, out):
    """Ratios of guesses rows (U, G, q), and log p(rest and own); ``columns`` that count.

    These are of heads of households of several, of those who live alone, and of members.
    """
    pi, lam, omega, phi = theta
    F, M = omega.shape
    members, base = phi.reshape(phi.shape[0], F * M), np.empty((F, M))
    W, V = np.empty((len(columns[1]) + 1, F)), np.empty((len(columns[2]) + 1, F * M))
    for u in range(which.shape[0]):
        i, j = which[u]
        if j < 0:
            some = columns[0] if first[i + 1] > first[i] else columns[1]
            at = rest[u], lam, some, own[u], rows[u], weights[u], W[: len(some) + 1]
            log_truth[u] = add_ratios(*at, out[u])
            continue
        for g in range(F):
            base[g] = rest[u, g] * omega[g]
        at = base.ravel(), members, columns[2], own[u], rows[u], weights[u], V
        log_truth[u] = add_ratios(*at, out[u])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_members_guesses(heads, rows, columns, theta, out):
    """out[u, g, a] = log p(guess (G, U, q) of person u | class g) under a draw."""
    psi = np.empty(out.shape[1])
    for u in range(rows.shape[1]):
        for a in range(rows.shape[0]):
            fill_person(rows[a, u], heads[u], columns, theta, psi)
            out[u, :, a] = np.log(np.maximum(psi, 1e-300))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NestedPredictive:
    """Draws of p(y* | rest of the household, theta_h); nothing is integrated out."""

    model: Model
    persons: Persons  # of the confidential table
    draws: NestedDraws
    targets: Targets
    batch: Ints  # shape (H,): halves of chains, in order

    def log_truth(self, block: slice) -> Array:
        which = whereabouts(self.persons, self.targets.record[block])
        return self._pass(
            block, Allowed.of([hole_of(self.model, self.persons, *at) for at in which])
        )

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        codes, cell = self.targets.rows(frozenset(map(int, self.targets.columns)), block)
        top = np.stack([log_weights[self.batch == b].max(axis=0) for b in np.unique(self.batch)])
        sums = np.zeros((len(top), codes.shape[1], len(codes)))
        self._pass(block, None, codes, np.exp(log_weights - top[self.batch]), sums)
        logs = np.log(np.maximum(sums, TINY)) + top[..., None]
        return np.asarray(logs.swapaxes(1, 2)[:, cell])

    def _pass(
        self,
        block: slice,
        allowed: "Allowed | None",
        codes: Any = None,
        weights: Any = None,
        sums: Any = None,
    ) -> Array:
        """log p(own | rest, theta_h) (H, U), up to what the rest allows; adds ratios of guesses."""
        layout, data, H = self.model.layout, self.persons[:4], len(self.draws)
        profiles = self.targets.profiles[block]
        which = np.array(whereabouts(self.persons, self.targets.record[block]), np.int64)
        codes = profiles[None][:0] if codes is None else codes
        heads, U = which[:, 1] < 0, len(which)
        (own,) = positions(profiles[None], heads, layout)
        rows = np.ascontiguousarray(positions(codes, heads, layout).swapaxes(0, 1))
        common = np.arange(len(layout.own))
        fixed = np.setdiff1d(common, self.model.rules.heads.columns)  # known, and in no cell
        every = np.arange(len(layout.of_household) - 1)
        columns = np.setdiff1d(every, fixed), every, np.arange(len(layout.of_member) - 1)
        rest, found = np.empty((U, self.model.prior.n_classes)), np.empty((H, U))
        weights = np.zeros((H, U)) if weights is None else weights
        sums = np.zeros((int(self.batch.max()) + 1, U, 0)) if sums is None else sums
        at, first = (own, rows, columns), self.persons.first
        for h, b in enumerate(self.batch):
            theta = self.draws.theta(h)
            fill_rest(which, data, fixed, theta, rest)
            add_guesses(which, first, rest, *at, theta, weights[h], found[h], sums[b])
            if allowed is not None:
                below = allowed.masses(theta, self.model.rules, rest)
                found[h] -= np.log(np.maximum(below, TINY))
        return found


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

    heads: Flags  # (U,): who are heads
    of_members: tuple[Array, Ints]  # different sets (., C), and which each member has
    of_heads: tuple[Array, Ints]

    @classmethod
    def of(cls, holes: list[Hole]) -> "Allowed":
        """Of persons; many have the same cells."""
        heads = np.array([hole.j < 0 for hole in holes])

        def sets(which: Flags) -> tuple[Array, Ints]:
            some = [holes[u].allowed for u in np.flatnonzero(which)]
            if not some:
                return np.zeros((0, 0)), np.zeros(0, np.int64)
            found, of = np.unique(np.packbits(some, axis=1), axis=0, return_inverse=True)
            return np.unpackbits(found, axis=1, count=len(some[0])).astype(float), of.ravel()

        return cls(heads, sets(~heads), sets(heads))

    def masses(self, theta: Theta, rules: Rules, rest: Array) -> Array:
        """p(rest of the household) of each person (U,), as far as the whole is possible."""
        cells, out = CellMasses.of(theta, rules), np.empty(len(self.heads))
        for some, (sets, of), p in (
            (self.heads, self.of_heads, cells.head),
            (~self.heads, self.of_members, cells.psi),
        ):
            if len(of):
                out[some] = (rest[some] * (sets @ p)[of]).sum(axis=1)
        return out


@dataclass(frozen=True, slots=True, eq=False)
class NestedHouseholds:
    """Densities of whole households, of `evidence.household.Jointly`."""

    model: Model
    number: Ints  # (n,): household of each record
    relate: str

    def terms(self, posterior: "NestedPosterior", members: Targets) -> list[MemberTerms]:
        """By draw and class of households."""
        layout, draws = self.model.layout, posterior.draws
        codes, cell = members.rows(frozenset(map(int, members.columns)))
        heads = members.profiles[:, layout.relate] == layout.head
        rows, every = positions(codes, heads, layout), np.arange(len(layout.of_household) - 1)
        (H, _, F), (G, J, _) = draws.pi.shape, rows.shape
        out = np.empty((J, H, F, G))
        for h in range(H):
            fill_members_guesses(heads, rows, every, draws.theta(h), out[:, h])
        s = int(np.searchsorted(layout.sizes, J))
        log_pi = (
            np.log(np.maximum(draws.pi[:, s].astype(float), TINY))
            - log_possible_sizes(posterior)[:, s, None]
        )
        log_p = [np.ascontiguousarray(one.reshape(H * F, G)[:, cell]) for one in out]
        return [MemberTerms(log_pi.ravel(), log_p, np.repeat(np.arange(H), F), draws.batch)]

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


@lru_cache(maxsize=16)
def log_possible_sizes(posterior: "NestedPosterior") -> Array:
    """log P(possible | size) of each draw, (H, S)."""
    model, draws = posterior.model, posterior.draws
    if not model.rules.bind:
        return np.zeros((len(draws), len(model.layout.sizes)))
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
        how: dict[str, Any] = {"model": self.model, "persons": self.own, "draws": self.draws}
        return [NestedPredictive(**how, targets=targets, batch=self.draws.batch)]

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
        tick: Callable[[int], None] = lambda done: None,
        hole: Hole | None = None,
    ) -> "NestedPosterior":
        """The same model on other households, started where these chains stopped."""
        C = self.draws.n_chains
        size = len(self.draws) // C
        last = [(self.draws.theta(h), self.draws.alpha[h]) for h in range(size - 1, C * size, size)]
        hole = hole or self.hole
        how: dict[str, Any] = {"rng": rng, "n_jobs": n_jobs, "tick": tick, "hole": hole}
        draws = nested_chains(self.model, persons, last, (n_draws or size, tune, self.thin), **how)
        return replace(self, persons=persons, draws=draws, hole=hole)


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
