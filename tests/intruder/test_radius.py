"""Numeric keys within a relative radius: by hand, limits, words, the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bayes_risk._core.errors import InputError
from bayes_risk.app.cli import app
from bayes_risk.matching.radii import Absolute, Relative
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.matching.risk import identification_risk
from bayes_risk.reporting.report import report

INF = float("inf")


def frame(us: str, income: list[Any], **more: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": list(us), "income": income, **more})


def risk_of(original: pd.DataFrame, releases: Any, r: Any = 0.1, **options: Any) -> Any:
    options = {"known": ["a"], "synthesized": ["income"], "radius": {"income": r}} | options
    return identification_risk(original, releases, **options)


# --- by hand -------------------------------------------------------------------------------------

ORIGINAL = frame("xxxxyy", [100, 105, 0, -50, 100, 7])
FIRST = frame("xxxxyy", [110, 90, 0, -55, 100, 100])
SECOND = frame("xxxxyy", [89, 111, 5, -44, 111, 7.5])


def test_six_records_by_hand() -> None:
    """Ends are inside; a zero matches zeros; a negative value has the interval of its size.

    Intervals: x 90..110, 94.5..115.5, 0, -55..-45; y 90..110, 6.3..7.7.
    Release 1: {0, 1}, {0}, {2}, {3}; {4, 5}, none. Release 2: none, {1}, none, none; none, {5}.
    """
    risk = risk_of(ORIGINAL, [FIRST, SECOND], fallback=False)
    assert risk.c.T.tolist() == [[2, 1, 1, 1, 2, 0], [0, 1, 0, 0, 0, 1]]
    assert risk.T.T.astype(int).tolist() == [[1, 0, 1, 1, 1, 0], [0, 1, 0, 0, 0, 1]]
    assert risk.F.T.astype(int).tolist() == [[0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]
    assert risk.pooled_c.tolist() == [2, 2, 1, 1, 2, 1]  # target 1: record 0, then record 1
    assert risk.pooled_T.all()
    again = risk_of(ORIGINAL, [FIRST, SECOND])
    assert again.c.T.tolist() == [[2, 1, 1, 1, 2, 2], [4, 1, 4, 4, 2, 1]]
    assert again.pooled_c.tolist() == [2, 2, 1, 1, 2, 1]
    assert again.no_match.T.astype(int).tolist() == [[0, 0, 0, 0, 0, 1], [1, 0, 1, 1, 1, 0]]
    assert again.baseline.tolist() == [1 / 4] * 4 + [1 / 2] * 2


def test_the_ends_are_those_of_decimals() -> None:
    """In floating point 0.7 + 0.1 * 0.7 is below 0.77, and 1.1 - 0.1 above 1.0."""
    for y, value, match in [(3, 3.3, 1), (1.1, 1.21, 1), (0.7, 0.77, 1), (1e308, 5e307, 0)]:
        assert risk_of(frame("x", [y]), frame("x", [value]), fallback=False).c.item() == match
    for value in (1.0, 1.2):
        for closed in (True, False):
            given = {"r": Absolute(0.1), "closed": closed, "fallback": False}
            assert risk_of(frame("x", [1.1]), frame("x", [value]), **given).c.item() == closed
    for closed in (True, False):  # a value matches itself, and its sum
        given = {"r": Absolute(0), "closed": closed, "fallback": False}
        found = risk_of(frame("xy", [0.3, 10**15]), frame("xy", [0.1 + 0.2, 10**15 + 1]), **given)
        assert found.c[:, 0].tolist() == [1, 0]
    huge = risk_of(frame("xx", [1e308, 1]), frame("xx", [-1e308, 5]), Relative(10), fallback=False)
    assert huge.c[:, 0].tolist() == [2, 1]  # an end beyond the largest number is no end


# --- limits --------------------------------------------------------------------------------------


def random_files(m: int, n: int = 80) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    rng = np.random.default_rng(5)
    original = pd.DataFrame({"a": rng.integers(0, 3, n), "income": rng.integers(-5, 9, n)})
    return original, [original.assign(income=rng.integers(-5, 9, n)) for _ in range(m)]


def arrays_of(risk: IdentificationRisk) -> dict[str, list[Any]]:
    names = [f"{pooled}{name}" for pooled in ("", "pooled_") for name in "cTKF"]
    return {name: getattr(risk, name).tolist() for name in [*names, "no_match", "baseline"]}


# --- what the result says ------------------------------------------------------------------------


def test_the_radius_is_said_wherever_the_keys_are(tmp_path: Path) -> None:
    risk = risk_of(ORIGINAL.assign(b=1), FIRST.assign(b=1), 0.025, synthesized=["income", "b"])
    assert "searches for the true values of income (within 2.5 %), b in the release" in (
        risk.sentence()
    )
    assert risk.dataset.attrs["radius"] == "income Relative(r=0.025)"
    assert risk_of(ORIGINAL, FIRST, radius={}).dataset.attrs["radius"] == ""
    page = report(risk, tmp_path / "report.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "matched against synthetic values: income (within 2.5 %), b" in page


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("income", "message"),
    [
        (list("123456"), r"key 'income' \(.*\) of release 2 holds no real numbers.*to_numeric"),
        ([True] * 6, r"key 'income' \(bool\) of release 2 holds no real numbers"),
        (pd.Categorical([1, 2, 3, 4, 5, 6]), r"\(category\) of release 2 holds no real numbers"),
        ([1j] * 6, "complex"),
        (
            [1, INF, 3, -INF, 5, 6],
            "release 2 has infinite values in 2 of 6 records, .*correct them",
        ),
    ],
)
def test_a_column_that_no_radius_fits_is_refused_in_words(income: Any, message: str) -> None:
    if not isinstance(income[0], complex) and np.isfinite(np.array(income, dtype=float)).all():
        plain = risk_of(ORIGINAL, [FIRST, FIRST.assign(income=np.array(income, dtype=float))])
        same = risk_of(ORIGINAL, [FIRST, FIRST.assign(income=income)])  # numbers as something else
        pd.testing.assert_frame_equal(same.summary(), plain.summary())
    else:
        with pytest.raises(InputError, match=message):
            risk_of(ORIGINAL, [FIRST, FIRST.assign(income=income)])
    with pytest.raises(InputError, match=message.replace("release 2", "the original")):
        risk_of(ORIGINAL.assign(income=income), [FIRST])


# --- the command line ----------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, table in (("original", ORIGINAL), ("syn", FIRST)):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    return [str(tmp_path / "original.csv"), str(tmp_path / "syn.csv")]


def identify(files: list[str], *words: str) -> Any:
    keys = ["--known", "a", "--synthesized", "income"]
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, ["identify", *files, *keys, *words])


def test_identify_takes_a_radius_in_units(files: list[str], tmp_path: Path) -> None:
    done = identify(files, "--radius", "income=10", "--json", str(tmp_path / "out.json"))
    assert done.exit_code == 0, done.output
    assert "income (within 10)" in " ".join(done.output.split())
    numbers = json.loads((tmp_path / "out.json").read_text())
    assert numbers["radius"] == {"income": {"absolute": 10}}
    within = {"income": Absolute(10)}
    expected = risk_of(ORIGINAL, FIRST, radius=within).summary()
    assert numbers["measures"]["pooled"]["expected_match_risk"] == pytest.approx(
        expected.loc["pooled", "expected_match_risk"]
    )
    assert "write income=" not in done.output


def test_identify_remarks_that_a_part_of_a_unit_reaches_nothing(files: list[str]) -> None:
    done = identify(files, "--radius", "income=0.1")
    said = " ".join(done.output.split())
    assert "income holds whole numbers, so that it must be equal; for 10 % write income=10%" in said


def test_identify_takes_radii_of_known_keys_and_leaves_ends_out(tmp_path: Path) -> None:
    original = pd.DataFrame({"age": [20, 21, 40], "income": [100, 110, 50]})
    for name in ("original", "syn"):
        original.to_csv(tmp_path / f"{name}.csv", index=False)
    paths, found = [str(tmp_path / f"{name}.csv") for name in ("original", "syn")], {}
    keys = ["--known", "age", "--synthesized", "income", "--radius", "age=10%,income=10%"]
    for words in ([], ["--open-ends"]):
        json_file = tmp_path / f"{len(words)}.json"
        done = CliRunner().invoke(
            app, ["identify", *paths, *keys, *words, "--json", str(json_file)]
        )
        assert done.exit_code == 0, done.output
        found[len(words)] = json.loads(json_file.read_text())
    risks = [found[k]["measures"]["pooled"]["expected_match_risk"] for k in (0, 1)]
    # 100 reaches 110 by its end; 110 reaches 100 inside; ages 20 and 21 are near
    assert risks == [pytest.approx(2), pytest.approx(2.5)]
    assert found[0]["radius"] == {"age": 0.1, "income": 0.1}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["income"], "--radius 'income' is not NAME=UNITS or NAME=SHARE%; write age=2 for 2 units"),
        (["=0.1"], "--radius '=0.1' is not NAME=UNITS"),
        (["income=much"], "--radius 'income=much' is not NAME=UNITS"),
        (["income=%"], "--radius 'income=%' is not NAME=UNITS"),
        (["income=1", "income=2"], "--radius names 'income' more than once"),
        (["a=0.1"], "holds no real numbers, which a radius needs; leave it out of --radius"),
        (["age=0.1"], "radius names 'age', which is not a key (['a', 'income'])"),
        (
            ["income=-1"],
            "--radius 'income=-1' is not a radius; give a finite number >= 0",
        ),
        (["income=inf%"], "--radius 'income=inf%' is not a relative radius"),
    ],
)
def test_identify_names_what_is_wrong_with_a_radius(
    files: list[str], words: list[str], message: str
) -> None:
    done = identify(files, *(part for word in words for part in ("--radius", word)))
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
