"""Pictures of candidates on the risk-utility map, of utility, and of sensitivity."""

import textwrap
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cbook import boxplot_stats
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from bayes_risk._core.arrays import Array
from bayes_risk._core.formats import number, plain
from bayes_risk.data.measures import CONTEXT, MEASURES, UTILITY, measure_in_words
from bayes_risk.studies.comparison import Comparison
from bayes_risk.studies.grid import value_in_words
from bayes_risk.studies.sensitivity import RISK, Sensitivity, name_of
from bayes_risk.utilities.context_result import ContextMeasures
from bayes_risk.utilities.result import Utility

from .canvas import (
    ALL_COLOURS,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    axes_of,
    few_ticks,
    ink,
    label_text,
    legend,
    paper,
    rows,
    styled,
)

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
LEFT, RIGHT = "\N{LEFTWARDS ARROW}", "\N{RIGHTWARDS ARROW}"
DOWN, UP = "\N{DOWNWARDS ARROW}", "\N{UPWARDS ARROW}"
REACH = 1.0  # how far, in spans of the candidates, an end of the scale may stretch the map
EDGE = 0.08  # of a span, beside the outermost mark


def plot_risk_utility(
    found: Comparison,
    *,
    risk: str | None = None,
    utility: str | None = None,
    kind: str = "boxes",
    whiskers: float | None = None,
    bounds: bool = False,
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """The risk-utility map: candidates on utility (x) and risk (y), the Pareto front drawn.

    Keywords as in `Comparison.plot`, which checks them.
    """
    of, axes = found.axes(risk, utility), axes_of(ax, (7.2, 5.0))
    table = found.pareto(*of)
    looks = zip(found.names, cycle(ALL_COLOURS), cycle(MARKERS), strict=False)
    for name, colour, marker in looks:
        points = found.points(name, *of)
        if len(points):
            look = styled({}, color=colour, marker=marker, ls="")
            errors = table.loc[name, ["utility_mcse", "risk_mcse"]].to_numpy(float)
            _candidate(axes, points, look, kind, whiskers, errors)
            # the mean carries the name
            style = styled(kwargs, **look, ms=8, zorder=4, mec=paper(), mew=1.0)
            axes.plot(*points.mean(axis=0), **styled(style, label=_plain(name)))
    front = table[table["on_front"]]  # the most useful first; below and before them nobody stands
    if len(front) > 1:
        steps = styled({}, drawstyle="steps-post", color=ink(), ls="--", lw=1, zorder=1)
        axes.plot(front["utility"], front["risk"], label="Pareto front", **steps)
    _level(axes, found, of)
    axes.margins(EDGE)
    if bounds:
        _ends(axes, found, of)
    axes.set_xlabel("      ".join(_label(of[1], (LEFT, RIGHT))))
    axes.locator_params(axis="x", nbins=6)
    longest = max(map(len, axes.get_legend_handles_labels()[1]))
    columns = 4 if longest <= 13 else 3 if longest <= 20 else 2
    return legend(axes, columns=columns, ylabel="\n".join(_label(of[0], (DOWN, UP))))


NAME_WIDTH = 36  # characters of a line of the name beside a mark: half of the picture
VERDICTS = {"above": VERMILION, "inconclusive": ORANGE, "not": GREY, "within": GREEN}


def plot_verdicts(
    found: Comparison, *, utility: str | None = None, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """Candidates by utility (x) and the largest risk over its threshold (y), with verdicts.

    Below the line no threshold is passed on average. Beside the name: how many values are disclosed
    with certainty, or why else a candidate below the line is above; and the verdict on utility. A
    threshold of the utility drawn is a line.
    """
    axes, name = axes_of(ax, (7.2, 4.2)), found.axes(None, utility)[1]
    useful = found.summary().xs(name, level="measure")
    table = found.verdicts.join(useful[["mean", "mcse"]].add_prefix("useful_"))
    table = table[table["over_allowed"].notna() & table["useful_mean"].notna()]
    drawn, names = set[str](), list[tuple[str, float, float]]()
    for candidate, row in table.to_dict("index").items():
        verdict = str(row["verdict"])
        word, marker = verdict.split(" ")[0], dict(zip(VERDICTS, MARKERS, strict=False))
        x, y = row["useful_mean"], row["over_allowed"]
        label: dict[str, Any] = {"label": verdict} if verdict not in drawn else {}
        drawn.add(verdict)
        style = styled(kwargs, color=VERDICTS[word], marker=marker[word], ls="", ms=8, capsize=2)
        across, along = (2 * np.nan_to_num(row[k]) for k in ("useful_mcse", "mcse"))
        axes.errorbar(x, y, xerr=across, yerr=along, **style, **label)
        certain, judged = row["certain_values"], str(row["usefulness"])
        remarks = [f"{plain(certain)} certain"] * bool(certain > 0)
        if word == "above" and y <= 1 and not remarks:
            some, n = row["replicates"], row["of"]
            remarks = [f"above in {some} of {n}" if some < n else "above by another rule"]
        remarks += [judged] * bool(judged)
        beside = f" ({', '.join(remarks)})" if remarks else ""
        words = textwrap.fill(f"{_plain(str(candidate))}{beside}", NAME_WIDTH)
        names.append((words, x, y))
    axes.axhline(1, color=ink(), ls="--", lw=1, label="what is allowed")
    if name in found.useful_at:
        axes.axvline(found.useful_at[name], color=ink(), ls=":", lw=1, label="utility required")
    axes.margins(x=0.2, y=0.15)
    axes.set_ylim(bottom=0)
    at = [axes.transLimits.transform((x, y)) for _, x, y in names]  # shares of the picture
    for k, ((words, *of), (x, y)) in enumerate(zip(names, at, strict=True)):
        left = x + 0.013 * max(map(len, words.splitlines())) > 1  # of the mark: no room beside it
        near = sum(abs(x - a) < 0.4 and abs(y - b) < 0.12 for a, b in at[:k])
        how = {"ha": "right" if left else "left", "va": "top" if y > 0.7 else "bottom"}
        high = (5 + 14 * near) * (-1 if y > 0.7 else 1)  # beyond the names before it
        where = styled(how, xytext=(-7 if left else 7, high), textcoords="offset points")
        axes.annotate(words, (of[0], of[1]), fontsize=9, **where)
    axes.set_xlabel("      ".join(_label(name, (LEFT, RIGHT))))
    return legend(axes, ylabel="largest risk\nover its threshold")


def _candidate(
    axes: Axes,
    points: Array,
    look: dict[str, Any],
    kind: str,
    whiskers: float | None,
    errors: Array,
) -> None:
    """Replicates, and their rectangle, box or error."""
    alone, colour = len(points) == 1, look["color"]
    shown = points[:0] if alone else points
    if kind != "points" and not alone:
        low, high = np.percentile(points, [25, 75], axis=0)
        how = styled({}, color=colour, lw=1.2, zorder=1.5)
        for fill, alpha in ((True, 0.18), (False, 1.0)):
            axes.add_patch(Rectangle(tuple(low), *(high - low), fill=fill, alpha=alpha, **how))
        if kind == "boxes":
            ends = whisker_ends(points, whiskers)
            x, y = np.median(points, axis=0)  # each whisker at the median of the other measure
            for a, b in ((low, ends[0]), (high, ends[1]), (low, high)):
                axes.plot([a[0], b[0]], [y, y], **how)
                axes.plot([x, x], [a[1], b[1]], **how)
            shown = points[((points < ends[0]) | (points > ends[1])).any(axis=1)]
    axes.plot(*shown.T, alpha=0.55, mew=0, ms=4, zorder=2, **look)
    if kind == "points" or alone:
        (x, y), (across, up) = points.mean(axis=0), 2 * np.nan_to_num(errors)
        axes.errorbar(x, y, xerr=across, yerr=up, color=colour, lw=1, capsize=2, zorder=3)


def whisker_ends(points: Array, whiskers: float | None) -> Array:
    """Where whiskers end, low and high, of both measures, shape (2, 2).

    At the last values, or the last within so many interquartile ranges of the quartiles.
    """
    found = boxplot_stats(points, (0, 100) if whiskers is None else whiskers)
    return np.array([[one[end] for one in found] for end in ("whislo", "whishi")])


def _level(axes: Axes, found: Comparison, of: tuple[str, str]) -> None:
    """Risk without the release, where it is one number for all candidates; chance of utility."""
    words = ("without the release", "drawn from the truth")
    for name, draw, label, style in zip(
        of, (axes.axhline, axes.axvline), words, (":", "-."), strict=True
    ):
        beside = found.beside[:, :, found.measures.index(name)]
        known = beside[~np.isnan(beside)]
        if len(known) and np.allclose(known, known[0], rtol=1e-3) and name != "gain":
            draw(float(known[0]), color=GREY, ls=style, lw=1, label=label, zorder=1)


def _ends(axes: Axes, found: Comparison, of: tuple[str, str]) -> None:
    """Releases at the ends of the scale; those far off stand at the edge, with an arrow."""
    table = found.bounds
    assert table is not None
    at = table[[of[1], of[0]]].to_numpy(float)
    seen = np.array([axes.get_xlim(), axes.get_ylim()]).T  # shape (2, 2): low, high
    span = seen[1] - seen[0]
    near = np.where((at >= seen[0] - REACH * span) & (at <= seen[1] + REACH * span), at, np.nan)
    low = np.fmin(seen[0], np.nanmin(np.vstack([near, seen[:1]]), axis=0) - EDGE * span)
    high = np.fmax(seen[1], np.nanmax(np.vstack([near, seen[1:]]), axis=0) + EDGE * span)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    for name, true, shown in zip(table.index, at, np.clip(at, low, high), strict=True):
        label, (x, y) = str(name), map(float, shown)
        beyond = ""
        for off, (less, more) in zip(true - shown, ((LEFT, RIGHT), (DOWN, UP)), strict=True):
            beyond += less if off < 0 else more if off > 0 else ""
        if beyond:  # its true place in numbers
            label += f" {beyond} ({number(true[0])}, {number(true[1])})"
        share = (x - low[0]) / (high[0] - low[0])
        side = "left" if share < 0.15 else "right" if share > 0.85 else "center"
        mark = styled({}, marker="*", ms=10, ls="", color=ink(), mfc=paper(), clip_on=False)
        axes.plot(x, y, zorder=5, **mark)
        style = styled({}, textcoords="offset points", ha=side, fontsize=8, zorder=5)
        axes.annotate(label, (x, y), xytext=(0, 8), **style)


def _label(name: str, arrows: tuple[str, str]) -> tuple[str, str]:
    """The measure, and which way is better."""
    measure = MEASURES[name]
    better = "more useful" if name in UTILITY else "less risk"
    low, high = arrows
    return measure.words, f"{low} {better}" if measure.lower else f"{better} {high}"


def _plain(text: str) -> str:
    return text.replace("$", r"\$").lstrip("_") or "candidate"


PAIRS = 10
DRAWN = ("repu", "disco", "dcap", "tcap", "dcr_zero")  # of context measures
LEAST = 0.1  # ratios are drawn from here; smaller ones say nothing more
TOP = 10.0  # ratio at which the colours end, if none is above
STEPS = [step * 10**k for k in range(7) for step in (1, 2, 5)]
NUMBERED = 14  # columns up to which numbers stand in the squares


def plot_utility(found: Utility, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """S_pMSE of every pair of columns (below the diagonal) and column (on it).

    A release drawn from the truth has 1 on average: the lightest. Pairs of columns that were not
    synthesised are blank. Up to 14 columns the numbers are written too.
    """
    axes = axes_of(ax)
    names = [*found.unsynthesized, *found.synthesized]
    ratios = ratios_of(found)
    top = max(TOP, float(np.nanmax(ratios, initial=1.0)))
    style = styled(kwargs, cmap=COLOURS, norm="log", vmin=1, vmax=top, edgecolors="none")
    squares = np.ma.masked_invalid(np.maximum(ratios, 1e-3))
    mesh = axes.pcolormesh(squares, **style)
    places = np.arange(len(names)) + 0.5
    axes.set_xticks(places, [label_text(name) for name in names], rotation=90)
    axes.set_yticks(places, [label_text(name) for name in names])
    axes.invert_yaxis()
    for row, column in np.argwhere(np.isfinite(ratios)) if len(names) <= NUMBERED else ():
        ratio = ratios[row, column]  # readable on its square
        style = styled({}, color="white" if ratio > top**0.5 else "black", fontsize=8)
        axes.text(column + 0.5, row + 0.5, plain(ratio, 2), ha="center", va="center", **style)
    bar = axes.figure.colorbar(mesh, ax=axes, label="pMSE over chance (S_pMSE)")
    bar.set_ticks([step for step in STEPS if step <= top], labels=None, minor=False)
    bar.ax.yaxis.set_major_formatter("{x:g}")
    few_ticks(bar.ax.yaxis)
    return axes


def ratios_of(found: Utility) -> Array:
    """S_pMSE of columns and pairs, (p, p), below the diagonal; NaN: not compared."""
    at = {name: j for j, name in enumerate([*found.unsynthesized, *found.synthesized])}
    grid = np.full((len(at), len(at)), np.nan)
    for name, ratio in found.margins["ratio"].items():
        grid[at[str(name)], at[str(name)]] = ratio
    for pair, ratio in zip(found.pairs.index, found.pairs["ratio"], strict=True):
        low, high = sorted(at[name] for name in pair)
        grid[high, low] = ratio
    return grid


def plot_worst_pairs(
    found: Utility, *, k: int = PAIRS, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """The pairs of columns worst kept together: S_pMSE of their tables, on a log scale.

    A release drawn from the truth has 1 on average (the dashed line). Diamonds: the worse of the
    two columns by itself, so that a pair is seen to be bad because of a column.
    """
    axes, table, alone = axes_of(ax), found.pairs.head(k), found.margins["ratio"]
    style = styled(kwargs, height=0.6, color=BLUE, label="the pair")
    ratio = np.maximum(table["ratio"].to_numpy(), LEAST)
    axes.barh(range(len(table)), ratio - LEAST, left=LEAST, **style)
    worse = [max(LEAST, *(alone[name] for name in pair if name in alone)) for pair in table.index]
    axes.axvline(1, color=VERMILION, ls="--", label="drawn from the truth")
    axes.set_xscale("log")
    axes.set_xlim(left=LEAST)
    axes.xaxis.set_major_formatter("{x:g}")
    few_ticks(axes.xaxis)
    names = (f"{label_text(a)} \N{MULTIPLICATION SIGN} {label_text(b)}" for a, b in table.index)
    rows(axes, names, worse, "the worse column alone")
    return legend(axes, columns=2, xlabel="pMSE over chance (S_pMSE)")  # labels take the left


def plot_context(found: ContextMeasures, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Replicated uniques, DiSCO, DCAP, TCAP and released copies, beside what they compare with."""
    table = found.summary()
    table, axes = table[[measure in DRAWN for _, measure in found.rows]], axes_of(ax)
    style = styled(kwargs, height=0.6, color=BLUE, label="with the release")
    axes.barh(range(len(table)), table["value"], **style)
    names = (label_text(f"{CONTEXT[m].short} {t}".strip()) for t, m in table.index)
    rows(axes, names, table["compare"], "with the original")
    return legend(axes, xlim=(0, 1), xlabel="share of records")


TWO_ERRORS = "\N{PLUS-MINUS SIGN} 2 s.e."
WIDE = 26  # characters of a label on one line
LETTER = 0.0095  # of the width of the axes
WIDTH, NAMES = 8.6, 2.0  # inches: of a figure of ours, and of the names at its left
SHARE = 0.775  # of a figure's width that axes have before anything is laid out
STILL = 1e-3  # share of the widest bar below which nothing has moved


def plot_tornado(
    found: Sensitivity, *, measure: str = RISK, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """One bar a factor, from its lowest to its highest value of the measure, widest on top.

    Left of the base setting in blue, right of it in vermilion; the values of the factor stand at
    the ends. The grey band is two standard errors of the base: what lies within may be chance.
    """
    table = found.tornado(measure)
    axes = axes_of(ax, (WIDTH, 1.5 + 0.55 * len(table)))
    base = float(table["base"].iloc[0])
    spread = max(float(table["high"].max() - table["low"].min()), 1e-12)
    for side in ("low", "high"):
        _side(axes, table, side, spread, kwargs)
    axes.axvline(base, color=GREY, lw=1, label="base setting")
    error = MEASURES[measure].error if measure in MEASURES else ""
    band = 0.0 if not error else 2 * float(found.dataset[error].sel(dict(found.base)))
    if band > 0:
        style = styled({}, color=GREY, alpha=0.2, lw=0, zorder=0, label=TWO_ERRORS)
        axes.axvspan(base - band, base + band, **style)
    names = [f"{_named(name)}\n(base: {_short(name, found.base[name])})" for name in table.index]
    axes.set_yticks(range(len(table)), names)
    axes.set_ylim(len(table) - 0.5, -0.5)  # room for factors that move nothing
    width = max(float(axes.get_window_extent().width / axes.figure.dpi) / SHARE, NAMES + 1)
    axes.set_xlim(*_limits(table, spread, LETTER * (WIDTH - NAMES) / (width - NAMES)))
    if table["low"].min() >= 0:  # nothing below 0 but labels
        axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= axes.get_xlim()[1]])
    return legend(axes, side="right", columns=2, xlabel=_named(measure))  # labels take the left


def _side(axes: Axes, table: pd.DataFrame, side: str, spread: float, given: dict[str, Any]) -> None:
    """Bars from the base to one end, with the value of the factor beside each that moves."""
    left = side == "low"
    base, ends = table["base"].to_numpy(float), table[side].to_numpy(float)
    moved = np.flatnonzero(np.abs(ends - base) > STILL * spread)
    colour, hatch, word = (BLUE, "", "lower") if left else (VERMILION, "//", "higher")
    label = f"{word} than at the base" if len(moved) else None
    style = styled(given, height=0.55, color=colour, hatch=hatch, ec="white", label=label)
    bars = axes.barh(moved, (ends - base)[moved], left=base[moved], **style)
    values = table[f"at_{side}"].iloc[moved]
    axes.bar_label(bars, [_short(str(k), v) for k, v in values.items()], padding=4, fontsize=8)


def plot_factor(
    found: Sensitivity, factor: str, *, measure: str = RISK, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """A measure along one factor, the others at their base; two standard errors, the baseline."""
    line = found.along(factor)
    line = line.isel({factor: ~np.isnan(line[measure].to_numpy())})
    at, values, base = line[factor].to_numpy(), line[measure].to_numpy(), found.base[factor]
    numbers, is_base, words = at.dtype.kind in "iuf", at == base, _named(measure)
    axes = axes_of(ax, (6.4, 3.2) if numbers else (7.6, 1.5 + 0.36 * len(at)))
    beside = (of.error, of.baseline) if (of := MEASURES.get(measure)) else ("", "")
    mcse, baseline = (line[name].to_numpy() if name else None for name in beside)
    spread = np.zeros(len(at)) if mcse is None else 2 * np.nan_to_num(mcse)
    known, label = bool(spread.any()), "with the release"
    label += f" ({TWO_ERRORS})" * known
    if numbers:
        style = styled(kwargs, color=BLUE, marker="o", ms=4, capsize=3, label=label)
        axes.errorbar(at, values, yerr=spread if known else None, **style)
        if baseline is not None:
            axes.plot(at, baseline, ":", color=ORANGE, label="without the release")
        mark = styled({}, color=VERMILION, ms=7, label="base", zorder=3)
        axes.plot(at[is_base], values[is_base], "D", **mark)
        if at.dtype.kind in "iu":
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        low, high = axes.get_ylim()
        if low >= 0:
            axes.set_ylim(0, 1.12 * high)  # room for the mark of the base
        share = "share of " if factor == "knows_records" else ""
        axes.set(xlabel=share + _named(factor), ylabel="\n".join(textwrap.wrap(words, 30)))
    else:
        own = "the same, base setting"
        for those, colour, hatch, of_bars in (
            (~is_base, BLUE, "", label), (is_base, VERMILION, "//", own),
        ):  # fmt: skip
            style = styled(kwargs, height=0.6, color=colour, hatch=hatch, ec="white", label=of_bars)
            style = styled(style, capsize=2, xerr=spread[those] if known else None)
            axes.barh(np.flatnonzero(those), values[those], **style)
        rows(axes, map(_lines, at), baseline)
        axes.set(xlabel=words, ylabel=_named(factor))
        if axes.get_xlim()[0] > 0:
            axes.set_xlim(left=0)
    return legend(axes, side="right", columns=2)  # labels take the left


def _limits(table: pd.DataFrame, spread: float, letter: float) -> tuple[float, float]:
    """Limits that leave room for the labels of both sides; ``letter``: share of the axes."""
    share = [0.03, 0.03]  # of the width of the axes
    for side, name in enumerate(("low", "high")):
        moved = (table[name] - table["base"]).abs() > STILL * spread
        for factor, value in table.loc[moved, f"at_{name}"].items():
            share[side] = max(share[side], 0.03 + letter * len(_short(str(factor), value)))
    wide = spread / (1.0 - sum(share))
    return float(table["low"].min()) - share[0] * wide, float(table["high"].max()) + share[1] * wide


def _named(name: str) -> str:
    """A measure or factor for people."""
    return measure_in_words(name) if name in MEASURES else name_of(name).replace("_", " ")


def _short(factor: str, value: object) -> str:
    text = value_in_words(factor, value)
    return textwrap.shorten(text, WIDE, placeholder="\N{HORIZONTAL ELLIPSIS}").replace("$", r"\$")


def _lines(value: object) -> str:
    """A label on two lines at most."""
    text = plain(value, 3) if isinstance(value, float) else str(value)
    lines = textwrap.wrap(text, WIDE, max_lines=2, placeholder="\N{HORIZONTAL ELLIPSIS}")
    return "\n".join(lines).replace("$", r"\$")
