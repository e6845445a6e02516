"""Keys and tables of matching, checked: their names, their values, their rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from scipy.special import bdtrc

from bayes_risk._core.errors import InputError, place_of
from bayes_risk._core.validate import known_columns
from bayes_risk.data.equality import Coded
from bayes_risk.data.microdata import MAX_LEVELS, Codes, check_writable, require_columns
from bayes_risk.data.precision import CHANCE
from bayes_risk.release.tables import Tables, declared_columns

MISSING = ("level", "wildcard", "never")


class Key(NamedTuple):
    """One key column, coded: of the targets (n_t,), and as it was released, (n,) or (m, n)."""

    target: Codes
    released: Codes
    n_levels: int


def check_named(what: str, named: Iterable[str], keys: Sequence[str], cure: str) -> None:
    """What belongs to keys names keys."""
    for name in named:
        if name not in keys:
            raise InputError(what, f"names {name!r}, which is not a key ({list(keys)}); {cure}")


def missing_by_key(missing: str | Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    """How each key treats missing values."""
    if isinstance(missing, str):
        missing = dict.fromkeys(keys, missing)
    if not isinstance(missing, Mapping):
        raise InputError("missing", missing, f"; give one of {MISSING}, or a dict of column to one")
    check_named("missing", missing, keys, "leave it out")
    for name, how in missing.items():
        if how not in MISSING:
            raise InputError(("missing", name), how, f"; give one of {MISSING}")
    return {name: missing.get(name, "level") for name in keys}


def checked_flag(name: str, value: Any) -> bool:
    """A truth value."""
    if not isinstance(value, bool):
        raise InputError(name, value, "is not a truth value; give True or False")
    return value


def check_discrete(name: str, column: pd.Series, n_values: int, where: str) -> None:
    """Refuse numbers with too many values to be levels."""
    if pd.api.types.is_numeric_dtype(column) and n_values > MAX_LEVELS:
        raise InputError(
            f"key {name!r} (`{column.dtype}`){where} has {n_values:,} distinct values, more than "
            f"{MAX_LEVELS:,}, and looks continuous; give it a `radius`, or cut it into the same "
            "categories in all files (`pandas.cut`); if its numbers are codes, declare them in "
            "`levels` (`astype('category')`)"
        )


def coded_key(name: str, tables: Tables) -> Coded:
    """A key that matches exactly, coded in every table."""
    codes = tables.key(name)
    for l, frame in enumerate(tables.frames):
        if name in frame:
            check_discrete(name, frame[name], codes.n_values[l], f" of {tables.places[l]}")
    if codes.refusal:
        raise InputError(codes.refusal)
    return codes


def checked_keys(
    columns: Sequence[str] | pd.DataFrame, known: Sequence[str], synthesized: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Both lists of keys, which are among the original's columns, each key once."""
    known = known_columns("known", known, columns)
    synthesized = known_columns("synthesized", synthesized, columns)
    both = [column for column in known if column in synthesized]
    if both:
        raise InputError(
            "synthesized",
            f"names {both}, which `known` names too; a column is either synthesised or not: remove "
            "it from one of them",
        )
    if not known and not synthesized:
        raise InputError("`known` and `synthesized` are empty; name at least one key column")
    check_writable("key", [*known, *synthesized])
    return known, synthesized


def release_tables(
    original: pd.DataFrame,
    releases: Any,
    known: list[str],
    synthesized: list[str],
    own: bool,
    targets: pd.DataFrame | None = None,
) -> Tables:
    """The original, m released tables and outside targets, with every key; ``own``: row by row."""
    declared = declared_columns(releases)
    for column in known + synthesized:
        if declared is not None and (column in synthesized) != (column in declared):
            name, was = "known", "synthesised; put it under `synthesized`"
            if column in synthesized:
                name = "synthesized"
                was = f"did not synthesise (it did {declared}); put it under `known`"
            raise InputError(name, f"names {column!r}, which the release {was}")
    # a Release may leave out what it did not synthesise
    needed = known + synthesized if declared is None else synthesized
    cure = (
        ". If every column was drawn afresh, so that rows correspond to no record, give "
        "`corresponds=False`"
    )
    others = {} if targets is None else {"the targets": targets}
    tables = Tables.of(original, releases, own=own, others=others, cure=cure)
    for l, table in enumerate(tables.frames[1 : tables.m + 1], start=1):
        source = place_of(l, table)
        if absent := [c for c in needed if c not in table.columns]:
            raise InputError(
                f"{source} lacks column {absent[0]!r}; it has {list(table.columns)}. Leave the key "
                "out, or add the column (a `Release` may lack what was not synthesised)"
            )
        require_columns(table, [c for c in known + synthesized if c in table.columns], source)
        own_values = original[[name for name in original.columns if name in table.columns]]
        _check_rows(own_values.isna(), table, synthesized, source)
    return tables


def _check_rows(
    absent: pd.DataFrame, table: pd.DataFrame, synthesized: list[str], source: str
) -> None:
    """Rows without any value are not records where the original's ``absent`` ones make no such."""
    empty, own = (rows.all(axis=1).to_numpy() for rows in (table.isna(), absent))
    empty = empty & ~(own if len(own) == len(empty) else own.any())
    share = max(absent.mean().prod(), own.mean())  # of records without any value
    count = int(empty.sum())
    if table.shape[1] > 1 and count and bdtrc(count - 1, len(empty), share) < CHANCE:
        raise InputError(
            f"{source} has {count:,} of {len(table):,} rows in which every column is "
            "missing: these are not records; leave them out"
        )
    keys = table[synthesized].isna().to_numpy()
    if synthesized and keys.all() and not absent[synthesized].all(axis=None):
        raise InputError(
            f"{source} has no value of the synthesised keys {synthesized}: they are missing in all "
            f"{len(table):,} rows, and nothing could match; give the file that was released"
        )
