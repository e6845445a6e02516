"""The confidential table: categories as codes, numbers as themselves, and back again.

Levels are the state space of the intruder's problem, so they are fixed here, once: the declared
categories (also those no record has), or the union of what the original and the releases show. The
two kinds of variable stand in `variables.py`.
"""

import re
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._compat import DIVISION_SLASH, plain_name
from bayes_risk._core.arrays import Flags, Ints, scalar
from bayes_risk._core.disjoint_boxes import guesses_in, rows_in
from bayes_risk._core.errors import InputError, of_type, place_of
from bayes_risk._core.shown import Shown
from bayes_risk._core.validate import known_columns, one_of

from .variables import FOUND, check_cells, is_numeric, mapped
from .variables import Number as Number
from .variables import Variable as Variable

MAX_LEVELS = 1_000
MANY_NUMBERS, MANY_LEVELS = 50, 100  # of a category: more are said
_NOT_WRITABLE = re.compile(r"[\0\ud800-\udfff]")

Codes = npt.NDArray[Any]  # int32; float64 where some variable is a number
Rows = TypeVar("Rows", pd.DataFrame, pd.Series)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ZeroRegion:
    """Impossible combinations, coded against a table."""

    # shape (p + 1,): where the levels of each variable begin in the long row of levels
    starts: Ints
    boxes: Flags  # shape (B, D): disjoint boxes: the levels that each holds
    rules: Flags  # shape (R, D): the rules as they were given, which may overlap
    words: tuple[str, ...]  # R of them, the rules for people

    def holds(self, codes: npt.NDArray[Any]) -> Flags:
        """Which coded records (..., p) are impossible, shape (...)."""
        rows = codes.astype(np.int64) + self.starts[:-1]
        return rows_in(self.boxes, rows.reshape(-1, rows.shape[-1])).reshape(rows.shape[:-1])

    def holds_guesses(
        self,
        profiles: npt.NDArray[Any],
        columns: npt.NDArray[np.integer],
        codes: npt.NDArray[Any],
        record: npt.NDArray[np.integer],
    ) -> Flags:
        """Which guesses (G, U, q) for the columns of profiles (U, p) are impossible, (G, U).

        ``record`` (U,): rows of the targets, whose neighbours nothing here depends on.
        """
        begin = self.starts[:-1]
        guesses = codes.astype(np.int64) + begin[columns]
        return guesses_in(self.boxes, profiles.astype(np.int64) + begin, columns, guesses)

    def refuse(self, codes: npt.NDArray[Any], source: str) -> None:
        """Stop if a table (n, p) holds impossible records, and say how many by which rule."""
        if not self.holds(codes).any():
            return
        rows = codes.astype(np.int64) + self.starts[:-1]
        excluded = np.array([rows_in(rule[None], rows).sum() for rule in self.rules])
        worst = int(excluded.argmax())
        raise InputError(
            "impossible",
            f"excludes {self.holds(codes).sum()} records of {source} by "
            f"{(excluded > 0).sum()} of its rules: rule {worst + 1} ({self.words[worst]}) excludes "
            f"{excluded[worst]}; correct the rules or the records",
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Microdata(Shown):
    """A confidential table, coded: categories by the number of their level, numbers as they are.

    Attributes
    ----------
    codes : ndarray, shape (n, p)
        Level codes, ``0 .. d_j - 1`` in column ``j``, int32; a number is its own code, and makes
        all of them float64.
    variables, index : tuple of Variable or Number, length p, pandas.Index, length n
        Columns, and labels of the records, as given.
    impossible : ZeroRegion, optional
        Combinations that no record can have.
    """

    codes: Codes
    variables: tuple[Variable | Number, ...]
    index: pd.Index
    impossible: ZeroRegion | None = None

    @classmethod
    def from_frame(
        cls,
        df: pd.DataFrame,
        *,
        columns: Sequence[str] | None = None,
        numbers: Sequence[str] = (),
        levels: Mapping[str, Iterable[Hashable] | str] | None = None,
        releases: Sequence[pd.DataFrame] = (),
        missing: str = "error",
        missing_numbers: Mapping[str, float] | None = None,
    ) -> "Microdata":
        """Code a table. The table itself is never changed.

        Parameters
        ----------
        df : DataFrame of n records
            Columns of dtype ``category``, ``str``, ``object``, ``bool``, integer or (with few
            distinct values) float.
        columns : list of str, optional
            Which columns to keep, in this order; all of them by default.
        numbers : list of str
            Columns that are numbers; all others are categories.
        levels : mapping of column to values or "held", optional
            Declared levels. They are kept even when no record has them. A ``category`` column
            declares its categories by itself. ``"held"``: the values that occur.
        releases : list of DataFrame, optional
            Further tables whose levels count too (union over the original and all of them).
        missing : {"error", "level"}
            Missing values are an error, or one further level of the categories that have any.
            Numbers may not be missing, but for those of ``missing_numbers``.
        missing_numbers : mapping of column to number, optional
            What stands for a missing value of a number, in the codes and among guesses: a number
            that no record has.

        Raises
        ------
        InputError
            Missing or duplicate columns, fewer than two records, one-level or continuous columns,
            missing values without ``missing="level"``; numbers stored as text, missing or infinite.

        Examples
        --------
        >>> import pandas as pd
        >>> data = Microdata.from_frame(pd.DataFrame({"sex": ["f", "m", "f"]}))
        >>> data.codes.ravel().tolist(), data.n_levels.tolist()
        ([0, 1, 0], [2])
        """
        one_of("missing", missing, ("error", "level"))
        names = _checked_columns(df, columns)
        declared = mapped("levels", levels, "a list of values")
        known_columns("levels", declared, names)
        counted = set(known_columns("numbers", numbers, names))
        tables, stand_ins = [df, *releases], mapped("missing_numbers", missing_numbers, "a number")
        known_columns("missing_numbers", stand_ins, list(counted))
        variables = tuple(
            Number.of(df[name], name, stand_ins.get(name))
            if name in counted
            else _variable(name, tables, declared.get(name), missing)
            for name in names
        )
        codes = np.column_stack(
            [v.encode(df[v.name], place_of(0, df), own=True) for v in variables]
        )
        return cls(codes=codes, variables=variables, index=df.index)

    def __repr__(self) -> str:
        kinds = [f"{v.name} ({v.n_levels or 'number'})" for v in self.variables]
        return f"Microdata: {len(self.codes):,} records; levels of columns:\n  {', '.join(kinds)}"

    @property
    def columns(self) -> list[str]:
        """Names of the variables."""
        return [v.name for v in self.variables]

    @property
    def n_levels(self) -> Ints:
        """Number of levels d_j of each variable, shape (p,); 0 for numbers."""
        return np.array([v.n_levels for v in self.variables], dtype=np.int64)

    @property
    def numbers(self) -> list[str]:
        """Names of the variables that are numbers."""
        return [v.name for v in self.variables if isinstance(v, Number)]

    def encode(self, df: pd.DataFrame, source: str, columns: Sequence[str] | None = None) -> Codes:
        """Codes of another table with the same variables, shape (n', p)."""
        chosen = self.columns if columns is None else list(columns)
        require_columns(df, chosen, source)
        by_name = {v.name: v for v in self.variables}
        return np.column_stack([by_name[c].encode(df[c], source) for c in chosen])

    def decode(self, codes: Codes, index: pd.Index | None = None) -> pd.DataFrame:
        """Table of codes, each column stored as in the original."""
        labels = self.index if index is None else index
        columns = {v.name: v.decode(codes[:, j], labels) for j, v in enumerate(self.variables)}
        return pd.DataFrame(columns, index=labels)

    def mask(self, records: Any) -> Flags:
        """Which records a mask or a list of labels selects, shape (n,); all of them by default."""
        chosen = np.zeros(len(self.index), dtype=bool)
        chosen[... if records is None else rows_named(records, self.index, "records")] = True
        return chosen


def rows_named(given: Any, index: pd.Index, name: str) -> Ints:
    """Rows that a mask selects (a Series by its labels), or labels in their order; one at least."""
    if isinstance(given, pd.Series) and pd.api.types.is_bool_dtype(given.dtype):
        given = by_label(given, index, name)
    listed = isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)
    if not listed:
        raise InputError(name, f"cannot be {of_type(given)}; give labels, or a mask")
    labels = pd.Index(np.ravel(given) if hasattr(given, "dtype") else list(given))
    if pd.api.types.is_bool_dtype(labels) and index.dtype != bool:
        if len(labels) != len(index):
            raise InputError(name, f"has {len(labels)} entries; the table has {len(index)} records")
        rows = np.flatnonzero(labels)
    else:
        try:
            rows = index.get_indexer(labels)
        except TypeError:
            raise InputError(name, "holds lists; give one list of labels") from None
        if (rows < 0).any():
            kind = "text" if len(index) and isinstance(index[0], str) else "numbers"
            raise InputError(
                name,
                f"names {labels.tolist()[int(np.argmax(rows < 0))]!r}, which is not a record "
                f"label; the labels are {kind}, those of the index, or the "
                "numbers of the rows from 0",
            )
    if not len(rows):
        raise InputError(name, "selects no record; select at least one, or leave it out")
    return rows.astype(np.int64)


