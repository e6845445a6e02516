"""Identification risk of files: the same numbers as in memory, however files and work are cut."""

import datetime as dt
import os
import random
import sys
import tempfile
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bayes_risk as br
from bayes_risk import InputError
from bayes_risk.matching import parquet_counts, parquet_files

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

KEYS: dict[str, Any] = {"known": ["a", "b"], "synthesized": ["s", "t"]}


def tables(m: int, n: int, seed: int = 0) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """Text, category, number and truth values, missing ones among them; ids."""
    rng = np.random.default_rng(seed)
    original = pd.DataFrame(
        {
            "id": np.arange(n) * 7,
            "a": rng.choice(np.array(["x", "y", None], dtype=object), n),
            "b": pd.Categorical(rng.choice(["u", "v"], n), categories=["v", "w", "u"]),
            "s": rng.choice([1.0, 2.0, np.nan], n),
            "t": rng.random(n) < 0.5,
            "unread": [f"secret {i}" for i in range(n)],
        }
    )
    shuffled = [
        original.assign(
            s=rng.permutation(original["s"].to_numpy()), t=rng.permutation(original["t"].to_numpy())
        )
        for _ in range(m)
    ]
    return original, shuffled


def written(folder: Path, original: pd.DataFrame, releases: Any, rows: Any = 10) -> list[str]:
    """Write the original and its releases; rows: of a row group, one for all or one each."""
    folder.mkdir(exist_ok=True)
    each = rows if isinstance(rows, list) else [rows] * (len(releases) + 1)
    names = []
    for l, (table, size) in enumerate(zip([original, *releases], each, strict=True)):
        names.append(str(folder / f"{l}.parquet"))
        table.to_parquet(names[-1], row_group_size=size)
    return names


def risk_of(files: list[str], **options: Any) -> br.FileRisk:
    return br.identification_risk_of_files(files[0], files[1:], **(KEYS | options))


def assert_same(found: br.FileRisk, wanted: br.IdentificationRisk) -> None:
    rounded = ["mcse", "baseline"]  # sums over records here, over distinct keys there
    exact = [name for name in found.summary() if name not in rounded]
    for table, how in (
        (lambda risk: risk.summary()[exact], {"check_exact": True}),
        (lambda risk: risk.summary()[rounded], {"rtol": 1e-9}),
    ):
        pd.testing.assert_frame_equal(table(found), table(wanted), **how)
    assert (found.n, found.m) == (wanted.n, wanted.m)
    assert found.sentence() == wanted.sentence()
    alone = replace(wanted, exposure=None)
    assert repr(found).split("\n", 1)[1] == repr(alone).split("\n", 1)[1]
    mine, theirs = found.expected_match_risk_mcse, wanted.expected_match_risk_mcse
    np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)
    assert found.baseline_expected_match_risk == pytest.approx(
        wanted.baseline_expected_match_risk, rel=1e-12
    )


# --- the same as in memory -----------------------------------------------------------------------


@pytest.mark.check
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(
    m=st.integers(1, 4),
    n=st.integers(1, 30),
    rows=st.integers(1, 31),
    others=st.integers(1, 31),
    batch=st.integers(1, 40),
    fallback=st.booleans(),
    seed=st.integers(0, 5),
    known=st.sampled_from([[], ["a"], ["a", "b"]]),
)
def test_files_give_what_tables_in_memory_give(
    tmp_path, m, n, rows, others, batch, fallback, seed, known
):
    original, releases = tables(m, n, seed)
    files = written(tmp_path / "files", original, releases, [rows, *[others] * m])
    options: dict[str, Any] = {"known": known, "synthesized": ["s", "t"], "fallback": fallback}
    wanted = br.identification_risk(original, releases, **options)
    assert_same(risk_of(files, **options, batch=batch, id="id"), wanted)


