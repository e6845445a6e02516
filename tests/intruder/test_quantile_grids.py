"""Guesses at quantiles of the model's predictive: where they are, what priors mean on them."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br
from bayes_risk._core.logspace import log_sum
from bayes_risk.intruder.quantiles import quantiles
from tests.risk.test_grid_check import released as of_line

OVER = br.Grid(predictive=True, n=21)


released = partial(of_line, n=60, m=3)


def gathered(fit, release, grid, rows, **how):
    kept = br.attribute_evidence(
        fit, release, guesses={"y": grid}, targets=list(rows), random_seed=3, **how
    )
    return kept, kept.cases.guesses.codes[:, kept.case, 0]


def student(fit, i):
    """The predictive of record i without it: Student's t, all other rows together (n - 1)."""
    part, codes = fit.posterior.parts[0].part, fit.microdata.codes
    x, y = codes[:, 0], codes[:, 1]
    scaling, n = part.scaling, len(y)
    X = np.column_stack([np.ones(n), (x - scaling.centre[1]) / scaling.scale[1]])
    z = (y - scaling.at) / scaling.by
    rest = np.arange(n) != i
    shape = np.eye(n) + X @ np.diag([10.0**2, 2.5**2]) @ X.T
    K = np.linalg.inv(shape[np.ix_(rest, rest)])
    centre = shape[i, rest] @ K @ z[rest]
    scale = shape[i, i] - shape[i, rest] @ K @ shape[rest, i]
    df = 2.0 + n - 1
    scale *= (2.0 + z[rest] @ K @ z[rest]) / df
    return stats.t(df, scaling.at + scaling.by * centre, scaling.by * np.sqrt(scale))


# --- where the guesses are -----------------------------------------------------------------------


def test_quantiles_of_a_density_between_points():
    x = np.linspace(-30, 30, 41)[:, None]
    x = np.sort(
        np.concatenate([x, stats.norm(3.0, 0.2).ppf(np.linspace(1e-6, 1 - 1e-6, 60))[:, None]])
    )
    x = np.sort(x, axis=0)
    levels = np.array([0.001, 0.05, 0.5, 0.95, 0.999])
    got = quantiles(levels, x, stats.norm(3.0, 0.2).logpdf(x) + 700.0)
    assert np.allclose(got[:, 0], stats.norm(3.0, 0.2).ppf(levels), atol=0.06)
    line = np.array([[0.0], [1.0], [4.0]])
    log_linear = -2.0 * line  # exponential, exact whatever the points
    assert quantiles(np.array([0.0, 1.0]), line, log_linear)[:, 0] == pytest.approx([0.0, 4.0])
    below = -np.expm1(-2.0) / -np.expm1(-8.0)
    assert quantiles(np.array([below]), line, log_linear)[0, 0] == pytest.approx(1.0)


@pytest.mark.parametrize("leverage", [None, 5.0, 80.0])
def test_guesses_are_quantiles_of_the_closed_form_predictive(leverage):
    fit, release = released(leverage=leverage)
    rows = [0, 1, 2, 3]
    kept, guesses = gathered(fit, release, OVER, rows)
    levels = np.concatenate([[0.0005], (np.arange(19) + 0.5) / 19, [0.9995]])
    for k, i in enumerate(rows):
        expected = student(fit, i)
        own = guesses[:, k] == fit.microdata.codes[i, 1]
        assert own.sum() == 1 and own[kept.cases.guesses.truth[kept.case[k]]]
        apart = np.abs(expected.cdf(guesses[:, k]) - levels)
        assert (apart[~own] < 0.02).all()
        assert (
            apart[own].item() < 0.5 / 19 + 0.02 or own[[0, -1]].any()
        )  # it stands for the nearest


def test_the_grid_follows_the_unit():
    fit, release = released()
    _, guesses = gathered(fit, release, OVER, range(5))
    df = pd.DataFrame(fit.microdata.codes, columns=["x", "y"])
    df["y"] = 1e-6 * df["y"] + 7.0
    model = br.models.Regression({"y": "1 + x"}, families={"y": "normal"})
    other = model.fit(df, draws=20, chains=2, random_seed=1)
    _, small = gathered(other, other.synthesize(3, random_seed=2), OVER, range(5))
    assert np.allclose((small - 7.0) * 1e6, guesses, atol=0.02)


# --- what priors and the posterior mean on it ----------------------------------------------------


