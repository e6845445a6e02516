import gzip
import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from bayes_risk import InputError
from bayes_risk._core.validate import known_columns
from bayes_risk.data import kinds, reader
from bayes_risk.data.table import read_table
from bayes_risk.data.variables import declare_levels
from bayes_risk.release.alike import read_like


def write(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_csv_plain_or_gzipped(tmp_path, name):
    text = b"id,age,job\r\nx1,20,clerk\r\nx2,21,\r\n"
    path = write(tmp_path / name, gzip.compress(text) if name.endswith("gz") else text)
    table = read_table(path, index="id")
    assert table.index.tolist() == ["x1", "x2"]
    assert table["age"].tolist() == [20, 21]
    assert table["job"].isna().tolist() == [False, True]


def test_text_stays_text_even_if_it_looks_missing(tmp_path):
    path = write(tmp_path / "a.csv", "edu\nNone\nNA\nn/a\nnull\n")
    assert read_table(path)["edu"].tolist() == ["None", "NA", "n/a", "null"]


def test_columns_named_as_text_keep_their_zeros(tmp_path):
    path = write(tmp_path / "a.csv", "region\n01\n02\n")
    assert read_table(path)["region"].tolist() == ["01", "02"]
    assert read_table(path, levels={"region": "numbers"})["region"].tolist() == [1, 2]
    declared = read_table(path, levels={"region": ["01", "02", "03"]})["region"]
    assert declared.tolist() == ["01", "02"]
    assert declared.cat.categories.tolist() == ["01", "02", "03"]


def test_a_release_is_read_as_its_original_was(tmp_path):
    original = read_table(write(tmp_path / "a.csv", "code,n\n1,5\nx,6\n"))
    release = read_like(write(tmp_path / "b.csv", "code,n\n1,5\n2,6\n"), original)
    assert release["code"].tolist() == ["1", "2"]
    assert release["n"].tolist() == [5, 6]


def test_byte_order_marks_and_commas_in_quotes_are_fine(tmp_path):
    path = write(tmp_path / "a.csv", '\ufeffedu,n\n"none, or some",1\n"two\nlines",2\n\n')
    assert read_table(path).columns.tolist() == ["edu", "n"]
    assert read_table(path)["edu"].tolist() == ["none, or some", "two\nlines"]


CUT_SHORT = gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-20]
NO_PARQUET = "a.parquet' is not a readable Parquet file" if find_spec("pyarrow") else "pyarrow"
NO_SAV = "is not a readable .sav file" if find_spec("pyreadstat") else "pyreadstat"
REFUSED = [  # name and content of a file, its index, what is said
    ("bad.csv", "", None, "is empty; its first line must name the columns"),
    ("bad.csv", "a,b,a\n1,2,3\n", None, r"names columns \['a'\] more than once"),
    ("bad.csv", "a,b\n1,2\n1,2,3\n", None, "line 3 of .* has 3 fields and the header 2"),
    ("bad.csv", "a,b\n1\n", None, "line 2 of .* has 1 fields and the header 2"),
    ("bad.csv", b"a\n\xff\xfe\n", None, "is not UTF-8 text"),
    ("bad.csv", "id,age\n1,20\n".encode("utf-16-le"), None, "NUL characters"),
    ("bad.csv.gz", b"no gzip at all", None, r"bad\.csv\.gz' could not be read"),
    ("bad.csv.gz", CUT_SHORT, None, r"bad\.csv\.gz' could not be read"),
    ("a.json", "", None, "give a file ending in .csv"),
    ("a.parquet", "a,b\n1,2\n", None, NO_PARQUET),
    ("a.sav", "a,b\n1,2\n", None, NO_SAV),
    ("a.xls", "x", None, "no known kind; .*save it as .xlsx"),
    ("a.ods", "x", None, "no known kind; .*CSV"),
    ("a.rds", "x", None, "no known kind; .*readRDS"),
    ("a.RData", "x", None, "no known kind; .*load"),
    ("a.csv", "age\n1\n", "id", "index names column 'id', which .*a.csv' does not have; it has"),
    ("a.csv", "id\n1\n1\n", "id", "but that of row 2 is missing or not unique"),
    ("a.csv", "id,a\n1,1\n,2\n", "id", "but that of row 2 is missing or not unique"),
]


@pytest.mark.parametrize(("name", "content", "index", "message"), REFUSED)
def test_what_is_no_table_is_named(tmp_path, name, content, index, message):
    with pytest.raises(InputError, match=message):
        read_table(write(tmp_path / name, content), index=index)
    with pytest.raises(InputError, match="there is no file .*nowhere.csv"):
        read_table(tmp_path / "nowhere.csv")


def test_declared_levels_make_categories_and_leave_the_table_alone():
    df = pd.DataFrame({"a": ["x", None], "b": [1, 2]})
    done = declare_levels(df, {"a": ["x", "y"], "b": [1, 2, 3]}, "the data")
    assert done["a"].cat.categories.tolist() == ["x", "y"]
    assert done["b"].cat.categories.tolist() == [1, 2, 3]
    assert df["b"].tolist() == [1, 2] and not isinstance(df["b"].dtype, pd.CategoricalDtype)