def test_the_order_of_columns_and_their_storage_do_not_matter(tmp_path):
    original, releases = tables(2, 40)
    wanted = br.identification_risk(original, releases, **KEYS)
    releases[0] = releases[0][["t", "s", "b", "a"]]
    releases[1] = releases[1].astype({"b": "str", "s": "category", "a": "category"})
    assert_same(risk_of(written(tmp_path, original, releases)), wanted)


def test_whole_numbers_beyond_floating_point_stay_apart_beside_missing_ones(tmp_path):
    codes = pd.array([2**60, 2**60 + 1, None, 2**60], dtype="Int64")
    original = pd.DataFrame({"s": codes})
    files = written(tmp_path, original, [original])
    assert risk_of(files, known=[], synthesized=["s"]).summary().loc[1, "true_matches"] == 2


def test_a_key_missing_everywhere_is_one_level(tmp_path):
    original = pd.DataFrame({"a": [None, None, None], "s": list("ppq")})
    files = written(tmp_path, original, [original])
    wanted = br.identification_risk(original, [original], known=["a"], synthesized=["s"])
    assert_same(risk_of(files, known=["a"], synthesized=["s"]), wanted)


def test_one_release_needs_no_list_and_a_path_may_be_a_path(tmp_path):
    original, releases = tables(1, 20)
    files = [Path(name) for name in written(tmp_path, original, releases)]
    found = br.identification_risk_of_files(files[0], files[1], **KEYS)
    assert_same(found, br.identification_risk(original, releases, **KEYS))


def test_number_of_profiles(tmp_path):
    original = pd.DataFrame({"s": list("ppp")})
    files = written(tmp_path, original, [original, original.assign(s=list("ppq"))])
    # Held by two records and by one, as shown in both or in the first; shown likewise. q: nobody's.
    assert risk_of(files, known=[], synthesized=["s"]).n_profiles == 5


def test_progress_ends_at_the_total(tmp_path):
    calls: list[tuple[str, int, int]] = []
    files = written(tmp_path, *tables(2, 25))
    risk_of(files, batch=10, progress=lambda *call: calls.append(call))
    assert ("levels", 75, 75) in calls and calls[-1] == ("records", 25, 25)
    assert [done for stage, done, _ in calls if stage == "records"] == [10, 20, 25]


# --- any values, names and sizes ---------------------------------------------------------------

VALUES: dict[str, list[Any]] = {
    "text": ["", "a", "A", "a'b", 'q"', "é", "e\u0301", "\u0000", "x" * 40, "NULL", None],
    "floats": [0.0, -0.0, 1.0, 0.1, 1e300, float("inf"), float("nan"), None],
    "whole": [0, 1, -1, 2**62, 2**62 + 1, None],
    "unsigned": [0, 2**64 - 1, 2**64 - 2, None],
    "truth": [True, False, None],
    "bytes": [b"", b"\xff", b"a", None],
    "days": [dt.date(2020, 1, 1), dt.date(1, 1, 1), None],
    "moments": [dt.datetime(2020, 1, 1, 0, 0, 0, 1), dt.datetime(1999, 1, 1), None],
    "decimals": [Decimal("1.10"), Decimal("1.1"), Decimal("-0.01"), None],
    "lengths": [dt.timedelta(days=1), dt.timedelta(microseconds=1), None],
}
TYPES = {"unsigned": "uint64"}


