"""``[sweep]`` and ``[compare]``: what is varied around the audit that the file describes."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from bayes_risk.release.release import PARAMETERS
from bayes_risk.studies.measures import MEASURES, RISKS, UTILITIES

from .keys import Count, Section, Switch, misfit, read_section, told, unknown
from .models import Part
from .sections import read_guesses, read_prior, shown

RISK = "the name of a risk, such as " + '"mean_probability" or "expected_match_risk"'
USEFUL = 'the name of a measure of utility, such as "pmse_cart"'


class CandidateSection(Section):
    """``[compare.NAME]``: keys of ``[model]``, ``[release]`` and ``[attribute]`` that change.

    model: keys of `[model]` that change; another `kind` takes nothing over
    release: keys of `[release]` that change; with `files` there is no attribute risk
    attribute: keys of `[attribute]` that change: `{ evidence = "predictive" }`
    """

    model: dict[str, Any] | None = Field(None, description="a table of keys of [model]")
    release: dict[str, Any] | None = Field(None, description="a table of keys of [release]")
    attribute: dict[str, Any] | None = Field(None, description="a table of keys of [attribute]")

    @field_validator("*", mode="after")
    @classmethod
    def _nothing_changes(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        """Take an empty table for none."""
        return value or None


class CompareSection(Section):
    """``[compare]``: how often each candidate is made, what the map shows, and the candidates.

    replicates: how often each candidate is fitted and synthesised
    risk: of the map; `"mean_probability"`, else `"expected_match_risk"`, if left out
    utility: of the map; `"pmse_cart"` if left out
    kind: how the map draws a candidate
    bounds: measure the ends of the scale too, as `[bounds]` says
    candidates: candidates as one table, where a name is one of these keys
    """

    replicates: Count = 5
    risk: str | None = Field(None, description=RISK)
    utility: str | None = Field(None, description=USEFUL)
    kind: Literal["boxes", "rectangles", "points"] = Field(
        "boxes", description='"boxes", "rectangles" or "points"'
    )
    bounds: Switch = False
    candidates: dict[str, CandidateSection] = Field({}, description="[compare.NAME]")

    @model_validator(mode="before")
    @classmethod
    def _candidates(cls, value: Any) -> Any:
        """Tables that are no keys are candidates."""
        if not isinstance(value, Mapping):
            return value
        if "candidates" in value and not _is_table(value["candidates"]):
            return value
        if "candidates" in value:
            tables = {k: _candidate(k, v) for k, v in value["candidates"].items()}
            return {**value, "candidates": tables}
        own = {k: v for k, v in value.items() if k in cls.model_fields or not _is_table(v)}
        names = [k for k in value if k not in own and _is_table(value[k])]
        if not names and set(own) <= set(cls.model_fields):
            raise told(
                "[compare] names no candidate; give tables of what changes: [compare.trees] and "
                'model = { kind = "CART", order = ["income"] }'
            )
        return own | {"candidates": {k: _candidate(k, value[k]) for k in names}}

    @model_validator(mode="after")
    def _measures_exist(self) -> "CompareSection":
        for key, given, known in (("risk", self.risk, RISKS), ("utility", self.utility, UTILITIES)):
            if given is not None and given not in known:
                raise told(misfit(f"[compare] {key}", given, _nearest(given, known)))
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


def _candidate(name: str, value: Any) -> Any:
    homes = lambda: {  # noqa: E731
        f"[compare.{name}] {table} = {{ ... }}": keys for table, keys in _HOMES.items()
    }
    return read_section(CandidateSection, value, f"[compare.{name}]", homes)


_HOMES = {
    "release": ["m", "columns", "classes", "parameters", "files"],
    "model": ["kind", "order", "formulas", "n_classes", "min_leaf", "draws", "tune", "chains"],
    "attribute": ["evidence", "guesses", "prior"],
}


def _nearest(given: str, known: tuple[str, ...]) -> str:
    """The names that come near, or where all of them stand."""
    said = unknown(given, "", known)
    if "did you mean" in said:
        return said.rpartition("did you mean ")[2].rstrip("?")
    return f"{known[0]!r}, {known[1]!r} or another one of docs/sensitivity.md"


Values = list[Any] | dict[str, Any]
OWN = "as in the study"
SHARES = {"none": 0.0, "all-but-target": 1.0}
EVIDENCE = (
    "exact",
    "predictive",
    "imputed",
    "independent-releases",
    "monte-carlo",
    "refit",
    "importance",
)


def _each(key: str, read: Callable[[Any, str], Any], example: str) -> BeforeValidator:
    """Read every value of a list, or of a table of label = value."""
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

    return BeforeValidator(values)


def _records(value: Any, where: str) -> Any:
    number = isinstance(value, float) and 0 < value < 1
    labels = isinstance(value, list) and value and all(type(v) in (int, str) for v in value)
    if number or labels or (isinstance(value, str) and value in SHARES):
        return value
    right = '"all-but-target", "none", a fraction above 0 and below 1, or a list of record labels'
    raise told(misfit(where, value, right))


def _columns(value: Any, where: str) -> list[str]:
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return value
    raise told(misfit(where, value, 'lists of column names, [] for none: [[], ["age"]]'))


def _among(*names: str) -> Callable[[Any, str], str]:
    def read(value: Any, where: str) -> str:
        if isinstance(value, str) and value in names:
            return value
        raise told(misfit(where, value, " or ".join(f'"{name}"' for name in names)))

    return read


def _count(value: Any, where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise told(misfit(where, value, "whole numbers >= 1"))


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


class SweepSection(Section):
    """``[sweep]``: lists of values, one factor varied at a time around the study's own setting.

    priors: list of priors as in `[attribute]`; all are taken at every setting, which costs next to
        nothing
    knows_records: as in `[attribute.intruder]`: `["all-but-target", 0.5, "none"]`
    knows_columns: lists of columns: `[[], ["age"], ["age", "job"]]`
    guesses: as in `[attribute]`: `["neighbourhood", "hamming-2"]`, grids
    classes: `["new", "own"]`: what the intruder takes the release to be
    parameters: how the intruder takes the parameters behind the files to have been drawn
    evidence: how it is computed, a check of the computation; the first is the base if `[attribute]`
        names none
    m: `[1, 3]`: the first so many data sets of the release
    model: `[sweep.model]`: keys of `[model]`, each with a list of values, as the intruder takes
        them to have been
    combinations: all combinations of all values
    """

    priors: Annotated[
        Values | None, _each("priors", read_prior, '["uniform", "marginal", { truth_factor = 10 }]')
    ] = None
    knows_records: Annotated[
        Values | None, _each("knows_records", _records, '["all-but-target", 0.5, "none"]')
    ] = None
    knows_columns: Annotated[
        Values | None, _each("knows_columns", _columns, '[[], ["age"], ["age", "job"]]')
    ] = None
    guesses: Annotated[
        Values | None, _each("guesses", read_guesses, '["neighbourhood", "hamming-2"]')
    ] = None
    classes: Annotated[Values | None, _each("classes", _among("new", "own"), '["new", "own"]')] = (
        None
    )
    parameters: Annotated[
        Values | None, _each("parameters", _among(*PARAMETERS), '["independent", "shared"]')
    ] = None
    evidence: Annotated[
        Values | None, _each("evidence", _among(*EVIDENCE), '["predictive", "importance"]')
    ] = None
    m: Annotated[list[Count] | None, _each("m", _count, "[1, 3, 5]")] = None
    model: Annotated[dict[str, Values] | None, BeforeValidator(_hyper)] = None
    combinations: Switch = Field(False, description="true or false")

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


def labelled(key: str, given: Values, own: Any) -> tuple[dict[str, Any], str]:
    """Labels and values of a factor, the study's own always among them, and the label of that."""
    pairs = dict(given) if isinstance(given, Mapping) else {_label(key, v): v for v in given}
    for label, value in pairs.items():
        if value == own:
            return pairs, label
    label = OWN if isinstance(given, Mapping) else _label(key, own)
    return {label: own, **pairs}, label


def _label(key: str, value: Any) -> str:
    if key == "priors":
        return shown(value)
    if key == "knows_columns":
        return " + ".join(value) if value else "none"
    if key == "knows_records" and isinstance(value, list):
        return f"{', '.join(map(str, value))} ({len(value)} named)"
    if key == "guesses":
        return _guesses_shown(value)
    return str(value)


def _guesses_shown(value: Any) -> str:
    if isinstance(value, Part):
        value = value.made()
        way = next(k for k in ("percent", "additive", "bounds", "values") if getattr(value, k))
        at = getattr(value, way)
        said = f"{at:g} %" if way == "percent" else f"+- {at:g}" if way == "additive" else ""
        span = said or f"{min(at):g} to {max(at):g}"
        return f"{span} ({value.n if way != 'values' else len(at)})"
    if isinstance(value, Mapping):
        return ", ".join(f"{c}: {_guesses_shown(grid)}" for c, grid in value.items())
    return str(value)
