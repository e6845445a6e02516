"""Counting Parquet files with DuckDB: which key each record holds, and which releases show it.

What a record adds to any match is settled by the key it holds and, for every key that it shows in
some release, by the set of releases that show it. So files of any size are counted as a table of
``(key, set of releases) -> records that show it in just these, targets among them who hold it``,
on disk where memory does not suffice, and matched as tables in memory are. Letters: ``m`` releases,
``l`` a table (0: the original), ``U`` keys, ``R`` rows of the result. Derivation:
``docs/identification.md``.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import LARGEST, Chances, Weights, doubts, largest_sums, no_leaders
from bayes_risk.data.microdata import MAX_LEVELS

from .boxes import leading
from .input import check_unchanged, coded, source
from .parquet_files import ParquetTable, Part, unreadable, value_type

if TYPE_CHECKING:
    import duckdb

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
    # shape (R, 5): targets with K = 1, with F = 1, with c = 1, with no match, with c > 0: of each
    # release, pooled, and, for m > 2, pooled without each of them
    counts: Ints
    chances: tuple[Chances, ...]


class Layout(NamedTuple):
    """Codes of a record's keys in mixed radix, in as many 64-bit words as it takes.

    ``digits``: (word, stride, radix) of each key, the unsynthesised ones first.
    """

    digits: tuple[tuple[int, int, int], ...]
    n_known: int

    @classmethod
    def of(cls, sizes: Sequence[int], n_known: int, *, largest: int = LARGEST) -> "Layout":
        """Lay out keys with these numbers of levels; `largest` word, lower only to test."""
        digits: list[tuple[int, int, int]] = []
        word, size = 0, 1
        for radix in sizes:
            word, size = (word + 1, radix) if size > largest // radix else (word, size * radix)
            digits = [(w, s * radix if w == word else s, d) for w, s, d in digits]
            digits.append((word, 1, radix))
        return cls(tuple(digits), n_known)

    @property
    def words(self) -> range:
        """Numbers of the words."""
        return range(self.digits[-1][0] + 1)

    def kind(self, word: int) -> str:
        """How DuckDB stores a word."""
        return _integer(max(stride * radix for w, stride, radix in self.digits if w == word))

    def digit(self, key: int, table: str) -> str:
        """One key's code in a table of words."""
        word, stride, radix = self.digits[key]
        return f"{table}.w{word} // {stride} % {radix}"

    def cell(self, table: str) -> list[str]:
        """The unsynthesised keys in a table of words: equal if and only if all their codes are."""
        last = {word: stride for word, stride, _ in self.digits[: self.n_known]}
        return [f"{table}.w{word} // {stride}" for word, stride in last.items()]


def count_files(plan: Plan, *, fallback: bool) -> tuple[Tally, int]:
    """Match all targets; and the number of cells, of distinct unsynthesised keys."""
    with _database(plan) as con:
        layout = _write_codes(con, plan)
        _align(con, plan, layout)
        return _tally(con, len(plan.tables) - 1, layout, fallback)


@contextmanager
def _database(plan: Plan) -> "Iterator[duckdb.DuckDBPyConnection]":
    """A database in a folder of its own, for its owner alone, that opens no file but those given.

    Nothing is written there but what memory does not hold.
    """
    try:
        import duckdb
    except ImportError:
        raise InputError(
            "counting Parquet files needs duckdb: pip install 'bayes_risk[parquet]', or give "
            "DataFrames to identification_risk"
        ) from None
    parts = [part for table in plan.tables for part in table.parts]
    settings: dict[str, Any] = {
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_persistent_secrets": False,
        "python_enable_replacements": False,
        "allowed_paths": [path for part in parts for path in (_absolute(part), _literal(part))],
        "enable_external_access": False,
        "lock_configuration": True,
    }
    with TemporaryDirectory(prefix="bayes-risk-") as folder:
        con = _connected(folder, plan.max_memory)
        try:
            for name, value in settings.items():
                con.execute(f"SET {name} = ?", [value])
            yield con
        except duckdb.Error as error:  # its text may quote a value of the files
            raise InputError(
                f"DuckDB could not count the files ({type(error).__name__}); see that there is "
                f"memory (max_memory={plan.max_memory!r}) and room on disk in {gettempdir()!r} "
                "(TMPDIR names another folder)"
            ) from None
        finally:
            con.close()


