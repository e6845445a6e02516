"""Choices of the intruder that must be known words, and must make a difference."""

from typing import Any, NamedTuple

from bayes_risk._core.boxes import BOX, OPEN_ROUND, ROUND
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of

from .strategies import Strategy, checked_strategy


class Choices(NamedTuple):
    """When a match is claimed, how radii combine, whether ends belong, what if nothing matches."""

    strategy: Strategy
    shape: str
    closed: bool
    fallback: bool

    @property
    def limit(self) -> float:
        """What the squared distances may add up to."""
        return BOX if self.shape == "box" else ROUND if self.closed else OPEN_ROUND


def checked_choices(strategy: Any, shape: Any, closed: Any, fallback: Any) -> Choices:
    """Each by itself."""
    for name, value in (("fallback", fallback), ("closed", closed)):
        if not isinstance(value, bool):
            raise InputError(f"{name}={value!r} is not a truth value; give True or False")
    shape = one_of("shape", shape, ("box", "ellipse"))
    return Choices(checked_strategy(strategy), shape, closed, fallback)


def check_effects(choices: Choices, *, population: bool, n_radii: int) -> None:
    """Refuse choices that change nothing: whoever made them expects that they do.

    ``population``: whether there is one; ``n_radii``: number of keys with a radius.
    """
    if choices.strategy != "always" and not population:
        raise InputError(
            f"strategy={choices.strategy!r} changes nothing for an intruder who knows that his "
            "targets are in the file; give population= too, or leave strategy out"
        )
    if choices.shape == "ellipse" and n_radii < 2:
        raise InputError(
            f"shape='ellipse' needs two radii, and radius= names {n_radii}; give another key a "
            "radius, or leave shape out: one radius makes an interval"
        )
    if not choices.closed and not n_radii:
        raise InputError(
            "closed=False leaves out the ends of radii, and radius= names none; give a key a "
            "radius, or leave closed out"
        )
