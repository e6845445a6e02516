"""From log predictives to the log Bayes factor of membership, and its Monte Carlo error.

``log BF = sum_l log r_l(c) - log E[prod_l r_l(y')]`` with ``r_l = p(. | A, Z^(l)) / p(. | A)`` and
``y'`` from ``p(. | A)``. The derivation stands in `docs/membership.md`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayes_risk._core.logspace import log_sum
from bayes_risk.evidence.leave_one_out import Ratio

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Odds:
    """Log Bayes factors of C candidates for each of U places.

    Attributes
    ----------
    log_bayes_factor : ndarray, shape (C, U)
    deviations : ndarray of float32, shape (F, B, C, U)
        By fit and batch of draws.
    variance_of_draws : ndarray, shape (U,)
        What the drawn alternatives add to the variance; 0 where all are listed, or none needed.
    """

    log_bayes_factor: Array
    deviations: npt.NDArray[np.float32]
    variance_of_draws: Array


@dataclass(frozen=True, slots=True, eq=False)
class Normaliser:
    """log E[prod_l r_l(y')], its derivatives by the log predictives, and its sampling variance.

    ``by_base`` and ``by_release`` (m of them) have shape (L, U).
    """

    log_value: Array
    by_base: Array
    by_release: Sequence[Array]
    variance: Array


def odds(found: Sequence[Ratio], L: int, log_q: Array | None, linked: bool) -> Odds:
    """Log Bayes factors of candidates: the first C guesses, the last L being alternatives.

    Parameters
    ----------
    found : sequence of Ratio
        Of the base fit, and of each of the m augmented fits; guesses (C + L, U).
    L : int
        Number of alternatives; 0: none are needed.
    log_q : ndarray, shape (L, U), or None
        Log density that the alternatives were drawn from; None: they are all that can be.
    linked : bool
        Whether the release ties synthetic values to the record itself; then the ratios r_l are
        known up to constants only.
    """
    base, releases = found[0], found[1:]
    C = len(base.value) - L
    log_r = [_minus(f.value, base.value) for f in releases]
    value = np.sum([r[:C] for r in log_r], axis=0)
    deviations = np.stack([f.deviation[:, :C] for f in found])
    deviations[0] *= np.float32(-len(releases))
    variance = np.zeros(value.shape[1])
    if L:
        log_omega = base.value[C:] - (0.0 if log_q is None else log_q)
        n = normaliser(log_omega, [r[C:] for r in log_r], drawn=log_q is not None, linked=linked)
        value, variance = value - n.log_value, n.variance
        for d, w, f in zip(deviations, [n.by_base, *n.by_release], found, strict=True):
            d -= np.einsum("lu,blu->bu", w, f.deviation[:, C:])[:, None].astype(np.float32)
    return Odds(log_bayes_factor=value, deviations=deviations, variance_of_draws=variance)


def normaliser(
    log_omega: Array, log_r: Sequence[Array], *, drawn: bool, linked: bool
) -> Normaliser:
    """Weighted mean over alternatives of prod_l r_l, shapes (L, U)."""
    if linked:
        return _self_normalised(log_omega, log_r, drawn)
    plain = _plain(log_omega, log_r, drawn)
    if not drawn:
        return plain
    held = _held(log_omega, log_r)
    better = (held.variance < plain.variance) & np.isfinite(held.log_value)
    return Normaliser(
        np.where(better, held.log_value, plain.log_value),
        np.where(better, held.by_base, plain.by_base),
        [np.where(better, a, b) for a, b in zip(held.by_release, plain.by_release, strict=True)],
        np.where(better, held.variance, plain.variance),
    )


def _plain(log_omega: Array, log_r: Sequence[Array], drawn: bool) -> Normaliser:
    """sum_k omega_k prod_l r_l(k); of draws their mean."""
    m, L = len(log_r), len(log_omega)
    log_terms = log_omega + np.sum(log_r, axis=0)
    total = log_sum(log_terms)
    share = np.exp(log_terms - total)  # sums to one over alternatives
    return Normaliser(
        total - (np.log(L) if drawn else 0.0),
        (1.0 - m) * share,
        [share] * m,
        _variance_of_mean(share * L) if drawn else np.zeros(len(total)),
    )


def _held(log_omega: Array, log_r: Sequence[Array]) -> Normaliser:
    """The same by draws, with E[r_l] = 1 as control: 1 + mean omega (prod r - 1 - sum (r_l - 1)).

    Of two releases: ``1 + mean omega (r_1 - 1)(r_2 - 1)``.
    """
    m, L = len(log_r), len(log_omega)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        omega, r = np.exp(log_omega), [np.exp(x) for x in log_r]
        together = np.exp(np.sum(log_r, axis=0))
        terms = omega * (together - 1.0 - np.sum([x - 1.0 for x in r], axis=0))
        value = 1.0 + terms.mean(axis=0)
        return Normaliser(
            np.log(np.where(value > 0, value, np.nan)),
            (1.0 - m) * omega * (together - 1.0) / (L * value),
            [omega * (together - x) / (L * value) for x in r],
            _variance_of_mean(terms / value),
        )


def _self_normalised(log_omega: Array, log_r: Sequence[Array], drawn: bool) -> Normaliser:
    """Where r_l is known up to a constant, which cancels against that of the candidate."""
    m = len(log_r)
    log_terms = log_omega + np.sum(log_r, axis=0)
    top, below = log_sum(log_terms), log_sum(log_omega)
    share, prior = np.exp(log_terms - top), np.exp(log_omega - below)
    return Normaliser(
        top - below,
        (1.0 - m) * share - prior,
        [share] * m,
        ((share - prior) ** 2).sum(axis=0) if drawn else np.zeros(len(top)),
    )


def _variance_of_mean(terms: Array) -> Array:
    variance: Array = terms.var(axis=0, ddof=1) / len(terms)
    return variance


def _minus(after: Array, before: Array) -> Array:
    """Difference of logs; what is impossible stays so."""
    out = np.full(after.shape, -np.inf)
    np.subtract(after, before, out=out, where=(after > -np.inf) & (before > -np.inf))
    return out
