"""Trees: where rows fall, what leaves give, and the evidence against brute force."""

import dataclasses
from collections import Counter
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest, truncnorm

import bayes_risk as br
from bayes_risk.data.microdata import Microdata
from bayes_risk.models.trees.cart import draw_donors, kernel_draws
from bayes_risk.models.trees.cart_evidence import LeafCounts
from bayes_risk.models.trees.kernels import bandwidth
from bayes_risk.models.trees.tree import BAYESIAN, PLAIN, grow
from bayes_risk.reporting.verdicts.verdict import Thresholds, judge
from tests.helpers.against import gaps
from tests.helpers.fits import offered

N = 24
GUESSES = {"a": br.Levels(), "num": br.Grid(values=range(20, 26)), "b": br.Levels()}


def table(seed=1, n=N):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "sex": rng.choice(list("fm"), n),
            "a": rng.choice(list("xyz"), n),
            "num": rng.integers(20, 26, n),
            "b": rng.choice(list("pqr"), n),
        }
    )


def above(tree):
    """Whether a node is on the way of another one to the root; shape (nodes, nodes)."""
    found = np.zeros((tree.n_nodes, tree.n_nodes), dtype=bool)
    for k in range(tree.n_nodes):
        node = k
        while node >= 0:
            found[node, k] = True
            node = tree.parent[node]
    return found


def with_values(tree, codes):
    """The same splits, with the records where other values lead them."""
    leaf, way = tree.leaf(codes), above(tree)
    donors = [np.flatnonzero(way[node, leaf]) for node in range(tree.n_nodes)]
    ends = np.cumsum([len(d) for d in donors])
    return dataclasses.replace(
        tree,
        donors=np.concatenate(donors).astype(np.int64),
        begin=np.array([0, *ends[:-1]]),
        end=ends,
    )


@cache
def by_hand(counts_n, counts_r, kind):
    """log p of values released from one node, as a product over draws (Polya urn, or urn)."""
    n, r, total = list(counts_n), list(counts_r), 0.0
    drawn, seen = sum(n), [0] * len(n)
    for v, times in enumerate(r):
        for _ in range(times):
            held = n[v] + (seen[v] if kind == BAYESIAN and n[v] else 0)
            if not held:
                return -np.inf
            total += np.log(held / drawn)
            seen[v] += 1
            drawn += kind == BAYESIAN
    return total


def brute_force(fit, release, columns, i, guesses):
    """log p(Z | y with record i replaced), every node's product written out; shape (G,)."""
    ways = [above(tree) for tree in fit.trees]
    kind = PLAIN if fit.parameters[0] == "plug-in" else BAYESIAN
    shown = []  # of each data set and tree: node, and the values that it shows
    for l in range(release.m):
        z = release.codes(fit.microdata, l)
        for t, tree in enumerate(fit.trees):
            node = tree.node(z)
            shown += [(t, k, Counter(z[node == k, tree.column])) for k in np.unique(node)]
    out = []
    for guess in guesses:
        codes = fit.microdata.codes.copy()
        codes[i, columns] = guess
        leaves = [tree.leaf(codes) for tree in fit.trees]
        total = 0.0
        for t, k, r in shown:
            held = Counter(codes[ways[t][k, leaves[t]], fit.trees[t].column])
            values = sorted({*held, *r})
            total += by_hand(
                tuple(held[v] for v in values),
                tuple(r[v] for v in values),
                kind,
            )
        out.append(total)
    return np.array(out)


@pytest.mark.parametrize("bootstrap", ["bayesian", "none"])
@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
def test_exact_evidence_is_brute_force(bootstrap, seed):
    model = br.models.CART(["a", "num", "b"], min_leaf=3, bootstrap=bootstrap)
    fit = model.fit(table(), random_seed=seed)
    release = fit.synthesize(m=2, random_seed=seed)
    risk = br.attribute_risk(fit, release, guesses=GUESSES, evidence="exact")
    gap, _ = gaps(risk, partial(brute_force, fit, release, [1, 2, 3]), range(0, N, 8))
    assert np.abs(gap).max() < 1e-9


