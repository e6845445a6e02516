"""What a verdict is made of: thresholds, reasons, and the words for both."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from bayes_risk._core.validate import number

Outcome = Literal["within your thresholds", "above your thresholds", "inconclusive"]
Usefulness = Literal["useful enough", "less useful than wanted", "usefulness inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What the agency accepts; ``docs/reading-the-numbers.md`` gives reasons for the defaults.

    Attributes
    ----------
    attribute_probability : float, in (0, 1]
        The release should lift no record's true values above this probability.
    attribute_odds_factor : float, at least 1
        A record counts as lifted if the release raises the odds of its true values by more than
        this factor.
    attribute_log_bayes_factor : float, positive
        The release should not raise the log odds of any record's truth by more than this.
    true_match_rate : float, in [0, 1]
        Share of all records that may be matched uniquely and correctly, pooled or per release.
    identical_records : float, in [0, 1]
        Share of a file's records that may equal the original's record of the same row, where nobody
        else in the original does.
    unique_values : float, in [0, 1]
        Share of the released values of a number that may be genuine values of a single record,
        beyond the share that a fresh sample would show.
    replicated_uniques : float, in [0, 1]
        Share of all records that may be unique on the keys in the original and in a file alike.
    share_unreliable : float, in [0, 1]
        Share of targets whose number the diagnostics may reject before the verdict is inconclusive.
    rhat : float above 1, or None
        Largest R-hat of the fit that needs no explanation; None: not judged.
    membership_auc : float, in [0, 1], or None
        How often the release may point to the member of a pair; None: not judged.
    membership_log_bayes_factor : float, positive, or None
        The release should not raise the log odds that a member is in the data by more than this;
        None: not judged.
    utility : mapping of measure to float, or None
        Rows of ``Utility.summary()``: what they may be at most (overlap of intervals: at least);
        None: not judged.
    """

    attribute_probability: float = 0.5
    attribute_odds_factor: float = 1.5
    attribute_log_bayes_factor: float = 3.0
    true_match_rate: float = 0.05
    identical_records: float = 0.05
    unique_values: float = 0.05
    replicated_uniques: float = 0.1
    share_unreliable: float = 0.01
    rhat: float | None = 1.05
    membership_auc: float | None = None
    membership_log_bayes_factor: float | None = None
    utility: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        limits = {f.name: getattr(self, f.name) for f in fields(self)}
        utility = limits.pop("utility") or {}
        for name, limit in {**limits, **utility}.items():
            if limit is not None:
                number(f"threshold {name}", limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One sentence of the verdict.

    Attributes
    ----------
    measure : str
        What was judged.
    outcome : Outcome or Usefulness
        Which way it points.
    sentence : str
        In words, every number of records with the number it is out of.
    cure : str
        Of an inconclusive reason: the setting that would settle it; else empty.
    """

    measure: str
    outcome: Outcome | Usefulness
    sentence: str
    cure: str = ""


def against(measure: str, sentence: str) -> Reason:
    """A risk is too high."""
    return Reason(measure=measure, outcome="above your thresholds", sentence=sentence)


def doubt(measure: str, sentence: str, cure: str) -> Reason:
    """Inconclusive; ``cure``: a name in `verdict_cures`, which `judge` puts into words."""
    return Reason(measure=measure, outcome="inconclusive", sentence=sentence, cure=cure)


def no_objection(measure: str, sentence: str) -> Reason:
    """A risk is low enough."""
    return Reason(measure=measure, outcome="within your thresholds", sentence=sentence)


def limited(
    measure: str, above: tuple[str, int], maybe: tuple[str, int], all_clear: str, cure: str
) -> Reason:
    """Numbers of records surely and perhaps above a limit, in words that begin with the number."""
    if above[1]:
        return against(measure, f"{above[0]}.")
    if maybe[1]:
        text = f"{maybe[0]}: the error of the computation leaves it open."
        return doubt(measure, text, cure)
    return no_objection(measure, all_clear)


def out_of(count: int, all_of: int, what: str = "audited records") -> str:
    """How many out of how many: ``3 of the 200 audited records``."""
    number_of = "none" if not count else f"{count:,}"
    return f"{number_of} of the {all_of:,} {what}"


def times(log_factor: float) -> str:
    """A factor, from its log."""
    factor = math.exp(log_factor)
    return f"{factor:.3g}" if factor < 10 else f"{factor:,.0f}"


def begun(words: str) -> str:
    """Words as the beginning of a sentence; names such as pMSE and repU stay as they are."""
    return words[0].upper() + words[1:] if words.partition(" ")[0].islower() else words
