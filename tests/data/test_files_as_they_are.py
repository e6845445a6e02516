"""Delimited files as programs write them: told from the file and said, or given."""

import csv
import datetime
import gzip
import io
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk import InputError, read_table
from bayes_risk.app.cli import app
from bayes_risk.data.table import as_dates, in_days
from bayes_risk.data.variables import Number
from bayes_risk.data.writing import form_of, write_tables
from bayes_risk.release.alike import read_like

ROWS = [("Zoë", 1234.5, "Köln, Süd"), ("José", -2.25, "Łódź"), ("Anne", 30.0, "x")]
MANNERS = {
    "a point and commas": (",", ".", "utf-8", None),
    "Excel in German": (";", ",", "utf-8-sig", "separator ';', decimal ','"),
    "tabs": ("\t", ".", "utf-8", r"separator '\\t'"),
    "strokes": ("|", ",", "utf-8", r"separator '\|', decimal ','"),
    "UTF-16": ("\t", ",", "utf-16", r"separator '\\t', decimal ',', encoding 'utf-16'"),
}


def written(separator, decimal, rows=ROWS):
    quoted = [(f'"{n}"', str(x).replace(".", decimal), f'"{place}"') for n, x, place in rows]
    return "\r\n".join(separator.join(row) for row in [("name", "pay", "place"), *quoted])


@pytest.mark.parametrize("manner", MANNERS)
def test_separator_decimal_mark_and_encoding_are_told_and_said(tmp_path, manner):
    separator, decimal, encoding, said = MANNERS[manner]
    content = written(separator, decimal).encode(encoding)
    for path in (tmp_path / "a.csv", tmp_path / "a.csv.gz"):
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        if said is None:
            table = read_table(path)
        else:
            with pytest.warns(UserWarning, match=f"a.csv.* is read with {said}"):
                table = read_table(path)
        assert [tuple(row) for row in table.itertuples(index=False)] == ROWS
        how = {"separator": separator, "decimal": decimal, "encoding": encoding}
        pd.testing.assert_frame_equal(read_table(path, **how), table)


def test_western_text_without_unicode_is_read_and_other_bytes_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("name,n\nZoë,1\nCélian,2\n", encoding="cp1252")
    with pytest.warns(UserWarning, match="is read with encoding 'cp1252'"):
        assert read_table(tmp_path / "a.csv")["name"].tolist() == ["Zoë", "Célian"]
    (tmp_path / "a.csv").write_text("name,n\nŁódź,1\nKraków,2\n", encoding="cp1250")
    with pytest.raises(InputError, match='is not UTF-8 text .*give what it is: encoding="cp1250"'):
        read_table(tmp_path / "a.csv")
    assert read_table(tmp_path / "a.csv", encoding="cp1250")["name"][0] == "Łódź"


