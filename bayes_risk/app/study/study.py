"""A study: one TOML file that says what is audited and how.

The text of a study file as nested tables, at most so long and so deep.

Paths in a study file count from the folder it lies in.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from bayes_risk._core.errors import InputError

from .agreement import (
    check_full_table,
    check_membership,
    check_priors,
    check_reweighting,
    check_zeros,
)
from .audits import FullTableSection, MembershipSection, ReweightSection
from .bounds import BoundsSection, check_bounds
from .candidates import candidate_study, check_compare
from .comparing import CompareSection
from .contents import FURTHER, HOMES, SECTIONS, read_model
from .context import ContextSection
from .counts import PoissonMixtureSection, check_attribute, check_keys, check_release
from .identification import IdentificationSection
from .intruder import attribute_settings
from .keys import Section, read_section, sentences, unknown
from .models import DPMPMSection, ModelSection, PMMSection, PyMCSection, RegressionSection
from .parameters import check_parameters, offered
from .sections import AttributeSection, DataSection, OutputSection, ReleaseSection
from .sweep import SweepSection
from .sweep_agreement import UNASKED, check_sweep
from .thresholds import ThresholdsSection, check_thresholds
from .trees import CARTSection
from .utility import UtilitySection


def from_folder(study: "Study", base: Path) -> "Study":
    """Return the same study, its paths counted from a folder."""
    data, release, output = study.data, study.release, study.output
    if data.path is not None:
        data = data.model_copy(update={"path": base / data.path})
    if release.files is not None:
        release = release.model_copy(update={"files": [base / f for f in release.files]})
    if output.folder is not None:
        output = output.model_copy(update={"folder": base / output.folder})
    update: dict[str, Any] = {"data": data, "release": release, "output": output}
    if study.membership is not None and study.membership.others is not None:
        others = {"others": base / study.membership.others}
        update["membership"] = study.membership.model_copy(update=others)
    if study.context is not None and study.context.holdout is not None:
        holdout = {"holdout": base / study.context.holdout}
        update["context"] = study.context.model_copy(update=holdout)
    if study.compare is not None:
        update["compare"] = _compare(study, study.compare, base)
    if study.utility is not None:
        update["utility"] = study.utility.from_folder(base)
    update |= {
        "model": _model(study.model, base),
        "identification": _identification(study.identification, base),
    }
    return study.model_copy(update=update)


def _compare(study: "Study", section: CompareSection, base: Path) -> CompareSection:
    """The same candidates, the paths that they name counted from a folder."""
    found = {}
    for name, given in section.candidates.items():
        update: dict[str, Any] = {}
        if given.release is not None and "files" in given.release:
            files = [base / file for file in given.release["files"]]
            update["release"] = given.release | {"files": files}
        own = candidate_study(study, name).model
        if given.model is not None and (there := _model(own, base)) != own:
            update["model"] = there.model_dump(exclude_unset=True) | {"kind": there.kind}
        found[name] = given.model_copy(update=update)
    return section.model_copy(update={"candidates": found})


def _model(model: ModelSection, base: Path) -> ModelSection:
    """The same model, its paths counted from a folder."""
    if isinstance(model, PyMCSection):
        path, name = model.file
        return model.model_copy(update={"build": f"{base / path}:{name}"})
    if isinstance(model, DPMPMSection) and isinstance(model.impossible, Path):
        return model.model_copy(update={"impossible": base / model.impossible})
    if isinstance(model, CARTSection) and model.models is not None:
        return model.model_copy(update={"models": base / model.models})
    if isinstance(model, PMMSection):
        constraints = [f"{base / path}:{name}" for path, name in model.files]
        return model.model_copy(update={"constraints": constraints})
    if isinstance(model, RegressionSection) and isinstance(model.draws, dict):
        return model.model_copy(
            update={"draws": {c: base / path for c, path in model.draws.items()}}
        )
    return model


def _identification(
    section: IdentificationSection | None, base: Path
) -> IdentificationSection | None:
    """The same section, its population's path counted from a folder."""
    if section is None or section.population is None or section.population.file is None:
        return section
    given = section.population.model_copy(update={"file": base / section.population.file})
    return section.model_copy(update={"population": given})


