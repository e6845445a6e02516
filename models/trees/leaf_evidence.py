"""What released values say of the composition of a tree's leaves: closed forms.

Under the Bayesian bootstrap the R values released from a node with N records are
Dirichlet-multinomial given the records' values, p = Gamma(N) / Gamma(N + R) prod_v Gamma(n_v + r_v)
/ Gamma(n_v); drawn plainly they are multinomial, prod_v (n_v / N)^r_v. A guess puts the target into
the leaf that its predictors lead to, with the guessed value. With record weights, n_v and N are
sums of weights. The derivation, and what happens to values that nobody else holds, stands in
`docs/trees.md`; with weights in `docs/sensitivity.md`.

Where trees are assumed and values lie elsewhere, each of V values that a column may have has
probability f, the floor, and the rest of it is drawn plainly from the leaf: p(v) = f + (1 - f V)
n_v / N. A leaf that nobody would be in gives all values alike.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError

from .tree import Tree

BAYESIAN, PLAIN = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeafCounts:
    """What one data set shows of one tree, values numbered 0 .. V - 1.

    ``N``, ``R`` (nodes,): records, and values released from the node itself. ``keys`` sorted
    ``node V + value``, with ``n`` records and ``r`` released values of each. Records count with
    their weights, multiples of 2^-30 whose sums are exact, or 1.
    """

    V: int
    N: Array
    R: Ints
    keys: Ints
    n: Array
    r: Ints

    @classmethod
    def from_tree(
        cls, tree: Tree, y: Ints, nodes: Ints, z: Ints, V: int, weights: Array | None = None
    ) -> "LeafCounts":
        """Count: values y (n,) of all records; nodes and values z (rows,) of released ones."""
        R = np.bincount(nodes, minlength=tree.n_nodes)
        used = np.flatnonzero(R)
        released, r = np.unique(nodes * V + z, return_counts=True)
        once = np.ones(len(y)) if weights is None else weights
        donors = [tree.donors[tree.begin[node] : tree.end[node]] for node in used.tolist()]
        held = np.concatenate([k * V + y[d] for k, d in zip(used.tolist(), donors, strict=True)])
        keys = np.union1d(held, released)
        n = np.zeros(len(keys))
        np.add.at(n, np.searchsorted(keys, held), once[np.concatenate(donors)])
        counts = np.zeros(len(keys), dtype=np.int64)
        counts[np.searchsorted(keys, released)] = r
        before = np.concatenate([[0.0], np.cumsum(once[tree.donors])])
        N = before[tree.end] - before[tree.begin]
        return cls(V=V, N=N, R=R, keys=keys, n=n, r=counts)

    def log_p(self, kind: int) -> float:
        """log p(released values | all values) of the whole tree; minus infinity: impossible."""
        if ((self.n == 0) & (self.r > 0)).any():
            return -np.inf
        node = np.flatnonzero(self.R)
        N, R, n, r = self.N[node], self.R[node], self.n, self.r
        held = n > 0
        if kind == PLAIN:
            return float((r[held] * np.log(n[held])).sum() - (R * np.log(N)).sum())
        total = (gammaln(N) - gammaln(N + R)).sum()
        return float(total + (gammaln(n[held] + r[held]) - gammaln(n[held])).sum())


def log_gain(
    tree: Tree,
    shown: LeafCounts,
    kind: int,
    own: tuple[Ints, Ints],
    guess: tuple[Ints, Ints],
    weight: Array,
) -> Array:
    """log p(Z | y*, y_-i) up to a constant for each target, shape (G, U).

    ``own``: leaf and value (U,) of the targets as they are; ``guess``: those of the guesses (G, U);
    ``weight`` (U,): what the target counts. Cost: the depth of the tree times the logarithm of the
    number of counts, for each guess.
    """
    out = np.empty(guess[0].shape)
    _gains(
        (tree.parent, tree.begin, tree.end),
        (shown.V, shown.N, shown.R, shown.keys, shown.n, shown.r),
        kind,
        own[0],
        own[1],
        guess[0],
        guess[1],
        weight,
        out,
    )
    return out


@numba.njit(cache=True, nogil=True)
def _count(keys, counts, key):
    """Count of a key; 0 where it is not."""
    place = np.searchsorted(keys, key)
    if place < len(keys) and keys[place] == key:
        return counts[place]
    return 0


@numba.njit(cache=True, nogil=True)
def _orphans(parent, shown, leaf, value, w):
    """Nodes above a record of weight w that show its value although nobody else there holds it."""
    V, _, R, keys, n, r = shown
    found, node = 0, leaf
    while node >= 0:
        if R[node] > 0:
            key = node * V + value
            if _count(keys, r, key) > 0 and _count(keys, n, key) == w:
                found += 1
        node = parent[node]
    return found


@numba.njit(cache=True, nogil=True)
def _gain(kind, N, R, n, r, w):
    """Change of log p when a record of weight w with a value is added to a node without it."""
    if kind == PLAIN:
        gain = -R * np.log((N + w) / N) if N > 0 else -R * np.log(w)
        return gain + (r * np.log((n + w) / n) if n > 0 else r * np.log(w))
    if w != 1.0:
        return _log_rising(n, r, w) - _log_rising(N, R, w)
    from_value = 0.0
    if n > 0:
        from_value = np.log((n + r) / n)
    elif r > 0:
        for k in range(2, r + 1):
            from_value += np.log(k)
    if N > 0:
        return from_value + np.log(N / (N + R))
    for k in range(2, R + 1):
        from_value -= np.log(k)
    return from_value


@numba.njit(cache=True, nogil=True)
def _log_rising(n, r, w):
    """log of Gamma(n + w + r) / Gamma(n + w) over the same without w; of n = 0 the first alone."""
    if r == 0:
        return 0.0
    out = math.lgamma(n + w + r) - math.lgamma(n + w)
    return out - (math.lgamma(n + r) - math.lgamma(n)) if n > 0 else out


@numba.njit(cache=True, nogil=True)
def _gains(tree, shown, kind, own_leaf, own_value, leaf, value, weight, out):
    parent, begin, end = tree
    V, N, R, keys, n, r = shown
    for u in range(len(own_leaf)):
        w = weight[u]
        wanted = _orphans(parent, shown, own_leaf[u], own_value[u], w)
        place = begin[own_leaf[u]]
        for g in range(leaf.shape[0]):
            total, met, node, v = 0.0, 0, leaf[g, u], value[g, u]
            while node >= 0:
                if R[node] > 0:
                    own = begin[node] <= place and place < end[node]
                    key = node * V + v
                    held = _count(keys, n, key) - (w if own and v == own_value[u] else 0.0)
                    shows = _count(keys, r, key)
                    if held == 0 and shows > 0:
                        met += 1
                    rest = N[node] - (w if own else 0.0)
                    total += _gain(kind, rest, R[node], held, shows, w)
                node = parent[node]
            out[g, u] = total if met >= wanted else -np.inf


class Floor(NamedTuple):
    """Probability f of each of V values, and what is left for the leaf."""

    floor: float
    n_values: int
    left: float

    @classmethod
    def checked(cls, floor: float, n_values: int, column: str) -> "Floor":
        """Refuse a floor that leaves nothing to the leaves."""
        if floor * n_values >= 1.0:
            raise InputError(
                f"floor={floor:g} for each of the {n_values:,} values of column {column!r} leaves "
                f"nothing to the leaves; give less than {1.0 / n_values:.1g}"
            )
        return cls(floor, n_values, 1.0 - floor * n_values)

    def log_p(self, shown: LeafCounts) -> float:
        """log p(released values | all values) of a whole tree."""
        return float(self._sums(shown, 0).sum())

    def log_gain(
        self, tree: Tree, shown: LeafCounts, own: tuple[Ints, Ints], guess: tuple[Ints, Ints]
    ) -> Array:
        """log p(Z | y*, y_-i) up to a constant for each target, shape (G, U); see `log_gain`."""
        sums = np.stack([self._sums(shown, change) for change in (-1, 0, 1)])
        out = np.empty(guess[0].shape)
        _floored_gains(
            (tree.parent, tree.begin, tree.end),
            (shown.V, shown.N, shown.R, shown.keys, shown.n, shown.r),
            (self.floor, self.left, float(self.n_values)),
            sums,
            own,
            guess,
            out,
        )
        return out

    def _sums(self, shown: LeafCounts, change: int) -> Array:
        """log p of each node's values with so many records more in it, shape (nodes,)."""
        node = shown.keys // shown.V
        N = shown.N[node] + change
        p = self.floor + self.left * shown.n / np.maximum(N, 1.0)
        log_p = np.log(np.where(N > 0, p, 1.0 / self.n_values))
        return np.bincount(node, weights=shown.r * log_p, minlength=len(shown.N)).astype(float)


