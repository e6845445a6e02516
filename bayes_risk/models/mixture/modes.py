"""Chains of a mixture that a release leads to the mode that made it, grouped and carried on.

Chains of latent classes settle in modes, which differ by far more than draws within one do. A
release is drawn within a mode and chooses it: ``log p(Z | y, mode)`` differs by tens of nats.

A chain starts with everybody in one class on the table and all data sets of a release, stacked, and
splits and merges soon find the mode that made them (where columns stay: on the table alone); or at
a draw of the fit beside those that made the release. From where it stops, one goes on given y and
one given y and each data set, so that both predictives come from one mode: `docs/modes.md`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.checkpoint import Key, stage
from bayes_risk.data.microdata import Microdata, Number
from bayes_risk.evidence.contract import Progress, Targets
from bayes_risk.evidence.modes import Modes
from bayes_risk.evidence.runner import Chains, Fits, Sampling, seed_of
from bayes_risk.intruder.guesses import GuessSet, possible
from bayes_risk.models.fits.synthesis import Ticker
from bayes_risk.release.release import EncodedRelease

from .columns import Mechanism
from .posterior import MixturePosterior, Scored
from .sampler import at_means, chains_of, collapse, initial_state, run_chain
from .state import Draws, Units, joined_chains

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


def group_modes(
    value: Array,
    error: Array,
    log_release: Array,
    chains: int,
    resumed: Ints = NOBODY,
    made: Flags | None = None,
) -> Modes:
    """Group starts by what they say of guesses, rank the groups by the release, choose chains.

    ``value`` (S, ...): base log ratios of guesses, ``error`` a draw of their error, ``log_release``
    (S, m, B), ``made`` (S,): starts beside draws that made the release, of which one will do. At
    most ``chains`` are carried on; ``resumed`` stay unless they strayed. If the best mode was found
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
    stay = resumed[np.isin(mode[resumed], kept)]
    fresh = np.setdiff1d(np.arange(len(mode)), resumed)
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


def _open(log_release: Array, mode: Ints) -> Flags:
    """Which modes do not fall short of the best, of log probabilities (S, B)."""
    each = [log_release[mode == k].mean(axis=1) for k in range(int(mode.max()) + 1)]
    mean, noise = np.array([chains.mean() for chains in each]), _noise(log_release)
    between = [chains.var(ddof=1) if len(chains) >= SOME else 0.0 for chains in each]
    variance = np.maximum(noise**2, between) / [len(chains) for chains in each]
    best = int(np.argmax(mean))
    error = np.sqrt(variance + variance[best])
    return np.asarray(mean[best] - mean <= CLEAR + ERRORS * error)


def distances(value: Array, error: Array) -> Array:
    """Distance between starts (S, S): rms difference of what they say, their noise taken out.

    Halves of a chain are more alike than chains, so the noise, that of most chains, counts twice.
    """
    seen = np.isfinite(value).all(axis=0) & np.isfinite(error).all(axis=0)
    value = value[:, seen]
    noise = 4.0 * np.median([_square(e) for e in error[:, seen]])
    apart = np.array([[_square(a - b) for b in value] for a in value])
    return np.asarray(np.sqrt(np.maximum(apart - noise, 0.0)))


def least(log_release: Array) -> float:
    """Log probability of a release below which a chain of draws (C, n) has left the mode."""
    means = quarters(log_release)
    return float(np.median(means) - CLEAR - ERRORS * _spread(means))


def chains_below(log_release: Array, limit: float) -> Flags:
    """Chains that are below the limit in the mean of these draws (C, n) of a quarter."""
    return np.asarray(log_release.mean(axis=1) < limit)


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
    return replace(few, guesses=possible(guesses, data, few.profiles, few.columns, few.record))


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


