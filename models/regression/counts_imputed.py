"""Several releases of Poisson regressions and an intruder who knows some records: imputation.

For each regression on published predictors chains over the unknown counts and the coefficients of
each data set (see the kernels); regressions are independent of one another. Predictives integrate
the coefficients out again. The derivation stands in `docs/regression.md`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.parallel import Ticks, in_order
from bayes_risk.evidence.contract import Targets

from .counts_imputed_kernels import fill_tables, predict, sweep
from .glm import location
from .part import Part
from .posterior import SampledPart, blocks

THIN, WARM_UP = 2, 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnknownCounts:
    """One regression: what its chains work on, in standardised predictors."""

    part: Part
    # of the table, and with a data set: distinct rows (u, k), how many there are of each (u,),
    # prior centre and precision (k,)
    designs: tuple[tuple[Array, Array, Array, Array], ...]
    totals: Array  # shape (m + 1, k): sum of x y over the known rows; over these and each data set
    rows: Array  # shape (n, k): predictors of all records
    seen: Flags  # shape (n,)
    starts: Array  # shape (m, n_U): counts of the unknown records in each data set

    @classmethod
    def from_part(
        cls, whole: SampledPart, seen: Flags, replaced: Flags, z: Array
    ) -> "UnknownCounts":
        """Regression of all records; synthetic counts z (m, n_replaced)."""
        part, X = whole.part, whole.rows.X
        distinct, which = np.unique(X, axis=0, return_inverse=True)
        table = np.bincount(which.reshape(-1), minlength=len(distinct)).astype(float)
        released = np.bincount(which.reshape(-1)[replaced], minlength=len(distinct))
        centre = np.zeros(X.shape[1])
        if part.scaling.constant >= 0:
            centre[part.scaling.constant] = location(part)
        prior = centre, part.scales() ** -2.0
        known = X[seen].T @ whole.rows.y[seen]
        return cls(
            part=part,
            designs=((distinct, table, *prior), (distinct, table + released, *prior)),
            totals=np.vstack([known, known + z @ X[replaced]]),
            rows=X,
            seen=seen,
            starts=z[:, ~seen[replaced]],
        )

    @property
    def m(self) -> int:
        """Number of data sets."""
        return len(self.starts)

    @property
    def x(self) -> Array:
        """Predictors of the unknown records, (n_U, k)."""
        return np.ascontiguousarray(self.rows[~self.seen])

    @property
    def n_blocks(self) -> int:
        """Of unknown rows, each taken or left as a whole, most of them taken."""
        R, k = self.x.shape
        return int(min(R, k * (self.m - 1) ** 2))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountChain:
    """Draws of one chain: unknown counts ``y`` (H, n_U), share of blocks taken, where it stopped.

    ``beta`` (m, k) and ``centres`` (m + 1, k): coefficients, and modes to start from.
    """

    y: Array
    taken: float
    beta: Array
    centres: Array


def run_chain(
    unknown: UnknownCounts,
    start: CountChain,
    *,
    draws: int,
    tune: int,
    rng: np.random.Generator,
    tick: Callable[[int], None],
) -> CountChain:
    """`tune` sweeps thrown away, then draws, two sweeps apart."""
    y, beta, centres = start.y[-1].copy(), start.beta.copy(), start.centres.copy()
    x, n_blocks, kept, taken = unknown.x, unknown.n_blocks, np.empty((draws, y.size)), 0.0
    for sweeps in range(-tune, draws * THIN) if y.size else ():
        share = sweep(rng, unknown.designs, unknown.totals, x, n_blocks, y, beta, centres)
        taken += share * (sweeps >= 0) / (draws * THIN)
        if sweeps >= 0 and sweeps % THIN == THIN - 1:
            kept[sweeps // THIN] = y
            tick(1)
    return CountChain(y=kept, taken=taken, beta=beta, centres=centres)


def started(unknown: UnknownCounts, c: int) -> CountChain:
    """Unknown counts as data set c shows them, coefficients at their prior's centre."""
    centre = unknown.designs[0][2]
    return CountChain(
        y=unknown.starts[c % unknown.m][None],
        taken=0.0,
        beta=np.tile(centre, (unknown.m, 1)),
        centres=np.tile(centre, (unknown.m + 1, 1)),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedCountsPosterior:
    """Draws of the unknown counts, of each regression by itself."""

    unknown: Sequence[UnknownCounts]
    chains: Sequence[Sequence[CountChain]]

    @classmethod
    def sampled(
        cls,
        unknown: Sequence[UnknownCounts],
        *,
        chains: int,
        draws: int,
        rng: np.random.Generator,
        n_jobs: int,
        tick: Callable[[int], None],
    ) -> "ImputedCountsPosterior":
        """Some chains of each regression, as many as the fit without releases has.

        Cost of a sweep: about (m + k (m - 1)^2) modes, each some passes over n rows of k (k + 1)
        (k + 2) / 6 multiplications and an exponential.
        """
        starts = [[started(one, c) for c in range(chains)] for one in unknown]
        begun = cls(unknown=unknown, chains=starts)
        return replace(begun, chains=begun._run(draws, WARM_UP, rng, n_jobs, tick))

    def _run(
        self,
        draws: int,
        tune: int,
        rng: np.random.Generator,
        n_jobs: int,
        tick: Callable[[int], None],
    ) -> list[list[CountChain]]:
        """Go on with every chain, each with its own generator: `n_jobs` does not matter."""
        found = []
        children = rng.spawn(len(self.unknown))
        for one, starts, child in zip(self.unknown, self.chains, children, strict=True):
            jobs = [
                partial(run_chain, one, start, draws=draws, tune=tune, rng=own)
                for start, own in zip(starts, child.spawn(len(starts)), strict=True)
            ]
            ticks = Ticks(tick, draws)
            found.append(list(in_order(jobs, n_jobs=n_jobs, what="chains", ticks=ticks)))
        return found

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return sum(len(chain.y) for chain in self.chains[0])

    @property
    def n_sweeps(self) -> int:
        """Sweeps of each chain."""
        return THIN * len(self.chains[0][0].y)

    def predictives(
        self, targets: Targets, *, rng: np.random.Generator
    ) -> list["CountsPredictive"]:
        """One for each regression whose outcome is guessed."""
        guessed = set(targets.columns.tolist())
        return [
            CountsPredictive.from_chains(one, chains, targets)
            for one, chains in zip(self.unknown, self.chains, strict=True)
            if one.part.column in guessed
        ]

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "ImputedCountsPosterior":
        """As many draws again, chains going on where they stopped."""
        more = self._run(len(self.chains[0][0].y), 0, rng, n_jobs, lambda done: None)
        found = [
            [replace(b, y=np.vstack([a.y, b.y])) for a, b in zip(old, new, strict=True)]
            for old, new in zip(self.chains, more, strict=True)
        ]
        return replace(self, chains=found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountsPredictive:
    """Draws of p(count | other rows, Z^(1..m)), of the target's count and of guesses."""

    unknown: UnknownCounts
    targets: Targets
    # shape (H, U): count that stands in the table for the target: its own where known, else as
    # imputed
    now: Array
    # of each draw's table, alone and with each data set: t (H, m + 1, k), modes, inverse
    # curvatures, psi, its first, second and (turned) third derivatives
    tables: tuple[Array, ...]
    batch: Ints  # shape (H,)

    @classmethod
    def from_chains(
        cls, unknown: UnknownCounts, chains: Sequence[CountChain], targets: Targets
    ) -> "CountsPredictive":
        """Integrate the coefficients out of every draw."""
        y = np.concatenate([chain.y for chain in chains])
        H, S, k = len(y), unknown.m + 1, unknown.rows.shape[1]
        shapes: list[tuple[int, ...]] = [(k,), (k,), (k, k), (), (k,), (k, k), (k, k, k)]
        tables = tuple(np.empty((H, S, *shape)) for shape in shapes)
        centre = unknown.designs[0][2]
        fill_tables(unknown.designs, unknown.totals, unknown.x, y, centre, tables)
        known, place = unknown.seen[targets.record], np.cumsum(~unknown.seen) - 1
        now = np.repeat(targets.profiles[None, :, unknown.part.column].astype(float), H, axis=0)
        now[:, ~known] = y[:, place[targets.record[~known]]]
        return cls(
            unknown=unknown,
            targets=targets,
            now=now,
            tables=tables,
            batch=batch_of_draws(H, len(chains)),
        )

    def log_truth(self, block: slice) -> Array:
        """log p_h(y_i), shape (H, block)."""
        truth = self.targets.profiles[block][None, :, self.unknown.part.column]
        found, norm = self._masses(block, truth.astype(float), normed=True)
        return np.asarray(found[:, 0] - norm)

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p_h(y*) / p_h(y_i): (B, G, block)."""
        column = self.unknown.part.column
        codes, cell = self.targets.rows(self.unknown.part.uses, block)
        truth = self.targets.profiles[block][None, :, column]
        asked = np.concatenate([codes[:, :, column], truth]).astype(float)  # shape (G' + 1, U)
        starts = np.flatnonzero(np.diff(self.batch, prepend=-1))
        out = np.empty((len(starts), len(asked) - 1, asked.shape[1]))
        for some in blocks(asked.shape[1], self.now.shape[0] * len(asked)):
            at = slice(block.start + some.start, block.start + some.stop)
            found, _ = self._masses(at, asked[:, some], normed=False)
            terms = found[:, :-1] - found[:, -1:] + log_weights[:, None, some]
            out[:, :, some] = np.logaddexp.reduceat(terms, starts, axis=0)
        return out[:, cell]

    def _masses(self, block: slice, asked: Array, *, normed: bool) -> tuple[Array, Array]:
        """log g of asked counts (G, U), (H, G, U), and if ``normed`` log of its sum, (H, U)."""
        possible = (asked >= 0) & (asked == np.floor(asked))
        x = np.ascontiguousarray(self.unknown.rows[self.targets.record[block]])
        (H, _), (G, U), m = self.now.shape, asked.shape, self.unknown.m
        out, norm = np.empty((H, G, U)), np.zeros((H, U))
        powers: Any = np.array([1.0 - m] + [1.0] * m)
        now, wanted = np.ascontiguousarray(self.now[:, block]), np.where(possible, asked, -1.0)
        predict(self.unknown.designs, self.tables, powers, x, now, wanted, normed, out, norm)
        return out, norm
