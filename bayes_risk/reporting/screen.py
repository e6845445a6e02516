"""The screen: what is printed is plain text, in which no name moves, colours or hides anything."""

from typing import Any

from rich.console import Console
from rich.text import Text

from bayes_risk._core.shown import visible


class Screen(Console):
    """A console that reads no markup, and shows every text on one line, escaped (`visible`)."""

    def render_str(self, text: str, *, style: Any = "", **how: Any) -> Text:
        """Text as it is printed, alone or as a cell of a table."""
        given = {name: how.get(name) for name in ("justify", "overflow")}
        return Text(visible(text), style=style, **given)
