"""Measures of a comparison: their words, what they are of, and which way is better."""

from typing import NamedTuple

from bayes_risk._core.errors import InputError

ATTRIBUTE, IDENTIFICATION, UTILITY = "attribute", "identification", "utility"


class Measure(NamedTuple):
    """A measure in words; ``lower``: whether less is better for whoever releases."""

    words: str
    kind: str
    lower: bool = True


_MODELS = {
    "main": "main effects",
    "interactions": "main effects and interactions",
    "cart": "a tree",
}
_TABLES = {"margins": "single columns", "pairs": "pairs of columns"}
_PROBABILITY = "probability of the truth"

MEASURES: dict[str, Measure] = {
    "mean_probability": Measure(f"{_PROBABILITY}, mean over records", ATTRIBUTE),
    "gain": Measure(f"what the release adds to the {_PROBABILITY}", ATTRIBUTE),
    "median_probability": Measure(f"{_PROBABILITY}, median over records", ATTRIBUTE),
    "q95_probability": Measure(f"{_PROBABILITY}, 95 % of records below", ATTRIBUTE),
    "max_probability": Measure(f"{_PROBABILITY}, worst record", ATTRIBUTE),
    "share_ranked_first": Measure("share of records whose truth ranks first", ATTRIBUTE),
    "mean_rank": Measure("mean rank of the truth", ATTRIBUTE, lower=False),
    "unreliable": Measure("records whose numbers are unreliable", ATTRIBUTE),
    "expected_match_risk": Measure("expected correct matches", IDENTIFICATION),
    "true_match_rate": Measure("true match rate", IDENTIFICATION),
    "false_match_rate": Measure("false match rate", IDENTIFICATION, lower=False),
    "mean_expected_match_risk": Measure(
        "expected correct matches, mean over data sets", IDENTIFICATION
    ),
    "mean_true_match_rate": Measure("true match rate, mean over data sets", IDENTIFICATION),
    "mean_false_match_rate": Measure(
        "false match rate, mean over data sets", IDENTIFICATION, lower=False
    ),
    **{
        f"{name}_{model}": Measure(f"{words} ({told})", UTILITY)
        for name, words in {
            "pmse": "pMSE",
            "ratio": "ratio of pMSE to chance",
            "standardized": "standardised pMSE",
            "specks": "SPECKS",
        }.items()
        for model, told in _MODELS.items()
    },
    **{
        f"{table}_{name}": Measure(f"{words} of {told}", UTILITY)
        for table, told in _TABLES.items()
        for name, words in {
            "total_variation": "total variation",
            "hellinger": "Hellinger distance",
            "worst_ratio": "worst ratio of pMSE to chance",
        }.items()
    },
    "pairs_mutual_information": Measure("largest difference of mutual information", UTILITY),
    "pairs_correlation": Measure("largest difference of correlations", UTILITY),
    "interval_overlap": Measure("overlap of confidence intervals, mean", UTILITY, lower=False),
    "lowest_interval_overlap": Measure(
        "overlap of confidence intervals, lowest", UTILITY, lower=False
    ),
    "largest_standardized_difference": Measure(
        "largest standardised difference of estimates", UTILITY
    ),
}
RISKS = tuple(name for name, measure in MEASURES.items() if measure.kind != UTILITY)
UTILITIES = tuple(name for name, measure in MEASURES.items() if measure.kind == UTILITY)


def chosen(role: str, name: str | None, measured: tuple[str, ...]) -> str:
    """The measure of an axis, ``"risk"`` or ``"utility"``; None: the first usual one."""
    usual = ("mean_probability", "expected_match_risk") if role == "risk" else ("pmse_cart",)
    allowed = [n for n in (RISKS if role == "risk" else UTILITIES) if n in measured]
    if not allowed:
        asked = "attribute= or identification=" if role == "risk" else "utility="
        raise InputError(f"no {role} was measured; give {asked} to compare")
    if name is None:
        return next((n for n in usual if n in allowed), allowed[0])
    if name not in allowed:
        raise InputError(f"{role}={name!r} is no {role} that was measured; give one of {allowed}")
    return name