@pytest.mark.parametrize("seed", range(12))
def test_any_values_are_told_apart_as_in_memory(tmp_path, seed):
    chosen = random.Random(seed)
    kinds = [chosen.choice([*VALUES]) for _ in range(chosen.randint(1, 3))]
    n, m, known = chosen.randint(1, 12), chosen.randint(1, 3), chosen.randint(0, len(kinds) - 1)
    files = [str(tmp_path / f"{l}.parquet") for l in range(m + 1)]
    columns: dict[str, Any] = {"row": pa.array(range(n))}
    for l, file in enumerate(files):
        for j, kind in enumerate(kinds):
            if l == 0 or j >= known:
                drawn = [VALUES[kind][0], *chosen.choices(VALUES[kind], k=n - 1)]
                column = pa.array(drawn, TYPES.get(kind))
                coded = kind in ("text", "whole") and chosen.random() < 0.5
                columns[f"{j}"] = column.dictionary_encode() if coded else column
        pq.write_table(pa.table(columns), file, row_group_size=chosen.randint(1, 13))
    whole = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    read = [pq.read_table(file).to_pandas(types_mapper=whole.get) for file in files]
    names = [f"{j}" for j in range(len(kinds))]
    keys: dict[str, Any] = {"known": names[:known], "synthesized": names[known:]}
    try:
        wanted = br.identification_risk(read[0], read[1:], **keys)
    except InputError as error:
        with pytest.raises(InputError) as found:
            risk_of(files, **keys)
        assert str(found.value) == str(error)
    else:
        found = risk_of(files, **keys)
        assert found.n == wanted.n
        in_memory = wanted.summary()[[*found.summary()]]
        pd.testing.assert_frame_equal(found.summary(), in_memory, atol=1e-12)


NAMES = ["a'b\"c", "Age", "age", "c0", "select * from t", "a;b", "ünï", "rn", "held"]


def test_names_of_columns_may_be_anything(tmp_path):
    rng = np.random.default_rng(0)
    original = pd.DataFrame({name: rng.integers(0, 3, 40) for name in NAMES})
    release = original.assign(**{name: rng.permutation(original[name]) for name in NAMES[2:]})
    keys: dict[str, Any] = {"known": NAMES[:2], "synthesized": NAMES[2:]}
    files = written(tmp_path, original, [release])
    assert_same(risk_of(files, **keys), br.identification_risk(original, [release], **keys))


@pytest.mark.parametrize("name", ["it's", "a*", "[a]", "{a,b}", "a%20b"])
def test_a_path_names_one_file_and_no_pattern(tmp_path, name):
    """Beside each lies a file that the pattern would match: it is not read."""
    original, releases = tables(1, 30)
    files = []
    for l, table in enumerate([original, *releases]):
        folder = tmp_path / str(l) / name
        folder.mkdir(parents=True)
        files.append(str(folder / f"{name}.parquet"))
        table.to_parquet(files[-1])
        for planted in ("a", "aa", "b"):
            (tmp_path / str(l) / planted).mkdir()
            for path in (folder / planted, tmp_path / str(l) / planted / planted):
                original[::-1].to_parquet(f"{path}.parquet")
    assert_same(risk_of(files, id="id"), br.identification_risk(original, releases, **KEYS))


def test_the_database_opens_no_other_file_and_cannot_be_told_to(tmp_path):
    files = written(tmp_path, *tables(1, 20))
    other = tmp_path / "other.parquet"
    other.write_bytes(Path(files[0]).read_bytes())
    with parquet_counts._database(None) as con:
        for query in (
            f"SELECT * FROM read_parquet('{other}')",
            f"SELECT * FROM '{other}'",
            f"COPY (SELECT 1) TO '{tmp_path / 'out'}'",
            f"ATTACH '{tmp_path / 'out'}'",
            "SET enable_external_access = true",
            "LOAD httpfs",
        ):
            with pytest.raises(Exception, match="(?i)permission|cannot|does not exist|disabled"):
                con.execute(query)
    assert not (tmp_path / "out").exists()


def test_keys_of_more_than_a_word_matched_some_at_a_time(tmp_path, monkeypatch):
    original, releases = tables(5, 60)
    files = written(tmp_path, original, releases)
    wanted = br.identification_risk(original, releases, **KEYS)
    monkeypatch.setattr(parquet_counts, "BUCKET", 7)
    monkeypatch.setattr(parquet_counts.words_of, "__kwdefaults__", {"largest": 4})
    assert_same(risk_of(files, id="id"), wanted)


