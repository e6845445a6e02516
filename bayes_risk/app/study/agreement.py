"""Sections of a study that must agree with one another, as far as the file alone can tell.

Every check raises ValueError with a sentence that names the keys, and the cure.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from bayes_risk._core.validate import is_number

from .contents import Contents
from .keys import LARGEST, misfit, sentences, told, unknown
from .sections import PriorDensity, PriorInterval, parts_of

ESTIMATES = ("interval_overlap", "lowest_interval_overlap", "largest_standardized_difference")


def check_agreement(study: Contents) -> None:
    """All that a study file alone can tell, but for the candidates of a comparison."""
    _check_something_to_do(study)
    _check_release(study)
    _check_priors(study)
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


def _check_release(study: Contents) -> None:
    """The model has what is released."""
    modelled, release = study.model.modelled, study.release
    # files made elsewhere may hold columns that only a model of the attribute risk needs
    needed = release.files is None or study.attribute is not None
    for column in (release.columns or []) if needed and modelled else []:
        if column not in (modelled or []):
            raise ValueError(
                f"[release] columns names {column!r}, for which [model] has nothing; it has "
                f"{modelled}"
            )


def priors_of(study: Contents) -> Iterator[tuple[str, Any]]:
    """Where a prior stands, and each of its parts."""
    own = None if study.attribute is None else study.attribute.prior
    given = [] if own is None else [("[attribute] prior", own)]
    if study.sweep is not None:
        given += [("[sweep] priors", prior) for prior in study.sweep.values("priors")]
    for where, prior in given:
        for part in parts_of(prior):
            yield where, part


def _check_priors(study: Contents) -> None:
    """Priors are of the kind of variable that is guessed, and rest on what is there."""
    for where, prior in priors_of(study):
        _check_columns_of_prior(study.guessed, where, prior)


def _check_columns_of_prior(guessed: list[str] | None, where: str, prior: Any) -> None:
    """Columns that a prior names are guessed."""
    if guessed is None:
        return
    if isinstance(prior, PriorInterval) and prior.column not in (None, *guessed):
        raise ValueError(
            f"{where}.column names {prior.column!r}, which is not guessed; give one of {guessed}"
        )
    for name in prior.density if isinstance(prior, PriorDensity) else ():
        if name not in guessed:
            raise ValueError(unknown(name, f"{where}.density", guessed))


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
    if (sweep.knows_records or sweep.knows_columns) and section.is_competitor:
        raise ValueError(
            "[sweep] knows_records and knows_columns are not offered beside a business "
            "competitor; leave them out"
        )
    columns = study.synthesized
    for names in sweep.values("knows_columns") if columns is not None else ():
        for name in names:
            if name not in (columns or []):
                raise ValueError(unknown(name, "[sweep] knows_columns", columns or []))
        if not set(columns or []) - set(names):
            raise ValueError(
                f"[sweep] knows_columns = {names} leaves nothing to guess; leave a column out"
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
    section, columns = study.bounds, study.synthesized
    if section is None:
        return
    asked = (study.identification, study.utility, study.context)
    compared = study.compare is not None and study.compare.bounds
    if all(part is None for part in asked) and not compared:
        raise ValueError(
            "[bounds] measures at both ends of the scale what [identification], [utility] and "
            "[context] measure of the release; add one of them"
        )
    if columns is None:
        return
    for name in section.patterns or []:
        if name in columns:
            raise ValueError(
                f"[bounds] patterns names {name!r}, which is synthesised; leave it out"
            )
    for name in section.numbers or []:
        if name not in columns:
            raise ValueError(unknown(name, "[bounds] numbers", columns))


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


def check_guessed_columns(study: Contents) -> None:
    """What is guessed is synthesised."""
    attribute, guessed, columns = study.attribute, study.guessed, study.synthesized
    if attribute is None or guessed is None:
        return
    if columns is not None and attribute.largest not in (None, *columns):
        raise ValueError(
            f"[attribute.intruder] largest names {attribute.largest!r}, which is not "
            f"synthesised ({columns} are); give one that is"
        )
    for name in attribute.grids:
        if name not in guessed:
            raise ValueError(unknown(name, "[attribute] guesses", guessed))


def check_keys(study: Contents) -> None:
    """Keys of the matching intruder stand under what they are, known or synthesised."""
    keys, columns = study.identification, study.synthesized
    if keys is None or columns is None:
        return
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
