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
from scipy.special import bdtrc

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError

from .precision import CHANCE, EXACT, SAME, WHOLE, common_grid, grids_of, joined, snapped, units_of
from .spelling import Values, missing_words, respelled, values_of

FEW_LEVELS = 100  # of a category
ENOUGH = 20  # records that tell whether a table has the original's values


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


def coded(
    name: str,
    columns: Sequence[pd.Series],
    places: Sequence[str] = (),
    times: Sequence[Ints] | None = None,
) -> Coded:
    """Code a column over the original and further tables, which messages call ``places``.

    ``times``: how many records each row stands for; by default one. Only distinct values are
    compared: a million records cost a hash each.

    Raises
    ------
    InputError
        Values that could never be equal to the original's.
    """
    places = places or [place_of(l) for l in range(len(columns))]
    read = _read(name, columns, places, times)
    distinct = list({id(one[0]): one for one in read.parts}.values())
    levels, numbers, grid = _levels(
        read.kind, [one[1] for one in distinct], [one[2] for one in distinct]
    )
    notes = list(read.notes)
    if grid:
        t = next(l for l, one in enumerate(read.parts) if one[0] is distinct[grid[0]][0])
        notes.append(f"{name} is compared at {grid[1]}, as {places[t]} has it")
    of = {id(one[0]): level for one, level in zip(distinct, levels, strict=True)}
    size = 1 + max(int(level.max(initial=0)) for level in levels)
    kept: Any = np.int32 if size < 2**31 else np.int64  # half the memory
    codes = tuple(np.append(of[id(one[0])], 0).astype(kept)[one[0]] for one in read.parts)
    n_values = tuple(len(one[1]) for one in read.parts)
    found = Coded(codes, size, read.kind, numbers, tuple(notes), "", n_values)
    if read.shares_levels:
        return found
    shown = [(of[id(one[0])], *one[1:]) for one in read.parts]
    apart = (
        _apart(name, read.kind, shown[0], one, l) for l, one in zip(places, shown, strict=True)
    )
    return found._replace(apart=next(filter(None, apart), ""))


class _Read(NamedTuple):
    """A column of every table: kind, notes, and of each table three arrays.

    The place of each record's value among distinct ones (-1: missing), these, and their records.
    ``shares_levels``: some table has a level that was declared and nobody holds.
    """

    kind: str
    parts: list[tuple[Ints, npt.NDArray[Any], Ints]]
    notes: list[str]
    shares_levels: bool


def _read(
    name: str,
    columns: Sequence[pd.Series],
    places: Sequence[str],
    times: Sequence[Ints] | None = None,
) -> _Read:
    """Distinct values of every table in the original's terms."""
    found: dict[int, tuple[Ints, npt.NDArray[Any], Ints]] = {}
    first, notes, declared = Values("", np.zeros(0)), list[str](), False
    for l, (column, place) in enumerate(zip(columns, places, strict=True)):
        if id(column) in found:
            continue
        where, distinct = pd.factorize(column)
        count = np.bincount(where + 1, None if times is None else times[l], len(distinct) + 1)
        values = values_of(distinct)
        held, original = values.held, found.get(id(columns[0]))
        if original is None:
            first = values
        else:
            pair = places[0], place
            same = respelled(name, first, values, original[2][0] > 0, pair)
            held = same.held
            if first.levels is not None:
                declared |= bool(pd.Index(held).isin(set(first.known) - set(first.held)).any())
            notes += [f"{name} of {place} is read {same.in_words()}"] if same.how else []
            words = [] if original[2][0] or not count[0] else missing_words(first)
            if len(words) == 1 and words[0] not in held:  # missing in the original's terms
                held, where = np.append(held, words), np.where(where < 0, len(held), where)
                count = np.append(0, np.roll(count, -1))
                notes.append(f"missing values of {name} in {place} are a word in {places[0]}")
        found[id(column)] = where, held, count
    every = [found[id(column)] for column in columns]
    parts = [(where, held, count[1:]) for where, held, count in every]
    return _Read(first.kind, parts, notes, declared)


def numbers_of(name: str, columns: Sequence[pd.Series], places: Sequence[str]) -> list[Array]:
    """Numbers of a column in every table, NaN where missing; those stored in fewer digits exact.

    Raises
    ------
    InputError
        The column holds no numbers, or a table holds text that is none.
    """
    read = _read(name, columns, places)
    if read.kind not in ("numbers", "truth values"):
        raise InputError(f"column {name!r} of {places[0]} holds {read.kind}; give numbers")
    found = [np.append(held.astype(np.float64), np.nan)[where] for where, held, _ in read.parts]
    return [
        found[0],
        *(values if values is found[0] else snapped(values, found[0]) for values in found[1:]),
    ]


