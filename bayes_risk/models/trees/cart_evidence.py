"""What a release says of the values in the leaves of trees that are known, or grown anew.

Released values are Dirichlet-multinomial (Bayesian bootstrap) or multinomial (plain draws) given
the records of a node, which a guess puts the target into or takes it out of; with record weights
n_v and N are sums of weights. Derivations: `docs/trees.md`; with weights
`studies/reweighting.py`.
"""

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numba
import numpy as np
import pandas as pd
from scipy.special import gammaln

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import log_sum
from bayes_risk.data.microdata import Codes, Microdata, Number
from bayes_risk.evidence.contract import Progress, Simulated, Targets, rows_kept
from bayes_risk.models.fits.predicted import Spread, log_level, log_predicted
from bayes_risk.models.fits.sampling import blocks
from bayes_risk.models.fits.synthesis import Ticker, log_p_of_guesses

from .kernel_evidence import BATCHES, SmoothedValues, log_gain_smoothed, log_p_smoothed
from .tree import PLAIN, Tree, grow

MISMATCH = ["release", "column", "records", "elsewhere", "share"]


class Leaves(NamedTuple):
    """The trees that made a release, and how values were drawn from their leaves."""

    data: Microdata
    trees: Sequence[Sequence[Tree]]  # of each data set
    kind: int  # `BAYESIAN` or `PLAIN`
    smoothed: Sequence[bool]  # of each tree, whether its values come from kernels
    whole: Sequence[bool]  # and whether they are whole numbers
    z: Sequence[Codes]  # replaced records of each data set
    weights: Array | None = None  # (n,): what each record counts, None: 1
    floor: float | None = None  # probability of a value that its leaf does not hold, None: 0


class LeafCounts(NamedTuple):
    """What one data set shows of a tree; weights are multiples of 2^-30, with exact sums, or 1."""

    values: Array  # (V,): those that are met, increasing
    N: Array  # (nodes,): records
    R: Ints  # (nodes,): values released from the node itself
    keys: Ints  # sorted ``node V + place of the value``
    n: Array  # records of each
    r: Ints  # released values of each

    @classmethod
    def of(
        cls, leaves: Leaves, tree: Tree, z: Codes, further: Sequence[Array] = ()
    ) -> "LeafCounts":
        """Count what coded rows z (R, p) show, those that the tree does not concern left out."""
        nodes, j = tree.node(z), tree.column
        drawn = nodes < tree.n_drawn
        y, released = tree.outcome(leaves.data.codes[:, j]), tree.outcome(z[drawn, j])
        return cls.from_tree(tree, y, nodes[drawn], released, leaves.weights, further)

    @classmethod
    def from_tree(
        cls,
        tree: Tree,
        y: Array,
        nodes: Ints,
        z: Array,
        weights: Array | None = None,
        further: Sequence[Array] = (),
    ) -> "LeafCounts":
        """Count values y (n,) of all records, nodes and values z of released ones."""
        values = np.unique(np.concatenate([np.unique(x) for x in (y, z, *further)]))
        place, V = np.searchsorted(values, y), len(values)
        R = np.bincount(nodes, minlength=tree.n_nodes)
        released, r = np.unique(nodes * V + np.searchsorted(values, z), return_counts=True)
        once = np.ones(len(y)) if weights is None else weights
        genuine, counted = [released[:0]], [once[:0]]
        for node in np.flatnonzero(R).tolist():
            donors = tree.donors[tree.begin[node] : tree.end[node]]
            genuine.append(node * V + place[donors])
            counted.append(once[donors])
        there = np.concatenate(genuine)
        keys = np.union1d(there, released)
        n, counts = np.zeros(len(keys)), np.zeros(len(keys), dtype=np.int64)
        np.add.at(n, np.searchsorted(keys, there), np.concatenate(counted))
        counts[np.searchsorted(keys, released)] = r
        before = np.concatenate([[0.0], np.cumsum(once[tree.donors])])
        return cls(values, before[tree.end] - before[tree.begin], R, keys, n, counts)

    def places(self, nodes: Ints, z: Array) -> Ints:
        """Where the counts of values in nodes stand."""
        keys = nodes * len(self.values) + np.searchsorted(self.values, z)
        return np.searchsorted(self.keys, keys)

    @property
    def n_strange(self) -> int:
        """Number of released values that no record of their node holds."""
        return int(self.r[self.n == 0].sum())

    def log_p(self, kind: int) -> float:
        """log p(released values | all values) of the whole tree; minus infinity: impossible."""
        if self.n_strange:
            return -np.inf
        node = np.flatnonzero(self.R)
        N, R, n, r = self.N[node], self.R[node], self.n, self.r
        occurs = n > 0
        if kind == PLAIN:
            return float((r[occurs] * np.log(n[occurs])).sum() - (R * np.log(N)).sum())
        total = (gammaln(N) - gammaln(N + R)).sum()
        return float(total + (gammaln(n[occurs] + r[occurs]) - gammaln(n[occurs])).sum())