def test_rows_of_different_lengths_are_no_reason_for_another_separator(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1;2,3\n4;5,6\n7,8,9\n")
    with pytest.raises(InputError, match="line 4 of .* has 3 fields and the header 2"):
        read_table(tmp_path / "a.csv")


@pytest.mark.parametrize("word", ["NA", ".", "#N/A", "nan", "None", "-"])
def test_a_word_for_missing_values_among_numbers_is_said_with_the_cure(tmp_path, word):
    (tmp_path / "a.csv").write_text(f"pay,n,job\n1,1,x\n{word},2,{word}\n3,3,y\n")
    with pytest.warns(UserWarning, match=rf"'{re.escape(word)}' among .*'pay'.* read as missing"):
        table = read_table(tmp_path / "a.csv")
    assert table["pay"].fillna(0).tolist() == [1, 0, 3] and table["pay"].dtype == "Int64"
    assert table["job"].tolist() == ["x", word, "y"]  # an answer, as far as anybody knows
    kept = read_table(tmp_path / "a.csv", levels={"pay": "text"})
    assert kept["pay"].tolist() == ["1", word, "3"]
    assert read_table(tmp_path / "a.csv", na=[word])["pay"].isna().sum() == 1


def test_a_code_that_means_missing_is_a_number_however_it_is_written(tmp_path):
    texts = ["-8", "-8,0", "-8,00", "-8,", "-8,01", "-80", "8", "-18,0", '"-8,0"']
    (tmp_path / "a.csv").write_text("\n".join(["a;pay", *(f"{t};1" for t in texts)]))
    for na in ("-8", "-8,0"):
        table = read_table(tmp_path / "a.csv", na=[na], separator=";", decimal=",")
        assert table["a"].isna().tolist() == [True] * 4 + [False] * 5
    how = {"levels": {"a": "numbers"}, "separator": ";", "decimal": ","}
    table = read_table(tmp_path / "a.csv", na=["-8,010"], **how)
    assert table["a"].isna().sum() == 1 == table["a"].isna()[4]


@pytest.mark.parametrize("blank", [" ", "\u00a0", "\u202f"])
def test_blanks_between_digits_are_for_thousands(tmp_path, blank):
    texts = [f"2{blank}000,00", f"1{blank}000{blank}000", "500,5", "", f"-12{blank}345,1"]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["pay;n", *(f"{t};1" for t in texts)]), encoding="utf-8")
    with pytest.warns(UserWarning) as said:
        pay = read_table(path)["pay"]
    assert pay.dropna().tolist() == [2000, 1_000_000, 500.5, -12345.1] and pay.isna().sum() == 1
    assert "decimal ','" in str(said[0].message)
    assert "'pay' " in str(said[1].message) and "blanks for thousands" in str(said[1].message)
    how = {"separator": ";", "decimal": ","}
    assert read_table(path, levels={"pay": texts}, **how)["pay"].tolist()[0] == texts[0]
    path.write_text(f"pay;n\n1{blank}000;1\n12{blank}34;2", encoding="utf-8")  # one that is none
    assert read_table(path, **how)["pay"].tolist() == [f"1{blank}000", f"12{blank}34"]


def test_words_among_amounts_are_said_by_their_row_alone(tmp_path):
    path = tmp_path / "a.csv"
    amounts = [f"{k} 000,5" for k in range(1, 31)]
    path.write_text("\n".join(["pay;n", *(f"{t};1" for t in [*amounts, "refus", "nsp", "refus"])]))
    how = {"separator": ";", "decimal": ","}
    with pytest.warns(
        UserWarning, match=r"'pay' .*text \(in 3 rows, first row 31\).* in `na`"
    ) as said:
        read_table(path, **how)
    assert len(said) == 1 and "refus" not in str(said[0].message)
    with pytest.warns(UserWarning, match="blanks for thousands"):
        assert read_table(path, na=["refus", "nsp"], **how)["pay"].isna().sum() == 3


def test_row_names_of_r_are_a_column(tmp_path):
    (tmp_path / "a.csv").write_text('"sex","pay"\n"1","f",2\n"2","m",3\n')
    with pytest.warns(UserWarning, match="have a field more than its header: 'row.names'"):
        table = read_table(tmp_path / "a.csv")
    assert table.to_dict("list") == {"row.names": [1, 2], "sex": ["f", "m"], "pay": [2, 3]}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"separator": "ab"}, "separator='ab' is not a single character"),
        ({"separator": '"'}, "separator='\"' is not a single character"),
        ({"decimal": "'"}, 'decimal="\'"; give'),
        ({"separator": ",", "decimal": ","}, "another separator than it"),
        ({"encoding": "utf-9"}, "encoding='utf-9' is not known"),
        ({"encoding": "rot13"}, "encoding='rot13' is not known"),
        ({"encoding": "undefined"}, "encoding='undefined' is not known"),
        ({"encoding": "utf-16"}, "is not UTF-16 text; save it as UTF-8, or give"),
        ({"encoding": "punycode"}, "is not PUNYCODE text; save it as UTF-8, or give"),
        ({"days": ["pay"]}, "days names column 'pay'"),
        (
            {"days": ["b"]},
            "column 'b' of .* holds text that is not a date; write dates as 2020-01-31",
        ),
        (
            {"days": ["a"]},
            "column 'a' of .* holds numbers that are not dates; write dates as 2020-",
        ),
        (
            {"days": ["c"]},
            "column 'c' of .* holds numbers that are not dates; write dates as 2020-",
        ),
    ],
)
def test_what_cannot_be_given_is_named(tmp_path, how, message):
    (tmp_path / "a.csv").write_text("a,b,c\n1,x,1.5\n2,y,2.5\n")
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / "a.csv", **how)


