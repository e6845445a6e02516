"""Mixtures of categories, counts and amounts: against enumeration, closed forms, and bad input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br
from bayes_risk.data.record_weights import SurveyWeights
from bayes_risk.models.mixture.families import fill_log_masses
from bayes_risk.models.mixture.kernel_arguments import FamilyLayout
from bayes_risk.models.mixture.state import Rows
from tests.helpers.against import agree, each
from tests.oracles.mixture_oracle import (
    given_kept,
    log_evidence,
    log_marginal_of,
    log_predictive,
)

CONCENTRATION = (1.0, 1.0)
FAMILIES = {"c": "category", "x": "count", "t": "normal"}
PRIOR = (0.0, 0.5, 2.0, 1.0)
COLUMNS = [("category", 2, 0.8), ("count", 1.0, 0.5, None), ("normal", *PRIOR)]
Y = [(0, 1, -0.3), (1, 4, 1.2), (1, 0, 0.4)]
Z = [(1, 2, 0.1), (0, 0, 0.9), (1, 3, -0.6)]
WEIGHTS = np.array([1.75, 0.25, 1.0])  # survey weights of mean 1
GUESSES = {
    "c": br.Levels(),
    "x": br.Grid(values=[0, 1, 2, 4], truth="add"),
    "t": br.Grid(values=[-1.0, 0.5, 2.0], truth="add"),
}


def table(rows):
    return pd.DataFrame(rows, columns=["c", "x", "t"]).astype({"c": int, "x": int, "t": float})


def model(K=2, **options):
    how = {
        "families": FAMILIES,
        "n_classes": K,
        "concentration_prior": CONCENTRATION,
        "level_prior": 0.8,
        "rate_prior": (1.0, 0.5),
        "normal_prior": PRIOR,
        "scales": {"t": (0.0, 1.0)},
    }
    return br.models.Mixture(**(how | options))


def fitted(declared, rows=Y, **options):
    settings = {"draws": 1000, "tune": 200, "chains": 4, "thin": 3, "random_seed": 5} | options
    how = {"levels": {"c": [0, 1]}, "releases": [table(Z)]}
    if declared.n_classes == 1:
        return declared.fit(table(rows), **how, **settings)
    with pytest.warns(br.TruncationWarning):
        return declared.fit(table(rows), **how, **settings)


@pytest.fixture(scope="module")
def weighted():
    return fitted(model(), weights=SurveyWeights(WEIGHTS))


def compared(fit, K, *, own=False, weights=None, **how):
    """The log evidence against enumeration: gaps and errors."""
    release = br.Release(
        datasets=[table(Z)], synthesized=list("cxt"), classes="own" if own else "new"
    )
    risk = br.attribute_risk(fit, release, guesses=GUESSES, random_seed=7)

    def exact(i, guess):
        return log_evidence(Y, Z, i, guess, COLUMNS, K, CONCENTRATION, own=own, weights=weights)

    return agree(risk, each(exact), **how)


def test_the_oracle_itself():
    """A count alone is a negative binomial; an amount alone a Student t."""
    from scipy.stats import t as student

    found = log_marginal_of(("count", 1.5, 0.7, None), [3], [1])
    assert found == pytest.approx(log_predictive(3, 1.5, 0.7), abs=1e-12)
    m, kappa, a, b = 0.3, 0.5, 2.0, 1.5
    scale = np.sqrt(b * (kappa + 1) / (a * kappa))
    exact = student(2 * a, m, scale).logpdf(1.1)
    assert log_marginal_of(("normal", m, kappa, a, b), [1.1], [1]) == pytest.approx(
        exact, abs=1e-12
    )


@pytest.mark.parametrize("own", [False, True])
def test_one_class_is_exact(own):
    gap, error = compared(fitted(model(1), draws=10), 1, own=own)
    assert max(np.abs(gap).max(), error.max()) < 1e-6


def test_one_class_with_weights_is_exact():
    fit = fitted(model(1), draws=10, weights=SurveyWeights(WEIGHTS))
    gap, _ = compared(fit, 1, weights=WEIGHTS, floor=1e-3)
    assert np.abs(gap).max() < 1e-6


def test_a_log_normal_amount_is_normal_on_its_scale():
    """The log of an amount, and its Jacobian: the evidence knows neither unit nor logarithm."""
    rows = [(c, x, np.exp(2.0 * t + 1.0)) for c, x, t in Y]
    released = [(c, x, np.exp(2.0 * t + 1.0)) for c, x, t in Z]
    declared = model(
        1, families=FAMILIES | {"t": "lognormal"}, scales={"t": (1.0, 2.0)}, rounded={}
    )
    fit = fitted(declared, rows, draws=10)
    release = br.Release(datasets=[table(released)], synthesized=list("cxt"))
    values = [float(np.exp(2.0 * t + 1.0)) for t in (-1.0, 0.5, 2.0)]
    grids = GUESSES | {"t": br.Grid(values=values, truth="add")}
    risk = br.attribute_risk(fit, release, guesses=grids, random_seed=7)
    plain = br.attribute_risk(
        fitted(model(1), draws=10),
        br.Release(datasets=[table(Z)], synthesized=list("cxt")),
        guesses=GUESSES,
        random_seed=7,
    )
    np.testing.assert_allclose(risk.log_evidence, plain.log_evidence, atol=1e-6)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.slow
def test_two_classes_against_enumeration(own):
    _, error = compared(fitted(model()), 2, own=own, floor=1e-3, most=4.5)
    assert np.median(error) < 0.1


@pytest.mark.slow
def test_two_classes_with_weights_against_enumeration(weighted):
    compared(weighted, 2, weights=WEIGHTS, floor=1e-3, most=4.5)


@pytest.mark.check
@pytest.mark.parametrize(
    "kept", [[0, 2], *(pytest.param([j], marks=pytest.mark.slow) for j in range(3))]
)
def test_weights_beside_kept_columns_against_simulation(weighted, kept):
    """A record's power is of its own values; rows drawn given what stays have none."""
    made = [j for j in range(3) if j not in kept]
    z = [
        tuple(row[j] if j in kept else s[j] for j in range(3)) for row, s in zip(Y, Z, strict=True)
    ]
    names = ["cxt"[j] for j in made]
    release = br.Release(datasets=[table(z)], synthesized=names)
    grids = {name: GUESSES[name] for name in names}
    risk = br.attribute_risk(weighted, release, guesses=grids, random_seed=7)
    scores, without, rng = [], [], np.random.default_rng(3)
    for i, row in enumerate(Y):
        u, guesses = risk.case[i], [row]
        for code in risk.guesses[::3, u]:
            guess = list(row)
            for j, x in zip(made, code, strict=True):
                guess[j] = x
            guesses.append(tuple(guess))
        args = Y, z, i, guesses, COLUMNS, 2, CONCENTRATION
        exact, spread = given_kept(rng, *args, kept=kept, weights=WEIGHTS)
        plain, _ = given_kept(rng, *args, kept=kept, weights=np.ones(3))
        error = np.hypot(np.hypot(risk.mcse_log_evidence[::3, u], spread[1:]), 1e-3)
        scores.append((risk.log_evidence.sum(axis=0)[::3, u] - exact[1:]) / error)
        without.append((plain - exact)[1:] / error)
    assert np.abs(np.concatenate(scores)).max() < 4.5
    assert np.abs(np.concatenate(without)).max() > 10  # records that count in full would be seen


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.slow
def test_structural_zeros_of_counts_against_enumeration(own):
    columns = [COLUMNS[0], ("count", 1.0, 0.5, (1.0, 2.0)), COLUMNS[2]]
    found, exact, error = compared(fitted(model(zeros=(1.0, 2.0))), columns, 2, own=own)
    assert np.abs((found - exact) / np.hypot(error, 1e-3)).max() < 4.5