@numba.njit(cache=True, nogil=True)
def _counts_of(shown, node, value):
    """n and r of a value in a node, by its place among all values; of no value (-1) none."""
    key, place = node * len(shown.values) + value, len(shown.keys)
    if value >= 0:
        place = np.searchsorted(shown.keys, key)
    if place < len(shown.keys) and shown.keys[place] == key:
        return shown.n[place], shown.r[place]
    return 0.0, 0


@numba.njit(cache=True, nogil=True)
def _step(kind, n, r, w):
    """log f(n + w) / f(n), f(n) = n^r of plain draws, Gamma(n + r) / Gamma(n) of the bootstrap."""
    if r == 0:
        return 0.0
    if n <= 0:
        return np.inf
    if kind == PLAIN:
        return r * np.log((n + w) / n)
    if w == 1.0:
        return np.log((n + r) / n)
    return math.lgamma(n + w + r) - math.lgamma(n + w) - (math.lgamma(n + r) - math.lgamma(n))


@numba.njit(cache=True, nogil=True)
def gain_of_move(shown, kind, floored, node, old, new, w):
    """Change of log p when a record of weight w takes a value from a node, brings another one."""
    (n_old, r_old), (n_new, r_new) = _counts_of(shown, node, old), _counts_of(shown, node, new)
    N, R, (floor, left, sums) = shown.N[node], shown.R[node], floored
    if sums.shape[1] == 0:
        gain = _step(kind, n_new, r_new, w) - _step(kind, n_old - w, r_old, w)
        if old < 0:
            return gain - _step(kind, N, R, w)
        return gain + _step(kind, N - w, R, w) if new < 0 and N > w else gain
    change = (1 if new >= 0 else 0) - (1 if old >= 0 else 0)
    gain, N = sums[1 + change, node] - sums[1, node], N + change
    if N > 0:  # of an empty node all values are alike
        for n, r, step in ((n_old, r_old, -1), (n_new, r_new, 1)):
            then = np.log(floor + left * max(n + step, 0.0) / N)
            gain += r * (then - np.log(floor + left * n / N))
    return gain


@numba.njit(cache=True, nogil=True)
def _gains(tree, shown, kind, floored, own, guess, weight, out):
    """log p(Z | y*, y_-i) less that of the truth for each target, shape (G, U).

    ``own`` (U,), ``guess`` (G, U): leaves and values as they are, and of guesses. ``floored``: a
    floor, and log p of nodes (3, nodes) with a record less, as they are, with one more, or (3, 0).
    """
    parent, begin, end = tree
    for u in range(out.shape[1]):
        for g in range(out.shape[0]):
            leaf, total = (guess[0][g, u], own[0][u]), 0.0
            for side in range(2):  # nodes above the guess, then those above the truth alone
                node, other = leaf[side], begin[leaf[1 - side]]
                while node >= 0:
                    both = begin[node] <= other and other < end[node]
                    old = own[1][u] if both or side == 1 else -1
                    new = guess[1][g, u] if side == 0 else -1
                    if shown.R[node] > 0 and old != new and not (both and side == 1):
                        total += gain_of_move(shown, kind, floored, node, old, new, weight[u])
                    node = parent[node]
            out[g, u] = total


