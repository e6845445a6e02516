"""Posteriors of latent-class models: of the confidential table, and of it and a release.

A posterior knows its data as units, its draws, and how a target is to be taken out of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import batch_of_draws
from bayes_risk.evidence.contract import Predictive, Targets
from bayes_risk.release.release import EncodedRelease

from .predictive import LatentPredictive, Tables, collapse, log_masses
from .sampler import doubled, run_chains
from .state import Draws, Given, Prior, Units, joined, units_of
from .weighted import weighted_predictive
from .zeros import TruncatedPredictive, log_possible_release, possible_predictive

Rows = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentPosterior:
    """Draws of Theta given some data.

    Attributes
    ----------
    prior : Prior
    units : Units
    draws : Draws
    thin : int
        Sweeps between kept draws.
    conditional : ndarray of bool, shape (p,)
        Unsynthesised variables, where the release was drawn given them; else all False.
    linked : ndarray of int, shape (n, p), or None
        Rows of each record's own synthetic levels, -1 where there are none, if classes were its
        own.
    shown : ndarray of bool, shape (p,), or None
        Variables that the data hold of records that are not known: what the release leaves as it
        is. None: every record is known.
    """

    prior: Prior
    units: Units
    draws: Draws
    thin: int
    conditional: npt.NDArray[np.bool_]
    linked: Rows | None
    shown: npt.NDArray[np.bool_] | None = None

    @property
    def n_draws(self) -> int:
        """Number H of draws kept."""
        return len(self.draws)

    @property
    def n_chains(self) -> int:
        """Number C of chains."""
        return self.draws.n_chains

    @property
    def n_sweeps(self) -> int:
        """Sweeps of each chain."""
        return self.thin * (len(self.draws) // self.draws.n_chains)

    @property
    def tabulates(self) -> bool:
        """Whether predictives are mixtures of products over all cells of a table."""
        return self.units.power is None

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[Predictive]:
        """Leave-one-out predictive, one part: level probabilities integrated out given labels."""
        if self.units.power is not None:
            return self._weighted(targets, rng)
        return [self.collapsed(targets, rng)]

    def collapsed(
        self, targets: Targets, rng: np.random.Generator
    ) -> LatentPredictive | TruncatedPredictive:
        """The same of records that all count in full."""
        unit, asked = self.units.unit[targets.record], None
        if self.prior.zeros is None:  # labels of the targets' units are all that is looked up
            asked = np.unique(unit[unit >= 0])
            unit = np.where(unit >= 0, np.searchsorted(asked, unit), -1)
        tables = collapse(
            self.prior,
            self.units,
            self.draws,
            fixed=self.conditional,
            integrate_weights=not self.conditional.any(),
            asked=asked,
            rng=rng,
        )
        part = predictive_of(
            tables,
            self.prior,
            targets,
            unit=unit,
            linked=None if self.linked is None else self.linked[targets.record],
            given=self.conditional,
            n_chains=self.draws.n_chains,
            shown=self.shown,
        )
        if self.prior.zeros is None:
            return part
        return possible_predictive(part, self.prior.zeros, self.units, self.conditional)

    def _weighted(self, targets: Targets, rng: np.random.Generator) -> list[Predictive]:
        """The same of a pseudo-posterior."""
        how = self.conditional
        found = weighted_predictive(
            self.prior, self.units, self.draws, targets, conditional=how, rng=rng
        )
        return [found]

    def of_chains(self, which: npt.NDArray[np.int64]) -> "LatentPosterior":
        """Some of the chains."""
        return replace(self, draws=joined([self.draws.chains()[c] for c in which]))

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "LatentPosterior":
        """Chains twice as long, every other draw kept."""
        draws = doubled(self.prior, self.units, self.draws, thin=self.thin, rng=rng, n_jobs=n_jobs)
        return replace(self, draws=draws, thin=2 * self.thin)

    def refitted(
        self,
        units: Units,
        *,
        thin: int,
        tune: int,
        n_draws: int | None = None,
        rng: np.random.Generator,
        n_jobs: int = 1,
        linked: Rows | None = None,
        conditional: npt.NDArray[np.bool_] | None = None,
        tick: Callable[[int], None] = lambda done: None,
    ) -> "LatentPosterior":
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
        )


def predictive_of(
    tables: Tables,
    prior: Prior,
    targets: Targets,
    *,
    unit: npt.NDArray[np.int64],
    linked: Rows | None,
    given: npt.NDArray[np.bool_],
    n_chains: int,
    shown: npt.NDArray[np.bool_] | None = None,
) -> LatentPredictive:
    """Join tables of draws and targets.

    Of targets that are ``fitted`` the data hold all values. Of the others they hold those that are
    ``shown`` (p,), and their synthetic values where linked: the predictive is conditional on them.
    """
    begin = prior.starts[:-1]
    truth = targets.profiles + begin
    z = np.full(truth.shape, -1) if linked is None else linked.astype(np.int64)
    known = targets.fitted[:, None]
    in_part = ~known & (given if shown is None else shown)
    held, conditioned = np.where(known | in_part, truth, -1), np.where(known, -1, z)
    in_data = (held >= 0).any(axis=1) | (conditioned >= 0).any(axis=1)
    return LatentPredictive(
        tables=tables,
        unit=np.where(in_data, unit, -1),
        truth=truth,
        linked=z,
        columns=targets.columns,
        guesses=targets.guesses.codes + begin[targets.columns].astype(np.int32),
        held=held,
        observed=np.where(given | in_part, truth, -1),
        conditioned=conditioned,
        batch=batch_of_draws(len(tables.alpha), n_chains),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mechanism:
    """How one data set of a release was drawn, in rows of level positions.

    ``y`` (n, p) confidential rows; ``z`` (n, p) released rows; ``synthesized`` (p,) which
    columns; ``replaced`` (n,) which records; ``own`` whether classes were the records' own;
    ``others`` (k, n, p) the rows of further data sets from the same draw of Theta.
    """

    y: Rows
    z: npt.NDArray[np.int32]
    synthesized: npt.NDArray[np.bool_]
    replaced: npt.NDArray[np.bool_]
    own: bool
    others: tuple[Rows, ...] = ()

    @classmethod
    def of_draw(cls, release: EncodedRelease, l: int, prior: Prior) -> "Mechanism":
        """Read all data sets of draw l of Theta."""
        first, *others = (cls.of(release, k, prior) for k in release.by_draw[l])
        return replace(first, others=tuple(how.z for how in others))

    def released(self, whose: npt.NDArray[np.bool_]) -> Rows:
        """Synthetic rows of some records, those of all data sets below one another."""
        return np.vstack([z[whose] for z in (self.z, *self.others)])

    @classmethod
    def of(cls, release: EncodedRelease, l: int, prior: Prior) -> "Mechanism":
        """Read data set l of a release against the confidential table."""
        begin = prior.starts[:-1].astype(np.int32)
        return cls(
            y=release.microdata.codes + begin,
            z=release.codes[l] + begin,
            synthesized=release.columns,
            replaced=release.replaced,
            own=release.classes == "own",
        )

    @property
    def conditional(self) -> npt.NDArray[np.bool_]:
        """Variables that the release was drawn given."""
        none = np.zeros(len(self.synthesized), dtype=bool)
        return none if self.own else ~self.synthesized

    @property
    def linked(self) -> Rows | None:
        """Rows of the records' own synthetic levels, -1 elsewhere, shape (n, p)."""
        if not self.own:
            return None
        shown = self.replaced[:, None] & self.synthesized[None, :]
        return np.where(shown, self.z, -1).astype(np.int32)

    def units(
        self,
        padding: int,
        left_out: int | None = None,
        weights: npt.NDArray[np.float64] | None = None,
    ) -> Units:
        """What the sampler sees of the table and release, perhaps without one record's values.

        ``weights`` (n,) of the records; those of released rows are 1.
        """
        linked = self.linked
        if linked is not None:
            extra = np.where(linked < 0, padding, linked)[:, self.synthesized]
            return units_of(np.hstack([self.y, extra]), left_out=left_out)
        if self.synthesized.all():
            z = self.released(self.replaced)
            power = None if weights is None else np.append(weights, np.ones(len(z)))
            return units_of(np.vstack([self.y, z]), left_out=left_out, power=power)
        return units_of(self.y, self.given(self.replaced, left_out), left_out, weights)

    def given(self, whose: npt.NDArray[np.bool_], left_out: int | None) -> Given:
        """Synthetic rows of records whose own values are held too, and their denominators."""
        z, n_z = np.unique(self.released(whose), axis=0, return_counts=True)
        divided = np.where(whose, 1 + len(self.others), 0)
        if left_out is not None:  # p(Z_i, y_us,i) stays whole once: the intruder knows y_us,i
            divided[left_out] = max(divided[left_out] - 1, 0)
        held = np.repeat(self.y[:, ~self.synthesized], divided, axis=0)
        us, n_us = np.unique(held, axis=0, return_counts=True)
        return Given(
            positions=z.astype(np.int32),
            multiplicity=n_z.astype(np.int64),
            us_positions=us.astype(np.int32),
            us_multiplicity=n_us.astype(np.int64),
            us_columns=np.flatnonzero(~self.synthesized),
        )


def log_release(
    posterior: LatentPosterior,
    release: EncodedRelease,
    which: npt.NDArray[np.integer] | None,
) -> npt.NDArray[np.float64]:
    """log p(Z^(l) | Theta_h), shape (m, H), of some draws, or of all."""
    draws, prior, out = posterior.draws, posterior.prior, []
    draws = draws if which is None else draws.take(which, 1)
    for l in range(release.m):
        how = Mechanism.of(release, l, prior)
        rows = how.replaced
        whole = how.y[rows] if how.own else how.y[rows][:, ~how.synthesized]
        joint = np.hstack([whole, how.z[rows][:, how.synthesized]])
        left = log_possible_release(prior, draws, how.y[rows], ~how.synthesized)
        condition = _log_total(whole, draws) if whole.shape[1] else 0.0
        out.append(_log_total(joint, draws) - condition - left)
    return np.stack(out)


def _log_total(rows: Rows, draws: Draws) -> npt.NDArray[np.float64]:
    """sum over records of log p(row | theta_h), distinct rows computed once; shape (H,)."""
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    return log_masses(distinct.astype(np.int32), draws) @ counts
