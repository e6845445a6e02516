"""The sections of a study file, but for ``[model]``: their keys, defaults and own rules."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from bayes_risk.study.keys import (
    AtLeastTwo,
    Columns,
    Count,
    NotNegative,
    Number,
    Positive,
    Section,
    Share,
    SomeColumns,
    Switch,
    misfit,
    read_section,
    told,
)
from bayes_risk.verdict import Thresholds


class DataSection(Section):
    """``[data]``: the confidential table."""

    path: Path | None = Field(None, description="the path of a .csv, .csv.gz or .parquet file")
    demo: Literal["fair", "italy", "visits"] | None = Field(
        None, description='"fair", "italy" or "visits"'
    )
    columns: SomeColumns = None
    index: str | None = Field(None, description="the name of the column with record labels")
    missing: Literal["error", "level"] = Field("error", description='"error" or "level"')
    levels: dict[str, list[str | int | float | bool]] = Field(
        {}, description="a table of column = [levels]"
    )

    @model_validator(mode="after")
    def _one_source(self) -> "DataSection":
        if (self.path is None) == (self.demo is None):
            raise ValueError('give either path = "file.csv" or demo = "fair"')
        return self


class ReleaseSection(Section):
    """``[release]``: how the synthetic files are made, or where they lie."""

    m: Count = 5
    columns: SomeColumns = None
    classes: Literal["new", "own"] = Field("new", description='"new" or "own"')
    files: list[Path] | None = Field(None, min_length=1, description="a list of paths, one a file")

    @model_validator(mode="after")
    def _files_say_all(self) -> "ReleaseSection":
        if self.files is not None and "m" in self.model_fields_set:
            raise ValueError("files = [...] are the m releases; leave out m")
        if self.files is not None and not self.columns:
            raise ValueError(
                "files were made elsewhere: say in columns = [...] what was synthesised"
            )
        return self


class GridSection(Section):
    """``{ percent = 10, n = 11 }``: guesses for a number, the fields of ``Grid``."""

    percent: Positive | None = Field(None, description="a number above 0")
    additive: Positive | None = Field(None, description="a number above 0")
    bounds: tuple[Number, Number] | None = Field(None, description="[low, high], two numbers")
    values: list[Number] | None = Field(None, description="a list of numbers")
    n: AtLeastTwo = 11
    truth: Literal["error", "add", "nearest"] = Field(
        "error", description='"error", "add" or "nearest"'
    )

    @model_validator(mode="after")
    def _one_way(self) -> "GridSection":
        ways = ("percent", "additive", "bounds", "values")
        given = [way for way in ways if getattr(self, way) is not None]
        if len(given) != 1:
            raise ValueError(
                f"gives {' and '.join(given) or 'none'} of percent, additive, bounds and values; "
                "give exactly one: { percent = 10, n = 11 }"
            )
        return self

    @model_validator(mode="after")
    def _something_to_compare(self) -> "GridSection":
        if self.bounds is not None and self.bounds[0] >= self.bounds[1]:
            raise ValueError(f"bounds = {list(self.bounds)} are not [low, high] with low < high")
        if self.values is not None and len(set(self.values)) < 2:
            raise ValueError(f"values = {self.values} leave nothing to compare; give at least 2")
        return self


Guesses = str | GridSection | dict[str, GridSection | Literal["levels"]]
NEIGHBOURHOOD = r"neighbourhood|hamming-[1-9][0-9]*"
GUESSES = (
    '"neighbourhood", "hamming-2" (3, 4, ...), or for numbers a table: '
    '{ income = { percent = 10, n = 11 }, tenure = "levels" }'
)


def _guesses(value: Any) -> Any:
    """A neighbourhood, one grid for all numbers, or a table of column = grid."""
    if isinstance(value, GridSection):
        return value
    if isinstance(value, Mapping) and value:
        if not any(v == "levels" or isinstance(v, Mapping | Section) for v in value.values()):
            return read_section(GridSection, value, "[attribute] guesses")
        return {column: _grid(column, given) for column, given in value.items()}
    if not (isinstance(value, str) and re.fullmatch(NEIGHBOURHOOD, value)):
        raise told(misfit("[attribute] guesses", value, GUESSES))
    return value


def _grid(column: str, given: Any) -> Any:
    where = f"[attribute] guesses.{column}"
    if given == "levels":
        return given
    if not isinstance(given, Mapping | Section):
        raise told(misfit(where, given, '{ percent = 10, n = 11 }, or for a category "levels"'))
    return read_section(GridSection, given, where)


class PriorFactor(Section):
    """``prior = { truth_factor = f }``."""

    truth_factor: Positive


class DistributionSection(Section):
    """``{ normal = [mean, sd] }``, or ``lognormal = [mu, sigma]``, or ``uniform = [low, high]``."""

    normal: tuple[Number, Positive] | None = Field(None, description="[mean, sd], sd above 0")
    lognormal: tuple[Number, Positive] | None = Field(
        None, description="[mu, sigma] of the logarithm, sigma above 0"
    )
    uniform: tuple[Number, Number] | None = Field(None, description="[low, high], two numbers")

    @model_validator(mode="after")
    def _one_distribution(self) -> "DistributionSection":
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"gives {' and '.join(given) or 'none'} of normal, lognormal and uniform; give "
                "exactly one: { normal = [10.0, 1.0] }"
            )
        if self.uniform is not None and self.uniform[0] >= self.uniform[1]:
            raise ValueError(f"uniform = {list(self.uniform)} is not [low, high] with low < high")
        return self


def _densities(value: Any) -> Any:
    where = "[attribute] prior.density"
    if not isinstance(value, Mapping) or not value:
        right = "a table of column = distribution: { income = { normal = [10.0, 1.0] } }"
        raise told(misfit(where, value, right))
    return {c: read_section(DistributionSection, v, f"{where}.{c}") for c, v in value.items()}


class PriorDensity(Section):
    """``prior = { density = { income = { normal = [10.0, 1.0] } } }``."""

    density: Annotated[dict[str, DistributionSection], BeforeValidator(_densities)]


def _prior(value: Any) -> Any:
    if isinstance(value, Section) or value in ("uniform", "marginal"):
        return value
    if isinstance(value, Mapping) and set(value) == {"density"}:
        return read_section(PriorDensity, value, "[attribute] prior")
    try:
        return PriorFactor.model_validate(value)
    except ValueError:
        right = (
            '"uniform", "marginal", { truth_factor = 10 } or '
            "{ density = { income = { normal = [10.0, 1.0] } } }"
        )
        raise told(misfit("[attribute] prior", value, right)) from None


class AttributeSection(Section):
    """``[attribute]``: the attribute-risk audit."""

    guesses: Annotated[Guesses, BeforeValidator(_guesses)] = "neighbourhood"
    prior: Annotated[
        Literal["uniform", "marginal"] | PriorFactor | PriorDensity, BeforeValidator(_prior)
    ] = "uniform"
    knows_columns: Columns = []
    targets: Count | Literal["all"] = Field(
        "all", description='"all" or a number of records to draw at random'
    )
    evidence: Literal["exact", "predictive", "simulated", "refit", "reuse"] | None = Field(
        None, description='"exact", "predictive", "simulated", "refit" or "reuse", or leave it out'
    )
    target_mcse: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="a number above 0, or leave it out"
    )
    max_doublings: NotNegative = 4
    refit_budget: NotNegative = 10
    guess_budget: Annotated[int, Field(ge=16, strict=True, description="a whole number >= 16")] = (
        20_000
    )

    @property
    def grids(self) -> list[str]:
        """Columns for which guesses are listed one by one."""
        return list(self.guesses) if isinstance(self.guesses, dict) else []

    @property
    def densities(self) -> list[str]:
        """Columns of which the prior has a density."""
        return list(self.prior.density) if isinstance(self.prior, PriorDensity) else []


class ThresholdsSection(Section):
    """``[thresholds]``: what the agency accepts."""

    attribute_probability: Share = 0.5
    attribute_log_bayes_factor: Positive = 3.0
    true_match_rate: Share = 0.05
    share_unreliable: Share = 0.01

    def limits(self) -> Thresholds:
        """Return what the verdict compares with."""
        return Thresholds(**self.model_dump())


class OutputSection(Section):
    """``[output]``: where results go."""

    folder: Path | None = Field(None, description="the path of a folder that does not exist yet")
    confidential: Switch = False
