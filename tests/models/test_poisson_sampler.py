"""The sampler of Poisson mixtures: its loops against NumPy, sixty digits and enumeration."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.models.mixture.families import (
    draw_labels,
    draw_parameters,
    exponentials,
    log_class_masses,
    log_tables,
    log_top,
)
from bayes_risk.models.mixture.masses import log_poisson
from bayes_risk.models.mixture.mixed_terms import fill_reals
from bayes_risk.models.mixture.posterior import log_masses
from bayes_risk.models.mixture.sampler import initial_state, run_chain, run_chains
from bayes_risk.models.mixture.state import NumberUnits, Rows
from tests.oracles import exact_counts
from tests.oracles.count_classes import count_prior
from tests.oracles.poisson_oracles import log_label_masses, log_marginal, random_theta


def none(n):
    return np.empty((n, 0), np.int32)


def masses(x, e, rows, pi, phi, prior):
    """The library's log masses, shape (n, K)."""
    data, tables = data_of(x, e, rows), log_tables(pi, phi, prior.layout)
    out = np.empty((len(x), len(pi)))
    for i in range(len(x)):
        log_class_masses(data, i, phi, prior.layout, tables, out[i])
    return out


def data_of(x, e, rows):
    """What the kernels take of units: levels, counts, exposures, reals."""
    return Rows(rows, np.asarray(x, float), np.asarray(e, float), np.empty((len(x), 0)))


def units_of(x, e, rows, **how):
    return data_of(x, e, rows).units(**how)


def labels_drawn(rng, data, multiplicity, pi, phi, prior, n, M, label):
    units, flags = NumberUnits(data, multiplicity, np.empty(0)), np.zeros((0, 0), bool)
    draw_labels(rng, units, pi, phi, prior.layout, n, M, label, flags, np.empty(0, np.int64))


def less_largest(a):
    return a - a.max(axis=-1, keepdims=True)


