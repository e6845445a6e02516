"""Identification risk: files made by hand, all pairs, limits, invariance, real data."""

import dataclasses
import itertools
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from bayes_risk._core.errors import InputError
from bayes_risk.identification import identification_risk
from bayes_risk.identification_result import IdentificationRisk
from bayes_risk.release import Release

SUMMARY = [
    "expected_match_risk",
    "true_matches",
    "true_match_rate",
    "unique_matches",
    "false_match_rate",
    "no_match",
]
RECORDS = ["probability", "candidates", "true_match", "false_match", "baseline", "mcse"]
NAN = float("nan")


def frame(us: str, s: str, index: Any = None) -> pd.DataFrame:
    return pd.DataFrame({"a": list(us), "b": list(s)}, index=index)


def risk_of(original: pd.DataFrame, releases: Any, **options: Any) -> IdentificationRisk:
    options = {"known": ["a"], "synthesized": ["b"]} | options
    return identification_risk(original, releases, **options)


# --- by hand -------------------------------------------------------------------------------------

ORIGINAL = frame("xxxyyy", "ppqpqr")
FIRST = frame("xxxyyy", "pqqpqq")  # nobody is (y, r)
SECOND = frame("xxxyyy", "pppqqp")  # nobody is (x, q) or (y, r)


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
    expected = pd.DataFrame(
        [
            [1 + 0 + 1 / 2 + 1 + 1 / 2 + 1 / 3, 2, 2 / 6, 3, 1 / 3, 1],
            [1 / 3 + 1 / 3 + 1 / 3 + 0 + 1 / 2 + 1 / 3, 0, 0, 1, 1, 2],
            [(10 / 3 + 11 / 6) / 2, 1, 1 / 6, 2, 2 / 3, 1.5],
            [1 + 0 + 1 / 2 + 1 / 2 + 1 + 1 / 3, 2, 2 / 6, 3, 1 / 3, 1],
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
            "baseline": [1 / 3] * 6,
            # two values: |difference| / 2
            "mcse": [1 / 3, 1 / 6, 1 / 12, 1 / 2, 0, 0],
        }
    )
    pd.testing.assert_frame_equal(risk.records, records)


def test_six_records_by_hand_without_fallback() -> None:
    risk = risk_of(ORIGINAL, [FIRST, SECOND], fallback=False)
    assert risk.c.T.tolist() == [[1, 1, 2, 1, 2, 0], [3, 3, 0, 1, 2, 0]]
    assert risk.T.T.astype(int).tolist() == [[1, 0, 1, 1, 1, 0], [1, 1, 0, 0, 1, 0]]
    assert risk.pooled_c.tolist() == [1, 1, 2, 2, 1, 0]
    assert risk.pooled_T.astype(int).tolist() == [1, 0, 1, 1, 1, 0]
    emr = risk.summary()["expected_match_risk"]
    assert emr.to_numpy() == pytest.approx([3, 7 / 6, (3 + 7 / 6) / 2, 3])
    assert risk.summary()["no_match"].tolist() == [1, 2, 1.5, 1]
    assert risk.records["probability"].tolist() == [1, 0, 0.5, 0.5, 1, 0]


def test_without_known_keys_the_fallback_is_everybody() -> None:
    original, synthetic = frame("xxxx", "pqrs"), frame("xxxx", "ppqq")
    risk = risk_of(original, synthetic, known=[])
    # p: {0, 1}; q: {2, 3}, not 1; r and s: nobody, so all four
    assert risk.c[:, 0].tolist() == [2, 2, 4, 4]
    assert risk.T[:, 0].tolist() == [True, False, True, True]
    assert risk.baseline.tolist() == [1 / 4] * 4
    assert risk.baseline_expected_match_risk == 1
    assert risk.summary().loc[1, "expected_match_risk"] == 1 / 2 + 1 / 4 + 1 / 4


def test_without_synthesised_keys_the_risk_is_the_number_of_cells() -> None:
    risk = risk_of(ORIGINAL, [ORIGINAL] * 3, known=["a", "b"], synthesized=[])
    assert risk.summary()["expected_match_risk"].tolist() == pytest.approx([5] * 5)
    assert risk.baseline_expected_match_risk == pytest.approx(5)
    assert risk.expected_match_risk_mcse.tolist() == pytest.approx([0, 0])


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


