"""Trees of rpart on the confidential table: where rows fall, and whose values lie in a leaf.

rpart's rules: at each node the primary split decides; where its level is held by no record of the
node, the first surrogate that tells a side; else the side with more records; a row that is not told
a side by any of these stays at the node. synthpop keeps missing numbers, and those named in its
``cont.na``, apart: a tree of a category says which of them a record has, or none, and a second one,
grown on the records with none, is of the number. Other trees look at such a number as two columns:
its value, 0 where it is kept apart, and that category.
"""

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Codes

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feature:
    """What a tree looks at, computed from one column.

    ``table``: of a category, the number of each level in the tree, -1 where it has none. ``apart``:
    values of a number that are kept apart, increasing, with what each becomes; all others become
    ``rest``, or stay as they are (None).
    """

    column: int
    table: Array | None = None
    apart: Array
    becomes: Array
    rest: float | None = None

    def encoded(self, codes: npt.NDArray[np.generic]) -> Array:
        """The feature of coded values, of any shape."""
        if self.table is not None:
            found: Array = self.table[codes.astype(np.int64)]
            return found
        values = codes.astype(float)
        out = values if self.rest is None else np.full(values.shape, self.rest)
        for value, becomes in zip(self.apart, self.becomes, strict=True):
            out = np.where(values == value, becomes, out)
        return out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RpartTree:
    """A tree of rpart, with the place of the records of the confidential table in it.

    Attributes
    ----------
    column : int
        The outcome.
    name : str
        What synthpop calls it.
    of : Feature
        What of the column is drawn: itself, or which value is kept apart.
    features : tuple of Feature
    rules : tuple of arrays
        For each node the first of its rules (nodes + 1,); for each rule its feature, ncat and cut;
        the side of each level, -1 left, 1 right, 0 neither, (rules, most levels).
    majority : ndarray of int, shape (nodes,)
        The side with more records, 0: none, or not asked for.
    left, right, parent : ndarrays of int, shape (nodes,)
        Neighbours of each node, -1: none.
    begin, end, donors
        As of `Tree`.
    n_drawn : int
        Nodes that values are drawn from. One more holds the records that the tree does not concern,
        for their values are kept apart.
    """

    column: int
    name: str
    of: Feature
    features: tuple[Feature, ...]
    rules: tuple[Ints, Ints, Ints, Array, Ints]
    majority: Ints
    left: Ints
    right: Ints
    parent: Ints
    begin: Ints
    end: Ints
    donors: Ints
    n_drawn: int

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int((self.left[: self.n_drawn] < 0).sum())

    @property
    def predictors(self) -> Ints:
        """Columns that decide on the leaf."""
        own = [self.column] if self.n_drawn < self.n_nodes else []
        return np.unique([*own, *(f.column for f in self.features)]).astype(np.int64)

    @property
    def split_columns(self) -> Ints:
        """Columns that some rule asks for."""
        return np.unique([f.column for f in self.features]).astype(np.int64)

    def outcome(self, values: npt.NDArray[np.generic]) -> Array:
        """What the tree is of, of coded values of its column."""
        return self.of.encoded(values)

    def leaf(self, codes: Codes) -> Ints:
        """The node of coded rows (R, p), shape (R,): a leaf, or where no rule tells a side."""
        X = np.column_stack(
            [f.encoded(codes[:, f.column]) for f in self.features] or [np.zeros(len(codes))]
        )
        out = np.zeros(len(codes), dtype=np.int64)
        if self.n_drawn < self.n_nodes:
            out[np.isin(codes[:, self.column].astype(float), self.of.apart)] = self.n_drawn
        _descend(X, self.rules, (self.majority, self.left, self.right), out)
        return out

    def node(self, codes: Codes) -> Ints:
        """The node whose values a row is given, shape (R,).

        Raises
        ------
        InputError
            Rows of a number that stay above the leaves: synthpop takes a leaf at random for them.
        """
        found = self.leaf(codes)
        stay = int((self.left[found] >= 0).sum())
        if stay and self.of.table is None and self.of.rest is None:
            raise InputError(
                f"{stay:,} synthetic records stay above the leaves of the tree of {self.name!r}, "
                "whose splits tell them no side; synthpop then takes a leaf at random, which is "
                "not offered: synthesise again with other levels, or take "
                'br.models.CART(..., bootstrap="none", floor=...), whose trees are assumed'
            )
        return found


@numba.njit(cache=True, nogil=True)
def _descend(X, rules, nodes, out):
    """Node of each row, from the node where it stands."""
    first, feature, ncat, cut, sides = rules
    majority, left, right = nodes
    for i in range(len(X)):
        node = out[i]
        while left[node] >= 0:
            turn = 0
            for k in range(first[node], first[node + 1]):
                x = X[i, feature[k]]
                if ncat[k] < 2:
                    turn = ncat[k] if x < cut[k] else -ncat[k]
                elif x >= 0.0:
                    turn = sides[k, int(x)]
                if turn != 0:
                    break
            if turn == 0:
                turn = majority[node]
            if turn == 0:
                break
            node = left[node] if turn < 0 else right[node]
        out[i] = node
