"""Realised privacy loss: how far this release moves the odds between any two guesses of a record.

Frozen; made of evidence that an audit has gathered, so it costs nothing more.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import standard_error
from bayes_risk._core.errors import InputError
from bayes_risk.data.variables import Number, Variable
from bayes_risk.evidence.evidence import Evidence

from .kept_evidence import AttributeEvidence
from .posterior import disagreed
from .privacy_loss_result import PrivacyLoss
from .result import AttributeRisk


def privacy_loss(evidence: AttributeEvidence | AttributeRisk) -> PrivacyLoss:
    """Realised privacy loss of every record: the widest gap in log evidence between two guesses.

    ``eps_i = max over y*, y' of |log p(Z | y*, A) - log p(Z | y', A)|``, so that for any prior and
    any two guesses ``|log posterior odds - log prior odds| <= eps_i``.

    Parameters
    ----------
    evidence : AttributeEvidence or AttributeRisk
        Of `attribute_evidence` (better: it keeps what the Monte Carlo error needs) or
        `attribute_risk` (of which guesses with a prior of zero are left out).

    Raises
    ------
    InputError
        Something else was given; guesses searched coarse to fine, of which the extremes are not
        known.

    Notes
    -----
    More guesses, more loss: the neighbourhood of the truth bounds it from below. The largest of
    noisy numbers is too large on average; ``low`` errs on the other side. Costs a pass over guesses
    and records.

    References
    ----------
    McClure, D. and Reiter, J. P. (2012), "Differential privacy and statistical disclosure risk
    measures: an investigation with binary synthetic data", TDP 5, 535-552.
    """
    if isinstance(evidence, AttributeEvidence):
        return _of_evidence(evidence)
    if isinstance(evidence, AttributeRisk):
        return _of_risk(evidence)
    raise InputError(
        f"privacy_loss was given a {type(evidence).__name__}; give what attribute_evidence or "
        "attribute_risk returns"
    )


def _of_evidence(given: AttributeEvidence) -> PrivacyLoss:
    if given.searched is not None:
        raise InputError(
            "these guesses were searched coarse to fine, and those that the release speaks against "
            "most were left out; give JointGrid a larger budget, or a coarser grid"
        )
    found, guesses = given.found, given.cases.guesses
    total = np.where(guesses.counted, found.log_evidence.sum(axis=0), np.nan)  # shape (G, U)
    _check_possible(total)
    main, *modes = (_of_chains(one, given) for one in (found, *found.apart))
    mcse, good = main.mcse, (found.khat <= given.limits.khat) & (found.ess >= given.limits.ess)
    for one in modes:  # two errors reach what each mode left open says
        mcse = np.maximum(mcse, 0.5 * np.abs(one.loss - main.loss) + one.mcse)
    apart = np.any([one.disagreed for one in modes or [main]], axis=0)
    return _result(
        given,
        total,
        mcse=mcse,
        low=np.min([one.low for one in (main, *modes)], axis=0),
        reliable=(good & ~apart & ~(mcse > given.limits.log_odds)) | given.disclosed,
        khat=found.khat,
        variables=tuple(given.microdata.variables[j] for j in given.cases.columns),
        codes=guesses.codes,
        words=given.words,
    )


class _Loss(NamedTuple):
    """The loss among guesses that are possible, its error, and what does not share its bias (U,).

    And whether chains say different things of its two guesses.
    """

    loss: Array
    mcse: Array
    low: Array
    disagreed: npt.NDArray[np.bool_]


def _of_chains(found: Evidence, given: AttributeEvidence) -> _Loss:
    """Of all chains of the evidence, or of those of one mode."""
    total = np.where(given.cases.guesses.counted, found.log_evidence.sum(axis=0), np.nan)
    most, least = _extremes(total)
    deviations = found.deviations.astype(float)
    apart = _at(deviations, most) - _at(deviations, least)  # shape (F, B, U)
    with np.errstate(invalid="ignore"):
        loss = _at(total, most) - _at(total, least)
    return _Loss(
        loss=np.where(np.isfinite(loss), loss, 0.0),
        mcse=standard_error(apart, led=found.few_chains),
        low=_low(total, deviations),
        disagreed=disagreed(found, apart),
    )


def _of_risk(given: AttributeRisk) -> PrivacyLoss:
    if given.left_out.any():
        raise InputError(
            "these guesses were searched coarse to fine, and those that the release speaks against "
            "most were left out; give JointGrid a larger budget, or a coarser grid"
        )
    total = np.where(np.isfinite(given.log_prior), given.log_evidence.sum(axis=0), np.nan)
    most, least = _extremes(total)
    errors = given.mcse_log_evidence
    return _result(
        given,
        total,
        mcse=_at(errors, most) + _at(errors, least),
        low=np.full(total.shape[1], np.nan),
        reliable=given.reliable,
        khat=given.khat,
        variables=given.variables,
        codes=given.guesses,
        words=given.assumptions,
    )


def _result(
    given: AttributeEvidence | AttributeRisk,
    total: Array,
    *,
    mcse: Array,
    low: Array,
    reliable: Flags,
    khat: Array,
    variables: tuple[Variable | Number, ...],
    codes: npt.NDArray[Any],
    words: Mapping[str, str],
) -> PrivacyLoss:
    ruled_out = np.isneginf(total)
    possible = np.where(ruled_out, np.nan, total)
    among = np.nanmax(possible, axis=0) - np.nanmin(possible, axis=0)
    some = ruled_out.any(axis=0)
    ends = np.stack(_extremes(total))  # shape (2, U)
    return PrivacyLoss(
        index=given.index,
        case=given.case,
        loss=np.where(some, np.inf, among),
        mcse=np.where(some, np.nan, mcse),
        low=np.where(some, np.inf, np.minimum(low, among)),
        among_possible=among,
        ruled_out=ruled_out.sum(axis=0),
        khat=khat,
        reliable=reliable,
        variables=variables,
        extremes=codes[ends, np.arange(total.shape[1])],
        assumptions=words,
        seed_entropy=given.seed_entropy,
    )


def _check_possible(total: Array) -> None:
    refuted = ~(total > -np.inf).any(axis=0)
    if refuted.any():
        raise InputError(
            f"for {int(refuted.sum())} of {total.shape[1]} distinct targets no guess can have "
            'given the release: the truth is not among them; give a finer grid, or truth="add"'
        )


def _extremes(total: Array) -> tuple[Ints, Ints]:
    """Guesses with the largest and the smallest evidence, shape (U,) each; NaN is not counted."""
    return np.nanargmax(total, axis=0), np.nanargmin(total, axis=0)


def _low(total: Array, deviations: Array) -> Array:
    """Extremes picked on one half of the draws, their distance measured on the other; averaged."""
    B = deviations.shape[1]
    halves = [
        np.where(np.isneginf(total), np.nan, total) + deviations[:, part].mean(axis=1).sum(axis=0)
        for part in (slice(0, B // 2), slice(B // 2, B))
    ]
    out = np.zeros(total.shape[1])
    for picked, measured in (halves, halves[::-1]):
        most, least = _extremes(picked)
        out += 0.5 * (_at(measured, most) - _at(measured, least))
    return out


def _at(values: Array, guess: Ints) -> Array:
    """Values (..., G, U) at one guess of each case, shape (..., U)."""
    return values[..., guess, np.arange(len(guess))]
