"""Leave-one-out predictives of latent-class draws, with the level probabilities integrated out.

Given the labels, record i is taken out of its class and p(y* | z_-i, y_-i) is a sum over classes of
products of (count + a) / (total + d a), the class weights being the stick-breaking predictive. The
derivation stands in `docs/collapsed-predictive.md`. Columns can instead be *fixed* at their drawn
probabilities: all of them for the published importance sampler, the unsynthesised ones where the
release was drawn conditionally on them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .latent_class import fill_log_masses
from .latent_kernels import collapse_draws, predict
from .latent_state import Draws, Prior, Units

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FLOOR = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """What the predictives need of each draw.

    Shapes: ``Q (H, D, K)`` probability of a level in a class; ``tau (H, p, K)`` class totals plus
    prior mass; ``n (H, K)`` class counts; ``alpha (H,)``; ``pi (H, K)`` or None (then the weights
    are integrated out); ``label (H, U)`` one label per unit.
    """

    Q: Array
    tau: Array
    n: Ints
    alpha: Array
    pi: Array | None
    label: npt.NDArray[np.int16]
    fixed: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentPredictive:
    """p(y* | theta_h without the target) for a list of targets and their guesses.

    Attributes
    ----------
    tables : Tables
        Of the H draws.
    unit : ndarray of int, shape (U,)
        Unit of each target among the sampled ones; -1 where the target was left out of the fit, so
        that nothing is to be taken out.
    truth : ndarray of int, shape (U, p)
        Rows of the target's own levels.
    linked : ndarray of int, shape (U, p)
        Rows of its synthetic levels if the release was drawn from its own class; -1 elsewhere.
    columns : ndarray of int, shape (q,)
        The guessed variables.
    guesses : ndarray of int, shape (G, U, q)
        Rows of the guessed levels.
    given : ndarray of bool, shape (p,)
        Variables that the predictive is conditional on (they must be fixed).
    batch : ndarray of int, shape (H,)
        Batch of each draw.
    """

    tables: Tables
    unit: Ints
    truth: Ints
    linked: Ints
    columns: Ints
    guesses: Ints
    given: npt.NDArray[np.bool_]
    batch: Ints

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p_h(y*) / p_h(y_i): (B, G, block)."""
        top = np.stack([log_weights[self.batch == b].max(axis=0) for b in range(self.n_batches)])
        sums = self._pass(block, np.exp(log_weights - top[self.batch]))[1]
        logs: Array = np.log(np.maximum(sums, FLOOR)) + top[:, None]
        return logs

    @property
    def n_batches(self) -> int:
        """Number B of batches."""
        return int(self.batch.max()) + 1

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h without i), shape (H, block)."""
        return self._pass(block, None)[0]

    def _pass(self, block: slice, weights: Array | None) -> tuple[Array, Array]:
        t, U = self.tables, len(self.unit[block])
        H, K = t.n.shape
        G = self.guesses.shape[0] if weights is not None else 0
        log_truth, sums = np.empty((H, U)), np.zeros((self.n_batches, U, G))
        label = np.where(
            self.unit[block] >= 0, t.label[:, np.maximum(self.unit[block], 0)], K
        )  # class K: nothing to take out
        guesses = np.ascontiguousarray(self.guesses[:, block].swapaxes(0, 1))  # shape (U, G, q)
        predict(
            (t.Q, t.tau, t.n, t.alpha, t.n if t.pi is None else t.pi, t.pi is None),
            (t.fixed, self.given, self.columns),
            (label, self.truth[block], self.linked[block], guesses[:, :G]),
            np.empty((0, 0)) if weights is None else weights,
            self.batch,
            log_truth,
            sums,
        )
        return log_truth, sums.swapaxes(1, 2)


def collapse(
    prior: Prior,
    units: Units,
    draws: Draws,
    *,
    fixed: npt.NDArray[np.bool_],
    integrate_weights: bool,
    rng: np.random.Generator,
) -> Tables:
    """Labels anew for each draw, then counts instead of level probabilities.

    A label drawn from p(z | y, theta_h) makes (theta_h, z) a draw of the joint posterior, so the
    chain itself need not keep labels. Cost: one sweep per draw.
    """
    H, (D, K), p = len(draws), draws.phi.shape[1:], len(prior.starts) - 1
    Q, tau = np.empty((H, D, K)), np.empty((H, p, K))
    n, label = np.empty((H, K), np.int64), np.empty((H, len(units.positions)), np.int16)
    given = units.given
    extra = (
        (given.positions, given.multiplicity)
        if given is not None
        else (np.empty((0, 0), np.int32), np.empty(0, np.int64))
    )
    collapse_draws(
        rng,
        (units.positions, units.multiplicity),
        extra,
        (draws.pi, draws.phi),
        (prior.starts, prior.level, fixed),
        (Q, tau, n, label),
    )
    return Tables(
        Q=Q,
        tau=tau,
        n=n,
        alpha=draws.alpha,
        pi=None if integrate_weights else draws.pi,
        label=label,
        fixed=fixed,
    )


def log_masses(positions: npt.NDArray[np.int32], draws: Draws) -> Array:
    """log p(row | theta_h) for rows of level positions, shape (H, rows)."""
    out = np.empty((len(draws), len(positions)))
    fill_log_masses(positions, draws.pi, draws.phi, out)
    return out
