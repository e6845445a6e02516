"""The same evidence under a second prior: what it adds to the tables of a result.

Two priors are computed by default, flat and predictive: see `attribute_risk`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from .result import AttributeRisk

BESIDE = (
    *("prior", "probability", "mcse", "log_bayes_factor", "mcse_log_bayes_factor"),
    "reliable",
)
MEASURED = (
    *("mean_probability", "max_probability", "share_ranked_first", "mean_rank", "unreliable"),
)


def columns_beside(priors: "Mapping[str, AttributeRisk]") -> "dict[str, pd.Series]":
    """Columns `BESIDE` of the records under each other prior, its name behind."""
    return {
        f"{column}_{name}": risk.records[column]
        for name, risk in priors.items()
        for column in BESIDE
    }


def rows_beside(priors: "Mapping[str, AttributeRisk]") -> dict[str, tuple[float, float, float]]:
    """Rows `MEASURED` of the summary under each other prior, its name behind."""
    found = {}
    for name, risk in priors.items():
        rows = risk.summary().to_dict("index")
        for row in MEASURED:
            found[f"{row}_{name}"] = tuple(rows[row][c] for c in ("value", "mcse", "baseline"))
    return found
