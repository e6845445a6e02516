"""Weights whose tail is known: Pareto smoothing gets its sign and scale right, ESS its formula."""

import numpy as np
import pytest
from scipy.special import logsumexp

from bayes_risk._core import pareto
from bayes_risk._core.batches import batch_of_draws, variance_of_estimate
from bayes_risk._core.logspace import log_sum
from bayes_risk.evidence.diagnostics import (
    ess_and_rhat,
    khat_threshold,
    pareto_smoothed,
    relative_efficiency,
    weight_ess,
)


def heavy_tail(k, H, U, seed=1):
    """Log weights with Pr(w > x) = x^(-1/k)."""
    return -k * np.log(np.random.default_rng(seed).random((H, U)))


@pytest.mark.parametrize("k", [0.3, 0.6, 0.9])
def test_khat_of_a_known_tail(k):
    """Mean over 200 columns; ArviZ draws k towards 0.5 with the weight of ten tail points."""
    H, U = 4000, 200
    _, khat = pareto_smoothed(heavy_tail(k, H, U))
    S = int(min(0.2 * H, 3 * np.sqrt(H)))
    expected = (S * k + 10 * 0.5) / (S + 10)
    assert abs(khat.mean() - expected) < 4 * khat.std() / np.sqrt(U) + 0.01  # O(1/S) bias


def test_these_are_weights_not_likelihoods():
    """Turned round, the heavy tail is bounded: a lost sign would show as k-hat below 0."""
    log_w = heavy_tail(0.6, 4000, 50)
    four_errors = 4 * (1 + 0.6) / np.sqrt(3 * np.sqrt(4000))
    assert (np.abs(pareto_smoothed(log_w)[1] - 0.6) < four_errors).all()
    assert (pareto_smoothed(-log_w)[1] < 0).all()


def test_smoothing_improves_the_mean_of_heavy_weights():
    """Mean of w is 1 / (1 - k); the smoothed sum errs less than the plain one."""
    k, H, U = 0.7, 1000, 500
    log_w = heavy_tail(k, H, U)
    smoothed, _ = pareto_smoothed(log_w)
    truth = 1 / (1 - k)
    error = [np.abs(np.exp(x).mean(axis=0) - truth).mean() for x in (smoothed, log_w)]
    assert error[0] < error[1]


def test_only_the_tail_is_touched_and_scale_does_not_matter():
    log_w = heavy_tail(0.5, 1000, 3)
    smoothed, khat = pareto_smoothed(log_w)
    S = int(np.ceil(min(0.2 * 1000, 3 * np.sqrt(1000))))
    order = np.argsort(log_w, axis=0)
    kept = np.take_along_axis(log_w, order[:-S], axis=0)
    assert np.allclose(np.take_along_axis(smoothed, order[:-S], axis=0), kept)
    assert (np.diff(np.take_along_axis(smoothed, order, axis=0), axis=0) >= -1e-9).all()
    shifted, same = pareto_smoothed(log_w + 300)
    assert np.allclose(khat, same, atol=1e-6) and np.allclose(shifted, smoothed + 300, atol=1e-6)


def test_what_is_given_is_not_changed():
    log_w = heavy_tail(0.5, 200, 2)
    before = log_w.copy()
    pareto_smoothed(log_w)
    assert (log_w == before).all()


def test_equal_weights_are_the_best_case():
    smoothed, khat = pareto_smoothed(np.full((100, 2), -3.0))
    assert (khat == 0).all() and (smoothed == -3.0).all()


def test_bounded_weights_have_small_khat():
    log_w = np.log(np.random.default_rng(2).uniform(1, 2, (2000, 50)))
    assert (pareto_smoothed(log_w)[1] < 0.2).all()


def test_ties_are_left_as_they_are():
    log_w = np.random.default_rng(3).integers(0, 3, (500, 10)).astype(float)
    smoothed, khat = pareto_smoothed(log_w)
    assert (smoothed == log_w).all() and (khat == 0).all()


@pytest.mark.parametrize("blur", [1e-3, 1e-6, 1e-9])
def test_blurred_ties_are_not_taken_for_heavy_tails(blur):
    """Labels make clusters of weights, the sampled concentration blurs them; k-hat was up to 10."""
    rng = np.random.default_rng(4)
    log_w = np.where(rng.random((2000, 100)) < 0.05, 0.5, 0.0) + blur * rng.exponential(
        size=(2000, 100)
    )
    smoothed, khat = pareto_smoothed(log_w)
    assert khat.max() < khat_threshold(2000)
    assert np.abs(np.exp(smoothed).mean(axis=0) / np.exp(log_w).mean(axis=0) - 1).max() < 0.01


