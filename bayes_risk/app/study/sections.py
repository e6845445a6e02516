"""The sections of a study file but for ``[model]``, ``[sweep]`` and ``[compare]``.

``[identification]``, ``[utility]``, ``[context]``, ``[bounds]``, ``[membership]``, ``[full_table]``
and ``[reweight]`` have the arguments of the functions of these names.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationInfo, model_validator

import bayes_risk as br
from bayes_risk.reporting.verdicts.verdict import Thresholds

from .keys import (
    Columns,
    Count,
    FilePath,
    Float,
    FromZero,
    Functions,
    Number,
    Positive,
    Section,
    SomeColumns,
    Switch,
    unfit,
    worded,
)
from .signatures import Label, Part, part_of, section

# --- priors ---------------------------------------------------------------------------------------

Word = Literal["uniform", "marginal", "predictive", "release", "release-joint"]
WORDS: tuple[str, ...] = get_args(Word)
RIGHT = (
    ", ".join(f'"{word}"' for word in WORDS)
    + ", { truth_factor = 10 }, { interval = [500, 700] }, { density = { income = { normal = "
    '[10.0, 1.0] } } } or { mixture = [[0.9, "predictive"], [0.1, "uniform"]] }'
)


class DistributionSection(Section):
    """``{ normal = [mean, sd] }``, or ``lognormal = [mu, sigma]``, or ``uniform = [low, high]``."""

    alone = ("normal", "lognormal", "uniform")
    normal: tuple[Number, Positive] | None = worded("[mean, sd], sd above 0")
    lognormal: tuple[Number, Positive] | None = worded(
        "[mu, sigma] of the logarithm, sigma above 0"
    )
    uniform: tuple[Number, Number] | None = worded("[low, high], two numbers")

    @model_validator(mode="after")
    def _low_and_high(self) -> "DistributionSection":
        if self.uniform is not None and self.uniform[0] >= self.uniform[1]:
            raise ValueError(f"uniform = {list(self.uniform)} is not [low, high] with low < high")
        return self

    def made(self) -> Any:
        """A frozen distribution of SciPy."""
        from scipy import stats

        if self.lognormal is not None:
            return stats.lognorm(s=self.lognormal[1], scale=np.exp(self.lognormal[0]))
        if self.uniform is not None:
            return stats.uniform(loc=self.uniform[0], scale=self.uniform[1] - self.uniform[0])
        return stats.norm(*(self.normal or ()))


class PriorDensity(Section):
    """``prior = { density = { income = { normal = [10.0, 1.0] } } }``."""

    density: dict[str, DistributionSection] = Field(
        description="a table of column = distribution: { income = { normal = [10.0, 1.0] } }",
        min_length=1,
    )

    def made(self) -> br.Density:
        """What the library takes."""
        return br.Density({name: given.made() for name, given in self.density.items()})


def made_prior(prior: Any) -> Any:
    """A word, or the section of a prior, as the library takes it."""
    return getattr(prior, "made", lambda: prior)()


def one_of(
    kinds: Mapping[str, type[Section]], right: str, words: Sequence[str] = ()
) -> BeforeValidator:
    """Check for one of some words (of none: whatever is no table), or for tables told by a key."""

    def read(value: Any, info: ValidationInfo) -> Any:
        is_table = isinstance(value, Mapping)
        for key, kind in kinds.items():
            if is_table and key in value:
                return kind.model_validate(value, context=info.context)
        if isinstance(value, Section) or not (is_table or words):
            return value
        if not (isinstance(value, str) and value in words):
            raise unfit(right)
        return value

    return BeforeValidator(read)


PRIORS: dict[str, type[Section]] = {
    "density": PriorDensity,
    "interval": part_of(br.Interval),
    "truth_factor": part_of(br.TruthFactor),
}
Prior = Annotated[Any, one_of(PRIORS, RIGHT, WORDS)]


class PriorMixture(Section):
    """``prior = { mixture = [[0.9, "predictive"], [0.1, "uniform"]] }``."""

    mixture: list[tuple[Positive, Prior]] = Field(
        description='a list of [weight, prior]: [0.9, "predictive"]', min_length=1
    )

    def made(self) -> br.Mixture:
        """What the library takes."""
        return br.Mixture([(weight, made_prior(part)) for weight, part in self.mixture])


PRIORS["mixture"] = PriorMixture


# --- guesses --------------------------------------------------------------------------------------

GRID = part_of(br.Grid)
NEIGHBOURHOOD = r"neighbourhood|hamming-[1-9][0-9]{0,3}"
GUESSES = (
    '"neighbourhood", "hamming-2" (3, 4, ...), or for numbers a table: '
    '{ income = { percent = 10, n = 11 }, tenure = "levels" }'
)


def _grid(value: Any) -> Any:
    """The grid of a column."""
    if value == "levels" or isinstance(value, Part):
        return value
    if not isinstance(value, Mapping):
        raise unfit('{ percent = 10, n = 11 }, or for a category "levels"')
    return GRID.model_validate(value)


GRIDS = TypeAdapter(dict[str, Annotated[Any, BeforeValidator(_grid)]])


def _guesses(value: Any) -> Any:
    """A neighbourhood, one grid for all numbers, or a table of column = grid."""
    if isinstance(value, Mapping) and value:
        by_column = any(v == "levels" or isinstance(v, Mapping | Part) for v in value.values())
        return GRIDS.validate_python(value) if by_column else GRID.model_validate(value)
    named = isinstance(value, str) and re.fullmatch(NEIGHBOURHOOD, value)
    if not (named or isinstance(value, Part)):
        raise unfit(GUESSES)
    return value


Guesses = Annotated[Any, BeforeValidator(_guesses)]


def made_guesses(guesses: Any, budget: int) -> Any:
    """Neighbourhood, grid for all numbers, or joint grid."""
    if isinstance(guesses, Part):
        return guesses.made()
    if isinstance(guesses, str):
        return br.Neighbourhood(1 if guesses == "neighbourhood" else int(guesses.split("-")[1]))
    grids = {
        name: br.Levels() if grid == "levels" else grid.made() for name, grid in guesses.items()
    }
    return br.JointGrid(grids, budget=budget)


# --- the sections ---------------------------------------------------------------------------------

INTRUDER = part_of(br.Intruder, ("knows_columns", "others"))
BY_MODEL = ("evidence", "target_mcse", "max_doublings", "refit_budget")


def _no_code(value: Any) -> Any:
    if isinstance(value, Mapping) and "others" in value:
        raise ValueError(
            "others is a distribution of SciPy, which is code and has no place in a study file; "
            "leave it out, or audit in a script: Intruder(others=...)"
        )
    return value


SOME = '"all" or a number of records to draw at random, or a list of labels'
Labels = Annotated[list[Label], Field(min_length=1)]
OPTIONS: Any = section(
    "Options",
    br.attribute_risk,
    keys=(*BY_MODEL, "before"),
    guesses=(Guesses, "neighbourhood", GUESSES),
    prior=(Prior | None, None, RIGHT),
    knows_columns=(Columns, []),
    intruder=(Annotated[INTRUDER | None, BeforeValidator(_no_code)], None, "a table of keys"),
    targets=(Count | Literal["all"] | Labels, "all", SOME),
    guess_budget=(Annotated[int, Field(ge=16, strict=True)], 20_000, "a whole number >= 16"),
    privacy_loss=(Switch, False),
)


class AttributeSection(OPTIONS):  # type: ignore[misc]
    """``[attribute]``: the attribute-risk audit."""

    @model_validator(mode="after")
    def _suits_the_intruder(self) -> "AttributeSection":
        knows = self.knows
        alone = (*BY_MODEL, *(["targets"] if knows.largest is not None else []))
        fields = type(self).model_fields
        needless = [key for key in alone if getattr(self, key) != fields[key].default]
        if knows.is_competitor and needless:
            raise ValueError(f"{needless[0]} says nothing to a business competitor; leave it out")
        return self

    @property
    def knows(self) -> br.Intruder:
        """What the intruder knows."""
        given = INTRUDER() if self.intruder is None else self.intruder
        found: br.Intruder = given.made(knows_columns=tuple(self.knows_columns))
        return found

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of ``attribute_risk``."""
        return {
            "intruder": self.knows,
            "guesses": made_guesses(self.guesses, self.guess_budget),
            **({} if self.prior is None else {"prior": made_prior(self.prior)}),
            "targets": None if self.targets == "all" else self.targets,
            **{key: getattr(self, key) for key in BY_MODEL},
        }

    def placed_anywhere(self) -> "AttributeSection":
        """The same guesses for any record: a grid without a place for the truth stops nothing here.

        Whether there is one is asked of the targets, when they are audited.
        """
        given = self.guesses
        guesses: Any = _anywhere(given)
        if isinstance(given, dict):
            guesses = {name: _anywhere(grid) for name, grid in given.items()}
        found: AttributeSection = self.model_copy(update={"guesses": guesses})
        return found


