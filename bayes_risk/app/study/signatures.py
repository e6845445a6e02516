"""Sections of a study file, made of signatures of the library: their keys are its arguments.

A function stands in the file as ``"file.py:function"``, a dataclass as a table of its arguments
(those that are required under its name: ``{ interval = [500, 700], probability = 0.8 }``), a table
of data as a path. ``[model]`` has the arguments of a declaration and of its fit: every model of the
entry-point group ``bayes_risk.models`` has a section.
"""

import ast
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from runpy import run_path
from traceback import extract_tb
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

import pandas as pd
from pydantic import (
    BeforeValidator,
    Field,
    InstanceOf,
    SerializeAsAny,
    ValidationInfo,
    create_model,
    model_validator,
)

import bayes_risk as br
from bayes_risk import models
from bayes_risk._core.arguments import taken
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import BOUNDS, RANGES, WORDS
from bayes_risk.data.rpart_file import SynthpopModels, read_models
from bayes_risk.matching.radii import Radius
from bayes_risk.models.fits.synthesis import Declaration
from bayes_risk.release.alike import read_like

from .keys import (
    FileFunction,
    FilePath,
    FileWords,
    Float,
    FunctionName,
    Functions,
    Keys,
    Section,
    bounds_of,
    misfit,
    refused,
    snake_case,
    whole,
)

# arguments that other sections give, or no study file
ELSEWHERE = frozenset(
    ["self", "df", "columns", "levels", "releases", "missing", "weights", "records", "extra"]
    + ["numbers", "sampler", "sample", "random_seed", "n_jobs", "progress"]
)
Label = Annotated[int, Field(strict=True)] | str  # of a record
Level = str | bool | int | float
WEIGHTS = "the name of the column of survey weights"
LISTS = {int: "a list of whole numbers", float: "a list of numbers", str: "a list of texts"}
SIMPLE: dict[Any, tuple[Any, str]] = {  # as pydantic checks it in a file, and in words
    int: (Annotated[int, Field(strict=True)], "a whole number"),
    float: (Float, "a number"),
    bool: (Annotated[bool, Field(strict=True)], "true or false"),
    str: (str, "a text"),
    Path: (FilePath, "the path of a file"),
    Hashable: (Label, "the label of a record"),
    br.Impossible: (
        list[dict[str, Level | list[Level]]] | FilePath,
        "a list of rules, or the path of a table",
    ),
    SynthpopModels: (FilePath, "the path of a JSON file of synthpop's models"),
    pd.DataFrame: (FilePath, "the path of a file"),
    NoneType: (None, "leave it out"),
    **dict.fromkeys((Any, inspect.Parameter.empty), (Any, "another value")),
}


