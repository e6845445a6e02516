"""Sweeps from study files: keys, what the library is told, folders, the screen."""

import json
import os
import tomllib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayes_risk as br
from bayes_risk._core.formats import signed
from bayes_risk.app.run import run_study, run_sweep
from bayes_risk.app.run.runner import identity
from bayes_risk.app.study.declare import sweep_options
from bayes_risk.app.study.study import parse_study
from bayes_risk.reporting.content import as_toml
from bayes_risk.reporting.terminal import print_sweep
from tests.helpers.study_files import shown

NORMAL = {
    "kind": "Regression",
    "formulas": {"a": "w", "b": "w + a"},
    "draws": 20,
    "tune": 20,
    "chains": 2,
}
GRID = {"additive": 2.0, "n": 5}
CATEGORIES = {"kind": "DPMPM", "n_classes": 2, "draws": 20, "tune": 20, "chains": 2}
COUNTS = {"kind": "PoissonMixture"}
TREES = {"kind": "CART", "order": ["a", "b"]}
DOUBT = "ignore::bayes_risk.UnreliableWeightsWarning"
BINDS = "ignore::bayes_risk.TruncationWarning"


def content(sweep, model=CATEGORIES, **sections):
    return {
        "data": {"path": "a.csv"},
        "model": model,
        "attribute": {},
        "release": {"m": 3},
        "sweep": sweep,
    } | sections


def options(*given, **sections):
    study = parse_study(content(*given, **sections))
    made = br.Release(
        datasets=[pd.DataFrame({"a": [1]})] * study.m,
        synthesized=["a"],
        classes=study.release.classes or "new",
        parameters=study.release.parameters,
    )
    table = SimpleNamespace(numbers=())
    fit = SimpleNamespace(parameters=("independent", "shared"), microdata=table)
    return sweep_options(study, made.datasets[0], fit, made)


# --- what is taken -----------------------------------------------------------------------------


def test_files_of_a_sweep_lie_beside_the_study_and_identify_it(tmp_path):
    """Rules were left out, and their file was sought in the current folder."""
    (tmp_path / "rules.csv").write_text("a,b\nx,y\n")
    df = pd.DataFrame({"a": list("xzz"), "b": list("zyz")})
    df.to_csv(tmp_path / "d.csv", index=False)
    given = content({"model": {"impossible": ["rules.csv"]}}) | {"data": {"path": "d.csv"}}
    study = parse_study(given, folder=tmp_path)
    fit = SimpleNamespace(parameters=("independent",), microdata=SimpleNamespace(numbers=()))
    release = br.Release(datasets=[df], synthesized=["a"], parameters="independent")
    (rules,) = sweep_options(study, df, fit, release)["over"]["hyper"]["impossible"].values()
    assert repr(rules) == "Impossible(1 rule)"
    assert str(tmp_path / "rules.csv") in identity(study, "sweep")["file"]


def test_priors_are_labelled_and_the_studys_own_is_the_base():
    sweep = {"priors": ["marginal", {"truth_factor": 10}]}
    found = options(sweep, attribute={"prior": "predictive"})
    assert list(found["over"]["prior"]) == ["predictive", "marginal", "truth_factor = 10"]
    assert found["over"]["prior"]["truth_factor = 10"] == br.TruthFactor(10.0)
    assert found["base"] == {"prior": "predictive"} and "prior" not in found
    named = options({"priors": {"flat": "uniform", "led astray": {"truth_factor": 0.1}}})
    assert named["base"] == {"prior": "flat"} and len(named["over"]["prior"]) == 2
    other = options({"priors": {"margins": "marginal"}})
    assert list(other["over"]["prior"]) == ["as in the study", "margins"]
    assert other["base"] == {"prior": "as in the study"}


def test_labels_of_every_prior_are_short():
    priors = [
        {"interval": [1, 3], "column": "a"},
        {"density": {"a": {"normal": [0, 1]}}},
        {"mixture": [[0.9, "predictive"], [0.1, {"truth_factor": 2}]]},
    ]
    how = {"guesses": {"a": GRID, "b": GRID}, "evidence": "predictive"}
    found = options({"priors": priors}, NORMAL, attribute=how)
    assert list(found["over"]["prior"]) == [
        "uniform",
        'interval = [1, 3], column = "a"',
        "density = { a = { normal = [0, 1] } }",
        'mixture = [[0.9, "predictive"], [0.1, { truth_factor = 2 }]]',
    ]
    assert isinstance(found["over"]["prior"]["density = { a = { normal = [0, 1] } }"], br.Density)


