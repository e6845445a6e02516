"""One tree of a sequence: how it is grown, where a row falls, and whose values lie in a node.

Splits are scikit-learn's. A nominal predictor is split on an order of its levels, found once for
each tree: by the mean of a numeric outcome, or by the first principal component of the outcome's
level shares (Coppersmith, Hong & Hosking 1999). For two outcome levels or a number no other split
of the root separates better (Breiman et al. 1984); deeper down, and for more outcome levels, it is
an approximation. It costs one pass, where all subsets of d levels would cost 2^(d - 1).
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk.data.microdata import Codes, Microdata, Number, Variable

ROUNDING = 1e-9  # of the largest score of a level
BAYESIAN, PLAIN = 0, 1  # how values are drawn from the records of a leaf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tree(ABC):
    """A tree of one column with the records of the confidential table in it, whoever grew it."""

    column: int  # the outcome
    predictors: Ints  # shape (k,): columns that may decide on the leaf
    split_columns: Ints  # those of them that do
    # left, right, parent: shape (nodes,): neighbours of each node, -1: none; the root is node 0
    left: Ints
    right: Ints
    parent: Ints
    # begin, end: shape (nodes,): the records of a node are ``donors[begin:end]``
    begin: Ints
    end: Ints
    donors: Ints  # shape (n,): rows of the confidential table
    n_drawn: int  # number of nodes that values are drawn from: the first of them

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    @property
    def n_leaves(self) -> int:
        """Number of leaves that values are drawn from."""
        return int((self.left[: self.n_drawn] < 0).sum())

    def outcome(self, values: npt.NDArray[Any]) -> Array:
        """What the tree is of, of coded values of its column."""
        return values.astype(float)

    @abstractmethod
    def leaf(self, codes: Codes) -> Ints:
        """The node whose composition a confidential row (R, p) belongs to, shape (R,)."""

    @abstractmethod
    def node(self, codes: Codes) -> Ints:
        """The node whose values a row (R, p) is given, shape (R,)."""


class Moves(NamedTuple):
    """What guesses change: a row for each node that shows a value on the way of guess or target."""

    node: Ints
    taken: Flags  # the target lies in the node
    put: Flags  # with the guess it does
    g: Ints
    u: Ints

    @classmethod
    def of(cls, tree: Tree, shows: Flags, own: Ints, leaf: Ints) -> "Moves":
        """``shows`` (nodes,); leaves of the targets as they are (U,), and of the guesses (G, U)."""
        nearest = np.where(shows, np.arange(tree.n_nodes), tree.parent)  # that shows something
        while (silent := (nearest >= 0) & ~shows[nearest]).any():
            nearest[silent] = nearest[nearest[silent]]
        above = np.where(tree.parent >= 0, nearest[tree.parent], -1)
        ways, found = np.stack([leaf, np.broadcast_to(own, leaf.shape)]), []
        for side, lowest in enumerate(nearest[ways]):
            node, (g, u) = lowest.ravel(), np.indices(leaf.shape).reshape(2, -1)
            while len(node):
                there = node >= 0
                node, g, u = node[there], g[there], u[there]
                taken, put = (
                    (tree.begin[node] <= tree.begin[at]) & (tree.begin[at] < tree.end[node])
                    for at in (own[u], leaf[g, u])
                )
                rows = cls(node, taken, put | (side == 0), g, u)
                found.append(rows if side == 0 else rows.only(~put))  # not those of the guess again
                node = above[node]
        return cls(*map(np.concatenate, zip(*found, strict=True)))

    def only(self, some: Flags) -> "Moves":
        """Some of the rows."""
        rows: Any = (x[some] for x in self)
        return Moves(*rows)

    def summed(self, gain: Array, shape: tuple[int, ...]) -> Array:
        """What all rows of a guess and target add up to, (G, U)."""
        cells = np.bincount(self.g * shape[1] + self.u, gain, minlength=shape[0] * shape[1])
        return np.asarray(cells.reshape(shape), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GrownTree(Tree):
    """A tree grown here."""

    ranks: Mapping[int, Array]  # of each nominal predictor, the place of every level in its order
    feature: Ints  # shape (nodes,): split predictor, -1 in leaves
    threshold: Array  # shape (nodes,)
    # shape (nodes, most levels): of nodes that split a nominal predictor: which levels their
    # records hold
    present: Flags

    def leaf(self, codes: Codes) -> Ints:
        """The leaf of coded rows (R, p), shape (R,)."""
        return self._descended(codes, self.present[:, :0], np.empty((0, 0), dtype=np.int64))

    def node(self, codes: Codes) -> Ints:
        """The node whose values a row is given: its leaf, or where a split lacks its level."""
        levels = np.full((len(codes), len(self.predictors)), -1, dtype=np.int64)
        for place, j in enumerate(self.predictors):
            if int(j) in self.ranks:
                levels[:, place] = codes[:, j]
        return self._descended(codes, self.present, levels)

    def _descended(self, codes: Codes, present: Flags, levels: Ints) -> Ints:
        out = np.empty(len(codes), dtype=np.int64)
        X = encoded(codes, self.predictors, self.ranks)
        _descend(X, (self.feature, self.threshold, self.left, self.right), present, levels, out)
        return out


def grow(
    data: Microdata,
    column: int,
    predictors: Ints,
    *,
    min_leaf: int,
    seed: int,
    weights: Array | None = None,
) -> GrownTree:
    """Grow a tree for a column on all records, each counted by its weight (n,), unpruned."""
    y = data.codes[:, column]
    ranks = level_orders(data, column, predictors, weights)
    numeric = isinstance(data.variables[column], Number)
    make = DecisionTreeRegressor if numeric else DecisionTreeClassifier
    machine = make(min_samples_leaf=min_leaf, random_state=seed)
    X = encoded(data.codes, predictors, ranks)
    with without_advice():
        machine.fit(X, y if numeric else y.astype(np.int64), sample_weight=weights)
    return _from_sklearn(machine.tree_, X, data, column, predictors, ranks)


@contextmanager
def without_advice() -> Iterator[None]:
    """Many levels for few records make scikit-learn advise a regression: not for categories."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        yield


