"""Weights 1/D as whole numbers, so that sums of them compare as the fractions do.

``D``, shape (m, U): how many may be the target with key u in release l; 0 where nothing matches.
Why no floating-point tolerance serves: ``docs/identification.md``.
"""

import numpy as np
import numpy.typing as npt

LARGEST = 2**62
SIMPLE, FAR = 2**20, 2.0**53  # denominators of simple fractions; more people than can be counted

Ids = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]


def whole_weights(D: Reals, largest: int) -> tuple[Ids, Ids, Flags]:
    """Weigh in 64 bits: weights (m, U), units (weights of 1) and which keys fit, both (U,).

    The unit is the least common multiple of the numerators of a key's D; where some D is no simple
    fraction, the largest multiple of that, and its weight is rounded.
    """
    over, under = _simple_fractions(D)
    multiple, fits = common_multiple(over, largest)
    fits &= D.max(axis=0) < FAR  # else a weight could come to nothing
    rough = (D > 0) & (over == 0)
    unit = np.where(rough.any(axis=0), largest // len(D) // multiple, 1) * multiple
    weight = np.where(over > 0, unit // np.maximum(over, 1) * under, 0)
    rounded = rough & fits
    weight[rounded] = np.rint((unit / np.maximum(D, 1))[rounded]).astype(np.int64)
    return weight, unit, fits


def _simple_fractions(D: Reals) -> tuple[Ids, Ids]:
    """``D = over / under`` in lowest terms, ``under`` up to 2^20; ``over = 0`` if D has none."""
    with np.errstate(over="ignore"):
        scaled = D * SIMPLE
    simple = (D < 2**31) & (scaled == np.rint(scaled))
    over = np.where(simple, scaled, 0).astype(np.int64)
    common = np.gcd(over, SIMPLE)
    return over // common, SIMPLE // common


def common_multiple(N: Ids, largest: int) -> tuple[Ids, Flags]:
    """Find the least common multiple of each column's non-zero counts; does m times it fit."""
    multiple = np.ones(N.shape[1], dtype=np.int64)
    fits = np.ones(N.shape[1], dtype=np.bool_)
    for row in np.maximum(N, 1):
        step = row // np.gcd(multiple, row)
        fits &= multiple <= largest // len(N) // step
        multiple = np.where(fits, multiple * step, 1)
    return multiple, fits


def long_weights(
    D: Reals, chosen: Flags
) -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]]:
    """Weigh the chosen keys in Python integers; the other columns are 0. And their unit."""
    whole = np.frompyfunc(float.as_integer_ratio, 1, 1)(D[:, chosen])
    over, under = (np.frompyfunc(lambda ratio, k=k: ratio[k], 1, 1)(whole) for k in (0, 1))
    weight, unit = np.zeros(D.shape, dtype=object), np.ones(D.shape[1], dtype=object)
    matched = D[:, chosen] > 0
    over[~matched] = 1
    unit[chosen] = np.lcm.reduce(over, axis=0)
    weight[:, chosen] = np.where(matched, unit[chosen] // over * under, 0)
    return weight, unit
