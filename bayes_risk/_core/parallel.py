"""Jobs of a stage done in threads, in processes or on a cluster by joblib, and given in order.

Every parallel place goes through `in_order`, so that what is promised of workers holds everywhere:
results do not depend on them, and one that dies is told with its cure.
"""

import multiprocessing
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import joblib
import psutil
from joblib.externals.loky import get_reusable_executor
from joblib.parallel import SequentialBackend, ThreadingBackend, get_active_backend
from threadpoolctl import ThreadpoolController

from .errors import InputError
from .validate import one_of, whole_number

T = TypeVar("T")
Job = Callable[..., Any]
Where = Literal["anywhere", "threads", "forks"]
IN_THREADS = (SequentialBackend, ThreadingBackend)
BACKENDS = ("threads", "loky", "dask")
NEEDED = ("distributed", "cryptography")  # certificates keep others on the machine out
ATTEMPTS = 2  # unfinished jobs of a stage are done once more when a worker dies
NO_FILES = {"max_nbytes": None, "temp_folder": tempfile.gettempdir()}  # else joblib tries a folder
QUIET = {"distributed.admin.large-graph-warning-threshold": "1TB"}  # nothing of how large jobs are
CLUSTER = {
    "distributed.scheduler.allowed-failures": 0,  # jobs are done again here
    "distributed.comm.timeouts.connect": "60s",
    "distributed.scheduler.http.routes": [],  # its server of pages shows none
    "distributed.worker.http.routes": [],
    **{f"distributed.worker.memory.{k}": False for k in ("target", "spill", "pause", "terminate")},
}


class Ticks(NamedTuple):
    """Progress within jobs: whom to tell of more units, and how many units a job has."""

    tell: Callable[[int], None]
    each: int


def in_order(
    jobs: Sequence[Callable[..., T]],
    *,
    n_jobs: int,
    what: str,
    where: Where = "anywhere",
    ticks: Ticks | None = None,
) -> Iterator[T]:
    """Results of jobs, one after another as they are asked for, worked on ahead.

    ``where``: as joblib's `parallel_config` says; in ``"threads"``: jobs that write into shared
    arrays, are short, or would send more than they compute, and all that cannot be sent; in
    ``"forks"``: compiled functions. With ``ticks`` jobs take ``tick``, to call with numbers of
    units. Linear algebra has one thread a worker: sums do not depend on the number of workers. When
    one dies, jobs that were not yielded are done again from their start, with the same random
    numbers: generators go to processes as copies.
    """
    whole_number("n_jobs", n_jobs)
    if at_work():
        yield from (job() if ticks is None else job(tick=ticks.tell) for job in jobs)
        return
    done, why, n_jobs = 0, "", min(n_jobs, len(jobs))  # a job left over may be deadly: not here
    with one_thread():
        for _ in range(ATTEMPTS):
            try:
                with closing(_results(jobs[done:], n_jobs, where, ticks)) as found:
                    for value in found:
                        done += 1
                        yield value
                return
            except Exception as error:
                why = type(error).__name__  # the second is Dask's, which is not imported here
                if not isinstance(error, BrokenExecutor) and why != "KilledWorker":
                    raise
    raise ChildProcessError(
        f"workers of stage {what!r} died {ATTEMPTS} times ({why}), {len(jobs) - done} of "
        f"{len(jobs)} jobs unfinished; perhaps memory ran out: give fewer workers (--jobs), or "
        "--backend threads"
    )


