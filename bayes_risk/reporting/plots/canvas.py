"""What all pictures share: colours that every eye tells apart, bare axes, marks, rows, legends."""

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from bayes_risk._core.errors import InputError

BLUE, VERMILION, GREEN, ORANGE, GREY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#666666"
SKY, PURPLE = "#56B4E9", "#CC79A7"
ALL_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY)
COLOURS = "cividis_r"  # the same order for every eye and in grey: the darker, the higher
MANY_POINTS = 1_500
OWN = "bayes_risk"  # label of the figures that are made here
EDGES = [i / 50 for i in range(51)]


def axes_of(ax: Axes | None, size: tuple[float, float] = (6.4, 3.2)) -> Axes:
    """The axes given, or those of a new figure; without superfluous spines."""
    if ax is None:
        ax = own_axes(Figure(figsize=size, layout="constrained"))
    elif not isinstance(ax, Axes):
        raise InputError(
            f"ax is a {type(ax).__name__}; give matplotlib Axes, or nothing. To save a picture: "
            'result.plot().figure.savefig("picture.png")'
        )
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def own_axes(figure: Figure) -> Axes:
    """The only axes of a figure of ours: legends stand above them, where nothing else is."""
    figure.set_label(OWN)
    return figure.add_subplot()


def ink() -> str:
    """The colour of words: what would be black, but on dark paper is light."""
    return str(rcParams["text.color"])


def paper() -> str:
    """The colour around marks, which keeps them apart: that of the axes, or white."""
    face = str(rcParams["axes.facecolor"])
    return "white" if face == "none" else face


def styled(given: Mapping[str, Any], **usual: Any) -> dict[str, Any]:
    """Keywords of matplotlib: the usual ones, but those that are given."""
    return usual | dict(given)


def legend(axes: Axes, *, side: str = "left", columns: int = 3, **words: Any) -> Axes:
    """Above the plot in a figure of ours, flush with a side; inside the axes in another's.

    There a title, or the next axes, may stand above them. ``words``: labels and limits of the axes.
    """
    axes.set(**words)
    if axes.figure.get_label() != OWN:
        axes.legend(loc="best", fontsize="small", framealpha=0.85)
        return axes
    corner = (0 if side == "left" else 1, 1)
    axes.legend(
        frameon=False, loc=f"lower {side}", bbox_to_anchor=corner, ncols=columns, borderaxespad=0.2
    )
    return axes


def marks(
    axes: Axes, x: Any, y: Any, given: Mapping[str, Any], *groups: tuple[Any, ...], **usual: Any
) -> None:
    """Points of groups, each of them: which points, colour, marker, label, and other keywords."""
    for which, colour, marker, label, *more in groups:
        own = usual | (more[0] if more else {})
        axes.plot(x[which], y[which], marker, **styled(given, color=colour, label=label, **own))


def rows(
    axes: Axes, labels: Iterable[str], beside: Any = None, label: str = "without the release"
) -> None:
    """Label rows of bars, the first on top; diamonds: what these are to be read against."""
    names = list(labels)
    if beside is not None:
        axes.plot(beside, range(len(names)), "D", color=ORANGE, label=label, ms=5, clip_on=False)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def shares(
    axes: Axes, values: Any, top: float, given: Mapping[str, Any], without: Any = None, **how: Any
) -> None:
    """Records by a probability from 0 to a top, counted on a log scale: one of thousands is seen.

    Beside them, as a line, the same ``without`` the release, if there is any.
    """
    edges = [top * edge for edge in EDGES]
    axes.hist(values, **styled(given, bins=edges, color=BLUE, label="with the release"))
    if without is not None:
        axes.hist(without, bins=edges, histtype="step", **how)
    axes.set(yscale="log", xlim=(0, top), ylabel="records (log scale)")
    axes.set_ylim(bottom=0.7)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    few_ticks(axes.yaxis)


def few_ticks(*log: Axis) -> None:
    """Ticks of log axes at powers of ten alone: dozens between them cost more than they say."""
    for axis in log:
        axis.set_minor_locator(NullLocator())


def upper(*highest: float) -> float:
    """End of an axis of probabilities: a round number above them, at most 1."""
    top = 1.2 * max(highest)
    if not 0 < top < 0.2:
        return min(math.ceil(10 * top) / 10, 1.0) if top > 0 else 1.0
    unit = 10.0 ** math.floor(math.log10(top))
    return next(unit * step for step in (1, 2, 5, 10) if unit * step >= top)


def label_text(value: Hashable) -> str:
    """Record label that matplotlib shows as it is, not as mathematics."""
    text = str(value)
    return (text if len(text) <= 24 else f"{text[:23]}\N{HORIZONTAL ELLIPSIS}").replace("$", r"\$")
