import dataclasses
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk import InputError
from bayes_risk.release.links_result import Link
from bayes_risk.reporting.verdicts.doubts import CURES, settings_that_settle
from bayes_risk.reporting.verdicts.verdict import Thresholds, judge
from tests.helpers.edge_results import attribute, identification

ROOT = Path(__file__).resolve().parents[2]
CALM = identification(n=60, ages=7)  # nobody is unique, nobody matched uniquely


def outcome_of(verdict, measure):
    return {r.measure: r.outcome for r in verdict.reasons}[measure]


def test_low_risk_is_within_and_says_under_which_assumptions():
    verdict = judge(attribute(), CALM)
    assert verdict.outcome == "within your thresholds"
    assert verdict.headline == "Within your thresholds."
    assert verdict.assumptions.startswith(
        "Under these assumptions: The intruder knows every record but the target's; "
        "prior: every guess equally probable"
    )
    assert verdict.sentence().endswith(verdict.assumptions)


def test_one_record_surely_above_decides_against():
    verdict = judge(attribute([0.2, 0.9, 0.3]), CALM)
    assert verdict.outcome == "above your thresholds"
    assert verdict.deciding[0].sentence == (
        "For 1 of the 3 audited records the release raises the probability of the true values by "
        "more than 0.2, or by more than 0.05 and the odds by more than a factor 20. "
        "The largest rise is from 0.333 to 0.900 (record 1)."
    )


@pytest.mark.parametrize("value", [0.518, 0.533, 0.548])
def test_a_value_within_two_errors_of_the_threshold_is_a_doubt(value):
    verdict = judge(attribute([0.2, value], mcse=0.01), CALM)
    assert verdict.outcome == "inconclusive"
    assert "may raise" in verdict.deciding[0].sentence
    assert "within Monte Carlo error of the threshold" in verdict.deciding[0].sentence


@pytest.mark.parametrize(
    ("value", "outcome"), [(0.51, "within your thresholds"), (0.56, "above your thresholds")]
)
def test_a_value_further_away_is_none(value, outcome):
    assert judge(attribute([0.2, value], mcse=0.01), CALM).outcome == outcome


def test_an_unreliable_record_raises_doubt_but_never_decides():
    verdict = judge(attribute([0.2, 0.99], reliable=[True, False]), CALM)
    assert verdict.outcome == "inconclusive"
    assert outcome_of(verdict, "probability gained") == "inconclusive"


def test_a_record_without_error_raises_doubt_but_never_decides():
    verdict = judge(attribute([0.2, 0.99], mcse=[0.01, np.nan]), CALM)
    assert outcome_of(verdict, "probability gained") == "inconclusive"


def test_too_many_unreliable_records_are_a_doubt_few_are_not():
    few = attribute(np.full(200, 0.2), reliable=np.arange(200) > 0)
    many = attribute(np.full(200, 0.2), reliable=np.arange(200) > 2)
    assert judge(few, CALM).outcome == "within your thresholds"
    verdict = judge(many, CALM)
    assert verdict.outcome == "inconclusive"
    assert (
        "3 of the 200 audited records are unreliable (1.5 %; 1.0 % are allowed)"
        in verdict.deciding[0].sentence
    )


def test_records_released_unchanged_decide_against():
    verdict = judge(attribute(disclosed=[False, True, False, False]), CALM)
    assert verdict.outcome == "above your thresholds"
    assert verdict.deciding[0].sentence == (
        "1 of the 4 audited records: values not replaced, so anyone can read them."
    )


def test_odds_count_too():
    limits = Thresholds(attribute_gain=1.0, attribute_log_bayes_factor=1.0)
    verdict = judge(attribute([0.9, 0.3]), CALM, limits)  # odds from 1/2 to 9
    assert outcome_of(verdict, "probability gained") == "above your thresholds"
    assert "by more than 0.05 and the odds by more than a factor 2.72" in verdict.sentence()


