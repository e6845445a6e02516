"""Membership: how well an intruder can tell that a record is in the confidential data."""

import warnings
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array, Ints
from bayes_risk._core.batches import variance_of_estimate
from bayes_risk._core.errors import InputError, UnreliableWeightsWarning
from bayes_risk._core.validate import at_least, positive
from bayes_risk.evidence.contract import Fit, Progress, drawn_in_words
from bayes_risk.evidence.problem import AuditProblem
from bayes_risk.evidence.runner import EvidenceRunner
from bayes_risk.intruder.guesses import Itself
from bayes_risk.intruder.intruder import Intruder
from bayes_risk.release.release import Release

from .candidates import Alternatives, Others, alternatives_of, places
from .computation import CaseTerms, MembershipComputation, MembershipTerms
from .curve import MEASURES, Standing, measures
from .result import Membership

MAX_MCSE = 1.0  # of a log Bayes factor


def membership(
    fit: Fit,
    release: Release,
    *,
    records: Any = None,
    others: pd.DataFrame | None = None,
    intruder: Intruder | None = None,
    prior_odds: float = 1.0,
    comparisons: int = 200,
    alternatives: int = 200,
    refit_budget: int = 10,
    random_seed: int | np.random.Generator | None = None,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Membership:
    """Log Bayes factor that a record is in the confidential data, against somebody else.

    The intruder knows every record but one, and asks whether that one is the candidate c or
    somebody else, y' from the model's predictive:
    ``BF = p(Z | A, c) / E[p(Z | A, y')] = prod_l r_l(c) / E[prod_l r_l(y')]`` with
    ``r_l(y) = p(y | A, Z^(l)) / p(y | A)``. Of one release the denominator is 1.

    Parameters
    ----------
    fit : Fit
        The synthesis model fitted to the confidential table.
    release : Release
        The m synthetic data sets, all columns of all records synthesised.
    records : None, int, list of labels, or mask
        Members to ask about: all (None), that many drawn at random, or named. Of a member, A is
        everybody else.
    others : DataFrame, optional
        People outside the data, held out or hypothetical, with the columns of the table. They are
        asked about for the members' places, by the intruder who knows the same A, and a member is
        compared with those asked about for its own place.
    intruder : Intruder, optional
        ``knows_records``: every other record by default; ``"none"``, a fraction, a mask or labels
        if the release has one data set.
    prior_odds : float
        Odds of membership before the release.
    comparisons : int
        For each place all others are asked about if they show no more distinct values than this;
        else so many of them in turn.
    alternatives : int
        How many alternatives y' are drawn for each candidate where there are several releases, at
        least 2. If the table has no more cells than that, all are listed and nothing is drawn.
    refit_budget : int
        At most so many distinct cases with k-hat above threshold are fitted again without the
        record.
    random_seed, n_jobs, progress
        As in `attribute_risk`.

    Returns
    -------
    Membership
        Per record: log Bayes factor, its Monte Carlo error, posterior odds; with ``others``, how
        well members are told from them.

    Raises
    ------
    InputError
        A release that leaves columns or records as they are; a fit without predictives, or of
        weighted records; others that lack columns or hold unknown levels; an intruder who is not
        offered.

    Warns
    -----
    UnreliableWeightsWarning
        Some log Bayes factors have a k-hat above `khat_threshold` or an error above 1.

    Notes
    -----
    Derivation, and which comparison is fair: `docs/membership.md`. Distinct cases are computed
    once. Cost: m augmented fits, then for U places H x U x (1 + comparisons + alternatives)
    predictives per fit (without alternatives if m = 1), in blocks of places.

    References
    ----------
    Hu, J. (2019), "Bayesian estimation of attribute and identification disclosure risks in
    synthetic data", TDP 12, section 5, asks the question.
    """
    positive("prior_odds", prior_odds)
    at_least("comparisons", comparisons, 1)
    at_least("alternatives", alternatives, 2)
    at_least("refit_budget", refit_budget, 0)
    rng = np.random.default_rng(random_seed)
    choose, turns, draw, knowing, sampling, asking, samples = rng.spawn(7)
    problem = membership_problem(fit, release, intruder, records, choose, knowing)
    cases, case = places(problem.cases), problem.case
    compared = Others.of(others, fit.microdata, len(cases), comparisons, turns)
    runner = EvidenceRunner(problem, sampling, n_jobs, progress)
    posteriors = runner.fits(cases)
    drawing = runner.led or fit  # of the mode that the release chooses
    other = _alternatives(drawing, release, len(cases), alternatives, draw)
    answers = MembershipComputation(
        runner=runner,
        posteriors=posteriors,
        cases=cases,
        counts=np.bincount(case, minlength=len(cases)).astype(float),
        others=compared,
        alternatives=other,
        budget=refit_budget,
        rng=asking,
    ).answers()
    labels = fit.microdata.index[problem.rows]
    return _result(
        answers,
        case,
        compared,
        labels if others is None else labels.append(others.index),
        threshold=runner.threshold,
        prior_odds=float(prior_odds),
        assumptions=_in_words(problem, other),
        rng=samples,
        seed_entropy=str(rng.bit_generator.seed_seq.entropy),  # type: ignore[attr-defined]
    )


def membership_problem(
    fit: Fit,
    release: Release,
    intruder: Intruder | None,
    records: Any,
    choose: np.random.Generator,
    knowing: np.random.Generator,
) -> AuditProblem:
    """The audit, if the model and the release can answer it at all."""
    _check_release(fit, release)
    problem = AuditProblem.prepare(
        fit, release, intruder, Itself(), records, choose=choose, knowing=knowing
    )
    _check_intruder(problem)
    return problem


def _alternatives(
    fit: Fit, release: Release, U: int, L: int, rng: np.random.Generator
) -> Alternatives | None:
    """Somebody else for each place; of one draw of the parameters, fresh rows, their mean is 1."""
    if len(release.by_draw) == 1 and release.classes == "new":
        return None
    return alternatives_of(fit, U, L, rng)


def _check_release(fit: Fit, release: Release) -> None:
    kept = [c for c in fit.microdata.columns if c not in release.synthesized]
    if kept:
        raise InputError(
            f"columns {kept} are released as they are, and show by themselves who may be in the "
            "data; membership is for releases with every column synthesised: ask attribute_risk"
        )
    unchanged = int((~release.replaced(len(fit.microdata.codes))).sum())
    if unchanged:
        raise InputError(
            f"{unchanged} records are released unchanged, and show who is in the data; membership "
            "is for releases with every record synthesised"
        )
    if fit.weights is not None:
        raise InputError("membership is not offered for a fit with record weights; fit without")


def _check_intruder(problem: AuditProblem) -> None:
    intruder, m = problem.intruder, problem.release.m
    if intruder.is_competitor or intruder.knows_columns:
        raise InputError(
            "an intruder who asks about membership has a whole record in mind; give "
            "knows_records alone: all-but-target, none, a fraction, a mask or labels"
        )
    if intruder.knows_less and m > 1:
        raise InputError(
            f"knows_records with m = {m} data sets is not offered for membership; give "
            '"all-but-target", or a release of one data set'
        )
    if "predictive" not in problem.capabilities.methods:
        raise InputError(
            f"{type(problem.fit).__name__} offers no predictives for this release and intruder; "
            "membership needs them: use models.DPMPM, Regression, PoissonMixture (MP) or PyMCModel"
        )


def _result(
    answers: MembershipTerms,
    case: Ints,
    compared: Others,
    labels: pd.Index,
    *,
    threshold: float,
    rng: np.random.Generator,
    **rest: Any,
) -> Membership:
    """From cases to people, and the errors of the measures."""
    n, person, members = len(case), compared.person, answers.members
    mcse = np.append(members.mcse[case], answers.others_mcse[person])
    khat = np.append(members.khat[case], np.full(len(person), np.nan))
    found, errors = np.full(len(MEASURES), np.nan), np.full((2, len(MEASURES)), np.nan)
    if len(person):
        found, errors = _measures(members, case, rng)
    result = Membership(
        index=labels,
        member=np.arange(len(labels)) < n,
        log_bayes_factor=np.append(members.log_bf[case], answers.others[person]),
        mcse=mcse,
        khat=khat,
        ess=np.append(members.ess[case], np.full(len(person), np.nan)),
        reliable=~(khat > threshold) & (mcse <= MAX_MCSE),
        standing=Standing(*(v[case] for v in members.found)),
        measures=found,
        standard_error=errors[0],
        mcse_of_measures=errors[1],
        **rest,
    )
    _warn(result)
    return result


def _warn(result: Membership) -> None:
    doubtful = int((~result.reliable).sum())
    if doubtful:
        warnings.warn(
            f"{doubtful} of {len(result.reliable)} log Bayes factors are unreliable (largest k-hat "
            f"{np.nanmax(result.khat):.2f}, largest Monte Carlo error {np.max(result.mcse):.2f}); "
            "give a larger refit_budget, or a fit with more draws",
            UnreliableWeightsWarning,
            stacklevel=4,
        )


def _measures(members: CaseTerms, case: Ints, rng: np.random.Generator) -> tuple[Array, Array]:
    """Measures, and their errors: over people, in and outside the data, and over the draws."""
    n, U = len(case), len(members.log_bf)
    counts = np.bincount(case, minlength=U).astype(float)
    found = measures(members.found, counts)
    samples = rng.multinomial(n, counts / n, size=len(members.resampled.above)).astype(float)
    over_people = measures(members.resampled, samples).std(axis=0, ddof=1)
    over_draws = np.sqrt(variance_of_estimate(measures(members.moved, counts)))
    return found, np.stack([over_people, over_draws])


def _in_words(problem: AuditProblem, other: Alternatives | None) -> dict[str, str]:
    how = "not needed: of one draw of the parameters their mean is 1"
    if other is not None:
        how = f"{other.per_case} {'drawn for each place' if other.drawn else 'values: all'}"
    return {
        "records": problem.intruder.in_words(),
        "question": "whether the record that is not known is the candidate, or somebody else whom "
        "the model would draw",
        "synthesis": problem.fit.mechanism(problem.release),
        "alternatives": how,
        "releases": drawn_in_words(problem.fit, problem.release),
    }
