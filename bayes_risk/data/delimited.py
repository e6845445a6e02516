"""Delimited text as programs write it: what a file leaves unsaid is told from it, and said."""

import codecs
import csv
import gzip
import io
import re
import warnings
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns

from .kinds import broken, check_header, check_names, check_unpacked
from .spelling import MISSING_WORDS
from .variables import FEW, WHOLE, holds_text

SEPARATORS = (",", ";", "\t", "|")
SAMPLE = 200_000  # characters, and rows, that a file is judged by
ROWS = 1_000
SETTLED = "; to be sure, give `separator`, `decimal` and `encoding`"
ROW_NAMES = "row.names"  # R's, which its `write.table` puts under no header
WORDS_READ = "words for missing values"  # attribute of a table: those found among numbers
BATCH = 100  # rows whose fields are looked at together
BLANKS = "[ \u00a0\u202f]"  # for thousands
REAL = re.compile(rf"-?\d(?:\d|{BLANKS})*([,.])\d+")
SPACED = re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:{BLANKS}\d{{3}})+(?:[.,]\d+)?")
NUMERIC = re.compile(r" *[+-]?[.,]?\d")
# Of fields between line ends: codes, such as 01 and 1E1 (programs write 1e+01 or 1.0E1); numbers
# that may be written in another way, too, filled with zeros or not
CODED = re.compile(r"\n *[+-]?(?:0\d|\d+[eE]\d)")
OTHERWISE = re.compile(r"\n *(?:\+|-?[.,])|[.,] *\n")
FILLED = re.compile(r"[.,]\d+0 *\n")
DECIMALS = re.compile(r"[.,](\d*) *\n")
SPACES = re.compile(rf"\n[+-]?[1-9]\d{{0,2}}(?:{BLANKS}\d{{3}})+(?:[.,]\d+)? *\n")
# Letters and signs of Western languages: what text in Windows-1252 holds, and damaged files do not
WESTERN = frozenset(
    "àáâãäåæçèéêëìíîïñòóôõöøùúûüßœÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜŒ–—‘’“”«»€£§°ºª²³½…¡¿·\u00a0"
)
EASTERN = re.compile("[£³][a-zà-ÿ]|[a-zà-ÿ]{3}[£³¿]")  # ł and ż of Windows-1250, misread


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
    numbers: Collection[str] = (),
    na: Collection[str] = (),
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """Read delimited text (one header line), plain or gzipped; what is not given is told by it."""
    if isinstance(na, str) or not all(isinstance(word, str) and word for word in na):
        raise InputError("na", na, 'is not a list of texts; give one: ["NA"]')
    with _read_errors(file, encoding):
        if file.name.lower().endswith(".gz"):  # in pieces that nobody keeps
            with gzip.open(file) as opened:
                while opened.read(1 << 20):
                    check_unpacked(opened.tell(), file, ".csv.gz")
        dialect = dialect or dialect_of(file, separator, decimal, encoding)
        header, looks = _looked_at(file, dialect, text, na)
        if columns is not None:
            columns = known_columns("columns", columns, header, repr(str(file)))
            looks = {name: look for name, look in looks.items() if name in columns}
        source: Any = file
        if na:
            with _opened(file, dialect) as opened:
                source = io.StringIO(_emptied(opened.read(), dialect, list(na)))
        table = _parsed(source, dialect, header, columns, dict.fromkeys(text, str))
        others = [c for c in table.columns if c not in {*text}]
        again = [c for c in others if _is_doubtful(table[c], looks.get(c))]
        if again:
            table[again] = _parsed(source, dialect, header, again, str)[again]
    absent: dict[tuple[str, ...], list[str]] = {}
    for name in others:
        column, look = table[name], looks.get(name)
        if pd.api.types.is_string_dtype(column.dtype) and holds_text(column):
            table[name], words, remark = _typed(column, dialect.decimal, name in numbers)
            if words:
                absent.setdefault(tuple(sorted(words)), []).append(name)
            if remark:
                remark = f"column {name!r} of {str(file)!r} holds numbers and {remark}"
                warnings.warn(remark, stacklevel=1)
        elif column.dtype == float and look and not look.point and column.notna().any():
            table[name] = column.astype("Int64")
    if absent:
        table.attrs[WORDS_READ] = sorted({word for markers in absent for word in markers})
    for markers, every in absent.items():
        names = [name for name in every if name not in numbers]  # else that was to be expected
        if not names:
            continue
        which, where = ", ".join(map(repr, markers)), f"the numbers of {names} in {str(file)!r}"
        cure = f'if it is a value, "text" as the levels of {names[0]!r} keeps it'
        warnings.warn(f"{which} among {where} is read as missing; {cure}", stacklevel=1)
    return table if columns is None else table[columns]


