"""``[data]``, ``[release]``, ``[attribute]`` and ``[output]``: keys, defaults and own rules.

With what ``[attribute]`` holds: the prior (a word, factor, density, interval or mixture), the
intruder and the guesses.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import is_number
from bayes_risk.evidence.methods import RENAMED
from bayes_risk.intruder.grids import Grid
from bayes_risk.intruder.intruder import Intruder

from .keys import (
    LARGEST,
    AtLeastThree,
    Columns,
    Count,
    Float,
    Label,
    NotNegative,
    Number,
    Positive,
    Section,
    SomeColumns,
    Switch,
    as_keys,
    as_toml_value,
    check_one_given,
    misfit,
    read_section,
    told,
)
from .models import Part, part_of

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
        check_one_given(self, ("normal", "lognormal", "uniform"), "{ normal = [10.0, 1.0] }")
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


Named = Literal["all-but-target", "none", "second-largest", "second-largest-value", "all-but-two"]
Fraction = Annotated[Float, Field(gt=0, lt=1)]
Records = Named | Fraction | Annotated[list[Label], Field(min_length=1)]
OF_TRADE = ("second-largest", "second-largest-value", "all-but-two")
# not asked of a business competitor
BY_MODEL = ("evidence", "target_mcse", "max_doublings", "refit_budget")


class IntruderSection(Section):
    """``[attribute.intruder]``: the fields of ``Intruder``, but for its columns and beliefs.

    knows_records: other records that are known; of counts also business competitors: the record
        with the second largest value, that value alone, all but the target and `other`
    largest: the count of which the target has the largest value; it alone is guessed, `targets` is
        left out
    other: label of the second record that is not known, beside `"all-but-two"`
    knows_totals: the total of a guessed column is known (needed by `"all-but-two"`)
    groups: whether it is known which records share a total; `"inferred"` (of MM) from the release
    """

    knows_records: Records = Field(
        "all-but-target",
        description=" or ".join(f'"{name}"' for name in get_args(Named))
        + ", or a fraction above 0 and below 1, or a list of record labels",
    )
    largest: str | None = Field(None, description="a column name")
    other: Label | None = Field(None, description="the label of a record")
    knows_totals: Switch | dict[str, Number] = Field(
        False, description="true or false, or a table of column = total"
    )
    groups: Literal["known", "inferred"] = Field("known", description='"known" or "inferred"')

    @model_validator(mode="before")
    @classmethod
    def _no_code(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "others" in value:
            raise told(
                "[attribute.intruder] others is a distribution of SciPy, which is code and has no "
                "place in a study file; leave it out, or audit in a script: Intruder(others=...)"
            )
        return value

    @model_validator(mode="after")
    def _says_what_it_must(self) -> "IntruderSection":
        self.declared()
        return self

    @property
    def knows_less(self) -> bool:
        """Whether records besides the target's are unknown."""
        return self.knows_records != "all-but-target"

    @property
    def is_competitor(self) -> bool:
        """Whether this is a business competitor, whom the model itself has to answer."""
        return self.knows_records in OF_TRADE

    @property
    def said(self) -> str:
        """The knowledge of records as the file says it, lists of labels in short."""
        return f"[attribute.intruder] knows_records = {as_toml_value(self.knows_records)}"

    @property
    def asks_of_groups(self) -> bool:
        """Whether it matters if this intruder knows which synthetic records share a total."""
        return self.knows_records in ("second-largest", "second-largest-value")

    def declared(self, columns: list[str] | None = None) -> Intruder:
        """Return what the library is told; ``columns`` of the target are known too."""
        try:
            return Intruder(knows_columns=tuple(columns or ()), **self.model_dump())
        except InputError as error:
            raise ValueError(as_keys(str(error))) from None


def attribute_settings(settings: dict[str, Any], intruder: IntruderSection) -> dict[str, Any]:
    """Settings of ``[attribute]`` that mean something to this intruder."""
    said = dict(settings["intruder"])
    said["knows_totals"] = bool(said["knows_totals"])
    if not intruder.asks_of_groups:
        del said["groups"]
    needless = BY_MODEL if intruder.is_competitor else ()
    return {k: v for k, v in settings.items() if k not in needless} | {"intruder": said}


MissingCodes = Literal["error", "level", "blank"]


