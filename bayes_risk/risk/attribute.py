"""Attribute risk: what the intruder's posterior says of the confidential values of each target."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bayes_risk._core.checkpoint import stage
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import at_least, one_of, positive
from bayes_risk.evidence import prior_weights
from bayes_risk.evidence.by_column import factors_of
from bayes_risk.evidence.contract import Fit, PartFit, Progress, Targets, WeakerFit, WordedPartFit
from bayes_risk.evidence.evidence import Evidence, known_evidence
from bayes_risk.evidence.mechanism_check import checked
from bayes_risk.evidence.problem import cases_of, guessed_numbers, rows_of, seen_by
from bayes_risk.evidence.runner import Effort, Plan
from bayes_risk.intruder import priors
from bayes_risk.intruder.grids import Grid, JointGrid, Levels, as_guesses
from bayes_risk.intruder.guesses import Guesses, Neighbourhood
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.parameters import drawn
from bayes_risk.release.parameters import in_words as drawn_in_words
from bayes_risk.release.release import Release

from .exposure import exposure
from .kept_evidence import AttributeEvidence
from .posterior import Limits, certain
from .result import AttributeRisk

Array = npt.NDArray[np.float64]
MAX_MCSE_LOG_ODDS = 1.0
MIN_ESS = {"reuse": 100.0, "simulated": 10.0, "weaker": 10.0}
EVIDENCE = ("exact", "predictive", "imputed", "product", "simulated", "refit", "reuse")


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
        ``"exact"``, ``"predictive"``, ``"imputed"``, ``"product"``, ``"simulated"``, ``"refit"`` or
        ``"reuse"``.
        How ``p(Z^(l) | y*, y_-i)`` is computed: in closed form; by leave-one-out predictives of
        m + 1 fits; in closed form but for what is simulated (kernels in the leaves of trees); by
        m + 1 fits anew for every target; by the published importance sampler over the fit's own
        draws. By default the first of these that the fit offers, `reuse` only if asked for. For an
        intruder who knows only some of the other records and several releases: with the unknown
        records imputed in the sampler (``"imputed"``), or release by release as if the releases did
        not share them (``"product"``, which overrates what is learnt). For an intruder of the trade
        the model computes it: leave it out.
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
    probability exceeds 0.05, if that of its log odds exceeds 1 (or ``target_mcse``, if given), or
    if a search of a large joint grid left out more than 2 % of the posterior.
    """
    gathered = attribute_evidence(
        fit,
        release,
        intruder=intruder,
        guesses=guesses,
        search_prior="uniform" if prior is None else prior,
        targets=targets,
        evidence=evidence,
        target_mcse=target_mcse,
        max_doublings=max_doublings,
        refit_budget=refit_budget,
        random_seed=random_seed,
        n_jobs=n_jobs,
        progress=progress,
    )
    return gathered.risk(prior)


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
    targets, evidence, target_mcse, max_doublings, refit_budget, random_seed, n_jobs, progress
        As in `attribute_risk`.

    Returns
    -------
    AttributeEvidence
        ``.risk(prior)``, or ``.risks({"name": prior, ...})``.

    Raises
    ------
    InputError
        As `attribute_risk`.

    Notes
    -----
    Cost: that of `attribute_risk`.
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
    choose, sampling, knowing, checking = rng.spawn(4)
    rows = rows_of(targets, release, fit, intruder, choose)
    known = seen_by(intruder, release, fit, knowing)
    cases, case = cases_of(fit, release, intruder, weighed, rows, known)
    plan = Plan(fit, release, sampling, n_jobs, progress, known)
    effort = Effort(evidence, target_mcse, max_doublings, refit_budget)
    searched = search_prior if cases.guesses.finer is not None else None
    cases, log_rest = _narrowed(cases, plan, effort, search_prior, intruder)
    unchanged = ~release.replaced(len(fit.microdata.codes))[cases.record]
    return AttributeEvidence(
        microdata=fit.microdata,
        release=release,
        index=fit.microdata.index[rows],
        case=case,
        cases=cases,
        found=certain(_found(cases, plan, effort, intruder), unchanged, cases.guesses.truth),
        disclosed=unchanged,
        log_rest=log_rest,
        searched=searched,
        limits=Limits(
            log_odds=MAX_MCSE_LOG_ODDS if target_mcse is None else target_mcse,
            khat=plan.threshold,
            ess=MIN_ESS.get(evidence, 0.0),
        ),
        way=evidence,
        words=_in_words(intruder, weighed, evidence, release, fit, cases),
        any_release=not intruder.of_trade and "predictive" in fit.offers(release),
        factors=factors_of(plan.fit, evidence, release, cases),
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
        exposure=exposure(fit.microdata, release),
        check=checked(fit, release, checking),
    )


