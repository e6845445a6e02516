"""Delimited files as programs write them: told from the file and said, or given."""

import datetime
import gzip

import pandas as pd
import pytest
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk import InputError, read_table
from bayes_risk.app.cli import app
from bayes_risk.data.table import as_dates, in_days
from bayes_risk.release.alike import read_like

ROWS = [("Zoë", 1234.5, "Köln, Süd"), ("José", -2.25, "Łódź"), ("Anne", 30.0, "x")]
MANNERS = {
    "a point and commas": (",", ".", "utf-8", None),
    "Excel in German": (";", ",", "utf-8-sig", "separator=';', decimal=','"),
    "tabs": ("\t", ".", "utf-8", r"separator='\\t'"),
    "strokes": ("|", ",", "utf-8", r"separator='\|', decimal=','"),
    "UTF-16": ("\t", ",", "utf-16", r"separator='\\t', decimal=',', encoding='utf-16'"),
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
            with pytest.warns(UserWarning, match=f"a.csv.* looks as if {said}, and was read so"):
                table = read_table(path)
        assert [tuple(row) for row in table.itertuples(index=False)] == ROWS
        how = {"separator": separator, "decimal": decimal, "encoding": encoding}
        pd.testing.assert_frame_equal(read_table(path, **how), table)


def test_western_text_without_unicode_is_read_and_other_bytes_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("name,n\nZoë,1\nCélian,2\n", encoding="cp1252")
    with pytest.warns(UserWarning, match="looks as if encoding='cp1252'"):
        assert read_table(tmp_path / "a.csv")["name"].tolist() == ["Zoë", "Célian"]
    (tmp_path / "a.csv").write_text("name,n\nŁódź,1\nKraków,2\n", encoding="cp1250")
    with pytest.raises(InputError, match='is not UTF-8 text .*say what it is: encoding="cp1250"'):
        read_table(tmp_path / "a.csv")
    assert read_table(tmp_path / "a.csv", encoding="cp1250")["name"][0] == "Łódź"


def test_rows_of_different_lengths_are_no_reason_for_another_separator(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1;2,3\n4;5,6\n7,8,9\n")
    with pytest.raises(InputError, match="line 4 of .* has 3 fields and the header 2"):
        read_table(tmp_path / "a.csv")


@pytest.mark.parametrize("word", ["NA", ".", "#N/A"])
def test_numbers_that_a_word_makes_text_are_said_with_the_cure(tmp_path, word):
    (tmp_path / "a.csv").write_text(f"pay,n\n1,1\n{word},2\n3,3\n")
    with pytest.warns(UserWarning, match=rf"'pay' .* holds numbers and '{word}'.*give na=\["):
        assert read_table(tmp_path / "a.csv")["pay"].tolist() == ["1", word, "3"]
    assert read_table(tmp_path / "a.csv", na=[word])["pay"].isna().sum() == 1


def test_a_code_that_means_missing_is_a_number_however_it_is_written(tmp_path):
    texts = ["-8", "-8,0", "-8,00", "-8,", "-8,01", "-80", "8", "-18,0", '"-8,0"']
    (tmp_path / "a.csv").write_text("\n".join(["a;pay", *(f"{t};1" for t in texts)]))
    for na in ("-8", "-8,0"):
        table = read_table(tmp_path / "a.csv", na=[na], separator=";", decimal=",")
        assert table["a"].isna().tolist() == [True] * 4 + [False] * 5
    table = read_table(tmp_path / "a.csv", na=["-8,010"], separator=";", decimal=",")
    assert table["a"].isna().sum() == 1 == table["a"].isna()[4]


@pytest.mark.parametrize("blank", [" ", "\u00a0", "\u202f"])
def test_blanks_between_digits_are_for_thousands(tmp_path, blank):
    texts = [f"2{blank}000,00", f"1{blank}000{blank}000", "500,5", "", f"-12{blank}345,1"]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["pay;n", *(f"{t};1" for t in texts)]), encoding="utf-8")
    with pytest.warns(UserWarning) as said:
        pay = read_table(path)["pay"]
    assert pay.dropna().tolist() == [2000, 1_000_000, 500.5, -12345.1] and pay.isna().sum() == 1
    assert "decimal=','" in str(said[0].message)
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
        UserWarning, match=r"'pay' .*text \(in 3 rows, first row 31\).* by na"
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
        ({"separator": "ab"}, "separator='ab' is no single character"),
        ({"separator": '"'}, "separator='\"' is no single character"),
        ({"decimal": "'"}, 'decimal="\'"; give'),
        ({"separator": ",", "decimal": ","}, "another separator than it"),
        ({"encoding": "utf-9"}, "encoding='utf-9' is not known"),
        ({"days": ["pay"]}, "days names column 'pay'"),
        ({"days": ["b"]}, "column 'b' of .* holds text that is no date; write dates as 2020-01-31"),
    ],
)
def test_what_cannot_be_given_is_named(tmp_path, how, message):
    (tmp_path / "a.csv").write_text("a,b\n1,x\n2,y\n")
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
    assert "looks as if --separator=';', --decimal=','" in " ".join(near.stderr.split())
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


def test_synthetic_files_of_a_study_have_dates_again(tmp_path):
    from bayes_risk.app.output import write_release

    table = pd.DataFrame({"day": [DAY, DAY + 1], "sex": ["f", "m"]})
    release = br.Release(datasets=[table], synthesized=["day"])
    write_release(tmp_path, release, days=["day"])
    assert (tmp_path / "synthetic-1.csv").read_text() == "day,sex\n2020-03-14,f\n2020-03-15,m\n"


def test_answers_some_of_which_are_missing_are_read_alike_in_release_and_original(tmp_path):
    for name, rows in (("a", "TRUE\nNA\nFALSE\n"), ("b", "FALSE\nTRUE\nNA\n")):
        (tmp_path / f"{name}.csv").write_text(f"owner\n{rows}")
    original = br.read_table(tmp_path / "a.csv", na=["NA"])
    release = read_like(tmp_path / "b.csv", original, na=["NA"])
    assert release["owner"].tolist()[:2] == [False, True] and release["owner"].isna()[2]
    released = br.Release(datasets=[release.reset_index(drop=True)], synthesized=["owner"])
    fit = br.models.DPMPM(n_classes=1).fit(original, missing="level", draws=20, tune=20)
    assert len(br.attribute_risk(fit, released).index) == 3
