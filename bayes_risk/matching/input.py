"""What matching is asked: keys, coded as levels; released tables in order; the targets."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import bdtrc

from bayes_risk._core.arrays import Ints
from bayes_risk._core.errors import InputError, place_of
from bayes_risk._core.validate import known_columns
from bayes_risk.data.equality import coded
from bayes_risk.data.microdata import (
    MAX_LEVELS,
    Codes,
    by_label,
    check_writable,
    numbers_rows,
    require_columns,
    rows_named,
)
from bayes_risk.data.precision import CHANCE
from bayes_risk.data.variables import check_cells
from bayes_risk.release.tables import Tables, as_tables, declared_columns

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


def persons_sought(sought: "MatchTargets", tables: Tables) -> Ints | None:
    """Each target's person, (n_t,), numbered as in the original, others after them."""
    name, of_record, known = str(tables.person), tables.of_person(0), sought.place >= 0
    if of_record is None:
        return None
    if not sought.outside or (name not in sought.frame and known.all()):
        return of_record[sought.place]
    if name not in sought.frame:
        raise InputError(
            f"targets has no column {name!r}, and some of its rows are none of the original's, so "
            "that it is unknown whose they are; give it that column"
        )
    check_cells(sought.frame[name], name, "targets")
    columns = [tables.frames[0][name], sought.frame[name]]
    found = coded(name, columns, ["the original", "targets"])
    if found.refusal:
        raise InputError(found.refusal)
    person = np.arange(found.size) + tables.n_persons  # of each code
    person[found.codes[0]] = of_record
    persons = np.asarray(person[found.codes[1]])
    if not found.codes[1].all():
        raise InputError(
            "person", name, "has missing values in targets; give each target its person's number"
        )
    if (persons[known] != of_record[sought.place[known]]).any():
        raise InputError(
            f"targets and the original name other persons ({name}) under the same label; give "
            "records of the original their own label and person"
        )
    return persons


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


class MatchTargets(NamedTuple):
    """Whom the intruder looks for: their key values, and their records (-1: not in the file).

    ``outside``: rows of a table of their own.
    """

    frame: pd.DataFrame
    place: Ints
    outside: bool = False


def checked_targets(original: pd.DataFrame, targets: Any, keys: Sequence[str]) -> MatchTargets:
    """The targets: all records, some of them, or rows of another table."""
    if targets is None:
        return MatchTargets(original, np.arange(len(original)))
    if isinstance(targets, pd.DataFrame):
        return _from_outside(original, targets, keys)
    if isinstance(targets, str) or not isinstance(targets, Collection | np.ndarray | pd.Series):
        raise InputError(
            f"targets is a {type(targets).__name__}; give a list of labels, a mask of the records, "
            "or a DataFrame"
        )
    place = rows_named(targets, original.index, "targets")
    if len(np.unique(place)) < len(place):
        raise InputError("targets names some records twice; name each of them once")
    return MatchTargets(original.iloc[place], place)


def _from_outside(
    original: pd.DataFrame, targets: pd.DataFrame, keys: Sequence[str]
) -> MatchTargets:
    require_columns(targets, keys, "targets")
    if not len(targets):
        raise InputError("targets has no rows; give at least one target")
    if not targets.index.is_unique:
        raise InputError(
            "the index of targets names some people twice; give each their own label, that of "
            "their record in the original where they have one"
        )
    if numbers_rows(targets.index) and numbers_rows(original.index):
        first_rows = original.iloc[: len(targets)]
        if any(not targets[c].astype(object).equals(first_rows[c].astype(object)) for c in keys):
            raise InputError(
                "targets and the original merely number their rows, and the rows of equal numbers "
                "differ, so that it is unknown which targets are in the file; give both an index "
                "of labels, those of other people being none of the original's"
            )
    place = original.index.get_indexer(targets.index)
    return MatchTargets(targets, place, outside=True)


