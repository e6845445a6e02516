"""The confidential file as its own release, written otherwise: recognised, or a named error."""

import re
from inspect import signature

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk.app.cli import app
from bayes_risk.data.equality import coded
from bayes_risk.matching.file_risk import identification_risk_of_files
from bayes_risk.matching.question import MatchingOptions
from bayes_risk.release.alike import read_like
from bayes_risk.reporting.verdicts.verdict import judge

n = 400
RNG = np.random.default_rng(5)
PEOPLE = pd.DataFrame({"sex": RNG.choice(["f", "m"], n), "region": RNG.choice(list("abcdefgh"), n)})
WHOLE, REAL = RNG.integers(100, 999, n), RNG.normal(0, 1, n) / 3
AMOUNT = np.round(RNG.lognormal(6, 1, n), 2)
TENTHS = np.abs(30 * REAL).round(1)
DATES = pd.to_datetime("1950-01-01") + pd.to_timedelta(RNG.integers(0, 20_000, n), "D")
JOB = pd.Series(RNG.choice([f"job {i}" for i in range(40)], n))
SOME = RNG.random(n) < 0.1
CODE = np.array([f"{v:02d}" for v in RNG.integers(1, 20, n)])
CODE[:40] = "2A"


def matched(y, z):
    tables = PEOPLE.assign(x=y), PEOPLE.assign(x=z)
    return br.identification_risk(*tables, known=["sex", "region"], synthesized=["x"])


