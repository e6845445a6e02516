"""What synthpop's write.syn leaves behind, laid out as R prints it."""

import gzip

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk import InputError, read_synthpop, read_table

METHODS = {
    "sex": "",
    "marital.status": "",
    "pay": "cart",
    "bmi": "~I(kg/(m/100)^2)",
    "job": "ctree",
}
INFO = """Date saved: 21 Nov 2026, 09:05{blank}
Data frame with original data: SD2011[, vars]{blank}
Number of synthetic data sets: {m}{blank}
Output file(s):{files}
Additional file: synobject_{name}.RData
Methods used:
{methods}Seed used: 2021{blank}
"""


def printed(vector, width=80):
    """R's print of a named character vector: right-justified columns, as many a line as fit."""
    values = [f'"{value}"' for value in vector.values()]
    cell = max(map(len, [*vector, *values]))
    per_line = max(1, width // (cell + 1))
    names, text = list(vector), ""
    for k in range(0, len(names), per_line):
        for row in (names, values):
            text += "".join(f"{word:>{cell}} " for word in row[k : k + per_line]) + "\n"
    return text


def info(folder, name="syn", m=2, filetype="csv", ending=".csv", methods=METHODS, width=80):
    files = [f"{name}{ending}"] if m == 1 else [f"{name}_{l}{ending}" for l in range(1, m + 1)]
    told = INFO.format(
        blank=" ",
        m=m,
        name=name,
        files=" ".join(f"({filetype}) {file}" for file in files),
        methods=printed(methods, width),
    )
    (folder / f"synthesis_info_{name}.txt").write_text(told)
    return [folder / file for file in files]


def in_r(frame, separator, escape):
    """write.csv and write.table: texts in quotes, NA without."""

    def field(value):
        if isinstance(value, str):
            return '"' + value.replace('"', escape + '"') + '"'
        return "NA" if pd.isna(value) else f"{value:g}"

    rows = [list(frame.columns), *frame.astype(object).to_numpy().tolist()]
    return "".join(separator.join(map(field, row)) + "\n" for row in rows)


ORIGINAL = pd.DataFrame(
    {
        "sex": pd.Categorical(["f", "m", "m", "f", "m"], ["f", "m", "other"]),
        "marital status": ["single", "married", "NA", "single", 'so "called"'],
        "pay": [100.0, np.nan, 250.0, -8.0, 90.0],
        "job": ["01", "02", "01", None, "03"],
    }
)
SYNTHETIC = [
    ORIGINAL.assign(pay=[90.0, 100.0, np.nan, 100.0, -8.0]).rename(
        columns={"marital status": "marital.status"}
    ),
    ORIGINAL.assign(
        pay=[90.0, 90.0, 90.0, 250.0, np.nan], job=pd.Series([*["01"] * 4, None], dtype="str")
    ).rename(columns={"marital status": "marital.status"}),
]
FORMATS = {"csv": (".csv", ",", '"'), "tab": (".tab", "\t", "\\"), "txt": (".txt", " ", "\\")}


def written(folder, filetype="csv", m=2, name="syn"):
    ending, separator, escape = FORMATS[filetype]
    for file, frame in zip(info(folder, name, m, filetype, ending), SYNTHETIC, strict=False):
        file.write_text(in_r(frame, separator, escape))
    return folder


# --- the files ------------------------------------------------------------------------------


@pytest.mark.parametrize("filetype", FORMATS)
def test_files_come_back_in_the_terms_of_the_original(tmp_path, filetype):
    made = read_synthpop(written(tmp_path, filetype), original=ORIGINAL)
    assert made.m == 2
    for table, expected in zip(made.datasets, SYNTHETIC, strict=True):
        expected = expected.rename(columns={"marital.status": "marital status"})
        pd.testing.assert_frame_equal(table, expected, check_dtype=False)
        assert table["sex"].dtype == ORIGINAL["sex"].dtype
        assert table["pay"].dtype == float
    assert made.datasets[0]["marital status"].tolist()[2] == "NA"


def test_the_risks_are_those_of_the_tables_in_memory(tmp_path):
    made = read_synthpop(written(tmp_path), original=ORIGINAL)
    keys = {"known": ["sex", "marital status"], "synthesized": ["pay", "job"]}
    tables = [t.rename(columns={"marital.status": "marital status"}) for t in SYNTHETIC]
    found = br.identification_risk(ORIGINAL, made.datasets, **keys)
    expected = br.identification_risk(ORIGINAL, tables, **keys)
    pd.testing.assert_frame_equal(found.summary(), expected.summary())
    as_release = br.identification_risk(ORIGINAL, made.release(), **keys)
    pd.testing.assert_frame_equal(as_release.summary(), expected.summary())


def test_one_data_set_has_no_number(tmp_path):
    made = read_synthpop(written(tmp_path, m=1), original=ORIGINAL)
    assert made.m == 1 and [file.name for file in made.files] == ["syn.csv"]


def test_without_an_original_columns_are_what_they_look_like(tmp_path):
    table = read_synthpop(written(tmp_path)).datasets[0]
    assert table["job"].tolist()[:3] == ["01", "02", "01"]
    assert table.columns.tolist() == list(SYNTHETIC[0].columns)
    assert table["marital.status"].tolist()[2] == "NA"


def test_na_within_quotes_is_text_wherever_it_stands(tmp_path):
    (tmp_path / "syn.csv").write_text('"a","b"\n"x,NA,y","NA"\nNA,NA\n"NA\n,NA",NANA\n')
    table = read_synthpop(tmp_path).datasets[0]
    assert table["a"].fillna("-").tolist() == ["x,NA,y", "-", "NA\n,NA"]
    assert table["b"].fillna("-").tolist() == ["NA", "-", "NANA"]
    (tmp_path / "syn.csv").write_text('"a"\n1\nNA\n3\n')
    assert read_synthpop(tmp_path).datasets[0]["a"].fillna(0).tolist() == [1, 0, 3]


def test_stata_files_of_synthpop_hold_codes_and_say_so(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    (file,) = info(tmp_path, m=1, filetype="Stata", ending=".dta")
    pyreadstat.write_dta(
        pd.DataFrame({"sex": [1, 2, 2, 1, 2], "pay": [1.0, 2, 3, 4, 5]}), str(file)
    )
    assert read_synthpop(tmp_path).datasets[0]["sex"].tolist() == [1, 2, 2, 1, 2]
    with pytest.raises(InputError, match="'sex' of .*holds a value in row 1 .* with labels"):
        read_synthpop(tmp_path, original=ORIGINAL)


def test_labelled_files_take_their_labels(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    labels = {"sex": {1: "f", 2: "m"}}
    for l in (1, 2):
        frame = pd.DataFrame({"sex": [1, 2, 2, 1, l]})
        pyreadstat.write_dta(frame, str(tmp_path / f"r{l}.dta"), variable_value_labels=labels)
    made = read_synthpop(tmp_path, original=ORIGINAL)
    assert [t["sex"].tolist()[-1] for t in made.datasets] == ["f", "m"]
    assert made.datasets[0]["sex"].dtype == ORIGINAL["sex"].dtype


# --- which files --------------------------------------------------------------------------


def numbered(folder, names):
    for k, name in enumerate(names):
        (folder / name).write_text(f"x,y\n{k},1\n{k},2\n")
    return folder


@pytest.mark.parametrize("pattern", ["syn{}.csv", "syn_{}.csv", "my syn-{}.csv", "{}.csv"])
def test_numbered_files_stand_in_the_order_of_their_numbers(tmp_path, pattern):
    numbered(tmp_path, [pattern.format(l) for l in range(1, 12)])
    made = read_synthpop(tmp_path)
    assert [t["x"].tolist()[0] for t in made.datasets] == list(range(11))
    assert made.info is None


def test_other_files_beside_numbered_ones_are_left_alone(tmp_path):
    names = ["syn_1.csv", "syn_2.csv", "original.csv", "SD2011.csv", "notes.pdf"]
    made = read_synthpop(numbered(tmp_path, names))
    assert [file.name for file in made.files] == names[:2]


def test_files_may_be_listed(tmp_path):
    numbered(tmp_path, ["b.csv", "a.csv"])
    made = read_synthpop([tmp_path / "b.csv", str(tmp_path / "a.csv")])
    assert [t["x"].tolist()[0] for t in made.datasets] == [0, 1]
    assert read_synthpop(tmp_path / "b.csv").m == 1


def test_of_several_syntheses_one_is_chosen_by_its_info(tmp_path):
    written(tmp_path)
    written(tmp_path, m=1, name="other")
    with pytest.raises(InputError, match="several syntheses .*give the path of one"):
        read_synthpop(tmp_path)
    assert read_synthpop(tmp_path / "synthesis_info_other.txt", original=ORIGINAL).m == 1
    assert read_synthpop(tmp_path / "synthesis_info_syn.txt", original=ORIGINAL).m == 2


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "files that can be read: none"),
        (["a.csv", "b.csv"], "does not hold one set of files numbered from 1"),
        (["a1.csv", "b1.csv"], "does not hold one set of files numbered from 1"),
        (["a1.csv", "a3.csv"], "has a3.csv but no a2.csv"),
    ],
    ids=["nothing", "two files", "two sets", "gap"],
)
def test_folders_that_do_not_say_which_are_named(tmp_path, names, message):
    with pytest.raises(InputError, match=message):
        read_synthpop(numbered(tmp_path, names))


