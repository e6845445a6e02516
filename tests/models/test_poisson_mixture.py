"""Poisson mixtures: declaration, PyMC model, releases of MP, MM and TCMM, input that is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayes_risk as br
from bayes_risk.data.variables import Number
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.models.mixture.business.competitors import deal, shared_groups, thresholds
from bayes_risk.models.mixture.columns import prior_of
from bayes_risk.models.mixture.poisson_mixture import PoissonMixture
from bayes_risk.models.mixture.posterior import log_masses
from bayes_risk.models.mixture.pymc_mixture import pymc_of_mixture
from bayes_risk.models.mixture.state import Rows
from tests.helpers.fits import encoded
from tests.oracles.poisson_oracles import log_label_masses

pytestmark = pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")
RATES = np.array([[2.0, 20.0], [40.0, 8.0], [900.0, 7e8]])


def plants(n=120, *, seed=1, exposure=False, covariate=False):
    """Three kinds of establishment; the third has counts near 1e9, and the first some zeros."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, n, p=[0.6, 0.35, 0.05])
    e = rng.uniform(0.5, 2.0, n) if exposure else np.ones(n)
    table = pd.DataFrame(rng.poisson(e[:, None] * RATES[kind]), columns=["workers", "wages"])
    table.index = [f"plant{i}" for i in range(n)]
    if covariate:
        table["region"] = np.array(list("nsw"))[np.where(rng.random(n) < 0.7, kind, 0)]
    if exposure:
        table["months"] = e
    return table


TABLE = plants()


@pytest.fixture(scope="module")
def fit():
    return PoissonMixture(6).fit(TABLE, draws=60, tune=60, chains=2, random_seed=1)


def of_kind(fit, kind, quantile=None):
    """The same draws under another declaration."""
    return replace(fit, model=PoissonMixture(6, kind=kind, quantile=quantile))


# --- declaration and input ---------------------------------------------------------------------


def spoiled(column, value, n=2):
    table = plants(exposure=True).astype({"workers": float})
    table.iloc[:n, list(table.columns).index(column)] = value
    return table


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (spoiled("workers", -77.0), {}, "'workers' is negative for 2 of 120 records"),
        (spoiled("workers", 77.25, 1), {}, "'workers' is fractional for 1 of 120 records"),
        (spoiled("workers", 2.0**60), {}, r"'workers' is above 2\*\*53 for 2 of"),
        (spoiled("months", 0.0), {"exposure": "months"}, "'months' is not positive for 2 of"),
        (spoiled("workers", np.nan), {}, "missing or infinite"),
        (TABLE, {"exposure": "months"}, "exposure names column 'months'"),
        (TABLE, {"covariates": ["region"]}, "covariates names column 'region'"),
        (TABLE, {"covariates": ["workers", "wages"]}, "no column of counts"),
        (TABLE, {"rate_prior": {"wage": (1.0, 1.0)}}, "rate_prior names column 'wage'"),
        (plants(covariate=True), {}, "'region'"),
        ([1, 2], {}, "give a pandas DataFrame"),
    ],
)
def test_tables_that_are_no_counts(table, options, message):
    with pytest.raises(br.InputError, match=message) as caught:
        PoissonMixture(3, **options).fit(table, draws=4, tune=0, chains=2)
    assert "77" not in str(caught.value), "messages hold no confidential value"


def test_coded_tables_are_checked_too():
    data = br.Microdata.from_frame(plants(covariate=True), numbers=["workers", "wages"])
    with pytest.raises(br.InputError, match="'region' is a category"):
        PoissonMixture(3).fit(data, draws=4, tune=0, chains=2)
    fit = PoissonMixture(3, covariates=["region"]).fit(
        data, draws=4, tune=0, chains=2, random_seed=1
    )
    lowest = [v.lowest for v in fit.microdata.variables if isinstance(v, Number)]
    assert lowest == [0.0, 0.0] and fit.counts == ["workers", "wages"]


def test_default_prior_says_an_order_of_magnitude_alone():
    table = pd.DataFrame({"a": [0, 0, 0], "b": [30, 40, 45], "c": [10, 10, 10]})
    fit = PoissonMixture(2).fit(table, sample=False)
    data, columns = fit.microdata, fit.columns
    prior = prior_of(PoissonMixture(2), data, columns)
    assert (prior.shape == 0.5).all()
    assert np.allclose(prior.shape / prior.rate, [1.0, 100.0, 10.0])
    prior = prior_of(PoissonMixture(2, rate_prior={"b": (2.0, 0.1)}), data, columns)
    assert (prior.shape[1], prior.rate[1]) == (2.0, 0.1) and prior.shape[0] == 0.5
    prior = prior_of(PoissonMixture(2, rate_prior=(2, 0.1)), data, columns)
    assert (prior.shape == 2).all() and (prior.rate == 0.1).all()


