"""What is compared: models that make releases, and releases made already."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from inspect import Parameter, signature
from typing import Any, NamedTuple

import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import at_least
from bayes_risk.release.release import Release

Files = Release | list[pd.DataFrame]


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A way to make a release, for `compare`.

    Parameters
    ----------
    model : declaration or Fit
        A declaration is fitted anew for every replicate; a fit makes all of them, so that they
        differ by synthesis alone.
    m : int
        Number of data sets of a release.
    columns : list of str, optional
        What is synthesised; what the model synthesises by default.
    fit : mapping, optional
        Further arguments of ``model.fit``: ``{"draws": 500, "tune": 500}``.
    synthesis : mapping, optional
        Further arguments of ``synthesize``: ``{"classes": "own"}``.
    attribute : mapping, optional
        Arguments of the attribute audit that are this candidate's own: ``{"evidence": "refit"}``.

    Raises
    ------
    InputError
        Something that neither fits nor synthesises; options that it does not take.

    Examples
    --------
    >>> from bayes_risk.models import CART
    >>> Candidate(CART(order=["income"]), m=1).m
    1
    """

    model: Any
    _: KW_ONLY
    m: int = 5
    columns: Sequence[str] | None = None
    fit: Mapping[str, Any] = field(default_factory=dict)
    synthesis: Mapping[str, Any] = field(default_factory=dict)
    attribute: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        at_least("m", self.m, 1)
        if isinstance(self.model, type) or not (self.is_fit or hasattr(self.model, "fit")):
            raise InputError(
                f"{_named(self.model)} is no model; give a declaration such as "
                'models.CART(order=["income"]), its fit, (fit, release), a Release, or DataFrames'
            )
        if self.is_fit and self.fit:
            raise InputError(
                f"{sorted(self.fit)} are for fitting, and the model is fitted already; leave them "
                "out"
            )
        if not self.is_fit:
            _check_taken("fit", self.fit, self.model.fit)

    @property
    def is_fit(self) -> bool:
        """Whether the model is fitted already."""
        return hasattr(self.model, "synthesize")

    def made(self, original: pd.DataFrame, seeds: Sequence[int], how: Mapping[str, Any]) -> "Made":
        """Fit and synthesise, with a seed of each."""
        fit = self.model
        if not self.is_fit:
            given = {**how, "random_seed": seeds[0]}
            fit = self.model.fit(original, **_taken(self.model.fit, given), **self.fit)
        options: dict[str, Any] = {"m": self.m, "random_seed": seeds[1], **self.synthesis}
        if self.columns is not None:
            options["columns"] = list(self.columns)
        _check_taken("synthesis", options, fit.synthesize)
        return Made(fit, fit.synthesize(**options))


class Made(NamedTuple):
    """A fit, or None where there is none, and the release."""

    fit: Any
    release: Files


@dataclass(frozen=True, slots=True, eq=False)
class Brought:
    """Releases made already, each a replicate of one candidate, and their fit if there is one."""

    fit: Any
    releases: Sequence[Files]


def read_candidates(given: Any) -> dict[str, Candidate | Brought]:
    """What was given, by name.

    Raises
    ------
    InputError
        None at all, a name that is no text, something that is no candidate: said with its name.
    """
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            "candidates must be a dict of name to candidate, such as "
            '{"trees": models.CART(order=["income"]), "mixture": Candidate(models.DPMPM(), m=3)}'
        )
    found: dict[str, Candidate | Brought] = {}
    for name, value in given.items():
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"candidate name {name!r} is no text; name each candidate")
        try:
            found[name] = _read(value)
        except InputError as error:
            raise InputError(f"candidate {name!r}: {error}") from None
    return found


def _read(value: Any) -> Candidate | Brought:
    if isinstance(value, Candidate):
        return value
    if isinstance(value, Release):
        return Brought(None, [value])
    if isinstance(value, pd.DataFrame):
        return Brought(None, [[value]])
    if isinstance(value, tuple) and len(value) == 2 and hasattr(value[0], "synthesize"):
        fit, release = value
        if not isinstance(release, Release):
            raise InputError(f"beside a fit stands {_named(release)}; give (fit, Release)")
        return Brought(fit, [release])
    if isinstance(value, list | tuple) and value:
        if all(isinstance(table, pd.DataFrame) for table in value):
            return Brought(None, [list(value)])
        if all(isinstance(release, Release) for release in value):
            return Brought(None, list(value))
    return Candidate(value)


def _named(value: Any) -> str:
    return f"class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def _taken(function: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those options that a function has arguments for."""
    arguments = signature(function).parameters
    if _takes_all(arguments):
        return dict(options)
    return {name: value for name, value in options.items() if name in arguments}


def _takes_all(arguments: Mapping[str, Parameter]) -> bool:
    return any(p.kind is Parameter.VAR_KEYWORD for p in arguments.values())


def _check_taken(what: str, options: Mapping[str, Any], function: Any) -> None:
    arguments = signature(function).parameters
    for name in options:
        if name not in arguments and not _takes_all(arguments):
            raise InputError(
                f"{what} has no argument {name!r}; it takes "
                f"{sorted(set(arguments) - {'df', 'random_seed', 'n_jobs', 'progress'})}"
            )