# --- dates --------------------------------------------------------------------------------------


DAY = (datetime.date(2020, 3, 14) - datetime.date(1970, 1, 1)).days


@pytest.mark.parametrize(
    "texts", [["2020-03-14", "2020-03-15"], ["14.03.2020", "15.3.2020"], ["14/3/2020", "15/3/2020"]]
)
def test_dates_become_days_and_dates_again(texts):
    days = in_days(pd.Series(texts), "x")
    assert days.tolist() == [DAY, DAY + 1] and days.dtype == "int64"
    assert as_dates(days).tolist() == ["2020-03-14", "2020-03-15"]


def test_times_of_day_and_missing_dates_stay(tmp_path):
    days = in_days(pd.Series(["2020-03-14 12:00", None]), "x")
    assert days.tolist()[0] == DAY + 0.5 and days.isna().tolist() == [False, True]
    assert as_dates(days).tolist()[0] == "2020-03-14T12:00:00"
    assert in_days(pd.Series(pd.to_datetime(["2020-03-14"])), "x").tolist() == [DAY]


def test_a_day_that_may_be_a_month_is_asked_about():
    with pytest.raises(InputError, match="x holds dates whose day may be their month"):
        in_days(pd.Series(["1/2/2020", "3/4/2020"]), "x")
    assert in_days(pd.Series(["1/2/2020", "3/14/2020"]), "x").tolist()[1] == DAY


def test_dates_of_a_release_are_days_where_the_originals_are(tmp_path):
    (tmp_path / "a.csv").write_text("day\n2020-03-14\n2020-03-15\n")
    (tmp_path / "b.csv").write_text("day\n15.3.2020\n14.3.2020\n")
    original = read_table(tmp_path / "a.csv", days=["day"])
    assert read_like(tmp_path / "b.csv", original)["day"].tolist() == [DAY + 1, DAY]
    (tmp_path / "b.csv").write_text("day\nlater\nearlier\n")
    assert read_like(tmp_path / "b.csv", original)["day"].tolist() == ["later", "earlier"]


def test_identify_takes_such_files_and_radii_in_days(tmp_path):
    days = [f"2020-03-{d:02d}" for d in range(1, 21)]
    later = [f"2020-03-{d + 2:02d}" for d in range(1, 21)]
    for name, column in (("a.csv", days), ("b.csv", later)):
        lines = "".join(f"f;{d};{i},5\n" for i, d in enumerate(column))
        (tmp_path / name).write_text("sex;day;pay\n" + lines)
    call = ["identify", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), "--known", "pay"]
    call += ["--synthesized", "day", "--days", "day", "--no-fallback"]
    near, far = (
        CliRunner().invoke(app, [*call, "--radius", f"day={d}", "--json", str(tmp_path / f"{d}")])
        for d in (2, 1)
    )
    assert near.exit_code == far.exit_code == 0, near.output + far.output
    assert "is read with separator ';', decimal ','" in " ".join(near.stderr.split())
    given = [
        *call,
        "--radius",
        "day=2",
        "--separator",
        ";",
        "--decimal",
        ",",
        "--encoding",
        "utf-8",
    ]
    stages = CliRunner().invoke(app, given).stderr.splitlines()
    assert [line for line in stages if ": done in " not in line] == []
    shares = [pd.read_json(tmp_path / d, typ="series")["measures"] for d in ("2", "1")]
    assert [s["pooled"]["true_match_rate"] for s in shares] == [1.0, 0.0]


FORMS = {  # how the original is written: what a release of it is
    "day,sex\n2020-03-01,f\n,m\n": ("day,sex\n2020-03-14,f\n,m\n", {}),
    "day;sex;pay;n\n01.03.2020;f;1,5;NA\n02.03.2020;m;2,25;3\n": (
        "day;sex;pay;n\n14.03.2020;f;0,5;NA\n15.03.2020;m;-1,0;7\n",
        {"na": ["NA"]},
    ),
    "day\tn\tpay\n20200301\t-8\t0.5\n20200302\t1\t.\n20200303\t-8\t1.5\n": (
        "day\tn\tpay\n20200314\t7\t0.5\n20200315\t-8\t.\n",
        {"na": ["-8.0"]},
    ),
}


