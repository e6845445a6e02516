"""The two kinds of variable: categories, with their levels, declared or not, and numbers."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, scalar
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns, real_number

from .precision import SINGLE, shortest, snapped

MISSING_LABEL = "(missing)"
LARGEST, SMALLEST = 1e30, 1e-100  # sizes of numbers that can be worked with
FEW = 20  # a numeric column with no more distinct values is taken for a category
WHOLE = 2**53 - 1  # up to here every whole number has a double of its own

# Instead of declared levels: for files with value labels, and for delimited text
WORDS, WRITTEN = ("labels", "codes"), ("text", "numbers")
FOUND = "held"  # a category of the values that the table holds
AMOUNTS = ', or take CART or Mixture with `missing="level"`, in which an amount may be missing'
NONE_THERE = ": the original has none"
TO_NUMBERS = "make it numbers (`pandas.to_numeric`), of a CSV with `decimal` and `na`"

Codes = npt.NDArray[np.int32]
Levels = Mapping[str, Sequence[Hashable] | str]


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """One categorical variable: its name, its levels in order, and how its values are stored.

    ``levels`` holds plain values; ``missing`` says whether the last code stands for "no answer".
    """

    name: str
    levels: tuple[Hashable, ...]
    missing: bool
    dtype: Any

    @property
    def n_levels(self) -> int:
        """Number of codes, the one for missing values included."""
        return len(self.levels) + self.missing

    @property
    def labels(self) -> list[str]:
        """Level names for people."""
        return [str(v) for v in self.levels] + [MISSING_LABEL] * self.missing

    def places(self, column: pd.Series) -> npt.NDArray[np.int64]:
        """Codes of a column; -1 for values that are no level."""
        own = self.dtype.categories if isinstance(self.dtype, pd.CategoricalDtype) else None
        if own is not None and column.dtype == self.dtype and column.cat.categories.equals(own):
            codes = column.cat.codes.to_numpy(np.int64)  # as `decode` reads them
            return np.where(codes < 0, len(self.levels) if self.missing else -1, codes)
        where, values = pd.factorize(column)  # -1: missing
        plain = pd.Index([scalar(v) for v in pd.Index(values).astype(object)], dtype=object)
        number = pd.Index(self.levels, dtype=object).get_indexer(plain)
        if (number < 0).any() and is_numeric(column.dtype):
            numbers = all(
                isinstance(v, int | float) and not isinstance(v, bool) for v in self.levels
            )
            # whole ones are equal exactly
            if numbers and any(isinstance(v, float) and not v.is_integer() for v in self.levels):
                levels = np.array(self.levels, dtype=float)
                near = snapped(np.array(plain, dtype=float), levels)
                number = pd.Index(levels).get_indexer(pd.Index(near))
        return np.append(number, len(self.levels) if self.missing else -1)[where].astype(np.int64)

    def encode(self, column: pd.Series, source: str, own: bool = False) -> Codes:
        """Codes of a column (``own``: of the original); undeclared levels are an error."""
        codes, absent = self.places(column), int(column.isna().sum())
        if absent and not self.missing:
            cure = ', or make them a level of their own: `missing="level"`' if own else NONE_THERE
            raise InputError(
                f"column {self.name!r} of {source} has {absent} missing values; fill or drop "
                f"them{cure}"
            )
        strange = codes < 0
        if strange.any():  # what it holds is not told
            raise InputError(
                f"column {self.name!r} of {source} holds a value in row {strange.argmax() + 1} "
                f"which is not among its levels (so in {strange.sum():,} rows); correct it, or "
                "declare it: list every possible level in `levels` (or `pandas.Categorical`)"
            )
        return codes.astype(np.int32)

    def decode(self, codes: npt.NDArray[Any], index: pd.Index) -> pd.Series:
        """Values of codes, stored as the original column stored them."""
        codes = codes.astype(np.int64)
        if isinstance(self.dtype, pd.CategoricalDtype):
            valid = np.where(codes >= len(self.levels), -1, codes)
            values: Any = pd.Categorical.from_codes(valid, dtype=self.dtype)
            return pd.Series(values, index=index, name=self.name)
        values = np.empty(len(self.levels) + 1, dtype=object)  # the last stays None: missing
        values[:-1] = self.levels
        return pd.Series(values[codes], index, object, self.name).astype(self.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A numeric variable, which is its own code.

    ``whole`` says whether the original is stored as integers (counts, years), ``dtype`` how;
    ``lowest`` is the least value that can be (0 for counts), and guesses do not go below it.
    ``missing`` is the number that stands for a missing value; None: no value may be missing.
    ``empty``: the original has empty cells for it, else the number. ``single``: the original holds
    numbers of single precision, which are read as the shortest decimals that they stand for.
    """

    name: str
    whole: bool
    dtype: Any
    lowest: float = -np.inf
    missing: float | None = None
    empty: bool = True
    single: bool = False
    n_levels: ClassVar[int] = 0  # a number has no levels to count, and none to name
    labels: ClassVar[list[str]] = []

    @classmethod
    def of(cls, column: pd.Series, name: str, missing: float | None = None) -> "Number":
        """Read the kind of number from the original column; missing: what stands for no value."""
        if not pd.api.types.is_numeric_dtype(column.dtype):
            raise InputError(
                f"column {name!r} (`{column.dtype}`) is to be a number and does not hold numbers; "
                f"treat it as a category, or {TO_NUMBERS}"
            )
        if missing is not None:
            missing = float(real_number(("missing_numbers", name), missing))
            if column.isna().any() and (column == missing).any():
                raise InputError(
                    f"missing_numbers gives column {name!r} {missing:g} for a missing value, which "
                    "some record has; give a number that no record has"
                )
        whole = bool(pd.api.types.is_integer_dtype(column.dtype))
        values = column.dropna().to_numpy(dtype=float)
        single = not whole and bool(SINGLE.holds(values).all())
        single = single and bool((shortest(values) != values).any())
        if single and missing is not None:  # as `encode` reads it
            missing = float(shortest(np.array([missing]))[0])
        empty = bool(column.isna().any()) or not bool((column == missing).any())
        return cls(name, whole, column.dtype, missing=missing, empty=empty, single=single)

    def encode(self, column: pd.Series, source: str, own: bool = False) -> Array:
        """The numbers of a column; missing and infinite ones are an error."""
        try:
            values = column.to_numpy(dtype=float, na_value=np.nan)
        except (TypeError, ValueError):
            text = column.notna() & pd.to_numeric(column, errors="coerce").isna()
            row = f" in row {text.to_numpy().argmax() + 1}" if text.any() else ""
            raise InputError(
                f"column {self.name!r} of {source} holds text{row} and must hold numbers; "
                f"{TO_NUMBERS}"
            ) from None
        if self.missing is not None:
            values = np.where(np.isnan(values), self.missing, values)
        if self.single:
            values = shortest(values)
        bad = ~np.isfinite(values)
        if bad.any():
            raise InputError(
                f"column {self.name!r} of {source} has {int(bad.sum())} missing or infinite "
                f"values; fill them, or drop those records{AMOUNTS if own else NONE_THERE}"
            )
        check_magnitude(values, self.name, source)
        rounded = int((np.abs(values) > WHOLE).sum())
        if rounded and pd.api.types.is_integer_dtype(column.dtype):
            raise InputError(
                f"column {self.name!r} of {source} has {rounded} whole numbers above {WHOLE:,} in "
                "size, which double precision rounds to others; leave the column out or make it "
                "text if it names things, else divide it by a power of ten, in all files alike"
            )
        return values

    def decode(self, codes: npt.NDArray[Any], index: pd.Index) -> pd.Series:
        """Numbers, stored as the original column stored them where that loses nothing."""
        values = np.asarray(codes, dtype=float)
        if self.missing is not None and self.empty:
            values = np.where(values == self.missing, np.nan, values)
        if self.single:
            values = SINGLE.rounded(values)
        absent = np.isnan(values)
        exact = not self.whole or bool((values == np.round(values))[~absent].all())
        column = pd.Series(values, index=index, name=self.name)
        whole = self.whole and absent.any()
        return column.astype("Int64" if whole else self.dtype) if exact else column


