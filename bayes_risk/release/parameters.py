"""How the parameters behind m data sets were drawn: what a release says, what a model can judge.

Auditing one way as another changes the risk; `docs/evidence.md` has the formulas and figures.
"""

from typing import Any

from bayes_risk._core.errors import InputError

from .release import PARAMETERS, Release


def ways_of(fit: Any) -> tuple[str, ...]:
    """How the parameters of a fit's releases may be drawn, the usual way first."""
    ways: tuple[str, ...] = getattr(fit, "parameters", ("independent",))
    return ways


def drawn(fit: Any, release: Release) -> str:
    """How the parameters of a release were drawn; if it does not say, as the fit usually does.

    Raises
    ------
    InputError
        A way that the fit has no evidence for; several data sets from one draw, each tied to the
        records' own classes.
    """
    ways = ways_of(fit)
    if release.parameters is None:
        return ways[0]
    if release.parameters not in ways:
        raise InputError(
            f"the release has parameters={release.parameters!r} "
            f"({PARAMETERS[release.parameters]}), and {type(fit).__name__} has no evidence for "
            f"that; it has for {', '.join(map(repr, ways))}: audit the release with a model like "
            "the one that made it"
        )
    if release.parameters == "shared" and release.classes == "own" and release.m > 1:
        raise InputError(
            'parameters="shared" with classes="own" is not offered for several data sets: a record '
            "would be tied to all of them through one draw; synthesise with "
            'parameters="independent", or with classes="new"'
        )
    return release.parameters


def check_less_known(fit: Any, release: Release) -> None:
    """Refuse what has no evidence for an intruder who does not know all other records.

    Raises
    ------
    InputError
        Several data sets from one draw of the parameters, or from an estimate.
    """
    way = drawn(fit, release)
    if way == "plug-in" or (way == "shared" and release.m > 1):
        raise InputError(
            f"parameters={way!r} with m = {release.m} is not offered by {type(fit).__name__} for "
            "an intruder who does not know all other records; give "
            'knows_records="all-but-target"'
        )


def in_words(fit: Any, release: Release) -> str:
    """How many data sets, and how their parameters were drawn, one phrase for reports."""
    said = PARAMETERS[drawn(fit, release)]
    return f"m = {release.m}, {said}{'' if release.parameters else ' (assumed: not stated)'}"
