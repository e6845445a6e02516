"""Audits that differ in the prior alone, side by side."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from .result import AttributeRisk

COLUMNS = {
    "mean_probability": ("mean_probability", "value"),
    "mcse": ("mean_probability", "mcse"),
    "baseline": ("mean_probability", "baseline"),
    "median_probability": ("median_probability", "value"),
    "q95_probability": ("q95_probability", "value"),
    "max_probability": ("max_probability", "value"),
    "max_mcse": ("max_probability", "mcse"),
    "max_baseline": ("max_probability", "baseline"),
    "share_ranked_first": ("share_ranked_first", "value"),
    "first_baseline": ("share_ranked_first", "baseline"),
    "mean_rank": ("mean_rank", "value"),
    "unreliable": ("unreliable", "value"),
}


def comparison(risks: Mapping[str, AttributeRisk]) -> pd.DataFrame:
    """One row a risk."""
    return pd.DataFrame.from_dict(
        {name: measures(risk) for name, risk in risks.items()}, orient="index"
    )


def measures(risk: AttributeRisk) -> dict[str, float]:
    """One row of it."""
    summary = risk.summary().to_dict()
    found = {name: float(summary[part][row]) for name, (row, part) in COLUMNS.items()}
    found["gain"] = found["mean_probability"] - found["baseline"]
    at_truth = np.take_along_axis(risk.log_prior, risk.truth[None], axis=0)[0]
    return found | {"truth_excluded": float(np.isneginf(at_truth)[risk.case].sum())}
