"""log p(Z^(l) | y*, A) for every target, guess and release, relative to the truth.

Data sets from one draw of the parameters are one release here: p(Z^(1..m) | y*, A), m = 1.

The ways to it and their derivation: `docs/evidence.md`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.arrays import Array, Rng
from bayes_risk._core.batches import standard_error, variance_by_fit, zeros
from bayes_risk._core.logspace import change
from bayes_risk.release.release import EncodedRelease

from .contract import Importance, Posterior, Sampled, Simulated, Targets, rows_kept
from .diagnostics import pareto_smoothed, weight_ess
from .learnt import Learnt
from .leave_one_out import FEW, Ratio, added_parts, pooled, ratio_of_sums, weighted_ratio
from .modes import Modes

PART = 2**21  # deviations at a time, in double precision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """Log evidence of guesses relative to the truth, and how sure it is."""

    # (m, G, U): by draw of the parameters: m is 1 where all data sets come from one
    log_evidence: Array
    # (F, B, G, U): by fit and batch of draws, times the fit's factor in the sum over releases
    deviations: npt.NDArray[np.float32]
    khat: Array  # (U,): the largest of the fits
    ess: Array  # (U,): the smallest effective number of draws of the fits
    # (G, U): log p(y* | y_A) of the base fit, where there is one (F = m + 1), relative to the
    # truth's; ``deviations[0]`` are its own, times -m
    base: Array | None = None
    # (B, G, U): those of ``base``, where ``deviations[0]`` are not its own, times -m
    base_deviations: npt.NDArray[np.float32] | None = None
    modes: Modes | None = None  # where the release led the chains: those they were found in
    apart: "tuple[Evidence, ...]" = ()  # of each mode, where the release does not choose
    # (k, m, G, U), or (k, 1, G, U) summed over releases: of each factor of a `Factored` fit, up to
    # a constant for each target; None: one factor, or none that can be told
    by_column: Array | None = None
    learnt: Learnt | None = None  # of runs of a generator: what they showed
    few: bool = False  # whether chains differ by more than draws of one, and are few
    # of several releases, joined: of how many of the data sets the base fit is; 0: of all
    joined: int = 0

    def __post_init__(self) -> None:
        if not self.deviations.any():  # exact: one zero stands for all, as they would be large
            object.__setattr__(
                self, "deviations", zeros(self.deviations.shape, self.deviations.dtype)
            )

    @property
    def few_chains(self) -> bool:
        """Whether errors are between a few chains that each have a say: with Student's t."""
        return self.modes is not None or self.few or self.learnt is not None

    @property
    def of_base(self) -> int:
        """How many data sets' evidence the base fit moves."""
        return self.joined or len(self.log_evidence)

    def moved_base(self, block: slice = slice(None)) -> npt.NDArray[np.float32]:
        """How far each batch of the base fit moves log p(y* | y_A), shape (B, G, U)."""
        if self.base_deviations is not None:
            return self.base_deviations[..., block]
        return np.asarray(self.deviations[0, ..., block] / -np.float32(self.of_base))

    def mcse(self) -> Array:
        """Monte Carlo standard error of the log evidence summed over releases, shape (G, U)."""
        F, B, G, U = self.deviations.shape
        if not self.deviations.any():
            return zeros((G, U), float)
        out, size = np.empty((G, U)), max(PART // (F * B * G), FEW)
        for part in (slice(u, u + size) for u in range(0, U, size)):  # all would be a run's peak
            moved = self.deviations[..., part].astype(float)
            out[:, part] = standard_error(moved, few=self.few_chains)
        return out

    def within(self, target_mcse: float) -> bool:
        """Whether 95 % of the errors are at most the target."""
        return bool(np.quantile(self.mcse(), 0.95) <= target_mcse)

    def share_by_fit(self) -> Array:
        """Variance that each fit brings in, median over targets and guesses, shape (F,)."""
        variance = variance_by_fit(self.deviations.astype(float))
        return np.median(variance.reshape(len(variance), -1), axis=1)

    def first(self, m: int) -> "Evidence":
        """Evidence of the first m releases, with fits of their own; k-hat and ESS stay."""
        among, deviations = len(self.log_evidence), self.deviations
        if len(deviations) > 1:  # the base fit counts m times, no longer so often
            deviations = deviations[: m + 1].copy()
            deviations[0] *= np.float32(m / among)
        log_evidence = self.log_evidence[:m]
        by_column = self.by_column
        if by_column is not None:
            by_column = by_column[:, :m] if by_column.shape[1] == among else None
        apart = tuple(one.first(m) for one in self.apart)
        return replace(
            self, log_evidence=log_evidence, deviations=deviations, by_column=by_column, apart=apart
        )


def known_evidence(found: Simulated, targets: Targets) -> Evidence:
    """Log evidence that the model computed itself."""
    return relative_to_truth(
        targets,
        log_evidence=found.log_p.copy(),
        deviations=found.deviations[None].astype(np.float32),
        khat=np.zeros(len(targets)),
        ess=found.ess,
        by_column=found.by_column,
        learnt=found.learnt,
    )


def importance_evidence(
    fit: Importance, release: EncodedRelease, targets: Targets, *, n_jobs: int
) -> Evidence:
    """The published estimator (Reiter, Wang & Zhang 2014), where one draw may decide it all.

    For each release ``log sum_h p(Z|Theta_h) w_h(y*) - log sum_h w_h(y*)``, ``w_h(y*) =
    p(y*|Theta_h) / p(y_i|Theta_h)``, without the draws that made it: `docs/evidence.md`.
    """
    by_table = fit.log_release(release)  # shape (m, H)
    log_p = np.stack([by_table[list(l)].sum(axis=0) for l in release.by_draw])
    made_by = release.source.draw_index or ()  # of another fit: no draws of this one need go
    made_it = np.isin(np.arange(log_p.shape[1]), made_by)
    log_p[:, made_it] = -np.inf
    plain = np.where(made_it, -np.inf, 0.0)
    at_theta = fit.theta_predictive(targets, release, None)
    unweighted = weighted_ratio(at_theta, plain, targets, n_jobs)
    parts, deviations = [], [np.zeros_like(unweighted.deviation)]
    for l in range(len(log_p)):
        part = weighted_ratio(fit.theta_predictive(targets, release, l), log_p[l], targets, n_jobs)
        parts.append(part)
        deviations.append(part.deviation - unweighted.deviation)
    used = np.where(made_it, log_p[:, ~made_it].min(), log_p) if made_it.any() else log_p
    khat = max(float(pareto_smoothed(row[~made_it][:, None])[1][0]) for row in used)
    ess = min(float(weight_ess(row[~made_it][:, None])[0]) for row in used)
    return relative_to_truth(
        targets,
        log_evidence=np.stack([change(p.value, unweighted.value) for p in parts]),
        deviations=np.stack(deviations),
        khat=np.full(len(targets), khat),
        ess=np.full(len(targets), ess),
    )


def refitted(
    fit: Sampled,
    release: EncodedRelease,
    fits: Sequence[Sequence[Posterior]],
    target: Targets,
    rng: Rng,
    read: Callable[[Posterior, Targets, Rng], Ratio] | None = None,
    combine: Callable[[Iterable[Ratio], int, Targets], Evidence] | None = None,
) -> Evidence:
    """The predictives of a target from m + 1 fits without it, which start from ``fits``.

    ``read``, ``combine``: what is taken of each, and made of all, by default log ratios and
    `combined_ratios`.
    """
    record, m = int(target.record[0]), len(fits) - 1
    children = iter(rng.spawn(2 * (m + 1) * len(fits[0])))
    of = [(None, 0), *((release, l) for l in range(m))]
    posteriors = [
        [fit.without(record, seen, l, start=start, rng=next(children)) for start in starts]
        for (seen, l), starts in zip(of, fits, strict=True)
    ]
    one = slice(0, 1)

    def ratio(posterior: Posterior) -> Ratio:
        """Log ratios of a fit that has not seen the target."""
        if read is not None:
            return read(posterior, target, next(children))
        parts = posterior.predictives(target, rng=next(children))
        return added_parts([ratio_of_sums(part, one, part.log_truth(one)) for part in parts])

    ratios = (pooled([ratio(of) for of in lots]) for lots in posteriors)
    return (combine or combined_ratios)(ratios, m, target)


def combined_ratios(ratios: Iterable[Ratio], m: int, targets: Targets) -> Evidence:
    """Log ratio of each release less the base's, which comes first; its error counts m times."""
    each = iter(ratios)
    base = next(each)
    khat, ess = base.khat, base.ess
    log_evidence = np.empty((m, *base.value.shape))
    deviations = np.empty((m + 1, *base.deviation.shape), dtype=np.float32)
    np.multiply(base.deviation, np.float32(-m), out=deviations[0])
    rows, by_column = rows_kept(log_evidence), None
    if base.parts is not None:
        by_column = np.zeros((len(base.parts), rows, *base.value.shape))
    for l, ratio in enumerate(each):
        log_evidence[l] = change(ratio.value, base.value)
        deviations[l + 1] = ratio.deviation
        khat, ess = np.maximum(khat, ratio.khat), np.minimum(ess, ratio.ess)
        if by_column is None or base.parts is None or ratio.parts is None:
            by_column = None
        else:
            by_column[:, l % rows] += change(ratio.parts, base.parts)
    how = {"khat": khat, "ess": ess, "base": base.value, "by_column": by_column}
    return relative_to_truth(targets, log_evidence=log_evidence, deviations=deviations, **how)


def relative_to_truth(
    targets: Targets, *, log_evidence: Array, deviations: Any, base: Array | None = None, **how: Any
) -> Evidence:
    """Evidence less that of the truth, in place; of the best guess where that is impossible."""
    truth = targets.guesses.truth
    at = np.take_along_axis(log_evidence, truth[None, None, :], axis=1)
    best = log_evidence.max(axis=1, keepdims=True)
    log_evidence -= np.where(at > -np.inf, at, np.where(best > -np.inf, best, 0.0))
    if deviations.any():
        deviations -= np.take_along_axis(deviations, truth[None, None, None, :], axis=2)
    if base is not None:
        at = np.take_along_axis(base, truth[None], axis=0)
        best = np.maximum(base.max(axis=0, keepdims=True), -1e300)
        base = base - np.where(at > -np.inf, at, best)
    return Evidence(log_evidence=log_evidence, deviations=deviations, base=base, **how)
