"""``[model] impossible`` of a study file: rules that say which combinations nobody can have."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import BeforeValidator

from bayes_risk._core.errors import InputError
from bayes_risk.data.impossible import Impossible
from bayes_risk.release.tables import read_like

from .keys import as_keys, misfit, told

WHERE = "[model] impossible"
RULE = '{ AGE = ["0-15"], MARITAL = ["married", "widowed"] }'
Level = str | int | float | bool
Rule = dict[str, list[Level]]


def _read(given: Any) -> Any:
    """A path, or rules: tables of column = levels."""
    if given is None or isinstance(given, Path) or (isinstance(given, str) and given):
        return given if given is None else Path(given)
    if not isinstance(given, list) or not given:
        right = f'a list of rules: [{RULE}], or the path of a table: "rules.csv"'
        raise told(misfit(WHERE, given, right))
    return [_rule(rule, place) for place, rule in enumerate(given, start=1)]


def _rule(given: Any, place: int) -> Rule:
    where = f"{WHERE}, rule {place}"
    if not isinstance(given, Mapping) or not given:
        raise told(misfit(where, given, f"a table of column = [levels]: {RULE}"))
    return {str(c): _levels(v, f"{where}: {c}") for c, v in given.items()}


def _levels(given: Any, where: str) -> list[Level]:
    levels = given if isinstance(given, list) else [given]
    if not levels or not all(isinstance(v, str | int | float) for v in levels):
        raise told(misfit(where, given, 'a level, or a list of levels: ["married", "widowed"]'))
    return levels


Rules = Annotated[list[Rule] | Path | None, BeforeValidator(_read)]


def with_zeros(declaration: Any, rules: Sequence[Rule] | Path | None, df: pd.DataFrame) -> Any:
    """The declaration, told what is impossible; a table of rules is read as the data are.

    Raises
    ------
    InputError
        Rules that do not suit the columns and levels of the data, or exclude one of its records.
    """
    if rules is None:
        return declaration
    given = read_like(rules, df) if isinstance(rules, Path) else rules
    try:
        return replace(declaration, impossible=Impossible(given))
    except InputError as error:
        raise InputError(f"{WHERE}: {as_keys(str(error))}") from None
