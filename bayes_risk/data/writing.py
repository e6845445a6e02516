"""Tables as delimited text, in the form in which another file is written."""

import codecs
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from .delimited import Dialect, dialect_of, read_delimited, spelt
from .kinds import DELIMITED, kind_of
from .spelling import MISSING_WORDS
from .table import as_dates, dates_in
from .variables import is_numeric


class FileForm(NamedTuple):
    """How a file is written: its dialect, and by column what missing values and dates are."""

    dialect: Dialect = Dialect(encoding="utf-8")
    words: Mapping[str, str] = {}
    dates: Mapping[str, str] = {}
    na: Collection[str] = ()  # what means missing without quotes


USUAL = FileForm()
APART = ',;\t|"\r\n'  # may keep cells apart: text that holds one stands in quotes


def form_of(
    file: Path | None,
    table: pd.DataFrame,
    *,
    na: Collection[str] = (),
    days: Sequence[str] = (),
    **written: Any,
) -> FileForm:
    """The form of a file, for the columns of a table; the usual one of files that are no CSV."""
    if file is None or kind_of(file) not in DELIMITED:
        return FileForm(dates=dict.fromkeys(days, "%Y-%m-%d"))
    gone = [c for c in table.columns if c in days or table[c].isna().any()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was said when it was read
        dialect = dialect_of(file, **written)
        texts = read_delimited(file, dialect, columns=gone, text=gone) if gone else pd.DataFrame()
    pattern = "|".join(spelt(word, re.escape(dialect.decimal)) for word in na)
    words = {}
    for name in gone:
        counts = texts[name].value_counts()
        usual = MISSING_WORDS if is_numeric(table[name].dtype) else ()
        found = counts[[bool(re.fullmatch(pattern, x)) or x.lower() in usual for x in counts.index]]
        if len(found) and found.iloc[0] > texts[name].isna().sum():
            words[name] = str(found.index[0])
    absent = [*na, *MISSING_WORDS]
    dates = {c: dates_in(texts[c].where(~texts[c].isin(absent)), c)[1] for c in days if c in gone}
    with file.open("rb") as opened:
        marked = opened.read(3) == codecs.BOM_UTF8
    if dialect.encoding == Dialect().encoding and not marked:
        dialect = dialect._replace(encoding="utf-8")
    return FileForm(dialect, words, dates, na)


def synthetic_name(l: int) -> str:
    """Name of the file of the l-th data set of a release, l = 1, 2, ..."""
    return f"synthetic-{l}.csv"


def write_tables(
    folder: Path, tables: Sequence[pd.DataFrame], *, labels: bool = False, form: FileForm = USUAL
) -> list[Path]:
    """Write m synthetic files as synthetic-1.csv, ..., whatever their text: they are data.

    Rows stand in the original's order, values in its file's ``form``. Record labels may identify
    people: they are left out unless they are asked for.
    """
    paths = [folder / synthetic_name(l) for l in range(1, len(tables) + 1)]
    for path, table in zip(paths, tables, strict=True):
        label = str(table.index.name or "record")
        write_delimited(table, path, form, index=labels, index_label=label)
    return paths


def write_delimited(
    table: pd.DataFrame, path: Path, form: FileForm, *, index: bool, index_label: str
) -> None:
    """Write a table in a form, so that it is read back as it is; UTF-8 where its encoding fails."""
    apart = (form.dialect.separator, *APART)
    table = table.assign(**{c: as_dates(table[c], f) for c, f in form.dates.items() if c in table})
    absent = {*MISSING_WORDS, *form.na, *form.words.values()} - {""}

    def text(value: Any) -> str:
        shown = str(value)
        taken = shown in absent or shown.lower() in absent or any(c in shown for c in apart)
        return in_quotes(shown) if taken else shown

    columns = [
        WrittenColumn(c, table.iloc[:, j], form.words.get(str(c), "")) for j, c in enumerate(table)
    ]
    if index:
        columns = [WrittenColumn(index_label, table.index), *columns]
    for encoding in (form.dialect.encoding, "utf-8"):
        with suppress(UnicodeEncodeError):
            return write_rows(path, columns, text, form.dialect._replace(encoding=encoding))


# --- rows -------------------------------------------------------------------------------------

ROWS = 10_000  # written at a time


class WrittenColumn(NamedTuple):
    """A column of a file: its name, its values (a Series or an Index), what a missing one is."""

    name: Any
    values: Any
    missing: str = ""


def in_quotes(text: str) -> str:
    """Text as one cell, whatever it holds."""
    return '"{}"'.format(text.replace('"', '""'))


def write_rows(
    path: Path,
    columns: Sequence[WrittenColumn],
    text: Callable[[Any], str],
    dialect: Dialect = USUAL.dialect,
) -> None:
    """Write columns of equal length: text by a function, numbers and dates as pandas does."""
    alone = '""' if len(columns) == 1 else ""  # else readers would skip the line
    with path.open("w", encoding=dialect.encoding, newline="") as file:
        file.write(dialect.separator.join(text(column.name) for column in columns) + "\n")
        for begin in range(0, len(columns[0].values) if columns else 0, ROWS):
            cells = [_cells(c, slice(begin, begin + ROWS), text, dialect.decimal) for c in columns]
            file.writelines(
                (dialect.separator.join(row) or alone) + "\n" for row in zip(*cells, strict=True)
            )


def _cells(
    column: WrittenColumn, rows: slice, text: Callable[[Any], str], decimal: str
) -> list[str]:
    values = column.values[rows]
    if isinstance(values.dtype, pd.StringDtype | pd.CategoricalDtype):
        of = pd.Categorical(values)
        texts = [*map(text, of.categories), column.missing]  # the last where the code is -1
        return [texts[code] for code in of.codes.tolist()]
    if values.dtype.kind in "OTU":
        pairs = zip(values, pd.isna(values), strict=True)
        return [column.missing if gone else text(value) for value, gone in pairs]
    how: Any = {"sep": "\t", "decimal": decimal, "na_rep": column.missing, "lineterminator": "\n"}
    found: str = pd.Series(values).to_csv(index=False, header=False, **how)
    return found.replace('""', "").split("\n")[:-1]
