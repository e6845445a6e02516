"""Files that a stranger made: refused in one line, without a value that they hold."""

import gzip
import os
import re
import time
import tomllib
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.app.cli import app
from bayes_risk.app.study.files import files_behind
from bayes_risk.app.study.study import parse_study, read_study
from bayes_risk.data import reader
from bayes_risk.data.rpart_file import read_models
from bayes_risk.data.statistical import catalog_of
from bayes_risk.release.synthpop import read_synthpop

SECRET = "ILLQsecret"


def test_every_flipped_byte_of_a_gzipped_csv_is_an_input_error_or_a_table(tmp_path):
    text = "a,b\n" + "".join(f"{i},{i * i % 97}\n" for i in range(60))
    whole, path = gzip.compress(text.encode(), mtime=0), tmp_path / "a.csv.gz"
    path.write_bytes(whole)
    table, read = br.read_table(path), 0
    for place in range(10, len(whole)):  # after the header
        damaged = bytearray(whole)
        damaged[place] ^= 0b1010
        path.write_bytes(damaged)
        try:
            pd.testing.assert_frame_equal(br.read_table(path), table)
            read += 1
        except InputError as error:
            assert "whole, and a CSV" in str(error)
    assert read <= 2  # bits that fill the last byte


@pytest.mark.parametrize("word", [SECRET, f"{SECRET} of one person", "diabetes"])
def test_a_word_of_one_record_is_no_missing_code_of_a_first_study(tmp_path, word):
    wages = [*map(str, range(1_000, 1_080)), word]
    df = pd.DataFrame({"sex": ["f", "m", "f"] * 27, "job": ["a", "b", "c"] * 27, "wage": wages})
    df.to_csv(tmp_path / "w.csv", index=False)
    with pytest.warns(UserWarning, match="row 81"):
        br.read_table(tmp_path / "w.csv")
    study = br.study_of(tmp_path / "w.csv")
    assert word not in study.text and word not in repr(study)
    assert not tomllib.loads(study.text)["data"].get("na")


@pytest.mark.parametrize("word", ["NA", "n/a", ".", "missing", "refus", "k.A.", "Don't know"])
def test_a_word_for_missing_is_one_of_a_first_study(tmp_path, word):
    wages = [*map(str, range(1_000, 1_080)), word]
    df = pd.DataFrame({"sex": ["f", "m", "f"] * 27, "job": ["a", "b", "c"] * 27, "wage": wages})
    df.to_csv(tmp_path / "w.csv", index=False)
    assert tomllib.loads(br.study_of(tmp_path / "w.csv").text)["data"]["na"] == [word]


