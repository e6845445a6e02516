"""The order of work of an audit: fits, evidence, more sampling where it is wanted, refits.

Of a fit it asks what `Capabilities` names, and nothing else.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.checkpoint import Stage, in_stages, stage
from bayes_risk._core.parallel import in_order
from bayes_risk.release.release import EncodedRelease

from .contract import (
    Led,
    Posterior,
    Predictive,
    Progress,
    Sampled,
    Simulated,
    TablePredictive,
    Targets,
    Under,
)
from .diagnostics import khat_threshold
from .evidence import Evidence, combined, importance_evidence, known_evidence, refitted
from .leave_one_out import Ratio, Reading, joined, pooled, ratio_of_fit, read, with_targets
from .modes import NOBODY, Modes, Starts, probed, quarters, told_apart
from .problem import AuditProblem

STRAYS = 3  # times as many starts as would do if none strayed, at most
Key = tuple[Hashable, ...]
T = TypeVar("T")
Memory = dict[Key, Any]  # sampled of one fit, by all it depends on: settings of a sweep share it


class Budget(NamedTuple):
    """How exact the evidence is to be, and how much work for it; see `attribute_risk`."""

    target_mcse: float | None = None
    max_doublings: int = 0
    refit_budget: int = 0


def seed_of(rng: np.random.Generator) -> Key:
    """What a generator that nobody has drawn from will draw."""
    seed: Any = rng.bit_generator.seed_seq
    return (str(seed.entropy), tuple(seed.spawn_key), seed.n_children_spawned)


def key_of(release: EncodedRelease, sets: Sequence[int] | slice = slice(None)) -> Key:
    """Some data sets of a release, and the mechanism that they are taken to have."""
    groups = release.groups
    arrays = [release.codes[sets], release.replaced, release.columns]
    arrays += [] if groups is None else [groups[sets]]
    digest = hashlib.blake2b(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    return (digest.hexdigest(), tuple(release.synthesized), release.classes)


class Held(NamedTuple):
    """A posterior that is made when it is asked for, and what it depends on."""

    key: Key
    later: Callable[[], Posterior]


@dataclass(frozen=True, slots=True, eq=False)
class Chains:
    """Chains that go on together: ``fit`` has draws of each, ``posteriors`` go on from them.

    ``starts`` (C,) are those that a release has led them from, counted over all; None: none has.
    ``which`` of them count; None: all.
    """

    fit: Sampled
    posteriors: list[Held]
    starts: Ints | None = None
    which: Ints | None = None

    def posterior(self, k: int) -> Callable[[], Posterior]:
        """Posterior k: of the base fit (0), or of draw k of the parameters."""
        held, which = self.posteriors[k], self.which
        if which is None:
            return held.later
        led: Any = self.fit
        return lambda: led.of_chains(held.later(), which)

    def only(self, starts: Ints) -> "Chains | None":
        """Those from some of the starts; None: not one."""
        assert self.starts is not None
        which = np.flatnonzero(np.isin(self.starts, starts))
        if not len(which):
            return None
        return replace(self, which=None if len(which) == len(self.starts) else which)


class EvidenceRunner:
    """The order of work: fits, evidence, more sampling where it is wanted, refits.

    Fits are kept, so that further guesses cost no further fit; by a ``memory`` of this fit, where
    several audits share it. ``under``: another declaration of the model, that the draws are
    re-weighted to.
    """

    def __init__(
        self,
        problem: AuditProblem,
        rng: np.random.Generator,
        n_jobs: int,
        progress: Progress | None,
        *,
        memory: Memory | None = None,
        under: Under | None = None,
    ) -> None:
        self.problem, self.release, self.rng = problem, problem.release, rng
        self.n_jobs, self.progress = n_jobs, progress
        self.memory = memory
        self.under = under
        self.read: Reading = read if under is None else partial(_reweighted, under)
        self.can, self.n_draws = problem.capabilities, problem.fit.n_draws
        self.key: Key = ()
        self.modes: Modes | None = None
        self.imputes = False
        self.starts: list[Starts] = []
        self.chains: list[Chains] = []
        known = problem.known
        if known is None:
            return
        # the model given the known records alone
        (rng,) = self.rng.spawn(1)
        self.key = ("knowing", known.tobytes(), *self._data(), *seed_of(rng))
        knowing = needed(self.can.partial).knowing
        given = self.remember(self.key, partial(knowing, known, self.release, rng=rng, **self._how))
        self.can = given.capabilities(self.release, self.problem.intruder)
        self.n_draws = given.n_draws

    def _data(self, sets: Sequence[int] | slice = slice(None)) -> Key:
        """The key of some data sets, where anything is remembered."""
        return () if self.memory is None else key_of(self.release, sets)

    def remember(self, key: Key, make: Callable[[], T]) -> T:
        """What is in memory under the key, made the first time; without a memory each time."""
        memory: Memory = {} if self.memory is None else self.memory
        if key not in memory:
            memory[key] = make()
        found: T = memory[key]
        return found

    @property
    def _how(self) -> dict[str, Any]:
        return {"n_jobs": self.n_jobs, "progress": self.progress}

    @property
    def sampled(self) -> Sampled:
        """The fit whose posteriors are sampled: that of the mode, where a release has chosen it."""
        return self.chains[0].fit

    @property
    def led(self) -> Led | None:
        """The fit whose chains the release has led to its mode, if it has."""
        return None if self.modes is None else cast(Led, self.chains[0].fit)

    @property
    def threshold(self) -> float:
        """Largest k-hat that can be trusted."""
        return khat_threshold(self.n_draws)

    def closed_form(self, way: str, cases: Targets) -> Evidence:
        """What the model computes itself; kept where that is all there is to do."""
        compute = partial(needed(self.can.closed_form).closed_form, way)
        if way not in ("exact", "monte-carlo"):
            made = compute(self.release, cases, rng=self.rng, progress=self.progress)
            return known_evidence(made, cases)
        return self._computed(compute, cases)

    def weaker(self, cases: Targets, budget: Budget) -> Evidence:
        """Evidence for competing businesses, which the model computes itself."""
        return self._computed(partial(needed(self.can.weaker).weaker, self.problem.intruder), cases)

    def _computed(self, compute: Callable[..., Simulated], cases: Targets) -> Evidence:
        (rng,) = self.rng.spawn(1)  # the same whether the step is computed or found
        make = partial(compute, self.release, cases, rng=rng, progress=self.progress)
        return known_evidence(stage("evidence", make), cases)

    def importance(self, cases: Targets, budget: Budget) -> Evidence:
        """The published importance sampler."""
        fit = needed(self.can.importance)
        return importance_evidence(fit, self.release, cases, n_jobs=self.n_jobs)

    def refit(self, cases: Targets, budget: Budget) -> Evidence:
        """Predictives of fits without the target."""
        self._begin(cases)
        return replace(self._refit(cases), modes=self.modes)

    def predictive(self, cases: Targets, budget: Budget) -> Evidence:
        """Sample until the error is small enough; then refit where the weights are poor."""
        self._begin(cases)
        found = self._until(cases, budget)
        worst = self.worst(found.khat, cases, budget.refit_budget)
        if len(worst):
            found = with_targets(found, worst, self._refit(cases.only(worst)))
        if self.modes is None:
            return found
        apart = []  # that of each mode, where the release does not choose
        for those in self.modes.chains_by_mode if len(self.modes.kept) > 1 else ():
            of_mode = [chains.only(self.modes.used[those]) for chains in self.chains]
            apart.append(self.evidence(cases, [c for c in of_mode if c is not None]))
        return replace(found, modes=self.modes, apart=tuple(apart))

    def worst(self, khat: Array, cases: Targets, budget: int) -> Ints:
        """Cases with the worst of poor weights, (U,), which a fit without their record can mend."""
        poor = np.flatnonzero((khat > self.threshold) & cases.fitted)
        return poor[np.argsort(-khat[poor], kind="stable")][:budget]

    def imputed(self, cases: Targets, budget: Budget) -> Evidence:
        """Sample until the error is small enough; the unknown records stay imputed."""
        if not self.chains:
            self.imputes, data, fit = True, self._data(), needed(self.can.imputing)
            (rng,) = self.rng.spawn(1)
            base = Held((*self.key, "fit 0", *data), lambda: fit.informed(self.release))
            make: Any = partial(fit.imputed, self.release, **self._how)
            self.chains = [
                Chains(fit, [base, self._held(self.key, "fit 1", data, rng, lambda r: make(rng=r))])
            ]
        return self._until(cases, budget)

    def base(self, cases: Targets, found: Evidence) -> Array | None:
        """Log p(y* | y_A) of the base fit, (G, U), or what the model itself says; None: nothing."""
        if found.base is not None or self.can.predicting is None:
            return found.base
        return self.can.predicting.log_prior(self.release, cases)

    def expected(self, cases: Targets) -> Array:
        """Log p(y* | y_A) (G, U) up to a constant, of the model or the base fit."""
        if self.can.predicting is not None:
            return self.can.predicting.log_prior(self.release, cases)
        self._begin(cases)
        rngs = self.rng.spawn(len(self.chains))
        each = zip(self.chains, rngs, strict=True)
        how = self.n_jobs, self.read
        return pooled([ratio_of_fit(c.posterior(0), cases, rng, *how) for c, rng in each]).value

    def before(self, cases: Targets, found: Evidence) -> Ratio:
        """Log p(y* | y_A) relative to the truth, before anything was published.

        That of the evidence, if synthetic values alone are published; else of one more fit, which
        has seen nothing of other records than those known, not even what the release leaves.
        """
        problem, (rng, reading) = self.problem, self.rng.spawn(2)
        if problem.told is None or not problem.published:
            m = np.float32(len(found.log_evidence))
            value, deviation = needed(found.base), found.deviations[0] / -m
            return Ratio(value=value, deviation=deviation, khat=found.khat, ess=found.ess)
        everything = np.ones_like(self.release.columns), np.ones_like(self.release.replaced)
        blank = replace(self.release, columns=everything[0], replaced=everything[1])
        fit = needed(problem.capabilities.partial)
        key = ("unpublished", problem.told.tobytes(), *self._data(), *seed_of(rng))
        make = partial(fit.knowing, problem.told, blank, rng=rng, **self._how)
        given = self.remember(key, make).capabilities(self.release, problem.intruder)
        posterior = partial(needed(given.sampled).informed, blank)
        told = replace(cases, known=problem.told, fitted=problem.told[cases.record])
        return ratio_of_fit(posterior, told, reading, self.n_jobs, self.read)

    def fits(self, cases: Targets) -> list[Posterior]:
        """The base fit, and one augmented fit per draw of the parameters, for these cases."""
        self._begin(cases)
        return [held.later() for held in self.chains[0].posteriors]

    def tables(
        self, cases: Targets, rngs: Callable[[int], Sequence[np.random.Generator]]
    ) -> list[TablePredictive]:
        """Predictives of these fits that are mixtures of products."""
        fit, posteriors = needed(self.can.tabulated), self.fits(cases)
        each = zip(posteriors, rngs(len(posteriors)), strict=True)
        return [fit.tabulated(posterior, cases, rng=rng) for posterior, rng in each]

    def _begin(self, cases: Targets) -> None:
        """Chains that the release leads to its mode, where its draws come from one; then fits."""
        if self.chains:
            return
        if self.can.led is None:
            fit = needed(self.can.sampled)
            self.chains = [Chains(fit, self.later(fit, self.key, self.rng))]
            return
        self.key = ("led", *self._data(), *seed_of(self.rng))
        self.probes = probed(self.release.microdata, cases)
        self._lead(self.can.led, self.key, self.rng, self.can.led.led_chains)
        self.n_draws = cast(Led, self.chains[0].fit).n_draws

    def _lead(self, fit: Led, key: Key, rng: np.random.Generator, wanted: int) -> None:
        """Carry on so many chains in all (at first half), of starts there are, then of new ones."""
        carried = np.concatenate([NOBODY, *(c.starts for c in self.chains if c.starts is not None)])
        found = self._told_apart(wanted, carried) if self.starts else None
        missing = wanted - (0 if found is None else len(found.used))
        enough = wanted if len(carried) else -(-wanted // 2)
        for k in range(STRAYS * -(-missing // fit.led_chains)):
            if found is not None and found.settled and len(found.used) >= enough:
                break
            self.starts.append(self._started(fit, (*key, "starts", k), *rng.spawn(3)))
            found = self._told_apart(wanted, carried)
        assert found is not None
        before = [chains.only(found.used) for chains in self.chains]
        self.chains = [chains for chains in before if chains is not None]
        new, begin = np.setdiff1d(found.used, carried), 0
        for starts in self.starts:
            end = begin + len(starts.value)
            which = new[(new >= begin) & (new < end)] - begin
            if len(which):  # carried on, and the fits that go on from there
                at, (child,) = (*key, "carried", begin, which.tobytes()), rng.spawn(1)
                make = partial(starts.fit.carried, which, self.release, rng=child, **self._how)
                there = self.remember(at, make)
                self.chains.append(Chains(there, self.later(there, at, rng), begin + which))
            begin = end
        led = [(c.starts, c.which) for c in self.chains if c.starts is not None]
        used = [begun if which is None else begun[which] for begun, which in led]
        self.modes = replace(found, used=np.concatenate(used))

    def _started(
        self,
        fit: Led,
        key: Key,
        lead: np.random.Generator,
        score: np.random.Generator,
        weigh: np.random.Generator,
    ) -> Starts:
        """Chains led by the release, and what they say of the probes."""
        led = self.remember(key, lambda: fit.led(self.release, rng=lead, **self._how))
        base, ratios = led.informed(self.release), []
        for c, rng in enumerate(score.spawn(led.n_chains)):
            one = partial(led.of_chains, base, np.array([c]))
            ratios.append(ratio_of_fit(one, self.probes, rng, self.n_jobs, self.read))
        return Starts(
            fit=led,
            value=np.stack([r.value for r in ratios]),
            error=np.stack([0.5 * (r.deviation[0] - r.deviation[1]) for r in ratios]).astype(float),
            log_release=quarters(led.scores(self.release, rng=weigh).swapaxes(0, 1)),
            made=np.arange(led.n_chains) >= led.n_chains - led.made,
        )

    def _told_apart(self, wanted: int, carried: Ints) -> Modes:
        """The modes of all starts, and those of them to be carried on."""
        value, error, log_release, made = (
            np.concatenate([starts[k] for starts in self.starts]) for k in (1, 2, 3, 4)
        )
        return told_apart(value, error, log_release, wanted, carried, made)

    def later(self, fit: Sampled, key: Key, rng: np.random.Generator) -> list[Held]:
        """The fits, each made when it is asked for."""
        draws = self.release.by_draw
        *children, base_rng = rng.spawn(len(draws) + 1)
        rounds = int(np.ceil(np.log2(len(draws))))

        def base(rng: np.random.Generator) -> Posterior:
            if self.can.led is not None:
                return cast(Led, fit).lengthened(self.release, 2**rounds, rng=rng, **self._how)
            found = fit.informed(self.release)
            for k, child in enumerate(rng.spawn(rounds), start=1):
                found = found.doubled(rng=child, n_jobs=self.n_jobs)
                self._tell("base fit", k, rounds)
            return found

        def augmented(l: int, rng: np.random.Generator) -> Posterior:
            return fit.augmented(self.release, l, rng=rng, **self._how)

        return [self._held(key, "fit 0", self._data(), base_rng, base)] + [
            self._held(key, f"fit {l + 1}", self._data(list(sets)), child, partial(augmented, l))
            for l, (sets, child) in enumerate(zip(draws, children, strict=True))
        ]

    def _held(
        self,
        key: Key,
        name: str,
        data: Key,
        rng: np.random.Generator,
        make: Callable[[np.random.Generator], Posterior],
    ) -> Held:
        """A posterior under the key of its data and seed."""
        key = (*key, name, *data, *seed_of(rng))
        return Held(key, Stage(name, lambda: self.remember(key, lambda: make(rng))))

    def _until(self, cases: Targets, budget: Budget) -> Evidence:
        """Evidence of fits that run until its error is small enough."""
        found = self._of_all(cases)
        limit = np.inf if budget.target_mcse is None else budget.target_mcse
        for _ in range(budget.max_doublings):
            if float(np.quantile(found.mcse(), 0.95)) <= limit:
                break
            self.double(found.share_by_fit())
            found = self._of_all(cases)
        return found

    def _of_all(self, cases: Targets) -> Evidence:
        """Evidence of all chains, whose error is that of a few where they are led or impute."""
        found = self.evidence(cases)
        if self.modes is not None:
            fits: Any = [held.later() for chains in self.chains for held in chains.posteriors]
            self.modes = replace(self.modes, put_back=sum(fit.put_back for fit in fits))
        return replace(found, modes=self.modes, imputed=self.imputes)

    def double(self, share: Array) -> None:
        """Twice as many led chains; else twice as long ones, of the base fit or all the others."""
        if self.modes is not None:
            (rng,), led = self.rng.spawn(1), needed(self.can.led)
            key = (*self.key, "more", *seed_of(rng))
            return self._lead(led, key, rng, 2 * len(self.modes.used))
        base_first = share[0] >= share[1:].sum()
        posteriors = self.chains[0].posteriors
        children = self.rng.spawn(len(posteriors))
        for k, (held, child) in enumerate(zip(posteriors, children, strict=True)):
            if (k == 0) == base_first:
                key = (*held.key, "doubled", *seed_of(child))

                def doubled(held: Held = held, rng: np.random.Generator = child) -> Posterior:
                    return held.later().doubled(rng=rng, n_jobs=self.n_jobs)

                make = partial(self.remember, key, doubled)
                posteriors[k] = Held(key, Stage(f"fit {k}, doubled", make))

    def evidence(self, cases: Targets, chains: Sequence[Chains] | None = None) -> Evidence:
        """Predictive evidence from the base posterior and those of the releases."""
        chains = self.chains if chains is None else chains
        n = len(chains[0].posteriors)
        rngs = self.rng.spawn(n)

        def ratio(k: int) -> Ratio:
            several = [rngs[k]] if len(chains) == 1 else rngs[k].spawn(len(chains))
            return pooled(
                [
                    ratio_of_fit(one.posterior(k), cases, rng, self.n_jobs, self.read)
                    for one, rng in zip(chains, several, strict=True)
                ]
            )

        def ratios() -> Iterator[Ratio]:
            for k in range(n):
                found = stage(f"evidence of fit {k}", partial(ratio, k))
                self._tell("evidence", k + 1, n)
                yield found

        return combined(ratios(), n - 1, cases)

    def _refit(self, cases: Targets) -> Evidence:
        rngs = self.rng.spawn(1)[0].spawn(len(cases))

        def begun(posterior: Callable[[], Posterior]) -> Posterior:
            """From where refits start: under the other declaration, if there is one."""
            found: Posterior = posterior()
            return found if self.under is None else self.under.started(found)

        def run(which: Sequence[int]) -> Iterator[Evidence]:
            fits = [
                [begun(one.posterior(k)) for one in self.chains]
                for k in range(len(self.chains[0].posteriors))
            ]
            fixed = partial(refitted, self.sampled, self.release, fits)
            jobs = [partial(fixed, cases.only(np.array([u])), rngs[u]) for u in which]
            found = in_order(jobs, n_jobs=self.n_jobs, what="refits")
            for u, part in zip(which, found, strict=True):
                self._tell("refits", u + 1, len(cases))
                yield part

        return joined(in_stages("refits", len(cases), run))

    def _tell(self, stage: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(stage, done, total)


def needed(fit: T | None) -> T:
    """What the capabilities say that there is."""
    if fit is None:
        raise TypeError("a way to the evidence is offered without what it takes")
    return fit


@dataclass(frozen=True, slots=True, eq=False)
class WeightedPredictive:
    """A predictive whose draws have weights of their own, ``log_r`` (H,).

    Draws under one hyper-prior become draws under another: r, the ratio of the priors, goes into
    the leave-one-out weights, so that both are Pareto-smoothed together (docs/sensitivity.md).
    """

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


def _reweighted(
    under: Under, posterior: Posterior, targets: Targets, rng: np.random.Generator
) -> list[Predictive]:
    """Leave-one-out predictives, the ratio of priors among the weights."""
    found = under.predictives(posterior, targets, rng=rng)
    return [WeightedPredictive(part, log_r - log_r.max()) for part, log_r in found]
