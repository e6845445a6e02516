"""One table from one file, whatever its kind: what others would repair in silence is an error."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import FILE, InputError
from bayes_risk._core.validate import known_columns

from .delimited import read_delimited
from .kinds import DELIMITED, STATISTICAL, checked_file, kind_of
from .parquet import read_parquet
from .precision import UNITS
from .spelling import spelled_values
from .spreadsheet import read_xlsx
from .statistical import checked_missing, labelled_table, stored_columns
from .variables import (
    FOUND,
    WORDS,
    WRITTEN,
    Levels,
    are_whole,
    checked_levels,
    declare_levels,
    declared,
    holds_text,
    is_numeric,
    texts,
)

Missing = str | Mapping[str, str]
DATES = ("ISO8601", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y")  # as text writes them


def read_table(
    path: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    index: str | None = None,
    levels: Mapping[str, Sequence[Hashable] | str] | None = None,
    missing: Missing = "error",
    na: Collection[str] = (),
    days: Collection[str] = (),
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    r"""Read a table from a CSV, Parquet, Stata, SAS or SPSS file; value labels become levels.

    A column whose values all have labels becomes a category. Its levels are *all* labels of the
    file, in the order of their codes, whether or not a record has them; they are ordered where the
    file states that the scale is ordinal (SPSS alone does).

    Parameters
    ----------
    path : path
        A file ending in ``.csv``, ``.csv.gz``, ``.parquet``, ``.dta``, ``.sav``, ``.zsav``,
        ``.sas7bdat``, ``.xpt`` or ``.xlsx``. Value labels of a ``.sas7bdat`` stand in a catalog
        beside it, of the same name or ``formats.sas7bcat``.
    columns : list of str, optional
        Which columns to read, in this order; all of them by default.
    index : str, optional
        Column with the record labels; by default rows are numbered 0, 1, 2, ...
    levels : mapping of column to values, or to a word, optional
        The possible values, whether or not a record has them; if all are text, a CSV's column stays
        text. ``"held"``: the values that occur. ``"codes"``: the stored values, without labels.
        ``"labels"``: values without a label are levels too, named by their codes. For a CSV,
        ``"text"`` keeps fields as they are written, and ``"numbers"`` reads codes such as ``01`` as
        numbers.
    missing : {"error", "level", "blank"}, or a mapping of column to one of them
        Treatment of codes that a Stata, SAS or SPSS file declares as missing (refused, not
        applicable): an error if a record has one; levels of their own, after all others; or
        ordinary missing values.
    na : collection of str
        Texts of a CSV field without quotes that mean a missing value, besides the empty field:
        ``["NA"]`` for files that R wrote.
    days : collection of str
        Columns of dates that become numbers: days since 1970-01-01, with fractions where a time of
        day stands beside the date, in UTC. Text may be 2020-01-31, 20200131, 31.1.2020, 31/1/2020
        or 1/31/2020, of years 1 to 9999.
    separator, decimal, encoding : str, optional
        How a CSV is written: ``";"``, ``","``, ``"cp1252"``. A setting that is not given is
        detected from the file, with a warning unless it is comma, point or UTF-8.

    Returns
    -------
    DataFrame
        Whole columns of numbers are numbers (codes such as ``01`` are text), whole ones beside
        missing ones ``Int64``; dates of Parquet, Stata, SAS and SPSS files are
        datetimes, all else is text as it stands; an empty text is a missing value.

    Raises
    ------
    InputError
        A file that cannot be read, by another name than its kind or without its reader
        (``pip install "bayes-risk[parquet]"``, ``"bayes-risk[formats]"`` for Stata, SAS and SPSS);
        columns that do not exist; labels, levels or declared missing codes that leave it open what
        a value is: ``docs/files.md``.

    Notes
    -----
    CSV files have one header line, and are read three times. A first line that looks like a record
    is an error that does not show it: its fields would be names.

    All other files are read in a process of their own, so that a damaged one cannot end this
    process by a memory fault: the error names the file and the reason. The process may hold 4 GiB
    and 100 times the size of the file. It may take 60 s of processor time and 20 s for each MB (on
    Windows, five times as long by the clock). The first file costs half a second more.

    A ``.csv.gz`` or ``.xlsx`` may unpack to 200 times its size, or 100 MB; a ``.parquet`` or
    ``.zsav`` to 1,000 times, or 1 GB. A text that such a file holds once counts in every cell.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.csv"
    ...     _ = path.write_text("id,sex\nx1,f\nx2,f\n")
    ...     table = read_table(path, index="id", levels={"sex": ["f", "m"]})
    >>> table["sex"].cat.categories.tolist()
    ['f', 'm']
    """
    file, how, missing = checked_file(path), checked_levels(levels), checked_missing(missing)
    text = [name for name, given in how.items() if texts(given) or given == "text"]
    numeric = [name for name, given in how.items() if given == "numbers"]
    listed = [
        name
        for name, given in how.items()
        if not isinstance(given, str) and is_numeric(pd.Index(given).dtype)
    ]
    written = {"na": na, "separator": separator, "decimal": decimal, "encoding": encoding}
    wanted = None if columns is None else known_columns("columns", columns, list(columns))
    if wanted is not None and index is not None:
        wanted = list(dict.fromkeys([*wanted, index]))
    written |= {"text": [*text, *days], "numbers": [*numeric, *listed]}
    try:
        table = stored_table(file, wanted, how=how, missing=missing, **written)
    except InputError as error:
        if error.argument == "columns" and error.text.startswith(f"names column {index!r},"):
            raise InputError("index", error.text) from None
        raise
    modes = {} if isinstance(missing, str) else missing
    for argument, named in (("levels", how), ("missing", modes), ("days", days)):
        known_columns(argument, named, table, repr(str(file)))
    for name in numeric:
        if not is_numeric(table[name].dtype):
            raise InputError(
                f"column {name!r} of {str(file)!r} is to be numbers and holds text, or more than "
                "18 digits; name its words for missing values in `na` and its decimal mark in "
                "`decimal`, or leave it text"
            )
    for name in days:
        table[name] = in_days(table[name], f"column {name!r} of {str(file)!r}")
    table = indexed(declare_levels(table, declared(how), repr(str(file))), index, file)
    return table if columns is None else table[[c for c in columns if c != index]]


def stored_table(
    file: Path,
    columns: Sequence[str] | None,
    *,
    among: Collection[str] | None = None,
    how: Levels | None = None,
    missing: Missing = "error",
    **written: Any,
) -> pd.DataFrame:
    """What a file holds, by its kind, labels as levels; `among`: columns of a file with labels."""
    suffix = kind_of(file)
    how = {name: given for name, given in (how or {}).items() if given != FOUND}
    other: tuple[str, ...] = WORDS if suffix in DELIMITED else WRITTEN
    if suffix not in (*DELIMITED, *STATISTICAL):
        other = (*WORDS, *WRITTEN)
    words = [name for name, given in how.items() if isinstance(given, str) and given in other]
    if words:
        kinds = "files with value labels" if how[words[0]] in WORDS else "CSVs"
        raise InputError(
            ("levels", words[0]),
            how[words[0]],
            f"is for {kinds}, which {str(file)!r} is not; give a list of values, or leave it out",
        )
    if suffix in STATISTICAL:
        table = labelled_table(stored_columns(file, suffix, columns, among), how, missing, file)
    elif suffix == ".parquet":
        table = read_parquet(file, columns)
    elif suffix == ".xlsx":
        table = read_xlsx(file, columns)
    else:
        table = read_delimited(file, columns=columns, **written)
    table.attrs[FILE] = repr(str(file))
    return table


def in_days(column: pd.Series, where: str) -> pd.Series:
    """Dates as days since 1970-01-01, in UTC; what is not a date, or may be two, is an error."""
    if pd.api.types.infer_dtype(column) == "date":  # objects, as pandas reads Parquet's dates
        column = column.astype("datetime64[s]")
    elif not pd.api.types.is_datetime64_any_dtype(column.dtype):
        if is_numeric(column.dtype) and are_whole(column):
            column = column.astype("Int64").astype(str).where(column.notna())
        column = dates_in(column, where)[0]
    day_numbers = spelled_values(pd.DatetimeIndex(column.dropna())).values / UNITS["day"]
    days = pd.Series(np.nan, column.index, dtype=float)
    days[column.notna()] = day_numbers
    return days if days.isna().any() or (day_numbers % 1 != 0).any() else days.astype(np.int64)


def dates_in(texts: pd.Series, where: str) -> tuple[pd.Series, str]:
    """Dates of texts, and the form in which they are written."""
    found = {how: one for how in DATES if (one := _dates(texts, how)) is not None}
    if not found or any(not next(iter(found.values())).equals(other) for other in found.values()):
        what = "dates whose day may be their month"
        if not found:
            numbers = pd.to_numeric(texts.dropna(), errors="coerce").notna().all()
            what = "numbers that are not dates" if numbers else "text that is not a date"
        raise InputError(f"{where} holds {what}; write dates as 2020-01-31")
    how, dates = next(iter(found.items()))
    if how == DATES[0]:
        how = "%Y%m%d" if texts.dropna().str.fullmatch(r"\d{8}").all() else "%Y-%m-%d"
    return dates, how


def _dates(texts: pd.Series, how: str) -> pd.Series | None:
    """Dates of one form; None: not all are."""
    if not holds_text(texts):
        return None
    with suppress(ValueError, TypeError):
        return pd.to_datetime(texts, format=how)
    with suppress(ValueError, TypeError):  # several zones
        return pd.to_datetime(texts, format=how, utc=True) if how == DATES[0] else None
    return None


def as_dates(days: pd.Series, form: str = "%Y-%m-%d") -> pd.Series:
    """Days since 1970-01-01 as text again: dates, with the second where a day has a fraction."""
    seconds = (days.dropna().astype(float) * 86_400).round().astype("int64")
    times = pd.Series(seconds.to_numpy().astype("datetime64[s]"), seconds.index)
    whole = (seconds % 86_400 == 0).all()
    return times.dt.strftime(form if whole else "%Y-%m-%dT%H:%M:%S").reindex(days.index)


def indexed(table: pd.DataFrame, index: str | None, file: Path) -> pd.DataFrame:
    """Label the records by a column, in which each label stands once."""
    if index is None:
        return table
    known_columns("index", [index], table, repr(str(file)))
    labels = table[index]
    if labels.isna().any() or labels.duplicated().any():
        wrong = int((labels.isna() | labels.duplicated()).to_numpy().argmax()) + 1
        raise InputError(
            f"column {index!r} of {str(file)!r} labels the records, but that of row {wrong} is "
            f"missing or not unique; give each record a label of its own"
        )
    return table.set_index(index)
