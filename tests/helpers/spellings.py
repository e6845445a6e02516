"""Tables of plain Python values, and the ways in which people store and write their columns.

What is equal is known from the plain values, before any is stored: the oracle of equality.
"""

import datetime as dt
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

Values = list[Any]  # of a column; None: missing
Plain = dict[str, Values]
CITIES = ["Köln", "São Paulo", "new york", "Łódź", "Paris", "Zürich", "job 3", "none of these"]
KINDS = ("text", "code", "whole", "big", "amount", "real", "date", "time", "truth")


def pool_of(kind: str, rng: np.random.Generator) -> Values:
    """Distinct values of one kind, for people to have."""
    some = rng.integers(3, 30)
    if kind == "text":
        return [str(v) for v in rng.choice(CITIES, rng.integers(2, 8), replace=False)]
    if kind == "code":
        return [f"{v:03d}" for v in rng.choice(200, rng.integers(3, 9), replace=False)] + ["A1"]
    if kind == "whole":
        return [int(v) for v in rng.choice(np.arange(-50, 500), some, replace=False)]
    if kind == "big":
        return [10**16 + int(v) for v in rng.choice(60, some, replace=False)]
    if kind == "amount":
        return [round(float(v), 2) for v in rng.lognormal(7, 1, some)]
    if kind == "real":
        return [float(v) for v in rng.normal(0, 10, 40)]
    if kind == "date":
        days = rng.choice(30_000, some, replace=False)
        return [dt.date(1930, 1, 1) + dt.timedelta(int(v)) for v in days]
    if kind == "time":
        seconds = rng.choice(10**7, some, replace=False)
        return [dt.datetime(2001, 1, 1, 5) + dt.timedelta(seconds=int(v)) for v in seconds]
    return [True, False]


def tables_of(rng: np.random.Generator, m: int = 1) -> tuple[dict[str, str], Plain, list[Plain]]:
    """Kinds of some columns, an original, and m releases that hold some of its values."""
    n, kinds, original = int(rng.integers(12, 50)), {}, {}
    releases: list[Plain] = [{} for _ in range(m)]
    kept = [rng.random(n) < rng.random() for _ in range(m)]
    for j in range(int(rng.integers(2, 5))):
        kind = str(rng.choice(KINDS))
        pool, name = pool_of(kind, rng), f"{kind}{j}"
        y = [pool[int(k)] for k in rng.integers(0, len(pool), n)]
        if rng.random() < 0.4:
            y = [None if rng.random() < 0.15 else v for v in y]
        kinds[name], original[name] = kind, y
        for l, release in enumerate(releases):
            others = [y[int(k)] for k in rng.integers(0, n, n)]
            release[name] = [
                v if own else other for v, own, other in zip(y, kept[l], others, strict=True)
            ]
    return kinds, original, releases


def usual(kind: str, values: Values) -> pd.Series:
    """A column of such values as a reader makes it."""
    absent = None in values
    if kind in ("text", "code"):
        return pd.Series(values, dtype=object)
    if kind in ("whole", "big"):
        return pd.Series(values, dtype="Int64" if absent else "int64")
    if kind in ("amount", "real"):
        return reals(values)
    if kind in ("date", "time"):
        return pd.Series(pd.to_datetime(pd.Series(values, dtype=object)))
    return pd.Series(values, dtype="boolean" if absent else bool)


def frame(kinds: dict[str, str], table: Plain) -> pd.DataFrame:
    return pd.DataFrame({name: usual(kind, table[name]) for name, kind in kinds.items()})


def reals(values: Values, dtype: str = "float64") -> pd.Series:
    return pd.Series([np.nan if v is None else v for v in values], dtype=dtype)


def each(write: Callable[[Any], Any]) -> Callable[[Values], pd.Series]:
    return lambda values: pd.Series([None if v is None else write(v) for v in values], dtype=object)


def rounded(write: Callable[[float], float]) -> Callable[[Values], pd.Series]:
    return lambda values: reals([None if v is None else write(v) for v in values])


