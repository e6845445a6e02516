"""Several releases of counts and an intruder who knows some records: the others are imputed.

Chains over the unknown rows, the parameters of each release and base chains (see the kernels). Of
each draw sums by class are kept, from which `poisson_imputed_predictive.py` reads predictives.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.workers import Ticks, in_order
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.mixture.categorical.state import Draws
from bayes_risk.models.mixture.known_records import BASE_CHAINS

from .imputed_kernels import keep, run, start_base
from .imputed_predictive import ImputedCounts
from .imputed_state import CountProblem, CountsKept, joined
from .predictive import layout_of

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
            problem.of_known, problem.seats, kept.arrays, h,
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
