"""The numbers that a prior stands for: p(y* | A, S) of every guess of every target.

A prior may rest on the release ("release") or on the base fit ("predictive"). The second is
estimated, so its Monte Carlo error belongs to the posterior's: see `PriorWeights.from_base`.
The first is read off the released files: their margins, or the guessed values together. It uses the
release twice, as prior and as evidence, and overrates what the release says; intruders do it
nonetheless.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import log_sum
from bayes_risk._core.matching import distinct_rows
from bayes_risk.data.microdata import Codes, Microdata
from bayes_risk.intruder.grids import log_widths
from bayes_risk.intruder.guesses import edges
from bayes_risk.intruder.priors import NAMED, Density, Interval, MixedPrior, Prior, TruthFactor
from bayes_risk.release.release import EncodedRelease

from .contract import Targets

NO_NUMBERS = "no number is guessed: give another prior"
ONE_OF = f"give one of {sorted(NAMED)} (or a `TruthFactor`, `MixedPrior`, array or function)"


class PriorContext(NamedTuple):
    """What a prior may rest on; ``base`` (G, U): log p(y* | y_A) of the base fit, where kept."""

    microdata: Microdata
    cases: Targets
    release: EncodedRelease | None = None
    base: Array | None = None

    @property
    def names(self) -> list[str]:
        """Guessed columns."""
        return [self.microdata.columns[j] for j in self.cases.columns]

    @property
    def numbers(self) -> list[str]:
        """Those that are numbers."""
        return [name for name in self.names if name in self.microdata.numbers]


class PriorWeights(NamedTuple):
    """A prior over the guesses of each target, (G, U)."""

    log_p: Array  # normalised
    from_base: Array | None = None  # which share was estimated by the base fit, or None
    log_widths: Array | float = 0.0  # of cells that turn its density into probabilities
    # (B, G, U): how far batches of the first fit move it, where that is known; else by `from_base`
    moved: npt.NDArray[Any] | None = None
    fit: Any = 0  # which of the fits of the evidence this is; or of each target, (U,)


def prior_weights(prior: Prior, context: PriorContext) -> PriorWeights:
    """Prior probabilities of the guesses, normalised for each target, and what was estimated.

    ``"uniform"``; ``"marginal"``: product of the margins of the records that the intruder sees,
    each with one added to every level (see `log_margin`); ``"predictive"``: p(y* | y_A) of the
    model, times the width of the cell where steps are uneven; ``"release"``: product of the margins
    of the released files, with one added to every level, or cell of a grid; ``"release-joint"``:
    the guessed values together; a `TruthFactor`; a `Density`; an `Interval`; a `MixedPrior`; an
    array of G weights; or a function from the DataFrame of a target's guesses to weights.
    """
    if not isinstance(prior, MixedPrior):
        log_p = _raw(prior, context)  # in place: arrays of this size are a join's peak
        np.copyto(log_p, -np.inf, where=~context.cases.guesses.counted)
        log_p -= log_sum(log_p)
        if isinstance(prior, str) and prior == "uniform" and context.cases.guesses.counted.all():
            log_p = np.broadcast_to(log_p[:, :1].copy(), log_p.shape)
        if not isinstance(prior, str) or prior != "predictive":
            return PriorWeights(log_p)
        ones = np.broadcast_to(1.0, log_p.shape)
        return PriorWeights(log_p, ones, context.cases.guesses.log_widths)
    parts = [prior_weights(part, context) for part in prior.priors]
    logs = np.stack([part.log_p for part in parts])
    logs += np.log(np.array(prior.weights))[:, None, None]
    total = log_sum(logs)
    if all(part.from_base is None for part in parts):
        return PriorWeights(total)
    share = np.exp(logs - np.where(total > -np.inf, total, 0.0))
    known = [0.0 if part.from_base is None else part.from_base for part in parts]
    from_base = np.sum([s * k for s, k in zip(share, known, strict=True)], axis=0)
    return PriorWeights(total, from_base, context.cases.guesses.log_widths)


def _raw(prior: Prior, context: PriorContext) -> Array:
    """Log weights, not normalised, shape (G, U)."""
    guesses = context.cases.guesses
    G, U = guesses.codes.shape[:2]
    if isinstance(prior, str):
        return _named(prior, context)
    if isinstance(prior, TruthFactor):
        raw = np.zeros((G, U))
        np.put_along_axis(raw, guesses.truth[None, :], np.log(prior.factor), axis=0)
        return raw
    if isinstance(prior, Density):
        return _from_densities(prior, context)
    if isinstance(prior, Interval):
        return _from_interval(prior, context)
    if not callable(prior):
        return np.repeat(
            _log_weights(prior, G, f"prior= of type {type(prior).__name__}"), U, axis=1
        )
    variables = [context.microdata.variables[j] for j in context.cases.columns]
    weights = []
    for codes in guesses.codes.swapaxes(0, 1):
        each = zip(variables, codes.T, strict=True)
        table = pd.DataFrame({v.name: v.decode(c, pd.RangeIndex(G)) for v, c in each})
        weights.append(_log_weights(prior(table), G, "what the prior function returned"))
    return np.concatenate(weights, axis=1)


def _log_weights(given: Any, G: int, what: str) -> Array:
    """Logs of one weight a guess, shape (G, 1)."""
    try:
        weights = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{what} is not a prior; {ONE_OF}") from None
    if weights.shape != (G,):
        raise InputError(f"{what} has shape {weights.shape}; give one weight per guess, ({G},)")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.max(initial=0.0) > 0:
        raise InputError(
            "the prior has negative, infinite or missing weights (it is improper), or none above "
            "zero; give finite weights >= 0, not all zero"
        )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights)[:, None])


def _named(prior: str, context: PriorContext) -> Array:
    microdata, cases, release, base = context
    raw = np.zeros(cases.guesses.codes.shape[:2])
    if prior == "uniform":
        return raw
    if prior == "marginal":
        if context.numbers:
            raise InputError(
                f'column {context.numbers[0]!r} is a number, and `prior="marginal"` counts levels; '
                "give `Density({...})` (or a `function`)"
            )
        for q in range(len(cases.columns)):
            raw += log_margin(microdata, cases, q, cases.guesses.codes[:, :, q])
        return raw
    if prior in ("release", "release-joint"):
        return _from_release(context, joint=prior == "release-joint")
    if prior != "predictive":
        raise InputError("prior", prior, f"is not known; {ONE_OF}")
    if base is None:
        raise InputError(
            "prior",
            "predictive",
            'needs a base fit, and this evidence has none; gather it with `evidence="predictive"` '
            "if the model offers it, or give another prior",
        )
    if (cases.weight != 1).any():
        raise InputError(
            "prior",
            "predictive",
            "is not offered for a fit with record weights: its predictives are powers of "
            "densities; give another prior",
        )
    return base + cases.guesses.log_widths


def _from_release(context: PriorContext, *, joint: bool) -> Array:
    """Of the released files, (G, U): margins, plus 1; jointly ``c(y*) / m`` plus that product."""
    microdata, cases, release, _ = context
    if release is None:
        raise InputError(
            "prior", "release", "needs one release: give another prior (or take `attribute_risk`)"
        )
    z, guessed = release.codes[:, :, cases.columns], cases.guesses.codes  # (m, n, q), (G, U, q)
    (m, n, d), raw = z.shape, np.zeros(guessed.shape[:2])
    for q, name in enumerate(context.names):
        if name in context.numbers:
            raw += _of_number(name, z[:, :, q], cases, q)
            continue
        levels = int(microdata.n_levels[cases.columns[q]])
        counts = np.bincount(z[:, :, q].ravel().astype(np.int64), minlength=levels) / m
        raw += np.log((counts + 1.0) / (n + levels))[guessed[:, :, q].astype(np.int64)]
    if not joint:
        return raw
    if context.numbers:
        raise InputError(
            "prior",
            "release-joint",
            f'counts categories, and {context.numbers[0]!r} is a number; give "release", or '
            "`Density({...})`",
        )
    # how many records of a released file show all the guessed values, on average
    rows = np.concatenate([z.reshape(-1, d), guessed.reshape(-1, d)]).astype(np.int64)
    first, cell, _ = distinct_rows(rows)
    counts = np.bincount(cell[: m * n], minlength=len(first))
    return np.asarray(np.log(np.exp(raw) + counts[cell[m * n :]].reshape(raw.shape) / m))


def _of_number(name: str, z: Codes, cases: Targets, q: int) -> Array:
    """Released values by cell of each target's grid."""
    m, guesses = len(z), cases.guesses
    values, shown = guesses.codes[:, :, q].astype(float), np.sort(z.ravel().astype(float))
    out = np.zeros(values.shape)
    for u, kept in enumerate(guesses.counted.T):
        line, where = np.unique(values[kept, u], return_inverse=True)
        if len(line) < 2:
            continue
        below = np.searchsorted(shown, edges(line))
        if below[0] == below[-1]:
            raise InputError(
                "prior",
                "release",
                f": no released value of {name!r} lies in the grid of some target; give a wider "
                "grid, or `Density({...})`",
            )
        out[kept, u] = np.log(np.diff(below) / m + 1.0)[where]
    return out


