"""The data in a few words, and every file of a run with its hash."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Any, NamedTuple

import pandas as pd

from bayes_risk._core import __version__
from bayes_risk._core.formats import NONE, counted, ends_in_words, number

from .sections import TextTable

PACKAGES = (
    *("numpy", "pandas", "scipy", "numba", "xarray"),
    *("pymc", "arviz", "scikit-learn", "statsmodels"),
)
PARTS = ("arviz-stats",)  # of ArviZ 1, where R-hat is computed; earlier versions have no parts
KINDS = {
    "categorical": "categorical",
    "yes or no": "of yes or no",
    "whole number": "of whole numbers",
    "number": "of numbers",
    "date": "of dates",
}


class Origin(NamedTuple):
    """The section "Data and files": a sentence, the columns, the files."""

    sentence: str
    columns: TextTable
    files: TextTable


def origin(
    found: Any,
    *,
    files: Sequence[Mapping[str, Any]],
    finished: str = "",
    synthesised: Collection[str] = (),
    not_written: int = 0,
) -> Origin:
    """Make the section."""
    return Origin(
        sentence=data_in_words(found.described, int(files[0]["rows"])),
        columns=_columns(found.described, synthesised),
        files=_files(files, finished, not_written),
    )


def data_in_words(described: pd.DataFrame, rows: int) -> str:
    """Records, columns by kind, and missing values."""
    kinds = []
    for kind, words in KINDS.items():
        levels = described["levels"][described["kind"] == kind]
        if len(levels):
            ends = ends_in_words(f"{levels.min():,}", f"{levels.max():,}")
            span = f" ({ends} levels)" * (kind == "categorical")
            kinds.append(f"{len(levels):,} {words}{span}")
    without = described["missing"][described["missing"] > 0]
    gaps = "no value is missing"
    if len(without):
        where = counted(len(without), "column")
        gaps = f"{number(int(without.sum()))} values are missing, in {where}"
    size = f"{counted(rows, 'record')}, {counted(len(described), 'column')}"
    return f"{size}: {', '.join(kinds)}; {gaps}."


def _columns(described: pd.DataFrame, synthesised: Collection[str]) -> TextTable:
    heads: tuple[str, ...] = ("Column", "Kind", "Levels or distinct values", "Missing")
    rows: list[tuple[str, ...]] = [
        (str(name), str(kind), number(levels), number(missing))
        for name, kind, levels, missing in described[["kind", "levels", "missing"]].itertuples()
    ]
    if synthesised:
        heads = (*heads, "Synthesised")
        marks = ("yes" if name in synthesised else "no" for name in described.index)
        rows = [(*row, mark) for row, mark in zip(rows, marks, strict=True)]
    return TextTable("The confidential data as read.", heads, rows)


def _files(files: Iterable[Mapping[str, Any]], finished: str, not_written: int) -> TextTable:
    rows = []
    for file in files:
        size = NONE
        if file["rows"] is not None:
            size = f"{counted(file['rows'], 'record')}, {counted(file['columns'], 'column')}"
        rows.append((str(file["name"]), str(file["role"]), size, str(file["sha256"]) or NONE))
    caption = f"{f'Run finished {in_full(finished)}. ' if finished else ''}Files read and written."
    if not_written:
        made = "release was" if not_written == 1 else f"{not_written:,} releases were"
        caption += f" The {made} made in this run and not written to a file."
    return TextTable(caption, ("File", "Role", "Size", "SHA-256"), rows)


def in_full(moment: str) -> str:
    """A moment as people write it: 3 May 2026, 09:30 UTC."""
    at = datetime.fromisoformat(moment)
    return f"{at.day} {at:%B %Y, %H:%M} UTC"


def versions() -> dict[str, str]:
    """Python's version and those of the packages that the numbers depend on."""
    found = {"bayes_risk": __version__, "python": python_version()}
    for package in (*PACKAGES, *PARTS):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            if package not in PARTS:
                found[package] = "not installed"
    return found
