"""A watch on the memory of a run beneath a ceiling: it ends the run before the system does.

A thread looks at the memory twice a second. The run itself asks between its steps (`check_memory`)
and stops there, so that finished steps are kept.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from .ceiling import in_words
from .errors import MemoryCeilingError

SECONDS = 0.5
PROC = Path("/proc")


class Watch:
    """What a run takes, looked at by a thread of its own.

    Parameters
    ----------
    ceiling : int
        Bytes.
    taken : callable
        Bytes that the run takes now; 0 where the system does not tell.

    Attributes
    ----------
    most : int
        The most that was seen.
    stage : str
        What the run is at.
    """

    def __init__(self, ceiling: int, taken: Callable[[], int]) -> None:
        self.ceiling, self.taken = ceiling, taken
        self.most, self.stage = 0, ""
        self._above: tuple[int, str] | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._done.set()
        self._thread.join()

    def check(self) -> None:
        """Stop the run if it has passed the ceiling.

        Raises
        ------
        MemoryCeilingError
            With the memory taken, the ceiling, the stage, and the cure.
        """
        if self._above is None:
            return
        taken, stage = self._above
        where = f" in stage {stage!r}" if stage else ""
        raise MemoryCeilingError(
            f"the run took {in_words(taken)}{where}, and max_memory is {in_words(self.ceiling)}; "
            "raise max_memory, audit fewer targets, or weigh fewer guesses"
        )

    def _watch(self) -> None:
        while not self._done.wait(SECONDS):
            self.look()

    def look(self) -> None:
        """Look once; what the allocator merely keeps is given back before it counts."""
        taken = self.taken()
        if taken > self.ceiling:
            give_back()
            taken = self.taken()
        self.most = max(self.most, taken)
        if taken > self.ceiling and self._above is None:
            self._above = (taken, self.stage)


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(ceiling: int | None, taken: Callable[[], int] | None = None) -> Iterator[Watch | None]:
    """Watch the memory of what is done in the block; None: no ceiling, nothing to watch."""
    if ceiling is None:
        yield None
        return
    watch = Watch(ceiling, resident if taken is None else taken)
    held = _watch.set(watch)
    watch.start()
    try:
        yield watch
    finally:
        _watch.reset(held)
        watch.stop()


def check_memory() -> None:
    """Stop here if the run has passed its ceiling; called between steps."""
    watch = _watch.get()
    if watch is not None:
        watch.check()


@contextmanager
def at_stage(name: str) -> Iterator[None]:
    """Tell the watch what the run is at."""
    watch = _watch.get()
    if watch is None:
        yield
        return
    watch.check()
    before, watch.stage = watch.stage, name
    yield
    watch.check()
    watch.stage = before


def resident() -> int:
    """Bytes of this process, and what those that it started have to themselves.

    0 where the system does not tell.
    """
    return _own(os.getpid()) + sum(map(_private, _begun_by(os.getpid())))


def _begun_by(process: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    children: list[int] = []
    with suppress(OSError):
        for thread in (PROC / str(process) / "task").iterdir():
            with suppress(OSError):
                children += map(int, (thread / "children").read_text().split())
    return children + [below for child in children for below in _begun_by(child)]


def _own(process: int) -> int:
    try:
        pages = (PROC / str(process) / "statm").read_text().split()[1]
    except OSError:  # no such system, or a process that has ended
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _private(process: int) -> int:
    """Bytes that a process shares with none."""
    try:
        lines = (PROC / str(process) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return _own(process)
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_"))


def give_back() -> None:
    """Give memory that is free, but kept for later, back to the system, where that can be done."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
