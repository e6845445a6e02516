"""How an identification risk reads: summary table, sentence, what the intruder knows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Reals = npt.NDArray[np.float64]

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


def summary_table(each: Sequence[Sequence[float]], pooled: Sequence[float]) -> pd.DataFrame:
    """Rows ``1 .. m``, ``mean`` (over the releases where a measure is defined) and ``pooled``."""
    rows = pd.DataFrame(each, columns=list(COLUMNS), dtype=float)
    table = pd.DataFrame(
        [*rows.to_numpy(), rows.mean().to_numpy(), pooled],
        columns=list(COLUMNS),
        index=pd.Index([*range(1, len(rows) + 1), "mean", "pooled"], dtype=object, name="release"),
    )
    return table


def standard_error(values: Reals) -> Any:
    """Return the standard error of the mean over releases, the first axis; NaN for one."""
    m = len(values)
    if m == 1:
        return np.full(values.shape[1:], np.nan)
    return values.std(axis=0, ddof=1) / np.sqrt(m)


def knowledge(known: Sequence[str], sought: Sequence[str], m: int) -> str:
    """Say what the intruder knows and looks for."""
    where = "the release" if m == 1 else f"the {m} releases together"
    if not sought:
        return f"knows {', '.join(known)} (not synthesised) of everyone"
    looks = f"looks for the true values of {', '.join(sought)} in {where}"
    return f"knows {', '.join(known)} of everyone and {looks}" if known else looks


def sentence(
    knows: str, summary: pd.DataFrame, whom: str, *, n: int, mcse: float, without_release: float
) -> str:
    """Say the result in plain words."""
    rows = summary.to_dict("index")
    pooled, mean = rows["pooled"], rows["mean"]
    one = f" With one release only: {mean['expected_match_risk']:,.1f} on average."
    several = len(summary) > 3
    error = "" if np.isnan(mcse) else f" (+- {2 * mcse:,.1f})"
    return (
        f"An intruder who {knows} would be expected to match "
        f"{pooled['expected_match_risk']:,.1f}{error} of {whom} "
        f"({_percent(pooled['expected_match_risk'] / n)}); without the release "
        f"{without_release:,.1f}.{one * several} {_singles(pooled)}"
    )


def shown(name: str, words: str, summary: pd.DataFrame) -> str:
    """What the result prints: its name, the sentence, and the table, cut if it is long."""
    rows = summary
    if len(rows) > MOST_ROWS:
        rows = pd.concat([rows.iloc[: MOST_ROWS - 3], rows.iloc[-2:]])
    cells = rows.map(lambda v: "-" if pd.isna(v) else f"{v:.4g}")
    return f"{name}\n{words}\n\n{cells.to_string()}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 or share == 0 else "less than 0.1 %"


def _singles(row: Mapping[Any, float]) -> str:
    s, true = int(row["unique_matches"]), int(row["true_matches"])
    if not s:
        return "No record has a single best candidate."
    who = "1 record has" if s == 1 else f"{s:,} records have"
    share = _percent(true / s)
    return f"{who} a single best candidate, which is the right one for {true:,} ({share})."
