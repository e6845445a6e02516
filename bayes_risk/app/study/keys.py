"""The text of a study file, its keys and their types, and what is said of one that does not fit."""

import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    field_validator,
)
from pydantic_core import PydanticCustomError

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import most_of

Count = Annotated[int, Field(ge=1, strict=True, description="a whole number >= 1")]
AtLeastTwo = Annotated[int, Field(ge=2, strict=True, description="a whole number >= 2")]
NotNegative = Annotated[int, Field(ge=0, strict=True, description="a whole number >= 0")]


# Whole numbers too, neither true nor "5"; infinities as the manifest has them: JSON has none.
Float = Annotated[
    float,
    Field(strict=True),
    BeforeValidator(lambda value: float(value) if value in ("inf", "-inf") else value),
]
Number = Annotated[Float, Field(allow_inf_nan=False, description="a number")]
Positive = Annotated[Float, Field(gt=0, allow_inf_nan=False, description="a number above 0")]
FromZero = Annotated[Float, Field(ge=0, allow_inf_nan=False, description="a number >= 0")]
Columns = Annotated[list[str], Field(description="a list of column names")]
SomeColumns = Annotated[list[str] | None, Field(description="a list of column names")]
Switch = Annotated[bool, Field(description="true or false", strict=True)]


def worded(words: str, default: Any = None, **how: Any) -> Any:
    """A key that may be left out, and in words what it may be."""
    return Field(default, description=words, **how)


Homes = Callable[[], Mapping[str, Sequence[str]]]  # keys of other tables, by table
MOST_PROBLEMS, MOST_SHOWN = 10, 200  # that a message tells; characters of a value
LARGEST = sys.float_info.max  # whole numbers of a file may be larger, which no float holds
FUNCTION = r"^.+\.py:[^\W\d]\w*$"  # "file.py:function"


class FunctionName(str):
    """``"rules.py:possible"``: a function of a Python file."""

    @property
    def place(self) -> tuple[Path, str]:
        """The file, and the name of the function in it."""
        path, _, name = self.rpartition(":")
        return Path(path), name


def _from_folder(value: Any, info: ValidationInfo) -> Any:
    """A path counted from the folder of the study file, as it is read."""
    if type(value) is not str or info.context is None:
        return value
    return info.context["folder"] / value


def _function(value: Any, check: Callable[[Any], str], info: ValidationInfo) -> FunctionName:
    if isinstance(value, FunctionName):
        return value
    path, name = FunctionName(check(value)).place
    folder = Path() if info.context is None else info.context["folder"]
    return FunctionName(f"{folder / path}:{name}")


FilePath = Annotated[Path, BeforeValidator(_from_folder)]
FileFunction = Annotated[str, Field(pattern=FUNCTION), WrapValidator(_function)]
Functions = Annotated[
    list[FileFunction],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
]


class Section(BaseModel):
    """A table of the study file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def given_to(self, call: Callable[..., Any]) -> dict[str, Any]:
        """Keys that are arguments of a function, by name."""
        takes = signature(call).parameters
        return {key: getattr(self, key) for key in type(self).model_fields if key in takes}

    @field_validator("*", mode="before")
    @classmethod
    def _within_bounds(cls, value: Any, info: ValidationInfo) -> Any:
        most = most_of(str(info.field_name))
        listed = isinstance(value, list)  # labels and levels, which may be any number
        for part in value.values() if isinstance(value, Mapping) else value if listed else [value]:
            if most is not None and not listed and type(part) is int and part > most:
                raise PydanticCustomError("most", f"a whole number of at most {most:,}")
            if isinstance(part, str) and "\0" in part:
                raise PydanticCustomError("nul", "a text without the character NUL")
        return value


def read_section(
    section: type[Section],
    value: Any,
    where: str,
    homes: Homes | None = None,
    context: Any = None,
) -> Any:
    """Make a table of the study file a section, or say in words what is wrong with which key.

    ``where`` is what messages call the table, ``[model]`` or ``[attribute] guesses.income``;
    ``homes`` gives keys of other tables, to say where a stray key belongs; ``context`` has the
    folder that paths count from. A section passes.
    """
    if isinstance(value, Section):
        return value
    if not isinstance(value, Mapping):
        raise told(f"{where} must be a table of keys")
    try:
        return section.model_validate(value, context=context)
    except ValidationError as error:
        raise told(sentences(error, section, value, where, homes)) from None


def told(sentence: str) -> PydanticCustomError:
    """An error of which everything has been said."""
    return PydanticCustomError("told", "{sentence}", {"sentence": sentence})


def sentences(
    error: ValidationError,
    section: type[Section],
    content: Mapping[str, Any],
    where: str,
    homes: Homes | None = None,
) -> str:
    """The first problems of a table, each once, and how many there are besides."""
    problems, known = error.errors(), homes() if homes is not None else {}
    found = [_sentence(e, section, content, where, known) for e in problems[:MOST_PROBLEMS]]
    more = len(problems) - MOST_PROBLEMS
    return "; ".join(dict.fromkeys(found)) + (f"; and {more:,} more" if more > 0 else "")


def misfit(label: str, value: Any, right: str) -> str:
    """Sentence on a value that does not fit."""
    return f"{label} = {shortened(value)} does not fit; give {right}"


def shortened(value: Any) -> str:
    """A value as it is written, or its beginning."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of too many digits, tables in tables
        return f"a {type(value).__name__} that is too long to be shown"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def as_keys(sentence: str) -> str:
    """A sentence of the library, its arguments written as keys of the file."""
    written = re.sub(r"\b(\w+)\['([^']*)'\](?==)", r"\1.\2", sentence)
    written = re.sub(r"\b([\w.]+)='([^']*)'", r'\1 = "\2"', written)
    written = re.sub(r"\b(\w+)=(?=[\s:;,.)]|$)", r"\1", written)
    written = re.sub(r"\b(\w+)=(?=[^\s:;,.)])", r"\1 = ", written)
    written = re.sub(r"\bGrid\(([^()]*)\)", r"{ \1 }", written)
    written = re.sub(r'("[^"{}]*"): (?=["{[])', r"\1 = ", written).replace("Levels()", '"levels"')
    return written.replace("True", "true").replace("False", "false")


