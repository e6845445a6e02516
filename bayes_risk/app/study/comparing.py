"""``[compare]`` of a study file: candidates, each the study with some keys changed."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from bayes_risk.studies.comparing.words import MEASURES, RISKS, UTILITIES

from .keys import Count, Section, Switch, misfit, read_section, told, unknown

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
    homes = {f"[compare.{name}] {table} = {{ ... }}": keys for table, keys in _HOMES.items()}
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
