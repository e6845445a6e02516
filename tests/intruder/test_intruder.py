"""What an intruder may be told to know, and how it is said."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br

SECOND = {"knows_records": "second-largest", "largest": "w"}
PAIR = {"knows_records": "all-but-two", "other": 7, "knows_totals": True}


def test_record_zero_is_a_label():
    assert br.Intruder(**PAIR | {"other": 0}).other == 0


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, "The intruder knows every record but the target's."),
        ({"knows_columns": ["a"]}, "The intruder knows every record but the target's and the targ"),
        ({"knows_records": "none"}, "The intruder knows no record."),
        (
            {"knows_records": 0.25},
            "knows 25 % of the records, drawn at random, never the target's.",
        ),
        ({"knows_records": ["a", "b"]}, "The intruder knows 2 records, never the target's."),
        ({"knows_records": np.array([True, False])}, "knows 1 record, never the target's."),
        (SECOND, "knows the record with the second largest w and that the target has more."),
        (SECOND | {"knows_totals": True}, "the total of the column and that the target has more."),
        (SECOND | {"groups": "inferred"}, "The intruder infers which synthetic records"),
        (SECOND | {"others": stats.norm(1, 1)}, "a separate belief about other values"),
        (SECOND | {"knows_records": "second-largest-value"}, "knows the second largest value of w"),
        (PAIR, "that of 7 and the sum of these two."),
        (PAIR | {"largest": "w"}, "the sum of these two and that the target has more w than anyb"),
    ],
)
def test_all_of_it_is_said(told, words):
    assert words in br.Intruder(**told).in_words()


def test_who_knows_less():
    assert not br.Intruder().knows_less and br.Intruder(**SECOND).knows_less


INDEX = pd.Index([f"r{i}" for i in range(100)])


def known(given, seed=1):
    return br.Intruder(knows_records=given).known(INDEX, np.random.default_rng(seed))


def test_known_records_are_a_mask():
    assert known("all-but-target").all() and not known("none").any()
    assert list(INDEX[known(["r3", "r7"])]) == ["r3", "r7"]
    mask = np.arange(100) % 3 == 0
    np.testing.assert_array_equal(known(mask), mask)
    np.testing.assert_array_equal(known(mask.tolist()), mask)


def test_smaller_fractions_lie_within_larger_ones():
    few, half = known(0.1), known(0.5)
    assert few.sum() == 10 and half.sum() == 50 and (half | ~few).all()
    assert (known(0.5, seed=2) != half).any()


def test_intruders_compare():
    assert br.Intruder(knows_records=np.array([True])) == br.Intruder(knows_records=[True])
    assert br.Intruder(knows_records=0.5) != br.Intruder(knows_records="none")