def same_records(original: pd.Index, table: pd.DataFrame, source: str) -> pd.DataFrame:
    """Return `table` in the order of the original's records; see `by_label`."""
    if len(table) != len(original):
        raise InputError(
            f"{source} has {len(table)} records and the original {len(original)}; a release must "
            f"hold the original's records, one row each"
        )
    return by_label(table, original, source)


def by_label(given: Rows, original: pd.Index, source: str) -> Rows:
    """Return the rows of a table, or of a Series, in the order of the original's records.

    Equal indexes pass; the same labels in another order are put in order; anything else is an
    error. So are labels in another order where one side has none but the numbers of its rows: those
    of ``df.sort_values(...)`` and of a file that it was written to do not tell of the same records.
    """
    if given.index.equals(original):
        return given
    if (
        len(given) != len(original)
        or given.index.nlevels != original.nlevels
        or not (given.index.is_unique and original.is_unique)
        or not original.isin(given.index).all()
    ):
        raise InputError(
            f"the index of {source} does not name the original's records; give both the same "
            "`index`, or none if their rows are in the same order (`df.reset_index`)"
        )
    if numbers_rows(given.index) != numbers_rows(original):
        raise InputError(
            f"the index of {source} and that of the original hold the same numbers in another "
            "order, and one of them merely numbers the rows; give neither an `index` if their rows "
            "are in the same order (`df.reset_index`), or sort both by it (`df.sort_index`)"
        )
    return given.loc[original]


