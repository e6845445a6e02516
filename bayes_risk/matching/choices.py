"""When the intruder claims a match, and choices that must be known and make a difference."""

from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import Matches
from bayes_risk._core.validate import is_number, one_of

from .boxes import BOX, OPEN_ROUND, ROUND

Strategy = str | float
SAME = 1e-12  # relative; what probabilities that are equal as fractions may differ by


def in_words(strategy: Strategy) -> str:
    """How reports call it."""
    if strategy == "always":
        return "claims a match for every target"
    if strategy == "likeliest":
        return "claims no match where the target is likeliest to be outside the file"
    return f"claims a match where the target is outside with probability below {strategy:g}"


def claimed(found: Matches, strategy: Strategy) -> Matches:
    """The matches that he claims: elsewhere c = T = 0 (Drechsler & Reiter 2008, section 4.3).

    Of ``Pr(J = n + 1) > max_j Pr(J = j)`` and ``Pr(J = n + 1) < gamma`` the other side of 1 is
    compared, within `SAME`: 1 - 2/3 is above 1/3 in floating point, 1 - 9/10 below 1/10.
    """
    if strategy == "always":
        return found
    if strategy == "likeliest":
        claims = found.inside + found.top >= 1 - SAME
    else:
        claims = found.inside > (1 - float(strategy)) * (1 + SAME)
    return found._replace(c=np.where(claims, found.c, 0), T=found.T & claims)


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
    """Each by itself; a number: the largest Pr(J = n + 1) at which he still claims."""
    for name, value in (("fallback", fallback), ("closed", closed)):
        if not isinstance(value, bool):
            raise InputError(f"{name}={value!r} is not a truth value; give True or False")
    shape = one_of("shape", shape, ("box", "ellipse"))
    if is_number(strategy) and 0 < strategy <= 1:
        strategy = float(strategy)
    elif not isinstance(strategy, str) or strategy not in ("always", "likeliest"):
        raise InputError(
            f'strategy={strategy!r}; give "always", "likeliest", or a number above 0 and at most '
            "1: he claims a match if the target is outside the file with a probability below it"
        )
    return Choices(strategy, shape, closed, fallback)


def check_effects(choices: Choices, *, population: bool, n_radii: int) -> None:
    """Refuse choices that change nothing: whoever made them expects that they do."""
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
