"""Identification risk in a population: who may be meant, targets outside the file, strategies."""

import numpy as np
import pandas as pd
import pytest

from bayes_risk._core.errors import InputError
from bayes_risk.matching.population import Population
from tests.helpers.six_records import FIRST, ORIGINAL, SECOND, frame, risk_of
from tests.intruder.test_radius import arrays_of

RELEASES = [FIRST, SECOND]


# --- by hand -------------------------------------------------------------------------------------


def test_six_records_of_a_population_by_hand() -> None:
    """Targets xp xp xq yp yq yr, of whom the population has 2 2 1 4 5 1.

    Release 1: xp {0} 1/2, xq {1, 2} 1/2 (F < N), yp {3} 1/4, yq {4, 5} 1/5, yr none.
    Release 2: xp {0, 1, 2} 1/3, xq none, yp {5} 1/4, yq {3, 4} 1/5, yr none.
    """
    risk = risk_of(ORIGINAL, RELEASES, population=[2, 2, 1, 4, 5, 1])
    assert risk.c.T.tolist() == [[1, 1, 2, 1, 2, 0], [3, 3, 0, 1, 2, 0]]
    assert risk.T.T.astype(int).tolist() == [[1, 0, 1, 1, 1, 0], [1, 1, 0, 0, 1, 0]]
    assert risk.outside.T == pytest.approx(
        np.array([[1 / 2, 1 / 2, 0, 3 / 4, 3 / 5, 1], [0, 0, 1, 3 / 4, 3 / 5, 1]])
    )
    assert risk.pooled_c.tolist() == [1, 1, 2, 2, 1, 0]  # yq: record 4 in both releases
    assert risk.pooled_outside == pytest.approx([1 / 4, 1 / 4, 1 / 2, 3 / 4, 3 / 5, 1])
    assert not risk.fallback
    assert risk.population == "population counts as given"
    assert "not knowing who is in the file (population counts as given)" in risk.sentence()
    # pooled best: 5/12 5/12 1/4 1/8 1/5
    likeliest = risk_of(ORIGINAL, RELEASES, population=[2, 2, 1, 4, 5, 1], strategy="likeliest")
    assert likeliest.pooled_c.tolist() == [1, 1, 0, 0, 0, 0]
    below = risk_of(ORIGINAL, RELEASES, population=[2, 2, 1, 4, 5, 1], strategy=0.6)
    assert below.pooled_c.tolist() == [1, 1, 2, 0, 0, 0]  # 3/5 is not below 0.6
    assert below.summary()["claims"].tolist() == [3, 2, 2.5, 3]


def test_labels_of_any_kind_name_targets() -> None:
    pairs = pd.MultiIndex.from_product([["s", "t"], [1, 2, 3]])
    tables = [t.set_axis(pairs) for t in (ORIGINAL, FIRST)]
    assert risk_of(*tables, targets=[("t", 2)]).records.index.tolist() == [("t", 2)]
    names = [t.set_axis(list("uvwxyz")) for t in (ORIGINAL, FIRST)]
    assert risk_of(*names, targets=["y", "u"]).c[:, 0].tolist() == [2, 1]


# --- limits --------------------------------------------------------------------------------------


def test_counts_in_a_series_go_by_label() -> None:
    counts = pd.Series([2, 2, 1, 4, 5, 1])
    risk = risk_of(ORIGINAL, RELEASES, population=counts)
    labelled = [t.rename_axis("id") for t in (ORIGINAL, *RELEASES)]
    shuffled = risk_of(labelled[0], labelled[1:], population=counts[::-1])
    assert shuffled.pooled_outside.tolist() == risk.pooled_outside.tolist()


# --- estimated and counted populations -----------------------------------------------------------


def people() -> pd.DataFrame:
    """xp 2, xq 3, yp 4, yq 5, yr 1: the six records and nine others."""
    return frame("xxxxxyyyyyyyyyy", "ppqqqppppqqqqqr")


def test_a_counted_population_is_its_counts() -> None:
    counted = Population.counted(people(), ["a", "b"])
    risk = risk_of(ORIGINAL, RELEASES, population=counted)
    plain = risk_of(ORIGINAL, RELEASES, population=[2, 2, 3, 4, 5, 1])
    assert arrays_of(risk) == arrays_of(plain)
    assert risk.baseline == pytest.approx([1 / 3] * 6)  # three x and three y in the file
    assert risk.population == counted.in_words()
    two = risk_of(ORIGINAL, RELEASES, population=[counted, counted])
    assert arrays_of(two) == arrays_of(risk)


def test_draws_of_the_counts_are_averaged_as_chances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pr = mean of min(1/F, 1/N) over draws: of F = 1, 2, 4 where two match, (2/2 + 1/4) / 3."""
    draws = np.outer([1, 2, 4], np.ones(6))
    monkeypatch.setattr(Population, "counts", lambda self, df: draws[:, : len(df)])
    counted = Population.counted(people(), ["a", "b"])
    risk = risk_of(ORIGINAL, FIRST, population=counted)
    assert risk.c[2, 0] == 2
    assert risk.outside[2, 0] == pytest.approx(1 - 2 * (1 / 2 + 1 / 2 + 1 / 4) / 3)
    assert risk.outside[0, 0] == pytest.approx(1 - (1 + 1 / 2 + 1 / 4) / 3)


# --- bad input -----------------------------------------------------------------------------------


def test_a_population_counted_by_fewer_keys_is_refused() -> None:
    by_one = Population.counted(people(), ["a"])
    with pytest.raises(InputError, match=r"by \['a'\], and keys are \['a', 'b'\]: count people by"):
        risk_of(ORIGINAL, RELEASES, population=by_one)