def _anywhere(grid: Any) -> Any:
    stops = isinstance(grid, Part) and grid.made().truth == "error"
    return grid.model_copy(update={"truth": "nearest"}) if stops else grid


MissingCodes = Literal["error", "level", "blank"]


class DataSection(Section):
    """``[data]``: the confidential table."""

    alone = ("path", "demo")
    path: FilePath | None = worded("the path of a CSV, Parquet, Stata, SAS or SPSS file")
    demo: Literal["fair", "italy", "visits"] | None = worded('"fair", "italy" or "visits"')
    columns: SomeColumns = None
    index: str | None = worded("the name of the column with record labels")
    missing: Literal["error", "level"] = worded('"error" or "level"', "error")
    missing_codes: MissingCodes | dict[str, MissingCodes] = worded(
        '"error", "level" or "blank", or a table of column = one of them', "error"
    )
    na: list[str] = worded('a list of texts: ["NA"]', [])
    days: Columns = []
    separator: str | None = worded('a character: ";"')
    decimal: Literal[".", ","] | None = worded('"." or ","')
    encoding: str | None = worded('a name of one: "utf-8", "cp1252"')
    levels: dict[str, list[str | int | float | bool] | Literal["labels", "codes"]] = worded(
        'a table of column = [levels], or of column = "labels" or "codes"', {}
    )

    @property
    def listed_levels(self) -> dict[str, list[str | int | float | bool]]:
        """Columns whose levels are listed."""
        return {c: given for c, given in self.levels.items() if not isinstance(given, str)}

    @property
    def reading(self) -> dict[str, Any]:
        """How the files of the study are read, that of the data and those beside it."""
        written = {key: getattr(self, key) for key in ("na", "separator", "decimal", "encoding")}
        return {"index": self.index, "missing": self.missing_codes, **written}