def level_orders(
    data: Microdata, column: int, predictors: Ints, weights: Array | None = None
) -> dict[int, Array]:
    """Place of every level of each nominal predictor, ordered by the outcome in ``data``.

    Equal scores are ordered by the number of records, then by which level occurs first. So the
    order of the levels in a declaration decides nothing. Levels that no record has come last.
    """
    once = np.ones(len(data.codes)) if weights is None else weights
    y, d_y = data.codes[:, column], data.variables[column].n_levels
    out = {}
    for j in map(int, predictors):
        variable, d = data.variables[j], data.variables[j].n_levels
        ordered = d in (0, 2) or getattr(variable.dtype, "ordered", False)
        if isinstance(variable, Variable) and not ordered:
            level = data.codes[:, j].astype(np.int64)
            frequency = np.bincount(level, minlength=d)
            score = np.where(frequency > 0, _scores(level, y, d_y, d, once), np.inf)
            order = np.lexsort((_first(level, d), frequency, _unequal(score)))
            out[j] = np.argsort(order).astype(float)
    return out


def encoded(codes: Codes, predictors: Ints, ranks: Mapping[int, Array]) -> Array:
    """Predictors of coded rows (R, p) as trees split them, shape (R, k)."""
    X = codes[:, predictors].astype(float)
    for place, j in enumerate(predictors):
        if int(j) in ranks:
            X[:, place] = ranks[int(j)][codes[:, j].astype(np.int64)]
    return X