def members(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


Table = SerializeAsAny[InstanceOf[Section]]  # as `read_as_part` reads one


def read_as_part(parts: Sequence[type[Section]]) -> BeforeValidator:
    """Read a table as the part it is of: of several the one whose first key it has."""

    def read(value: Any, info: ValidationInfo) -> Any:
        for part in parts if isinstance(value, Mapping) else ():
            if len(parts) == 1 or next(iter(part.model_fields)) in value:
                return part.model_validate(value, context=info.context)
        return value

    return BeforeValidator(read)


def in_files(hint: Any, name: str = "") -> tuple[Any, str]:
    """A type as pydantic checks what stands in a file, and what a value may be, in words.

    Numbers are within the bounds of the argument's name, but for those in lists.
    """
    if len(members(hint)) > 1:
        ones = sorted(members(hint), key=lambda one: one is NoneType)  # said last
        found = {one: in_files(one, name) for one in ones if one is not Any and writable(one)}
        if not found:
            raise TypeError(hint)
        types, words = zip(*found.values(), strict=True)
        parts = [part for one in found for part in sections_in(one)]
        return Annotated[Union[types], read_as_part(parts)], " or ".join(words)  # noqa: UP007
    origin: Any = get_origin(hint) or hint
    inner: Any = get_args(hint)
    if (origin, name in BOUNDS, name in RANGES) in ((int, True, False), (float, False, True)):
        bounds, right = bounds_of(name)
        return Annotated[SIMPLE[origin][0], Field(**bounds)], right
    if origin is str and name in WORDS:
        origin, hint, inner = Literal, Literal[WORDS[name]], WORDS[name]
    if origin in SIMPLE:
        return SIMPLE[origin]
    if origin is Declaration:
        return MODEL_PART, '{ kind = "CART", ... }'
    if origin is Literal:
        return hint, " or ".join(f'"{word}"' for word in inner)
    if origin is Callable:
        return FileFunction, '"file.py:function"'
    if origin is tuple:
        types, words = zip(*map(in_files, inner), strict=True)
        return tuple[types], f"[{', '.join(forms.removeprefix('a ') for forms in words)}]"  # type: ignore[valid-type]
    if name == "command":
        return FileWords, LISTS[str]
    if origin in (list, Sequence, Iterable):
        kind: Any = in_files(inner[0])
        if kind[0] is FileFunction:
            return Functions, f"a list: [{kind[1]}, ...]"
        return list[kind[0]], LISTS.get(inner[0], f"a list: [{kind[1]}, ...]")
    if origin in (dict, Mapping):
        kind = in_files(inner[1], name)
        return dict[str, kind[0]], f"a table: {{ column = {kind[1]} }}"
    if parts := sections_in(origin):
        forms = [f"a table: {{ {next(iter(part.model_fields), '...')} = ... }}" for part in parts]
        typed: Any = Table
        if hasattr(origin, "reference"):  # what it makes of nothing
            typed, forms = Table | Literal["reference"], ['"reference"', *forms]
        return Annotated[typed, read_as_part(parts)], " or ".join(forms)
    raise TypeError(hint)  # of which no value can stand in a file


def sections_in(hint: Any) -> list[type["DeclaredPart"]]:
    """Sections of the dataclasses that a type stands for."""
    kinds: list[Any] = [br.Absolute, br.SD, br.Quantile] if hint is Radius else [hint]
    data = (br.Impossible, SynthpopModels)
    return [part_of(kind) for kind in kinds if is_dataclass(kind) and kind not in data]


def writable(hint: Any) -> bool:
    """Whether values of a type can stand in a file."""
    try:
        in_files(hint)
    except (TypeError, IndexError):
        return False
    return True


# --- arguments as keys ------------------------------------------------------------------------

Arguments = Mapping[str, inspect.Parameter]


def arguments_of(call: Any) -> Arguments:
    """Arguments that a study file can give, by key: ``kind`` is that of the model."""
    made: dict[str, Any] = {}
    for one in fields(call) if is_dataclass(call) else ():
        made |= {} if one.default_factory is MISSING else {one.name: one.default_factory()}
    return {
        "synthesizer" if name == "kind" else name: one.replace(default=made.get(name, one.default))
        for name, one in inspect.signature(call, eval_str=True).parameters.items()
        if (name not in ELSEWHERE or inspect.isclass(call) and name == "columns")
        and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        and writable(one.annotation)
    }


def field_of(argument: inspect.Parameter) -> tuple[Any, Any]:
    """Type and field of a key."""
    (typed, words), default = in_files(argument.annotation, argument.name), _default(argument)
    return typed | None if default is None else typed, Field(default, description=words)


def _default(argument: inspect.Parameter) -> Any:
    """A default as the file has it; none: the argument is required."""
    if argument.default is argument.empty:
        return ...
    if is_dataclass(argument.default):
        return part_of(type(argument.default))()
    return [] if argument.default == () else argument.default


def section(name: str, *calls: Any, keys: Sequence[str], **own: Any) -> Any:
    """A section with some arguments of functions as its keys, and others that it has alone.

    ``own`` are types of keys, with a field or with the argument's default; also of arguments whose
    type in the file says more than the function's.
    """
    arguments: dict[str, inspect.Parameter] = {}
    for call in calls:
        arguments |= inspect.signature(call, eval_str=True).parameters
    made: dict[str, Any] = {}
    for key in dict.fromkeys([*keys, *own]):
        given = own.get(key)
        if not isinstance(given, tuple):
            given = (given, _default(arguments[key])) if given else field_of(arguments[key])
        made[key] = given
    return create_model(name, __base__=Section, **made)


# --- parts: dataclasses -----------------------------------------------------------------------


class DeclaredPart(Section):
    """A dataclass of the library, as a table of its arguments."""

    declares: ClassVar[Any] = None
    required: ClassVar[tuple[str, ...]] = ()  # arguments that stand under the first key

    @model_validator(mode="after")
    def _can_be_made(self) -> "DeclaredPart":
        self.made()
        return self

    def made(self, **more: Any) -> Any:
        """What the library takes."""
        given, names = {key: made(value) for key, value in self}, type(self).required
        if names:
            first = given.pop(next(iter(given)))
            given |= dict(zip(names, first if len(names) > 1 else [first], strict=True))
        return type(self).declares(**taken(type(self).declares, **given | more))


def part(cls: type, without: Sequence[str] = (), under: str = "", **own: Any) -> type[DeclaredPart]:
    """The section of a dataclass, what it requires ``under`` its name; ``own``: its other keys."""
    arguments = {k: one for k, one in arguments_of(cls).items() if k not in without}
    required = tuple(k for k, one in arguments.items() if one.default is one.empty)
    keys: dict[str, Any] = {}
    if required:
        hints = [arguments[k].annotation for k in required]
        hint: Any = hints[0] if len(hints) == 1 else tuple[tuple(hints)]  # type: ignore[misc]
        one = arguments[required[0]].replace(annotation=hint)
        name = under or snake_case(cls.__name__)
        keys[name] = field_of(one)
    keys |= {k: field_of(one) for k, one in arguments.items() if k not in required}
    first = {k: own[k] for k in own if k not in keys}
    made = create_model(f"{cls.__name__}Section", __base__=DeclaredPart, **first | keys | own)
    made.declares, made.required = cls, required
    return made


part_of: Any = cache(part)


def made(
    value: Any, hint: Any = None, *, key: str = "", df: pd.DataFrame | None = None, run: bool = True
) -> Any:
    """A value of the file as the library takes it; ``run``: what stands in files is read."""
    types, how = members(hint), dict[str, Any](key=key, df=df, run=run)
    inner = next((get_args(one)[-1] for one in types if get_args(one)), None)
    if isinstance(value, DeclaredPart):
        return value.made()
    if isinstance(value, ModelSection):
        return value.declared(df, run=run)
    if br.Impossible in types and value is not None:
        if isinstance(value, Path):
            if df is None:
                return None
            value = read_like(value, df)
        try:
            return br.Impossible(value)
        except InputError as error:
            raise InputError(key, f": {error.text}") from None
    if isinstance(value, FunctionName):
        return made([value], **how)[0]
    if isinstance(value, list) and value and isinstance(value[0], FunctionName):
        return functions_in(value, key=key) if run else [lambda _: None] * len(value)
    if isinstance(value, Path) and run:
        return read_models(str(value)) if SynthpopModels in types else br.read_table(value)
    if value == "reference" and hasattr(types[0], value):
        return types[0].reference()
    if isinstance(value, dict):
        return {k: made(v, inner, **how) for k, v in value.items()}
    listed = isinstance(value, list | tuple)
    return type(value)(made(v, inner, **how) for v in value) if listed else value


# --- functions of Python files, which are run with the rights of whoever runs the study ---------


def functions_in(names: Sequence[FunctionName], *, key: str, section: str = "model") -> list[Any]:
    """Functions of a table in Python files, each run once; errors in one are told in its name."""
    where, files, found = (section, key), dict[Path, Any](), []
    for path, name in (n.place for n in names):
        if not path.is_file():
            raise refused(*where, f": there is no file {str(path)!r}; check the path")
        if path not in files:
            with _errors_in(path, where):
                files[path] = run_path(str(path), run_name=f"_study_model_{path.stem}")
        if not callable(function := files[path].get(name)):
            raise refused(*where, f": {str(path)!r} defines no function {name!r}")
        found.append(partial(_called, function, path, where))
    return found


def _called(function: Any, path: Path, where: tuple[str, str], table: Any) -> Any:
    with _errors_in(path, where, table):
        return function(table)


@contextmanager
def _errors_in(path: Path, where: tuple[str, str], table: Any = None) -> Iterator[None]:
    """Name an error of a file by kind and line: its text may hold values of the data."""
    try:
        yield
    except Exception as error:
        kind, lines = type(error).__name__, _lines_of(error, path)
        if table is not None:
            kind += f"; it is given tables of any rows with the columns {list(table.columns)}"
        elif (name := getattr(error, "name", None)) in _words_of(path):
            kind += f" of {name!r}"  # a word of the code, so no value of the data
        line = lines[-1] if lines else "?"
        raise refused(*where, f": line {line} of {path.name!r} fails with {kind}") from None


def _lines_of(error: Exception, path: Path) -> list[int | None]:
    """Lines of a file that an error went through, or that cannot be compiled."""
    frames = extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if Path(f.filename).absolute() == path.absolute()]
    if not lines and isinstance(error, SyntaxError) and error.filename == str(path):
        lines = [error.lineno]
    return lines


