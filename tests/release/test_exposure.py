"""What files show without a model: counted by hand, against all pairs, and of real files."""

from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayes_risk as br
from bayes_risk import InputError

FRAMES = ("files", "columns", "records")
ORIGINAL = pd.DataFrame(
    {
        "sex": ["f", "f", "m", "m", "m", None],
        "town": ["A", "B", "A", "A", "B", "B"],
        "pay": [10.5, 20.25, 30.0, 30.0, 41.0, np.nan],
    },
    index=list("uvwxyz"),
)
FIRST = ORIGINAL.assign(
    town=["A", "A", "A", "A", "B", "B"],  # v moves to A
    pay=[10.5, 41.0, 30.0, 25.0, 20.25, np.nan],
)
SECOND = ORIGINAL.assign(town=["B"] * 6, pay=[41.0] * 6)


def shown(keys=("sex", "town")):
    release = br.Release(datasets=[FIRST, SECOND], synthesized=["town", "pay"])
    return br.exposure(ORIGINAL, release, keys=keys)


def test_typed_in_files_are_counted_as_by_hand():
    found = shown()
    assert found.files.astype(float).to_dict("list") == {
        "records": [6, 6],
        "not_replaced": [0, 0],
        "identical": [3, 1],  # u, w, z; y
        "identical_any_row": [3, 3],  # y's values stand in the rows of w, x and y
        "identical_synthesized": [3, 1],
        "identical_synthesized_any_row": [4, 6],  # (B, 20.25) is v's; (B, 41) is y's
        "expected_any_row_share": [pytest.approx(1 / 3)] * 2,  # w and x are equal
        "original_alone": [4, 4],
        "identical_alone": [2, 1],
        "uniques": [4, 4],  # u (f, A), v (f, B), y (m, B), z (none, B)
        "replicated_uniques": [2, 1],  # y, z; z, for B is all there is
        "rows_correspond": [1, 1],
        "same_as_original": [0, 0],
    }


def test_typed_in_values_are_counted_as_by_hand():
    table = shown().columns
    assert table.index.tolist() == [(1, "pay"), (2, "pay")]
    assert table.astype(float).to_dict("list") == {
        "values": [5, 6],  # a missing value is none
        "genuine": [4, 6],
        "genuine_share": [0.8, 1],
        "unique": [3, 6],  # 10.5, 41, 20.25; 41
        "unique_share": [0.6, 1],
        "uniques_shown": [3, 1],
        "original_uniques": [3, 3],
        "original_values": [5, 5],
        "original_distinct": [4, 4],
        "expected_genuine_share": [pytest.approx(0.4)] * 2,  # 1 - 3/5
        "expected_unique_share": [pytest.approx(0.4)] * 2,  # 2 * 1 / 5
        "judged": [1, 1],
    }


def test_records_say_in_how_many_files_they_are_found():
    table = shown().records
    assert table.index.tolist() == list("uvwxyz")
    assert table["identical_files"].tolist() == [1, 0, 1, 0, 1, 1]
    assert table["identical_any_row_files"].tolist() == [1, 0, 1, 1, 1, 1]
    assert table["replicated_files"].tolist() == [0, 0, 0, 0, 1, 2]


def test_the_summary_gives_least_and_most_and_what_they_are_of():
    table = shown().summary()
    assert table.loc["identical"].iloc[:5].tolist() == [1, 3, 6, 4, 0.5]
    assert table.loc["identical_any_row"].iloc[:4].tolist() == [3, 3, 6, 5]
    assert table.loc["replicated_uniques"].iloc[:4].tolist() == [1, 2, 4, 2]
    assert table.loc["genuine_unique_values[pay]"].iloc[:3].tolist() == [3, 6, 6]


def test_tables_are_those_of_the_result():
    found = shown()
    tables = found.tables()
    assert list(tables) == ["counted", *FRAMES]
    assert all(tables[name].frame.equals(getattr(found, name)) for name in FRAMES)


def test_the_first_file_alone_is_what_it_is_by_itself():
    cut = shown().first(1)
    alone = br.exposure(
        ORIGINAL,
        br.Release(datasets=[FIRST], synthesized=["town", "pay"]),
        keys=["sex", "town"],
    )
    for name in FRAMES:
        assert cut.tables()[name].frame.to_dict() == alone.tables()[name].frame.to_dict()


