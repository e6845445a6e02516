"""Record weights of the user's own PyMC model and of trees: closed forms, enumeration, limits."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats
from scipy.special import gammaln

import bayes_risk as br
from bayes_risk.data.microdata import Microdata
from bayes_risk.data.record_weights import SurveyWeights
from bayes_risk.models.pymc.fit import Condition, pseudo_posterior
from bayes_risk.models.trees.cart import draw_donors
from bayes_risk.models.trees.cart_evidence import LeafCounts
from bayes_risk.models.trees.tree import BAYESIAN, PLAIN, grow
from tests.helpers.against import agree, each, gaps
from tests.helpers.fits import encoded
from tests.helpers.pymc_models import build_two, engine_of, two_columns
from tests.models.test_cart import with_values
from tests.models.test_pymc_model import PRIOR_SD, SD, build_mean
from tests.models.test_tree_calibration import calibrated, moved
from tests.models.test_tree_calibration import with_values as with_target

pytestmark = pytest.mark.check

# --- the user's own model: a normal mean with known spread ---------------------------------------

N = 12
RNG = np.random.default_rng(11)
NUMBERS = pd.DataFrame({"y": RNG.normal(1, SD, N)})
ALPHA = np.where(np.arange(N) == 5, 2.0**-20, RNG.integers(1, 17, N) / 8)  # some above 1
GRID = br.Grid(additive=3, n=5)


@pytest.fixture(scope="module")
def mean():
    fit = br.models.PyMCModel(build_mean, columns=["y"]).fit(
        NUMBERS, weights=SurveyWeights(ALPHA), draws=500, tune=200, chains=4, random_seed=12
    )
    return fit, fit.synthesize(2, random_seed=13)


def normal_given(values, alpha):
    """Mean and precision of the pseudo-posterior of the mean."""
    precision = PRIOR_SD**-2 + alpha.sum() * SD**-2
    return (alpha @ values) * SD**-2 / precision, precision


def log_pseudo_predictive(values, alpha, y, w):
    """log E[N(y | mean, SD)^w]: N(y | mean, SD / sqrt(w)) and what that is short of."""
    centre, precision = normal_given(values, alpha)
    density = stats.norm.logpdf(y, centre, np.sqrt(SD**2 / w + 1 / precision))
    return density + 0.5 * (1 - w) * np.log(2 * np.pi * SD**2) - 0.5 * np.log(w)


def exact_of_mean(release, i, y_star):
    """Log evidence of all data sets, shape (G,)."""
    y = NUMBERS["y"].to_numpy()
    rest, alpha = np.delete(y, i), np.delete(ALPHA, i)
    total = 0.0
    for Z in release.datasets:
        values, powers = np.append(rest, Z["y"]), np.append(alpha, np.ones(N))
        total = total + log_pseudo_predictive(values, powers, y_star, ALPHA[i])
        total = total - log_pseudo_predictive(rest, alpha, y_star, ALPHA[i])
    return total


@pytest.mark.parametrize(
    ("evidence", "targets"),
    [
        pytest.param("predictive", None, marks=pytest.mark.check),
        pytest.param("refit", [2, 5], marks=pytest.mark.check),
        ("importance", [3]),
    ],
)
def test_own_model_equals_the_closed_form(mean, evidence, targets):
    fit, release = mean
    risk = br.attribute_risk(
        fit, release, guesses=GRID, targets=targets, evidence=evidence, random_seed=14
    )
    agree(risk, lambda i, guesses: exact_of_mean(release, i, guesses[:, 0]))
    if evidence == "predictive":  # precise enough to tell powers from none
        assert risk.reliable.all() and risk.mcse_log_evidence.max() < 0.1
        flat, others = np.abs(risk.log_evidence.sum(axis=0))[:, risk.case].T[[5, 2]].max(axis=1)
        assert flat < 1e-4 < 0.1 < others


def test_own_model_s_draws_are_of_the_pseudo_posterior(mean):
    fit, _ = mean
    centre, precision = normal_given(NUMBERS["y"].to_numpy(), ALPHA)
    z = (fit.posterior.theta["mean"] - centre) * np.sqrt(precision)
    ess = fit.diagnostics["min_ess"]
    assert abs(z.mean()) < 4 / np.sqrt(ess)
    assert abs(z.var() - 1) < 4 * np.sqrt(2 / ess)
    assert "survey weights from" in fit.mechanism(encoded(fit, fit.synthesize(1, random_seed=1)))


def build_share(table):
    with pm.Model() as model:
        y = pm.Data("y", table["y"].cat.codes)
        pm.Bernoulli("y_", pm.Beta("p", 0.5, 1.5), observed=y)
    return model


def test_beta_bernoulli_with_powers():
    """E[p^w] / E[(1-p)^w], p ~ Beta, after the release over the same before."""
    y, z = np.array([0, 1, 1, 0, 1, 0]), np.array([1, 1, 0, 1, 1, 1])
    alpha = np.array([2.0, 0.5, 0.25, 1.75, 0.125, 1.375])
    table, released = (
        pd.DataFrame({"y": pd.Categorical.from_codes(c, ["n", "y"])}) for c in (y, z)
    )
    fit = br.models.PyMCModel(build_share, columns=["y"]).fit(
        table, weights=SurveyWeights(alpha), draws=500, tune=150, chains=4, random_seed=1
    )
    np.testing.assert_array_equal(fit.weights, alpha)
    release = br.Release(datasets=[released], synthesized=["y"])
    risk = br.attribute_risk(fit, release, random_seed=2, refit_budget=0, target_mcse=0.1)
    assert len(set(risk.case)) == 6  # equal values of other weight are other cases

    def log_odds(a, b, w):
        return gammaln(a + w) - gammaln(a) - gammaln(b + w) + gammaln(b)

    refit = br.attribute_risk(fit, release, random_seed=3, evidence="refit", targets=[1])
    told = 0
    for i in range(6):
        rest = np.arange(6) != i
        a, b = 0.5 + alpha[rest] @ y[rest], 1.5 + alpha[rest] @ (1 - y[rest])
        exact = log_odds(a + z.sum(), b + (1 - z).sum(), alpha[i]) - log_odds(a, b, alpha[i])
        u = risk.case[i]
        other = int(1 - risk.truth[u])
        found = risk.log_evidence[0, other, u] * (1 if y[i] == 0 else -1)
        error = risk.mcse_log_evidence[other, u]
        assert abs(found - exact) < 4 * error
        if i in refit.index:
            again = refit.log_evidence[0, 1 - refit.truth[0], 0] * (1 if y[i] == 0 else -1)
            assert abs(again - exact) < 4 * refit.mcse_log_evidence[1 - refit.truth[0], 0]
        told += abs(found - log_odds(a + z.sum(), b + (1 - z).sum(), 1) + log_odds(a, b, 1)) / error
    assert told > 6 * 4  # one power for all would be seen


def test_the_potential_takes_back_what_is_too_much():
    """Two columns, the second given the first: log p of the model changes by (w - 1) log p."""
    table = two_columns()
    engine = engine_of(build_two, ["x", "k"], table)
    y, n = engine.builder.microdata.codes, len(table)
    power = np.round(np.random.default_rng(3).uniform(0.1, 3, n), 2)
    nothing = Condition(y=y, z=(), replaced=np.zeros(n, dtype=bool), columns=())
    weighted = pseudo_posterior(engine, dataclasses.replace(nothing, power=power))
    plain = pseudo_posterior(engine, nothing)
    assert not plain.potentials
    point = plain.initial_point(random_seed=1)
    logps = [m.compile_logp(mode="FAST_COMPILE")(point) for m in (weighted, plain)]
    log_p = engine.log_p(y, _parameters(plain, point), engine.builder.columns)[0]
    np.testing.assert_allclose(logps[0] - logps[1], (power - 1) @ log_p, rtol=1e-9)


def _parameters(model, point):
    """Theta at a point of the sampler's scale, one draw."""
    names = [rv.name for rv in model.free_RVs]
    inputs = model.replace_rvs_by_values(model.free_RVs)
    values = pm.compile(model.value_vars, inputs)(*(point[v.name] for v in model.value_vars))
    return {name: np.asarray(value)[None] for name, value in zip(names, values, strict=True)}


