"""Predictive mean matching: donors, and the models that predict who is near."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.miscmodels.ordinal_model import OrderedModel

from bayes_risk.models.fits.synthesis import microdata
from bayes_risk.models.pmm import mechanism
from bayes_risk.models.pmm.mechanism import Donors, fit_means
from bayes_risk.models.pmm.pmm import PMM
from tests.oracles.pmm_tables import FAR, numbers

# --- donors ----------------------------------------------------------------------------------


def test_the_nearest_donor_is_taken_and_ties_share():
    donors = Donors(
        np.array([[0.0], [1.0], [1.0], [5.0]]), np.arange(4.0), np.array([1, 1, 3, 1]), 1
    )
    assert donors.chances(np.array([[0.9], [4.0]])).tolist() == [[0, 0.25, 0.75, 0], [0, 0, 0, 1]]


def test_one_of_the_k_nearest_is_taken():
    means, count = np.array([[0.0], [1.0], [-1.0], [5.0]]), np.ones(4)
    chances = [
        Donors(means, np.arange(4.0), count, k).chances(np.array([[0.0]]))[0] for k in (1, 2, 3, 9)
    ]
    expected = [[1, 0, 0, 0], [0.5, 0.25, 0.25, 0], [1 / 3] * 3 + [0], [0.25] * 4]
    assert np.array(chances) == pytest.approx(np.array(expected))
    several = Donors(means, np.arange(4.0), np.array([3.0, 1, 1, 1]), 4).chances(np.array([[0.0]]))
    assert several[0] == pytest.approx([0.75, 0.125, 0.125, 0])


def test_refused_donors_leave_the_next():
    donors = Donors(np.array([[0.0], [1.0], [2.0]]), np.arange(3.0), np.ones(3), 1)
    rng = np.random.default_rng(1)
    allowed = np.array([[False, True, True], [True, True, True]])
    values, refused = donors.draw(np.zeros((2, 1)), allowed, rng)
    assert values.tolist() == [1, 0] and refused == 1


def test_draws_have_their_chances():
    rng = np.random.default_rng(2)
    donors = Donors(rng.normal(size=(6, 2)), np.arange(6.0), np.ones(6), 3)
    mean, R = np.array([[0.1, 0.2]]), 4000
    values, _ = donors.draw(np.repeat(mean, R, axis=0), None, rng)
    p = donors.chances(mean)[0]
    share = np.bincount(values.astype(int), minlength=6) / R
    assert (np.abs(share - p) <= FAR * np.sqrt(p * (1 - p) / R)).all()


# --- prediction models -----------------------------------------------------------------------


def coded(df):
    data = microdata(df, None, levels=None, releases=(), missing="error")
    return data.codes, data.variables


@pytest.fixture(scope="module")
def table():
    return coded(numbers())


def dummies(df, columns):
    return pd.get_dummies(df[columns], drop_first=True, dtype=float)


def test_linear_means_are_least_squares(table):
    codes, variables = table
    df = numbers()
    x = sm.add_constant(dummies(df, ["disease", "health", "limited", "coinsurance"]))
    expected = sm.OLS(df["visits"], x).fit().fittedvalues
    found = fit_means("linear", codes, 0, variables, [1, 2, 3, 4])[0](codes)
    assert found[:, 0] == pytest.approx(expected.to_numpy())


def test_ordered_means_are_expected_levels(table):
    codes, variables = table
    df = numbers()
    x = dummies(df, ["disease", "limited"])
    logit = OrderedModel(codes[:, 2].astype(int), x, distr="logit")
    p = logit.fit(method="bfgs", disp=False, maxiter=1000).predict(x)
    means, notes = fit_means("ordered", codes, 2, variables, [1, 3])
    assert notes == ()
    found = means(codes)[:, 0]
    assert found == pytest.approx(np.asarray(p) @ np.arange(4), abs=1e-3)


@pytest.mark.parametrize("kind", ["ordered", "multinomial", "gam", "linear"])
def test_means_are_the_same_to_the_byte_in_any_order(kind):
    """Iterations stop at a tolerance: rounding would decide between donors as near."""
    rng = np.random.default_rng(3)
    a, b, g = rng.normal(size=60), 1e12 + rng.normal(size=60), rng.integers(0, 3, 60)
    y = np.digitize(a + rng.normal(size=60), [-1, 1])
    y = y * 1.5 if kind in ("gam", "linear") else pd.Categorical(y, ordered=kind == "ordered")
    df = pd.DataFrame({"y": y, "a": a, "b": b, "g": pd.Categorical(g)})

    def means(rows, names):
        codes, variables = coded(df.loc[rows, names])
        others = [j for j, name in enumerate(names) if name != "y"]
        mean = fit_means(kind, codes, names.index("y"), variables, others)[0]
        return np.concatenate([mean(codes[[at]]) for at in np.argsort(rows)])

    first = means(np.arange(60), ["y", "a", "b", "g"])
    assert np.array_equal(first, means(rng.permutation(60), ["g", "b", "y", "a"]))


def test_multinomial_means_are_probabilities(table):
    codes, variables = table
    x = sm.add_constant(dummies(numbers(), ["disease", "limited"]))
    p = sm.MNLogit(codes[:, 2].astype(int), x).fit(disp=False).predict(x)
    found = fit_means("multinomial", codes, 2, variables, [1, 3])[0](codes)
    assert found == pytest.approx(np.asarray(p), abs=1e-6)


def test_gam_bends_and_stays_in_range():
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, 400)
    df = pd.DataFrame(
        {"y": x**2 + rng.normal(0, 0.1, 400), "x": x, "c": rng.choice(["m", "n"], 400)}
    )
    fit = PMM(["y"], identifying=["c", "y"], cuts={"y": [-1, 3.9]}, threshold=60).fit(df)
    means_of, far = fit.base.steps[0].means, fit.rows[:3].copy()
    means = means_of(fit.rows)[:, 0]
    assert np.corrcoef(means, x**2)[0, 1] > 0.99
    far[:, 1] = [-2.5, 100, -100]  # beyond the donors
    assert np.isfinite(means_of(far)).all() and means_of(far).max() < 5


def test_a_separated_fit_is_replaced_by_a_penalised_one_and_says_so():
    rows = [("l", "x"), ("h", "y")] * 20 + [("l", "z"), ("h", "z")] * 3
    df = pd.DataFrame([*rows, ("l", "w")], columns=["o", "g"])
    df["o"] = pd.Categorical(df["o"], ["l", "h"], ordered=True)
    for kind in ("ordered", "multinomial"):
        fit = PMM(["o"], identifying=["o", "g"], threshold=1, models={"o": kind}).fit(df)
        assert any("separation" in note for note in fit.notes), kind
        assert fit.diagnostics["notes"] >= 1 and "penalised" in repr(fit)
        means = fit.base.steps[0].means(fit.rows)
        assert np.isfinite(means).all()
        by_group = pd.Series(means[:, -1]).groupby(df["g"]).mean()
        assert by_group["x"] < by_group["z"] < by_group["y"]


def test_a_variable_that_nothing_predicts_has_donors_all_as_near():
    df = pd.DataFrame({"a": ["x"] * 6 + ["y"] * 4 + ["z"], "b": ["u"] * 10 + ["v"]})
    fit = PMM(["a"], identifying=["b"], threshold=1).fit(df)
    assert "nothing predicts it" in fit.notes[0]
    values = [t["a"].iloc[-1] for t in fit.synthesize(200, random_seed=1).datasets]
    assert set(values) == {"x", "y"}


def _one_by_one(far, count, k, tie):
    """Places of the k nearest, handed out run by run of ties, from the nearest run on."""
    out, left = [Fraction(0)] * len(far), k
    order = sorted((i for i in range(len(far)) if count[i]), key=lambda i: far[i])
    while order and left:
        run = [order.pop(0)]
        while order and far[order[0]] - far[run[-1]] <= tie:
            run.append(order.pop(0))
        size = sum(count[i] for i in run)
        for i in run:
            out[i] = Fraction(count[i] * min(left, size), size)
        left -= min(left, size)
    return [float(x) for x in out]


def test_places_of_the_nearest_are_those_handed_out_one_by_one():
    rng = np.random.default_rng(0)
    for _ in range(300):
        R, D, k = rng.integers(1, 5), rng.integers(1, 9), int(rng.integers(1, 8))
        far = rng.integers(0, 6, (R, D)) * rng.choice([1.0, 0.3, 0.05])
        count = rng.integers(0, 4, (R, D))
        count[:, rng.integers(D)] += 1
        expected = [
            _one_by_one(f.tolist(), [*map(int, n)], k, 0.1) for f, n in zip(far, count, strict=True)
        ]
        found = mechanism._of_nearest(far, count.astype(float), k, 0.1)
        assert np.allclose(found, expected, rtol=1e-12, atol=0)
