"""Studies of numbers: their keys; runs with regressions, exact ones and brought draws."""

import html
import json
import re
import tomllib

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayes_risk as br
from bayes_risk.app.run import run_study
from bayes_risk.app.study.keys import FunctionName
from bayes_risk.app.study.signatures import functions_in
from bayes_risk.app.study.study import parse_study, read_study
from bayes_risk.reporting.content import as_toml
from tests.helpers.study_files import check_settings

FORMULAS = {"income": "1 + age", "tax": "1 + income"}
REGRESSION = {"kind": "Regression", "formulas": FORMULAS}
BROUGHT = REGRESSION | {"draws": {"income": "i.csv", "tax": "t.csv"}}
PYMC = {"kind": "PyMCModel", "build": "m.py:build", "columns": ["income"]}
GRIDS = {"income": {"percent": 10}, "tax": {"additive": 2.0}}


def content(**sections):
    """A study of two numbers, some sections replaced."""
    usual = {"data": {"path": "a.csv"}, "model": REGRESSION, "attribute": {"guesses": GRIDS}}
    return usual | sections


def with_model(**keys):
    return content(model=REGRESSION | keys)


def with_guesses(guesses):
    return content(attribute={"guesses": guesses})


def with_density(density):
    return content(attribute={"guesses": GRIDS, "prior": {"density": density}})


def with_keys(**keys):
    return content(identification={"known": ["age"], "synthesized": ["tax"]} | keys)


# --- keys that are wrong ---------------------------------------------------------------------


def test_exact_evidence_asks_for_the_synthesised_columns_alone():
    model = REGRESSION | {"families": {"tax": "student"}}
    section = {"guesses": {"income": GRIDS["income"]}, "evidence": "exact"}
    parse_study(content(model=model, release={"columns": ["income"]}, attribute=section))


def test_paths_of_models_count_from_the_folder_of_the_file(tmp_path):
    (tmp_path / "d.toml").write_text(
        '[data]\npath = "a.csv"\n[model]\nkind = "Regression"\nformulas = { x = "1" }\n'
        '[model.draws]\nx = "x.csv"\n[attribute]\nevidence = "importance"\n'
    )
    (tmp_path / "p.toml").write_text(
        '[data]\npath = "a.csv"\n[model]\nkind = "PyMCModel"\nbuild = "sub/m.py:f"\n'
        'columns = ["x"]\n[attribute]\n'
    )
    assert read_study(tmp_path / "d.toml").model.draws == {"x": tmp_path / "x.csv"}
    assert read_study(tmp_path / "p.toml").model.build.place == (tmp_path / "sub" / "m.py", "f")


# --- settings come back ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        content(),
        with_model(
            families={"tax": {"binomial": "trials of it"}, "income": "student"},
            prior={"slopes": float("inf")},
            priors={"tax": "reference"},
        ),
        content(model=BROUGHT, attribute={"evidence": "importance", "guesses": GRIDS}),
        content(model=PYMC, attribute={"guesses": {"percent": 5, "n": 3}}),
        with_guesses({"income": {"bounds": [0, 9], "truth": "add"}, "tax": {"values": [1, 2]}}),
        with_density({"tax": {"lognormal": [0, 1]}, "income": {"uniform": [0, 1]}}),
        with_keys(radius={"tax": 0.1}),
        content(
            release={"files": ["z.csv"], "columns": ["tax"]}, attribute={"guesses": "hamming-2"}
        ),
    ],
)
def test_printed_settings_are_the_same_study(given):
    check_settings(given)


def test_declared_levels_are_not_printed_but_counted():

    given = content(data={"path": "a.csv", "levels": {"job": ["Zwiebelschneider", "clerk"]}})
    text = as_toml(parse_study(given).settings())
    assert "Zwiebel" not in text and "# declared levels, not shown: { job = 2 }" in text
    assert parse_study(tomllib.loads(text)).data.levels == {}


# --- objects of the library ------------------------------------------------------------------


def test_sections_become_what_the_library_takes():
    given = content(
        model=REGRESSION | {"families": {"tax": {"binomial": 9}}, "priors": {"tax": "reference"}},
        attribute={
            "guesses": GRIDS,
            "guess_budget": 500,
            "prior": {"density": {"tax": {"lognormal": [1, 0.5]}}},
        },
    )
    study = parse_study(given)
    model = study.model.declared()
    assert list(model.formulas.items()) == list(FORMULAS.items())
    assert model.families["tax"] == br.models.Binomial(trials=9)
    assert model.priors["tax"] == br.models.RegressionPrior.reference()
    options = study.attribute.options
    assert options["guesses"].budget == 500
    expected = {"income": br.Grid(percent=10), "tax": br.Grid(additive=2.0)}
    assert options["guesses"].grids == expected
    assert options["prior"].densities["tax"].median() == pytest.approx(np.e)


