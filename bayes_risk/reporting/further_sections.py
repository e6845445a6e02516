"""Membership, privacy loss, the full table and the loop of weights as sections of the report."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayes_risk._core.formats import NONE, error, number, percent, percent_error

from . import plots
from .figures import picture
from .tables import Section, Table

if TYPE_CHECKING:
    from bayes_risk.risk.full_table.result import FullTableRisk
    from bayes_risk.risk.membership.result import Membership
    from bayes_risk.risk.privacy_loss_result import PrivacyLoss
    from bayes_risk.studies.reweighting_result import Reweighting

OF_MEMBERSHIP = {  # words, and whether it is a share
    "auc": ("How often the release points to the member of a pair", True),
    "power_at_1_percent": ("Members found, taking 1 of 100 others for one", True),
    "power_at_5_percent": ("Members found, taking 5 of 100 others for one", True),
    "median_log_bayes_factor": ("Log Bayes factor of a member, median", False),
    "max_log_bayes_factor": ("Log Bayes factor of a member, largest", False),
    "max_probability": ("Probability that a member is in the data, largest", False),
    "members": ("Members asked about", False),
    "others": ("People outside the data asked about", False),
    "unreliable": ("Marked unreliable", False),
}
OF_LOSS = {
    "max_privacy_loss": ("Privacy loss, worst record", False),
    "q95_privacy_loss": ("Privacy loss, 95th percentile", False),
    "median_privacy_loss": ("Privacy loss, median", False),
    "max_even_odds_become": ("Even odds become, at most", False),
    "max_among_possible": ("Privacy loss among guesses that are possible, largest", False),
    "with_guesses_ruled_out": ("Records of whom guesses are ruled out", False),
    "targets": ("Records audited", False),
    "unreliable": ("Marked unreliable", False),
}
OF_TABLE = {
    "mean_probability": ("Probability of the true values, mean over records", False),
    "max_probability": ("Probability of the true values, worst record", False),
    "median_rank": ("Rank of the true values among all values, median", False),
    "share_ranked_first": ("Share of records whose truth is the likeliest value", True),
    "share_in_first_100": ("Share of records whose truth is among the first 100", True),
    "mean_within_1": ("Posterior within 1 variable of the truth, mean", False),
    "mean_within_2": ("Posterior within 2 variables of the truth, mean", False),
    "values": ("Values considered", False),
    "targets": ("Records audited", False),
    "unreliable": ("Marked unreliable", False),
}
PLACES = ("median_rank",)  # counted too, but halves occur
COUNTED = ("with_guesses_ruled_out", "members", "others", "unreliable", "values", "targets")


def of_membership(found: "Membership") -> Section:
    """Who is in the data, and the curve where people outside were asked about."""
    caption = (
        "Members found, against people outside the data who are taken for members on the way. On "
        "the dashed line the release tells nothing."
    )
    return Section(
        name="membership",
        short="Membership",
        title="Membership: whether it can be told who is in the data",
        sentence=found.sentence(),
        tables=[_measures(found, OF_MEMBERSHIP, "Persons asked about.")],
        figures=[picture("roc", plots.plot_roc, found, caption)] if found.has_others else [],
    )


def of_privacy_loss(found: "PrivacyLoss") -> Section:
    """How far odds move between any two guesses."""
    caption = (
        "Share of records whose privacy loss is at most so much. The curve ends below 1 where "
        "guesses are ruled out and the loss is infinite."
    )
    return Section(
        name="privacy-loss",
        short="Privacy loss",
        title="Realised privacy loss: how far odds move between any two guesses",
        sentence=found.sentence(),
        tables=[_measures(found, OF_LOSS, "The audited records.")],
        figures=[picture("losses", plots.plot_privacy_loss, found, caption)],
    )


def of_full_table(found: "FullTableRisk") -> Section:
    """Where the truth stands among all values."""
    caption = (
        "Rank of the true values among all values, with the release against without, one point a "
        "record. Below the dashed line the release has brought it nearer to the front."
    )
    audited = f"{len(found.index):,} records, among all values of the unknown columns."
    return Section(
        name="full-table",
        short="Full table",
        title="Full table: where the truth stands among all values",
        sentence=found.sentence(),
        tables=[_measures(found, OF_TABLE, audited)],
        figures=[picture("places", plots.plot_full_table, found, caption)],
    )


def of_reweighting(loop: "Reweighting") -> Section:
    """Risk and utility, round by round."""
    captions = (
        "Probability of the truth in the first and in the last round, one point a record. Below "
        "the dashed line the weights have lowered it.",
        "What each round, by its number, made of risk and of the distance of tables from the "
        "original's: down is safer, left is more useful.",
    )
    return Section(
        name="reweighting",
        short="Reweighting",
        title="Reweighting: records at risk weighed down",
        sentence=f"{loop.sentence()} All that this report says of attribute and identification "
        "risk is of the last release.",
        tables=[_rounds(loop)],
        figures=[
            picture("rounds", plots.plot_before_after, loop, captions[0]),
            picture("path", plots.plot_path, loop, captions[1]),
        ],
    )


def _measures(
    found: "PrivacyLoss | Membership | FullTableRisk",
    words: dict[str, tuple[str, bool]],
    caption: str,
) -> Table:
    """Value, error (over persons and draws), and the same without the release."""
    table = found.summary()
    rows: list[tuple[str, ...]] = []
    for key, (text, share) in words.items():
        row = table.loc[key]
        if pd.isna(row["value"]):
            continue
        value = int(row["value"]) if key in COUNTED else float(row["value"])
        form = percent if share else _place if key in PLACES else number
        baseline = NONE if key in COUNTED else form(float(row["baseline"]))
        rows.append((text, form(value), _spread(row, share=share), baseline))
    heads = ("Measure", "Value", "Error (2 s.e.)", "Without the release")
    return Table(caption=caption, heads=heads, rows=rows)


def _place(value: float) -> str:
    return number(value, 0 if value.is_integer() else 1)


def _spread(row: "pd.Series[Any]", *, share: bool) -> str:
    """Two standard errors: over the draws, and over the persons asked about where that is known."""
    parts = np.array([float(row.get("standard_error", 0.0)), float(row["mcse"])])
    if np.isnan(parts[1]):
        return NONE
    total = float(np.sqrt(np.nansum(parts**2)))
    return percent_error(total) if share else error(total, float(row["value"]))


def _rounds(loop: "Reweighting") -> Table:
    """One row a round: risk and its error before utility."""
    rows = []
    for r, row in loop.summary().iterrows():
        above = NONE if pd.isna(row["above"]) else number(int(row["above"]))
        rows.append(
            (
                f"{r}" + (" (all weights 1)" if r == 0 else ""),
                _with_error(row["mean_probability"], row["mcse"]),
                _with_error(row["max_probability"], row["mcse_max"]),
                above,
                number(float(row["mean_weight"])),
                number(float(row["min_weight"])),
                number(float(row["margins"])),
                number(float(row["pairs"])),
            )
        )
    heads = (
        *("Round", "Truth, mean", "Truth, worst", _above(loop), "Mean weight"),
        *("Least weight", "Margins off by", "Pairs off by"),
    )
    without = float(loop.risk.records["prior"].mean())
    caption = (
        "Probability of the truth, mean over records and in the worst case, two standard errors in "
        f"brackets ({number(without)} on average without the release); then how far one-way and "
        "two-way tables are from the original's (total variation, 0 to 1)."
    )
    return Table(caption=caption, heads=heads, rows=rows)


def _above(loop: "Reweighting") -> str:
    return "Records above" if loop.until is None else f"Records above {loop.until:g}"


def _with_error(value: float, mcse: float) -> str:
    spread = error(float(mcse), float(value))
    return number(float(value)) + ("" if spread in ("0", NONE) else f" ({spread})")
