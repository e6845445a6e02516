"""Delimited text as programs write it: what a file leaves unsaid is told from it, and said."""

import codecs
import csv
import gzip
import io
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns

from .kinds import broken, check_header, check_unpacked
from .variables import FEW, holds_text

SEPARATORS = (",", ";", "\t", "|")
SAMPLE = 200_000  # characters, and rows, that a file is judged by
ROWS = 1_000
SETTLED = "; say it to be sure"
ROW_NAMES = "row.names"  # R's, which its `write.table` puts under no header
NO_NUMBER = ("NA", ".", "NaN", "nan", "N/A", "#N/A", "NULL", "null", "-", "?")
BLANKS = "[ \u00a0\u202f]"  # for thousands
REAL = re.compile(rf"-?\d(?:\d|{BLANKS})*([,.])\d+")
SPACED = re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:{BLANKS}\d{{3}})+(?:[.,]\d+)?")
# Letters and signs of Western languages: what text in Windows-1252 holds, and damaged files do not
WESTERN = frozenset(
    "àáâãäåæçèéêëìíîïñòóôõöøùúûüßœÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜŒ–—‘’“”«»€£§°ºª²³½…¡¿·\u00a0"
)


class Dialect(NamedTuple):
    """How fields are kept apart and a quote inside quotes is written (None: twice); numbers, bytes.

    ``row_names``: the rows have a field more than the header, the first, as R's `write.table` does.
    """

    separator: str = ","
    escape: str | None = None
    decimal: str = "."
    encoding: str = "utf-8-sig"
    row_names: bool = False

    @property
    def reader(self) -> dict[str, Any]:
        """As the standard library's reader wants it."""
        quotes = {"escapechar": self.escape, "doublequote": self.escape is None}
        return {"delimiter": self.separator, **quotes}


