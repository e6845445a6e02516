"""Pictures of reweighting: records before and after, and the path of risk and utility."""

from typing import TYPE_CHECKING, Any

from .canvas import BLUE, GREY, ORANGE, VERMILION, axes_of, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_risk.studies.reweighting_result import Reweighting


def plot_before_after(result: "Reweighting", *, ax: "Axes | None" = None, **kwargs: Any) -> "Axes":
    """Probability of the truth in the first and last round, one point a record.

    Parameters
    ----------
    result : Reweighting
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.plot`, for the points.

    Returns
    -------
    matplotlib Axes
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


def plot_path(result: "Reweighting", *, ax: "Axes | None" = None, **kwargs: Any) -> "Axes":
    """Worst and mean probability of the truth against the distance of pairwise tables.

    One point a round, numbered.

    Parameters
    ----------
    result : Reweighting
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.errorbar`.

    Returns
    -------
    matplotlib Axes
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
