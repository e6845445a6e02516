"""Kinds of files: what the name says, and what the first bytes say."""

from collections import Counter
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from bayes_risk._core.errors import InputError

DELIMITED = (".csv", ".csv.gz")
STATISTICAL = (".dta", ".sav", ".zsav", ".sas7bdat", ".xpt")
SUFFIXES = (*DELIMITED, ".parquet", *STATISTICAL, ".xlsx")
CURES = {  # how to export what is not read
    (".xls", ".ods"): "save it as .xlsx, or as a CSV in UTF-8",
    (".rds",): "in R: write.csv(readRDS(file), new_file, row.names = FALSE)",
    (".rdata", ".rda"): "in R: load(file), then write.csv(table, new_file, row.names = FALSE)",
}
BEGINNINGS = {
    b"$FL2": (".sav", ".zsav"),
    b"$FL3": (".zsav", ".sav"),
    b"<stata_dta>": (".dta",),
    b"PAR1": (".parquet",),
    b"HEADER RECORD": (".xpt",),
    b"\x1f\x8b": (".csv.gz",),
    b"PK\x03\x04": (".xlsx or .zip", ".xlsx"),
}

MAX_COLUMNS = 10_000
# What packed files may unpack to: so many bytes, or so many times their size where that is more.
UNPACKED = {".csv.gz": (100_000_000, 200), ".parquet": (10**9, 1_000), ".zsav": (10**9, 1_000)}
UNPACKED[".xlsx"] = UNPACKED[".csv.gz"]
UNPACKED[".json.gz"] = (20_000_000, 100)


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
        cure = next((cure for ends, cure in CURES.items() if name.endswith(ends)), "")
        cure = cure or f"give a file ending in {', '.join(SUFFIXES)}"
        raise InputError(f"{str(file)!r} is of no known kind; {cure}")
    for first, kinds in BEGINNINGS.items():
        if _start(file).startswith(first) and suffix not in kinds:
            raise InputError(
                f"{str(file)!r} begins as a {kinds[0]} file does; rename it, or export it as a "
                f"{suffix} file"
            )
    return suffix


def check_header(names: Sequence[str], file: Path) -> None:
    """Refuse more columns than are read, and names that stand there twice."""
    if len(names) > MAX_COLUMNS:
        raise InputError(
            f"{str(file)!r} has {len(names):,} columns, and at most {MAX_COLUMNS:,} are read; "
            "leave out those that nobody needs, or write rows and columns the other way round"
        )
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise InputError(f"{str(file)!r} names columns {repeated} more than once; rename one")


def check_unpacked(size: int, file: Path, suffix: str) -> None:
    """Refuse a packed file of `size` bytes, or more, when it is unpacked."""
    (least, times), packed = UNPACKED[suffix], file.stat().st_size
    most = max(least, times * packed)
    if size > most:
        raise InputError(
            f"{str(file)!r} unpacks to more than {most:,} bytes, {most // max(packed, 1):,} times "
            "its size; is it a damaged file? If it is whole, write it unpacked, a table as a CSV"
        )


def broken(file: Path, what: str) -> InputError:
    """Say that a file cannot be read, and why."""
    if not _start(file):
        return InputError(f"{str(file)!r} is empty; give the whole file")
    return InputError(f"{str(file)!r} {what}")


def _start(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(16)
