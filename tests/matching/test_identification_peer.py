"""Identification risk of the Consumer Expenditure sample, against the published R package.

IdentificationRiskCalculation 1.0.0 of Hornby & Hu (2021), run in R 4.2.2; known: age within 10 %,
urban, marital status; sought: income. It leaves the ends of its intervals out (``closed=False``),
and takes a negative income's interval the wrong way round, so nothing matches an income below 0,
nor, its interval being empty, one of 0.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.matching.risk import identification_risk
from tests.oracles.kernel_twins import matches_of, within

Files = tuple[pd.DataFrame, list[pd.DataFrame]]


@pytest.fixture(scope="module")
def consumers(shared_data: Any) -> Files:
    """Consumer Expenditure sample of Hornby & Hu (2021), and three releases of Income by CART."""
    names = [f"peer_runs/ce_income_release{l}.csv.gz" for l in (1, 2, 3)]
    original, *releases = (
        pd.read_csv(shared_data / name) for name in ("ce_hornby_hu_identification.csv.gz", *names)
    )
    return original, releases


def risk_of(original: pd.DataFrame, releases: Any, r: float, *, closed: bool) -> IdentificationRisk:
    found = identification_risk(
        original,
        releases,
        known=["Age", "Urban", "Marital"],
        synthesized=["Income"],
        radius={"Age": 0.1, "Income": r},
        closed=closed,
        fallback=False,
    )
    assert isinstance(found, IdentificationRisk)
    return found


def measures(risk: IdentificationRisk, those: Any) -> tuple[float, float, float, int]:
    """Expected match risk, true match rate of the file, false match rate, s; of those targets."""
    c, T, K, F = (getattr(risk, name)[those, 0] for name in "cTKF")
    s = int((c == 1).sum())
    return float((T / np.maximum(c, 1)).sum()), K.sum() / risk.n, F.sum() / s, s


def test_a_release_of_the_original_gives_the_package_s_numbers(consumers: Files) -> None:
    original, _ = consumers
    positive = original["Income"].to_numpy() > 0
    for r, expected in {
        0.05: (1347.998114, 0.10967510, 0, 611),
        0.1: (901.819200, 0.06300485, 0, 351),
        0.2: (600.262580, 0.04020822, 0, 224),
    }.items():
        found = measures(risk_of(original, original, r, closed=False), positive)
        assert found == pytest.approx(expected, abs=1e-6)


def test_a_reversed_column_gives_the_package_s_numbers(consumers: Files) -> None:
    original, _ = consumers
    reversed_ = original.assign(Income=original["Income"].to_numpy()[::-1])
    positive = original["Income"].to_numpy() > 0
    for r, expected in {
        0.05: (28.573535, 0.00197451, 0.97674419, 473),
        0.1: (39.823812, 0.00269251, 0.95207668, 313),
        0.2: (41.923678, 0.00233351, 0.93367347, 196),
    }.items():
        found = measures(risk_of(original, reversed_, r, closed=False), positive)
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("turn", "expected"),
    [(1, (925.986573, 0.06264585, 0, 349)), (-1, (42.740316, 0.00269251, 0.953125, 320))],
)
def test_closed_ends_give_what_the_paper_defines(
    consumers: Files, turn: int, expected: tuple[float, ...]
) -> None:
    """As a plain reading of the paper's interval gave, written apart from this library."""
    original, _ = consumers
    released = original.assign(Income=original["Income"].to_numpy()[::turn])
    risk = risk_of(original, released, 0.1, closed=True)
    assert measures(risk, slice(None)) == pytest.approx(expected, abs=1e-6)


PACKAGE = {0.01: 319.1, 0.025: 246.1, 0.05: 193.7, 0.1: 158.95, 0.2: 132.4, 0.3: 121.3}


@pytest.mark.check
@pytest.mark.parametrize("r", PACKAGE)
def test_releases_agree_with_the_package_on_average(consumers: Files, r: float) -> None:
    """Its figures are means over 20 releases; three of them are ours."""
    risk = risk_of(*consumers, r, closed=False)
    positive = consumers[0]["Income"].to_numpy() > 0
    each = (risk.T / np.maximum(risk.c, 1))[positive].sum(axis=0)
    error = each.std(ddof=1) * np.sqrt(1 / 3 + 1 / 20)
    assert abs(each.mean() - PACKAGE[r]) < 4 * error
    closed = risk_of(*consumers, r, closed=True).summary().loc["mean", "expected_match_risk"]
    assert closed > each.mean()


def test_incomes_agree_with_all_pairs(consumers: Files) -> None:
    """Age is known: whoever is within its reach counts for the baseline."""
    original, releases = consumers
    age, income = (original[name].to_numpy(float) for name in ("Age", "Income"))
    cell = (original["Urban"] * 10 + original["Marital"]).to_numpy()
    risk = risk_of(*consumers, 0.05, closed=True)
    near = matches_of(cell, cell[None], [within(age, age[None], 0.1)])[0]
    assert (1 / risk.baseline).round(9).tolist() == near.sum(axis=1).tolist()
    for l, released in enumerate(releases):
        shown = within(income, released["Income"].to_numpy(float)[None], 0.05)
        match = near & matches_of(cell, cell[None], [shown])[0]
        assert risk.c[:, l].tolist() == match.sum(axis=1).tolist()
        assert risk.T[:, l].tolist() == match.diagonal().tolist()


def test_a_known_age_within_a_radius_changes_nothing_but_baseline_and_fallback(
    consumers: Files,
) -> None:
    """Listed as if it had been synthesised, it matches the same records."""
    original, releases = consumers
    risk = risk_of(original, releases, 0.1, closed=True)
    other = identification_risk(
        original,
        releases,
        known=["Urban", "Marital"],
        synthesized=["Age", "Income"],
        radius={"Age": 0.1, "Income": 0.1},
        fallback=False,
    )
    for name in ("c", "T", "pooled_c", "pooled_T"):
        assert (getattr(risk, name) == getattr(other, name)).all()
    assert risk.baseline_expected_match_risk > other.baseline_expected_match_risk