@pytest.mark.parametrize("text", FORMS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1250"])
@pytest.mark.filterwarnings("ignore:.*(is read with|read as missing)")
def test_synthetic_files_come_in_the_form_of_the_original(tmp_path, text, encoding):
    expected, how = FORMS[text]
    path, written = tmp_path / "a.csv", {"encoding": encoding, **how}
    path.write_text(text.replace("f", "ż"), encoding=encoding)
    original = br.read_table(path, days=["day"], **written)
    (tmp_path / "b.csv").write_text(expected.replace("f", "ż"), encoding=encoding)
    table = br.read_table(tmp_path / "b.csv", days=["day"], **written)
    if "n" in table:
        assert table["n"].dropna().tolist() == [7] and table["n"].dtype == "Int64"
    form = form_of(path, table, days=["day"], **written)
    write_tables(tmp_path, [table], form=form)
    back = (tmp_path / "synthetic-1.csv").read_bytes()
    assert back == expected.replace("f", "ż").encode(encoding)
    assert list(original) == list(table)


def test_synthetic_files_of_other_kinds_are_plain_csvs(tmp_path):
    table = pd.DataFrame({"day": [DAY, DAY + 1], "n": pd.array([1, None], dtype="Int64")})
    table.to_parquet(tmp_path / "a.parquet")
    form = form_of(tmp_path / "a.parquet", table, days=["day"])
    write_tables(tmp_path, [table], form=form)
    assert (tmp_path / "synthetic-1.csv").read_text() == "day,n\n2020-03-14,1\n2020-03-15,\n"


def test_answers_some_of_which_are_missing_are_read_alike_in_release_and_original(tmp_path):
    for name, rows in (("a", "TRUE\nNA\nFALSE\n"), ("b", "FALSE\nTRUE\nNA\n")):
        (tmp_path / f"{name}.csv").write_text(f"owner\n{rows}")
    original = br.read_table(tmp_path / "a.csv", na=["NA"])
    release = read_like(tmp_path / "b.csv", original, na=["NA"])
    assert release["owner"].tolist()[:2] == [False, True] and release["owner"].isna()[2]
    released = br.Release(datasets=[release.reset_index(drop=True)], synthesized=["owner"])
    fit = br.models.DPMPM(n_classes=1).fit(original, missing="level", draws=20, tune=20)
    assert len(br.attribute_risk(fit, released).index) == 3


# --- one kind for all rows ----------------------------------------------------------------------


def kinds(tmp_path, *fields, **how):
    """Kind and values of a column of these fields."""
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"{field},x\n" for field in fields))
    column = read_table(tmp_path / "a.csv", **how)["a"]
    return str(column.dtype), column.tolist()


@pytest.mark.parametrize(
    ("fields", "kind", "values"),
    [
        (["1.50", "2.5", "10"], "float64", [1.5, 2.5, 10.0]),
        (["1.50", "2.50", "3.00"], "float64", [1.5, 2.5, 3.0]),
        (["1.0", "2.0", "2.25"], "float64", [1.0, 2.0, 2.25]),
        (["-0.0", "0.0", "1.5"], "float64", [0.0, 0.0, 1.5]),
        (["1e+05", "99999", "1.0E5", "0.5"], "float64", [1e5, 99999.0, 1e5, 0.5]),
        (["+1", "0", "-1"], "int64", [1, 0, -1]),
        ([" 5", "6", "10 "], "int64", [5, 6, 10]),
        (["9007199254740993", "5"], "int64", [9007199254740993, 5]),
        *(
            (f, "str", f)
            for f in (["01.1", "1.2"], ["1E1", "20"], ["1", "01"], ["007"], ["0", "00"])
        ),
        *((f, "str", f) for f in (["99999999999999999999", "1"], ["18446744073709551615", "1"])),
        (["5", "N"], "str", ["5", "N"]),
    ],
)
def test_codes_that_read_as_numbers_stay_text_and_amounts_are_numbers(
    tmp_path, fields, kind, values
):
    assert kinds(tmp_path, *fields) == (kind, values)
    assert kinds(tmp_path, *fields, levels={"a": "text"}) == ("str", fields)


