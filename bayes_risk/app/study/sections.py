"""The sections of a study file but for ``[model]``.

``[identification]``, ``[utility]``, ``[context]``, ``[bounds]``, ``[membership]``, ``[full_table]``
and ``[reweight]`` have the arguments of the functions of these names.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import pandas as pd
from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationInfo,
    model_serializer,
    model_validator,
)

import bayes_risk as br
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import BOUNDS
from bayes_risk.data.kept import RESULT
from bayes_risk.data.measures import RISKS, UTILITIES
from bayes_risk.intruder.intruder import KNOWN
from bayes_risk.reporting.verdicts.verdict import Thresholds

from .keys import (
    COLUMNS,
    FilePath,
    Float,
    Functions,
    Number,
    Positive,
    Section,
    Switch,
    count_of,
    unfit,
    whole,
    worded,
)
from .signatures import (
    WEIGHTS,
    DeclaredPart,
    Label,
    Table,
    arguments_of,
    field_of,
    made,
    part,
    part_of,
    read_as_part,
    section,
)

# --- priors ---------------------------------------------------------------------------------------

Word = Literal["uniform", "marginal", "predictive", "release", "release-joint"]
RIGHT = (
    ", ".join(f'"{word}"' for word in get_args(Word))
    + ", { truth_factor = 10 }, { interval = [500, 700] }, { density = { income = { normal = "
    '[10.0, 1.0] } } } or { mixture = [[0.9, "predictive"], [0.1, "uniform"]] }'
)


class DistributionSection(DeclaredPart):
    """``{ normal = [mean, sd] }``, or ``lognormal = [mu, sigma]``, or ``uniform = [low, high]``."""

    alone = ("normal", "lognormal", "uniform")
    normal: tuple[Number, Positive] | None = worded("[mean, sd], sd above 0")
    lognormal: tuple[Number, Positive] | None = worded("[mu, sigma] of the logarithm, sigma > 0")
    uniform: tuple[Number, Number] | None = worded("[low, high], two numbers")

    def made(self, **more: Any) -> Any:
        """A frozen distribution of SciPy."""
        from scipy import stats

        if self.normal is not None:
            return stats.norm(*self.normal)
        if self.lognormal is not None:
            return stats.lognorm(s=self.lognormal[1], scale=np.exp(self.lognormal[0]))
        low, high = self.uniform or (0.0, 0.0)
        if low >= high:
            raise InputError("uniform", [low, high], "is not [low, high] with low < high")
        return stats.uniform(loc=low, scale=high - low)


PRIORS = [part_of(br.Interval), part_of(br.TruthFactor)]
Prior = Annotated[Word | Table, read_as_part(PRIORS)]
DENSITY = "a table of column = distribution: { income = { normal = [10.0, 1.0] } }"
MIXTURE = 'a list of [weight, prior]: [0.9, "predictive"]'
PRIORS += [
    part(br.Density, density=(dict[str, DistributionSection], worded(DENSITY, ..., min_length=1))),
    part(
        br.MixedPrior,
        under="mixture",
        mixture=(list[tuple[Positive, Prior]], worded(MIXTURE, ..., min_length=1)),
    ),
]


# --- guesses --------------------------------------------------------------------------------------

GRID = part(br.Grid, n=(int, whole("n", arguments_of(br.Grid)["n"].default, least=2)))
GUESSES = (
    '"neighbourhood", "hamming-2" (3, 4, ...), "predictive" (numbers at quantiles of what the '
    'model expects), or a table: { income = { percent = 10, n = 11 }, age = "predictive", tenure = '
    '"levels" }'
)
OfColumn = Literal["levels", "predictive"]
GRIDS = TypeAdapter(dict[str, Annotated[OfColumn | Table, read_as_part([GRID])]])


def _guesses(value: Any) -> Any:
    """Read one grid for all numbers, or a table of column = grid."""
    if not isinstance(value, Mapping):
        return value
    by_column = any(
        isinstance(v, Mapping | DeclaredPart) or v in get_args(OfColumn) for v in value.values()
    )
    return GRIDS.validate_python(value) if by_column else GRID.model_validate(value)


Named = Annotated[str, Field(pattern=r"^(neighbourhood|predictive|hamming-[1-9][0-9]{0,3})$")]
Guesses = Annotated[Named | Table | dict[str, OfColumn | Table], BeforeValidator(_guesses)]


def made_guesses(guesses: Any, budget: int) -> Any:
    """Neighbourhood, grid for all numbers, or joint grid; None: the default."""
    if guesses in (None, "predictive"):
        return guesses
    if isinstance(guesses, str):
        return br.Neighbourhood(1 if guesses == "neighbourhood" else int(guesses.split("-")[1]))
    if isinstance(guesses, dict):
        named = {"levels": br.Levels(), "predictive": br.Grid(predictive=True)}
        grids = {c: named[g] if isinstance(g, str) else g.made() for c, g in guesses.items()}
        return br.JointGrid(grids, budget=budget)
    return guesses.made()


# --- the sections ---------------------------------------------------------------------------------


class SampledSection(DeclaredPart):
    """``{ weights = "w" }``: 1 / w, the probability with which each record was sampled."""

    weights: str = worded(WEIGHTS, ...)
    _chance: Any = PrivateAttr(0.5)  # as good as any before the table is read

    def read(self, table: pd.DataFrame) -> "SampledSection":
        """The same, with the weights of the records."""
        found = self.model_copy()
        found._chance = 1.0 / table[self.weights]
        return found

    def made(self, **more: Any) -> Any:
        """One probability a record."""
        return self._chance


IN_FILE, _ = field_of(arguments_of(br.Intruder)["in_file"])
INTRUDER = part(
    br.Intruder,
    ("knows_columns", "others", "households"),
    in_file=(
        Annotated[IN_FILE | Table, read_as_part([SampledSection])],
        worded('a number above 0, at most 1, or { weights = "w" }', 1.0),
    ),
)
BY_MODEL = ("evidence", "target_mcse", "max_doublings", "refit_budget")
SOME = '"all" or a number of records to draw at random, or a list of labels'
Labels = Annotated[list[Label], Field(min_length=1)]
OPTIONS: Any = section(
    "Options",
    br.attribute_risk,
    keys=(*BY_MODEL, "before", "by"),
    guesses=(Guesses | None, worded(GUESSES)),
    prior=(Prior | None, worded(RIGHT)),
    knows_columns=(list[str], worded(COLUMNS, [])),
    intruder=(INTRUDER | None, None),
    targets=(count_of("targets") | Literal["all"] | Labels, worded(SOME, "all")),
    guess_budget=(int, whole("guess_budget", 20_000)),
    privacy_loss=(Switch, False),
)


class AttributeSection(OPTIONS, Section):  # type: ignore[misc]
    """``[attribute]``: the attribute-risk audit."""

    _households: Any = PrivateAttr(None)  # of records, once the table is read

    @model_validator(mode="after")
    def _suits_the_intruder(self) -> "AttributeSection":
        alone = (*BY_MODEL, *(["targets"] if self.knows.largest is not None else []))
        for key in alone if self.knows.is_competitor else ():
            if getattr(self, key) != type(self).model_fields[key].default:
                raise InputError(key, "has no effect for a business competitor; leave it out")
        return self

    @property
    def knows(self) -> Any:
        """What the intruder knows."""
        given: Any = self.intruder or INTRUDER()
        more = {"knows_columns": tuple(self.knows_columns)}
        if given.household != KNOWN:
            more["households"] = self._households
        return given.made(**more)

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of ``attribute_risk``."""
        return {
            "intruder": self.knows,
            "guesses": made_guesses(self.guesses, self.guess_budget),
            **({} if self.prior is None else {"prior": made(self.prior)}),
            "targets": None if self.targets == "all" else self.targets,
            **{key: getattr(self, key) for key in BY_MODEL},
        }

    def placed_anywhere(self) -> "AttributeSection":
        """The same guesses for any record: a grid without a place for the truth stops nothing here.

        Whether there is one is asked of the targets, when they are audited.
        """

        def anywhere(grid: Any) -> Any:
            stops = getattr(grid, "truth", None) == "error"
            return grid.model_copy(update={"truth": "nearest"}) if stops else grid

        grids = self.guesses
        by_column = isinstance(grids, dict)
        guesses = {c: anywhere(g) for c, g in grids.items()} if by_column else anywhere(grids)
        return self.model_copy(update={"guesses": guesses})


