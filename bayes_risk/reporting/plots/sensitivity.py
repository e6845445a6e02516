"""Pictures of sensitivity: the tornado of all factors, and a measure along one of them."""

import textwrap
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from bayes_risk._core.formats import plain
from bayes_risk.studies.grid import value_in_words
from bayes_risk.studies.measures import ATTRIBUTE, MEASURES
from bayes_risk.studies.sensitivity_result import BESIDE, RISK, Sensitivity

from .canvas import BLUE, GREY, ORANGE, VERMILION, axes_of, legend

WORDS = {
    **{name: measure.words for name, measure in MEASURES.items() if measure.kind == ATTRIBUTE},
    **{"knows_records": "records known", "knows_columns": "columns known"},
    "m": "data sets released (m)",
}
WIDE = 26  # characters of a label on one line
LETTER = 0.0095  # of the width of the axes
WIDTH, LEFT = 8.6, 2.0  # inches: of a figure of ours, and of the names at its left
SHARE = 0.775  # of a figure's width that axes have before anything is laid out
STILL = 1e-3  # share of the widest bar below which nothing has moved


def plot_tornado(
    found: Sensitivity, *, measure: str = RISK, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """One bar a factor, from its lowest to its highest value of the measure, widest on top.

    Left of the base setting in blue, right of it in vermilion; the values of the factor stand at
    the ends. The grey band is two standard errors of the base: what lies within may be chance.
    Other keywords go to `Axes.barh`.

    Parameters
    ----------
    measure : str
        A variable of its dataset.
    """
    table = found.tornado(measure)
    axes = axes_of(ax, (WIDTH, 1.5 + 0.55 * len(table)))
    base, places = float(table["base"].iloc[0]), range(len(table))
    spread = max(float(table["high"].max() - table["low"].min()), 1e-12)
    _side(axes, table, "low", spread, kwargs)
    _side(axes, table, "high", spread, kwargs)
    axes.axvline(base, color=GREY, lw=1, label="base setting")
    _error_band(axes, found, base, measure)
    axes.set_yticks(places, [_factor(name, found) for name in table.index])
    axes.set_ylim(len(table) - 0.5, -0.5)  # room for factors that move nothing
    width = max(float(axes.get_window_extent().width / axes.figure.dpi) / SHARE, LEFT + 1)
    axes.set_xlim(*_room(table, spread, LETTER * (WIDTH - LEFT) / (width - LEFT)))
    if table["low"].min() >= 0:  # nothing below 0 but labels
        axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= axes.get_xlim()[1]])
    axes.set_xlabel(WORDS.get(measure, measure.replace("_", " ")))
    legend(axes, side="right", columns=2)  # labels take the left
    return axes


