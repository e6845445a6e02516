"""Comparisons from study files: keys, candidates, what the library is told, folder, screen."""

import json
import os
import tomllib

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk.app.cli import app
from bayes_risk.app.run import run_compare
from bayes_risk.app.study.study import candidate_study, parse_study, read_study
from bayes_risk.data.base_result import with_error
from bayes_risk.reporting.content import as_toml
from bayes_risk.reporting.terminal import print_comparison
from tests.helpers.study_files import shown

TREES = {"kind": "CART", "order": ["edu", "job"]}
KEYS = {"known": ["age"], "synthesized": ["edu", "job"]}
CANDIDATES = {
    "as-it-is": {},
    "other order": {"model": {"order": ["job", "edu"]}},
    "job alone": {"release": {"columns": ["job"]}, "model": {"order": ["job"]}},
}


def content(compare, **sections):
    return {
        "data": {"path": "a.csv"},
        "model": TREES,
        "release": {"m": 2},
        "attribute": {"guesses": "hamming-2"},
        "identification": KEYS,
        "compare": compare,
    } | sections


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(3)
    age = rng.integers(3, size=90)
    edu = (age + rng.integers(2, size=90)) % 4
    job = rng.integers(3, size=90)
    codes = {"age": age, "edu": edu, "job": job}
    df = pd.DataFrame({c: [f"{c}{k}" for k in v] for c, v in codes.items()})
    path = tmp_path_factory.mktemp("data") / "a.csv"
    df.to_csv(path, index=False)
    return path


def study_of(table, compare, **sections):
    given = content(compare, **sections) | {"data": {"path": str(table)}, "random_seed": 5}
    return parse_study(given)


# --- candidates are studies ---------------------------------------------------------------------


def test_a_candidate_is_the_study_with_its_keys():
    study = parse_study(content(CANDIDATES))
    same, other, alone = (candidate_study(study, name) for name in CANDIDATES)
    assert same.model == study.model and same.release == study.release and same.compare is None
    assert other.model.order == ["job", "edu"] and other.model.min_leaf == study.model.min_leaf
    assert alone.synthesized == ["job"] and alone.m == 2
    assert (alone.identification.known, alone.identification.synthesized) == (
        ["age", "edu"],
        ["job"],
    )
    assert other.identification == study.identification


def test_another_kind_of_model_takes_nothing_over():
    mixture = {"kind": "DPMPM", "draws": 20, "tune": 20, "chains": 2}
    attribute = {"evidence": "exact", "guesses": "hamming-2"}
    given = {"b": {"model": mixture, "attribute": {"evidence": "predictive"}, "release": {"m": 4}}}
    found = candidate_study(parse_study(content(given, attribute=attribute)), "b")
    assert found.model.kind == "DPMPM" and found.model.draws == 20 and found.m == 4
    assert found.attribute.evidence == "predictive" and found.attribute.guesses == "hamming-2"


def test_grids_are_of_columns_that_are_guessed():
    given = {"b": {"model": {"order": ["job"]}}}
    attribute = {"guesses": {"job": "levels"}, "knows_columns": ["edu"]}
    found = candidate_study(parse_study(content(given, attribute=attribute)), "b")
    assert found.attribute.guesses == {"job": "levels"} and found.attribute.knows_columns == []


def test_files_made_elsewhere_are_matched_and_not_audited(tmp_path):
    files = {"files": ["z1.csv"], "columns": ["job"]}
    (tmp_path / "s.toml").write_text(as_toml(content({"made elsewhere": {"release": files}})))
    study = read_study(tmp_path / "s.toml")
    found = candidate_study(study, "made elsewhere")
    assert found.release.files == [tmp_path / "z1.csv"] and found.attribute is None
    assert found.identification.known == ["age", "edu"]


def test_paths_of_a_candidates_model_count_from_the_folder(tmp_path):
    model = {"kind": "PyMCModel", "build": "m.py:f", "columns": ["edu", "job"]}
    (tmp_path / "s.toml").write_text(as_toml(content({"own": {"model": model}})))
    found = candidate_study(read_study(tmp_path / "s.toml"), "own")
    assert found.model.build.place[0] == tmp_path / "m.py"


