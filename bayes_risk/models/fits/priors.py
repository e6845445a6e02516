"""Other hyper-priors of a model: which declarations differ in them alone, and powers of them."""

from dataclasses import replace
from typing import Any

from bayes_risk._core.errors import InputError


def power_scaled_gamma(name: str, prior: tuple[float, float], power: float) -> tuple[float, float]:
    """Gamma(a, b)^p is proportional to Gamma(p (a - 1) + 1, p b), which may not be improper."""
    shape, rate = prior
    raised = power * (shape - 1.0) + 1.0
    if raised <= 0:
        raise InputError(
            "power",
            power,
            f"makes the gamma prior {name}={prior} improper; give a power below "
            f"{1.0 / (1.0 - shape):.3g}",
        )
    return raised, power * rate


def same_but(model: Any, other: Any, *names: str) -> bool:
    """Whether two declarations are of one kind and differ in these fields alone."""
    if type(model) is not type(other):
        return False
    alike = replace(other, **{name: getattr(model, name) for name in names})
    return bool(repr(alike) == repr(model))
