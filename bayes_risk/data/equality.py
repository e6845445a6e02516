"""When values of two tables are equal: the one definition, and codes that follow it.

* Missing equals missing.
* Whole numbers are equal exactly, however large and however stored. Other numbers are equal at the
  precision of the coarser table (`precision`).
* Dates are instants in UTC, or days where a table holds days alone.
* Categories and text are equal by level, after a re-spelling that is certain (`spelling`).

What could never be equal is refused: text against numbers. A column of few levels of which a table
shows none is named.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import bdtrc, gammaln

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError, place_of

from .precision import (
    CHANCE,
    EXACT,
    SAME,
    WHOLE,
    common_grid,
    grids_of,
    numbered_values,
    snapped,
    units_of,
)
from .spelling import Values, missing_words, respelled, spelled_values
from .variables import within_range

FEW_LEVELS = 100  # of a category
ENOUGH = 20  # records that tell whether a table has the original's values
EXTREMES, SAMPLE = 8, 500  # numbers that say which multiple they are, and whether they are
ELSEWHERE = 0.1  # at most this share of numbers in other units lies between the quartiles
DENSE = 0.25  # of their range numbers cover, at most, for their multiples to be told


class Coded(NamedTuple):
    """One column of several tables, coded so that equal values have equal codes.

    ``codes``: of each table, below ``size``; 0: missing. ``values``: of the numbers or
    dates of each code, at the common precision, (size,), the first NaN; else empty. ``notes``: how
    tables were read that do not have the original's form. ``apart``: which table shows none of the
    original's few levels; empty: none is so. ``n_values``: distinct ones of each table as stored.
    """

    codes: tuple[Ints, ...]
    size: int
    kind: str
    values: Array
    notes: tuple[str, ...] = ()
    apart: str = ""
    n_values: tuple[int, ...] = ()

    @property
    def refusal(self) -> str:
        """What is ``apart``, unless all tables hold the same levels: then keys can be compared."""
        levels = [np.unique(part) for part in self.codes] if self.apart else []
        return self.apart if any(not np.array_equal(levels[0], one) for one in levels) else ""


def coded(
    name: str,
    columns: Sequence[pd.Series],
    places: Sequence[str] = (),
    times: Sequence[Ints] | None = None,
) -> Coded:
    """Code a column over tables that messages call ``places``; ``times``: records of each row."""
    places = places or [place_of(l) for l in range(len(columns))]
    kind, parts, notes, shares_levels = _read(name, columns, places, times)
    distinct = list({id(one.rows): one for one in parts}.values())
    levels, numbers, grid = _levels(kind, [d.values for d in distinct], [d.times for d in distinct])
    if grid:
        t = next(l for l, one in enumerate(parts) if one.rows is distinct[grid[0]].rows)
        notes.append(f"column {name!r} is compared at {grid[1]}, as {places[t]} has it")
    of = {id(one.rows): level for one, level in zip(distinct, levels, strict=True)}
    size = 1 + max(int(level.max(initial=0)) for level in levels)
    kept: Any = np.int32 if size < 2**31 else np.int64  # half the memory
    codes = tuple(np.append(of[id(one.rows)], 0).astype(kept)[one.rows] for one in parts)
    n_values = tuple(len(one.values) for one in parts)
    found = Coded(codes, size, kind, numbers, tuple(notes), "", n_values)
    if shares_levels:
        return found
    shown = [one._replace(codes=of[id(one.rows)]) for one in parts]
    shown = shown if times is None else [one._replace(rows=None) for one in shown]
    apart = (
        _apart(name, kind, shown[0], one, l)
        for l, one in zip(places, shown, strict=True)
        if one.values is not shown[0].values
    )
    return found._replace(apart=next(filter(None, apart), ""))


def _read(
    name: str,
    columns: Sequence[pd.Series],
    places: Sequence[str],
    times: Sequence[Ints] | None = None,
) -> tuple[str, list["_Shown"], list[str], bool]:
    """Kind, distinct values in the original's terms, notes, whether levels are told of alone."""
    found: dict[int, _Shown] = {}
    first, notes, declared = Values("", np.zeros(0)), list[str](), False
    for l, (column, place) in enumerate(zip(columns, places, strict=True)):
        if id(column) in found:
            continue
        where, distinct = pd.factorize(column)
        count = np.bincount(where + 1, None if times is None else times[l], len(distinct) + 1)
        values = spelled_values(distinct)
        shown, original = values.values, found.get(id(columns[0]))
        if original is None:
            first = values
        else:
            pair = places[0], place
            same = respelled(name, first, values, original.times[0] > 0, pair)
            shown = same.values
            if first.levels is not None:
                declared |= bool(pd.Index(shown).isin(set(first.known) - set(first.values)).any())
            notes += [f"{name} of {place} is read {same.in_words()}"] if same.how else []
            words = [] if original.times[0] or not count[0] else missing_words(first)
            if len(words) == 1 and words[0] not in shown:  # missing in the original's terms
                shown, where = np.append(shown, words), np.where(where < 0, len(shown), where)
                count = np.append(0, np.roll(count, -1))
                notes.append(f"missing values of {name} in {place} are a word in {places[0]}")
        found[id(column)] = _Shown(where, shown, count)
    every = [found[id(column)] for column in columns]
    parts = [one._replace(times=one.times[1:]) for one in every]
    return first.kind, parts, notes, declared


