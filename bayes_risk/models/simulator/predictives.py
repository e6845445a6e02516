"""What cheap models predict for a record with and without the files: the evidence as a ratio.

By Bayes' rule the evidence of a file Z about a guess g is

    p(Z | y_-i, g) / p(Z | y_-i) = p(g | y_-i, Z) / p(g | y_-i),

exactly, if parameters are drawn given y and the file is drawn given them. Files are independent
given y: logs of ratios add. No model is right for every record: with probability `OTHER` the
ratio is 1.

Both predictives rest on sums over the rows of y_-i, and of Z. In a mixture, within whose classes
columns are independent, these are rows by class and level, and powers of numbers; what the classes
are is fixed, by EM on y. Its predictives are Dirichlet-multinomial and Student's t. With one class
it is a model of margins. In a regression of a number they are those of least squares.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import gammaln

from bayes_risk._core.arrays import Array, Ints

from .ratio import normalised

CLASSES = 4, 6, 8
STEPS = 50  # of EM
ROWS = 2**14  # that EM looks at, or that are predicted at a time
LEVEL = 1.0  # added to counts of levels
LEVELS = 20  # of a category that a regression looks at
OTHER = 0.2  # share of records for which a model is not right
MEAN, FREEDOM, VARIANCE = 0.1, 2.0, 0.3  # of numbers in units of their spread, a priori
Sums = list[Array]


class CheapModel(Protocol):
    """A model whose predictives rest on sums over rows."""

    def sums(self, table: Array) -> Sums:
        """Of the rows of a table (N, p)."""
        ...

    def log_predictive(self, sums: Sums, W: Array, own: Array) -> Array:
        """Of guesses in place W (U, G, p), up to a factor; rows ``own`` (U, p) do not count."""
        ...


def predictive_ratio(
    models: Sequence[CheapModel], y: Array, Z: Array, W: Array, rows: Ints
) -> Array:
    """Log evidence of Z (m, N, p) on rows (U,) of y (n, p) with guesses in place W (U, G, p).

    Under models of which each is as likely.
    """
    of_y, *files = ([model.sums(table) for model in models] for table in (y, *Z))
    with_files = (
        [[a + b for a, b in zip(*both, strict=True)] for both in zip(of_y, file, strict=True)]
        for file in files
    )
    each, out = [of_y, *with_files], np.empty(W.shape[:2])
    step = max(1, ROWS // W.shape[1])
    for part in (slice(begin, begin + step) for begin in range(0, len(W), step)):
        before, *after = (
            np.logaddexp.reduce(
                [
                    normalised(model.log_predictive(of, W[part], y[rows[part]]))
                    for model, of in zip(models, sums, strict=True)
                ]
            )
            - np.log(len(models))
            for sums in each
        )
        found = sum(after) - len(Z) * before
        found = found - np.logaddexp.reduce(found + before, axis=1)[:, None]
        out[part] = np.logaddexp(np.log(OTHER), np.log1p(-OTHER) + found) / (1.0 - OTHER)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class ClassPredictive:
    """A mixture of classes: levels (p,) of columns, 0 of a number; their centres and spreads.

    Sums are rows by class (C,) and, of each column, by level and class (d, C), or sums of a number
    and its square (2, C); ``fitted``: those of y.
    """

    levels: Sequence[int]
    centre: Array
    spread: Array
    fitted: Sums

    @classmethod
    def of(cls, y: Array, levels: Ints, classes: int) -> "ClassPredictive":
        """By EM, from classes around some rows."""
        y = y[:: 1 + len(y) // ROWS]
        centre, spread = y.mean(axis=0), np.maximum(y.std(axis=0), 1e-9)
        around = y[np.random.default_rng(0).permutation(len(y))[:classes]] / spread
        r, found = np.eye(classes)[cKDTree(around).query(y / spread)[1]], None
        for _ in range(STEPS if classes > 1 else 1):
            r = r if found is None else found.classes(y)
            found = cls([int(d) for d in levels], centre, spread, [])
            found = replace(found, fitted=found._sums(y, r))
        assert found is not None
        return found

    def classes(self, table: Array) -> Array:
        """Probabilities (N, C) of the classes of rows."""
        return np.exp(normalised(self._log_joint(self.fitted, table)))

    def sums(self, table: Array) -> Sums:
        return self._sums(table, self.classes(table))

    def _sums(self, table: Array, r: Array) -> Sums:
        out = [r.sum(axis=0)]
        for j, d in enumerate(self.levels):
            if d:
                code = table[:, j].astype(np.intp)
                out.append(np.stack([np.bincount(code, w, d) for w in r.T], axis=1))
            else:
                unit = self._units(table[..., j], j)
                out.append(np.stack([unit, unit**2]) @ r)
        return out

    def log_predictive(self, sums: Sums, W: Array, own: Array) -> Array:
        each = self._log_joint(sums, W, (own[:, None], self.classes(own)[:, None]))
        return np.asarray(np.logaddexp.reduce(each, axis=-1))

    def _log_joint(
        self, sums: Sums, table: Array, without: tuple[Array, Array] | None = None
    ) -> Array:
        """Log predictives of rows (..., p) in each class, times its weight, (..., C).

        ``without``: rows that do not count, and their classes.
        """
        n, *columns = sums
        own, r = without or (table[..., :1, :], np.zeros(len(n)))
        n = np.maximum(n - r, 0.0)
        out: Array = np.log(n + 1.0 / n.shape[-1])
        for j, (d, held) in enumerate(zip(self.levels, columns, strict=True)):
            value = table[..., j]
            if without is not None and (value == own[..., j]).all():
                value = own[..., j]  # of a known column there is one
            if d and without is None:
                out = out + (np.log(held + LEVEL) - np.log(n + d * LEVEL))[value.astype(np.intp)]
                continue
            if d:
                found = held[value.astype(np.intp)] - (value == own[..., j])[..., None] * r
                out = out + np.log(np.maximum(found, 0.0) + LEVEL) - np.log(n + d * LEVEL)
                continue
            unit = self._units(own[..., j], j)[..., None] if without is not None else 0.0
            first, second = held[0] - unit * r, held[1] - unit**2 * r
            mean, freedom = first / (n + MEAN), n + FREEDOM
            square = np.maximum(second - mean**2 * (n + MEAN), 0.0) + FREEDOM * VARIANCE
            variance = square / freedom * (1.0 + 1.0 / (n + MEAN))
            out = out + _log_t(self._units(value, j)[..., None] - mean, variance, freedom)
        return out

    def _units(self, value: Array, j: int) -> Array:
        return np.asarray((value - self.centre[j]) / self.spread[j])


@dataclass(frozen=True, slots=True, eq=False)
class LinePredictive:
    """A regression of number j on known columns, of levels (p,); centres and spreads.

    Sums are those of products of predictors and number, (d + 1, d + 1).
    """

    j: int
    known: Sequence[int]
    levels: Sequence[int]
    centre: Array
    spread: Array

    def sums(self, table: Array) -> Sums:
        X = self._design(table)
        return [X.T @ X]

    def log_predictive(self, sums: Sums, W: Array, own: Array) -> Array:
        (S,), X = sums, self._design(own)
        x, d = X[:, :-1], len(S) - 1
        A = S[:-1, :-1] + 1e-6 * S[0, 0] * np.eye(d)
        slopes, push = np.linalg.solve(A, S[:-1, -1]), np.linalg.solve(A, x.T).T
        off = X[:, -1] - x @ slopes
        rest = np.maximum(1.0 - np.einsum("ud,ud->u", x, push), 1e-9)  # 1 less the leverage
        square = np.maximum(S[-1, -1] - S[:-1, -1] @ slopes - off**2 / rest, 1e-6 * S[0, 0])
        freedom = max(S[0, 0] - 1.0 - d, 1.0)
        mean = X[:, -1] - off / rest  # without the row itself
        unit = (W[..., self.j] - self.centre[self.j]) / self.spread[self.j]
        return _log_t(unit - mean[:, None], (square / freedom / rest)[:, None], freedom)

    def _design(self, table: Array) -> Array:
        """One, numbers, levels but the first; then the number itself."""
        unit, out = (table - self.centre) / self.spread, [np.ones((len(table), 1))]
        for k in (*self.known, self.j):
            some = np.arange(1, min(self.levels[k], LEVELS))
            out.append(table[:, k, None] == some if self.levels[k] else unit[:, k, None])
        return np.concatenate(out, axis=1).astype(float)


def _log_t(off: Array, variance: Array, freedom: Array | float) -> Array:
    """Log density of Student's t, up to a constant factor."""
    half = (freedom + 1.0) / 2.0
    top = gammaln(half) - gammaln(half - 0.5) - 0.5 * np.log(freedom * variance)
    return np.asarray(top - half * np.log1p(off**2 / (variance * freedom)))


def predictives_of(
    y: Array, levels: Ints, guessed: Ints, order: dict[int, list[int]]
) -> list[tuple[str, list[CheapModel]]]:
    """Mixtures, and regressions of guessed numbers on known columns, by name.

    How many classes there are is not known.
    """
    out: list[tuple[str, list[CheapModel]]] = [
        ("classes", [ClassPredictive.of(y, levels, C) for C in CLASSES])
    ]
    moments = y.mean(axis=0), np.maximum(y.std(axis=0), 1e-9)
    for j in (j for j in map(int, guessed) if not levels[j]):
        known = [k for k in order[j] if k not in guessed]
        for t in sorted({0, min(1, len(known)), len(known)}):
            line = LinePredictive(j, known[:t], [int(d) for d in levels], *moments)
            out.append((f"line {t}", [line]))
    return out
