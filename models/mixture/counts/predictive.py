"""Leave-one-out predictives of Poisson mixtures, with rates and chances of zeros integrated out.

Given the labels, the target is taken out of its class and p(y* | labels, y_-i) is a sum over
classes of products of negative binomials, the class weights being the stick-breaking predictive.
The derivation stands in `docs/mixtures.md`. Everything can instead be *fixed* at the drawn
Theta: that is what the published importance sampler takes.

A target linked to its own synthetic counts z enters with the sums y + z and twice its exposure: two
Poisson counts of one class and one exposure are their sum, split by coins.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayes_risk.evidence.contract import Targets
from bayes_risk.models.mixture.categorical.state import Draws

from .collapse import collapse_draws
from .guesses import guess_sums, truth_masses
from .masses import fill_constants
from .state import CountPrior, CountUnits

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountTables:
    """What the predictives need of each draw.

    Attributes
    ----------
    draws : Draws
    n : ndarray of int, shape (H, K)
        Class counts.
    M : ndarray, shape (H, D + 2 p, K)
        Sums of counts, structural zeros, levels, exposures and values that are no structural zeros.
    fixed : bool
        Whether everything stays at the drawn Theta; then ``n`` and ``M`` are not looked at.
    """

    draws: Draws
    n: Ints
    M: Array
    fixed: bool

    @classmethod
    def at_theta(cls, draws: Draws) -> "CountTables":
        """Nothing integrated out."""
        H, K = draws.pi.shape
        return cls(draws=draws, n=np.zeros((H, K), np.int64), M=np.zeros((H, 0, K)), fixed=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountCases:
    """Targets as the predictives see them.

    Attributes
    ----------
    truth, exposure : ndarray, shape (U, p)
        The target's counts, those conditioned to it added, and their exposure.
    conditioned : ndarray, shape (U, p)
        Its own synthetic counts where the release was drawn from its own class; else -1.
    positions : ndarray of int, shape (U, q)
        Rows of phi of its covariates' levels.
    columns : ndarray of int, shape (q',)
        The guessed counts.
    guesses : ndarray, shape (G, U, q')
    gone, gone_exposure : ndarray, shape (U, p)
        What the data hold of the target and is taken out: ``truth`` and ``exposure``, or of a
        target whose values are not known the counts that the release shows of it.
    hidden : ndarray of bool, shape (U,)
        Targets whose values are not among the data.
    """

    truth: Array
    exposure: Array
    conditioned: Array
    positions: npt.NDArray[np.int32]
    columns: Ints
    guesses: Array
    gone: Array
    gone_exposure: Array
    hidden: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        targets: Targets,
        guessed: Ints,
        *,
        counts: Array,
        exposure: Array,
        positions: npt.NDArray[np.int32],
        conditioned: Array | None,
        hidden: npt.NDArray[np.bool_] | None = None,
        unseen: npt.NDArray[np.bool_] | None = None,
    ) -> "CountCases":
        """Join targets with the counts (U, p) and the ``guessed`` ones of them (q',).

        Of ``hidden`` targets (U,) the data hold no ``unseen`` counts (p,), only the conditioned.
        """
        z = np.full(counts.shape, -1.0) if conditioned is None else conditioned
        truth, both = counts + np.maximum(z, 0.0), np.where(z >= 0, 2.0, 1.0) * exposure
        hidden = np.zeros(len(counts), dtype=bool) if hidden is None else hidden
        lacking = np.zeros(counts.shape, dtype=bool)
        if unseen is not None:
            lacking = hidden[:, None] & unseen
        return cls(
            truth=truth,
            exposure=both,
            conditioned=z,
            positions=positions,
            columns=guessed,
            guesses=targets.guesses.codes.astype(np.float64),
            gone=np.where(lacking, np.maximum(z, 0.0), truth),
            gone_exposure=np.where(lacking, np.where(z >= 0, exposure, 0.0), both),
            hidden=hidden,
        )

    def arrays(self, block: slice) -> tuple[npt.NDArray[np.generic], ...]:
        """Truth, exposure, constants, splits, covariates, what is gone, as the kernels take it."""
        truth, conditioned = self.truth[block], self.conditioned[block]
        constant, split = _constants(truth, conditioned)
        gone = self.gone[block], self.gone_exposure[block]
        return truth, self.exposure[block], constant, split, self.positions[block], *gone

    def shown(self, block: slice) -> tuple[npt.NDArray[np.generic], ...]:
        """The same with only what the data hold of each target in place of its values."""
        x, e = self.gone[block], self.gone_exposure[block]
        constant, split = _constants(x, np.full(x.shape, -1.0))
        return x, e, constant, split, self.positions[block], x, e

    def points(self, block: slice) -> tuple[npt.NDArray[np.generic], ...]:
        """Guessed columns, their distinct values, and which of them each guess and truth has."""
        own = self.truth[block][:, self.columns]
        conditioned = self.conditioned[block][:, self.columns]  # shape (U, q')
        y = own - np.maximum(conditioned, 0.0)
        G, U, q = self.guesses[:, block].shape
        every = np.concatenate([self.guesses[:, block], y[None]])
        cells, found = np.empty((U, G + 1, q), np.int32), []
        for u in range(U):
            for j in range(q):
                values, cells[u, :, j] = np.unique(every[:, u, j], return_inverse=True)
                found.append(values)
        n_points = np.array([len(v) for v in found], np.int64).reshape(U, q)
        values = np.zeros((U, q, int(n_points.max(initial=1))))
        for at, v in enumerate(found):
            values[at // q, at % q, : len(v)] = v
        # what is no count is marked -1, whatever is conditioned to it
        counts = (values >= 0) & (values == np.floor(values))
        totals = np.where(counts, values + np.maximum(conditioned, 0.0)[:, :, None], -1.0)
        constants, splits = _constants(
            totals, np.broadcast_to(conditioned[:, :, None], totals.shape)
        )
        true, chosen = np.ascontiguousarray(cells[:, -1:]), np.ascontiguousarray(cells[:, :-1])
        return self.columns, totals, constants, splits, n_points, true, chosen


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoissonPredictive:
    """p(y* | theta_h without the target) for a list of targets and their guesses.

    Attributes
    ----------
    prior : CountPrior
    tables : CountTables
        Of the H draws.
    cases : CountCases
    label : ndarray of int, shape (H, U)
        Class of each target; K where nothing is to be taken out.
    structural : ndarray of bool, shape (H, U, p)
        Which of its values are drawn to be structural zeros.
    batch : ndarray of int, shape (H,)
        Batch of each draw.
    """

    prior: CountPrior
    tables: CountTables
    cases: CountCases
    label: npt.NDArray[np.int16]
    structural: npt.NDArray[np.bool_]
    batch: Ints

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h without i), shape (H, block).

        Given what else the data hold of i, where that is not the target's own values.
        """
        out = self._masses(self._targets(block))
        hidden = self.cases.hidden[block]
        if hidden.any():
            shown = (*self._labels(block), *self.cases.shown(block))
            out -= np.where(hidden, self._masses(shown), 0.0)
        return out

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p_h(y*) / p_h(y_i): (B, G, block)."""
        targets, n_batches = self._targets(block), int(self.batch.max()) + 1
        out = np.empty((n_batches, len(self.cases.guesses), targets[0].shape[1]))
        guess_sums(
            *self._draws(),
            layout_of(self.prior),
            targets,
            self.cases.points(block),
            np.ascontiguousarray(log_weights),
            self.batch,
            out,
        )
        return out

    def _draws(self) -> tuple[tuple[object, ...], tuple[Array | Ints, ...]]:
        t = self.tables
        return (t.M, t.draws.phi, t.fixed), (t.n, t.draws.alpha, t.draws.pi)

    def _masses(self, targets: tuple[npt.NDArray[np.generic], ...]) -> Array:
        out = np.empty(targets[0].shape)
        truth_masses(*self._draws(), layout_of(self.prior), targets, out)
        return out

    def _targets(self, block: slice) -> tuple[npt.NDArray[np.generic], ...]:
        return *self._labels(block), *self.cases.arrays(block)

    def _labels(self, block: slice) -> tuple[npt.NDArray[np.generic], ...]:
        kept = np.ascontiguousarray(self.label[:, block])
        return kept, np.ascontiguousarray(self.structural[:, block])


def collapse(
    prior: CountPrior,
    units: CountUnits,
    draws: Draws,
    wanted: Ints,
    *,
    rng: np.random.Generator,
) -> tuple[CountTables, npt.NDArray[np.int16], npt.NDArray[np.bool_]]:
    """Labels anew for each draw, then sums by class instead of rates.

    A label drawn from p(z | y, theta_h) makes (theta_h, z) a draw of the joint posterior, so the
    chain itself need not keep labels. Labels (H, U) and structural zeros (H, U, p) are kept of the
    ``wanted`` units (U,) only; -1: of nobody, class K. Cost: one sweep a draw.
    """
    (H, K), p = draws.pi.shape, prior.n_counts
    kept, place = np.unique(wanted[wanted >= 0], return_inverse=True)
    number = np.full(len(units.multiplicity), -1, np.int64)
    number[kept] = np.arange(len(kept))
    n, M = np.empty((H, K), np.int64), np.empty((H, prior.width + 2 * p, K))
    label = np.full((H, len(kept)), K, np.int16)
    structural = np.zeros((H, len(kept), p), np.bool_)
    collapse_draws(
        rng,
        ((units.counts, units.exposure, units.positions), units.multiplicity),
        (draws.pi, draws.phi),
        (p, prior.zeros is not None),
        number,
        (n, M, label, structural),
    )
    labels = np.full((H, len(wanted)), K, np.int16)
    labels[:, wanted >= 0] = label[:, place]
    drawn = np.zeros((H, len(wanted), p), np.bool_)
    drawn[:, wanted >= 0] = structural[:, place]
    return CountTables(draws=draws, n=n, M=M, fixed=False), labels, drawn


def layout_of(prior: CountPrior) -> tuple[object, ...]:
    """Shape, rate, whether there are structural zeros, their prior, level and starts."""
    zeros = np.array(prior.zeros or (1.0, 1.0))
    return prior.shape, prior.rate, prior.zeros is not None, zeros, prior.level, prior.starts


def _constants(totals: Array, conditioned: Array) -> tuple[Array, Array]:
    """What a count costs whatever its rate, and how a sum splits in two, in logs."""
    constant, split = np.empty(totals.shape), np.empty(totals.shape)
    flat = np.ascontiguousarray(totals).ravel(), np.ascontiguousarray(conditioned).ravel()
    fill_constants(*flat, constant.ravel(), split.ravel())
    return constant, split
