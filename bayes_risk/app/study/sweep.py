"""``[sweep]`` and ``[compare]``: what is varied around the audit that the file describes."""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    field_validator,
    model_serializer,
    model_validator,
)

from bayes_risk._core.formats import toml_value
from bayes_risk.studies.comparison import MEASURES, RISKS, UTILITIES
from bayes_risk.studies.grid import SHARES

from .keys import Count, Section, Switch, misfit, read_section, told, worded
from .sections import ReleaseSection, read_guesses, read_prior
from .signatures import section


class CandidateSection(Section):
    """``[compare.NAME]``: keys of ``[model]``, ``[release]`` and ``[attribute]`` that change."""

    model: dict[str, Any] | None = worded("a table of keys of [model]")
    release: dict[str, Any] | None = worded("a table of keys of [release]")
    attribute: dict[str, Any] | None = worded("a table of keys of [attribute]")

    @field_validator("*", mode="after")
    @classmethod
    def _nothing_changes(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        """Take an empty table for none."""
        return value or None


class CompareSection(Section):
    """``[compare]``: how often each candidate is made, what the map shows, and the candidates."""

    replicates: Count = 5
    risk: str | None = worded(
        'the name of a risk, such as "mean_probability" or "expected_match_risk"'
    )
    utility: str | None = worded('the name of a measure of utility, such as "pmse_cart"')
    kind: Literal["boxes", "rectangles", "points"] = worded(
        '"boxes", "rectangles" or "points"', "boxes"
    )
    bounds: Switch = False
    candidates: dict[str, CandidateSection] = worded("[compare.NAME]", {})

    @model_validator(mode="before")
    @classmethod
    def _candidates(cls, value: Any) -> Any:
        """Tables that are no keys are candidates."""
        if not isinstance(value, Mapping):
            return value
        tables = value.get("candidates")
        if tables is None:
            tables = {k: v for k, v in value.items() if k not in cls.model_fields and _is_table(v)}
            if not tables and set(value) <= set(cls.model_fields):
                raise told(
                    "[compare] names no candidate; give tables of what changes: [compare.trees] "
                    'and model = { kind = "CART", order = ["income"] }'
                )
            value = {k: v for k, v in value.items() if k not in tables}
        if not isinstance(tables, Mapping):
            return value
        found = {}
        for name, keys in tables.items():
            where = f"[compare.{name}]"
            homes = {f"{where} {table} = {{ ... }}": known for table, known in CHANGED.items()}
            found[name] = read_section(CandidateSection, keys, where, partial(dict, homes))
        return {**value, "candidates": found}

    @model_validator(mode="after")
    def _measures_exist(self) -> "CompareSection":
        for key, given, known in (("risk", self.risk, RISKS), ("utility", self.utility, UTILITIES)):
            if given is not None and given not in known:
                near = get_close_matches(given, known, n=1) or known[:2]
                right = " or ".join(map(repr, near))
                raise told(misfit(f"[compare] {key}", given, f"{right} (docs/sensitivity.md)"))
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Candidates beside the keys, as the file has them."""
        found: dict[str, Any] = handler(self)
        given = {
            name: {k: v for k, v in keys.items() if v is not None} or {"model": {}}
            for name, keys in found.pop("candidates", {}).items()
        }
        named_as_keys = set(given) & set(type(self).model_fields)
        return found | ({"candidates": given} if named_as_keys else given)

    @property
    def needs(self) -> str | None:
        """The section that the risk of the map comes from."""
        return None if self.risk is None else MEASURES[self.risk].kind


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping | CandidateSection)


CHANGED = {
    "release": list(ReleaseSection.model_fields),
    "model": ["kind", "order", "formulas", "n_classes", "min_leaf", "draws", "tune", "chains"],
    "attribute": ["evidence", "guesses", "prior"],
}
Values = list[Any] | dict[str, Any]
OWN = "as in the study"
ANYTHING = TypeAdapter[Any](Any)


def _varied(key: str, example: str, read: Callable[[Any, str], Any] = lambda v, _: v) -> Any:
    """A list of values, or a table of label = value, each of them read; nothing if left out."""
    where = f"[sweep] {key}"

    def values(given: Any) -> Any:
        if isinstance(given, Mapping) and given:
            return {str(k): read(v, f"{where}.{k}") for k, v in given.items()}
        if not isinstance(given, list) or not given:
            raise told(misfit(where, given, f"a list: {example}; or a table of label = value"))
        found = [read(value, where) for value in given]
        for place, value in enumerate(found):
            if value in found[:place]:
                raise told(f"{where} names {given[place]!r} twice; name each value once")
        return found

    return Annotated[Any, BeforeValidator(values)], None


def _records(value: Any, where: str) -> Any:
    """Knowledge that other models than one of counts answer, and that orders itself."""
    if isinstance(value, str) and value not in SHARES:
        right = '"all-but-target", "none", a fraction, or a list of record labels'
        raise told(misfit(where, value, right))
    return value


def _hyper(given: Any) -> Any:
    """Lists, or tables of label = value, by key; what the values are, the model's section knows."""
    if not isinstance(given, Mapping) or not given:
        right = "a table of key of [model] = list of values: level_prior = [0.5, 1, 2]"
        raise told(misfit("[sweep.model]", given, right))
    for key, values in given.items():
        if not isinstance(values, list | Mapping) or not values:
            right = "a list of values, or a table of label = value"
            raise told(misfit(f"[sweep.model] {key}", values, right))
    return given


SWEPT: Any = section(
    "Swept",
    keys=(),
    priors=_varied("priors", '["uniform", "marginal", { truth_factor = 10 }]', read_prior),
    knows_records=_varied("knows_records", '["all-but-target", 0.5, "none"]', _records),
    knows_columns=_varied("knows_columns", '[[], ["age"], ["age", "job"]]'),
    guesses=_varied("guesses", '["neighbourhood", "hamming-2"]', read_guesses),
    classes=_varied("classes", '["new", "own"]'),
    parameters=_varied("parameters", '["independent", "shared"]'),
    evidence=_varied("evidence", '["predictive", "importance"]'),
    m=_varied("m", "[1, 3, 5]"),
    model=(Annotated[dict[str, Values] | None, BeforeValidator(_hyper)], None),
    combinations=(Switch, False),
)


class SweepSection(SWEPT):  # type: ignore[misc]
    """``[sweep]``: lists of values, one factor varied at a time around the study's own setting."""

    @model_validator(mode="after")
    def _something_varies(self) -> "SweepSection":
        if not self.factors:
            raise ValueError('varies nothing; give a list: priors = ["uniform", "marginal"]')
        return self

    @property
    def factors(self) -> list[str]:
        """Keys that are given, in the order of the file's documentation."""
        names = [name for name in type(self).model_fields if name != "combinations"]
        return [name for name in names if getattr(self, name) is not None]

    def values(self, key: str) -> list[Any]:
        """Values of a factor, without labels."""
        given = getattr(self, key)
        return list(given.values()) if isinstance(given, Mapping) else list(given or [])


def labelled(given: Values, own: Any) -> tuple[dict[str, Any], str]:
    """Labels and values of a factor, the study's own always among them, and the label of that."""
    pairs = dict(given) if isinstance(given, Mapping) else {label_of(v): v for v in given}
    for label, value in pairs.items():
        if value == own:
            return pairs, label
    label = OWN if isinstance(given, Mapping) else label_of(own)
    return {label: own, **pairs}, label


def label_of(value: Any) -> str:
    """A value as the file has it, for labels."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return " + ".join(value) or "none"
    given = ANYTHING.dump_python(value, exclude_unset=True)
    text = value if isinstance(value, str) else toml_value(given).removeprefix("{ ")
    return re.sub(r"(?<=\d)\.0\b", "", text.removesuffix(" }"))