@pytest.mark.parametrize("seed", [0, 17, 26])
def test_evidence_where_rows_stay_above_their_leaf(seed):
    """Levels that are rare in some nodes: released rows stay there, and those nodes count too."""
    rng = np.random.default_rng(seed)
    df = pd.DataFrame(
        {
            "w": rng.normal(size=40),
            "a": rng.choice(list("uvwxyz"), 40, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.05]),
        }
    )
    df["b"] = rng.choice(list("pqrs"), 40)
    fit = br.models.CART(["a", "b"], min_leaf=2).fit(df, random_seed=1)
    release = fit.synthesize(m=3, random_seed=3)
    tree, z = fit.trees[1], np.vstack([release.codes(fit.microdata, l) for l in range(3)])
    assert (tree.node(z) != tree.leaf(z)).any()
    risk = br.attribute_risk(
        fit, release, guesses={"a": br.Levels(), "b": br.Levels()}, evidence="exact"
    )
    gap, _ = gaps(risk, partial(brute_force, fit, release, [1, 2]), range(0, 40, 5))
    assert np.abs(gap).max() < 1e-9


def test_risk_is_one_exactly_where_the_release_shows_what_only_the_target_holds():
    fit = br.models.CART(["a", "num", "b"], min_leaf=3).fit(table(), random_seed=0)
    release = fit.synthesize(m=2, random_seed=0)
    risk = br.attribute_risk(fit, release, guesses={"b": br.Levels()} | GUESSES, evidence="exact")
    certain = 0
    for i in range(N):
        alone = False
        for tree in fit.trees:
            leaf = int(tree.leaf(fit.microdata.codes[[i]])[0])
            for l in range(2):
                z = release.codes(fit.microdata, l)
                node = leaf
                while node >= 0:
                    mine = fit.microdata.codes[i, tree.column]
                    held = tree.donors[tree.begin[node] : tree.end[node]]
                    others = fit.microdata.codes[held[held != i], tree.column]
                    shown = z[tree.node(z) == node, tree.column]
                    alone |= bool((shown == mine).any() and not (others == mine).any())
                    node = tree.parent[node]
        impossible = np.isneginf(risk.log_evidence[:, :, risk.case[i]].sum(axis=0))
        assert impossible.any() == alone
        assert risk.certain().iloc[i].any() == alone
        certain += alone
    assert 0 < certain < N
    assert f"Values of {certain} records are disclosed with certainty" in risk.sentence()
    assert (risk.records["probability"] == 1).sum() <= certain


def test_the_verdict_names_who_is_given_away():
    fit = br.models.CART(["a", "num", "b"], min_leaf=3).fit(table(), random_seed=0)
    risk = br.attribute_risk(
        fit, fit.synthesize(m=2, random_seed=0), guesses=GUESSES, evidence="exact"
    )
    reasons = {r.measure: r for r in judge(risk, None, Thresholds()).reasons}
    said = reasons["certain disclosure"]
    assert said.outcome == "above your thresholds"
    first = risk.index[risk.certain().any(axis=1)][0]
    assert f"records {first}" in said.sentence


def test_releases_reproduce_the_leaves():
    """Over many data sets the share of each value in a leaf is that of its records."""
    data = Microdata.from_frame(table(seed=3, n=60)[["sex", "a", "b"]])
    tree = grow(data, 2, np.array([0, 1]), min_leaf=10, seed=0)
    nodes = tree.node(data.codes)
    rng = np.random.default_rng(4)
    for kind in (BAYESIAN, PLAIN):
        drawn = np.stack([data.codes[draw_donors(tree, nodes, kind, rng), 2] for _ in range(400)])
        for node in np.unique(nodes):
            held = data.codes[tree.donors[tree.begin[node] : tree.end[node]], 2]
            shares = np.stack([(drawn[:, nodes == node] == v).mean(axis=1) for v in range(3)])
            error = shares.std(axis=1) / np.sqrt(400)
            expected = np.array([(held == v).mean() for v in range(3)])
            assert (np.abs(shares.mean(axis=1) - expected) <= 4 * error + 1e-12).all()