def started_from_release(
    base: MixturePosterior,
    release: EncodedRelease,
    weights: Array | None,
    h: int | None,
    *,
    rng: Rng,
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
    tick = Ticker(progress, "chains started from the release", total)
    how: Any = {"n_jobs": n_jobs, "tick": lambda done: tick(done * steps.find)}
    find_one = partial(_found, steps.find, (cold, warm), stacked)
    found = joined_chains(chains_of(find_one, starts, draws=1, rng=find, **how))
    if h is not None:
        among = draws_beside(base, release.first(1), h, n_made)
        some = beside.choice(among, n_made, replace=len(among) < n_made)
        found = joined_chains([found, base.draws.take(some, n_made)])
    how["tick"] = tick
    started = replace(base, prior=warm, draws=found)
    run: Any = {"thin": steps.thin, "tune": steps.settle, "n_draws": steps.short, "rng": settle}
    return started.refitted(base.units, **run, **how), steps


def _found(tune: int, priors: Any, stacked: Units, start: Draws, *, rng: Rng, **how: Any) -> Draws:
    """Where a chain stops in a mode: found on some rows of a large stack, then on all of them."""
    prior, some = priors[0], stacked.thinned(FOUND_ON, rng)
    if some is not stacked:
        start = run_chain(prior, some, start, draws=1, tune=tune, thin=1, rng=rng)
        prior, tune = priors[1], max(tune // 8, 1)
    return run_chain(prior, stacked, start, tune=tune, thin=1, rng=rng, **how)


def resumed_chains(
    started: MixturePosterior,
    which: Ints,
    steps: Lengths,
    release: EncodedRelease,
    *,
    rng: Rng,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> tuple[MixturePosterior, float]:
    """Some of these chains with their full number of draws; the least log p(Z) in the mode."""
    chosen, (score, child) = started.of_chains(which), rng.spawn(2)
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
    rng: Rng,
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
        now, outside = _within(past[-1], tables, limit, size, ways[0], **how)
        if len(outside) and len(past) > 1:
            tick.total += 2 * size * len(outside)
            before = _within(past[-2].of_chains(outside), tables, limit, size, ways[1], **how)[0]
            after = _within(before, tables, limit, size, ways[2], **how)[0]
            past[-1], now = _with(past[-1], outside, before), _with(now, outside, after)
        past.append(now)
        tick.end(k)
    parts = zip(*(one.draws.chains() for one in past), strict=True)
    chains = [joined_chains([chain.take(some, 1) for chain in part]) for part in parts]
    draws = joined_chains([replace(chain, n_chains=1) for chain in chains])
    put_back = sum(one.put_back for one in past)
    return replace(begun, draws=draws, thin=begun.thin * (size // each), put_back=put_back)


def _with(all_of: MixturePosterior, which: Ints, others: MixturePosterior) -> MixturePosterior:
    """The same with some chains exchanged."""
    chains = all_of.draws.chains()
    for c, chain in zip(which, others.draws.chains(), strict=True):
        chains[c] = chain
    return replace(all_of, draws=joined_chains(chains), put_back=all_of.put_back + others.put_back)


def _within(
    begin: MixturePosterior,
    tables: Sequence[Scored],
    limit: float,
    n_draws: int,
    rng: Rng,
    **how: Any,
) -> tuple[MixturePosterior, Ints]:
    """Chains that go on, a quarter at a time, those that leave anew; and those that always left."""
    chains = begin.draws.chains()
    out, put_back, tick = np.arange(len(chains)), 0, how["tick"]
    quarter: Any = {"thin": begin.thin, "tune": 0, "n_draws": n_draws // QUARTERS, **how}
    for k, child in enumerate(rng.spawn(TRIES)):
        tick.total += len(out) * n_draws * (k > 0)
        now, stay, parts = begin.of_chains(out), out, {c: list[Draws]() for c in out}
        for left, generator in zip(range(QUARTERS)[::-1], child.spawn(QUARTERS), strict=True):
            sweep, score = generator.spawn(2)
            now = now.refitted(begin.units, rng=sweep, **quarter)
            gone = chains_below(scores(now, tables, score, SCORED // QUARTERS)[0], limit)
            for c, chain in zip(stay, now.draws.chains(), strict=True):
                parts[c].append(chain)
            stay = stay[~gone]
            tick.total -= left * quarter["n_draws"] * int(gone.sum())
            if not len(stay):
                break
            now = now.of_chains(np.flatnonzero(~gone))
        for c in stay:
            chains[c] = replace(joined_chains(parts[c]), n_chains=1)
        out = np.setdiff1d(out, stay)
        put_back += len(out)
        if not len(out):
            break
    for c in out:
        chains[c] = chains[c].take(np.resize(np.arange(len(chains[c])), n_draws), 1)
    return replace(begin, draws=joined_chains(chains), put_back=put_back), out


def scores(
    posterior: MixturePosterior, tables: Sequence[Scored], rng: Rng, many: int = SCORED
) -> Array:
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
) -> Ints:
    """Draws of a chain in the mode of draw h, which has made the release; at least so many."""
    size = posterior.n_draws // posterior.n_chains
    begin = h - h % size
    nearest = np.argsort(np.abs(np.arange(size) - h % size), kind="stable")[1:]
    log_density = posterior.log_release(release, begin + np.arange(size)).sum(axis=0)
    beside = log_density[nearest[: 2 * BESIDE]]
    limit = np.median(beside) - CLEAR - ERRORS * beside.std()
    same = nearest[log_density[nearest] >= limit]
    return begin + (same if len(same) >= least_many else nearest[:least_many])


MAX_STARTS = 3  # times as many starts as would do if none strayed, at most


@dataclass(frozen=True, slots=True, eq=False)
class ModeChains(Chains):
    """Chains from some starts: ``starts`` (C,), counted over all; ``which`` count; None: all."""

    starts: Ints
    which: Ints | None = None

    def posterior(self, k: int) -> Callable[[], Any]:
        """Posterior k, of the chains that count."""
        sampled: Any = self.posteriors[k]
        which = self.which
        return sampled if which is None else lambda: sampled().of_chains(which)

    @property
    def used(self) -> Ints:
        """Starts of the chains that count."""
        return self.starts if self.which is None else self.starts[self.which]

    def only(self, starts: Ints) -> "list[ModeChains]":
        """Those from some of the starts; nothing where there is not one."""
        which = np.flatnonzero(np.isin(self.starts, starts))
        if not len(which):
            return []
        return [replace(self, which=None if len(which) == len(self.starts) else which)]


class Starts(NamedTuple):
    """Chains that a release has led, each from a start of its own, as `group_modes` takes them."""

    posterior: MixturePosterior
    lengths: Lengths
    value: Array
    error: Array
    log_release: Array
    made: Flags


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseModes:
    """The strategy of a mixture whose release is of one mode; ``fit``: a `MixtureFit`."""

    fit: Any

    @property
    def n_chains(self) -> int:
        """How many starts a release leads, of which those in its mode are carried on."""
        return Lengths.of(self.fit.posterior).chains

    def begin(self, fits: Fits, cases: Targets) -> "ModeSampling":
        """Chains in the mode that made the release."""
        return ModeSampling(self, fits, cases)

    def started(self, release: Any, **how: Any) -> tuple[MixturePosterior, Lengths, int]:
        """Short chains that the release led; how long they ran; how many began at draws."""
        fit, source = self.fit, release.source
        h = (source.draw_index or (None,))[0] if source.maker == fit.digest else None
        start = partial(started_from_release, fit.posterior, release, fit.weights, h, **how)
        posterior, lengths = stage("chains started from the release", start)
        return posterior, lengths, lengths.starts(h is not None)[1]


class ModeSampling(Sampling):
    """Chains of an audit in the mode, or modes, that its release has chosen."""

    modes: Modes
    chains: list[ModeChains]

    def __init__(self, strategy: ReleaseModes, fits: Fits, cases: Targets) -> None:
        super().__init__(fits, [])
        self.strategy = strategy
        self.key = ("led", *fits.data(), *seed_of(fits.rng))
        self.probes = probed(fits.release.microdata, cases)
        self.starts: list[Starts] = []
        self.modes = self._find(self.key, fits.rng, strategy.n_chains)

    def double(self, share: Array) -> None:
        """Twice as many chains."""
        (rng,) = self.fits.rng.spawn(1)
        self.modes = self._find((*self.key, "more", *seed_of(rng)), rng, 2 * len(self.modes.used))

    def all_sampled(self) -> None:
        """Count how often chains left the mode, in any fit, and were put back."""
        posteriors: list[Any] = [each() for chains in self.chains for each in chains.posteriors]
        self.modes = replace(self.modes, put_back=sum(one.put_back for one in posteriors))

    def by_mode(self) -> Sequence[Sequence[Chains]]:
        """Chains of each mode, where the release leaves several open."""
        if len(self.modes.kept) == 1:
            return []
        return [self._from(self.modes.used[those]) for those in self.modes.chains_by_mode]

    def _from(self, starts: Ints) -> list[ModeChains]:
        return [some for chains in self.chains for some in chains.only(starts)]

    def _find(self, key: Key, rng: Rng, wanted: int) -> Modes:
        """Carry on so many chains in all (at first half), of starts there are, then of new ones."""
        resumed = np.concatenate([NOBODY, *(chains.starts for chains in self.chains)])
        found = self._grouped(wanted, resumed) if self.starts else None
        missing = wanted - (0 if found is None else len(found.used))
        enough = wanted if len(resumed) else -(-wanted // 2)
        for k in range(MAX_STARTS * -(-missing // self.strategy.n_chains)):
            if found is not None and found.settled and len(found.used) >= enough:
                break
            self.starts.append(self._started((*key, "starts", k), *rng.spawn(3)))
            found = self._grouped(wanted, resumed)
        assert found is not None
        self.chains = self._from(found.used)
        new, begin = np.setdiff1d(found.used, resumed), 0
        for starts in self.starts:
            end = begin + len(starts.value)
            which = new[(new >= begin) & (new < end)] - begin
            if len(which):
                at = (*key, "carried", begin, which.tobytes())
                self.chains.append(self._resumed(starts, which, begin, at, rng))
            begin = end
        return replace(found, used=np.concatenate([chains.used for chains in self.chains]))

    def _started(self, key: Key, starting: Rng, score: Rng, weigh: Rng) -> Starts:
        """Chains led by the release, and what they say of the probes."""
        release, how = self.fits.release, self.fits.how
        start = partial(self.strategy.started, release, rng=starting, **how)
        posterior, lengths, made = self.fits.remembered(key, start)
        ratios = [
            self.fits.ratio(partial(posterior.of_chains, np.array([c])), self.probes, rng)
            for c, rng in enumerate(score.spawn(posterior.n_chains))
        ]
        log_p = scores(posterior, posterior.tables(release), weigh)
        return Starts(
            posterior=posterior,
            lengths=lengths,
            value=np.stack([r.value for r in ratios]),
            error=np.stack([0.5 * (r.deviation[0] - r.deviation[1]) for r in ratios]).astype(float),
            log_release=quarters(log_p.swapaxes(0, 1)),
            made=np.arange(posterior.n_chains) >= posterior.n_chains - made,
        )

    def _grouped(self, wanted: int, resumed: Ints) -> Modes:
        """The modes of all starts, and those of them to be carried on."""
        value, error, log_release, made = (
            np.concatenate([starts[k] for starts in self.starts]) for k in (2, 3, 4, 5)
        )
        return group_modes(value, error, log_release, wanted, resumed, made)

    def _resumed(self, starts: Starts, which: Ints, first: int, key: Key, rng: Rng) -> ModeChains:
        """Some of these starts carried on, and the fits that go on from there."""
        release, how = self.fits.release, self.fits.how
        (child,) = rng.spawn(1)
        carry = partial(
            resumed_chains, starts.posterior, which, starts.lengths, release, rng=child, **how
        )
        make = partial(stage, "base fit in the mode", carry)
        posterior, limit = self.fits.remembered(key, make)
        fit = replace(self.strategy.fit, posterior=posterior, lengths=starts.lengths)

        def base(rng: Rng) -> MixturePosterior:
            rounds = 2**self.fits.rounds
            return lengthened(posterior, release, limit, rounds, rng=rng, **how)

        return ModeChains(fit, self.fits.posteriors(fit, key, rng, base), first + which)
