"""Several releases and an intruder who knows some of the records: the others are imputed.

Chains over the unknown rows, the parameters of each release and base chains (see the kernels). Of
each draw sums by class are kept, from which predictives are read. The law of a draw is that of
tables with the target in them: as it is, where the intruder would know the record if it were not
the target, else as imputed, r. With it taken out of all B = m + W sets of sums h(y) is left, the
joint density of its values given all else; its normaliser stands below
where the row was imputed.

*Imputation.* The state is y_U and a Theta^(l) for each release, with law p(y)^(1-m) prod_l
p(Theta^l) p(y|Theta^l) p(Z^(l)|y,Theta^l). An unknown row has the conditional

    p(y_j|rest)  ∝  h_j(y_j) = prod_l f(y_j [,Z_j^l]|Theta^l) / p(y_j|y_-j)^(m-1),

proposed from f(.|y_us,j [,Z_j^l],Theta^l) of a random l, and accepted by the ratio of the rest. The
power is an average over W = 8 *base chains* of labels:

    p(y'|y_-j) / p(y_j|y_-j) = E[ p(y'|labels_-j,y_-j) / p(y_j|labels_-j,y_-j) ],
    labels ~ p(labels|y).

A changed row enters the counts of every base chain at once; labels are drawn again over the sweep
and lag slightly, which is the approximation.

*Evidence.* For a known target p(y*,rest) / p(y_t,rest) = h(y*) / h(y_t) with the target out of all
counts,

    h(y) = prod_l p(y [,Z_t^l]|y_-t,Z^(l),labels^l_-t) / p(y|y_-t)^(m-1):

the mean of h(y*) / h(y_t) (Pareto-smoothed) less log p(y*|y_A). An unknown target was imputed as r
with density h(r) / c; for any density q, E[q(r) / h(r) | rest] = 1 / c, so h(y*) q(r) / h(r) is
averaged.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.batches import batch_of_draws
from bayes_risk.evidence.contract import Targets

from .columns import Columns, Mechanism
from .families import PARAMETERS, log_add, log_sum_of
from .kernel_arguments import (
    CaseArrays,
    DrawBuffers,
    ImputedCases,
    ImputingLayout,
    ImputingState,
    Labels,
    LevelLogs,
    PointArrays,
    PredictiveDraw,
    UnknownArrays,
)
from .masses import count_constants
from .mixed_predictive import Cases, buffers_of
from .mixed_terms import SMALL, fill_draw, log_guess, points_of, rest_terms
from .sampler import chains_of, fill_weights
from .state import Draws, Given, Prior, Rows, Units
from .unknown_kernels import (
    ReleaseData,
    StackedLevels,
    StackedRows,
    block,
    keep,
    label_base,
    log_power_of_mean,
    place_rows,
    sweeps,
)

BASE_CHAINS = 8
SWEEPS_A_CALL = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class UnknownRecords:
    """What every chain works on."""

    prior: Prior
    columns: Columns
    hows: Sequence[Mechanism]  # how each of the m data sets was drawn
    known: Flags  # (n,): records whose values are seen

    @property
    def free(self) -> Ints:
        """Variables that are imputed."""
        return np.flatnonzero(self.hows[0].synthesized)

    @cached_property
    def parts(self) -> list[tuple[Units, Rows]]:
        """Known records and unknown rows: with each data set, then alone."""
        alone = self.hows[0].around(self.known, release=False)
        return [*(how.around(self.known) for how in self.hows), alone]

    @property
    def exposures(self) -> Array:
        """Exposures of the unknown rows, missing values or not, (R, V)."""
        first, unknown = self.hows[0], ~self.known
        out = np.ones((int(unknown.sum()), len(first.synthesized)))
        out[:, : self.prior.n_counts] = first.exposure[unknown]
        return out

    @property
    def tracked(self) -> Ints:
        """Unknown rows whose labels and values are kept; one, where nothing tells them apart."""
        how, e = self.hows[0], self.exposures
        alike = not how.own and how.synthesized.all() and (e == e[:1]).all()
        return np.arange(min(len(e), 1) if alike else len(e))

    @property
    def wanted(self) -> Ints:
        """Units of known records and tracked rows in each data set and before, (m + 1, N + S)."""
        return np.stack(
            [np.append(u.unit, len(u.multiplicity) + self.tracked) for u, _ in self.parts]
        )

    @property
    def fixed(self) -> Flags:
        """Variables that stay at their drawn parameters, with a data set and before, (2, V)."""
        conditional = self.hows[0].conditional
        return np.stack([conditional, np.zeros_like(conditional)])

    @property
    def layout(self) -> ImputingLayout:
        """What compiled loops take of the model."""
        prior, i = self.prior, np.arange(len(self.known) + 2.0)
        divisors = i[:, None] + np.diff(prior.starts) * prior.level
        logs = np.log(np.maximum(i, 1.0)), np.log(i + prior.level), np.log(divisors).sum(axis=1)
        return ImputingLayout(prior.layout, LevelLogs(*logs))

    def data(self) -> ReleaseData:
        """What the kernels take of the table and the releases."""
        units = [
            (*u.data.below(rows).arrays, np.append(u.multiplicity, np.ones(len(rows[0]), np.int64)))
            for u, rows in self.parts
        ]
        none = self.parts[0][0].only(np.arange(0))
        nothing = Given(rows=none, parts=none, columns=np.arange(0))
        every = [(u.given or nothing).arrays for u, _ in self.parts]
        given = [(*one.rows.data, one.rows.multiplicity) for one in every]
        given[-1] = tuple(x[:0] for x in given[0])
        return ReleaseData(stacked_blocks(units), stacked_blocks(given), *every[0][1:])

    def rows(self) -> UnknownArrays:
        """What the kernels take of the unknown rows."""
        unknown, made, own = ~self.known, self.hows[0].synthesized, self.hows[0].own
        kept, e = np.flatnonzero(~made), self.exposures
        linked = self.free if own else self.free[:0]
        shown = [
            np.hstack([how.y.values[:, kept], *([how.z.values[:, linked]] if own else [])])
            for how in self.hows
        ]
        kinds = np.append(kept, linked)
        absent, prior, columns = np.full((len(made), 2), -1), self.prior, self.columns
        for i, number in enumerate(columns.may_be_missing):
            level = len(columns.levels) + i
            place = int(np.searchsorted(self.free, prior.n_numbers + level))
            absent[number] = place, prior.starts[level] + 1
        return UnknownArrays(
            self.free,
            np.ascontiguousarray(e[:, self.free]),
            absent[self.free],
            kinds,
            len(kept),
            np.ascontiguousarray(np.stack(shown)[:, unknown]),
            np.ascontiguousarray(e[:, kinds]),
        )


def stacked_blocks(blocks: Sequence[tuple[npt.NDArray[Any], ...]]) -> StackedLevels | StackedRows:
    """Arrays of all blocks below one another, and where each block begins."""
    ends = np.cumsum([0, *(len(block[-1]) for block in blocks)])
    arrays: Any = (np.ascontiguousarray(np.concatenate(x)) for x in zip(*blocks, strict=True))
    kind: Any = StackedLevels if len(blocks[0]) == 2 else StackedRows
    return kind(*arrays, ends)  # type: ignore[no-any-return]


class Kept(NamedTuple):
    """H draws, chain after chain; B = m + W sets of sums in each."""

    n: Array  # (H, B, K), as pi
    M: Array  # (H, B, ., K)
    alpha: Array  # (H, B)
    pi: Array
    label: Labels  # (H, B, N + S): of known records and tracked rows
    flags: Flags  # (H, B, N + S, c)
    rows: Array  # (H, S, F): imputed values

    @classmethod
    def empty(cls, problem: UnknownRecords, H: int) -> "Kept":
        """Empty arrays for one chain."""
        prior, wanted = problem.prior, problem.wanted.shape[1]
        K, B = prior.n_classes, len(problem.hows) + BASE_CHAINS
        c = 0 if prior.inflation is None else problem.parts[0][1].counts.shape[1]
        return cls(
            n=np.empty((H, B, K)),
            M=np.empty((H, B, prior.n_sums, K)),
            alpha=np.empty((H, B)),
            pi=np.empty((H, B, K)),
            label=np.empty((H, B, wanted), np.int16),
            flags=np.zeros((H, B, wanted, c), np.bool_),
            rows=np.empty((H, len(problem.tracked), len(problem.free))),
        )

    @classmethod
    def joined(cls, parts: Sequence["Kept"]) -> "Kept":
        """Chains after one another."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def started(problem: UnknownRecords, draws: Draws, l: int, rng: Rng) -> ImputingState:
    """Parameters from draws far apart, unknown rows as data set l shows some."""
    prior, W, z = problem.prior, BASE_CHAINS, problem.hows[l].z.values
    rows = np.resize(np.arange(len(z)), len(problem.known))[~problem.known]
    y = np.ascontiguousarray(z[rows][:, problem.free])
    far = np.linspace(0, len(draws) - 1, len(problem.hows) + W).astype(int)
    some = draws.take(rng.permutation(far), 1)
    state = ImputingState(
        *(some.alpha, some.log_left, some.pi, some.phi),
        np.zeros((W, prior.n_classes)),
        np.zeros((W, prior.n_sums, prior.n_classes)),
        np.zeros((W, len(y)), np.int64),
        np.zeros((W, len(y), prior.n_counts), np.bool_),
        y,
    )
    m, families = len(problem.hows), problem.layout.families
    table = block(problem.data().units, m)
    place_rows(table.data, problem.rows(), families, y)
    for b in range(W):  # labels and sums of the base chains, given their parameters
        base = state.n[b], state.M[b], state.label[b], state.flags[b]
        label_base(rng, table, families, state.pi[m + b], state.phi[m + b], *base)
    return state


