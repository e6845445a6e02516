"""Columns of Stata, SAS and SPSS files as stored: codes, labels, codes declared as missing."""

import string
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Flags
from bayes_risk._core.errors import InputError

from .kinds import broken, check_header, check_unpacked
from .levels import chosen

LETTERS = (".dta", ".sas7bdat")  # declare missing codes as .a to .z
LETTERS_HELD = [*string.ascii_letters, "_"]

Codes = Mapping[Hashable, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredColumn:
    """One column of n records."""

    # n of them, what is stored; a declared missing code stands as it is, all else that is missing
    # as NaN
    values: pd.Series
    refused: Flags  # shape (n,): which records hold a declared missing code
    labels: Codes = field(default_factory=dict)  # labels of answers, held by somebody or not
    # labels of codes that are declared as missing
    missing_labels: Codes = field(default_factory=dict)
    ordinal: bool = False  # whether the file says that the answers are ordered


def stored_columns(
    file: Path,
    suffix: str,
    columns: Sequence[str] | None = None,
    among: Collection[str] | None = None,
) -> dict[str, StoredColumn]:
    """Read a statistical file without any repair: `columns`, or those that are `among` some."""
    read = _reader(file, suffix)
    declared = {} if suffix == ".xpt" else {"user_missing": True}  # it has no codes of its own
    first = read(metadataonly=True, **declared)[1]
    names, ranges = list(first.column_names), first.missing_ranges
    check_header(names, file)
    if suffix == ".zsav":
        check_unpacked(8 * first.number_rows * len(names), file, suffix)
    names = names if columns is None else chosen(columns, names, file)
    names = names if among is None else [name for name in names if name in among]
    shown, meta = read(usecols=names)
    types, labels = meta.readstat_variable_types, _labels(file, suffix, meta)
    gaps = [
        name
        for name in names
        if (name in ranges or (suffix in LETTERS and types.get(name) != "string"))
        and shown[name].isna().any()
    ]
    codes = read(usecols=gaps, **declared)[0] if gaps else pd.DataFrame()
    return {
        name: _column(
            shown[name],
            codes.get(name),
            labels.get(name, {}),
            ranges.get(name),
            text=types.get(name) == "string",
            ordinal=meta.variable_measure.get(name) == "ordinal",
        )
        for name in names
    }


def _column(
    shown: pd.Series,
    codes: pd.Series | None,
    labels: Codes,
    ranges: Any,
    *,
    text: bool,
    ordinal: bool,
) -> StoredColumn:
    """Tell the declared missing codes from the answers.

    The reader blanks declared codes in `shown`. Where it is asked for them, it may give a wrong
    value for what is missing by itself (Stata's plain ``.``), so that is taken from `shown`.
    """
    values, refused = shown, np.zeros(len(shown), dtype=bool)
    if codes is not None:
        held = codes.notna() if ranges else codes.isin(LETTERS_HELD)
        refused = (shown.isna() & held).to_numpy(dtype=bool)
        values = shown.astype(object).where(~refused, codes)
    apart = {code: label for code, label in labels.items() if _is_declared(code, ranges, text)}
    return StoredColumn(
        values=values.infer_objects(),
        refused=refused,
        labels={code: label for code, label in labels.items() if code not in apart and label},
        missing_labels=apart,
        ordinal=ordinal,
    )


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
    catalogs = [file.with_suffix(".sas7bcat"), file.with_name("formats.sas7bcat")]
    catalog = next((path for path in catalogs if path.is_file()), None)
    if catalog is None:
        return {}
    formats = _reader(catalog, ".sas7bcat")()[1].value_labels
    return {
        name: formats[wanted]
        for name, wanted in meta.variable_to_label.items()
        if wanted in formats
    }


def _reader(file: Path, suffix: str) -> Any:
    """Make pyreadstat's function for a kind of file, its errors named."""
    try:
        import pyreadstat
    except ImportError:
        raise InputError(
            f'reading {str(file)!r} needs pyreadstat: pip install "bayes-risk[formats]", or give a '
            "CSV"
        ) from None
    functions: dict[str, Any] = {
        ".dta": pyreadstat.read_dta,
        ".sav": pyreadstat.read_sav,
        ".zsav": pyreadstat.read_sav,
        ".sas7bdat": pyreadstat.read_sas7bdat,
        ".sas7bcat": pyreadstat.read_sas7bcat,
        ".xpt": pyreadstat.read_xport,
    }
    dates = {} if suffix == ".sas7bcat" else {"dates_as_pandas_datetime": True}

    def read(**how: Any) -> tuple[pd.DataFrame, Any]:
        try:
            table, meta = functions[suffix](str(file), **dates, **how)
        except Exception as error:  # the reader has many, some of them bare
            told = f"is no readable {suffix} file: {error}; is it whole? Save it again as UTF-8"
            raise broken(file, told) from None
        return table, meta

    return read
