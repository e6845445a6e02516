import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from bayes_risk.verdict import Thresholds, judge
from tests.edge_results import attribute, identification

ROOT = Path(__file__).resolve().parents[1]
CALM = identification(n=60)  # nobody is matched uniquely and correctly


def outcome_of(verdict, measure):
    return {r.measure: r.outcome for r in verdict.reasons}[measure]


def test_low_risk_may_go_out_and_says_under_which_assumptions():
    verdict = judge(attribute(), CALM)
    assert verdict.outcome == "may go out"
    assert verdict.headline == "The file may go out."
    assert verdict.assumptions.startswith(
        "Under these assumptions: The intruder knows every record but the target's; "
        "prior: every guess equally probable"
    )
    assert verdict.sentence().endswith(verdict.assumptions)


def test_one_record_surely_above_decides_against():
    verdict = judge(attribute([0.2, 0.9, 0.3]), CALM)
    assert verdict.outcome == "should not go out"
    sentence = verdict.deciding[0].sentence
    assert sentence == "For 1 record the intruder gives the true values a probability above 0.5."


@pytest.mark.parametrize("value", [0.485, 0.5, 0.515])
def test_a_value_within_two_errors_of_the_threshold_is_a_doubt(value):
    verdict = judge(attribute([0.2, value], mcse=0.01), CALM)
    assert verdict.outcome == "cannot be told"
    assert "may give" in verdict.deciding[0].sentence
    assert "the error of the computation leaves it open" in verdict.deciding[0].sentence


@pytest.mark.parametrize(("value", "outcome"), [(0.47, "may go out"), (0.53, "should not go out")])
def test_a_value_further_away_is_none(value, outcome):
    assert judge(attribute([0.2, value], mcse=0.01), CALM).outcome == outcome


def test_an_unreliable_record_raises_doubt_but_never_decides():
    verdict = judge(attribute([0.2, 0.99], reliable=[True, False]), CALM)
    assert verdict.outcome == "cannot be told"
    assert outcome_of(verdict, "probability of the truth") == "cannot be told"


def test_a_record_without_error_raises_doubt_but_never_decides():
    verdict = judge(attribute([0.2, 0.99], mcse=[0.01, np.nan]), CALM)
    assert outcome_of(verdict, "probability of the truth") == "cannot be told"


def test_too_many_unreliable_records_are_a_doubt_few_are_not():
    few = attribute(np.full(200, 0.2), reliable=np.arange(200) > 0)
    many = attribute(np.full(200, 0.2), reliable=np.arange(200) > 2)
    assert judge(few, CALM).outcome == "may go out"
    verdict = judge(many, CALM)
    assert verdict.outcome == "cannot be told"
    assert "3 of 200 records (1.5 %)" in verdict.deciding[0].sentence


def test_records_released_unchanged_decide_against():
    verdict = judge(attribute(disclosed=[False, True, False, False]), CALM)
    assert verdict.outcome == "should not go out"
    assert verdict.deciding[0].sentence == (
        "Released unchanged: 1 record, whose values anyone can read."
    )


def test_odds_count_too():
    limits = Thresholds(attribute_probability=1.0, attribute_log_bayes_factor=1.0)
    verdict = judge(attribute([0.9, 0.3]), CALM, limits)  # odds from 1/2 to 9
    assert outcome_of(verdict, "log Bayes factor") == "should not go out"
    assert "multiplies the odds of the true values by more than 2.72" in verdict.sentence()


def test_a_certain_truth_is_above_every_threshold():
    with np.errstate(all="raise"):
        verdict = judge(attribute([1.0, 0.3], mcse=0.0), CALM)
    assert outcome_of(verdict, "log Bayes factor") == "should not go out"


def test_matches_decide():
    ident = identification()
    rate = ident.summary()["true_match_rate"].max()
    assert rate > 0
    against = judge(attribute(), ident, Thresholds(true_match_rate=rate / 2))
    assert outcome_of(against, "true match rate") == "should not go out"
    allowed = judge(attribute(), ident, Thresholds(true_match_rate=rate))
    assert outcome_of(allowed, "true match rate") == "may go out"


def test_what_was_not_measured_is_a_doubt():
    assert judge(attribute(), None).outcome == "cannot be told"
    verdict = judge(None, CALM)
    assert verdict.outcome == "cannot be told"
    assert verdict.deciding[0].sentence == (
        "Attribute risk was not measured, so nothing is said of it."
    )


@pytest.mark.parametrize("field", dataclasses.fields(Thresholds), ids=lambda f: f.name)
def test_default_thresholds_are_those_that_the_docs_give_reasons_for(field):
    text = (ROOT / "docs" / "reading-the-numbers.md").read_text()
    heads = [head.strip() for head in re.findall(r"^\*\*(`.*?)\.\*\*", text, flags=re.MULTILINE)]
    (head,) = [head for head in heads if f"`{field.name}`" in head]
    if field.default is None:
        assert head.endswith(": not judged")
    else:
        assert head == f"`{field.name}` = {field.default:g}"


def test_a_verdict_is_frozen_and_prints_its_reasons():
    verdict = judge(attribute(), CALM)
    with pytest.raises(dataclasses.FrozenInstanceError):
        verdict.outcome = "should not go out"
    assert repr(verdict).count("\n  - ") == len(verdict.reasons)