@pytest.mark.parametrize(
    ("name", "given", "points"),
    [
        ("normal", [3, 2], {3.0: 0.5}),
        ("lognormal", [1, 2], {np.e: 0.5}),
        ("uniform", [2, 6], {2.0: 0.0, 3.0: 0.25, 6.0: 1.0}),
    ],
)
def test_densities_are_scipys(name, given, points):
    study = parse_study(with_density({"tax": {name: given}}))
    frozen = study.attribute.options["prior"].densities["tax"]
    assert {x: frozen.cdf(x) for x in points} == pytest.approx(points)


def test_a_model_of_ones_own_is_the_function_of_a_file(tmp_path):
    def build_in(file, name):
        return functions_in([FunctionName(f"{tmp_path / file}:{name}")], key="build")[0]

    (tmp_path / "m.py").write_text("CALLS = 3\ndef build(table):\n    return CALLS\n")
    assert build_in("m.py", "build")(None) == 3
    (tmp_path / "bad.py").write_text("1 / 0\n")
    with pytest.raises(br.InputError, match="build: line 1 of 'bad.py' fails with ZeroDiv"):
        build_in("bad.py", "build")
    for name in ("built", "CALLS"):
        with pytest.raises(br.InputError, match=f"build: .*m.py' defines no function '{name}'"):
            build_in("m.py", name)
    with pytest.raises(br.InputError, match=r"there is no file .*nowhere.py'; check the path"):
        build_in("nowhere.py", "build")


# --- whole runs ------------------------------------------------------------------------------

N = 60
INCOMES = 31_000.0 + 977.77 * np.arange(N)[::-1]  # told apart by their digits


@pytest.fixture
def table(tmp_path):
    """Two numbers and an age, in a file."""
    rng = np.random.default_rng(1)
    df = pd.DataFrame({"age": np.arange(N) % 7, "income": INCOMES})
    df["tax"] = 0.2 * df["income"] + rng.normal(0, 500, N).round(2)
    df.to_csv(tmp_path / "a.csv", index_label="id")
    return df


def study_of(tmp_path, **sections):
    usual = {
        "random_seed": 4,
        "data": {"path": str(tmp_path / "a.csv"), "index": "id"},
        "model": REGRESSION | {"draws": 50},
        "release": {"m": 2},
        "attribute": {
            "guesses": {"income": {"percent": 10, "n": 5}, "tax": {"bounds": [0, 30000], "n": 9}},
            "evidence": "exact",
        },
        "identification": {"known": ["age"], "synthesized": ["tax"], "radius": {"tax": 0.1}},
    }
    usual["attribute"]["guesses"]["tax"]["truth"] = "nearest"
    return parse_study(usual | sections)


@pytest.mark.check
def test_a_run_with_exact_regressions(tmp_path, table):
    result = run_study(study_of(tmp_path).with_output(tmp_path / "out"))
    risk = result.attribute
    assert risk is not None and risk.n_guesses == 45 and not risk.mcse.any()
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert found["attribute_risk"]["closeness"].keys() == {"income", "tax"}
    expected = risk.closeness_summary().loc["tax", "mean_expected_absolute_error_prior"]
    told = found["attribute_risk"]["closeness"]["tax"]["mean_expected_absolute_error_prior"]
    assert told == pytest.approx(expected)
    assert found["identification_risk"]["radius"] == {"tax": 0.1}
    assert "tax (within 10 %)" in found["study"]["assumptions"]


@pytest.mark.check
def test_the_report_of_numbers(tmp_path, table):
    study = study_of(tmp_path)
    run_study(study.with_output(tmp_path / "out"))
    text = (tmp_path / "out" / "report.html").read_text()
    assert "How close the intruder comes to numbers" in text
    assert text.count('id="figure-closeness-') == 2
    assert "computed in closed form" in text
    assert "Largest R-hat of the parameters" in text and "atent class" not in text
    settings = html.unescape(re.findall(r"<pre>(.*?)</pre>", text, re.DOTALL)[-1])
    assert parse_study(tomllib.loads(settings)) == study


