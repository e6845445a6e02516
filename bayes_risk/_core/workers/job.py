"""One job: done with one thread of linear algebra, timed, its warnings brought home."""

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple

from threadpoolctl import ThreadpoolController


class Warned(NamedTuple):
    """A warning of another process."""

    text: str
    category: type[Warning]
    filename: str
    line: int


class Done(NamedTuple):
    """What came of a job: its number, its value, how long it took, and what it warned of."""

    k: int
    value: Any
    seconds: float
    warned: list[Warned]


class Died(Exception):  # noqa: N818  # told apart from what a job raises, and never shown
    """A worker ended before its job did."""


_here = threading.local()


def at_work() -> bool:
    """Whether this thread is doing a job: a worker has no workers of its own."""
    return getattr(_here, "working", False)


def done(k: int, job: Callable[[], Any], home: int) -> Done:
    """Do a job that came from process ``home``."""
    if os.getpid() == home:
        return _timed(k, job)
    with one_thread(), _warnings.kept() as warned:
        return _timed(k, job)._replace(warned=warned)


def _timed(k: int, job: Callable[[], Any]) -> Done:
    begun, before = perf_counter(), at_work()
    _here.working = True
    try:
        value = job()
    finally:
        _here.working = before
    return Done(k, value, perf_counter() - begun, [])


def again(warned: list[Warned]) -> None:
    """Warn here of what was warned of elsewhere."""
    for one in warned:
        warnings.warn_explicit(one.text, one.category, one.filename, one.line)


class _OneThread:
    """Linear algebra on one thread while anybody wants it: its sums are then the same anywhere."""

    def __init__(self) -> None:
        self._lock, self._wanted, self._modules = threading.Lock(), 0, 0
        self._controller: Any = None
        self._limit: Any = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                self._limit = self._libraries().limit(limits=1, user_api="blas")
        try:
            yield
        finally:
            with self._lock:
                self._wanted -= 1
                if self._wanted == 0:
                    self._limit.restore_original_limits()

    def _libraries(self) -> Any:
        """Looked for again when more has been imported."""
        if self._controller is None or self._modules != len(sys.modules):
            self._controller, self._modules = ThreadpoolController(), len(sys.modules)
        return self._controller


class _Warnings:
    """Warnings of a worker process, kept apart by thread: it may do several jobs at once."""

    def __init__(self) -> None:
        self._lock, self._wanted, self._local = threading.Lock(), 0, threading.local()
        self._before: Any = None

    @contextmanager
    def kept(self) -> Iterator[list[Warned]]:
        found: list[Warned] = []
        self._local.found = found
        self._begin()
        try:
            yield found
        finally:
            self._end()
            self._local.found = None

    def _begin(self) -> None:
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                warnings.simplefilter("always")
                warnings.showwarning = self._keep  # type: ignore[assignment]

    def _end(self) -> None:
        with self._lock:
            self._wanted -= 1
            if self._wanted == 0:
                self._before.__exit__(None, None, None)

    def _keep(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any
    ) -> None:
        found = getattr(self._local, "found", None)
        if found is not None:
            found.append(Warned(str(message), category, filename, lineno))


one_thread, _warnings = _OneThread(), _Warnings()
