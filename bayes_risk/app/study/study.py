"""A study: one TOML file that says what is audited and how; and what its sections say together.

Paths in a study file count from the folder it lies in. Checks here raise ValueError with a sentence
that names the keys, and the cure; what models, releases and audits refuse is the library's, and
asked before a model is sampled (`run/audit.py`).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import (
    Field,
    PrivateAttr,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from bayes_risk import models
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import is_number
from bayes_risk.studies.compare import sorted_keys
from bayes_risk.studies.comparison import UTILITIES

from .keys import (
    LARGEST,
    FunctionName,
    Section,
    misfit,
    read_section,
    read_toml,
    sentences,
    told,
    too_deep,
    unknown,
    worded,
)
from .sections import (
    BY_MODEL,
    INTRUDER,
    DataSection,
    OutputSection,
    ReleaseSection,
    ThresholdsSection,
)
from .sections import SECTIONS as PLAIN
from .signatures import ModelSection, read_model, section_of
from .sweep import CandidateSection, CompareSection, SweepSection

EXAMPLES = {
    "sweep": 'say what varies, as in priors = ["uniform", "marginal"]',
    "compare": "name candidates, as in [compare.trees] and "
    'model = { kind = "CART", order = ["income"] }',
}


class Study(Section):
    """Everything one run does. Equal studies with a seed give equal numbers."""

    title: str = worded("one line of text", "Disclosure risk of a synthetic file")
    random_seed: int | None = worded("a whole number >= 0", ge=0, strict=True)
    data: DataSection
    model: SerializeAsAny[ModelSection] = Field(default_factory=lambda: read_model({}))
    release: ReleaseSection = ReleaseSection()
    attribute: Any = None
    identification: Any = None
    utility: Any = None
    context: Any = None
    bounds: Any = None
    membership: Any = None
    full_table: Any = None
    reweight: Any = None
    sweep: Any = None
    compare: Any = None
    thresholds: Any = ThresholdsSection()
    output: OutputSection = OutputSection()
    _context: Any = PrivateAttr(None)  # of candidates, whose sections are read later

    @field_validator("*", mode="before")
    @classmethod
    def _table(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        if name == "model":
            return read_model(value, homes, info.context)
        missing = value is None and not cls.model_fields[name].is_required()
        if missing or name not in SECTIONS:
            return value
        known = homes if name in HOMES else None
        return read_section(SECTIONS[name], value, f"[{name}]", known, info.context)

    @model_validator(mode="after")
    def _sections_agree(self, info: ValidationInfo) -> "Study":
        if self.compare is not None:
            self._context = info.context
        check_agreement(self)
        return self

    def with_output(self, folder: Path) -> "Study":
        """Return the same study with its results in another folder."""
        return self.model_copy(update={"output": self.output.model_copy(update={"folder": folder})})

    def check_says(self, what: str) -> None:
        """Refuse to run what the study says nothing of."""
        if what in EXAMPLES and getattr(self, what) is None:
            raise InputError(f"the study has no [{what}]: {EXAMPLES[what]}")

    def settings(self) -> dict[str, Any]:
        """Every setting, defaults too, but those that have no meaning beside the others.

        Totals that the intruder knows are data and are checked against them: true says the same. Of
        declared levels it says how many there are: their names are data.
        """
        found = self.model_dump(mode="json")
        counts = {name: len(levels) for name, levels in self.data.listed_levels.items()}
        found["data"]["levels"] = self.data.levels | counts
        if (audit := self.attribute) is not None and audit.intruder is not None:
            whole = found["attribute"]["intruder"]
            kept = {"knows_records", *audit.intruder.model_dump(exclude_defaults=True)}
            whole["knows_totals"] = bool(whole["knows_totals"])
            found["attribute"]["intruder"] = {k: v for k, v in whole.items() if k in kept}
            for key in BY_MODEL if audit.knows.is_competitor else ():
                del found["attribute"][key]
        if self.release.files is not None:
            del found["release"]["m"], found["release"]["n"]
        for key in self.model.unused:
            del found["model"][key]
        return found

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
        names = self.synthesized
        if self.attribute is None:
            return names
        knows = self.attribute.knows
        if knows.largest is not None:
            return [knows.largest]
        return None if names is None else [n for n in names if n not in knows.knows_columns]

    @property
    def m(self) -> int:
        """Number of data sets of the release."""
        return self.release.m if self.release.files is None else len(self.release.files)


SECTIONS = PLAIN | {"sweep": SweepSection, "compare": CompareSection}
HOMES = ("data", "release", "attribute", "identification", "thresholds", "output")  # of keys


def homes() -> dict[str, list[str]]:
    """Keys of other tables, by table, to say where a stray one belongs."""
    kinds = [section_of(kind).model_fields for kind in models.registered()]
    plain = {f"[{name}]": list(SECTIONS[name].model_fields) for name in HOMES}
    return plain | {
        "[model]": [key for kind in kinds for key in kind if key != "columns"],
        "[attribute.intruder]": list(INTRUDER.model_fields),
    }


# --- reading ------------------------------------------------------------------------------------


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
    return parse_study(read_toml(path), source=path.name, folder=path.parent)


def parse_study(
    content: Mapping[str, Any], *, source: str = "study", folder: Path | None = None
) -> Study:
    """Check the content of a study file (nested mappings) and make it a study.

    Paths count from ``folder``, if there is one.
    """
    context = None if folder is None else {"folder": folder}
    try:
        return Study.model_validate(content, context=context)
    except ValidationError as error:
        raise InputError(f"{source}: {sentences(error, Study, content, '', homes)}") from None
    except RecursionError:
        raise too_deep(source) from None


def files_in(value: Any) -> Iterator[Path]:
    """Files that a section names, Python files too."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, FunctionName):
        yield value.place[0]
    elif isinstance(value, Section | dict | list):
        parts = value.values() if isinstance(value, dict) else value
        for part in parts:
            yield from files_in(part[1] if isinstance(value, Section) else part)