class Floor(NamedTuple):
    """Probability f of each of V values, and what is left for the leaf: p(v) = f + left n_v / N."""

    floor: float
    n_values: int
    left: float

    def sums(self, shown: LeafCounts, change: int) -> Array:
        """log p of each node's values with so many records more in it, shape (nodes,)."""
        node = shown.keys // len(shown.values)
        N = shown.N[node] + change
        p = self.floor + self.left * shown.n / np.maximum(N, 1.0)
        log_p = np.log(np.where(N > 0, p, 1.0 / self.n_values))
        return np.bincount(node, weights=shown.r * log_p, minlength=len(shown.N)).astype(float)


def known_splits(
    leaves: Leaves, targets: Targets, *, rng: Rng, progress: Progress | None
) -> Simulated:
    """log p(Z^(l) | y*, y_-i) up to a constant, the trees known; with an error only if smoothed."""
    shape = targets.guesses.codes.shape[:2]
    log_p, ess = np.zeros((len(leaves.z), *shape)), np.full(len(targets), np.inf)
    columns = list(dict.fromkeys(tree.column for tree in leaves.trees[0]))
    rows = rows_kept(log_p)
    by_column = np.zeros((len(columns), rows, *shape)) if len(columns) > 1 else None
    none = np.broadcast_to(0.0, (BATCHES, *shape))  # takes no memory
    deviations = none.copy() if any(leaves.smoothed) else none
    tick = Ticker(progress, "evidence", len(leaves.z))
    for l, z in enumerate(leaves.z):
        for t, tree in enumerate(leaves.trees[l]):
            if leaves.smoothed[t]:
                of = (tree, leaves.whole[t], int(rng.integers(2**62)))
                gain, off, size = _smoothed(leaves, of, z, targets)
                deviations += off
                ess = np.minimum(ess, size)
            else:
                gain = _genuine(leaves, tree, z, targets)
            log_p[l] += gain
            if by_column is not None:
                by_column[columns.index(tree.column), l % rows] += gain
        tick(1)
    return Simulated(log_p, deviations, ess, by_column)


def grown_anew(
    leaves: Leaves, targets: Targets, min_leaf: int, *, rng: Rng, progress: Progress | None
) -> Simulated:
    """The same with trees grown anew for each target and guess: U x G fits."""
    seed = int(rng.integers(2**62))
    off: list[Array] = []

    def log_p(data: Microdata) -> Array:
        found, deviation = _of_table(leaves._replace(data=data), min_leaf, seed)
        off.append(deviation)
        return found

    out = log_p_of_guesses(leaves.data, targets, len(leaves.z), log_p, progress)
    U, G = len(targets), out.shape[1]
    deviations = np.stack(off, axis=1).reshape(BATCHES, U, G).swapaxes(1, 2)
    return Simulated(out, deviations, np.full(U, np.inf))


def leaf_rows(tree: Tree, targets: Targets, block: slice = slice(None)) -> tuple[Ints, Array, Ints]:
    """Leaf (G', block) and value of the guesses, and which of these each guess has (G,)."""
    rows, cell = targets.rows(frozenset([tree.column, *tree.predictors.tolist()]), block)
    leaf: Ints = tree.leaf(rows.reshape(-1, rows.shape[2])).reshape(rows.shape[:2])
    return leaf, tree.outcome(rows[:, :, tree.column]), cell


