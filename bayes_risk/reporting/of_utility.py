"""Utility and context measures as sections of the report."""

import re
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayes_risk._core.formats import NONE, number, percent, plain
from bayes_risk.utilities.meanings import MEANINGS

from . import plots
from .figures import Picture, picture
from .tables import Section, Table

if TYPE_CHECKING:
    from bayes_risk.utilities.context_result import ContextMeasures
    from bayes_risk.utilities.result import Utility

SHOWN = 10  # pairs, columns and estimates, the worst first
SQUARES = 30  # columns of a picture of pairs
MEASURES = {
    "ratio_main": "pMSE over chance, logistic model",
    "ratio_interactions": "pMSE over chance, with interactions",
    "ratio_cart": "pMSE over chance, tree",
    "specks_main": "SPECKS, logistic model",
    "specks_interactions": "SPECKS, with interactions",
    "specks_cart": "SPECKS, tree",
    "margins_total_variation": "Total variation of single columns, mean",
    "margins_hellinger": "Hellinger distance of single columns, mean",
    "margins_worst_ratio": "pMSE over chance, worst column",
    "pairs_total_variation": "Total variation of pairs, mean",
    "pairs_hellinger": "Hellinger distance of pairs, mean",
    "pairs_worst_ratio": "pMSE over chance, worst pair",
    "pairs_mutual_information": "Mutual information, largest difference",
    "pairs_correlation": "Correlation, largest difference",
    "interval_overlap": "Interval overlap, mean",
    "lowest_interval_overlap": "Interval overlap, lowest",
    "largest_standardized_difference": "Standardised difference of estimates, largest",
}
WRITTEN = {  # context measures, as their authors write them
    **{"uio": "UiO", "uis": "UiS", "uiois": "UiOiS", "repu": "repU", "dorig": "Dorig"},
    **{"dsyn": "Dsyn", "iso": "iSO", "dis": "DiS", "disco": "DiSCO", "disdio": "DiSDiO"},
    **{"correct": "DiSCO over DiS", "base_cap": "baseCAPd", "capd": "CAPd", "caps": "CAPs"},
    **{"dcap": "DCAP", "tcap": "TCAP", "dcr_zero": "DCR = 0", "dcr_median": "DCR, median"},
    **{"dcr_5_percent": "DCR, 5 %", "closer_than_holdout": "Closer than holdout"},
}
DISTANCES = ("dcr_median", "dcr_5_percent")  # the others are shares of records
HOW_TO_READ = (
    "Utility stands beside risk because a file that says nothing is safe and useless. A number is "
    "to be read against its neighbour: what a release drawn from the truth itself shows on average."
)


def of_utility(found: "Utility") -> Section:
    """Propensity scores, tables of columns and pairs, analyses."""
    tables = [_measures(found)]
    if len(found.margins):
        tables.append(_compared(found.margins, "Columns", "Column"))
    if len(found.pairs):
        tables.append(_compared(found.pairs, "Pairs of columns", "Pair"))
    if len(found.estimates):
        tables.append(_estimates(found))
    return Section(
        name="utility",
        short="Utility",
        title="Utility: what an analyst still finds",
        sentence=found.sentence(),
        tables=tables,
        figures=_figures(found),
        note=HOW_TO_READ,
    )


def _measures(found: "Utility") -> Table:
    """File level: mean over releases, chance, and the range."""
    table = found.summary()
    rows: list[tuple[str, ...]] = []
    for key, words in MEASURES.items():
        if key not in table.index:
            continue
        row = table.loc[key].astype(float)
        if np.isnan(row["value"]):
            continue
        span = f"{number(row['lowest'])} to {number(row['highest'])}" if found.m > 1 else NONE
        rows.append((words, number(row["value"]), number(row["null"]), span))
    what = "1 release" if found.m == 1 else f"Means over {found.m} releases"
    heads = ("Measure", "Value", "By chance alone", "Over releases")
    caption = f"{what}, {found.n_records[0]:,} records of the original."
    return Table(caption=caption, heads=heads, rows=rows)


def _compared(table: pd.DataFrame, what: str, head: str) -> Table:
    """Columns or pairs, those worst kept first."""
    rows = [
        (
            _named(label),
            number(float(row["ratio"])),
            number(float(row["total_variation"])),
            number(float(row["null_total_variation"])),
            number(float(row["hellinger"])),
            number(float(row["null_hellinger"])),
        )
        for label, row in table.head(SHOWN).iterrows()
    ]
    heads = (head, "pMSE over chance", "Total variation", "By chance", "Hellinger", "By chance")
    which = f"the worst {SHOWN} of {len(table):,}" if len(table) > SHOWN else f"{len(table):,}"
    return Table(caption=f"{what} ({which}), those worst kept first.", heads=heads, rows=rows)


def _named(label: Hashable) -> str:
    times = " \N{MULTIPLICATION SIGN} "
    return times.join(map(str, label)) if isinstance(label, tuple) else str(label)


