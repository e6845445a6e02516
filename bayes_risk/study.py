"""A study: one TOML file that says what is audited and how."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from bayes_risk._core.errors import InputError
from bayes_risk.study_keys import Section, read_section, sentences, unknown
from bayes_risk.study_models import (
    DPMPMSection,
    ModelSection,
    RegressionSection,
    model_from_folder,
    read_model,
)
from bayes_risk.study_sections import (
    AttributeSection,
    DataSection,
    IdentificationSection,
    OutputSection,
    ReleaseSection,
    ThresholdsSection,
)

SECTIONS: dict[str, type[Section]] = {
    "data": DataSection,
    "release": ReleaseSection,
    "attribute": AttributeSection,
    "identification": IdentificationSection,
    "thresholds": ThresholdsSection,
    "output": OutputSection,
}
HOMES = {f"[{name}]": list(section.model_fields) for name, section in SECTIONS.items()} | {
    "[model]": list(DPMPMSection.model_fields | RegressionSection.model_fields)
}


class Study(Section):
    """Everything one run does. Equal studies with a seed give equal numbers."""

    title: str = Field("Disclosure risk of a synthetic file", description="one line of text")
    random_seed: int | None = Field(None, ge=0, strict=True, description="a whole number >= 0")
    data: DataSection
    model: ModelSection = DPMPMSection()
    release: ReleaseSection = ReleaseSection()
    attribute: AttributeSection | None = None
    identification: IdentificationSection | None = None
    thresholds: ThresholdsSection = ThresholdsSection()
    output: OutputSection = OutputSection()

    @field_validator("model", mode="before")
    @classmethod
    def _model(cls, value: Any) -> Any:
        return read_model(value, HOMES)

    @field_validator(*SECTIONS, mode="before")
    @classmethod
    def _section(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        if value is None and not cls.model_fields[name].is_required():
            return None
        return read_section(SECTIONS[name], value, f"[{name}]", HOMES)

    @property
    def synthesized(self) -> list[str] | None:
        """Columns that are synthesised; None: all that the table has."""
        return self.release.columns or self.model.modelled

    @model_validator(mode="after")
    def _something_to_do(self) -> "Study":
        if self.attribute is None and self.identification is None:
            raise ValueError(
                "nothing to measure: add a section [attribute], [identification] or both"
            )
        return self

    @model_validator(mode="after")
    def _release_fits_model(self) -> "Study":
        model, release = self.model, self.release
        if model.kind != "DPMPM" and "classes" in release.model_fields_set:
            raise ValueError('[release] classes belongs to kind = "DPMPM"; leave it out')
        # files made elsewhere may hold columns that only a model of the attribute risk needs
        needed = release.files is None or self.attribute is not None
        for column in (release.columns or []) if needed else []:
            if model.modelled is not None and column not in model.modelled:
                key = "formulas" if model.kind == "Regression" else "columns"
                raise ValueError(
                    f"[release] columns names {column!r}, for which [model] {key} has nothing; it "
                    f"has {model.modelled}"
                )
        return self

    @model_validator(mode="after")
    def _evidence_is_offered(self) -> "Study":
        offers = self.model.offers(self.synthesized or [])
        if self.attribute is None or self.attribute.evidence in offers:
            return self
        raise ValueError(
            f'[attribute] evidence = "{self.attribute.evidence}" is not offered by kind = '
            f'"{self.model.kind}"{self._why_not()}; give evidence = '
            + " or ".join(f'"{offer}"' for offer in offers)
        )

    def _why_not(self) -> str:
        if not isinstance(self.model, RegressionSection):
            return ""
        if isinstance(self.model.draws, dict):
            return " with draws brought from elsewhere"
        return ' where a synthesised column is neither "normal" nor "lognormal"'

    @model_validator(mode="after")
    def _guessed_columns_are_synthesised(self) -> "Study":
        attribute, columns = self.attribute, self.synthesized
        if attribute is None or columns is None:
            return self
        guessed = [c for c in columns if c not in attribute.knows_columns]
        for key, names in (("guesses", attribute.grids), ("prior.density", attribute.densities)):
            for name in names:
                if name not in guessed:
                    raise ValueError(unknown(name, f"[attribute] {key}", guessed))
        return self

    @model_validator(mode="after")
    def _keys_are_of_their_kind(self) -> "Study":
        keys, columns = self.identification, self.synthesized
        if keys is None or columns is None:
            return self
        for column in keys.synthesized:
            if column not in columns:
                raise ValueError(
                    f"[identification] synthesized names {column!r}, which is not synthesised "
                    f"({columns} are); put it under known"
                )
        for column in keys.known:
            if column in columns:
                raise ValueError(
                    f"[identification] known names {column!r}, which is synthesised; put it under "
                    "synthesized"
                )
        return self

    def with_output(self, folder: Path) -> "Study":
        """Return the same study with its results in another folder."""
        return self.model_copy(update={"output": self.output.model_copy(update={"folder": folder})})

    def settings(self) -> dict[str, Any]:
        """Every setting, defaults too, but those that have no meaning beside the others."""
        found = self.model_dump(mode="json")
        if self.model.kind != "DPMPM":
            del found["release"]["classes"]
        if self.release.files is not None:
            del found["release"]["m"]
        if isinstance(self.model, RegressionSection) and isinstance(self.model.draws, dict):
            found["model"] = {
                k: v for k, v in found["model"].items() if k not in self.model.FITTING
            }
        return found


def read_study(path: Path | str) -> Study:
    """Read a study file; the paths in it count from the folder it lies in.

    Parameters
    ----------
    path : path of a TOML file

    Returns
    -------
    Study

    Raises
    ------
    InputError
        A file that is missing or no TOML; a key that is unknown, missing or does not fit: named
        with its section, and with the nearest known key.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no study file {str(path)!r}; check the path") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is not a readable TOML file: {error}") from None
    return _from_folder(parse_study(content, source=path.name), path.parent)


def parse_study(content: Mapping[str, Any], *, source: str = "study") -> Study:
    """Check the content of a study file (nested mappings) and make it a study."""
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{source}: {sentences(error, Study, content, '', HOMES)}") from None


def _from_folder(study: Study, base: Path) -> Study:
    data, release, output = study.data, study.release, study.output
    if data.path is not None:
        data = data.model_copy(update={"path": base / data.path})
    if release.files is not None:
        release = release.model_copy(update={"files": [base / f for f in release.files]})
    if output.folder is not None:
        output = output.model_copy(update={"folder": base / output.folder})
    model = model_from_folder(study.model, base)
    return study.model_copy(
        update={"data": data, "model": model, "release": release, "output": output}
    )
