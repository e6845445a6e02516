"""Log densities of families: against SciPy, at extremes, summed, drawn from, and as PyMC has them.

Parameters come as R rows and H draws: eta (R, H), further parameters (H,).
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit, logsumexp

import bayes_risk as br
from bayes_risk.models.regression import families as rooms
from bayes_risk.models.regression.part import (
    Coefficients,
    Part,
    data_of,
    extra_of,
    n_outcomes,
    pymc_regression,
)

R, H, K, TRIALS = 30, 7, 4, 12
EXTRA = {
    "normal": {"sigma": (H,)},
    "lognormal": {"sigma": (H,)},
    "student": {"sigma": (H,), "nu": (H,)},
    "negative-binomial": {"alpha": (H,)},
    "ordered": {"cut": (H, K - 1)},
}
NAMES = [*rooms.BY_NAME, "binomial"]
COUNTS = ["poisson", "negative-binomial", "binomial"]


def family(name):
    return rooms.Binomial(TRIALS) if name == "binomial" else rooms.family_of(name)


def trials(name, rows=R):
    return np.full(rows, float(TRIALS)) if name == "binomial" else None


def parameters(name, rng):
    """eta and further parameters."""
    shape = (R, H, K - 1) if name == "categorical" else (R, H)
    extra = {}
    for key, size in EXTRA.get(name, {}).items():
        values = rng.gamma(2.0, 1.0, size) + 0.2
        extra[key] = values.cumsum(axis=1) - 3 if key == "cut" else values
    return rng.normal(0, 1.5, shape), extra


def outcomes(name, rng):
    return {
        "number": rng.normal(0, 2, R),
        "positive": rng.lognormal(0, 1, R),
        "count": rng.integers(0, TRIALS + 1, R).astype(float),
        "category": rng.integers(0, 2 if name == "bernoulli" else K, R).astype(float),
    }[family(name).kind]


def by_scipy(name, y, eta, extra):
    y, e = y[:, None], extra
    if name == "normal":
        return stats.norm.logpdf(y, eta, e["sigma"])
    if name == "lognormal":
        return stats.lognorm.logpdf(y, e["sigma"], scale=np.exp(eta))
    if name == "student":
        return stats.t.logpdf(y, e["nu"], eta, e["sigma"])
    if name == "bernoulli":
        return stats.bernoulli.logpmf(y, expit(eta))
    if name == "binomial":
        return stats.binom.logpmf(y, TRIALS, expit(eta))
    if name == "poisson":
        return stats.poisson.logpmf(y, np.exp(eta))
    if name == "negative-binomial":
        return stats.nbinom.logpmf(y, e["alpha"], e["alpha"] / (e["alpha"] + np.exp(eta)))
    if name == "ordered":
        below = expit(e["cut"].T[:, None] - eta)  # shape (K - 1, R, H)
        edges = np.concatenate([0 * below[:1], below, 0 * below[:1] + 1])
        return np.log(np.take_along_axis(np.diff(edges, axis=0), y[None].astype(int), axis=0)[0])
    full = np.concatenate([np.zeros((R, H, 1)), eta], axis=2)
    chosen = np.take_along_axis(full, y[:, :, None].astype(int), axis=2)[:, :, 0]
    return chosen - logsumexp(full, axis=2)


@pytest.mark.parametrize("name", NAMES)
def test_densities_are_those_of_scipy(name):
    rng = np.random.default_rng(1)
    eta, extra = parameters(name, rng)
    y = outcomes(name, rng)
    found = family(name).log_density(y, eta, extra, trials(name))
    assert found.shape == (R, H)
    assert np.allclose(found, by_scipy(name, y, eta, extra), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [n for n in NAMES if family(n).kind in ("count", "category")])
def test_they_sum_to_one(name):
    rng = np.random.default_rng(2)
    eta, extra = parameters(name, rng)
    support = {"binomial": TRIALS + 1, "bernoulli": 2, "ordered": K, "categorical": K}
    total = np.zeros((R, H))
    for value in range(support.get(name, 6000)):
        y = np.full(R, float(value))
        total += np.exp(family(name).log_density(y, eta, extra, trials(name)))
    assert np.allclose(total, 1.0, atol=1e-8)


# --- far out -----------------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [-800.0, -40.0, 40.0, 800.0])
@pytest.mark.parametrize("name", NAMES)
def test_extreme_predictors(name, eta):
    """Finite wherever the density is positive, and never NaN."""
    rng = np.random.default_rng(3)
    like, extra = parameters(name, rng)
    y = outcomes(name, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = family(name).log_density(y, np.full_like(like, eta), extra, trials(name))
    assert np.isfinite(found).all()


FAR = {
    "normal": [60.0, -60.0, 1e8],
    "lognormal": [1e-300, 5e-324, 1e300],
    "student": [60.0, -60.0, 1e150],
    "poisson": [1e6],
    "negative-binomial": [1e6],
}


@pytest.mark.parametrize("name", FAR)
def test_extreme_outcomes(name):
    """Sixty standard deviations out, counts of a million."""
    rng = np.random.default_rng(4)
    eta, extra = parameters(name, rng)
    for value in FAR[name]:
        y = np.full(R, value)
        found = family(name).log_density(y, eta, extra, None)
        assert np.isfinite(found).all()
        if name != "student" and 1e-200 < abs(value) < 1e200:
            assert np.allclose(found, by_scipy(name, y, eta, extra), rtol=1e-9)


def test_narrow_levels_between_thresholds():
    """F(high) - F(low) of thresholds that nearly meet: the gap times the density."""
    cut = np.array([[0.0, 1e-12], [500.0, 500.0 + 1e-10]])
    found = rooms.OrderedLogit().log_density(np.ones(1), np.zeros((1, 2)), {"cut": cut}, None)
    gap = np.diff(cut, axis=1)[:, 0]
    assert np.allclose(found[0], np.log(gap) + np.array([np.log(0.25), -500.0]), atol=1e-6)


@pytest.mark.parametrize("alpha", [1e6, 1e10, 1e14])
def test_without_overdispersion_the_negative_binomial_is_poisson(alpha):
    """They differ by (mu + (y - mu)^2) / 2 alpha at most, to first order; rounding is less."""
    y, eta = np.arange(0.0, 60.0), np.log(np.linspace(0.5, 40, 60))[:, None]
    found = rooms.NegativeBinomial().log_density(y, eta, {"alpha": np.array([alpha])}, None)
    poisson = stats.poisson.logpmf(y[:, None], np.exp(eta))
    bound = (np.exp(eta) + y[:, None] + (y[:, None] - np.exp(eta)) ** 2) / alpha
    assert (np.abs(found - poisson) <= bound + 1e-8).all()


OUTSIDE = {
    "lognormal": [0.0, -1.0],
    "poisson": [-1.0, 0.5],
    "negative-binomial": [-1.0, 2.5],
    "binomial": [-1.0, 0.5, TRIALS + 1.0],
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_the_support(name):
    rng = np.random.default_rng(5)
    eta, extra = parameters(name, rng)
    for value in OUTSIDE[name]:
        y = outcomes(name, rng)
        y[::2] = value
        found = family(name).log_density(y, eta, extra, trials(name))
        assert (found[::2] == -np.inf).all() and np.isfinite(found[1::2]).all()


# --- draws -------------------------------------------------------------------------------------

DRAWS = 20_000


def drawn(name, rng):
    """Many values under one eta and one draw of the further parameters."""
    eta, extra = parameters(name, rng)
    one = {k: v[0] for k, v in extra.items()}
    if "nu" in one:
        one["nu"] = 6.0  # so that the variance of the square exists
    many = np.repeat(eta[:1, 0], DRAWS, axis=0)
    y = family(name).draw(many, one, trials(name, DRAWS), rng)
    return y, eta[:1, :1], {k: np.asarray(v)[None] for k, v in one.items()}


@pytest.mark.parametrize("name", [n for n in NAMES if family(n).kind in ("count", "category")])
def test_draws_of_counts_and_levels(name):
    """Chi-squared over values that are expected five times and more."""
    rng = np.random.default_rng(6)
    y, eta, extra = drawn(name, rng)
    values = np.arange(
        {"binomial": TRIALS + 1, "bernoulli": 2}.get(name, 500 if name in COUNTS else K)
    )
    p = np.exp(
        [
            family(name).log_density(np.array([float(v)]), eta, extra, trials(name, 1))[0, 0]
            for v in values
        ]
    )
    often = p * DRAWS >= 5
    expected = np.append(p[often], 1 - p[often].sum()) * DRAWS
    observed = np.append((y[:, None] == values[often]).sum(axis=0), 0)
    observed[-1] = DRAWS - observed.sum()
    if expected[-1] < 5:  # into the cell before
        expected = np.append(expected[:-2], expected[-2:].sum())
        observed = np.append(observed[:-2], observed[-2:].sum())
    chi2, df = ((observed - expected) ** 2 / expected).sum(), len(expected) - 1
    assert df > 0 and (chi2 - df) / np.sqrt(2 * df) < 4


@pytest.mark.parametrize("name", ["normal", "lognormal", "student"])
def test_draws_of_numbers(name):
    """Their distribution function, integrated from the density, is uniform in the mean."""
    rng = np.random.default_rng(7)
    y, eta, extra = drawn(name, rng)
    at, sd = eta[0, 0], extra["sigma"][0]
    u = {
        "normal": lambda: stats.norm.cdf(y, at, sd),
        "lognormal": lambda: stats.lognorm.cdf(y, sd, scale=np.exp(at)),
        "student": lambda: stats.t.cdf(y, extra["nu"][0], at, sd),
    }[name]()
    for power in (1, 2, 3):
        spread = np.std(u**power) / np.sqrt(DRAWS)
        assert abs((u**power).mean() - 1 / (power + 1)) < 4 * spread


def test_counts_that_cannot_be_drawn_are_infinite():
    rng = np.random.default_rng(8)
    eta = np.array([1.0, 800.0])
    for name, extra in (("poisson", {}), ("negative-binomial", {"alpha": 2.0})):
        y = family(name).draw(eta, extra, None, rng)
        assert np.isfinite(y[0]) and np.isinf(y[1])


# --- as PyMC samples them ----------------------------------------------------------------------

FORMULAS = {
    "student": "1 + x + z",
    "bernoulli": "1 + x + z",
    "binomial": "1 + x + z",
    "poisson": "1 + x + z",
    "negative-binomial": "1 + x + z",
    "ordered": "x + z",
    "categorical": "1 + x + z",
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(9)
    n = 25
    return pd.DataFrame(
        {
            "x": rng.normal(40, 9, n),
            "z": np.array(["f", "m"])[np.arange(n) % 2],
            "student": rng.normal(500, 30, n),
            "bernoulli": np.arange(n) % 2,
            "binomial": rng.integers(0, TRIALS + 1, n),
            "poisson": rng.poisson(4, n),
            "negative-binomial": rng.poisson(4, n),
            "ordered": np.arange(n) % K,
            "categorical": np.array(list("abcd"))[np.arange(n) % K],
        }
    )


@pytest.mark.parametrize("name", FORMULAS)
def test_pymc_samples_the_same_density(table, name):
    """Outcome by outcome, parameters taken to the original scale; x that comes twice included."""
    table = table.assign(x=table["x"].round(-1))
    given = family(name)
    model = br.models.Regression({name: FORMULAS[name]}, {name: given})
    data = model._microdata(table)
    part = Part.from_formula(name, FORMULAS[name], given, br.models.RegressionPrior(), data)
    rows = part.rows(data.codes)
    rng = np.random.default_rng(10)
    k = rows.X.shape[1]
    free = {"beta": 0.5 * rng.standard_normal((H, k, *n_outcomes(part)))}
    free |= {
        "student": {"sigma": rng.uniform(0.3, 2, H), "nu": rng.uniform(1, 9, H)},
        "negative-binomial": {"spread": rng.uniform(0.2, 1.5, H)},
        "ordered": {"cut": rng.uniform(0.1, 1, (H, K - 1)).cumsum(axis=1) - 1},
    }.get(name, {})
    beta, extra = part.scaling.outside(free["beta"], extra_of(free))
    expected = part.log_density(data.codes, Coefficients(beta=beta, extra=extra, n_chains=1))
    if name == "student":
        expected = expected + np.log(part.scaling.by)
    by_pymc = outcomes_of(part, rows, free)
    if name == "categorical":  # distinct predictor rows are summed
        X = data_of(part, rows)["X"]
        same = (rows.X[:, None] == X[None]).all(axis=2).astype(float)
        expected = same.T @ expected
    assert np.allclose(by_pymc, expected, rtol=1e-9, atol=1e-9)


def outcomes_of(part, rows, free):
    """log density of each outcome under each draw, by PyMC, without compilation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pymc_regression(part, rows)
        density = model.compile_logp([model["outcome"]], sum=False, mode="FAST_COMPILE")
    columns = []
    for h in range(H):
        point = {}
        for name, values in free.items():
            key = next(v.name for v in model.value_vars if v.name.partition("_")[0] == name)
            point[key] = UNBOUNDED[key.removeprefix(name)](values[h])
        columns.append(np.asarray(density(point)[0]).reshape(-1))
    return np.stack(columns, axis=1)


