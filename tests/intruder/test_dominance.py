"""The p%-rule and (n, k)-dominance, against numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br

TABLE = pd.DataFrame(
    {
        "workers": [900, 60, 20, 20, 50, 45, 5, 0, 30],
        "branch": list("aaaabbbcd"),
        "region": list("nnssnnnns"),
    },
    index=range(10, 19),
)


def test_by_hand():
    found = br.dominance(TABLE, "workers", "branch", p=10, n=2, k=85)
    assert list(found.index) == list("abcd") and found.index.name == "branch"
    a = found.loc["a"]
    assert (a["records"], a["total"], a["largest"], a["second"]) == (4, 1000, 900, 60)
    assert (a["largest_share"], a["n_largest_share"]) == (90, 96)
    assert a["estimate_error"] == pytest.approx(100 * 40 / 900)  # 1000 - 60 = 940 against 900
    assert a["p_sensitive"] and a["nk_sensitive"]
    b = found.loc["b"]  # the second largest errs by 5 of 50: 10 %, not less than 10 %
    assert b["estimate_error"] == 10 and not b["p_sensitive"] and b["nk_sensitive"]


def test_cells_of_one_and_of_nothing():
    found = br.dominance(TABLE, "workers", "branch")
    d = found.loc["d"]
    assert d["second"] == 0 and d["estimate_error"] == 0 and d["p_sensitive"] and d["nk_sensitive"]
    c = found.loc["c"]
    assert c["estimate_error"] == np.inf and not c["p_sensitive"] and not c["nk_sensitive"]


def test_one_cell_by_default_and_two_columns_of_cells():
    assert list(br.dominance(TABLE, "workers").index) == ["all"]
    found = br.dominance(TABLE, "workers", ["branch", "region"])
    assert found.loc[("a", "s"), "records"] == 2 and found.index.names == ["branch", "region"]


def test_missing_cells_are_cells():
    table = TABLE.assign(branch=TABLE["branch"].where(TABLE["branch"] != "d"))
    assert len(br.dominance(table, "workers", "branch")) == 4


def test_rules_by_p_n_and_k():
    found = br.dominance(TABLE, "workers", "branch", p=11, n=1, k=50)
    assert found.loc["b", "p_sensitive"] and not found.loc["b", "nk_sensitive"]
