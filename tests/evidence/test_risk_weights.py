"""Pseudo-posteriors with record weights: closed forms, enumeration, limits, named errors."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import bayes_risk as br
from bayes_risk.data.record_weights import SurveyWeights, checked_weights, survey_weights
from bayes_risk.models.mixture import mixed_terms
from bayes_risk.models.mixture.kernel_arguments import FamilyLayout
from bayes_risk.models.mixture.pymc_mixture import pymc_of_mixture
from bayes_risk.models.mixture.sweep import class_weights
from bayes_risk.models.regression.part import extra_of
from bayes_risk.models.regression.part import pymc_regression as build_regression
from tests.helpers.against import agree, each, gaps
from tests.oracles.label_sums import log_label_prior
from tests.oracles.three_records import CELLS, Z1, Z2, Y, released, table

ALPHA = np.array([0.5, 1.0, 0.25])
ABOVE = SurveyWeights(np.array([1.75, 0.25, 1.0]))
CONCENTRATION, LEVEL = (0.5, 0.5), 1.0
GUESSES = np.array(CELLS)
NO_NUMBERS = np.empty(0), np.empty(0), False, np.ones(2), np.empty((0, 4))  # of a layout


def log_pseudo_marginal(rows, powers, K, d=2):
    """log of the integral of p(Theta) prod_i sum_k [pi_k f_k(y_i)]^alpha_i, label by label."""
    labelings = np.array(list(itertools.product(range(K), repeat=len(rows))))
    n = np.stack([(labelings == k) @ powers for k in range(K)], axis=1)
    log_p = log_label_prior(n, *CONCENTRATION)
    for j, k in itertools.product(range(rows.shape[1]), range(K)):
        M = np.stack([(labelings == k) @ (powers * (rows[:, j] == c)) for c in range(d)], axis=1)
        log_p = log_p + gammaln(LEVEL * d) - gammaln(LEVEL * d + M.sum(axis=1))
        log_p = log_p + (gammaln(LEVEL + M) - gammaln(LEVEL)).sum(axis=1)
    return logsumexp(log_p)


def exact_log_evidence(i, guess, Z, alpha, K):
    """log p(Z | y_i = guess, y_-i): synthetic rows have weight 1."""
    y = Y.copy()
    y[i] = guess
    joint = log_pseudo_marginal(np.vstack([y, Z]), np.append(alpha, np.ones(len(Z))), K)
    return joint - log_pseudo_marginal(y, alpha, K)


def exact_of(alpha, K):
    """Log evidence of a guess, summed over releases."""
    return each(lambda i, g: sum(exact_log_evidence(i, g, Z, alpha, K) for Z in (Z1, Z2)))


def fitted(K, weights, draws=1500, **options):
    model = br.models.DPMPM(n_classes=K, concentration_prior=CONCENTRATION, level_prior=LEVEL)
    settings = {"draws": draws, "tune": 200, "chains": 4, "thin": 5, "random_seed": 5} | options
    if K == 1:
        return model.fit(table(Y), weights=weights, **settings)
    with pytest.warns(br.TruncationWarning):
        return model.fit(table(Y), weights=weights, **settings)


RELEASE = released([Z1, Z2])


def audit(fit, release=RELEASE, **options):
    return br.attribute_risk(fit, release, guesses=br.Neighbourhood(2), random_seed=7, **options)


@pytest.mark.parametrize("weights", [ALPHA, ABOVE], ids=["below 1", "above 1"])
def test_one_class_is_exact(weights):
    """Dirichlet-multinomial with powers: every draw gives the same, so there is no error."""
    risk = audit(fitted(1, weights, draws=10))
    gap, error = gaps(risk, exact_of(checked_weights(weights, range(3)), 1))
    assert max(np.abs(gap).max(), error.max()) < 1e-6


@pytest.fixture(scope="module")
def two_classes():
    return fitted(2, ALPHA)


@pytest.mark.parametrize("evidence", ["predictive", "refit"])
@pytest.mark.parametrize("weights", [ALPHA, ABOVE], ids=["below 1", "above 1"])
@pytest.mark.slow
def test_two_classes_against_enumeration(two_classes, evidence, weights):
    fit = two_classes if weights is ALPHA else fitted(2, weights)
    risk = audit(fit, evidence=evidence)
    gap, error = agree(risk, exact_of(checked_weights(weights, range(3)), 2), 1e-3)
    assert error.max() < 0.1
    plain, _ = gaps(risk, exact_of(np.ones(3), 2))
    assert np.abs(plain - gap).max() > 10 * error.max()


def class_powers(n, removed, w):
    """E[pi_k^w], a weight w less in a class."""
    out, order = np.empty(len(n)), np.arange(len(n))
    given = n.astype(float), 0.7, np.empty(0), order, removed, w
    mixed_terms.class_powers(*given, np.empty(len(n)), out)
    return np.exp(out)


def level_powers(M, w, gone=(0.0, 0)):
    """E[phi^w] of the levels of one column in every class, a weight of a level less."""
    d, K = M.shape
    layout = FamilyLayout(np.array([0, d]), 0.8, *NO_NUMBERS)
    taken = np.array([[gone[0], gone[1], 0.0, 0.0]])
    total = np.zeros((1, K, 5))
    total[0, :, 0] = (M + 0.8).sum(axis=0)
    draw, room = (M, M, total, np.empty(M.shape), layout), np.empty(5)

    def log_value(row, k):
        given = float(row), 1.0, True, taken, w, np.zeros(2)
        return mixed_terms.log_value(*draw, False, 0, k, *given, room)

    return np.exp([[log_value(row, k) for k in range(K)] for row in range(d)])


def test_powers_of_one_are_probabilities():
    """The tempered predictive with w = 1 is the collapsed predictive of the plain posterior."""
    rng = np.random.default_rng(2)
    n, M = np.array([3, 0, 2]), rng.integers(0, 4, (5, 3)).astype(float)
    plain = np.empty(3)
    for removed in (0, 2, 3):
        class_weights(n, 0.7, removed, plain)
        np.testing.assert_allclose(class_powers(n, removed, 1.0), plain, rtol=1e-12)
        np.testing.assert_allclose(class_powers(n, removed, 1.0 - 1e-9), plain, rtol=1e-7)
    total = M.sum(axis=0) + 5 * 0.8
    np.testing.assert_allclose(level_powers(M, 1.0), (M + 0.8) / total, rtol=1e-12)
    less = level_powers(M, 1.0, (1.0, 2))
    np.testing.assert_allclose(less[0], (M[0] + 0.8) / (total - 1), rtol=1e-12)
    held = M[2] > 0
    np.testing.assert_allclose(less[2][held], ((M[2] - 0.2) / (total - 1))[held], rtol=1e-11)


@pytest.mark.parametrize("w", [0.05, 0.6])
@pytest.mark.slow
def test_powers_are_means_over_the_prior(w):
    """E[pi_k^w] and E[phi^w] by simulation from sticks and Dirichlet."""
    rng, H = np.random.default_rng(6), 200_000
    n = np.array([2.5, 0.75, 1.0])
    out = class_powers(n, 3, w)
    V = [rng.beta(1 + n[k], 0.7 + n[k + 1 :].sum(), H) for k in range(2)]
    pi = np.stack([V[0], V[1] * (1 - V[0]), (1 - V[0]) * (1 - V[1])], axis=1) ** w
    assert np.abs((pi.mean(axis=0) - out) / pi.std(axis=0) * np.sqrt(H)).max() < 4
    M = np.array([[0.5], [2.25], [0.0]])
    phi = rng.dirichlet(M[:, 0] + 0.8, H) ** w
    found = level_powers(M, w)[:, 0]
    assert np.abs((phi.mean(axis=0) - found) / phi.std(axis=0) * np.sqrt(H)).max() < 4


def monte_carlo_conditional(i, alpha, draws=400_000):
    """Log evidence of x1 released given x0, by draws from the prior; truth first, and its error."""
    rng = np.random.default_rng(8)
    a, b = CONCENTRATION
    V = rng.beta(1, np.maximum(rng.gamma(a, 1 / b, draws), 1e-12))
    pi = np.stack([V, 1 - V], axis=1)
    phi = [rng.dirichlet(np.full(2, LEVEL), (draws, 2)) for _ in range(2)]

    def masses(row):
        return pi * phi[0][:, :, row[0]] * phi[1][:, :, row[1]]

    def g(row, w):
        return (masses(row) ** w).sum(axis=1)

    release = np.ones(draws)
    for y, z in zip(Y, Z1, strict=True):
        given = (pi * phi[0][:, :, y[0]]).sum(axis=1)
        release *= masses([y[0], z[1]]).sum(axis=1) / given
    others = np.prod([g(Y[r], alpha[r]) for r in range(3) if r != i], axis=0)
    values, influence = [], []
    for guess in (Y[i], [Y[i][0], 1 - Y[i][1]]):
        w = others * g(guess, alpha[i])
        values.append(np.log((w * release).mean() / w.mean()))
        influence.append(w * release / (w * release).mean() - w / w.mean())
    return values[1] - values[0], (influence[1] - influence[0]).std() / np.sqrt(draws)


@pytest.mark.parametrize("evidence", ["predictive", "refit"])
@pytest.mark.slow
def test_release_given_a_column(two_classes, evidence):
    datasets = [table(np.column_stack([Y[:, 0], Z1[:, 1]]))]
    release = br.Release(datasets=datasets, synthesized=["x1"])
    risk = audit(two_classes, release, evidence=evidence)
    for i in range(3):
        u = risk.case[i]
        wrong = 1 - risk.truth[u]
        exact, spread = monte_carlo_conditional(i, ALPHA)
        error = np.hypot(risk.mcse_log_evidence[wrong, u], spread)
        assert abs(risk.log_evidence[0, wrong, u] - exact) < 4 * error
        assert error < 0.1


@pytest.mark.slow
def test_reuse_against_enumeration(two_classes):
    """The published sampler, whose weights are powers too; its error is that it reports."""
    agree(audit(two_classes, evidence="importance"), exact_of(ALPHA, 2), 1e-3, most=4.5)


def test_beta_binomial_in_closed_form():
    """E[phi^w] / E[(1 - phi)^w] after the release over the same before, phi ~ Beta."""
    y, z = np.array([[0], [1], [1], [0], [1]]), np.array([[1], [1], [0], [1], [1]])
    alpha = np.array([1.0, 0.5, 0.25, 0.75, 0.125])
    model = br.models.DPMPM(n_classes=1, level_prior=0.5)
    fit = model.fit(table(y), weights=alpha, draws=8, chains=2, random_seed=1)
    risk = br.attribute_risk(fit, br.Release(datasets=[table(z)], synthesized=["x0"]))

    def log_mean(shape, other, w):
        return gammaln(shape + w) - gammaln(shape) + gammaln(shape + other)

    for i in range(5):
        rest = np.arange(5) != i
        ones = 0.5 + alpha[rest] @ y[rest, 0]
        noughts = 0.5 + alpha[rest] @ (1 - y[rest, 0])
        exact = 0.0
        for sign, k in ((1, z.sum()), (-1, 0)):
            a, b = ones + k, noughts + (5 - z.sum()) * (sign > 0)
            exact += sign * (log_mean(a, b, alpha[i]) - log_mean(b, a, alpha[i]))
        u = risk.case[i]
        place = risk.guesses[:, u, 0]
        found = risk.log_evidence[0, place == 1, u] - risk.log_evidence[0, place == 0, u]
        np.testing.assert_allclose(found, exact, atol=1e-6)


def test_pymc_model_has_the_pseudo_likelihood():
    fit = fitted(1, ALPHA, draws=8)
    prior, units, data = fit.posterior.prior, fit.posterior.units, fit.microdata
    columns = fit.columns
    with_powers = pymc_of_mixture(data, columns, prior, units, transformed=False)
    plain = pymc_of_mixture(data, columns, prior, replace(units, power=None), transformed=False)
    point = {"alpha": 0.8, "levels_x0": [[0.3, 0.7]], "levels_x1": [[0.6, 0.4]]}
    values = {name: np.array(value) for name, value in point.items()}
    logps = [m.compile_logp(mode="FAST_COMPILE")(values) for m in (with_powers, plain)]
    rows = np.log(np.array([0.3, 0.7])[Y[:, 0]] * np.array([0.6, 0.4])[Y[:, 1]])
    np.testing.assert_allclose(logps[0] - logps[1], (ALPHA - 1) @ rows, rtol=1e-9)


# --- regressions -----------------------------------------------------------------------------

N = 12
RNG = np.random.default_rng(3)
X = RNG.normal(size=N)
BUSINESS = pd.DataFrame({"x": X, "y": 1.0 + X + RNG.normal(size=N)})
WEIGHTS = np.round(RNG.uniform(0.1, 1.0, N), 2)
GRID = {"y": br.Grid(additive=2.0, n=9)}
NORMAL = br.models.Regression({"y": "1 + x"})


def log_normal_marginal(design, y, w, tau, a=1.0, b=1.0):
    """log of the integral of p(beta, sigma^2) prod_i N(y_i | x_i beta, sigma^2)^w_i."""
    prior = np.diag(tau**-2.0)
    precision = prior + design.T @ (design * w[:, None])
    mean = np.linalg.solve(precision, design.T @ (w * y))
    a_n = a + w.sum() / 2
    b_n = b + 0.5 * (y @ (w * y) - mean @ precision @ mean)
    determinants = np.linalg.slogdet(prior)[1] - np.linalg.slogdet(precision)[1]
    constant = a * np.log(b) - gammaln(a) - 0.5 * w.sum() * np.log(2 * np.pi)
    return constant + gammaln(a_n) - a_n * np.log(b_n) + 0.5 * determinants


@pytest.mark.parametrize("survey", [False, True], ids=["below 1", "above 1"])
def test_normal_regression_in_closed_form(survey):
    df, given, alpha = BUSINESS, WEIGHTS, WEIGHTS
    if survey:
        df, given = BUSINESS.assign(w=1 / WEIGHTS), "w"
        alpha = survey_weights(df, "w")[1].alpha
        assert alpha.max() > 2 and abs(alpha.mean() - 1) < 1e-12
    fit = NORMAL.fit(df, weights=given, draws=2000, chains=2, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    risk = br.attribute_risk(fit, release, guesses=GRID, random_seed=3)
    assert risk.assumptions["evidence"].startswith("exact")
    x, y, z = (
        BUSINESS["x"].to_numpy(),
        BUSINESS["y"].to_numpy(),
        release.datasets[0]["y"].to_numpy(),
    )
    tau = np.array([10.0, 2.5])
    design = np.column_stack([np.ones(N), (x - x.mean()) / x.std()])

    def inside(values):
        return (values - y.mean()) / y.std()

    def log_p(i, guess):
        changed = y.copy()
        changed[i] = guess
        alone = log_normal_marginal(design, inside(changed), alpha, tau)
        both = np.append(inside(changed), inside(z))
        twice = np.append(alpha, np.ones(N))
        return log_normal_marginal(np.vstack([design, design]), both, twice, tau) - alone

    gap, _ = gaps(risk, each(lambda i, guess: log_p(i, guess[0])))
    assert np.abs(gap).max() < 1e-8 + 1e-6 * survey
    predictive = br.attribute_risk(
        fit, release, guesses=GRID, random_seed=3, evidence="predictive", refit_budget=0
    )
    errors = predictive.log_evidence[0] - risk.log_evidence[0]
    assert np.abs(errors / np.hypot(predictive.mcse_log_evidence, 1e-3)).max() < 4.5


FAMILIES = {
    "bernoulli": lambda r: np.where(r.normal(size=N) > 0, "yes", "no"),
    "poisson": lambda r: r.poisson(3, N),
    "negative-binomial": lambda r: r.poisson(3, N),
    "student": lambda r: r.normal(size=N),
    "ordered": lambda r: pd.Categorical(np.array(list("abc"))[np.arange(N) % 3], ordered=True),
    "categorical": lambda r: np.array(list("abc"))[np.arange(N) % 3],
}


@pytest.mark.parametrize("family", FAMILIES)
def test_pymc_regressions_have_the_pseudo_likelihood(family):
    """The model's log density less that of the plain one: sum of (w - 1) log p."""
    df = pd.DataFrame({"x": X, "y": FAMILIES[family](np.random.default_rng(4))})
    model = br.models.Regression({"y": "1 + x" if family != "ordered" else "x"}, {"y": family})
    data = model._microdata(df, levels=None, releases=(), missing="error")
    (part,) = model._parts(data)
    rows = part.rows(data.codes)
    weighted = build_regression(part, rows._replace(weights=WEIGHTS))
    plain = build_regression(part, rows)
    point = {k: v + 0.3 * (k == "beta") for k, v in plain.initial_point(random_seed=1).items()}
    given = [m.compile_logp(mode="FAST_COMPILE")(point) for m in (weighted, plain)]
    inside = {rv.name: inside_of(plain, rv, point) for rv in plain.free_RVs}
    beta, extra = inside.pop("beta"), extra_of({k: v[None] for k, v in inside.items()})
    eta = np.tensordot(rows.X, beta, axes=1)[:, None]
    log_p = part.family.log_density(rows.y, eta, extra, rows.trials)[:, 0]
    np.testing.assert_allclose(given[0] - given[1], (WEIGHTS - 1) @ log_p, rtol=1e-8)


