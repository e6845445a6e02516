"""Pictures of matching, membership, privacy loss, wide searches and reweighting."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from bayes_risk._core.errors import InputError
from bayes_risk.data.measures import measure_in_words
from bayes_risk.matching.result import IdentificationRisk
from bayes_risk.risk.full_table.likeliest import Likeliest
from bayes_risk.risk.full_table.risk import FullTableRisk
from bayes_risk.risk.membership.audit import Membership
from bayes_risk.risk.privacy_loss import PrivacyLoss
from bayes_risk.studies.identification_sweep import IdentificationSweep
from bayes_risk.studies.reweighting import Reweighting

from .canvas import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    axes_of,
    few_ticks,
    legend,
    marks,
    shares,
    styled,
)


def plot_roc(
    found: Membership, *, log: bool = False, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """Members found against people outside the data who are classified as members.

    On the line the release reveals nothing. Logarithmic axes show the small rates.
    """
    table = found.roc()
    rates = table["false_positive_rate"].to_numpy()
    axes, low = axes_of(ax), float(rates[1]) if log else 0.0
    style = styled(kwargs, color=BLUE, label="with the release")
    axes.plot(rates, table["true_positive_rate"], **style)
    axes.plot(rates, rates, color=VERMILION, ls="--", label="without the release")
    if log:
        axes.set(xscale="log", yscale="log")
    axes.set(xlim=(low, 1), ylim=(low, 1.02))
    label = "people outside the data classified as members"
    return legend(axes, xlabel=label, ylabel="members found")


def plot_privacy_loss(found: PrivacyLoss, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Share of records whose loss is at most so much; infinite losses are never reached."""
    axes, loss, low = axes_of(ax), found.records["privacy_loss"], found.records["low"].dropna()
    curves = [(loss[np.isfinite(loss)], styled(kwargs, color=BLUE, label="with the release"))]
    if len(low):
        other = styled({}, color=ORANGE, ls=":", label="bias the other way")
        curves.append((low.clip(lower=0), other))
    for values, style in curves:
        share = np.arange(1, len(values) + 1) / len(loss)
        axes.step(np.sort(values), share, **styled(style, where="post"))
    axes.axvline(0, color=VERMILION, ls="--", label="without the release")
    axes.set_ylim(0, 1.02)
    return legend(axes, xlabel="realised privacy loss", ylabel="share of records")


