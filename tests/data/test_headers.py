"""Files without a line of names: the first person's values are no names, and are not told."""

import datetime

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bayes_risk import InputError, read_table
from bayes_risk.app.cli import app

N = 60
RNG = np.random.default_rng(4)
BORN = RNG.integers(0, 9_000, N).tolist()
DAYS = [str(datetime.date(1950, 1, 1) + datetime.timedelta(day)) for day in BORN]
PEOPLE = pd.DataFrame(
    {
        "pid": [f"P{i:04d}" for i in range(N)],
        "sex": RNG.choice(["f", "m"], N),
        "age": RNG.integers(16, 90, N),
        "region": RNG.choice(["Łódź", "Kraków"], N),
        "wave": 3,
        "born": DAYS,
        "income": RNG.integers(0, 90_000, N) * 1.5,
    }
)
BARE = {
    "all kinds": PEOPLE,
    "numbers": PEOPLE[["age", "income"]],
    "the same number twice": PEOPLE[["wave", "wave", "sex"]],
    "two numbers in a row": pd.DataFrame({"age": [40, *PEOPLE["age"]], "of": [41, *PEOPLE["age"]]}),
    "texts": PEOPLE[["sex", "region"]],
    "codes": PEOPLE[["pid", "sex", "region"]],
    "dates": PEOPLE[["born", "sex"]].assign(until=DAYS[::-1]),
    "years that rise": pd.DataFrame(RNG.integers(1950, 1970, (N, 3)) + [0, 20, 40]),
}


@pytest.mark.parametrize("name", BARE)
@pytest.mark.parametrize("how", [{}, {"sep": ";", "decimal": ","}], ids=["comma", "semicolon"])
@pytest.mark.filterwarnings("ignore:.*is read with")
def test_a_first_line_that_is_a_record_is_refused_and_not_told(tmp_path, name, how):
    table = BARE[name]
    table.to_csv(tmp_path / "a.csv", header=False, index=False, **how)
    with pytest.raises(InputError, match="looks like a record: .* write the names") as caught:
        read_table(tmp_path / "a.csv")
    told = str(caught.value).replace(str(tmp_path), "")
    held = {str(v) for v in table.iloc[0] if len(str(v)) > 2}
    assert not [value for value in held if value in told]


def test_every_command_refuses_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    PEOPLE.to_csv("a.csv", header=False, index=False)
    study = '[data]\npath = "a.csv"\n[model]\nkind = "DPMPM"\n[attribute]\n'
    (tmp_path / "s.toml").write_text(study)
    keys = ["--known", "sex", "--synthesized", "age"]
    for words in (["init", "a.csv"], ["identify", "a.csv", "a.csv", *keys], ["audit", "s.toml"]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2 and "looks like a record" in done.stderr, done.output
        assert "P0000" not in done.output and "Łódź" not in done.output


def test_of_a_workbook_too(tmp_path):
    pytest.importorskip("openpyxl")
    PEOPLE.to_excel(tmp_path / "a.xlsx", header=False, index=False)
    with pytest.raises(InputError, match="looks like a record"):
        read_table(tmp_path / "a.xlsx")


@pytest.mark.parametrize(
    "header",
    [
        ["id", "2010", "2011", "2012"],
        ["2010", "2015", "2017", "2020"],
        ["", "0", "1", "2"],
        ["id", "0", "1", "x"],
        ["q", "0.25", "0.5", "0.75"],
        ["1", "2", "3", "4"],
        ["id", "2020-01", "2020-02", "2020-03"],
        ["id", "2020-01-31", "2020-02-29", "2020-03-31"],
        ["id", "x1", "x2", "sex"],
        ["id", "5", "50", "95"],
        ["a", "b", "c", "d"],
    ],
    ids=" ".join,
)
def test_names_that_are_numbers_or_dates_are_names(tmp_path, header):
    rows = RNG.integers(1, 6, (N, 4))
    pd.DataFrame(rows, columns=header).to_csv(tmp_path / "a.csv", index=False)
    assert read_table(tmp_path / "a.csv").columns.tolist() == header


def test_numbers_that_stand_there_twice_are_not_told(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,z,77123,77123\na,b,c,1,2\n")
    with pytest.raises(InputError, match="gives 1 names to more than one column") as caught:
        read_table(tmp_path / "a.csv")
    assert "77123" not in str(caught.value)


@pytest.mark.parametrize("names", [[f"c{j}" for j in range(1, 9)], ["x0", "x1"], [*"abc"], [*"ab"]])
def test_names_that_are_written_as_levels_are_names(tmp_path, names):
    """Columns c1 to c8 of levels c1 to c8, and the like."""
    levels = np.random.default_rng(0).integers(0, len(names), (40, len(names)))
    frame = pd.DataFrame(np.array(names)[levels], columns=names)
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert list(read_table(tmp_path / "a.csv")) == names
