"""How identification risk is printed and written: errors, what was estimated, the settings."""

import io
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import bayes_risk as br
from bayes_risk.app.output import as_json
from bayes_risk.evidence.modes import Modes
from bayes_risk.matching.replicates import Replicates
from bayes_risk.reporting.terminal import _trust, on_screen
from tests.helpers.edge_results import attribute, confidential, identification, study_result

KEYS: dict[str, Any] = {"known": ["age"], "synthesized": ["job"]}


def files(m: int) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    df = confidential(30)
    return df, [df.assign(job=np.roll(df["job"].to_numpy(), l)) for l in range(1, m + 1)]


def risk_of(m: int = 3, **options: Any) -> br.IdentificationRisk:
    found = br.identification_risk(*files(m), **(KEYS | options))
    assert isinstance(found, br.IdentificationRisk)
    return found


def printed(table: Any, width: int = 80) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text().splitlines()


def trust(ident: br.IdentificationRisk, *, alone: bool = True) -> str:
    result = study_result(ident=ident)
    return _trust(replace(result, attribute=None, diagnostics={}) if alone else result)


# --- errors --------------------------------------------------------------------------------------


def screen_of(risk: br.IdentificationRisk) -> list[str]:
    table = risk.screen()
    assert table is not None
    return printed(on_screen(table))


def test_the_terminal_shows_the_errors_and_the_baseline() -> None:
    """On eighty columns too."""
    risk = risk_of(3)
    lines = screen_of(risk)
    assert lines[0].split()[-6:] == ["pooled", "mean", "of", "3", "without", "release"]
    rows = risk.summary().to_dict("index")
    values = [rows[name]["expected_match_risk"] for name in ("pooled", "mean")]
    values.append(risk.baseline_expected_match_risk)
    assert lines[1].split()[-3:] == [f"{value:.1f}" for value in values]
    errors = [f"± {2 * rows[name]['mcse']:.1f}" for name in ("pooled", "mean")]
    assert lines[2].split() == ["+-", "2", "s.e.", *" ".join(errors).split(), "–"]
    assert len(lines) == 5


def test_without_an_error_there_is_a_dash() -> None:
    lines = screen_of(risk_of(1))
    assert lines[2].split() == ["+-", "2", "s.e.", "–", "–", "–"]


def test_the_summary_has_error_and_baseline() -> None:
    risk = risk_of(3)
    summary = risk.summary()
    errors = risk.expected_match_risk_mcse
    assert summary["mcse"].loc[["mean", "pooled"]].tolist() == errors.tolist()
    assert summary["mcse"].loc[[1, 2, 3]].isna().all()
    assert (summary["baseline"] == risk.baseline_expected_match_risk).all()


def test_where_the_release_led_the_chains_the_r_hat_of_the_fit_is_not_shown() -> None:
    diagnostics = {"chains": 2, "max_rhat": 1.3, "min_ess": 40.0}
    result = replace(study_result(), diagnostics=diagnostics)
    assert result.attribute is not None and "largest R-hat 1.300" in _trust(result)
    modes = Modes(
        mode=np.array([0, 0, 1]),
        distance=np.zeros((3, 3)),
        log_release=np.zeros((3, 2)),
        kept=(0,),
        chosen=np.array([0, 0]),
        used=np.array([0, 1]),
    )
    said = _trust(replace(result, attribute=replace(result.attribute, modes=modes)))
    assert "2 of 3 chains started from the release found the same mode; 1 discarded" in said
    assert "R-hat" not in said


# --- what was estimated --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("population", "words"),
    [
        (None, "exact counting, nothing was sampled"),
        (lambda df: br.Population.counted(df, ["age", "job"]), "exact counting, nothing was samp"),
        (lambda df: np.full(30, 4), "matches were counted exactly; population counts were taken "),
        (
            lambda df: br.Population.log_linear(df, ["age", "job"], size=90),
            "matches were counted exactly; population counts are estimates (an all-two-way",
        ),
        (
            lambda df: br.Population.weighted(df.assign(w=3.0), ["age", "job"], weights="w"),
            "population counts are estimates (survey weights of 30 records (w))",
        ),
    ],
)
def test_what_was_estimated_is_said(population: Any, words: str) -> None:
    given = None if population is None else population(confidential(30))
    risk = risk_of(population=given)
    assert risk.estimated == ("estimates" in words)
    assert words in trust(risk)
    assert words in "; ".join(risk.counting(alone=True))


def test_it_is_said_beside_an_attribute_risk_too() -> None:
    df = confidential(30)
    risk = risk_of(population=br.Population.log_linear(df, ["age", "job"], size=90))
    assert "unreliable" in trust(risk, alone=False)
    assert "population counts are estimates (an all-two-way" in trust(risk, alone=False)
    assert "sampled" not in trust(risk_of(), alone=False)


def test_the_report_says_it_too(tmp_path: Any) -> None:
    df = confidential(30)
    risk = risk_of(population=br.Population.log_linear(df, ["age", "job"], size=90))
    page = br.report(risk, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "population counts are estimates" in page
    assert "nothing was sampled" not in page
    both = br.report(identification(), attribute(), tmp_path / "s.html")
    assert "Matching: exact counting" in both.read_text(encoding="utf-8")


def test_tables_that_were_drawn_are_no_releases() -> None:
    df, tables = files(4)
    drawn = Replicates(datasets=tables, synthesized=["job"], release_of=(1, 1, 2, 2))
    risk = br.identification_risk(df, drawn, **KEYS)
    assert isinstance(risk, br.IdentificationRisk)
    assert "4 tables drawn from the model given 2 releases" in trust(risk)
    shown = risk.tables()["measures"]
    assert "4 tables drawn from the model given 2 releases" in shown.caption
    assert shown.heads[2:4] == ("Mean of tables", "Over tables")


# --- settings ------------------------------------------------------------------------------------


def test_the_rules_are_written_down() -> None:
    rule = (np.arange(30) % 2).astype(bool)
    risk = risk_of(missing={"job": "never"}, reason=rule)
    found = json.loads(json.dumps(as_json(risk.to_dict())))
    assert found["missing"] == {"job": "never"}
    assert found["reason"] is True
    assert found["population_estimated"] is False
    assert found["measures"]["pooled"]["baseline"] == risk.baseline_expected_match_risk
    usual = as_json(risk_of().to_dict())
    assert (usual["missing"], usual["reason"]) == ({}, False)


def test_numbers_are_not_cut_off_on_eighty_columns() -> None:
    """They ended in the middle of a digit beside a long label."""
    table = risk_of(3).screen()
    assert table is not None
    rows = [(f"{row[0]} of a column with a long name, 22 records", *row[1:]) for row in table.rows]
    long: Any = SimpleNamespace(heads=table.heads, rows=rows)
    shown = printed(on_screen(long, 80))
    for line, row in zip(shown, [long.heads, *rows], strict=True):
        assert len(line) <= 80 and line.split("  ")[-1].strip() == row[-1]
