"""Studies and the command line take every kind of file, and what synthpop leaves behind."""

import json
import os
import sys
import tomllib

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk.app.cli import app
from bayes_risk.app.run.runner import identity, unchanged
from bayes_risk.app.study.declare import read_data, read_release, utility_options
from bayes_risk.app.study.study import parse_study, read_study

SEX = {1.0: "female", 2.0: "male", 3.0: "other"}
JOB = {1.0: "clerk", 2.0: "farmer", 3.0: "none", 9.0: "refused"}
N = 40


def people():
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "id": [f"p{i:02}" for i in range(N)],
            "sex": rng.integers(1, 3, N).astype(float),
            "job": rng.choice([1.0, 2.0, 3.0, 9.0], N),
            "age": rng.integers(20, 24, N).astype(float),
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """survey.sav, and a folder in which synthpop has left two releases with other jobs."""
    pyreadstat = pytest.importorskip("pyreadstat")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    pyreadstat.write_sav(
        people(),
        "survey.sav",
        variable_value_labels={"sex": SEX, "job": JOB, "age": {23.0: "23 or older"}},
        missing_ranges={"job": [9.0]},
    )
    (tmp_path / "export").mkdir()
    labelled = people().assign(sex=people()["sex"].map(SEX), job=people()["job"].map(JOB))
    for l in (1, 2):
        made = labelled.assign(job=np.roll(labelled["job"].to_numpy(), l))
        made.to_csv(tmp_path / "export" / f"syn_{l}.csv", index=False)
    (tmp_path / "export" / "synthesis_info_syn.txt").write_text(
        "Number of synthetic data sets: 2 \nOutput file(s):(csv) syn_1.csv (csv) syn_2.csv\n"
    )
    return tmp_path


STUDY = """
[data]
path = "survey.sav"
index = "id"
missing_codes = "level"

[data.levels]
age = "codes"

[release]
files = ["export"]
columns = ["job"]

[identification]
known = ["sex", "age"]
synthesized = ["job"]
"""


def expected():
    """The same numbers from tables in memory."""
    df = people().set_index("id").assign(sex=people()["sex"].map(SEX).to_numpy())
    df["job"] = people()["job"].map(JOB).to_numpy()
    tables = [df.assign(job=np.roll(df["job"].to_numpy(), l)) for l in (1, 2)]
    return br.identification_risk(df, tables, known=["sex", "age"], synthesized=["job"])


def test_a_study_reads_labelled_data_and_a_folder_of_synthpop(folder):
    (folder / "study.toml").write_text(STUDY)
    study = read_study(folder / "study.toml")
    df, _ = read_data(study.data)
    assert df["sex"].cat.categories.tolist() == list(SEX.values())
    assert df["job"].cat.categories.tolist() == list(JOB.values())
    assert df["age"].tolist() == people()["age"].tolist()
    release = read_release(study, df)
    assert release.m == 2
    assert release.datasets[0]["job"].dtype == df["job"].dtype
    assert release.datasets[0].index.tolist() == df.index.tolist()
    found = br.identification_risk(df, release.datasets, known=["sex", "age"], synthesized=["job"])
    pd.testing.assert_frame_equal(found.summary(), expected().summary())


def test_missing_codes_may_be_told_column_by_column(folder):
    text = STUDY.replace('missing_codes = "level"', 'missing_codes = { job = "blank" }')
    (folder / "study.toml").write_text(text)
    study = read_study(folder / "study.toml")
    df, _ = read_data(study.data)
    refused = people()["job"].to_numpy() == 9
    assert refused.any() and (df["job"].isna().to_numpy() == refused).all()


@pytest.mark.check
def test_the_audit_of_such_a_study_runs(folder):
    (folder / "study.toml").write_text(STUDY)
    result = CliRunner().invoke(app, ["audit", "study.toml", "--output", "out"])
    assert result.exit_code == 0, result.output
    summary = json.loads((folder / "out" / "summary.json").read_text())
    found = summary["identification_risk"]["measures"]["pooled"]["expected_match_risk"]
    assert found == pytest.approx(expected().summary().loc["pooled", "expected_match_risk"])
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    assert manifest["settings"]["data"]["levels"] == {"age": "codes"}


@pytest.mark.check
def test_identify_reads_them_too(folder):
    words = ["survey.sav", "export", "--known", "sex", "--synthesized", "job", "--index", "id"]
    options = ["--missing-codes", "level", "--codes", "age", "--json", "out.json"]
    result = CliRunner().invoke(app, ["identify", *words, *options])
    assert result.exit_code == 0, result.output
    assert (folder / "out.json").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--codes", "age"], "'job' .* codes? declared as missing, in"),
        (["--missing-codes", "level"], "'age' .* has labels for 1 of the 4 values"),
        (["--missing-codes", "level", "--codes", "age,agee"], "--numbers names column 'agee'"),
    ],
    ids=["missing codes", "some labels", "no column"],
)
def test_identify_says_what_a_file_leaves_open(folder, words, message):
    keys = ["--known", "sex", "--synthesized", "job", "--index", "id"]
    result = CliRunner().invoke(app, ["identify", "survey.sav", "export", *keys, *words])
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert pd.Series([" ".join(result.output.split())]).str.contains(message, regex=True).all()