def brute(us: list[Any], s: list[Any], z: list[list[Any]], *, fallback: bool) -> list[Fraction]:
    """Expected match risk of each release, then pooled, by comparing everyone with everyone."""
    n, m = len(us), len(z)
    risks = [Fraction(0)] * (m + 1)
    for i in range(n):
        tables = []
        for row in z:
            hits = [j for j in range(n) if us[j] == us[i] and row[j] == s[i]]
            if not hits and fallback:
                hits = [j for j in range(n) if us[j] == us[i]]
            tables.append([Fraction(j in hits, max(len(hits), 1)) for j in range(n)])
        tables.append([sum(column, Fraction(0)) for column in zip(*tables, strict=True)])
        for k, table in enumerate(tables):
            if table[i] and table[i] == max(table):
                risks[k] += Fraction(1, table.count(table[i]))
    return risks


@st.composite
def tables(draw: st.DrawFn) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """Two known and two synthesised keys, missing values and unseen levels among them."""
    n, m = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    text = st.sampled_from(["u", "v", None])
    number = st.sampled_from([0.0, 1.0, 2.0, NAN])

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=n, max_size=n))

    original = pd.DataFrame(
        {"k1": column(st.sampled_from("xy")), "k2": column(text), "s1": column(text)},
        dtype=object,
    ).assign(s2=np.array(column(number)))
    releases = [
        original.assign(s1=pd.Series(column(text), dtype=object), s2=np.array(column(number)))
        for _ in range(m)
    ]
    return original, releases


@given(tables(), st.booleans())
def test_expected_match_risk_agrees_with_all_pairs(
    files: tuple[pd.DataFrame, list[pd.DataFrame]], fallback: bool
) -> None:
    original, releases = files
    risk = identification_risk(
        original, releases, known=["k1", "k2"], synthesized=["s1", "s2"], fallback=fallback
    )

    def rows(table: pd.DataFrame, keys: list[str]) -> list[Any]:
        return [
            tuple("missing" if pd.isna(v) else str(v) for v in row) for row in table[keys].values
        ]

    expected = brute(
        rows(original, ["k1", "k2"]),
        rows(original, ["s1", "s2"]),
        [rows(table, ["s1", "s2"]) for table in releases],
        fallback=fallback,
    )
    emr = risk.summary()["expected_match_risk"].drop("mean").to_numpy()
    assert emr == pytest.approx([float(v) for v in expected])


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
    one, mean, pooled = summary.to_numpy().tolist()
    assert one == mean == pooled
    assert risk.expected_match_risk_mcse.isna().all()
    assert risk.records["mcse"].isna().all()


# --- errors of the numbers -----------------------------------------------------------------------


def random_files(m: int, n: int = 60) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    rng = np.random.default_rng(3)
    original = pd.DataFrame({"a": rng.integers(0, 4, n), "b": rng.integers(0, 6, n)})
    return original, [original.assign(b=rng.integers(0, 6, n)) for _ in range(m)]


def test_errors_are_the_spread_over_releases() -> None:
    original, releases = random_files(4)
    risk = risk_of(original, releases)
    each = risk.summary()["expected_match_risk"].loc[[1, 2, 3, 4]]
    assert risk.expected_match_risk_mcse["mean"] == pytest.approx(each.sem())
    alone = pd.concat([risk_of(original, z).records["probability"] for z in releases], axis=1)
    assert risk.records["mcse"].to_numpy() == pytest.approx(alone.sem(axis=1).to_numpy())


def test_error_of_the_pooled_risk_is_the_jackknife() -> None:
    original, releases = random_files(4)
    left_out = np.array(
        [
            risk_of(original, releases[:l] + releases[l + 1 :]).records["probability"].sum()
            for l in range(4)
        ]
    )
    expected = np.sqrt(3 / 4 * ((left_out - left_out.mean()) ** 2).sum())
    error = risk_of(original, releases).expected_match_risk_mcse["pooled"]
    assert error == pytest.approx(expected)
    assert error > 0
    assert np.isnan(risk_of(original, releases[:2]).expected_match_risk_mcse["pooled"])


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
    order = np.random.default_rng(4).permutation(len(original))
    turned = risk_of(original.iloc[order], releases)
    pd.testing.assert_frame_equal(turned.records, risk_of(original, releases).records.iloc[order])


def test_the_inputs_stay_as_they_were() -> None:
    original, releases = random_files(2)
    kept = [t.copy(deep=True) for t in (original, *releases)]
    risk_of(original, [releases[0], releases[1].iloc[::-1]])
    for now, before in zip((original, *releases), kept, strict=True):
        pd.testing.assert_frame_equal(now, before)


# --- how columns are stored ----------------------------------------------------------------------

NUMBERS = [0, 1, 1, 0, 1, 0]
RELEASED = [0, 0, 1, 1, 1, 0]


