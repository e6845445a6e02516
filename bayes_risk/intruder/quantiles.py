"""Guesses of numbers at quantiles of the model's own predictive, found record by record.

The predictive is read at points over the file's values and far beyond, then at quantiles of what
was found, and so on: each round looks closer at where its mass is, or further out where an end cuts
it. Between points the log of its density is taken as linear. A few rounds are enough, for guesses
are weighed by the density and the width of their own cell, whatever place they have been given.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from bayes_risk._core.arrays import Array
from bayes_risk._core.logspace import log_sum
from bayes_risk.data.microdata import Number

from .guesses import GuessSet

ROUNDS = 4
MAX_POINTS = 700  # points at which the predictive is read, in a round
MOST, FEWEST, ENOUGH = 25, 5, 9  # of one number
BEYOND = np.array([0.25, 1.0, 5.0, 25.0, 125.0])  # of the range, on either side
LEVEL = 1e-9  # rise of a log density that is none
CENTRAL = 0.0005  # below and above the first and the last guess


class Place(NamedTuple):
    """A number whose guesses are to be laid: which of the guessed variables, and how many.

    ``step``: of which all values are multiples (1 of whole numbers, if no other); 0: none.
    ``shared`` (A,): values that many records have, each a guess besides.
    """

    q: int
    number: Number
    n: int
    step: float = 0.0
    shared: Array = np.empty(0)

    @classmethod
    def of(cls, q: int, number: Number, n: int, codes: Array, shared: Array) -> "Place":
        """With the step of a column's codes (n,)."""
        values = np.abs(codes[np.isfinite(codes) & (codes != number.missing)])
        step = 0
        if (values == np.round(values)).all() and values.max(initial=0.0) < 2.0**53:
            step = int(np.gcd.reduce(values.astype(np.int64)))
        return cls(q, number, n, max(step, 1) if number.whole else step * (step > 1), shared)


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """Points at which the predictive is read.

    ``true`` (U, q); ``others`` the values (K_q, U) of the variables that have no place here;
    ``points`` (K, U) of each place, ascending; ``then`` makes guesses of the values by place.
    """

    places: Sequence[Place]
    true: Array
    others: Mapping[int, Array]
    points: Sequence[Array]
    then: Callable[[Mapping[int, Array]], GuessSet]
    rounds: int = ROUNDS

    @classmethod
    def of(
        cls,
        places: Sequence[Place],
        true: Array,
        codes: Array,
        others: Mapping[int, Array],
        then: Callable[[Mapping[int, Array]], GuessSet],
    ) -> "Scan":
        """From ``codes`` (n, places) of the file: its quantiles, and a hundred times its range."""
        if np.prod([len(v) for v in others.values()]) * FEWEST ** len(places) > MAX_POINTS:
            others = {q: true[None, :, q] for q in others}  # given their true values
        left = MAX_POINTS / np.prod([len(v) for v in others.values()])
        size = int(np.clip(left ** (1 / len(places)), FEWEST, MOST))
        if size < ENOUGH and len(places) > 1:

            def given(some: Sequence[Place]) -> dict[int, Array]:
                free = {p.q for p in some}
                return {q: true[None, :, q] for q in range(true.shape[1]) if q not in free}

            def rest(laid: Mapping[int, Array]) -> GuessSet:
                how = places[1:], true, codes[:, 1:], given(places[1:])
                return cls.of(*how, lambda more: then({**laid, **more})).guesses()

            return cls.of(places[:1], true, codes[:, :1], given(places[:1]), rest)
        points = []
        for place, column in zip(places, codes.T, strict=True):
            values = column[np.isfinite(column) & (column != place.number.missing)]
            span = float(np.ptp(values)) or abs(float(values[0])) or 1.0
            levels, reach = np.linspace(0, 1, _inner(size)), span * _beyond(size)
            inner = np.quantile(values, levels)
            line = np.concatenate([inner[0] - reach, inner, inner[-1] + reach[::-1]])
            points.append(_in_place(np.repeat(line[:, None], len(true), axis=1), place, true))
        return cls(places, true, others, points, then)

    def guesses(self) -> GuessSet:
        """The points, and what to do with the predictive's log density at them."""
        scanned = {p.q: x for p, x in zip(self.places, self.points, strict=True)}
        columns = {**self.others, **scanned}
        ordered = [columns[q] for q in sorted(columns)]
        cells = np.array(list(product(*(range(len(x)) for x in ordered))))  # shape (G, q)
        codes = np.stack([x[cells[:, q]] for q, x in enumerate(ordered)], axis=2)
        found = GuessSet.after_truth(self.true, codes, np.ones(codes.shape[:2], dtype=bool), cells)
        return replace(found, refine=self._refine)

    def _refine(self, log_density: Array) -> GuessSet:
        """From log p(y* | y_A) (G, U), the truth first, to the next points, or to the guesses."""
        order = sorted([*self.others, *(p.q for p in self.places)])
        lengths = [1] * len(order)
        for q, line in self.others.items():
            lengths[q] = len(line)
        for p, line in zip(self.places, self.points, strict=True):
            lengths[p.q] = len(line)
        table = np.nan_to_num(log_density[1:], nan=-np.inf, posinf=-np.inf, neginf=-np.inf)
        table = table.reshape(*lengths, -1)
        for p, line in zip(self.places, self.points, strict=True):  # times the volume of the cell
            shape = [len(line) if q == p.q else 1 for q in order]
            table = table + np.log(np.maximum(_steps(line), 1e-300)).reshape(*shape, -1)
        found = []
        for p, line in zip(self.places, self.points, strict=True):
            mass = table
            for q in reversed(order):
                mass = log_sum(mass, axis=q) if q != p.q else mass
            found.append((line, mass - np.log(np.maximum(_steps(line), 1e-300))))
        if self.rounds == 1:
            each = zip(self.places, found, strict=True)
            return self.then({p.q: _laid(p, *one, self.true) for p, one in each})
        points = [self._next(p, *one) for p, one in zip(self.places, found, strict=True)]
        return replace(self, points=points, rounds=self.rounds - 1).guesses()

    def _next(self, place: Place, line: Array, log_density: Array) -> Array:
        """Steps of a normal score over 4 deviations, and twice as far on either side."""
        size = len(line) - 1
        inner = quantiles(ndtr(np.linspace(-4.0, 4.0, _inner(size))), line, log_density)
        span = np.maximum(inner[-1] - inner[0], 1e-12 * np.abs(inner[0]))
        reach = np.outer(_beyond(size), span)
        line = np.concatenate([inner[0] - reach, inner, inner[-1] + reach[::-1]])
        return _in_place(line, place, self.true)


