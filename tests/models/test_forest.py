"""Random forests: synthesis by votes, orders, words and errors."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2
from sklearn.tree import DecisionTreeClassifier

import bayes_risk as br
from bayes_risk.models.trees.forest import Forest, draw_levels, log_p, search_orders
from bayes_risk.models.trees.forest_trees import _single, bag_of
from tests.helpers.fits import encoded, offered
from tests.oracles.forest_by_hand import (
    CHAINS,
    MASK,
    VOTES,
    check,
    evidence,
    table,
    targets_of,
)

# --- synthesis ---------------------------------------------------------------------------------


@pytest.mark.parametrize("min_leaf", [1, 5])
def test_trees_are_those_of_scikit_learn(min_leaf):
    df = table(n=200)
    fit = Forest(["a"], n_trees=5, min_leaf=min_leaf).fit(df, random_seed=1)
    trees, codes = fit.forests[0], fit.microdata.codes
    X, y = trees.encoded(codes), codes[:, 0].astype(int)
    wanted = np.zeros((len(X), 3), dtype=int)
    for seed in trees.seeds:
        grown = DecisionTreeClassifier(
            max_features="sqrt", min_samples_leaf=min_leaf, random_state=int(seed)
        ).fit(X, y, sample_weight=bag_of(int(seed), 200))
        wanted[np.arange(200), grown.predict(X)] += 1
    np.testing.assert_array_equal(trees.votes(X, out_of_bag=False), wanted)


def test_single_precision_thresholds_part_single_precision_rows_alike():
    rng = np.random.default_rng(0)
    x = np.sort((rng.normal(size=500) * 10.0 ** rng.integers(-3, 8, 500)).astype(np.float32))
    for low, high in zip(x[:-1], np.nextafter(x[:-1], np.float32(np.inf)), strict=True):
        middle = (float(low) + float(high)) / 2
        assert low <= _single(np.array([middle]))[0] < high


@pytest.mark.parametrize("dirichlet", [0.0, 2.0])
def test_released_values_follow_the_vote_shares(dirichlet):
    votes = np.array([[8, 0, 2, 0], [1, 1, 1, 17], [0, 20, 0, 0]])
    share = (votes + dirichlet) / (votes + dirichlet).sum(axis=1, keepdims=True)
    n = 20_000
    rng = np.random.default_rng(1)
    drawn = draw_levels(np.repeat(votes, n, axis=0), dirichlet, rng).reshape(3, n)
    for row, p in zip(drawn, share, strict=True):
        seen = np.bincount(row, minlength=4)
        assert (seen[p == 0] == 0).all()
        statistic = ((seen - n * p)[p > 0] ** 2 / (n * p[p > 0])).sum()
        df = int((p > 0).sum()) - 1
        assert statistic <= df + 4 * np.sqrt(2 * df) or chi2.sf(statistic, df) > 1e-4


@pytest.mark.parametrize("votes", VOTES)
@pytest.mark.parametrize("chain", CHAINS)
def test_release_frequencies_agree_with_the_votes(chain, votes):
    """The second column of the chain, given the first: what the released table itself predicts."""
    fit = Forest(["a", "b"], n_trees=30, votes=votes, chain=chain).fit(table(), random_seed=1)
    release = fit.synthesize(m=150, random_seed=2)
    trees, z = fit.forests[1], release.codes(fit.microdata)
    p = np.empty((3, 24))  # share of votes for "yes" by the released level of "a"
    for level in range(3):
        rows = fit.microdata.codes.copy()
        rows[:, 0] = level
        count = trees.votes(trees.encoded(rows), out_of_bag=votes == "out-of-bag")
        p[level] = count[:, 1] / count.sum(axis=1)
    p = p[z[:, :, 0].astype(int), np.arange(24)]  # shape (m, n)
    off = np.abs((z[:, :, 1] - p).sum(axis=0))
    assert (off <= 4 * np.sqrt((p * (1 - p)).sum(axis=0)) + 1e-9).all()


def test_only_the_records_replaced_count():
    df = table()
    other = df.copy()
    other.loc[~MASK, "a"] = "x"
    other.loc[~MASK, "number"] = 99.0
    model = Forest(["a", "b"], n_trees=20)
    one, two = (model.fit(d, records=MASK, random_seed=1) for d in (df, other))
    for a, b in zip(one.forests, two.forests, strict=True):
        np.testing.assert_array_equal(a.rows, np.flatnonzero(MASK))
        for x, y in zip(a.nodes, b.nodes, strict=True):
            np.testing.assert_array_equal(x, y)
    release = one.synthesize(m=2, random_seed=2)
    np.testing.assert_array_equal(release.records, MASK)
    for z in release.datasets:
        pd.testing.assert_frame_equal(z[~MASK], df[~MASK])
        assert not z[MASK].equals(df[MASK])


def test_out_of_bag_votes_are_those_of_trees_without_the_record():
    fit = Forest(["a"], n_trees=60, votes="out-of-bag").fit(table(), random_seed=1)
    trees = fit.forests[0]
    votes = trees.votes(trees.encoded(fit.microdata.codes), out_of_bag=True)
    np.testing.assert_array_equal(votes.sum(axis=1), (trees.bags == 0).sum(axis=0))


def test_trees_know_nothing_of_what_their_chain_leaves_out():
    df = table()
    for chain, wanted in [
        ("all-others", [{1, 2, 3}, {0, 2, 3}]),
        ("earlier-only", [{2, 3}, {0, 2, 3}]),
    ]:
        fit = Forest(["a", "b"], n_trees=5, chain=chain).fit(df, random_seed=1)
        assert [set(trees.predictors.tolist()) for trees in fit.forests] == wanted


def test_amount_orders_by_the_number_of_records_replaced():
    few, many = np.arange(24) < 10, np.arange(24) < 20
    model = Forest("amount", n_trees=5)
    fit = model.fit(table(), records={"a": few, "c": many, "b": many}, random_seed=1)
    assert fit.order == ["c", "b", "a"]
    release = fit.synthesize(m=1, random_seed=2)
    np.testing.assert_array_equal(release.records, many)
    z = release.datasets[0]
    pd.testing.assert_series_equal(z["a"][~few], table()["a"][~few])


def test_a_level_that_nobody_holds_is_released_only_if_smoothed():
    df = table(n=60)
    for dirichlet, found in [(0.0, False), (3.0, True)]:
        fit = Forest(["c"], n_trees=10, dirichlet=dirichlet).fit(df, random_seed=1)
        release = fit.synthesize(m=5, random_seed=2)
        assert any((z["c"] == "t").any() for z in release.datasets) == found


def test_a_level_that_nobody_replaced_holds():
    """It is a guess like any other, and a predictor of those who hold it."""
    df = table()
    df.loc[MASK & (df["a"] == "z"), "a"] = "y"
    df.iloc[0, 0] = "z"
    fit = Forest(["a", "b"], n_trees=25, dirichlet=0.2).fit(df, records=MASK, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    check(fit, release, targets_of(fit, release, [1, 2]))


def test_log_p_of_votes():
    votes = np.array([[3, 1], [0, 4]])
    assert log_p(votes, np.array([0, 1]), 0.0) == pytest.approx(np.log(0.75))
    assert log_p(votes, np.array([0, 0]), 0.0) == -np.inf
    assert log_p(votes, np.array([0, 0]), 1.0) == pytest.approx(np.log(4 / 6 * 1 / 6))


def test_orders_are_searched():
    calls = []

    def changed(fit, release):
        calls.append(fit.order)
        return float((release.datasets[0]["a"] != table()["a"]).mean())

    model = Forest(["a", "b"], n_trees=5)
    found = search_orders(model, table(), changed, m=1, random_seed=1)
    assert found["order"].tolist() == ["a, b", "b, a"] and calls == [["a", "b"], ["b", "a"]]
    assert list(found.columns) == ["order", "value"]
    listed = search_orders(
        model, table(), lambda fit, release: {"m": release.m, "n": 1}, orders=[["b", "a"]], m=2
    )
    assert listed.to_dict("records") == [{"order": "b, a", "m": 2, "n": 1}]


def test_in_words():
    fit = Forest(["a"], n_trees=7, votes="out-of-bag", dirichlet=0.5, min_leaf=3)
    fit = replace(fit, n_trees=40).fit(table(), random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    assert fit.mechanism(encoded(fit, release)) == (
        "forests of 40 trees and the order a are known, splits and bootstrap samples included, not "
        "what the leaves vote for; out-of-bag votes, smoothed by Dirichlet(0.5)"
    )
    assert repr(fit).startswith("ForestFit: 24 records; a (40 trees, ")
    assert offered(fit, release) == {"exact", "refit"} and fit.n_draws == 0


# --- errors ------------------------------------------------------------------------------------


def test_release_errors():
    fit = Forest(["a", "b"], n_trees=20).fit(table(), records=MASK, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)
    with pytest.raises(br.InputError, match="m=0 is too small"):
        fit.synthesize(m=0)
    with pytest.raises(br.InputError, match="columns names no column"):
        fit.synthesize(columns=[])
    with pytest.raises(br.InputError, match="columns names column 'c'"):
        fit.synthesize(columns=["c"])
    with pytest.raises(br.InputError, match="synthesized names 'c', for which there is no forest"):
        offered(fit, br.Release(datasets=[table()], synthesized=("a", "c")))
    with pytest.raises(br.InputError, match="24 records were replaced.*grown on 18"):
        offered(fit, replace(release, records=None))
    z = release.datasets[0].copy()
    z.loc[MASK, "a"] = np.where(z.loc[MASK, "a"] == "x", "z", "x")
    targets = targets_of(fit, release, [1])
    with pytest.raises(br.InputError, match="no tree votes for the value of column 'a'") as caught:
        evidence(fit, replace(release, datasets=[z]), targets)
    assert "the record of row" in str(caught.value)


def test_a_record_that_nobody_named_is_told_by_its_row():
    df = table().set_axis([f"Mme_{i}" for i in range(len(table()))])
    with pytest.raises(br.InputError, match="the record of row .* bootstrap sample") as caught:
        Forest(order=["a"], votes="out-of-bag", n_trees=1).fit(df)
    assert "Mme_" not in str(caught.value)


def test_order_search_errors():
    df, model = table(), Forest(list("abc") + ["d", "e"], n_trees=3)
    with pytest.raises(br.InputError, match="5 columns, which can stand in 120 orders; list those"):
        search_orders(model, df, lambda fit, release: 0.0)
    with pytest.raises(br.InputError, match="names no columns to order; list the orders"):
        search_orders(Forest("amount"), df, lambda fit, release: 0.0)
