"""The trees of one random forest: how they are grown, where rows fall, and what they vote.

Trees are scikit-learn's, each grown on its bootstrap sample; only their structure and the level
that each leaf votes for are kept, ten bytes a node, one tree below the other in flat arrays. Nodes
are numbered depth first, so that the left child of a node is the next node.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from sklearn.tree import DecisionTreeClassifier

from bayes_risk._core.errors import ModelError
from bayes_risk._core.parallel import in_order
from bayes_risk.data.microdata import Codes, Microdata

from .tree import encoded, level_orders, without_advice

Array = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32]
MIN_ROWS = 1_000  # for a thread


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trees:
    """The T trees of one variable.

    Attributes
    ----------
    column : int
        The outcome.
    K : int
        Its number of levels, those that nobody holds included.
    rows : ndarray of int, shape (r,)
        Records of the confidential table that are replaced, on which the trees were grown.
    predictors : ndarray of int, shape (k,)
    ranks : mapping of int to ndarray of float
        Of each nominal predictor, the place of every level in its order.
    seeds : ndarray of int, shape (T,)
    bags : ndarray of uint8, shape (T, r)
        How often each record is in the bootstrap sample of each tree.
    start : ndarray of int, shape (T + 1,)
        Nodes of tree t are ``start[t]:start[t + 1]`` in the flat arrays.
    feature : ndarray of int16
        Split predictor of each node, -1 in leaves.
    threshold : ndarray of float32
        Rows at most this go left.
    right : ndarray of int32
        Right child, numbered within the tree; in leaves the level they vote for.
    """

    column: int
    K: int
    rows: Ints
    predictors: Ints
    ranks: Mapping[int, Array]
    seeds: Ints
    bags: npt.NDArray[np.uint8]
    start: Ints
    feature: npt.NDArray[np.int16]
    threshold: Singles
    right: Counts

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def nodes(self) -> tuple[Ints, npt.NDArray[np.int16], Singles, Counts]:
        """What kernels read of the structure."""
        return self.start, self.feature, self.threshold, self.right

    def encoded(self, codes: Codes) -> Singles:
        """Predictors of coded rows (R, p) as the trees split them, shape (R, k)."""
        return _encoded(codes, self.predictors, self.ranks)

    def leaves(self, X: Singles) -> Counts:
        """Leaf of encoded rows (R, k) in each tree, shape (T, R)."""
        out = np.empty((len(self), len(X)), dtype=np.int32)
        _leaves(X, self.nodes, out)
        return out

    def votes(self, X: Singles, *, out_of_bag: bool, n_jobs: int = 1) -> Counts:
        """Votes for each level, shape (r, K), of the encoded rows (r, k) of the records replaced.

        ``out_of_bag``: only of the trees in whose bootstrap sample the record is not.
        """
        out = np.zeros((len(X), self.K), dtype=np.int32)
        bags = self.bags if out_of_bag else self.bags[:, :0]
        parts = np.array_split(np.arange(len(X)), max(1, min(n_jobs, len(X) // MIN_ROWS)))
        jobs = [partial(_votes, X, part[0], part[-1] + 1, self.nodes, bags, out) for part in parts]
        for _ in in_order(jobs, n_jobs=len(jobs), what="votes", where="threads"):  # into `out`
            pass
        return out


def grow_forest(
    data: Microdata,
    column: int,
    predictors: Ints,
    rows: Ints,
    *,
    seeds: Ints,
    min_leaf: int,
    n_jobs: int = 1,
    tick: Callable[[int], None] = lambda done: None,
) -> Trees:
    """Grow a tree for each seed on bootstrap samples of some records' genuine values."""
    part = Microdata(codes=data.codes[rows], variables=data.variables, index=data.index[rows])
    ranks = level_orders(part, column, predictors)
    X = _encoded(part.codes, predictors, ranks)
    y = part.codes[:, column].astype(np.int64)
    K = data.variables[column].n_levels
    jobs = [partial(_grown, X, y, K, int(seed), min_leaf) for seed in seeds]
    parts = []
    with without_advice():
        for grown in in_order(jobs, n_jobs=n_jobs, what="trees"):
            parts.append(grown)
            tick(1)
    sizes = [len(feature) for feature, _, _ in parts]
    return Trees(
        column=column,
        K=K,
        rows=rows,
        predictors=predictors,
        ranks=ranks,
        seeds=seeds,
        bags=np.stack([bag_of(int(seed), len(rows)) for seed in seeds]),
        start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        feature=_joined(parts, 0),
        threshold=_joined(parts, 1),
        right=_joined(parts, 2),
    )


