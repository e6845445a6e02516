"""Sections of the report: one for each result, its tables and its pictures, in their order."""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bayes_risk._core.formats import percent
from bayes_risk.data.base_result import Result, Table
from bayes_risk.matching.exposure_result import exposure_of
from bayes_risk.reporting.plots.canvas import own_axes
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.studies.comparison import RISKS, UTILITIES
from bayes_risk.studies.sensitivity import name_of

from . import plots

DPI = 150  # of what is drawn as an image: points by the thousand
_STYLE = {
    "svg.hashsalt": "bayes_risk",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.facecolor": "none",
    "axes.edgecolor": "#8a949c",
    "axes.labelcolor": "#1b2733",
    "xtick.color": "#46525c",
    "ytick.color": "#46525c",
    "text.color": "#1b2733",
}
# colours of the page, which are others on dark screens than on light ones and on paper
_OF_THE_PAGE = {
    "#1b2733": "var(--ink)",
    "#46525c": "var(--soft)",
    "#8a949c": "var(--axis)",
    "#666666": "var(--grey)",
    "#0072b2": "var(--blue)",
    "#e69f00": "var(--orange)",
    "#56b4e9": "var(--sky)",
    "#d55e00": "var(--red)",
}
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


class Picture(NamedTuple):
    """An inline figure: ``svg``, and the caption that says what there is to see."""

    name: str
    svg: Markup
    caption: str


def picture(
    name: str, plot: Callable[..., Axes], result: Any, caption: str, *, height: float = 2.9
) -> Picture:
    """Draw `plot(result, ax=...)` as inline SVG."""
    buffer = io.StringIO()
    with rc_context(_STYLE):
        figure = Figure(figsize=(6.8, height), dpi=DPI, facecolor="none")
        plot(result, ax=own_axes(figure))
        figure.tight_layout()
        found = figure.subplotpars  # in round shares, so that last bits of numbers change no byte
        sides = ("left", "right", "bottom", "top", "wspace", "hspace")
        figure.subplots_adjust(**{side: round(getattr(found, side), 3) for side in sides})
        # savefig would lay out, and draw, once more
        FigureCanvasSVG(figure).print_svg(  # type: ignore[no-untyped-call]
            buffer, metadata=_NO_METADATA
        )
    return Picture(
        name=name, svg=Markup(_inline(buffer.getvalue(), name, caption)), caption=caption
    )


def _inline(svg: str, name: str, caption: str) -> str:
    """Drop prologue and namespaces (HTML needs none), scale to the page, keep ids apart."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'<svg ([^>]*?)\s?width="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r'<svg ([^>]*?)\s?height="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r'(?<=style=")[^"]*', _by_name, svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    label = str(Markup.escape(caption))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def _by_name(style: re.Match[str]) -> str:
    """A style with the page's colours by name, so that the page can change them."""
    text = style[0]
    for colour, name in _OF_THE_PAGE.items():
        text = text.replace(colour, name)
    return text


CURVES = 4  # of a sensitivity, and of closeness to numbers
SQUARES = 30  # columns of a picture of pairs


# in the order of the page, by name of the class, so that no result is imported that nobody has:
# name for links, glossary and papers; title, of which the list of contents has the beginning
HEADS = {
    "AttributeRisk": (
        "attribute",
        "Attribute risk: what the intruder learns of confidential values",
    ),
    "IdentificationRisk": (
        "identification",
        "Identification risk: whether the intruder finds the record",
    ),
    "MechanismCheck": ("mechanism", "Assumed model: whether it made the files"),
    "Exposure": ("exposure", "Without a model: what the files show by themselves"),
    "FileRisk": (
        "identification-of-files",
        "Identification risk of files: whether the intruder finds the record",
    ),
    "Uniqueness": ("uniqueness", "Uniqueness: how rare the keys of the records are"),
    "Utility": ("utility", "Utility: what an analyst still finds"),
    "Comparison": ("comparison", "Candidates: risk and utility side by side"),
    "ContextMeasures": ("context", "Context: what other tools report"),
    "InherentBounds": ("bounds", "Bounds: the same numbers at both ends of the scale"),
    "PrivacyLoss": ("privacy-loss", "Privacy loss: how far odds move between any two guesses"),
    "Membership": ("membership", "Membership: whether it can be told who is in the data"),
    "FullTableRisk": ("full-table", "Full table: where the truth stands among all values"),
    "Reweighting": ("reweighting", "Reweighting: records at risk weighed down"),
    "Sensitivity": (
        "sensitivity",
        "Sensitivity: how far the risk depends on what is believed, known and released",
    ),
    "IdentificationSweep": (
        "identification-sweep",
        "Matching varied: how far it depends on radii and keys",
    ),
    "Likeliest": ("likeliest", "Likeliest values: what a search among all of them found"),
}


