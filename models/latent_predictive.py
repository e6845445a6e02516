"""Leave-one-out predictives of latent-class draws, with the level probabilities integrated out.

Given the labels, record i is taken out of its class and p(y* | z_-i, y_-i) is a sum over classes of
products of (count + a) / (total + d a), the class weights being the stick-breaking predictive. The
derivation stands in `docs/collapsed-predictive.md`. Columns can instead be *fixed* at their drawn
probabilities: all of them for the published importance sampler, the unsynthesised ones where the
release was drawn conditionally on them.
"""

import math
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from .latent_class import RESCALE_EVERY, TINY, draw_labels
from .latent_sampler import Draws, Prior, Units

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """What the predictives need of each draw.

    Shapes: ``Q (H, D, K)`` probability of a level in a class; ``tau (H, p, K)`` class totals plus
    prior mass; ``n (H, K)`` class counts; ``alpha (H,)``; ``pi (H, K)`` or None (then the weights
    are integrated out); ``label (H, U)`` one label per unit.
    """

    Q: Array
    tau: Array
    n: Ints
    alpha: Array
    pi: Array | None
    label: npt.NDArray[np.int16]
    fixed: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentPredictive:
    """p(y* | theta_h without the target) for a list of targets and their guesses.

    Attributes
    ----------
    tables : Tables
        Of the H draws.
    unit : ndarray of int, shape (U,)
        Unit of each target among the sampled ones; -1 where the target was left out of the fit, so
        that nothing is to be taken out.
    truth : ndarray of int, shape (U, p)
        Rows of the target's own levels.
    linked : ndarray of int, shape (U, p)
        Rows of its synthetic levels if the release was drawn from its own class; -1 elsewhere.
    columns : ndarray of int, shape (q,)
        The guessed variables.
    guesses : ndarray of int, shape (G, U, q)
        Rows of the guessed levels.
    given : ndarray of bool, shape (p,)
        Variables that the predictive is conditional on (they must be fixed).
    batch : ndarray of int, shape (H,)
        Batch of each draw.
    """

    tables: Tables
    unit: Ints
    truth: Ints
    linked: Ints
    columns: Ints
    guesses: Ints
    given: npt.NDArray[np.bool_]
    batch: Ints

    def weighted_ratios(self, block: slice, weights: Array) -> Array:
        """sum over the draws of a batch of weights_h p_h(y*) / p_h(y_i): shape (B, G, block)."""
        return self._pass(block, weights)[1]

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h without i), shape (H, block)."""
        return self._pass(block, None)[0]

    def _pass(self, block: slice, weights: Array | None) -> tuple[Array, Array]:
        t, U = self.tables, len(self.unit[block])
        H, K = t.n.shape
        n_batches = int(self.batch.max()) + 1
        G = self.guesses.shape[0] if weights is not None else 0
        log_truth, sums = np.empty((H, U)), np.zeros((n_batches, U, G))
        label = np.where(
            self.unit[block] >= 0, t.label[:, np.maximum(self.unit[block], 0)], K
        )  # class K: nothing to take out
        guesses = np.ascontiguousarray(self.guesses[:, block].swapaxes(0, 1))  # shape (U, G, q)
        _predict(
            (t.Q, t.tau, t.n, t.alpha, t.n if t.pi is None else t.pi, t.pi is None),
            (t.fixed, self.given, self.columns),
            (label, self.truth[block], self.linked[block], guesses[:, :G]),
            np.empty((0, 0)) if weights is None else weights,
            self.batch,
            log_truth,
            sums,
        )
        return log_truth, sums.swapaxes(1, 2)


def collapse(
    prior: Prior,
    units: Units,
    draws: Draws,
    *,
    fixed: npt.NDArray[np.bool_],
    integrate_weights: bool,
    rng: np.random.Generator,
) -> Tables:
    """Labels anew for each draw, then counts instead of level probabilities.

    A label drawn from p(z | y, theta_h) makes (theta_h, z) a draw of the joint posterior, so the
    chain itself need not keep labels. Cost: one sweep per draw.
    """
    H, (D, K), p = len(draws), draws.phi.shape[1:], len(prior.starts) - 1
    Q, tau = np.empty((H, D, K)), np.empty((H, p, K))
    n, label = np.empty((H, K), np.int64), np.empty((H, len(units.positions)), np.int16)
    given = units.given
    extra = (
        (given.positions, given.multiplicity)
        if given is not None
        else (np.empty((0, 0), np.int32), np.empty(0, np.int64))
    )
    _collapse(
        rng,
        (units.positions, units.multiplicity),
        extra,
        (draws.pi, draws.phi),
        (prior.starts, prior.level, fixed),
        (Q, tau, n, label),
    )
    return Tables(
        Q=Q,
        tau=tau,
        n=n,
        alpha=draws.alpha,
        pi=None if integrate_weights else draws.pi,
        label=label,
        fixed=fixed,
    )


def log_masses(positions: npt.NDArray[np.int32], draws: Draws) -> Array:
    """log p(row | theta_h) for rows of level positions, shape (H, rows)."""
    out = np.empty((len(draws), len(positions)))
    _log_masses(positions, draws.pi, draws.phi, out)
    return out


@numba.njit(cache=True, nogil=True)
def _collapse(rng, data, extra, theta, layout, out):
    pi, phi = theta
    starts, a, fixed = layout
    Q, tau, n, label = out
    K = pi.shape[1]
    n_z, M = np.zeros(K, np.int64), np.zeros(phi.shape[1:], np.int64)
    M_z, u_label = np.zeros_like(M), np.zeros(data[0].shape[0], np.int64)
    z_label = np.zeros(extra[0].shape[0], np.int64)
    for h in range(pi.shape[0]):
        draw_labels(rng, data[0], data[1], pi[h], phi[h], n[h], M, u_label)
        if z_label.shape[0] > 0:
            draw_labels(rng, extra[0], extra[1], pi[h], phi[h], n_z, M_z, z_label)
            M += M_z
        label[h] = u_label
        Q[h, -1] = 1.0
        for j in range(starts.shape[0] - 1):
            d = starts[j + 1] - starts[j]
            for k in range(K):
                total = d * a
                for r in range(starts[j], starts[j + 1]):
                    total += M[r, k]
                tau[h, j, k] = total
                for r in range(starts[j], starts[j + 1]):
                    Q[h, r, k] = phi[h, r, k] if fixed[j] else (M[r, k] + a) / total


@numba.njit(cache=True, nogil=True)
def _log_masses(positions, pi, phi, out):
    K = pi.shape[1]
    masses = np.empty(K)
    for h in range(pi.shape[0]):
        for u in range(positions.shape[0]):
            masses[:] = pi[h]
            out[h, u] = scaled_product(positions[u], phi[h], masses)
            total = 0.0
            for k in range(K):
                total += masses[k]
            out[h, u] += math.log(max(total, TINY))


@numba.njit(cache=True, nogil=True)
def scaled_product(positions, phi, masses):
    """Multiply rows of phi into masses; returns the log of what was divided out on the way."""
    scale = 0.0
    for j in range(positions.shape[0]):
        row = positions[j]
        top = 0.0
        for k in range(masses.shape[0]):
            masses[k] *= phi[row, k]
            top = max(top, masses[k])
        if j % RESCALE_EVERY == RESCALE_EVERY - 1:
            scale += math.log(max(top, TINY))
            for k in range(masses.shape[0]):
                masses[k] /= max(top, TINY)
    return scale


@numba.njit(cache=True, nogil=True)
def class_weights(n, alpha, removed, out):
    """E[pi_k | labels less one of class `removed`], the stick-breaking predictive; shape (K,).

    prod_{l<k} (alpha + n_{>l}) / (1 + alpha + n_{>=l}) times (1 + n_k) / (1 + alpha + n_{>=k}).
    """
    K = n.shape[0]
    at_least = n.sum() - (removed < K)
    rest = 1.0
    for k in range(K - 1):
        here = n[k] - (k == removed)
        out[k] = rest * (1.0 + here) / (1.0 + alpha + at_least)
        rest *= (alpha + at_least - here) / (1.0 + alpha + at_least)
        at_least -= here
    out[K - 1] = rest


@numba.njit(cache=True, nogil=True)
def own_class(Q, tau, fixed, j, y, z, k0, level):
    """F(level) in the target's own class, its y (and linked z) taken out of the counts first."""
    if fixed[j]:
        return Q[level, k0] * (Q[z, k0] if z >= 0 else 1.0)
    left = tau[j, k0] - 1.0 - (z >= 0)
    here = (Q[level, k0] * tau[j, k0] - (level == y) - (level == z)) / left
    if z < 0:
        return here
    at_z = Q[z, k0] * tau[j, k0] - (z == y) - 1.0
    return here * (at_z + (level == z)) / (left + 1.0)


