"""Which files a run read and wrote, in the manifest and in the report."""

import hashlib
import json
import re

import numpy as np
import pandas as pd
import pytest

from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import parse_study
from bayes_risk.release.provenance import DataFile, Provenance, data_file, describe
from bayes_risk.release.synthpop import files_of_releases
from bayes_risk.reporting.provenance import data_in_words, in_full, origin
from bayes_risk.reporting.report import report
from tests.helpers.edge_results import confidential, identification

KEYS = {"known": ["age"], "synthesized": ["job"]}


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The data, and two releases."""
    folder, df = tmp_path_factory.mktemp("files"), confidential()
    df.to_csv(folder / "people.csv", index=False)
    for l in (1, 2):
        df.assign(job=np.roll(df["job"].to_numpy(), l)).to_csv(folder / f"syn{l}.csv", index=False)
    return folder


def audited(files, *, path="people.csv", **output):
    release = {"files": [str(files / f"syn{l}.csv") for l in (1, 2)], "columns": ["job"]}
    content = {
        "data": {"path": str(files / path)},
        "release": release,
        "identification": KEYS,
        "output": {"folder": str(output.pop("folder")), **output},
    }
    return run_study(parse_study(content), command="bayes-risk audit s.toml")


def test_manifest_and_report_name_every_file_with_its_hash(files, tmp_path):
    result = audited(files, folder=tmp_path / "out", release=True)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    found = {file["role"]: file for file in manifest["files"]}
    expected = {"data": files / "people.csv"}
    expected |= {f"release {l}": files / f"syn{l}.csv" for l in (1, 2)}
    expected |= {f"release {l}, written": tmp_path / "out" / f"synthetic-{l}.csv" for l in (1, 2)}
    assert {role: file["sha256"] for role, file in found.items()} == {
        role: sha256(path) for role, path in expected.items()
    }
    assert {(file["rows"], file["columns"]) for file in found.values()} == {(12, 2)}
    assert found["data"]["name"] == "people.csv" and manifest["data_sha256"] == result.data_sha256
    text = (tmp_path / "out" / "report.html").read_text()
    assert all(file["sha256"] in text and file["name"] in text for file in found.values())
    assert f"Run finished {in_full(manifest['finished'])}" in text
    assert str(files) not in text.partition("<pre>")[0]  # names, not folders


def test_a_changed_release_changes_its_hash_alone(files, tmp_path):
    before = audited(files, folder=tmp_path / "a").provenance.files
    original = (files / "syn2.csv").read_bytes()
    (files / "syn2.csv").write_bytes(original + b"\n")
    after = audited(files, folder=tmp_path / "b").provenance.files
    (files / "syn2.csv").write_bytes(original)
    assert [a.sha256 == b.sha256 for a, b in zip(before, after, strict=True)] == [True, True, False]


def test_files_of_a_synthpop_folder_are_those_that_are_read(files, tmp_path):
    for l in (2, 1):
        (tmp_path / f"syn_{l}.csv").write_text("age,job\n1,a\n")
    found = files_of_releases([files / "syn1.csv", tmp_path])
    assert [path.name for path in found] == ["syn1.csv", "syn_1.csv", "syn_2.csv"]


def test_describe_counts_and_shows_no_value():
    df = pd.DataFrame(
        {
            "sex": pd.Categorical(["f", "m", "f"], categories=["f", "m", "x"]),
            "age": [30, 31, 30],
            "pay": [1.5, np.nan, 2.5],
            "job": ["a", None, None],
            "in": [True, False, True],
            "born": pd.to_datetime(["2001-02-03"] * 3),
        }
    )
    found = describe(df)
    assert found["kind"].tolist() == [
        *("categorical", "whole number", "number", "categorical", "yes or no", "date"),
    ]
    assert found["levels"].tolist() == [3, 2, 2, 1, 2, 1]
    assert found["missing"].tolist() == [0, 0, 1, 2, 0, 0]
    assert data_in_words(found, 3) == (
        "3 records, 6 columns: 2 categorical (1 to 3 levels), 1 of yes or no, 1 of whole "
        "numbers, 1 of numbers, 1 of dates; 3 values are missing, in 2 columns."
    )


def test_releases_that_were_not_written_are_called_that():
    found = Provenance(
        files=(DataFile(role="data", name="x.csv", rows=12, columns=2, sha256="ab"),),
        described=describe(confidential()),
    )
    files = [{"role": "data", "name": "x.csv", "rows": 12_000, "columns": 2, "sha256": "ab"}]
    made = origin(found, files=files, synthesised=["job"], not_written=3)
    assert "The 3 releases were made in this run and not written to a file." in made.files.caption
    assert made.files.rows == [("x.csv", "data", "12,000 records, 2 columns", "ab")]
    assert [row[-1] for row in made.columns.rows] == ["no", "yes"]
    assert made.sentence.startswith("12,000 records, 2 columns: ")


def test_a_report_of_parts_takes_provenance(files, tmp_path):
    df = confidential()
    of = (data_file("data", files / "people.csv", df),)
    found = Provenance(files=of, described=describe(df))
    text = report(identification(), path=tmp_path / "r.html", provenance=found).read_text()
    assert sha256(files / "people.csv") in text
    assert re.search(r'<th scope="row">job</th><td>categorical</td><td>3</td>', text)
    without = report(identification(), path=tmp_path / "s.html").read_text()
    assert 'id="data"' not in without
