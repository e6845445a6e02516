"""The user's own PyMC model: densities, synthesis and evidence are taken from its graph."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayes_risk as br
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.models.fits.sampling import Length
from bayes_risk.models.pymc.fit import Condition, Sampler
from tests.helpers.against import agree
from tests.helpers.fits import encoded, offered
from tests.helpers.pymc_models import build_two, engine_of, fit_of_draws, two_columns

# --- two columns, areas, a predictor ---------------------------------------------------------


def by_hand(table, theta):
    """log p(x, k | area, w, theta_h) by SciPy, shape (H, n)."""
    mu = theta["z"][:, table["area"].cat.codes] + np.outer(theta["b"], table["w"])
    rate = np.exp(theta["a"][:, None] + np.outer(theta["c"], table["x"]))
    log_x = stats.norm.logpdf(table["x"].to_numpy(), mu, theta["s"][:, None])
    return log_x, stats.poisson.logpmf(table["k"].to_numpy(), rate)


def some_theta(H=7, seed=2):
    rng = np.random.default_rng(seed)
    theta = {name: rng.normal(size=H) for name in "bac"}
    return theta | {"z": rng.normal(size=(H, 4)), "s": rng.uniform(0.5, 2, H)}


@pytest.fixture(scope="module")
def two():
    """Near a posterior: other draws would make counts that overflow."""
    theta = {name: 0.3 * x for name, x in some_theta(H=200, seed=3).items()}
    theta["s"] = 0.5 + theta["s"]
    return fit_of_draws(build_two, ["x", "k"], two_columns(), theta)


def test_densities_of_hypothetical_rows_equal_scipys(two):
    engine, theta = two.posterior.engine, some_theta()
    other = two_columns(n=50, seed=9)
    codes = two.microdata.encode(other, "other rows")
    log_x, log_k = by_hand(other, theta)
    assert np.abs(engine.log_p(codes, theta, ("x", "k")) - log_x - log_k).max() < 1e-10
    assert np.abs(engine.total(codes, theta, ("x", "k")) - (log_x + log_k).sum(axis=1)).max() < 1e-9


def build_hierarchy(table):
    """Levels drawn from a population, and a mixture whose labels are summed out."""
    with pm.Model(coords={"area": table["area"].cat.categories}) as model:
        area, x = pm.Data("area", table["area"].cat.codes), pm.Data("x", table["x"])
        level = pm.Normal("level", pm.Normal("mean"), pm.HalfNormal("spread"), dims="area")
        sd, w = pm.HalfNormal("sd", shape=2), pm.Dirichlet("w", np.ones(2))
        parts = [pm.Normal.dist(level[area], sd[k]) for k in range(2)]
        pm.Mixture("x_", w, parts, observed=x)
    return model


@pytest.mark.check
def test_densities_under_a_hierarchy_and_a_mixture():
    table, rng = two_columns(), np.random.default_rng(5)
    theta = {"level": rng.normal(size=(6, 4)), "sd": rng.uniform(0.5, 2, (6, 2))}
    theta |= {"mean": np.zeros(6), "spread": np.ones(6), "w": rng.dirichlet([1, 1], 6)}
    fit = fit_of_draws(build_hierarchy, ["x"], table, theta)
    mu = theta["level"][:, table["area"].cat.codes]
    parts = [stats.norm.pdf(table["x"].to_numpy(), mu, theta["sd"][:, [k]]) for k in range(2)]
    expected = np.log(sum(theta["w"][:, [k]] * parts[k] for k in range(2)))
    found = fit.posterior.engine.log_p(fit.microdata.codes, theta, ("x",))
    assert np.abs(found - expected).max() < 1e-10
    release = fit.synthesize(1, records=["r1", "r2"], random_seed=1)
    assert (release.datasets[0]["x"] != table["x"]).sum() == 2


def test_compiled_once_for_many_blocks(two, monkeypatch):
    engine, theta = two.posterior.engine, some_theta(H=300)  # three chunks of draws
    engine.log_p(two.microdata.codes, theta, ("x", "k"))
    compiled = []
    monkeypatch.setattr(pm, "compile", lambda *a, **k: compiled.append(a))
    rows = np.tile(two.microdata.codes, (50, 1))  # 3,000 rows: three blocks
    found = engine.log_p(rows, theta, ("x", "k"))
    expected = sum(by_hand(two_columns(), theta))
    assert compiled == []
    assert np.abs(found - np.tile(expected, 50)).max() < 1e-10


def test_release_density_counts_replaced_rows_and_synthesised_columns(two):
    records = np.arange(60) % 3 == 0
    for columns, parts in ((["x", "k"], (0, 1)), (["k"], (1,))):
        release = two.synthesize(2, columns, records, random_seed=4)
        for l, Z in enumerate(release.datasets):
            log_p = by_hand(Z, two.posterior.theta)
            expected = sum(log_p[part][:, records].sum(axis=1) for part in parts)
            assert np.abs(two.log_release(encoded(two, release))[l] - expected).max() < 1e-9


def test_synthesis_follows_the_model_column_by_column(two):
    release = two.synthesize(20, random_seed=5)
    original, residuals, counts, rates = two_columns(), [], [], []
    for Z, h in zip(release.datasets, release.draw_index, strict=True):
        theta = {name: x[[h]] for name, x in two.posterior.theta.items()}
        mu = theta["z"][0, Z["area"].cat.codes] + theta["b"] * Z["w"]
        residuals.append((Z["x"] - mu) / theta["s"])
        rates.append(np.exp(theta["a"] + theta["c"] * Z["x"]))  # given the synthetic x
        counts.append(Z["k"])
        assert Z.index.equals(original.index) and Z["k"].dtype == original["k"].dtype
        assert Z[["area", "w"]].equals(original[["area", "w"]])
    z, n = np.concatenate(residuals), 20 * 60
    assert abs(z.mean()) < 4 / np.sqrt(n) and abs((z**2).mean() - 1) < 4 * np.sqrt(2 / n)
    k, rate = np.concatenate(counts), np.concatenate(rates)
    assert abs((k - rate).sum()) < 4 * np.sqrt(rate.sum())
    low = rate < np.median(rate)
    for part in (low, ~low):  # the synthetic x decides the rate, not the confidential one
        assert abs((k - rate)[part].sum()) < 4 * np.sqrt(rate[part].sum())


def test_some_records_and_some_columns_only(two):
    original = two_columns()
    release = two.synthesize(3, ["k"], ["r3", "r5"], random_seed=6)
    assert release.synthesized == ("k",) and release.records.sum() == 2
    for Z in release.datasets:
        assert Z.drop(columns="k").equals(original.drop(columns="k"))
        assert Z["k"].drop(["r3", "r5"]).equals(original["k"].drop(["r3", "r5"]))
    assert two.synthesize(1, ["k", "x"], random_seed=6).synthesized == ("x", "k")
    one = two.synthesize(2, ["x"], ["r7"], random_seed=6)  # a single row
    assert (one.datasets[0]["x"] != original["x"]).sum() == 1


@pytest.mark.check
def test_same_seed_same_bytes_for_any_number_of_processes():
    model = br.models.PyMCModel(build_two, columns=["x", "k"])
    fits = [
        model.fit(two_columns(), draws=60, tune=100, chains=2, random_seed=3, n_jobs=n_jobs)
        for n_jobs in (1, 2)
    ]
    for name, draws in fits[0].posterior.theta.items():
        assert draws.tobytes() == fits[1].posterior.theta[name].tobytes()
    assert "mu" in fits[0].idata["posterior"] and fits[0].diagnostics["parameters"] == 8
    release = fits[0].synthesize(2, random_seed=4)
    guesses = {"x": br.Grid(additive=1, n=3), "k": br.Grid(additive=1, n=3)}
    how = {"guesses": guesses, "targets": ["r1", "r2"], "random_seed": 7}
    audits = [br.attribute_risk(fits[0], release, n_jobs=n_jobs, **how) for n_jobs in (1, 2)]
    assert audits[0].log_evidence.tobytes() == audits[1].log_evidence.tobytes()


def test_what_follows_from_several_columns(two):
    release = two.synthesize(2, random_seed=4)
    assert offered(two, release) == {"predictive", "refit", "importance"}
    assert "x then k" in two.mechanism(encoded(two, release))
    assert set(two.posterior.engine.free) == set("zbsac")


def test_requests_that_cannot_be_met(two):
    with pytest.raises(br.InputError, match="m=500 exceeds the 200 draws"):
        two.synthesize(500)
    with pytest.raises(br.InputError, match="columns names column 'area'"):
        two.synthesize(1, ["area"])
    with pytest.raises(br.InputError, match="names 'r99'"):
        two.synthesize(1, records=["r99"])
    foreign = br.Release(datasets=[two_columns()], synthesized=["w"])
    with pytest.raises(
        br.InputError, match="synthesized names 'w', for which the model draws nothing"
    ):
        offered(two, foreign)
    own = replace(two.synthesize(1, random_seed=1), classes="own")
    with pytest.raises(br.InputError, match="mechanism of latent-class models"):
        offered(two, own)


# --- a normal mean with known spread: closed form --------------------------------------------

PRIOR_SD, SD, DRAWS = 3.0, 1.5, 300


def build_mean(table):
    with pm.Model() as model:
        y = pm.Data("y", table["y"])
        pm.Normal("y_", pm.Normal("mean", 0, PRIOR_SD), SD, observed=y)
    return model


@pytest.fixture(scope="module")
def mean():
    table = pd.DataFrame({"y": np.random.default_rng(11).normal(1, SD, 25)})
    fit = br.models.PyMCModel(build_mean, columns=["y"]).fit(
        table, draws=DRAWS, tune=200, chains=4, random_seed=12
    )
    return table, fit, fit.synthesize(2, random_seed=13)


def normal_predictive(values, y):
    """log p(y | values) with the mean integrated out."""
    precision = PRIOR_SD**-2 + len(values) * SD**-2
    centre = values.sum() * SD**-2 / precision
    return stats.norm.logpdf(y, centre, np.sqrt(SD**2 + 1 / precision))


def standard_normal(z, chains=4):
    """Mean 0 and variance 1 within four standard errors, by the draws' effective numbers."""
    (of_mean, of_square), _ = ess_and_rhat(np.column_stack([z, z**2]), chains)
    assert abs(z.mean()) < 4 / np.sqrt(of_mean)
    assert abs((z**2).mean() - 1) < 4 * np.sqrt(2 / of_square)