def _words_of(path: Path) -> set[str]:
    """Names of variables and imported modules in a Python file."""
    try:
        nodes = [*ast.walk(ast.parse(path.read_bytes()))]
    except (SyntaxError, ValueError):
        return set()
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return names | {node.name for node in nodes if isinstance(node, ast.alias)}


# --- ``[model]`` ----------------------------------------------------------------------------------


UNNAMED = br.Households("household", relate="relate", head="head")  # where no table is read


class ModelSection(Section):
    """``[model]`` of any kind."""

    kind: str
    declares: ClassVar[Any] = None
    fit_method: ClassVar[str] = "fit"  # the method from a table to a fit; others take files too
    own: ClassVar[Arguments] = {}  # of the declaration
    more: ClassVar[Arguments] = {}  # of the way to the fit
    grouped: ClassVar[bool] = False  # whether it is of households, which ``[data]`` names

    @model_validator(mode="after")
    def _can_be_declared(self) -> "ModelSection":
        self.declared(run=False)
        return self

    def declared(
        self, df: pd.DataFrame | None = None, *, run: bool = True, household: Any = None
    ) -> Any:
        """The declaration; ``run``: what stands in files is read and run, as far as ``df`` lets.

        Without the table, rules that are to be read as the data are left out.
        """
        with self.named():
            own = {"household": household or UNNAMED} if self.grouped else {}
            return type(self).declares(**own, **self._made(self.own, df=df, run=run))

    def fit_options(self) -> dict[str, Any]:
        """Keyword arguments of the way to the fit."""
        return self._made(self.more, df=None, run=True)

    def _made(self, arguments: Arguments, *, df: Any, run: bool) -> dict[str, Any]:
        return {
            one.name: made(getattr(self, key), one.annotation, key=key, df=df, run=run)
            for key, one in arguments.items()
        }

    @contextmanager
    def named(self) -> Iterator[None]:
        """Word errors of the library for the section."""
        try:
            yield
        except InputError as error:
            if not isinstance(error.surface, Keys):
                known = {one.name: key for key, one in {**self.more, **self.own}.items()}
                error.surface = Keys("model", known.get(str(error.argument), ""))
            raise