@pytest.mark.parametrize(("filetype", "ending"), [("RData", ".RData"), ("SPSS", ".sps")])
def test_formats_of_r_alone_tell_the_cure(tmp_path, filetype, ending):
    info(tmp_path, filetype=filetype, ending=ending)
    with pytest.raises(InputError, match=rf"written as {filetype} .*filetype = \"csv\""):
        read_synthpop(tmp_path)


# --- tables that do not fit -------------------------------------------------------------------


REFUSED = [  # files of a folder, the one that is read, what is said
    ({"s1.csv": "x,y\n0,1\n0,2\n", "s2.csv": "x,y\n1,1\n"}, "",
     "s2.csv' has the number of records 1 and 's1.csv' 2"),
    ({"s1.csv": "x,y\n0,1\n0,2\n", "s2.csv": "x\n1\n2\n"}, "", r"s2.csv' has the columns \['x'\]"),
    ({"s.csv": '"sex"\n"f"\n"female"\n'}, "", "'sex' of .*s.csv' holds a value in row 2 which"),
    ({"synthesis_info_syn.txt": "Date saved: today\n"}, "",
     "does not state how many files of which type"),
    ({"syn.txt": "1,2,\n3,4,\n", "syn.sps": "DATA LIST FILE="}, "syn.txt",
     "the data of an SPSS or SAS program"),
    ({"a.rda": "RDX3"}, ["a.rda"], "a.rda' is of no known kind"),
    ({"synthesis_info_syn.txt": "Number of synthetic data sets: 2 \nOutput file(s):(csv) syn_1.csv"
      " (csv) syn_2.csv\n", "syn_1.csv": "x\n1\n"}, "", "there is no file .*syn_2.csv"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "source", "message"), REFUSED)
