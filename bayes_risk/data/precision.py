"""Numbers of several tables, equal at the precision of the coarser one.

A table that was written with three decimals, six significant digits or in single precision holds
rounded values, and so does one that counts whole days. Two values are equal if rounding both as the
coarser table did gives one number. The precision of a table is read off its values: they all lie on
a grid that those of another table would rarely lie on. Whole numbers are compared exactly.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints

SAME = 1e-12  # relative: what arithmetic loses of a number that is not whole
WHOLE = 2.0**53  # up to here every whole number has a double of its own
MOST_DIGITS = 15
TENS = range(-9, MOST_DIGITS + 1)  # decimals, negative: multiples of 10, 100, ...
CHANCE = 1e-3  # that values of full precision all lie on a coarser grid
SAMPLE = 2_000  # values that a grid is chosen by
FEW = 8  # values that a grid is looked for by at first
UNITS = {"day": 86_400_000_000, "second": 1_000_000, "millisecond": 1_000}  # of microseconds
SIDES = ("even", "away", "stored", "multiplied", "cut", "down")  # where a half goes, or all
BY_CHANCE = {"decimals": 0.1, "digits": 0.1, "unit": 2.0**-10}
BY_CHANCE |= {"single": 2.0**-14, "short": 2.0**-20}

# in single precision, as it is or as its shortest decimals
STORED = {"single": np.float32, "short": np.float32}

Numbers = npt.NDArray[Any]  # int64, float64, or Python's whole numbers beyond both


class RoundingGrid(NamedTuple):
    """What a table's values are rounded to; ``how``: one of `SIDES`.

    ``kind``: "exact"; "decimals", negative for tens; "digits", significant; "single" precision,
    or, "short", the shortest decimals that stand for it;
    "multiple" of a whole number that is no power of ten; "unit" of time, cut off.
    """

    kind: str = "exact"
    n: int = 0
    how: str = "even"

    @np.errstate(over="ignore", invalid="ignore")
    def rounded(self, values: Numbers) -> Numbers:
        """Values on the grid."""
        if self.kind == "exact":
            return values
        if self.kind in STORED:
            return np.asarray(values.astype(STORED[self.kind]).astype(np.float64))
        if self.kind == "unit":
            return np.asarray(values - values % self.n)
        if self.kind == "multiple":
            multiples = _whole(values.astype(np.longdouble) / self.n, self.how)
            return np.asarray(multiples.astype(np.float64) * self.n)
        if self.kind == "decimals":
            return _at_decimals(values.astype(np.float64), self.n, self.how)
        return _at_digits(values.astype(np.float64), self.n, self.how)

    def holds(self, values: Numbers) -> Flags:
        """Which values lie on the grid."""
        found = self.rounded(values)
        if self.kind == "single":  # of 16 digits too
            with np.errstate(invalid="ignore", over="ignore"):
                near = np.abs(found - values) <= SAME * np.abs(values)
            return np.asarray((near & np.isfinite(found)) | (found == values))
        return np.asarray((shortest(found) if self.kind == "short" else found) == values)

    def in_words(self) -> str:
        """What values are compared at."""
        if self.kind in STORED:
            return "single precision"
        if self.kind == "unit":
            return f"whole {next(name for name, size in UNITS.items() if size == self.n)}s"
        if self.kind == "multiple":
            return f"multiples of {self.n:,}"
        if self.kind == "digits":
            return f"{self.n} significant digits"
        if self.n > 0:
            return f"{self.n} decimal{'s' * (self.n > 1)}"
        return f"multiples of {10**-self.n:,}" if self.n else "whole numbers"


EXACT, SINGLE = RoundingGrid(), RoundingGrid("single")


def _at_decimals(values: Array, n: int, how: str) -> Array:
    """Values at so many decimals; ``how``: one of `SIDES`."""
    if how == "multiplied":  # as NumPy does it
        return np.asarray(np.round(values, n))
    size = np.longdouble(10.0 ** abs(n))
    scaled = values.astype(np.longdouble) * size if n >= 0 else values / size
    whole = _whole(scaled, how).astype(np.float64)
    return np.asarray(whole / 10.0**n if n >= 0 else whole * 10.0**-n)


def _whole(scaled: npt.NDArray[Any], how: str) -> npt.NDArray[Any]:
    """Whole numbers, a half as `how` says."""
    if how != "stored":  # 0.285 is stored as 0.28499...; as written it is a half
        half = np.rint(2 * scaled) / 2
        scaled = np.where(np.abs(scaled - half) <= SAME * np.abs(scaled), half, scaled)
    whole = np.rint(scaled)
    if how == "away":
        whole = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    elif how == "cut":
        whole = np.trunc(scaled)
    elif how == "down":
        whole = np.floor(scaled)
    return np.asarray(whole)


def _at_digits(values: Array, n: int, how: str) -> Array:
    """Values at so many significant digits."""
    found, some = values.copy(), (values != 0) & np.isfinite(values)
    size = np.zeros(len(values))
    size[some] = np.floor(np.log10(np.abs(values[some])))
    for exponent in np.unique(size[some]):
        here, decimals = some & (size == exponent), n - 1 - int(exponent)
        if -22 <= decimals <= 22:  # powers of ten that a double holds
            found[here] = _at_decimals(values[here], decimals, how)
        else:
            found[here] = [float(f"{x:.{n - 1}e}") for x in values[here]]
    return found


def _first_that_holds(grids: Iterator[RoundingGrid], values: Numbers) -> RoundingGrid | None:
    parts = values[:FEW], values[:: len(values) // SAMPLE + 1], values
    return next((g for g in grids if all(g.holds(some).all() for some in parts)), None)


def _least_digits(values: Numbers) -> tuple[int, int]:
    """Decimals and significant digits of any grid on which these are, read off a few of them.

    A number on a grid is the double nearest to a decimal of so many digits, and is written with the
    fewest that no other double is nearer to.
    """
    some = (float(x) for x in values[:: len(values) // FEW + 1] if x != 0)
    written = [Decimal(repr(x)).normalize().as_tuple() for x in some]
    decimals = max((-int(x.exponent) for x in written), default=TENS[0])
    return decimals, max((len(x.digits) for x in written), default=1)


def grids_of(values: Numbers) -> list[RoundingGrid]:
    """The coarsest grid of each kind that holds all values, where one does."""
    if values.dtype == object or not len(values):
        return []
    largest = float(np.abs(values.astype(np.float64)).max())
    if not 0 < largest < np.inf:
        return []
    least, fewest = _least_digits(values)  # full precision has 16 or 17, and is on none
    some = (n for n in TENS if n >= least and largest * 10.0**n < WHOLE)
    tens = (RoundingGrid("decimals", n) for n in some)
    digits = (RoundingGrid("digits", n) for n in range(fewest, MOST_DIGITS + 1))
    found = [_first_that_holds(tens, values), _first_that_holds(digits, values)]
    if largest < WHOLE and (values == np.rint(values)).all():
        size = int(np.gcd.reduce(values.astype(np.int64)))
        if size > 1 and 10 ** (len(str(size)) - 1) != size:
            found.append(RoundingGrid("multiple", size))
    found += [_first_that_holds(iter([RoundingGrid(kind)]), values) for kind in STORED]
    return [grid for grid in found if grid is not None]


def units_of(values: Numbers) -> list[RoundingGrid]:
    """The largest unit of time of which all instants, in microseconds, are multiples."""
    grid = _first_that_holds((RoundingGrid("unit", size) for size in UNITS.values()), values)
    return [] if grid is None else [grid]


class Common(NamedTuple):
    """How the numbers of several tables are compared, and the table for which they are rounded."""

    grid: RoundingGrid
    table: int


def common_grid(
    tables: Sequence[Numbers],
    counts: Sequence[Ints] | None = None,
    grids: Callable[[Numbers], list[RoundingGrid]] = grids_of,
) -> Common:
    """The grid at which files share most values with the original; ``counts``: their records."""
    counts = counts or [np.ones(len(values), dtype=np.int64) for values in tables]
    best = Common(EXACT, 0)
    if not all(len(values) for values in tables):
        return best
    most = _shared(tables, counts, EXACT)
    if most == (1, 1):
        return best
    found = [(t, grid) for t, values in enumerate(tables) for grid in grids(values)]
    for t, grid in found:
        if not _tells(grid, tables[t], tables):
            continue
        sides = SIDES if grid.kind in ("decimals", "digits", "multiple") else ("",)
        for one in (grid._replace(how=how) for how in sides):
            shared = _shared(tables, counts, one)
            if shared > most and shared[0] > 0:
                best, most = Common(one, t), shared
    return best


def _tells(grid: RoundingGrid, values: Numbers, tables: Sequence[Numbers]) -> bool:
    """Whether a table lies on a grid of its own: others have values, not 0, that do not."""
    count, by_chance = int((values != 0).sum()), BY_CHANCE.get(grid.kind, 1 / (grid.n or 1))
    count -= grid.kind == "multiple"  # any value is a multiple of itself
    for other in tables:
        if other is values or other.dtype == object:
            continue
        on = int((grid.holds(other) & (other != 0)).sum())
        there = int((other != 0).sum())
        share = max(by_chance, (on + by_chance) / (there + 1))
        if on < there and share**count <= CHANCE:
            return True
    return False


def _shared(
    tables: Sequence[Numbers], counts: Sequence[Ints], grid: RoundingGrid
) -> tuple[float, float]:
    """Of the files' distinct values the share among the original's, on a grid; of records alike."""
    shares, alike = [], []
    levels, place = np.unique(grid.rounded(tables[0]), return_inverse=True)
    own = np.bincount(place, counts[0]) / max(counts[0].sum(), 1)
    for values, count in zip(tables[1:], counts[1:], strict=True):
        step = len(values) // SAMPLE + 1
        some, times = grid.rounded(values[::step]), count[::step]
        where = np.minimum(np.searchsorted(levels, some), len(levels) - 1)
        there = levels[where] == some
        shares.append(float(there.mean()) if len(some) else 1.0)
        theirs = np.bincount(where[there], times[there], len(levels)) / max(times.sum(), 1)
        alike.append(float(np.minimum(own, theirs).sum()))
    return (float(np.mean(shares)), float(np.mean(alike))) if shares else (1.0, 1.0)


def numbered_values(values: Numbers) -> npt.NDArray[np.int64]:
    """Number of each distinct value, the same within `SAME` unless both are whole."""
    order = np.argsort(values)
    new = np.ones(len(values), dtype=np.int64)
    ordered = values[order]
    if values.dtype.kind == "f":
        low, high = ordered[:-1], ordered[1:]
        with np.errstate(over="ignore", invalid="ignore"):
            apart = high - low > SAME * np.minimum(np.abs(low), np.abs(high))
        whole = ordered == np.rint(ordered)
        new[1:] = apart | (whole[:-1] & whole[1:] & (high != low))
    elif len(values):
        new[1:] = ordered[1:] != ordered[:-1]
    found = np.empty(len(values), dtype=np.int64)
    found[order] = np.cumsum(new) - 1
    return found


def shortest(values: Array) -> Array:
    """Numbers, those of single precision as the shortest decimals that are stored so."""
    distinct, place = np.unique(values, return_inverse=True)
    some = SINGLE.holds(distinct) & (distinct != np.rint(distinct))
    distinct[some] = [float(str(x)) for x in distinct[some].astype(np.float32)]
    return np.asarray(distinct[place].reshape(np.shape(values)))


def snapped(values: Array, genuine: Array) -> Array:
    """Numbers (...,), those that one genuine one was stored as, in fewer digits, replaced by it."""
    distinct, place = np.unique(values, return_inverse=True)
    originals = np.unique(genuine)
    originals, distinct = originals[np.isfinite(originals)], distinct.copy()
    strange = np.isfinite(distinct) & ~np.isin(distinct, originals)
    stored = distinct[strange]
    if not len(stored) or not len(originals):
        return values

    def storage(of: Numbers) -> list[RoundingGrid]:
        """Grids of numbers that were stored in fewer digits than they have."""
        least = 6 if of is stored else 15
        found = grids_of(of)
        return [g for g in found if g.kind in STORED or (g.kind == "digits" and g.n >= least)]

    grid = common_grid([originals, stored], grids=storage).grid
    if grid.kind != "exact":
        at, those = grid.rounded(originals), grid.rounded(stored)
        levels, first, count = np.unique(at, return_index=True, return_counts=True)
        where = np.minimum(np.searchsorted(levels, those), len(levels) - 1)
        known = (levels[where] == those) & (count[where] == 1)
        distinct[strange] = np.where(known, originals[first[where]], stored)
    return np.asarray(distinct[place].reshape(np.shape(values)))
