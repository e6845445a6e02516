"""What people see of a result: a sentence, tables, the screen. A function each, by its class."""

from functools import singledispatch
from typing import Any

from bayes_risk.data.base_result import Table, of_summary


@singledispatch
def sentence(result: Any) -> str:
    """The result in plain words."""
    raise NotImplementedError(f"{type(result).__name__} has no sentence")


@singledispatch
def tables(result: Any) -> dict[str, Table]:
    """Its tables by name, with captions, words of rows and columns, and what may leave."""
    return {"summary": of_summary(result)}


@singledispatch
def screen(result: Any) -> Table | None:
    """The table that the screen has room for; None: `line` says it."""
    return None


@singledispatch
def line(result: Any) -> str:
    """What the screen says of it, in one line."""
    return ""


@singledispatch
def doubt_in_words(result: Any) -> str:
    """What is not reliable, in a phrase; empty: nothing."""
    return ""