Change = Literal["panel"] | FilePath
HISTORY: Any = section(
    "History",
    br.join,
    keys=("same_table",),
    evidence=(
        list[FilePath],
        worded('a list of what earlier runs wrote: ["2024/risk.nc"]', ..., min_length=1),
    ),
    transition=(
        Change | dict[str, Change] | None,
        worded('"panel", or the path of a table, or { column = path }'),
    ),
)


class HistorySection(HISTORY, Section):  # type: ignore[misc]
    """``[history]``: what was published before."""

    def how(self) -> dict[str, Any]:
        """Keyword arguments of `br.join`; tables are read, their first column the old values."""
        read = made(self.transition)

        def labelled(table: Any) -> Any:
            return table if isinstance(table, str) else table.set_index(table.columns[0])

        if isinstance(read, dict):
            read = {column: labelled(table) for column, table in read.items()}
        elif read is not None:
            read = labelled(read)
        return {"same_table": self.same_table, "transition": read}

    def files(self) -> Iterator[tuple[str, Path]]:
        """Role and path of each."""
        for l, path in enumerate(self.evidence, start=1):
            yield f"evidence {l}", path / RESULT if path.is_dir() else path
        tables = (
            self.transition.values() if isinstance(self.transition, dict) else [self.transition]
        )
        yield from (("transition", path) for path in tables if isinstance(path, Path))