def test_the_bayesian_bootstrap_is_dirichlet_multinomial():
    """Variance of the number of draws of a value: R p q (N + R) / (N + 1) for N records."""
    data = Microdata.from_frame(table(seed=3, n=60)[["sex", "b"]])
    tree = grow(data, 1, np.array([0]), min_leaf=60, seed=0)
    rng, nodes = np.random.default_rng(5), np.zeros(30, dtype=np.int64)
    counts = np.array(
        [(data.codes[draw_donors(tree, nodes, BAYESIAN, rng), 1] == 0).sum() for _ in range(4000)]
    )
    p = (data.codes[:, 1] == 0).mean()
    expected = 30 * p * (1 - p) * (60 + 30) / (60 + 1)
    error = np.sqrt(((counts - counts.mean()) ** 2).var() / 4000)
    assert abs(counts.var() - expected) < 4 * error


def test_a_row_that_fits_no_leaf_stays_where_its_level_is_held():
    df = pd.DataFrame(
        {"c": list("xxxxyyyyzz"), "n": [0.0] * 8 + [1.0] * 2, "o": list("ppppqqqqrr")}
    )
    data = Microdata.from_frame(df, numbers=["n"])
    tree = grow(data, 2, np.array([0, 1]), min_leaf=2, seed=0)
    strange = data.codes[[0]].copy()
    strange[0, 1] = 1.0  # an x with n = 1: nobody is
    node = int(tree.node(strange)[0])
    held = data.codes[tree.donors[tree.begin[node] : tree.end[node]], 0]
    below = [k for k in range(tree.n_nodes) if tree.parent[k] == node]
    assert (held == 0).any() or not below


def test_leaves_hold_the_records_that_fall_into_them():
    data = Microdata.from_frame(table(n=200), numbers=["num"])
    tree = grow(data, 3, np.array([0, 1, 2]), min_leaf=5, seed=0)
    leaf = tree.leaf(data.codes)
    assert (tree.node(data.codes) == leaf).all()
    for node in np.unique(leaf):
        held = tree.donors[tree.begin[node] : tree.end[node]]
        assert set(held) == set(np.flatnonzero(leaf == node)) and len(held) >= 5
    assert sorted(tree.donors) == list(range(200)) and tree.end[0] - tree.begin[0] == 200


def test_nominal_levels_are_ordered_by_the_outcome():
    """Means of a number, and for two outcome levels their shares: the split finds {u, w} | {v}."""
    df = pd.DataFrame({"c": list("uvw") * 40, "y": [0.0, 5.0, 0.1] * 40})
    data = Microdata.from_frame(df, numbers=["y"])
    tree = grow(data, 1, np.array([0]), min_leaf=5, seed=0)
    leaf = tree.leaf(data.codes)
    assert tree.ranks[0].tolist() == [0.0, 2.0, 1.0] and leaf[1] not in (leaf[0], leaf[2])


