"""Risk by group: means counted by hand, intervals for all groups at once, and the verdict."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.data.groups import LEAST, Errors, group_risk, groups_of
from bayes_risk.reporting.verdicts.groups import MATCHED_GROUPS, OF_GROUPS
from bayes_risk.reporting.verdicts.verdict import Thresholds, judge
from bayes_risk.risk.posterior import mcse_of_mean
from tests.helpers.every_result import every, people
from tests.helpers.six_records import FIRST, ORIGINAL, risk_of

WORDS = {"event": "the true values", "counted": "raised by more than 0.2"}


def found(p, prior, groups, *, error=0.0, **how):
    """Risk by one column, of records with these probabilities."""
    p, prior = np.array(p, float), np.array(prior, float)
    records = pd.DataFrame({"probability": p, "prior": prior, "counts": (p - prior > 0.2) * 1.0})
    records["counts_without"] = np.nan
    labels = groups_of(["g"], pd.DataFrame({"g": list(groups)}))
    return group_risk(labels, records, lambda _: Errors(error, error), **how, **WORDS)


# --- which group ------------------------------------------------------------------------------


def test_bands_hold_their_lower_end():
    table = pd.DataFrame({"age": [29, 30, 49, 50, 80], "region": list("abbaa")})
    groups = groups_of({"region": [], "age": [30, 50]}, table)
    bands = ["below 30", "30 to below 50", "30 to below 50", "50 and above", "50 and above"]
    assert groups["age"].tolist() == bands
    assert groups["region"].tolist() == list("abbaa")


def test_missing_values_are_a_group_and_few_numbers_their_own():
    groups = groups_of(["n"], pd.DataFrame({"n": [10.0, 9.0, np.nan]}))
    assert groups["n"].tolist() == ["10.0", "9.0", "missing"]
    assert list(groups["n"].cat.categories) == ["9.0", "10.0", "missing"]


@pytest.mark.parametrize(
    ("by", "why"),
    [
        (["pay"], r"'pay', which has 30 different numbers; .* bands begin: {'pay': \[9.7, 19\]}"),
        (["name"], "which has 60 values; give a column of at most 50"),
        (["nobody"], "'nobody', which the table does not have"),
        ({"pay": [20, 10]}, "ascending order"),
        ({"name": [20]}, "no numbers"),
    ],
)
def test_what_makes_no_groups_is_refused_with_a_cure(by, why):
    table = pd.DataFrame({"pay": np.arange(60) % 30, "name": [f"person {i}" for i in range(60)]})
    with pytest.raises(InputError, match=why):
        groups_of(by, table)


# --- means ------------------------------------------------------------------------------------


def test_means_of_each_group_counted_by_hand():
    p = [0.5] * 6 + [0.1] * 4 + [0.9, 0.3]
    table = found(p, [0.1] * 12, "a" * 10 + "bb").table
    a, b = table.loc[("g", "a")], table.loc[("g", "b")]
    assert (a["records"], b["records"]) == (10, 2)
    np.testing.assert_allclose([a["probability"], a["prior"], a["rise"]], [0.34, 0.1, 0.24])
    np.testing.assert_allclose([a["share"], b["share"]], [0.6, 0.5])
    assert a["judged"]
    assert not b["judged"]


def test_the_worst_group_is_one_with_enough_records():
    p, groups = [0.2] * LEAST + [0.3] * LEAST + [1.0], "a" * LEAST + "b" * LEAST + "c"
    one = found(p, [0.1] * len(p), groups).worst
    assert one.name == ("g", "b")
    assert found([0.9], [0.1], "c").worst is None


def test_all_records_as_one_group_have_the_errors_of_the_file():
    risk = every()["attribute"]
    table = risk.by_group(["all"], table=pd.DataFrame({"all": "x"}, index=risk.index)).table
    row, file = table.iloc[0], risk.summary().loc["mean_probability"]
    np.testing.assert_allclose([row["probability"], row["prior"]], file[["value", "baseline"]])
    np.testing.assert_allclose(row["mcse"], mcse_of_mean(risk))


def test_groups_of_an_audit_are_means_of_its_records():
    risk, table = every()["attribute"], people()
    by_sex = risk.by_group(["sex"])
    mean = risk.records["probability"].groupby(table["sex"].reindex(risk.index)).mean()
    np.testing.assert_allclose(by_sex.table["probability"], mean)
    pd.testing.assert_frame_equal(by_sex.table, risk.by_group(["sex"], table=table).table)


def test_matches_by_group_counted_by_hand():
    """In cell x candidates of p, p, q are {1}, {1}, {2, 3}; in y of p, q, r {4}, {5, 6}, none."""
    risk = risk_of(ORIGINAL, FIRST, fallback=False, by=["a"])
    table = risk.groups.table
    np.testing.assert_allclose(table["probability"], [(1 + 0 + 1 / 2) / 3, (1 + 1 / 2 + 0) / 3])
    np.testing.assert_allclose(table["prior"], 1 / 3)
    np.testing.assert_allclose(table["share"], 1 / 3)
    np.testing.assert_allclose(table["share_without"], 0)
    assert not table["judged"].any()


# --- errors -----------------------------------------------------------------------------------


def test_without_errors_and_with_all_records_the_rise_is_exact():
    table = found([0.5] * LEAST, [0.1] * LEAST, "a" * LEAST).table
    np.testing.assert_allclose(table[["low", "high"]], table[["rise", "rise"]])


def test_intervals_widen_with_the_number_of_groups():
    """Bonferroni: of K groups each at level 0.05 / K, from both sides."""
    one = found([0.5] * LEAST, [0.1] * LEAST, "a" * LEAST, error=0.01).table.iloc[0]
    two = found([0.5] * 20, [0.1] * 20, "a" * 10 + "b" * 10, error=0.01).table.iloc[0]
    widths = [(row["high"] - row["low"]) / 2 for row in (one, two)]
    np.testing.assert_allclose(widths, stats.norm.ppf([1 - 0.05 / 2, 1 - 0.05 / 4]) * 0.01)


def test_a_random_sample_has_the_error_of_its_mean():
    p = np.linspace(0.1, 0.9, LEAST)
    row = found(p, [0.0] * LEAST, "a" * LEAST, audited=0.25).table.iloc[0]
    expected = stats.t.ppf(0.975, LEAST - 1) * stats.sem(p) * np.sqrt(0.75)
    np.testing.assert_allclose(row["high"] - row["rise"], expected)
    named = found(p, [0.0] * LEAST, "a" * LEAST, audited=0.25, at_random=False)
    assert named.worst["low"] == named.worst["high"]
    assert "not drawn at random" in named.sentence()


@pytest.mark.check
def test_the_interval_of_the_worst_of_many_groups_holds_its_true_rise():
    """All groups have one true rise; the largest mean of 20 is too high, its interval is not."""
    rng, times, K, n = np.random.default_rng(1), 400, 20, 30
    groups = np.repeat([f"{k:02d}" for k in range(K)], n)
    missed = too_high = 0
    for _ in range(times):
        p = rng.beta(2, 6, size=K * n)  # mean 1/4
        one = found(p, np.zeros(K * n), groups, audited=1e-6).worst
        missed += not one["low"] <= 0.25 <= one["high"]
        too_high += one["rise"] > 0.25
    assert too_high > 0.99 * times
    assert missed / times <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / times)


# --- the verdict ------------------------------------------------------------------------------


def reason(groups, measure=OF_GROUPS, limit=0.1):
    risk = replace(every()["attribute"], groups=groups)
    verdict = judge(risk, None, Thresholds(group_gain=limit))
    return next((r for r in verdict.reasons if r.measure == measure), None)


@pytest.mark.parametrize(
    ("rise", "error", "outcome"),
    [
        (0.3, 0.01, "above your thresholds"),
        (0.11, 0.02, "inconclusive"),
        (0.05, 0.001, "within your thresholds"),
        (0.1, 0.0, "within your thresholds"),
    ],
)
def test_a_group_is_above_where_its_whole_interval_is(rise, error, outcome):
    n = 2 * LEAST
    groups = found(
        [0.2 + rise] * LEAST + [0.2] * LEAST, [0.2] * n, "a" * 10 + "b" * 10, error=error
    )
    judged = reason(groups)
    assert judged.outcome == outcome
    assert "g = a (10 records)" in judged.sentence
    assert judged.figures.what.endswith("g = a")


def test_groups_that_nobody_asked_for_or_that_are_small_are_not_judged():
    assert reason(None) is None
    assert reason(found([0.9], [0.1], "c")) is None


def test_a_group_whose_records_are_found_is_above():
    n = 2 * LEAST
    original = pd.DataFrame({"a": ["x"] * LEAST + ["y"] * LEAST, "b": range(n)}).astype(str)
    file = original.assign(b=[*original["b"][:LEAST], *["0"] * LEAST])
    risk = risk_of(original, file, by=["a"], fallback=True)
    worst = risk.groups.worst
    assert worst.name == ("a", "x")
    np.testing.assert_allclose(
        worst[["probability", "prior", "share", "share_without"]].tolist(), [1, 0.1, 1, 0]
    )
    found_ = next(r for r in judge(None, risk).reasons if r.measure == MATCHED_GROUPS)
    assert found_.outcome == "above your thresholds"


def test_matching_by_group_needs_rows_that_are_records():
    table = people()
    with pytest.raises(InputError, match="needs rows that are records"):
        br.identification_risk(
            table, table.head(20), known=[], synthesized=["sex", "job"], by=["sex"]
        )
