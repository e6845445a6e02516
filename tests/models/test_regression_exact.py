"""Exact evidence of normal regressions against marginal likelihoods written out by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

import bayes_risk as br
from tests.oracles.regression_oracle import (
    Normal,
    guess_values,
    log_evidence,
    standardized,
)

Regression, Prior = br.models.Regression, br.models.RegressionPrior
ROUNDING = 1e-9
N = 14


def table(n=N, seed=1):
    """Age and sex are given; kids, income and spend are modelled."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 70, n)
    sex = np.array(["f", "m", "x"])[np.arange(n) % 3]
    kids = np.arange(n) % 4
    income = np.exp(0.02 * age + 0.3 * rng.standard_normal(n)) + 1
    spend = 0.5 * income + (sex == "m") + 0.4 * rng.standard_normal(n)
    return pd.DataFrame({"age": age, "sex": sex, "kids": kids, "income": income, "spend": spend})


def released(df, names, m=1, seed=2, mask=None):
    """Releases that no model made: values of other records, moved a little."""
    rng, files = np.random.default_rng(seed), []
    where = np.ones(len(df), dtype=bool) if mask is None else mask
    for _ in range(m):
        Z = df.copy()
        for name in names:
            new = rng.permutation(df[name].to_numpy())[where]
            if name != "kids":
                new = new * rng.uniform(0.9, 1.1, len(new))
            Z.loc[where, name] = new
        files.append(Z)
    return br.Release(datasets=files, synthesized=names, records=mask)


def one(c):
    return np.ones(len(c["age"]))


def design(*terms):
    """X of terms, each a function of the dict of columns."""
    return lambda c: np.column_stack([term(c) for term in terms])


def col(name):
    return lambda c: c[name]


def level(name, value):
    return lambda c: (c[name] == value).astype(float)


def times(f, g):
    return lambda c: f(c) * g(c)


def second_order(x):
    """x^2 less its regression on 1 and x in the table: what poly(x, 2) learns and keeps."""
    known = table()["income"].to_numpy()
    return x**2 - np.polyval(np.polyfit(known, known**2, 1), x)


SECOND = {
    "1 + income + age": design(one, col("income"), col("age")),
    "1 + age + income + sex": design(
        one, level("sex", "m"), level("sex", "x"), col("age"), col("income")
    ),
    "1 + age + sex + income": design(
        one, level("sex", "m"), level("sex", "x"), col("age"), col("income")
    ),
    "1 + log(income) + age": design(one, lambda c: np.log(c["income"]), col("age")),
    "1 + I(income**2) + income": design(one, lambda c: c["income"] ** 2, col("income")),
    "1 + age*income": design(one, col("age"), col("income"), times(col("age"), col("income"))),
    "1 + sex:income": design(one, *(times(level("sex", s), col("income")) for s in "fmx")),
    "1 + center(income) + scale(age)": design(one, col("income"), col("age")),
    "1 + poly(income, 2)": design(one, col("income"), lambda c: second_order(c["income"])),
    "0 + income + age": design(col("income"), col("age")),
    "1": design(one),
}


def audit(model, df, release, grids, **options):
    fit = model.fit(df, draws=4, chains=1, random_seed=1)
    return br.attribute_risk(fit, release, guesses=grids, evidence="exact", **options)


def compare(risk, df, parts, release):
    """Every target and guess, relative to the truth."""
    for label, u in zip(risk.index, risk.case, strict=True):
        i, guesses = df.index.get_loc(label), guess_values(risk, u)
        for l, Z in enumerate(release.datasets):
            by_hand = np.array(
                [log_evidence(parts, df, [Z], i, g, release.records) for g in guesses]
            )
            found = risk.log_evidence[l, :, u]
            assert np.allclose(
                found, by_hand - by_hand[risk.truth[u]], atol=ROUNDING, rtol=ROUNDING
            )


@pytest.mark.check
@pytest.mark.parametrize(
    ("formula", "m"),
    [("1 + income + age", 1), *((formula, 2) for formula in SECOND)],
)
def test_the_guess_of_the_first_variable_moves_the_predictor_of_the_second(formula, m):
    df = table()
    model = Regression({"income": "1 + age", "spend": formula})
    release = released(df, ["income", "spend"], m)
    grids = {"income": br.Grid(percent=20, n=5), "spend": br.Grid(additive=1.0, n=3)}
    risk = audit(model, df, release, grids, targets=[0, 8])
    parts = [Normal("income", design(one, col("age"))), Normal("spend", SECOND[formula])]
    compare(risk, df, parts, release)


