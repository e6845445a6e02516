"""From evidence to the intruder's posterior, its Monte Carlo error, and whether to trust it."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from bayes_risk._core.batches import variance_of_estimate
from bayes_risk._core.errors import InputError
from bayes_risk._core.logspace import log_sum
from bayes_risk.evidence import Evidence
from bayes_risk.prior_weights import PriorWeights

Array = npt.NDArray[np.float64]
MAX_MCSE = 0.05  # of a probability
MAX_LEFT_OUT = 0.02


class Weighed(NamedTuple):
    """Posterior of the guesses, and how exact the truth's probability is.

    ``log_p`` (G, U); ``deviations`` (F, B, U) of the truth's probability, by fit and batch;
    ``mcse`` (U,) of it and ``mcse_log_odds`` (U,) of its log odds; ``left_out`` (U,): share of the
    posterior that a search left out.
    """

    log_p: Array
    deviations: Array
    mcse: Array
    mcse_log_odds: Array
    left_out: Array


class Limits(NamedTuple):
    """Largest error of log odds and largest k-hat, smallest effective number of draws."""

    log_odds: float
    khat: float
    ess: float


def certain(
    found: Evidence, unchanged: npt.NDArray[np.bool_], truth: npt.NDArray[np.int64]
) -> Evidence:
    """Records released unchanged, marked (U,): every other guess is impossible."""
    those = np.flatnonzero(unchanged)
    if not len(those):
        return found
    log_evidence, deviations = found.log_evidence.copy(), found.deviations.copy()
    log_evidence[:, :, those] = -np.inf
    log_evidence[:, truth[those], those] = 0.0
    deviations[..., those] = 0.0
    khat = found.khat.copy()
    khat[those] = 0.0
    return replace(found, log_evidence=log_evidence, deviations=deviations, khat=khat)


class Summed(NamedTuple):
    """What every prior needs of the evidence: its sum over releases, and the error, (G, U) each."""

    log_evidence: Array
    mcse: Array

    @classmethod
    def of(cls, found: Evidence) -> "Summed":
        """Computed once, whatever the number of priors."""
        return cls(found.log_evidence.sum(axis=0), found.mcse())


def weigh(
    found: Evidence,
    summed: Summed,
    prior: PriorWeights,
    truth: npt.NDArray[np.int64],
    log_rest: Array,
    disclosed: npt.NDArray[np.bool_],
) -> Weighed:
    """Bayes' rule, and the linearised Monte Carlo error of the truth's probability.

    ``truth`` (U,): place of the truth among the guesses; ``log_rest`` (U,): log of what a search
    left out, relative to the truth's share; ``disclosed`` (U,): released unchanged, and known
    whatever was believed.

    Raises
    ------
    InputError
        Guesses, or a prior, of which none can have given the release.
    """
    log_p = np.where(np.isneginf(prior.log_p), -np.inf, prior.log_p + summed.log_evidence)
    known = np.flatnonzero(disclosed)
    log_p[:, known] = -np.inf
    log_p[truth[known], known] = 0.0
    _check_possible(log_p, summed.log_evidence)
    log_p = log_p - log_sum(log_p)
    log_truth = np.take_along_axis(log_p, truth[None], axis=0)[0]
    p, p_truth = np.exp(log_p), np.exp(log_truth)
    # d log(odds of truth) = - sum_g p_g dE_g / (1 - p_truth);  dp = p_truth (0 - sum_g p_g dE_g)
    shift = -_mean_deviation(found, prior, p, truth)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_odds = np.sqrt(variance_of_estimate(shift)) / (1.0 - p_truth)
    return Weighed(
        log_p=log_p,
        deviations=shift * p_truth,
        mcse=np.sqrt(variance_of_estimate(shift * p_truth)),
        mcse_log_odds=np.where(p_truth > 0, log_odds, 0.0),  # ruled out: no error
        left_out=_left_out(log_truth, log_rest),
    )


def _left_out(log_truth: Array, log_rest: Array) -> Array:
    """Share that a search left out; all that may be, where it is known against nothing alone."""
    with np.errstate(invalid="ignore"):
        share = log_truth + log_rest
    return np.asarray(expit(np.where(np.isnan(share), np.inf, share)))


def _mean_deviation(
    found: Evidence, prior: PriorWeights, p: Array, truth: npt.NDArray[np.int64]
) -> Array:
    """sum_g p_g dE_g, deviations relative to the truth's, shape (F, B, U).

    A prior that the base fit has estimated moves with it: where the fit moves log p(y* | y_A) by
    ``b_g``, the log prior moves by ``r_g (b_g - mean of b under the predictive)``, with ``r_g`` the
    share of the prior that is the predictive. The evidence moves by ``-m b_g``: all predictive,
    ``m - 1`` of the m base fits are left.
    """
    dev = found.deviations  # shape (F, B, G, U); zero at the truth
    mean: Array = np.einsum("fbgu,gu->fbu", dev, p)
    if prior.from_base is None or found.base is None:
        return mean
    b, r = dev[0] / -float(len(found.log_evidence)), prior.from_base
    predictive = np.exp(found.base - log_sum(found.base))
    centre = np.einsum("bgu,gu->bu", b, np.where(np.isneginf(prior.log_p), 0.0, predictive))
    at_truth = np.take_along_axis(r, truth[None], axis=0)[0]
    mean[0] += np.einsum("bgu,gu->bu", b, p * r) - centre * ((p * r).sum(axis=0) - at_truth)
    return mean


def _check_possible(log_p: Array, log_evidence: Array) -> None:
    refuted = ~(log_p > -np.inf).any(axis=0)
    if not refuted.any():
        return
    count = f"for {int(refuted.sum())} of {log_p.shape[1]} distinct targets"
    if (log_evidence[:, refuted] > -np.inf).any(axis=0).all():
        raise InputError(
            f"{count} the release rules out every guess that the prior allows; give a prior with "
            'some mass on every guess: Mixture([(0.99, prior), (0.01, "uniform")])'
        )
    raise InputError(
        f"{count} no guess can have given the release: the truth is not among them; give a finer "
        'grid, or truth="add"'
    )


def reliable(found: Evidence, posterior: Weighed, limits: Limits) -> npt.NDArray[np.bool_]:
    """Which cases can be trusted, shape (U,)."""
    exact_enough = ~(posterior.mcse_log_odds > limits.log_odds) & (posterior.mcse <= MAX_MCSE)
    good_draws = (found.khat <= limits.khat) & (found.ess >= limits.ess)
    trusted: npt.NDArray[np.bool_] = (
        exact_enough & good_draws & (posterior.left_out <= MAX_LEFT_OUT)
    )
    return trusted
