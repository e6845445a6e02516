"""Leave-one-out predictives of mixtures of any families, parameters integrated out.

Given the labels, the target is taken out of its class and p(y* | labels, y_-i) is a sum over
classes of products of predictives of the families, the class weights being the stick-breaking
predictive; of a record of weight w it is E[(pi_k f_k(y*))^w]. The derivation stands in
`docs/mixtures.md`. Columns can instead be *fixed* at their drawn parameters: all of them for the
published importance sampler, the unsynthesised ones where the release was drawn given them.

Compiled loops take targets, guesses and draws as in `kernel_arguments.py`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.matching import distinct_rows
from bayes_risk.evidence.contract import Targets

from .columns import Columns
from .families import PARAMETERS, log_add, log_sum_of
from .kernel_arguments import (
    CaseArrays,
    DrawBuffers,
    GuessBuffers,
    Labels,
    NumberValues,
    PointArrays,
    PredictiveDraw,
    PredictiveDraws,
    RunningSums,
    TermBuffers,
)
from .masses import count_constants
from .mixed_terms import SMALL, fill_draw, log_guess, points_of, put_aside, rest_terms
from .sampler import Sums, occupied
from .state import Prior

LEAST = 1e-250
STEP = 200.0  # of logs, beyond which a sum is put aside


@numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
def fill(
    draws, layout, fixed, targets, numbers, guesses, log_weights, batch, work, found, running, out
):
    """out[h, u] = log p_h(values of the target, the target taken out), given what is given.

    With guesses: out[u, b, g] = log of the batch's sum of exp(log_weights) p_h(y*) / p_h(y_i).
    """
    spare, terms, rest, L, masses = found.spare, found.terms, found.rest, found.L, found.masses
    any_given = targets.given.any() or targets.given_linked.any()
    every, cond = np.int64(0), np.int64(2)  # a literal is a type of its own: compiled anew
    for h in range(draws.n.shape[0]):
        M, phi = draws.M[h], draws.phi[h]
        pi = draws.pi[h, : 0 if draws.integrated else draws.n.shape[1]]
        fill_draw(M, phi, layout, fixed, numbers, work)
        draw = PredictiveDraw(
            draws.n[h], draws.alpha[h], pi, draws.order[h], M, phi, work.P, work.T,
            draws.log_weights[h],
        )  # fmt: skip
        for u in range(targets.label.shape[1]):
            if guesses is None:
                rest_terms(draw, layout, fixed, targets, h, u, every, spare, terms)
                log_p = log_sum_of(terms)
                if any_given and rest_terms(draw, layout, fixed, targets, h, u, cond, spare, terms):
                    log_p -= log_sum_of(terms)
                out[h, u] = log_p
            else:
                of_sums, relative, b = running.sums, running.relative, batch[h]
                top, log_truth = points_of(draw, layout, fixed, targets, guesses, h, u, found)
                log_v = log_weights[h, u] - log_truth
                if log_v + top == -math.inf:
                    continue
                if log_v + top > relative[u, b] + STEP:
                    put_aside(of_sums[u, b], relative[u, b], out[u, b])
                    relative[u, b] = log_v + top
                factor = math.exp(log_v + top - relative[u, b])
                least = max(SMALL, LEAST / factor) if factor > 0.0 else math.inf
                for g in range(masses.shape[0]):
                    if masses[g] > least:
                        of_sums[u, b, g] += masses[g] * factor
                    else:
                        of_guess = log_v + log_guess(rest, L, guesses.cells, u, g, terms)
                        out[u, b, g] = log_add(out[u, b, g], of_guess)
    if guesses is not None:
        for u in range(out.shape[0]):
            for b in range(out.shape[1]):
                put_aside(running.sums[u, b], running.relative[u, b], out[u, b])


def buffers_of(guesses: PointArrays | None, V: int, K: int, every: int) -> GuessBuffers:
    """Room for `rest_terms` and `points_of`; for K of all classes."""
    work = TermBuffers(
        np.zeros(V, np.bool_), np.zeros((3, 4)), np.empty((2, PARAMETERS)), np.empty(every)
    )
    q, C, G = 0, 0, 0
    if guesses is not None:
        (_, q, C), G = guesses.values.shape, guesses.cells.shape[1]
        work.guessed[guesses.columns] = True
    L, R, products = np.empty((q, C, K)), np.empty((q, C, K)), np.empty((q, K))
    return GuessBuffers(work, np.empty(K), np.empty(K), L, R, products, np.empty(G))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cases:
    """Targets as the predictives see them, variables numbered counts, reals, levels; all (U, V)."""

    prior: Prior
    table: Columns
    targets: Targets
    values: Array
    exposure: Array
    linked: Array  # own synthetic values where classes were the records' own, else NaN
    data: Array  # own values as far as they are among the data, else NaN
    given: Flags  # whether the density is conditional on the own value
    given_linked: Flags  # and on the synthetic one

    @classmethod
    def of(
        cls,
        prior: Prior,
        columns: Columns,
        targets: Targets,
        *,
        linked: Array | None,
        given: Flags,
        shown: Flags | None = None,
    ) -> "Cases":
        """Join targets with own synthetic values (n, V); unless fitted, shown values are given."""
        values, fitted = columns.rows(targets.profiles, prior).values, targets.fitted[:, None]
        exposure = np.ones(values.shape)
        exposure[:, : prior.n_counts] = columns.exposures(targets.profiles)
        disclosed = np.broadcast_to(given if shown is None else shown, values.shape)
        return cls(
            prior=prior,
            table=columns,
            targets=targets,
            values=values,
            exposure=exposure,
            linked=np.full(values.shape, np.nan) if linked is None else linked[targets.record],
            data=np.where(fitted | disclosed, values, np.nan),
            given=given | (~fitted & disclosed),
            given_linked=np.broadcast_to(~fitted, values.shape),
        )

    @property
    def columns(self) -> Ints:
        """The guessed variables, shape (q',)."""
        return self.table.variables(self.targets.columns)

    def log_volume(self, x: Array, v: int) -> Array:
        """log of what a density of values of variable v is multiplied with; 0 if it has none."""
        p, r = self.prior.n_counts, self.prior.n_reals
        return self.table.log_volume(x, v - p) if p <= v < p + r else np.zeros(x.shape)

    def arrays(self, block: slice, label: Labels, flags: Flags, rows: Ints) -> CaseArrays:
        """What the kernels take."""
        x, z, w = self.values[block], self.linked[block], self.targets.weight[block]
        p, constants, of_z = self.prior.n_counts, *(np.zeros((*x.shape, 2)) for _ in range(2))
        for u in range(len(x)):
            count_constants(x[u, :p], w[u], constants[u])
            count_constants(np.nan_to_num(z[u, :p], nan=0.0), 1.0, of_z[u])
        for v in self.columns[self.columns >= p].tolist():
            constants[:, v, 0] = self.log_volume(x[:, v], v)
        some = (self.exposure, self.linked, self.data, self.given, self.given_linked)
        blocks: Any = [y[block].copy() for y in some]  # all writeable: compiled once
        arrays = label, flags, x, *blocks, w, constants, of_z, rows
        return CaseArrays(*arrays)

    def points(self, block: slice) -> PointArrays:
        """Distinct values of guessed variables; their rows of T are filled by `numbers`."""
        columns, w, targets = self.columns, self.targets.weight[block], self.targets
        own, guessed = self.values[block][:, columns], targets.guesses.codes[:, block]
        every = np.concatenate([self.table.points(guessed, targets.columns, self.prior), own[None]])
        G, U, q = len(guessed), *own.shape
        cells, found = np.empty((U, G + 1, q), np.int32), []
        for u in range(U):
            for i in range(q):
                values, cells[u, :, i] = np.unique(
                    every[:, u, i], return_inverse=True, equal_nan=True
                )
                found.append(values)
        n_points = np.array([len(v) for v in found], np.int64).reshape(U, q)
        values = np.zeros((U, q, int(n_points.max(initial=1))))
        constants = np.zeros((*values.shape, 2))
        for place, x in enumerate(found):
            u, i = divmod(place, q)
            values[u, i, : len(x)] = x
            if columns[i] < self.prior.n_counts:
                count_constants(x, w[u], constants[u, i])
            else:
                constants[u, i, : len(x), 0] = self.log_volume(x, columns[i])
        true, chosen = np.ascontiguousarray(cells[:, -1:]), np.ascontiguousarray(cells[:, :-1])
        first = np.zeros((U, G), np.int64)  # the first column in which a guess is not as the last
        changed = chosen[:, 1:, : q - 1] != chosen[:, :-1, : q - 1]
        first[:, 1:] = np.where(changed.any(axis=2), changed.argmax(axis=2), q - 1) if q > 1 else 0
        rows = np.zeros(values.shape, np.int64)
        return PointArrays(columns, values, constants, n_points, true, chosen, first, rows)

    def numbers(
        self, block: slice, D: int, guesses: PointArrays | None
    ) -> tuple[NumberValues, Ints]:
        """Distinct values of numbers; rows of T, of own values and, in ``guesses``, of points."""
        x, e, p = self.values[block], self.exposure[block], self.prior.n_counts
        guessed = self.columns.tolist() if guesses is not None else []
        rows = np.zeros(x.shape, np.int64)
        found = [(np.zeros(0, np.int64), np.zeros((0, 2)), np.zeros((0, 2)))]
        for v in range(self.prior.n_numbers):
            every = x[:, v, None]
            if guesses is not None and v in guessed:
                every = np.concatenate([every, guesses.values[:, guessed.index(v)]], axis=1)
            both = np.column_stack([every.ravel(), np.repeat(e[:, v], every.shape[1])])
            first, cell, _ = distinct_rows(both)
            both, place = both[first], cell.reshape(every.shape) + D
            rows[:, v], constants = place[:, 0], np.zeros((len(both), 2))
            if guesses is not None and v in guessed:
                guesses.rows[:, guessed.index(v)] = place[:, 1:]
            if v < p:
                count_constants(both[:, 0], 1.0, constants)
            elif v in self.columns:
                constants[:, 0] = self.log_volume(both[:, 0], v)
            found.append((np.full(len(both), v), both, constants))
            D += len(both)
        return NumberValues(*(np.concatenate(part) for part in zip(*found, strict=True))), rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixedPredictive:
    """p(y* | theta_h without the target) for a list of targets and their guesses."""

    sums: Sums  # of the S classes of each draw that are `occupied`
    log_weights: Array  # (H, S + 1, S): one member of each taken out, or nobody
    cases: Cases
    label: Labels  # (H, U): of each target, S where nothing is to be taken out
    structural: Flags  # (H, U, 2 p): values, own and synthetic, drawn to be structural zeros
    batch: Ints  # (H,)

    @classmethod
    def of(cls, sums: Sums, cases: Cases, label: Labels, **how: Any) -> "MixedPredictive":
        """Of sums and labels of all K classes; ``how``: structural zeros and batches."""
        sums, label, weights = occupied(sums, label)
        with np.errstate(divide="ignore"):  # of columns that stand for nobody
            log_weights = np.log(weights)
        return cls(sums=sums, log_weights=log_weights, cases=cases, label=label, **how)

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h without i), given what is given of i, shape (H, block)."""
        out = np.empty(self.label[:, block].shape)
        return self._filled(block, None, None, None, out)

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        guesses = self.cases.points(block)
        shape = self.label[:, block].shape[1], int(self.batch.max()) + 1, guesses.cells.shape[1]
        running = RunningSums(np.zeros(shape), np.full(shape[:2], -np.inf))
        out = np.full(shape, -np.inf)
        self._filled(block, guesses, np.ascontiguousarray(log_weights), running, out)
        return np.ascontiguousarray(out.transpose(1, 2, 0))

    def _filled(
        self, block: slice, guesses: PointArrays | None, log_weights: Any, running: Any, out: Array
    ) -> Array:
        """``out``, with room for a draw and a target made here: the kernels allocate nothing."""
        s, d, cases = self.sums, self.sums.draws, self.cases
        assert s.order is not None
        (D, S), V = d.phi.shape[1:], cases.values.shape[1]
        numbers, rows = cases.numbers(block, D, guesses)
        P, T = np.empty((V, S, PARAMETERS)), np.zeros((D + len(numbers.variables), S))
        work = DrawBuffers(np.zeros((0, 4)), np.empty((4, S)), P, T)
        found = buffers_of(guesses, V, S, s.n.shape[1])
        draws = PredictiveDraws(
            s.n, d.alpha, d.pi, s.order, s.M, d.phi, self.log_weights, s.integrated
        )
        label = np.ascontiguousarray(self.label[:, block])
        flags = np.ascontiguousarray(self.structural[:, block])
        targets = cases.arrays(block, label, flags, rows)
        given = draws, cases.prior.layout, s.fixed, targets, numbers, guesses, log_weights
        fill(*given, self.batch, work, found, running, out)
        return out