def plot_full_table(risk: FullTableRisk, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Rank of the truth among all values, with the release against without, on log scales.

    Below the line the release has brought the truth nearer to the front.
    """
    axes, before, after = axes_of(ax), risk.prior_rank[risk.case], risk.rank[risk.case]
    group = (slice(None), BLUE, "o", "record")
    marks(axes, before, after, kwargs, group, ms=4, alpha=0.5, mew=0)
    ends = (1.0, float(max(before.max(), after.max())))
    among = f"among {int(risk.n_values.max()):,} values without the release"
    return _both_log(
        axes, ends, "nothing learnt", VERMILION,
        xlabel=f"rank of the truth {among}", ylabel="rank with the release",
    )  # fmt: skip


def plot_likeliest(found: Likeliest, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Probability of the truth against that of the likeliest value, on log scales.

    On the line the truth is the intruder's first guess. Hollow triangles: the rank is not certain.
    """
    axes, table = axes_of(ax), found.records
    best, p, certain = table["best"], table["probability"], table["found"].astype(bool)
    sure = (certain, BLUE, "o", "rank of the truth certain", {"mfc": BLUE})
    other = (~certain, VERMILION, "v", "rank not certain", {"mfc": "none"})
    marks(axes, best, p, kwargs, sure, other, ms=4)
    share = "" if found.exact else ", at most"
    return _both_log(
        axes, (float(min(best.min(), p.min())), 1.0), "the truth is the likeliest", GREY,
        xlabel=f"probability of the likeliest of {found.n_values:,} values{share}",
        ylabel=f"probability of the truth{share}",
    )  # fmt: skip


def _both_log(axes: Axes, ends: tuple[float, float], label: str, colour: str, **words: Any) -> Axes:
    """Log scales, and the line on which both axes show the same."""
    axes.loglog(ends, ends, color=colour, ls="--", label=label)
    few_ticks(axes.xaxis, axes.yaxis)
    return legend(axes, **words)


def plot_before_after(result: Reweighting, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Probability of the truth in the first and last round, one point a record."""
    axes, table, rose = axes_of(ax), result.records, result.records["rose"]
    top = 1.05 * float(table[["before", "after"]].to_numpy().max())
    risen = (rose, VERMILION, "^", "moderate, and risen beyond the error")
    groups = ((~rose, BLUE, ".", "records"), risen)
    marks(axes, table["before"], table["after"], kwargs, *groups, ms=4, alpha=0.5)
    axes.plot([0, top], [0, top], "--", color=GREY, label="no change")
    if result.until is not None:
        axes.axhline(result.until, color=ORANGE, label="threshold")
    axes.set(xlim=(0, top), ylim=(0, top))
    return legend(axes, xlabel="probability of the truth, all weights 1", ylabel="reweighted")


def plot_path(result: Reweighting, *, ax: Axes | None = None, **kwargs: Any) -> Axes:
    """Worst and mean probability of the truth against the distance of pairwise tables.

    One point a round, numbered.
    """
    axes, rows = axes_of(ax), result.summary()
    distance = "margins" if rows["pairs"].isna().any() else "pairs"
    for name, column, error, colour, marker in (
        ("worst record", "max_probability", "mcse_max", VERMILION, "^"),
        ("mean", "mean_probability", "mcse", BLUE, "o"),
    ):
        label = name + " (\N{PLUS-MINUS SIGN} 2 s.e.)" * (colour == VERMILION)
        style = styled(kwargs, fmt=f"{marker}-", color=colour, capsize=3, label=label)
        axes.errorbar(rows[distance], rows[column], yerr=2 * rows[error].fillna(0), **style)
        for r, row in rows.iterrows():
            axes.annotate(str(r), (row[distance], row[column]), (4, 4), textcoords="offset points")
    if result.until is not None:
        axes.axhline(result.until, color=ORANGE, ls="--", label="threshold")
    what = "pairwise tables" if distance == "pairs" else "margins"
    axes.set_ylim(bottom=0)
    text = f"distance of {what} from the original's"
    return legend(axes, xlabel=text, ylabel="probability of the truth")


def plot_match_probabilities(
    ident: IdentificationRisk, *, ax: Axes | None = None, **kwargs: Any
) -> Axes:
    """Distribution over records of the probability of a correct match, pooled over releases."""
    axes, table = axes_of(ax), ident.records
    alone = styled({}, color=VERMILION, ls="--", label="by the unsynthesised keys alone")
    shares(axes, table["probability"], 1.0, kwargs, table["baseline"], **alone)
    return legend(axes, xlabel="probability that the intruder's match is the target")


HATCHES = ("", "//", "..", "xx")
STYLES = [(BLUE, "-", "o"), (VERMILION, "--", "s"), (GREEN, "-.", "^"), (ORANGE, ":", "D")]


def curves_of(sweep: IdentificationSweep) -> list[str]:
    """Settings of the axis, numbers first, and of the curves; none: more than a plot shows."""
    over = sorted(sweep.swept, key=lambda name: sweep.dataset[name].dtype.kind not in "iuf")
    many = len(over) > 2 or (len(over) == 2 and sweep.dataset.sizes[over[1]] > len(STYLES))
    return [] if many else over


def plot_sweep(
    sweep: IdentificationSweep,
    *,
    measure: str = "expected_match_risk",
    rule: str = "pooled",
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """Draw a variable of its dataset over one or two swept settings, of two at most four curves."""
    if not (over := curves_of(sweep)):
        raise InputError(
            f"{len(sweep.swept)} settings were swept ({', '.join(sweep.swept)}): a plot shows one, "
            "or one for up to four values of another; select from .dataset and plot that"
        )
    axes, chosen, first = axes_of(ax), sweep.dataset.sel(rule=rule), over[0]
    numbers, names = chosen[first].dtype.kind in "iuf", [str(v) for v in chosen[first].to_numpy()]
    at = chosen[first].to_numpy() if numbers else np.arange(len(names))
    parts, labels = [chosen], [rule]
    if len(over) > 1:
        parts = [chosen.isel({over[1]: k}) for k in range(chosen.sizes[over[1]])]
        labels = [f"{over[1]} = {part[over[1]].item()}" for part in parts]
    many = len(parts)
    for k, (part, label) in enumerate(zip(parts, labels, strict=True)):
        colour, line, marker = STYLES[k]
        style = styled(kwargs, color=colour, capsize=2, yerr=_error(part, measure), label=label)
        if numbers:
            style = styled(style, ls=line, marker=marker, ms=4)
            axes.errorbar(at, part[measure], **style)
        else:
            style = styled(style, width=0.75 / many, hatch=HATCHES[k], ec="white")
            axes.bar(at + (k - (many - 1) / 2) * 0.8 / many, part[measure], **style)
    if measure == "expected_match_risk":
        same = all(part["baseline"].equals(parts[0]["baseline"]) for part in parts)
        usual = {"ls": ":"} if numbers else {"ls": "none", "marker": "_", "ms": 16, "mew": 2}
        for k, part in enumerate(parts[:1] if same else parts):
            colour, words = (GREY, "") if same else (STYLES[k][0], f", {labels[k]}")
            style = styled(usual, color=colour, label=f"without the release{words}")
            axes.plot(at, part["baseline"], **style)
    if not numbers:
        axes.set_xticks(at, names)
        if max(map(len, names)) > 8:
            for text in axes.get_xticklabels():
                text.set(rotation=30, horizontalalignment="right")
    axes.set_ylim(bottom=0)
    return legend(axes, columns=2, ylabel=measure_in_words(measure), xlabel=first)


def _error(part: xr.Dataset, measure: str) -> np.ndarray | None:
    if measure != "expected_match_risk" or bool(part["mcse"].isnull().all()):
        return None
    return 2 * part["mcse"].fillna(0).to_numpy()