UNBOUNDED = {
    "": np.asarray,
    "_log__": np.log,
    "_ordered__": lambda cut: np.append(cut[:1], np.log(np.diff(cut))),
}


@pytest.mark.parametrize("name", ["student", "ordered", "categorical"])
def test_centres_and_scales_leave_the_density_alone(table, name):
    """Standardised rows under sampled parameters, original rows under those outside."""
    given = family(name)
    model = br.models.Regression({name: FORMULAS[name]}, {name: given})
    data = model._microdata(table)
    part = Part.from_formula(name, FORMULAS[name], given, br.models.RegressionPrior(), data)
    rows = part.rows(data.codes)
    rng = np.random.default_rng(11)
    inner = rng.standard_normal((H, rows.X.shape[1], *n_outcomes(part)))
    cut = {"cut": np.sort(rng.standard_normal((H, K - 1)), axis=1)} if name == "ordered" else {}
    outer, extra = part.scaling.outside(inner, cut)
    X = part.matrix(data.codes)
    a = np.einsum("rk,hk...->rh...", rows.X, inner)
    b = np.einsum("rk,hk...->rh...", X, outer)
    if name == "ordered":
        a, b = a[..., None] - cut["cut"], b[..., None] - extra["cut"]
    elif name == "student":
        b = (b - part.scaling.at) / part.scaling.by
    assert np.allclose(a, b, atol=1e-9)


def test_names_of_families():
    assert rooms.family_of("poisson") == rooms.Poisson()
    given = rooms.Binomial(trials="n")
    assert rooms.family_of(given) is given
    for name in rooms.BY_NAME:
        assert type(rooms.family_of(name)) is rooms.BY_NAME[name]
