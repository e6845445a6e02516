"""A fit that remembers posteriors and checks: settings of a sweep share their fits.

A posterior is a function of its data and its seed, so that asking twice for the same one can be
answered from memory, to the byte.
"""

from typing import Any, cast

import numpy as np

from bayes_risk.evidence.contract import Posterior, SampledFit
from bayes_risk.evidence.mechanism_check import checked
from bayes_risk.evidence.mechanism_result import MechanismCheck
from bayes_risk.release.release import Release

Key = tuple[Any, ...]


def seed_of(rng: np.random.Generator) -> Key:
    """What a generator that nobody has drawn from will draw."""
    seed: Any = rng.bit_generator.seed_seq
    return (str(seed.entropy), tuple(seed.spawn_key), seed.n_children_spawned)


def told_apart(release: Release) -> Key:
    """Releases are the same if their tables are, and the mechanism they are taken to have."""
    return (tuple(map(id, release.datasets)), tuple(release.synthesized), release.classes)


class RememberedPosterior:
    """A posterior whose longer runs are remembered."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self._longer: dict[Key, RememberedPosterior] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "RememberedPosterior":
        """The same posterior after twice the sampling."""
        key = seed_of(rng)
        if key not in self._longer:
            self._longer[key] = RememberedPosterior(self.inner.doubled(rng=rng, n_jobs=n_jobs))
        return self._longer[key]


class RememberedFit:
    """A fit whose posteriors are remembered; in all else it is the fit.

    Parameters
    ----------
    inner : Fit
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self._known: dict[Key, Any] = {}
        self._held: list[Any] = []  # what ids stand for must live as long as they do

    @classmethod
    def of(cls, fit: Any) -> "RememberedFit":
        """A fit of the same class name, which messages give."""
        named: type[RememberedFit] = type(type(fit).__name__, (cls,), {})
        return named(fit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def informed(self, release: Release) -> RememberedPosterior:
        """p(Theta | y) of what made the release."""
        key = ("informed", *told_apart(release))
        return self._posterior(key, release, lambda: self.inner.informed(release))

    def augmented(
        self, release: Release, l: int, *, rng: np.random.Generator, **how: Any
    ) -> RememberedPosterior:
        """p(Theta | y, Z^(l))."""
        tables = tuple(id(release.datasets[k]) for k in release.by_draw[l])
        key = ("augmented", l, tables, tuple(release.synthesized), release.classes, *seed_of(rng))
        return self._posterior(
            key, release, lambda: self.inner.augmented(release, l, rng=rng, **how)
        )

    def imputed(
        self, release: Release, *, rng: np.random.Generator, **how: Any
    ) -> RememberedPosterior:
        """p(Theta, y_U | y_A, Z)."""
        key = ("imputed", *told_apart(release), *seed_of(rng))
        return self._posterior(key, release, lambda: self.inner.imputed(release, rng=rng, **how))

    def knowing(
        self, known: Any, release: Release, *, rng: np.random.Generator, **how: Any
    ) -> "RememberedFit":
        """The same model with only the known records' values seen."""
        key = ("knowing", np.asarray(known).tobytes(), *told_apart(release), *seed_of(rng))
        return self._fit(key, release, lambda: self.inner.knowing(known, release, rng=rng, **how))

    def led(self, release: Release, *, rng: np.random.Generator, **how: Any) -> "RememberedFit":
        """The same model with chains led by the release."""
        key = ("led", *told_apart(release), *seed_of(rng))
        return self._fit(key, release, lambda: self.inner.led(release, rng=rng, **how))

    def carried(self, which: Any, *, rng: np.random.Generator, **how: Any) -> "RememberedFit":
        """Some of these chains at their full length."""
        key = ("carried", np.asarray(which).tobytes(), *seed_of(rng))
        return self._fit(key, which, lambda: self.inner.carried(which, rng=rng, **how))

    def without(
        self, record: int, release: Release | None, l: int, *, start: Any, rng: Any
    ) -> Posterior:
        """A posterior again, with the values of one record left out."""
        inner = cast(SampledFit, self.inner)
        return inner.without(record, release, l, start=bare(start), rng=rng)

    def _fit(self, key: Key, of: Any, make: Any) -> "RememberedFit":
        if key not in self._known:
            self._held.append(of)
            self._known[key] = RememberedFit.of(make())
        return cast(RememberedFit, self._known[key])

    def checked(self, release: Release, *, rng: np.random.Generator) -> MechanismCheck | None:
        """The check of files made elsewhere."""
        key = ("check", release.parameters, *told_apart(release), *seed_of(rng))
        if key not in self._known:
            self._held.append(release)
            self._known[key] = checked(self.inner, release, rng)
        return cast(MechanismCheck | None, self._known[key])

    def _posterior(self, key: Key, release: Release, make: Any) -> RememberedPosterior:
        if key not in self._known:
            self._held.append(release)
            self._known[key] = RememberedPosterior(make())
        return cast(RememberedPosterior, self._known[key])


def bare(posterior: Any) -> Any:
    """The posterior itself."""
    return posterior.inner if isinstance(posterior, RememberedPosterior) else posterior
