"""The trees of one random forest: how they are grown, what they vote, what votes say of a record.

Trees are scikit-learn's, each grown on its bootstrap sample; only their structure and the level
that each leaf votes for are kept, ten bytes a node, one tree below the other in flat arrays. Nodes
are numbered depth first, so that the left child of a node is the next node.

*Evidence with known structure* ("exact"): S contains splits, orders of levels and bootstrap
samples. In the forest of column j a guess

1. moves record i, in trees that drew it, with value y*_j, to the leaf that y* reaches; at most two
   leaves change;
2. may empty a leaf, which then votes as the smallest node above it with a record;
3. changes votes: released records in a leaf whose vote turns from v to w lose a vote for v and gain
   one for w;
4. is a released record: in the first chain its votes are counted again.

So, up to a constant,

    log p(Z^(l)|y*,y_-i,S) = sum_j sum_k [log(n_k + delta_k(y*) + a) - log(n_k+a)],

with n_k the votes for Z_kj and delta_k = 0 except for records in changed leaves and i itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from sklearn.tree import DecisionTreeClassifier

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import ModelError
from bayes_risk._core.parallel import in_order
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.fits.predicted import log_level

from .tree import encoded, level_orders, without_advice

Singles = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int32]
MIN_ROWS = 1_000  # for a thread


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trees:
    """The T trees of one variable."""

    column: int  # the outcome
    K: int  # its number of levels, those that nobody holds included
    # shape (r,): records of the confidential table that are replaced, on which the trees were grown
    rows: Ints
    predictors: Ints  # shape (k,)
    ranks: Mapping[int, Array]  # of each nominal predictor, the place of every level in its order
    seeds: Ints  # shape (T,)
    # shape (T, r): how often each record is in the bootstrap sample of each tree
    bags: npt.NDArray[np.uint8]
    start: Ints  # shape (T + 1,): nodes of tree t are ``start[t]:start[t + 1]`` in the flat arrays
    feature: npt.NDArray[np.int16]  # split predictor of each node, -1 in leaves
    threshold: Singles  # rows at most this go left
    right: Counts  # right child, numbered within the tree; in leaves the level they vote for

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def nodes(self) -> tuple[Ints, npt.NDArray[np.int16], Singles, Counts]:
        """What kernels read of the structure."""
        return self.start, self.feature, self.threshold, self.right

    def encoded(self, codes: Codes) -> Singles:
        """Predictors of coded rows (R, p) as the trees split them, in single precision, (R, k)."""
        return np.ascontiguousarray(encoded(codes, self.predictors, self.ranks), dtype=np.float32)

    def leaves(self, X: Singles) -> Counts:
        """Leaf of encoded rows (R, k) in each tree, shape (T, R)."""
        out = np.empty((len(self), len(X)), dtype=np.int32)
        _leaves(X, self.nodes, out)
        return out

    def votes(self, X: Singles, *, out_of_bag: bool, n_jobs: int = 1) -> Counts:
        """Votes for each level, (r, K), of the encoded rows (r, k) of the records replaced."""
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
    seeds: Ints,
    *,
    min_leaf: int,
    n_jobs: int = 1,
    tick: Callable[[int], None] = lambda done: None,
) -> Trees:
    """Grow a tree for each seed on bootstrap samples of some records' genuine values."""
    part = Microdata(codes=data.codes[rows], variables=data.variables, index=data.index[rows])
    ranks = level_orders(part, column, predictors)
    X = np.ascontiguousarray(encoded(part.codes, predictors, ranks), dtype=np.float32)
    y = part.codes[:, column].astype(np.int64)
    K = data.variables[column].n_levels
    jobs = [partial(_grown, X, y, K, int(seed), min_leaf) for seed in seeds]
    parts = []
    with without_advice():
        for grown in in_order(jobs, n_jobs=n_jobs, what="trees"):
            parts.append(grown)
            tick(1)
    feature, threshold, right = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Trees(
        column=column,
        K=K,
        rows=rows,
        predictors=predictors,
        ranks=ranks,
        seeds=seeds,
        bags=np.stack([bag_of(int(seed), len(rows)) for seed in seeds]),
        start=np.cumsum([0, *(len(part[0]) for part in parts)], dtype=np.int64),
        feature=feature,
        threshold=threshold,
        right=right,
    )


