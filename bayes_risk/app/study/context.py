"""``[context]`` of a study file: measures that users of other tools know."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from .keys import AtLeastTwo, Count, Section, SomeColumns


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class ContextSection(Section):
    """``[context]``: the options of ``context_measures``.

    keys: columns that somebody knows of a person
    target: columns to be found out; without one no DiSCO, DCAP and TCAP
    groups: number of groups into which a number is cut; others match by their exact value
    distances: to the closest record over all columns, these, or none
    holdout: is the release closer to the data than to these people of the same population?
    lookups: at most so many released records are looked up for distances
    """

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