# --- the PyMC model ----------------------------------------------------------------------------


@pytest.mark.parametrize("zeros", [None, (0.7, 1.3)])
def test_log_density_of_the_model_equals_numpy(zeros):
    table = plants(30, exposure=True, covariate=True)[["months", "wages", "region", "workers"]]
    table["wages"] %= 50
    model = PoissonMixture(3, zeros=zeros, exposure="months", covariates=["region"])
    fit = model.fit(table, sample=False)
    data, columns = fit.microdata, fit.columns
    prior, rng = prior_of(model, data, columns), np.random.default_rng(2)
    found = columns.rows(data.codes, prior)
    made = pymc_of_mixture(data, columns, prior, found.units(), transformed=False)
    logp = made.compile_logp(mode="FAST_COMPILE")
    x, e, rows = found.counts, found.exposure, found.positions
    for _ in range(3):
        alpha, stick = rng.gamma(2.0), rng.uniform(0.1, 0.9, 2)
        rates, levels = rng.gamma(2.0, 10.0, (3, 2)), rng.dirichlet(np.ones(3), 3)
        point = {"alpha": alpha, "stick": stick, "rates": rates, "levels_region": levels}
        phi = np.ones((prior.width, 3))
        phi[:2], phi[4:7] = rates.T, levels.T
        total = stats.gamma(0.25, scale=4).logpdf(alpha) + stats.beta(1, alpha).logpdf(stick).sum()
        total += stats.gamma(prior.shape, scale=1 / prior.rate).logpdf(rates).sum()
        total += sum(stats.dirichlet(np.ones(3)).logpdf(row) for row in levels)
        if zeros is not None:
            point["zeros"] = rng.uniform(0.1, 0.9, (3, 2))
            phi[2:4] = point["zeros"].T
            total += stats.beta(*zeros).logpdf(point["zeros"]).sum()
        pi = np.append(stick, 1.0) * np.append(1.0, np.cumprod(1 - stick))
        total += logsumexp(log_label_masses(x, e, rows, pi, phi, prior), axis=1).sum()
        assert logp(point) == pytest.approx(total, rel=1e-10)


@pytest.mark.slow
def test_nuts_agrees_with_gibbs():
    table = pd.DataFrame({"a": [0, 2, 3, 9, 14]})
    model = PoissonMixture(2, concentration_prior=(1.0, 1.0), rate_prior=(1.0, 0.2))
    found = []
    for sampler, draws in (("gibbs", 2000), ("nuts", 300)):
        fit = model.fit(
            table, draws=draws, tune=300, chains=2, thin=3, sampler=sampler, random_seed=3
        )
        values = np.array([[0.0], [6.0], [12.0]])
        news = Rows(np.empty((3, 0), np.int32), values, np.ones((3, 1)), np.empty((3, 0)))
        p = np.exp(log_masses(news, fit.draws, fit.prior))
        ess, _ = ess_and_rhat(p, 2)
        found.append((p.mean(axis=0), p.std(axis=0) / np.sqrt(ess)))
    (a, s), (b, t) = found
    assert (np.abs(a - b) < 4 * np.hypot(s, t)).all()


def test_groups_and_variables_of_idata(fit):
    posterior = fit.idata["posterior"]
    assert set(posterior.data_vars) == {"alpha", "stick", "weights", "rates"}
    assert posterior["rates"].dims == ("chain", "draw", "class", "count")
    assert posterior["count"].values.tolist() == ["workers", "wages"]
    assert fit.draws.phi.shape == (120, 5, 6) and (fit.draws.phi[:, 2:4] == 0).all()
    assert fit.diagnostics["max_rhat"] < 1.2 and fit.n_draws == 120
    assert "120 records, 2 variables" in repr(fit) and len(repr(fit).splitlines()) <= 3


# --- MP ------------------------------------------------------------------------------------------


def test_fresh_components_have_the_mixtures_moments(fit):
    release = fit.synthesize(100, parameters="independent", random_seed=5)
    n = len(TABLE)
    assert release.classes == "new" and len(set(release.draw_index)) == 100
    means = np.stack([d.to_numpy().mean(axis=0) for d in release.datasets])
    pi, phi = fit.draws.pi[list(release.draw_index)], fit.draws.phi[list(release.draw_index), :2]
    expected = np.einsum("lpk,lk->lp", phi, pi)
    variance = np.einsum("lpk,lk->lp", phi + phi**2, pi) - expected**2
    error = np.sqrt(variance.sum(axis=0) / n) / 100
    assert (np.abs(means.mean(axis=0) - expected.mean(axis=0)) < 4 * error).all()


