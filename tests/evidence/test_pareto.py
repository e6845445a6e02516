"""Pareto smoothing: equal to its plain twin and to ArviZ's, exact where weights hardly differ."""

import arviz as az
import numpy as np
import pytest

from bayes_risk import _compat
from bayes_risk._core import pareto
from tests.oracles.kernel_twins import pareto_smoothed_row

RNG = np.random.default_rng(5)
WEIGHTS = {
    "heavy": lambda H: 1.2 * RNG.standard_exponential((30, H)),
    "light": lambda H: 0.1 * RNG.standard_exponential((30, H)),
    "normal": lambda H: RNG.normal(size=(30, H)),
    "bounded": lambda H: np.log(RNG.uniform(1, 2, (30, H))),
    "extreme": lambda H: 60 * RNG.normal(size=(30, H)),
    "far from zero": lambda H: RNG.normal(size=(30, H)) - 1e5,
}


def tail_size(H, reff=1.0):
    return int(np.ceil(min(0.2 * H, 3 * np.sqrt(H / reff))))


def smoothed(rows, size):
    found, khat = rows.copy(), np.empty(len(rows))
    pareto.smooth_tails(found, np.sort(rows, axis=1)[:, -size - 1].copy(), khat)
    return found, khat


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("H", [25, 200, 1500])
def test_the_loops_are_their_plain_twin(kind, H):
    """Where the twin's differences of weights keep eight digits or more."""
    rows = WEIGHTS[kind](H)
    found, khat = smoothed(rows, tail_size(H))
    plain = [pareto_smoothed_row(row, tail_size(H)) for row in rows]
    np.testing.assert_allclose(khat, [k for _, k in plain], rtol=0, atol=1e-8)
    np.testing.assert_allclose(found, [row for row, _ in plain], rtol=1e-12, atol=1e-8)


@pytest.mark.skipif(_compat.arviz_is_a_tree(), reason="ArviZ 1: a shorter tail")
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("reff", [1.0, 0.3])
def test_the_loops_are_those_of_arviz(kind, reff):
    rows = WEIGHTS[kind](1000)
    found, khat = smoothed(rows, tail_size(1000, reff))
    theirs, k = az.psislw(rows.copy(), reff=reff, normalize=False)
    np.testing.assert_allclose(khat, k, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found, theirs, rtol=1e-12, atol=1e-8)


def test_smoothing_changes_the_tail_alone():
    H, k = 2000, 0.5
    rows = k * np.random.default_rng(5).standard_exponential((20, H))  # Pareto weights of index k
    found, khat = smoothed(rows, tail_size(H))
    below = np.argsort(rows, axis=1)[:, : -tail_size(H)]
    kept, given = (np.take_along_axis(x, below, axis=1) for x in (found, rows))
    np.testing.assert_array_equal(kept, given)
    assert (found.max(axis=1) <= rows.max(axis=1)).all()
    se = (1 + k) / np.sqrt(tail_size(H) * len(rows))  # of the mean of most likely indices
    assert abs(khat.mean() - k) < 4 * se


def test_rows_that_cannot_be_smoothed_leave_the_others_alone():
    sound = 0.3 * np.random.default_rng(7).standard_exponential((2, 400))
    flat = np.concatenate([np.zeros(300), np.ones(100)])  # all of the tail is one value
    alone, khat = smoothed(sound, 60)
    both, of_both = smoothed(np.stack([sound[0], flat, sound[1]]), 60)
    np.testing.assert_array_equal(both[[0, 2]], alone)
    np.testing.assert_array_equal(of_both[[0, 2]], khat)
    np.testing.assert_array_equal(both[1], flat)
    assert np.isfinite(khat).all() and not np.isfinite(of_both[1])


@pytest.mark.parametrize("spread", [1e-3, 1e-6, 1e-9])
def test_weights_that_hardly_differ_keep_their_digits(spread):
    """Excesses of ``1 + spread u`` are those of ``1 + u`` in another unit: the same index."""
    u = np.random.default_rng(8).uniform(size=(20, 1000))
    khat = smoothed(np.log1p(u), 95)[1]
    rounding = 1e-15 / spread  # of an excess, in its own unit; the index is its logarithm's mean
    found = smoothed(np.log1p(spread * u), 95)[1]
    np.testing.assert_allclose(found, khat, rtol=0, atol=100 * rounding + 1e-10)


def test_impossible_draws_stay_impossible():
    rows = np.random.default_rng(9).normal(size=(3, 300))
    rows[:, ::5] = -np.inf
    found, khat = smoothed(rows, 52)
    assert np.isneginf(found[:, ::5]).all() and np.isfinite(khat).all()
