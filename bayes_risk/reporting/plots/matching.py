"""Pictures of identification risk: over all records, and over what was swept."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from bayes_risk._core.errors import InputError
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.studies.identification_sweep import IdentificationSweep

from .canvas import BLUE, EDGES, GREEN, GREY, ORANGE, VERMILION, axes_of, legend, log_counts


def plot_match_probabilities(
    ident: IdentificationRisk, *, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """Distribution over records of the probability of a correct match, pooled over releases.

    Other keywords go to `Axes.hist`, for the bars.
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


HATCHES = ("", "//", "..", "xx")
STYLES = [(BLUE, "-", "o"), (VERMILION, "--", "s"), (GREEN, "-.", "^"), (ORANGE, ":", "D")]


def plot_sweep(
    sweep: IdentificationSweep,
    *,
    measure: str = "expected_match_risk",
    rule: str = "pooled",
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """Draw a measure over one or two swept settings.

    Other keywords go to `Axes.errorbar` (numbers) or `Axes.bar`.

    Parameters
    ----------
    measure : str
        A variable of its dataset.
    rule : {"pooled", "mean"}

    Raises
    ------
    InputError
        More than two settings, or more than four curves.
    """
    over = sorted(sweep.swept, key=lambda name: sweep.dataset[name].dtype.kind not in "iuf")
    if len(over) > 2 or (len(over) == 2 and sweep.dataset.sizes[over[1]] > len(STYLES)):
        raise InputError(
            f"{len(over)} settings were swept ({', '.join(over)}): a plot shows one, or one for up "
            "to four values of another; select from .dataset and plot that"
        )
    axes = axes_of(ax)
    chosen = sweep.dataset.sel(rule=rule)
    draw = _curve if (sweep.dataset[over[0]].dtype.kind in "iuf") else _bars
    parts = (
        [chosen]
        if len(over) == 1
        else [chosen.isel({over[1]: k}) for k in range(chosen.sizes[over[1]])]
    )
    for k, part in enumerate(parts):
        label = rule if len(over) == 1 else f"{over[1]} = {part[over[1]].item()}"
        draw(axes, part, (over[0], measure), (k, len(parts)), {"label": label} | kwargs)
    if measure == "expected_match_risk":
        same = all(part["baseline"].equals(parts[0]["baseline"]) for part in parts)
        for k, part in enumerate(parts[:1] if same else parts):
            colour, words = (GREY, "") if same else (STYLES[k][0], f", {_where(part, over)}")
            _baseline(axes, part, over[0], colour, f"without the release{words}")
    axes.set(ylabel=measure.replace("_", " "), xlabel=over[0])
    axes.set_ylim(bottom=0)
    legend(axes, columns=2)
    return axes


def _error(part: xr.Dataset, measure: str) -> np.ndarray | None:
    if measure != "expected_match_risk" or bool(part["mcse"].isnull().all()):
        return None
    return 2 * part["mcse"].fillna(0).to_numpy()


def _curve(
    axes: Axes,
    part: xr.Dataset,
    what: tuple[str, str],
    place: tuple[int, int],
    given: dict[str, Any],
) -> None:
    over, measure = what
    colour, line, marker = STYLES[place[0]]
    style: dict[str, Any] = {"color": colour, "ls": line, "marker": marker, "ms": 4, "capsize": 2}
    axes.errorbar(part[over], part[measure], yerr=_error(part, measure), **(style | given))


def _bars(
    axes: Axes,
    part: xr.Dataset,
    what: tuple[str, str],
    place: tuple[int, int],
    given: dict[str, Any],
) -> None:
    over, measure = what
    k, many = place
    at = np.arange(part.sizes[over]) + (k - (many - 1) / 2) * 0.8 / many
    style: dict[str, Any] = {
        "width": 0.75 / many,
        "color": STYLES[k][0],
        "capsize": 2,
        "hatch": HATCHES[k],
    }
    style |= {"ec": "white"}
    axes.bar(at, part[measure], yerr=_error(part, measure), **(style | given))
    names = [str(name) for name in part[over].to_numpy()]
    axes.set_xticks(np.arange(len(names)), names)
    if max(map(len, names)) > 8:
        for text in axes.get_xticklabels():
            text.set(rotation=30, horizontalalignment="right")


def _where(part: xr.Dataset, over: list[str]) -> str:
    return f"{over[1]} = {part[over[1]].item()}" if len(over) > 1 else ""


def _baseline(axes: Axes, part: xr.Dataset, over: str, colour: str, label: str) -> None:
    if part[over].dtype.kind in "iuf":
        axes.plot(part[over], part["baseline"], color=colour, ls=":", label=label)
    else:
        at = np.arange(part.sizes[over])
        axes.plot(at, part["baseline"], "_", color=colour, ms=16, mew=2, label=label)
