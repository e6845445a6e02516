"""Chains of an audit that a release leads: begun, grouped by mode, carried on in one.

From where a led chain stops, one goes on given y alone and one given y and each data set, so that
both predictives of the evidence come from one mode.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.checkpoint import Key, stage
from bayes_risk.evidence.chains import Chains, Fits, Sampling, seed_of
from bayes_risk.evidence.contract import Targets
from bayes_risk.evidence.modes import Modes
from bayes_risk.models.mixture.posterior import MixturePosterior

from .apart import NOBODY, probed, quarters, told_apart
from .led import Lengths, carried_on, led_by, lengthened, scores

STRAYS = 3  # times as many starts as would do if none strayed, at most


@dataclass(frozen=True, slots=True, eq=False)
class LedChains(Chains):
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

    def only(self, starts: Ints) -> "list[LedChains]":
        """Those from some of the starts; nothing where there is not one."""
        which = np.flatnonzero(np.isin(self.starts, starts))
        if not len(which):
            return []
        return [replace(self, which=None if len(which) == len(self.starts) else which)]


class Starts(NamedTuple):
    """Chains that a release has led, each from a start of its own, as `told_apart` takes them."""

    posterior: MixturePosterior
    lengths: Lengths
    value: Array
    error: Array
    log_release: Array
    made: Flags


@dataclass(frozen=True, slots=True, eq=False)
class LedByRelease:
    """The strategy of a mixture whose release is of one mode; ``fit``: a `MixtureFit`."""

    fit: Any

    @property
    def n_chains(self) -> int:
        """How many starts a release leads, of which those in its mode are carried on."""
        return Lengths.of(self.fit.posterior).chains

    def begin(self, fits: Fits, cases: Targets) -> "LedSampling":
        """Chains in the mode that made the release."""
        return LedSampling(self, fits, cases)

    def started(self, release: Any, **how: Any) -> tuple[MixturePosterior, Lengths, int]:
        """Short chains that the release led; how long they ran; how many began at draws."""
        fit, source = self.fit, release.source
        h = (source.draw_index or (None,))[0] if source.maker == fit.digest else None
        led = partial(led_by, fit.posterior, release, fit.weights, h, **how)
        posterior, lengths = stage("starts led by the release", led)
        return posterior, lengths, lengths.starts(h is not None)[1]


class LedSampling(Sampling):
    """Chains of an audit in the mode, or modes, that its release has chosen."""

    modes: Modes
    chains: list[LedChains]

    def __init__(self, strategy: LedByRelease, fits: Fits, cases: Targets) -> None:
        super().__init__(fits, [])
        self.strategy = strategy
        self.key = ("led", *fits.data(), *seed_of(fits.rng))
        self.probes = probed(fits.release.microdata, cases)
        self.starts: list[Starts] = []
        self.modes = self._lead(self.key, fits.rng, strategy.n_chains)

    def double(self, share: Array) -> None:
        """Twice as many chains."""
        (rng,) = self.fits.rng.spawn(1)
        self.modes = self._lead((*self.key, "more", *seed_of(rng)), rng, 2 * len(self.modes.used))

    def all_sampled(self) -> None:
        """Count how often chains left the mode, in any fit, and were put back."""
        posteriors: list[Any] = [each() for chains in self.chains for each in chains.posteriors]
        self.modes = replace(self.modes, put_back=sum(one.put_back for one in posteriors))

    def by_mode(self) -> Sequence[Sequence[Chains]]:
        """Chains of each mode, where the release leaves several open."""
        if len(self.modes.kept) == 1:
            return []
        return [self._from(self.modes.used[those]) for those in self.modes.chains_by_mode]

    def _from(self, starts: Ints) -> list[LedChains]:
        return [some for chains in self.chains for some in chains.only(starts)]

    def _lead(self, key: Key, rng: np.random.Generator, wanted: int) -> Modes:
        """Carry on so many chains in all (at first half), of starts there are, then of new ones."""
        carried = np.concatenate([NOBODY, *(chains.starts for chains in self.chains)])
        found = self._grouped(wanted, carried) if self.starts else None
        missing = wanted - (0 if found is None else len(found.used))
        enough = wanted if len(carried) else -(-wanted // 2)
        for k in range(STRAYS * -(-missing // self.strategy.n_chains)):
            if found is not None and found.settled and len(found.used) >= enough:
                break
            self.starts.append(self._started((*key, "starts", k), *rng.spawn(3)))
            found = self._grouped(wanted, carried)
        assert found is not None
        self.chains = self._from(found.used)
        new, begin = np.setdiff1d(found.used, carried), 0
        for starts in self.starts:
            end = begin + len(starts.value)
            which = new[(new >= begin) & (new < end)] - begin
            if len(which):
                at = (*key, "carried", begin, which.tobytes())
                self.chains.append(self._carried(starts, which, begin, at, rng))
            begin = end
        return replace(found, used=np.concatenate([chains.used for chains in self.chains]))

    def _started(
        self,
        key: Key,
        lead: np.random.Generator,
        score: np.random.Generator,
        weigh: np.random.Generator,
    ) -> Starts:
        """Chains led by the release, and what they say of the probes."""
        release, how = self.fits.release, self.fits.how
        start = partial(self.strategy.started, release, rng=lead, **how)
        led, lengths, made = self.fits.remembered(key, start)
        ratios = [
            self.fits.ratio(partial(led.of_chains, np.array([c])), self.probes, rng)
            for c, rng in enumerate(score.spawn(led.n_chains))
        ]
        log_p = scores(led, led.tables(release), weigh)
        return Starts(
            posterior=led,
            lengths=lengths,
            value=np.stack([r.value for r in ratios]),
            error=np.stack([0.5 * (r.deviation[0] - r.deviation[1]) for r in ratios]).astype(float),
            log_release=quarters(log_p.swapaxes(0, 1)),
            made=np.arange(led.n_chains) >= led.n_chains - made,
        )

    def _grouped(self, wanted: int, carried: Ints) -> Modes:
        """The modes of all starts, and those of them to be carried on."""
        value, error, log_release, made = (
            np.concatenate([starts[k] for starts in self.starts]) for k in (2, 3, 4, 5)
        )
        return told_apart(value, error, log_release, wanted, carried, made)

    def _carried(
        self, starts: Starts, which: Ints, first: int, key: Key, rng: np.random.Generator
    ) -> LedChains:
        """Some of these starts carried on, and the fits that go on from there."""
        release, how = self.fits.release, self.fits.how
        (child,) = rng.spawn(1)
        carry = partial(
            carried_on, starts.posterior, which, starts.lengths, release, rng=child, **how
        )
        make = partial(stage, "base fit in the mode", carry)
        posterior, limit = self.fits.remembered(key, make)
        fit = replace(self.strategy.fit, posterior=posterior, lengths=starts.lengths)

        def base(rng: np.random.Generator) -> MixturePosterior:
            rounds = 2**self.fits.rounds
            return lengthened(posterior, release, limit, rounds, rng=rng, **how)

        return LedChains(fit, self.fits.posteriors(fit, key, rng, base), first + which)