def _genuine(leaves: Leaves, tree: Tree, z: Codes, targets: Targets) -> Array:
    """What one tree adds whose leaves show genuine values, shape (G, U)."""
    j, guesses = tree.column, targets.guesses.codes
    guessed = [tree.outcome(guesses[:, :, q]) for q in np.flatnonzero(targets.columns == j)]
    shown = LeafCounts.of(leaves, tree, z, guessed)
    if not shown.R.any():
        return np.zeros(guesses.shape[:2])
    floored = _floor(leaves, tree)
    given = 0.0, 1.0, np.empty((3, 0))
    if floored is None:
        check_made(leaves.data, tree, shown.n_strange)
    else:
        sums = np.stack([floored.sums(shown, change) for change in (-1, 0, 1)])
        given = floored.floor, floored.left, sums
    leaf, out = tree.leaf(targets.profiles), np.empty(guesses.shape[:2])
    own_place = np.searchsorted(shown.values, tree.outcome(targets.profiles[:, j]))
    for block in blocks(len(targets), 4 * len(guesses)):
        at, value, cell = leaf_rows(tree, targets, block)
        own, guess = (leaf[block], own_place[block]), (at, np.searchsorted(shown.values, value))
        gain, place = np.empty(at.shape), (tree.parent, tree.begin, tree.end)
        _gains(place, shown, leaves.kind, given, own, guess, targets.weight[block], gain)
        out[:, block] = gain[cell]
    return out


def _floor(leaves: Leaves, tree: Tree) -> Floor | None:
    """The floor of a tree's leaves, if they have one."""
    if leaves.floor is None:
        return None
    j = tree.column
    n_values = leaves.data.variables[j].n_levels
    if not n_values:  # a number is one that the original or the release shows
        shown = [leaves.data.codes[:, j], *(z[:, j] for z in leaves.z)]
        n_values = len(np.unique(tree.outcome(np.concatenate(shown))))
    if leaves.floor * n_values >= 1.0:
        raise InputError(
            "floor",
            leaves.floor,
            f"for each of the {n_values:,} values of column {leaves.data.columns[j]!r} leaves "
            f"nothing to the leaves; give less than {1.0 / n_values:.1g}",
        )
    return Floor(leaves.floor, n_values, 1.0 - leaves.floor * n_values)


def _smoothed(
    leaves: Leaves, of: tuple[Tree, bool, int], z: Codes, targets: Targets
) -> tuple[Array, Array, Array]:
    """The same for values from kernels: gains (G, U), deviations (B, G, U), ESS (U,)."""
    tree, whole, seed = of
    leaf, value, cell = leaf_rows(tree, targets)
    shown = SmoothedValues.from_rows(tree, leaves.data, z, whole=whole)
    check_made(leaves.data, tree, shown.n_beyond(tree), "beyond the range of its records")
    own = tree.leaf(targets.profiles), targets.profiles[:, tree.column].astype(float)
    gain, off, ess = log_gain_smoothed(tree, shown, leaves.kind, own, (leaf, value), seed)
    return gain[cell], off[:, cell], ess


def mismatch(leaves: Leaves) -> pd.DataFrame:
    """Released values by data set and column, and how many their leaf does not hold."""
    rows = []
    for l, (trees, z) in enumerate(zip(leaves.trees, leaves.z, strict=True), start=1):
        genuine = [tree for t, tree in enumerate(trees) if not leaves.smoothed[t]]
        elsewhere = {tree.column: np.zeros(len(z), dtype=bool) for tree in genuine}
        for tree in genuine:
            nodes, counts = tree.node(z), LeafCounts.of(leaves, tree, z)
            drawn = np.flatnonzero(nodes < tree.n_drawn)
            place = counts.places(nodes[drawn], tree.outcome(z[drawn, tree.column]))
            elsewhere[tree.column][drawn] |= counts.n[place] == 0
        for j, wrong in elsewhere.items():
            n, k = len(z), int(wrong.sum())
            rows.append((l, leaves.data.columns[j], n, k, k / n))
    return pd.DataFrame(rows, columns=MISMATCH)


def check_made(
    data: Microdata, tree: Tree, n_strange: int, how: str = "that no record of it holds"
) -> None:
    """Refuse a release that shows values in leaves where nobody holds them."""
    if n_strange:
        raise InputError(
            f"the release shows {n_strange:,} values of column {data.columns[tree.column]!r} in a "
            f"leaf or node {how}, so these trees did not make it; audit a release with the model "
            "that made it (where: `fit.report_mismatch(release)`), or give the trees a `floor` and "
            '`bootstrap="none"`'
        )


