"""Sections of the report: one for each result, its tables and its pictures, in their order."""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from markupsafe import Markup

from bayes_risk._core import handed
from bayes_risk._core.formats import percent
from bayes_risk._core.shown import visible
from bayes_risk.data.base_result import Result, Table
from bayes_risk.data.groups import GroupRisk
from bayes_risk.evidence.mechanism_check import MechanismCheck
from bayes_risk.matching.file_risk import FileRisk
from bayes_risk.matching.households import HouseholdMatching
from bayes_risk.matching.result import IdentificationRisk, MatchCounts
from bayes_risk.matching.uniqueness import Uniqueness
from bayes_risk.release.exposure import Exposure, exposure_of
from bayes_risk.release.links_result import Links
from bayes_risk.risk.full_table.likeliest import Likeliest
from bayes_risk.risk.full_table.risk import FullTableRisk
from bayes_risk.risk.households import HouseholdRisk
from bayes_risk.risk.membership.audit import Membership
from bayes_risk.risk.privacy_loss import PrivacyLoss
from bayes_risk.risk.result import AttributeRisk
from bayes_risk.studies.bounds import InherentBounds
from bayes_risk.studies.comparison import Comparison
from bayes_risk.studies.identification_sweep import IdentificationSweep
from bayes_risk.studies.reweighting import Reweighting
from bayes_risk.studies.sensitivity import Sensitivity, name_of
from bayes_risk.utilities.context_result import ContextMeasures
from bayes_risk.utilities.result import Utility

Kind = TypeVar("Kind")
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


JUDGED = (
    "Utility and largest risk of each candidate, the risk as a multiple of its threshold, with two "
    "standard errors. Above the dashed line a threshold is exceeded. Beside the names: numbers of "
    "values disclosed with certainty, or why else one below it is above; the verdict on utility."
)


def plotted(name: str, **how: Any) -> Callable[..., Any]:
    """A function of `plots`, which are imported when something is drawn."""
    return partial(handed.picture, name, **how)


class Picture(NamedTuple):
    """An inline figure: ``svg``, and the caption that says what there is to see."""

    name: str
    svg: Markup
    caption: str


class Drawing(NamedTuple):
    """What a figure will show: ``plot`` of a result, in inches; behind which of its tables."""

    name: str
    plot: Callable[..., Any]
    caption: str
    height: float = 2.9
    after: str = ""

    def of(self, result: Any) -> Picture:
        """Draw it as inline SVG."""
        from matplotlib import rc_context  # slow
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        from .plots.canvas import own_axes

        buffer = io.StringIO()
        with rc_context(_STYLE):
            figure = Figure(figsize=(6.8, self.height), dpi=DPI, facecolor="none")
            self.plot(result, ax=own_axes(figure))
            figure.tight_layout()
            found = figure.subplotpars  # in round shares: last bits of numbers change no byte
            sides = ("left", "right", "bottom", "top", "wspace", "hspace")
            figure.subplots_adjust(**{side: round(getattr(found, side), 3) for side in sides})
            # savefig would lay out, and draw, once more
            FigureCanvasSVG(figure).print_svg(  # type: ignore[no-untyped-call]
                buffer, metadata=_NO_METADATA
            )
        drawn = visible(buffer.getvalue(), "\n")  # labels stand in it as text
        svg = Markup(_inline(drawn, self.name, visible(self.caption, "\n")))
        return Picture(self.name, svg, self.caption)


def _inline(svg: str, name: str, caption: str) -> str:
    """Drop prologue and namespaces (HTML needs none), scale to the page, keep ids apart."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    for side in ("width", "height"):
        svg = re.sub(rf'<svg ([^>]*?)\s?{side}="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r'(?<=style=")[^"]*', _by_name, svg)
    for before in (r'\bid="', r"url\(#", 'href="#'):
        svg = re.sub(f"({before})", rf"\g<1>{name}-", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{Markup.escape(caption)}" ', 1)


def _by_name(style: re.Match[str]) -> str:
    """A style with the page's colours by name, so that the page can change them."""
    return re.sub("#[0-9a-f]{6}", lambda hex: _OF_THE_PAGE.get(hex[0], hex[0]), style[0])


Drawings = Callable[[Any], list[Drawing]]
CURVES = 4  # of a sensitivity, and of closeness to numbers
NARROW, LOW = 4, 8  # columns and rows of a table that stands beside another
SQUARES = 30  # columns of a picture of pairs
MAP = (
    "Each candidate's risk and utility over its replicates. A line joins the candidates "
    "that no other beats in both."
)