def by_all_pairs(original, released, columns):
    """Equal in these columns, released by original, one pair after the other."""
    pairs = np.ones((len(released), len(original)), dtype=bool)
    for i, z in enumerate(released[columns].itertuples(index=False)):
        for j, y in enumerate(original[columns].itertuples(index=False)):
            pairs[i, j] = all(a == b or (a != a and b != b) for a, b in zip(z, y, strict=True))
    return pairs


TABLE = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.sampled_from([0.5, 2.5, np.nan])),
    min_size=6,
    max_size=6,
).map(lambda rows: pd.DataFrame(rows, columns=["x", "y", "z"]).astype({"y": object}))


@pytest.mark.check
@given(TABLE, TABLE)
def test_counts_are_those_of_all_pairs(original, released):
    release = br.Release(datasets=[released], synthesized=["x", "y", "z"])
    found = br.exposure(original, release, keys=["x", "z"])
    pairs = by_all_pairs(original, released, ["x", "y", "z"])
    file = found.files.loc[1]
    assert file["identical"] == np.diag(pairs).sum()
    assert file["identical_any_row"] == pairs.any(axis=1).sum()
    assert found.records["identical_any_row_files"].tolist() == pairs.any(axis=0).tolist()
    d = by_all_pairs(original, original, ["x", "z"]).sum(axis=0)
    s = by_all_pairs(original, released, ["x", "z"]).sum(axis=0)
    assert found.records["replicated_files"].tolist() == ((d == 1) & (s == 1)).tolist()
    assert file["uniques"] == (d == 1).sum()


def test_the_order_of_rows_and_columns_changes_nothing():
    shuffled = [FIRST.iloc[[3, 1, 5, 0, 2, 4]], SECOND.iloc[::-1]]
    release = br.Release(
        datasets=[t[["pay", "town", "sex"]] for t in shuffled], synthesized=["pay", "town"]
    )
    found = br.exposure(ORIGINAL[["town", "pay", "sex"]], release, keys=["town", "sex"])
    for name, table in shown().tables().items():
        pd.testing.assert_frame_equal(found.tables()[name].frame, table.frame)
    swapped = br.Release(datasets=[SECOND, FIRST], synthesized=["town", "pay"])
    back = br.exposure(ORIGINAL, swapped, keys=["sex", "town"])
    pd.testing.assert_frame_equal(back.records, shown().records)


def test_the_original_as_its_own_release_is_called_that():
    found = br.exposure(ORIGINAL, [FIRST, ORIGINAL.copy()])
    assert found.same_as_original.tolist() == [False, True]
    assert found.files.loc[2, ["identical", "identical_any_row", "identical_alone"]].tolist() == [
        *(6, 6, 4)
    ]
    assert "Release 2 is the original itself" in found.sentence()
    alone = br.exposure(ORIGINAL, ORIGINAL)
    assert alone.synthesized == ("sex", "town", "pay")
    assert alone.sentence().startswith("The file is the original itself: every record is equal.")


def test_the_original_in_another_order_is_still_the_original():
    table = ORIGINAL.reset_index(drop=True)
    found = br.exposure(table, table.iloc[::-1].reset_index(drop=True))
    assert found.same_as_original.all()
    assert found.files.loc[1, "identical_any_row"] == 6


def test_a_file_that_has_nothing_of_the_original_shows_nothing():
    other = pd.DataFrame({"sex": ["x"] * 4, "town": ["C"] * 4, "pay": [1.0, 2.0, 3.0, 4.0]})
    found = br.exposure(ORIGINAL, other)
    counts = found.files.loc[1].drop(["identical", "identical_synthesized"])
    assert counts[["identical_any_row", "identical_alone", "replicated_uniques"]].sum() == 0
    assert found.columns.loc[1, "pay"][["genuine", "unique", "uniques_shown"]].sum() == 0
    assert found.records["replicated_files"].sum() == 0
    assert not found.same_as_original.any()


def test_rows_that_do_not_correspond_are_not_compared_one_by_one():
    found = br.exposure(ORIGINAL, FIRST.iloc[:5])
    assert not found.files["rows_correspond"].any()
    assert found.files["identical"].isna().all()
    assert found.records["identical_files"].isna().all()
    assert found.files.loc[1, "identical_any_row"] == 2
    assert found.synthesized == ("sex", "town", "pay")
    assert "rows do not correspond" in found.sentence()


