"""Log-linear models of a contingency table, fitted by iterative proportional fitting.

Letters: ``q`` keys with ``d_a`` levels, ``U`` observed cells with counts ``N``, ``C`` cells that
can be populated, ``mu`` fitted counts. The full cross-classification is never written out: where a
fitted margin is 0, so is the fit. Derivation: ``docs/population.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from .errors import InputError, ModelError

Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Terms = tuple[tuple[int, ...], ...]

MAX_CELLS = 2_000_000
MAX_CYCLES = 1_000
TOLERANCE = 1e-6  # records: no margin is missed by more
ACCEPTED = 0.5  # records: after MAX_CYCLES
BLOCK = 1_024


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogLinear:
    """Fitted counts ``mu_t``: n times a share of each key, or a table of cells.

    Attributes
    ----------
    n : float
        Number of sample records.
    shares : tuple of ndarray, shapes (d_a,)
        Of independent keys: share of the records at each level. Empty for the table.
    cells : ndarray of int64, shape (C, q)
        Of two-way interactions: the cells that can be populated. None (C = 0) for independent keys.
    mu : ndarray, shape (C,)
        Their fitted counts.
    cycles : int
        Cycles of proportional fitting.
    gap : float
        Largest difference between a fitted and an observed margin, in records.
    """

    n: float
    shares: tuple[Reals, ...]
    cells: Ids
    mu: Reals
    cycles: int
    gap: float


def margins_of(q: int, interactions: int) -> Terms:
    """Margins that the model fits: single keys, or all pairs."""
    return tuple(combinations(range(q), min(interactions, q)))


def fit_loglinear(
    codes: Ids, count: Reals, n_levels: Sequence[int], *, interactions: int
) -> LogLinear:
    """Maximum-likelihood fit of a Poisson log-linear model to the counts of observed cells.

    Parameters
    ----------
    codes : ndarray of int64, shape (U, q)
        Level codes of the observed cells, each once.
    count : ndarray, shape (U,)
        Their counts, above 0.
    n_levels : sequence of q ints
    interactions : {1, 2}
        Main effects, or all two-way interactions.

    Returns
    -------
    LogLinear

    Raises
    ------
    InputError
        More than ``MAX_CELLS`` cells can be populated.
    ModelError
        No convergence.
    """
    terms = margins_of(codes.shape[1], interactions)
    observed = [_margin(codes, count, term, n_levels) for term in terms]
    if len(terms[0]) == 1:
        return _independent(observed, float(count.sum()))
    return _fitted(terms, observed, support(codes, n_levels, terms, limit=MAX_CELLS))


def _independent(observed: Sequence[Reals], n: float) -> LogLinear:
    """``mu_t = n prod_a N_a / n``, in closed form."""
    shares = tuple(margin / n for margin in observed)
    cells = np.empty((0, len(shares)), dtype=np.int64)
    return LogLinear(n=n, shares=shares, cells=cells, mu=np.empty(0), cycles=1, gap=0.0)


def _fitted(terms: Terms, observed: Sequence[Reals], cells: Ids) -> LogLinear:
    """Scale each margin in turn to what was observed, until all agree."""
    margins = [
        (_places(cells, term, margin.shape), margin.ravel())
        for term, margin in zip(terms, observed, strict=True)
    ]
    mu = np.ones(len(cells))
    gap, cycle = np.inf, 0
    while gap > TOLERANCE and cycle < MAX_CYCLES:
        gap, cycle = 0.0, cycle + 1
        for where, target in margins:
            fitted = np.bincount(where, mu, len(target))
            gap = max(gap, float(np.abs(fitted - target).max()))
            mu *= (target / np.where(fitted > 0, fitted, 1.0))[where]
    if gap > ACCEPTED:
        raise ModelError(
            f"the log-linear model has not converged: after {cycle:,} cycles a fitted margin "
            f"misses the observed one by {gap:.3g} records; give coarser keys, or interactions=1"
        )
    n = float(observed[0].sum())
    return LogLinear(n=n, shares=(), cells=cells, mu=mu, cycles=cycle, gap=gap)


def independent_mean(n: float, shares: Sequence[Reals], codes: Ids) -> Reals:
    """``n`` times the product of the keys' shares, of cells (U, q); 0 where a code is negative."""
    mu = np.full(len(codes), n)
    for a, share in enumerate(shares):
        mu *= np.where(codes[:, a] < 0, 0.0, share[codes[:, a]])
    return mu


def support(codes: Ids, n_levels: Sequence[int], terms: Terms, *, limit: int) -> Ids:
    """Cells all of whose fitted margins are positive, shape (C, q), in no particular order.

    Key after key is added to blocks of partial cells; the block added last is taken up first, so no
    more than a few blocks wait, however large the cross-classification.

    Parameters
    ----------
    codes : ndarray of int64, shape (U, q)
        Observed cells.
    n_levels : sequence of q ints
    terms : tuple of tuple of int
        The fitted margins, all of one or all of two keys.
    limit : int
        Largest number of cells, or of partial cells.

    Raises
    ------
    InputError
        More than `limit` of them.
    """
    q = codes.shape[1]
    positive = {
        term: _margin(codes, np.ones(len(codes)), term, n_levels) > 0
        for term in {*terms, *margins_of(q, 1)}
    }
    waiting = [np.flatnonzero(positive[(0,)])[:, None]]
    seen, whole = np.zeros(q + 1, dtype=np.int64), []
    while waiting:
        block = waiting.pop()
        j = block.shape[1]
        seen[j] += len(block)
        if seen[j] > limit:
            _too_many(limit, [int(positive[(a,)].sum()) for a in range(q)])
        if j == q:
            whole.append(block)
            continue
        longer = _extended(block, positive)
        waiting += [longer[k : k + BLOCK] for k in range(0, len(longer), BLOCK)]
    return np.concatenate(whole)


def _extended(block: Ids, positive: dict[tuple[int, ...], npt.NDArray[np.bool_]]) -> Ids:
    """Partial cells with every level of the next key that their margins allow."""
    j = block.shape[1]
    allowed = np.repeat(positive[(j,)][None], len(block), axis=0)
    for a in range(j):
        if (a, j) in positive:
            allowed &= positive[(a, j)][block[:, a]]
    row, level = np.nonzero(allowed)
    return np.column_stack([block[row], level])


def _too_many(limit: int, n_levels: Sequence[int]) -> None:
    raise InputError(
        f"more than {limit:,} of the {prod(n_levels):,} cells that {len(n_levels)} keys make "
        f"({' x '.join(map(str, n_levels))} levels) could be populated under this model; give "
        f"fewer or coarser keys, or interactions=1 without draws"
    )


def _margin(codes: Ids, count: Reals, term: tuple[int, ...], n_levels: Sequence[int]) -> Reals:
    shape = tuple(n_levels[a] for a in term)
    flat = np.bincount(_places(codes, term, shape), count, prod(shape)).reshape(shape)
    return flat.astype(np.float64, copy=False)


def _places(codes: Ids, term: tuple[int, ...], shape: tuple[int, ...]) -> Ids:
    return np.asarray(np.ravel_multi_index(tuple(codes[:, a] for a in term), shape))
