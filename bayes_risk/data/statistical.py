"""Stata, SAS and SPSS files: codes as stored, and their labels, which become levels."""

import string
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Flags
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import counted
from bayes_risk._core.validate import known_columns, one_of

from .kinds import (
    broken,
    check_header,
    check_package,
    check_unpacked,
    checked_file,
    readers_errors,
)
from .reader import read_apart
from .variables import Levels, texts

LETTERS = (".dta", ".sas7bdat")  # declare missing codes as .a to .z
MISSING_LETTERS = [*string.ascii_letters, "_"]

Codes = Mapping[Hashable, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredColumn:
    """One column of n records."""

    values: pd.Series  # as stored, declared missing codes too; all else that is missing is NaN
    refused: Flags  # shape (n,): which records hold a declared missing code
    labels: Codes  # of answers, held by somebody or not
    missing_labels: Codes  # of codes that are declared as missing
    ordinal: bool  # whether the file says that the answers are ordered


def stored_columns(
    file: Path,
    suffix: str,
    columns: Sequence[str] | None = None,
    among: Collection[str] | None = None,
) -> dict[str, StoredColumn]:
    """Read a statistical file without any repair: `columns`, or those that are `among` some."""
    check_package("pyreadstat", file, '"bayes-risk[formats]", or give a CSV')
    chosen = {"columns": columns, "among": among}
    texts_of = {
        name: None if given is None else [column for column in given if isinstance(column, str)]
        for name, given in chosen.items()
    }
    found = read_apart(file, suffix, **texts_of)
    if columns is not None:
        known_columns("columns", columns, [*found], repr(str(file)))
    return {
        name: StoredColumn(**parts | {"refused": parts["refused"].to_numpy()})
        for name, parts in found.items()
    }


def stored(
    file: Path, suffix: str, columns: list[str] | None, among: list[str] | None
) -> dict[str, dict[str, Any]]:
    """What makes each `StoredColumn`: codes as asked for, plain missing values as without them."""
    read = _reader(file, suffix)
    declared = {} if suffix == ".xpt" else {"user_missing": True}  # it has no codes of its own
    first = read(metadataonly=True, **declared)[1]
    names, ranges = list(first.column_names), first.missing_ranges
    check_header(names, file)
    if suffix == ".zsav":
        rows = first.number_rows
        if rows is None or rows < 0:
            raise broken(file, "does not state how many records it holds; save it as .sav or CSV")
        check_unpacked(8 * rows * len(names), file, suffix)
    if columns is not None:
        names = known_columns("columns", columns, names, repr(str(file)))
    names = names if among is None else [name for name in names if name in among]
    shown, meta = read(usecols=names)
    types, labels = meta.readstat_variable_types, _labels(file, suffix, meta)
    of_letters = [name for name in names if suffix in LETTERS and types.get(name) != "string"]
    gaps = [name for name in {*ranges, *of_letters}.intersection(names) if shown[name].isna().any()]
    codes = read(usecols=gaps, **declared)[0] if gaps else pd.DataFrame()
    found = {}
    for name in names:
        values, text = shown[name], types.get(name) == "string"
        refused = np.zeros(len(values), dtype=bool)
        if name in codes:
            coded = codes[name].notna() if ranges.get(name) else codes[name].isin(MISSING_LETTERS)
            refused = (values.isna() & coded).to_numpy(dtype=bool)
            values = values.astype(object).where(~refused, codes[name])
        of = labels.get(name, {})
        apart = {c: label for c, label in of.items() if _is_declared(c, ranges.get(name), text)}
        found[name] = {
            "values": values.infer_objects(),
            "refused": pd.Series(refused),
            "labels": {c: label for c, label in of.items() if c not in apart and label},
            "missing_labels": apart,
            "ordinal": meta.variable_measure.get(name) == "ordinal",
        }
    return found


def _is_declared(code: Any, ranges: Any, text: bool) -> bool:
    """Whether a labelled code is declared as missing: by ranges in SPSS, as a letter elsewhere."""
    if ranges:
        return any(part["lo"] <= code <= part["hi"] for part in ranges)
    return not text and (isinstance(code, str) and len(code) == 1)


def _labels(file: Path, suffix: str, meta: Any) -> Mapping[str, Codes]:
    """Value labels by column: in the file itself, or in SAS's catalog beside it."""
    if suffix != ".sas7bdat":
        found: Mapping[str, Codes] = meta.variable_value_labels
        return found
    catalog = catalog_of(file)
    formats = {} if catalog is None else _reader(catalog, ".sas7bcat")()[1].value_labels
    return {k: formats[name] for k, name in meta.variable_to_label.items() if name in formats}


def catalog_of(file: Path) -> Path | None:
    """The catalog of value labels that is read with a SAS file."""
    if file.suffix.lower() != ".sas7bdat":
        return None
    catalogs = [file.with_suffix(".sas7bcat"), file.with_name("formats.sas7bcat")]
    found = next((path for path in catalogs if path.exists()), None)
    return None if found is None else checked_file(found)


def _reader(file: Path, suffix: str) -> Any:
    """Make pyreadstat's function for a kind of file, its errors named."""
    import pyreadstat

    name = {".zsav": "sav", ".xpt": "xport"}.get(suffix, suffix.removeprefix("."))
    function = getattr(pyreadstat, f"read_{name}")
    dates = {} if suffix == ".sas7bcat" else {"dates_as_pandas_datetime": True}
    message = f"is not a readable {suffix} file ({{}}); is it whole? Save it again as UTF-8"

    def read(**how: Any) -> tuple[pd.DataFrame, Any]:
        with readers_errors(file, message):
            table, meta = function(str(file), **dates, **how)
        return table, meta

    return read


MISSING = ("error", "level", "blank")


def labelled_table(
    stored: Mapping[str, StoredColumn], how: Levels, missing: str | Mapping[str, str], file: Path
) -> pd.DataFrame:
    """Make a table of stored columns."""
    made = {}
    for name, column in stored.items():
        mode = missing if isinstance(missing, str) else missing.get(name, "error")
        made[name] = _made(f"column {name!r} of {str(file)!r}", column, how.get(name), mode)
    return pd.DataFrame(made)


def checked_missing(missing: Any) -> str | dict[str, str]:
    """Give one word for all columns, or a word for each that is named."""
    if isinstance(missing, str):
        return one_of("missing", missing, MISSING)
    if not isinstance(missing, Mapping):
        raise InputError(
            f"missing is a {type(missing).__name__}; give one of {list(MISSING)}, or a mapping of "
            "column to one of them"
        )
    return {name: one_of(("missing", name), mode, MISSING) for name, mode in missing.items()}


def _made(where: str, column: StoredColumn, how: Any, mode: str) -> pd.Series:
    """One column as it goes into the table."""
    if mode == "error" and column.refused.any():
        raise InputError(
            f"{where} holds {_refused(column)}; make them levels with "
            '`read_table(missing="level")`, or plain missing values with "blank" in its place'
        )
    made = _as_stored if _wants_codes(where, column, how) else _as_labels
    return made(where, column, mode)


def _wants_codes(where: str, column: StoredColumn, how: Any) -> bool:
    """Whether the stored values are the column's values; labels for some of them are no answer."""
    if isinstance(how, str):
        return how == "codes"
    if not column.labels or (how is not None and not texts(how)):
        return True
    distinct = _answers(column).unique()
    bare = sum(value not in column.labels for value in distinct)
    if bare and how is None:
        raise InputError(
            f"{where} has labels for {len(distinct) - bare} of the {len(distinct)} values held; if "
            'it is a number with special codes, declare its levels as "codes"; if it is a '
            'category, as "labels"'
        )
    return False


def _as_stored(where: str, column: StoredColumn, mode: str) -> pd.Series:
    """Numbers, dates or text; an empty text is a missing value."""
    values = column.values
    if column.refused.any() and mode == "level" and not _holds_text(_answers(column)):
        raise InputError(
            f"{where} is a number and holds {_refused(column)}: a number has no level for them; "
            'give this column alone `read_table(missing="blank")`, or declare its levels as '
            '"labels"'
        )
    if mode != "level":
        values = values.mask(column.refused).infer_objects()
    return values.mask(values == "") if _holds_text(values) else _whole(values)


def _as_labels(where: str, column: StoredColumn, mode: str) -> pd.Series:
    """A category of labels: answers in the order of their codes, then declared missing codes."""
    distinct = _answers(column).unique()
    names = {code: column.labels.get(code) or _named(code) for code in [*column.labels, *distinct]}
    levels = {code: names[code] for code in sorted(names, key=_place)}
    if mode == "level":
        codes, of = {*column.missing_labels, *column.values[column.refused]}, column.missing_labels
        levels |= {c: of.get(c) or _named(c, missing=True) for c in sorted(codes, key=_place)}
    if (times := max(Counter(levels.values()).values(), default=1)) > 1:
        raise InputError(
            f"{where} gives one label to {times} codes; give each its own, or declare its levels "
            'as "codes"'
        )
    ordered = column.ordinal and len(levels) == len(names)
    dtype = pd.CategoricalDtype(list(levels.values()), ordered=ordered)
    return column.values.map(levels).astype(dtype)


def _answers(column: StoredColumn) -> pd.Series:
    """What is held, without declared missing codes, missing values and empty texts."""
    present = column.values[~column.refused].dropna()
    return present[present != ""] if _holds_text(present) else present


def _refused(column: StoredColumn) -> str:
    """How many declared missing codes are held, and by how many records."""
    values = column.values[column.refused]
    codes, records = counted(values.nunique(), "code"), counted(len(values), "record")
    return f"{codes} declared as missing, in {records}"


def _place(code: Any) -> tuple[bool, Any]:
    """Order of codes: numbers, then letters."""
    return isinstance(code, str), code


def _named(code: Any, *, missing: bool = False) -> str:
    """Name a code that has no label: 9, or .a for the letters of Stata and SAS."""
    if isinstance(code, str):
        return f".{code}" if missing and len(code) == 1 else code
    return str(int(code)) if float(code).is_integer() else repr(float(code))


def _holds_text(values: pd.Series) -> bool:
    present = values.dropna()
    return pd.api.types.is_string_dtype(present) and (len(present) > 0 or values.dtype != object)


def _whole(values: pd.Series) -> pd.Series:
    """Whole numbers are stored as such, beside missing ones too: these files hold all as reals."""
    present = values.dropna().to_numpy()
    if (
        present.dtype.kind == "f"
        and len(present)
        and (abs(present) < 2**53).all()
        and (present == present.round()).all()
    ):
        return values.astype("int64" if len(present) == len(values) else "Int64")
    return values
