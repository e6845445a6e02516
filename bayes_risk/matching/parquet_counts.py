"""Counting Parquet files: which key each record holds, and which releases show it.

What a record adds to any match is settled by the key it holds and, for every key that it shows in
some release, by the set of releases that show it. So files of any size are read side by side, a
batch at a time, counted by DuckDB as a table of ``(key, set of releases) -> records that show it in
just these, targets among them who hold it``, on disk where memory does not suffice, and matched as
tables in memory are. Letters: ``m`` releases, ``l`` a table (0: the original), ``U`` keys, ``R``
rows of the result. Derivation: ``docs/identification.md``.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from bayes_risk._core.arrays import Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import LARGEST, Cells, Chances, Matches
from bayes_risk._core.memory import bytes_of
from bayes_risk.data.equality import coded
from bayes_risk.data.microdata import MAX_LEVELS, check_records, same_records
from bayes_risk.data.parquet import CURE
from bayes_risk.release.tables import check_unchanged
from bayes_risk.release.top_coding import cut_ends, cut_off

from .boxes import BOX, Boxes, OwnRows, match_each, match_pooled
from .input import check_discrete, checked_keys, release_tables
from .parquet_files import ParquetTable

Progress = Callable[[str, int, int], None]

BUCKET = 2**21  # profiles that are matched at a time


class Plan(NamedTuple):
    """What is read: tables, the original first; keys; the column that names records; and how."""

    tables: tuple[ParquetTable, ...]
    known: tuple[str, ...]
    synthesized: tuple[str, ...]
    id: str | None
    batch: int
    max_memory: str | None
    progress: Progress

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys, the unsynthesised ones first."""
        return (*self.known, *self.synthesized)

    @property
    def n(self) -> int:
        """Number of records."""
        return self.tables[0].n


class Tally(NamedTuple):
    """Whole numbers of all targets, or of those of some keys: they add up in any order."""

    # n, profiles: targets; distinct (key, set of releases) that records show, and that targets hold
    n: int
    profiles: int
    # shape (R, 4): targets with K = 1, with F = 1, with no match, with c > 0: of each release,
    # pooled, and, for m > 2, pooled without each of them
    counts: Ints
    chances: tuple[Chances, ...]


def checked_tables(
    original: Any, releases: Any, known: Any, synthesized: Any, id: str | None
) -> tuple[ParquetTable, ...]:
    """Check everything that the footers of the files can tell."""
    first = ParquetTable.of(original, "the original")
    check_records(_preview(first), "original")
    known, synthesized = checked_keys(list(first.names), known, synthesized)
    paths = [releases] if isinstance(releases, (str, PathLike)) else releases
    if not isinstance(paths, Sequence):
        raise InputError(f"releases is a {type(releases).__name__}; give a list of paths")
    tables = [ParquetTable.of(path, f"release {l}") for l, path in enumerate(paths, start=1)]
    release_tables(_preview(first), [_preview(table) for table in tables], known, synthesized, True)
    for table in tables:
        same_records(pd.RangeIndex(first.n), pd.DataFrame(index=range(table.n)), table.name)
    for table in (first, *tables):
        if id is not None and table.names.count(id) != 1:
            raise InputError(
                "id",
                id,
                f"is not a column of {table.name}, or more than one; it has {list(table.names)}",
            )
        table.check([*known, *synthesized], [*known, *synthesized, *([] if id is None else [id])])
    return (first, *tables)


def _preview(table: ParquetTable) -> pd.DataFrame:
    """A table of the same columns with one record, or none if there is none: for the checks."""
    return pd.DataFrame(
        np.zeros((min(table.n, 1), len(table.names))), columns=pd.Index(table.names, dtype=object)
    )


def count_files(plan: Plan, *, fallback: bool) -> tuple[Tally, int, dict[str, bool]]:
    """Match all targets; the number of cells, of distinct known keys; what files cut off."""
    with _database(plan.max_memory) as con:
        levels, cuts = _levels(plan)
        cells, words = _write_profiles(con, plan, levels)
        return *_tally(con, len(plan.tables) - 1, cells, words, fallback), cuts