@numba.njit(cache=True, nogil=True)
def linked_factor(Q, tau, fixed, j, z, same, k):
    """Probability of the linked level z after another value in class k (same: equal to z)."""
    if fixed[j]:
        return Q[z, k]
    return (Q[z, k] * tau[j, k] + same) / (tau[j, k] + 1.0)


@numba.njit(cache=True, nogil=True)
def truth_terms(Q, tau, fixed, truth, linked, u, k0, base, terms):
    """Class by class the mass of the target's values; (own class's mass, log scale) are returned.

    ``terms[k0]`` is set to zero: the target's own class is reckoned apart, without the target.
    """
    K = terms.shape[0]
    scale, own = 0.0, 0.0
    for k in range(K):
        terms[k] = base[k0, k]
    if k0 < K:
        own = base[k0, k0]
    for j in range(truth.shape[1]):
        y, z = truth[u, j], linked[u, j]
        for k in range(K):
            terms[k] *= Q[y, k]
        if z >= 0:
            for k in range(K):
                terms[k] *= linked_factor(Q, tau, fixed, j, z, y == z, k)
        if k0 < K:
            own *= own_class(Q, tau, fixed, j, y, z, k0, y)
        if j % RESCALE_EVERY == RESCALE_EVERY - 1:
            top = max(own, TINY)
            for k in range(K):
                top = max(top, terms[k])
            scale += math.log(top)
            own /= top
            for k in range(K):
                terms[k] /= top
    if k0 < K:
        terms[k0] = 0.0
    return own, scale