def far_out(table):
    """The record farthest from the mean."""
    return int(np.abs(table["y"] - table["y"].mean()).argmax())


def closed_form(table, release, i, y_star):
    """Change that all data sets make to the predictive; shape (G,)."""
    rest = np.delete(table["y"].to_numpy(), i)
    return sum(
        normal_predictive(np.append(rest, Z["y"]), y_star) - normal_predictive(rest, y_star)
        for Z in release.datasets
    )


def test_fit_describes_itself(mean):
    _, fit, release = mean
    assert offered(fit, release) == {"predictive", "refit", "importance"}
    assert fit.diagnostics["parameters"] == 1 and fit.diagnostics["max_rhat"] < 1.1
    assert f"25 records, y; 4 chains of {DRAWS} draws" in repr(fit)
    assert "mean" in fit.idata["posterior"]


@pytest.mark.parametrize("evidence", ["predictive", "refit"])
def test_evidence_equals_the_closed_form(mean, evidence):
    """Refit of the record that matters most to the mean."""
    table, fit, release = mean
    targets = [far_out(table)] if evidence == "refit" else list(table.index)
    risk = br.attribute_risk(
        fit,
        release,
        guesses=br.Grid(additive=4, n=5),
        targets=targets,
        evidence=evidence,
        random_seed=14,
    )
    assert len(risk.index) == len(targets)
    agree(risk, lambda i, guesses: closed_form(table, release, i, guesses[:, 0]))
    assert risk.reliable.all()