def _of_table(leaves: Leaves, min_leaf: int, seed: int) -> tuple[Array, Array]:
    """log p(Z^(l) | y) of a whole table, its trees grown on it, shape (m,); deviations (B,)."""
    total, off = np.zeros(len(leaves.z)), np.zeros(BATCHES)
    how: dict[str, Any] = {"min_leaf": min_leaf, "seed": 0, "weights": leaves.weights}
    for t, old in enumerate(leaves.trees[0]):
        tree = grow(leaves.data, old.column, old.predictors, **how)
        for l, z in enumerate(leaves.z):
            if leaves.smoothed[t]:
                kernels = SmoothedValues.from_rows(tree, leaves.data, z, whole=leaves.whole[t])
                own_seed = seed + 7919 * l + t
                found, deviation = log_p_smoothed(tree, kernels, leaves.kind, own_seed)
                total[l] += found
                off += deviation
                continue
            shown, floored = LeafCounts.of(leaves, tree, z), _floor(leaves, tree)
            total[l] += (
                shown.log_p(leaves.kind) if floored is None else floored.sums(shown, 0).sum()
            )
    return total, off


def log_prior_of_trees(
    data: Microdata, trees: Sequence[Sequence[Tree]], known: Flags | None, targets: Targets
) -> Array:
    """log p(y* | y_A) by a chain of trees, (G, U); of several sets of trees the mean density."""
    seen = np.arange(len(data.codes)) if known is None else np.flatnonzero(known)
    each = [reduce(np.add, (_expected(data, t, seen, targets) for t in chain)) for chain in trees]
    return each[0] if len(each) == 1 else log_sum(np.stack(each))


def _expected(data: Microdata, tree: Tree, seen: Ints, targets: Targets) -> Array:
    """Of one tree; where it does not concern a guess 0."""
    codes, own = data.codes[seen], targets.profiles[:, tree.column]
    at, y = tree.leaf(codes), tree.outcome(codes[:, tree.column])
    leaf, value, cell = leaf_rows(tree, targets)
    variable = data.variables[tree.column]
    whole = getattr(getattr(tree, "of", None), "rest", None) is None
    if isinstance(variable, Number) and whole:
        drawn = at < tree.n_drawn
        spread = Spread.without(y[drawn], tree.outcome(own), targets.fitted)
        records = tree.column, at[drawn], y[drawn], seen[drawn]
        found = _of_numbers(records, leaf, value, targets, spread)
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
    records: tuple[int, Ints, Array, Ints],
    leaf: Ints,
    value: Array,
    targets: Targets,
    spread: Spread,
) -> Array:
    """Leaf by leaf: ``records`` the column, leaves, values and rows of the records seen."""
    column, at, y, rows = records
    place = np.flatnonzero(targets.columns == column).tolist()
    masses = targets.guesses.point_masses(place[0] if place else -1)
    out, target = np.empty(leaf.size), np.broadcast_to(np.arange(len(targets)), leaf.shape).ravel()
    record = np.where(targets.fitted, targets.record, -1)[target]
    order = np.argsort(at, kind="stable")
    by_leaf, points = np.argsort(leaf.ravel(), kind="stable"), value.ravel()
    nodes, begin = np.unique(leaf.ravel()[by_leaf], return_index=True)
    for node, some in zip(nodes, np.split(by_leaf, begin[1:]), strict=True):
        who = order[slice(*np.searchsorted(at[order], [node, node + 1]))]
        for block in blocks(len(some), max(len(who), 1)):
            k = some[block]
            weights = (record[k][:, None] != rows[who]).astype(float)
            near = Spread(spread.mean[target[k]], spread.sd[target[k]])
            shared = masses.only(target[k])
            out[k] = log_predicted(points[k], y[who][None], weights, near, shared)
    return out.reshape(leaf.shape)
