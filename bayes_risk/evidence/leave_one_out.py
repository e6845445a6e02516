"""log E[p(y*)] - log E[p(y_i)] of one fit: sums over draws and their batches, block by block.

The weights are smoothed 1 / p(y_i), which take the target out, or given by the draw alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from bayes_risk._core.logspace import change, log_sum
from bayes_risk._core.parallel import in_order

from .contract import Posterior, Predictive, Targets
from .diagnostics import pareto_smoothed, relative_efficiency, weight_ess

Array = npt.NDArray[np.float64]
FIRST = 128  # targets whose draws tell how much chains repeat themselves
BLOCK = 128  # targets at a time; more of them where draws are few, up to
ROOM = 2**18  # targets x draws
FEW, SHARES = 8, 4  # few targets are shared out too, whatever the number of workers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ratio:
    """log E[p(y*)] - log E[p(y_i)] of one fit.

    ``value`` (G, U); ``deviation`` of each batch of draws (B, G, U); ``khat`` and ``ess`` (U,);
    ``parts`` (k, G, U): the values that it is the sum of, where there are several.
    """

    value: Array
    deviation: npt.NDArray[np.float32]
    khat: Array
    ess: Array
    parts: Array | None = None


def ratio_of_fit(
    fit: Callable[[], Posterior], targets: Targets, rng: np.random.Generator, n_jobs: int
) -> Ratio:
    """Leave-one-out log ratios of a fit, its parts together."""
    parts = fit().predictives(targets, rng=rng)
    return together([loo_ratio(part, targets, n_jobs) for part in parts])


def loo_ratio(predictive: Predictive, targets: Targets, n_jobs: int) -> Ratio:
    """E[w p(y*)] / E[w p(y_i)] with w the smoothed 1 / p(y_i), block by block."""
    blocks = blocks_of(predictive, targets)
    first = predictive.log_truth(slice(0, min(FIRST, len(targets))))
    n_chains = (int(predictive.batch.max()) + 1) // 2
    reff = relative_efficiency(first, n_chains)
    jobs = [partial(_loo_block, predictive, b, reff, targets.fitted[b]) for b in blocks]
    return _side_by_side(list(in_order(jobs, n_jobs=n_jobs, what="evidence")))


def blocks_of(predictive: Predictive, targets: Targets) -> list[slice]:
    """Blocks of targets; a lone last one, added up in another order, joins those before it."""
    n = len(targets)
    size = min(max(BLOCK, ROOM // len(predictive.batch)), max(FEW, -(-n // SHARES)))
    starts = [b for b in range(0, n, size) if b == 0 or n - b > 1]
    return [slice(b, e) for b, e in zip(starts, [*starts[1:], n], strict=True)]


def _loo_block(
    predictive: Predictive, block: slice, reff: float, fitted: npt.NDArray[np.bool_]
) -> Ratio:
    """One block; targets that the fit has not seen (``fitted``, (U,)) need no weights."""
    log_p = predictive.log_truth(block)  # shape (H, U)
    log_w, khat = np.zeros(log_p.shape), np.zeros(log_p.shape[1])
    if fitted.any():
        log_w[:, fitted], khat[fitted] = pareto_smoothed(-log_p[:, fitted], reff)
    part = ratio_of_sums(predictive, block, log_w + log_p)
    return Ratio(
        value=part.value, deviation=part.deviation, khat=khat, ess=reff * weight_ess(log_w)
    )


def ratio_of_sums(predictive: Predictive, block: slice, log_v: Array) -> Ratio:
    """log of sum_h v_h p_h(y*)/p_h(y_i) over sum_h v_h, in all and batch by batch."""
    batch = predictive.batch
    sums = predictive.log_sums(block, log_v)  # shape (B, G, U)
    norm = np.stack([log_sum(log_v[batch == b]) for b in range(batch.max() + 1)])
    value = change(log_sum(sums), log_sum(norm))
    by_batch = change(sums, norm[:, None])
    return Ratio(
        value=value,
        deviation=change(by_batch, value, nothing=0.0).astype(np.float32),
        khat=np.zeros(log_v.shape[1]),
        ess=np.full(log_v.shape[1], float(len(log_v))),
    )


def weighted_ratio(predictive: Predictive, log_v: Array, targets: Targets, n_jobs: int) -> Ratio:
    """The same for weights (H,) that do not depend on the target."""
    blocks = blocks_of(predictive, targets)
    floor = np.where(np.isfinite(log_v), log_v, log_v[np.isfinite(log_v)].min() - 800.0)
    jobs = [partial(_of_weights, predictive, block, floor) for block in blocks]
    parts = list(in_order(jobs, n_jobs=n_jobs, what="evidence"))
    return _side_by_side(parts)


def _of_weights(predictive: Predictive, block: slice, log_v: Array) -> Ratio:
    """One block, all of its targets with the same weights (H,)."""
    of_each = np.repeat(log_v[:, None], block.stop - block.start, axis=1)
    return ratio_of_sums(predictive, block, of_each)


def _side_by_side(parts: Sequence[Ratio]) -> Ratio:
    """Blocks of targets, one after another."""
    return Ratio(
        value=np.concatenate([p.value for p in parts], axis=1),
        deviation=np.concatenate([p.deviation for p in parts], axis=2),
        khat=np.concatenate([p.khat for p in parts]),
        ess=np.concatenate([p.ess for p in parts]),
    )


def together(parts: Sequence[Ratio]) -> Ratio:
    """Parts that are independent a posteriori: their logs add."""
    if len(parts) == 1:
        return parts[0]
    return Ratio(
        value=np.sum([p.value for p in parts], axis=0),
        parts=np.stack([p.value for p in parts]),
        deviation=np.sum([p.deviation for p in parts], axis=0, dtype=np.float32),
        khat=np.max([p.khat for p in parts], axis=0),
        ess=np.min([p.ess for p in parts], axis=0),
    )
