"""A number that means missing, and missing, are equal in every comparison of files."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.release.links import links

CODE = -8


def coded(seed=0, n=200):
    """Incomes of which 40 % are the code, and a file in which half of them were swapped."""
    rng = np.random.default_rng(seed)
    pay = np.where(rng.random(n) < 0.4, CODE, rng.integers(100, 900, n) * 10)
    df = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "age": rng.integers(20, 70, n)})
    df["pay"] = pay
    moved = rng.permutation(n)[: n // 2]
    file = df.copy()
    file.loc[moved, "pay"] = pay[rng.permutation(moved)]
    return df, file


@pytest.mark.parametrize("radius", [None, {"pay": br.Absolute(500)}])
def test_the_code_and_missing_are_matched_alike(radius):
    df, file = coded()
    empty = file.assign(pay=file["pay"].mask(file["pay"] == CODE).astype("Int64"))
    how = {"known": ["sex", "age"], "synthesized": ["pay"], "radius": radius}
    by_code, by_empty = (br.identification_risk(df, one, **how) for one in (file, empty))
    pd.testing.assert_frame_equal(by_code.records, by_empty.records)


def test_the_code_and_missing_are_counted_and_linked_alike():
    df, file = coded()
    empty = file.assign(pay=file["pay"].mask(file["pay"] == CODE).astype("Int64"))
    by_code, by_empty = (br.exposure(df, one) for one in (file, empty))
    assert by_empty.files.loc[1, "identical"] == (df["pay"] == file["pay"]).sum()
    pd.testing.assert_frame_equal(by_code.files, by_empty.files)
    assert by_empty.why_left_out == {}
    assert links(df, file).tests == links(df, empty).tests


def test_a_file_that_has_the_code_keeps_its_missing_values():
    df, file = coded()
    lost = file.assign(pay=file["pay"].astype(float).mask(np.arange(len(file)) % 50 == 7))
    found = br.exposure(df, lost).files.loc[1, "identical"]
    assert found == (df["pay"] == lost["pay"]).sum()


@pytest.mark.parametrize("seed", range(5))
def test_a_coin_beside_a_kept_unique_pattern_is_chance(seed):
    """Half of the records are identical, because a yes or no drawn afresh is often the same."""
    rng = np.random.default_rng(seed)
    n = 300
    kept = pd.DataFrame({f"q{k}": rng.integers(0, 2, n) for k in range(9)})
    df = kept.assign(vote=rng.integers(0, 2, n))
    file = df.assign(vote=rng.integers(0, 2, n))
    assert (df["vote"] == file["vote"]).mean() > 0.4
    assert not any(one.seen for one in links(df, file).tests)


def test_identical_records_of_partly_replaced_files_are_those_replaced():
    """Of 600 records 60 were replaced, 45 of these with their own values."""
    rng = np.random.default_rng(3)
    n, replaced, same = 600, 60, 45
    df = pd.DataFrame({"job": rng.integers(0, 3, n).astype(str), "pay": rng.normal(0, 1, n)})
    table = df.copy()
    table.loc[same : replaced - 1, "pay"] = rng.normal(0, 1, replaced - same)
    release = br.Release(
        datasets=[table], synthesized=["pay"], records=np.arange(n) < replaced, classes="new"
    )
    found = max(links(df, release).tests, key=lambda one: one.persons)
    assert found.seen and found.persons == pytest.approx(same, abs=replaced - same)
