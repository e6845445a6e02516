"""``[model]`` of a study file: its keys are the arguments of a declaration and of its fit.

Every model that is registered under the entry-point group ``bayes_risk.models`` has a section, made
of its signatures.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd
from pydantic import Field, create_model, model_validator

from bayes_risk import models
from bayes_risk._core.errors import InputError

from .keys import AtLeastTwo, Section, as_keys, misfit, read_section, told
from .signatures import Arguments, arguments_of, field_of, made


class ModelSection(Section):
    """``[model]`` of any kind."""

    kind: str
    declares: ClassVar[Any] = None
    ways: ClassVar[Mapping[str, Arguments]] = {}  # from a table to a fit

    @model_validator(mode="after")
    def _can_be_declared(self) -> "ModelSection":
        needless = [key for key in self.unused if key in self.model_fields_set]
        if needless:
            brings = [key for key, value in self if _from_files(value)]
            said = f"does not go with files of {brings[0]}" if brings else "is for what files bring"
            raise ValueError(f"{needless[0]} {said}; leave {needless[0]} out")
        try:
            self.declared(run=False)
        except InputError as error:
            raise told(self.said(error)) from None
        return self

    @property
    def own(self) -> Arguments:
        """Arguments of the declaration itself."""
        found = arguments_of(type(self).declares)
        required = {k: one for k, one in found.items() if one.default is one.empty}
        return required if self._declares_itself else found

    @property
    def _declares_itself(self) -> bool:
        """Whether the way to the fit is one of the class."""
        return isinstance(inspect.getattr_static(type(self).declares, self.way), classmethod)

    @property
    def way(self) -> str:
        """The method from a table to a fit: that to which files are brought, or ``"fit"``."""
        for name, arguments in type(self).ways.items():
            needs = [key for key, one in arguments.items() if one.default is one.empty]
            if any(_from_files(getattr(self, key)) for key in needs):
                return name
        return "fit"

    @property
    def unused(self) -> list[str]:
        """Keys that mean nothing beside the others."""
        taken = {"kind", *map(in_file, (*self.own, *type(self).ways[self.way]))}
        return [key for key in type(self).model_fields if key not in taken]

    @property
    def hyper(self) -> list[str]:
        """Keys that a sweep may vary, with ``"power"`` of a model that can scale its priors."""
        free = [in_file(k) for k, one in self.own.items() if one.default is not one.empty]
        return [*free, *(["power"] if hasattr(type(self).declares, "power_scaled") else [])]

    @property
    def modelled(self) -> list[str] | None:
        """Columns that are synthesised unless some are named; None: all that the table has."""
        return self.synthesizes([]) or None

    def synthesizes(self, columns: Sequence[str]) -> list[str]:
        """The same, of a table with these columns."""
        declaration = self.declared(run=False)
        if not hasattr(declaration, "synthesizes"):  # of another package, perhaps
            return list(columns)
        return list(declaration.synthesizes(columns))

    def declared(self, df: pd.DataFrame | None = None, *, run: bool = True, **changed: Any) -> Any:
        """The declaration; ``run``: what stands in files is read and run, as far as ``df`` lets."""
        return type(self).declares(**self._made(self.own, df=df, run=run, **changed))

    def fit_options(self) -> dict[str, Any]:
        """Keyword arguments of the way to the fit."""
        return self._made(type(self).ways[self.way], df=None, run=True)

    def _made(self, arguments: Arguments, *, df: Any, run: bool, **changed: Any) -> dict[str, Any]:
        found = {}
        for name, one in arguments.items():
            value = changed.get(in_file(name), getattr(self, in_file(name)))
            found[name] = made(value, one.annotation, key=name, df=df, run=run)
        return found

    def said(self, error: Exception, where: str = "[model]") -> str:
        """What the library says of arguments, said of keys."""
        words = as_keys(re.sub(r"\bkind(?==)", "synthesizer", str(error)))
        words = re.sub(r"\b(?:[A-Z]\w*)?Fit\b", f'kind = "{self.kind}"', words)
        words = re.sub(r"\bmodels\.([A-Z]\w*)", r'kind = "\1"', words).replace("over: ", "")
        return words if words.startswith("[") else f"{where} {words}"


def in_file(name: str) -> str:
    """The key of an argument: ``kind`` is that of the model."""
    return "synthesizer" if name == "kind" else name


def _from_files(value: Any) -> bool:
    """Whether a value is the path of a file, or a table of them."""
    return isinstance(value, Path) or (
        isinstance(value, Mapping) and any(isinstance(part, Path) for part in value.values())
    )


@cache
def section_of(kind: str) -> type[ModelSection]:
    """The section of a registered model."""
    declares = getattr(models, kind)
    own = arguments_of(declares)
    methods = [n for n in dir(declares) if n.startswith("from_")]
    ways = {name: arguments_of(getattr(declares, name)) for name in [*methods, "fit"]}
    found: dict[str, list[inspect.Parameter]] = {}
    for arguments in (own, ways["fit"], *(ways[name] for name in methods)):
        for name, one in arguments.items():
            found.setdefault(name, []).append(one)
    keys: Any = {}
    for name, given in found.items():
        if name not in own and name not in ways["fit"]:  # only of what is brought
            given = [one.replace(default=None, annotation=one.annotation | None) for one in given]
        keys[in_file(name)] = field_of(in_file(name), given, declares if name in own else None)
    if "chains" in keys:  # errors are taken between them
        keys["chains"] = (AtLeastTwo, keys["chains"][1].default)
    named: Any = (Literal[kind], Field(kind, description=f'"{kind}"'))
    section = create_model(f"{kind}Section", __base__=ModelSection, kind=named, **keys)
    section.declares, section.ways = declares, ways
    return section


def read_model(value: Any, homes: Any = None, context: Any = None) -> Any:
    """``[model]``, of the kind that it names."""
    if isinstance(value, ModelSection):
        return value
    if not isinstance(value, Mapping):
        raise told("[model] must be a table of keys")
    kind, kinds = value.get("kind", "DPMPM"), models.registered()
    if kind not in kinds:
        raise told(misfit("[model] kind", kind, " or ".join(f'"{name}"' for name in kinds)))
    known = lambda: _other_kinds(value, kind) | (homes or dict)()  # noqa: E731
    return read_section(section_of(kind), value, "[model]", known, context)


def _other_kinds(keys: Mapping[str, Any], kind: str) -> dict[str, list[str]]:
    """Keys that this kind of model does not have, under the names of the kinds that do."""
    homes: dict[str, list[str]] = {}
    every = {name: section_of(name).model_fields for name in models.registered()}
    for key in keys:
        have = [f'"{name}"' for name, fields in every.items() if key in fields]
        if have and f'"{kind}"' not in have:
            homes.setdefault(f'kind = {" or ".join(have)}; this one is "{kind}"', []).append(key)
    return homes