def test_refit_asks_the_same_of_trees_grown_anew():
    df = table(seed=7, n=40)
    fit = br.models.CART(["a", "b"], min_leaf=8).fit(df, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    grids = {"a": br.Levels(), "b": br.Levels()}
    options = {"guesses": grids, "targets": [0, 5, 9]}
    refit = br.attribute_risk(fit, release, evidence="refit", **options)
    i, data = 5, fit.microdata
    u = refit.case[1]
    expected = []
    for guess in refit.guesses[:, u]:
        codes = data.codes.copy()
        codes[i, [1, 3]] = guess
        moved = Microdata(codes=codes, variables=data.variables, index=data.index)
        total = 0.0
        for tree in fit.trees:
            new = grow(moved, tree.column, tree.predictors, min_leaf=8, seed=0)
            for l in range(2):
                z = release.codes(data, l)
                y, shown = codes[:, tree.column], z[:, tree.column]
                total += LeafCounts.from_tree(new, y, new.node(z), shown).log_p(BAYESIAN)
        expected.append(total)
    expected = np.array(expected) - expected[refit.truth[u]]
    found = refit.log_evidence[:, :, u].sum(axis=0)
    assert np.allclose(np.exp(expected), np.exp(found))


def test_only_replaced_records_and_columns_are_synthesised():
    df = table(n=60)
    fit = br.models.CART(["a", "b"]).fit(df, random_seed=1)
    mask = df["sex"] == "f"
    release = fit.synthesize(m=2, columns=["b"], records=mask.to_numpy(), random_seed=2)
    for Z in release.datasets:
        assert (Z[["sex", "a", "num"]] == df[["sex", "a", "num"]]).all().all()
        assert (Z.loc[~mask, "b"] == df.loc[~mask, "b"]).all()
        assert (Z.loc[mask, "b"] != df.loc[mask, "b"]).any()
        assert (Z.dtypes == df.dtypes).all()
    risk = br.attribute_risk(fit, release, guesses={"b": br.Levels()}, evidence="exact")
    assert len(risk.index) == mask.sum() and risk.n_guesses == 3


@pytest.mark.check
def test_smoothed_numbers_stay_in_the_range_of_their_leaf_and_are_not_copies():
    rng = np.random.default_rng(2)
    df = pd.DataFrame({"x": rng.choice(list("ab"), 200), "w": rng.gamma(2.0, 10.0, 200)})
    df["k"] = rng.poisson(20, 200)
    fit = br.models.CART(["w", "k"], min_leaf=30, smoothing="kde").fit(df, random_seed=1)
    release = fit.synthesize(m=3, random_seed=2)
    for Z in release.datasets:
        assert not set(Z["w"]) & set(df["w"]) and Z["k"].dtype == df["k"].dtype
        node = fit.trees[0].node(fit.microdata.codes)
        for leaf in np.unique(node):
            held, drawn = df.loc[node == leaf, "w"], Z.loc[node == leaf, "w"]
            assert held.min() <= drawn.min() and drawn.max() <= held.max()
    with pytest.raises(br.InputError, match=r"offers \['monte-carlo', 'refit'\]"):
        br.attribute_risk(fit, release, guesses=br.Grid(additive=1), evidence="exact")
    only = fit.synthesize(m=1, columns=["k"], random_seed=3)
    assert offered(fit, only) == frozenset({"monte-carlo", "refit"})
    plain = br.models.CART(["x"], smoothing="kde").fit(df, random_seed=1)
    assert "exact" in offered(
        plain, plain.synthesize(1, random_seed=1)
    )  # categories are not smoothed


def test_kernels_are_truncated_normals():
    """Mean and spread of draws around one value, against SciPy's."""
    data = Microdata.from_frame(
        pd.DataFrame({"x": list("ab") * 10, "y": np.linspace(0.0, 1.0, 20)}), numbers=["y"]
    )
    tree = grow(data, 1, np.array([0]), min_leaf=20, seed=0)
    y, h = data.codes[:, 1], bandwidth(data.codes[:, 1])
    nodes = np.zeros(20_000, dtype=np.int64)
    drawn = kernel_draws(tree, y, nodes, np.full(20_000, 0.1), np.random.default_rng(3))
    exact = truncnorm(-0.1 / h, 0.9 / h, loc=0.1, scale=h)
    assert abs(drawn.mean() - exact.mean()) < 4 * exact.std() / np.sqrt(20_000)
    assert kstest(drawn, exact.cdf).pvalue > 1e-4


def with_gaps(n=120):
    """Pay of which some is missing, and many zeros; ages of which some are missing."""
    rng = np.random.default_rng(8)
    pay = np.where(rng.random(n) < 0.3, 0.0, np.round(np.exp(rng.normal(7, 0.5, n)), -2))
    pay[rng.random(n) < 0.2] = np.nan
    age = np.where(rng.random(n) < 0.1, np.nan, rng.integers(20, 80, n))
    return pd.DataFrame({"sex": rng.choice(list("fm"), n), "age": age, "pay": pay})


def test_a_missing_number_is_one_more_number_of_a_tree():
    """The same trees, release and risk as of a table that has a number in the place of each gap."""
    df, model = with_gaps(), br.models.CART(["pay"], min_leaf=10)
    fit = model.fit(df, missing="level", random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    stand_in = {v.name: v.missing for v in fit.microdata.variables if v.name != "sex"}
    assert stand_in["pay"] < 0 and stand_in["age"] < df["age"].min()
    filled = df.fillna({c: stand_in[c] for c in ("age", "pay")})
    other = model.fit(filled, random_seed=1)
    shown = other.synthesize(m=2, random_seed=2)
    for one, two in zip(release.datasets, shown.datasets, strict=True):
        pd.testing.assert_series_equal(one["pay"].fillna(stand_in["pay"]), two["pay"])
    values = [0.0, 500.0, 1000.0, 1500.0]
    targets = list(df.index[df["pay"].isna() | (df["pay"] == 0)])
    how = {"targets": targets, "random_seed": 3}
    gaps = br.Listed(pd.DataFrame({"pay": [np.nan, *values]}))
    numbers = br.Listed(pd.DataFrame({"pay": [stand_in["pay"], *values]}))
    risk = br.attribute_risk(fit, release, guesses=gaps, **how)
    same = br.attribute_risk(other, shown, guesses=numbers, **how)
    assert risk.records["probability"].tolist() == same.records["probability"].tolist()


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e6])
def test_what_stands_for_a_gap_has_the_unit_of_the_numbers(unit):
    df = with_gaps()
    model, how = br.models.CART(["pay"], min_leaf=10), {"missing": "level", "random_seed": 1}
    one, other = model.fit(df, **how), model.fit(df.assign(pay=df["pay"] * unit), **how)
    assert one.trees[0].donors.tolist() == other.trees[0].donors.tolist()
    assert one.trees[0].begin.tolist() == other.trees[0].begin.tolist()


