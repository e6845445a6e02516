"""How rare the keys of the confidential file are: a section of the report."""

from typing import TYPE_CHECKING

import numpy as np

from bayes_risk._core.formats import NONE, error, number, percent

from .tables import Section, Table

if TYPE_CHECKING:
    import pandas as pd

    from bayes_risk.matching.population.uniqueness_result import Uniqueness

UNIQUENESS = {
    "sample_uniques": "Alone with their key in the file",
    "below_3": "Sharing it with fewer than 2 others (k-anonymity below 3)",
    "below_5": "Sharing it with fewer than 4 others (below 5)",
    "below_10": "Sharing it with fewer than 9 others (below 10)",
    "population_uniques": "Alone in the file and in the population",
    "unique_matches": "Right matches among those alone in the file",
    "expected_matches": "Right matches among all records",
}


def of_uniqueness(found: "Uniqueness") -> Section:
    """How rare keys are, in the file and in the population."""
    return Section(
        name="uniqueness",
        short="Uniqueness",
        title="Uniqueness: how rare the keys of the records are",
        sentence=found.sentence(),
        tables=[_rare(found)],
        note=(
            "Of the confidential file by itself: no release comes in. What synthesis makes of it "
            "is identification risk."
        ),
    )


def _rare(found: "Uniqueness") -> Table:
    """Records, share, error, interval; last for an intruder who knows who is in the file."""
    table = found.summary()
    rows = [
        (
            UNIQUENESS.get(str(name), str(name)),
            _records(float(row["value"])),
            percent(float(row["share"])),
            error(float(row["error"]), digits=1),
            _interval(row),
            NONE if np.isnan(row["without"]) else _records(float(row["without"])),
        )
        for name, row in table.iterrows()
    ]
    heads = (
        *("Records", "Number", "Share of all", "Error (2 s.e.)", "95 % interval"),
        "If known to be in the file",
    )
    people = f" Population: {found.population}." if found.population else ""
    caption = f"{found.n:,} records; keys: {', '.join(map(str, found.keys))}.{people}"
    return Table(caption=caption, heads=heads, rows=rows)


def _records(value: float) -> str:
    return number(value, 0 if value.is_integer() else 1)


def _interval(row: "pd.Series[float]") -> str:
    return NONE if np.isnan(row["low"]) else f"{row['low']:,.0f} to {row['high']:,.0f}"
