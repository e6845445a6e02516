"""Intruders who know some records, regressions: closed forms, quadrature, limits, errors."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import bayes_risk as br
from tests.helpers.against import agree, gaps
from tests.helpers.fits import encoded, offered
from tests.oracles import weaker_oracle as by_hand
from tests.oracles.regression_oracle import (
    Normal,
    columns_of,
    guess_values,
    standardized,
    with_values,
)

pytestmark = pytest.mark.check

Regression, Prior = br.models.Regression, br.models.RegressionPrior
ROUNDING = 1e-9
N = 12
KNOWS = {
    "none": np.zeros(N, dtype=bool),
    "half": np.arange(N) % 2 == 1,
    "all but two": ~np.isin(np.arange(N), [2, 5]),
}


def table(n=N, seed=1):
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 70, n)
    income = np.exp(0.02 * age + 0.3 * rng.standard_normal(n)) + 1
    spend = 0.5 * income + 0.02 * age + 0.4 * rng.standard_normal(n)
    return pd.DataFrame({"age": age, "income": income, "spend": spend})


def intruder(known):
    return br.Intruder(knows_records=known if np.any(known) else "none")


def audit(fit, release, known, grids, **options):
    how = {"random_seed": 4, "intruder": intruder(known)} | options
    return br.attribute_risk(fit, release, guesses=grids, **how)


# --- one release: the known rows' design, the others' synthetic rows ------------------------------


def one(c):
    return np.ones(len(c["age"]))


SEQUENCES = {
    "income": [("income", "1 + age", lambda c: np.column_stack([one(c), c["age"]]))],
    "both": [
        ("income", "1 + age", lambda c: np.column_stack([one(c), c["age"]])),
        (
            "spend",
            "1 + log(income) + age",
            lambda c: np.column_stack([one(c), np.log(c["income"]), c["age"]]),
        ),
    ],
}


def parts_of(name, family):
    return [
        Normal(column, X, log=family == "lognormal" and column == "income")
        for column, _, X in SEQUENCES[name]
    ]


def one_release(parts, df, Z, known, i, values):
    """sum over regressions of log p(Z, y*, y_A) - log p(y*, y_A)."""
    seen = known | (np.arange(len(df)) == i)
    guessed = with_values(columns_of(df), i, values)
    rows = {name: v[seen] for name, v in guessed.items()}
    return sum(
        part.log_marginal(columns_of(df), rows, columns_of(Z))
        - part.log_marginal(columns_of(df), rows)
        for part in parts
    )


@pytest.mark.parametrize("family", ["normal", "lognormal"])
@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("knows", KNOWS)
def test_one_release_is_the_closed_form(knows, sequence, family):
    df, known = table(), KNOWS[knows]
    model = Regression({c: f for c, f, _ in SEQUENCES[sequence]}, {"income": family})
    fit = model.fit(df, draws=4, chains=1, random_seed=2)
    release = fit.synthesize(1, random_seed=3)
    grids = {c: br.Grid(percent=20, n=3) for c in release.synthesized}
    risk = audit(fit, release, known, grids, targets=[0, 1, 2])
    assert offered(fit, release, knows_records="none") == {"exact", "predictive"}
    parts, Z = parts_of(sequence, family), release.datasets[0]

    def exact(i, _):
        guesses = guess_values(risk, risk.case[risk.position(i)])
        return [one_release(parts, df, Z, known, i, g) for g in guesses]

    gap, _ = gaps(risk, exact)
    assert np.abs(gap).max() < 1e-8 and (risk.mcse == 0).all()


def test_draws_agree_with_the_closed_form():
    """Predictives of targets that are known, and of targets that are not."""
    df, known = table(40), np.arange(40) < 20
    fit = Regression({"income": "1 + age"}).fit(df, draws=200, chains=10, random_seed=2)
    release = fit.synthesize(1, random_seed=3)
    options = {"targets": [0, 1, 30, 31]}
    grid = br.Grid(additive=0.8, n=5)
    exact = audit(fit, release, known, grid, **options)
    found = audit(fit, release, known, grid, evidence="predictive", **options)
    assert (found.khat[found.case[2:]] == 0).all() and (found.khat[found.case[:2]] > 0).any()
    agree(found, lambda i, _: exact.log_evidence[0, :, exact.case[exact.position(i)]], most=4.5)


def test_records_that_were_not_replaced_are_known_to_everybody():
    df, replaced = table(), np.arange(N) % 3 != 1
    fit = Regression({"income": "1 + age"}).fit(df, draws=4, chains=1, random_seed=2)
    release = fit.synthesize(1, records=replaced, random_seed=3)
    grid = br.Grid(percent=20, n=3)
    nobody = audit(fit, release, KNOWS["none"], grid)
    those = audit(fit, release, ~replaced, grid)
    assert np.allclose(nobody.log_evidence, those.log_evidence, atol=ROUNDING)


def test_what_is_known_of_an_unchanged_target_leaves_its_own_value_out():
    df, replaced = table(), np.arange(N) % 3 != 1
    fit = Regression({"income": "1 + age"}).fit(df, draws=20, chains=2, random_seed=2)
    release = fit.synthesize(1, records=replaced, random_seed=3)
    how = {"grids": br.Grid(percent=20, n=3), "evidence": "predictive", "refit_budget": 0}
    how |= {"targets": list(range(N)), "prior": "predictive"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
        nobody = audit(fit, release, KNOWS["none"], **how)
        those = audit(fit, release, ~replaced, **how)
    assert np.array_equal(nobody.records["prior"], those.records["prior"])


def test_strangers_values_are_nowhere_looked_at():
    """But in the centres and scales, which the intruder is assumed to know."""
    df, known = table(), KNOWS["half"]
    fit = Regression({"income": "1 + age", "spend": "1 + income"}).fit(
        df, draws=30, chains=1, random_seed=2
    )
    release = fit.synthesize(2, random_seed=3)
    codes = fit.microdata.codes.copy()
    codes[~known, 1:] += 0.3
    codes[0] = fit.microdata.codes[0]
    changed = replace(fit, microdata=replace(fit.microdata, codes=codes))
    grids = {c: br.Grid(percent=20, n=3) for c in release.synthesized}
    for evidence in ("independent-releases", "imputed"):
        options = {"evidence": evidence, "targets": [0, 1]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
            found = [audit(f, release, known, grids, **options) for f in (fit, changed)]
        assert found[0].log_evidence.tobytes() == found[1].log_evidence.tobytes()


# --- several releases: the unknown rows imputed ---------------------------------------------------


def on_scale(df):
    """Standardised design of 1 + age, and what standardises income."""
    age, y = df["age"].to_numpy(), df["income"].to_numpy()
    X = np.column_stack([np.ones(len(df)), (age - age.mean()) / age.std()])
    return X, lambda v: (np.asarray(v) - y.mean()) / y.std()


@pytest.mark.parametrize(
    ("known", "m"),
    [
        ((0, 0, 0, 1, 1), 2),
        ((1, 0, 0, 1, 1), 3),
        pytest.param((0, 0, 0, 1, 1), 3, marks=pytest.mark.check),
        pytest.param((1, 0, 0, 1, 1), 2, marks=pytest.mark.check),
        pytest.param((0, 0, 1, 1, 1), 2, marks=pytest.mark.check),
        pytest.param((0, 0, 1, 1, 1), 3, marks=pytest.mark.check),
    ],
    ids=str,
)
def test_imputation_against_quadrature(known, m):
    """Up to two unknown rows besides the target, who is known or not; sigma unknown."""
    df, known = table(5, seed=3), np.array(known, dtype=bool)
    fit = Regression({"income": "1 + age"}).fit(df, draws=200, chains=4, random_seed=1)
    release = fit.synthesize(m, random_seed=2)
    X, inside = on_scale(df)
    z = [inside(Z["income"]) for Z in release.datasets]
    oracle = by_hand.OneRegression(X, inside(df["income"]), z, [10.0, 2.5])
    risk = audit(fit, release, known, br.Grid(percent=30, n=5), targets=[0])
    exact = lambda _, guesses: oracle.log_evidence(0, inside(guesses[:, 0]), known, n=81)  # noqa: E731
    _, error = agree(risk, exact, most=5)
    assert error.max() < 0.15


@pytest.mark.parametrize(
    ("knows", "m"),
    [
        ("none", 2),
        ("half", 5),
        ("all but two", 2),
        pytest.param("none", 5, marks=pytest.mark.check),
        pytest.param("half", 2, marks=pytest.mark.check),
        pytest.param("all but two", 5, marks=pytest.mark.check),
    ],
)
def test_imputation_with_known_variance_is_gaussian(knows, m):
    """The prior pins sigma: unknown rows and releases are Gaussian, in closed form."""
    df, known, variance = table(), KNOWS[knows], 0.6
    model = Regression({"income": "1 + age"}, prior=Prior(sigma2=(1e7, 1e7 * variance)))
    fit = model.fit(df, draws=100, chains=4, random_seed=1)
    release = fit.synthesize(m, random_seed=2)
    assert offered(fit, release, knows_records="none") == {"imputed", "independent-releases"}
    X, inside = on_scale(df)
    z = [inside(Z["income"]) for Z in release.datasets]
    risk = audit(fit, release, known, br.Grid(percent=30, n=5))

    def exact(i, guesses):
        args = X, z, inside(df["income"]), known, i, inside(guesses[:, 0])
        return by_hand.gaussian_evidence(*args, [10, 2.5], variance)

    gap, error = agree(risk, exact, most=5)
    assert np.sqrt(np.mean(np.square(gap[error > 0] / error[error > 0]))) < 2


@pytest.mark.slow
@pytest.mark.parametrize("family", ["normal", "lognormal"])
def test_imputation_of_a_sequence_against_quadrature(family):
    """One unknown row of two columns, the first a predictor of the second."""
    df, known, m = table(4, seed=2), np.array([False, False, True, True]), 2
    formulas = {"income": "1 + age", "spend": "1 + income"}
    fit = Regression(formulas, {"income": family}).fit(df, draws=150, chains=4, random_seed=1)
    release = fit.synthesize(m, random_seed=2)
    grids = {"income": br.Grid(percent=25, n=3), "spend": br.Grid(additive=0.5, n=3)}
    risk = audit(fit, release, known, grids, targets=[0])
    parts = [
        Normal("income", SEQUENCES["income"][0][2], log=family == "lognormal"),
        Normal("spend", lambda c: np.column_stack([one(c), c["income"]])),
    ]
    exact = [sequence_by_quadrature(parts, df, release, 0, 1, g) for g in guess_values(risk, 0)]
    _, error = agree(risk, lambda *_: exact, most=5)
    assert error.max() < 0.2


def sequence_by_quadrature(parts, df, release, i, j, values, n=61):
    """log p(Z | y_i, y_A), the two values of record j integrated out on a grid."""
    whole, files = columns_of(df), [columns_of(Z) for Z in release.datasets]
    guessed = with_values(whole, i, values)
    A = {name: v[np.arange(len(df)) != j] for name, v in guessed.items()}
    (x, width), (y, width_2) = (
        by_hand.grid(np.mean([part.outcome(Z)[j] for Z in files]), 0.1, n, reach=5.0)
        for part in parts
    )
    first, second = parts
    total = width + joint(first, whole, guessed, files, j, x)
    for a, value in enumerate(np.exp(x) if first.log else x):
        rows = with_values(guessed, j, {"income": value})
        total[a] += logsumexp(width_2 + joint(second, whole, rows, files, j, y))
    return logsumexp(total) - sum(part.log_marginal(whole, A) for part in parts)


def joint(part, whole, rows, files, j, points):
    """log p(y)^(1-m) prod_l p(y, Z^(l)) of one regression, record j having these outcomes (P,)."""
    X0 = part.design(whole)
    centre, scale, at, by = standardized(X0, part.outcome(whole))
    tau = np.where(np.ptp(X0, axis=0) == 0, part.intercept, part.slopes)
    total = 0.0
    for power, tables in ((1 - len(files), [rows]), *((1, [rows, Z]) for Z in files)):
        X = np.vstack([(part.design(t) - centre) / scale for t in tables])
        y = np.concatenate([part.outcome(t) for t in tables])
        Y = np.repeat(y[None], len(points), axis=0)
        Y[:, j] = points
        density = by_hand.log_student(X, (Y - at) / by, tau, part.a, part.b)
        total = total + power * (density - len(y) * np.log(by))
    return total


def test_rows_are_imputed_in_proportion_to_their_density():
    """Means and variances of imputed outcomes against the Gaussian closed form."""
    df, known, variance, m = table(), KNOWS["half"], 0.6, 3
    model = Regression({"income": "1 + age"}, prior=Prior(sigma2=(1e7, 1e7 * variance)))
    fit = model.fit(df, draws=300, chains=4, random_seed=1)
    release = fit.synthesize(m, random_seed=2)
    rng = np.random.default_rng(3)
    how = {"rng": rng, "n_jobs": 1, "progress": None}
    part = fit.knowing(known, encoded(fit, release), **how)
    chains = part.imputed(encoded(fit, release), **how).draws
    outcomes = np.array([[y for y, _ in chain] for chain in chains])  # shape (4, 300, 1, n_U)
    X, inside = on_scale(df)
    z, U = [inside(Z["income"]) for Z in release.datasets], np.flatnonzero(~known)
    spread = variance * (
        np.eye(2 * N) + np.tile(X * [10, 2.5], (2, 1)) @ np.tile(X * [10, 2.5], (2, 1)).T
    )
    alone, both = np.linalg.inv(spread[:N, :N]), np.linalg.inv(spread)
    Q = (1 - m) * alone + m * both[:N, :N]
    A = np.flatnonzero(known)
    pull = -both[:N, N:] @ np.sum(z, axis=0) - Q[:, A] @ inside(df["income"])[A]
    cov = np.linalg.inv(Q[np.ix_(U, U)])
    mean, y = cov @ pull[U], outcomes.reshape(-1, len(U))
    effective = len(y) / 4
    assert np.abs((y.mean(axis=0) - mean) / np.sqrt(np.diag(cov) / effective)).max() < 4
    assert np.abs(y.var(axis=0) / np.diag(cov) - 1).max() < 4 * np.sqrt(2 / effective)
    moved = (np.diff(outcomes, axis=1) != 0).mean()  # in two sweeps, each of which moves a half
    assert 0.75 < moved < 1


def test_the_product_adds_releases_and_overrates():
    df, known = table(20), np.zeros(20, dtype=bool)
    fit = Regression({"income": "1 + age"}).fit(df, draws=200, chains=4, random_seed=1)
    release, grid = fit.synthesize(4, random_seed=2), br.Grid(percent=30, n=5)
    product = audit(fit, release, known, grid, evidence="independent-releases")
    for l, Z in enumerate(release.datasets):
        single = br.Release(datasets=[Z], synthesized=release.synthesized)
        alone = audit(fit, single, known, grid, evidence="exact")
        assert np.allclose(product.log_evidence[l], alone.log_evidence[0], atol=ROUNDING)
    imputed = audit(fit, release, known, grid)
    spread = [np.ptp(r.log_evidence.sum(axis=0), axis=0).mean() for r in (product, imputed)]
    assert spread[0] > spread[1]


# --- limits, order, workers -----------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 3])
def test_whoever_knows_all_others_is_the_worst_case(m):
    df = table()
    fit = Regression({"income": "1 + age", "spend": "1 + income"}).fit(
        df, draws=20, chains=4, random_seed=1
    )
    release = fit.synthesize(m, random_seed=2)
    grids = {"income": br.Grid(percent=20, n=3), "spend": br.Grid(percent=20, n=3)}
    worst = br.attribute_risk(fit, release, guesses=grids, evidence="exact", random_seed=1)
    found = audit(fit, release, np.ones(N, dtype=bool), grids)
    gap = (found.log_evidence.sum(axis=0) - worst.log_evidence.sum(axis=0))[:, worst.case]
    assert np.abs(gap).max() < 1e-6
    assert (found.mcse < 1e-6).all()
    product = audit(
        fit,
        release,
        np.ones(N, dtype=bool),
        grids,
        evidence={1: "exact"}.get(m, "independent-releases"),
    )
    assert np.allclose(product.log_evidence, worst.log_evidence, atol=ROUNDING)


def test_order_of_records_does_not_matter():
    df, known = table(), KNOWS["half"]
    order = np.random.default_rng(5).permutation(N)
    found = []
    for o in (np.arange(N), order):
        fit = Regression({"income": "1 + age"}).fit(df.iloc[o], draws=100, chains=4, random_seed=1)
        if not found:
            files = fit.synthesize(2, random_seed=2).datasets
        release = br.Release(datasets=[Z.iloc[o] for Z in files], synthesized=["income"])
        risks = [
            audit(fit, release, known[o], br.Grid(percent=20, n=5), evidence=e)
            for e in ("independent-releases", "imputed")
        ]
        found.append([(r, dict(zip(r.index, r.case, strict=True))) for r in risks])
    for (a, of_a), (b, of_b), exact in zip(*found, (True, False), strict=True):
        for i in range(N):
            x, y = (r.log_evidence[:, :, at[i]].sum(axis=0) for r, at in ((a, of_a), (b, of_b)))
            if exact:
                assert np.allclose(x, y, atol=1e-8)
            else:
                error = np.hypot(a.mcse_log_evidence[:, of_a[i]], b.mcse_log_evidence[:, of_b[i]])
                assert (np.abs(x - y) < 5 * np.maximum(error, 1e-3)).all()


def test_more_draws_reach_the_error_that_is_wanted():
    df, known = table(), KNOWS["none"]
    fit = Regression({"income": "1 + age"}).fit(df, draws=40, chains=4, random_seed=1)
    release, grid = fit.synthesize(3, random_seed=2), br.Grid(percent=20, n=3)
    short = audit(fit, release, known, grid, targets=[0, 5])
    limit = float(np.quantile(short.mcse_log_evidence, 0.95)) / 2
    found = audit(fit, release, known, grid, targets=[0, 5], target_mcse=limit, max_doublings=7)
    assert np.quantile(found.mcse_log_evidence, 0.95) <= limit


# --- sampled families -----------------------------------------------------------------------------


def poisson_evidence(x, y, z, known, i, guesses):
    """log p(y* | y_A, Z) - log p(y* | y_A) of a count without predictors, by quadrature."""
    eta = np.linspace(np.log(y.mean()) - 60, np.log(y.mean()) + 12, 60_001)
    log_prior = -0.5 * ((eta - np.log(y.mean())) / x) ** 2
    A = np.setdiff1d(np.flatnonzero(known), [i])
    before = log_prior + y[A].sum() * eta - len(A) * np.exp(eta)
    after = before + z.sum() * eta - len(z) * np.exp(eta)
    star = np.asarray(guesses)[:, None] * eta - np.exp(eta)
    return logsumexp(after + star, axis=1) - logsumexp(before + star, axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("knows", ["half", pytest.param("none", marks=pytest.mark.slow)])
def test_poisson_regression_against_quadrature(knows):
    rng, known = np.random.default_rng(3), KNOWS[knows]
    df = pd.DataFrame({"visits": rng.poisson(4.0, N)})
    prior = Prior(intercept=0.7)
    fit = Regression({"visits": "1"}, {"visits": "poisson"}, prior=prior).fit(
        df, draws=600, tune=300, chains=4, random_seed=1
    )
    y = df["visits"].to_numpy()
    release = fit.synthesize(1, random_seed=2)
    assert offered(fit, release, knows_records="none") == {"predictive"}
    risk = audit(fit, release, known, br.Grid(additive=2, n=5), targets=[0, 1])
    z = release.datasets[0]["visits"].to_numpy()
    assert (risk.guesses >= 0).all()
    agree(risk, lambda i, g: poisson_evidence(0.7, y, z, known, i, g[:, 0]), most=5)


def test_unknown_counts_are_not_imputed():
    df = pd.DataFrame({"visits": np.random.default_rng(3).poisson(4.0, N)})
    fit = Regression({"visits": "1"}, {"visits": "poisson"}).fit(
        df, draws=8, tune=50, chains=2, random_seed=1
    )
    release = fit.synthesize(2, random_seed=2)
    assert offered(fit, release, knows_records="none") == {"independent-releases"}
    with pytest.raises(br.InputError, match='"imputed" is .* alone: .*"independent-releases", or'):
        audit(fit, release, KNOWS["half"], br.Grid(additive=2, n=5), evidence="imputed")


# --- errors ---------------------------------------------------------------------------------------


def ready(formulas, **options):
    return Regression(formulas, **options).fit(table(), draws=10, chains=1, random_seed=1)


def test_published_columns_that_depend_on_synthesised_ones():
    fit = ready({"income": "1 + age", "spend": "1 + income"})
    release = fit.synthesize(1, ["income"], random_seed=2)
    with pytest.raises(br.InputError, match="'spend' is published .* without the formula of"):
        audit(fit, release, KNOWS["half"], br.Grid(percent=10, n=3))


def test_flat_priors_need_enough_known_records():
    fit = ready({"income": "1 + age"}, prior=Prior.reference())
    grid = br.Grid(percent=10, n=3)
    for m in (1, 2):
        with pytest.raises(br.ModelError, match="give finite prior scales"):
            audit(fit, fit.synthesize(m, random_seed=2), KNOWS["none"], grid)
    found = audit(
        fit, fit.synthesize(2, random_seed=2), KNOWS["half"], grid, evidence="independent-releases"
    )
    assert np.isfinite(found.log_evidence).all()


def test_record_weights():
    df = table()
    fit = Regression({"income": "1 + age"}).fit(
        df, draws=10, chains=2, weights=np.full(N, 0.5), random_seed=1
    )
    release = fit.synthesize(1, random_seed=2)
    with pytest.raises(br.InputError, match="record weights"):
        audit(fit, release, KNOWS["half"], br.Grid(percent=10, n=3))


# --- calibration ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_probabilities_are_frequencies(share, m):
    """The target's value has equal chances, strangers' values come from p(. | y_A, y*)."""
    from bayes_risk.models.fits.sampling import Length
    from bayes_risk.models.regression.families import Scaling
    from bayes_risk.models.regression.fit import fitted_regressions
    from tests.models.test_tree_calibration import z_scores as calibration

    n, target, values = 12, 3, [-2.0, -1.0, 0.0, 1.0, 2.5]
    prior = Prior(intercept=1.0, slopes=1.0, sigma2=(3.0, 2.0))
    model = Regression({"y": "1 + x"}, prior=prior)
    scaling = Scaling(centre=np.zeros(2), scale=np.ones(2), constant=0, at=0.0, by=1.0)
    hits, probabilities = [], []
    for seed in range(300):
        rng = np.random.default_rng([5, seed, m, int(10 * share)])
        x, known = rng.standard_normal(n), np.arange(n) < round(share * n)
        known[target] = False
        X, y = np.column_stack([np.ones(n), x]), np.zeros(n)
        y[known] = _drawn(X[:0], y[:0], X[known], rng)
        y[target] = rng.choice(values)
        about = known | (np.arange(n) == target)
        y[~about] = _drawn(X[about], y[about], X[~about], rng)
        df = pd.DataFrame({"x": x, "y": y})
        data = model._microdata(df, levels=None, releases=(), missing="error")
        parts = [replace(p, scaling=scaling) for p in model._parts(data)]
        length = Length(draws=100, tune=0, chains=2)
        fit = fitted_regressions(model, data, parts, None, length, "pymc", rng, None)
        release = replace(fit.synthesize(m, random_seed=rng), draw_index=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
            risk = audit(fit, release, known, br.Grid(values=values), targets=[target])
        order = np.argsort(risk.guesses[:, 0, 0])
        hits.append((np.arange(len(order)) == risk.truth[0])[order])
        probabilities.append(np.exp(risk.log_probability[order, 0]))
    z = calibration(hits, probabilities)
    assert np.abs(z).max() < 4 and np.sqrt((z**2).mean()) < 2


def _drawn(X, y, new, rng):
    """Outcomes of new rows given others: sigma^2, coefficients, values; prior as in the test."""
    precision = X.T @ X + np.eye(2)
    mean = np.linalg.solve(precision, X.T @ y)
    b = 2.0 + 0.5 * (y @ y - mean @ precision @ mean)
    sigma = np.sqrt(b / rng.gamma(3.0 + 0.5 * len(y)))
    beta = mean + sigma * np.linalg.solve(np.linalg.cholesky(precision).T, rng.standard_normal(2))
    return new @ beta + sigma * rng.standard_normal(len(new))
