"""What settles an inconclusive reason, in the words of where the user is."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .reason import Reason

if TYPE_CHECKING:
    from bayes_risk.risk.result import AttributeRisk

Where = Literal["study", "python", "command line"]
PLACES: tuple[Where, ...] = ("study", "python", "command line")
CHAINS = 4  # of which Student's t wants 3.3 standard errors

# in a study file, in Python, and on the command line where that differs
CURES: dict[str, tuple[str, ...]] = {
    "attribute": ("add a section [attribute]", "give the result of attribute_risk"),
    "identification": (
        "add a section [identification]",
        "give the result of identification_risk",
    ),
    "chains": ("[model] chains = {chains}", "fit(..., chains={chains})"),
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
    "reuse": ('[attribute] evidence = "predictive"', 'attribute_risk(..., evidence="predictive")'),
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
    risk: "AttributeRisk | None", diagnostics: Mapping[str, Any]
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


def _half_of(risk: "AttributeRisk | None") -> str:
    """Half of the error of the log evidence that 95 % of the pairs are below, to one digit."""
    error = np.zeros(0) if risk is None else risk.mcse_log_evidence
    there = error[np.isfinite(error) & (error > 0)]
    return f"{float(np.quantile(there, 0.95)) / 2:.1g}" if len(there) else "0.05"
