"""``bayes-risk identify``: correspondence of rows, verdict, and the folder it writes."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bayes_risk import IdentificationRisk, InputError, identification_risk
from bayes_risk.app.cli import app
from bayes_risk.app.run import identify_files
from bayes_risk.app.study.study import parse_study
from bayes_risk.release.correspondence import correspondence
from bayes_risk.release.tables import Tables
from bayes_risk.reporting.verdicts.verdict import Thresholds, judge
from tests.helpers.edge_results import confidential

N = 60
RNG = np.random.default_rng(5)
DF = pd.DataFrame(
    {
        "sex": RNG.choice(["f", "m"], N),
        "age": RNG.integers(20, 60, N),
        "pay": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(50, 9, N)),
        "one": "x",
    }
)
SHUFFLED = DF.sample(frac=1, random_state=1).reset_index(drop=True)
MOVED = SHUFFLED.assign(age=20)
FRESH = DF.assign(sex="f", age=RNG.integers(60, 90, N), pay=RNG.normal(50, 9, N))


# --- correspondence ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "kept", "reordered"),
    [
        (DF, ("sex", "pay"), ()),
        (DF.assign(pay=DF["pay"] * (1 + 1e-15)), ("sex", "pay"), ()),
        (DF.assign(age=DF["age"] + 1), ("sex", "pay"), ()),
        (DF.assign(sex="f")[["sex", "pay"]], ("pay",), ()),
        (SHUFFLED, (), ("sex", "pay")),
        (FRESH, (), ()),
    ],
)
def test_kept_columns_show_whose_rows_they_are(file, kept, reordered):
    """A column of one value shows nothing, nor does a synthesised key."""
    found = correspondence(Tables.of(DF, [file], own=True), ["age"])
    assert (found.kept, found.reordered) == ((kept,), (reordered,))
    assert found.unmatched == (() if kept else (1,))
    assert found.summary().loc[1, "kept"] == len(kept)


def test_a_few_changed_values_leave_a_column_kept():
    noisy = DF.assign(sex=np.where(np.arange(N) % 5, DF["sex"], "f"), pay=0.0)
    assert correspondence(Tables.of(DF, [noisy], own=True), ["age"]).kept == (("sex",),)


def test_each_file_is_told_by_its_number():
    found = correspondence(Tables.of(DF, [DF, SHUFFLED, FRESH], own=True), ["age"])
    assert found.sentence() == (
        "No column of release 2 stands in the original's rows, and the same values of pay, sex "
        "stand in other rows: they are not the original's. No column of release 3 was kept, so "
        "that it cannot be checked whether its rows are the original's."
    )
    calm = correspondence(Tables.of(DF, [DF.assign(age=0)], own=True), ["age"])
    assert "as kept columns show, at least 2 in each" in calm.sentence()


def test_rows_in_another_order_and_rows_of_nobody_have_cures_of_their_own():
    rows = correspondence(Tables.of(DF, [DF, SHUFFLED, FRESH], own=True), ["age"])
    order, fresh = (r.cure for r in judge(None, None, rows=rows).reasons[2:])
    assert "or index, the column" in order and "corresponds = true" in fresh


def test_few_matches_of_other_rows_are_a_doubt_and_many_are_none():
    risk = identification_risk(DF, MOVED, known=[], synthesized=["age"])
    rows = correspondence(Tables.of(DF, [MOVED], own=True), ["age"])
    verdict = judge(None, risk, rows=rows)
    order = {r.measure for r in verdict.reasons if r.outcome == "inconclusive"}
    assert order == {"correspondence of rows"}
    assert verdict.outcome == "above your thresholds"  # everybody's pay stands in some row
    none = Thresholds(true_match_rate=0.0)
    exact = identification_risk(DF, DF, known=[], synthesized=["age", "pay"])
    assert judge(None, exact, none, rows=rows).outcome == "above your thresholds"
    calm = DF.assign(age=20)
    risk = identification_risk(DF, calm, known=[], synthesized=["age"])
    public = Thresholds(public={"pay": "a register"})
    rows = correspondence(Tables.of(DF, [calm], own=True), ["age"])
    assert judge(None, risk, public, rows=rows).outcome == "within your thresholds"
    assert judge(None, risk, rows=rows).outcome == "above your thresholds"  # pay as it is


# --- what is no release of these records -------------------------------------------------------


def test_rows_without_a_value_are_refused():
    filled = DF.copy()
    filled.loc[40:] = np.nan
    with pytest.raises(InputError, match="release 1 has 20 of 60 rows in which every column is"):
        identification_risk(DF, filled, known=[], synthesized=["age"])
    with pytest.raises(InputError, match=r"release 2 has no value of .* \['age'\].* in all 60 row"):
        identification_risk(DF, [DF, DF.assign(age=np.nan)], known=["sex"], synthesized=["age"])


def test_rows_without_a_value_are_records_where_the_original_has_such():
    """In other rows, of a file whose values are missing together as the original's are."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    other = table.sample(frac=1, random_state=2).reset_index(drop=True)
    table.loc[:19], other.loc[180:] = np.nan, np.nan
    found = identification_risk(table, [other], known=[], synthesized=["a", "b"])
    assert found.summary().loc["pooled", "expected_match_risk"] > 0


