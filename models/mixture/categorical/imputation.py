"""Several releases and an intruder who knows some of the records: the others are imputed.

Chains over the unknown rows, the parameters of each release and base chains (see the kernels). Of
each draw counts by class are kept, from which `latent_imputed_predictive.py` reads predictives.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.parallel import Ticks, in_order
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.mixture.known_records import BASE_CHAINS

from .imputation_kernels import keep, run, start_base
from .imputation_state import Kept, Problem, joined
from .imputed_predictive import ImputedPredictive, imputed_predictive
from .state import Draws

Array = npt.NDArray[np.float64]
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
