"""Intruders who know the second largest value of a count: evidence of guesses for the largest.

Derivations stand in `docs/business.md`. Everything else is integrated out: what the release says is
``p(y* | A, Z) / p(y* | A)``, in predictives of a further record.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayes_risk._core.logspace import change, log_sum
from bayes_risk.models.mixture.columns import Rows
from bayes_risk.models.mixture.state import Prior

from .class_posterior import (
    Classes,
    ClassPosterior,
    binomial_masses,
    count_masses,
    log_of_others,
    mixed,
    same_class,
)

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """What is asked of one target, and what is known.

    Attributes
    ----------
    column : int
        The guessed count.
    guesses : ndarray, shape (G,)
    exposure : float
        The target's exposure in that count.
    target, second : Rows
        One row each: what is known of the target and of the second largest.
    """

    column: int
    guesses: Array
    exposure: float
    target: Rows
    second: Rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Averaged:
    """Mean over draws, in logs: ``value`` (..., G), ``deviation`` of batches (B, G), ``ess``."""

    value: Array
    deviation: Array
    ess: float


def averaged(log_p: Array, batch: Ints) -> Averaged:
    """log of the mean of exp(log_p (H, G)) over the draws, and over those of each batch."""
    value = log_sum(log_p) - np.log(len(log_p))
    means = [log_sum(log_p[batch == b]) - np.log((batch == b).sum()) for b in np.unique(batch)]
    by_batch = np.stack(means) if len(means) > 1 else np.stack([value, value])
    best = log_p[:, int(np.argmax(value))]
    ess = float(np.exp(2 * log_sum(best) - log_sum(2 * best))) if np.isfinite(best).any() else 0.0
    return Averaged(value=value, deviation=change(by_batch, value, 0.0), ess=ess)


def before(prior: Prior, question: Question) -> Array:
    """log p(y*, what is known of the target | A), a closed form; shape (G,).

    P_same NB(y*; shape + y_2, rate + e_2) + (1 - P_same) NB(y*; shape, rate).
    """
    found: Array = further(alone_in_class(prior, question.second), question)[0]
    return found


def alone_in_class(prior: Prior, second: Rows) -> Classes:
    """Two classes, the first with the second largest in it, the other for everybody else."""
    p, D = prior.n_counts, prior.width
    M = np.zeros((1, prior.n_sums, 2))
    M[0, :p, 0], M[0, D : D + p, 0] = second.counts[0], second.exposure[0]
    M[0, D + p :, 0] = (second.exposure[0] > 0) & (second.counts[0] > 0)
    M[0, second.positions[0], 0] = 1.0
    chance = same_class(prior.n_classes, prior.concentration)
    return Classes(
        prior=prior,
        weights=np.array([[chance, 1.0 - chance]]),
        M=M,
        phi=np.empty((1, D, 2)),
        fixed=np.zeros(p + len(prior.starts) - 1, dtype=bool),
    )


def further(learnt: Classes, question: Question) -> Array:
    """log p_h(y*, what is known of the target) of a further record, (H, G), rates integrated out.

    sum_k E[pi_k | labels] p(known | k) NB(y*; shape_j + S_kj, rate_j + E_kj).
    """
    j, y, e = question.column, question.guesses, question.exposure
    with np.errstate(divide="ignore"):
        log_weight = np.log(learnt.weights) + learnt.log_known(question.target)
    of = [x[:, :, None] for x in (*learnt.rate(j), learnt.zero(j))]
    return mixed(log_weight, lambda h: count_masses(y, of[0][h], of[1][h], e, of[2][h]))


def with_total(
    learnt: ClassPosterior, question: Question, rest: Array | None, n_others: int
) -> Array:
    """log p(y*, the rest of the total | theta_h), shape (H, G); ``rest`` (G,) is T - y_2 - y*.

    Of y* alone if ``rest`` is None.

    Given theta the sum of the others is taken as normal with the moments of the mixture; y* itself
    is Poisson in each class.
    """
    j, theta = question.column, learnt.at_theta
    log_y = further(theta, question)
    if rest is None:
        return log_y
    if n_others == 0:
        return np.where(rest == 0, log_y, -np.inf)
    mean, variance = moments(theta.weights, theta.phi[:, j], 1.0 - theta.zero(j))
    spread = np.maximum(n_others * variance, 1e-12)[:, None]
    off = rest - n_others * mean[:, None]
    log_total = -0.5 * (off**2 / spread + np.log(2 * np.pi * spread))
    return np.where(rest >= 0, log_y + log_total, -np.inf)


def moments(pi: Array, rates: Array, alive: Array) -> tuple[Array, Array]:
    """Mean and variance of one count of a Poisson mixture, for every draw: (H,) each."""
    mean = (pi * alive * rates).sum(axis=1)
    square = (pi * alive * (rates + rates**2)).sum(axis=1)
    return mean, square - mean**2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """Groups of records that share a total, for H ways to draw them.

    Attributes
    ----------
    totals : ndarray, shape (H, K, p)
        Of each count.
    exposure : ndarray, shape (H, K, p)
        Sums of the exposures of those who share it.
    first, second, both : ndarray, shape (H, K)
        How many rows may be the target's, the second largest's, and either's.
    """

    totals: Array
    exposure: Array
    first: Array
    second: Array
    both: Array

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
        names = ("first", "second", "both")
        rest = dict(zip(names, np.moveaxis(sums[..., 2 * p :], 2, 0), strict=True))
        return cls(totals=sums[..., :p], exposure=sums[..., p : 2 * p], **rest)


def dealt(groups: Groups, question: Question) -> Array:
    """log p_h(y*, y_2 | groups and their totals), shape (H, G).

    Given the groups, the values of each are Multinomial(T_k; e_i / E_k), and target and second
    largest are any two of the rows:
    sum over k, l of Binomial(y*; T_k, e_i / E_k) Binomial(y_2; T_l, e_2 / E_l), and where k = l,
    y_2 taken out of the group first.
    """
    alone, taken, second = _of_groups(groups, question)
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


def _of_groups(groups: Groups, question: Question) -> tuple[Array, Array, Array]:
    """log p of what is known: of the target alone and with y_2 taken out, of the second; (H, K)."""
    out = [np.zeros(groups.first.shape) for _ in range(3)]
    target, second = question.target, question.second
    for j in range(groups.totals.shape[2]):
        T, E = groups.totals[:, :, j], groups.exposure[:, :, j]
        e, e_2 = target.exposure[0, j], second.exposure[0, j]
        y, y_2 = target.counts[0, j], second.counts[0, j]
        if e > 0:
            out[0] += binomial_masses(y, T, e / np.maximum(E, e))
            out[1] += binomial_masses(y, T - y_2, e / np.maximum(E - e_2, e))
        if e_2 > 0:
            out[2] += binomial_masses(y_2, T, e_2 / np.maximum(E, e_2))
    return out[0], out[1], out[2]
