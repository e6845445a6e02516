"""log p(y* | A) of guesses as such, not relative to the truth; A is everybody but the record.

The engine's evidence needs ratios between guesses only. A Bayes factor against *somebody else*
needs the predictives themselves: ``log sum_h w_h p_h(y*) - log sum_h w_h`` with Pareto-smoothed
leave-one-out weights ``w_h = 1 / p_h(y_i)``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from bayes_risk._core.logspace import log_sum
from bayes_risk._core.parallel import in_order
from bayes_risk.evidence.contract import Posterior, Predictive, Targets
from bayes_risk.evidence.diagnostics import pareto_smoothed, relative_efficiency, weight_ess
from bayes_risk.evidence.runner import Plan

Array = npt.NDArray[np.float64]
BLOCK = 64  # targets at a time
FIRST = 64  # targets whose draws tell how much chains repeat themselves


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predicted:
    """Log predictives of one fit.

    Attributes
    ----------
    log_p : ndarray, shape (G, U)
        Minus infinity: no draw allows the guess.
    deviation : ndarray of float32, shape (B, G, U)
        How far the log predictive from each batch of draws lies from that of all.
    khat, ess : ndarray, shape (U,)
    """

    log_p: Array
    deviation: npt.NDArray[np.float32]
    khat: Array
    ess: Array

    def replaced(self, which: npt.NDArray[np.integer], other: "Predicted") -> "Predicted":
        """The same with some targets taken from another fit; it must have as many batches."""
        log_p, deviation = self.log_p.copy(), self.deviation.copy()
        khat, ess = self.khat.copy(), self.ess.copy()
        log_p[:, which], deviation[..., which] = other.log_p, other.deviation
        khat[which], ess[which] = other.khat, other.ess
        return Predicted(log_p=log_p, deviation=deviation, khat=khat, ess=ess)


def predicted(
    posterior: Posterior, targets: Targets, *, rng: np.random.Generator, n_jobs: int
) -> Predicted:
    """Leave-one-out log predictives of all guesses; targets not ``fitted`` are not taken out."""
    parts = [_of_part(p, targets, n_jobs) for p in posterior.predictives(targets, rng=rng)]
    if len(parts) == 1:
        return parts[0]
    return Predicted(  # independent a posteriori: their logs add
        log_p=np.sum([p.log_p for p in parts], axis=0),
        deviation=np.sum([p.deviation for p in parts], axis=0, dtype=np.float32),
        khat=np.max([p.khat for p in parts], axis=0),
        ess=np.min([p.ess for p in parts], axis=0),
    )


def refitted(
    plan: Plan,
    posteriors: Sequence[Posterior],
    targets: Targets,
    u: int,
    rng: np.random.Generator,
) -> list[Predicted]:
    """Log predictives of one target from m + 1 fits without it: no weights, so no k-hat."""
    one = targets.only(np.array([u]))
    unseen = replace(one, fitted=np.zeros(1, dtype=bool))
    record, found = int(one.record[0]), []
    for l, start in enumerate(posteriors):
        fit_rng, read_rng = rng.spawn(2)
        release = None if l == 0 else plan.release
        fit = plan.sampled.without(record, release, max(l - 1, 0), start=start, rng=fit_rng)
        found.append(predicted(fit, unseen, rng=read_rng, n_jobs=1))
    return found


def _of_part(predictive: Predictive, targets: Targets, n_jobs: int) -> Predicted:
    blocks = [slice(b, min(b + BLOCK, len(targets))) for b in range(0, len(targets), BLOCK)]
    n_chains = (int(predictive.batch.max()) + 1) // 2
    reff = relative_efficiency(predictive.log_truth(slice(0, min(FIRST, len(targets)))), n_chains)
    jobs = [partial(_of_block, predictive, b, reff, targets.fitted[b]) for b in blocks]
    parts = list(in_order(jobs, n_jobs=n_jobs, what="predictives"))
    return Predicted(
        log_p=np.concatenate([p.log_p for p in parts], axis=1),
        deviation=np.concatenate([p.deviation for p in parts], axis=2),
        khat=np.concatenate([p.khat for p in parts]),
        ess=np.concatenate([p.ess for p in parts]),
    )


def _of_block(
    predictive: Predictive, block: slice, reff: float, fitted: npt.NDArray[np.bool_]
) -> Predicted:
    log_truth, batch = predictive.log_truth(block), predictive.batch  # shape (H, U)
    log_w, khat = np.zeros(log_truth.shape), np.zeros(log_truth.shape[1])
    if fitted.any():
        log_w[:, fitted], khat[fitted] = pareto_smoothed(-log_truth[:, fitted], reff)
    sums = predictive.log_sums(block, log_w + log_truth)  # log sum_h w_h p_h(y*), (B, G, U)
    norm = np.stack([log_sum(log_w[batch == b]) for b in range(int(batch.max()) + 1)])
    log_p = log_sum(sums) - log_sum(norm)
    deviation = np.zeros(sums.shape)
    np.subtract(sums - norm[:, None], log_p, out=deviation, where=sums > -np.inf)
    return Predicted(
        log_p=log_p,
        deviation=deviation.astype(np.float32),
        khat=khat,
        ess=reff * weight_ess(log_w),
    )
