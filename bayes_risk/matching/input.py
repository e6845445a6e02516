"""What matching is asked: keys, released tables in the original's order, and the targets."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns
from bayes_risk.data.microdata import by_label, check_writable, numbers_rows, same_records

from .keys import Key, source

Ids = npt.NDArray[np.int64]


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
    place: Ids

    @property
    def labels(self) -> pd.Index:
        """Labels of the targets."""
        return self.frame.index


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
    place = _chosen(original.index, targets)
    if len(np.unique(place[place >= 0])) < (place >= 0).sum():
        raise InputError("targets names some records twice; name each of them once")
    if (place < 0).any():
        raise InputError(
            f"{int((place < 0).sum())} of the {len(place)} targets are not in the original; give "
            "labels of its index, or a DataFrame with the keys of people outside it"
        )
    if not len(place):
        raise InputError("targets selects no record; name at least one")
    return Targets(original.iloc[place], place)


def _chosen(index: pd.Index, targets: Any) -> Ids:
    """Places of the targets in the original, by mask or label; -1: there is none."""
    targets = _in_order("targets", targets, index)
    labels = pd.Index(targets if isinstance(targets, pd.Index | pd.MultiIndex) else list(targets))
    if not len(labels) or not pd.api.types.is_bool_dtype(labels) or index.dtype == bool:
        return index.get_indexer(labels)
    if len(labels) != len(index):
        raise InputError(
            f"targets is a mask of {len(labels)} values; the original has {len(index)} records: "
            "give one for each"
        )
    return np.flatnonzero(labels)


def _in_order(name: str, mask: Any, index: pd.Index) -> Any:
    """A mask that is a Series goes by its labels, which must be the original's."""
    if not isinstance(mask, pd.Series) or not pd.api.types.is_bool_dtype(mask.dtype):
        return mask
    return by_label(mask, index, name).to_numpy()


def _from_outside(original: pd.DataFrame, targets: pd.DataFrame, keys: Sequence[str]) -> Targets:
    absent = [name for name in keys if name not in targets.columns]
    if absent:
        raise InputError(
            f"targets lacks key {absent[0]!r}; it has {list(targets.columns)}. Give every key that "
            "the intruder knows of them"
        )
    if not len(targets):
        raise InputError("targets has no rows; give at least one target")
    repeated = [name for name in keys if list(targets.columns).count(name) > 1]
    if repeated:
        raise InputError(f"targets has column {repeated[0]!r} more than once; rename or drop one")
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
        return [Key(_rule(reason, sought.frame), _rule(reason, original), 2)]
    chosen = np.asarray(_in_order("reason", reason, original.index))
    if chosen.dtype != bool or chosen.shape != (len(original),):
        raise InputError(
            f"reason is {type(reason).__name__} of shape {np.shape(reason)}; give a mask of "
            f"{len(original)} truth values, or a function of a DataFrame that makes one"
        )
    if (sought.place < 0).any():
        raise InputError(
            "reason is a mask of the original's records, and some targets are not among them; give "
            "a function of a DataFrame, which tells of everybody whether they would be chosen"
        )
    return [Key(chosen[sought.place].astype(np.int64), chosen.astype(np.int64), 2)]


def _rule(reason: Any, frame: pd.DataFrame) -> Ids:
    try:
        chosen = np.asarray(reason(frame))
    except KeyError as error:
        raise InputError(
            f"reason looks at column {error.args[0]!r}, which some table lacks; give targets every "
            "column that the rule goes by"
        ) from None
    if chosen.dtype != bool or chosen.shape != (len(frame),):
        raise InputError(
            f"reason gives {chosen.dtype} values of shape {chosen.shape} for {len(frame)} rows; "
            "let it give one truth value for each"
        )
    return chosen.astype(np.int64)


def checked_keys(
    original: pd.DataFrame, known: Sequence[str], synthesized: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Both lists of keys, which the original has, and of each record once."""
    if not isinstance(original, pd.DataFrame):
        raise InputError(f"original is a {type(original).__name__}; give a pandas DataFrame")
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


def release_tables(
    original: pd.DataFrame, releases: Any, known: list[str], synthesized: list[str]
) -> list[pd.DataFrame]:
    """Put the m released tables in the original's order, every key there exactly once."""
    declared = not isinstance(releases, pd.DataFrame) and isinstance(releases, Released)
    if declared:
        _agree(list(releases.synthesized), known, synthesized)
    tables = listed(releases.datasets if declared else releases)
    ordered = []
    for l, table in enumerate(tables, start=1):
        absent = [c for c in known + synthesized if c not in table.columns]
        if declared:  # a Release may leave out what it did not synthesise
            absent = [c for c in absent if c in synthesized]
        if absent:
            raise InputError(
                f"release {l} lacks column {absent[0]!r}; it has {list(table.columns)}. Leave the "
                f"key out, or wrap files that hold only the synthesised columns in a Release"
            )
        ordered.append(same_records(original.index, table, f"release {l}"))
    _columns_once([original, *ordered], known + synthesized)
    for l, table in enumerate(ordered, start=1):
        _check_rows(original, table, synthesized, f"release {l}")
    return ordered


def _check_rows(
    original: pd.DataFrame, table: pd.DataFrame, synthesized: list[str], source: str
) -> None:
    """Rows without any value are no records: what fills a file up, or was never there."""
    columns = [name for name in original.columns if name in table.columns]
    empty = table.isna().all(axis=1) & original[columns].notna().any(axis=1)
    if table.shape[1] > 1 and empty.any():
        raise InputError(
            f"{source} has {int(empty.sum()):,} of {len(table):,} rows in which every column is "
            "missing: these are no records, and a file must hold the original's, one row each. "
            "Leave them out; if records are then fewer, the file is no release of these records"
        )
    keys = table[synthesized].isna().to_numpy()
    if synthesized and keys.all() and original[synthesized].notna().any(axis=None):
        raise InputError(
            f"{source} has no value of the synthesised keys {synthesized}: they are missing in all "
            f"{len(table):,} rows, and nothing could match; give the file that was released"
        )


def listed(releases: Any) -> list[pd.DataFrame]:
    """One table or several, as a list."""
    tables = [releases] if isinstance(releases, pd.DataFrame) else releases
    if not isinstance(tables, Sequence) or isinstance(tables, str):
        raise InputError(
            f"releases is a {type(releases).__name__}; give a Release, a DataFrame or a list of "
            f"DataFrames"
        )
    if not len(tables):
        raise InputError("releases is empty (m = 0); give at least one released file")
    for l, table in enumerate(tables, start=1):
        if not isinstance(table, pd.DataFrame):
            raise InputError(f"release {l} is a {type(table).__name__}; give a pandas DataFrame")
    return list(tables)


def _agree(declared: list[str], known: list[str], synthesized: list[str]) -> None:
    """Check that the keys are listed as the release says they were synthesised."""
    for column in synthesized:
        if column not in declared:
            raise InputError(
                f"synthesized names {column!r}, which the release did not synthesise (it did "
                f"{declared}); put it under known="
            )
    for column in known:
        if column in declared:
            raise InputError(
                f"known names {column!r}, which the release synthesised; put it under synthesized="
            )


def _columns_once(tables: Sequence[pd.DataFrame], keys: Sequence[str]) -> None:
    for l, table in enumerate(tables):
        repeated = set(table.columns[table.columns.duplicated()])
        for column in keys:
            if column in repeated:
                raise InputError(
                    f"{source(l)} has column {column!r} more than once; rename or drop one"
                )