def test_a_certain_truth_is_above_every_threshold():
    with np.errstate(all="raise"):
        verdict = judge(attribute([1.0, 0.3], mcse=0.0), CALM, Thresholds(attribute_gain=1.0))
    assert outcome_of(verdict, "probability gained") == "above your thresholds"


def test_matches_decide():
    ident = identification()
    rate = ident.summary()["true_match_rate"].max()
    assert rate > 0
    against = judge(attribute(), ident, Thresholds(true_match_rate=rate / 2))
    assert outcome_of(against, "true match rate") == "above your thresholds"
    allowed = judge(attribute(), ident, Thresholds(true_match_rate=rate))
    assert outcome_of(allowed, "true match rate") == "within your thresholds"


def test_what_was_asked_is_judged_and_what_was_not_is_said():
    alone, matches = judge(attribute(), None), judge(None, CALM)
    for verdict, absent in ((alone, "identification"), (matches, "attribute")):
        assert verdict.outcome == "within your thresholds"
        assert f"{absent} risk was not measured." in verdict.assumptions
    against = judge(None, identification(), Thresholds(true_match_rate=0.0))
    assert outcome_of(against, "true match rate") == "above your thresholds"
    assert "was not measured" not in judge(attribute(), CALM).assumptions


def test_nothing_measured_is_a_doubt():
    verdict = judge(None, None)
    assert verdict.outcome == "inconclusive" and len(verdict.deciding) == 2
    assert verdict.deciding[0].cure == "measure attribute risk"
    assert verdict.deciding[0].sentence == "Attribute risk was not measured."


@pytest.mark.parametrize("field", dataclasses.fields(Thresholds), ids=lambda f: f.name)
def test_default_thresholds_are_those_that_the_docs_give_reasons_for(field):
    text = (ROOT / "docs" / "reading-the-numbers.md").read_text()
    heads = [head.strip() for head in re.findall(r"^\*\*(`.*?)\.\*\*", text, flags=re.MULTILINE)]
    (head,) = [head for head in heads if f"`{field.name}`" in head]
    if field.default is None:
        assert head.endswith(": not judged")
    else:
        usual = f"{field.default:g}" if field.default is not False else "false"
        assert head == f"`{field.name}` = {usual}"


@pytest.mark.parametrize(
    ("risk", "diagnostics", "cure"),
    [
        (
            attribute([0.2, 0.53]),
            {"chains": 4, "draws": 250},
            "target_mcse = 0.02 (about 16 times as long), with the same random_seed, so that the "
            "release stays the same; half of that if still inconclusive",
        ),
        (
            attribute([0.2, 0.5]),
            {"chains": 2, "max_rhat": 1.8, "min_ess": 9.0},
            "attribute_risk of this release and a fit with chains = 4 (a study that samples so "
            "makes another release)",
        ),
        (
            attribute([0.2, 0.3]),
            {"chains": 1, "max_rhat": np.nan},
            "attribute_risk of this release and a fit with chains = 4 (a study that samples so "
            "makes another release)",
        ),
        (
            attribute([0.2, 0.3], reliable=[True, False]),
            {"draws": 100},
            "refit_budget = 1 and target_mcse = 0.02 (about 16 times as long), with the same "
            "random_seed, so that the release stays the same",
        ),
        (
            replace(attribute([0.2]), assumed=True),
            {},
            "only the model that made the files settles these; else publish a release made by "
            "the audit's own model",
        ),
    ],
    ids=["error", "chains", "one chain", "unreliable", "assumed"],
)
def test_what_is_inconclusive_names_the_setting_that_settles_it(risk, diagnostics, cure):
    verdict = judge(risk, CALM, diagnostics=diagnostics)
    assert verdict.outcome == "inconclusive"
    assert {r.cure for r in verdict.reasons if r.outcome == "inconclusive"} == {cure}
    assert f"To settle it: {cure}." in verdict.sentence()


