"""Many tables: when model and prior are right, the intruder's probabilities are frequencies.

Priors of regressions apply on scales that the confidential table sets, so tables cannot be drawn
from them in general. Two cases are exact all the same. Under p(beta, sigma^2) ~ 1 / sigma^2 the
normal regression is invariant under changes of y by location and scale, and probabilities of y_i
given y_-i and Z are frequencies whatever beta and sigma are. And where only predictors have scales
(two levels given x), Theta, the table and the release are drawn in turn.
"""

import numpy as np
import pandas as pd
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy import stats

import bayes_risk as br

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning"),
]
Regression, Prior = br.models.Regression, br.models.RegressionPrior
M = 2


def z_scores(rows):
    """Means over tables of what is zero in expectation, by their errors between tables."""
    rows = np.array(rows)
    return rows.mean(axis=0) / (rows.std(axis=0, ddof=1) / np.sqrt(len(rows)))


# --- a number given a covariate, on a grid that does not know the truth ------------------------

N, G = 8, 401
X = np.linspace(-1, 1, N)
GRID = np.linspace(-60.0, 60.0, G)  # a cell is a third of sigma


def own_predictive(y, i):
    """log p(y* | y_-i) under the reference prior at the grid."""
    A = np.column_stack([np.ones(N), X])
    B, c = np.delete(A, i, axis=0), np.delete(y, i)
    V = np.linalg.inv(B.T @ B)
    b = V @ B.T @ c
    s2 = ((c - B @ b) ** 2).sum() / (N - 3)
    return stats.t.logpdf(GRID, N - 3, A[i] @ b, np.sqrt(s2 * (1 + A[i] @ V @ A[i])))


def normal_table(seed, *, times):
    """Uniform probability integral transforms of the true values, less 1/2, and of the squares."""
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({"x": X, "y": 1.0 + 2.0 * X + rng.normal(0, 1.0, N)})
    model = Regression({"y": "1 + x"}, prior=Prior.reference())
    fit = model.fit(df, draws=4, chains=1, random_seed=rng)
    release = fit.synthesize(M, random_seed=rng)
    grid = br.Grid(bounds=(-60.0, 60.0), n=G, truth="nearest")
    risk = br.attribute_risk(fit, release, guesses=grid, evidence="exact")
    u = []
    for i in range(N):
        log_p = own_predictive(df["y"].to_numpy(), i)
        log_p = log_p + times * risk.log_evidence[:, :, risk.case[i]].sum(axis=0)
        p = np.exp(log_p - log_p.max())
        p, at = p / p.sum(), risk.truth[risk.case[i]]
        cell = (df["y"][i] - GRID[at]) / (GRID[1] - GRID[0]) + 0.5  # place of the truth in its cell
        u.append(p[:at].sum() + cell * p[at])
    u = np.array(u)
    return [(u - 0.5).mean(), ((u - 0.5) ** 2 - 1 / 12).mean(), ((u - 0.5) ** 4 - 1 / 80).mean()]


def test_probabilities_of_a_number_are_frequencies():
    z = z_scores([normal_table([1, r], times=1.0) for r in range(400)])
    assert np.abs(z).max() < 4, z


def test_evidence_counted_twice_would_show():
    """The check is sharp."""
    z = z_scores([normal_table([1, r], times=2.0) for r in range(400)])
    assert np.abs(z).max() > 4, z


# --- two levels given a covariate --------------------------------------------------------------

SCALES = np.array([1.5, 1.0])
NODES, WEIGHTS = hermegauss(60)


def chance(x, y, i):
    """Pr(y_i = 1 | y_-i) by quadrature over intercept and slope of the standardised x."""
    s = (x - x.mean()) / x.std()
    a, b = SCALES[0] * NODES[:, None], SCALES[1] * NODES[None, :]
    log_like, others = 0.0, np.arange(len(x)) != i
    for j in np.flatnonzero(others):
        log_like = log_like - np.logaddexp(0.0, (1 - 2 * y[j]) * (a + b * s[j]))
    w = np.exp(log_like) * WEIGHTS[:, None] * WEIGHTS[None, :]
    return (w / (1 + np.exp(-a - b * s[i]))).sum() / w.sum()


def two_levels(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=12)
    s = (x - x.mean()) / x.std()
    a, b = SCALES * rng.standard_normal(2)
    y = (rng.random(12) < 1 / (1 + np.exp(-a - b * s))).astype(int)
    df = pd.DataFrame({"x": x, "y": pd.Categorical.from_codes(y, ["no", "yes"])})
    model = Regression({"y": "1 + x"}, prior=Prior(intercept=SCALES[0], slopes=SCALES[1]))
    fit = model.fit(df, draws=400, tune=300, chains=2, random_seed=rng)
    release = fit.synthesize(M, random_seed=rng)
    risk = br.attribute_risk(fit, release, guesses={}, random_seed=rng)
    out = []
    for i in range(12):
        q = chance(x, y, i)
        log_e = risk.log_evidence[:, :, risk.case[i]].sum(axis=0)
        odds = q / (1 - q) * np.exp(log_e[1] - log_e[0])
        p = odds / (1 + odds)
        mine = p if y[i] else 1 - p
        log_mine = np.log(mine) - p * np.log(p) - (1 - p) * np.log(1 - p)
        out.append([mine - p**2 - (1 - p) ** 2, log_mine, (y[i] - p) * (p > 0.5), y[i] - p])
    return np.mean(out, axis=0)


def test_probabilities_of_two_levels_are_frequencies():
    rows = [two_levels([2, r]) for r in range(100)]
    z = z_scores(rows)
    assert np.abs(z).max() < 4, z
    assert (np.std(rows, axis=0) / 10)[0] < 0.03, "or the check is not sharp"
