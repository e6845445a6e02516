"""Identification risk: files made by hand, all pairs, limits, invariance, the result."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayes_risk.matching.risk import identification_risk
from tests.helpers.six_records import FIRST, ORIGINAL, SECOND, frame, random_files, risk_of

NAN = float("nan")
SUMMARY = [
    "expected_match_risk",
    "mcse",
    "baseline",
    "true_matches",
    "true_match_rate",
    "unique_matches",
    "false_match_rate",
    "no_match",
    "claims",
    "identical_records",
    "replicated_uniques",
]
RECORDS = [
    *("probability", "candidates", "true_match", "false_match", "outside", "baseline", "mcse")
]
NAN = float("nan")


# --- by hand -------------------------------------------------------------------------------------


def test_six_records_by_hand_with_fallback() -> None:
    """Targets xp xp xq yp yq yr.

    Release 1: xp is held by {0}, xq by {1, 2}, yp by {3}, yq by {4, 5}, yr by none -> {3, 4, 5}.
    Release 2: xp is held by {0, 1, 2}, xq by none -> {0, 1, 2}, yp by {5}, yq by {3, 4}, yr none.
    """
    risk = risk_of(ORIGINAL, [FIRST, SECOND])
    assert risk.c.T.tolist() == [[1, 1, 2, 1, 2, 3], [3, 3, 3, 1, 2, 3]]
    assert risk.T.T.astype(int).tolist() == [[1, 0, 1, 1, 1, 1], [1, 1, 1, 0, 1, 1]]
    assert risk.K.T.astype(int).tolist() == [[1, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]]
    assert risk.F.T.astype(int).tolist() == [[0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0]]
    assert risk.no_match.T.astype(int).tolist() == [[0, 0, 0, 0, 0, 1], [0, 0, 1, 0, 0, 1]]
    # Pooled, times two. xp: 0 has 1 + 1/3, 1 and 2 have 1/3. xq: 1 and 2 have 1/2 + 1/3, 0 has 1/3.
    # yp: 3 and 5 have 1. yq: 4 has 1/2 + 1/2, 3 and 5 have 1/2. yr: 3, 4, 5 have 1/3 + 1/3.
    assert risk.pooled_c.tolist() == [1, 1, 2, 2, 1, 3]
    assert risk.pooled_T.astype(int).tolist() == [1, 0, 1, 1, 1, 1]
    assert risk.pooled_K.astype(int).tolist() == [1, 0, 0, 0, 1, 0]
    assert risk.pooled_F.astype(int).tolist() == [0, 1, 0, 0, 0, 0]
    assert risk.pooled_no_match.astype(int).tolist() == [0, 0, 0, 0, 0, 1]
    # Equal to their own row: 0, 2, 3, 4; then 0, 1, 4. Unique in both files: yp (3), twice.
    expected = pd.DataFrame(
        [
            [1 + 0 + 1 / 2 + 1 + 1 / 2 + 1 / 3, NAN, 2, 2, 2 / 6, 3, 1 / 3, 1, 6, 4, 1],
            [1 / 3 + 1 / 3 + 1 / 3 + 0 + 1 / 2 + 1 / 3, NAN, 2, 0, 0, 1, 1, 2, 6, 3, 1],
            # two values: |difference| / 2
            [(10 / 3 + 11 / 6) / 2, (10 / 3 - 11 / 6) / 2, 2, 1, 1 / 6, 2, 2 / 3, 1.5, 6, 3.5, 1],
            [1 + 0 + 1 / 2 + 1 / 2 + 1 + 1 / 3, NAN, 2, 2, 2 / 6, 3, 1 / 3, 1, 6, 5, 1],
        ],
        columns=SUMMARY,
        index=pd.Index([1, 2, "mean", "pooled"], name="release"),
    )
    pd.testing.assert_frame_equal(risk.summary(), expected.astype(float))
    records = pd.DataFrame(
        {
            "probability": [1, 0, 1 / 2, 1 / 2, 1, 1 / 3],
            "candidates": [1, 1, 2, 2, 1, 3],
            "true_match": [True, False, False, False, True, False],
            "false_match": [False, True, False, False, False, False],
            "outside": [0.0] * 6,
            "baseline": [1 / 3] * 6,
            # two values: |difference| / 2
            "mcse": [1 / 3, 1 / 6, 1 / 12, 1 / 2, 0, 0],
        }
    )
    pd.testing.assert_frame_equal(risk.records, records)


def test_no_single_match_makes_the_false_match_rate_undefined() -> None:
    original = frame("xxyy", "pppp")
    summary = risk_of(original, [original, original]).summary()
    assert summary["unique_matches"].tolist() == [0, 0, 0, 0]
    assert summary["false_match_rate"].isna().all()
    # defined in one release of two: the mean is over that one
    half = risk_of(frame("xxyy", "pqpp"), [frame("xxyy", "pqpp"), frame("xxyy", "pppp")])
    rates = half.summary()["false_match_rate"].to_dict()
    assert rates[1] == rates["mean"] == 0
    assert np.isnan(rates[2])


# --- all pairs -----------------------------------------------------------------------------------


# --- limits --------------------------------------------------------------------------------------


def test_a_release_of_the_original_gives_one_expected_match_per_cell() -> None:
    rng = np.random.default_rng(2)
    original = pd.DataFrame(rng.integers(0, 3, (200, 4)), columns=list("abcd"))
    risk = identification_risk(
        original, [original] * 3, known=["a", "b"], synthesized=["c", "d"], fallback=False
    )
    cells = original.groupby(list("abcd")).size()
    summary = risk.summary()
    assert summary["expected_match_risk"].to_numpy() == pytest.approx(len(cells))
    assert summary["true_matches"].tolist() == [(cells == 1).sum()] * 5
    assert (summary["no_match"] == 0).all()
    assert risk.baseline_expected_match_risk == pytest.approx(original.groupby(["a", "b"]).ngroups)


@pytest.mark.parametrize("m", [1, 2])
def test_a_release_independent_of_y_is_worth_the_baseline(m: int) -> None:
    """Every assignment of synthetic values to the records of a cell is as likely as any other."""
    original, shuffles = frame("xxxy", "ppqq"), list(itertools.permutations("pqr"))
    total = np.zeros(m + 2)
    choices = list(itertools.product(shuffles, repeat=m))
    for choice in choices:
        releases = [frame("xxxy", "".join(values) + "p") for values in choice]
        total += risk_of(original, releases).summary()["expected_match_risk"].to_numpy()
    assert total / len(choices) == pytest.approx(2)  # two cells of known keys


def test_one_release_pooled_is_that_release() -> None:
    risk = risk_of(ORIGINAL, FIRST)
    summary = risk.summary()
    assert summary.index.tolist() == [1, "mean", "pooled"]
    assert summary["mcse"].isna().all()
    one, mean, pooled = summary.drop(columns="mcse").to_numpy().tolist()
    assert one == mean == pooled
    assert risk.expected_match_risk_mcse.isna().all()
    assert risk.records["mcse"].isna().all()


# --- errors of the numbers -----------------------------------------------------------------------


def test_errors_are_the_spread_over_releases() -> None:
    original, releases = random_files(4)
    risk = risk_of(original, releases)
    each = risk.summary()["expected_match_risk"].loc[[1, 2, 3, 4]]
    assert risk.expected_match_risk_mcse["mean"] == pytest.approx(each.sem())
    alone = pd.concat([risk_of(original, z).records["probability"] for z in releases], axis=1)
    assert risk.records["mcse"].to_numpy() == pytest.approx(alone.sem(axis=1).to_numpy())


# --- invariance ----------------------------------------------------------------------------------


def test_records_in_another_order_are_found_by_their_index() -> None:
    labels = ["r1", "r2", "r3", "r4", "r5", "r6"]
    original, first = ORIGINAL.set_axis(labels), FIRST.set_axis(labels)
    shuffled = first.loc[["r4", "r1", "r6", "r2", "r5", "r3"]]
    straight, turned = risk_of(original, first), risk_of(original, shuffled)
    pd.testing.assert_frame_equal(straight.records, turned.records)
    pd.testing.assert_frame_equal(
        turned.records.reset_index(drop=True), risk_of(ORIGINAL, FIRST).records
    )


def test_the_order_of_the_original_only_orders_the_result() -> None:
    original, releases = random_files(3)
    releases = [table.rename_axis("id") for table in releases]
    order = np.random.default_rng(4).permutation(len(original))
    turned = risk_of(original.iloc[order], releases)
    pd.testing.assert_frame_equal(turned.records, risk_of(original, releases).records.iloc[order])


def test_the_inputs_stay_as_they_were() -> None:
    original, releases = random_files(2)
    original = original.rename_axis("id")
    kept = [t.copy(deep=True) for t in (original, *releases)]
    risk_of(original, [releases[0], releases[1].iloc[::-1]])
    for now, before in zip((original, *releases), kept, strict=True):
        pd.testing.assert_frame_equal(now, before)


# --- the result ----------------------------------------------------------------------------------


def test_columns_are_the_contract() -> None:
    risk = risk_of(ORIGINAL.set_axis(list("uvwxyz")), [t.set_axis(list("uvwxyz")) for t in [FIRST]])
    assert risk.summary().columns.tolist() == SUMMARY
    assert risk.records.columns.tolist() == RECORDS
    assert risk.records.index.tolist() == list("uvwxyz")
    with pytest.raises(dataclasses.FrozenInstanceError):
        risk.fallback = False  # type: ignore[misc]


@pytest.mark.parametrize("labels", [range(6), [9, 8, 7, 3, 2, 1], list("uvwxyz")])
def test_netcdf_round_trip(labels: Any, tmp_path: Path) -> None:
    original, *releases = (t.set_axis(labels) for t in (ORIGINAL, FIRST, SECOND))
    risk = risk_of(original, releases)
    dataset = risk.dataset
    assert dict(dataset.sizes) == {"record": 6, "release": 2}
    assert dataset["release"].values.tolist() == [1, 2]
    dataset.to_netcdf(tmp_path / "risk.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "risk.nc", engine="h5netcdf") as again:
        xr.testing.assert_equal(again, dataset)
        assert again["record"].values.tolist() == list(labels)
        for name in ("c", "T", "K", "F", "no_match", "outside"):
            assert again[name].dims == ("record", "release")
            assert again[f"pooled_{name}"].dims == ("record",)
            assert again[name].dtype == getattr(risk, name).dtype
        assert again.sel(record=labels[1], release=1)["c"] == 1
        assert again.attrs["known"] == "a"
        assert np.isnan(again.attrs["pooled_mcse"])


def test_labels_of_any_kind_can_be_stored() -> None:
    pairs = pd.MultiIndex.from_product([["s", "t"], [1, 2, 3]])
    assert risk_of(ORIGINAL.set_axis(pairs), FIRST.set_axis(pairs)).dataset.sizes["record"] == 6


def test_the_sentence_says_who_knows_what_and_what_it_is_worth() -> None:
    text = risk_of(ORIGINAL, [FIRST, SECOND]).sentence()
    assert text == (
        "An intruder who knows a of everyone and searches for the true values of b in the 2 "
        "releases "
        "together is expected to match 3.3 of 6 records (55.6 %); without the release 2.0. "
        "With one release only: 2.6 on average. 3 records have a unique match; 2 of these are "
        "right (66.7 %)."
    )
    assert "in the release is expected to match 3.3 of 6" in risk_of(ORIGINAL, FIRST).sentence()
    nobody = risk_of(frame("xx", "pp"), frame("xx", "pp"), known=[])
    assert "An intruder who searches for the true values of b in" in nobody.sentence()
    assert nobody.sentence().endswith("No record has a unique match.")
    known = risk_of(ORIGINAL, FIRST, known=["a"], synthesized=[])
    assert "An intruder who knows a (not synthesised) of everyone is" in known.sentence()


def test_the_repr_fits_one_screen() -> None:
    original, releases = random_files(30)
    shown = repr(risk_of(original, releases))
    assert shown.startswith("IdentificationRisk\nAn intruder who knows a of everyone")
    assert len(shown.splitlines()) < 20
    assert shown.splitlines()[-1].startswith("pooled")