def run_imputing_chain(
    problem: UnknownRecords,
    start: ImputingState,
    *,
    draws: int,
    tune: int,
    thin: int,
    rng: Rng,
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[Kept, ImputingState]:
    """One chain: `tune` sweeps thrown away, then `draws` draws kept, `thin` sweeps apart."""
    arrays: Any = (x.copy() for x in start)
    chain, kept = ImputingState(*arrays), Kept.empty(problem, draws)
    prior = problem.prior
    data, layout, rows = problem.data(), problem.layout, problem.rows()
    wanted, tracked, fixed = problem.wanted, problem.tracked, problem.fixed[0]
    concentration = np.array(prior.concentration)

    def advance(n: int) -> None:
        for first in range(0, n, SWEEPS_A_CALL):  # so that Ctrl-C is heard
            more = min(SWEEPS_A_CALL, n - first)
            sweeps(rng, data, layout, concentration, prior.swaps, rows, chain, more)

    advance(tune)
    for h in range(draws):
        advance(thin)
        keep(rng, data, layout, fixed, rows, chain, wanted, tracked, kept, h)
        tick(1)
    return kept, chain


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Imputed:
    """p(Theta^(1..m), y_U | y_A, Z^(1..m)), by draws."""

    problem: UnknownRecords
    kept: Kept
    chains: Sequence[ImputingState]  # where they stopped
    thin: int  # sweeps between draws

    @classmethod
    def sampled(cls, problem: UnknownRecords, start: Draws, *, rng: Rng, **how: Any) -> "Imputed":
        """As many chains as ``start`` has, each from draws of one; see `run_imputing_chain`."""
        first, then = rng.spawn(2)
        pairs = zip(start.chains(), first.spawn(start.n_chains), strict=True)
        starts = [
            started(problem, part, c % len(problem.hows), child)
            for c, (part, child) in enumerate(pairs)
        ]
        found = chains_of(partial(run_imputing_chain, problem), starts, rng=then, **how)
        kept, chains = zip(*found, strict=True)
        return cls(problem=problem, kept=Kept.joined(kept), chains=chains, thin=how["thin"])

    @property
    def n_draws(self) -> int:
        return len(self.kept.alpha)

    def predictives(self, targets: Targets, *, rng: Rng) -> list["UnknownRecordsPredictive"]:
        """Predictive of targets, which are left out, or of which the imputed row is."""
        return [UnknownRecordsPredictive.of(self.problem, self.kept, targets, len(self.chains))]

    def doubled(self, *, rng: Rng, n_jobs: int) -> "Imputed":
        """Chains twice as long, every other draw kept."""
        size, every = self.n_draws // len(self.chains), list[Any](self.kept)
        how: Any = {"draws": size - size // 2, "tune": 0, "thin": 2 * self.thin, "n_jobs": n_jobs}
        new = chains_of(partial(run_imputing_chain, self.problem), self.chains, rng=rng, **how)
        parts, chains = [], [chain for _, chain in new]
        for c, (kept, _) in enumerate(new):
            parts += [Kept(*(x[c * size + 1 : (c + 1) * size : 2] for x in every)), kept]
        return replace(self, kept=Kept.joined(parts), chains=chains, thin=2 * self.thin)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def case_of(targets, x, constants, data, rows, h, b):
    """Targets of one set with these values; ``data`` stands in the tables."""
    t, v = targets, min(b, targets.linked.shape[0] - 1)
    return CaseArrays(
        t.label[h], t.flags[h], x, t.exposure, t.linked[v], data, t.given, t.given_linked, t.power,
        constants, t.linked_constants[v], rows,
    )  # fmt: skip


@numba.njit(cache=True, nogil=True, error_model="numpy")
def log_tilted(log_p, tilt, m):
    """log h, but for the normaliser of the tilt, from the log densities of the B sets."""
    return log_p[:m].sum() - log_power_of_mean(log_p[m:] - tilt, m - 1)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def unknown_densities(
    kept, fixed, layout, numbers, targets, guesses, log_weights, batch, found, out
):
    """out[h, u] = log h(y_i), for targets that are not known times an estimate of 1 / sum h.

    With guesses: out[b, g, u] gets log of its batch's sum of exp(log_weights) h(y*) / h(y_i). What
    stands in the tables is ``data``: the truth, or an imputed row.
    """
    truth, constants, known, free = targets.values, targets.constants, targets.known, targets.free
    all_n, all_M, all_alpha, all_pi = kept.n, kept.M, kept.alpha, kept.pi
    (H, B, K), p, r = all_n.shape, layout.shape.shape[0], layout.reals.shape[0]
    m, rows = targets.linked.shape[0] - 1, targets.rows
    D, elsewhere = all_M.shape[2] - 2 * p - r, np.full(rows.shape, -1)
    P, S = np.empty((B, fixed.shape[1], K, PARAMETERS)), np.empty((4, K))
    T = np.zeros((B, D + numbers.variables.shape[0], K))
    weights, order = np.empty((B, K + 1, K)), np.arange(B * K).reshape(B, K) % K
    data, data_constants = truth.copy(), np.zeros(constants.shape)
    log_p, tilt, log_q = np.empty(B), np.empty(B), np.empty(m)
    work, terms, rest, L, masses = found.spare, found.terms, found.rest, found.L, found.masses
    of_guesses, nothing = np.empty((masses.shape[0], B)), np.zeros((0, 4))
    every, given = np.int64(0), np.int64(2)  # literals would be compiled anew
    for h in range(H):
        for before in range(2):
            some, whole = slice(before * m, B if before else m), not fixed[before].any()
            n, alpha, pi = all_n[h, some], all_alpha[h, some], all_pi[h, some]
            fill_weights(n, alpha, pi, whole, order[some], weights[some])
        weights[:] = np.log(weights)
        for b in range(B):
            here = fixed[int(b >= m)]
            M = all_M[h, b]
            fill_draw(M, M[:D], layout, here, numbers, DrawBuffers(nothing, S, P[b], T[b]))
        for u in range(truth.shape[0]):
            if not known[u]:
                for c in range(free.shape[0]):
                    data[u, free[c]] = targets.imputed[h, u, c]
                count_constants(data[u, :p], 1.0, data_constants[u, :p])
            for b in range(B):
                here, M = fixed[int(b >= m)], all_M[h, b]
                pi = all_pi[h, b, : K if here.any() else 0]
                draw = PredictiveDraw(
                    all_n[h, b], all_alpha[h, b], pi, order[b], M, M[:D], P[b], T[b], weights[b],
                )  # fmt: skip
                case = case_of(targets, truth, constants, data, rows, h, b)
                if guesses is None:
                    rest_terms(draw, layout, here, case, b, u, every, work, terms)
                    log_p[b] = log_sum_of(terms)
                else:
                    top, log_p[b] = points_of(draw, layout, here, case, guesses, b, u, found)
                    for g in range(masses.shape[0]):
                        if masses[g] > SMALL:
                            of_guesses[g, b] = math.log(masses[g]) + top
                        else:
                            of_guesses[g, b] = log_guess(rest, L, guesses.cells, u, g, terms)
                tilt[b] = log_p[b]
                if not known[u] and (guesses is None or b >= m):
                    case = case_of(targets, data, data_constants, data, elsewhere, h, b)
                    rest_terms(draw, layout, here, case, b, u, every, work, terms)
                    tilt[b] = log_sum_of(terms)
                    if b < m:
                        rest_terms(draw, layout, here, case, b, u, given, work, terms)
                        log_q[b] = tilt[b] - log_sum_of(terms)
            log_h = log_tilted(log_p, tilt[m:], m)
            if guesses is None:
                norm = (m - 1) * (log_sum_of(-tilt[m:]) - math.log(B - m))
                out[h, u] = log_h + norm
                if not known[u]:
                    log_data_row = log_tilted(tilt, tilt[m:], m) + norm
                    out[h, u] += log_sum_of(log_q) - math.log(m) - log_data_row
            else:
                log_v = log_weights[h, u] - log_h
                for g in range(masses.shape[0]):
                    if of_guesses[g].min() > -math.inf:
                        log_h = log_tilted(of_guesses[g], tilt[m:], m)
                        out[batch[h], g, u] = log_add(out[batch[h], g, u], log_v + log_h)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnknownRecordsPredictive:
    """h(y*) of a list of targets and their guesses."""

    problem: UnknownRecords
    kept: Kept
    known: Flags  # (U,): targets whose own values are in the table
    column: Ints  # (U,): of the labels of known records and tracked rows
    cases: Sequence[Cases]  # of each of the m data sets, then before them
    batch: Ints  # (H,)

    @classmethod
    def of(
        cls, problem: UnknownRecords, kept: Kept, targets: Targets, n_chains: int
    ) -> "UnknownRecordsPredictive":
        """Join draws and targets."""
        known, S = problem.known, len(problem.tracked)
        row = np.minimum(np.cumsum(~known) - 1, S - 1)  # one may stand for all
        place = np.where(known, np.cumsum(known) - 1, int(known.sum()) + row)
        kind = {"given": ~problem.hows[0].synthesized}
        linked = [*(how.linked for how in problem.hows), None]
        return cls(
            problem=problem,
            kept=kept,
            known=known[targets.record],
            column=place[targets.record],
            cases=[
                Cases.of(problem.prior, problem.columns, targets, linked=z, **kind) for z in linked
            ],
            batch=batch_of_draws(len(kept.alpha), n_chains),
        )

    def log_truth(self, block: slice) -> Array:
        """log h(y_i) of each draw, with the normaliser of imputed rows, shape (H, block)."""
        out = np.empty((len(self.batch), len(self.column[block])))
        return self._filled(block, None, None, out)

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h h(y*) / h(y_i): (B, G, block)."""
        guesses = self.cases[0].points(block)
        shape = int(self.batch.max()) + 1, guesses.cells.shape[1], len(self.column[block])
        out, weights = np.full(shape, -np.inf), np.ascontiguousarray(log_weights)
        return self._filled(block, guesses, weights, out)

    def _filled(
        self, block: slice, guesses: PointArrays | None, log_weights: Array | None, out: Array
    ) -> Array:
        kept, problem, prior = self.kept, self.problem, self.problem.prior
        numbers, rows = self.cases[0].numbers(block, prior.width, guesses)
        targets = self._targets(block, rows)
        work = buffers_of(guesses, targets.values.shape[1], *kept.pi.shape[2:] * 2)
        given = kept, problem.fixed, prior.layout, numbers, targets, guesses, log_weights
        unknown_densities(*given, self.batch, work, out)
        return out

    def _targets(self, block: slice, rows: Ints) -> ImputedCases:
        """What the kernels take of the targets."""
        kept, p, column = self.kept, self.problem.prior.n_counts, self.column[block]
        N, shape = int(self.problem.known.sum()), (*kept.alpha.shape, len(column), 2 * p)
        label, flags = np.ascontiguousarray(kept.label[:, :, column]), np.zeros(shape, np.bool_)
        flags[..., : kept.flags.shape[3]] = kept.flags[:, :, column]
        imputed = np.zeros((len(flags), len(column), kept.rows.shape[2]))
        if kept.rows.shape[1]:
            imputed = np.ascontiguousarray(kept.rows[:, np.maximum(column - N, 0)])
        cases = [case.arrays(block, label, flags, rows) for case in self.cases]
        first = cases[0]
        return ImputedCases(
            label=label,
            flags=flags,
            values=first.values,
            exposure=first.exposure,
            constants=first.constants,
            linked=np.stack([case.linked for case in cases]),
            linked_constants=np.stack([case.linked_constants for case in cases]),
            known=self.known[block],
            imputed=imputed,
            given=first.given,
            given_linked=np.ones_like(first.given),
            power=first.power,
            free=self.problem.free,
            rows=rows,
        )
