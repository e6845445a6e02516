"""Pictures of attribute risk over all records: how large, how close, how well borne out."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.stats import beta

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import number
from bayes_risk._core.validate import at_least
from bayes_risk.risk.result import AttributeRisk

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

GOOD_KHAT = 0.7
MANY_PLACES, LABELLED = 40, 8


def plot_attribute_risk(risk: AttributeRisk, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Distribution over records of the probability of the truth, with the random-guess line.

    Counts are on a log scale, so that a single record at high risk can be seen among thousands.
    Other keywords go to `Axes.hist`, for the bars.
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


def plot_ranks(risk: AttributeRisk, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """How often the truth is the intruder's first, second, ... choice.

    A truth level with others counts in equal parts at each of the places they share. The line is
    what guessing at random gives. More than 40 places are drawn in bars of 1, 1, 2, 4, 8, ... Other
    keywords go to `Axes.bar`.
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


def plot_worst(risk: AttributeRisk, *, k: int = 10, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """The k records at highest risk: probability of the truth, two standard errors, and the prior.

    Other keywords go to `Axes.errorbar`.

    Parameters
    ----------
    k : int
        Number of records.
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


def plot_diagnostics(risk: AttributeRisk, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Pareto k-hat of each record's weights against the Monte Carlo error of its number.

    To the right of the line, weights rest on too few draws; records marked unreliable are crosses.
    Other keywords go to `Axes.plot`, for the points.
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


def random_guess(risk: AttributeRisk) -> float:
    """One over the (median) number of guesses that are counted for a target."""
    return float(1 / np.median(risk.guesses_each))


def _expected_counts(risk: AttributeRisk) -> Array:
    """Number of records that guessing at random would put at each place; shape (G,)."""
    each, times = np.unique(risk.guesses_each, return_counts=True)
    counts = np.zeros(risk.n_guesses)
    for size, records in zip(each, times, strict=True):
        counts[:size] += records / size
    return counts


def _rank_counts(risk: AttributeRisk) -> Array:
    """Number of records at each place, ties in equal parts; shape (G,)."""
    table = risk.records
    counts = np.zeros(risk.n_guesses + 1)
    share = 1 / (1 + table["ties"].to_numpy())
    start = table["rank"].to_numpy() - 1
    np.add.at(counts, start, share)
    np.add.at(counts, np.minimum(start + 1 + table["ties"].to_numpy(), risk.n_guesses), -share)
    return np.cumsum(counts)[:-1]


def plot_closeness(
    risk: AttributeRisk,
    variable: str,
    *,
    relative: bool = False,
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """Share of records whose expected absolute error for a number is at most so much.

    A curve further to the left: the intruder comes closer. Other keywords go to `Axes.ecdf`, for
    the curve with the release.

    Parameters
    ----------
    variable : str
        A guessed variable that is a number.
    relative : bool
        In units of the same error without the release, which does not tell the number itself. (On a
        grid of percentages the absolute curve without the release is that of the true values.)
    """
    axes = axes_of(ax)
    table, name = risk.closeness(variable), "expected_absolute_error"
    after, before = table[name], table[f"{name}_prior"]
    axes.set(ylabel="share of records", ylim=(0, 1.02))
    style: dict[str, Any] = {"color": BLUE, "zorder": 3, "label": "with the release"} | kwargs
    if relative:
        ratio = (after / before.where(before > 0)).fillna(1.0)
        axes.ecdf(ratio, **style)
        axes.axvline(1, color=ORANGE, ls="--", label="without the release")
        axes.set_xlabel(f"distance from the true {as_text(variable)}, without the release = 1")
    else:
        axes.ecdf(after, **style)
        axes.ecdf(before, color=ORANGE, ls="--", label="without the release")
        axes.set_xlabel(f"expected distance from the true {as_text(variable)}")
    axes.set_xlim(left=0)
    legend(axes)
    return axes


BESIDE = {"mean_probability": ("mcse", "baseline"), "max_probability": ("max_mcse", "max_baseline")}
WORDS = {"mean_probability": "mean over records", "max_probability": "worst record"}


def plot_priors(
    compared: pd.DataFrame,
    *,
    measure: str = "mean_probability",
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """Probability of the truth under each prior, two standard errors, and the prior's own.

    Other keywords go to `Axes.barh`.

    Parameters
    ----------
    compared : DataFrame
        From ``evidence.compare({...})``: one row a prior.
    measure : {"mean_probability", "max_probability"}
    """
    if measure not in BESIDE or measure not in compared:
        raise InputError(
            f"measure={measure!r} is not drawn from these columns; give one of {list(BESIDE)} and "
            "the table of evidence.compare({...})"
        )
    axes, places = axes_of(ax), np.arange(len(compared))
    error, baseline = BESIDE[measure]
    spread = 2 * compared[error].fillna(0).to_numpy()
    style: dict[str, Any] = {"height": 0.6, "color": BLUE, "capsize": 2}
    style |= {"label": "with the release (\N{PLUS-MINUS SIGN} 2 s.e.)"} | kwargs
    axes.barh(places, compared[measure], xerr=spread, **style)
    axes.plot(compared[baseline], places, "D", color=ORANGE, ms=5, label="without the release")
    axes.set_yticks(places, [as_text(name) for name in compared.index])
    axes.set(ylabel="prior", xlabel=f"probability of the truth, {WORDS[measure]}")
    axes.set_xlim(left=0)
    axes.invert_yaxis()
    legend(axes)
    return axes


TIE = 1e-9
TAIL = 0.025


def calibration(risk: AttributeRisk, *, bins: int = 10) -> pd.DataFrame:
    """How often the intruder's likeliest guess is right, by the probability it is given.

    If the true values are distributed as the prior says and the model is true, the frequency equals
    the probability in every bin. Guesses centred on the truth under a flat prior are not: there the
    table shows how misled, or how lucky, the intruder is.

    Parameters
    ----------
    risk : AttributeRisk
    bins : int
        Into how many bins of equal width the probabilities from 0 to 1 are put.

    Returns
    -------
    DataFrame
        One row per bin that holds records, labelled by its lower end: ``predicted`` (mean
        probability of the likeliest guess), ``frequency`` (share of records of which it is the
        truth; guesses that tie share), ``low`` and ``high`` (95 % interval, Jeffreys: of Beta(k +
        1/2, n - k + 1/2), 0 or 1 where no or every guess is right), ``records`` n. Records released
        unchanged are left out.

    Notes
    -----
    Intervals take records as independent; they share the release and its draws, so a departure of
    all bins to one side says less than as many departures to both.
    """
    at_least("bins", bins, 1)
    kept = risk.case[~risk.disclosed[risk.case]]
    confidence, right = (values[kept] for values in _likeliest(risk))
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    rows = {}
    for b in np.unique(place):
        here = place == b
        n, k = int(here.sum()), float(right[here].sum())
        rows[b / bins] = (confidence[here].mean(), k / n, *_interval(k, n), n)
    columns = ["predicted", "frequency", "low", "high", "records"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("bin")
    return table.astype({"records": "int64"})


def plot_calibration(
    risk: AttributeRisk, *, bins: int = 10, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """How often the likeliest guess is right against its probability, with 95 % intervals.

    On the line the intruder's confidence is borne out, below it the intruder is too sure. Numbers
    of records stand beside the points. See `calibration`. Other keywords go to `Axes.errorbar`.

    Parameters
    ----------
    bins : int
        Number of bins of equal width.
    """
    axes, table = axes_of(ax), calibration(risk, bins=bins)
    x, y = table["predicted"].to_numpy(), table["frequency"].to_numpy()
    spread = np.stack([y - table["low"], table["high"] - y])
    axes.plot([0, 1], [0, 1], "--", color=GREY, label="borne out")
    style: dict[str, Any] = {"fmt": "o", "color": BLUE, "capsize": 3}
    style |= {"label": "likeliest guess (95 % interval)"} | kwargs
    axes.errorbar(x, y, yerr=spread, **style)
    for at, height, n in zip(x, y, table["records"], strict=True):
        axes.annotate(
            f"{n:,}", (at, height), (6, -11), textcoords="offset points", fontsize="small"
        )
    axes.set(xlim=(0, 1.05), ylim=(0, 1.05))
    axes.set(xlabel="probability of the likeliest guess", ylabel="share of records\nwhere it is so")
    legend(axes)
    return axes


def _likeliest(risk: AttributeRisk) -> tuple[Array, Array]:
    """Probability of the likeliest guess, and the share of it that is the truth; shapes (U,)."""
    top = risk.log_probability.max(axis=0)
    level = risk.log_probability >= top - TIE
    true = np.take_along_axis(level, risk.truth[None], axis=0)[0]
    return np.exp(top), true / level.sum(axis=0)


def _interval(k: float, n: int) -> tuple[float, float]:
    low = 0.0 if k == 0 else float(beta.ppf(TAIL, k + 0.5, n - k + 0.5))
    high = 1.0 if k == n else float(beta.ppf(1 - TAIL, k + 0.5, n - k + 0.5))
    return low, high
