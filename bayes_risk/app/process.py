"""The process of a command: what it writes is its owner's, and what it says holds no value."""

import atexit
import errno
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import Any

INTERRUPTED = 130  # what a command that was stopped returns
SHOWN = "BAYES_RISK_TRACEBACK"
FLAGS, FOLDER, QUOTE = "PYTENSOR_FLAGS", "compiledir", "'"
FULL = (errno.ENOSPC, errno.EDQUOT)
QUIET = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ResourceWarning)

_own: list[bool] = []  # whether the process is a command's, and not a script's


def own_process() -> None:
    """Make all that this process writes readable by its owner alone.

    Worker processes import nothing from the folder in which the command was given.
    """
    os.umask(0o077)
    os.environ["PYTHONSAFEPATH"] = "1"
    _own.append(True)


def compile_beside(output: Path) -> None:
    """Let PyTensor, if it comes to be needed, compile in a new folder that goes with the process.

    What lies in the folder is run, so nobody else may have a hand in it: its name is random, and
    its owner alone may enter. It lies beside the output, or with temporary files where nothing can
    be written there. Numbers that a model was given as constants stand in what it compiles, and in
    the home folder they would stay. A folder that the user has chosen is left alone, and so is a
    script's.
    """
    given = os.environ.get(FLAGS, "")
    if not _own or "pytensor" in sys.modules:
        return
    # with a full disk PyTensor leaves the code, its constants with it, among temporary files
    tempfile.tempdir = os.environ["TMPDIR"] = _passing("br-", None)
    if FOLDER in given:
        return
    there = output.absolute().parent
    place = there if os.access(there, os.W_OK) and QUOTE not in str(there) else None
    folder = _passing(f".{output.name.replace(QUOTE, '')}.compiled-", place)
    os.environ[FLAGS] = ",".join([*filter(None, [given]), f"base_{FOLDER}={QUOTE}{folder}{QUOTE}"])


def _passing(prefix: str, place: Path | None) -> str:
    """Make a new folder that goes with the process."""
    folder, own = tempfile.mkdtemp(prefix=prefix, dir=place), os.getpid()

    def remove() -> None:
        if os.getpid() == own:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)  # before PyTensor's own, and so after it
    return folder


def full_disk(error: BaseException | None) -> str | None:
    """What to say of an error that comes from a disk without room; None: of another error.

    Compilers and HDF5 tell it in their text alone, and PyTensor's errors hide it behind others.
    """
    while error is not None:
        number, text = getattr(error, "errno", None), str(error)
        if number in FULL or any(os.strerror(n) in text for n in FULL):
            places = [Path(tempfile.gettempdir()), *_compiled(), Path.cwd()]
            if named := getattr(error, "filename", None):
                places = [Path(named).absolute().parent]
            free = {p: shutil.disk_usage(p).free for p in places if p.is_dir()}
            least = min(free, key=lambda p: free[p])
            return (
                f"the disk is full: {free[least] / 2**20:,.0f} MiB are left in {str(least)!r}; "
                "free some 200 MiB, or use another disk: TMPDIR=FOLDER for temporary files, "
                "--output for all others"
            )
        error = error.__cause__ or error.__context__
    return None


def _compiled() -> list[Path]:
    """Where PyTensor compiles, if a command has told it."""
    _, _, folder = os.environ.get(FLAGS, "").partition(f"base_{FOLDER}=")
    return [Path(folder.strip(QUOTE))] if folder else []


@contextmanager
def interrupts() -> Iterator[Callable[[], None]]:
    """Make every polite stop signal a KeyboardInterrupt; give a function that raises a lost one."""
    stopped, own = False, os.getpid()

    def stop(*_: Any) -> None:
        nonlocal stopped
        if os.getpid() != own:  # a forked worker, ended by its pool; raising here can hang it
            os._exit(INTERRUPTED)
        stopped = True
        raise KeyboardInterrupt

    def again() -> None:
        if stopped:
            raise KeyboardInterrupt

    names = [n for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]
    before = {n: signal.signal(getattr(signal, n), stop) for n in names}
    try:
        yield again
    except Exception:  # what a sampler made of the interruption
        again()
        raise
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def withheld(error: BaseException) -> str:
    """Kind and place of an error that nobody foresaw; its text may hold values of records."""
    frames = extract_tb(error.__traceback__)
    own = [f for f in frames if "bayes_risk" in f.filename] or list(frames)
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return (
        f"stopped by an unexpected {type(error).__name__}{where}; its text is withheld, for it may "
        f"hold values of the data: {SHOWN}=1 in the environment shows it"
    )


def shows_all() -> bool:
    """Whether the user asked for texts and tracebacks of unexpected errors."""
    return bool(os.environ.get(SHOWN))


def told(caught: Sequence[warnings.WarningMessage]) -> list[str]:
    """Our warnings, each once; then, of those of other packages, only which they are."""
    chosen = [
        w
        for w in caught
        if issubclass(w.category, UserWarning) and not issubclass(w.category, QUIET)
    ]
    ours = [str(w.message) for w in chosen if _is_ours(w)]
    others = [
        f"{w.category.__name__} ({Path(w.filename).name}, line {w.lineno})"
        for w in chosen
        if not _is_ours(w)
    ]
    return list(dict.fromkeys([*ours, *others]))


def _is_ours(warning: warnings.WarningMessage) -> bool:
    package, kind = "bayes_risk", warning.category
    return kind.__module__.startswith(f"{package}.") or (
        kind is UserWarning and package in Path(warning.filename).parts
    )
