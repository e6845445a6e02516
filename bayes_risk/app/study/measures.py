"""Sections on what is measured beside attribute risk, and ``[thresholds]``, what is accepted.

``[identification]``, ``[utility]``, ``[context]``, ``[bounds]``, ``[membership]``,
``[full_table]`` and ``[reweight]``: their keys are the arguments of the functions of these names.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

import bayes_risk as br
from bayes_risk.reporting.verdicts.verdict import Thresholds

from .keys import (
    AtLeastTwo,
    Columns,
    Count,
    FilePath,
    Float,
    FromZero,
    Functions,
    NotNegative,
    Number,
    Positive,
    Section,
    misfit,
    read_section,
    told,
)
from .sections import SOME, Some
from .signatures import Label, part_of, section

Below = Annotated[Float, Field(ge=0, lt=1, description="a number from 0, below 1")]
Fraction = Annotated[Float, Field(gt=0, lt=1, description="a number above 0 and below 1")]
Weight = Annotated[Float, Field(gt=0, le=1, description="a number above 0 and at most 1")]
OrAll = Annotated[Count | None, Field(description="a whole number >= 1, or leave it out")]


def word(*words: str) -> Any:
    """The type of one of some words."""
    return Annotated[Literal[words], Field(description=" or ".join(f'"{w}"' for w in words))]


ThresholdsSection = part_of(Thresholds)
BoundsSection = section(
    "BoundsSection", br.release_bounds, keys=("patterns", "m", "how", "numbers"), m=(OrAll, None)
)
PEOPLE = "the path of a table of people who are not in the data"
FRACTION = "a fraction above 0 and below 1"
MembershipSection = section(
    "MembershipSection",
    br.membership,
    keys=("prior_odds", "comparisons", "alternatives", "refit_budget"),
    held_out=(Annotated[Fraction | None, Field(description=f"{FRACTION}: 0.5")], None),
    others=(Annotated[FilePath | None, Field(description=PEOPLE)], None),
    records=(Annotated[Some, Field(description=SOME)], 200),
    knows_records=(
        Annotated[
            Literal["all-but-target", "none"] | Fraction,
            Field(description=f'"all-but-target", "none" or {FRACTION}'),
        ],
        "all-but-target",
    ),
    prior_odds=Positive,
    comparisons=Count,
    alternatives=AtLeastTwo,
    refit_budget=NotNegative,
)
TARGETS = "a number of records, or a list of labels"
FullTableSection = section(
    "FullTableSection",
    br.full_table_risk,
    keys=("targets", "prior", "draws", "keep"),
    targets=(
        Annotated[Count | Annotated[list[Label], Field(min_length=1)], Field(description=TARGETS)],
        20,
    ),
    prior=word("predictive", "uniform", "marginal"),
    draws=OrAll,
    keep=Count,
)
ReweightSection = section(
    "ReweightSection",
    br.reweight,
    br.LinearWeights,
    keys=("until", "share", "rounds", "c", "g", "floor", "steps"),
    until=(Fraction, ...),
    share=Below,
    rounds=Count,
    c=FromZero,
    g=Number,
    floor=Weight,
    steps=Count,
)
ContextSection = section(
    "ContextSection",
    br.context_measures,
    keys=("keys", "target", "groups", "distances", "holdout", "lookups"),
    lookups=Count,
)
UtilitySection = section(
    "UtilitySection",
    br.utility,
    keys=("columns", "numbers", "groups", "missing", "permutations", "analyses", "rules")
    + ("confidence",),
    groups=AtLeastTwo,
    missing=word("level", "error"),
    permutations=AtLeastTwo,
    analyses=(
        Annotated[
            Functions, Field(description='the text "file.py:function", or a list of such texts')
        ],
        [],
    ),
    rules=word("partially synthetic", "fully synthetic"),
    confidence=Annotated[Fraction, Field(description="a number above 0 and below 1: 0.95")],
)


class PopulationSection(Section):
    """``{ file = "everybody.csv" }``, or ``{ size = 500_000, fitted_to = "original" }``."""

    file: FilePath | None = Field(None, description="the path of a table with a row for everybody")
    size: Count | None = None
    fitted_to: Literal["original", "releases"] = Field(
        "original", description='"original" or "releases"'
    )

    @model_validator(mode="after")
    def _one_source(self) -> "PopulationSection":
        if (self.file is None) == (self.size is None):
            raise ValueError('give either file = "everybody.csv" or size = 500000')
        return self


RADII = {"absolute": part_of(br.Absolute), "sd": part_of(br.SD), "quantile": part_of(br.Quantile)}


def _radii(value: Any) -> Any:
    """Shares of the true value, or tables: ``{ absolute = 1000 }``, ``{ sd = 1, groups = 20 }``."""
    if value is not None and not isinstance(value, Mapping):
        raise told(misfit("[identification] radius", value, "a table of column = radius"))
    where = "[identification] radius"
    return value and {name: _radius(f"{where}.{name}", given) for name, given in value.items()}


def _radius(where: str, given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    kinds = [kind for kind in RADII if kind in given]
    if len(kinds) != 1:
        raise told(f"{where}: give one of absolute, sd (with groups) and quantile")
    return read_section(RADII[kinds[0]], given, where)


IdentificationSection = section(
    "IdentificationSection",
    br.identification_risk,
    keys=("known", "synthesized", "radius", "shape", "closed", "missing", "population")
    + ("strategy", "fallback"),
    known=Columns,
    synthesized=Columns,
    radius=(Annotated[dict[str, Any] | None, BeforeValidator(_radii)], None),
    population=(
        Annotated[
            PopulationSection | None,
            Field(description='{ file = "everybody.csv" } or { size = 500000 }'),
        ],
        None,
    ),
)
