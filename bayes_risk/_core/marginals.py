"""Distributions over the values of some of the variables, from those over joint guesses.

Shapes: G joint guesses of U cases in k variables; at most K different values a case. Values are in
ascending order (by the first variable, then the next); a case that has fewer of them is padded at
the end with its largest values, which get no probability.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
TIE = 1e-9  # relative difference of probabilities that rounding explains


class Marginal(NamedTuple):
    """Prior and posterior over values, of every case.

    Attributes
    ----------
    values : ndarray, shape (K, U, k)
        The different values, ascending.
    filled : ndarray of bool, shape (K, U)
        False for padding.
    prior, posterior : ndarrays, shape (K, U)
        Probabilities; columns sum to 1.
    spread : ndarray, shape (K, U)
        Sum over the joint guesses with a value of posterior probability times standard error of the
        log evidence.
    truth : ndarray of int, shape (U,)
        Which value is the true one.
    """

    values: npt.NDArray[Any]
    filled: npt.NDArray[np.bool_]
    prior: Array
    posterior: Array
    spread: Array
    truth: Ints

    @property
    def true_values(self) -> npt.NDArray[Any]:
        """Values of the truth, shape (U, k)."""
        return self.values[self.truth, np.arange(len(self.truth))]

    @property
    def is_truth(self) -> npt.NDArray[np.bool_]:
        """True at the true value, shape (K, U)."""
        flags: npt.NDArray[np.bool_] = np.arange(len(self.values))[:, None] == self.truth
        return flags


def marginalise(
    codes: npt.NDArray[Any],
    truth: npt.NDArray[np.integer],
    log_prior: Array,
    log_probability: Array,
    mcse: Array,
) -> Marginal:
    """Add up the joint guesses that share a value.

    Parameters
    ----------
    codes : ndarray, shape (G, U, k)
        The guesses, of the k variables that are kept.
    truth : ndarray of int, shape (U,)
        Which guess is true.
    log_prior, log_probability : ndarrays, shape (G, U)
        Guesses with a prior of minus infinity are not counted.
    mcse : ndarray, shape (G, U)
        Standard errors of the log evidence.

    Returns
    -------
    Marginal
        In time O(U G log G).
    """
    counted = np.isfinite(log_prior)
    own = codes[truth, np.arange(len(truth))]  # shape (U, k)
    group, codes = _groups(np.where(counted[..., None], codes, own))  # shape (G, U)
    size = group.max(axis=0) + 1  # shape (U,)
    K, U = int(size.max()), len(truth)

    def total(x: Array) -> Array:
        cell = (group * U + np.arange(U)).ravel()
        added = np.bincount(cell, weights=x.ravel(), minlength=K * U).astype(float)
        return added.reshape(K, U)

    p = np.exp(log_probability)
    values = np.repeat(codes.max(axis=0, keepdims=True), K, axis=0)
    values[group, np.arange(U)] = codes
    return Marginal(
        values=values,
        filled=np.arange(K)[:, None] < size,
        prior=total(np.exp(log_prior)),
        posterior=total(p),
        spread=total(np.where(p > 0, p * mcse, 0.0)),
        truth=group[truth, np.arange(U)],
    )


def _groups(codes: npt.NDArray[Any]) -> tuple[Ints, npt.NDArray[Any]]:
    """Number of each guess's value among the ascending values of its case; and the guesses."""
    order = np.lexsort(np.moveaxis(codes, 2, 0)[::-1], axis=0)  # shape (G, U)
    ordered = np.take_along_axis(codes, order[..., None], axis=0)
    number = np.zeros(order.shape, dtype=np.int64)
    number[1:] = np.cumsum((ordered[1:] != ordered[:-1]).any(axis=2), axis=0)
    group = np.empty_like(number)
    np.put_along_axis(group, order, number, axis=0)
    return group, codes


def expectation(p: Array, f: Array) -> Array:
    """Sum over values of p f, shape (U,)."""
    total: Array = (p * f).sum(axis=0)
    return total


def error_bound(marginal: Marginal, f: Array) -> Array:
    """Upper bound of the standard error of the posterior expectation of f (K, U); shape (U,).

    To first order ``d E[f] = sum_g p_g (f_g - E[f]) dE_g`` where ``dE_g`` is the error of guess g's
    log evidence. However these depend on each other, the standard deviation of a sum is at most the
    sum of standard deviations: ``sum_g p_g |f_g - E[f]| sd(E_g)``.
    """
    return expectation(marginal.spread, np.abs(f - expectation(marginal.posterior, f)))


def mode_share(p: Array) -> Array:
    """Share of each value in the place of the likeliest one: 1, 0, or 1 / ties; shape (K, U)."""
    tied = p >= p.max(axis=0) * (1 - TIE)
    share: Array = tied / tied.sum(axis=0)
    return share


def smallest_region(p: Array, mass: float) -> Array:
    """Membership in the smallest set of values that holds the mass, shape (K, U).

    1 inside, 0 outside; where several sets are equally small because probabilities tie, the values
    in question share the places that are left.
    """
    ordered = -np.sort(-p, axis=0)
    size = (np.cumsum(ordered, axis=0) < mass * (1 - TIE)).sum(axis=0) + 1  # shape (U,)
    least = np.take_along_axis(ordered, np.minimum(size, len(p))[None] - 1, axis=0)
    above, tied = p > least * (1 + TIE), np.abs(p - least) <= least * TIE
    left = size - above.sum(axis=0)
    member: Array = above + tied * (left / tied.sum(axis=0))
    return member


def widths(values: Array, filled: npt.NDArray[np.bool_]) -> Array:
    """Widths of the cells around ascending values (K, U): half way to either neighbour.

    The first and the last cell reach as far outwards as inwards; a single value has no width, nor
    has padding, which repeats the last value.
    """
    gap = np.diff(values, axis=0)  # shape (K - 1, U)
    outside = np.zeros((1, values.shape[1]))
    below, above = np.concatenate([outside, gap]), np.concatenate([gap, outside])
    last = np.arange(len(values))[:, None] == filled.sum(axis=0) - 1
    width: Array = (below + above) / 2
    width[last], width[0] = below[last], above[0]
    return width