def unknown(
    key: str,
    where: str,
    known: Sequence[str],
    homes: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Sentence on a key that a table does not have: where it belongs, or what comes near."""
    start = f"{where} has no key {shortened(key)}"
    belongs = [name for name, keys in (homes or {}).items() if key in keys and name != where]
    if belongs:
        return f"{start}; it belongs to {' or '.join(belongs)}"
    near = get_close_matches(key[:MOST_SHOWN], known, n=1)
    if near:
        return f"{start}; did you mean {near[0]!r}?"
    return f"{start}; it knows {', '.join(known)}"


def _sentence(
    problem: Any, section: type[Section], content: Mapping[str, Any], where: str, homes: Any
) -> str:
    """One problem in words: which key of which table, what it holds, what would be right."""
    kind, loc, message = problem["type"], problem["loc"], problem["msg"]
    space = " " if where.endswith("]") else ""
    if kind == "told":
        return str(message)
    if kind == "value_error":  # a sentence of our own about the table
        said = str(message).removeprefix("Value error, ")
        return f"{where}{space or ': '}{said}" if where else said
    key, fields = str(loc[0]), section.model_fields
    if key not in fields:
        return unknown(key, where or "the study", list(fields), homes)
    right = message if kind in ("most", "nul") else fields[key].description or "another value"
    label = f"{where}{space or '.'}{key}" if where else key  # [attribute] guesses.income.n
    if kind == "missing" and len(loc) == 1:
        return f"{label} is missing; give {right}" if where else f"[{key}] is missing"
    value = content.get(key)
    if len(loc) > 1 and isinstance(value, Mapping) and loc[1] in value:
        label, value = f"{label}.{loc[1]}", value[loc[1]]
    return misfit(label, value, right)


# --- the text of the file -------------------------------------------------------------------------


MOST_BYTES = 2_000_000
MOST_STEPS = 1_000  # of a dotted key: reading one takes time in proportion to their square


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; one that is missing, none, above 2 MB or nested too deep is refused."""
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise InputError(
                f"{path} has {size:,} bytes, and a study file at most {MOST_BYTES:,}; data stand "
                "in files of their own, which it names"
            )
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), start=1):
            if line.partition("=")[0].count(".") > MOST_STEPS:
                raise InputError(
                    f"line {number} of {path} has a key of more than {MOST_STEPS:,} steps; write "
                    "tables"
                )
        return tomllib.loads(text)
    except FileNotFoundError:
        raise InputError(f"there is no study file {str(path)!r}; check the path") from None
    except RecursionError:
        raise too_deep(str(path)) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:  # of TOML, of UTF-8, of numbers with too many digits
        raise InputError(f"{path} is not a readable TOML file: {error}") from None


def too_deep(source: str) -> InputError:
    """Say that tables or lists stand in each other hundreds of times."""
    return InputError(f"{source} holds tables or lists nested too deep to be read; write them flat")


KEY = re.compile(r"(?<![^ ])\[([\w.]+)\](?: has no key '([^']+)'| ([\w-]+))")


def with_lines(said: str, path: Path) -> str:
    """The lines of a study file in which the keys of a message stand, before their sections."""
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = file.read(MOST_BYTES).splitlines()

    def numbered(found: re.Match[str]) -> str:
        line = _line(lines, found[1], found[2] or found[3])
        return found[0] if line is None else f"line {line}: {found[0]}"

    return KEY.sub(numbered, said)


def _line(lines: list[str], section: str, key: str) -> int | None:
    """The first line that gives a key of a section, under its heading or in an inline table."""
    above = ""
    for number, line in enumerate(lines, start=1):
        if heading := re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", line):
            above = heading[1].strip()
            if above == f"{section}.{key}":
                return number
            continue
        name, _, value = line.partition("=")
        named = ".".join(filter(None, [above, name.strip().strip('"')]))
        inline = named == section and re.search(rf"[{{,]\s*{re.escape(key)}\s*=", value)
        if inline or named == f"{section}.{key}":
            return number
    return None
