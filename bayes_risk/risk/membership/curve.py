"""How well members are told from others: each against others asked about for the same place.

The intruder who knows A and sees the release ranks candidates for one place. Under the null
hypothesis the member's place among K others is uniform on 0..K, so with ties broken at random the
*level* at which a member is found, ``(above + V (1 + equal)) / (K + 1)``, V uniform on (0, 1), is
uniform on (0, 1) exactly, whatever K (a randomised rank test). The curve is its distribution.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array

RATES = (0.01, 0.05)
MEASURES = (
    "auc",
    "power_at_1_percent",
    "power_at_5_percent",
    "advantage",
    "advantage_at_one",
    "mean_bayes_factor_of_others",
)
BASELINE = (0.5, *RATES, 0.0, 0.0, 1.0)
GRID = np.concatenate([np.geomspace(1e-3, 0.02, 20), np.linspace(0.03, 1.0, 98)])
TIE = 1e-9


class Standing(NamedTuple):
    """Where each of U members stands among the others asked about for the same place.

    ``above`` and ``equal``: how many others the release speaks for more, or as much; ``compared``:
    how many there are (K); ``gain``: whether the member is accepted at a Bayes factor above 1, less
    the share of others who are; ``factor``: mean Bayes factor of the others. Shapes (..., U).
    """

    above: Array
    equal: Array
    compared: Array
    gain: Array
    factor: Array


def standing(log_bf: Array, weights: Array, moved: Array | float = 0.0) -> Standing:
    """From log Bayes factors (1 + K, U), the member first, and how often others count (..., K, U).

    A leading axis of weights (samples of people) becomes one of the result. ``moved`` (1 + K, U) is
    added to the log Bayes factors; mean factors follow it to first order, as one batch of draws
    moves them further than all do.
    """
    shift = np.broadcast_to(moved, log_bf.shape)
    own, rest = log_bf[0] + shift[0], log_bf[1:] + shift[1:]
    total = weights.sum(axis=-2)
    share = np.where(total > 0, total, 1.0)

    def counted(what: npt.NDArray[Any]) -> Array:
        return np.asarray((weights * what).sum(axis=-2))

    return Standing(
        above=counted(rest > own + TIE),
        equal=counted((rest <= own + TIE) & (rest >= own - TIE)),
        compared=total,
        gain=(own > TIE) - counted(rest > TIE) / share,
        factor=counted(np.exp(log_bf[1:]) * (1.0 + shift[1:])) / share,
    )


def power(at: Standing, rate: float) -> Array:
    """Probability that each member is found at a false positive rate; shape (..., U)."""
    return np.clip((rate * (at.compared + 1) - at.above) / (1 + at.equal), 0.0, 1.0)


def level(at: Standing) -> Array:
    """Mean false positive rate at which a member is found; shape (..., U)."""
    return np.asarray((at.above + 0.5 * (1 + at.equal)) / (at.compared + 1))


def measures(at: Standing, counts: Array) -> Array:
    """`MEASURES`, last axis; ``counts`` (..., U): how many members stand for each column."""
    n = counts.sum(axis=-1)

    def mean(values: Array) -> Array:
        return np.asarray((values * counts).sum(axis=-1) / n)

    best = np.max([mean(power(at, rate)) - rate for rate in GRID], axis=0)
    powers = [mean(power(at, rate)) for rate in RATES]
    return np.stack([1.0 - mean(level(at)), *powers, best, mean(at.gain), mean(at.factor)], axis=-1)