def test_settings_are_a_study_again():
    given = parse_study(content({**CANDIDATES, "replicates": 3, "risk": "gain", "bounds": True}))
    again = tomllib.loads(as_toml(given.settings()))
    assert set(again["compare"]) == {"replicates", "risk", "bounds", "kind", *CANDIDATES}
    assert parse_study(again).compare == given.compare


def test_candidates_may_be_named_as_keys():
    given = parse_study(content({"replicates": 2, "candidates": {"risk": {}, "b": {}}}))
    assert list(given.compare.candidates) == ["risk", "b"] and given.compare.risk is None
    found = given.settings()
    assert found["compare"]["candidates"] == {"risk": {"model": {}}, "b": {"model": {}}}
    assert parse_study(found).compare == given.compare


# --- keys that are wrong -----------------------------------------------------------------------


def test_what_the_data_contradict_is_told_before_anything_is_made(table):
    study = study_of(table, {"a": {"model": {"order": ["edu", "pay"]}}})
    with pytest.raises(br.InputError, match=r"\[compare.a\]: \[model\] order .*'pay'"):
        run_compare(study, progress=lambda *_: pytest.fail("began"))


# --- runs --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(table, tmp_path_factory):
    """A comparison and its folder."""
    folder = tmp_path_factory.mktemp("compared") / "out"
    study = study_of(table, {**CANDIDATES, "replicates": 3, "bounds": True})
    return run_compare(study.with_output(folder), command="c"), folder


@pytest.mark.check
def test_a_comparison_writes_its_folder(written):
    result, folder = written
    assert sorted(os.listdir(folder)) == sorted(
        ["comparison.csv", "replicates.csv", "front.csv", "comparison.nc", "manifest.json"]
        + ["risk-utility-map.png", "report.html", "verdicts.csv"]
    )
    text = (folder / "report.html").read_text()
    assert text.count("<figure") == 2 and "does not judge a release" in text
    assert "cannot be told" not in text and "made elsewhere" not in text
    assert (folder / "risk-utility-map.png").read_bytes()[:4] == b"\x89PNG"
    found = result.comparison
    rows = pd.read_csv(folder / "replicates.csv", index_col=["candidate", "replicate"])
    assert len(rows) == 9 and {"fit_seed", "attribute_seed"} <= set(rows)
    assert np.allclose(rows["gain"], found.replicates["gain"], rtol=1e-12)
    table = pd.read_csv(folder / "comparison.csv", index_col=["candidate", "measure"])
    assert table.loc[("as-it-is", "gain"), "replicates"] == 3
    assert pd.read_csv(folder / "front.csv")["on_front"].any()
    with xr.open_dataset(folder / "comparison.nc") as kept:
        assert kept["candidate"].to_numpy().tolist() == list(CANDIDATES)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["command"] == "c" and manifest["random_seed"] == 5
    assert manifest["settings"]["compare"]["other order"] == {"model": {"order": ["job", "edu"]}}


@pytest.mark.check
def test_its_numbers_are_those_of_separate_calls(written, table):
    found = written[0].comparison
    df = br.read_table(table)
    for name, order in (("as-it-is", ["edu", "job"]), ("other order", ["job", "edu"])):
        seeds = found.seed_table.loc[(name, 2)]
        fit = br.models.CART(order=order).fit(df, random_seed=int(seeds["fit"]))
        release = fit.synthesize(m=2, random_seed=int(seeds["release"]))
        risk = br.attribute_risk(
            fit, release, guesses=br.Neighbourhood(2), random_seed=int(seeds["attribute"])
        )
        row = found.replicates.loc[(name, 2)]
        assert row["mean_probability"] == risk.summary().at["mean_probability", "value"]
        match = br.identification_risk(df, release, **KEYS).summary()
        assert row["expected_match_risk"] == match.at["pooled", "expected_match_risk"]
        useful = br.utility(df, release, random_seed=int(seeds["utility"])).summary()
        assert row["pmse_cart"] == useful.at["pmse_cart", "value"]


