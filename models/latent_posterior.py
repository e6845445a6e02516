"""Posteriors of latent-class models: of the confidential table, and of it and a release.

A posterior knows its data as units, its draws, and how a target is to be taken out of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import batch_of_draws
from bayes_risk.microdata import Microdata
from bayes_risk.release import Release
from bayes_risk.synthesizer import Targets

from .latent_predictive import LatentPredictive, Tables, collapse
from .latent_sampler import doubled, run_chains
from .latent_state import Draws, Given, Prior, Units, units_of

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
    """

    prior: Prior
    units: Units
    draws: Draws
    thin: int
    conditional: npt.NDArray[np.bool_]
    linked: Rows | None

    @property
    def n_draws(self) -> int:
        """Number H of draws kept."""
        return len(self.draws)

    @property
    def n_sweeps(self) -> int:
        """Sweeps of each chain."""
        return self.thin * (len(self.draws) // self.draws.n_chains)

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[LatentPredictive]:
        """Leave-one-out predictive, one part: level probabilities integrated out given labels."""
        tables = collapse(
            self.prior,
            self.units,
            self.draws,
            fixed=self.conditional,
            integrate_weights=not self.conditional.any(),
            rng=rng,
        )
        part = predictive_of(
            tables,
            self.prior,
            targets,
            unit=self.units.unit[targets.record],
            linked=None if self.linked is None else self.linked[targets.record],
            given=self.conditional,
            n_chains=self.draws.n_chains,
        )
        return [part]

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
) -> LatentPredictive:
    """Join tables of draws and targets."""
    begin = prior.starts[:-1]
    return LatentPredictive(
        tables=tables,
        unit=unit,
        truth=targets.profiles + begin,
        linked=np.full(targets.profiles.shape, -1) if linked is None else linked.astype(np.int64),
        columns=targets.columns,
        guesses=targets.guesses.codes + begin[targets.columns],
        given=given,
        batch=batch_of_draws(len(tables.alpha), n_chains),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mechanism:
    """How one data set of a release was drawn, in rows of level positions.

    ``y`` (n, p) confidential rows; ``z`` (n, p) released rows; ``synthesized`` (p,) which
    columns; ``replaced`` (n,) which records; ``own`` whether classes were the records' own.
    """

    y: Rows
    z: npt.NDArray[np.int32]
    synthesized: npt.NDArray[np.bool_]
    replaced: npt.NDArray[np.bool_]
    own: bool

    @classmethod
    def of(cls, release: Release, l: int, microdata: Microdata, prior: Prior) -> "Mechanism":
        """Read data set l of a release against the confidential table."""
        begin = prior.starts[:-1].astype(np.int32)
        synthesized = np.array([c in list(release.synthesized) for c in microdata.columns])
        return cls(
            y=microdata.codes + begin,
            z=release.codes(microdata, l) + begin,
            synthesized=synthesized,
            replaced=release.replaced(len(microdata.codes)),
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

    def units(self, padding: int, left_out: int | None = None) -> Units:
        """What the sampler sees of the table and release, perhaps without one record's values."""
        linked = self.linked
        if linked is not None:
            extra = np.where(linked < 0, padding, linked)[:, self.synthesized]
            return units_of(np.hstack([self.y, extra]), left_out=left_out)
        if self.synthesized.all():
            return units_of(np.vstack([self.y, self.z[self.replaced]]), left_out=left_out)
        return units_of(self.y, self._given(left_out), left_out)

    def _given(self, left_out: int | None) -> Given:
        z, n_z = np.unique(self.z[self.replaced], axis=0, return_counts=True)
        divided = self.replaced.copy()
        if left_out is not None:  # p(Z_i, y_us,i) stays whole: the intruder knows y_us,i
            divided[left_out] = False
        us, n_us = np.unique(self.y[divided][:, ~self.synthesized], axis=0, return_counts=True)
        return Given(
            positions=z.astype(np.int32),
            multiplicity=n_z.astype(np.int64),
            us_positions=us.astype(np.int32),
            us_multiplicity=n_us.astype(np.int64),
            us_columns=np.flatnonzero(~self.synthesized),
        )