def test_rows_that_are_empty_in_the_original_too_are_records():
    original = DF.astype(object).drop(columns="one")
    original.loc[3] = None
    risk = identification_risk(original, original, known=[], synthesized=["age"])
    assert isinstance(risk, IdentificationRisk)


# --- the command -------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path, monkeypatch):
    """An original of 60 records, a release, its rows in another order, and a file of 20.

    Three records are unique in their age, and found there; of the others nobody is unique.
    """
    monkeypatch.chdir(tmp_path)
    df = confidential(60, ages=7).assign(pay=np.arange(60) * 7)
    df.loc[:2, "age"] = [90, 91, 92]
    released = df.assign(job=np.roll(df["job"].to_numpy(), 1))
    released.loc[:2, "job"] = df["job"]
    tables = {
        "original": df,
        "syn": released,
        "moved": released.iloc[::-1],
        "short": df.iloc[:20],
    }
    for name, table in tables.items():
        table.to_csv(f"{name}.csv", index=False)
    return tmp_path


def call(*words):
    done = CliRunner(env={"COLUMNS": "100"}).invoke(app, ["identify", "original.csv", *words])
    return done, " ".join(done.stdout.split())


def test_the_verdict_is_printed_and_its_threshold_is_an_option(files):
    keys = ["syn.csv", "--known", "age", "--synthesized", "job", "--public", "pay=a register"]
    rate = run_rate(files)
    for limit, headline in (
        (rate, "Within your thresholds; attribute risk was not"),
        (0.0, "Above your thresholds."),
    ):
        done, said = call(*keys, "--true-match-rate", str(limit))
        assert done.exit_code == 0 and said.startswith(headline), said
        assert "attribute risk was not measured" in said
    assert call(*keys, "--true-match-rate", "2")[0].exit_code == 2


def run_rate(folder):
    content = {
        "data": {"path": folder / "original.csv"},
        "release": {"files": [folder / "syn.csv"], "columns": ["job"]},
        "identification": {"known": ["age"], "synthesized": ["job"]},
    }
    found = identify_files(parse_study(content))
    rate = float(found.identification.summary()["true_match_rate"].max())
    assert rate > 0
    return rate


def test_rows_in_another_order_leave_it_open(files):
    done, said = call("moved.csv", "--synthesized", "age,job")
    assert done.exit_code == 0 and said.startswith("Above your thresholds.")  # pay in some row
    pd.read_csv("moved.csv").drop(columns="pay").to_csv("less.csv", index=False)
    done, said = call("less.csv", "--synthesized", "age,job", "--columns", "age,job")
    assert done.exit_code == 0 and said.startswith("Inconclusive."), said
    assert "To settle it: corresponds = true if row i" in said


@pytest.mark.parametrize("order", [1, -1])
def test_the_original_is_called_that_in_whatever_order(files, order):
    pd.read_csv("original.csv").iloc[::order].to_csv("again.csv", index=False)
    said = call("again.csv", "--synthesized", "age,job")[1]
    assert said.startswith("Above your thresholds.")
    assert "The file is the original itself: all of its 60 records are equal" in said


def test_a_file_of_another_size_is_refused_with_what_to_ask_instead(files):
    done = call("short.csv", "--known", "age", "--synthesized", "job")[0]
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert "--known is of records, and 'short.csv' has 20 records and the original 60, so" in said
    assert "name columns that were drawn afresh under --synthesized" in said


@pytest.mark.check
def test_the_folder_names_the_files_and_begins_with_the_records_at_highest_risk(files):
    keys = ["syn.csv", "--known", "age", "--synthesized", "job,pay", "--radius", "pay=2"]
    assert call(*keys, "--output", "out")[0].exit_code == 0
    out = files / "out"
    assert sorted(p.name for p in out.iterdir()) == [
        *("manifest.json", "records.csv", "report.html", "summary.json")
    ]
    records = pd.read_csv(out / "records.csv", index_col="record")
    assert records["identification_probability"].is_monotonic_decreasing
    assert sorted(records.index) == list(range(60))
    assert {"identical_files", "replicated_files"} <= set(records.columns)
    made = json.loads((out / "manifest.json").read_text())
    assert [f["role"] for f in made["files"]] == ["data", "release 1"]
    assert made["settings"]["identification"]["radius"] == {"pay": {"absolute": 2.0}}
    summary = json.loads((out / "summary.json").read_text())
    assert summary["correspondence"]["1"]["kept"] == 1
    measures = [reason["measure"] for reason in summary["study"]["reasons"]]
    assert measures[0] == "unchanged columns" and "true match rate" in measures[1:]
    page = (out / "report.html").read_text()
    assert summary["exposure"]["files"]["1"]["identical"] == 3
    assert made["files"][1]["sha256"] in page
    assert '<h2 id="row-correspondence">' in page and "pay (within 2)" in page
    assert call(*keys, "--output", "out")[0].exit_code == 2
    assert call(*keys, "--output", "out", "--overwrite")[0].exit_code == 0


def test_the_manifest_says_of_no_column_that_it_was_synthesised_where_none_is_named(files):
    assert call("syn.csv", "--known", "age,pay", "--output", "out")[0].exit_code == 0
    settings = json.loads((files / "out" / "manifest.json").read_text())["settings"]
    assert settings["release"]["columns"] is None
    assert settings["identification"]["known"] == ["age", "pay"]
    page = (files / "out" / "report.html").read_text()
    assert ">Synthesised</th>" not in page and "release 1" in page
