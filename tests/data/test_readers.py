"""Files are read in a process of their own: the same table, and one line where it stops."""

import datetime as dt
import io
import os
import subprocess
import sys
import threading
import time
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.data import reader
from bayes_risk.data.statistical import stored_columns

pyreadstat = pytest.importorskip("pyreadstat")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
ROOT = Path(__file__).resolve().parents[2]
TIMES = pd.DatetimeIndex(["2020-02-29 12:30:00", "NaT", "1999-12-31 00:00:01"]).astype("M8[ns]")
DF = pd.DataFrame(
    {
        "whole": [1.0, 2.0, 3.0],
        "gap": [1.0, np.nan, 2**53],
        "real": [0.1, -1e-300, 1 / 3],
        "text": ["é", "", "a\tb"],
        "day": [dt.date(2020, 1, 31), dt.date(1601, 1, 1), None],
        "time": TIMES,
        "code": [1.0, 2.0, 9.0],
    }
)
LABELS = {"code": {1.0: "one", 2.0: "Zwei", 9.0: "refused"}}
RANGES = {"code": [{"lo": 9.0, "hi": 9.0}], "gap": [{"lo": 1.0, "hi": 1.5}]}


def statistical(path):
    """A file of labels, missing codes, dates and times."""
    kind = path.suffix[1:]
    if kind in ("sav", "zsav"):
        how = {"missing_ranges": RANGES, "variable_measure": {"code": "ordinal"}}
        how |= {"variable_value_labels": LABELS, "compress": kind == "zsav"}
        pyreadstat.write_sav(DF, str(path), **how)
    elif kind == "dta":
        codes = DF.assign(code=pd.Series([1, 2, "a"], dtype=object))
        labels = {"code": {1: "one", 2: "two", "a": "refused"}}
        pyreadstat.write_dta(
            codes, str(path), variable_value_labels=labels, missing_user_values={"code": ["a"]}
        )
    else:
        pyreadstat.write_xport(DF, str(path))
    return path


def here(monkeypatch, read):
    """What a call gives without another process."""
    with monkeypatch.context() as patched:
        patched.setattr(reader, "starts_processes", lambda: False)
        return read()


def same(found, expected):
    """Equal to the last bit, and of the same types."""
    pd.testing.assert_frame_equal(found, expected, check_exact=True, check_freq=False)
    assert found.dtypes.tolist() == expected.dtypes.tolist()
    for name in found:
        kinds = [[*map(type, table[name])] for table in (found, expected)]
        assert kinds[0] == kinds[1]


@pytest.mark.parametrize("kind", ["sav", "zsav", "dta", "xpt"])
def test_statistical_files_are_the_same_table(tmp_path, monkeypatch, kind):
    path = statistical(tmp_path / f"a.{kind}")
    found = stored_columns(path, f".{kind}")
    expected = here(monkeypatch, lambda: stored_columns(path, f".{kind}"))
    assert list(found) == list(expected) == list(DF)
    held = 0
    for name, column in expected.items():
        other = found[name]
        same(other.values.to_frame("x"), column.values.to_frame("x"))
        assert other.refused.dtype == bool and (other.refused == column.refused).all()
        assert repr(other.labels) == repr(column.labels)
        assert repr(other.missing_labels) == repr(column.missing_labels)
        assert other.ordinal == column.ordinal
        held += column.refused.sum() + len(column.labels)
    assert held > 0 or kind == "xpt"
    for missing in ("level", "blank"):
        read = lambda how=missing: br.read_table(path, missing={"code": how, "gap": "blank"})  # noqa: E731
        same(read(), here(monkeypatch, read))