def coded_numbers(name: str, parts: Sequence[Array]) -> Coded:
    """`coded` of numbers that are there, all in double precision."""
    return coded(name, [pd.Series(part) for part in parts])


def place_of(l: int) -> str:
    """Name of table l, the original being table 0."""
    return "the original" if l == 0 else f"release {l}"


def _levels(
    kind: str, tables: Sequence[npt.NDArray[Any]], counts: Sequence[Ints]
) -> tuple[list[Ints], Array, tuple[int, str] | None]:
    """Codes from 1 of the distinct values of each table, None being missing: 0."""
    there = [pd.notna(held) for held in tables]
    known = [held[some] for held, some in zip(tables, there, strict=True)]
    grid, numbers = None, np.zeros(0)
    if kind in ("numbers", "dates"):
        known = _one_kind([_numeric(h) for h in known])
        times = [count[some] for count, some in zip(counts, there, strict=True)]
        common = common_grid(known, times, units_of if kind == "dates" else grids_of)
        if common.grid != EXACT:
            known = [common.grid.rounded(h) for h in known]
            grid = common.table, common.grid.in_words()
        every = np.concatenate(known)
        distinct, first = pd.factorize(every)
        rank = joined(np.asarray(first))[distinct]
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


def _numeric(held: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers in an array of objects as int64 or double precision, unless they fit neither."""
    if held.dtype != object or not len(held):
        return held.astype(np.float64) if held.dtype == object else held
    if all(isinstance(v, int | np.integer) for v in held):
        return held if max(map(abs, held)) >= 2**63 else held.astype(np.int64)
    return held.astype(np.float64)


def _one_kind(held: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Whole numbers of all tables as they are; beside real ones in double precision."""
    if len({h.dtype for h in held}) == 1:
        return held
    if all(h.dtype != np.float64 or not len(h) for h in held):
        return [h.astype(object) for h in held]
    real = [h for h in held if h.dtype == np.float64]
    if all((np.abs(h) < WHOLE).all() and (h == np.rint(h)).all() for h in real):
        return [h.astype(np.int64) if h.dtype == np.float64 else h for h in held]
    return [h.astype(np.float64) for h in held]


def _apart(
    name: str,
    kind: str,
    original: tuple[Ints, npt.NDArray[Any], Ints],
    file: tuple[Ints, npt.NDArray[Any], Ints],
    place: str,
) -> str:
    """Say that values of a table can hardly be the original's, in the same unit and spelling.

    ``original``, ``file``: codes of the distinct values, these, and their records. By chance a
    record has a value that is not among the original's with probability ``N_1 / n`` (Good 1953).
    A number may well be new, but for those of few values; and text of many levels.
    """
    (own, known, records), (shown, held, times) = original, file
    there = shown > 0
    strange = there & ~np.isin(shown, own)
    new, n = int(times[strange].sum()), int(times[there].sum())
    text, few = kind == "text", 1 < len(own) <= FEW_LEVELS
    most = new == n or (text and 2 * new > n)
    if new and kind == "numbers" and 2 * new > n:
        if unit := _unit(known.astype(np.float64), held[there].astype(np.float64)):
            return (
                f"numbers of column {name!r} of {place} seem to be {unit} those of the original; "
                "write them in the same unit"
            )
    chance = ((records == 1).sum() + 1) / (records.sum() + 1)
    by_chance = bdtrc(new - 1, n, chance) if new else 1.0
    if not most or not (few and by_chance <= CHANCE or text and n >= ENOUGH and new == n):
        return ""
    return (
        f"{'no value' if new == n else 'few values'} of column {name!r} of {place} "
        f"{'is' if new == n else 'are'} among the {len(own):,} values of the original; write it "
        "with the same codes, labels or unit, or leave the column out"
    )


def _unit(own: Array, shown: Array) -> str:
    """Of which power of ten a table's numbers are times the original's; empty: of none."""
    known = np.sort(own[np.isfinite(own) & (own != 0)])
    some = shown[np.isfinite(shown) & (shown != 0)]
    if len(known) < 2 or len(some) < ENOUGH:
        return ""
    best, most = "", 0.5 * len(some)
    for power in (-6, -3, -2, -1, 1, 2, 3, 6):
        scaled = some / 10.0**power
        place = np.minimum(np.searchsorted(known, scaled * (1 - SAME)), len(known) - 1)
        count = int((np.abs(known[place] - scaled) <= SAME * np.abs(scaled)).sum())
        if count > most:
            best, most = f"{10.0**power:,.12g} times", count
    return best
