import atexit
import csv
import itertools
import json
import os
import re
import shutil
import stat
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayes_risk import InputError
from bayes_risk.app.output import (
    as_json,
    check_target,
    output_folder,
    quoted,
    write_csv,
    write_run,
)
from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import parse_study
from bayes_risk.data.kept import write_arrays
from bayes_risk.data.table import read_table
from bayes_risk.data.writing import form_of, write_tables
from bayes_risk.release.alike import read_like
from bayes_risk.release.provenance import data_hash
from bayes_risk.release.synthpop import read_releases
from bayes_risk.reporting.redaction import records_table
from tests.helpers.edge_results import MARK, attribute, confidential, identification, study_result

ROOT = Path(__file__).resolve().parents[2]
FILES = ["manifest.json", "records.csv", "report.html", "risk.nc", "summary.json"]


def older(folder):
    """An output of an earlier run."""
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    (folder / "old").write_text("old")
    return folder


def study_with(**sections):
    return parse_study(
        {
            "data": {"demo": "italy"},
            "identification": {"known": ["age"], "synthesized": ["job"]},
            **sections,
        }
    )


@pytest.mark.parametrize("name", ["/", "a/..", "a\0b"])
def test_what_is_no_name_of_a_folder_is_refused(name):
    for overwrite in (False, True):
        with pytest.raises(
            InputError, match="is not the name of a new folder; give one such as 'study"
        ):
            check_target(Path(name), overwrite=overwrite)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder that tests only read."""
    folder = tmp_path_factory.mktemp("written") / "out"
    with output_folder(folder) as partial:
        write_run(partial, study_result(study_with()), command="bayes-risk audit s.toml")
    return folder


COMPUTED = {  # text, and how a table has it
    "=1+1": "'=1+1",
    "+cmd|' /C calc'!A0": "'+cmd|' /C calc'!A0",
    "-1+2": "'-1+2",
    "@SUM(A1)": "'@SUM(A1)",
    "\t=1": "'\t'=1",
    "\rx": "'\rx",
    "\uff1d1": "'\uff1d1",
    "\ufe662": "'\ufe662",
    "\uff0b1": "'\uff0b1",
    "\uff0d1+1": "'\uff0d1+1",
    "\uff20A1": "'\uff20A1",
    " =1": "' =1",
    "\ufeff=1": "'\ufeff=1",
    '"=1"': '\'"=1"',
    "x;=1+1;y": "x;'=1+1;y",
    "x,-1-1": "x,'-1-1",
    "x\n@A": "x\n'@A",
    "x\t=1;=2": "x\t'=1;'=2",
    "'=1": "''=1",
    "\x1b\u202e=1": "'\x1b\u202e=1",
    "a;\xa0\u200b@A": "a;'\xa0\u200b@A",
}
PLAIN = ["plain", "-0.5", "+1e5", "a=b", "a;b", "-0,5", "(-1, 2]", "it's", 'say "x"', "a\nb", "'"]


def test_no_text_of_a_table_is_a_formula_and_numbers_stay_numbers(tmp_path):
    texts = [*COMPUTED, *PLAIN]
    table = pd.DataFrame({"=x": -0.5, "text": texts, "@kind": pd.Categorical(texts)}, index=texts)
    write_csv(tmp_path / "t.csv", table.rename_axis("+record"))
    back = pd.read_csv(tmp_path / "t.csv", keep_default_na=False)
    assert list(back) == ["'+record", "'=x", "text", "'@kind"]
    for name in ("'+record", "text", "'@kind"):
        assert back[name].tolist() == [*COMPUTED.values(), *PLAIN]
    assert (back["'=x"] == -0.5).all()


def test_a_spreadsheet_of_any_separator_computes_nothing(tmp_path):
    """Split at other separators than ours, where quotes inside a cell count for nothing."""
    texts = [*COMPUTED, *(f"a{x}" for x in COMPUTED)]
    write_csv(tmp_path / "t.csv", pd.DataFrame({"t": texts}, index=np.arange(len(texts)) / 2))
    for separator in ";,\t|":
        for line in re.split("[\r\n]", (tmp_path / "t.csv").read_text(encoding="utf-8")):
            for cell in line.split(separator):
                seen = unicodedata.normalize("NFKC", cell).strip(' "\ufeff')
                assert not seen.startswith(tuple("=+-@")) or is_number(seen)


def is_number(text):
    return re.fullmatch(r"[+-]?\d+(\.\d+)?", text) is not None


def test_guarded_text_can_be_told_from_any_other():
    seen = {}
    for length in range(5):
        for letters in itertools.product("=+-;, '\"a1\t\n.e\uff1d", repeat=length):
            text = "".join(letters)
            assert seen.setdefault(quoted(text), text) == text


def test_text_is_in_quotes_and_what_is_missing_is_not(tmp_path):
    pairs = pd.MultiIndex.from_product([["a", "b"], [1, -2]], names=["label", None])
    odd = pd.DataFrame(
        {
            "x": [1.5, -2, np.nan, 0],
            "t": ["a", None, 'b,"', ""],
            "n": pd.array([1, None, 3, 4], dtype="Int64"),
            "f": np.array([0.1, np.inf, 0, 1e-300], dtype=np.float32),
            "b": [True, False, True, True],
            "d": pd.to_datetime(["2020-01-01"] * 4),
        },
        index=pairs,
    )
    write_csv(tmp_path / "t.csv", odd)
    assert (tmp_path / "t.csv").read_text() == (
        '"label","","x","t","n","f","b","d"\n'
        '"a",1,1.5,"a",1,0.1,True,2020-01-01\n'
        '"a",-2,-2.0,,,inf,False,2020-01-01\n'
        '"b",1,,"b,""",3,0.0,True,2020-01-01\n'
        '"b",-2,0.0,"",4,0.0,True,2020-01-01\n'
    )
    write_csv(tmp_path / "t.csv", odd.iloc[:0])
    assert (tmp_path / "t.csv").read_text() == '"label","","x","t","n","f","b","d"\n'