class TextTable(NamedTuple):
    """A table that is no result's: its heads and cells as text."""

    caption: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Section(NamedTuple):
    """A result on the page; ``pictures`` stand behind a table by its name, or last."""

    name: str
    short: str
    title: str
    sentence: str
    tables: Mapping[str, Table]
    pictures: Mapping[str, Sequence[Picture]]


def head_of(part: Any) -> tuple[str, str, str]:
    """Name, words and title of a result; those of its class where it is none of `HEADS`."""
    words = part.words()
    usual = (words.lower().replace(" ", "-"), words)
    name, title = HEADS.get(type(part).__name__, usual)
    return name, title.partition(":")[0], title


def in_order(parts: Iterable[Any]) -> list[Any]:
    """The parts that there are, as the report shows them."""
    order = list(HEADS)
    there = [part for part in parts if part is not None]
    return sorted(there, key=lambda p: [*order, type(p).__name__].index(type(p).__name__))


def parts_of(result: Any) -> dict[str, Any]:
    """What a study found beside the two risks, by name; None: not asked for."""
    names = ("privacy_loss", "membership", "full_table", "utility", "bounds", "context")
    return {
        "mechanism": None if result.attribute is None else result.attribute.check,
        "exposure": exposure_of(result.identification, result.attribute),
        **{name: getattr(result, name) for name in (*names, "reweighting")},
    }


def section_of(
    part: Result, *, sentence: str = "", axes: tuple[str, ...] = (), **drawn: Any
) -> Section:
    """Make the section of a result."""
    how: Any = axes  # the result's own methods take them
    shown = {
        name: table for name, table in part.tables(*how).items() if table.columns or table.title
    }
    pictures: Callable[..., Any] = PICTURES.get(type(part).__name__, lambda _: [])
    if axes or drawn:
        pictures = partial(pictures, axes=axes, **drawn)
    found = pictures(part)
    return Section(
        *head_of(part),
        sentence=sentence or part.sentence(*how),
        tables=shown,
        pictures=found if isinstance(found, dict) else {"": found},
    )


# --- pictures by result ----------------------------------------------------------------------


def _attribute(risk: AttributeRisk) -> dict[str, list[Picture]]:
    """Distribution, ranks and worst records; curves of the numbers to which it brings closest."""
    table = risk.records
    above = float((table["probability"] > table["prior"]).mean())
    captions = (
        f"Probability that the intruder gives to the true values, all {len(table):,} records. "
        f"The dashed line is a random guess. For {percent(above)} of records the release raises "
        "the probability.",
        "Rank of the true values among the guesses, likeliest first. Level with the dashed line, "
        "the intruder does no better than guessing at random.",
        f"The records at highest risk{'' if risk.is_exact else ', with two standard errors'}, and "
        "what was believed beforehand.",
    )
    names = [str(name) for name in risk.closest().index]
    of_how_many = (
        f" Of {len(names)} numbers the {CURVES} to which the release brings closest are drawn."
    )
    of_how_many *= len(names) > CURVES
    curves = [
        picture(
            f"closeness-{place}",
            partial(plots.plot_closeness, variable=name, relative=True),
            risk,
            f"{name}: expected distance from the true value, in units of what it would be without "
            "the release. Left of the dashed line the release brings the intruder closer; to its "
            "right it misleads." + of_how_many * (place == 1),
        )
        for place, name in enumerate(names[:CURVES], start=1)
    ]
    told = risk.by_column is not None or risk.not_by_column
    return {
        "by-column" if told else "worst": [
            picture("distribution", plots.plot_attribute_risk, risk, captions[0]),
            picture("ranks", plots.plot_ranks, risk, captions[1]),
            picture("worst", plots.plot_worst, risk, captions[2], height=3.4),
        ],
        "": curves,
    }


def _utility(found: Any) -> list[Picture]:
    drawn, columns = [], len(found.synthesized) + len(found.unsynthesized)
    if columns <= SQUARES:
        caption = (
            "pMSE over chance of every column (on the diagonal) and pair of columns (below it). "
            "The darker, the worse kept; 1: as by chance. Pairs of columns that were not "
            "synthesised are blank."
        )
        height = 2.2 + 0.28 * columns
        drawn.append(picture("pairs", plots.plot_utility, found, caption, height=height))
    if len(found.pairs):
        caption = (
            "The pairs of columns that are worst kept together. The dashed line is a release drawn "
            "from the truth; the diamond shows how much of it is attributable to one column alone."
        )
        height = 1.3 + 0.26 * min(len(found.pairs), plots.PAIRS)
        drawn.append(picture("worst-pairs", plots.plot_worst_pairs, found, caption, height=height))
    return drawn