COLUMNS = {
    "int8": pa.array([1, None, -3], pa.int8()),
    "int64": pa.array([2**62 + 1, None, -(2**53) - 1]),
    "uint64": pa.array([2**64 - 1, 0, 1], pa.uint64()),
    "float": pa.array([0.1, float("nan"), None], pa.float32()),
    "half": pa.array(np.array([0.1, 1, 2], np.float16)),
    "bool": pa.array([True, None, False]),
    "text": pa.array(["é", None, ""]),
    "large": pa.array(["a", "b", None], pa.large_string()),
    "bytes": pa.array([b"\x00\xff", b"", None]),
    "level": pa.array(["b", None, "a"]).dictionary_encode(),
    "number level": pa.array([2.5, 1.0, 2.5]).dictionary_encode(),
    "decimal": pa.array([Decimal("1.10"), None, Decimal("-3.00")]),
    "date": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "second": pa.array([-(10**10), None, 253_370_764_800], pa.timestamp("s")),
    "zone": pa.array([0, None, 1], pa.timestamp("ns", tz="Europe/Berlin")),
    "time": pa.array([1, None, 2], pa.time32("s")),
    "length": pa.array([1, None, 2], pa.duration("us")),
    "null": pa.nulls(3),
}  # fmt: skip


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_parquet_files_are_the_same_table(tmp_path, rows):
    """As pandas reads them, whole numbers beside missing ones and decimals apart."""
    parquet.write_table(pa.table(COLUMNS), tmp_path / "a.parquet", row_group_size=rows)
    found, expected = br.read_table(tmp_path / "a.parquet"), pd.read_parquet(tmp_path / "a.parquet")
    exact = {"int8": "Int64", "int64": "Int64"}
    assert {name: str(found[name].dtype) for name in exact} == exact
    assert found["int64"].dropna().tolist() == [2**62 + 1, -(2**53) - 1]
    numbers = ["decimal", "half"]
    assert [str(kind) for kind in found[numbers].dtypes] == ["float64"] * 2
    rest = [name for name in expected if name not in {*exact, *numbers}]
    same(found[rest], expected[rest])


def test_categories_of_pandas_are_the_same_from_several_row_groups(tmp_path):
    levels = pd.CategoricalDtype(["z", "nobody", "a", "é"], ordered=True)
    df = pd.DataFrame({"x": pd.Series(["a", None, "z", "é", "a"], dtype=levels), "n": range(5)})
    df.index = pd.Index(list("abcde"), name="who")
    for rows in (1, 2, 5):
        df.to_parquet(tmp_path / "a.parquet", row_group_size=rows)
        found = br.read_table(tmp_path / "a.parquet")
        same(found[["x", "n"]], df.reset_index(drop=True))
        assert found["who"].tolist() == list("abcde")