def test_values_outside_the_declared_levels_are_named():
    df = pd.DataFrame({"a": ["x", "z"]})
    with pytest.raises(InputError, match="column 'a' of the data holds .*declared levels"):
        declare_levels(df, {"a": ["x", "y"]}, "the data")
    with pytest.raises(InputError, match="names column 'q'"):
        declare_levels(df, {"q": ["x"]}, "the data")


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet", "dta"])
def test_more_columns_than_can_be_are_refused_before_they_are_read(ending, tmp_path, monkeypatch):
    wide, path = pd.DataFrame([[1, 2, 3], [4, 5, 6]], columns=list("abc")), tmp_path / f"a.{ending}"
    write = {"csv": wide.to_csv, "parquet": wide.to_parquet, "dta": wide.to_stata}[ending]
    write(path)
    monkeypatch.setattr(kinds, "MAX_COLUMNS", 2)
    monkeypatch.setattr(reader, "starts_processes", lambda: False)
    message = r"a.*' has [34] columns, and at most 2 are read; leave out those that are not needed"
    with pytest.raises(InputError, match=message):
        read_table(path)


def test_names_are_looked_up_once_a_column(tmp_path):
    """Time that grows with the square of the columns; a name counts how often it is compared."""
    compared = []

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            compared.append(other)
            return str.__eq__(self, other)

    names = [Name(f"c{j}") for j in range(300)]
    assert known_columns("columns", names, names) == names
    kinds.check_header(names, tmp_path / "a.csv")
    assert len(compared) <= 3 * len(names)


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "starts_processes", lambda: False)
    monkeypatch.setattr(kinds, "UNPACKED", {".csv.gz": (1_000, 20), ".parquet": (1_000, 2)})
    message = r"bomb.*' unpacks to more than [\d,]+ bytes, \d+ times its size; is it a damaged file"
    bomb = tmp_path / "bomb.csv.gz"
    for text in ("a,b\n" + "1,2\n" * 50_000, "a" * 200_000):  # many lines, and one without end
        bomb.write_bytes(gzip.compress(text.encode()))
        with pytest.raises(InputError, match=message):
            read_table(bomb)
    bomb = tmp_path / "bomb.parquet"
    pd.DataFrame({"a": np.ones(50_000)}).to_parquet(bomb)
    with pytest.raises(InputError, match=message):
        read_table(bomb)
    honest = tmp_path / "honest.csv.gz"
    honest.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 99))
    assert len(read_table(honest)) == 99


# --- Parquet -------------------------------------------------------------------------------------


def test_parquet_keeps_what_its_columns_are(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(
        {"id": [3, 1], "code": ["01", None], "job": pd.Categorical(["b", "b"], ["a", "b"])}
    )
    table.to_parquet(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "a.parquet"), table)
    found = read_table(tmp_path / "a.parquet", index="id")
    assert found.index.tolist() == [3, 1] and found["job"].cat.categories.tolist() == ["a", "b"]
    pd.testing.assert_frame_equal(read_like(tmp_path / "a.parquet", table), table)


def test_an_index_that_pandas_keeps_in_a_parquet_file_is_no_label(tmp_path):
    pytest.importorskip("pyarrow")
    sorted_rows = pd.DataFrame({"pay": [3, 1, 2], "job": list("abc")}).sort_values("pay")
    sorted_rows.to_parquet(tmp_path / "hidden.parquet")
    found = read_table(tmp_path / "hidden.parquet")
    pd.testing.assert_frame_equal(found, sorted_rows.reset_index(drop=True))
    released = read_like(tmp_path / "hidden.parquet", found)
    assert released.index.equals(pd.RangeIndex(3)) and list(released) == ["pay", "job"]

    sorted_rows.set_index("job").to_parquet(tmp_path / "named.parquet")  # a column like others
    assert sorted(read_table(tmp_path / "named.parquet")) == ["job", "pay"]
    labelled = read_table(tmp_path / "named.parquet", index="job")
    assert labelled.index.tolist() == list("bca") and labelled["pay"].tolist() == [1, 2, 3]

    numbered = pd.DataFrame({"pay": [1, 2]}, index=pd.RangeIndex(5, 7, name="id"))
    numbered.to_parquet(tmp_path / "range.parquet")  # stands in no column of the file
    assert read_table(tmp_path / "range.parquet").index.tolist() == [0, 1]


def test_without_pyarrow_parquet_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"pip install 'bayes_risk\[parquet\]'"):
        read_table(write(tmp_path / "a.parquet", "any"))


@pytest.mark.parametrize("given", ["age", "AGE", "àge"])
def test_a_column_of_other_accents_or_case_is_named(given):
    with pytest.raises(InputError, match="it has .*; did you mean 'âge'"):
        known_columns("known", [given], ["sexe", "âge"])
    with pytest.raises(InputError, match=r"it has \['sexe', 'âge'\]$"):
        known_columns("known", ["revenu"], ["sexe", "âge"])


def test_an_index_that_the_file_lacks_is_no_fault_of_the_columns(tmp_path):
    (tmp_path / "a.csv").write_text("age\n1\n")
    for index, columns, argument in (("id", ["age"], "index"), ("age", ["pay"], "columns")):
        with pytest.raises(InputError, match=f"^{argument} names column"):
            read_table(tmp_path / "a.csv", columns=columns, index=index)
