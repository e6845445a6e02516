"""How parameters were drawn: the draws of a release, and evidence against closed forms."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

import bayes_risk as br
from tests.helpers.fits import example, fit_of, offered

pytestmark = pytest.mark.check

ROUNDING = 1e-8
FLAT = br.models.RegressionPrior(intercept=np.inf, slopes=np.inf, sigma2=(0.0, 0.0))


def draws_of(name, m, way, seed=2):
    return fit_of(name).synthesize(m, parameters=way, random_seed=seed).draw_index


def relative(log_p):
    return np.asarray(log_p) - log_p[0]


def audited(fit, release, i, guesses, **options):
    """Log evidence of each listed guess of record i, summed over releases, the truth's apart."""
    risk = br.attribute_risk(fit, release, targets=[i], guesses=guesses, random_seed=3, **options)
    return risk, risk.log_evidence.sum(axis=0)[:, 0]


# --- synthesis -------------------------------------------------------------------------------


def test_draws_of_theta_are_all_different_all_of_one_chain_or_one():
    per_chain = fit_of("DPMPM").n_draws // 2
    assert len(set(draws_of("DPMPM", 30, "independent"))) == 30
    chains = {seed: {h // per_chain for h in draws_of("DPMPM", 30, "one-mode", seed)} for seed in
              range(8)}  # fmt: skip
    assert all(len(chain) == 1 for chain in chains.values())
    assert len(set.union(*chains.values())) > 1
    assert len(set(draws_of("DPMPM", 30, "one-mode"))) == 30
    assert len(set(draws_of("DPMPM", 300, "shared"))) == 1
    usual = {"DPMPM": "one-mode", "Regression": "independent", "PoissonMixture": "one-mode"}
    for name, way in usual.items():
        fit = fit_of(name)
        assert fit.synthesize(2, random_seed=1).parameters == way == fit.parameters[0]


def test_ways_that_a_model_lacks_are_refused_by_name():
    for name, way, others in (
        ("DPMPM", "plug-in", "'one-mode', 'independent', 'shared'"),
        ("Regression", "one-mode", "'independent', 'shared', 'plug-in'"),
        ("Forest", "shared", "'plug-in'"),
        ("PMM", "independent", "'plug-in'"),
    ):
        fit = fit_of(name)
        refused = f"parameters='{way}' .* not offered by {name}; .*{others}"
        with pytest.raises(br.InputError, match=refused):
            fit.synthesize(2, parameters=way)
    made = fit_of("DPMPM").synthesize(2, random_seed=1)
    elsewhere = br.Release(
        datasets=made.datasets, synthesized=made.synthesized, parameters="plug-in"
    )
    with pytest.raises(br.InputError, match=r"release has parameters='plug-in' .* no evidence"):
        br.attribute_risk(fit_of("DPMPM"), elsewhere)
    with pytest.raises(br.InputError, match="m=41 exceeds the 40 draws of a chain"):
        fit_of("DPMPM").synthesize(41, parameters="one-mode")
    with pytest.raises(br.InputError, match="parameters='proper'"):
        fit_of("CART").synthesize(2, parameters="proper")


def test_regressions_without_a_closed_form_have_no_estimate():
    table = example("Regression").table.assign(staff=np.arange(48) % 7)
    model = br.models.Regression({"age": "1", "staff": "1"}, families={"staff": "poisson"})
    fit = model.fit(table, draws=8, tune=20, random_seed=1)
    made = fit.synthesize(2, ["age"], parameters="plug-in", random_seed=1)
    assert offered(fit, made) == {"exact"}
    with pytest.raises(br.InputError, match="'staff' has family Poisson"):
        fit.synthesize(2, parameters="plug-in")
    whole = fit.synthesize(2, random_seed=1)
    taken = br.Release(datasets=whole.datasets, synthesized=whole.synthesized, parameters="plug-in")
    with pytest.raises(br.InputError, match="'staff' has family Poisson"):
        br.attribute_risk(fit, taken, guesses=br.Grid(percent=10, n=3))


def test_audits_say_how_parameters_were_drawn_or_that_nobody_said():
    fit = fit_of("CART")
    shared = fit.synthesize(3, parameters="shared", random_seed=1)
    silent = br.Release(datasets=shared.datasets, synthesized=shared.synthesized)
    how = {"guesses": example("CART").guesses, "targets": 2, "random_seed": 1}
    said = [br.attribute_risk(fit, r, **how).assumptions["releases"] for r in (shared, silent)]
    assert said == [
        "m = 3, all from one draw of the parameters",
        "m = 3, each from its own draw of the parameters (assumed: not stated)",
    ]


# --- one class: Dirichlet-multinomial ----------------------------------------------------------


@pytest.fixture(scope="module")
def one_class():
    rng = np.random.default_rng(4)
    level = pd.Categorical(rng.choice(list("abcdef"), 60, p=[0.4, 0.3, 0.2, 0.06, 0.03, 0.01]))
    table = pd.DataFrame({"x": level.set_categories(list("abcdefg"))})
    return table, br.models.DPMPM(n_classes=1).fit(table, draws=100, tune=0, thin=1, random_seed=1)


@pytest.mark.parametrize("way", ["independent", "shared"])
def test_sampled_evidence_of_one_class_is_the_closed_form(one_class, way):
    table, fit = one_class
    release = fit.synthesize(4, parameters=way, random_seed=2)
    y = table["x"].cat.codes.to_numpy()
    z = np.stack([np.bincount(t["x"].cat.codes, minlength=7) for t in release.datasets])
    z = z.sum(axis=0, keepdims=True) if way == "shared" else z
    for i in (0, 7):
        left = 1.0 + np.bincount(y, minlength=7) - (np.arange(7) == y[i])
        risk = br.attribute_risk(fit, release, targets=[i], random_seed=3)
        codes = risk.guesses[:, 0, 0]
        exact = np.log((left + z) / left).sum(axis=0)[codes]
        found = risk.log_evidence.sum(axis=0)[:, 0]
        np.testing.assert_allclose(found, exact - exact[codes == y[i]], atol=ROUNDING)
        whole = br.full_table_risk(fit, release, targets=[i], prior="uniform", random_seed=3)
        p = whole.records["probability"]
        np.testing.assert_allclose(p, risk.records["probability"], rtol=1e-5)


def test_membership_of_a_shared_release_needs_no_alternatives(one_class):
    """log r(c) = log (a + n + z) / (a + n) less log (A + N + M) / (A + N), all tables stacked."""
    table, fit = one_class
    release = fit.synthesize(2, parameters="shared", random_seed=2)
    found = br.membership(fit, release, records=[0], random_seed=3)
    y = table["x"].cat.codes.to_numpy()
    z = sum((t["x"] == table["x"][0]).sum() for t in release.datasets)
    left = 1.0 + (y == y[0]).sum() - 1.0
    exact = np.log((left + z) / left) - np.log((7 + 59 + 120) / (7 + 59))
    np.testing.assert_allclose(found.log_bayes_factor, exact, atol=ROUNDING)
    assert found.assumptions["alternatives"].startswith("not needed")


def test_evidence_from_one_draw_is_not_cut_into_releases(one_class):
    table, fit = one_class
    release = fit.synthesize(3, parameters="shared", random_seed=2)
    gathered = br.attribute_evidence(fit, release, targets=[0, 5], random_seed=3)
    with pytest.raises(br.InputError, match="does not come release by release"):
        gathered.first(2)
    found = br.sensitivity(fit, release, over={"m": [1, 2, 3]}, targets=[0, 5], random_seed=3)
    few = br.Release(datasets=release.datasets[:2], synthesized=["x"], parameters="shared")
    alone = br.attribute_risk(fit, few, targets=[0, 5], random_seed=3).records["probability"]
    swept = found.dataset["mean_probability"].sel(m=2)
    np.testing.assert_allclose(float(swept), alone.mean(), rtol=1e-10)


def test_a_sweep_takes_a_release_for_what_it_was_not(one_class):
    _, fit = one_class
    release = fit.synthesize(3, parameters="shared", random_seed=2)
    how = {"targets": [0, 5, 9], "random_seed": 3}
    ways = ["shared", "independent", "one-mode"]
    found = br.sensitivity(fit, release, over={"parameters": ways}, **how)
    assert found.base == {"parameters": "shared"}
    for way in ways:
        taken = br.Release(datasets=release.datasets, synthesized=["x"], parameters=way)
        alone = br.attribute_risk(fit, taken, **how).records["probability"].mean()
        swept = float(found.dataset["mean_probability"].sel(parameters=way))
        np.testing.assert_allclose(swept, alone, rtol=1e-10)
    with pytest.raises(br.InputError, match=r"over\['parameters'\]='plug-in'"):
        br.sensitivity(fit, release, over={"parameters": ["plug-in"]}, **how)


def test_a_sweep_over_the_bootstrap_says_how_leaves_were_drawn():
    table, fit = one_leaf()
    release = fit.synthesize(2, random_seed=5)
    how = {"targets": [8], "guesses": {"y": br.Grid(values=[1.0, 2.0, 5.0, 7.0])}}
    found = br.sensitivity(fit, release, over={"hyper": {"bootstrap": ["bayesian", "none"]}}, **how)
    assert len(np.unique(found.dataset["mean_probability"])) == 2


# --- leaves of trees ---------------------------------------------------------------------------


def one_leaf():
    """A tree that nothing splits: values of a column drawn from all of its values."""
    value = np.repeat([1.0, 2.0, 5.0, 7.0], [6, 3, 2, 2])
    table = pd.DataFrame({"x": np.zeros(len(value)), "y": value})
    return table, br.models.CART(["y"], min_leaf=5).fit(table, random_seed=1)


@pytest.mark.parametrize("way", ["independent", "shared", "plug-in"])
@pytest.mark.parametrize("evidence", ["exact", "refit"])
def test_leaves_are_audited_as_they_were_drawn(way, evidence):
    """Dirichlet-multinomial of each data set, of all of them together; or multinomial."""
    table, fit = one_leaf()
    release = fit.synthesize(3, parameters=way, random_seed=5)
    values = [1.0, 2.0, 5.0, 7.0]
    z = np.array([[(t["y"] == v).sum() for v in values] for t in release.datasets])
    z = z.sum(axis=0, keepdims=True) if way == "shared" else z
    i = 8  # holds 2.0
    risk = br.attribute_risk(
        fit, release, targets=[i], guesses={"y": br.Grid(values=values)}, evidence=evidence
    )
    exact = []
    for v in values:
        n = np.array([(table["y"] == w).sum() - (w == 2.0) + (w == v) for w in values])
        terms = gammaln(n + z) - gammaln(n) if way != "plug-in" else z * np.log(n)
        exact.append(terms.sum())
    codes = risk.guesses[:, 0, 0].tolist()
    found = dict(zip(codes, risk.log_evidence.sum(axis=0)[:, 0], strict=True))
    np.testing.assert_allclose(
        [found[v] for v in values], np.array(exact) - exact[1], atol=ROUNDING
    )


def test_shares_of_a_leaf_are_drawn_once_for_all_data_sets_or_for_each():
    """Var(share of a value in set 1 - in set 2): that of two multinomials, if the shares agree."""
    value = np.repeat([0.0, 1.0], 200)
    table = pd.DataFrame({"x": np.zeros(400), "y": value})
    fit = br.models.CART(["y"], min_leaf=200).fit(table, random_seed=1)
    for way, variance in (("shared", 2 / 1600), ("independent", 4 / 1600), ("plug-in", 2 / 1600)):
        gaps = []
        for seed in range(400):
            one, two = fit.synthesize(2, parameters=way, random_seed=seed).datasets
            gaps.append(one["y"].mean() - two["y"].mean())
        error = variance * np.sqrt(2 / 400)
        assert abs(np.mean(np.square(gaps)) - variance) < 4 * error, way


# --- regressions -------------------------------------------------------------------------------


def numbers(n=30):
    rng = np.random.default_rng(9)
    age = rng.normal(40, 9, n).round(1)
    pay = np.exp(1 + 0.02 * age + 0.3 * rng.normal(size=n)).round(2)
    return pd.DataFrame({"age": age, "pay": pay})


def log_at_least_squares(table, tables, *, logs):
    """log p(pay | age) of tables at the least squares of another, its residual variance n - 2."""
    X = np.column_stack([np.ones(len(table)), table["age"]])
    y = np.log(table["pay"]) if logs else table["pay"]
    beta, rss, *_ = np.linalg.lstsq(X, y, rcond=None)
    s2 = rss[0] / (len(table) - 2)
    total = 0.0
    for t in tables:
        z = np.log(t["pay"]) if logs else t["pay"]
        error = z - beta[0] - beta[1] * t["age"]
        total += -0.5 * (len(t) * np.log(s2) + (error**2).sum() / s2)
    return total


@pytest.mark.parametrize("family", ["normal", "lognormal"])
def test_regressions_at_their_estimate_are_fitted_anew_for_each_guess(family):
    table = numbers()
    model = br.models.Regression({"pay": "1 + age"}, families={"pay": family}, prior=FLAT)
    fit = model.fit(table, draws=20, tune=0, random_seed=1)
    release = fit.synthesize(3, parameters="plug-in", random_seed=2)
    assert release.draw_index is None and offered(fit, release) == {"exact"}
    grid = {"pay": br.Grid(percent=30, n=5)}
    for i in (0, 11):
        risk = br.attribute_risk(fit, release, targets=[i], guesses=grid)
        exact = []
        for guess in risk.guesses[:, 0, 0]:
            guessed = table.copy()
            guessed.loc[i, "pay"] = guess
            exact.append(
                log_at_least_squares(guessed, release.datasets, logs=family == "lognormal")
            )
        exact = np.array(exact) - exact[int(risk.truth[0])]
        np.testing.assert_allclose(risk.log_evidence.sum(axis=0)[:, 0], exact, atol=1e-7)


def test_a_guessed_predictor_moves_the_estimate_too():
    table = numbers()
    model = br.models.Regression({"age": "1", "pay": "1 + age"}, prior=FLAT)
    fit = model.fit(table, draws=20, tune=0, random_seed=1)
    release = fit.synthesize(2, parameters="plug-in", random_seed=2)
    risk = br.attribute_risk(
        fit,
        release,
        targets=[3],
        guesses={"age": br.Grid(percent=20, n=3), "pay": br.Grid(percent=30, n=3)},
    )
    exact = []
    for age, pay in risk.guesses[:, 0, :]:
        guessed = table.copy()
        guessed.loc[3, ["age", "pay"]] = age, pay
        own = guessed["age"]
        s2 = own.var(ddof=1)
        of_age = sum(
            -0.5 * (len(t) * np.log(s2) + ((t["age"] - own.mean()) ** 2).sum() / s2)
            for t in release.datasets
        )
        exact.append(of_age + log_at_least_squares(guessed, release.datasets, logs=False))
    exact = np.array(exact) - exact[int(risk.truth[0])]
    np.testing.assert_allclose(risk.log_evidence.sum(axis=0)[:, 0], exact, atol=1e-7)


def test_releases_at_an_estimate_scatter_about_it_alone():
    """Means of a normal column: s^2 / n between data sets, and about the mean of the original."""
    table = numbers(50)[["age"]]
    fit = br.models.Regression({"age": "1"}, prior=FLAT).fit(table, draws=500, random_seed=1)
    expected = table["age"].var() / 50
    for way, times in (("plug-in", 1.0), ("independent", 2.0)):
        release = fit.synthesize(400, parameters=way, random_seed=3)
        means = np.array([t["age"].mean() for t in release.datasets])
        found = ((means - table["age"].mean()) ** 2).mean() / expected
        assert abs(found - times) < 4 * times * np.sqrt(2 / 400), way


def test_regressions_that_share_a_draw_are_stacked():
    """p(Z^(1..m) | y*, y_-i): ratio of marginal likelihoods under the reference prior."""
    table = numbers()
    fit = br.models.Regression({"pay": "1 + age"}, prior=FLAT).fit(table, draws=20, random_seed=1)
    release = fit.synthesize(3, parameters="shared", random_seed=2)
    risk = br.attribute_risk(
        fit, release, targets=[4], guesses={"pay": br.Grid(percent=30, n=5)}, evidence="exact"
    )

    def log_marginal(*tables):
        t = pd.concat(tables)
        X = np.column_stack([np.ones(len(t)), t["age"]])
        _, rss, *_ = np.linalg.lstsq(X, t["pay"], rcond=None)
        a = (len(t) - 2) / 2
        return gammaln(a) - a * np.log(rss[0]) - 0.5 * np.linalg.slogdet(X.T @ X)[1]

    exact = []
    for guess in risk.guesses[:, 0, 0]:
        guessed = table.copy()
        guessed.loc[4, "pay"] = guess
        exact.append(log_marginal(guessed, *release.datasets) - log_marginal(guessed))
    exact = np.array(exact) - exact[int(risk.truth[0])]
    assert risk.log_evidence.shape[0] == 1
    np.testing.assert_allclose(risk.log_evidence[0, :, 0], exact, atol=1e-7)


# --- counts ------------------------------------------------------------------------------------


def test_counts_of_one_component_that_share_a_draw_are_stacked():
    """Poisson-gamma: p(y* | y_-i, Z^(1..m)) / p(y* | y_-i), negative binomials."""
    table = pd.DataFrame({"k": np.random.default_rng(2).poisson(4, 40)})
    fit = br.models.PoissonMixture(n_classes=1, rate_prior=(1.0, 0.5)).fit(
        table, draws=4_000, tune=50, random_seed=1
    )
    release = fit.synthesize(3, parameters="shared", random_seed=2)
    risk = br.attribute_risk(
        fit, release, targets=[5], guesses=br.Grid(additive=3, n=7), random_seed=3
    )
    guesses = risk.guesses[:, 0, 0]
    left, z = table["k"].sum() - table["k"][5], sum(t["k"].sum() for t in release.datasets)

    def log_p(total, n):  # negative binomial, its terms in y* alone
        shape, rate = 1.0 + total, 0.5 + n
        return gammaln(shape + guesses) - guesses * np.log(rate + 1)

    exact = log_p(left + z, 39 + 120) - log_p(left, 39)
    exact -= exact[int(risk.truth[0])]
    error = np.abs(risk.log_evidence.sum(axis=0)[:, 0] - exact)
    assert (error <= 4 * risk.mcse_log_evidence[:, 0] + ROUNDING).all()
