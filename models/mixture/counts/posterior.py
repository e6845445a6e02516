"""Posteriors of Poisson mixtures: of the confidential table, and of it and a release.

A posterior knows its data as units, its draws, and how a target is to be taken out of it. How one
data set of a release was drawn is a `CountMechanism`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.errors import InputError
from bayes_risk.evidence.contract import Predictive, Targets
from bayes_risk.models.mixture.categorical.sampler import doubled, run_chains
from bayes_risk.models.mixture.categorical.state import Draws
from bayes_risk.release.release import EncodedRelease

from .predictive import CountCases, CountTables, PoissonPredictive, collapse
from .state import CountPrior, CountUnits
from .units import CountColumns, units_of
from .weighted import weighted_predictive

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
OWN_CLASSES = (
    'classes="own" is not offered with record weights: a synthetic record would leave its trace in '
    'the classes of the records\' own, whatever their weight; use classes="new"'
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoissonPosterior:
    """Draws of Theta given some data.

    Attributes
    ----------
    prior : CountPrior
    columns : CountColumns
    units : CountUnits
    draws : Draws
    thin : int
        Sweeps between kept draws.
    linked : ndarray, shape (n, p), or None
        Each record's own synthetic counts, -1 where there are none, if classes were its own.
    unseen : pair of ndarrays of bool, shapes (n,), (p,), or None
        Records whose values are not among the data, and in which counts.
    """

    prior: CountPrior
    columns: CountColumns
    units: CountUnits
    draws: Draws
    thin: int
    linked: Array | None
    unseen: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]] | None = None

    @property
    def n_draws(self) -> int:
        """Number H of draws kept."""
        return len(self.draws)

    @property
    def n_sweeps(self) -> int:
        """Sweeps of each chain."""
        return self.thin * (len(self.draws) // self.draws.n_chains)

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[Predictive]:
        """Leave-one-out predictive, one part: rates integrated out given labels."""
        if self.units.power is not None:
            data = (self.prior, self.columns, self.units, self.draws)
            return [weighted_predictive(*data, targets, rng=rng)]
        wanted = self.units.unit[targets.record]
        tables, label, structural = collapse(self.prior, self.units, self.draws, wanted, rng=rng)
        cases = cases_of(self.prior, self.columns, targets, self.linked, self.unseen)
        return [_joined(self.prior, tables, cases, label, structural)]

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "PoissonPosterior":
        """Chains twice as long, every other draw kept."""
        draws = doubled(self.prior, self.units, self.draws, thin=self.thin, rng=rng, n_jobs=n_jobs)
        return replace(self, draws=draws, thin=2 * self.thin)

    def refitted(
        self,
        units: CountUnits,
        *,
        thin: int,
        tune: int,
        n_draws: int | None = None,
        rng: np.random.Generator,
        n_jobs: int = 1,
        linked: Array | None = None,
        tick: Callable[[int], None] = lambda done: None,
    ) -> "PoissonPosterior":
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
        return replace(self, units=units, draws=draws, thin=thin, linked=linked)


def at_theta(
    prior: CountPrior, columns: CountColumns, draws: Draws, targets: Targets, linked: Array | None
) -> PoissonPredictive:
    """The predictive at the drawn Theta itself, nothing integrated out, nobody left out."""
    (H, K), U = draws.pi.shape, len(targets)
    cases = cases_of(prior, columns, targets, linked)
    label = np.full((H, U), K, np.int16)
    structural = np.zeros((H, U, prior.n_counts), np.bool_)
    return _joined(prior, CountTables.at_theta(draws), cases, label, structural)


def cases_of(
    prior: CountPrior,
    columns: CountColumns,
    targets: Targets,
    linked: Array | None,
    unseen: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]] | None = None,
) -> CountCases:
    """Targets with their exposures, covariates and (if linked) their own synthetic counts."""
    return CountCases.of(
        targets,
        np.searchsorted(columns.counts, targets.columns),
        counts=columns.counts_of(targets.profiles),
        exposure=columns.exposures_of(targets.profiles),
        positions=columns.positions_of(targets.profiles, prior),
        conditioned=None if linked is None else linked[targets.record],
        hidden=None if unseen is None else unseen[0][targets.record],
        unseen=None if unseen is None else unseen[1],
    )


def _joined(
    prior: CountPrior,
    tables: CountTables,
    cases: CountCases,
    label: npt.NDArray[np.int16],
    structural: npt.NDArray[np.bool_],
) -> PoissonPredictive:
    draws = tables.draws
    return PoissonPredictive(
        prior=prior,
        tables=tables,
        cases=cases,
        label=label,
        structural=structural,
        batch=batch_of_draws(len(draws), draws.n_chains),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountMechanism:
    """How one data set of a release was drawn from the mixture (MP).

    Attributes
    ----------
    y, z : ndarray, shape (n, p)
        Confidential and released counts.
    exposure : ndarray, shape (n, p)
    positions : ndarray of int, shape (n, q)
        Rows of phi of the covariates' levels.
    synthesized : ndarray of bool, shape (p,)
        Which counts.
    replaced : ndarray of bool, shape (n,)
        Which records.
    own : bool
        Whether classes were the records' own.
    weights : ndarray, shape (n,), or None
        Record weights of the table; the release's rows count in full.
    others : tuple of ndarray, each of shape (n, p)
        Released counts of further data sets from the same draw of Theta.
    """

    y: Array
    z: Array
    exposure: Array
    positions: npt.NDArray[np.int32]
    synthesized: npt.NDArray[np.bool_]
    replaced: npt.NDArray[np.bool_]
    own: bool
    weights: Array | None = None
    others: tuple[Array, ...] = ()

    @classmethod
    def of_draw(cls, release: EncodedRelease, l: int, *how: Any) -> "CountMechanism":
        """Read all data sets of draw l of Theta; further arguments as in `of`."""
        first, *others = (cls.of(release, k, *how) for k in release.by_draw[l])
        return replace(first, others=tuple(other.z for other in others))

    @classmethod
    def of(
        cls,
        release: EncodedRelease,
        l: int,
        prior: CountPrior,
        columns: CountColumns,
        weights: Array | None = None,
    ) -> "CountMechanism":
        """Read data set l of a release against the confidential table.

        Raises
        ------
        InputError
            Released values that are no counts; fresh classes where something was kept; classes of
            the records' own with structural zeros.
        """
        microdata = release.microdata
        names = [microdata.columns[j] for j in columns.counts]
        how = cls(
            y=columns.counts_of(microdata.codes),
            z=columns.counts_of(release.codes[l]),
            exposure=columns.exposures_of(microdata.codes),
            positions=columns.positions_of(microdata.codes, prior),
            synthesized=release.columns[columns.counts],
            replaced=release.replaced,
            own=release.classes == "own",
            weights=weights,
        )
        how.check(release, l, names, prior)
        return how

    def check(self, release: EncodedRelease, l: int, names: list[str], prior: CountPrior) -> None:
        """Whether the model can have drawn this."""
        others = [c for c in release.synthesized if c not in names]
        if others:
            raise InputError(
                f"the release has column {others[0]!r} synthesised, which is no count of the model"
            )
        bad = (self.z < 0) | (self.z != np.floor(self.z))
        if bad.any():
            i, j = np.argwhere(bad)[0]
            raise InputError(
                f"column {names[j]!r} of release {l + 1} holds {self.z[i, j]:g}; counts are whole "
                "and not negative: round them, or audit with another model"
            )
        if self.own and self.weights is not None:
            raise InputError(OWN_CLASSES)
        if self.own and prior.zeros is not None:
            raise InputError(
                'a release with classes="own" cannot be audited with structural zeros; fit '
                "without zeros"
            )
        if not self.own and not (self.synthesized.all() and self.positions.shape[1] == 0):
            raise InputError(
                'a release with classes="new" replaces all counts of a model without covariates; '
                'if its classes were the records\' own, say so: classes="own"'
            )

    @property
    def linked(self) -> Array | None:
        """The records' own synthetic counts, -1 elsewhere, shape (n, p)."""
        if not self.own:
            return None
        shown = self.replaced[:, None] & self.synthesized[None, :]
        linked: Array = np.where(shown, self.z, -1.0)
        return linked

    def units(
        self, left_out: int | None = None, seen: npt.NDArray[np.bool_] | None = None
    ) -> CountUnits:
        """What the sampler sees of table and release, perhaps without one record's values.

        Of a release with classes of its own a record takes its synthetic counts along. Of records
        that are not ``seen`` (n,) there are only these and what the release leaves as it is.
        """
        if self.linked is not None:
            return self._units(self.linked, left_out, seen)
        some, rows = self.replaced, np.ones(len(self.y), dtype=bool) if seen is None else seen
        alpha, k = self.weights, 1 + len(self.others)
        return units_of(
            np.vstack([self.y, *(z[some] for z in (self.z, *self.others))]),
            np.vstack([self.exposure, *[self.exposure[some]] * k]),
            np.vstack([self.positions, *[self.positions[some]] * k]),
            left_out=left_out,
            kept=np.append(rows, np.ones(k * some.sum(), dtype=bool)),
            power=None if alpha is None else np.append(alpha, np.ones(k * some.sum())),
        )

    def units_before(self, seen: npt.NDArray[np.bool_], left_out: int | None = None) -> CountUnits:
        """What the sampler sees before the release's synthetic values, of those seen (n,)."""
        if not self.own:
            return units_of(self.y, self.exposure, self.positions, left_out=left_out, kept=seen)
        return self._units(np.full(self.y.shape, -1.0), left_out, seen)

    def _units(
        self, linked: Array, left_out: int | None, seen: npt.NDArray[np.bool_] | None
    ) -> CountUnits:
        """Units of records with what is linked to them; those that say nothing are left out."""
        lacking = np.zeros(self.y.shape, dtype=bool)
        if seen is not None:
            lacking = ~seen[:, None] & self.synthesized
        values = np.where(lacking, 0.0, 1.0) + (linked >= 0)  # how many there are of a count
        return units_of(
            np.where(lacking, 0.0, self.y) + np.maximum(linked, 0.0),
            values * self.exposure,
            self.positions,
            left_out=left_out,
            kept=(values > 0).any(axis=1) | (self.positions.shape[1] > 0),
        )
