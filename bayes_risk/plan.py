"""The order of work of an attribute audit: fits, evidence, more sampling where wanted, refits."""

import numpy as np
import numpy.typing as npt

from bayes_risk.diagnostics import khat_threshold
from bayes_risk.evidence import (
    Evidence,
    exact_evidence,
    predictive_evidence,
    refit_evidence,
    reuse_evidence,
)
from bayes_risk.release import Release
from bayes_risk.synthesizer import Fit, Posterior, Progress, Targets

Array = npt.NDArray[np.float64]


class Plan:
    """The order of work: fits, evidence, more sampling where it is wanted, refits."""

    def __init__(
        self,
        fit: Fit,
        release: Release,
        cases: Targets,
        rng: np.random.Generator,
        n_jobs: int,
        progress: Progress | None,
    ) -> None:
        self.fit, self.release, self.cases = fit, release, cases
        self.rng, self.n_jobs, self.progress = rng, n_jobs, progress
        self.threshold = khat_threshold(fit.posterior.n_draws)

    def run(
        self, evidence: str, target_mcse: float | None, doublings: int, budget: int
    ) -> Evidence:
        """Evidence of every case."""
        if evidence == "reuse":
            return reuse_evidence(self.fit, self.release, self.cases, n_jobs=self.n_jobs)
        if evidence == "exact":
            base, *augmented = self.fits(longer=False)
            return exact_evidence(base, augmented, self.cases)
        posteriors = self.fits()
        if evidence == "refit":
            return self._refit(posteriors, self.cases)
        found = self.evidence(posteriors)
        limit = np.inf if target_mcse is None else target_mcse
        for _ in range(doublings):
            if float(np.quantile(found.mcse(), 0.95)) <= limit:
                break
            posteriors = self.doubled(posteriors, found.share_by_fit())
            found = self.evidence(posteriors)
        worst = np.flatnonzero(found.khat > self.threshold)
        worst = worst[np.argsort(-found.khat[worst], kind="stable")][:budget]
        if len(worst):
            found = found.replaced(worst, self._refit(posteriors, self.cases.only(worst)))
        return found

    def fits(self, *, longer: bool = True) -> list[Posterior]:
        """One augmented fit per release; the base fit runs about m times as long as each."""
        m = self.release.m
        *children, base_rng = self.rng.spawn(m + 1)
        augmented = [
            self.fit.augmented(
                self.release, l, rng=child, n_jobs=self.n_jobs, progress=self.progress
            )
            for l, child in enumerate(children)
        ]
        base = self.fit.informed(self.release)
        rounds = int(np.ceil(np.log2(m))) if longer else 0
        for k, child in enumerate(base_rng.spawn(rounds), start=1):
            base = base.doubled(rng=child, n_jobs=self.n_jobs)
            self._tell("base fit", k, rounds)
        return [base, *augmented]

    def evidence(self, posteriors: list[Posterior]) -> Evidence:
        """Predictive evidence from the base posterior and those of the releases."""
        done = 0

        def tick(more: int) -> None:
            nonlocal done
            done += more
            self._tell("evidence", done, len(posteriors))

        return predictive_evidence(
            posteriors[0],
            posteriors[1:],
            self.cases,
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

    def _refit(self, posteriors: list[Posterior], cases: Targets) -> Evidence:
        return refit_evidence(
            self.fit,
            self.release,
            posteriors[0],
            posteriors[1:],
            cases,
            rng=self.rng.spawn(1)[0],
            n_jobs=self.n_jobs,
            progress=self.progress,
        )

    def _tell(self, stage: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(stage, done, total)