def bag_of(seed: int, r: int) -> npt.NDArray[np.uint8]:
    """How often each of r records is in the bootstrap sample of a tree, shape (r,)."""
    drawn = np.random.default_rng(seed).integers(r, size=r)
    return np.bincount(drawn, minlength=r).astype(np.uint8)


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
    votes = np.bincount(
        grown.apply(X) * K + y, weights=bag.astype(float), minlength=len(leaf) * K
    ).reshape(-1, K)
    label = votes.argmax(axis=1)  # ties: the lowest level
    feature = np.where(leaf, -1, grown.feature).astype(np.int16)
    right = np.where(leaf, label, grown.children_right).astype(np.int32)
    return feature, _single(grown.threshold), right


def _single(threshold: Array) -> Singles:
    """Largest single-precision number at most the threshold, which parts such rows alike."""
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


class Composition(NamedTuple):
    """Genuine values in the nodes of a forest's trees."""

    trees: Trees
    y: Ints  # (r,): outcome of the records replaced
    place: Ints  # (n,): their number or -1
    counts: Counts  # (nodes, K): records of the bootstrap sample, counted as often as drawn
    parent: Counts  # (nodes,): -1 at roots

    @classmethod
    def from_table(cls, trees: Trees, codes: Codes) -> "Composition":
        """Count the confidential table."""
        y = codes[trees.rows, trees.column].astype(np.int64)
        place = np.full(len(codes), -1, dtype=np.int64)
        place[trees.rows] = np.arange(len(trees.rows))
        counts = np.zeros((len(trees.right), trees.K), dtype=np.int32)
        parent = np.full(len(trees.right), -1, dtype=np.int32)
        _compose(trees.encoded(codes[trees.rows]), y, trees.bags, trees.nodes, counts, parent)
        return cls(trees, y, place, counts, parent)


class ReleasedVotes(NamedTuple):
    """What one data set (n, p) shows of one forest."""

    codes: Codes
    z: Ints  # (r,): released outcomes
    votes: Counts  # (r,): of the trees for them
    order: Counts  # (T, r): released records of each tree by leaf
    begin: Counts  # those of leaf v of tree t start at ``begin[start[t] + t + v]``
    out_of_bag: bool

    @classmethod
    def from_leaves(
        cls, trees: Trees, leaves: Counts, codes: Codes, *, out_of_bag: bool
    ) -> "ReleasedVotes":
        """Index a data set (n, p), whose records fell into these leaves (T, r)."""
        z = codes[trees.rows, trees.column].astype(np.int64)
        votes, order = np.zeros(len(z), dtype=np.int32), np.empty(leaves.shape, dtype=np.int32)
        begin = np.zeros(len(trees.right) + len(trees), dtype=np.int32)
        bags = trees.bags if out_of_bag else trees.bags[:, :0]
        _index(leaves, z, bags, trees.start, trees.right, votes, order, begin)
        return cls(codes, z, votes, order, begin, out_of_bag)


def log_gains(
    base: Composition,
    shown: Sequence[ReleasedVotes],
    targets: Targets,
    which: Ints,
    drawn_before: frozenset[int],
    dirichlet: float,
) -> Array:
    """log p(Z^(l) | y*, y_-i) less that of the truth, for some data sets, shape (m, G, which).

    Cost: m x U x T for each distinct guess, times the released records in leaves that change.
    """
    with np.errstate(divide="ignore"):
        log_votes = np.log(np.arange(len(base.trees) + 1) + dirichlet)
    trees, targets = base.trees, targets.only(which)
    uses = frozenset(trees.predictors.tolist())
    rows, cell = targets.rows(uses | {trees.column})  # shape (G', U, p)
    trained, by = targets.rows(uses)
    found, of = targets.rows(uses - drawn_before)
    drawn = sorted(drawn_before)
    who = base.place[targets.record]
    moves = (
        np.where(who < 0, 0, base.y[who]),
        rows[:, :, trees.column].astype(np.int64),
        trees.leaves(trees.encoded(targets.profiles)),  # shape (T, U)
        _leaves_of(trees, trained),
        _of_cells(cell, by),
    )
    out = np.zeros((len(shown), len(rows), len(targets)))
    for l, one in enumerate(shown):
        found[:, :, drawn] = one.codes[targets.record][:, drawn]
        _gains(
            (trees.start, trees.right, base.counts, base.parent, trees.bags),
            one[1:],
            who,
            moves,
            (_leaves_of(trees, found), _of_cells(cell, of)),
            log_votes,
            out[l],
        )
    return out[:, cell]


