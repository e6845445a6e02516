"""The candidates of a comparison as studies of their own, and as the library takes them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from .agreement import check_estimate
from .contents import Contents
from .keys import read_section, sentences, told
from .measures import IdentificationSection
from .models import read_model
from .sections import AttributeSection, ReleaseSection
from .sweep import CandidateSection

AnyStudy = TypeVar("AnyStudy", bound=Contents)

LEFT_OUT = ("compare", "sweep", "membership", "full_table", "context", "bounds", "thresholds")


def check_compare(study: Contents) -> None:
    """Every candidate is a study that could be audited; raises ValueError with its name."""
    section = study.compare
    if section is None:
        return
    if study.reweight is not None:
        raise ValueError(
            "[compare] makes releases without [reweight]; leave one of the two sections out"
        )
    if study.attribute is None and study.identification is None:
        raise ValueError("[compare] needs a risk; add a section [attribute], [identification]")
    if section.needs is not None and getattr(study, section.needs) is None:
        raise ValueError(f'[compare] risk = "{section.risk}" needs a section [{section.needs}]')
    check_estimate(study, section.utility, f'[compare] utility = "{section.utility}"')
    for name in section.candidates:
        candidate_study(study, name)


def candidate_study(study: AnyStudy, name: str) -> AnyStudy:
    """The study that a candidate stands for: that of the file, with the candidate's keys.

    Keys of the matching intruder are sorted by what the candidate synthesises, and only guesses of
    such columns are kept.
    """
    assert study.compare is not None
    given = study.compare.candidates[name]
    content: dict[str, Any] = {
        key: getattr(study, key) for key in study.model_fields_set if key not in LEFT_OUT
    }
    try:
        content |= _changed(study, given)
        return type(study).model_validate(content)
    except ValidationError as error:
        raise told(f"[compare.{name}]: {sentences(error, type(study), content, '')}") from None
    except ValueError as error:
        raise told(f"[compare.{name}]: {error}") from None


def _changed(study: Contents, given: CandidateSection) -> dict[str, Any]:
    """The sections that a candidate has for itself."""
    model = study.model if given.model is None else read_model(_model(study, given.model))
    release = study.release
    if given.release is not None:
        release = read_section(ReleaseSection, _release(study, given.release), "[release]")
    audit, keys = study.attribute, study.identification
    if given.attribute is not None:
        if audit is None:
            raise ValueError("attribute changes keys of a section [attribute], which is not there")
        whole = {k: getattr(audit, k) for k in audit.model_fields_set} | given.attribute
        audit = read_section(AttributeSection, whole, "[attribute]")
    if release.files is not None:
        audit = None  # releases made elsewhere are matched and compared, without a model
    columns = release.columns or model.modelled
    if columns is not None:
        audit = None if audit is None else _asked(audit, columns)
        keys = None if keys is None else sorted_keys(keys, columns)
    return {"model": model, "release": release, "attribute": audit, "identification": keys}


def sorted_keys(keys: IdentificationSection, columns: Sequence[str]) -> IdentificationSection:
    """Keys by whether they are synthesised."""
    every = [*keys.known, *keys.synthesized]
    return keys.model_copy(
        update={
            "known": [key for key in every if key not in columns],
            "synthesized": [key for key in every if key in columns],
        }
    )


def _asked(audit: AttributeSection, columns: Sequence[str]) -> AttributeSection:
    """Guesses and knowledge of columns that are synthesised."""
    known = [name for name in audit.knows_columns if name in columns]
    update: dict[str, Any] = {"knows_columns": known}
    if isinstance(audit.guesses, Mapping):
        kept = set(columns) - set(known)
        update["guesses"] = {k: v for k, v in audit.guesses.items() if k in kept}
    return audit.model_copy(update=update)


def _model(study: Contents, given: dict[str, Any]) -> dict[str, Any]:
    """``[model]`` with a candidate's keys; another kind takes nothing over."""
    own = study.model
    if given.get("kind", own.kind) != own.kind:
        return given
    return own.model_dump(exclude_unset=True) | {"kind": own.kind} | given


def _release(study: Contents, given: dict[str, Any]) -> dict[str, Any]:
    own = study.release.model_dump(exclude_unset=True)
    own.pop("m" if "files" in given else "files" if "m" in given else "", None)
    return own | given
