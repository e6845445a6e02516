"""Kinds of files: what the name says, and what the first bytes say."""

from os import PathLike
from pathlib import Path
from typing import Any

from bayes_risk._core.errors import InputError

DELIMITED = (".csv", ".csv.gz")
STATISTICAL = (".dta", ".sav", ".zsav", ".sas7bdat", ".xpt")
SUFFIXES = (*DELIMITED, ".parquet", *STATISTICAL)
BEGINNINGS = {
    b"$FL2": (".sav", ".zsav"),
    b"$FL3": (".zsav", ".sav"),
    b"<stata_dta>": (".dta",),
    b"PAR1": (".parquet",),
    b"HEADER RECORD": (".xpt",),
    b"\x1f\x8b": (".csv.gz",),
    b"PK\x03\x04": (".xlsx or .zip",),
}


def checked_file(path: str | PathLike[str] | Any) -> Path:
    """Give the path of a file that is there."""
    if not isinstance(path, str | PathLike):
        raise InputError(f"path is a {type(path).__name__}; give the path of a file")
    file = Path(path)
    if not file.is_file():
        raise InputError(f"there is no file {str(file)!r}; check the path")
    return file


def kind_of(file: Path) -> str:
    """Give the suffix that says how to read a file; its first bytes must not say another kind."""
    name = file.name.lower()
    suffix = next((end for end in SUFFIXES if name.endswith(end)), None)
    if suffix is None:
        raise InputError(
            f"{str(file)!r} is of no known kind; give a file ending in {', '.join(SUFFIXES)}"
        )
    start = _start(file)
    for first, kinds in BEGINNINGS.items():
        if start.startswith(first) and suffix not in kinds:
            raise InputError(
                f"{str(file)!r} begins as a {kinds[0]} file does; rename it, or export it as a "
                f"{suffix} file"
            )
    return suffix


def broken(file: Path, what: str) -> InputError:
    """Say that a file cannot be read, and why."""
    if not _start(file):
        return InputError(f"{str(file)!r} is empty; give the whole file")
    return InputError(f"{str(file)!r} {what}")


def _start(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(16)
