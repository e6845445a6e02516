"""Matching over several releases: all files together, by loops over people and files."""

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br

COLUMNS = ["area", "sex", "job"]


def people(seed, n=25):
    rng = np.random.default_rng(seed)
    sizes = dict(zip(COLUMNS, (3, 2, 4), strict=True))
    return pd.DataFrame({c: rng.choice(list("abcd"[:k]), n) for c, k in sizes.items()})


def made(df, synthesized, seed, m):
    """Files in which some columns were drawn anew."""
    tables = [df.assign(**people(1 + seed + k)[synthesized].to_dict("series")) for k in range(m)]
    return br.Release(datasets=tables, synthesized=synthesized)


def by_loops(df, releases):
    """c and T of each target: a file shows of a column the truth if any file shows it."""
    kept = {c for r in releases for c in COLUMNS if c not in r.synthesized}
    files = [z for r in releases for z in r.datasets]
    found = []
    for i in df.index:
        p = np.zeros(len(df))
        for z in files:
            match = np.ones(len(df), dtype=bool)
            for c in COLUMNS:
                shown = df if c in kept else z
                match &= (shown[c] == df[c][i]).to_numpy()
            if not match.any():  # the fallback: all with the same unchanged keys
                match = np.all([df[c] == df[c][i] for c in kept], axis=0) | (not kept)
            p += match / match.sum() / len(files)
        first = np.isclose(p, p.max())
        found.append((first.sum(), bool(first[i])))
    return np.array(found)


SOME = ["sex", "job"]


@pytest.mark.parametrize(
    "columns",
    [
        (SOME, SOME),
        (SOME, ["job"]),
        (["job", "sex"], ["area", "job"]),
        (COLUMNS, ["job"], SOME),
        (COLUMNS, COLUMNS),
    ],
)
def test_all_files_together(columns):
    df, sizes = people(0), (2, 3, 1)
    releases = [made(df, of, 10 * k, sizes[k]) for k, of in enumerate(columns)]
    both = [c for c in columns[0] if all(c in of for of in columns)]
    how = {"known": [c for c in COLUMNS if c not in both], "synthesized": both}
    risk = br.identification_risk(df, releases, **how)
    c, true = by_loops(df, releases).T
    np.testing.assert_array_equal(risk.pooled_c, c)
    np.testing.assert_array_equal(risk.pooled_T, true)
    turned = br.identification_risk(df, releases[::-1], **how)
    assert turned.records.filter(like="pooled").equals(risk.records.filter(like="pooled"))


def test_releases_of_the_same_columns_are_one_of_all_files():
    df = people(3)
    releases = [made(df, ["sex", "job"], 10, 2), made(df, ["sex", "job"], 20, 3)]
    how = {"known": ["area"], "synthesized": ["sex", "job"]}
    whole = br.Release(
        datasets=[z for r in releases for z in r.datasets], synthesized=["sex", "job"]
    )
    risk, expected = (br.identification_risk(df, r, **how) for r in (releases, whole))
    pd.testing.assert_frame_equal(risk.records, expected.records)
    alone = br.identification_risk(df, releases[:1], **how)
    assert alone.records.equals(br.identification_risk(df, releases[0], **how).records)
    assert whole.m == risk.m == 5


def test_what_is_refused():
    df = people(1)
    one, other = made(df, ["sex"], 10, 1), made(df, ["job"], 20, 1)
    how = {"known": ["area", "sex"], "synthesized": ["job"]}
    with pytest.raises(br.InputError, match="each column is unchanged in one of the releases"):
        br.identification_risk(df, [one, other], **how)
    with pytest.raises(br.InputError, match="mixes a Release with tables"):
        br.identification_risk(df, [other, df], **how)
    some = br.Release(
        datasets=other.datasets, synthesized=["job"], records=df["sex"].eq("a").to_numpy()
    )
    with pytest.raises(br.InputError, match="of some records"):
        br.identification_risk(df, [other, some], **how)
    with pytest.raises(br.InputError, match="names 'sex', which the release did not synthesise"):
        br.identification_risk(
            df, [made(df, ["sex", "job"], 1, 1), other], known=["area"], synthesized=["sex", "job"]
        )
