"""Pictures of attribute risk over all records."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import MaxNLocator

from bayes_risk._core.formats import number

from .canvas import (
    BLUE,
    EDGES,
    GREY,
    MANY_POINTS,
    ORANGE,
    VERMILION,
    as_text,
    axes_of,
    legend,
    log_counts,
    upper,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayes_risk.risk.result import AttributeRisk

GOOD_KHAT = 0.7
MANY_PLACES, LABELLED = 40, 8


def plot_attribute_risk(
    risk: "AttributeRisk", *, ax: "Axes | None" = None, **kwargs: Any
) -> "Axes":
    """Distribution over records of the probability of the truth, with the random-guess line.

    Counts are on a log scale, so that a single record at high risk can be seen among thousands.

    Parameters
    ----------
    risk : AttributeRisk
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    **kwargs
        To `Axes.hist`, for the bars.

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    table = risk.records
    top = upper(table[["probability", "prior"]].to_numpy().max())
    edges = [top * edge for edge in EDGES]
    style: dict[str, Any] = {"bins": edges, "color": BLUE, "label": "with the release"} | kwargs
    axes.hist(table["probability"], **style)
    chance = random_guess(risk)
    axes.axvline(
        chance, color=VERMILION, ls="--", label=f"random guess (1 in {number(round(1 / chance))})"
    )
    if not np.allclose(table["prior"], chance):
        axes.hist(
            table["prior"], bins=edges, histtype="step", color=ORANGE, label="without the release"
        )
    log_counts(axes)
    axes.set(xlim=(0, top), xlabel="probability the intruder gives to the true values")
    legend(axes)
    return axes


def plot_ranks(risk: "AttributeRisk", *, ax: "Axes | None" = None, **kwargs: Any) -> "Axes":
    """How often the truth is the intruder's first, second, ... choice.

    A truth level with others counts in equal parts at each of the places they share. The line is
    what guessing at random gives. More than 40 places are drawn in bars of 1, 1, 2, 4, 8, ...

    Parameters
    ----------
    risk : AttributeRisk
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.bar`.

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    counts = _rank_counts(risk)
    expected = _expected_counts(risk)
    told = "rank of the true values among the guesses (1: likeliest)"
    many = len(counts) > MANY_PLACES
    if many:
        first = 1 + np.unique(2 ** np.arange(len(counts).bit_length() + 1) // 2)
        first = first[first <= len(counts)]
        counts, expected = (np.add.reduceat(x, first - 1) for x in (counts, expected))
        told += ", first of each bar"
    places = np.arange(1, len(counts) + 1)
    style: dict[str, Any] = {"width": 0.8, "color": BLUE, "label": "with the release"} | kwargs
    axes.bar(places, counts, **style)
    edges = np.arange(0.5, len(counts) + 1)
    chance: dict[str, Any] = {"baseline": None, "color": VERMILION, "ls": "--", "lw": 1.5}
    axes.stairs(expected, edges, **chance, label="random guess")
    axes.set(xlabel=told, ylabel="records")
    axes.set_xlim(0.4, len(counts) + 0.6)
    if many:
        shown = np.flatnonzero((places <= LABELLED) | (places % 2 == 1))  # large numbers need room
        axes.set_xticks(places[shown], [f"{place:,}" for place in first[shown]])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(axes)
    return axes


def plot_worst(
    risk: "AttributeRisk", *, k: int = 10, ax: "Axes | None" = None, **kwargs: Any
) -> "Axes":
    """The k records at highest risk: probability of the truth, two standard errors, and the prior.

    Parameters
    ----------
    risk : AttributeRisk
    k : int
        Number of records.
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.errorbar`.

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    table = risk.worst(k).iloc[::-1]
    places = np.arange(len(table))
    error = 2 * table["mcse"].fillna(0)
    within = [error.clip(upper=table["probability"]), error.clip(upper=1 - table["probability"])]
    style: dict[str, Any] = {
        **{"fmt": "o", "color": BLUE, "capsize": 3, "clip_on": False},
        "label": "with the release (\N{PLUS-MINUS SIGN} 2 s.e.)",
    }
    axes.errorbar(table["probability"], places, xerr=within, **(style | kwargs))
    before: dict[str, Any] = {"color": ORANGE, "ms": 5, "clip_on": False}
    axes.plot(table["prior"], places, "D", **before, label="without the release")
    axes.set_yticks(places, [as_text(v) for v in table.index])
    top = upper((table["probability"] + error).max(), table["prior"].max())
    axes.set(
        xlim=(0, top), ylabel="record", xlabel="probability the intruder gives to the true values"
    )
    legend(axes)
    return axes


def plot_diagnostics(risk: "AttributeRisk", *, ax: "Axes | None" = None, **kwargs: Any) -> "Axes":
    """Pareto k-hat of each record's weights against the Monte Carlo error of its number.

    To the right of the line, weights rest on too few draws; records marked unreliable are crosses.

    Parameters
    ----------
    risk : AttributeRisk
    ax : matplotlib Axes, optional
    **kwargs
        To `Axes.plot`, for the points.

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    used = np.unique(risk.case)
    khat, mcse, good = risk.khat[used], risk.mcse[used], risk.reliable[used]
    style: dict[str, Any] = {"ls": "none", "ms": 4, "rasterized": len(used) > MANY_POINTS}
    style |= kwargs
    sound: dict[str, Any] = {"color": BLUE, "alpha": 0.4, "mew": 0, "label": "reliable"} | style
    axes.plot(khat[good], mcse[good], "o", **sound)
    if not good.all():
        doubtful: dict[str, Any] = style | {"color": VERMILION, "label": "unreliable"}
        axes.plot(khat[~good], mcse[~good], "x", **doubtful)
    axes.axvline(GOOD_KHAT, color=GREY, ls=":", label=f"k-hat = {GOOD_KHAT}")
    axes.set(xlabel="Pareto k-hat of the weights", ylabel="Monte Carlo error\nof the probability")
    axes.set_ylim(bottom=0)
    legend(axes)
    return axes


def random_guess(risk: "AttributeRisk") -> float:
    """One over the (median) number of guesses that are counted for a target."""
    return float(1 / np.median(risk.guesses_each))


def _expected_counts(risk: "AttributeRisk") -> npt.NDArray[np.float64]:
    """Number of records that guessing at random would put at each place; shape (G,)."""
    each, times = np.unique(risk.guesses_each, return_counts=True)
    counts = np.zeros(risk.n_guesses)
    for size, records in zip(each, times, strict=True):
        counts[:size] += records / size
    return counts


def _rank_counts(risk: "AttributeRisk") -> npt.NDArray[np.float64]:
    """Number of records at each place, ties in equal parts; shape (G,)."""
    table = risk.records
    counts = np.zeros(risk.n_guesses + 1)
    share = 1 / (1 + table["ties"].to_numpy())
    start = table["rank"].to_numpy() - 1
    np.add.at(counts, start, share)
    np.add.at(counts, np.minimum(start + 1 + table["ties"].to_numpy(), risk.n_guesses), -share)
    return np.cumsum(counts)[:-1]
