"""Jobs in forked processes, for what cannot be sent to another: compiled functions."""

import multiprocessing
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_work: list[Any] = []  # what the processes that are forked next find in their memory


def forked(f: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], n_jobs: int) -> Iterator[Any]:
    """``f(*job)`` of every job, in order.

    In turn where there is one worker or one job, where the system cannot fork, or in a thread
    (forking there would copy the locks of the others).
    """
    in_main = threading.current_thread() is threading.main_thread()
    if min(n_jobs, len(jobs)) == 1 or sys.platform != "linux" or not in_main:
        yield from (f(*job) for job in jobs)
        return
    _work[:] = [f, list(jobs)]
    try:
        with warnings.catch_warnings():  # Python 3.12 warns of idle threads, such as those of BLAS
            warnings.simplefilter("ignore", DeprecationWarning)
            pool = multiprocessing.get_context("fork").Pool(min(n_jobs, len(jobs)))
        with pool:
            yield from pool.imap(_job, range(len(jobs)))
    finally:
        _work.clear()


def _job(k: int) -> Any:
    f, jobs = _work
    return f(*jobs[k])
