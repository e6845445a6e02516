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

from bayes_risk.evidence.contract import Targets

from .full_table import Terms
from .predictive_kernels import collapse_draws, predict
from .state import Draws, Prior, Units, given_arrays
from .sweep import fill_log_masses
from .wide import wide_sums

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FLOOR = 1e-300
LABELS = 2**23  # labels of units at a time, of which those asked for are kept


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """What the predictives need of each draw.

    Shapes: ``Q (H, D, K)`` probability of a level in a class; ``tau (H, p, K)`` class totals plus
    prior mass; ``n (H, K)`` class counts; ``alpha (H,)``; ``pi (H, K)`` or None (then the weights
    are integrated out); ``label (H, U)`` one label per unit asked for; ``fallen (H,)`` how many
    records fell into structural zeros, counted in the others.
    """

    Q: Array
    tau: Array
    n: Ints
    alpha: Array
    pi: Array | None
    label: npt.NDArray[np.int16]
    fixed: npt.NDArray[np.bool_]
    fallen: Ints | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentPredictive:
    """p(y* | theta_h without the target) for a list of targets and their guesses.

    Attributes
    ----------
    tables : Tables
        Of the H draws.
    unit : ndarray of int, shape (U,)
        Unit of each target among the sampled ones; -1 where the fit holds nothing of the target, so
        that nothing is to be taken out.
    truth : ndarray of int, shape (U, p)
        Rows of the target's own levels.
    linked : ndarray of int, shape (U, p)
        Rows of its synthetic levels if the release was drawn from its own class; -1 elsewhere.
    columns : ndarray of int, shape (q,)
        The guessed variables.
    guesses : ndarray of int32, shape (G, U, q)
        Rows of the guessed levels.
    held : ndarray of int, shape (U, p)
        Rows of the own levels that the target's unit holds; -1 elsewhere.
    told : ndarray of int, shape (U, p)
        Rows of own levels that the predictive is conditional on; -1 elsewhere.
    tied : ndarray of int, shape (U, p)
        Rows of synthetic levels that it is conditional on; -1 elsewhere.
    batch : ndarray of int, shape (H,)
        Batch of each draw.
    """

    tables: Tables
    unit: Ints
    truth: Ints
    linked: Ints
    columns: Ints
    guesses: npt.NDArray[np.int32]
    held: Ints
    told: Ints
    tied: Ints
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

    @property
    def n_classes(self) -> int:
        """Most classes that a draw has people in, and one for all the others."""
        return int((self.tables.n > 0).sum(axis=1).max()) + 1

    def terms(
        self, u: int, targets: Targets, n_levels: Ints, log_weights: Array, draws: Ints
    ) -> Terms:
        """What `log_sums` adds up for target u, as a mixture of products; see `Terms`."""
        begin = self.truth[u] - targets.profiles[u].astype(np.int64)
        return Terms.of(self, u, begin, n_levels, log_weights, draws)

    def _pass(self, block: slice, weights: Array | None) -> tuple[Array, Array]:
        t, U = self.tables, len(self.unit[block])
        H, K = t.n.shape
        G = self.guesses.shape[0] if weights is not None else 0
        log_truth, sums = np.empty((H, U)), np.zeros((self.n_batches, U, G))
        inside, label = self.unit[block] >= 0, np.full((H, U), K, np.int16)
        label[:, inside] = t.label[:, self.unit[block][inside]]  # class K: nothing to take out
        rows = self.guesses[:, block].swapaxes(0, 1)  # shape (U, G, q)
        guesses = np.ascontiguousarray(rows, dtype=np.int64)
        of_draws = (t.Q, t.tau, t.n, t.alpha, t.n if t.pi is None else t.pi, t.pi is None)
        if weights is not None:
            of_targets = (label, self.truth[block], self.linked[block], self.held[block])
            wide = wide_sums(
                of_draws, t.fixed, self.columns, of_targets, guesses, weights, self.batch
            )
            if wide is not None:
                return log_truth, wide.swapaxes(1, 2)
        predict(
            of_draws,
            (t.fixed, self.columns),
            (label, *self._of_targets(block), guesses[:, :G]),
            np.empty((0, 0)) if weights is None else weights,
            self.batch,
            log_truth,
            sums,
        )
        return log_truth, sums.swapaxes(1, 2)

    def _of_targets(self, block: slice) -> tuple[Ints, ...]:
        return tuple(x[block] for x in (self.truth, self.linked, self.held, self.told, self.tied))


def collapse(
    prior: Prior,
    units: Units,
    draws: Draws,
    *,
    fixed: npt.NDArray[np.bool_],
    integrate_weights: bool,
    asked: Ints | None = None,
    rng: np.random.Generator,
) -> Tables:
    """Labels anew for each draw, then counts instead of level probabilities.

    A label drawn from p(z | y, theta_h) makes (theta_h, z) a draw of the joint posterior, so the
    chain itself need not keep labels. Labels are kept of the units ``asked`` for; None: of all.
    Cost: one sweep per draw.
    """
    H, (D, K), p = len(draws), draws.phi.shape[1:], len(prior.starts) - 1
    Q, tau = np.empty((H, D, K)), np.empty((H, p, K))
    n, n_units = np.empty((H, K), np.int64), len(units.positions)
    label = np.empty((H, n_units if asked is None else len(asked)), np.int16)
    given, fallen = given_arrays(units.given), None
    if prior.zeros is not None:
        from .zeros import collapse_fallen_into  # compiled only where it is needed

        out = (Q, tau, n, label)
        fallen = collapse_fallen_into(prior, units, draws, given, fixed, out, rng=rng)
    else:
        step = H if asked is None else max(LABELS // max(n_units, 1), 1)
        for some in (slice(h, h + step) for h in range(0, H, step)):
            drawn = label[some] if asked is None else np.empty((len(n[some]), n_units), np.int16)
            collapse_draws(
                rng,
                (units.positions, units.multiplicity),
                given[:2],
                (draws.pi[some], draws.phi[some]),
                (prior.starts, prior.level, fixed),
                (Q[some], tau[some], n[some], drawn),
            )
            if asked is not None:
                label[some] = drawn[:, asked]
    return Tables(
        Q=Q,
        tau=tau,
        n=n,
        alpha=draws.alpha,
        pi=None if integrate_weights else draws.pi,
        label=label,
        fixed=fixed,
        fallen=fallen,
    )


def log_masses(positions: npt.NDArray[np.int32], draws: Draws) -> Array:
    """log p(row | theta_h) for rows of level positions, shape (H, rows)."""
    out = np.empty((len(draws), len(positions)))
    fill_log_masses(positions, draws.pi, draws.phi, out)
    return out