def test_labels_are_read_back_as_they_were(tmp_path):
    """As `docs/study-file.md` says it."""
    labels = ["007", "NA", "1e5", "", "x;=1", "=1", "a\r\nb", "é\u2028"]
    table = pd.DataFrame({"probability": np.linspace(0, 1, len(labels))}, index=labels)
    write_csv(tmp_path / "t.csv", table.rename_axis("record"))
    back = pd.read_csv(tmp_path / "t.csv", dtype={"record": str}, keep_default_na=False)
    assert back["probability"].tolist() == table["probability"].tolist()
    assert back["record"].str.replace("'(?=[=])", "", regex=True).tolist() == labels


def test_every_table_is_written_in_one_place():
    """But the hash of a table, which nobody opens."""
    calls = [
        (path.name, text.count(".to_csv("))
        for path in (ROOT / "bayes_risk").rglob("*.py")
        if ".to_csv(" in (text := path.read_text())
    ]
    assert sorted(calls) == [("provenance.py", 1), ("writing.py", 1)]


def test_the_release_is_data_whatever_its_text(tmp_path):
    table = pd.DataFrame({"job": ["=1+1", "@a"]}, index=pd.Index(["=R0", "-R1"], name="id"))
    write_tables(tmp_path, [table], labels=True)
    back = pd.read_csv(tmp_path / "synthetic-1.csv", index_col="id")
    pd.testing.assert_frame_equal(back, table)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("na", [[], ["NA", "x"]], ids=["usual", "named"])