@contextmanager
def _database(most: str | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in a folder of its owner alone, for what memory cannot hold; it opens no file."""
    settings = {
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_persistent_secrets": False,
        "python_enable_replacements": False,
        "enable_external_access": False,
        "lock_configuration": True,
    }
    with TemporaryDirectory(prefix="bayes-risk-") as folder:
        limit = {} if most is None else {"memory_limit": f"{bytes_of(most)}B"}
        con = duckdb.connect(config={"temp_directory": folder, **limit})
        try:
            for name, value in settings.items():
                con.execute(f"SET {name} = ?", [value])
            yield con
        except duckdb.Error as error:  # its text may quote a value of the files
            raise InputError(
                f"DuckDB could not count the files ({type(error).__name__}); see that there is "
                f"memory (max_memory={most!r}) and room on disk in {gettempdir()!r} "
                "(TMPDIR names another folder)"
            ) from None
        finally:
            con.close()


# --- levels, and their codes ---------------------------------------------------------------------


class FileLevels(NamedTuple):
    """Of one key: in each table its distinct values and their codes, which are below ``size``."""

    values: list[Any]
    codes: list[Ints]
    size: int

    def of(self, l: int, column: Any) -> Ints:
        """Codes of values of table l."""
        places = pc.index_in(column, value_set=self.values[l])
        if places.null_count:
            raise _changed()
        return np.asarray(self.codes[l][places.to_numpy().astype(np.int64)])


def _levels(plan: Plan) -> tuple[list[FileLevels], dict[str, bool]]:
    """Read every key's distinct values, and code them over all tables as those in memory are.

    Where counts of records tell that files cut a key off, it is cut in the original too.
    """
    found, done, total = [], 0, plan.n * len(plan.tables)
    for table in plan.tables:
        seen: dict[str, Any] = {}
        before = done
        for rows in table.batches(plan.keys, plan.batch):
            for key in plan.keys:
                if len(seen.get(key, ())) <= MAX_LEVELS or not table.is_number(key):
                    seen[key] = _counted(rows.column(key), seen.get(key))
            done += len(rows)
            plan.progress("levels", done, total)
        if done - before != table.n:
            raise _changed()
        found.append(seen)
    levels, cuts, names = [], dict[str, bool](), [table.name for table in plan.tables]
    for key in plan.keys:
        values = [seen[key].column("value").combine_chunks() for seen in found]
        times = [seen[key].column("n").to_numpy() for seen in found]
        columns = [
            _series(*one) for one in zip(plan.tables, [key] * len(names), values, strict=True)
        ]
        for column, name in zip(columns, names, strict=True):
            check_discrete(key, column, len(column), f" of {name}")
        found_in = coded(key, columns, names, times)
        if found_in.kind == "numbers":
            pairs = zip(found_in.codes, times, strict=True)
            ends = cut_ends(found_in.values, [np.bincount(*of, found_in.size) for of in pairs])
            cuts |= {f"{key} is {e.words}": e.certain for e in ends if e.possible}
            found_in = cut_off(found_in, len(names) - 1, [e for e in ends if e.certain])
        if found_in.apart:
            raise InputError(found_in.apart)
        levels.append(
            FileLevels(values, [code.astype(np.int64) for code in found_in.codes], found_in.size)
        )
    return levels, cuts


def _counted(column: Any, seen: Any) -> Any:
    """Distinct values and how many records have each, with those seen before."""
    counts = column.value_counts()
    new = pa.table({"value": counts.field("values"), "n": counts.field("counts")})
    both = new if seen is None else pa.concat_tables([seen, new])
    return (
        both.group_by("value", use_threads=False)
        .aggregate([("n", "sum")])
        .rename_columns(["value", "n"])
    )


def _series(table: ParquetTable, key: str, values: Any) -> pd.Series:
    """The values as a column in memory would hold them; whole numbers stay whole."""
    whole = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    try:
        column = values.to_pandas(types_mapper=whole.get if values.null_count else None)
    except (ValueError, OverflowError, pa.ArrowException):  # their words may hold a value
        kind = table.types[key]
        raise InputError(
            f"column {key!r} of {table.name} is stored as {kind} and holds a value that "
            f"cannot be read{CURE}"
        ) from None
    column = pd.Series(column, name=key)
    return column.astype("category") if key in table.categories else column


def _changed() -> InputError:
    return InputError("the files changed while they were read, or one is damaged; run again")


# --- records side by side ------------------------------------------------------------------------


def _write_profiles(
    con: duckdb.DuckDBPyConnection, plan: Plan, levels: Sequence[FileLevels]
) -> tuple[list[str], list[str]]:
    """Count into ``profiles`` who shows which key in which releases; names of words of a key."""
    m, n_known = len(plan.tables) - 1, len(plan.known)
    read = [*plan.keys, *([] if plan.id is None else [plan.id])]
    changed, done = np.zeros((m + 1, n_known)), 0
    names: list[str] = []
    flags: list[str] = []
    sizes = [level.size for level in levels]
    for rows in zip(*(table.batches(read, plan.batch) for table in plan.tables), strict=False):
        if len({len(batch) for batch in rows}) > 1:
            raise _changed()
        if plan.id is not None:
            _check_ids(plan, [batch.column(plan.id) for batch in rows], done)
        kept: list[Ints] = []
        shown: list[Ints] = []
        for l, batch in enumerate(rows):
            pairs = zip(plan.keys, levels, strict=True)
            codes = [level.of(l, batch.column(key)) for key, level in pairs]
            kept = kept or codes[:n_known]
            changed[l] += [(codes[j] != kept[j]).sum() for j in range(n_known)]
            of_key = words_of(codes[n_known:], sizes[n_known:])
            shown.append(np.reshape(of_key, (-1, len(batch))))
        cell = words_of(kept, sizes[:n_known])
        for l, words in enumerate(shown):  # keys that table l shows and none before
            same = np.array([(words == other).all(axis=0) for other in shown])
            new = ~same[:l].any(axis=0)
            columns = {f"c{i}": word[new] for i, word in enumerate(cell)}
            columns |= {f"w{i}": word[new] for i, word in enumerate(words)}
            columns |= {f"s{k}": same[k][new] for k in range(1, m + 1)}
            to = f"INSERT INTO shown SELECT *, count(*), {'count(*)' if l == 0 else '0'}"
            if not names:
                names = [name for name in columns if name[0] != "s"]
                flags = [name for name in columns if name[0] == "s"]
                to = "CREATE TABLE shown AS SELECT *, count(*) AS records, count(*) AS targets"
            con.register("batch", pa.table(columns))
            con.execute(f"{to} FROM batch GROUP BY ALL")
            con.unregister("batch")
        done += len(rows[0])
        plan.progress("records", done, plan.n)
    if done != plan.n:
        raise _changed()
    for j, key in enumerate(plan.known):
        for l, table in enumerate(plan.tables):
            check_unchanged(key, int(changed[l, j]), plan.n, table.name)
    grouped = ", ".join([*names, *flags])
    con.execute(
        f"CREATE TABLE profiles AS SELECT {grouped}, CAST(sum(records) AS BIGINT) AS records, "
        f"CAST(sum(targets) AS BIGINT) AS targets FROM shown GROUP BY {grouped}"
    )
    con.execute("DROP TABLE shown")
    return [name for name in names if name[0] == "c"], names


def words_of(codes: Sequence[Ints], sizes: Sequence[int], *, largest: int = LARGEST) -> list[Ints]:
    """Codes of keys in mixed radix, in as many 64-bit words as it takes; `largest` to test."""
    words: list[Ints] = []
    size = 0
    for code, radix in zip(codes, sizes, strict=True):
        if not words or size > largest // radix:
            words.append(code)
            size = radix
        else:
            words[-1] = words[-1] * radix + code
            size *= radix
    return words


def _check_ids(plan: Plan, ids: Sequence[Any], start: int) -> None:
    """The column that names records says the same in every table."""
    tables = zip(plan.tables, ids, strict=True)
    values = [_series(table, str(plan.id), column).astype(object) for table, column in tables]
    first, *others = coded(str(plan.id), values, [table.name for table in plan.tables]).codes
    for table, codes in zip(plan.tables[1:], others, strict=True):
        if (differs := codes != first).any():
            raise InputError(
                "id",
                plan.id,
                f"of {table.name} is not the original's at record "
                f"{start + int(differs.argmax()) + 1:,}; records correspond by order: sort all "
                f"files by {plan.id!r} and write them again",
            )


# --- matching ------------------------------------------------------------------------------------


def _tally(
    con: duckdb.DuckDBPyConnection,
    m: int,
    cells: Sequence[str],
    words: Sequence[str],
    fallback: bool,
) -> tuple[Tally, int]:
    """Match the targets of some keys after the other, and add up."""
    con.execute(
        "CREATE TABLE cells AS SELECT CAST(sum(targets) AS BIGINT) AS size"
        f"{''.join(f', {name}' for name in cells)} FROM profiles GROUP BY ALL"
    )
    where = " AND ".join(f"profiles.{name} = cells.{name}" for name in cells) or "true"
    ((n_cells, rows),) = con.execute(
        "SELECT (SELECT count(*) FROM cells), (SELECT count(*) FROM profiles)"
    ).fetchall()
    key = ", ".join(f"profiles.{name}" for name in words)
    buckets, found = math.ceil(rows / BUCKET), []
    for bucket in range(buckets):
        columns: Any = con.execute(
            f"SELECT profiles.*, size FROM profiles JOIN cells ON {where} "
            f"WHERE hash({key}) % {buckets} = {bucket} ORDER BY {key}"
        ).fetchnumpy()
        if len(columns["size"]):
            found.append(_match(columns, m, words, fallback))
    n, profiles, counts, chances = zip(*found, strict=True)
    columns = [map(np.concatenate, zip(*one, strict=True)) for one in zip(*chances, strict=True)]
    added = tuple(Chances.of(*column) for column in columns)
    return Tally(sum(n), sum(profiles), np.sum(counts, axis=0), added), n_cells


def _match(columns: Mapping[str, Ints], m: int, words: Sequence[str], fallback: bool) -> Tally:
    """Match the targets of some keys, whose profiles come key by key."""
    new = [columns[name][1:] != columns[name][:-1] for name in words]
    key = np.append(0, np.cumsum(np.any(new, axis=0)))
    shows = np.array([columns[f"s{l}"] for l in range(1, m + 1)])
    profiles = int(shows.any(axis=0).sum() + (columns["targets"] > 0).sum())
    used = np.bincount(key, columns["targets"]) > 0  # keys of some target
    rows, number = used[key], np.cumsum(used) - 1
    key, shows = number[key[rows]], shows[:, rows]
    records, targets, size = (columns[name][rows] for name in ("records", "targets", "size"))
    N = np.array([np.bincount(key, records * shown) for shown in shows], np.int64)
    place = np.flatnonzero(targets)
    n, of = targets[place], key[place]
    exact = np.arange(N.shape[1])
    z, own = np.where(shows, key, -1), OwnRows.of(place)
    boxes = Boxes(exact, z, (), None, N, of, own, records, BOX)
    used = size[place]
    cells = Cells(used, np.ones_like(used), np.where(used == 1, 0, -1), fallback, certain=True)
    D = N.astype(float)
    each = match_each(boxes, D, cells)
    counts, chances = [], []
    apart = [Matches(*row) for row in zip(*each, strict=True)]
    for found in [*apart, *match_pooled(boxes, D, each, cells)]:
        flags = found.K, found.F, found.no_match, found.c > 0
        counts.append([n[flag].sum() for flag in flags])
        chances.append(Chances.of(found.c, n * found.hits))
    return Tally(int(n.sum()), profiles, np.array(counts), tuple(chances))