class DataSection(Section):
    """``[data]``: the confidential table.

    path: the confidential table; value labels become levels
    demo: instead of `path`: Redbook survey of 1974, Hawala's Italian table, RAND health insurance
        experiment
    columns: columns to use; all if left out
    index: no model uses these labels, no synthetic file shows them; rows are numbered if left out
    missing: missing values stop the run, or are one more level of their column
    missing_codes: of Stata, SAS, SPSS: stop the run, become levels, or plain missing values
    na: mean a missing value in a CSV field without quotes, besides the empty field (files of R)
    levels: levels that exist, whether or not a record has them; `"codes"`: value labels left out;
        `"labels"`: values without a label are levels too
    """

    path: Path | None = Field(
        None, description="the path of a CSV, Parquet, Stata, SAS or SPSS file"
    )
    demo: Literal["fair", "italy", "visits"] | None = Field(
        None, description='"fair", "italy" or "visits"'
    )
    columns: SomeColumns = None
    index: str | None = Field(None, description="the name of the column with record labels")
    missing: Literal["error", "level"] = Field("error", description='"error" or "level"')
    missing_codes: MissingCodes | dict[str, MissingCodes] = Field(
        "error", description='"error", "level" or "blank", or a table of column = one of them'
    )
    na: list[str] = Field([], description='a list of texts: ["NA"]')
    levels: dict[str, list[str | int | float | bool] | Literal["labels", "codes"]] = Field(
        {}, description='a table of column = [levels], or of column = "labels" or "codes"'
    )

    @model_validator(mode="after")
    def _one_source(self) -> "DataSection":
        if (self.path is None) == (self.demo is None):
            raise ValueError('give either path = "file.csv" or demo = "fair"')
        return self

    @property
    def listed_levels(self) -> dict[str, list[str | int | float | bool]]:
        """Columns whose levels are listed."""
        return {c: given for c, given in self.levels.items() if not isinstance(given, str)}

    @property
    def reading(self) -> dict[str, Any]:
        """How the files of the study are read, that of the data and those beside it."""
        return {"index": self.index, "missing": self.missing_codes, "na": self.na}


class ReleaseSection(Section):
    """``[release]``: how the synthetic files are made, or where they lie.

    m: number of files, at most the model's draws
    columns: columns whose values are replaced; all that the model can draw if left out
    classes: of mixtures: a fresh latent class, or that of the record's own confidential values
        (more risk; of MP where covariates or counts stay); as the model usually does if left out
    parameters: how the parameters behind the files are or were drawn; as the model usually does if
        left out
    files: instead of `m`: releases made elsewhere; `columns` is then required
    """

    m: Count = 5
    columns: SomeColumns = None
    classes: Literal["new", "own"] | None = Field(None, description='"new" or "own"')
    parameters: Literal["one-mode", "independent", "shared", "plug-in"] | None = Field(
        None, description='"one-mode", "independent", "shared" or "plug-in"'
    )
    files: list[Path] | None = Field(
        None, min_length=1, description="a list of paths, one a file, or a folder of synthpop"
    )

    @model_validator(mode="after")
    def _files_say_all(self) -> "ReleaseSection":
        if self.files is not None and "m" in self.model_fields_set:
            raise ValueError("files = [...] are the m releases; leave out m")
        if self.files is not None and not self.columns:
            raise ValueError(
                "files were made elsewhere: say in columns = [...] what was synthesised"
            )
        return self


GRID = part_of(Grid)
Given = SerializeAsAny[Part]
Guesses = str | Given | dict[str, Given | Literal["levels"]]
NEIGHBOURHOOD = r"neighbourhood|hamming-[1-9][0-9]{0,3}"
GUESSES = (
    '"neighbourhood", "hamming-2" (3, 4, ...), or for numbers a table: '
    '{ income = { percent = 10, n = 11 }, tenure = "levels" }'
)


def read_guesses(value: Any, where: str = "[attribute] guesses") -> Any:
    """A neighbourhood, one grid for all numbers, or a table of column = grid."""
    if isinstance(value, Part):
        return value
    if isinstance(value, Mapping) and value:
        if not any(v == "levels" or isinstance(v, Mapping | Section) for v in value.values()):
            return read_section(GRID, value, where)
        return {column: _grid(given, f"{where}.{column}") for column, given in value.items()}
    if not (isinstance(value, str) and re.fullmatch(NEIGHBOURHOOD, value)):
        raise told(misfit(where, value, GUESSES))
    return value


def _grid(given: Any, where: str) -> Any:
    if given == "levels":
        return given
    if not isinstance(given, Mapping | Section):
        raise told(misfit(where, given, '{ percent = 10, n = 11 }, or for a category "levels"'))
    return read_section(GRID, given, where)


def _intruder(value: Any) -> Any:
    homes = lambda: {"[attribute]": list(AttributeSection.model_fields)}  # noqa: E731
    given = value is not None
    return read_section(IntruderSection, value, "[attribute.intruder]", homes) if given else None