@pytest.mark.parametrize(
    ("given", "attribute", "over", "base"),
    [
        ([0.5, "none"], {}, [0.5, "none", "all-but-target"], 1.0),
        ([0.5, 0.9], {"intruder": {"knows_records": 0.5}}, [0.5, 0.9], 0.5),
        (
            [["A", "B"], "none"],
            {},
            {"all-but-target": "all-but-target", "A + B": ["A", "B"], "none": "none"},
            "all-but-target",
        ),
        (
            {"half": 0.5, "worst": "all-but-target"},
            {},
            {"half": 0.5, "worst": "all-but-target"},
            "worst",
        ),
    ],
    ids=["curve", "own", "labels", "named"],
)
def test_knowledge_of_records(given, attribute, over, base):
    found = options({"knows_records": given}, attribute=attribute)
    assert found["over"]["knows_records"] == over
    assert found["base"] == {"knows_records": base}


def test_other_factors():
    sweep = {
        "knows_columns": [["a"], ["a", "b"]],
        "guesses": ["neighbourhood", "hamming-2"],
        "classes": ["new", "own"],
        "evidence": ["predictive", "importance"],
        "m": [1, 2],
        "combinations": True,
    }
    attribute = {"guesses": "hamming-3", "knows_columns": ["b"], "targets": 7}
    found = options(sweep, attribute=attribute)
    assert found["over"] == {
        "knows_columns": {"b": ["b"], "a": ["a"], "a + b": ["a", "b"]},
        "guesses": {
            "hamming-3": br.Neighbourhood(3),
            "neighbourhood": br.Neighbourhood(1),
            "hamming-2": br.Neighbourhood(2),
        },
        "classes": {"new": "new", "own": "own"},
        "evidence": {"predictive": "predictive", "importance": "importance"},
        "m": [1, 2, 3],
    }
    assert found["base"] == {
        **{"knows_columns": "b", "guesses": "hamming-3", "classes": "new"},
        **{"evidence": "predictive", "m": 3},
    }
    assert found["targets"] == 7 and found["one_at_a_time"] is False
    assert not {"guesses", "evidence"} & set(found)


def test_grids_are_guesses_too():
    found = options({"guesses": [GRID, {"a": {"bounds": [0, 9]}, "b": GRID}]}, NORMAL)
    assert list(found["over"]["guesses"]) == [
        "neighbourhood",
        "additive = 2, n = 5",
        "a = { bounds = [0, 9] }, b = { additive = 2, n = 5 }",
    ]


