"""Balance of the evidence: a check of an audit by itself.

For every guess other than the truth the mean of ``R_l = p(Z^(l) | y*, y_-i) / p(Z^(l) | y)`` over
releases is 1, since ``Z ~ p(Z | y)``; and ``E[(R_l - 1)(R_k - 1)] = 0`` for releases that are
independent given y. The derivation and what was planted: ``docs/evidence.md``.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import variance_of_estimate

ALARM = 0.01  # how often sound evidence is called out of balance, both tests together
WEAK = 0.7  # log ratio in the other releases up to which a pair is looked at: a factor 2
NOISE, COMMON = 0.1, 0.02  # Monte Carlo variance of a log ratio, and of the base fit's part of it
AT_MOST = 100_000  # pairs
FEWEST, EFFECTIVE, RELEASES = 30, 10.0, 3  # pairs, what they are worth, and releases; below: silent


class Mean(NamedTuple):
    """A mean, its standard error, half of its interval of error rate ALARM / 2, pairs used."""

    value: float
    error: float
    half: float
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Mean ratio of the evidence of guesses and truth, and what releases share."""

    mean: Mean  # Of ``p(Z^(l) | y*, y_-i) / p(Z^(l) | y)`` over pairs and releases: 1 expected
    # Of ``(R_l - 1)(R_k - 1)`` over pairs and pairs of releases, as a share of the mean of
    # ``(R_l - 1)^2``: 0 expected of independent releases, positive where they share what the
    # audit takes to be drawn for each
    shared: Mean
    groups: dict[str, Mean]  # The first by how many audited records share the target's profile
    effective: float  # How many independent pairs the pairs are worth
    m: int  # Releases

    @property
    def outcome(self) -> Literal["balanced", "unbalanced", "shared", "not tested"]:
        """What it says; ``"shared"``: releases say the same more often than independent ones."""
        few = self.mean.pairs < FEWEST or not self.effective >= EFFECTIVE
        if self.m < RELEASES or few:
            return "not tested"
        if self.shared.value > self.shared.half:
            return "shared"
        return "balanced" if abs(self.mean.value - 1) <= self.mean.half else "unbalanced"

    def sentence(self) -> str:
        """In words."""
        if self.outcome == "not tested":
            why = f"{self.m} releases, and {RELEASES} are needed"
            if self.m >= RELEASES:
                why = f"{self.mean.pairs:,} pairs of record and guess, worth {self.effective:.0f}"
            return f"The balance of the evidence could not be tested: {why}."
        text = (
            f"Over {self.mean.pairs:,} pairs of record and guess, worth {self.effective:,.0f} "
            f"independent ones, a release is {self.mean.value:.3f} times as probable under the "
            f"guess as under the truth on average, where 1 is expected within {self.mean.half:.3f}"
        )
        if self.outcome == "shared":
            text += (
                f"; and releases share {self.shared.value:.2f} of their evidence, where 0 is "
                f"expected up to {self.shared.half:.2f}"
            )
        return f"{text}."


