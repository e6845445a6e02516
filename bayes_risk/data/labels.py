"""Value labels become levels: all of the file's, in the order of their codes."""

from collections import Counter
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of

from .levels import Levels, texts
from .statistical import StoredColumn

MISSING = ("error", "level", "blank")


def labelled_table(
    stored: Mapping[str, StoredColumn], how: Levels, missing: str | Mapping[str, str], file: Path
) -> pd.DataFrame:
    """Make a table of stored columns."""
    made = {
        name: _made(
            f"column {name!r} of {str(file)!r}", column, how.get(name), _mode(missing, name)
        )
        for name, column in stored.items()
    }
    return pd.DataFrame(made)


def _mode(missing: str | Mapping[str, str], name: str) -> str:
    return missing if isinstance(missing, str) else missing.get(name, "error")


def checked_missing(missing: Any) -> str | dict[str, str]:
    """Give one word for all columns, or a word for each that is named."""
    if isinstance(missing, str):
        return one_of("missing", missing, MISSING)
    if not isinstance(missing, Mapping):
        raise InputError(
            f"missing is a {type(missing).__name__}; give one of {list(MISSING)}, or a mapping of "
            "column to one of them"
        )
    return {name: one_of(f"missing[{name!r}]", mode, MISSING) for name, mode in missing.items()}


def _made(where: str, column: StoredColumn, how: Any, mode: str) -> pd.Series:
    """One column as it goes into the table."""
    if mode == "error" and column.refused.any():
        raise InputError(
            f"{where} holds codes that the file declares as missing "
            f"({', '.join(_held_missing(column))}) in {int(column.refused.sum()):,} records; make "
            'them levels with missing="level", or plain missing values with "blank" (in a study '
            "missing_codes, on the command line --missing-codes)"
        )
    if _wants_codes(where, column, how):
        return _as_stored(where, column, mode)
    return _as_labels(where, column, mode)


def _wants_codes(where: str, column: StoredColumn, how: Any) -> bool:
    """Whether the stored values are the column's values; labels for some of them are no answer."""
    if isinstance(how, str):
        return how == "codes"
    if how is not None and not texts(how):
        return True
    if not column.labels:
        return True
    held = _answers(column).unique()
    bare = sum(value not in column.labels for value in held)
    if bare and how is None:
        raise InputError(
            f"{where} has labels for {len(held) - bare} of the {len(held)} values held; if "
            'it is a number with special codes, declare its levels as "codes"; if it is a '
            'category, as "labels"'
        )
    return False


def _as_stored(where: str, column: StoredColumn, mode: str) -> pd.Series:
    """Numbers, dates or text; an empty text is a missing value."""
    values = column.values
    if column.refused.any():
        if mode == "level" and not _holds_text(_answers(column)):
            raise InputError(
                f"{where} is a number and holds declared missing codes "
                f"({', '.join(_held_missing(column))}) in {int(column.refused.sum()):,} records: a "
                'number has no level for them; give this column alone missing="blank", or declare '
                'its levels as "labels"'
            )
        if mode != "level":
            values = values.mask(column.refused).infer_objects()
    if _holds_text(values):
        return values.mask(values == "")
    return _whole(values)


def _as_labels(where: str, column: StoredColumn, mode: str) -> pd.Series:
    """A category of labels: answers in the order of their codes, then declared missing codes."""
    held = _answers(column).unique()
    names = {code: column.labels.get(code) or _named(code) for code in [*column.labels, *held]}
    levels = {code: names[code] for code in sorted(names, key=_place)}
    if mode == "level":
        levels |= _missing_levels(column)
    _check_distinct(where, levels)
    ordered = column.ordinal and not (mode == "level" and len(levels) > len(names))
    dtype = pd.CategoricalDtype(list(levels.values()), ordered=ordered)
    at, values = pd.factorize(column.values)
    places = {code: place for place, code in enumerate(levels)}
    codes = np.array([*(places.get(value, -1) for value in values), -1])[at]
    return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype), index=column.values.index)


def _answers(column: StoredColumn) -> pd.Series:
    """What is held, without declared missing codes, missing values and empty texts."""
    held = column.values[~column.refused].dropna()
    return held[held != ""] if _holds_text(held) else held


def _missing_levels(column: StoredColumn) -> dict[Hashable, str]:
    """Declared missing codes, each a level: those that have a label, and those that are held."""
    held = column.values[column.refused].unique()
    codes = sorted({*column.missing_labels, *held}, key=_place)
    return {code: column.missing_labels.get(code) or _named(code, missing=True) for code in codes}


def _held_missing(column: StoredColumn) -> list[str]:
    """Names of the declared missing codes that are held."""
    held = sorted(column.values[column.refused].unique(), key=_place)
    named = {code: _named(code, missing=True) for code in held}
    labels = column.missing_labels
    return [f"{name} {labels[c]!r}" if c in labels else name for c, name in named.items()]


def _check_distinct(where: str, levels: Mapping[Hashable, str]) -> None:
    for label, times in Counter(levels.values()).items():
        if times > 1:
            same = [_named(c) for c, other in levels.items() if other == label]
            raise InputError(
                f"{where} gives the label {label!r} to the codes {', '.join(same)}; give each its "
                'own, or declare its levels as "codes"'
            )


def _place(code: Any) -> tuple[bool, Any]:
    """Order of codes: numbers, then letters."""
    return isinstance(code, str), code


def _named(code: Any, *, missing: bool = False) -> str:
    """Name a code that has no label: 9, or .a for the letters of Stata and SAS."""
    if isinstance(code, str):
        return f".{code}" if missing and len(code) == 1 else code
    return str(int(code)) if float(code).is_integer() else repr(float(code))


def _holds_text(values: pd.Series) -> bool:
    if isinstance(values.dtype, pd.StringDtype):
        return True
    held = values.dropna() if values.dtype == object else values[:0]
    return bool(len(held)) and all(isinstance(value, str) for value in held.unique())


def _whole(values: pd.Series) -> pd.Series:
    """Whole numbers are stored as such where none is missing: these files hold all as reals."""
    if pd.api.types.is_float_dtype(values.dtype) and len(values):
        held = values.to_numpy()
        if (abs(held) < 2**53).all() and (held == held.round()).all():
            return values.astype("int64")
    return values
