"""The numbers that a prior stands for: p(y* | A, S) of every guess of every target.

A prior may rest on the release ("release") or on the base fit ("predictive"). The second is
estimated, so its Monte Carlo error belongs to the posterior's: see `PriorWeights.from_base`.
The first is read off the released files: their margins, or the guessed values together. It uses the
release twice, as prior and as evidence, and overrates what the release says; intruders do it
nonetheless.
"""

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import log_sum
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.intruder.grids import edges, log_widths
from bayes_risk.intruder.guesses import GuessSet
from bayes_risk.intruder.priors import NAMED, Density, Interval, Mixture, Prior, TruthFactor
from bayes_risk.release.release import EncodedRelease

from .contract import Targets


def from_release(
    release: EncodedRelease | None, microdata: Microdata, cases: Targets, *, joint: bool = False
) -> Array:
    """Log weights of the guesses, not normalised, shape (G, U).

    Margins: ``prod_j (c_j(y*_j) / m + 1) / (n + d_j)``, with ``c_j`` counted over the m files; of
    numbers the count in the cell of the grid around the guess. Joint: ``c(y*) / m`` plus that
    product, which weighs as much as one record.
    """
    if release is None:
        raise InputError('prior="release" needs the release: use it with attribute_risk')
    z = release.codes[:, :, cases.columns]  # shape (m, n, q)
    raw = np.zeros(cases.guesses.codes.shape[:2])
    for q, j in enumerate(cases.columns):
        name = microdata.columns[j]
        if name in microdata.numbers:
            raw += _of_number(name, z[:, :, q], cases, q)
            continue
        d, (m, n) = int(microdata.n_levels[j]), z.shape[:2]
        counts = np.bincount(z[:, :, q].ravel().astype(np.int64), minlength=d) / m
        raw += np.log((counts + 1.0) / (n + d))[cases.guesses.codes[:, :, q].astype(np.int64)]
    return raw if not joint else np.log(np.exp(raw) + _together(z, microdata, cases))


def _of_number(name: str, z: Codes, cases: Targets, q: int) -> Array:
    """Released values by cell of each target's grid."""
    m, guesses = len(z), cases.guesses
    values, shown = guesses.codes[:, :, q].astype(float), np.sort(z.ravel().astype(float))
    out = np.zeros(values.shape)
    for u in range(values.shape[1]):
        kept = guesses.counted[:, u]
        line, where = np.unique(values[kept, u], return_inverse=True)
        if len(line) < 2:
            continue
        below = np.searchsorted(shown, edges(line))
        if below[0] == below[-1]:
            raise InputError(
                f'prior="release": no released value of {name!r} lies in the grid of some target; '
                "give a wider grid, or a Density"
            )
        out[kept, u] = np.log(np.diff(below) / m + 1.0)[where]
    return out


def _together(z: Codes, microdata: Microdata, cases: Targets) -> Array:
    """How many records of a released file show all the guessed values, on average; (G, U)."""
    numbers = [microdata.columns[j] for j in cases.columns if not microdata.n_levels[j]]
    if numbers:
        raise InputError(
            f'prior="release-joint" counts categories, and {numbers[0]!r} is a number; give '
            '"release", or a Density'
        )
    guessed = cases.guesses.codes
    d = [int(microdata.n_levels[j]) for j in cases.columns]
    cell = _numbered(np.concatenate([z.reshape(-1, len(d)), guessed.reshape(-1, len(d))]), d)
    shown = z.shape[0] * z.shape[1]
    counts = np.bincount(cell[:shown], minlength=int(cell.max()) + 1)
    found: Ints = counts[cell[shown:]]
    return found.reshape(guessed.shape[:2]) / len(z)


def _numbered(rows: Codes, d: list[int]) -> Ints:
    """The distinct rows (R, q) of codes below d, numbered; shape (R,)."""
    rows = rows.astype(np.int64)
    if prod(d) < 2**62:
        rows = np.ravel_multi_index(tuple(rows.T), tuple(d))
    _, number = np.unique(rows, axis=0, return_inverse=True)
    return number.reshape(-1).astype(np.int64)