def test_longer_chains_are_of_the_same_posterior(mean):
    table, fit, _ = mean
    longer = fit.posterior.doubled(rng=np.random.default_rng(1), n_jobs=1)
    assert longer.n_draws == fit.posterior.n_draws == 4 * DRAWS
    assert longer.thin == 2 * fit.posterior.thin
    old, new = fit.posterior.chains()[1]["mean"], longer.chains()[1]["mean"]
    half = DRAWS // 2
    assert (new[:half] == old[1::2]).all() and not (new[half:] == old[:half]).any()
    precision = PRIOR_SD**-2 + len(table) * SD**-2
    z = (longer.theta["mean"] - table["y"].sum() * SD**-2 / precision) * np.sqrt(precision)
    standard_normal(z)


def test_left_out_record_leaves_no_trace(mean):
    table, fit, release = mean
    far = far_out(table)
    for Z in (None, release):
        coded = Z and encoded(fit, Z)
        without = fit.without(far, coded, 0, start=fit.posterior, rng=np.random.default_rng(2))
        values = np.delete(table["y"].to_numpy(), far)
        if Z is not None:
            values = np.append(values, Z.datasets[0]["y"])
        precision = PRIOR_SD**-2 + len(values) * SD**-2
        z = (without.theta["mean"] - values.sum() * SD**-2 / precision) * np.sqrt(precision)
        standard_normal(z)


