"""Identification risk of real files: the American Community Survey and its synthetic copies."""

from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayes_risk.matching.risk import identification_risk

SYNTHESISED = ["LANX", "WAOB", "DIS", "HICOV"]
KNOWN = ["SEX", "RACE", "MAR"]


@pytest.fixture(scope="module")
def acs(shared_data: Path) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """ACS 2012, 10,000 records, and three partially synthetic copies."""
    original = pd.read_csv(shared_data / "hu_acs2012_nc_10cat.csv.gz")
    names = [f"hu_acs2012_nc_syn{l}_SYNTHETIC.csv.gz" for l in ("", "2", "3")]
    return original, [pd.read_csv(shared_data / name) for name in names]


def by_dictionaries(
    original: pd.DataFrame, releases: list[pd.DataFrame]
) -> dict[Any, tuple[float, int, int]]:
    """Expected match risk, single matches, true ones, in fractions; no fallback."""
    keys = KNOWN + SYNTHESISED
    target = list(original[keys].itertuples(index=False, name=None))
    results = {}
    held = [list(z[keys].itertuples(index=False, name=None)) for z in releases]
    for name, chosen in [*enumerate(([h] for h in held), start=1), ("pooled", held)]:
        scores: dict[Any, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        for rows in chosen:
            count = Counter(rows)
            for j, key in enumerate(rows):
                scores[key][j] += Fraction(1, count[key])
        best = {key: max(s.values()) for key, s in scores.items()}
        size = {key: sum(v == best[key] for v in s.values()) for key, s in scores.items()}
        true = [t in scores and scores[t].get(i, 0) == best[t] for i, t in enumerate(target)]
        risk = sum(1 / size[t] for t, hit in zip(target, true, strict=True) if hit)
        singles = [size.get(t) == 1 for t in target]
        results[name] = (risk, sum(singles), sum(np.logical_and(singles, true)))
    return results


def test_unaltered_acs_file_has_447_cells_and_197_uniques(
    acs: tuple[pd.DataFrame, list[pd.DataFrame]],
) -> None:
    """The 7 keys are the three known and the four synthesised columns of the releases."""
    original, _ = acs
    cells = original.groupby(KNOWN + SYNTHESISED).size()
    assert (len(cells), (cells == 1).sum()) == (447, 197)  # as published
    risk = identification_risk(original, original, known=KNOWN, synthesized=SYNTHESISED)
    row = risk.summary().loc["pooled"]
    assert row["expected_match_risk"] == pytest.approx(447)
    assert (row["unique_matches"], row["true_matches"]) == (197, 197)


@pytest.mark.check
def test_acs_releases_agree_with_dictionaries_of_fractions(
    acs: tuple[pd.DataFrame, list[pd.DataFrame]],
) -> None:
    original, releases = acs
    risk = identification_risk(
        original, releases, known=KNOWN, synthesized=SYNTHESISED, fallback=False
    )
    summary = risk.summary()
    for name, (emr, singles, true) in by_dictionaries(original, releases).items():
        assert summary.loc[name, "expected_match_risk"] == pytest.approx(emr)
        assert summary.loc[name, "unique_matches"] == singles
        assert summary.loc[name, "true_matches"] == true


@pytest.mark.check
def test_pooling_three_acs_releases_gives_about_ten_times_as_many_single_matches(
    acs: tuple[pd.DataFrame, list[pd.DataFrame]],
) -> None:
    original, releases = acs
    for fallback in (True, False):
        risk = identification_risk(
            original, releases, known=KNOWN, synthesized=SYNTHESISED, fallback=fallback
        )
        singles = risk.summary()["unique_matches"]
        assert 9 < singles["pooled"] / singles["mean"] < 11
