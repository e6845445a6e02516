"""Guesses for numbers: grids around the truth or anywhere else, joint over several variables.

Joint grids too large to compute are searched coarse to fine. Every so many-th value of each
variable makes a coarse grid, whose points stand for the blocks of fine guesses around them. The
blocks in which the coarse posterior puts most are then opened, as many as the budget allows; what
the others hold is estimated from a random sample of their guesses, and reported.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import comb

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError, shown
from bayes_risk._core.validate import (
    is_number,
    is_sequence,
    near,
    one_of,
    positive,
    whole_number,
)
from bayes_risk.data.microdata import Codes, Microdata, Number, Variable
from bayes_risk.data.precision import SAME
from bayes_risk.data.variables import check_magnitude

from .guesses import (
    Guesses,
    GuessSet,
    Neighbourhood,
    PointMasses,
    Rest,
    check_size,
    edges,
    shared_values,
)
from .quantiles import Place, Scan

FEW = 30  # whole numbers that may well be codes of categories
COARSE = 4  # the coarse grid may take one in so many guesses of the budget


class Search:
    """Guesses of q variables, cut into blocks; the middles of the blocks are the coarse ones.

    ``points`` and ``counted`` (G_j, U), ``truth`` (U,) of each variable; ``budget`` guesses;
    ``marks``: ``lines``, ``complete`` and ``masses`` of a `GuessSet`. The longest variables are cut
    until the coarse grid fits its part of the budget.
    """

    def __init__(
        self,
        points: Sequence[Array],
        counted: Sequence[Flags],
        truth: Sequence[Ints],
        budget: int,
        **marks: Any,
    ) -> None:
        lengths = np.array([len(p) for p in points])
        strides = np.ones_like(lengths)
        while np.prod(np.ceil(lengths / strides)) > budget / COARSE and (strides < lengths).any():
            strides[int(np.argmax(np.ceil(lengths / strides)))] += 1
        self.starts = [np.arange(0, n, s) for n, s in zip(lengths, strides, strict=True)]
        self.sizes = [np.diff(b, append=n) for b, n in zip(self.starts, lengths, strict=True)]
        self.largest = math.prod(int(s.max()) for s in self.sizes)
        if self.largest > budget:
            raise InputError(
                f"{' x '.join(map(str, lengths))} guesses cannot be searched within a budget of "
                f"{budget:,}; raise the budget, or take coarser grids"
            )
        self.budget, column = budget, np.arange(len(truth[0]))
        self.marks = marks
        self.points, self.counted, self.truth = [], [], []
        for p, c, t in zip(points, counted, truth, strict=True):
            # in ascending order, so that blocks hold neighbours; those that do not count last
            order = np.argsort(np.where(c, p, np.inf), axis=0, kind="stable")
            self.points.append(np.take_along_axis(p, order, axis=0))
            self.counted.append(np.take_along_axis(c, order, axis=0))
            self.truth.append(np.argsort(order, axis=0, kind="stable")[t, column])
        self.true = np.stack(
            [p[t, column] for p, t in zip(self.points, self.truth, strict=True)], axis=1
        )
        # every combination of blocks, shape (C, q)
        self.cells = np.array(list(product(*(range(len(b)) for b in self.starts))), dtype=np.int64)
        # how many guesses of each block count, shape (blocks, U) for each variable
        self.members = [
            np.add.reduceat(c.astype(np.int64), b, axis=0)
            for c, b in zip(self.counted, self.starts, strict=True)
        ]
        # the middle one of those that count, which come first in a block; shape (C, U) each
        self.middles = [
            (b[:, None] + np.minimum(n // 2, np.maximum(n - 1, 0)))[self.cells[:, j]]
            for j, (b, n) in enumerate(zip(self.starts, self.members, strict=True))
        ]
        self.is_truth = np.logical_and.reduce(  # shape (C, U)
            [at == t for at, t in zip(self.middles, self.truth, strict=True)]
        )
        # guesses with one value that is not the truth's, (K, U, q), if they are few
        along = [(j, v) for j, n in enumerate(lengths) for v in range(n)]
        few = len(along) <= budget // COARSE
        self.near = np.broadcast_to(
            np.stack(self.truth, axis=1), (few * len(along), len(column), len(lengths))
        ).copy()
        for row, (j, v) in zip(self.near, along, strict=False):
            row[:, j] = v
        self.least = 1 + few  # values in which other guesses differ from the truth

    def coarse(self) -> GuessSet:
        """The middle of every block, and the truth; shape (blocks + 1, ...) joint."""
        column = np.arange(len(self.true))
        pairs = list(zip(self.points, self.counted, self.middles, strict=True))
        codes = np.stack([p[at, column] for p, _, at in pairs], axis=2)
        counted = np.logical_and.reduce([c[at, column] for _, c, at in pairs]) & ~self.is_truth
        found = GuessSet.after_truth(self.true, codes, counted, self.cells)
        return replace(found, finer=self.finer, **self.marks)

    def finer(self, log_p: Array) -> tuple[GuessSet, Rest]:
        """The truth, guesses with one other value, and the likeliest blocks; what is left out."""
        with np.errstate(divide="ignore"):  # a block may hold nothing that counts
            log_size = sum(np.log(n[self.cells[:, j]]) for j, n in enumerate(self.members))
        mass = np.where(self.is_truth, log_p[0], log_p[1:]) + np.asarray(log_size)  # shape (C, U)
        n_opened = max((self.budget - len(self.near)) // self.largest, 1)
        opened = np.argsort(-mass, axis=0, kind="stable")[:n_opened]
        shut = np.ones(mass.shape, dtype=bool)
        np.put_along_axis(shut, opened, False, axis=0)
        # every guess in the blocks (T, U, q); the truth first, and nothing twice
        blocks = self.cells[opened]
        T, U, q = blocks.shape
        offsets = np.array(list(product(*(range(int(s.max())) for s in self.sizes))))  # (S, q)
        places = np.empty((T * len(offsets), U, q), dtype=np.int64)
        counted = np.ones((T, len(offsets), U), dtype=bool)
        for j in range(q):
            begin, size = self.starts[j][blocks[:, :, j]], self.sizes[j][blocks[:, :, j]]
            step = offsets[:, j][None, :, None]
            at = begin[:, None] + np.minimum(step, size[:, None] - 1)  # shape (T, S, U)
            counted &= step < size[:, None]
            places[:, :, j] = at.reshape(-1, U)
        far = (places != np.stack(self.truth, axis=1)).sum(axis=2) >= self.least
        those = np.ones(self.near.shape[:2], dtype=bool), counted.reshape(-1, U) & far
        found = self._guesses(np.concatenate([self.near, places]), np.concatenate(those))
        return found, self._rest(shut)

    def _guesses(self, places: Ints, counted: Flags) -> GuessSet:
        """The truth and guesses (G, U, q) of these places, those of them that count."""
        codes, column = np.empty(places.shape), np.arange(places.shape[1])
        is_truth = np.ones(counted.shape, dtype=bool)
        for j, (points, c, truth) in enumerate(
            zip(self.points, self.counted, self.truth, strict=True)
        ):
            at = places[:, :, j]
            codes[:, :, j] = points[at, column]
            counted, is_truth = counted & c[at, column], is_truth & (at == truth)
        found = GuessSet.after_truth(self.true, codes, counted & ~is_truth)
        return replace(found, **self.marks)

    def _rest(self, shut: Flags) -> Rest:
        """Random guesses that differ from the truth in k values, each k as often, if not searched.

        Much of what trees leave possible agrees with the truth in the first columns, so that a
        sample of all guesses alike would miss it.
        """
        rng, R, (U, q) = np.random.default_rng(0), self.budget // COARSE, self.true.shape
        column = np.arange(U)
        others = np.stack([c.sum(axis=0) - 1 for c in self.counted])  # (q, U)
        k = rng.integers(self.least, q + 1, (R, U))
        differs = rng.random((R, U, q)).argsort(axis=2) < k[:, :, None]
        log_w = np.full((R, U), math.log(q + 1 - self.least) - math.log(R)) + np.log(comb(q, k))
        places, block = np.empty((R, U, q), dtype=np.int64), np.zeros((R, U), dtype=np.int64)
        with np.errstate(divide="ignore"):
            for j, (truth, begin) in enumerate(zip(self.truth, self.starts, strict=True)):
                log_w += np.where(differs[:, :, j], np.log(others[j]), 0.0)
                at = (rng.random((R, U)) * others[j]).astype(np.int64)
                at += at >= truth  # those that count come first
                places[:, :, j] = np.where(differs[:, :, j], at, truth)
                of = np.searchsorted(begin, places[:, :, j], side="right") - 1
                block = block * len(begin) + of
        counted = shut[block, column] & np.isfinite(log_w)
        return Rest(self._guesses(places, counted), log_w)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Guesses for one number, in exactly one of five ways.

    Parameters
    ----------
    percent : float, optional
        From the truth minus this percentage of its size to the truth plus the same.
    additive : float, optional
        From the truth minus this number to the truth plus this number.
    bounds : tuple of two floats, optional
        From the first to the second, the same for every target. If the number may be missing,
        "missing" is one more guess.
    values : sequence of float, optional
        These, the same for every target.
    predictive : bool
        At quantiles of the model's prediction for each record, given all that the intruder knows:
        the ends of the central 99.9 %, and ``n - 2`` quantiles at equal steps between. The truth
        takes the place of the nearest. Values that 5 % of the records share, and ten at least, are
        guesses besides. No bounds need to be chosen.
    n : int
        Number of guesses, evenly spaced but for the last two ways. Whole numbers (integer columns)
        are guessed as whole numbers: every one in the range if there are at most n, else n of them.
        If all values of the column are multiples of a larger step, predictive guesses are too.
    truth : {"error", "add", "nearest"}
        Where the grid has no place for the true value of a target: stop, add it as one more guess,
        or let the nearest guess stand for it. A grid around the truth has a place if n is odd.

    Raises
    ------
    InputError
        None or several of the five, or values that make no grid; targets whose truth has no place;
        ranges that leave one guess (a percentage of zero); guesses of whole numbers that are none.

    Notes
    -----
    A grid centred on the truth shows the intruder where to look: read the risk against its prior.

    *Steps of unequal width* (``predictive``, ``values``): ``"predictive"`` and the verdict's flat
    prior weight a guess by the width of its cell, half way to either neighbour, so that both mean
    what they do on even steps. ``"uniform"`` gives all guesses the same probability, and is nearly
    the predictive where guesses are its quantiles.

    Examples
    --------
    >>> Grid(percent=10, n=11).in_words()
    '11 values within 10 % of the truth'
    """

    percent: float | None = None
    additive: float | None = None
    bounds: tuple[float, float] | None = None
    values: Sequence[float] | None = None
    predictive: bool = False
    n: int = 11
    truth: str = "error"

    def __post_init__(self) -> None:
        given = [
            k for k in ("percent", "additive", "bounds", "values") if getattr(self, k) is not None
        ] + ["predictive"] * bool(self.predictive)
        if len(given) != 1:
            raise InputError(
                f"a grid has {given or 'none'} of percent, additive, bounds and values; give "
                "exactly one: `Grid(percent=10, n=11)`, or `Grid(predictive=True)` alone"
            )
        whole_number("n", self.n, 3 if self.predictive else 2)
        one_of("truth", self.truth)
        if self.predictive:
            return
        listed: Any = getattr(self, given[0])
        if given[0] in ("percent", "additive"):
            positive(given[0], listed)
            return
        numbers = is_sequence(listed) and all(map(is_number, listed))
        points = np.asarray(listed if numbers else [np.nan], dtype=float)
        if not np.isfinite(points).all() or len(np.unique(points)) < 2:
            raise InputError(
                f"the values {shown(listed)} make no grid; give at least 2 different finite numbers"
            )
        if self.bounds is not None and (len(points) != 2 or points[0] >= points[1]):
            raise InputError("bounds", self.bounds, "; give (low, high) with low < high")

    def points(self, y: Array, number: Number) -> tuple[Array, Ints]:
        """Guesses for true values y (U,), shape (G, U), and which of them is the truth (U,).

        Values below what can be repeat the truth: they are not counted, and break no formula.
        """
        around_truth = self.bounds is None and self.values is None
        grid = self._centred(y, number) if around_truth else self._common(y, number)
        grid, truth = self._with_truth(grid, y, number)
        check_magnitude(grid[np.abs(grid) > 1], number.name, "the guesses")
        true: Array = grid[truth, np.arange(len(y))]
        return np.where(_can_be(grid, number), grid, true), truth

    def _centred(self, y: Array, number: Number) -> Array:
        width = np.full(len(y), self.additive, dtype=float)
        if self.percent is not None:
            width = np.abs(y) * self.percent / 100.0
        if number.whole:  # ends that are whole: the steps are at most 1, or n is too small for all
            width = np.floor(width + SAME * np.maximum(width, 1.0))
        if (width == 0).any():
            raise InputError(
                f"column {number.name!r}: the grid leaves one guess for {int((width == 0).sum())} "
                "distinct targets (a percentage of 0, or too narrow for another whole number); "
                "give additive steps or bounds"
            )
        half = (self.n - 1) / 2.0
        steps = (np.arange(self.n) - half) / half  # shape (G,); exactly 0 in the middle of odd n
        grid: Array = y + steps[:, None] * width
        return np.round(grid) if number.whole else grid

    def _common(self, y: Array, number: Number) -> Array:
        if self.bounds is None:
            line = np.unique(np.asarray(self.values, dtype=float))
            fits = not number.whole or bool((line == np.round(line)).all())
        else:
            low, high = self.bounds
            if number.whole:
                low, high = float(np.ceil(low)), float(np.floor(high))
            line = np.linspace(low, high, self.n)
            fits = low <= high
        if not fits:
            raise InputError(
                f"column {number.name!r} holds whole numbers, but the guesses ({self.in_words()}) "
                "are not whole; give whole numbers"
            )
        line = np.round(line) if number.whole else line
        if self.bounds is not None and number.missing is not None:
            line = np.append(line, number.missing)  # for everybody, or its place would tell of it
        return np.repeat(line[:, None], len(y), axis=1)

    def _with_truth(self, grid: Array, y: Array, number: Number) -> tuple[Array, Ints]:
        """Find the place of the truth in the grid, or make one in the way that was chosen."""
        name, wide = number.name, 0.0 if self.bounds is None else self.bounds[1] - self.bounds[0]
        far = np.where(_can_be(grid, number), np.abs(grid - y), np.inf)
        nearest = far.argmin(axis=0)
        at = np.arange(len(y))
        here = far[nearest, at] <= SAME * np.maximum(np.abs(y), wide)
        grid[nearest[here], at[here]] = y[here]
        if np.isinf(far[nearest, at]).any() and self.truth == "nearest":
            raise InputError(
                f"every guess of column {name!r} is below {number.lowest:g}, which cannot be; give "
                "a grid of possible values"
            )
        if self.truth == "add" and not here.all():
            return np.concatenate([grid, y[None]]), np.full(len(y), len(grid), dtype=np.int64)
        if self.truth == "error" and not here.all():
            raise InputError(
                f"the grid of column {name!r} has no place for the true value of "
                f"{int((~here).sum())} targets; give an odd n (around the truth), "
                f'`truth="add"` to add it, or `truth="nearest"` to let the nearest guess stand '
                "for it"
            )
        return grid, nearest

    def in_words(self) -> str:
        """One phrase for reports."""
        count = self.n if self.values is None else len(set(self.values))
        where = "as listed"
        if self.percent is not None:
            where = f"within {self.percent:g} % of the truth"
        elif self.additive is not None:
            where = f"within {self.additive:g} of the truth"
        elif self.predictive:
            return (
                f"{count} values at quantiles of the model's prediction, one replaced by the "
                "truth, and any value that 5 % of the records share"
            )
        elif self.bounds is not None:
            where = f"from {self.bounds[0]:g} to {self.bounds[1]:g}"
        stand_in = {
            "error": "",
            "add": " and the truth",
            "nearest": ", the truth in place of the nearest",
        }
        return f"{count} values {where}{stand_in[self.truth]}"


