"""Guesses that change several variables at once: when they are worth a table of pairs, and which.

What the loops do stands in `latent_wide_kernels.py`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .wide_kernels import changed_levels, predict_wide

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
CROWDED = 8  # places squared for each guess, above which pairs are too thinly used


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places:
    """The guessed levels of all variables in one row, a place for each, and one for "no change".

    ``low`` (q,) and ``offset`` (q + 1,): level ``r`` of variable j has place ``offset[j] + r -
    low[j]``; ``later`` (L + 1,) the first place of a later variable.
    """

    low: Ints
    offset: Ints
    later: Ints

    @classmethod
    def of(cls, truth: Ints, guesses: Ints) -> "Places":
        """Places of the true levels (U, q) and of guesses (U, G, q)."""
        low = np.minimum(truth.min(axis=0), guesses.min(axis=(0, 1)))
        high = np.maximum(truth.max(axis=0), guesses.max(axis=(0, 1)))
        width = high - low + 1
        offset = np.concatenate([[0], np.cumsum(width)]).astype(np.int64)
        later = np.append(np.repeat(offset[1:], width), offset[-1]).astype(np.int64)
        return cls(low=low.astype(np.int64), offset=offset, later=later)

    def own(self, truth: Ints) -> npt.NDArray[np.bool_]:
        """Places of the true levels (U, q), shape (U, L + 1)."""
        flags = np.zeros((len(truth), len(self.later)), dtype=bool)
        np.put_along_axis(flags, truth - self.low + self.offset[:-1], True, axis=1)
        return flags


def wide_sums(
    tables: tuple[npt.NDArray[np.generic] | bool, ...],
    fixed: npt.NDArray[np.bool_],
    columns: Ints,
    targets: tuple[Any, ...],
    guesses: Ints,
    weights: Array,
    batch: Ints,
) -> Array | None:
    """Weighted p_h(y*) / p_h(y_i) summed over each batch, (B, U, G), of guesses (U, G, q).

    ``targets``: labels (H, U), rows of own, linked and held levels (U, p). None: hardly any guess
    changes two variables, or so few of the pairs are asked for that one by one is faster.
    """
    truth = targets[1][:, columns]
    if not guesses.size or int((guesses != truth[:, None]).sum(axis=2).max()) < 2:
        return None
    places = Places.of(truth, guesses)
    if len(places.later) ** 2 > CROWDED * guesses.shape[1]:
        return None
    changed = changed_levels(
        guesses, targets[1], columns, places.low, places.offset, places.offset[-1]
    )
    sums = np.zeros((int(batch.max()) + 1, *guesses.shape[:2]))
    predict_wide(
        tables,
        (fixed, columns, places.low, places.offset, places.later),
        (*targets, changed, places.own(truth)),
        weights,
        batch,
        sums,
    )
    return sums
