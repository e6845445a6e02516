"""Pictures of membership, privacy loss, wide searches and reweighting."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from bayes_risk.risk.full_table.likeliest_result import Likeliest
from bayes_risk.risk.full_table.result import FullTableRisk
from bayes_risk.risk.membership.result import Membership
from bayes_risk.risk.privacy_loss_result import PrivacyLoss
from bayes_risk.studies.reweighting_result import Reweighting

from .canvas import BLUE, GREY, ORANGE, VERMILION, axes_of, few_ticks, legend


def plot_roc(
    found: Membership, *, log: bool = False, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """Members found against people outside the data who are taken for members.

    On the line the release tells nothing. Other keywords go to `Axes.plot`, for the curve.

    Parameters
    ----------
    found : Membership
        With people outside the data.
    log : bool
        Logarithmic axes, which show the small rates.
    """
    table = found.roc()
    rates = table["false_positive_rate"].to_numpy()
    axes, low = axes_of(ax), float(rates[1]) if log else 0.0
    style: dict[str, Any] = {"color": BLUE, "label": "with the release"} | kwargs
    axes.plot(rates, table["true_positive_rate"], **style)
    axes.plot(rates, rates, color=VERMILION, ls="--", label="without the release")
    if log:
        axes.set(xscale="log", yscale="log")
    axes.set(xlim=(low, 1), ylim=(low, 1.02))
    axes.set(xlabel="people outside the data taken for members", ylabel="members found")
    legend(axes)
    return axes


def plot_privacy_loss(found: PrivacyLoss, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Share of records whose loss is at most so much; infinite losses are never reached.

    Other keywords go to `Axes.step`, for the curve.
    """
    table, axes = found.records, axes_of(ax)
    loss = np.sort(table["privacy_loss"].to_numpy())
    finite = loss[np.isfinite(loss)]
    share = np.arange(1, len(finite) + 1) / len(loss)
    style: dict[str, Any] = {"where": "post", "color": BLUE, "label": "with the release"} | kwargs
    axes.step(finite, share, **style)
    if table["low"].notna().any():
        low = np.sort(table["low"].dropna().clip(lower=0))
        share = np.arange(1, len(low) + 1) / len(loss)
        axes.step(low, share, where="post", color=ORANGE, ls=":", label="bias the other way")
    axes.axvline(0, color=VERMILION, ls="--", label="without the release")
    axes.set(xlabel="realised privacy loss", ylabel="share of records", ylim=(0, 1.02))
    legend(axes)
    return axes


def plot_full_table(risk: FullTableRisk, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Rank of the truth among all values, with the release against without, on log scales.

    Below the line the release has brought the truth nearer to the front. Other keywords go to
    `Axes.loglog`, for the points.
    """
    axes = axes_of(ax)
    before, after = risk.prior_rank[risk.case], risk.rank[risk.case]
    style: dict[str, Any] = {
        "color": BLUE,
        "ms": 4,
        "alpha": 0.5,
        "mew": 0,
        "label": "record",
    } | kwargs
    axes.loglog(before, after, "o", **style)
    ends = [1.0, float(max(before.max(), after.max()))]
    axes.loglog(ends, ends, color=VERMILION, ls="--", label="nothing learnt")
    axes.set(
        xlabel=f"rank of the truth among {int(risk.n_values.max()):,} values without the release",
        ylabel="rank with the release",
    )
    few_ticks(axes.xaxis)
    few_ticks(axes.yaxis)
    legend(axes)
    return axes


def plot_likeliest(found: Likeliest, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Probability of the truth against that of the likeliest value, on log scales.

    On the line the truth is the intruder's first guess. Hollow triangles: the rank is not certain.
    Other keywords go to `Axes.loglog`, for the points.
    """
    axes, table = axes_of(ax), found.records
    for certain, colour, marker, label in (
        (True, BLUE, "o", "rank of the truth certain"),
        (False, VERMILION, "v", "rank not certain"),
    ):
        some = table[table["found"] == certain]
        face = colour if certain else "none"
        style: dict[str, Any] = {"color": colour, "mfc": face, "ms": 4, "label": label} | kwargs
        axes.loglog(some["best"], some["probability"], marker, **style)
    ends = [float(table[["best", "probability"]].to_numpy().min()), 1.0]
    axes.loglog(ends, ends, color=GREY, ls="--", label="the truth is the likeliest")
    share = "" if found.exact else ", at most"
    axes.set(
        xlabel=f"probability of the likeliest of {found.n_values:,} values{share}",
        ylabel=f"probability of the truth{share}",
    )
    few_ticks(axes.xaxis)
    few_ticks(axes.yaxis)
    legend(axes)
    return axes


def plot_before_after(result: Reweighting, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Probability of the truth in the first and last round, one point a record.

    Other keywords go to `Axes.plot`, for the points.
    """
    axes, table = axes_of(ax), result.records
    top = 1.05 * float(table[["before", "after"]].to_numpy().max())
    rose = table["rose"]
    for which, colour, marker, label in (
        (~rose, BLUE, ".", "records"),
        (rose, VERMILION, "^", "moderate, and risen beyond the error"),
    ):
        some = table[which]
        style: dict[str, Any] = {"color": colour, "ms": 4, "label": label, "alpha": 0.5} | kwargs
        axes.plot(some["before"], some["after"], marker, **style)
    axes.plot([0, top], [0, top], "--", color=GREY, label="no change")
    if result.until is not None:
        axes.axhline(result.until, color=ORANGE, label="threshold")
    axes.set(
        xlim=(0, top),
        ylim=(0, top),
        xlabel="probability of the truth, all weights 1",
        ylabel="reweighted",
    )
    legend(axes)
    return axes


def plot_path(result: Reweighting, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Worst and mean probability of the truth against the distance of pairwise tables.

    One point a round, numbered. Other keywords go to `Axes.errorbar`.
    """
    axes, rows = axes_of(ax), result.summary()
    distance = "margins" if rows["pairs"].isna().any() else "pairs"
    for column, error, colour, marker, label in (
        (
            "max_probability",
            "mcse_max",
            VERMILION,
            "^",
            "worst record (\N{PLUS-MINUS SIGN} 2 s.e.)",
        ),
        ("mean_probability", "mcse", BLUE, "o", "mean"),
    ):
        style: dict[str, Any] = {
            "fmt": f"{marker}-",
            "color": colour,
            "capsize": 3,
            "label": label,
        } | kwargs
        axes.errorbar(rows[distance], rows[column], yerr=2 * rows[error].fillna(0), **style)
        for r, row in rows.iterrows():
            axes.annotate(str(r), (row[distance], row[column]), (4, 4), textcoords="offset points")
    if result.until is not None:
        axes.axhline(result.until, color=ORANGE, ls="--", label="threshold")
    what = "pairwise tables" if distance == "pairs" else "margins"
    axes.set(xlabel=f"distance of {what} from the original's", ylabel="probability of the truth")
    axes.set_ylim(bottom=0)
    legend(axes)
    return axes