@pytest.mark.check
def test_no_file_tells_a_number(tmp_path, table):
    run_study(study_of(tmp_path).with_output(tmp_path / "out"))
    records = pd.read_csv(tmp_path / "out" / "records.csv", index_col="id")
    assert {"attribute_income_distance_ratio", "attribute_tax_mode_is_truth_prior"} <= set(records)
    # nothing that could be known of everybody in advance varies with the confidential number
    prior = [c for c in records if c.startswith("attribute_income") and c.endswith("_prior")]
    assert prior and (records[prior].nunique() == 1).all()
    own = records[[c for c in records if "income" in c]]
    with np.errstate(invalid="ignore"):  # of constants there is none
        assert own.corrwith(table["income"]).abs().max() < 0.999
    with xr.open_dataset(tmp_path / "out" / "risk.nc", group="attribute_risk") as arrays:
        assert "guess" not in arrays.dims and "case" not in arrays.dims
        assert not {"truth", "case_of_record"} & set(arrays)
        assert "would show the true values" in arrays.attrs["note"]
    written = [f.read_text() for f in (tmp_path / "out").iterdir() if f.suffix != ".nc"]
    values = [f"{v:.2f}" for v in [*table["income"], *table["tax"]]]
    assert [v for v in values if any(v in text for text in written)] == []


@pytest.mark.check
def test_arrays_stay_where_guesses_are_around_the_truth_or_if_asked_for(tmp_path, table):
    around = {"income": {"percent": 10, "n": 5}, "tax": {"percent": 10, "n": 5}}
    attribute = {"guesses": around, "evidence": "exact"}
    run_study(study_of(tmp_path, attribute=attribute).with_output(tmp_path / "around"))
    run_study(study_of(tmp_path, output={"confidential": True}).with_output(tmp_path / "all"))
    with xr.open_dataset(tmp_path / "around" / "risk.nc", group="attribute_risk") as arrays:
        cases = int(arrays["case_of_record"].max()) + 1
        assert arrays["posterior"].shape == (25, cases) and "guess_code" not in arrays
    with xr.open_dataset(tmp_path / "all" / "risk.nc", group="attribute_risk") as arrays:
        assert arrays["guess_code"].isel(case=arrays["case_of_record"]).shape == (45, N, 2)


@pytest.mark.check
@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_a_run_with_draws_from_files(tmp_path, table):
    fit = br.models.Regression(FORMULAS).fit(table, draws=40, chains=2, random_seed=1)
    for name in FORMULAS:
        prefix = f"{name}: "
        draws = {
            str(k).removeprefix(prefix): v.to_numpy().ravel()
            for k, v in fit.idata.posterior.data_vars.items()
            if str(k).startswith(prefix)
        }
        pd.DataFrame(draws).to_csv(tmp_path / f"{name}.csv", index=False)
    files = {name: str(tmp_path / f"{name}.csv") for name in FORMULAS}
    study = study_of(
        tmp_path,
        model=REGRESSION | {"draws": files},
        attribute={"guesses": GRIDS, "evidence": "importance"},
    )
    result = run_study(study.with_output(tmp_path / "out"))
    assert result.attribute is not None and result.diagnostics["draws"] == 80
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["model_sha256"].keys() == {"income.csv", "tax.csv"}
    assert parse_study(manifest["settings"] | {"output": {}}) == study


def test_declared_levels_make_a_category_of_a_number(tmp_path, table):
    study = study_of(
        tmp_path,
        data={"path": str(tmp_path / "a.csv"), "index": "id", "levels": {"age": list(range(8))}},
        model={"kind": "Regression", "formulas": {"income": "1 + age"}, "draws": 20},
        attribute={"guesses": {"income": {"percent": 5, "n": 3}}, "evidence": "exact"},
        identification={"known": ["age"], "synthesized": []},
    )
    release = run_study(study).release
    assert release.datasets[0]["age"].dtype == "category" and release.synthesized == ("income",)


BUILD = """
def build(table):
    import pymc as pm

    with pm.Model() as model:
        mean, sd = pm.Normal("mean", 45_000, 30_000), pm.HalfNormal("sd", 30_000)
        pm.Normal("income_", mean, sd, observed=pm.Data("income", table["income"]))
    return model
"""


@pytest.mark.check
@pytest.mark.filterwarnings(
    "ignore::bayes_risk.UnreliableWeightsWarning", "ignore:overflow:RuntimeWarning"
)
def test_a_run_with_a_model_of_ones_own(tmp_path, table):
    (tmp_path / "m.py").write_text(BUILD)
    study = study_of(
        tmp_path,
        model=PYMC | {"build": str(tmp_path / "m.py:build"), "draws": 50, "tune": 100, "chains": 2},
        attribute={"guesses": {"percent": 10, "n": 3}, "targets": 5, "refit_budget": 0},
        identification={"known": ["age"], "synthesized": ["income"], "radius": {"income": 0.1}},
    )
    result = run_study(study.with_output(tmp_path / "out"), n_jobs=1)
    assert result.attribute is not None and result.attribute.n_guesses == 3
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["model_sha256"].keys() == {"m.py"}
    assert "Largest R-hat of the parameters" in (tmp_path / "out" / "report.html").read_text()
