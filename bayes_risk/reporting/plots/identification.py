"""Pictures of identification risk over all records."""

from typing import TYPE_CHECKING, Any

from .canvas import BLUE, EDGES, VERMILION, axes_of, legend, log_counts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_risk.matching.result import IdentificationRisk


def plot_match_probabilities(
    ident: "IdentificationRisk", *, ax: "Axes | None" = None, **kwargs: Any
) -> "Axes":
    """Distribution over records of the probability of a correct match, pooled over releases.

    Parameters
    ----------
    ident : IdentificationRisk
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.hist`, for the bars.

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    table = ident.records
    style: dict[str, Any] = {"bins": EDGES, "color": BLUE, "label": "with the release"} | kwargs
    axes.hist(table["probability"], **style)
    axes.hist(
        table["baseline"],
        bins=EDGES,
        histtype="step",
        color=VERMILION,
        ls="--",
        label="by the unsynthesised keys alone",
    )
    log_counts(axes)
    axes.set(xlim=(0, 1), xlabel="probability that the intruder's match is the target")
    legend(axes)
    return axes