def test_missing_amounts_are_guessed_like_a_level():
    """A point mass: whether the amount is missing is a variable, of which the rest says nothing."""
    rows = [(0, 1, -9.0), (1, 4, 1.2), (1, 0, 0.4)]
    declared = model(1)
    fit = declared.fit(
        table(rows),
        draws=10,
        tune=10,
        chains=2,
        missing_numbers={"t": -9.0},
        levels={"c": [0, 1]},
        random_seed=1,
    )
    release = br.Release(datasets=[table(Z)], synthesized=list("cxt"))
    grids = GUESSES | {"t": br.Grid(values=[-9.0, 0.5], truth="add")}
    risk = br.attribute_risk(fit, release, guesses=grids, random_seed=7)
    columns = [*COLUMNS, ("category", 2, 0.8)]

    def seen(row):
        gone = row[2] == -9.0
        return (row[0], row[1], np.nan if gone else row[2], int(gone))

    y, z = [seen(r) for r in rows], [seen(r) for r in Z]
    for i in range(3):
        u = risk.case[i]
        logs = risk.log_evidence.sum(axis=0)[:, u]
        exact = [
            log_evidence(y, z, i, seen(g), columns, 1, CONCENTRATION)
            - log_evidence(y, z, i, y[i], columns, 1, CONCENTRATION)
            for g in risk.guesses[:, u]
        ]
        np.testing.assert_allclose(logs, exact, atol=1e-6)
    made = pd.concat(fit.synthesize(10, random_seed=2).datasets)["t"]
    assert (made.isna() | (made == -9.0)).any() and (made > -9.0).any()


