"""The posterior of one record, and where the records at risk are; confidential."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import plain
from bayes_risk.risk.closeness import number_among
from bayes_risk.risk.result import AttributeRisk

from .canvas import BLUE, COLOURS, GREY, MANY_POINTS, ORANGE, VERMILION, as_text, axes_of, legend

MANY_BARS = 10


def plot_posterior(
    risk: AttributeRisk,
    label: Hashable,
    variable: str | None = None,
    *,
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """The intruder's posterior for one record, with the prior and the truth; confidential.

    A number: stems over its values. A category, or all variables together: bars, the likeliest
    guesses first, and the truth last if it is not among them. Other keywords go to `Axes.plot` (a
    number) or `Axes.barh`.

    Parameters
    ----------
    label : hashable
        A record, as in ``risk.index``.
    variable : str, optional
        A guessed variable; all of them together by default.
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


def _categories(risk: AttributeRisk, variable: str) -> bool:
    return next(v.n_levels for v in risk.variables if v.name == variable) > 0


def _stems(axes: Axes, table: pd.DataFrame, given: dict[str, Any]) -> None:
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


def _bars(axes: Axes, table: pd.DataFrame, variables: list[str], given: dict[str, Any]) -> None:
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


def _guess(values: npt.NDArray[np.object_]) -> str:
    parts = [plain(v, 6) if isinstance(v, float) else str(v) for v in values]
    return as_text(", ".join(parts))


HEXAGONS = 40


def plot_geography(
    risk: AttributeRisk,
    x: str,
    y: str,
    *,
    places: pd.DataFrame | None = None,
    worst: int = 10,
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """Probability of the truth at each record's place: a map of risk; confidential.

    Up to 1,500 records are points, larger the higher their risk; more are hexagons, each with the
    highest risk in it. The worst records are ringed. Other keywords go to `Axes.scatter`, or
    `Axes.hexbin`.

    Parameters
    ----------
    x, y : str
        Coordinates: guessed numbers, or columns of ``places``.
    places : DataFrame, optional
        Confidential coordinates of the targets, by the labels of ``risk.index``; by default the
        true values of the guessed numbers.
    worst : int
        How many records are ringed.

    Raises
    ------
    InputError
        Coordinates that are neither guessed numbers nor columns of ``places``; places that lack a
        target, or hold its label twice.
    """
    axes, at = axes_of(ax), _places(risk, x, y, places)
    p = risk.records["probability"].to_numpy()
    draw = _hexagons if len(p) > MANY_POINTS else _points
    drawn = draw(axes, at, p, kwargs)
    first = np.argsort(-p, kind="stable")[:worst]
    ring: dict[str, Any] = {"ls": "none", "mfc": "none", "mec": VERMILION, "ms": 13, "mew": 1.5}
    if len(first):
        axes.plot(*at[first].T, "o", label=f"the {len(first)} records at highest risk", **ring)
        legend(axes)
    what = "highest probability of a truth" if draw is _hexagons else "probability of the truth"
    axes.figure.colorbar(drawn, ax=axes, label=what)
    axes.set(xlabel=as_text(x), ylabel=as_text(y))
    return axes


def _points(axes: Axes, at: Array, p: Array, given: dict[str, Any]) -> Any:
    style: dict[str, Any] = {"cmap": COLOURS, "vmin": 0, "ec": GREY, "lw": 0.4}
    style |= {"c": p, "s": 10 + 70 * p / max(p.max(), 1e-12)}
    return axes.scatter(at[:, 0], at[:, 1], **(style | given))


def _hexagons(axes: Axes, at: Array, p: Array, given: dict[str, Any]) -> Any:
    style: dict[str, Any] = {"cmap": COLOURS, "gridsize": HEXAGONS, "vmin": 0}
    style |= {"reduce_C_function": np.max, "linewidths": 0.2, "C": p}
    return axes.hexbin(at[:, 0], at[:, 1], **(style | given))


def _places(risk: AttributeRisk, x: str, y: str, places: pd.DataFrame | None) -> Array:
    """Coordinates of the targets, shape (n, 2)."""
    if places is None:
        pair = [number_among(risk, name) for name in (x, y)]
        true = risk.guesses[risk.truth, np.arange(len(risk.truth))][risk.case]
        return np.asarray(true[:, pair], dtype=np.float64)
    for name in (x, y):
        if name not in places:
            raise InputError(f"places has no column {name!r}; give one of {list(places.columns)}")
    if not places.index.is_unique or not risk.index.isin(places.index).all():
        raise InputError(
            "places must hold the label of every target once; give the confidential table with the "
            "index of risk.index"
        )
    return places.loc[risk.index, [x, y]].to_numpy(np.float64)
