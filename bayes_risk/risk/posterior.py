"""From evidence to the intruder's posterior, its Monte Carlo error, and whether to trust it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import chains_disagree, standard_error, zeros
from bayes_risk._core.errors import InputError, UnreliableWeightsWarning, warn_user
from bayes_risk._core.logspace import log_sum
from bayes_risk.evidence.evidence import PART, Evidence
from bayes_risk.evidence.leave_one_out import FEW, Ratio
from bayes_risk.evidence.prior_weights import PriorWeights
from bayes_risk.intruder.guesses import GuessSet

MAX_MCSE = 0.05  # of a probability
TIE_TOLERANCE = 1e-9
MAX_MCSE_LOG_ODDS = 1.0
MAX_LEFT_OUT = 0.02
MAX_RANGE = 0.05  # of a probability, of what modes or chains say that differ
REPEATED = 1.96 * np.sqrt(2.0)  # standard errors that hold another audit's estimate
MAX_APART = 0.4  # of log odds: chains within a factor 1.5 agree


class PosteriorWeights(NamedTuple):
    """Posterior of the guesses, and how exact the truth's probability is.

    ``log_p`` (G, U), ``log_truth`` (U,) of the truth; ``deviations`` (F, B, U) of the truth's
    probability, by fit and batch;
    ``mcse`` (U,) of it, ``mcse_log_odds`` (U,) of its log odds and ``mcse_log_bayes_factor`` (U,)
    of their change; ``left_out`` (U,): share of the posterior that a search left out;
    ``disagreed`` (U,): chains say more different things of the record than their noise explains;
    ``mcse_by_release`` (m, U): error that each data set brings into the log Bayes factor.
    """

    log_p: Array
    log_truth: Array
    deviations: Array
    mcse: Array
    mcse_log_odds: Array
    mcse_log_bayes_factor: Array
    left_out: Array
    disagreed: Flags
    mcse_by_release: Array


def mcse_of_mean(risk: Any, of: Any = slice(None)) -> float:
    """Records share their draws, so the error of a mean is taken from batch means; ``of`` some."""
    case = risk.case[of]
    shares = np.bincount(case, minlength=risk.deviations.shape[2]) / len(case)
    means = (risk.deviations @ shares)[:, :, None]
    return float(standard_error(means, few=risk.few_chains)[0])


def warn_of_unreliable(reliable: Flags, worst: str, cure: str, *, what: str = "records") -> None:
    """Say how many numbers are not reliable, (n,), if any, how bad they are, and what to do."""
    doubtful = int((~reliable).sum())
    if doubtful:
        message = f"{doubtful} of {len(reliable)} {what} are unreliable ({worst}); {cure}"
        warn_user(message, UnreliableWeightsWarning)


def filled(parts: Iterable[tuple[slice, Sequence[Array]]], U: int) -> list[Array]:
    """Arrays whose last axis is that of U cases, from those of blocks of these."""
    whole: list[Array] = []
    for block, found in parts:
        whole = whole or [np.empty((*one.shape[:-1], U), one.dtype) for one in found]
        for out, one in zip(whole, found, strict=True):
            out[..., block] = one
    return whole


def at_truth(values: npt.NDArray[Any], truth: Ints) -> Array:
    """Values (..., G, U) of the true, or another, guess of each case, shape (..., U)."""
    return np.asarray(values[..., truth, np.arange(len(truth))])


def check_possible(log_p: Array) -> None:
    """Refuse targets of which no guess can have given the release, of logs (G, U)."""
    if refuted := int((~(log_p > -np.inf).any(axis=0)).sum()):
        raise InputError(
            f"for {refuted} of {log_p.shape[1]} distinct targets no guess can have "
            'given the release: the truth is not among them; give a finer grid, or `truth="add"`'
        )


class Limits(NamedTuple):
    """Largest error of log odds and largest k-hat, smallest effective number of draws."""

    log_odds: float
    khat: float
    ess: float


def certain(found: Evidence, unchanged: Flags, truth: Ints) -> Evidence:
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
    found: Evidence, prior: PriorWeights, truth: Ints, log_rest: Array, disclosed: Flags
) -> PosteriorWeights:
    """Bayes' rule, and the linearised Monte Carlo error of the truth's probability."""
    log_p = found.log_evidence.sum(axis=0)
    log_p += prior.log_p  # in place: arrays of this size are a join's peak
    log_p[np.isneginf(prior.log_p)] = -np.inf
    known = np.flatnonzero(disclosed)
    log_p[:, known] = -np.inf
    log_p[truth[known], known] = 0.0
    refuted = ~(log_p > -np.inf).any(axis=0)
    possible = found.log_evidence[:, :, refuted].sum(axis=0) > -np.inf
    if refuted.any() and possible.any(axis=0).all():
        raise InputError(
            f"for {int(refuted.sum())} of {log_p.shape[1]} distinct targets the release rules out "
            "every guess that the prior allows; give a prior with some mass on every guess: "
            '`MixedPrior([(0.99, prior), (0.01, "uniform")])`'
        )
    check_possible(log_p)
    log_p -= log_sum(log_p)
    log_truth = at_truth(log_p, truth)
    size = max(PART // max(found.deviations[..., :1].size, 1), FEW)  # all would be a join's peak
    blocks = [slice(u, u + size) for u in range(0, len(truth), size)]
    drawn = bool(found.deviations.any())
    errors = ((block, _errors(found, prior, log_p, truth, block, drawn)) for block in blocks)
    deviations, error, of_change, doubtful, by_release = filled(errors, len(truth))
    if not len(by_release):
        shape = len(found.log_evidence), len(truth)
        by_release = np.broadcast_to(np.nan if drawn else 0.0, shape)
    p_truth = np.exp(log_truth)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_odds = error / (1.0 - p_truth)
    return PosteriorWeights(
        log_p=log_p,
        log_truth=log_truth,
        deviations=deviations,
        mcse=error * p_truth,
        mcse_log_odds=np.where(p_truth > 0, log_odds, 0.0),  # ruled out: no error
        mcse_log_bayes_factor=of_change,
        left_out=_left_out(log_truth, log_rest),
        disagreed=doubtful.astype(bool),
        mcse_by_release=by_release,
    )


def _errors(
    found: Evidence, prior: PriorWeights, log_p: Array, truth: Ints, block: slice, drawn: bool
) -> list[Any]:
    """Of some cases: deviations, errors of log p and of its change, disagreement, by release."""
    of_fits, log_p, truth = found.deviations[..., block], log_p[:, block], truth[block]
    log_truth, m = at_truth(log_p, truth), len(found.log_evidence)
    # d log(odds of truth) = - sum_g p_g dE_g / (1 - p_truth);  dp = p_truth (0 - sum_g p_g dE_g)
    by_evidence: Array = zeros((*of_fits.shape[:2], len(truth)), float)
    if drawn:
        by_evidence = np.einsum("fbgu,gu->fbu", of_fits, np.exp(log_p))  # 0 at the truth
    fit = prior.fit if isinstance(prior.fit, int) else prior.fit[block]
    moves = moved_prior(found, prior, block)
    prior = prior._replace(log_p=prior.log_p[:, block], moved=moves, fit=fit)
    shift, change = _moved(by_evidence, log_p, prior, truth)
    # of each data set: its own fit and 1/m of the base fit; to first order, as it is of the sum
    by_release = np.empty((0, len(truth)))
    with np.errstate(divide="ignore", invalid="ignore"):
        of_change = standard_error(change, few=found.few_chains)
        if len(by_evidence) == m + 1 and not found.joined:  # they have fits of their own
            base, *own = by_evidence / -np.expm1(log_truth)
            parts = [np.stack([moved, base / m]) for moved in own]
            errors = [standard_error(part, few=found.few_chains) for part in parts]
            by_release = _unless_settled(np.stack(errors), log_truth)
    return [
        shift * np.exp(log_truth),
        standard_error(shift, few=found.few_chains),
        _unless_settled(of_change, log_truth),
        disagreed(found, shift),
        by_release,
    ]


def _moved(
    by_evidence: Array, log_p: Array, prior: PriorWeights, truth: Ints
) -> tuple[Array, Array]:
    """How batches move log p of the truth, - sum_g p_g dE_g, and its log Bayes factor, (F, B, U).

    The latter is ``d log odds = d log p / (1 - p)``, after the release less before it.
    """
    shift, log_truth = -by_evidence, at_truth(log_p, truth)
    moved = prior.moved
    with np.errstate(divide="ignore", invalid="ignore"):
        if moved is not None:
            own, at = at_truth(moved, truth), (prior.fit, slice(None), np.arange(len(truth)))
            shift[at] += (own - np.einsum("bgu,gu->bu", moved, np.exp(log_p))).T
        change = shift / -np.expm1(log_truth)
        if moved is not None:
            change[at] -= (own / -np.expm1(at_truth(prior.log_p, truth))).T
    return shift, change


def moved_prior(
    found: Evidence, prior: PriorWeights, block: slice = slice(None)
) -> npt.NDArray[Any] | None:
    """How far batches of the base fit move the log prior, (B, G, U); None: it is not estimated.

    The base fit moves log p(y* | y_A) by ``b_g`` relative to the truth's, and the evidence by
    ``-m b_g``. Where it has estimated a share ``r_g`` of the prior, it moves the log prior by
    ``r_g (b_g - centre)``, the centre being the mean of b under the predictive.
    """
    if prior.moved is not None:
        return prior.moved[..., block]
    if prior.from_base is None or found.base is None:
        return None
    b = found.moved_base(block).astype(float)
    log_base = found.base[:, block] + np.broadcast_to(prior.log_widths, found.base.shape)[:, block]
    predictive = np.exp(log_base - log_sum(log_base))
    possible = np.where(np.isneginf(prior.log_p[:, block]), 0.0, predictive)
    centre: Array = np.einsum("bgu,gu->bu", b, possible)
    return np.asarray(prior.from_base[:, block] * (b - centre[:, None]))


def disagreed(found: Evidence, shift: Array) -> Flags:
    """Records of which chains of the fits say different things, shape (U,): their R-hat."""
    if found.base is None:  # no chains, or draws that the release weighs
        return np.zeros(shift.shape[-1], dtype=bool)
    disagree: Flags = chains_disagree(shift)
    chains = 0.5 * (shift[:, 0::2] + shift[:, 1::2])  # of their halves, shape (F, C, U)
    apart: Flags = np.ptp(chains, axis=1).max(axis=0) > MAX_APART
    return disagree & apart


def interval(found: Sequence[PosteriorWeights]) -> Array:
    """Where another audit would find the truth's probability, in all modes, at 95 %; (2, U)."""
    low = (np.exp(one.log_truth) - REPEATED * one.mcse for one in found)
    high = (np.exp(one.log_truth) + REPEATED * one.mcse for one in found)
    ends = np.stack([reduce(np.minimum, low), reduce(np.maximum, high)])
    return np.clip(ends, 0.0, 1.0, out=ends)


