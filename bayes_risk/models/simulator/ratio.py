"""One conditional model over guesses, shared by all records and runs, and how far to trust it.

Given what Z shows about a record and each guess, ``phi(g)``, the posterior of the intruder is

    p(g | phi) = r(g) exp(w' phi(g)) / sum_h r(h) exp(w' phi(h)),

``r`` the shares from which the guesses of the runs were drawn. ``w' phi(g)`` is then the log
evidence of a guess up to a constant, which any prior may follow. This is contrastive neural ratio
estimation (Miller, Weniger & Forre 2022) with a linear network.

Many features are log evidence already, under some model: if the generator is that model, w is 1 for
this feature and 0 for all others. So w is shrunk towards a *start*, the mean of these weights and
of 0 by their likelihood. That needs far fewer runs than a fit from nothing.

It must not be overconfident. The penalty of w is that with the largest gain in runs that were left
out of the fit, *less a standard error of that gain*; and unless that gain is above 0 (Student's t
over runs, 99 %; or the likelihood of starts) the prior is left as it is. So a generator that tells
nothing leaves the prior.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from bayes_risk._core.arrays import Array, Ints

PENALTIES = 10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5
WORSE = 0.05  # of the best penalty, below which none is tried
FOLDS = 10  # of runs, at most; an even number
NEWTON = 6  # steps of the whole fit, at most
SMALL = 1e-6  # what a step gains
STEPS = 2  # of fits without a fold, from the whole fit
CAUTION = 1.0  # standard errors of the gain, by which a penalty is chosen
BETTER = 2.0  # of what a fit adds to its start, above which it is taken
SCALES = {0.5: 0.1, 1.0: 0.8, 2.0: 0.1}  # of a start, and how probable they are
STAGES = 2  # of models in it
BEHIND = 10.0  # log odds against a model that describes the files worse, at most
DIRECTIONS = 12  # of errors that are kept
SURE = 0.99  # of a gain above 0


class Examples(NamedTuple):
    """What runs showed of N records whose values were drawn.

    ``features`` (N, G, d); ``log_share`` (N, G): log r, minus infinity where a guess is none;
    ``drawn`` (N,): which guess it was; ``run`` (N,); ``exact`` (N, G): exact copies; ``place``
    (N,): record, by its place in the pool.
    """

    features: Array
    log_share: Array
    drawn: Ints
    run: Ints
    exact: Array = np.zeros((0, 2))
    place: Ints = np.zeros(0, dtype=np.int64)

    @classmethod
    def joined(cls, parts: list["Examples"]) -> "Examples":
        """Those of several runs."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


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


def batches(moved: Array) -> Array:
    """Deviations (2 C, ...) of batches whose mean has the variance sum of ``moved`` (..., C)^2.

    Each direction is two batches, ``+c e`` and ``-c e``: with ``c^2 = C (2 C - 1)`` the variance of
    a mean of batches, ``sum of squares / (2 C (2 C - 1))``, is the sum of ``e^2``.
    """
    C = moved.shape[-1]
    each = np.sqrt(C * (2 * C - 1)) * np.moveaxis(moved, -1, 0)
    return np.asarray(np.stack([each, -each], axis=1).reshape(2 * C, *moved.shape[:-1]))


