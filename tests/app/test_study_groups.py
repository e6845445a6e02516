"""Risk by group in a study: keys, report, files, and nothing of it on the page that may leave."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from bayes_risk._core.errors import InputError
from bayes_risk.app.output import redacted_files, render_study, write_run
from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import parse_study
from tests.helpers.first_screen import first_screens, strange_numbers, written_summary

BY = {"area": [], "age": [30, 50]}
N = 90


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("groups"), np.random.default_rng(4)
    table = pd.DataFrame(
        {"area": rng.choice(["north", "south"], N), "age": rng.integers(18, 80, N)}
    )
    job = np.where(table["age"] < 40, "clerk", "pilot")
    table["job"] = np.where(rng.random(N) < 0.3, "cook", job)
    table.to_csv(folder / "data.csv", index=False)
    return folder


def study(folder, **attribute):
    content = {
        "random_seed": 1,
        "data": {"path": folder / "data.csv"},
        "model": {"kind": "CART", "order": ["job"], "min_leaf": 10},
        "release": {"m": 2},
        "attribute": {"guesses": {"job": "levels"}, "by": BY} | attribute,
        "identification": {"known": ["area"], "synthesized": ["job"], "by": ["area"]},
        "output": {"redact": True, "min_count": 5},
    }
    return parse_study(content)


@pytest.fixture(scope="module")
def result(folder):
    return run_study(study(folder))


def test_the_groups_are_those_of_the_file(folder, result):
    table, risk = pd.read_csv(folder / "data.csv"), result.attribute
    band = np.select([table["age"] < 30, table["age"] < 50], ["below 30", "30 to below 50"], "50+")
    mean = risk.records["probability"].to_numpy()
    groups = risk.groups.table
    for name, of in (("area", table["area"]), ("age", band)):
        expected = pd.Series(mean).groupby(np.asarray(of)).mean()
        np.testing.assert_allclose(np.sort(groups.loc[name, "probability"]), np.sort(expected))
    assert groups.loc["area", "records"].sum() == N
    assert list(result.identification.groups.table.index) == [("area", "north"), ("area", "south")]


def test_page_and_files_have_the_groups(result, tmp_path):
    write_run(tmp_path, result)
    page = (tmp_path / "report.html").read_text()
    assert page.count("Risk by group") == 2
    assert "30 to below 50" in page
    summary = json.loads((tmp_path / "summary.json").read_text())
    groups = summary["attribute_risk"]["groups"]["groups"]
    table = pd.read_csv(tmp_path / "attribute_groups.csv")
    assert len(groups) == len(table) == 5
    np.testing.assert_allclose([g["probability"] for g in groups], table["probability"])
    assert len(pd.read_csv(tmp_path / "identification_groups.csv")) == 2


@pytest.mark.check
def test_every_number_of_the_first_screen_is_one_of_the_summary(result):
    screens, content = first_screens(result), written_summary(result)
    assert strange_numbers(screens, content) == []
    measures, cells = content["attribute_risk"]["measures"], ("value", "mcse", "baseline")
    for words, name in (("mean", "mean_probability"), ("worst", "max_probability")):
        row = re.search(rf"truth's probability, {words} +(\S+) +(\S+) +(\S+)", screens["terminal"])
        assert [float(cell) for cell in row.groups()] == [
            round(measures[name][c], 3) for c in cells
        ]
    rise = re.search(r"flat prior\s+above\s+(\S+)\s+(\S+)", screens["page"]).groups()
    assert float(rise[0]) == round(measures["max_probability"]["value"], 3)
    del content["identification_risk"]
    assert len(strange_numbers(screens, content)) > 1


def test_nothing_of_the_groups_leaves(result):
    """One range of one number leaves: of groups no name, and no number of any size."""
    left = redacted_files(result)
    for text in (left["public.html"], json.dumps(left["public.json"])):
        assert not [word for word in ("north", "south", "below 30", "group") if word in text]
    assert len(left["public.json"]["numbers"]) == 1


@pytest.mark.parametrize(
    ("by", "why"),
    [(["age"], r"\[attribute\] by names 'age', which has \d+ different numbers"), (["x"], "'x'")],
)
def test_groups_that_cannot_be_are_refused_before_a_model_is_fitted(folder, by, why):
    with pytest.raises(InputError, match=why):
        run_study(study(folder, by=by))


def test_without_by_there_are_none(folder):
    found = run_study(study(folder, by=[]))
    assert found.attribute.groups is None
    assert "attribute_groups" not in render_study(found)