def _parsed(
    source: Any, dialect: Dialect, header: list[str], columns: Sequence[str] | None, dtype: Any
) -> pd.DataFrame:
    """What pandas makes of a file, in pieces, which may take a column for different kinds."""
    if isinstance(source, io.StringIO):
        source.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pd.errors.DtypeWarning)
        how: Any = {"usecols": columns, "dtype": dtype}
        table: pd.DataFrame = pd.read_csv(
            source,
            **dialect.reader,
            decimal=dialect.decimal,
            encoding=dialect.encoding,
            names=header,
            header=0,
            index_col=False,
            keep_default_na=False,
            na_values=[""],
            **how,
        )
    return table


class _Look:
    """What the fields of a column show that its numbers do not.

    ``doubtful``: codes, or numbers of which one may be written in two ways; ``point``: not whole.
    Numbers are written in one way if none ends in a zero after the mark; if all have as many
    decimals; or if whole ones, and no others, end in ``.0``.
    """

    doubtful = point = bare = zero = False
    decimals: set[int] | None = None  # of numbers that are filled with zeros

    def at(self, fields: list[str], mark: str, first: bool) -> None:
        """Look at the fields of some rows."""
        text = "\n" + "\n\n".join(fields) + "\n"
        plain = sum(map(text.count, ("\n0\n", f"\n0{mark}", f"\n-0{mark}")))
        usual = text.count("\n0") + text.count("\n-0") == plain
        if not usual or any(
            sign in text for sign in (*" +eE", f"\n{mark}", f"{mark}\n", f"-{mark}")
        ):
            self.doubtful = bool(CODED.search(text) or OTHERWISE.search(text))
        marks = text.count(mark)
        self.point = self.point or marks > 0 or "e-" in text or "E-" in text
        self.bare = self.bare or marks < len(fields) - fields.count("")
        if marks:
            zeros = text.count(f"{mark}0\n")
            self.zero = self.zero or zeros > 0
            if self.decimals is None and text.count("0\n") > zeros and FILLED.search(text):
                self.decimals = set() if first else {0, 1}
            if self.decimals is not None:
                self.decimals.update(map(len, DECIMALS.findall(text)))
        several = self.decimals is not None and len(self.decimals) + self.bare > 1
        self.doubtful = self.doubtful or several or (self.zero and self.bare)


def _is_doubtful(column: pd.Series, look: _Look | None) -> bool:
    """Whether the texts of a column must be seen to say what it is."""
    if column.dtype == object:  # truth values beside missing ones are no mixture
        return not all(isinstance(value, bool) for value in column.dropna())
    if column.dtype.kind == "u" or look is None or not pd.api.types.is_numeric_dtype(column.dtype):
        return column.dtype.kind == "u"
    large = column.dtype == float and not look.point and bool((column.abs() > WHOLE).any())
    return look.doubtful or large


