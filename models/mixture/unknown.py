"""Several releases and an intruder who knows some of the records: the others are imputed.

Chains over the unknown rows, the parameters of each release and base chains (see the kernels). Of
each draw sums by class are kept, from which predictives are read. The law of a draw is that of
tables with the target in them: as it is, where the intruder would know the record if it were not
the target, else as imputed. Left out it leaves h(y*), the joint density of the target's values
given all else; an imputed row also leaves a normaliser, 1 / sum_y h(y), estimated without bias by
q(y_t) / h(y_t) at the imputed values y_t.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.parallel import Ticks, in_order
from bayes_risk.evidence.contract import Targets

from .columns import Columns, Rows
from .mechanism import Mechanism
from .mixed_predictive import Cases
from .state import NO_ZEROS, Draws, Prior, Units, mixed_data
from .unknown_kernels import keep, start_base, sweeps
from .unknown_predictive import guess_densities, truth_densities

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
BASE_CHAINS = 8
SWEEPS_A_CALL = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class UnknownRecords:
    """What every chain works on.

    Attributes
    ----------
    prior : Prior
    columns : Columns
    hows : sequence of Mechanism
        Of the m data sets.
    known : ndarray of bool, shape (n,)
        Records whose values are seen; records that a release leaves as they are among them.
    """

    prior: Prior
    columns: Columns
    hows: Sequence[Mechanism]
    known: Mask

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
        """Unknown rows of which labels and values are kept: one stands for all, or all.

        With fresh classes nothing tells one from another, but for kept values and exposures.
        """
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
    def fixed(self) -> Mask:
        """Variables that stay at their drawn parameters, with a data set and before, (2, V)."""
        conditional = self.hows[0].conditional
        return np.stack([conditional, np.zeros_like(conditional)])

    @property
    def layout(self) -> tuple[Any, ...]:
        """Families, structural zeros, and by i log(i), log(i + a) and the sum of log(i + d_j a)."""
        prior, i = self.prior, np.arange(len(self.known) + 2.0)
        divisors = i[:, None] + np.diff(prior.starts) * prior.level
        logs = np.log(np.maximum(i, 1.0)), np.log(i + prior.level), np.log(divisors).sum(axis=1)
        return prior.layout, NO_ZEROS.arrays, logs

    def data(self) -> tuple[Any, ...]:
        """The units as the kernels take them; a chain writes its unknown rows into them."""
        every: list[Any] = [mixed_data(u) for u, _ in self.parts]
        units = [
            (
                *(np.concatenate([x, z]) for x, z in zip(u[0], rows, strict=True)),
                np.append(u[1], np.ones(len(rows[0]), np.int64)),
            )
            for (u, *_), (_, rows) in zip(every, self.parts, strict=True)
        ]
        given = [(*one[1][0], one[1][1]) for one in every]
        given[-1] = tuple(x[:0] for x in given[0])
        return stacked(units), stacked(given), *every[0][2:]

    def rows(self) -> tuple[Any, ...]:
        """What the kernels take of the unknown rows."""
        unknown, made, own = ~self.known, self.hows[0].synthesized, self.hows[0].own
        kept, e = np.flatnonzero(~made), self.exposures
        shown = [
            np.hstack([how.y.values[:, kept], how.z.values[:, self.free[: None if own else 0]]])
            for how in self.hows
        ]
        kinds = np.append(kept, self.free[: None if own else 0])
        absent, prior, columns = np.full((len(made), 2), -1), self.prior, self.columns
        for i, number in enumerate(columns.may_be_missing):
            level = len(columns.levels) + i
            place = int(np.searchsorted(self.free, prior.n_numbers + level))
            absent[number] = place, prior.starts[level] + 1
        return (
            self.free,
            np.ascontiguousarray(e[:, self.free]),
            absent[self.free],
            kinds,
            len(kept),
            np.ascontiguousarray(np.stack(shown)[:, unknown]),
            np.ascontiguousarray(e[:, kinds]),
        )

    def start(self, l: int) -> Array:
        """Imputed values to start from, as data set l shows them, (R, F)."""
        return np.ascontiguousarray(self.hows[l].z.values[~self.known][:, self.free])


def stacked(blocks: Sequence[tuple[npt.NDArray[Any], ...]]) -> tuple[npt.NDArray[Any], ...]:
    """Arrays of all blocks below one another, and where each block begins."""
    ends = np.cumsum([0, *(len(block[-1]) for block in blocks)])
    return *(np.ascontiguousarray(np.concatenate(x)) for x in zip(*blocks, strict=True)), ends


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """Draws that are kept, H in all, chain after chain; B = m + W sets of sums in each.

    ``n (H, B, K)``, ``M (H, B, ., K)``, ``alpha (H, B)``, ``pi (H, B, K)``; labels ``(H, B, N +
    S)`` and structural zeros ``(H, B, N + S, c)`` of known records and tracked rows; the imputed
    values of these ``(H, S, F)``.
    """

    n: Array
    M: Array
    alpha: Array
    pi: Array
    label: npt.NDArray[np.int16]
    flags: Mask
    rows: Array

    def __len__(self) -> int:
        return len(self.alpha)

    @classmethod
    def room(cls, problem: UnknownRecords, H: int) -> "Kept":
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

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """All of it, in order."""
        return tuple(getattr(self, f.name) for f in fields(self))

    def take(self, which: slice) -> "Kept":
        """Some of the draws."""
        return Kept(**{f.name: getattr(self, f.name)[which] for f in fields(self)})


def joined(parts: Sequence[Kept]) -> Kept:
    """Put chains after one another."""
    names = [f.name for f in fields(Kept)]
    return Kept(**{x: np.concatenate([getattr(part, x) for part in parts]) for x in names})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chain:
    """Where a chain is; the kernels write into these arrays.

    Attributes
    ----------
    state : tuple of arrays
        Of the B sets concentration (B,), log(1 - V) (B, K - 1), weights (B, K), phi (B, D, K); of
        base chains sums n (W, K) and M (W, ., K), labels (W, R) and structural zeros (W, R, p) of
        the unknown rows.
    y : ndarray, shape (R, F)
        Imputed values.
    done : ndarray
        Sweeps so far, and the sum over them of the share of rows accepted.
    """

    state: tuple[npt.NDArray[Any], ...]
    y: Array
    done: Array

    @classmethod
    def started(
        cls, problem: UnknownRecords, draws: Draws, l: int, rng: np.random.Generator
    ) -> "Chain":
        """Parameters from draws far apart, unknown rows as data set l shows them."""
        prior, W, y = problem.prior, BASE_CHAINS, problem.start(l)
        far = np.linspace(0, len(draws) - 1, len(problem.hows) + W).astype(int)
        some = draws.take(rng.permutation(far), 1)
        state = (
            *(some.alpha, some.log_left, some.pi, some.phi),
            np.zeros((W, prior.n_classes)),
            np.zeros((W, prior.n_sums, prior.n_classes)),
            np.zeros((W, len(y)), np.int64),
            np.zeros((W, len(y), prior.n_counts), np.bool_),
        )
        start_base(rng, problem.data(), problem.layout, problem.rows(), state, y)
        return cls(state=state, y=y, done=np.zeros(2))

    def copy(self) -> "Chain":
        """The same place, apart."""
        state = tuple(x.copy() for x in self.state)
        return Chain(state=state, y=self.y.copy(), done=self.done.copy())


def run_chain(
    problem: UnknownRecords,
    start: Chain,
    *,
    draws: int,
    tune: int,
    thin: int,
    rng: np.random.Generator,
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[Kept, Chain]:
    """One chain: `tune` sweeps thrown away, then `draws` draws kept, `thin` sweeps apart."""
    chain, kept, prior = start.copy(), Kept.room(problem, draws), problem.prior
    data, layout, rows = problem.data(), problem.layout, problem.rows()
    wanted, tracked, fixed = problem.wanted, problem.tracked, problem.fixed[0]
    concentration = np.array(prior.concentration)

    def advance(n: int) -> None:
        for first in range(0, n, SWEEPS_A_CALL):  # so that Ctrl-C is heard
            more = min(SWEEPS_A_CALL, n - first)
            share = sweeps(
                rng, data, layout, concentration, prior.swaps, rows, chain.state, chain.y, more
            )
            chain.done[:] += more, more * share

    advance(tune)
    for h in range(draws):
        advance(thin)
        keep(
            rng, data, layout, fixed, rows, chain.state, chain.y, wanted, tracked, kept.arrays, h
        )  # fmt: skip
        tick(1)
    return kept, chain


def run_chains(
    problem: UnknownRecords,
    starts: Sequence[Chain],
    *,
    draws: int,
    tune: int,
    thin: int,
    rng: np.random.Generator,
    n_jobs: int,
    tick: Callable[[int], None] = lambda done: None,
) -> tuple[list[Kept], list[Chain]]:
    """Several chains, each with its own child generator, so `n_jobs` does not change the draws."""
    jobs = [
        partial(run_chain, problem, start, draws=draws, tune=tune, thin=thin, rng=child)
        for start, child in zip(starts, rng.spawn(len(starts)), strict=True)
    ]
    found = list(in_order(jobs, n_jobs=n_jobs, what="chains", ticks=Ticks(tick, draws)))
    return [kept for kept, _ in found], [chain for _, chain in found]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Imputed:
    """p(Theta^(1..m), y_U | y_A, Z^(1..m)), by draws.

    Attributes
    ----------
    problem : UnknownRecords
    kept : Kept
        H draws, chain after chain.
    chains : sequence of Chain
        Where they stopped.
    thin : int
        Sweeps between kept draws.
    """

    problem: UnknownRecords
    kept: Kept
    chains: Sequence[Chain]
    thin: int

    @classmethod
    def sampled(
        cls,
        problem: UnknownRecords,
        start: Draws,
        *,
        draws: int,
        tune: int,
        thin: int,
        rng: np.random.Generator,
        n_jobs: int,
        tick: Callable[[int], None] = lambda done: None,
    ) -> "Imputed":
        """As many chains as ``start`` has, each started from draws of one of them."""
        first, then = rng.spawn(2)
        pairs = zip(start.chains(), first.spawn(start.n_chains), strict=True)
        starts = [
            Chain.started(problem, part, c % len(problem.hows), child)
            for c, (part, child) in enumerate(pairs)
        ]
        kept, chains = run_chains(
            problem, starts, draws=draws, tune=tune, thin=thin, rng=then, n_jobs=n_jobs, tick=tick
        )
        return cls(problem=problem, kept=joined(kept), chains=chains, thin=thin)

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

    def predictives(
        self, targets: Targets, *, rng: np.random.Generator
    ) -> list["ImputedPredictive"]:
        """Predictive of targets, which are left out, or of which the imputed row is."""
        return [ImputedPredictive.of(self.problem, self.kept, targets, len(self.chains))]

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "Imputed":
        """Chains twice as long, every other draw kept."""
        size = len(self.kept) // len(self.chains)
        new, chains = run_chains(
            self.problem,
            self.chains,
            draws=size - size // 2,
            tune=0,
            thin=2 * self.thin,
            rng=rng,
            n_jobs=n_jobs,
        )
        old = [self.kept.take(slice(c * size + 1, (c + 1) * size, 2)) for c in range(len(chains))]
        kept = joined([part for pair in zip(old, new, strict=True) for part in pair])
        return replace(self, kept=kept, chains=chains, thin=2 * self.thin)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImputedPredictive:
    """h(y*) of a list of targets and their guesses.

    Attributes
    ----------
    problem : UnknownRecords
    kept : Kept
        The H draws.
    known : ndarray of bool, shape (U,)
        Targets whose own values are in the table.
    column : ndarray of int, shape (U,)
        Where among the labels of known records and tracked rows the target's are.
    cases : sequence of Cases
        Of each of the m data sets, then before them.
    batch : ndarray of int, shape (H,)
        Batch of each draw.
    """

    problem: UnknownRecords
    kept: Kept
    known: Mask
    column: Ints
    cases: Sequence[Cases]
    batch: Ints

    @classmethod
    def of(
        cls, problem: UnknownRecords, kept: Kept, targets: Targets, n_chains: int
    ) -> "ImputedPredictive":
        """Join draws and targets."""
        known, S = problem.known, len(problem.tracked)
        row = np.minimum(np.cumsum(~known) - 1, S - 1)  # one may stand for all
        place = np.where(known, np.cumsum(known) - 1, int(known.sum()) + row)
        kind = {"conditional": ~problem.hows[0].synthesized}
        tied = [*(how.linked for how in problem.hows), None]
        return cls(
            problem=problem,
            kept=kept,
            known=known[targets.record],
            column=place[targets.record],
            cases=[
                Cases.of(problem.prior, problem.columns, targets, linked=z, **kind) for z in tied
            ],
            batch=batch_of_draws(len(kept), n_chains),
        )

    def log_truth(self, block: slice) -> Array:
        """log h(y_i) of each draw, with the normaliser of imputed rows, shape (H, block)."""
        targets = self._targets(block)
        out = np.empty((len(self.kept), len(targets[2])))
        truth_densities(self._tables(), self.problem.prior.layout, targets, out)
        return out

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h h(y*) / h(y_i): (B, G, block)."""
        targets, prior = self._targets(block), self.problem.prior
        shape = (int(self.batch.max()) + 1, len(self.cases[0].guesses), len(targets[2]))
        out = np.full(shape, -np.inf)
        guess_densities(
            self._tables(),
            prior.layout,
            targets,
            self.cases[0].points(block, prior.n_counts),
            np.ascontiguousarray(log_weights),
            self.batch,
            out,
        )
        return out

    def _tables(self) -> tuple[Any, ...]:
        kept, problem = self.kept, self.problem
        return kept.n, kept.M, kept.alpha, kept.pi, problem.fixed, len(problem.hows)

    def _targets(self, block: slice) -> tuple[npt.NDArray[Any], ...]:
        """What the kernels take of the targets."""
        kept, p, column = self.kept, self.problem.prior.n_counts, self.column[block]
        N = int(self.problem.known.sum())
        arrays = [case.arrays(block, p) for case in self.cases]
        values, exposure, _, _, given, _, power, constants, _ = arrays[0]
        flags = np.zeros((*kept.alpha.shape, len(column), 2 * p), np.bool_)
        flags[..., : kept.flags.shape[3]] = kept.flags[:, :, column]
        return (
            np.ascontiguousarray(kept.label[:, :, column]),
            flags,
            values,
            exposure,
            constants,
            np.stack([a[2] for a in arrays]),
            np.stack([a[8] for a in arrays]),
            self.known[block],
            np.ascontiguousarray(kept.rows[:, np.maximum(column - N, 0)])
            if kept.rows.shape[1]
            else np.zeros((len(kept), len(column), kept.rows.shape[2])),
            given,
            np.ones_like(given),
            power,
            self.problem.free,
        )