@pytest.mark.check
@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
@pytest.mark.filterwarnings("ignore::bayes_risk.TruncationWarning")
def test_sampled_models_have_their_seeds_whatever_the_workers(table):
    mixture = {"kind": "DPMPM", "n_classes": 3, "draws": 20, "tune": 20, "chains": 2}
    study = study_of(
        table,
        {"replicates": 1, "mixture": {"model": mixture, "release": {"columns": ["edu", "job"]}}},
        attribute={"refit_budget": 0, "targets": 10},
    )
    one, two = (run_compare(study, n_jobs=n).comparison.replicates for n in (1, 2))
    pd.testing.assert_frame_equal(one, two, check_exact=True)


@pytest.mark.check
def test_releases_made_elsewhere_stand_beside_models(table, tmp_path):
    df = pd.read_csv(table)
    df.assign(job=df["job"].sample(frac=1, random_state=1).to_numpy()).to_csv(
        tmp_path / "z.csv", index=False
    )
    files = {"files": [str(tmp_path / "z.csv")], "columns": ["job"]}
    both = {"replicates": 2, "trees": {}, "swapped": {"release": files}}
    result = run_compare(study_of(table, both))
    found = result.comparison
    roles = [(file.role, file.name) for file in result.provenance.files]
    assert roles == [("data", os.path.basename(table)), ("release 1 of swapped", "z.csv")]
    assert found.replicates_of == (2, 1)
    assert np.isnan(found.replicates.loc[("swapped", 1), "mean_probability"])
    assert found.pareto("expected_match_risk").shape[0] == 2


def screen(result, notes=(), width=80):
    return shown(print_comparison, result, notes, width)


@pytest.mark.check
def test_the_screen_says_who_is_on_the_front(written):
    text = screen(written[0], ["something odd", "9 of 9 records are unreliable"])
    lines = text.splitlines()
    assert lines[1].split()[:2] == ["3", "replicates"] and max(map(len, lines)) <= 80
    assert len([line for line in lines if " \N{PLUS-MINUS SIGN} " in line]) == 1 + len(CANDIDATES)
    assert "better in both measures (probability of the true values" in text and "Report: " in text
    assert "Note: something odd" in text and "records are unreliable" not in text


@pytest.mark.parametrize(
    ("value", "mcse", "said"),
    [
        (0.11027, 0.00186, "0.110 ± 0.004"),
        (0.000512, 0.0000288, "0.00051 ± 0.00006"),
        (1234.56, 12.3, "1,235 ± 25"),
        (0.08333, 0.0, "0.083"),
        (4.0, float("nan"), "4.000"),
        (0.0, 0.0, "0"),
        (float("nan"), 0.0, "–"),
    ],
)
def test_numbers_are_shown_to_their_error(value, mcse, said):
    cell = with_error("risk", "risk_mcse", " {}")
    assert cell({"risk": value, "risk_mcse": mcse}) == said


@pytest.mark.check
def test_the_command_takes_the_folder_beside_the_audits(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = content(
        {"replicates": 1, "a": {}, "b": {"release": {"m": 1}}}, attribute={"targets": 5}
    )
    (tmp_path / "s.toml").write_text(as_toml(given | {"data": {"path": str(table)}}))
    done = CliRunner().invoke(app, ["compare", "s.toml", "--jobs", "1"])
    assert done.exit_code == 0 and "Report: s-compare" in done.output
    assert sorted(os.listdir(tmp_path)) == ["s-compare", "s.toml"]
    again = CliRunner().invoke(app, ["compare", "s.toml"])
    assert again.exit_code == 2 and "--overwrite" in again.output
    (tmp_path / "t.toml").write_text(as_toml({k: v for k, v in given.items() if k != "compare"}))
    none = CliRunner().invoke(app, ["compare", "t.toml"])
    assert none.exit_code == 2 and "the study has no [compare]; add it" in none.output
