"""Studies of intruders who know only some of the other records: keys, errors, runs."""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import parse_study
from bayes_risk.reporting.content import as_toml

TREES = {"kind": "CART", "order": ["a"]}
COUNTS = {"kind": "PoissonMixture"}
NORMAL = {"kind": "Regression", "formulas": {"a": "w"}}


def content(model, knows, release=None, **attribute):
    section = {"intruder": {"knows_records": knows}} | attribute
    release = {} if release is None else release
    return {"data": {"path": "a.csv"}, "model": model, "attribute": section, "release": release}


# --- what is taken -----------------------------------------------------------------------------


@pytest.mark.parametrize("knows", ["none", 0.5, ["A12", "B7"], [3, 4]], ids=str)
def test_the_key_is_what_the_library_is_told(knows):
    study = parse_study(content(TREES, knows, knows_columns=["b"], targets=5))
    options = study.attribute.options
    assert options["intruder"] == br.Intruder(knows_records=knows, knows_columns=("b",))
    assert options["targets"] == 5


@pytest.mark.parametrize("knows", ["none", 0.25, [3, 4]], ids=str)
def test_settings_are_a_study_again(knows):
    given = content(TREES, knows, evidence="exact", refit_budget=3)
    printed = as_toml(parse_study(given).settings())
    again = tomllib.loads(printed)
    assert again["attribute"]["intruder"] == {"knows_records": knows}
    assert again["attribute"]["refit_budget"] == 3
    assert parse_study(again).settings() == parse_study(given).settings()


# --- runs --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A table of 60 people in a file."""
    rng = np.random.default_rng(1)
    df = pd.DataFrame(
        {
            "id": [f"P{k}" for k in range(60)],
            "w": rng.normal(size=60).round(1),
            "a": rng.choice(list("xyz"), 60),
            "b": rng.choice(list("pq"), 60),
            "num": rng.integers(20, 30, 60),
        }
    )
    path = tmp_path_factory.mktemp("data") / "people.csv"
    df.to_csv(path, index=False)
    return path, df.set_index("id")


def study_of(people, folder, knows, model=TREES, **attribute):
    given = content(model, knows, {"m": 2}, **attribute)
    given["data"] = {"path": str(people[0]), "index": "id"}
    return parse_study(given | {"random_seed": 5, "output": {"folder": str(folder)}})


@pytest.mark.check
@pytest.mark.parametrize("knows", ["none", 0.5, ["P1", "P2"]], ids=str)
def test_a_run_is_the_audit_of_this_intruder(tmp_path, people, knows):
    result = run_study(study_of(people, tmp_path / "out", knows))
    found = result.attribute
    said = br.Intruder(knows_records=knows, knows_columns=()).in_words()
    assert found.assumptions["records"].startswith(f"{said} Of the others the release leaves")
    assert found.assumptions["evidence"].startswith("exact")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    expected = found.summary()["value"]["mean_probability"]
    assert summary["attribute_risk"]["assumptions"]["records"] == found.assumptions["records"]
    worst = run_study(study_of(people, tmp_path / "worst", "all-but-target")).attribute
    assert expected < worst.summary()["value"]["mean_probability"]


@pytest.mark.parametrize(
    ("study", "message"),
    [
        (
            {"knows": ["P1", "Q7"]},
            r"\[attribute.intruder\] knows_records names 'Q7', which is not a record label",
        ),
        (
            {
                "knows": 0.5,
                "model": TREES | {"order": ["num"], "smoothing": "kde"},
                "guesses": {"percent": 5},
            },
            r"column 'num' is smoothed by kernels, and records that are not known cannot be",
        ),
    ],
    ids=["label", "smoothing"],
)
def test_what_does_not_suit_the_data_is_told_before_fitting(tmp_path, people, study, message):
    with pytest.raises(br.InputError, match=message):
        run_study(study_of(people, tmp_path / "out", **study))
