"""The posterior over all values: against direct enumeration, neighbourhoods, and by search."""

import itertools
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayes_risk as br
from bayes_risk._core.batches import variance_of_estimate
from bayes_risk.evidence import products
from bayes_risk.evidence.contract import Targets
from bayes_risk.evidence.evidence import combined_ratios
from bayes_risk.evidence.leave_one_out import ratio_of_fit
from bayes_risk.evidence.methods import choose_method
from bayes_risk.evidence.problem import AuditProblem, cases_of
from bayes_risk.evidence.runner import EvidenceRunner
from bayes_risk.models.mixture import posterior as latent_predictive
from bayes_risk.risk.full_table import tables
from bayes_risk.risk.full_table.likeliest import best_first, searched
from bayes_risk.risk.full_table.risk import TABLES
from bayes_risk.risk.full_table.tables import GuessTable, thinned
from tests.helpers.numeric_results import log_prior

pytestmark = pytest.mark.check

LEVELS = (3, 2, 4, 3)
NAMES = ["a", "b", "c", "d"]
DOUBT = "ignore::bayes_risk.UnreliableWeightsWarning"


def table_of(n, seed):
    """Two kinds of people, and a few rare combinations."""
    rng = np.random.default_rng(seed)
    kind = rng.random(n) < 0.6
    columns = {}
    for name, d in zip(NAMES, LEVELS, strict=True):
        p, q = rng.dirichlet(np.full(d, 0.5)), rng.dirichlet(np.full(d, 0.5))
        codes = np.where(kind, rng.choice(d, n, p=p), rng.choice(d, n, p=q))
        columns[name] = pd.Categorical.from_codes(codes, [f"{name}{c}" for c in range(d)])
    return pd.DataFrame(columns, index=pd.Index(np.arange(n) + 100))


EVERY = pd.DataFrame(
    list(
        itertools.product(
            *([f"{n}{c}" for c in range(d)] for n, d in zip(NAMES, LEVELS, strict=True))
        )
    ),
    columns=NAMES,
)
RELEASES = {
    "whole": {"m": 2},
    "three": {"m": 3},
    "part": {"m": 2, "columns": ["b", "c", "d"]},
    "own classes": {"m": 2, "classes": "own"},
    "own classes, part": {"m": 2, "columns": ["c", "a"], "classes": "own"},
    "one": {"m": 1},
}


@pytest.fixture(scope="module")
def fit():
    return br.models.DPMPM(n_classes=6).fit(
        table_of(120, 1), draws=60, tune=60, chains=2, thin=2, random_seed=1
    )


def enumerated(fit, release, *, intruder=None, n=7, known=None):
    """Posteriors, and the cases of n targets with all values of the unknown columns as guesses."""
    if intruder is None:
        intruder = br.Intruder() if known is None else br.Intruder(knows_records=known)
    rows = np.random.default_rng(2).choice(len(fit.microdata.codes), n, replace=False)
    rng = np.random.default_rng(0)
    columns = [c for c in release.synthesized if c not in intruder.knows_columns]
    listed = br.Listed(EVERY[columns].drop_duplicates())
    labels = list(fit.microdata.index[rows])
    problem = AuditProblem.prepare(fit, release, intruder, listed, labels, choose=rng, knowing=rng)
    cases, _ = cases_of(problem.release, intruder, listed, rows, known)
    problem, method = replace(problem, known=known), choose_method(problem, question=TABLES)
    runner = EvidenceRunner(problem, method.name, np.random.default_rng(3), 1, None)
    return runner.fits(cases), cases


def predictive_evidence(posteriors, cases, rngs):
    """As the plan gathers it."""
    pairs = zip(posteriors, rngs, strict=True)
    ratios = (ratio_of_fit(lambda p=p: p, cases, rng, 1) for p, rng in pairs)
    return combined_ratios(ratios, len(posteriors) - 1, cases)