def test_the_predictive_prior_is_the_predictive_on_uneven_steps():
    fit, release = released(leverage=5.0)
    kept, guesses = gathered(fit, release, OVER, range(6))
    risk = kept.risk("predictive")
    for k in range(6):
        edges = (guesses[1:, k] + guesses[:-1, k]) / 2
        mass = np.diff(student(fit, k).cdf(np.concatenate([[-np.inf], edges, [np.inf]])))
        got = np.exp(risk.log_prior[:, risk.case[k]])
        assert np.allclose(got[3:-3], mass[3:-3], atol=0.004)
        assert np.allclose(got, mass, atol=0.02)  # the tails have wide cells
        flat = np.exp(kept.risk("uniform").log_prior[:, risk.case[k]])
        assert np.allclose(flat, 1 / 21)  # nearly the predictive: guesses are its quantiles
        assert np.abs(flat[2:-2] - mass[2:-2]).max() < 0.03


def test_listed_values_are_weighed_by_their_width_too():
    fit, release = released()
    y = fit.microdata.codes[0, 1]
    line = np.sort(np.concatenate([y + np.linspace(-3, 3, 61), y + np.linspace(0.003, 0.09, 30)]))
    kept, guesses = gathered(fit, release, br.Grid(values=line.tolist()), [0])
    got = np.exp(kept.risk("predictive").log_prior[:, 0])
    near = (guesses[:, 0] > y + 0.002) & (guesses[:, 0] < y + 0.091)
    expected = student(fit, 0)
    want = expected.cdf(y + 0.095) - expected.cdf(y + 0.0015)
    assert got[near].sum() == pytest.approx(want, rel=0.05)


@pytest.mark.parametrize(
    "grid", [OVER, br.Grid(predictive=True, n=401), br.Grid(additive=8.0, n=801)]
)
def test_the_posterior_approaches_the_ratio_of_densities(grid):
    """p(y* | y_-i) prod_l p(Z_l | y*, y_-i), integrated on a fine line: an oracle of its own."""
    fit, release = released(leverage=5.0, m=2)
    kept, guesses = gathered(fit, release, grid, [0, 1, 2])
    fine, line = gathered(fit, release, br.Grid(additive=12.0, n=4001), [0, 1, 2])
    evidence = fine.found.log_evidence.sum(axis=0)
    for k, i in enumerate((0, 1, 2)):
        u, v = kept.case[k], fine.case[k]
        log_p = student(fit, i).logpdf(line[:, k]) + evidence[:, v]
        p = np.exp(log_p - log_sum(log_p[:, None])[0])
        got = np.exp(kept.risk("predictive").log_probability[:, u])
        mean, sd = p @ line[:, k], np.sqrt(p @ (line[:, k] - p @ line[:, k]) ** 2)
        coarse = 0.12 if len(got) < 30 else 0.01
        assert got @ guesses[:, k] == pytest.approx(mean, abs=coarse * sd)
        median = guesses[np.searchsorted(np.cumsum(got), 0.5), k]
        step = np.diff(guesses[:, k]).min() + 2 * coarse * sd
        assert median == pytest.approx(line[np.searchsorted(np.cumsum(p), 0.5), k], abs=step)


def test_a_value_far_from_all_others_is_a_guess_and_widens_no_other():
    rng = np.random.default_rng(2)
    df = pd.DataFrame({"x": rng.normal(size=60)})
    df["y"] = df["x"] + rng.normal(size=60)
    df.loc[0, "y"] = 1e4
    model = br.models.Regression({"y": "1 + x"}, families={"y": "normal"})
    fit = model.fit(df, draws=20, chains=2, random_seed=1)
    kept, guesses = gathered(fit, fit.synthesize(2, random_seed=2), OVER, [0])
    assert guesses[-1, 0] == 1e4 and not (kept.grid.cut | kept.grid.coarse).any()
    p = np.exp(kept.risk("predictive").log_prior[:, 0])
    assert p[-1] < 1e-12 and p[1:-2].max() < 0.08


def test_many_numbers_have_as_many_guesses_as_can_be_combined():
    rng = np.random.default_rng(3)
    df = pd.DataFrame(rng.normal(size=(60, 6)), columns=list("abcdex"))
    model = br.models.Regression(dict.fromkeys("abcde", "1 + x"), dict.fromkeys("abcde", "normal"))
    fit = model.fit(df, draws=20, chains=2, random_seed=1)
    kept = br.attribute_evidence(fit, fit.synthesize(2, random_seed=2), targets=[0], random_seed=3)
    assert kept.cases.guesses.finer is None and kept.cases.guesses.counted.sum() == 7**5
    assert not (kept.grid.cut | kept.grid.coarse).any()


# --- models, joint guesses, whole and missing numbers --------------------------------------------


def amounts(n=80, seed=4):
    rng = np.random.default_rng(seed)
    job = rng.integers(3, size=n)
    pay = np.exp(2 + 0.5 * job + 0.4 * rng.normal(size=n))
    return pd.DataFrame(
        {"job": pd.Categorical(list("abc"))[job], "kids": rng.poisson(1 + job), "pay": pay}
    )