MissingCodes = Literal["error", "level", "blank"]
Listed = list[str | int | float | bool]  # levels


class CoarserSection(Section):
    """``{ unit = 500, most = 5000 }``: how a number is made coarser before anything else."""

    unit: Positive = worded("a number above 0", ...)
    least: Number | None = worded("a number: lower ones become it")
    most: Number | None = worded("a number: higher ones become it")
    keep: list[Number] = worded("a list of numbers that stay: codes", [])


class DataSection(Section):
    """``[data]``: the confidential table."""

    alone = ("path", "demo")
    path: FilePath | None = worded("the path of a CSV, Parquet, Stata, SAS or SPSS file")
    demo: Literal["fair", "italy", "visits"] | None = worded('"fair", "italy" or "visits"')
    columns: list[str] | None = worded(COLUMNS)
    index: str | None = worded("the name of the column with record labels")
    person: str | None = worded("the name of the column with the person of each record")
    household: str | None = worded("the name of the column with the household of each person")
    relate: str | None = worded("the name of the column with the relation to the head")
    head: Label | None = worded("a text or a whole number")
    household_variables: list[str] = worded(COLUMNS, [])
    missing: Literal["error", "level"] = worded('"error" or "level"', "error")
    missing_codes: MissingCodes | dict[str, MissingCodes] = worded(
        '"error", "level" or "blank", or a table of column = one of them', "error"
    )
    na: list[str] = worded('a list of texts: ["NA"]', [])
    days: list[str] = worded(COLUMNS, [])
    coarsen: dict[str, CoarserSection] = worded(
        "a table of column = { unit = 500 }, with least, most and keep if need be", {}
    )
    separator: str | None = worded('a character: ";"')
    decimal: Literal[".", ","] | None = worded('"." or ","')
    encoding: str | None = worded('a name of one: "utf-8", "cp1252"')
    levels: dict[str, Listed | Literal["labels", "codes", "text", "numbers", "held"]] = worded(
        'a table of column = [levels], or of column = "labels", "codes", "text", "numbers" or '
        '"held"',
        {},
    )

    @property
    def households(self) -> br.Households | None:
        """The households that are named."""
        if self.household is None:
            return None
        return br.Households(self.household, self.relate, self.head, self.household_variables)

    @property
    def listed_levels(self) -> dict[str, Listed]:
        """Columns whose levels are listed."""
        return {c: given for c, given in self.levels.items() if not isinstance(given, str)}

    @property
    def reading(self) -> dict[str, Any]:
        """How the files of the study are read, that of the data and those beside it."""
        return {"index": self.index, "missing": self.missing_codes, **self.written}

    @property
    def written(self) -> dict[str, Any]:
        """What is said of CSVs."""
        return {key: getattr(self, key) for key in ("na", "separator", "decimal", "encoding")}


