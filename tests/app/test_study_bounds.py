"""``[utility]``, ``[context]``, ``[bounds]`` and thresholds: keys, runs, folder, report, screen."""

import inspect
import json
import tomllib

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.output import render_study
from bayes_risk.app.run import run_compare, run_study, run_sweep
from bayes_risk.app.run.runner import estimate
from bayes_risk.app.study.declare import utility_options
from bayes_risk.app.study.study import parse_study, read_study
from bayes_risk.reporting.content import as_toml
from bayes_risk.reporting.report import report
from bayes_risk.reporting.terminal import print_result
from tests.helpers.first_screen import first_screens, strange_numbers, written_summary
from tests.helpers.study_files import TREES_OF_PAY, people, shown, study_folder
from tests.reporting.test_report import Page

N = 90
STUDY = (
    TREES_OF_PAY
    + """
[attribute]
guesses = { pay = { additive = 2, n = 3, truth = "add" } }
targets = 5

[utility]
permutations = 4
analyses = "analyses.py:pay"

[context]
keys = ["sex", "job"]
target = "pay"
groups = { pay = 4 }
holdout = "others.csv"
lookups = 50

[bounds]
patterns = ["sex"]

[thresholds]
utility = { pmse_cart = 0.0, margins_hellinger = 1.0 }
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = study_folder(tmp_path_factory.mktemp("study"), STUDY, people(2, N, 1))
    people(3, 40, 1, "Q").to_csv(where / "others.csv", index=False)
    return where


@pytest.fixture(scope="module")
def result(folder):
    return run_study(read_study(folder / "study.toml").with_output(folder / "out"), n_jobs=1)


def content(**sections):
    found = tomllib.loads(STUDY)
    del found["utility"]["analyses"]  # counted from the folder of the file
    found |= sections
    return {name: section for name, section in found.items() if section is not None}


# --- what is measured --------------------------------------------------------------------------


@pytest.mark.check
def test_context_is_that_of_the_library(result, folder):
    df = br.read_table(folder / "people.csv", index="id")
    again = br.context_measures(
        df,
        result.release,
        keys=["sex", "job"],
        target=["pay"],
        groups={"pay": 4},
        holdout=br.read_table(folder / "others.csv", index="id"),
        lookups=50,
        random_seed=int(result.context.seed_entropy),
    )
    pd.testing.assert_frame_equal(again.summary(), result.context.summary())
    assert ("", "closer_than_holdout") in result.context.rows


@pytest.mark.check
def test_bounds_are_what_separate_calls_give(result, folder):
    df = br.read_table(folder / "people.csv", index="id")
    found = result.bounds.summary()
    seeds = np.random.SeedSequence(int(result.bounds.seed_entropy)).generate_state(2)
    ends = br.release_bounds(
        df, synthesized=["job", "pay"], patterns=["sex"], m=2, random_seed=int(seeds[0])
    )
    keys = {"known": ["sex"], "synthesized": ["job"]}
    for place, release in (
        ("minimum", ends.minimum),
        ("release", result.release),
        ("maximum", ends.maximum),
        ("unchanged", ends.unchanged),
    ):
        match = br.identification_risk(df, release, **keys).summary()
        expected = match.at["pooled", "expected_match_risk"]
        assert found.at["expected_match_risk", place] == expected
        context = br.context_measures(
            df, release, keys=["sex", "job"], target=["pay"], groups={"pay": 4}, distances=False
        )
        value = context.summary()["value"]
        assert found.at["disco (pay)", place] == value["pay", "disco"]
    useful = br.utility(df, ends.maximum, permutations=4, random_seed=int(seeds[1])).summary()
    assert found.at["pmse_cart", "maximum"] == useful.at["pmse_cart", "value"]
    span = found["maximum"] - found["minimum"]
    position = (found["release"] - found["minimum"]) / span.where(span != 0)
    pd.testing.assert_series_equal(found["position"], position, check_names=False)
    assert (result.bounds.alone, result.bounds.n, result.bounds.m) == (0, N, 2)


@pytest.mark.check
def test_utility_is_that_of_the_release(result, folder):
    again = br.utility(
        br.read_table(folder / "people.csv", index="id"),
        result.release,
        analyses=utility_options(result.study)["analyses"],
        permutations=4,
        random_seed=int(result.utility.seed_entropy),
    )
    pd.testing.assert_frame_equal(again.summary(), result.utility.summary())
    assert ("pay", "sex[T.m]") in result.utility.estimates.index


def test_defaults_of_utility_are_those_of_the_function():
    section = parse_study(content(utility={})).utility
    defaults = {k: p.default for k, p in inspect.signature(br.utility).parameters.items()}
    given = section.model_dump(exclude={"analyses"})
    assert given == {key: defaults[key] for key in given}
    assert len(given) == 7 and section.analyses == []


@pytest.mark.check
@pytest.mark.parametrize("gone", [["context", "bounds"], ["context", "bounds", "utility"]])
def test_they_change_no_other_number(result, folder, gone):
    given = content(thresholds=None, **dict.fromkeys(gone)) | _data(folder)
    if "utility" in given:
        given["utility"] = {"permutations": 4, "analyses": f"{folder}/analyses.py:pay"}
    alone = run_study(parse_study(given), n_jobs=1)
    assert all(getattr(alone, name) is None for name in gone)
    for ours, theirs in zip(result.release.datasets, alone.release.datasets, strict=True):
        pd.testing.assert_frame_equal(ours, theirs)
    if "utility" in given:
        pd.testing.assert_frame_equal(alone.utility.summary(), result.utility.summary())
    pd.testing.assert_frame_equal(alone.attribute.summary(), result.attribute.summary())
    assert alone.verdict.outcome == result.verdict.outcome and alone.verdict.usefulness is None


def _data(folder):
    return {"data": {"path": str(folder / "people.csv"), "index": "id"}}


def test_a_study_of_utility_or_of_context_alone_is_a_study(folder):
    none = dict.fromkeys(("attribute", "identification", "bounds", "thresholds"))
    assert parse_study(content(**none, context=None)).utility is not None
    given = content(**none, utility=None, context={"keys": ["sex"], "distances": ["job"]})
    result = run_study(parse_study(given | _data(folder)), n_jobs=1)
    assert result.context.compared == ("job",) and result.context.targets == ()
    assert "repU" in result.context.line() and "DiSCO" not in result.context.line()


def test_files_of_many_levels_are_measured_and_estimated_without_a_model(tmp_path):
    """Of 1,200 levels nothing was said but that a model takes 1,000."""
    text = "p" + pd.Series(np.arange(1_200)).astype(str)
    people = pd.DataFrame({"sex": list("fm") * 600, "place": text})
    for name in ("people.csv", "synthetic.csv"):
        people.to_csv(tmp_path / name, index=False)
    released = {"files": [str(tmp_path / "synthetic.csv")], "columns": ["sex", "place"]}
    study = parse_study(
        {
            "data": {"path": str(tmp_path / "people.csv")},
            "release": released,
            "context": {"keys": ["sex"], "target": "place"},
        }
    )
    found = estimate(study, time=False)
    assert found.stages == ["data", "context measures"] and found.data < 2**20
    result = run_study(study, n_jobs=1, max_memory="8GiB")
    assert result.context.summary().loc[("", "dcr_zero"), "value"] == 1


# --- where it shows ----------------------------------------------------------------------------


@pytest.mark.check
def test_the_folder_holds_them(result, folder):
    found = json.loads((folder / "out" / "summary.json").read_text())
    value = result.context.summary().at[("pay", "disco"), "value"]
    assert found["context"]["measures"]["disco (pay)"]["value"] == pytest.approx(value)
    assert found["context"]["sentence"] == result.context.sentence()
    row = result.bounds.summary().loc["expected_match_risk"]
    assert found["bounds"]["measures"]["expected_match_risk"]["maximum"] == row["maximum"]
    table = pd.read_csv(folder / "out" / "context_measures.csv").set_index("measure")
    assert table.at["disco (pay)", "value"] == pytest.approx(value, abs=1e-12)
    records = pd.read_csv(folder / "out" / "context.csv", index_col="record")
    assert list(records) == ["replicated_unique", "disco_pay"] and len(records) == N
    bounds = pd.read_csv(folder / "out" / "bounds.csv").set_index("measure")
    assert bounds.at["expected_match_risk", "minimum"] == pytest.approx(row["minimum"])
    for name in ("context_measures.csv", "context.csv", "bounds.csv"):
        assert "baker" not in (folder / "out" / name).read_text()


@pytest.mark.check
def test_the_folder_holds_utility(result, folder):
    found = json.loads((folder / "out" / "summary.json").read_text())["utility"]
    value = result.utility.summary().loc["ratio_cart", "value"]
    assert found["measures"]["ratio_cart"]["value"] == pytest.approx(value)
    assert found["sentence"] == result.utility.sentence()
    table = pd.read_csv(folder / "out" / "utility.csv", keep_default_na=False)
    pairs = table[(table["kind"] == "pair") & (table["measure"] == "ratio")]
    drawn = {(a, b): float(v) for a, b, v in pairs[["first", "second", "value"]].to_numpy()}
    assert drawn == pytest.approx(result.utility.pairs["ratio"].to_dict())
    assert set(table["kind"]) == {"column", "pair", "estimate"}
    assert "baker" not in table.to_csv()


@pytest.mark.check
def test_every_number_of_the_first_screen_is_one_of_the_summary(result):
    screens, content = first_screens(result), written_summary(result)
    assert strange_numbers(screens, content) == []
    del content["utility"], content["bounds"]  # where releases are compared with drawn ones
    assert ("terminal", "1.524") in strange_numbers(screens, content)


@pytest.mark.check
def test_report_repr_and_screen_tell_them(result, tmp_path):
    text = render_study(result)
    page = Page(text)
    assert {"utility", "context", "bounds"} <= set(page.ids) and "pay: sex[T.m]" in text
    assert "worst pair" in result.utility.line() and "ratio_cart" in repr(result)
    assert "ContextMeasures" in repr(result) and "InherentBounds" in repr(result)
    assert (
        "DiSCO of pay" in result.context.line()
        and "expected correct matches" in result.bounds.line()
    )
    text = shown(print_result, result, width=100)
    assert result.bounds.line()[:50] in text
    assert len(text.splitlines()) <= 32  # of what to do next, one
    assert "ess useful than required" in text
    made = report(result.bounds, result.identification, path=tmp_path / "r.html").read_text()
    assert 'id="bounds"' in made and "redrawn among records with the same sex" in made


@pytest.mark.check
def test_the_verdict_says_that_usefulness_fails(result, folder):
    assert result.verdict.usefulness == "less useful than required"
    found = json.loads((folder / "out" / "summary.json").read_text())["study"]
    assert found["usefulness"] == "less useful than required"
    assert found["thresholds"]["utility"] == {"pmse_cart": 0.0, "margins_hellinger": 1.0}
    assert found["thresholds"]["membership_auc"] is None and found["thresholds"]["rhat"] == 1.05


def test_settings_are_a_study_file_again(folder):
    study = read_study(folder / "study.toml")
    again = parse_study(tomllib.loads(as_toml(study.settings())))
    for name in ("utility", "context", "bounds", "thresholds"):
        assert getattr(again, name) == getattr(study, name)


def test_rhat_is_left_alone_with_inf():
    study = parse_study(tomllib.loads("[thresholds]\nrhat = inf\n[data]\npath='a'\n[attribute]"))
    assert study.thresholds.made().rhat == np.inf
    assert parse_study(tomllib.loads(as_toml(study.settings()))).thresholds == study.thresholds


@pytest.mark.check
@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
@pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")
def test_chains_that_disagree_widen_the_errors_of_a_study(folder):
    """Eight draws of a chain hold no hundred: the study's own diagnostics reach the verdict."""
    mixture = {"kind": "DPMPM", "n_classes": 3, "draws": 8, "tune": 1, "chains": 2, "splits": 0}
    given = content(
        **dict.fromkeys(("context", "bounds", "utility", "thresholds")),
        data={"path": str(folder / "people.csv"), "columns": ["sex", "job"]},
        model=mixture,
        attribute={"targets": 5, "refit_budget": 0},
        identification={"known": [], "synthesized": ["sex", "job"]},
    )
    given["release"] = {**given.get("release", {}), "parameters": "independent"}  # not led
    result = run_study(parse_study(given), n_jobs=1)
    (reason,) = [r for r in result.verdict.reasons if "chains" in r.measure]
    assert result.diagnostics["max_rhat"] > 1.05 and result.diagnostics["min_ess"] < 200
    assert "14.0 standard errors were allowed for instead of 2" in reason.sentence


# --- keys that are wrong -----------------------------------------------------------------------


def test_an_area_under_the_curve_needs_people_outside():
    given = {
        "data": {"path": "a.csv"},
        "membership": {},
        "thresholds": {"membership_auc": 0.6},
    }
    with pytest.raises(br.InputError, match="membership_auc needs people outside the data"):
        parse_study(given)
    assert parse_study(given | {"membership": {"held_out": 0.5}}).thresholds.membership_auc == 0.6
    alone = given | {"thresholds": {"membership_log_bayes_factor": 3}}
    assert parse_study(alone).thresholds.made().membership_log_bayes_factor == 3


# --- beside a sweep and a comparison -----------------------------------------------------------


def test_a_sweep_and_a_comparison_leave_them_aside(folder):
    given = content(sweep={"m": [1]}, compare={"replicates": 1, "a": {}}) | _data(folder)
    given["context"].pop("holdout")
    study = parse_study(given)
    assert run_sweep(study, n_jobs=1).study.context is None
    assert run_compare(study, n_jobs=1).comparison.names == ("a",)
