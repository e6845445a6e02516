"""What a verdict is made of: thresholds, reasons, what settles them, and words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from bayes_risk._core.validate import number
from bayes_risk.risk.result import AttributeRisk

Outcome = Literal["within your thresholds", "above your thresholds", "inconclusive"]
Usefulness = Literal["useful enough", "less useful than wanted", "usefulness inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What the agency accepts; ``docs/reading-the-numbers.md`` gives reasons for the defaults."""

    # the release should lift no record's true values above this probability
    attribute_probability: float = 0.5
    # A record counts as lifted if the release raises the odds of its true values by more than this
    # factor
    attribute_odds_factor: float = 1.5
    # the release should not raise the log odds of any record's truth by more than this
    attribute_log_bayes_factor: float = 3.0
    # share of all records that may be matched uniquely and correctly, pooled or per release
    true_match_rate: float = 0.05
    # share of a file's records that may equal the original's record of the same row, where nobody
    # else in the original does
    identical_records: float = 0.05
    # share of the released values of a number that may be genuine values of a single record, beyond
    # the share that a fresh sample would show
    unique_values: float = 0.05
    # share of all records that may be unique on the keys in the original and in a file alike
    replicated_uniques: float = 0.1
    # share of targets whose number the diagnostics may reject before the verdict is inconclusive
    share_unreliable: float = 0.01
    # largest R-hat of the fit that needs no explanation; None: not judged
    rhat: float | None = 1.05
    # how often the release may point to the member of a pair; None: not judged
    membership_auc: float | None = None
    # the release should not raise the log odds that a member is in the data by more than this;
    # None: not judged
    membership_log_bayes_factor: float | None = None
    # rows of ``Utility.summary()``: what they may be at most (overlap of intervals: at least);
    # None: not judged
    utility: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        limits = {f.name: getattr(self, f.name) for f in fields(self)}
        utility = limits.pop("utility") or {}
        for name, limit in {**limits, **utility}.items():
            if limit is not None:
                number(f"threshold {name}", limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One sentence of the verdict."""

    measure: str  # what was judged
    outcome: Outcome | Usefulness  # which way it points
    sentence: str  # in words, every number of records with the number it is out of
    cure: str = ""  # of an inconclusive reason: the setting that would settle it; else empty


def against(measure: str, sentence: str) -> Reason:
    """A risk is too high."""
    return Reason(measure=measure, outcome="above your thresholds", sentence=sentence)


def doubt(measure: str, sentence: str, cure: str) -> Reason:
    """Inconclusive; ``cure``: a name in `CURES`, which `judge` puts into words."""
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


Where = Literal["study", "python", "command line"]
PLACES: tuple[Where, ...] = ("study", "python", "command line")
CHAINS = 4  # of which Student's t wants 3.3 standard errors

# in a study file, in Python, and on the command line where that differs
CURES: dict[str, tuple[str, ...]] = {
    "attribute": ("add a section [attribute]", "give the result of attribute_risk"),
    "identification": ("add a section [identification]", "give the result of identification_risk"),
    "chains": ("[model] chains = {chains}", "fit(..., chains={chains})"),
    "modes differ": (
        "another random_seed, for a release whose data sets are made in one mode",
        "synthesize(..., random_seed=...) again, for data sets that are made in one mode",
    ),
    "draws": ("[model] draws = {draws}", "fit(..., draws={draws})"),
    "error": (
        "[attribute] target_mcse = {target_mcse}, or [model] draws = {draws}",
        "attribute_risk(..., target_mcse={target_mcse}), or fit(..., draws={draws})",
    ),
    "unreliable": (
        "[attribute] refit_budget = {unreliable} and target_mcse = {target_mcse}, or [model] draws "
        "= {draws}",
        "attribute_risk(..., refit_budget={unreliable}, target_mcse={target_mcse}), or fit(..., "
        "draws={draws})",
    ),
    "left out": ("a larger [attribute] guess_budget", "JointGrid(..., budget=) with a larger one"),
    "importance": (
        '[attribute] evidence = "predictive"',
        'attribute_risk(..., evidence="predictive")',
    ),
    "membership": ("add a section [membership]", "give the result of membership"),
    "others": (
        "[membership] held_out = 0.5, or others = a file of people outside the data",
        "membership(..., others=people outside the data)",
    ),
    "membership error": (
        "more people outside the data ([membership] others) and [model] draws = {draws}",
        "membership of more people outside the data, and fit(..., draws={draws})",
    ),
    "utility": ("add a section [utility]", "give the result of utility"),
    "measure": (
        "[utility] with what the measure needs (analyses, columns)",
        "utility(...) with what the measure needs (analyses, columns)",
    ),
    "permutations": ("[utility] permutations = 100", "utility(..., permutations=100)"),
    "shared": (
        '[release] parameters = "shared" or "plug-in", as the files were made',
        'Release(..., parameters="shared" or "plug-in"), as the files were made',
    ),
    "unbalanced": (
        "[release] classes as the files were made, [model] as they were made by, and [model] draws "
        "= {draws}",
        "Release(..., classes=) as it was made, the model that made it, and fit(..., "
        "draws={draws})",
    ),
    "rows moved": (
        "[release] files in the original's order, or [data] index, the column with the labels",
        "tables in the original's order, or with its labels as their index",
        "write files and original in one order, or name the column with the record labels: --index",
    ),
    "rows unknown": (
        "ask who can be told to be in the data, [membership]: rows of a fully synthetic file are "
        "nobody's",
        "ask who can be told to be in the data, membership(...): rows of a fully synthetic file "
        "are nobody's",
        "ask who can be told to be in the data, [membership] in a study file: rows of a fully "
        "synthetic file are nobody's",
    ),
    "model rejected": (
        "audit with the model that made the files (of synthpop: the models that syn(..., models = "
        "TRUE) keeps), or let the study make the release (leave [release] files out)",
        "audit with the model that made the files (of synthpop: the models that syn(..., models = "
        "TRUE) keeps), or audit a release that fit.synthesize made",
    ),
    "mechanism": (
        "let the study make the release (leave [release] files out), or audit the files under the "
        "model that made them",
        "audit a release that fit.synthesize made, or the files under the model that made them",
    ),
}


def resolved(reason: Reason, where: Where, settings: Mapping[str, str]) -> Reason:
    """The same with its cure in words."""
    if not reason.cure:
        return reason
    said = CURES[reason.cure]
    words = said[min(PLACES.index(where), len(said) - 1)]
    return replace(reason, cure=words.format_map(settings))


def settings_that_settle(
    risk: AttributeRisk | None, diagnostics: Mapping[str, Any]
) -> dict[str, str]:
    """What the settings should be, given what they were.

    ``target_mcse`` is half the error that 95 % of (record, guess) pairs are below, which takes four
    times the draws.
    """
    draws, chains = diagnostics.get("draws"), int(diagnostics.get("chains", 1))
    return {
        "chains": str(CHAINS if chains < CHAINS else 2 * chains),
        "draws": "four times as many" if draws is None else f"{4 * int(draws)}",
        "target_mcse": _half_of(risk),
        "unreliable": "0" if risk is None else str(int((~risk.reliable).sum())),
    }


def _half_of(risk: AttributeRisk | None) -> str:
    """Half of the error of the log evidence that 95 % of the pairs are below, to one digit."""
    error = np.zeros(0) if risk is None else risk.mcse_log_evidence
    there = error[np.isfinite(error) & (error > 0)]
    return f"{float(np.quantile(there, 0.95)) / 2:.1g}" if len(there) else "0.05"
