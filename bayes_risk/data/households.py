"""Households in a table of persons: members, heads, and what all members have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Flags, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import known_columns

from .microdata import require_columns
from .variables import check_cells, holds_text


class HouseholdTable(NamedTuple):
    """H households of n persons."""

    number: Ints  # (n,): each person's household, 0 .. H - 1, in the order of their first rows
    labels: pd.Index  # of the households
    members: Ints  # (H,): how many persons
    heads: Ints | None  # (H,): row of the head; None: no relation was named
    variables: tuple[str, ...]  # columns of which no household has two values


@dataclass(frozen=True, slots=True)
class Households:
    """Which persons of a table are one household.

    Attributes
    ----------
    id : str
        The column with the label of each person's household. Rows may stand in any order.
    relate : str, optional
        The column with the relation to the head; each household must have one.
    head : str or int, optional
        The value of ``relate`` for the head.
    variables : list of str
        Columns of which each household must have one value.

    Examples
    --------
    >>> df = pd.DataFrame({"hid": [7, 7, 8], "age": [40, 41, 60], "rooms": [3, 3, 2]})
    >>> Households("hid", variables=["rooms"]).of(df).members.tolist()
    [2, 1]
    """

    id: str
    relate: str | None = None
    head: str | int | None = None
    variables: Sequence[str] = ()

    def of(self, df: pd.DataFrame, source: str = "the original") -> HouseholdTable:
        """Households of a table; ``source``: its name in messages.

        Raises
        ------
        InputError
            Persons without a household; labels that differ by blanks alone, or are numbers too
            large for their type; a household without a head, or with two; two values of one of
            ``variables`` in a household.
        """
        if (self.relate is None) != (self.head is None):
            raise InputError("`relate` and `head` go together; give both, or leave both out")
        named = {"household": self.id, "relate": self.relate}
        for argument, name in named.items():
            known = known_columns(argument, [] if name is None else [name], df)
            require_columns(df, known, source)
        number, index = numbered(df[self.id], source)
        several = {
            str(name): _several(number, df[name], source)
            for name in known_columns("variables", self.variables, df)
        }
        for name, flags in several.items():
            if flags.any():
                raise InputError(
                    f"household variable {name!r} has two values (missing is one) in "
                    f"{_which(flags, number, source)}; correct the table, or leave it out of "
                    "variables"
                )
        rest = [c for c in df if c not in named.values() and c not in several]
        same = (str(c) for c in rest if not _several(number, df[c], source).any())
        heads = self._heads(df, number, index, source) if self.relate else None
        members = np.bincount(number, minlength=len(index))
        return HouseholdTable(number, index, members, heads, (*several, *same))

    def _heads(self, df: pd.DataFrame, number: Ints, index: pd.Index, source: str) -> Ints:
        """Row of the head of each household."""
        rows = np.flatnonzero((df[self.relate] == self.head).fillna(False))
        if not len(rows):
            raise InputError(
                "head", self.head, f"does not occur in column {self.relate!r} of {source}"
            )
        many = np.bincount(number[rows], minlength=len(index))
        for wrong, what in ((many == 0, "no head"), (many > 1, "two heads or more")):
            if wrong.any():
                raise InputError(
                    f"{what} by {self.relate} = {self.head!r} in "
                    f"{_which(wrong, number, source)}; correct the table, or leave out relate and "
                    "head"
                )
        return rows[np.argsort(number[rows])]


def numbered(column: pd.Series, source: str = "the original") -> tuple[Ints, pd.Index]:
    """Number of each row's household, and the households' labels."""
    name = column.name
    check_cells(column, name, source)
    if absent := int(column.isna().sum()):
        raise InputError(
            "household",
            name,
            f"is missing in {absent:,} of {len(column):,} records of {source}; give each "
            "person the label of a household, and a person who lives alone an own one",
        )
    number, index = pd.factorize(column)
    index = pd.Index(index, name=name)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        exact = 2.0 ** (np.finfo(str(column.dtype)).nmant + 1)
        if (np.abs(index) >= exact).any():
            raise InputError(
                f"household {name!r} ({column.dtype}) has labels above {exact:,.0f}, which this "
                "type rounds, so that two households may have one; read whole numbers or text"
            )
    if holds_text(column):
        same = index.astype(str).str.split().str.join(" ").duplicated(keep=False)
        if same.any():
            raise InputError(
                f"household {name!r} has labels that differ by blanks alone: "
                f"{_which(same, number, source)}; write each label in one way"
            )
    return np.asarray(number, np.int64), index


def _several(number: Ints, column: pd.Series, source: str) -> Flags:
    """Households with two values of a column; a missing value is one more value."""
    check_cells(column, column.name, source)
    codes = pd.factorize(column, use_na_sentinel=False)[0]
    first = np.empty(int(number.max(initial=-1)) + 1, np.int64)
    first[number] = codes
    several: Flags = np.bincount(number, codes != first[number]) > 0
    return several


def _which(wrong: Flags, number: Ints, source: str) -> str:
    """Households by a row of the first: their labels are the data's."""
    row, more = int(np.argmax(wrong[number])) + 1, int(wrong.sum()) - 1
    return (
        f"the household of row {row:,}" + (f" and {more:,} more" if more else "") + f" of {source}"
    )
