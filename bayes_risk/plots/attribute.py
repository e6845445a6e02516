"""Pictures of results: each function takes a result and gives matplotlib axes.

Nothing is shown, no global style is touched; without ``ax`` the figure belongs to the axes alone
(``ax.figure.savefig(...)``). Colours are those of Okabe & Ito (2008), told apart by every eye, and
every colour has a second sign (dash, marker or label).
"""

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from bayes_risk.identification.result import IdentificationRisk
    from bayes_risk.results import AttributeRisk

BLUE, VERMILION, GREEN, ORANGE, GREY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#666666"
GOOD_KHAT = 0.7
MANY_POINTS = 1_500
MANY_BARS = 10
EDGES = [i / 50 for i in range(51)]


def plot_attribute_risk(risk: "AttributeRisk", *, ax: "Axes | None" = None) -> "Axes":
    """Distribution over records of the probability of the truth, with the random-guess line.

    Counts are on a log scale, so that a single record at high risk can be seen among thousands.

    Parameters
    ----------
    risk : AttributeRisk
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    table = risk.records
    top = _upper(table[["probability", "prior"]].to_numpy().max())
    edges = [top * edge for edge in EDGES]
    axes.hist(table["probability"], bins=edges, color=BLUE, label="with the release")
    chance = random_guess(risk)
    axes.axvline(chance, color=VERMILION, ls="--", label=f"random guess (1 in {1 / chance:.3g})")
    if not np.allclose(table["prior"], chance):
        axes.hist(
            table["prior"], bins=edges, histtype="step", color=ORANGE, label="without the release"
        )
    _log_counts(axes)
    axes.set(xlim=(0, top), xlabel="probability the intruder gives to the true values")
    legend(axes)
    return axes


def plot_ranks(risk: "AttributeRisk", *, ax: "Axes | None" = None) -> "Axes":
    """How often the truth is the intruder's first, second, ... choice.

    A truth level with others counts in equal parts at each of the places they share. The line is
    what guessing at random gives.

    Parameters
    ----------
    risk : AttributeRisk
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    counts = _rank_counts(risk)
    places = np.arange(1, len(counts) + 1)
    axes.bar(places, counts, width=0.8, color=BLUE, label="with the release")
    expected = len(risk.index) * random_guess(risk)
    axes.axhline(expected, color=VERMILION, ls="--", label="random guess")
    axes.set(xlabel="place of the truth among the guesses (1: likeliest)", ylabel="records")
    axes.set_xlim(0.4, len(counts) + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(axes)
    return axes


def plot_worst(risk: "AttributeRisk", *, k: int = 10, ax: "Axes | None" = None) -> "Axes":
    """The k records at highest risk: probability of the truth, two standard errors, and the prior.

    Parameters
    ----------
    risk : AttributeRisk
    k : int
        Number of records.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    table = risk.worst(k).iloc[::-1]
    places = np.arange(len(table))
    error = 2 * table["mcse"].fillna(0)
    axes.errorbar(
        table["probability"],
        places,
        xerr=error,
        fmt="o",
        color=BLUE,
        capsize=3,
        label="with the release (\N{PLUS-MINUS SIGN} 2 s.e.)",
    )
    axes.plot(table["prior"], places, "D", color=ORANGE, ms=5, label="without the release")
    axes.set_yticks(places, [_label(v) for v in table.index])
    top = _upper((table["probability"] + error).max(), table["prior"].max())
    axes.set(
        xlim=(0, top), ylabel="record", xlabel="probability the intruder gives to the true values"
    )
    legend(axes)
    return axes


def plot_diagnostics(risk: "AttributeRisk", *, ax: "Axes | None" = None) -> "Axes":
    """Pareto k-hat of each record's weights against the Monte Carlo error of its number.

    To the right of the line, weights rest on too few draws; records marked unreliable are crosses.

    Parameters
    ----------
    risk : AttributeRisk
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    used = np.unique(risk.case)
    khat, mcse, good = risk.khat[used], risk.mcse[used], risk.reliable[used]
    style: dict[str, Any] = {"ls": "none", "ms": 4, "rasterized": len(used) > MANY_POINTS}
    axes.plot(khat[good], mcse[good], "o", color=BLUE, alpha=0.4, mew=0, label="reliable", **style)
    if not good.all():
        axes.plot(khat[~good], mcse[~good], "x", color=VERMILION, label="unreliable", **style)
    axes.axvline(GOOD_KHAT, color=GREY, ls=":", label=f"k-hat = {GOOD_KHAT}")
    axes.set(xlabel="Pareto k-hat of the weights", ylabel="Monte Carlo error\nof the probability")
    axes.set_ylim(bottom=0)
    legend(axes)
    return axes


def plot_match_probabilities(ident: "IdentificationRisk", *, ax: "Axes | None" = None) -> "Axes":
    """Distribution over records of the probability of a correct match, pooled over releases.

    Parameters
    ----------
    ident : IdentificationRisk
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    table = ident.records
    axes.hist(table["probability"], bins=EDGES, color=BLUE, label="with the release")
    axes.hist(
        table["baseline"],
        bins=EDGES,
        histtype="step",
        color=VERMILION,
        ls="--",
        label="by the unsynthesised keys alone",
    )
    _log_counts(axes)
    axes.set(xlim=(0, 1), xlabel="probability that the intruder's match is the target")
    legend(axes)
    return axes


def plot_closeness(
    risk: "AttributeRisk", variable: str, *, relative: bool = False, ax: "Axes | None" = None
) -> "Axes":
    """Share of records whose expected absolute error for a number is at most so much.

    A curve further to the left: the intruder comes closer.

    Parameters
    ----------
    risk : AttributeRisk
    variable : str
        A guessed variable that is a number.
    relative : bool
        In units of the same error without the release, which does not tell the number itself. (On a
        grid of percentages the absolute curve without the release is that of the true values.)
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    table, name = risk.closeness(variable), "expected_absolute_error"
    after, before = table[name], table[f"{name}_prior"]
    axes.set(ylabel="share of records", ylim=(0, 1.02))
    if relative:
        ratio = (after / before.where(before > 0)).fillna(1.0)
        axes.ecdf(ratio, color=BLUE, label="with the release")
        axes.axvline(1, color=ORANGE, ls="--", label="without the release")
        axes.set_xlabel(f"distance from the true {_label(variable)}, without the release = 1")
    else:
        axes.ecdf(after, color=BLUE, zorder=3, label="with the release")
        axes.ecdf(before, color=ORANGE, ls="--", label="without the release")
        axes.set_xlabel(f"expected distance from the true {_label(variable)}")
    axes.set_xlim(left=0)
    legend(axes)
    return axes


def plot_posterior(
    risk: "AttributeRisk",
    label: Hashable,
    variable: str | None = None,
    *,
    ax: "Axes | None" = None,
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

    Returns
    -------
    matplotlib Axes
    """
    axes = axes_of(ax)
    if variable is None and len(risk.variables) == 1:
        variable = risk.variables[0].name
    table = risk.posterior(label, variable)
    if variable is not None and not _categories(risk, variable):
        _stems(axes, table)
        legend(axes)
    else:
        _bars(axes, table, [v.name for v in risk.variables] if variable is None else [variable])
        legend(axes, side="right")
    return axes


def random_guess(risk: "AttributeRisk") -> float:
    """One over the (median) number of guesses that are counted for a target."""
    counted = np.isfinite(risk.log_prior).sum(axis=0)[risk.case]
    return float(1 / np.median(counted))


def _upper(*highest: float) -> float:
    """End of an axis of probabilities: 1, or where all are small a round number above them."""
    top = 1.2 * max(highest)
    if not 0 < top < 0.2:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(top))
    return next(unit * step for step in (1, 2, 5, 10) if unit * step >= top)


def _rank_counts(risk: "AttributeRisk") -> npt.NDArray[np.float64]:
    """Number of records at each place, ties in equal parts; shape (G,)."""
    table = risk.records
    counts = np.zeros(risk.n_guesses + 1)
    share = 1 / (1 + table["ties"].to_numpy())
    start = table["rank"].to_numpy() - 1
    np.add.at(counts, start, share)
    np.add.at(counts, np.minimum(start + 1 + table["ties"].to_numpy(), risk.n_guesses), -share)
    return np.cumsum(counts)[:-1]


def _categories(risk: "AttributeRisk", variable: str) -> bool:
    return next(v.n_levels for v in risk.variables if v.name == variable) > 0


def _stems(axes: "Axes", table: "pd.DataFrame") -> None:
    """Probabilities over the values of a number; those before the release are a line."""
    values, true = table.iloc[:, 0], table["is_truth"]
    for which, colour, marker, label in (
        (~true, BLUE, "o", "with the release"),
        (true, VERMILION, "*", "the truth"),
    ):
        heights = table["probability"][which]
        axes.vlines(values[which], 0, heights, color=colour, lw=2)
        size = 6 if marker == "o" else 12
        axes.plot(values[which], heights, marker, color=colour, ms=size, label=label, zorder=3)
    axes.plot(values, table["prior"], "--", color=ORANGE, label="without the release")
    axes.set(xlabel=_label(str(values.name)), ylabel="probability")
    axes.set_ylim(bottom=0)


def _bars(axes: "Axes", table: "pd.DataFrame", variables: list[str]) -> None:
    """Probabilities of the likeliest guesses, from the top."""
    ordered = table.sort_values("probability", ascending=False, kind="stable", ignore_index=True)
    shown = ordered[(ordered.index < MANY_BARS) | ordered["is_truth"]]
    places, true = np.arange(len(shown)), shown["is_truth"].to_numpy()
    p = shown["probability"].to_numpy()
    axes.barh(places[~true], p[~true], color=BLUE, label="with the release")
    axes.barh(places[true], p[true], color=VERMILION, hatch="//", ec="white", label="the truth")
    axes.plot(shown["prior"], places, "D", color=ORANGE, ms=5, label="without the release")
    axes.set_yticks(places, [_guess(row) for row in shown[variables].to_numpy(dtype=object)])
    hidden = f" ({len(shown)} of {len(table):,} guesses shown)" if len(shown) < len(table) else ""
    axes.set(xlabel=f"probability{hidden}", ylabel=_label(", ".join(variables)))
    axes.set_xlim(left=0)
    axes.invert_yaxis()


def _guess(values: "npt.NDArray[np.object_]") -> str:
    parts = [f"{v:.6g}" if isinstance(v, float) else str(v) for v in values]
    return _label(", ".join(parts))


def _label(value: Hashable) -> str:
    """Record label that matplotlib shows as it is, not as mathematics."""
    text = str(value)
    return (text if len(text) <= 24 else f"{text[:23]}\N{HORIZONTAL ELLIPSIS}").replace("$", r"\$")


def legend(axes: "Axes", *, side: str = "left") -> None:
    """Above the plot, where it hides nothing; flush with a side, in case labels take the other."""
    corner = (0 if side == "left" else 1, 1)
    axes.legend(
        frameon=False, loc=f"lower {side}", bbox_to_anchor=corner, ncols=3, borderaxespad=0.2
    )


def _log_counts(axes: "Axes") -> None:
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.7)
    axes.set_ylabel("records (log scale)")
    axes.yaxis.set_major_formatter("{x:,.0f}")


def axes_of(ax: "Axes | None") -> "Axes":
    """The axes given, or those of a new figure; without spines that say nothing."""
    if ax is None:
        ax = Figure(figsize=(6.4, 3.2), layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax
