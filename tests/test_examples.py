"""The examples run as they stand, with fewer draws."""

import runpy
import tomllib
from pathlib import Path

import pytest

import bayes_risk as br
from bayes_risk.reporting.content import as_toml
from bayes_risk.run import run_study
from bayes_risk.study.study import read_study

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
DOUBT = ["ignore::bayes_risk.UnreliableWeightsWarning", "ignore::bayes_risk.TruncationWarning"]


def main_of(name):
    return runpy.run_path(str(EXAMPLES / name))["main"]


@pytest.mark.filterwarnings(*DOUBT)
def test_demo_study(tmp_path):
    path = tmp_path / "demo-study.html"
    risk, ident = main_of("demo_study.py")(path, draws=60, targets=200, refit_budget=0)
    assert len(risk.index) == 200 and ident.n == 6366
    assert "Redbook survey of 1974" in path.read_text()


@pytest.mark.filterwarnings(*DOUBT)
def test_worst_case_audit():
    table = main_of("worst_case_audit.py")(draws=200, refit_budget=0)
    assert len(table) == 5
    truth = table["mean probability of the truth"]
    assert truth["own latent class (a worse file)"] > 2 * truth["every combination equally likely"]


def test_match_release_made_elsewhere(capsys):
    persistent, easily_discouraged = main_of("match_release_made_elsewhere.py")(m=2)
    assert persistent.fallback and not easily_discouraged.fallback
    assert "would be expected to match" in capsys.readouterr().out


@pytest.mark.filterwarnings(*DOUBT)
def test_own_pymc_model(capsys):
    risk = main_of("own_pymc_model.py")(draws=60)
    assert len(risk.index) == 400 and risk.n_guesses == 49
    assert "households" in capsys.readouterr().out


@pytest.mark.filterwarnings(*DOUBT)
def test_regression_study(tmp_path):
    study = read_study(EXAMPLES / "regression_study.toml")
    model = study.model.model_copy(update={"draws": 20, "tune": 40})
    section = study.attribute.model_copy(update={"targets": 10, "refit_budget": 0})
    result = run_study(study.model_copy(update={"model": model, "attribute": section}))
    assert len(result.attribute.index) == 10
    assert result.identification.radius == {"disease": br.Relative(0.1)}
    assert list(result.attribute.closeness_summary().index) == ["disease", "visits"]


@pytest.mark.filterwarnings(*DOUBT)
def test_business_study(tmp_path):
    study = read_study(EXAMPLES / "business_study.toml")
    model = study.model.model_copy(update={"draws": 40, "tune": 40, "n_classes": 15})
    result = run_study(study.model_copy(update={"model": model}))
    risk = result.attribute
    assert len(risk.index) == 1 and risk.n_guesses == 98
    assert "second largest visits" in risk.assumptions["records"]
    assert risk.records["probability"].item() < 0.1
    assert result.identification.m == 3
    # nothing in the file is sampled: the belief, with the tail's total, is what it is for any draws
    assert not risk.mcse.any()


@pytest.mark.filterwarnings(*DOUBT)
def test_doctor_visits(capsys):
    table = main_of("doctor_visits.py")(m=2, draws=40, n_classes=15)
    assert list(table.index) == ["MP", "MM", "TCMM, 99 %", "TCMM, 95 %"]
    near = table["within 5 %"]
    assert near["TCMM, 99 %"] < near["MM"] and near["TCMM, 95 %"] < near["MM"]
    assert "20,190 person-years" in capsys.readouterr().out


def test_every_example_is_run_here():
    assert {p.name for p in EXAMPLES.iterdir() if p.is_file()} == {
        "demo_study.py",
        "worst_case_audit.py",
        "match_release_made_elsewhere.py",
        "own_pymc_model.py",
        "study.toml",  # in test_study.py
        "cart_study.toml",  # in test_study_trees.py
        "regression_study.toml",
        "business_study.toml",
        "doctor_visits.py",
    }


def test_settings_are_written_as_toml():
    settings = {"title": 'a "b"', "n": None, "data": {"path": None, "x": {"a": [1, 2.5, True]}}}
    assert tomllib.loads(as_toml(settings)) == {
        "title": 'a "b"',
        "data": {"x": {"a": [1, 2.5, True]}},
    }
