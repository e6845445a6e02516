"""Errors in the language of where the user is: files as they are called, keys of the study.

A survey with German names, wrong in the ways in which surveys are; each message is whole, and where
its cure is mechanical, the cured study is accepted.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk._core.formats import toml_value
from bayes_risk.app.cli import app
from bayes_risk.app.run.audit import tried_of
from bayes_risk.app.study.declare import read_grouped, read_record_columns
from bayes_risk.app.study.study import read_study
from tests.helpers.python_words import python_words

RNG, N = np.random.default_rng(3), 60
SURVEY = pd.DataFrame(
    {
        "pid": [f"P{i:03d}" for i in range(N)],
        "Haushalt": np.arange(N) // 2,
        "Region": RNG.choice(["Nord", "Süd", "Ost"], N),
        "Alter": RNG.integers(20, 90, N),
        "Bildung": RNG.choice(["niedrig", "mittel", "hoch"], N),
        "Netto Einkommen": np.round(RNG.gamma(2, 900, N), 2),
    }
)
MADE = ["Alter", "Bildung", "Netto Einkommen"]
OTHERS = [RNG.permutation(N) for _ in range(2)]
A, B = (SURVEY.assign(**SURVEY[MADE].iloc[rows].reset_index(drop=True)) for rows in OTHERS)
WRITTEN = {"separator": ";", "decimal": ","}
STUDY: dict[str, dict[str, Any]] = {
    "data": {"path": "umfrage.csv", "index": "pid", "household": "Haushalt", **WRITTEN},
    "model": {"kind": "CART", "order": MADE, "bootstrap": "none", "floor": 0.001},
    "release": {"files": ["synth_a.csv", "synth_b.csv"], "columns": MADE},
    "attribute": {"targets": 5},
    "identification": {"known": ["Region"], "synthesized": ["Alter"]},
}
HAS = f"it has {[c for c in SURVEY if c not in ('pid', 'Haushalt')]}"
ORDER = RNG.permutation(N)
Change = dict[str, dict[str, Any]]


def cell(name: str, row: int, value: Any) -> pd.DataFrame:
    """The second file with another value in a row."""
    return B.assign(**{name: B[name].astype(object).mask(B.index == row, value)})


def written(folder: Path, table: Any, changes: Change) -> Path:
    """A study of the survey and of two files, the second of them in the place of `B`."""
    for name, one in (("umfrage.csv", SURVEY), ("synth_a.csv", A), ("synth_b.csv", table)):
        if isinstance(one, bytes):
            (folder / name).write_bytes(one)
        else:
            one.to_csv(folder / name, sep=";", decimal=",", index=False)
    lines = list[str]()
    for of in STUDY | changes:
        keys = STUDY.get(of, {}) | changes.get(of, {})
        lines += [f"[{of}]", *(f"{key} = {toml_value(value)}" for key, value in keys.items())]
    path = folder / "studie.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


Released: dict[str, tuple[Any, str]] = {
    "rows shuffled, no labels": (
        B.drop(columns="pid").iloc[ORDER],
        "[attribute] column 'Region' of 'synth_b.csv' differs from the original; if it was "
        "synthesised, name it in [release] columns; else put the rows in the original's order, or "
        "give them its labels ([data] index)",
    ),
    "fewer rows": (
        B.iloc[:50],
        "[release] 'synth_b.csv' has 50 rows and 'synth_a.csv' has 60; give data sets of one "
        "length, and audit the others apart",
    ),
    "no rows": (B.iloc[:0], "[release] 'synth_b.csv' has no records; give files with at least one"),
    "empty": (b"", "[release] 'synth_b.csv' is empty; its first line must name the columns"),
    "a level": (
        cell("Bildung", 7, "Abitur"),
        "[attribute] column 'Bildung' of 'synth_b.csv' holds a value in row 8 which is not among "
        "its levels (so in 1 rows); correct it, or declare it: list every possible level in [data] "
        "levels",
    ),
    "a column less": (
        B.drop(columns="Bildung"),
        "line 14: [release] columns names column 'Bildung', which 'synth_b.csv' does not have; it "
        "has ['Haushalt', 'Region', 'Alter', 'Netto Einkommen']",
    ),
    "a column's name": (
        B.rename(columns={"Netto Einkommen": "Netto_Einkommen"}),
        "line 14: [release] columns names column 'Netto Einkommen', which 'synth_b.csv' does not "
        "have; it has ['Haushalt', 'Region', 'Alter', 'Bildung', 'Netto_Einkommen']; did you mean "
        "'Netto_Einkommen'?",
    ),
    "a text among numbers": (
        cell("Alter", 11, "k.A."),
        "[attribute] column 'Alter' of 'synth_b.csv' holds text in row 12 and must hold numbers; "
        "make it numbers, of a CSV with [data] decimal and [data] na",
    ),
    "a missing level": (
        cell("Bildung", 3, None),
        "[attribute] column 'Bildung' of 'synth_b.csv' has 1 missing values; fill or drop them: "
        "the original has none",
    ),
    "labels twice": (
        B.assign(pid=["P001", *B["pid"][1:]]),
        "[release] column 'pid' of 'synth_b.csv' labels the records, but that of row 2 is missing "
        "or not unique; give each record a label of its own",
    ),
    "other households": (
        B.assign(Haushalt=B["Haushalt"].to_numpy()[ORDER]),
        "[identification] 'synth_b.csv' divides its rows into other households ('Haushalt') than "
        "the original; give the original's persons, in its order or with its [data] index, or drop "
        "that column",
    ),
    "another encoding": (
        bytes(range(256)),
        "[release] 'synth_b.csv' is not UTF-8 text (invalid start byte); save it as UTF-8, or give "
        'what it is: [data] encoding = "cp1250"',
    ),
}
Studied: dict[str, tuple[Change, str]] = {
    "the confidential file": (
        {"release": {"files": ["umfrage.csv"]}},
        "[release] 'umfrage.csv' is the confidential file; name the synthetic files",
    ),
    "no such file": (
        {"release": {"files": ["synth_c.csv"]}},
        "[release] there is no file 'synth_c.csv'; check the path",
    ),
    "a misspelt column": (
        {"identification": {"known": ["Regoin"]}},
        "line 18: [identification] known names column 'Regoin', which 'umfrage.csv' does not "
        f"have; {HAS}; did you mean 'Region'?",
    ),
    "a key in two lists": (
        {"identification": {"known": ["Region", "Alter"]}},
        "line 19: [identification] synthesized names ['Alter'], which [identification] known names "
        "too; a column is either synthesised or not: remove it from one of them",
    ),
    "units as a share": (
        {"identification": {"radius": {"Alter": 2}}},
        "[identification] radius.Alter = 2.0 would be 200 % of each value, as a number is a share "
        "(0.1 is 10 %); for units of the column give { absolute = 2.0 }",
    ),
    "a key of another section": (
        {"attribute": {"m": 3}},
        "studie.toml: line 17: [attribute] has no key 'm'; put it under [release]",
    ),
    "a misspelt key": (
        {"attribute": {"target": 3}},
        "studie.toml: line 17: [attribute] has no key 'target'; did you mean 'targets'?",
    ),
    "a threshold out of range": (
        {"thresholds": {"attribute_gain": 20}},
        "studie.toml: line 21: [thresholds] attribute_gain = 20.0 is not a threshold; give a "
        "number from 0 to 1",
    ),
    "a person": (
        {"data": {"person": "Person"}},
        f"line 7: [data] person names column 'Person', which 'umfrage.csv' does not have; it has "
        f"{[c for c in SURVEY if c != 'pid']}",
    ),
    "a method": (
        {"attribute": {"evidence": "exakt"}},
        "line 17: [attribute] evidence = \"exakt\" is not known; give one of ['exact', "
        "'importance', 'imputed', 'independent-releases', 'monte-carlo', 'parts', 'predictive', "
        "'refit', 'simulated']",
    ),
    "a prior of what is not guessed": (
        {"attribute": {"prior": {"density": {"Bildung": {"normal": [10.0, 1.0]}}}}},
        "line 17: [attribute] prior names 'Bildung'; name one of the guessed numbers ['Alter', "
        "'Netto Einkommen']",
    ),
    "a model without a tree": (
        {"model": {"order": ["Alter", "Bildung"]}},
        "line 14: [release] columns names 'Netto Einkommen', for which there is no tree; the model "
        'has [model] order = ["Alter", "Bildung"]; add it there',
    ),
}
CASES = [(of, B, changes, message) for of, (changes, message) in Studied.items()]
CASES += [(of, table, {}, message) for of, (table, message) in Released.items()]


@pytest.mark.parametrize(
    ("table", "changes", "message"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_study_speaks_of_its_keys_and_files(tmp_path, monkeypatch, table, changes, message):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, table, changes)
    there = {*tmp_path.iterdir()}
    monkeypatch.setenv("COLUMNS", "2000")
    found = CliRunner().invoke(app, ["audit", "studie.toml", "--jobs", "1", "--quiet"])
    said = " ".join(found.stderr.split())
    assert (found.exit_code, said) == (2, f"bayes-risk: {message}")
    assert python_words(said) == [] and {*tmp_path.iterdir()} == there


Cured: dict[str, tuple[Any, Change]] = {
    "rows shuffled, with labels": (B.iloc[ORDER], {}),
    "all levels": (
        Released["a level"][0],
        {"data": {"levels": {"Bildung": ["niedrig", "mittel", "hoch", "Abitur"]}}},
    ),
    "a number for the text": (cell("Alter", 11, 44), {}),
    "units": (B, {"identification": {"radius": {"Alter": {"absolute": 2.0}}}}),
    "no households in one file": (Released["other households"][0].drop(columns="Haushalt"), {}),
}


@pytest.mark.parametrize(("table", "changes"), Cured.values(), ids=[*Cured])
def test_cures_work(tmp_path, table, changes):
    study = read_study(written(tmp_path, table, changes))
    df, _, grouped = read_grouped(study.data)
    study, df = read_record_columns(study, df, grouped)
    assert len(tried_of(study, "audit", df)) == 1


READ = ["--separator", ";", "--decimal", ","]
IDENTIFY = {
    "a column": (["--known", "Regoin"], "--known names column 'Regoin', which 'umfrage.csv' does"),
    "no key": ([], "--known and --synthesized are empty; name at least one key column"),
    "a radius": (
        ["--known", "Region", "--radius", "Region=2"],
        "key 'Region' of 'umfrage.csv' holds no real numbers, which a radius needs; leave it out "
        "of --radius, or make it numbers, of a CSV with --decimal and --na",
    ),
    "a kept column": (
        ["--known", "Region,Bildung", "--index", "pid"],
        "column 'Bildung' of 'synth_b.csv' differs from the original in",
    ),
    "a public column": (
        ["--known", "Region", "--public", "Regoin=frame"],
        "--public names column 'Regoin', which 'umfrage.csv' does not have",
    ),
}


@pytest.mark.parametrize(("options", "message"), IDENTIFY.values(), ids=[*IDENTIFY])
def test_a_command_speaks_of_its_options(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "2000")
    written(tmp_path, B, {})
    found = CliRunner().invoke(app, ["identify", "umfrage.csv", "synth_b.csv", *options, *READ])
    said = found.stderr.splitlines()[-1]
    assert found.exit_code == 2 and said.startswith(f"bayes-risk: {message}")
    assert python_words(said) == []


LABELLED, RELEASED = (one.set_index("pid").drop(columns="Haushalt") for one in (SURVEY, B))
KEYS: dict[str, Any] = {"known": ["Region"], "synthesized": ["Alter"]}
PYTHON: dict[str, tuple[Callable[[], Any], str]] = {
    "a kept column": (
        partial(br.identification_risk, LABELLED, RELEASED, known=["Bildung"], synthesized=[]),
        "column 'Bildung' of release 1 .*name it in synthesized; else .* its labels .index.$",
    ),
    "units": (
        partial(br.identification_risk, LABELLED, RELEASED, **KEYS, radius={"Alter": 2}),
        r"radius\['Alter'\]=2 .* for units of the column give Absolute\(2\)$",
    ),
    "a level": (
        lambda: br.Microdata.from_frame(LABELLED[["Region"]]).encode(
            LABELLED[["Region"]].replace("Nord", "West"), "release 1"
        ),
        r"list every possible level in levels \(or pandas.Categorical\)$",
    ),
    "a guess": (lambda: br.Grid(), r"give exactly one: Grid\(percent=10, n=11\), or Grid"),
}


@pytest.mark.parametrize(("call", "message"), PYTHON.values(), ids=[*PYTHON])
def test_python_speaks_of_its_arguments(call, message):
    with pytest.raises(br.InputError, match=message):
        call()


def test_words_of_python_are_found():
    assert python_words("give missing='x'") == ["missing="]
    assert python_words("a Release, or pandas") == ["Release", "pandas"]
    assert python_words('[data] missing = "level"; CART and DPMPM, and release 2') == []
