"""What the published software gets wrong, or refuses, comes out right here; and other extremes."""

import warnings

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br

Regression = br.models.Regression
UNRELIABLE = pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")


def audit(model, df, guesses, *, m=1, evidence="exact", draws=50, prior="uniform", **options):
    fit = model.fit(df, draws=draws, chains=2, random_seed=1)
    release = fit.synthesize(m, random_seed=2)
    return br.attribute_risk(
        fit, release, guesses=guesses, evidence=evidence, prior=prior, random_seed=3, **options
    )


def sound(risk):
    """Probabilities, all of them finite and adding to one."""
    p = np.exp(risk.log_probability)
    assert np.allclose(p.sum(axis=0), 1) and not np.isnan(risk.log_evidence).any()
    records = risk.records
    assert records["probability"].between(0, 1).all() and np.isfinite(records["mcse"]).all()
    assert (np.isfinite(risk.log_probability) == np.isfinite(risk.log_prior)).all()
    return risk


def normal(n=20, at=1000.0, sd=1.0, seed=1):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"y": rng.normal(at, sd, n)})


# --- densities that underflow ------------------------------------------------------------------


@UNRELIABLE
@pytest.mark.parametrize("evidence", ["exact", "predictive", "refit", "importance"])
@pytest.mark.parametrize("sd", [2.5, 0.01])
def test_guesses_many_standard_deviations_away(sd, evidence):
    """Ten per cent of 1000 is 100 standard deviations: their densities are zero as numbers."""
    df = normal(sd=sd)
    model = Regression({"y": "1"})
    risk = sound(audit(model, df, br.Grid(percent=10, n=11), evidence=evidence, targets=5))
    assert risk.n_guesses == 11


@UNRELIABLE
@pytest.mark.parametrize("evidence", ["exact", "predictive", "importance"])
@pytest.mark.parametrize("far", [60.0, 1e6])
def test_an_outlier(far, evidence):
    df = normal(50, at=0.0)
    df.loc[7, "y"] = far
    risk = audit(Regression({"y": "1"}), df, br.Grid(additive=far, n=11), m=2, evidence=evidence)
    assert len(sound(risk).index) == 50


# --- zeros, negative values, numbers of guesses ------------------------------------------------


def test_negative_values():
    """The grid runs upwards, and is that of the mirrored table."""
    df = normal(15, at=-50.0, sd=5.0)
    model = Regression({"y": "1"})
    fit = model.fit(df, draws=4, chains=2, random_seed=1)
    release = fit.synthesize(2, random_seed=2)
    mirrored = model.fit(-df, draws=4, chains=2, random_seed=1)
    turned = br.Release(datasets=[-Z for Z in release.datasets], synthesized=["y"])
    options = {"guesses": br.Grid(percent=10, n=5), "evidence": "exact"}
    a = br.attribute_risk(fit, release, **options).records["probability"]
    b = br.attribute_risk(mirrored, turned, **options).records["probability"]
    assert np.allclose(a, b)


@pytest.mark.parametrize(("m", "factor"), [(1, 10.0), (5, 100.0)])
def test_a_prior_multiplies_the_odds_once(m, factor):
    """Not its exponential, and not once for each release."""
    df = normal(15, at=50.0, sd=5.0)
    model, grid = Regression({"y": "1"}), br.Grid(percent=10, n=11)
    plain = audit(model, df, grid, m=m).records["probability"]
    risk = audit(model, df, grid, m=m, prior=br.TruthFactor(factor))
    p = risk.records["probability"]
    assert np.allclose((p / (1 - p)) / (plain / (1 - plain)), factor)


# --- counts and categories, by draws that are brought ------------------------------------------


def brought(model, df, draws, Z, names, guesses):
    fit = model.from_draws(df, draws)
    release = br.Release(datasets=[Z], synthesized=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
        return br.attribute_risk(fit, release, guesses=guesses, evidence="importance")


def intercepts(at, H=40, seed=5):
    return pd.DataFrame({"Intercept": np.random.default_rng(seed).normal(at, 0.1, H)})


def test_guesses_that_cannot_be_break_no_formula():
    """log(k + 1) has no value at -2, which is no guess."""
    df = pd.DataFrame({"k": [0, 0, 1, 3, 2], "v": [0.0, 1, 2, 2, 1]})
    Z = df.assign(k=[1, 0, 2, 2, 0])
    model = Regression({"k": "1", "v": "1 + log(k + 1)"}, {"k": "poisson"})
    draws = {
        "k": intercepts(0.2),
        "v": intercepts(0.0).assign(**{"log(k + 1)": 1.0, "sigma": 1.0}),
    }
    grids = {"k": br.Grid(additive=3, n=7), "v": br.Grid(additive=1, n=3)}
    sound(brought(model, df, draws, Z, ["k", "v"], grids))


@pytest.mark.parametrize("dtype", ["text", "category", "numbers", "bool"])
def test_two_levels_however_stored(dtype):
    """The code of a level is never taken for its label."""
    stored = {
        "text": ["no", "yes"],
        "category": pd.Categorical(["no", "yes"]),
        "numbers": [1, 2],
        "bool": [False, True],
    }[dtype]
    y, z = np.array([0, 1, 1, 0, 1]), np.array([1, 1, 1, 0, 1])
    levels = pd.Series(stored)
    df, Z = (pd.DataFrame({"b": levels[code].to_numpy()}) for code in (y, z))
    if dtype == "category":
        df, Z = (t.astype({"b": levels.dtype}) for t in (df, Z))
    model = Regression({"b": "1"}, {"b": "bernoulli"})
    draws = intercepts(0.5)
    risk = sound(brought(model, df, {"b": draws}, Z, ["b"], {}))
    p = 1 / (1 + np.exp(-draws["Intercept"].to_numpy()))
    like = p**4 * (1 - p)
    for i in range(5):
        w = np.stack([1 - p, p]) / np.where(y[i], p, 1 - p)
        q = (like * w).sum(axis=1) / w.sum(axis=1)
        q = q / q.sum()
        assert risk.records.loc[i, "probability"] == pytest.approx(q[y[i]], abs=1e-12)


# --- limits ------------------------------------------------------------------------------------


def test_one_record_among_many_tells_little():
    """A guess d away moves the mean by d / n: log evidence d |mean(Z) - mean(y)| / 2 sd^2."""
    n, sd = 2_000, 5.0
    rng = np.random.default_rng(8)
    df = pd.DataFrame({"y": rng.normal(50, sd, n)})
    risk = audit(Regression({"y": "1"}), df, br.Grid(additive=sd, n=5), targets=50)
    records = risk.records
    far = np.abs(np.log(records["probability"] / records["prior"])).max()
    assert 0 < far < 4 * np.sqrt(2 / n)


def test_a_release_equal_to_the_table_finds_the_outlier():
    df = normal(30, at=0.0)
    df.loc[3, "y"] = 40.0
    fit = Regression({"y": "1"}).fit(df, draws=4, chains=2, random_seed=1)
    release = br.Release(datasets=[df] * 20, synthesized=["y"])
    grid = br.Grid(additive=40, n=5)
    risk = br.attribute_risk(fit, release, guesses=grid, evidence="exact")
    assert risk.records.loc[3, "probability"] > 0.9