def _found(cases: Targets, plan: Plan, effort: Effort, intruder: Intruder) -> Evidence:
    """Evidence by the plan, or by the model itself where records besides the target's are unknown.

    The generator is the plan's, spawned anew for each call.
    """
    if not intruder.of_trade:
        return plan.run(cases, effort)
    (rng,), fit = plan.rng.spawn(1), cast(WeakerFit, plan.fit)
    found = stage(
        "evidence",
        lambda: fit.weaker(intruder, plan.release, cases, rng=rng, progress=plan.progress),
    )
    assert found is not None
    return known_evidence(found, cases)


def _narrowed(
    cases: Targets, plan: Plan, effort: Effort, prior: priors.Prior, intruder: Intruder
) -> tuple[Targets, Array]:
    """Coarse guesses replaced by fine ones where the posterior is, and what that leaves out."""
    finer = cases.guesses.finer
    if finer is None:
        return cases, np.full(len(cases), -np.inf)
    found = _found(cases, plan, replace(effort, refit_budget=0), intruder)
    log_prior = prior_weights.log_prior(prior, plan.fit.microdata, cases, plan.release, found.base)
    guesses, log_rest = finer(log_prior + found.log_evidence.sum(axis=0))
    return cases.with_guesses(guesses), log_rest


def _chosen(evidence: str | None, fit: Fit, release: Release, intruder: Intruder) -> str:
    """The evidence asked for, if it is offered; else the first that needs no asking."""
    drawn(fit, release)  # refused where the model has no evidence for it
    if intruder.of_trade:
        return _by_model(evidence, fit, intruder)
    offers = _offers(fit, release, intruder)
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


def _offers(fit: Fit, release: Release, intruder: Intruder) -> frozenset[str]:
    """Ways to the evidence for an intruder who knows all other records, or some of them."""
    if not intruder.knows_less:
        return fit.offers(release)
    if getattr(fit, "weights", None) is not None:
        raise InputError(
            f"{intruder.in_words()[:-1]}: not offered for a fit with record weights; give "
            'knows_records="all-but-target"'
        )
    if not hasattr(fit, "offers_knowing"):
        raise InputError(
            f"{intruder.in_words()[:-1]}: {type(fit).__name__} offers no evidence for that; "
            'give knows_records="all-but-target"'
        )
    return cast(PartFit, fit).offers_knowing(release)


def _by_model(evidence: str | None, fit: Fit, intruder: Intruder) -> str:
    """Evidence for an intruder of the trade."""
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
    evidence: str,
    release: Release,
    fit: Fit,
    cases: Targets,
) -> dict[str, str]:
    ways = {
        "predictive": "predictive: leave-one-out predictives before and after seeing the release",
        "reuse": "reuse: the published importance sampler over draws given the confidential table",
        "imputed": "imputed: predictives before and after seeing all releases, the records that "
        "are not known imputed in the sampler",
        "product": "product: predictives before and after seeing each release, multiplied as if "
        "the releases did not share the records that are not known (an approximation)",
        "refit": "refit: models fitted anew, without the target or for each of its guesses",
        "exact": "exact: in closed form",
        "simulated": "simulated: in closed form but for the bootstrap within leaves, which is "
        "integrated by simulation",
    }
    if intruder.of_trade:
        ways["weaker"] = cast(WeakerFit, fit).weaker_in_words(intruder, release, cases)
    elif intruder.knows_less and hasattr(fit, "knowing_in_words"):
        ways[evidence] = cast(WordedPartFit, fit).knowing_in_words(evidence)
    names = [fit.microdata.columns[j] for j in cases.columns]
    return {
        "records": intruder.in_words(),
        "columns": f"guessed: {', '.join(map(str, names))}",
        "synthesis": fit.mechanism(release),
        "guesses": _guesses_in_words(guesses, names),
        "evidence": ways[evidence],
        "releases": drawn_in_words(fit, release),
    }


def _guesses_in_words(guesses: Guesses, names: Sequence[Hashable]) -> str:
    """What is guessed of every column: of those that a joint grid leaves out, all levels."""
    said = guesses.in_words()
    others = [str(n) for n in names if isinstance(guesses, JointGrid) and n not in guesses.grids]
    return f"{said}; {', '.join(others)}: every level" if others else said