class TextTable(NamedTuple):
    """A table that is no result's: its heads and cells as text."""

    caption: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class ReportSection(NamedTuple):
    """A result on the page: what answers its question, and ``more`` for the annex.

    There ``pictures`` stand behind a table by its name, or last.
    """

    name: str
    short: str
    title: str
    sentence: str
    tables: Mapping[str, Table]
    picture: Picture | None
    more: Mapping[str, Table]
    pictures: Mapping[str, Sequence[Picture]]

    @property
    def half(self) -> bool:
        """Whether it takes half the width of a screen: one table and no picture."""
        return self.picture is None and len(self.tables) < 2

    @property
    def beside(self) -> bool:
        """Whether there is something that stands beside the first table."""
        return bool(self.picture or self.second)

    @property
    def first(self) -> dict[str, Table]:
        """The table that something stands beside."""
        return dict([*self.tables.items()][:1])

    @property
    def second(self) -> dict[str, Table]:
        """A table that is narrow enough to stand beside the first."""
        second = [*self.tables.items()][1:2]
        return {
            name: table
            for name, table in second
            if len(table.heads) <= NARROW and len(table.rows) <= LOW
        }

    @property
    def rest(self) -> dict[str, Table]:
        """Tables that take the whole width."""
        apart = {*self.first, *self.second} if self.beside else {}
        return {name: table for name, table in self.tables.items() if name not in apart}


def shown_kind(part: Any) -> "Head":
    """What is shown of a kind of result; its class in words where it is none of `HEADS`."""
    words = part.words()
    own = Head(type(part), words.lower().replace(" ", "-"), words)
    found = next((head for head in HEADS if isinstance(part, head.of)), own)
    return found if found.name else own


def head_of(part: Any) -> tuple[str, str, str]:
    """Name, words and title of a result."""
    head = shown_kind(part)
    return head.name, head.title.partition(":")[0], head.title


def parts_in_order(parts: Iterable[Any]) -> list[Any]:
    """The parts that there are, as the report shows them; last those of no known kind."""
    there = [part for part in parts if part is not None]
    known = [part for head in HEADS for part in there if isinstance(part, head.of)]
    return known + [part for part in there if not isinstance(part, tuple(h.of for h in HEADS))]


def of_kind(kind: type[Kind], parts: Iterable[Any]) -> Kind | None:
    """The first of some results that is of a kind."""
    return next((part for part in parts if isinstance(part, kind)), None)


def result_parts(result: Any) -> dict[str, Any]:
    """What a study found beside the two risks, by name; None: not asked for."""
    shown = exposure_of(result.identification, result.attribute)
    names = ("privacy_loss", "membership", "full_table", "utility", "bounds", "context")
    of_households = ("household_matching", "household_risk", "household_attribute_risk")
    return {
        "mechanism": None if result.attribute is None else result.attribute.check,
        "exposure": shown,
        "links": None if shown is None else shown.links,
        **{name: getattr(result, name) for name in (*of_households, *names, "reweighting")},
    }


def section_of(part: Result, *, axes: tuple[str, ...] = (), **drawn: Any) -> ReportSection:
    """Make the section of a result."""
    how: Any = axes  # the result's own methods take them
    tables = part.tables(*how)
    pictures: dict[str, list[Picture]] = {}
    drawings = shown_kind(part).drawings
    if isinstance(part, Comparison):
        drawings = partial(_comparison, axes=axes, **drawn)
    drawn_of = drawings(part)
    for drawing in drawn_of[1:]:
        pictures.setdefault(drawing.after, []).append(drawing.of(part))
    shown = {name: table for name, table in tables.items() if table.columns or table.title}
    main = {*shown_kind(part).main, *list(shown)[:1]} or {*shown}
    return ReportSection(
        *head_of(part),
        sentence=part.sentence(*how),
        tables={name: table for name, table in shown.items() if name in main},
        picture=drawn_of[0].of(part) if drawn_of else None,
        more={name: table for name, table in shown.items() if name not in main},
        pictures=pictures,
    )


# --- pictures by result ----------------------------------------------------------------------