def test_words_are_filled_before_a_new_one_is_begun():
    codes = [np.array([i]) for i in (3, 2, 1, 9)]
    words = parquet_counts.words_of(codes, [2**30, 2**30, 2**30, 10])
    assert [word.tolist() for word in words] == [[3 * 2**30 + 2], [19]]


def test_little_memory_changes_no_number(tmp_path):
    original, releases = tables(3, 20_000)
    files = written(tmp_path, original, releases, 5_000)
    keys: dict[str, Any] = {"known": ["a"], "synthesized": ["s", "unread"]}
    assert_same(
        risk_of(files, **keys, max_memory="60MiB", batch=3_000),
        br.identification_risk(original, releases, **keys),
    )


@pytest.mark.parametrize("trouble", ["levels", "id", "known", "page", "memory", "stop"])
def test_nothing_is_left_behind_and_no_value_is_told(tmp_path, monkeypatch, trouble):
    original, releases = tables(1, 3_000)
    options: dict[str, Any] = {"known": ["a"], "synthesized": ["s", "unread"]}
    wanted: Any = InputError
    if trouble == "levels":
        releases[0] = releases[0].assign(s="secret")
    elif trouble == "id":
        original, options = original.assign(id=original["unread"]), options | {"id": "id"}
        releases[0] = releases[0].assign(id=original["unread"].to_numpy()[::-1])
    elif trouble == "known":
        options = {"known": ["unread"], "synthesized": ["s"]}
        releases[0] = releases[0].assign(unread=original["unread"].to_numpy()[::-1])
    elif trouble == "memory":
        options |= {"max_memory": "1MiB"}
    files = written(tmp_path / "files", original, releases, 3_000)
    if trouble == "page":
        content = bytearray(Path(files[1]).read_bytes())
        content[100:-4000] = b"secret" * ((len(content) - 4100) // 6 + 1)
        Path(files[1]).write_bytes(bytes(content))
    if trouble == "stop":
        wanted = KeyboardInterrupt

        def stop(*_: Any) -> None:
            raise KeyboardInterrupt

        options |= {"progress": stop}
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with pytest.raises(wanted) as found:
        risk_of(files, **options)
    assert os.listdir(tmp_path / "temporary") == [] and "secret" not in str(found.value)


# --- folders -------------------------------------------------------------------------------------


def parts(folder: Path, table: pd.DataFrame, cuts: list[int]) -> str:
    folder.mkdir()
    for p, (low, high) in enumerate(zip([0, *cuts], [*cuts, len(table)], strict=True)):
        table[low:high].to_parquet(folder / f"part.{p}.parquet", row_group_size=4)
    return str(folder)


def test_folders_are_read_in_natural_order(tmp_path):
    original, releases = tables(2, 60)
    files = [
        parts(tmp_path / str(l), table, cuts)
        for l, (table, cuts) in enumerate(
            zip([original, *releases], [[*range(5, 60, 5)], [9, 31], [1, 2, 3]], strict=True)
        )
    ]
    (tmp_path / "0" / "_metadata.parquet").write_bytes(b"not read")
    wanted = br.identification_risk(original, releases, **KEYS)
    assert_same(risk_of(files, id="id", batch=13), wanted)


@pytest.mark.parametrize("names", [["1", "2", "10"], ["north", "a%20b", "01"]])
def test_folders_name_columns(tmp_path, names):
    original, releases = tables(2, 30)
    files = []
    for l, table in enumerate([original, *releases]):
        for k, name in enumerate(names):
            folder = tmp_path / str(l) / f"region={name}"
            folder.mkdir(parents=True)
            table[10 * k : 10 * k + 10].to_parquet(folder / "a.parquet")
        files.append(str(tmp_path / str(l)))
    region = np.repeat([0, 1, 2], 10)
    first, *others = (table.assign(region=region) for table in [original, *releases])
    order = np.concatenate([np.flatnonzero(region == names.index(n)) for n in sorted(names)])
    if names[0] == "1":
        order = np.arange(30)
    keys: dict[str, Any] = {"known": ["region", "a"], "synthesized": ["s"]}
    wanted = br.identification_risk(first.iloc[order], [r.iloc[order] for r in others], **keys)
    assert_same(risk_of(files, **keys), wanted)


def test_parts_of_other_types_are_errors(tmp_path):
    original, releases = tables(1, 20)
    parts(tmp_path / "a", original, [10])
    original[10:].assign(s="text").to_parquet(tmp_path / "a" / "part.1.parquet")
    files = [str(tmp_path / "a"), parts(tmp_path / "b", releases[0], [])]
    with pytest.raises(InputError, match=r"column 's' of '.*part.1.parquet' is stored as .*write"):
        risk_of(files)
    original[10:].drop(columns="s").to_parquet(tmp_path / "a" / "part.1.parquet")
    with pytest.raises(InputError, match=r"part.1.parquet' lacks column 's', which other files"):
        risk_of(files)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1_234_567_891_737, pa.time64("ns")), (2_147_483_000, pa.date32())],
    ids=["time", "date"],
)
def test_keys_that_pandas_cannot_hold_are_told_by_column_without_value(tmp_path, value, kind):
    column = pa.array([value] * 3, kind)
    pq.write_table(pa.table({"a": column, "b": [1, 2, 3]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="column 'a' of the original is stored as") as caught:
        risk_of([str(tmp_path / "a.parquet")] * 2, known=["a"], synthesized=["b"])
    assert "1234567891" not in str(caught.value) and "58" not in str(caught.value)


@pytest.mark.parametrize("rows", [0, 2, 4])
def test_pages_of_another_number_of_records_than_the_footer_says(tmp_path, monkeypatch, rows):
    pq.write_table(pa.table({"a": [1, 2, 3], "b": [1, 2, 3]}), tmp_path / "a.parquet")
    batch = pa.record_batch({"a": [1] * rows, "b": [1] * rows})
    monkeypatch.setattr(parquet_files, "_read", lambda *given: [batch] * bool(rows))
    with pytest.raises(InputError, match="changed while they were read, or one is damaged"):
        risk_of([str(tmp_path / "a.parquet")] * 2, known=["a"], synthesized=["b"])


def test_columns_that_the_pages_lack_are_damage(tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": [1, 2, 3], "b": [1, 2, 3]}), tmp_path / "a.parquet")
    read = parquet_files.read_in_parts
    other = lambda *given, **how: read(*given, **how | {"columns": ["b"]})  # noqa: E731
    monkeypatch.setattr(parquet_files, "read_in_parts", other)
    with pytest.raises(InputError, match="its pages are damaged"):
        part = parquet_files.ParquetPart(str(tmp_path / "a.parquet"), 3, (), {})
        next(parquet_files._read(part, ["a"], 2))


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda o, r: r[1].pop("s"), {}),
        (lambda o, r: r[1].update({"a": ["y"] * 3}), {}),
        (lambda o, r: r.__setitem__(0, r[0].assign(s="word")), {}),
        (lambda o, r: None, {"known": ["a", "s"]}),
        (lambda o, r: None, {"known": ["a", "a"]}),
        (lambda o, r: None, {"known": "a"}),
        (lambda o, r: None, {"known": ["absent"]}),
        (lambda o, r: None, {"known": [], "synthesized": []}),
        (lambda o, r: None, {"fallback": 1}),
        (lambda o, r: r.clear(), {}),
    ],
)
def test_errors_are_those_of_tables_in_memory(tmp_path, change, options):
    original, releases = tables(2, 30)
    change(original, releases)
    files = written(tmp_path, original, releases)
    with pytest.raises(InputError) as wanted:
        br.identification_risk(original, releases, **(KEYS | options))
    with pytest.raises(InputError) as found:
        risk_of(files, **options)
    assert str(found.value) == str(wanted.value)


