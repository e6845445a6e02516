"""Attribute risk: what the intruder's posterior says of the confidential values of each target."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bayes_risk import priors
from bayes_risk._core.errors import InputError, UnreliableWeightsWarning
from bayes_risk._core.validate import at_least, one_of, positive
from bayes_risk.bayes_rule import MAX_LEFT_OUT, Limits, certain, reliable, weigh
from bayes_risk.cases import cases_of, guessed_numbers, rows_of
from bayes_risk.evidence import Evidence, known_evidence
from bayes_risk.grids import Grid, Levels, as_guesses
from bayes_risk.guesses import Guesses, Neighbourhood
from bayes_risk.intruder import Intruder
from bayes_risk.plan import Effort, Plan
from bayes_risk.release import Release
from bayes_risk.results import AttributeRisk
from bayes_risk.synthesizer import Fit, Progress, Targets, WeakerFit

Array = npt.NDArray[np.float64]
MAX_MCSE_LOG_ODDS = 1.0
MIN_ESS = {"reuse": 100.0, "simulated": 10.0, "weaker": 10.0}
EVIDENCE = ("exact", "predictive", "simulated", "refit", "reuse")


def attribute_risk(
    fit: Fit,
    release: Release,
    *,
    intruder: Intruder | None = None,
    guesses: Guesses | Grid | Mapping[str, Grid | Levels] | None = None,
    prior: priors.Prior = "uniform",
    targets: Any = None,
    evidence: str | None = None,
    target_mcse: float | None = None,
    max_doublings: int = 4,
    refit_budget: int = 10,
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
    prior : {"uniform", "marginal"}, TruthFactor, Density, array of G weights, or function
        What the intruder believes beforehand; see `bayes_risk.priors.log_prior`.
    targets : None, int, list of labels, or mask
        Records to audit: all whose values were replaced (None), that many drawn at random, or
        named. Of an `Intruder` with ``largest``, the record that holds the largest value (None).
    evidence : {"exact", "predictive", "simulated", "refit", "reuse"}, optional
        How ``p(Z^(l) | y*, y_-i)`` is computed: in closed form; by leave-one-out predictives of
        m + 1 fits; in closed form but for what is simulated (kernels in the leaves of trees); by
        m + 1 fits anew for every target; by the published importance sampler over the fit's own
        draws. By default the first of these that the fit offers, `reuse` only if asked for. For an
        intruder who does not know all other records the model computes it: leave it out.
    target_mcse : float, optional
        Go on sampling until the Monte Carlo error of the log evidence is below this for 95 % of
        (record, guess) pairs, or ``max_doublings`` is spent.
    max_doublings : int
        How often, at most, sampling is doubled to reach ``target_mcse``.
    refit_budget : int
        At most so many distinct cases with k-hat above threshold are fitted again without the
        target.
    random_seed : int, Generator or None
        Same seed, same bytes, for any ``n_jobs``.
    n_jobs : int
        Threads.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    AttributeRisk
        Per record: prior and posterior probability of the truth, rank, log Bayes factor, Monte
        Carlo error, k-hat, ESS.

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
    probability exceeds 0.05, if that of its log odds exceeds 1 (or ``target_mcse``, if given), or
    if a search of a large joint grid left out more than 2 % of the posterior.
    """
    intruder = Intruder() if intruder is None else intruder
    weighed = as_guesses(
        Neighbourhood(1) if guesses is None else guesses, guessed_numbers(fit, release, intruder)
    )
    evidence = _chosen(evidence, fit, release, intruder)
    at_least("refit_budget", refit_budget, 0)
    at_least("max_doublings", max_doublings, 0)
    if target_mcse is not None:
        positive("target_mcse", target_mcse)
    rng = np.random.default_rng(random_seed)
    choose, sampling = rng.spawn(2)
    rows = rows_of(targets, release, fit, intruder, choose)
    cases, case = cases_of(fit, release, intruder, weighed, rows)
    plan = Plan(fit, release, sampling, n_jobs, progress)
    effort = Effort(evidence, target_mcse, max_doublings, refit_budget)
    cases, log_rest = _narrowed(cases, plan, effort, prior, intruder)
    log_prior = priors.log_prior(prior, fit.microdata, cases)
    unchanged = ~release.replaced(len(fit.microdata.codes))[cases.record]
    found = certain(_found(cases, plan, effort, intruder), unchanged, cases.guesses.truth)
    posterior = weigh(found, log_prior, cases.guesses.truth, log_rest)
    limits = Limits(
        log_odds=MAX_MCSE_LOG_ODDS if target_mcse is None else target_mcse,
        khat=plan.threshold,
        ess=MIN_ESS.get(evidence, 0.0),
    )
    risk = AttributeRisk(
        index=fit.microdata.index[rows],
        case=case,
        variables=tuple(fit.microdata.variables[j] for j in cases.columns),
        guesses=cases.guesses.codes,
        truth=cases.guesses.truth,
        log_evidence=found.log_evidence,
        log_prior=log_prior,
        log_probability=posterior.log_p,
        mcse_log_evidence=found.mcse(),
        deviations=posterior.deviations,
        mcse=posterior.mcse,
        khat=found.khat,
        ess=found.ess,
        reliable=reliable(found, posterior, limits) | unchanged,
        disclosed=unchanged,
        left_out=posterior.left_out,
        assumptions=_in_words(intruder, weighed, prior, evidence, release, fit, cases),
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
    )
    _warn(risk, evidence)
    return risk


