"""Effects of a log-linear model that sum to zero, and the mode of their posterior.

Letters: ``C`` cells, ``K`` effects, ``P`` pairs of keys; ``X`` (C, K) gives ``log mu = X theta``.
The mode starts the chains, and the curvature there is their mass matrix. Derivation:
``docs/population.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .loglinear import Terms

Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

CONSTANT_SCALE, MAIN_SCALE = 5.0, 2.0
PAIR_CENTRE, PAIR_SPREAD = float(np.log(0.5)), 0.7  # of the log scale of a pair's interactions
ROUNDS = 30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Effects:
    """The constant, then the main effects of each key, then the interactions of each pair.

    Attributes
    ----------
    cells : ndarray of int64, shape (C, q)
        Level codes; every level occurs.
    terms : tuple of tuple of int
        Blocks of effects: keys ``(a,)`` and pairs ``(a, b)``.
    basis : tuple of ndarray, shapes (d_a, d_a - 1)
        Orthonormal contrasts of each key: independent normal coordinates make effects that are
        normal, sum to 0, and treat all levels alike.
    """

    cells: Ids
    terms: Terms
    basis: tuple[Reals, ...]

    @classmethod
    def of(cls, cells: Ids, pairs: Sequence[tuple[int, ...]]) -> "Effects":
        """Lay out the effects of keys, and of the pairs given."""
        columns = [np.unique(column, return_inverse=True) for column in cells.T]
        basis = tuple(_contrasts(len(levels)) for levels, _ in columns)
        terms = [(a,) for a in range(len(basis))] + list(pairs)
        varying = tuple(t for t in terms if all(basis[a].shape[1] for a in t))
        return cls(cells=np.column_stack([c for _, c in columns]), terms=varying, basis=basis)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shape of each block of effects."""
        return [tuple(self.basis[a].shape[1] for a in term) for term in self.terms]

    @property
    def blocks(self) -> list[slice]:
        """Where each block of effects stands in theta."""
        ends = np.cumsum([1, *(int(np.prod(shape)) for shape in self.shapes)]).tolist()
        return [slice(*ends[k : k + 2]) for k in range(len(self.terms))]

    @property
    def n_effects(self) -> int:
        """Number K of effects."""
        return 1 + sum(int(np.prod(shape)) for shape in self.shapes)

    @property
    def pairs(self) -> list[int]:
        """Which blocks are interactions."""
        return [k for k, term in enumerate(self.terms) if len(term) == 2]

    @property
    def pair_of(self) -> Ids:
        """Number of the pair of each effect, -1 for the constant and main effects; shape (K,)."""
        pair = np.full(self.n_effects, -1)
        for number, k in enumerate(self.pairs):
            pair[self.blocks[k]] = number
        return pair

    @property
    def fixed_scale(self) -> Reals:
        """Prior scale of the constant and main effects, 1 of interactions; shape (K,)."""
        scale = np.where(self.pair_of < 0, MAIN_SCALE, 1.0)
        scale[0] = CONSTANT_SCALE
        return scale

    def design(self) -> Reals:
        """X, shape (C, K)."""
        columns = [np.ones((len(self.cells), 1))]
        for term in self.terms:
            block = columns[0]
            for a in term:
                part = self.basis[a][self.cells[:, a]]
                block = (block[:, :, None] * part[:, None, :]).reshape(len(part), -1)
            columns.append(block)
        return np.hstack(columns)


def _contrasts(d: int) -> Reals:
    """Orthonormal columns that sum to zero, shape (d, d - 1): Helmert's."""
    k = np.arange(1.0, d)
    columns = np.triu(np.ones((d, d - 1))) - np.eye(d, d - 1, -1) * k
    return np.asarray(columns / np.sqrt(k * (k + 1)))


def posterior_mode(effects: Effects, count: Reals, centre: float) -> tuple[Reals, Reals, Reals]:
    """Mode of theta given the scales of interactions, these scales, and the covariance there.

    Newton's method for theta; the log scales are moved to the maximum of their expected log
    density (an EM step) until they rest.

    Parameters
    ----------
    effects : Effects
    count : ndarray, shape (C,)
        Sample counts.
    centre : float
        Prior mean of the constant.

    Returns
    -------
    theta : ndarray, shape (K,)
    log_scale : ndarray, shape (P,)
    covariance : ndarray, shape (K, K)
    """
    X, pair = effects.design(), effects.pair_of
    prior_mean = np.where(np.arange(effects.n_effects) == 0, centre, 0.0)
    theta, log_scale = prior_mean.copy(), np.full(len(effects.pairs), PAIR_CENTRE)
    for _ in range(ROUNDS):
        scale = np.append(np.exp(log_scale), 1.0)[pair] * effects.fixed_scale
        theta, covariance = _newton(X, count, theta, prior_mean, scale**-2.0)
        moved = _log_scales(theta**2 + covariance.diagonal(), pair, log_scale)
        rest = np.abs(moved - log_scale).max(initial=0.0) < 0.01
        log_scale = moved
        if rest:
            break
    return theta, log_scale, covariance


def _newton(
    X: Reals, count: Reals, theta: Reals, prior_mean: Reals, precision: Reals
) -> tuple[Reals, Reals]:
    """Mode of a concave log posterior by damped Newton steps, and its inverse curvature."""

    def height(at: Reals) -> float:
        eta = X @ at
        with np.errstate(over="ignore"):
            return float(count @ eta - np.exp(eta).sum() - precision @ (at - prior_mean) ** 2 / 2)

    now = height(theta)
    for _ in range(100):
        mu = np.exp(X @ theta)
        curvature = (X * mu[:, None]).T @ X + np.diag(precision)
        step = np.linalg.solve(curvature, X.T @ (count - mu) - precision * (theta - prior_mean))
        length = 1.0
        while height(theta + length * step) < now and length > 1e-8:
            length /= 2
        gain = height(theta + length * step) - now
        theta, now = theta + length * step, now + gain
        if gain < 1e-6:
            break
    return theta, np.asarray(np.linalg.inv(curvature), dtype=np.float64)


def _log_scales(square: Reals, pair: Ids, log_scale: Reals) -> Reals:
    """Maximise ``-k s - E2 exp(-2 s) / 2 - (s - m)^2 / (2 v)`` for each pair's log scale s."""
    found = log_scale.copy()
    for number in range(len(log_scale)):
        mine = square[pair == number]
        for _ in range(20):
            ratio = mine.sum() * np.exp(-2 * found[number])
            slope = ratio - len(mine) - (found[number] - PAIR_CENTRE) / PAIR_SPREAD**2
            found[number] += np.clip(slope / (2 * ratio + PAIR_SPREAD**-2), -0.5, 0.5)
    return found