ONE_OF = (
    f"give one of {sorted(NAMED)}, TruthFactor(f), Mixture(...), an array of weights or a function"
)


class PriorContext(NamedTuple):
    """What a prior may rest on; ``base`` (G, U): log p(y* | y_A) of the base fit, where kept."""

    microdata: Microdata
    cases: Targets
    release: EncodedRelease | None = None
    base: Array | None = None


class PriorWeights(NamedTuple):
    """A prior over the guesses of each target.

    ``log_p`` (G, U), normalised; ``from_base`` (G, U): which share of each guess's prior was
    estimated by the base fit, or None: nothing was.
    """

    log_p: Array
    from_base: Array | None = None


def log_prior(
    prior: Prior,
    microdata: Microdata,
    cases: Targets,
    release: EncodedRelease | None = None,
    base: Array | None = None,
) -> Array:
    """Log prior probabilities of the guesses, normalised for each target, shape (G, U).

    ``"uniform"``; ``"marginal"``: product of the margins of the records that the intruder sees,
    each with one added to every level (see `log_margin`); ``"predictive"``: p(y* | y_A) of the
    model; ``"release"``: product of the margins of the released files, with one added to every
    level, or cell of a grid; ``"release-joint"``: the guessed values together; a `TruthFactor`; a
    `Density`; an `Interval`; a `Mixture`; an array of G weights; or a function from the DataFrame
    of a target's guesses to weights. The rest: see `PriorContext`.
    """
    return prior_weights(prior, PriorContext(microdata, cases, release, base)).log_p


def prior_weights(prior: Prior, context: PriorContext) -> PriorWeights:
    """The same, with what was estimated."""
    if isinstance(prior, Mixture):
        return _mixed(prior, context)
    counted = context.cases.guesses.counted
    raw = np.where(counted, _raw(prior, context), -np.inf)
    estimated = isinstance(prior, str) and prior == "predictive"
    return PriorWeights(raw - log_sum(raw), np.ones(raw.shape) if estimated else None)


def _mixed(mixture: Mixture, context: PriorContext) -> PriorWeights:
    """Parts normalised, then added; the estimated share of the sum."""
    parts = [prior_weights(prior, context) for prior in mixture.priors]
    logs = np.stack([part.log_p for part in parts])
    logs += np.log(np.array(mixture.weights))[:, None, None]
    total = log_sum(logs)
    if all(part.from_base is None for part in parts):
        return PriorWeights(total)
    share = np.exp(logs - np.where(total > -np.inf, total, 0.0))
    known = [0.0 if part.from_base is None else part.from_base for part in parts]
    return PriorWeights(total, np.sum([s * k for s, k in zip(share, known, strict=True)], axis=0))


def _raw(prior: Prior, context: PriorContext) -> Array:
    """Log weights, not normalised, shape (G, U)."""
    microdata, cases, release, _ = context
    guesses, columns = cases.guesses, cases.columns
    shape = guesses.codes.shape[:2]
    if isinstance(prior, str):
        return _named(prior, context)
    if isinstance(prior, TruthFactor):
        raw = np.zeros(shape)
        np.put_along_axis(raw, guesses.truth[None, :], np.log(prior.factor), axis=0)
        return raw
    if isinstance(prior, Density):
        return _from_densities(prior, microdata, guesses, columns)
    if isinstance(prior, Interval):
        return _from_interval(prior, microdata, guesses, columns)
    if callable(prior):
        return _from_function(prior, microdata, guesses.codes, columns)
    try:
        weights = np.asarray(prior, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"prior={prior!r} is no prior; {ONE_OF}") from None
    if weights.shape != shape[:1]:
        raise InputError(
            f"the prior has shape {weights.shape}; give one weight per guess, ({shape[0]},)"
        )
    return np.broadcast_to(_log_weights(weights)[:, None], shape)


