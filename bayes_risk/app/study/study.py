"""A study: one TOML file that says what is audited and how; and what its sections say together.

Paths in a study file count from the folder it lies in. Checks here name keys and the
cure; what models, releases and audits refuse is the library's, and
asked before a model is sampled (`run/audit.py`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd
from pydantic import PrivateAttr, ValidationError, ValidationInfo, model_validator

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import positive
from bayes_risk.data.measures import COMPARED, UTILITIES
from bayes_risk.intruder.intruder import KNOWN
from bayes_risk.studies.compare import sorted_keys

from . import sections
from .keys import (
    TOO_DEEP,
    Section,
    lines_of,
    nested_too_deep,
    placed,
    problems,
    read_toml,
    refused,
    unknown,
    whole,
    worded,
)
from .keys import files_in as files_in
from .signatures import MODEL, section

# --- the study ----------------------------------------------------------------------------------


SETTINGS: Any = section(
    "Settings",
    keys=(),
    title=(str, worded("one line of text", "Disclosure risk of a synthetic file")),
    random_seed=(int | None, whole("random_seed")),
    data=(sections.DataSection, ...),
    model=MODEL,
    release=(sections.ReleaseSection, sections.ReleaseSection()),
    attribute=(sections.AttributeSection | None, None),
    history=(sections.HistorySection | None, None),
    identification=(sections.IdentificationSection | None, None),
    utility=(sections.UtilitySection | None, None),
    context=(sections.ContextSection | None, None),
    bounds=(sections.BoundsSection | None, None),
    membership=(sections.MembershipSection | None, None),
    full_table=(sections.FullTableSection | None, None),
    reweight=(sections.ReweightSection | None, None),
    sweep=(sections.SweepSection | None, None),
    compare=(sections.CompareSection | None, None),
    thresholds=(sections.ThresholdsSection, sections.ThresholdsSection()),
    output=(sections.OutputSection, sections.OutputSection()),
)


class Study(SETTINGS, Section):  # type: ignore[misc]
    """Everything one run does. Equal studies with a seed give equal numbers."""

    _context: Any = PrivateAttr(None)  # of candidates, whose sections are read later
    _record_columns: Any = PrivateAttr(None)

    @model_validator(mode="after")
    def _sections_agree(self, info: ValidationInfo) -> "Study":
        self._context = info.context if self.compare or self.sweep else None
        check_agreement(self)
        return self

    def with_output(self, folder: Path) -> "Study":
        """Return the same study with its results in another folder."""
        return self.model_copy(update={"output": self.output.model_copy(update={"folder": folder})})

    @property
    def record_columns(self) -> pd.DataFrame | None:
        """Columns of the table that no model sees, once read: survey weights, the household."""
        found: pd.DataFrame | None = self._record_columns
        return found

    def weights_named(self) -> dict[str, tuple[str, str]]:
        """Columns of survey weights, and section and key of each; those of candidates too."""
        names = (name for name in (self.compare.candidates if self.compare else ()))
        found = {
            c: w for one in names for c, w in candidate_study(self, one).weights_named().items()
        }
        if isinstance(given := self._in_file, sections.SampledSection):
            found[given.weights] = "attribute.intruder", "in_file"
        if (name := getattr(self.model, "weights", None)) is not None:
            found[name] = "model", "weights"
        return found

    def with_record_columns(self, table: pd.DataFrame | None) -> "Study":
        """The same study with such columns, of all records or of some."""
        update: dict[str, Any] = {}
        if isinstance(given := self._in_file, sections.SampledSection) and table is not None:
            intruder = self.attribute.intruder.model_copy(update={"in_file": given.read(table)})
            update["attribute"] = self.attribute.model_copy(update={"intruder": intruder})
        if (audit := self.attribute) is not None and table is not None:
            audit = cast(Any, update.get("attribute", audit)).model_copy()
            audit._households = None if self.model.grouped else table.get(self.data.household)
            update["attribute"] = audit
        found = self.model_copy(update=update)
        found._record_columns = table
        return found

    def declared(self, df: pd.DataFrame, model: Any = None) -> Any:
        """The declaration of the model, or of another section in its place."""
        return (model or self.model).declared(df, household=self.data.households)

    @property
    def _in_file(self) -> Any:
        intruder = None if self.attribute is None else self.attribute.intruder
        return None if intruder is None else intruder.in_file

    def check_says(self, what: str) -> None:
        """Refuse to run what the study says nothing of."""
        if what in ("sweep", "compare") and getattr(self, what) is None:
            raise InputError(f"the study has no [{what}]; add it: docs/study-file.md has examples")

    def settings(self) -> dict[str, Any]:
        """Every setting, defaults too, but those that have no meaning beside the others.

        Known totals and names of declared levels are data: true, and a count, stand for them.
        """
        found = self.model_dump(mode="json")
        counts = {name: len(levels) for name, levels in self.data.listed_levels.items()}
        found["data"]["levels"] = self.data.levels | counts
        if (audit := self.attribute) is not None and audit.intruder is not None:
            rest = audit.intruder.model_dump(mode="json", exclude_defaults=True)
            rest |= {"knows_totals": True} if audit.intruder.knows_totals else {}
            found["attribute"]["intruder"] = {"knows_records": audit.intruder.knows_records} | rest
            for key in sections.BY_MODEL if audit.knows.is_competitor else ():
                del found["attribute"][key]
        if self.release.files is not None:
            del found["release"]["m"], found["release"]["n"]
        if not (self.needs_fit or self.compare):
            del found["model"]
        return found

    def synthesized_in(self, df: pd.DataFrame | None) -> list[str]:
        """Columns that are synthesised; where all of them are, without the table none is named."""
        columns = [] if df is None else list(map(str, df.columns))
        if self.release.columns:
            return list(self.release.columns)
        declaration = self.model.declared(run=False)  # another package's may say nothing
        return list(getattr(declaration, "synthesizes", list)(columns))

    @property
    def synthesized(self) -> list[str] | None:
        """Columns that are synthesised; None: all that the table has (of counts: all counts)."""
        return self.synthesized_in(None) or None

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
    def needs_fit(self) -> bool:
        """Whether the model has to be fitted: to make the release, or to audit it."""
        sections = (self.attribute, self.membership, self.full_table)
        return self.release.files is None or any(section is not None for section in sections)

    @property
    def m(self) -> int:
        """Number of data sets of the release."""
        return self.release.m if self.release.files is None else len(self.release.files)


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
        fit: named with its line and section, and with the nearest known key.
    """
    path = Path(path)
    content = read_toml(path)
    how: dict[str, Any] = {"folder": path.parent, "lines": lines_of(path)}
    return parse_study(content, source=path.name, **how)


