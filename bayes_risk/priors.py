"""What the intruder believes before seeing the release: p(y* | A, S) over the guesses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import log_sum
from bayes_risk._core.validate import one_of, positive
from bayes_risk.guesses import GuessSet
from bayes_risk.microdata import Microdata
from bayes_risk.synthesizer import Targets

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TruthFactor:
    """The truth is ``factor`` times as probable as every other guess.

    Parameters
    ----------
    factor : float
        Above 1: an intruder who already leans towards the truth.

    Raises
    ------
    InputError
        A factor that is not positive and finite.

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

    Raises
    ------
    InputError
        Something without ``logpdf`` and ``logpmf``.

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

    "Industry sources say 500 to 700." What is left goes to the guesses outside.

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
        if not float("-inf") < self.low < self.high < float("inf"):
            raise InputError(f"the interval ({self.low}, {self.high}) needs finite low < high")
        if positive("probability", self.probability) > 1:
            raise InputError(f"probability={self.probability} is above 1; give a share, 0.9")
        one_of("spread", self.spread, ("uniform", "log-uniform"))
        if self.spread == "log-uniform" and self.low <= 0:
            raise InputError(f"low={self.low} has no logarithm; give low > 0, or spread='uniform'")


Prior = str | TruthFactor | Density | Interval | npt.ArrayLike | Callable[[pd.DataFrame], Any]


def log_prior(prior: Prior, microdata: Microdata, cases: Targets) -> Array:
    """Log prior probabilities of the guesses, normalised for each target, shape (G, U).

    ``"uniform"``; ``"marginal"``: product of the margins of the known records y_-i, each with one
    added to every level; a `TruthFactor`; a `Density`; an `Interval`; an array of G weights; or a
    function from the DataFrame of a target's guesses to weights.
    """
    guesses, profiles, columns = cases.guesses, cases.profiles, cases.columns
    if isinstance(prior, str) and prior == "uniform":
        raw = np.zeros(guesses.codes.shape[:2])
    elif isinstance(prior, str) and prior == "marginal":
        raw = _marginal(microdata, profiles, guesses.codes, columns)
    elif isinstance(prior, TruthFactor):
        raw = np.zeros(guesses.codes.shape[:2])
        np.put_along_axis(raw, guesses.truth[None, :], np.log(prior.factor), axis=0)
    elif isinstance(prior, Density):
        raw = _from_densities(prior, microdata, guesses, columns)
    elif isinstance(prior, Interval):
        raw = _from_interval(prior, microdata, guesses, columns)
    elif callable(prior):
        raw = _from_function(prior, microdata, guesses.codes, columns)
    elif isinstance(prior, str):
        raise InputError(
            f'prior={prior!r} is not known; give "uniform", "marginal", TruthFactor(f), an array '
            f"of weights or a function"
        )
    else:
        raw = _from_array(np.asarray(prior, dtype=float), guesses.codes.shape[:2])
    raw = np.where(guesses.counted, raw, -np.inf)
    return raw - log_sum(raw)


def in_words(prior: Prior) -> str:
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
    if isinstance(prior, str):
        return {
            "uniform": "every guess equally probable",
            "marginal": "product of the margins of the known records",
        }.get(prior, prior)
    return "given by the user"


def _marginal(
    microdata: Microdata,
    profiles: npt.NDArray[np.integer],
    codes: npt.NDArray[np.integer],
    columns: Any,
) -> Array:
    for j in columns:
        if microdata.columns[j] in microdata.numbers:
            raise InputError(
                f'column {microdata.columns[j]!r} is a number, and prior="marginal" counts levels; '
                "give a Density, or a function"
            )
    n = len(microdata.codes)
    raw = np.zeros(codes.shape[:2])
    for g, j in enumerate(columns):
        d = int(microdata.n_levels[j])
        counts = np.bincount(microdata.codes[:, j].astype(np.int64), minlength=d)
        own = codes[:, :, g] == profiles[None, :, j]
        raw += np.log((counts[codes[:, :, g].astype(np.int64)] - own + 1.0) / (n - 1.0 + d))
    return raw


