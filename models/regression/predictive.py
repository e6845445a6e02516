"""Densities of guesses under draws: for every target, guess and draw, in blocks, in logs.

A guess may be the outcome of one regression and a predictor of later ones, so each row is written
out in full and goes through every formula in which it stands. Guesses that agree in all that a
regression looks at are computed once (`GuessSet.cells`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Targets

from .part import Coefficients, Part

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
ROOM = 2_000_000  # numbers in an array of rows x draws


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionPredictive:
    """p(y* | theta_h) of one regression, or the product over several with the same draws.

    Attributes
    ----------
    parts, draws : sequences of the same length
    targets : Targets
    batch : ndarray of int, shape (H,)
        Batch of each draw, in order.
    """

    parts: Sequence[Part]
    draws: Sequence[Coefficients]
    targets: Targets
    batch: Ints

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h), to the power of its weight, shape (H, block)."""
        return self._log_truth(block).T

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p_h(y*) / p_h(y_i): (B, G, block)."""
        starts = np.flatnonzero(np.diff(self.batch, prepend=-1))
        uses = frozenset[int]().union(*(part.uses for part in self.parts))
        codes, cell = self.targets.rows(uses, block)  # shape (G', U, p)
        log_v = log_weights.T - self._log_truth(block)  # shape (U, H)
        power = self.targets.weight[block]
        G, U, p = codes.shape
        out = np.empty((G, U, len(starts)))
        for some in blocks(U, G * len(self.batch)):
            rows = codes[:, some].reshape(-1, p)
            terms = self._log_density(rows).reshape(G, -1, len(self.batch))
            if (power != 1).any():
                terms *= power[some][:, None]
            terms += log_v[some]
            out[:, some] = _log_sums_of_segments(terms, starts)
        return np.moveaxis(out, 2, 0)[:, cell]

    def _log_truth(self, block: slice) -> Array:
        power = self.targets.weight[block]
        return self._log_density(self.targets.profiles[block]) * power[:, None]

    def _log_density(self, codes: Codes) -> Array:
        """log p of coded rows (R, p), summed over the regressions, shape (R, H)."""
        total = self.parts[0].log_density(codes, self.draws[0])
        for part, draws in zip(self.parts[1:], self.draws[1:], strict=True):
            total += part.log_density(codes, draws)
        return total


def blocks(U: int, per_target: int) -> Iterator[slice]:
    """Slices of targets such that an array of rows x draws stays small."""
    size = max(ROOM // max(per_target, 1), 1)
    for begin in range(0, U, size):
        yield slice(begin, min(begin + size, U))


def _log_sums_of_segments(terms: Array, starts: Ints) -> Array:
    """log sum exp over segments of the last axis, shape (..., B)."""
    top = np.maximum(np.maximum.reduceat(terms, starts, axis=-1), -1e300)
    sizes = np.diff(starts, append=terms.shape[-1])
    terms -= np.repeat(top, sizes, axis=-1)
    np.exp(terms, out=terms)
    with np.errstate(divide="ignore"):
        sums: Array = np.log(np.add.reduceat(terms, starts, axis=-1)) + top
    return sums
