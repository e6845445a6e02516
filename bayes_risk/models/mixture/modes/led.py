"""Chains that the release leads to the mode that made it, carried on to y and to each (y, Z^(l)).

A chain starts with everybody in one class on the table and all data sets of a release, stacked: so
many records are settled by split and merge moves in the mode that made them (where columns stay: on
the table alone, and the release chooses among the chains). Or it starts at a draw of the fit beside
those that made the release, where these are known. From where it stops, one chain goes on
given y alone and one given y and each data set, so that both predictives of the evidence come from
one mode. The derivation stands in `docs/modes.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Ints
from bayes_risk.evidence.contract import Progress
from bayes_risk.models.fits.synthesis import Ticker
from bayes_risk.models.mixture.mechanism import Mechanism
from bayes_risk.models.mixture.posterior import MixturePosterior, Scored
from bayes_risk.models.mixture.sampler import (
    at_means,
    chains_of,
    collapse,
    initial_state,
    run_chain,
)
from bayes_risk.models.mixture.state import Draws, Units, joined
from bayes_risk.release.release import EncodedRelease

from .apart import CLEAR, ERRORS, QUARTERS, least, outside

TRIES = 4  # of a chain that leaves the mode, from where it was in it
BESIDE = 10  # draws before and after one, which are in its mode
COLD, WARM = 10, 3  # proposals to split or merge in a sweep, before and after the mode is found
CHAINS = 3  # at least: of two that differ nobody knows which has strayed
SCORED = 24  # draws of a chain, about, that tell which mode it is in
SHORTEST = 50  # sweeps
FOUND_ON = 100_000  # rows of a larger stack that a mode is found on, before all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How long led chains run."""

    chains: int  # cold ones
    find: int  # sweeps to find a mode
    settle: int  # sweeps on y alone
    short: int  # draws by which they are told apart
    draws: int  # of those that are carried on
    augmented: int  # the same on y and a data set
    thin: int  # sweeps apart

    @classmethod
    def of(cls, posterior: Any, m: int = 1, moves: bool = True) -> "Lengths":
        """In proportion to a posterior's own chains: twice as many, each with half the draws.

        Errors are between chains, and many short ones tell them best; where classes are split and
        merged (``moves``) draws may stand half as far apart. n_0 draws on y and n_1 on each data
        set err by m^2 / n_0 + m / n_1, at given n_0 + m n_1 least where n_0 = m n_1.
        """
        sweeps, draws = posterior.n_sweeps, posterior.n_draws // posterior.n_chains
        size = QUARTERS * ceil(draws / (2 * QUARTERS))
        return cls(
            chains=2 * max(posterior.n_chains, CHAINS),
            find=max(sweeps // 4, SHORTEST),
            settle=max(sweeps // 20, SHORTEST),
            short=max(draws // 4, 4),
            draws=size,
            augmented=min(max(2 * size // (m + 1), size // 3, 4), size),
            thin=max(posterior.thin // 2, 1) if moves else posterior.thin,
        )

    def starts(self, made: bool) -> tuple[int, int]:
        """How many are cold and how many draws of the fit, whether it made the release or not."""
        return (self.chains // 2, self.chains) if made else (self.chains, 0)


def warm_up(sweeps: int) -> int:
    """Sweeps on y and a data set before draws are kept, of chains that ran so many on y."""
    return max(sweeps // 4, SHORTEST)


def without(draws: int, thin: int, sweeps: int) -> dict[str, int]:
    """How chains of so many draws, so many sweeps apart and in all, go on without a record."""
    size = max(draws // 2, 4)
    return {"n_draws": size, "thin": max(thin // 8, 1), "tune": max(sweeps // 100, 100)}


def led_by(
    base: MixturePosterior,
    release: EncodedRelease,
    weights: npt.NDArray[np.float64] | None,
    h: int | None,
    *,
    rng: np.random.Generator,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> tuple[MixturePosterior, Lengths]:
    """Draws given y of starts that a release has led to its mode, and of its own draws.

    All data sets are stacked below y; where columns stay they are not, for the values that stay
    would count m + 1 times: then the starts go on y alone, and the release chooses among them.
    Where draw ``h`` made the first data set, others of its mode are starts too, the last.
    """
    hows = Mechanism.of(release, base.columns, base.prior)
    rows, whole = hows[0].y, bool(hows[0].synthesized.all())
    steps = Lengths.of(base, len(release.by_draw), moves=whole)
    if whole:
        rows = rows.below(*(how.z.take(how.rows) for how in hows))
    more = np.ones(len(rows.positions) - len(hows[0].replaced))
    stacked = rows.units(power=None if weights is None else np.append(weights, more))
    begin, find, settle, beside = rng.spawn(4)
    cold = replace(base.prior, splits=COLD, zeros=None)
    warm = replace(base.prior, splits=max(base.prior.splits, WARM))
    n_cold, n_made = steps.starts(h is not None)
    starts = [initial_state(cold, stacked, child) for child in begin.spawn(n_cold)]
    total = n_cold * steps.find + (n_cold + n_made) * steps.short
    tick = Ticker(progress, "starts led by the release", total)
    how: Any = {"n_jobs": n_jobs, "tick": lambda done: tick(done * steps.find)}
    find_one = partial(_found, steps.find, (cold, warm), stacked)
    found = joined(chains_of(find_one, starts, draws=1, rng=find, **how))
    if h is not None:
        among = draws_beside(base, release.first(1), h, n_made)
        some = beside.choice(among, n_made, replace=len(among) < n_made)
        found = joined([found, base.draws.take(some, n_made)])
    how["tick"] = tick
    led = replace(base, prior=warm, draws=found)
    run: Any = {"thin": steps.thin, "tune": steps.settle, "n_draws": steps.short, "rng": settle}
    return led.refitted(base.units, **run, **how), steps


def _found(
    tune: int, priors: Any, stacked: Units, start: Draws, *, rng: np.random.Generator, **how: Any
) -> Draws:
    """Where a chain stops in a mode: found on some rows of a large stack, then on all of them."""
    prior, some = priors[0], stacked.thinned(FOUND_ON, rng)
    if some is not stacked:
        start = run_chain(prior, some, start, draws=1, tune=tune, thin=1, rng=rng)
        prior, tune = priors[1], max(tune // 8, 1)
    return run_chain(prior, stacked, start, tune=tune, thin=1, rng=rng, **how)


def carried_on(
    led: MixturePosterior,
    which: npt.NDArray[np.int64],
    steps: Lengths,
    release: EncodedRelease,
    *,
    rng: np.random.Generator,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> tuple[MixturePosterior, float]:
    """Some of these chains with their full number of draws; the least log p(Z) in the mode."""
    chosen, (score, child) = led.of_chains(which), rng.spawn(2)
    tables = chosen.tables(release, together=True)
    limit = least(scores(chosen, tables, score)[0])
    tick = Ticker(progress, "base fit in the mode", steps.draws * len(which))
    how: Any = {"n_jobs": n_jobs, "tick": tick}
    return _within(chosen, tables, limit, steps.draws, child, **how)[0], limit


def lengthened(
    begun: MixturePosterior,
    release: EncodedRelease,
    limit: float,
    rounds: int,
    *,
    rng: np.random.Generator,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> MixturePosterior:
    """Chains so many times as long, in 2 m / (m + 1) times as many draws, that stay in the mode.

    One that has left in a round goes back to where it began, and if it must leave there, further.
    """
    size = begun.n_draws // begun.n_chains
    m = len(release.by_draw)
    each = -(-2 * m * size // ((m + 1) * rounds))
    some = (np.arange(1, each + 1) * size) // each - 1
    tick = Ticker(progress, "base fit", (rounds - 1) * begun.n_draws, rounds - 1)
    how: Any = {"n_jobs": n_jobs, "tick": tick}
    past, tables = [begun], begun.tables(release, together=True)
    for k, child in enumerate(rng.spawn(rounds - 1), start=1):
        ways = child.spawn(3)
        now, lost = _within(past[-1], tables, limit, size, ways[0], **how)
        if len(lost) and len(past) > 1:
            tick.total += 2 * size * len(lost)
            before = _within(past[-2].of_chains(lost), tables, limit, size, ways[1], **how)[0]
            after = _within(before, tables, limit, size, ways[2], **how)[0]
            past[-1], now = _with(past[-1], lost, before), _with(now, lost, after)
        past.append(now)
        tick.end(k)
    parts = zip(*(one.draws.chains() for one in past), strict=True)
    chains = [joined([chain.take(some, 1) for chain in part]) for part in parts]
    draws = joined([replace(chain, n_chains=1) for chain in chains])
    put_back = sum(one.put_back for one in past)
    return replace(begun, draws=draws, thin=begun.thin * (size // each), put_back=put_back)


def _with(all_of: MixturePosterior, which: Ints, others: MixturePosterior) -> MixturePosterior:
    """The same with some chains exchanged."""
    chains = all_of.draws.chains()
    for c, chain in zip(which, others.draws.chains(), strict=True):
        chains[c] = chain
    return replace(all_of, draws=joined(chains), put_back=all_of.put_back + others.put_back)


def _within(
    begin: MixturePosterior,
    tables: Sequence[Scored],
    limit: float,
    n_draws: int,
    rng: np.random.Generator,
    **how: Any,
) -> tuple[MixturePosterior, Ints]:
    """Chains that go on, a quarter at a time, those that leave anew; and those that always left."""
    chains = begin.draws.chains()
    out, put_back, tick = np.arange(len(chains)), 0, how["tick"]
    quarter: Any = {"thin": begin.thin, "tune": 0, "n_draws": n_draws // QUARTERS, **how}
    for k, child in enumerate(rng.spawn(TRIES)):
        tick.total += len(out) * n_draws * (k > 0)
        now, stay, parts = begin.of_chains(out), out, {c: list[Draws]() for c in out}
        for left, way in zip(range(QUARTERS)[::-1], child.spawn(QUARTERS), strict=True):
            sweep, score = way.spawn(2)
            now = now.refitted(begin.units, rng=sweep, **quarter)
            gone = outside(scores(now, tables, score, SCORED // QUARTERS)[0], limit)
            for c, chain in zip(stay, now.draws.chains(), strict=True):
                parts[c].append(chain)
            stay = stay[~gone]
            tick.total -= left * quarter["n_draws"] * int(gone.sum())
            if not len(stay):
                break
            now = now.of_chains(np.flatnonzero(~gone))
        for c in stay:
            chains[c] = replace(joined(parts[c]), n_chains=1)
        out = np.setdiff1d(out, stay)
        put_back += len(out)
        if not len(out):
            break
    for c in out:
        chains[c] = chains[c].take(np.resize(np.arange(len(chains[c])), n_draws), 1)
    return replace(begin, draws=joined(chains), put_back=put_back), out


def scores(
    posterior: MixturePosterior,
    tables: Sequence[Scored],
    rng: np.random.Generator,
    many: int = SCORED,
) -> npt.NDArray[np.float64]:
    """Log probability of tables, given about so ``many`` draws of each chain, (m, C, n).

    Where no column stays at parameters' means given the labels: draws of these only add noise.
    """
    C = posterior.n_chains
    size = posterior.n_draws // C
    few = np.unique(np.linspace(0, size - 1, min(size, many)).astype(np.int64))
    draws = posterior.draws.take((size * np.arange(C)[:, None] + few).ravel(), 1)
    fixed = posterior.conditional
    if not fixed.any():
        wanted = np.zeros(0, np.int64)
        sums = collapse(posterior.prior, posterior.units, draws, fixed, wanted, rng=rng)[0]
        draws = at_means(sums, posterior.prior)
    return posterior.log_tables(tables, draws).reshape(-1, C, len(few))


def draws_beside(
    posterior: MixturePosterior, release: EncodedRelease, h: int, least_many: int
) -> npt.NDArray[np.int64]:
    """Draws of a chain in the mode of draw h, which has made the release; at least so many."""
    size = posterior.n_draws // posterior.n_chains
    begin = h - h % size
    nearest = np.argsort(np.abs(np.arange(size) - h % size), kind="stable")[1:]
    said = posterior.log_release(release, begin + np.arange(size)).sum(axis=0)
    beside = said[nearest[: 2 * BESIDE]]
    limit = np.median(beside) - CLEAR - ERRORS * beside.std()
    same = nearest[said[nearest] >= limit]
    return begin + (same if len(same) >= least_many else nearest[:least_many])