def test_an_assumed_model_is_never_within_and_outweighs_no_risk():
    assert judge(replace(attribute([0.2]), assumed=True), CALM).outcome == "inconclusive"
    assert judge(replace(attribute([0.9]), assumed=True), CALM).outcome == "above your thresholds"


def test_every_cure_can_be_put_into_words():
    settings = settings_that_settle(attribute(), {})
    for words in CURES.values():
        assert words.format_map(settings)


def test_every_number_of_records_says_out_of_how_many():
    verdict = judge(attribute([0.2, 0.9, 0.3], disclosed=[True, False, False]), CALM)
    said = [r.sentence for r in verdict.reasons if "record" in r.sentence]
    assert len(said) == 5
    assert all(re.search(r"of the \d+ |all \d+ ", text) for text in said)


def test_a_verdict_is_frozen_and_prints_its_reasons():
    verdict = judge(attribute(), CALM)
    with pytest.raises(dataclasses.FrozenInstanceError):
        verdict.outcome = "above your thresholds"
    assert repr(verdict).count("\n  - ") == len(verdict.reasons)


# --- two priors ----------------------------------------------------------------------------------


def known_before(before, after, *, mcse=0.001, **how):
    """Two guesses a record: the truth's probability before the release and after it."""
    before, after = np.asarray(before), np.asarray(after)
    change = np.log(after / (1 - after)) - np.log(before / (1 - before))
    return replace(
        attribute(after, mcse=mcse, **how),
        log_prior=np.log(np.stack([before, (1 - before) / 2, (1 - before) / 2])),
        mcse_log_bayes_factor=np.where(change == 0, 0.0, mcse / (after * (1 - after))),
    )


def test_the_verdict_is_over_the_worse_prior_and_says_so():
    flat = known_before([1 / 3, 1 / 3], [0.4, 0.4])
    second = known_before([0.45, 0.2], [0.7, 0.25])
    verdict = judge(replace(flat, priors={"predictive": second}), CALM)
    said = verdict.deciding[0].sentence
    assert said.startswith("Under the predictive prior: for 1 of the 2 audited records")
    assert verdict.prior == "predictive"
    both = judge(replace(flat, priors={"predictive": flat}), CALM)
    assert both.outcome == "within your thresholds" and both.prior == ""
    assert "Under the flat prior and under the predictive one: for none" in both.reasons[0].sentence


# --- what files show without a model -------------------------------------------------------------


