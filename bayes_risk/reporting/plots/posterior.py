"""The posterior over the guesses of one record; confidential."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bayes_risk._core.formats import plain

from .canvas import BLUE, ORANGE, VERMILION, as_text, axes_of, legend

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from bayes_risk.risk.result import AttributeRisk

MANY_BARS = 10


def plot_posterior(
    risk: "AttributeRisk",
    label: Hashable,
    variable: str | None = None,
    *,
    ax: "Axes | None" = None,
    **kwargs: Any,
) -> "Axes":
    """The intruder's posterior for one record, with the prior and the truth; confidential.

    A number: stems over its values. A category, or all variables together: bars, the likeliest
    guesses first, and the truth last if it is not among them.

    Parameters
    ----------
    risk : AttributeRisk
    label : hashable
        A record, as in ``risk.index``.
    variable : str, optional
        A guessed variable; all of them together by default.
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.plot` (a number) or `Axes.barh`.

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    if variable is None and len(risk.variables) == 1:
        variable = risk.variables[0].name
    table = risk.posterior(label, variable)
    if variable is not None and not _categories(risk, variable):
        _stems(axes, table, kwargs)
        legend(axes)
    else:
        names = [v.name for v in risk.variables] if variable is None else [variable]
        _bars(axes, table, names, kwargs)
        legend(axes, side="right")
    return axes


def _categories(risk: "AttributeRisk", variable: str) -> bool:
    return next(v.n_levels for v in risk.variables if v.name == variable) > 0


def _stems(axes: "Axes", table: "pd.DataFrame", given: dict[str, Any]) -> None:
    """Probabilities over the values of a number; those before the release are a line."""
    values, true = table.iloc[:, 0], table["is_truth"]
    for which, colour, marker, label in (
        (~true, BLUE, "o", "with the release"),
        (true, VERMILION, "*", "the truth"),
    ):
        heights = table["probability"][which]
        axes.vlines(values[which], 0, heights, color=colour, lw=2)
        size = 6 if marker == "o" else 12
        style: dict[str, Any] = {"color": colour, "ms": size, "label": label, "zorder": 3} | given
        axes.plot(values[which], heights, marker, **style)
    axes.plot(values, table["prior"], "--", color=ORANGE, label="without the release")
    axes.set(xlabel=as_text(str(values.name)), ylabel="probability")
    axes.set_ylim(bottom=0)


def _bars(axes: "Axes", table: "pd.DataFrame", variables: list[str], given: dict[str, Any]) -> None:
    """Probabilities of the likeliest guesses, from the top."""
    ordered = table.sort_values("probability", ascending=False, kind="stable", ignore_index=True)
    shown = ordered[(ordered.index < MANY_BARS) | ordered["is_truth"]]
    places, true = np.arange(len(shown)), shown["is_truth"].to_numpy()
    p = shown["probability"].to_numpy()
    style: dict[str, Any] = {"color": BLUE, "label": "with the release"} | given
    axes.barh(places[~true], p[~true], **style)
    axes.barh(places[true], p[true], color=VERMILION, hatch="//", ec="white", label="the truth")
    axes.plot(shown["prior"], places, "D", color=ORANGE, ms=5, label="without the release")
    axes.set_yticks(places, [_guess(row) for row in shown[variables].to_numpy(dtype=object)])
    hidden = f" ({len(shown)} of {len(table):,} guesses shown)" if len(shown) < len(table) else ""
    axes.set(xlabel=f"probability{hidden}", ylabel=as_text(", ".join(variables)))
    axes.set_xlim(left=0)
    axes.invert_yaxis()


def _guess(values: "npt.NDArray[np.object_]") -> str:
    parts = [plain(v, 6) if isinstance(v, float) else str(v) for v in values]
    return as_text(", ".join(parts))
