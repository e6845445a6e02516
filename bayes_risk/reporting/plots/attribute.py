"""Pictures of attribute risk: over all records, of one record, and on the map of places."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.stats import beta

from bayes_risk._core.arrays import Array
from bayes_risk._core.errors import InputError
from bayes_risk._core.formats import number, plain
from bayes_risk._core.validate import at_least
from bayes_risk.risk.closeness import number_among
from bayes_risk.risk.result import AttributeRisk

from .canvas import (
    BLUE,
    COLOURS,
    EDGES,
    GREY,
    MANY_POINTS,
    ORANGE,
    VERMILION,
    as_text,
    axes_of,
    legend,
    log_counts,
    styled,
    upper,
)

GOOD_KHAT = 0.7
WITH_ERRORS = "with the release (\N{PLUS-MINUS SIGN} 2 s.e.)"
MANY_PLACES, LABELLED = 40, 8


def plot_attribute_risk(risk: AttributeRisk, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Distribution over records of the probability of the truth, with the random-guess line.

    Counts are on a log scale, so that a single record at high risk can be seen among thousands.
    """
    axes = axes_of(ax)
    table = risk.records
    top = upper(table[["probability", "prior"]].to_numpy().max())
    edges = [top * edge for edge in EDGES]
    style = styled(kwargs, bins=edges, color=BLUE, label="with the release")
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
    return legend(axes)


def plot_ranks(risk: AttributeRisk, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """How often the truth is the intruder's first, second, ... choice.

    A truth level with others counts in equal parts at each of the places they share. The line is
    what guessing at random gives. More than 40 places are drawn in bars of 1, 1, 2, 4, 8, ...
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
    axes.bar(places, counts, **styled(kwargs, width=0.8, color=BLUE, label="with the release"))
    edges = np.arange(0.5, len(counts) + 1)
    chance = styled({}, baseline=None, color=VERMILION, ls="--", lw=1.5)
    axes.stairs(expected, edges, **chance, label="random guess")
    axes.set(xlabel=told, ylabel="records")
    axes.set_xlim(0.4, len(counts) + 0.6)
    if many:
        shown = np.flatnonzero((places <= LABELLED) | (places % 2 == 1))  # large numbers need room
        axes.set_xticks(places[shown], [f"{place:,}" for place in first[shown]])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return legend(axes)


def plot_worst(risk: AttributeRisk, *, k: int = 10, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """The k records at highest risk: probability of the truth, two standard errors, and the prior.

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
    style = styled(kwargs, fmt="o", color=BLUE, capsize=3, clip_on=False, label=WITH_ERRORS)
    axes.errorbar(table["probability"], places, xerr=within, **style)
    before = styled({}, color=ORANGE, ms=5, clip_on=False, label="without the release")
    axes.plot(table["prior"], places, "D", **before)
    axes.set_yticks(places, [as_text(v) for v in table.index])
    top = upper((table["probability"] + error).max(), table["prior"].max())
    axes.set(
        xlim=(0, top), ylabel="record", xlabel="probability the intruder gives to the true values"
    )
    return legend(axes)


def plot_diagnostics(risk: AttributeRisk, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Pareto k-hat of each record's weights against the Monte Carlo error of its number.

    To the right of the line, weights rest on too few draws; records marked unreliable are crosses.
    """
    axes = axes_of(ax)
    used = np.unique(risk.case)
    khat, mcse, good = risk.khat[used], risk.mcse[used], risk.reliable[used]
    style = styled(kwargs, ls="none", ms=4, rasterized=len(used) > MANY_POINTS)
    sound = styled(style, color=BLUE, alpha=0.4, mew=0, label="reliable")
    axes.plot(khat[good], mcse[good], "o", **sound)
    if not good.all():
        doubtful = {"color": VERMILION, "label": "unreliable"}
        axes.plot(khat[~good], mcse[~good], "x", **(style | doubtful))
    axes.axvline(GOOD_KHAT, color=GREY, ls=":", label=f"k-hat = {GOOD_KHAT}")
    axes.set(xlabel="Pareto k-hat of the weights", ylabel="Monte Carlo error\nof the probability")
    axes.set_ylim(bottom=0)
    return legend(axes)


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

    A curve further to the left: the intruder comes closer.

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
    style = styled(kwargs, color=BLUE, zorder=3, label="with the release")
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
    return legend(axes)


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
    style = styled(kwargs, height=0.6, color=BLUE, capsize=2, label=WITH_ERRORS)
    axes.barh(places, compared[measure], xerr=spread, **style)
    axes.plot(compared[baseline], places, "D", color=ORANGE, ms=5, label="without the release")
    axes.set_yticks(places, [as_text(name) for name in compared.index])
    axes.set(ylabel="prior", xlabel=f"probability of the truth, {WORDS[measure]}")
    axes.set_xlim(left=0)
    axes.invert_yaxis()
    return legend(axes)


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
    of records stand beside the points. See `calibration`.

    Parameters
    ----------
    bins : int
        Number of bins of equal width.
    """
    axes, table = axes_of(ax), calibration(risk, bins=bins)
    x, y = table["predicted"].to_numpy(), table["frequency"].to_numpy()
    spread = np.stack([y - table["low"], table["high"] - y])
    axes.plot([0, 1], [0, 1], "--", color=GREY, label="borne out")
    label = "likeliest guess (95 % interval)"
    axes.errorbar(x, y, yerr=spread, **styled(kwargs, fmt="o", color=BLUE, capsize=3, label=label))
    for at, height, n in zip(x, y, table["records"], strict=True):
        axes.annotate(
            f"{n:,}", (at, height), (6, -11), textcoords="offset points", fontsize="small"
        )
    axes.set(xlim=(0, 1.05), ylim=(0, 1.05))
    axes.set(xlabel="probability of the likeliest guess", ylabel="share of records\nwhere it is so")
    return legend(axes)


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
    guesses first, and the truth last if it is not among them.

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
        return legend(axes)
    names = [v.name for v in risk.variables] if variable is None else [variable]
    _bars(axes, table, names, kwargs)
    return legend(axes, side="right")


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
        style = styled(given, color=colour, ms=size, label=label, zorder=3)
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
    axes.barh(places[~true], p[~true], **styled(given, color=BLUE, label="with the release"))
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
    highest risk in it. The worst records are ringed.

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
    ring = styled({}, ls="none", mfc="none", mec=VERMILION, ms=13, mew=1.5)
    if len(first):
        axes.plot(*at[first].T, "o", label=f"the {len(first)} records at highest risk", **ring)
        legend(axes)
    what = "highest probability of a truth" if draw is _hexagons else "probability of the truth"
    axes.figure.colorbar(drawn, ax=axes, label=what)
    axes.set(xlabel=as_text(x), ylabel=as_text(y))
    return axes


def _points(axes: Axes, at: Array, p: Array, given: dict[str, Any]) -> Any:
    size = 10 + 70 * p / max(p.max(), 1e-12)
    style = styled(given, cmap=COLOURS, vmin=0, ec=GREY, lw=0.4, c=p, s=size)
    return axes.scatter(at[:, 0], at[:, 1], **style)


def _hexagons(axes: Axes, at: Array, p: Array, given: dict[str, Any]) -> Any:
    style = styled(given, cmap=COLOURS, gridsize=HEXAGONS, vmin=0, linewidths=0.2)
    return axes.hexbin(at[:, 0], at[:, 1], **styled(style, reduce_C_function=np.max, C=p))


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
