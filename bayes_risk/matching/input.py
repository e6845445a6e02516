"""What matching is asked: keys, coded as levels; released tables in order; the targets."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import (
    MAX_LEVELS,
    Codes,
    by_label,
    check_writable,
    numbers_rows,
    require_columns,
    rows_named,
    same_records,
)
from bayes_risk.release.release import SAME

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
            raise InputError(f"{what} names {name!r}, which is no key ({list(keys)}); {cure}")


def checked_missing(missing: str | Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    """How each key treats missing values."""
    if isinstance(missing, str):
        missing = dict.fromkeys(keys, missing)
    if not isinstance(missing, Mapping):
        raise InputError(f"missing={missing!r}; give one of {MISSING}, or a dict of column to one")
    check_named("missing", missing, keys, "leave it out")
    for name, how in missing.items():
        if how not in MISSING:
            raise InputError(f"missing[{name!r}]={how!r}; give one of {MISSING}")
    return {name: missing.get(name, "level") for name in keys}


def checked_flag(name: str, value: Any) -> bool:
    """A truth value."""
    if not isinstance(value, bool):
        raise InputError(f"{name}={value!r} is not a truth value; give True or False")
    return value


def check_unchanged(name: str, n_changed: int, n: int, where: str) -> None:
    """A column that was not synthesised is the original's in every release."""
    if n_changed:
        raise InputError(
            f"column {name!r} of {where} differs from the original in {n_changed:,} of {n:,} "
            "records, but counts as unsynthesised: if it was synthesised, name it in synthesized=; "
            "if rows stand in another order, give both tables the same index"
        )


def coded(
    name: str, columns: Sequence[pd.Series], where: Sequence[str] = ()
) -> tuple[list[Codes], int]:
    """Code one key over several tables, named by ``where``; levels are all that they hold.

    Only distinct values pass through the codec: a million records cost a hash each.
    """
    where = where or [source(l) for l in range(len(columns))]
    at: dict[int, Any] = {id(c): pd.factorize(c, use_na_sentinel=False) for c in columns}
    parts = [at[id(column)] for column in columns]
    distinct = [np.asarray(values, dtype=object) for _, values in parts]
    present = [values[~pd.isna(values)].tolist() for values in distinct]
    for column, values, place in zip(columns, present, where, strict=True):
        check_discrete(name, column, len(values), f" of {place}")
        check_kinds(name, present[0], where[0], values, place)
    code, levels = pd.factorize(np.concatenate(distinct))
    code = np.where(code < 0, len(levels), code).astype(np.int32)  # missing is the last
    of_parts = np.split(code, np.cumsum([len(values) for values in distinct])[:-1])
    codes = [of[at] for (at, _), of in zip(parts, of_parts, strict=True)]
    return codes, len(levels) + 1


def check_discrete(name: str, column: pd.Series, n_values: int, where: str) -> None:
    """Refuse numbers with too many values to be levels."""
    if pd.api.types.is_numeric_dtype(column) and n_values > MAX_LEVELS:
        raise InputError(
            f"key {name!r} ({column.dtype}){where} has {n_values:,} distinct values, more than "
            f"{MAX_LEVELS:,}, and looks continuous: cut it into the same categories in all files "
            f"(pandas.cut), or leave it out; in identification_risk match it within a radius "
            f"(radius={{{name!r}: 0.1}}); if it is a code, say so with astype('category')"
        )


def kinds(values: Iterable[Any]) -> set[str]:
    """Kinds of values, such that values of different kinds are never equal."""
    return {
        "numbers"
        if isinstance(v, Real | np.bool_)
        else "text"
        if isinstance(v, str)
        else f"{type(v).__name__} values"
        for v in values
    }


def check_kinds(name: str, first: Any, where: str, second: Any, there: str) -> None:
    """Refuse values of two tables that could never be equal."""
    known, found = kinds(first), kinds(second)
    if known and found and not known & found:
        raise InputError(
            f"key {name!r} holds {' and '.join(sorted(known))} in {where} and "
            f"{' and '.join(sorted(found))} in {there}, so nothing could ever match; store it as "
            "one type"
        )


def source(l: int) -> str:
    """Name table l, the original being table 0."""
    return "the original" if l == 0 else f"release {l}"


