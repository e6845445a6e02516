"""Sections of a study that need one another, or leave no room for one another.

Every check raises ValueError with a sentence that names the keys, and the cure. What models,
releases and audits refuse is the library's, and asked before a model is sampled (`checks.py`).
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from bayes_risk._core.validate import is_number

from .contents import Contents
from .keys import LARGEST, misfit, sentences, told, unknown

ESTIMATES = ("interval_overlap", "lowest_interval_overlap", "largest_standardized_difference")


def check_agreement(study: Contents) -> None:
    """All that a study file alone can tell, but for the candidates of a comparison."""
    _check_something_to_do(study)
    _check_sweep(study)
    _check_reweighting(study)
    _check_membership(study)
    _check_bounds(study)
    _check_thresholds(study)


def _check_something_to_do(study: Contents) -> None:
    asked = (
        *(study.attribute, study.identification, study.membership, study.full_table),
        *(study.utility, study.context),
    )
    if all(section is None for section in asked):
        raise ValueError("nothing to measure: add a section [attribute], [identification] or both")


def _check_sweep(study: Contents) -> None:
    """A sweep varies an audit, by values that suit it."""
    sweep, section = study.sweep, study.attribute
    if sweep is None:
        return
    if section is None:
        raise ValueError("[sweep] varies what [attribute] says; add that section")
    most = max(sweep.m or [0])
    if most > study.m:
        raise ValueError(
            f"[sweep] m names {most}, and the release has {study.m} data sets; raise [release] m, "
            "or give fewer"
        )
    if sweep.model is not None:
        _check_fitted(study, "[sweep.model]")
    for key, values in (sweep.model or {}).items():
        for value in values.values() if isinstance(values, Mapping) else values:
            changed(study.model, key, value)


def _check_fitted(study: Contents, where: str) -> None:
    if study.model.way != "fit":
        raise ValueError(
            f"{where} needs a model that is fitted, and [model] takes one from files; leave one of "
            "them out"
        )


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


def _check_reweighting(study: Contents) -> None:
    """The loop makes the release, from a model that takes weights, and audits it."""
    if study.reweight is None:
        return
    _check_fitted(study, "[reweight]")
    section = study.attribute
    if section is None:
        raise ValueError("[reweight] takes its weights from the audit; add [attribute]")
    if section.knows_less:
        raise ValueError(
            "[reweight] is for an intruder who knows every other record; leave "
            "[attribute.intruder] out"
        )
    if study.release.files is not None:
        raise ValueError(
            "[reweight] makes the release, and [release] files have been made; leave out one of "
            "them"
        )


def _check_membership(study: Contents) -> None:
    """People outside the data are some, and the release theirs to ask about."""
    section = study.membership
    if section is None or section.held_out is None or study.release.files is None:
        return
    raise ValueError(
        "[membership] held_out makes a release of its own, without the records held out, and "
        "[release] files have been made; give others, or leave held_out out"
    )


def _check_bounds(study: Contents) -> None:
    """There is something to measure at the ends of the scale, and patterns stay."""
    section = study.bounds
    if section is None:
        return
    asked = (study.identification, study.utility, study.context)
    compared = study.compare is not None and study.compare.bounds
    if all(part is None for part in asked) and not compared:
        raise ValueError(
            "[bounds] measures at both ends of the scale what [identification], [utility] and "
            "[context] measure of the release; add one of them"
        )


def _check_thresholds(study: Contents) -> None:
    """What is judged only when asked for is measured."""
    wanted, given = study.thresholds, study.membership
    for key in ("membership_auc", "membership_log_bayes_factor"):
        if getattr(wanted, key) is not None and given is None:
            raise ValueError(f"[thresholds] {key} needs a section [membership]; add it")
    if wanted.membership_auc is not None and given is not None:
        if given.held_out is None and given.others is None:
            raise ValueError(
                "[thresholds] membership_auc compares members with people outside the data; give "
                "[membership] held_out or others"
            )
    if wanted.utility and study.utility is None:
        raise ValueError("[thresholds] utility needs a section [utility]; add it")
    for name in wanted.utility:
        check_estimate(study, name, f"[thresholds] utility.{name}")


def check_estimate(study: Contents, name: str | None, where: str) -> None:
    """Measures of estimates need analyses."""
    if name in ESTIMATES and (study.utility is None or not study.utility.analyses):
        raise ValueError(
            f'{where} is of analyses; give [utility] analyses = "analyses.py:fit", or another '
            "measure"
        )