def test_files_of_another_number_of_records_are_refused(tmp_path):
    original, releases = tables(2, 30)
    files = written(tmp_path, original, [releases[0], releases[1][:-1]])
    with pytest.raises(InputError, match="release 2 has 29 records and the original 30; a release"):
        risk_of(files)


def test_a_continuous_key_is_refused_and_a_category_of_numbers_is_not(tmp_path):
    original = pd.DataFrame({"s": np.arange(1500)})
    files = written(tmp_path, original, [original], 400)
    with pytest.raises(InputError, match=r"'s' \(int64\) of the original has .* looks continuous"):
        risk_of(files, known=[], synthesized=["s"])
    coded = original.astype("category")
    files = written(tmp_path, coded, [coded], 400)
    assert risk_of(files, known=[], synthesized=["s"]).summary().loc[1, "true_matches"] == 1500


def test_ids_that_do_not_agree_are_an_error_that_says_to_sort(tmp_path):
    original, releases = tables(2, 30)
    releases[1].loc[17, "id"] = 4
    files = written(tmp_path, original, releases, [10, 10, 7])
    with pytest.raises(InputError, match=r"id='id' of release 2 is not .* record 18; .*sort all"):
        risk_of(files, id="id", batch=8)
    with pytest.raises(InputError, match=r"id='nobody' is not a column of the original"):
        risk_of(files, id="nobody")
    text = written(tmp_path, original, [r.assign(id="k") for r in releases])
    with pytest.raises(
        InputError, match="column 'id' holds numbers in the original and text in release 1.*store"
    ):
        risk_of(text, id="id")


