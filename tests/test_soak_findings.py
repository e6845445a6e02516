"""What random studies have found (``make soak``), each as small as it could be made."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br

SCALE = [1e300, -1e300, 1e31, 5e-320, 1e-120]


def numbers(n=20, factor=1.0):
    rng = np.random.default_rng(1)
    return pd.DataFrame({"x": factor * (1 + rng.random(n)), "y": rng.normal(size=n)})


# --- numbers beyond what squares and single precision can hold --------------------------------


@pytest.mark.parametrize("factor", SCALE)
@pytest.mark.parametrize(
    "model",
    [
        br.models.Regression({"x": "1 + y"}),
        br.models.CART(["y"]),
        br.models.PMM(["y"], identifying=["y"], cuts={"y": [0.0]}, threshold=10),
    ],
    ids=lambda model: type(model).__name__,
)
def test_numbers_too_large_or_too_small_are_named(model, factor):
    with pytest.raises(br.InputError, match="'x' of the original has 20 numbers .* power of ten"):
        model.fit(numbers(factor=factor))


@pytest.mark.parametrize("factor", SCALE)
def test_utility_names_them_too(factor):
    table = numbers(30, factor)
    with pytest.raises(br.InputError, match="'x' of the original has 30 numbers"):
        br.utility(table, table[::-1].reset_index(drop=True), numbers=["x"], permutations=2)


def test_guesses_beyond_reason_are_named():
    model = br.models.Regression({"x": "1"})
    fit = model.fit(numbers(), draws=8, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    with pytest.raises(br.InputError, match="'x' of the guesses has .* above 1e\\+30"):
        br.attribute_risk(fit, release, guesses={"x": br.Grid(additive=1e300, n=3)})


def test_correlation_of_tiny_numbers_is_that_of_the_same_numbers_in_another_unit():
    """Squares of 1e-90 are 1e-180, their products of squares nothing."""
    table = numbers(60)
    release = table.assign(y=table["y"].to_numpy()[::-1])
    found = [
        br.utility(factor * table, factor * release, permutations=2, random_seed=1)
        .pairs["correlation_original"]
        .iloc[0]
        for factor in (1.0, 1e-90)
    ]
    expected = stats.pearsonr(table["x"], table["y"])[0]
    assert np.allclose(found, expected, rtol=1e-9)


# --- priors, privacy loss ----------------------------------------------------------------------


def test_an_interval_that_holds_every_guess_is_the_uniform_prior():
    model = br.models.Regression({"x": "1"})
    fit = model.fit(numbers(), draws=8, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    how = {"guesses": {"x": br.Grid(bounds=(0.0, 4.0), n=5, truth="nearest")}, "random_seed": 3}
    inside = br.attribute_risk(fit, release, prior=br.Interval(-9, 9, 0.5), **how)
    prior = np.exp(inside.log_prior)
    assert np.allclose(prior.sum(axis=0), 1)
    assert np.allclose(prior, 1 / 5)  # guesses are alike far, at the ends too


def test_privacy_loss_without_a_possible_guess_is_refused_as_the_risk_is():
    """The nearest guess stands for the truth, and no leaf can have given the release by any."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"x": rng.normal(size=40), "z": rng.choice(["a", "b"], 40)})
    fit = br.models.CART(["x"], min_leaf=2, bootstrap="none").fit(table, random_seed=1)
    release = fit.synthesize(m=3, random_seed=2)
    guesses = {"x": br.Grid(values=[100.0, 200.0], truth="nearest")}
    evidence = br.attribute_evidence(fit, release, guesses=guesses, random_seed=3)
    for question in (lambda: evidence.risk("uniform"), lambda: br.privacy_loss(evidence)):
        with pytest.raises(br.InputError, match="the truth is not among them"):
            question()


# --- models --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [br.models.CART, br.models.Forest], ids=["CART", "Forest"])
def test_nearly_as_many_levels_as_records_bring_no_warning(make):
    """Scikit-learn advises a regression then, which is nothing for categories."""
    table = pd.DataFrame({"x": [f"v{k // 2}" if k < 8 else f"w{k}" for k in range(30)]})
    table["z"] = ["a", "b"] * 15
    release = make(["x"]).fit(table, random_seed=1).synthesize(m=1, random_seed=2)
    assert release.m == 1


def test_a_perfect_smooth_fit_gives_way_to_least_squares():
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"x": np.repeat(np.arange(15.0), 4), "z": rng.choice(["a", "b"], 60)})
    table["y"] = 2.0 * table["x"]
    fit = br.models.PMM(["y"], identifying=["x", "z"], threshold=1).fit(table)
    assert any("least squares" in note for note in fit.notes)
    assert np.isfinite(fit.synthesize(m=1, random_seed=1).datasets[0]["y"]).all()


# --- messages ------------------------------------------------------------------------------------


def test_messages_stay_short_whatever_columns_are_called():
    table = pd.DataFrame({"x" * 200_000: [1, 2], "y": [1, 2]})
    with pytest.raises(br.InputError, match="z") as caught:
        br.identification_risk(table, table, known=["z"], synthesized=["y"])
    assert len(str(caught.value)) <= 2_000
