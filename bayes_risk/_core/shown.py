"""What screens and notebooks show of a thing: its text, and tables."""

from collections.abc import Iterable, Sequence
from functools import wraps
from html import escape as as_entities
from typing import Any
from unicodedata import category

MOST_ROWS = 60  # of a table
LEFT = ' style="text-align: left"'
UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # they move, hide or reorder what stands beside them


def visible(text: str, keep: str = "") -> str:
    r"""Characters of control, direction, no width and line ends escaped as TOML has them.

    >>> print(visible("a\x1b[2J\u202eb"))
    a\u001b[2J\u202eb
    """
    if text.isprintable():
        return text
    codes = {c: ord(c) for c in {*text} if c not in keep and category(c) in UNSEEN}
    escaped = {k: f"\\u{k:04x}" if k < 0x10000 else f"\\U{k:08x}" for k in codes.values()}
    return text.translate(escaped)


def escape(text: str) -> str:
    """Text in HTML, which keeps its line ends."""
    return as_entities(visible(text, "\n"))


class Shown:
    """Its text is `visible`; notebooks show it, its first line as a heading."""

    __slots__ = ()

    def __init_subclass__(cls, **how: Any) -> None:
        super().__init_subclass__(**how)
        if (text := cls.__dict__.get("__repr__")) is not None:
            cls.__repr__ = wraps(text)(lambda self: visible(text(self), "\n"))  # type: ignore[method-assign]

    def _repr_html_(self) -> str:
        head, _, rest = repr(self).partition("\n")
        return as_html(head, rest)


def as_html(
    head: str, text: str = "", heads: Sequence[str] = (), rows: Iterable[Sequence[str]] = ()
) -> str:
    """A heading, text as it stands, and a table."""
    found = [f"<div><strong>{escape(head)}</strong></div>"]
    if text.strip():
        found.append(f'<pre style="white-space: pre-wrap">{escape(text)}</pre>')
    lines = [_row("td", row) for row in rows]
    if len(lines) > MOST_ROWS:
        lines = [*lines[:MOST_ROWS], _row("td", [f"... and {len(lines) - MOST_ROWS:,} rows"])]
    if lines:
        found.append(f"<table>{_row('th', heads)}{''.join(lines)}</table>")
    return "\n".join(found)


def _row(kind: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}{LEFT}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"
