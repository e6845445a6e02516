"""Values of a table in the terms of the original: the same value in another spelling or storage.

A released column may hold the original's values as text, in capitals, with blanks, without leading
zeros, as dates in another form, in another time zone. Each form is tried on the values that do not
occur in the original as they stand; the mildest form with which most of them occur is taken, if it
keeps the original's own values apart, and is reported. A form that would merge them is refused.
"""

import datetime as dt
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from itertools import product
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import scalar
from bayes_risk._core.errors import InputError

from .precision import UNITS

MISSING_WORDS = frozenset(
    ["", "na", "n/a", "#n/a", "nan", "nat", "none", "null", "<na>", "missing", ".", "-", "?"]
)
TRUTHS = {"true": True, "t": True, "yes": True, "1": True, "1.0": True}
TRUTHS |= {"false": False, "f": False, "no": False, "0": False, "0.0": False}
MOST = 2_000  # values that forms are tried on
DATE_FORMS = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y%m%d")
MISREAD = (("cp1252", "utf-8"), ("latin-1", "utf-8"), ("cp1252", "cp1250"), ("cp1252", "cp1251"))
NUMBER = re.compile(
    r"([^\d+\-.,]*)([+-]?(?:\d[\d., '\u00a0\u202f’]*|[.,]\d+)(?:[eE][+-]?\d+)?)(\D*)"
)
INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")

ValueArray = npt.NDArray[Any]


class Values(NamedTuple):
    """Distinct values of a column of one table: numbers, instants, truth values or texts.

    ``values``: whole or real numbers; microseconds since 1970 in UTC; bool; str.
    """

    kind: str  # "numbers", "dates", "truth values", "text"
    values: ValueArray
    levels: ValueArray | None = None  # of a category, texts that somebody may hold

    @property
    def known(self) -> ValueArray:
        """What counts as the original's: declared levels too."""
        return self.values if self.levels is None else self.levels


class Respelled(NamedTuple):
    """Values of a file in the original's terms, None where missing; and how they were read."""

    values: ValueArray
    how: str = ""

    def in_words(self) -> str:
        """How they were read."""
        return self.how if self.how.startswith(("as ", "without")) else f"with {self.how}"


def spelled_values(distinct: Any) -> Values:
    """Distinct values, none missing, by their kind."""
    index = pd.Index(distinct)
    if isinstance(index, pd.CategoricalIndex):
        found, every = spelled_values(index.astype(index.categories.dtype)), index.categories
        levels = spelled_values(every)
        return found if levels.kind != found.kind else found._replace(levels=levels.values)
    if isinstance(index.dtype, pd.PeriodDtype):
        index = index.to_timestamp()
    if isinstance(index, pd.DatetimeIndex):
        return Values("dates", _microseconds(index))
    if pd.api.types.is_bool_dtype(index.dtype) and index.dtype != object:
        return Values("truth values", index.to_numpy(dtype=bool))
    if pd.api.types.is_complex_dtype(index.dtype):
        return Values("complex numbers", index.to_numpy())
    if pd.api.types.is_numeric_dtype(index.dtype) and index.dtype != object:
        return Values("numbers", _plain_numbers(index.to_numpy()))
    if pd.api.types.is_string_dtype(index.dtype) and index.dtype != object:
        return Values("text", index.to_numpy(dtype=object))
    return _of_objects([scalar(v) for v in index.to_numpy(dtype=object)])


def _of_objects(found: list[Any]) -> Values:
    """Values of any kind, all of one or else as text."""
    if all(isinstance(v, str) for v in found):
        return Values("text", np.array(found, dtype=object))
    if all(isinstance(v, bool) for v in found):
        return Values("truth values", np.array(found, dtype=bool))
    if all(isinstance(v, dt.date) for v in found):
        with suppress(ValueError, OverflowError, TypeError):
            stamps = [
                v if isinstance(v, dt.datetime) else dt.datetime.combine(v, dt.time())
                for v in found
            ]
            return Values("dates", _instants(stamps))
    if all(isinstance(v, Real | Decimal) for v in found):
        whole = all(isinstance(v, Integral) or float(v).is_integer() for v in found)
        if whole and not any(isinstance(v, float) for v in found):
            return Values("numbers", _plain_numbers(np.array([int(v) for v in found])))
        return Values("numbers", np.array([float(v) for v in found]))
    return Values("text", np.array([as_text(v) for v in found], dtype=object))


