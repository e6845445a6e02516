"""The picture that a result has of itself, by its class."""

from functools import singledispatch
from typing import Any

from matplotlib.axes import Axes

from .attribute import plot_attribute_risk
from .comparison import plot_context, plot_utility
from .membership import (
    plot_before_after,
    plot_full_table,
    plot_likeliest,
    plot_match_probabilities,
    plot_privacy_loss,
)


@singledispatch
def own_plot(result: Any, *, ax: Axes | None = None) -> Axes:
    """The picture that a result has of itself."""
    raise NotImplementedError(f"there is no picture of a {type(result).__name__}")


for _plot in (
    *(plot_attribute_risk, plot_match_probabilities, plot_context, plot_utility),
    *(plot_privacy_loss, plot_likeliest, plot_full_table, plot_before_after),
):
    own_plot.register(_plot)
