"""Posteriors of mixtures: of the confidential table, and of it and a release.

A posterior knows its data as units, its draws, and how a target is to be taken out of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.disjoint_boxes import guesses_in
from bayes_risk.evidence.contract import Predictive, Targets
from bayes_risk.evidence.products import Terms
from bayes_risk.release.release import EncodedRelease

from .columns import Columns, Mechanism
from .families import fill_log_masses
from .kernel_arguments import (
    GuessLayout,
    Labels,
    LevelGuesses,
    LevelTables,
    LevelTargets,
    TermLayout,
)
from .mixed_predictive import Cases, MixedPredictive
from .predictive_kernels import LEAST, fill_terms, predict, predict_one_change, wide_sums
from .sampler import Sums, collapse, occupied, run_chains
from .state import Draws, Prior, Rows, Units, joined_chains
from .zeros import log_factors, log_possible, log_possible_given

FLOOR = 1e-300
MANY = 32  # targets from which tables of draws side by side pay
MOST = 64  # columns whose product does not underflow
WIDEST = 2**16  # levels x classes: tables of draws side by side take 30 MB for these


def phi_rows(values: Array, observed: Any = True) -> Ints:
    """Rows of phi of values that are told; -1 elsewhere."""
    return np.asarray(np.where(observed & ~np.isnan(values), values, -1.0).astype(np.int64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentPredictive:
    """p(y* | theta_h without the target) for a list of targets and their guesses, of levels alone.

    Record i is taken out of its class, and p(y* | z_-i, y_-i) is a sum over classes of products of
    (count + a) / (total + d a), the weights being the stick-breaking predictive
    (`docs/evidence.md`). Columns may be *fixed* at their drawn probabilities. With structural zeros
    it is normalised over what is possible.
    """

    sums: Sums  # of the `occupied` classes, their M the probability of a level in a class
    weights: Array  # as label and batch of `MixedPredictive`
    tau: Array  # (H, p, S): class totals plus prior mass
    cases: Cases
    label: Labels
    batch: Ints
    impossible: Flags | None = None  # (G, U): guesses of what nobody can have
    log_factor: Array | None = None  # (H, U): turns a density into one of what is possible
    plain: bool = False

    @classmethod
    def of(
        cls, sums: Sums, cases: Cases, label: Labels, batch: Ints, log_factor: Array | None = None
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
            impossible = guesses_in(prior.zeros.boxes, phi_rows(cases.values), columns, guesses)
        rows, nobody = cases.values, (label == M.shape[2]).all(axis=0)
        plain = MANY <= len(rows) and rows.shape[1] <= MOST and M.min() > LEAST and M.shape[2] > 1
        plain = plain and M[0].size <= WIDEST and not (np.isnan(rows).any() or cases.given.any())
        plain = plain and bool(np.isnan(cases.linked).all())
        plain = bool(plain and (nobody | (cases.data == rows).all(axis=1)).all())
        found: Any = {"impossible": impossible, "log_factor": log_factor, "plain": plain}
        draws_of: Any = {"sums": sums, "weights": weights, "tau": tau, "label": label}
        return cls(cases=cases, batch=batch, **draws_of, **found)

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
        """What `log_sums` adds up for target u, as a mixture of products, of some ``draws``."""
        columns, begin = self.cases.columns, self.cases.prior.starts
        start = np.concatenate([[0], np.cumsum(n_levels[targets.columns])]).astype(np.int64)
        place = np.full(len(begin) - 1, -1, np.int64)
        place[columns] = start[:-1]
        size = len(draws) * self.n_classes
        factor, draw_of = np.empty((int(start[-1]), size)), np.empty(size, np.int64)
        log_base, log_truth = np.empty(size), np.empty(size)
        T = fill_terms(
            self._tables,
            TermLayout(self.sums.fixed, place, begin),
            self._targets(slice(u, u + 1)),
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

    @property
    def _tables(self) -> LevelTables:
        return LevelTables(self.sums.M, self.tau, self.weights)

    def _targets(self, block: slice) -> LevelTargets:
        """What the kernels take of some targets."""
        cases, label = self.cases, np.ascontiguousarray(self.label[:, block])
        values, linked = cases.values[block], cases.linked[block]
        own = phi_rows(values), phi_rows(linked), phi_rows(cases.data[block])
        given = phi_rows(values, cases.given[block]), phi_rows(linked, cases.given_linked[block])
        return LevelTargets(label, *own, *given)

    def _pass(self, block: slice, weights: Array) -> tuple[Array, Array]:
        cases, fixed, columns = self.cases, self.sums.fixed, self.cases.columns
        tables, targets, codes = self._tables, self._targets(block), cases.targets.guesses.codes
        codes = codes[: None if len(weights) else 0, block].swapaxes(0, 1)  # shape (U, G, q)
        guesses = np.add(codes, cases.prior.starts[columns], order="C", dtype=np.int64)
        log_truth = np.empty(targets.label.shape)
        changed = guesses != targets.truth[:, None, columns]
        changes, first = changed.sum(axis=2), changed.argmax(axis=2)
        several = changes.max(initial=0) > 1
        if several:
            wide = wide_sums(tables, fixed, columns, targets, guesses, weights, self.batch)
            if wide is not None:
                return log_truth, wide.swapaxes(1, 2)
        sums = np.zeros((self.n_batches, *guesses.shape[:2]))
        of_draws = weights, self.batch, log_truth, sums
        layout = GuessLayout(fixed, columns, cases.prior.starts)
        if self.plain and not several:
            place = np.take_along_axis(guesses, first[:, :, None], axis=2)[:, :, 0]
            place = np.where(changes > 0, place, cases.prior.width - 1)
            predict_one_change(tables, layout, targets, place, *of_draws)
        else:
            predict(tables, layout, targets, LevelGuesses(guesses, changes, first), *of_draws)
        return log_truth, sums.swapaxes(1, 2)


def log_masses(rows: Rows, draws: Draws, prior: Prior) -> Array:
    """log p(row | theta_h), shape (H, rows)."""
    out = np.empty((len(draws), len(rows.positions)))
    fill_log_masses(rows.arrays, draws.pi, draws.phi, prior.layout, out)
    return out


class Scored(NamedTuple):
    """Distinct rows of data sets, as their log probability takes them."""

    rows: list[Units]  # with the records' own where classes are theirs; what they were drawn given
    known: Flags  # columns of levels that were not synthesised


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixturePosterior:
    """Draws of Theta given some data."""

    prior: Prior
    columns: Columns
    units: Units
    draws: Draws
    thin: int  # sweeps between kept draws
    conditional: Flags  # (V,): unsynthesised variables, where the release was drawn given them
    # (n, V): each record's own synthetic values, NaN: none, if classes were its own
    linked: Array | None = None
    # (V,): variables that the data hold of unknown records; None: all are known
    shown: Flags | None = None
    put_back: int = 0  # how often a chain left the mode that a release chose

    @property
    def n_draws(self) -> int:
        return len(self.draws)

    @property
    def n_chains(self) -> int:
        return self.draws.n_chains

    @property
    def n_sweeps(self) -> int:
        """Sweeps of each chain."""
        return self.thin * (len(self.draws) // self.draws.n_chains)

    @property
    def tabulates(self) -> bool:
        """Whether predictives are mixtures of products over all cells of a table."""
        return self.units.power is None and not self.units.data.has_numbers

    def predictives(self, targets: Targets, *, rng: Rng) -> list[Predictive]:
        """Leave-one-out predictive, one part: parameters integrated out given labels."""
        if self.prior.zeros is not None and self.conditional.any():
            return [self.at_theta(targets, None, self.conditional)]
        data = self.prior, self.units, self.draws, self.conditional
        unit = self.units.unit[targets.record]
        sums, label, structural = collapse(*data, unit, rng=rng)
        how: Any = {"linked": self.linked, "given": self.conditional, "shown": self.shown}
        zeros = self.prior.zeros is not None
        factor = log_factors(self.units, sums.fallen, unit) if zeros else None
        return [self._part(sums, targets, label, structural, factor, **how)]

    def _part(
        self,
        sums: Sums,
        targets: Targets,
        label: Labels,
        structural: Flags,
        factor: Array | None,
        **how: Any,
    ) -> Any:
        """Join draws and targets; ``how``: linked, given and shown values."""
        batch = batch_of_draws(len(self.draws), self.draws.n_chains)
        cases = Cases.of(self.prior, self.columns, targets, **how)
        if self.tabulates:
            return LatentPredictive.of(sums, cases, label, batch, factor)
        return MixedPredictive.of(sums, cases, label, structural=structural, batch=batch)

    def at_theta(
        self, targets: Targets, linked: Array | None, given: Flags | None = None
    ) -> Predictive:
        """p(y* | Theta_h), or given some variables: nothing integrated out, nobody left out."""
        prior, draws, (H, K), U = self.prior, self.draws, self.draws.pi.shape, len(targets)
        sums, nobody = Sums.at_theta(draws, prior), np.full((H, U), K, np.int16)
        structural = np.zeros((H, U, 2 * prior.n_counts), dtype=bool)
        factor, given = None, np.zeros(len(self.conditional), bool) if given is None else given
        if prior.zeros is not None and given.any():
            rows = self.columns.rows(targets.profiles, prior).positions
            factor = -log_possible_given(prior.zeros, draws, rows, given)
        elif prior.zeros is not None:
            factor = np.repeat(-log_possible(prior.zeros, draws)[:, None], U, axis=1)
        how: Any = {"linked": linked, "given": given}
        part: Predictive = self._part(sums, targets, nobody, structural, factor, **how)
        return part

    def of_chains(self, which: npt.NDArray[np.integer]) -> "MixturePosterior":
        """Some of its chains."""
        chains = self.draws.chains()
        return replace(self, draws=joined_chains([chains[c] for c in which]))

    def doubled(self, *, rng: Rng, n_jobs: int) -> "MixturePosterior":
        """Twice the sweeps in the same memory: every other old draw, then new ones twice apart."""
        size, thin = self.n_draws // self.n_chains, 2 * self.thin
        how: Any = {"n_draws": size - size // 2, "tune": 0, "thin": thin, "n_jobs": n_jobs}
        new = self.refitted(self.units, rng=rng, **how).draws.chains()
        halves = [c.take(np.arange(1, size, 2), 1) for c in self.draws.chains()]
        pairs = [joined_chains(pair) for pair in zip(halves, new, strict=True)]
        return replace(
            self, draws=joined_chains([replace(c, n_chains=1) for c in pairs]), thin=thin
        )

    def refitted(
        self,
        units: Units,
        *,
        thin: int,
        tune: int,
        n_draws: int | None = None,
        rng: Rng,
        n_jobs: int = 1,
        linked: Array | None = None,
        conditional: Flags | None = None,
        tick: Callable[[int], None] = lambda done: None,
    ) -> "MixturePosterior":
        """The same model on other data, started where these chains stopped."""
        draws = run_chains(
            self.prior,
            units,
            [self.draws.last(c) for c in range(self.draws.n_chains)],
            draws=n_draws or len(self.draws) // self.draws.n_chains,
            tune=tune,
            thin=thin,
            rng=rng,
            n_jobs=n_jobs,
            tick=tick,
        )
        return replace(
            self,
            units=units,
            draws=draws,
            thin=thin,
            linked=linked,
            conditional=self.conditional if conditional is None else conditional,
            put_back=0,
        )

    def log_release(self, release: EncodedRelease, which: npt.NDArray[np.integer] | None) -> Array:
        draws = self.draws if which is None else self.draws.take(which, 1)
        return self.log_tables(self.tables(release), draws)

    def tables(self, release: EncodedRelease, *, together: bool = False) -> list[Scored]:
        """What `log_tables` takes of each data set, or of all together: once for all draws."""
        rows, synthesized = list[list[Rows]](), release.columns[self.columns.order]
        for how in Mechanism.of(release, self.columns, self.prior):
            y, z = how.y.take(how.replaced), how.z.take(how.rows)
            if how.own:
                hidden = z.without(~synthesized, how.padding)
                rows.append([y.beside(hidden, synthesized), y])
            else:
                given = [] if synthesized.all() else [y.without(synthesized, how.padding)]
                rows.append([z, *given])
        if together:
            rows = [[first.below(*others) for first, *others in zip(*rows, strict=True)]]
        known = ~synthesized[self.prior.n_numbers :]
        return [Scored([part.units() for part in parts], known) for parts in rows]

    def log_tables(self, tables: Sequence[Scored], draws: Draws) -> Array:
        """log p(Z^(l) | theta_h), shape (m, H), or of all data sets together, (1, H)."""

        def total(one: Units) -> Array:
            return np.asarray(log_masses(one.in_order, draws, self.prior) @ one.multiplicity)

        out = []
        for (joint, *given), known in tables:
            out.append(total(joint) - (total(given[0]) if given else 0.0))
            if (zeros := self.prior.zeros) is not None:
                left = log_possible_given(zeros, draws, joint.data.positions, known)
                out[-1] -= left @ joint.multiplicity
        return np.stack(out)
