"""Analyses run on the original and on every release: how far estimates and intervals agree."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError

from .combining import combine, read_estimates
from .tables import Tables

Analysis = Callable[[pd.DataFrame], Any]

COLUMNS = (
    "original",
    "std_error_original",
    "low_original",
    "high_original",
    "release",
    "std_error",
    "low",
    "high",
    "standardized_difference",
    "interval_overlap",
)
RULES = ("partially synthetic", "fully synthetic")


class Inference(NamedTuple):
    """What analyses gave.

    ``names``: (analysis, quantity) of K quantities; ``combined``: (K, 10) by `COLUMNS`; ``each``:
    overlap and standardised difference of every release on its own, (m, K, 2).
    """

    names: list[tuple[str, str]]
    combined: Array
    each: Array


class _Interval(NamedTuple):
    """Estimates, standard errors and ends, each (K,)."""

    estimate: Array
    std_error: Array
    low: Array
    high: Array


def inferences(
    analyses: Mapping[str, Analysis], tables: Tables, rules: str, confidence: float
) -> Inference:
    """Fit every analysis to every table; releases are combined by the rules."""
    names: list[tuple[str, str]] = []
    combined, each = [], []
    for analysis, fit in analyses.items():
        quantities, whole, apart = _one(analysis, fit, tables, rules, confidence)
        names += [(str(analysis), str(q)) for q in quantities]
        combined.append(whole)
        each.append(apart)
    if not names:
        return Inference([], np.empty((0, len(COLUMNS))), np.empty((tables.m, 0, 2)))
    return Inference(names, np.concatenate(combined), np.concatenate(each, axis=1))


def interval_overlap(low: Array, high: Array, other_low: Array, other_high: Array) -> Array:
    """Mean share of each interval that the other covers (Karr et al. 2006).

    1: the same; 0: they touch; below: a gap, in units of their mean length.
    """
    shared = np.minimum(high, other_high) - np.maximum(low, other_low)
    return np.asarray(0.5 * (shared / (high - low) + shared / (other_high - other_low)))


def fully_synthetic(q: Array, u: Array, confidence: float) -> tuple[Array, ...]:
    """Estimate, standard error and ends where every record is a new draw from the population.

    ``T = (1 + 1/m) b - u`` with ``(m - 1) (1 - m u / ((m + 1) b))^2`` degrees of freedom
    (Raghunathan, Reiter & Rubin 2003); where T is not above 0, u in its stead (Reiter 2002, samples
    of the original's size).
    """
    m, b, within = len(q), q.var(axis=0, ddof=1), u.mean(axis=0)
    total = (1 + 1 / m) * b - within
    positive = total > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.where(positive, (m - 1) * (1 - m * within / ((m + 1) * b)) ** 2, np.inf)
    error = np.sqrt(np.where(positive, total, within))
    half = stats.t.ppf((1 + confidence) / 2, df) * error
    estimate = q.mean(axis=0)
    return estimate, error, estimate - half, estimate + half


def _one(
    analysis: str, fit: Analysis, tables: Tables, rules: str, confidence: float
) -> tuple[Sequence[Any], Array, Array]:
    fits = [fit(table.copy()) for table in tables.frames]
    for found in fits:
        if not isinstance(found, pd.DataFrame) and not hasattr(found, "cov_params"):
            raise InputError(
                f"analysis {analysis!r} gives a {type(found).__name__}; let it give a fitted model "
                "of statsmodels, or a DataFrame with the columns estimate and std_error"
            )
    try:
        q, covariances, brought = read_estimates(fits, None)
    except InputError as error:
        raise InputError(
            f"analysis {analysis!r}, where data set 0 is the original: {error}"
        ) from None
    names = list(range(q.shape[1])) if brought is None else brought
    u = np.diagonal(covariances, axis1=1, axis2=2)
    alone = [_alone(q[l], u[l], confidence) for l in range(len(q))]
    apart = np.array([_agreement(alone[0], one) for one in alone[1:]]).transpose(0, 2, 1)
    both = alone[1]
    if tables.m > 1 and rules == "fully synthetic":
        both = _Interval(*fully_synthetic(q[1:], u[1:], confidence))
    elif tables.m > 1:
        found = combine(q[1:], u[1:], confidence=confidence).table
        both = _Interval(*(found[c].to_numpy() for c in ("estimate", "std_error", "low", "high")))
    difference, overlap = _agreement(alone[0], both)
    return names, np.column_stack([*alone[0], *both, difference, overlap]), apart


def _alone(q: Array, u: Array, confidence: float) -> _Interval:
    """One table taken as it is: large-sample interval."""
    error = np.sqrt(u)
    half = stats.norm.ppf((1 + confidence) / 2) * error
    return _Interval(q, error, q - half, q + half)


def _agreement(original: _Interval, other: _Interval) -> tuple[Array, Array]:
    """Difference in the original's standard errors, and overlap of the intervals."""
    difference = (other.estimate - original.estimate) / original.std_error
    return difference, interval_overlap(original.low, original.high, other.low, other.high)
