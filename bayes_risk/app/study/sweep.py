"""``[sweep]`` of a study file: what is varied around the audit that the file describes."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from bayes_risk.release.release import PARAMETERS

from .keys import Count, Section, Switch, misfit, told
from .priors import read_prior, shown
from .sections import GridSection, read_guesses

Values = list[Any] | dict[str, Any]
OWN = "as in the study"
SHARES = {"none": 0.0, "all-but-target": 1.0}
EVIDENCE = ("exact", "predictive", "imputed", "product", "simulated", "refit", "reuse")


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
        Values | None, _each("evidence", _among(*EVIDENCE), '["predictive", "reuse"]')
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
    if isinstance(value, GridSection):
        way = next(k for k in ("percent", "additive", "bounds", "values") if getattr(value, k))
        at = getattr(value, way)
        said = f"{at:g} %" if way == "percent" else f"+- {at:g}" if way == "additive" else ""
        span = said or f"{min(at):g} to {max(at):g}"
        return f"{span} ({value.n if way != 'values' else len(at)})"
    if isinstance(value, Mapping):
        return ", ".join(f"{c}: {_guesses_shown(grid)}" for c, grid in value.items())
    return str(value)
