"""Leave-one-out predictives of latent-class draws, with the level probabilities integrated out.

Given the labels, record i is taken out of its class and p(y* | z_-i, y_-i) is a sum over classes of
products of (count + a) / (total + d a), the class weights being the stick-breaking predictive. The
derivation stands in `docs/evidence.md`. Columns can instead be *fixed* at their drawn
probabilities: all of them for the published importance sampler, the unsynthesised ones where the
release was drawn conditionally on them.

A whole table of guesses is summed over draws a stretch of rows at a time. Given a draw,
``p_h(y*) = sum_k base_k prod_j F_kj(y*_j)``. Split the guessed variables in two: with
the products over the first half in the rows of A (C1, T) and those over the second half in the rows
of B (C2, T), T terms being all classes of all draws,

    sum_h v_h p_h(y*) / p_h(y_i) = A diag(c) B'

is one matrix product, of which no more than a stretch of rows is ever there. The target's own class
is a term like any other, with the target taken out of its counts.

A *term* is a draw and a class in it; classes that nobody is in are all alike and make one term.
``factor[place, t]`` is the probability of a level in term t, the target taken out of its own class;
``log_base[t]`` what is the same for every cell: the weight of the class, and the variables that are
not guessed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.logspace import log_sum
from bayes_risk.evidence.contract import Targets
from bayes_risk.models.mixture.state import Draws, Prior, Units, given_arrays
from bayes_risk.models.mixture.sweep import TINY, fill_log_masses

from .predictive_kernels import class_weights, collapse_draws, linked_factor, own_class, predict
from .wide import wide_sums


@numba.njit(cache=True, nogil=True)
def level_factor(Q, tau, fixed, j, y, z, k0, k, level):
    """Probability of a level, and of the linked one with it, in class k without the target."""
    if k == k0:
        return own_class(Q, tau, fixed, j, y, z, k0, level)
    if z >= 0:
        return Q[level, k] * linked_factor(Q, tau, fixed, j, z, level == z, k)
    return Q[level, k]


@numba.njit(cache=True, nogil=True)
def fill_terms(tables, layout, target, draws, factor, log_base, log_truth, draw_of):
    """Fill the terms of some draws for one target; how many there are.

    ``log_truth`` (T,): log mass of the target's own values; ``draw_of`` (T,): place of the draw.
    """
    Q, tau, n, alpha, pi, integrated = tables
    fixed, place, n_levels = layout  # place[j]: first place of a guessed variable, else -1
    label, truth, linked, held, begin = target
    K, t = n.shape[1], 0
    base = np.empty(K)
    for i in range(draws.shape[0]):
        h, k0, empty = draws[i], label[draws[i]], -1
        if integrated:
            class_weights(n[h], alpha[h], k0, base)
        else:
            base[:] = pi[h]
        mass_of_empty = 0.0
        for k in range(K):
            if integrated and n[h, k] == 0:
                mass_of_empty += base[k]
                if empty >= 0:
                    continue
                empty = t
            log_base[t] = math.log(max(base[k], TINY))
            log_truth[t] = 0.0
            draw_of[t] = i
            for j in range(truth.shape[0]):
                own = level_factor(Q[h], tau[h], fixed, j, held[j], linked[j], k0, k, truth[j])
                if place[j] < 0:
                    log_base[t] += math.log(max(own, TINY))
                else:
                    log_truth[t] += math.log(max(own, TINY))
                    for c in range(n_levels[j]):
                        factor[place[j] + c, t] = level_factor(
                            Q[h], tau[h], fixed, j, held[j], linked[j], k0, k, begin[j] + c
                        )
            t += 1
        if empty >= 0:
            log_base[empty] += math.log(max(mass_of_empty, TINY)) - math.log(
                max(base[n[h] == 0][0], TINY)
            )
    for s in range(t):
        log_truth[s] += log_base[s]
    return t


@numba.njit(cache=True, nogil=True)
def multiply_factors(factor, places, out):
    """out[c, t] = prod_v factor[places[c, v], t]."""
    for c in range(places.shape[0]):
        for t in range(factor.shape[1]):
            out[c, t] = factor[places[c, 0], t]
        for v in range(1, places.shape[1]):
            for t in range(factor.shape[1]):
                out[c, t] *= factor[places[c, v], t]


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


FLOOR = 1e-300
LABELS = 2**23  # labels of units at a time, of which those asked for are kept


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """What the predictives need of each draw.

    Shapes: ``Q (H, D, K)`` probability of a level in a class; ``tau (H, p, K)`` class totals plus
    prior mass; ``n (H, K)`` class counts; ``alpha (H,)``; ``pi (H, K)`` or None (then the weights
    are integrated out); ``label (H, U)`` one label per unit asked for; ``fallen (H,)`` how many
    records fell into structural zeros, counted in the others.
    """

    Q: Array
    tau: Array
    n: Ints
    alpha: Array
    pi: Array | None
    label: npt.NDArray[np.int16]
    fixed: npt.NDArray[np.bool_]
    fallen: Ints | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentPredictive:
    """p(y* | theta_h without the target) for a list of targets and their guesses.

    Attributes
    ----------
    tables : Tables
        Of the H draws.
    unit : ndarray of int, shape (U,)
        Unit of each target among the sampled ones; -1 where the fit holds nothing of the target, so
        that nothing is to be taken out.
    truth : ndarray of int, shape (U, p)
        Rows of the target's own levels.
    linked : ndarray of int, shape (U, p)
        Rows of its synthetic levels if the release was drawn from its own class; -1 elsewhere.
    columns : ndarray of int, shape (q,)
        The guessed variables.
    guesses : ndarray of int32, shape (G, U, q)
        Rows of the guessed levels.
    held : ndarray of int, shape (U, p)
        Rows of the own levels that the target's unit holds; -1 elsewhere.
    observed : ndarray of int, shape (U, p)
        Rows of own levels that the predictive is conditional on; -1 elsewhere.
    conditioned : ndarray of int, shape (U, p)
        Rows of synthetic levels that it is conditional on; -1 elsewhere.
    batch : ndarray of int, shape (H,)
        Batch of each draw.
    """

    tables: Tables
    unit: Ints
    truth: Ints
    linked: Ints
    columns: Ints
    guesses: npt.NDArray[np.int32]
    held: Ints
    observed: Ints
    conditioned: Ints
    batch: Ints

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """log of the sum over a batch's draws of weights_h p_h(y*) / p_h(y_i): (B, G, block)."""
        top = np.stack([log_weights[self.batch == b].max(axis=0) for b in range(self.n_batches)])
        sums = self._pass(block, np.exp(log_weights - top[self.batch]))[1]
        logs: Array = np.log(np.maximum(sums, FLOOR)) + top[:, None]
        return logs

    @property
    def n_batches(self) -> int:
        """Number B of batches."""
        return int(self.batch.max()) + 1

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h without i), shape (H, block)."""
        return self._pass(block, None)[0]

    @property
    def n_classes(self) -> int:
        """Most classes that a draw has people in, and one for all the others."""
        return int((self.tables.n > 0).sum(axis=1).max()) + 1

    def terms(
        self, u: int, targets: Targets, n_levels: Ints, log_weights: Array, draws: Ints
    ) -> Terms:
        """What `log_sums` adds up for target u, as a mixture of products; see `Terms`."""
        begin = self.truth[u] - targets.profiles[u].astype(np.int64)
        return Terms.of(self, u, begin, n_levels, log_weights, draws)

    def _pass(self, block: slice, weights: Array | None) -> tuple[Array, Array]:
        t, U = self.tables, len(self.unit[block])
        H, K = t.n.shape
        G = self.guesses.shape[0] if weights is not None else 0
        log_truth, sums = np.empty((H, U)), np.zeros((self.n_batches, U, G))
        inside, label = self.unit[block] >= 0, np.full((H, U), K, np.int16)
        label[:, inside] = t.label[:, self.unit[block][inside]]  # class K: nothing to take out
        rows = self.guesses[:, block].swapaxes(0, 1)  # shape (U, G, q)
        guesses = np.ascontiguousarray(rows, dtype=np.int64)
        of_draws = (t.Q, t.tau, t.n, t.alpha, t.n if t.pi is None else t.pi, t.pi is None)
        if weights is not None:
            of_targets = (label, self.truth[block], self.linked[block], self.held[block])
            wide = wide_sums(
                of_draws, t.fixed, self.columns, of_targets, guesses, weights, self.batch
            )
            if wide is not None:
                return log_truth, wide.swapaxes(1, 2)
        predict(
            of_draws,
            (t.fixed, self.columns),
            (label, *self._of_targets(block), guesses[:, :G]),
            np.empty((0, 0)) if weights is None else weights,
            self.batch,
            log_truth,
            sums,
        )
        return log_truth, sums.swapaxes(1, 2)

    def _of_targets(self, block: slice) -> tuple[Ints, ...]:
        return tuple(
            x[block] for x in (self.truth, self.linked, self.held, self.observed, self.conditioned)
        )


def collapse(
    prior: Prior,
    units: Units,
    draws: Draws,
    *,
    fixed: npt.NDArray[np.bool_],
    integrate_weights: bool,
    asked: Ints | None = None,
    rng: np.random.Generator,
) -> Tables:
    """Labels anew for each draw, then counts instead of level probabilities.

    A label drawn from p(z | y, theta_h) makes (theta_h, z) a draw of the joint posterior, so the
    chain itself need not keep labels. Labels are kept of the units ``asked`` for; None: of all.
    Cost: one sweep per draw.
    """
    H, (D, K), p = len(draws), draws.phi.shape[1:], len(prior.starts) - 1
    Q, tau = np.empty((H, D, K)), np.empty((H, p, K))
    n, n_units = np.empty((H, K), np.int64), len(units.positions)
    label = np.empty((H, n_units if asked is None else len(asked)), np.int16)
    given, fallen = given_arrays(units.given), None
    if prior.zeros is not None:
        from bayes_risk.models.mixture.zeros import (
            collapse_fallen_into,  # compiled only where it is needed
        )

        out = (Q, tau, n, label)
        fallen = collapse_fallen_into(prior, units, draws, given, fixed, out, rng=rng)
    else:
        step = H if asked is None else max(LABELS // max(n_units, 1), 1)
        for some in (slice(h, h + step) for h in range(0, H, step)):
            drawn = label[some] if asked is None else np.empty((len(n[some]), n_units), np.int16)
            collapse_draws(
                rng,
                (units.positions, units.multiplicity),
                given[:2],
                (draws.pi[some], draws.phi[some]),
                (prior.starts, prior.level, fixed),
                (Q[some], tau[some], n[some], drawn),
            )
            if asked is not None:
                label[some] = drawn[:, asked]
    return Tables(
        Q=Q,
        tau=tau,
        n=n,
        alpha=draws.alpha,
        pi=None if integrate_weights else draws.pi,
        label=label,
        fixed=fixed,
        fallen=fallen,
    )


def log_masses(positions: npt.NDArray[np.int32], draws: Draws) -> Array:
    """log p(row | theta_h) for rows of level positions, shape (H, rows)."""
    out = np.empty((len(draws), len(positions)))
    fill_log_masses(positions, draws.pi, draws.phi, out)
    return out
