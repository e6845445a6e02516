"""Attribute risk: what the intruder's posterior says of the confidential values of each target."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import at_least, positive
from bayes_risk.evidence import prior_weights
from bayes_risk.evidence.by_column import factors_of
from bayes_risk.evidence.contract import Fit, Progress, Targets, Under, drawn_in_words
from bayes_risk.evidence.mechanism_check import checked
from bayes_risk.evidence.mechanism_result import MechanismCheck
from bayes_risk.evidence.methods import EvidenceMethod, choose_method, in_words, predictive_alone
from bayes_risk.evidence.problem import AuditProblem
from bayes_risk.evidence.runner import Budget, EvidenceRunner, Memory, key_of, seed_of
from bayes_risk.intruder import priors
from bayes_risk.intruder.grids import Grid, JointGrid, Levels
from bayes_risk.intruder.guesses import Guesses
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.matching.exposure import exposure
from bayes_risk.release.release import Release

from .kept_evidence import AttributeEvidence
from .posterior import Limits, certain
from .result import AttributeRisk

MAX_MCSE_LOG_ODDS = 1.0


def attribute_risk(
    fit: Fit,
    release: Release,
    *,
    intruder: Intruder | None = None,
    guesses: Guesses | Grid | Mapping[str, Grid | Levels] | None = None,
    prior: priors.Prior | None = None,
    targets: Any = None,
    evidence: str | None = None,
    target_mcse: float | None = None,
    max_doublings: int = 4,
    refit_budget: int = 10,
    before: bool = False,
    random_seed: int | np.random.Generator | None = None,
    n_jobs: int = 1,
    progress: Progress | None = None,
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
    guesses : Neighbourhood, Hamming, Listed, Grid, or mapping of column to Grid or Levels, optional
        The values y* considered; by default all that differ from the truth in one variable. Numbers
        need a `Grid`; a mapping gives every combination of what it lists.
    prior : str, TruthFactor, Density, Interval, Mixture, array of G weights, function, or None
        What the intruder believes beforehand: ``"uniform"``, ``"marginal"``, ``"predictive"``,
        ``"release"``, ``"release-joint"``, or any of the others; see `prior_weights.log_prior`. By
        default two: flat (``"uniform"``), and beside it, under ``risk.priors``, ``"predictive"``,
        which is what an intruder who knows every other record would coherently believe; flat alone
        where the evidence has no base fit (the assumptions say so).
    targets : None, int, list of labels, or mask
        Records to audit: all whose values were replaced (None), that many drawn at random, or
        named. Of an `Intruder` with ``largest``, the record that holds the largest value (None).
    evidence : str, optional
        ``"exact"``, ``"predictive"``, ``"imputed"``, ``"independent-releases"``,
        ``"monte-carlo"``, ``"refit"`` or ``"importance"``.
        How ``p(Z^(l) | y*, y_-i)`` is computed: in closed form; by leave-one-out predictives of
        m + 1 fits; in closed form but for what is simulated (kernels in the leaves of trees); by
        m + 1 fits anew for every target; by the published importance sampler over the fit's own
        draws. By default the first of these that the fit offers, ``"importance"`` only if asked
        for. For an intruder who knows only some of the other records and several releases: with the
        unknown records imputed in the sampler (``"imputed"``), or release by release as if the
        releases did not share them (``"independent-releases"``, which overrates what is learnt).
        For a business competitor the model computes it: leave it out.
    target_mcse : float, optional
        Go on sampling until the Monte Carlo error of the log evidence is below this for 95 % of
        (record, guess) pairs, or ``max_doublings`` is spent.
    max_doublings : int
        How often, at most, sampling is doubled to reach ``target_mcse``: chains twice as long, or
        twice as many where the release leads them.
    refit_budget : int
        At most so many distinct cases with k-hat above threshold are fitted again without the
        target.
    before : bool
        Also say what the model's predictive gave the truth before anything was published: columns
        and records that the release leaves as they are belong to the knowledge of who does not know
        all other records, so that the predictive prior has them already. Costs one more fit.
    random_seed : int, Generator or None
        Same seed, same bytes, for any ``n_jobs``.
    n_jobs : int
        Workers: threads, unless joblib's ``parallel_config`` says something else.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    AttributeRisk
        Per record: prior and posterior probability of the truth, rank, log Bayes factor, Monte
        Carlo error, k-hat, ESS; which column gives most away (``by_column``), where the model draws
        columns one after another.

    Raises
    ------
    InputError
        A release of other records or levels; unknown targets, columns, priors or evidence.

    Warns
    -----
    UnreliableWeightsWarning
        Some records are marked unreliable; the message says how many and what to do.

    Notes
    -----
    Distinct profiles are computed once. Cost of ``"predictive"``: m augmented fits, then
    H x U x (sum of levels + G) x K multiplications per fit, in blocks of U. Error: between batches
    of chains; that of the base fit counts m times, so it is run about m times as long. A record is
    marked unreliable if its k-hat is above `khat_threshold`, if the standard error of its
    probability exceeds 0.05, if that of its log odds exceeds 1 (or ``target_mcse``, if given), if
    chains disagree about it, if modes that the release leaves open differ by more than 0.05, or
    if a search of a large joint grid left out more than 2 % of the posterior.
    """
    how = locals() | {"search_prior": "uniform" if prior is None else prior}
    del how["prior"]
    return attribute_evidence(**how).risk(prior)  # all other arguments as they came


