"""Progress of calls from Python: a bar where somebody watches, nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from threading import Lock
from typing import Any, TypeAlias, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

Asked: TypeAlias = (
    Any  # callable (stage, done, total); False: no bar; None: as watched; True: a bar
)

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
def compiling_told(tell: Callable[[str, int, int], None]) -> Iterator[None]:
    """Within the block, tell when loops of ours are compiled, which takes seconds and once only."""
    from numba.core import event

    class Told(event.Listener):  # type: ignore[misc]  # numba has no types
        depth = 0  # a loop compiles those that it calls; numba lets in one thread at a time

        def on_start(self, event: Any) -> None:
            self.depth += event.is_start - event.is_end
            ours = event.data["dispatcher"].py_func.__module__.startswith("bayes_risk.")
            if ours and self.depth == event.is_start:
                tell("compiling (once)", int(event.is_end), 1)

        on_end = on_start

    with event.install_listener("numba:compile", Told()):
        yield


def shows_progress(function: Function) -> Function:
    """Show a bar while a function runs, unless it was given ``progress``: a callable, or False."""

    @wraps(function)
    def call(*args: Any, progress: Any = None, **how: Any) -> Any:
        with _lock:
            show = progress is True or (progress is None and not _running and watched())
            _running.append(function.__qualname__)
        try:
            if show:
                bars = import_module("bayes_risk.reporting.terminal").bars()
                with bars as progress, compiling_told(progress):
                    return function(*args, progress=progress, **how)
            if not (progress is None or isinstance(progress, bool)):
                how["progress"] = progress
            return function(*args, **how)
        finally:
            with _lock:
                _running.remove(function.__qualname__)

    return call  # type: ignore[return-value]
