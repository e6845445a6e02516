"""Predictives of counts and guesses from draws in which unknown rows are imputed.

As in `latent_imputed_predictive.py`: a target that is known stands in the tables of every draw and
is left out; of another one an imputed row does, which leaves the density of the target's values
given all else and its normaliser, estimated without bias by q / h at the imputed values.

Compiled: masses of targets and guesses of counts from draws in which rows are imputed.

A draw holds B = m + W sets of sums by class: of y with each data set, then of y alone by the W base
chains. With the target out of all of them,

    h(y) = prod_l p(y, z^(l) | y_-t, Z^(l), labels^l) / p(y | y_-t)^(m-1),

p(y | y_-t) the mean over base chains of p_b(y) / p_b(r) over that of 1 / p_b(r), r the row that
stands in the table for the target.

``tables``: n (H, B, K), M (H, B, D + 2 p, K), alpha (H, B), and phi and weights that only have
shapes. ``targets``: labels (H, B, U), structural zeros (H, B, U, p), who is known (U,), imputed
rows (H, U, p), rows of covariates' levels (U, q), and by data set, the last without one, the truth
with its synthetic counts, exposure, constant, split, what the data show of targets that are not
known and its exposure, and what is conditioned on, all (m + 1, U, p). ``guesses`` as in
`guesses.py`, points, constants and splits by data set.
"""

import math
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import batch_of_draws
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.mixture.categorical.imputation_kernels import log_of_sum, log_power_of_mean

from .guesses import (
    SMALL,
    first_changes,
    guess_masses,
    log_add,
    log_guess,
    log_sum_of,
    point_terms,
    rest_terms,
    scale,
)
from .imputed_state import CountProblem, CountsKept
from .masses import count_constant, log_half
from .posterior import cases_of
from .predictive import CountCases, layout_of


@numba.njit(cache=True, nogil=True)
def of_set(tables, h, b):
    """Tables and draws of one set, as the kernels of a single fit take them."""
    n, M, alpha, phi, pi = tables
    s = slice(b, b + 1)
    return (M[h, s], phi, False), (n[h, s], alpha[h, s], pi)


@numba.njit(cache=True, nogil=True)
def held_rows(targets, h, held):
    """What stands in the tables: the truth, or an imputed row; its constants and splits."""
    known, imputed = targets[2], targets[3]
    truth, conditioned = targets[5], targets[11]
    x, constant, split = held
    for v in range(truth.shape[0]):
        for u in range(known.shape[0]):
            for j in range(truth.shape[2]):
                z = conditioned[v, u, j]
                x[v, u, j] = truth[v, u, j] if known[u] else imputed[h, u, j] + max(z, 0.0)
                if not known[u]:
                    constant[v, u, j] = count_constant(x[v, u, j])
                    split[v, u, j] = log_half(z, x[v, u, j]) if z >= 0.0 else 0.0


@numba.njit(cache=True, nogil=True)
def case_of(targets, values, held, h, b, v):
    """Targets of one set, with these counts, exposures, constants and splits in place of theirs."""
    label, flags, positions, exposure = targets[0], targets[1], targets[4], targets[6]
    x, e, constant, split = values
    s = slice(b, b + 1)
    return (
        label[h, s], flags[h, s], x[v], e[v], constant[v], split[v], positions,
        held[0][v], exposure[v],
    )  # fmt: skip


@numba.njit(cache=True, nogil=True)
def log_of_values(tables, prior, targets, values, held, nothing, h, b, u, terms):
    """log p of values of target u in set b, what stands in the tables for it taken out."""
    v = min(b, targets[5].shape[0] - 1)
    one, draws = of_set(tables, h, b)
    rest_terms(one, draws, prior, case_of(targets, values, held, h, b, v), nothing, 0, u, terms)
    return log_sum_of(terms)


@numba.njit(cache=True, nogil=True)
def log_joint(log_p, tilt, m):
    """log h, but for the normaliser of the tilt, from the log densities of the B sets."""
    return log_p[:m].sum() - log_power_of_mean(log_p[m:] - tilt, m - 1)


