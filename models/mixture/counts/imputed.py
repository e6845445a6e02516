"""Several releases of counts and an intruder who knows some records: the others are imputed.

Chains over the unknown rows, the parameters of each release and base chains (see the kernels). Of
each draw sums by class are kept, from which `poisson_imputed_predictive.py` reads predictives.

Compiled: a sampler over counts that an intruder does not know, given several releases.

The law and the steps of a sweep are those of `latent_imputation_kernels.py`: Theta^l given y and
Z^(l); base chains of labels given y; each unknown row proposed from one Theta^l and accepted by
prod_{l' != l} p(y_j | Theta^l') / p(y_j | y_-j)^(m-1). Rates, chances of zeros and sticks of the
base chains are integrated out given labels, and their sums follow every change of a row at once.

``rows``: what the releases show of the R unknown rows, counts ``shown[m, R, p]`` at the exposures
``shown_e[R, p]`` (0: nothing), the rows' own ``exposure[R, p]``, ``positions[R, q]`` and the
columns ``free[f]`` that are imputed. ``y[R, p]`` is the state. Base chains: concentration, sticks,
weights, phi, ``n[W, K]``, ``M[W, D + 2 p, K]``, ``label[W, R]`` and ``flags[W, R, p]``, the
structural zeros. ``prior``: shape, rate, zeros, their prior, level, starts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.parallel import Ticks, in_order
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.mixture.categorical.imputation_kernels import log_power_of_mean
from bayes_risk.models.mixture.categorical.predictive_kernels import class_weights
from bayes_risk.models.mixture.categorical.state import Draws
from bayes_risk.models.mixture.categorical.sweep import (
    TINY,
    cumulate,
    draw_alpha,
    draw_class,
    draw_levels,
    draw_sticks,
    swap_neighbours,
)
from bayes_risk.models.mixture.known_records import BASE_CHAINS

from .collapse import class_parameters, collapse_draws, log_level, log_mass
from .imputed_predictive import ImputedCounts
from .imputed_state import CountProblem, CountsKept, joined
from .kernels import (
    FAR,
    cumulated_masses,
    draw_labels,
    exponentials,
    fill_tables,
    log_count,
    room_for_tables,
)
from .masses import count_constant, stirling_error
from .predictive import layout_of
from .sweep import draw_rates, sweep


@numba.njit(cache=True, nogil=True)
def log_given_class(x, e, positions, pi, phi, zeros, out):
    """out[k] = log of weight and of the counts and levels that are shown, exposure 0: not."""
    for k in range(out.shape[0]):
        out[k] = math.log(max(pi[k], TINY))
        for j in range(x.shape[0]):
            if e[j] > 0.0:
                out[k] += log_count(x[j], e[j] * phi[j, k], phi[x.shape[0] + j, k], zeros)
        for q in range(positions.shape[0]):
            if positions[q] >= 0:
                out[k] += math.log(max(phi[positions[q], k], TINY))


@numba.njit(cache=True, nogil=True)
def log_density(x, e, free, log_k, phi, zeros, first):
    """log sum_k exp(log_k) prod over free columns of p(x_j | k); ``first`` is a likely class."""
    p, top, total = x.shape[0], -math.inf, 0.0
    for i in range(log_k.shape[0]):
        k = first if i == 0 else (i - 1 if i <= first else i)
        term = log_k[k]
        for c in range(free.shape[0]):
            if term < top + FAR:  # every mass is at most 1
                break
            j = free[c]
            term += log_count(x[j], e[j] * phi[j, k], phi[p + j, k], zeros)
        if term > top:
            total = total * math.exp(top - term) + 1.0
            top = term
        elif term > top + FAR:
            total += math.exp(term - top)
    return top + math.log(total)


@numba.njit(cache=True, nogil=True)
def log_row(M, phi, prior, x, e, positions, constant, k, term, least):
    """``term`` plus log mass of a row in class k, rates integrated out; cut short below least."""
    for j in range(x.shape[0]):
        if term < least:
            return -math.inf
        A, B, psi = class_parameters(M, phi, False, prior, j, k, False, 0.0, 0.0, False)
        error = stirling_error(A)
        term += log_mass(x[j], e[j], A, B, psi, prior[2], False, constant[j], error)
    for q in range(positions.shape[0]):
        if positions[q] >= 0:
            term += log_level(M, phi, False, prior, positions[q], q, k, 0)
    return term


@numba.njit(cache=True, nogil=True)
def log_collapsed(n, M, weights, phi, prior, x, e, positions, first, constant, out):
    """out[k] = log(weight_k p(row | class k and its sums)); log of the sum over classes."""
    for j in range(x.shape[0]):
        constant[j] = count_constant(x[j])
    top, empty, of_empty = -math.inf, False, 0.0
    for i in range(out.shape[0]):
        k = first if i == 0 else (i - 1 if i <= first else i)
        term = math.log(max(weights[k], TINY))
        if n[k] == 0 and empty:
            out[k] = term + of_empty
        elif n[k] == 0:
            of_empty = log_row(M, phi, prior, x, e, positions, constant, k, 0.0, -math.inf)
            empty, out[k] = True, term + of_empty
        else:
            out[k] = log_row(M, phi, prior, x, e, positions, constant, k, term, top + FAR)
        top = max(top, out[k])
    total = 0.0
    for k in range(out.shape[0]):
        if out[k] > top + FAR:
            total += math.exp(out[k] - top)
    return top + math.log(total)


@numba.njit(cache=True, nogil=True)
def count(n, M, D, x, e, positions, flags, k, by):
    """Put a row into class k, or take it out."""
    p = x.shape[0]
    n[k] += by
    for j in range(p):
        if flags[j]:
            M[p + j, k] += by
        else:
            M[j, k] += by * x[j]
            M[D + j, k] += by * e[j]
            M[D + p + j, k] += by
    for q in range(positions.shape[0]):
        if positions[q] >= 0:
            M[positions[q], k] += by


@numba.njit(cache=True, nogil=True)
def draw_flags(rng, M, phi, prior, x, e, k, flags):
    """Which zeros are structural, given the class and its sums."""
    for j in range(x.shape[0]):
        flags[j] = False
        if prior[2] and x[j] == 0.0:
            A, B, psi = class_parameters(M, phi, False, prior, j, k, False, 0.0, 0.0, False)
            alive = (1.0 - psi) * math.exp(-A * math.log1p(e[j] / B))
            flags[j] = rng.random() * (psi + alive) < psi


@numba.njit(cache=True, nogil=True)
def propose(rng, x, e, free, log_k, phi, zeros, masses, new):
    """Counts in the free columns from the class mixture; returns the class."""
    p = x.shape[0]
    masses[:] = log_k
    exponentials(log_k.max(), masses)
    cumulate(masses)
    k = draw_class(rng, masses)
    new[:] = x
    for c in range(free.shape[0]):
        j = free[c]
        new[j] = rng.poisson(e[j] * phi[j, k])
        if zeros and rng.random() < phi[p + j, k]:
            new[j] = 0.0
    return k


@numba.njit(cache=True, nogil=True)
def impute_rows(rng, prior, rows, theta, base, y, first, last):
    """Propose and accept rows first .. last - 1 once each; returns how many were accepted."""
    shown, shown_e, exposure, all_positions, free = rows
    pi, phi = theta
    alpha0, phi0, n0, M0, label0, flags0 = base
    (m, K), W, p, D = pi.shape, n0.shape[0], y.shape[1], phi.shape[1]
    masses, weights, log_k = np.empty(K), np.empty(K), np.empty((m, K))
    new, constant, change = np.empty(p), np.empty(p), np.empty(W)
    before, after = np.empty((W, K)), np.empty((W, K))
    accepted = 0
    for j in range(first, last):
        e, positions, chosen = exposure[j], all_positions[j], int(rng.random() * m)
        for l in range(m):
            log_given_class(
                shown[l, j], shown_e[j], positions, pi[l], phi[l], prior[2], log_k[l]
            )  # fmt: skip
        k = propose(rng, y[j], e, free, log_k[chosen], phi[chosen], prior[2], masses, new)
        gain = 0.0
        for l in range(m):
            if l != chosen:
                gain += log_density(new, e, free, log_k[l], phi[l], prior[2], k)
                gain -= log_density(y[j], e, free, log_k[l], phi[l], prior[2], k)
        for b in range(W):
            own = label0[b, j]
            count(n0[b], M0[b], D, y[j], e, positions, flags0[b, j], own, -1)
            class_weights(n0[b], alpha0[b], K, weights)
            args = (n0[b], M0[b], weights, phi0[b], prior)
            now = log_collapsed(*args, y[j], e, positions, own, constant, before[b])
            change[b] = log_collapsed(*args, new, e, positions, own, constant, after[b]) - now
        taken = math.log(max(rng.random(), TINY)) < gain - log_power_of_mean(change, m - 1)
        accepted += taken
        if taken:
            y[j] = new
        for b in range(W):
            masses[:] = after[b] if taken else before[b]
            exponentials(masses.max(), masses)
            cumulate(masses)
            own = draw_class(rng, masses)
            label0[b, j] = own
            draw_flags(rng, M0[b], phi0[b], prior, y[j], e, own, flags0[b, j])
            count(n0[b], M0[b], D, y[j], e, positions, flags0[b, j], own, 1)
    return accepted


@numba.njit(cache=True, nogil=True)
def label_all(rng, known, prior, rows, pi, phi, y, n, M, label, flags):
    """Labels of known units and unknown rows given Theta; sums anew."""
    data, multiplicity = known
    exposure, positions = rows[2], rows[3]
    (D, K), (R, p), zeros = phi.shape, y.shape, prior[2]
    draw_labels(
        rng, data, multiplicity, pi, phi, zeros, n, M, np.empty(multiplicity.shape[0], np.int64)
    )  # fmt: skip
    tables, masses = room_for_tables(p, D, K), np.empty(K)
    fill_tables(pi, phi, p, zeros, tables)
    for i in range(R):
        cumulated_masses((y, exposure, positions), i, phi, zeros, tables, masses)
        k = draw_class(rng, masses)
        label[i] = k
        for j in range(p):
            flags[i, j] = False
            if zeros and y[i, j] == 0.0:
                psi = phi[p + j, k]
                alive = (1.0 - psi) * math.exp(-exposure[i, j] * phi[j, k])
                flags[i, j] = rng.random() * (psi + alive) < psi
        count(n, M, D, y[i], exposure[i], positions[i], flags[i], k, 1)


@numba.njit(cache=True, nogil=True)
def draw_theta(rng, prior, n, M, alpha, log_left, pi, phi):
    """Weights, rates, chances of zeros and levels given sums; returns log of what is left."""
    log_rest = draw_sticks(rng, n, alpha, log_left, pi)
    draw_rates(rng, M, prior, phi)
    draw_levels(rng, M, prior[5], prior[4], phi)
    return log_rest


@numba.njit(cache=True, nogil=True)
def start_base(rng, known, prior, rows, base, y):
    """Labels and sums of the base chains, given their parameters."""
    _, _, pi, phi, n, M, label, flags = base
    for b in range(pi.shape[0]):
        label_all(rng, known, prior, rows, pi[b], phi[b], y, n[b], M[b], label[b], flags[b])


@numba.njit(cache=True, nogil=True)
def part_of(data, l):
    """Units of data set l, the unknown rows last; block m is the table alone."""
    counts, exposure, positions, multiplicity, ptr = data
    s = slice(ptr[l], ptr[l + 1])
    return (counts[s], exposure[s], positions[s]), multiplicity[s]


@numba.njit(cache=True, nogil=True)
def write_rows(counts, rows, y, l):
    """Put the unknown rows, with what the release ties to them, below the others."""
    shown, free, R = rows[0], rows[4], y.shape[0]
    first = counts.shape[0] - R
    for i in range(R):
        for j in range(y.shape[1]):
            counts[first + i, j] = y[i, j]
        if l < shown.shape[0]:
            for c in range(free.shape[0]):
                counts[first + i, free[c]] += shown[l, i, free[c]]


@numba.njit(cache=True, nogil=True)
def run(rng, data, rows, prior, concentration, swaps, theta, base, y, n_sweeps):
    """Sweeps of the whole; returns the share of rows accepted."""
    alpha, log_left, pi, phi = theta
    alpha0, log_left0, pi0, phi0, n0, M0, label0, flags0 = base
    (m, D, K), W, (R, p) = phi.shape, n0.shape[0], y.shape
    n, M = np.zeros(K, np.int64), np.zeros((D + 2 * p, K))
    label = np.zeros(data[3].shape[0], np.int64)
    both, times = part_of(data, m)
    U = times.shape[0] - R
    known = ((both[0][:U], both[1][:U], both[2][:U]), times[:U])
    accepted = 0
    for _ in range(n_sweeps):
        for l in range(m):
            units, multiplicity = part_of(data, l)
            write_rows(units[0], rows, y, l)
            alpha[l] = sweep(
                rng, units, multiplicity, prior, concentration, swaps,
                alpha[l], log_left[l], pi[l], phi[l], n, M, label,
            )  # fmt: skip
        for b in range(W):
            if swaps:
                swap_neighbours(rng, alpha0[b], n0[b], M0[b])
            log_rest = draw_theta(
                rng, prior, n0[b], M0[b], alpha0[b], log_left0[b], pi0[b], phi0[b]
            )  # fmt: skip
            alpha0[b] = draw_alpha(rng, K - 1, log_rest, concentration)
            label_all(
                rng, known, prior, rows, pi0[b], phi0[b], y, n0[b], M0[b], label0[b], flags0[b]
            )  # fmt: skip
            accepted += impute_rows(
                rng, prior, rows, (pi, phi), (alpha0, phi0, n0, M0, label0, flags0), y,
                b * R // W, (b + 1) * R // W,
            )  # fmt: skip
    return accepted / max(n_sweeps * R, 1)


@numba.njit(cache=True, nogil=True)
def keep(rng, data, rows, prior, theta, base, y, of_known, tracked_rows, out, h):
    """Write a state as draw h: sums with Theta integrated out, labels of records and tracked_rows.

    ``of_known[m + 1, N]``: unit of each known record in each data set, and in the table (last).
    """
    alpha, _, pi, phi = theta
    alpha0, log_left0, pi0, phi0, n0, M0 = base[:6]
    all_n, all_M, all_alpha, known_label, known_flags, seat_label, seat_flags, seat_rows = out
    (m, D, K), W, (R, p) = phi.shape, n0.shape[0], y.shape
    at_pi, at_phi = np.empty((1, K)), np.empty((1, D, K))
    for b in range(m + W):
        l = min(b, m)
        units, multiplicity = part_of(data, l)
        write_rows(units[0], rows, y, l)
        U = multiplicity.shape[0]
        label, flags = np.empty((1, U), np.int16), np.zeros((1, U, p), np.bool_)
        if b < m:
            at_pi[0], at_phi[0], all_alpha[h, b] = pi[b], phi[b], alpha[b]
        else:
            i = b - m
            at_phi[0], all_alpha[h, b] = phi0[i], alpha0[i]
            draw_theta(rng, prior, n0[i], M0[i], alpha0[i], log_left0[i], at_pi[0], at_phi[0])
        collapse_draws(
            rng, (units, multiplicity), (at_pi, at_phi), (p, prior[2]), np.arange(U),
            (all_n[h, b : b + 1], all_M[h, b : b + 1], label, flags),
        )  # fmt: skip
        for i in range(of_known.shape[1]):
            known_label[h, b, i] = label[0, of_known[l, i]]
            known_flags[h, b, i] = flags[0, of_known[l, i]]
        for i in range(tracked_rows.shape[0]):
            seat_label[h, b, i] = label[0, U - R + tracked_rows[i]]
            seat_flags[h, b, i] = flags[0, U - R + tracked_rows[i]]
    for i in range(tracked_rows.shape[0]):
        seat_rows[h, i] = y[tracked_rows[i]]


Array = npt.NDArray[np.float64]
SWEEPS_A_CALL = 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chain:
    """Where a chain is; the kernels write into these arrays.

    Attributes
    ----------
    theta : tuple of arrays
        Concentration (m,), log(1 - V) (m, K - 1), weights (m, K), phi (m, D, K).
    base : tuple of arrays
        The same of the W base chains, then sums n (W, K) and M (W, D + 2 p, K), and labels (W, R)
        and structural zeros (W, R, p) of the unknown rows.
    y : ndarray, shape (R, p)
        Unknown rows.
    done : ndarray
        Sweeps so far, and the sum over them of the share of rows accepted.
    """

    theta: tuple[Array, ...]
    base: tuple[npt.NDArray[Any], ...]
    y: Array
    done: Array

    @classmethod
    def started(
        cls, problem: CountProblem, draws: Draws, c: int, rng: np.random.Generator
    ) -> "Chain":
        """Parameters from draws far apart, unknown rows as data set c shows them."""
        m, W, prior = problem.m, BASE_CHAINS, problem.prior
        (K, D, p), y = (prior.n_classes, prior.width, prior.n_counts), problem.start(c % m)
        far = np.linspace(0, len(draws) - 1, m + W).astype(int)
        some = draws.take(rng.permutation(far), 1)
        every = (some.alpha, some.log_left, some.pi, some.phi)
        base = (
            *(x[m:].copy() for x in every),
            np.zeros((W, K), np.int64),
            np.zeros((W, D + 2 * p, K)),
            np.zeros((W, len(y)), np.int64),
            np.zeros((W, len(y), p), np.bool_),
        )
        table = problem.units[-1]
        known = (table.counts, table.exposure, table.positions), table.multiplicity
        start_base(rng, known, layout_of(prior), problem.rows, base, y)
        return cls(theta=tuple(x[:m].copy() for x in every), base=base, y=y, done=np.zeros(2))

    def copy(self) -> "Chain":
        """The same place, apart."""
        return Chain(
            theta=tuple(x.copy() for x in self.theta),
            base=tuple(x.copy() for x in self.base),
            y=self.y.copy(),
            done=self.done.copy(),
        )


def run_chain(
    problem: CountProblem,
    start: Chain,
    *,
    draws: int,
    tune: int,
    thin: int,
    rng: np.random.Generator,
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[CountsKept, Chain]:
    """One chain: `tune` sweeps thrown away, then `draws` draws kept, `thin` sweeps apart."""
    chain, kept = start.copy(), CountsKept.room(problem, draws)
    prior, rows, data = problem.prior, problem.rows, problem.data()
    layout, concentration = layout_of(prior), np.array(prior.concentration)

    def advance(sweeps: int) -> None:
        for first in range(0, sweeps, SWEEPS_A_CALL):  # so that Ctrl-C is heard
            more = min(SWEEPS_A_CALL, sweeps - first)
            share = run(
                rng, data, rows, layout, concentration, prior.swaps,
                chain.theta, chain.base, chain.y, more,
            )  # fmt: skip
            chain.done[:] += more, more * share

    advance(tune)
    for h in range(draws):
        advance(thin)
        keep(
            rng, data, rows, layout, chain.theta, chain.base, chain.y,
            problem.of_known, problem.tracked_rows, kept.arrays, h,
        )  # fmt: skip
        tick(1)
    return kept, chain


def run_chains(
    problem: CountProblem,
    starts: Sequence[Chain],
    *,
    draws: int,
    tune: int,
    thin: int,
    rng: np.random.Generator,
    n_jobs: int,
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[CountsKept, list[Chain]]:
    """Several chains, each with its own child generator, so `n_jobs` does not change the draws."""
    jobs = [
        partial(run_chain, problem, start, draws=draws, tune=tune, thin=thin, rng=child)
        for start, child in zip(starts, rng.spawn(len(starts)), strict=True)
    ]
    found = list(in_order(jobs, n_jobs=n_jobs, what="chains", ticks=Ticks(tick, draws)))
    return joined([kept for kept, _ in found]), [chain for _, chain in found]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoissonImputed:
    """p(Theta^(1..m), y_U | y_A, Z^(1..m)), by draws.

    Attributes
    ----------
    problem : CountProblem
    kept : CountsKept
        H draws, chain after chain.
    chains : sequence of Chain
        Where they stopped.
    thin : int
        Sweeps between kept draws.
    """

    problem: CountProblem
    kept: CountsKept
    chains: Sequence[Chain]
    thin: int

    @classmethod
    def sampled(
        cls,
        problem: CountProblem,
        start: Draws,
        *,
        draws: int,
        tune: int,
        thin: int,
        rng: np.random.Generator,
        n_jobs: int,
        tick: Callable[[int], None],
    ) -> "PoissonImputed":
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

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[ImputedCounts]:
        """Predictive of targets, which are left out, or of which the imputed row is."""
        return [ImputedCounts.of(self.problem, self.kept, targets, len(self.chains))]

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "PoissonImputed":
        """Chains twice as long, every other draw kept."""
        C = len(self.chains)
        size = len(self.kept) // C
        more = size - size // 2
        new, chains = run_chains(
            self.problem,
            self.chains,
            draws=more,
            tune=0,
            thin=2 * self.thin,
            rng=rng,
            n_jobs=n_jobs,
        )
        parts = []
        for c in range(C):
            parts.append(self.kept.take(np.arange(c * size + 1, (c + 1) * size, 2)))
            parts.append(new.take(np.arange(c * more, (c + 1) * more)))
        return replace(self, kept=joined(parts), chains=chains, thin=2 * self.thin)
