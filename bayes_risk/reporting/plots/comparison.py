"""The risk-utility map: candidates by what they give away and what they keep."""

from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from bayes_risk._core.arrays import Array
from bayes_risk._core.formats import number
from bayes_risk.studies.comparison import Comparison
from bayes_risk.studies.measures import MEASURES, UTILITY, chosen

from .canvas import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, axes_of, ink, legend, paper

COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
LEFT, RIGHT = "\N{LEFTWARDS ARROW}", "\N{RIGHTWARDS ARROW}"
DOWN, UP = "\N{DOWNWARDS ARROW}", "\N{UPWARDS ARROW}"
REACH = 1.0  # how far, in spans of the candidates, an end of the scale may stretch the map
EDGE = 0.08  # of a span, beside the outermost mark


class Look(NamedTuple):
    """Colour and marker of a candidate."""

    colour: str
    marker: str


def plot_risk_utility(
    found: Comparison,
    *,
    risk: str | None = None,
    utility: str | None = None,
    kind: str = "boxes",
    whiskers: float | None = None,
    bounds: bool = False,
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """The risk-utility map: candidates on utility (x) and risk (y), the Pareto front drawn.

    Other keywords go to `Axes.plot`, for the mark of each candidate.

    Parameters
    ----------
    risk, utility : str, optional
        Measures, as in `Comparison.pareto`; by default the usual.
    kind : {"boxes", "rectangles", "points"}
        As in `Comparison.plot`, which checks it.
    whiskers : float, optional
        Where whiskers end: None at the last replicate, else at the last within so many
        interquartile ranges of the rectangle.
    bounds : bool
        Mark the releases at the ends of the scale.
    """
    of = (chosen("risk", risk, found.measures), chosen("utility", utility, found.measures))
    axes, table = axes_of(ax, (7.2, 5.0)), found.pareto(*of)
    looks = zip(found.names, islice(cycle(COLOURS), len(found.names)), cycle(MARKERS), strict=False)
    for name, colour, marker in looks:
        points = found.points(name, *of)
        if len(points):
            look = Look(colour, marker)
            _candidate(axes, points, look, kind, whiskers, table.loc[[name]].iloc[0])
            _mark(axes, points.mean(axis=0), look, name, kwargs)
    _front(axes, table)
    _level(axes, found, of)
    axes.margins(EDGE)
    if bounds:
        _ends(axes, found, of)
    axes.set_ylabel("\n".join(_label(of[0], (DOWN, UP))))
    axes.set_xlabel("      ".join(_label(of[1], (LEFT, RIGHT))))
    axes.locator_params(axis="x", nbins=6)
    _legend(axes)
    return axes


def _candidate(
    axes: Axes, points: Array, look: Look, kind: str, whiskers: float | None, row: pd.Series
) -> None:
    """Replicates, and their rectangle, box or error."""
    alone, middle = len(points) == 1, points.mean(axis=0)
    small: dict[str, Any] = {"color": look.colour, "marker": look.marker, "ls": "", "zorder": 2}
    if kind != "points" and not alone:
        _rectangle(axes, points, look)
    if kind == "boxes" and not alone:
        ends = whisker_ends(points, whiskers)
        _whiskers(axes, points, ends, look)
        shown = points[((points < ends[0]) | (points > ends[1])).any(axis=1)]
    else:
        shown = points if not alone else points[:0]
    axes.plot(*shown.T, ms=4, alpha=0.55, mew=0, **small)
    if kind == "points" or alone:
        x, y = float(middle[0]), float(middle[1])
        across, up = 2 * np.nan_to_num([row["utility_mcse"], row["risk_mcse"]])
        axes.errorbar(x, y, xerr=across, yerr=up, color=look.colour, lw=1, capsize=2, zorder=3)


def _mark(axes: Axes, middle: Array, look: Look, name: str, given: dict[str, Any]) -> None:
    """The mean, which carries the name."""
    style: dict[str, Any] = {"marker": look.marker, "color": look.colour, "ms": 8, "ls": ""}
    style |= {"mec": paper(), "mew": 1.0, "label": _plain(name), "zorder": 4}
    axes.plot(*middle, **(style | given))


def quartiles(points: Array) -> Array:
    """First and third quartile of both measures, shape (2, 2)."""
    return np.asarray(np.percentile(points, [25, 75], axis=0))


def whisker_ends(points: Array, whiskers: float | None) -> Array:
    """Where whiskers end, low and high, of both measures, shape (2, 2).

    Smallest and largest value; or the last values within so many interquartile ranges of the
    quartiles.
    """
    if whiskers is None:
        return np.array([points.min(axis=0), points.max(axis=0)])
    low, high = quartiles(points)
    reach = whiskers * (high - low)
    inside = np.where((points >= low - reach) & (points <= high + reach), points, np.nan)
    return np.array([np.nanmin(inside, axis=0), np.nanmax(inside, axis=0)])


def _rectangle(axes: Axes, points: Array, look: Look) -> None:
    low, high = quartiles(points)
    wide, tall = high - low
    for fill, alpha in ((True, 0.18), (False, 1.0)):
        axes.add_patch(
            Rectangle(
                (float(low[0]), float(low[1])), float(wide), float(tall), fill=fill, alpha=alpha,
                color=look.colour, lw=1.2, zorder=1.5,
            )
        )  # fmt: skip


def _whiskers(axes: Axes, points: Array, ends: Array, look: Look) -> None:
    """From the sides of the rectangle, at the median of the other measure."""
    (low, high), middle = quartiles(points), np.median(points, axis=0)
    how: dict[str, Any] = {"color": look.colour, "lw": 1.2, "zorder": 1.5}
    for side, end in ((low, ends[0]), (high, ends[1])):
        axes.plot([side[0], end[0]], [middle[1]] * 2, **how)
        axes.plot([middle[0]] * 2, [side[1], end[1]], **how)
    axes.plot([low[0], high[0]], [middle[1]] * 2, **how)
    axes.plot([middle[0]] * 2, [low[1], high[1]], **how)


def _front(axes: Axes, table: pd.DataFrame) -> None:
    """Steps between the candidates of the front: below and before them nobody stands."""
    front = table[table["on_front"]]  # the most useful first
    if len(front) > 1:
        axes.plot(
            front["utility"], front["risk"], drawstyle="steps-post", color=ink(), ls="--", lw=1,
            zorder=1, label="Pareto front",
        )  # fmt: skip


def _level(axes: Axes, found: Comparison, of: tuple[str, str]) -> None:
    """Risk without the release, where it is one number for all candidates; chance of utility."""
    words = ("without the release", "drawn from the truth")
    for name, draw, said, style in zip(
        of, (axes.axhline, axes.axvline), words, (":", "-."), strict=True
    ):
        beside = found.beside[:, :, found.measures.index(name)]
        known = beside[~np.isnan(beside)]
        if len(known) and np.allclose(known, known[0], rtol=1e-3) and name != "gain":
            draw(float(known[0]), color=GREY, ls=style, lw=1, label=said, zorder=1)


def _ends(axes: Axes, found: Comparison, of: tuple[str, str]) -> None:
    """Releases at the ends of the scale; those far off stand at the edge, with an arrow."""
    table = found.bounds
    assert table is not None
    at = table[[of[1], of[0]]].to_numpy(float)
    seen = np.array([axes.get_xlim(), axes.get_ylim()]).T  # shape (2, 2): low, high
    span = seen[1] - seen[0]
    near = np.where((at >= seen[0] - REACH * span) & (at <= seen[1] + REACH * span), at, np.nan)
    low = np.fmin(seen[0], np.nanmin(np.vstack([near, seen[:1]]), axis=0) - EDGE * span)
    high = np.fmax(seen[1], np.nanmax(np.vstack([near, seen[1:]]), axis=0) + EDGE * span)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    for name, true in zip(table.index, at, strict=True):
        _end(axes, str(name), true, np.clip(true, low, high))


def _end(axes: Axes, name: str, true: Array, shown: Array) -> None:
    """One of them, its true place in numbers if it is not there."""
    beyond = ""
    for off, (low, high) in zip(true - shown, ((LEFT, RIGHT), (DOWN, UP)), strict=True):
        beyond += low if off < 0 else high if off > 0 else ""
    told = f"{name} {beyond} ({number(true[0])}, {number(true[1])})" if beyond else name
    left, right = axes.get_xlim()
    share = (shown[0] - left) / (right - left)
    side = "left" if share < 0.15 else "right" if share > 0.85 else "center"
    axes.plot(*shown, marker="*", ms=10, ls="", color=ink(), mfc=paper(), zorder=5, clip_on=False)
    axes.annotate(
        told,
        (float(shown[0]), float(shown[1])),
        xytext=(0, 8),
        textcoords="offset points",
        ha=side,
        fontsize=8,
        zorder=5,
    )


def _label(name: str, arrows: tuple[str, str]) -> tuple[str, str]:
    """The measure, and which way is better."""
    measure = MEASURES[name]
    better = "more useful" if measure.kind == UTILITY else "less risk"
    low, high = arrows
    return measure.words, f"{low} {better}" if measure.lower else f"{better} {high}"


def _legend(axes: Axes) -> None:
    longest = max(map(len, axes.get_legend_handles_labels()[1]))
    legend(axes, columns=4 if longest <= 13 else 3 if longest <= 20 else 2)


def _plain(text: str) -> str:
    return text.replace("$", r"\$").lstrip("_") or "candidate"