def parse_study(
    content: Mapping[str, Any],
    *,
    source: str = "study",
    folder: Path | None = None,
    lines: Sequence[str] = (),
) -> Study:
    """Check the content of a study file (nested mappings) and make it a study.

    Paths count from ``folder``, if there is one; errors name the ``lines`` of the file.
    """
    context = {"folder": folder or Path(), "lines": lines}
    if nested_too_deep(content):
        raise InputError(f"{source} {TOO_DEEP}")
    try:
        return Study.model_validate(content, context=context)
    except ValidationError as error:
        raise InputError(f"{source}: {problems(error, lines)}") from None


# --- sections that need one another, or leave no room for one another ----------------------------

ESTIMATES = ("interval_overlap", "lowest_interval_overlap", "largest_standardized_difference")


def check_agreement(study: Study) -> None:
    """All that a study file alone can tell: the first rule that is broken is an error."""
    audit, people, sweep, compare = study.attribute, study.membership, study.sweep, study.compare
    weigh, keys, utility = study.reweight, study.identification, study.utility
    wanted, files = study.thresholds, study.release.files is not None
    taken, measured = study.model.fit_method != "fit", keys or utility or study.context
    held_out = people and people.held_out is not None
    others = people and people.others is not None
    risk = compare and next((k for k, of in COMPARED.items() if compare.risk in of), None)
    judged: dict[Any, str | None] = {
        ("thresholds", ("utility", name)): name for name in wanted.utility or ()
    }
    judged |= {("compare", "utility", compare.utility): compare.utility} if compare else {}
    # who asks for something, and whether; whether that is there, and what it is
    needs: list[Any] = [
        (("",), True, audit or people or study.full_table or measured,
         "something to measure: [attribute], [identification] or both"),
        (("bounds",), study.bounds, measured or (compare and compare.bounds),
         "numbers of the release: [identification], [utility] or [context]"),
        (("sweep",), sweep, audit, "[attribute], which it varies"),
        (("sweep",), sweep, {k for k, value in sweep or () if value is not None} - {"combinations"},
         'a list of what to vary: priors = ["uniform", "marginal"]'),
        (("reweight",), weigh, audit, "[attribute], whose risks are its weights"),
        (("history",), study.history, audit, "[attribute], to whose evidence it adds"),
        *((("thresholds", key), getattr(wanted, key) is not None, people, "[membership]")
          for key in ("membership_auc", "membership_log_bayes_factor")),
        (("thresholds", "membership_auc"), wanted.membership_auc is not None, held_out or others,
         "people outside the data: [membership] held_out or others"),
        (("thresholds", "utility"), wanted.utility, utility, "[utility]"),
        *((who, name in ESTIMATES, utility and utility.analyses,
           '[utility] analyses = "analyses.py:fit"') for who, name in judged.items()),
        *((("data", key), getattr(study.data, key), study.data.household,
           'household = "...", the column with the household of each person')
          for key in ("relate", "head", "household_variables")),
        (("model", "kind"), study.model.grouped and study.needs_fit, study.data.head,
         "household, relate and head of [data]"),
        (("attribute.intruder", "household"), audit and audit.knows.household != KNOWN,
         study.data.household, "household of [data]"),
        (("identification", "members"), keys and keys.members, study.data.household,
         "household of [data]"),
        (("compare",), compare, compare and compare.candidates, "a candidate: [compare.NAME]"),
        (("compare",), compare, audit or keys, "a risk: [attribute] or [identification]"),
        (("compare", "risk", compare and compare.risk), risk, risk and getattr(study, risk),
         f"[{risk}]"),
        (("output", "keep_labels"), study.output.keep_labels, study.output.release,
         "release = true, the synthetic files in which they are"),
        (("release", "files"), files, study.release.columns,
         "columns = [...], what was synthesised"),
    ]  # fmt: skip
    for who, asks, there, what in needs:
        if asks and not there:
            raise refused(*who, f"needs {what}; add it")
    excluded: list[Any] = [
        (("sweep.model",), sweep and sweep.model, taken, "a model that files bring"),
        (("reweight",), weigh, taken, "a model that files bring"),
        (("reweight",), weigh, getattr(study.model, "weights", None), "[model] weights"),
        (("reweight",), weigh, audit and audit.knows.knows_less,
         "[attribute.intruder]: it is for one who knows every other record"),
        (("reweight",), weigh, files, "[release] files: it makes the release"),
        *((("release", key), files, key in study.release.model_fields_set,
           "[release] files, which are the releases") for key in ("m", "n")),
        (("membership", "held_out"), held_out, others, "others: both are people outside the data"),
        (("membership", "held_out"), held_out, files,
         "[release] files: it makes a release of its own, without the records held out"),
        *((("attribute.intruder", "in_file"), study._in_file not in (None, 1), other, what)
          for other, what in ((study.history, "[history]: it is the same for all releases"),
                              (getattr(study.model, "weights", None), "[model] weights"))),
        (("compare",), compare, weigh, "[reweight]"),
        *((("history",), study.history, other, f"[{name}], whose audits are of one release")
          for name, other in (("sweep", sweep), ("compare", compare), ("reweight", weigh))),
    ]  # fmt: skip
    for who, asks, there, what in excluded:
        if asks and there:
            raise refused(*who, f"does not go with {what}; leave one of them out")
    named = {("data", key): [*getattr(study.data, key)] for key in ("levels", "coarsen")}
    for name, where in study.weights_named().items():
        named[where] = [name]
    for where, names in named.items() if study.data.columns is not None else ():
        for name in sorted({*names} - {*study.data.columns}):
            message = "which [data] columns leaves out; add it there, or remove it here"
            raise refused(*where[:1], where[1], f"names column {name!r}, {message}")
    for name in wanted.utility or ():
        if name not in UTILITIES:
            raise placed(unknown(name, UTILITIES), "thresholds.utility")
    for key, values in ((sweep and sweep.model) or {}).items():
        for value in values_of(values):
            changed(study, key, value)
    for name in compare.candidates if compare else ():
        candidate_study(study, name)