def stand_ins(df: pd.DataFrame, numbers: Sequence[str], *, near: bool = False) -> dict[str, float]:
    """For numbers missing for some: one that nobody has, far below all, or ``near`` (for trees)."""
    found = {}
    for name in numbers:
        if name in df and is_numeric(df[name].dtype) and df[name].isna().any():
            values = df[name].dropna().to_numpy(dtype=float)
            low, high = (float(f(values)) for f in (np.min, np.max)) if len(values) else (0.0, 0.0)
            below = low - ((high - low) / 20 or abs(low) or 1.0)
            far = 10.0 ** (2 + np.ceil(np.log10(max(-low, high, 1.0))))
            whole = bool((values == np.floor(values)).all())
            found[name] = (float(np.floor(below)) if whole else below) if near else -far
    return found


def check_magnitude(values: Array, name: str, source: str) -> None:
    """Numbers whose squares are infinite or 0, or beyond single precision, are an error."""
    size = np.abs(values)
    wrong = int(((size > LARGEST) | ((size > 0) & (size < SMALLEST))).sum())
    if wrong:
        raise InputError(
            f"column {name!r} of {source} has {wrong} numbers above {LARGEST:g} in size, or below "
            f"{SMALLEST:g} and not 0; divide or multiply it by a power of ten, in all files alike"
        )


