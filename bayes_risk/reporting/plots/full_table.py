"""Pictures of wide searches."""

from typing import TYPE_CHECKING, Any

from .canvas import BLUE, GREY, VERMILION, axes_of, few_ticks, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_risk.risk.full_table.likeliest_result import Likeliest
    from bayes_risk.risk.full_table.result import FullTableRisk


def plot_full_table(risk: "FullTableRisk", *, ax: "Axes | None" = None, **kwargs: Any) -> "Axes":
    """Rank of the truth among all values, with the release against without, on log scales.

    Below the line the release has brought the truth nearer to the front.

    Parameters
    ----------
    risk : FullTableRisk
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.loglog`, for the points.

    Returns
    -------
    matplotlib Axes
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


def plot_likeliest(found: "Likeliest", *, ax: "Axes | None" = None, **kwargs: Any) -> "Axes":
    """Probability of the truth against that of the likeliest value, on log scales.

    On the line the truth is the intruder's first guess. Hollow triangles: the rank is not certain.

    Parameters
    ----------
    found : Likeliest
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.loglog`, for the points.

    Returns
    -------
    matplotlib Axes
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