def balance(
    log_evidence: Array, deviations: npt.NDArray[np.floating], pairs: Flags, of_case: Ints
) -> Balance:
    """Balance of the evidence of independent releases: log ratios of guess and truth (m, G, U).

    ``deviations`` (F, B, G, U): Monte Carlo, F = m + 1, the base fit's times -m first; or of the
    sum. ``pairs`` (G, U): guesses that are possible and other than the truth. ``of_case`` (U,):
    how many audited records each case stands for. Cost: O(m^2) passes over at most 100,000 pairs.
    """
    m = len(log_evidence)
    g, u = np.nonzero(pairs)
    some = slice(None, None, max(-(-len(g) // AT_MOST), 1))
    g, u = g[some], u[some]
    own, base = _noise(deviations[:, :, g, u], m)  # shapes (m, P), (B, P)
    common = variance_of_estimate(base[None])  # shape (P,)
    quiet = (own <= NOISE).all(axis=0) & (common <= COMMON)
    log_r = log_evidence[:, g, u][:, quiet] - (own + common)[:, quiet] / 2
    base, common, records = base[:, quiet], common[quiet], of_case[u[quiet]]
    strong = np.abs(log_r) > WEAK  # shape (m, P)
    alike = {
        "one record": records == 1,
        "2 to 9 records": (records > 1) & (records < 10),
        "10 records or more": records >= 10,
    }
    ratio = np.exp(log_r)
    mean, effective = _mean(ratio, strong, base, np.ones(len(records), dtype=bool))
    return Balance(
        mean=mean,
        shared=_shared(ratio - 1, strong, common, effective),
        groups={k: _mean(ratio, strong, base, v)[0] for k, v in alike.items() if v.any()},
        effective=effective,
        m=m,
    )


def _noise(deviations: npt.NDArray[np.floating], m: int) -> tuple[Array, Array]:
    """Variance of each release's own noise (m, P); deviations (B, P) of what is common to all."""
    dev = deviations.astype(float)
    if len(dev) == m + 1:
        own = np.stack([variance_of_estimate(one[None]) for one in dev[1:]])
        return own, dev[0] / m
    one = variance_of_estimate(dev) / m
    return np.repeat(one[None], m, axis=0), np.zeros(dev.shape[1:])


def _weak_elsewhere(strong: Flags, *but: int) -> Flags:
    """Pairs (P,) that are weak in all releases but these."""
    others = np.delete(strong, but, axis=0)
    return np.asarray(~others.any(axis=0))


def _mean(ratio: Array, strong: Flags, base: Array, of: Flags) -> tuple[Mean, float]:
    """Mean ratio of some pairs with its error, and how many independent pairs they are worth."""
    m, chosen = len(ratio), [_weak_elsewhere(strong, l) & of for l in range(len(ratio))]
    pairs = min(int(which.sum()) for which in chosen)
    if m < 2 or not pairs:
        return Mean(float("nan"), float("nan"), float("nan"), pairs), float("nan")
    each = np.array([ratio[l, which].mean() for l, which in enumerate(chosen)])
    moved = np.mean([(base * ratio[l])[:, which].mean(axis=1) for l, which in enumerate(chosen)], 0)
    between, noise = each.var(ddof=1) / m, float(variance_of_estimate(moved[None, :, None])[0])
    spread = np.mean([((ratio[l, which] - 1) ** 2).mean() for l, which in enumerate(chosen)])
    worth = float(spread / max(each.var(ddof=1), 1e-300))
    half = np.hypot(_t(m - 1, 4) * np.sqrt(between), _t(len(base) - 1, 4) * np.sqrt(noise))
    error = float(np.sqrt(between + noise))
    return Mean(float(each.mean()), error, float(half), pairs), min(worth, float(pairs))


def _shared(x: Array, strong: Flags, common: Array, effective: float) -> Mean:
    """What releases share: mean of W_lk, l < k, over mean of W_ll; common noise taken out.

    The variance of W_lk is seen three times: in their own spread, as half the variance of W_ll, and
    as mean(W_ll)^2 / effective pairs. The largest counts: each is estimated from few releases.
    """
    m = len(x)
    if m < RELEASES:
        return Mean(float("nan"), float("nan"), float("nan"), 0)
    W, fewest = np.empty((m, m)), x.shape[1]
    for l in range(m):
        for k in range(l, m):
            which = _weak_elsewhere(strong, l, k)
            fewest = min(fewest, int(which.sum()))
            lifted = np.expm1(common[which]).mean() if l != k and which.any() else 0.0
            W[l, k] = (x[l, which] * x[k, which]).mean() - lifted if which.any() else np.nan
    off, own = W[np.triu_indices(m, 1)], np.diag(W)
    if not own.any():  # every ratio is 1: there is nothing to share
        return Mean(float("nan"), float("nan"), float("nan"), 0)
    noise = float(np.expm1(common).mean()) if len(common) else float("nan")
    seen = off.var(ddof=1), own.var(ddof=1) / 2, own.mean() ** 2 / effective
    variance = float(np.max(seen))
    error = np.sqrt(variance / len(off)), noise
    half = np.hypot(_t(m - 1, 2) * error[0], 2 * error[1])
    whole = float(own.mean())
    return Mean(
        float(off.mean()) / whole, float(np.hypot(*error)) / whole, float(half) / whole, fewest
    )


def _t(df: int, part: int) -> float:
    """Quantile of Student's t that ALARM / part lies above."""
    return -float(stdtrit(df, ALARM / part))
