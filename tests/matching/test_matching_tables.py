"""Tables of matching: what the kept keys alone give, and the records at highest risk."""

import numpy as np
import pandas as pd
import pytest

from bayes_risk.data.measures import IDENTIFICATION
from bayes_risk.matching.risk import identification_risk
from tests.helpers.edge_results import identification

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
    found = risk.screen().frame["without"].dropna().to_dict()
    assert found == {
        "expected_match_risk": pytest.approx(3.0),
        "true_matches": 1,
        "true_match_rate": pytest.approx(1 / 6),
        "unique_matches": 1,
        "false_match_rate": 0.0,
        "no_match": 0,
    }
    assert [row[-1] for row in risk.tables()["measures"].rows] == [
        "3.0",
        "1",
        "16.7 %",
        "1",
        "0.0 %",
        "0",
    ]


def test_nobody_is_alone():
    df = pd.DataFrame({"age": [1, 1], "job": ["a", "b"]})
    risk = identification_risk(df, [df], known=["age"], synthesized=["job"])
    shown = {row[0]: row[-1] for row in risk.tables()["measures"].rows}
    assert shown["False match rate"] == DASH
    assert shown["True matches"] == "0"


def test_without_knowledge_of_who_is_in_the_file_there_is_no_such_number():
    counts = np.array([5, 5, 5, 5, 5, 5])
    risk = matched("abcdef", population=counts)
    assert risk.baseline_true_matches is None
    assert [row[-1] for row in risk.tables()["measures"].rows] == [
        "3.0",
        *[DASH] * (len(IDENTIFICATION) - 2),  # persons are not named
    ]


def test_records_at_highest_risk_stand_first_and_those_the_kept_keys_spare_before_others():
    risk = matched("abcdef", "abcdfe")  # y and z are exchanged in the second
    table = risk.tables()["worst"]
    assert [row[0] for row in table.rows][:4] == ["x", "v", "w", "u"]
    assert [row[1] for row in table.rows][:4] == ["1.000"] * 4
    assert [row[3] for row in table.rows][:4] == ["0.333", "0.500", "0.500", "1.000"]
    assert table.rows[0][-1] == "2" and "4 records share the largest." in table.caption
    assert len(table.rows) == 6


@pytest.mark.parametrize("m", [1, 3])
def test_errors_of_records_are_between_releases(m):
    cells = [row[2] for row in identification(m=m).tables()["worst"].rows]
    assert set(cells) == {DASH} if m == 1 else any(" to " in cell for cell in cells)
