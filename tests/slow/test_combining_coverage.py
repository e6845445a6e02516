"""Combining rules hold in repeated samples of partially synthetic data.

A normal regression with a flat prior, all values of the outcome synthesised from the posterior
predictive distribution; the coefficients are then estimated from each data set.
"""

import numpy as np
import pytest
from scipy import integrate, stats

from bayes_risk.utilities.combining import combine

pytestmark = pytest.mark.slow
RUNS = 4000


def estimates(rng, *, m, n=1000, k=3, beta=0.1):
    """Least squares of m synthetic outcomes, with covariance matrices."""
    X = np.column_stack([np.ones(n), rng.normal(size=(n, k - 1))])
    inverse = np.linalg.inv(X.T @ X)
    root = np.linalg.cholesky(inverse)
    y = X @ np.full(k, beta) + rng.normal(size=n)
    hat = inverse @ X.T @ y
    s2 = ((y - X @ hat) ** 2).sum() / (n - k)
    q, u = [], []
    for _ in range(m):
        sigma2 = s2 * (n - k) / rng.chisquare(n - k)
        theta = hat + np.sqrt(sigma2) * root @ rng.normal(size=k)
        z = X @ theta + np.sqrt(sigma2) * rng.normal(size=n)
        b = inverse @ X.T @ z
        q.append(b)
        u.append(inverse * ((z - X @ b) ** 2).sum() / (n - k))
    return np.array(q), np.array(u)


def expected_coverage(m):
    """Of 95 % intervals, in large samples, when everything is synthesised (u = 1, so E b = 2).

    Reiter's t distribution is an approximation: 92.9 % for m = 2, 95.0 % for m = 5.
    """

    def density(c):  # c: chi-square of b
        T = 1 + 2 * c / (m - 1) / m
        half = stats.t.ppf(0.975, (m - 1) * (T / (T - 1)) ** 2) * np.sqrt(T)
        within = 2 * stats.norm.cdf(half / np.sqrt(1 + 2 / m)) - 1
        return within * stats.chi2.pdf(c, m - 1)

    return integrate.quad(density, 0, 1)[0] + integrate.quad(density, 1, np.inf)[0]


@pytest.mark.parametrize("m", [2, 5, 20])
def test_intervals_cover(m):
    rng = np.random.default_rng(m)
    covered = np.zeros((RUNS, 3))
    for run in range(RUNS):
        table = combine(*estimates(rng, m=m)).table
        covered[run] = (table["low"] <= 0.1) & (0.1 <= table["high"])
    expected = expected_coverage(m)
    print(m, covered.mean(axis=0), expected)
    error = np.sqrt(expected * (1 - expected) / RUNS)
    assert np.abs(covered.mean(axis=0) - expected).max() < 4 * error


@pytest.mark.parametrize(("m", "k"), [(3, 3), (5, 3), (5, 2), (3, 6), (10, 5)])
def test_joint_test_keeps_its_level(m, k):
    rng = np.random.default_rng(100 * m + k)
    p = np.array([combine(*estimates(rng, m=m, k=k)).test(0.1).p_value for _ in range(RUNS)])
    for level in (0.01, 0.05, 0.2):
        print(m, k, level, (p < level).mean())
        assert abs((p < level).mean() - level) < 4 * np.sqrt(level * (1 - level) / RUNS)


def test_joint_test_has_power():
    rng = np.random.default_rng(9)
    p = np.array([combine(*estimates(rng, m=5)).test(0.0).p_value for _ in range(200)])
    assert (p < 0.05).mean() > 0.9
