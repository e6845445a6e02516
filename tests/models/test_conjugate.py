"""The normal regression in closed form: marginal likelihoods, leaving one out, draws, limits."""

import numpy as np
import pytest
from scipy import integrate, stats

from bayes_risk._core.errors import ModelError
from bayes_risk.models.regression.posterior import ConjugatePrior, Moments
from tests.oracles.regression_oracle import log_marginal

N = 12
PRIORS = {
    "proper": ([10.0, 2.5, 2.5], 1.0, 1.0),
    "tight": ([0.3, 0.1, 0.2], 4.0, 7.0),
    "reference": ([np.inf] * 3, 0.0, 0.0),
    "flat intercept": ([np.inf, 1.0, 2.0], 1.0, 0.5),
    "flat slope": ([2.0, 1.0, np.inf], 0.0, 0.0),
    "one proper scale alone": ([np.inf, np.inf, 0.5], 0.0, 2.0),
}


def rows(n=N, seed=1):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    return X, X @ [0.3, -1.0, 0.5] + rng.normal(size=n)


def prior_of(name):
    tau, a, b = PRIORS[name]
    return ConjugatePrior(tau=np.array(tau), a=a, b=b)


def posterior_of(name, X, y):
    return prior_of(name).posterior(Moments.from_rows(X, y))


@pytest.mark.parametrize("name", PRIORS)
def test_leave_one_out_predictives_are_ratios_of_marginal_likelihoods(name):
    """log p(y*, y_-i) - log p(y_-i), by determinants and multivariate t; another x* too."""
    X, y = rows()
    known = posterior_of(name, X, y)
    tau, a, b = PRIORS[name]
    rng = np.random.default_rng(2)
    x_star, y_star = rng.normal(size=(4, N, 3)), rng.normal(0, 3, size=(4, N))
    x_star[0], y_star[0] = X, y
    found = known.log_predictive(X, y, x_star, y_star)
    for i in range(N):
        A, c = np.delete(X, i, axis=0), np.delete(y, i)
        before = log_marginal(A, c, np.array(tau), a, b)
        for g in range(4):
            both = np.vstack([A, x_star[g, i]]), np.append(c, y_star[g, i])
            exact = log_marginal(*both, np.array(tau), a, b) - before
            assert found[g, i] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("name", PRIORS)
def test_leave_one_out_predictives_are_those_of_a_fit_without_the_record(name):
    X, y = rows()
    known = posterior_of(name, X, y)
    x_star = np.repeat(X[None], 3, axis=0)
    y_star = y + np.array([[-2.0], [0.0], [5.0]])
    found = known.log_predictive(X, y, x_star, y_star)
    for i in range(N):
        left = posterior_of(name, np.delete(X, i, axis=0), np.delete(y, i))
        scale = np.sqrt(left.b / left.a * (1 + X[i] @ left.V @ X[i]))
        exact = stats.t.logpdf(y_star[:, i], 2 * left.a, X[i] @ left.mean, scale)
        assert np.allclose(found[:, i], exact, atol=1e-9)


@pytest.mark.parametrize("name", ["proper", "reference", "flat intercept"])
def test_predictives_integrate_to_one(name):
    X, y = rows()
    known = posterior_of(name, X, y)

    def density(value):
        star = np.full((1, 1), value)
        return float(np.exp(known.log_predictive(X[:1], y[:1], X[None, :1], star)[0, 0]))

    total, error = integrate.quad(density, -np.inf, np.inf)
    assert total == pytest.approx(1.0, abs=max(4 * error, 1e-8))