def ranked(values: npt.NDArray[Any]) -> tuple[Ints, int]:
    """Rank of each number from 1 up, those within `SAME` of the next sharing one; missing: 0.

    And the number of ranks, 0 included. Cost: sorting of distinct numbers.
    """
    where, distinct = pd.factorize(values)  # -1: missing
    order = np.argsort(distinct)
    level = np.arange(1, len(distinct) + 1)
    if distinct.dtype.kind == "f" and len(distinct):
        low, high = distinct[order][:-1], distinct[order][1:]
        with np.errstate(over="ignore", invalid="ignore"):
            new = high - low > SAME * np.minimum(np.abs(low), np.abs(high))
        level = 1 + np.cumsum([0, *new])
    rank = np.zeros(len(distinct) + 1, dtype=np.int64)  # the last is that of -1
    rank[order] = level
    return rank[where], int(rank.max()) + 1


def codes_of(name: str, parts: Sequence[pd.Series]) -> tuple[Ints, int] | None:
    """Codes below a size, 0 if missing, of columns one below the other; None: not comparable."""
    if all(isinstance(p.dtype, np.dtype) and p.dtype.kind in "iu" for p in parts):
        return ranked(np.concatenate([p.to_numpy() for p in parts]))
    try:
        if any(pd.api.types.is_numeric_dtype(p.dtype) for p in parts):
            numbers = [p.to_numpy(dtype=float, na_value=np.nan) for p in parts]
            return ranked(np.concatenate(numbers))
        codes, size = coded(name, parts)
    except (InputError, TypeError, ValueError):  # text here, numbers there
        return None
    return (np.concatenate(codes).astype(np.int64) + 1) % size, size  # missing is the last


@runtime_checkable
class Released(Protocol):
    """What is asked of a release: its m tables, and which columns were synthesised."""

    @property
    def datasets(self) -> Sequence[pd.DataFrame]:
        """The m released tables."""

    @property
    def synthesized(self) -> Sequence[str]:
        """Names of the synthesised columns."""


class Targets(NamedTuple):
    """Whom the intruder looks for: their key values, and their records (-1: not in the file)."""

    frame: pd.DataFrame
    place: Ints


def checked_targets(original: pd.DataFrame, targets: Any, keys: Sequence[str]) -> Targets:
    """The targets: all records, some of them, or rows of another table."""
    if targets is None:
        return Targets(original, np.arange(len(original)))
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
    return Targets(original.iloc[place], place)


def _from_outside(original: pd.DataFrame, targets: pd.DataFrame, keys: Sequence[str]) -> Targets:
    require_columns(targets, keys, "targets")
    if not len(targets):
        raise InputError("targets has no rows; give at least one target")
    if not targets.index.is_unique:
        raise InputError(
            "the index of targets names some people twice; give each their own label, that of "
            "their record in the original where they have one"
        )
    if numbers_rows(targets.index) and numbers_rows(original.index):
        held = original.iloc[: len(targets)]
        if any(not targets[c].astype(object).equals(held[c].astype(object)) for c in keys):
            raise InputError(
                "targets and the original merely number their rows, and the rows of equal numbers "
                "differ, so that nobody can tell which targets are in the file; give both an index "
                "of labels, those of other people being none of the original's"
            )
    return Targets(targets, original.index.get_indexer(targets.index))


def reason_key(reason: Any, original: pd.DataFrame, sought: Targets) -> list[Key]:
    """Whether a record was chosen for synthesis, as a key that is known of target and record."""
    if reason is None:
        return []
    if callable(reason):
        try:
            chosen = [reason(frame) for frame in (sought.frame, original)]
        except KeyError as error:
            raise InputError(
                f"reason looks at column {error.args[0]!r}, which some table lacks; give targets "
                "every column that the rule goes by"
            ) from None
        return [Key(_mask(chosen[0], sought.frame), _mask(chosen[1], original), 2)]
    if isinstance(reason, pd.Series):
        reason = by_label(reason, original.index, "reason").to_numpy()
    of_record = _mask(reason, original)
    if (sought.place < 0).any():
        raise InputError(
            "reason is a mask of the original's records, and some targets are not among them; give "
            "a function of a DataFrame, which tells of everybody whether they would be chosen"
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
            "(reset_index(drop=True))"
        )
    known = known_columns("known", known, list(original.columns))
    synthesized = known_columns("synthesized", synthesized, list(original.columns))
    both = [column for column in known if column in synthesized]
    if both:
        raise InputError(
            f"{both} stand under both known and synthesized; a column is either synthesised or not"
        )
    if not known and not synthesized:
        raise InputError("known and synthesized are both empty; name at least one key column")
    check_writable("key", [*known, *synthesized])
    check_writable("record label", original.index, told=False)
    return known, synthesized


