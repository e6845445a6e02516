"""What a collapsed tail's total says: sums by hand, by convolution, by the saddlepoint."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy import stats

import bayes_risk as br
from bayes_risk.models.mixture.business.competitors import (
    EXPONENTS,
    belief,
    log_sum_of_others,
    saddlepoint,
)


def log_uniform(low, high):
    """Chances proportional to 1 / v."""
    return belief(stats.loguniform(low + 0.5, high + 0.5), low, high, "w")


def test_power_laws_by_default():
    """Slopes of log chances in log values are minus the exponents, 0 (uniform) to 4."""
    values, chances = belief(None, 3, 9, "w")
    assert values.tolist() == [4, 5, 6, 7, 8, 9]
    slopes = np.diff(np.log(chances), axis=1) / np.diff(np.log(values))
    assert np.allclose(slopes, -EXPONENTS[:, None]) and EXPONENTS[[0, -1]].tolist() == [0, 4]
    assert np.allclose(chances.sum(axis=1), 1)


def test_beliefs_are_averaged():
    values, chances = belief(None, 3, 9, "w")
    sums = np.arange(8.0, 19.0)
    each = [np.exp(log_sum_of_others(sums, 2, values, row[None])[0]) for row in chances]
    assert np.allclose(
        np.exp(log_sum_of_others(sums, 2, values, chances)[0]), np.mean(each, axis=0)
    )


def test_the_total_tells_the_exponent():
    """1,000 values of a steep tail: the sum leaves the guess open, whatever was believed first."""
    rng = np.random.default_rng(1)
    values, chances = belief(None, 10, 76, "w")
    total = rng.choice(values, 1000, p=chances[12]).sum()
    guesses = np.arange(76.0, 200.0)
    found, _ = log_sum_of_others(total - (guesses - 120), 1000, values, chances)
    assert np.ptp(found) < 0.5
    flat, _ = log_sum_of_others(total - (guesses - 120), 1000, values, chances[4:5])
    assert np.ptp(flat) > 5


def test_belief_of_the_intruder_is_cut_to_the_tail():
    values, chances = belief(stats.norm(5, 2), 3, 9, "w")
    want = stats.norm(5, 2).cdf(values + 0.5) - stats.norm(5, 2).cdf(values - 0.5)
    assert np.allclose(chances, want / want.sum())
    poisson = belief(stats.poisson(5), 3, 9, "w")[1][0]
    assert poisson[0] == pytest.approx(
        stats.poisson(5).pmf(4) / sum(stats.poisson(5).pmf(range(4, 10)))
    )
    with pytest.raises(br.InputError, match=r"others gives no probability to values of 'w' above"):
        belief(stats.uniform(100, 10), 3, 9, "w")


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_convolution_against_every_combination(n):
    values, chances = log_uniform(3, 9)
    want = Counter()
    for combo in product(range(len(values)), repeat=n):
        want[values[list(combo)].sum()] += np.prod(chances[0][list(combo)])
    sums = np.arange(-2, 9 * n + 3.0)
    found, exact = log_sum_of_others(sums, n, values, chances)
    assert exact
    assert np.allclose(np.exp(found), [want[s] for s in sums], rtol=1e-10, atol=0)


def test_far_out_of_the_bulk_nothing_is_lost():
    """20 values near the threshold: probabilities of 1e-60, tilted to where they are asked."""
    values, chances = log_uniform(200, 900)
    sums = np.array([20 * 201.0, 20 * 900.0])
    found, _ = log_sum_of_others(sums, 20, values, chances)
    assert np.allclose(found, 20 * np.log(chances[0, [0, -1]]), rtol=1e-6)


def test_nobody_else_in_the_tail():
    found, exact = log_sum_of_others(
        np.array([-1.0, 0.0, 1.0]), 0, np.array([4.0]), np.ones((1, 1))
    )
    assert exact and np.isfinite(found).tolist() == [False, True, False]


@pytest.mark.parametrize(("n", "error"), [(2, 0.2), (5, 0.07), (20, 0.015), (100, 0.003)])
def test_saddlepoint_errs_by_less_than_a_third_of_one_over_n(n, error):
    """Measured against the convolution where there is any mass: 0.17, 0.06, 0.011, 0.002."""
    values, chances = log_uniform(200, 900)
    sums = np.linspace(n * 201, n * 900, 401).round()
    exact, _ = log_sum_of_others(sums, n, values, chances)
    near = saddlepoint(sums - n * values[0], n, np.log(chances[0]))
    bulk = exact > exact.max() - np.log(1e4)
    assert np.abs(near - exact)[bulk].max() < error


def test_wide_ranges_go_to_the_saddlepoint_and_say_so():
    values, chances = log_uniform(1000, 2_000_000)
    found, exact = log_sum_of_others(np.array([5e6]), 5, values, chances)
    assert not exact and np.isfinite(found).all()
    coarse_values, coarse = log_uniform(100, 200_000)
    want, _ = log_sum_of_others(np.array([5e5]), 5, coarse_values, coarse)
    assert found[0] == pytest.approx(want[0] - np.log(10), abs=0.1)