def _plain_numbers(values: ValueArray) -> ValueArray:
    """Whole numbers as int64 where they fit, else as Python's; others in double precision."""
    if values.dtype.kind == "u":
        fits = not len(values) or int(values.max()) < 2**63
        return values.astype(np.int64 if fits else object)
    if values.dtype.kind in "ib":
        return values.astype(np.int64)
    return values if values.dtype == object else values.astype(np.float64)


def as_text(value: Any) -> str:
    """A value as a text file has it: whole numbers without a point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, dt.datetime) and value.time() == dt.time() and value.tzinfo is None:
        return value.date().isoformat()
    return str(value)


def _microseconds(index: pd.DatetimeIndex) -> ValueArray:
    """Instants in UTC; midnights of another zone are days, those of its calendar."""
    if index.tz is not None:
        local = index.tz_localize(None)
        index = (
            local
            if (local == local.normalize()).all()
            else index.tz_convert("UTC").tz_localize(None)
        )
    return index.to_numpy().astype("datetime64[us]").astype(np.int64)


def _instants(stamps: Sequence[dt.datetime]) -> ValueArray:
    """Microseconds of Python's instants, of any year; as `_microseconds` has zones."""
    if all(s.tzinfo is None or s.time() == dt.time() for s in stamps):
        plain = [s.replace(tzinfo=None) for s in stamps]
    else:
        plain = [
            s if s.tzinfo is None else s.astimezone(dt.UTC).replace(tzinfo=None) for s in stamps
        ]
    return np.array(plain, dtype="datetime64[us]").astype(np.int64)


def missing_words(values: Values) -> list[str]:
    """Texts among some values that usually mean a missing one."""
    there = values.known if values.kind == "text" else ()
    return [v for v in there if v.strip().lower() in MISSING_WORDS]


# --- a file's values in the original's terms --------------------------------------------------


def respelled(
    name: str, original: Values, file: Values, missing: bool, places: tuple[str, str]
) -> Respelled:
    """Values of a file as the original has them; ``missing``: it has some, maybe as words here."""
    if original.kind == file.kind and (
        file.kind != "text" or pd.Index(file.values).isin(original.known).all()
    ):
        return Respelled(file.values)
    values = file.values
    if file.kind == "text":
        words = pd.Index(values).isin(missing_words(file))
        if original.kind == "text":
            words &= missing & ~pd.Index(values).isin(original.known)
        found = _as_kind(original, file._replace(values=values[~words]), name, places)
        how = [found.how] if found.how else []
        if words.any():
            how.append("words for missing values")
        filled = np.full(len(values), None, dtype=object)
        filled[~words] = found.values
        return Respelled(filled if words.any() else found.values, " and ".join(how))
    return _as_kind(original, file, name, places)


def _as_kind(original: Values, file: Values, name: str, places: tuple[str, str]) -> Respelled:
    """Values converted to the original's kind."""
    if not len(file.values) or not len(original.known):
        return Respelled(file.values)
    convert = {
        **{("text", kind): _text for kind in ("text", "numbers", "truth values", "dates")},
        ("numbers", "text"): _numbers,
        ("numbers", "truth values"): lambda o, f: Respelled(
            f.values.astype(np.int64), "truth values"
        ),
        ("numbers", "dates"): _as_days,
        ("dates", "text"): lambda o, f: _best_known(
            [Respelled(found, "dates written as text") for found in _as_dates(f.values)], o
        ),
        ("truth values", "text"): _truths,
        ("truth values", "numbers"): _truths,
    }.get((original.kind, file.kind))
    found = convert(original, file) if convert is not None else None
    if found is None:
        raise InputError(
            f"column {name!r} holds {original.kind} in {places[0]} and {file.kind} in {places[1]}, "
            "so nothing could ever match; store it as one type"
        )
    if isinstance(found, str):
        raise InputError(
            f"column {name!r} of {places[1]} is written in another way than in {places[0]} "
            f"({found}), and values of {places[0]} differ in this alone; write it alike in both, "
            "or declare the values of both as its levels if they are different ones"
        )
    return found