def test_what_is_no_release_is_named(tmp_path, files, source, message):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    read = [tmp_path / name for name in source] if isinstance(source, list) else tmp_path / source
    original = ORIGINAL if "s.csv" in files else None
    with pytest.raises(InputError, match=message):
        read_synthpop(read, original=original)


def test_an_original_that_took_na_for_a_text_is_named(tmp_path):
    (tmp_path / "s.csv").write_text('"pay"\n1\nNA\n3\n')
    (tmp_path / "o.csv").write_text('"pay"\n2\nNA\n3\n')
    files = [tmp_path / "s.csv"]
    original = read_table(tmp_path / "o.csv", levels={"pay": "text"})
    with pytest.raises(InputError, match=r"column 'pay' .*read the original with na=\[\"NA\"\]"):
        read_synthpop(files, original=original)
    original = read_table(tmp_path / "o.csv", na=["NA"])
    assert original["pay"].isna().tolist() == [False, True, False]
    assert read_synthpop(files, original=original).datasets[0]["pay"].tolist()[0] == 1
    with pytest.raises(InputError, match="na='NA' is not a list of texts"):
        read_table(tmp_path / "o.csv", na="NA")


def test_packed_files_come_in_the_terms_of_the_original_too(tmp_path):
    original = pd.DataFrame({"urban": ["1", "2"], "pay": [1.5, None]})
    with gzip.open(tmp_path / "s.csv.gz", "wt") as file:
        file.write('"urban","pay"\n"1",NA\n"2",1.50\n')
    table = read_synthpop([tmp_path / "s.csv.gz"], original=original).datasets[0]
    assert table["urban"].tolist() == ["1", "2"] and table["pay"].isna().tolist() == [True, False]


