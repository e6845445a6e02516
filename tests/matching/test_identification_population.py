"""Identification risk in a population: who may be meant, targets outside the file, strategies."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayes_risk._core.errors import InputError
from bayes_risk.matching.population import Population
from bayes_risk.matching.radii import Absolute
from tests.helpers.six_records import FIRST, ORIGINAL, SECOND, frame, random_files, risk_of
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


def test_a_release_may_have_its_own_counts() -> None:
    counts = [[2, 2, 1, 4, 5, 1], [9, 9, 1, 2, 5, 1]]
    risk = risk_of(ORIGINAL, RELEASES, population=counts)
    assert risk.outside[:, 1] == pytest.approx([2 / 3, 2 / 3, 1, 1 / 2, 3 / 5, 1])
    # yp: record 3 has 1/4 of release 1, record 5 has 1/2 of release 2
    assert (risk.pooled_c[3], risk.pooled_T[3]) == (1, False)


def test_people_outside_the_file_are_found_wrongly_or_not_at_all() -> None:
    """The second is record 2 of the file, of whom the intruder believes something else."""
    people = frame("xyz", "qpp", index=["outside", 2, "nowhere"])
    risk = risk_of(ORIGINAL, FIRST, targets=people)
    assert risk.records.index.tolist() == ["outside", 2, "nowhere"]
    assert risk.in_file.tolist() == [False, True, False]
    assert risk.c[:, 0].tolist() == [2, 1, 0]  # nobody is z: not even the fallback has a cell
    assert not risk.T.any()
    assert risk.F[:, 0].tolist() == [False, True, False]
    assert risk.baseline.tolist() == [0, 0, 0]
    assert "of 3 targets (1 of them in the file)" in risk.sentence()


def test_some_targets_are_those_of_all() -> None:
    original, releases = random_files(3)
    everybody = risk_of(original, releases).records
    mask = np.arange(len(original)) % 7 == 2
    for targets in (mask, pd.Series(mask), pd.array(mask, dtype="boolean"), original[mask]):
        pd.testing.assert_frame_equal(
            risk_of(original, releases, targets=targets).records, everybody[mask]
        )
    backwards = np.flatnonzero(mask)[::-1]
    for labels in (backwards, list(backwards), pd.Index(backwards)):
        pd.testing.assert_frame_equal(
            risk_of(original, releases, targets=labels).records, everybody.loc[backwards]
        )
    assert risk_of(original, releases, targets=[5]).n == 1


def test_labels_of_any_kind_name_targets() -> None:
    pairs = pd.MultiIndex.from_product([["s", "t"], [1, 2, 3]])
    tables = [t.set_axis(pairs) for t in (ORIGINAL, FIRST)]
    assert risk_of(*tables, targets=[("t", 2)]).records.index.tolist() == [("t", 2)]
    names = [t.set_axis(list("uvwxyz")) for t in (ORIGINAL, FIRST)]
    assert risk_of(*names, targets=["y", "u"]).c[:, 0].tolist() == [2, 1]


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [None, {"b": Absolute(1)}])
def test_a_boundless_population_puts_everybody_outside(radius: Any) -> None:
    original, releases = random_files(3)
    for F in (1e9, 1e18, 1e30):
        risk = risk_of(original, releases, population=np.full(60, F), radius=radius)
        assert risk.pooled_outside == pytest.approx(1)
        never = risk_of(
            original, releases, population=np.full(60, F), radius=radius, strategy="likeliest"
        )
        assert not never.pooled_c.any()
        always = risk_of(original, releases, fallback=False, radius=radius)
        assert risk.c.tolist() == always.c.tolist()  # he claims all the same


@pytest.mark.parametrize("radius", [None, {"b": Absolute(1)}])
@pytest.mark.parametrize("F", [0.5, 1])
def test_a_population_of_those_that_match_is_the_file(radius: Any, F: float) -> None:
    """min(1/F, 1/N) = 1/N: the same candidates; nobody is outside where everything matches."""
    original, releases = random_files(3)
    inside = risk_of(original, releases, fallback=False, radius=radius)
    risk = risk_of(original, releases, population=np.full(60, F), radius=radius)
    assert arrays_of(risk) == arrays_of(inside)
    assert risk.outside.tolist() == inside.no_match.astype(float).tolist()
    whole = risk_of(original, original, population=np.full(60, F), radius=radius)
    assert arrays_of(whole) == arrays_of(risk_of(original, original, radius=radius))
    assert not whole.pooled_outside.any()


def test_gamma_of_one_is_always() -> None:
    original, releases = random_files(3)
    F = 1e25 * np.ones(60)
    always, one = (risk_of(original, releases, population=F, strategy=s) for s in ("always", 1))
    assert arrays_of(one) == arrays_of(always)
    assert one.pooled_c.any()


@pytest.mark.parametrize("strategy", ["likeliest", 0.01])
def test_who_knows_that_the_target_is_in_the_file_has_no_strategy(strategy: Any) -> None:
    """Without the fallback he gives up where nothing matches, but nobody is outside."""
    with pytest.raises(InputError, match="changes nothing .* give population too, or leave strat"):
        risk_of(ORIGINAL, RELEASES, strategy=strategy)
    for fallback in (True, False):
        risk = risk_of(ORIGINAL, RELEASES, fallback=fallback)
        assert not risk.outside.any()
        assert not risk.pooled_outside.any()


def test_probabilities_are_compared_as_fractions() -> None:
    """1 - 2/3 is above 1/3, and 1 - 9/10 below 0.1, in floating point only."""
    one = frame("xx", "pp"), frame("xx", "pp")
    assert risk_of(*one, population=[3, 3], strategy="likeliest").c[:, 0].tolist() == [2, 2]
    nine = frame("x" * 9, "p" * 9)
    risk = risk_of(nine, nine, population=np.full(9, 10), strategy=0.1)
    assert not risk.c.any()


def test_ties_of_estimated_counts_are_exact() -> None:
    """1/2.5 = 1/5 + 1/5, and 1/6 + 1/8 = 1/8 + 1/10 + 1/15 beside an estimate."""
    original = frame("xx", "pq")
    first, second = frame("xx", "pr"), frame("xx", "rp")
    halves = np.column_stack([[2.5, 5, 5], [1, 1, 1]])
    risk = risk_of(original, [first, second, second], population=halves)
    assert risk.pooled_c[0] == 2
    odd = np.column_stack([[6, 8, 8, 10, 15, 1.3713713], np.ones(6)])
    releases = [first, first, second, second, second, frame("xx", "pp")]
    assert risk_of(original, releases, population=odd).pooled_c[0] == 2


def test_the_order_of_targets_and_releases_does_not_matter() -> None:
    original, releases = random_files(4)
    order = np.random.default_rng(1).permutation(60)
    counts = np.random.default_rng(2).integers(1, 30, (4, 24))
    cell = original["a"].to_numpy() * 6 + original["b"].to_numpy()
    straight = risk_of(original, releases, population=counts[:, cell], strategy=0.8)
    turned = risk_of(
        original,
        releases[::-1],
        targets=order,
        population=counts[::-1, cell[order]],
        strategy=0.8,
    )
    pd.testing.assert_frame_equal(turned.records, straight.records.iloc[order])


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