def _truths(original: Values, file: Values) -> Respelled | None:
    """Truth values from words or 0 and 1."""
    found = [TRUTHS.get(as_text(scalar(v)).strip().lower()) for v in file.values]
    if any(v is None for v in found):
        return None
    return Respelled(np.array(found, dtype=bool), "words for truth values" * (file.kind == "text"))


def _numbers(original: Values, file: Values) -> Respelled | None:
    """Numbers from text, with the decimal mark under which most are the original's."""
    ways = []
    for mark in ".,":
        texts = [_number(v, mark) for v in file.values]
        if any(t is None for t in texts) or len({t[0] for t in texts if t}) > 1:
            continue
        found = [t[1] for t in texts if t]
        whole = all(isinstance(v, int) for v in found)
        numbers = np.array(found, dtype=None if whole else float)
        how = "numbers written as text" + " with a decimal comma" * (mark == ",")
        ways.append(Respelled(_plain_numbers(numbers), how))
    if ways:
        return _best_known(ways, original)
    dates = next(_as_dates(file.values), None)
    return None if dates is None else _as_days(original, Values("dates", dates))


def _best_known(ways: Sequence[Respelled], original: Values) -> Respelled | None:
    """The first of those of which most values are the original's."""
    known = original.known.astype(float)
    return max(ways, key=lambda one: np.isin(one.values.astype(float), known).mean(), default=None)


def _as_days(original: Values, file: Values) -> Respelled | None:
    """Days since 1970, as `days` makes them of dates, if the original's numbers can be these."""
    days, known = file.values / UNITS["day"], original.known.astype(float)
    known = known[np.isfinite(known)]
    if not len(known):
        return None
    near = np.ptp(known) + 366
    if days.min() < known.min() - near or days.max() > known.max() + near:
        return None
    whole = (days % 1 == 0).all()
    return Respelled(days.astype(np.int64) if whole else days, "dates as days")


def _number(text: str, mark: str) -> tuple[tuple[str, str], int | float] | None:
    """What stands around a number in a text, and the number; None: it holds none."""
    found = NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    before, digits, after = found.groups()
    other = "," if mark == "." else "."
    whole, _, decimals = re.sub(r"[ '\u00a0\u202f’]", "", digits).partition(mark)
    if other in whole and not re.fullmatch(rf"[+-]?\d{{1,3}}(\{other}\d{{3}})+", whole):
        return None
    plain = whole.replace(other, "") + ("." + decimals if decimals else "")
    with suppress(ValueError):
        number = float(plain)
        if np.isinf(number):  # more digits than a number can have
            return None
        fits = re.fullmatch(r"[+-]?\d+(\.0*)?", plain)
        return (before.strip(), after.strip()), int(plain.partition(".")[0]) if fits else number
    return None


def _as_dates(texts: ValueArray) -> Iterator[ValueArray]:
    """Microseconds of texts, by each form of which all of them are dates."""
    for form in DATE_FORMS[:-1]:
        stamps = [stamp for text in texts if (stamp := _date(text, form)) is not None]
        if len(stamps) == len(texts):
            yield _instants(stamps)


def _date(text: str, form: str) -> dt.datetime | None:
    """A date, with a time of day or without; None: none of this form."""
    plain = text.strip()
    with suppress(ValueError, OverflowError):
        if form != "%Y-%m-%d":
            return dt.datetime.strptime(plain, form) if len(plain) >= 8 else None
        if re.match(r"\d{4}-\d\d-\d\d", plain):
            return dt.datetime.fromisoformat(plain)
    return None


# --- text -------------------------------------------------------------------------------------

Writing = Callable[[str], Any]


