"""The order of work of an attribute audit: fits, evidence, more sampling where wanted, refits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bayes_risk._core.checkpoint import Stage, in_stages, stage
from bayes_risk.release.parameters import drawn, ways_of
from bayes_risk.release.release import Release

from .contract import (
    Fit,
    ImputingFit,
    LedFit,
    LedPosterior,
    PartFit,
    Posterior,
    Progress,
    SampledFit,
    Simulated,
    Targets,
)
from .diagnostics import khat_threshold
from .evidence import Evidence, combined, known_evidence, of_refits, refit_evidence, reuse_evidence
from .leading import probed, within_mode
from .leave_one_out import Ratio, ratio_of_fit
from .modes import Modes

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Effort:
    """Which evidence, how exact, and how much work for it; see `attribute_risk`."""

    evidence: str
    target_mcse: float | None
    max_doublings: int
    refit_budget: int


Fitted = Callable[[], Posterior]  # made when it is asked for
DIRECT = frozenset(["exact", "simulated"])  # ways that the model computes itself


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
        self.posteriors: list[Fitted] = []
        self.modes: Modes | None = None
        self.knows_less = known is not None
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
        direct = self.direct(effort.evidence, cases)
        if direct is not None:
            return known_evidence(direct, cases)
        if effort.evidence == "reuse":
            return reuse_evidence(self.sampled, self.release, cases, n_jobs=self.n_jobs)
        if not self.posteriors:
            self.lead(cases)
            self.posteriors = self.imputed() if effort.evidence == "imputed" else self.later()
        if effort.evidence == "refit":
            return replace(self._refit(cases), modes=self.modes)
        return self._predictive(cases, effort)

    def lead(self, cases: Targets) -> None:
        """Chains that the release leads to its mode, where its draws come from one; strays go."""
        if not self.led:
            return
        self.fit, self.modes = within_mode(
            cast(LedFit, self.fit),
            self.release,
            probed(self.fit.microdata, cases),
            rngs=self.rng.spawn(3),
            n_jobs=self.n_jobs,
            progress=self.progress,
        )

    @property
    def led(self) -> bool:
        """Whether the fits are those of the mode that the release chooses."""
        of_one_mode = drawn(self.fit, self.release) in ("one-mode", "shared")
        has_modes = "one-mode" in ways_of(self.fit) and hasattr(self.fit, "led")
        return of_one_mode and has_modes and not self.knows_less

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
        return self._spanned(found, cases)

    def _spanned(self, found: Evidence, cases: Targets) -> Evidence:
        """The evidence with that of each mode apart, where the release does not choose."""
        if self.modes is None:
            return found
        apart = []
        for those in self.modes.chains_by_mode if len(self.modes.kept) > 1 else ():
            parts = [partial(_chains_of, posterior, those) for posterior in self.posteriors]
            apart.append(self.evidence(cases, parts))
        return replace(found, modes=self.modes, apart=tuple(apart))

    def direct(self, evidence: str, cases: Targets) -> Array | Simulated | None:
        """What the model computes itself; kept where that is all there is to do."""
        if evidence not in DIRECT:
            return self.fit.direct(
                evidence, self.release, cases, rng=self.rng, progress=self.progress
            )
        (rng,) = self.rng.spawn(1)  # the same whether the step is computed or found
        return stage(
            "evidence",
            lambda: self.fit.direct(evidence, self.release, cases, rng=rng, progress=self.progress),
        )

    def fits(self, cases: Targets) -> list[Posterior]:
        """Fits for these cases: one augmented fit per draw of the parameters, and the base fit.

        The base fit runs about as many times as long as each as there are such draws: m, or 1.
        """
        self.lead(cases)
        return [posterior() for posterior in self.later()]

    def later(self) -> list[Fitted]:
        """The same fits, each made when it is asked for."""
        *children, base_rng = self.rng.spawn(len(self.release.by_draw) + 1)
        augmented = [
            Stage(f"fit {l + 1}", partial(self._augmented, l, child))
            for l, child in enumerate(children)
        ]
        return [Stage("fit 0", partial(self._base, base_rng)), *augmented]

    def _augmented(self, l: int, rng: np.random.Generator) -> Posterior:
        how: Any = {"n_jobs": self.n_jobs, "progress": self.progress}
        return self.sampled.augmented(self.release, l, rng=rng, **how)

    def _base(self, rng: np.random.Generator) -> Posterior:
        base = self.sampled.informed(self.release)
        rounds = int(np.ceil(np.log2(len(self.release.by_draw))))
        for k, child in enumerate(rng.spawn(rounds), start=1):
            base = base.doubled(rng=child, n_jobs=self.n_jobs)
            self._tell("base fit", k, rounds)
        return base

    def imputed(self) -> list[Fitted]:
        """The base fit, and one that has seen all releases and imputes what is not known."""
        (rng,) = self.rng.spawn(1)
        how: Any = {"rng": rng, "n_jobs": self.n_jobs, "progress": self.progress}
        fit = cast(ImputingFit, self.fit)
        return [
            lambda: self.sampled.informed(self.release),
            Stage("fit 1", lambda: fit.imputed(self.release, **how)),
        ]

    def evidence(self, cases: Targets, posteriors: Sequence[Fitted]) -> Evidence:
        """Predictive evidence from the base posterior and those of the releases."""
        rngs = self.rng.spawn(len(posteriors))

        def ratios() -> Iterator[Ratio]:
            for k, (fit, rng) in enumerate(zip(posteriors, rngs, strict=True)):
                one = partial(ratio_of_fit, fit, cases, rng, self.n_jobs)
                yield stage(f"evidence of fit {k}", one)
                self._tell("evidence", k + 1, len(posteriors))

        return combined(ratios(), len(posteriors) - 1, cases)

    def doubled(self, posteriors: Sequence[Fitted], share: Array) -> list[Fitted]:
        """Double the base fit where it brings most of the error, all the others otherwise."""
        base_first = share[0] >= share[1:].sum()
        out = []
        for k, (posterior, child) in enumerate(
            zip(posteriors, self.rng.spawn(len(posteriors)), strict=True)
        ):
            if (k == 0) == base_first:
                posterior = Stage(f"fit {k}, doubled", partial(self._doubled, posterior, child))
            out.append(posterior)
        return out

    def _doubled(self, posterior: Fitted, rng: np.random.Generator) -> Posterior:
        return posterior().doubled(rng=rng, n_jobs=self.n_jobs)

    def _refit(self, cases: Targets) -> Evidence:
        how: Any = {"n_jobs": self.n_jobs, "progress": self.progress}
        rngs = self.rng.spawn(1)[0].spawn(len(cases))

        def run(which: Sequence[int]) -> Iterator[Evidence]:
            fits = self.posteriors
            return refit_evidence(self.sampled, self.release, fits, cases, which, rngs=rngs, **how)

        return of_refits(in_stages("refits", len(cases), run))

    def _tell(self, stage: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(stage, done, total)


def _chains_of(posterior: Fitted, which: npt.NDArray[np.int64]) -> Posterior:
    return cast(LedPosterior, posterior()).of_chains(which)