def bag_of(seed: int, r: int) -> npt.NDArray[np.uint8]:
    """How often each of r records is in the bootstrap sample of a tree, shape (r,)."""
    drawn = np.random.default_rng(seed).integers(r, size=r)
    return np.bincount(drawn, minlength=r).astype(np.uint8)


def _encoded(codes: Codes, predictors: Ints, ranks: Mapping[int, Array]) -> Singles:
    """Predictors as scikit-learn keeps them, in single precision."""
    return np.ascontiguousarray(encoded(codes, predictors, ranks), dtype=np.float32)


def _joined(parts: Sequence[tuple[Any, ...]], which: int) -> Any:
    return np.concatenate([part[which] for part in parts])


def _grown(X: Singles, y: Ints, K: int, seed: int, min_leaf: int) -> tuple[Any, Any, Any]:
    """Structure and votes of one tree; scikit-learn's own object is dropped."""
    bag = bag_of(seed, len(y))
    machine = DecisionTreeClassifier(
        max_features="sqrt", min_samples_leaf=min_leaf, random_state=seed
    )
    machine.fit(X, y, sample_weight=bag.astype(float), check_input=False)
    grown = machine.tree_
    leaf = grown.children_left < 0
    inner = np.flatnonzero(~leaf)
    if (grown.children_left[inner] != inner + 1).any():
        raise ModelError(
            "this scikit-learn does not number the nodes of a tree depth first; install 1.6 to 1.9"
        )
    held = np.bincount(
        grown.apply(X) * K + y, weights=bag.astype(float), minlength=len(leaf) * K
    ).reshape(-1, K)
    label = held.argmax(axis=1)  # ties: the lowest level
    feature = np.where(leaf, -1, grown.feature).astype(np.int16)
    right = np.where(leaf, label, grown.children_right).astype(np.int32)
    return feature, _single(grown.threshold), right


def _single(threshold: Array) -> Singles:
    """Largest single-precision number at most the threshold: it parts single-precision rows alike.

    Midpoints of neighbouring single-precision numbers would otherwise round up to the upper one.
    """
    rounded = threshold.astype(np.float32)
    above = rounded.astype(float) > threshold
    return np.where(above, np.nextafter(rounded, np.float32(-np.inf)), rounded)


@numba.njit(cache=True, nogil=True)
def _leaf(X, i, begin, feature, threshold, right):
    """Leaf of row i in the tree whose nodes begin there."""
    node = 0
    f = feature[begin]
    while f >= 0:
        node = node + 1 if X[i, f] <= threshold[begin + node] else right[begin + node]
        f = feature[begin + node]
    return node


@numba.njit(cache=True, nogil=True)
def _leaves(X, nodes, out):
    start, feature, threshold, right = nodes
    for t in range(len(start) - 1):
        for i in range(len(X)):
            out[t, i] = _leaf(X, i, start[t], feature, threshold, right)


@numba.njit(cache=True, nogil=True)
def _votes(X, first, last, nodes, bags, out):
    start, feature, threshold, right = nodes
    for t in range(len(start) - 1):
        for i in range(first, last):
            if bags.shape[1] == 0 or bags[t, i] == 0:
                node = _leaf(X, i, start[t], feature, threshold, right)
                out[i, right[start[t] + node]] += 1
