"""Studies of intruders who know only some of the other records: keys, errors, runs."""

import json
import tomllib

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.run import run_study
from bayes_risk.app.study.declare import read_data, read_record_columns
from bayes_risk.app.study.study import candidate_study, parse_study
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


# --- survey weights ------------------------------------------------------------------------------


def survey(tmp_path, weights, **sections):
    df = pd.DataFrame({"id": [f"P{k}" for k in range(6)], "a": list("xyxyxz"), "w": weights})
    df.to_csv(tmp_path / "survey.csv", index=False)
    given = {"data": {"path": str(tmp_path / "survey.csv"), "index": "id"}, "release": {"m": 1}}
    study = parse_study(given | {"model": {"kind": "Marginals"}, "random_seed": 1} | sections)
    return study, df.set_index("id")


@pytest.mark.parametrize("candidate", [False, True])
def test_the_chance_of_being_in_the_file_by_weights(tmp_path, candidate):
    """1 / weight of each record, of a column that nothing else has; settings name it."""
    of_weights = {"intruder": {"in_file": {"weights": "w"}}}
    sections = {"attribute": of_weights}
    if candidate:
        sections = {"attribute": {"targets": 2}, "compare": {"one": {"attribute": of_weights}}}
    study, df = survey(tmp_path, [2, 4, 5, 8, 10, 20], **sections)
    read, table = read_record_columns(study, read_data(study.data)[0])
    one = candidate_study(read, "one", table) if candidate else read
    assert one.attribute.options["intruder"] == br.Intruder(in_file=1 / df["w"])
    assert table.columns.tolist() == ["a"]
    said = one.settings()["attribute"]["intruder"]
    assert said == {"knows_records": "all-but-target", "in_file": {"weights": "w"}}
    few = one.with_record_columns(read.record_columns.loc[["P3", "P1"]])
    assert few.attribute.knows.in_file.values == (0.125, 0.25)


def test_a_model_with_survey_weights(tmp_path):
    """`[model] weights` is the argument of the library's fit."""
    how = {"model": {"kind": "Marginals", "weights": "w"}, "attribute": {"prior": "uniform"}}
    study, df = survey(tmp_path, [1, 1, 4, 2, 3, 1], **how)
    found = run_study(study)
    fit = br.models.Marginals().fit(df, weights="w")
    own = br.attribute_risk(fit, found.release, prior="uniform")
    assert found.attribute.records["probability"].equals(own.records["probability"])
    assert "survey weights from 0.5 to 2" in found.attribute.assumptions["synthesis"]
    assert found.study.settings()["model"]["weights"] == "w"
    assert found.release.datasets[0].columns.tolist() == ["a"]


IN_FILE = {"attribute": {"intruder": {"in_file": {"weights": "w"}}}}
OF_MODEL = {"attribute": {}, "model": {"kind": "Marginals", "weights": "w"}}


@pytest.mark.parametrize(
    ("weights", "sections", "words"),
    [
        (
            [1, 2, 3, 4, 5, 0.5],
            IN_FILE,
            r"in_file: column 'w' has 1 weights below 1, and 1 / weight",
        ),
        (
            [1, 2, 3, 4, 5, 0],
            IN_FILE,
            r"intruder\] in_file: column 'w' of the original is 0 or negative in 1 of 6",
        ),
        (
            [1, 2, 3, 4, 5, None],
            OF_MODEL,
            r"\[model\] weights: column 'w' of the original is missing or infinite",
        ),
        (list("uvwxyz"), OF_MODEL, r"\[model\] weights: column 'w' .* does not hold numbers"),
    ],
    ids=["below one", "zero", "missing", "text"],
)
def test_columns_that_are_no_weights(tmp_path, weights, sections, words):
    study, df = survey(tmp_path, weights, **sections)
    with pytest.raises(br.InputError, match=words):
        read_record_columns(study, df)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"attribute": {"intruder": {"in_file": {"weights": "q"}}}}, r"in_file names column 'q'"),
        ({"attribute": {}, "model": {"kind": "CART", "order": ["a"], "weights": "q"}}, "names col"),
        ({"attribute": {"intruder": {"in_file": {"weight": "w"}}}}, "weight"),
        ({"attribute": {"intruder": {"in_file": 2.0}}}, "above 0, at most 1"),
        (OF_MODEL | {"reweight": {"until": 0.3}}, r"does not go with \[model\] weights"),
        (OF_MODEL | IN_FILE, r"in_file does not go with \[model\] weights"),
        ({"attribute": {}, "model": {"kind": "Forest", "order": ["a"], "weights": "w"}}, "weights"),
    ],
    ids=["absent", "absent of a model", "key", "number", "reweight", "both", "another model"],
)
def test_weights_that_no_study_takes(tmp_path, sections, words):
    with pytest.raises(br.InputError, match=words):
        read_record_columns(*survey(tmp_path, [1] * 6, **sections))
