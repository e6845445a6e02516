"""How close the intruder comes to a number, over all records."""

from typing import TYPE_CHECKING, Any

from .canvas import BLUE, ORANGE, as_text, axes_of, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_risk.risk.result import AttributeRisk


def plot_closeness(
    risk: "AttributeRisk",
    variable: str,
    *,
    relative: bool = False,
    ax: "Axes | None" = None,
    **kwargs: Any,
) -> "Axes":
    """Share of records whose expected absolute error for a number is at most so much.

    A curve further to the left: the intruder comes closer.

    Parameters
    ----------
    risk : AttributeRisk
    variable : str
        A guessed variable that is a number.
    relative : bool
        In units of the same error without the release, which does not tell the number itself. (On a
        grid of percentages the absolute curve without the release is that of the true values.)
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.ecdf`, for the curve with the release.

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    table, name = risk.closeness(variable), "expected_absolute_error"
    after, before = table[name], table[f"{name}_prior"]
    axes.set(ylabel="share of records", ylim=(0, 1.02))
    style: dict[str, Any] = {"color": BLUE, "zorder": 3, "label": "with the release"} | kwargs
    if relative:
        ratio = (after / before.where(before > 0)).fillna(1.0)
        axes.ecdf(ratio, **style)
        axes.axvline(1, color=ORANGE, ls="--", label="without the release")
        axes.set_xlabel(f"distance from the true {as_text(variable)}, without the release = 1")
    else:
        axes.ecdf(after, **style)
        axes.ecdf(before, color=ORANGE, ls="--", label="without the release")
        axes.set_xlabel(f"expected distance from the true {as_text(variable)}")
    axes.set_xlim(left=0)
    legend(axes)
    return axes