# --- sections that need one another, or leave no room for one another ----------------------------

ESTIMATES = ("interval_overlap", "lowest_interval_overlap", "largest_standardized_difference")


def check_agreement(study: Study) -> None:
    """All that a study file alone can tell: ValueError says the first rule that is broken."""
    for is_broken, said in _rules(study):
        if is_broken:
            raise ValueError(said)


def _rules(study: Study) -> Iterator[tuple[Any, str]]:
    """Whether a rule is broken, and what to say of it."""
    audit, people, sweep, compare = study.attribute, study.membership, study.sweep, study.compare
    measured = study.identification or study.utility or study.context
    fitted = "needs a model that is fitted, and [model] takes one from files; leave one of them out"
    is_fitted, files = study.model.way == "fit", study.release.files is not None

    yield (
        not (audit or people or study.full_table or measured),
        "nothing to measure: add a section [attribute], [identification] or both",
    )
    yield (
        study.bounds and not (measured or (compare and compare.bounds)),
        "[bounds] measures at both ends of the scale what [identification], [utility] and "
        "[context] measure of the release; add one of them",
    )
    if sweep:
        yield not audit, "[sweep] varies what [attribute] says; add that section"
        yield sweep.model and not is_fitted, f"[sweep.model] {fitted}"
        for key, values in (sweep.model or {}).items():
            for value in values.values() if isinstance(values, Mapping) else values:
                changed(study.model, key, value)
    if study.reweight:
        yield not is_fitted, f"[reweight] {fitted}"
        yield not audit, "[reweight] takes its weights from the audit; add [attribute]"
        yield (
            audit.knows.knows_less,
            "[reweight] is for an intruder who knows every other record; leave "
            "[attribute.intruder] out",
        )
        yield (
            files,
            "[reweight] makes the release, and [release] files have been made; leave out one of "
            "them",
        )
    if people and people.held_out is not None:
        yield (
            people.others is not None,
            "[membership] gives held_out and others, two ways to people outside the data; leave "
            "one out",
        )
        yield (
            files,
            "[membership] held_out makes a release of its own, without the records held out, and "
            "[release] files have been made; give others, or leave held_out out",
        )
    wanted = study.thresholds  # what is judged only when asked for is measured
    for key in ("membership_auc", "membership_log_bayes_factor"):
        missing = getattr(wanted, key) is not None and not people
        yield missing, f"[thresholds] {key} needs a section [membership]; add it"
    yield (
        wanted.membership_auc is not None and people.held_out is None and people.others is None,
        "[thresholds] membership_auc compares members with people outside the data; give "
        "[membership] held_out or others",
    )
    yield (
        wanted.utility and not study.utility,
        "[thresholds] utility needs a section [utility]; add it",
    )
    for name in wanted.utility or ():
        yield name not in UTILITIES, unknown(name, "[thresholds] utility", UTILITIES)
        yield _of_analyses(study, name, f"[thresholds] utility.{name}")
    if compare:
        yield (
            study.reweight,
            "[compare] makes releases without [reweight]; leave one of the two sections out",
        )
        yield (
            not (audit or study.identification),
            "[compare] needs a risk; add a section [attribute], [identification]",
        )
        yield (
            compare.needs and not getattr(study, compare.needs),
            f'[compare] risk = "{compare.risk}" needs a section [{compare.needs}]',
        )
        yield _of_analyses(study, compare.utility, f'[compare] utility = "{compare.utility}"')
        for name in compare.candidates:
            candidate_study(study, name)


