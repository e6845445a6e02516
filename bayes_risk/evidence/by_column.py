"""Which synthesised column gives most away: risk with one column's evidence left out.

Columns that are drawn one after another give evidence that is a product,

    p(Z^(l) | y*, A) = prod_c p(Z_c^(l) | Z_<c^(l), y*, A),

with a factor for each synthesised column c given those before it. Without that of column c the
intruder is one who uses all that the release says but how c's values came about: they still
condition the columns after it.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_risk._core.arrays import Array
from bayes_risk._core.formats import number
from bayes_risk._core.logspace import log_sum
from bayes_risk.data.base_result import Table, value
from bayes_risk.release.release import EncodedRelease

from .contract import Capabilities, Factored, Targets

SEARCHED = "the guesses were searched where all the evidence together leads"
FIRST = "of the first releases it is not kept"


class Factors(NamedTuple):
    """Log evidence of each synthesised column."""

    columns: tuple[str, ...]  # those whose factors guesses move
    log_p: Array  # (k, m, G, n_cases), or (k, 1, G, n_cases) summed, up to a constant
    synthesized: list[str]  # all columns


def factors_of(
    can: Capabilities, evidence: str, release: EncodedRelease, targets: Targets
) -> tuple[str, ...] | str:
    """As `Factored.factors`; of other fits a phrase, why there are none."""
    if evidence == "in-file":
        return "evidence of a target who may not be in the file has no factor for each column"
    if len(release.synthesized) == 1:
        return "one column was synthesised, and all the evidence is its"
    factored: Factored | None = can.fit_for("factors")
    if factored is not None:
        return factored.factors(evidence, release, targets)
    fits = f"it would take {len(release.by_draw)} more fits to leave one out"
    return f"this evidence has no factor for each column, and {fits}"


def by_column(factors: Factors, risk: Any) -> pd.DataFrame:
    """Probability of the truth without the evidence of each synthesised column.

    Mean, largest, and by how much these are below those with all the evidence, by ``column``, the
    one that gives most away first. Cost: k^2 passes over (G, n_cases).
    """
    full, log_p = risk.records["probability"], factors.log_p.sum(axis=1)
    rows = dict.fromkeys(factors.synthesized, full.to_numpy())
    for c, name in enumerate(factors.columns):
        left = [one for d, one in enumerate(log_p) if d != c]
        log_post = risk.log_prior + sum(left, np.zeros(log_p.shape[1:]))
        log_post = np.where(np.isfinite(risk.log_prior), log_post, -np.inf)
        own = np.take_along_axis(log_post, risk.truth[None], axis=0)[0]
        p = np.where(risk.disclosed, 1.0, np.exp(own - log_sum(log_post)))
        rows[name] = p[risk.case]
    table = pd.DataFrame(
        {
            "mean_probability": [p.mean() for p in rows.values()],
            "max_probability": [p.max() for p in rows.values()],
            "mean_fall": [full.mean() - p.mean() for p in rows.values()],
            "max_fall": [full.max() - p.max() for p in rows.values()],
        },
        index=pd.Index(list(rows), name="column"),
    )
    return table.sort_values("mean_fall", ascending=False, kind="stable")


def shown_by_column(table: pd.DataFrame | None, why_not: str) -> Table | None:
    """The truth's probability without the evidence of each synthesised column, or why not."""
    title = "The most disclosive column"
    if table is None:
        why = f"The most disclosive column was not computed: {why_not}."
        return Table(title=title, note=why, frame=pd.DataFrame()) if why_not else None
    column, without, full = first_column(table)
    which = f"{column} is the most disclosive synthesised column: without its evidence"
    if not column:
        which = "No single synthesised column is disclosive: without the evidence of one"
    note = (
        f"{which} the mean probability is {without}{' or more' * (not column)} instead of {full}."
    )
    return Table(
        title=title,
        note=note,
        caption=(
            "Probability of the truth without the evidence of one column; its values still predict "
            "the columns drawn after it. Fall: the difference from the figure with all columns. "
            "Falls do not add up: of two columns with the same information, each has a small fall."
        ),
        frame=table,
        head="Column left out",
        columns=[
            ("Mean probability", value("mean_probability")),
            ("Fall", value("mean_fall")),
            ("Largest probability", value("max_probability")),
            ("Fall", value("max_fall")),
        ],
    )


def first_column(table: pd.DataFrame) -> tuple[str, str, str]:
    """The column that gives most away, if any, and the mean without and with its evidence."""
    first = table.iloc[0]
    mean, fall = float(first["mean_probability"]), float(first["mean_fall"])
    without, full = number(mean), number(mean + fall)
    return str(table.index[0]) if fall > 0 and without != full else "", without, full
