"""Draws under one hyper-prior, re-weighted to be draws under another.

With ``r_h = p_1(Theta_h) / p_0(Theta_h)`` the leave-one-out predictive under the prior p_1 is

    sum_h r_h w_h p(y* | Theta_h) / sum_h r_h w_h,   w_h = 1 / p(y_i | Theta_h),

so the ratio of the priors multiplies into the leave-one-out weights, and both are Pareto-smoothed
together: one k-hat per record and fit, as before. Both the base fit and the augmented ones are
re-weighted. What a model integrates out in closed form has no part in ``r_h``
(docs/sensitivity.md).
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bayes_risk.evidence.contract import Predictive, Targets
from bayes_risk.evidence.diagnostics import pareto_smoothed
from bayes_risk.release.release import Release

from .remembered import bare

Array = npt.NDArray[np.float64]


class Under(Protocol):
    """Draws of a model under another declaration of it, that differs in hyper-parameters alone.

    A fit offers it by ``under(model)``, None where only a new fit can tell.
    """

    def predictives(
        self, posterior: Any, targets: Targets, *, rng: np.random.Generator
    ) -> list[tuple[Predictive, Array]]:
        """Predictives of a posterior's draws, with the log ratio of priors of each draw (H,)."""
        ...

    def started(self, posterior: Any) -> Any:
        """The posterior, to be sampled under the other declaration from where it stopped."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class WeightedPredictive:
    """A predictive whose draws have weights of their own, ``log_r`` (H,).

    Dividing the truth's density by them puts them into the leave-one-out weights; where those are
    used they are already in.
    """

    inner: Predictive
    log_r: Array

    @property
    def batch(self) -> npt.NDArray[np.int64]:
        """Batch of each draw."""
        return self.inner.batch

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h) / r_h, shape (H, block): its inverse is the joint weight."""
        return self.inner.log_truth(block) - self.log_r[:, None]

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """As the inner one's; the weights given lack r_h, which log_truth has divided out."""
        return self.inner.log_sums(block, log_weights + self.log_r[:, None])


class ReweightedPosterior:
    """A posterior's draws, re-weighted to another declaration of its model."""

    def __init__(self, posterior: Any, under: Under) -> None:
        self.posterior, self.under = posterior, under

    @property
    def n_draws(self) -> int:
        """Number H of draws."""
        return int(self.posterior.n_draws)

    @property
    def n_sweeps(self) -> int:
        """How long each chain ran."""
        return int(self.posterior.n_sweeps)

    @property
    def n_chains(self) -> int:
        """Number C of chains."""
        return int(self.posterior.n_chains)

    def of_chains(self, which: npt.NDArray[np.int64]) -> "ReweightedPosterior":
        """Some of the chains."""
        return ReweightedPosterior(bare(self.posterior).of_chains(which), self.under)

    def predictives(self, targets: Targets, *, rng: np.random.Generator) -> list[Predictive]:
        """Leave-one-out predictives, the ratio of priors among the weights."""
        found = self.under.predictives(bare(self.posterior), targets, rng=rng)
        return [WeightedPredictive(part, log_r - log_r.max()) for part, log_r in found]

    def khat(self, targets: Targets, *, rng: np.random.Generator) -> float:
        """k-hat of the ratio of priors alone, the largest of all parts."""
        found = self.under.predictives(bare(self.posterior), targets, rng=rng)
        return max((float(pareto_smoothed(r[:, None])[1][0]) for _, r in found), default=0.0)

    def doubled(self, *, rng: np.random.Generator, n_jobs: int) -> "ReweightedPosterior":
        """The same after twice the sampling."""
        return ReweightedPosterior(self.posterior.doubled(rng=rng, n_jobs=n_jobs), self.under)


class ReweightedFit:
    """A fit under another declaration of its model, by re-weighting the draws there are.

    Records whose weights fail are sampled under the new declaration without the target, as always.

    Parameters
    ----------
    inner : RememberedFit or Fit
    under : Under
        Its draws under the other declaration.
    """

    def __init__(self, inner: Any, under: Under) -> None:
        self.inner, self.under = inner, under

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def offers(self, release: Release) -> frozenset[str]:
        """Predictive evidence alone."""
        return frozenset({"predictive"}) & frozenset(self.inner.offers(release))

    def direct(self, evidence: str, release: Release, targets: Targets, **how: Any) -> None:
        """Nothing: the engine computes the evidence."""
        return

    def informed(self, release: Release) -> ReweightedPosterior:
        """p(Theta | y)."""
        return ReweightedPosterior(self.inner.informed(release), self.under)

    def led(self, release: Release, **how: Any) -> "ReweightedFit":
        """Led by the release under the first declaration, which shows the same modes."""
        return ReweightedFit(self.inner.led(release, **how), self.under)

    def carried(self, which: npt.NDArray[np.int64], **how: Any) -> "ReweightedFit":
        """Some of these chains at their full length."""
        return ReweightedFit(self.inner.carried(which, **how), self.under)

    def augmented(self, release: Release, l: int, **how: Any) -> ReweightedPosterior:
        """p(Theta | y, Z^(l))."""
        return ReweightedPosterior(self.inner.augmented(release, l, **how), self.under)

    def without(self, record: int, release: Release | None, l: int, *, start: Any, rng: Any) -> Any:
        """Sampled under the new declaration, a record's values left out."""
        begun = self.under.started(bare(start.posterior))
        return self.inner.without(record, release, l, start=begun, rng=rng)