@pytest.mark.parametrize("stated", ["9999999999", "1001", "²", "1" * 5_000, "-1", "0x3"])
def test_a_number_of_data_sets_that_nobody_made_is_refused(tmp_path, stated):
    info = f"Number of synthetic data sets: {stated}\nOutput file(s): (csv)\n"
    (tmp_path / "synthesis_info_syn.txt").write_text(info)
    with pytest.raises(InputError, match="give a list of the data files"):
        read_synthpop(tmp_path, original=pd.DataFrame({"a": [1]}))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    """Reading a named pipe waits for ever."""
    tables = "a.csv", "a.sas7bcat", "formats.sas7bcat", "f/p.parquet", "g/s_1.csv"
    for name in (*tables, "m.json.gz", "m.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name)
    (tmp_path / "a.sas7bdat").write_bytes(b"x" * 100)
    (tmp_path / "b.sas7bdat").write_bytes(b"x" * 100)
    keys: Any = {"known": ["a"], "synthesized": ["b"]}
    for ask in (
        lambda: br.read_table(tmp_path / "a.csv"),
        lambda: br.read_synthpop(tmp_path / "g", original=pd.DataFrame({"a": [1]})),
        lambda: br.study_of(tmp_path / "a.csv"),
        lambda: read_models(tmp_path / "m.json.gz"),
        lambda: catalog_of(tmp_path / "a.sas7bdat"),
        lambda: catalog_of(tmp_path / "b.sas7bdat"),
        lambda: [*files_behind(tmp_path / "b.sas7bdat")],
        lambda: br.identification_risk_of_files(tmp_path / "f", tmp_path / "f", **keys),
        lambda: br.identification_risk_of_files(tmp_path / "a.csv", tmp_path / "f", **keys),
    ):
        with pytest.raises(InputError, match="is not a regular file"):
            ask()
    assert [*files_behind(tmp_path / "m.py")] == [tmp_path / "m.py"]


def test_a_study_that_is_no_regular_file_is_refused_at_once(tmp_path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes")
    os.mkfifo(tmp_path / "s.toml")
    for path in (tmp_path / "s.toml", "/dev/zero", tmp_path):
        with pytest.raises(InputError, match="it is not a file"):
            read_study(path)
    told = CliRunner().invoke(app, ["audit", str(tmp_path / "s.toml")])
    assert told.exit_code == 2


def test_messages_on_a_parquet_file_hold_none_of_its_values(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for name, column in {
        "time64[ns]": pa.array([1_234_567_891_001], pa.time64("ns")),
        "date32[day]": pa.array([2_147_483_000], pa.date32()),
    }.items():
        table = pa.table({"b": [1], "a": column})
        parquet.write_table(table, tmp_path / f"{name}.parquet")
        told = f"column 'a' of .* is stored as {re.escape(name)} and holds a value that cannot be"
        with pytest.raises(InputError, match=told) as error:
            br.read_table(tmp_path / f"{name}.parquet")
        assert not re.search(r"1234567891001|58\d+", str(error.value))


def test_a_rule_that_names_no_level_does_not_list_the_levels():
    df = pd.DataFrame({"sex": ["f", "m"] * 20, "illness": [SECRET, *["none"] * 39]})
    rules = [{"sex": ["f"], "illness": ["pregnancy"]}]
    model = br.models.DPMPM(2, impossible=br.Impossible(rules))
    with pytest.raises(InputError, match="'pregnancy', which is not a level") as error:
        model.fit(df, draws=20, tune=10, random_seed=0)
    assert SECRET not in str(error.value)


def test_a_spss_file_without_its_number_of_records_is_refused(tmp_path, monkeypatch):
    pyreadstat = pytest.importorskip("pyreadstat")
    path = tmp_path / "a.zsav"
    df = pd.DataFrame({"a": np.arange(5.0)})
    pyreadstat.write_sav(df, str(path), compress=True)
    read = pyreadstat.read_sav

    def unsaid(*given, **how):
        table, meta = read(*given, **how)
        meta.number_rows = None
        return table, meta

    monkeypatch.setattr(reader, "starts_processes", lambda: False)
    monkeypatch.setattr(pyreadstat, "read_sav", unsaid)
    with pytest.raises(InputError, match="does not state how many records"):
        br.read_table(path)


STUDY = {"data": {"path": "a.csv"}, "model": {"kind": "DPMPM"}, "attribute": {}}
LONG = {
    "candidates": {"compare": {f"c{k}": {"release": {"m": 1}} for k in range(50_000)}},
    "priors": {"sweep": {"priors": ["uniform"] * 60_000}},
    "values": {"sweep": {"model": {"alpha": [*range(1, 200_001)]}}},
    "files": {"release": {"files": ["a.csv"] * 100_000, "columns": ["a"]}},
    "unknown": {"utility": {f"k{k}": 1 for k in range(20_000)}},
}


@pytest.mark.parametrize("what", LONG)
def test_a_study_of_too_many_parts_is_refused_before_any_work(what):
    started = time.process_time()
    with pytest.raises(InputError, match=r"at most (200|1,000)|and 19,990 more"):
        parse_study(STUDY | LONG[what])
    assert time.process_time() - started < 5
