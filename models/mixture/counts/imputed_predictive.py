"""Predictives of counts and guesses from draws in which unknown rows are imputed.

As in `latent_imputed_predictive.py`: a target that is known stands in the tables of every draw and
is left out; of another one an imputed row does, which leaves the density of the target's values
given all else and its normaliser, estimated without bias by q / h at the imputed values.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import batch_of_draws
from bayes_risk.evidence.contract import Targets

from .imputed_guesses import guess_sums, truth_densities
from .imputed_state import CountProblem, CountsKept
from .posterior import cases_of
from .predictive import CountCases, layout_of

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedCounts:
    """h(y*) of a list of targets and their guesses.

    Attributes
    ----------
    problem : CountProblem
    kept : CountsKept
        The H draws.
    known : ndarray of bool, shape (U,)
        Targets whose own values are in the table.
    column : ndarray of int, shape (U,)
        Where among the records that are seen, or among the seats, the target is.
    cases : sequence of CountCases
        Of each of the m data sets, then before them.
    batch : ndarray of int, shape (H,)
        Batch of each draw.
    """

    problem: CountProblem
    kept: CountsKept
    known: npt.NDArray[np.bool_]
    column: Ints
    cases: list[CountCases]
    batch: Ints

    @classmethod
    def of(
        cls, problem: CountProblem, kept: CountsKept, targets: Targets, n_chains: int
    ) -> "ImputedCounts":
        """Join draws and targets."""
        seen, record = problem.seen, targets.record
        known = seen[record]
        place = np.where(seen, np.cumsum(seen), np.cumsum(~seen)) - 1
        unseen = (~seen, problem.hows[0].synthesized)
        tied = [how.linked for how in problem.hows]
        return cls(
            problem=problem,
            kept=kept,
            known=known,
            column=np.where(~known & problem.exchangeable, 0, place[record]),
            cases=[
                cases_of(problem.prior, problem.columns, targets, z, unseen) for z in [*tied, None]
            ],
            batch=batch_of_draws(len(kept), n_chains),
        )

    def log_truth(self, block: slice) -> Array:
        """log h(y_i) of each draw, with the normaliser of imputed rows, shape (H, block)."""
        targets = self._targets(block)
        out = np.empty((len(self.kept), len(targets[2])))
        truth_densities(self._tables(), layout_of(self.problem.prior), targets, out)
        return out

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h h(y*) / h(y_i): (B, G, block)."""
        points = [case.points(block) for case in self.cases]
        columns, _, _, _, n_points, truth, chosen = points[0]
        stacked = [np.stack([p[i] for p in points]) for i in (1, 2, 3)]
        U, G = chosen.shape[:2]
        out = np.full((int(self.batch.max()) + 1, G, U), -np.inf)
        guess_sums(
            self._tables(),
            layout_of(self.problem.prior),
            self._targets(block),
            (columns, *stacked, n_points, truth, chosen),
            np.ascontiguousarray(log_weights),
            self.batch,
            out,
        )
        return out

    def _tables(self) -> tuple[Any, ...]:
        """Sums of all draws; of phi and of the weights nothing but their shapes is looked at."""
        phi, pi = np.zeros((1, self.problem.prior.width, 0)), np.zeros((1, 0))
        return self.kept.n, self.kept.M, self.kept.alpha, phi, pi

    def _targets(self, block: slice) -> tuple[Any, ...]:
        """Labels, structural zeros, who is known, imputed rows, and values in each data set."""
        known, column, kept = self.known[block], self.column[block], self.kept
        H, B, U = *kept.alpha.shape, len(known)
        label, flags = np.empty((H, B, U), np.int16), np.empty((H, B, U, _p(kept)), np.bool_)
        imputed = np.zeros((H, U, _p(kept)))
        label[:, :, known] = kept.known_label[:, :, column[known]]
        label[:, :, ~known] = kept.seat_label[:, :, column[~known]]
        flags[:, :, known] = kept.known_flags[:, :, column[known]]
        flags[:, :, ~known] = kept.seat_flags[:, :, column[~known]]
        imputed[:, ~known] = kept.seat_rows[:, column[~known]]
        arrays = [case.arrays(block) for case in self.cases]
        stacked = [np.stack([a[i] for a in arrays]) for i in (0, 1, 2, 3, 5, 6)]
        tied = np.stack([case.tied[block] for case in self.cases])
        return (label, flags, known, imputed, arrays[0][4], *stacked, tied)


def _p(kept: CountsKept) -> int:
    return int(kept.seat_rows.shape[2])
