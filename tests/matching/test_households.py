"""Households: tables, matching by composition against all pairs, household risk, refusals."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bayes_risk as br
from bayes_risk._core.batches import standard_error
from bayes_risk.matching.result import STORED
from tests.oracles import household_pairs


def persons(seed, households=6, most=3, m=2, changed=("a", "b")):
    """Persons in no order, and files in which some of their keys are others."""
    rng = np.random.default_rng(seed)
    hid = np.repeat([f"h{k}" for k in range(households)], rng.integers(1, most + 1, households))
    n = len(hid)
    df = pd.DataFrame({"hid": hid, "a": rng.integers(0, 2, n), "b": rng.integers(0, 2, n)})
    df["rooms"] = df.groupby("hid")["a"].transform("max")
    df = df.iloc[rng.permutation(n)].set_axis([f"p{k}" for k in range(n)])

    def file():
        other = {c: np.where(rng.random(n) < 0.4, rng.integers(0, 2, n), df[c]) for c in changed}
        return df.assign(**other)

    return df, [file() for _ in range(m)]


CASES = [
    (seed, k, fallback, known, synthesized)
    for seed, (k, fallback) in enumerate((k, f) for k in (None, 1, 2) for f in (True, False))
    for known, synthesized in (([], ["b"]), (["rooms"], ["a", "b"]), (["a", "rooms"], ["b"]))
]


@pytest.mark.parametrize(("seed", "k", "fallback", "known", "synthesized"), CASES)
def test_matching_is_that_of_all_pairs_of_households(seed, k, fallback, known, synthesized):
    df, files = persons(seed, m=1 + seed % 3, changed=synthesized)
    found = br.household_matching(
        df, files, household="hid", known=known, synthesized=synthesized, members=k,
        fallback=fallback,
    )  # fmt: skip
    risk, of = found.matching, df["hid"].tolist()
    right = household_pairs.matched(df, files, of, known, synthesized, k, fallback)
    assert risk.index.tolist() == list(dict.fromkeys(of)) and len(right) == risk.n
    for i, (alone, may_be) in enumerate(right):
        each = tuple(zip(risk.c[i].tolist(), risk.T[i].tolist(), strict=True))
        mine = risk.pooled_c[i], risk.pooled_T[i], each
        same = [one for one in may_be if (one.c, one.T, one.each) == mine]
        assert same and found.alone[i] == alone
        assert any(risk.baseline[i] == float(one.baseline) for one in same)


@pytest.mark.parametrize("k", [None, 1, 3])
def test_households_of_one_person_are_the_persons(k):
    df, files = persons(7, households=30, most=1, m=3)
    keys = {"known": ["rooms"], "synthesized": ["a", "b"]}
    person = br.identification_risk(df, files, **keys)
    found = br.household_matching(df, files, household="hid", members=k, **keys)
    assert found.members.tolist() == [1] * 30
    for name in (*STORED, *(f"pooled_{name}" for name in STORED)):
        mine, theirs = (getattr(of, name) for of in (found.matching, person))
        if name.endswith("one"):  # numbers of rows
            mine, theirs = mine >= 0, theirs >= 0
        assert np.array_equal(mine, theirs)
    one, all_ = found.summary(), person.summary().loc["pooled"]
    assert one["value"]["households_expected"] == all_["expected_match_risk"]
    assert one["value"]["persons_expected"] == pytest.approx(all_["expected_match_risk"])
    assert one["mcse"]["households_expected"] == all_["mcse"]
    risk = br.household_risk(person, df["hid"])
    assert np.allclose(risk.probability, person.records["probability"], atol=1e-15)
    assert np.allclose(risk.mcse, person.records["mcse"])


@pytest.mark.parametrize("k", [None, 1, 2])
def test_the_order_of_rows_changes_nothing(k):
    df, files = persons(3, households=20, m=3)
    keys = {"household": "hid", "known": ["rooms"], "synthesized": ["a", "b"], "members": k}
    found = br.household_matching(df, files, **keys)
    order = np.random.default_rng(1).permutation(len(df))
    moved = br.household_matching(df.iloc[order], [f.iloc[order] for f in files], **keys)
    again = br.household_matching(df.iloc[order], files, **keys)  # by their index
    for other in (moved, again):
        assert np.allclose(other.summary(), found.summary(), equal_nan=True)
        assert other.records.loc[found.records.index].equals(found.records)


def test_the_original_itself_shows_who_is_alone():
    df, _ = persons(5, households=20)
    keys = {"household": "hid", "known": ["rooms"], "synthesized": ["a", "b"]}
    found = br.household_matching(df, df, **keys)
    assert found.matching.T.all() and (found.alone == (found.matching.c[:, 0] == 1)).all()
    rows = found.summary()["value"]
    assert rows["persons_alone"] == found.members[found.alone].sum()
    assert rows["households_true"] == found.alone.mean()
    assert rows["persons_true"] == pytest.approx(rows["persons_alone"] / len(df))


def test_household_variables_heads_and_sizes():
    df, _ = persons(2)
    df["relate"] = np.where(df["hid"].duplicated(), "other", "head")
    own = br.Households("hid", relate="relate", head="head", variables=["rooms"]).of(df)
    assert own.variables[0] == "rooms" and own.members.sum() == len(df)
    assert (df["relate"].iloc[own.heads] == "head").all()
    assert df["hid"].iloc[own.heads].tolist() == own.labels.tolist()
    large = df.assign(hid=pd.factorize(df["hid"])[0] + 2**40)  # a double holds them
    assert br.Households("hid").of(large.astype({"hid": float})).members.sum() == len(df)


# --- household risk -------------------------------------------------------------------------------


def test_household_risk_is_one_less_the_chance_that_no_member_is_found():
    p = pd.Series([0.5, 1.0, 0.25, 0.0, 0.1, 1.0, 1.0], list("abcdefg"))
    of = pd.Series([3, 1, 3, 2, 3, 1, 4], list("abcdefg"), name="hid")
    risk = br.household_risk(p, of)
    assert risk.index.tolist() == [3, 1, 2, 4] and risk.members.tolist() == [3, 2, 1, 1]
    assert risk.probability.tolist() == pytest.approx([1 - 0.5 * 0.75 * 0.9, 1, 0, 1])
    rows = risk.summary()["value"]
    assert rows["persons_at_risk"] == pytest.approx(3 * (1 - 0.5 * 0.75 * 0.9) + 3)
    some = br.household_risk(p.drop("c"), of)
    assert some.index.tolist() == [1, 2, 4] and some.left_out == 1
    assert np.isnan(some.mcse).all() and "1 household" in some.sentence()


def test_errors_of_matched_members_are_those_between_releases():
    df, files = persons(4, households=15, m=4)
    person = br.identification_risk(df, files, known=["rooms"], synthesized=["a", "b"])
    risk = br.household_risk(person, df["hid"])
    each = person.hits / np.maximum(person.c, 1)
    for label, mcse, p in zip(risk.index, risk.mcse, risk.probability, strict=True):
        mine = (df["hid"] == label).to_numpy()
        by_release = 1 - np.prod(1 - each[mine], axis=0)
        assert mcse == pytest.approx(by_release.std(ddof=1) / 2)
        pooled = person.records["probability"][mine]
        assert p == pytest.approx(1 - np.prod(1 - pooled))
    assert risk.summary()["mcse"]["households_at_risk"] >= person.pooled_mcse


def test_errors_of_attribute_risk_go_through_the_product():
    """The error is that of the function, by its numerical derivative along each batch."""
    df, _ = persons(1, households=25)
    fit = br.models.CART(order=["b"], min_leaf=5).fit(df[["a", "b", "rooms"]], random_seed=1)
    exact = br.attribute_risk(fit, fit.synthesize(2, random_seed=2), random_seed=3)
    moved = 0.01 * np.random.default_rng(4).normal(size=(3, 8, exact.deviations.shape[2]))
    found = dataclasses.replace(exact, deviations=moved, few_chains=True)
    assert not br.household_risk(exact, df["hid"]).mcse.any()
    risk, p = br.household_risk(found, df["hid"]), found.records["probability"].to_numpy()
    of = pd.factorize(df["hid"])[0]

    def households(p):
        return np.array([1 - np.prod(1 - p[of == h]) for h in range(25)])

    F, B, _ = found.deviations.shape
    step = 1e-6
    moved = np.zeros((F, B, 25))
    for f, b in np.ndindex(F, B):
        by = step * found.deviations[f, b][found.case]
        moved[f, b] = (households(p + by) - households(p - by)) / (2 * step)
    assert np.allclose(risk.probability, households(p))
    assert np.allclose(risk.mcse, standard_error(moved, few=found.few_chains), rtol=1e-5)
    total = standard_error(moved.sum(axis=2)[:, :, None], few=found.few_chains)[0]
    assert risk.summary()["mcse"]["households_at_risk"] == pytest.approx(total, rel=1e-5)
    assert risk.kind == "attribute" and (risk.probability >= risk.baseline * 0).all()


# --- attribute risk of a household of which no member is known ---------------------------------


def test_members_unknown_together_by_enumeration():
    """One draw of the parameters: p(Z|y*,y_A) is a sum over values of the other member."""
    levels, x = list("abc"), list("aabcbc")
    df = pd.DataFrame({"x": pd.Categorical(x, levels)})
    fit = br.models.Marginals().fit(df, random_seed=1)
    release = fit.synthesize(1, random_seed=3)
    intruder = br.Intruder(knows_records=[2, 3, 4, 5])
    how = {"targets": [0, 1], "prior": "uniform", "random_seed": 1}
    found = br.attribute_risk(fit, release, intruder=intruder, **how).records["probability"]
    counts = release.datasets[0]["x"].value_counts().reindex(levels).to_numpy()

    def given(values):
        """p(Z|y): levels of Z one after the other, as in an urn."""
        urn, p = np.array([1.0 + values.count(level) for level in levels]), 1.0
        for level, times in enumerate(counts):
            for _ in range(times):
                p *= urn[level] / urn.sum()
                urn[level] += 1
        return p

    def of(guess):
        known = [*x[2:], guess]
        urn = np.array([1.0 + known.count(level) for level in levels])
        return sum(urn[k] / urn.sum() * given([*known, other]) for k, other in enumerate(levels))

    right = np.array([of(guess) for guess in levels]) / sum(map(of, levels))
    assert found.tolist() == pytest.approx([right[0], right[0]], rel=1e-12)


# --- what is refused ------------------------------------------------------------------------------

DF, FILES = persons(0)
DF = DF.assign(relate=np.where(DF["hid"].duplicated(), "child", "head"))
KEYS = {"known": ["rooms"], "synthesized": ["a", "b"]}
FIRST = DF["hid"].iloc[0]


def matching(df=DF, files=FILES, household="hid", **how):
    return br.household_matching(df, files, household=household, **KEYS | how)


def of(df=DF, **how):
    return br.Households("hid", **how).of(df)


def wrong(value: Any) -> Any:
    """A value of another kind than is wanted."""
    return value


def changed(column, value, row=0):
    df = DF.copy()
    df[column] = df[column].astype(object)
    df.iloc[row, df.columns.get_loc(column)] = value
    return df


HEADS = {"relate": "relate", "head": "head"}
REFUSALS = [
    (lambda: matching(household="no"), "household names column 'no'"),
    (lambda: matching(household=3), "household names column 3"),
    (lambda: matching(members=0), "members=0"),
    (lambda: matching(known=["hid"]), "household='hid' is a key too"),
    (lambda: matching(files=[FILES[0].iloc[1:]]), "records"),
    (lambda: matching(files=[FILES[0].assign(hid=np.arange(len(DF)) // 2)]), "other households"),
    (lambda: matching(fallback=1), "fallback=1"),
    (lambda: of(changed("hid", None)), "household='hid' is missing in 1 of"),
    (lambda: of(changed("hid", f"{FIRST} ", 1)), "differ by blanks alone: the household of row"),
    (lambda: of(DF.assign(hid=np.float32(2**24))), "float32. has labels above 16,777,216"),
    (lambda: of(relate="relate"), "relate and head go together"),
    (lambda: of(relate="relate", head="chief"), "head='chief' does not occur"),
    (lambda: of(relate="relate", head=1), "head=1 does not occur"),
    (lambda: of(changed("relate", None), **HEADS), "no head by relate = 'head' in the"),
    (lambda: of(DF.assign(relate="head"), **HEADS), "two heads or more by relate = 'head' in the"),
    (
        lambda: of(changed("rooms", None), variables=["rooms"]),
        "missing is one. in the household of",
    ),
    (lambda: of(variables=["b"]), "household variable 'b' has two values"),
    (lambda: of(variables=["no"]), "variables names column 'no'"),
    (lambda: matching(pd.concat([DF, DF[["hid"]]], axis=1)), "hid"),
    (lambda: of(DF.assign(hid=7, relate="x"), relate="relate", head="y"), "does not occur"),
    (
        lambda: of(DF.assign(hid=[7] * len(DF)), **HEADS),
        "or more by relate = 'head' in the household of row 1 of the original;",
    ),
    (lambda: br.household_risk(pd.Series(["x"]), pd.Series([1])), "probabilities from 0 to 1"),
    (lambda: br.household_risk(wrong(3), DF["hid"]), "risk is a int; give an Att"),
    (lambda: br.household_risk(pd.Series([0.5]), DF["hid"]), "label of every target once"),
    (lambda: br.household_risk(pd.Series([0.5]), wrong([1])), "household must be a Series"),
    (lambda: br.household_risk(pd.Series([2.0]), pd.Series([1])), "probabilities from 0 to 1"),
    (lambda: br.household_risk(pd.Series([0.5]), pd.Series([1, 1])), "no household all of whose"),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS, ids=[m[:40] for _, m in REFUSALS])
def test_what_cannot_be_is_named(call, message):
    with pytest.raises(br.InputError, match=message):
        call()


def test_too_many_sets_are_refused_before_they_are_made():
    df = pd.DataFrame({"hid": [1] * 200, "a": [0, 1] * 100})
    keys = {"known": [], "synthesized": ["a"]}
    with pytest.raises(br.InputError, match="members=5 makes sets of"):
        br.household_matching(df, df, household="hid", members=5, **keys)


# --- real households ------------------------------------------------------------------------------


@pytest.mark.check
def test_households_of_the_acs(shared_data):
    df = pd.read_csv(shared_data / "households_acs2012.csv.gz")
    own = br.Households("household", relate="relate", head=1, variables=["ownership"])
    assert np.bincount(own.of(df).members).tolist() == [0, 0, 1009, 428, 354, 150, 59]
    shuffled = [
        df.assign(race=df["race"].sample(frac=1, random_state=l).to_numpy()) for l in (1, 2)
    ]
    keys = {"household": own, "known": ["sex", "relate", "ownership"], "synthesized": ["race"]}
    found = br.household_matching(df, shuffled, **keys)
    rows = found.summary()
    tuples = df[["sex", "relate", "ownership", "race"]].apply(tuple, axis=1)
    together = tuples.groupby(df["household"]).agg(lambda one: tuple(sorted(one)))
    assert rows["value"]["households_alone"] == (~together.duplicated(keep=False)).sum()
    kept = tuples.map(lambda key: key[:-1]).groupby(df["household"]).agg(lambda x: tuple(sorted(x)))
    assert rows["baseline"]["households_expected"] == pytest.approx(kept.nunique())
    assert rows["value"]["households_true"] <= found.alone.mean()