def of_model(kind, df):
    if kind == "CART":
        fit = br.models.CART(order=["pay", "kids"], min_leaf=10).fit(df, random_seed=1)
    elif kind == "Regression":
        model = br.models.Regression({"pay": "1 + job"}, families={"pay": "lognormal"})
        fit = model.fit(df[["job", "pay"]], draws=20, chains=2, random_seed=1)
    else:
        families = {"pay": "lognormal", "kids": "count"}
        model = br.models.Mixture(families=families, n_classes=12)
        fit = model.fit(df, draws=30, tune=30, chains=2, random_seed=1)
    return fit, fit.synthesize(
        2, columns=[c for c in ("pay", "kids") if c in fit.microdata.columns], random_seed=2
    )


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
@pytest.mark.parametrize("kind", ["CART", "Regression", "Mixture"])
def test_numbers_need_no_bounds(kind):
    fit, release = of_model(kind, amounts())
    kept = br.attribute_evidence(fit, release, targets=range(8), random_seed=3)
    guesses, names = kept.cases.guesses, [v.name for v in kept.risk(warn=False).variables]
    own = guesses.codes[guesses.truth, np.arange(len(kept.cases))]
    assert np.array_equal(own, kept.cases.profiles[:, kept.cases.columns])
    assert not (kept.grid.cut | kept.grid.coarse).any()
    for q, variable in enumerate(kept.risk(warn=False).variables):
        name = variable.name
        values = guesses.codes[:, :, q]
        assert (values >= variable.lowest).all() and (
            name != "kids" or (values == np.round(values)).all()
        )
    assert f"{names[0]}: 11 values at quantiles" in kept.words["guesses"]
    p = np.exp(kept.risk("predictive", warn=False).log_prior)
    assert (
        np.allclose(p.sum(axis=0), 1.0) and np.isfinite(kept.risk(warn=False).log_probability).any()
    )


def test_names_of_grids_stand_for_them():
    said = br.JointGrid({"pay": "predictive", "job": br.Levels()})
    assert said.grids == {"pay": br.Grid(predictive=True), "job": br.Levels()}


def test_missing_numbers_are_one_more_guess():
    df = amounts()
    df.loc[::5, "pay"] = np.nan
    model = br.models.Mixture(families={"pay": "lognormal"}, n_classes=12)
    how = {"missing_numbers": {"pay": -9.0}}
    fit = model.fit(df[["job", "pay"]], **how, draws=30, tune=30, chains=2, random_seed=1)
    release = fit.synthesize(2, columns=["pay"], random_seed=2)
    kept = br.attribute_evidence(fit, release, targets=range(10), random_seed=3)
    codes = kept.cases.guesses.codes[:, :, 0]
    assert ((codes == -9.0).sum(axis=0) >= 1).all()
    p = np.exp(kept.risk("predictive", warn=False).log_prior)
    missing = np.where(codes == -9.0, p, 0.0).sum(axis=0)[kept.case]
    assert (np.abs(missing - 0.2) < 0.15).all()


def test_evidence_without_a_predictive_says_what_to_give():
    fit, release = of_model("Mixture", amounts())
    with pytest.raises(br.InputError, match="give each number a grid"):
        br.attribute_risk(fit, release, evidence="importance", random_seed=1)


@pytest.mark.parametrize("dtype", [int, float])
def test_guesses_are_multiples_of_the_step_of_their_column(dtype):
    """So that the prior of a value that all records of a leaf have is not spread about it."""
    rng, n = np.random.default_rng(3), 300
    job = rng.choice(["retired", "employed"], n)
    pension = np.where(job == "retired", 2000 * rng.integers(1, 9, n), 0).astype(dtype)
    df = pd.DataFrame({"job": job, "pension": pension})
    fit = br.models.CART(["pension"], min_leaf=20).fit(df, random_seed=1)
    release = fit.synthesize(2, random_seed=2)
    risk = br.attribute_risk(fit, release, guesses={"pension": OVER}, targets=60, random_seed=3)
    counted = np.isfinite(risk.log_prior)
    assert (risk.guesses[..., 0][counted] % 2000 == 0).all() and counted.sum(axis=0).min() > 1
    alone = job[risk.index] == "employed"
    table = risk.records.assign(alone=alone)
    assert 5 < alone.sum() < 55
    assert table.loc[alone, "prior_predictive"].min() > 0.95
    assert table.loc[alone, "probability_predictive"].min() > 0.95
    assert table.loc[~alone, "prior_predictive"].max() < 0.5
