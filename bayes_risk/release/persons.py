"""Persons of several records: who holds what, counted once a person.

Panels have a row for each wave, household files one for each member. Where persons are
exchangeable, not their rows, a test takes one decision a person: docs/reading-the-numbers.md.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.nearest import Two
from bayes_risk.data.columns import why_identifier
from bayes_risk.data.variables import check_cells

NAMES = "it names persons"
ROUNDING = 1e-12  # relative, of sums of squares


def persons_of(column: pd.Series) -> Ints:
    """Number of each row's person, from 0; each must be known."""
    check_cells(column, str(column.name), "the original")
    if absent := int(column.isna().sum()):
        raise InputError(
            "person",
            column.name,
            f"is missing in {absent:,} of {len(column):,} records; give each record the number of "
            "its person",
        )
    return np.asarray(pd.factorize(column)[0], np.int64)


def persons_of_file(file: pd.DataFrame, name: str, own: Ints, corresponds: bool) -> Ints:
    """The same of a file: by its own column, or its rows' persons; else each row is one."""
    if isinstance(column := file.get(name), pd.Series) and not column.is_unique:
        found = np.asarray(pd.factorize(column, use_na_sentinel=False)[0], np.int64)
        if np.bincount(found).max() <= np.bincount(own).max():
            return found
    return own if corresponds else np.arange(len(file))


def why_person(column: pd.Series, name: str) -> str:
    """How a column of persons is seen to name them, or to number them only."""
    distinct = pd.Series(column.unique())
    return why_identifier(distinct, name) or NAMES


def holders(codes: Ints, persons: Ints | None, size: int) -> Ints:
    """How many persons have each code, of ``0 .. size - 1``."""
    if persons is None:
        return np.bincount(codes, minlength=size)
    P = 1 + int(persons.max(initial=0))
    return np.bincount(np.unique(codes.astype(np.int64) * P + persons) // P, minlength=size)


def each_once(
    cells: Sequence[Ints], persons: Sequence[Ints | None], pairs: Ints, rows: Sequence[Ints] | None
) -> Ints:
    """Of cells that two persons have the first of both; ``rows``: the same rows of both tables."""
    y, z = persons
    if y is None or z is None:
        return pairs
    P, Q = 1 + int(y.max(initial=0)), 1 + int(z.max(initial=0))
    cell, unit = np.concatenate(cells), np.concatenate([y, P + z])
    there = np.isin(cell, pairs)
    both = np.unique(np.column_stack([cell[there], unit[there]]), axis=0)
    cell, first, second = both[::2, 0], both[::2, 1], both[1::2, 1]
    if rows is not None:
        other = ~np.isin(first * (P + Q) + second, y[rows[0]] * (P + Q) + P + z[rows[1]])
        cell, first, second = cell[other], first[other], second[other]
    seen = np.column_stack([first, second]).ravel()
    new = np.zeros(len(seen), bool)
    new[np.unique(seen, return_index=True)[1]] = True
    return np.asarray(cell[new.reshape(-1, 2).all(axis=1)])


def each_or(persons: Ints | None, rows: Ints) -> Ints:
    """Persons of some rows; the rows themselves where each is one."""
    return rows if persons is None else persons


def cells_of(cell: Ints, persons: Ints) -> Ints:
    """Cells of rows: of persons with the same cells, and the place among their rows."""
    order = np.lexsort((cell, persons))
    of = persons[order]
    start = np.flatnonzero(np.diff(of, prepend=-1))
    lengths = np.diff(np.append(start, len(of)))
    place = np.arange(len(of)) - np.repeat(start, lengths)
    wide = np.full((len(start), int(lengths.max(initial=0))), -1)
    wide[np.repeat(np.arange(len(start)), lengths), place] = cell[order]
    alike = np.unique(wide, axis=0, return_inverse=True)[1].ravel()
    found = np.empty_like(cell)
    found[order] = np.repeat(alike, lengths) * wide.shape[1] + place
    return np.asarray(np.unique(found, return_inverse=True)[1])


class Own(NamedTuple):
    """Persons looked at, those whose nearest is their own, and those expected by chance."""

    of: int
    found: float
    cells: float
    fold: float = 1.0  # persons for whom one that is looked at stands


def bounds(own: Array, persons: Ints) -> Array:
    """Of each row the squared distance below which no row of its person is the nearest."""
    of = np.unique(persons, return_inverse=True)[1]
    least = np.full(len(own), np.inf)
    np.minimum.at(least, of, own)
    return np.asarray(least[of] * (1 - ROUNDING))


def own_nearest(near: Two, own: Array, persons: Ints, size: Ints, times: float = 1.0) -> Own:
    """Whether the row that comes nearest to any row of a person is the person's own.

    ``near``: of each row the nearest released one in its cell; ``own``: squared distance of its own
    row; ``size``: persons of each row's cell. Rows that are equally near share one decision. Who
    counts has a nearest row that is so many ``times`` nearer than the next: all, if no own row is.
    """
    of, first, person = np.unique(persons, return_index=True, return_inverse=True)
    least = np.full(len(of), np.inf)
    np.minimum.at(least, person, near.first)
    nearest: Flags = near.first <= least[person] * (1 + ROUNDING)
    ties = np.bincount(person, near.ties * nearest)
    hit = np.bincount(person, nearest & (own <= least[person] * (1 + ROUNDING))) > 0
    next_one = np.full(len(of), np.inf)
    np.minimum.at(next_one, person[nearest], near.second[nearest])
    use = (next_one > times**2 * least) | (times == 1)
    found = float((hit / ties)[use].sum())
    use |= not found
    return Own(int(use.sum()), found, float((1 / size[first][use]).sum()))


def one_row(persons: Ints) -> Ints:
    """A row of each person, at random; the same in every run."""
    order = np.random.default_rng(0).permutation(len(persons))
    return np.sort(order[np.unique(persons[order], return_index=True)[1]])


def person_columns(found: Any, persons: Ints | None) -> dict[str, Any]:
    """Columns of `Exposure.files`: persons, and those of whom some row is identical or unique."""
    if persons is None:
        return {}
    P = 1 + int(persons.max())

    def shown(flags: Flags) -> Ints:
        return np.array([holders(one.astype(np.int64), persons, 2)[1] for one in flags.T])

    own = np.where(found.corresponds, shown(found.identical), shown(found.found))
    return {"persons": P, "identical_persons": own, "replicated_persons": shown(found.replicated)}


def stacked_persons(persons: Sequence[Ints | None], n: int, N: int) -> tuple[Ints, int]:
    """Persons of n rows of the original and of a file's rows, N in all; where the file's begin."""
    y, z = persons
    if y is None or z is None:
        return np.arange(N), n
    P = 1 + int(y.max(initial=0))
    return np.concatenate([y, P + z]), P