def numbers_rows(index: pd.Index) -> bool:
    """Whether this is what pandas gives to rows without labels: 0, 1, 2, ..., and no name."""
    counted = isinstance(index, pd.RangeIndex) and (index.start, index.step) == (0, 1)
    return counted and index.name is None


def checked_table(df: pd.DataFrame, source: str = "the table") -> pd.DataFrame:
    """Return what is a DataFrame that names each column once."""
    require_columns(df, (), source)
    repeated = sorted({str(c) for c in df.columns[df.columns.duplicated()]})
    if repeated:
        raise InputError(f"{source} has columns {repeated} more than once; rename or drop one")
    return df


def check_writable(what: str, names: Iterable[Any], *, show_name: bool = True) -> None:
    """Refuse text that no file of results can hold: NUL characters, halves of surrogate pairs."""
    for place, name in enumerate(names, start=1):
        if isinstance(name, str) and _NOT_WRITABLE.search(name):
            shown = f"{what} {name!r}" if show_name else f"{what} number {place}"
            raise InputError(
                f"{shown} holds a NUL character or half of a surrogate pair, which files of "
                "results cannot; give it another name"
            )


def _checked_columns(df: pd.DataFrame, columns: Sequence[str] | None) -> list[str]:
    checked_table(df)
    if len(df) < 2:
        raise InputError(f"the table has {len(df)} records; give at least 2")
    if not df.index.is_unique:
        raise InputError(
            "the `index` names some records twice; give each record its own label "
            "(`df.reset_index`)"
        )
    names = list(df.columns)
    names = names if columns is None else known_columns("columns", columns, names)
    if not names:
        raise InputError("the table has no columns; give at least one")
    for name in names:
        if not isinstance(name, str):
            raise InputError(
                f"column {name!r} is named by a {type(name).__name__}; give columns names that are "
                "text: df.rename(columns=str)"
            )
        if DIVISION_SLASH in name and plain_name(name) in names:
            raise InputError(
                f"columns {plain_name(name)!r} and {name!r} differ in the kind of their slash "
                "alone, which records of draws cannot distinguish; rename one"
            )
    check_writable("column", names)
    if not pd.api.types.is_numeric_dtype(df.index):
        check_writable("record label", df.index, show_name=False)
    return names


