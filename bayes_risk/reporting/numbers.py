"""How close the intruder comes to numbers, for the report and the screen."""

from functools import partial
from typing import Any

import pandas as pd

from bayes_risk._core.formats import NONE, at_most, percent, significant
from bayes_risk.risk.result import AttributeRisk

from . import plots
from .figures import Picture, picture
from .words import CLOSENESS

MOST_FIGURES = 4
DISTANCE = "mean_expected_absolute_error"


def how_close(risk: AttributeRisk) -> dict[str, Any] | None:
    """The section "How close": rows for each guessed number, and curves for the closest."""
    found = risk.closeness_summary()
    if found.empty:
        return None
    shown = closest_first(found)[:MOST_FIGURES]
    hidden = len(found) - len(shown)
    note = "The curves show how this differs between records"
    if hidden:
        note += f"; of {len(found)} numbers the {len(shown)} to which the release brings closest"
    return {
        "tables": [(name, closeness_rows(found.loc[name])) for name in found.index],
        "figures": [_curve(risk, name, place) for place, name in enumerate(shown, start=1)],
        "note": f"{note}.",
        "n": f"{len(risk.index):,}",
    }


def closest_first(found: pd.DataFrame) -> list[str]:
    """Names of numbers, first the one whose distance the release makes smallest."""
    without = found[f"{DISTANCE}_prior"]
    ratio = found[DISTANCE] / without.where(without > 0)
    return [str(name) for name in ratio.sort_values(kind="stable").index]


def closeness_rows(row: "pd.Series[Any]") -> list[tuple[str, ...]]:
    """Measures of one number: value, bound of the error, without the release."""
    rows: list[tuple[str, ...]] = []
    for key, (words, share) in CLOSENESS.items():
        form = percent if share else partial(significant, digits=4)
        bound = row.get(f"{key}_mcse_bound")
        error = NONE if bound is None else at_most(2 * float(bound))
        rows.append((words, form(float(row[key])), error, form(float(row[f"{key}_prior"]))))
    return rows


def _curve(risk: AttributeRisk, name: str, place: int) -> Picture:
    caption = (
        f"{name}: expected distance from the true value, in units of what it would be without the "
        "release. Left of the dashed line the release brings the intruder closer; to its right it "
        "misleads."
    )
    plot = partial(plots.plot_closeness, variable=name, relative=True)
    return picture(f"closeness-{place}", plot, risk, caption)