def people(n=40):
    """Ages shared by two, incomes of one each."""
    rng = np.random.default_rng(4)
    age = np.repeat(np.arange(n // 2), 2)
    return pd.DataFrame({"age": age, "income": np.round(rng.lognormal(10, 1, n), 2)})


def exposed(files, **how):
    return judge(attribute([0.2]), CALM, exposure=br.exposure(people(), files, **how))


def decided(verdict):
    return {r.measure for r in verdict.reasons if r.outcome == "above your thresholds"}


def test_the_original_is_called_the_original_in_whatever_order():
    df = people()
    other = df.assign(income=df["income"] + 1)
    for file in (df, df[::-1].reset_index(drop=True)):
        verdict = exposed([other, file])
        assert "original released" in decided(verdict)
        assert "File 2 of 2 is the original itself: all of its 40 records" in verdict.sentence()


def test_rows_that_stay_near_their_own_record_are_above():
    df = people()
    verdict = exposed(df.assign(income=df["income"] + 1), keys=["age"])
    assert "own rows" in decided(verdict)  # one step away, everybody's
    assert "are nearest to their own row in the file; by chance 20" in verdict.sentence()
    nobody = exposed(df.assign(income=np.roll(df["income"], 7) + 1), keys=["age"])
    assert decided(nobody) == set()


def test_doubles_are_no_persons():
    df = pd.DataFrame({"a": ["x", "y"] * 20, "b": ["u"] * 40})
    shown = br.exposure(df, df.assign(a=["x", "x", "x", "x"] * 10), keys=["a"])
    verdict = judge(attribute([0.2]), CALM, exposure=shown)
    assert verdict.outcome == "within your thresholds"
    assert "disclosed" not in {r.measure for r in verdict.reasons}  # all replaced, some the same


def test_genuine_values_of_single_records_count_in_any_row():
    df = people()
    verdict = exposed(df.assign(income=np.roll(df["income"], 1)), keys=["age"])
    assert decided(verdict) >= {"unique values", "certain persons"}
    assert "40 of the 40 pairs of equal values (income) join an original" in verdict.sentence()
    limits = Thresholds(unique_values=1, certain_persons=40, identical_records=1, linked_records=1)
    shown = br.exposure(df, df.assign(income=np.roll(df["income"], 1)), keys=["age"])
    assert decided(judge(attribute([0.2]), CALM, limits, exposure=shown)) == set()


def test_replicated_uniques_count_where_keys_were_synthesised():
    df = people()
    rolled = df.assign(income=np.roll(df["income"], 1))
    limits = Thresholds(unique_values=1, certain_persons=40, identical_records=1, linked_records=1)
    for keys, found in ((["income"], {"replicated uniques"}), (["age"], set())):
        shown = br.exposure(df, rolled, keys=keys)
        assert decided(judge(attribute([0.2]), CALM, limits, exposure=shown)) == found


def test_shares_that_are_allowed_are_not_above_by_rounding():
    """17 % less 12 % is more than 5 % in floating point."""
    link = Link("own rows", 1, ("income",), 40, 9.0, 5.0, 0.0, 40 * (0.17 - 0.12), 0.0)
    shown = br.exposure(people(), people().assign(income=np.arange(40) + 0.5))
    shown = replace(shown, links=replace(shown.links, tests=(link,)))
    assert not decided(judge(attribute([0.2]), CALM, exposure=shown)) & {link.test}


def test_facts_of_columns_come_before_counts():
    df = people().assign(wealth=np.arange(40) * 3.5, sex=["f", "m"] * 20)
    file = df.assign(sex=["m", "m", "f", "f"] * 10)
    verdict = exposed_of(df, file)
    assert "unchanged columns" in decided(verdict)
    assert (
        "Column wealth is released unchanged, and is not a key: 40 of the 40" in verdict.sentence()
    )
    public = Thresholds(public=dict.fromkeys(["wealth", "income"], "tax register"))
    assert not decided(exposed_of(df, file, public))
    for more, outcome in (
        ({"truth": df["income"]}, "above your thresholds"),
        ({"new": np.arange(40) % 3}, "inconclusive"),
        ({}, "within your thresholds"),
    ):
        assert exposed_of(df, file.assign(**more), public).outcome == outcome
    named = df.assign(name=[f"person {i}" for i in range(40)])
    ids = exposed_of(named, named.assign(sex=file["sex"]), public)
    assert decided(ids) == {"identifiers"}
    assert "Column name identifies persons: 40 of its values are in a file." in ids.sentence()


def exposed_of(df, file, limits=None):
    return judge(attribute([0.2]), CALM, limits, exposure=br.exposure(df, file, keys=["sex"]))


def test_a_column_is_public_for_a_reason():
    with pytest.raises(InputError, match="public names a column without a reason"):
        Thresholds(public={"wealth": " "})


def test_rows_that_are_nobodys_are_not_judged_by_matching_alone():
    df = people()
    counts = br.identification_risk(
        df, df.assign(income=np.arange(40) + 0.5), known=[], synthesized=["age"], corresponds=False
    )
    verdict = judge(None, replace(counts, exposure=CALM.exposure))
    assert verdict.outcome == "not judged" and verdict.headline == "Not judged."
    assert verdict.deciding[0].cure.startswith("an audit with the model that made the files")
    assert judge(attribute([0.2]), replace(counts, exposure=CALM.exposure)).outcome.startswith(
        "within"
    )


def test_files_of_synthpop_are_above_whatever_model_is_assumed(shared_data):
    df = pd.read_csv(shared_data / "ce_hornby_hu_identification.csv.gz")
    for pattern, m in (("ce_income_release*", 3), ("ce_tenure_expenditure_income_release*", 5)):
        files = [pd.read_csv(path) for path in sorted((shared_data / "peer_runs").glob(pattern))]
        assert len(files) == m
        risk = replace(attribute([0.2]), assumed=True)
        verdict = judge(risk, CALM, exposure=br.exposure(df, files))
        assert verdict.outcome == "above your thresholds"
        assert "unique values" in decided(verdict)


def test_the_original_comes_before_all_other_reasons():
    df = people()
    verdict = judge(attribute([0.9]), CALM, exposure=br.exposure(df, df.copy()))
    assert verdict.deciding[0].measure == "original released" and len(verdict.deciding) > 1


def test_uniques_are_judged_on_the_keys_that_the_page_names():
    df = people()
    rolled = [df.assign(income=np.roll(df["income"], 1))] * CALM.m
    own, of_keys = br.exposure(df, rolled), br.exposure(df, rolled, keys=["age"])
    assert own.keys != of_keys.keys
    matched = replace(CALM, exposure=of_keys)
    verdict = judge(replace(attribute([0.2]), exposure=own), matched)
    assert "replicated uniques" not in {r.measure for r in verdict.reasons}  # age is as it was


@pytest.mark.parametrize("limit", [0.0, 1.0])
def test_a_match_rate_stands_beside_that_of_the_keys_that_were_kept(limit):
    df = pd.DataFrame({"age": range(10), "job": list("ab") * 5})
    found = br.identification_risk(df, df.assign(job="a"), known=["age"], synthesized=["job"])
    (said,) = [r for r in judge(None, found, Thresholds(true_match_rate=limit)).reasons
               if r.measure == "true match rate"]  # fmt: skip
    assert said.sentence.startswith("An intruder matches 100.0 % of the 10 records uniquely")
    assert said.sentence.endswith("The unsynthesised keys alone match 100.0 %.")
    cure = "coarsen or synthesise the unsynthesised keys (age), those of most levels first"
    assert said.cure == (cure if limit == 0.0 else "")


def test_every_unchanged_column_is_named_with_who_is_alone_in_it():
    """Before all reasons; those in which most are alone first, thirty by name."""
    rng = np.random.default_rng(0)
    df = pd.DataFrame({f"kept{i}": rng.integers(0, 3 + 8 * i, 60) for i in range(50)})
    df = df.assign(made=rng.integers(0, 3, 60), key=[f"person {i}" for i in range(60)])
    files = df.assign(made=rng.integers(0, 3, 60), new=0)
    alone = {c: int((df[c].value_counts() == 1).sum()) for c in df}
    public = {"kept3": "published frame", "kept49": "published frame"}
    found = judge(None, CALM, Thresholds(public=public), exposure=br.exposure(df, files))
    unchanged, named, outside = found.facts.split(". ")
    kept, public_ = unchanged.split("; public: ")
    assert kept.startswith("Released unchanged, not in a key: ")
    shown = re.findall(r"(kept\d+) \((\d+) of 60 persons unique\)", kept)
    assert {name: int(count) for name, count in shown} == {c: alone[c] for c, _ in shown}
    order = re.findall(r"kept\d+", kept)
    assert len(order) == 30 and kept.endswith(" and 18 more")
    assert order == sorted(order, key=lambda c: -alone[c])
    assert public_ == ", ".join(
        f"{c} ({alone[c]} of 60 persons unique)" for c in ("kept49", "kept3")
    )
    assert named == "Identifiers: key (60 values in a file)"
    assert outside == "Columns that the original does not have: new."
    assert repr(found).splitlines()[1] == found.facts
