"""Jobs in forked processes, for what cannot be sent to another: compiled functions."""

import multiprocessing
import os
import warnings
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, as_completed
from typing import Any

from .job import Died, Done, done

_work: dict[int, Callable[[], Any]] = {}  # what processes that are forked find in their memory


class Forks:
    """Processes that are forked for a stage; nothing but numbers of jobs is sent to them."""

    away = True

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs

    def done(self, jobs: Mapping[int, Callable[[], Any]]) -> Generator[Done, None, None]:
        """Finished jobs in any order; processes are ended with the stage."""
        before = set(multiprocessing.active_children())
        _work.update(jobs)
        pool = ProcessPoolExecutor(
            min(self.n_jobs, len(jobs)), mp_context=multiprocessing.get_context("fork")
        )
        try:
            for future in as_completed(_submitted(pool, list(jobs))):
                yield future.result()
        except BrokenExecutor as error:
            raise Died(type(error).__name__) from None
        finally:
            _work.clear()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()


def _submitted(pool: ProcessPoolExecutor, numbers: list[int]) -> list[Future[Done]]:
    with warnings.catch_warnings():  # Python 3.12 warns of idle threads, such as those of BLAS
        warnings.simplefilter("ignore", DeprecationWarning)
        return [pool.submit(_job, k, os.getpid()) for k in numbers]


def _job(k: int, home: int) -> Done:
    return done(k, _work[k], home)