@numba.njit(cache=True, nogil=True)
def log_condition(Q, base, k0, given, truth, u):
    """log sum_k base_k prod over the given variables, the probability of what is conditioned on."""
    total = 0.0
    for k in range(base.shape[1]):
        mass = base[k0, k]
        for j in range(truth.shape[1]):
            if given[j]:
                mass *= Q[truth[u, j], k]
        total += mass
    return math.log(max(total, TINY))


@numba.njit(cache=True, nogil=True)
def without_columns(Q, inverse, tau, fixed, columns, truth, linked, u, terms, W):
    """W[j, 0]: terms divided by the factor of the true level of guessed variable j.

    ``W[j, 1]``: the same where a guess changes the factor of the linked level.
    """
    for j in range(columns.shape[0]):
        c = columns[j]
        y, z = truth[u, c], linked[u, c]
        for k in range(terms.shape[0]):
            W[j, 0, k] = terms[k] * inverse[y, k]
        if z >= 0:
            for k in range(terms.shape[0]):
                then = linked_factor(Q, tau, fixed, c, z, y != z, k)
                W[j, 1, k] = W[j, 0, k] * then / linked_factor(Q, tau, fixed, c, z, y == z, k)


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def dot(W, j, e, Q, r):
    """sum_k W[j, e, k] Q[r, k]."""
    total = 0.0
    for k in range(Q.shape[1]):
        total += W[j, e, k] * Q[r, k]
    return total


@numba.njit(cache=True, nogil=True)
def changes_of(guesses, truth, columns):
    """How many variables each guess changes, and which is the first; shapes (U, G)."""
    count = np.zeros(guesses.shape[:2], np.int64)
    first = np.zeros(guesses.shape[:2], np.int64)
    for u in range(guesses.shape[0]):
        for g in range(guesses.shape[1]):
            for j in range(columns.shape[0] - 1, -1, -1):
                if guesses[u, g, j] != truth[u, columns[j]]:
                    count[u, g] += 1
                    first[u, g] = j
    return count, first