def inside_of(model, rv, point):
    """A parameter itself at a point of the sampler's scale."""
    value = model.rvs_to_values[rv]
    transform = model.rvs_to_transforms[rv]
    at = point[value.name]
    if transform is None:
        return at
    return transform.backward(pt.as_tensor(at), *rv.owner.inputs).eval()


@pytest.mark.slow
def test_poisson_regression_against_quadrature():
    """Intercept alone: one integral for each guess, before and after the release."""
    y, z = np.array([0, 2, 3, 9]), np.array([1, 2, 2, 4])
    alpha = np.array([1.0, 0.5, 0.75, 0.25])
    model = br.models.Regression({"y": "1"}, {"y": "poisson"})
    options = {"draws": 500, "tune": 300, "chains": 4, "random_seed": 1}
    fit = model.fit(pd.DataFrame({"y": y}), weights=alpha, **options)
    release = br.Release(datasets=[pd.DataFrame({"y": z})], synthesized=["y"])
    guesses = {"y": br.Grid(bounds=(0, 12), n=13, truth="add")}
    risk = br.attribute_risk(fit, release, guesses=guesses, random_seed=2)
    log_rate = np.linspace(-8, 6, 20_001)
    log_prior = stats.norm.logpdf(log_rate, np.log(y.mean()), model.prior.intercept)

    def log_total(i, guess, with_release):
        changed = np.where(np.arange(4) == i, guess, y)
        log_p = log_prior + alpha @ stats.poisson.logpmf(changed[:, None], np.exp(log_rate))
        if with_release:
            log_p = log_p + stats.poisson.logpmf(z[:, None], np.exp(log_rate)).sum(axis=0)
        return logsumexp(log_p)

    exact = each(lambda i, g: log_total(i, *g, True) - log_total(i, *g, False))
    agree(risk, exact, 1e-3, most=4.5)


