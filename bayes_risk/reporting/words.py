"""Words and number formats shared by the report and the screen."""

from typing import TYPE_CHECKING, Any

from bayes_risk._core.formats import number

if TYPE_CHECKING:
    from bayes_risk.release.release import Release

MEASURES = {
    "mean_probability": "Probability of the true values, mean over records",
    "median_probability": "Probability of the true values, median",
    "q95_probability": "Probability of the true values, 95th percentile",
    "max_probability": "Probability of the true values, worst record",
    "share_ranked_first": "Share of records whose truth is the likeliest guess",
    "mean_rank": "Mean rank of the true values among the guesses",
}
COUNTS = {
    "targets": "Records audited",
    "disclosed": "Released unchanged",
    "unreliable": "Marked unreliable",
}
MATCHES = {
    "expected_match_risk": "Expected correct matches",
    "true_matches": "True matches",
    "true_match_rate": "True match rate",
    "unique_matches": "Unique matches",
    "false_match_rate": "False match rate",
    "no_match": "Nothing matched",
}
CLOSENESS = {  # of a number: words, and whether it is a share
    "mean_expected_absolute_error": ("Expected distance from the true value", False),
    "mean_mode_error": ("Distance of the likeliest value", False),
    "share_mode_is_truth": ("Likeliest value is the true one", True),
    "mean_probability_of_truth": ("Probability of the true value", False),
    "mean_region_size": ("Values in the 90 % region", False),
    "mean_region_length": ("Length of the 90 % region", False),
    "share_truth_in_region": ("90 % region holds the true value", True),
}
ASSUMPTIONS = {
    "records": "What the intruder knows of the records (A)",
    "columns": "Target variables",
    "synthesis": "What is known of the synthesis (S)",
    "prior": "Belief before the release (prior)",
    "guesses": "Values considered (guesses)",
    "releases": "What is released (Z)",
    "evidence": "How the evidence was computed",
}
DIAGNOSTICS = {
    "chains": "Chains",
    "draws": "Draws per chain",
    "max_rhat": "Largest R-hat of the {what}",
    "median_rhat": "Median R-hat of the {what}",
    "min_ess": "Smallest effective sample size",
    "median_ess": "Median effective sample size",
    "divergences": "Divergent transitions",
    "n_classes": "Latent classes allowed",
    "n_occupied_mean": "Latent classes occupied, mean",
    "n_occupied_max": "Latent classes occupied, most",
    "profiles_diagnosed": "Profiles whose log predictives were compared",
    "parameters": "Parameters",
    "parameters_diagnosed": "Parameters that were compared",
    "truncation_binds": "All classes occupied (truncation binds)",
    "vulnerable": "Records replaced: those in sensitive cells",
    "kept": "Records released as they are",
    "sensitive_cells": "Sensitive cells",
    "redraws": "Nearest donors refused by constraints",
    "notes": "What the fits of the prediction models said",
}
WHOLE = ("vulnerable", "kept", "sensitive_cells", "redraws")


def diagnostic(name: str, value: Any) -> str:
    """A diagnostic of the fit: R-hat to three digits, sizes to one, counts whole."""
    if isinstance(value, list):
        return "; ".join(value) or "nothing"
    if name in WHOLE:
        return number(int(value))
    return number(value, 3 if "rhat" in name else 1)


def replaced(release: "Release") -> str | None:
    """How many records were replaced, or None if it was all of them."""
    if release.records is None:
        return None
    n = len(release.records)
    return f"{int(release.records.sum()):,} of {n:,}; the others are released as they are"