def test_reuse_equals_the_sum_by_hand(mean):
    table, fit, release = mean
    guesses = pd.DataFrame({"y": [-2.0, 0.5, 3.0]})
    risk = br.attribute_risk(
        fit,
        release,
        guesses=br.Listed(guesses, add_truth=True),
        targets=[4, 8],
        evidence="importance",
        random_seed=1,
    )
    theta = np.delete(fit.posterior.theta["mean"], release.draw_index)
    for label, u in zip(risk.index, risk.case, strict=True):
        y_star, y_i = risk.guesses[:, u, 0], table.loc[label, "y"]
        log_w = stats.norm.logpdf(y_star[:, None], theta, SD) - stats.norm.logpdf(y_i, theta, SD)
        for l, Z in enumerate(release.datasets):
            log_z = stats.norm.logpdf(Z["y"].to_numpy()[:, None], theta, SD).sum(axis=0)
            top = log_z.max()
            mean_z = np.log(np.exp(log_w + log_z - top).sum(axis=1)) - np.log(
                np.exp(log_w).sum(axis=1)
            )
            expected = mean_z - mean_z[risk.truth[u]]
            assert np.abs(risk.log_evidence[l, :, u] - expected).max() < 1e-9


# --- some columns of some records ------------------------------------------------------------


def build_line(table):
    with pm.Model() as model:
        x, y = pm.Data("x", table["x"]), pm.Data("y", table["y"])
        pm.Normal("x_", pm.Normal("mean", 0, PRIOR_SD), 1, observed=x)
        pm.Normal("y_", pm.Normal("slope", 0, PRIOR_SD) * x, SD, observed=y)
    return model