def test_the_release_is_read_back_as_it_is_whatever_its_text(tmp_path, separator, na):
    texts = ["=1", "x;y", "a\rb", "a\nb", 'q"t', " a", "a ", "NA", "nan", "007", "1e5", "-5", "a,b"]
    texts += ["\ufeffx", "\tt", "'x", "#c", "x", None, None, None]
    table = pd.DataFrame({"t": texts, "n": np.arange(len(texts)) / 2, "k": range(len(texts))})
    table.loc[[2, 5], "n"] = np.nan
    original = tmp_path / "o.csv"
    table.to_csv(original, index=False, quoting=csv.QUOTE_NONNUMERIC, sep=separator)
    read = read_table(original, na=na)
    form = form_of(original, read, na=na)
    write_tables(tmp_path, [read], form=form)
    back = read_like(tmp_path / "synthetic-1.csv", read, na=na)
    pd.testing.assert_frame_equal(back, read)
    write_tables(tmp_path, [read[["t"]]], form=form)
    back = read_like(tmp_path / "synthetic-1.csv", read[["t"]], na=na)
    assert len(back) == len(read)


def test_record_labels_stay_out_of_the_release(tmp_path):
    """And a study that reads it back knows whose rows they are by their order."""
    labels = pd.Index(["P00000", "P00002", "P00001"], name="person id")
    table = pd.DataFrame({"job": ["a", "b", "b"]}, index=labels)
    write_tables(tmp_path, [table, table.reset_index(drop=True)])
    for l in (1, 2):
        assert (tmp_path / f"synthetic-{l}.csv").read_text() == "job\na\nb\nb\n"
    files = [tmp_path / f"synthetic-{l}.csv" for l in (1, 2)]
    for back in read_releases(files, table, index="person id"):
        pd.testing.assert_frame_equal(back, table)
    for back in read_releases(files, table.iloc[:2], index="person id"):  # as many are nobody's
        assert back.index.tolist() == [0, 1, 2]


@pytest.fixture(scope="module")
def confidential_too(tmp_path_factory):
    """The same with what is confidential, of a study that declares levels."""
    folder = tmp_path_factory.mktemp("confidential")
    levels = {"demo": "italy", "levels": {"job": [MARK, "clerk"]}}
    study = study_with(data=levels, output={"confidential": True})
    write_run(folder, study_result(study))
    return folder


# --- the folder ------------------------------------------------------------------------------


def test_a_complete_folder_and_nothing_beside_it(written):
    assert sorted(os.listdir(written)) == FILES
    assert os.listdir(written.parent) == ["out"]


def test_only_the_owner_may_read(written):
    assert stat.S_IMODE(written.stat().st_mode) == 0o700
    assert {stat.S_IMODE(f.stat().st_mode) for f in written.iterdir()} == {0o600}


def test_the_hidden_folder_is_the_owners_from_the_start(tmp_path):
    with output_folder(tmp_path / "out") as partial:
        hidden = partial.parent
        assert hidden.parent == tmp_path and hidden.name.startswith(".out.partial-")
        assert {stat.S_IMODE(p.stat().st_mode) for p in (hidden, partial)} == {0o700}


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_whatever_goes_wrong_nothing_is_left(tmp_path, error):
    with pytest.raises(error), output_folder(tmp_path / "out") as partial:
        (partial / "half").write_text("half")
        raise error
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_older_output_stays_when_the_new_one_fails(tmp_path, error):
    folder = older(tmp_path / "out")
    with pytest.raises(error), output_folder(folder, overwrite=True):
        raise error
    assert (folder / "old").exists() and os.listdir(tmp_path) == ["out"]


def test_an_older_output_is_put_back_when_the_swap_is_interrupted(tmp_path, monkeypatch):
    folder = older(tmp_path / "out")
    rename = Path.rename

    def interrupted(self, target):
        if self.name == "new":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), output_folder(folder, overwrite=True):
        pass
    assert (folder / "old").exists() and os.listdir(tmp_path) == ["out"]


def test_overwrite_replaces_an_older_output(tmp_path):
    folder = older(tmp_path / "out")
    with output_folder(folder, overwrite=True) as partial:
        assert (folder / "old").exists()
        (partial / "new").write_text("new")
    assert os.listdir(folder) == ["new"] and os.listdir(tmp_path) == ["out"]