def _from_densities(prior: Density, microdata: Microdata, guesses: GuessSet, columns: Any) -> Array:
    names = [microdata.columns[j] for j in columns]
    raw = np.zeros(guesses.codes.shape[:2])
    for name, density in prior.densities.items():
        if name not in names or name not in microdata.numbers:
            raise InputError(
                f"the prior has a density of {name!r}, which is not among the guessed numbers "
                f"{[n for n in names if n in microdata.numbers]}"
            )
        values = guesses.codes[:, :, names.index(name)].astype(float)
        whole = bool(microdata.variables[columns[names.index(name)]].whole)
        log_density = density.logpmf if hasattr(density, "logpmf") else density.logpdf
        raw += log_density(values) + (0.0 if whole else _log_widths(values, guesses.counted))
    if not np.isfinite(np.where(guesses.counted, raw, -np.inf)).any(axis=0).all():
        raise InputError(
            "the prior density is zero at every guess of some target; give a density that covers "
            "the grid, or guesses where the density is"
        )
    return raw


def _from_interval(prior: Interval, microdata: Microdata, guesses: GuessSet, columns: Any) -> Array:
    """Weights 1 or 1 / v, times the width of the cell, made to add up inside and outside."""
    numbers = [microdata.columns[j] for j in columns if microdata.columns[j] in microdata.numbers]
    name = numbers[0] if prior.column is None and len(numbers) == 1 else prior.column
    if name not in numbers:
        raise InputError(
            f"the Interval is about column {name!r}; give column= as one of the guessed numbers "
            f"{numbers}"
        )
    q = [microdata.columns[j] for j in columns].index(name)
    values = guesses.codes[:, :, q].astype(float)
    raw = np.zeros(values.shape)
    if prior.spread == "log-uniform":
        raw = -np.log(np.maximum(values, min(prior.low, 1.0)))
    if not microdata.variables[columns[q]].whole:
        raw = raw + _log_widths(values, guesses.counted)
    inside = guesses.counted & (values >= prior.low) & (values <= prior.high)
    if not inside.any(axis=0).all():
        raise InputError(
            f"no guess of some target lies from {prior.low:g} to {prior.high:g}; give a grid that "
            "reaches there"
        )
    outside = guesses.counted & ~inside
    left = np.log1p(-prior.probability) if prior.probability < 1 else -np.inf
    out = np.full(values.shape, -np.inf)
    for those, share in ((inside, np.log(prior.probability)), (outside, left)):
        weights = np.where(those, raw, -np.inf)
        out = np.where(those, weights - log_sum(weights) + share, out)
    return out


def _log_widths(values: Array, counted: npt.NDArray[np.bool_]) -> Array:
    """Log width of the grid cell around each value (G, U), among the counted guesses."""
    out = np.zeros(values.shape)
    for u in range(values.shape[1]):
        line, where = np.unique(values[counted[:, u], u], return_inverse=True)
        if len(line) > 1:
            edges = np.concatenate(
                [
                    [1.5 * line[0] - 0.5 * line[1]],
                    (line[1:] + line[:-1]) / 2,
                    [1.5 * line[-1] - 0.5 * line[-2]],
                ]
            )
            out[counted[:, u], u] = np.log(np.diff(edges))[where]
    return out


def _from_array(weights: Array, shape: tuple[int, ...]) -> Array:
    if weights.shape != (shape[0],):
        raise InputError(
            f"the prior has shape {weights.shape}; give one weight per guess, ({shape[0]},)"
        )
    return np.broadcast_to(_log_weights(weights)[:, None], shape)


def _from_function(
    prior: Callable[[pd.DataFrame], Any],
    microdata: Microdata,
    codes: npt.NDArray[np.integer],
    columns: Any,
) -> Array:
    variables = [microdata.variables[j] for j in columns]
    rows = pd.RangeIndex(codes.shape[0])
    raw = np.empty(codes.shape[:2])
    for u in range(codes.shape[1]):
        table = pd.DataFrame(
            {v.name: v.decode(codes[:, u, g], rows) for g, v in enumerate(variables)}
        )
        weights = np.asarray(prior(table), dtype=float)
        if weights.shape != (len(table),):
            raise InputError(
                f"the prior function returned shape {weights.shape}; return one weight per guess, "
                f"({len(table)},)"
            )
        raw[:, u] = _log_weights(weights)
    return raw


def _log_weights(weights: Array) -> Array:
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise InputError(
            "the prior has negative, infinite or missing weights, or none above zero; give finite "
            "weights >= 0, not all zero"
        )
    with np.errstate(divide="ignore"):
        return np.log(weights)
