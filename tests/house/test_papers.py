"""The studies after the literature run, with fewer draws, where their data are at hand."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from bayes_risk.matching.risk import identification_risk
from tests.helpers.six_records import random_files

pytestmark = pytest.mark.check

ROOT = Path(__file__).resolve().parents[2]
PAPERS = ROOT / "examples" / "papers"
DATA = ROOT.parent / "shared" / "data"


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    """Scripts import what lies beside them, as when they are run by name."""
    monkeypatch.syspath_prepend(str(PAPERS))


def study(name, data):
    if not (DATA / data).exists():
        pytest.skip(f"the data of the paper, {data}, are not at hand")
    return runpy.run_path(str(PAPERS / name))["main"], DATA / data


def test_matches_stand_beside_the_errors_and_the_baseline_of_the_library():
    match_table = runpy.run_path(str(PAPERS / "match_table.py"))["match_table"]
    original, releases = random_files(4)
    original.loc[0, "a"] = 9  # alone with the known key
    releases = [z.assign(a=original["a"]) for z in releases]
    keys = {"known": ["a"], "synthesized": ["b"]}
    table = match_table(original, releases, **keys)
    risk = identification_risk(original, releases, **keys)
    pooled = risk.summary().loc["pooled"]
    assert table["value"].tolist() == pytest.approx(
        [
            pooled["expected_match_risk"],
            pooled["true_matches"],
            pooled["unique_matches"],
            100 * pooled["true_match_rate"],
            100 * (1 - pooled["false_match_rate"]),
            100 * pooled["false_match_rate"],
        ]
    )
    errors = table["+- 2 s.e."]
    assert errors["expected match risk"] == pytest.approx(2 * risk.pooled_mcse)
    assert (errors > 0).all()
    cells = risk.baseline_expected_match_risk
    assert table["without release"].tolist() == pytest.approx([cells, 1, 1, 100 / 60, 100, 0])
    # of other targets, from too few releases, and without a single match
    some = match_table(original, releases[:2], targets=[3, 5, 8], **keys)
    few = identification_risk(original, releases[:2], **keys).records.loc[[3, 5, 8]]
    assert some.loc["expected match risk", "value"] == pytest.approx(few["probability"].sum())
    assert some["+- 2 s.e."].isna().all()
    assert np.isnan(some.loc["false matches (% of single)", "without release"])


@pytest.mark.slow
def test_hornby_hu_2021(capsys):
    main, path = study("hornby_hu_2021.py", "ce_hornby_hu_attribute.csv.gz")
    risk, published, matches = main(path, draws=100, targets=40, m=3)
    assert risk.n_guesses == 7 * 3 * 11 and len(risk.index) == 40
    assert risk.reliable.all() and not published.reliable.any()
    matched = [table.loc["expected match risk"] for table in matches.values()]
    assert len(matched) == 3 and min(row["value"] for row in matched) > 0
    assert all(row["+- 2 s.e."] > 0 and row["without release"] == 11 for row in matched)
    said = capsys.readouterr().out
    assert "How close the intruder comes" in said and "unreliable for 100 %" in said
    assert "without release" in said


@pytest.mark.slow
def test_hornby_hu_2021_radius(capsys):
    main, path = study("hornby_hu_2021_radius.py", "ce_hornby_hu_identification.csv.gz")
    curves, growth = main(path, m=3)
    mean = {words: table["mean"] for words, table in curves.items()}
    assert mean["(1) income"].is_monotonic_decreasing  # a tree; the paper's code draws a margin
    largest = [table.max() for table in mean.values()]
    assert largest == sorted(largest, reverse=True)  # each variable more protects
    for table in curves.values():
        assert (table["+- 2 s.e."] > 0).all() and (table["without release"] < 0.02).all()
    assert list(growth.index) == [1] and "largest at" in capsys.readouterr().out


@pytest.mark.slow
def test_reiter_mitra_2009(capsys):
    main, path = study("reiter_mitra_2009.py", "syc1987_youth_in_custody.csv.gz")
    risk, found = main(path, draws=20, targets=30, m=1, n_tables=3)
    assert risk.n_guesses == 1 + 45 + 4 and len(risk.index) == 30
    assert "2,562 records, 46 facilities" in capsys.readouterr().out
    # every occupied cell of an unaltered file is expected to give one right match
    expected = {words: table.loc["expected match risk", "value"] for words, table in found.items()}
    assert expected["unaltered file"] == pytest.approx(217)
    assert max(expected["M empty"], expected["M known"]) < 217 / 4
    assert found["M known"].loc["expected match risk", "+- 2 s.e."] > 0


def test_wang_reiter_2012(capsys):
    main, path = study("wang_reiter_2012.py", "nc_bike_crashes_2007_2014_geocoded.csv.gz")
    df, tables = main(path, n=5, m=1)
    near, far = (table.loc["R1", "median"] for table in tables.values())
    assert len(df) == 1536 and 0 < near < far
    assert "R1 in kilometres" in capsys.readouterr().out


@pytest.mark.slow
def test_drechsler_reiter_2008(capsys):
    main, path = study("drechsler_reiter_2008.py", "cps1995_heads_standin_51016.csv.gz")
    results = main(path, m=3, targets=50)
    found, tables, risk = results["marital status and race"]
    assert risk.n_guesses == 28 and risk.reliable.all()
    emr = {scenario: table.loc["expected match risk"] for scenario, table in found.items()}
    assert emr["IV"]["value"] > emr["II"]["value"] > 0  # all targets, and a fifth of them
    assert emr["IV"]["value"] - emr["IV"]["+- 2 s.e."] > emr["IV"]["without release"] == 150
    single = {scenario: table.loc["single matches", "value"] for scenario, table in found.items()}
    assert single["III F estimated"] > single["III F known"] > single["IV"]  # as published
    claimed = found["III F known, below 0.5"]["value"]
    assert claimed["single matches"] < single["III F known"] / 20
    share = "true matches (% of single)"
    assert claimed[share] > found["III F known"].loc[share, "value"]
    age_too = results["age too"][0]["IV"].loc["expected match risk"]
    assert emr["IV"]["value"] > age_too["value"]  # synthesising age protects
    for table in tables.values():
        assert table["distance"].median() < 2
    said = capsys.readouterr().out
    assert "2,905" in said and "+- 2 s.e." in said  # published, and the errors of ours


@pytest.mark.filterwarnings("ignore:.*rank-deficient")
def test_caiola_reiter_2010(capsys):
    main, path = study("caiola_reiter_2010.py", "cps1995_heads_standin_51016.csv.gz")
    matches, tables, risk = main(path, n_trees=20, m=3, targets=30, records=1000)
    assert len(matches) == len(tables) == 3 and risk.n_guesses == 1 + 6 + 3 + 1
    for table in matches.values():
        false = table.loc["false matches (% of single)"]
        assert false["value"] > table.loc["true matches (% of records)", "value"]
        assert false["published"] >= 89 and false["+- 2 s.e."] > 0
    assert risk.reliable.all() and "published" in capsys.readouterr().out


@pytest.mark.filterwarnings(
    "ignore::bayes_risk.UnreliableWeightsWarning", "ignore::bayes_risk.TruncationWarning"
)
def test_wei_reiter_2016(capsys):
    main, path = study("wei_reiter_2016.py", "chile_manufacturing_plants_prodest.csv.gz")
    risks, worst = main(path, m=2, draws=60, n_classes=30)
    names = ["MP", "MM", "TCMM 0.99", "TCMM 0.95", "TCMM 0.9", "TCMM 0.8"]
    assert list(risks.index) == names and len(worst) == 5
    near, before = risks["within 5 %"].astype(float), risks["within 5 % before"].iloc[0]
    assert near["MM"] == pytest.approx(1)  # as published: the largest plant is disclosed
    assert (near[names[2:]] < near["MP"]).all()
    # it falls with the quantile, until the total of the tail tells less than the belief before it
    assert near["TCMM 0.99"] > before > near[names[3:]].max() > 0.5 * before
    for p in (1, 5, 10):  # every risk stands beside the belief before the release
        before = risks[f"within {p} % before"].astype(float)
        assert before.nunique() == 1 and 0 < before.iloc[0] < 0.3
    said = capsys.readouterr().out
    single = {name: int(re.search(rf"^{name} +(\d)$", said, re.MULTILINE)[1]) for name in names}
    assert single["MP"] == 0 and single["MM"] > single["TCMM 0.99"]
    assert not any(single[name] for name in names[3:])  # the largest stand in the tail together


def test_mcclure_reiter_2012(capsys):
    main = runpy.run_path(str(PAPERS / "mcclure_reiter_2012.py"))["main"]
    worst, found = main(settings=[(20, 1.0), (200, 1.0)])
    assert worst["all s, z"].to_numpy() == pytest.approx(worst["log(1 + n/a)"].to_numpy())
    ours, exact = worst["one release, privacy_loss"], worst["one release, closed form"]
    assert ours.to_numpy() == pytest.approx(exact.to_numpy(), abs=1e-8)
    # the two do not go together: the worst case grows with n, what is realised falls
    balanced = found.xs("balanced", level="data")
    assert balanced["worst case"].is_monotonic_increasing
    assert balanced["mean loss"].is_monotonic_decreasing
    assert (found["95 % of losses below"] < found["worst case"]).all()
    assert (found["Pr(truth), even odds"] > 0.5).all()
    learnt = found["Pr(truth), predictive prior"] - found["without the release"]
    assert (learnt > 0).all()
    assert "log(1 + n/a)" in capsys.readouterr().out
