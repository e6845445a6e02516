"""Posteriors of an audit: each is sampled once, when it is first asked for, and kept.

Chains begin and go on as `Sampling` has it, unless the model supplies a `Strategy`.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from bayes_risk._core.arrays import Array
from bayes_risk._core.checkpoint import Key, Memory, Stage
from bayes_risk.release.release import EncodedRelease

from .contract import Imputing, Posterior, Progress, Sampled, Targets
from .leave_one_out import Ratio, Reading, ratio_of_fit
from .modes import Modes

T = TypeVar("T")
Sample = Callable[[np.random.Generator], Posterior]


def seed_of(rng: np.random.Generator) -> Key:
    """What a generator will draw, of which nothing has been drawn yet."""
    seed: Any = rng.bit_generator.seed_seq
    return (str(seed.entropy), tuple(seed.spawn_key), seed.n_children_spawned)


def key_of(release: EncodedRelease, sets: Sequence[int] | slice = slice(None)) -> Key:
    """Some data sets of a release, and the mechanism that they are taken to have."""
    groups = release.groups
    arrays = [release.codes[sets], release.replaced, release.columns]
    arrays += [] if groups is None else [groups[sets]]
    digest = hashlib.blake2b(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    return (digest.hexdigest(), tuple(release.synthesized), release.classes)


@dataclass(frozen=True, slots=True, eq=False)
class Chains:
    """Chains that go on together: of the base fit (0), and of each draw of the parameters."""

    fit: Sampled
    posteriors: list[Stage[Posterior]]

    def posterior(self, k: int) -> Callable[[], Posterior]:
        """Posterior k, sampled when it is first asked for."""
        return self.posteriors[k]


@dataclass(slots=True, eq=False)
class Fits:
    """Where the posteriors of an audit come from."""

    release: EncodedRelease
    rng: np.random.Generator
    n_jobs: int
    progress: Progress | None
    memory: Memory | None  # of all audits of one fit, the settings of a sweep
    read: Reading  # how predictives are taken from a posterior
    key: Key = ()  # what all posteriors depend on

    @property
    def how(self) -> dict[str, Any]:
        """Workers and progress of a step that samples."""
        return {"n_jobs": self.n_jobs, "progress": self.progress}

    def data(self, sets: Sequence[int] | slice = slice(None)) -> Key:
        """The key of some data sets, where there is a memory."""
        return () if self.memory is None else key_of(self.release, sets)

    def remembered(self, key: Key, make: Callable[[], T]) -> T:
        """What is in memory under the key, made the first time; without a memory each time."""
        return Stage("", make, key=key, memory=self.memory)()

    def stage(
        self, key: Key, name: str, data: Key, rng: np.random.Generator, sample: Sample
    ) -> Stage[Posterior]:
        """A posterior by its data and seed."""
        key = (*key, name, *data, *seed_of(rng))
        return Stage(name, partial(sample, rng), key=key, memory=self.memory)

    def posteriors(
        self, fit: Sampled, key: Key, rng: np.random.Generator, base: Sample | None = None
    ) -> list[Stage[Posterior]]:
        """The base posterior (``base``: how it is sampled), and one of each draw of parameters."""
        draws = self.release.by_draw
        *children, base_rng = rng.spawn(len(draws) + 1)

        def augmented(l: int, rng: np.random.Generator) -> Posterior:
            return fit.augmented(self.release, l, rng=rng, **self.how)

        first = base or partial(self._base, fit)
        return [self.stage(key, "fit 0", self.data(), base_rng, first)] + [
            self.stage(key, f"fit {l + 1}", self.data(list(sets)), child, partial(augmented, l))
            for l, (sets, child) in enumerate(zip(draws, children, strict=True))
        ]

    @property
    def rounds(self) -> int:
        """How often the base fit is doubled, whose error counts once for each draw."""
        return int(np.ceil(np.log2(len(self.release.by_draw))))

    def _base(self, fit: Sampled, rng: np.random.Generator) -> Posterior:
        found = fit.informed(self.release)
        for k, child in enumerate(rng.spawn(self.rounds), start=1):
            found = found.doubled(rng=child, n_jobs=self.n_jobs)
            self.report("base fit", k, self.rounds)
        return found

    def ratio(
        self, posterior: Callable[[], Posterior], cases: Targets, rng: np.random.Generator
    ) -> Ratio:
        """Leave-one-out log ratios of a posterior."""
        return ratio_of_fit(posterior, cases, rng, self.n_jobs, self.read)

    def report(self, stage: str, done: int, total: int) -> None:
        """Progress of a stage."""
        if self.progress is not None:
            self.progress(stage, done, total)


class Sampling:
    """Chains of an audit: lots of which one draw of each counts alike; a `Strategy` may differ."""

    modes: Modes | None = None

    def __init__(self, fits: Fits, chains: Sequence[Chains], *, imputes: bool = False) -> None:
        self.fits, self.chains, self.imputes = fits, chains, imputes

    def double(self, share: Array) -> None:
        """Twice as long chains, of the base fit or all others; ``share`` (F,) of the variance."""
        base_first = share[0] >= share[1:].sum()
        posteriors = self.chains[0].posteriors
        children = self.fits.rng.spawn(len(posteriors))
        for k, (begun, child) in enumerate(zip(posteriors, children, strict=True)):
            if (k == 0) == base_first:
                key = (*begun.key, "doubled", *seed_of(child))
                double = partial(self._doubled, begun, child)
                posteriors[k] = Stage(f"fit {k}, doubled", double, key=key, memory=self.fits.memory)

    def _doubled(self, begun: Stage[Posterior], rng: np.random.Generator) -> Posterior:
        return begun().doubled(rng=rng, n_jobs=self.fits.n_jobs)

    def all_sampled(self) -> None:
        """All posteriors have been sampled, for evidence of all chains."""

    def by_mode(self) -> Sequence[Sequence[Chains]]:
        """Chains of each mode, where the release leaves several open."""
        return []


def plain(fits: Fits, fit: Sampled) -> Sampling:
    """Predictives before and after seeing each draw of the parameters."""
    return Sampling(fits, [Chains(fit, fits.posteriors(fit, fits.key, fits.rng))])


def imputed(fits: Fits, fit: Imputing) -> Sampling:
    """The base fit, and one in which the records that are not known are imputed."""
    data, (rng,) = fits.data(), fits.rng.spawn(1)

    def sample(rng: np.random.Generator) -> Posterior:
        return fit.imputed(fits.release, rng=rng, **fits.how)

    base = Stage("", partial(fit.informed, fits.release), key=(*fits.key, "fit 0", *data))
    chains = Chains(fit, [base, fits.stage(fits.key, "fit 1", data, rng, sample)])
    return Sampling(fits, [chains], imputes=True)