@numba.njit(cache=True, nogil=True)
def truth_densities(tables, prior, targets, out):
    """out[h, u] = log h(y_i), for targets that are not known times an estimate of 1 / sum h."""
    known, exposure = targets[2], targets[6]
    truth = (targets[5], exposure, targets[7], targets[8])
    shown = (targets[9], targets[10], np.zeros(exposure.shape), np.zeros(exposure.shape))
    for v in range(exposure.shape[0]):
        for u in range(exposure.shape[1]):
            for j in range(exposure.shape[2]):
                shown[2][v, u, j] = count_constant(shown[0][v, u, j])
    (H, B, K), V, U = tables[0].shape, exposure.shape[0], exposure.shape[1]
    m = V - 1
    held = (np.empty(exposure.shape), truth[2].copy(), truth[3].copy())
    nothing, terms = np.zeros(exposure.shape[2], np.bool_), np.empty(K)
    log_p, log_r, log_q = np.empty(B), np.empty(B), np.empty(m)
    for h in range(H):
        held_rows(targets, h, held)
        row = (held[0], exposure, held[1], held[2])
        for u in range(U):
            for b in range(B):
                args = (held, nothing, h, b, u, terms)
                log_p[b] = log_of_values(tables, prior, targets, truth, *args)
                log_r[b] = log_p[b]
                if not known[u]:
                    log_r[b] = log_of_values(tables, prior, targets, row, *args)
                    if b < m:
                        log_q[b] = log_r[b] - log_of_values(tables, prior, targets, shown, *args)
            norm = (m - 1) * (log_of_sum(-log_r[m:]) - math.log(B - m))
            out[h, u] = log_joint(log_p, log_r[m:], m) + norm
            if not known[u]:
                log_h = log_joint(log_r, log_r[m:], m) + norm
                out[h, u] += log_of_sum(log_q) - math.log(m) - log_h


@numba.njit(cache=True, nogil=True)
def guess_sums(tables, prior, targets, guesses, log_weights, batch, out):
    """Add log of the batch's sum of exp(log_weights) h(y*) / h(y_i) to out[b, g, u]."""
    columns, points, constants, splits, n_points, truth_at, cells = guesses
    known, exposure = targets[2], targets[6]
    truth = (targets[5], exposure, targets[7], targets[8])
    (H, B, K), m = tables[0].shape, exposure.shape[0] - 1
    G, q, C = cells.shape[1], points.shape[2], points.shape[3]
    rest, terms, products = np.empty(K), np.empty(K), np.empty((q, K))
    L, R = np.empty((q, C, K)), np.empty((q, C, K))
    guessed = np.zeros(exposure.shape[2], np.bool_)
    nothing = guessed.copy()
    guessed[columns] = True
    held = (np.empty(exposure.shape), truth[2].copy(), truth[3].copy())
    first, masses = np.empty(G, np.int64), np.empty(G)
    log_p, found, tilt = np.empty(B), np.empty((G, B)), np.empty(B)
    for h in range(H):
        held_rows(targets, h, held)
        row = (held[0], exposure, held[1], held[2])
        for u in range(cells.shape[0]):
            first_changes(cells, u, first)
            for b in range(B):
                v = min(b, m)
                case = case_of(targets, truth, held, h, b, v)
                one, draws = of_set(tables, h, b)
                here = (columns, points[v], constants[v], splits[v], n_points)
                rest_terms(one, draws, prior, case, guessed, 0, u, rest)
                point_terms(one, prior, case, here, 0, u, rest, L)
                kept, top = scale(rest, L, n_points, u, R, products[0])
                log_p[b] = log_guess(rest, L, truth_at, u, 0, terms)
                guess_masses(R, cells, u, first, kept, products, masses)
                for g in range(G):
                    if masses[g] > SMALL:
                        found[g, b] = math.log(masses[g]) + top
                    else:
                        found[g, b] = log_guess(rest, L, cells, u, g, terms)
                tilt[b] = log_p[b]
                if not known[u] and b >= m:
                    tilt[b] = log_of_values(
                        tables, prior, targets, row, held, nothing, h, b, u, terms
                    )  # fmt: skip
            log_v = log_weights[h, u] - log_joint(log_p, tilt[m:], m)
            for g in range(G):
                if found[g].min() > -math.inf:
                    log_h = log_joint(found[g], tilt[m:], m)
                    out[batch[h], g, u] = log_add(out[batch[h], g, u], log_v + log_h)


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
        Where among the records that are seen, or among the tracked_rows, the target is.
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
        conditioned = [how.linked for how in problem.hows]
        return cls(
            problem=problem,
            kept=kept,
            known=known,
            column=np.where(~known & problem.exchangeable, 0, place[record]),
            cases=[
                cases_of(problem.prior, problem.columns, targets, z, unseen)
                for z in [*conditioned, None]
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
        conditioned = np.stack([case.conditioned[block] for case in self.cases])
        return (label, flags, known, imputed, arrays[0][4], *stacked, conditioned)


def _p(kept: CountsKept) -> int:
    return int(kept.seat_rows.shape[2])
