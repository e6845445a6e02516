"""Excel workbooks, and files of other programs that are not read."""

import datetime as dt
import sys
import zipfile

import openpyxl
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk import InputError, read_table
from bayes_risk.release.alike import read_like

ROWS = [
    ["region", "pay", "n", "day", "owner", "mixed", "code", None],
    ["01", 1.5, 1, dt.datetime(2020, 3, 14), True, 5, "1E1", "x"],
    ["02", 3, None, dt.datetime(9999, 12, 31), False, "N", "10", "y"],
    [None] * 8,
    ["1", "NA", 3, None, True, 2.5, "", "z"],
]


def written(path, rows=ROWS, **others):
    book = openpyxl.Workbook()
    for sheet, content in {"people": rows, "empty": [], **others}.items():
        made = book.create_sheet(sheet)
        for row in content:
            made.append(row)
    del book["Sheet"]
    book.save(path)
    return path


def test_a_column_of_a_sheet_is_of_the_kind_of_its_cells(tmp_path):
    table = read_table(written(tmp_path / "a.xlsx"))
    assert table["region"].tolist() == ["01", "02", "1"]
    assert table["pay"].tolist()[:2] == [1.5, 3.0] and table["pay"].isna()[2]
    assert table["n"].dtype == "Int64" and table["n"].fillna(0).tolist() == [1, 0, 3]
    assert table["day"].dt.year.tolist()[:2] == [2020, 9999]
    assert table["owner"].dtype == bool and table["mixed"].tolist() == ["5", "N", "2.5"]
    assert table["code"].tolist()[:2] == ["1E1", "10"] and table["code"].isna()[2]
    assert table[""].tolist() == ["x", "y", "z"]
    chosen = read_table(tmp_path / "a.xlsx", columns=["n", "pay"], index="region")
    assert chosen.columns.tolist() == ["n", "pay"] and chosen.index.tolist() == ["01", "02", "1"]
    days = read_table(tmp_path / "a.xlsx", days=["day"])["day"]
    assert days.tolist()[:2] == [18335.0, 2932896.0]


def test_a_sheet_and_a_csv_of_it_match_in_full(tmp_path):
    table = pd.DataFrame({"sex": ["f", "m"] * 30, "pay": range(60), "job": ["a", "b", "c"] * 20})
    table.to_csv(tmp_path / "a.csv", index=False)
    rows = [list(table.columns), *map(list, table.itertuples(index=False))]
    original = read_table(written(tmp_path / "a.xlsx", rows))
    for one, other in ((original, "a.csv"), (read_table(tmp_path / "a.csv"), "a.xlsx")):
        release = read_like(tmp_path / other, one)
        risk = br.identification_risk(one, release, known=["sex"], synthesized=["pay", "job"])
        assert (risk.summary()["true_match_rate"] == 1.0).all()


def test_a_sheet_has_all_its_cells_whatever_size_it_states(tmp_path):
    """Programs that write row by row may state ``A1``, and leave it."""
    whole = written(tmp_path / "a.xlsx")
    for size in ("A1", "A1:C2", "A1:XFD1048576"):
        stated = tmp_path / "b.xlsx"
        with zipfile.ZipFile(whole) as packed, zipfile.ZipFile(stated, "w") as made:
            for name in packed.namelist():
                text = packed.read(name).replace(b'ref="A1:H5"', f'ref="{size}"'.encode())
                made.writestr(name, text)
        assert stated.read_bytes() != whole.read_bytes()
        pd.testing.assert_frame_equal(read_table(stated), read_table(whole))


def test_more_sheets_no_sheet_and_broken_files_are_named(tmp_path):
    written(tmp_path / "a.xlsx", other=[["a"], [1]])
    with pytest.raises(InputError, match=r"data in the sheets \['people', 'other'\]; give a file"):
        read_table(tmp_path / "a.xlsx")
    written(tmp_path / "b.xlsx", rows=[])
    with pytest.raises(InputError, match="holds nothing in its sheets"):
        read_table(tmp_path / "b.xlsx")
    (tmp_path / "c.xlsx").write_bytes((tmp_path / "a.xlsx").read_bytes()[:2000])
    with pytest.raises(InputError, match="c.xlsx' is not a readable .xlsx file .*Save it as a CSV"):
        read_table(tmp_path / "c.xlsx")
    written(tmp_path / "d.xlsx", rows=[["a", "a"], [1, 2]])
    with pytest.raises(InputError, match="names columns .*more than once"):
        read_table(tmp_path / "d.xlsx")
    (tmp_path / "a.csv").write_bytes((tmp_path / "a.xlsx").read_bytes())
    with pytest.raises(InputError, match="begins as a .xlsx or .zip file does"):
        read_table(tmp_path / "a.csv")


def test_without_the_reader_the_cure_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match=r"bayes-risk\[excel\]\", or save the sheet as a CSV"):
        read_table(tmp_path / "a.xlsx")
