"""Predictives of targets and guesses from draws in which unknown rows are imputed.

The law of a draw is that of tables with the target in them: as it is, where the intruder would know
the record if it were not the target, else as imputed. Left out it leaves h(y*), the joint density
of the target's values given all else; an imputed row also leaves a normaliser, 1 / sum_y h(y),
estimated without bias by q(y_t) / h(y_t) at the imputed values y_t.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import batch_of_draws
from bayes_risk.evidence.contract import Targets

from .imputation_state import Kept, Problem
from .imputed_kernels import fill_seats, predict_joint

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FLOOR = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedPredictive:
    """h(y*) of a list of targets and their guesses.

    Attributes
    ----------
    problem : Problem
    kept : Kept
        The H draws.
    known : ndarray of bool, shape (U,)
        Targets whose own values are in the table.
    column : ndarray of int, shape (U,)
        Where among the known records, or among the seats, the target is.
    truth : ndarray of int, shape (U, p)
        Rows of the target's own levels.
    linked : ndarray of int, shape (m + 1, U, p)
        Rows of synthetic levels drawn from its own class; -1 elsewhere, and without a release.
    log_c : ndarray, shape (H, S)
        By seat, log of the normaliser of the row imputed there.
    tilt : ndarray, shape (H, S, W)
        By seat, log of the density of that row given the labels of each base chain.
    columns : ndarray of int, shape (q,)
        The guessed variables.
    guesses : ndarray of int, shape (G, U, q)
        Rows of the guessed levels.
    batch : ndarray of int, shape (H,)
        Batch of each draw.
    """

    problem: Problem
    kept: Kept
    known: npt.NDArray[np.bool_]
    column: Ints
    truth: Ints
    linked: Ints
    log_c: Array
    tilt: Array
    columns: Ints
    guesses: Ints
    batch: Ints

    @property
    def n_batches(self) -> int:
        """Number B of batches."""
        return int(self.batch.max()) + 1

    def log_truth(self, block: slice) -> Array:
        """log h(y_i) of each draw, with the normaliser of imputed rows, shape (H, block)."""
        return self._pass(block, None)[0]

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h h(y*) / h(y_i): (B, G, block)."""
        top = np.stack([log_weights[self.batch == b].max(axis=0) for b in range(self.n_batches)])
        sums = self._pass(block, np.exp(log_weights - top[self.batch]))[1]
        logs: Array = np.log(np.maximum(sums, FLOOR)) + top[:, None]
        return logs

    def _pass(self, block: slice, weights: Array | None) -> tuple[Array, Array]:
        known, column, U = self.known[block], self.column[block], len(self.known[block])
        kept, (H, B, _) = self.kept, self.kept.n.shape
        G = self.guesses.shape[0] if weights is not None else 0
        log_truth, sums = np.empty((H, U)), np.zeros((self.n_batches, U, G))
        label = np.empty((H, B, U), np.int16)
        label[:, :, known] = kept.known_label[:, :, column[known]]
        label[:, :, ~known] = kept.seat_label[:, :, column[~known]]
        imputed = np.zeros((H, U, self.truth.shape[1]), np.int32)
        imputed[:, ~known] = kept.seat_rows[:, column[~known]]
        log_c, tilt = np.zeros((H, U)), np.zeros((H, U, B - self.problem.m))
        log_c[:, ~known] = self.log_c[:, column[~known]]
        tilt[:, ~known] = self.tilt[:, column[~known]]
        guesses = np.ascontiguousarray(self.guesses[:, block].swapaxes(0, 1))  # shape (U, G, q)
        predict_joint(
            tables_of(self.problem, kept),
            (self.problem.fixed, self.columns, self.problem.m),
            (
                label,
                self.truth[block],
                np.ascontiguousarray(self.linked[:, block]),
                imputed,
                known,
                guesses[:, :G],
            ),
            (log_c, tilt),
            np.empty((0, 0)) if weights is None else weights,
            self.batch,
            log_truth,
            sums,
        )
        return log_truth, sums.swapaxes(1, 2)


def tables_of(problem: Problem, kept: Kept) -> tuple[Array, Array, Ints, Array, Array, bool]:
    """What the kernels need of the draws; weights are integrated out but for given columns."""
    integrated = not problem.fixed.any()
    return kept.Q, kept.tau, kept.n, kept.alpha, kept.pi, integrated


def imputed_predictive(
    problem: Problem, kept: Kept, targets: Targets, n_chains: int
) -> ImputedPredictive:
    """Join draws and targets."""
    begin, record = problem.prior.starts[:-1], targets.record
    known = problem.known[record]
    place = np.where(problem.known, np.cumsum(problem.known), np.cumsum(~problem.known)) - 1
    column = np.where(~known & problem.exchangeable, 0, place[record])
    truth = (targets.profiles + begin).astype(np.int64)
    linked = _linked(problem, record)
    log_c, tilt = _of_seats(problem, kept, column, truth, linked, np.flatnonzero(~known))
    return ImputedPredictive(
        problem=problem,
        kept=kept,
        known=known,
        column=column,
        truth=truth,
        linked=linked,
        log_c=log_c,
        tilt=tilt,
        columns=targets.columns,
        guesses=targets.guesses.codes + begin[targets.columns],
        batch=batch_of_draws(len(kept), n_chains),
    )


def _linked(problem: Problem, record: Ints) -> Ints:
    """Synthetic levels of the targets' own classes, (m + 1, U, p); -1: none."""
    out = np.full((problem.m + 1, len(record), len(problem.prior.starts) - 1), -1, np.int64)
    for l, how in enumerate(problem.hows):
        if how.linked is not None:
            out[l] = how.linked[record]
    return out


def _of_seats(
    problem: Problem, kept: Kept, column: Ints, truth: Ints, linked: Ints, unknown: Ints
) -> tuple[Array, Array]:
    """Normalisers and densities of the rows imputed in the seats of the targets ``unknown``."""
    H, S = len(kept), kept.seat_rows.shape[1]
    log_c, tilt = np.zeros((H, S)), np.zeros((H, S, kept.n.shape[1] - problem.m))
    seats, first = np.unique(column[unknown], return_index=True)
    some = unknown[first]  # one target of each seat
    if len(some):
        c, t = np.empty((H, len(seats))), np.empty((H, len(seats), tilt.shape[2]))
        fill_seats(
            tables_of(problem, kept),
            problem.fixed,
            problem.m,
            np.ascontiguousarray(kept.seat_rows[:, seats], dtype=np.int64),
            np.ascontiguousarray(kept.seat_label[:, :, seats]),
            np.ascontiguousarray(linked[:, some]),
            np.where(problem.hows[0].synthesized, -1, truth[some]),
            c,
            t,
        )
        log_c[:, seats], tilt[:, seats] = c, t
    return log_c, tilt
