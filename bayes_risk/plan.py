"""The order of work of an attribute audit: fits, evidence, more sampling where wanted, refits."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from bayes_risk.diagnostics import khat_threshold
from bayes_risk.evidence import (
    Evidence,
    known_evidence,
    predictive_evidence,
    refit_evidence,
    reuse_evidence,
)
from bayes_risk.release import Release
from bayes_risk.synthesizer import (
    Fit,
    ImputingFit,
    PartFit,
    Posterior,
    Progress,
    SampledFit,
    Targets,
)

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Effort:
    """Which evidence, how exact, and how much work for it; see `attribute_risk`."""

    evidence: str
    target_mcse: float | None
    max_doublings: int
    refit_budget: int


class Plan:
    """The order of work: fits, evidence, more sampling where it is wanted, refits.

    Fits are kept, so that further guesses cost no further fit.
    """

    def __init__(
        self,
        fit: Fit,
        release: Release,
        rng: np.random.Generator,
        n_jobs: int,
        progress: Progress | None,
        known: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.fit, self.release = fit, release
        self.rng, self.n_jobs, self.progress = rng, n_jobs, progress
        self.posteriors: list[Posterior] = []
        if known is not None:
            self.fit = cast(PartFit, fit).knowing(
                known, release, rng=rng.spawn(1)[0], n_jobs=n_jobs, progress=progress
            )

    @property
    def sampled(self) -> SampledFit:
        """The fit, which offers evidence that it does not compute itself."""
        return cast(SampledFit, self.fit)

    @property
    def threshold(self) -> float:
        """Largest k-hat that can be trusted."""
        return khat_threshold(self.fit.n_draws)

    def run(self, cases: Targets, effort: Effort) -> Evidence:
        """Evidence of every case."""
        direct = self.fit.direct(
            effort.evidence, self.release, cases, rng=self.rng, progress=self.progress
        )
        if direct is not None:
            return known_evidence(direct, cases)
        if effort.evidence == "reuse":
            return reuse_evidence(self.sampled, self.release, cases, n_jobs=self.n_jobs)
        if not self.posteriors:
            self.posteriors = self.imputed() if effort.evidence == "imputed" else self.fits()
        if effort.evidence == "refit":
            return self._refit(cases)
        return self._predictive(cases, effort)

    def _predictive(self, cases: Targets, effort: Effort) -> Evidence:
        """Sample until the error is small enough; then refit where the weights are poor."""
        found = self.evidence(cases, self.posteriors)
        limit = np.inf if effort.target_mcse is None else effort.target_mcse
        for _ in range(effort.max_doublings):
            if float(np.quantile(found.mcse(), 0.95)) <= limit:
                break
            self.posteriors = self.doubled(self.posteriors, found.share_by_fit())
            found = self.evidence(cases, self.posteriors)
        if effort.evidence == "imputed":  # nothing to fit again: the unknown records stay imputed
            return found
        worst = np.flatnonzero((found.khat > self.threshold) & cases.fitted)
        worst = worst[np.argsort(-found.khat[worst], kind="stable")][: effort.refit_budget]
        if len(worst):
            found = found.replaced(worst, self._refit(cases.only(worst)))
        return found

    def fits(self) -> list[Posterior]:
        """One augmented fit per release; the base fit runs about m times as long as each."""
        m = self.release.m
        *children, base_rng = self.rng.spawn(m + 1)
        augmented = [
            self.sampled.augmented(
                self.release, l, rng=child, n_jobs=self.n_jobs, progress=self.progress
            )
            for l, child in enumerate(children)
        ]
        base = self.sampled.informed(self.release)
        rounds = int(np.ceil(np.log2(m)))
        for k, child in enumerate(base_rng.spawn(rounds), start=1):
            base = base.doubled(rng=child, n_jobs=self.n_jobs)
            self._tell("base fit", k, rounds)
        return [base, *augmented]

    def imputed(self) -> list[Posterior]:
        """The base fit, and one that has seen all releases and imputes what is not known."""
        joint = cast(ImputingFit, self.fit).imputed(
            self.release, rng=self.rng.spawn(1)[0], n_jobs=self.n_jobs, progress=self.progress
        )
        return [self.sampled.informed(self.release), joint]

    def evidence(self, cases: Targets, posteriors: list[Posterior]) -> Evidence:
        """Predictive evidence from the base posterior and those of the releases."""
        done = 0

        def tick(more: int) -> None:
            nonlocal done
            done += more
            self._tell("evidence", done, len(posteriors))

        return predictive_evidence(
            posteriors[0],
            posteriors[1:],
            cases,
            rngs=self.rng.spawn(len(posteriors)),
            n_jobs=self.n_jobs,
            tick=tick,
        )

    def doubled(self, posteriors: list[Posterior], share: Array) -> list[Posterior]:
        """Double the base fit where it brings most of the error, all the others otherwise."""
        base_first = share[0] >= share[1:].sum()
        out = []
        for k, (posterior, child) in enumerate(
            zip(posteriors, self.rng.spawn(len(posteriors)), strict=True)
        ):
            wanted = (k == 0) == base_first
            out.append(posterior.doubled(rng=child, n_jobs=self.n_jobs) if wanted else posterior)
            self._tell("more draws", k + 1, len(posteriors))
        return out

    def _refit(self, cases: Targets) -> Evidence:
        return refit_evidence(
            self.sampled,
            self.release,
            self.posteriors[0],
            self.posteriors[1:],
            cases,
            rng=self.rng.spawn(1)[0],
            n_jobs=self.n_jobs,
            progress=self.progress,
        )

    def _tell(self, stage: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(stage, done, total)