def both_ways(fit, release, prior="uniform", **how):
    """The table by products, and by the evidence of every listed value, from the same draws."""
    posteriors, cases = enumerated(fit, release, **how)
    seeds = [np.random.SeedSequence(k) for k in range(len(posteriors))]
    rngs = [np.random.default_rng(seed) for seed in seeds]
    found = predictive_evidence(posteriors, cases, rngs)
    rngs = [np.random.default_rng(seed) for seed in seeds]
    each = zip(posteriors, rngs, strict=True)
    parts = [fit.tabulated(posterior, cases, rng=rng) for posterior, rng in each]
    grid = GuessTable.of(fit.microdata.n_levels[cases.columns])
    fits, found_of = tables.tabulated(
        parts, cases, fit.microdata, prior, grid, draws=10**6, keep=10
    )
    spreads = [SimpleNamespace(**of) for of in found_of]
    beliefs = log_prior(prior, fit.microdata, cases, None, found.base)
    log_p = beliefs + found.log_evidence.sum(axis=0)
    log_p -= np.logaddexp.reduce(log_p, axis=0)
    return SimpleNamespace(
        found=found, cases=cases, grid=grid, fits=fits, spreads=spreads, prior=beliefs, log_p=log_p
    )


# --- against direct enumeration --------------------------------------------------------------


@pytest.mark.filterwarnings(DOUBT)
@pytest.mark.parametrize("kind", RELEASES)
def test_table_is_the_posterior_of_all_values_listed(fit, kind):
    release = fit.synthesize(random_seed=4, **RELEASES[kind])
    both = both_ways(fit, release)
    p, truth = np.exp(both.log_p), both.cases.guesses.truth
    assert len({s.n_values for s in both.spreads}) == 1 and both.spreads[0].n_values == len(p)
    for u, s in enumerate(both.spreads):
        cells = both.grid.cells(both.cases.guesses.codes[:, u])
        assert sorted(cells) == list(range(len(p)))
        assert np.isclose(s.log_probability, both.log_p[truth[u], u], atol=2e-5)
        assert np.isclose(s.log_prior, -np.log(len(p)))
        above = both.log_p[:, u] - both.log_p[truth[u], u]  # in single precision near ties are ties
        assert 1 + (above > 1e-4).sum() <= s.rank <= (above > -1e-4).sum()
        assert s.prior_rank == (1 + len(p)) / 2
        distance = (both.cases.guesses.codes[:, u] != both.cases.guesses.codes[truth[u], u]).sum(1)
        assert np.isclose(s.within_1, p[distance <= 1, u].sum(), rtol=1e-4)
        assert np.isclose(s.within_2, p[distance <= 2, u].sum(), rtol=1e-4)
        assert np.isclose(s.entropy, -(p[:, u] * both.log_p[:, u]).sum(), rtol=1e-4)
        assert np.isclose(s.eps, np.ptp(both.found.log_evidence.sum(axis=0)[:, u]), atol=1e-4)
        order = np.argsort(-both.log_p[:, u])[:10]
        assert np.allclose(s.best_log_probability, both.log_p[order, u], atol=2e-5)
        assert np.allclose(s.best_log_prior, both.prior[order, u])
        gaps = -np.diff(both.log_p[order, u])
        clear = np.flatnonzero(np.minimum(np.append(gaps, 1), np.append(1, gaps)) > 1e-4)
        assert (s.best[clear] == cells[order][clear]).all()


