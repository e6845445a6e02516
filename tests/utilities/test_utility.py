"""Utility: every measure against a value by hand, a closed form, or its null by simulation."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
import xarray as xr
from scipy import stats

import bayes_risk as br
from bayes_risk.release.tables import group_edges, group_of
from bayes_risk.utilities.combining import fully_synthetic, interval_overlap
from bayes_risk.utilities.propensity import (
    MEASURES,
    _logistic,
    interactions,
    logistic_null,
    main_effects,
    specks,
)
from bayes_risk.utilities.tables import (
    TableDistance,
    _mean_deviation,
    coded_columns,
    compared_columns,
    counts,
    distance,
    margins,
    mutual_information,
    pair_distances,
)

R = 200  # releases of a simulated null
FAST = {"permutations": 2, "random_seed": 1}


def table(n: int, seed: int = 1) -> pd.DataFrame:
    """Two categories that hang together, and a number."""
    rng = np.random.default_rng(seed)
    a = rng.choice(list("xyz"), n, p=[0.5, 0.3, 0.2])
    b = np.where(rng.random(n) < 0.7, np.where(a == "x", "u", "v"), rng.choice(list("uvw"), n))
    return pd.DataFrame({"a": a, "b": b, "c": rng.normal(size=n) + (a == "x")})


def resampled(df: pd.DataFrame, m: int, seed: int = 2) -> list[pd.DataFrame]:
    """Releases drawn from the original's own distribution."""
    rng = np.random.default_rng(seed)
    return [df.iloc[rng.integers(len(df), size=len(df))].reset_index(drop=True) for _ in range(m)]


def resampled_within(df: pd.DataFrame, by: str, made: list[str], m: int) -> list[pd.DataFrame]:
    """Partially synthetic: columns redrawn among records that agree in another."""
    return list(
        br.release_bounds(df, synthesized=made, patterns=[by], m=m, random_seed=3).maximum.datasets
    )


def mean_is(values: np.ndarray, expected: float) -> bool:
    return bool(abs(values.mean() - expected) < 4 * values.std(ddof=1) / np.sqrt(len(values)))


# --- tables ----------------------------------------------------------------------------------


def test_a_table_by_hand():
    found = distance(counts(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), 2))
    # cells: o = 3, 1 and s = 2, 2; c = 1/2, N = 8
    assert found.pmse == pytest.approx((5 * (2 / 5 - 1 / 2) ** 2 + 3 * (2 / 3 - 1 / 2) ** 2) / 8)
    assert found.null_pmse == pytest.approx(1 * 0.5 * 0.5**2 / 8)
    assert found.ratio == pytest.approx(found.pmse / found.null_pmse)
    assert found.total_variation == pytest.approx(0.25)
    gap = (np.sqrt(0.75) - np.sqrt(0.5)) ** 2 + (np.sqrt(0.25) - np.sqrt(0.5)) ** 2
    assert found.hellinger == pytest.approx(np.sqrt(gap / 2))


def test_pmse_of_a_table_is_a_multiple_of_voas_and_williamson():
    """PMSE = VW c (1 - c)^2 / N (Raab, Nowok & Dibben 2021, appendix A), unequal sizes too."""
    o, s = np.array([5.0, 3, 0, 7]), np.array([9.0, 1, 4, 16])
    y, z = (np.repeat(np.arange(4), x.astype(int)) for x in (o, s))
    N, c = o.sum() + s.sum(), s.sum() / (o.sum() + s.sum())
    vw = ((s - o * c / (1 - c)) ** 2 / (c * (o + s))).sum()
    found = distance(counts(y, z, 4))
    assert found.pmse == pytest.approx(vw * c * (1 - c) ** 2 / N)
    assert found.ratio == pytest.approx(vw / 3)  # the null expectation of VW is k - 1


