"""``[utility]`` of a study: its keys, and what a run makes of it."""

import json
import tomllib

import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.output import render_study
from bayes_risk.app.run import run_study
from bayes_risk.app.study.declare import utility_options
from bayes_risk.app.study.study import parse_study, read_study
from tests.helpers.first_screen import first_screens, strange_numbers, written_summary
from tests.helpers.study_files import TREES_OF_PAY, people, study_folder
from tests.reporting.test_report import Page

STUDY = (
    TREES_OF_PAY
    + """
[utility]
permutations = 4
analyses = "analyses.py:pay"
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return study_folder(tmp_path_factory.mktemp("study"), STUDY, people())


@pytest.fixture(scope="module")
def result(folder):
    study = read_study(folder / "study.toml").with_output(folder / "out")
    return run_study(study, n_jobs=1)


def content(**utility):
    found = tomllib.loads(STUDY)
    return found | {"utility": utility}


def test_defaults_are_those_of_the_function():
    import inspect

    section = parse_study(content()).utility
    defaults = {k: p.default for k, p in inspect.signature(br.utility).parameters.items()}
    given = section.model_dump(exclude={"analyses"})
    assert given == {key: defaults[key] for key in given}
    assert len(given) == 7 and section.analyses == []


@pytest.mark.check
def test_it_is_the_utility_of_the_release(result):
    study, release = result.study, result.release
    df = pd.read_csv(study.data.path, index_col="id")
    again = br.utility(
        df,
        release,
        analyses=utility_options(study)["analyses"],
        permutations=4,
        random_seed=int(result.utility.seed_entropy),
    )
    pd.testing.assert_frame_equal(again.summary(), result.utility.summary())
    assert ("pay", "sex[T.m]") in result.utility.estimates.index


@pytest.mark.check
def test_it_changes_no_other_number(result, folder):
    alone = run_study(parse_study(content() | {"utility": None, **_data(folder)}), n_jobs=1)
    assert alone.utility is None
    for ours, theirs in zip(result.release.datasets, alone.release.datasets, strict=True):
        pd.testing.assert_frame_equal(ours, theirs)
    assert alone.verdict.outcome == result.verdict.outcome


def _data(folder):
    return {"data": {"path": str(folder / "people.csv"), "index": "id"}}


@pytest.mark.check
def test_every_number_of_the_first_screen_is_one_of_the_summary(result):
    screens, content = first_screens(result), written_summary(result)
    assert strange_numbers(screens, content) == []
    del content["utility"]
    assert ("terminal", "1.516") in strange_numbers(screens, content)


@pytest.mark.check
def test_the_folder_holds_it(result, folder):
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
def test_report_screen_and_repr_tell_it(result):
    text = render_study(result)
    page = Page(text)
    assert "utility" in page.ids and "pay: sex[T.m]" in text
    assert "worst pair" in result.utility.line()
    assert "S_pMSE" in repr(result) or "ratio_cart" in repr(result)


def test_a_study_of_utility_alone_is_a_study(folder):
    study = parse_study({k: v for k, v in content().items() if k != "identification"})
    assert study.identification is None and study.utility is not None