def _scores(level: Ints, y: npt.NDArray[Any], d_y: int, d: int, once: Array) -> Array:
    """Mean outcome of each level, or first principal component of its level shares."""
    total = np.bincount(level, weights=once, minlength=d)
    total[total == 0] = 1.0  # a level that nobody holds
    if d_y == 0:
        return np.asarray(np.bincount(level, weights=once * y, minlength=d) / total)
    table = np.zeros((d, d_y))
    np.add.at(table, (level, y.astype(np.int64)), once)
    shares = table / total[:, None]
    weight = table.sum(axis=1) / table.sum()
    centred = (shares - weight @ shares) * np.sqrt(weight)[:, None]
    _, size, axes = np.linalg.svd(centred, full_matrices=False)
    plane = axes[size >= size[0] * (1 - ROUNDING)]  # one axis, or several that separate equally
    onto = plane.T @ plane  # of the outcome levels, the one nearest to it gives it its direction
    most = -_unequal(np.diag(onto))
    nearest = np.lexsort((_first(y.astype(np.int64), d_y), table.sum(axis=0), most))[0]
    return np.asarray(shares @ onto[nearest])


def _first(level: Ints, d: int) -> Ints:
    """The first row with each level, shape (d,)."""
    first = np.full(d, len(level))
    np.minimum.at(first, level, np.arange(len(level)))
    return first


def _unequal(x: Array) -> Ints:
    """Places of numbers in their order; those that rounding alone tells apart share one."""
    order = np.argsort(x)
    least = ROUNDING * np.abs(x[np.isfinite(x)]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        step = np.diff(x[order]) > least  # infinity less infinity: equal
    out = np.zeros(len(x), dtype=np.int64)
    out[order[1:]] = np.cumsum(step)
    return out


def _from_sklearn(
    grown: Any, X: Array, data: Microdata, column: int, predictors: Ints, ranks: Mapping[int, Array]
) -> GrownTree:
    """Copy the structure; put the records of every node in one stretch."""
    left, right = grown.children_left.astype(np.int64), grown.children_right.astype(np.int64)
    feature = np.where(left < 0, -1, grown.feature).astype(np.int64)
    parent = np.full(len(left), -1, dtype=np.int64)
    inner = np.flatnonzero(left >= 0)
    parent[left[inner]] = parent[right[inner]] = inner
    leaf = grown.apply(X.astype(np.float32)).astype(np.int64)
    begin, end, donors = stretches(leaf, left, right)
    levels = max([len(ranks[j]) for j in ranks], default=0)
    present = np.zeros((len(left), levels), dtype=bool)
    for node in inner:
        j = int(predictors[feature[node]])
        if j in ranks:
            present[node, data.codes[donors[begin[node] : end[node]], j].astype(np.int64)] = True
    return GrownTree(
        column=column,
        predictors=predictors,
        split_columns=predictors[np.unique(feature[inner])],
        ranks=ranks,
        feature=feature,
        threshold=grown.threshold.astype(float),
        left=left,
        right=right,
        parent=parent,
        present=present,
        begin=begin,
        end=end,
        donors=donors,
        n_drawn=len(left),
    )


def stretches(leaf: Ints, left: Ints, right: Ints) -> tuple[Ints, Ints, Ints]:
    """Records by the leaf they lie in, those of a node ``donors[begin[node] : end[node]]``."""
    donors = np.argsort(leaf, kind="stable")  # nodes are numbered depth first
    begin = np.searchsorted(leaf[donors], np.arange(len(left)), side="left")
    end = np.searchsorted(leaf[donors], last_below(left, right), side="right")
    return begin, end, donors


def last_below(left: Ints, right: Ints) -> Ints:
    """Largest node number below each node: depth first, a subtree is a stretch of numbers."""
    last = np.arange(len(left))
    for node in range(len(left) - 1, -1, -1):
        if left[node] >= 0:
            last[node] = last[right[node]]
    return last


@numba.njit(cache=True, nogil=True)
def _descend(X, tree, present, levels, out):
    """Leaf (or stopping node) of each row; sklearn compares in single precision."""
    feature, threshold, left, right = tree
    for i in range(len(X)):
        node = 0
        while feature[node] >= 0:
            f = feature[node]
            if levels.shape[0] > 0 and levels[i, f] >= 0 and not present[node, levels[i, f]]:
                break
            node = left[node] if np.float32(X[i, f]) <= threshold[node] else right[node]
        out[i] = node