def _beyond(size: int) -> Array:
    """How far beyond the range, the furthest first, of so many points in all."""
    return BEYOND[: max((size - 3) // 4, 1)][:5][::-1]


def _inner(size: int) -> int:
    """How many points lie within the range."""
    return max(size - 2 * len(_beyond(size)), 3)


def quantiles(levels: Array, points: Array, log_density: Array) -> Array:
    """Of a density whose log is linear between ascending points (K, U); shape (levels, U)."""
    top = np.maximum(log_density.max(axis=0), -1e300)
    with np.errstate(invalid="ignore", divide="ignore"):
        rise = np.diff(log_density, axis=0)
        steep = np.abs(rise)
        high = np.exp(np.maximum(log_density[1:], log_density[:-1]) - top)
        mean = np.where(steep > LEVEL, -np.expm1(-steep) / steep, 1.0) * high
    areas = np.nan_to_num(mean) * np.diff(points, axis=0)
    below = np.concatenate([np.zeros((1, points.shape[1])), np.cumsum(areas, axis=0)])
    below = below / np.maximum(below[-1], 1e-300)
    out = np.empty((len(levels), points.shape[1]))
    for u, (share, line) in enumerate(zip(below.T, points.T, strict=True)):
        k = np.clip(np.searchsorted(share, levels, side="left") - 1, 0, len(line) - 2)
        within = (levels - share[k]) / np.maximum(share[k + 1] - share[k], 1e-300)
        out[:, u] = line[k] + (line[k + 1] - line[k]) * _inverse(np.clip(within, 0, 1), rise[k, u])
    return out


def _inverse(share: Array, rise: Array) -> Array:
    """Where in a cell, from 0 to 1, a share of it lies below; ``rise`` of the log density."""
    steep = np.where(np.isfinite(rise), np.abs(rise), 0.0)
    left = np.where(rise > 0, 1.0 - share, share)  # from the higher end
    with np.errstate(invalid="ignore", divide="ignore"):
        at = np.where(steep > LEVEL, -np.log1p(left * np.expm1(-steep)) / steep, left)
    at = np.clip(np.nan_to_num(at, nan=1.0, posinf=1.0), 0.0, 1.0)
    return np.asarray(np.where(rise > 0, 1.0 - at, at))


def _laid(place: Place, line: Array, log_density: Array, true: Array) -> Array:
    """The guesses of one number, (n, U), the truth among them; then shared and missing values."""
    number, n, y = place.number, place.n, true[:, place.q]
    inner = (np.arange(n - 2) + 0.5) / max(n - 2, 1)
    levels = np.concatenate([[CENTRAL], inner, [1 - CENTRAL]])
    values = _possible(quantiles(levels, line, log_density), place)
    here = y != number.missing if number.missing is not None else np.ones(len(y), dtype=bool)
    if step := place.step:
        low, high = np.minimum(values[0], y), np.maximum(values[-1], y)
        for u in np.flatnonzero(here & (high - low < n * step)):  # every multiple
            every = np.arange(low[u], high[u] + step / 2, step)
            values[:, u] = np.concatenate([every, np.full(n - len(every), every[-1])])
    nearest = np.abs(values - y).argmin(axis=0)
    values[nearest[here], np.flatnonzero(here)] = y[here]
    further = place.shared if number.missing is None else [*place.shared, number.missing]
    return np.concatenate([values, np.repeat(np.reshape(further, (-1, 1)), len(y), axis=1)])


def _in_place(line: Array, place: Place, true: Array) -> Array:
    """Points (K, U) and the truth, ascending, none of which cannot be."""
    y = true[:, place.q]
    own = np.where(y == place.number.missing, line[len(line) // 2], y)
    return np.sort(np.concatenate([_possible(line, place), own[None]]), axis=0)


def _possible(line: Array, place: Place) -> Array:
    """Points no less than the least value; towards zero by factors of four."""
    lowest = place.number.lowest
    line = np.round(line / place.step) * place.step if place.step else line
    if not np.isfinite(lowest):
        return line
    if lowest <= 0 or place.step:
        return np.maximum(line, lowest)
    least = np.where(line > lowest, line, np.inf).min(axis=0)  # of those that can be
    lower = np.cumsum((line <= lowest)[::-1], axis=0)[::-1]
    return np.where(line <= lowest, np.maximum(least * 0.25**lower, lowest), line)


def _steps(line: Array) -> Array:
    """Half the way to both neighbours of ascending points (K, U)."""
    gap = np.diff(line, axis=0)
    none = np.zeros((1, line.shape[1]))
    steps: Array = 0.5 * (np.concatenate([none, gap]) + np.concatenate([gap, none]))
    return steps