def fitted_ratio(examples: Examples, behind: Array | None = None) -> RatioFit:
    """Fit to all runs and without each fold; choose the penalty by the runs left out.

    ``behind`` (d,) of features that are log evidence: how much less likely files are under the
    model of each than under another's. None: they are not.
    """
    F, scale = _standardised(examples)
    runs = int(examples.run.max()) + 1
    fold = examples.run % min(FOLDS, runs - runs % 2)
    before = normalised(examples.log_share)
    at = np.arange(len(fold)), examples.drawn

    def gain_of(log_p: Array) -> Array:
        return np.bincount(examples.run, log_p[at] - before[at]) / np.bincount(examples.run)

    start, doubt = _start(F, scale, examples, behind)
    log_p = normalised(np.tensordot(F, start, 1) + examples.log_share)
    begun = _Choice(start, PENALTIES[0], log_p, gain_of(log_p))
    sums, w, best = _Sums(F, examples.log_share, examples.drawn, fold), start, begun
    for penalty in PENALTIES:
        w, scores = sums.fits(w, start, penalty)
        log_p = normalised(scores + examples.log_share)
        here = _Choice(w, penalty, log_p, gain_of(log_p))
        if best is begun or _less(here.gain, CAUTION) > _less(best.gain, CAUTION) + 1e-12:
            best = here
        elif penalty < WORSE * best.penalty:
            break  # smaller ones fit worse still
    if known := start.any() and _less(best.gain - begun.gain, BETTER) <= 0:
        doubt, best = np.vstack([doubt, best.w - start]), begun
    log_p, gain = best.log_p, best.gain
    sure = start.any() or _less(gain, float(stdtrit(len(gain) - 1, SURE))) > 0
    if not sure:  # nothing is known to be disclosed
        log_p, gain = before, np.zeros(len(gain))
    directions = np.zeros((DIRECTIONS, len(scale)))
    rest = np.vstack([doubt * (known or not sure), (not sure) * best.w])
    moved = _directions(F, examples, best, sums.curvature(best.w), rest)
    directions[: len(moved)] = moved / scale
    weights = sure * best.w / scale
    return RatioFit(weights=weights, directions=directions, log_p=log_p, gain=gain)


def _start(F: Array, scale: Array, examples: Examples, behind: Array | None) -> tuple[Array, Array]:
    """Mean weights of starts by their likelihood, and what each of the last ones is off.

    A model may be one half or twice as strong, because parameters are drawn or estimates; and what
    it tells may come on top of what another does. None at all has a prior probability of one half;
    a model under which files are less likely has a lower one, down to that of `BEHIND`.
    As nothing is fitted, a likelihood ratio exceeds x by chance in 1 of x cases at most.
    """
    models = np.flatnonzero(np.isfinite(scale) & (behind is not None))
    behind = np.zeros(len(scale)) if behind is None else np.minimum(behind, BEHIND)
    start, off = np.zeros(len(scale)), np.zeros((1, len(scale)))
    at = np.arange(len(F)), examples.drawn
    for stage in range(STAGES if len(models) else 0):
        scores = F @ start + examples.log_share
        now = normalised(scores)[at].sum() + np.log(len(models))
        total, added = [0.0], [np.zeros(len(scale))]
        for k in models:
            for factor, prior in SCALES.items():
                log_p = normalised(scores + factor * scale[k] * F[..., k])
                total.append(log_p[at].sum() + np.log(prior) - now - behind[k])
                added.append(factor * scale[k] * (np.arange(len(scale)) == k))
        share, each = np.exp(normalised(np.array(total))), np.array(added)
        known = stage > 0 or share[0] < 1.0 - SURE
        mean = known * (share @ each)
        start = start + mean
        off = np.sqrt(share)[:, None] * (each - mean)
        if not known:
            break
    with_one = np.einsum("ngd,d->ng", F, start)
    p = np.exp(normalised(with_one + examples.log_share))
    mean = (p * with_one).sum(axis=1)
    by_run = np.bincount(examples.run, with_one[at] - mean)
    curvature = ((p * with_one**2).sum(axis=1) - mean**2).sum()
    strength = np.sqrt((by_run**2).sum()) / curvature if curvature > 0 else 0.0
    return start, np.vstack([off, strength * start])


class _Choice(NamedTuple):
    """Weights, their penalty; what they gain in runs that were left out."""

    w: Array
    penalty: float
    log_p: Array
    gain: Array


def _standardised(examples: Examples) -> tuple[Array, Array]:
    """Features less their mean over guesses, in units of their spread; and the units."""
    phi, counted = examples.features, np.isfinite(examples.log_share)
    mean = np.einsum("ng,ngd->nd", counted / counted.sum(axis=1, keepdims=True), phi)
    F = np.where(counted[..., None], phi - mean[:, None], 0.0)
    scale = np.sqrt((F**2).sum(axis=(0, 1)) / counted.sum())
    scale = np.where(scale > 1e-9, scale, np.inf)
    return F / scale, scale


