"""Sampled regressions where likelihoods have no maximum; and seeds, whatever ran before."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br

N = 24
pytestmark = pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")


def table():
    rng = np.random.default_rng(1)
    x = np.sort(rng.normal(size=N))
    return pd.DataFrame(
        {
            "x": x,
            "twice": 2 * x,
            "apart": np.where(x > 0, "yes", "no"),  # x separates them
            "job": pd.Categorical(np.array(list("abc"))[np.arange(N) % 3], list("abcd")),
            "k": rng.poisson(3, N),
            "grade": np.arange(N) % 3,
            "none": 0,
        }
    )


FORMULAS = {
    "apart": "1 + x",
    "job": "1 + x",
    "k": "1 + x + twice + C(job)",  # collinear, and a level of job that nobody has
    "grade": "1",
}
FAMILIES = {"k": "poisson", "grade": "ordered"}


@pytest.fixture(scope="module")
def fit():
    model = br.models.Regression(FORMULAS, FAMILIES)
    return model.fit(table(), draws=80, tune=80, chains=2, random_seed=1)


@pytest.mark.parametrize("name", FORMULAS)
def test_priors_make_every_posterior_proper(fit, name):
    release = fit.synthesize(1, [name], random_seed=2)
    grids = {"k": br.Grid(bounds=(0, 12), n=13)} if name == "k" else {}
    how = {"targets": 3, "refit_budget": int(name == "apart"), "random_seed": 3, "prior": "uniform"}
    risk = br.attribute_risk(fit, release, guesses=grids, **how)
    assert np.isfinite(risk.log_probability).all()
    assert np.allclose(np.exp(risk.log_probability).sum(axis=0), 1)
    assert np.isfinite(risk.mcse).all()
    if name == "job":
        assert risk.n_guesses == 4, "the level that nobody has is a guess too"


def test_draws_are_finite_and_named(fit):
    posterior = fit.idata.posterior
    assert all(np.isfinite(posterior[k]).all() for k in posterior)
    assert {"apart: x", "job: x[d]", "k: C(job)[T.d]", "grade: cut[2]"} <= set(posterior)
    assert (posterior["grade: cut[2]"] > posterior["grade: cut[1]"]).all()
    assert posterior["apart: x"].mean() > 1


def test_audits_of_one_fit_do_not_depend_on_each_other(fit):
    """The sampler is kept from fit to fit; what it did before must not matter, nor the threads."""
    release = fit.synthesize(1, ["apart"], random_seed=2)
    options = {"targets": 2, "guesses": {}, "random_seed": 4}
    found = [
        br.attribute_risk(fit, release, evidence=evidence, n_jobs=n_jobs, **options)
        for evidence, n_jobs in (
            ("refit", 1),
            ("predictive", 1),
            ("refit", 2),
            ("predictive", 2),
        )
    ]
    assert np.array_equal(found[0].log_evidence, found[2].log_evidence)
    assert np.array_equal(found[1].log_evidence, found[3].log_evidence)
    assert np.array_equal(found[1].mcse, found[3].mcse)


def test_outcomes_that_are_always_zero_or_of_one_level():
    df = table().assign(one=pd.Categorical(["a"] * N, ["a", "b"]))
    model = br.models.Regression({"none": "1", "one": "1"}, {"none": "poisson"})
    fit = model.fit(df, draws=40, tune=60, chains=2, random_seed=1)
    release = fit.synthesize(1, random_seed=2)
    grids = {"none": br.Grid(bounds=(0, 4), n=5)}
    how = {"targets": 2, "refit_budget": 0, "random_seed": 3, "prior": "uniform"}
    risk = br.attribute_risk(fit, release, guesses=grids, **how)
    assert np.isfinite(risk.log_probability).all()
