"""Numbers made coarser: multiples, cut tails, codes that stay; what is proposed is enough."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk.data.coarsening import (
    MOST_DISTINCT,
    coarsened,
    coarser_keys,
    proposed,
    share_alone,
    share_unique,
)


@pytest.mark.parametrize(
    ("given", "how", "wanted"),
    [
        ([3, 180, 9_000, -8], {"unit": 100, "most": 1_000, "keep": [-8]}, [0, 200, 1_000, -8]),
        ([1.26, np.nan, 2.0], {"unit": 0.5}, [1.5, np.nan, 2.0]),
        ([-7, 0, 7], {"unit": 5, "least": -3}, [-3, 0, 5]),
        ([4, 6], {"unit": 2.5}, [5.0, 5.0]),
        ([0.149, 0.61, 1e-9], {"unit": 0.05}, [0.15, 0.6, 0.0]),  # 3 * 0.05 is not 0.15
        ([3.1e-6, 7e22], {"unit": 1e-6}, [3e-6, 7e22]),
        ([149.0, 7e22], {"unit": 1e2}, [100.0, 7e22]),
        ([12, 13], {"unit": 5, "most": 12}, [10, 10]),
        ([-5.0, 4.0], {"unit": 10, "least": 0, "keep": [0]}, [0.0, 10.0]),
        ([0, 2, 3, -2, 40], {"unit": 10, "keep": [0]}, [0, 10, 10, -10, 40]),
        ([0.0, 449.9, 1.0], {"unit": 1000.0, "keep": [0], "most": 500}, [0.0, 500.0, 500.0]),
    ],
)
def test_by_hand(given, how, wanted):
    column = pd.Series(given)
    found = coarsened(column, **how)
    assert np.array_equal(found.to_numpy(float), np.array(wanted, float), equal_nan=True)
    assert found.dtype == column.dtype


def test_zero_has_no_sign_and_small_types_do_not_overflow():
    assert not np.signbit(coarsened(pd.Series([-0.2, 0.2]), 1)).any()
    for kind in ("int8", "Int8", "uint8", "UInt8"):
        top = int(np.iinfo(kind.lower()).max)
        assert coarsened(pd.Series([top, 3], dtype=kind), 100).tolist() == [round(top, -2), 0]
        assert coarsened(pd.Series([top, 3], dtype=kind), 50).tolist() == [round(top / 50) * 50, 0]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_proposed_is_enough_and_no_more(seed):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(800) < 0.3, 0, np.round(rng.lognormal(7, 1, 800), -1))
    column = pd.Series(np.where(rng.random(800) < 0.05, -9, values))
    how = proposed(column, [-9])
    coarse = coarsened(column, **how)
    assert how["keep"] == [-9, 0]  # none, and nothing, which no small amount becomes
    assert all(((coarse == v) == (column == v)).all() for v in (-9, 0))
    rest = coarse[~coarse.isin([-9, 0])]
    assert share_alone(rest) <= 0.01 and rest.nunique() <= MOST_DISTINCT
    moved = np.abs(rest - column[rest.index].clip(upper=how["most"]))
    assert moved[rest > how["unit"]].max() <= how["unit"] / 2 and moved.max() < how["unit"]
    finer = coarsened(column, **how | {"unit": how["unit"] / 2.5})
    assert share_alone(finer) > 0.01 or finer.nunique() > MOST_DISTINCT
    assert proposed(coarse, [-9]) == {}


@pytest.mark.parametrize("seed", range(5))
def test_what_is_proposed_is_written_in_few_digits(seed):
    rng = np.random.default_rng(seed)
    shares = pd.Series(rng.gamma(3, 0.1, 2_000).round(4))
    how = proposed(shares)
    values = coarsened(shares, **how).unique().tolist()
    assert max(len(repr(x)) for x in [*values, how["most"]]) <= 4


@pytest.mark.parametrize("seed", range(5))
def test_keys_become_coarse_enough_one_after_another(seed):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame(
        {
            "age": rng.integers(18, 98, 600),
            "sex": rng.choice(["f", "m"], 600),
            "job": rng.choice(list("abcdefghijkl"), 600),
        }
    )
    table, shares = df.copy(), [share_unique(df)]
    for name, how, share in coarser_keys(df, ["age", "sex", "job"], 0.02):
        table = table.assign(age=coarsened(df["age"], **how)) if how else table.drop(columns=name)
        assert share == share_unique(table) == (~table.duplicated(keep=False)).mean()
        shares.append(share)
    assert shares[-1] <= 0.02 and shares == sorted(shares, reverse=True)


def test_what_cannot_be_coarsened():
    with pytest.raises(br.InputError, match="coarsen names 'job', which holds no numbers"):
        coarsened(pd.Series(["a"], name="job"), 5)
    with pytest.raises(br.InputError, match="least 3, not below most 3"):
        coarsened(pd.Series([1]), 1, least=3, most=3)
    assert proposed(pd.Series([1.0, 2.0] * 9)) == proposed(pd.Series([np.nan] * 9)) == {}
