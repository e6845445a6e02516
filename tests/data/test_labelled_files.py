"""Stata, SAS and SPSS files: labels become levels, declared missing codes are told apart."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk import InputError, read_table
from bayes_risk.data import reader
from bayes_risk.data.microdata import Microdata
from bayes_risk.release.alike import read_like

pyreadstat = pytest.importorskip("pyreadstat")

SEX = {1.0: "Männer", 2.0: "女", 3.0: "other"}
REFUSED = {9.0: "refused"}


def spss(path, frame, labels=None, missing=None, measure=None, **how):
    pyreadstat.write_sav(
        frame,
        str(path),
        variable_value_labels=labels or {},
        missing_ranges=missing or {},
        variable_measure=measure or {},
        **how,
    )
    return path


def stata(path, frame, labels=None, missing=None):
    pyreadstat.write_dta(
        frame, str(path), variable_value_labels=labels or {}, missing_user_values=missing or {}
    )
    return path


def people(**columns):
    return pd.DataFrame({"sex": [1.0, 2.0, 2.0, 1.0], **columns})


# --- labels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.sav", "a.zsav", "A.SAV", "a.dta"])
def test_every_label_of_the_file_is_a_level_held_or_not(tmp_path, name):
    write = stata if name.endswith("dta") else spss
    labels = {1: "Männer", 2: "女", 3: "other"} if name.endswith("dta") else SEX
    frame = people().astype(int) if name.endswith("dta") else people()
    column = read_table(write(tmp_path / name, frame, {"sex": labels}))["sex"]
    assert column.tolist() == ["Männer", "女", "女", "Männer"]
    assert column.cat.categories.tolist() == list(SEX.values())
    assert not column.cat.ordered


def test_levels_stand_in_the_order_of_codes_whatever_the_labels_order(tmp_path):
    labels = {3.0: "a", 1.0: "c", 2.0: "b"}
    path = spss(tmp_path / "a.sav", people(), {"sex": labels}, measure={"sex": "ordinal"})
    column = read_table(path)["sex"]
    assert column.cat.categories.tolist() == ["c", "b", "a"]
    assert column.cat.ordered
    assert (column < "a").all()


def test_labels_of_text_codes_too(tmp_path):
    frame = people(job=["a", "b", "", "a"])
    path = spss(tmp_path / "a.sav", frame, {"job": {"a": "farmer", "b": "clerk", "c": "none"}})
    column = read_table(path)["job"]
    assert column.cat.categories.tolist() == ["farmer", "clerk", "none"]
    assert column.isna().tolist() == [False, False, True, False]


def test_numbers_text_and_dates_without_labels_stay_what_they_are(tmp_path):
    day = pd.to_datetime(["2020-02-29", None, "1899-01-01", "2021-12-31"])
    frame = people(x=[1.5, 2.0, np.nan, 4.0], note=["日本", "", "a b", "ß"], day=day)
    for path in (spss(tmp_path / "a.sav", frame), stata(tmp_path / "a.dta", frame)):
        table = read_table(path)
        assert table["sex"].dtype == "int64"
        assert table["x"].isna().tolist() == [False, False, True, False]
        assert table["note"].isna().tolist() == [False, True, False, False]
        assert table["note"].dropna().tolist() == ["日本", "a b", "ß"]
        assert pd.api.types.is_datetime64_any_dtype(table["day"])
        assert table["day"].tolist()[0] == pd.Timestamp("2020-02-29")
        assert table["day"].isna().tolist() == [False, True, False, False]


def test_transport_files_hold_values_alone(tmp_path):
    path = tmp_path / "a.xpt"
    pyreadstat.write_xport(people(job=["a", "", "c", "é"]), str(path))
    table = read_table(path)
    assert table["sex"].tolist() == [1, 2, 2, 1]
    assert table["job"].fillna("-").tolist() == ["a", "-", "c", "é"]


def test_the_engine_takes_levels_that_nobody_holds(tmp_path):
    table = read_table(spss(tmp_path / "a.sav", people(), {"sex": SEX}))
    assert Microdata.from_frame(table).n_levels.tolist() == [3]


# --- labels of some values, or of several ------------------------------------------------------


def test_labels_for_some_values_are_a_question(tmp_path):
    path = spss(tmp_path / "a.sav", people(age=[20.0, 31.0, 98.0, 98.0]), {"age": {98.0: "98+"}})
    with pytest.raises(InputError, match=r"column 'age' of .*a\.sav.* labels for 1 of the 3"):
        read_table(path)
    assert read_table(path, levels={"age": "codes"})["age"].tolist() == [20, 31, 98, 98]
    column = read_table(path, levels={"age": "labels"})["age"]
    assert column.tolist() == ["20", "31", "98+", "98+"]
    assert column.cat.categories.tolist() == ["20", "31", "98+"]
    assert read_table(path, columns=["sex"]).columns.tolist() == ["sex"]


def test_declared_levels_hold_against_labels_or_codes(tmp_path):
    path = spss(tmp_path / "a.sav", people(), {"sex": SEX})
    listed = read_table(path, levels={"sex": ["女", "Männer"]})["sex"]
    assert listed.cat.categories.tolist() == ["女", "Männer"]
    assert read_table(path, levels={"sex": [1, 2, 3, 4]})["sex"].tolist() == [1, 2, 2, 1]
    with pytest.raises(InputError, match="holds a value in row .* among its declared levels"):
        read_table(path, levels={"sex": ["女"]})
    with pytest.raises(InputError, match="levels names column 'q'"):
        read_table(path, levels={"q": "codes"})
    with pytest.raises(InputError, match=r"levels\['sex'\]='label' is not known"):
        read_table(path, levels={"sex": "label"})


def test_one_label_for_two_codes_is_named(tmp_path):
    path = spss(tmp_path / "a.sav", people(), {"sex": {1.0: "man", 2.0: "man", 3.0: "other"}})
    with pytest.raises(InputError, match="gives one label to 2 codes; give each its own"):
        read_table(path)
    assert read_table(path, levels={"sex": "codes"})["sex"].tolist() == [1, 2, 2, 1]


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.dta", "a.sav"])
def test_held_values_are_levels(tmp_path, name):
    frame = pd.DataFrame({"area": [7, 30, 7, 4]})
    path = tmp_path / name
    if name == "a.csv":
        frame.to_csv(path, index=False)
    elif name == "a.parquet":
        frame.to_parquet(path)
    else:
        (stata if name == "a.dta" else spss)(path, frame)
    column = read_table(path, levels={"area": "held"})["area"]
    assert column.cat.categories.tolist() == [4, 7, 30] and column.tolist() == [7, 30, 7, 4]


# --- codes declared as missing -------------------------------------------------------------


def refusing(path):
    frame = pd.DataFrame(
        {"sex": [1.0, 9.0, np.nan, 2.0], "pay": [10.0, -8.0, 30.5, -1.0], "job": list("abzb")}
    )
    return spss(
        path,
        frame,
        {"sex": SEX | REFUSED, "pay": {-8.0: "not applicable"}},
        {"sex": [9.0], "pay": [{"lo": -9.0, "hi": -1.0}], "job": ["z"]},
        {"sex": "ordinal"},
    )


def test_held_missing_codes_are_an_error_that_counts_them_and_names_none(tmp_path):
    path = refusing(tmp_path / "a.sav")
    with pytest.raises(InputError, match=r"'sex' .* 1 code declared as missing, in 1 record;"):
        read_table(path)
    with pytest.raises(InputError, match=r"'pay' .* 2 codes declared as missing, in 2 records;"):
        read_table(path, columns=["pay"])


def test_missing_codes_become_levels_after_the_answers(tmp_path):
    path = refusing(tmp_path / "a.sav")
    table = read_table(path, columns=["sex", "job"], missing="level")
    assert table["sex"].cat.categories.tolist() == [*SEX.values(), "refused"]
    assert not table["sex"].cat.ordered
    assert table["sex"].tolist()[:2] == ["Männer", "refused"]
    assert table["sex"].isna().tolist() == [False, False, True, False]
    assert table["job"].tolist() == list("abzb")


def test_missing_codes_become_missing_values(tmp_path):
    table = read_table(refusing(tmp_path / "a.sav"), missing="blank")
    assert table["sex"].cat.categories.tolist() == list(SEX.values())
    assert table["sex"].cat.ordered
    assert table["sex"].isna().tolist() == [False, True, True, False]
    assert table["pay"].isna().tolist() == [False, True, False, True]
    assert table["pay"].dtype == float
    assert table["job"].isna().tolist() == [False, False, True, False]


def test_a_number_has_no_level_for_missing_codes(tmp_path):
    path = refusing(tmp_path / "a.sav")
    with pytest.raises(InputError, match=r"'pay' .* is a number and holds 2 codes declared"):
        read_table(path, missing="level")
    table = read_table(path, missing={"sex": "level", "pay": "blank", "job": "level"})
    assert table["pay"].dropna().tolist() == [10.0, 30.5]
    assert "refused" in table["sex"].cat.categories


def test_labels_of_missing_codes_alone_make_no_category(tmp_path):
    labels, missing = {"age": {99.0: "unknown"}}, {"age": [99.0]}
    path = spss(tmp_path / "a.sav", people(age=[20.0, 21.0, 22.0, 23.0]), labels, missing)
    assert read_table(path)["age"].tolist() == [20, 21, 22, 23]


@pytest.mark.parametrize(("mode", "blank"), [("level", [2]), ("blank", [1, 2])])
def test_letters_of_stata_and_its_plain_missing_value(tmp_path, mode, blank):
    frame = pd.DataFrame({"sex": pd.array([1, "a", None, 2], dtype=object)})
    labels = {"sex": {1: "man", 2: "woman", "a": "refused"}}
    path = stata(tmp_path / "a.dta", frame, labels, {"sex": ["a"]})
    with pytest.raises(InputError, match="1 code declared as missing, in 1 record;"):
        read_table(path)
    column = read_table(path, missing=mode)["sex"]
    assert np.flatnonzero(column.isna()).tolist() == blank
    assert column.cat.categories.tolist() == ["man", "woman"] + ["refused"] * (mode == "level")


def test_a_letter_without_a_label_is_named_as_stata_names_it(tmp_path):
    frame = pd.DataFrame({"x": pd.array([1, 2, "b"], dtype=object)})
    path = stata(tmp_path / "a.dta", frame, {"x": {1: "no", 2: "yes"}}, {"x": ["b"]})
    column = read_table(path, missing="level")["x"]
    assert column.tolist() == ["no", "yes", ".b"]


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("keep", "missing='keep' is not known"),
        ({"sex": "keep"}, r"missing\['sex'\]='keep' is not known"),
        ({"q": "level"}, "missing names column 'q'"),
        (3, "missing is a int"),
    ],
    ids=["word", "word of a column", "column", "kind"],
)
def test_words_for_missing_codes_are_checked(tmp_path, missing, message):
    (tmp_path / "a.csv").write_text("sex\n1\n2\n")
    for path in (spss(tmp_path / "a.sav", people()), tmp_path / "a.csv"):
        with pytest.raises(InputError, match=message):
            read_table(path, missing=missing)


# --- columns and record labels -----------------------------------------------------------


def test_columns_stand_as_wanted_and_the_index_is_read_too(tmp_path):
    frame = people(id=["d", "c", "b", "a"], x=[1.0, 2.0, 3.0, 4.0])
    for path in (spss(tmp_path / "a.sav", frame), stata(tmp_path / "a.dta", frame)):
        table = read_table(path, columns=["x", "sex"], index="id")
        assert table.columns.tolist() == ["x", "sex"]
        assert table.index.tolist() == list("dcba")
        with pytest.raises(
            InputError, match="columns names column 'y', which .* does not have; it has"
        ):
            read_table(path, columns=["y"])
        with pytest.raises(InputError, match="'sex' .* but .* is missing or not unique"):
            read_table(path, index="sex")


def test_files_without_records_are_tables_without_records(tmp_path):
    table = read_table(spss(tmp_path / "a.sav", people().head(0), {"sex": SEX}))
    assert len(table) == 0
    assert table["sex"].cat.categories.tolist() == list(SEX.values())
    with pytest.raises(InputError, match="original has no records"):
        br.identification_risk(table, [table], known=["sex"], synthesized=[])


# --- broken files ----------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".sav", ".zsav", ".dta", ".sas7bdat", ".xpt"])
@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty; give the whole file"), (b"nonsense" * 99, "is not a readable .* file")],
    ids=["empty", "nonsense"],
)
def test_files_that_are_none_are_named(tmp_path, suffix, content, message):
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"bad{suffix}' {message}"):
        read_table(path)


@pytest.mark.parametrize("name", ["a.sav", "a.zsav", "a.dta"])
def test_files_cut_short_are_named(tmp_path, name):
    frame = pd.DataFrame({"x": np.arange(500.0), "t": ["text"] * 500})
    path = (stata if name.endswith("dta") else spss)(tmp_path / name, frame)
    path.write_bytes(path.read_bytes()[: -path.stat().st_size // 3])
    with pytest.raises(InputError, match=f"{name}' is not a readable"):
        read_table(path)


@pytest.mark.parametrize("named", ["a.csv", "a.dta"])
def test_files_of_another_kind_than_their_name_are_named(tmp_path, named):
    spss(tmp_path / "a.sav", people()).rename(tmp_path / named)
    with pytest.raises(InputError, match="begins as a .sav file does"):
        read_table(tmp_path / named)


def test_without_pyreadstat_the_cure_is_told(tmp_path, monkeypatch):
    path = spss(tmp_path / "a.sav", people())
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(InputError, match=r'pip install "bayes-risk\[formats\]"'):
        read_table(path)


# --- SAS, whose files nothing here can write ------------------------------------------------


@pytest.mark.parametrize("catalog", ["a.sas7bcat", "formats.sas7bcat", None])
def test_sas_takes_its_labels_from_the_catalog_beside_it(tmp_path, monkeypatch, catalog):
    path = tmp_path / "a.sas7bdat"
    path.write_bytes(b"any")
    if catalog is not None:
        (tmp_path / catalog).write_bytes(b"any")
    meta = SimpleNamespace(
        column_names=["sex"],
        missing_ranges={},
        variable_measure={},
        variable_to_label={"sex": "SEXF"},
        readstat_variable_types={"sex": "double"},
    )

    def data(name, *, user_missing=False, **how):
        stored = [1.0, 2.0, "A" if user_missing else None]
        return pd.DataFrame({"sex": pd.array(stored, dtype=object)}), meta

    def labels(name):
        formats = {"SEXF": {1.0: "man", 2.0: "woman", 3.0: "other", "A": "refused"}}
        return pd.DataFrame(), SimpleNamespace(value_labels=formats)

    monkeypatch.setattr(reader, "starts_processes", lambda: False)
    monkeypatch.setattr(pyreadstat, "read_sas7bdat", data)
    monkeypatch.setattr(pyreadstat, "read_sas7bcat", labels)
    column = read_table(path, missing="blank")["sex"]
    assert column.isna().tolist() == [False, False, True]
    if catalog is None:
        assert column.tolist()[:2] == [1, 2]
    else:
        assert column.cat.categories.tolist() == ["man", "woman", "other"]


# --- releases of labelled originals ---------------------------------------------------------


def test_a_release_takes_the_levels_of_its_original(tmp_path):
    original = read_table(spss(tmp_path / "a.sav", people(), {"sex": SEX}))
    (tmp_path / "b.csv").write_text("sex\n女\n女\n女\n女\n")
    labelled = spss(tmp_path / "c.sav", people(), {"sex": {1.0: "Männer", 2.0: "女"}})
    for path in (tmp_path / "b.csv", labelled):
        release = read_like(path, original)
        assert release["sex"].dtype == original["sex"].dtype
    risk = br.identification_risk(
        original, [read_like(labelled, original)], known=[], synthesized=["sex"]
    )
    assert risk.summary()["expected_match_risk"].iloc[0] == 4 * 1 / 2


def test_codes_in_a_release_of_labels_are_named(tmp_path):
    original = read_table(spss(tmp_path / "a.sav", people(), {"sex": SEX}))
    (tmp_path / "b.csv").write_text("sex\n1\n2\n2\n1\n")
    with pytest.raises(InputError, match="holds a value in row 1 which .* write it with labels"):
        read_like(tmp_path / "b.csv", original)


def test_dates_of_a_text_file_become_the_originals_dates(tmp_path):
    day = pd.to_datetime(["2020-02-29", "2020-03-01", "2020-03-01", "2021-12-31"])
    original = read_table(stata(tmp_path / "a.dta", people(day=day)))
    (tmp_path / "b.csv").write_text("day\n2020-02-29\n2020-03-01\n\n2020-03-01\n")
    release = read_like(tmp_path / "b.csv", original)
    assert release["day"].tolist()[:2] == original["day"].tolist()[:2]
    (tmp_path / "b.csv").write_text("day\nlast Monday\n")
    with pytest.raises(InputError, match="column 'day' holds dates in the original and text in"):
        read_like(tmp_path / "b.csv", original)


@pytest.mark.parametrize("kind", ["sav", "dta", "xport"])
def test_whole_numbers_beside_missing_ones_are_whole(tmp_path, kind):
    table = pd.DataFrame({"n": [1.0, np.nan, 3.0], "pay": [1.5, np.nan, 3.0], "no": [np.nan] * 3})
    path = tmp_path / f"a.{kind.replace('xport', 'xpt')}"
    getattr(pyreadstat, f"write_{kind}")(table, path)
    found = br.read_table(path)
    assert found["n"].dtype == "Int64" and found["n"].dropna().tolist() == [1, 3]
    assert found["pay"].dtype == found["no"].dtype == float


def test_whole_numbers_of_parquet_are_exact_beside_missing_ones(tmp_path):
    table = pd.DataFrame({"n": pd.array([2**53 + 1, None, -(2**62) - 1], dtype="Int64")})
    table["pay"], table["m"] = [1.5, None, 2.0], [1, 2, 3]
    for index in (None, [3, 4, 5]):
        table.set_axis(index or range(3)).to_parquet(tmp_path / "a.parquet")
        found = br.read_table(tmp_path / "a.parquet")
        assert found["n"].dropna().tolist() == [2**53 + 1, -(2**62) - 1]
        assert found.dtypes.astype(str).tolist() == ["Int64", "float64", "int64"]