def test_own_model_with_all_weights_one_is_the_model_itself():
    model = br.models.PyMCModel(build_mean, columns=["y"])
    fits = [
        model.fit(NUMBERS, weights=w, draws=20, tune=30, chains=1, random_seed=3)
        for w in (None, np.ones(N))
    ]
    assert fits[1].weights is None
    for name, draws in fits[0].posterior.theta.items():
        np.testing.assert_array_equal(draws, fits[1].posterior.theta[name])


def build_mixed(table):
    with pm.Model() as model:
        place = pm.Bernoulli("place", 0.5)
        pm.Normal("y_", 2.0 * place, SD, observed=pm.Data("y", table["y"]))
    return model


@pytest.mark.slow
def test_a_discrete_parameter_under_weights():
    """A global one of two values: its share of draws against Bayes' rule with powers."""
    fit = br.models.PyMCModel(build_mixed, columns=["y"]).fit(
        NUMBERS, weights=SurveyWeights(ALPHA / 4), draws=2000, tune=100, chains=2, random_seed=2
    )
    y, alpha = NUMBERS["y"].to_numpy(), ALPHA / 4
    log_p = [alpha @ stats.norm.logpdf(y, centre, SD) for centre in (0.0, 2.0)]
    p = np.exp(log_p[1] - np.logaddexp(*log_p))
    assert 0.01 < p < 0.99
    found = fit.posterior.theta["place"]
    assert abs(found.mean() - p) < 4 * np.sqrt(p * (1 - p) / fit.diagnostics["min_ess"])


