"""Risk by group: means over the records with each value of a column, or in each band of a number.

The largest of many means tends to be too high. So the intervals of all groups of a result hold at
once (Bonferroni: each at level ``LEVEL / K`` of K groups), and that of the worst group with them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtrit

from bayes_risk._core.arrays import Array, Flags
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import plain
from bayes_risk._core.validate import known_columns

from .base_result import Result
from .variables import is_numeric

By = Sequence[str] | Mapping[str, Sequence[float]]
MOST_GROUPS = 50  # of a column
MOST_NUMBERS = 20  # different numbers that are groups as they stand
LEAST = 10  # records: the mean of fewer is shown, and not judged
LEVEL = 0.05  # of all groups together
RISE = 0.2  # of a probability: a record with more is counted
MISSING = "missing"


def groups_of(by: By, table: pd.DataFrame) -> pd.DataFrame:
    """The group of each record by column: its value, or the band that holds it, as a category.

    ``by``: names of columns, or a mapping of column to the numbers at which its bands begin (none:
    its values as they are).

    Raises
    ------
    InputError
        A column that the table does not have; one of more than 20 different numbers without bands,
        or with more than 50 values; bands of text, or out of order.
    """
    bands = by if isinstance(by, Mapping) else {}
    names = known_columns("by", by, table)
    return pd.DataFrame({name: _groups(table[name], bands.get(name) or ()) for name in names})


def _groups(column: pd.Series, ends: Sequence[float]) -> pd.Series:
    name, many, numeric = str(column.name), column.nunique(), is_numeric(column.dtype)
    if len(ends):
        if not numeric or [*ends] != sorted({*ends}):
            right = "hold numbers in ascending order" if numeric else "be left out: no numbers"
            raise InputError(("by", name), list(ends), f"cannot be bands; they must {right}")
        return _banded(column, [float(end) for end in ends])
    if numeric and many > MOST_NUMBERS:
        ends = [float(f"{column.quantile(q):.2g}") for q in (1 / 3, 2 / 3)]
        raise InputError(
            "by",
            f"names {name!r}, which has {many:,} different numbers; give the numbers at which its "
            f"bands begin: `{{{name!r}: [{ends[0]:g}, {ends[1]:g}]}}`",
        )
    if many > MOST_GROUPS:
        raise InputError(
            "by",
            f"names {name!r}, which has {many:,} values; give a column of at most {MOST_GROUPS}",
        )
    values = column.astype(object)
    if isinstance(column.dtype, pd.CategoricalDtype):
        order = list(column.cat.categories)
    else:
        several = len({type(value) for value in values.dropna()}) > 1
        order = sorted(values.dropna().unique(), key=str if several else None)
    labels = list(dict.fromkeys(map(str, order)))
    return _labelled(values.where(column.isna(), values.astype(str)), labels, column)


def _banded(column: pd.Series, ends: Sequence[float]) -> pd.Series:
    """Bands that begin at some numbers; below the first is one more."""
    words = [plain(end, 15) for end in ends]
    between = [f"{a} to below {b}" for a, b in pairwise(words)]
    labels = [f"below {words[0]}", *between, f"{words[-1]} and above"]
    place = np.searchsorted(ends, column.astype(float).fillna(ends[0]), side="right")
    return _labelled(pd.Series(np.array(labels, object)[place], column.index), labels, column)


def _labelled(groups: pd.Series, labels: Sequence[str], column: pd.Series) -> pd.Series:
    """Groups as categories in their order, missing ones last."""
    named = groups.mask(column.isna(), MISSING)
    order = [label for label in labels if label != MISSING] + [MISSING]
    return pd.Series(pd.Categorical(named, categories=order), column.index, name=column.name)


class Errors(NamedTuple):
    """Of the mean over some records: of the probability, and how far its rise may be off."""

    mcse: float
    rise: float  # standard error of the rise
    low: float = 0.0  # how far below, and above, the rise is in other modes
    high: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GroupRisk(Result):
    """Mean risk of the records of each group; made by ``risk.by_group``.

    Attributes
    ----------
    table : DataFrame
        One row a group, by ``column`` and ``group``. ``records``: those judged. ``probability``:
        mean probability of being right, with its Monte Carlo error ``mcse``; ``prior``: the same
        without the release; ``rise``: the difference; ``low`` and ``high``: where it lies, 95 % for
        all groups at once. ``share`` of records that count, ``share_without``. ``judged``: whether
        it has at least 10 records.
    event, counted : str
        What is probable; which records count, in words.
    audited : float
        Share of all records that were judged; 1: all.
    at_random : bool
        Whether they were drawn at random, so that ``low`` and ``high`` hold for all records too.
    """

    table: pd.DataFrame
    event: str
    counted: str
    audited: float = 1.0
    at_random: bool = True

    @property
    def n_judged(self) -> int:
        """Number of groups that are judged."""
        return int(self.table["judged"].sum())

    @property
    def worst(self) -> pd.Series | None:
        """The group whose rise is largest, of those that are judged; None: there is none."""
        judged = self.table[self.table["judged"]]
        return None if judged.empty else judged.iloc[int(judged["rise"].argmax())]

    def summary(self) -> pd.DataFrame:
        """The table, the largest rise first; last the groups that are not judged."""
        return self.table.sort_values(["judged", "rise"], ascending=False, kind="stable")

    def to_dict(self) -> dict[str, Any]:
        """Sentence, and a mapping for each group."""
        return {
            "sentence": self.sentence(),
            "event": self.event,
            "counted": self.counted,
            "groups": self.table.reset_index().to_dict("records"),
        }


def group_risk(
    groups: pd.DataFrame,
    records: pd.DataFrame,
    errors: Any,
    *,
    audited: float = 1.0,
    at_random: bool = True,
    **words: str,
) -> GroupRisk:
    """Means over groups of records: ``prior``, ``probability``, ``counts``, ``counts_without``.

    ``errors``: a function of a mask of records that gives their `Errors`. Where the records are a
    random sample, intervals allow for those that were not drawn: Student's t, finite population.
    """
    rises = (records["probability"] - records["prior"]).to_numpy()
    masks: dict[tuple[str, str], Flags] = {
        (str(name), str(group)): (column == group).to_numpy()
        for name, column in groups.items()
        for group in column.cat.categories
        if (column == group).any()
    }
    judged = {key: bool(mask.sum() >= LEAST) for key, mask in masks.items()}
    level = 1 - LEVEL / (2 * max(sum(judged.values()), 1))
    rows = []
    for key, mask in masks.items():
        n, of = int(mask.sum()), records[mask].mean()
        found: Errors = errors(mask)
        wide = float(ndtri(level)) * found.rise if found.rise else 0.0
        wide += _drawn(rises[mask], level, audited) if at_random else 0.0
        rise = float(of["probability"] - of["prior"])
        rows.append(
            {
                "records": n,
                "probability": of["probability"],
                "mcse": found.mcse,
                "prior": of["prior"],
                "rise": rise,
                "low": max(rise - found.low - wide, -1.0),
                "high": min(rise + found.high + wide, 1.0),
                "share": of["counts"],
                "share_without": of["counts_without"],
                "judged": judged[key],
            }
        )
    index = pd.MultiIndex.from_tuples(list(masks), names=["column", "group"])
    table = pd.DataFrame(rows, index)
    return GroupRisk(table=table, audited=audited, at_random=at_random, **words)


def _drawn(rises: Array, level: float, audited: float) -> float:
    """How far the mean of a random sample may be from that of all; infinite of one record."""
    if audited >= 1:
        return 0.0
    n = len(rises)
    if n < 2:
        return float("inf")
    error = float(rises.std(ddof=1)) * float(np.sqrt((1 - audited) / n))
    return float(stdtrit(n - 1, level)) * error