@numba.njit(cache=True, nogil=True)
def others_mass(guesses, truth, linked, u, g, columns, Q, W, terms, product):
    """Mass of a guess in the classes that the target is not in; any number of changes."""
    K = terms.shape[0]
    for k in range(K):
        product[k] = terms[k]
    for j in range(columns.shape[0]):
        y, z, r = truth[u, columns[j]], linked[u, columns[j]], guesses[u, g, j]
        if r != y:
            e = int(z >= 0 and (r == z) != (y == z))
            for k in range(K):
                if terms[k] > 0.0:
                    product[k] *= Q[r, k] * W[j, e, k] / terms[k]
    total = 0.0
    for k in range(K):
        total += product[k]
    return total


@numba.njit(cache=True, nogil=True)
def own_mass(guesses, truth, linked, u, g, columns, Q, tau, fixed, k0, own, own_level):
    """Mass of a guess in the target's own class."""
    for j in range(columns.shape[0]):
        c, r = columns[j], guesses[u, g, j]
        if r != truth[u, c]:
            factor = own_class(Q, tau, fixed, c, truth[u, c], linked[u, c], k0, r)
            own *= factor * own_level[j]
    return own


@numba.njit(cache=True, nogil=True)
def guess_masses(
    Q, tau, fixed, columns, truth, linked, guesses, u, k0, own, total,
    changes, terms, W, own_level, product, v, out,
):  # fmt: skip
    """Add v times the mass of every guess to out[u]."""
    count, first = changes
    K = terms.shape[0]
    if k0 < K:
        for j in range(columns.shape[0]):
            c = columns[j]
            y = truth[u, c]
            own_level[j] = 1.0 / own_class(Q, tau, fixed, c, y, linked[u, c], k0, y)
    for g in range(guesses.shape[1]):
        if count[u, g] == 0:
            out[u, g] += v * total
        elif count[u, g] == 1:
            j = first[u, g]
            c, r = columns[j], guesses[u, g, j]
            y, z = truth[u, c], linked[u, c]
            mass = dot(W, j, int(z >= 0 and (r == z) != (y == z)), Q, r)
            if k0 < K:
                mass += own * own_class(Q, tau, fixed, c, y, z, k0, r) * own_level[j]
            out[u, g] += v * mass
        else:
            mass = others_mass(guesses, truth, linked, u, g, columns, Q, W, terms, product)
            if k0 < K:
                mass += own_mass(
                    guesses, truth, linked, u, g, columns, Q, tau, fixed, k0, own, own_level
                )
            out[u, g] += v * mass


@numba.njit(cache=True, nogil=True)
def _predict(tables, layout, targets, weights, batch, log_truth, sums):
    """Fill log p_h(y_i), shape (H, U), and the weighted sums of p_h(y*) / p_h(y_i), (B, U, G)."""
    all_Q, all_tau, n, alpha, pi, integrated = tables
    fixed, given, columns = layout
    label, truth, linked, guesses = targets
    H, K = n.shape
    U, G, q = truth.shape[0], guesses.shape[1], columns.shape[0]
    base, inverse = np.empty((K + 1, K)), np.empty(all_Q.shape[1:])
    terms, product = np.empty(K), np.empty(K)
    W, own_level = np.empty((q, 2, K)), np.ones(q)
    changes = changes_of(guesses, truth, columns)
    conditioned = given.any()
    for h in range(H):
        Q, tau, out = all_Q[h], all_tau[h], sums[batch[h]]
        for k in range(K + 1):
            if integrated:
                class_weights(n[h], alpha[h], k, base[k])
            else:
                base[k] = pi[h]
        if G > 0:
            inverse[:] = 1.0 / np.maximum(Q, TINY)
        for u in range(U):
            k0 = label[h, u]
            own, scale = truth_terms(Q, tau, fixed, truth, linked, u, k0, base, terms)
            total = own
            for k in range(K):
                total += terms[k]
            total = max(total, TINY)
            log_truth[h, u] = math.log(total) + scale
            if conditioned:
                log_truth[h, u] -= log_condition(Q, base, k0, given, truth, u)
            if G > 0:
                without_columns(Q, inverse, tau, fixed, columns, truth, linked, u, terms, W)
                guess_masses(
                    Q, tau, fixed, columns, truth, linked, guesses, u, k0, own, total,
                    changes, terms, W, own_level, product, weights[h, u] / total, out,
                )  # fmt: skip
