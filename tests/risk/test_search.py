"""Joint grids searched coarse to fine, against the same grids computed in full."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.intruder.grids import Search

N = 40


@pytest.fixture(scope="module")
def audit():
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"a": rng.normal(10, 2, N)})
    df["b"] = 3 + 0.5 * df["a"] + rng.normal(0, 0.5, N)
    df["c"] = df["b"] + rng.normal(size=N)
    model = br.models.Regression({"a": "1", "b": "1 + a", "c": "1 + b"})
    fit = model.fit(df, random_seed=1)
    release = fit.synthesize(m=10, random_seed=2)
    grids = {
        "a": br.Grid(bounds=(0, 20), n=25, truth="add"),
        "b": br.Grid(bounds=(2, 14), n=25, truth="add"),
        "c": br.Grid(bounds=(2, 14), n=15, truth="add"),
    }

    def risk(budget, fit=fit, release=release, **options):
        guesses = br.JointGrid(grids, budget=budget)
        how = {"evidence": "exact", "targets": 6, "random_seed": 1, "prior": "uniform"} | options
        return br.attribute_risk(fit, release, guesses=guesses, **how)

    risk.few = model.fit(df, draws=30, chains=2, random_seed=3)
    risk.once = cache(risk)  # of a budget alone
    return risk


def test_a_grid_within_the_budget_is_computed_in_full(audit):
    risk = audit.once(26 * 26 * 16)
    assert risk.n_guesses == 26 * 26 * 16 and (risk.left_out == 0).all()


def test_a_searched_grid_finds_the_posterior_and_says_what_it_left_out(audit):
    full, searched = audit.once(10**6), audit.once(4000)
    table = searched.records
    assert searched.n_guesses <= 4001 and (table["left_out"] < 0.01).all()
    mended = table["probability"] * (1 - table["left_out"])
    assert np.allclose(mended, full.records["probability"], rtol=0.02)
    assert (table["rank"] == full.records["rank"]).all()
    assert "searched coarse to fine" in searched.sentence()
    assert "searched" not in full.sentence()


def test_searched_guesses_have_the_evidence_of_the_full_grid(audit):
    risks = [audit.once(b) for b in (10**6, 4000)]
    full, searched = (risk.posterior(risk.index[0]) for risk in risks)
    both = full.merge(searched, on=["a", "b", "c"], suffixes=("", "_searched"))
    assert len(both) == len(searched)
    assert np.allclose(both["log_evidence"], both["log_evidence_searched"], atol=1e-12)
    assert (both["is_truth"] == both["is_truth_searched"]).all() and both["is_truth"].sum() == 1


def test_a_budget_too_small_for_the_posterior_is_said_to_be(audit):
    with pytest.warns(br.UnreliableWeightsWarning):
        risk = audit(300)
    assert (risk.left_out > 0.02).any() and not risk.reliable[risk.left_out > 0.02].any()


def test_a_search_among_guesses_that_trees_rule_out_may_leave_out_all_and_says_so():
    """Few guesses hold the posterior, anywhere between impossible ones."""
    rng = np.random.default_rng(0)
    columns = {c: rng.choice([f"v{k}" for k in range(6)], 40) for c in "abc"}
    df = pd.DataFrame({"x": rng.integers(0, 3, 40), **columns})
    fit = br.models.CART(["a", "b", "c"], min_leaf=3).fit(df, random_seed=1)
    release, how = fit.synthesize(m=1, random_seed=1), {"targets": 15, "random_seed": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
        full, searched = (
            br.attribute_risk(fit, release, guesses=br.JointGrid({}, budget=b), **how)
            for b in (216, 150)
        )
    assert full.n_guesses == 216 > searched.n_guesses and not full.left_out.any()
    shares = [
        full.posterior(label).merge(searched.posterior(label)[list("abc")])["probability"].sum()
        for label in full.index
    ]
    left = 1 - np.array(shares)
    assert (left > 0.02).sum() > 3 and not searched.reliable[left > 0.02].any()
    assert (searched.left_out == 1).any()
    assert "how much of a posterior was left out is not known" in searched.sentence()
    pd.testing.assert_frame_equal(searched.certain(), full.certain())  # along each variable


def test_fits_are_not_repeated_for_the_fine_grid(audit, monkeypatch):
    from bayes_risk.evidence.runner import Fits

    calls, fits = [], Fits.posteriors
    monkeypatch.setattr(Fits, "posteriors", lambda *how: calls.append(1) or fits(*how))
    one = audit.few.synthesize(m=1, random_seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
        audit(4000, audit.few, one, evidence="predictive", targets=2)
    assert len(calls) == 1


def test_blocks_hold_every_guess_once():
    rng = np.random.default_rng(3)
    points = [np.sort(rng.normal(size=(11, 2)), axis=0), np.sort(rng.normal(size=(7, 2)), axis=0)]
    counted = [np.ones(p.shape, dtype=bool) for p in points]
    truth = [np.array([3, 10]), np.array([0, 6])]
    search = Search(points, counted, truth, budget=60)
    coarse = search.coarse()
    fine, rest = search.finer(np.zeros(coarse.codes.shape[:2]))
    flat = np.zeros(rest.guesses.counted.shape)
    closed = 77 - fine.counted.sum(axis=0)
    assert (closed > 5).all()
    within = np.exp(rest.log_at_most(flat, flat)) / closed
    assert ((within > 0.9) & (within < 4)).all()  # of 15 guesses, and two standard errors
    for u in range(2):
        kept = fine.codes[fine.counted[:, u], u]
        assert len(np.unique(kept, axis=0)) == len(kept)
        own = [points[j][truth[j][u], u] for j in range(2)]
        assert (kept == own).all(axis=1).sum() == 1 and (fine.codes[0, u] == own).all()
    whole = Search(points, counted, truth, budget=76)  # fewer than 77: one block must go
    everything, rest = whole.finer(np.zeros(whole.coarse().codes.shape[:2]))
    assert everything.counted.sum(axis=0).max() <= 77


def test_guesses_that_do_not_count_hide_no_others():
    """A count of 1 searched from -39 to 41: everything below 0 is no guess, 0 and 2 are."""
    points = [np.arange(-39.0, 42.0)[:, None], np.linspace(0, 1, 81)[:, None]]
    counted = [points[0] >= 0, np.ones((81, 1), dtype=bool)]
    search = Search(points, counted, [np.array([40]), np.array([40])], budget=1000)
    coarse = search.coarse()
    log_p = -0.5 * (coarse.codes[:, :, 0] - 1.0) ** 2
    log_p[~coarse.counted] = -np.inf
    fine, rest = search.finer(log_p)
    found = fine.codes[fine.counted[:, 0], 0, 0]
    assert {0.0, 1.0, 2.0} <= set(found) and found.min() == 0
    assert np.isfinite(rest.log_at_most(*np.zeros((2, *rest.guesses.counted.shape)))).all()


def test_a_grid_that_no_budget_of_that_size_can_search():
    points = [np.repeat(np.arange(3.0)[:, None], 2, axis=1)] * 12
    counted = [np.ones((3, 2), dtype=bool)] * 12
    with pytest.raises(br.InputError, match="cannot be searched within a budget of 16"):
        Search(points, counted, [np.zeros(2, dtype=np.int64)] * 12, budget=16)