class ReleaseSection(Section):
    """``[release]``: how the synthetic files are made, or where they lie."""

    m: Count = 5
    n: Count | None = None
    columns: SomeColumns = None
    classes: Literal["new", "own"] | None = worded('"new" or "own"')
    parameters: Literal["one-mode", "independent", "shared", "plug-in"] | None = worded(
        '"one-mode", "independent", "shared" or "plug-in"'
    )
    files: list[FilePath] | None = worded(
        "a list of paths, one a file, or a folder of synthpop", min_length=1
    )


class OutputSection(Section):
    """``[output]``: where results go."""

    folder: FilePath | None = worded("the path of a folder that does not exist yet")
    confidential: Switch = False
    release: Switch = False
    keep_labels: Switch = False
    redact: Switch = False
    min_count: Annotated[int, Field(ge=3, strict=True, description="a whole number >= 3")] = 10


# --- what is measured beside attribute risk, and what is accepted ---------------------------------


Below = Annotated[Float, Field(ge=0, lt=1, description="a number from 0, below 1")]
Fraction = Annotated[Float, Field(gt=0, lt=1, description="a number above 0 and below 1")]
Weight = Annotated[Float, Field(gt=0, le=1, description="a number above 0 and at most 1")]
OrAll = Annotated[Count | None, Field(description="a whole number >= 1, or leave it out")]


ThresholdsSection = part_of(Thresholds)
BoundsSection = section(
    "BoundsSection", br.release_bounds, keys=("patterns", "m", "how", "numbers"), m=(OrAll, None)
)
MembershipSection = section(
    "MembershipSection",
    br.membership,
    keys=("prior_odds", "comparisons", "alternatives", "refit_budget"),
    held_out=(Fraction | None, None, "a fraction above 0 and below 1: 0.5"),
    others=(FilePath | None, None, "the path of a table of people who are not in the data"),
    records=(Count | Literal["all"] | Labels, 200, SOME),
    knows_records=(
        *(Literal["all-but-target", "none"] | Fraction, "all-but-target"),
        '"all-but-target", "none" or a fraction above 0 and below 1',
    ),
)
FullTableSection = section(
    "FullTableSection",
    br.full_table_risk,
    keys=("targets", "prior", "draws", "keep"),
    targets=(Count | Labels, 20, "a number of records, or a list of labels"),
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
    analyses=(Functions, [], 'the text "file.py:function", or a list of such texts'),
)


class PopulationSection(Section):
    """``{ file = "everybody.csv" }``, or ``{ size = 500_000, fitted_to = "original" }``."""

    alone = ("file", "size")
    file: FilePath | None = worded("the path of a table with a row for everybody")
    size: Count | None = worded("a whole number >= 1")
    fitted_to: Literal["original", "releases"] = worded('"original" or "releases"', "original")


RADII = {"absolute": part_of(br.Absolute), "sd": part_of(br.SD), "quantile": part_of(br.Quantile)}
Radius = Annotated[Any, one_of(RADII, "one of absolute, sd (with groups) and quantile")]


IdentificationSection = section(
    "IdentificationSection",
    br.identification_risk,
    keys=("known", "synthesized", "radius", "shape", "closed", "missing", "population")
    + ("strategy", "fallback", "corresponds"),
    known=Columns,
    synthesized=Columns,
    radius=(dict[str, Radius] | None, None, "a table of column = radius"),
    population=(PopulationSection | None, None, '{ file = "everybody.csv" } or { size = 500000 }'),
)

SECTIONS: dict[str, type[Section]] = {
    "data": DataSection,
    "release": ReleaseSection,
    "attribute": AttributeSection,
    "identification": IdentificationSection,
    "utility": UtilitySection,
    "context": ContextSection,
    "bounds": BoundsSection,
    "membership": MembershipSection,
    "full_table": FullTableSection,
    "reweight": ReweightSection,
    "thresholds": ThresholdsSection,
    "output": OutputSection,
}