@pytest.mark.parametrize(("H", "factor", "rare"), [(400, 2, 0.05), (400, 2, 0.01), (1600, 3, 0.01)])
def test_where_khat_is_bounded_by_the_largest_weight_errors_hold(H, factor, rare):
    """Blurred clusters, of which sum w q / sum w is known: as calibrated as any, unlike smoothed.

    Errors of four chains are in two standard errors as often as between seven degrees of freedom
    (halves) and three (whole chains, of which the larger counts).
    """
    rng, U, blur = np.random.default_rng(5), 800, 0.003
    heavy, noise = rng.random((H, U)) < rare, blur * rng.standard_normal((H, U))
    log_w, log_q = heavy * np.log(factor) + noise, heavy * np.log(0.4)
    truth = np.log((1 - rare + 0.4 * rare * factor) / (1 - rare + rare * factor))
    raw = log_w.T.copy()
    fitted = np.empty(U)
    size = int(np.ceil(min(0.2 * H, 3 * np.sqrt(H))))
    pareto.smooth_tails(raw, np.sort(raw, axis=1)[:, -size - 1].copy(), fitted)
    bounded, khat = pareto_smoothed(log_w)
    replaced = (fitted > khat_threshold(H)) & (khat <= khat_threshold(H))
    assert replaced.mean() > 0.9
    z = [z_of(w[:, replaced], log_q[:, replaced], truth) for w in (bounded, raw.T)]
    assert 0.90 < (np.abs(z[0]) < 2).mean() < 0.99 and np.sqrt((z[0] ** 2).mean()) < 1.25
    assert (np.abs(z[1]) < 2).mean() < 0.75


def z_of(log_w, log_q, truth):
    """Error of log (sum w q / sum w) over its standard error, four chains."""
    batch = batch_of_draws(len(log_w), 4)
    each = [log_sum((log_w + log_q)[batch == b]) - log_sum(log_w[batch == b]) for b in range(8)]
    value = log_sum(log_w + log_q) - log_sum(log_w)
    return (value - truth) / np.sqrt(variance_of_estimate((np.stack(each) - value)[None]))


def test_a_single_enormous_weight_is_seen():
    log_w = np.random.default_rng(5).normal(size=(1000, 20))
    log_w[0] += 100
    assert (pareto_smoothed(log_w)[1] > khat_threshold(1000)).all()
    assert (weight_ess(log_w) < 1.001).all()


def test_too_few_draws_to_tell():
    log_w = np.random.default_rng(6).normal(size=(20, 2))
    log_w[:, 1] = 0.0
    assert np.isposinf(pareto_smoothed(log_w)[1][0]) and pareto_smoothed(log_w)[1][1] == 0


def test_fewer_effective_draws_mean_a_longer_tail():
    """The k-hat of dependent draws rests on 3 sqrt(H / reff) of them."""
    log_w = heavy_tail(0.5, 4000, 1)
    plain, _ = pareto_smoothed(log_w)
    longer, _ = pareto_smoothed(log_w, reff=0.25)
    touched = [(np.abs(x - log_w) > 1e-9).sum() for x in (plain, longer)]
    assert touched[0] <= np.ceil(3 * np.sqrt(4000)) < touched[1] <= np.ceil(3 * np.sqrt(16000))


@pytest.mark.parametrize(("H", "expected"), [(100, 0.5), (1000, 2 / 3), (10_000, 0.7), (1, 0.04)])
def test_threshold(H, expected):
    assert type(khat_threshold(H)) is float
    assert abs(khat_threshold(H) - expected) < 0.005


def test_weight_ess():
    assert np.isclose(weight_ess(np.zeros((50, 1)))[0], 50)
    assert np.isclose(weight_ess(np.log([[1.0], [2.0], [3.0]]) - 700)[0], 36 / 14)


def test_ess_and_rhat_of_known_chains():
    """Autoregression rho has (1 - rho) / (1 + rho) effective draws a draw."""
    rng, rho, H = np.random.default_rng(7), 0.6, 40_000
    noise = rng.normal(size=H)
    chain = np.empty(H)
    chain[0] = noise[0] / np.sqrt(1 - rho**2)
    for h in range(1, H):
        chain[h] = rho * chain[h - 1] + noise[h]
    apart = np.concatenate([np.zeros(H // 2), np.full(H // 2, 3.0)]) + noise
    values = np.column_stack([chain, np.zeros(H), apart])
    ess, rhat = ess_and_rhat(values, 2)
    assert np.isclose(ess[0] / H, (1 - rho) / (1 + rho), rtol=0.1)
    assert ess[1] == H and rhat[1] == 1
    assert rhat[0] < 1.01 and rhat[2] > 1.5
    assert np.isclose(relative_efficiency(values[:, :1], 2), ess[0] / H)


def test_one_chain_has_no_rhat():
    values = np.random.default_rng(8).normal(size=(100, 1))
    assert np.isnan(ess_and_rhat(values, 1)[1][0])


@pytest.mark.parametrize("shape", [(70_000, 1), (70_000, 3), (3, 50_000), (2, 2**16 + 1), (5, 0)])
def test_sums_of_logs_by_blocks_of_columns_are_those_of_all_at_once(shape):
    x = np.random.default_rng(4).normal(size=shape)
    if x.size:
        x[0, 0] = -np.inf
    np.testing.assert_allclose(log_sum(x), logsumexp(x, axis=0), rtol=1e-12)