@pytest.mark.parametrize("p", [0.0, 0.05, 0.3, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("n", [1.0, 7.0, 40.0])
def test_mean_deviation_of_a_binomial_by_enumeration(n, p):
    x = np.arange(n + 1)
    expected = (np.abs(x - n * p) * stats.binom.pmf(x, n, p)).sum()
    found = _mean_deviation(np.array([n]), np.array([p]))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_nulls_of_tables_by_simulation():
    df = table(400)
    coded = coded_columns(
        compared_columns(df, resampled(df, 300), ["a", "b"], None), None, 5, "level"
    )
    for values in (margins(coded, 1.0)[1], pair_distances(coded, 1.0, 1)[1]):
        for one in np.moveaxis(values, 1, 0):
            found = pd.DataFrame(one[:, :8], columns=TableDistance._fields)
            assert mean_is(found["total_variation"], found["null_total_variation"][0])
            assert mean_is(found["ratio"], 1.0)
            # the Freeman-Tukey statistic is chi-squared for many records: terms of order 1/n
            square, null = found["hellinger"] ** 2, found["null_hellinger"][0] ** 2
            error = 4 * square.std() / np.sqrt(len(square))
            assert abs(square.mean() - null) < error + null * found["df"][0] / len(df)


def test_null_of_a_pair_knows_what_was_not_synthesised():
    df = table(400)
    releases = resampled_within(df, "a", ["b"], R)
    tables = compared_columns(df, releases, ["a", "b"], ["b"])
    names, values = pair_distances(coded_columns(tables, None, 5, "level"), 1.0, 1)
    found = pd.DataFrame(values[:, 0, :8], columns=TableDistance._fields)
    assert names == [("a", "b")] and (found["df"] == 3 * 3 - 3).all()
    assert mean_is(found["ratio"], 1.0)
    assert mean_is(found["total_variation"], found["null_total_variation"][0])
    unaware = br.utility(df, releases[:1], columns=["a", "b"], **FAST)
    assert unaware.pairs.loc[("a", "b"), "df"] == 8


def test_many_cells_are_counted_as_few_are():
    rng = np.random.default_rng(1)
    y, z = rng.integers(5, size=30), rng.integers(5, size=40)
    few, many = distance(counts(y, z, 5)), distance(counts(y * 10**9, z * 10**9, 5 * 10**9))
    np.testing.assert_allclose(few, many)
    within = distance(counts(y, z, 6, 2)), distance(counts(y + 6 * 10**9, z + 6 * 10**9, 10**10, 2))
    np.testing.assert_allclose(*within)
    assert distance(counts(y, y, 5)).total_variation == 0


def test_mutual_information_by_hand():
    joint = np.repeat([0, 1, 2, 3], [3, 1, 2, 2])  # 2 x 2: (3, 1; 2, 2)
    p = np.array([[3, 1], [2, 2]]) / 8
    rows, columns = p.sum(axis=1, keepdims=True), p.sum(axis=0, keepdims=True)
    assert mutual_information(joint, (2, 2)) == pytest.approx(
        (p * np.log(p / rows / columns)).sum()
    )
    assert mutual_information(np.array([0, 3, 0, 3]), (2, 2)) == pytest.approx(np.log(2))


def test_numbers_are_cut_at_the_originals_quantiles():
    y = np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10, np.nan])
    edges = group_edges(y, 5)
    assert np.bincount(group_of(y, edges)).tolist() == [2, 2, 2, 2, 2, 1]
    assert group_of(np.array([-5.0, 99.0, np.nan]), edges).tolist() == [0, 4, 5]


# --- propensity scores -----------------------------------------------------------------------


def logistic(df, release, predictors, columns=None, synthesized=None) -> pd.DataFrame:
    tables = compared_columns(df, release, columns, synthesized)
    coded = coded_columns(tables, None, 5, "level")
    releases = range(1, tables.tables.m + 1)
    rows = [_logistic(coded, l, predictors, tables.replaced) for l in releases]
    return pd.DataFrame(rows, columns=list(MEASURES))


@pytest.mark.parametrize(("predictors", "k"), [(main_effects, 5), (interactions, 13)])
def test_null_of_the_logistic_by_simulation(predictors, k):
    """Expectation and standard deviation of Snoke et al. (2018), a release from the truth."""
    df = table(600)
    found = logistic(df, resampled(df, R), predictors)
    expected, sd = logistic_null(k, 1200, 0.5)
    assert (found["df"] == k).all()  # 2 + 2 + 1 main effects, 4 + 2 + 2 products
    assert found["null_pmse"][0] == pytest.approx(expected)
    assert found["null_sd"][0] == pytest.approx(sd)
    # up to terms of order k/n, beside the error of R releases (kurtosis 3 + 12/k)
    pmse = found["pmse"]
    assert abs(pmse.mean() / expected - 1) < 4 * pmse.std() / expected / np.sqrt(R) + k / 600
    assert abs(pmse.std() / sd - 1) < 4 * np.sqrt((1 / 2 + 3 / k) / R) + k / 600


