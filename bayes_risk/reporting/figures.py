"""Plots as inline SVG: no date, no address, the same bytes each time, ids unique in the page."""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bayes_risk.reporting.plots.canvas import own_axes

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
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
        _lay_out(figure)
        # savefig would lay out, and draw, once more
        FigureCanvasSVG(figure).print_svg(  # type: ignore[no-untyped-call]
            buffer, metadata=_NO_METADATA
        )
    return Picture(
        name=name, svg=Markup(_inline(buffer.getvalue(), name, caption)), caption=caption
    )


def _lay_out(figure: Figure) -> None:
    """Make room for labels; in round shares, so that the last bits of numbers change no byte."""
    figure.tight_layout()
    found = figure.subplotpars
    sides = ("left", "right", "bottom", "top", "wspace", "hspace")
    figure.subplots_adjust(**{side: round(getattr(found, side), 3) for side in sides})


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
