"""A study: one TOML file that says what is audited and how."""

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bayes_risk._core.errors import InputError
from bayes_risk.verdict import Thresholds

Count = Annotated[int, Field(ge=1, strict=True, description="a whole number >= 1")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, description="a number above 0")]
Share = Annotated[float, Field(ge=0, le=1, description="a number from 0 to 1")]
NotNegative = Annotated[int, Field(ge=0, strict=True, description="a whole number >= 0")]
Columns = Annotated[list[str], Field(description="a list of column names")]
SomeColumns = Annotated[list[str] | None, Field(description="a list of column names")]
Switch = Annotated[bool, Field(description="true or false", strict=True)]


class Section(BaseModel):
    """A table of the study file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSection(Section):
    """``[data]``: the confidential table."""

    path: Path | None = Field(None, description="the path of a .csv, .csv.gz or .parquet file")
    demo: Literal["fair", "italy"] | None = Field(None, description='"fair" or "italy"')
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


class ModelSection(Section):
    """``[model]``: the synthesis model and how long it is sampled."""

    kind: Literal["DPMPM"] = Field("DPMPM", description='"DPMPM"')
    n_classes: Count = 30
    concentration_prior: tuple[Positive, Positive] = Field(
        (0.25, 0.25), description="[shape, rate], two numbers above 0"
    )
    level_prior: Positive = 1.0
    draws: Count = 1000
    tune: Count = 1000
    chains: Annotated[int, Field(ge=2, strict=True, description="a whole number >= 2")] = 2


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


class PriorFactor(Section):
    """``prior = { truth_factor = f }``."""

    truth_factor: Positive


class AttributeSection(Section):
    """``[attribute]``: the attribute-risk audit."""

    guesses: str = Field(
        "neighbourhood",
        pattern=r"^(neighbourhood|hamming-[1-9][0-9]*)$",
        description='"neighbourhood" or "hamming-2" (3, 4, ...)',
    )
    prior: Literal["uniform", "marginal"] | PriorFactor = Field(
        "uniform", description='"uniform", "marginal" or { truth_factor = 10 }'
    )
    knows_columns: Columns = []
    targets: Count | Literal["all"] = Field(
        "all", description='"all" or a number of records to draw at random'
    )
    evidence: Literal["predictive", "reuse", "refit"] = Field(
        "predictive", description='"predictive", "reuse" or "refit"'
    )
    target_mcse: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="a number above 0, or leave it out"
    )
    max_doublings: NotNegative = 4
    refit_budget: NotNegative = 10


class IdentificationSection(Section):
    """``[identification]``: what the matching intruder holds."""

    known: Columns
    synthesized: Columns
    fallback: Switch = True


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


class Study(Section):
    """Everything one run does. Equal studies with a seed give equal numbers."""

    title: str = Field("Disclosure risk of a synthetic file", description="one line of text")
    random_seed: int | None = Field(None, ge=0, strict=True, description="a whole number >= 0")
    data: DataSection
    model: ModelSection = ModelSection()
    release: ReleaseSection = ReleaseSection()
    attribute: AttributeSection | None = None
    identification: IdentificationSection | None = None
    thresholds: ThresholdsSection = ThresholdsSection()
    output: OutputSection = OutputSection()

    @model_validator(mode="after")
    def _something_to_do(self) -> "Study":
        if self.attribute is None and self.identification is None:
            raise ValueError(
                "nothing to measure: add a section [attribute], [identification] or both"
            )
        return self

    def with_output(self, folder: Path) -> "Study":
        """Return the same study with its results in another folder."""
        return self.model_copy(update={"output": self.output.model_copy(update={"folder": folder})})


def read_study(path: Path | str) -> Study:
    """Read a study file; the paths in it count from the folder it lies in.

    Parameters
    ----------
    path : path of a TOML file

    Returns
    -------
    Study

    Raises
    ------
    InputError
        A file that is missing or no TOML; a key that is unknown, missing or does not fit: named
        with its section, and with the nearest known key.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no study file {str(path)!r}; check the path") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is not a readable TOML file: {error}") from None
    return _from_folder(parse_study(content, source=path.name), path.parent)


def parse_study(content: Mapping[str, Any], *, source: str = "study") -> Study:
    """Check the content of a study file (nested mappings) and make it a study."""
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        problems = dict.fromkeys(
            _problem(e["type"], e["loc"], e["msg"], content) for e in error.errors()
        )
        raise InputError(f"{source}: {'; '.join(problems)}") from None


def _from_folder(study: Study, base: Path) -> Study:
    data, release, output = study.data, study.release, study.output
    if data.path is not None:
        data = data.model_copy(update={"path": base / data.path})
    if release.files is not None:
        release = release.model_copy(update={"files": [base / f for f in release.files]})
    if output.folder is not None:
        output = output.model_copy(update={"folder": base / output.folder})
    return study.model_copy(update={"data": data, "release": release, "output": output})


def _problem(kind: str, loc: Sequence[str | int], message: str, content: Mapping[str, Any]) -> str:
    """One problem in words: which key of which section, what it holds, what would be right."""
    section = str(loc[0]) if loc and str(loc[0]) in _sections() else None
    where = f"[{section}] " if section else ""
    fields = _sections()[section].model_fields if section else Study.model_fields
    rest = loc[1:] if section else loc
    if kind == "value_error":  # a sentence of our own
        return where + message.removeprefix("Value error, ")
    if not rest:
        return (
            f"[{section}] is missing"
            if kind == "missing"
            else f"[{section}] must be a table of keys"
        )
    key = str(rest[0])
    if key not in fields:
        return _unknown(key, section, list(fields))
    right = fields[key].description or "another value"
    if kind == "missing" and len(rest) == 1:
        return f"{where}{key} is missing; give {right}"
    table = content.get(section, {}) if section else content
    return f"{where}{key} = {table.get(key)!r} does not fit; give {right}"


def _unknown(key: str, section: str | None, known: list[str]) -> str:
    where = f"[{section}] has" if section else "the study has"
    near = get_close_matches(key, known, n=1)
    if near:
        return f"{where} no key {key!r}; did you mean {near[0]!r}?"
    homes = [f"[{name}]" for name, cls in _sections().items() if key in cls.model_fields]
    if homes:
        return f"{where} no key {key!r}; it belongs to {' or '.join(homes)}"
    return f"{where} no key {key!r}; it knows {', '.join(known)}"


def _sections() -> dict[str, type[Section]]:
    return {
        "data": DataSection,
        "model": ModelSection,
        "release": ReleaseSection,
        "attribute": AttributeSection,
        "identification": IdentificationSection,
        "thresholds": ThresholdsSection,
        "output": OutputSection,
    }