@pytest.mark.parametrize("fields", [["10.1", "10.10"], ["2", "+2"], ["10", "10.0"], [".5", "0.5"]])
def test_one_number_in_two_spellings_is_text_and_said(tmp_path, fields):
    with pytest.warns(
        UserWarning, match=r"'a' .*two spellings, so it is text; .numbers. as its levels"
    ):
        assert kinds(tmp_path, *fields) == ("str", fields)
    asked = kinds(tmp_path, *fields, levels={"a": "numbers"})[1]
    assert asked == [float(fields[0])] * 2
    late = ["1"] * 150 + ["2.5"] * 100 + fields  # beyond the rows that are looked at together
    with pytest.warns(UserWarning, match="two spellings"):
        assert kinds(tmp_path, *late) == ("str", late)


def test_whole_numbers_beside_missing_ones_stay_whole_and_exact(tmp_path):
    kind, values = kinds(tmp_path, "9007199254740993", "", "3")
    assert kind == "Int64" and (values[0], values[2]) == (9007199254740993, 3)
    assert kinds(tmp_path, "1", "", "3")[0] == "Int64"
    assert kinds(tmp_path, "1.0", "", "3.0")[0] == "float64"
    assert kinds(tmp_path, "NA", "01", "1", na=["NA"])[1][1:] == ["01", "1"]


def test_what_is_to_be_numbers_and_is_not_is_named(tmp_path):
    with pytest.raises(InputError, match="'a' of .* is to be numbers and holds text, or more"):
        kinds(tmp_path, "1", "x", levels={"a": "numbers"})
    with pytest.raises(InputError, match="or more than 18 digits; name its words"):
        kinds(tmp_path, "12345678901234567890", "5", levels={"a": "numbers"})
    assert kinds(tmp_path, "01", "02", levels={"a": [1, 2, 3]}) == ("category", [1, 2])


@pytest.mark.parametrize("columns", [pytest.param(1, marks=pytest.mark.slow), 100])
def test_a_word_after_many_rows_makes_all_of_its_column_text(tmp_path, columns):
    """Pandas judges a file in pieces: 2^19 rows of one column, 2^13 of a hundred."""
    rows = 2**19 + 1 if columns == 1 else 10_000
    line = ",".join(["5"] * columns) + "\n"
    names = ",".join(f"c{j}" for j in range(columns)) + "\n"
    (tmp_path / "a.csv").write_text(names + rows * line + line.replace("5", "N"))
    table = read_table(tmp_path / "a.csv")
    for name in ("c0", f"c{columns - 1}"):
        assert table[name].dtype == "str" and table[name].unique().tolist() == ["5", "N"]
    (tmp_path / "b.csv").write_text(names + rows * line + line.replace("5", "05"))
    late = read_table(tmp_path / "b.csv")["c0"]
    assert late.unique().tolist() == ["5", "05"]
    table.to_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet")["c0"].unique().tolist() == ["5", "N"]


def test_dates_are_of_any_year_and_instants_of_any_zone():
    far = in_days(pd.Series(["9999-12-31", "0001-01-01", "1970-01-02"]), "x")
    assert far.tolist() == [2932896, -719162, 1]
    assert as_dates(far).tolist() == ["9999-12-31", "0001-01-01", "1970-01-02"]
    zones = in_days(pd.Series(["2020-01-01T12:00+02:00", "2020-07-01T03:00+03:00"]), "x")
    assert zones.tolist() == [18262 + 10 / 24, 18444.0]
    stamps = pd.Series(pd.to_datetime(["2020-01-01T12:00"])).dt.tz_localize("Europe/Paris")
    assert in_days(stamps, "x").tolist() == [18262 + 11 / 24]
    assert in_days(pd.Series([20200131, None], dtype="Int64"), "x").tolist()[0] == 18292


# --- encodings, and commands ----------------------------------------------------------------------


