"""Record weights alpha_i of a pseudo-posterior, checked when given.

A model draws from ``p(Theta) prod_i p(y_i | Theta)^alpha_i``: weights in (0, 1] that protect
records (Hu, Savitsky & Williams 2022), or survey weights w_i of a column, which stand for people
who were not sampled: ``alpha_i = n w_i / sum_j w_j`` (Savitsky & Toth 2016).
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import plain
from bayes_risk._core.validate import known_columns

from .microdata import Microdata, by_label, checked_table
from .variables import TO_NUMBERS, is_numeric

TAKE_THEM = "DPMPM, Regression, CART, Marginals, PoissonMixture (MP) or PyMCModel"
DYADIC = 2.0**30  # multiples of 2^-30 add up exactly, for up to 8 million records


class SurveyWeights(NamedTuple):
    """Survey weights (n,), scaled to a mean of 1."""

    alpha: Array


def survey_weights(df: Any, weights: Any) -> tuple[Any, Any]:
    """A table and its weights; of a name the column of this name, taken out of the table."""
    if not isinstance(weights, str):
        return df, weights
    if isinstance(df, Microdata):
        raise InputError(
            "weights", weights, "names a column of a DataFrame, and this is Microdata; give both"
        )
    known_columns("weights", [weights], checked_table(df))
    given = positive_numbers(df, weights, "the table")
    return df.drop(columns=weights), SurveyWeights(given * (len(given) / given.sum()))


def positive_numbers(df: pd.DataFrame, name: str, what: str, *, zero: bool = False) -> Array:
    """Return a column as finite numbers above 0, or at least 0."""
    if not is_numeric(df[name].dtype):
        raise InputError(
            f"column {name!r} (`{df[name].dtype}`) of {what} does not hold numbers; name another, "
            f"or {TO_NUMBERS}"
        )
    values = df[name].to_numpy(dtype=np.float64, na_value=np.nan)
    below = values < 0 if zero else values <= 0
    least = "negative" if zero else "0 or negative"
    for wrong, which in ((~np.isfinite(values), "missing or infinite"), (below, least)):
        if wrong.any():
            raise InputError(
                f"column {name!r} of {what} is {which} in {wrong.sum():,} of {len(values):,} rows; "
                f"correct them, or drop those rows"
            )
    return values


def checked_weights(weights: Any, index: Any) -> Array | None:
    """Weights (n,) in the order of ``index``; None where every record counts in full."""
    if weights is None:
        return None
    if isinstance(weights, SurveyWeights):
        return _rounded(weights.alpha)
    given = by_label(weights, index, "weights") if hasattr(weights, "reindex") else weights
    try:
        alpha = np.asarray(given, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise InputError("weights are not numbers; give one number in (0, 1] a record") from None
    n = len(index)
    if alpha.shape != (n,):
        raise InputError(
            f"weights has shape {alpha.shape} and the table {n} records; give one weight a record"
        )
    outside = ~((alpha > 0) & (alpha <= 1))
    if outside.any():
        raise InputError(
            f"weights has {outside.sum()} values that are missing or outside (0, 1]; give 1 where "
            "a record is to count in full, a small positive number where it is to count for "
            'little; survey weights are given by the name of their column: `weights="w"`'
        )
    return _rounded(alpha)


def _rounded(alpha: Array) -> Array | None:
    rounded = np.maximum(np.round(alpha * DYADIC), 1.0) / DYADIC
    return None if (rounded == 1.0).all() else rounded


def no_weights(weights: Any, model: str, why: str) -> None:
    """Refuse weights that a model cannot use, whatever they are."""
    if weights is not None:
        raise InputError(
            f"{model} takes no record weights: {why}; give {TAKE_THEM}, or leave `weights` out"
        )


def weights_in_words(weights: Array | None) -> str:
    """What the weights are, one phrase for reports; empty without."""
    if weights is None:
        return ""
    low, high, mean = (plain(x, 3) for x in (weights.min(), weights.max(), weights.mean()))
    kind = "survey" if weights.max() > 1 else "record"
    return (
        f"; parameters from a pseudo-posterior with {kind} weights from {low} to {high}, {mean} on "
        "average, which the intruder is assumed to know"
    )