@pytest.mark.parametrize(
    ("names", "m"), [(["income"], 1), (["spend"], 2), (["income", "spend"], 2)]
)
def test_some_columns_of_some_records(names, m):
    """What was not synthesised keeps its density, which does not depend on the release."""
    df, mask = table(), np.arange(N) % 3 != 1
    model = Regression({"income": "1 + age + sex", "spend": "1 + age + income + sex"})
    release = released(df, names, m, mask=mask)
    grids = {name: br.Grid(percent=30, n=5) for name in names}
    risk = audit(model, df, release, grids, targets=[0, 2, 8])
    sexes = [level("sex", "m"), level("sex", "x")]
    parts = {
        "income": Normal("income", design(one, *sexes, col("age"))),
        "spend": Normal("spend", design(one, *sexes, col("age"), col("income"))),
    }
    compare(risk, df, [parts[name] for name in names], release)


KIDS = [level("kids", k) for k in range(4)]


@pytest.mark.parametrize(
    ("formula", "X"),
    [
        ("1 + age + C(kids)", design(one, *KIDS[1:], col("age"))),
        ("1 + C(kids):age", design(one, *(times(k, col("age")) for k in KIDS))),
    ],
)
def test_a_guessed_number_taken_as_a_category(formula, X):
    df = table()
    model = Regression({"kids": "1 + age", "spend": formula})
    release = released(df, ["kids", "spend"], 2)
    grids = {"kids": br.Grid(values=[0, 1, 2, 3]), "spend": br.Grid(percent=10, n=3)}
    risk = audit(model, df, release, grids, targets=[1, 2, 7])
    compare(risk, df, [Normal("kids", design(one, col("age"))), Normal("spend", X)], release)


PRIORS = {
    "default": Prior(),
    "reference": Prior.reference(),
    "tight": Prior(intercept=0.5, slopes=0.1, sigma2=(5.0, 2.0)),
    "flat slopes": Prior(intercept=1.0, slopes=np.inf, sigma2=(1.0, 1.0)),
    "flat intercept": Prior(intercept=np.inf, slopes=0.7, sigma2=(0.0, 0.0)),
}


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("family", ["normal", "lognormal"])
def test_priors(name, family):
    df, prior = table(), PRIORS[name]
    model = Regression({"income": "1 + age + sex"}, {"income": family}, prior=prior)
    release = released(df, ["income"], 2)
    risk = audit(model, df, release, {"income": br.Grid(percent=40, n=5)}, targets=[0, 5])
    part = Normal(
        "income",
        design(one, level("sex", "m"), level("sex", "x"), col("age")),
        intercept=prior.intercept,
        slopes=prior.slopes,
        a=prior.sigma2[0],
        b=prior.sigma2[1],
        log=family == "lognormal",
    )
    compare(risk, df, [part], release)


def test_priors_of_single_regressions():
    df = table()
    model = Regression(
        {"income": "1 + age", "spend": "1 + income"},
        prior=Prior(slopes=0.5),
        priors={"spend": Prior(slopes=5.0)},
    )
    release = released(df, ["income", "spend"])
    grids = {"income": br.Grid(percent=20, n=3), "spend": br.Grid(additive=1.0, n=3)}
    risk = audit(model, df, release, grids, targets=[4])
    parts = [
        Normal("income", design(one, col("age")), slopes=0.5),
        Normal("spend", design(one, col("income")), slopes=5.0),
    ]
    compare(risk, df, parts, release)


def test_columns_that_the_intruder_knows_stay_at_their_values():
    df = table()
    model = Regression({"income": "1 + age", "spend": "1 + income"})
    release = released(df, ["income", "spend"], 2)
    knows = br.Intruder(knows_columns=["income"])
    grids = {"spend": br.Grid(additive=1.0, n=5)}
    risk = audit(model, df, release, grids, targets=[4, 6], intruder=knows)
    assert [v.name for v in risk.variables] == ["spend"]
    parts = [Normal("income", design(one, col("age"))), Normal("spend", design(one, col("income")))]
    compare(risk, df, parts, release)


def test_later_variables_that_were_not_synthesised_cancel():
    """They tell of the target, which is the prior's business; the release says nothing of them."""
    df = table()
    release = released(df, ["income"], 2)
    grids = {"income": br.Grid(percent=20, n=5)}
    found = [
        audit(Regression(formulas), df, release, grids).log_evidence
        for formulas in (
            {"income": "1 + age"},
            {"income": "1 + age", "spend": "1 + income"},
        )
    ]
    assert np.array_equal(*found)