def stored(values: list[int], dtype: str) -> pd.Series:
    words = pd.Series(["no", "yes"], dtype=object)
    if dtype in ("str", "string", "object"):
        return pd.Series(words[values].tolist(), dtype=dtype)
    if dtype == "category":
        return pd.Series(pd.Categorical(words[values], categories=["yes", "maybe", "no"]))
    if dtype == "datetime":
        return pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(values, unit="D"))
    return pd.Series(values, dtype=dtype)


@pytest.mark.parametrize(
    "pair",
    [
        *[(d, d) for d in ("category", "str", "string", "object", "bool", "Int64", "datetime")],
        *[("category", "str"), ("str", "category"), ("object", "string")],
        *[("int8", "float64"), ("Int64", "int64"), ("bool", "int64"), ("float64", "boolean")],
    ],
)
def test_equal_values_match_however_they_are_stored(pair: tuple[str, str]) -> None:
    def file(values: list[int], dtype: str) -> pd.DataFrame:
        return pd.DataFrame({"a": stored(NUMBERS[::-1], dtype), "b": stored(values, dtype)})

    risk = risk_of(file(NUMBERS, pair[0]), file(RELEASED, pair[1]))
    plain = risk_of(file(NUMBERS, "int64"), file(RELEASED, "int64"))
    pd.testing.assert_frame_equal(risk.records, plain.records)


@pytest.mark.parametrize("dtype", ["object", "str", "category", "float64", "Int64"])
def test_missing_matches_missing_and_nothing_else(dtype: str) -> None:
    levels: list[Any] = ["p", "q"] if dtype in ("object", "str", "category") else [1, 2]
    p, q = levels

    def file(values: list[Any]) -> pd.DataFrame:
        return pd.DataFrame({"a": ["x"] * 4, "b": pd.Series(values, dtype=dtype)})

    risk = risk_of(file([p, None, None, q]), file([None, None, p, p]))
    # p: {2, 3}; missing: {0, 1}, twice; q: nobody
    assert risk.c[:, 0].tolist() == [2, 2, 2, 4]
    assert risk.T[:, 0].tolist() == [False, True, False, True]


def test_a_missing_known_value_is_the_same_value_in_both_files() -> None:
    original = pd.DataFrame({"a": ["x", None, None], "b": list("ppq")})
    synthetic = original.assign(a=pd.Series(["x", np.nan, None], dtype=object))
    assert risk_of(original, synthetic).records["probability"].tolist() == [1, 1, 1]


def test_a_constant_key_or_one_that_is_all_missing_is_harmless() -> None:
    constant = [t.assign(k=7, gone=np.nan) for t in (ORIGINAL, FIRST, SECOND)]
    risk = risk_of(constant[0], constant[1:], known=["a", "k", "gone"])
    pd.testing.assert_frame_equal(risk.summary(), risk_of(ORIGINAL, [FIRST, SECOND]).summary())


def test_levels_may_differ_between_files() -> None:
    original = ORIGINAL.astype({"b": "category"})
    synthetic = FIRST.assign(b=pd.Categorical(list("pwwpww"), categories=["w", "p"]))
    assert risk_of(original, synthetic).no_match[:, 0].tolist() == [
        *[False, False, True, False, True, True]
    ]


