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
@pytest.mark.parametrize("sd", [2.5, 2.0, 1.0, 0.01])
def test_guesses_many_standard_deviations_away(sd, evidence):
    """Ten per cent of 1000 is 100 standard deviations: their densities are zero as numbers."""
    df = normal(sd=sd)
    model = Regression({"y": "1"})
    risk = sound(audit(model, df, br.Grid(percent=10, n=11), evidence=evidence, targets=5))
    assert risk.n_guesses == 11


@UNRELIABLE
@pytest.mark.parametrize("evidence", ["exact", "predictive", "importance"])
@pytest.mark.parametrize("far", [60.0, 1e4, 1e6])
def test_an_outlier(far, evidence):
    df = normal(50, at=0.0)
    df.loc[7, "y"] = far
    risk = audit(Regression({"y": "1"}), df, br.Grid(additive=far, n=11), m=2, evidence=evidence)
    assert len(sound(risk).index) == 50


def test_an_outlier_is_found():
    """Its own model is the only one that made releases so wide."""
    df = normal(50, at=0.0)
    df.loc[7, "y"] = 60.0
    risk = audit(Regression({"y": "1"}), df, br.Grid(bounds=(-2, 62), n=33, truth="nearest"), m=5)
    records = risk.records
    assert records["probability"].idxmax() == 7
    assert records.loc[7, "probability"] > 2 * records.loc[7, "prior"]


# --- zeros, negative values, numbers of guesses ------------------------------------------------


def test_a_percentage_of_zero_is_an_error_with_its_cure():
    df = normal(10, at=0.0)
    df.loc[[3, 4], "y"] = 0.0
    with pytest.raises(
        br.InputError, match="one guess for 1 distinct targets .*a percentage of 0.*additive"
    ):
        audit(Regression({"y": "1"}), df, br.Grid(percent=10))
    risk = sound(audit(Regression({"y": "1"}), df, br.Grid(additive=1.0)))
    u = risk.case[3]
    assert risk.case[4] == u and len(np.unique(risk.guesses[:, u])) == 11


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


@pytest.mark.parametrize("n", [2, 4, 10])
def test_even_numbers_of_guesses(n):
    df = normal(10, at=50.0, sd=5.0)
    model = Regression({"y": "1"})
    with pytest.raises(br.InputError, match='10 targets; give an odd n .*truth="add".*"nearest"'):
        audit(model, df, br.Grid(percent=10, n=n))
    added = sound(audit(model, df, br.Grid(percent=10, n=n, truth="add")))
    assert added.n_guesses == n + 1
    near = sound(audit(model, df, br.Grid(percent=10, n=n, truth="nearest")))
    assert near.n_guesses == n and not near.records.isna().any().any()


@pytest.mark.parametrize("sizes", [(5, 3), (3, 5), (5, 5, 5), (2, 3, 4)])
def test_joint_grids_of_unequal_sizes_and_three_variables(sizes):
    rng = np.random.default_rng(4)
    a = rng.normal(5, 1, 20)
    b, c = a + rng.normal(0, 1, 20), rng.normal(9, 1, 20)
    df = pd.DataFrame({"a": a, "b": b, "c": c}).iloc[:, : len(sizes)]
    model = Regression({"a": "1", "b": "1 + a", "c": "1 + a + b"}) if len(sizes) == 3 else None
    model = model or Regression({"a": "1", "b": "1 + a"})
    grids = {
        name: br.Grid(percent=20, n=g, truth="error" if g % 2 else "add")
        for name, g in zip(df.columns, sizes, strict=True)
    }
    sizes = [g if g % 2 else g + 1 for g in sizes]
    risk = sound(audit(model, df, grids, prior=br.TruthFactor(10.0)))
    assert risk.n_guesses == np.prod(sizes)
    for u in range(len(risk.truth)):
        g = risk.truth[u]
        assert np.allclose(risk.guesses[g, u], df.iloc[int(risk.index[list(risk.case).index(u)])])
        best = np.flatnonzero(risk.log_prior[:, u] > risk.log_prior[:, u].min() + 1)
        assert best.tolist() == [g], "the bonus goes to the truth alone"
    marginal = risk.marginal_probability()
    assert (marginal.xs("probability", axis=1, level=1) >= 0).all().all()
    assert np.isfinite(marginal.to_numpy()).all()


