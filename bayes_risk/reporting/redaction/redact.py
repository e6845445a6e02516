"""Results without what must not leave: ranges for counts, no record, no label, no largest value."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import at_least

from .measures import TOLD, Measure
from .ranges import Range, range_of, rounded

NAN = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Redacted:
    """File-level numbers of some results, none of which rests on fewer than so many records.

    Attributes
    ----------
    min_count : int
        No range is narrower.
    table : DataFrame
        One row a number: ``result``, ``measure``, ``records``; ``low`` and ``high``, the ends of
        its range; ``low_without`` and ``high_without``, the same without the release; ``value``,
        of measures that count no records, rounded. NaN: too few records, or no such number.
    left_out : list of str
        Kinds of results of which nothing can leave.
    """

    min_count: int
    table: pd.DataFrame
    left_out: list[str]

    def sentence(self) -> str:
        """The rule in plain words."""
        gone = f" Left out: {', '.join(self.left_out)}." if self.left_out else ""
        return (
            f"Every number of records is given as a range of at least {self.min_count} numbers, "
            "every sum of probabilities likewise; nothing is said of single records, of largest "
            f"values, or of results over fewer than {2 * self.min_count} records.{gone}"
        )

    def summary(self) -> pd.DataFrame:
        """The table, its numbers as text."""
        rows = [_written(row) for row in self.table.to_dict("records")]
        return pd.DataFrame(rows, columns=["result", "measure", "records", "found", "without"])

    def __repr__(self) -> str:
        return f"Redacted\n{self.sentence()}\n\n{self.summary().to_string(index=False)}"


def redact(*results: Any, min_count: int = 10) -> Redacted:
    """File-level numbers of results that may leave the place where the data are kept.

    Labels, records, largest values, quantiles, figures and sentences stay. Numbers of records and
    sums of probabilities over records are given as ranges that hold at least `min_count` numbers.

    Parameters
    ----------
    *results : results
        AttributeRisk, IdentificationRisk, FileRisk, Uniqueness, Utility, ContextMeasures and
        Membership; of other kinds only the name is kept, in ``left_out``.
    min_count : int
        At least 3.

    Returns
    -------
    Redacted

    Raises
    ------
    InputError
        No result; a `min_count` below 3.

    Notes
    -----
    Ranges begin at multiples of `min_count`, the last takes what is left, so neither totals nor
    other counts of the same output narrow one (``docs/confidentiality.md``, with what is not
    promised: several outputs of changed data can be subtracted from one another).

    Examples
    --------
    >>> redact(risk, ident, min_count=10).summary()  # doctest: +SKIP
    """
    at_least("min_count", min_count, 3)
    if not results:
        raise InputError("redact() was given no result; give at least one")
    kinds = [type(result).__name__ for result in results]
    rows = [
        _row(kind, measure, min_count)
        for kind, result in zip(kinds, results, strict=True)
        if kind in TOLD
        for measure in TOLD[kind](result)
    ]
    names = ["result", "measure", "records", *_ENDS, "value"]
    return Redacted(
        min_count=min_count,
        table=pd.DataFrame(rows, columns=names),
        left_out=[kind for kind in kinds if kind not in TOLD],
    )


_ENDS = ("low", "high", "low_without", "high_without")


def _row(kind: str, measure: Measure, min_count: int) -> dict[str, Any]:
    row: dict[str, Any] = {"result": kind, "measure": measure.words, "records": measure.n}
    if measure.free:
        enough = measure.n >= 2 * min_count
        return row | {"value": rounded(measure.value) if enough else NAN}
    ends: Sequence[float] = ()
    for number in (measure.value, measure.without):
        found = range_of(number, measure.n, min_count, whole=measure.whole)
        ends = (*ends, *(found or Range(NAN, NAN)))
    return row | dict(zip(_ENDS, ends, strict=True))


def _written(row: dict[Hashable, Any]) -> dict[str, Any]:
    """A row as people read it: a range, and the share of the records that it is."""
    n = row["records"]

    def ends(low: float, high: float, none: str) -> str:
        if low != low:
            return none
        return f"{low:,.0f} to {high:,.0f} ({100 * low / n:.3g} to {100 * high / n:.3g} %)"

    value = row.get("value", NAN)
    found = ends(row["low"], row["high"], "not told") if value != value else f"{value:g}"
    without = ends(row["low_without"], row["high_without"], "")
    kept = {"result": row["result"], "measure": row["measure"], "records": n}
    return kept | {"found": found, "without": without}
