"""Pictures of utility and of the measures that other tools report."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from bayes_risk._core.arrays import Array
from bayes_risk._core.formats import plain
from bayes_risk.utilities.context_result import DRAWN, WRITTEN, ContextMeasures
from bayes_risk.utilities.result import Utility

from .canvas import BLUE, COLOURS, ORANGE, VERMILION, as_text, axes_of, few_ticks, legend

PAIRS = 10
LEAST = 0.1  # ratios are drawn from here; smaller ones say nothing more
TOP = 10.0  # ratio at which the colours end, if none is above
STEPS = [step * 10**k for k in range(7) for step in (1, 2, 5)]
NUMBERED = 14  # columns up to which numbers stand in the squares


def plot_utility(found: Utility, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """S_pMSE of every pair of columns (below the diagonal) and column (on it).

    A release drawn from the truth has 1 on average: the lightest. Pairs of columns that were not
    synthesised are blank. Up to 14 columns the numbers are written too. Other keywords go to
    `Axes.pcolormesh`.
    """
    axes = axes_of(ax)
    names = [*found.unsynthesized, *found.synthesized]
    ratios = ratios_of(found)
    top = max(TOP, float(np.nanmax(ratios, initial=1.0)))
    style: dict[str, Any] = {"cmap": COLOURS, "norm": "log", "vmin": 1, "vmax": top}
    style |= {"edgecolors": "none"} | kwargs
    squares = np.ma.masked_invalid(np.maximum(ratios, 1e-3))
    mesh = axes.pcolormesh(squares, **style)
    places = np.arange(len(names)) + 0.5
    axes.set_xticks(places, [as_text(name) for name in names], rotation=90)
    axes.set_yticks(places, [as_text(name) for name in names])
    axes.invert_yaxis()
    if len(names) <= NUMBERED:
        _write(axes, ratios, float(np.sqrt(top)))
    bar = axes.figure.colorbar(mesh, ax=axes, label="pMSE over chance (S_pMSE)")
    bar.set_ticks([step for step in STEPS if step <= top], labels=None, minor=False)
    bar.ax.yaxis.set_major_formatter("{x:g}")
    few_ticks(bar.ax.yaxis)
    return axes


def ratios_of(found: Utility) -> Array:
    """S_pMSE of columns and pairs, (p, p), below the diagonal; NaN: not compared."""
    at = {name: j for j, name in enumerate([*found.unsynthesized, *found.synthesized])}
    grid = np.full((len(at), len(at)), np.nan)
    for name, ratio in found.margins["ratio"].items():
        grid[at[str(name)], at[str(name)]] = ratio
    for pair, ratio in zip(found.pairs.index, found.pairs["ratio"], strict=True):
        low, high = sorted(at[name] for name in pair)
        grid[high, low] = ratio
    return grid


def _write(axes: Axes, ratios: Array, dark: float) -> None:
    """The numbers, readable on their square."""
    for row, column in np.argwhere(np.isfinite(ratios)):
        ratio = ratios[row, column]
        colour = "white" if ratio > dark else "black"
        where = (column + 0.5, row + 0.5)
        axes.text(*where, plain(ratio, 2), fontsize=8, ha="center", va="center", color=colour)


def plot_worst_pairs(
    found: Utility, *, k: int = PAIRS, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """The pairs of columns worst kept together: S_pMSE of their tables, on a log scale.

    A release drawn from the truth has 1 on average (the dashed line). Diamonds: the worse of the
    two columns by itself, so that a pair is seen to be bad because of a column. Other keywords go
    to `Axes.barh`.

    Parameters
    ----------
    k : int
        Number of pairs.
    """
    axes, table = axes_of(ax), found.pairs.head(k)
    places = np.arange(len(table))
    ratio = np.maximum(table["ratio"].to_numpy(), LEAST)
    style: dict[str, Any] = {"height": 0.6, "color": BLUE, "label": "the pair"} | kwargs
    axes.barh(places, ratio - LEAST, left=LEAST, **style)
    alone = [_alone(found, pair) for pair in table.index]
    axes.plot(alone, places, "D", color=ORANGE, ms=5, label="the worse column alone")
    axes.axvline(1, color=VERMILION, ls="--", label="drawn from the truth")
    axes.set_xscale("log")
    axes.set_xlim(left=LEAST)
    axes.xaxis.set_major_formatter("{x:g}")
    few_ticks(axes.xaxis)
    axes.set_yticks(
        places, [f"{as_text(a)} \N{MULTIPLICATION SIGN} {as_text(b)}" for a, b in table.index]
    )
    axes.set_xlabel("pMSE over chance (S_pMSE)")
    axes.invert_yaxis()
    legend(axes)
    return axes


def _alone(found: Utility, pair: tuple[str, str]) -> float:
    """Largest ratio of the synthesised columns of a pair by themselves."""
    margins = found.margins["ratio"]
    return max(max(float(margins[name]) for name in pair if name in margins.index), LEAST)


def plot_context(found: ContextMeasures, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Replicated uniques, DiSCO, DCAP, TCAP and released copies, beside what they compare with.

    Other keywords go to `Axes.barh`, for the bars of the release.
    """
    table = found.summary()
    table = table[[measure in DRAWN for _, measure in found.rows]].iloc[::-1]
    axes, places = axes_of(ax), np.arange(len(table))
    style: dict[str, Any] = {"height": 0.6, "color": BLUE, "label": "with the release"} | kwargs
    axes.barh(places, table["value"], **style)
    axes.plot(table["compare"], places, "D", color=ORANGE, label="with the original")
    axes.set_yticks(places, [as_text(f"{WRITTEN[m]} {t}".strip()) for t, m in table.index])
    axes.set(xlim=(0, 1), xlabel="share of records")
    legend(axes)
    return axes
