"""What a section of the report is made of: sentences, tables of text, figures."""

from collections.abc import Sequence
from dataclasses import dataclass

from .figures import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of text: caption, column heads, rows; the first cell of a row is its head."""

    caption: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A result beside the two risks.

    Attributes
    ----------
    name : str
        For links within the page, and for the glossary.
    short, title : str
        In the list of contents, and above the section.
    sentence : str
        The result in plain words.
    tables, figures : sequences
    note : str
        How to read them; empty: nothing to add.
    """

    name: str
    short: str
    title: str
    sentence: str
    tables: Sequence[Table]
    figures: Sequence[Picture] = ()
    note: str = ""