SAME = {
    "312 and 312.0 beside words": (
        np.where(SOME, "unknown", WHOLE.astype(str)),
        np.where(SOME, "unknown", WHOLE.astype(float).astype(str)),
    ),
    "a leading blank": (" " + JOB, JOB),
    "a blank that does not break": (JOB, JOB.str.replace(" ", "\u00a0")),
    "capitals": (JOB, JOB.str.upper()),
    "1,234 and 1234": (pd.Series([f"{v:,}" for v in WHOLE * 37]), (WHOLE * 37).astype(str)),
    "dates with times": (DATES.strftime("%Y-%m-%d"), DATES.strftime("%Y-%m-%d 00:00:00")),
    "day/month/year": (DATES.strftime("%d/%m/%Y"), DATES.strftime("%Y-%m-%d")),
    "month/day/year": (DATES, DATES.strftime("%m/%d/%Y")),
    "single precision": (AMOUNT, AMOUNT.astype("float32")),
    "UTC": (DATES, DATES.tz_localize("UTC")),
    "years as text": (WHOLE + 1500, (WHOLE + 1500).astype(str)),
    "text as years": ((WHOLE + 1500).astype(str), WHOLE + 1500),
    "missing as nan": (JOB.mask(SOME), JOB.mask(SOME, "nan")),
    "nan as missing": (JOB.mask(SOME, "nan"), JOB.mask(SOME)),
    "leading zeros lost": (CODE, [code.lstrip("0") for code in CODE]),
    "15 digits": (REAL, [float(f"{v:.15g}") for v in REAL]),
    "7 digits and an exponent": (AMOUNT, [f"{v:.6e}" for v in AMOUNT]),
    "1'234.56": (AMOUNT, [f"{v:,.2f}".replace(",", "'") for v in AMOUNT]),
    "a decimal comma": ([str(v).replace(".", ",") for v in AMOUNT], AMOUNT),
    "truth values as words": (SOME, np.where(SOME, "yes", "no")),
    "multiples of 10": (WHOLE, (WHOLE / 10).round() * 10),
    "hyphens that do not show": (JOB, JOB.str[:2] + "\u00ad" + JOB.str[2:] + "\u200e"),
    "categories of text": (pd.Categorical(WHOLE), pd.Categorical(WHOLE.astype(str))),
}
NEVER = {
    "20010203 and a date": (DATES.strftime("%Y%m%d").astype(int), DATES, "store it as one type"),
    "1999 and 1999-05": (DATES.year, DATES.strftime("%Y-%m"), "store it as one type"),
    "codes for labels": (JOB, JOB.str[4:].astype(int), "store it as one type"),
    "levels that capitals merge": (
        RNG.choice(["A", "a", "b"], n),
        RNG.choice(["A", "B"], n),
        "written in another way.*without regard to capitals",
    ),
    "other codes": (WHOLE % 5 + 1, WHOLE % 5 + 101, "no value of column 'x' of release 1"),
    "cents": (AMOUNT, (AMOUNT * 100).round(), "seem to be 100 times"),
    "shares for percent": (TENTHS, TENTHS / 100, "seem to be 0.01 times"),
    "a year's": (AMOUNT, (AMOUNT * 12).round(2), "seem to be in another unit"),
    "a week's": (AMOUNT, (AMOUNT / 52).round(2), "seem to be in another unit"),
    "other money, in another order": (
        AMOUNT,
        RNG.permutation((AMOUNT / 1.95583).round(2)),
        "seem to be in another unit",
    ),
    "degrees, in another order": (
        AMOUNT.round(1),
        RNG.permutation((1.8 * AMOUNT.round(1) + 32).round(2)),
        "seem to be in another unit",
    ),
    "logarithms": (AMOUNT, np.log(AMOUNT), "another value for each of the original's"),
    "a day later": (DATES, DATES + pd.Timedelta("1D"), "seem to be in another unit"),
    "codes from 0": (WHOLE % 2 + 1, WHOLE % 2, "others, which the original never has"),
    "a code for missing": (
        pd.Series(AMOUNT).mask(SOME),
        pd.Series(AMOUNT).mask(SOME, -9),
        "others, which the original never has",
    ),
    "a word for missing": (
        JOB.mask(SOME),
        JOB.mask(SOME, "keine Angabe"),
        "others, which the original never has",
    ),
    "codes the other way round": (WHOLE % 5, 4 - WHOLE % 5, "another value for each"),
    "thousands": (AMOUNT, AMOUNT / 1000, "seem to be 0.001 times"),
    "two digits of the year": (
        DATES.strftime("%d.%m.%Y"),
        DATES.strftime("%d.%m.%y"),
        "no value of column 'x' of release 1",
    ),
    "an underscore": (JOB, JOB.str.replace(" ", "_"), "no value of column 'x' of release 1"),
    "cut short": (
        JOB + " in a long department",
        (JOB + " in a long department").str[:20],
        "no value of column 'x' of release 1",
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_a_copy_in_another_spelling_is_recognised(case):
    y, z = SAME[case]
    risk = matched(y, z)
    assert risk.exposure.same_as_original.all()
    assert judge(None, risk).outcome == "above your thresholds"
    if case != "multiples of 10":  # a group of ten has the same value
        plain = matched(y, y).summary()
        pd.testing.assert_frame_equal(risk.summary(), plain)


@pytest.mark.parametrize("case", NEVER)
def test_what_can_never_match_is_a_named_error(case):
    y, z, message = NEVER[case]
    if case == "codes the other way round":  # the same levels: matched, and the verdict is open
        assert re.search(message, matched(y, z).exposure.why_left_out["x"])
    else:
        with pytest.raises(InputError, match=message):
            matched(y, z)
    seen = br.exposure(PEOPLE.assign(x=y), PEOPLE.assign(x=z))
    assert list(seen.why_left_out) == ["x"]


def test_sound_synthetic_numbers_are_not_another_unit():
    """Drawn afresh, with noise, by kernels, rounded or half copied: nothing is said."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        y = np.round(
            [
                rng.lognormal(7, 1, n),
                rng.lognormal(10, 0.5, n) // 100 * 100,
                rng.normal(170, 10, n),
                rng.gamma(2, 900, n),
                rng.integers(0, 5_000, n),
            ][seed % 5],
            int(rng.integers(0, 3)),
        )
        drawn = rng.choice(y, n)
        z = [
            drawn,
            drawn * np.exp(rng.normal(0, 0.02, n)),
            np.round(drawn + rng.normal(0, y.std() / 5, n), 1),
            np.where(rng.random(n) < 0.5, drawn, rng.normal(y.mean(), y.std(), n)),
            np.exp(rng.normal(np.log(y + 1).mean(), np.log(y + 1).std(), n)),
            np.round(rng.normal(y.mean(), y.std(), n) / 10) * 10,
        ][seed % 6]
        assert not coded("x", [pd.Series(y), pd.Series(z)]).apart, seed


@pytest.mark.parametrize("store", ["Int64", "object", "uint64"])
def test_large_whole_numbers_are_equal_exactly(store):
    """17 digits, exchanged: nobody has their own, but by chance of the exchange."""
    ids = 10**16 + np.arange(n)
    moved = np.roll(ids, 1)
    found = br.exposure(
        PEOPLE.assign(x=pd.Series(ids).astype(store)),
        PEOPLE.assign(x=pd.Series(moved).astype(store)),
        keys=["x"],
    )
    assert found.files.loc[1, "identical"] == 0 and found.files.loc[1, "uniques"] == n


def test_large_whole_numbers_beside_doubles_are_compared_as_these_and_it_is_said():
    ids = 10**16 + np.arange(n)
    found = br.exposure(PEOPLE.assign(x=ids), PEOPLE.assign(x=ids.astype(float)))
    assert found.notes == ("column 'x' is compared at double precision, as release 1 has it",)


def test_files_counted_batch_by_batch_are_refused_alike(tmp_path):
    for name, shift in (("o", 1), ("r", 0)):
        PEOPLE.assign(x=WHOLE % 2 + shift).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(InputError, match="others, which the original never has"):
        identification_risk_of_files(
            tmp_path / "o.parquet", tmp_path / "r.parquet", known=["sex"], synthesized=["x"]
        )


def test_moved_rows_and_noise_that_keeps_the_order_are_not_another_unit():
    y = np.arange(40.0) * 3
    for z in (y[::-1], np.roll(y, 3), y + 7, y + np.linspace(0, 2, 40)):
        assert not coded("x", [pd.Series(y), pd.Series(z)]).apart
    sexes = pd.Series(list("fm") * 30)
    assert not coded("x", [sexes, sexes[::-1].reset_index(drop=True)]).apart


def test_columns_that_are_not_compared_leave_the_verdict_open(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people = PEOPLE.assign(pay=AMOUNT)
    released = people.assign(region=np.roll(people["region"], 7), pay=AMOUNT.mean() + np.arange(n))
    people.to_csv("o.csv", index=False)
    released.rename(columns={"pay": "Pay"}).to_csv("renamed.csv", index=False)
    released.drop(columns="pay").to_csv("without.csv", index=False)
    keys = ["--known", "sex", "--synthesized", "region"]

    def said(*args):
        done = CliRunner().invoke(app, ["identify", "o.csv", *args, *keys])
        return " ".join((done.output + done.stderr).split())

    text = said("renamed.csv")
    assert "Inconclusive" in text and "'Pay'; give it the original's name" in text
    text = said("without.csv")
    assert "Inconclusive" in text and "lacks column 'pay'" in text
    assert "Within your thresholds" in said("without.csv", "--columns", "sex,region")


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "person_id", "id"])
def test_row_numbers_are_no_amount_and_prove_nothing(name):
    """Shuffled files that number their rows: not above, and shuffled copies are seen."""
    numbered = PEOPLE.copy()
    numbered.insert(0, name, np.arange(n))
    fresh = PEOPLE.sample(frac=1, random_state=1, ignore_index=True)
    fresh["sex"] = fresh["sex"].sample(frac=1, random_state=2, ignore_index=True)
    fresh.insert(0, name, np.arange(n))
    keys = {"known": [], "synthesized": ["sex", "region"]}
    risk = br.identification_risk(numbered, fresh, **keys)
    assert judge(None, risk).outcome != "above your thresholds"
    assert list(risk.exposure.identifiers) == [name]
    copy = numbered.sample(frac=1, random_state=3, ignore_index=True)
    copy[name] = np.arange(n)
    found = br.exposure(numbered, copy).files.loc[1]
    assert found["identical_any_row"] == n and found["same_as_original"]


@pytest.mark.check
def test_wide_files_do_not_correspond_by_luck():
    """600 rare answers: some stay in place in any order of the rows."""
    from bayes_risk.release.correspondence import correspondence
    from bayes_risk.release.tables import Tables

    rng, kept = np.random.default_rng(7), 0
    for _ in range(10):
        rare = {f"drug{j}": rng.permutation(["yes", *["no"] * 99]) for j in range(600)}
        df = pd.DataFrame({"sex": rng.choice(["f", "m"], 100), **rare})
        moved = df.sample(frac=1, random_state=int(rng.integers(1_000)), ignore_index=True)
        kept += not correspondence(Tables.of(df, moved), ["sex"]).unmatched
    assert kept == 0


def test_codes_of_missing_numbers_stand_in_releases_as_in_the_original():
    rng = np.random.default_rng(3)
    hours = np.where(rng.random(60) < 0.5, -8, rng.integers(1, 11, 60))
    df = pd.DataFrame({"sex": rng.choice(["f", "m"], 60), "hours": hours})
    coded = br.Microdata.from_frame(df, numbers=["hours"], missing_numbers={"hours": -8})
    assert coded.decode(coded.codes)["hours"].tolist() == hours.tolist()
    empty = df.assign(hours=df["hours"].mask(df["hours"] == -8).astype("Int64"))
    other = br.Microdata.from_frame(empty, numbers=["hours"], missing_numbers={"hours": -8})
    assert (coded.codes == other.codes).all()
    pd.testing.assert_series_equal(other.decode(other.codes)["hours"], empty["hours"])
    release = br.Release(datasets=[empty], synthesized=["hours"])
    assert (release.codes(coded)[0] == coded.codes).all()


def test_a_number_in_single_precision_is_the_decimal_it_stands_for():
    """A grid of tenths holds the truth: it is not added a second time."""
    tenths = np.round(np.arange(1, 10) / 10, 1)
    df = pd.DataFrame({"sex": list("fm") * 9, "x": np.tile(tenths, 2)})
    single = df.astype({"x": "float32"})
    codes = [br.Microdata.from_frame(t, numbers=["x"]).codes for t in (df, single)]
    assert (codes[0] == codes[1]).all()
    release = br.Release(datasets=[single], synthesized=["x"])
    data = br.Microdata.from_frame(df, numbers=["x"])
    assert (release.codes(data)[0] == data.codes).all()


def test_indexes_of_other_depth_are_refused_in_words():
    deep = pd.MultiIndex.from_product([range(20), range(20)])
    with pytest.raises(InputError, match="does not name the original's records"):
        br.identification_risk(PEOPLE.set_index(deep), PEOPLE, known=["sex"], synthesized=[])


def test_whole_codes_are_categories_of_their_own_however_large():
    """Doubles merge neighbours: a code that nobody declared is an error, not its neighbour."""
    codes = [10**17 + k for k in range(4)]
    data = br.Microdata.from_frame(pd.DataFrame({"sex": list("fmfm"), "code": codes}))
    strange = pd.DataFrame({"sex": list("fmfm"), "code": [10**17 + 5, *codes[1:]]})
    with pytest.raises(InputError, match="not among its levels"):
        data.encode(strange, "release 1")


def test_releases_of_counts_that_were_stored_as_doubles_are_not_rounded():
    """Whole numbers are no sign of single precision: draws keep their digits."""
    hours = pd.DataFrame({"sex": list("fmfm"), "hours": [40.0, 38.0, 20.0, 12.0]})
    data = br.Microdata.from_frame(hours, numbers=["hours"])
    drawn = np.array([[0, 39.123456789012], [1, 1 / 3], [0, 20.0], [1, 12.5]])
    assert data.decode(drawn)["hours"].tolist() == drawn[:, 1].tolist()


def test_options_of_matching_have_one_default():
    given = signature(br.identification_risk).parameters
    defaults = {n: p.default for n, p in given.items() if p.default is not p.empty}
    assert MatchingOptions._field_defaults == defaults


def test_numbers_of_more_digits_than_a_number_has_are_text():
    """They ended a comparison by an overflow."""
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [1, 2, 1]})
    other = frame.assign(a=["1", "9" * 400, "3"])
    with pytest.raises(br.InputError):
        br.identification_risk(frame, [other], known=["b"], synthesized=["a"])


@pytest.mark.parametrize("own", [[-np.inf] * 3, [np.inf, np.inf, np.nan]])
def test_dates_beside_numbers_that_are_infinite_are_no_days(tmp_path, own):
    (tmp_path / "z.csv").write_text("x,s\n2020-01-02,a\n2021-03-04,b\n2020-05-06,a\n")
    original = pd.DataFrame({"x": own, "s": list("aba")})
    found = read_like(tmp_path / "z.csv", original)
    assert found["x"].tolist() == ["2020-01-02", "2021-03-04", "2020-05-06"]


@pytest.mark.parametrize("unit", [15, 20, 25])
def test_multiples_of_any_whole_number_are_compared_as_such(unit):
    """Those of 20 were compared at multiples of 10: most rows seemed to be others' rows."""
    own = pd.Series(np.arange(18, 97))
    found = coded("age", [own, (own / unit).round().astype(int) * unit])
    assert (found.codes[0] == found.codes[1]).all()
    assert found.notes == (f"column 'age' is compared at multiples of {unit}, as release 1 has it",)


@pytest.mark.parametrize("held", [[2024], [0, 2024], [7, 14], [4, 8, 16]])
def test_few_values_are_no_multiples(held):
    """Any value is a multiple of itself: 2025 beside 2024 alone was compared as 2024."""
    own = pd.Series(np.resize(held, 40))
    found = coded("year", [own, own + 1])
    assert not found.notes and not set(found.codes[0]) & set(found.codes[1])
