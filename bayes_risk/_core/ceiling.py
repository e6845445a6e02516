"""The ceiling of memory: how many targets are worked on at once beneath it.

Results do not depend on it. A block of targets is worked on by one worker; what one (target, draw)
pair and one (target, guess, batch) triple take there is counted in `memory.block`.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .errors import InputError

UNITS = {"B": 1} | {
    f"{letter}{word}": (1024 if word == "iB" else 1000) ** power
    for power, letter in enumerate("KMGT", start=1)
    for word in ("iB", "B")
}
PAIR, TRIPLE = 80, 40  # bytes: ten numbers by target and draw, five by target, guess and batch
_block: ContextVar[int | None] = ContextVar("block", default=None)


def bytes_of(given: str | int) -> int:
    """Memory in bytes, of text such as ``2GiB``, ``500MB`` or a number of bytes.

    Raises
    ------
    InputError
        Anything else, or nothing.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B|B)?\s*", str(given), re.IGNORECASE)
    units = {name.lower(): size for name, size in UNITS.items()}
    size = float(found[1]) * units[(found[2] or "B").lower()] if found else 0
    if not 1 <= size < 2**63:
        raise InputError(f"max_memory={given!r} is no amount of memory; give one such as 2GiB")
    return int(size)


def in_words(size: float) -> str:
    """Bytes in MiB or GiB, two or three digits."""
    if size >= 2**30:
        return f"{size / 2**30:.1f} GiB"
    return f"{max(size / 2**20, 0.0):.0f} MiB"


@contextmanager
def beneath(block: int | None) -> Iterator[None]:
    """Let the work space of one block take at most so many bytes; None: as it comes."""
    before = _block.set(block)
    try:
        yield
    finally:
        _block.reset(before)


def block_bytes(targets: int, draws: int, guesses: int, batches: int) -> int:
    """Work space of a block of targets."""
    return targets * (PAIR * draws + TRIPLE * guesses * batches)


def most_targets(draws: int, guesses: int, batches: int) -> int:
    """Most targets of a block beneath the ceiling."""
    room = _block.get()
    each = block_bytes(1, draws, guesses, batches)
    return 2**62 if room is None else room // each
