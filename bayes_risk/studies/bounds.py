"""The numbers of a release beside those of releases at both ends of the scale."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bayes_risk.data.base_result import Result

from .compare import Estimate, of_identification, of_utility

CONTEXT = ("repu", "disco", "dcap", "tcap")  # shares that a release without distances has
HEADLINES = ("expected_match_risk", "pmse_cart", "repu")  # the first of each kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class InherentBounds(Result):
    """Measures of a release beside those at the ends of the scale; made by a study's ``[bounds]``.

    See Also
    --------
    bayes_risk.release_bounds : Makes the releases; what they bound, and what not.
    """

    found: pd.DataFrame  # a row per measure; context measures with their target, ``disco (job)``
    patterns: tuple[str, ...]  # columns; none: all records share one pattern
    alone: int  # records with a pattern of their own, which keep their values at the maximum
    n: int
    m: int  # data sets of each end
    seed_entropy: str  # of the ends

    def summary(self) -> pd.DataFrame:
        """One row per measure: as `ReleaseBounds.between`, and ``mcse`` of the release."""
        return self.found

    @property
    def headlines(self) -> list[str]:
        """A measure of each kind: of identification, of utility, of context."""
        return [name for name in HEADLINES if name in self.found.index]


def level_numbers(found: Mapping[str, Any]) -> dict[str, Estimate]:
    """File-level numbers of such results, by name."""
    numbers: dict[str, Estimate] = {}
    if found.get("identification") is not None:
        numbers |= of_identification(found["identification"])
    if found.get("utility") is not None:
        numbers |= of_utility(found["utility"])
    if (context := found.get("context")) is not None:
        nan, values = float("nan"), context.summary()["value"].tolist()
        numbers |= {
            f"{name} ({target})" if target else name: Estimate(number, nan, nan)
            for (target, name), number in zip(context.rows, values, strict=True)
            if name in CONTEXT
        }
    return numbers
