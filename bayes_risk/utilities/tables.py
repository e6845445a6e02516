"""What is compared: the original and its releases, with the same columns, coded once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns, one_of
from bayes_risk.data.microdata import MAX_LEVELS, checked_table, same_records
from bayes_risk.data.variables import check_magnitude
from bayes_risk.matching.input import listed
from bayes_risk.matching.keys import coded, source
from bayes_risk.release.release import SAME, Release

from .cells import group_edges, group_of

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

FEW = 20  # a numeric column with no more distinct values is taken for a category


class Tables(NamedTuple):
    """The original and m releases with the same columns.

    ``made`` were synthesised, ``kept`` carried over (records then correspond, row by row);
    ``replaced`` is the share of records whose values were replaced; ``left_out`` the columns of the
    original that some release lacks.
    """

    frames: tuple[pd.DataFrame, ...]
    made: tuple[str, ...]
    kept: tuple[str, ...]
    replaced: float
    left_out: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """All columns compared, in the original's order."""
        return list(self.frames[0].columns)

    @property
    def m(self) -> int:
        """Number of releases."""
        return len(self.frames) - 1


class Column(NamedTuple):
    """One column of all tables, the original first: as values, and as cells below ``size``.

    ``values``: level codes, or numbers (missing: NaN).
    """

    name: str
    made: bool
    number: bool
    values: tuple[Reals, ...]
    cells: tuple[Ints, ...]
    size: int


def tables_of(
    original: pd.DataFrame,
    release: Any,
    columns: Sequence[str] | None,
    synthesized: Sequence[str] | None,
) -> Tables:
    """Check and put side by side; see `bayes_risk.utilities.assess.utility` for what is allowed."""
    _check_original(original)
    given = listed(release.datasets if isinstance(release, Release) else release)
    wanted, left_out = _columns(original, release, given, columns)
    made = _made(wanted, release, synthesized)
    kept = [c for c in wanted if c not in made]
    part = isinstance(release, Release) and release.records is not None
    if kept or part:
        given = [same_records(original.index, t, source(l)) for l, t in enumerate(given, start=1)]
    frames = [original[wanted], *(_filled(t, original, wanted) for t in given)]
    for l, frame in enumerate(frames[1:], start=1):
        _check_kept(original, frame, kept, source(l))
    share = (
        1.0 if not isinstance(release, Release) else float(release.replaced(len(given[0])).mean())
    )
    return Tables(tuple(frames), tuple(made), tuple(kept), share, tuple(left_out))


def columns_of(
    tables: Tables, numbers: Sequence[str] | None, groups: int, missing: str
) -> list[Column]:
    """Code every column over all tables; numbers are cut at the original's quantiles."""
    one_of("missing", missing, ("error", "level"))
    counted = (
        [c for c in tables.columns if looks_continuous(tables.frames[0][c])]
        if numbers is None
        else known_columns("numbers", numbers, tables.columns)
    )
    found = []
    for name in tables.columns:
        parts = [frame[name] for frame in tables.frames]
        _check_missing(name, parts, missing)
        made = name in tables.made
        found.append(
            _number(name, parts, made, groups) if name in counted else _category(name, parts, made)
        )
    return found


def looks_continuous(column: pd.Series) -> bool:
    """A numeric column with many distinct values."""
    numeric = pd.api.types.is_numeric_dtype(column.dtype)
    return bool(numeric and not pd.api.types.is_bool_dtype(column) and column.nunique() > FEW)


def _check_original(original: pd.DataFrame) -> None:
    checked_table(original, "original")
    if len(original) < 2:
        raise InputError(f"original has {len(original)} records; give at least 2")


def _columns(
    original: pd.DataFrame,
    release: Any,
    given: list[pd.DataFrame],
    columns: Sequence[str] | None,
) -> tuple[list[str], list[str]]:
    """Columns to compare, and those of the original that some release lacks."""
    declared = set(release.synthesized) if isinstance(release, Release) else set(original.columns)
    absent = [
        c for c in original.columns if c in declared and any(c not in t.columns for t in given)
    ]
    if columns is None:
        wanted = [c for c in original.columns if c not in absent]
        if not wanted:
            raise InputError("the releases share no column with the original; see their columns")
        return wanted, absent
    wanted = known_columns("columns", columns, list(original.columns))
    for name in wanted:
        if name in absent:
            raise InputError(f"columns names {name!r}, which some release lacks; leave it out")
    if not wanted:
        raise InputError("columns is empty; name at least one")
    return wanted, []


