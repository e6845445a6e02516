"""Posteriors of the user's own model: of the confidential table, and of it with a release."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayes_risk._core.batches import batch_of_draws
from bayes_risk._core.errors import ModelError
from bayes_risk.evidence.contract import Targets

from .density import Engine, Theta
from .predictive import PyMCPredictive
from .sampler import Condition, Sampler

MIN_TUNE = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PyMCPosterior:
    """Draws of the parameters given some data.

    Attributes
    ----------
    engine : Engine
        The compiled model.
    condition : Condition
        The data.
    theta : dict of str to ndarray, shape (H, ...)
        Draws by name, chain after chain.
    base : dict of str to ndarray
        The draws of p(Theta | y), whose spread the sampler starts with.
    n_chains, thin, tune : int
        Steps between kept draws; length of the warm-up when the chains go on.
    """

    engine: Engine
    condition: Condition
    theta: Theta
    base: Theta
    n_chains: int
    thin: int
    tune: int

    @property
    def n_draws(self) -> int:
        """Number H of draws kept."""
        return len(next(iter(self.theta.values())))

    @property
    def n_sweeps(self) -> int:
        """Steps of each chain after its warm-up."""
        return self.thin * (self.n_draws // self.n_chains)

    def chains(self) -> list[Theta]:
        """The draws of each chain."""
        size = self.n_draws // self.n_chains
        return [
            {k: x[c * size : (c + 1) * size] for k, x in self.theta.items()}
            for c in range(self.n_chains)
        ]

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[PyMCPredictive]:
        """p(y* | theta_h), one part: nothing is integrated out."""
        return [self.predictive(targets)]

    def predictive(self, targets: Targets) -> PyMCPredictive:
        """The same alone."""
        batch = batch_of_draws(self.n_draws, self.n_chains)
        return PyMCPredictive(engine=self.engine, theta=self.theta, targets=targets, batch=batch)

    def doubled(self, *, rng: np.random.Generator, n_jobs: int = 1) -> "PyMCPosterior":
        """Chains twice as long, every other draw kept."""
        size = self.n_draws // self.n_chains
        new = self._sampler(self.condition).run(
            self.condition,
            [{k: x[-1] for k, x in chain.items()} for chain in self.chains()],
            draws=size - size // 2,
            tune=self.tune,
            thin=2 * self.thin,
            rng=rng,
            n_jobs=n_jobs,
        )
        halves = [{k: x[1::2] for k, x in chain.items()} for chain in self.chains()]
        merged = [part for pair in zip(halves, new, strict=True) for part in pair]
        return replace(self, theta=_joined(merged), thin=2 * self.thin)

    def given(
        self,
        condition: Condition,
        *,
        draws: int,
        rng: np.random.Generator,
        n_jobs: int = 1,
        tick: Any = lambda done: None,
    ) -> "PyMCPosterior":
        """The same model on other data, started where these chains stopped."""
        chains = self._sampler(condition).run(
            condition,
            self._starts(condition),
            draws=draws,
            tune=self.tune,
            thin=1,
            rng=rng,
            n_jobs=n_jobs,
            tick=tick,
        )
        return replace(self, condition=condition, theta=_joined(chains), thin=1)

    def _sampler(self, condition: Condition) -> Sampler:
        def compiled() -> Sampler:
            return Sampler.of(self.engine, condition, self.base)

        with self.engine.lock:
            sampler: Sampler = self.engine.once(
                ("sampler", condition.columns, len(condition.z)), compiled
            )
            return sampler

    def _starts(self, condition: Condition) -> list[dict[str, Any]]:
        """Last draw of each chain that the release allows."""
        possible = np.ones(self.n_draws, dtype=bool)
        for z in condition.z:
            released = z[condition.replaced]
            total = self.engine.total(released, self.theta, condition.columns)
            possible &= np.isfinite(total)
        if not possible.any():
            raise ModelError(
                "no draw of the parameters allows the release; was it made by this model? More "
                "draws may help"
            )
        last, size = np.flatnonzero(possible), self.n_draws // self.n_chains
        starts = []
        for c in range(self.n_chains):
            own = last[last // size == c]
            h = int(own[-1] if len(own) else last[c % len(last)])
            starts.append({k: x[h] for k, x in self.theta.items()})
        return starts


def _joined(parts: Sequence[Theta]) -> Theta:
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