@pytest.mark.parametrize(("predictors", "k"), [(main_effects, 2), (interactions, 6)])
def test_null_of_the_logistic_knows_what_was_not_synthesised(predictors, k):
    df = table(600)
    releases = resampled_within(df, "a", ["b"], R)
    found = logistic(df, releases, predictors, ["a", "b"], ["b"])
    assert (found["df"] == k).all()
    assert mean_is(found["ratio"], 1.0)


def test_null_of_the_logistic_knows_how_many_records_were_replaced():
    df, rng = table(600), np.random.default_rng(5)
    some = np.arange(600) < 200  # at random, as the null assumes, in every release anew
    found = []
    for z in resampled_within(df, "a", ["b"], R):
        some = rng.permutation(some)
        shown = [df.assign(b=np.where(some, z["b"], df["b"]))]
        release = br.Release(datasets=shown, synthesized=["b"], records=some)
        found.append(logistic(df, release, main_effects, ["a", "b"]))
    assert mean_is(pd.concat(found)["ratio"], 1.0)


def test_logistic_scores_are_those_of_statsmodels():
    df = table(300)
    released = resampled(df, 1)[0].assign(c=lambda t: t["c"] * 1.3)
    both = pd.concat([df, released], ignore_index=True).assign(t=np.repeat([0, 1], 300))
    fit = smf.glm("t ~ a + b + c", both, family=sm.families.Binomial()).fit()
    p = fit.fittedvalues.to_numpy()
    found = br.utility(df, released, **FAST).propensity.loc[(1, "main")]
    # the ridge moves coefficients by about 1e-5 over the information, here of order 10
    assert found["pmse"] == pytest.approx(((p - 0.5) ** 2).mean(), rel=1e-4)
    ks = stats.ks_2samp(p[:300].round(6), p[300:].round(6)).statistic
    assert found["specks"] == pytest.approx(ks, abs=2 / 300)


def test_specks_by_hand_with_ties():
    # original at 0.2, 0.2, 0.6 and release at 0.2, 0.6, 0.9: gaps 1/3, 1/3, 0
    score = np.array([0.2, 0.6, 0.9])
    assert specks(score, np.array([2.0, 1, 0]), np.array([1.0, 1, 1])) == pytest.approx(1 / 3)


def test_models_of_one_category_are_its_table():
    """Saturated: pMSE of the table, and SPECKS its total variation (Raab et al. 2021)."""
    df = table(900)[["b"]]
    released = df.assign(b=np.where(np.arange(900) % 9 == 0, "w", df["b"]))
    found = br.utility(df, released, permutations=200, random_seed=1)
    margin = found.margins.loc["b"]
    scores = found.propensity.loc[1]
    np.testing.assert_allclose(scores["pmse"], margin["pmse"], rtol=1e-6)
    np.testing.assert_allclose(scores["specks"], margin["total_variation"], rtol=1e-10)
    # the null of the trees is that of the table, up to the error of 200 permutations
    cart = scores.loc["cart"]
    assert abs(cart["null_pmse"] - margin["null_pmse"]) < 4 * cart["null_sd"] / np.sqrt(200)
    assert cart["df"] == 2


def test_permutations_of_unequal_files_and_of_pairs_have_the_closed_forms_null():
    df = table(400)[["a", "b"]]
    double = pd.concat(resampled(df, 2), ignore_index=True)
    found = br.utility(df[["a"]], double[["a"]], permutations=200, random_seed=2)
    cart = found.propensity.loc[(1, "cart")]
    expected = logistic_null(2, 1200, 2 / 3)[0]
    assert found.margins.loc["a", "null_pmse"] == pytest.approx(expected)
    assert abs(cart["null_pmse"] - expected) < 4 * cart["null_sd"] / np.sqrt(200)
    # a x b saturated: the levels of a cannot distinguish files apart
    wide = table(3000)[["a", "b"]]
    wide["ab"] = wide["a"] + wide["b"]
    tables = resampled_within(wide, "a", ["b", "ab"], 1)
    paired = br.utility(
        wide[["a", "ab"]],
        [t[["a", "ab"]] for t in tables],
        synthesized=["ab"],
        permutations=200,
        random_seed=3,
    )
    cart, pair = paired.propensity.loc[(1, "cart")], paired.pairs.iloc[0]
    assert pair["df"] == 9 - 3
    assert abs(cart["null_pmse"] - pair["null_pmse"]) < 4 * cart["null_sd"] / np.sqrt(200)


