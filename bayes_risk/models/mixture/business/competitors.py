"""Totals that are dealt (MM, TCMM), classes learnt from counts, and predictives for competitors.

Given labels the counts of a group are Poisson with a common rate, so given their total multinomial
with chances e_i / sum e: that is the deal. Labels are drawn anew for each draw of the chains; given
them the rate of count j in class k is Gamma(shape_j + S_kj, rate_j + E_kj).

Who knows the second largest value of a count is told ``p(y* | A, Z) / p(y* | A)`` of a further
record. To who knows all records but two, and their sum, a guess for the target fixes the other's
value: ``p(y*, T - y* | known, Z) / p(y*, T - y* | known)``. The others: `docs/business.md`.

*A tail of TCMM.* The sum is computed exactly by tilted Fourier transforms, or, if too large, by the
saddlepoint exp(n K(t) - t s) / sqrt(2 pi n K''(t)).

*All but two, and their sum.* With T the sum, from fits without the two (exact for any m),

    MP:  p(Z|y*,A) ∝ p(y*,T - y*|A,Z) / p(y*,T - y*|A),
    p(y*,T - y*|labels,pi) = sum_{k != l} pi_k pi_l NB_k(y*) NB_l(T-y*)
                             + sum_k pi_k^2 NB_k(y*) NB_{k+y*}(T-y*),
    MM, TCMM, groups known:  p(Z|y*,A) ∝ p(labels|y*,T - y*,A);

in two groups the totals show both values; in one it is Bin(y*; T, e / (e+e')) over p(y*,T - y*|A).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from scipy import integrate, stats

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import change, log_sum
from bayes_risk._core.validate import in_range
from bayes_risk.models.mixture.families import log_number_density
from bayes_risk.models.mixture.masses import count_constant, deviance, stirling_error
from bayes_risk.models.mixture.sampler import collapse, stick_breaking
from bayes_risk.models.mixture.state import Draws, Prior, Rows, Units

TAIL = -1


def checked_quantile(kind: str, quantile: float) -> float:
    """A quantile strictly between 0 and 1, for TCMM alone."""
    if kind != "TCMM":
        text = f"has no meaning for {kind}; leave it out, or declare TCMM"
        raise InputError("quantile", quantile, text)
    return in_range("quantile", quantile)


def thresholds(counts: Array, quantile: float) -> Array:
    """Least value with at least that share of records at or below it, by column, shape (p,)."""
    return np.asarray(np.quantile(counts, quantile, axis=0, method="inverted_cdf"))


def shared_groups(labels: Ints, counts: Array, quantile: float | None) -> Ints:
    """Which records share a total, by column: their components, or the tail -1; shape (n, p)."""
    groups = np.repeat(labels[:, None], counts.shape[1], axis=1)
    if quantile is not None:
        groups[counts > thresholds(counts, quantile)] = TAIL
    return groups


def deal(rng: Rng, counts: Array, exposure: Array, groups: Ints) -> Ints:
    """Each group's total, dealt to its records by Multinomial(T; e_i / sum e), (n, p)."""
    out = np.empty(counts.shape, np.int64)
    for j in range(counts.shape[1]):
        x = counts[:, j].astype(np.int64)
        for group in np.unique(groups[:, j]):
            mine = groups[:, j] == group
            e = exposure[mine, j]
            out[mine, j] = rng.multinomial(x[mine].sum(), e / e.sum())
    return out


@numba.vectorize(cache=True)
def binomial_masses(y, total, chance):  # type: ignore[no-untyped-def]  # a kernel
    """log Binomial(y; total, chance) by Loader's expansion; -inf outside 0 .. total."""
    if y < 0.0 or y > total:
        return -np.inf
    rest = total - y
    if chance >= 1.0:
        return 0.0 if rest == 0.0 else -np.inf
    if y == 0.0:
        return total * math.log1p(-chance)
    if rest == 0.0:
        return total * math.log(chance)
    ahead = total * chance - y
    deviances = deviance(y, ahead, total * chance) + deviance(rest, -ahead, total * (1.0 - chance))
    return count_constant(total) - count_constant(y) - count_constant(rest) - deviances