def test_kept_columns_against_a_refit():
    """Classes drawn given a category and a count that stay: reused draws agree with refits."""
    rng = np.random.default_rng(4)
    k = rng.integers(0, 2, 40)
    rows = np.column_stack([rng.random(40) < 0.2 + 0.6 * k, rng.poisson(2 + 6 * k), rng.normal(k)])
    fit = model(9).fit(table(rows), draws=400, tune=300, chains=3, thin=3, random_seed=1)
    release = fit.synthesize(1, ["t"], random_seed=2, parameters="independent")
    assert (release.datasets[0][["c", "x"]].to_numpy() == rows[:, :2]).all()
    grids = {"t": br.Grid(additive=1.5, n=3)}
    how = {"guesses": grids, "targets": [0, 1, 2], "random_seed": 3}
    found = [
        br.attribute_risk(fit, release, evidence=way, **how) for way in ("predictive", "refit")
    ]
    gap = found[0].log_evidence.sum(axis=0) - found[1].log_evidence.sum(axis=0)
    error = np.hypot(found[0].mcse_log_evidence, found[1].mcse_log_evidence)
    assert np.abs(gap / np.hypot(error, 0.01)).max() < 4.5


@pytest.mark.check
def test_rounding_leaves_a_lognormal_amount_its_logarithm():
    """A step wider than the amounts: the least released value is one step, and can be audited."""
    rng = np.random.default_rng(3)
    df = pd.DataFrame({"sex": rng.integers(0, 2, 60), "pay": np.exp(rng.normal(0.0, 1.0, 60))})
    df["size"] = rng.choice([0.5, 1.0, 2.0], 60)
    df["visits"] = rng.poisson(3 * df["size"])
    model = br.models.Mixture(
        families={"pay": "lognormal", "visits": "count"},
        exposure="size",
        rounded={"pay": 5.0},
        n_classes=6,
    )
    fit = model.fit(df, draws=40, tune=40, chains=2, random_seed=1)
    release = fit.synthesize(2, random_seed=2)
    made = pd.concat(release.datasets)
    assert made["pay"].min() == 5.0 and (made["pay"] % 5 == 0).all()
    assert (made["size"].to_numpy() == np.tile(df["size"], 2)).all()
    grids = {"pay": br.Grid(values=[1.0, 5.0], truth="add"), "visits": br.Grid(additive=1, n=3)}
    how = {"guesses": grids, "targets": [0, 1], "random_seed": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
        for knows in ("all-but-target", 0.5):
            intruder = br.Intruder(knows_records=knows)
            risk = br.attribute_risk(fit, release, intruder=intruder, **how)
            assert risk.records["probability"].between(0, 1).all()
            assert (risk.records["mcse"] > 0).all()


def test_rounded_amounts_may_be_negative():
    """They were released as 0."""
    df = pd.DataFrame({"sex": [0, 1] * 20, "gain": np.arange(-50, -10)})
    fit = br.models.Mixture(families={"gain": "normal"}, n_classes=2).fit(df, sample=False)
    (made,) = fit.synthesize(1, random_seed=2).datasets
    assert made["gain"].max() < 0 and (made["gain"] == made["gain"].round()).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"families": {"t": "gaussian"}}, "families\\['t'\\]='gaussian'"),
        (
            {"families": FAMILIES | {"t": "count"}, "scales": {}},
            "column 't' is fractional|negative",
        ),
        ({"families": FAMILIES | {"t": "lognormal"}}, "column 't' is not positive for 1 of 3"),
        ({"families": FAMILIES | {"u": "count"}}, "'u'"),
        ({"rounded": {"x": 1.0}}, "rounded"),
        ({"normal_prior": (0.0, 0.0, 1.0, 1.0)}, "normal_prior"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    with pytest.raises(br.InputError, match=message):
        model(**change).fit(table(Y), draws=8, tune=0, chains=1)


@pytest.mark.parametrize("inflated", [False, True])
@pytest.mark.parametrize(("q", "p", "r"), [(0, 1, 0), (1, 0, 1), (3, 2, 3), (4, 3, 2), (6, 1, 2)])
def test_log_masses_of_rows_are_those_of_scipy(q, p, r, inflated):
    rng, U, K, d = np.random.default_rng(q + 10 * p), 40, 5, 3
    D = 2 * p + 2 * r + q * d
    pi, phi = rng.dirichlet(np.ones(K)), np.ones((D + 1, K))
    phi[:p], phi[p : 2 * p] = rng.gamma(2.0, 3.0, (p, K)), inflated * rng.random((p, K))
    phi[2 * p : 2 * p + r], phi[2 * p + r : 2 * p + 2 * r] = rng.normal(size=(2, r, K)) ** [
        [[1]],
        [[2]],
    ]
    phi[2 * p + 2 * r : D] = rng.dirichlet(np.ones(d), (q, K)).swapaxes(1, 2).reshape(q * d, K)
    told = rng.random((U, q)) < 0.8  # the padding row, exposure 0 and NaN say nothing
    level = rng.integers(0, d, (U, q))
    positions = np.where(told, 2 * p + 2 * r + d * np.arange(q) + level, D).astype(np.int32)
    exposure = rng.choice([0.0, 1.0, 2.5], (U, p))
    counts = np.where(exposure > 0, rng.choice([0.0, 3.0, 20.0, 2.0**22], (U, p)), 0.0)
    reals = np.where(rng.random((U, r)) < 0.8, rng.normal(size=(U, r)), np.nan)
    starts = 2 * p + 2 * r + d * np.arange(q + 1)
    layout = FamilyLayout(starts, 1.0, *np.ones((2, p)), inflated, np.ones(2), np.ones((r, 4)))
    out, terms = np.empty((1, U)), np.log(pi) * np.ones((U, 1))
    fill_log_masses(Rows(positions, counts, exposure, reals), pi[None], phi[None], layout, out)
    for j in range(p):
        e, x = exposure[:, j, None], counts[:, j, None]
        mass = (1 - phi[p + j]) * stats.poisson.pmf(x, e * phi[j]) + phi[p + j] * (x == 0)
        logs = np.log1p(-phi[p + j]) + stats.poisson.logpmf(x, e * phi[j])
        terms += np.where(e == 0, 0.0, np.where(x == 0, np.log(np.maximum(mass, 1e-300)), logs))
    for j in range(r):
        x, sd = reals[:, j, None], 1 / np.sqrt(phi[2 * p + r + j])
        terms += np.nan_to_num(stats.norm.logpdf(x, phi[2 * p + j], sd), nan=0.0)
    terms += np.log(phi[positions]).sum(axis=1)
    exact = np.logaddexp.reduce(terms, axis=1)
    np.testing.assert_allclose(out[0], exact, rtol=1e-10, atol=1e-9)
