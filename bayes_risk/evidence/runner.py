"""The posteriors of an audit, each sampled once and kept, and the order of its work.

Chains begin and go on as `Sampling` has it, unless the model supplies a `Strategy`. Of a fit it
asks what `Capabilities` names, and nothing else.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.checkpoint import Key, Memory, Stage, in_stages, stage
from bayes_risk._core.parallel import in_order
from bayes_risk.release.release import EncodedRelease

from .contract import (
    Compute,
    Conditioned,
    Imputing,
    Offer,
    Partial,
    Posterior,
    Predicting,
    Predictive,
    Progress,
    Sampled,
    TablePredictive,
    Targets,
    Under,
)
from .diagnostics import khat_threshold
from .evidence import Evidence, combined_ratios, importance_evidence, known_evidence, refitted
from .household import Household, Jointly, JointlyExact
from .leave_one_out import (
    Ratio,
    Reading,
    joined_targets,
    pooled,
    ratio_of_fit,
    read,
    targets_replaced,
)
from .modes import Modes
from .presence import ALTERNATIVES, ENOUGH_ROWS, Presence, alternatives_of, predicted
from .problem import AuditProblem

T = TypeVar("T")
Sample = Callable[[Rng], Posterior]


def seed_of(rng: Rng) -> Key:
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
    rng: Rng
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

    def stage(self, key: Key, name: str, data: Key, rng: Rng, sample: Sample) -> Stage[Posterior]:
        """A posterior by its data and seed."""
        key = (*key, name, *data, *seed_of(rng))
        return Stage(name, partial(sample, rng), key=key, memory=self.memory)

    def posteriors(
        self, fit: Sampled, key: Key, rng: Rng, base: Sample | None = None
    ) -> list[Stage[Posterior]]:
        """The base posterior (``base``: how it is sampled), and one of each draw of parameters."""
        draws = self.release.by_draw
        *children, base_rng = rng.spawn(len(draws) + 1)

        def augmented(l: int, rng: Rng) -> Posterior:
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

    def _base(self, fit: Sampled, rng: Rng) -> Posterior:
        found = fit.informed(self.release)
        for k, child in enumerate(rng.spawn(self.rounds), start=1):
            found = found.doubled(rng=child, n_jobs=self.n_jobs)
            self.report("base fit", k, self.rounds)
        return found

    def ratio(self, posterior: Callable[[], Posterior], cases: Targets, rng: Rng) -> Ratio:
        """Leave-one-out log ratios of a posterior."""
        return ratio_of_fit(posterior, cases, rng, self.n_jobs, self.read)

    def report(self, stage: str, done: int, total: int) -> None:
        """Progress of a stage."""
        if self.progress is not None:
            self.progress(stage, done, total)


class Sampling:
    """Chains of an audit: lots of which one draw of each counts alike; a `Strategy` may differ."""

    modes: Modes | None = None

    def __init__(self, fits: Fits, chains: Sequence[Chains], *, few: bool = False) -> None:
        self.fits, self.chains, self.few = fits, chains, few

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

    def _doubled(self, begun: Stage[Posterior], rng: Rng) -> Posterior:
        return begun().doubled(rng=rng, n_jobs=self.fits.n_jobs)

    def all_sampled(self) -> None:
        """All posteriors have been sampled, for evidence of all chains."""

    def by_mode(self) -> Sequence[Sequence[Chains]]:
        """Chains of each mode, where the release leaves several open."""
        return []


def plain_predictives(fits: Fits, fit: Sampled, *, few: bool = False) -> Sampling:
    """Predictives before and after seeing each draw of the parameters."""
    return Sampling(fits, [Chains(fit, fits.posteriors(fit, fits.key, fits.rng))], few=few)


def imputed(fits: Fits, fit: Imputing) -> Sampling:
    """The base fit, and one in which the records that are not known are imputed."""
    data, (rng,) = fits.data(), fits.rng.spawn(1)

    def sample(rng: Rng) -> Posterior:
        return fit.imputed(fits.release, rng=rng, **fits.how)

    base = Stage("", partial(fit.informed, fits.release), key=(*fits.key, "fit 0", *data))
    chains = Chains(fit, [base, fits.stage(fits.key, "fit 1", data, rng, sample)])
    return Sampling(fits, [chains], few=True)


class Budget(NamedTuple):
    """How exact the evidence is to be, and how much work for it; see `attribute_risk`."""

    target_mcse: float | None = None
    max_doublings: int = 0
    refit_budget: int = 0


class EvidenceRunner:
    """The order of work: fits, evidence, more sampling where it is wanted, refits.

    Fits are kept, in ``memory`` for several audits. ``under``: another declaration, to which draws
    are re-weighted. ``method``: name of that which gives the evidence.
    """

    def __init__(
        self,
        problem: AuditProblem,
        method: str,
        rng: Rng,
        n_jobs: int,
        progress: Progress | None,
        *,
        memory: Memory | None = None,
        under: Under | None = None,
    ) -> None:
        self.problem, self.release, self.rng = problem, problem.release, rng
        self.n_jobs, self.progress, self.method, self.under = n_jobs, progress, method, under
        reading: Reading = read if under is None else partial(_reweighted, under)
        self.source = Fits(problem.release, rng, n_jobs, progress, memory, reading)
        self.sampling: Sampling | None = None
        self._presence: Presence | None = None
        self.can, self.n_draws = problem.capabilities, problem.fit.n_draws
        if problem.known is None:
            return
        # the model given the known records alone
        given = self._given("knowing", problem.known, self.release, *rng.spawn(1))
        self.source.key = given.key
        self.can = given().capabilities(self.release, problem.intruder)
        self.n_draws = given().n_draws

    def _given(
        self, name: str, known: Flags, release: EncodedRelease, rng: Rng
    ) -> Stage[Conditioned]:
        """The model given some records alone, and what the release leaves as it is of others."""
        fit: Partial = self.problem.capabilities["knowing"].fit
        key = (name, known.tobytes(), *self.source.data(), *seed_of(rng))
        make = partial(fit.knowing, known, release, rng=rng, **self.source.how)
        return Stage("", make, key=key, memory=self.source.memory)

    @property
    def threshold(self) -> float:
        """Largest k-hat that can be trusted."""
        return khat_threshold(self.n_draws)

    @property
    def offer(self) -> Offer:
        """What the fit offers by the method."""
        return self.can[self.method]

    def computed(self, compute: Compute, cases: Targets, budget: Budget, *, kept: bool) -> Evidence:
        """What the model computes itself; ``kept`` where that is all there is to do."""
        how: dict[str, Any] = {"progress": self.progress}
        if self.offer.workers:
            how |= {"n_jobs": self.n_jobs, "budget": budget}
        if not kept:
            return known_evidence(compute(self.release, cases, rng=self.rng, **how), cases)
        (rng,) = self.rng.spawn(1)  # the same whether the step is computed or found
        make = partial(compute, self.release, cases, rng=rng, **how)
        found = stage("evidence", make)
        return found if isinstance(found, Evidence) else known_evidence(found, cases)

    def importance(self, cases: Targets, budget: Budget) -> Evidence:
        """The published importance sampler."""
        return importance_evidence(self.offer.fit, self.release, cases, n_jobs=self.n_jobs)

    def begun(self, cases: Targets) -> Sampling:
        """The chains of the audit, begun for these cases when they are first asked for."""
        if self.sampling is None:
            offer, source = self.offer, self.source
            if offer.strategy is not None:
                self.sampling = offer.strategy.begin(source, cases)
            else:
                begin = imputed if self.method == "imputed" else plain_predictives
                self.sampling = begin(source, offer.fit)
            self.n_draws = self.sampling.chains[0].fit.n_draws
        return self.sampling

    @property
    def starts_from_release(self) -> bool:
        """Whether the release has led the chains to its mode."""
        return self.sampling is not None and self.sampling.modes is not None

    def refit(self, cases: Targets, budget: Budget) -> Evidence:
        """Predictives of fits without the target."""
        sampling = self.begun(cases)
        return replace(self._refit(cases), modes=sampling.modes)

    def predictive(self, cases: Targets, budget: Budget) -> Evidence:
        """Sample until the error is small enough; then refit where the weights are poor."""
        sampling = self.begun(cases)
        found = self.until_exact(cases, budget)
        worst = self.worst(found.khat, cases, budget.refit_budget)
        if len(worst):
            found = targets_replaced(found, worst, self._refit(cases.only(worst)))
        apart = [self.evidence(cases, chains) for chains in sampling.by_mode()]
        return replace(found, apart=tuple(apart))

    def worst(self, khat: Array, cases: Targets, budget: int) -> Ints:
        """Cases with the worst of poor weights, (U,), which a fit without them can mend."""
        households = self.problem.households
        if households is not None and households.model.without is None:
            return np.zeros(0, np.int64)
        poor = np.flatnonzero((khat > self.threshold) & cases.fitted)
        some = poor[np.argsort(-khat[poor], kind="stable")][:budget]
        return some if households is None else np.sort(some)

    def base(self, cases: Targets, found: Evidence) -> Array | None:
        """Log p(y* | y_A) of the base fit, (G, U), or what the model itself says; None: nothing."""
        predicting: Predicting | None = self.can.fit_for("log-prior")
        if found.base is not None or predicting is None:
            return found.base
        return predicting.log_prior(self.release, cases)

    def expected(self, cases: Targets) -> Array:
        """Log p(y* | y_A) (G, U) up to a constant, of the model or the base fit."""
        predicting: Predicting | None = self.can.fit_for("log-prior")
        if predicting is not None:
            return predicting.log_prior(self.release, cases)
        chains = self.begun(cases).chains
        each = zip(chains, self.rng.spawn(len(chains)), strict=True)
        return pooled([self.source.ratio(one.posterior(0), cases, rng) for one, rng in each]).value

    def before(self, cases: Targets, found: Evidence) -> Ratio:
        """Log p(y* | y_A) relative to the truth's, before anything was published."""
        problem, (rng, reading) = self.problem, self.rng.spawn(2)
        if problem.known_before is None or not problem.published:
            assert found.base is not None
            value, deviation = found.base, found.moved_base()
            return Ratio(value=value, deviation=deviation, khat=found.khat, ess=found.ess)
        everything = np.ones_like(self.release.columns), np.ones_like(self.release.replaced)
        blank = replace(self.release, columns=everything[0], replaced=everything[1])
        given = self._given("unpublished", problem.known_before, blank, rng)()
        can = given.capabilities(self.release, problem.intruder)
        posterior = partial(can[self.method].fit.informed, blank)
        alone = replace(
            cases, known=problem.known_before, fitted=problem.known_before[cases.record]
        )
        return self.source.ratio(posterior, alone, reading)

    def fits(self, cases: Targets) -> list[Posterior]:
        """The base fit, and one augmented fit per draw of the parameters, for these cases."""
        return [posterior() for posterior in self.begun(cases).chains[0].posteriors]

    def tables(self, cases: Targets, rngs: Callable[[int], Sequence[Rng]]) -> list[TablePredictive]:
        """Predictives of these fits that are mixtures of products."""
        fit, posteriors = self.can["full-table"].fit, self.fits(cases)
        each = zip(posteriors, rngs(len(posteriors)), strict=True)
        return [fit.tabulated(posterior, cases, rng=rng) for posterior, rng in each]

    def until_exact(self, cases: Targets, budget: Budget) -> Evidence:
        """Evidence of fits that run until its error is small enough."""
        found, left = self._of_all(cases), budget.max_doublings
        limit = np.inf if budget.target_mcse is None else budget.target_mcse
        while left and (error := float(np.quantile(found.mcse(), 0.95))) > limit:
            share = found.share_by_fit()
            # each halves the variance at best: errors before so many would be read for nothing
            rounds = max(int(min(2 * np.log2(error / limit), left)), 1)
            for _ in range(rounds):
                self.begun(cases).double(share)
                base = np.arange(len(share)) == 0
                share = np.where(base == (share[0] >= share[1:].sum()), share / 2, share)
            found, left = self._of_all(cases), left - rounds
        return found

    def _of_all(self, cases: Targets) -> Evidence:
        """Evidence of all chains, whose error is that of a few where each has a say."""
        sampling, found = self.begun(cases), self.evidence(cases)
        sampling.all_sampled()
        return replace(found, modes=sampling.modes, few=sampling.few)

    def evidence(self, cases: Targets, chains: Sequence[Chains] | None = None) -> Evidence:
        """Predictive evidence from the base posterior and those of the releases."""
        chains = self.begun(cases).chains if chains is None else chains
        if self.problem.in_file is not None:
            return self._of_places(cases, chains, self.presence(cases))
        if self.problem.households is not None:
            model = self.problem.households.model

            def sampled(one: Household) -> Iterator[Ratio]:
                for k in range(len(chains[0].posteriors)):
                    each = (model.terms(c.posterior(k)(), one.members) for c in chains)
                    yield pooled([one.ratio(terms) for terms in each])

            return self._of_households(cases, len(chains[0].posteriors) - 1, sampled)
        n = len(chains[0].posteriors)
        rngs = self.rng.spawn(n)

        def ratio(k: int) -> Ratio:
            several = [rngs[k]] if len(chains) == 1 else rngs[k].spawn(len(chains))
            each = zip(chains, several, strict=True)
            return pooled([self.source.ratio(one.posterior(k), cases, rng) for one, rng in each])

        def ratios() -> Iterator[Ratio]:
            for k in range(n):
                found = stage(f"evidence of fit {k}", partial(ratio, k))
                self.source.report("evidence", k + 1, n)
                yield found

        return combined_ratios(ratios(), n - 1, cases)

    def presence(self, cases: Targets) -> Presence:
        """Of an intruder who is not certain that the target is in the file: drawn once."""
        if self._presence is None:
            probability = self.problem.in_file
            assert probability is not None
            other, linked = None, self.release.classes == "own"
            if len(self.release.by_draw) > 1 or linked:  # else their mean is 1
                of, (rng,) = self.drawing(cases), self.rng.spawn(1)
                other = alternatives_of(of, min(len(cases), ENOUGH_ROWS), ALTERNATIVES, rng)
            self._presence = Presence(probability, other, linked)
        return self._presence

    def drawing(self, cases: Targets) -> Any:
        """What draws other people: the fit, or that of the mode that the release chooses."""
        begun = self.begun(cases)
        return begun.chains[0].fit if self.starts_from_release else self.problem.fit

    def _of_places(self, cases: Targets, chains: Sequence[Chains], presence: Presence) -> Evidence:
        """The same where the record in the target's place may be another person's, in blocks."""
        n, U, step = len(chains[0].posteriors), len(cases), presence.step(len(cases.guesses.codes))
        first = self.begun(cases).chains[0].posterior(0)  # alternatives were drawn from it

        def block(begin: int, rng: Rng) -> Evidence:
            some = cases.only(np.arange(begin, min(begin + step, U)))
            targets, (*rngs, drawing) = presence.targets_of(some), rng.spawn(n + 1)

            def ratio(k: int) -> Ratio:
                each = zip(chains, rngs[k].spawn(len(chains)), strict=True)
                how = {"n_jobs": self.n_jobs}
                return pooled([predicted(c.posterior(k)(), targets, rng=r, **how) for c, r in each])

            ratios = (ratio(k) for k in range(n))
            return presence.combined(first(), drawing, self.n_jobs, ratios, n - 1, some)

        parts, starts = [], range(0, U, step)
        for begin, rng in zip(starts, self.rng.spawn(len(starts)), strict=True):
            parts.append(stage(f"evidence of places from {begin + 1}", partial(block, begin, rng)))
            self.source.report("evidence", min(begin + step, U), U)
        return joined_targets(parts)

    def exact_households(self, cases: Targets, budget: Budget) -> Evidence:
        """Evidence of whole households that the model computes itself."""
        households = self.problem.households
        assert households is not None
        model: JointlyExact = households.model
        return self._of_households(
            cases, len(self.release.by_draw), lambda one: model.ratios(one.members, one.index)
        )

    def _without_households(self, cases: Targets) -> Evidence:
        """Evidence from fits that have not seen the target's household."""
        households, chains = self.problem.households, self.begun(cases).chains
        assert households is not None
        model: Jointly = households.model
        assert model.without is not None
        left_out = model.without
        number = np.unique(households.number[cases.record])
        rngs = dict(zip(number.tolist(), self.rng.spawn(len(number)), strict=True))

        def refitted(one: Household) -> Iterator[Ratio]:
            rng = rngs[int(households.number[one.members.record[0]])]
            how: Any = {"rng": rng, "n_jobs": self.n_jobs}
            for k in range(len(chains[0].posteriors)):
                fits = [left_out(c.posterior(k)(), one.members, **how) for c in chains]
                yield pooled([one.ratio(model.terms(f, one.members), seen=False) for f in fits])

        m = len(chains[0].posteriors) - 1
        return self._of_households(cases, m, refitted, what="refits")

    def _of_households(
        self,
        cases: Targets,
        m: int,
        ratios: Callable[[Household], Iterable[Ratio]],
        what: str = "evidence",
    ) -> Evidence:
        """The same where no member of the target's household is known, one after another."""
        households = self.problem.households
        assert households is not None
        of = households.number[cases.record]  # ascending

        def evidence(number: int) -> Evidence:
            one = households.of(number, cases.columns)
            return one.evidence(ratios(one), m, cases.only(np.flatnonzero(of == number)))

        parts, numbers = [], np.unique(of)
        for k, number in enumerate(numbers, start=1):
            parts.append(stage(f"{what} of household {k}", partial(evidence, int(number))))
            self.source.report(what, k, len(numbers))
        return joined_targets(parts)

    def _refit(self, cases: Targets) -> Evidence:
        if self.problem.households is not None:
            return self._without_households(cases)
        rngs = self.rng.spawn(1)[0].spawn(len(cases))
        chains = self.begun(cases).chains

        def started(posterior: Callable[[], Posterior]) -> Posterior:
            """From where refits start: under the other declaration, if there is one."""
            found: Posterior = posterior()
            return found if self.under is None else self.under.started(found)

        def run(which: Sequence[int]) -> Iterator[Evidence]:
            fits = [
                [started(one.posterior(k)) for one in chains]
                for k in range(len(chains[0].posteriors))
            ]
            fixed = partial(refitted, chains[0].fit, self.release, fits)
            jobs = [partial(fixed, cases.only(np.array([u])), rngs[u]) for u in which]
            if self.problem.in_file is not None:
                how, first = self.presence(cases), fits[0][0]
                drawing = [rngs[u].spawn(1)[0] for u in which]
                each = [partial(how.combined, first, rng, 1) for rng in drawing]
                jobs = [
                    partial(job, read=how.read, combine=combine)
                    for job, combine in zip(jobs, each, strict=True)
                ]
            found = in_order(jobs, n_jobs=self.n_jobs, what="refits")
            for u, part in zip(which, found, strict=True):
                self.source.report("refits", u + 1, len(cases))
                yield part

        return joined_targets(in_stages("refits", len(cases), run))


@dataclass(frozen=True, slots=True, eq=False)
class WeightedPredictive:
    """A predictive whose draws have weights ``log_r`` (H,), the ratio of priors they are under."""

    inner: Predictive
    log_r: Array

    @property
    def batch(self) -> Ints:
        """Batch of each draw."""
        return self.inner.batch

    def log_truth(self, block: slice) -> Array:
        """log p(y_i | theta_h) / r_h, shape (H, block): its inverse is the joint weight."""
        return self.inner.log_truth(block) - self.log_r[:, None]

    def log_sums(self, block: slice, log_weights: Array) -> Array:
        """As the inner one's; the weights given lack r_h, which log_truth has divided out."""
        return self.inner.log_sums(block, log_weights + self.log_r[:, None])


def _reweighted(under: Under, posterior: Posterior, targets: Targets, rng: Rng) -> list[Predictive]:
    """Leave-one-out predictives, the ratio of priors among the weights."""
    found = under.predictives(posterior, targets, rng=rng)
    return [WeightedPredictive(part, log_r - log_r.max()) for part, log_r in found]