@pytest.mark.slow
def test_own_model_goes_round_the_loop():
    """The weights of the first audit are those of the second fit."""
    df = pd.DataFrame({"y": [5.0, *NUMBERS["y"][:5]]})
    result = br.reweight(
        br.models.PyMCModel(build_mean, columns=["y"]),
        df,
        rounds=1,
        random_seed=1,
        fit={"draws": 1000, "tune": 500, "chains": 2},
        synthesis={"m": 4},
        audit={"guesses": br.Grid(additive=4, n=5)},
    )
    table = result.records
    first = result.rounds[0].risk
    assert len(result.rounds) == 2 and table["weight"].max() < 1
    np.testing.assert_array_equal(result.fit.weights, table["weight"])
    np.testing.assert_allclose(table["weight"], br.LinearWeights()(first, np.ones(6)), atol=1e-8)
    assert "record weights from" in result.risk.assumptions["synthesis"]


def build_row_effects(table):
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, 1, shape=len(table))
        pm.Normal("y_", effect, SD, observed=pm.Data("y", table["y"]))
    return model


def test_a_parameter_for_every_record_is_refused():
    model = br.models.PyMCModel(build_row_effects, columns=["y"])
    with pytest.raises(br.ModelError, match="'effect' has a value for every row"):
        model.fit(NUMBERS, weights=SurveyWeights(ALPHA), draws=10, chains=2)


# --- trees ---------------------------------------------------------------------------------------

GUESSES = {"a": br.Levels(), "num": br.Grid(values=range(20, 26)), "b": br.Levels()}


def people(n=24, seed=1):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({"sex": rng.choice(list("fm"), n), "a": rng.choice(list("xyz"), n)})
    return df.assign(num=rng.integers(20, 26, n), b=rng.choice(list("pqr"), n))


def powers(n=24, seed=5):
    """Some above 1, as survey weights are."""
    return np.random.default_rng(seed).integers(1, 33, n) / 16


def urn(mass, shown, kind):
    """log p of values shown, draw by draw: an urn, Polya's if each draw adds one of its kind."""
    mass, total = dict(mass), 0.0
    for v in shown:
        if v not in mass:
            return -np.inf
        total += np.log(mass[v] / sum(mass.values()))
        mass[v] += kind == BAYESIAN
    return total


def by_urns(fit, release, i, guess):
    """log p(Z | y with record i replaced), every node and data set draw by draw."""
    codes, total = fit.microdata.codes.copy(), 0.0
    codes[i, 1:] = guess
    tables = [release.codes(fit.microdata, l) for l in range(release.m)]
    for tree in fit.trees:
        here = with_values(tree, codes)
        for z in tables:
            node = tree.node(z)
            for k in np.unique(node):
                donors = here.donors[here.begin[k] : here.end[k]]
                held, w = codes[donors, tree.column], fit.weights[donors]
                mass = {v: w[held == v].sum() for v in held}
                total += urn(mass, z[node == k, tree.column], fit._kind(fit.parameters[0]))
    return total