def _results(
    jobs: Sequence[Job], n_jobs: int, where: Where, ticks: Ticks | None
) -> Generator[Any, None, None]:
    """Results of one attempt."""
    backend: Any = get_active_backend(prefer="threads")[0]
    main = threading.current_thread() is threading.main_thread()
    forked = where == "forks" and sys.platform == "linux" and main
    here = jobs if ticks is None else [partial(job, tick=ticks.tell) for job in jobs]
    # those who would listen are in another process
    away = jobs if ticks is None else [partial(job, tick=lambda more: None) for job in jobs]
    if n_jobs <= 1 or (where == "forks" and not forked):
        yield from map(_here, here)
    elif forked:
        yield from _home(_forked(away, n_jobs), ticks)
    elif where == "threads" or isinstance(backend, IN_THREADS) or not _sendable(jobs[0]):
        pool = joblib.Parallel(n_jobs, return_as="generator", backend="threading")
        with closing(pool(map(joblib.delayed(_here), here))) as found:
            yield from found
    else:
        chosen: dict[str, Any] = {}
        quiet: AbstractContextManager[Any] = nullcontext()
        if type(backend).__name__ == "DaskDistributedBackend":
            chosen, quiet = {"backend": _dask_backend(backend)}, _dask_config(QUIET)
        pool = joblib.Parallel(n_jobs, return_as="generator", **chosen, **NO_FILES)
        with quiet, closing(pool(map(joblib.delayed(_away), away))) as found:
            yield from _home(found, ticks)


# --- one job ---------------------------------------------------------------------------------

_local = threading.local()


def at_work() -> bool:
    """Whether this thread is doing a job: a worker has no workers of its own."""
    return bool(getattr(_local, "working", False))


def _here(job: Job) -> Any:
    """A job in a thread of this process."""
    before, _local.working = at_work(), True
    try:
        return job()
    finally:
        _local.working = before


Warned = tuple[str, type[Warning], str, int]


def _away(job: Job) -> tuple[Any, list[Warned]]:
    """A job in another process: its value, and what it warned of."""
    if (parent := multiprocessing.parent_process()) is not None and parent.pid is not None:
        end_with(parent.pid)
    with one_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = _here(job)
    return value, [(str(w.message), w.category, w.filename, w.lineno) for w in caught]


def _home(found: Any, ticks: Ticks | None) -> Iterator[Any]:
    """Values from other processes, whose warnings and progress are told here."""
    for value, warned in found:
        for one in warned:
            warnings.warn_explicit(*one)
        if ticks is not None:
            ticks.tell(ticks.each)
        yield value


class _OneThread:
    """Linear algebra on one thread while anybody wants it: its sums are then the same anywhere."""

    def __init__(self) -> None:
        self._lock, self._wanted = threading.Lock(), 0
        self._limit: Any = None
        self._libraries: Any = None
        self._loaded = 0  # modules

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                if self._loaded != len(sys.modules):
                    self._libraries = ThreadpoolController()  # a search of milliseconds
                    self._loaded = len(sys.modules)
                self._limit = self._libraries.limit(limits=1, user_api="blas")
        try:
            yield
        finally:
            with self._lock:
                self._wanted -= 1
                if self._wanted == 0:
                    self._limit.restore_original_limits()


one_thread = _OneThread()


# --- other processes -------------------------------------------------------------------------

LOOKS = 1.0  # seconds between two looks whether the parent is there
_watching = 0  # the process that looks
_forking = 0  # the process whose forks are workers


def end_with(parent: int) -> None:
    """Let this worker end when its parent has: killed, that leaves workers with data in memory."""
    global _watching
    if _watching != os.getpid():
        _watching = os.getpid()
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    with suppress(psutil.NoSuchProcess):  # which a zombie raises too, or says
        process = psutil.Process(parent)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(LOOKS)
    os._exit(1)


@contextmanager
def forking() -> Iterator[None]:
    """Processes that are forked within the block are workers, and end with this one."""
    global _forking
    before, _forking = _forking, os.getpid()
    try:
        yield
    finally:
        _forking = before


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: end_with(_forking) if _forking else None)

_work: list[Job] = []  # what processes that are forked find in their memory


