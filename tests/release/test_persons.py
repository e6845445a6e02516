"""Persons of several records: panels and households are counted once a person."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import bayes_risk as br
from bayes_risk.release.links import links
from bayes_risk.release.links_result import LEVEL
from bayes_risk.reporting.verdicts.matches import unique_matches
from bayes_risk.reporting.verdicts.verdict import judge

WAVES, PERSONS = 5, 120


def panel(rng, n=PERSONS, waves=WAVES, start=0):
    """Incomes of persons, near each other over the waves; age moves with the wave."""
    pid = np.repeat(np.arange(start, start + n), waves)
    wave = np.tile(np.arange(waves), n)
    level = np.repeat(rng.normal(10, 0.8, n), waves)
    income = np.exp(level + rng.normal(0, 0.05, n * waves)).round(2)
    rent = np.exp(level / 2 + rng.normal(0, 0.3, n * waves)).round(2)
    sex = np.repeat(rng.integers(0, 2, n), waves)
    frame = {"pid": pid, "wave": wave, "sex": sex, "income": income, "rent": rent}
    return pd.DataFrame(frame).assign(pid=lambda df: df["pid"] * 7 + 10_003)


def noisy(df, rng):
    """Two per cent of noise in every row."""
    return df.assign(
        **{c: df[c] * np.exp(rng.normal(0, 0.02, len(df))) for c in ("income", "rent")}
    )


def one_exact(df, rng):
    """One row a person as it is, the others of another panel."""
    other = panel(rng)
    keep = df.groupby("pid").sample(1, random_state=int(rng.integers(1_000))).index
    made = df.assign(income=other["income"], rent=other["rent"])
    made.loc[keep, ["income", "rent"]] = df.loc[keep, ["income", "rent"]]
    return made


def most(found, sure=True):
    """Persons of the test that sees most."""
    return max((one.persons for one in found.tests if one.seen or not sure), default=0.0)


@pytest.mark.parametrize("leak", [noisy, one_exact])
@pytest.mark.parametrize("order", ["rows", "shuffled", "without pid"])
def test_panels_that_know_persons_are_seen_person_by_person(leak, order):
    rng = np.random.default_rng(1)
    df = panel(rng)
    file = leak(df, rng)
    if order != "rows":
        file = file.sample(frac=1, random_state=2, ignore_index=True).iloc[:-1]
    file = file.drop(columns="pid") if order == "without pid" else file.assign(pid=file["pid"] + 1)
    found = links(df, file, person="pid", corresponds=None if order == "rows" else False)
    assert found.n == PERSONS
    assert most(found) > PERSONS / 2
    assert all(one.persons <= PERSONS for one in found.tests)


def sound(kind, rng):
    """A panel and one of other people; or a partial file whose incomes follow nobody's."""
    df, other = panel(rng, 40), panel(rng, 40, start=1_000)
    if kind == "partial":
        return df, df.assign(income=other["income"], rent=other["rent"])
    if kind == "moved":
        return df, other.sample(frac=1, random_state=1, ignore_index=True).iloc[:-3]
    if kind == "without pid":
        return df, other.drop(columns="pid").iloc[:-3]
    same = df.groupby("pid")[["income", "rent"]].transform("first")  # one income a household
    made = other.groupby("pid")[["income", "rent"]].transform("first")
    return df.assign(**same), other.assign(**made).iloc[:-5]


@pytest.mark.check
@pytest.mark.parametrize("kind", ["partial", "moved", "without pid", "household"])
def test_panels_of_other_people_raise_false_alarms_at_the_stated_rate(kind):
    rng, times = np.random.default_rng(4), 40
    alarms = 0
    for _ in range(times):
        df, file = sound(kind, rng)
        alarms += most(links(df, file, person="pid")) > 0
    assert binom.sf(alarms - 1, times, LEVEL) > 1e-3


def test_alone_is_who_has_what_no_other_person_has():
    df = pd.DataFrame({"pid": [7, 7, 9, 9, 9], "pay": [10.0, 10, 20, 30, 30], "b": [1, 2, 2, 1, 1]})
    file = df.assign(b=[2, 2, 1, 1, 2]).drop(columns="pid")
    by_person = br.exposure(df, file, keys=["pay"], person="pid")
    by_row = br.exposure(df, file, keys=["pay"])
    assert by_person.unique.tolist() == [True] * 5
    assert by_row.unique.tolist() == [False, False, True, False, False]
    assert by_person.links.unchanged["pay"] == 2
    assert by_person.files.loc[1, "persons"] == 2
    assert by_person.files.loc[1, "replicated_persons"] == 2
    assert "pid" in by_person.identifiers and "pid" not in by_person.compared


