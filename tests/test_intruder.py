"""What an intruder may be told to know, and how it is said."""

import pytest
from scipy import stats

import bayes_risk as br

SECOND = {"knows_records": "second-largest", "largest": "w"}
PAIR = {"knows_records": "all-but-two", "other": 7, "knows_totals": True}


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"knows_records": "nobody"}, "knows_records='nobody' is not available"),
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
