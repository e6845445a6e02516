"""Releases that cut off what the original goes on to: matches of the cut, and what is no cut."""

import warnings

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.release.tables import Tables

N = 800
RNG = np.random.default_rng(8)
AGE = np.clip(RNG.normal(55, 25, N).round(), 0, None)
PAY = np.exp(RNG.normal(10, 0.8, N)).round()
DF = pd.DataFrame({"region": RNG.choice(list("abc"), N), "age": AGE, "pay": PAY})
CUT = float(np.quantile(PAY, 0.95).round(-3))
KEYS = {"known": ["region"], "synthesized": ["age"]}


def synthetic(table, seed, share=0.5):
    """Copies in which a share of the values comes from other records of the region."""
    rng, made = np.random.default_rng(seed), table.copy()
    for name in table.columns.drop("region"):
        donors = table.groupby("region")[name].transform(lambda c: rng.permutation(c.to_numpy()))
        made[name] = np.where(rng.random(len(table)) < share, donors, table[name])
    return made


FILES = [synthetic(DF, seed) for seed in (1, 2)]


def cut(table, low=None, high=None, name="age"):
    return table.assign(**{name: table[name].clip(low, high)})


def cuts_of(y, *files, **how):
    """What files of one column cut off, and which records of the original are at the upper cut."""
    tables = Tables.of(pd.DataFrame({"x": y}), [pd.DataFrame({"x": z}) for z in files], **how)
    codes = tables.key("x").codes[0]
    return dict(tables.cuts), codes == codes[np.nanargmax(np.asarray(y, float))]


def numbers(risk):
    return risk.summary().drop(columns=["identical_records", "replicated_uniques"], errors="ignore")


@pytest.mark.parametrize("ends", [(None, 85), (20, None), (20, 85)])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"fallback": False},
        {"radius": {"age": br.Absolute(2)}},
        {"radius": {"age": br.SD(0.1, groups=3)}, "closed": False},
        {"radius": {"age": 0.05}},
        {
            "targets": DF.sample(300, random_state=1, ignore_index=True).set_index(
                DF.index[:300] + N
            )
        },
    ],
)
def test_cutting_the_release_alone_gives_the_matches_of_cutting_both(ends, how):
    """Metamorphic: the intruder knows the cut, whoever made it."""
    files = [cut(file, *ends) for file in FILES]
    both = {**how, "targets": cut(how["targets"], *ends)} if "targets" in how else how
    risk = br.identification_risk(DF, files, **KEYS, **how)
    law = br.identification_risk(cut(DF, *ends), files, **KEYS, **both)
    pd.testing.assert_frame_equal(numbers(risk), numbers(law))
    pd.testing.assert_frame_equal(risk.records, law.records)
    assert all(risk.cuts.values()) and len(risk.cuts) == 2 - ends.count(None) and not law.cuts


def test_so_it_does_where_rows_correspond_to_nobody_and_where_the_key_was_kept():
    fresh = cut(FILES[0], 20, 85).sample(500, random_state=1)
    keys = {"known": [], "synthesized": ["region", "age"]}
    risk, law = (br.identification_risk(df, fresh, **keys) for df in (DF, cut(DF, 20, 85)))
    pd.testing.assert_frame_equal(risk.summary(), law.summary())
    kept = cut(DF, high=90).assign(pay=FILES[0]["pay"].round(-4))
    keys = {"known": ["age"], "synthesized": ["pay"], "radius": {"pay": 0.3}}
    risk, law = (br.identification_risk(df, kept, **keys) for df in (DF, cut(DF, high=90)))
    pd.testing.assert_frame_equal(numbers(risk), numbers(law))
    with pytest.raises(br.InputError, match="'age' of release 1 differs from the original in 1 of"):
        br.identification_risk(DF, kept.assign(age=kept["age"].where(kept.index > 0, 1)), **keys)


def test_households_and_files_are_matched_with_the_cut(tmp_path):
    hid = np.arange(N) // 2
    tables = [cut(file, high=85) for file in FILES]
    law, risk = (
        br.household_matching(df.assign(hid=hid), tables, household="hid", **KEYS)
        for df in (cut(DF, high=85), DF)
    )
    pd.testing.assert_frame_equal(risk.records, law.records)
    pytest.importorskip("duckdb")
    paths = [tmp_path / f"{k}.parquet" for k in range(4)]
    for path, table in zip(paths, [DF, cut(DF, high=85), *tables], strict=True):
        table.to_parquet(path)
    risk, law = (br.identification_risk_of_files(p, paths[2:], **KEYS) for p in paths[:2])
    pd.testing.assert_frame_equal(risk.summary(), law.summary())
    assert [*risk.cuts.values()] == [True]


def test_the_note_names_column_cut_and_records_of_the_file_alone():
    risk = br.identification_risk(DF, cut(FILES[0], high=85), **KEYS)
    n = int((FILES[0]["age"] >= 85).sum())
    words = f"knows that age is top-coded at 85, which {n} records have"
    assert f"({words})" in risk.sentence() and words in risk.presence()
    assert not br.identification_risk(DF, FILES[0], **KEYS).cuts


def test_a_population_counts_other_people_and_is_refused():
    population = br.Population.log_linear(DF, ["region"], size=10 * N)
    with pytest.raises(br.InputError, match=r"age is top-coded at 85, .*; cut the column there"):
        br.identification_risk(DF, cut(FILES[0], high=85), population=population, **KEYS)


