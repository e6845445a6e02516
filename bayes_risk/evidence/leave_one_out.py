"""Predictives of one fit with the target left out: sums over draws and batches, block by block.

The weights are smoothed 1 / p(y_i), which take the target out, or given by the draw alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Flags, Ints, Rng
from bayes_risk._core.batches import in_batches
from bayes_risk._core.logspace import change, log_sum
from bayes_risk._core.parallel import in_order

from .contract import Posterior, Predictive, Targets
from .diagnostics import pareto_smoothed, relative_efficiency, weight_ess

T = TypeVar("T", bound=Any)
Reading = Callable[[Posterior, Targets, Rng], Sequence[Predictive]]
FIRST = 128  # targets whose draws tell how much chains repeat themselves
BLOCK = 128  # targets at a time; more of them where draws are few, up to
MAX_TARGET_DRAWS = 2**19  # targets x draws
FEW, SHARES = 8, 4  # few targets are shared out too, whatever the number of workers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ratio:
    """log E[p(y*)] of one fit, or that less log E[p(y_i)]."""

    value: Array  # (G, U), minus infinity where no draw allows the guess
    deviation: npt.NDArray[np.float32]  # (B, G, U): of each batch of draws
    khat: Array  # (U,)
    ess: Array  # (U,)
    parts: Array | None = None  # (k, G, U): what it is the sum of


def joined_targets(parts: Sequence[T]) -> T:
    """Targets one after another: the last axis of all arrays."""
    whole = {
        f.name: np.concatenate([getattr(part, f.name) for part in parts], axis=-1)
        for f in fields(parts[0])
        if isinstance(getattr(parts[0], f.name), np.ndarray)
    }
    return replace(parts[0], **whole)


def targets_replaced(found: T, which: npt.NDArray[np.integer], other: T) -> T:
    """The same with some targets taken from another fit; it must have as many batches."""
    changed = {
        f.name: getattr(found, f.name).copy()
        for f in fields(found)
        if isinstance(getattr(found, f.name), np.ndarray)
    }
    for name, values in changed.items():
        values[..., which] = getattr(other, name)
    return replace(found, **changed)


def read(posterior: Posterior, targets: Targets, rng: Rng) -> Sequence[Predictive]:
    """The predictives of a posterior."""
    return posterior.predictives(targets, rng=rng)


def ratio_of_fit(
    fit: Callable[[], Posterior], targets: Targets, rng: Rng, n_jobs: int, read: Reading = read
) -> Ratio:
    """Leave-one-out log ratios of a fit, its parts together."""
    return added_parts([leave_one_out(part, targets, n_jobs) for part in read(fit(), targets, rng)])


def leave_one_out(
    predictive: Predictive,
    targets: Targets,
    n_jobs: int,
    *,
    to_truth: bool = True,
    first: int = FIRST,
) -> Ratio:
    """log of sum_h w_h p_h(y*), w the smoothed 1 / p(y_i), less that of the truth, or of w."""
    blocks = target_blocks(predictive, targets)
    log_first = predictive.log_truth(slice(0, min(first, len(targets))))
    reff = efficiency(predictive, log_first)

    jobs = [partial(_loo_block, predictive, b, reff, targets.fitted[b], to_truth) for b in blocks]
    return joined_targets(list(in_order(jobs, n_jobs=n_jobs, what="evidence")))


def efficiency(predictive: Predictive, log_p: Array) -> float:
    """Effective draws per draw, by the truth's log predictives (H, U)."""
    return relative_efficiency(log_p, (int(predictive.batch.max()) + 1) // 2)


def leave_out_weights(log_p: Array, fitted: Flags, reff: float) -> tuple[Array, Array]:
    """Of log p(y_i), (H, U): log weights that take ``fitted`` targets out again, and k-hat."""
    log_w, khat = np.zeros(log_p.shape), np.zeros(log_p.shape[1])
    if fitted.any():
        log_w[:, fitted], khat[fitted] = pareto_smoothed(-log_p[:, fitted], reff)
    return log_w, khat


def target_blocks(predictive: Predictive, targets: Targets) -> list[slice]:
    """Blocks of targets; a lone last one, added up in another order, joins those before it."""
    n = len(targets)
    size = min(max(BLOCK, MAX_TARGET_DRAWS // len(predictive.batch)), max(FEW, -(-n // SHARES)))
    starts = [b for b in range(0, n, size) if b == 0 or n - b > 1]
    return [slice(b, e) for b, e in zip(starts, [*starts[1:], n], strict=True)]


def _loo_block(
    predictive: Predictive, block: slice, reff: float, fitted: Flags, to_truth: bool
) -> Ratio:
    log_p = predictive.log_truth(block)  # shape (H, U)
    log_w, khat = leave_out_weights(log_p, fitted, reff)
    log_v = log_w + log_p
    part = ratio_of_sums(predictive, block, log_v, log_v if to_truth else log_w)
    return replace(part, khat=khat, ess=reff * weight_ess(log_w))


def ratio_of_sums(
    predictive: Predictive, block: slice, log_v: Array, log_below: Array | None = None
) -> Ratio:
    """log of sum_h v_h p_h(y*)/p_h(y_i) over sum_h of ``below`` (v: relative to the truth)."""
    batch = predictive.batch
    sums = predictive.log_sums(block, log_v)  # shape (B, G, U)
    norm = by_batch(log_v if log_below is None else log_below, batch)
    value = change(log_sum(sums), log_sum(norm))
    each = change(sums, norm[:, None])
    return Ratio(
        value=value,
        deviation=change(each, value, nothing=0.0).astype(np.float32),
        khat=np.zeros(log_v.shape[1]),
        ess=np.full(log_v.shape[1], float(len(log_v))),
    )


def by_batch(log_w: Array, batch: Ints) -> Array:
    """Log sums of weights (H, U) over the draws of each batch, shape (B, U)."""
    return np.stack([log_sum(log_w[batch == b]) for b in range(int(batch.max()) + 1)])


def weighted_ratio(predictive: Predictive, log_v: Array, targets: Targets, n_jobs: int) -> Ratio:
    """The same for weights (H,) that do not depend on the target."""
    blocks = target_blocks(predictive, targets)
    floor = np.where(np.isfinite(log_v), log_v, log_v[np.isfinite(log_v)].min() - 800.0)
    jobs = [
        partial(ratio_of_sums, predictive, b, np.repeat(floor[:, None], b.stop - b.start, axis=1))
        for b in blocks
    ]
    return joined_targets(list(in_order(jobs, n_jobs=n_jobs, what="evidence")))


def added_parts(parts: Sequence[Ratio]) -> Ratio:
    """Parts that are independent a posteriori: their logs add."""
    if len(parts) == 1:
        return parts[0]
    B = min(len(p.deviation) for p in parts)
    moved = [in_batches(p.deviation[None], B)[0] for p in parts]
    return Ratio(
        value=np.sum([p.value for p in parts], axis=0),
        parts=np.stack([p.value for p in parts]),
        deviation=np.sum(moved, axis=0, dtype=np.float32),
        khat=np.max([p.khat for p in parts], axis=0),
        ess=np.min([p.ess for p in parts], axis=0),
    )


def pooled(parts: Sequence[Ratio]) -> Ratio:
    """The same ratio from several lots of chains, one draw of each counting alike."""
    if len(parts) == 1:
        return parts[0]
    batches = np.array([len(p.deviation) for p in parts], dtype=float)
    log_share = np.log(batches / batches.sum())
    value: Array = log_sum(np.stack([p.value for p in parts]) + log_share[:, None, None])
    moved = [change(p.value, value, nothing=0.0).astype(np.float32) for p in parts]
    return Ratio(
        value=value,
        deviation=np.concatenate([p.deviation + d for p, d in zip(parts, moved, strict=True)]),
        khat=np.max([p.khat for p in parts], axis=0),
        ess=np.sum([p.ess for p in parts], axis=0),
    )
