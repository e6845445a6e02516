"""The numbers of a release beside those of releases at both ends of the scale."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bayes_risk._core.formats import begun, number, significant
from bayes_risk.data.base_result import Result, Table, spread, value
from bayes_risk.data.measures import in_words
from bayes_risk.utilities.bounds import PLACES

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

    def sentence(self) -> str:
        by = f"with the same {', '.join(self.patterns)}" if self.patterns else "of the whole file"
        told = [
            "The scale goes from values drawn uniformly (minimum) to values redrawn among records "
            f"{by} (maximum; {self.alone:,} of {self.n:,} records are alone there and keep theirs)."
        ]
        for name in self.headlines:
            row = self.found.loc[name]
            low, release, high, same = (number(row[place]) for place in PLACES)
            words = f"{begun(in_words(name))}: {release}, between {low} and {high}"
            if not pd.isna(row["position"]):
                words += f", at {number(row['position'], 2)} of the way"
            told.append(f"{words} ({same} unchanged).")
        return " ".join(told)

    @property
    def headlines(self) -> list[str]:
        """A measure of each kind: of identification, of utility, of context."""
        return [name for name in HEADLINES if name in self.found.index]

    def line(self) -> str:
        """The first measure between the ends."""
        name = [*self.headlines, *self.found.index][0]
        low, release, high, _ = (number(self.found.at[name, place]) for place in PLACES)
        between = f"between {low} (uniform values) and {high} (redrawn within patterns)"
        return f"{in_words(name)} {release}, {between}"

    def tables(self) -> dict[str, Table]:
        """Each measure at both ends, of the release between them, and unchanged."""
        found = Table(
            note=(
                "The ends bound what synthesis given the patterns can do on average. A model that "
                "knows more columns, or copies records, can be above the maximum, and that is a "
                "finding. Where the ends are close together the position is noise."
            ),
            caption=f"Means over {self.m:,} data sets each.",
            frame=self.found,
            labels=lambda name: begun(in_words(str(name))),
            columns=[
                *((begun(place), value(place, significant, digits=4)) for place in PLACES),
                ("Release, 2 s.e.", spread("mcse", "release")),
                ("Position (0 to 1)", value("position", digits=2)),
            ],
            file="bounds",
        )
        return {"measures": found}


def numbers_of(found: Mapping[str, Any]) -> dict[str, Estimate]:
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