def test_gaps_of_single_precision_come_back_as_gaps():
    rng = np.random.default_rng(3)
    pay = rng.normal(size=90).astype(np.float32)
    pay[:20] = np.nan
    df = pd.DataFrame({"sex": rng.choice(list("fm"), 90), "pay": pay})
    fit = br.models.CART(["pay"]).fit(df, missing="level", random_seed=1)
    made = fit.synthesize(m=1, random_seed=2).datasets[0]["pay"]
    assert made.isna().any() and made.dropna().isin(df["pay"]).all()


def test_gaps_are_refused_where_they_are_no_level_or_would_be_smoothed():
    df = with_gaps()
    with pytest.raises(br.InputError, match='take CART or Mixture with missing="level"'):
        br.models.CART(["pay"]).fit(df)
    with pytest.raises(br.InputError, match="smoothing='kde' is for numbers that all have; 'pay'"):
        br.models.CART(["pay"], smoothing="kde").fit(df, missing="level")
    codes = df.fillna({"pay": -8})
    fit = br.models.CART(["pay"]).fit(codes, missing="level", missing_numbers={"pay": -8})
    assert fit.synthesize(m=1, random_seed=1).datasets[0]["pay"].isin(codes["pay"]).all()


def test_bad_options():
    with pytest.raises(br.InputError, match="min_leaf=0"):
        br.models.CART(["a"], min_leaf=0)
    with pytest.raises(br.InputError, match="bootstrap='some'"):
        br.models.CART(["a"], bootstrap="some")
    with pytest.raises(br.InputError, match="smoothing='spline'"):
        br.models.CART(["a"], smoothing="spline")
    fit = br.models.CART(["a"]).fit(table())
    with pytest.raises(br.InputError, match="no tree; the model has order="):
        br.attribute_risk(fit, br.Release(datasets=[table()], synthesized=["b"]), evidence="exact")
    with pytest.raises(br.InputError, match="evidence='predictive' is not offered"):
        br.attribute_risk(fit, fit.synthesize(1), evidence="predictive")
