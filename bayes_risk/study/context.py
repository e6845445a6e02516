"""``[context]`` of a study file: measures that users of other tools know."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
from pydantic import BeforeValidator, Field, model_validator

from bayes_risk._core.errors import InputError
from bayes_risk.study.keys import AtLeastTwo, Count, Section, SomeColumns

if TYPE_CHECKING:
    from bayes_risk.study.study import Study


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class ContextSection(Section):
    """``[context]``: the options of ``context_measures``."""

    keys: Annotated[list[str], Field(min_length=1, description="a list of column names")]
    target: Annotated[SomeColumns, BeforeValidator(_listed)] = Field(
        None, description="a column name, or a list of column names"
    )
    groups: dict[str, AtLeastTwo] = Field({}, description="a table of column = a whole number >= 2")
    distances: Annotated[bool, Field(strict=True)] | list[str] = Field(
        True, description="true or false, or a list of column names"
    )
    holdout: Path | None = Field(
        None, description="the path of a table of people the model has not seen"
    )
    lookups: Count = 5_000

    @model_validator(mode="after")
    def _nothing_known_is_learnt(self) -> "ContextSection":
        for name in self.target or []:
            if name in self.keys:
                raise ValueError(
                    f"target names {name!r}, which is among keys; what is known cannot be learnt: "
                    "leave it out of one of them"
                )
        for name in self.groups:
            if name not in [*self.keys, *(self.target or [])]:
                raise ValueError(
                    f"groups names {name!r}, which is neither among keys nor target; leave it out"
                )
        if self.holdout is not None and self.distances in (False, []):
            raise ValueError("holdout is for distances, and distances = false; leave one out")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """The section as keyword arguments, but for the holdout, which has to be read."""
        return self.model_dump(exclude={"holdout"})


def check_yardsticks(study: "Study", df: pd.DataFrame) -> None:
    """Columns of ``[context]`` and ``[bounds]`` that the table lacks are told before any fit.

    Raises
    ------
    InputError
        The column, and those that there are.
    """
    context, bounds = study.context, study.bounds
    if context is not None:
        listed = [] if isinstance(context.distances, bool) else context.distances
        for key, columns in (("keys", context.keys), ("target", context.target or [])):
            _check_columns(f"[context] {key}", columns, df)
        _check_columns("[context] distances", listed, df)
        _check_groups(context.groups, df)
    if bounds is not None:
        _check_columns("[bounds] patterns", bounds.patterns or [], df)
        _check_columns("[bounds] numbers", bounds.numbers or [], df)
        _check_groups(bounds.numbers or [], df, "[bounds] numbers")


def _check_columns(where: str, columns: Iterable[str], df: pd.DataFrame) -> None:
    for name in columns:
        if name not in df.columns:
            raise InputError(f"{where} names column {name!r}; the data have {list(df.columns)}")


def _check_groups(
    columns: Iterable[str], df: pd.DataFrame, where: str = "[context] groups"
) -> None:
    for name in columns:
        if not pd.api.types.is_numeric_dtype(df[name].dtype):
            raise InputError(f"{where} names {name!r}, which holds no numbers; leave it out")