def _reweighting(loop: Any) -> list[Picture]:
    captions = (
        "Probability of the truth in the first and in the last round, one point a record. Below "
        "the dashed line the weights have lowered it.",
        "What each round, by its number, made of risk and of the distance of tables from the "
        "original's: down is safer, left is more useful.",
    )
    return [
        picture("rounds", plots.plot_before_after, loop, captions[0]),
        picture("path", plots.plot_path, loop, captions[1]),
    ]


def _sensitivity(found: Any) -> list[Picture]:
    """The tornado, and the factors that move most by themselves."""
    caption = (
        "How far each factor by itself moves the mean probability of the truth from the base "
        "setting. The grey band is two standard errors of the base."
    )
    height = 1.4 + 0.5 * len(found.factors)
    moved = [str(name) for name in found.tornado().index if found.dataset.sizes[name] > 1]
    return [
        picture("tornado", plots.plot_tornado, found, caption, height=height),
        *(_along(found, name) for name in moved[:CURVES]),
    ]


def _along(found: Any, factor: str) -> Picture:
    caption = (
        f"Mean probability of the truth along {name_of(factor)}, all else as in the base setting; "
        "the difference from what holds without the release is attributable to the release."
    )
    name = "along-" + "".join(c if c.isalnum() else "-" for c in factor)
    numbers = found.dataset[factor].dtype.kind in "iuf"
    height = 2.9 if numbers else 1.3 + 0.34 * found.dataset.sizes[factor]
    return picture(name, partial(plots.plot_factor, factor=factor), found, caption, height=height)


def _matching_varied(found: Any) -> list[Picture]:
    """A picture, where one or two settings were swept."""
    caption = (
        "Expected number of correct matches at each setting, two standard errors, and the same "
        "for an intruder without the release."
    )
    sizes = sorted(found.dataset.sizes[name] for name in found.swept)
    if len(sizes) > 2 or (len(sizes) == 2 and sizes[0] > len(plots.STYLES)):
        return []
    return [picture("matching-varied", plots.plot_sweep, found, caption, height=3.2)]


def _comparison(found: Any, axes: tuple[str, ...] = (), **drawn: Any) -> list[Picture]:
    """The map, where risk and utility were both measured."""
    if not (set(found.measures) & set(RISKS) and set(found.measures) & set(UTILITIES)):
        return []
    caption = (
        "Each candidate's risk and utility over its replicates. A line, if there is one, joins "
        "those that no other beats in both."
    )

    def draw(part: Any, ax: Any) -> Any:
        return part.plot(*axes, ax=ax, **drawn)

    return [picture("risk-utility", draw, found, caption, height=4.2)]


def _one(name: str, plot: Any, caption: str, **how: Any) -> Callable[..., list[Picture]]:
    return lambda found: [picture(name, plot, found, caption, **how)]


_roc = _one(
    "roc",
    plots.plot_roc,
    "Members found, against people outside the data who are taken for members on the way. On the "
    "dashed line the release tells nothing.",
)
PICTURES: dict[str, Callable[..., Any]] = {
    "AttributeRisk": _attribute,
    "IdentificationRisk": _one(
        "matches",
        plots.plot_match_probabilities,
        "Chance that the match made for a record is right, releases pooled. Dashed: the same for "
        "an intruder who uses the unsynthesised keys alone.",
    ),
    "Utility": _utility,
    "Comparison": _comparison,
    "ContextMeasures": _one(
        "context-shares",
        plots.plot_context,
        "Shares of records, with the release (bars), and what they are to be read against: the "
        "same in the original alone (diamonds).",
        height=3.4,
    ),
    "PrivacyLoss": _one(
        "losses",
        plots.plot_privacy_loss,
        "Share of records whose privacy loss is at most so much. The curve ends below 1 where "
        "guesses are ruled out and the loss is infinite.",
    ),
    "Membership": lambda found: _roc(found) if found.has_others else [],
    "FullTableRisk": _one(
        "places",
        plots.plot_full_table,
        "Rank of the true values among all values, with the release against without, one point a "
        "record. Below the dashed line the release has brought it nearer to the front.",
    ),
    "Reweighting": _reweighting,
    "Sensitivity": _sensitivity,
    "IdentificationSweep": _matching_varied,
}