def _typed(column: pd.Series, decimal: str, as_numbers: bool) -> tuple[pd.Series, list[str], str]:
    """Numbers where all texts are but words for missing ones, which are given, with a remark."""
    where, distinct = pd.factorize(column)
    numbers, words = numbers_in(distinct, decimal)
    blank = [word for word in words if word.strip().lower() in MISSING_WORDS]
    if len(blank) < len(words) or numbers.empty:
        if len(numbers) <= max(FEW, len(words)):
            return column, [], ""
        there = column.isin(words).to_numpy()
        what = f"text (in {there.sum():,} rows, first row {there.argmax() + 1}), so it is text"
        cure = "give words for missing values in `na`, the decimal mark in `decimal`"
        return column, [], f"{what}; {cure}"
    lines, remark = "\n".join(["", *numbers.index, ""]), ""
    whole = not re.search(f"[{decimal}eEfn]", lines)  # nor inf
    if whole and numbers.dtype != "int64":
        return column, [], ""
    if not as_numbers:
        if CODED.search(lines):
            return column, [], ""
        texts = numbers.index.str.strip()
        plain = ~texts.str.contains("[eE]")  # programs choose between 1e+05 and 100000
        if texts.where(numbers != 0, "0")[plain].nunique() > numbers[plain].nunique():
            cure = '"numbers" as its levels makes it numbers'
            return column, [], f"one of them in two spellings, so it is text; {cure}"
        if SPACES.search(lines):
            remark = "blanks for thousands, and was read so; keep it as text by levels, if they are"
            remark += " none"
    known = np.flatnonzero(~distinct.isin(words)) if words else np.arange(len(distinct))
    place = np.full(len(distinct) + 1, -1)  # the last: of what is missing
    place[known] = np.arange(len(known))
    exact = numbers.array if numbers.dtype == float else numbers.astype("Int64").array
    values = exact.take(place[where], allow_fill=True)
    kind = "int64" if numbers.dtype == "int64" and not values.isna().any() else None
    return pd.Series(values, column.index, kind, column.name), blank, remark


def numbers_in(distinct: pd.Index, decimal: str) -> tuple[pd.Series, list[str]]:
    """Numbers of different texts, which are their index; and texts that are none."""
    texts = pd.Index(distinct, dtype=object).map(str)
    plain = texts.tolist()
    if SPACES.search("\n".join(["", *plain, ""])):
        plain = [re.sub(BLANKS, "", x) if SPACED.fullmatch(x) else x for x in plain]
    if decimal != ".":
        plain = ["" if "." in x else x.replace(decimal, ".") for x in plain]
    values = pd.Series(plain, texts, dtype=object)
    numbers = pd.to_numeric(values, errors="coerce")
    known = numbers.notna()
    if known.all() or not known.any():
        return numbers[known], texts[~known].tolist()
    return pd.to_numeric(values[known]), texts[~known].tolist()


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
        raise InputError("separator", separator, "is not a single character; give one such as ';'")
    if decimal not in (None, ".", ",") or (decimal == "," and separator == ","):
        raise InputError("decimal", decimal, "; give '.' or ',', and another separator than it")
    try:
        "".encode("utf-8" if encoding is None else encoding)  # bytes to bytes: LookupError
    except (LookupError, TypeError, ValueError):
        raise InputError(
            "encoding", encoding, "is not known; give one such as 'utf-8' or 'cp1250'"
        ) from None
    plain = Dialect(separator or ",", None, decimal or ".", _encoding_of(file, encoding))
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
    seen = [f"{k} {v!r}" for k, v, first in usual if k in given and given[k] is None and v != first]
    if seen:
        message = f"{str(file)!r} is read with {', '.join(seen)}{SETTLED}"
        warnings.warn(message, stacklevel=1)
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


def _encoding_of(file: Path, given: str | None) -> str:
    """UTF-8, UTF-16 where the first bytes say it, or Windows-1252 where it gives Western text."""
    with _binary(file) as opened:
        if opened.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
    usual = Dialect().encoding  # with a mark or without
    if given is not None and codecs.lookup(given).name in ("utf-8", "utf-8-sig"):
        return usual
    for encoding in (usual, "cp1252") if given is None else (usual,):
        with suppress(UnicodeDecodeError), _opened(file, Dialect(encoding=encoding)) as text:
            chars, eastern = set[str](), False
            while part := text.read(1 << 20):
                chars |= set() if part.isascii() else {c for c in set(part) if not c.isascii()}
                eastern = eastern or bool(chars and EASTERN.search(part))
            if chars if given else encoding == usual or (chars <= WESTERN and not eastern):
                return encoding
    return given or usual