def _of_analyses(study: Study, name: str | None, where: str) -> tuple[bool, str]:
    """Measures of estimates need analyses."""
    said = 'is of analyses; give [utility] analyses = "analyses.py:fit", or another measure'
    there = study.utility is not None and study.utility.analyses
    return name in ESTIMATES and not there, f"{where} {said}"


def changed(model: Any, key: str, value: Any) -> Any:
    """The section of the model with another value of one of its keys; ``power`` has no key."""
    if not (known := model.hyper):
        raise ValueError(f'[sweep.model] is not offered for kind = "{model.kind}"; leave it out')
    if key not in known:
        raise ValueError(unknown(key, "[sweep.model]", known))
    if key == "power":
        if not is_number(value) or not 0 < value <= LARGEST:
            raise ValueError(misfit("[sweep.model] power", value, "a list of numbers above 0"))
        return model
    content = model.model_dump(exclude_unset=True) | {key: value}
    try:
        return type(model).model_validate(content)
    except ValidationError as error:
        said = sentences(error, type(model), content, "[sweep.model]")
        raise told(said.replace("[model]", "[sweep.model]")) from None


# --- candidates of a comparison as studies of their own -------------------------------------------

KEYS = {"known", "synthesized"}
LEFT_OUT = ("compare", "sweep", "membership", "full_table", "context", "bounds", "thresholds")


def candidate_study(study: Study, name: str, df: pd.DataFrame | None = None) -> Study:
    """The study that a candidate stands for: that of the file, with the candidate's keys.

    Keys of the matching intruder are sorted by what the candidate synthesises (which may be said by
    the table alone), and only guesses of such columns are kept.
    """
    content: dict[str, Any] = {
        key: getattr(study, key) for key in study.model_fields_set if key not in LEFT_OUT
    }
    try:
        content |= _changed(study, study.compare.candidates[name])
        one = Study.model_validate(content, context=study._context)
        one = one.model_copy(update=_suited(one, df))
        check_agreement(one)
        return one
    except ValueError as error:
        sentence: Any = error
        if isinstance(error, ValidationError):
            sentence = sentences(error, Study, content, "")
        raise told(f"[compare.{name}]: {sentence}") from None


def _changed(study: Study, given: CandidateSection) -> dict[str, Any]:
    """The sections of which a candidate has keys for itself."""
    found: dict[str, Any] = {}
    for name, keys in given:
        own = getattr(study, name)
        if keys is None:
            continue
        if own is None:
            raise ValueError("attribute changes keys of a section [attribute], which is not there")
        kept = {key: getattr(own, key) for key in own.model_fields_set}
        if name == "model":  # another kind takes nothing over
            kept = kept | {"kind": own.kind} if keys.get("kind", own.kind) == own.kind else {}
        if name == "release":
            kept.pop("m" if "files" in keys else "files" if "m" in keys else "", None)
        found[name] = kept | keys
    return found


def _suited(one: Study, df: pd.DataFrame | None) -> dict[str, Any]:
    """What is asked of a candidate: guesses and knowledge of columns that are synthesised."""
    columns, audit, keys = one.synthesized, one.attribute, one.identification
    if one.release.files is not None:
        audit = None  # releases made elsewhere are matched and compared, without a model
    if audit is not None and columns is not None:
        known = [name for name in audit.knows_columns if name in columns]
        update: dict[str, Any] = {"knows_columns": known}
        if isinstance(audit.guesses, Mapping):
            guessed = set(columns) - set(known)
            update["guesses"] = {k: v for k, v in audit.guesses.items() if k in guessed}
        audit = audit.model_copy(update=update)
    if keys is not None and (made := one.synthesized_in(df)):
        keys = keys.model_copy(update=sorted_keys(keys.model_dump(include=KEYS), made))
    return {"attribute": audit, "identification": keys}
