"""Distance to closest record: how near released records come to the original's."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SAME = 1e-9  # distances below are 0: the same record, but for rounding


class Values(NamedTuple):
    """One column: values of the original, of a release and of the holdout; number or category.

    Missing numbers are NaN; an empty holdout is length 0.
    """

    number: bool
    parts: tuple[Reals, Reals, Reals]


class Closest(NamedTuple):
    """Distances (n',) of looked-up released records to the original's, and what they compare with.

    ``within``: of as many records of the original to another of it; ``closer``: share of released
    records nearer to the original than to as large a holdout, ties half; NaN without one.
    """

    distance: Reals
    within: Reals
    closer: float


def closest(columns: Sequence[Values], lookups: int, rng: np.random.Generator) -> Closest:
    """Look up to ``lookups`` released records, drawn at random, up in the original."""
    original, release, holdout = (_placed(columns, part) for part in range(3))
    choose, own, cut = rng.spawn(3)
    asked = release[_drawn(len(release), lookups, choose)]
    with threadpool_limits(limits=1, user_api="blas"):
        distance = _nearest(original, asked)
        rows = _drawn(len(original), lookups, own)
        within = _nearest(original, original[rows], rows)
        closer = float("nan")
        if len(holdout):
            size = min(len(original), len(holdout))
            a, b = (_nearest(t[_drawn(len(t), size, cut)], asked) for t in (original, holdout))
            closer = float(((a < b - SAME) + 0.5 * (np.abs(a - b) <= SAME)).mean())
    return Closest(distance, within, closer)


def _placed(columns: Sequence[Values], part: int) -> Reals:
    """Records as points, (n, K): numbers over the original's range, 1 between any two levels."""
    return np.column_stack([c for column in columns for c in _coordinates(column, part)])


def _coordinates(column: Values, part: int) -> list[Reals]:
    own = column.parts[part]
    if column.number:
        first = column.parts[0]
        low, high = np.nanmin(first), np.nanmax(first)
        scale = high - low if high > low else 1.0
        absent = np.isnan(own)
        points = [np.where(absent, 0.5, (own - low) / scale)]
        any_absent = any(np.isnan(p).any() for p in column.parts)
        return [*points, absent.astype(float)] if any_absent else points
    levels = np.unique(np.concatenate(column.parts))
    # dummies over root 2: distance 1 between any two different levels
    return [(own == level) / np.sqrt(2) for level in levels]


def _nearest(points: Reals, asked: Reals, own: Ints | None = None) -> Reals:
    """Distance to the nearest point; ``own``: places of the asked records, which are left out."""
    k = 1 if own is None else 2
    if len(points) < k:
        return np.full(len(asked), np.nan)
    found = NearestNeighbors(n_neighbors=k).fit(points).kneighbors(asked, return_distance=False)
    nearest = found[:, 0] if own is None else np.where(found[:, 0] == own, found[:, 1], found[:, 0])
    # anew from the coordinates: the search rounds distances of nearly equal points
    distance = np.sqrt(((points[nearest] - asked) ** 2).sum(axis=1))
    return np.where(distance < SAME, 0.0, distance)


def _drawn(n: int, size: int, rng: np.random.Generator) -> Ints:
    return np.arange(n) if n <= size else np.sort(rng.choice(n, size, replace=False))