def _leaves_of(trees: Trees, rows: Codes) -> Counts:
    """Leaves of rows (G, U, p), shape (T, G, U)."""
    flat = trees.leaves(trees.encoded(rows.reshape(-1, rows.shape[2])))
    return flat.reshape(-1, *rows.shape[:2])


def _of_cells(cell: Ints, coarser: Ints) -> Ints:
    """The coarser cell of each cell, shape (G',), from those of each guess (G,)."""
    out = np.empty(int(cell.max()) + 1, dtype=np.int64)
    out[cell] = coarser
    return out


@numba.njit(cache=True, nogil=True)
def _compose(X, y, bags, nodes, counts, parent):
    """Count the bootstrap sample of each tree in every node from the root to the leaf."""
    start, feature, threshold, right = nodes
    for t in range(len(start) - 1):
        first = start[t]
        for node in range(start[t + 1] - first):
            if feature[first + node] >= 0:
                parent[first + node + 1] = node
                parent[first + right[first + node]] = node
        for i in range(len(X)):
            b = bags[t, i]
            if b == 0:
                continue
            node = _leaf(X, i, first, feature, threshold, right)
            while node >= 0:
                counts[first + node, y[i]] += b
                node = parent[first + node]


@numba.njit(cache=True, nogil=True)
def _index(leaves, z, bags, start, right, votes, order, begin):
    """Sort the records of each tree by leaf, counting; count its votes for what was released."""
    for t in range(len(leaves)):
        first, size = start[t] + t, start[t + 1] - start[t]
        for leaf in leaves[t]:
            begin[first + leaf + 1] += 1
        for node in range(size):
            begin[first + node + 1] += begin[first + node]
        free = begin[first : first + size].copy()
        for k in range(leaves.shape[1]):
            leaf = leaves[t, k]
            order[t, free[leaf]] = k
            free[leaf] += 1
            if right[start[t] + leaf] == z[k] and (bags.shape[1] == 0 or bags[t, k] == 0):
                votes[k] += 1


@numba.njit(cache=True, nogil=True)
def _majority(counts, b, out_of, into):
    """Most frequent level when b records move; of several the lowest, -1 if nobody is left."""
    best, most = -1, 0
    for v in range(len(counts)):
        n = counts[v] - (b if v == out_of else 0) + (b if v == into else 0)
        if n > most:
            best, most = v, n
    return best


@numba.njit(cache=True, nogil=True)
def _left_behind(counts, parent, first, leaf, b, own, goes_to, value):
    """What a leaf votes for without the target; emptied, as the node above that holds a record."""
    vote, node = _majority(counts[first + leaf], b, own, -1), leaf
    while vote < 0:
        node = parent[first + node]
        below = goes_to
        while below > node:  # numbered depth first: ancestors have lower numbers
            below = parent[first + below]
        vote = _majority(counts[first + node], b, own, value if below == node else -1)
    return vote


@numba.njit(cache=True, nogil=True)
def _changed(counts, parent, first, b, leaf0, own, leaf1, value):
    """What two leaves vote for when the target moves from one to the other; -1: as before."""
    if leaf0 != leaf1:
        left = _left_behind(counts, parent, first, leaf0, b, own, leaf1, value)
        return left, _majority(counts[first + leaf1], b, -1, value)
    return -1, (_majority(counts[first + leaf1], b, own, value) if value != own else -1)


@numba.njit(cache=True, nogil=True)
def _shift(members, z, who, bag, out_of_bag, old, new, delta, touched, n_touched):
    """Move the votes of a tree for the released records in a leaf from one level to another."""
    for k in members:
        step = 1 if z[k] == new else (-1 if z[k] == old else 0)
        if step == 0 or k == who or (out_of_bag and bag[k] > 0):
            continue
        if delta[k, 1] == 0:
            delta[k, 1] = 1
            touched[n_touched] = k
            n_touched += 1
        delta[k, 0] += step
    return n_touched


