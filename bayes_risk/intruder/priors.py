"""What the intruder believes before seeing the release: p(y* | A, S) over the guesses.

Declarations and their words; the numbers they stand for are in `prior_weights.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import in_range, one_of, positive, real_number

NAMED = {
    "uniform": "every guess equally probable",
    "marginal": "product of the margins of the known records",
    "predictive": "the model's own, without the release",
    "release": "product of the margins of the released files (which are thus used twice: as prior "
    "and as evidence)",
    "release-joint": "frequency of the guessed values together in the released files (which are "
    "thus used twice: as prior and as evidence)",
}


@dataclass(frozen=True, slots=True)
class TruthFactor:
    """The truth is ``factor`` times as probable as every other guess.

    Parameters
    ----------
    factor : float
        Above 1: an intruder who already leans towards the truth.

    Examples
    --------
    >>> TruthFactor(10.0).factor
    10.0
    """

    factor: float

    def __post_init__(self) -> None:
        positive("factor", self.factor)


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """A prior density of numbers, times the width of each guess's cell of the grid.

    Parameters
    ----------
    densities : mapping of column to distribution
        Anything with ``logpdf`` (or, for whole numbers, ``logpmf``), as SciPy's frozen
        distributions have. Guessed columns that are left out are uniform.

    Examples
    --------
    >>> from scipy import stats
    >>> list(Density({"LogIncome": stats.norm(10.0, 1.0)}).densities)
    ['LogIncome']
    """

    densities: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name, density in self.densities.items():
            if not (hasattr(density, "logpdf") or hasattr(density, "logpmf")):
                raise InputError(
                    f"the density of {name!r} has neither logpdf nor logpmf; give one of SciPy's "
                    "frozen distributions: scipy.stats.norm(10, 1)"
                )


@dataclass(frozen=True, slots=True)
class Interval:
    """A number lies between two bounds, the intruder believes with some probability.

    "Industry sources state 500 to 700." What is left goes to the guesses outside.

    Parameters
    ----------
    low, high : float
        Bounds; both belong to the interval.
    probability : float
        Of the interval, above 0 and at most 1.
    column : str, optional
        Which number; may be left out if only one is guessed.
    spread : {"uniform", "log-uniform"}
        How the probability is spread, inside and outside: evenly over the numbers, or over their
        logarithms (in proportion to ``1 / v``).

    Raises
    ------
    InputError
        Bounds in the wrong order, a probability outside (0, 1], bounds below 0 on a log scale; an
        interval that holds no guess.

    Examples
    --------
    >>> Interval(500, 700).probability
    0.9
    """

    low: float
    high: float
    probability: float = 0.9
    column: str | None = None
    spread: str = "uniform"

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            real_number(name, getattr(self, name))
        if not float("-inf") < self.low < self.high < float("inf"):
            raise InputError(
                f"the interval has ends {self.low:g} and {self.high:g}; give finite low < high"
            )
        in_range("probability", self.probability)
        one_of("spread", self.spread)
        if self.spread == "log-uniform" and self.low <= 0:
            raise InputError(
                "low", self.low, "has no logarithm; give low > 0, or `spread='uniform'`"
            )


@dataclass(frozen=True, slots=True, eq=False)
class MixedPrior:
    """The intruder holds one of several priors, with given weights.

    Each part is normalised over a target's guesses before it is weighted:
    ``prior(y*) = sum_k w_k prior_k(y*)``. A small weight of ``"uniform"`` keeps every guess
    possible under a prior that rules some out.

    Parameters
    ----------
    parts : mapping of prior to weight, or sequence of (weight, prior)
        Weights above 0; they are made to add up to 1. A list also takes arrays and functions that
        cannot be the keys of a mapping.

    Examples
    --------
    >>> MixedPrior({"marginal": 3, "uniform": 1}).weights
    (0.75, 0.25)
    >>> MixedPrior([(0.9, TruthFactor(10.0)), (0.1, "uniform")]).priors
    (TruthFactor(factor=10.0), 'uniform')
    """

    parts: Mapping[Any, float] | Sequence[tuple[float, Any]]

    def __post_init__(self) -> None:
        if not len(self.parts):
            raise InputError("MixedPrior has no part; give at least one prior and its weight")
        for pair in self._pairs():
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise InputError(f"the part {pair!r} of a MixedPrior is not a pair (weight, prior)")
            positive("weight", pair[0])

    @property
    def weights(self) -> tuple[float, ...]:
        """Weights of the parts; they add up to 1."""
        given = [float(weight) for weight, _ in self._pairs()]
        return tuple(weight / sum(given) for weight in given)

    @property
    def priors(self) -> tuple[Any, ...]:
        """The parts."""
        return tuple(prior for _, prior in self._pairs())

    def _pairs(self) -> list[tuple[float, Any]]:
        if isinstance(self.parts, Mapping):
            return [(weight, prior) for prior, weight in self.parts.items()]
        return list(self.parts)


Prior = Union[  # noqa: UP007 - an array type cannot stand beside a callable with |
    str, TruthFactor, Density, Interval, MixedPrior, npt.ArrayLike, Callable[[pd.DataFrame], Any]
]


def same_prior(one: Prior, other: Prior) -> bool:
    """Whether two priors are the same object, or equal in all that they state."""
    stated = isinstance(one, str | TruthFactor | Interval)
    return one is other or (stated and type(one) is type(other) and bool(one == other))


def prior_in_words(prior: Prior) -> str:
    """One phrase for reports."""
    if isinstance(prior, TruthFactor):
        return f"the truth {prior.factor:g} times as probable as any other guess"
    if isinstance(prior, Density):
        return f"a density of {', '.join(map(str, prior.densities))} given by the user"
    if isinstance(prior, Interval):
        name = "it" if prior.column is None else prior.column
        return (
            f"with probability {prior.probability:g} {name} lies from {prior.low:g} to "
            f"{prior.high:g}, spread {prior.spread} inside and outside"
        )
    if isinstance(prior, MixedPrior):
        pairs = zip(prior.weights, prior.priors, strict=True)
        return (
            f"a mixture: {'; '.join(f'{w:.3g} of [{prior_in_words(part)}]' for w, part in pairs)}"
        )
    if isinstance(prior, str):
        return NAMED.get(prior, prior)
    return "given by the user"
