"""The picture at the verdict: each number as a multiple of what is allowed."""

import math

import numpy as np
import pytest

from bayes_risk.reporting.content import bar_ends, times_allowed
from bayes_risk.reporting.verdicts.attribute import Gain, _of_allowed, too_much
from bayes_risk.reporting.verdicts.reason import Thresholds, multiple
from bayes_risk.reporting.verdicts.verdict import judge
from tests.helpers.edge_results import attribute, identification


def gain(prior, p):
    """Of records without error."""
    with np.errstate(divide="ignore"):
        change = np.log(p / (1 - p)) - np.log(prior / (1 - prior))
    none, all_ = np.zeros(len(p)), np.ones(len(p), bool)
    return Gain(prior, p, change, none, none, (p, p), all_, all_)


@pytest.mark.parametrize("limits", [Thresholds(), Thresholds(attribute_gain=0.03)])
def test_a_record_is_above_one_exactly_where_it_counts(limits):
    rng = np.random.default_rng(1)
    prior, p = rng.beta(0.5, 2, 2_000), rng.beta(0.5, 1, 2_000)
    of = gain(prior, p)
    found = [_of_allowed(of, i, limits, 2.0)[1] > 1 for i in range(len(p))]
    assert found == too_much(of.gained, of.log_bayes_factor, limits).tolist()
    assert 0.1 < np.mean(found) < 0.9


def test_multiples_counted_by_hand():
    assert multiple(0.1, 0.25) == (2.5, 2.5, 2.5)
    assert multiple(0.1, 0.05, 0.1, 0.2) == (0.5, 1.0, 2.0)
    assert multiple(0.0, 3) == (math.inf,) * 3
    assert multiple(0.0, 0) == (0.0,) * 3


def test_the_line_is_in_the_middle_and_the_bar_ends_at_twice_what_is_allowed():
    assert bar_ends((0.5, 1.0, 3.0)) == [30.0, 60.0, 120.0]
    assert bar_ends((-1.0, math.inf, math.inf)) == [0.0, 120.0, 120.0]
    assert times_allowed((1.0, 2.5, 3.0)) == "2.5 times"
    assert times_allowed((math.inf,) * 3) == "more than"


def test_each_line_of_the_table_has_its_picture():
    verdict = judge(attribute([0.2, 0.9]), identification())
    assert [what for what, _ in verdict.picture] == [row[0] for row in verdict.table]
    for (*_, judged), (_, of) in zip(verdict.table, verdict.picture, strict=True):
        assert of is not None
        assert judged != "above" or of[1] > 1
        assert judged != "within" or of[1] <= 1