def _forked(jobs: Sequence[Job], n_jobs: int) -> Iterator[Any]:
    """Jobs in processes that are forked; nothing but their numbers is sent."""
    before = set(multiprocessing.active_children())
    _work[:] = jobs
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(n_jobs, mp_context=context)
    try:
        with warnings.catch_warnings():  # Python 3.12 warns of idle threads, such as those of BLAS
            warnings.simplefilter("ignore", DeprecationWarning)
            with forking():
                futures = [pool.submit(_numbered, k) for k in range(len(jobs))]
        yield from (future.result() for future in futures)
    finally:
        _work.clear()
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()


def _numbered(k: int) -> Any:
    return _away(_work[k])


def _sendable(job: Job) -> bool:
    """Whether a job can be sent to another process."""
    try:
        ForkingPickler.dumps(job)
    except Exception:
        return False
    return True


def _dask_config(settings: dict[str, Any]) -> AbstractContextManager[Any]:
    found: AbstractContextManager[Any] = import_module("dask").config.set(settings)
    return found


def _dask_backend(backend: Any) -> Any:
    """joblib's Dask backend, which is told too when Dask gives a job up, and does not wait on."""

    class NotifiedBackend(type(backend)):  # type: ignore[misc]
        def submit(self, func: Any, callback: Any = None) -> Any:
            future = super().submit(func, callback)
            future.add_done_callback(lambda done: done.exception() and callback(done.exception()))
            return future

        def effective_n_jobs(self, n_jobs: int) -> int:
            """Never 1: where one worker is left joblib would do the jobs here, deadly or not."""
            found: int = super().effective_n_jobs(n_jobs)
            return max(found, 2)

        def retrieve_result_callback(self, out: Any) -> Any:
            if isinstance(out, BaseException):
                raise out
            return super().retrieve_result_callback(out)

    return NotifiedBackend(client=backend.client)


# --- the workers of a run --------------------------------------------------------------------


def check_backend(backend: str | None) -> None:
    """Check the name of a backend, and that it is installed."""
    if backend is not None:
        one_of("backend", backend, BACKENDS)
    lacking = [name for name in NEEDED if find_spec(name) is None]
    if backend == "dask" and lacking:
        raise InputError(
            "backend",
            "dask",
            f"needs {' and '.join(lacking)}; pip install 'bayes-risk[dask]', or choose "
            "`backend='loky'`",
        )


@contextmanager
def working(backend: str | None, n_jobs: int, folder: Path | None) -> Iterator[None]:
    """Within the block, jobs have these workers; None: those of joblib's `parallel_config`.

    ``"dask"`` is a cluster of ``n_jobs`` processes that listens on 127.0.0.1, to those who have the
    certificate made for it, which stays in memory; what it writes lies in ``folder`` and goes.
    """
    check_backend(backend)
    if backend is None or n_jobs == 1:
        yield
        return
    config: dict[str, Any] = {"backend": "threading" if backend == "threads" else backend}
    with ExitStack() as until:
        if backend == "dask":
            temporary = tempfile.TemporaryDirectory(dir=folder, prefix="dask-")
            config["client"] = until.enter_context(_cluster(n_jobs, until.enter_context(temporary)))
        elif backend == "loky":  # processes would wait for more work, with data in their memory
            config |= {"initializer": end_with, "initargs": (os.getpid(),)}
            until.callback(lambda: get_reusable_executor().shutdown(wait=True))
        until.enter_context(joblib.parallel_config(**config))
        yield


@contextmanager
def _cluster(n_jobs: int, place: str) -> Iterator[Any]:
    distributed: Any = import_module("distributed")
    config = _dask_config(CLUSTER | {"temporary-directory": place})
    cluster = partial(
        distributed.LocalCluster,
        n_workers=n_jobs,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        local_directory=place,
        memory_limit=0,
        silence_logs=50,  # its logs repeat arguments of tasks
        security=True,
    )
    with config, cluster() as made, distributed.Client(made, set_as_default=False) as client:
        # else Ctrl-C in its hook of the garbage collector is lost
        distributed.gc.disable_gc_diagnosis(force=True)
        yield client
