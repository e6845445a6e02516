"""Grids of numbers do not decide: one release has one verdict on any reasonable grid."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.reporting.verdicts.verdict import judge
from bayes_risk.risk.grid_check import over_plausible

JUDGED = "probability gained", "guesses"
ABOVE, OPEN, WITHIN = "above your thresholds", "inconclusive", "within your thresholds"


def outcome(fit, release, grid, **how):
    """The worst outcome of the clauses on attributes and guesses."""
    risk = br.attribute_risk(fit, release, guesses={"y": grid}, random_seed=3, **how)
    found = {r.outcome for r in judge(risk, None).reasons if r.measure.startswith(JUDGED)}
    return next(o for o in (ABOVE, OPEN, WITHIN) if o in found)


@cache
def released(family="normal", n=150, spread=0.5, leverage=None, seed=1, scale=1.0, shift=0.0, m=5):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    if leverage is not None:
        x[0] = leverage
    y = scale * (10 + 0.3 * x + spread * rng.normal(size=n) + shift)
    df = pd.DataFrame({"x": x, "y": np.exp(y) if family == "lognormal" else y})
    model = br.models.Regression({"y": "1 + x"}, families={"y": family})
    fit = model.fit(df, draws=20, chains=2, random_seed=1)
    return fit, fit.synthesize(m, random_seed=2)


@pytest.mark.check
@pytest.mark.parametrize("n", [11, 21, 101])
@pytest.mark.parametrize("reach", [3.0, 15.0, 30.0])
def test_a_sound_release_is_within_on_every_fine_grid_and_never_above(reach, n):
    found = outcome(*released(), br.Grid(additive=reach, n=n))
    step = 2 * reach / (n - 1)
    assert found == (WITHIN if step < 0.5 * 1.5 else OPEN)


@pytest.mark.check
@pytest.mark.parametrize(("high", "n"), [(3e5, 11), (3e5, 101), (1e6, 401), (1e7, 11), (1e7, 401)])
def test_nor_do_grids_of_log_normal_amounts(high, n):
    found = outcome(*released("lognormal"), br.Grid(bounds=(1.0, high), n=n, truth="add"))
    assert found != ABOVE
    assert found == WITHIN or high / n > 1e3  # a deviation of small incomes is some 5,000


def test_quantiles_of_a_skewed_predictive_leave_out_no_more_at_the_dense_end():
    """Below the lowest of 11 quantiles lies a 22nd, and the density there is near its largest."""
    fit, release = released("lognormal", n=60, spread=1.2)
    how = {"targets": 5, "random_seed": 3}
    risk = br.attribute_risk(fit, release, guesses={"y": br.Grid(predictive=True)}, **how)
    assert not risk.grid.cut.any() and not risk.grid.coarse.any()
    mode = float(np.median(fit.microdata.codes[:, 1])) / 2
    ends = br.Grid(bounds=(mode, mode * 100), n=401, truth="add")
    assert br.attribute_risk(fit, release, guesses=ends, **how).grid.cut.any()


def test_trees_that_show_amounts_are_above_on_wide_and_narrow_grids():
    rng = np.random.default_rng(2)
    df = pd.DataFrame({"x": rng.normal(size=60), "y": rng.gamma(2.0, 10.0, size=60)})
    fit = br.models.CART(order=["y"], min_leaf=1).fit(df, random_seed=1)
    release = fit.synthesize(3, random_seed=2)
    for reach in (3.0, 100.0, 1000.0):
        risk = br.attribute_risk(fit, release, guesses=br.Grid(additive=reach), random_seed=3)
        assert judge(risk, None).outcome == ABOVE


def test_who_decides_the_slope_is_never_within_on_a_narrow_grid():
    fit, release = released(leverage=80.0)
    for reach in (0.3, 0.1):
        assert outcome(fit, release, br.Grid(additive=reach, n=11)) != WITHIN
        assert outcome(fit, release, br.Grid(additive=reach, n=11), targets=[0]) != WITHIN


def test_plausible_guesses_hold_the_truth_and_the_centre_of_the_predictive():
    fit, release = released()
    kept = br.attribute_evidence(
        fit, release, guesses={"y": br.Grid(additive=8.0, n=401)}, random_seed=3
    )
    grid, truth = kept.grid, kept.cases.guesses.truth
    x, y = (fit.microdata.codes[kept.cases.record, j] for j in (0, 1))
    assert grid.plausible[truth, np.arange(len(truth))].all()
    X = np.column_stack([np.ones(len(x)), x])
    centre = X @ np.linalg.lstsq(X, y, rcond=None)[0]
    sd = (y - centre).std()
    values = kept.cases.guesses.codes[:, :, 0]
    near = np.abs(values - centre) < 3.1 * sd
    far = np.abs(values - centre) > np.maximum(3.6 * sd, np.abs(y - centre) + 0.3 * sd)
    assert near.any() and far.any()
    assert grid.plausible[near].all() and not grid.plausible[far].any()


def test_verdicts_take_the_flat_prior_over_plausible_guesses():
    fit, release = released()
    how = {"guesses": {"y": br.Grid(additive=15.0, n=101)}, "targets": 5, "random_seed": 3}
    risk = br.attribute_risk(fit, release, **how)
    assert np.allclose(risk.log_prior, -np.log(101))  # as it is stated
    kept = over_plausible(risk)
    assert np.isneginf(kept.log_prior).any()
    evidence = risk.log_probability - risk.log_prior
    by_hand = np.where(risk.grid.plausible, evidence, -np.inf)
    by_hand = np.exp(by_hand - by_hand.max(axis=0))
    assert np.allclose(np.exp(kept.log_probability), by_hand / by_hand.sum(axis=0))
    assert np.allclose(np.exp(kept.log_prior).sum(axis=0), 1.0)


# --- one release, one verdict, whatever the grid -------------------------------------------------

EVEN = [br.Grid(additive=reach, n=n) for reach in (1.7, 3.0, 15.0) for n in (11, 21, 101)]
LAID = [br.Grid(predictive=True, n=n) for n in (11, 21, 101)]


def one_verdict(found):
    """Inconclusive apart, all say the same; and not all are inconclusive."""
    return len(set(found) - {OPEN}) == 1


@pytest.mark.check
@pytest.mark.parametrize("leverage", [None, 8.0, 10.0, pytest.param(20.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_grids_differ_in_being_inconclusive_alone(leverage, seed):
    made = released(leverage=leverage, seed=seed)
    found = [outcome(*made, grid) for grid in EVEN + LAID]
    assert one_verdict(found), found
    assert OPEN not in found[-3:]


@pytest.mark.check
@pytest.mark.parametrize("unit", [(1e-3, 0.0), (1.0, -10.0)])
def test_nor_does_the_unit_decide_or_the_place_of_zero(unit):
    """Within 10 % of a number near zero there is nothing."""
    scale, shift = unit
    for leverage, wanted in ((None, WITHIN), (20.0, ABOVE)):
        made = released(leverage=leverage, scale=scale, shift=shift)
        grids = [br.Grid(additive=3.0 * scale, n=101), br.Grid(predictive=True, n=21)]
        assert [outcome(*made, grid) for grid in grids] == [wanted, wanted]


@pytest.mark.check
@pytest.mark.parametrize(("leverage", "wanted"), [(None, WITHIN), (20.0, ABOVE)])
def test_two_numbers_together_and_each_have_one_verdict(leverage, wanted):
    rng = np.random.default_rng(5)
    x = rng.normal(size=120)
    if leverage is not None:
        x[0] = leverage
    y, z = (a + 0.3 * x + 0.5 * rng.normal(size=120) for a in (10, 5))
    model = br.models.Regression(
        {"y": "1 + x", "z": "1 + x"}, families={"y": "normal", "z": "normal"}
    )
    fit = model.fit(pd.DataFrame({"x": x, "y": y, "z": z}), draws=20, chains=2, random_seed=1)
    release = fit.synthesize(3, random_seed=2)
    found = []
    for grid in (br.Grid(additive=3.0, n=13), br.Grid(additive=4.0, n=41), *LAID[:2]):
        risk = br.attribute_risk(fit, release, guesses=grid, targets=list(range(60)), random_seed=3)
        reasons = [r for r in judge(risk, None).reasons if r.measure.startswith(JUDGED)]
        found += [next(o for o in (ABOVE, OPEN, WITHIN) if o in {r.outcome for r in reasons})]
    assert one_verdict(found) and wanted in found, found