def test_workbooks_are_the_same_table(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    df = DF.drop(columns="day").assign(yes=[True, False, True], at=[dt.time(1, 2), None, None])
    df.to_excel(tmp_path / "a.xlsx", index=False)
    read = lambda: br.read_table(tmp_path / "a.xlsx")  # noqa: E731
    same(read(), here(monkeypatch, read))


# --- how it ends -----------------------------------------------------------------------------


def stopped(monkeypatch, path, code, read=br.read_table, **bounds):
    """The message on a file whose reader does something else; no process is left."""
    for name, value in bounds.items():
        monkeypatch.setattr(reader, name, value)
    start = subprocess.Popen
    made = []

    def other(command, **how):
        at = command.index("-c") + 1
        program = command[at].replace("; serve()", "")
        program += f"\nfrom bayes_risk.data import reader\ndef _stored(*_):\n  {code}"
        program += "\nreader._stored = _stored\nreader.serve()"
        made.append(start([*command[:at], program, *command[at + 1 :]], **how))
        return made[-1]

    monkeypatch.setattr(reader, "_idle", [])
    monkeypatch.setattr(subprocess, "Popen", other)
    with pytest.raises(InputError) as error:
        read(path)
    assert made[0].poll() is not None and reader._idle == []
    assert str(path) in str(error.value) and "\n" not in str(error.value)
    return str(error.value)


FAULT = "import ctypes; ctypes.string_at(0)"


@pytest.mark.parametrize(
    ("code", "why", "bounds"),
    [
        (FAULT, "memory fault", {}),
        ("import os; os.abort()", "memory fault", {}),
        ("return bytearray(2**33)", "GiB of memory", {"MEMORY": (2**30, 1)}),
        ("while True: pass", "took more than 1 s", {"SECONDS": (1, 1)}),
        ("import time; time.sleep(60)", "took more than 1 s", {"SECONDS": (1, 1), "WAIT": 1}),
        ("import os, signal; os.kill(os.getpid(), 9)", "the system ended it", {}),
        ("import os; os._exit(7)", "unforeseen error", {}),
        ("raise KeyError('secret')", "unforeseen error", {}),
    ],
)  # fmt: skip
def test_a_reader_that_dies_is_one_line(tmp_path, monkeypatch, code, why, bounds):
    if sys.platform == "win32" and ("signal" in code or "1 s" in why):
        pytest.skip("no signals, no bound on processor time")
    said = stopped(monkeypatch, statistical(tmp_path / "a.sav"), code, **bounds)
    assert "the reader of SPSS files stopped while reading it (" in said and why in said
    assert "secret" not in said and "is the file whole?" in said


def parts(path, **how):
    return reader.read_in_parts(Path(path), ".parquet", batch=2, **how)


def test_a_reader_that_dies_between_parts_is_one_line(tmp_path, monkeypatch):
    parquet.write_table(pa.table(COLUMNS), tmp_path / "a.parquet")
    code = f"yield 1; {FAULT}"
    said = stopped(monkeypatch, tmp_path / "a.parquet", code, read=lambda path: [*parts(path)])
    assert "the reader of Parquet files stopped while reading it (memory fault)" in said


def test_parts_are_the_batches_and_a_process_that_is_not_heard_out_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_idle", [])
    parquet.write_table(pa.table(COLUMNS), tmp_path / "a.parquet", row_group_size=2)
    (n, schema), *found = parts(tmp_path / "a.parquet", columns=["int64", "text"])
    table = pa.Table.from_batches(
        [pa.ipc.open_stream(pa.py_buffer(part)).read_next_batch() for part in found]
    )
    assert n == 3 and pa.ipc.read_schema(pa.py_buffer(schema)).names == list(COLUMNS)
    assert table.equals(pa.table({name: COLUMNS[name] for name in ("int64", "text")}))
    ((_, process),) = reader._idle
    given = parts(tmp_path / "a.parquet", columns=["text"])
    next(given)
    assert reader._idle == [] and process.poll() is None
    given.close()
    assert reader._idle == [] and process.poll() is not None


def test_a_process_that_read_a_damaged_file_reads_no_other(tmp_path, monkeypatch):
    """Its memory may be damaged."""
    monkeypatch.setattr(reader, "_idle", [])
    parquet.write_table(pa.table(COLUMNS), tmp_path / "a.parquet")
    br.read_table(tmp_path / "a.parquet")
    ((_, process),) = reader._idle
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-20])
    with pytest.raises(br.InputError):
        br.read_table(tmp_path / "b.parquet")
    assert reader._idle == [] and process.poll() is not None


def test_files_of_identification_risk_are_read_apart(tmp_path, monkeypatch):
    path, keys = tmp_path / "a.parquet", {"known": ["a"], "synthesized": ["b"]}
    parquet.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", "x"]}), path)
    reads = monkeypatch.setattr(parquet, "ParquetFile", None)
    assert reads is None and br.identification_risk_of_files(path, [path], **keys).n == 3


def test_a_damaged_message_is_an_end_and_runs_nothing():
    rng = np.random.default_rng(0)
    whole = b"".join(
        map(bytes, reader.message_parts(["found", {1.0: DF["time"], "a": DF["text"]}]))
    )
    read = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(len(damaged), size=rng.integers(3)):
            damaged[place] = rng.integers(256)
        try:
            reader.received(io.BytesIO(bytes(damaged[: rng.integers(1, 2 * len(whole))])), 10**6)
            read += 1
        except reader.NO_MESSAGE:
            pass
    assert 0 < read < 300
    with pytest.raises(reader.NO_MESSAGE):
        array = [{"ndarray": ["|O", 0]}]
        parts = [memoryview(b"").cast("B"), b"12345678"]
        reader._value(array, parts[1:])


