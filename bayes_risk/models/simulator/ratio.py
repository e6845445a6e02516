"""One conditional model over guesses, shared by all records and runs, and how far to trust it.

Given what Z shows about a record and each guess, ``phi(g)``, the posterior of the intruder is

    p(g | phi) = r(g) exp(w' phi(g)) / sum_h r(h) exp(w' phi(h)),

``r`` the shares from which the guesses of the runs were drawn. ``w' phi(g)`` is then the log
evidence of a guess up to a constant, which any prior may follow. This is contrastive neural ratio
estimation (Miller, Weniger & Forre 2022) with a linear network.

It must not be overconfident. The features, the penalty of w, and a factor from 0 to 1 on all of it
are those with the largest gain in log score over the prior in runs that were left out of the fit,
*less a standard error of that gain*; and unless that gain is above 0 (Student's t over runs, 99 %)
the prior is left as it is. So a generator that tells nothing leaves the prior.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import t

from bayes_risk._core.arrays import Array, Ints

PENALTIES = 0.1, 0.01, 1e-3, 1e-4, 1e-5
TEMPER = 0.25, 0.5, 0.7, 0.85, 1.0
FOLDS = 10
NEWTON = 5  # steps of the whole fit
STEPS = 2  # of fits without a fold, from the whole fit
CAUTION = 1.0  # standard errors of the gain
DIRECTIONS = 12  # of errors that are kept
SURE = 0.99  # of a gain above 0


class Examples(NamedTuple):
    """What runs showed of N records whose values were drawn.

    ``features`` (N, G, d); ``log_share`` (N, G): log r, minus infinity where a guess is none;
    ``drawn`` (N,): which guess it was; ``run`` (N,).
    """

    features: Array
    log_share: Array
    drawn: Ints
    run: Ints
    sets: Sequence[Ints] = ()  # of features, tried one by one; by default all together
    exact: Array = np.zeros((0, 2))  # (N, G): exact copies
    place: Ints = np.zeros(0, dtype=np.int64)  # (N,): record, by its place in the pool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RatioFit:
    """A fitted model, its error, and what fits without a fold said of the runs left out.

    ``weights`` (d,) of the features as they are; ``directions`` (C, d): the mean squared error of
    ``weights @ x`` is the sum of ``(directions @ x)^2``. ``log_p`` (N, G) of the examples, from the
    fit without their fold; ``gain`` by run.
    """

    weights: Array
    directions: Array
    log_p: Array
    gain: Array

    def log_evidence(self, features: Array) -> tuple[Array, Array]:
        """Log evidence (U, G) up to a constant, and deviations (2 C, U, G) of 2 C batches."""
        return features @ self.weights, batches(features @ self.directions.T)


def batches(moved: Array) -> Array:
    """Deviations (2 C, ...) of batches whose mean has the variance sum of ``moved`` (..., C)^2.

    Each direction is two batches, ``+c e`` and ``-c e``: with ``c^2 = C (2 C - 1)`` the variance of
    a mean of batches, ``sum of squares / (2 C (2 C - 1))``, is the sum of ``e^2``.
    """
    C = moved.shape[-1]
    each = np.sqrt(C * (2 * C - 1)) * np.moveaxis(moved, -1, 0)
    return np.asarray(np.stack([each, -each], axis=1).reshape(2 * C, *moved.shape[:-1]))


def folds_of(run: Ints) -> Ints:
    """Fold of each run: an even number of folds, at most ten, of as many runs each as can be."""
    runs = int(run.max()) + 1
    K = min(FOLDS, runs - runs % 2)
    return np.arange(runs) % K


def fitted_ratio(examples: Examples) -> RatioFit:
    """Fit to all runs and without each fold; choose penalty and factor by the runs left out."""
    F, scale = _standardised(examples)
    fold = folds_of(examples.run)[examples.run]
    before = normalised(examples.log_share)
    at = np.arange(len(fold)), examples.drawn
    best: _Choice | None = None
    for some in examples.sets or [np.arange(F.shape[2])]:
        sums = _Sums(F[..., some], examples.log_share, examples.drawn, fold)
        w, before_it = np.zeros(len(some)), -np.inf
        for penalty in PENALTIES:
            w, scores = sums.fits(w, penalty)
            top = -np.inf
            for factor in TEMPER:
                log_p = normalised(factor * scores + examples.log_share)
                gain = _by_run(log_p[at] - before[at], examples.run)
                error = float(gain.std(ddof=1) / np.sqrt(len(gain)))
                worth = float(gain.mean()) - CAUTION * error
                top = max(top, worth)
                if best is None or worth > best.worth + 1e-12:
                    sure = gain.mean() > t.ppf(SURE, len(gain) - 1) * error
                    best = _Choice(worth, factor * sure, some, penalty, w, scores, log_p, gain)
            if top < before_it:  # smaller ones fit worse still
                break
            before_it = top
    assert best is not None
    log_p, gain = best.log_p, best.gain
    if not best.factor:  # nothing is known to be disclosed
        log_p, gain = before, np.zeros(len(gain))
    weights, directions = np.zeros(len(scale)), np.zeros((DIRECTIONS, len(scale)))
    weights[best.some] = best.factor * best.w / scale[best.some]
    found = _directions(F[..., best.some], examples, best)
    directions[: len(found), best.some] = found / scale[best.some]
    return RatioFit(weights=weights, directions=directions, log_p=log_p, gain=gain)


class _Choice(NamedTuple):
    """A set of features, its penalty and factor; what it is worth in runs that were left out."""

    worth: float
    factor: float
    some: Ints
    penalty: float
    w: Array
    scores: Array
    log_p: Array
    gain: Array


def _standardised(examples: Examples) -> tuple[Array, Array]:
    """Features less their mean over guesses, in units of their spread; and the units."""
    phi, counted = examples.features, np.isfinite(examples.log_share)
    with np.errstate(invalid="ignore"):
        inside = np.where(counted[..., None], phi, 0.0)
    n_of = counted.sum(axis=1)[:, None, None]
    F = np.where(counted[..., None], phi - inside.sum(axis=1, keepdims=True) / n_of, 0.0)
    scale = np.sqrt((F**2).sum(axis=(0, 1)) / counted.sum())
    scale = np.where(scale > 1e-9, scale, np.inf)
    return F / scale, scale


def _directions(F: Array, examples: Examples, best: _Choice) -> Array:
    """Of the mean squared error of ``factor w``, the most important ones (C, d).

    With A the inverse of (H + L), H the curvature of the log score, L the penalty, and s_r the
    score of run r in a fit without it, the error is ``A (sum_r s_r s_r' + L) A``: spread over
    runs, and bias if the weights have the variance that the penalty assumes (Nychka 1988, JASA
    83). What the factor takes off is added.
    """
    p = np.exp(normalised(best.scores + examples.log_share))  # fits without the run
    off = F[np.arange(len(F)), examples.drawn] - np.einsum("ng,ngd->nd", p, F)
    by_run = np.zeros((int(examples.run.max()) + 1, F.shape[2]))
    np.add.at(by_run, examples.run, off)
    p = np.exp(normalised(F @ best.w + examples.log_share))
    centred = (F - np.einsum("ng,ngd->nd", p, F)[:, None]) * np.sqrt(p)[..., None]
    flat = centred.reshape(-1, F.shape[2])
    H, L = flat.T @ flat, best.penalty * len(F) * np.eye(F.shape[2])
    A = np.linalg.inv(H + L)
    every = np.vstack([by_run @ A, np.sqrt(best.penalty * len(F)) * A, (1 - best.factor) * best.w])
    # those that move the scores of the examples most
    root = np.linalg.cholesky(H / len(F) + 1e-9 * np.eye(len(H)))
    _, values, at = np.linalg.svd(every @ root, full_matrices=False)
    most = slice(0, DIRECTIONS)
    return np.asarray(np.linalg.solve(root.T, (values[most, None] * at[most]).T).T)


class _Sums:
    """Sums over examples that Newton's method takes, fold by fold; F (N, G, d) is centred.

    Kept as (d, G, N), examples fold by fold: sums over guesses, and products, are fast.
    """

    def __init__(self, F: Array, log_share: Array, drawn: Ints, fold: Ints) -> None:
        self.order = np.argsort(fold, kind="stable")
        self.F = np.ascontiguousarray(F[self.order].T)
        self.log_share, self.sizes = log_share[self.order].T, np.bincount(fold)
        self.at = drawn[self.order], np.arange(len(fold))
        ends = np.append(0, np.cumsum(self.sizes))
        self.parts = [slice(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]
        chosen = self.F[:, *self.at]
        self.chosen = np.stack([chosen[:, part].sum(axis=1) for part in self.parts])  # (K, d)

    def of(self, W: Array) -> tuple[Array, Array]:
        """Probabilities (K, G, N) under weights (K, d), and minus their log scores (K,)."""
        scores = (W @ self.F.reshape(len(self.F), -1)).reshape(-1, *self.log_share.shape)
        scores += self.log_share
        scores -= scores.max(axis=1, keepdims=True)
        p = np.exp(scores)
        total = p.sum(axis=1)
        p /= total[:, None]
        return p, (np.log(total) - scores[:, *self.at]).sum(axis=1)

    def means(self, p: Array) -> Array:
        """Sums of F over guesses and examples, weighed by p (K, G, N); (K, d)."""
        return np.asarray((self.F.reshape(len(self.F), -1) @ p.reshape(len(p), -1).T).T)

    def hessians(self, p: Array) -> Array:
        """Sums of the second derivatives at probabilities p (G, N), by fold (K, d, d)."""
        out = []
        for part in self.parts:
            root = (self.F[..., part] * np.sqrt(p[:, part])).reshape(len(self.F), -1)
            mean = np.einsum("gn,dgn->dn", p[:, part], self.F[..., part])
            out.append(root @ root.T - mean @ mean.T)
        return np.stack(out)

    def fits(self, w: Array, penalty: float) -> tuple[Array, Array]:
        """The fit to all (d,), from a start, and scores (N, G) from fits without their fold."""
        N, ridge, chosen = (
            float(self.sizes.sum()),
            np.eye(len(w)) * penalty,
            self.chosen.sum(axis=0),
        )

        def loss(w: Array) -> tuple[Array, float]:
            p, lost = self.of(w[None])
            return p, float(lost[0]) / N + 0.5 * penalty * float(w @ w)

        p, value = loss(w)
        for _ in range(NEWTON):
            gradient = (self.means(p)[0] - chosen) / N + penalty * w
            step = np.linalg.solve(self.hessians(p[0]).sum(axis=0) / N + ridge, gradient)
            if float(gradient @ step) < 1e-8:
                break
            size = 1.0
            while (found := loss(w - size * step))[1] > value and size > 1e-3:
                size /= 2
            w, p, value = w - size * step, found[0], min(found[1], value)
        H, n = self.hessians(p[0]), (N - self.sizes)[:, None]
        curves = (H.sum(axis=0) - H) / n[..., None] + ridge
        without = np.tile(w, (len(H), 1))
        for _ in range(STEPS):
            p = self.of(without)[0]
            for k, part in enumerate(self.parts):
                p[k, :, part] = 0.0
            gradients = (self.means(p) - chosen + self.chosen) / n + penalty * without
            without = without - np.linalg.solve(curves, gradients[..., None])[..., 0]
        scores = np.empty(self.log_share.T.shape)
        for part, at in zip(self.parts, without, strict=True):
            scores[self.order[part]] = np.tensordot(at, self.F[..., part], 1).T
        return w, scores


def normalised(log_p: Array) -> Array:
    """Log probabilities over the last axis."""
    log_p = log_p - log_p.max(axis=-1, keepdims=True)
    return np.asarray(log_p - np.log(np.exp(log_p).sum(axis=-1, keepdims=True)))


def _by_run(values: Array, run: Ints) -> Array:
    """Mean of the examples of each run."""
    return np.bincount(run, values) / np.maximum(np.bincount(run), 1)


def wide(array: Array, G: int, fill: float) -> Array:
    """An array (N, G', ...) with G >= G' guesses."""
    lack = [(0, 0), (0, G - array.shape[1])] + [(0, 0)] * (array.ndim - 2)
    return np.pad(array, lack, constant_values=fill)


def joined_examples(parts: Sequence[Examples]) -> Examples:
    """Examples of several runs, with as many guesses each as those that have most."""
    G, both = max(part.features.shape[1] for part in parts), np.concatenate
    return Examples(
        both([wide(part.features, G, 0.0) for part in parts]),
        both([wide(part.log_share, G, -np.inf) for part in parts]),
        both([part.drawn for part in parts]),
        both([part.run for part in parts]),
        parts[0].sets,
        both([wide(part.exact, G, 0.0) for part in parts]),
        both([part.place for part in parts]),
    )
