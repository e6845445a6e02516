"""Modes of a mixture: which chains sit in the one that made the release, which have strayed.

Chains of latent classes settle in modes, and what they say of a guess differs between modes by far
more than within one. A release is drawn within a mode and chooses it: ``log p(Z | y, mode)``
differs by tens of nats. The derivation stands in `docs/modes.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse.csgraph import connected_components

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.formats import NONE, begun
from bayes_risk.data.base_result import Table, count, value
from bayes_risk.data.microdata import Microdata, Number
from bayes_risk.intruder.guesses import GuessSet, possible

from .contract import Led, Targets

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Modes:
    """The modes in which starts led by a release were found, and those that were carried on.

    Attributes
    ----------
    mode : ndarray of int, shape (S,)
        Mode of each start, 0 the one that the release favours most, then in falling order.
    distance : ndarray, shape (S, S)
        Root mean square of the difference between two starts' base log ratios of the probed
        guesses, less what the noise of each explains.
    log_release : ndarray, shape (S, m)
        Mean log probability of each data set given draws of each start.
    kept, chosen : tuple of int, ndarray of int, shape (m,)
        Modes that the release does not rule out; the mode that each data set chooses by itself, or
        -1.
    used : ndarray of int, shape (C,)
        Starts that were carried on: the chains of the audit.
    put_back : int
        How often a chain left the mode later, in any of the fits, and was put back.
    settled : bool
        Whether the best mode was found twice, or by draws of the fit that made the release, or most
        starts found modes that others did too; else a better one may be left.
    """

    mode: Ints
    distance: Array
    log_release: Array
    kept: tuple[int, ...]
    chosen: Ints
    used: Ints
    put_back: int = 0
    settled: bool = True

    @property
    def strays(self) -> Ints:
        """Starts in a mode that the release rules out."""
        return np.flatnonzero(~np.isin(self.mode, self.kept))

    @property
    def elsewhere(self) -> Ints:
        """Data sets, counted from 1, that by themselves choose another mode than all together."""
        return np.flatnonzero((self.chosen != -1) & ~np.isin(self.chosen, self.kept)) + 1

    @property
    def chains_by_mode(self) -> list[Ints]:
        """Chains of the audit, counted from 0, in each mode that any of them is in."""
        mode = self.mode[self.used]
        return [np.flatnonzero(mode == k) for k in np.unique(mode)]

    @property
    def table(self) -> pd.DataFrame:
        """One row per mode, counted from 1, that which the release favours most first.

        Columns: ``starts`` found in it; ``chains`` of the audit; ``log_release``, how many nats
        less probable than the first it makes the release; ``open``, whether the release does not
        rule it out; ``data_sets`` that choose it by themselves, as numbers from 1.
        """
        modes, total = np.unique(self.mode), self.log_release.sum(axis=1)
        mean = np.array([total[self.mode == k].mean() for k in modes])
        by_itself = [np.flatnonzero(self.chosen == k) + 1 for k in modes]
        columns = {
            "starts": [int((self.mode == k).sum()) for k in modes],
            "chains": [int((self.mode[self.used] == k).sum()) for k in modes],
            "log_release": mean - mean[0],
            "open": np.isin(modes, self.kept),
            "data_sets": [", ".join(map(str, sets)) for sets in by_itself],
        }
        return pd.DataFrame(columns, index=pd.Index(modes + 1, name="mode"))

    def sentence(self) -> str:
        """The same in words."""
        S, strays, kept = len(self.mode), len(self.strays), len(self.kept)
        text = "found the same mode"
        if kept > 1:
            text = f"sit in {kept} modes between which it does not choose, and intervals span these"
        if not self.settled:
            text = f"found {kept} modes, the best of them once: better ones may be left, and "
            text += "intervals span these (cure: audit with the fit that made the release)"
        if len(others := self.elsewhere):
            text += f"; by itself data set {', '.join(map(str, others))} chooses another"
        text += f"; {strays} strayed and left out" * bool(strays)
        times = f"{self.put_back} times" if self.put_back > 1 else "once"
        text += f"; {times} a chain left it later and was set back into it" * bool(self.put_back)
        return f"{S - strays} of {S} starts led by the release {text}"

    def shown(self, means: Sequence[float] = ()) -> Table:
        """`table` for people; ``means``: mean probability of the truth in each mode left open."""
        frame = self.table
        there = dict(zip(frame.index[frame["chains"] > 0], means, strict=False))
        frame["less"] = (-frame["log_release"]).where(frame["log_release"] != 0)
        frame["mean_probability"] = [there.get(k, np.nan) for k in frame.index]
        return Table(
            title="Modes of the model",
            note=f"{begun(self.sentence())}.",
            caption=(
                "Where chains led by the release have settled. Chosen by: data sets that rule out "
                "all other modes by themselves. Only more than 10 nats plus three standard errors "
                "rule a mode out: its weight without the release, unknown, may make up for less."
            ),
            frame=frame,
            head="Mode",
            columns=[
                ("Starts", count("starts")),
                ("Chains of the audit", count("chains")),
                ("Release less probable by (nats)", value("less", digits=1)),
                ("Chosen by data sets", lambda row: row["data_sets"] or NONE),
                *([("Mean probability", value("mean_probability"))] if means else []),
            ],
        )


def told_apart(
    value: Array,
    error: Array,
    log_release: Array,
    chains: int,
    carried: Ints = NOBODY,
    made: Flags | None = None,
) -> Modes:
    """Group starts by what they say of guesses, rank the groups by the release, choose chains.

    ``value`` (S, ...): what each start says of the same things, base log ratios of guesses, and
    ``error`` one draw of the error of each, half the difference between the halves of its chain;
    ``log_release`` (S, m, B): log probability of each data set given its draws, batch by batch. At
    most so many ``chains`` are carried on; ``carried`` are already, and stay unless they strayed.
    ``made`` (S,): starts at draws beside those that made the release, of which one will do. If the
    best mode was found by one other alone, and half of all starts found modes that no second one
    did, the next may well find a better one (Good 1953): so many of the best stay open.
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

    Halves of a chain are more alike than chains, so that the noise counts twice. It is that of
    most chains: the halves of one that changes its mode differ by more, and explain nothing.
    """
    seen = np.isfinite(value).all(axis=0) & np.isfinite(error).all(axis=0)
    value = value[:, seen]
    noise = 4.0 * np.median([_square(e) for e in error[:, seen]])
    apart = np.array([[_square(a - b) for b in value] for a in value])
    left: Array = np.sqrt(np.maximum(apart - noise, 0.0))
    return left


def least(log_release: Array) -> float:
    """Log probability of a release below which a chain is not in the mode that some are in.

    Of draws (C, n): as between modes so many nats, and so many standard deviations of a quarter of
    a chain, below what most quarters say.
    """
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
    """Standard deviation of a batch in a mode, of (S, B), by how far most are from the one before.

    Not from all others: a chain that slides from mode to mode would widen its own tolerance.
    """
    steps = np.abs(np.diff(batches, axis=1))
    return float(np.median(steps) / UNIT / np.sqrt(2.0)) if steps.size else 0.0


def probed(data: Microdata, cases: Targets) -> Targets:
    """Some of the targets, evenly spread, with guesses that differ from them in one variable.

    Of categories these are all levels, of numbers some quantiles. By what they say of these starts
    are told apart, whatever is asked of the targets.
    """
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


class Starts(NamedTuple):
    """Chains that a release has led, each from a start of its own: ``fit`` has one of each.

    ``value``, ``error`` (S, G, U), ``log_release`` (S, m, B), ``made`` (S,) as `told_apart` takes
    them.
    """

    fit: Led
    value: Array
    error: Array
    log_release: Array
    made: Flags