@pytest.mark.parametrize(("bootstrap", "seed"), [("bayesian", 0), ("none", 2)])
def test_weighted_leaves_are_urns(bootstrap, seed):
    model = br.models.CART(["a", "num", "b"], min_leaf=3, bootstrap=bootstrap)
    fit = model.fit(people(), weights=SurveyWeights(powers()), random_seed=seed)
    release = fit.synthesize(m=2, random_seed=seed)
    risk = br.attribute_risk(fit, release, guesses=GUESSES)
    assert risk.assumptions["evidence"].startswith("exact")
    assert "survey weights from" in risk.assumptions["synthesis"]
    some = range(0, 24, 5)
    gap, _ = gaps(risk, each(lambda i, g: by_urns(fit, release, i, g)), some)
    possible = np.isfinite(risk.log_evidence[:, :, risk.case[some]].sum(axis=0))
    assert np.abs(gap).max() < 1e-9 and possible.any() and not possible.all()


@pytest.mark.parametrize("kind", [BAYESIAN, PLAIN], ids=["bayesian", "plain"])
def test_draws_from_weighted_leaves_have_the_density_of_the_evidence(kind):
    """All values that two rows can show, in a leaf of four records: frequencies against log p."""
    data = Microdata.from_frame(pd.DataFrame({"x": list("ffmm"), "b": list("pqqr")}))
    alpha, times, rng = np.array([0.25, 3.0, 0.125, 0.0625]), 8000, np.random.default_rng(4)
    tree = grow(data, 1, np.array([0]), min_leaf=4, seed=0, weights=alpha)
    rows, b = np.zeros(2, dtype=np.int64), data.codes[:, 1].astype(np.int64)
    drawn = np.stack([b[draw_donors(tree, rows, kind, rng, alpha)] for _ in range(times)])
    total, without = 0.0, 0.0
    for pair in itertools.product(range(3), repeat=2):
        shown = LeafCounts.from_tree(tree, b, rows, np.array(pair), alpha)
        p = np.exp(shown.log_p(kind))
        hits = (drawn == pair).all(axis=1).sum()
        assert abs(hits - times * p) < 4 * np.sqrt(times * p * (1 - p))
        total += p
        without += p * (2 not in pair)
    np.testing.assert_allclose(total, 1.0, rtol=1e-12)
    w, rest = (
        alpha[3],
        alpha[:3].sum(),
    )  # the third value is one record's own: how often it stays in
    log_not_shown = gammaln(rest + 2) + gammaln(rest + w) - gammaln(rest) - gammaln(rest + w + 2)
    exact = np.exp(log_not_shown) if kind == BAYESIAN else (rest / (rest + w)) ** 2
    np.testing.assert_allclose(without, exact, rtol=1e-12)


def test_tiny_weights_do_not_underflow():
    """All weights of a leaf near 0: its values are those of one record, drawn by the weights."""
    data = Microdata.from_frame(pd.DataFrame({"x": list("fm"), "b": list("pq")}))
    alpha, times, rng = np.array([1.0, 3.0]) * 2.0**-25, 2000, np.random.default_rng(1)
    tree = grow(data, 1, np.array([0]), min_leaf=2, seed=0, weights=alpha)
    rows = np.zeros(5, dtype=np.int64)
    drawn = np.stack([draw_donors(tree, rows, BAYESIAN, rng, alpha) for _ in range(times)])
    assert (drawn == drawn[:, :1]).all()
    assert abs(drawn[:, 0].mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / times)


def test_weighted_trees_split_as_if_records_came_more_often():
    """Weights k / 2 against k copies of each record: the same splits and orders of levels."""
    rng = np.random.default_rng(2)
    df, copies = people(60, seed=7), rng.integers(1, 5, 60)
    for numbers, outcome in ([], "b"), (["num"], "num"):
        one = Microdata.from_frame(df, numbers=numbers)
        many = Microdata.from_frame(
            df.loc[df.index.repeat(copies)].reset_index(drop=True), numbers=numbers
        )
        column = one.columns.index(outcome)
        others = np.array([j for j in range(4) if j != column])
        a = grow(one, column, others, min_leaf=1, seed=0, weights=copies / 2)
        b = grow(many, column, others, min_leaf=1, seed=0)
        plain = grow(one, column, others, min_leaf=1, seed=0)
        np.testing.assert_array_equal(a.feature, b.feature)
        np.testing.assert_array_equal(a.threshold, b.threshold)
        assert not np.array_equal(a.feature, plain.feature)
        for j, rank in a.ranks.items():
            np.testing.assert_array_equal(rank, b.ranks[j])


