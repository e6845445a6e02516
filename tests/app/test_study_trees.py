"""Studies of trees, forests and predictive mean matching: keys, errors, whole audits."""

import html
import inspect
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.app.output import render_study
from bayes_risk.app.run import run_study
from bayes_risk.app.study.sections import GRID, made_guesses
from bayes_risk.app.study.signatures import model_section
from bayes_risk.app.study.study import parse_study, read_study
from bayes_risk.reporting.terminal import print_result
from tests.helpers.study_files import check_settings, shown

ROOT = Path(__file__).resolve().parents[2]
CART = {"kind": "CART", "order": ["job", "pay"]}
FOREST = {"kind": "Forest", "order": ["job", "home"]}
PMM = {"kind": "PMM", "order": ["job", "home"], "identifying": ["job", "home"]}
LEVELS_AND_GRID: dict[str, Any] = {"job": "levels", "pay": {"bounds": [0, 29], "n": 30}}
N = 120


def content(model, **sections):
    return {"data": {"path": "a.csv"}, "model": model, "attribute": {}} | sections


# --- keys ------------------------------------------------------------------------------------


HIDDEN = PMM | {"selection": "hidden"}
SMOOTHED = CART | {"smoothing": "kde"}


@pytest.mark.parametrize(
    ("model", "evidence"),
    [
        *((model, None) for model in (CART, FOREST, PMM, HIDDEN, SMOOTHED, {})),
        *((model, "exact") for model in (CART, FOREST, PMM, SMOOTHED)),
        *((model, "refit") for model in (CART, FOREST, PMM, HIDDEN)),
        (SMOOTHED, "monte-carlo"),
    ],
)
def test_evidence_that_a_model_offers_or_that_is_left_to_the_library(model, evidence):
    study = parse_study(content(model, attribute={"evidence": evidence} if evidence else {}))
    assert study.attribute.options["evidence"] == evidence


EVERY_KEY = [
    CART | {"min_leaf": 2, "bootstrap": "none", "smoothing": "kde"},
    FOREST
    | {"n_trees": 3, "min_leaf": 2, "votes": "out-of-bag", "dirichlet": 0.5}
    | {"chain": "earlier-only"},
    PMM
    | {"threshold": 2, "cuts": {"home": [1.5, 2.5]}, "models": {"job": "ordered"}, "donors": 3}
    | {"later": "filled", "selection": "hidden"},
]


@pytest.mark.parametrize("model", EVERY_KEY)
def test_every_key_reaches_the_model(model):
    found = parse_study(content(model)).model.declared()
    assert type(found) is getattr(br.models, model["kind"])
    for key, value in model.items():
        if key != "kind":
            assert getattr(found, key) == (tuple(value) if isinstance(value, list) else value), key
    arguments = set(inspect.signature(type(found)).parameters)
    of_fit = {"missing_numbers", "weights"} if model["kind"] == "CART" else set()
    assert set(model_section(model["kind"]).model_fields) == arguments | {"kind"} | of_fit
    if model["kind"] == "CART":  # trees that were kept reach `CART.from_rpart`
        kept = {"kind", "order", "models", "missing_numbers", "floor"}
        assert set(model_section("CART", "from_rpart").model_fields) == kept
    assert arguments - {"constraints", "floor"} == set(model) - {"kind"}


def test_a_floor_reaches_the_model():
    plain = CART | {"bootstrap": "none", "floor": 0.001}
    assert parse_study(content(plain)).model.declared().floor == 0.001


KEPT: dict[str, Any] = CART | {"models": "sub/models.json.gz", "missing_numbers": {"pay": -9}}


@pytest.mark.parametrize(
    "model", [*EVERY_KEY, KEPT, PMM | {"constraints": ["a b.py:f", "sub/r.py:g"]}]
)
def test_printed_settings_are_the_same_study(model):
    check_settings(content(model))


# --- constraints -----------------------------------------------------------------------------


def test_constraints_count_from_the_folder_of_the_file_which_is_run_once(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "rules.py").write_text(
        "with open(__file__ + '.log', 'a') as log:\n    log.write('x')\n"
        "def one(table):\n    return table['a'] > 0\ndef two(table):\n    return table['a'] > 1\n"
    )
    (tmp_path / "s.toml").write_text(
        '[data]\npath = "a.csv"\n[model]\nkind = "PMM"\norder = ["a"]\nidentifying = ["a"]\n'
        'constraints = ["sub/rules.py:one", "sub/rules.py:two"]\n[attribute]\n'
    )
    model = read_study(tmp_path / "s.toml").model
    file = tmp_path / "sub" / "rules.py"
    assert [f.place for f in model.constraints] == [(file, "one"), (file, "two")]
    one, two = model.declared().constraints
    table = pd.DataFrame({"a": [1, 2]})
    assert one(table).tolist() == [True, True] and two(table).tolist() == [False, True]
    assert (tmp_path / "sub" / "rules.py.log").read_text() == "x"


