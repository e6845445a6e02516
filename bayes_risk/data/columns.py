"""What each column of a table is taken for, before anybody has said it; and why."""

import re
from collections.abc import Hashable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Ints, scalar
from bayes_risk._core.errors import InputError

from .delimited import ROW_NAMES
from .table import in_days
from .variables import FEW, are_whole, check_cells, holds_text, is_numeric

ALIKE, ENOUGH = 0.999, 5_000  # correlation of ranks, and records that it is taken over
MONOTONE, GROUP = 0.9, 5  # correlation of ranks of a number and its function; mean size of groups
MANY_RUNS = 50  # of equal numbers in order, from which they name groups of rows
LONG = 60  # levels of a category, above which most have few records
NAMES_RECORDS = re.compile(
    r"(^|[\W_])(id|ids|nr|no|num|number|identifier|serial|record|case|row|index|key|uuid)([\W_]|$)"
    r"|[a-z](ID|Id|Nr)$|^unnamed: 0$|^(case|person|house|pers|hh|p|h)?id(p|no|pers|hous)?$|^$"
    r"|^(pers|hh|p|h)nr$|^serialno$|^pernum$|^nquest$|^nomem_encr$"  # of well-known surveys
    r"|^([dhrp]b|[rp]x)030$"  # of EU-SILC
)
DATE = r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([ T]\d.*)?$"
MISSING_CODES = (-1, -2, -3, -4, -5, -6, -7, -8, -9, -77, -88, -99, -888, -999, -9999)


ROW_NUMBERS, BY_NAME = "it numbers the rows", "an identifier by its name"
EACH_ITS_OWN = "a different value for each record"
BY_RUNS = "an identifier: rows in runs of equal numbers"
OF_GROUPS = "an identifier of groups"