def numbers_of(name: str, columns: Sequence[pd.Series], places: Sequence[str]) -> list[Array]:
    """Numbers of a column in every table, NaN where missing; those stored in fewer digits exact."""
    kind, parts, *_ = _read(name, columns, places)
    if kind not in ("numbers", "truth values"):
        raise InputError(f"column {name!r} of {places[0]} holds {kind}; give numbers")
    found = [np.append(one.values.astype(np.float64), np.nan)[one.rows] for one in parts]
    return [
        found[0],
        *(values if values is found[0] else snapped(values, found[0]) for values in found[1:]),
    ]


def coded_numbers(name: str, parts: Sequence[Array]) -> Coded:
    """`coded` of numbers that are there, all in double precision and in the original's terms."""
    return coded(name, [pd.Series(part) for part in parts])._replace(apart="")


def _levels(
    kind: str, tables: Sequence[npt.NDArray[Any]], counts: Sequence[Ints]
) -> tuple[list[Ints], Array, tuple[int, str] | None]:
    """Codes from 1 of the distinct values of each table, None being missing: 0."""
    there = [pd.notna(values) for values in tables]
    known = [values[some] for values, some in zip(tables, there, strict=True)]
    grid, numbers = None, np.zeros(0)
    if kind in ("numbers", "dates"):
        stored = [_numeric(h) for h in known]
        known = _one_kind(stored)
        times = [count[some] for count, some in zip(counts, there, strict=True)]
        common = common_grid(known, times, units_of if kind == "dates" else grids_of)
        if common.grid != EXACT:
            known = [common.grid.rounded(h) for h in known]
            grid = common.table, common.grid.in_words()
        elif known[0].dtype == float:
            whole = [h for h in stored if h.dtype != float]
            if any((np.abs(h.astype(float)) > WHOLE).any() for h in whole):
                grid = next(t for t, h in enumerate(stored) if h.dtype == float), "double precision"
        every = np.concatenate(known)
        distinct, first = pd.factorize(every)
        rank = numbered_values(np.asarray(first))[distinct]
        code, of = pd.factorize(rank)
        numbers = np.append(np.nan, np.zeros(len(of)))
        numbers[1 + code[::-1]] = every[::-1].astype(np.float64)  # that of the first table
    else:
        code, _ = pd.factorize(np.concatenate([h.astype(object) for h in known]))
    cut = np.cumsum([len(h) for h in known])[:-1]
    levels = []
    for part, some in zip(np.split(code.astype(np.int64) + 1, cut), there, strict=True):
        full = np.zeros(len(some), dtype=np.int64)
        full[some] = part
        levels.append(full)
    return levels, numbers, grid


