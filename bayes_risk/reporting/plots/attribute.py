"""Pictures of attribute risk: over all records, of one record, and on the map of places."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.special import betaincinv

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import number, plain
from bayes_risk._core.pareto import GOOD_KHAT as GOOD_KHAT
from bayes_risk._core.validate import whole_number
from bayes_risk.data.measures import ATTRIBUTE
from bayes_risk.risk.closeness import number_among
from bayes_risk.risk.result import AttributeRisk

from .canvas import (
    BLUE,
    COLOURS,
    GREY,
    MANY_POINTS,
    ORANGE,
    VERMILION,
    axes_of,
    label_text,
    legend,
    marks,
    rows,
    shares,
    styled,
    upper,
)

WITH_ERRORS = "with the release (\N{PLUS-MINUS SIGN} 2 s.e.)"
PROBABILITY = "probability the intruder gives to the true values"
MANY_PLACES, LABELLED = 40, 8


def plot_attribute_risk(risk: AttributeRisk, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Distribution over records of the probability of the truth, with the random-guess line.

    Counts are on a log scale, so that a single record at high risk can be seen among thousands.
    """
    axes, table, chance = axes_of(ax), risk.records, random_guess(risk)
    top = upper(table[["probability", "prior"]].to_numpy().max())
    before = None if np.allclose(table["prior"], chance) else table["prior"]
    style = styled({}, color=ORANGE, label="without the release")
    shares(axes, table["probability"], top, kwargs, before, **style)
    label = f"random guess (1 in {number(round(1 / chance))})"
    axes.axvline(chance, color=VERMILION, ls="--", label=label)
    return legend(axes, xlabel=PROBABILITY)


