"""From a table of counts to what the sampler works on: columns, prior, units, a start.

Counts are the columns that are neither covariates nor the exposure, in the table's order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import Codes, Microdata, Number, checked_table
from bayes_risk.models.mixture.categorical.sampler import scatter_levels, start_at
from bayes_risk.models.mixture.categorical.state import Draws, State

from .kernels import fill_log_masses
from .state import CountPrior, CountUnits

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SHAPE = 0.5
LARGEST = 2.0**53


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountColumns:
    """Which column of the table is what; places in its order.

    Attributes
    ----------
    counts, covariates : ndarray of int, shapes (p,), (q,)
    exposure : int or None
    """

    counts: Ints
    covariates: Ints
    exposure: int | None

    @classmethod
    def of(
        cls, microdata: Microdata, covariates: Sequence[str], exposure: str | None
    ) -> "CountColumns":
        """By the names of those that are no counts."""
        names = microdata.columns
        others = {*covariates, exposure}
        return cls(
            counts=np.array([j for j, c in enumerate(names) if c not in others], np.int64),
            covariates=np.array([names.index(c) for c in covariates], np.int64),
            exposure=None if exposure is None else names.index(exposure),
        )

    def counts_of(self, codes: Codes) -> Array:
        """Counts (n, p)."""
        return np.ascontiguousarray(codes[:, self.counts], dtype=np.float64)

    def exposures_of(self, codes: Codes) -> Array:
        """Exposures (n, p); 1 where none is declared."""
        one = np.ones((len(codes), len(self.counts)))
        return one if self.exposure is None else one * codes[:, [self.exposure]].astype(float)

    def positions_of(self, codes: Codes, prior: CountPrior) -> npt.NDArray[np.int32]:
        """Rows of phi of the covariates' levels, (n, q)."""
        rows = codes[:, self.covariates].astype(np.int64) + prior.starts[:-1]
        return np.ascontiguousarray(rows, dtype=np.int32)

    def units_of(
        self,
        codes: Codes,
        prior: CountPrior,
        *,
        left_out: int | None = None,
        power: Array | None = None,
    ) -> CountUnits:
        """Units of a table alone."""
        return units_of(
            self.counts_of(codes),
            self.exposures_of(codes),
            self.positions_of(codes, prior),
            left_out=left_out,
            power=power,
        )


def units_of(
    counts: Array,
    exposure: Array,
    positions: npt.NDArray[np.int32],
    *,
    left_out: int | None = None,
    kept: npt.NDArray[np.bool_] | None = None,
    power: Array | None = None,
) -> CountUnits:
    """Distinct rows, of each ``power`` (n,); one left out, or not ``kept`` (n,), has unit -1."""
    kept = np.ones(len(counts), dtype=bool) if kept is None else kept.copy()
    if left_out is not None:
        kept[left_out] = False
    p, q = counts.shape[1], positions.shape[1]
    extra = np.empty((len(counts), 0)) if power is None else power[:, None]
    rows = np.hstack([counts, exposure, positions, extra])[kept]
    rows, found, n = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    unit = np.full(len(counts), -1, dtype=np.int64)
    unit[kept] = found.reshape(-1)
    return CountUnits(
        counts=np.ascontiguousarray(rows[:, :p]),
        exposure=np.ascontiguousarray(rows[:, p : 2 * p]),
        positions=np.ascontiguousarray(rows[:, 2 * p : 2 * p + q], dtype=np.int32),
        multiplicity=n.astype(np.int64),
        unit=unit,
        power=None if power is None else rows[:, -1].copy(),
    )


def read_counts(
    df: pd.DataFrame, covariates: Sequence[str], exposure: str | None, **how: object
) -> Microdata:
    """Counts as whole numbers from 0 on, the exposure as a positive number, covariates as levels.

    Raises
    ------
    InputError
        Columns that are absent or no counts; counts that are negative or fractional, exposures that
        are not positive.
    """
    checked_table(df)
    known_columns("covariates", list(covariates), list(df.columns))
    if exposure is not None:
        known_columns("exposure", [exposure], list(df.columns))
    numbers = [c for c in df.columns if c not in covariates]
    data = Microdata.from_frame(df, numbers=numbers, **how)  # type: ignore[arg-type]
    return check_counts(data, covariates, exposure)


