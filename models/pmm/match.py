"""Predictive mean matching itself: sensitive cells, donors, and the chance that each is taken."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.spatial.distance import cdist

from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Codes, Microdata

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Constraint = Callable[[pd.DataFrame], npt.ArrayLike]
TIE = 1e-9  # relative: predicted means as close as this are the same
BLOCK = 2**21  # distances at a time


def cell_keys(
    data: Microdata, codes: Codes, identifying: Sequence[str], cuts: Mapping[str, Sequence[float]]
) -> Array:
    """What places records in a cell of the cross-classification, shape (n, number of variables)."""
    columns = []
    for name in identifying:
        values = codes[:, data.columns.index(name)].astype(float)
        columns.append(np.digitize(values, cuts[name]) if name in cuts else values)
    return np.column_stack(columns).astype(float)


def sensitive(keys: Array, threshold: int) -> Flags:
    """Records in a cell of at most so many, shape (n,)."""
    _, cell, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    few: Flags = count[cell.ravel()] <= threshold
    return few


@dataclass(frozen=True, slots=True, eq=False)
class Donors:
    """Kept records that give their value of a variable, those alike counted.

    ``means`` (D, d) predicted means; ``values`` (D,) codes; ``count`` (D,) records; ``k`` one of
    the so many nearest is taken.
    """

    means: Array
    values: Array
    count: Array
    k: int

    def chances(self, means: Array, allowed: Flags | None = None) -> Array:
        """Chance that a recipient with such a mean (R, d) takes from each donor (R, D).

        One of the k nearest among the allowed (R, D), each equally likely, those at the same
        distance as the k-th sharing its chance. Every row must allow a donor.
        """
        far = cdist(means, self.means)
        tie = TIE * (1.0 + float(np.abs(self.means).max()))
        count = np.broadcast_to(self.count, far.shape)
        if allowed is not None:
            far, count = np.where(allowed, far, np.inf), np.where(allowed, count, 0.0)
        if self.k == 1:
            out = np.where(far <= far.min(axis=1, keepdims=True) + tie, count, 0.0)
        else:
            pairs = zip(far, count, strict=True)
            out = np.stack([_of_nearest(row, n, self.k, tie) for row, n in pairs])
        shares: Array = out / out.sum(axis=1, keepdims=True)
        return shares

    def draw(
        self, means: Array, allowed: Flags | None, rng: np.random.Generator
    ) -> tuple[Array, int]:
        """Value for each recipient (R,), and how often the nearest were not allowed."""
        keys = means if allowed is None else np.column_stack([means, allowed])
        distinct, back = np.unique(keys, axis=0, return_inverse=True)
        place, d = back.ravel(), means.shape[1]
        u = rng.random(len(means))
        out, redrawn = np.empty(len(means)), 0
        for which in blocks_of(np.arange(len(distinct)), len(self.values)):
            block, start = distinct[which], which[0]
            rows = np.flatnonzero((place >= start) & (place < start + len(block)))
            where = place[rows] - start
            some = None if allowed is None else block[:, d:].astype(bool)
            edges = np.cumsum(self.chances(block[:, :d], some), axis=1)
            out[rows] = self.values[_taken(edges, where, u[rows])]
            if some is not None:
                nearest = self.chances(block[:, :d])
                redrawn += int(((nearest * some).sum(axis=1) == 0)[where].sum())
        return out, redrawn


def blocks_of(rows: npt.NDArray[np.int64], donors: int) -> list[npt.NDArray[np.int64]]:
    """Parts of some rows, as many at a time as distances to all donors may be held."""
    step = max(1, BLOCK // donors)
    return [rows[start : start + step] for start in range(0, len(rows), step)]


def _taken(edges: Array, where: npt.NDArray[np.int64], u: Array) -> npt.NDArray[np.int64]:
    """Donor of each recipient: the first whose cumulated chance exceeds u."""
    out = np.empty(len(u), dtype=np.int64)
    for row in np.unique(where):
        mine = np.flatnonzero(where == row)
        out[mine] = np.searchsorted(edges[row], u[mine] * edges[row, -1], side="right")
    return out


def _of_nearest(far: Array, count: Array, k: int, tie: float) -> Array:
    """How many of the k nearest are alike to each donor; the k-th place is shared by its ties."""
    order = np.argsort(far, kind="stable")
    order = order[count[order] > 0]
    group = np.concatenate([[0], np.cumsum(np.diff(far[order]) > tie)])
    size = np.bincount(group, weights=count[order])
    closer = np.cumsum(size) - size
    places = np.clip(min(k, size.sum()) - closer, 0, size)
    out = np.zeros(len(far))
    out[order] = count[order] * (places / size)[group]
    return out


def allowed_rows(data: Microdata, codes: Codes, constraints: Sequence[Constraint]) -> Flags:
    """Which rows break no constraint, shape (R,)."""
    if not constraints or not len(codes):
        return np.ones(len(codes), dtype=bool)
    table = data.decode(codes, pd.RangeIndex(len(codes)))
    out = np.ones(len(codes), dtype=bool)
    for number, constraint in enumerate(constraints):
        answer = np.asarray(constraint(table.copy()))
        if answer.shape != out.shape or answer.dtype != bool:
            raise InputError(
                f"constraint {number} returned {answer.dtype} of shape {answer.shape} for "
                f"{len(codes)} rows; it must return True or False for each row (True: allowed)"
            )
        out &= answer
    return out


def allowed_values(
    data: Microdata,
    rows: Codes,
    column: int,
    values: Array,
    constraints: Sequence[Constraint],
) -> Flags | None:
    """Which values (V,) each row (R, p) may take in a column, shape (R, V). None: all of them."""
    if not constraints:
        return None
    distinct, place = np.unique(values, return_inverse=True)
    tried = np.repeat(rows, len(distinct), axis=0)
    tried[:, column] = np.tile(distinct, len(rows))
    unique, back = np.unique(tried, axis=0, return_inverse=True)
    answer = allowed_rows(data, unique, constraints)[back.ravel()]
    return answer.reshape(len(rows), len(distinct))[:, place]
