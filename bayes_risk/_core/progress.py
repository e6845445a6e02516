"""Progress of calls from Python: a bar where somebody watches, nothing anywhere else."""

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from threading import Lock, current_thread, main_thread
from typing import Any, TypeAlias, TypeVar

from . import handed
from .memory import check_memory

Function = TypeVar("Function", bound=Callable[..., Any])

Progress = Callable[[str, int, int], None]
WHOLE = "in all"
STOPS = [getattr(signal, s) for s in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, s)]

# callable (stage, done, total); False: no bar; None: as watched; True: a bar
ProgressOption: TypeAlias = Any


def no_progress(stage: str, done: int, total: int) -> None:
    """Show nothing."""


_lock = Lock()
_running: list[str] = []  # calls that are on: only the outermost has a bar


def no_bars() -> None:
    """Show none in this process, unless one is asked for: the command line has its own."""
    _running.append("process")


def in_notebook() -> bool:
    """Whether a notebook runs this process."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def watched() -> bool:
    """Whether somebody sees what this process shows: a terminal or a notebook, and no worker."""
    processes = sys.modules.get("multiprocessing")  # a worker has it
    if getattr(processes, "parent_process", lambda: None)() is not None:
        return False
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


@contextmanager
def reports_compilation(tell: Progress) -> Iterator[None]:
    """Within the block, tell when loops of ours are compiled, which takes seconds and once only."""
    from numba.core import event

    class CompilationListener(event.Listener):  # type: ignore[misc]  # numba has no types
        depth = 0  # a loop compiles those that it calls; numba lets in one thread at a time
        waiting = ExitStack()

        def on_start(self, event: Any) -> None:
            self.depth += event.is_start - event.is_end
            if self.depth != event.is_start:
                return
            if event.data["dispatcher"].py_func.__module__.startswith("bayes_risk."):
                tell("compiling (once)", int(event.is_end), 1)
            if event.is_start:
                self.waiting.enter_context(signals_wait())
            else:
                self.waiting.close()

        on_end = on_start

    with event.install_listener("numba:compile", CompilationListener()):
        yield


@contextmanager
def signals_wait() -> Iterator[None]:
    """Handle signals that have a handler of Python's after the block, in the main thread."""
    came: list[tuple[int, Any]] = []
    handlers = {}
    if current_thread() is main_thread():
        handlers = {s: handler for s in STOPS if callable(handler := signal.getsignal(s))}
    for number in handlers:
        signal.signal(number, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in came:
            handlers[number](number, frame)


def shows_progress(function: Function) -> Function:
    """Show a bar while a function runs, unless it was given ``progress``: a callable, or False."""

    @wraps(function)
    def call(*args: Any, progress: Any = None, **how: Any) -> Any:
        with _lock:
            outermost = not _running
            show = progress is True or (progress is None and outermost and watched())
            _running.append(function.__qualname__)
        try:
            with ExitStack() as until:
                if show:
                    progress = until.enter_context(handed.bars())
                if show or outermost:
                    until.enter_context(reports_compilation(progress if show else lambda *_: None))
                if not (progress is None or isinstance(progress, bool)):
                    how["progress"] = progress
                return function(*args, **how)
        finally:
            with _lock:
                _running.remove(function.__qualname__)

    return call  # type: ignore[return-value]


def in_part(progress: Any, name: str, done: int = 0, total: int = 1) -> Progress:
    """Progress of something by its steps, known as they come: each is a third of what is left."""
    most, left = 0.0, dict[str, float]()

    def tell(step: str, n: int, of: int) -> None:
        nonlocal most
        rest = left.setdefault(step, (2 / 3) ** len(left))
        most = max(most, 1 - rest * (1 - n / max(of, 1) / 3))
        progress(name, done + most, total)

    return tell


class Overall:
    """Progress of a run as a whole too, beside that of its stages, which weigh by their shares.

    A stage is as far as it says itself, or as its steps are (`in_part`); a comparison, as its
    candidates are. What is shown never goes back.
    """

    def __init__(self, stages: Mapping[str, float], progress: Progress) -> None:
        self.progress, self.shares, self._lock = progress, dict(stages), Lock()
        self._now, self._far = "", 0.0
        self._tell = in_part(self._go_on, "")
        self._parts = dict[str, tuple[int, int]]()

    def __call__(self, step: str, done: int, total: int) -> None:
        """Tell of a stage or a step, and of the whole."""
        check_memory()
        self.progress(step, done, total)
        with self._lock:
            if step in self.shares:
                if step != self._now:
                    self._now, self._parts = step, {}
                    self._tell = in_part(self._go_on, step)
                self._go_on(step, done, total)
            elif self._now == "comparison":  # candidates have any name
                self._parts[step] = done, total
                done, of = map(sum, zip(*self._parts.values(), strict=True))
                if done < of:
                    self.progress(self._now, done, of)
                self._go_on(self._now, done, of)
            elif self._now:
                self._tell(step, done, total)

    def _go_on(self, stage: str, done: float, total: float) -> None:
        """Tell of the whole, of which the stages before are over."""
        stages = list(self.shares)
        before = sum(self.shares[name] for name in stages[: stages.index(stage)])
        far = (before + self.shares[stage] * done / max(total, 1)) / sum(self.shares.values())
        self._far = max(self._far, far)
        self.progress(WHOLE, int(1_000 * self._far), 1_000)