@pytest.mark.parametrize("n", [1, 2, 4])
def test_few_persons_of_many_rows_are_too_few_for_own_rows(n):
    rng = np.random.default_rng(3)
    df = panel(rng, n, waves=8 // n).assign(age=np.arange(8))
    found = links(df, noisy(df, rng), person="pid")
    assert found.n == n and not most(found)


def test_a_person_must_be_known_of_each_record():
    df = pd.DataFrame({"pid": [1, None], "x": [1, 2]})
    with pytest.raises(br.InputError, match="'pid' is missing in 1 of 2 records"):
        br.exposure(df, df, person="pid")
    with pytest.raises(br.InputError, match="person"):
        br.exposure(df, df, person="nobody")
    with pytest.raises(br.InputError, match="is a key too"):
        br.identification_risk(df, df, known=[], synthesized=["x", "pid"], person="pid")


def test_true_matches_are_counted_by_person() -> None:
    """By hand: a person is matched by any of their rows; equal to rows where each is one."""
    rng = np.random.default_rng(1)
    y = pd.DataFrame({"pid": np.repeat(np.arange(120), 3), "wave": np.tile([1, 2, 3], 120)})
    y["area"] = rng.integers(0, 6, 120)[y.pid]
    y[["job", "edu"]] = rng.integers(0, 40, (360, 2))
    z = y.copy()
    z.loc[y.wave > 1, ["job", "edu"]] = rng.integers(0, 40, (240, 2))
    how: dict[str, Any] = {"known": ["area", "wave"], "synthesized": ["job", "edu"]}
    risk = br.identification_risk(y, z, person="pid", corresponds=True, **how)
    rows = y.merge(z, on=[*how["known"], *how["synthesized"]])
    once = rows.groupby(["pid_x", "wave"]).filter(lambda of: len(of) == 1)
    persons = once[once.pid_x == once.pid_y].pid_x.nunique()
    measure = {r.measure: r for r in judge(None, risk).reasons}["true match rate"]
    assert persons > 100 and measure.outcome == "above your thresholds"
    share = f"a record of {100 * persons / 120:.1f} % of the 120 persons uniquely"
    assert share in measure.sentence
    single = y.assign(pid=np.arange(360))
    by_row, by_person = (
        list(
            unique_matches(
                br.identification_risk(single, z, corresponds=True, person=person, **how)
            )
        )
        for person in (None, "pid")
    )
    assert [which for which, *_ in by_row] == [which for which, *_ in by_person]
    one, other = (np.array([of[1:] for of in each]) for each in (by_row, by_person))
    assert np.allclose(one, other, rtol=1e-12)


def constant():
    """Keys that are the same in all three waves, of everybody their own; half the persons kept."""
    y = pd.DataFrame({"pid": np.repeat(np.arange(100), 3), "wave": np.tile([1, 2, 3], 100)})
    y["job"] = y.pid
    other = np.r_[np.arange(50), np.roll(np.arange(50, 100), 1)]
    return y, y.assign(job=other[y.pid])


def test_rows_of_one_person_are_a_correct_match():
    y, z = constant()
    how: dict[str, Any] = {"known": [], "synthesized": ["job"], "corresponds": True}
    by_row = br.identification_risk(y, z, **how).summary().loc["pooled"]
    risk = br.identification_risk(y, z, person="pid", **how)
    found = risk.summary().loc["pooled"]
    assert (by_row["true_matches"], by_row["expected_match_risk"]) == (0, 50)
    assert (found["true_matches"], found["expected_match_risk"]) == (150, 150)
    assert (found["unique_matches"], found["false_match_rate"]) == (300, 0.5)
    assert (found["true_match_persons"], risk.baseline_expected_match_risk) == (50, 3)
    assert "Of 100 persons 50 have such a record (50.0 %)." in risk.sentence()
    assert risk.screen().head == "Identification risk (300 records)"
    assert "300 records of 100 persons" in risk.tables()["measures"].caption
    (_, rate, chance, _), *_ = unique_matches(risk)  # each person is claimed once, not three times
    assert (rate, chance) == (0.5, pytest.approx(0.01))
    part = br.identification_risk(y, z, person="pid", targets=[0, 1, 200], **how)
    assert part.K.ravel().tolist() == [True, True, False]
    assert part.summary().loc["pooled", "true_match_persons"] == 1


def test_targets_and_rows_that_are_nobodys_are_persons():
    y, z = constant()
    how: dict[str, Any] = {"known": [], "synthesized": ["job"], "person": "pid"}
    new = pd.DataFrame({"job": [7, 60, 8], "pid": [7, 60, 1000]}, index=[-1, -2, -3])
    risk = br.identification_risk(y, z, corresponds=True, targets=new, **how)
    assert risk.in_file.tolist() == [True, True, False]
    assert risk.K.ravel().tolist() == [True, False, False]
    assert risk.F.ravel().tolist() == [False, True, True]
    with pytest.raises(br.InputError, match="targets has no column 'pid'"):
        br.identification_risk(y, z, corresponds=True, targets=new[["job"]], **how)
    with pytest.raises(br.InputError, match="population counts people"):
        br.identification_risk(y, z, corresponds=True, population=np.full(300, 9), **how)
    counts = br.identification_risk(y, z.iloc[:-3], corresponds=False, **how)
    assert counts.others.max() == 0 and counts.replicated.sum() == 3 * 99
    without = br.identification_risk(y, z.iloc[:-3].drop(columns="pid"), corresponds=False, **how)
    assert without.replicated.sum() == 0  # nobody can tell that three rows are one person's
    assert "of 100 persons" in counts.sentence()


def test_a_column_of_persons_numbers_persons_not_rows():
    y, z = constant()
    shown = br.exposure(y, z, person="pid", corresponds=True).sentence()
    assert "pid is not an amount: it numbers the persons." in shown and "the rows" not in shown