class ReleaseSection(Section):
    """``[release]``: how the synthetic files are made, or where they lie."""

    m: int = whole("m", 5)
    n: int | None = whole("n")
    columns: list[str] | None = worded(COLUMNS)
    classes: Literal["new", "own"] | None = worded('"new" or "own"')
    parameters: Literal["one-mode", "independent", "shared", "plug-in"] | None = worded(
        '"one-mode", "independent", "shared" or "plug-in"'
    )
    files: list[FilePath] | None = worded(
        f"a list of paths, at most {BOUNDS['m'][1]:,}, one a file, or a folder of synthpop",
        min_length=1,
        max_length=BOUNDS["m"][1],
    )


class OutputSection(Section):
    """``[output]``: where results go."""

    folder: FilePath | None = worded("the path of a folder that does not exist yet")
    confidential: Switch = False
    release: Switch = False
    keep_labels: Switch = False
    redact: Switch = False
    min_count: int = whole("min_count", 10)


# --- what is measured beside attribute risk, and what is accepted ---------------------------------


Others = Literal["all-but-target", "none"]  # who are known
Fraction = Annotated[Float, Field(gt=0, lt=1, description="a number above 0 and below 1")]

ThresholdsSection = part_of(Thresholds)
BoundsSection = section(
    "BoundsSection",
    br.release_bounds,
    keys=("patterns", "m", "how", "numbers"),
    m=(int | None, whole("m")),
)
MembershipSection = section(
    "MembershipSection",
    br.membership,
    keys=("prior_odds", "comparisons", "alternatives", "refit_budget"),
    held_out=(Fraction | None, worded("a fraction above 0 and below 1: 0.5")),
    others=(FilePath | None, worded("the path of a table of people who are not in the data")),
    records=(count_of("records") | Literal["all"] | Labels, worded(SOME, 200)),
    knows_records=(
        Others | Fraction,
        worded('"all-but-target", "none" or a fraction above 0 and below 1', "all-but-target"),
    ),
)
FullTableSection = section(
    "FullTableSection",
    br.full_table_risk,
    keys=("targets", "prior", "draws", "keep"),
    targets=(count_of("targets") | Labels, worded("a number of records, or a list of labels", 20)),
)
ReweightSection: Any = part(
    br.LinearWeights,
    until=(Fraction, ...),
    share=field_of(arguments_of(br.reweight)["share"]),
    rounds=field_of(arguments_of(br.reweight)["rounds"]),
)
ContextSection = section(
    "ContextSection",
    br.context_measures,
    keys=("keys", "target", "groups", "distances", "holdout", "lookups"),
)
UtilitySection = section(
    "UtilitySection",
    br.utility,
    keys=("columns", "numbers", "groups", "missing", "permutations", "analyses", "rules")
    + ("confidence",),
    analyses=(Functions, worded('the text "file.py:function", or a list of such texts', [])),
)


class PopulationSection(Section):
    """``{ file = "everybody.csv" }``, or ``{ size = 500_000, fitted_to = "original" }``."""

    alone = ("file", "size")
    file: FilePath | None = worded("the path of a table with a row for everybody")
    size: int | None = whole("size")
    fitted_to: Literal["original", "releases"] = worded('"original" or "releases"', "original")