@numba.vectorize(cache=True)
def count_masses(y, A, B, exposure, zero):  # type: ignore[no-untyped-def]  # a kernel
    """log of the mass of a count, rate Gamma(A, B), or A where B = 0; zeros with chance `zero`."""
    of = A, B, stirling_error(A), zero, 0.0
    return log_number_density(y, exposure, of, False, zero != 0.0, 1.0, (0.0, count_constant(y)))


def mixed(log_weight: Array, masses: Callable[[int], Array]) -> Array:
    """log sum_k exp(log_weight_hk + masses(h)_kg), shape (H, G); one draw after the other."""
    return np.stack([log_sum(w[:, None] + masses(h)) for h, w in enumerate(log_weight)])


def log_of_others(x: Array) -> Array:
    """log of the sum over all classes but one, for each of them, (R, K); nothing cancels."""
    nothing = np.full((len(x), 1), -np.inf)
    before = np.hstack([nothing, np.logaddexp.accumulate(x[:, :-1], axis=1)])
    after = np.hstack([np.logaddexp.accumulate(x[:, :0:-1], axis=1)[:, ::-1], nothing])
    return np.asarray(np.logaddexp(before, after))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Classes:
    """Classes of which some records are known."""

    prior: Prior
    weights: Array  # (H, K): chances of the class of a further record
    M: Array  # (H, D + 2 p, K): sums, as in `families.py`
    phi: Array  # (H, D, K)
    # (p + q,): variables whose parameters are those of phi, else they are integrated out
    fixed: Flags

    def rate(self, j: int, *beside: Rows) -> tuple[Array, Array]:
        """Gamma posterior of the rate of count j, further records in the class; (H, K) each."""
        if self.fixed[j]:
            return self.phi[:, j], np.zeros(self.weights.shape)
        further, D = [self._count_and_exposure(row, j) for row in beside], self.prior.width
        shape: Array = self.prior.shape[j] + self.M[:, j] + sum(x for x, _ in further)
        return shape, self.prior.rate[j] + self.M[:, D + j] + sum(e for _, e in further)

    def zero(self, j: int) -> Array:
        """Expected chance that a value of count j is a structural zero, (H, K)."""
        p, D = self.prior.n_counts, self.prior.width
        if self.prior.inflation is None or self.fixed[j]:
            return self.phi[:, p + j] * (self.prior.inflation is not None)
        a, b = self.prior.inflation
        chance: Array = (a + self.M[:, p + j]) / (a + b + self.M[:, p + j] + self.M[:, D + p + j])
        return chance

    def log_known(self, row: Rows, *beside: Rows) -> Array:
        """log p(what is known of a further record | k), (H, K), ``beside`` more of its class."""
        prior, total = self.prior, np.zeros(self.weights.shape)
        p, a, padding = prior.n_counts, prior.level, prior.width - 1
        for j in range(p):
            x, e = self._count_and_exposure(row, j)
            if e > 0:
                total += count_masses(x, *self.rate(j, *beside), e, 0.0)
        for q, level in enumerate(row.positions[0]):
            if level == padding:
                continue
            if self.fixed[p + q]:
                total += np.log(self.phi[:, level])
                continue
            near = [other.positions[0, q] for other in beside if other.positions[0, q] != padding]
            here = self.M[:, prior.starts[q] : prior.starts[q + 1]]
            mass = a * here.shape[1] + here.sum(axis=1) + len(near)
            total += np.log(a + self.M[:, level] + near.count(level)) - np.log(mass)
        return total

    def _count_and_exposure(self, row: Rows, j: int) -> tuple[float, float]:
        """Sums of the values of count j that a row tells, and of their exposures."""
        p = self.prior.n_counts
        return float(row.counts[0, j::p].sum()), float(row.exposure[0, j::p].sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassPosterior(Classes):
    """Classes learnt from rows."""

    draws: Draws  # of which the labels were drawn
    label: npt.NDArray[np.int16]  # (H, U): of each unit, in which there may be several rows

    @classmethod
    def of(
        cls, prior: Prior, units: Units, draws: Draws, fixed: Flags, *, rng: Rng
    ) -> "ClassPosterior":
        """Draw the labels of the units."""
        wanted = np.arange(len(units.multiplicity))
        sums, label, _ = collapse(prior, units, draws, fixed, wanted, rng=rng)
        weights = stick_breaking(sums.n, draws.alpha)
        how: Any = {"prior": prior, "fixed": fixed, "draws": draws, "label": label}
        return cls(weights=weights, M=sums.M, phi=draws.phi, **how)

    def averaged(self, log_p: Array) -> "Averaged":
        """log of the mean of exp(log_p (H, G)) over the draws, and over those of each batch."""
        value = log_sum(log_p) - np.log(len(log_p))
        batch = batch_of_draws(len(self.draws), self.draws.n_chains)
        means = [log_sum(log_p[batch == b]) - np.log((batch == b).sum()) for b in np.unique(batch)]
        by_batch = np.stack(means) if len(means) > 1 else np.stack([value, value])
        best, ess = log_p[:, int(np.argmax(value))], 0.0
        if np.isfinite(best).any():
            ess = float(np.exp(2 * log_sum(best) - log_sum(2 * best)))
        return Averaged(value, change(by_batch, value, 0.0), ess)


class Averaged(NamedTuple):
    """Mean over draws, in logs: ``value`` (..., G), ``deviation`` of batches (B, G), ``ess``."""

    value: Array
    deviation: Array
    ess: float

    @classmethod
    def exact(cls, log_p: Array) -> "Averaged":
        """Without a Monte Carlo error."""
        return cls(log_p, np.zeros((2, log_p.shape[-1])), np.inf)


def same_class(n_classes: int, concentration: tuple[float, float]) -> float:
    """Prior probability that two records share a class, alpha integrated out: E[sum_k pi_k^2]."""

    def chance(u: float) -> float:
        alpha = float(stats.gamma.ppf(u, concentration[0], scale=1.0 / concentration[1]))
        q = (alpha / (alpha + 2.0)) ** (n_classes - 1)
        return float((1.0 - q) / (1.0 + alpha) + q)

    return float(integrate.quad(chance, 0.0, 1.0, epsabs=1e-10, limit=400)[0])


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
    return np.asarray(further(two, question)[0])


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
    return np.asarray(np.logaddexp(apart, together) - log_n[:, None])


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


def sharing_columns(groups: Ints) -> Flags:
    """In which columns two records share a component, given their groups (2, q)."""
    return np.asarray((groups[0] == groups[1]) & (groups[0] != TAIL))


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
    split = np.where(sharing_columns(groups), halves, 0.0).sum(axis=1)
    return change(np.where(possible.all(axis=1), split, -np.inf), before)


EXACT_UP_TO = 2**21  # cells of the convolution
TILTS = 64  # centres at which a convolution is taken
TRUSTED = 1e-9  # of the largest mass: below, rounding errors of the transform show
NODES = 4096  # support points of the saddlepoint's sums
EXPONENTS = np.linspace(0.0, 4.0, 17)  # of the power laws that a tail may follow


def belief(others: Any, low: float, high: float, column: str) -> tuple[Array, Array]:
    """Values (V,) of one other record of the tail, and S beliefs about them (S, V).

    By default power laws v ** -s for each s of `EXPONENTS`: what the total says of s is learnt.
    """
    values = np.arange(np.floor(low) + 1.0, np.floor(high) + 1.0)
    if others is None:
        relative = np.maximum(values, 0.5) / max(values[0], 0.5)
        powers = relative ** -EXPONENTS[:, None]
        return values, powers / powers.sum(axis=1, keepdims=True)
    if hasattr(others, "pmf"):
        chances = np.asarray(others.pmf(values), dtype=float)
    else:
        chances = np.asarray(others.cdf(values + 0.5) - others.cdf(values - 0.5), dtype=float)
    if not chances.sum() > 0:
        raise InputError(
            f"others gives no probability to values of {column!r} above the threshold and up to "
            "the second largest; give a belief that covers them"
        )
    return values, (chances / chances.sum())[None]


def log_sum_of_others(sums: Array, n: int, values: Array, chances: Array) -> tuple[Array, bool]:
    """log Pr(n values of `belief` add up to each of ``sums`` (G,)), and whether that is exact."""
    if n == 0:
        return np.where(sums == 0, 0.0, -np.inf), True
    steps = sums - n * values[0]  # in steps above the least possible sum
    possible = (steps >= 0) & (steps <= n * (len(values) - 1)) & (steps == np.round(steps))
    out = np.full(len(sums), -np.inf)
    exact = n * len(values) <= EXACT_UP_TO
    if possible.any():
        added = convolved if exact else saddlepoint
        with np.errstate(divide="ignore"):
            each = [added(steps[possible], n, np.log(row)) for row in chances]
        out[possible] = np.logaddexp.reduce(each, axis=0) - np.log(len(each))
    return out, exact


def convolved(steps: Array, n: int, log_chances: Array) -> Array:
    """log Pr(sum of n steps) on 0 .. V - 1, by Fourier transforms, tilted to where it is asked."""
    v = np.arange(len(log_chances), dtype=float)
    size = 1 << int(np.ceil(np.log2(n * (len(v) - 1) + 1)))
    out = np.full(len(steps), -np.inf)
    left = np.argsort(steps, kind="stable")
    for _ in range(TILTS):
        if not len(left):
            break
        centre = steps[left[len(left) // 2]]
        mean = float(np.clip(centre / n, 1e-6 * v[-1], (1.0 - 1e-6) * v[-1]))
        t = _tilted(mean, v, log_chances)[0] if len(v) > 1 else 0.0
        log_tilted = log_chances + t * v
        scale = np.logaddexp.reduce(log_tilted)
        spectrum = np.fft.rfft(np.exp(log_tilted - scale), size)
        mass = np.fft.irfft(spectrum**n, size)
        at = mass[steps[left].astype(np.int64)]
        good = at > TRUSTED * mass.max()
        here = left[good]
        out[here] = np.log(at[good]) + n * scale - t * steps[here]
        if not good.any():
            break
        left = left[~good]
    if len(left):
        out[left] = saddlepoint(steps[left], n, log_chances)
    return out


def saddlepoint(steps: Array, n: int, log_chances: Array) -> Array:
    """The same approximately: exp(n K(t) - t s) / sqrt(2 pi n K''(t)) with n K'(t) = s."""
    v, log_mass = np.arange(len(log_chances), dtype=float), log_chances
    if len(v) > NODES:  # neighbouring values taken together
        edges = np.linspace(0, len(v), NODES + 1).astype(int)[:-1]
        mass = np.add.reduceat(np.exp(log_chances), edges)
        v = np.add.reduceat(np.exp(log_chances) * v, edges) / np.maximum(mass, 1e-300)
        with np.errstate(divide="ignore"):
            log_mass = np.log(mass)
    out = np.empty(len(steps))
    for g, s in enumerate(steps):
        if s <= 0 or s >= n * (len(log_chances) - 1):
            out[g] = n * (log_chances[0] if s <= 0 else log_chances[-1])
            continue
        t, cumulant, variance = _tilted(s / n, v, log_mass)
        out[g] = n * cumulant - t * s - 0.5 * np.log(2 * np.pi * n * max(variance, 1e-12))
    return out


def _tilted(mean: float, v: Array, log_chances: Array) -> tuple[float, float, float]:
    """The tilt t with mean K'(t), K(t), K''(t), by bisection safeguarding Newton's steps."""
    low, high, t = -np.inf, np.inf, 0.0
    span = max(float(v[-1] - v[0]), 1.0)
    total = spread = 0.0
    for _ in range(200):
        log_w = log_chances + t * v
        total = float(np.logaddexp.reduce(log_w))
        w = np.exp(log_w - total)
        here = float(w @ v)
        spread = float(w @ (v - here) ** 2)
        if abs(here - mean) <= 1e-10 * span:
            break
        low, high = (t, high) if here < mean else (low, t)
        step = t + (mean - here) / max(spread, 1e-12 * span**2)
        if not low < step < high:
            step = t + np.sign(mean - here) * max(1.0 / span, abs(t))
            if np.isfinite(low) and np.isfinite(high):
                step = 0.5 * (low + high)
        t = step
    return t, total, spread