def test_release_of_some_columns_and_records_counts_for_those_alone():
    """p(Theta | y, Z) in closed form: two tables inform the slope by the rows they replaced."""
    rng = np.random.default_rng(31)
    x, y, z, other = rng.normal(0.5, 1, (4, 20))
    engine = engine_of(build_line, ["x", "y"], pd.DataFrame({"x": x, "y": y}))
    replaced = np.arange(20) < 8
    condition = Condition(
        y=engine.builder.microdata.codes,
        z=tuple(np.column_stack([x, np.where(replaced, new, y)]) for new in (z, other)),
        replaced=replaced,
        columns=("y",),
        left_out=2,
    )
    start = {name: np.linspace(-1, 1, 40) for name in ("mean", "slope")}
    chains = Sampler.of(engine, condition, start).run(
        condition,
        [{"mean": 0.0, "slope": 0.0}] * 4,
        Length(draws=300, tune=100, chains=4),
        rng=np.random.default_rng(32),
    )
    known = np.arange(20) != 2  # the record is left out of y, and its released values stay
    exact = {
        "mean": (known.sum(), x[known].sum()),
        "slope": (
            ((x**2)[known].sum() + 2 * (x**2)[replaced].sum()) / SD**2,
            ((x * y)[known].sum() + (x * (z + other))[replaced].sum()) / SD**2,
        ),
    }
    for name, (information, total) in exact.items():
        precision = information + PRIOR_SD**-2
        draws = np.concatenate([chain[name] for chain in chains])
        standard_normal((draws - total / precision) * np.sqrt(precision))


# --- categories ------------------------------------------------------------------------------


def build_categories(table):
    with pm.Model() as model:
        sex, o, g = (pm.Data(c, table[c].cat.codes) for c in ("sex", "o", "g"))
        b = pm.Normal("b", 0, 1, shape=(2, 3))
        pm.Categorical("o_", logit_p=b[sex], observed=o)
        p = pm.Beta("p", 2, 2, shape=3)
        pm.Bernoulli("g_", p[o], observed=g)
    return model


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_categories_and_a_level_that_nobody_holds():
    """Densities, synthesis and evidence of given draws, each by hand."""
    rng = np.random.default_rng(21)
    table = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], 40),
            "o": pd.Categorical.from_codes(
                rng.integers(0, 2, 40), ["lo", "mid", "hi"], ordered=True
            ),
            "g": rng.random(40) < 0.4,
        }
    )
    theta = {"b": rng.normal(size=(60, 2, 3)), "p": rng.beta(2, 2, (60, 3))}
    fit = fit_of_draws(build_categories, ["o", "g"], table, theta)
    sex, o = (table["sex"] == "m").astype(int).to_numpy(), table["o"].cat.codes.to_numpy()

    def log_p(o, g, rows=slice(None)):
        """By hand, shape (H, rows)."""
        logits = theta["b"][:, sex[rows]]
        log_o = np.take_along_axis(logits, np.asarray(o)[None, :, None], axis=2)[:, :, 0]
        log_o = log_o - np.log(np.exp(logits).sum(axis=2))
        return log_o + stats.bernoulli.logpmf(g, theta["p"][:, o])

    found = fit.posterior.engine.log_p(fit.microdata.codes, theta, ("o", "g"))
    assert np.abs(found - log_p(o, table["g"].to_numpy())).max() < 1e-10
    release = fit.synthesize(10, random_seed=23)
    assert {v for Z in release.datasets for v in Z["o"]} == {"lo", "mid", "hi"}
    assert all(Z["g"].dtype == bool and Z["o"].dtype == table["o"].dtype for Z in release.datasets)
    one = replace(fit.synthesize(1, random_seed=24), draw_index=None)
    risk = br.attribute_risk(
        fit, one, guesses=br.Neighbourhood(2), targets=4, evidence="importance", random_seed=25
    )
    assert risk.n_guesses == 6
    Z = one.datasets[0]
    log_z = log_p(Z["o"].cat.codes.to_numpy(), Z["g"].to_numpy()).sum(axis=1)
    for i, u in zip(risk.index, risk.case, strict=True):
        log_w = np.stack([log_p([a], [g], [i])[:, 0] for a, g in risk.guesses[:, u].astype(int)])
        log_w = log_w - log_w[risk.truth[u]]
        exact = logsumexp(log_w + log_z, axis=1) - logsumexp(log_w, axis=1)
        exact = exact - exact[risk.truth[u]]
        assert np.abs(risk.log_evidence[0, :, u] - exact).max() < 1e-9
