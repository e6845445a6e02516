"""The hour of a new user with an ordinary survey file: each wrong turn names the next step."""

import pytest
from typer.testing import CliRunner

from bayes_risk.app.cli import app
from tests.studies.test_first_study import people

pytestmark = pytest.mark.check


@pytest.fixture
def survey(tmp_path, monkeypatch):
    """The file, synthetic copies of it, and some that are none."""
    monkeypatch.chdir(tmp_path)
    df = people()
    for name in ("my.csv", "copy.csv"):
        df.to_csv(name, index=False)
    for l in (1, 2):
        made = df.assign(
            **{c: df[c].sample(frac=1, random_state=l).to_numpy() for c in SYNTHESISED}
        )
        made.to_csv(f"made{l}.csv", index=False)
    df.head(80).to_csv("short.csv", index=False)
    df.head(80).reindex(range(len(df))).to_csv("padded.csv", index=False)
    df.drop(columns="person id").to_csv("semicolons.csv", sep=";", decimal=",", index=False)


SYNTHESISED = ("class", "owner", "income")


def said(*args):
    result = CliRunner().invoke(app, list(args))
    return " ".join((result.output + result.stderr).split())


@pytest.mark.parametrize(
    ("args", "cure"),
    [
        ("my.csv made1.csv made2.csv", "name at least one key column"),
        (
            "my.csv made1.csv --known class --synthesized income",
            "if it was synthesised, name it in --synthesized",
        ),
        ("my.csv my.csv --known sex --synthesized class", "'my.csv' is the confidential file"),
        ("my.csv copy.csv --known sex --synthesized class", "The file is the original itself"),
        ("my.csv made1.csv --known sex --synthesized age --radius age=2", "age (within 2)"),
        ("my.csv short.csv --known sex --synthesized age", "drawn afresh under --synthesized"),
        ("my.csv short.csv --known sex --synthesized age", "--known is of records"),
        (
            "my.csv short.csv --synthesized sex,age --corresponds",
            "afresh, so that rows correspond to no record, give --no-corresponds",
        ),
        ("my.csv short.csv --synthesized sex,age", "Rows do not correspond to records"),
        ("my.csv padded.csv --synthesized sex,age", "every column is missing"),
        (
            "semicolons.csv made1.csv --known sex --synthesized class",
            "separator ';', decimal ','",
        ),
    ],
)
def test_matching(survey, args, cure):
    assert cure in said("identify", *args.split())


FILE = 'path = "my.csv"\nindex = "person id"\nmissing = "level"\n'
SOME = FILE + 'columns = ["sex", "age", "class", "income"]\n'
TREES = '[model]\nkind = "CART"\norder = ["class"]\n'


@pytest.mark.parametrize(
    ("study", "cure"),
    [
        (FILE + "[attribute]\n", "column 'wave' has 1 level: it cannot vary; drop it"),
        (
            SOME + "[attribute]\n",
            "60 different numbers are treated as categories without an order; "
            'take Mixture, with the family "normal" for it, or CART',
        ),
    ],
)
def test_studies(survey, tmp_path, study, cure):
    (tmp_path / "my.toml").write_text(f"[data]\n{study}")
    assert cure in said("audit", "my.toml", "--dry-run")


def test_data_in_the_place_of_a_study(survey):
    assert "my.csv is a data file; make a study of it first: bayes-risk init my.csv" in said(
        "audit", "my.csv"
    )


def test_what_was_taken_for_granted_is_said_with_its_section(survey, tmp_path):
    (tmp_path / "my.toml").write_text(
        '[data]\npath = "semicolons.csv"\ncolumns = ["sex", "class"]\n' + TREES + "[attribute]\n"
    )
    told = said("audit", "my.toml", "--dry-run")
    assert "is read with separator ';'" in told and "[data] decimal and [data] encoding" in told


@pytest.mark.slow
def test_the_right_turn(survey, tmp_path):
    assert "my.toml" in said("init", "my.csv")
    assert "attribute risk" in said("audit", "my.toml", "--dry-run")