def log_margin(
    microdata: Microdata, cases: Targets, q: int, levels: npt.NDArray[np.integer]
) -> Array:
    """``log (n_A(v) + 1) / (n_A + d)`` of column q, of records the intruder sees but the target."""
    j = cases.columns[q]
    d, levels = int(microdata.n_levels[j]), levels.astype(np.int64)
    seen = microdata.codes[slice(None) if cases.known is None else cases.known, j]
    counts = np.bincount(seen.astype(np.int64), minlength=d)
    own = cases.fitted & (levels == cases.profiles[:, j])  # shape (G, U)
    return np.asarray(np.log((counts[levels] - own + 1.0) / (len(seen) - cases.fitted + d)))


def check_columns(prior: Any, numbers: Sequence[str]) -> None:
    """Refuse a prior about columns that are no guessed numbers."""
    if isinstance(prior, MixedPrior):
        for one in prior.priors:
            check_columns(one, numbers)
    named: list[Any] = [*prior.densities] if isinstance(prior, Density) else []
    if isinstance(prior, Interval) and not (prior.column is None and len(numbers) == 1):
        named.append(prior.column)
    for name in named:
        if name not in numbers:
            given = "names no column" if name is None else f"names {name!r}"
            cure = f"name one of the guessed numbers {list(numbers)}" if numbers else NO_NUMBERS
            raise InputError("prior", f"{given}; {cure}")