def why_identifier(column: pd.Series, name: str, *, first: bool = False) -> str:
    """Why a column (``first`` of its table?) numbers the rows or names records; empty: no."""
    named = names_records(name)
    whole, n = is_numeric(column.dtype) and are_whole(column), len(column)
    if whole and (named or first) and n > 1 and column.notna().all() and column.iloc[0] in (0, 1):
        if (np.diff(column.to_numpy(dtype=float, na_value=np.nan)) == 1).all():
            return ROW_NUMBERS
    if n <= FEW or not (whole or holds_text(column)):
        return ""
    distinct = column.nunique()
    if distinct == n and not whole:
        return "" if are_dates(column) else EACH_ITS_OWN
    if distinct == n and (named or int(column.max()) - int(column.min()) == n - 1):
        return EACH_ITS_OWN
    if named and whole and distinct > max(FEW, n // 20):
        return f"{BY_NAME} ({distinct:,} values)"
    return ""


def names_records(name: str) -> bool:
    """Whether a column's name says that it names or numbers records."""
    like = NAMES_RECORDS.search(name if re.search("[a-z]", name) else name.lower())
    return bool(like) or name in ("", ROW_NAMES)


HOUSEHOLDS = re.compile(
    r"^(h|hh|house|household|haushalt|haushalts|menage|hogar|famiglia)_?(id|nr|no|num|number|serial)$"
    r"|^household$|^id_?(menage|hogar|famiglia)$|^serialno$|^nquest$|^[dh]b030$|^[rp]x030$"
)


def names_households(name: str) -> bool:
    """Whether a column's name says that it names households."""
    return bool(HOUSEHOLDS.search(name.lower()))


def of_households(records: int, distinct: int) -> bool:
    """Whether a column of so many values may name households, by their size."""
    return distinct > FEW and 1.2 * distinct <= records <= 12 * distinct


class Kind(NamedTuple):
    """What a column is taken for, in a word, and why.

    ``taken``: "label" of the records, "category", "codes" (numbers that name categories), "number",
    "days" (dates), "out" (left out).
    """

    taken: str
    why: str
    missing: int = 0  # records without a value
    levels: tuple[Hashable, ...] = ()  # of a category, in order
    code: float | None = None  # the number that means missing


def kinds_of(df: pd.DataFrame) -> dict[str, Kind]:
    """What each column is taken for; at most one labels the records."""
    found: dict[str, Kind] = {}
    for name in df.columns:
        check_cells(df[name], name, "the table")
        kind = _kind(str(name), df[name])
        if kind.taken == "label" and any(k.taken == "label" for k in found.values()):
            kind = kind._replace(taken="out", why=f"{kind.why}, as another column has")
        found[str(name)] = kind
    seen: list[str] = []
    for name in [c for c, kind in found.items() if kind.taken == "number"]:
        if same := [other for other in seen if _agree(df[name], df[other]) > ALIKE]:
            why = f"it has the same content as {same[0]!r}"
            found[name] = found[name]._replace(taken="out", why=why)
        else:
            seen.append(name)
    codes = [c for c in seen if GROUP * df[c].nunique() <= len(df)]
    for x, y in ((x, y) for x in codes for y in seen if x != y):
        if _fixes(df[x], df[y]):
            found[x] = found[x]._replace(taken="out", why=f"{OF_GROUPS}: each has one {y}")
            found[y] = found[y]._replace(taken="out", why=f"it has one value for each {x}")
    groups = [c for c, kind in found.items() if kind.taken in ("category", "codes")]
    levels = {c: pd.factorize(df[c], use_na_sentinel=False)[0] for c in groups}
    for y in groups[::-1]:  # of two that fix each other the first stays, and of two columns both
        those = (c for c in groups if c != y and found[c].taken != "out")
        many = sum(kind.taken not in ("label", "out") for kind in found.values()) > 2
        if many and (by := next((c for c in those if _gives(levels[c], levels[y])), "")):
            found[y] = found[y]._replace(taken="out", why=f"it has one value for each {by}")
    return found


def _gives(x: Ints, y: Ints) -> bool:
    """Whether all records of each level of x, of some records, have one level of y."""
    size = int(x.max()) + 1, int(y.max()) + 1
    table = np.bincount(x * size[1] + y, minlength=size[0] * size[1]).reshape(size)
    return bool((table.max(axis=1) == np.maximum(table.sum(axis=1), GROUP)).all())


def _agree(x: pd.Series, y: pd.Series) -> float:
    """How far ranks agree: 1 if one is the other in another unit, or its logarithm."""
    both = pd.DataFrame({"x": x, "y": y}).dropna().head(ENOUGH).rank()
    return abs(float(both["x"].corr(both["y"]))) if len(both) > FEW else 0.0


def _fixes(x: pd.Series, y: pd.Series) -> bool:
    """Whether each value of x has one value of y, without an order."""
    cells = pd.DataFrame({"x": x, "y": y}).dropna().drop_duplicates()
    return cells["x"].is_unique and _agree(x, y) < MONOTONE


def _kind(name: str, column: pd.Series) -> Kind:
    n, absent, values = len(column), int(column.isna().sum()), column.dropna()
    distinct = values.nunique()
    if distinct + bool(absent) < 2 or distinct == 0:
        return Kind("out", "it is empty" if distinct == 0 else "all records have one value", absent)
    if are_dates(values):
        few = distinct <= FEW
        return Kind("days", f"dates{', few of them' if few else ''}, as numbers of days", absent)
    number = is_numeric(column.dtype)
    whole = number and are_whole(values)
    if whole and distinct > FEW and _are_digits_of_dates(values):
        return Kind("days", "dates such as 20010203, as numbers of days", absent)
    if why := why_identifier(column, name):
        return Kind("label" if distinct == n else "out", why, absent)
    runs = whole and not absent and distinct > max(MANY_RUNS, n // 10) and n > 1.2 * distinct
    dense = runs and float(values.max()) - float(values.min()) < 2 * distinct
    if dense and values.is_monotonic_increasing:  # households, plants or clusters, row by row
        return Kind("out", f"{BY_RUNS} ({distinct:,} values)")
    if number and distinct > FEW:
        code = missing_code(values)
        what = f"{distinct:,} different {'whole ' * whole}numbers"
        why = what if code is None else f"{what}, {code:g} treated as missing"
        return Kind("number", why, absent, code=code)
    most = max(min(LONG, n // 5), 2)
    if distinct > most and not number:
        return Kind("out", f"{distinct:,} levels, most with few records", absent)
    category = isinstance(values.dtype, pd.CategoricalDtype)
    try:
        ordered = values.cat.categories if category else np.sort(values.unique().astype(object))
    except TypeError:
        return Kind("out", "it mixes text with other types: use one type", absent)
    levels = tuple(scalar(v) for v in ordered)
    if number:
        return Kind("codes", f"{distinct} different numbers: codes of categories", absent, levels)
    return Kind("category", f"{len(levels)} levels", absent, levels)


def missing_code(values: pd.Series) -> float | None:
    """The negative code that means missing among numbers that are none; None: there is none."""
    below = values[values < 0].unique()
    found = len(below) == 1 and below[0] in MISSING_CODES and (values == below[0]).sum() > 1
    return float(below[0]) if found else None


def _are_digits_of_dates(values: pd.Series) -> bool:
    """Whether all numbers are a year from 1800 to 2199, a month and a day of it."""
    if values.min() < 18_000_101 or values.max() > 21_991_231:
        return False
    with suppress(InputError):
        in_days(pd.Series(values.unique()), "")
        return True
    return False


def are_dates(values: pd.Series) -> bool:
    """Whether all values are dates, stored as such or written as text."""
    stored = pd.api.types.is_datetime64_any_dtype(values.dtype)
    if stored or pd.api.types.infer_dtype(values) == "date":
        return True
    if isinstance(values.dtype, pd.CategoricalDtype) or not holds_text(values):
        return False
    with suppress(InputError):
        in_days(pd.Series(values.unique()), "")
        return bool(values.astype(str).str.match(DATE).all())
    return False
