"""Blocked Gibbs sampling of a nested mixture (Hu, Reiter & Wang 2018).

Labels of households, members' classes summed out, then labels of members; impossible households in
numbers that are negative binomial; splits and merges of classes of households; sticks and levels
given all labels; both concentrations.

Classes of households have weights for each size, so that sizes are given: n0_s ~ NegBin(n_s, p_s)
impossible households of a size with P(possible | size) = p_s make up for the rules.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.errors import ModelError
from bayes_risk._core.parallel import in_order

from .household_moves import move_households
from .masses import CellMasses, Masses, Theta, choose, drawn_impossible
from .rules import Layout, Persons, Rules

MOST = 5_000_000  # impossible households in a sweep
MOVES = 5  # proposals a sweep to split a class of households, or to merge two
MOST_MOVED = 2  # impossible households for each possible one, at most, where there are moves
SMALL = 0.1  # shapes below which gamma draws may be 0 in double precision


class NestedPrior(NamedTuple):
    """Classes of households and of members, and the hyper-parameters of both."""

    n_classes: int
    n_members: int
    concentration: tuple[float, float]
    level: float


class NestedDraws(NamedTuple):
    """H draws, chain after chain; levels in single precision."""

    pi: Array  # (H, S, F)
    lam: Array  # (H, Dh, F)
    omega: Array  # (H, F, M)
    phi: Array  # (H, Dm, F, M)
    alpha: Array  # (H, 2): concentrations of households and of members
    n_chains: int

    @classmethod
    def of(cls, arrays: Sequence[npt.NDArray[Any]], n_chains: int) -> "NestedDraws":
        """Of the arrays above, in their order."""
        pi, lam, omega, phi, alpha = arrays
        return cls(pi, lam, omega, phi, alpha, n_chains)

    def theta(self, h: int) -> Theta:
        """Draw h, in double precision; in one layout, so that loops are compiled once."""
        return Theta(*(np.array(x[h], float, order="C") for x in self[:4]))

    def __len__(self) -> int:
        return len(self.pi)

    @property
    def batch(self) -> Ints:
        """Batch of each draw, (H,): halves of chains, in order."""
        H = len(self)
        return np.arange(H) * 2 * self.n_chains // H


State = tuple[Theta, Array]  # a draw, and both concentrations


class Hole(NamedTuple):
    """A person whose values are not known: a member, or the head (j = -1), of household i."""

    i: int
    j: int
    allowed: Flags  # cells that the rest of the household allows


class Model(NamedTuple):
    """What a sweep needs beside the data."""

    prior: NestedPrior
    layout: Layout
    rules: Rules


@numba.njit(cache=True, nogil=True, error_model="numpy")
def side_by_side(omega, phi):
    """Weights (M F) and levels (Dm, M F) of members' classes, those of one m next to each other."""
    F, M = omega.shape
    weights, levels = np.empty(M * F), np.empty((phi.shape[0], M * F))
    for g in range(F):
        for m in range(M):
            weights[m * F + g] = omega[g, m]
            for k in range(phi.shape[0]):
                levels[k, m * F + g] = phi[k, g, m]
    return weights, levels


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_member(row, weights, levels, w, out):
    """out[g] = p(a member | class g of its household); ``w``: room for each class of members."""
    F, K, at = out.shape[0], weights.shape[0], row[0]
    for x in range(K):
        w[x] = weights[x] * levels[at, x]
    for k in range(1, row.shape[0]):
        at = row[k]
        for x in range(K):
            w[x] *= levels[at, x]
    for g in range(F):
        out[g] = 0.0
    for m in range(K // F):
        for g in range(F):
            out[g] += w[m * F + g]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw_nested_labels(uniform, each, persons, theta, label, classes):
    """Classes of households, then of their members; ``uniform`` (n,) and ``each`` (N,)."""
    household, member, first, size = persons
    pi, lam, omega, phi = theta
    F, M = omega.shape
    weights, levels = side_by_side(omega, phi)
    w, psi, buffer, of_classes = np.empty(F), np.empty(F), np.empty(M), np.empty(M * F)
    for i in range(household.shape[0]):
        s = size[i]
        for g in range(F):
            w[g] = pi[s, g]
        for k in range(household.shape[1]):
            at = household[i, k]
            for g in range(F):
                w[g] *= lam[at, g]
        for j in range(first[i], first[i + 1]):
            fill_member(member[j], weights, levels, of_classes, psi)
            most = 1.0 / psi.max()
            for g in range(F):
                w[g] *= psi[g] * most
        label[i] = choose(uniform[i], w, F)
        for j in range(first[i], first[i + 1]):
            g = label[i]
            for m in range(M):
                buffer[m] = omega[g, m]
            for k in range(member.shape[1]):
                at = member[j, k]
                for m in range(M):
                    buffer[m] *= phi[at, g, m]
            classes[j] = choose(each[j], buffer, M)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_counts(persons, label, classes, counts):
    """Households, members and levels of each class, added to ``counts``."""
    household, member, first, size = persons
    pi, lam, omega, phi = counts
    for i in range(household.shape[0]):
        g = label[i]
        pi[size[i], g] += 1
        for k in range(household.shape[1]):
            if household[i, k] >= 0:
                lam[household[i, k], g] += 1
        for j in range(first[i], first[i + 1]):
            omega[g, classes[j]] += 1
            for k in range(member.shape[1]):
                if member[j, k] >= 0:
                    phi[member[j, k], g, classes[j]] += 1


def log_gamma(rng: Rng, shape: Array) -> Array:
    """Logs of gamma draws; Gamma(a) is Gamma(a + 1) U^(1/a), which does not fall to 0."""
    u = 1.0 - rng.random(np.shape(shape))
    return np.asarray(np.log(rng.standard_gamma(shape + 1.0)) + np.log(u) / shape)


def sticks(rng: Rng, counts: Array, alpha: float) -> tuple[Array, Array]:
    """Weights of classes (..., K) given counts, and log(1 - V) of their sticks (..., K - 1)."""
    after = counts[..., ::-1].cumsum(axis=-1)[..., ::-1] - counts
    one = log_gamma(rng, 1.0 + counts[..., :-1])
    rest = log_gamma(rng, alpha + after[..., :-1])
    both = np.logaddexp(one, rest)
    left = rest - both
    none = np.zeros((*counts.shape[:-1], 1))
    before = np.concatenate([none, left.cumsum(axis=-1)], axis=-1)
    return np.exp(before + np.concatenate([one - both, none], axis=-1)), left


def levels(rng: Rng, counts: Array, starts: Ints, prior: float) -> Array:
    """Dirichlet draws of each column's levels (D, ...)."""
    if prior < SMALL:
        drawn = log_gamma(rng, counts + prior)
        drawn -= np.repeat(np.maximum.reduceat(drawn, starts[:-1]), np.diff(starts), axis=0)
        np.exp(drawn, out=drawn)
    else:
        drawn = rng.standard_gamma(counts + prior)
    drawn /= np.repeat(np.add.reduceat(drawn, starts[:-1]), np.diff(starts), axis=0)
    return drawn


def nested_sweep(model: Model, persons: Persons, theta: Theta, alpha: Array, rng: Rng) -> State:
    """The next draw of theta and of both concentrations."""
    label, classes = (np.empty(len(x), np.int64) for x in persons[:2])
    uniforms = rng.random(len(label)), rng.random(len(classes))
    draw_nested_labels(*uniforms, persons[:4], theta, label, classes)
    every, n, moved = persons, len(label), True
    counts = Theta(*(np.zeros(x.shape) for x in theta))
    if model.rules.bind:
        masses = Masses.of(theta, model.rules, model.layout)
        many = impossible_by_size(model, persons, masses, rng)
        moved = bool(many.sum() <= MOST_MOVED * n)
        more = drawn_impossible(masses, many, moved, rng=rng)
        if moved:
            every, label = persons.beside(more.persons), np.append(label, more.label)
            classes = np.append(classes, more.classes)
        else:
            counts = more.counts
    if moved:
        starts, shape = (model.layout.of_household, model.layout.of_member), theta.omega.shape
        prior = model.prior.level, float(alpha[0]), float(alpha[1])
        of = every[:4], classes, (len(theta.pi), *shape), starts, prior
        move_households(rng, MOVES, n, *of, label)
    add_counts(every[:4], label, classes, counts)
    return given_labels(model, counts, alpha, rng)


def given_labels(model: Model, counts: Theta, alpha: Array, rng: Rng) -> State:
    """Parameters given the counts of labels and levels."""
    _, _, (a, b), level = model.prior
    layout = model.layout
    pi, left = sticks(rng, counts.pi, float(alpha[0]))
    omega, within = sticks(rng, counts.omega, float(alpha[1]))
    lam = levels(rng, counts.lam, layout.of_household, level)
    phi = levels(rng, counts.phi, layout.of_member, level)
    both = [rng.standard_gamma(a + x.size) / (b - x.sum()) for x in (left, within)]
    return Theta(pi, lam, omega, phi), np.array(both)


def impossible_by_size(model: Model, persons: Persons, masses: Masses, rng: Rng) -> Ints:
    """How many impossible households of each size there are beside the possible ones, (S,)."""
    p = np.clip(masses.by_size(), 1e-12, 1.0)
    n = np.bincount(persons.size, minlength=len(p))
    expected = n * (1.0 - p) / p
    if expected.sum() > MOST:
        size = model.layout.sizes[int(expected.argmax())]
        raise ModelError(
            f"by the rules of `impossible` few households of {size} persons are possible "
            f"({p[int(expected.argmax())]:.1e} of those that the model draws); fit with more "
            "classes, or give fewer rules"
        )
    return rng.negative_binomial(np.maximum(n, 1), p) * (n > 0)


def person_drawn(model: Model, persons: Persons, theta: Theta, hole: Hole, rng: Rng) -> Persons:
    """The same households, the values of the person who is not known drawn given the others."""
    i, j, allowed = hole
    span = np.array([k for k in range(persons.first[i], persons.first[i + 1]) if k != j])
    masses = CellMasses.of(theta, model.rules)
    w = theta.pi[persons.size[i]].copy()
    for k in span:
        w *= (theta.omega * theta.phi[persons.member[k]].prod(axis=0)).sum(axis=1)
    household, member = persons.household.copy(), persons.member.copy()
    own = len(model.layout.own)
    if j >= 0:
        w *= theta.lam[household[i]].prod(axis=0)
        cells, row, starts, at = model.rules.members, member[j], model.layout.of_member, masses.psi
    else:
        cells, row, starts = model.rules.heads, household[i], model.layout.of_household
        at = masses.head
        if len(span):
            w *= theta.lam[[x for k, x in enumerate(row[:own]) if k not in cells.columns]].prod(0)
    joint = w * np.where(allowed[:, None], at, 0.0)  # (cells, F)
    c, g = divmod(int(choose(rng.random(), joint.ravel(), joint.size)), joint.shape[1])
    table = theta.lam[:, g]
    if j >= 0:
        m = int(choose(rng.random(), masses.member[c, g], len(masses.member[c, g])))
        table = theta.phi[:, g, m]
    kept = own if j < 0 and len(span) else 0  # what other members show
    for k in range(kept, len(row)):
        if k not in cells.columns:
            p = table[starts[k] : starts[k + 1]]
            row[k] = starts[k] + choose(rng.random(), p, len(p))
    row[cells.columns] = cells.levels()[c] + cells.begin
    return persons._replace(household=household, member=member)


def hole_of(model: Model, persons: Persons, i: int, j: int) -> Hole:
    """The place of a person; what other members show of the household is known."""
    allowed = model.rules.allowed(persons, i, None if j < 0 else j)
    cells, row = model.rules.heads, persons.household[i]
    if j < 0 and persons.first[i + 1] > persons.first[i]:
        own = cells.columns < len(model.layout.own)
        same = cells.levels()[:, own] == (row[cells.columns] - cells.begin)[own]
        allowed = allowed & same.all(axis=1)
    return Hole(i, j, allowed)


def first_draw(model: Model, persons: Persons, rng: Rng) -> State:
    """Parameters given labels: of households at random, of members by their relations."""
    F, M, layout = model.prior.n_classes, model.prior.n_members, model.layout
    D, d = layout.of_household[-1], layout.of_member[-1]
    shapes = (len(layout.sizes), F), (D, F), (F, M), (d, F, M)
    counts = Theta(*(np.zeros(shape) for shape in shapes))
    label = rng.integers(F, size=len(persons.household))
    add_counts(persons[:4], label, persons.member[:, 0].astype(np.int64) % M, counts)
    return given_labels(model, counts, np.ones(2), rng)


def nested_chain(
    model: Model,
    persons: Persons,
    start: State,
    length: tuple[int, int, int],
    tick: Callable[[int], None],
    hole: Hole | None,
    rng: Rng,
) -> list[tuple[npt.NDArray[Any], ...]]:
    """Draws of one chain; ``length``: kept, warm-up, sweeps a draw."""
    draws, tune, thin = length
    kept, now = list[tuple[npt.NDArray[Any], ...]](), start
    for k in range(tune + draws * thin):
        seen = persons if hole is None else person_drawn(model, persons, now[0], hole, rng)
        now = nested_sweep(model, seen, *now, rng)
        if k >= tune and (k - tune + 1) % thin == 0:
            kept.append((*(x.astype(np.float32) for x in now[0]), now[1]))
        if k < tune or (k - tune + 1) % thin == 0:
            tick(1)
    return kept


def nested_chains(
    model: Model,
    persons: Persons,
    starts: list[State],
    length: tuple[int, int, int],
    *,
    rng: Rng,
    n_jobs: int = 1,
    tick: Callable[[int], None] = lambda done: None,
    hole: Hole | None = None,
) -> NestedDraws:
    """Draws of chains from these starts."""
    jobs = [
        partial(nested_chain, model, persons, start, length, tick, hole, child)
        for start, child in zip(starts, rng.spawn(len(starts)), strict=True)
    ]
    kept = [
        one
        for chain in in_order(jobs, n_jobs=n_jobs, what="chains", where="threads")
        for one in chain
    ]
    return NestedDraws.of([np.stack(each) for each in zip(*kept, strict=True)], len(starts))