MOST_BYTES = 2_000_000
MOST_STEPS = 1_000  # of a dotted key: reading one takes time in proportion to their square


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises
    ------
    InputError
        A file that is missing, no TOML, above 2 MB, or nested beyond reason.
    """
    try:
        _check_size(path, path.stat().st_size)
        text = path.read_text(encoding="utf-8")
        _check_keys(path, text)
        return tomllib.loads(text)
    except FileNotFoundError:
        raise InputError(f"there is no study file {str(path)!r}; check the path") from None
    except RecursionError:
        raise too_deep(str(path)) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:  # of TOML, of UTF-8, of numbers with too many digits
        raise InputError(f"{path} is not a readable TOML file: {error}") from None


def too_deep(source: str) -> InputError:
    """Say that tables or lists stand in each other hundreds of times."""
    return InputError(f"{source} holds tables or lists nested too deep to be read; write them flat")


def _check_size(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        raise InputError(
            f"{path} has {size:,} bytes, and a study file at most {MOST_BYTES:,}; data stand in "
            "files of their own, which it names"
        )


def _check_keys(path: Path, text: str) -> None:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") > MOST_STEPS and line.partition("=")[0].count(".") > MOST_STEPS:
            raise InputError(
                f"line {number} of {path} has a key of more than {MOST_STEPS:,} steps; write tables"
            )


class Study(Section):
    """Everything one run does. Equal studies with a seed give equal numbers.

    title: heading of the report
    random_seed: same seed, data, settings and versions: same numbers; drawn and written into the
        manifest if left out
    """

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

    @field_validator("model", mode="before")
    @classmethod
    def _model(cls, value: Any) -> Any:
        return read_model(value)

    @field_validator(*SECTIONS, mode="before")
    @classmethod
    def _section(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        if value is None and not cls.model_fields[name].is_required():
            return None
        homes = {} if name in FURTHER else HOMES
        return read_section(SECTIONS[name], value, f"[{name}]", homes)

    @property
    def synthesized(self) -> list[str] | None:
        """Columns that are synthesised; None: all that the table has (of counts: all counts)."""
        return self.release.columns or self.model.modelled

    def made(self, df: pd.DataFrame | None) -> list[str]:
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

    @model_validator(mode="after")
    def _something_to_do(self) -> "Study":
        asked = (
            *(self.attribute, self.identification, self.membership, self.full_table),
            *(self.utility, self.context),
        )
        if all(section is None for section in asked):
            raise ValueError(
                "nothing to measure: add a section [attribute], [identification] or both"
            )
        return self

    @model_validator(mode="after")
    def _release_fits_model(self) -> "Study":
        model, release = self.model, self.release
        if "classes" in release.model_fields_set and not self.chooses_classes:
            raise ValueError(
                '[release] classes belongs to kind = "DPMPM" and to synthesizer = "MP"; leave it '
                "out"
            )
        if release.files is None and isinstance(drawn := getattr(model, "draws", None), int):
            own_chain = release.parameters == "one-mode"
            drawn *= 1 if own_chain else getattr(model, "chains", 1)
            if release.m > drawn and release.parameters not in ("shared", "plug-in"):
                of = (
                    "a chain of [model]; raise draws"
                    if own_chain
                    else ("[model]; raise draws or chains")
                )
                raise ValueError(
                    f"[release] m = {release.m} is more than the {drawn} draws of {of}, or lower m"
                )
        # files made elsewhere may hold columns that only a model of the attribute risk needs
        needed = release.files is None or self.attribute is not None
        for column in (release.columns or []) if needed else []:
            if model.modelled is not None and column not in model.modelled:
                key = {"Regression": "formulas", "PyMCModel": "columns"}.get(model.kind, "order")
                raise ValueError(
                    f"[release] columns names {column!r}, for which [model] {key} has nothing; it "
                    f"has {model.modelled}"
                )
        return self

    @model_validator(mode="after")
    def _matched_columns_go_together(self) -> "Study":
        model, release = self.model, self.release
        if not isinstance(model, PMMSection):
            return self
        if release.files is not None and self.attribute is not None:
            raise ValueError(
                'kind = "PMM" replaces some records alone, and [release] files do not say which; '
                "leave out files, or [attribute]"
            )
        if release.files is None and set(release.columns or model.order) != set(model.order):
            raise ValueError(
                f"[release] columns leaves out some of [model] order = {model.order}, which are "
                "synthesised together; leave out columns, or shorten order"
            )
        return self

    @model_validator(mode="after")
    def _counts_are_asked_what_they_can_tell(self) -> "Study":
        model, section = self.model, self.attribute
        if isinstance(model, PoissonMixtureSection):
            check_release(model, self.release)
            if section is not None:
                check_attribute(model, self.release, section)
        elif section is not None and section.intruder is not None and section.of_trade:
            raise ValueError(
                f'{section.intruder.said} is for kind = "PoissonMixture", not "{model.kind}"; give '
                '"all-but-target", or that model'
            )
        return self

    @model_validator(mode="after")
    def _sections_agree(self) -> "Study":
        for check in (check_priors, check_zeros, check_parameters, check_sweep, check_reweighting):
            check(self)
        check_membership(self)
        check_full_table(self)
        check_bounds(self)
        check_thresholds(self)
        return self

    @model_validator(mode="after")
    def _evidence_is_offered(self) -> "Study":
        self.check_evidence()
        return self

    def check_evidence(self, df: pd.DataFrame | None = None) -> None:
        """The evidence asked for is offered, as far as the file, or the table too, can tell.

        Raises
        ------
        ValueError
            Evidence that is not, or an intruder for whom nothing is.
        """
        if self.attribute is None or self.attribute.of_trade:
            return
        given, offers = self.attribute.evidence, self._offers(self.attribute, df)
        if set(offers).intersection(UNASKED if given is None else [given]):
            return
        said = "left to the library" if given is None else f'evidence = "{given}"'
        raise ValueError(
            f'[attribute] {said} is not offered by kind = "{self.model.kind}"{self._why_not()}; '
            "give evidence = " + " or ".join(f'"{offer}"' for offer in offers)
        )

    def _offers(self, section: AttributeSection, df: pd.DataFrame | None) -> tuple[str, ...]:
        """Ways to the evidence for the intruder of the study."""
        columns = self.made(df)
        if section.intruder is None or not section.knows_less:
            return offered(self, columns, df)
        offers = self.model.offers_knowing(columns, self.m, df)
        if not offers:
            raise ValueError(
                f'{section.intruder.said} is not offered by kind = "{self.model.kind}"'
                f'{self.of_its_making}{self.leaves}; give "all-but-target", or kind = '
                '"DPMPM", "Regression", "PoissonMixture" (synthesizer = "MP") or "CART"'
            )
        return offers

    def _why_not(self) -> str:
        if self.of_its_making:
            return self.of_its_making
        if isinstance(self.model, PMMSection) and self.model.selection == "hidden":
            return ' with selection = "hidden"'
        if self.attribute is not None and self.attribute.knows_less:
            return f" for this intruder and m = {self.m}"
        if not isinstance(self.model, RegressionSection):
            return ""
        return ' where a synthesised column is neither "normal" nor "lognormal"'

    @property
    def of_its_making(self) -> str:
        """What of the model leaves little to offer."""
        if isinstance(self.model, PoissonMixtureSection) and self.model.deals:
            return f' with synthesizer = "{self.model.synthesizer}"'
        if isinstance(self.model, RegressionSection) and isinstance(self.model.draws, dict):
            return " with draws brought from elsewhere"
        return ""

    @property
    def leaves(self) -> str:
        """What of columns that stay leaves nothing to offer for who knows some records alone."""
        if isinstance(self.model, DPMPMSection) and self.model.impossible is not None:
            return " with impossible combinations beside columns that stay as they are"
        if isinstance(self.model, RegressionSection) and not self.of_its_making:
            return " where a column that stays as it is has a formula with a synthesised one"
        return ""

    @model_validator(mode="after")
    def _candidates_are_studies(self) -> "Study":
        check_compare(self)
        return self

    @model_validator(mode="after")
    def _guessed_columns_are_synthesised(self) -> "Study":
        attribute, guessed, columns = self.attribute, self.guessed, self.synthesized
        if attribute is None or guessed is None:
            return self
        if columns is not None and attribute.largest not in (None, *columns):
            raise ValueError(
                f"[attribute.intruder] largest names {attribute.largest!r}, which is not "
                f"synthesised ({columns} are); give one that is"
            )
        for name in attribute.grids:
            if name not in guessed:
                raise ValueError(unknown(name, "[attribute] guesses", guessed))
        return self

    @model_validator(mode="after")
    def _keys_are_of_their_kind(self) -> "Study":
        keys, columns, model = self.identification, self.synthesized, self.model
        if keys is not None and isinstance(model, PoissonMixtureSection):
            check_keys(model, keys.synthesized)
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
        """Every setting, defaults too, but those that have no meaning beside the others.

        Totals that the intruder knows are data and are checked against them: true says the same.
        """
        found = self.model_dump(mode="json")
        if not self.chooses_classes:
            del found["release"]["classes"]
        if self.attribute is not None and self.attribute.intruder is not None:
            found["attribute"] = attribute_settings(found["attribute"], self.attribute.intruder)
        if self.release.files is not None:
            del found["release"]["m"]
        if isinstance(self.model, RegressionSection) and isinstance(self.model.draws, dict):
            found["model"] = {
                k: v for k, v in found["model"].items() if k not in self.model.FITTING
            }
        if isinstance(self.model, CARTSection) and self.model.models is not None:
            found["model"] = {
                k: v for k, v in found["model"].items() if k not in self.model.GROWING
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
        A file that is missing, no TOML, or above 2 MB; a key that is unknown, missing or does not
        fit: named with its section, and with the nearest known key.
    """
    path = Path(path)
    return from_folder(parse_study(read_toml(path), source=path.name), path.parent)


def parse_study(content: Mapping[str, Any], *, source: str = "study") -> Study:
    """Check the content of a study file (nested mappings) and make it a study."""
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{source}: {sentences(error, Study, content, '', HOMES)}") from None
    except RecursionError:
        raise too_deep(source) from None


def model_files(model: ModelSection) -> list[Path]:
    """Files that a model is made of: Python files, or draws."""
    if isinstance(model, PyMCSection):
        return [model.file[0]]
    if isinstance(model, PMMSection):
        return list(dict.fromkeys(path for path, _ in model.files))
    if isinstance(model, RegressionSection) and isinstance(model.draws, dict):
        return list(model.draws.values())
    if isinstance(model, DPMPMSection) and isinstance(model.impossible, Path):
        return [model.impossible]
    if isinstance(model, CARTSection) and model.models is not None:
        return [model.models]
    return []
