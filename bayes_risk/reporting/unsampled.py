"""Results for which nothing was sampled: what is said of them, and what is left out."""

import numpy as np

from bayes_risk.matching.odds import GIVEN
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.matching.words import tables_searched
from bayes_risk.risk.result import AttributeRisk


def is_exact(risk: AttributeRisk | None) -> bool:
    """Whether the evidence has no Monte Carlo error: nothing was drawn to compute it."""
    if risk is None:
        return False
    drawn = np.isfinite(risk.ess).any() or risk.deviations.any()
    return risk.assumptions.get("evidence", "").startswith("exact") or not drawn


def no_error(risk: AttributeRisk | None) -> str | None:
    """Why there is no Monte Carlo error, or None if there is one."""
    if risk is None or not is_exact(risk):
        return None
    refitted = risk.assumptions.get("evidence", "").startswith("refit")
    how = "from models fitted anew for each guess" if refitted else "in closed form"
    return (
        f"The evidence was computed {how}: it has no Monte Carlo error and rests on no weights. "
        "What it takes to be known stands above, under the assumptions."
    )


def counting(risk: IdentificationRisk, *, alone: bool) -> list[str]:
    """What matching rests on: counts, and estimates of the population or tables that were drawn.

    ``alone``: nothing else was computed, so that it may be said that nothing was sampled.
    """
    said = []
    if risk.release_of is not None:
        said.append(f"the intruder searches {tables_searched(risk.m, risk.release_of)}")
    if risk.estimated:
        said.append(f"population counts are estimates ({risk.population})")
    elif risk.population == GIVEN:
        said.append("population counts were taken as given")
    if not alone:
        return said
    if said:
        return ["matches were counted exactly", *said]
    return ["exact counting, nothing was sampled"]
