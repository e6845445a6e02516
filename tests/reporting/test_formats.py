"""Numbers as people read them: one rule, no exponent, no minus zero, no zero that is none."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import bayes_risk
from bayes_risk._core.formats import (
    at_most,
    beside_share,
    error,
    factor,
    in_brackets,
    number,
    percent,
    percent_error,
    plain,
    signed,
    significant,
    two_errors,
)
from tests.helpers.edge_results import attribute


@pytest.mark.parametrize("form", [number, plain, factor, signed, percent, lambda x: number(x, 2)])
@pytest.mark.parametrize("size", [1e-12, 1e-6, 9.4e-5, 4e-4, 0.01, 0.5, 1.06e4, 3e9])
def test_no_number_has_an_exponent_or_is_a_zero_with_a_sign(form, size):
    for value in (size, -size):
        text = form(value)
        assert not re.search(r"\de|-0(\.0*)?\b(?!\.?\d)", text)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0004, "0.0004"),
        (1 / 10_560, "0.000095"),
        (1e-9, "below 0.000001"),
        (-1e-9, "above -0.000001"),
        (0.0096, "0.0096"),
        (0.19349, "0.193"),
        (0.99999, "1.000"),
        (23.456, "23.46"),
        (10_560.4, "10,560"),
        (np.int64(10_560), "10,560"),
        (-math.inf, "-\N{INFINITY}"),
    ],
)
def test_numbers(value, said):
    assert number(value) == said


def test_what_is_not_zero_is_not_written_as_zero():
    for exponent in range(-300, 3):
        assert float(re.sub("below |,", "", number(10.0**exponent))) > 0


def test_an_error_has_the_decimals_of_its_number():
    for value, mcse in ((0.19349, 0.0025), (0.0004, 0.0001), (23.4, 0.4), (1234.5, 60.0)):
        places = [len(text.partition(".")[2]) for text in (number(value), two_errors(mcse, value))]
        assert places[0] <= places[1] <= places[0] + 1
    assert two_errors(0.0025, 0.19349) == "0.005" and error(1e-9, 12.3) == "< 0.01"
    assert in_brackets(0.0025, 0.19349) == " (+- 0.005)"
    assert in_brackets(1e-9, 0.19349) == " (error < 0.001)"
    assert in_brackets(0.0) == in_brackets(math.nan) == ""


def test_shares_and_factors():
    assert [percent(x) for x in (0.0, 0.0004, 0.1234, math.nan)] == [
        *("0.0 %", "< 0.1 %", "12.3 %", "\N{EN DASH}")
    ]
    assert percent_error(0.006) == "\N{PLUS-MINUS SIGN} 1.2 %" and percent_error(0.0) == "0"
    assert [factor(x) for x in (1.0567, 56.789, 10_560.2)] == ["1.06", "56.8", "10,560"]
    assert at_most(1234.0) == "\N{LESS-THAN OR EQUAL TO} 1,234"
    assert significant(0.00012345, 3) == "0.000123"


def test_the_sentence_and_the_table_give_the_same_worst_record():
    risk = attribute([0.0612, 0.1931, 0.1112], mcse=0.0026)
    cells = risk.tables()["worst"].rows[0][1:3]
    assert cells == ("0.193", "\N{PLUS-MINUS SIGN} 0.005")
    assert "0.193 (+- 0.005) in the worst case" in risk.sentence()


def test_numbers_are_written_at_one_place():
    """No significant digits, no exponents elsewhere: a number that is shown goes through here."""
    package = Path(bayes_risk.__file__).parent
    shown = [*package.glob("reporting/*.py"), *package.glob("reporting/plots/*.py")]
    for path in [*shown, *package.rglob("*result.py"), package / "reporting/verdicts/verdict.py"]:
        assert not re.search(r"\{[^{}]*:[+,]?\.\d[eg]\}", path.read_text()), path


@pytest.mark.parametrize(
    ("share", "mcse", "cell", "behind"),
    [
        (1.0, 0.2887, "0.423 to 1.000", " (0.423 to 1.000)"),
        (0.2, 0.3055, "0 to 0.811", " (0 to 0.811)"),
        (0.5, math.inf, "0 to 1.000", " (0 to 1.000)"),
        (0.9, 0.05, "\N{PLUS-MINUS SIGN} 0.100", " +- 0.100"),
        (0.9, 1e-9, "< 0.001", " (error < 0.001)"),
        (1.0, 0.0, "0", " +- 0"),
        (0.5, math.nan, "\N{EN DASH}", " +- \N{EN DASH}"),
    ],
)
def test_the_interval_of_a_probability_stays_within_0_and_1(share, mcse, cell, behind):
    assert error(mcse, share, share=True) == cell
    assert beside_share(mcse, share) == behind
    brackets = in_brackets(mcse, share, share=True)
    assert brackets == ("" if cell in ("0", "\N{EN DASH}") else f" ({behind.strip(' ()')})")
