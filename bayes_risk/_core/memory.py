"""Amounts of memory, what a process takes, and a guard that stops a run above its ceiling.

The run asks between its steps (`check_memory`) and stops there, so that finished steps are kept.
"""

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import psutil

from .errors import InputError, MemoryCeilingError

SECONDS = 0.5  # between two looks


def bytes_of(given: str | int) -> int:
    """Memory in bytes, of text such as ``2GiB``, ``500MB`` or a number of bytes."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B|B)?\s*", str(given), re.IGNORECASE)
    size = 0.0
    if found:
        unit = (found[2] or "b").lower()
        size = float(found[1]) * (1024 if "i" in unit else 1000) ** "bkmgt".index(unit[0])
    if not 1 <= size < 2**63:
        raise InputError("max_memory", given, "is not an amount of memory; give one such as 2GiB")
    return int(size)


def bytes_in_words(size: float) -> str:
    """Bytes in MiB or GiB, two or three digits."""
    if size >= 2**30:
        return f"{size / 2**30:.1f} GiB"
    return f"{max(size / 2**20, 0.0):.0f} MiB"


def resident() -> int:
    """Bytes of this process, and what those that it started have to themselves."""
    own = psutil.Process()
    size: int = own.memory_info().rss
    for child in own.children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            size += child.memory_full_info().uss
    return size


@dataclass(slots=True)
class Guard:
    """What a run may take, what it is at, and when it is looked at next."""

    ceiling: int
    stage: str = ""
    then: float = 0.0


@contextmanager
def set_to(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    """A context variable has a value in the block."""
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


_guard: ContextVar[Guard | None] = ContextVar("guard", default=None)


def guarded(ceiling: int | None) -> AbstractContextManager[None]:
    """Guard the memory of what is done in the block; None: no ceiling."""
    return set_to(_guard, None if ceiling is None else Guard(ceiling))


def check_memory() -> None:
    """Stop here if the run has passed its ceiling; called between steps."""
    guard = _guard.get()
    if guard is None or time.monotonic() < guard.then:
        return
    taken, guard.then = resident(), time.monotonic() + SECONDS
    if taken > guard.ceiling:
        where = f" in stage {guard.stage!r}" if guard.stage else ""
        raise MemoryCeilingError(
            f"the run took {bytes_in_words(taken)}{where}, and max_memory is "
            f"{bytes_in_words(guard.ceiling)}; raise max_memory, give fewer workers, audit fewer "
            "targets, or use fewer guesses"
        )


@contextmanager
def at_stage(name: str) -> Iterator[None]:
    """Tell the guard what the run is at."""
    check_memory()
    guard = _guard.get() or Guard(0)
    before, guard.stage = guard.stage, name
    yield
    check_memory()
    guard.stage = before
