"""Hawala (2008), Tables 1 to 3: which records, where they go, and what the printed numbers say."""

import contextlib
import io
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_risk.demo import italy

ROOT = Path(__file__).resolve().parents[2]
PAPER = runpy.run_path(str(ROOT / "examples" / "papers" / "hawala_2008.py"))


@pytest.fixture(scope="module")
def study():
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        found = PAPER["main"](m=12)
    return *found, said.getvalue()


def test_table_2_as_typed_sums_to_the_records_of_the_text():
    table = np.array(PAPER["TABLE_2"])
    assert table.sum() == 2313
    assert table[table > 0].min() == 8  # "The smallest cell count in Table 2 is 8"
    kept = PAPER["counts"](italy()).to_numpy().reshape(table.shape)
    moved = table - np.where(kept > 5, kept, 0)
    assert moved.min() == 0 and moved.sum() == 15  # fifteen records, into cells above the threshold
    assert (kept[moved > 0] > 5).all()


def test_printed_measures_belong_to_the_printed_tables():
    df = italy()
    table_2 = PAPER["measures"](PAPER["records_of"](PAPER["TABLE_2"], df))
    for name in ("AGE", "PRO"):
        found = table_2.loc[name].tolist()
        printed = [PAPER["MEANS_3"][name], PAPER["VARIANCES_3"][name]]
        assert found == pytest.approx(printed, abs=5e-7)
    original = PAPER["measures"](df).round(6)
    assert original["mean"].tolist() == [2.973627, 2.337224, 1.699092]
    assert original["variance"].tolist() == [0.059425, 1.198514, 0.531388]


def test_printed_education_fits_a_file_with_two_records_elsewhere():
    table = np.array(PAPER["TABLE_2"])
    assert table.sum(axis=1).tolist() == PAPER["AGE_BY_PRO_3"]
    printed = np.array(PAPER["AGE_BY_EDU_3"])
    assert (table.sum(axis=2) - printed).tolist() == [[0] * 4, [0] * 4, [0, -1, 0, 1], [0] * 4]
    table[2, 1:, 1] += [1, -1, 0]  # a clerk: vocational instead of secondary school
    table[2, 1:, 2] += [0, 1, -1]  # a manager: secondary school instead of a degree
    assert table.sum(axis=2).tolist() == PAPER["AGE_BY_EDU_3"]
    assert table.sum(axis=1).tolist() == PAPER["AGE_BY_PRO_3"]
    found = PAPER["measures"](PAPER["records_of"](table, italy())).loc["EDU"].tolist()
    assert found == pytest.approx([PAPER["MEANS_3"]["EDU"], PAPER["VARIANCES_3"]["EDU"]], abs=5e-7)


def test_exactly_the_fifteen_records_are_synthesised(study):
    fit, release, *_ = study
    df = italy()
    counts = PAPER["counts"](df)
    small = counts[(counts > 0) & (counts <= 5)].index
    assert fit.chosen.sum() == 15 == fit.diagnostics["vulnerable"]
    assert set(df[fit.chosen].itertuples(index=False, name=None)) == set(small)
    assert (release.records == fit.chosen).all()
    for table in release.datasets:
        pd.testing.assert_frame_equal(table[~fit.chosen], df[~fit.chosen])


def test_no_small_cell_survives_and_totals_hold(study):
    _, release, cells, *_ = study
    for table in release.datasets:
        counts = PAPER["counts"](table)
        assert counts.sum() == 2313
        assert counts[counts > 0].min() > 5
    assert cells[["Table 1", "Table 2", "ours"]].sum().tolist() == [2313, 2313, 2313]


def test_published_table_is_no_surprise(study):
    fit, release, cells, unschooled, _ = study
    kept = cells["Table 1"].where(cells["Table 1"] > 5, 0)
    drawn = [PAPER["counts"](z) - kept for z in release.datasets]
    moved = pd.concat(drawn, axis=1)
    assert (moved.sum() == 15).all()
    # each cell that gains records in the paper is one that some of the fifteen can land in
    gaining = (cells["Table 2"] - kept).to_numpy().nonzero()[0]
    rows, places = fit.rows[fit.chosen], np.stack(np.unravel_index(gaining, (4, 4, 3)), axis=1)
    every, z = np.repeat(rows, len(places), axis=0), np.tile(places, (len(rows), 1))
    chance = np.exp(fit.base.log_chances(every, z).sum(axis=0)).reshape(len(rows), -1)
    assert (chance.max(axis=0) > 0.01).all() and len(gaining) == 7
    assert unschooled["genuine"] <= 0.3 and unschooled["filled"] <= 0.1
    assert fit.notes == ()


def test_it_says_what_differs(study):
    said = study[-1]
    assert "Smallest cell that is left: 8 in the paper" in said
    assert "Share of files in which none of the fifteen has no schooling" in said