def _side(axes: Axes, table: pd.DataFrame, side: str, spread: float, given: dict[str, Any]) -> None:
    """Bars from the base to one end, with the value of the factor beside each that moves."""
    left = side == "low"
    base, ends = table["base"].to_numpy(float), table[side].to_numpy(float)
    moved = np.flatnonzero(np.abs(ends - base) > STILL * spread)
    style: dict[str, Any] = {
        "height": 0.55,
        "color": BLUE if left else VERMILION,
        "hatch": "" if left else "//",
        "ec": "white",
        "label": f"{'lower' if left else 'higher'} than at the base" if len(moved) else None,
    }
    axes.barh(moved, (ends - base)[moved], left=base[moved], **(style | given))
    for place in moved:
        axes.annotate(
            _short(str(table.index[int(place)]), table[f"at_{side}"].iloc[place]),
            (float(ends[place]), float(place)),
            xytext=(-4 if left else 4, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=8,
        )


def _error_band(axes: Axes, found: Sensitivity, base: float, measure: str) -> None:
    error = BESIDE.get(measure, (None, None))[0]
    spread = 0.0 if error is None else 2 * float(found.dataset[error].sel(dict(found.base)))
    if spread > 0:
        axes.axvspan(
            base - spread, base + spread, color=GREY, alpha=0.2, lw=0, zorder=0,
            label="\N{PLUS-MINUS SIGN} 2 s.e.",
        )  # fmt: skip


def plot_factor(
    found: Sensitivity, factor: str, *, measure: str = RISK, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """A measure along one factor, the others at their base; two standard errors, the baseline.

    Other keywords go to `Axes.errorbar` (a factor of numbers) or `Axes.barh`.
    """
    line = found.along(factor)
    line = line.isel({factor: ~np.isnan(line[measure].to_numpy())})
    numbers = line[factor].dtype.kind in "iuf"
    axes = axes_of(ax, (6.4, 3.2) if numbers else (7.6, 1.5 + 0.36 * line.sizes[factor]))
    (_curve if numbers else _bars)(axes, line, (factor, measure), found, kwargs)
    legend(axes, side="right", columns=2)  # labels take the left
    return axes


def _curve(
    axes: Axes, line: xr.Dataset, what: tuple[str, str], found: Sensitivity, given: dict[str, Any]
) -> None:
    factor, measure = what
    at = line[factor].to_numpy()
    error, baseline = _beside(line, measure)
    style: dict[str, Any] = {"color": BLUE, "marker": "o", "ms": 4, "capsize": 3} | {
        "label": "with the release" + _two_errors(error)
    }
    axes.errorbar(at, line[measure], yerr=error, **(style | given))
    here = float(found.base[factor])
    if baseline is not None:
        axes.plot(at, baseline, ":", color=ORANGE, label="without the release")
    axes.plot(
        [here], line[measure].sel({factor: here}), "D", color=VERMILION, ms=7, label="base",
        zorder=3,
    )  # fmt: skip
    if line[factor].dtype.kind in "iu":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    share = "share of " if factor == "knows_records" else ""
    axes.set(xlabel=share + _named(factor), ylabel=_wrapped(measure))
    low, high = axes.get_ylim()
    if low >= 0:
        axes.set_ylim(0, 1.12 * high)  # room for the mark of the base


def _bars(
    axes: Axes, line: xr.Dataset, what: tuple[str, str], found: Sensitivity, given: dict[str, Any]
) -> None:
    factor, measure = what
    places, labels = np.arange(line.sizes[factor]), line[factor].to_numpy()
    error, baseline = _beside(line, measure)
    is_base = labels == found.base[factor]
    for those, colour, hatch, label in (
        (~is_base, BLUE, "", "with the release" + _two_errors(error)),
        (is_base, VERMILION, "//", "the same, base setting"),
    ):
        style: dict[str, Any] = {
            "height": 0.6,
            "color": colour,
            "hatch": hatch,
            "ec": "white",
            "capsize": 2,
        }
        spread = None if error is None else error[those]
        style |= {"label": label, "xerr": spread}
        axes.barh(places[those], line[measure].to_numpy()[those], **(style | given))
    if baseline is not None:
        axes.plot(baseline, places, "D", color=ORANGE, ms=5, label="without the release")
    axes.set_yticks(places, [_lines(label) for label in labels])
    axes.invert_yaxis()
    axes.set_xlabel(WORDS.get(measure, measure.replace("_", " ")))
    axes.set_ylabel(_named(factor))
    if axes.get_xlim()[0] > 0:
        axes.set_xlim(left=0)


def _beside(line: xr.Dataset, measure: str) -> tuple[np.ndarray | None, np.ndarray | None]:
    error, baseline = BESIDE.get(measure, (None, None))
    spread = None if error is None else 2 * np.nan_to_num(line[error].to_numpy())
    if spread is not None and not spread.any():
        spread = None
    return spread, None if baseline is None else line[baseline].to_numpy()


def _two_errors(error: np.ndarray | None) -> str:
    return "" if error is None else " (\N{PLUS-MINUS SIGN} 2 s.e.)"


def _room(table: pd.DataFrame, spread: float, letter: float) -> tuple[float, float]:
    """Limits that leave room for the labels of both sides; ``letter``: share of the axes."""
    share = [0.03, 0.03]  # of the width of the axes
    for side, name in enumerate(("low", "high")):
        moved = (table[name] - table["base"]).abs() > STILL * spread
        for factor, value in table.loc[moved, f"at_{name}"].items():
            share[side] = max(share[side], 0.03 + letter * len(_short(str(factor), value)))
    wide = spread / (1.0 - sum(share))
    return float(table["low"].min()) - share[0] * wide, float(table["high"].max()) + share[1] * wide


def _factor(name: str, found: Sensitivity) -> str:
    """A factor and its base value on two lines."""
    return f"{_named(name)}\n(base: {_short(name, found.base[name])})"


def _named(factor: str) -> str:
    return WORDS.get(factor, factor.replace("_", " ").replace("hyper ", "hyper-prior: "))


def _short(factor: str, value: object) -> str:
    text = value_in_words(factor, value)
    return textwrap.shorten(text, WIDE, placeholder="\N{HORIZONTAL ELLIPSIS}").replace("$", r"\$")


def _lines(value: object) -> str:
    """A label on two lines at most."""
    text = plain(value, 3) if isinstance(value, float) else str(value)
    lines = textwrap.wrap(text, WIDE, max_lines=2, placeholder="\N{HORIZONTAL ELLIPSIS}")
    return "\n".join(lines).replace("$", r"\$")


def _wrapped(measure: str) -> str:
    return "\n".join(textwrap.wrap(WORDS.get(measure, measure.replace("_", " ")), 30))