# --- masses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("zeros", [None, (1.0, 2.0)])
@pytest.mark.parametrize("levels", [(), (2, 3)])
def test_class_masses_are_those_of_numpy(zeros, levels):
    rng = np.random.default_rng(1)
    prior = count_prior(4, [1, 1, 1], [1, 1, 1], zeros=zeros, levels=levels)
    pi, phi = random_theta(rng, prior)
    x = rng.poisson(6, (30, 3)) * rng.integers(0, 2, (30, 3))
    e = np.where(rng.random((30, 1)) < 0.5, 1.0, rng.uniform(0.5, 3, (30, 1))) * np.ones((1, 3))
    rows = (rng.integers(0, levels, (30, len(levels))) + prior.starts[:-1]).astype(np.int32)
    found = masses(x, e, rows, pi, phi, prior)
    expected = log_label_masses(x, e, rows, pi, phi, prior)
    assert np.allclose(less_largest(found), less_largest(expected), rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", [10**3, 10**9])
@pytest.mark.parametrize("far", [0.0, 1e-9, 1e4])
@pytest.mark.parametrize("zeros", [None, (1.0, 2.0)])
def test_masses_of_large_counts_are_exact(size, far, zeros):
    """Against sixty digits; classes that get any chance agree to 1e-6, however far all are off."""
    rng = np.random.default_rng(2)
    prior = count_prior(5, [1, 1], [1, 1], zeros=zeros)
    x = np.array([[size + 17.0, 7.0 * size + 3.0]])
    steps = np.array([[0.0, 1.0, -1.2, 2.0, -3.0], [0.0, 0.7, -0.3, -1.0, 5.0]])
    pi, phi = random_theta(rng, prior)
    phi[:2] = x.T + np.sqrt(x.T) * (steps + far if far >= 1 else steps * max(far, 0.5))
    found = masses(x, np.ones((1, 2)), none(1), pi, phi, prior)[0]
    expected = []
    for k in range(5):
        total = exact_counts.Decimal(float(np.log(pi[k])))
        for j in range(2):
            total += exact_counts.log_poisson(x[0, j], phi[j, k])
            if zeros is not None:
                total += (1 - exact_counts.Decimal(phi[2 + j, k])).ln()
        expected.append(total)
    exact = np.array([float(v - max(expected)) for v in expected])
    seen = exact > -39
    assert np.allclose(less_largest(found)[seen], exact[seen], rtol=0, atol=1e-6)
    assert (less_largest(found)[exact < -41] < -39).all()


@pytest.mark.parametrize("x", [0, 1, 15, 16, 1000, 10**6, 10**9, 2**53])
@pytest.mark.parametrize("off", [-0.5, -1e-3, 0.0, 1e-8, 0.02, 4.0])
def test_log_poisson_against_sixty_digits(x, off):
    mean = max(x, 0.3) * (1 + off)
    exact = float(exact_counts.log_poisson(x, mean))
    assert log_poisson(float(x), mean) == pytest.approx(exact, rel=1e-12, abs=1e-12)


def test_exponentials_are_right_to_twelve_digits_where_they_matter():
    gaps = np.concatenate([np.linspace(0, -40, 5001), np.linspace(-41, -639, 99)])
    gaps = np.append(gaps, [-641.0, -1e5, -np.inf])
    out = gaps + 3.0
    exponentials(3.0, out)
    assert np.allclose(out[:5001], np.exp(gaps[:5001]), rtol=1e-12, atol=0)
    assert np.allclose(out[5001:-3], np.exp(gaps[5001:-3]), rtol=1e-4, atol=0)
    assert (out[-3:] == 0).all()


@pytest.mark.parametrize("q", [1e-12, 1e-3, 0.3, 0.499, 0.501, 40.0])
def test_densities_of_reals_from_tables_are_student_s(q):
    m, kappa, a, b, x = 1.5, 7.5, 31.0, 12.0, np.empty(1)
    S = np.array([[0.5 * kappa / ((kappa + 1.0) * b)], [m], [0.0], [a + 0.5]])
    value = m + np.sqrt(q / S[0, 0])
    scale = np.sqrt(b * (kappa + 1.0) / (a * kappa))
    S[2] = stats.t.logpdf(m, 2 * a, m, scale)
    fill_reals(value, 0.25, S, x)
    assert x[0] == pytest.approx(stats.t.logpdf(value, 2 * a, m, scale) + 0.25, rel=1e-12)
    assert log_top(kappa, a, b, 1.0) == pytest.approx(S[2, 0], rel=1e-13)


# --- labels, sums, rates ----------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize("zeros", [None, (1.0, 2.0)])
def test_labels_have_their_chances_and_their_sums(zeros):
    rng = np.random.default_rng(3)
    prior = count_prior(3, [1, 1], [1, 1], zeros=zeros, levels=(2,))
    pi, phi = random_theta(rng, prior, scale=3.0)
    p, D = 2, prior.width
    x, e = rng.poisson(2.0, (25, 2)).astype(float), rng.uniform(0.5, 2.0, (25, 2))
    rows = (rng.integers(0, 2, (25, 1)) + prior.starts[:-1]).astype(np.int32)
    chance = softmax(log_label_masses(x, e, rows, pi, phi, prior), axis=1)
    n, M, label = np.zeros(3), np.zeros((D + 2 * p, 3)), np.zeros(25, np.int64)
    data = data_of(x, e, rows)
    seen, repeats, structural = np.zeros((25, 3)), 4000, 0.0
    for _ in range(repeats):
        labels_drawn(rng, data, np.ones(25, np.int64), pi, phi, prior, n, M, label)
        seen[np.arange(25), label] += 1
        structural += M[p : 2 * p]
        assert (np.bincount(label, minlength=3) == n).all()
        for k in range(3):
            assert (M[:p, k] == x[label == k].sum(axis=0)).all()
            assert (M[D + p :, k] + M[p : 2 * p, k] == n[k]).all()
            if zeros is None:
                assert np.allclose(M[D : D + p, k], e[label == k].sum(axis=0))
    error = np.sqrt(chance * (1 - chance) / repeats)
    assert (np.abs(seen / repeats - chance) < 4.5 * error + 4 / repeats).all()  # the rare: counts
    if zeros is not None:
        q = phi[p : 2 * p][None] / (
            phi[p : 2 * p][None] + (1 - phi[p : 2 * p][None]) * np.exp(-e[:, :, None] * phi[:p])
        )
        per_unit = chance[:, None, :] * q * (x == 0)[:, :, None]
        mean, error = per_unit.sum(axis=0), np.sqrt((per_unit * (1 - per_unit)).sum(axis=0))
        assert (np.abs(structural / repeats - mean) < 4.5 * error / np.sqrt(repeats)).all()


def test_equal_records_are_drawn_together():
    rng = np.random.default_rng(4)
    prior = count_prior(2, [1], [1])
    pi, phi = random_theta(rng, prior)
    n, M, label = np.zeros(2), np.zeros((prior.n_sums, 2)), np.zeros(1, np.int64)
    x, e = np.array([[7.0]]), np.array([[2.0]])
    chance = softmax(log_label_masses(x, e, none(1), pi, phi, prior), axis=1)[0]
    draws = []
    for _ in range(4000):
        labels_drawn(rng, data_of(x, e, none(1)), np.array([50]), pi, phi, prior, n, M, label)
        D = prior.width
        assert (M[0] == 7 * n).all() and (M[D] == 2.0 * n).all() and (M[D + 1] == n).all()
        draws.append(n[0])
    error = np.sqrt(50 * chance[0] * chance[1] / 4000)
    assert abs(np.mean(draws) - 50 * chance[0]) < 4 * error


def test_rates_and_chances_of_zeros_are_conjugate_draws():
    rng = np.random.default_rng(5)
    prior = count_prior(2, [0.5, 2.0], [0.1, 3.0], zeros=(0.5, 1.5))
    M, D = rng.integers(0, 9, (prior.n_sums, 2)).astype(float), prior.width
    draws = []
    for _ in range(20_000):
        phi = np.ones((D, 2))
        draw_parameters(rng, M, prior.layout, phi)
        draws.append(phi)
    draws = np.array(draws)
    rates = stats.gamma(
        prior.shape[:, None] + M[:2], scale=1 / (prior.rate[:, None] + M[D : D + 2])
    )
    chances = stats.beta(0.5 + M[2:4], 1.5 + M[D + 2 : D + 4])
    for found, law in ((draws[:, :2], rates), (draws[:, 2:4], chances)):
        assert (np.abs(found.mean(axis=0) - law.mean()) < 4 * law.std() / np.sqrt(20_000)).all()
        assert np.allclose(found.var(axis=0), law.var(), rtol=0.08)


def test_row_labels_have_their_chances():
    rng = np.random.default_rng(6)
    prior = count_prior(3, [1], [1])
    pi, phi = random_theta(rng, prior, scale=4.0)
    x = np.repeat([[0.0], [3.0], [9.0]], 20_000, axis=0)
    label = np.empty(len(x), np.int64)
    data = data_of(x, np.ones_like(x), none(len(x)))
    ones, nothing = np.ones_like(label), np.empty((0, 0))
    labels_drawn(rng, data, ones, pi, phi, prior, np.empty(0), nothing, label)
    ones = np.ones((3, 1))
    chance = softmax(log_label_masses(x[::20_000], ones, none(3), pi, phi, prior), axis=1)
    for at in range(3):
        found = np.bincount(label[at * 20_000 : (at + 1) * 20_000], minlength=3) / 20_000
        assert (np.abs(found - chance[at]) < 4.5 * np.sqrt(chance[at] / 20_000) + 1e-12).all()


# --- the posterior ----------------------------------------------------------------------------


def predictives(prior, units, news, rng, sweeps=15_000):
    """p(new record | y) of each new record by the chain, and its Monte Carlo error."""
    start = initial_state(prior, units, rng)
    draws = run_chain(prior, units, start, draws=sweeps, tune=500, thin=2, rng=rng)
    p = np.exp(log_masses(news.data, draws, prior))
    ess, _ = ess_and_rhat(p, 1)
    return p.mean(axis=0), p.std(axis=0) / np.sqrt(ess), draws


CASES = {
    "two records": {"x": [[2], [9]]},
    "three classes": {"x": [[2], [9]], "K": 3},
    "no swaps": {"x": [[2], [9], [3]], "swaps": False},
    "two counts": {"x": [[2, 0], [9, 4], [3, 1]]},
    "equal records": {"x": [[2], [2], [8]]},
    "exposure": {"x": [[2], [9], [3]], "e": [[0.5], [1.0], [3.0]]},
    "zeros": {"x": [[0], [0], [7]], "zeros": (1.0, 1.5)},
    "zeros, one class": {"x": [[0], [0], [7]], "zeros": (1.0, 1.5), "K": 1},
    "zeros and exposure": {"x": [[0], [5], [0]], "e": [[0.5], [1.0], [3.0]], "zeros": (0.7, 0.7)},
    "covariates": {"x": [[2], [9], [3]], "w": [[0, 1], [1, 2], [0, 0]], "levels": (2, 3)},
}


@pytest.mark.parametrize("name", CASES)
def test_predictives_equal_enumeration(name):
    """p(new | y) = p(y, new) / p(y), summed over all labels, the concentration by quadrature."""
    case = {"K": 2, "zeros": None, "levels": (), "swaps": True} | CASES[name]
    x = np.array(case["x"], float)
    p, n = x.shape[1], len(x)
    prior = count_prior(
        case["K"], [0.8] * p, [0.2] * p, zeros=case["zeros"], levels=case["levels"],
        swaps=case["swaps"],
    )  # fmt: skip
    e = np.array(case.get("e", np.ones((n, 1)))) * np.ones((1, p))
    rows = np.array(case.get("w", none(n)), np.int32) + prior.starts[:-1].astype(np.int32)
    rows = rows.astype(np.int32)
    values = np.array([[0.0] * p, [3.0] * p, [10.0] * p])
    new_rows = np.repeat(rows[:1], 3, axis=0)
    news = units_of(values, np.ones((3, p)), new_rows)  # distinct, and already in order
    found, error, _ = predictives(prior, units_of(x, e, rows), news, np.random.default_rng(7))
    base = log_marginal(x, e, rows, prior)
    for i, new in enumerate(values):
        joint = log_marginal(
            np.vstack([x, new]), np.vstack([e, np.ones(p)]), np.vstack([rows, new_rows[:1]]), prior
        )
        assert abs(found[i] - np.exp(joint - base)) < 4 * error[i]
        assert error[i] < 0.05 * found[i]


def test_one_class_is_the_gamma_poisson_closed_form():
    rng = np.random.default_rng(8)
    prior = count_prior(1, [0.5, 2.0], [0.01, 0.3])
    x, e = rng.poisson([[20, 4]], (40, 2)).astype(float), rng.uniform(0.5, 2, (40, 2))
    units = units_of(x, e, none(40))
    start = initial_state(prior, units, rng)
    draws = run_chain(prior, units, start, draws=20_000, tune=1, thin=1, rng=rng)
    found = draws.phi[:, :2, 0]
    for j in range(2):
        shape, rate = prior.shape[j] + x[:, j].sum(), prior.rate[j] + e[:, j].sum()
        assert stats.kstest(found[:, j], stats.gamma(shape, scale=1 / rate).cdf).pvalue > 1e-4


@pytest.mark.parametrize("scale", [1.0, 1e5, 1e8])
def test_planted_components_are_recovered(scale):
    rng = np.random.default_rng(9)
    rates = np.array([[3.0, 10.0], [50.0, 5.0], [8.0, 90.0]]) * scale
    weights, c = np.array([0.6, 0.3, 0.1]), np.repeat([0, 1, 2], [600, 300, 100])
    x = rng.poisson(rates[c]).astype(float)
    prior = count_prior(8, [0.5, 0.5], [0.05 / scale] * 2, concentration=(0.25, 0.25))
    units = units_of(x, np.ones_like(x), none(1000))
    start = initial_state(prior, units, rng)
    draws = run_chain(prior, units, start, draws=100, tune=200, thin=2, rng=rng)
    pi, phi = draws.pi[-1], draws.phi[-1, :2].T
    gaps = np.abs(np.log(phi[:, None] / rates)).sum(axis=2)  # shape (K, 3)
    for c, weight in enumerate(weights):  # a component may be held by two classes for a while
        k = gaps[:, c].argmin()
        assert np.allclose(phi[k], rates[c], rtol=8 / np.sqrt(rates[c].min() * 1000 * weight))
        near = pi[gaps[:, c] < 0.5].sum()
        assert abs(near - weight) < 5 * np.sqrt(weight / 1000)


def test_draws_do_not_depend_on_jobs():
    rng = np.random.default_rng(10)
    prior = count_prior(4, [0.5], [0.1], zeros=(1.0, 1.0))
    x = rng.poisson(5, (50, 1)).astype(float)
    units = units_of(x, np.ones_like(x), none(50))
    found = []
    for n_jobs in (1, 2):
        rng = np.random.default_rng(11)
        starts = [initial_state(prior, units, child) for child in rng.spawn(2)]
        draws = run_chains(prior, units, starts, draws=30, tune=5, thin=2, rng=rng, n_jobs=n_jobs)
        found.append(draws)
    assert found[0].phi.tobytes() == found[1].phi.tobytes()
    assert found[0].alpha.tobytes() == found[1].alpha.tobytes()


def test_units_are_distinct_rows_and_can_leave_one_out():
    x = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [1.0, 2.0]])
    e = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [2.0, 2.0]])
    units = units_of(x, e, none(4))
    assert sorted(units.multiplicity) == [1, 1, 2] and units.unit[0] == units.unit[2]
    assert (units.data.counts[units.unit] == x).all() and (
        units.data.exposure[units.unit] == e
    ).all()
    without = units_of(x, e, none(4), left_out=0)
    assert without.unit[0] == -1 and without.multiplicity.sum() == 3
