"""Every table of a study file, where each key belongs, and what follows from several of them."""

from collections.abc import Mapping
from typing import Any, get_args

import pandas as pd
from pydantic import Field, ValidationInfo, field_validator

from .keys import Section, misfit, read_section, told
from .measures import (
    BoundsSection,
    ContextSection,
    FullTableSection,
    IdentificationSection,
    MembershipSection,
    ReweightSection,
    ThresholdsSection,
    UtilitySection,
)
from .models import KINDS, DPMPMSection, ModelSection, PoissonMixtureSection
from .sections import AttributeSection, DataSection, IntruderSection, OutputSection, ReleaseSection
from .sweep import CompareSection, SweepSection


class Contents(Section):
    """The tables of a study file, each read; whether they agree with one another is not asked."""

    title: str = Field("Disclosure risk of a synthetic file", description="one line of text")
    random_seed: int | None = Field(None, ge=0, strict=True, description="a whole number >= 0")
    data: DataSection
    model: ModelSection = DPMPMSection()
    release: ReleaseSection = ReleaseSection()
    attribute: AttributeSection | None = None
    identification: IdentificationSection | None = None
    utility: UtilitySection | None = None
    context: ContextSection | None = None
    bounds: BoundsSection | None = None
    membership: MembershipSection | None = None
    full_table: FullTableSection | None = None
    reweight: ReweightSection | None = None
    sweep: SweepSection | None = None
    compare: CompareSection | None = None
    thresholds: ThresholdsSection = ThresholdsSection()
    output: OutputSection = OutputSection()

    @field_validator("*", mode="before")
    @classmethod
    def _table(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        if name == "model":
            return read_model(value)
        missing = value is None and not cls.model_fields[name].is_required()
        if missing or name not in SECTIONS:
            return value
        return read_section(SECTIONS[name], value, f"[{name}]", {} if name in FURTHER else HOMES)

    @property
    def synthesized(self) -> list[str] | None:
        """Columns that are synthesised; None: all that the table has (of counts: all counts)."""
        return self.release.columns or self.model.modelled

    def synthesized_in(self, df: pd.DataFrame | None) -> list[str]:
        """Columns that are synthesised; where all of them are, without the table none is named."""
        if self.synthesized is not None or df is None:
            return list(self.synthesized or [])
        fixed = self.model.fixed if isinstance(self.model, PoissonMixtureSection) else []
        return [c for c in df.columns if c not in fixed]

    @property
    def guessed(self) -> list[str] | None:
        """Columns of which values are guessed; None: all that are synthesised, of any name."""
        section, names = self.attribute, self.synthesized
        if section is not None and section.largest is not None:
            return [section.largest]
        known = section.knows_columns if section is not None else []
        return None if names is None else [name for name in names if name not in known]

    @property
    def m(self) -> int:
        """Number of data sets of the release."""
        return self.release.m if self.release.files is None else len(self.release.files)

    @property
    def chooses_classes(self) -> bool:
        """Whether ``[release] classes`` means anything beside the model."""
        model = self.model
        return isinstance(model, DPMPMSection) or (
            isinstance(model, PoissonMixtureSection) and not model.deals
        )

    @property
    def classes(self) -> str:
        """From which classes values are drawn; totals are dealt within the records' own."""
        dealt = isinstance(self.model, PoissonMixtureSection) and self.model.deals
        return "own" if dealt else self.release.classes


SECTIONS: dict[str, type[Section]] = {
    name: part
    for name, field in Contents.model_fields.items()
    for part in (field.annotation, *get_args(field.annotation))
    if isinstance(part, type) and issubclass(part, Section) and name != "model"
}
# their keys repeat those of others
FURTHER = (
    *("utility", "context", "bounds", "membership", "full_table"),
    *("reweight", "sweep", "compare"),
)
HOMES = {
    f"[{name}]": list(section.model_fields)
    for name, section in SECTIONS.items()
    if name not in FURTHER
} | {
    "[model]": [key for kind in KINDS.values() for key in kind.model_fields if key != "columns"],
    "[attribute.intruder]": list(IntruderSection.model_fields),
}
SAMPLING = ("draws", "tune", "chains")


def read_model(value: Any) -> Any:
    """``[model]``, of the kind that it names."""
    if not isinstance(value, Mapping):
        return read_section(DPMPMSection, value, "[model]")
    kind = value.get("kind", "DPMPM")
    if kind not in list(KINDS):
        raise told(misfit("[model] kind", kind, " or ".join(f'"{name}"' for name in KINDS)))
    fields = KINDS[kind].model_fields
    needless = [key for key in SAMPLING if key in value and key not in fields]
    if needless:
        raise told(
            f'[model] {" and ".join(needless)}: kind = "{kind}" is fitted without sampling; leave '
            f"out {' and '.join(needless)}"
        )
    return read_section(KINDS[kind], value, "[model]", {**_other_kinds(value, kind), **HOMES})


def _other_kinds(keys: Mapping[str, Any], kind: str) -> dict[str, list[str]]:
    """Keys that this kind of model does not have, under the names of the kinds that do."""
    homes: dict[str, list[str]] = {}
    for key in keys:
        have = [f'"{name}"' for name, other in KINDS.items() if key in other.model_fields]
        if have and f'"{kind}"' not in have:
            homes.setdefault(f'kind = {" or ".join(have)}; this one is "{kind}"', []).append(key)
    return homes
