"""Attribute risk: what the intruder's posterior says of the confidential values of each target.

The evidence of an audit, `p(Z^(l) | y*, A, S)`, does not depend on the prior: gathered once and
kept, it makes every posterior after that an exact re-weighting by Bayes' rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.checkpoint import Memory, Stage, begin_work, stage
from bayes_risk._core.errors import InputError
from bayes_risk._core.progress import ProgressOption, shows_progress
from bayes_risk._core.shown import Shown
from bayes_risk._core.validate import positive, whole_number
from bayes_risk.data.groups import By, groups_of
from bayes_risk.data.kept import Saved
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence import balance as balancing
from bayes_risk.evidence.by_column import FIRST, SEARCHED, Factors, by_column, factors_of
from bayes_risk.evidence.contract import Fit, Progress, Targets, Under, drawn_in_words
from bayes_risk.evidence.evidence import Evidence
from bayes_risk.evidence.mechanism_check import MechanismCheck, checked
from bayes_risk.evidence.methods import JOINED, METHODS, choose_method
from bayes_risk.evidence.prior_weights import PriorContext, PriorWeights, prior_weights
from bayes_risk.evidence.problem import AuditProblem, Sample
from bayes_risk.evidence.runner import Budget, EvidenceRunner, key_of, seed_of
from bayes_risk.intruder import priors
from bayes_risk.intruder.grids import Grid, Levels, guesses_in_words
from bayes_risk.intruder.guesses import Guesses, possible
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.exposure import Exposure, exposure_of_tables
from bayes_risk.release.release import EncodedRelease, Release
from bayes_risk.release.tables import Tables

from .grid_check import GridCheck, grid_check
from .groups import with_groups
from .posterior import (
    MAX_LEFT_OUT,
    MAX_MCSE_LOG_ODDS,
    Limits,
    at_truth,
    before_release,
    certain,
    error_over_modes,
    interval,
    reliable,
    warn_of_unreliable,
    weigh,
)
from .result import AttributeRisk, measures_of

# what a risk has as its evidence, and the numbers of this, and its posterior have it
OF_EVIDENCE = (
    *("index", "case", "disclosed", "seed_entropy"),
    *("exposure", "check", "before", "sample", "grid"),
)
OF_FOUND = ("log_evidence", "khat", "ess", "modes", "few_chains", "learnt")
OF_POSTERIOR = ("deviations", "mcse", "mcse_by_release", "left_out")
SECOND = "predictive"  # beside the flat prior, where the evidence has it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttributeEvidence(Shown, Saved):
    """The evidence of the release for every guess, before any prior.

    Attributes
    ----------
    microdata, release, encoded : Microdata, Release, EncodedRelease or None
        The confidential table; what was released; the same, read against the table. Of published
        tables there is no file to be read.
    index, case, seed_entropy, exposure, check
        As in `AttributeRisk`.
    cases, found : Targets, Evidence
        Distinct targets and their guesses; log evidence (m, G, n_cases) relative to the truth's.
    disclosed, log_rest : ndarray, shape (n_cases,)
        Whether released unchanged; log of what a coarse-to-fine search left out, relative to the
        truth.
    searched : Prior, or None
        The prior that guided such a search; only it can be used then.
    limits, way, words : Limits, str, mapping of str to str
        When a number counts as reliable; how the evidence was computed; assumptions but for the
        prior.
    any_release : bool
        Whether any guess could have made any release: not under trees, which show what they hold.
    factors : tuple of str, or str
        Columns of the factors of the evidence; or why these are not available.
    base : ndarray, shape (G, n_cases), or None
        log p(y* | y_A) of the model before the release, up to a constant for each case.
    grid : GridCheck or None
        As in `AttributeRisk`.
    before, sample : ndarray, shape (2, n_cases), or None, Sample or None
        As in `AttributeRisk`.
    """

    KEPT_AS: ClassVar[str] = "evidence"

    microdata: Microdata
    release: Any
    encoded: EncodedRelease | None
    index: pd.Index
    case: Ints
    seed_entropy: str
    exposure: Exposure | None
    check: MechanismCheck | None = None
    cases: Targets
    found: Evidence
    disclosed: Flags
    log_rest: Array
    searched: priors.Prior | None
    limits: Limits
    way: str
    words: Mapping[str, str]
    any_release: bool
    factors: tuple[str, ...] | str
    base: Array | None = None
    grid: GridCheck | None = None
    before: Array | None = None
    sample: Sample | None = None

    def risk(self, prior: priors.Prior | None = None, *, warn: bool = True) -> AttributeRisk:
        """The intruder's posterior under a prior: Bayes' rule on the evidence kept.

        Parameters
        ----------
        prior : as in `attribute_risk`
            None: the flat prior, and the predictive one beside it where there is one.
        warn : bool
            Whether to warn of unreliable records.

        Notes
        -----
        Cost: a pass over (G, n_cases), no draw.
        """
        mcse = self.found.mcse()
        risk = self._risk("uniform" if prior is None else prior, mcse)
        if prior is None:  # the predictive one beside it, or why it is not there
            own = risk.assumptions["prior"]
            try:
                beside = {SECOND: self._risk(SECOND, mcse)}
                words = f"flat ({own}) and {SECOND} ({beside[SECOND].assumptions['prior']})"
            except InputError as error:
                why = str(error).partition(";")[0].replace(f'prior="{SECOND}"', "that")
                beside, words = {}, f"{own} (the {SECOND} prior is not there: {why})"
            risk = replace(risk, priors=beside, assumptions={**risk.assumptions, "prior": words})
        if warn:
            cure = METHODS[self.way].cure
            if (risk.left_out > MAX_LEFT_OUT).any():
                cure += "; where the search of a joint grid left much out, raise JointGrid's budget"
            worst = (
                f"largest k-hat {risk.khat.max():.2f}, smallest effective number of draws "
                f"{risk.ess.min():.0f}"
            )
            warn_of_unreliable(risk.reliable[risk.case], worst, cure)
        factors = risk.factors
        if self.searched is not None and not isinstance(factors, str):
            factors = SEARCHED
        if isinstance(factors, str):
            return replace(risk, balance=self.balance(), not_by_column=factors)
        return replace(risk, balance=self.balance(), by_column=by_column(factors, risk))

    def balance(self) -> balancing.Balance | None:
        """The evidence checked by itself; None where its expectation is not known.

        It is known of evidence release by release for an intruder who knows every other record,
        under models that can make any release from any guess: not of trees, which show what they
        hold. Records that were not replaced, and targets whose truth is not among the guesses, are
        left out.
        """
        known = self.cases.known is None and self.any_release and self.release.groups is None
        if not METHODS[self.way].balanced or not known:
            return None
        guesses, U = self.cases.guesses, len(self.cases)
        own = guesses.codes[guesses.truth, np.arange(U)]
        there = (own == self.cases.profiles[:, self.cases.columns]).all(axis=1) & ~self.disclosed
        pairs = guesses.counted & there
        pairs[guesses.truth, np.arange(U)] = False
        records = np.bincount(self.case, minlength=U)
        found = self.found
        return balancing.balance(found.log_evidence, found.deviations, pairs, records)

    def risks(self, given: Mapping[str, priors.Prior]) -> dict[str, AttributeRisk]:
        """The posterior under each of several priors, by name; see `risk`.

        What the priors have in common is computed once. Nothing is warned of: see the
        ``unreliable`` row of each summary.
        """
        if not isinstance(given, Mapping) or not given:
            raise InputError('give priors by name: {"uniform": "uniform", "margins": "marginal"}')
        mcse = self.found.mcse()
        return {name: self._risk(prior, mcse) for name, prior in given.items()}

    def compare(self, given: Mapping[str, priors.Prior]) -> pd.DataFrame:
        """Compare priors: one row a prior: measures of `AttributeRisk.summary`, and the gain."""
        rows = {name: measures_of(risk) for name, risk in self.risks(given).items()}
        return pd.DataFrame.from_dict(rows, orient="index")

    def first(self, m: int) -> "AttributeEvidence":
        """The same of the first m releases alone, from the same fits."""
        among = len(self.found.log_evidence)
        if not self.by_release:
            raise InputError(
                f"evidence {self.way!r} of these guesses does not come release by release; gather "
                "it anew for the first releases"
            )
        if not 1 <= m <= among:
            raise InputError("m", m, f"is out of range; give 1 to {among} releases")
        assert self.encoded is not None and self.exposure is not None
        encoded = self.encoded.first(m)
        text = self.words["releases"].replace(f"m = {among}", f"m = {m}", 1)
        return replace(
            self,
            found=self.found.first(m),
            release=encoded.source,
            encoded=encoded,
            words={**self.words, "releases": f"{text}; the first of {among}"},
            exposure=self.exposure.first(m),
        )

    @property
    def by_release(self) -> bool:
        """Whether the evidence of the first releases can be read off that of all."""
        together = len(self.release.by_draw) < self.release.m
        return METHODS[self.way].by_release and self.searched is None and not together

    def _risk(self, prior: priors.Prior, mcse: Array) -> AttributeRisk:
        if self.searched is not None and not priors.same_prior(prior, self.searched):
            raise InputError(
                "these guesses were searched coarse to fine, guided by "
                f"{priors.prior_in_words(self.searched)}; other priors may lead elsewhere: gather "
                "the evidence anew (`search_prior`), or give a larger `budget`"
            )
        context = PriorContext(self.microdata, self.cases, self.encoded, self.base)
        if self.way == JOINED:  # each of its releases would be another prior
            context = context._replace(release=None)
        return self._under(prior, prior_weights(prior, context), mcse)

    def _under(self, prior: priors.Prior, weights: PriorWeights, mcse: Array) -> AttributeRisk:
        """The posterior under a prior, whose weights are computed."""
        found, guesses = self.found, self.cases.guesses
        how = weights, guesses.truth, self.log_rest, self.disclosed
        posterior = weigh(found, *how)
        apart = [weigh(one, *how) for one in found.apart]
        trusted = reliable(found, posterior, self.limits, apart)
        factors: Any = self.factors
        if not isinstance(factors, str):  # the evidence by column, or why it is not there
            log_p = found.log_evidence[None] if len(factors) == 1 else found.by_column
            names = [str(c) for c in self.release.synthesized]
            factors = FIRST if log_p is None else Factors(factors, log_p, names)
        kept: Any = {name: getattr(self, name) for name in OF_EVIDENCE}
        kept |= {name: getattr(found, name) for name in OF_FOUND}
        kept |= {name: getattr(posterior, name) for name in OF_POSTERIOR}
        return AttributeRisk(
            variables=tuple(self.microdata.variables[j] for j in self.cases.columns),
            guesses=guesses.codes,
            truth=guesses.truth,
            log_prior=weights.log_p,
            log_probability=posterior.log_p,
            mcse_log_evidence=mcse,
            mcse_log_bayes_factor=error_over_modes([posterior, *apart]),
            factors=factors,
            reliable=trusted | self.disclosed,
            assumptions=self._assumptions(prior, weights.log_p),
            assumed=self.release.assumed,
            interval=interval([posterior, *apart]),
            by_mode=np.exp([one.log_truth for one in apart]) if apart else None,
            microdata=self.microdata,
            **kept,
        )

    def __repr__(self) -> str:
        _, G, U = self.found.log_evidence.shape
        return (
            f"AttributeEvidence: {len(self.index):,} records ({U:,} distinct), {G:,} guesses each, "
            f"{self.release.m} releases; {self.way}. Give it a prior: .risk(prior)"
        )

    def _assumptions(self, prior: priors.Prior, log_prior: Array) -> dict[str, str]:
        """All assumptions, in the order of reports."""
        order = ("records", "columns", "synthesis", "prior", "guesses", "evidence", "releases")
        own = at_truth(log_prior, self.cases.guesses.truth)
        excluded = int(np.isneginf(own)[self.case].sum())
        zero = f" (no mass on the truth of {excluded:,} records)" if excluded else ""
        every: dict[str, Any] = {**self.words, "prior": f"{priors.prior_in_words(prior)}{zero}"}
        if self.found.learnt is not None:
            every["evidence"] = f"{every['evidence']}; {self.found.learnt.sentence()}"
        if self.found.modes is not None:
            every["evidence"] = f"{every['evidence']}; {self.found.modes.sentence()}"
            every["synthesis"] += "; the mode of its chain, which the release shows, is known"
        return {name: every[name] for name in order}


@shows_progress
def attribute_risk(
    fit: Fit,
    release: Release,
    *,
    intruder: Intruder | None = None,
    guesses: Guesses | Grid | str | Mapping[str, Grid | Levels | str] | None = None,
    prior: priors.Prior | None = None,
    targets: Any = None,
    evidence: str | None = None,
    target_mcse: float | None = None,
    max_doublings: int = 4,
    refit_budget: int = 10,
    before: bool = False,
    by: By = (),
    random_seed: int | np.random.Generator | None = None,
    n_jobs: int = 1,
    progress: ProgressOption = None,
) -> AttributeRisk:
    """Posterior probability that the intruder gives to the confidential values of each target.

    ``Pr(Y_i = y* | Z, A, S)`` is proportional to ``prior(y*) prod_l p(Z^(l) | y*, A, S)`` (Hu 2019,
    section 3.2), by default with ``A = y_-i``: the intruder knows every record but the target's.

    Parameters
    ----------
    fit : Fit
        The synthesis model fitted to the confidential table.
    release : Release
        The m synthetic data sets.
    intruder : Intruder, optional
        What the intruder knows; the worst case by default.
    guesses : Neighbourhood, Listed, Grid, "predictive", or mapping of column, optional
        The values y* considered; by default all that differ from the truth in one variable, or,
        where numbers are guessed, every combination of these at quantiles of what the model expects
        (``"predictive"``) and all levels. A mapping gives every combination of what it lists.
    prior : str, TruthFactor, Density, Interval, MixedPrior, array of G weights, function, or None
        What the intruder believes beforehand: ``"uniform"``, ``"marginal"``, ``"predictive"``,
        ``"release"``, ``"release-joint"``, or any of the others; see `prior_weights`. By
        default two: flat (``"uniform"``), and ``"predictive"`` under ``risk.priors``, which is the
        coherent belief of an intruder who knows every other record. Where a model does not offer
        the second, the assumptions state why.
    targets : None, "all", int, list of labels, or mask
        Records to audit. None, "all": every record whose values were replaced. An integer: that
        many, drawn at random. A list or mask: these. For an `Intruder` with ``largest``, None is
        the record with the largest value.
    evidence : str, optional
        How ``p(Z^(l) | y*, y_-i)`` is computed: ``"exact"``, in closed form; ``"predictive"``, by
        leave-one-out predictives of m + 1 fits; ``"monte-carlo"``, in closed form except for
        simulated parts; ``"simulated"``, learnt from runs of a generator; ``"refit"``, by m + 1 new
        fits for every target; ``"importance"``, by the published sampler. The default is the first
        of these that the fit offers; ``"importance"`` is used only on request. For an intruder who
        knows only some other records, and several releases: ``"imputed"``, a sampler over unknown
        records, or ``"independent-releases"``, which treats the releases as if they shared no
        unknown records and overstates the risk. For a business competitor leave it out.
    target_mcse : float, optional
        Sampling continues until the Monte Carlo error of the log evidence is below this for 95 %
        of (record, guess) pairs, or until ``max_doublings`` is reached.
    max_doublings : int
        How often, at most, sampling is doubled to reach ``target_mcse``: chains become twice as
        long, or twice as many if they start from the release.
    refit_budget : int
        Number of distinct cases, at most, that are fitted again without the target because their
        k-hat is above the threshold.
    before : bool
        Also state the model's probability of the truth before anything was published. An intruder
        who does not know all other records still knows the values that the release leaves
        unchanged, and the predictive prior contains these. Costs one more fit.
    by : list of str, or mapping of column to list of numbers
        Columns of the model by which risk is stated group by group, in ``risk.groups``: see
        `AttributeRisk.by_group`.
    random_seed : int, Generator or None
        Same seed, same bytes, for any ``n_jobs``.
    n_jobs : int
        Workers: threads, unless joblib's ``parallel_config`` states otherwise.
    progress : callable or bool, optional
        Called as ``progress(stage, done, total)``.
        By default a bar in terminals and notebooks; False: none.

    Raises
    ------
    InputError
        A release of other records or levels; unknown targets, columns, priors or evidence.

    Warns
    -----
    UnreliableWeightsWarning
        Some records are marked unreliable.

    Notes
    -----
    Cost of ``"predictive"``, distinct profiles once: m augmented fits, then H x U x (sum of levels
    + G) x K multiplications per fit. Error: between batches of chains; that of the base fit counts
    m times, so it is run about m times as long. Records are marked unreliable by k-hat
    (`khat_threshold`), a standard error of the probability above 0.05 or of its log odds above 1,
    chains that disagree, modes left open that differ by more than 0.05, or a search of a joint grid
    that left out more than 2 %. Where errors are between few chains (started from the release, or
    imputing), log odds above 1 and chains that disagree count only if the interval of the
    probability is wider than 0.05. If ``target_mcse`` is not reached, it replaces 1 as the limit of
    the error of the log odds.
    """
    search_prior = "uniform" if prior is None else prior
    question = search_prior, intruder, guesses, targets, evidence
    budget = Budget(target_mcse, max_doublings, refit_budget)
    how = EvidenceOptions(*question, *budget, before, random_seed, n_jobs, progress)
    if len(by):  # refused before anything is drawn
        groups_of(by, fit.microdata.decode(fit.microdata.codes))
    risk: AttributeRisk = with_groups(gathered(fit, release, how).risk(prior), by)
    return risk


@shows_progress
def attribute_evidence(
    fit: Fit,
    release: Release,
    *,
    intruder: Intruder | None = None,
    guesses: Guesses | Grid | str | Mapping[str, Grid | Levels | str] | None = None,
    search_prior: priors.Prior = "uniform",
    targets: Any = None,
    evidence: str | None = None,
    target_mcse: float | None = None,
    max_doublings: int = 4,
    refit_budget: int = 10,
    before: bool = False,
    random_seed: int | np.random.Generator | None = None,
    n_jobs: int = 1,
    progress: ProgressOption = None,
) -> AttributeEvidence:
    """Gather the evidence of an audit, to be kept: each prior after that costs Bayes' rule alone.

    ``attribute_risk(..., prior=p)`` is ``attribute_evidence(..., search_prior=p).risk(p)``, for
    ``.risk(prior)``, or ``.risks({"name": prior, ...})``; other arguments are those of
    `attribute_risk`, and cost the same.

    Parameters
    ----------
    fit, release, intruder, guesses
        As in `attribute_risk`.
    search_prior : as ``prior`` in `attribute_risk`
        Guides the search of a joint grid that is too large to be listed; no other prior can be used
        on its guesses. Without such a grid it is not looked at.
    targets, evidence, target_mcse, max_doublings, refit_budget, before
        As in `attribute_risk`.
    random_seed, n_jobs, progress
        As in `attribute_risk`.
    """
    question = search_prior, intruder, guesses, targets, evidence
    budget = Budget(target_mcse, max_doublings, refit_budget)
    how = EvidenceOptions(*question, *budget, before, random_seed, n_jobs, progress)
    return gathered(fit, release, how)


class EvidenceOptions(NamedTuple):
    """Arguments of `attribute_evidence`."""

    search_prior: priors.Prior = "uniform"
    intruder: Intruder | None = None
    guesses: Any = None
    targets: Any = None
    evidence: str | None = None
    target_mcse: float | None = None
    max_doublings: int = 4
    refit_budget: int = 10
    before: bool = False
    random_seed: int | np.random.Generator | None = None
    n_jobs: int = 1
    progress: Progress | None = None


def gathered(
    fit: Fit,
    release: Release,
    how: EvidenceOptions,
    *,
    memory: Memory | None = None,
    under: Under | None = None,
) -> AttributeEvidence:
    """`attribute_evidence`; of a sweep, by what its audits share, and draws to re-weight."""
    whole_number("refit_budget", how.refit_budget)
    whole_number("max_doublings", how.max_doublings)
    if how.target_mcse is not None:
        positive("target_mcse", how.target_mcse)
    rng = np.random.default_rng(how.random_seed)
    choose, sampling, knowing, checking = rng.spawn(4)
    problem = AuditProblem.prepare(
        fit, release, how.intruder, how.guesses, how.targets, choose=choose, knowing=knowing
    )
    # re-weighted draws offer no other method
    method = choose_method(problem, how.evidence if under is None else "predictive")
    names = [fit.microdata.columns[j] for j in problem.cases.columns]
    words = {
        "records": problem.knowledge(),
        "columns": f"guessed: {', '.join(map(str, names))}",
        "synthesis": fit.mechanism(problem.release),
        "guesses": guesses_in_words(problem.guesses, names),
        "evidence": method.described(problem),
        "releases": drawn_in_words(fit, problem.release),
    }
    has_base = method.has_base(problem)
    if how.before and not has_base:
        raise InputError(
            "`before=True` needs the model's predictive distribution, and "
            f"evidence {method.name!r} has none; leave before out"
        )
    # a prior that does not suit is refused here
    has_predictive = has_base or "log-prior" in problem.capabilities
    cases, encoded, searched = problem.cases, problem.release, None
    laid = cases.guesses.refine is None
    if not laid and (not has_predictive or method.name == "imputed"):
        raise InputError(
            'guesses of numbers at quantiles of what the model expects ("predictive", the default) '
            f"are not offered with evidence {method.name!r}; give each number a grid, such as "
            "`Grid(percent=10, n=11)`"
        )
    base = np.zeros(cases.guesses.codes.shape[:2]) if has_predictive else None
    context = PriorContext(fit.microdata, cases, encoded, base)
    if laid:
        prior_weights(how.search_prior, context)
    begin_work(problem=problem, method=method, refits=how.refit_budget)
    runner = EvidenceRunner(
        problem, method.offer, sampling, how.n_jobs, how.progress, memory=memory, under=under
    )
    budget = Budget(how.target_mcse, how.max_doublings, how.refit_budget)
    if not laid:
        cases = placed_guesses(runner, cases)
        base = np.zeros(cases.guesses.codes.shape[:2])
        context = context._replace(cases=cases, base=base)
        prior_weights(how.search_prior, context)
    log_rest = np.full(len(cases), -np.inf)
    if (finer := cases.guesses.finer) is not None:  # coarse ones, where the posterior is
        searched = how.search_prior

        def believed(of: Targets) -> tuple[Array, Array]:
            rough = method.run(runner, of, budget._replace(refit_budget=0))
            prior = context._replace(cases=of, base=runner.base(of, rough))
            return prior_weights(searched, prior).log_p, rough.log_evidence.sum(axis=0)

        guesses, rest = finer(np.add(*believed(cases)))
        log_rest = rest.log_at_most(*believed(replace(cases, guesses=rest.guesses)))
        cases = replace(cases, guesses=guesses)
    if "point-masses" not in problem.capabilities:  # the model has densities alone
        cases = replace(cases, guesses=replace(cases.guesses, masses={}))
    found = method.run(runner, cases, budget)
    unchanged = ~encoded.replaced[cases.record]
    check: Any = partial(checked, fit, encoded, problem.capabilities, checking)
    if memory is not None:  # settings of a sweep share it
        key = ("check", encoded.parameters, *key_of(encoded), *seed_of(checking))
        check = Stage("", check, key=key, memory=memory)
    predicted, target = runner.base(cases, found), how.target_mcse
    limit = MAX_MCSE_LOG_ODDS if target is None or found.within(target) else target
    numbers = [fit.microdata.variables[j] for j in cases.columns]
    return AttributeEvidence(
        microdata=fit.microdata,
        release=release,
        encoded=encoded,
        index=fit.microdata.index[problem.rows],
        case=problem.case,
        cases=cases,
        found=certain(found, unchanged, cases.guesses.truth),
        disclosed=unchanged,
        base=predicted,
        grid=None if predicted is None else grid_check(predicted, cases.guesses, numbers),
        log_rest=log_rest,
        searched=searched,
        limits=Limits(
            log_odds=limit,
            khat=runner.threshold,
            ess=method.min_ess,
        ),
        way=method.name,
        words=words,
        any_release="predictive" in problem.capabilities,
        factors=factors_of(runner.can, method.name, problem.release, cases),
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
        exposure=exposure_of_tables(Tables.of_encoded(encoded)),
        check=check(),
        before=before_release(runner.before(cases, found), cases.guesses, found.few_chains)
        if how.before
        else None,
        sample=problem.sample(how.targets),
    )


def placed_guesses(runner: EvidenceRunner, cases: Targets) -> Targets:
    """The targets with guesses of numbers at quantiles of what the model expects of each."""
    data = runner.release.microdata
    while (refine := cases.guesses.refine) is not None:
        log_density = stage("guesses", partial(runner.expected, cases))
        of = cases.profiles, cases.columns, cases.record
        guesses = possible(refine(log_density), data, *of)
        cases = replace(cases, guesses=guesses)
    return cases
