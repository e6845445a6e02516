"""What a release says of the values in the leaves of trees that are known, or grown anew."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.evidence.contract import Progress, Simulated, Targets
from bayes_risk.models.fits.guessed import log_p_of_guesses

from .kernel_evidence import BATCHES, Simulation, SmoothedValues, log_gain_smoothed, log_p_smoothed
from .leaf_evidence import Floor, LeafCounts, log_gain, numbered
from .tree import Tree, grow

MISMATCH = ["release", "column", "records", "elsewhere", "share"]
MAX_CELLS = 2**19  # guesses of targets at a time


class Leaves(NamedTuple):
    """The trees that made a release, and how values were drawn from their leaves.

    ``trees``: those of each data set; ``kind``: `BAYESIAN` or `PLAIN`; ``smoothed``, ``whole``: for
    each tree, whether its values come from kernels, and whether they are whole numbers; ``z``:
    codes of the replaced records, for each data set; ``weights`` (n,): what each record counts,
    None: 1; ``floor``: probability of a value that its leaf does not hold, None: 0.
    """

    data: Microdata
    trees: Sequence[Sequence[Tree]]
    kind: int
    smoothed: Sequence[bool]
    whole: Sequence[bool]
    z: Sequence[Codes]
    weights: Array | None = None
    floor: float | None = None


def known_splits(
    leaves: Leaves, targets: Targets, rng: np.random.Generator, progress: Progress | None
) -> Simulated:
    """log p(Z^(l) | y*, y_-i) up to a constant for each target, the trees known.

    Without an error, its deviations all zero, unless some values are smoothed and drawn by the
    Bayesian bootstrap.
    """
    shape = targets.guesses.codes.shape[:2]
    log_p, ess = np.zeros((len(leaves.z), *shape)), np.full(len(targets), np.inf)
    columns = list(dict.fromkeys(tree.column for tree in leaves.trees[0]))
    by_column = np.zeros((len(columns), *shape)) if len(columns) > 1 else None
    none = np.broadcast_to(0.0, (BATCHES, *shape))  # takes no memory
    deviations = none.copy() if any(leaves.smoothed) else none
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
                by_column[columns.index(tree.column)] += gain
        if progress is not None:
            progress("evidence", l + 1, len(leaves.z))
    return Simulated(log_p, deviations, ess, by_column)


def grown_anew(
    leaves: Leaves,
    targets: Targets,
    min_leaf: int,
    rng: np.random.Generator,
    progress: Progress | None,
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


def rows_of(tree: Tree, targets: Targets, block: slice = slice(None)) -> tuple[Ints, Array, Ints]:
    """Leaf (G', block) and value of the guesses, and which of these each guess has (G,)."""
    rows, cell = targets.rows(frozenset([tree.column, *tree.predictors.tolist()]), block)
    leaf: Ints = tree.leaf(rows.reshape(-1, rows.shape[2])).reshape(rows.shape[:2])
    return leaf, tree.outcome(rows[:, :, tree.column]), cell


def _genuine(leaves: Leaves, tree: Tree, z: Codes, targets: Targets) -> Array:
    """What one tree adds whose leaves show genuine values, shape (G, U)."""
    j, guesses, nodes = tree.column, targets.guesses.codes, tree.node(z)
    drawn = nodes < tree.n_drawn
    if not drawn.any():
        return np.zeros(guesses.shape[:2])
    genuine, synthetic = tree.outcome(leaves.data.codes[:, j]), tree.outcome(z[drawn, j])
    guessed = [tree.outcome(guesses[:, :, q]) for q in np.flatnonzero(targets.columns == j)]
    values = np.unique(np.concatenate([np.unique(x) for x in (genuine, synthetic, *guessed)]))
    y, released = (np.searchsorted(values, x).astype(np.int64) for x in (genuine, synthetic))
    shown = LeafCounts.from_tree(tree, y, nodes[drawn], released, len(values), leaves.weights)
    floored = _floor(leaves, tree)
    if floored is None:
        check_made(leaves.data, tree, shown)
    leaf, held, out = tree.leaf(targets.profiles), y[targets.record], np.empty(guesses.shape[:2])
    step = max(MAX_CELLS // len(guesses), 1)
    for block in (slice(u, u + step) for u in range(0, len(targets), step)):
        at, value, cell = rows_of(tree, targets, block)
        guess = at, np.searchsorted(values, value).astype(np.int64)
        own = leaf[block], held[block]
        if floored is None:
            gain = log_gain(tree, shown, leaves.kind, own, guess, targets.weight[block])
        else:
            gain = floored.log_gain(tree, shown, own, guess)
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
    return Floor.checked(leaves.floor, n_values, leaves.data.columns[j])


def _smoothed(
    leaves: Leaves, of: tuple[Tree, bool, int], z: Codes, targets: Targets
) -> tuple[Array, Array, Array]:
    """The same for values from kernels: gains (G, U), deviations (B, G, U), ESS (U,)."""
    tree, whole, seed = of
    leaf, value, cell = rows_of(tree, targets)
    shown = SmoothedValues.from_rows(
        tree, leaves.data.codes[:, tree.column], tree.node(z), z[:, tree.column], whole=whole
    )
    _check_made(leaves.data, tree, shown.n_beyond(tree), "beyond the range of its records")
    place = np.empty(len(tree.donors), dtype=np.int64)
    place[tree.donors] = np.arange(len(place))
    own = np.stack([tree.leaf(targets.profiles), place[targets.record]])
    gain, off, ess = log_gain_smoothed(
        tree, shown, leaves.kind, own, (leaf, value), Simulation(seed)
    )
    return gain[cell], off[:, cell], ess


def mismatch(leaves: Leaves) -> pd.DataFrame:
    """Released values by data set and column, and how many their leaf does not hold."""
    rows: list[dict[str, int | float | str]] = []
    for l, (trees, z) in enumerate(zip(leaves.trees, leaves.z, strict=True), start=1):
        genuine = [tree for t, tree in enumerate(trees) if not leaves.smoothed[t]]
        elsewhere = {tree.column: np.zeros(len(z), dtype=bool) for tree in genuine}
        for tree in genuine:
            nodes, j = tree.node(z), tree.column
            y, released = tree.outcome(leaves.data.codes[:, j]), tree.outcome(z[:, j])
            (held, shown), V = numbered([y, released])
            drawn = np.flatnonzero(nodes < tree.n_drawn)
            counts = LeafCounts.from_tree(tree, held, nodes[drawn], shown[drawn], V)
            place = np.searchsorted(counts.keys, nodes[drawn] * V + shown[drawn])
            elsewhere[j][drawn] |= counts.n[place] == 0
        for j, wrong in elsewhere.items():
            n, k = len(z), int(wrong.sum())
            rows.append(dict(zip(MISMATCH, (l, leaves.data.columns[j], n, k, k / n), strict=True)))
    return pd.DataFrame(rows, columns=MISMATCH)


def check_made(data: Microdata, tree: Tree, shown: LeafCounts) -> None:
    """Refuse a release that shows values in leaves where nobody holds them."""
    _check_made(data, tree, int(shown.r[shown.n == 0].sum()), "that no record of it holds")


def _check_made(data: Microdata, tree: Tree, n_strange: int, how: str) -> None:
    if n_strange:
        raise InputError(
            f"the release shows {n_strange:,} values of column {data.columns[tree.column]!r} in a "
            f"leaf or node {how}, so these trees did not make it; audit a release with the fit "
            "that made it (where: fit.report_mismatch(release)), or give the trees a floor"
        )


def _of_table(leaves: Leaves, min_leaf: int, seed: int) -> tuple[Array, Array]:
    """log p(Z^(l) | y) of a whole table, its trees grown on it, shape (m,); deviations (B,)."""
    total, off = np.zeros(len(leaves.z)), np.zeros(BATCHES)
    how: dict[str, Any] = {"min_leaf": min_leaf, "seed": 0, "weights": leaves.weights}
    for t, old in enumerate(leaves.trees[0]):
        tree = grow(leaves.data, old.column, old.predictors, **how)
        y = leaves.data.codes[:, tree.column].astype(float)
        for l, z in enumerate(leaves.z):
            nodes, released = tree.node(z), z[:, tree.column].astype(float)
            if leaves.smoothed[t]:
                kernels = SmoothedValues.from_rows(tree, y, nodes, released, whole=leaves.whole[t])
                found, deviation = log_p_smoothed(
                    tree, kernels, leaves.kind, Simulation(seed + 7919 * l + t)
                )
                total[l] += found
                off += deviation
                continue
            (held, values), V = numbered([y, released])
            shown = LeafCounts.from_tree(tree, held, nodes, values, V, leaves.weights)
            floored = _floor(leaves, tree)
            total[l] += shown.log_p(leaves.kind) if floored is None else floored.log_p(shown)
    return total, off