@numba.njit(cache=True, nogil=True)
def _log_h(floor, n, N):
    """log p(v) in a node of N records of which n hold v."""
    f, left, V = floor
    return np.log(f + left * n / N) if N > 0 else -np.log(V)


@numba.njit(cache=True, nogil=True)
def _moved(floor, n, r, change, N):
    """Change of log p when one record more or less holds a value, the node's size N given."""
    return r * (_log_h(floor, n + change, N) - _log_h(floor, n, N)) if r > 0 else 0.0


@numba.njit(cache=True, nogil=True)
def _floored_gains(tree, shown, floor, sums, own, guess, out):
    """Of each node on the guess's way: log p with the guess in it, less that without the target."""
    parent, begin, end = tree
    V, N, R, keys, n, r = shown
    for u in range(len(own[0])):
        place, o = begin[own[0][u]], own[1][u]
        for g in range(out.shape[0]):
            total, node, v = 0.0, guess[0][g, u], guess[1][g, u]
            while node >= 0:
                if R[node] > 0:
                    n_v, r_v = _count(keys, n, node * V + v), _count(keys, r, node * V + v)
                    if begin[node] <= place and place < end[node]:
                        n_o, r_o = _count(keys, n, node * V + o), _count(keys, r, node * V + o)
                        rest = sums[0, node] + _moved(floor, n_o, r_o, -1, N[node] - 1)
                        total += sums[1, node] + _moved(floor, n_o, r_o, -1, N[node]) - rest
                        total += _moved(floor, n_v - (1 if v == o else 0), r_v, 1, N[node])
                    else:
                        total += sums[2, node] - sums[1, node]
                        total += _moved(floor, n_v, r_v, 1, N[node] + 1)
                node = parent[node]
            out[g, u] = total


def numbered(columns: Sequence[npt.NDArray[Any]]) -> tuple[list[Ints], int]:
    """Values of several arrays, numbered together; and how many different ones there are."""
    values, number = np.unique(np.concatenate([c.ravel() for c in columns]), return_inverse=True)
    ends = np.cumsum([c.size for c in columns])[:-1]
    parts = [
        part.reshape(c.shape).astype(np.int64)
        for part, c in zip(np.split(number.reshape(-1), ends), columns, strict=True)
    ]
    return parts, len(values)