def stored(dtype: str) -> Callable[[Values], pd.Series | None]:
    """Whole values alone: a type without missing ones cannot hold them."""
    lacks = dtype in ("int16", "uint64", "int8")
    return lambda values: None if lacks and None in values else pd.Series(values, dtype=dtype)


def stamps(zone: str, *, there: bool) -> Callable[[Values], pd.Series]:
    """Instants of a zone; or those of UTC as its clocks show them."""

    def way(values: Values) -> pd.Series:
        plain = pd.Series(pd.to_datetime(pd.Series(values, dtype=object)))
        if there:
            return plain.dt.tz_localize(zone)
        return plain.dt.tz_localize("UTC").dt.tz_convert(zone)

    return way


def category(values: Values) -> pd.Series:
    levels = sorted({v for v in values if v is not None}, reverse=True)
    return pd.Series(pd.Categorical(values, [*levels, "nobody has this"]))


def days(values: Values) -> pd.Series | None:
    if None in values:
        return None
    return pd.Series(pd.PeriodIndex([str(v) for v in values], freq="D"))


def words(values: Values) -> pd.Series:
    return pd.Series(["NA" if v is None else str(v) for v in values], dtype=object)


TEXT, AMOUNT = ("text", "code"), ("amount", "real")
WAYS: dict[str, tuple[tuple[str, ...], Callable[[Values], pd.Series | None]]] = {
    "capitals": (("text",), each(str.upper)),
    "a blank before": (TEXT, each(lambda v: f" {v}")),
    "padded": (TEXT, each(lambda v: v.ljust(20))),
    "accents apart": (("text",), each(lambda v: unicodedata.normalize("NFD", v))),
    "misread": (("text",), each(lambda v: v.encode().decode("latin-1"))),
    "quoted": (TEXT, each(lambda v: f'"{v}"')),
    "category": (TEXT, category),
    "string": (TEXT, stored("string")),
    "Arrow text": (TEXT, stored("string[pyarrow]")),
    "no leading zeros": (("code",), each(lambda v: v.lstrip("0") or "0")),
    "double": (("whole",), reals),
    "int16": (("whole",), stored("int16")),
    "uint64": (("big",), stored("uint64")),
    "objects": (("whole", "big", "amount", "truth", "text", "date"), each(lambda v: v)),
    "decimals": (("whole", "big", "amount"), each(lambda v: Decimal(str(v)))),
    "numbers as text": (("whole", "big", *AMOUNT), each(repr)),
    "312.0": (("whole",), each(lambda v: f"{v}.0")),
    "1,234": (("whole", "amount"), each(lambda v: f"{v:,}")),
    "decimal comma": (AMOUNT, each(lambda v: repr(v).replace(".", ","))),
    "1,234.56 EUR": (("amount",), each(lambda v: f"{v:,.2f} EUR")),
    "float32": (AMOUNT, lambda values: reals(values, "float32")),
    "15 digits": (("real",), rounded(lambda v: float(f"{v:.15g}"))),
    "6 digits": (("real",), rounded(lambda v: float(f"{v:.6g}"))),
    "3 decimals": (("real",), rounded(lambda v: round(v, 3))),
    "Arrow double": (AMOUNT, stored("double[pyarrow]")),
    "Arrow int64": (("whole", "big"), stored("int64[pyarrow]")),
    "UTC": (("date", "time"), stamps("UTC", there=True)),
    "Tokyo's clocks": (("time",), stamps("Asia/Tokyo", there=False)),
    "Tokyo's midnight": (("date",), stamps("Asia/Tokyo", there=True)),
    "ISO dates": (("date", "time"), each(lambda v: v.isoformat())),
    "ISO with time": (("date",), each(lambda v: f"{v.isoformat()} 00:00:00")),
    "31.12.1999": (("date",), each(lambda v: v.strftime("%d.%m.%Y"))),
    "31/12/1999": (("date",), each(lambda v: v.strftime("%d/%m/%Y"))),
    "period": (("date",), days),
    "0 and 1": (("truth",), stored("int8")),
    "TRUE": (("truth",), each(lambda v: str(v).upper())),
    "NA for missing": (("text", "code", "whole", "amount", "truth", "date"), words),
}