IdentificationSection = section(
    "IdentificationSection",
    br.identification_risk,
    keys=("known", "synthesized", "radius", "shape", "closed", "missing", "population")
    + ("strategy", "fallback", "corresponds", "by"),
    population=(PopulationSection | None, worded('{ file = "all.csv" } or { size = 500000 }')),
    members=(int | None, whole("members")),
)


# --- what is varied, and compared ----------------------------------------------------------------


class CandidateSection(Section):
    """``[compare.NAME]``: keys of ``[model]``, ``[release]`` and ``[attribute]`` that change."""

    model: dict[str, Any] = worded("a table of keys of [model]", {})
    release: dict[str, Any] = worded("a table of keys of [release]", {})
    attribute: dict[str, Any] = worded("a table of keys of [attribute]", {})


MOST_VARIED = 200  # candidates of a comparison, values of a key of a sweep


class CompareSection(Section):
    """``[compare]``: how often each candidate is made, what the map shows, and the candidates."""

    replicates: int = whole("replicates", 5)
    risk: str | None = worded(
        'the name of a risk (docs/sensitivity.md): "mean_probability", "expected_match_risk", ...',
        pattern=f"^({'|'.join(RISKS)})$",
    )
    utility: str | None = worded(
        'the name of a measure of utility (docs/sensitivity.md): "pmse_cart", ...',
        pattern=f"^({'|'.join(UTILITIES)})$",
    )
    kind: Literal["boxes", "rectangles", "points"] = worded(
        '"boxes", "rectangles" or "points"', "boxes"
    )
    bounds: Switch = False
    candidates: dict[str, CandidateSection] = worded("[compare.NAME]", {})

    @model_validator(mode="before")
    @classmethod
    def _candidates(cls, value: Any) -> Any:
        """Tables that are no keys are candidates."""
        if not isinstance(value, Mapping) or "candidates" in value:
            return value
        keys = cls.model_fields
        tables = {k: v for k, v in value.items() if k not in keys and isinstance(v, Mapping)}
        if len(tables) > MOST_VARIED:
            raise InputError(f"has {len(tables):,} candidates; give at most {MOST_VARIED:,}")
        return {k: v for k, v in value.items() if k not in tables} | {"candidates": tables}

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Candidates beside the keys, as the file has them."""
        found: dict[str, Any] = handler(self)
        given = {
            name: {k: v for k, v in keys.items() if v} or {"model": {}}
            for name, keys in found.pop("candidates").items()
        }
        named_as_keys = set(given) & set(type(self).model_fields)
        return found | ({"candidates": given} if named_as_keys else given)


def varied(example: str, each: Any = Any) -> Any:
    """A list of values, or a table of label = value, each of a type; nothing if left out."""
    right = f"a list: {example}; or a table of label = value"
    types: Any = {list: TypeAdapter(list[each]), dict: TypeAdapter(dict[str, each])}

    def values(given: Any, info: ValidationInfo) -> Any:
        if type(given) not in types or not given:
            raise unfit(right)
        if len(given) > MOST_VARIED:
            raise unfit(f"at most {MOST_VARIED:,} values")
        return types[type(given)].validate_python(given, context=info.context)

    return Annotated[Any, BeforeValidator(values)], worded(right)


VALUES: Any = varied("[0.5, 1, 2]")[0]
SweepSection = section(
    "SweepSection",
    keys=(),
    priors=varied('["uniform", "marginal", { truth_factor = 10 }]', Prior),
    knows_records=varied('["all-but-target", 0.5, "none"]', Others | Float | list[Label]),
    knows_columns=varied('[[], ["age"], ["age", "job"]]'),
    guesses=varied('["neighbourhood", "hamming-2"]', Guesses),
    classes=varied('["new", "own"]'),
    parameters=varied('["independent", "shared"]'),
    evidence=varied('["predictive", "importance"]'),
    m=varied("[1, 3, 5]"),
    model=(
        dict[str, VALUES] | None,
        worded("a table of key of [model] = list of values: level_prior = [0.5, 1, 2]"),
    ),
    combinations=(Switch, False),
)