@pytest.mark.parametrize(
    ("file", "function", "message"),
    [
        ("nowhere.py", "f", r"\[model\] constraints: there is no file '.*nowhere.py'; check the p"),
        ("rules.py", "g", r"\[model\] constraints: '.*rules.py' defines no function 'g'"),
        ("bad.py", "f", r"\[model\] constraints: line 1 of 'bad.py' fails with ZeroDivisionError"),
    ],
)
def test_constraints_that_are_not_there(tmp_path, file, function, message):
    (tmp_path / "rules.py").write_text("def f(table):\n    return table['a'] > 0\n")
    (tmp_path / "bad.py").write_text("1 / 0\n")
    model = parse_study(content(PMM | {"constraints": f"{tmp_path / file}:{function}"})).model
    with pytest.raises(br.InputError, match=message):
        model.declared()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("\npm.Model()\n", "line 2 of 'bad.py' fails with NameError of 'pm'"),
        ("import nowhere.at_all\n", "line 1 of 'bad.py' fails with ModuleNotFoundError"),
        ("from os import nothing\n", "line 1 of 'bad.py' fails with ImportError of 'os'"),
        ("def f(table)\n", "line 1 of 'bad.py' fails with SyntaxError"),
        ("raise NameError('Zwiebel')\n", "line 1 of 'bad.py' fails with NameError"),
        ("raise ImportError('Zwiebel', name='Zwiebel')\n", "line 1 .* fails with ImportError"),
        ("raise SyntaxError('Zwiebel')\n", "line 1 of 'bad.py' fails with SyntaxError"),
        ("exec('Zwiebel Schneider')\n", "line 1 of 'bad.py' fails with SyntaxError"),
        ("\nint('Zwiebel')\n", "line 2 of 'bad.py' fails with ValueError"),
    ],
)
def test_an_error_of_a_file_is_its_kind_and_line_and_names_of_the_code(tmp_path, code, said):
    (tmp_path / "bad.py").write_text(code)
    model = parse_study(content(PMM | {"constraints": f"{tmp_path / 'bad.py'}:f"})).model
    with pytest.raises(br.InputError, match=rf"^\[model\] constraints: {said}$"):
        model.declared()


def test_a_constraint_that_fails_says_where_and_no_value(tmp_path):
    (tmp_path / "rules.py").write_text("def f(table):\n    return {}[table['job'].iloc[0]]\n")
    model = parse_study(content(PMM | {"constraints": f"{tmp_path / 'rules.py'}:f"})).model
    (f,) = model.declared().constraints
    message = r"^\[model\] constraints: line 2 of 'rules.py' fails with KeyError; .* \['job'\]$"
    with pytest.raises(br.InputError, match=message):
        f(pd.DataFrame({"job": ["Zwiebelschneider"]}))


# --- whole runs ------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    """Two categories, a third that predicts them, and a number; some cells have few records."""
    rng = np.random.default_rng(1)
    area = rng.integers(0, 3, N)
    job = np.array(["clerk", "pilot", "smith"])[(area + (rng.random(N) < 0.2)) % 3]
    home = np.where(rng.random(N) < 0.1, "tent", np.where(area == 1, "flat", "house"))
    df = pd.DataFrame({"area": area, "job": job, "home": home})
    df["pay"] = 10 * area + rng.integers(0, 10, N)
    df.index = pd.Index([f"p{i:03d}" for i in range(N)], name="id")
    df.to_csv(tmp_path / "a.csv")
    return df


def study_of(tmp_path, model, **sections):
    usual = {
        "random_seed": 3,
        "data": {"path": str(tmp_path / "a.csv"), "index": "id"},
        "model": model,
        "release": {"m": 2},
        "attribute": {"guesses": "hamming-2"},
        "identification": {"known": ["area"], "synthesized": ["job"]},
    }
    return parse_study(usual | sections)


def of_trees(tmp_path, **sections):
    return study_of(tmp_path, CART, **{"attribute": {"guesses": LEVELS_AND_GRID}} | sections)


