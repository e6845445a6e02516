"""What a guess would move in cheap models, against what the files show to have moved.

Let s be the score of a record in a model, J its covariance, and a the mean of s over Z less that
over y_-i. A guess g moves the estimate by ``J^-1 s(g) / n``; of files drawn from estimates it has,
to second order and up to a factor that is learnt, the log evidence

    m [a' J^-1 s(g) - s(g)' J^-1 s(g) / (2 n)].

A linear map of s leaves that as it is, so that products will do: of predictors and residual for a
regression, of probabilities of classes and values for a mixture within whose classes columns are
independent.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from bayes_risk._core.arrays import Array, Ints

from .ratio import normalised

CLASSES = 3, 8
STEPS = 50  # of EM
LEAST = 0.02  # variance in a class
LARGEST = 200  # products in a model
LEVELS = 20  # of a category that a model tells apart
ROWS = 2**14  # with guesses, at a time
Factors = Callable[[Array], tuple[Array, Array]]  # of a table: (rows, C) and (rows, q)


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """Factors whose products (rows, D) s consists of; its mean; J^-1 is ``root root'``."""

    factors: Factors
    mean: Array
    root: Array

    @classmethod
    def of(cls, factors: Factors, y: Array) -> "Score":
        s = _products(*factors(y))
        J = np.atleast_2d(np.cov(s.T)) + np.eye(s.shape[1]) / len(y)
        return cls(factors, s.mean(axis=0), np.linalg.inv(np.linalg.cholesky(J)).T)

    def evidence(self, y: Array, Z: Array, W: Array, rows: Ints) -> Array:
        """Of guesses in place W (U, G, p) for rows (U,) of y (n, p), given Z (m, N, p)."""
        n, own = len(y), _products(*self.factors(y[rows])) - self.mean
        of_Z = np.mean([self._total(one) for one in Z], axis=0) / Z.shape[1]
        a = (of_Z - (self._total(y) - own) / (n - 1)) @ self.root
        (U, G, p), out = W.shape, np.empty(W.shape[:2])
        step = max(1, ROWS // G)
        for part in (slice(begin, begin + step) for begin in range(0, U, step)):
            s = (_products(*self.factors(W[part].reshape(-1, p))) - self.mean) @ self.root
            s = s.reshape(-1, G, s.shape[1])
            out[part] = np.einsum("ugd,ugd->ug", s, a[part, None] - s / (2 * n))
        return len(Z) * out

    def _total(self, table: Array) -> Array:
        R, T = self.factors(table)
        return np.asarray((R.T @ T).ravel() - len(table) * self.mean)


def scores_of(
    y: Array, levels: Ints, guessed: Ints, order: dict[int, list[int]]
) -> Iterator[tuple[str, Score]]:
    """Regressions of guessed categories on known columns, and mixtures, by name."""
    y = y[:: 1 + len(y) // ROWS]
    centre, spread = y.mean(axis=0), np.maximum(y.std(axis=0), 1e-9)

    def shown(table: Array, columns: Sequence[int], powers: int = 1) -> Array:
        """One, powers of numbers, and levels but the first."""
        out = [np.ones((len(table), 1))]
        for k in columns:
            if levels[k]:
                out.append(table[:, k, None] == np.arange(1, min(int(levels[k]), LEVELS)))
            else:
                unit = (table[:, k, None] - centre[k]) / spread[k]
                out.append(unit ** np.arange(1, powers + 1))
        return np.concatenate(out, axis=1)

    def regression(j: int, known: Sequence[int]) -> Factors:
        at = np.linalg.lstsq(shown(y, known), shown(y, [j])[:, 1:], rcond=None)[0]

        def factors(table: Array) -> tuple[Array, Array]:
            X = shown(table, known)
            return X, shown(table, [j])[:, 1:] - X @ at

        return factors

    def mixture(C: int) -> Factors:
        every = range(len(levels))
        of = _classes(shown(y, every, 2), [min(int(d), LEVELS) for d in levels], C)

        def factors(table: Array) -> tuple[Array, Array]:
            T = shown(table, every, 2)
            return of(T), T

        return factors

    models = []
    for j in (j for j in map(int, guessed) if levels[j]):
        known = [k for k in order[j] if k not in guessed]
        models += [
            (f"{t}", regression(j, known[:t]))
            for t in sorted({0, 1, 2, len(known)})
            if t <= len(known)
        ]
    models += [(f"classes {C}", mixture(C)) for C in CLASSES]
    for name, factors in models:
        if np.prod([part.shape[1] for part in factors(y[:1])]) <= LARGEST:
            yield name, Score.of(factors, y)


def _classes(T: Array, levels: Sequence[int], C: int) -> Callable[[Array], Array]:
    """Probabilities (rows, C) of the classes of a mixture, fitted by EM to what y shows."""
    centres = T[np.random.default_rng(0).permutation(len(T))[:C]]
    r, eta = np.eye(C)[cKDTree(centres).query(T)[1]], np.zeros((T.shape[1], C))

    def of(T: Array) -> Array:
        return np.exp(normalised(T @ eta))

    for _ in range(STEPS):
        n, M, at = r.sum(axis=0) + 1.0, T.T @ r, 1
        eta[0] = np.log(n)
        for d in levels:
            if d:
                part = slice(at, at := at + d - 1)
                p = (M[part] + 0.5) / (n + 0.5 * d)
                first = np.log1p(-p.sum(axis=0))
                eta[part], eta[0] = np.log(p) - first, eta[0] + first
            else:
                mean = M[at] / n
                variance = np.maximum((M[at + 1] + 1.0) / n - mean**2, LEAST)
                eta[at], eta[at + 1] = mean / variance, -0.5 / variance
                eta[0] -= 0.5 * (np.log(variance) + mean**2 / variance)
                at += 2
        r = of(T)
    return of


def _products(R: Array, T: Array) -> Array:
    return np.asarray((R[:, :, None] * T[:, None]).reshape(len(R), -1))
