"""Which chains of a mixture sit in the mode that made the release, and which have strayed.

Chains of latent classes settle in modes, and what they say of a guess differs between modes by far
more than within one. A release is drawn within a mode and chooses it: ``log p(Z | y, mode)``
differs by tens of nats. The derivation stands in `docs/modes.md`.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk.data.microdata import Microdata, Number
from bayes_risk.evidence.contract import Targets
from bayes_risk.evidence.modes import Modes
from bayes_risk.intruder.guesses import GuessSet, possible

NEAR = 0.07  # root mean square of the log ratios of two chains of one mode, their noise taken out
CLEAR = 10.0  # nats by which a mode falls short of the best before it counts as not chosen
ERRORS = 3.0  # and by how many standard errors
UNIT = 0.6745  # of the median of absolute normal deviates
QUARTERS = 4  # of a chain, by each of which it is judged
SOME = 3  # chains of a mode, whose spread tells more than that of halves
PROBES = 64  # targets by whose guesses starts are told apart
QUANTILES = np.linspace(0.05, 0.95, 7)  # of numbers, guessed of these targets
NOBODY: Ints = np.zeros(0, dtype=np.int64)
LARGEST = 1.0  # one guess that hardly a class allows says no more of a mode than this


def told_apart(
    value: Array,
    error: Array,
    log_release: Array,
    chains: int,
    carried: Ints = NOBODY,
    made: Flags | None = None,
) -> Modes:
    """Group starts by what they say of guesses, rank the groups by the release, choose chains.

    ``value`` (S, ...): base log ratios of guesses, ``error`` a draw of their error, ``log_release``
    (S, m, B), ``made`` (S,): starts beside draws that made the release, of which one will do. At
    most ``chains`` are carried on; ``carried`` stay unless they strayed. If the best mode was found
    by one other alone, and half of all starts found modes of their own, the next may well find a
    better one (Good 1953): so many of the best stay open.
    """
    total = log_release.sum(axis=1)  # shape (S, B)
    score, distance = total.mean(axis=1), distances(value, error)
    # Bands of scores, none further below the best of its band than so much. Not below each other: a
    # row of starts, each a little less probable than the one before, would join starts that differ
    # by hundreds of nats.
    width = CLEAR + ERRORS * np.sqrt(2.0) * _noise(total)
    band, left = np.zeros(len(score), dtype=np.int64), np.ones(len(score), dtype=bool)
    while left.any():
        band[left] += 1
        left &= score < score[left].max() - width
    near = (distance < NEAR) & (band == band[:, None])
    group = connected_components(near, directed=False)[1]  # near, or joined by such
    labels = np.unique(group)
    mean = np.array([score[group == g].mean() for g in labels])
    order = np.argsort(-mean, kind="stable")
    mode = np.argsort(order)[np.searchsorted(labels, group)].astype(np.int64)
    twice = np.bincount(mode, None if made is None else 1.0 + made) > 1
    near_best = _open(total, mode)
    settled = bool(twice[near_best].any()) or 2 * int((~twice).sum()) < len(mode)
    kept = np.flatnonzero(near_best | (not settled) & (np.arange(len(twice)) < chains))
    by_set = [_open(log_release[:, l], mode) for l in range(log_release.shape[1])]
    stay = carried[np.isin(mode[carried], kept)]
    fresh = np.setdiff1d(np.arange(len(mode)), carried)
    # one new one of each mode, then another of each, until there are enough
    turn = [int((mode[fresh[:i]] == mode[start]).sum()) for i, start in enumerate(fresh)]
    order = np.lexsort([fresh, mode[fresh], turn])
    order = order[np.isin(mode[fresh[order]], kept)][: max(chains - len(stay), 0)]
    return Modes(
        mode=mode,
        distance=distance,
        log_release=log_release.mean(axis=2),
        kept=tuple(int(k) for k in kept),
        chosen=np.array([np.argmax(a) if a.sum() == 1 else -1 for a in by_set], dtype=np.int64),
        used=np.concatenate([stay, np.sort(fresh[order])]),
        settled=settled,
    )


def _open(log_release: Array, mode: Ints) -> npt.NDArray[np.bool_]:
    """Which modes do not fall short of the best, of log probabilities (S, B)."""
    each = [log_release[mode == k].mean(axis=1) for k in range(int(mode.max()) + 1)]
    mean, noise = np.array([chains.mean() for chains in each]), _noise(log_release)
    between = [chains.var(ddof=1) if len(chains) >= SOME else 0.0 for chains in each]
    variance = np.maximum(noise**2, between) / [len(chains) for chains in each]
    best = int(np.argmax(mean))
    error = np.sqrt(variance + variance[best])
    near: npt.NDArray[np.bool_] = mean[best] - mean <= CLEAR + ERRORS * error
    return near


def distances(value: Array, error: Array) -> Array:
    """Distance between starts (S, S): rms difference of what they say, their noise taken out.

    Halves of a chain are more alike than chains, so the noise, that of most chains, counts twice.
    """
    seen = np.isfinite(value).all(axis=0) & np.isfinite(error).all(axis=0)
    value = value[:, seen]
    noise = 4.0 * np.median([_square(e) for e in error[:, seen]])
    apart = np.array([[_square(a - b) for b in value] for a in value])
    left: Array = np.sqrt(np.maximum(apart - noise, 0.0))
    return left


def least(log_release: Array) -> float:
    """Log probability of a release below which a chain of draws (C, n) has left the mode."""
    means = quarters(log_release)
    return float(np.median(means) - CLEAR - ERRORS * _spread(means))


def outside(log_release: Array, limit: float) -> npt.NDArray[np.bool_]:
    """Chains that are below the limit in the mean of these draws (C, n) of a quarter."""
    gone: npt.NDArray[np.bool_] = log_release.mean(axis=1) < limit
    return gone


def quarters(log_release: Array) -> Array:
    """Means of the quarters of chains, (..., 4) of draws (..., n)."""
    each = np.array_split(log_release, min(QUARTERS, log_release.shape[-1]), axis=-1)
    return np.stack([q.mean(axis=-1) for q in each], axis=-1)


def _square(difference: Array) -> float:
    return float(np.minimum(difference**2, LARGEST).mean()) if difference.size else 0.0


def _noise(log_release: Array) -> float:
    """Error of the mean of one chain, of all (S, B)."""
    return _spread(log_release) / float(np.sqrt(log_release.shape[1]))


def _spread(batches: Array) -> float:
    """Standard deviation of a batch in a mode, of (S, B), by steps from the one before."""
    steps = np.abs(np.diff(batches, axis=1))
    return float(np.median(steps) / UNIT / np.sqrt(2.0)) if steps.size else 0.0


def probed(data: Microdata, cases: Targets) -> Targets:
    """Some of the targets, evenly spread, with guesses that differ from them in one variable."""
    some = np.unique(np.linspace(0, len(cases) - 1, min(len(cases), PROBES)).astype(np.int64))
    few = cases.only(some)
    own = few.profiles[:, few.columns]  # shape (U, q)
    codes, same = [own], [np.zeros(len(own), dtype=bool)]
    for i, j in enumerate(few.columns.tolist()):
        v = data.variables[j]
        values = np.arange(v.n_levels).astype(own.dtype)
        if isinstance(v, Number):
            values = np.unique(np.quantile(data.codes[:, j], QUANTILES, method="nearest"))
        for level in values:
            guess = own.copy()
            guess[:, i] = level
            codes.append(guess)
            same.append(guess[:, i] == own[:, i])
    guesses = GuessSet.of(np.stack(codes), ~np.stack(same))
    return replace(few, guesses=possible(guesses, data, few.profiles, few.columns))
