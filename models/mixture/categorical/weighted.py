"""Latent classes with record weights: the pseudo-posterior and its leave-one-out predictives.

With weights alpha_i the sampler draws from p(Theta) prod_i sum_k [pi_k f_k(y_i)]^alpha_i, powers of
the *complete-data* likelihood: given labels it is conjugate, with weighted counts. Synthetic rows
have weight 1. What a record contributes, g_i(y) = sum_k [pi_k f_k(y)]^alpha_i, also weighs guesses.
Derivation: `docs/sensitivity.md`.
"""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import batch_of_draws
from bayes_risk.evidence.contract import Targets

from . import sweep as kernel
from .state import Draws, Prior, Units
from .weighted_kernels import (
    predict_powers,
    weighted_conditional_sweep,
    weighted_counts,
    weighted_sweep,
)

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FLOOR = 1e-300


@numba.njit(cache=True, nogil=True)
def run_weighted(  # type: ignore[no-untyped-def]  # a kernel: numba reads no annotations
    rng, data, layout, prior, state, thin, swaps, out, first, last
):
    """Draws first .. last - 1 of one chain, `thin` sweeps each; arrays of `state` are updated."""
    positions, multiplicity, power, given = data
    starts, a = layout
    alpha, log_left, pi, phi = state
    n, M = np.zeros(pi.shape[0]), np.zeros(phi.shape)
    label = np.zeros(positions.shape[0], np.int64)
    for h in range(first, last):
        for _ in range(thin):
            if given[2].shape[0] == 0:
                alpha[0] = weighted_sweep(
                    rng, positions, multiplicity, power, starts, a, prior, swaps,
                    alpha[0], log_left, pi, phi, n, M, label,
                )  # fmt: skip
            else:
                alpha[0] = weighted_conditional_sweep(
                    rng, positions, multiplicity, power, given, starts, a, prior,
                    alpha[0], log_left, pi, phi, n, M, label,
                )  # fmt: skip
        kernel.keep_draw(state, n, out, h)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedPredictive:
    """E[g_i(y*) | labels of draw h without the target] for targets and their guesses.

    Attributes
    ----------
    prior : Prior
    draws : Draws
    n, M : ndarray, shapes (H, K) and (H, D, K)
        Weighted counts of classes and levels.
    label : ndarray of int, shape (H, U)
        Class that the target is taken out of; K: there is nothing to take out.
    truth : ndarray of int, shape (U, p)
        Rows of the target's own levels.
    power : ndarray, shape (U,)
        Weights of the targets; those of equal weight stand together.
    columns : ndarray of int, shape (q,)
    guesses : ndarray of int, shape (G, U, q)
    fixed : ndarray of bool, shape (p,)
        Variables kept at their drawn probabilities.
    given : ndarray of bool, shape (p,)
        Variables that the release was drawn given.
    batch : ndarray of int, shape (H,)
    """

    prior: Prior
    draws: Draws
    n: Array
    M: Array
    label: npt.NDArray[np.int16]
    truth: Ints
    power: Array
    columns: Ints
    guesses: Ints
    fixed: npt.NDArray[np.bool_]
    given: npt.NDArray[np.bool_]
    batch: Ints

    def log_truth(self, block: slice) -> Array:
        """log E_h[g_i(y_i)] without i, shape (H, block)."""
        return self._pass(block, None)[0]

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h E_h[g(y*)] / E_h[g(y_i)]."""
        B = int(self.batch.max()) + 1
        top = np.stack([log_weights[self.batch == b].max(axis=0) for b in range(B)])
        sums = self._pass(block, np.exp(log_weights - top[self.batch]))[1]
        logs: Array = np.log(np.maximum(sums, FLOOR)) + top[:, None]
        return logs

    def _pass(self, block: slice, weights: Array | None) -> tuple[Array, Array]:
        H, U, d = len(self.draws), len(self.power[block]), self.draws
        G = self.guesses.shape[0] if weights is not None else 0
        log_truth, sums = np.empty((H, U)), np.zeros((int(self.batch.max()) + 1, U, G))
        integrated = not self.fixed.any()
        guesses = np.ascontiguousarray(self.guesses[:G, block].swapaxes(0, 1))  # shape (U, G, q)
        predict_powers(
            (self.M, self.n, d.alpha, d.pi, d.phi),
            (self.prior.starts, self.prior.level, self.fixed, self.given, self.columns, integrated),
            (self.label[:, block], self.truth[block], guesses, self.power[block]),
            np.empty((0, 0)) if weights is None else weights,
            self.batch,
            log_truth,
            sums,
        )
        return log_truth, sums.swapaxes(1, 2)


def weighted_predictive(
    prior: Prior,
    units: Units,
    draws: Draws,
    targets: Targets,
    *,
    conditional: npt.NDArray[np.bool_],
    rng: np.random.Generator,
) -> WeightedPredictive:
    """Labels anew for each draw, then weighted counts; see `latent_predictive.collapse`."""
    (H, K), D, given = draws.pi.shape, draws.phi.shape[1], units.given
    n, M = np.empty((H, K)), np.empty((H, D, K))
    label = np.empty((H, len(units.positions)), np.int16)
    extra: tuple[Any, Any] = (np.empty((0, 0), np.int32), np.empty(0, np.int64))
    if given is not None:
        extra = (given.positions, given.multiplicity)
    weighted_counts(
        rng,
        (units.positions, units.multiplicity, units.power),
        extra,
        (draws.pi, draws.phi),
        (n, M, label),
    )
    unit = units.unit[targets.record]
    own = np.where(unit >= 0, label[:, np.maximum(unit, 0)], K).astype(np.int16)
    return _joined(prior, draws, targets, n=n, M=M, label=own, fixed=conditional, given=conditional)


def theta_weighted(prior: Prior, draws: Draws, targets: Targets) -> WeightedPredictive:
    """g_i(y*) at the drawn Theta itself: nothing integrated out, nobody left out."""
    (H, K), p = draws.pi.shape, len(prior.starts) - 1
    return _joined(
        prior,
        draws,
        targets,
        n=np.zeros((H, K)),
        M=np.zeros(draws.phi.shape),
        label=np.full((H, len(targets)), K, np.int16),
        fixed=np.ones(p, dtype=bool),
        given=np.zeros(p, dtype=bool),
    )


def _joined(prior: Prior, draws: Draws, targets: Targets, **tables: Any) -> WeightedPredictive:
    begin = prior.starts[:-1]
    return WeightedPredictive(
        prior=prior,
        draws=draws,
        truth=targets.profiles + begin,
        power=targets.weight,
        columns=targets.columns,
        guesses=targets.guesses.codes + begin[targets.columns],
        batch=batch_of_draws(len(draws), draws.n_chains),
        **tables,
    )
