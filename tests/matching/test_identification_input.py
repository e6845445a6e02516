"""Identification risk: how columns are stored, releases of others, bad input."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayes_risk._core.errors import InputError
from bayes_risk.matching.risk import identification_risk
from bayes_risk.release.release import Release
from tests.helpers.six_records import FIRST, ORIGINAL, SECOND, frame, risk_of

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


def test_a_known_column_that_was_changed_is_refused_and_no_value_told() -> None:
    original = pd.DataFrame({"a": ["secret", "open", "open"], "b": list("ppq")})
    changed = original.assign(a=["open", "open", "secret"])
    with pytest.raises(InputError, match="column 'a' of release 2 differs .* in 2 of 3") as caught:
        risk_of(original, [original, changed])
    assert re.search("name it in .synthesized.; .* give them its labels", str(caught))
    assert "secret" not in str(caught.value)


def test_a_continuous_key_is_refused_and_the_radius_named() -> None:
    original = pd.DataFrame({"a": 1, "income": np.linspace(0, 9, 2001)})
    with pytest.raises(
        InputError, match=r"'income' \(float64\) of the original has 2,001 distinct"
    ):
        risk_of(original, original, synthesized=["income"])
    cut = original.assign(income=np.repeat([1.0, 2.0, 3.0], 667))
    with pytest.raises(InputError, match=r"of release 1 .* give it a radius, or cut it"):
        risk_of(cut, original, synthesized=["income"])
