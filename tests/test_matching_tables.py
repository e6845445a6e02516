"""Tables of matching: what the kept keys alone give, and the records at highest risk."""

import numpy as np
import pandas as pd
import pytest

from bayes_risk.matching.risk import identification_risk
from bayes_risk.reporting.matching import by_kept_keys, matches_table, worst_matches
from bayes_risk.reporting.words import MATCHES
from tests.edge_results import identification

DASH, ERROR = "\N{EN DASH}", "\N{PLUS-MINUS SIGN} "


def people():
    """Ages 1, 2, 2, 3, 3, 3; everybody has another job."""
    return pd.DataFrame({"age": [1, 2, 2, 3, 3, 3], "job": list("abcdef")}, index=list("uvwxyz"))


def matched(*jobs, **how):
    df = people()
    files = [df.assign(job=list(each)) for each in jobs]
    return identification_risk(df, files, known=["age"], synthesized=["job"], **how)


def test_kept_keys_alone_match_whom_nobody_shares_them_with():
    risk = matched("abcdef", "bacdfe")
    assert risk.baseline_true_matches == 1  # u, alone at age 1
    assert by_kept_keys(risk) == {
        "expected_match_risk": "3.0",
        "true_matches": "1",
        "true_match_rate": "16.7 %",
        "unique_matches": "1",
        "false_match_rate": "0.0 %",
        "no_match": "0",
    }
    assert [row[-1] for row in matches_table(risk).rows] == list(by_kept_keys(risk).values())


def test_nobody_is_alone():
    df = pd.DataFrame({"age": [1, 1], "job": ["a", "b"]})
    risk = identification_risk(df, [df], known=["age"], synthesized=["job"])
    assert by_kept_keys(risk)["false_match_rate"] == DASH
    assert by_kept_keys(risk)["true_matches"] == "0"


def test_without_knowledge_of_who_is_in_the_file_there_is_no_such_number():
    counts = np.array([5, 5, 5, 5, 5, 5])
    risk = matched("abcdef", population=counts)
    assert risk.baseline_true_matches is None
    assert [row[-1] for row in matches_table(risk).rows] == ["3.0", *[DASH] * (len(MATCHES) - 1)]


def test_records_at_highest_risk_stand_first_and_those_the_kept_keys_spare_before_others():
    risk = matched("abcdef", "abcdfe")  # y and z are exchanged in the second
    table = worst_matches(risk, 4)
    assert [row[0] for row in table.rows] == ["x", "v", "w", "u"]
    assert [row[1] for row in table.rows] == ["1.000"] * 4
    assert [row[3] for row in table.rows] == ["0.333", "0.500", "0.500", "1.000"]
    assert table.rows[0][-1] == "2" and "4 records share the largest." in table.caption
    assert len(worst_matches(risk).rows) == 6


@pytest.mark.parametrize("m", [1, 3])
def test_errors_of_records_are_between_releases(m):
    cells = [row[2] for row in worst_matches(identification(m=m)).rows]
    assert set(cells) == {DASH} if m == 1 else any(cell.startswith(ERROR) for cell in cells)
