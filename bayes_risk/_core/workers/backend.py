"""Which workers a run has: threads, processes of joblib, or a cluster of Dask on this machine."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import joblib

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import one_of

BACKENDS = ("threads", "loky", "dask")
NEEDED = ("distributed", "cryptography")  # certificates keep others on the machine out
CLUSTER = {
    "distributed.scheduler.allowed-failures": 0,  # jobs are done again here, and counted
    "distributed.comm.timeouts.connect": "60s",
    "distributed.scheduler.http.routes": [],  # its server of pages shows none
    "distributed.worker.http.routes": [],
    "distributed.worker.memory.target": False,  # nothing is spilled to disk
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}


def check_backend(backend: str | None) -> None:
    """Check the name of a backend, and that it is installed.

    Raises
    ------
    InputError
    """
    if backend is not None:
        one_of("backend", backend, BACKENDS)
    lacking = [name for name in NEEDED if find_spec(name) is None]
    if backend == "dask" and lacking:
        raise InputError(
            f"backend='dask' needs {' and '.join(lacking)}; pip install 'bayes-risk[dask]', or "
            "choose backend='loky'"
        )


@contextmanager
def working(backend: str | None, n_jobs: int, folder: Path | None) -> Iterator[None]:
    """Within the block, jobs have these workers; None: those of joblib's `parallel_config`.

    ``"dask"`` is a cluster of ``n_jobs`` processes that listens on 127.0.0.1, to those who have the
    certificate made for it, which stays in memory; what it writes lies
    in ``folder`` (None: a temporary one) and goes with it.
    """
    check_backend(backend)
    if backend is None or n_jobs == 1:
        yield
    elif backend == "dask":
        with _place(folder) as place, _cluster(n_jobs, place) as client:
            with joblib.parallel_config(backend="dask", client=client):
                yield
    elif backend == "loky":
        with joblib.parallel_config(backend="loky"):
            try:
                yield
            finally:
                _end_processes()
    else:
        with joblib.parallel_config(backend="threading"):
            yield


def _end_processes() -> None:
    """Processes of joblib would wait for more work, with data in their memory."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


def _place(folder: Path | None) -> Any:
    return tempfile.TemporaryDirectory(dir=folder, prefix="dask-")


@contextmanager
def _cluster(n_jobs: int, place: str) -> Iterator[Any]:
    import dask
    import distributed
    from distributed.gc import disable_gc_diagnosis

    of_processes: Any = distributed.LocalCluster
    client_of: Any = distributed.Client
    unhooked: Any = disable_gc_diagnosis
    with dask.config.set(CLUSTER | {"temporary-directory": place}):
        cluster = of_processes(
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
        with cluster, client_of(cluster, set_as_default=False) as client:
            unhooked(force=True)  # else Ctrl-C in its hook of the garbage collector is lost
            yield client