def test_permutations_know_how_many_records_were_replaced():
    df, rng = table(3000)[["a"]], np.random.default_rng(5)
    some = rng.permutation(np.arange(3000) < 1000)
    shown = df.assign(a=np.where(some, rng.permutation(df["a"]), df["a"]))
    release = br.Release(datasets=[shown], synthesized=["a"], records=some)
    found = br.utility(df, release, permutations=200, random_seed=1)
    cart, margin = found.propensity.loc[(1, "cart")], found.margins.loc["a"]
    assert margin["null_pmse"] == pytest.approx(logistic_null(2, 6000, 0.5, 1 / 3)[0])
    assert abs(cart["null_pmse"] - margin["null_pmse"]) < 4 * cart["null_sd"] / np.sqrt(200)


def test_permutation_null_covers_releases_from_the_truth():
    """Few leaves: trees of releases from the truth and of permuted labels are alike."""
    df = table(500)
    found = br.utility(df, resampled(df, 60), permutations=60, random_seed=4)
    cart = found.propensity.xs("cart", level="model")
    gap = cart["pmse"].mean() - cart["null_pmse"].iloc[0]
    error = np.hypot(cart["pmse"].std(), cart["null_sd"].iloc[0]) / np.sqrt(60)
    # copies of records (a bootstrap) are easier to tell than new ones: 10 % is their part
    assert abs(gap) < 4 * error + 0.1 * cart["null_pmse"].iloc[0]


def test_too_many_predictors_are_said_not_fitted():
    rng = np.random.default_rng(1)
    df = pd.DataFrame({c: rng.integers(18, size=400).astype(str) for c in "abcde"})
    found = br.utility(df, resampled(df, 1), **FAST)
    assert np.isnan(found.propensity.loc[(1, "interactions"), "pmse"])
    assert found.propensity.loc[(1, "main"), "df"] == 5 * 17
    assert "more than 1,000" in found.sentence()


# --- limits and invariance -------------------------------------------------------------------


def test_a_release_that_is_the_original():
    df = table(200)
    model = {"c on a": lambda d: smf.ols("c ~ a", d).fit()}
    found = br.utility(df, df.copy(), analyses=model, **FAST)
    assert found.summary().loc[["pmse_main", "pmse_interactions"], "value"].max() < 1e-20
    assert "A tree cannot distinguish the release from the original" in found.sentence()
    partly = br.utility(df, df.copy(), synthesized=["b"], **FAST)
    assert np.isnan(partly.summary().loc["ratio_cart", "value"])  # nothing to permute
    assert "cannot distinguish" in repr(partly)
    assert (found.pairs["total_variation"] == 0).all() and (found.margins["ratio"] == 0).all()
    assert (found.pairs["mutual_information_difference"] == 0).all()
    assert (found.estimates["interval_overlap"] == 1).all()
    assert (found.estimates["standardized_difference"] == 0).all()


def test_a_release_with_nothing_in_common():
    df = table(200)[["a"]]
    found = br.utility(df, df.assign(a="other"), **FAST)
    value = found.summary()["value"]
    assert value["specks_cart"] == 1 and value["margins_total_variation"] == 1
    assert value["margins_hellinger"] == 1 and value["pmse_cart"] == 0.25