@pytest.mark.parametrize(
    ("model", "key", "given", "told"),
    [
        (CATEGORIES, "level_prior", [0.5, 2], [0.5, 2.0]),
        (CATEGORIES, "n_classes", [5], [5]),
        (CATEGORIES, "power", [0.9, 1.1], [0.9, 1.1]),
        (
            CATEGORIES,
            "concentration_prior",
            {"more": [2, 0.5]},
            {"more": (2.0, 0.5)},
        ),
        (
            NORMAL,
            "prior",
            [{"slopes": 1.0}, "reference"],
            {
                "slopes = 1": br.models.RegressionPrior(slopes=1.0),
                "reference": br.models.RegressionPrior.reference(),
            },
        ),
        (TREES, "min_leaf", [3, 9], [3, 9]),
        (
            {"kind": "Forest", "order": ["a"]},
            "votes",
            ["out-of-bag"],
            {"out-of-bag": "out-of-bag"},
        ),
        (COUNTS, "rate_prior", [[1, 0.1]], {"[1, 0.1]": (1.0, 0.1)}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hyper_parameters_are_what_the_declaration_takes(model, key, given, told):
    found = options({"model": {key: given}}, model)
    assert found["over"] == {"hyper": {key: told}}


@pytest.mark.parametrize(
    "sweep",
    [
        {"priors": ["uniform", {"mixture": [[0.5, "release"], [0.5, {"truth_factor": 3.0}]]}]},
        {"knows_records": {"half": 0.5}, "m": [1, 3]},
        {"guesses": ["hamming-2"], "model": {"concentration_prior": [[1, 2]], "power": [0.9]}},
    ],
    ids=["priors", "records", "model"],
)
def test_settings_are_a_study_again(sweep):
    given = parse_study(content(sweep))
    again = tomllib.loads(as_toml(given.settings()))
    assert parse_study(again).settings() == given.settings()
    assert parse_study(again).sweep == given.sweep


# --- runs --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(1)
    w = rng.normal(size=40).round(1)
    df = pd.DataFrame({"id": [f"P{k}" for k in range(40)], "w": w})
    df["a"] = (w + rng.normal(size=40)).round(2)
    df["b"] = (w - df["a"] + rng.normal(size=40)).round(2)
    path = tmp_path_factory.mktemp("data") / "table.csv"
    df.to_csv(path, index=False)
    return path


def study_of(table, sweep, **sections):
    given = content(sweep, NORMAL, attribute={"guesses": GRID}) | sections
    return parse_study(given | {"data": {"path": str(table), "index": "id"}, "random_seed": 5})


FACTORS = {
    "priors": ["uniform", {"truth_factor": 10}],
    "knows_columns": [[], ["a"]],
    "m": [1, 3],
    "model": {"prior": ["reference"]},
}


@pytest.fixture(scope="module")
def written(table, tmp_path_factory):
    """A sweep and its folder."""
    folder = tmp_path_factory.mktemp("swept") / "out"
    return run_sweep(study_of(table, FACTORS).with_output(folder), command="c"), folder


@pytest.mark.check
def test_the_base_of_a_sweep_is_the_audit(table, written):
    audit, found = run_study(study_of(table, FACTORS)), written[0]
    base = found.sensitivity.dataset.sel(dict(found.sensitivity.base))
    summary = audit.attribute.summary()["value"]
    assert float(base["mean_probability"]) == summary["mean_probability"]
    assert float(base["max_probability"]) == summary["max_probability"]
    assert found.random_seed == audit.random_seed and found.data_sha256 == audit.data_sha256
    assert found.sensitivity.base["hyper prior"] == "as fitted"
    assert float(found.sensitivity.dataset["hyper_refitted"].max()) == 1.0
    # (1 base + 1 columns + 1 m + 1 prior of the model) with two priors each
    assert len(found.sensitivity.summary()) == 2 * 4


def test_every_combination_if_asked_for(table):
    sweep = {"priors": ["uniform", {"truth_factor": 2}], "m": [1, 2], "knows_columns": [["a"]]}
    found = run_sweep(study_of(table, sweep | {"combinations": True})).sensitivity
    assert len(found.summary()) == 2 * 3 * 2


@pytest.mark.check
def test_a_sweep_writes_its_folder(written):
    result, folder = written
    names = ["tornado", "tornado-gain"]
    names += [f"along-{name}" for name in ("prior", "knows_columns", "m", "hyper-prior")]
    assert sorted(os.listdir(folder)) == sorted(
        ["report.html", "sensitivity.nc", "summary.csv", "tornado.csv", "summary.json"]
        + ["manifest.json"]
        + [f"{name}.png" for name in names]
    )
    assert all((folder / f"{n}.png").read_bytes()[:4] == b"\x89PNG" for n in names)
    with xr.open_dataset(folder / "sensitivity.nc") as kept:
        ours = result.sensitivity.dataset
        assert np.array_equal(kept["gain"], ours["gain"], equal_nan=True)
        assert kept["prior"].to_numpy().tolist() == ["uniform", "truth_factor = 10"]
    text = (folder / "report.html").read_text()
    assert text.count("<figure") == 1 + 4 and "does not judge a release" in text
    assert "cannot be told" not in text and "[sweep]\n" in text
    rows = pd.read_csv(folder / "summary.csv")
    assert len(rows) == len(result.sensitivity.summary())
    found = json.loads((folder / "summary.json").read_text())
    assert found["base"]["m"] == 3 and set(found["tornado"]) == set(result.sensitivity.factors)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["command"] == "c" and manifest["settings"]["sweep"]["m"] == [1, 3]
    assert {"data", "fit", "release", "sweep"} == set(manifest["seconds"])


def test_what_is_no_part_of_a_sweep_is_left_aside(table):
    keys = {"known": ["w"], "synthesized": ["a"], "radius": {"a": 0.1}}
    study = study_of(table, {"m": [1]}, identification=keys, membership={"others": "no.csv"})
    stages = []
    run_sweep(study, progress=lambda stage, done, total: stages.append((stage, done, total)))
    assert ("settings", 2, 2) in stages


@pytest.mark.filterwarnings(DOUBT, BINDS)
@pytest.mark.parametrize("power", [1.4, 5.0])
def test_powers_that_make_a_prior_improper_are_told_before_the_fit(tmp_path, power):
    (tmp_path / "a.csv").write_text("a,b\n" + "x,p\ny,q\n" * 10)
    given = content({"model": {"power": [power]}})
    study = parse_study(given | {"data": {"path": str(tmp_path / "a.csv")}})
    with pytest.raises(br.InputError, match=f"power = {power} makes the gamma prior"):
        run_sweep(study, progress=lambda *_: pytest.fail("fitted"))


@pytest.mark.check
@pytest.mark.filterwarnings(DOUBT, BINDS)
def test_a_sweep_of_latent_classes_knows_records_and_guesses(tmp_path):
    rng = np.random.default_rng(2)
    df = pd.DataFrame({c: rng.choice(list("xyz"), 25) for c in ("a", "b", "c")})
    df.to_csv(tmp_path / "a.csv", index=False)
    sweep = {"knows_records": ["none", 0.5], "guesses": ["hamming-2"], "priors": ["predictive"]}
    given = content(sweep, attribute={"refit_budget": 0}, release={"m": 1})
    found = run_sweep(
        parse_study(given | {"data": {"path": str(tmp_path / "a.csv")}, "random_seed": 1})
    ).sensitivity
    assert found.dataset["knows_records"].to_numpy().tolist() == [0.0, 0.5, 1.0]
    assert found.base == {"prior": "uniform", "knows_records": 1.0, "guesses": "neighbourhood"}
    assert found.summary()["mean_probability"].between(0, 1).all()


@pytest.mark.check
@pytest.mark.filterwarnings("ignore::bayes_risk.DisplacedRiskWarning")
def test_a_sweep_of_a_reweighted_study_is_around_its_last_round(table):
    sections = {"attribute": {"guesses": GRID, "privacy_loss": True}, "release": {"m": 2}}
    sections |= {"reweight": {"until": 0.05, "rounds": 1}}
    study = study_of(table, {"m": [1], "model": {"prior": ["reference"]}}, **sections)
    audit, found = run_study(study), run_sweep(study).sensitivity
    assert len(audit.reweighting.rounds) == 2 and audit.privacy_loss.loss.min() > 0
    base = found.dataset.sel(dict(found.base))
    expected = br.attribute_risk(
        audit.reweighting.fit, audit.release, guesses=br.Grid(**GRID), random_seed=0
    )
    assert float(base["mean_probability"]) == expected.summary()["value"]["mean_probability"]
    assert float(found.dataset["hyper_refitted"].max()) == 1.0


@pytest.mark.check
@pytest.mark.filterwarnings(BINDS)
def test_priors_of_a_business_competitor(tmp_path):
    rng = np.random.default_rng(3)
    counts = rng.poisson([20, 60], (12, 2))
    df = pd.DataFrame(counts, columns=["skilled", "unskilled"])
    df.loc[4] = [90, 70]
    df.to_csv(tmp_path / "a.csv", index=False)
    intruder = {"knows_records": "second-largest", "largest": "skilled"}
    guesses = {"skilled": {"bounds": [30, 200], "n": 171}}
    given = content(
        {"priors": [{"interval": [80, 100]}, {"mixture": [[1, "uniform"], [1, "release"]]}]},
        COUNTS | {"synthesizer": "MM", "draws": 20, "tune": 20, "chains": 2, "n_classes": 2},
        attribute={"intruder": intruder, "guesses": guesses},
        release={"m": 1},
    )
    given |= {"data": {"path": str(tmp_path / "a.csv")}, "random_seed": 1}
    found = run_sweep(parse_study(given)).sensitivity
    table = found.summary()
    assert found.base == {"prior": "uniform"} and len(table) == 3
    assert table["baseline"].iloc[1] > table["baseline"].iloc[0]


def screen(result, width=100, notes=()):
    return shown(print_sweep, result, notes, width).splitlines()


NAMES = {"columns known": "knows_columns", "data sets (m)": "m", "model: prior": "hyper prior"}


@pytest.mark.check
@pytest.mark.parametrize("width", [80, 100])
def test_the_screen_has_the_base_every_factor_and_the_worst(written, width):
    result = written[0]
    lines = screen(result, width, ["12 records are unreliable"])
    text = " ".join(" ".join(lines).split())
    base = result.sensitivity.dataset.sel(dict(result.sensitivity.base))
    assert f"gives the truth {float(base['mean_probability']):.3f} on average" in text
    for factor in ("prior", "columns known", "data sets (m)", "model: prior"):
        (line,) = [line for line in lines if line.startswith(f"{factor} ")]
        most = float(result.sensitivity.along(NAMES.get(factor, factor))["gain"].max())
        assert line.rstrip().endswith(signed(most))
    assert f"Largest mean: {result.sensitivity.worst()['mean_probability']:.3f}" in text
    assert "Note: 12 records" in text and "report.html" in text
    wide = [line for line in lines if len(line) > width and not line.startswith("Report: ")]
    assert len(lines) <= 24 and wide == []
