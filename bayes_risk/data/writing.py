"""Tables as delimited text, in the form in which another file is written."""

import codecs
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from .delimited import Dialect, dialect_of, read_delimited, spelt
from .kinds import DELIMITED, kind_of
from .spelling import MISSING_WORDS
from .table import as_dates, dates_in
from .variables import is_numeric


class Form(NamedTuple):
    """How a file is written: its dialect, and by column what missing values and dates are."""

    dialect: Dialect = Dialect(encoding="utf-8")
    words: Mapping[str, str] = {}
    dates: Mapping[str, str] = {}


USUAL = Form()


def form_of(
    file: Path | None,
    table: pd.DataFrame,
    *,
    na: Collection[str] = (),
    days: Sequence[str] = (),
    **written: Any,
) -> Form:
    """The form of a file, for the columns of a table; the usual one of files that are no CSV."""
    if file is None or kind_of(file) not in DELIMITED:
        return Form(dates=dict.fromkeys(days, "%Y-%m-%d"))
    gone = [c for c in table.columns if c in days or table[c].isna().any()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was said when it was read
        dialect = dialect_of(file, **written)
        texts = read_delimited(file, dialect, columns=gone, text=gone) if gone else pd.DataFrame()
    pattern = "|".join(spelt(word, re.escape(dialect.decimal)) for word in na)
    words = {}
    for name in gone:
        held = texts[name].value_counts()
        usual = MISSING_WORDS if is_numeric(table[name].dtype) else ()
        found = held[[bool(re.fullmatch(pattern, x)) or x.lower() in usual for x in held.index]]
        if len(found) and found.iloc[0] > texts[name].isna().sum():
            words[name] = str(found.index[0])
    absent = [*na, *MISSING_WORDS]
    dates = {c: dates_in(texts[c].where(~texts[c].isin(absent)), c)[1] for c in days if c in gone}
    with file.open("rb") as opened:
        marked = opened.read(3) == codecs.BOM_UTF8
    if dialect.encoding == Dialect().encoding and not marked:
        dialect = dialect._replace(encoding="utf-8")
    return Form(dialect, words, dates)


def write_delimited(table: pd.DataFrame, path: Path, form: Form, **how: Any) -> None:
    """Write a table in a form; in UTF-8 what its encoding lacks."""
    separator, _, decimal, encoding, _ = form.dialect
    table = table.assign(**{c: as_dates(table[c], f) for c, f in form.dates.items() if c in table})
    for name, word in form.words.items():
        if name in table and table[name].isna().any():
            texts = table[name].astype(object).map(str, na_action="ignore")
            number = table[name].dtype == float
            table[name] = (texts.str.replace(".", decimal) if number else texts).fillna(word)
    how = {"sep": separator, "decimal": decimal, "lineterminator": "\n", **how}
    for one in (encoding, "utf-8"):
        with suppress(UnicodeEncodeError):
            return table.to_csv(path, encoding=one, **how)