def test_order_of_records_and_number_of_threads_change_nothing():
    df = table(300)
    releases = resampled(df, 2)
    first = br.utility(df, releases, permutations=6, random_seed=5)
    shuffled = [t.sample(frac=1, random_state=1) for t in releases]
    again = br.utility(df, shuffled, permutations=6, random_seed=5)
    pd.testing.assert_frame_equal(first.pairs, again.pairs)
    logistic = [f.propensity.drop("cart", level="model") for f in (first, again)]
    pd.testing.assert_frame_equal(*logistic, rtol=1e-6)
    threads = br.utility(df, releases, permutations=6, random_seed=5, n_jobs=2)
    assert threads.dataset.identical(first.dataset)


def test_the_pair_that_was_broken_is_named():
    df = table(1000)
    rng = np.random.default_rng(1)
    broken = df.assign(b=rng.permutation(df["b"]))
    found = br.utility(df, br.Release(datasets=[broken], synthesized=["b"]), **FAST)
    assert found.pairs.index[0] == ("a", "b")
    assert "Worst preserved pair: a and b" in found.sentence()
    assert found.margins.loc["b", "ratio"] == 0
    assert set(found.pairs.index) == {("a", "b"), ("c", "b")}  # a and c were not synthesised
    assert found.pairs.loc[("a", "b"), "mutual_information_difference"] < 0


def test_correlations_of_numbers():
    rng = np.random.default_rng(1)
    x = rng.normal(size=200)
    df = pd.DataFrame({"x": x, "y": x + rng.normal(size=200), "a": ["u", "v"] * 100})
    released = df.assign(y=rng.permutation(df["y"]))
    found = br.utility(df, released, **FAST).pairs
    row = found.loc[("x", "y")]
    assert row["correlation_original"] == pytest.approx(df["x"].corr(df["y"]))
    assert row["correlation_difference"] == pytest.approx(
        released["x"].corr(released["y"]) - df["x"].corr(df["y"])
    )
    assert np.isnan(found.loc[("x", "a"), "correlation_original"])


def test_missing_values_are_a_group():
    df = table(200)
    df.loc[:19, "c"] = np.nan
    df.loc[:9, "a"] = None
    released = df.assign(c=df["c"].fillna(0.0))
    found = br.utility(df, released, **FAST)
    assert found.margins.loc["c", "df"] == 5  # five groups and missing
    assert found.margins.loc["a", "df"] == 3
    assert found.margins.loc["c", "total_variation"] == pytest.approx(0.1)
    with pytest.raises(br.InputError, match="column 'a' of the original has 10 missing values"):
        br.utility(df, released, missing="error")


def test_a_release_may_leave_out_what_was_not_synthesised():
    df = table(200)
    tables = [t[["b"]] for t in resampled_within(df, "a", ["b"], 2)]
    short = br.utility(df, br.Release(datasets=tables, synthesized=["b"]), **FAST)
    full = [df.assign(b=t["b"]) for t in tables]
    assert short.dataset.identical(br.utility(df, full, synthesized=["b"], **FAST).dataset)
    alone = br.utility(df, tables, **FAST)
    assert alone.left_out == ("a", "c") and "lacks them: a, c" in alone.sentence()


def test_share_of_replaced_records_scales_the_null():
    df = table(400)
    some = np.arange(400) < 100
    released = df.assign(b=np.where(some, np.random.default_rng(1).permutation(df["b"]), df["b"]))
    release = br.Release(datasets=[released], synthesized=["b"], records=some)
    found, whole = (
        br.utility(df, release, **FAST),
        br.utility(df, released, synthesized=["b"], **FAST),
    )
    for model in ("main", "interactions"):
        ratio = found.propensity.loc[(1, model)] / whole.propensity.loc[(1, model)]
        assert ratio["null_pmse"] == pytest.approx(0.25 * 1.75) and ratio["pmse"] == 1


# --- analyses --------------------------------------------------------------------------------


def test_interval_overlap_by_hand():
    # [0, 2] and [1, 5]: 1 shared, of 2 and of 4; [3, 4]: a gap of 1
    low, high = np.array([0.0, 0.0]), np.array([2.0, 2.0])
    found = interval_overlap(low, high, np.array([1.0, 3.0]), np.array([5.0, 4.0]))
    np.testing.assert_allclose(found, [0.5 * (1 / 2 + 1 / 4), 0.5 * (-1 / 2 - 1)])


