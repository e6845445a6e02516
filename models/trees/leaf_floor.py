"""Leaves with a floor: what released values say where trees are assumed and values lie elsewhere.

Of V values that a column may have, each has probability f, the floor, and the rest of it is drawn
plainly from the leaf: p(v) = f + (1 - f V) n_v / N. A value that nobody in the leaf holds has
probability f; a leaf that nobody would be in gives all values alike. Derivation: `docs/trees.md`.
"""

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError

from .leaf_evidence import Shown
from .tree import Tree

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Floor(NamedTuple):
    """Probability f of each of V values, and what is left for the leaf."""

    floor: float
    n_values: int
    left: float

    @classmethod
    def of(cls, floor: float, n_values: int, column: str) -> "Floor":
        """Refuse a floor that leaves nothing to the leaves."""
        if floor * n_values >= 1.0:
            raise InputError(
                f"floor={floor:g} for each of the {n_values:,} values of column {column!r} leaves "
                f"nothing to the leaves; give less than {1.0 / n_values:.1g}"
            )
        return cls(floor, n_values, 1.0 - floor * n_values)

    def log_p(self, shown: Shown) -> float:
        """log p(released values | all values) of a whole tree."""
        return float(self._sums(shown, 0).sum())

    def log_gain(
        self, tree: Tree, shown: Shown, own: tuple[Ints, Ints], guess: tuple[Ints, Ints]
    ) -> Array:
        """log p(Z | y*, y_-i) up to a constant for each target, shape (G, U); see `log_gain`."""
        sums = np.stack([self._sums(shown, change) for change in (-1, 0, 1)])
        out = np.empty(guess[0].shape)
        _gains(
            (tree.parent, tree.begin, tree.end),
            (shown.V, shown.N, shown.R, shown.keys, shown.n, shown.r),
            (self.floor, self.left, float(self.n_values)),
            sums,
            own,
            guess,
            out,
        )
        return out

    def _sums(self, shown: Shown, change: int) -> Array:
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
def _counts(keys, n, r, key):
    """Records and released values of a key."""
    place = np.searchsorted(keys, key)
    if place < len(keys) and keys[place] == key:
        return n[place], r[place]
    return 0.0, 0


@numba.njit(cache=True, nogil=True)
def _gains(tree, shown, floor, sums, own, guess, out):
    """Of each node on the guess's way: log p with the guess in it, less that without the target."""
    parent, begin, end = tree
    V, N, R, keys, n, r = shown
    for u in range(len(own[0])):
        place, o = begin[own[0][u]], own[1][u]
        for g in range(out.shape[0]):
            total, node, v = 0.0, guess[0][g, u], guess[1][g, u]
            while node >= 0:
                if R[node] > 0:
                    n_v, r_v = _counts(keys, n, r, node * V + v)
                    if begin[node] <= place and place < end[node]:
                        n_o, r_o = _counts(keys, n, r, node * V + o)
                        rest = sums[0, node] + _moved(floor, n_o, r_o, -1, N[node] - 1)
                        total += sums[1, node] + _moved(floor, n_o, r_o, -1, N[node]) - rest
                        total += _moved(floor, n_v - (1 if v == o else 0), r_v, 1, N[node])
                    else:
                        total += sums[2, node] - sums[1, node]
                        total += _moved(floor, n_v, r_v, 1, N[node] + 1)
                node = parent[node]
            out[g, u] = total