def within_range(parts: Sequence[Array]) -> list[Array]:
    """Numbers of several tables; where some are above 1e30 in size, all times a power of two."""
    size = max((float(np.abs(v[np.isfinite(v)]).max(initial=0)) for v in parts), default=0.0)
    return [np.ldexp(v, -math.frexp(size)[1]) for v in parts] if size > LARGEST else [*parts]


def check_cells(column: pd.Series, name: Hashable, source: str) -> None:
    """Cells that hold several values (lists, dicts, sets, arrays) are an error."""
    if column.dtype != object or not pd.api.types.infer_dtype(column).startswith("mixed"):
        return
    for row, cell in enumerate(column, start=1):
        try:
            hash(cell)
        except TypeError:
            raise InputError(
                f"column {name!r} of {source} holds a {type(cell).__name__} in row {row}; make "
                "each cell one text or number, or leave the column out"
            ) from None


def is_numeric(dtype: Any) -> bool:
    """Whether a column of this type holds numbers; truth values are none."""
    types = pd.api.types
    return bool(types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype))


def are_whole(column: pd.Series) -> bool:
    """Whether all numbers of a column that are there are whole, however it is stored."""
    values = column.dropna()
    if pd.api.types.is_integer_dtype(values.dtype):
        return True
    numbers = values.to_numpy(float)
    return bool((np.isfinite(numbers) & (numbers == np.rint(numbers))).all())


def looks_continuous(column: pd.Series) -> bool:
    """A numeric column with many distinct values."""
    return is_numeric(column.dtype) and bool(column.nunique() > FEW)


# --- declared levels ---------------------------------------------------------------------------


def mapped(name: str, given: Any, what: str) -> Mapping[str, Any]:
    """Give a mapping of columns, empty for None."""
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"{name} is a {type(given).__name__}; give a mapping of column to {what}")
    return given or {}


def checked_levels(levels: Any) -> dict[str, list[Hashable] | str]:
    """Give each column's declared values as a list, or the word that says what they are."""
    for name, given in mapped("levels", levels, "a list of values").items():
        if isinstance(given, str) and given not in (*WORDS, *WRITTEN, FOUND):
            raise InputError(
                ("levels", name),
                given,
                'is not known; give a list of values, "labels" or "codes", "text" or "numbers", '
                'or "held"',
            )
    return {k: v if isinstance(v, str) else list(v) for k, v in (levels or {}).items()}


def declared(levels: Levels) -> Levels:
    """Columns that are categories of listed values, or of those that are held."""
    return {c: given for c, given in levels.items() if not isinstance(given, str) or given == FOUND}


def texts(given: Sequence[Hashable] | str) -> bool:
    """Whether declared levels are a list of texts, and nothing but texts."""
    return not isinstance(given, str) and all(isinstance(value, str) for value in given)


def holds_text(column: pd.Series) -> bool:
    """Whether a column's values (or levels, for a category) are text."""
    values = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    if pd.api.types.is_numeric_dtype(values.dtype):
        return False
    if any(isinstance(v, str) for v in values):
        return True
    if not pd.api.types.is_string_dtype(values.dtype):
        return False
    there = values[values.notna()]  # dtype object: answers, some missing
    return not any(isinstance(v, bool | int | float | np.number) for v in there)


def declare_levels(df: pd.DataFrame, levels: Levels, source: str) -> pd.DataFrame:
    """Make columns categories with the declared levels; a value outside them is an error."""
    known_columns("levels", levels, df, source)
    dtypes: dict[str, Any] = {name: _dtype(df[name], given) for name, given in levels.items()}
    for name, given in levels.items():
        column, known = df[name], list(dtypes[name].categories if given == FOUND else given)
        found = column.isin(known).to_numpy(dtype=bool)
        if not isinstance(column.dtype, pd.CategoricalDtype):  # in the eyes of the conversion too
            found = found & (pd.Index(known).get_indexer_for(pd.Index(column)) >= 0)
        strange = column.notna().to_numpy(dtype=bool) & ~found
        if strange.any():  # what it holds is not told: it is somebody's
            those = "the levels held" if given == FOUND else f"its declared levels {known}"
            raise InputError(
                f"column {name!r} of {source} holds a value in row {int(strange.argmax()) + 1} "
                f"which is not among {those} (so in {strange.sum():,} "
                "rows); add it to the levels, or correct the file"
            )
    return df.astype(dtypes)


def _dtype(column: pd.Series, given: Sequence[Hashable] | str) -> Any:
    if given != FOUND:
        return pd.CategoricalDtype(list(given))
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.dtype
    distinct = np.sort(column.dropna().unique().astype(object))  # of a file, so of one kind
    return pd.CategoricalDtype([scalar(value) for value in distinct])