def test_units_do_not_matter():
    """Priors apply on standardised scales: thousands of dollars or dollars, the same risk."""
    df = table()
    model = Regression({"income": "1 + age", "spend": "1 + income + age"})
    release = released(df, ["income", "spend"])
    grids = {"income": br.Grid(percent=20, n=3), "spend": br.Grid(percent=20, n=3)}
    rescaled = [t.assign(income=1000 * t["income"], age=t["age"] / 12) for t in release.datasets]
    other = br.Release(datasets=rescaled, synthesized=release.synthesized)
    found = audit(model, df, release, grids)
    again = audit(model, df.assign(income=1000 * df["income"], age=df["age"] / 12), other, grids)
    assert np.allclose(found.log_evidence, again.log_evidence, atol=1e-8)


def test_order_of_records_and_of_releases_does_not_matter():
    df = table()
    model = Regression({"income": "1 + age", "spend": "1 + income + age"})
    release = released(df, ["income", "spend"], 3)
    grids = {"income": br.Grid(percent=20, n=3), "spend": br.Grid(percent=20, n=3)}
    first = audit(model, df, release, grids)
    order = np.random.default_rng(5).permutation(N)
    turned = br.Release(
        datasets=[Z.iloc[order] for Z in release.datasets[::-1]], synthesized=release.synthesized
    )
    second = audit(model, df.iloc[order], turned, grids)
    a, b = first.records["probability"], second.records["probability"].loc[first.index]
    assert np.allclose(a, b, atol=1e-10)


# --- scales of the standardised variables, which come from the table ----------------------------


def log_marginal(X, y, n, prior):
    """log p(y) of rows X, the first n of which give the centres and scales; original units."""
    centre, scale, at, by = standardized(X[:n], y[:n])
    X, y, a, b = (X - centre) / scale, (y - at) / by, prior.sigma2[0], prior.sigma2[1]
    tau = np.array([prior.intercept, prior.slopes])
    precision = X.T @ X + np.diag(tau**-2.0)
    mean = np.linalg.solve(precision, X.T @ y)
    b_n, a_n = b + (y @ y - mean @ X.T @ y) / 2, a + (len(y) - np.isinf(tau).sum()) / 2
    return (
        -np.linalg.slogdet(precision)[1] / 2
        + gammaln(a_n)
        - a_n * np.log(b_n)
        - len(y) * np.log(by)
    )


@pytest.mark.parametrize(
    ("prior", "n", "most"),
    [(Prior(), 200, 2e-3), (Prior(), 1000, 5e-4), (Prior.reference(), 30, 1e-9)],
    ids=["200", "1000", "reference"],
)
def test_who_computes_the_scales_from_each_guess_learns_hardly_anything_else(prior, n, most):
    """The agency did from the truth: p(Z | y*) with scales of (y*, y_-i), against constant ones."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=n)
    y = 2 + x + rng.standard_t(4, size=n)
    df = pd.DataFrame({"x": x, "y": y})
    fit = Regression({"y": "1 + x"}, prior=prior).fit(df, random_seed=1)
    release = fit.synthesize(5, random_seed=2)
    far = [int(np.argmax(np.abs(y - 2 - x))), 0]
    grid = {"y": br.Grid(bounds=(y.min() - 1, y.max() + 1), n=15, truth="add")}
    risk = br.attribute_risk(fit, release, guesses=grid, prior="uniform", targets=far)
    X, worst = np.column_stack([np.ones(n), x]), 0.0
    for label, u in zip(risk.index, risk.case, strict=True):
        counted = np.isfinite(risk.log_prior[:, u])
        total = np.zeros(counted.sum())
        for g, value in enumerate(risk.guesses[counted, u, 0]):
            guessed = y.copy()
            guessed[label] = value
            for Z in release.datasets:
                both = np.append(guessed, Z["y"]), np.vstack([X, X])
                total[g] += log_marginal(both[1], both[0], n, prior)
                total[g] -= log_marginal(X, guessed, n, prior)
        exact = np.exp(total - total.max())
        found = np.exp(risk.log_probability[counted, u])
        worst = max(worst, np.abs(exact / exact.sum() - found).max())
    assert worst < most
    assert "constants from which nothing is inferred" in risk.assumptions["synthesis"]