def _attribute(risk: AttributeRisk) -> list[Drawing]:
    """Distribution, ranks and worst records; curves of the numbers to which it brings closest."""
    table, names = risk.records, [str(name) for name in risk.closest().index]
    above = float((table["probability"] > table["prior"]).mean())
    after = "by-column" if risk.by_column is not None or risk.not_by_column else "worst"
    errors = "" if risk.is_exact else ", with two standard errors"
    captions = (
        f"Probability that the intruder gives to the true values, all {len(table):,} records. The "
        f"dashed line is a random guess. For {percent(above)} of records the release raises the "
        "probability.",
        "Rank of the true values among the guesses, most probable first. On the dashed line "
        "the intruder does no better than random guessing.",
        f"The records at highest risk{errors}, and the probability before the release.",
    )
    drawings = [
        Drawing("distribution", plotted("plot_attribute_risk"), captions[0], after=after),
        Drawing("ranks", plotted("plot_ranks"), captions[1], after=after),
        Drawing("worst", plotted("plot_worst"), captions[2], height=3.4, after=after),
    ]
    if risk.learnt is not None:
        caption = (
            "Examples of runs that were left out, by certainty: share for which the likeliest "
            "guess was drawn, with 95 % intervals, against its probability. Below the dashed line "
            "the intruder is overconfident."
        )
        drawings.append(
            Drawing("calibration", plotted("plot_held_out"), caption, after="calibration")
        )
    more = f" Of {len(names)} numbers the {CURVES} to which the release brings closest are drawn."
    for place, name in enumerate(names[:CURVES], start=1):
        caption = (
            f"{name}: expected distance from the true value, in units of the distance "
            f"without the release. Left of the dashed line the release brings the intruder "
            "closer; to its right it misleads." + more * (place == 1 and len(names) > CURVES)
        )
        plot = plotted("plot_closeness", variable=name, relative=True)
        drawings.append(Drawing(f"closeness-{place}", plot, caption))
    return drawings


def _utility(found: Utility) -> list[Drawing]:
    from .plots import PAIRS

    drawn, columns = [], len(found.synthesized) + len(found.unsynthesized)
    if columns <= SQUARES:
        caption = (
            "pMSE over chance of every column (on the diagonal) and pair of columns (below it). "
            "Darker: worse preserved; 1: as by chance. Pairs of columns that were not "
            "synthesised are blank."
        )
        drawn.append(Drawing("pairs", plotted("plot_utility"), caption, 2.2 + 0.28 * columns))
    if len(found.pairs):
        caption = (
            "The worst preserved pairs of columns. The dashed line is a release drawn "
            "from the truth; the diamond shows how much of it is attributable to one column alone."
        )
        height = 1.3 + 0.26 * min(len(found.pairs), PAIRS)
        drawn.append(Drawing("worst-pairs", plotted("plot_worst_pairs"), caption, height))
    return drawn


def _sensitivity(found: Sensitivity) -> list[Drawing]:
    """The tornado, and the factors that move most by themselves."""
    caption = (
        "How far each factor by itself moves the mean probability of the truth from the base "
        "setting. The grey band is two standard errors of the base."
    )
    drawn = [Drawing("tornado", plotted("plot_tornado"), caption, 1.4 + 0.5 * len(found.factors))]
    sizes = found.dataset.sizes
    for factor in [str(name) for name in found.tornado().index if sizes[name] > 1][:CURVES]:
        caption = (
            f"Mean probability of the truth along {name_of(factor)}, otherwise as in the "
            f"base setting; only the difference from the value without the release is "
            f"attributable to the release."
        )
        name = "along-" + "".join(c if c.isalnum() else "-" for c in factor)
        numbers = found.dataset[factor].dtype.kind in "iuf"
        height = 2.9 if numbers else 1.3 + 0.34 * sizes[factor]
        drawn.append(Drawing(name, plotted("plot_factor", factor=factor), caption, height))
    return drawn


def _reweighting(_: Reweighting) -> list[Drawing]:
    captions = (
        "Probability of the truth in the first and in the last round, one point a record. "
        "Below the dashed line the weights have reduced it.",
        "Risk and distance of tables from the original's, by round: down is safer, left is "
        "more useful.",
    )
    of = (("rounds", plotted("plot_before_after")), ("path", plotted("plot_path")))
    return [Drawing(*one, caption) for one, caption in zip(of, captions, strict=True)]