def test_trees_with_all_weights_one_are_the_trees_themselves():
    model = br.models.CART(["a", "num", "b"], min_leaf=3)
    plain, ones = (model.fit(people(), weights=w, random_seed=1) for w in (None, np.ones(24)))
    assert ones.weights is None
    releases = [fit.synthesize(m=2, random_seed=3) for fit in (plain, ones)]
    for a, b in zip(*(r.datasets for r in releases), strict=True):
        pd.testing.assert_frame_equal(a, b)
    risks = [br.attribute_risk(plain, r, guesses=GUESSES) for r in releases]
    np.testing.assert_array_equal(risks[0].log_evidence, risks[1].log_evidence)


@pytest.mark.parametrize("bootstrap", ["bayesian", "none"])
def test_a_record_of_tiny_weight_changes_no_leaf(bootstrap):
    """Evidence is flat over values that others hold too; a value of its own is not shown."""
    n, tiny = 60, 2.0**-30
    df = pd.DataFrame({"x": [*"fm"] * (n // 2), "b": ["own", *np.tile(list("pqr"), n)[: n - 1]]})
    alpha = np.where(np.arange(n) == 0, tiny, powers(n))
    fit = br.models.CART(["b"], min_leaf=n, bootstrap=bootstrap).fit(
        df, weights=SurveyWeights(alpha), random_seed=1
    )
    release = fit.synthesize(m=3, random_seed=2)
    assert not any((Z["b"] == "own").any() for Z in release.datasets)
    risk = br.attribute_risk(fit, release)
    worth = np.abs(risk.log_evidence.sum(axis=0)).max(axis=0)[risk.case]
    assert worth[0] < 1e-6 < 1e-3 < worth[1]


def test_refit_counts_the_weights_too():
    """Trees grown anew on each guess, with the weights; p of the release by urns."""
    df, alpha = people(), powers()
    model = br.models.CART(["a", "b"], min_leaf=4)
    fit = model.fit(df, weights=SurveyWeights(alpha), random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    risk = br.attribute_risk(
        fit, release, guesses=br.Neighbourhood(1), targets=[3, 8], evidence="refit"
    )

    def exact(i, guess):
        codes = fit.microdata.codes.copy()
        codes[i, [1, 3]] = guess
        data = dataclasses.replace(fit.microdata, codes=codes)
        trees = tuple(
            grow(data, t.column, t.predictors, min_leaf=4, seed=0, weights=alpha) for t in fit.trees
        )
        anew = dataclasses.replace(fit, microdata=data, trees=trees)
        return by_urns(anew, release, i, codes[i, 1:])

    assert np.abs(gaps(risk, each(exact))[0]).max() < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bootstrap", ["bayesian", "none"])
def test_probabilities_from_two_trees_are_frequencies(bootstrap, weighted):
    """The guess of the first outcome also decides where the target stands in the second tree."""
    rng = np.random.default_rng(2)
    a, b = rng.integers(3, size=30), rng.integers(2, size=30)
    df = pd.DataFrame(
        {
            "a": pd.Categorical.from_codes(a, list("xyz")),
            "b": pd.Categorical.from_codes((a + b) % 2, ["no", "yes"]),
            "c": rng.normal(size=30) + a,
        }
    )
    model = br.models.CART(["a", "b"], min_leaf=4, bootstrap=bootstrap)
    alpha = SurveyWeights(powers(30, seed=9)) if weighted else None
    fit = model.fit(df, weights=alpha, random_seed=1)
    assert not weighted or (fit.weights[4] < 1) and fit.weights.min() < 0.2
    draw = lambda: moved(with_target(fit, {0: rng.integers(3), 1: rng.integers(2)}))  # noqa: E731
    calibrated(draw, [0, 1], br.Neighbourhood(2))


def test_what_trees_do_not_offer_with_weights_is_refused():
    with pytest.raises(br.InputError, match="leave smoothing or the weights out"):
        br.models.CART(["num"], smoothing="kde").fit(people(), weights=SurveyWeights(powers()))
    with pytest.raises(br.InputError, match="one weight a record"):
        br.models.CART(["num"]).fit(people(), weights=[0.5, 1.0])
    fit = br.models.CART(["b"]).fit(people(), weights=SurveyWeights(powers()), random_seed=1)
    with pytest.raises(br.InputError, match="record weights"):
        br.attribute_risk(
            fit, fit.synthesize(m=1, random_seed=1), intruder=br.Intruder(knows_records="none")
        )
