"""Latent classes with structural zeros: layout of the boxes, and predictives of what is possible.

The model is cut off: ``p(y | Theta) = 1{y not in S} f(y | Theta) / (1 - pi_0(S; Theta))``. Its
sampler adds the ``n_0 ~ NegBinomial(N, pi_0)`` records that fell into S (Manrique-Vallier & Reiter
2014), and so do the predictives here. Derivations stand in `docs/mixtures.md`.

Compiled loops of latent classes with structural zeros: rows possible given some levels.

Shapes and the tuple ``zero`` are those of `latent_zeros_kernels.py`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from bayes_risk._core.disjoint_boxes import held
from bayes_risk._core.errors import ModelError

from .state import Array, Draws, Flags, Ints, Prior, Units, ZeroLayout, n_normalised
from .sweep import TINY, cumulate, draw_class
from .zeros_kernels import LEAST, box_masses, factor_masses, fill_zero_mass, meets

ROUNDING = 1e-13


@numba.njit(cache=True, nogil=True)
def fill_log_possible(tables, given, label, truth, zero, out):
    """out[h, u] = log of the share of what is possible, given the target's unsynthesised values.

    sum_k w_k (1 - sum_b prod_j G_bjk) / sum_k w_k, w_k = pi_k prod of the given levels, the target
    taken out of its own class (label K: nowhere).
    """
    all_Q, all_tau, pi = tables
    others, us_columns = np.flatnonzero(~given), np.flatnonzero(given)
    us = np.ascontiguousarray(truth.T[given])  # shape (u, U)
    weights, K = np.empty(pi.shape[1]), pi.shape[1]
    for h in range(pi.shape[0]):
        Q, G = all_Q[h], factor_masses(zero, all_Q[h])
        mass = box_masses(zero, G, others)
        for u in range(truth.shape[0]):
            weights[:] = pi[h]
            for j in range(us.shape[0]):
                for k in range(K):
                    weights[k] *= Q[us[j, u], k]
            k0, within = label[h, u], 0.0
            for b in range(mass.shape[0]):
                if meets(zero[0], b, us, u, us_columns):
                    for k in range(K):
                        if k == k0:
                            within += weights[k] * own_share(
                                zero, G, all_tau[h], truth, u, b, k, others
                            )
                        else:
                            within += weights[k] * mass[b, k]
            out[h, u] = math.log(max(1.0 - within / max(weights.sum(), TINY), LEAST))


@numba.njit(cache=True, nogil=True)
def own_share(zero, G, tau, truth, u, b, k, columns):
    """Mass of box b in the class k of target u, with the target taken out of the counts."""
    boxes, of, narrow, _, _ = zero
    share = 1.0
    for j in columns:
        f = of[b, j]
        if narrow[f]:
            share *= (G[f, k] * tau[j, k] - boxes[b, truth[u, j]]) / (tau[j, k] - 1.0)
    return share


@numba.njit(cache=True, nogil=True)
def draw_possible_rows(rng, positions, zero, known, pi, phi, starts, columns, out):
    """Synthetic level codes that are possible together with what is known; out (n, q).

    A class in proportion to what is possible there, then level after level: each weighted with the
    share of what is still possible after it, which boxes that are disjoint give as one minus a sum.
    ``positions`` (n, w) are the levels of the columns that are ``known`` (p,).
    """
    boxes, of, narrow, _, _ = zero
    K, B, us_columns = pi.shape[0], boxes.shape[0], np.flatnonzero(known)
    G = factor_masses(zero, phi)
    tails = np.ones((columns.shape[0] + 1, B, K))  # mass of a box in the columns from j on
    for j in range(columns.shape[0] - 1, -1, -1):
        for b in range(B):
            f = of[b, columns[j]]
            for k in range(K):
                tails[j, b, k] = tails[j + 1, b, k] * (G[f, k] if narrow[f] else 1.0)
    us = np.ascontiguousarray(positions.T)
    masses, alive = np.empty(K), np.zeros(B, np.bool_)
    for i in range(positions.shape[0]):
        for b in range(B):
            alive[b] = meets(boxes, b, us, i, us_columns)
        for k in range(K):
            masses[k] = pi[k]
            for j in range(us.shape[0]):
                masses[k] *= phi[us[j, i], k]
            masses[k] *= share_left(within_alive(alive, tails, 0, k))
        cumulate(masses)
        drawn = draw_class(rng, masses)
        for j in range(columns.shape[0]):
            begin, end = starts[columns[j]], starts[columns[j] + 1]
            level = draw_possible_level(rng, begin, end, boxes, alive, tails, j, drawn, phi)
            out[i, j] = level - begin
            for b in range(B):
                alive[b] = alive[b] and boxes[b, level]


@numba.njit(cache=True, nogil=True)
def share_left(within):
    """What is left of one; nothing where that is rounding."""
    return 1.0 - within if within < 1.0 - ROUNDING else 0.0


@numba.njit(cache=True, nogil=True)
def within_alive(alive, tails, j, k):
    """Mass, from column j on, of the boxes that hold all that was drawn before."""
    total = 0.0
    for b in range(alive.shape[0]):
        if alive[b]:
            total += tails[j, b, k]
    return total


@numba.njit(cache=True, nogil=True)
def draw_possible_level(rng, begin, end, boxes, alive, tails, j, k, phi):
    """One level of column j in class k, weighted with what stays possible after it."""
    weights = np.empty(end - begin)
    for r in range(begin, end):
        within = 0.0
        for b in range(alive.shape[0]):
            if alive[b] and boxes[b, r]:
                within += tails[j + 1, b, k]
        weights[r - begin] = phi[r, k] * share_left(within)
    cumulate(weights)
    return begin + draw_class(rng, weights)


def log_possible(zeros: ZeroLayout, draws: Draws) -> Array:
    """log(1 - pi_0) of each draw, shape (H,)."""
    mass = np.empty(len(draws))
    fill_zero_mass(zeros.arrays, draws.pi, draws.phi, mass)
    logs: Array = np.log(np.maximum(1.0 - mass, LEAST))
    return logs


def log_possible_given(
    zeros: ZeroLayout, draws: Draws, rows: npt.NDArray[np.integer], known: Flags
) -> Array:
    """log of the share of what is possible given the known columns of rows (V, p), (H, V)."""
    H, p, K = len(draws), len(zeros.starts) - 1, draws.pi.shape[1]
    out = np.empty((H, len(rows)))
    fill_log_possible(
        (draws.phi, np.ones((H, p, K)), draws.pi),
        known,
        np.full((H, len(rows)), K),
        rows.astype(np.int64),
        zeros.arrays,
        out,
    )
    return out


def log_possible_release(
    prior: Prior, draws: Draws, rows: npt.NDArray[np.integer], known: Flags
) -> Array | float:
    """The same summed over all rows, (H,): what normalises a release; 0 without zeros."""
    if prior.zeros is None:
        return 0.0
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    total: Array = log_possible_given(prior.zeros, draws, distinct, known) @ counts
    return total


def possible_rows(
    zeros: ZeroLayout,
    known_rows: npt.NDArray[np.int32],
    known: Flags,
    pi: Array,
    phi: Array,
    columns: Ints,
    *,
    rng: np.random.Generator,
) -> npt.NDArray[np.int32]:
    """Codes (n, q) of columns drawn given the known ones (n, w), restricted to what is possible.

    Raises
    ------
    ModelError
        The draw of Theta leaves a record no possible value, up to rounding.
    """
    out = np.empty((len(known_rows), len(columns)), np.int32)
    draw_possible_rows(rng, known_rows, zeros.arrays, known, pi, phi, zeros.starts, columns, out)
    rows = np.empty((len(out), len(known)), np.int64)
    rows[:, known], rows[:, columns] = known_rows, out + zeros.starts[columns]
    if held(zeros.boxes, rows).any():
        raise ModelError(
            "a draw of the model gives some record's possible values a probability below rounding; "
            "synthesise with another random_seed, or fit with more draws"
        )
    return out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TruncatedPredictive:
    """A predictive normalised over what is possible; impossible guesses have none.

    Attributes
    ----------
    inner : predictive
        Of the model that is not cut off, the records that fell into the zeros among the counts.
    zeros : ZeroLayout
    impossible : ndarray of bool, shape (G, U)
        Guesses of what nobody can have.
    left_out : ndarray of bool, shape (U,)
        Targets that are taken out of the data.
    log_factor : ndarray, shape (H, 2), or None
        What turns its density of a target into one of what is possible: of targets that are taken
        out, and of others. None: it depends on the target's unsynthesised values.
    given : ndarray of bool, shape (q,)
        The unsynthesised variables, where the density is conditional on them.
    """

    inner: Any
    zeros: ZeroLayout
    impossible: Flags
    left_out: Flags
    log_factor: Array | None
    given: Flags

    @property
    def batch(self) -> Ints:
        """Batch of each draw, shape (H,)."""
        batch: Ints = self.inner.batch
        return batch

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h without i), shape (H, block)."""
        logs: Array = self.inner.log_truth(block) + self._log_factor(block)
        return logs

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """As the inner one's, (B, G, block): the factor of a target cancels."""
        sums = self.inner.log_sums(block, log_weights)
        return np.where(self.impossible[:, block], -np.inf, sums)

    @property
    def n_classes(self) -> int:
        """As the inner one's."""
        return int(self.inner.n_classes)

    def terms(self, *which: Any) -> Any:
        """As the inner one's: what is impossible is to be left out of the table."""
        return self.inner.terms(*which)

    def _log_factor(self, block: slice) -> Array:
        if self.log_factor is not None:
            return self.log_factor[:, np.where(self.left_out[block], 0, 1)]
        unit, t = self.inner.unit[block], self.inner.tables
        H, K = t.n.shape
        label = np.where(unit >= 0, t.label[:, np.maximum(unit, 0)], K)
        out = np.empty((H, len(unit)))
        fill_log_possible(
            (t.Q, t.tau, t.pi),
            self.given,
            label.astype(np.int64),
            self.inner.truth[block].astype(np.int64),
            self.zeros.arrays,
            out,
        )
        return -out


def log_factors(units: Units, n_0: Ints) -> Array:
    """What a density is multiplied with given that n_0 records fell: of a target, of others.

    Taking a target out of N rows multiplies it by ``(N + n_0 - 1) / (N - 1)``, adding one by ``(N +
    n_0) / N``.
    """
    N = n_normalised(units)
    return np.stack([np.log1p(n_0 / (N - 1.0)), np.log1p(n_0 / float(N))], axis=1)
