"""Predictives and deals for business competitors, everything that they do not know integrated out.

Who knows the second largest value of a count is told by a release ``p(y* | A, Z) / p(y* | A)``, in
predictives of a further record. To who knows all records but two, and the sum of these two, a guess
for the target fixes the other's value, so that the evidence is that of a pair: ``p(y*, T - y* |
known, Z) / p(y*, T - y* | known)``. Derivations stand in `docs/business.md`.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.logspace import change, log_sum
from bayes_risk.models.mixture.state import Prior, Rows

from .class_posterior import (
    Classes,
    ClassPosterior,
    binomial_masses,
    count_masses,
    log_of_others,
    mixed,
    same_class,
)
from .totals import TAIL


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """What is asked of one target, and what is known."""

    column: int  # of one count
    guesses: Array  # (G,)
    exposure: float  # the target's
    target: Rows  # one row: what is known of the target
    second: Rows  # and of the second largest


def before(prior: Prior, question: Question) -> Array:
    """log p(y*, what is known of the target | A), a closed form of two classes; shape (G,)."""
    p, D, second = prior.n_counts, prior.width, question.second
    M = np.zeros((1, prior.n_sums, 2))
    M[0, :p, 0], M[0, D : D + p, 0] = second.counts[0], second.exposure[0]
    M[0, D + p :, 0] = (second.exposure[0] > 0) & (second.counts[0] > 0)
    M[0, second.positions[0], 0] = 1.0
    chance = same_class(prior.n_classes, prior.concentration)
    two = Classes(
        prior=prior,
        weights=np.array([[chance, 1.0 - chance]]),
        M=M,
        phi=np.zeros((1, D, 2)),
        fixed=np.zeros(p + len(prior.starts) - 1, dtype=bool),
    )
    found: Array = further(two, question)[0]
    return found


def further(learnt: Classes, question: Question) -> Array:
    """log p_h(y*, what is known of the target) of a further record, (H, G), given the labels."""
    j, y, e = question.column, question.guesses, question.exposure
    with np.errstate(divide="ignore"):
        log_weight = np.log(learnt.weights) + learnt.log_known(question.target)
    of = [x[:, :, None] for x in (*learnt.rate(j), learnt.zero(j))]
    return mixed(log_weight, lambda h: count_masses(y, of[0][h], of[1][h], e, of[2][h]))


def with_total(
    learnt: ClassPosterior, question: Question, rest: Array | None, n_others: int
) -> Array:
    """log p(y*, the rest T - y_2 - y* (G,) of the total | theta_h), (H, G); None: of y* alone.

    Given theta the sum of the others is taken as normal with the moments of the mixture.
    """
    fixed = np.ones(len(learnt.fixed), dtype=bool)
    theta = replace(learnt, weights=learnt.draws.pi, fixed=fixed)  # nothing integrated out
    log_y = further(theta, question)
    if rest is None:
        return log_y
    if n_others == 0:
        return np.where(rest == 0, log_y, -np.inf)
    rates = theta.phi[:, question.column]
    mean, variance = moments(theta.weights, rates, 1.0 - theta.zero(question.column))
    spread = np.maximum(n_others * variance, 1e-12)[:, None]
    off = rest - n_others * mean[:, None]
    log_total = -0.5 * (off**2 / spread + np.log(2 * np.pi * spread))
    return np.where(rest >= 0, log_y + log_total, -np.inf)


def moments(pi: Array, rates: Array, alive: Array) -> tuple[Array, Array]:
    """Mean and variance of one count of a Poisson mixture, for every draw: (H,) each."""
    mean = (pi * alive * rates).sum(axis=1)
    square = (pi * alive * (rates + rates**2)).sum(axis=1)
    return mean, square - mean**2


class Groups(NamedTuple):
    """Groups of records that share a total, for H ways to draw them."""

    totals: Array  # (H, K, p), as exposure: sums over those who share it
    exposure: Array
    first: Array  # (H, K), as the next: rows that may be the target's
    second: Array  # the second largest's
    both: Array  # and either's

    @classmethod
    def of(
        cls, rows: Rows, label: npt.NDArray[np.integer], first: Array, second: Array
    ) -> "Groups":
        """Add up rows by labels (H, n); ``first`` and ``second`` (n,): who they may be."""
        p, K = rows.counts.shape[1], int(label.max()) + 1
        what = (*rows.counts.T, *rows.exposure.T, first, second, first * second)
        sums = np.empty((len(label), K, len(what)))
        for h, own in enumerate(label):
            for c, column in enumerate(what):
                sums[h, :, c] = np.bincount(own, column, minlength=K)
        who = np.moveaxis(sums[..., 2 * p :], 2, 0)
        return cls(sums[..., :p], sums[..., p : 2 * p], *who)


def dealt(groups: Groups, question: Question) -> Array:
    """log p_h(y*, y_2 | groups and their totals), shape (H, G): target and second are any two rows.

    Sum over k, l of Binomial(y*; T_k, e_i / E_k) Binomial(y_2; T_l, e_2 / E_l), and where k = l,
    y_2 taken out of the group first.
    """
    # log p of what is known: of the target alone and with y_2 taken out, of the second; (H, K)
    alone, taken, second = (np.zeros(groups.first.shape) for _ in range(3))
    for j in range(groups.totals.shape[2]):
        T, E = groups.totals[:, :, j], groups.exposure[:, :, j]
        e, e_2 = question.target.exposure[0, j], question.second.exposure[0, j]
        y, y_2 = question.target.counts[0, j], question.second.counts[0, j]
        if e > 0:
            alone += binomial_masses(y, T, e / np.maximum(E, e))
            taken += binomial_masses(y, T - y_2, e / np.maximum(E - e_2, e))
        if e_2 > 0:
            second += binomial_masses(y_2, T, e_2 / np.maximum(E, e_2))
    one, other = groups.first, groups.second
    with np.errstate(divide="ignore"):
        log_n = np.log(one.sum(axis=1) * other.sum(axis=1) - groups.both.sum(axis=1))
        log_apart = np.log(one) + log_of_others(np.log(other) + second) + alone
        log_together = np.log(np.maximum(one * other - groups.both, 0.0)) + second + taken
    j, e, y = question.column, question.exposure, question.guesses
    T, E = groups.totals[:, :, j, None], np.maximum(groups.exposure[:, :, j, None], e)
    T_2 = T - question.second.counts[0, j]
    E_2 = np.maximum(E - question.second.exposure[0, j], e)
    apart = mixed(log_apart, lambda h: binomial_masses(y, T[h], e / E[h]))
    together = mixed(log_together, lambda h: binomial_masses(y, T_2[h], e / E_2[h]))
    found: Array = np.logaddexp(apart, together) - log_n[:, None]
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair:
    """Target and other: what is guessed of both, and what is known of each."""

    columns: Ints  # (q,): guessed counts
    guesses: Array  # (G, q): of the target
    totals: Array  # (q,): of the two
    exposure: Array  # (2, p)
    first: Rows  # one row: what is known of the target, with synthetic values that are tied to it
    second: Rows  # and of the other


def pair_masses(learnt: ClassPosterior, pair: Pair) -> Array:
    """log p_h(y*, T - y*, what is known of both), shape (H, G), rates integrated out."""
    with np.errstate(divide="ignore"):
        log_pi = np.log(learnt.draws.pi)
    log_first = log_pi + learnt.log_known(pair.first)
    log_second = log_pi + learnt.log_known(pair.second)
    log_same = log_first + log_pi + learnt.log_known(pair.second, pair.first)
    rates = [
        [learnt.rate(j, *rows) for rows in ([pair.first], [pair.second], [pair.first, pair.second])]
        for j in pair.columns.tolist()
    ]
    out = np.empty((len(log_pi), len(pair.guesses)))
    for h in range(len(out)):
        first, second, same = log_first[h], log_second[h], log_same[h]
        for q, j in enumerate(pair.columns.tolist()):
            y, z = pair.guesses[:, [q]], pair.totals[q] - pair.guesses[:, [q]]
            e, f = pair.exposure[0, j], pair.exposure[1, j]
            (A, B), (C, D), (E, F) = ((x[h], rate[h]) for x, rate in rates[q])
            first = first + count_masses(y, A, B, e, 0.0)
            second = second + count_masses(z, C, D, f, 0.0)
            same = same + count_masses(y, E, F, e, 0.0)
            same = same + count_masses(z, E + np.maximum(y, 0), F + e, f, 0.0)
        apart = log_sum(first + log_of_others(second), axis=1)
        out[h] = np.logaddexp(apart, log_sum(same, axis=1))
    return out


def together(groups: Ints) -> Flags:
    """In which columns two records share a component, given their groups (2, q)."""
    shared: Flags = (groups[0] == groups[1]) & (groups[0] != TAIL)
    return shared


def dealt_to_pair(groups: Ints, threshold: Array, pair: Pair, truth: Array, before: Array) -> Array:
    """log evidence (G,) of a release whose groups (2, q) are known, ``before`` (G,) it.

    Two groups tell both values, y* the ``truth`` (q,); of one component the two are binomial given
    their sum; in the collapsed tail both lie above the ``threshold`` (q,).
    """
    y, z, same = pair.guesses, pair.totals - pair.guesses, groups[0] == groups[1]
    above = (y > threshold) & (z > threshold)
    possible = np.where(same & (groups[0] == TAIL), above, (y >= 0) & (z >= 0))
    possible &= same | (y == truth)
    e, f = pair.exposure[0, pair.columns], pair.exposure[1, pair.columns]
    halves = binomial_masses(np.clip(y, 0, pair.totals), pair.totals, e / (e + f))
    split = np.where(together(groups), halves, 0.0).sum(axis=1)
    return change(np.where(possible.all(axis=1), split, -np.inf), before)
