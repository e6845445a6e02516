"""From a table to what the sampler works on: which column is of which family, rows, priors, starts.

Variables are numbered counts, reals, levels, each in the table's order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import Codes, Microdata, Number
from bayes_risk.data.record_weights import checked_weights

from .state import Prior, Rows

LARGEST = 2.0**53


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Which column of the table is of which family; places in the table's order."""

    counts: Ints
    reals: Ints
    levels: Ints
    exposure: int | None = None  # column of positive numbers that multiply the rates of all counts
    location: Array  # a real enters as (x - location) / scale
    scale: Array
    log: Flags  # or its logarithm does
    width: Array  # step that it is rounded to, 0: none
    # (p + r,): number that stands for a missing value, whose flag is a variable; NaN: none
    missing: Array

    @classmethod
    def of(
        cls,
        *,
        counts: Sequence[int] | Ints = (),
        reals: Sequence[int] | Ints = (),
        levels: Sequence[int] | Ints = (),
        exposure: int | None = None,
        **how: Array,
    ) -> "Columns":
        """By places; reals as they are unless told otherwise."""
        r = len(reals)
        usual = {
            "location": np.zeros(r),
            "scale": np.ones(r),
            "log": np.zeros(r, dtype=bool),
            "width": np.zeros(r),
            "missing": np.full(len(counts) + r, np.nan),
        }
        return cls(
            counts=np.asarray(counts, np.int64),
            reals=np.asarray(reals, np.int64),
            levels=np.asarray(levels, np.int64),
            exposure=exposure,
            **{**usual, **how},
        )

    @property
    def order(self) -> Ints:
        """Column of the table of each variable, shape (V,)."""
        numbers = np.concatenate([self.counts, self.reals])
        return np.concatenate([numbers, self.levels, numbers[self.may_be_missing]])

    @property
    def may_be_missing(self) -> Ints:
        """Numbers of which some values may be missing."""
        return np.flatnonzero(~np.isnan(self.missing))

    def variables(self, columns: npt.NDArray[np.integer]) -> Ints:
        """Variables of some columns of the table, column after column."""
        found = [np.flatnonzero(self.order == column) for column in columns]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def starts(self, data: Microdata) -> Ints:
        """Rows of phi where the levels of each variable of levels begin, and the row after."""
        d = [*data.n_levels[self.levels], *(2 for _ in self.may_be_missing)]
        first = 2 * (len(self.counts) + len(self.reals))
        return (first + np.concatenate([[0], np.cumsum(d)])).astype(np.int64)

    def exposures(self, codes: Codes) -> Array:
        """Exposures (n, p) of all counts, missing or not."""
        one = np.ones((len(codes), len(self.counts)))
        return one if self.exposure is None else one * codes[:, [self.exposure]].astype(float)

    def rows(self, codes: Codes, prior: Prior) -> Rows:
        """Values of rows of codes (n, columns)."""
        p, exposure = len(self.counts), self.exposures(codes)
        numbers = np.asarray(codes[:, np.concatenate([self.counts, self.reals])], dtype=np.float64)
        gone = numbers == self.missing
        levels = np.hstack([codes[:, self.levels], gone[:, self.may_be_missing]])
        return Rows(
            positions=(levels.astype(np.int64) + prior.starts[:-1]).astype(np.int32),
            counts=np.where(gone, 0.0, numbers)[:, :p],
            exposure=np.where(gone[:, :p], 0.0, exposure),
            reals=np.where(gone[:, p:], np.nan, self.inside(numbers[:, p:])),
        )

    def points(
        self, codes: npt.NDArray[Any], columns: npt.NDArray[np.integer], prior: Prior
    ) -> Array:
        """Guessed values (..., q) of columns, as the families take them, variable by variable."""
        p, r, out = len(self.counts), len(self.reals), []
        for i, column in enumerate(columns.tolist()):
            x = np.asarray(codes[..., i], dtype=np.float64)
            for v in self.variables(np.array([column])).tolist():
                level = v - p - r
                if level >= len(self.levels):
                    number = self.may_be_missing[level - len(self.levels)]
                    out.append(prior.starts[level] + (x == self.missing[number]))
                elif level >= 0:
                    out.append(prior.starts[level] + x)
                else:
                    inside = x if v < p else self.inside(x, v - p)
                    out.append(np.where(x == self.missing[v], np.nan, inside))
        return np.stack(out, axis=-1)

    def inside(self, x: Array, j: Any = slice(None)) -> Array:
        """Reals (..., r), or of real j alone, on the family's scale; no logarithm: -infinity."""
        logs = np.full(x.shape, -np.inf)
        np.log(x, out=logs, where=x > 0)
        out: Array = (np.where(self.log[j], logs, x) - self.location[j]) / self.scale[j]
        return out

    def outside(self, t: Array, j: int) -> Array:
        """Real j back, rounded; to one step at least where there is a logarithm."""
        step, x = float(self.width[j]), t * self.scale[j] + self.location[j]
        out: Array = np.exp(x) if self.log[j] else x
        if step > 0:
            steps = np.round(out / step) + 0.0  # no -0.0
            out = step * (np.maximum(steps, 1.0) if self.log[j] else steps)
        return out

    def log_volume(self, t: Array, j: int) -> Array:
        """log of what turns a density of real j on its scale into one of the table's."""
        out = np.full(t.shape, -np.log(self.scale[j]))
        if self.log[j]:
            out -= np.where(np.isfinite(t), t * self.scale[j] + self.location[j], 0.0)
        return out


