"""The text of a study file, its keys and their types, and errors in its words."""

import ast
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from bayes_risk._core.errors import Argument, InputError, Surface, shown
from bayes_risk._core.formats import toml_value
from bayes_risk._core.validate import BOUNDS, RANGES
from bayes_risk.data.kinds import SUFFIXES
from bayes_risk.reporting.verdicts.reason import FORMER

from .known_keys import KEYS

COLUMNS = "a list of column names"
# Whole numbers too, neither true nor "5"; infinities as the manifest has them: JSON has none.
Float = Annotated[
    float,
    Field(strict=True),
    BeforeValidator(lambda value: float(value) if value in ("inf", "-inf") else value),
]
Number = Annotated[Float, Field(allow_inf_nan=False, description="a number")]
Positive = Annotated[Float, Field(gt=0, allow_inf_nan=False, description="a number above 0")]
Switch = Annotated[bool, Field(description="true or false", strict=True)]


def worded(words: str, default: Any = None, **how: Any) -> Any:
    """A key that may be left out, and in words what it may be."""
    return Field(default, description=words, **how)


def bounds_of(name: str, least: int | None = None) -> tuple[dict[str, Any], str]:
    """What a number of a name may be, for pydantic and in words."""
    if name in RANGES:
        low, high, above, below = RANGES[name]
        how = {"gt" if above else "ge": low, "lt" if below else "le": high}
        return how, RANGES[name].in_words()
    low, most = BOUNDS[name]
    low = low if least is None else least
    right = f"{low} to {most:,}" if most < RANDOM_SEEDS else f"{low}, below 2^128"
    return {"ge": low, "le": most, "strict": True}, f"a whole number from {right}"


def whole(name: str, default: Any = None, least: int | None = None) -> Any:
    """A whole number that may be left out, within the bounds of its name."""
    how, words = bounds_of(name, least)
    return worded(words, default, **how)


def count_of(name: str) -> Any:
    """The type of a whole number within the bounds of its name."""
    return Annotated[int, Field(**bounds_of(name)[0])]


MOST_PROBLEMS, MOST_SHOWN = 10, 200  # that a message names; characters of a value
RANDOM_SEEDS = 10**30  # bounds above it are powers in words
WORDED = "worded"  # the kind of pydantic's errors that hold an error of ours
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


class CommandFile(str):
    """A word of a command that is the path of a file."""


def _command(words: list[str], info: ValidationInfo) -> list[str]:
    """Words of a command: of files beside the study file their paths.

    A program without a folder (``Rscript``) is the system's, whatever lies there.
    """
    first = [_word(word, info) if os.path.dirname(word) else word for word in words[:1]]
    return first + [_word(word, info) for word in words[1:]]


def _word(word: str, info: ValidationInfo) -> str:
    there = _from_folder(word, info)
    return CommandFile(there) if os.path.isfile(there) else word


def _function(value: Any, check: Callable[[Any], str], info: ValidationInfo) -> FunctionName:
    if isinstance(value, FunctionName):
        return value
    path, name = FunctionName(check(value)).place
    return FunctionName(f"{_from_folder(str(path), info)}:{name}")


FilePath = Annotated[Path, BeforeValidator(_from_folder)]
FileWords = Annotated[list[str], AfterValidator(_command)]
FileFunction = Annotated[str, Field(pattern=FUNCTION), WrapValidator(_function)]
Functions = Annotated[
    list[FileFunction], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
]


def unfit(right: str) -> PydanticCustomError:
    """An error of a value that does not fit, and what would."""
    return PydanticCustomError("unfit", "{right}", {"right": right})


