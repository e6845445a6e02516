"""``[identification]`` of a study file: what the matching intruder holds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import is_number
from bayes_risk.matching.choices import check_effects, checked_choices

from .keys import (
    Columns,
    Count,
    Float,
    FromZero,
    Section,
    Share,
    Switch,
    as_keys,
    misfit,
    read_section,
    told,
)

Missing = Literal["level", "wildcard", "never"]


class RadiusSection(Section):
    """``{ absolute = 1000 }``, or ``{ sd = 1, groups = 20 }``, or ``{ quantile = 0.02 }``.

    absolute: in the unit of the column
    sd: so many standard deviations
    groups: beside `sd`: of the one of so many equal parts of the file that the target is in; 1 if
        left out
    quantile: this share of the file on either side
    """

    absolute: FromZero | None = Field(None, description="a number >= 0")
    sd: FromZero | None = Field(None, description="a number >= 0")
    groups: Count | None = Field(None, description="a whole number >= 1, beside sd")
    quantile: Share | None = Field(None, description="a number from 0 to 1")

    @model_validator(mode="after")
    def _one_kind(self) -> "RadiusSection":
        given = [k for k in ("absolute", "sd", "quantile") if getattr(self, k) is not None]
        if len(given) != 1:
            raise ValueError(
                f"gives {' and '.join(given) or 'none'} of absolute, sd and quantile; give exactly "
                "one: { absolute = 1000 }"
            )
        if self.groups is not None and self.sd is None:
            raise ValueError("groups belongs to sd: { sd = 1, groups = 20 }")
        return self


class PopulationSection(Section):
    """``{ file = "everybody.csv" }``, or ``{ size = 500_000, fitted_to = "original" }``.

    file: read as the data are; may have people and values that the data cannot
    size: instead: number of people; counts are estimated by an all-two-way log-linear model
    fitted_to: beside `size`: the original, or each release
    """

    file: Path | None = Field(None, description="the path of a table with a row for everybody")
    size: Count | None = None
    fitted_to: Literal["original", "releases"] = Field(
        "original", description='"original" or "releases"'
    )

    @model_validator(mode="after")
    def _one_source(self) -> "PopulationSection":
        if (self.file is None) == (self.size is None):
            raise ValueError('give either file = "everybody.csv" or size = 500000')
        return self


def _radii(value: Any) -> Any:
    if value is None:
        return value
    if not isinstance(value, Mapping):
        raise told(misfit("[identification] radius", value, "a table of column = radius"))
    return {name: _radius(name, given) for name, given in value.items()}


def _radius(name: str, given: Any) -> Any:
    where = f"[identification] radius.{name}"
    if isinstance(given, Mapping | Section):
        return read_section(RadiusSection, given, where)
    if not is_number(given) or not 0 <= given < 1e300:
        raise told(misfit(where, given, "a number >= 0 (0.1 is 10 %), or { absolute = 1000 }"))
    return float(given)


def _strategy(value: Any) -> Any:
    if value in ("always", "likeliest") or (is_number(value) and 0 < value <= 1):
        return value
    right = '"always", "likeliest" or a number above 0 and at most 1'
    raise told(misfit("[identification] strategy", value, right))


class IdentificationSection(Section):
    """``[identification]``: what the matching intruder holds.

    known: keys that were not synthesised
    synthesized: keys that were: true values are matched against synthetic ones
    radius: by column; a number is a share of the true value (0.1: 10 %), other kinds are tables;
        all other keys match exactly
    shape: with several radii each must hold, or all together
    closed: the ends of these intervals belong to them
    missing: missing values match missing ones, everything, or nothing
    population: the intruder does not know who is in the file; not beside `radius`
    strategy: `"always"`: a match is claimed for everybody; `"likeliest"`: unless the target is
        likeliest outside the file; a number: if it is outside with a probability below it
    fallback: when nothing matches, the intruder chooses among all who share the `known` keys
    """

    known: Columns
    synthesized: Columns
    radius: Annotated[dict[str, Float | RadiusSection] | None, BeforeValidator(_radii)] = None
    shape: Literal["box", "ellipse"] = Field("box", description='"box" or "ellipse"')
    closed: Switch = True
    missing: Missing | dict[str, Missing] = Field(
        "level",
        description='"level", "wildcard" or "never", or a table of column = one of them',
    )
    population: PopulationSection | None = Field(
        None, description='{ file = "everybody.csv" } or { size = 500000 }'
    )
    strategy: Annotated[Float | str, BeforeValidator(_strategy)] = "always"
    fallback: Switch = True

    @model_validator(mode="after")
    def _choices_change_something(self) -> "IdentificationSection":
        choices = checked_choices(self.strategy, self.shape, self.closed, self.fallback)
        try:
            check_effects(
                choices, population=self.population is not None, n_radii=len(self.radius or {})
            )
        except InputError as error:
            raise ValueError(as_keys(str(error))) from None
        return self

    @model_validator(mode="after")
    def _named_columns_are_keys(self) -> "IdentificationSection":
        if self.radius and self.population is not None:
            raise ValueError(
                "population goes by exact keys, and radius makes keys inexact: leave one of them "
                "out, or cut the numbers into categories"
            )
        named = self.missing if isinstance(self.missing, dict) else {}
        keys = [*self.known, *self.synthesized]
        for what, columns in (("radius", self.radius or {}), ("missing", named)):
            for column in columns:
                if column not in keys:
                    raise ValueError(
                        f"{what} names {column!r}, which is not among known and synthesized "
                        f"({keys}); add it there, or leave it out"
                    )
        return self
