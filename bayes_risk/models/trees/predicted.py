"""What trees expect of a record that is left out: the values of the others in its leaves."""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.logspace import log_sum
from bayes_risk.data.microdata import Microdata, Number
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.fits.predicted import Spread, log_level, log_number
from bayes_risk.models.fits.sampling import blocks

from .cart_evidence import rows_of
from .forest_trees import Trees
from .tree import Tree


def log_prior_of_trees(
    data: Microdata, trees: Sequence[Sequence[Tree]], known: Flags | None, targets: Targets
) -> Array:
    """log p(y* | y_A) by a chain of trees, (G, U); of several sets of trees the mean density."""
    seen = np.arange(len(data.codes)) if known is None else np.flatnonzero(known)
    each = [reduce(np.add, (_of_tree(data, t, seen, targets) for t in chain)) for chain in trees]
    return each[0] if len(each) == 1 else log_sum(np.stack(each))


def _of_tree(data: Microdata, tree: Tree, seen: Ints, targets: Targets) -> Array:
    """Of one tree; where it does not concern a guess 0."""
    codes, own = data.codes[seen], targets.profiles[:, tree.column]
    at, y = tree.leaf(codes), tree.outcome(codes[:, tree.column])
    leaf, value, cell = rows_of(tree, targets)
    variable = data.variables[tree.column]
    whole = getattr(getattr(tree, "of", None), "rest", None) is None
    if isinstance(variable, Number) and whole:
        held = at < tree.n_drawn
        spread = Spread.without(y[held], tree.outcome(own), targets.fitted)
        found = _of_numbers((at[held], y[held], seen[held]), leaf, value, targets, spread)
    else:
        levels = np.unique(np.concatenate([y, value.ravel()]))
        d, mine = variable.n_levels or len(levels), tree.outcome(own)
        count = np.zeros((tree.n_nodes, len(levels)))
        np.add.at(count, (at, np.searchsorted(levels, y)), 1.0)
        same = targets.fitted & (leaf == tree.leaf(targets.profiles))
        n = count[leaf, np.searchsorted(levels, value)] - (same & (value == mine))
        found = log_level(n, count.sum(axis=1)[leaf] - same, d)
    return np.where(leaf < tree.n_drawn, found, 0.0)[cell]


def _of_numbers(
    held: tuple[Ints, Array, Ints], leaf: Ints, value: Array, targets: Targets, spread: Spread
) -> Array:
    """Leaf by leaf: ``held`` leaves, values and rows of the records seen."""
    at, y, rows = held
    out, target = np.empty(leaf.size), np.broadcast_to(np.arange(len(targets)), leaf.shape).ravel()
    record = np.where(targets.fitted, targets.record, -1)[target]
    order = np.argsort(at, kind="stable")
    asked, points = np.argsort(leaf.ravel(), kind="stable"), value.ravel()
    nodes, begin = np.unique(leaf.ravel()[asked], return_index=True)
    for node, some in zip(nodes, np.split(asked, begin[1:]), strict=True):
        who = order[slice(*np.searchsorted(at[order], [node, node + 1]))]
        for block in blocks(len(some), max(len(who), 1)):
            k = some[block]
            weights = (record[k][:, None] != rows[who]).astype(float)
            near = Spread(spread.mean[target[k]], spread.sd[target[k]])
            out[k] = log_number(points[k], y[who][None], weights, near)
    return out.reshape(leaf.shape)


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