@pytest.mark.parametrize("m", [1, 5])
@pytest.mark.parametrize("factor", [10.0, 100.0])
def test_a_prior_multiplies_the_odds_once(m, factor):
    """Not its exponential, and not once for each release."""
    df = normal(15, at=50.0, sd=5.0)
    model, grid = Regression({"y": "1"}), br.Grid(percent=10, n=11)
    plain = audit(model, df, grid, m=m).records["probability"]
    risk = audit(model, df, grid, m=m, prior=br.TruthFactor(factor))
    p = risk.records["probability"]
    assert np.allclose((p / (1 - p)) / (plain / (1 - plain)), factor)


def test_ranks_of_several_variables():
    df = normal(12, at=50.0, sd=5.0).assign(v=np.arange(12.0))
    risk = audit(Regression({"y": "1", "v": "1 + y"}), df, br.Grid(additive=2.0, n=3), m=3)
    for label, u in zip(risk.index, risk.case, strict=True):
        by_hand = 1 + (risk.log_probability[:, u] > risk.log_probability[risk.truth[u], u]).sum()
        assert risk.records.loc[label, "rank"] == by_hand
    assert risk.records["rank"].between(1, 9).all()


# --- counts and categories, by draws that are brought ------------------------------------------


def brought(model, df, draws, Z, names, guesses):
    fit = model.from_draws(df, draws)
    release = br.Release(datasets=[Z], synthesized=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
        return br.attribute_risk(fit, release, guesses=guesses, evidence="importance")


def intercepts(at, H=40, seed=5):
    return pd.DataFrame({"Intercept": np.random.default_rng(seed).normal(at, 0.1, H)})


def test_counts_on_percent_grids_are_whole():
    rng = np.random.default_rng(6)
    df = pd.DataFrame({"k": rng.poisson(40, 20)})
    model = Regression({"k": "1"}, {"k": "poisson"})
    draws, Z = {"k": intercepts(np.log(40))}, pd.DataFrame({"k": rng.poisson(40, 20)})
    risk = sound(brought(model, df, draws, Z, ["k"], br.Grid(percent=10, n=11)))
    assert (risk.guesses == np.round(risk.guesses)).all()
    far = np.abs(risk.guesses[:, :, 0] - df["k"].to_numpy()[np.unique(risk.case, True)[1]])
    assert (far <= 0.1 * df["k"].max()).all()


def test_a_count_of_zero():
    """Guesses below zero are not counted, and no guess is counted twice."""
    df, Z = pd.DataFrame({"k": [0, 0, 1, 3, 2]}), pd.DataFrame({"k": [1, 0, 2, 2, 0]})
    model = Regression({"k": "1"}, {"k": "poisson"})
    risk = brought(model, df, {"k": intercepts(0.2)}, Z, ["k"], br.Grid(additive=3, n=7))
    found = risk.posterior(0)
    assert sorted(found["k"]) == [0, 1, 2, 3] and np.allclose(found["prior"], 0.25)
    sound(risk)


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


def test_text_levels_of_a_nominal_variable():
    """Every level counts, the first too."""
    df, Z = pd.DataFrame({"c": list("abcab")}), pd.DataFrame({"c": list("ccbaa")})
    rng = np.random.default_rng(7)
    draws = pd.DataFrame(rng.normal(0, 0.5, (40, 2)), columns=["Intercept[b]", "Intercept[c]"])
    risk = sound(brought(Regression({"c": "1"}), df, {"c": draws}, Z, ["c"], {}))
    eta = np.column_stack([np.zeros(40), draws])
    p = (np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)).T
    like = p["abc".index("c")] ** 2 * p[1] * p[0] ** 2
    for i, c in enumerate(df["c"]):
        w = p / p["abc".index(c)]
        q = (like * w).sum(axis=1) / w.sum(axis=1)
        assert risk.records.loc[i, "probability"] == pytest.approx((q / q.sum())["abc".index(c)])


# --- limits ------------------------------------------------------------------------------------


def test_one_record_among_many_tells_little():
    """A guess d away moves the mean by d / n: log evidence d |mean(Z) - mean(y)| / 2 sd^2."""
    n, sd = 20_000, 5.0
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