def plot_ranks(risk: AttributeRisk, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """How often the truth is the intruder's first, second, ... choice.

    A truth level with others counts in equal parts at each of the places they share. The line is
    what guessing at random gives. More than 40 places are drawn in bars of 1, 1, 2, 4, 8, ...
    """
    axes, table, G = axes_of(ax), risk.records, risk.n_guesses
    first, ties = table["rank"].to_numpy() - 1, table["ties"].to_numpy()
    share, last = 1 / (1 + ties), np.minimum(first + 1 + ties, G)
    starts, ends = (np.bincount(place, share, minlength=G + 1) for place in (first, last))
    counts, each = np.cumsum(starts - ends)[:-1], risk.guesses_each
    expected = np.bincount(each - 1, 1 / each, minlength=G)[::-1].cumsum()[::-1]
    label = "rank of the true values among the guesses (1: likeliest)"
    many = len(counts) > MANY_PLACES
    if many:
        first = 1 + np.unique(2 ** np.arange(len(counts).bit_length() + 1) // 2)
        first = first[first <= len(counts)]
        counts, expected = (np.add.reduceat(x, first - 1) for x in (counts, expected))
        label += ", first of each bar"
    places = np.arange(1, len(counts) + 1)
    axes.bar(places, counts, **styled(kwargs, width=0.8, color=BLUE, label="with the release"))
    chance = styled({}, baseline=None, color=VERMILION, ls="--", lw=1.5)
    axes.stairs(expected, np.arange(0.5, len(counts) + 1), **chance, label="random guess")
    axes.set_xlim(0.4, len(counts) + 0.6)
    if many:
        shown = np.flatnonzero((places <= LABELLED) | (places % 2 == 1))  # large numbers need room
        axes.set_xticks(places[shown], [f"{place:,}" for place in first[shown]])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return legend(axes, xlabel=label, ylabel="records")


def plot_worst(risk: AttributeRisk, *, k: int = 10, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """The k records at highest risk: probability of the truth, two standard errors, the prior."""
    axes, table = axes_of(ax), risk.shown.worst(k)
    p, error = table["probability"], 2 * table["mcse"].fillna(0)
    within = [error.clip(upper=p), error.clip(upper=1 - p)]
    style = styled(kwargs, fmt="o", color=BLUE, capsize=3, clip_on=False, label=WITH_ERRORS)
    axes.errorbar(p, range(len(table)), xerr=within, **style)
    rows(axes, map(label_text, table.index), table["prior"])
    top = upper((p + error).max(), table["prior"].max())
    return legend(axes, xlim=(0, top), ylabel="record", xlabel=PROBABILITY)


def plot_diagnostics(risk: AttributeRisk, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Pareto k-hat of each record's weights against the Monte Carlo error of its number.

    To the right of the line, weights rest on too few draws; records marked unreliable are crosses.
    """
    axes, used = axes_of(ax), np.unique(risk.case)
    good = risk.reliable[used]
    groups = [(good, BLUE, "o", "reliable", {"alpha": 0.4, "mew": 0})]
    groups += [(~good, VERMILION, "x", "unreliable", {})] * (not good.all())
    many = len(used) > MANY_POINTS
    marks(axes, risk.khat[used], risk.mcse[used], kwargs, *groups, ms=4, rasterized=many)
    axes.axvline(GOOD_KHAT, color=GREY, ls=":", label=f"k-hat = {GOOD_KHAT}")
    axes.set_ylim(bottom=0)
    error = "Monte Carlo error\nof the probability"
    return legend(axes, xlabel="Pareto k-hat of the weights", ylabel=error)


def random_guess(risk: AttributeRisk) -> float:
    """One over the (median) number of guesses that are counted for a target."""
    return float(1 / np.median(risk.guesses_each))


def plot_closeness(
    risk: AttributeRisk,
    variable: str,
    *,
    relative: bool = False,
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """Share of records whose expected absolute error for a number is at most so much.

    A curve further to the left: the intruder comes closer. ``relative``: in units of the same error
    without the release, which does not reveal the number itself. (On a grid of percentages the
    absolute curve without the release is that of the true values.)
    """
    axes, table = axes_of(ax), risk.closeness(variable).dropna()  # records that have the number
    after, before = (table[f"expected_absolute_error{which}"] for which in ("", "_prior"))
    known = styled({}, color=ORANGE, ls="--", label="without the release")
    style = styled(kwargs, color=BLUE, zorder=3, label="with the release")
    if relative:
        label = f"distance from the true {label_text(variable)}, without the release = 1"
        axes.ecdf((after / before.where(before > 0)).fillna(1.0), **style)
        axes.axvline(1, **known)
    else:
        label = f"expected distance from the true {label_text(variable)}"
        axes.ecdf(after, **style)
        axes.ecdf(before, **known)
    axes.set_xlim(left=0)
    return legend(axes, ylabel="share of records", ylim=(0, 1.02), xlabel=label)


BY_PRIOR = [m.name for m in ATTRIBUTE.values() if m.error and m.baseline]


def plot_priors(
    compared: pd.DataFrame,
    *,
    measure: str = "mean_probability",
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """Probability of the truth under each prior, two standard errors, and the prior's own.

    ``compared`` is from ``evidence.compare({...})``, ``measure`` the mean or the maximum in it.
    """
    if measure not in BY_PRIOR or measure not in compared:
        raise InputError(
            "measure",
            measure,
            f"is not drawn from these columns; give one of {BY_PRIOR} and the table of "
            "evidence.compare({...})",
        )
    axes, of = axes_of(ax), ATTRIBUTE[measure]
    spread = 2 * compared[of.error].fillna(0).to_numpy()
    style = styled(kwargs, height=0.6, color=BLUE, capsize=2, label=WITH_ERRORS)
    axes.barh(range(len(compared)), compared[measure], xerr=spread, **style)
    rows(axes, map(label_text, compared.index), compared[of.baseline])
    axes.set_xlim(left=0)
    return legend(axes, ylabel="prior", xlabel=of.words)


TIE = 1e-9
TAIL = 0.025


def calibration(risk: AttributeRisk, *, bins: int = 10) -> pd.DataFrame:
    """How often the intruder's likeliest guess is right, by the probability it is given.

    If the true values are distributed as in the prior and the model is true, the frequency equals
    the probability in every bin. Guesses centred on the truth under a flat prior are not: there the
    table shows how misled, or how lucky, the intruder is.

    One row per bin of equal width that holds records, labelled by its lower end: ``predicted``
    (mean probability of the likeliest guess), ``frequency`` (share of records of which it is the
    truth; guesses that tie share), ``low`` and ``high`` (95 % interval, Jeffreys: of Beta(k + 1/2,
    n - k + 1/2), 0 or 1 where no or every guess is right), ``records`` n. Records released
    unchanged are left out. Intervals take records as independent; they share the release and its
    draws, so a departure of all bins to one side means less than as many departures to both.
    """
    whole_number("bins", bins)
    top = risk.log_probability.max(axis=0)
    level = risk.log_probability >= top - TIE
    true = np.take_along_axis(level, risk.truth[None], axis=0)[0]
    kept = risk.case[~risk.disclosed[risk.case]]
    confidence, right = np.exp(top)[kept], (true / level.sum(axis=0))[kept]
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    each = pd.DataFrame({"predicted": confidence, "frequency": right}).groupby(place / bins)
    table, n = each.mean().rename_axis("bin"), each.size()
    k = each["frequency"].sum()
    low = np.where(k == 0, 0.0, betaincinv(k + 0.5, n - k + 0.5, TAIL))
    high = np.where(k == n, 1.0, betaincinv(k + 0.5, n - k + 0.5, 1 - TAIL))
    return table.assign(low=low, high=high, records=n)


def plot_calibration(
    risk: AttributeRisk, *, bins: int = 10, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """How often the likeliest guess is right against its probability, with 95 % intervals.

    On the line the intruder's confidence is right, below it the intruder is too sure. Numbers
    of records stand beside the points. See `calibration`.
    """
    axes, table = axes_of(ax), calibration(risk, bins=bins)
    ends = table[["low", "high"]].to_numpy().T
    frame = table.set_axis(["predicted", "observed", "low", "high", "examples"], axis=1)
    return _calibrated(axes, frame, ends, kwargs, "records\nwhere it is so")


def plot_held_out(risk: AttributeRisk, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Simulated evidence in runs that were left out: observed against predicted, by certainty.

    Intervals of 95 % from the spread over runs. Below the line the intruder is too sure. Numbers of
    examples stand beside the points. The table is ``risk.learnt.calibration``.
    """
    if risk.learnt is None:
        raise InputError(
            "risk has no simulated evidence; give a result of attribute_risk of a Simulator"
        )
    table = risk.learnt.calibration
    spread = 1.96 * table["standard_error"].to_numpy()
    ends = table["observed"].to_numpy() + np.outer([-1, 1], spread)
    return _calibrated(axes_of(ax), table, ends, kwargs, "examples\nwhere it was drawn")


def _calibrated(
    axes: Axes, table: pd.DataFrame, ends: Array, given: dict[str, Any], of: str
) -> Axes:
    """Observed against predicted, with intervals of these ends (2, levels)."""
    x, y = table["predicted"].to_numpy(), table["observed"].to_numpy()
    axes.plot([0, 1], [0, 1], "--", color=GREY, label="calibrated")
    label = "likeliest guess (95 % interval)"
    spread = np.abs(np.clip(ends, 0, 1) - y)
    axes.errorbar(x, y, yerr=spread, **styled(given, fmt="o", color=BLUE, capsize=3, label=label))
    for at, height, n in zip(x, y, table["examples"], strict=True):
        axes.annotate(
            f"{n:,}", (at, height), (6, -11), textcoords="offset points", fontsize="small"
        )
    axes.set(xlim=(0, 1.05), ylim=(0, 1.05))
    return legend(axes, xlabel="probability of the likeliest guess", ylabel=f"share of {of}")


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

    A number: stems over its values. A category, or all variables together (the default): bars, the
    likeliest guesses first, and the truth last if it is not among them.
    """
    if variable is None and len(risk.variables) == 1:
        variable = risk.variables[0].name
    of = [v for v in risk.variables if variable in (None, v.name)]
    axes, table = axes_of(ax), risk.posterior(label, variable)
    if variable is None or any(v.n_levels for v in of):
        return _bars(axes, table, [v.name for v in of], kwargs)
    return _stems(axes, table, kwargs)


def _stems(axes: Axes, table: pd.DataFrame, given: dict[str, Any]) -> Axes:
    """Probabilities over the values of a number; those before the release are a line."""
    values, p, true = table.iloc[:, 0], table["probability"], table["is_truth"]
    for which, colour in ((~true, BLUE), (true, VERMILION)):
        axes.vlines(values[which], 0, p[which], color=colour, lw=2)
    guesses = (~true, BLUE, "o", "with the release", {"ms": 6})
    truth = (true, VERMILION, "*", "the truth", {"ms": 12})
    marks(axes, values, p, given, guesses, truth, zorder=3)
    axes.plot(values, table["prior"], "--", color=ORANGE, label="without the release")
    axes.set_ylim(bottom=0)
    return legend(axes, xlabel=label_text(str(values.name)), ylabel="probability")


def _bars(axes: Axes, table: pd.DataFrame, variables: list[str], given: dict[str, Any]) -> Axes:
    """Probabilities of the likeliest guesses, from the top."""
    ordered = table.sort_values("probability", ascending=False, kind="stable", ignore_index=True)
    shown = ordered[(ordered.index < MANY_BARS) | ordered["is_truth"]].reset_index(drop=True)
    p, true = shown["probability"], shown["is_truth"]
    others = styled(given, color=BLUE, label="with the release")
    axes.barh(p.index[~true], p[~true], **others)
    axes.barh(p.index[true], p[true], color=VERMILION, hatch="//", ec="white", label="the truth")
    rows(axes, map(_guess, shown[variables].to_numpy(dtype=object)), shown["prior"])
    hidden = f" ({len(shown)} of {len(table):,} guesses shown)" if len(shown) < len(table) else ""
    axes.set_xlim(left=0)
    axes.set(xlabel=f"probability{hidden}", ylabel=label_text(", ".join(variables)))
    return legend(axes, side="right")


def _guess(values: npt.NDArray[np.object_]) -> str:
    parts = [plain(v, 6) if isinstance(v, float) else str(v) for v in values]
    return label_text(", ".join(parts))


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
    highest risk in it. The ``worst`` records are ringed. Coordinates are the true values of guessed
    numbers, or columns of ``places``, a confidential table by the labels of ``risk.index``.
    """
    axes, at = axes_of(ax), _places(risk, x, y, places)
    p = risk.records["probability"].to_numpy()
    if len(p) > MANY_POINTS:
        what = "highest probability of a truth"
        usual = {"gridsize": HEXAGONS, "linewidths": 0.2, "reduce_C_function": np.max}
        drawn: Any = axes.hexbin(*at.T, **styled(kwargs, cmap=COLOURS, vmin=0, C=p, **usual))
    else:
        what, size = "probability of the truth", 10 + 70 * p / max(p.max(), 1e-12)
        usual = {"ec": GREY, "lw": 0.4, "s": size}
        drawn = axes.scatter(*at.T, **styled(kwargs, cmap=COLOURS, vmin=0, c=p, **usual))
    first = np.argsort(-p, kind="stable")[:worst]
    if len(first):
        ring = styled({}, ls="none", mfc="none", mec=VERMILION, ms=13, mew=1.5)
        axes.plot(*at[first].T, "o", label=f"the {len(first)} records at highest risk", **ring)
        legend(axes)
    axes.figure.colorbar(drawn, ax=axes, label=what)
    axes.set(xlabel=label_text(x), ylabel=label_text(y))
    return axes


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