def _can_be(grid: Array, number: Number) -> Flags:
    """Which guesses are no less than the least value, or stand for a missing one."""
    possible: Flags = grid >= number.lowest
    return possible if number.missing is None else possible | (grid == number.missing)


@dataclass(frozen=True, slots=True)
class Levels:
    """Every level of a categorical variable, or every value that the data hold of a number.

    For numbers synthesised by trees these are the right guesses, because such releases show only
    values of the data.

    Examples
    --------
    >>> Levels().in_words()
    'every value'
    """

    predictive: ClassVar[bool] = False

    def of_number(self, codes: Array) -> Grid:
        """The values held by the file, codes (n,); a missing one is among them if it is held."""
        return Grid(values=np.unique(codes[np.isfinite(codes)]).tolist(), truth="add")

    def points(self, y: npt.NDArray[Any], variable: Variable) -> tuple[Array, Ints]:
        """Level codes, shape (G, U), and the true ones (U,)."""
        grid = np.repeat(np.arange(variable.n_levels, dtype=float)[:, None], len(y), axis=1)
        return grid, y.astype(np.int64)

    def in_words(self) -> str:
        """One phrase for reports."""
        return "every value"


PREDICTIVE = "predictive"
OVER = Grid(predictive=True)


@dataclass(frozen=True, slots=True, eq=False)
class JointGrid(Guesses):
    """Every combination of the guesses for several variables.

    Parameters
    ----------
    grids : mapping of column to Grid, Levels, "levels" or "predictive"
        One for every guessed variable; categories that are left out get all their `Levels`.
        ``"levels"`` is `Levels`, ``"predictive"`` is ``Grid(predictive=True)``.
    budget : int
        Most guesses for a target. A larger grid is searched coarse to fine, and the result states
        what share of the posterior was left out (``left_out``).

    Raises
    ------
    InputError
        A guessed number without a grid, a grid for a variable that is not guessed, a Grid for a
        category; more guesses than memory can hold.

    Notes
    -----
    G is the product of the numbers of guesses.

    Examples
    --------
    >>> JointGrid({"income": Grid(percent=10, n=11), "sex": Levels()}).in_words()
    'income: 11 values within 10 % of the truth; sex: every value'
    """

    grids: Mapping[str, Any]
    budget: int = 20_000

    def __post_init__(self) -> None:
        whole_number("budget", self.budget)
        words = {PREDICTIVE: OVER, "levels": Levels()}
        named = {c: words.get(g, g) for c, g in self.grids.items() if isinstance(g, str)}
        object.__setattr__(self, "grids", {**self.grids, **named})

    def of(self, microdata: Microdata, profiles: Codes, columns: npt.NDArray[Any]) -> GuessSet:
        """Guesses for profiles (U, p), varying in the given columns (q,)."""
        variables: list[Any] = [microdata.variables[j] for j in columns]
        guessed = [v.name for v in variables]
        if unknown := [name for name in self.grids if name not in guessed]:
            raise InputError(
                "guesses",
                f"names column {unknown[0]!r}, which is not guessed; guessed are "
                f"{guessed}{near(unknown[0], guessed)}",
            )
        chosen: list[Any] = []
        for j, variable in zip(columns, variables, strict=True):
            is_number = isinstance(variable, Number)
            grid = self.grids.get(variable.name, None if is_number else Levels())
            if is_number and isinstance(grid, Levels):
                grid = grid.of_number(microdata.codes[:, j].astype(float))
            if is_number and not isinstance(grid, Grid):
                raise no_grid(microdata, variable.name)
            if not is_number and not isinstance(grid, Levels):
                raise InputError(f"column {variable.name!r} is a category; give its levels")
            chosen.append(grid)
        check_size(
            max((of.n for of in chosen if isinstance(of, Grid)), default=0), 1, len(profiles)
        )
        true = profiles[:, columns]
        of_column = list(zip(variables, chosen, strict=True))
        fixed = {
            q: grid.points(true[:, q].astype(float), variable)
            for q, (variable, grid) in enumerate(of_column)
            if not grid.predictive
        }
        over = {
            q: microdata.codes[:, columns[q]].astype(float)
            for q, (_, g) in enumerate(of_column)
            if g.predictive
        }
        shared = {
            q: shared_values(microdata, columns[q])
            for q, v in enumerate(variables)
            if isinstance(v, Number)
        }
        places = [
            Place.of(q, variables[q], chosen[q].n, codes, shared[q]) for q, codes in over.items()
        ]

        def combined(laid: Mapping[int, Array]) -> GuessSet:
            near = {q: (x, np.abs(x - true[:, q]).argmin(axis=0)) for q, x in laid.items()}
            return self._combined(fixed | near, variables, true.dtype, shared)

        if not places:
            return combined({})
        others = {q: values for q, (values, _) in fixed.items()}
        codes = np.stack([*over.values()], axis=1)
        return Scan.of(places, true.astype(float), codes, others, combined).guesses()

    def _combined(
        self,
        found: Mapping[int, tuple[Array, Ints]],
        variables: Sequence[Any],
        dtype: Any,
        shared: Mapping[int, Array],
    ) -> GuessSet:
        """Every combination of the values (K, U) of each variable, with the place of the truth."""
        points, truth, counted, masses = [], [], [], {}
        lines, complete = dict[int, Array](), set[int]()
        for q, variable in enumerate(variables):
            values, true = found[q]
            points.append(values.astype(dtype))  # codes of categories alone are integers
            truth.append(true)
            counted.append(_counted(values, true))
            grid = self.grids.get(variable.name)  # values that are held have no steps between
            if not isinstance(variable, Number):
                continue
            line = np.where(counted[-1] & (values != variable.missing), values, np.nan)
            if isinstance(grid, Grid) and (grid.predictive or grid.values is not None):
                lines[q] = line
            if isinstance(grid, Levels) or (grid is not None and grid.predictive):
                complete.add(q)
            if len(held := shared[q]):
                every = PointMasses.of_held(held, line[~np.isnan(line[:, 0]), 0], len(true))
                masses[q] = PointMasses.of(held, line) if isinstance(grid, Grid) else every
        marks: Any = {"lines": lines, "complete": frozenset(complete), "masses": masses}
        size = math.prod(len(p) for p in points)
        check_size(min(size, self.budget), len(points), len(truth[0]))
        if size > self.budget:
            return Search(points, counted, truth, self.budget, **marks).coarse()
        sizes = [len(p) for p in points]
        cells = np.array(list(product(*map(range, sizes))))  # shape (G, q)
        codes = np.stack([p[cells[:, j]] for j, p in enumerate(points)], axis=2)
        kept = np.logical_and.reduce([c[cells[:, j]] for j, c in enumerate(counted)])
        place = np.ravel_multi_index(tuple(truth), tuple(sizes))
        return GuessSet(codes, place.astype(np.int64), kept, cells, **marks)

    def in_words(self) -> str:
        return "; ".join(f"{name}: {grid.in_words()}" for name, grid in self.grids.items())