def check_counts(data: Microdata, covariates: Sequence[str], exposure: str | None) -> Microdata:
    """The same table, its counts known to be whole and not negative."""
    known_columns("covariates", list(covariates), data.columns)
    known_columns("exposure", [] if exposure is None else [exposure], data.columns)
    if exposure in covariates:
        raise InputError(f"column {exposure!r} is both exposure and covariate; it can be one")
    numbers = [c for c in data.numbers if c != exposure]
    if not numbers:
        raise InputError("the table has no column of counts; name fewer covariates")
    for j, v in enumerate(data.variables):
        if isinstance(v, Number) and v.name in covariates:
            raise InputError(
                f"covariate {v.name!r} is read as a number; read it as a category: leave it out of "
                "numbers="
            )
        if not isinstance(v, Number) and v.name not in covariates:
            raise InputError(
                f"column {v.name!r} is a category, and PoissonMixture models counts; name it in "
                "covariates=, or drop it"
            )
        if v.name == exposure:
            _refuse(v.name, "not positive", data.codes[:, j] <= 0, "exposures are positive")
        elif isinstance(v, Number):
            _check_column(v.name, data.codes[:, j])
    variables = tuple(
        replace(v, whole=True, lowest=0.0) if isinstance(v, Number) and v.name != exposure else v
        for v in data.variables
    )
    return replace(data, variables=variables)


def _check_column(name: str, x: Array) -> None:
    _refuse(name, "negative", x < 0, "counts are 0 or more")
    _refuse(name, "fractional", x != np.round(x), "counts are whole numbers; round them")
    _refuse(name, "above 2**53", x > LARGEST, "count in thousands, or drop them")


def _refuse(name: str, what: str, bad: npt.NDArray[np.bool_], cure: str) -> None:
    if bad.any():
        raise InputError(
            f"column {name!r} is {what} for {int(bad.sum())} of {len(bad)} records; {cure}"
        )


RatePrior = tuple[float, float] | Mapping[str, tuple[float, float]] | None


def rates_of(data: Microdata, columns: CountColumns, given: RatePrior) -> tuple[Array, Array]:
    """Shape and rate of the gamma prior of each column's rates.

    By default shape 0.5 and as mean the next power of ten above sum x / sum e: a constant to be
    published with the model, which says no more of a column than its order of magnitude.
    """
    x, e = columns.counts_of(data.codes), columns.exposures_of(data.codes)
    means = np.maximum(x.sum(axis=0), 1.0) / e.sum(axis=0)
    shape = np.full(len(means), SHAPE)
    rate = SHAPE / 10.0 ** np.ceil(np.log10(means))
    names = [data.columns[j] for j in columns.counts]
    table = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    known_columns("rate_prior", list(table), names)
    for j, name in enumerate(names):
        pair = table.get(name)
        if pair is not None:
            shape[j], rate[j] = pair
    return shape, rate


def scattered(prior: CountPrior, units: CountUnits, rng: np.random.Generator) -> State:
    """A start: every class's rates those of a record, records far apart likelier (k-means++).

    Chances are proportional to the Poisson deviance from the nearest class so far, so that the few
    large records, which no class of small ones can hold, have classes to begin with.
    """
    p, seeds = prior.n_counts, _seeds(prior, units, rng)
    phi = np.zeros((prior.width, prior.n_classes))
    phi[:p] = _seed_rates(prior, units)[seeds].T
    if prior.zeros is not None:
        phi[p : 2 * p] = prior.zeros[0] / sum(prior.zeros)
    scatter_levels(phi, prior, units, units.positions[seeds])
    return start_at(phi)


def _seed_rates(prior: CountPrior, units: CountUnits) -> Array:
    rates: Array = (units.counts + prior.shape) / (units.exposure + prior.rate)
    return rates


def _seeds(prior: CountPrior, units: CountUnits, rng: np.random.Generator) -> Ints:
    """Unit of each class's seed, shape (K,)."""
    rates, m = _seed_rates(prior, units), units.multiplicity
    seeds = np.empty(prior.n_classes, np.int64)
    chances = m / m.sum()
    nearest = np.full(len(m), np.inf)
    for k in range(prior.n_classes):
        seeds[k] = rng.choice(len(m), p=chances)
        nearest = np.minimum(nearest, _deviances(units, rates[seeds[k]]))
        weights = m * (nearest + 1e-3)  # where all are near: anyone
        chances = weights / weights.sum()
    return seeds


def _deviances(units: CountUnits, rate: Array) -> Array:
    """Sum over columns of x log(x / mean) - x + mean, shape (U,)."""
    x, mean = units.counts, units.exposure * rate
    ratio = np.where(x > 0, x, 1.0) / np.where(mean > 0, mean, 1.0)
    total: Array = (np.where(x > 0, x * np.log(ratio), 0.0) - x + mean).sum(axis=1)
    return np.maximum(total, 0.0)


def log_masses(units: CountUnits, draws: Draws, prior: CountPrior) -> Array:
    """log p(values of one individual of each unit | theta_h), shape (H, U)."""
    out = np.empty((len(draws), len(units.multiplicity)))
    data = (units.counts, units.exposure, units.positions)
    fill_log_masses(data, draws.pi, draws.phi, prior.zeros is not None, out)
    return out


def only(units: CountUnits, which: Ints) -> CountUnits:
    """Some of the units, once each; records are forgotten."""
    return CountUnits(
        counts=units.counts[which],
        exposure=units.exposure[which],
        positions=units.positions[which],
        multiplicity=np.ones(len(which), np.int64),
        unit=np.arange(len(which)),
    )
