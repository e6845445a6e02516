"""What an intruder learns of the classes of a Poisson mixture from rows of counts.

Labels are drawn anew for each draw of the chains, p(z | rows, theta_h), so that (theta_h, z) is a
draw of the joint posterior; given z the rate of count j in class k is Gamma(shape_j + S_kj,
rate_j + E_kj), and the next record's class has the stick-breaking predictive.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from scipy import integrate, stats

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.logspace import change, log_sum
from bayes_risk.models.mixture.families import log_number
from bayes_risk.models.mixture.masses import count_constant, deviance, stirling_error
from bayes_risk.models.mixture.sampler import collapse, stick_breaking
from bayes_risk.models.mixture.state import Draws, Prior, Rows, Units


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
    lost = deviance(y, ahead, total * chance) + deviance(rest, -ahead, total * (1.0 - chance))
    return count_constant(total) - count_constant(y) - count_constant(rest) - lost


@numba.vectorize(cache=True)
def count_masses(y, A, B, exposure, zero):  # type: ignore[no-untyped-def]  # a kernel
    """log of the mass of a count, rate Gamma(A, B), or A where B = 0; zeros with chance `zero`."""
    of = A, B, stirling_error(A), zero, 0.0
    return log_number(y, exposure, of, False, zero != 0.0, 1.0, (0.0, count_constant(y)))


def mixed(log_weight: Array, masses: Callable[[int], Array]) -> Array:
    """log sum_k exp(log_weight_hk + masses(h)_kg), shape (H, G); one draw after the other."""
    return np.stack([log_sum(w[:, None] + masses(h)) for h, w in enumerate(log_weight)])


def log_of_others(x: Array) -> Array:
    """log of the sum over all classes but one, for each of them, (R, K); nothing cancels."""
    nothing = np.full((len(x), 1), -np.inf)
    before = np.hstack([nothing, np.logaddexp.accumulate(x[:, :-1], axis=1)])
    after = np.hstack([np.logaddexp.accumulate(x[:, :0:-1], axis=1)[:, ::-1], nothing])
    found: Array = np.logaddexp(before, after)
    return found


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
        told, D = [self._told(row, j) for row in beside], self.prior.width
        shape: Array = self.prior.shape[j] + self.M[:, j] + sum(x for x, _ in told)
        return shape, self.prior.rate[j] + self.M[:, D + j] + sum(e for _, e in told)

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
            x, e = self._told(row, j)
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

    def _told(self, row: Rows, j: int) -> tuple[float, float]:
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
        cls, prior: Prior, units: Units, draws: Draws, fixed: Flags, *, rng: np.random.Generator
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
