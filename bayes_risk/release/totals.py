"""Totals that files keep, and groups of persons who all have the same value.

*Totals.* Who knows all other persons of a group, and its total, knows the last value by
subtraction. A file that was drawn has another total: of values that differ by ``d_i`` from the
original's, its sum differs by about a normal number of variance ``v^2 = sum_i d_i^2`` or, if the
original's residuals cancel, half of it. It then lies within t of the original's sum with a
probability of about ``2 t / (v sqrt(2 pi))``; twice that is taken. So of sums of squares, of logs
and of products with kept numbers, on which means, variances and coefficients of regressions rest.

*Groups.* In a group of s persons, of a column in which a share q of the others has some value,
all have it by chance with probability ``q^s``.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import bdtrc

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import counted
from bayes_risk.data.variables import within_range

from .tables import Tables

LEVEL = 1e-4  # probability of a false alarm, of all sums together
SAME = 1e-9  # difference of sums of numbers that have no unit, as a share of their size
DECIMALS, HEAPED = 6, 0.5  # of units; share of differences that are multiples of a larger unit
LEAST = 5  # records that differ, below which nothing is said of their sum
GROUPS, RARE = 3, 0.1  # of a column whose groups are compared; share of those that may be alike
KNOWN = 0.5  # share of the others with a value above which it is no news
# what is added up, and by how much a unit changes it
FORMS: dict[str, tuple[Callable[[Array], Array], Callable[[Array, float], Array]]] = {
    "sum": (lambda x: x, lambda x, unit: np.full_like(x, unit)),
    "sum of squares": (np.square, lambda x, unit: 2 * np.abs(x) * unit),
    "sum of logs": (np.log, lambda x, unit: unit / x),
}


class Total(NamedTuple):
    """In ``found`` of ``of`` groups a file has the original's sum, with p-value ``p``.

    ``by``: the kept column that makes the groups, or the kept number that each value is multiplied
    by (``times``); empty: the whole file. ``persons``: members of the groups found.
    """

    file: int  # counted from 1
    column: str
    form: str
    by: str
    times: bool
    of: int
    found: int
    p: float
    persons: int

    def sentence(self, n: int) -> str:
        """Say it in plain words, without a full stop."""
        where = f" in {self.found:,} of {counted(self.of, 'group')} of {self.by}"
        product = f", multiplied by {self.by}," if self.times else ""
        return (
            f"File {self.file} keeps the {self.form} of {self.column}{product}"
            f"{where if self.by and not self.times else ''}: an intruder who knows all others of a "
            f"group can compute the last value, of {self.persons:,} of the {n:,} persons"
        )


class Alike(NamedTuple):
    """``found`` groups of a kept column whose ``persons`` all have one value of another.

    ``p``: probability that the least likely of them is alike by chance.
    """

    by: str
    column: str
    found: int
    persons: int
    p: float


class KeptTotals(NamedTuple):
    """What files keep beyond chance: sums, and groups of persons with the same value."""

    totals: tuple[Total, ...] = ()  # those of the most persons first
    alike: tuple[Alike, ...] = ()

    def first(self, m: int) -> "KeptTotals":
        """The same of the first m files alone."""
        return self._replace(totals=tuple(one for one in self.totals if one.file <= m))


def kept_exactly(tables: Tables) -> KeptTotals:
    """Sums of synthesised amounts that files keep, and kept groups with one value; no value."""
    named = tables.identifiers()
    names = [c for c in tables.names if c not in named and tables.compared(c)]
    tests = [one for l in range(1, tables.m + 1) for one in _totals(tables, names, l)]
    kept = [one._replace(p=min(1.0, one.p * len(tests))) for one in tests]
    kept = [one for one in kept if one.p <= LEVEL]
    order = sorted(kept, key=lambda one: (-one.persons, one.p))
    return KeptTotals(tuple(order), tuple(_alike(tables, names)))


def _numbers(tables: Tables, name: str) -> list[Array]:
    """An amount in each table at its own precision, none above 1e30; empty: it is none."""
    column = tables.column(name)
    if column.kind != "numbers" or tables.is_category(name):
        return []
    if not tables.frames:
        return within_range([column.values[codes] for codes in column.codes[: tables.m + 1]])
    try:
        return within_range(tables.numbers(name)[: tables.m + 1])
    except InputError:
        return []


def _same_counts(tables: Tables, name: str, l: int) -> bool:
    """Whether a file has every value of a column as often as the original, in whatever row."""
    column = tables.column(name)
    if tables.corresponds[l - 1]:
        return bool(np.array_equal(column.codes[0], column.codes[l]))
    counts = [np.bincount(column.codes[k], minlength=column.size) for k in (0, l)]
    return bool(np.array_equal(counts[0], counts[1]))


# --- totals ---------------------------------------------------------------------------------------


class _Parts(NamedTuple):
    """Groups of the records of two tables; ``times``: what each value is multiplied by."""

    by: str
    cells: tuple[Ints, Ints]
    times: tuple[Array, Array] | None = None


def _totals(tables: Tables, names: list[str], l: int) -> Iterator[Total]:
    """Every sum of a file that is compared with the original's; p-values of each alone."""
    kept = [c for c in names if _same_counts(tables, c, l)]
    nothing = tuple(np.zeros(int(tables.sizes[k]), np.int64) for k in (0, l))
    parts = [_Parts("", (nothing[0], nothing[1]))]
    for name in kept:
        codes = tables.column(name).codes
        if tables.is_category(name):
            parts.append(_Parts(name, (codes[0], codes[l])))
        elif numbers := _numbers(tables, name):
            times = np.nan_to_num(numbers[0]), np.nan_to_num(numbers[l])
            parts.append(_Parts(name, (nothing[0], nothing[1]), times))
    for name in (c for c in names if c not in kept):
        if found := _numbers(tables, name):
            for part in parts:
                yield from _sums(
                    name, l, (found[0], found[l]), part, bool(tables.corresponds[l - 1])
                )