def test_own_components_keep_a_record_near_itself(fit):
    release = fit.synthesize(1, classes="own", random_seed=5)
    made = release.datasets[0]
    assert release.classes == "own" and release.groups is None
    assert made.index.equals(TABLE.index) and (made.dtypes == TABLE.dtypes).all()
    large = TABLE["wages"] > 1e6
    assert ((made["wages"] > 1e6) == large).all()
    release = fit.synthesize(1, ["workers"], classes="own", random_seed=5)
    assert (release.datasets[0]["wages"] == TABLE["wages"]).all()
    assert tuple(release.synthesized) == ("workers",)


def test_structural_zeros_and_exposure_reach_the_release():
    rng = np.random.default_rng(6)
    e = rng.uniform(0.5, 2.0, 400)
    x = rng.poisson(30 * e) * (rng.random(400) < 0.7)
    fit = PoissonMixture(1, zeros=(1.0, 1.0), exposure="e").fit(
        pd.DataFrame({"x": x, "e": e}), draws=20, tune=20, chains=2, random_seed=1
    )
    made = fit.synthesize(10, random_seed=2)
    z = np.stack([d["x"] for d in made.datasets])
    assert abs((z == 0).mean() - (x == 0).mean()) < 4 * np.sqrt(0.21 / 400 + 0.21 / 4000)
    assert z[z > 0].mean() == pytest.approx(
        (z > 0).mean(axis=0) @ (30 * e) / (z > 0).mean(axis=0).sum(), rel=0.03
    )
    assert all((d["e"] == e).all() for d in made.datasets)
    alive = z[:, e > 1.5]
    assert alive[alive > 0].mean() == pytest.approx(30 * e[e > 1.5].mean(), rel=0.05)
    kept = np.stack([d["x"] for d in fit.synthesize(20, classes="own", random_seed=3).datasets])
    assert (kept == 0).mean() == pytest.approx((x == 0).mean(), abs=4 * np.sqrt(0.25 / 400))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": "old"}, "classes='old'"),
        ({"quantile": 0.9}, "no meaning for MP"),
        ({"m": 0}, "m=0"),
        ({"m": 61}, "exceeds the 60 draws of a chain"),
        ({"m": 121, "parameters": "independent"}, "exceeds the 120 draws"),
        ({"columns": ["wage"]}, "'wage'"),
    ],
)
def test_syntheses_that_are_refused(fit, options, message):
    with pytest.raises(br.InputError, match=message):
        fit.synthesize(**options)


def test_new_components_are_drawn_given_what_stays():
    """p(z | covariate, kept count): the third kind alone has wages near 1e9."""
    table = plants(200, covariate=True)
    model = PoissonMixture(6, covariates=["region"])
    fit = model.fit(table, draws=60, tune=100, chains=2, random_seed=1)
    release = fit.synthesize(40, ["workers"], random_seed=1)
    made = np.stack([d["workers"] for d in release.datasets])
    large = (table["wages"] > 1e6).to_numpy()
    assert release.classes == "new" and made[:, large].min() > 500 > made[:, ~large].max()
    for d in release.datasets:
        assert d[["wages", "region"]].equals(table[["wages", "region"]])
    release = fit.synthesize(60, random_seed=2)  # given the region alone
    where = (table["region"] == "s").to_numpy()
    made = np.stack([d["workers"] for d in release.datasets])[:, where]
    chances = []
    for h in release.draw_index:
        pi, phi = fit.draws.pi[h], fit.draws.phi[h]
        s = fit.prior.starts[0] + list(fit.microdata.variables[2].labels).index("s")
        weight = pi * phi[s] / (pi * phi[s]).sum()
        chances.append(weight @ stats.poisson.cdf(20, phi[0]))
    found, n = (made <= 20).mean(), made.size
    assert abs(found - np.mean(chances)) < 4 * np.sqrt(0.25 / n)


# --- MM and TCMM ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("kind", "quantile"), [("MM", None), ("TCMM", 0.5), ("TCMM", 0.97)])
def test_every_margin_of_every_group_is_kept_to_the_unit(fit, kind, quantile, seed):
    release = of_kind(fit, kind, quantile).synthesize(3, random_seed=seed)
    assert release.groups.shape == (3, 120, 2) and release.classes == "own"
    for made, groups in zip(release.datasets, release.groups, strict=True):
        assert (made.sum() == TABLE.sum()).all() and (made.dtypes == TABLE.dtypes).all()
        for j, column in enumerate(TABLE):
            kept = made[column].groupby(groups[:, j]).sum()
            assert (kept == TABLE[column].groupby(groups[:, j]).sum()).all()


