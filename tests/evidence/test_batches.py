"""Monte Carlo error from batches against simulation: independent draws, chains that never met."""

import numpy as np
import pytest

from bayes_risk._core.batches import batch_of_draws, variance_by_fit, variance_of_estimate


def test_batches_are_halves_of_chains():
    assert batch_of_draws(8, 2).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert batch_of_draws(5, 1).tolist() == [0, 0, 1, 1, 1]
    assert batch_of_draws(6, 2).tolist() == [0, 1, 1, 2, 3, 3]


def deviations_of(x, n_chains):
    """Batch means less the mean, for draws (R, H) of one fit; shape (1, B, R)."""
    batch = batch_of_draws(x.shape[1], n_chains)
    means = np.stack([x[:, batch == b].mean(axis=1) for b in range(2 * n_chains)])
    return (means - x.mean(axis=1))[None]


def within_four_errors(x, expected):
    assert abs(x.mean() - expected) < 4 * x.std() / np.sqrt(len(x))


@pytest.mark.parametrize("n_chains", [2, 4, 8])
def test_independent_draws(n_chains):
    """s^2 / B is unbiased; the larger of two estimates of it is not below, nor far above."""
    R, H = 20_000, 16 * n_chains
    x = np.random.default_rng(1).normal(size=(R, H))
    found = variance_of_estimate(deviations_of(x, n_chains))
    assert found.mean() > (1 - 4 / np.sqrt(R)) / H
    assert np.median(found) < 2 / H
    by_halves = deviations_of(x, n_chains)[0].var(axis=0, ddof=1) / (2 * n_chains)
    within_four_errors(by_halves, 1 / H)


def test_one_chain_rests_on_its_halves():
    x = np.random.default_rng(2).normal(size=(20_000, 40))
    within_four_errors(variance_of_estimate(deviations_of(x, 1)), 1 / 40)


def test_chains_that_never_met():
    """Each chain has its own level: halves agree within chains, only chains show the error."""
    rng, R, C = np.random.default_rng(3), 20_000, 4
    level = np.repeat(rng.normal(size=(R, C)), 20, axis=1)
    x = level + 0.01 * rng.normal(size=level.shape)
    found = variance_of_estimate(deviations_of(x, C))
    within_four_errors(found, 1 / C + 0.0001 / (20 * C))


def test_fits_add_up():
    x = np.random.default_rng(4).normal(size=(3, 8, 100))
    x -= x.mean(axis=1, keepdims=True)
    by_fit = variance_by_fit(x)
    assert by_fit.shape == (3, 100)
    assert np.allclose(variance_of_estimate(x), by_fit.sum(axis=0))
    assert np.allclose(variance_by_fit(5 * x), 25 * by_fit)


def test_no_deviation_no_error():
    assert (variance_of_estimate(np.zeros((2, 4, 3))) == 0).all()