def test_analyses_go_through_the_combining_rules():
    df = table(300)
    releases = resampled(df, 4)

    def fit(d):
        return smf.ols("c ~ a + b", d).fit()

    found = br.utility(df, releases, analyses={"c": fit}, **FAST)
    by_hand = br.combine([fit(t) for t in releases]).table
    row = found.estimates.loc["c"]
    np.testing.assert_allclose(row["release"], by_hand["estimate"])
    np.testing.assert_allclose(row[["low", "high"]], by_hand[["low", "high"]])
    own = fit(df)
    np.testing.assert_allclose(row["original"], own.params)
    np.testing.assert_allclose(
        row["standardized_difference"], (by_hand["estimate"] - own.params) / own.bse
    )
    low, high = (
        own.params - stats.norm.ppf(0.975) * own.bse,
        own.params + stats.norm.ppf(0.975) * own.bse,
    )
    np.testing.assert_allclose(
        row["interval_overlap"], interval_overlap(low, high, by_hand["low"], by_hand["high"])
    )
    one = br.utility(df, releases[0], analyses={"c": fit}, **FAST)
    np.testing.assert_allclose(one.estimates["std_error"], fit(releases[0]).bse)
    assert found.summary().loc["interval_overlap", "value"] == pytest.approx(
        found.dataset["release_interval_overlap"].mean().item()
    )


def test_fully_synthetic_rules_by_hand():
    q, u = np.array([[10.0, 1.0], [14.0, 1.0], [12.0, 1.0]]), np.full((3, 2), 2.0)
    estimate, error, low, high = fully_synthetic(q, u, 0.95)
    total = (1 + 1 / 3) * 4 - 2  # b = 4
    df = 2 * (1 - 3 * 2 / (4 * 4)) ** 2
    np.testing.assert_allclose(estimate, [12, 1])
    np.testing.assert_allclose(error, np.sqrt([total, 2]))  # b = 0: u instead
    assert high[0] - 12 == pytest.approx(stats.t.ppf(0.975, df) * np.sqrt(total))
    assert 1 - low[1] == pytest.approx(stats.norm.ppf(0.975) * np.sqrt(2))
    df_, releases = table(200), resampled(table(200), 3)
    model = {"mean": lambda d: smf.ols("c ~ 1", d).fit()}
    found = br.utility(df_, releases, analyses=model, rules="fully synthetic", **FAST)
    q = np.array([[t["c"].mean()] for t in releases])
    u = np.array([[t["c"].var() / 200] for t in releases])
    assert found.estimates["std_error"].iloc[0] == pytest.approx(fully_synthetic(q, u, 0.95)[1][0])


# --- the result ------------------------------------------------------------------------------


def test_result_holds_together(tmp_path):
    df = table(200)
    model = {"c": lambda d: smf.ols("c ~ a", d).fit()}
    found = br.utility(df, resampled(df, 3), analyses=model, **FAST)
    path = tmp_path / "utility.nc"
    found.dataset.to_netcdf(path, engine="h5netcdf")
    with xr.open_dataset(path, engine="h5netcdf") as back:
        assert back.load().identical(found.dataset)
    summary = found.summary()
    spread = found.propensity.xs("main", level="model")["pmse"]
    assert summary.loc["pmse_main", "sd"] == pytest.approx(spread.std())
    assert summary.loc["pmse_main", "highest"] == spread.max()
    assert len(repr(found).splitlines()) < 40 and "each of 3 releases" in repr(found)
    ratios = found.pairs["ratio"]
    assert ratios.is_monotonic_decreasing
    axes = found.plot()
    assert len(axes.texts) == len(found.pairs) + len(found.margins)
    drawn = axes.collections[0].get_array()
    assert drawn.count() == len(found.pairs) + len(found.margins)
    assert {t.get_text() for t in axes.get_xticklabels()} == {"a", "b", "c"}
    plt.close("all")


def test_a_single_column_has_no_pairs(tmp_path):
    df = table(200)[["b"]]
    found = br.utility(df, resampled(df, 1), **FAST)
    assert not len(found.pairs) and not len(found.estimates) and "Worst" not in found.sentence()
    assert np.isnan(found.summary()["sd"]).all()
    found.dataset.to_netcdf(tmp_path / "one.nc", engine="h5netcdf")
    assert found.plot() is not None