def values_of(given: Any) -> list[Any]:
    """Values of a factor of a sweep, without labels."""
    return list(given.values() if isinstance(given, Mapping) else given)


def changed(study: Study, key: str, value: Any) -> Any:
    """The section of the model with another value of one of its keys; ``power`` has no key."""
    model: Any = study.model
    known = [k for k, one in model.own.items() if one.default is not one.empty]
    known += ["power"] if hasattr(model.declares, "power_scaled") else []
    section = "sweep.model"
    if not known:
        raise refused(section, f'is not offered for kind = "{model.kind}"; leave it out')
    if key not in known:
        raise placed(unknown(key, known), section)
    try:
        if key == "power":
            positive(key, value)
            return model
        content = model.model_dump(exclude_unset=True) | {key: value}
        return type(model).model_validate(content, context=study._context)
    except ValidationError as error:
        raise problems(error, above=section.split(".")) from None
    except InputError as error:
        raise placed(error, section) from None


# --- candidates of a comparison as studies of their own -------------------------------------------

KEYS = {"known", "synthesized"}
LEFT_OUT = (
    "compare",
    "sweep",
    "history",
    "membership",
    "full_table",
    "context",
    "bounds",
    "thresholds",
)


def candidate_study(study: Study, name: str, df: pd.DataFrame | None = None) -> Study:
    """The study that a candidate stands for: that of the file, with the candidate's keys.

    Keys of the matching intruder are sorted by what it synthesises; other guesses are left out.
    """
    content: dict[str, Any] = {
        key: getattr(study, key) for key in study.model_fields_set if key not in LEFT_OUT
    }
    try:
        content |= _changed(study, study.compare.candidates[name])
        one = Study.model_validate(content, context=study._context)
        one = one.model_copy(update=_suited(one, df))
        check_agreement(one)
        return one.with_record_columns(study.record_columns)
    except ValidationError as error:
        found = problems(error, (study._context or {}).get("lines", ()))
        raise placed(found).inside(f"[compare.{name}]") from None
    except InputError as error:
        raise placed(error).inside(f"[compare.{name}]") from None


def _changed(study: Study, given: sections.CandidateSection) -> dict[str, Any]:
    """The sections of which a candidate has keys for itself."""
    found: dict[str, Any] = {}
    for name, keys in given:
        own = getattr(study, name)
        if not keys:
            continue
        if own is None:
            raise InputError(name, f"changes keys of a section [{name}], which is not there")
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