def _from_densities(prior: Density, context: PriorContext) -> Array:
    guesses = context.cases.guesses
    raw = np.zeros(guesses.codes.shape[:2])
    check_columns(prior, context.numbers)
    for name, density in prior.densities.items():
        values, whole = _values(name, context)
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


def _values(name: str, context: PriorContext) -> tuple[Array, bool]:
    """Guesses of a number, (G, U), and whether it is a whole one."""
    q, variable = context.names.index(name), context.microdata.columns.index(name)
    values = context.cases.guesses.codes[:, :, q].astype(float)
    return values, bool(context.microdata.variables[variable].whole)  # type: ignore[union-attr]


def _from_interval(prior: Interval, context: PriorContext) -> Array:
    """Weights 1 or 1 / v, times the width of the cell, made to add up inside and outside."""
    counted, numbers = context.cases.guesses.counted, context.numbers
    check_columns(prior, numbers)
    name = prior.column or numbers[0]
    values, whole = _values(str(name), context)
    raw = np.zeros(values.shape)
    if prior.spread == "log-uniform":
        raw = -np.log(np.maximum(values, min(prior.low, 1.0)))
    if not whole:
        raw = raw + log_widths(values, counted)
    inside = counted & (values >= prior.low) & (values <= prior.high)
    if not inside.any(axis=0).all():
        raise InputError(
            f"no guess of some target lies from {prior.low:g} to {prior.high:g}; give a grid that "
            "reaches there"
        )
    left = np.log1p(-prior.probability) if prior.probability < 1 else -np.inf
    out = np.full(values.shape, -np.inf)
    for those, share in ((inside, np.log(prior.probability)), (counted & ~inside, left)):
        weights = np.where(those, raw, -np.inf)
        total = log_sum(weights)  # minus infinity: nobody is there
        out = np.where(those, weights - np.where(those.any(axis=0), total, 0.0) + share, out)
    return out