def error_over_modes(found: Sequence[PosteriorWeights]) -> Array:
    """Error of the log Bayes factor (U,) of the first, two of which reach what each mode says."""
    main, *modes = found
    error = main.mcse_log_bayes_factor
    for one in modes:
        with np.errstate(invalid="ignore"):  # infinite in both: released unchanged
            apart = np.abs(_log_odds(one.log_truth) - _log_odds(main.log_truth))
        settled = np.where(np.isfinite(apart), apart, 0.0)
        error = np.maximum(error, 0.5 * settled + one.mcse_log_bayes_factor)
    return error


def _log_odds(log_p: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        odds: Array = log_p - np.log(-np.expm1(log_p))
    return odds


def before_release(found: Ratio, guesses: GuessSet, few_chains: bool) -> Array:
    """Probability of the truth before anything was published, and its error, shape (2, U)."""
    log_p = np.where(guesses.counted, found.value, -np.inf)
    log_p = log_p - log_sum(log_p)
    p = np.exp(at_truth(log_p, guesses.truth))
    moved = found.deviation - at_truth(found.deviation, guesses.truth)[:, None]
    shift = -np.einsum("bgu,gu->bu", moved.astype(float), np.exp(log_p))[None]
    return np.stack([p, standard_error(shift, few=few_chains) * p])


def _left_out(log_truth: Array, log_rest: Array) -> Array:
    """Share that a search left out; all that may be, where it is known against nothing alone."""
    with np.errstate(invalid="ignore"):
        share = log_truth + log_rest
    return np.asarray(expit(np.where(np.isnan(share), np.inf, share)))


def _unless_settled(error: Array, log_truth: Array) -> Array:
    settled = ~(log_truth > -np.inf) | ~(log_truth < 0) | np.isnan(error)
    return np.where(settled, 0.0, error)


def reliable(
    found: Evidence, posterior: PosteriorWeights, limits: Limits, apart: Sequence[PosteriorWeights]
) -> Flags:
    """Which cases can be trusted, (U,), within and between the modes left open (``apart``)."""
    doubtful = np.any([one.disagreed for one in apart or (posterior,)], axis=0)
    rough = posterior.mcse_log_odds > limits.log_odds
    if found.few_chains:
        wide = np.ptp(interval([posterior, *apart]), axis=0) > MAX_RANGE
        doubtful &= wide
        rough &= wide | (limits.log_odds < MAX_MCSE_LOG_ODDS)  # a target that was asked for
    if apart:
        doubtful |= np.ptp(np.exp([one.log_truth for one in apart]), axis=0) > MAX_RANGE
    exact_enough = ~rough & (posterior.mcse <= MAX_MCSE)
    good_draws = (found.khat <= limits.khat) & (found.ess >= limits.ess)
    trusted: Flags = exact_enough & good_draws & (posterior.left_out <= MAX_LEFT_OUT) & ~doubtful
    return trusted


def ranks_of(log_p: Array, truth: Ints) -> tuple[Ints, Ints]:
    """Rank of the truth (1 = likeliest) and how many other guesses tie with it, shape (n,)."""
    mine = np.take_along_axis(log_p, truth[None, :], axis=0)
    rank = 1 + (log_p > mine + TIE_TOLERANCE).sum(axis=0)
    ties = (np.abs(difference(log_p, mine)) <= TIE_TOLERANCE).sum(axis=0) - 1
    return rank, np.where(np.isfinite(mine[0]), ties, 0)


def log_odds(log_p_truth: Array, log_p: Array, truth: Ints) -> Array:
    """log p/(1-p) of the truth; 1-p is summed over the others, so p near 1 keeps its digits."""
    others = log_p.copy()
    np.put_along_axis(others, truth[None, :], -np.inf, axis=0)
    top = np.maximum(others.max(axis=0), -1e300)
    with np.errstate(divide="ignore"):
        rest: Array = top + np.log(np.exp(others - top).sum(axis=0))
    return log_p_truth - rest


def difference(x: Array, y: Array) -> Array:
    """Difference of logs; NaN where both are the same infinity."""
    with np.errstate(invalid="ignore"):
        out: Array = x - y
    return out
