"""What released values say of leaves of which some records are not known.

`leaf_sums` sums over what the unknown records of a node may hold; here the nodes are counted, and
the guesses led to them. The derivation stands in `docs/trees.md`, "Records that are not known".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from .leaf_evidence import PLAIN
from .leaf_sums import fill
from .tree import Tree

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartlySeen:
    """What all data sets show of one tree, values numbered 0 .. V - 1, of records partly known.

    ``levels``: how many values an unknown record may hold. ``known``, ``unknown`` (nodes,): numbers
    of records. ``R`` (nodes, m): values released. ``keys`` sorted ``node V + value`` of the values
    shown, with the ``kind`` of each: which type of its node. ``first`` (nodes + 1,): the types of
    each node, with ``c`` known records, ``r`` (types, m) released values in increasing order, and
    the ``times`` that a level of this type occurs. ``rest`` (nodes,): known records with a value
    that the node never shows; ``n_shown`` (nodes,): values that it shows.
    """

    V: int
    levels: int
    known: Ints
    unknown: Ints
    R: Ints
    keys: Ints
    kind: Ints
    first: Ints
    c: Ints
    r: Ints
    times: Ints
    rest: Ints
    n_shown: Ints

    @classmethod
    def of(
        cls,
        tree: Tree,
        y: Ints,
        known: npt.NDArray[np.bool_],
        shown: Sequence[tuple[Ints, Ints]],
        V: int,
        levels: int,
        draws: int,
    ) -> "PartlySeen":
        """Count: values y (n,) of known records; nodes and values of each data set's rows."""
        R = np.column_stack([np.bincount(nodes, minlength=tree.n_nodes) for nodes, _ in shown])
        keys = np.unique(np.concatenate([nodes * V + z for nodes, z in shown]))
        r = np.zeros((len(keys), len(shown)), dtype=np.int64)
        for l, (nodes, z) in enumerate(shown):
            np.add.at(r[:, l], np.searchsorted(keys, nodes * V + z), 1)
        if draws == PLAIN:  # of plain draws only the sums matter
            R, r = R.sum(axis=1, keepdims=True), r.sum(axis=1, keepdims=True)
        before = np.concatenate([[0], np.cumsum(known[tree.donors])])
        n_known = before[tree.end] - before[tree.begin]
        c = _held(tree, y, known, keys, V)
        node = keys // V
        of_type, kind, times = np.unique(
            np.column_stack([node, c, np.sort(r, axis=1)]),
            axis=0,
            return_inverse=True,
            return_counts=True,
        )
        first = np.searchsorted(of_type[:, 0], np.arange(tree.n_nodes + 1))
        held = np.bincount(node, weights=c, minlength=tree.n_nodes).astype(np.int64)
        return cls(
            V=V,
            levels=levels,
            known=n_known,
            unknown=tree.end - tree.begin - n_known,
            R=R,
            keys=keys,
            kind=kind.reshape(-1) - first[node],
            first=first,
            c=of_type[:, 1],
            r=np.ascontiguousarray(of_type[:, 2:]),
            times=times,
            rest=n_known - held,
            n_shown=np.bincount(node, minlength=tree.n_nodes),
        )


