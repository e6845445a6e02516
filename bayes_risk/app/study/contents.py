"""Every table of a study file, where each key belongs, and what follows from several of them."""

from typing import Any, get_args

import pandas as pd
from pydantic import Field, SerializeAsAny, ValidationInfo, field_validator

from bayes_risk import models

from .keys import Section, read_section
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
from .models import ModelSection, read_model, section_of
from .sections import AttributeSection, DataSection, IntruderSection, OutputSection, ReleaseSection
from .sweep import CompareSection, SweepSection


class Contents(Section):
    """The tables of a study file, each read; whether they agree with one another is not asked."""

    title: str = Field("Disclosure risk of a synthetic file", description="one line of text")
    random_seed: int | None = Field(None, ge=0, strict=True, description="a whole number >= 0")
    data: DataSection
    model: SerializeAsAny[ModelSection] = Field(default_factory=lambda: read_model({}))
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
            return read_model(value, homes)
        missing = value is None and not cls.model_fields[name].is_required()
        if missing or name not in SECTIONS:
            return value
        return read_section(SECTIONS[name], value, f"[{name}]", None if name in FURTHER else homes)

    @property
    def synthesized(self) -> list[str] | None:
        """Columns that are synthesised; None: all that the table has (of counts: all counts)."""
        return self.release.columns or self.model.modelled

    def synthesized_in(self, df: pd.DataFrame | None) -> list[str]:
        """Columns that are synthesised; where all of them are, without the table none is named."""
        if self.release.columns or df is None:
            return list(self.synthesized or [])
        return self.model.synthesizes([str(c) for c in df.columns])

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


def homes() -> dict[str, list[str]]:
    """Keys of other tables, by table, to say where a stray one belongs."""
    kinds = [section_of(kind).model_fields for kind in models.registered()]
    plain = {f"[{n}]": list(s.model_fields) for n, s in SECTIONS.items() if n not in FURTHER}
    return plain | {
        "[model]": [key for kind in kinds for key in kind if key != "columns"],
        "[attribute.intruder]": list(IntruderSection.model_fields),
    }
