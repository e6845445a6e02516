"""The script for R runs: files, study, command, results, and its errors. Where there is an R."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest

pytestmark = pytest.mark.check

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "audit_from_r.R"
COMMAND = [sys.executable, "-P", "-m", "bayes_risk"]
# a table of 12 records with a factor, a logical column, a number and missing values
PEOPLE = """
people <- data.frame(
  sex = factor(rep(c("f", "m"), each = 60), levels = c("m", "f", "x \\"quoted\\"\\\\")),
  old = rep(c(TRUE, FALSE, NA), 40),
  age = rep(c(20.5, 30, 40, 50), 30),
  job = factor(rep(c("a", "b", NA), each = 2, length.out = 120),
               levels = c("b", "\u00e9t\u00e9", "a"))
)
drawn <- people
drawn$job <- people$job[c(120, 1:119)]
study <- list(
  data = list(missing = "level"), model = list(kind = "Marginals"),
  attribute = list(guesses = list(job = "levels")),
  identification = list(known = list("sex", "old"), synthesized = list("job"))
)
"""


def rscript(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("Rscript")
    if program is None:
        pytest.skip("there is no Rscript on the path")
    return subprocess.run(
        [program, *words],
        cwd=folder,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def in_r(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The script's functions, the people above, then this code."""
    words = ", ".join(f'"{word}"' for word in COMMAND)
    file = folder / "calls.R"
    start = f'source("{SCRIPT}")\ncommand <- c({words})\n{PEOPLE}'
    file.write_text(start + code, encoding="utf-8")
    return rscript(str(file), folder=folder)


def test_the_script_audits_a_table_of_r(tmp_path):
    done = rscript(str(SCRIPT), "run", *COMMAND, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Attribute risk (592 records)" in done.stdout
    results = tmp_path / "run" / "results"
    assert len(pd.read_csv(results / "records.csv")) == 592
    verdict = json.loads((results / "summary.json").read_text())["study"]["verdict"]
    assert f'"{verdict}"' in done.stdout


def test_factors_missing_values_and_synthpop_objects_arrive(tmp_path):
    done = in_r(
        """
made <- structure(list(m = 2, syn = list(drawn, drawn), proper = TRUE,
                       method = c(sex = "", old = "", age = "", job = "sample")), class = "synds")
found <- audit_from_r(people, made, study, command = command)
stopifnot(nrow(found$records) == 120, is.logical(found$records$attribute_reliable),
          is.numeric(found$records$attribute_probability),
          identical(found$summary$study$title, "Disclosure risk of a synthetic file"),
          is.numeric(found$summary$study$random_seed), "records.csv" %in% names(found$tables))
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "audit-from-r"
    study = tomllib.loads((folder / "study.toml").read_text(encoding="utf-8"))
    assert study["data"]["levels"]["sex"] == ["m", "f", 'x "quoted"\\']
    assert study["data"]["levels"]["job"] == ["b", "été", "a"]
    assert study["release"]["columns"] == ["job"]
    assert study["release"]["parameters"] == "independent"
    rows = (folder / "original.csv").read_text().splitlines()
    assert rows[0] == '"sex","old","age","job"'
    assert rows[3] == '"f",NA,40,"b"' and rows[5] == '"f","FALSE",20.5,NA'
    manifest = json.loads((folder / "results" / "manifest.json").read_text())
    assert len(manifest["files"]) == 3
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(p.stat().st_mode) for p in folder.glob("*.*")} == {0o600}


def test_a_folder_that_is_there_is_refused_and_left(tmp_path):
    """It may be open to others, or hold links that they planted."""
    (tmp_path / "audit-from-r").mkdir()
    (tmp_path / "audit-from-r" / "original.csv").symlink_to(tmp_path / "stolen.csv")
    done = in_r('audit_from_r(people, drawn, study, "job", command = command)', tmp_path)
    assert done.returncode == 1 and "exists or cannot be made: give folder=" in done.stderr
    assert not (tmp_path / "stolen.csv").exists()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("audit_from_r(people, drawn, study, command = command)", ["columns is missing"]),
        (
            'audit_from_r(people, drawn["job"], study, "job", command = command)',
            ["a synthetic table lacks column sex, old, age"],
        ),
        (
            'study$model$kind <- "CARD"\n'
            'audit_from_r(people, drawn, study, "job", command = command)',
            ["exit code 2", "model", "CARD"],
        ),
        (
            'audit_from_r(people, drawn, study, "job", command = "no-such-command")',
            ["no-such-command was not found"],
        ),
    ],
    ids=["columns", "table", "study", "command"],
)
def test_errors_are_said_in_r(tmp_path, call, words):
    done = in_r(call, tmp_path)
    assert done.returncode == 1
    assert [word for word in words if word not in done.stderr] == []
    assert not (tmp_path / "audit-from-r").exists()  # so that the same call can be made again
