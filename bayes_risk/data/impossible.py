"""Structural zeros: combinations of values that no record can have.

A rule names levels of some variables; a record that has one of them in every variable named is
impossible. Coded against a table the rules become a `ZeroRegion`: disjoint boxes of levels, by
which samplers, synthesis and guesses know what is possible.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Flags, Ints, scalar
from bayes_risk._core.disjoint_boxes import disjoint, sizes
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import counted
from bayes_risk._core.shown import Shown
from bayes_risk._core.validate import known_columns

from .microdata import Microdata, ZeroRegion
from .variables import Variable

Predicate = Callable[[pd.DataFrame], Any]
MAX_CELLS = 1_000_000
SHOWN = 3  # levels of a rule in messages


@dataclass(frozen=True, slots=True, eq=False)
class Impossible(Shown):
    """Combinations of values that no record can have (structural zeros).

    Manrique-Vallier & Reiter (2014), JCGS 23, 1061-1079.

    Parameters
    ----------
    rules : list of mappings, DataFrame, or function
        Mappings of column to the levels that, together, are impossible: ``{"AGE": ["0-14"],
        "MARST": ["married", "widowed"]}`` excludes married and widowed children; columns that are
        not named may have any value. A DataFrame has one rule a row, missing cells being columns
        that are not named. A function takes a DataFrame of combinations and returns True where they
        are impossible; it is called with all of them, so there may not be more than a million. In a
        mapping None names the level of missing values.

    Raises
    ------
    InputError
        No rule, a rule that names no column or no level. With a model's table: unknown columns or
        levels, numbers, rules that exclude everything or a record of the table, rules that overlap
        so much that they make more than 20,000 disjoint boxes.

    Examples
    --------
    >>> Impossible([{"AGE": ["0-14"], "MARST": ["married", "widowed"]}])
    Impossible(1 rule)
    """

    rules: Sequence[Mapping[str, Any]] | pd.DataFrame | Predicate

    def __post_init__(self) -> None:
        if callable(self.rules):
            return
        if isinstance(self.rules, Mapping | str):
            raise InputError(
                "the rules are one mapping or text; give a list of mappings, a DataFrame or a "
                'function: Impossible([{"AGE": ["0-14"], "MARST": ["married"]}])'
            )
        rules = self.listed()
        if not rules:
            raise InputError("impossible has no rule; give at least one, or leave it out")
        for r, rule in enumerate(rules, start=1):
            if not rule:
                raise InputError(
                    f"rule {r} names no column, and so excludes everything; name levels"
                )
            if empty := [column for column, levels in rule.items() if not levels]:
                raise InputError(
                    f"rule {r} names no level of column {empty[0]!r}, and so excludes nothing; "
                    "name levels, or leave the column out"
                )

    def listed(self) -> list[dict[Hashable, list[Hashable]]]:
        """The rules as mappings of column to levels; of a function, none."""
        if callable(self.rules):
            return []
        if isinstance(self.rules, pd.DataFrame):
            return [
                {c: [scalar(v)] for c, v in row.items() if not pd.isna(v)}
                for row in self.rules.to_dict("records")
            ]
        return [{c: _levels(v) for c, v in rule.items()} for rule in self.rules]

    def region(self, microdata: Microdata) -> ZeroRegion:
        """Coded against a table, whose records must all be possible."""
        if microdata.numbers:
            raise InputError(
                "impossible",
                f"is about categories, and columns {microdata.numbers} are numbers; "
                "cut them into classes (`pandas.cut`)",
            )
        starts = np.concatenate([[0], np.cumsum(microdata.n_levels)]).astype(np.int64)
        listed = self.listed()
        if callable(self.rules):
            rules, words = _evaluated(self.rules, microdata, starts), []
        else:
            each = enumerate(listed)
            rules = np.array([coded_rule(rule, r, microdata, starts) for r, rule in each])
            shown = [
                {c: [*map(repr, v[:SHOWN]), "..."][: len(v)] for c, v in rule.items()}
                for rule in listed
            ]
            words = [" and ".join(f"{c} {', '.join(v)}" for c, v in one.items()) for one in shown]
        boxes = disjoint(rules, starts)
        if sizes(boxes, starts).sum() >= np.prod(microdata.n_levels.astype(object)):
            raise InputError(
                "impossible",
                ": the rules together exclude every combination; give fewer rules, and in each "
                "not every level of its columns",
            )
        region = ZeroRegion(
            starts=starts,
            boxes=boxes,
            rules=rules if words else boxes,
            words=tuple(words or ["the function given"] * len(boxes)),
        )
        region.refuse(microdata.codes, "the original")
        return region

    def __repr__(self) -> str:
        if callable(self.rules):
            return f"Impossible({getattr(self.rules, '__name__', 'function')})"
        return f"Impossible({counted(len(self.rules), 'rule')})"


def _levels(value: Any) -> list[Hashable]:
    """The levels that a rule names of a column: one, or several."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return [scalar(value)]
    return [scalar(v) for v in value]


def coded_rule(
    rule: Mapping[Hashable, list[Hashable]], r: int, microdata: Microdata, starts: Ints
) -> Flags:
    """One rule as a box, shape (D,); None is the level of missing values."""
    try:
        known_columns("impossible", rule, microdata.columns)
    except InputError as error:
        raise error.inside(f"rule {r + 1}") from None
    box = np.ones(starts[-1], dtype=bool)
    for j, variable in enumerate(microdata.variables):
        if variable.name not in rule or not isinstance(variable, Variable):
            continue
        levels = [*variable.levels, None][: variable.n_levels]
        codes = dict(zip(levels, range(starts[j], starts[j + 1]), strict=True))
        box[starts[j] : starts[j + 1]] = False
        for level in rule[variable.name]:
            if level not in codes:
                raise InputError(
                    "impossible",
                    f": rule {r + 1} names {level!r}, which is not a level of column "
                    f"{variable.name!r}; "
                    "check its spelling, or declare a level that no record holds in `levels`",
                )
            box[codes[level]] = True
    return box


def _evaluated(function: Predicate, microdata: Microdata, starts: Ints) -> Flags:
    """The cells that a function calls impossible, each a box, merged; shape (B, D)."""
    d = microdata.n_levels
    cells = int(np.prod(d.astype(object)))
    if cells > MAX_CELLS:
        raise InputError(
            f"the table has {cells:,} combinations, too many to ask a function about (at most "
            f"{MAX_CELLS:,}); give rules: Impossible([{{...}}, ...])"
        )
    codes = np.stack(np.unravel_index(np.arange(cells), tuple(d)), axis=1)
    answer = np.asarray(function(microdata.decode(codes, pd.RangeIndex(cells))))
    if answer.shape != (cells,) or answer.dtype != bool:
        raise InputError(
            f"the function of `impossible` returned shape {answer.shape} and dtype {answer.dtype} "
            f"for {cells} combinations; return one True or False for each"
        )
    boxes = np.zeros((int(answer.sum()), starts[-1]), dtype=bool)
    np.put_along_axis(boxes, codes[answer] + starts[:-1], True, axis=1)
    if not len(boxes):
        raise InputError(
            "the function of `impossible` calls every combination possible; leave it out"
        )
    return boxes