def _current(evidence: Any) -> Any:
    """Evidence by its name of today."""
    if isinstance(evidence, str) and evidence in RENAMED:
        new = RENAMED[evidence]
        raise told(f'[attribute] evidence = "{evidence}" is now called "{new}"; give that')
    return evidence


class AttributeSection(Section):
    """``[attribute]``: the attribute-risk audit.

    guesses: values that differ from the truth in one variable (`"neighbourhood"`), in up to two
        (`"hamming-2"`), ..., or grids
    prior: belief before the release; uniform, with predictive beside it where the evidence has a
        base fit, if left out
    knows_columns: synthesised columns of the target that the intruder knows anyway
    intruder: one who knows less than all other records: `[attribute.intruder]`
    targets: whose risk is estimated
    evidence: the first that the model offers (below) if left out
    target_mcse: sample on until the error of the log evidence is below this
    max_doublings: how often sampling may be doubled for `target_mcse`
    refit_budget: at most so many records with poor weights are refitted
    guess_budget: joint grids with more guesses are searched coarse to fine
    privacy_loss: the realised privacy loss of each record too; not of a grid that is searched
    """

    guesses: Annotated[Guesses, BeforeValidator(lambda value: read_guesses(value))] = (
        "neighbourhood"
    )
    prior: Prior | None = None
    knows_columns: Columns = []
    intruder: Annotated[IntruderSection | None, BeforeValidator(_intruder)] = None
    targets: Count | Literal["all"] | Annotated[list[Label], Field(min_length=1)] = Field(
        "all", description='"all" or a number of records to draw at random, or a list of labels'
    )
    evidence: Annotated[
        Literal[
            "exact",
            "predictive",
            "imputed",
            "independent-releases",
            "monte-carlo",
            "refit",
            "importance",
        ]
        | None,
        BeforeValidator(_current),
    ] = Field(
        None,
        description='"exact", "predictive", "imputed", "independent-releases", "monte-carlo", '
        '"refit" or "importance", or leave it out',
    )
    target_mcse: Float | None = Field(
        None, gt=0, allow_inf_nan=False, description="a number above 0, or leave it out"
    )
    max_doublings: NotNegative = 4
    refit_budget: NotNegative = 10
    guess_budget: Annotated[int, Field(ge=16, strict=True, description="a whole number >= 16")] = (
        20_000
    )
    privacy_loss: Switch = False

    @model_validator(mode="after")
    def _suits_the_intruder(self) -> "AttributeSection":
        intruder = self.intruder
        if intruder is None or not intruder.knows_less:
            return self
        intruder.declared(self.knows_columns)
        if not intruder.is_competitor:
            return self
        said = intruder.said
        for key in BY_MODEL:
            if getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(
                    f"{key} is for an intruder who knows every other record; beside {said} leave "
                    "it out: the model computes the evidence"
                )
        if intruder.largest is not None and self.targets != "all":
            raise ValueError(
                f"targets = {self.targets!r} is not needed beside {said}: the target is the record "
                f"with the largest {intruder.largest}; leave targets out"
            )
        if intruder.largest is None and not isinstance(self.targets, list):
            raise ValueError(f'{said} asks about one record; give its label: targets = ["A12"]')
        return self

    @property
    def knows_less(self) -> bool:
        """Whether the intruder does not know all records but the target's."""
        return self.intruder is not None and self.intruder.knows_less

    @property
    def is_competitor(self) -> bool:
        """Whether the model itself has to answer this intruder."""
        return self.intruder is not None and self.intruder.is_competitor

    @property
    def largest(self) -> str | None:
        """The one column that is guessed, if the target is known to hold its largest value."""
        return None if self.intruder is None else self.intruder.largest


class OutputSection(Section):
    """``[output]``: where results go.

    folder: `--output` wins; the study's name with `-risk` if left out
    confidential: the guessed values go into `risk.nc`, and nowhere else
    release: the synthetic files are written too (`synthetic-1.csv`, ...), rows in the original's
        order
    keep_labels: these files have the record labels too
    redact: of an audit `public.html` and `public.json` are written too
    min_count: every number of records there is a range of at least so many numbers
    """

    folder: Path | None = Field(None, description="the path of a folder that does not exist yet")
    confidential: Switch = False
    release: Switch = False
    keep_labels: Switch = False
    redact: Switch = False
    min_count: AtLeastThree = 10

    @model_validator(mode="after")
    def _labels_of_a_release(self) -> "OutputSection":
        if self.keep_labels and not self.release:
            raise ValueError(
                "keep_labels = true writes record labels into the synthetic files, which release = "
                "true asks for; add it, or leave keep_labels out"
            )
        return self
