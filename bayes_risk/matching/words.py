"""How an identification risk reads: summary table, sentence, what the intruder knows, numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.formats import in_brackets, number, percent, plain, two_errors

Ids = npt.NDArray[np.int64]

COLUMNS = (
    "expected_match_risk",
    "true_matches",
    "true_match_rate",
    "unique_matches",
    "false_match_rate",
    "no_match",
    "claims",
)
MOST_ROWS = 12


def summary_table(
    each: Sequence[Sequence[float]],
    pooled: Sequence[float],
    *,
    mcse: "pd.Series[float]",
    baseline: float,
    what: str = "release",
) -> pd.DataFrame:
    """Rows ``1 .. m``, ``mean`` (over the releases where a measure is defined) and ``pooled``.

    Beside the expected match risk stand its error (of single releases: NaN) and its baseline.
    """
    rows = pd.DataFrame(each, columns=list(COLUMNS), dtype=float)
    table = pd.DataFrame(
        [*rows.to_numpy(), rows.mean().to_numpy(), pooled],
        columns=list(COLUMNS),
        index=pd.Index([*range(1, len(rows) + 1), "mean", "pooled"], dtype=object, name=what),
    )
    table.insert(1, "mcse", mcse.reindex(table.index).astype(float))
    table.insert(2, "baseline", baseline)
    return table


def knowledge(known: Sequence[str], sought: Sequence[str], where: str) -> str:
    """Say what the intruder knows, and what he looks for in which tables."""
    if not sought:
        return f"knows {', '.join(known)} (not synthesised) of everyone"
    looks = f"looks for the true values of {', '.join(sought)} in {where}"
    return f"knows {', '.join(known)} of everyone and {looks}" if known else looks


def tables_searched(m: int, release_of: Ids | None) -> str:
    """The tables in words: the releases themselves, or tables drawn anew."""
    if release_of is None:
        return "the release" if m == 1 else f"the {m} releases together"
    tables = "1 table" if m == 1 else f"{m:,} tables"
    if not release_of.any():
        return f"{tables} drawn from the model, its parameters known"
    sizes = np.unique(np.unique(release_of, return_counts=True)[1])
    each = " or ".join(f"{size:,}" for size in sizes)
    R = len(np.unique(release_of))
    return f"{tables} drawn from the model given " + (
        "the release" if R == 1 else f"{R} releases ({each} each)"
    )


def errors_in_words(between: float, draws: float, release_of: Ids | None) -> str:
    """Two standard errors in brackets; nothing where the releases are too few for one."""
    if release_of is None:
        return "" if np.isnan(between) else in_brackets(between, digits=1)
    drawn = "unknown" if np.isnan(draws) else f"+- {two_errors(draws, digits=1)}"
    if not release_of.any():
        return f" ({drawn} from the drawing alone)"
    releases = "unknown" if np.isnan(between) else f"+- {two_errors(between, digits=1)}"
    return f" ({releases} between releases; {drawn} from the drawing alone)"


def sentence(
    knows: str,
    summary: pd.DataFrame,
    whom: str,
    *,
    n: int,
    error: str,
    without_release: float,
) -> str:
    """Say the result in plain words; ``error`` as `errors_in_words` has it."""
    rows = summary.to_dict("index")
    pooled, mean = rows["pooled"], rows["mean"]
    what = summary.index.name
    one = f" With one {what} only: {number(mean['expected_match_risk'], 1)} on average."
    several = len(summary) > 3
    return (
        f"An intruder who {knows} would be expected to match "
        f"{number(pooled['expected_match_risk'], 1)}{error} of {whom} "
        f"({percent(pooled['expected_match_risk'] / n)}); without the release "
        f"{number(without_release, 1)}.{one * several} {_singles(pooled)}"
    )


def shown(name: str, words: str, summary: pd.DataFrame) -> str:
    """What the result prints: its name, the sentence, and the table, cut if it is long."""
    rows = summary
    if len(rows) > MOST_ROWS:
        rows = pd.concat([rows.iloc[: MOST_ROWS - 3], rows.iloc[-2:]])
    cells = rows.map(lambda v: "-" if pd.isna(v) else plain(v))
    return f"{name}\n{words}\n\n{cells.to_string()}"


def plain_number(value: float) -> str:
    """A number as people write it: 1,000,000 and 0.1, six digits or all before the point."""
    return plain(value, 6)


def part_of_file(groups: int) -> str:
    """One of so many equal parts: half, third, 20th part, 21st part."""
    word = {1: "whole", 2: "half", 3: "third", 4: "quarter"}.get(groups)
    return word or f"{ordinal(groups)} part"


def ordinal(number: int) -> str:
    """``1st, 2nd, 3rd, 4th, ..., 11th, ..., 21st``."""
    teens = number % 100 in (11, 12, 13)
    ending = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def _singles(row: Mapping[Any, float]) -> str:
    s, true = int(row["unique_matches"]), int(row["true_matches"])
    if not s:
        return "No record has a unique match."
    who = "1 record has" if s == 1 else f"{s:,} records have"
    share = percent(true / s)
    return f"{who} a unique match, which is the right one for {true:,} ({share})."
