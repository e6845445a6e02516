"""Tables from delimited text: all that pandas would repair in silence is looked for first."""

import csv
import gzip
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bayes_risk._core.errors import InputError

from .kinds import broken, check_header, check_unpacked
from .levels import chosen


class Dialect(NamedTuple):
    """How fields are kept apart, and how a quote inside quotes is written (None: twice)."""

    separator: str
    escape: str | None = None


COMMA = Dialect(",")


def read_delimited(
    file: Path,
    dialect: Dialect,
    *,
    columns: Sequence[str] | None = None,
    text: Collection[str] = (),
    na: Collection[str] = (),
) -> pd.DataFrame:
    """Read delimited text (UTF-8, one header line), plain or gzipped."""
    with _read_errors(file):
        if file.name.lower().endswith(".gz"):
            _check_packed(file)
        header = _checked_header(file, dialect)
        wanted = None if columns is None else chosen(columns, header, file)
        source = file if not na else StringIO(_emptied(_text(file), dialect, _checked_na(na)))
        table = pd.read_csv(
            source,
            sep=dialect.separator,
            escapechar=dialect.escape,
            doublequote=dialect.escape is None,
            names=header,
            header=0,
            usecols=wanted,
            keep_default_na=False,
            na_values=[""],
            dtype=dict.fromkeys(text, str),
        )
    return table if wanted is None else table[wanted]


def _checked_header(file: Path, dialect: Dialect) -> list[str]:
    """Every row has as many fields as the header, and the header names each column once."""
    with _opened(file) as opened:
        rows = csv.reader(
            opened,
            delimiter=dialect.separator,
            escapechar=dialect.escape,
            doublequote=dialect.escape is None,
        )
        header = next(_without_nul(rows, file), None)
        if not header:
            raise InputError(f"{str(file)!r} is empty; its first line must name the columns")
        check_header(header, file)
        for row in _without_nul(rows, file):
            if row and len(row) != len(header):
                raise InputError(
                    f"line {rows.line_num} of {str(file)!r} has {len(row)} fields and the header "
                    f"{len(header)}; quote fields that hold commas, and fill or delete the row"
                )
    return header


def _without_nul(rows: Iterator[list[str]], file: Path) -> Iterator[list[str]]:
    """NUL characters end a field without a word: an error."""
    for row in rows:
        if any("\0" in field for field in row):
            raise InputError(
                f"{str(file)!r} holds NUL characters, as files in UTF-16 do; save it as UTF-8"
            )
        yield row


def _checked_na(na: Any) -> list[str]:
    if isinstance(na, str) or not all(isinstance(word, str) and word for word in na):
        raise InputError(f'na={na!r} is no list of texts; give one: na=["NA"]')
    return list(na)


def _emptied(text: str, dialect: Dialect, na: Sequence[str]) -> str:
    """Empty the fields that hold a word of `na`; what stands in quotes is a value and stays."""
    end = re.escape(dialect.separator)
    quoted = r'"(?:[^"\\]|\\.)*"' if dialect.escape else r'"(?:[^"]|"")*"'
    words = "|".join(re.escape(word) for word in na)
    field = re.compile(rf"{quoted}|(?<![^{end}\n])(?:{words})(?![^{end}\r\n])", re.DOTALL)
    return field.sub(lambda m: m[0] if m[0].startswith('"') else '""', text)


def _text(file: Path) -> str:
    with _opened(file) as opened:
        return str(opened.read())


def _opened(file: Path) -> Any:
    opener = gzip.open if file.name.lower().endswith(".gz") else open
    return opener(file, "rt", encoding="utf-8-sig", newline="")


def _check_packed(file: Path) -> None:
    """Unpack a file in pieces that nobody keeps, no further than packed files may."""
    with gzip.open(file) as opened:
        while opened.read(1 << 20):
            check_unpacked(opened.tell(), file, ".csv.gz")


@contextmanager
def _read_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise broken(file, f"is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    except (gzip.BadGzipFile, EOFError, csv.Error, pd.errors.ParserError) as error:
        raise broken(file, f"could not be read: {error}; is it whole, and a CSV?") from None
