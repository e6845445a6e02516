"""``[attribute] prior`` of a study file: a word, factor, density, interval or mixture."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from bayes_risk._core.validate import is_number

from .keys import LARGEST, Float, Number, Positive, Section, misfit, read_section, told

Word = Literal["uniform", "marginal", "predictive", "release", "release-joint"]
WORDS: tuple[str, ...] = get_args(Word)
RIGHT = (
    ", ".join(f'"{word}"' for word in WORDS)
    + ", { truth_factor = 10 }, { interval = [500, 700] }, { density = { income = { normal = "
    '[10.0, 1.0] } } } or { mixture = [[0.9, "predictive"], [0.1, "uniform"]] }'
)


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
    """``prior = { interval = [500, 700], probability = 0.8 }``.

    interval: the number lies in it ("industry sources say")
    probability: of the interval; the rest goes to the guesses outside
    column: which number, where several are guessed
    spread: how probability is spread inside and outside
    """

    interval: tuple[Number, Number] = Field(description="[low, high], two numbers")
    probability: Float = Field(
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


class PriorMixture(Section):
    """``prior = { mixture = [[0.9, "predictive"], [0.1, "uniform"]] }``."""

    mixture: list[tuple[Positive, Any]]


def read_prior(value: Any, where: str = "[attribute] prior") -> Any:
    """A word, or the table that has the keys of one of the sections; ``where`` is for messages."""
    if isinstance(value, Section) or (isinstance(value, str) and value in WORDS):
        return value
    if isinstance(value, Mapping) and set(value) == {"density"}:
        return read_section(PriorDensity, value, where)
    if isinstance(value, Mapping) and set(value) == {"mixture"}:
        return PriorMixture(mixture=_parts(value["mixture"], f"{where}.mixture"))
    if isinstance(value, Mapping) and "interval" in value:
        return read_section(PriorInterval, value, where)
    try:
        return PriorFactor.model_validate(value)
    except ValueError:
        raise told(misfit(where, value, RIGHT)) from None


def _parts(given: Any, where: str) -> list[tuple[float, Any]]:
    """Weights and priors of a mixture."""
    pair = '[weight, prior]: [0.9, "predictive"]'
    if not isinstance(given, list) or not given:
        raise told(misfit(where, given, f"a list of {pair}"))
    parts = []
    for place, part in enumerate(given, start=1):
        label = f"{where}, part {place}"
        if not isinstance(part, list | tuple) or len(part) != 2:
            raise told(misfit(label, part, pair))
        weight, prior = part
        if not is_number(weight) or not 0 < weight <= LARGEST:
            raise told(misfit(f"{label}: weight", weight, "a number above 0"))
        parts.append((float(weight), read_prior(prior, label)))
    return parts


def parts_of(prior: Any) -> list[Any]:
    """The priors that a mixture is made of, down to the last; of any other prior itself."""
    if not isinstance(prior, PriorMixture):
        return [prior]
    return [single for _, part in prior.mixture for single in parts_of(part)]


def shown(prior: Any) -> str:
    """A prior in a few words, for labels."""
    if isinstance(prior, PriorFactor):
        return f"truth favoured, factor {prior.truth_factor:g}"
    if isinstance(prior, PriorInterval):
        low, high = prior.interval
        return f"{prior.column or 'it'} from {low:g} to {high:g}: {prior.probability:g}"
    if isinstance(prior, PriorDensity):
        return " and ".join(f"{c}: {_distribution(d)}" for c, d in prior.density.items())
    if isinstance(prior, PriorMixture):
        parts = (
            (w, shown(part) if part in WORDS else f"[{shown(part)}]") for w, part in prior.mixture
        )
        return " + ".join(f"{weight:g} {words}" for weight, words in parts)
    return str(prior)


def _distribution(given: DistributionSection) -> str:
    found = {k: v for k, v in given.model_dump().items() if v is not None}
    ((name, numbers),) = found.items()
    return f"{name}({', '.join(f'{v:g}' for v in numbers)})"


Prior = Annotated[
    Word | PriorFactor | PriorDensity | PriorInterval | PriorMixture,
    BeforeValidator(lambda value: read_prior(value)),
]
