"""The sets of y*: which values the intruder considers for a target."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import change, log_sum
from bayes_risk._core.validate import whole_number
from bayes_risk.data.microdata import Codes, Microdata, Number

Ints = npt.NDArray[np.integer]
MAX_CELLS = 200_000_000
POINT_MASS, LEAST = 0.05, 10  # share and number of records with one number, which is no density's


class PointMasses(NamedTuple):
    """Numbers that many records share, such as 0, among the guesses.

    ``values`` (A,); ``log_width`` (A, U) of the cells around them: a probability over the width is
    a density at the guess. ``held`` (K,): the other guesses where these are the values that are
    held, over which a density sums to one; else None.
    """

    values: Array
    log_width: Array
    held: Array | None = None

    @classmethod
    def of(cls, values: Array, line: Array) -> "PointMasses":
        """By the guesses (K, U) of each target, NaN where none is."""
        log_width = np.zeros((len(values), line.shape[1]))
        for u, points in enumerate(line.T):
            points = np.unique(points[~np.isnan(points)])
            if len(points) > 1:
                k = np.minimum(np.searchsorted(points, values), len(points) - 1)
                log_width[:, u] = np.log(cells(points)[k])
        return cls(values, log_width)

    @classmethod
    def of_held(cls, values: Array, held: Array, U: int) -> "PointMasses":
        """Where U targets have all held values as guesses."""
        return cls(values, np.broadcast_to(0.0, (len(values), U)), np.setdiff1d(held, values))

    def only(self, which: Ints) -> "PointMasses":
        """Those of some of the targets."""
        return self._replace(log_width=self.log_width[:, which])


@dataclass(frozen=True, slots=True, eq=False)
class GuessSet:
    """Guesses of every target.

    ``codes`` (G, U, q); ``truth`` (U,) which guess is true; ``counted`` (G, U) is False where a
    guess is left out: it repeats another one, or is impossible. ``cells`` (G, q): two guesses with
    the same cell of a variable have, for every target, the same value of it, so that densities
    which depend on a few of the variables are computed once a cell. ``finer``: where these guesses
    are a coarse part of too many, turns their log posterior (G, U) into the finer guesses around
    the likely ones, and what those leave out (`Rest`). ``refine``: where these guesses only look
    for the model's predictive, turns its log density (G, U) into the next ones. ``lines``: of
    variables whose guesses are unevenly spaced, their values (K, U), NaN where one does not count.
    ``complete``: variables whose guesses leave nothing out: quantiles of the model's predictive, or
    all values that are held. ``masses``: of numbers that have some, the values that many records
    share.
    """

    codes: Codes
    truth: npt.NDArray[np.int64]
    counted: Flags
    cells: Ints
    finer: "Callable[[Array], tuple[GuessSet, Rest]] | None" = None
    refine: "Callable[[Array], GuessSet] | None" = None
    lines: Mapping[int, Array] = field(default_factory=dict)
    complete: frozenset[int] = frozenset()
    masses: Mapping[int, PointMasses] = field(default_factory=dict)

    @classmethod
    def of(
        cls, codes: Codes, counted: Flags | None = None, cells: Ints | None = None
    ) -> "GuessSet":
        """Guesses, the first of them true; by default all count, and no two agree in anything."""
        G, U, q = codes.shape
        if counted is None:
            counted = np.ones((G, U), dtype=bool)
        if cells is None:
            cells = np.repeat(np.arange(G)[:, None], q, axis=1)
        return cls(codes, np.zeros(U, dtype=np.int64), counted, cells)

    @classmethod
    def after_truth(
        cls, true: Codes, codes: Codes, counted: Flags, cells: Ints | None = None
    ) -> "GuessSet":
        """True values (U, q), and then the guesses."""
        if cells is not None:
            cells = np.concatenate([np.full((1, cells.shape[1]), -1), cells])
        first = np.ones((1, len(true)), dtype=bool)
        return cls.of(np.concatenate([true[None], codes]), np.concatenate([first, counted]), cells)

    def point_masses(self, q: int) -> PointMasses:
        """Of variable q; none where it has none, or is not guessed."""
        none = PointMasses(np.empty(0), np.empty((0, self.codes.shape[1])))
        return self.masses.get(q, none)

    def only(self, which: npt.NDArray[np.integer]) -> "GuessSet":
        """The guesses of some of the targets."""
        lines = {q: line[:, which] for q, line in self.lines.items()}
        masses = {q: held.only(which) for q, held in self.masses.items()}
        kept = self.codes[:, which], self.truth[which], self.counted[:, which]
        return GuessSet(*kept, self.cells, lines=lines, complete=self.complete, masses=masses)

    def log_width(self, q: int) -> Array:
        """Log width (G, U) of the cell around variable q of each guess; 0 where steps are even."""
        out = np.zeros(self.codes.shape[:2])
        for u, values in enumerate(self.lines[q].T if q in self.lines else ()):
            line = np.unique(values[~np.isnan(values)])
            if len(line) > 1:
                codes = self.codes[:, u, q].astype(float)
                at = np.minimum(np.searchsorted(line, codes), len(line) - 1)
                log_width = np.log(cells(line))[at]
                out[:, u] = np.where(line[at] == codes, log_width, 0.0)  # 0: a missing value
        return out

    @property
    def log_widths(self) -> Array:
        """Log volume of the cell around each guess, over all variables, shape (G, U)."""
        none = np.broadcast_to(0.0, self.codes.shape[:2])
        return none if not self.lines else sum((self.log_width(q) for q in self.lines), none)


class Rest(NamedTuple):
    """A random sample of the guesses that a search leaves out."""

    guesses: GuessSet  # the truth, and R guesses
    log_weight: Array  # (R, U): log of 1 / R, over the probability of the guess in the sample

    def log_at_most(self, log_prior: Array, log_evidence: Array) -> Array:
        """Log posterior of all that is left out, relative to the truth's, by that of the sample.

        ``log_prior``, ``log_evidence`` (R + 1, U). Estimate plus two standard errors. Infinite
        where the evidence rules a guess of the sample out: of a model that does (trees) few guesses
        may hold most of the posterior, and stand anywhere between impossible ones.
        """
        log_p, counted = log_prior + log_evidence, self.guesses.counted[1:]
        possible = log_p[0] > -np.inf
        w = np.where(counted, log_p[1:] + self.log_weight, -np.inf)
        out = counted & (log_prior[1:] > -np.inf) & (log_evidence[1:] == -np.inf)
        found = log_sum(w)
        spread = len(w) * np.square(np.exp(change(w, found))).sum(axis=0) - 1
        error = np.log1p(2 * np.sqrt(np.maximum(spread, 0.0) / len(w)))
        return np.where(out.any(axis=0) & possible, np.inf, change(found + error, log_p[0]))


def shared_values(microdata: Microdata, j: int) -> Array:
    """Values of a number that so many records have that they are no draws from a density."""
    codes, missing = microdata.codes[:, j].astype(float), microdata.variables[j].missing
    values, n = np.unique(codes[np.isfinite(codes) & (codes != missing)], return_counts=True)
    return np.asarray(values[(n >= LEAST) & (n > POINT_MASS * len(codes))])


def cells(line: Array) -> Array:
    """Widths (G,) of the cells around ascending values, half way to both neighbours; ends mirrored.

    The first and the last gap count as at most three times the next: a true value far from all
    others would give its neighbour all that lies between.
    """
    gap = np.diff(line)
    if len(gap) > 1:
        gap[0], gap[-1] = min(gap[0], 3 * gap[1]), min(gap[-1], 3 * gap[-2])
    width: Array = (np.append(gap[:1], gap) + np.append(gap, gap[-1:])) / 2
    return width


def edges(line: Array) -> Array:
    """Edges (G + 1,) of the cells around ascending values (G,), G at least 2; ends mirrored."""
    return np.concatenate(
        [
            [1.5 * line[0] - 0.5 * line[1]],
            (line[1:] + line[:-1]) / 2,
            [1.5 * line[-1] - 0.5 * line[-2]],
        ]
    )


class Guesses(Protocol):
    """Anything that can list the guesses for targets."""

    def of(self, microdata: Microdata, profiles: Codes, columns: Ints) -> GuessSet:
        """Guesses for profiles (U, p), varying in the given columns (q,)."""

    def in_words(self) -> str:
        """One sentence for reports."""


class Itself(Guesses):
    """The target's own values, the only guess: where guesses are made otherwise."""

    def of(self, microdata: Microdata, profiles: Codes, columns: Ints) -> GuessSet:
        return GuessSet.of(profiles[None][:, :, columns])

    def in_words(self) -> str:
        return "the target's own values"