def test_an_existing_folder_is_an_error(tmp_path):
    older(tmp_path / "out")
    with pytest.raises(InputError, match="exists; give another name, or --overwrite"):
        output_folder(tmp_path / "out").__enter__()
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_that_no_run_wrote_is_never_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("")
    with pytest.raises(InputError, match="was not written by bayes-risk"):
        output_folder(tmp_path / "thesis", overwrite=True).__enter__()


def test_a_folder_that_appears_during_the_work_is_not_replaced(tmp_path):
    with pytest.raises(InputError, match="exists"), output_folder(tmp_path / "out"):
        older(tmp_path / "out")
    assert (tmp_path / "out" / "old").exists() and os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("make", ["file", "link"])
def test_files_and_links_are_not_replaced(tmp_path, make):
    if make == "file":
        (tmp_path / "out").write_text("")
    else:
        (tmp_path / "out").symlink_to(older(tmp_path / "elsewhere"))
    with pytest.raises(InputError, match="is not a folder"):
        output_folder(tmp_path / "out", overwrite=True).__enter__()


def test_a_missing_parent_is_an_error(tmp_path):
    with pytest.raises(InputError, match="has no parent folder; create"):
        output_folder(tmp_path / "no" / "out").__enter__()


# --- what lies in it -------------------------------------------------------------------------


def strict(path):
    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


def test_summary_has_its_keys_and_no_nan(written):
    found = strict(written / "summary.json")
    assert list(found) == [
        *("study", "attribute_risk", "identification_risk", "mechanism", "exposure", "links"),
        *("household_matching", "household_risk", "household_attribute_risk", "privacy_loss"),
        *("membership", "full_table"),
        *("utility", "bounds", "context", "reweighting", "diagnostics"),
    ]
    assert found["membership"] is None
    assert found["study"]["verdict"] == study_result(study_with()).verdict.outcome
    assert found["attribute_risk"]["measures"]["max_probability"] == {
        "value": 0.4,
        "mcse": 0.01,
        "baseline": pytest.approx(1 / 3),
        "low": 0.4,
        "high": 0.4,
    }
    assert set(found["identification_risk"]["measures"]) == {"1", "2", "mean", "pooled"}
    assert found["diagnostics"]["max_rhat"] is None


def test_manifest_says_how_to_do_it_again(written):
    found = strict(written / "manifest.json")
    assert found["command"] == "bayes-risk audit s.toml"
    assert found["random_seed"] == 7
    assert {"python", "numpy", "pandas", "pymc", "arviz", "numba", "bayes_risk"} <= set(
        found["versions"]
    )
    assert parse_study(found["settings"]) == study_with()


def test_manifest_counts_declared_levels_instead_of_naming_them(confidential_too):
    assert strict(confidential_too / "manifest.json")["settings"]["data"]["levels"] == {"job": 2}