@pytest.mark.filterwarnings(DOUBT)
@pytest.mark.parametrize(
    "prior",
    ["predictive", "marginal", br.TruthFactor(7.0)],
    ids=["predictive", "marginal", "factor"],
)
def test_priors_are_those_of_listed_values(fit, prior):
    both = both_ways(fit, fit.synthesize(2, random_seed=4), prior)
    for u, s in enumerate(both.spreads):
        truth = both.cases.guesses.truth[u]
        assert np.isclose(s.log_probability, both.log_p[truth, u], atol=2e-5)
        assert np.isclose(s.log_prior, both.prior[truth, u], atol=2e-5)
        order = np.argsort(-both.log_p[:, u])[:10]
        assert np.allclose(s.best_log_prior, both.prior[order, u], atol=1e-4)
        above = (both.prior[:, u] > both.prior[truth, u] + 1e-4).sum()
        ties = (np.abs(both.prior[:, u] - both.prior[truth, u]) < 1e-4).sum()
        assert s.prior_rank == above + 0.5 * ties + 0.5


def test_error_is_that_of_the_batches_by_hand(fit):
    both = both_ways(fit, fit.synthesize(2, random_seed=4))
    p = np.exp(both.log_p)
    for u, s in enumerate(both.spreads):
        truth = both.cases.guesses.truth[u]
        dev = np.expm1(both.found.deviations[..., u].astype(float) / [[[-2]], [[1]], [[1]]])
        dev *= [[[-2]], [[1]], [[1]]]  # what the linear form sees; relative to the truth's
        by_hand = p[truth, u] * (dev[:, :, truth] - dev @ p[:, u])
        assert np.isclose(s.mcse, np.sqrt(variance_of_estimate(by_hand[..., None])[0]), rtol=0.15)
        assert np.isclose(s.mcse, np.sqrt(variance_of_estimate(s.deviations[..., None])[0]))
        assert np.isclose(s.mcse_log_odds, s.mcse / p[truth, u] / (1 - p[truth, u]), rtol=1e-3)


def test_table_contains_the_neighbourhood(fit):
    """From the same draws, the table restricted to neighbours of the truth and renormalised."""
    release = fit.synthesize(2, random_seed=4)
    both = both_ways(fit, release)
    posteriors, cases = enumerated(fit, release)
    near = br.Neighbourhood(1).of(fit.microdata, cases.profiles, cases.columns)
    seeds = [np.random.SeedSequence(k) for k in range(3)]
    rngs = [np.random.default_rng(seed) for seed in seeds]
    found = predictive_evidence(posteriors, replace(cases, guesses=near), rngs)
    p = np.exp(found.log_evidence.sum(axis=0))
    share = np.exp([s.log_probability for s in both.spreads]) / [s.within_1 for s in both.spreads]
    assert np.allclose(share, p[0] / p.sum(axis=0), rtol=1e-4)


def test_double_precision_where_cells_are_tiny(fit, monkeypatch):
    release = fit.synthesize(2, random_seed=4)
    single = both_ways(fit, release)
    monkeypatch.setattr(products, "SMALLEST", 1e300)
    double = both_ways(fit, release)
    for s, d, truth, log_p in zip(
        single.spreads, double.spreads, double.cases.guesses.truth, double.log_p.T, strict=True
    ):
        assert abs(d.log_probability - log_p[truth]) < 2e-6
        assert s.log_probability != d.log_probability


@pytest.mark.filterwarnings(DOUBT)
def test_columns_the_intruder_knows_make_the_table_smaller(fit):
    intruder = br.Intruder(knows_columns=["a", "c"])
    both = both_ways(fit, fit.synthesize(2, random_seed=4), intruder=intruder)
    assert both.grid.n_cells == 6
    for u, s in enumerate(both.spreads):
        assert np.isclose(s.log_probability, both.log_p[both.cases.guesses.truth[u], u], atol=2e-5)


