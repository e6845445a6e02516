"""The sum over draws of every cell of a target's table, a stretch of rows at a time.

Given a draw, ``p_h(y*) = sum_k base_k prod_j F_kj(y*_j)``. Split the guessed variables in two: with
the products over the first half in the rows of A (C1, T) and those over the second half in the rows
of B (C2, T), T terms being all classes of all draws,

    sum_h v_h p_h(y*) / p_h(y_i) = A diag(c) B'

is one matrix product, of which no more than a stretch of rows is ever there. The target's own class
is a term like any other, with the target taken out of its counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.logspace import log_sum

from .table_kernels import fill_terms, multiply_factors

if TYPE_CHECKING:
    from .predictive import LatentPredictive

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.floating[Any]]
SMALLEST = 1e-30  # a cell's largest term may not be below this in single precision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Terms:
    """A mixture of products: draws and their classes, for one target.

    Attributes
    ----------
    factor : ndarray, shape (D, T)
        Probability of each guessed level, its variables below one another.
    log_weight : ndarray, shape (T,)
        Log weight of each term: ``sum_t exp(log_weight_t) prod_j factor`` is the sum over draws of
        ``v_h p_h(y*) / p_h(y_i)``.
    start : ndarray of int, shape (q + 1,)
        Where the levels of each guessed variable begin.
    batch : ndarray of int, shape (T,)
        Batch of each term's draw, ascending.
    """

    factor: Array
    log_weight: Array
    start: Ints
    batch: Ints

    @classmethod
    def of(
        cls,
        part: "LatentPredictive",
        u: int,
        begin: Ints,
        n_levels: Ints,
        log_weights: Array,
        draws: Ints,
    ) -> "Terms":
        """Terms of target u; ``begin``, ``n_levels`` (p,): level rows; ``log_weights`` (draws,)."""
        t, columns = part.tables, part.columns
        K, p = t.n.shape[1], len(begin)
        start = np.concatenate([[0], np.cumsum(n_levels[columns])]).astype(np.int64)
        place = np.full(p, -1, np.int64)
        place[columns] = start[:-1]
        label = np.full(len(t.n), K)
        if part.unit[u] >= 0:
            label = t.label[:, part.unit[u]].astype(np.int64)
        size = len(draws) * K
        factor = np.empty((int(start[-1]), size))
        log_base, log_truth = np.empty(size), np.empty(size)
        draw_of = np.empty(size, np.int64)
        T = fill_terms(
            (t.Q, t.tau, t.n, t.alpha, t.n if t.pi is None else t.pi, t.pi is None),
            (t.fixed, place, n_levels),
            (label, part.truth[u], part.linked[u], part.held[u], begin),
            draws,
            factor,
            log_base,
            log_truth,
            draw_of,
        )
        draw_of = draw_of[:T]
        total = np.full(len(draws), -np.inf)
        np.logaddexp.at(total, draw_of, log_truth[:T])
        return cls(
            factor=factor[:, :T],
            log_weight=log_base[:T] + (log_weights - total)[draw_of],
            start=start,
            batch=part.batch[draws][draw_of],
        )

    def sums(self, cut: int) -> "CellSums":
        """The sums of all cells; the first ``cut`` guessed variables make the rows."""
        return CellSums(self, cut)

    def log_at(self, codes: Ints) -> Array:
        """Log of the sum for cells (G, q), shape (G,)."""
        logs = np.log(self.factor)
        out = [log_sum(self.log_weight + logs[self.start[:-1] + row].sum(axis=0)) for row in codes]
        return np.array(out, dtype=float)


class CellSums:
    """Sums over the draws of each batch of every cell of a table (C1, C2).

    Parameters
    ----------
    terms : Terms
    cut : int
        How many of the guessed variables make the rows; the others make the columns.
    """

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
        self._batches = [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]

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
    if places.shape[1]:
        multiply_factors(factor, places, out)
    return out