def rows_correspond(original: pd.DataFrame, releases: Any, given: Any, **asked: bool) -> bool:
    """Whether rows are the original's records: as is said, else where there are as many of them.

    Else what is ``asked`` of records is refused.
    """
    n, sizes = len(original), [len(table) for table in listed(releases)]
    other = next((l for l, size in enumerate(sizes, start=1) if size != n), 0)
    if not other if given is None else checked_flag("corresponds", given):
        return True
    said = f"release {other} has {sizes[other - 1]} records and the original {n}"
    for what in (name for name, is_asked in asked.items() if is_asked):
        raise InputError(
            f"{'corresponds=False' if given is False else said}: rows are nobody's, and {what} is "
            "of records; leave it out, name columns that were drawn afresh under synthesized=, or "
            "give the original's records, one row each"
        )
    return False


def release_tables(
    original: pd.DataFrame, releases: Any, known: list[str], synthesized: list[str], own: bool
) -> dict[str, pd.DataFrame]:
    """The m released tables by name, every key there exactly once; ``own``: in its order."""
    declared = declared_columns(releases)
    for column in known + synthesized:
        if declared is not None and (column in synthesized) != (column in declared):
            was = "which the release synthesised; put it under synthesized="
            if column in synthesized:
                was = (
                    f"which the release did not synthesise (it did {declared}); put it under known="
                )
            raise InputError(
                f"{'known' if column in known else 'synthesized'} names {column!r}, {was}"
            )
    # a Release may leave out what it did not synthesise
    needed = known + synthesized if declared is None else synthesized
    require_columns(original, known + synthesized, source(0))
    found = {}
    cure = ". If every column was drawn afresh, and rows are nobody's, say corresponds=False"
    for l, table in enumerate(read_rows(original, releases, own, cure)[0], start=1):
        if absent := [c for c in needed if c not in table.columns]:
            raise InputError(
                f"release {l} lacks column {absent[0]!r}; it has {list(table.columns)}. Leave the "
                f"key out, or wrap files that hold only the synthesised columns in a Release"
            )
        require_columns(table, [c for c in known + synthesized if c in table.columns], source(l))
        _check_rows(original, table, synthesized, source(l))
        found[source(l)] = table
    return found


def read_rows(
    original: pd.DataFrame, releases: Any, own: bool | None, cure: str = ""
) -> tuple[list[pd.DataFrame], list[bool]]:
    """The released tables, and whether rows are the original's records, then in its order.

    ``own``: they must be, or are not; by default where there are as many, of the same labels.
    """
    found, corresponds = [], []
    for l, table in enumerate(listed(releases), start=1):
        if not len(table):
            raise InputError(f"release {l} has no records; give files with at least one")
        there = own is not False
        try:
            found.append(same_records(original.index, table, source(l)) if there else table)
        except InputError as error:
            if own:
                raise InputError(f"{error}{cure}") from None
            there = False
            found.append(table)
        corresponds.append(there)
    return found, corresponds


def declared_columns(releases: Any) -> list[str] | None:
    """Which columns a release says were synthesised; None: bare tables."""
    if isinstance(releases, pd.DataFrame) or not isinstance(releases, Released):
        return None
    return list(releases.synthesized)


def _check_rows(
    original: pd.DataFrame, table: pd.DataFrame, synthesized: list[str], source: str
) -> None:
    """Rows without any value are no records: what fills a file up, or was never there."""
    columns = [name for name in original.columns if name in table.columns]
    empty, own = (rows.isna().all(axis=1).to_numpy() for rows in (table, original[columns]))
    empty = empty & ~(own if len(own) == len(empty) else own.any())
    if table.shape[1] > 1 and empty.any():
        raise InputError(
            f"{source} has {int(empty.sum()):,} of {len(table):,} rows in which every column is "
            "missing: these are no records; leave them out"
        )
    keys = table[synthesized].isna().to_numpy()
    if synthesized and keys.all() and original[synthesized].notna().any(axis=None):
        raise InputError(
            f"{source} has no value of the synthesised keys {synthesized}: they are missing in all "
            f"{len(table):,} rows, and nothing could match; give the file that was released"
        )


def listed(releases: Any) -> list[pd.DataFrame]:
    """The tables of a release; one table or several, as a list."""
    tables = releases if declared_columns(releases) is None else releases.datasets
    tables = [tables] if isinstance(tables, pd.DataFrame) else tables
    if not isinstance(tables, Sequence) or isinstance(tables, str):
        raise InputError(
            f"releases is a {type(releases).__name__}; give a Release, a DataFrame or a list of "
            f"DataFrames"
        )
    if not len(tables):
        raise InputError("releases is empty (m = 0); give at least one released file")
    for l, table in enumerate(tables, start=1):
        require_columns(table, (), source(l))
    return list(tables)