def test_files_that_are_none(tmp_path):
    files = written(tmp_path, *tables(1, 20))
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.parquet").write_text("text")
    for path, message in [
        (
            str(tmp_path / "none.parquet"),
            "there is no file or folder .*none.parquet' for release 1",
        ),
        (str(tmp_path / "empty"), "of release 1 holds no file ending in .parquet"),
        (str(tmp_path / "bad.parquet"), "is not a readable Parquet file"),
        (pd.DataFrame(), "release 1 is a DataFrame; give the path"),
    ]:
        with pytest.raises(InputError, match=message):
            br.identification_risk_of_files(files[0], [path], **KEYS)
    with pytest.raises(InputError, match="batch=0 is too small"):
        risk_of(files, batch=0)


@pytest.mark.parametrize("name", ["file_row_number", "File_Row_Number"])
def test_a_column_may_be_named_as_duckdb_numbers_rows(tmp_path, name):
    table = pd.DataFrame({"s": ["a", "b"], name: [1, 2]})
    table.to_parquet(tmp_path / "numbered.parquet")
    file = str(tmp_path / "numbered.parquet")
    assert risk_of([file, file], known=[], synthesized=["s", name]).n == 2


def test_a_column_that_stands_twice_is_an_error(tmp_path):
    table = pa.table([pa.array([1, 2]), pa.array([3, 4])], names=["s", "s"])
    pq.write_table(table, tmp_path / "twice.parquet")
    file = str(tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="column 's' more than once"):
        risk_of([file, file], known=[], synthesized=["s"])


@pytest.mark.parametrize("library", ["pyarrow", "duckdb"])
def test_without_a_library_the_error_says_how_to_get_it(tmp_path, monkeypatch, library):
    files = written(tmp_path, *tables(1, 20))
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=rf"needs {library}: pip install 'bayes_risk\[parquet\]'"):
        risk_of(files)


def test_progress_is_a_function(tmp_path: Path) -> None:
    files = written(tmp_path / "files", *tables(1, 6))
    with pytest.raises(InputError, match="progress=3 is not a function; give one of"):
        risk_of(files, progress=3)