@pytest.mark.filterwarnings(DOUBT)
@pytest.mark.parametrize("kind", ["whole", pytest.param("part", marks=pytest.mark.slow)])
def test_impossible_values_are_no_part_of_the_table(kind):
    rules = br.Impossible([{"a": ["a0"], "b": ["b0"]}, {"c": ["c1"], "d": ["d0"]}])
    fit = br.models.DPMPM(n_classes=6, impossible=rules).fit(
        table_of(120, 1), draws=60, tune=60, chains=2, thin=2, random_seed=1
    )
    both = both_ways(fit, fit.synthesize(random_seed=4, **RELEASES[kind]), "uniform")
    for u, s in enumerate(both.spreads):
        possible = both.prior[:, u] > -np.inf
        assert s.n_values == possible.sum() < len(possible)
        assert np.isclose(s.log_probability, both.log_p[both.cases.guesses.truth[u], u], atol=2e-5)
        assert np.isclose(s.log_prior, -np.log(s.n_values))
        assert s.prior_rank == (1 + s.n_values) / 2
        evidence = both.found.log_evidence.sum(axis=0)[possible, u]
        assert np.isclose(s.eps, np.ptp(evidence), atol=1e-4)
    with pytest.raises(br.InputError, match="structural zeros"):
        br.likeliest(fit, fit.synthesize(1, random_seed=4), targets=1)


# --- the audit as a whole --------------------------------------------------------------------


