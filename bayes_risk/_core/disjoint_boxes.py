"""Unions of boxes of levels: made disjoint, measured, and asked whether they hold a record.

A box is a row of flags, one per level of all variables, laid one after the other (``starts`` says
where each variable begins): a record is in the box if the flag of its level is set in every
variable. Zero regions are unions of such boxes; once these are disjoint, the mass of the region is
a sum over boxes of products.
"""

from itertools import pairwise

import numba
import numpy as np
import numpy.typing as npt

from .arrays import Flags, Ints
from .errors import InputError

MAX_BOXES = 20_000


def disjoint(boxes: Flags, starts: Ints, most: int = MAX_BOXES) -> Flags:
    """Disjoint boxes (B', D) with the same union as boxes (B, D).

    Boxes that differ in one variable are merged; then, largest first, each is cut down to what the
    earlier ones leave of it, into at most p pieces a cut.

    Cost: pairs of boxes that overlap, times p; in the worst case the number of pieces grows as p^B.
    """
    given = merged(boxes, starts)
    out = np.empty((0, given.shape[1]), dtype=bool)
    largest_first = np.argsort(-sizes(given, starts).astype(float), kind="stable")
    for box in given[largest_first]:
        pieces = box[None]
        for other in out[_meets(out, box, starts)]:
            pieces = _cut(pieces, other, starts)
            if not len(pieces):
                break
            if len(out) + len(pieces) > most:
                raise InputError(
                    f"the impossible combinations overlap so much that they make more than "
                    f"{most:,} disjoint boxes; give fewer or less overlapping rules"
                )
        out = np.concatenate([out, pieces])
    return merged(out, starts)


def merged(boxes: Flags, starts: Ints) -> Flags:
    """Boxes that differ in one variable only become one, until no two do; copies become one."""
    while True:
        before = len(boxes)
        for begin, end in pairwise(starts):
            rest = boxes.copy()
            rest[:, begin:end] = False
            _, group = np.unique(np.packbits(rest, axis=1), axis=0, return_inverse=True)
            order = np.argsort(group.ravel(), kind="stable")
            firsts = np.flatnonzero(np.diff(group.ravel()[order], prepend=-1))
            boxes = np.logical_or.reduceat(boxes[order], firsts, axis=0)
        if len(boxes) == before:
            return boxes


def sizes(boxes: Flags, starts: Ints) -> npt.NDArray[np.object_]:
    """Number of cells of each box, whole numbers of any size, shape (B,)."""
    counts = np.add.reduceat(boxes, starts[:-1], axis=1, dtype=np.int64)
    return np.asarray(np.prod(counts.astype(object), axis=1), dtype=object)


def rows_in(boxes: Flags, rows: npt.NDArray[np.integer]) -> Flags:
    """Which rows of level positions (n, p) lie in a box, shape (n,)."""
    out = np.zeros(len(rows), dtype=np.bool_)
    _fill_rows_in(boxes, np.ascontiguousarray(rows, dtype=np.int64), out)
    return out


def guesses_in(
    boxes: Flags,
    rows: npt.NDArray[np.integer],
    columns: npt.NDArray[np.integer],
    guesses: npt.NDArray[np.integer],
) -> Flags:
    """Which guesses (G, U, q) for some columns of rows of positions (U, p) lie in a box, (G, U)."""
    out = np.zeros(guesses.shape[:2], dtype=np.bool_)
    guesses = np.ascontiguousarray(guesses, dtype=np.int32)  # one kind: compiled once
    _fill_guesses_in(boxes, rows.astype(np.int64), columns.astype(np.int64), guesses, out)
    return out


@numba.njit(cache=True, nogil=True)
def in_boxes(boxes, row):  # type: ignore[no-untyped-def]  # numba reads no annotations
    """Whether one row of positions (p,) lies in a box."""
    for b in range(boxes.shape[0]):
        inside = True
        for j in range(row.shape[0]):
            if not boxes[b, row[j]]:
                inside = False
                break
        if inside:
            return True
    return False


@numba.njit(cache=True, nogil=True)
def _fill_rows_in(boxes, rows, out):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        out[i] = in_boxes(boxes, rows[i])


@numba.njit(cache=True, nogil=True)
def _fill_guesses_in(boxes, rows, columns, guesses, out):  # type: ignore[no-untyped-def]
    row = np.empty(rows.shape[1], np.int64)
    for u in range(rows.shape[0]):
        for j in range(row.shape[0]):
            row[j] = rows[u, j]
        for g in range(guesses.shape[0]):
            for j in range(columns.shape[0]):
                row[columns[j]] = guesses[g, u, j]
            out[g, u] = in_boxes(boxes, row)


def _meets(boxes: Flags, box: Flags, starts: Ints) -> Flags:
    """Which boxes share a cell with one box."""
    common = np.logical_or.reduceat(boxes & box, starts[:-1], axis=1)
    return np.asarray(common.all(axis=1), dtype=np.bool_)


def _cut(pieces: Flags, other: Flags, starts: Ints) -> Flags:
    """What a box leaves of disjoint pieces, in disjoint pieces."""
    apart = ~_meets(pieces, other, starts)
    out, left = [pieces[apart]], pieces[~apart]
    for begin, end in pairwise(starts):
        outside = left.copy()
        outside[:, begin:end] &= ~other[begin:end]
        out.append(outside[outside[:, begin:end].any(axis=1)])
        left = left.copy()
        left[:, begin:end] &= other[begin:end]
    return np.concatenate(out)