def test_an_encoding_that_is_given_is_that_of_files_that_are_not_utf_8(tmp_path):
    rows = "name,n\nŁódź,1\nMichał,2\n"
    for encoding in ("cp1250", "utf-8", "utf-8-sig", "utf-16"):
        (tmp_path / "a.csv").write_text(rows, encoding=encoding)
        found = read_table(tmp_path / "a.csv", encoding="cp1250", separator=",", decimal=".")
        assert found["name"].tolist() == ["Łódź", "Michał"]
    (tmp_path / "a.csv").write_text("name\nMichał\nPaweł\n", encoding="cp1250")
    with pytest.raises(InputError, match='give what it is: encoding="cp1250"'):
        read_table(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("v,w\n5 m³,£5\n¿Qué?,5 cm³\n", encoding="cp1252")
    with pytest.warns(UserWarning, match="is read with encoding 'cp1252'"):
        assert read_table(tmp_path / "a.csv")["v"].tolist() == ["5 m³", "¿Qué?"]
    (tmp_path / "a.csv").write_text("name,n\nx,1\n", encoding="utf-16-le")
    assert read_table(tmp_path / "a.csv", encoding="utf-16-le")["name"].tolist() == ["x"]


def rate(tmp_path, *options):
    given = ["identify", str(tmp_path / "o.csv"), str(tmp_path / "s.csv"), "--known", "sex"]
    given += ["--synthesized", "code", "--json", str(tmp_path / f"{len(options)}.json"), *options]
    found = CliRunner().invoke(app, given)
    assert found.exit_code == 0, found.output
    numbers = pd.read_json(tmp_path / f"{len(options)}.json", typ="series")["measures"]
    return numbers["pooled"]["expected_match_risk"]


def test_codes_of_a_command_are_as_many_as_are_written(tmp_path):
    """NACE 10.1 and 10.10 are two activities; as one number they would match each other."""
    codes, n = ["10.1", "10.10", "11.5", "12.50"], 400
    table = pd.DataFrame({"sex": ["f", "m"] * (n // 2), "code": [codes[i % 4] for i in range(n)]})
    for name in "os":
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    two, one = rate(tmp_path), rate(tmp_path, "--numbers", "code")
    assert (two, one) == (4.0, 4.0)  # sex tells 10.1 from 10.10 here
    table["sex"] = "f"
    for name in "os":
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "0.json").unlink()
    (tmp_path / "2.json").unlink()
    assert (rate(tmp_path), rate(tmp_path, "--numbers", "code")) == (4.0, 3.0)
    assert rate(tmp_path, "--text", "code", "--na", "x") == 4.0


def test_whole_numbers_that_are_dates_are_proposed_as_days(tmp_path):
    days = pd.date_range("2001-02-03", periods=60).strftime("%Y%m%d")
    table = pd.DataFrame({"day": days, "sex": ["f", "m"] * 30, "n": range(19_990_000, 19_990_060)})
    table.to_csv(tmp_path / "a.csv", index=False)
    found = br.study_of(tmp_path / "a.csv")
    assert 'days = ["day"]' in found.text and "dates" in found.columns["why"]["day"]
    assert "day = { absolute = 5 }" in found.text or "day" in found.columns.index
    assert "n" not in found.text.partition("days = ")[2].partition("]")[0].split('"')
    read = br.read_table(tmp_path / "a.csv", days=["day"])["day"]
    assert read.diff().dropna().eq(1).all()


@pytest.mark.parametrize("stored", ["Int64", "int64"])
def test_whole_numbers_that_are_missing_for_some_are_released_whole(stored):
    column = pd.Series([1, -8, 3], dtype=stored, name="n")
    made = Number.of(column, "n", missing=-9).decode(np.array([2.0, -9.0, 3.0]), pd.RangeIndex(3))
    assert made.dtype == "Int64" and made.fillna(0).tolist() == [2, 0, 3]


# --- the rule, once more, over texts alone --------------------------------------------------------

POOL = (
    "0 1 10 100 007 -5 +2 2 -0 1.0 1.50 1.5 10.10 10.1 0.25 -0.0 .5 0.5 5. 00.5 1E5 1.0E5 2e-3 "
    "2.00 2.0 123456 0.002 3.25 -1.5 -.5"
).split()


def is_text(fields):
    """What docs/files.md says, by one field after the other."""
    texts = {f.strip() for f in fields if f}
    if any(re.match(r"[+-]?(0\d|\d+[eE]\d)", t) for t in texts):
        return True
    plain = {t for t in texts if "e" not in t.lower()}
    return len({t if float(t) else "0" for t in plain}) > len({float(t) for t in plain})


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore:.*two spellings")
def test_columns_are_what_the_rule_says_wherever_their_fields_stand(tmp_path, seed):
    rng = np.random.default_rng(seed)
    pools = [list(rng.choice(POOL, rng.integers(1, 5), replace=False)) for _ in range(150)]
    n = 250  # the last fields beyond the rows that are looked at together
    columns = {}
    for j, pool in enumerate(pools):
        first = [pool[0]] * int(rng.integers(0, n))
        columns[f"c{j}"] = [*first, *rng.choice(["", *pool], n - len(first))]
    pd.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    table = read_table(tmp_path / "a.csv")
    for name, fields in columns.items():
        held = [f for f in fields if f]
        if not held:
            continue
        if is_text(held):
            assert table[name].dropna().tolist() == held, name
            continue
        assert table[name].dropna().tolist() == [float(f) for f in held], name
        whole = not any(re.search(r"[.]|e-", f) for f in held)
        assert (table[name].dtype.kind in "iu") == whole, (name, held)


def test_a_release_is_saved_in_the_form_of_its_original_without_labels(tmp_path):
    original = tmp_path / "o.csv"
    original.write_text("id;sex;pay;day\np1;f;1,5;13/01/2020\np2;m;;24/01/2020\n")
    df = br.read_table(original, index="id", separator=";", decimal=",", days=["day"])
    release = br.Release(datasets=[df, df], synthesized=["pay"])
    paths = release.save(tmp_path / "made", like=original, days=["day"])
    assert [p.name for p in paths] == ["synthetic-1.csv", "synthetic-2.csv"]
    assert paths[1].read_text() == "sex;pay;day\nf;1,5;13/01/2020\nm;;24/01/2020\n"
    back = br.read_table(paths[0], separator=";", decimal=",", days=["day"])
    pd.testing.assert_frame_equal(back, df.reset_index(drop=True))
    with pytest.raises(br.InputError, match="folder=.*holds synthetic-1.csv; give another folder"):
        release.save(tmp_path / "made")
    plain = release.save(tmp_path / "plain", labels=True)[0].read_text()
    assert plain.splitlines()[0] == "id,sex,pay,day" and "p1" in plain


def test_lines_that_end_in_any_way_are_those_of_another_reader(tmp_path):
    """Empty lines, fields and quotes: the rows that the csv module reads, or a named error."""
    rng, path, refused = np.random.default_rng(3), tmp_path / "a.csv", 0
    fields = np.array(["u", "v w", "", "zz", '"zz"', '"p,\r\rq"', 'l"m', "zzz"], dtype=object)
    for _ in range(150):
        ends = rng.choice(["\n", "\r", "\r\n"], rng.integers(1, 3))
        rows = [",".join(rng.choice(fields, 3)) for _ in range(rng.integers(2, 9))]
        rows = [
            "x,y,z",
            '"a",b,c',
            *(row for row in rows for row in [row] + [""] * rng.integers(2)),
        ]
        text = "".join(row + rng.choice(ends) for row in rows)
        path.write_bytes(text.encode())
        if re.search(r"(?<=[\r\n])\r,", text):  # pandas leaves out the separator
            with pytest.raises(InputError, match="an empty line that ends in a carriage return"):
                read_table(path, missing="blank")
            refused += 1
            continue
        parts = re.split(r'((?:(?<=[,\r\n])|^)"(?:[^"]|"")*")', text)  # what is quoted stays
        parts[::2] = [re.sub(r"(?<=[,\r\n])zz(?=[,\r\n]|$)", "", part) for part in parts[::2]]
        expected = [row for row in csv.reader(io.StringIO("".join(parts), newline="")) if row]
        table = read_table(path, missing="blank", na=["zz"]).fillna("")
        assert [list(table), *table.to_numpy().tolist()] == expected, repr(text)
    assert 5 < refused < 75
