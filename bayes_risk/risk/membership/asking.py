"""Ask about every place in turn: blocks of cases, all fits, and what is kept of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.batches import variance_of_estimate
from bayes_risk._core.checkpoint import stage
from bayes_risk.evidence.contract import Posterior, Targets
from bayes_risk.evidence.leave_one_out import Ratio, leave_one_out, together
from bayes_risk.evidence.runner import EvidenceRunner

from .candidates import Alternatives, Others, guess_set, unseen
from .curve import Standing, standing
from .odds import Odds, odds

Array = npt.NDArray[np.float64]
ROOM = 2**18  # cases x guesses at a time
FEWEST = 64  # cases at a time, whatever the room
FIRST = 64  # targets whose draws tell how much chains repeat themselves
REPLICATES = 200  # samples of the people outside the data


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MembershipTerms:
    """What is kept of U cases, and of D others over all cases.

    Attributes
    ----------
    log_bf, mcse : ndarray, shape (U,)
        Of the members themselves.
    khat, ess : ndarray, shape (U,)
    others, others_mcse : ndarray, shape (D,)
        Mean log Bayes factor over the places for which they were asked about, and its error.
    found : Standing of arrays, shape (U,)
    moved : Standing of arrays, shape (F, B, U)
        As each batch of draws of each fit has it.
    resampled : Standing of arrays, shape (R, U)
        As other samples of people outside the data would have it.
    """

    log_bf: Array
    mcse: Array
    khat: Array
    ess: Array
    others: Array
    others_mcse: Array
    found: Standing
    moved: Standing
    resampled: Standing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MembershipComputation:
    """What does not change from block to block.

    ``counts`` (U,): how many members each case stands for; ``budget``: refits.
    """

    runner: EvidenceRunner
    posteriors: Sequence[Posterior]
    cases: Targets
    counts: Array
    others: Others
    alternatives: Alternatives | None
    budget: int
    rng: np.random.Generator

    def answers(self) -> MembershipTerms:
        """All blocks, one after the other."""
        L = 0 if self.alternatives is None else self.alternatives.per_case
        step = max(ROOM // (1 + L + len(self.others.asked)), FEWEST)
        U, runner, spent = len(self.cases), self.runner, 0
        sample, *children = self.rng.spawn(1 + -(-U // step))
        resamples = _resamples(self.others, sample)
        tally, parts = _Tally(len(self.others.count)), []
        for begin, child in zip(range(0, U, step), children, strict=True):
            end = min(begin + step, U)
            asked = self.others.asked[:, begin:end]
            allowed = -(-self.budget * end // U) - spent  # the budget is spread over blocks
            block, refits = stage(
                f"places from {begin + 1}", partial(self._block, begin, end, allowed, child)
            )
            spent += refits
            tally.add(block.odds, asked, self.counts[begin:end])
            parts.append(block.kept(self.others.count[asked], (r[asked] for r in resamples)))
            if runner.progress is not None:
                runner.progress("membership", end, U)
        return _answers(parts, tally)

    def _block(
        self, begin: int, end: int, budget: int, rng: np.random.Generator
    ) -> tuple["_Block", int]:
        """Log Bayes factors of some cases, and how many of them were fitted anew."""
        cases = self.cases.only(np.arange(begin, end))
        own, rest = cases.guesses.codes, self.others.codes[self.others.asked[:, begin:end]]
        extra = own[:0] if self.alternatives is None else self.alternatives.of(begin, end)
        targets = cases.with_guesses(guess_set(np.concatenate([own, rest, extra])))
        children = rng.spawn(len(self.posteriors) + 2)
        found = [
            predicted(p, targets, rng=c, n_jobs=self.runner.n_jobs)
            for p, c in zip(self.posteriors, children, strict=False)
        ]
        log_q = None
        if self.alternatives is not None and self.alternatives.drawn:
            nobody_out, base = unseen(cases, extra), self.posteriors[0]
            log_q = predicted(base, nobody_out, rng=children[-2], n_jobs=self.runner.n_jobs).value
        found, spent = self._mended(found, targets, budget, children[-1])
        linked = self.runner.release.classes == "own"
        block = _Block(
            odds=odds(found, len(extra), log_q, linked),
            khat=np.max([f.khat for f in found], axis=0),
            ess=np.min([f.ess for f in found], axis=0),
        )
        return block, spent

    def _mended(
        self, found: list[Ratio], targets: Targets, budget: int, rng: np.random.Generator
    ) -> tuple[list[Ratio], int]:
        """The cases with the worst weights from fits without their record."""
        khat = np.max([f.khat for f in found], axis=0)
        worst = np.flatnonzero((khat > self.runner.threshold) & targets.fitted)
        worst = worst[np.argsort(-khat[worst], kind="stable")][:budget]
        for u in worst:
            anew = refitted(self.runner, self.posteriors, targets, int(u), rng)
            found = [f.replaced(np.array([u]), a) for f, a in zip(found, anew, strict=True)]
        return found, len(worst)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Block:
    """Log Bayes factors of a block of cases, the member first."""

    odds: Odds
    khat: Array
    ess: Array

    def kept(self, weights: npt.NDArray[np.int64], resampled: Iterable[Array]) -> "_Kept":
        """The member's own, and where it stands; weights (K, U), resampled ones each (K, U)."""
        o, w = self.odds, weights.astype(float)
        own = variance_of_estimate(o.deviations[:, :, 0].astype(float)) + o.variance_of_draws
        moved = [
            standing(o.log_bayes_factor, w, d.astype(float))
            for d in o.deviations.reshape(-1, *o.log_bayes_factor.shape)
        ]
        F, B = o.deviations.shape[:2]
        samples = [standing(o.log_bayes_factor, r) for r in resampled]
        return _Kept(
            log_bf=o.log_bayes_factor[0],
            mcse=np.sqrt(own),
            khat=self.khat,
            ess=self.ess,
            found=standing(o.log_bayes_factor, w),
            moved=Standing(*(v.reshape(F, B, -1) for v in _stacked(moved))),
            resampled=_stacked(samples),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Kept:
    log_bf: Array
    mcse: Array
    khat: Array
    ess: Array
    found: Standing
    moved: Standing
    resampled: Standing


class _Tally:
    """Mean log Bayes factors of others over places."""

    def __init__(self, D: int) -> None:
        self.total, self.weight = np.zeros(D), np.zeros(D)
        self.draws = np.zeros(D)
        self.deviations: Array | None = None

    def add(self, found: Odds, asked: npt.NDArray[np.int64], counts: Array) -> None:
        """Add a block: who was asked about (K, U), and how many places each case stands for."""
        weight = np.broadcast_to(counts, asked.shape)
        np.add.at(self.weight, asked, weight)
        np.add.at(self.total, asked, weight * found.log_bayes_factor[1:])
        np.add.at(self.draws, asked, weight**2 * found.variance_of_draws)
        F, B = found.deviations.shape[:2]
        if self.deviations is None:
            self.deviations = np.zeros((F, B, len(self.total)))
        for f in range(F):
            for b in range(B):
                np.add.at(self.deviations[f, b], asked, weight * found.deviations[f, b, 1:])

    def means(self) -> tuple[Array, Array]:
        """Mean log Bayes factor and its Monte Carlo error, shape (D,)."""
        weight = np.where(self.weight > 0, self.weight, np.nan)
        if self.deviations is None or not len(weight):
            return self.total, np.zeros(len(weight))
        variance = variance_of_estimate(self.deviations / weight) + self.draws / weight**2
        return self.total / weight, np.sqrt(variance)


def _answers(blocks: Sequence["_Kept"], tally: _Tally) -> MembershipTerms:
    def joined(name: str) -> Array:
        return np.concatenate([getattr(b, name) for b in blocks])

    def standings(name: str) -> Standing:
        parts = [getattr(b, name) for b in blocks]
        return Standing(*(np.concatenate(v, axis=-1) for v in zip(*parts, strict=True)))

    others, others_mcse = tally.means()
    return MembershipTerms(
        log_bf=joined("log_bf"),
        mcse=joined("mcse"),
        khat=joined("khat"),
        ess=joined("ess"),
        others=others,
        others_mcse=others_mcse,
        found=standings("found"),
        moved=standings("moved"),
        resampled=standings("resampled"),
    )


def _stacked(parts: Sequence[Standing]) -> Standing:
    return Standing(*(np.stack(v) for v in zip(*parts, strict=True)))


def _resamples(others: Others, rng: np.random.Generator) -> Array:
    """How often each row of others stands in samples of as many people, shape (R, D)."""
    if not others.n:
        return np.zeros((REPLICATES, 0))
    return rng.multinomial(others.n, others.count / others.n, size=REPLICATES).astype(float)


def predicted(
    posterior: Posterior, targets: Targets, *, rng: np.random.Generator, n_jobs: int
) -> Ratio:
    """log p(y* | A) of all guesses as such, not relative to the truth.

    A Bayes factor against *somebody else* needs the predictives themselves. Targets that are not
    ``fitted`` are not taken out.
    """
    how: Any = {"to_truth": False, "first": FIRST}
    parts = posterior.predictives(targets, rng=rng)
    return together([leave_one_out(part, targets, n_jobs, **how) for part in parts])


def refitted(
    runner: EvidenceRunner,
    posteriors: Sequence[Posterior],
    targets: Targets,
    u: int,
    rng: np.random.Generator,
) -> list[Ratio]:
    """Log predictives of one target from m + 1 fits without it: no weights, so no k-hat."""
    one = targets.only(np.array([u]))
    alone = replace(one, fitted=np.zeros(1, dtype=bool))
    record = int(one.record[0])

    def of_fit(l: int, start: Posterior) -> Ratio:
        fit_rng, read_rng = rng.spawn(2)
        release = None if l == 0 else runner.release
        fit = runner.sampled.without(record, release, max(l - 1, 0), start=start, rng=fit_rng)
        return predicted(fit, alone, rng=read_rng, n_jobs=1)

    return [of_fit(l, start) for l, start in enumerate(posteriors)]
