"""Plots as inline SVG: no date, no address, the same bytes each time, ids unique in the page."""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_STYLE = {
    "svg.hashsalt": "bayes_risk",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": "#8a949c",
    "axes.labelcolor": "#1b2733",
    "xtick.color": "#46525c",
    "ytick.color": "#46525c",
    "text.color": "#1b2733",
    "savefig.dpi": 150,
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
        figure = Figure(figsize=(6.8, height), layout="constrained")
        plot(result, ax=figure.add_subplot())
        figure.savefig(buffer, format="svg", metadata=_NO_METADATA, transparent=True)
    return Picture(
        name=name, svg=Markup(_inline(buffer.getvalue(), name, caption)), caption=caption
    )


def _inline(svg: str, name: str, caption: str) -> str:
    """Drop prologue and namespaces (HTML needs none), scale to the page, keep ids apart."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'<svg ([^>]*?)\s?width="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r'<svg ([^>]*?)\s?height="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    label = str(Markup.escape(caption))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