def no_grid(microdata: Microdata, name: str) -> InputError:
    """What to say of a guessed number without a grid: few whole numbers may well be codes."""
    found = np.unique(microdata.codes[:, microdata.columns.index(name)])
    found, codes = found[~np.isnan(found)], ""
    if 0 < len(found) <= FEW and not (found % 1).any():
        codes = (
            f"; if its {len(found)} whole numbers are codes of categories, list these as its levels"
        )
    return InputError(
        f"column {name!r} is a number, and a number needs a grid: give "
        f'`guesses="predictive"`, or a grid such as `Grid(percent=10, n=11)`{codes}'
    )


def as_guesses(guesses: Any, numbers: Sequence[str]) -> Guesses:
    """Guesses as the user gave them: a mapping of grids, one for all numbers, or ready."""
    if guesses is None:
        guesses = PREDICTIVE if numbers else Neighbourhood(1)
    if isinstance(guesses, str):
        if one_of("guesses", guesses, (PREDICTIVE,)) and not numbers:
            raise InputError(
                "guesses", PREDICTIVE, "is about numbers, and none is guessed; leave it out"
            )
        n = int(np.clip(JointGrid({}).budget ** (1 / len(numbers)), 3, 11))  # no search of many
        guesses = Grid(predictive=True, n=n)
    if isinstance(guesses, Mapping):
        return JointGrid(guesses)
    if isinstance(guesses, Grid):
        return JointGrid(dict.fromkeys(numbers, guesses))
    ready: Guesses = guesses
    return ready


def guesses_in_words(guesses: Guesses, names: Sequence[Any]) -> str:
    """What is guessed of every column: of those that a joint grid leaves out, all levels."""
    phrase = guesses.in_words()
    others = [str(n) for n in names if isinstance(guesses, JointGrid) and n not in guesses.grids]
    return f"{phrase}; {', '.join(others)}: every value" if others else phrase


def _counted(values: Array, truth: Ints) -> Flags:
    """False where a guess repeats another; the truth is kept."""
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)
    repeats = np.zeros(values.shape, dtype=bool)
    np.put_along_axis(repeats, order[1:], ordered[1:] == ordered[:-1], axis=0)
    at = np.arange(values.shape[1])
    repeats |= values == values[truth, at]
    repeats[truth, at] = False
    return ~repeats


def log_widths(values: Array, counted: Flags) -> Array:
    """Log width of the grid cell around each value (G, U), among the counted guesses."""
    out = np.zeros(values.shape)
    for u in range(values.shape[1]):
        line, where = np.unique(values[counted[:, u], u], return_inverse=True)
        if len(line) > 1:
            out[counted[:, u], u] = np.log(np.diff(edges(line)))[where]
    return out
