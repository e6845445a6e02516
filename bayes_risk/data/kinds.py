"""Kinds of files: what the name says, and what the first bytes say."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
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

NUMBER = re.compile(r"[+-]?(?:\d[\d \u00a0\u202f]*(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?")
DAY = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:[ T]\d.*)?|\d{4}-\d{2}")
MOST_ALIKE = 0.8  # fields of a first line that looks like a record

MAX_COLUMNS = 10_000
# What packed files may unpack to: so many bytes, or so many times their size where that is more.
UNPACKED = {".csv.gz": (100_000_000, 200), ".parquet": (10**9, 1_000), ".zsav": (10**9, 1_000)}
UNPACKED |= {".xlsx": UNPACKED[".csv.gz"], ".nc": UNPACKED[".parquet"]}
UNPACKED[".json.gz"] = (20_000_000, 100)


def checked_file(path: str | PathLike[str] | Any) -> Path:
    """Give the path of a file that is there."""
    if not isinstance(path, str | PathLike):
        raise InputError(f"path is a {type(path).__name__}; give the path of a file")
    file = Path(path)
    if file.exists() and not file.is_file() and not file.is_dir():
        raise InputError(f"{str(file)!r} is not a regular file; give the path of one")
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
            "leave out those that are not needed, or write rows and columns the other way round"
        )
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if any(_is_number(name) or DAY.fullmatch(name.strip()) for name in repeated):
        raise InputError(
            f"{str(file)!r} gives {len(repeated)} names to more than one column each, and a name "
            "is a number or date; does its first line name the columns? Rename them"
        )
    if repeated:
        raise InputError(f"{str(file)!r} names columns {repeated} more than once; rename one")


def check_names(header: Sequence[str], rows: Sequence[Sequence[str]], file: Path) -> None:
    """Refuse a first line that looks like a record: its fields would be names, and be told."""
    below = [[row[j].strip() for row in rows if j < len(row)] for j in range(len(header))]
    looks = [_looks(name.strip(), cells) for name, cells in zip(header, below, strict=True)]
    those = [j for j, look in enumerate(looks) if look == "number"]
    years = all(_is_year(x) for j in those for x in (header[j], *below[j]) if x)
    if not years and _counts([_as_number(header[j]) for j in those]):
        looks = ["" if look == "number" else look for look in looks]
    texts = [name.strip() for name, look in zip(header, looks, strict=True) if look == "text"]
    if _follow(texts):
        looks = ["" if look == "text" else look for look in looks]
    named, alike = sum(bool(name.strip()) for name in header), sum(map(bool, looks))
    values = alike - looks.count("text")
    if 2 * values > named or (alike > 1 and alike >= MOST_ALIKE * named):
        raise InputError(
            f"the first line of {str(file)!r} looks like a record: {alike} of its {named} fields "
            "are numbers, dates or texts as those below them; write the names of the columns "
            "above it, or give other names if these are the names (y2001)"
        )


def _looks(name: str, below: Sequence[str]) -> str:
    """Which kind of value of its column a name looks like: number, date, text or none ("")."""
    below = [cell for cell in below if cell]
    if DAY.fullmatch(name):
        days = sum(bool(DAY.fullmatch(cell)) for cell in below)
        return "date" if 2 * days >= len(below) else ""
    if _is_number(name):
        numbers = [_as_number(cell) for cell in below if _is_number(cell)]
        within = len(numbers) < 10 or min(numbers) <= _as_number(name) <= max(numbers)
        return "number" if within and 2 * len(numbers) >= len(below) else ""
    coded = bool(below) and any(map(str.isdigit, name)) and {*map(_shape, below)} == {_shape(name)}
    return "text" if coded or below.count(name) > 1 else ""


def _shape(text: str) -> str:
    """A text with 9 for runs of digits, and A, a for letters."""
    return re.sub(r"[^\W\d_]", lambda x: "A" if x[0].isupper() else "a", re.sub(r"\d+", "9", text))


def _is_number(text: str) -> bool:
    return bool(NUMBER.fullmatch(text.strip()))


def _is_year(text: str) -> bool:
    return _is_number(text) and 1800 <= (year := _as_number(text)) < 2200 and year.is_integer()


def _as_number(text: str) -> float:
    return float(re.sub(r"\s", "", text).replace(",", "."))


def _counts(numbers: Sequence[float]) -> bool:
    """Whether numbers count: equal steps, where there are two from 0 or 1; or years that rise."""
    steps = [b - a for a, b in pairwise(numbers)]
    if numbers and all(1800 <= x < 2200 and x.is_integer() for x in numbers):  # years
        return len(numbers) > 2 and min(steps) > 0 or all(0 < step <= 10 for step in steps)
    equal = all(abs(step - steps[0]) < 1e-9 * (abs(step) + 1) for step in steps)
    return equal and (len(steps) > 1 and steps[0] != 0 or steps == [1] and numbers[0] in (0, 1))


def _follow(names: Sequence[str]) -> bool:
    """Whether names are one stem with numbers that count, or letters one after the other."""
    ends = [re.fullmatch(r"(.*?)(\d{1,9})", name) for name in names]
    if all(ends):
        of = [end.groups() for end in ends if end]
        return len({stem for stem, _ in of}) == 1 and _counts([float(number) for _, number in of])
    letters = len(names) > 1 and all(len(name) == 1 for name in names)
    return letters and all(ord(b) - ord(a) == 1 for a, b in pairwise(names))


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


@contextmanager
def readers_errors(file: Path, what: str) -> Iterator[None]:
    """Name what another package fails with by its kind: its words may hold values of the data."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise broken(file, what.format(type(error).__name__)) from None


def check_package(name: str, file: Path, cure: str) -> None:
    """Refuse a file whose reader is not installed."""
    if find_spec(name) is None:
        raise InputError(f"reading {str(file)!r} needs {name}: pip install {cure}")


def _start(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(16)