def _connected(folder: str, most: str | None) -> "duckdb.DuckDBPyConnection":
    import duckdb

    limit = {} if most is None else {"memory_limit": most}
    try:
        return duckdb.connect(config={"temp_directory": folder, **limit})
    except duckdb.Error:
        raise InputError(
            f"max_memory={most!r} is no amount of memory; give one such as '2GiB'"
        ) from None


# --- levels, and their codes ---------------------------------------------------------------------


def _write_codes(con: "duckdb.DuckDBPyConnection", plan: Plan) -> Layout:
    """Write every table's keys as words: ``t0``, ``t1``, ... of (rn, id, w0, w1, ...)."""
    codes: list[dict[str, Any]] = [{} for _ in plan.tables]
    sizes, done, total = [], 0, plan.n * len(plan.tables)
    for key in plan.keys:
        values: list[list[tuple[Any, Any]]] = [[] for _ in plan.tables]
        for l, table in enumerate(plan.tables):
            for part in table.parts:  # distinct values, as stored and as the table's type
                values[l].append(_distinct(con, table, part, key))
                done += part.n
                plan.progress("levels", done // len(plan.keys), total)
        whole = [_together([typed for _, typed in parts]) for parts in values]
        columns = [_series(t, key, array) for t, array in zip(plan.tables, whole, strict=True)]
        found, size = coded(key, columns, [source(l) for l in range(len(columns))])
        sizes.append(size)
        for l, (array, code) in enumerate(zip(whole, found, strict=True)):
            codes[l][key] = [(stored, _codes(v, array, code)) for stored, v in values[l]]
    layout, kind = Layout.of(sizes, len(plan.known)), _kind_of_ids(plan)
    named = [f"rn {_integer(plan.n)}", *(f"w{i} {layout.kind(i)}" for i in layout.words)]
    named += [] if plan.id is None else ["id UBIGINT"]
    for l, table in enumerate(plan.tables):
        con.execute(f"CREATE TABLE t{l} ({', '.join(named)})")
        start = 0
        for p, part in enumerate(table.parts):
            of_part = {key: parts[p] for key, parts in codes[l].items()}
            _write_part(con, f"t{l}", part, start, of_part, layout, plan.id, kind)
            start += part.n
        ((written,),) = con.execute(f"SELECT count(*) FROM t{l}").fetchall()
        if written != table.n:
            raise InputError(f"the files of {table.name} changed while they were read; run again")
    return layout


def _distinct(
    con: "duckdb.DuckDBPyConnection", table: ParquetTable, part: Part, key: str
) -> tuple[Any, Any]:
    import pyarrow as pa

    if key in part.fixed:
        array = pa.array([part.fixed[key]], table.types[key])
        return array, array
    most = f"LIMIT {MAX_LEVELS + 3}" if _is_number(table, key) else ""  # more are refused
    query = f"SELECT DISTINCT {_column(part, key)} AS v FROM {_records(part)} {most}"
    with _broken(part):
        found = con.sql(query, params={"path": _literal(part)}).to_arrow_table()
    stored, kind = found.column("v").combine_chunks(), value_type(table.types[key])
    if pa.types.is_null(kind):  # which older versions of DuckDB read as numbers
        stored = pa.nulls(len(stored))
    try:
        return stored, stored.cast(kind)
    except pa.ArrowException:
        raise InputError(
            f"column {key!r} of {part.path!r} is stored as {stored.type}, and as {kind} in the "
            "first file of its folder; write all files with one type"
        ) from None


def _write_part(
    con: "duckdb.DuckDBPyConnection",
    to: str,
    part: Part,
    start: int,
    codes: Mapping[str, tuple[Any, Ints]],
    layout: Layout,
    id: str | None,
    kind: str | None,
) -> None:
    """Look up the codes of one file's records, the first of which is record `start`."""
    import pyarrow as pa

    given: dict[str, Any] = {"path": _literal(part), "start": start}
    terms: list[list[str]] = [[] for _ in layout.words]
    joins = []
    for j, (key, (stored, code)) in enumerate(codes.items()):
        word, stride, _ = layout.digits[j]
        if key in part.fixed:
            terms[word].append(str(int(code[0]) * stride))
            continue
        con.register(f"k{j}", pa.table({"v": stored, "code": code}))
        terms[word].append(f"k{j}.code * {stride}")
        joins.append(f"JOIN k{j} ON t.{_column(part, key)} IS NOT DISTINCT FROM k{j}.v")
    label = ""
    if id is not None:
        label = "$id" if id in part.fixed else f"t.{_column(part, id)}"
        given |= {"id": part.fixed[id]} if id in part.fixed else {}
        label = f", hash({label})" if kind is None else f", hash(CAST({label} AS {kind}))"
    words = ", ".join(" + ".join(of_word) for of_word in terms)
    with _broken(part):
        con.execute(
            f"INSERT INTO {to} SELECT file_row_number + $start, {words}{label} "
            f"FROM {_records(part)} {' '.join(joins)}",
            given,
        )
    for j, key in enumerate(codes):
        if key not in part.fixed:
            con.unregister(f"k{j}")


def _integer(size: int) -> str:
    """The type of whole numbers below `size`."""
    return "INTEGER" if size < 2**31 else "BIGINT"


def _records(part: Part) -> str:
    """The records of a file, their columns by number: names are never part of a query."""
    names = ", ".join(f"c{i}" for i in range(len(part.names)))
    options = "file_row_number = true, hive_partitioning = false"
    return f"read_parquet($path, {options}) AS t({names})"


def _column(part: Part, name: str) -> str:
    return f"c{part.names.index(name)}"


def _absolute(part: Part) -> str:
    return str(Path(part.path).absolute())


def _literal(part: Part) -> str:
    """The path as a pattern that no other file fits."""
    return re.sub(r"[*?[]", r"[\g<0>]", _absolute(part))


@contextmanager
def _broken(part: Part) -> Iterator[None]:
    """Errors of one file, but for those of memory and disk."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error:
        raise unreadable(part.path) from None


def _together(arrays: Sequence[Any]) -> Any:
    """Values of several parts, each once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.unique(pa.concat_arrays(list(arrays)))


def _codes(values: Any, listed: Any, codes: Ints) -> Ints:
    """The codes of a part's values, which are listed with those of the other parts."""
    import pyarrow.compute as pc

    places = pc.index_in(values, value_set=listed).to_numpy(zero_copy_only=False)
    found: Ints = np.asarray(codes, dtype=np.int64)[places.astype(np.int64)]
    return found


def _series(table: ParquetTable, key: str, values: Any) -> pd.Series:
    """The values as a column in memory would hold them; whole numbers stay whole."""
    import pyarrow as pa

    whole = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
    column = values.to_pandas(types_mapper=whole.get if values.null_count else None)
    column = pd.Series(column, name=key)
    return column.astype("category") if key in table.categories else column


def _is_number(table: ParquetTable, key: str) -> bool:
    import pyarrow as pa

    kind = value_type(table.types[key])
    number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    return number and key not in table.categories


def _kind_of_ids(plan: Plan) -> str | None:
    """How DuckDB compares the column that names records; None: as it is stored."""
    import pyarrow as pa

    if plan.id is None:
        return None
    kinds = [value_type(table.types[plan.id]) for table in plan.tables]
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    number = (pa.types.is_floating, pa.types.is_decimal, pa.types.is_integer)
    for name, allowed in (("HUGEINT", number[2:]), ("DOUBLE", number), ("VARCHAR", text)):
        if all(any(is_it(kind) for is_it in allowed) for kind in kinds):
            return name if len(set(map(str, kinds))) > 1 else None
    for table, kind in zip(plan.tables, kinds, strict=True):
        if kind != kinds[0]:
            raise InputError(
                f"id={plan.id!r} is stored as {kind} in {table.name} and as {kinds[0]} in the "
                "original; store it as one type"
            )
    return None


# --- records side by side ------------------------------------------------------------------------


def _align(con: "duckdb.DuckDBPyConnection", plan: Plan, layout: Layout) -> None:
    """Join the tables by the number of the record, a batch at a time, and count what they show.

    Leaves ``profiles``: words of a key, flags ``s1``, ... (the release shows it), records of which
    this is so, and targets among them, who hold the key.
    """
    m = len(plan.tables) - 1
    words = [f"t{l}.w{i} AS w{l}_{i}" for l in range(m + 1) for i in layout.words]
    joined = "(SELECT * FROM t0 WHERE rn >= $low AND rn < $high) t0" + "".join(
        f" JOIN (SELECT * FROM t{l} WHERE rn >= $low AND rn < $high) t{l} USING (rn)"
        for l in range(1, m + 1)
    )
    same = [f"t{l}.id = t0.id" for l in range(1, m + 1) if plan.id is not None]
    for l in range(1, m + 1):
        pairs = zip(layout.cell(f"t{l}"), layout.cell("t0"), strict=True)
        same += [f"{a} = {b}" for a, b in pairs]
    query = f"SELECT {', '.join(words)}, {' AND '.join(same) or 'true'} AS same FROM {joined}"
    con.execute(f"CREATE TABLE aligned AS {query} LIMIT 0", {"low": 0, "high": 0})
    for low in range(0, plan.n, plan.batch):
        high = min(low + plan.batch, plan.n)
        con.execute(f"INSERT INTO aligned {query}", {"low": low, "high": high})
        plan.progress("records", high, plan.n)
    if con.execute("SELECT count(*) FROM aligned WHERE NOT same").fetchall() != [(0,)]:
        _say_what_differs(con, plan, layout)
    shown = " UNION ALL ".join(_shown_by(l, m, layout) for l in range(m + 1))
    con.execute(
        "CREATE TABLE profiles AS SELECT * EXCLUDE (held), count(*) AS records, "
        f"count(*) FILTER (held) AS targets FROM ({shown}) GROUP BY ALL"
    )


def _shown_by(l: int, m: int, layout: Layout) -> str:
    """The keys that records show in table l and in none before, and all tables that show them."""

    def equal(k: int) -> str:
        return "(" + " AND ".join(f"w{k}_{i} = w{l}_{i}" for i in layout.words) + ")"

    columns = [f"w{l}_{i} AS w{i}" for i in layout.words]
    columns += [f"{equal(k)} AS s{k}" for k in range(1, m + 1)]
    before = " AND ".join(f"NOT {equal(k)}" for k in range(l)) or "true"
    return f"SELECT {', '.join(columns)}, {l == 0} AS held FROM aligned WHERE {before}"


def _say_what_differs(con: "duckdb.DuckDBPyConnection", plan: Plan, layout: Layout) -> None:
    """Ids that do not agree, or keys under known= that are not the original's."""
    for l, table in enumerate(plan.tables[1:] if plan.id is not None else (), start=1):
        ((first,),) = con.execute(
            f"SELECT min(rn) FROM t0 JOIN t{l} USING (rn) WHERE t0.id <> t{l}.id"
        ).fetchall()
        if first is not None:
            raise InputError(
                f"id={plan.id!r} of {table.name} is not the original's at record {first + 1:,}; "
                f"records correspond by order: sort all files by {plan.id!r} and write them again"
            )
    for j, key in enumerate(plan.known):
        for l, table in enumerate(plan.tables[1:], start=1):
            ((changed,),) = con.execute(
                f"SELECT count(*) FROM t0 JOIN t{l} USING (rn) "
                f"WHERE {layout.digit(j, 't0')} <> {layout.digit(j, f't{l}')}"
            ).fetchall()
            check_unchanged(key, changed, plan.n, table.name)


# --- matching ------------------------------------------------------------------------------------


def _tally(
    con: "duckdb.DuckDBPyConnection", m: int, layout: Layout, fallback: bool
) -> tuple[Tally, int]:
    """Match the targets of some keys after the other, and add up."""
    cell, words = layout.cell("profiles"), ", ".join(f"w{i}" for i in layout.words)
    named = "".join(f", {expression} AS c{i}" for i, expression in enumerate(cell))
    con.execute(
        f"CREATE TABLE cells AS SELECT CAST(sum(targets) AS BIGINT) AS size{named} FROM profiles "
        f"GROUP BY {', '.join(f'c{i}' for i in range(len(cell))) or 'ALL'}"
    )
    where = " AND ".join(f"{ours} = cells.c{i}" for i, ours in enumerate(cell)) or "true"
    ((n_cells, rows),) = con.execute(
        "SELECT (SELECT count(*) FROM cells), (SELECT count(*) FROM profiles)"
    ).fetchall()
    buckets, found = math.ceil(rows / BUCKET), []
    for bucket in range(buckets):
        columns: Any = con.execute(
            f"SELECT profiles.*, size FROM profiles JOIN cells ON {where} "
            f"WHERE hash({words}) % {buckets} = {bucket} ORDER BY {words}"
        ).fetchnumpy()
        if len(columns["size"]):
            found.append(_match(columns, m, len(layout.words), fallback))
    n, profiles, counts, chances = zip(*found, strict=True)
    columns = [map(np.concatenate, zip(*one, strict=True)) for one in zip(*chances, strict=True)]
    added = tuple(Chances.of(*column) for column in columns)
    return Tally(sum(n), sum(profiles), np.sum(counts, axis=0), added), n_cells


def _match(columns: Mapping[str, Ints], m: int, n_words: int, fallback: bool) -> Tally:
    """Match the targets of some keys, whose profiles come key by key.

    Per release: ``c = N[l, u]``, and T = 1 for the targets of key u that show it there. Pooled: c
    adds up the records of the sets of releases with the highest probability, T the targets. Where
    nothing matches: the cell with the fallback rule, else nobody.
    """
    new = [columns[f"w{i}"][1:] != columns[f"w{i}"][:-1] for i in range(n_words)]
    start = np.append(0, 1 + np.flatnonzero(np.any(new, axis=0)))
    n = np.add.reduceat(columns["targets"], start)
    key = np.repeat(np.cumsum(n > 0) - 1, np.diff(start, append=len(columns["size"])))
    size, n_keys = columns["size"][start][n > 0], int((n > 0).sum())
    shows = np.array([columns[f"s{l}"] for l in range(1, m + 1)])
    shown: Flags = np.any(shows, axis=0)
    profiles = int(shown.sum() + (columns["targets"] > 0).sum())
    rows = shown & np.repeat(n > 0, np.diff(start, append=len(shown)))
    n = n[n > 0]
    counts = columns["records"][rows], columns["targets"][rows]
    found = []
    for c, T in _candidates(key[rows], shows[:, rows], *counts, n_keys):
        nothing = c == 0
        if fallback:
            c, T = np.where(nothing, size, c), np.where(nothing, n, T)
        one = c == 1
        sums = [T[one], (n - T)[one], n[one], n[nothing], n[c > 0]]
        found.append(([part.sum() for part in sums], Chances.of(c, T)))
    counted, chances = zip(*found, strict=True)
    return Tally(int(n.sum()), profiles, np.array(counted), chances)


def _candidates(
    u: Ints, shows: Flags, records: Ints, targets: Ints, n_keys: int
) -> Iterator[tuple[Ints, Ints]]:
    """Candidates and targets with ``T = 1`` of each key, shapes (U,): the rows of a `Tally`.

    Of distinct (key, set of releases), by key: ``u`` (P,), ``shows`` (m, P), and how many there
    are.
    """
    from .match_counts import pool_sets

    m = len(shows)
    N, T_each = np.zeros((2, m, n_keys), dtype=np.int64)
    for l, shown in enumerate(shows):
        np.add.at(N[l], u[shown], records[shown])
        np.add.at(T_each[l], u[shown], targets[shown])
    contests = [None, *(range(m) if m > 2 else ())]
    D = N.astype(float)
    weights, leaders = Weights.of(D, LARGEST // m), no_leaders(n_keys, len(contests))
    pool_sets(u, np.ascontiguousarray(shows.T), records, weights, leaders)
    best = leading(shows, u, weights, leaders)
    for key, a in doubts(leaders, m):
        rows = u == key
        best[a, rows] = largest_sums(shows[:, rows], D[:, key], contests[a])
    T = [np.bincount(u, targets * flags, n_keys).astype(np.int64) for flags in best]
    c = [np.bincount(u, records * flags, n_keys).astype(np.int64) for flags in best]
    yield from zip([*N, *c], [*T_each, *T], strict=True)
