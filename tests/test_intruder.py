"""What an intruder may be told to know, and how it is said."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayes_risk as br

SECOND = {"knows_records": "second-largest", "largest": "w"}
PAIR = {"knows_records": "all-but-two", "other": 7, "knows_totals": True}


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"knows_records": "nobody"}, "knows_records='nobody' is not available"),
        ({"knows_records": "some"}, "knows_records='some' is not available; .* a fraction, a mask"),
        ({"knows_records": 0.0}, "0.0 is no fraction above 0 and below 1; give 0.5"),
        ({"knows_records": 1}, "1 is no fraction"),
        ({"knows_records": True}, 'True is not available; give "all-but-target" or "none"'),
        ({"knows_records": None}, "None is not available"),
        ({"knows_records": []}, 'names no record; give "none"'),
        ({"knows_records": np.zeros(3, dtype=bool)}, 'names no record; give "none"'),
        ({"knows_records": 0.5, "largest": "w"}, "says nothing to an intruder with knows_records="),
        ({"knows_records": [1], "other": 3}, "other=3 says nothing .*'1 record'"),
        ({"knows_records": "second-largest"}, "needs largest: give the column"),
        ({"knows_records": "all-but-two", "knows_totals": True}, "needs other: give the label"),
        ({"knows_records": "all-but-two", "other": 7}, "needs knows_totals: give True"),
        ({"largest": "w"}, "largest='w' says nothing to an intruder with knows_records='all-but-t"),
        (SECOND | {"other": 3}, "other=3 says nothing"),
        (SECOND | {"knows_columns": ["w"]}, "knows_columns names 'w', which is to be guessed"),
        (SECOND | {"groups": "guessed"}, "groups='guessed' is not known"),
        (SECOND | {"others": 5}, "others=5 has no cdf"),
        (PAIR | {"others": stats.norm(1, 1)}, "says nothing"),
    ],
)
def test_what_cannot_be(told, message):
    with pytest.raises(br.InputError, match=message):
        br.Intruder(**told)


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
        (SECOND | {"groups": "inferred"}, "the intruder infers."),
        (SECOND | {"others": stats.norm(1, 1)}, "a belief of their own."),
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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([True, False], "knows_records has 2 entries; the table has 100 records"),
        (["r1", "q"], "knows_records names 'q', which is no record label"),
    ],
)
def test_masks_and_labels_are_those_of_the_table(given, message):
    with pytest.raises(br.InputError, match=message):
        known(given)


def test_intruders_of_the_trade_know_no_set_of_records():
    with pytest.raises(br.InputError, match="is no set of records"):
        br.Intruder(**SECOND).known(INDEX, np.random.default_rng(1))


def test_intruders_compare():
    assert br.Intruder(knows_records=np.array([True])) == br.Intruder(knows_records=[True])
    assert br.Intruder(knows_records=0.5) != br.Intruder(knows_records="none")
