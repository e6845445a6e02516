"""Numbers made coarser before a file is synthesised: multiples of a unit, tails cut off."""

from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError

from .variables import are_whole, is_numeric

UNITS = (1.0, 2.0, 5.0)  # and these times powers of ten
MOST_DISTINCT = 20  # multiples, so that each is shared by many
FEWEST = 4  # values that are left of a number
SMALLEST = 1e-290  # range of numbers that can be divided by a unit, and the inverse of the largest
NONE = 0.05  # of the records have 0, above which it is kept apart
TAIL = 0.01  # of the records, at most, beyond the value at which an upper tail begins


def coarsened(
    column: pd.Series,
    unit: float,
    least: float | None = None,
    most: float | None = None,
    keep: Collection[float] = (),
) -> pd.Series:
    """The multiples of ``unit`` nearest to numbers that were cut off at ``least`` and ``most``.

    Missing values stay, and so do numbers to ``keep``. What would become one of them is the next
    multiple on its own side, within the ends: with 0 among them small amounts are one unit. Whole
    numbers stay whole where the unit and both ends are.

    Raises
    ------
    InputError
        A column that holds no numbers; ends of which the lower is not below the upper.

    Examples
    --------
    >>> coarsened(pd.Series([3, 180, 9_000, -8]), 100, most=1_000, keep=[-8]).tolist()
    [0, 200, 1000, -8]
    >>> coarsened(pd.Series([0, 3, 180]), 100, keep=[0]).tolist()
    [0, 100, 200]
    """
    if not is_numeric(column.dtype):
        raise InputError("coarsen", f"names {column.name!r}, which holds no numbers; leave it out")
    if least is not None and most is not None and least >= most:
        raise InputError(
            ("coarsen", str(column.name)),
            f"has least {least:g}, not below most {most:g}; swap them",
        )
    cut = column.astype(float).clip(least, most)
    coarse: pd.Series = multiples(cut / unit, unit).clip(least, most)
    kept = column.isin([*keep])
    away = multiples(coarse / unit + np.sign(cut - coarse), unit).clip(least, most)
    coarse = coarse.mask(coarse.isin([*keep]), away).where(~kept, column)
    if not pd.api.types.is_integer_dtype(column.dtype) or not are_whole(coarse.dropna()):
        return coarse
    ends = np.iinfo(getattr(column.dtype, "numpy_dtype", column.dtype))
    fits = coarse.dropna().between(ends.min, ends.max).all()  # 127 to the nearest 50 is 150
    return coarse.astype(column.dtype) if fits else coarse


def multiples(times: Any, unit: float) -> Any:
    """The nearest whole numbers times a unit, at its decimals: 3 times 0.05 is 0.15."""
    decimals = max(-int(Decimal(repr(float(unit))).as_tuple()[2]), 0)
    return np.round(np.round(times) * unit, decimals) + 0.0  # no -0.0


def proposed(column: pd.Series, keep: Sequence[float] = (), alone: float = 0.01) -> dict[str, Any]:
    """Arguments of `coarsened` that would make a number coarse enough; none: it is.

    The least unit, and the least number of cut values, with which at most so many records are
    ``alone`` with their value, as a share of all.
    """
    if 0 not in keep and (column == 0).sum() > NONE * len(column):
        keep = [*keep, 0.0]  # nothing is no small amount
    numbers = column[column.notna() & ~column.isin([*keep])].astype(float)
    few = numbers.nunique() <= MOST_DISTINCT
    if numbers.nunique() < FEWEST or (few and share_alone(numbers) <= alone):
        return {}
    most = float(numbers.quantile(1 - TAIL, interpolation="lower"))
    for unit in _units(numbers):
        top = float(multiples(np.ceil(most / unit), unit))
        coarse = coarsened(numbers, unit, most=top, keep=keep)
        if share_alone(coarse) <= alone and coarse.nunique() <= MOST_DISTINCT:
            cut = {"most": without_point(top)} if top < numbers.max() else {}
            kept = {"keep": [without_point(k) for k in keep]} if keep else {}
            return {"unit": without_point(unit), **cut, **kept}
    return {}


def without_point(x: float) -> float:
    """A whole number without its point, as it is written."""
    return int(x) if float(x).is_integer() else x


def share_alone(column: pd.Series) -> float:
    """Share of the records that are alone with their value."""
    return float((column.value_counts() == 1).sum() / max(len(column), 1))


def _units(numbers: pd.Series) -> Iterator[float]:
    """1, 2, 5, 10, ..., above the least difference of two values, up to the range."""
    distinct = np.unique(numbers)
    with np.errstate(over="ignore"):
        span, least = float(np.ptp(distinct)), float(np.diff(distinct).min(initial=np.inf))
    if not SMALLEST < span < 1 / SMALLEST:
        return
    for power in range(int(np.floor(np.log10(span / 100))), int(np.ceil(np.log10(span))) + 1):
        yield from (u for unit in UNITS if least < (u := unit * 10.0**power) <= span)


# --- keys ----------------------------------------------------------------------------------------


def share_unique(keys: pd.DataFrame) -> float:
    """Share of the records that are alone with their values of some columns."""
    if keys.empty:
        return 0.0
    coded = keys.astype(object)
    return float((coded.groupby(list(keys), dropna=False).size() == 1).sum() / len(keys))


def coarser_keys(
    df: pd.DataFrame, keys: Sequence[str], limit: float, coarse: Collection[str] = ()
) -> Iterator[tuple[str, dict[str, Any], float]]:
    """Changes of keys, one after another, until so few records are unique: column, how, share.

    Numbers first, as arguments of `coarsened`, those that are `coarse` already among them; then
    columns to leave out, with none.
    """
    table = df[[*keys]].copy()
    share = share_unique(table)
    many = [c for c in keys if df[c].nunique() > MOST_DISTINCT or c in coarse]
    numbers = [c for c in many if is_numeric(df[c].dtype)]
    for name in sorted(numbers, key=lambda c: -df[c].nunique()):
        if share <= limit:
            return
        found = 0.0
        for unit in _units(df[name].dropna().astype(float)):
            made = coarsened(df[name], unit)
            if made.nunique() < FEWEST:
                break
            table[name], found = made, unit
            if (share := share_unique(table)) <= limit:
                break
        if found:
            yield name, {"unit": without_point(found)}, share
    while share > limit and table.shape[1] > 1:
        rest: dict[str, float] = {
            str(name): share_unique(table.drop(columns=name)) for name in table
        }
        enough = [c for c, found in rest.items() if found <= limit]
        name = max(enough, key=lambda c: rest[c]) if enough else min(rest, key=lambda c: rest[c])
        table, share = table.drop(columns=name), rest[name]
        yield name, {}, share