def attribute_evidence(
    fit: Fit,
    release: Release,
    *,
    intruder: Intruder | None = None,
    guesses: Guesses | Grid | Mapping[str, Grid | Levels] | None = None,
    search_prior: priors.Prior = "uniform",
    targets: Any = None,
    evidence: str | None = None,
    target_mcse: float | None = None,
    max_doublings: int = 4,
    refit_budget: int = 10,
    before: bool = False,
    random_seed: int | np.random.Generator | None = None,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> AttributeEvidence:
    """Gather the evidence of an audit, to be kept: each prior after that costs Bayes' rule alone.

    ``attribute_risk(..., prior=p)`` is ``attribute_evidence(..., search_prior=p).risk(p)``.

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

    Returns
    -------
    AttributeEvidence
        ``.risk(prior)``, or ``.risks({"name": prior, ...})``.

    Notes
    -----
    Cost: that of `attribute_risk`.
    """
    return gather(**locals())  # all arguments as they came


def gather(
    fit: Fit,
    release: Release,
    *,
    intruder: Intruder | None = None,
    guesses: Any = None,
    search_prior: priors.Prior = "uniform",
    targets: Any = None,
    evidence: str | None = None,
    target_mcse: float | None = None,
    max_doublings: int = 4,
    refit_budget: int = 10,
    before: bool = False,
    random_seed: int | np.random.Generator | None = None,
    n_jobs: int = 1,
    progress: Progress | None = None,
    memory: Memory | None = None,
    under: Under | None = None,
) -> AttributeEvidence:
    """`attribute_evidence`; audits of a sweep share a memory, and may re-weight the draws."""
    at_least("refit_budget", refit_budget, 0)
    at_least("max_doublings", max_doublings, 0)
    if target_mcse is not None:
        positive("target_mcse", target_mcse)
    rng = np.random.default_rng(random_seed)
    choose, sampling, knowing, checking = rng.spawn(4)
    problem = AuditProblem.prepare(
        fit, release, intruder, guesses, targets, choose=choose, knowing=knowing
    )
    if under is not None:
        problem = replace(problem, capabilities=predictive_alone(problem.capabilities))
    method = choose_method(problem, evidence)
    runner = EvidenceRunner(problem, sampling, n_jobs, progress, memory=memory, under=under)
    budget = Budget(target_mcse, max_doublings, refit_budget)
    searched = search_prior if problem.cases.guesses.finer is not None else None
    cases, log_rest = _narrowed(runner, method, budget, search_prior)
    found = method.run(runner, cases, budget)
    if before and found.base is None:
        raise InputError(
            "what was known before anything was published is asked of the model's predictive, and "
            f"evidence {method.name!r} has none; leave before= out"
        )
    unchanged = ~problem.release.replaced[cases.record]
    return AttributeEvidence(
        microdata=fit.microdata,
        release=release,
        encoded=problem.release,
        index=fit.microdata.index[problem.rows],
        case=problem.case,
        cases=cases,
        found=certain(found, unchanged, cases.guesses.truth),
        disclosed=unchanged,
        log_rest=log_rest,
        searched=searched,
        limits=Limits(
            log_odds=MAX_MCSE_LOG_ODDS if target_mcse is None else target_mcse,
            khat=runner.threshold,
            ess=method.min_ess,
        ),
        way=method.name,
        words=_in_words(problem, method, cases),
        any_release="predictive" in problem.capabilities.methods,
        factors=factors_of(runner.can, method.name, problem.release, cases),
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
        exposure=exposure(fit.microdata, release),
        check=_checked(problem, checking, memory),
        before=runner.before(cases, found) if before else None,
    )


def _checked(
    problem: AuditProblem, rng: np.random.Generator, memory: Memory | None
) -> MechanismCheck | None:
    """The check of files made elsewhere; settings of a sweep share it."""
    release = problem.release
    make = partial(checked, problem.fit, release, problem.capabilities, rng)
    if memory is None:
        return make()
    return memory(("check", release.parameters, *key_of(release), *seed_of(rng)), make)


def _narrowed(
    runner: EvidenceRunner, method: EvidenceMethod, budget: Budget, prior: priors.Prior
) -> tuple[Targets, Array]:
    """Coarse guesses replaced by fine ones where the posterior is, and what that leaves out."""
    cases, release = runner.problem.cases, runner.release
    finer = cases.guesses.finer
    if finer is None:
        return cases, np.full(len(cases), -np.inf)
    found = method.run(runner, cases, budget._replace(refit_budget=0))
    log_prior = prior_weights.log_prior(prior, release.microdata, cases, release, found.base)
    guesses, log_rest = finer(log_prior + found.log_evidence.sum(axis=0))
    return cases.with_guesses(guesses), log_rest


def _in_words(problem: AuditProblem, method: EvidenceMethod, cases: Targets) -> dict[str, str]:
    fit, release = problem.fit, problem.release
    names = [fit.microdata.columns[j] for j in cases.columns]
    return {
        "records": problem.knowledge(),
        "columns": f"guessed: {', '.join(map(str, names))}",
        "synthesis": fit.mechanism(release),
        "guesses": _guesses_in_words(problem.guesses, names),
        "evidence": in_words(method, problem, cases),
        "releases": drawn_in_words(fit, release),
    }


def _guesses_in_words(guesses: Guesses, names: Sequence[Hashable]) -> str:
    """What is guessed of every column: of those that a joint grid leaves out, all levels."""
    said = guesses.in_words()
    others = [str(n) for n in names if isinstance(guesses, JointGrid) and n not in guesses.grids]
    return f"{said}; {', '.join(others)}: every level" if others else said
