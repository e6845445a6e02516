"""The log Bayes factor of membership of every case, in blocks, and its Monte Carlo error.

``log BF = sum_l log r_l(c) - log E[prod_l r_l(y')]`` with ``r_l = p(. | A, Z^(l)) / p(. | A)`` and
``y'`` from ``p(. | A)``. The derivation stands in `docs/membership.md`.

Under the null hypothesis the *level* at which a member is found among K others, ``(above + V (1 +
equal)) / (K + 1)`` with V uniform on (0, 1), is uniform too (a randomised rank test): the curve is
its distribution.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.batches import standard_error, student_factor, variance_by_fit
from bayes_risk._core.checkpoint import stage
from bayes_risk._core.errors import InputError
from bayes_risk._core.matching import distinct_rows
from bayes_risk.data.held_out import own_records
from bayes_risk.data.microdata import Codes
from bayes_risk.evidence.contract import Posterior, Targets
from bayes_risk.evidence.leave_one_out import Ratio, targets_replaced
from bayes_risk.evidence.presence import (
    FEWEST,
    MAX_CASE_GUESSES,
    Alternatives,
    MembershipOdds,
    odds,
    predicted,
    unseen,
)
from bayes_risk.evidence.runner import EvidenceRunner
from bayes_risk.intruder.guesses import GuessSet

RATES = (0.01, 0.05)
MEASURES = (
    *("auc", "power_at_1_percent", "power_at_5_percent"),
    *("advantage", "advantage_at_one", "mean_bayes_factor_of_others"),
)
BASELINE = (0.5, *RATES, 0.0, 0.0, 1.0)
GRID = np.concatenate([np.geomspace(1e-3, 0.02, 20), np.linspace(0.03, 1.0, 98)])
TIE = 1e-9


class Standing(NamedTuple):
    """Where each of U members stands among the others asked about for the same place.

    ``above`` and ``equal``: how many others the release speaks for more, or as much; ``compared``:
    how many there are (K); ``gain``: whether the member is accepted at a Bayes factor above 1, less
    the share of others who are; ``factor``: mean Bayes factor of the others. Shapes (..., U).
    """

    above: Array
    equal: Array
    compared: Array
    gain: Array
    factor: Array


def standing(log_bf: Array, weights: Array, moved: Array | float = 0.0) -> Standing:
    """From log Bayes factors (1 + K, U), the member first, and how often others count (..., K, U).

    A leading axis of weights (samples of people) becomes one of the result. ``moved`` (1 + K, U) is
    added to the log Bayes factors; mean factors follow it to first order, as one batch of draws
    moves them further than all do.
    """
    shift = np.broadcast_to(moved, log_bf.shape)
    own, rest = log_bf[0] + shift[0], log_bf[1:] + shift[1:]
    total = weights.sum(axis=-2)
    share = np.where(total > 0, total, 1.0)

    def counted(what: npt.NDArray[Any]) -> Array:
        return np.asarray((weights * what).sum(axis=-2))

    return Standing(
        above=counted(rest > own + TIE),
        equal=counted((rest <= own + TIE) & (rest >= own - TIE)),
        compared=total,
        gain=(own > TIE) - counted(rest > TIE) / share,
        factor=counted(np.exp(log_bf[1:]) * (1.0 + shift[1:])) / share,
    )


def power(at: Standing, rate: float) -> Array:
    """Probability that each member is found at a false positive rate; shape (..., U)."""
    return np.clip((rate * (at.compared + 1) - at.above) / (1 + at.equal), 0.0, 1.0)


def level(at: Standing) -> Array:
    """Mean false positive rate at which a member is found; shape (..., U)."""
    return np.asarray((at.above + 0.5 * (1 + at.equal)) / (at.compared + 1))


def curve_measures(at: Standing, counts: Array) -> Array:
    """`MEASURES`, last axis; ``counts`` (..., U): how many members stand for each column."""
    n = counts.sum(axis=-1)

    def mean(values: Array) -> Array:
        return np.asarray((values * counts).sum(axis=-1) / n)

    best = np.max([mean(power(at, rate)) - rate for rate in GRID], axis=0)
    powers = [mean(power(at, rate)) for rate in RATES]
    return np.stack([1.0 - mean(level(at)), *powers, best, mean(at.gain), mean(at.factor)], axis=-1)


@dataclass(frozen=True, slots=True, eq=False)
class Others:
    """People outside the data, and who of them is asked about for which place."""

    # shape (D, p): distinct values; or one row a person where each place is compared with some of
    # them only
    codes: Codes
    count: Ints  # shape (D,): people with these values
    person: Ints  # shape (N,): row of each person
    rows: Ints  # shape (K, U): rows asked about for each of U cases

    @classmethod
    def of(
        cls,
        people: Codes | None,
        inside: Codes,
        labels: tuple[pd.Index, pd.Index],
        U: int,
        comparisons: int,
        rng: np.random.Generator,
    ) -> "Others":
        """All distinct values for every case, if they are few; else so many people in turn.

        ``people`` (N, p), ``inside`` (n, p): codes of them and of the data; ``labels``: of both.
        """
        nobody = np.zeros(0, dtype=np.int64)
        if people is None or not len(people):
            return cls(inside[:0], nobody, nobody, np.zeros((0, U), dtype=np.int64))
        _, which, _ = distinct_rows(np.concatenate([inside, people]))
        own, theirs = np.split(which, [len(inside)])
        if shared := own_records(own, theirs, labels):
            raise InputError(
                f"{shared:,} of the {len(people):,} in others are members in all columns, "
                "more than chance explains; give people of the same population who are not in the "
                "data"
            )
        first, person, count = distinct_rows(people)
        codes = people[first]
        if len(codes) <= comparisons:
            everybody = np.repeat(np.arange(len(codes))[:, None], U, axis=1)
            return cls(codes, count, person, everybody)
        N, K = len(people), max(comparisons, -(-len(people) // U))
        turn = (np.arange(K)[:, None] + K * np.arange(U)) % N  # nobody is left out
        return cls(people, np.ones(N, dtype=np.int64), np.arange(N), rng.permutation(N)[turn])


REPLICATES = 200  # samples of the people outside the data


class CaseTerms(NamedTuple):
    """What is kept of U cases; the parts of a `Standing` are stacked."""

    log_bf: Array  # shape (U,): of the members themselves
    mcse: Array
    khat: Array
    ess: Array
    found: Array  # shape (5, U)
    moved: Array  # shape (5, F, B, U): as each batch of draws of each fit has it
    resampled: Array  # shape (5, R, U): as other samples of people outside the data would have it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MembershipComputation:
    """What does not change from block to block; ``counts`` (U,): members of each case."""

    runner: EvidenceRunner
    posteriors: Sequence[Posterior]
    cases: Targets
    counts: Array
    others: Others
    alternatives: Alternatives | None
    budget: int
    rng: np.random.Generator

    def answers(self) -> tuple[CaseTerms, Array, Array]:
        """All blocks, one after the other; of D others the mean log Bayes factor, and its error."""
        L = 0 if self.alternatives is None else self.alternatives.per_case
        step = max(MAX_CASE_GUESSES // (1 + L + len(self.others.rows)), FEWEST)
        U, n, spent = len(self.cases), len(self.others.person), 0
        sample, *children = self.rng.spawn(1 + -(-U // step))
        # how often each row of others stands in samples of as many people, shape (R, D)
        resamples = np.zeros((REPLICATES, 0))
        if n:
            share = self.others.count / n
            resamples = sample.multinomial(n, share, size=REPLICATES).astype(float)
        # sums over places, of each other person
        weight, total, draws = np.zeros((3, len(self.others.count)))
        deviations, parts = np.zeros(0), []
        for begin, child in zip(range(0, U, step), children, strict=True):
            end = min(begin + step, U)
            rows = self.others.rows[:, begin:end]  # shape (K, places)
            allowed = -(-self.budget * end // U) - spent  # the budget is spread over blocks
            block, refits = stage(
                f"places from {begin + 1}", partial(self._block, begin, end, allowed, child)
            )
            spent += refits
            parts.append(self._terms(block, rows, resamples))
            if not begin:
                deviations = np.zeros((*block.deviations.shape[:2], len(total)))
            times = np.broadcast_to(self.counts[begin:end], rows.shape)
            np.add.at(weight, rows, times)
            np.add.at(total, rows, times * block.log_bayes_factor[1:])
            np.add.at(draws, rows, times**2 * block.variance_of_draws)
            places: Any = (..., rows)
            np.add.at(deviations, places, times * block.deviations[:, :, 1:])
            if self.runner.progress is not None:
                self.runner.progress("membership", end, U)
        weight[weight == 0] = np.nan
        error = self._error(deviations / weight, draws / weight**2) if n else total
        joined = (np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True))
        return CaseTerms(*joined), total / weight, error

    def curve(self, members: CaseTerms, rng: np.random.Generator) -> Array:
        """`MEASURES`, their error over people and over draws (3, ...); NaN without others."""
        out = np.full((3, len(MEASURES)), np.nan)
        if len(self.others.person):
            n, resampled = int(self.counts.sum()), Standing(*members.resampled)
            out[0] = curve_measures(Standing(*members.found), self.counts)
            again = rng.multinomial(n, self.counts / n, size=len(resampled.above)).astype(float)
            out[1] = curve_measures(resampled, again).std(axis=0, ddof=1)
            moved = curve_measures(Standing(*members.moved), self.counts)
            out[2] = standard_error(moved, few=self.runner.starts_from_release)
        return out

    @property
    def alternatives_in_words(self) -> str:
        """How many alternatives there are for a place."""
        if (other := self.alternatives) is None:
            return "not needed: of one draw of the parameters their mean is 1"
        return f"{other.per_case} {'drawn for each place' if other.drawn else 'values: all'}"

    def _block(
        self, begin: int, end: int, budget: int, rng: np.random.Generator
    ) -> tuple[MembershipOdds, int]:
        """Log Bayes factors of some cases, and how many of them were fitted anew."""
        cases = self.cases.only(np.arange(begin, end))
        own, rest = cases.guesses.codes, self.others.codes[self.others.rows[:, begin:end]]
        extra = (
            own[:0] if self.alternatives is None else self.alternatives.of(np.arange(begin, end))
        )
        targets = replace(cases, guesses=GuessSet.of(np.concatenate([own, rest, extra])))
        children = rng.spawn(len(self.posteriors) + 2)
        found = [
            predicted(p, targets, rng=c, n_jobs=self.runner.n_jobs)
            for p, c in zip(self.posteriors, children, strict=False)
        ]
        log_q = None
        if self.alternatives is not None and self.alternatives.drawn:
            # from a fit from which nobody is to be taken out
            drawn, base = unseen(replace(cases, guesses=GuessSet.of(extra))), self.posteriors[0]
            log_q = predicted(base, drawn, rng=children[-2], n_jobs=self.runner.n_jobs).value
        khat = np.max([f.khat for f in found], axis=0)
        worst = self.runner.worst(khat, targets, budget)
        for u in worst:  # from fits without their record
            at = np.array([u])
            anew = self._refitted(targets.only(at), children[-1])
            found = [targets_replaced(f, at, a) for f, a in zip(found, anew, strict=True)]
        linked = self.runner.release.classes == "own"
        return odds(found, len(extra), log_q, linked), len(worst)

    def _refitted(self, target: Targets, rng: np.random.Generator) -> list[Ratio]:
        """Log predictives of one target from m + 1 fits without it: no weights, so no k-hat."""
        alone, found = unseen(target), []
        for l, start in enumerate(self.posteriors):
            fit_rng, read_rng = rng.spawn(2)
            of = None if l == 0 else self.runner.release, max(l - 1, 0)
            sampled = self.runner.begun(self.cases).chains[0].fit
            fit = sampled.without(int(target.record[0]), *of, start=start, rng=fit_rng)
            found.append(predicted(fit, alone, rng=read_rng, n_jobs=1))
        return found

    def _terms(self, o: MembershipOdds, rows: Ints, resamples: Array) -> CaseTerms:
        """Of a block: the member's own log Bayes factor, and where it stands."""
        weights = self.others.count[rows].astype(float)
        F, B, C, U = o.deviations.shape
        moved = [
            standing(o.log_bayes_factor, weights, d.astype(float))
            for d in o.deviations.reshape(-1, C, U)
        ]
        samples = [standing(o.log_bayes_factor, r[rows]) for r in resamples]
        return CaseTerms(
            log_bf=o.log_bayes_factor[0],
            mcse=self._error(o.deviations[:, :, 0].astype(float), o.variance_of_draws),
            khat=o.khat,
            ess=o.ess,
            found=np.stack(standing(o.log_bayes_factor, weights)),
            moved=np.stack(moved, axis=1).reshape(-1, F, B, U),
            resampled=np.stack(samples, axis=1),
        )

    def _error(self, deviations: Array, of_draws: Array) -> Array:
        """Of log Bayes factors: of the fits, Student's t where chains are few; of alternatives."""
        by_fit = variance_by_fit(deviations)
        of_fits = by_fit.sum(axis=0)
        if self.runner.starts_from_release:
            of_fits *= student_factor(by_fit, deviations.shape[1]) ** 2
        return np.asarray(np.sqrt(of_fits + of_draws))


class Group(NamedTuple):
    """Members who are compared with others of the same kind: records, or households of a size."""

    rows: Ints  # of members; of a household the first person's
    case: Ints  # of each member
    others: Ints  # rows of the people outside the data, likewise
    computation: MembershipComputation
    size: int = 1  # persons of each
