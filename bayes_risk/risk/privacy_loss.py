"""Realised privacy loss: how far this release moves the odds between any two guesses of a record.

Made of evidence that an audit has gathered, so it costs nothing more.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit, logit

from bayes_risk._core.arrays import Array, Flags, Ints
from bayes_risk._core.batches import standard_error
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import real_number
from bayes_risk.data.base_result import OfTargets
from bayes_risk.evidence.evidence import Evidence

from .attribute import AttributeEvidence
from .posterior import at_truth, check_possible, disagreed
from .result import AttributeRisk

KEPT = ("among_possible", "ruled_out", "khat", "reliable")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PrivacyLoss(OfTargets):
    """``eps_i = max over y*, y' of |log p(Z | y*, A) - log p(Z | y', A)|`` over a record's guesses.

    Of this release, these data and these guesses: no guarantee of differential privacy.

    Attributes
    ----------
    index, assumptions, seed_entropy, case, variables, khat, reliable
        As in `AttributeRisk`, of the evidence: arrays live on cases.
    loss, mcse : ndarray, shape (n_cases,)
        eps_i; infinite where the release rules a guess out. Its standard error, the two extreme
        guesses being taken as they are; two of them reach the loss in each mode that the release
        leaves open. Of an `AttributeRisk`, which keeps no deviations of guesses, an upper bound, or
        with chains that start from the release the sum of both guesses' errors. NaN if infinite.
    low : ndarray, shape (n_cases,)
        The extremes are picked on one half of the draws and their distance is measured on the
        other: in expectation not above the loss, as ``loss`` is not below it. NaN where that cannot
        be done.
    among_possible, ruled_out : ndarray, shape (n_cases,)
        The loss among guesses that the release does not rule out, and how many it rules out.
    extremes : ndarray, shape (2, n_cases, q)
        Codes of the guesses that the release speaks for most, and least.
    """

    PICTURE: ClassVar[str] = "plot_privacy_loss"
    khat: Array
    reliable: Flags
    loss: Array
    mcse: Array
    low: Array
    among_possible: Array
    ruled_out: Ints
    extremes: npt.NDArray[Any]

    @property
    def records(self) -> pd.DataFrame:
        """One row per target, indexed as the input.

        Columns: ``privacy_loss`` eps_i; its ``mcse``; ``low`` (see the class); ``odds_factor``
        exp(eps_i), by which the odds of two guesses move at most; ``even_odds_become``, the
        probability that a guess held at even odds can reach at most; ``among_possible`` and
        ``ruled_out``; ``khat``; ``reliable``. Without the release the loss is 0.
        """
        with np.errstate(over="ignore"):
            factor = np.exp(self.loss)
        columns = {
            "privacy_loss": self.loss,
            "mcse": self.mcse,
            "low": self.low,
            "odds_factor": factor,
            "even_odds_become": expit(self.loss),
            **{name: getattr(self, name) for name in KEPT},
        }
        return self.by_target(columns)

    def summary(self) -> pd.DataFrame:
        """File level; columns ``value``, ``mcse``, ``low`` and ``baseline`` (without the release).

        Rows: ``max_privacy_loss`` (of the file: the largest of the records'),
        ``q95_privacy_loss``, ``median_privacy_loss``; ``max_even_odds_become``;
        ``max_among_possible``; ``with_guesses_ruled_out``, ``targets``, ``unreliable`` (numbers of
        records). ``mcse`` and ``low`` are those of the record that holds the maximum; the maximum
        of noisy losses lies above the largest loss, and ``low`` does not share that bias.
        """
        table, nan = self.records, float("nan")
        loss = table["privacy_loss"]
        top = table.iloc[int(np.argmax(loss))]
        p = top["even_odds_become"]
        rows = {
            "max_privacy_loss": (loss.max(), top["mcse"], table["low"].max(), 0.0),
            "q95_privacy_loss": (_quantile(loss, 0.95), nan, _quantile(table["low"], 0.95), 0.0),
            "median_privacy_loss": (_quantile(loss, 0.5), nan, _quantile(table["low"], 0.5), 0.0),
            "max_even_odds_become": (p, p * (1 - p) * top["mcse"], expit(table["low"].max()), 0.5),
            "max_among_possible": (table["among_possible"].max(), nan, nan, 0.0),
            "with_guesses_ruled_out": (float((table["ruled_out"] > 0).sum()), nan, nan, 0.0),
            "targets": (float(len(table)), nan, nan, nan),
            "unreliable": (float((~table["reliable"]).sum()), nan, nan, nan),
        }
        columns = ["value", "mcse", "low", "baseline"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def bounds(self, prior: float) -> pd.DataFrame:
        """What the probability of a guess, or of any set of guesses, can become.

        Posterior odds differ from prior odds by at most the factor exp(eps_i), so a probability p
        stays between ``p / (p + (1 - p) exp(eps_i))`` and ``p exp(eps_i) / (p exp(eps_i) + 1 - p)``
        whatever the prior within and outside the set.
        One row per target: ``lowest`` and ``highest``.
        """
        if not 0 <= real_number("prior", prior, "a number from 0 to 1") <= 1:
            raise InputError("prior", prior, "is not a probability; give a number from 0 to 1")
        eps = self.loss[self.case]
        if prior in (0, 1):  # nothing moves a certainty
            low = high = np.full(len(eps), float(prior))
        else:
            low, high = expit(logit(prior) - eps), expit(logit(prior) + eps)
        return pd.DataFrame({"lowest": low, "highest": high}, index=self.index)

    def extreme_guesses(self, label: Hashable) -> pd.DataFrame:
        """The guesses of a record that the release speaks for most and least; near the truth."""
        codes = self.extremes[:, self.case[self.position(label)]]
        return self.decoded(codes, pd.Index(["most", "least"]))


def privacy_loss(evidence: AttributeEvidence | AttributeRisk) -> PrivacyLoss:
    """Realised privacy loss of every record: the widest gap in log evidence between two guesses.

    ``eps_i = max over y*, y' of |log p(Z | y*, A) - log p(Z | y', A)|``, so that for any prior and
    any two guesses ``|log posterior odds - log prior odds| <= eps_i`` (McClure & Reiter 2012).

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
    """
    if isinstance(evidence, AttributeEvidence):
        of: Any = evidence.found
        searched, counted = evidence.searched is not None, evidence.cases.guesses.counted
        codes, words = evidence.cases.guesses.codes, evidence.words
        variables = tuple(evidence.microdata.variables[j] for j in evidence.cases.columns)
    elif isinstance(evidence, AttributeRisk):
        of, searched = evidence, bool(evidence.left_out.any())
        counted = np.isfinite(evidence.log_prior)
        codes, words, variables = evidence.guesses, evidence.assumptions, evidence.variables
    else:
        raise InputError(
            f"privacy_loss was given a {type(evidence).__name__}; give what attribute_evidence or "
            "attribute_risk returns"
        )
    if searched:
        raise InputError(
            "these guesses were searched coarse to fine, and those that the release speaks against "
            "most were left out; give a larger `budget`, or a coarser grid"
        )
    total = np.where(counted, of.log_evidence.sum(axis=0), np.nan)  # shape (G, U)
    check_possible(total)
    most, least = np.nanargmax(total, axis=0), np.nanargmin(total, axis=0)
    if isinstance(evidence, AttributeEvidence):
        given, found = evidence.limits, evidence.found
        each = [_of_chains(one, evidence) for one in (found, *found.apart)]
        losses, errors, lows, apart = (np.stack(part) for part in zip(*each, strict=True))
        # two errors reach what each mode left open says
        mcse, low = np.max(0.5 * np.abs(losses - losses[0]) + errors, axis=0), lows.min(axis=0)
        doubtful = apart[1:].any(axis=0) if found.apart else apart[0]
        good = (found.khat <= given.khat) & (found.ess >= given.ess) & ~(mcse > given.log_odds)
        reliable = (good & ~doubtful) | evidence.disclosed
    else:
        errors, reliable = evidence.mcse_log_evidence, evidence.reliable
        mcse, low = at_truth(errors, most) + at_truth(errors, least), np.full(len(most), np.nan)
    ruled_out = np.isneginf(total)
    possible = np.where(ruled_out, np.nan, total)
    among = np.nanmax(possible, axis=0) - np.nanmin(possible, axis=0)
    some = ruled_out.any(axis=0)
    return PrivacyLoss(
        index=evidence.index,
        case=evidence.case,
        loss=np.where(some, np.inf, among),
        mcse=np.where(some, np.nan, mcse),
        low=np.where(some, np.inf, np.minimum(low, among)),
        among_possible=among,
        ruled_out=ruled_out.sum(axis=0),
        khat=of.khat,
        reliable=reliable,
        variables=variables,
        extremes=codes[np.stack([most, least]), np.arange(total.shape[1])],
        assumptions=words,
        seed_entropy=evidence.seed_entropy,
    )


def _of_chains(found: Evidence, given: AttributeEvidence) -> tuple[Array, Array, Array, Flags]:
    """Loss among possible guesses, its error and unbiased value (U,), whether chains disagree."""
    total = np.where(given.cases.guesses.counted, found.log_evidence.sum(axis=0), np.nan)
    most, least = np.nanargmax(total, axis=0), np.nanargmin(total, axis=0)
    deviations = found.deviations.astype(float)
    apart = at_truth(deviations, most) - at_truth(deviations, least)  # shape (F, B, U)
    with np.errstate(invalid="ignore"):
        loss = at_truth(total, most) - at_truth(total, least)
    possible, B = np.where(np.isneginf(total), np.nan, total), deviations.shape[1]
    halves = [
        possible + deviations[:, part].mean(axis=1).sum(axis=0)
        for part in (slice(0, B // 2), slice(B // 2, B))
    ]
    low = np.zeros(total.shape[1])
    for picked, measured in (halves, halves[::-1]):  # extremes of one half, their distance in other
        at, below = np.nanargmax(picked, axis=0), np.nanargmin(picked, axis=0)
        low += 0.5 * (at_truth(measured, at) - at_truth(measured, below))
    error = standard_error(apart, few=found.few_chains)
    return np.where(np.isfinite(loss), loss, 0.0), error, low, disagreed(found, apart)


def _quantile(values: pd.Series, q: float) -> float:
    """The value that so many records do not exceed; infinite ones count."""
    return float(np.quantile(values.to_numpy(), q, method="inverted_cdf"))