def _comparison(found: Comparison, *, axes: tuple[str, ...], **how: Any) -> list[Drawing]:
    """Candidates against what is allowed; and the map of risk and utility."""
    if not found.has_map:
        return []
    verdicts = plotted("plot_verdicts", utility=axes[1] if axes else None)
    drawn = [Drawing("risk-utility", lambda of, ax: of.plot(*axes, ax=ax, **how), MAP, 4.2)]
    judged = found.verdicts["over_allowed"].notna().any()
    return [Drawing("verdicts", verdicts, JUDGED, 3.6)] * bool(judged) + drawn


def _one(*what: Any, when: Callable[[Any], Any] = lambda _: True) -> Drawings:
    return lambda part: [Drawing(*what)] if when(part) else []


class Head(NamedTuple):
    """Of a kind of result its name for links, glossary and papers, its title, what is drawn.

    The list of contents has the beginning of the title. ``main``: tables that answer the question
    beside the first; all others, and all pictures but the first, stand in the annex.
    """

    of: type
    name: str
    title: str
    drawings: Drawings = lambda _: []
    main: tuple[str, ...] = ()


HEADS = (  # in the order of the page
    Head(
        AttributeRisk,
        "attribute",
        "Attribute risk: what the intruder learns about confidential values",
        _attribute,
        ("variables", "claims", "groups"),
    ),
    Head(
        IdentificationRisk,
        "identification",
        "Identification risk: does the intruder find the record?",
        _one(
            "matches",
            plotted("plot_match_probabilities"),
            "Chance that the match made for a record is right, releases pooled. Dashed: the "
            "same for an intruder who uses only the unsynthesised keys.",
        ),
        ("groups",),
    ),
    Head(
        HouseholdMatching,
        "households",
        "Households: does the intruder find the household?",
    ),
    Head(HouseholdRisk, "", ""),
    Head(GroupRisk, "groups", "Risk by group: whose risk the release raises most"),
    Head(MatchCounts, "match-counts", "Match counts: how many rows match the intruder's knowledge"),
    Head(MechanismCheck, "mechanism", "Assumed model: did it make the files?"),
    Head(Exposure, "exposure", "Without a model: what the files show by themselves"),
    Head(Links, "links", "Beyond chance: do the files depend on persons?"),
    Head(
        FileRisk,
        "identification-of-files",
        "Identification risk of files: whether the intruder finds the record",
    ),
    Head(Uniqueness, "uniqueness", "Uniqueness: how rare the keys of the records are"),
    Head(Utility, "utility", "Utility: how similar are the files to the original?", _utility),
    Head(
        Comparison,
        "comparison",
        "Candidates: risk and utility side by side",
        main=("verdicts", "measures"),
    ),
    Head(
        ContextMeasures,
        "context",
        "Context: measures of other tools",
        _one(
            "context-shares",
            plotted("plot_context"),
            "Shares of records, with the release (bars), and for comparison the same in the "
            "original alone (diamonds).",
            3.4,
        ),
    ),
    Head(InherentBounds, "bounds", "Bounds: the same numbers at both ends of the scale"),
    Head(
        PrivacyLoss,
        "privacy-loss",
        "Privacy loss: largest change of odds between two guesses",
        _one(
            "losses",
            plotted("plot_privacy_loss"),
            "Share of records by largest privacy loss. The curve ends below 1 where "
            "guesses are ruled out and the loss is infinite.",
        ),
    ),
    Head(
        Membership,
        "membership",
        "Membership: can it be inferred who is in the data?",
        _one(
            "roc",
            plotted("plot_roc"),
            "Members found, against people outside the data who are classified as members. "
            "On the dashed line the release reveals nothing.",
            when=lambda found: found.has_others,
        ),
    ),
    Head(
        FullTableRisk,
        "full-table",
        "Full table: rank of the truth among all values",
        _one(
            "places",
            plotted("plot_full_table"),
            "Rank of the true values among all values, with the release against without, one point "
            "a record. Below the dashed line the release has improved it.",
        ),
    ),
    Head(
        Reweighting, "reweighting", "Reweighting: smaller weights for records at risk", _reweighting
    ),
    Head(
        Sensitivity,
        "sensitivity",
        "Sensitivity: dependence on prior, knowledge and release",
        _sensitivity,
    ),
    Head(
        IdentificationSweep,
        "identification-sweep",
        "Matching varied: dependence on radii and keys",
        _one(
            "matching-varied",
            plotted("plot_sweep"),
            "Expected number of correct matches at each setting, two standard errors, and the same "
            "for an intruder without the release.",
            3.2,
            when=plotted("membership.curves_of"),
        ),
    ),
    Head(Likeliest, "likeliest", "Most probable values among all"),
)
