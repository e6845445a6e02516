"""Propensity scores: how well a model tells the records of a release from the original's.

Derivation of the null expectations: ``docs/utility.md``.

*Tables.* With counts o_j, s_j of cell j of k, p_j = s_j / (o_j+s_j) and r = c / (1-c): pMSE = c
(1-c)^2 / N sum_j (s_j - o_j r)^2 / (c (o_j+s_j)), the sum about chi-squared with k - 1. *Logistic
scores*: the same, with the score statistic U' I^-1 U, since with the original fixed Var U = (1-c)
I.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.matching import distinct_rows
from bayes_risk._core.parallel import in_order

from .tables import ColumnCells

TOLERANCE = 1e-9  # of the eigenvalues of a correlation-like matrix, relative to the largest


class Profiles(NamedTuple):
    """Distinct rows (P) of the original and a release, and how many records of each show them."""

    values: tuple[Array, ...]
    original: Array
    release: Array

    @property
    def records(self) -> Array:
        """Records of both files, (P,)."""
        return self.original + self.release


# predictors made of one column, shape (P, d), and whether the column was synthesised
Block = tuple[Array, bool]


def column_blocks(columns: Sequence[ColumnCells], at: Profiles) -> list[Block]:
    """Dummies of categories; standardised numbers, with a dummy for missing ones."""
    found = []
    for column, values in zip(columns, at.values, strict=True):
        if column.number:
            absent = np.isnan(values)
            shown, weights = values[~absent], at.records[~absent]
            mean = np.average(shown, weights=weights)
            spread = np.sqrt(np.average((shown - mean) ** 2, weights=weights))
            parts = [np.where(absent, 0.0, (values - mean) / spread)] if spread > 0 else []
            parts += [absent.astype(float)] if absent.any() else []
            block = np.column_stack(parts) if parts else np.empty((len(values), 0))
        else:  # for each level that somebody shows, but the commonest
            seen = np.bincount(values.astype(np.int64), at.records, column.size)
            levels = np.flatnonzero(seen)
            block = (values[:, None] == levels[levels != np.argmax(seen)]).astype(float)
        found.append((block, column.made))
    return found


def main_effects(blocks: Sequence[Block], weights: Array) -> tuple[Array, int]:
    """Predictors (P, K), and their rank beyond the constant and what unsynthesised columns span."""
    values = np.concatenate([block for block, _ in blocks], axis=1)
    kept = np.concatenate([values[:, :0], *(block for block, made in blocks if not made)], axis=1)
    return values, _rank(values, weights) - _rank(kept, weights)


def interactions(blocks: Sequence[Block], weights: Array) -> tuple[Array, int]:
    """Main effects, and products of predictors of any two columns."""
    products = []
    for (a, a_made), (b, b_made) in combinations(blocks, 2):
        product = (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)
        products.append((product[:, product.any(axis=0)], a_made or b_made))
    return main_effects([*blocks, *products], weights)


def features(columns: Sequence[ColumnCells], l: int) -> npt.NDArray[np.float32]:
    """What a tree splits on, (N, K): levels in their order, numbers, dummies for missing ones."""
    parts = []
    for column in columns:
        values = np.concatenate([column.values[0], column.values[l]])
        absent = np.isnan(values)
        parts.append(np.where(absent, np.nanmean(values), values))
        if absent.any():
            parts.append(absent.astype(float))
    return np.column_stack(parts).astype(np.float32)


def _rank(values: Array, weights: Array) -> int:
    """Rank beyond the constant, from the correlations of the predictors."""
    share = weights / weights.sum()
    mean = share @ values
    covariance = values.T @ (share[:, None] * values) - np.outer(mean, mean)
    variance = np.diagonal(covariance)
    some = variance > TOLERANCE * (variance + mean**2)
    if not some.any():
        return 0
    scale = np.sqrt(variance[some])
    found = np.linalg.eigvalsh(covariance[np.ix_(some, some)] / np.outer(scale, scale))
    return int((found > TOLERANCE * found.max()).sum())


Predictors = Callable[[Sequence[Block], Array], tuple[Array, int]]
MODELS = ("main", "interactions", "cart")
MAX_PREDICTORS = 1_000
MAX_ENTRIES = 100_000_000  # of the design matrix: 0.8 GB
RIDGE = 1e5  # inverse of the penalty that keeps separated cells finite
MIN_LEAF = 20


MEASURES = ("pmse", "null_pmse", "null_sd", "ratio", "standardized", "specks", "df")


def measured(found: float, expected: float, sd: float, specks: float, df: float) -> list[float]:
    """pMSE, measured by its null expectation and standard deviation, and the rest of `MEASURES`."""
    ratio = found / expected if expected > 0 else float("nan")
    standardized = (found - expected) / sd if sd > 0 else float("nan")
    return [found, expected, sd, ratio, standardized, specks, df]


def propensity(
    columns: Sequence[ColumnCells],
    *,
    replaced: float,
    permutations: int,
    rng: np.random.Generator,
    n_jobs: int,
    which: tuple[Predictors, ...] = (main_effects, interactions),
) -> Array:
    """Scores of every release and model, shape (m, 3, measures); NaN: regressions left out."""
    m = len(columns[0].values) - 1
    scores = np.full((m, len(MODELS), len(MEASURES)), np.nan)
    jobs = [
        partial(_logistic, columns, l, predictors, replaced)
        for l in range(1, m + 1)
        for predictors in which
    ]
    logistic = list(in_order(jobs, n_jobs=n_jobs, what="propensity"))
    scores[:, : len(which)] = np.reshape(logistic, (m, len(which), len(MEASURES)))
    # CART of every release; the null is shared by them all, as files and trees are alike
    paired = replaced < 1 or not all(c.made for c in columns)
    children = rng.spawn(m + permutations)
    # the tree of each release, then permutations in turn
    turns = [*range(m), *(b % m for b in range(permutations))]
    X = [features(columns, l) for l in range(1, m + 1)]
    sizes = [len(values) for values in columns[0].values]
    released = [np.repeat([False, True], [sizes[0], size]) for size in sizes[1:]]
    trees = [
        partial(_tree, X[l], released[l], child, b >= m, paired)
        for b, (l, child) in enumerate(zip(turns, children, strict=True))
    ]
    grown = list(in_order(trees, n_jobs=n_jobs, what="propensity trees"))
    # permuted labels vary 1 / (1 - c) times as much as a release about a fixed original; pairs
    # exchanged f times as much as all of them, a release f (2 - f) times
    null = np.array([(1 - c) * (2 - replaced) * found for found, _, c, _ in grown[m:]])
    expected, sd = float(null.mean()), float(null.std(ddof=1))
    scores[:, 2] = [
        measured(found, expected, sd, distance, leaves - 1)
        for found, distance, _, leaves in grown[:m]
    ]
    return scores


def pmse(score: Array, c: float, weights: Array) -> float:
    """``sum (p_i - c)^2 / N``: 0 cannot be told apart, c (1 - c) always."""
    return float(np.average((score - c) ** 2, weights=weights))


def specks(score: Array, original: Array, release: Array) -> float:
    """Kolmogorov-Smirnov distance of the scores of records of both (Bowen, Liu & Su 2021)."""
    order = np.argsort(score, kind="stable")
    last = np.append(np.diff(score[order]) > 0, True)  # ties move together
    below = [np.cumsum(count[order])[last] / count.sum() for count in (original, release)]
    return float(np.abs(below[0] - below[1]).max())


def logistic_null(df: float, N: int, c: float, replaced: float = 1.0) -> tuple[float, float]:
    """Expectation and standard deviation of pMSE (Snoke et al. 2018): k - 1 = ``df``."""
    unit = c * (1 - c) ** 2 / N * replaced * (2 - replaced)
    return df * unit, float(np.sqrt(2 * df)) * unit


def _logistic(
    columns: Sequence[ColumnCells], l: int, which: Predictors, replaced: float
) -> list[float]:
    both = [np.concatenate([c.values[0], c.values[l]]) for c in columns]
    first, row, _ = distinct_rows(np.column_stack(both))
    files = np.split(row, [len(columns[0].values[0])])
    counts = (np.bincount(part, minlength=len(first)).astype(float) for part in files)
    at = Profiles(tuple(values[first] for values in both), *counts)
    blocks = column_blocks(columns, at)
    d = np.array([block.shape[1] for block, _ in blocks])
    # predictors that products of two columns would make at most
    K = int(d.sum() + (d.sum() ** 2 - (d**2).sum()) // 2) if which is interactions else 0
    if K > MAX_PREDICTORS or K * len(at.original) > MAX_ENTRIES:
        return [float("nan")] * len(MEASURES)
    X, df = which(blocks, at.records)
    del blocks  # as large as the design
    N, c = at.records.sum(), at.release.sum() / at.records.sum()
    score = _fitted(X, at, c)
    distance = specks(score, at.original, at.release)
    return measured(pmse(score, c, at.records), *logistic_null(df, N, c, replaced), distance, df)


def _fitted(X: Array, at: Profiles, c: float) -> Array:
    """Propensity score of each profile, (P,)."""
    slack = 0.01 / at.records.sum()  # of a mean gradient: a hundredth of a record
    gradient = X.T @ (at.release - c * at.records) / at.records.sum()
    if np.abs(gradient).max(initial=0.0) < slack:  # nothing to learn; the solver would stall
        return np.full(len(X), c)
    o, s = at.original > 0, at.release > 0
    rows, label = np.concatenate([X[o], X[s]]), np.repeat([0, 1], [o.sum(), s.sum()])
    weights = np.concatenate([at.original[o], at.release[s]])
    from sklearn.linear_model import LogisticRegression  # slow

    model = LogisticRegression(C=RIDGE, solver="newton-cholesky", max_iter=200, tol=slack)
    return np.asarray(model.fit(rows, label, sample_weight=weights).predict_proba(X)[:, 1])


def _tree(
    X: npt.NDArray[np.float32],
    released: Flags,
    rng: np.random.Generator,
    permute: bool,
    paired: bool,
) -> tuple[float, float, float, int]:
    """PMSE, SPECKS, share of released records, and number of leaves."""
    if permute and paired:  # labels are exchanged within pairs
        swap = rng.random(len(released) // 2) < 0.5
        released = np.concatenate([swap, ~swap])
    elif permute:
        released = rng.permutation(released)
    seed = int(rng.integers(2**31))
    from sklearn.tree import DecisionTreeClassifier  # slow

    tree = DecisionTreeClassifier(min_samples_leaf=MIN_LEAF, random_state=seed).fit(X, released)
    score, one = tree.predict_proba(X)[:, -1], np.ones(len(X))
    c, s = float(released.mean()), released.astype(float)
    return pmse(score, c, one), specks(score, 1 - s, s), c, int(tree.get_n_leaves())