def reason_key(reason: Any, original: pd.DataFrame, sought: MatchTargets) -> list[Key]:
    """Whether a record was chosen for synthesis, as a key that is known of target and record."""
    if reason is None:
        return []
    if callable(reason):
        try:
            chosen = [reason(frame) for frame in (sought.frame, original)]
        except KeyError as error:
            named = [c for c in (*original.columns, *sought.frame.columns) if c in error.args]
            raise InputError(
                f"reason looks at {f'column {named[0]!r}' if named else 'a column or a value'}, "
                "which some table lacks; give targets every column that the rule goes by"
            ) from None
        return [Key(_mask(chosen[0], sought.frame), _mask(chosen[1], original), 2)]
    if isinstance(reason, pd.Series):
        reason = by_label(reason, original.index, "reason").to_numpy()
    of_record = _mask(reason, original)
    if (sought.place < 0).any():
        raise InputError(
            "reason is a mask of the original's records, and some targets are not among them; give "
            "a function of a DataFrame, which states for every row whether it would be chosen"
        )
    return [Key(of_record[sought.place], of_record, 2)]


def _mask(given: Any, frame: pd.DataFrame) -> Ints:
    chosen = np.asarray(given)
    if chosen.dtype != bool or chosen.shape != (len(frame),):
        raise InputError(
            f"reason gives {chosen.dtype} values of shape {chosen.shape} for {len(frame)} rows; "
            "give one truth value for each, or a function of a DataFrame that makes them"
        )
    return chosen.astype(np.int64)


def checked_keys(
    original: pd.DataFrame, known: Sequence[str], synthesized: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Both lists of keys, which the original has, and of each record once."""
    require_columns(original, (), "original")
    if not len(original):
        raise InputError("original has no records; give at least one")
    if not original.index.is_unique:
        raise InputError(
            "the index of the original names some records twice; give each record its own label "
            "(`df.reset_index`)"
        )
    known = known_columns("known", known, original)
    synthesized = known_columns("synthesized", synthesized, original)
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
    check_writable("record label", original.index, show_name=False)
    return known, synthesized


def rows_correspond(original: pd.DataFrame, releases: Any, given: Any, **needs: bool) -> bool:
    """Whether rows are the original's records, as ``given``, or as many; else refuse ``needs``."""
    n, sizes = len(original), [len(table) for table in as_tables(releases)]
    other = next((l for l, size in enumerate(sizes, start=1) if size != n), 0)
    if not other if given is None else checked_flag("corresponds", given):
        return True
    tables = [None, *as_tables(releases)]
    why = f"{place_of(other, tables[other])} has {sizes[other - 1]} records and the original {n}"
    why = "`corresponds` is false" if given is False else why
    for what in (name for name, is_needed in needs.items() if is_needed):
        raise InputError(
            what,
            f"is of records, and {why}, so that rows correspond to none; leave it out, name "
            "columns that were drawn afresh under `synthesized`, or give the original's records, "
            "one row each",
        )
    return False


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
        _check_rows(original, table, synthesized, source)
    return tables


def _check_rows(
    original: pd.DataFrame, table: pd.DataFrame, synthesized: list[str], source: str
) -> None:
    """Rows without any value are not records where the original's missing values make no such."""
    columns = [name for name in original.columns if name in table.columns]
    empty, own = (rows.isna().all(axis=1).to_numpy() for rows in (table, original[columns]))
    empty = empty & ~(own if len(own) == len(empty) else own.any())
    share = max(original[columns].isna().mean().prod(), own.mean())  # of records without any value
    count = int(empty.sum())
    if table.shape[1] > 1 and count and bdtrc(count - 1, len(empty), share) < CHANCE:
        raise InputError(
            f"{source} has {count:,} of {len(table):,} rows in which every column is "
            "missing: these are not records; leave them out"
        )
    keys = table[synthesized].isna().to_numpy()
    if synthesized and keys.all() and original[synthesized].notna().any(axis=None):
        raise InputError(
            f"{source} has no value of the synthesised keys {synthesized}: they are missing in all "
            f"{len(table):,} rows, and nothing could match; give the file that was released"
        )