@cache
def model_section(kind: str, method: str = "fit") -> type[ModelSection]:
    """The section of a registered model that is fitted in one way."""
    declares = getattr(models, kind)
    own, more = arguments_of(declares), arguments_of(getattr(declares, method)) if method else {}
    if method and isinstance(inspect.getattr_static(declares, method), classmethod):
        own = {k: one for k, one in own.items() if one.default is one.empty}
    grouped = getattr(own.get("household"), "annotation", None) is br.Households
    own = {k: one for k, one in own.items() if not (grouped and k == "household")}
    keys: Any = {"kind": (Literal[kind], Field(kind, description=f'"{kind}"'))}
    keys |= {key: field_of(one) for key, one in {**own, **more, **own}.items()}
    for key, least in (("chains", 2), ("draws", 4)):  # errors are taken between chains
        if key in more and int in members(more[key].annotation):
            keys[key] = (int, whole(key, more[key].default, least=least))
    weights = (
        inspect.signature(getattr(declares, method)).parameters.get("weights") if method else None
    )
    if weights is not None and weights.annotation is Any:
        keys["weights"] = (str | None, Field(None, description=WEIGHTS))
    section = create_model(f"{kind}Section", __base__=ModelSection, **keys)
    section.declares, section.fit_method, section.own, section.more = declares, method, own, more
    section.grouped = grouped
    return section


def read_part(value: Any, info: ValidationInfo) -> Any:
    """A part of a chain: the declaration of a model; how all are fitted, the chain says."""
    if not isinstance(value, Mapping):
        return value
    kinds = ("CART", "DPMPM", "Marginals", "Mixture", "Regression")
    if (kind := value.get("kind")) not in kinds:
        raise misfit("kind", kind, " or ".join(f'"{k}"' for k in kinds))
    return model_section(kind, "").model_validate(value, context=info.context)


MODEL_PART = Annotated[SerializeAsAny[ModelSection], BeforeValidator(read_part)]


def ways_of(kind: str) -> dict[str, list[str]]:
    """Methods of a model from a table to a fit, each with what has to be brought to it."""
    declares = getattr(models, kind)
    return {
        name: [k for k, a in arguments_of(getattr(declares, name)).items() if a.default is a.empty]
        for name in dir(declares)
        if name.startswith("from_")
    }


def read_model(value: Any, info: ValidationInfo | None) -> Any:
    """``[model]``, of the kind that it names."""
    if not isinstance(value, Mapping):
        return value
    kind, kinds = value.get("kind", "DPMPM"), models.registered()
    if kind not in kinds:
        raise misfit("kind", kind, " or ".join(f'"{k}"' for k in kinds))
    section = model_section(kind)
    known = section.model_fields
    files = {key for key, one in value.items() if isinstance(one, Mapping) or key not in known}
    for method, brought in ways_of(kind).items():
        section = model_section(kind, method) if files.intersection(brought) else section
    return section.model_validate(value, context=info and info.context)


MODEL = (
    Annotated[SerializeAsAny[ModelSection], BeforeValidator(read_model)],
    Field(default_factory=lambda: read_model({}, None)),
)
