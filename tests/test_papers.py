"""The studies after the literature run, with fewer draws, where their data are at hand."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"


def study(name, data):
    if not (DATA / data).exists():
        pytest.skip(f"the data of the paper, {data}, are not at hand")
    return runpy.run_path(str(ROOT / "examples" / "papers" / name))["main"], DATA / data


def test_hornby_hu_2021(capsys):
    main, path = study("hornby_hu_2021.py", "ce_hornby_hu_attribute.csv.gz")
    risk, published, ident = main(path, draws=100, targets=40, m=2)
    assert risk.n_guesses == 7 * 3 * 11 and len(risk.index) == 40
    assert risk.reliable.all() and not published.reliable.any()
    matched = [found.summary().loc["pooled", "expected_match_risk"] for found in ident.values()]
    assert len(matched) == 3 and min(matched) > 0
    said = capsys.readouterr().out
    assert "How close the intruder comes" in said and "unreliable for 100 %" in said


def test_reiter_mitra_2009(capsys):
    main, path = study("reiter_mitra_2009.py", "syc1987_youth_in_custody.csv.gz")
    risk, ident, unaltered = main(path, draws=20, targets=30, m=1)
    assert risk.n_guesses == 1 + 45 + 4 and len(risk.index) == 30
    assert "2,562 records, 46 facilities" in capsys.readouterr().out
    # every occupied cell of an unaltered file is expected to give one right match
    cells = unaltered.summary().loc["pooled", "expected_match_risk"]
    assert cells == pytest.approx(217)
    assert ident.summary().loc["pooled", "expected_match_risk"] < cells / 4


def test_wang_reiter_2012(capsys):
    main, path = study("wang_reiter_2012.py", "nc_bike_crashes_2007_2014_geocoded.csv.gz")
    df, tables = main(path, n=5, m=1)
    near, far = (table.loc["R1", "median"] for table in tables.values())
    assert len(df) == 1536 and 0 < near < far
    assert "R1 in kilometres" in capsys.readouterr().out


def test_drechsler_reiter_2008(capsys):
    main, path = study("drechsler_reiter_2008.py", "cps1995_heads_standin_51016.csv.gz")
    results = main(path, m=2, targets=50)
    found, tables, risk = results["marital status and race"]
    assert risk.n_guesses == 28 and risk.reliable.all()
    assert found["IV"][0] > found["II"][0] > 0  # all targets, and a fifth of them
    assert found["IV"][0] > results["age too"][0]["IV"][0]  # synthesising age protects
    for table in tables.values():
        assert table["distance"].median() < 2
    assert "IV, published" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.*rank-deficient")
def test_caiola_reiter_2010(capsys):
    main, path = study("caiola_reiter_2010.py", "cps1995_heads_standin_51016.csv.gz")
    matches, tables, risk = main(path, n_trees=20, m=2, targets=30, records=1000)
    assert len(matches) == len(tables) == 3 and risk.n_guesses == 1 + 6 + 3 + 1
    assert (matches["false %"] > matches["true %"]).all()
    assert risk.reliable.all() and "published" in capsys.readouterr().out
