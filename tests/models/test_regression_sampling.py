"""Normal regressions: predictive and refit evidence against the closed form, by their errors."""

import warnings

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br

Regression = br.models.Regression
N = 50


def table(seed=1):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(N)
    y = np.exp(0.3 * x + 0.4 * rng.standard_normal(N))
    return pd.DataFrame({"x": x, "y": y, "v": 0.5 * y + x + rng.standard_normal(N)})


MODELS = {
    "one": Regression({"y": "1 + x"}),
    "sequence": Regression({"y": "1 + x", "v": "1 + x*y"}),
    "lognormal": Regression({"y": "1 + x", "v": "1 + log(y)"}, {"y": "lognormal"}),
    "reference": Regression({"y": "1 + x"}, prior=br.models.RegressionPrior.reference()),
}


def z_scores(found, exact):
    """Of every counted guess but the truth, each with the error that is reported."""
    others = (np.arange(found.n_guesses)[:, None] != found.truth) & np.isfinite(found.log_prior)
    gap = (found.log_evidence - exact.log_evidence).sum(axis=0)[others]
    return gap / found.mcse_log_evidence[others]


@pytest.mark.parametrize("evidence", ["predictive", "refit"])
@pytest.mark.parametrize(
    ("name", "m"),
    [("one", 1), ("sequence", 3)]
    + [pytest.param(name, 3, marks=pytest.mark.check) for name in ("lognormal", "reference")]
    + [pytest.param(name, 1, marks=pytest.mark.slow) for name in MODELS if name != "one"],
)
def test_sampled_evidence_agrees_with_the_closed_form(name, m, evidence):
    df, model = table(), MODELS[name]
    fit = model.fit(df, draws=200, chains=10, random_seed=2)
    release = fit.synthesize(m, random_seed=3)
    grids = {c: br.Grid(additive=0.8, n=5, truth="error") for c in release.synthesized}
    options = {"guesses": grids, "targets": 8, "random_seed": 4}
    exact = br.attribute_risk(fit, release, evidence="exact", **options)
    found = br.attribute_risk(fit, release, evidence=evidence, **options)
    z = z_scores(found, exact)
    assert len(z) > 20
    assert np.abs(z).max() < 4 and np.sqrt((z**2).mean()) < 2
    assert found.reliable.all() and (exact.khat == 0).all() and np.isinf(exact.ess).all()
    assert (exact.mcse == 0).all()


@pytest.mark.parametrize(("draws", "chains"), [(26, 2), (101, 1)])
def test_any_number_of_draws_and_chains(draws, chains):
    df = table()
    fit = MODELS["one"].fit(df, draws=draws, chains=chains, random_seed=2)
    release = fit.synthesize(1, random_seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
        found = br.attribute_risk(
            fit, release, guesses=br.Grid(additive=0.5, n=3), targets=5, random_seed=4
        )
    assert np.isfinite(found.log_evidence).all() and np.isfinite(found.mcse).all()


def test_more_draws_reach_the_error_that_is_wanted():
    df = table()
    fit = MODELS["one"].fit(df, draws=100, chains=10, random_seed=2)
    release = fit.synthesize(2, random_seed=3)
    grids = br.Grid(additive=0.8, n=5)
    options = {"guesses": grids, "targets": 8, "random_seed": 4}
    exact = br.attribute_risk(fit, release, evidence="exact", **options)
    options["evidence"] = "predictive"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
        short = br.attribute_risk(fit, release, **options)
    limit = float(np.quantile(short.mcse_log_evidence, 0.95)) / 2
    found = br.attribute_risk(fit, release, **options, target_mcse=limit, max_doublings=8)
    assert np.quantile(found.mcse_log_evidence, 0.95) <= limit
    assert np.abs(z_scores(found, exact)).max() < 4.5


# --- seeds ------------------------------------------------------------------------------------


def test_same_seed_same_bytes_for_any_number_of_workers():
    df = table()
    model = MODELS["sequence"]
    found = []
    for n_jobs in (1, 2):
        fit = model.fit(df, draws=20, chains=2, random_seed=2, n_jobs=n_jobs)
        release = fit.synthesize(2, random_seed=3)
        grids = br.Grid(additive=0.5, n=3)
        for evidence in ("predictive", "refit", "exact", "importance"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
                risk = br.attribute_risk(
                    fit,
                    release,
                    guesses=grids,
                    evidence=evidence,
                    targets=3,
                    random_seed=5,
                    n_jobs=n_jobs,
                )
            found.append(risk.log_evidence.tobytes() + risk.mcse.tobytes())
    assert found[:4] == found[4:]


@pytest.mark.check
def test_threads_leave_the_settings_of_warnings_alone():
    """Python keeps one list of filters for all threads: taking turns keeps it whole."""
    df = table()
    fit = MODELS["sequence"].fit(df, draws=50, chains=2, random_seed=2)
    release = fit.synthesize(2, random_seed=3)
    before = list(warnings.filters)
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
            br.attribute_risk(
                fit,
                release,
                guesses=br.Grid(additive=0.5, n=3),
                targets=15,
                evidence="refit",
                n_jobs=4,
            )
    assert list(warnings.filters) == before