RULES = "def settled(table):\n    return ~((table['job'] == 'pilot') & (table['home'] == 'tent'))\n"


def of_matching(tmp_path, table):
    """A study whose kept records break no rule."""
    table[~((table["job"] == "pilot") & (table["home"] == "tent"))].to_csv(tmp_path / "a.csv")
    (tmp_path / "rules.py").write_text(RULES)
    return study_of(tmp_path, PMM | {"constraints": f"{tmp_path / 'rules.py'}:settled"})


def screen(result, width=80, notes=()):
    return shown(print_result, result, notes, width)


def test_a_run_with_trees(tmp_path, table):
    study = of_trees(tmp_path)
    result = run_study(study.with_output(tmp_path / "out"))
    fit = br.models.CART(["job", "pay"]).fit(table, random_seed=_seeds(3)[0])
    release = fit.synthesize(m=2, random_seed=_seeds(3)[1])
    guesses = made_guesses(LEVELS_AND_GRID_SECTIONS, 20_000)
    risk = br.attribute_risk(fit, release, guesses=guesses, evidence="exact")
    assert result.attribute.records["probability"].equals(risk.records["probability"])
    assert result.attribute.assumptions["evidence"].startswith("exact")
    assert result.diagnostics == {}
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    used = study.model.model_dump(exclude={"models"})
    assert manifest["settings"]["model"] == used
    assert manifest["model_sha256"] == {} and "scikit-learn" in manifest["versions"]


def test_a_study_says_how_parameters_are_drawn(tmp_path, table):
    made = run_study(of_trees(tmp_path, release={"m": 2, "parameters": "shared"}))
    assert made.release.parameters == "shared" and len(made.attribute.log_evidence) == 1
    said = made.attribute.assumptions["releases"]
    assert said == "m = 2, all from one draw of the parameters"
    made.release.datasets[0].to_csv(tmp_path / "z.csv")
    files = {"files": [str(tmp_path / "z.csv")], "columns": ["job", "pay"]}
    for way, words in (
        ({}, "m = 1, each from its own draw of the parameters (assumed: not stated)"),
        (
            {"parameters": "plug-in"},
            "m = 1, all from one estimate of the parameters, computed from the confidential table",
        ),
    ):
        taken = run_study(of_trees(tmp_path, release=files | way))
        assert taken.attribute.assumptions["releases"] == words


LEVELS_AND_GRID_SECTIONS = {
    name: grid if grid == "levels" else GRID(**grid) for name, grid in LEVELS_AND_GRID.items()
}


def _seeds(seed):
    return [int(s.generate_state(1)[0]) for s in np.random.SeedSequence(seed).spawn(3)]


@pytest.mark.check
def test_what_is_known_for_certain_is_named(tmp_path, table):
    result = run_study(of_trees(tmp_path).with_output(tmp_path / "out"))
    known = result.attribute.certain()
    labels = known.index[known.any(axis=1)].tolist()
    assert len(labels) > 1
    named = screen(result)
    first = named.index("possible: record")  # before the reasons that are cut off
    assert labels[0] in named[first:] and first < named.index("Under these assumptions")
    records = pd.read_csv(tmp_path / "out" / "records.csv", index_col="id")["attribute_certain"]
    assert records[records.notna()].index.tolist() == labels
    names = {label: ", ".join(known.columns[row]) for label, row in known.iterrows() if row.any()}
    assert records.dropna().to_dict() == names
    page = (tmp_path / "out" / "report.html").read_text()
    worst = result.attribute.worst(1).index[0]
    assert names[worst] and f"known for certain: {names[worst]}" in page
    assert "<dt>Known for certain</dt>" in page


@pytest.mark.check
def test_nothing_is_said_of_sampling_where_nothing_was_sampled(tmp_path, table):
    result = run_study(of_trees(tmp_path))
    page = re.sub(
        r"<style>.*?</style>|<svg.*?</svg>|<pre>.*?</pre>", "", render_study(result), flags=re.S
    )
    page = page[page.index("<body>") :]
    for word in ("R-hat", "hains", "Effective sample", "k-hat", "draws per"):
        assert word not in page
    before_matching = page[: page.index('<h2 id="identification">')]  # which differs by release
    assert "\N{PLUS-MINUS SIGN}" not in before_matching
    assert "computed in closed form: it has no Monte Carlo error" in page
    said = screen(result)
    assert "R-hat" not in said and "\N{PLUS-MINUS SIGN} 0" not in said
    assert f"Reliability: 0 of {N} records unreliable; the evidence has no Monte Carlo" in said
    assert len(said.splitlines()) <= 34  # of the predictive prior four; names of records wrap


