"""Excel workbooks of one sheet: a column is of the kind that its cells are stored as."""

import datetime as dt
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns

from .kinds import check_header, check_names, check_package, check_unpacked, readers_errors
from .reader import read_apart
from .spelling import MISSING_WORDS, as_text

LONGEST = 10**18 - 1  # whole numbers of more digits are text, as in CSVs


def read_xlsx(file: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read the only sheet of a workbook that holds anything; formulas as last computed."""
    cure = '"bayes-risk[excel]", or save the sheet as a CSV (in Excel: Save As, CSV UTF-8)'
    check_package("openpyxl", file, cure)
    sheets = read_apart(file, ".xlsx")
    if len(sheets) != 1:
        what = f"data in the sheets {list(sheets)}" if sheets else "nothing in its sheets"
        raise InputError(f"{str(file)!r} holds {what}; give a file with one table in one sheet")
    names, *rows = next(iter(sheets.values()))
    names += [None] * (max(map(len, rows), default=0) - len(names))
    header = ["" if name is None else as_text(name) for name in names]
    some = [["" if cell is None else as_text(cell) for cell in row] for row in rows[:100]]
    check_names(header, some, file)
    check_header(header, file)
    cells = [[row[j] if j < len(row) else None for row in rows] for j in range(len(header))]
    table = pd.DataFrame(dict(zip(header, map(_column, cells), strict=True)))
    return table if columns is None else table[known_columns("columns", columns, header, str(file))]


def _column(cells: list[Any]) -> pd.Series:
    """Numbers, dates, truth values if all cells are, else text; words for missing as in CSVs."""
    filled = [cell for cell in cells if cell is not None]
    numbers = [
        cell for cell in filled if isinstance(cell, int | float) and not isinstance(cell, bool)
    ]
    texts = [cell for cell in filled if isinstance(cell, str)]
    beyond = any(isinstance(cell, int) and abs(cell) > LONGEST for cell in numbers)
    if len(texts) + len(numbers) == len(filled) and numbers and not beyond:
        if all(text.strip().lower() in MISSING_WORDS for text in texts):
            known = [None if isinstance(cell, str) else cell for cell in cells]
            if any(isinstance(cell, float) for cell in numbers):
                return pd.Series(known, dtype=float)
            return pd.Series(known, dtype="Int64" if None in known else "int64")
    if filled and all(isinstance(cell, dt.datetime) for cell in filled):
        return pd.Series(pd.to_datetime(pd.Series(cells)).astype("datetime64[us]"))
    if all(isinstance(cell, bool) for cell in filled):
        return pd.Series(cells, dtype=object).infer_objects()
    return pd.Series([None if cell is None else as_text(cell) for cell in cells], dtype="str")


# --- in the process that reads --------------------------------------------------------------------


def stored(file: Path, suffix: str) -> dict[str, list[list[Any]]]:
    """Rows of the sheets that hold anything."""
    from openpyxl import load_workbook

    with readers_errors(file, "is not a readable .xlsx file ({}); is it whole? Save it as a CSV"):
        with zipfile.ZipFile(file) as packed:
            check_unpacked(sum(part.file_size for part in packed.infolist()), file, suffix)
        with file.open("rb") as opened:
            book = load_workbook(opened, read_only=True, data_only=True)
            sheets = {sheet.title: _rows(sheet, file, suffix) for sheet in book.worksheets}
    return {name: rows for name, rows in sheets.items() if rows}


def _rows(sheet: Any, file: Path, suffix: str) -> list[list[Any]]:
    """Rows that hold anything, without what is empty at their ends."""
    found: list[list[Any]] = []
    size = 0
    sheet.reset_dimensions()  # what a file states of its size may be less than it holds
    for row in sheet.iter_rows(values_only=True):
        cells = [None if cell == "" else cell for cell in row]
        while cells and cells[-1] is None:
            cells.pop()
        if cells:
            found.append(cells)
            size += sum(len(cell) if isinstance(cell, str) else 8 for cell in cells)
            if len(found) % 100 == 1:
                check_unpacked(size, file, suffix)
    check_unpacked(size, file, suffix)
    return found