def test_files_are_read_by_threads_at_once(tmp_path):
    path, found = statistical(tmp_path / "a.sav"), []
    read = lambda: found.append(br.read_table(path, missing="blank"))  # noqa: E731
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for table in found[1:]:
        same(table, found[0])


SCRIPT = """
import os, sys
import bayes_risk as br
print(br.read_table(sys.argv[1], missing="blank").shape)
print(br.read_table(sys.argv[1], missing="blank").shape)
from bayes_risk.data import reader
print(*[process.pid for _, process in reader._idle], flush=True)
if len(sys.argv) > 2:
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("ends", [[], pytest.param(["killed"], marks=pytest.mark.check)])
def test_a_plain_script_reads_imports_no_plant_and_leaves_no_process(tmp_path, ends):
    path = statistical(tmp_path / "a.sav")
    (tmp_path / "script.py").write_text(SCRIPT)
    for name in ("pyreadstat", "json", "narwhals", "sitecustomize", "usercustomize", "encodings"):
        (tmp_path / f"{name}.py").write_text("open('RAN', 'w')\n")
    command = [sys.executable, "-P", "script.py", str(path), *ends]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    *shapes, pids = done.stdout.splitlines()
    assert shapes == [str(DF.shape)] * 2
    (pid,) = map(int, pids.split())
    until = time.monotonic() + 20
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(pid)
    assert not (tmp_path / "RAN").exists()


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_the_process_gets_no_folder_of_the_user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), "relative", *sys.path])
    monkeypatch.setattr(reader, "_idle", [])
    made = []
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda c, **k: made.append(c) or start(c, **k))
    br.read_table(statistical(tmp_path / "a.sav"), missing="blank")
    assert str(tmp_path) not in made[0][-1] and "relative" not in made[0][-1]
    for _, process in reader._idle:
        reader._end(process)


# --- what packed files unpack to -------------------------------------------------------------


def test_a_long_value_that_stands_in_a_parquet_file_once_is_counted_in_each_row(tmp_path):
    path = tmp_path / "a.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), ["v" * 1_000_000])
    parquet.write_table(pa.table({"x": text}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 10_000
    refused_in_time(path)


def test_a_long_value_that_stands_in_a_workbook_once_is_counted_in_each_cell(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    for _ in range(10_000):
        sheet.append(["v"])
    book.save(tmp_path / "made.xlsx")
    path, main = tmp_path / "a.xlsx", "spreadsheetml"
    inline, kind = (
        b't="inlineStr"><is><t>v</t></is>',
        b"application/vnd.openxmlformats-officedocument",
    )
    text = f'<sst xmlns="http://schemas.openxmlformats.org/{main}/2006/main"><si><t>'.encode()
    with zipfile.ZipFile(tmp_path / "made.xlsx") as made, zipfile.ZipFile(path, "w", 8) as packed:
        for name in made.namelist():
            part = made.read(name)
            if name.endswith("sheet1.xml"):
                assert part.count(inline) == 10_000
                part = part.replace(inline, b't="s"><v>0</v>')
            if name == "[Content_Types].xml":
                more = b'<Override PartName="/xl/sharedStrings.xml" ContentType="' + kind
                more += b'.spreadsheetml.sharedStrings+xml"/></Types>'
                part = part.replace(b"</Types>", more)
            packed.writestr(name, part)
        packed.writestr("xl/sharedStrings.xml", text + b"v" * 30_000 + b"</t></si></sst>")
    refused_in_time(path)


def refused_in_time(path):
    """In 20 s of processor time, the reader's own too."""
    pytest.importorskip("resource")
    used = lambda: sum(os.times()[:4])  # noqa: E731
    started = used()
    with pytest.raises(InputError, match="unpacks to more than"):
        br.read_table(path)
    for _, process in reader._idle:
        reader._end(process)
    reader._idle.clear()
    assert used() - started < 20