def checked_count(name: str, x: Array) -> None:
    """Refuse what are no counts: negative, fractional or very large numbers."""
    refuse(name, "negative", x < 0, "counts are 0 or more")
    refuse(name, "fractional", x != np.round(x), "counts are whole numbers; round them")
    refuse(name, "above 2**53", x > LARGEST, "count in thousands, or drop them")


def refuse(name: str, what: str, bad: Flags, cure: str) -> None:
    """An error that says of how many records a column is what it may not be."""
    if bad.any():
        raise InputError(
            f"column {name!r} is {what} for {int(bad.sum())} of {len(bad)} records; {cure}"
        )


def whole_from_zero(data: Microdata, counts: Sequence[str]) -> tuple[Any, ...]:
    """Variables of the table, these known to be whole and not negative."""
    return tuple(
        replace(v, whole=True, lowest=0.0) if isinstance(v, Number) and v.name in counts else v
        for v in data.variables
    )


RatePrior = tuple[float, float] | Mapping[str, tuple[float, float]] | None
SHAPE = 0.5


def prior_of(model: Any, data: Microdata, columns: Columns) -> Prior:
    """Priors of a declaration of counts: rates of mean 10^k, the next above the column's mean."""
    x, e = data.codes[:, columns.counts].astype(np.float64), columns.exposures(data.codes)
    told = x != columns.missing[: x.shape[1]]
    x, e = np.where(told, x, 0.0), np.where(told, e, 0.0)
    means = np.maximum(x.sum(axis=0), 1.0) / e.sum(axis=0)
    shape = np.full(len(means), SHAPE)
    rate = SHAPE / 10.0 ** np.ceil(np.log10(means))
    names, given = [data.columns[j] for j in columns.counts], model.rate_prior
    table = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    known_columns("rate_prior", list(table), names)
    for j, name in enumerate(names):
        pair = table.get(name)
        if pair is not None:
            shape[j], rate[j] = pair
    a, b = model.concentration_prior
    return Prior(
        n_classes=model.n_classes,
        concentration=(float(a), float(b)),
        level=float(model.level_prior),
        starts=columns.starts(data),
        shape=shape,
        rate=rate,
        inflation=None if model.zeros is None else (float(model.zeros[0]), float(model.zeros[1])),
    )


def powers_of(weights: Any, data: Microdata, zeros: str) -> Array | None:
    """Record weights (n,), None where all are 1; not beside the argument ``zeros``, if any."""
    alpha = checked_weights(weights, data.index)
    if alpha is not None and zeros:
        raise InputError(
            f"weights are not offered together with {zeros}: records that fell into structural "
            "zeros have no weight; leave one of them out"
        )
    return alpha