# --- what is stated -----------------------------------------------------------------------


@pytest.mark.parametrize("width", [10, 40, 80, 200])
def test_what_the_info_states(tmp_path, width):
    for file in info(tmp_path, width=width):
        file.write_text("pay\n1\n")
    told = read_synthpop(tmp_path).info
    assert (told.name, told.m, told.filetype, told.seed) == ("syn", 2, "csv", 2021)
    assert told.saved == "21 Nov 2026, 09:05"
    assert told.original == "SD2011[, vars]"
    assert told.methods == METHODS
    assert told.synthesized == ["pay", "bmi", "job"]


def test_what_is_not_stated_is_none(tmp_path):
    text = "Number of synthetic data sets: 1 \nOutput file(s):(csv) syn.csv"
    (tmp_path / "synthesis_info_syn.txt").write_bytes(text.encode() + b"\nother: \xe9\n")
    (tmp_path / "syn.csv").write_text("pay\n1\n2\n")
    made = read_synthpop(tmp_path)
    assert made.info.seed is None and made.info.saved is None and made.info.methods == {}
    with pytest.raises(InputError, match="no file states which columns were synthesised"):
        made.release()
    assert made.release(["pay"]).synthesized == ["pay"]
    for proper, drawn in ((None, None), (False, "plug-in"), (True, "independent")):
        assert made.release(["pay"], proper=proper).parameters == drawn


def test_methods_by_stratum_are_passed_over(tmp_path):
    table = '         sex      pay   \nstratum1 "sample" "cart"\nstratum2 "sample" "norm"\n'
    text = INFO.format(blank=" ", m=1, name="syn", files="(csv) syn.csv", methods=table)
    (tmp_path / "synthesis_info_syn.txt").write_text(text)
    (tmp_path / "syn.csv").write_text("pay\n1\n")
    assert read_synthpop(tmp_path).info.methods == {}


# --- synthpop's own survey ---------------------------------------------------------------------


def test_the_social_diagnosis_of_2011(tmp_path, shared_data):
    path = shared_data / "sd2011_synthpop.csv.gz"
    original = read_table(path)
    again = original.sample(frac=1, random_state=1).reset_index(drop=True)
    (tmp_path / "syn.csv").write_text(in_r(again, ",", '"'))
    table = read_synthpop(tmp_path, original=original).datasets[0]
    assert table.shape == (5000, 35)
    for column in original.columns:
        assert table[column].isna().sum() == original[column].isna().sum()
    assert set(table["edu"].dropna()) == set(original["edu"].dropna())
    assert table["income"].sum() == pytest.approx(original["income"].sum(), rel=1e-4)