def _less(gain: Array, errors: float) -> float:
    """Mean over runs, less so many of its standard errors."""
    return float(gain.mean() - errors * gain.std(ddof=1) / np.sqrt(len(gain)))


def _directions(F: Array, examples: Examples, best: _Choice, H: Array, rest: Array) -> Array:
    """Of the mean squared error of w, with the ``rest`` of them, the most important ones (C, d).

    With A the inverse of (H + L), H the curvature of the log score, L the penalty, and s_r the
    score of run r in a fit without it, the error is ``A (sum_r s_r s_r' + L) A``: spread over
    runs, and bias if the weights have the variance that the penalty assumes (Nychka 1988, JASA
    83).
    """
    p = np.exp(best.log_p)  # fits without the run
    off = F[np.arange(len(F)), examples.drawn] - np.einsum("ng,ngd->nd", p, F)
    by_run = np.zeros((int(examples.run.max()) + 1, F.shape[2]))
    np.add.at(by_run, examples.run, off)
    unit, L = np.eye(F.shape[2]), best.penalty * len(F)
    A = np.linalg.inv(H + L * unit)
    every = np.vstack([by_run @ A, np.sqrt(L) * A, rest])
    # those that move the scores of the examples most
    root = np.linalg.cholesky(H / len(F) + 1e-9 * unit)
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

    def derivatives(self, p: Array) -> tuple[Array, Array]:
        """Sums of F and of the second derivatives at p (G, N), by fold: (K, d), (K, d, d)."""
        first, second = [], []
        for part in self.parts:
            share = np.sqrt(p[:, part])
            root = self.F[..., part] * share  # (d, G, n)
            mean = np.einsum("gn,dgn->dn", share, root)
            flat = root.reshape(len(root), -1)
            first.append(mean.sum(axis=1))
            second.append(flat @ flat.T - mean @ mean.T)
        return np.stack(first), np.stack(second)

    def curvature(self, w: Array) -> Array:
        """Of minus the log score, (d, d)."""
        return np.asarray(self.derivatives(self.of(w[None])[0][0])[1].sum(axis=0))

    def fits(self, w: Array, start: Array, penalty: float) -> tuple[Array, Array]:
        """The fit to all (d,), and scores (N, G) from fits without their fold."""
        N, ridge = float(self.sizes.sum()), np.eye(len(w)) * penalty

        def loss(w: Array) -> tuple[Array, float]:
            p, losses = self.of(w[None])
            return p, float(losses[0]) / N + 0.5 * penalty * float(((w - start) ** 2).sum())

        p, value = loss(w)
        for left in reversed(range(NEWTON)):
            m, H = self.derivatives(p[0])
            off = m - self.chosen
            gradient = off.sum(axis=0) / N + penalty * (w - start)
            step = np.linalg.solve(H.sum(axis=0) / N + ridge, gradient)
            if not left or float(gradient @ step) < SMALL:
                break
            size = 1.0
            while (found := loss(w - size * step))[1] > value and size > 1e-3:
                size /= 2
            w, p, value = w - size * step, found[0], min(found[1], value)
        n = (N - self.sizes)[:, None]
        curves = (H.sum(axis=0) - H) / n[..., None] + ridge
        without, off = w, off.sum(axis=0) - off
        for left in reversed(range(STEPS)):
            gradients = off / n + penalty * (without - start)
            without = without - np.linalg.solve(curves, gradients[..., None])[..., 0]
            if left:
                p = self.of(without)[0]
                for k, part in enumerate(self.parts):
                    p[k, :, part] = 0.0
                means = (self.F.reshape(len(w), -1) @ p.reshape(len(p), -1).T).T
                off = means - self.chosen.sum(axis=0) + self.chosen
        scores = np.empty(self.log_share.T.shape)
        for part, at in zip(self.parts, without, strict=True):
            scores[self.order[part]] = np.tensordot(at, self.F[..., part], 1).T
        return w, scores


def normalised(log_p: Array) -> Array:
    """Log probabilities over the last axis."""
    log_p = log_p - log_p.max(axis=-1, keepdims=True)
    return np.asarray(log_p - np.log(np.exp(log_p).sum(axis=-1, keepdims=True)))