class Section(BaseModel):
    """A table of the study file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    alone: ClassVar[tuple[str, ...]] = ()  # keys of which exactly one is given

    @model_validator(mode="after")
    def _one_alone(self) -> "Section":
        if self.alone and sum(getattr(self, key) is not None for key in self.alone) != 1:
            raise InputError(f"give exactly one of {' or '.join(self.alone)}")
        return self

    def given_to(self, call: Callable[..., Any]) -> dict[str, Any]:
        """Keys that are arguments of a function, by name."""
        takes = signature(call).parameters
        return {key: getattr(self, key) for key in type(self).model_fields if key in takes}

    @field_validator("*", mode="before")
    @classmethod
    def _without_nul(cls, value: Any) -> Any:
        parts = value.values() if isinstance(value, Mapping) else value
        for part in parts if isinstance(value, Mapping | list) else [value]:
            if isinstance(part, str) and "\0" in part:
                raise unfit("a text without the character NUL")
        return value

    @model_validator(mode="wrap")
    @classmethod
    def _in_words(cls, value: Any, handler: ModelWrapValidatorHandler["Section"]) -> Any:
        """Say of each key that does not fit what would; pydantic says in which tables it stands."""
        try:
            return handler(value)
        except ValidationError as error:
            if not isinstance(value, Mapping):  # the table around it says what it should be
                raise
            found = [  # words for those alone that a message shows
                cls._problem(value, one) if place < MOST_PROBLEMS else _unshown(one)
                for place, one in enumerate(error.errors(include_url=False))
            ]
            raise ValidationError.from_exception_data(cls.__name__, found) from None

    @classmethod
    def _problem(cls, table: Any, one: Any) -> InitErrorDetails:
        """An error of pydantic with a sentence of ours; rules, and tables within, have theirs."""
        kind, loc, value, ctx = one["type"], one["loc"], one["input"], one.get("ctx", {})
        if kind not in (WORDED, "value_error"):
            (key, *inner), field, loc = loc, cls.model_fields.get(loc[0]), ()
            right = ctx.get("right") or (field and field.description) or "a table of keys"
            whole = table.get(key)
            if inner and isinstance(whole, Mapping) and inner[0] in whole:
                loc, key, whole = (key,), inner[0], whole[inner[0]]
            if field is None:
                error = unknown(key, [*cls.model_fields])
            elif kind == "missing" and not inner:
                error = InputError(key, f"is missing; give {right}")
            else:
                error = misfit(key, value if kind == "unfit" else whole, right)
            ctx = {"error": error}
        return InitErrorDetails(type=PydanticCustomError(WORDED, "", ctx), loc=loc, input=value)


def _unshown(one: Any) -> InitErrorDetails:
    """A problem that is counted only."""
    return InitErrorDetails(type=PydanticCustomError(WORDED, "", {}), loc=(), input=None)


def files_in(value: Any) -> Iterator[Path]:
    """Files that a section names, Python files and those of commands too."""
    if isinstance(value, Path | FunctionName | CommandFile):
        yield value.place[0] if isinstance(value, FunctionName) else Path(value)
    elif isinstance(value, Section | dict | list):
        pairs = enumerate(value) if isinstance(value, list) else value
        for _, part in pairs.items() if isinstance(pairs, dict) else pairs:
            yield from files_in(part)


# --- errors in the words of the file --------------------------------------------------------------


# arguments that are keys of another name, where the section in question has none of theirs
RENAMED = {
    "budget": ("attribute", "guess_budget"),
    "max_memory": ("", "--max-memory"),
    "backend": ("", "--backend"),
    "df": ("data", "path"),
    "original": ("data", "path"),
    "households": ("data", "household"),
    "variables": ("data", "household_variables"),
    "datasets": ("release", "files"),
    "releases": ("release", "files"),
    "family": ("model", "families"),
    "public": ("thresholds", "public"),
    "synthesized": ("release", "columns"),
}
ANYWHERE = ("study", "data", "release", "attribute", "attribute.intruder", "identification")


def place_of_key(section: str, name: str) -> tuple[str, str]:
    """Section and key of an argument: in the section in question, or in the one that has it."""
    model = [of for of in KEYS if of.startswith("model.")]
    where = model if section == "model" else [section]
    if f"{name}s" in KEYS.get(section, ()):  # [sweep] priors of a prior
        return section, f"{name}s"
    if section in ("", *KEYS, "model") and not any(name in KEYS.get(of, ()) for of in where):
        if name in RENAMED:
            return RENAMED[name]
        for of in (*ANYWHERE, *model):
            if name in KEYS[of]:
                return of.partition(".")[0] if of in model else of.replace("study", ""), name
    return section, name


PYTHON = {  # what stands in the place of a call or an argument that is no key
    "max_memory": "--max-memory",
    "n_jobs=1": "--jobs 1",
    "Simulator(columns=...)": "[model] columns",
    'MixedPrior([(0.99, prior), (0.01, "uniform")])': "{ mixture = [[0.99, ...], [0.01, ...]] }",
    "pandas.cut": '[data] coarsen, and "held" in [data] levels',
    "Density({...})": "{ density = { ... } }",
    'read_table(missing="level")': '[data] missing_codes = "level"',
    'read_table(missing="blank")': '[data] missing_codes = "blank"',
}


def snake_case(name: str) -> str:
    """The key of a class."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def as_in_study(value: str) -> str:
    """What Python has for a value, as a study file has it."""
    try:
        return written(ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return value


@dataclass(frozen=True)
class Keys(Surface):
    """How errors name a key of a study file: ``[release] m = 0``, after the line where it stands.

    ``key`` is the argument's key if it has another name.
    """

    section: str = ""
    key: str = ""
    lines: tuple[str, ...] = ()

    def _place(self, argument: Argument) -> tuple[str, str]:
        """Section and key of an argument, and of an argument's key."""
        name, *keys = [argument] if isinstance(argument, str) else argument
        section, path = self.section, [self.key or name, *keys]
        if name and not self.key and name != "over":
            section, path[0] = place_of_key(section, name)
        return section, ".".join(map(str, path[name == "over" :]))  # keys of [sweep] are no table

    def head(self, argument: Argument, given: Sequence[Any]) -> str:
        """The key, and its value if there is one."""
        return " = ".join([self._place(argument)[1], *map(written, given)])

    def named(self, code: str) -> str:
        """A key, with a value or without, or a table of keys; nothing: Python alone has it."""
        if code in PYTHON or code.startswith("{"):
            return PYTHON.get(code) or as_in_study(code)
        if found := re.fullmatch(r"(\w+)(?:=(.+))?", code):
            section, key = place_of_key(self.section, found[1])
            value = f" = {as_in_study(found[2])}" if found[2] else ""
            known = any(key in KEYS[of] for of in KEYS if of.startswith(section or "study"))
            return f"[{section}] " * bool(section and known) + f"{key}{value}" * bool(
                known or value
            )
        if found := re.fullmatch(r"([A-Z]\w*)\((.+)\)", code):
            pairs = re.findall(r"(?:(\w+)=)?([^,]+)(?:, )?", found[2])
            keys = (f"{key or snake_case(found[1])} = {as_in_study(v)}" for key, v in pairs)
            return f"{{ {', '.join(keys)} }}"
        return ""

    def place(self, error: InputError) -> str:
        """The line and the section."""
        section, key = self._place(error.argument) if error.argument else (self.section, self.key)
        line = _line(self.lines, section, key) if key else ""
        study = "the study " if error.text.startswith(("has ", "needs ")) else ""
        named = not error.argument and self.text(error.text).startswith("[")  # and its section
        return line + (f"[{section}] " * (not named) if section else study)


def refused(section: str, *parts: Any, key: str = "") -> InputError:
    """An error of a key of a section, whatever function finds it."""
    error = InputError(*parts)
    error.surface = Keys(section, key)
    return error


def placed(error: InputError, section: str = "", lines: Sequence[str] = ()) -> InputError:
    """An error in the words of a study file: in a section, unless it names its own."""
    known = error.surface if isinstance(error.surface, Keys) else Keys()
    error.surface = Keys(section or known.section, known.key, tuple(lines) or known.lines)
    return error


@contextmanager
def in_section(section: str) -> Iterator[None]:
    """Errors of this block are of a section, unless they name their own."""
    try:
        yield
    except InputError as error:
        raise placed(error, getattr(error.surface, "section", "") or section) from None


def problems(
    error: ValidationError, lines: Sequence[str] = (), above: Sequence[str] = ()
) -> InputError:
    """The first problems of a study, or table, each once, and how many there are besides.

    ``above`` are the tables in which this one stands.
    """
    found, every = dict[str, None](), error.errors(include_url=False)
    for one in every[:MOST_PROBLEMS]:
        names = [n for n in (*above, *one["loc"]) if isinstance(n, str) and n != "candidates"]
        fault = one["ctx"]["error"]  # of ours, or of a library that was given something odd
        problem = fault if isinstance(fault, InputError) else InputError("does not fit")
        found[str(placed(problem, ".".join(names), lines=lines))] = None
    more = len(every) - MOST_PROBLEMS
    return InputError("; ".join(found) + (f"; and {more:,} more" if more > 0 else ""))


def misfit(label: str, value: Any, right: str) -> InputError:
    """Error of a value that does not fit."""
    return InputError(label, value, f"does not fit; give {right}")


def written(value: Any) -> str:
    """A value as a study file has it, or its beginning."""
    try:
        text = toml_value(value)
    except (ValueError, RecursionError):  # a number of too many digits, tables in tables
        return shown(value)
    except TypeError:  # of no kind that TOML has
        text = shown(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def unknown(key: str, known: Sequence[str]) -> InputError:
    """Error of a key that a table does not have, and what comes near."""
    if key in FORMER:
        return refused("", f"has no key {key} any more; give {FORMER[key]}", key=key)
    near = get_close_matches(key[:MOST_SHOWN], known, n=1, cutoff=0.75)
    section, name = place_of_key("", key)
    of_another = section and name == key and [*known] in [*KEYS.values()]
    suggestion = f"it knows {', '.join(known)}"
    if near:
        suggestion = f"did you mean {near[0]!r}?"
    elif of_another and (section != "model" or "kind" not in known):
        suggestion = f"put it under [{section}]"
    return refused("", f"has no key {key[:MOST_SHOWN]!r}; {suggestion}", key=key)


# --- the text of the file -------------------------------------------------------------------------


MOST_BYTES = 2_000_000
TOML = 'write key = value, texts in "quotes", paths with /, each [section] once'
TOO_DEEP = "holds tables or lists nested too deep to be read; write them flat"
MOST_DEEP = 100  # tables and lists in one another
MOST_STEPS = 1_000  # of a dotted key: reading one takes time in proportion to their square


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; one that is missing, none, above 2 MB or nested too deep is refused."""
    if path.is_file() and path.name.lower().endswith(SUFFIXES):
        command = shlex.join(["bayes-risk", "init", str(path)])
        raise InputError(f"{path} is a data file; make a study of it first: {command}")
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is not a file")
        if (size := path.stat().st_size) > MOST_BYTES:
            raise ValueError(f"it has {size:,} bytes; write at most {MOST_BYTES:,}, without data")
        text = path.read_text(encoding="utf-8")
        if any(line.partition("=")[0].count(".") > MOST_STEPS for line in text.splitlines()):
            raise ValueError(f"a key has more than {MOST_STEPS:,} steps")
        return tomllib.loads(text)
    except FileNotFoundError:
        raise InputError(f"there is no study file {str(path)!r}; check the path") from None
    except (OSError, ValueError) as error:  # of TOML, of UTF-8, of numbers with too many digits
        raise InputError(f"{path} is not a readable TOML file: {error}; {TOML}") from None
    except RecursionError:
        raise InputError(f"{path} {TOO_DEEP}") from None


def nested_too_deep(content: Any) -> bool:
    """Whether tables and lists are nested so deep that pydantic might exhaust the stack.

    Python's own bound does not hold: PyTensor raises it, and the process would end.
    """
    inner: dict[int, Any] = {0: [content]}
    for _ in range(MOST_DEEP + 1):
        parts = (
            part
            for one in inner.values()
            for part in (one.values() if isinstance(one, Mapping) else one)
        )
        inner = {id(part): part for part in parts if isinstance(part, Mapping | list | tuple)}
    return bool(inner)


def lines_of(path: Path) -> list[str]:
    """The lines of a study file."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(MOST_BYTES).splitlines()


def _line(lines: Sequence[str], section: str, key: str) -> str:
    """The line that gives a key of a table: its own, or of the inline table in which it stands."""
    wanted, above, found = f"{section}.{key}.", "", (0, "")
    for number, line in enumerate(lines, start=1):
        name, _, value = line.partition("=")
        if heading := re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", line):
            above, name, value = f"{heading[1].strip()}.", "", ""
        name = f"{above}{name.strip()}.".replace('"', "").replace("..", ".")
        inside = name == wanted or re.search(rf"[{{,]\s*{re.escape(key)}\s*=", value)
        if wanted.startswith(name) and inside and len(name) > found[0]:
            found = (len(name), f"line {number}: ")
    return found[1]


def check_keys(path: Path, what: str = "audit") -> None:
    """Refuse a study file with unknown keys in its sections; the rest is checked by `Study`."""
    content = read_toml(path)
    faults = [one for one in _keys(content) if one[2] not in KEYS[one[1]]]
    if faults:
        lines, more = lines_of(path), len(faults) - MOST_PROBLEMS
        found = [
            str(placed(unknown(key, KEYS[of]), at, lines)) for at, of, key in faults[:MOST_PROBLEMS]
        ]
        rest = f"; and {more:,} more" if more > 0 else ""
        raise InputError(f"{path}: {'; '.join(found)}{rest}")
    if what != "audit" and what not in content:
        raise InputError(f"the study has no [{what}]; add it: docs/study-file.md has examples")


def _keys(content: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Section, its name in `KEYS`, and key, of every section that is known."""
    yield from (("", "study", key) for key in content)
    for name, table in content.items():
        if isinstance(table, Mapping):
            kind = f"model.{table.get('kind', 'DPMPM')}" if name == "model" else name
            yield from ((name, kind, key) for key in table if kind in KEYS)