@pytest.fixture(scope="module")
def risk(fit):
    release = fit.synthesize(2, random_seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
        return br.full_table_risk(fit, release, targets=12, prior="uniform", random_seed=5, keep=6)


@pytest.mark.filterwarnings(DOUBT)
def test_audit_agrees_with_attribute_risk(fit, risk):
    """Other seeds, other chains: within four standard errors of the log odds."""
    release = fit.synthesize(2, random_seed=4)
    listed = br.attribute_risk(
        fit, release, guesses=br.Listed(EVERY), targets=list(risk.index), random_seed=77
    )
    p, q = risk.records["probability"], listed.records["probability"]
    se = np.hypot(risk.records["mcse"], listed.records["mcse"])
    assert (np.abs(p - q) < 4 * se).all() and (p > 0).all()


@pytest.mark.filterwarnings(DOUBT)
def test_any_number_of_threads_gives_the_same(fit, risk):
    release = fit.synthesize(2, random_seed=4)
    again = br.full_table_risk(
        fit, release, targets=12, prior="uniform", random_seed=5, keep=6, n_jobs=2
    )
    pd.testing.assert_frame_equal(again.records, risk.records, check_exact=True)


@pytest.mark.filterwarnings(DOUBT)
@pytest.mark.parametrize(("parameters", "few"), [("one-mode", True), ("independent", False)])
def test_few_chains_have_students_factor(monkeypatch, parameters, few):
    """Of led chains errors are wider by t than by the normal law, of others they are not."""
    table, run = table_of(40, 1), {"draws": 60, "tune": 20, "chains": 2, "random_seed": 1}
    fit = br.models.DPMPM(n_classes=8).fit(table, **run)
    release = fit.synthesize(2, parameters=parameters, random_seed=2)
    how = {"targets": 5, "random_seed": 3}
    wide = br.full_table_risk(fit, release, **how)
    monkeypatch.setattr("bayes_risk._core.batches.student_factor", lambda variance, n: 1.0)
    normal = br.full_table_risk(fit, release, **how)
    assert wide.few_chains == few and (wide.log_probability == normal.log_probability).all()
    of_mean = [normal.summary()["mcse"]["mean_probability"]]
    monkeypatch.undo()
    of_mean.append(wide.summary()["mcse"]["mean_probability"])
    of_odds = normal.mcse_log_odds, wide.mcse_log_odds
    for plain, wider in ((normal.mcse, wide.mcse), of_odds, of_mean):
        assert (np.asarray(plain) > 0).all()
        ratios = np.asarray(wider) / plain
        assert (ratios > 1.02).all() if few else (ratios == 1).all()


def test_result_says_what_it_holds(risk, tmp_path):
    table = risk.records
    assert list(table.index) == list(risk.index) and len(table) == 12
    assert ((table["rank_low"] <= table["rank"]) & (table["rank"] <= table["rank_high"])).all()
    assert (table["within_1"] <= table["within_2"]).all() and (table["within_2"] <= 1).all()
    assert np.allclose(table["n_effective"], np.exp(table["entropy"]))
    top = risk.top(risk.index[0], 6)
    assert list(top.columns) == [*NAMES, "prior", "probability", "distance", "is_truth"]
    assert top["probability"].iloc[0] == table["best"].iloc[0]
    assert top["distance"].iloc[0] == table["best_distance"].iloc[0]
    assert top["is_truth"].sum() == (table["rank"].iloc[0] <= 6)
    summary = risk.summary()
    assert summary.loc["values", "value"] == 72 and summary.loc["targets", "value"] == 12
    assert summary.loc["mean_probability", "value"] == table["probability"].mean()
    assert list(risk.worst(3)["probability"]) == sorted(table["probability"])[:-4:-1]
    assert "Among all 72 values of 4 columns" in repr(risk)
    risk.dataset.to_netcdf(tmp_path / "table.nc")
    with xr.open_dataset(tmp_path / "table.nc") as stored:
        assert np.array_equal(stored["rank"], table["rank"])
        assert stored["best_code"].shape == (6, 12, 4)
    axes = risk.plot()
    assert "72 values" in axes.get_xlabel()


@pytest.mark.filterwarnings(DOUBT)
@pytest.mark.parametrize(("m", "way"), [(1, "predictive"), (2, "independent-releases")])
def test_intruder_who_knows_half_of_the_records(fit, m, way):
    known = np.arange(120) % 2 == 0
    both = both_ways(fit, fit.synthesize(m, random_seed=4), known=known)
    assert both.cases.fitted.any() and not both.cases.fitted.all()
    for u, s in enumerate(both.spreads):
        assert np.isclose(s.log_probability, both.log_p[both.cases.guesses.truth[u], u], atol=2e-5)
    risk = br.full_table_risk(
        fit,
        fit.synthesize(m, random_seed=4),
        targets=2,
        intruder=br.Intruder(knows_records=0.5),
        random_seed=5,
    )
    assert "half of the records" in repr(risk)
    assert risk.assumptions["evidence"].startswith(way)


# --- the parts -------------------------------------------------------------------------------


def test_cells_and_neighbours():
    grid = GuessTable.of(np.array([3, 2, 4, 3]))
    every = np.array(list(itertools.product(*map(range, LEVELS))))
    assert (grid.cells(every) == np.arange(72)).all() and (grid.codes(np.arange(72)) == every).all()
    assert len(grid.half(True)) * len(grid.half(False)) == 72
    for codes in every[::17]:
        apart = (every != codes).sum(axis=1)
        assert sorted(grid.near(codes, 1)) == list(np.flatnonzero(apart <= 1))
        assert sorted(grid.near(codes, 2)) == list(np.flatnonzero(apart <= 2))


@pytest.mark.parametrize("known", [[], [1, 2, 5], [0, 1, 2, 3, 4, 5]])
def test_margins_over_the_table_count_the_known_records_alone(known):
    """Of each of two targets, by hand: (n_A(v) + 1) / (n_A + d), it itself left out."""
    df = pd.DataFrame({"a": list("xxyzxz"), "b": list("uvvuuu")})
    data, columns = br.Microdata.from_frame(df), np.array([0, 1])
    mask = np.isin(np.arange(6), known)
    guesses = br.Neighbourhood(1).of(data, data.codes[:2], columns)
    cases = Targets(
        profiles=data.codes[:2],
        record=np.arange(2),
        columns=columns,
        guesses=guesses,
        known=mask,
    )
    table = GuessTable.of(data.n_levels)
    for u in range(2):
        log_p = tables._log_prior("marginal", data, cases, u, table)(slice(None), np.zeros(0))
        seen = df[mask & (np.arange(6) != u)]
        for cell, (a, b) in enumerate(itertools.product("xyz", "uv")):
            by_hand = ((seen["a"] == a).sum() + 1) / (len(seen) + 3)
            by_hand *= ((seen["b"] == b).sum() + 1) / (len(seen) + 2)
            assert np.isclose(np.exp(log_p.reshape(-1)[cell]), by_hand)


def test_draws_are_thinned_evenly():
    batch = np.repeat(np.arange(4), 25)
    assert (thinned(batch, 100) == np.arange(100)).all()
    few = thinned(batch, 12)
    assert (np.bincount(batch[few]) == 3).all() and len(np.unique(few)) == 12
    assert list(few[:3]) == [0, 12, 24]


@pytest.mark.filterwarnings(DOUBT)
@pytest.mark.parametrize("distance", [2, 3, 4])
@pytest.mark.parametrize("kind", RELEASES)
def test_wide_guesses_are_those_reckoned_one_by_one(fit, kind, distance, monkeypatch):
    release = fit.synthesize(random_seed=4, **RELEASES[kind])
    posteriors, cases = enumerated(fit, release)
    near = br.Neighbourhood(distance).of(fit.microdata, cases.profiles, cases.columns)
    part = posteriors[-1].predictives(replace(cases, guesses=near), rng=np.random.default_rng(1))[0]
    weights = np.random.default_rng(2).normal(size=(len(part.batch), len(cases)))
    monkeypatch.setattr("bayes_risk.models.mixture.predictive_kernels.MAX_SQUARED_PLACES", 10**6)
    wide = part.log_sums(slice(None), weights)
    monkeypatch.setattr(latent_predictive, "wide_sums", lambda *which: None)
    assert np.allclose(wide, part.log_sums(slice(None), weights), rtol=0, atol=1e-11)


# --- the search ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixture(fit):
    both = both_ways(fit, fit.synthesize(1, random_seed=4), "predictive")
    part = both.fits[1]
    terms = part.part.terms(0, both.cases, fit.microdata.n_levels, part.log_v[:, 0], part.draws)
    return terms, both


def test_search_finds_the_likeliest_for_certain(mixture):
    terms, both = mixture
    found = best_first(terms, 8, 10_000, np.random.default_rng(1))
    assert found.complete
    p = np.sort(both.log_p[:, 0])[::-1]
    assert np.allclose(found.log_s - found.log_total, p[:8], atol=1e-9)
    assert np.isclose(found.log_bound - found.log_total, p[7], atol=1e-6)


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_bound_holds_for_what_a_short_search_left_out(mixture, nodes, monkeypatch):
    monkeypatch.setattr("bayes_risk.risk.full_table.likeliest.SAMPLE", 1)
    terms, both = mixture
    found = best_first(terms, 5, nodes, np.random.default_rng(1))
    every = np.array(list(itertools.product(*map(range, LEVELS))))
    log_s = terms.log_at(every)
    assert np.isclose(np.logaddexp.reduce(log_s), found.log_total)
    listed = {tuple(row) for row in found.codes}
    others = [s for row, s in zip(every.tolist(), log_s, strict=True) if tuple(row) not in listed]
    assert max(others) <= found.log_bound and not found.complete


def test_mass_not_found_and_rank_are_those_of_the_table(fit, mixture):
    _, both = mixture
    for k in (1, 10, 72):
        parts = [fit.part for fit in both.fits]
        out = searched(
            parts, both.cases, fit.microdata, "predictive", k, 10**6, 10_000,
            rng=np.random.default_rng(1),
        )  # fmt: skip
        out = [SimpleNamespace(**of) for of in out]
        for u, (one, s) in enumerate(zip(out, both.spreads, strict=True)):
            assert np.isclose(one.log_truth, s.log_probability, atol=2e-5)
            assert np.isclose(one.log_prior_truth, s.log_prior, atol=2e-5)
            p = np.exp(both.log_p[:, u])
            rest = np.sort(p)[::-1][k:].sum()
            rest -= p[both.cases.guesses.truth[u]] * (s.rank > k)
            assert np.isclose(one.unseen, rest, atol=1e-6)
            assert one.found == (s.rank <= k)
            assert one.rank == min(s.rank, k + 1)


@pytest.mark.filterwarnings(DOUBT)
def test_several_releases_bound_the_truth_from_above(fit):
    release = fit.synthesize(2, random_seed=4)
    for prior in ("predictive", "uniform"):
        both = both_ways(fit, release, prior)
        parts = [fit.part for fit in both.fits]
        out = searched(
            parts, both.cases, fit.microdata, prior, 15, 10**6, 10_000,
            rng=np.random.default_rng(1),
        )  # fmt: skip
        out = [SimpleNamespace(**of) for of in out]
        for one, s in zip(out, both.spreads, strict=True):
            assert one.log_truth >= s.log_probability - 1e-5 and one.rank <= s.rank
            assert not one.found and np.isnan(one.unseen)


@pytest.mark.filterwarnings(DOUBT)
def test_likeliest_values_of_an_audit(fit):
    release = fit.synthesize(1, random_seed=4)
    found = br.likeliest(fit, release, targets=5, k=20, random_seed=1)
    table = found.records
    assert found.exact and table["unseen"].between(0, 1).all() and len(table) == 5
    top = found.top(found.index[0], 3)
    assert (top["probability"].diff().dropna() <= 0).all() and len(top) == 3
    assert "Among 72 values" in repr(found)
    assert found.summary().loc["mean_unseen", "value"] == table["unseen"].mean()
    assert list(found.worst(2)["probability"]) == sorted(table["probability"])[:-3:-1]
    assert np.array_equal(found.dataset["rank"], table["rank"])
    axes = found.plot()
    points = np.concatenate([line.get_ydata() for line in axes.lines[:2]])
    assert np.allclose(np.sort(points), np.sort(table["probability"])) and "72" in axes.get_xlabel()
    several = br.likeliest(fit, fit.synthesize(2, random_seed=4), targets=5, k=20, random_seed=1)
    assert not several.exact and "at most" in repr(several)


# --- what is refused -------------------------------------------------------------------------


def test_refusals_name_the_cure(fit):
    release = fit.synthesize(2, random_seed=4)
    cart = br.models.CART(order=["b", "c"]).fit(table_of(120, 1), random_seed=1)
    made = cart.synthesize(1, random_seed=1)
    with pytest.raises(br.InputError, match="use DPMPM"):
        br.full_table_risk(cart, made, targets=1)
    with pytest.raises(br.InputError, match="use DPMPM"):
        br.likeliest(cart, made, targets=1)
    with pytest.raises(br.InputError, match="release.*is for listed guesses"):
        br.full_table_risk(fit, release, targets=1, prior="release")
    with pytest.raises(br.InputError, match="give one of"):
        br.full_table_risk(fit, release, targets=1, prior=np.ones(72))
    with pytest.raises(br.InputError, match="draws=0"):
        br.full_table_risk(fit, release, targets=1, draws=0)
    with pytest.raises(br.InputError, match="prior='marginal'"):
        br.likeliest(fit, release, targets=1, prior="marginal")
    some = fit.synthesize(2, records=list(fit.microdata.index[:60]), random_seed=4)
    with pytest.raises(br.InputError, match="released unchanged"):
        br.full_table_risk(fit, some, targets=[fit.microdata.index[80]])


def test_astronomic_tables_are_sent_to_the_search(fit, monkeypatch):
    monkeypatch.setattr("bayes_risk.risk.full_table.risk.MAX_CELLS", 71)
    with pytest.raises(br.InputError, match=r"72 combinations.*likeliest"):
        br.full_table_risk(fit, fit.synthesize(2, random_seed=4), targets=1)
