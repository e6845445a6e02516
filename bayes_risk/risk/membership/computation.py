"""The log Bayes factor of membership of every case, in blocks, and its Monte Carlo error.

``log BF = sum_l log r_l(c) - log E[prod_l r_l(y')]`` with ``r_l = p(. | A, Z^(l)) / p(. | A)`` and
``y'`` from ``p(. | A)``. The derivation stands in `docs/membership.md`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.batches import variance_of_estimate
from bayes_risk._core.checkpoint import stage
from bayes_risk._core.logspace import log_sum
from bayes_risk.evidence.contract import Posterior, Targets
from bayes_risk.evidence.leave_one_out import Ratio, leave_one_out, together
from bayes_risk.evidence.runner import EvidenceRunner

from .candidates import Alternatives, Others, guess_set, unseen
from .curve import Standing, standing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Odds:
    """Log Bayes factors of C candidates for each of U places."""

    log_bayes_factor: Array  # shape (C, U)
    deviations: npt.NDArray[np.float32]  # shape (F, B, C, U): by fit and batch of draws
    # shape (U,): what the drawn alternatives add to the variance; 0 where all are listed, or none
    # needed
    variance_of_draws: Array


@dataclass(frozen=True, slots=True, eq=False)
class Normaliser:
    """log E[prod_l r_l(y')], its derivatives by the log predictives, and its sampling variance.

    ``by_base`` and ``by_release`` (m of them) have shape (L, U).
    """

    log_value: Array
    by_base: Array
    by_release: Sequence[Array]
    variance: Array


def odds(found: Sequence[Ratio], L: int, log_q: Array | None, linked: bool) -> Odds:
    """Log Bayes factors of candidates: the first C guesses, the last L being alternatives.

    ``found``: of the base fit, and of each of the m augmented ones, guesses (C + L, U). ``log_q``
    (L, U): log density that alternatives were drawn from; None: they are all that can be.
    ``linked``: the release ties values to the record itself; ratios are known up to constants only.
    """
    base, releases = found[0], found[1:]
    C = len(base.value) - L
    log_r = [_minus(f.value, base.value) for f in releases]
    value = np.sum([r[:C] for r in log_r], axis=0)
    deviations = np.stack([f.deviation[:, :C] for f in found])
    deviations[0] *= np.float32(-len(releases))
    variance = np.zeros(value.shape[1])
    if L:
        log_omega = base.value[C:] - (0.0 if log_q is None else log_q)
        n = normaliser(log_omega, [r[C:] for r in log_r], drawn=log_q is not None, linked=linked)
        value, variance = value - n.log_value, n.variance
        for d, w, f in zip(deviations, [n.by_base, *n.by_release], found, strict=True):
            d -= np.einsum("lu,blu->bu", w, f.deviation[:, C:])[:, None].astype(np.float32)
    return Odds(log_bayes_factor=value, deviations=deviations, variance_of_draws=variance)


def normaliser(
    log_omega: Array, log_r: Sequence[Array], *, drawn: bool, linked: bool
) -> Normaliser:
    """Weighted mean over alternatives of prod_l r_l, shapes (L, U)."""
    if linked:
        return _self_normalised(log_omega, log_r, drawn)
    plain = _plain(log_omega, log_r, drawn)
    if not drawn:
        return plain
    held = _held(log_omega, log_r)
    better = (held.variance < plain.variance) & np.isfinite(held.log_value)
    return Normaliser(
        np.where(better, held.log_value, plain.log_value),
        np.where(better, held.by_base, plain.by_base),
        [np.where(better, a, b) for a, b in zip(held.by_release, plain.by_release, strict=True)],
        np.where(better, held.variance, plain.variance),
    )


def _plain(log_omega: Array, log_r: Sequence[Array], drawn: bool) -> Normaliser:
    """sum_k omega_k prod_l r_l(k); of draws their mean."""
    m, L = len(log_r), len(log_omega)
    log_terms = log_omega + np.sum(log_r, axis=0)
    total = log_sum(log_terms)
    share = np.exp(log_terms - total)  # sums to one over alternatives
    return Normaliser(
        total - (np.log(L) if drawn else 0.0),
        (1.0 - m) * share,
        [share] * m,
        _variance_of_mean(share * L) if drawn else np.zeros(len(total)),
    )


def _held(log_omega: Array, log_r: Sequence[Array]) -> Normaliser:
    """The same by draws, with E[r_l] = 1 as control: 1 + mean omega (prod r - 1 - sum (r_l - 1)).

    Of two releases: ``1 + mean omega (r_1 - 1)(r_2 - 1)``.
    """
    m, L = len(log_r), len(log_omega)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        omega, r = np.exp(log_omega), [np.exp(x) for x in log_r]
        together = np.exp(np.sum(log_r, axis=0))
        terms = omega * (together - 1.0 - np.sum([x - 1.0 for x in r], axis=0))
        value = 1.0 + terms.mean(axis=0)
        return Normaliser(
            np.log(np.where(value > 0, value, np.nan)),
            (1.0 - m) * omega * (together - 1.0) / (L * value),
            [omega * (together - x) / (L * value) for x in r],
            _variance_of_mean(terms / value),
        )


def _self_normalised(log_omega: Array, log_r: Sequence[Array], drawn: bool) -> Normaliser:
    """Where r_l is known up to a constant, which cancels against that of the candidate."""
    m = len(log_r)
    log_terms = log_omega + np.sum(log_r, axis=0)
    top, below = log_sum(log_terms), log_sum(log_omega)
    share, prior = np.exp(log_terms - top), np.exp(log_omega - below)
    return Normaliser(
        top - below,
        (1.0 - m) * share - prior,
        [share] * m,
        ((share - prior) ** 2).sum(axis=0) if drawn else np.zeros(len(top)),
    )


def _variance_of_mean(terms: Array) -> Array:
    return np.asarray(terms.var(axis=0, ddof=1) / len(terms))


def _minus(after: Array, before: Array) -> Array:
    """Difference of logs; what is impossible stays so."""
    out = np.full(after.shape, -np.inf)
    np.subtract(after, before, out=out, where=(after > -np.inf) & (before > -np.inf))
    return out


ROOM = 2**18  # cases x guesses at a time
FEWEST = 64  # cases at a time, whatever the room
FIRST = 64  # targets whose draws tell how much chains repeat themselves
REPLICATES = 200  # samples of the people outside the data


class CaseTerms(NamedTuple):
    """What is kept of U cases."""

    log_bf: Array  # shape (U,): of the members themselves
    mcse: Array
    khat: Array
    ess: Array
    found: Standing  # shape (U,)
    moved: Standing  # shape (F, B, U): as each batch of draws of each fit has it
    resampled: Standing  # shape (R, U): as other samples of people outside the data would have it


class MembershipTerms(NamedTuple):
    """The same of all cases, and of D others over the places for which they were asked about."""

    members: CaseTerms
    others: Array  # shape (D,): mean log Bayes factor
    others_mcse: Array


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
        return MembershipTerms(_joined(parts), *tally.means())

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

    def kept(self, weights: Ints, resampled: Iterable[Array]) -> CaseTerms:
        """The member's own, and where it stands; weights (K, U), resampled ones each (K, U)."""
        o, w = self.odds, weights.astype(float)
        own = variance_of_estimate(o.deviations[:, :, 0].astype(float)) + o.variance_of_draws
        moved = [
            standing(o.log_bayes_factor, w, d.astype(float))
            for d in o.deviations.reshape(-1, *o.log_bayes_factor.shape)
        ]
        F, B = o.deviations.shape[:2]
        samples = [standing(o.log_bayes_factor, r) for r in resampled]
        return CaseTerms(
            log_bf=o.log_bayes_factor[0],
            mcse=np.sqrt(own),
            khat=self.khat,
            ess=self.ess,
            found=standing(o.log_bayes_factor, w),
            moved=Standing(*(v.reshape(F, B, -1) for v in _stacked(moved))),
            resampled=_stacked(samples),
        )


class _Tally:
    """Mean log Bayes factors of others over places."""

    def __init__(self, D: int) -> None:
        self.total, self.weight = np.zeros(D), np.zeros(D)
        self.draws = np.zeros(D)
        self.deviations: Array | None = None

    def add(self, found: Odds, asked: Ints, counts: Array) -> None:
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


def _joined(blocks: Sequence[CaseTerms]) -> CaseTerms:
    """The cases of all blocks."""

    def one(parts: Sequence[Any]) -> Any:
        if isinstance(parts[0], Standing):
            return Standing(*(np.concatenate(v, axis=-1) for v in zip(*parts, strict=True)))
        return np.concatenate(parts)

    return CaseTerms(*map(one, zip(*blocks, strict=True)))


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
