"""Where the records at risk are; confidential, as it shows places."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk.risk.closeness import number_among

from .canvas import GREY, MANY_POINTS, VERMILION, as_text, axes_of, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_risk.risk.result import AttributeRisk

COLOURS = "cividis_r"  # the same order for every eye and in grey: the darker, the higher
HEXAGONS = 40


def plot_geography(
    risk: "AttributeRisk",
    x: str,
    y: str,
    *,
    places: pd.DataFrame | None = None,
    worst: int = 10,
    ax: "Axes | None" = None,
    **kwargs: Any,
) -> "Axes":
    """Probability of the truth at each record's place: a map of risk; confidential.

    Up to 1,500 records are points, larger the higher their risk; more are hexagons, each with the
    highest risk in it. The worst records are ringed.

    Parameters
    ----------
    risk : AttributeRisk
    x, y : str
        Coordinates: guessed numbers, or columns of ``places``.
    places : DataFrame, optional
        Confidential coordinates of the targets, by the labels of ``risk.index``; by default the
        true values of the guessed numbers.
    worst : int
        How many records are ringed.
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.scatter`, or `Axes.hexbin`.

    Returns
    -------
    matplotlib Axes

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


def _points(
    axes: "Axes", at: npt.NDArray[np.float64], p: npt.NDArray[np.float64], given: dict[str, Any]
) -> Any:
    style: dict[str, Any] = {"cmap": COLOURS, "vmin": 0, "ec": GREY, "lw": 0.4}
    style |= {"c": p, "s": 10 + 70 * p / max(p.max(), 1e-12)}
    return axes.scatter(at[:, 0], at[:, 1], **(style | given))


def _hexagons(
    axes: "Axes", at: npt.NDArray[np.float64], p: npt.NDArray[np.float64], given: dict[str, Any]
) -> Any:
    style: dict[str, Any] = {"cmap": COLOURS, "gridsize": HEXAGONS, "vmin": 0}
    style |= {"reduce_C_function": np.max, "linewidths": 0.2, "C": p}
    return axes.hexbin(at[:, 0], at[:, 1], **(style | given))


def _places(
    risk: "AttributeRisk", x: str, y: str, places: pd.DataFrame | None
) -> npt.NDArray[np.float64]:
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