@pytest.mark.check
def test_the_na_of_r_is_told_once_for_all_files(folder):
    table = people().assign(pay=[np.nan, *range(1, N)], job=people()["job"].map(JOB))
    for name in ("original.csv", "r1.csv"):
        table.to_csv(name, index=False, na_rep="NA")
    (folder / "study.toml").write_text(
        '[data]\npath = "original.csv"\nna = ["NA"]\nmissing = "level"\n'
        '[release]\nfiles = ["r1.csv"]\ncolumns = ["job"]\n'
        '[identification]\nknown = ["sex"]\nsynthesized = ["job"]\n'
    )
    study = read_study(folder / "study.toml")
    df, _ = read_data(study.data)
    assert df["pay"].isna().sum() == 1 and df["pay"].dtype == float
    assert read_release(study, df).datasets[0]["pay"].dtype == float
    words = ["original.csv", "r1.csv", "--known", "pay", "--synthesized", "job", "--na", "NA"]
    result = CliRunner().invoke(app, ["identify", *words])
    assert result.exit_code == 0, result.output


def test_columns_that_are_not_used_are_not_asked_about(folder):
    text = STUDY.replace('missing_codes = "level"', 'columns = ["sex"]').partition("[data.levels]")
    study = parse_study(
        tomllib.loads(
            text[0]
            + '[release]\ncolumns = ["sex"]\n[identification]\nknown = []\nsynthesized = ["sex"]'
        )
    )
    assert read_data(study.data)[0].columns.tolist() == ["sex"]


# --- code that a study names --------------------------------------------------------------------


def written(tmp_path, section):
    """A study of 40 people, with another section."""
    people().astype({"sex": int, "job": int}).to_csv(tmp_path / "d.csv", index=False)
    (tmp_path / "s.toml").write_text(
        'random_seed = 1\n[data]\npath = "d.csv"\ncolumns = ["sex", "job"]\n' + section
    )
    return read_study(tmp_path / "s.toml")


def test_a_python_file_imports_what_lies_beside_it_or_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "lib").mkdir()
    code = "import sys; sys.path[:0] = [{0!r}, {0!r} + '/lib']\nimport beside_it, elsewhere\n"
    code += "def fit(df): return beside_it.fit(df)\n"
    (tmp_path / "a.py").write_text(code.format(str(tmp_path)))
    (tmp_path / "lib" / "elsewhere.py").write_text("")
    frame = 'pd.DataFrame({"estimate": [len(df)], "std_error": [1.0]}, index=["n"])'
    helper = tmp_path / "beside_it.py"
    helper.write_text(f"import pandas as pd\ndef fit(df): return {frame}\n")
    section = '[model]\nkind = "Marginals"\n[release]\nm = 2\n[utility]\nanalyses = "a.py:fit"\n'
    study = written(tmp_path, section)
    begun = identity(study, "audit")
    assert str(helper) in begun["file"]
    assert utility_options(study)["analyses"]["fit"](people())["estimate"].tolist() == [N]
    unchanged(begun, study, "audit")
    helper.write_text("")
    with pytest.raises(br.InputError, match=r"beside_it\.py has changed"):
        unchanged(begun, study, "audit")


SIMULATOR = """[model]
kind = "Simulator"
command = ["{}", "make.py", "{{input}}", "{{output}}"]
columns = ["job"]
[attribute]
"""


def test_the_script_of_a_command_is_one_of_the_files_of_a_run(tmp_path):
    script = tmp_path / "make.py"
    script.write_text("import lib_of_make\n")
    study = written(tmp_path, SIMULATOR.format(sys.executable))
    found = {}
    for name in ("make.py", "lib_of_make.py"):
        before = found
        found = identity(study, "audit")["file"]
        assert found != before
        (tmp_path / name).write_text("import lib_of_make  # changed\n")
    assert identity(study, "audit")["file"][str(script)] != before[str(script)]


def test_a_program_is_not_taken_from_the_folder_of_the_study_or_the_current_one(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "generate").write_text("#!/bin/sh\n")
    os.chmod(tmp_path / "generate", 0o700)
    with pytest.raises(br.InputError, match="'generate', which is not a program here"):
        written(tmp_path, SIMULATOR.format("generate"))
    named = written(tmp_path, SIMULATOR.format("./generate"))
    assert named.model.declared().command[0] == str(tmp_path / "generate")