OTHER = RNG.permutation(N)
BEYOND = PAY >= CUT
MEAN = float(PAY[BEYOND].mean().round())
THOUSANDS = (PAY / 1000).round() * 1000
GAPS = np.where(RNG.random(N) < 0.1, np.nan, PAY)


@pytest.mark.parametrize(
    ("y", "files", "beyond"),
    [
        (PAY, [np.minimum(PAY, CUT)[OTHER]], BEYOND),
        (PAY, [np.where(BEYOND, MEAN, PAY)[OTHER]], BEYOND),  # the mean of those above
        (PAY, [np.where(BEYOND, MEAN, PAY)], BEYOND),
        (PAY, [np.minimum(THOUSANDS, CUT)[OTHER]], THOUSANDS >= CUT),
        (PAY, [np.minimum(PAY, CUT)[OTHER].astype(np.float32)], BEYOND),
        (GAPS, [np.minimum(GAPS, CUT)[OTHER]], GAPS >= CUT),
        (PAY, [np.minimum(PAY, CUT)[OTHER], np.minimum(PAY, CUT)[::-1]], BEYOND),
        (np.minimum(AGE, 95), [np.minimum(AGE, 90)[OTHER]], AGE >= 90),  # a cut of its own
        (AGE, [np.where(np.arange(N) % 3, np.minimum(AGE, 90), 90)[:300]], None),  # a third at 90
        (
            PAY[:40],
            [np.minimum(PAY, np.sort(PAY[:40])[-4])[:40]],
            PAY[:40] >= np.sort(PAY[:40])[-4],
        ),
        (np.where(OTHER < 80, -8, PAY), [np.where(OTHER < 80, -8, np.minimum(PAY, CUT))], None),
    ],
)
def test_all_values_from_the_cut_on_are_matched_with_it(y, files, beyond):
    found, at_cut = cuts_of(y, *files)
    if beyond is not None:
        assert [*found.values()] == [True]
        assert np.array_equal(at_cut, beyond)


@pytest.mark.parametrize(
    ("y", "files"),
    [
        (np.minimum(AGE, 90), [np.minimum(AGE, 90)[OTHER]]),  # 90 and over, in both
        (AGE, [np.where(AGE > 50, 60, 40)]),  # two classes
        (AGE, [np.full(N, 50)]),
        (AGE, [np.clip(RNG.normal(50, 15, N).round(), 0, None)]),  # thinner tails
        (PAY, [RNG.choice(np.sort(PAY)[: -N // 50], N)]),  # no donors of the tail
        (PAY, [np.exp(RNG.normal(10, 0.6, N)).round()]),
        (PAY, [RNG.choice(PAY[:40], N)]),  # few donors, so that all values are heaps
        (PAY, [(PAY / 10_000).round()[OTHER] * 10_000]),
        (np.where(OTHER < 80, 999_999, PAY), [PAY[OTHER]]),  # a code
        (PAY < CUT, [PAY[OTHER] < CUT]),
        (PAY, [np.minimum(PAY, CUT)[OTHER], PAY]),  # one file of two
        (AGE, [np.minimum(AGE, 85)[OTHER], np.minimum(AGE, 90)]),  # another in each
        (PAY[:60], [np.minimum(PAY, np.sort(PAY[:60])[-6])[59::-1]]),  # too few to be certain
    ],
)
def test_a_smaller_maximum_is_no_cut(y, files):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, at_cut = cuts_of(y, *files)
    assert not any(found.values())
    assert at_cut.sum() == (y == np.nanmax(y)).sum()


def test_what_is_uncertain_is_said():
    few, _ = cuts_of(PAY[:60], np.minimum(PAY, np.sort(PAY[:60])[-6])[59::-1])
    assert [*few.values()] == [False]
    each, _ = cuts_of(AGE, np.minimum(AGE, 85)[OTHER], np.minimum(AGE, 90))
    assert ["release 1" in each_one for each_one in each] == [True, False]
    df, file = DF.iloc[:60], cut(DF.iloc[59::-1].reset_index(drop=True), high=np.sort(AGE[:60])[-8])
    risk = br.identification_risk(df, file, known=[], synthesized=["age"])
    assert "does not assume that age is top-coded at" in risk.sentence()


def test_a_key_without_values_is_no_cut():
    """Numbers near which nothing lies, in a file that has others."""
    keys = {"known": [], "synthesized": ["age", "pay"], "radius": {"pay": 0.1}}
    risk = br.identification_risk(DF, FILES[0].assign(pay=np.nan), **keys)
    assert not risk.cuts and risk.no_match.all()


@pytest.mark.parametrize(
    ("replaced", "high", "certain"),
    [(np.arange(N) % 2 == 0, 85, [True]), (AGE > 80, None, [])],  # the others; none is beyond
)
def test_records_that_were_not_replaced_tell_a_cut(replaced, high, certain):
    drawn = np.where(replaced, np.random.default_rng(1).integers(20, 60, N), AGE)
    release = br.Release(
        datasets=[cut(DF.assign(age=drawn), high=high)], synthesized=["age"], records=replaced
    )
    found = br.identification_risk(DF, release, known=["region"], synthesized=["age"]).cuts
    assert [*found.values()] == certain
