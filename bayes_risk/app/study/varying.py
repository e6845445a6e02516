"""From ``[sweep]`` to what ``sensitivity`` takes: factors, the base, options."""

from collections.abc import Mapping
from typing import Any

from .declare import attribute_options, declare_guesses, declare_model, declare_prior
from .models import ModelSection
from .parameters import ways_to_draw
from .study import Study
from .sweep import SHARES, SweepSection, Values, labelled
from .sweep_agreement import changed


def sweep_options(study: Study) -> dict[str, Any]:
    """``[sweep]`` as keyword arguments of ``sensitivity``; the study's own audit is the base."""
    section, audit = study.sweep, study.attribute
    assert section is not None and audit is not None
    options, over, base = attribute_options(audit), {}, {}
    for key, own in _own(study, section).items():
        given = getattr(section, key)
        factor = "prior" if key == "priors" else key
        over[factor], base[factor] = _varied(key, given, own, audit.guess_budget)
        options.pop(factor, None)
    if section.m is not None:
        over["m"], base["m"] = sorted({*section.m, study.m}), study.m
    if section.model is not None:
        over["hyper"] = {k: _hyper(study.model, k, v) for k, v in section.model.items()}
    return options | {"over": over, "base": base, "one_at_a_time": not section.combinations}


def _own(study: Study, section: SweepSection) -> dict[str, Any]:
    """The study's own value of each key that is varied, m and the model aside."""
    audit = study.attribute
    assert audit is not None
    own: dict[str, Any] = {
        "priors": audit.prior or "uniform",
        "knows_records": "all-but-target",
        "knows_columns": audit.knows_columns,
        "guesses": audit.guesses,
        "classes": study.classes,
        "parameters": study.release.parameters or ways_to_draw(study.model)[0],
        "evidence": audit.evidence,
    }
    if audit.intruder is not None:
        own["knows_records"] = audit.intruder.knows_records
    if section.evidence is not None and audit.evidence is None:
        own["evidence"] = section.values("evidence")[0]  # left to the library: the first listed
    return {key: own[key] for key in own if key in section.factors}


def _varied(key: str, given: Values, own: Any, budget: int) -> tuple[Any, Any]:
    """Values as the library takes them, and the label of the study's own."""
    if key == "knows_records" and isinstance(given, list):
        values = [*given, *([] if own in given else [own])]
        if not any(isinstance(value, list) for value in values):  # a curve over shares
            return values, SHARES.get(own, own)
    pairs, label = labelled(key, given, own)
    if key == "priors":
        return {name: declare_prior(value) for name, value in pairs.items()}, label
    if key == "guesses":
        return {name: declare_guesses(value, budget) for name, value in pairs.items()}, label
    return pairs, label


def _hyper(model: ModelSection, key: str, given: Any) -> Any:
    """Values of a hyper-parameter as the model's declaration has them."""
    if isinstance(given, Mapping):
        return {str(label): _value(model, key, value) for label, value in given.items()}
    values = [_value(model, key, value) for value in given]
    if all(isinstance(value, int | float) for value in values):
        return values
    return {_shown(value): v for value, v in zip(given, values, strict=True)}


def _value(model: ModelSection, key: str, given: Any) -> Any:
    if key == "power":
        return float(given)
    return getattr(declare_model(changed(model, key, given)), key)


def _shown(value: Any) -> str:
    """A value that is no number, for labels: as the file has it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{k} = {v}" for k, v in value.items())
    return str(value)


def check_hyper(study: Study, declaration: Any) -> None:
    """Powers of hyper-priors are proper; whatever else, `agreement.check_sweep` has seen.

    Raises
    ------
    InputError
        A power that makes a prior improper.
    """
    given = {} if study.sweep is None or study.sweep.model is None else study.sweep.model
    powers = given.get("power", [])
    for power in powers.values() if isinstance(powers, Mapping) else powers:
        declaration.power_scaled(float(power))
