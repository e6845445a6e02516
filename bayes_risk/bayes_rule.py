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


def weigh(
    found: Evidence, log_prior: Array, truth: npt.NDArray[np.int64], log_rest: Array
) -> Weighed:
    """Bayes' rule, and the linearised Monte Carlo error of the truth's probability.

    ``log_prior`` (G, U); ``truth`` (U,): place of the truth among the guesses; ``log_rest`` (U,):
    log of what a search left out, relative to the truth's share.

    Raises
    ------
    InputError
        Guesses of which none can have given the release.
    """
    log_p = log_prior + found.log_evidence.sum(axis=0)
    impossible = ~(log_p > -np.inf).any(axis=0)
    if impossible.any():
        raise InputError(
            f"for {int(impossible.sum())} of {len(truth)} distinct targets no guess can have given "
            'the release: the truth is not among them; give a finer grid, or truth="add"'
        )
    log_p = log_p - log_sum(log_p)
    log_truth = np.take_along_axis(log_p, truth[None], axis=0)[0]
    p, p_truth = np.exp(log_p), np.exp(log_truth)
    dev = found.deviations.astype(float)  # shape (F, B, G, U); zero at the truth
    # d log(odds of truth) = - sum_g p_g dE_g / (1 - p_truth);  dp = p_truth (0 - sum_g p_g dE_g)
    shift = -np.einsum("fbgu,gu->fbu", dev, p)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_odds = np.sqrt(variance_of_estimate(shift)) / (1.0 - p_truth)
    return Weighed(
        log_p=log_p,
        deviations=shift * p_truth,
        mcse=np.sqrt(variance_of_estimate(shift * p_truth)),
        mcse_log_odds=log_odds,
        left_out=expit(log_truth + log_rest),
    )


def reliable(found: Evidence, posterior: Weighed, limits: Limits) -> npt.NDArray[np.bool_]:
    """Which cases can be trusted, shape (U,)."""
    exact_enough = ~(posterior.mcse_log_odds > limits.log_odds) & (posterior.mcse <= MAX_MCSE)
    good_draws = (found.khat <= limits.khat) & (found.ess >= limits.ess)
    trusted: npt.NDArray[np.bool_] = (
        exact_enough & good_draws & (posterior.left_out <= MAX_LEFT_OUT)
    )
    return trusted
