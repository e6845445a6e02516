"""Record weights alpha_i of a pseudo-posterior, checked when given.

A model draws from ``p(Theta) prod_i p(y_i | Theta)^alpha_i`` (Hu, Savitsky & Williams 2022).
"""

from typing import Any

import numpy as np

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import plain

from .microdata import by_label

TAKE_THEM = "DPMPM, Regression, CART, PoissonMixture (MP) or PyMCModel"
DYADIC = 2.0**30  # multiples of 2^-30 add up exactly, for up to 8 million records


def checked_weights(weights: Any, index: Any) -> Array | None:
    """Weights (n,) in the order of ``index``; None where every record counts in full."""
    if weights is None:
        return None
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
            "a record is to count in full, a small positive number where it is to count for little"
        )
    rounded = np.maximum(np.round(alpha * DYADIC), 1.0) / DYADIC
    return None if (rounded == 1.0).all() else rounded


def no_weights(weights: Any, model: str, why: str) -> None:
    """Refuse weights that a model cannot use, whatever they are."""
    if weights is not None:
        raise InputError(
            f"{model} takes no record weights: {why}; give {TAKE_THEM}, or leave weights out"
        )


def weights_in_words(weights: Array | None) -> str:
    """What the weights are, one phrase for reports; empty without."""
    if weights is None:
        return ""
    low, high, mean = (plain(x, 3) for x in (weights.min(), weights.max(), weights.mean()))
    return (
        f"; parameters from a pseudo-posterior with record weights from {low} to {high}, {mean} on "
        "average, which the intruder is assumed to know"
    )