def test_totals_of_huge_counts_and_of_nothing():
    rng = np.random.default_rng(7)
    counts = np.column_stack([rng.integers(0, 10**9, 60), np.zeros(60), [2**50, *[0] * 59]])
    groups = np.repeat(rng.integers(0, 9, (60, 1)), 3, axis=1)
    exposure = rng.uniform(0.1, 9.0, (60, 3))
    out = deal(rng, counts.astype(float), exposure, groups)
    for group in range(9):
        mine = groups[:, 0] == group
        assert (out[mine].sum(axis=0) == counts[mine].astype(np.int64).sum(axis=0)).all()
    assert (out >= 0).all() and (out[:, 1] == 0).all()


def test_deals_are_multinomial_by_exposure():
    rng, exposure = np.random.default_rng(8), np.array([[1.0], [2.0], [5.0]])
    counts, groups = np.array([[10.0], [0.0], [30.0]]), np.zeros((3, 1), np.int64)
    draws = np.stack([deal(rng, counts, exposure, groups)[:, 0] for _ in range(4000)])
    chance = exposure[:, 0] / 8
    error = np.sqrt(40 * chance * (1 - chance) / 4000)
    assert (np.abs(draws.mean(axis=0) - 40 * chance) < 4 * error).all()
    assert np.allclose(draws.var(axis=0), 40 * chance * (1 - chance), rtol=0.1)


def test_tails_are_apart_column_by_column(fit):
    release = of_kind(fit, "TCMM", 0.9).synthesize(1, random_seed=1)
    for j, column in enumerate(TABLE):
        tail = release.groups[0, :, j] == -1
        limit = thresholds(TABLE.to_numpy(float), 0.9)[j]
        assert (tail == (TABLE[column] > limit)).all() and 0 < tail.sum() <= 12
        assert TABLE[column][~tail].max() == limit, "whoever knows the others knows the threshold"
    both = release.groups[0][(release.groups[0] >= 0).all(axis=1)]
    assert (both[:, 0] == both[:, 1]).all(), "the others keep their components"
    other = of_kind(fit, "TCMM", 0.9).synthesize(1, quantile=0.5, random_seed=1)
    assert (other.groups == -1).sum() > (release.groups == -1).sum()
    with pytest.raises(br.InputError, match="quantile is missing, and TCMM"):
        of_kind(fit, "TCMM").synthesize(1)
    with pytest.raises(br.InputError, match="quantile=2 is outside"):
        of_kind(fit, "TCMM").synthesize(1, quantile=2)
    with pytest.raises(br.InputError, match="does not go with MM"):
        of_kind(fit, "MM").synthesize(1, classes="new")


def test_ties_at_the_threshold_stay_below_it():
    counts = np.array([[1.0], [5.0], [5.0], [5.0], [9.0]])
    assert thresholds(counts, 0.5) == [5.0]
    groups = shared_groups(np.array([3, 3, 4, 4, 4]), counts, 0.5)
    assert groups[:, 0].tolist() == [3, 3, 4, 4, -1]
    assert shared_groups(np.array([0, 1]), np.array([[2.0], [2.0]]), 0.5).tolist() == [[0], [1]]


def test_singletons_are_named():
    table = pd.DataFrame(
        {"x": [10, 11, 9, 10, 5000, 10**6, 10**6 + 10], "z": [1, 2, 1, 2, 1, 2, 1]},
        index=list("abcdefg"),
    )
    fit = PoissonMixture(5, kind="MM").fit(table, draws=20, tune=200, chains=2, random_seed=2)
    release = fit.synthesize(2, random_seed=1)
    found = fit.singletons(release)
    assert list(found.columns) == ["release", "column", "record", "members"]
    for l, made in enumerate(release.datasets, start=1):
        for column in table:
            mine = found[(found["release"] == l) & (found["column"] == column)]
            alone = mine.loc[mine["members"] == 1, "record"]
            assert (made.loc[alone, column] == table.loc[alone, column]).all()
            for j, name in enumerate(release.synthesized):
                sizes = pd.Series(release.groups[l - 1, :, j], table.index)
                small = sizes.map(sizes.value_counts()) <= 2
                if name == column:
                    assert set(mine["record"]) == set(table.index[small])
    assert {"e"} <= set(found.loc[found["members"] == 1, "record"])
    with pytest.raises(br.InputError, match="has no groups"):
        fit.singletons(replace(release, groups=None))


def test_mechanisms_are_said(fit):
    assert "fresh component" in fit.mechanism(encoded(fit, fit.synthesize(1, random_seed=1)))
    own = fit.synthesize(1, classes="own", random_seed=1)
    assert "own confidential values" in fit.mechanism(encoded(fit, own))
    deal = of_kind(fit, "TCMM", 0.9)
    assert "tails apart" in deal.mechanism(encoded(deal, deal.synthesize(1, random_seed=1)))