def _numeric(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers in an array of objects as int64 or double precision, unless they fit neither."""
    if values.dtype != object or not len(values):
        return values.astype(np.float64) if values.dtype == object else values
    if all(isinstance(v, int | np.integer) for v in values):
        return values if max(map(abs, values)) >= 2**63 else values.astype(np.int64)
    return values.astype(np.float64)


def _one_kind(arrays: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Whole numbers of all tables as they are; beside real ones in double precision."""
    if len({h.dtype for h in arrays}) == 1:
        return arrays
    if all(h.dtype != np.float64 or not len(h) for h in arrays):
        return [h.astype(object) for h in arrays]
    real = [h for h in arrays if h.dtype == np.float64]
    if all((np.abs(h) < WHOLE).all() and (h == np.rint(h)).all() for h in real):
        return [h.astype(np.int64) if h.dtype == np.float64 else h for h in arrays]
    return [h.astype(np.float64) for h in arrays]


class _Shown(NamedTuple):
    """A column of one table: the place of each record's value, -1: missing; distinct values."""

    rows: Any  # None: not known
    values: npt.NDArray[Any]
    times: Ints  # records of each value
    codes: Ints = np.zeros(0, np.int64)  # of each value

    def levels(self, n: int) -> Ints:
        """Records of each code, the first: of missing values; there are ``n`` records."""
        found = np.bincount(self.codes, self.times, self.codes.max(initial=0) + 1)
        found[0] += n - self.times.sum()
        return np.asarray(found.astype(np.int64))


def _apart(name: str, kind: str, original: _Shown, file: _Shown, place: str) -> str:
    """Say that values of a table can hardly be the original's, in the same unit and spelling."""
    own, shown, values, times = original.codes, file.codes, file.values, file.times
    there = shown > 0
    new, n = int(times[there & ~np.isin(shown, own)].sum()), int(times[there].sum())
    text, few = kind == "text", 1 < len(own) <= FEW_LEVELS
    most = new == n or (text and 2 * new > n)
    if kind in ("numbers", "dates") and 0 < n:
        known, stored = _one_kind([_numeric(original.values), _numeric(values[there])])
        if 2 * int(times[there][~np.isin(stored, known)].sum()) > n:
            real = within_range([known.astype(np.float64), stored.astype(np.float64)])
            unit = _unit(*real) or "in another unit than" * (
                2 * new > n and _is_multiple(*real, moved=kind == "dates")
            )
            if unit:
                return (
                    f"{kind} of column {name!r} of {place} seem to be {unit} those of the "
                    "original; write them in the same unit"
                )
    cure = "write it with the same codes, labels or unit, or leave the column out"
    fold, other = _fold(original.times), _fold(times[there])
    chance = ((original.times == fold).sum() + 1) / (original.times.sum() / fold + 1)
    by_chance = bdtrc(new // other - 1, n // other, chance) if new else 1.0
    if most and (few and by_chance <= CHANCE or text and n >= ENOUGH and new == n):
        return (
            f"{'no value' if new == n else 'few values'} of column {name!r} of {place} "
            f"{'is' if new == n else 'are'} among the {len(own):,} values of the original; {cure}"
        )
    if _recoded(original, file, text or few and len(values) <= FEW_LEVELS):
        return (
            f"values that many records of the original have in column {name!r} are missing from "
            f"{place}, and many there have others, which the original never has; {cure}; levels "
            "that were joined on purpose are joined in the original, too"
        )
    if _renamed(original, file, kind in ("numbers", "dates")):
        return (
            f"column {name!r} of {place} has another value for each of the original's, record by "
            f"record, as if it were the original's in another unit or other codes; {cure}"
        )
    return ""


def _fold(times: Ints) -> int:
    """How many times every value stands in a table at least: each counts once."""
    return max(int(np.gcd.reduce(times.astype(np.int64))), 1) if len(times) else 1


def _recoded(original: _Shown, file: _Shown, every: bool) -> bool:
    """Whether a common level of each table is absent in the other, beyond chance."""
    if original.rows is None or file.rows is None:
        n, m = int(original.times.sum()), int(file.times.sum())
    else:
        n, m = len(original.rows), len(file.rows)
    if not min(n, m):
        return False
    both = original.levels(n), file.levels(m)
    size = max(map(len, both))
    y, z = (np.pad(levels // _fold(levels), (0, size - len(levels))) for levels in both)
    level = CHANCE / size
    gone = (z == 0) & (y * np.log1p(m / n) > -np.log(level))  # (n / (n + m))^y: all fell to one
    come = (y == 0) & (z * np.log1p(n / m) > -np.log(level))
    return bool(gone.any() and come.any() and (every or gone[0] or come[0]))


def _renamed(original: _Shown, file: _Shown, ordered: bool) -> bool:
    """Whether another value stands for each of the original's, where records differ.

    The chance is that of an order of these records which pairs values one to one, or, of those
    that are `ordered`, in their order: ``prod c! prod s! / n!`` (s values have equally many
    records), ``2 prod c! / n!``. In order, but near the original's, they are not renamed: moved.
    """
    if original.rows is None or file.rows is None or len(original.rows) != len(file.rows):
        return False
    codes = [np.append(one.codes, 0) for one in (original, file)]
    size = max(len(file.codes), int(file.codes.max(initial=0))) + 2
    for rows in (slice(SAMPLE), slice(None)):  # few rows tell of most columns that they are not
        places = original.rows[rows], file.rows[rows]
        y, z = (code[place] for code, place in zip(codes, places, strict=True))
        if ordered:
            y, z = (np.where(v, place, -1) for v, place in zip((y, z), places, strict=True))
        both = (y + 1) * size + z + 1
        pairs, count = np.unique(both, return_counts=True)
        count = count // _fold(count)
        own, their = (found - 1 for found in np.divmod(pairs, size))
        if len(np.unique(own)) < len(own) or len(np.unique(their)) < len(their):
            return False
        there = (own >= 0) & (their >= 0)
        if ordered and there.all() and original.times.max(initial=0) == 1:  # their order decides
            steps = np.diff(file.values[their][np.argsort(original.values[own])])
            if (steps > 0).any() and (steps < 0).any():
                return False
    some = codes[0][own] != codes[1][their] if ordered else own != their
    own, their, count = own[some], their[some], count[some]
    n = int(count.sum())
    if n < ENOUGH:
        return False
    same = (np.sort(code[one.rows]) for code, one in zip(codes, (original, file), strict=True))
    if (next(same) == next(same)).all():  # the same values in another order of the rows
        return False
    ties = np.unique(count, return_counts=True)[1]
    among = gammaln(count + 1).sum() - gammaln(n + 1)
    if among + gammaln(ties + 1).sum() < np.log(CHANCE):
        return True
    if not ordered or min(own.min(), their.min()) < 0 or among + np.log(2) >= np.log(CHANCE):
        return False
    known, shown = original.values[own], file.values[their]
    low, high = np.quantile(known, [0.25, 0.75])
    steps = np.diff(shown[np.argsort(known)])
    elsewhere = ((low <= shown) & (shown <= high)).mean() < ELSEWHERE
    return bool(elsewhere and ((steps > 0).all() or (steps < 0).all()))


def _unit(own: Array, shown: Array) -> str:
    """Of which power of ten a table's numbers are times the original's; empty: of none."""
    known = own[np.isfinite(own) & (own != 0)]
    some = shown[np.isfinite(shown) & (shown != 0)]
    if len(known) < 2 or len(some) < ENOUGH:
        return ""
    known, some = np.sort(known), some[:: len(some) // SAMPLE + 1]
    best, most = "", 0.5 * len(some)
    for power in (-6, -3, -2, -1, 1, 2, 3, 6):
        scaled = some / 10.0**power
        count = int(_near(known, scaled, SAME * np.abs(scaled)).sum())
        if count > most:
            best, most = f"{10.0**power:,.12g} times", count
    return best


def _near(known: Array, values: Array, within: Array) -> Flags:
    """Which values have a known one near, of those in order."""
    place = np.minimum(np.searchsorted(known, values - within), len(known) - 1)
    return np.asarray(np.abs(known[place] - values) <= within)


@np.errstate(over="ignore", invalid="ignore")  # ratios of numbers to some near 0
def _is_multiple(known: Array, shown: Array, *, moved: bool) -> bool:
    """Whether most numbers are one multiple of known ones, or are ``moved`` by another zero."""
    known, shown = (np.sort(v[np.isfinite(v)]) for v in (known, shown))
    if min(len(known), len(shown)) < ENOUGH:
        return False
    own_step, step = last_decimal(known), last_decimal(shown)
    for middle in (False, True):
        y, z = (v - middle * v[len(v) // 2] for v in (known, shown))
        far = [v[np.argsort(-np.abs(v))[:EXTREMES]] for v in (y, z)]
        far = [v[v != 0] for v in far]
        few = slice(None, None, len(z) // SAMPLE + 1)
        some, hits, covered = z[few], [], []
        place = np.minimum(np.searchsorted(known, shown[few]), len(known) - 1)
        new = known[place] != shown[few]
        gaps = np.diff(y[len(y) // 4 : 3 * len(y) // 4 + 1])
        gaps = gaps[:: len(gaps) // SAMPLE + 1]
        factors = np.unique(far[1][:, None] / far[0][None, :])
        factors = factors[np.isfinite(factors)]
        for factor in factors if moved else factors[np.abs(factors - 1) > 0.01]:
            half = (1 + middle) * (step + abs(factor) * own_step) / 2  # of these, and of the factor
            within = half * (1 + np.abs(some) / np.abs(z).max()) + 1e-5 * np.abs(some)
            hits.append(
                int((new & _near((factor * y)[:: int(np.sign(factor))], some, within)).sum())
            )
            wide = 2 * np.median(within) / abs(factor)
            covered.append(float(np.minimum(gaps, wide).sum() / gaps.sum()))
        count, n = np.array(hits), len(some)
        chance = np.maximum(covered, np.median(hits or 0) / n)
        sure = bdtrc(count - 1, n, np.clip(chance, 1 / n, 1)) * len(count) <= CHANCE
        if (sure & (2 * count > n) & (chance <= DENSE)).any():
            return True
    return False


def last_decimal(values: Array) -> float:
    """The last decimal that numbers have; 0: they have all."""
    return next((10.0**-g.n for g in grids_of(values) if g.kind == "decimals"), 0.0)