@pytest.mark.check
def test_evidence_from_trees_grown_anew(tmp_path, table):
    few = {"guesses": LEVELS_AND_GRID, "targets": 2, "evidence": "refit"}
    result = run_study(of_trees(tmp_path, attribute=few))
    assert len(result.attribute.index) == 2
    assert "from models refitted for each guess: it has no Monte" in render_study(result)


@pytest.mark.check
def test_a_run_with_forests(tmp_path, table):
    model = FOREST | {"n_trees": 20, "dirichlet": 0.5}
    keys = {"known": ["area"], "synthesized": ["home"]}
    release = {"m": 1, "columns": ["home"]}
    study = study_of(tmp_path, model, release=release, identification=keys)
    result = run_study(study.with_output(tmp_path / "out"), n_jobs=2)
    assert result.release.synthesized == ("home",) and result.attribute.n_guesses == 3
    assert not result.attribute.certain().any(axis=None)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "smoothed by Dirichlet(0.5)" in page and "nown for certain" not in page
    assert parse_study(tomllib.loads(_settings(page))) == study
    again = run_study(study, n_jobs=1)
    assert again.attribute.records.equals(result.attribute.records)


def _settings(page):
    return html.unescape(re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)[-1])


@pytest.mark.check
def test_a_run_with_matching(tmp_path, table):
    study = of_matching(tmp_path, table)
    result = run_study(study.with_output(tmp_path / "out"))
    replaced, n = len(result.attribute.index), len(result.release.records)
    assert 0 < replaced < n and result.diagnostics["vulnerable"] == replaced
    for data in result.release.datasets:
        assert not ((data["job"] == "pilot") & (data["home"] == "tent")).any()
    others = f"{replaced} of {n}; the others are released unchanged"
    page = (tmp_path / "out" / "report.html").read_text()
    assert others in page and f"Records replaced: {others}" in screen(result)
    assert f"Records not replaced</th><td>{n - replaced}</td>" in page
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["model_sha256"].keys() == {"rules.py"}
    assert parse_study(tomllib.loads(_settings(page))) == study


@pytest.mark.check
def test_what_the_fits_of_matching_said_is_told(tmp_path, table):
    result = run_study(of_matching(tmp_path, table))
    notes = ["job: maximum likelihood diverged", "home: a warning"]
    result = replace(result, diagnostics=result.diagnostics | {"notes": notes})
    assert "<td>job: maximum likelihood diverged; home: a warning</td>" in render_study(result)
    said = screen(result, notes=["a warning of the audit"])
    assert "Note: a warning of the audit" in said and "Note: in the fit of job: maximum" in said
    assert len(said.splitlines()) <= 35  # of the predictive prior four, of what to do next two


def test_whole_numbers_may_be_codes_of_categories(tmp_path, table):
    study = of_trees(tmp_path, attribute={"guesses": {"job": "levels"}}, identification=None)
    with pytest.raises(br.InputError, match=r"if its \d+ whole numbers are codes .* its levels"):
        run_study(study)


def test_neighbours_of_numbers_are_values_that_the_data_hold(tmp_path, table):
    near = {"guesses": "neighbourhood", "targets": 9}
    result = run_study(study_of(tmp_path, CART, attribute=near, identification=None))
    others = table["job"].nunique() + table["pay"].nunique() - 2
    assert result.attribute.n_guesses == 1 + others


def test_declared_levels_make_a_category_of_a_number(tmp_path, table):
    data = {"path": str(tmp_path / "a.csv"), "index": "id", "levels": {"area": [0, 1, 2, 3]}}
    model = FOREST | {"order": ["area"], "n_trees": 5, "dirichlet": 1.0}
    keys = {"known": ["job"], "synthesized": ["area"]}
    result = run_study(study_of(tmp_path, model, data=data, identification=keys))
    assert result.attribute.n_guesses == 4


def test_files_made_elsewhere(tmp_path, table):
    moved = table.assign(job=np.roll(table["job"].to_numpy(), 1))
    moved.to_csv(tmp_path / "z.csv")
    files = {"files": [str(tmp_path / "z.csv")], "columns": ["job"]}
    model = CART | {"order": ["job"], "min_leaf": N}  # one leaf, which holds every job
    assert run_study(study_of(tmp_path, model, release=files)).attribute is not None
    alone = study_of(tmp_path, PMM | {"order": ["job"]}, release=files, attribute=None)
    assert run_study(alone).identification.n == N
