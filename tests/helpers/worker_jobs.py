"""Jobs that workers of every kind do in tests: slow, failing, warning, and deadly ones."""

import ast
import contextlib
import os
import threading
import time
import warnings
from collections import namedtuple
from pathlib import Path

import numpy as np

from bayes_risk._core.errors import InputError
from bayes_risk._core.parallel import in_order


def squared(k, rng=None, seconds=0.0):
    time.sleep(seconds)
    return (k, k * k, None if rng is None else rng.normal(size=3).tobytes())


def of_array(values):
    return float(values.sum())


def failing(k):
    if k == 2:
        raise InputError("column 'job' has no level; declare it")
    return k


def warning(k):
    warnings.warn(f"job {k} is doubtful", UserWarning, stacklevel=1)
    return k


def ticking(units, tick):
    for _ in range(units):
        tick(1)
    return units


def process(lock=None):
    return os.getpid()


def nested():
    """Threads that jobs within a job are done in, and the job's own."""
    within = list(in_order([threading.get_ident] * 3, n_jobs=2, what="inner"))
    return threading.get_ident(), within


def noted(folder, k):
    """How often a job was begun."""
    with (Path(folder) / f"begun {k}").open("a") as file:
        file.write("x")
    return k


def deadly(folder, k, last, always=False):
    """Job ``last`` ends its process: once the others' results have come home, or always."""
    noted(folder, k)
    if k == last:
        killed = Path(folder) / "killed"
        if always or not killed.exists():
            await_file(Path(folder) / "come home")
            killed.touch()
            os._exit(9)
    return np.array([k])


def await_file(path):
    for _ in range(6_000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"{path.name} did not come")


def waiting(path):
    """Wait until somebody makes a file."""
    await_file(Path(path))
    return 1


def read(what):
    """Let Python read something."""
    if what == "import":
        with contextlib.suppress(ImportError):
            __import__("this_is_absent")
    elif what == "parse":
        ast.parse("1 + x")
    elif what == "eval":
        eval("1 + 1")
    else:
        namedtuple("Pair", "one other")