def test_intercept_alone_by_numerical_integration():
    """p(y* | y) of three values, its parameters integrated out on a grid."""
    y = np.array([0.2, -0.5, 1.1])
    prior = ConjugatePrior(tau=np.array([2.0]), a=2.0, b=1.5)
    known = prior.posterior(Moments.from_rows(np.ones((3, 1)), y))

    beta, log_s2 = np.linspace(-20, 20, 4001)[:, None], np.linspace(-6, 9, 601)
    s2 = np.exp(log_s2)
    prior_density = stats.norm.pdf(beta, 0, 2 * np.sqrt(s2)) * stats.invgamma.pdf(s2, 2, scale=1.5)

    def joint(values):
        like = np.prod([stats.norm.pdf(v, beta, np.sqrt(s2)) for v in values], axis=0)
        return (like * prior_density * s2).sum()

    one = np.ones((1, 1))
    found = known.log_predictive(one, y[:1], np.ones((1, 1, 1)), np.full((1, 1), 0.7))[0, 0]
    exact = np.log(joint([0.7, -0.5, 1.1]) / joint(y[1:]))
    assert found == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_without_an_intercept_and_without_terms(k):
    X, y = rows()
    X = X[:, 1 : 1 + k]
    prior = ConjugatePrior(tau=np.full(k, 1.5), a=1.0, b=2.0)
    known = prior.posterior(Moments.from_rows(X, y))
    found = known.log_predictive(X, y, X[None], y[None])[0]
    before = [
        log_marginal(np.delete(X, i, axis=0), np.delete(y, i), np.full(k, 1.5), 1.0, 2.0)
        for i in range(N)
    ]
    assert np.allclose(found, log_marginal(X, y, np.full(k, 1.5), 1.0, 2.0) - np.array(before))
    beta, sigma = known.draws(10, np.random.default_rng(1))
    assert beta.shape == (10, k) and (sigma > 0).all()


@pytest.mark.parametrize("name", PRIORS)
def test_moments_of_draws(name):
    """Means and squares within four standard errors of their closed forms."""
    X, y = rows()
    known, size = posterior_of(name, X, y), 40_000
    beta, sigma = known.draws(size, np.random.default_rng(3))
    a, b = known.a, known.b
    assert a > 2, "or the moments below do not exist"
    exact = [
        *known.mean,
        *(known.mean**2 + np.diag(known.V) * b / (a - 1)),
        known.mean[0] * known.mean[1] + known.V[0, 1] * b / (a - 1),
        b / (a - 1),
        a / b,
    ]
    values = np.column_stack([beta, beta**2, beta[:, 0] * beta[:, 1], sigma**2, sigma**-2])
    z = (values.mean(axis=0) - exact) / (values.std(axis=0) / np.sqrt(size))
    assert np.abs(z).max() < 4
    standard = (beta[:, 1] - known.mean[1]) / np.sqrt(known.V[1, 1] * b / a)
    u = stats.t.cdf(standard, 2 * a)
    assert abs(u.mean() - 0.5) < 4 * np.sqrt(1 / 12 / size)
    assert abs((u**2).mean() - 1 / 3) < 4 * np.sqrt(4 / 45 / size)


# --- what has no posterior ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("how", ["twice", "a sum", "a constant", "zero"])
def test_collinear_predictors(how, seed):
    """Rounding may leave a singular matrix a Cholesky root; that is no posterior."""
    X, y = rows(40, seed)
    extra = {
        "twice": 3.7 * X[:, 1],
        "a sum": X[:, 1] + X[:, 2],
        "a constant": 0.3 * X[:, 0],
        "zero": 0 * X[:, 0],
    }[how]
    X = np.column_stack([X, extra])
    with pytest.raises(ModelError, match="collinear and the prior is flat.*finite prior scales"):
        ConjugatePrior(tau=np.full(4, np.inf), a=0.0, b=0.0).posterior(Moments.from_rows(X, y))
    proper = ConjugatePrior(tau=np.full(4, 2.5), a=1.0, b=1.0).posterior(Moments.from_rows(X, y))
    found = proper.log_predictive(X, y, X[None], y[None])
    beta, sigma = proper.draws(100, np.random.default_rng(1))
    assert np.isfinite(found).all() and np.isfinite(beta).all() and np.isfinite(sigma).all()
    before = log_marginal(X[1:], y[1:], np.full(4, 2.5), 1.0, 1.0)
    exact = log_marginal(X, y, np.full(4, 2.5), 1.0, 1.0) - before
    assert found[0, 0] == pytest.approx(exact, abs=1e-8)


