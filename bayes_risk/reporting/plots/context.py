"""Picture of the measures that other tools report."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_risk.utilities.context_result import SHOWN

from .canvas import BLUE, ORANGE, as_text, axes_of, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_risk.utilities.context_result import ContextMeasures


def plot_context(found: "ContextMeasures", *, ax: "Axes | None" = None, **kwargs: Any) -> "Axes":
    """Replicated uniques, DiSCO, DCAP, TCAP and released copies, beside what they compare with.

    Parameters
    ----------
    found : ContextMeasures
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.barh`, for the bars of the release.

    Returns
    -------
    matplotlib Axes
    """
    table = found.summary()
    table = table[[measure in SHOWN for _, measure in found.rows]].iloc[::-1]
    axes, places = axes_of(ax), np.arange(len(table))
    style: dict[str, Any] = {"height": 0.6, "color": BLUE, "label": "with the release"} | kwargs
    axes.barh(places, table["value"], **style)
    axes.plot(table["compare"], places, "D", color=ORANGE, label="with the original")
    axes.set_yticks(places, [as_text(f"{SHOWN[m]} {t}".strip()) for t, m in table.index])
    axes.set(xlim=(0, 1), xlabel="share of records")
    legend(axes)
    return axes