def read_delimited(
    file: Path,
    dialect: Dialect | None = None,
    *,
    columns: Sequence[str] | None = None,
    text: Collection[str] = (),
    na: Collection[str] = (),
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """Read delimited text (one header line), plain or gzipped; what is not given is told from it.

    Warns of whatever is not comma, decimal point, UTF-8, and of numbers that stay text for a word.
    """
    if isinstance(na, str) or not all(isinstance(word, str) and word for word in na):
        raise InputError(f'na={na!r} is no list of texts; give one: na=["NA"]')
    with _read_errors(file):
        if file.name.lower().endswith(".gz"):  # in pieces that nobody keeps
            with gzip.open(file) as opened:
                while opened.read(1 << 20):
                    check_unpacked(opened.tell(), file, ".csv.gz")
        dialect = dialect or dialect_of(file, separator, decimal, encoding)
        header = _checked_header(file, dialect)
        if columns is not None:
            columns = known_columns("columns", columns, header, repr(str(file)))
        source: Any = file
        if na:
            with _opened(file, dialect) as opened:
                source = io.StringIO(_emptied(opened.read(), dialect, list(na)))
        table: pd.DataFrame = pd.read_csv(
            source,
            **dialect.reader,
            decimal=dialect.decimal,
            encoding=dialect.encoding,
            names=header,
            header=0,
            index_col=False,
            usecols=columns,
            keep_default_na=False,
            na_values=[""],
            dtype=dict.fromkeys(text, str),
        )
    for name in (c for c in table.columns.difference([*text]) if holds_text(table[c])):
        numbers = numbers_in(table[name], dialect.decimal)
        words, cure = numbers.index[numbers.isna()], ""
        if words.empty and any(map(SPACED.fullmatch, numbers.index)):
            found, what = numbers.to_dict(), "blanks for thousands, and was read so"
            table[name] = table[name].map(lambda x, of=found: of[str(x)], na_action="ignore")
            cure = "keep it as text by levels=, if they are none"
        elif len(words) == 1 and len(numbers) > 2 and words[0] in NO_NUMBER and not na:
            what = f"{words[0]!r}, so it is text"
            cure = f'if that means a missing value, give na=["{words[0]}"]'
        elif len(numbers) - len(words) > max(FEW, len(words)) and len(words):
            where = table[name].astype(str).isin(words).to_numpy() & table[name].notna().to_numpy()
            what = f"text (in {where.sum():,} rows, first row {where.argmax() + 1}), so it is text"
            cure = "words for a missing value are named by na, the decimal mark by decimal"
        if cure:
            said = f"column {name!r} of {str(file)!r} holds numbers and {what}; {cure}"
            warnings.warn(said, stacklevel=1)
    return table if columns is None else table[columns]


def numbers_in(column: pd.Series, decimal: str) -> pd.Series:
    """Numbers of the different texts of a column, which are its index; NaN for words."""
    texts = pd.Index(column.dropna().unique(), dtype=object).map(str)
    plain = [re.sub(BLANKS, "", x) if SPACED.fullmatch(x) else x for x in texts]
    values = pd.Series([x.replace(decimal, ".") for x in plain], texts, dtype=object)
    return pd.to_numeric(values, errors="coerce").mask(texts.isin(NO_NUMBER))


# --- what the file looks like -----------------------------------------------------------------


def dialect_of(
    file: Path,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Dialect:
    """What is given, and of the rest what the beginning of the file looks like."""
    single = isinstance(separator, str) and re.fullmatch('[^"\r\n\0]', separator)
    if separator is not None and not single:
        raise InputError(f"separator={separator!r} is no single character; give one such as ';'")
    if decimal not in (None, ".", ",") or (decimal == "," and separator == ","):
        raise InputError(f"decimal={decimal!r}; give '.' or ',', and another separator than it")
    try:
        codecs.lookup("utf-8" if encoding is None else encoding)
    except (LookupError, TypeError):
        raise InputError(
            f"encoding={encoding!r} is not known; give one such as 'utf-8' or 'cp1250'"
        ) from None
    if encoding is not None and codecs.lookup(encoding).name == "utf-8":
        encoding = Dialect().encoding  # with a mark or without
    plain = Dialect(separator or ",", None, decimal or ".", encoding or _encoding_of(file))
    with _opened(file, plain) as opened:
        sample = opened.read(SAMPLE)
    lines = sample.splitlines(keepends=True)
    lines = lines[:-1] if len(sample) == SAMPLE and len(lines) > 1 else lines
    rows = {s: _rows(lines, s) for s in ([separator] if separator else SEPARATORS)}
    best = max(rows, key=lambda s: len(rows[s][0]) if rows[s] else 0)
    found = plain._replace(separator=best if rows[best] else plain.separator)
    fields = (REAL.fullmatch(x) for row in rows[best][1:] for x in row)
    if decimal is None and found.separator != "," and {x[1] for x in fields if x} == {","}:
        found = found._replace(decimal=",")
    if rows[best] and len(rows[best]) > 1 and len(rows[best][1]) > len(rows[best][0]):
        found = found._replace(row_names=True)
        more = f"the rows of {str(file)!r} have a field more than its header: {ROW_NAMES!r}"
        warnings.warn(more, stacklevel=1)
    usual = zip(Dialect._fields, found, Dialect(), strict=True)
    given = {"separator": separator, "decimal": decimal, "encoding": encoding}
    told = [f"{k}={v!r}" for k, v, first in usual if k in given and given[k] is None and v != first]
    if told:
        said = f"{str(file)!r} looks as if {', '.join(told)}, and was read so{SETTLED}"
        warnings.warn(said, stacklevel=1)
    return found


def _rows(lines: Sequence[str], separator: str) -> list[list[str]]:
    """The first rows, if the separator parts all of them alike; else none."""
    try:
        rows = [row for row in csv.reader(lines, delimiter=separator) if row][:ROWS]
    except csv.Error:
        return []
    if not rows or len(rows[0]) == 1:
        return []
    sizes = {len(row) for row in rows[1:]} or {len(row) for row in rows}
    names = [row[0] for row in rows[1:]]
    with_names = sizes == {len(rows[0]) + 1} and all(names) and len({*names}) == len(names) > 1
    return rows if (sizes == {len(rows[0])} or with_names) else []


def _encoding_of(file: Path) -> str:
    """UTF-8, UTF-16 where the first bytes say it, or Windows-1252 where it gives Western text."""
    with _binary(file) as opened:
        if opened.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
    usual = Dialect().encoding
    for encoding in (usual, "cp1252"):
        with suppress(UnicodeDecodeError), _opened(file, Dialect(encoding=encoding)) as text:
            held: set[str] = set()
            while part := text.read(1 << 20):
                held |= set() if part.isascii() else set(part)
            if encoding == usual or {c for c in held if not c.isascii()} <= WESTERN:
                return encoding
    return usual


def _checked_header(file: Path, dialect: Dialect) -> list[str]:
    """Every row has as many fields as the header, and the header names each column once."""
    with _opened(file, dialect) as opened:
        reader = csv.reader(opened, **dialect.reader)
        rows = _without_nul(reader, file)
        header = next(rows, None)
        if not header:
            raise InputError(f"{str(file)!r} is empty; its first line must name the columns")
        header = [ROW_NAMES, *header] if dialect.row_names else header
        check_header(header, file)
        for row in rows:
            if row and len(row) != len(header):
                raise InputError(
                    f"line {reader.line_num} of {str(file)!r} has {len(row)} fields and the header "
                    f"{len(header)}; quote fields that hold {dialect.separator!r}, and fill or "
                    "delete the row"
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


def _emptied(text: str, dialect: Dialect, na: Sequence[str]) -> str:
    """Empty the fields that hold a word of `na`; what stands in quotes is a value and stays."""
    end = re.escape(dialect.separator)
    quoted = r'"(?:[^"\\]|\\.)*"' if dialect.escape else r'"(?:[^"]|"")*"'
    words = "|".join(_spelt(word, re.escape(dialect.decimal)) for word in na)
    field = re.compile(rf"{quoted}|(?<![^{end}\n])(?:{words})(?![^{end}\r\n])", re.DOTALL)
    return field.sub(lambda m: m[0] if m[0].startswith('"') else '""', text)


def _spelt(word: str, point: str) -> str:
    """The pattern of a word; a number is compared as one: -8 is -8,0 too."""
    number = re.fullmatch(rf"([+-]?\d+)(?:{point}(\d*?)0*)?", word)
    if number is None:
        return re.escape(word)
    digits = rf"{point}{number[2]}0*" if number[2] else rf"(?:{point}0*)?"
    return re.escape(number[1]) + digits


def _opened(file: Path, dialect: Dialect) -> Any:
    return io.TextIOWrapper(_binary(file), encoding=dialect.encoding, newline="")


def _binary(file: Path) -> Any:
    return gzip.open(file) if file.name.lower().endswith(".gz") else file.open("rb")


@contextmanager
def _read_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        what = f"is not {error.encoding.upper()} text ({error.reason}); save it as UTF-8, or say"
        raise broken(file, f'{what} what it is: encoding="cp1250"') from None
    except (gzip.BadGzipFile, EOFError, csv.Error, pd.errors.ParserError) as error:
        raise broken(file, f"could not be read: {error}; is it whole, and a CSV?") from None