def _estimates(found: "Utility") -> Table:
    """Estimates of the analyses, those that differ most first."""
    table = found.estimates.sort_values("interval_overlap", kind="stable")
    rows = [
        (
            ": ".join(map(str, name)),
            _interval(row, "original", "low_original", "high_original"),
            _interval(row, "release", "low", "high"),
            number(float(row["standardized_difference"]), 2),
            number(float(row["interval_overlap"]), 2),
        )
        for name, (_, row) in zip(table.index, table.head(SHOWN).iterrows(), strict=False)
    ]
    heads = ("Estimate", "Original", "Releases", "Standardised difference", "Interval overlap")
    which = f"the worst {SHOWN} of {len(table):,}" if len(table) > SHOWN else f"{len(table):,}"
    caption = f"Estimates ({which}) with {found.confidence:.0%} intervals, lowest overlap first."
    return Table(caption=caption, heads=heads, rows=rows)


def _interval(row: "pd.Series[Any]", value: str, low: str, high: str) -> str:
    return f"{plain(row[value])} ({plain(row[low])} to {plain(row[high])})"


def _figures(found: "Utility") -> list[Picture]:
    drawn = []
    columns = len(found.synthesized) + len(found.unsynthesized)
    if columns <= SQUARES:
        caption = (
            "pMSE over chance of every column (on the diagonal) and pair of columns (below it). "
            "The darker, the worse kept; 1: as by chance. Pairs of columns that were not "
            "synthesised are blank."
        )
        height = 2.2 + 0.28 * columns
        draw = plots.plot_utility
        drawn.append(picture("pairs", draw, found, caption, height=height))
    if len(found.pairs):
        caption = (
            "The pairs of columns that are worst kept together. The dashed line is a release drawn "
            "from the truth; the diamond shows how much of it is attributable to one column alone."
        )
        shown = min(len(found.pairs), plots.PAIRS)
        height = 1.3 + 0.26 * shown
        drawn.append(picture("worst-pairs", plots.plot_worst_pairs, found, caption, height=height))
    return drawn


def of_context(found: "ContextMeasures") -> Section:
    """What other tools report, each with its denominator and what it is not."""
    caption = (
        "Shares of records, with the release (bars), and what they are to be read against: the "
        "same in the original alone (diamonds)."
    )
    return Section(
        name="context",
        short="Context measures",
        title="Context measures: what other tools report",
        sentence=found.sentence(),
        tables=[_context(found), _meanings(found)],
        figures=[picture("context-shares", plots.plot_context, found, caption, height=3.4)],
    )


def _context(found: "ContextMeasures") -> Table:
    rows: list[tuple[str, ...]] = []
    table = found.summary()
    for (target, measure), (_, row) in zip(table.index, table.iterrows(), strict=True):
        form = number if measure in DISTANCES else percent
        ends = [form(float(row[name])) for name in ("lowest", "highest")]
        span = NONE if found.m == 1 else ends[0] if ends[0] == ends[1] else " to ".join(ends)
        name = WRITTEN.get(measure, measure)
        of = number(round(float(row["of"])))
        beside = _beside(measure, form(float(row["compare"])))
        cells = (form(float(row["value"])), span, beside, of)
        rows.append((f"{name} of {target}" if target else name, *cells))
    heads = ("Measure", "Value", "Over releases", "To read against", "Records")
    what = "1 release" if found.m == 1 else f"Means over {found.m:,} releases"
    caption = f"Keys: {', '.join(map(str, found.keys))}. {what}. Shares are of so many records."
    return Table(caption=caption, heads=heads, rows=rows)


def _beside(measure: str, value: str) -> str:
    """What a measure is compared with: the number, and which it is."""
    other = MEANINGS[measure].compare
    if value == NONE:
        return NONE
    if other:
        return f"{value} ({WRITTEN.get(other, other)})"
    return value if measure == "closer_than_holdout" else f"{value} (original)"


def _meanings(found: "ContextMeasures") -> Table:
    table = found.meanings()
    rows = [
        (
            WRITTEN.get(str(k), str(k)),
            f"{_definition(str(k), str(row['is']))}. A share of: {row['share_of']}."
            if str(k) not in DISTANCES
            else f"{_definition(str(k), str(row['is']))}.",
            _as_written(str(row["is_not"])),
        )
        for k, row in table.iterrows()
    ]
    heads = ("Measure", "What it is", "What it is not")
    return Table(caption="What the measures are, and are not.", heads=heads, rows=rows)


def _definition(name: str, words: str) -> str:
    """The definition without the name, which stands beside it."""
    head, colon, rest = words.partition(": ")
    told = rest if colon and head == WRITTEN.get(name) else words
    return told[0].upper() + told[1:]


def _as_written(words: str) -> str:
    """Names of measures as their authors write them."""
    return re.sub(r"(?<=see )\w+", lambda found: WRITTEN.get(found[0], found[0]), words)