def test_a_fine_code_is_a_key_when_declared_as_one() -> None:
    original = pd.DataFrame({"zip": np.arange(1500) // 2 + 10_000}).astype(str)
    numbers = pd.DataFrame({"zip": np.arange(3000) // 2})
    for table in (original, numbers.astype("category")):
        risk = identification_risk(table, table, known=[], synthesized=["zip"])
        assert risk.summary().loc[1, "expected_match_risk"] == len(table) / 2


def test_one_record() -> None:
    risk = risk_of(frame("x", "p"), frame("x", "q"))
    assert risk.records["probability"].tolist() == [1]
    assert "matched" not in repr(risk)
    assert risk_of(frame("x", "p"), frame("x", "q"), fallback=False).c.tolist() == [[0]]


# --- releases ------------------------------------------------------------------------------------


@dataclass
class OtherRelease:
    """A stranger's release: the two attributes are all that counts."""

    datasets: list[pd.DataFrame]
    synthesized: tuple[str, ...]


@pytest.mark.parametrize("make", [OtherRelease, Release])
def test_a_release_knows_what_it_synthesised(make: Any) -> None:
    release = make(datasets=[FIRST, SECOND], synthesized=("b",))
    expected = risk_of(ORIGINAL, [FIRST, SECOND]).summary()
    pd.testing.assert_frame_equal(risk_of(ORIGINAL, release).summary(), expected)
    short = make(datasets=[FIRST[["b"]], SECOND[["b"]]], synthesized=("b",))
    pd.testing.assert_frame_equal(risk_of(ORIGINAL, short).summary(), expected)
    with pytest.raises(InputError, match=r"synthesized names 'a', which the release did not"):
        risk_of(ORIGINAL, release, known=[], synthesized=["a"])
    with pytest.raises(InputError, match=r"known names 'b', which the release synthesised; put it"):
        risk_of(ORIGINAL, release, known=["b"], synthesized=[])


# --- bad input -----------------------------------------------------------------------------------

TWICE = pd.concat([FIRST, FIRST[["b"]]], axis=1)


@pytest.mark.parametrize(
    ("original", "releases", "options", "message"),
    [
        (ORIGINAL, [], {}, r"releases is empty \(m = 0\); give at least one"),
        (ORIGINAL, {"b": 1}, {}, "releases is a dict; give a Release, a DataFrame or a list"),
        (ORIGINAL, "file.csv", {}, "releases is a str; give a Release"),
        (ORIGINAL, [FIRST, "x"], {}, "release 2 is a str; give a pandas DataFrame"),
        (ORIGINAL.to_dict(), FIRST, {}, "original is a dict; give a pandas DataFrame"),
        (ORIGINAL.iloc[:0], FIRST, {}, "original has no records"),
        (ORIGINAL.set_axis([0, 1, 2, 3, 4, 4]), FIRST, {}, "index of the original names some"),
        (
            ORIGINAL,
            FIRST,
            {"known": ["c"]},
            "known names column 'c', which the table does not have",
        ),
        (ORIGINAL, FIRST, {"synthesized": ["c"]}, "synthesized names column 'c'"),
        (ORIGINAL, FIRST, {"known": "a"}, "known='a' is a single string; give a list"),
        (ORIGINAL, FIRST, {"known": ["a", "a"]}, r"known names \['a'\] more than once"),
        (ORIGINAL, FIRST, {"known": ["a", "b"]}, r"\['b'\] stand under both known and synth"),
        (ORIGINAL, FIRST, {"known": [], "synthesized": []}, "both empty; name at least one key"),
        (ORIGINAL, [FIRST, FIRST[["b"]]], {}, "release 2 lacks column 'a'; .* in a Release"),
        (ORIGINAL, FIRST[["a"]], {}, "release 1 lacks column 'b'"),
        (ORIGINAL, TWICE, {}, "release 1 has column 'b' more than once; rename or drop one"),
        (TWICE, FIRST, {}, "the original has column 'b' more than once"),
        (ORIGINAL, [FIRST, FIRST[:5]], {}, "release 2 has 5 records and the original 6"),
        (ORIGINAL, FIRST.set_axis(list("abcdef")), {}, "index of release 1 does not name"),
        (ORIGINAL, FIRST, {"fallback": "yes"}, "fallback='yes' is not a truth value"),
        (ORIGINAL, FIRST.assign(b=1), {}, "key 'b' holds text in the original and numbers in re"),
        (
            ORIGINAL.assign(a=1),
            FIRST.assign(a="1"),
            {},
            "'a' holds numbers in .* text in release 1",
        ),
    ],
)
def test_bad_input_is_refused_in_words(
    original: Any, releases: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        risk_of(original, releases, **options)


def test_a_known_column_that_was_changed_is_refused_and_no_value_told() -> None:
    original = pd.DataFrame({"a": ["secret", "open", "open"], "b": list("ppq")})
    changed = original.assign(a=["open", "open", "secret"])
    with pytest.raises(InputError, match="column 'a' of release 2 differs .* in 2 of 3") as caught:
        risk_of(original, [original, changed])
    assert re.search("put it under synthesized=; .* give both tables the same index", str(caught))
    assert "secret" not in str(caught.value)


def test_a_continuous_key_is_refused_and_the_radius_named() -> None:
    original = pd.DataFrame({"a": 1, "income": np.linspace(0, 9, 2001)})
    with pytest.raises(
        InputError, match=r"'income' \(float64\) of the original has 2,001 distinct"
    ):
        risk_of(original, original, synthesized=["income"])
    cut = original.assign(income=np.repeat([1.0, 2.0, 3.0], 667))
    with pytest.raises(
        InputError, match=r"of release 1 .* \(radius=\{'income': 0.1\}\); or cut it"
    ):
        risk_of(cut, original, synthesized=["income"])


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
        for name in ("c", "T", "K", "F", "no_match"):
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
        "An intruder who knows a of everyone and looks for the true values of b in the 2 releases "
        "together would be expected to match 3.3 of 6 records (55.6 %); without the release 2.0. "
        "With one release only: 2.6 on average. 3 records have a single best candidate, which is "
        "the right one for 2 (66.7 %)."
    )
    assert (
        "in the release would be expected to match 3.3 of 6" in risk_of(ORIGINAL, FIRST).sentence()
    )
    nobody = risk_of(frame("xx", "pp"), frame("xx", "pp"), known=[])
    assert "An intruder who looks for the true values of b in" in nobody.sentence()
    assert nobody.sentence().endswith("No record has a single best candidate.")
    known = risk_of(ORIGINAL, FIRST, known=["a"], synthesized=[])
    assert "An intruder who knows a (not synthesised) of everyone would be" in known.sentence()


def test_the_repr_fits_one_screen() -> None:
    original, releases = random_files(30)
    shown = repr(risk_of(original, releases))
    assert shown.startswith("IdentificationRisk\nAn intruder who knows a of everyone")
    assert len(shown.splitlines()) < 20
    assert shown.splitlines()[-1].startswith("pooled")


def test_plot_returns_axes() -> None:
    assert risk_of(ORIGINAL, [FIRST, SECOND]).plot().get_xlabel()


# --- real data -----------------------------------------------------------------------------------

SYNTHESISED = ["LANX", "WAOB", "DIS", "HICOV"]
KNOWN = ["SEX", "RACE", "MAR"]


@pytest.fixture(scope="module")
def acs(shared_data: Path) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """ACS 2012, 10,000 records, and three partially synthetic copies."""
    original = pd.read_csv(shared_data / "hu_acs2012_nc_10cat.csv.gz")
    names = [f"hu_acs2012_nc_syn{l}_SYNTHETIC.csv.gz" for l in ("", "2", "3")]
    return original, [pd.read_csv(shared_data / name) for name in names]


def by_dictionaries(
    original: pd.DataFrame, releases: list[pd.DataFrame]
) -> dict[Any, tuple[float, int, int]]:
    """Expected match risk, single matches, true ones, in fractions; no fallback."""
    keys = KNOWN + SYNTHESISED
    target = list(original[keys].itertuples(index=False, name=None))
    results = {}
    held = [list(z[keys].itertuples(index=False, name=None)) for z in releases]
    for name, chosen in [*enumerate(([h] for h in held), start=1), ("pooled", held)]:
        scores: dict[Any, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        for rows in chosen:
            count = Counter(rows)
            for j, key in enumerate(rows):
                scores[key][j] += Fraction(1, count[key])
        best = {key: max(s.values()) for key, s in scores.items()}
        size = {key: sum(v == best[key] for v in s.values()) for key, s in scores.items()}
        true = [t in scores and scores[t].get(i, 0) == best[t] for i, t in enumerate(target)]
        risk = sum(1 / size[t] for t, hit in zip(target, true, strict=True) if hit)
        singles = [size.get(t) == 1 for t in target]
        results[name] = (risk, sum(singles), sum(np.logical_and(singles, true)))
    return results


def test_unaltered_acs_file_has_447_cells_and_197_uniques(
    acs: tuple[pd.DataFrame, list[pd.DataFrame]],
) -> None:
    """The 7 keys are the three known and the four synthesised columns of the releases."""
    original, _ = acs
    cells = original.groupby(KNOWN + SYNTHESISED).size()
    assert (len(cells), (cells == 1).sum()) == (447, 197)  # as published
    risk = identification_risk(original, original, known=KNOWN, synthesized=SYNTHESISED)
    row = risk.summary().loc["pooled"]
    assert row["expected_match_risk"] == pytest.approx(447)
    assert (row["unique_matches"], row["true_matches"]) == (197, 197)


def test_acs_releases_agree_with_dictionaries_of_fractions(
    acs: tuple[pd.DataFrame, list[pd.DataFrame]],
) -> None:
    original, releases = acs
    risk = identification_risk(
        original, releases, known=KNOWN, synthesized=SYNTHESISED, fallback=False
    )
    summary = risk.summary()
    for name, (emr, singles, true) in by_dictionaries(original, releases).items():
        assert summary.loc[name, "expected_match_risk"] == pytest.approx(emr)
        assert summary.loc[name, "unique_matches"] == singles
        assert summary.loc[name, "true_matches"] == true


def test_pooling_three_acs_releases_gives_about_ten_times_as_many_single_matches(
    acs: tuple[pd.DataFrame, list[pd.DataFrame]],
) -> None:
    original, releases = acs
    for fallback in (True, False):
        risk = identification_risk(
            original, releases, known=KNOWN, synthesized=SYNTHESISED, fallback=fallback
        )
        singles = risk.summary()["unique_matches"]
        assert 9 < singles["pooled"] / singles["mean"] < 11
