"""Posteriors of mixtures: of the confidential table, and of it and a release.

A posterior knows its data as units, its draws, and how a target is to be taken out of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.batches import batch_of_draws
from bayes_risk.evidence.contract import Predictive, Targets
from bayes_risk.models.mixture.levels.predictive import LatentPredictive
from bayes_risk.release.release import EncodedRelease

from .columns import Columns
from .families import fill_log_masses
from .mechanism import Mechanism
from .mixed_predictive import Cases, MixedPredictive
from .sampler import Sums, collapse, run_chains
from .state import Draws, Prior, Rows, Units, joined
from .zeros import log_factors, log_possible, log_possible_given


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
    """Draws of Theta given some data.

    Kept draws are ``thin`` sweeps apart. ``conditional (V,)``: unsynthesised variables, where the
    release was drawn given them. ``linked (n, V)``: each record's own synthetic values, NaN where
    there are none, if classes were its own. ``shown (V,)``: variables that the data hold of records
    that are not known, what the release leaves as it is; None: every record is known. ``put_back``:
    how often a chain left the mode that a release chose, and was put back.
    """

    prior: Prior
    columns: Columns
    units: Units
    draws: Draws
    thin: int
    conditional: Flags
    linked: Array | None = None
    shown: Flags | None = None
    put_back: int = 0

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

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[Predictive]:
        """Leave-one-out predictive, one part: parameters integrated out given labels.

        Not where columns stay beside structural zeros: the share of what is possible given them is
        no product, and the mean of a ratio no ratio of means.
        """
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
        label: npt.NDArray[np.int16],
        structural: Flags,
        factor: Array | None,
        **how: Any,
    ) -> Any:
        """Join draws and targets, levels that all count in full for the fast loops of `levels`.

        ``how``: linked, given and shown values.
        """
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
        chains = self.draws.chains()
        return replace(self, draws=joined([chains[c] for c in which]))

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "MixturePosterior":
        """Twice the sweeps in the same memory: every other old draw, then new ones twice apart."""
        size, thin = self.n_draws // self.n_chains, 2 * self.thin
        how: Any = {"n_draws": size - size // 2, "tune": 0, "thin": thin, "n_jobs": n_jobs}
        new = self.refitted(self.units, rng=rng, **how).draws.chains()
        halves = [c.take(np.arange(1, size, 2), 1) for c in self.draws.chains()]
        pairs = [joined(pair) for pair in zip(halves, new, strict=True)]
        return replace(self, draws=joined([replace(c, n_chains=1) for c in pairs]), thin=thin)

    def refitted(
        self,
        units: Units,
        *,
        thin: int,
        tune: int,
        n_draws: int | None = None,
        rng: np.random.Generator,
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
        for l in range(release.m):
            how = Mechanism.of(release, l, self.columns, self.prior)
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
            logs: Array = log_masses(one.in_order, draws, self.prior) @ one.multiplicity
            return logs

        out = []
        for (joint, *given), known in tables:
            out.append(total(joint) - (total(given[0]) if given else 0.0))
            if (zeros := self.prior.zeros) is not None:
                left = log_possible_given(zeros, draws, joint.data.positions, known)
                out[-1] -= left @ joint.multiplicity
        return np.stack(out)
