"""Levels of columns: what is declared, and whether a column is text."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from bayes_risk._core.arrays import Flags
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns

WORDS = ("labels", "codes")

Levels = Mapping[str, Sequence[Hashable] | str]


def checked_levels(levels: Any) -> dict[str, list[Hashable] | str]:
    """Give each column's declared values as a list, or the word that says what they are."""
    if levels is not None and not isinstance(levels, Mapping):
        raise InputError(
            f"levels is a {type(levels).__name__}; give a mapping of column to a list of values"
        )
    for name, given in (levels or {}).items():
        if isinstance(given, str) and given not in WORDS:
            raise InputError(
                f'levels[{name!r}]={given!r} is not known; give a list of values, "labels" or '
                '"codes"'
            )
    return {k: v if isinstance(v, str) else list(v) for k, v in (levels or {}).items()}


def texts(given: Sequence[Hashable] | str) -> bool:
    """Whether declared levels are a list of texts, and nothing but texts."""
    return not isinstance(given, str) and all(isinstance(value, str) for value in given)


def holds_text(column: pd.Series) -> bool:
    """Whether a column's values (or levels, for a category) are text."""
    values = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    if any(isinstance(v, str) for v in values):
        return True
    if not pd.api.types.is_string_dtype(values.dtype):
        return False
    return not any(isinstance(v, bool) for v in values)  # dtype object: answers, some missing


def declare_levels(
    df: pd.DataFrame, levels: Mapping[str, Sequence[Hashable]], source: str
) -> pd.DataFrame:
    """Make columns categories with the declared levels; a value outside them is an error."""
    known_columns("levels", levels, list(df.columns), source)
    for name, values in levels.items():
        strange = _strangers(df[name], list(values))
        if strange.any():  # what it holds is not told: it is somebody's
            raise InputError(
                f"column {name!r} of {source} holds a value in row {int(strange.argmax()) + 1} "
                f"which is not among its declared levels {list(values)} (so in {strange.sum():,} "
                "rows); add it to the levels, or mend the file"
            )
    return df.astype({name: pd.CategoricalDtype(list(values)) for name, values in levels.items()})


def _strangers(column: pd.Series, values: list[Hashable]) -> Flags:
    """Which cells hold a value that is none of those, in the eyes of the conversion too."""
    found = column.isin(values).to_numpy(dtype=bool)
    if not isinstance(column.dtype, pd.CategoricalDtype):
        found = found & (pd.Index(values).get_indexer_for(pd.Index(column)) >= 0)
    strange: Flags = column.notna().to_numpy(dtype=bool) & ~found
    return strange