def test_numbers_are_equal_within_what_a_text_file_loses():
    pay = np.array([1e-8, 0.1 + 0.2, 1e15 / 3, -7.7])
    original = pd.DataFrame({"pay": pay})
    written = pd.DataFrame({"pay": [float(f"{v:.13g}") for v in pay]})
    assert (written["pay"] != original["pay"]).any()
    assert br.exposure(original, written).files.loc[1, "identical"] == 4
    near = br.exposure(original, original * (1 + 1e-11))
    assert near.files.loc[1, "identical_any_row"] == 0


def test_infinite_numbers_equal_themselves_alone():
    original = pd.DataFrame({"x": [1.0, np.inf, -np.inf, 1e300]})
    released = pd.DataFrame({"x": [np.inf, np.inf, 1.0, 0.0]})
    found = br.exposure(original, released)
    assert found.records["identical_any_row_files"].tolist() == [1, 1, 0, 0]


def test_large_whole_numbers_are_not_rounded():
    original = pd.DataFrame({"id": [2**60, 2**60 + 1]})
    released = pd.DataFrame({"id": [2**60 + 1, 2**60 + 2]})
    assert br.exposure(original, released).files.loc[1, "identical_any_row"] == 1


def test_records_released_as_they_are_are_told_apart():
    replaced = np.array([True, True, True, False, False, True])
    table = FIRST.assign(pay=FIRST["pay"].where(replaced, ORIGINAL["pay"]))
    release = br.Release(datasets=[table], synthesized=["town", "pay"], records=replaced)
    found = br.exposure(ORIGINAL, release)
    assert found.files.loc[1, "not_replaced"] == 2
    assert found.files.loc[1, "identical"] == 5
    assert found.columns.loc[(1, "pay"), "values"] == 3  # of the four replaced, one missing


def test_kept_columns_that_a_release_leaves_out_are_the_originals():
    short = br.Release(datasets=[FIRST[["town", "pay"]]], synthesized=["town", "pay"])
    found = br.exposure(ORIGINAL, short, keys=["sex", "town"])
    assert found.files.equals(shown().first(1).files)
    with pytest.raises(InputError, match="a release must hold the original's records"):
        br.exposure(ORIGINAL.iloc[:5], short)


def test_columns_that_cannot_be_compared_are_named():
    found = br.exposure(ORIGINAL, FIRST.drop(columns="town").assign(sex=1))
    assert (found.compared, found.left_out) == (("pay",), ("sex", "town"))
    assert found.sentence().endswith("Not compared: sex, town.")


