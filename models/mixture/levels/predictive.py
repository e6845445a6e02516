"""Leave-one-out predictives of latent-class draws, with the level probabilities integrated out.

Given the labels, record i is taken out of its class and p(y* | z_-i, y_-i) is a sum over classes of
products of (count + a) / (total + d a), the class weights being the stick-breaking predictive. The
derivation stands in `docs/evidence.md`. Columns can instead be *fixed* at their drawn
probabilities: all of them for the published importance sampler, the unsynthesised ones where the
release was drawn conditionally on them.

Of a whole table a *term* is a draw and a class in it, the target's own one a term like any other;
classes that nobody is in are all alike and make one term.
``factor[place, t]`` is the probability of a level in term t, the target taken out of its own class;
``log_base[t]`` what is the same for every cell: the weight of the class, and the variables that are
not guessed.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.disjoint_boxes import guesses_held
from bayes_risk.evidence.contract import Targets
from bayes_risk.evidence.products import Terms
from bayes_risk.models.mixture.mixed_predictive import Cases
from bayes_risk.models.mixture.sampler import Sums, occupied
from bayes_risk.models.mixture.sweep import TINY

from .predictive_kernels import (
    LEAST,
    linked_factor,
    own_class,
    predict,
    predict_one_change,
    wide_sums,
)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_terms(tables, layout, target, draws, factor, log_base, log_truth, draw_of):
    """Fill the terms of some draws for one target; how many there are.

    A factor is the probability of a level, and of the linked one with it, without the target.
    ``log_truth`` (T,): log mass of the target's own values; ``draw_of`` (T,): place of the draw.
    """
    Q, tau, weights = tables
    fixed, place, starts = layout  # place[j]: first place of a guessed variable, else -1
    label, truth, linked, held = target
    t = 0
    for i in range(draws.shape[0]):
        h, k0 = draws[i], label[draws[i]]
        for k in range(Q.shape[2]):
            if weights[h, k0, k] == 0.0:
                continue
            log_base[t] = math.log(weights[h, k0, k])
            log_truth[t] = 0.0
            draw_of[t] = i
            for j in range(truth.shape[0]):
                z, guessed = linked[j], place[j] >= 0
                logs = log_truth if guessed else log_base
                first, last = (starts[j], starts[j + 1]) if guessed else (truth[j], truth[j] + 1)
                for level in range(first, last):
                    here = Q[h, level, k]
                    if k == k0:
                        here = own_class(Q[h], tau[h], fixed, j, held[j], z, k0, level)
                    elif z >= 0:
                        here *= linked_factor(Q[h], tau[h], fixed, j, z, level == z, k)
                    if guessed:
                        factor[place[j] + level - first, t] = here
                    if level == truth[j]:
                        logs[t] += math.log(max(here, TINY))
            t += 1
    for s in range(t):
        log_truth[s] += log_base[s]
    return t


FLOOR = 1e-300
MANY = 32  # targets from which tables of draws side by side pay
MOST = 64  # columns whose product does not underflow
WIDEST = 2**16  # levels x classes: tables of draws side by side take 30 MB for these


def rows_of(values: Array, told: Any = True) -> Ints:
    """Rows of phi of values that are told; -1 elsewhere."""
    rows: Ints = np.where(told & ~np.isnan(values), values, -1.0).astype(np.int64)
    return rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentPredictive:
    """p(y* | theta_h without the target) for a list of targets and their guesses.

    Of tables with structural zeros it is normalised over what is possible.

    ``sums`` of the H draws and the S classes of each that are `occupied`, their ``M`` the
    probability of a level in a class; ``tau (H, p, S)``, class totals plus prior mass; ``weights``,
    ``label`` and ``batch`` as of `MixedPredictive`. With structural zeros, ``impossible (G, U)``:
    guesses of what nobody can have; ``log_factor (H, U)``: what turns a density of a target, the
    records that fell into the zeros among the counts, into one of what is possible.
    """

    sums: Sums
    weights: Array
    tau: Array
    cases: Cases
    label: npt.NDArray[np.int16]
    batch: Ints
    impossible: Flags | None = None
    log_factor: Array | None = None
    plain: bool = False

    @classmethod
    def of(
        cls,
        sums: Sums,
        cases: Cases,
        label: npt.NDArray[np.int16],
        batch: Ints,
        log_factor: Array | None = None,
    ) -> "LatentPredictive":
        """Of sums of levels alone, in whose place the probabilities are put."""
        sums, label, weights = occupied(sums, label)
        draws, M, prior = sums.draws, sums.M, cases.prior
        tau, impossible = np.empty((len(M), len(prior.starts) - 1, M.shape[2])), None
        M[:, -1] = 1.0
        for j, (begin, end) in enumerate(pairwise(prior.starts)):
            tau[:, j] = (end - begin) * prior.level
            for row in range(begin, end):
                tau[:, j] += M[:, row]
            for row in range(begin, end):
                here = draws.phi[:, row] if sums.fixed[j] else (M[:, row] + prior.level) / tau[:, j]
                M[:, row] = here
        if prior.zeros is not None:
            columns, codes = cases.columns, cases.targets.guesses.codes
            guesses = codes + prior.starts[columns].astype(np.int32)
            impossible = guesses_held(prior.zeros.boxes, rows_of(cases.values), columns, guesses)
        told, nobody = cases.values, (label == M.shape[2]).all(axis=0)
        plain = MANY <= len(told) and told.shape[1] <= MOST and M.min() > LEAST and M.shape[2] > 1
        plain = plain and M[0].size <= WIDEST and not (np.isnan(told).any() or cases.given.any())
        plain = plain and bool(np.isnan(cases.linked).all())
        plain = bool(plain and (nobody | (cases.held == told).all(axis=1)).all())
        return cls(
            sums=sums,
            weights=weights,
            tau=tau,
            cases=cases,
            label=label,
            batch=batch,
            impossible=impossible,
            log_factor=log_factor,
            plain=plain,
        )

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        top = np.stack([log_weights[self.batch == b].max(axis=0) for b in range(self.n_batches)])
        weights = log_weights - top[self.batch]
        sums = self._pass(block, np.exp(weights, out=weights))[1]
        logs: Array = np.log(np.maximum(sums, FLOOR)) + top[:, None]
        if self.impossible is None:
            return logs
        return np.where(self.impossible[:, block], -np.inf, logs)

    @property
    def n_batches(self) -> int:
        """Number B of batches."""
        return int(self.batch.max()) + 1

    def log_truth(self, block: slice) -> Array:
        logs = self._pass(block, np.empty((0, 0)))[0]
        return logs if self.log_factor is None else logs + self.log_factor[:, block]

    @property
    def n_classes(self) -> int:
        """Most classes that a draw has people in, and one for all the others."""
        return int(self.weights.shape[2])

    def terms(
        self, u: int, targets: Targets, n_levels: Ints, log_weights: Array, draws: Ints
    ) -> Terms:
        """What `log_sums` adds up for target u, as a mixture of products, of some ``draws``.

        ``n_levels`` (p,), ``log_weights`` (draws,).
        """
        columns, begin = self.cases.columns, self.cases.prior.starts
        start = np.concatenate([[0], np.cumsum(n_levels[targets.columns])]).astype(np.int64)
        place = np.full(len(begin) - 1, -1, np.int64)
        place[columns] = start[:-1]
        of_target = (rows_of(x[u]) for x in (self.cases.values, self.cases.linked, self.cases.held))
        size = len(draws) * self.n_classes
        factor, draw_of = np.empty((int(start[-1]), size)), np.empty(size, np.int64)
        log_base, log_truth = np.empty(size), np.empty(size)
        T = fill_terms(
            (self.sums.M, self.tau, self.weights),
            (self.sums.fixed, place, begin),
            (self.label[:, u].astype(np.int64), *of_target),
            draws,
            factor,
            log_base,
            log_truth,
            draw_of,
        )
        draw_of = draw_of[:T]
        total = np.full(len(draws), -np.inf)
        np.logaddexp.at(total, draw_of, log_truth[:T])
        return Terms(
            factor=factor[:, :T],
            log_weight=log_base[:T] + (log_weights - total)[draw_of],
            start=start,
            batch=self.batch[draws][draw_of],
        )

    def _pass(self, block: slice, weights: Array) -> tuple[Array, Array]:
        cases, fixed, columns = self.cases, self.sums.fixed, self.cases.columns
        tables = self.sums.M, self.tau, self.weights
        label, codes = np.ascontiguousarray(self.label[:, block]), cases.targets.guesses.codes
        codes = codes[: None if len(weights) else 0, block].swapaxes(0, 1)  # shape (U, G, q)
        guesses = np.add(codes, cases.prior.starts[columns], order="C", dtype=np.int64)
        log_truth = np.empty(label.shape)
        values, linked = cases.values[block], cases.linked[block]
        truth, held = rows_of(values), rows_of(cases.held[block])
        of_targets: tuple[Any, ...] = label, truth, rows_of(linked), held
        changed = guesses != truth[:, None, columns]
        changes = changed.sum(axis=2), changed.argmax(axis=2)
        several = changes[0].max(initial=0) > 1
        if several:
            wide = wide_sums(tables, fixed, columns, of_targets, guesses, weights, self.batch)
            if wide is not None:
                return log_truth, wide.swapaxes(1, 2)
        sums = np.zeros((self.n_batches, *guesses.shape[:2]))
        of_draws = weights, self.batch, log_truth, sums
        if self.plain and not several:
            place = np.take_along_axis(guesses, changes[1][:, :, None], axis=2)[:, :, 0]
            place = np.where(changes[0] > 0, place, cases.prior.width - 1)
            layout = fixed, columns, cases.prior.starts
            predict_one_change(tables, layout, (label, truth, place), *of_draws)
        else:
            given = rows_of(values, cases.given[block]), rows_of(linked, cases.given_linked[block])
            of_targets = (*of_targets, *given, guesses, changes)
            predict(tables, (fixed, columns), of_targets, *of_draws)
        return log_truth, sums.swapaxes(1, 2)
