"""What the sampler works on: which column is of which family, rows, priors, and how Z was drawn.

Variables are numbered counts, reals, levels, each in the table's order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import Codes, Microdata, Number
from bayes_risk.data.record_weights import checked_weights
from bayes_risk.release.release import EncodedRelease

from .state import Given, Prior, Rows, Units

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
        return np.asarray((np.where(self.log[j], logs, x) - self.location[j]) / self.scale[j])

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
    observed = x != columns.missing[: x.shape[1]]
    x, e = np.where(observed, x, 0.0), np.where(observed, e, 0.0)
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mechanism:
    """How one data set of a release was drawn."""

    y: Rows  # confidential rows
    z: Rows  # released rows
    synthesized: Flags  # (V,)
    replaced: Flags  # (n,): records
    rows: Flags  # (N,): released rows that hold synthetic values: theirs, or all
    own: bool  # whether classes were the records' own
    padding: int  # row of phi of a level that is not told
    exposure: Array  # (n, p): of all counts, missing or not
    others: tuple[Rows, ...] = ()  # released rows of further data sets from the same draw of Theta

    @classmethod
    def of_draw(
        cls, release: EncodedRelease, l: int, columns: Columns, prior: Prior
    ) -> "Mechanism":
        """Read all data sets of draw l of Theta."""
        first, *others = cls.of(release, columns, prior, release.by_draw[l])
        return replace(first, others=tuple(how.z for how in others))

    @classmethod
    def of(
        cls,
        release: EncodedRelease,
        columns: Columns,
        prior: Prior,
        which: Iterable[int] | None = None,
    ) -> "list[Mechanism]":
        """Read data sets of a release, by default all, against the confidential table."""
        codes = release.microdata.codes
        y, exposure = columns.rows(codes, prior), columns.exposures(codes)
        first = cls(
            y=y,
            z=y,
            synthesized=release.columns[columns.order],
            replaced=release.replaced,
            rows=release.rows,
            own=release.classes == "own",
            padding=prior.width - 1,
            exposure=exposure,
        )
        which = range(release.m) if which is None else which
        return [replace(first, z=columns.rows(release.codes[l], prior)) for l in which]

    @property
    def conditional(self) -> Flags:
        """Variables that the release was drawn given, shape (V,)."""
        return np.zeros(len(self.synthesized), dtype=bool) if self.own else ~self.synthesized

    @property
    def _shown(self) -> Flags:
        """Values that are synthetic and the records' own, shape (n, V)."""
        return self.replaced[:, None] & self.synthesized & self.own

    @property
    def linked(self) -> Array | None:
        """The records' own synthetic values (n, V), NaN elsewhere; None: fresh classes."""
        return np.where(self._shown, self.z.values, np.nan) if self.own else None

    def units(
        self, left_out: int | None = None, weights: Array | None = None, known: Flags | None = None
    ) -> Units:
        """What the sampler sees of the table and release, perhaps without one record's values.

        Of records that are not ``known`` (n,) there is what the release ties to them and leaves as
        it is. With fresh classes ``sum_y f(y) p(Z, y_us) / p(y_us) = p(Z, y_us)``: a row like any.
        """
        n = len(self.replaced)
        known = np.ones(n, dtype=bool) if known is None else known
        if self.own:
            own = self.y.without(~known[:, None] & self.synthesized, self.padding)
            rows = own.beside(self.z.without(~self._shown, self.padding), self.synthesized)
            says = known | ~self.synthesized.all() | self.replaced
            return rows.units(left_out=left_out, kept=says)
        both, given = known & self.replaced, None
        if self.synthesized.all():
            rows = self.y.below(*(z.take(self.rows) for z in (self.z, *self.others)))
        else:
            rows = self.y.below(self.z.take(~known))
            given = self.given(both, left_out) if both.any() else None
        more = np.ones(len(rows.positions) - n, dtype=bool)
        power = None if weights is None else np.append(weights, more)
        found = rows.units(given, left_out, power, np.append(known, more))
        return replace(found, unit=found.unit[:n])

    def around(self, known: Flags, *, release: bool = True) -> tuple[Units, Rows]:
        """Units of the known records with the release, or alone; and whole rows of the others."""
        rows, given = self.y, None
        if self.own:
            linked = self.z.without(~(self._shown & release), self.padding)
            rows = rows.beside(linked, self.synthesized)
        known_rows = rows.take(known)
        if release and not self.own and self.synthesized.all():
            known_rows = known_rows.below(*(z.take(self.rows) for z in (self.z, *self.others)))
        elif release and not self.own and self.replaced.any():
            given = self.given(self.replaced, None)
        found = known_rows.units(given)
        return replace(found, unit=found.unit[: int(known.sum())]), rows.take(~known)

    def given(self, whose: Flags, left_out: int | None = None) -> Given:
        """Synthetic rows of records whose own values are held too, and their denominators."""
        p_r = len(self.synthesized) - self.y.positions.shape[1]
        divided = np.where(whose, 1 + len(self.others), 0)
        if left_out is not None:  # p(Z_i, y_us,i) stays whole once: the intruder knows y_us,i
            divided[left_out] = max(divided[left_out] - 1, 0)
        kept = ~self.synthesized
        own_rows = self.y.without(self.synthesized, self.padding).take(
            np.repeat(np.arange(len(divided)), divided)
        )
        released = [z.take(whose) for z in (self.z, *self.others)]
        parts = own_rows._replace(positions=own_rows.positions[:, kept[p_r:]])
        return Given(
            rows=released[0].below(*released[1:]).units(),
            parts=parts.units(),
            columns=np.flatnonzero(kept[p_r:]),
        )