def _named(prior: str, context: PriorContext) -> Array:
    microdata, cases, release, base = context
    guesses = cases.guesses
    if prior == "uniform":
        return np.zeros(guesses.codes.shape[:2])
    if prior == "marginal":
        return _marginal(microdata, cases)
    if prior in ("release", "release-joint"):
        return from_release(release, microdata, cases, joint=prior == "release-joint")
    if prior != "predictive":
        raise InputError(f"prior={prior!r} is not known; {ONE_OF}")
    if base is None:
        raise InputError(
            'prior="predictive" needs a base fit, which this evidence has none of; gather it with '
            'evidence="predictive" if the model offers it, or give the prior as a function'
        )
    if (cases.weight != 1).any():
        raise InputError(
            'prior="predictive" is not offered for a fit with record weights: its predictives are '
            "powers of densities; give the prior as a function"
        )
    return base


def _marginal(microdata: Microdata, cases: Targets) -> Array:
    for j in cases.columns:
        if microdata.columns[j] in microdata.numbers:
            raise InputError(
                f'column {microdata.columns[j]!r} is a number, and prior="marginal" counts levels; '
                "give a Density, or a function"
            )
    raw = np.zeros(cases.guesses.codes.shape[:2])
    for q in range(len(cases.columns)):
        raw += log_margin(microdata, cases, q, cases.guesses.codes[:, :, q])
    return raw


def log_margin(
    microdata: Microdata, cases: Targets, q: int, levels: npt.NDArray[np.integer]
) -> Array:
    """Log margin of guessed column q among the known records, at levels (G, U) of each target.

    ``log (n_A(v) + 1) / (n_A + d)``: of the n_A records that the intruder sees, the target's own
    apart, n_A(v) have level v; each of the d levels is counted once more. So it is the predictive
    under a flat Dirichlet prior, and 1 / d where nobody is known.
    """
    j = cases.columns[q]
    d, levels = int(microdata.n_levels[j]), levels.astype(np.int64)
    seen = microdata.codes[slice(None) if cases.known is None else cases.known, j]
    counts = np.bincount(seen.astype(np.int64), minlength=d)
    own = cases.fitted & (levels == cases.profiles[:, j])  # shape (G, U)
    log_p: Array = np.log((counts[levels] - own + 1.0) / (len(seen) - cases.fitted + d))
    return log_p


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
        raw += log_density(values) + (0.0 if whole else log_widths(values, guesses.counted))
    raw = np.where(guesses.counted, raw, -np.inf)
    if np.isnan(raw).any() or np.isposinf(raw).any():
        raise InputError(
            "the prior density is infinite or missing at some guess: it is improper on this grid; "
            "give a density that is finite there, or guesses that leave the place out"
        )
    if not np.isfinite(raw).any(axis=0).all():
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
            f"the Interval is about {'one number' if name is None else f'column {name!r}'}; give "
            f"column= as one of the guessed numbers {numbers}"
        )
    q = [microdata.columns[j] for j in columns].index(name)
    values = guesses.codes[:, :, q].astype(float)
    raw = np.zeros(values.shape)
    if prior.spread == "log-uniform":
        raw = -np.log(np.maximum(values, min(prior.low, 1.0)))
    if not microdata.variables[columns[q]].whole:
        raw = raw + log_widths(values, guesses.counted)
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
        total = log_sum(weights)  # minus infinity: nobody is there
        out = np.where(those, weights - np.where(those.any(axis=0), total, 0.0) + share, out)
    return out


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
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.max(initial=0.0) > 0:
        raise InputError(
            "the prior has negative, infinite or missing weights (it is improper), or none above "
            "zero; give finite weights >= 0, not all zero"
        )
    with np.errstate(divide="ignore"):
        return np.log(weights)
