"""The ends of the scale: what they keep, what they draw, and that risk measures order them."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br


def table(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    sex = rng.choice(list("fm"), n)
    job = np.where(rng.random(n) < 0.6, np.where(sex == "f", "a", "b"), rng.choice(list("abcd"), n))
    return pd.DataFrame(
        {"sex": sex, "area": rng.integers(5, size=n), "job": job, "pay": rng.gamma(2, 10, n)}
    )


def test_maximum_takes_whole_records_of_the_same_pattern():
    df = table()
    ends = br.release_bounds(df, synthesized=["job", "pay"], patterns=["sex"], m=3, random_seed=1)
    seen = {sex: set(zip(g["job"], g["pay"], strict=True)) for sex, g in df.groupby("sex")}
    for z in ends.maximum.datasets:
        pd.testing.assert_frame_equal(z[["sex", "area"]], df[["sex", "area"]])
        for sex, group in z.groupby("sex"):
            assert set(zip(group["job"], group["pay"], strict=True)) <= seen[sex]
    assert not ends.maximum.datasets[0].equals(ends.maximum.datasets[1])


def test_bootstrap_is_uniform_over_the_records_of_a_pattern():
    df = pd.DataFrame({"g": list("aabbb"), "v": [0, 1, 2, 3, 4]})
    ends = br.release_bounds(df, synthesized=["v"], patterns=["g"], m=300, random_seed=1)
    drawn = np.array([z["v"].to_numpy() for z in ends.maximum.datasets])
    for i, own in enumerate([[0, 1], [0, 1], [2, 3, 4], [2, 3, 4], [2, 3, 4]]):
        counts = [(drawn[:, i] == v).sum() for v in own]
        assert sum(counts) == 300
        assert stats.chisquare(counts).pvalue > 1e-4
    # records are drawn independently of each other
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 4 / np.sqrt(300)


def test_permuting_keeps_the_values_of_every_pattern():
    df = table()
    ends = br.release_bounds(
        df, synthesized=["pay"], patterns=["sex", "area"], how="permute", m=2, random_seed=1
    )
    for z in ends.maximum.datasets:
        assert not z["pay"].equals(df["pay"])
        for pattern, group in df.groupby(["sex", "area"]):
            own = z.loc[group.index, "pay"]
            assert sorted(own) == sorted(group["pay"]), pattern


def test_records_alone_in_their_pattern_keep_their_values():
    df = pd.DataFrame({"id": range(30), "v": range(30)})
    ends = br.release_bounds(df, synthesized=["v"], m=2, random_seed=1)
    assert ends.patterns == ("id",) and ends.alone == 30 and "30 records are alone" in repr(ends)
    for z in ends.maximum.datasets:
        pd.testing.assert_frame_equal(z, df)


def test_minimum_is_uniform_whatever_the_data_say():
    df = table()
    ends = br.release_bounds(df, synthesized=["job", "pay", "area"], m=5, random_seed=1)
    drawn = pd.concat(ends.minimum.datasets)
    assert stats.chisquare(drawn["job"].value_counts()).pvalue > 1e-4
    assert stats.chisquare(drawn["area"].value_counts()).pvalue > 1e-4
    low, high = df["pay"].min(), df["pay"].max()
    assert stats.kstest(drawn["pay"], "uniform", (low, high - low)).pvalue > 1e-4
    table_ = pd.crosstab(drawn["job"], drawn["sex"])
    assert stats.chi2_contingency(table_).pvalue > 1e-4
    assert drawn.dtypes.equals(df.dtypes)


def test_declared_levels_count_and_missing_is_one():
    job = pd.Categorical(["a", "b", None, "a"] * 100, categories=["a", "b", "c"])
    df = pd.DataFrame({"job": job, "n": pd.array([1, 2, 3, None] * 100, dtype="Int64")})
    ends = br.release_bounds(df, synthesized=["job", "n"], m=5, random_seed=1)
    drawn = pd.concat(ends.minimum.datasets)
    counts = drawn["job"].value_counts(dropna=False)
    assert len(counts) == 4 and stats.chisquare(counts).pvalue > 1e-4
    assert len(drawn["n"].value_counts(dropna=False)) == 4
    assert drawn.dtypes.equals(df.dtypes)


def test_same_seed_same_releases():
    df = table()
    first, again, other = (
        br.release_bounds(df, synthesized=["job"], m=2, random_seed=s) for s in (1, 1, 2)
    )
    for end in ("minimum", "maximum"):
        pd.testing.assert_frame_equal(*[getattr(b, end).datasets[1] for b in (first, again)])
    assert not first.minimum.datasets[0].equals(other.minimum.datasets[0])


@pytest.mark.check
def test_numbers_stand_between_the_ends():
    df = table().assign(
        area=np.arange(600) % 60, job=lambda t: pd.qcut(t["pay"], 30, labels=False).astype(str)
    )
    keys = ["sex", "area"]
    ends = br.release_bounds(df, synthesized=["job"], patterns=["sex"], m=5, random_seed=1)
    near = br.release_bounds(
        df, synthesized=["job"], patterns=["sex", "area", "pay"], m=5, random_seed=1
    )

    def risk(release):
        found = br.identification_risk(df, release, known=keys, synthesized=["job"], fallback=False)
        return found.summary().loc["mean", ["expected_match_risk", "true_match_rate"]]

    found = ends.between(near.maximum, risk)
    assert (found["release"] == found["unchanged"]).all()  # alone in their patterns: as they are
    assert (found["release"] > found["maximum"]).all()  # beyond what the patterns give
    ends = br.release_bounds(df, synthesized=["job"], patterns=keys, m=5, random_seed=1)
    half = br.Release(
        datasets=[ends.minimum.datasets[0], ends.maximum.datasets[0]], synthesized=["job"]
    )
    found = ends.between(half, risk)
    assert (found["minimum"] < found["maximum"]).all()
    assert (found["maximum"] < found["unchanged"]).all()
    assert found["position"].between(0, 1, inclusive="neither").all()
    assert (ends.between(ends.maximum, risk)["position"] == 1).all()
    assert (ends.between(ends.minimum, risk)["position"] == 0).all()
    assert np.isnan(ends.between(half, lambda r: 3.0).loc["value", "position"])


def test_utility_has_the_same_ends_the_other_way_round():
    df = table()
    ends = br.release_bounds(df, synthesized=["job"], patterns=["sex"], m=2, random_seed=1)
    found = ends.between(
        ends.maximum, lambda r: br.utility(df, r, random_seed=1).summary()["value"]
    )
    row = found.loc["pairs_total_variation"]
    assert row["unchanged"] == 0 and row["minimum"] > row["maximum"] > 0


def test_minimum_hits_at_the_random_guess_rate():
    """Exact hits of an attribute of d levels: n / d at the minimum (Hu & Savitsky 2018)."""
    df = table(4000)
    ends = br.release_bounds(df, synthesized=["job"], patterns=["sex"], m=5, random_seed=1)

    def hits(release):
        return float(np.mean([(z["job"] == df["job"]).mean() for z in release.datasets]))

    # within a pattern the maximum hits with sum p^2
    shares = df.groupby("sex")["job"].value_counts(normalize=True)
    expected = sum((df["sex"] == sex).mean() * (shares[sex] ** 2).sum() for sex in ("f", "m"))
    for release, p in ((ends.minimum, 1 / 4), (ends.maximum, expected)):
        assert abs(hits(release) - p) < 4 * np.sqrt(p * (1 - p) / 20_000)


BAD = {
    "nothing": ({"synthesized": []}, "synthesized is empty"),
    "unknown": ({"synthesized": ["q"]}, "synthesized names column 'q'"),
    "both": ({"patterns": ["job"]}, "patterns names 'job', which is synthesised"),
    "how": ({"how": "swap"}, "how='swap' is not known"),
    "m": ({"m": 0}, "m"),
    "numbers": ({"numbers": ["job"]}, "numbers names 'job', which holds no numbers"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_said(case):
    change, message = BAD[case]
    with pytest.raises(br.InputError, match=message):
        br.release_bounds(table(20), **({"synthesized": ["job"]} | change))