def test_records_stand_in_the_originals_order_with_both_risks(written):
    with (written / "records.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["record"] for row in rows] == [str(i) for i in range(12)]
    assert float(rows[2]["attribute_probability"]) == pytest.approx(0.4)
    assert rows[7]["attribute_probability"] == ""  # no target of the audit
    assert {"attribute_mcse", "attribute_prior", "identification_baseline"} <= set(rows[0])


def test_records_of_one_part_alone():
    assert list(records_table(attribute(), None).columns)[0] == "attribute_prior"
    alone = records_table(None, identification())
    shown = ["identical_files", "identical_any_row_files", "replicated_files"]
    assert list(alone.columns)[-3:] == shown
    assert all(c.startswith("identification_") for c in alone.columns[:-3])
    assert alone[shown].to_dict() == identification().exposure.records.to_dict()


def test_arrays_come_back(written):
    with xr.open_dataset(written / "risk.nc", group="attribute_risk") as found:
        np.testing.assert_allclose(found["probability"], attribute().records["probability"])
        assert "guess_code" not in found
    with xr.open_dataset(written / "risk.nc", group="identification_risk") as found:
        xr.testing.assert_equal(found.load(), identification().dataset)


def leaks(folder):
    return [f.name for f in folder.iterdir() if MARK.encode() in f.read_bytes()]


def test_no_confidential_value_anywhere(written):
    assert leaks(written) == []


def test_confidential_values_in_risk_nc_alone_and_only_if_asked_for(confidential_too):
    assert leaks(confidential_too) == ["risk.nc"]
    with xr.open_dataset(confidential_too / "risk.nc", group="attribute_risk") as found:
        assert "guess_code" in found


@pytest.mark.parametrize("value", [np.nan, np.float64("nan"), None])
def test_numbers_that_do_not_exist_are_null(value):
    assert as_json({"a": [value]}) == {"a": [None]}


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.float64("inf")])
def test_what_is_infinite_is_not_taken_for_what_does_not_exist(value):
    (text,) = as_json({"a": [value]})["a"]
    assert isinstance(text, str) and float(text) == value


def test_plain_things_for_json():
    assert as_json(
        {1: np.int64(2), "t": pd.DataFrame({"x": [True]}, index=["r"]), "s": (np.bool_(1),)}
    ) == {"1": 2, "t": {"r": {"x": True}}, "s": [True]}


def test_data_hash_is_that_of_the_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert data_hash(path).startswith("ba7816bf8f01cfea")
    changed = confidential()
    changed.loc[3, "job"] = "pilot"
    assert data_hash(confidential()) != data_hash(changed)


@pytest.mark.check
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_file_is_on_disk_before_the_steps_go(tmp_path, monkeypatch):
    """A power cut at any moment leaves the steps, or the whole folder."""
    (tmp_path / "o.csv").write_text("a,b\n" + "u,x\nv,y\nu,y\n" * 20)
    happened, fsync, rmtree, rename = [], os.fsync, shutil.rmtree, Path.rename

    def name_of(handle):
        return Path(os.readlink(f"/proc/self/fd/{handle}")) if Path("/proc").is_dir() else handle

    monkeypatch.setattr(os, "fsync", lambda h: (happened.append(("disk", name_of(h))), fsync(h)))
    monkeypatch.setattr(
        shutil, "rmtree", lambda p, **how: (happened.append(("gone", Path(p))), rmtree(p, **how))
    )
    monkeypatch.setattr(
        Path, "rename", lambda p, to: (happened.append(("named", Path(to))), rename(p, to))[1]
    )
    study = {
        "random_seed": 1,
        "data": {"path": str(tmp_path / "o.csv")},
        "model": {"kind": "Marginals"},
        "release": {"m": 2},
        "attribute": {"targets": 3},
        "output": {"folder": str(tmp_path / "out"), "release": True, "redact": True},
    }
    run_study(parse_study(study))
    written = sorted(p.name for p in (tmp_path / "out").iterdir())
    named = happened.index(("named", tmp_path / "out"))
    before = [p.name for what, p in happened[:named] if what == "disk"]
    assert set(written) <= set(before) and before[-1] == "new"  # the files, then their folder
    after = happened[named + 1 :]
    assert after[0] == ("disk", tmp_path)
    assert ("gone", tmp_path / ".out.work") in after and "public.html" in written


@pytest.mark.skipif(not hasattr(os, "fork"), reason="bounds the size of files in a fork")
def test_arrays_that_find_no_room_are_an_error_and_no_memory_fault(tmp_path):
    """HDF5 ended the process when it was to end, after the message."""
    import resource

    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        try:
            numbers = np.random.default_rng(1).random(100_000)
            write_arrays(tmp_path / "a.nc", {"g": xr.Dataset({"x": ("n", numbers)})})
        except OSError:
            atexit._run_exitfuncs()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