# --- limits ----------------------------------------------------------------------------------


def test_all_weights_one_change_nothing():
    plain, ones = fitted(2, None, draws=20), fitted(2, np.ones(3), draws=20)
    assert ones.weights is None
    np.testing.assert_array_equal(plain.posterior.draws.phi, ones.posterior.draws.phi)
    np.testing.assert_array_equal(audit(plain).log_evidence, audit(ones).log_evidence)


def flat(i, guesses):
    return np.zeros(len(guesses))


@pytest.mark.parametrize("own", [1e-3, 1e-7])
def test_a_record_of_tiny_weight_leaves_no_trace(own):
    """Its evidence is flat in every guess, at most about as far as its weight is from 0."""
    alpha = np.array([1.0, 1.0, own])
    risk = audit(fitted(1, alpha, draws=8))
    of_it, of_others = (np.abs(gaps(risk, flat, i)[0]).max() for i in ([2], [0, 1]))
    assert of_it < 10 * own < of_others


def test_a_record_of_tiny_weight_leaves_no_trace_in_a_mixture():
    risk = audit(fitted(2, np.array([1.0, 1.0, 1e-6]), draws=300))
    value, error = gaps(risk, flat, [2])
    assert np.abs(value).max() < 4 * error.max() + 1e-4
    assert error.max() < 1e-4


