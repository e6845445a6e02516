"""Which files a run read and wrote: name, rows, columns and SHA-256 of each; what the data hold."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.api import types

from bayes_risk.data.writing import synthetic_name

if TYPE_CHECKING:
    from .release import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file that a run read or wrote."""

    # "data"; "release 1", ...; "release 1 of CANDIDATE"; "release 1, written"; "evidence 1", ...
    role: str
    name: str  # name of the file, without its folder
    sha256: str  # of the bytes of the file, as ``sha256sum`` gives it
    # records, and columns without the labels of the records; None: it holds no records
    rows: int | None = None
    columns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Provenance:
    """What a run started from."""

    files: tuple[DataFile, ...]  # the data first, then every release file that was audited
    described: pd.DataFrame  # from `describe`


def data_hash(source: Path | pd.DataFrame) -> str:
    """SHA-256 of a file (as ``sha256sum`` gives it) or of a table that came from no file.

    Whoever knows every record but one can test guesses for that one against the hash, so the
    manifest stays with the agency.
    """
    if isinstance(source, pd.DataFrame):
        return hashlib.sha256(source.to_csv(lineterminator="\n").encode()).hexdigest()
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def data_file(role: str, path: Path, table: pd.DataFrame) -> DataFile:
    """The file that a table was read from, or written to."""
    rows, columns = table.shape
    return DataFile(role=role, name=path.name, rows=rows, columns=columns, sha256=data_hash(path))


def release_files(
    paths: Sequence[Path], tables: Sequence[pd.DataFrame], *, note: str = ""
) -> tuple[DataFile, ...]:
    """The files of m data sets, in their order."""
    return tuple(
        data_file(f"release {l}{note}", path, table)
        for l, (path, table) in enumerate(zip(paths, tables, strict=True), start=1)
    )


def written_files(folder: Path, release: "Release") -> tuple[DataFile, ...]:
    """The files of a release that a run wrote: ``synthetic-1.csv``, ..."""
    paths = [folder / synthetic_name(l) for l in range(1, release.m + 1)]
    return release_files(paths, release.datasets, note=", written")


def describe(df: pd.DataFrame) -> pd.DataFrame:
    """What a table holds, without its values."""
    rows = []
    for _, column in df.items():
        levels = column.nunique()
        if isinstance(column.dtype, pd.CategoricalDtype):
            levels = len(column.cat.categories)
        rows.append((_kind(column), int(levels), int(column.isna().sum())))
    return pd.DataFrame(rows, index=df.columns.astype(str), columns=["kind", "levels", "missing"])


def _kind(column: "pd.Series[Any]") -> str:
    if types.is_bool_dtype(column.dtype):
        return "yes or no"
    if types.is_integer_dtype(column.dtype):
        return "whole number"
    if types.is_numeric_dtype(column.dtype):
        return "number"
    return "date" if types.is_datetime64_any_dtype(column.dtype) else "categorical"