def _made(wanted: list[str], release: Any, synthesized: Sequence[str] | None) -> list[str]:
    if isinstance(release, Release):
        if synthesized is not None and set(synthesized) != set(release.synthesized):
            raise InputError(
                f"synthesized={list(synthesized)} and the release says "
                f"{list(release.synthesized)}; leave synthesized= out"
            )
        synthesized = release.synthesized
    if synthesized is None:
        return wanted
    if isinstance(synthesized, str):
        raise InputError(f"synthesized={synthesized!r} is a single string; give a list of columns")
    made = [c for c in wanted if c in set(synthesized)]
    if not made:
        raise InputError(
            f"none of the columns compared was synthesised ({list(synthesized)}): name at least "
            "one of them in columns="
        )
    return made


def _filled(table: pd.DataFrame, original: pd.DataFrame, wanted: list[str]) -> pd.DataFrame:
    """A release with the columns that it may leave out as they were not synthesised."""
    for name in wanted:
        if list(table.columns).count(name) > 1:
            raise InputError(f"a release has column {name!r} more than once; rename or drop one")
    if not len(table):
        raise InputError("a release has no records; give files with at least one")
    shown = {c: table[c] if c in table.columns else original[c] for c in wanted}
    return pd.DataFrame(shown, index=table.index)


def _check_kept(
    original: pd.DataFrame, table: pd.DataFrame, kept: Sequence[str], where: str
) -> None:
    for name in kept:
        changed = _changed(name, original[name], table[name], where)
        if changed:
            raise InputError(
                f"column {name!r} of {where} differs from the original in {changed:,} records, but "
                "is not named as synthesised; name it in synthesized=, or give both tables the "
                "same index"
            )


def _changed(name: str, original: pd.Series, shown: pd.Series, where: str) -> int:
    if all(pd.api.types.is_numeric_dtype(c.dtype) for c in (original, shown)):
        y, z = (c.to_numpy(dtype=float, na_value=np.nan) for c in (original, shown))
        return int((~np.isclose(y, z, rtol=SAME, atol=0.0, equal_nan=True)).sum())
    codes, _ = coded(name, [original, shown], ["the original", where])
    return int((codes[0] != codes[1]).sum())


def _check_missing(name: str, parts: Sequence[pd.Series], missing: str) -> None:
    if missing == "level":
        return
    for l, part in enumerate(parts):
        count = int(part.isna().sum())
        if count:
            raise InputError(
                f"column {name!r} of {source(l)} has {count:,} missing values; fill or drop them, "
                'or pass missing="level" to make them a level of their own'
            )


def floats(name: str, parts: Sequence[pd.Series]) -> list[Reals]:
    """Numbers of a column in every table, missing ones NaN.

    Raises
    ------
    InputError
        Text or infinite values.
    """
    return [_floats(part, name, source(l)) for l, part in enumerate(parts)]


def category_codes(name: str, parts: Sequence[pd.Series]) -> tuple[list[Ints], int]:
    """Codes of a column in every table, missing being a level, and how many levels there are."""
    codes, size = coded(name, parts, [source(l) for l in range(len(parts))])
    return [np.asarray(c, dtype=np.int64) for c in codes], size


def _number(name: str, parts: Sequence[pd.Series], made: bool, groups: int) -> Column:
    values = tuple(floats(name, parts))
    if np.isnan(values[0]).all():
        raise InputError(f"column {name!r} of the original holds no number; leave it out")
    edges = group_edges(values[0], groups)
    cells = tuple(group_of(v, edges) for v in values)
    return Column(name, made, True, values, cells, len(edges) + 2)


def _floats(column: pd.Series, name: str, where: str) -> Reals:
    try:
        values = column.to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError):
        raise InputError(
            f"column {name!r} is a number in the original, and {where} holds text; store it as one "
            "type"
        ) from None
    if np.isinf(values).any():
        raise InputError(f"column {name!r} of {where} holds infinite values; mend or drop them")
    check_magnitude(values, name, where)
    return values


def _category(name: str, parts: Sequence[pd.Series], made: bool) -> Column:
    distinct = max(part.nunique() for part in parts)
    if distinct > MAX_LEVELS:
        raise InputError(
            f"column {name!r} has {distinct:,} distinct values, more than {MAX_LEVELS:,}; leave it "
            "out with columns=, cut it into categories, or name it in numbers="
        )
    cells, size = category_codes(name, parts)
    return Column(name, made, False, tuple(c.astype(float) for c in cells), tuple(cells), size)
