"""From a table to what the sampler works on: which column is of which family, rows, priors, starts.

Variables are numbered counts, reals, levels, each in the table's order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import Codes, Microdata, Number

from .categorical.state import Given, Prior, Units, units_of

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
LARGEST = 2.0**53


class Rows(NamedTuple):
    """Values of some rows: levels as rows of phi (n, q), counts and exposures (n, p), reals (n, r).

    What a row does not tell is the padding row, exposure 0, or NaN.
    """

    positions: npt.NDArray[np.int32]
    counts: Array
    exposure: Array
    reals: Array

    def take(self, which: npt.NDArray[Any]) -> "Rows":
        """Some of the rows."""
        return Rows(*(x[which] for x in self))

    def below(self, *others: "Rows") -> "Rows":
        """These and other rows below one another."""
        return Rows(*(np.vstack(parts) for parts in zip(self, *others, strict=True)))

    def beside(self, other: "Rows", levels: Mask) -> "Rows":
        """Two values of every number, and of the ``levels`` (q,)."""
        right = other._replace(positions=other.positions[:, levels])
        return Rows(*(np.hstack(pair) for pair in zip(self, right, strict=True)))

    def without(self, hidden: Mask, padding: int) -> "Rows":
        """The same, the ``hidden`` (n, V) or (V,) values not told."""
        p, r = self.counts.shape[1], self.reals.shape[1]
        hidden = np.broadcast_to(hidden, (len(self.positions), p + r + self.positions.shape[1]))
        return Rows(
            positions=np.where(hidden[:, p + r :], padding, self.positions).astype(np.int32),
            counts=np.where(hidden[:, :p], 0.0, self.counts),
            exposure=np.where(hidden[:, :p], 0.0, self.exposure),
            reals=np.where(hidden[:, p : p + r], np.nan, self.reals),
        )

    @property
    def values(self) -> Array:
        """All values (n, V), levels by their rows of phi."""
        return np.hstack([self.counts, self.reals, self.positions.astype(np.float64)])

    @property
    def exposures(self) -> Array:
        """Exposures (n, V); 1 of what is no count."""
        return np.hstack([self.exposure, np.ones_like(self.reals), np.ones(self.positions.shape)])

    def units(
        self,
        given: Given | None = None,
        left_out: int | None = None,
        power: Array | None = None,
        kept: Mask | None = None,
    ) -> Units:
        """Distinct rows; see `units_of`."""
        numbers = (self.counts, self.exposure, self.reals)
        some = numbers if self.counts.shape[1] + self.reals.shape[1] else None
        return units_of(self.positions, given, left_out, power, numbers=some, kept=kept)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Which column of the table is of which family; places in the table's order.

    Attributes
    ----------
    counts, reals, levels : ndarray of int, shapes (p,), (r,), (q,)
    exposure : int or None
        Column of positive numbers that multiply the rates of all counts.
    location, scale : ndarray, shape (r,)
        A real enters as ``(x - location) / scale``.
    log : ndarray of bool, shape (r,)
        Reals that enter by their logarithm.
    width : ndarray, shape (r,)
        Step that a real is rounded to; 0: none.
    """

    counts: Ints
    reals: Ints
    levels: Ints
    exposure: int | None = None
    location: Array
    scale: Array
    log: Mask
    width: Array

    @classmethod
    def levels_alone(cls, n: int) -> "Columns":
        """Of a table of n columns of levels."""
        return cls.of(levels=np.arange(n))

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
        return np.concatenate([self.counts, self.reals, self.levels])

    def variables(self, columns: npt.NDArray[np.integer]) -> Ints:
        """Variables of some columns of the table."""
        place = np.full(int(self.order.max()) + 2, -1, np.int64)
        place[self.order] = np.arange(len(self.order))
        found: Ints = place[columns]
        return found

    def rows(self, codes: Codes, prior: Prior) -> Rows:
        """Values of rows of codes (n, columns)."""
        n, p = len(codes), len(self.counts)
        exposure = np.ones((n, p))
        if self.exposure is not None:
            exposure *= codes[:, [self.exposure]].astype(float)
        return Rows(
            positions=(codes[:, self.levels].astype(np.int64) + prior.starts[:-1]).astype(np.int32),
            counts=np.ascontiguousarray(codes[:, self.counts], dtype=np.float64),
            exposure=exposure,
            reals=self.inside(np.asarray(codes[:, self.reals], dtype=np.float64)),
        )

    def points(self, codes: npt.NDArray[Any], variables: Ints, prior: Prior) -> Array:
        """Guessed values (..., q') of some variables, as the families take them."""
        out = np.array(codes, dtype=np.float64)
        p, r = len(self.counts), len(self.reals)
        for i, v in enumerate(variables.tolist()):
            if v >= p + r:
                out[..., i] += prior.starts[v - p - r]
            elif v >= p:
                one = self.only(v - p)
                out[..., i] = one.inside(out[..., i][..., None])[..., 0]
        return out

    def only(self, j: int) -> "Columns":
        """Real j alone."""
        some = slice(j, j + 1)
        how = {name: getattr(self, name)[some] for name in ("location", "scale", "log", "width")}
        return Columns.of(reals=self.reals[some], **how)

    def inside(self, x: Array) -> Array:
        """Reals (..., r) on the scale of the family; what has no logarithm is NaN."""
        with np.errstate(invalid="ignore", divide="ignore"):
            logs = np.log(x)
        logs = np.where(np.isfinite(logs), logs, np.nan)
        out: Array = (np.where(self.log, logs, x) - self.location) / self.scale
        return out

    def outside(self, t: Array) -> Array:
        """And back, rounded."""
        x = t * self.scale + self.location
        x = np.where(self.log, np.exp(np.where(self.log, x, 0.0)), x)
        step = np.where(self.width > 0, self.width, 1.0)
        out: Array = np.where(self.width > 0, np.round(x / step) * step, x)
        return out

    def log_volume(self, t: Array, j: int) -> Array:
        """log of what a density of real j on its scale is multiplied with for one of the table's."""
        out = np.full(t.shape, -np.log(self.scale[j]))
        if self.log[j]:
            out = out - (t * self.scale[j] + self.location[j])
        return out


def checked_count(name: str, x: Array) -> None:
    """Whether these are counts.

    Raises
    ------
    InputError
        Negative, fractional or very large ones.
    """
    refuse(name, "negative", x < 0, "counts are 0 or more")
    refuse(name, "fractional", x != np.round(x), "counts are whole numbers; round them")
    refuse(name, "above 2**53", x > LARGEST, "count in thousands, or drop them")


def refuse(name: str, what: str, bad: Mask, cure: str) -> None:
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


def rates_of(data: Microdata, columns: Columns, given: RatePrior) -> tuple[Array, Array]:
    """Shape and rate of the gamma prior of each count's rates.

    By default shape 0.5 and as mean the next power of ten above sum x / sum e: a constant to be
    published with the model, which says no more of a column than its order of magnitude.
    """
    x = data.codes[:, columns.counts].astype(np.float64)
    e = np.ones(x.shape)
    if columns.exposure is not None:
        e *= data.codes[:, [columns.exposure]].astype(float)
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
