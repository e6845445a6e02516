"""Results without what must not leave: ranges for counts, no record, no label, no largest value.

Which number of a result may leave is said by its tables (`base_result.Public`). One leaves: two
ranges of functions of the same records can fix both.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import plain
from bayes_risk._core.validate import whole_number
from bayes_risk.data.base_result import Public, Result
from bayes_risk.data.variables import Number
from bayes_risk.matching.result import Matched
from bayes_risk.release.exposure import exposure_of
from bayes_risk.risk.result import AttributeRisk

NAN = float("nan")
DISTANCE = "expected_absolute_error"


class Range(NamedTuple):
    """Where a number of records lies, both ends included."""

    low: float
    high: float


def range_of(value: float, n: int, min_count: int, *, whole: bool) -> Range | None:
    """The range that a number of records, or a sum of probabilities over records, is given as.

    Ranges end at multiples of ``min_count`` and, counted from n downwards, begin at these; the one
    in the middle holds what is left. So the range of a number is that of its complement, and "none"
    and "all" are given as "few" and "all but few". First and last hold one number more: all but one
    cannot be unique.

    >>> range_of(3, 100, 10, whole=True), range_of(57, 100, 10, whole=True)
    (Range(low=0, high=10), Range(low=41, high=59))
    >>> range_of(97, 100, 10, whole=True)
    Range(low=90, high=100)
    """
    if n < 2 * min_count or not np.isfinite(value):
        return None
    each_side = (n - 1 - min_count) // (2 * min_count)
    given = round(value, 0 if whole else 9)  # sums that should be whole are not quite
    fewer = min(given, n - given)
    place = max(math.ceil(fewer / min_count) - 1, 0)
    middle = place >= each_side
    low = min(place, each_side) * min_count
    low += whole and low > 0
    high = n - low if middle else (place + 1) * min_count
    return Range(low, high) if fewer == given else Range(n - high, n - low)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Redacted(Result):
    """A file-level number of the first of some results that has one, as a range.

    Attributes
    ----------
    min_count : int
        No range holds fewer numbers.
    table : DataFrame
        At most one row: ``result``, ``measure``, ``records``; ``low`` and ``high``, the ends of
        its range; ``low_without`` and ``high_without``, the same without the release. NaN: too few
        records, or no such number.
    left_out : list of str
        Kinds of results of which nothing leaves.
    """

    min_count: int
    table: pd.DataFrame
    left_out: list[str]

    def sentence(self) -> str:
        """The rule in plain words."""
        gone = f" Left out: {', '.join(self.left_out)}." if self.left_out else ""
        return (
            f"One number of records is given, as a range of at least {self.min_count} numbers: a "
            "second could narrow it. Nothing is stated of single records, of largest values, or of "
            f"fewer than {2 * self.min_count} records.{gone}"
        )

    def summary(self) -> pd.DataFrame:
        """The table, its numbers as text."""
        rows = [_written(row) for row in self.table.to_dict("records")]
        return pd.DataFrame(rows, columns=["result", "measure", "records", "found", "without"])

    def __repr__(self) -> str:
        return f"Redacted\n{self.sentence()}\n\n{self.summary().to_string(index=False)}"


def redact(*results: Any, min_count: int = 10) -> Redacted:
    """State the one number of some results that may leave the agency.

    The first result that has such a number gives it, as a range of at least `min_count` numbers.
    Nothing else is stated, because two ranges that rest on the same records can together show both.

    Parameters
    ----------
    *results : results
        IdentificationRisk and FileRisk (expected correct matches), MatchCounts (targets
        with one row), AttributeRisk (records released unchanged), Uniqueness (records alone with
        their keys), ContextMeasures (records whose key the release shows). Of later ones and of
        other kinds only the name is kept, in ``left_out``.
    min_count : int
        At least 3.

    Notes
    -----
    What is guaranteed, and what is not: ``docs/reading-the-numbers.md``.

    Examples
    --------
    >>> redact(risk, ident, min_count=10).summary()  # doctest: +SKIP
    """
    whole_number("min_count", min_count)
    if not results:
        raise InputError("redact() was given no result; give at least one")
    rows: list[dict[str, Any]] = []
    left_out = []
    for kind, result in ((type(result).__name__, result) for result in results):
        tables = result.tables().values() if isinstance(result, Result) else ()
        public = [table.public for table in tables if table.public is not None and not rows]
        rows += [_row(kind, one, min_count) for one in public]
        left_out += [] if public else [kind]
    table = pd.DataFrame(rows, columns=["result", "measure", "records", *_ENDS])
    return Redacted(min_count=min_count, table=table, left_out=left_out)


_ENDS = ("low", "high", "low_without", "high_without")


def _row(kind: str, measure: Public, min_count: int) -> dict[str, Any]:
    row: dict[str, Any] = {"result": kind, "measure": measure.words, "records": measure.n}
    ends: list[float] = []
    for number in (measure.value, measure.without):
        found = range_of(number, measure.n, min_count, whole=measure.whole)
        ends += found or (NAN, NAN)
    return row | dict(zip(_ENDS, ends, strict=True))


def _written(row: dict[Hashable, Any]) -> dict[str, Any]:
    """A row as people read it: a range, and the share of the records that it is."""

    def ends(which: str, none: str) -> str:
        low, high = row[f"low{which}"], row[f"high{which}"]
        if low != low:
            return none
        shares = (plain(100 * end / row["records"], 3) for end in (low, high))
        return f"{low:,.0f} to {high:,.0f} ({' to '.join(shares)} %)"

    kept = {name: row[name] for name in ("result", "measure", "records")}
    return kept | {"found": ends("", "too few records"), "without": ends("_without", "")}


# --- of single records, in files that stay with the data: no confidential value -----------------


def records_table(attribute: AttributeRisk | None, identification: Matched | None) -> pd.DataFrame:
    """Both risks of each record side by side, and what the files show; no confidential value.

    Records that were no target of the attribute audit have empty fields there.
    """
    tables = []
    if identification is not None:
        tables.append(identification.records.add_prefix("identification_"))
    if attribute is not None:
        named = attribute.records.assign(certain=attribute.given_away())
        both = pd.concat([named, closeness_columns(attribute)], axis=1)
        tables.append(both.add_prefix("attribute_"))
    # identification has all records, in their order; attribute columns come first all the same
    joined = tables[0] if len(tables) == 1 else tables[0].join(tables[1], how="left")
    shown = exposure_of(identification, attribute)
    if shown is not None:
        joined = joined.join(shown.records, how="left")
    joined.index.name = joined.index.name or "record"
    return joined[sorted(joined.columns, key=lambda c: not str(c).startswith("attribute_"))]


def closeness_columns(risk: AttributeRisk) -> pd.DataFrame:
    """How close the intruder comes to each number, in figures that do not tell the number.

    A distance does: on a grid of percentages the expected distance without the release is a known
    share of the true value. So distances are given relative to that one (``distance_ratio``).
    """
    kept = "^(mode_is_truth|probability_of_truth|region_size|truth_in_region)"
    tables = [pd.DataFrame(index=risk.index)]
    for variable in risk.variables:
        if isinstance(variable, Number):
            found = risk.closeness(variable.name)
            without = found[f"{DISTANCE}_prior"].where(found[f"{DISTANCE}_prior"] > 0)
            ratios = found[[DISTANCE, f"{DISTANCE}_mcse_bound"]].div(without, axis=0)
            ratios.columns = ["distance_ratio", "distance_ratio_mcse_bound"]
            tables.append(ratios.join(found.filter(regex=kept)).add_prefix(f"{variable.name}_"))
    return pd.concat(tables, axis=1)


def arrays_of(risk: AttributeRisk, *, confidential: bool) -> xr.Dataset:
    """Arrays of a result; those over guesses only where their order says nothing of the truth.

    Where all targets share one grid, or a category's levels, the place of the truth is the truth.
    """
    found = risk.to_dataset(confidential=confidential)
    shared = (risk.guesses == risk.guesses[:, :1]).all(axis=1).any()
    if confidential or not (shared or np.ptp(risk.truth)):
        return found
    why = "arrays over guesses would show the true values; [output] confidential = true keeps them"
    return found.drop_dims(["guess", "case"]).drop_vars("case_of_record").assign_attrs(note=why)
