"""Mixtures of products over the guessed variables, which a whole table of guesses is filled with.

A table is summed over draws a stretch of rows at a time, by matrix products (`docs/evidence.md`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.logspace import log_sum

Reals = npt.NDArray[np.floating[Any]]
SMALLEST = 1e-30  # a cell's largest term may not be below this in single precision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Terms:
    """A mixture of products for one target: ``sum_t exp(log_weight_t) prod_j factor``."""

    factor: Array  # (D, T): probability of each guessed level, variables below one another
    log_weight: Array
    start: Ints  # (q + 1,): where these begin
    batch: Ints  # (T,): of each term's draw, ascending

    def sums(self, cut: int) -> "CellSums":
        """The sums of all cells; the first ``cut`` guessed variables make the rows."""
        return CellSums(self, cut)

    def log_at(self, codes: Ints) -> Array:
        """Log of the sum at cells (G, q)."""
        logs = np.log(self.factor)
        out = [log_sum(self.log_weight + logs[self.start[:-1] + row].sum(axis=0)) for row in codes]
        return np.array(out, dtype=float)


class CellSums:
    """Sums over draws of each batch of all cells (C1, C2); ``cut`` guessed variables make rows."""

    def __init__(self, terms: Terms, cut: int) -> None:
        high = np.maximum.reduceat(terms.factor, terms.start[:-1], axis=0)  # shape (q, T)
        low = np.minimum.reduceat(terms.factor, terms.start[:-1], axis=0)
        log_c = terms.log_weight + np.log(high).sum(axis=0)
        self.log_scale = float(log_c.max())
        smallest = (log_c - self.log_scale + np.log(low / high).sum(axis=0)).max()
        dtype = np.float32 if smallest > np.log(SMALLEST) else np.float64
        sizes = np.diff(terms.start)
        scaled = (terms.factor / np.repeat(high, sizes, axis=0)).astype(dtype)
        self._weight = np.exp(log_c - self.log_scale).astype(dtype)
        self._factor = scaled
        self._rows = _places(terms.start, range(cut))
        self._right = _products(scaled, _places(terms.start, range(cut, len(sizes))))
        edges = np.searchsorted(terms.batch, np.arange(terms.batch[-1] + 2))
        self._batches = [slice(a, b) for a, b in pairwise(edges)]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows C1 and of columns C2."""
        return len(self._rows), len(self._right)

    def rows(self, first: int, last: int) -> Reals:
        """Sums of some rows by batch, times exp(-log_scale), shape (B, last - first, C2)."""
        left = _products(self._factor, self._rows[first:last]) * self._weight
        out = np.empty((len(self._batches), len(left), len(self._right)), left.dtype)
        for b, those in enumerate(self._batches):
            np.matmul(left[:, those], self._right[:, those].T, out=out[b])
        return out


def _places(start: Ints, variables: Sequence[int]) -> Ints:
    """Places of the levels of every combination of some variables, last one fastest."""
    grids = [np.arange(start[v], start[v + 1]) for v in variables]
    if not grids:
        return np.zeros((1, 0), np.int64)
    return np.stack([g.ravel() for g in np.meshgrid(*grids, indexing="ij")], axis=1)


def _products(factor: Reals, places: Ints) -> Reals:
    out = np.ones((len(places), factor.shape[1]), factor.dtype)
    for place in places.T:
        out *= factor[place]
    return out