BAD = {
    "no-release": (lambda df: {"release": []}, "releases is empty"),
    "one-name": (lambda df: {"columns": "a"}, "single string"),
    "unknown": (lambda df: {"columns": ["q"]}, "columns names column 'q'"),
    "lacks": (
        lambda df: {"release": df[["a"]], "columns": ["b"]},
        "columns names 'b', which some release lacks",
    ),
    "differs": (
        lambda df: {"synthesized": ["a"]},
        r"column 'b' of release 1 differs from the original in [\d,]+ of [\d,]+ records",
    ),
    "none-made": (lambda df: {"synthesized": ["a"], "columns": ["b"]}, "none of the columns"),
    "declared": (
        lambda df: {"release": br.Release(datasets=[df], synthesized=["a"]), "synthesized": ["b"]},
        "leave synthesized out",
    ),
    "text": (
        lambda df: {"release": df.assign(c="many")},
        "column 'c' holds numbers in the original and text in release 1",
    ),
    "infinite": (lambda df: {"release": df.assign(c=np.inf)}, "'c' of release 1 holds infinite"),
    "rules": (lambda df: {"rules": "full"}, "rules='full' is not known"),
    "analyses": (lambda df: {"analyses": {"a": 3}}, "analyses must be a dict"),
    "no-fit": (lambda df: {"analyses": {"a": lambda d: 3}}, "analysis 'a' gives a int"),
    "other-quantities": (
        lambda df: {
            "release": df.assign(a="x"),
            "analyses": {"of c": lambda d: smf.ols("c ~ a", d).fit()},
        },
        "analysis 'of c', where data set 0 is the original: data set 1 and data set 0 differ",
    ),
    "groups": (lambda df: {"groups": 1}, "groups"),
    "permutations": (lambda df: {"permutations": 1}, "permutations"),
    "confidence": (lambda df: {"confidence": 95}, "confidence=95 is outside"),
    "levels": (
        lambda df: {
            "original": df.assign(a=[f"id{i}" for i in range(len(df))]),
            "numbers": [],
        },
        "distinct values, more than 1,000",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_said(case):
    df = table(1100)
    change, message = BAD[case]
    given = {"original": df, "release": resampled(df, 1)} | change(df)
    with pytest.raises(br.InputError, match=message):
        br.utility(given.pop("original"), given.pop("release"), **given)


def test_what_is_given_is_not_changed():
    df = table(200)
    released = resampled(df, 1)[0]
    before = df.copy(), released.copy()

    def spoil(d):
        d["c"] = 0.0 + np.arange(len(d))
        return smf.ols("c ~ a", d).fit()

    br.utility(df, released, analyses={"spoil": spoil}, **FAST)
    pd.testing.assert_frame_equal(df, before[0])
    pd.testing.assert_frame_equal(released, before[1])


# --- real data -------------------------------------------------------------------------------


def test_tables_have_the_degrees_of_freedom_of_synthpops_vignette(shared_data):
    """Utility vignette, compare(syn_para, ods): df by variable with five groups (income apart)."""
    df = pd.read_csv(shared_data / "sd2011_synthpop.csv.gz")
    expected = {"sex": 1, "age": 4, "edu": 4, "socprof": 9, "trust": 3, "height": 5}
    expected |= {"weight": 5, "smoke": 2, "region": 15}
    found = br.utility(df, df, columns=list(expected), **FAST)
    assert found.margins["df"].astype(int).to_dict() == expected


def test_cart_releases_of_income_keep_its_margin_better_than_uniform_ones(shared_data):
    df = pd.read_csv(shared_data / "ce_hornby_hu_identification.csv.gz")
    runs = sorted((shared_data / "peer_runs").glob("ce_income_release*.csv.gz"))
    releases = [pd.read_csv(path) for path in runs]
    found = br.utility(df, releases, synthesized=["Income"], **FAST)
    ends = br.release_bounds(df, synthesized=["Income"], patterns=["Marital"], m=1, random_seed=1)
    worst = br.utility(df, ends.minimum, **FAST)
    assert found.margins.loc["Income", "ratio"] < 3
    for row in ("ratio_cart", "ratio_main", "pairs_total_variation"):
        assert found.summary().loc[row, "highest"] < worst.summary().loc[row, "value"]
