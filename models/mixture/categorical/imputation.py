"""Several releases and an intruder who knows some of the records: the others are imputed.

Chains over the unknown rows, the parameters of each release and base chains (see the kernels). Of
each draw counts by class are kept, from which `latent_imputed_predictive.py` reads predictives.

Predictives of targets and guesses from draws in which unknown rows are imputed.

The law of a draw is that of tables with the target in them: as it is, where the intruder would know
the record if it were not the target, else as imputed. Left out it leaves h(y*), the joint density
of the target's values given all else; an imputed row also leaves a normaliser, 1 / sum_y h(y),
estimated without bias by q(y_t) / h(y_t) at the imputed values y_t.

Compiled: predictives of targets and guesses from draws in which unknown rows are imputed.

A draw holds B = m + W sets of counts: of y with each data set, then of y alone by the W base
chains. Joint density of a row, target taken out of all counts:

    h(y) = prod_l p(y | y_-t, Z^(l), labels^l) / p(y | y_-t)^(m-1).

The labels of the base chains are draws given y, row r of the target in it: p(y | y_-t) is the mean
of p_b(y) / p_b(r) over that of 1 / p_b(r). ``tilt[W]`` is log p_b(r).
What is indexed by ``side`` has two entries, with the release and before it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.parallel import Ticks, in_order
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.mixture.known_records import BASE_CHAINS

from .imputation_kernels import keep, log_of_sum, log_power_of_mean, power_of_mean, run, start_base
from .imputation_state import Kept, Problem, joined
from .predictive_kernels import (
    changes_of,
    class_weights,
    guess_masses,
    log_condition,
    truth_terms,
    without_columns,
)
from .state import Draws
from .sweep import TINY

FEW = 1e-60  # its powers, and its square, are still numbers


@numba.njit(cache=True, nogil=True)
def fill_weights(n, alpha, pi, m, integrated, out):
    """Class weights out[B, K + 1, K] by the class of what is taken out; K: nothing."""
    for b in range(n.shape[0]):
        for k in range(n.shape[1] + 1):
            if b < m and not integrated:
                out[b, k] = pi[b]
            elif k == n.shape[1] or n[b, k] > 0:
                class_weights(n[b], alpha[b], k, out[b, k])


@numba.njit(cache=True, nogil=True)
def log_joint(log_p, tilt, m):
    """log h from the log densities of the B sets."""
    norm = log_of_sum(-tilt) - math.log(tilt.shape[0])
    return log_p[:m].sum() - log_power_of_mean(log_p[m:] - tilt, m - 1) + (m - 1) * norm


@numba.njit(cache=True, nogil=True)
def fill_tracked_rows(tables, fixed, m, tracked_rows, label, linked, observed, out, tilt):
    """out[h, s] = log q(y_s) - log h(y_s) of the row imputed in seat s; q is what proposes it.

    Its mean given all else is 1 / sum over y of h(y), the normaliser of the row's conditional.
    ``tilt[h, s]`` is filled too.
    """
    Q, tau, n, alpha, pi, integrated = tables
    (H, B, K), S = n.shape, tracked_rows.shape[1]
    base, terms = np.empty((B, K + 1, K)), np.empty(K)
    log_p, log_q = np.empty(B), np.empty(m)
    for h in range(H):
        fill_weights(n[h], alpha[h], pi[h], m, integrated, base)
        rows = tracked_rows[h]
        for s in range(S):
            for b in range(B):
                side, k0 = int(b >= m), label[h, b, s]
                z = linked[min(b, m)]
                own, scale = truth_terms(
                    Q[h, b], tau[h, b], fixed[side], rows, z, rows, s, k0, base[b], terms
                )
                log_p[b] = math.log(max(own + terms.sum(), TINY)) + scale
                if b < m:
                    log_q[b] = log_p[b] - log_condition(
                        Q[h, b], tau[h, b], fixed[0], rows, z, observed, z, base[b], s, k0, terms
                    )
            tilt[h, s] = log_p[m:]
            out[h, s] = log_of_sum(log_q) - math.log(m) - log_joint(log_p, log_p[m:], m)


@numba.njit(cache=True, nogil=True)
def predict_joint(tables, layout, targets, of_row, weights, batch, log_truth, sums):
    """Fill log h(y_i) + log_c, shape (H, U), if there are no guesses (G = 0).

    Else add the weighted h(y*) / h(y_i) to the sums of their batch, shape (B, U, G). ``log_c
    (H, U)`` and ``tilt (H, U, W)`` of imputed rows are those of `fill_tracked_rows`.
    """
    all_Q, all_tau, n, alpha, pi, integrated = tables
    fixed, columns, m = layout
    label, truth, linked, imputed, known, guesses = targets
    log_c, tilt = of_row
    H, B, K = n.shape
    U, G, q = truth.shape[0], guesses.shape[1], columns.shape[0]
    base, inverse = np.empty((B, K + 1, K)), np.empty(all_Q.shape[1:])
    terms, product, W = np.empty((B, K)), np.empty(K), np.empty((q, 2, K))
    own, total, log_p, share = np.empty(B), np.empty(B), np.empty(B), np.empty(B)
    own_level, held, found = np.ones(q), truth.copy(), np.empty((U, G))
    joint, before, squares = np.empty(G), np.empty(G), np.empty(G)
    changes = changes_of(guesses, truth, columns)
    for h in range(H):
        fill_weights(n[h], alpha[h], pi[h], m, integrated, base)
        if G > 0:
            inverse[:] = 1.0 / np.maximum(all_Q[h], TINY)
        for u in range(U):
            if not known[u]:
                held[u] = imputed[h, u]
            for b in range(B):
                side = int(b >= m)
                own[b], scale = truth_terms(
                    all_Q[h, b], all_tau[h, b], fixed[side], truth, linked[min(b, m)], held,
                    u, label[h, b, u], base[b], terms[b],
                )  # fmt: skip
                total[b] = max(own[b] + terms[b].sum(), TINY)
                log_p[b] = math.log(total[b]) + scale
            row = log_p[m:] if known[u] else tilt[h, u]
            if G == 0:
                log_truth[h, u] = log_joint(log_p, row, m) + log_c[h, u]
                continue
            share[m:] = log_p[m:] - row
            share[m:] = np.exp(share[m:] - share[m:].max())
            joint[:], before[:], squares[:] = 1.0, 0.0, 0.0
            at_truth = power_of_mean(share[m:].sum(), (share[m:] ** 2).sum(), B - m, m - 1)
            for b in range(B):
                side, z = int(b >= m), linked[min(b, m)]
                Q, tau = all_Q[h, b], all_tau[h, b]
                found[u] = 0.0
                without_columns(
                    Q, inverse[b], tau, fixed[side], columns, truth, z, u, terms[b], W
                )  # fmt: skip
                guess_masses(
                    Q, tau, fixed[side], columns, truth, z, held, guesses, u, label[h, b, u],
                    own[b], total[b], changes, terms[b], W, own_level, product, 1.0 / total[b],
                    found,
                )  # fmt: skip
                for g in range(G):
                    if b < m:
                        joint[g] *= found[u, g]
                    else:
                        p = share[b] * found[u, g]
                        before[g] += p
                        squares[g] += p * p
            w = weights[h, u] * at_truth
            for g in range(G):
                below = power_of_mean(max(before[g], FEW), squares[g], B - m, m - 1)
                sums[batch[h], u, g] += w * joint[g] / below


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
        Where among the known records, or among the tracked_rows, the target is.
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
    """Normalisers and densities of the rows imputed for the targets ``unknown``."""
    H, S = len(kept), kept.seat_rows.shape[1]
    log_c, tilt = np.zeros((H, S)), np.zeros((H, S, kept.n.shape[1] - problem.m))
    tracked_rows, first = np.unique(column[unknown], return_index=True)
    some = unknown[first]  # one target of each seat
    if len(some):
        c, t = np.empty((H, len(tracked_rows))), np.empty((H, len(tracked_rows), tilt.shape[2]))
        fill_tracked_rows(
            tables_of(problem, kept),
            problem.fixed,
            problem.m,
            np.ascontiguousarray(kept.seat_rows[:, tracked_rows], dtype=np.int64),
            np.ascontiguousarray(kept.seat_label[:, :, tracked_rows]),
            np.ascontiguousarray(linked[:, some]),
            np.where(problem.hows[0].synthesized, -1, truth[some]),
            c,
            t,
        )
        log_c[:, tracked_rows], tilt[:, tracked_rows] = c, t
    return log_c, tilt


SWEEPS_A_CALL = 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chain:
    """Where a chain is; the kernels write into these arrays.

    Attributes
    ----------
    theta : tuple of arrays
        Concentration (m,), log(1 - V) (m, K - 1), weights (m, K), level probabilities (m, D, K).
    base : tuple of arrays
        The same of the W base chains but for levels, then counts (W, K) and (W, D, K), and labels
        of known units and of unknown rows.
    rows : ndarray of int, shape (m, R, w)
        Unknown rows.
    done : ndarray
        Sweeps so far, and the sum over them of the share of rows accepted.
    """

    theta: tuple[Array, ...]
    base: tuple[npt.NDArray[Any], ...]
    rows: npt.NDArray[np.int32]
    done: Array

    @classmethod
    def started(cls, problem: Problem, draws: Draws, c: int, rng: np.random.Generator) -> "Chain":
        """Parameters from draws far apart, unknown rows as data set c shows them."""
        m, W, K, D = problem.m, BASE_CHAINS, problem.prior.n_classes, problem.prior.width
        far = np.linspace(0, len(draws) - 1, m + W).astype(int)
        some = draws.take(rng.permutation(far), 1)
        rows, known = problem.rows(c % m), problem.units[-1]
        base = (
            some.alpha[m:].copy(),
            some.log_left[m:].copy(),
            some.pi[m:].copy(),
            np.zeros((W, K), np.int64),
            np.zeros((W, D, K)),
            np.zeros((W, len(known.positions)), np.int64),
            np.zeros((W, rows.shape[1]), np.int64),
        )
        start_base(
            rng,
            (known.positions, known.multiplicity),
            problem.prior.level,
            some.phi[m:],
            base,
            rows,
        )
        return cls(
            theta=(some.alpha[:m], some.log_left[:m], some.pi[:m], some.phi[:m]),
            base=base,
            rows=rows,
            done=np.zeros(2),
        )

    def copy(self) -> "Chain":
        """The same place, apart."""
        return Chain(
            theta=tuple(x.copy() for x in self.theta),
            base=tuple(x.copy() for x in self.base),
            rows=self.rows.copy(),
            done=self.done.copy(),
        )


def run_chain(
    problem: Problem,
    start: Chain,
    *,
    draws: int,
    tune: int,
    thin: int,
    rng: np.random.Generator,
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[Kept, Chain]:
    """One chain: `tune` sweeps thrown away, then `draws` draws kept, `thin` sweeps apart."""
    chain, kept = start.copy(), Kept.room(problem, draws)
    prior, layout, data = problem.prior, problem.layout(), problem.data_copy()
    known = (problem.units[-1].positions, problem.units[-1].multiplicity)
    concentration = np.array(prior.concentration)

    def advance(sweeps: int) -> None:
        for first in range(0, sweeps, SWEEPS_A_CALL):  # so that Ctrl-C is heard
            more = min(SWEEPS_A_CALL, sweeps - first)
            share = run(
                rng, data, known, layout, concentration, prior.swaps,
                chain.theta, chain.base, chain.rows, more,
            )  # fmt: skip
            chain.done[:] += more, more * share

    advance(tune)
    for h in range(draws):
        advance(thin)
        keep(
            rng, data, layout, problem.fixed[0], chain.theta, chain.base, chain.rows,
            problem.of_known, problem.tracked_rows, kept.arrays, h,
        )  # fmt: skip
        tick(1)
    return kept, chain


def run_chains(
    problem: Problem,
    starts: Sequence[Chain],
    *,
    draws: int,
    tune: int,
    thin: int,
    rng: np.random.Generator,
    n_jobs: int,
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[Kept, list[Chain]]:
    """Several chains, each with its own child generator, so `n_jobs` does not change the draws."""
    jobs = [
        partial(run_chain, problem, start, draws=draws, tune=tune, thin=thin, rng=child)
        for start, child in zip(starts, rng.spawn(len(starts)), strict=True)
    ]
    found = list(in_order(jobs, n_jobs=n_jobs, what="chains", ticks=Ticks(tick, draws)))
    return joined([kept for kept, _ in found]), [chain for _, chain in found]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentImputed:
    """p(Theta^(1..m), y_U | y_A, Z^(1..m)), by draws.

    Attributes
    ----------
    problem : Problem
    kept : Kept
        H draws, chain after chain.
    chains : sequence of Chain
        Where they stopped.
    thin : int
        Sweeps between kept draws.
    """

    problem: Problem
    kept: Kept
    chains: Sequence[Chain]
    thin: int

    @classmethod
    def sampled(
        cls,
        problem: Problem,
        start: Draws,
        *,
        draws: int,
        tune: int,
        thin: int,
        rng: np.random.Generator,
        n_jobs: int,
        tick: Callable[[int], None],
    ) -> "LatentImputed":
        """As many chains as ``start`` has, each started from draws of one of them."""
        first, then = rng.spawn(2)
        starts = [
            Chain.started(problem, part, c, child)
            for c, (part, child) in enumerate(
                zip(start.chains(), first.spawn(start.n_chains), strict=True)
            )
        ]
        kept, chains = run_chains(
            problem, starts, draws=draws, tune=tune, thin=thin, rng=then, n_jobs=n_jobs, tick=tick
        )
        return cls(problem=problem, kept=kept, chains=chains, thin=thin)

    @property
    def n_draws(self) -> int:
        """Number H of draws kept."""
        return len(self.kept)

    @property
    def n_sweeps(self) -> int:
        """Sweeps of each chain."""
        return self.thin * (len(self.kept) // len(self.chains))

    @property
    def acceptance(self) -> float:
        """Share of proposed rows that were accepted."""
        return float(np.mean([chain.done[1] / chain.done[0] for chain in self.chains]))

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[ImputedPredictive]:
        """Predictive of targets, which are left out, or of which the imputed row is."""
        return [imputed_predictive(self.problem, self.kept, targets, len(self.chains))]

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "LatentImputed":
        """Chains twice as long, every other draw kept."""
        C = len(self.chains)
        size = len(self.kept) // C
        new, chains = run_chains(
            self.problem,
            self.chains,
            draws=size - size // 2,
            tune=0,
            thin=2 * self.thin,
            rng=rng,
            n_jobs=n_jobs,
        )
        parts, more = [], size - size // 2
        for c in range(C):
            parts.append(self.kept.take(np.arange(c * size + 1, (c + 1) * size, 2)))
            parts.append(new.take(np.arange(c * more, (c + 1) * more)))
        return replace(self, kept=joined(parts), chains=chains, thin=2 * self.thin)