def _sums(
    name: str, l: int, values: tuple[Array, Array], part: _Parts, own: bool
) -> Iterator[Total]:
    y, z, times, cells = *values, part.times, part.cells
    there = ~np.isnan(y), ~np.isnan(z)
    size = 1 + int(max(c.max() for c in cells))
    n, N = (np.bincount(c[t], minlength=size) for c, t in zip(cells, there, strict=True))
    at = _partner((y, z), cells, own)
    unit = _unit(np.concatenate([y[there[0]], z[there[1]]]))
    for form, (f, change) in FORMS.items():
        if form == "sum of logs" and not ((y[there[0]] > 0).all() and (z[there[1]] > 0).all()):
            continue
        a, b = np.zeros(len(y)), np.zeros(len(z))
        a[there[0]], b[there[1]] = f(y[there[0]]), f(z[there[1]])
        if times is not None:
            a, b = a * times[0], b * times[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.where(N > 0, n / N, 0.0)
        d = b[at] - a
        heap = _heap(d, unit) if form == "sum" and times is None else 0.0
        moved = np.bincount(cells[0], d * d, size)
        changed = np.bincount(cells[0], d != 0, size)
        # values of the original in another order are judged as values
        swapped = _same_values(a, b, cells, size)
        use = (changed >= min(LEAST, len(y))) & ~swapped & (n > 1) & (N > 0)
        if not use.any():
            continue
        apart = np.abs(np.bincount(cells[0], a, size) - scale * np.bincount(cells[1], b, size))
        much = np.bincount(cells[0], np.abs(a), size)
        weight = 1.0 if times is None else np.abs(times[1])
        error = np.where(there[1], weight * change(np.where(there[1], z, 1.0), unit), 0.0)
        rounded = 2 * scale * np.sqrt(np.bincount(cells[1], error**2, size) / 6)
        limits = [rounded if unit else SAME * much]
        if unit and form == "sum" and times is None:
            limits.append(np.full(size, unit / 2))
        for within in limits:
            step = np.maximum(within, heap / 2)
            chance = np.minimum(1.0, 4 * step / np.sqrt(2 * math.pi * np.maximum(moved, 1e-300)))
            hit = use & (apart <= np.maximum(within, 1e-12 * much))
            K, found = int(use.sum()), int(hit.sum())
            p = float(bdtrc(found - 1, K, float(chance[use].mean())))
            persons = int(n[hit].sum())
            yield Total(l, name, form, part.by, times is not None, K, found, p, persons)


def _partner(values: tuple[Array, Array], cells: tuple[Ints, Ints], own: bool) -> Ints:
    """The row of the file that goes with each record: its own, or that of its rank in its cell."""
    if own:
        return np.arange(len(values[0]))
    orders = [np.lexsort((v, c)) for v, c in zip(values, cells, strict=True)]
    size = 1 + int(max(c.max() for c in cells))
    n, N = (np.bincount(c, minlength=size) for c in cells)
    start, begin = (np.concatenate([[0], np.cumsum(k)[:-1]]) for k in (n, N))
    cell = cells[0][orders[0]]
    rank = (np.arange(len(cell)) - start[cell] + 0.5) / n[cell]
    found = np.empty(len(cell), np.int64)
    last = len(values[1]) - 1
    found[orders[0]] = orders[1][np.minimum(begin[cell] + (rank * N[cell]).astype(int), last)]
    return found


def _same_values(a: Array, b: Array, cells: tuple[Ints, Ints], size: int) -> Flags:
    """Cells in which two tables have the same values, in whatever order."""
    if len(a) != len(b):
        return np.zeros(size, bool)
    one, other = (np.lexsort((v, c)) for v, c in zip((a, b), cells, strict=True))
    differs = (a[one] != b[other]) | (cells[0][one] != cells[1][other])
    wrong = np.bincount(cells[0][one], differs, size) + np.bincount(cells[1][other], differs, size)
    return np.asarray(wrong == 0)


def _unit(values: Array) -> float:
    """The unit of which all numbers are multiples; 0: none of up to six decimals."""
    for k in range(DECIMALS + 1):
        scaled = values * 10.0**k
        least = min(1.0, float(np.abs(scaled).max(initial=0.0)))  # all may be near 0
        if (np.abs(scaled - np.rint(scaled)) <= 1e-9 * np.maximum(np.abs(scaled), least)).all():
            return 10.0**-k
    return 0.0


def _heap(d: Array, unit: float) -> float:
    """The largest ten-fold of the unit of which half of the differences are multiples."""
    whole, heap = np.rint(d[d != 0] / unit) if unit else np.zeros(0), unit
    while len(whole) and (whole % 10 == 0).mean() >= HEAPED and np.abs(whole).max() >= 10:
        whole, heap = np.rint(whole[whole % 10 == 0] / 10), 10 * heap
    return heap


# --- groups ---------------------------------------------------------------------------------------


def _alike(tables: Tables, names: list[str]) -> Iterator[Alike]:
    """Groups of a kept column in which all have a value that most others do not have."""
    files = range(1, tables.m + 1)
    kept = [
        c for c in names if tables.is_category(c) and all(_same_counts(tables, c, l) for l in files)
    ]
    if not tables.corresponds.all():
        kept = []
    codes = {c: np.unique(tables.column(c).codes[0], return_inverse=True)[1] for c in kept}
    tests = sum(int(codes[c].max()) + 1 for c in kept) * max(len(kept) - 1, 1)
    for by in kept:
        groups = np.bincount(codes[by])
        for column in kept:
            levels = int(codes[column].max()) + 1
            if by == column or len(groups) < GROUPS or levels < 2:
                continue
            table = np.bincount(codes[by] * levels + codes[column], minlength=len(groups) * levels)
            table = table.reshape(len(groups), levels)
            full = table.max(axis=1) == groups
            most = table.argmax(axis=1)
            others = (table.sum(axis=0)[most] - table.max(axis=1)) / (tables.n - groups)
            with np.errstate(divide="ignore"):
                log_p = groups * np.log(others) + math.log(tests)
            rare = full & (others <= KNOWN)
            found = rare & (log_p <= math.log(LEVEL))
            if found.any() and rare.sum() <= max(1, RARE * len(groups)):
                p = math.exp(float(log_p[found].min()))
                yield Alike(by, column, int(found.sum()), int(groups[found].sum()), p)