def _found(cases: Targets, plan: Plan, effort: Effort, intruder: Intruder) -> Evidence:
    """Evidence by the plan, or by the model itself where records besides the target's are unknown.

    The generator is the plan's, spawned anew for each call.
    """
    if not intruder.knows_less:
        return plan.run(cases, effort)
    (rng,), fit = plan.rng.spawn(1), cast(WeakerFit, plan.fit)
    found = fit.weaker(intruder, plan.release, cases, rng=rng, progress=plan.progress)
    return known_evidence(found, cases)


def _narrowed(
    cases: Targets, plan: Plan, effort: Effort, prior: priors.Prior, intruder: Intruder
) -> tuple[Targets, Array]:
    """Coarse guesses replaced by fine ones where the posterior is, and what that leaves out."""
    finer = cases.guesses.finer
    if finer is None:
        return cases, np.full(len(cases), -np.inf)
    found = _found(cases, plan, replace(effort, refit_budget=0), intruder)
    log_prior = priors.log_prior(prior, plan.fit.microdata, cases)
    guesses, log_rest = finer(log_prior + found.log_evidence.sum(axis=0))
    return cases.with_guesses(guesses), log_rest


def _chosen(evidence: str | None, fit: Fit, release: Release, intruder: Intruder) -> str:
    """The evidence asked for, if it is offered; else the first that needs no asking."""
    if intruder.knows_less:
        return _by_model(evidence, fit, intruder)
    offers = fit.offers(release)
    if evidence is None:
        usual = [way for way in EVIDENCE[:-1] if way in offers]
        if usual:
            return usual[0]
        raise InputError(
            f"{type(fit).__name__} offers {sorted(offers) or 'no evidence'} for this release; "
            'if it is to be "reuse", ask for it: evidence="reuse"'
        )
    if one_of("evidence", evidence, EVIDENCE) not in offers:
        raise InputError(
            f"evidence={evidence!r} is not offered by {type(fit).__name__}; it offers "
            f"{sorted(offers) or 'none for a release of this kind'}"
        )
    return evidence


def _by_model(evidence: str | None, fit: Fit, intruder: Intruder) -> str:
    """Evidence for an intruder who does not know all other records."""
    if not hasattr(fit, "weaker"):
        raise InputError(
            f"knows_records={intruder.knows_records!r} is not offered by {type(fit).__name__}; it "
            'is by models.PoissonMixture; give knows_records="all-but-target"'
        )
    if evidence is not None:
        raise InputError(
            f"evidence={evidence!r} is for an intruder who knows every other record; with "
            f"knows_records={intruder.knows_records!r} leave it out: the model computes it"
        )
    return "weaker"


def _in_words(
    intruder: Intruder,
    guesses: Guesses,
    prior: priors.Prior,
    evidence: str,
    release: Release,
    fit: Fit,
    cases: Targets,
) -> dict[str, str]:
    ways = {
        "predictive": "predictive: leave-one-out predictives before and after seeing the release",
        "reuse": "reuse: the published importance sampler over draws given the confidential table",
        "refit": "refit: models fitted anew, without the target or for each of its guesses",
        "exact": "exact: in closed form",
        "simulated": "simulated: in closed form but for the bootstrap within leaves, which is "
        "integrated by simulation",
    }
    if intruder.knows_less:
        ways["weaker"] = cast(WeakerFit, fit).weaker_in_words(intruder, release, cases)
    names = release.synthesized if intruder.largest is None else [intruder.largest]
    return {
        "records": intruder.in_words(),
        "columns": f"guessed: {', '.join(map(str, names))}",
        "synthesis": fit.mechanism(release),
        "prior": priors.in_words(prior),
        "guesses": guesses.in_words(),
        "evidence": ways[evidence],
        "releases": f"m = {release.m}",
    }


def _warn(risk: AttributeRisk, evidence: str) -> None:
    doubtful = int((~risk.reliable[risk.case]).sum())
    if not doubtful:
        return
    cure = {
        "reuse": 'use evidence="predictive"',
        "predictive": "give a larger refit_budget, a target_mcse, or a fit with more draws",
        "refit": "give a target_mcse or a fit with more draws",
        "weaker": "give a fit with more draws, or more classes where all are occupied",
        "exact": "look at the worst records",
        "simulated": "look at the worst records: the leaves they stand in show many values",
    }[evidence]
    if (risk.left_out > MAX_LEFT_OUT).any():
        cure += "; where the search of a joint grid left much out, raise JointGrid's budget"
    warnings.warn(
        f"{doubtful} of {len(risk.case)} records are unreliable (largest k-hat "
        f"{risk.khat.max():.2f}, smallest effective number of draws {risk.ess.min():.0f}); {cure}",
        UnreliableWeightsWarning,
        stacklevel=3,
    )