def _looked_at(
    file: Path, dialect: Dialect, text: Collection[str], na: Collection[str]
) -> tuple[list[str], dict[str, _Look]]:
    """Names of the columns, and a look at those whose first fields are numbers."""
    with _opened(file, dialect) as opened:
        reader = csv.reader(_checked(opened, file, dialect), **dialect.reader)
        header = next(reader, None)
        if not header:
            raise InputError(f"{str(file)!r} is empty; its first line must name the columns")
        header = [ROW_NAMES, *header] if dialect.row_names else header
        rows = list(islice(reader, BATCH))
        check_names(header, [row for row in rows if len(row) == len(header)], file)
        check_header(header, file)
        looks = {j: _Look() for j, name in enumerate(header) if name not in text}
        first = True
        while rows:
            if sizes := {*map(len, rows)} - {len(header)}:
                if sizes != {0}:
                    raise _wrong_length(file, dialect, len(header))
                rows = [row for row in rows if row]
            for j in [j for j, look in looks.items() if not look.doubtful]:
                fields = [row[j] for row in rows]
                shown = (
                    x for x in fields if x not in na and x.strip().lower() not in MISSING_WORDS
                )
                if first and not NUMERIC.match(next(shown, "0")):
                    del looks[j]
                    continue
                looks[j].at(fields, dialect.decimal, first)
            first = False
            rows = list(islice(reader, BATCH))
    return header, {header[j]: look for j, look in looks.items()}


def _wrong_length(file: Path, dialect: Dialect, names: int) -> InputError:
    with _opened(file, dialect) as opened:
        reader = csv.reader(opened, **dialect.reader)
        fields = next(len(row) for row in islice(reader, 1, None) if row and len(row) != names)
        return InputError(
            f"line {reader.line_num} of {str(file)!r} has {fields} fields and the header {names}; "
            f"quote fields that hold {dialect.separator!r}, fill or delete the row, or give "
            "another `separator`"
        )


def _checked(lines: Iterator[str], file: Path, dialect: Dialect) -> Iterator[str]:
    """Lines of a file but for what pandas reads otherwise, without a word.

    A NUL character ends a field; of an empty line that a carriage return alone ends it leaves out
    the separator that begins the next one, so that all values stand one column to the left.
    """
    before = ""
    for line in lines:
        if "\0" in line:
            raise InputError(
                f"{str(file)!r} holds NUL characters, as files in UTF-16 do; save it as UTF-8"
            )
        if before == "\r" and line.startswith(dialect.separator):
            raise InputError(
                f"{str(file)!r} holds an empty line that ends in a carriage return alone; "
                "remove the empty lines, or save the file with lines that end in line feeds"
            )
        before = line
        yield line


def _emptied(text: str, dialect: Dialect, na: Sequence[str]) -> str:
    """Empty the fields that hold a word of `na`; what stands in quotes is a value and stays."""
    end = re.escape(dialect.separator)
    quoted = r'"(?:[^"\\]|\\.)*"' if dialect.escape else r'"(?:[^"]|"")*"'
    words = "|".join(spelt(word, re.escape(dialect.decimal)) for word in na)
    begins, ends = rf"(?<![^{end}\r\n])", rf"(?![^{end}\r\n])"
    field = re.compile(rf"{begins}(?:{quoted}|(?:{words}){ends})", re.DOTALL)
    return field.sub(lambda m: m[0] if m[0].startswith('"') else '""', text)


def spelt(word: str, point: str) -> str:
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
def _read_errors(file: Path, encoding: str | None) -> Iterator[None]:
    try:
        yield
    except UnicodeError as error:  # which some codecs raise without more
        kind = getattr(error, "encoding", encoding or "").upper()
        why = f" ({error.reason})" if isinstance(error, UnicodeDecodeError) else ""
        what = f"is not {kind} text{why}; save it as UTF-8, or give"
        raise broken(file, f'{what} what it is: `encoding="cp1250"`') from None
    except (gzip.BadGzipFile, zlib.error, EOFError, csv.Error, pd.errors.ParserError) as error:
        kind = "is damaged" if isinstance(error, zlib.error) else f"could not be read: {error}"
        raise broken(file, f"{kind}; is it whole, and a CSV?") from None
