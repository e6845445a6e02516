"""What an intruder learns of the classes of a Poisson mixture from rows of counts.

Labels are drawn anew for each draw of the chains, p(z | rows, theta_h), so that (theta_h, z) is a
draw of the joint posterior; given z the rate of count j in class k is Gamma(shape_j + S_kj,
rate_j + E_kj), and the next record's class has the stick-breaking predictive.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import integrate, stats

from bayes_risk._core.batches import batch_of_draws
from bayes_risk.models.mixture.categorical.state import Draws
from bayes_risk.models.mixture.counts.state import CountPrior, CountUnits

from .kernels import learn, negative_binomial_masses

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Rows of counts as an intruder sees them.

    Attributes
    ----------
    counts : ndarray, shape (n, p)
    exposure : ndarray, shape (n, p)
        0 where a row says nothing of a count.
    positions : ndarray of int, shape (n, q)
        Rows of phi of the covariates' levels; -1 where a row says nothing of one.
    """

    counts: Array
    exposure: Array
    positions: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.counts)

    def only(self, which: npt.NDArray[Any] | list[int]) -> "Rows":
        """Some of the rows, by number or mask."""
        return Rows(
            counts=self.counts[which],
            exposure=self.exposure[which],
            positions=self.positions[which],
        )

    def about(self, columns: npt.ArrayLike, *, covariates: bool = True) -> "Rows":
        """The same rows saying nothing but of the counts marked (p,), and of covariates or not."""
        said = np.asarray(columns, dtype=bool)
        return Rows(
            counts=np.where(said, self.counts, 0.0),
            exposure=np.where(said, self.exposure, 0.0),
            positions=self.positions if covariates else np.full_like(self.positions, -1),
        )

    def and_then(self, others: "Rows") -> "Rows":
        """These rows and others below."""
        return Rows(
            counts=np.vstack([self.counts, others.counts]),
            exposure=np.vstack([self.exposure, others.exposure]),
            positions=np.vstack([self.positions, others.positions]),
        )

    def linked(self, others: "Rows") -> "Rows":
        """Each row together with another one of its class; covariates are told once."""
        return Rows(
            counts=self.counts + others.counts,
            exposure=self.exposure + others.exposure,
            positions=self.positions,
        )

    def units(self) -> CountUnits:
        """Every row a unit."""
        n = len(self)
        return CountUnits(
            counts=np.ascontiguousarray(self.counts),
            exposure=np.ascontiguousarray(self.exposure),
            positions=np.ascontiguousarray(self.positions),
            multiplicity=np.ones(n, dtype=np.int64),
            unit=np.arange(n),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassPosterior:
    """Classes learnt from rows.

    Attributes
    ----------
    prior : CountPrior
    draws : Draws
        Of which the labels were drawn.
    n : ndarray of int, shape (H, K)
        Rows in each class.
    sums : ndarray, shape (H, D + 2 p, K)
        As in `poisson_kernels`: sums, structural zeros, levels; exposures, values that are alive.
    weights : ndarray, shape (H, K)
        E[pi | labels], the class of a further record.
    label : ndarray of int, shape (H, n)
        Class of each row.
    batch : ndarray of int, shape (H,)
    """

    prior: CountPrior
    draws: Draws
    n: Ints
    sums: Array
    weights: Array
    label: Ints
    batch: Ints

    @classmethod
    def of(
        cls, prior: CountPrior, rows: Rows, draws: Draws, *, rng: np.random.Generator
    ) -> "ClassPosterior":
        """Draw the labels of the rows."""
        H, (D, K) = len(draws), draws.phi.shape[1:]
        n, sums = np.zeros((H, K), np.int64), np.zeros((H, D + 2 * prior.n_counts, K))
        weights, label = np.empty((H, K)), np.zeros((H, len(rows)), np.int64)
        units = rows.units()
        learn(
            rng,
            (units.counts, units.exposure, units.positions),
            units.multiplicity,
            (draws.alpha, draws.pi, draws.phi),
            prior.zeros is not None,
            n,
            sums,
            weights,
            label,
        )
        return cls(
            prior=prior,
            draws=draws,
            n=n,
            sums=sums,
            weights=weights,
            label=label,
            batch=batch_of_draws(H, draws.n_chains),
        )

    def rate(self, j: int, *beside: Rows) -> tuple[Array, Array]:
        """Gamma posterior of the rate of count j, further records in the class; (H, K) each."""
        D = self.prior.width
        more = sum(float(row.counts[0, j]) for row in beside)
        exposure = sum(float(row.exposure[0, j]) for row in beside)
        shape: Array = self.prior.shape[j] + self.sums[:, j] + more
        return shape, self.prior.rate[j] + self.sums[:, D + j] + exposure

    def log_alive(self, j: int) -> Array:
        """log of the expected chance that a value of count j is no structural zero, (H, K)."""
        if self.prior.zeros is None:
            return np.zeros(self.n.shape)
        p, D = self.prior.n_counts, self.prior.width
        a, b = self.prior.zeros
        dead, alive = self.sums[:, p + j], self.sums[:, D + p + j]
        log: Array = np.log(b + alive) - np.log(a + b + dead + alive)
        return log

    def log_known(self, row: Rows, beside: Rows | None = None) -> Array:
        """log p(what is known of a further record | class k), (H, K), up to a constant.

        ``row`` has one row; ``beside``, one more record that is in the same class.
        """
        total = np.zeros(self.n.shape)
        other = row.about(np.zeros(self.prior.n_counts), covariates=False)
        other = other if beside is None else beside
        for j in np.flatnonzero(row.exposure[0] > 0).tolist():
            shape, rate = self.rate(j, other)
            total += negative_binomial_masses(row.counts[0, j], shape, rate, row.exposure[0, j])
        starts, level = self.prior.starts, self.prior.level
        for c, (position, near) in enumerate(
            zip(row.positions[0], other.positions[0], strict=True)
        ):
            if position >= 0:
                here = self.sums[:, starts[c] : starts[c + 1]]
                mass = level * here.shape[1] + here.sum(axis=1) + (near >= 0)
                total += np.log(level + self.sums[:, position] + (near == position)) - np.log(mass)
        return total


def same_class(n_classes: int, concentration: tuple[float, float]) -> float:
    """Prior probability that two records share a class, alpha integrated out.

    Given alpha, with q = alpha / (alpha + 2): E[sum_k pi_k^2] = (1 - q^(K-1)) / (1 + alpha) +
    q^(K-1).
    """

    def chance(u: float) -> float:
        alpha = float(stats.gamma.ppf(u, concentration[0], scale=1.0 / concentration[1]))
        q = (alpha / (alpha + 2.0)) ** (n_classes - 1)
        return float((1.0 - q) / (1.0 + alpha) + q)

    return float(integrate.quad(chance, 0.0, 1.0, epsabs=1e-10, limit=400)[0])