class Spelling(NamedTuple):
    """A way to write texts: in words, what it makes of the original's texts and of the file's.

    ``strong``: values that differ in it may well be different ones (codes): it is taken only if
    most of the strange values are explained by it.
    """

    words: str
    own: Writing
    theirs: Writing
    strong: bool = False


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", INVISIBLE.sub("", text)).strip().strip("\"'")


def _composed(text: str) -> str:
    return unicodedata.normalize("NFKC", _plain(text))


def _mended(text: str, read: str, written: str) -> str:
    """A text whose bytes were read in another encoding than they were written in."""
    with suppress(UnicodeError):
        return _composed(text.encode(read).decode(written))
    return _composed(text)


def _folded(text: str, first: Writing = _composed) -> str:
    return str(first(text)).casefold()


def _unpadded(text: str) -> str:
    return re.sub(r"(?<![\d.,])0+(?=\d)", "", _folded(text))


def _counted(text: str, mark: str) -> Any:
    number = None if re.search(r"\d[eE]", text) else _number(text, mark)  # 1E1 is a code
    return _unpadded(text) if number is None else (*number[0], float(number[1]))


def _dated(text: str, form: str) -> Any:
    stamp = _date(text, form)
    return _folded(text) if stamp is None else int(_instants([stamp])[0])


def _forms(known: ValueArray, strange: ValueArray) -> Iterator[Spelling]:
    """Forms from mild to strong, those that some of the texts can be written in."""
    both = [*known[:MOST], *strange[:MOST]]
    mends = [partial(_mended, read=r, written=w) for r, w in MISREAD]
    mends = mends if not all(text.isascii() for text in both) else []
    yield Spelling("blanks and quotes left out", _plain, _plain)
    yield Spelling("accents composed", _composed, _composed)
    yield from (Spelling("encoding corrected", mend, mend) for mend in mends)
    yield Spelling("without regard to capitals", _folded, _folded)
    for mend in (partial(_folded, first=mend) for mend in mends):
        yield Spelling("encoding corrected, without regard to capitals", mend, mend)
    yield Spelling("without leading zeros", _unpadded, _unpadded, strong=True)
    for words, convert, keys in (
        ("as numbers", partial(_counted), [{"mark": mark} for mark in ".,"]),
        ("as dates", partial(_dated), [{"form": form} for form in DATE_FORMS]),
    ):
        read = [partial(convert, **key) for key in keys]
        own, theirs = (
            [one for one in read if any(not isinstance(one(text), str) for text in some[:50])]
            for some in (known, strange)
        )
        yield from (Spelling(words, a, b, strong=True) for a, b in product(own, theirs))


def _text(original: Values, file: Values) -> Respelled | str | None:
    """Texts as the original writes them, where a form of both says that they are the same."""
    texts = file.values
    if file.kind == "dates":
        texts = texts.astype("datetime64[us]")
    texts = np.array([as_text(scalar(v)) for v in texts.tolist()], dtype=object)
    strange = pd.Index(original.known).get_indexer(pd.Index(texts)) < 0
    if not strange.any():
        return Respelled(texts, file.kind * (file.kind != "text"))
    best = _best_form(original.known, texts[strange][:: int(strange.sum()) // MOST + 1])
    if best is None:
        return Respelled(texts) if file.kind == "text" else None
    if isinstance(best, str):
        return best
    at = {best.own(text): text for text in original.known}
    texts[strange] = [at.get(best.theirs(text), text) for text in texts[strange]]
    return Respelled(texts, best.words)


def _best_form(known: ValueArray, strange: ValueArray) -> Spelling | str | None:
    """The mildest form that explains most strange texts; its words if it merges known ones."""
    best, most, merged, merging = None, 0, 0, ""
    for form in _forms(known, strange):
        levels = Counter(form.own(text) for text in known)
        found = sum(form.theirs(text) in levels for text in strange)
        if form.strong and 2 * found < len(strange):
            continue
        if max(levels.values()) > 1:
            merged, merging = max((merged, merging), (found, form.words), key=lambda pair: pair[0])
        elif found > most:
            best, most = form, found
        if most == len(strange):
            break
    return merging if merged > most and 2 * merged >= len(strange) else best