@pytest.mark.parametrize(
    ("files", "keys", "message"),
    [
        ([], None, r"releases is empty \(m = 0\)"),
        (FIRST.iloc[:0], None, "release 1 has no records; give files with at least one"),
        (FIRST[["pay"]].rename(columns={"pay": "wage"}), None, "share no column"),
        (FIRST, ["job"], "keys names column 'job', which the table does not have"),
        (FIRST, [], "keys is empty; name at least one column"),
        (
            FIRST.drop(columns="sex"),
            ["sex"],
            "keys names 'sex', which cannot be compared: release 1 lacks column 'sex'",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused(files, keys, message):
    with pytest.raises(InputError, match=message):
        br.exposure(ORIGINAL, files, keys=keys)


def test_codes_are_not_judged_by_their_genuine_values():
    rng = np.random.default_rng(1)
    original = pd.DataFrame({"code": rng.integers(1, 6, 400), "pay": rng.normal(size=400)})
    released = original.sample(frac=1, replace=True, random_state=2).reset_index(drop=True)
    judged = br.exposure(original, released).columns["judged"].loc[1]
    assert judged.to_dict() == {"code": False, "pay": True}


@pytest.mark.check
def test_a_fresh_sample_shows_about_as_much_as_is_expected_of_it():
    """Good (1953): 1 - N_1/n and 2 N_2/n, over 200 pairs of samples of one population."""
    rng = np.random.default_rng(3)
    off = []
    for _ in range(200):
        y, z = (pd.DataFrame({"x": np.floor(rng.exponential(40, 150))}) for _ in range(2))
        row = br.exposure(y, z).columns.loc[1, "x"].astype(float)
        share = [row["genuine_share"], row["unique_share"]]
        off.append(np.subtract(share, row[["expected_genuine_share", "expected_unique_share"]]))
    mean, error = np.mean(off, axis=0), np.std(off, axis=0) / np.sqrt(200)
    assert (np.abs(mean) < 4 * error).all()


def test_keys_by_default_are_categories_and_something_synthesised():
    frame = ORIGINAL.assign(pay=np.arange(6.0) + 0.5)
    wide = pd.concat([frame] * 5, ignore_index=True).assign(pay=np.arange(30.0) * 3)
    changed = wide.assign(pay=wide["pay"] + 7)
    assert br.exposure(wide, changed).keys == ("sex", "town", "pay")
    assert br.exposure(wide, changed.assign(town="A")).keys == ("sex", "town")
    kept = br.exposure(wide, changed, keys=["sex", "town"])
    assert kept.keys_synthesized == ()
    assert "none of these keys was synthesised" in kept.sentence()


def test_coded_data_are_counted_like_the_table_they_stand_for():
    table = ORIGINAL.dropna()
    release = br.Release(datasets=[FIRST.dropna()], synthesized=["town", "pay"])
    data = br.Microdata.from_frame(table, numbers=["pay"], releases=release.datasets)
    found = br.exposure(data, release)
    assert found.keys == ("sex", "town")
    for name, expected in br.exposure(table, release, keys=["sex", "town"]).tables().items():
        pd.testing.assert_frame_equal(found.tables()[name].frame, expected.frame)


def test_the_result_holds_no_confidential_value():
    secret = pd.DataFrame({"job": ["Zwiebelschneider", "clerk"], "pay": [1234.5, 2.0]})
    found = br.exposure(secret, secret)
    held = [repr(getattr(found, f.name)) for f in fields(found)] + [repr(found)]
    assert not any("Zwiebel" in text or "1234.5" in text for text in held)


def test_many_wide_columns_do_not_run_out_of_numbers():
    """A hundred columns of 50 values each make more combinations than integers can hold."""
    rng = np.random.default_rng(4)
    original = pd.DataFrame(rng.integers(0, 50, (200, 100)), columns=map(str, range(100)))
    released = original.copy()
    released.loc[:99, "99"] += 1
    found = br.exposure(original, released)
    assert found.files.loc[1, ["identical", "identical_any_row"]].tolist() == [100, 100]


# --- with the risks --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audited():
    """An attribute and an identification risk of one release of numbers, its first record kept."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"sex": rng.choice(["f", "m"], 40), "pay": rng.normal(50, 9, 40)})
    fit = br.models.CART(["pay"], min_leaf=10).fit(table, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)
    grids = {"pay": br.Grid(additive=1.0, n=5)}
    gathered = br.attribute_evidence(fit, release, guesses=grids, targets=10, random_seed=3)
    keys = {"known": ["sex"], "synthesized": ["pay"], "radius": {"pay": 0.1}}
    return table, release, gathered, br.identification_risk(table, release, **keys)


def same_tables(a, b):
    return all(t.frame.equals(b.tables()[name].frame) for name, t in a.tables().items())


def test_every_audit_counts_what_its_files_show(audited):
    table, release, gathered, matched = audited
    risk = gathered.risk("uniform")
    assert same_tables(risk.exposure, br.exposure(table, release, keys=["sex", "pay"]))
    assert same_tables(matched.exposure, risk.exposure)
    assert risk.exposure.columns["genuine_share"].tolist() == [1, 1]  # trees draw what there is
    value = risk.summary()["value"]
    assert value["identical_records"] == risk.exposure.files["identical"].max()
    assert value["replicated_uniques"] == risk.exposure.files["replicated_uniques"].max()
    assert value["genuine_unique_values"] == risk.exposure.columns["unique"].max() == 40
    assert risk.exposure.sentence() in repr(risk)
    assert matched.exposure.sentence() in repr(matched)


def test_the_first_releases_show_what_they_show(audited):
    table, release, gathered, _ = audited
    one = br.Release(datasets=release.datasets[:1], synthesized=["pay"])
    first = gathered.first(1).risk("uniform").exposure
    assert same_tables(first, br.exposure(table, one, keys=["sex", "pay"]))


def test_matching_tells_what_its_files_show(audited):
    _, _, _, matched = audited
    table, files = matched.summary(), matched.exposure.files
    assert table.loc[[1, 2], "identical_records"].tolist() == files["identical"].tolist()
    assert table.loc["mean", "identical_records"] == files["identical"].mean()
    anywhere = (matched.exposure.records > 0).sum()
    assert table.loc["pooled", "identical_records"] == anywhere["identical_files"]
    assert table.loc["pooled", "replicated_uniques"] == anywhere["replicated_files"]


def test_the_report_has_a_section_of_it_once(audited, tmp_path):
    _, _, gathered, matched = audited
    path = br.report(gathered.risk("uniform"), matched, tmp_path / "both.html")
    text = path.read_text(encoding="utf-8")
    assert (
        text.count('<h2 id="exposure">Without a model: what the files show by themselves</h2>') == 1
    )
    assert "Values of pay that occur once in the original" in text
    alone = br.report(matched.exposure, tmp_path / "alone.html").read_text(encoding="utf-8")
    assert '<h2 id="exposure">' in alone


def test_lines_for_the_screen_are_short(audited):
    _, _, _, matched = audited
    unique = matched.exposure.summary()["most"]["replicated_uniques"]
    assert matched.exposure.line() == (
        f"At most, one file shows: {int(matched.exposure.files['identical'].max())} records "
        f"equal in all columns, {int(unique)} of 40 uniques, 40 unique values"
    )
    original = br.exposure(ORIGINAL, ORIGINAL)
    assert original.line() == (
        "The file shows: the original itself, 6 records equal in all columns, 4 of 4 uniques, "
        "3 unique values"
    )


def test_nothing_of_it_leaves_with_the_public_numbers(audited):
    _, _, gathered, matched = audited
    found = br.redact(gathered.risk("uniform"), matched, matched.exposure)
    assert found.left_out == ["IdentificationRisk", "Exposure"]  # of results one states a number
    told = " ".join(found.table["measure"]).lower()
    assert not any(word in told for word in ("identical", "replicated", "genuine"))


# --- real files ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def consumers(shared_data):
    return pd.read_csv(shared_data / "ce_hornby_hu_identification.csv.gz")


def peer_files(shared_data, name, m):
    folder = shared_data / "peer_runs"
    return [pd.read_csv(folder / f"{name}_release{l}.csv.gz") for l in range(1, m + 1)]


def test_synthpops_incomes_are_genuine(shared_data, consumers):
    found = br.exposure(consumers, peer_files(shared_data, "ce_income", 3))
    assert found.synthesized == ("Income",)
    assert found.files["identical"].tolist() == [739, 709, 735]
    assert found.columns["genuine_share"].tolist() == [1.0, 1.0, 1.0]
    assert found.columns["unique"].tolist() == [2565, 2490, 2513]
    assert found.columns["expected_genuine_share"].iloc[0] == pytest.approx(0.539, abs=5e-4)
    assert found.columns["judged"].all()
    assert int((found.records["identical_files"] > 0).sum()) == 1825


def test_synthpops_three_columns_are_genuine(shared_data, consumers):
    files = peer_files(shared_data, "ce_tenure_expenditure_income", 5)
    found = br.exposure(consumers, files)
    assert found.synthesized == ("Tenure", "Expenditure", "Income")
    assert found.files["identical"].tolist() == [45, 38, 40, 45, 39]
    assert found.files["identical_any_row"].tolist() == [287, 266, 265, 251, 283]
    table = found.columns.xs(1, level="release")
    assert table["judged"].to_dict() == {"Tenure": False, "Expenditure": True, "Income": True}
    assert (table["genuine_share"] == 1).all()


def test_wide_files_take_one_look_at_their_columns_and_few_sentences(monkeypatch):
    """The table asked for all columns once per column: 40 s for 844 of them."""
    rng, looks, asked = np.random.default_rng(1), {}, []
    by_column = br.Exposure.by_column
    monkeypatch.setattr(br.Exposure, "by_column", lambda self: asked.append(1) or by_column(self))
    for p in (3, 30):
        original, released = (
            pd.DataFrame(rng.normal(size=(40, p)), columns=[f"c{j}" for j in range(p)])
            for _ in range(2)
        )
        released["c2"] = original["c2"]
        found = br.exposure(original, released, corresponds=False)
        asked.clear()
        assert found.tables()
        looks[p] = len(asked)
    assert looks[3] == looks[30] <= 4
    said = found.sentence()
    assert said.count("occur in the original,") == 10 and "of c2 40 occur in the original" in said
    assert "20 further numbers" in said