@dataclass(frozen=True, slots=True)
class Neighbourhood(Guesses):
    """All values that differ from the truth in at most ``distance`` variables.

    With distance 1 this is the published reduced set of ``1 + sum_j (d_j - 1)`` guesses (Hu, Reiter
    & Wang 2014). Values of a number are those that the data hold. The set is centred on the truth,
    which shows the intruder where to look: read the risk against its prior.

    Parameters
    ----------
    distance : int
        Largest number of variables that differ (Hamming distance), at least 1.

    Examples
    --------
    >>> Neighbourhood(1)
    Neighbourhood(distance=1)
    """

    distance: int = 1

    def __post_init__(self) -> None:
        whole_number("distance", self.distance)

    def of(self, microdata: Microdata, profiles: Codes, columns: Ints) -> GuessSet:
        """Guesses for profiles (U, p); the truth is guess 0."""
        d, place = microdata.n_levels[columns], profiles[:, columns]
        numbers = [q for q, j in enumerate(columns) if isinstance(microdata.variables[j], Number)]
        distinct = {q: np.unique(microdata.codes[:, columns[q]]) for q in numbers}
        for q, values in distinct.items():
            d[q], place[:, q] = len(values), np.searchsorted(values, place[:, q])
        check_size(_ball(d.tolist(), self.distance), len(d), len(profiles))
        shifts = _shifts(d, min(self.distance, len(d)))  # shape (G, q)
        codes = place.astype(np.int32)[None] + shifts[:, None, :]
        np.remainder(codes, d.astype(np.int32), out=codes)  # in place: the largest array there is
        if distinct:
            codes = codes.astype(float)
        masses = {}
        for q, values in distinct.items():
            codes[:, :, q] = values[codes[:, :, q].astype(np.int64)]
            if len(held := shared_values(microdata, columns[q])):
                masses[q] = PointMasses.of_held(held, values, len(profiles))
        found = GuessSet.of(codes, cells=shifts)
        return replace(found, masses=masses, complete=frozenset(distinct))

    def in_words(self) -> str:
        return (
            f"every value that differs from the truth in at most {self.distance} variable"
            f"{'s' if self.distance > 1 else ''} (centred on the truth: compare with the prior)"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Listed(Guesses):
    """The same listed guesses for every target.

    Parameters
    ----------
    table : DataFrame
        One row per guess, one column per synthesised (and unknown) variable.
    add_truth : bool
        Where a target's true value is not listed: add it for that target (True), or stop (False).

    Examples
    --------
    >>> import pandas as pd
    >>> Listed(pd.DataFrame({"sex": ["f", "m"]})).in_words()
    '2 listed guesses, the same for every target'
    """

    table: pd.DataFrame
    add_truth: bool = False

    def of(self, microdata: Microdata, profiles: Codes, columns: Ints) -> GuessSet:
        names = [microdata.columns[j] for j in columns]
        listed = np.unique(microdata.encode(self.table, "the listed guesses", names), axis=0)
        own = profiles[:, columns]  # shape (U, q)
        same = (listed[:, None, :] == own[None]).all(axis=2)  # shape (G, U)
        if len(listed) + self.add_truth < 2:
            raise InputError(
                "G", len(listed), "leaves nothing to compare; list at least 2 different guesses"
            )
        if not self.add_truth and not same.any(axis=0).all():
            raise InputError(
                f"the list lacks the true value of {int((~same.any(axis=0)).sum())} distinct "
                f"targets; `add_truth=True` adds it for them, or list more guesses"
            )
        codes = np.repeat(listed[:, None, :], len(own), axis=1)
        cells = np.column_stack([np.unique(c, return_inverse=True)[1] for c in listed.T])
        if self.add_truth:
            return GuessSet.after_truth(own, codes, ~same, cells)
        return replace(GuessSet.of(codes, cells=cells), truth=same.argmax(axis=0))

    def in_words(self) -> str:
        added = ", the truth added where it is missing" if self.add_truth else ""
        return f"{len(self.table)} listed guesses, the same for every target{added}"


def possible(
    guesses: GuessSet, microdata: Microdata, profiles: Codes, columns: Ints, record: Ints
) -> GuessSet:
    """The same guesses, not counted those that make impossible records of profiles (U, p)."""
    if microdata.impossible is None:
        return guesses
    impossible = microdata.impossible.holds_guesses(profiles, columns, guesses.codes, record)
    return replace(guesses, counted=guesses.counted & ~impossible)


def how_many(counted: Ints) -> str:
    """How many guesses are counted for each target (n,), in words.

    >>> how_many(np.array([10_560, 10_560])), how_many(np.array([160, 168, 176]))
    ('10,560 guesses', '160 to 176 guesses (median 168)')
    """
    low, high = int(counted.min()), int(counted.max())
    if low == high:
        return "1 guess" if low == 1 else f"{low:,} guesses"
    return f"{low:,} to {high:,} guesses (median {np.median(counted):,.0f})"


def check_size(guesses: int, columns: int, targets: int) -> None:
    """Refuse more guesses than memory can hold."""
    if guesses * columns * targets > MAX_CELLS:
        raise InputError(
            f"{guesses:,} guesses for each of {targets:,} targets are more than memory can hold; "
            "audit fewer targets at a time (targets), lower the distance or the budget, or take "
            "coarser grids"
        )


def _ball(d: list[int], distance: int) -> int:
    """Number of values within a distance: coefficients of prod_j (1 + (d_j - 1) x), added."""
    at = [1]
    for levels in d:
        moved = [0, *(count * (levels - 1) for count in at)]
        at = [same + other for same, other in zip([*at, 0], moved, strict=True)]
    return sum(at[: distance + 1])


def _shifts(d: Ints, distance: int) -> Ints:
    """How far each guess moves each variable (modulo its levels), no move first; shape (G, q)."""
    rows = [np.zeros(len(d), dtype=np.int32)]
    for size in range(1, distance + 1):
        for chosen in combinations(range(len(d)), size):
            for moves in product(*(range(1, d[j]) for j in chosen)):
                row = np.zeros(len(d), dtype=np.int32)
                row[list(chosen)] = moves
                rows.append(row)
    return np.array(rows)
