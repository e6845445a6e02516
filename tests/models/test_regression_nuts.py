"""Families that are sampled by NUTS: predictive and refit evidence against integrals by SciPy."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from tests.oracles.regression_integrals import Sampled, log_evidence

pytestmark = pytest.mark.check

Prior, Binomial = br.models.RegressionPrior, br.models.Binomial
N = 30
FAMILIES = {
    "t": "student",
    "pois": "poisson",
    "nb": "negative-binomial",
    "bin": Binomial(trials=10),
    "two": "bernoulli",
    "ord": "ordered",
    "nom": "categorical",
}
PRIORS = {
    "t": Prior(sigma=0.7, nu=(3.0, 0.5), slopes=1.0),
    "nb": Prior(overdispersion=0.6, intercept=2.0),
    "ord": Prior(intercept=3.0),
}
LEVELS = {"two": ["no", "yes"], "ord": ["low", "mid", "high"], "nom": ["a", "b", "c"]}
GRIDS = {
    "t": br.Grid(additive=2.0, n=5),
    "pois": br.Grid(additive=4, n=5),
    "nb": br.Grid(additive=4, n=5),
    "bin": br.Grid(bounds=(0, 10), n=11),
}


def table(seed=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(3.0, 2.0, N)
    z = (x - 3) / 2
    latent = z + rng.logistic(size=N)
    mu = np.exp(1.0 + 0.4 * z)
    return pd.DataFrame(
        {
            "x": x,
            "t": 5.0 + z + 0.7 * rng.standard_t(4, size=N),
            "pois": rng.poisson(mu),
            "nb": rng.poisson(mu * rng.gamma(2.0, 0.5, N)),
            "bin": rng.binomial(10, 1 / (1 + np.exp(-z))),
            "two": np.where(latent > 0, "yes", "no"),
            "ord": pd.Categorical.from_codes(
                (latent > -1).astype(int) + (latent > 1), LEVELS["ord"], ordered=True
            ),
            "nom": np.array(LEVELS["nom"])[rng.integers(3, size=N)],
        }
    )


@pytest.fixture(scope="module")
def fit():
    formulas = {name: "x" if name == "ord" else "1 + x" for name in FAMILIES}
    model = br.models.Regression(formulas, FAMILIES, priors=PRIORS)
    return model.fit(table(), draws=400, tune=400, chains=4, random_seed=1)


@pytest.fixture(scope="module")
def release():
    """Another table of the same kind with the same x: no model is needed to make one."""
    return table(seed=2).assign(x=table()["x"])


def only(release, name):
    df = table()
    return br.Release(datasets=[df.assign(**{name: release[name]})], synthesized=[name])


def oracle(name, release, i, values):
    def design(columns):
        x = columns["x"]
        return x[:, None] if name == "ord" else np.column_stack([np.ones(len(x)), x])

    family = FAMILIES[name] if isinstance(FAMILIES[name], str) else "binomial"
    part = Sampled(name, family, design, PRIORS.get(name, Prior()), levels=LEVELS.get(name))
    df = table()[["x", name]]
    return log_evidence(part, df, df.assign(**{name: release[name]}), i, values)


integrals: dict = {}  # each is computed once


def compare(risk, name, release):
    """Within four standard errors of the integral, the reported and the integral's together."""
    for label in risk.index:
        rows = risk.posterior(label)
        rows = rows.sort_values("is_truth", ascending=False, kind="stable", ignore_index=True)
        if (name, label) not in integrals:
            values = [{name: v} for v in rows[name]]
            integrals[name, label] = values, oracle(name, release, label, values)
        values, (exact, error) = integrals[name, label]
        order = [[v[name] for v in values].index(v) for v in rows[name]]
        exact, error = exact[order], error[order]
        u = risk.case[risk.position(label)]
        counted = np.flatnonzero(np.isfinite(risk.log_prior[:, u]))
        mcse = {risk.guesses[g, u, 0]: risk.mcse_log_evidence[g, u] for g in counted}
        code = (lambda v: LEVELS[name].index(v)) if name in LEVELS else float
        reported = np.array([mcse[code(v)] for v in rows[name]])
        gap = rows["log_evidence"].to_numpy() - exact
        assert error.max() < 0.05, "the integral is not sharp"
        assert len(gap) > 1 and (np.abs(gap) <= 4 * np.hypot(reported, error)).all(), (
            gap,
            reported,
        )


QUICK = ("ord",)  # the others take as long as all other tests of this file


@pytest.mark.parametrize(
    "name", [pytest.param(f, marks=[] if f in QUICK else [pytest.mark.slow]) for f in FAMILIES]
)
def test_predictive_and_refit_agree_with_the_integral(fit, release, name):
    made = only(release, name)
    options = {"guesses": {name: GRIDS[name]} if name in GRIDS else {}, "random_seed": 3}
    predictive = br.attribute_risk(fit, made, targets=[4, 17], **options)
    compare(predictive, name, release)
    refit = br.attribute_risk(fit, made, targets=[4], evidence="refit", **options)
    compare(refit, name, release)
    u = predictive.case[0]
    gap = (predictive.log_evidence[:, :, u] - refit.log_evidence[:, :, 0])[0]
    error = np.hypot(predictive.mcse_log_evidence[:, u], refit.mcse_log_evidence[:, 0])
    assert (np.abs(gap) <= 4 * error).all()
    assert refit.khat.max() == 0 and predictive.khat.max() < 0.7


def moments(draws):
    """Means of the linear predictors at x = 3 and 6 and of their squares, each with its error."""
    eta = np.einsum("rk,hkc->hrc", [[1.0, 3.0], [1.0, 6.0]], draws.beta).reshape(len(draws), -1)
    v = np.concatenate([eta, eta**2], axis=1).reshape(2 * draws.n_chains, -1, 2 * eta.shape[1])
    batches = v.mean(axis=1)
    return batches.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(len(batches))


def test_warm_starts_sample_the_same(fit):
    """The dense metric once reached the momenta and not the energies."""
    found = {p.part.name: p for p in fit.posterior.parts}["nom"]
    again = found.with_rows(found.rows, rng=np.random.default_rng(5))
    (a, sa), (b, sb) = moments(found.draws), moments(again.draws)
    assert (np.abs(a - b) < 4 * np.hypot(sa, sb)).all()


def test_draws_are_sound(fit):
    assert fit.diagnostics["max_rhat"] < 1.03 and fit.diagnostics["min_ess"] > 200
    assert fit.diagnostics["draws"] == 400 and fit.diagnostics["chains"] == 4
    assert repr(fit).startswith("RegressionFit: 30 records, t, pois, nb")