def test_predictors_that_are_nearly_collinear_are_fitted():
    """A year and its square: 1e-8 of the second is left over, which is not rounding."""
    X, y = rows(50)
    X = np.column_stack([X[:, :2], X[:, 1] + 1e-3 * X[:, 2]])
    tau = np.full(3, np.inf)
    known = ConjugatePrior(tau=tau, a=0.0, b=0.0).posterior(Moments.from_rows(X, y))
    exact = np.linalg.lstsq(X, y, rcond=None)[0]
    assert np.allclose(known.mean, exact, rtol=1e-6)


def test_a_record_that_alone_determines_a_coefficient():
    X, y = rows()
    X = np.column_stack([X, np.arange(N) == 4])
    flat = ConjugatePrior(tau=np.full(4, np.inf), a=0.0, b=0.0).posterior(Moments.from_rows(X, y))
    with pytest.raises(ModelError, match="1 records alone determine a coefficient"):
        flat.log_predictive(X, y, X[None], y[None])
    others = np.arange(N) != 4
    assert np.isfinite(
        flat.log_predictive(X[others], y[others], X[None, others], y[None, others])
    ).all()
    proper = ConjugatePrior(tau=np.full(4, 2.5), a=1.0, b=1.0).posterior(Moments.from_rows(X, y))
    assert np.isfinite(proper.log_predictive(X, y, X[None], y[None])).all()


@pytest.mark.parametrize("n", [2, 3])
def test_too_few_records_for_a_flat_prior(n):
    X, y = rows(n)
    flat = ConjugatePrior(tau=np.full(3, np.inf), a=0.0, b=0.0)
    with pytest.raises(ModelError, match="finite prior scales"):
        flat.posterior(Moments.from_rows(X, y))


def test_one_record_more_than_coefficients_cannot_be_left_out():
    X, y = rows(4)
    known = ConjugatePrior(tau=np.full(3, np.inf), a=0.0, b=0.0).posterior(Moments.from_rows(X, y))
    with pytest.raises(ModelError, match="4 records less one do not determine 3 coefficients"):
        known.log_predictive(X, y, X[None], y[None])


def test_more_coefficients_than_records_under_a_proper_prior():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(6, 15)), rng.normal(size=6)
    tau = np.full(15, 1.3)
    known = ConjugatePrior(tau=tau, a=1.0, b=1.0).posterior(Moments.from_rows(X, y))
    found = known.log_predictive(X, y, X[None], y[None])[0]
    whole = log_marginal(X, y, tau, 1.0, 1.0)
    for i in range(6):
        left = log_marginal(np.delete(X, i, axis=0), np.delete(y, i), tau, 1.0, 1.0)
        assert found[i] == pytest.approx(whole - left, abs=1e-9)


def test_an_outlier_keeps_its_digits():
    """A thousand standard deviations out; its own leaving out cancels nearly all of b."""
    X, y = rows()
    y[3] = 1000.0
    known = posterior_of("proper", X, y)
    found = known.log_predictive(X, y, X[None], y[None])[0, 3]
    left = posterior_of("proper", np.delete(X, 3, axis=0), np.delete(y, 3))
    scale = np.sqrt(left.b / left.a * (1 + X[3] @ left.V @ X[3]))
    exact = stats.t.logpdf(y[3], 2 * left.a, X[3] @ left.mean, scale)
    assert found == pytest.approx(exact, rel=1e-6)


def test_moments_add():
    X, y = rows()
    both = Moments.from_rows(X[:5], y[:5]).plus(Moments.from_rows(X[5:], y[5:]))
    whole = Moments.from_rows(X, y)
    assert np.allclose(both.xx, whole.xx) and np.allclose(both.xy, whole.xy)
    assert both.n == whole.n and both.yy == pytest.approx(whole.yy)