@numba.njit(cache=True, nogil=True)
def _summed(votes, log_votes, delta, touched):
    """Change of sum_k log(votes for z_k) over the records touched, whose slate is wiped."""
    total = 0.0
    for k in touched:
        total += log_votes[votes[k] + delta[k, 0]] - log_votes[votes[k]]
        delta[k] = 0
    return total


@numba.njit(cache=True, nogil=True)
def _gains(forest, shown, whos, moves, found, log_votes, out):
    """Change of sum_k log(votes for z_k) that each guess makes, shape (G', U).

    ``moves``: values of targets (U,) and guesses (G', U); leaves (T, U) as they are and (T, P, U)
    of guesses, and the P of each G'. ``found``: leaves of released records (T, F, U), the F of
    each.
    """
    start, right, counts, parent, bags = forest
    z, votes, order, begin, out_of_bag = shown
    own_value, value, own_leaf, guess_leaf, by = moves
    found_leaf, of = found
    delta = np.zeros((len(z), 2), dtype=np.int32)  # change of votes; whether it is touched
    touched = np.empty(len(z), dtype=np.int64)
    for u in range(len(whos)):
        who, own = whos[u], own_value[u]
        for g in range(len(value) if who >= 0 else 0):
            v, own_votes, n = value[g, u], 0, 0
            for t in range(len(start) - 1):
                b, first, bag = int(bags[t, who]), start[t], bags[t]
                leaf0, leaf1 = int(own_leaf[t, u]), int(guess_leaf[t, by[g], u])
                vote0 = vote1 = -1
                if b > 0:
                    vote0, vote1 = _changed(counts, parent, first, b, leaf0, own, leaf1, v)
                for leaf, vote in ((leaf0, vote0), (leaf1, vote1)):
                    old, at = right[first + leaf], first + t + leaf
                    if vote >= 0 and vote != old:
                        inside = order[t, begin[at] : begin[at + 1]]
                        n = _shift(inside, z, who, bag, out_of_bag, old, vote, delta, touched, n)
                if not out_of_bag or b == 0:
                    leaf = found_leaf[t, of[g], u]
                    vote = int(right[first + leaf])
                    if vote0 >= 0 and leaf == leaf0:
                        vote = vote0
                    elif vote1 >= 0 and leaf == leaf1:
                        vote = vote1
                    own_votes += 1 if vote == z[who] else 0
            change = log_votes[own_votes] - log_votes[votes[who]]
            out[g, u] = change + _summed(votes, log_votes, delta, touched[:n])


def log_prior_of_forests(forests: Sequence[Trees], targets: Targets) -> Array:
    """log p(y* | y_-i) relative to the truth's by votes of trees that have not seen the record.

    By Brook's lemma the joint is the product of ``p(y*_j | y*_1..j-1, y_j+1..) / p(y_j | the
    same)``.
    """
    total = np.zeros(targets.guesses.codes.shape[:2])
    earlier: list[int] = []
    for trees in forests:
        places = np.flatnonzero(targets.columns == trees.column)
        if len(places):
            rows, cell = targets.rows(frozenset(earlier))
            votes = _left_out_votes(trees, rows, targets)[cell]  # shape (G, U, K)
            guess = targets.guesses.codes[:, :, places[0]].astype(np.int64)
            own = targets.profiles[:, trees.column].astype(np.int64)
            N = votes.sum(axis=2)
            for level, sign in ((guess, 1.0), (np.broadcast_to(own, guess.shape), -1.0)):
                n = np.take_along_axis(votes, level[..., None], axis=2)[..., 0]
                total += sign * log_level(n, N, trees.K)
        earlier.append(trees.column)
    return total


def _left_out_votes(trees: Trees, rows: Array, targets: Targets) -> Array:
    """Votes (G', U, K) of the trees in whose bootstrap sample the target is not."""
    G, U, p = rows.shape
    leaf = trees.leaves(trees.encoded(rows.reshape(-1, p))).reshape(len(trees), G, U)
    place = np.searchsorted(trees.rows, targets.record)
    there = trees.rows[np.minimum(place, len(trees.rows) - 1)] == targets.record
    votes = np.zeros((G, U, trees.K))
    g, u = np.indices((G, U))
    for t in range(len(trees)):
        free = ~there | (trees.bags[t, np.minimum(place, len(trees.rows) - 1)] == 0)
        level = trees.right[trees.start[t] + leaf[t]]
        votes[g, u, level] += free
    return votes
