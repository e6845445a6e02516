"""Who does the jobs: this thread, joblib's threads or processes, or the workers of Dask."""

import os
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing
from multiprocessing.reduction import ForkingPickler
from tempfile import gettempdir
from typing import Any, NamedTuple, Protocol

import joblib
from joblib.parallel import get_active_backend

from .forks import Forks
from .job import Died, Done, done

Job = Callable[[], Any]
NO_FILES = {"max_nbytes": None, "temp_folder": gettempdir()}  # else a folder is made to try it


class Crew(Protocol):
    """Does jobs; ``away``: in other processes, to which they are sent."""

    @property
    def away(self) -> bool:
        """Whether jobs leave this process."""
        ...

    def done(self, jobs: Mapping[int, Job]) -> Generator[Done, None, None]:
        """Finished jobs in any order; `Died` if a worker did."""
        ...


def crew_of(jobs: Sequence[Callable[..., Any]], n_jobs: int, where: str) -> Crew:
    """Workers for jobs of one kind."""
    if min(n_jobs, len(jobs)) <= 1:
        return Here()
    if where == "forks":
        main = threading.current_thread() is threading.main_thread()
        return Forks(n_jobs) if sys.platform == "linux" and main else Here()
    backend, _ = get_active_backend(prefer="threads")
    if where == "threads" or getattr(backend, "uses_threads", False) or not _sendable(jobs[0]):
        return Joblib(n_jobs, {"backend": "threading"})
    if hasattr(backend, "client"):
        return OnDask(backend.client)
    generator = getattr(backend, "supports_return_generator", False)
    return Joblib(n_jobs, {"return_as": "generator_unordered" if generator else "list"}, away=True)


class Here:
    """One job after another in this thread."""

    away = False

    def done(self, jobs: Mapping[int, Job]) -> Generator[Done, None, None]:
        """Finished jobs in their order."""
        for k, job in jobs.items():
            yield done(k, job, os.getpid())


class Joblib:
    """Workers of joblib; arrays are sent to processes by pipes, never by files."""

    def __init__(self, n_jobs: int, how: Mapping[str, Any], away: bool = False) -> None:
        self.n_jobs, self.how, self.away = n_jobs, how, away

    def done(self, jobs: Mapping[int, Job]) -> Generator[Done, None, None]:
        """Finished jobs in any order."""
        how = {"return_as": "generator_unordered", **self.how}
        pool = joblib.Parallel(n_jobs=self.n_jobs, **how, **NO_FILES)
        home = os.getpid()
        try:
            found = pool(joblib.delayed(done)(k, job, home) for k, job in jobs.items())
            if self.how.get("return_as") == "list":
                yield from found
                return
            with closing(found):
                yield from found
        except BrokenExecutor as error:
            raise Died(type(error).__name__) from None


class OnDask:
    """Workers of a Dask client, whatever ``n_jobs``; all jobs are sent to each worker once."""

    away = True

    def __init__(self, client: Any) -> None:
        self.client = client

    def done(self, jobs: Mapping[int, Job]) -> Generator[Done, None, None]:
        """Finished jobs in any order."""
        import dask
        import distributed

        quiet = {"distributed.admin.large-graph-warning-threshold": "1TB"}
        with dask.config.set(quiet):  # a task that lies with the scheduler can be done again
            parcel = self.client.submit(_same, Parcel(jobs), pure=False)
        home, died = os.getpid(), ""
        futures = [self.client.submit(_one_of, parcel, k, home, pure=False) for k in jobs]
        arrived: Any = distributed.as_completed
        arriving = arrived(futures, loop=self.client.loop, with_results=True, raise_errors=False)
        try:
            for future, found in arriving:
                if future.status != "finished":
                    died = found[0].__name__ if isinstance(found, tuple) else future.status
                elif isinstance(found, Failed):
                    raise found.error
                else:
                    yield found
                future.release()
        finally:
            self.client.cancel([parcel, *futures])
        if died:
            raise Died(died)


class Parcel:
    """Jobs, which Dask need not look into."""

    def __init__(self, jobs: Mapping[int, Job]) -> None:
        self.jobs = dict(jobs)


class Failed(NamedTuple):
    """What a job raised: as a value, for Dask would log the arguments of a task that fails."""

    error: Exception


def _same(parcel: Parcel) -> Parcel:
    return parcel


def _one_of(parcel: Parcel, k: int, home: int) -> Done | Failed:
    try:
        return done(k, parcel.jobs[k], home)
    except Exception as error:
        return Failed(error)


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


def _sendable(job: Callable[..., Any]) -> bool:
    """Whether a job can be sent to another process."""
    try:
        ForkingPickler(_Nowhere()).dump(job)
    except Exception:
        return False
    return True
