"""Mixed priors, impossible combinations, membership, full table, reweighting: keys and runs."""

import json
import os
import tomllib

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.run import run_study
from bayes_risk.app.study.declare import read_data
from bayes_risk.app.study.study import parse_study, read_study
from bayes_risk.reporting.content import as_toml
from tests.app.test_cli import screen

CATEGORIES = {"kind": "DPMPM", "n_classes": 2, "draws": 40, "tune": 40, "chains": 2}
NORMAL = {"kind": "Regression", "formulas": {"w": "1", "a": "w"}, "draws": 40}
GRID = {"additive": 2.0, "n": 5}
RULES = [{"age": "child", "status": ["married", "widowed"]}]
DOUBT = "ignore::bayes_risk.UnreliableWeightsWarning"
BINDS = "ignore::bayes_risk.TruncationWarning"
quiet = pytest.mark.filterwarnings(DOUBT, BINDS)


def content(model=CATEGORIES, **sections):
    return {"data": {"path": "a.csv"}, "model": model, "attribute": {}} | sections


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Sixty people: children are single, and have codes with a zero in front."""
    rng = np.random.default_rng(3)
    age = rng.choice(["child", "adult"], 60, p=[0.3, 0.7])
    status = np.where(age == "child", "single", rng.choice(["single", "married", "widowed"], 60))
    df = pd.DataFrame({"id": [f"P{k}" for k in range(60)], "age": age, "status": status})
    df["code"] = rng.choice(["01", "02", "x"], 60)
    folder = tmp_path_factory.mktemp("people")
    df.to_csv(folder / "people.csv", index=False)
    return folder / "people.csv"


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    rng = np.random.default_rng(4)
    w = rng.normal(size=50)
    df = pd.DataFrame({"w": w.round(2), "a": (w + rng.normal(size=50)).round(2)})
    path = tmp_path_factory.mktemp("line") / "line.csv"
    df.to_csv(path, index=False)
    return path


def strangers(line):
    """People of the same population who are not in the data."""
    rng, path = np.random.default_rng(9), line.with_name("strangers.csv")
    w = rng.normal(size=50)
    df = pd.DataFrame({"w": w.round(2), "a": (w + rng.normal(size=50)).round(2)})
    df.to_csv(path, index=False)
    return str(path)


def study_of(path, model=CATEGORIES, **sections):
    index = {"index": "id"} if path.name == "people.csv" else {}
    data = {"path": str(path)} | index
    return parse_study(content(model, random_seed=5, **sections) | {"data": data})


# --- priors ------------------------------------------------------------------------------------


def test_a_mixture_is_told_with_its_parts():
    parts = [[3, "predictive"], [1, {"mixture": [[0.5, "uniform"], [0.5, {"truth_factor": 4}]]}]]
    study = parse_study(content(attribute={"prior": {"mixture": parts}}))
    found = study.attribute.options["prior"]
    assert found.weights == (0.75, 0.25) and found.priors[0] == "predictive"
    assert found.priors[1].priors == ("uniform", br.TruthFactor(4.0))
    again = tomllib.loads(as_toml(study.settings()))
    assert parse_study(again).attribute == study.attribute


@pytest.mark.check
@quiet
@pytest.mark.parametrize("word", ["predictive", "release", "release-joint"])
def test_runs_take_the_librarys_priors(people, word):
    mixture = {"mixture": [[0.5, word], [0.5, {"truth_factor": 3}]]}
    options = {"refit_budget": 0, "targets": 10}
    how = {"release": {"m": 1}}
    one = run_study(study_of(people, attribute={"prior": word} | options, **how)).attribute
    two = run_study(study_of(people, attribute={"prior": mixture} | options, **how)).attribute
    favoured = 3 / (two.n_guesses + 2)
    expected = 0.5 * one.records["prior"] + 0.5 * favoured
    assert two.records["prior"].to_numpy() == pytest.approx(expected.to_numpy())


# --- impossible combinations -------------------------------------------------------------------


@pytest.mark.check
@quiet
def test_nobody_impossible_is_made_and_none_is_guessed(people):
    options = {"attribute": {"refit_budget": 0}, "release": {"m": 2}}
    ruled = run_study(study_of(people, CATEGORIES | {"impossible": RULES}, **options))
    for made in ruled.release.datasets:
        assert not ((made["age"] == "child") & (made["status"] != "single")).any()
    free = run_study(study_of(people, **options))
    assert (ruled.attribute.records["prior"] >= free.attribute.records["prior"]).all()
    assert ruled.attribute.records["prior"].max() > free.attribute.records["prior"].max()


def test_a_table_of_rules_is_read_as_the_data_are(people):
    path = people.parent / "rules.csv"
    path.write_text("age,status,code\nchild,married,\nchild,widowed,02\n")
    (people.parent / "s.toml").write_text(
        '[data]\npath = "people.csv"\nindex = "id"\n[attribute]\n[model]\n'
        'impossible = "rules.csv"\n'
    )
    study = read_study(people.parent / "s.toml")
    assert study.model.impossible == path
    df, _ = read_data(study.data)
    found = study.model.declared(df)
    assert found.impossible.listed() == [
        {"age": ["child"], "status": ["married"]},
        {"age": ["child"], "status": ["widowed"], "code": ["02"]},
    ]
    path.write_text("age\n\n")
    with pytest.raises(br.InputError, match=r"\[model\] impossible: impossible has no rule"):
        study.model.declared(df)


@pytest.mark.check
@quiet
def test_the_table_of_rules_is_in_the_manifest(people, tmp_path):
    path = people.parent / "few.csv"
    path.write_text("age,status\nchild,married\nchild,widowed\n")
    model = CATEGORIES | {"impossible": str(path)}
    attribute = {"targets": 5, "refit_budget": 0}
    study = study_of(people, model, attribute=attribute, release={"m": 1})
    run_study(study.with_output(tmp_path / "out"))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert list(manifest["model_sha256"]) == ["few.csv"]


# --- membership --------------------------------------------------------------------------------


FEW = {"records": 12, "comparisons": 8, "alternatives": 8, "refit_budget": 0}


@pytest.mark.check
@quiet
@pytest.mark.parametrize("source", ["held_out", "others", "nobody"])
def test_a_run_asks_who_is_in_the_data(line, tmp_path, source):
    given = {"held_out": {"held_out": 0.4}, "others": {"others": strangers(line)}, "nobody": {}}[
        source
    ]
    study = study_of(
        line, NORMAL, attribute=None, release={"m": 2}, membership=FEW | given
    ).with_output(tmp_path / "out")
    result = run_study(study)
    found = result.membership
    others = {"held_out": 20, "others": 50, "nobody": 0}[source]
    assert found.member.sum() == 12 and (~found.member).sum() == others
    assert len(result.release.datasets[0]) == 50  # the audit's own release is of everybody
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())["membership"]
    assert summary["measures"]["members"]["value"] == 12
    assert ("held out" in summary["sentence"]) == (source == "held_out")
    rows = pd.read_csv(tmp_path / "out" / "membership.csv", index_col="record")
    assert rows["log_bayes_factor"].to_numpy() == pytest.approx(found.log_bayes_factor)
    assert "records.csv" not in os.listdir(tmp_path / "out")
    text = "\n".join(screen(result, 100))
    said = "largest" if source == "nobody" else "how often the release points to the member"
    assert "Membership: " in text and said in text
    report = (tmp_path / "out" / "report.html").read_text()
    assert '<h2 id="membership">' in report and "Members examined" in report


@pytest.mark.check
@quiet
def test_membership_is_the_librarys_and_of_any_number_of_workers(line):
    section = FEW | {"others": strangers(line), "prior_odds": 0.1}
    study = study_of(line, NORMAL, attribute=None, release={"m": 1}, membership=section)
    one, two = run_study(study, n_jobs=1).membership, run_study(study, n_jobs=2).membership
    assert one.records.equals(two.records)
    assert one.prior_odds == 0.1
    knowing = study_of(
        line,
        NORMAL,
        attribute=None,
        release={"m": 1},
        membership=section | {"knows_records": "none"},
    )
    assert "no record" in run_study(knowing).membership.assumptions["records"]


# --- privacy loss ------------------------------------------------------------------------------


@pytest.mark.check
@quiet
def test_privacy_loss_is_of_the_audits_own_evidence(people, tmp_path):
    options = {"refit_budget": 0, "targets": 9, "prior": {"truth_factor": 5}}
    one = {"release": {"m": 1}}
    plain = run_study(study_of(people, attribute=options, **one))
    assert plain.privacy_loss is None
    study = study_of(people, attribute=options | {"privacy_loss": True}, **one)
    result = run_study(study.with_output(tmp_path / "out"))
    assert result.attribute.records.equals(plain.attribute.records)
    loss = result.privacy_loss.records["privacy_loss"]
    moved = result.attribute.records["log_bayes_factor"].abs()
    assert (loss >= moved - 1e-9).all() and loss.max() > 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())["privacy_loss"]
    assert summary["measures"]["max_privacy_loss"]["value"] == pytest.approx(loss.max())
    written = pd.read_csv(tmp_path / "out" / "privacy_loss.csv", index_col="record")
    assert written["privacy_loss"].to_numpy() == pytest.approx(loss.to_numpy())
    assert any(text.startswith("Privacy loss: ") for text in screen(result, 100))
    assert '<h2 id="privacy-loss">' in (tmp_path / "out" / "report.html").read_text()


# --- full table --------------------------------------------------------------------------------


@pytest.mark.check
@quiet
def test_the_worst_records_are_asked_about_in_the_full_table(people, tmp_path):
    study = study_of(
        people,
        attribute={"refit_budget": 0, "knows_columns": ["code"]},
        release={"m": 2},
        full_table={"targets": 3, "draws": 20},
        output={"release": True},
    )
    result = run_study(study.with_output(tmp_path / "out"))
    found = result.full_table
    assert list(found.index) == list(result.attribute.worst(3).index)
    assert [v.name for v in found.variables] == ["age", "status"] and found.n_values.max() == 6
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())["full_table"]
    assert summary["measures"]["targets"]["value"] == 3
    table = pd.read_csv(tmp_path / "out" / "full_table.csv", index_col="record")
    assert table["rank"].to_numpy() == pytest.approx(found.records["rank"].to_numpy())
    assert "Full table: share of records whose truth is the likeliest value" in "\n".join(
        screen(result, 100)
    )
    assert '<h2 id="full-table">' in (tmp_path / "out" / "report.html").read_text()
    for l, made in enumerate(result.release.datasets, start=1):
        written = pd.read_csv(tmp_path / "out" / f"synthetic-{l}.csv", dtype=str)
        assert written.equals(made.astype(str).reset_index(drop=True))


@pytest.mark.check
@quiet
def test_named_records_without_an_attribute_audit(people):
    study = study_of(people, attribute=None, full_table={"targets": ["P3", "P1"], "draws": 20})
    assert list(run_study(study).full_table.index) == ["P3", "P1"]
    prior = {"targets": ["P3"], "draws": 20, "prior": {"truth_factor": 3}}
    assert run_study(study_of(people, attribute=None, full_table=prior)).full_table is not None
    unknown = study_of(people, full_table={"targets": ["Q3"]})
    with pytest.raises(
        br.InputError,
        match=r"\[full_table\] targets names 'Q3', which is "
        r"not a rec",
    ):
        run_study(unknown)


# --- reweighting -------------------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.filterwarnings("ignore::bayes_risk.DisplacedRiskWarning")
def test_the_audit_is_of_the_last_round(line, tmp_path):
    study = study_of(
        line,
        NORMAL,
        release={"m": 3, "columns": ["a"]},
        attribute={"guesses": {"a": GRID}},
        identification={"known": ["w"], "synthesized": ["a"], "radius": {"a": 0.1}},
        reweight={"until": 0.21, "rounds": 2, "steps": 20},
        output={"release": True},
    )
    result = run_study(study.with_output(tmp_path / "out"))
    loop = result.reweighting
    assert len(loop.rounds) > 1 and result.attribute.log_probability is loop.risk.log_probability
    assert result.release is loop.release and loop.weights.min() < 1
    written = pd.read_csv(tmp_path / "out" / "synthetic-1.csv")
    assert written["a"].to_numpy() == pytest.approx(loop.release.datasets[0]["a"].to_numpy())
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())["reweighting"]
    assert len(summary["rounds"]) == len(loop.rounds) and summary["until"] == 0.21
    table = pd.read_csv(tmp_path / "out" / "reweighting.csv", index_col="record")
    assert table["weight"].to_numpy() == pytest.approx(loop.weights.to_numpy())
    lines = screen(result, 100)
    before = next(text for text in lines if text.startswith("before "))
    assert f"{loop.summary()['mean_probability'].iloc[0]:.3f}" in before
    assert '<h2 id="reweighting">' in (tmp_path / "out" / "report.html").read_text()
    assert "reweighting" in result.seconds and "Reweighting" in repr(result)


@quiet
@pytest.mark.filterwarnings("ignore::bayes_risk.DisplacedRiskWarning")
@pytest.mark.parametrize(
    "model",
    [
        pytest.param({"kind": "CART", "order": ["status"]}, id="CART"),
        pytest.param(CATEGORIES, id="DPMPM", marks=pytest.mark.slow),
    ],
)
def test_models_of_categories_are_reweighted_too(people, model):
    attribute = {"refit_budget": 0, "targets": 30}
    loop = {"until": 0.05, "rounds": 1}
    study = study_of(people, model, attribute=attribute, release={"m": 2}, reweight=loop)
    found = run_study(study).reweighting
    assert len(found.rounds) == 2 and found.weights.min() < 1


def test_a_threshold_that_holds_at_once_changes_nothing(line):
    study = study_of(
        line, NORMAL, attribute={"guesses": {"a": GRID, "w": GRID}}, reweight={"until": 0.99}
    )
    result = run_study(study)
    assert len(result.reweighting.rounds) == 1 and (result.reweighting.weights == 1).all()
    assert result.reweighting.reason.startswith("the threshold holds")
