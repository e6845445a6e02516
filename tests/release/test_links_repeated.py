"""Links where records stand several times, names, means of files, sharp regressions."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.release.seen import Seen
from bayes_risk.reporting.verdicts.verdict import judge


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "pay": np.exp(10 + rng.normal(size=n)).round(2),
            "edu": rng.choice(list("abcde"), n),
        }
    )


def several(table: pd.DataFrame, times: int, *, less: int = 0) -> pd.DataFrame:
    """Everybody so many times, in another order, less some rows."""
    return pd.concat([table] * times).sample(frac=1, random_state=1).iloc[less:]


def seen(original: pd.DataFrame, file: pd.DataFrame) -> list[str]:
    found = br.links(original.reset_index(drop=True), [file], corresponds=False)
    return sorted({one.test for one in found.tests if one.seen})


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("times", [2, 3])
def test_the_original_several_times_over_is_seen(n: int, times: int) -> None:
    y = people(n, 1)
    assert "identical records" in seen(y, several(y, times))
    assert "identical records" in seen(y, several(y, times, less=1))


def test_other_people_several_times_over_are_not_seen() -> None:
    y, others = people(200, 1), people(200, 2)
    assert seen(y, several(others, 2)) == seen(several(y, 3), others) == []
    assert seen(several(y, 2), several(others, 3)) == []


def test_noisy_records_several_times_over_are_seen() -> None:
    y = people(200, 1)
    noise = 1 + 0.001 * np.random.default_rng(3).normal(size=200)
    noisy = y.assign(pay=(y.pay * noise).round(2))
    assert "nearest records" in seen(y, several(noisy, 2))
    assert "nearest records" in seen(several(y, 2), noisy)


def test_who_stands_nearly_always_twice_is_seen_and_counted_so() -> None:
    y = people(200, 1)
    twice = pd.concat([y, y, y.iloc[:5]]).reset_index(drop=True)
    found = br.links(twice, [several(twice, 1, less=1)], corresponds=False)
    persons = found.worst()["identical records"].persons
    assert 0.9 * len(twice) < persons <= len(twice)


def test_columns_may_have_numbers_for_names() -> None:
    y = people(60, 1).set_axis([0, 1, 2], axis=1)
    found = br.links(y, [y.iloc[1:]], corresponds=False)
    assert "(0, 1, 2)" in found.sentence() and found.summary()["columns"].iloc[0] == "0, 1, 2"


def judged(original: pd.DataFrame, files: list[pd.DataFrame]) -> dict[str, str]:
    """The outcome of each measure, of keys that are synthesised."""
    risk = br.identification_risk(original, files, known=[], synthesized=["edu"], corresponds=True)
    order = ("above your thresholds", "inconclusive")
    reasons = judge(None, risk).reasons
    return {r.measure: r.outcome for o in order for r in reasons if r.outcome == o}


def test_fresh_names_that_meet_those_of_the_original_are_a_doubt() -> None:
    y, z = people(60, 1), people(60, 2)
    y, z = (t.assign(name=[f"n{i + k}" for i in range(60)]) for t, k in ((y, 0), (z, 55)))
    assert judged(y, [z])["identifiers"] == "inconclusive"
    assert judged(y, [z.assign(name=y.name)])["identifiers"] == "above your thresholds"


def test_amounts_are_no_identifiers_whatever_their_name() -> None:
    y, z = (
        t.assign(num_shares=np.random.default_rng(s).integers(0, 150, 200))
        for s, t in enumerate((people(200, 1), people(200, 2)))
    )
    found = br.links(y, [z], corresponds=False)
    assert not found.identifiers and "num_shares" in found.made


def test_who_is_seen_in_the_mean_of_many_files_is_never_within() -> None:
    y, noise = people(1_000, 1), np.random.default_rng(4)
    files = [
        people(1_000, s).assign(pay=(y.pay * np.exp(0.5 * noise.normal(size=1_000))).round(2))
        for s in range(10, 20)
    ]
    assert judged(y, files)["own rows"] == "inconclusive"


def test_the_mean_of_numbers_whose_sum_is_too_large_has_its_rank() -> None:
    values, codes = np.array([1.0, 1e308, 1.7e308]), np.array([[0, 1, 2], [0, 2, 1], [0, 2, 1]])
    held = SimpleNamespace(values=values, codes=codes)  # of the original and two files
    given: Any = SimpleNamespace(ranks={}, _has_numbers=lambda _: True, column=lambda _: held)
    y, mean = Seen.mean(given, "x", range(3), [np.arange(3)] * 3) or []
    assert y[0] == mean[0] < y[1] == mean[2] < y[2] == mean[1]


def test_a_sharp_regression_on_kept_columns_is_never_above() -> None:
    rng = np.random.default_rng(1)
    kept = pd.DataFrame(rng.integers(0, 15, (300, 4)), columns=list("abcd"))
    y, z = (
        kept.assign(pay=kept.sum(axis=1) + rng.normal(size=300), edu=rng.choice(list("xyz"), 300))
        for _ in range(2)
    )
    assert "above your thresholds" not in judged(y, [z]).values()


@pytest.mark.parametrize("by", [["pay"], ["edu", "pay"], ["edu"]])
def test_files_sorted_as_the_original_is_have_no_rows_of_their_own(by: list[str]) -> None:
    y, z = (people(200, s).sort_values(by, kind="stable").reset_index(drop=True) for s in (1, 2))
    assert not any(one.seen for one in br.links(y, z).tests)


def test_a_table_without_doubles_says_nothing_by_equal_records() -> None:
    rng = np.random.default_rng(1)
    y, z = (pd.DataFrame(rng.integers(0, 12, (400, 3)), columns=list("abc")) for _ in "yz")
    found = br.links(y.drop_duplicates().reset_index(drop=True), z, corresponds=False)
    assert not any(one.seen for one in found.tests)
