"""Draws of a nested mixture given households, and what they say of a person who is left out.

For an intruder who knows all others, those of the same household too, H* the household with a guess
in the target's place and R the rest of it,

    p(y* | R, Theta) = p(H* | Theta) / sum over possible y of p(H_y | Theta),

the probability that the whole is possible being in both. Parameters are drawn, not integrated out:
weights 1 / p(y_i | R, Theta) take the target out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Predictive, Targets
from bayes_risk.models.fits.sampling import blocks, log_sums_of_batches

from .masses import TINY, Masses
from .rules import Persons
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
def fill_guesses(which, first, rest, rows, columns, theta, out):
    """out[g, u] = log p(rest and guess) of rows (G, U, q); ``columns`` of heads that count."""
    pi, lam, omega, phi = theta
    F, M = omega.shape
    one, alone = columns
    for u in range(which.shape[0]):
        i, j = which[u]
        heads = one if first[i + 1] > first[i] else alone
        for a in range(rows.shape[0]):
            total = 0.0
            for g in range(F):
                if j < 0:
                    p = rest[u, g]
                    for k in heads:
                        p *= lam[rows[a, u, k], g]
                    total += p
                    continue
                within = 0.0
                for m in range(M):
                    p = omega[g, m]
                    for k in range(rows.shape[2]):
                        if rows[a, u, k] >= 0:
                            p *= phi[rows[a, u, k], g, m]
                    within += p
                total += rest[u, g] * within
            out[a, u] = np.log(max(total, 1e-300))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NestedPredictive:
    """Draws of p(y* | rest of the household, theta_h); nothing is integrated out."""

    model: Model
    persons: Persons  # of the confidential table
    draws: NestedDraws
    targets: Targets
    batch: Ints  # shape (H,): halves of chains, in order

    def log_truth(self, block: slice) -> Array:
        own = self.targets.profiles[block][None]
        return self._log_density(own, np.arange(len(self.targets))[block])[:, 0]

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        codes, cell = self.targets.rows(frozenset(map(int, self.targets.columns)), block)
        (G, U, _), H = codes.shape, len(self.batch)
        log_v, which = log_weights - self.log_truth(block), np.arange(len(self.targets))[block]
        out = np.empty((int(self.batch.max()) + 1, G, U))
        for some in blocks(U, G * H):
            terms = self._log_density(codes[:, some], which[some])
            terms += log_v[:, None, some]
            out[:, :, some] = log_sums_of_batches(terms, self.batch, axis=0)
        return out[:, cell]

    def _log_density(self, codes: Codes, targets: Ints) -> Array:
        """log p(y* | rest, theta_h) of whole rows (G, U, p) of the targets, (H, G, U)."""
        persons, model = self.persons, self.model
        which = np.array(whereabouts(persons, self.targets.record[targets]), np.int64)
        holes = [hole_of(model, persons, *map(int, at)) for at in which]
        own = np.arange(len(model.layout.own))
        fixed = np.setdiff1d(own, model.rules.heads.columns)  # known, and in no cell
        every = np.arange(len(model.layout.of_household) - 1)
        columns = np.setdiff1d(every, fixed), every
        rows = self._rows(codes, which)
        out, data = np.empty((len(self.draws), *codes.shape[:2])), persons[:4]
        rest = np.empty((len(which), model.prior.n_classes))
        for h in range(len(self.draws)):
            theta = self.draws.theta(h)
            fill_rest(which, data, fixed, theta, rest)
            fill_guesses(which, persons.first, rest, rows, columns, theta, out[h])
            out[h] -= np.log(_possible(Masses.of(theta, model.rules), holes, rest))
        return out

    def _rows(self, codes: Codes, which: Ints) -> Positions:
        """Positions of guesses (G, U, q): of heads with household columns, of members."""
        layout = self.model.layout
        own = codes[..., [*layout.own, *layout.person]] + layout.of_household[:-1]
        relation = codes[..., layout.relate] - (codes[..., layout.relate] > layout.head)
        relation = np.minimum(relation, layout.of_member[1] - 1)
        member = codes[..., layout.person] + layout.of_member[1:-1]
        width = max(own.shape[-1], 1 + member.shape[-1])
        out = np.full((*codes.shape[:2], width), -1, np.int32)
        heads = which[:, 1] < 0
        out[:, heads, : own.shape[-1]] = own[:, heads]
        out[:, ~heads, 0] = relation[:, ~heads]
        out[:, ~heads, 1 : 1 + member.shape[-1]] = member[:, ~heads]
        return out


def _possible(masses: Masses, holes: list[Hole], rest: Array) -> Array:
    """p(rest of the household) of each person left out (U,), as far as the whole is possible."""
    out = np.empty(len(holes))
    for heads in (False, True):
        some = [u for u, hole in enumerate(holes) if (hole.j < 0) == heads]
        if some:
            allowed = np.stack([holes[u].allowed for u in some]).astype(float)
            cells = masses.head if heads else masses.psi
            out[some] = (rest[some] * (allowed @ cells)).sum(axis=1)
    return np.maximum(out, TINY)


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
        H, batches = len(self.draws), 2 * self.draws.n_chains
        batch = np.arange(H) * batches // H
        how: dict[str, Any] = {"model": self.model, "persons": self.own, "draws": self.draws}
        return [NestedPredictive(**how, targets=targets, batch=batch)]

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
