"""Propensity scores: how well a model tells the records of a release from the original's.

Derivation of the null expectations: ``docs/utility.md``.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from bayes_risk._core.workers import in_order

from .design import (
    Block,
    Design,
    Profiles,
    blocks_of,
    features,
    interactions,
    main_effects,
    n_interactions,
    profiles_of,
)
from .tables import Column

Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Predictors = Callable[[Sequence[Block], Reals], Design]

MODELS = ("main", "interactions", "cart")
MEASURES = ("pmse", "null_pmse", "null_sd", "ratio", "standardized", "specks", "df")
MAX_PREDICTORS = 1_000
MAX_ENTRIES = 100_000_000  # of the design matrix: 0.8 GB
RIDGE = 1e5  # inverse of the penalty that keeps separated cells finite
MIN_LEAF = 20


class Score(NamedTuple):
    """Measures of one propensity model and release, in the order of `MEASURES`."""

    pmse: float
    null_pmse: float
    null_sd: float
    ratio: float
    standardized: float
    specks: float
    df: float


NOT_FITTED = Score(*[float("nan")] * len(MEASURES))


def propensity(
    columns: Sequence[Column],
    *,
    replaced: float,
    permutations: int,
    rng: np.random.Generator,
    n_jobs: int,
) -> Reals:
    """Scores of every release and model, shape (m, 3, measures)."""
    m = len(columns[0].values) - 1
    which: tuple[Predictors, ...] = (main_effects, interactions)
    scores = np.empty((m, len(MODELS), len(MEASURES)))
    jobs = [
        partial(_logistic, columns, l, predictors, replaced)
        for l in range(1, m + 1)
        for predictors in which
    ]
    logistic = list(in_order(jobs, n_jobs=n_jobs, what="propensity"))
    scores[:, :2] = np.reshape(logistic, (m, 2, -1))
    scores[:, 2] = _trees(columns, replaced, permutations, rng, n_jobs)
    return scores


def pmse(score: Reals, c: float, weights: Reals) -> float:
    """``sum (p_i - c)^2 / N``: 0 cannot be told apart, c (1 - c) always."""
    return float(np.average((score - c) ** 2, weights=weights))


def specks(score: Reals, original: Reals, release: Reals) -> float:
    """Kolmogorov-Smirnov distance of the scores of both files, 0 to 1 (Bowen, Liu & Su 2021).

    ``original`` and ``release``: how many records of each have a score.
    """
    order = np.argsort(score, kind="stable")
    last = np.append(np.diff(score[order]) > 0, True)  # ties move together
    below = [np.cumsum(count[order])[last] / count.sum() for count in (original, release)]
    return float(np.abs(below[0] - below[1]).max())


def logistic_null(df: float, N: int, c: float, replaced: float = 1.0) -> tuple[float, float]:
    """Expectation and standard deviation of pMSE (Snoke et al. 2018): k - 1 = ``df``."""
    unit = c * (1 - c) ** 2 / N * replaced * (2 - replaced)
    return df * unit, float(np.sqrt(2 * df)) * unit


def _logistic(columns: Sequence[Column], l: int, which: Predictors, replaced: float) -> Score:
    at = profiles_of(columns, l)
    blocks = blocks_of(columns, at)
    if which is interactions and not _small(n_interactions(blocks), len(at.original)):
        return NOT_FITTED
    design = which(blocks, at.records)
    del blocks  # as large as the design
    N, c = at.records.sum(), at.release.sum() / at.records.sum()
    expected, sd = logistic_null(design.df, N, c, replaced)
    score = _fitted(design.values, at, c)
    found = pmse(score, c, at.records)
    distance = specks(score, at.original, at.release)
    return Score(*_standardised(found, expected, sd), specks=distance, df=design.df)


def _fitted(X: Reals, at: Profiles, c: float) -> Reals:
    """Propensity score of each profile, (P,)."""
    slack = 0.01 / at.records.sum()  # of a mean gradient: a hundredth of a record
    gradient = X.T @ (at.release - c * at.records) / at.records.sum()
    if np.abs(gradient).max(initial=0.0) < slack:  # nothing to learn; the solver would stall
        return np.full(len(X), c)
    o, s = at.original > 0, at.release > 0
    rows, label = np.concatenate([X[o], X[s]]), np.repeat([0, 1], [o.sum(), s.sum()])
    weights = np.concatenate([at.original[o], at.release[s]])
    model = LogisticRegression(C=RIDGE, solver="newton-cholesky", max_iter=200, tol=slack)
    found: Reals = model.fit(rows, label, sample_weight=weights).predict_proba(X)[:, 1]
    return found


def _small(K: int, P: int) -> bool:
    return K <= MAX_PREDICTORS and K * P <= MAX_ENTRIES


def _standardised(
    found: float, expected: float, sd: float
) -> tuple[float, float, float, float, float]:
    """PMSE, its null expectation and standard deviation, and pMSE measured by them."""
    nan = float("nan")
    ratio = found / expected if expected > 0 else nan
    return found, expected, sd, ratio, (found - expected) / sd if sd > 0 else nan


def _trees(
    columns: Sequence[Column],
    replaced: float,
    permutations: int,
    rng: np.random.Generator,
    n_jobs: int,
) -> Reals:
    """CART of every release; the null is shared by them all, as files and trees are alike."""
    m = len(columns[0].values) - 1
    paired = replaced < 1 or not all(c.made for c in columns)
    children = rng.spawn(m + permutations)
    # the tree of each release, then permutations in turn
    turns = [*range(m), *(b % m for b in range(permutations))]
    X = [features(columns, l) for l in range(1, m + 1)]
    released = [_released(columns, l) for l in range(1, m + 1)]
    jobs = [
        partial(_tree, X[l], released[l], child, b >= m, paired)
        for b, (l, child) in enumerate(zip(turns, children, strict=True))
    ]
    grown = list(in_order(jobs, n_jobs=n_jobs, what="propensity trees"))
    # permuted labels vary 1 / (1 - c) times as much as a release about a fixed original; pairs
    # exchanged f times as much as all of them, a release f (2 - f) times
    null = np.array([(1 - c) * (2 - replaced) * found for found, _, c, _ in grown[m:]])
    expected, sd = float(null.mean()), float(null.std(ddof=1))
    return np.array(
        [
            Score(*_standardised(found, expected, sd), specks=distance, df=leaves - 1)
            for found, distance, _, leaves in grown[:m]
        ]
    )


def _tree(
    X: npt.NDArray[np.float32],
    released: Flags,
    rng: np.random.Generator,
    permute: bool,
    paired: bool,
) -> tuple[float, float, float, int]:
    """PMSE, SPECKS, share of released records, and number of leaves."""
    if permute:
        released = _permuted(released, paired, rng)
    seed = int(rng.integers(2**31))
    tree = DecisionTreeClassifier(min_samples_leaf=MIN_LEAF, random_state=seed).fit(X, released)
    score, one = tree.predict_proba(X)[:, -1], np.ones(len(X))
    c, s = float(released.mean()), released.astype(float)
    return pmse(score, c, one), specks(score, 1 - s, s), c, int(tree.get_n_leaves())


def _permuted(released: Flags, paired: bool, rng: np.random.Generator) -> Flags:
    """Labels in another order; where records correspond, exchanged within pairs."""
    if not paired:
        return rng.permutation(released)
    swap = rng.random(len(released) // 2) < 0.5
    return np.concatenate([swap, ~swap])


def _released(columns: Sequence[Column], l: int) -> Flags:
    sizes = [len(columns[0].values[t]) for t in (0, l)]
    return np.repeat([False, True], sizes)
