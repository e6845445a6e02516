"""The ends of the scale of risk as a section of the report."""

from typing import TYPE_CHECKING

import pandas as pd

from bayes_risk._core.formats import NONE, PLUS_MINUS, number, plain, significant
from bayes_risk.app.study.inherent import PLACES, words_of
from bayes_risk.reporting.verdicts.reason import begun

from .tables import Section, Table

if TYPE_CHECKING:
    from bayes_risk.app.study.inherent import InherentBounds

NOTE = (
    "The ends bound what synthesis given the patterns can do on average. A model that knows more "
    "columns, or copies records, can be above the maximum, and that is a finding. Where the ends "
    "are close together the position is noise."
)


def of_bounds(found: "InherentBounds") -> Section:
    """Each measure at both ends, of the release between them, and unchanged."""
    rows = []
    for name, row in found.summary().iterrows():
        position = NONE if pd.isna(row["position"]) else number(row["position"], 2)
        places = (significant(float(row[place]), 4) for place in PLACES)
        error = NONE if pd.isna(row["mcse"]) else f"{PLUS_MINUS} {plain(2 * row['mcse'], 2)}"
        rows.append((begun(words_of(str(name))), *places, error, position))
    heads = (
        *("Measure", "Minimum", "Release", "Maximum", "Unchanged"),
        *("Release, 2 s.e.", "Position (0 to 1)"),
    )
    return Section(
        name="bounds",
        short="Bounds",
        title="Bounds: the same numbers at both ends of the scale",
        sentence=found.sentence(),
        tables=[Table(caption=f"Means over {found.m:,} data sets each.", heads=heads, rows=rows)],
        note=NOTE,
    )
