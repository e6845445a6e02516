"""``[attribute] prior`` of a study file: factor, density or interval."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from bayes_risk.study.keys import Number, Positive, Section, misfit, read_section, told


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


class PriorInterval(Section):
    """``prior = { interval = [500, 700], probability = 0.8 }``."""

    interval: tuple[Number, Number] = Field(description="[low, high], two numbers")
    probability: float = Field(
        0.9, gt=0, le=1, description="a number above 0 and at most 1, as a share"
    )
    column: str | None = Field(None, description="a column name")
    spread: Literal["uniform", "log-uniform"] = Field(
        "uniform", description='"uniform" or "log-uniform"'
    )

    @model_validator(mode="after")
    def _bounds(self) -> "PriorInterval":
        low, high = self.interval
        if low >= high:
            raise ValueError(f"interval = {[low, high]} is not [low, high] with low < high")
        if self.spread == "log-uniform" and low <= 0:
            raise ValueError(
                f"interval = {[low, high]} has an end without a logarithm; give low > 0, or "
                'spread = "uniform"'
            )
        return self


def read_prior(value: Any) -> Any:
    """A word, or the table that has the keys of one of the sections."""
    if isinstance(value, Section) or value in ("uniform", "marginal"):
        return value
    if isinstance(value, Mapping) and set(value) == {"density"}:
        return read_section(PriorDensity, value, "[attribute] prior")
    if isinstance(value, Mapping) and "interval" in value:
        return read_section(PriorInterval, value, "[attribute] prior")
    try:
        return PriorFactor.model_validate(value)
    except ValueError:
        right = (
            '"uniform", "marginal", { truth_factor = 10 }, { interval = [500, 700] } or '
            "{ density = { income = { normal = [10.0, 1.0] } } }"
        )
        raise told(misfit("[attribute] prior", value, right)) from None


Prior = Annotated[
    Literal["uniform", "marginal"] | PriorFactor | PriorDensity | PriorInterval,
    BeforeValidator(read_prior),
]