def check_records(df: Any, source: str) -> None:
    """Check that this is a DataFrame of records, each with a label of its own."""
    require_columns(df, (), source)
    if not len(df):
        raise InputError(f"{source} has no records; give at least one")
    if not df.index.is_unique:
        raise InputError(
            f"the index of the {source} names some records twice; give each record its own label "
            "(`df.reset_index`)"
        )
    check_writable("record label", df.index, show_name=False)


def require_columns(df: Any, columns: Sequence[Any], source: str) -> None:
    """Check that this is a DataFrame, that columns are there once, and cells hold one value."""
    if not isinstance(df, pd.DataFrame):
        raise InputError(f"{source} is a {type(df).__name__}; give a pandas DataFrame")
    for column in columns:
        if column not in df.columns:
            raise InputError(f"{source} lacks column {column!r}; it has {list(df.columns)}")
        if isinstance(df[column], pd.DataFrame):
            raise InputError(f"{source} has column {column!r} more than once; rename or drop one")
        check_cells(df[column], column, source)


def _variable(
    name: str,
    tables: Sequence[pd.DataFrame],
    declared: Iterable[Hashable] | str | None,
    missing: str,
) -> Variable:
    for l, table in enumerate(tables):
        require_columns(table, [name], place_of(l, table))
    columns = [table[name] for table in tables]
    if isinstance(declared, str) and declared != FOUND:
        raise InputError(
            ("levels", name), declared, 'is not known; give a list of values, or "held"'
        )
    listed = None if isinstance(declared, str) else declared
    levels = _union_of_levels(columns) if listed is None else tuple(listed)
    has_missing = missing == "level" and any(c.isna().any() for c in columns)
    dtype, n = columns[0].dtype, len(levels)
    check_writable(f"column {name!r}: level", levels, show_name=False)
    if len(set(levels)) < n:
        raise InputError(f"levels of column {name!r} name a value twice; name each level once")
    if n + has_missing < 2:
        raise InputError(
            f"column {name!r} has {n} level: it cannot vary; drop it, or declare the levels that "
            "no record has"
        )
    if n > MAX_LEVELS:
        raise InputError(
            f"column {name!r} (`{dtype}`) has {n} distinct values, more than {MAX_LEVELS}; if "
            f"they name the records, make it their `index={name!r}` (`df.set_index`); else give "
            "it to a model for numbers (Mixture with `families`, CART, Regression), or leave it "
            "out with `columns`"
        )
    if declared is None and is_numeric(dtype) and n > MANY_NUMBERS:
        warnings.warn(
            f"column {name!r}: {n} different numbers are treated as categories without an "
            'order; take Mixture, with the family "normal" for it, or CART; or cut it into ranges',
            stacklevel=2,
        )
    elif declared is None and n > MANY_LEVELS:
        warnings.warn(
            f"column {name!r}: {n} levels, most of them with few records, add little "
            "and cost time; join levels, or leave the column out with `columns`",
            stacklevel=2,
        )
    if isinstance(dtype, pd.CategoricalDtype):  # grows to hold every level
        dtype = pd.CategoricalDtype(list(levels), ordered=dtype.ordered)
    return Variable(name, levels, has_missing, dtype)


def _union_of_levels(columns: Sequence[pd.Series]) -> tuple[Hashable, ...]:
    categories = [isinstance(column.dtype, pd.CategoricalDtype) for column in columns]
    levels: dict[Hashable, None] = {}
    for column, category in zip(columns, categories, strict=True):
        found = column.cat.categories if category else column.dropna().unique()
        plain = [scalar(v) for v in found]
        levels.update(dict.fromkeys(plain if category else _sorted(plain)))
    return tuple(levels if any(categories) else _sorted(list(levels)))


def _sorted(values: list[Hashable]) -> list[Hashable]:
    try:
        return sorted(values)  # type: ignore[type-var]
    except TypeError:
        return sorted(values, key=lambda v: (type(v).__name__, str(v)))
