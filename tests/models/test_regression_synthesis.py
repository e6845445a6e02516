"""Synthetic values: distributions given what comes before, masks, columns, types, seeds."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br

Regression = br.models.Regression
N, M = 4000, 3


def table(seed=1):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, N)
    return pd.DataFrame(
        {
            "age": age,
            "income": rng.normal(10, 1, N),
            "kids": rng.integers(0, 5, N),
            "sex": pd.Categorical(rng.choice(["f", "m"], N), ["f", "m", "x"]),
            "job": rng.choice(["a", "b", "c"], N),
            "rate": pd.Categorical(
                rng.choice(["low", "mid", "high"], N), ["low", "mid", "high"], ordered=True
            ),
            "paid": rng.choice([True, False], N),
        },
        index=[f"r{i}" for i in range(N)],
    )


FORMULAS = {
    "income": "1 + age",
    "kids": "1 + income",
    "paid": "1 + income",
    "job": "1 + paid",
    "rate": "income",
    "sex": "1 + job",
}
FAMILIES = {"kids": "poisson", "rate": "ordered"}
#  one draw of Theta, thrice: what is drawn is known
DRAWS = {
    "income": {"Intercept": 5.0, "age": 0.1, "sigma": 2.0},
    "kids": {"Intercept": -1.0, "income": 0.15},
    "paid": {"Intercept": -2.0, "income": 0.2},
    "job": {
        "Intercept[b]": 0.5,
        "paid[T.True][b]": -1.0,
        "Intercept[c]": 0.0,
        "paid[T.True][c]": 1.0,
    },
    "rate": {"income": 0.3, "cut[1]": 2.0, "cut[2]": 4.0},
    "sex": {
        f"{name}[{level}]": v
        for level, values in {"m": (0.2, 1.0, -1.0), "x": (-1.0, 0.0, 0.5)}.items()
        for name, v in zip(("Intercept", "job[T.b]", "job[T.c]"), values, strict=True)
    },
}


@pytest.fixture(scope="module")
def fit():
    draws = {k: pd.DataFrame([v] * M) for k, v in DRAWS.items()}
    return Regression(FORMULAS, FAMILIES).from_draws(table(), draws)


@pytest.fixture(scope="module")
def release(fit):
    return fit.synthesize(M, random_seed=2)


def within(values, expected, spread):
    """Means of independent values within four standard errors, weighted by several functions."""
    gap = np.asarray(values, dtype=float) - expected
    for weight in (np.ones(N), np.arange(N) % 2, np.linspace(-1, 1, N)):
        error = np.sqrt((weight**2 * spread**2).sum())
        assert abs((weight * gap).sum()) < 4 * error


def logistic(x):
    return 1 / (1 + np.exp(-x))


def test_values_follow_their_regression_given_synthetic_ones_before(release):
    for Z in release.datasets:
        income, paid = Z["income"].to_numpy(), Z["paid"].to_numpy()
        within(income, 5 + 0.1 * Z["age"], 2.0)
        within((income - 5 - 0.1 * Z["age"]) ** 2, 4.0, 4 * np.sqrt(2))
        mu = np.exp(-1 + 0.15 * income)
        within(Z["kids"], mu, np.sqrt(mu))
        p = logistic(-2 + 0.2 * income)
        within(paid, p, np.sqrt(p * (1 - p)))
        score = np.exp([0 * paid, 0.5 - 1.0 * paid, 1.0 * paid])
        for k, level in enumerate("abc"):
            q = score[k] / score.sum(axis=0)
            within(Z["job"] == level, q, np.sqrt(q * (1 - q)))
        for k, levels in ((1, ["low"]), (2, ["low", "mid"])):
            p = logistic(2.0 * k - 0.3 * income)
            within(Z["rate"].isin(levels), p, np.sqrt(p * (1 - p)))
        b, c = (Z["job"] == "b").to_numpy(), (Z["job"] == "c").to_numpy()
        score = np.exp([0.0 * b, 0.2 + b - c, -1 + 0.5 * c])
        q = score[2] / score.sum(axis=0)
        within(Z["sex"] == "x", q, np.sqrt(q * (1 - q)))


def test_types_and_labels_are_kept(release):
    df = table()
    for Z in release.datasets:
        assert Z.index.equals(df.index) and list(Z.columns) == list(df.columns)
        assert (Z.dtypes == df.dtypes).all()
        assert Z["kids"].dtype == "int64" and (Z["kids"] >= 0).all()
        assert Z["sex"].cat.categories.tolist() == ["f", "m", "x"] and (Z["sex"] == "x").any()
        assert Z["rate"].cat.ordered and Z["paid"].dtype == bool
        assert Z["age"].equals(df["age"])


def test_counts_in_a_float_column_stay_whole():
    df = pd.DataFrame({"k": np.arange(20) % 4 * 1.0})
    fit = Regression({"k": "1"}, {"k": "poisson"}).from_draws(
        df, {"k": pd.DataFrame({"Intercept": [0.5, 0.6]})}
    )
    Z = fit.synthesize(1, random_seed=1).datasets[0]["k"]
    assert Z.dtype == "float64" and (Z == np.round(Z)).all()


def test_whole_numbers_under_a_normal_regression_are_not_rounded():
    """They would no longer come from the model that the evidence assumes."""
    df = pd.DataFrame({"age": np.arange(20)})
    fit = Regression({"age": "1"}).fit(df, draws=4, chains=2, random_seed=1)
    release = fit.synthesize(1, random_seed=1)
    assert release.datasets[0]["age"].dtype == "float64"
    grid = br.Grid(additive=3, n=7)
    risk = br.attribute_risk(fit, release, guesses=grid, evidence="exact")
    assert (risk.guesses == np.round(risk.guesses)).all()


def test_trials_of_every_record():
    df = pd.DataFrame({"n": np.arange(1, 201) % 9, "w": 0})
    model = Regression({"w": "1"}, {"w": br.models.Binomial(trials="n")})
    fit = model.from_draws(df, {"w": pd.DataFrame({"Intercept": [1.0, 1.0]})})
    Z = fit.synthesize(1, random_seed=1).datasets[0]
    assert (Z["w"] <= df["n"]).all()
    p = logistic(1.0)
    gap = (Z["w"] - p * df["n"]).sum()
    assert abs(gap) < 4 * np.sqrt((df["n"] * p * (1 - p)).sum())


def test_some_records_and_some_columns(fit):
    df = table()
    mask = np.arange(N) % 4 == 0
    for records in (mask, df.index[mask].tolist()):
        release = fit.synthesize(2, ["kids", "income"], records, random_seed=3)
        assert release.synthesized == ("income", "kids"), "in the order of the model"
        assert np.array_equal(release.records, mask)
        for Z in release.datasets:
            pd.testing.assert_frame_equal(Z[~mask], df[~mask], check_dtype=True)
            others = [c for c in df if c not in release.synthesized]
            pd.testing.assert_frame_equal(Z[others], df[others])
            assert (Z["income"] != df["income"])[mask].all()


def test_a_later_column_alone_is_given_the_original_values(fit):
    Z = fit.synthesize(1, ["kids"], random_seed=4).datasets[0]
    mu = np.exp(-1 + 0.15 * table()["income"].to_numpy())
    within(Z["kids"], mu, np.sqrt(mu))


def test_every_data_set_has_a_draw_of_its_own():
    df = table()[["age", "income"]]
    model = Regression({"income": "1"})
    draws = pd.DataFrame({"Intercept": [0.0, 100.0, 200.0], "sigma": 1.0})
    fit = model.from_draws(df, {"income": draws})
    release = fit.synthesize(3, random_seed=5)
    found = [round(Z["income"].mean() / 100) for Z in release.datasets]
    assert sorted(found) == [0, 1, 2] and list(release.draw_index) == found
