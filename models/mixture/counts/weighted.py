"""Poisson mixtures with record weights: the leave-one-out predictives of the pseudo-posterior.

With weights alpha_i the sampler draws from p(Theta) prod_i sum_k [pi_k f_k(y_i)]^alpha_i, powers of
the *complete-data* likelihood: given labels it is conjugate, with weighted sums. Synthetic rows
have weight 1. What a record contributes, g_i(y) = sum_k [pi_k f_k(y)]^alpha_i, also weighs guesses.
Derivation: `docs/sensitivity.md`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import batch_of_draws
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.mixture.categorical.state import Draws

from .state import CountPrior, CountUnits
from .units import CountColumns
from .weighted_kernels import predict_powers, weighted_counts

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedCounts:
    """E[g_i(y*) | labels of draw h without the target] for targets and their guesses.

    Attributes
    ----------
    prior : CountPrior
    draws : Draws
    n, M : ndarray, shapes (H, K) and (H, 3 p, K)
        Weighted counts of classes; weighted sums of counts and of exposures.
    label : ndarray of int, shape (H, U)
        Class that the target is taken out of; K: there is nothing to take out.
    truth, exposure : ndarray, shape (U, p)
        The target's counts, and their exposures.
    power : ndarray, shape (U,)
        Weights of the targets.
    columns : ndarray of int, shape (q,)
        The guessed counts.
    guesses : ndarray, shape (G, U, q)
    fixed : bool
        Whether everything stays at the drawn Theta.
    batch : ndarray of int, shape (H,)
    """

    prior: CountPrior
    draws: Draws
    n: Array
    M: Array
    label: Ints
    truth: Array
    exposure: Array
    power: Array
    columns: Ints
    guesses: Array
    fixed: bool
    batch: Ints

    def log_truth(self, block: slice) -> Array:
        """log E_h[g_i(y_i)] without i, shape (H, block)."""
        return self._pass(block, np.empty((0, 0)), self.guesses[:0, block])[0]

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h E_h[g(y*)] / E_h[g(y_i)]."""
        return self._pass(block, np.ascontiguousarray(log_weights), self.guesses[:, block])[1]

    def _pass(self, block: slice, log_weights: Array, guesses: Array) -> tuple[Array, Array]:
        d, prior = self.draws, self.prior
        log_truth = np.empty((len(d), len(self.power[block])))
        sums = np.full((int(self.batch.max()) + 1, *guesses.shape[:2]), -np.inf)
        predict_powers(
            (self.n, self.M, d.alpha, d.pi, d.phi, self.fixed),
            (prior.shape, prior.rate),
            (
                np.ascontiguousarray(self.label[:, block]),
                self.truth[block],
                self.exposure[block],
                self.power[block],
                self.columns,
                np.ascontiguousarray(guesses),
            ),
            log_weights,
            self.batch,
            log_truth,
            sums,
        )
        return log_truth, sums


def weighted_predictive(
    prior: CountPrior,
    columns: CountColumns,
    units: CountUnits,
    draws: Draws,
    targets: Targets,
    *,
    rng: np.random.Generator,
) -> WeightedCounts:
    """Labels anew for each draw, then weighted sums; see `poisson_predictive.collapse`."""
    (H, K), p = draws.pi.shape, prior.n_counts
    n, M = np.empty((H, K)), np.empty((H, 3 * p, K))
    label = np.empty((H, len(units.multiplicity)), np.int64)
    data = (units.counts, units.exposure, units.power)
    weighted_counts(rng, (data, units.multiplicity), (draws.pi, draws.phi), (n, M, label))
    unit = units.unit[targets.record]
    own = np.where(unit >= 0, label[:, np.maximum(unit, 0)], K)
    return _joined(prior, columns, draws, targets, n=n, M=M, label=own, fixed=False)


def theta_weighted(
    prior: CountPrior, columns: CountColumns, draws: Draws, targets: Targets
) -> WeightedCounts:
    """g_i(y*) at the drawn Theta itself: nothing integrated out, nobody left out."""
    (H, K), p = draws.pi.shape, prior.n_counts
    nothing = {"n": np.zeros((H, K)), "M": np.zeros((H, 3 * p, K))}
    label = np.full((H, len(targets)), K, np.int64)
    return _joined(prior, columns, draws, targets, **nothing, label=label, fixed=True)


def _joined(
    prior: CountPrior, columns: CountColumns, draws: Draws, targets: Targets, **tables: Any
) -> WeightedCounts:
    return WeightedCounts(
        prior=prior,
        draws=draws,
        truth=columns.counts_of(targets.profiles),
        exposure=columns.exposures_of(targets.profiles),
        power=targets.weight,
        columns=np.searchsorted(columns.counts, targets.columns),
        guesses=targets.guesses.codes.astype(np.float64),
        batch=batch_of_draws(len(draws), draws.n_chains),
        **tables,
    )