def test_records_of_equal_values_and_other_weights_are_other_cases():
    y = np.array([[0, 0], [0, 0], [0, 0], [1, 1]])
    fit = br.models.DPMPM(n_classes=1).fit(
        table(y), weights=[1.0, 0.5, 1.0, 1.0], draws=8, chains=2, random_seed=1
    )
    release = br.Release(datasets=[table(y)], synthesized=["x0", "x1"])
    risk = br.attribute_risk(fit, release)
    assert len(set(risk.case)) == 3 and risk.case[0] == risk.case[2]
    p = risk.records["probability"]
    assert p[1] < p[0]
    assert "record weights from 0.5 to 1" in risk.assumptions["synthesis"]


# --- errors ----------------------------------------------------------------------------------

BAD = {
    "too few": ([0.5, 0.5], "one weight a record"),
    "zero": ([0.0, 1.0, 1.0], r"outside \(0, 1\]"),
    "above one": ([0.5, 1.5, 1.0], r"outside \(0, 1\]"),
    "missing": ([0.5, np.nan, 1.0], "1 values that are missing or outside"),
    "text": (["a", "b", "c"], "not numbers"),
    "other labels": (
        pd.Series([0.5, 0.5, 0.5], index=[7, 8, 9]),
        "index of weights does not",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_weights_are_named(case):
    weights, message = BAD[case]
    with pytest.raises(br.InputError, match=message):
        br.models.DPMPM(n_classes=2).fit(table(Y), weights=weights, draws=8, chains=2)
    with pytest.raises(br.InputError, match=message):
        NORMAL.fit(BUSINESS.iloc[:3].reset_index(drop=True), weights=weights, draws=8, chains=2)


def test_a_series_is_put_in_the_table_s_order():
    weights = pd.Series(ALPHA, index=[0, 1, 2]).iloc[::-1]
    index = pd.RangeIndex(3, name="id")
    np.testing.assert_array_equal(checked_weights(weights, index), ALPHA)
    with pytest.raises(br.InputError, match="one of them merely numbers the rows"):
        checked_weights(weights, pd.RangeIndex(3))


def test_what_is_not_offered_with_weights_is_refused():
    fit = fitted(1, ALPHA, draws=8)
    with pytest.raises(br.InputError, match="leave its trace"):
        fit.synthesize(m=1, classes="own")
    own = br.Release(datasets=[table(Z1)], synthesized=["x0", "x1"], classes="own")
    with pytest.raises(br.InputError, match="leave its trace"):
        br.attribute_risk(fit, own)
    with pytest.raises(br.InputError, match="record weights"):
        audit(fit, intruder=br.Intruder(knows_records="none"))
