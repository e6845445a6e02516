"""A watch over a stage: where no job is finished for long, somebody is told."""

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import NamedTuple

PATIENCE = 600.0  # seconds without a finished job, at least
TIMES = 20  # times the slowest job of the stage so far


class Waiting(NamedTuple):
    """A stage of which no job has been finished for some seconds."""

    stage: str
    unfinished: int
    total: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.stage}: no job has been finished for {self.seconds:.0f} s, {self.unfinished} "
            f"of {self.total} are unfinished; still waiting"
        )


Tell = Callable[[Waiting], None]
_told: ContextVar[tuple[Tell, ...]] = ContextVar("told", default=())


@contextmanager
def telling(tell: Tell) -> Iterator[None]:
    """Within the block, call ``tell`` too when a stage is stuck; without any, it is a warning.

    It is called in a thread of its own, again whenever as much time has passed.
    """
    before = _told.set((*_told.get(), tell))
    try:
        yield
    finally:
        _told.reset(before)


def warn(waiting: Waiting) -> None:
    """Warn of a stage that is stuck."""
    warnings.warn(str(waiting), stacklevel=2)


class Watch:
    """Watches one stage while it is entered."""

    def __init__(self, stage: str, total: int) -> None:
        self._stage, self._total, self._unfinished = stage, total, total
        self._slowest, self._since = 0.0, monotonic()
        self._over = threading.Event()
        self._told = _told.get() or (warn,)
        self._thread = threading.Thread(target=self._watch, name="watch over jobs", daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def finished(self, seconds: float) -> None:
        """Note that a job is done, and how long it took."""
        self._unfinished -= 1
        self._slowest, self._since = max(self._slowest, seconds), monotonic()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Time that somebody else takes is not waited for."""
        self._since = float("inf")
        try:
            yield
        finally:
            self._since = monotonic()

    def _watch(self) -> None:
        told = 0.0
        while not self._over.wait(self._left(told)):
            since = self._since
            waited = monotonic() - since
            if waited < self._limit():
                told = 0.0
            elif self._left(max(told, since)) <= 0:
                told = monotonic()
                self._tell(Waiting(self._stage, self._unfinished, self._total, waited))

    def _limit(self) -> float:
        return max(PATIENCE, TIMES * self._slowest)

    def _left(self, told: float) -> float:
        """Seconds until somebody is to be told, since it was last told or a job was finished."""
        limit = self._limit()
        since = max(self._since, told)
        return limit if since == float("inf") else max(since + limit - monotonic(), 0.0)

    def _tell(self, waiting: Waiting) -> None:
        for tell in self._told:
            try:
                tell(waiting)
            except BaseException:  # such as Ctrl-C, of which the thread that waits hears by itself
                return
