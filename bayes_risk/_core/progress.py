"""Progress of calls from Python: a bar where somebody watches, nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from threading import Lock
from typing import Any, TypeAlias, TypeVar

from .memory import check_memory

Function = TypeVar("Function", bound=Callable[..., Any])

Progress = Callable[[str, int, int], None]
Steps = Mapping[str, tuple[float, float]]  # by name: cost of one unit of progress, and how many
WHOLE, TINY = "in all", 1e-300
SLOW = 0.1  # of its pace, at which progress goes on that has been ahead
LEADS = {"attribute risk": "evidence", "sweep": "settings"}  # steps that say how far a stage is

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
def compiling_told(tell: Progress) -> Iterator[None]:
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


class Overall:
    """Progress of a run as a whole too, beside that of its stages, which weigh by their shares.

    Or by the costs of their steps, where these are expected (`expect`) beside that of the fit. What
    is shown is what has been spent, of that and all that is left. Where more is expected than was
    before, it goes on from where it was, slower, until the run has caught up.
    """

    def __init__(self, stages: Mapping[str, float], progress: Progress) -> None:
        self.progress, self._lock = progress, Lock()
        self._left = dict(stages)  # of stages that have not begun
        self._expected = dict[str, Steps]()  # of them too
        self._now, self._steps = "", dict[str, tuple[float, float]]()  # of that which has, left
        self._told = dict[str, tuple[float, float]]()
        self._parts = dict[str, tuple[float, float]]()
        self._spent = self._most = 0.0
        self._scale = stages.get("fit", 0.0)  # share of a unit of cost

    def expect(self, steps: Steps, stage: str = "") -> None:
        """Beforehand, what a stage will take, and others; later what is left of some steps."""
        if stage:
            cost, units = steps["fit"]
            self._scale /= cost * units
        with self._lock:
            named = {k: (self._scale * c, n) for k, (c, n) in steps.items() if k != "fit"}
            if stage:  # of which others may be steps too
                self._left |= {k: _sum({k: named.pop(k)}) for k in [*named] if k in self._left}
                self._expected[stage], self._left[stage] = named, _sum(named)
            elif self._now in self._expected:
                self._steps |= named
                self._told = {k: told for k, told in self._told.items() if k not in named}

    def __call__(self, step: str, done: int, total: int) -> None:
        """Tell of a stage or a step, and of the whole."""
        check_memory()
        self.progress(step, done, total)
        with self._lock:
            if step in self._left:
                self._begin(step)
            elif self._now == "comparison" != step:  # candidates have any name
                self._parts[step] = done, total
                step = self._now
                done, total = map(sum, zip(*self._parts.values(), strict=True))
            elif step == LEADS.get(self._now) and self._now not in self._expected:
                step = self._now
            if step != self._now and step not in self._steps:
                return
            before = self._spent
            if step == self._now and done >= total:
                self._spent, self._steps = before + _sum(self._steps), {}
            elif step in self._steps:
                self._go_on(step, done, total)
            more, left = self._spent - before, _sum(self._steps) + sum(self._left.values())
            slow = SLOW * (1 - self._most) * more / max(more + left, TINY)
            self._most = max(self._most + slow, self._spent / max(self._spent + left, TINY))
            if self._parts and done < total:
                self.progress(step, done, total)
            over = not (self._steps or self._left)
            self.progress(WHOLE, min(int(1_000 * self._most), 1_000 if over else 999), 1_000)

    def _begin(self, stage: str) -> None:
        """A stage begins, and whatever comes before it is over."""
        share, begun = _sum(self._steps), list(self._left)
        for name in begun[: begun.index(stage) + 1]:
            self._spent, share = self._spent + share, self._left.pop(name)
        self._now, self._told, self._parts = stage, {}, {}
        self._steps = dict(self._expected.get(stage, {stage: (share, 1.0)}))

    def _go_on(self, step: str, done: float, total: float) -> None:
        """Count what a step has done since it was told last; told as done before: once more."""
        cost, left = self._steps[step]
        last, of = self._told.get(step, (0.0, min(total, left)))
        if step == self._now:  # of a share
            done, total, of = max(done / max(total, 1), last), 1, 1
        if done < last >= of:
            last, of = 0.0, total
        done = max(done, last)  # threads tell of it in any order
        left = max(left + total - of, 0.0)  # what it is told to be may grow
        more = min(done - last, left)
        self._told[step], self._steps[step] = (done, total), (cost, left - more)
        self._spent += cost * more


def _sum(steps: Steps) -> float:
    return sum(cost * units for cost, units in steps.values())