def _held(
    tree: Tree,
    y: Ints,
    known: npt.NDArray[np.bool_],
    keys: Ints,
    V: int,
) -> Ints:
    """Known records of each key (node V + value)."""
    out = np.zeros(len(keys), dtype=np.int64)
    held = []
    for node in np.unique(keys // V).tolist():
        donors = tree.donors[tree.begin[node] : tree.end[node]]
        held.append(node * V + y[donors[known[donors]]])
    found, counts = np.unique(np.concatenate(held), return_counts=True)
    place = np.minimum(np.searchsorted(keys, found), len(keys) - 1)
    there = keys[place] == found
    out[place[there]] = counts[there]
    return out


def log_p_in_part(
    tree: Tree,
    seen: PartlySeen,
    draws: int,
    own: tuple[Ints, Ints, npt.NDArray[np.bool_]],
    guess: tuple[Ints, Ints],
) -> Array:
    """log p(Z^(1..m) | y*, y_A) up to a constant for each target, shape (G, U).

    ``own``: leaf, value, and whether the record is among the known ones (U,) of the targets as they
    are; ``guess``: leaf and value of the guesses (G, U). Cost: for each node that guesses reach,
    its u unknown records and each type of value that a target leaves, 4 u^2 times the number of
    types; look-ups for each guess.
    """
    place = (tree.parent, tree.begin, tree.end)
    width = np.diff(seen.first)
    cells = np.concatenate([[0], np.cumsum((width + 3) * (width + 2))])
    counts = (seen.V, seen.R, seen.keys, seen.kind, seen.first)
    out, tables = np.empty(guess[0].shape), np.zeros(cells[-1])
    here, wanted = np.zeros(tree.n_nodes), np.zeros(cells[-1], dtype=np.bool_)
    _guess(place, counts, cells, own, guess, (tables, here, wanted), out)
    weight = 1.0 / seen.levels
    weight_rest = np.maximum(seen.levels - seen.n_shown, 0) * weight
    _tables(
        draws,
        (seen.known, seen.unknown, seen.R, weight, weight_rest, seen.rest),
        (seen.first, seen.c, seen.r, seen.times),
        cells,
        (tables, here, wanted),
    )
    _guess(place, counts, cells, own, guess, (tables, here, wanted), out)
    return out


@numba.njit(cache=True, nogil=True)
def _type_of(counts, node, value):
    """Type of a value in a node; of those that it never shows the last."""
    V, _, keys, kind, first = counts
    key = node * V + value
    place = np.searchsorted(keys, key)
    if place < len(keys) and keys[place] == key:
        return kind[place]
    return first[node + 1] - first[node]


@numba.njit(cache=True, nogil=True)
def _leaves(counts, node, own, u):
    """What target u leaves of a node that it lies in: the row of the node's table."""
    first = counts[4]
    if own[2][u]:
        return _type_of(counts, node, own[1][u])
    return first[node + 1] - first[node] + 1


@numba.njit(cache=True, nogil=True)
def _within(place, node, leaf):
    """Whether a leaf lies below a node, or is it."""
    _, begin, end = place
    return begin[node] <= begin[leaf] and begin[leaf] < end[node]


@numba.njit(cache=True, nogil=True)
def _tables(draws, nodes, types, cells, sums):
    """Tables of all nodes in which a cell is wanted."""
    known, unknown, R, weight, weight_rest, rest = nodes
    first, c, r, times = types
    tables, here, wanted = sums
    for node in range(len(known)):
        T, mine = first[node + 1] - first[node], slice(first[node], first[node + 1])
        table = tables[cells[node] : cells[node + 1]].reshape(T + 3, T + 2)
        marked = wanted[cells[node] : cells[node + 1]].reshape(T + 3, T + 2)
        if marked.any():
            here[node] = fill(
                draws,
                (known[node], unknown[node], R[node], weight, weight_rest[node], rest[node]),
                (c[mine], r[mine], times[mine]),
                marked,
                table,
            )


@numba.njit(cache=True, nogil=True)
def _guess(place, counts, cells, own, guess, sums, out):
    """Look up every node that a guess leaves, or comes to, or stays in; mark what is looked at."""
    parent, R, first = place[0], counts[1], counts[4]
    for u in range(len(own[0])):
        for g in range(guess[0].shape[0]):
            leaf, value = guess[0][g, u], guess[1][g, u]
            total, node = 0.0, own[0][u]
            while node >= 0:
                if R[node].any() and not _within(place, node, leaf):
                    nothing = first[node + 1] - first[node] + 1
                    row = _leaves(counts, node, own, u)
                    total += _look(first, cells, node, row, nothing, sums)
                node = parent[node]
            node = leaf
            while node >= 0:
                if R[node].any():
                    mine = _within(place, node, own[0][u])
                    if not (mine and own[2][u] and value == own[1][u]):
                        outside = first[node + 1] - first[node] + 2
                        row = _leaves(counts, node, own, u) if mine else outside
                        k = _type_of(counts, node, value)
                        total += _look(first, cells, node, row, k, sums)
                node = parent[node]
            out[g, u] = total


@numba.njit(cache=True, nogil=True)
def _look(first, cells, node, row, column, sums):
    """A cell of a node's table, relative to the node as it is."""
    tables, here, wanted = sums
    place = cells[node] + row * (first[node + 1] - first[node] + 2) + column
    wanted[place] = True
    return tables[place] - here[node]
