"""Workers: results in order and the same for any of them, and those that die."""

import ast
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import joblib
import numpy as np
import pytest

from bayes_risk._core import parallel
from bayes_risk._core.errors import InputError
from bayes_risk._core.parallel import ATTEMPTS, Ticks, in_order, working
from bayes_risk.app.run import run_study
from bayes_risk.app.run.runner import estimate
from bayes_risk.app.study.study import parse_study
from bayes_risk.evidence import leave_one_out as log_ratios
from bayes_risk.models.trees import forest
from tests.helpers import worker_audits as audits
from tests.helpers import worker_jobs as jobs_of
from tests.helpers.sources import parsed

pytestmark = pytest.mark.check

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = ("threads", "loky", "dask")
AWAY = ("loky", "dask")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A Dask cluster of two processes, as a user may have one."""
    folder = tmp_path_factory.mktemp("cluster")
    with working("dask", 2, folder):
        yield joblib.parallel.get_active_backend()[0].client


@pytest.fixture
def chosen(request):
    """``chosen(name)``: a context in which jobs have these workers."""

    def choose(name):
        if name == "dask":
            return joblib.parallel_config("dask", client=request.getfixturevalue("cluster"))
        return joblib.parallel_config("threading" if name == "threads" else name)

    return choose


def told(found):
    return [str(w.message) for w in found]


# --- in order --------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_results_come_in_order_and_are_the_same(chosen, backend, n_jobs):
    def jobs():
        children = np.random.default_rng(3).spawn(7)
        return [partial(jobs_of.squared, k, c, 0.1 * (k == 0)) for k, c in enumerate(children)]

    expected = [job() for job in jobs()]
    with chosen(backend):
        assert list(in_order(jobs(), n_jobs=n_jobs, what="squares")) == expected


@pytest.mark.parametrize("n_jobs", [0, 2**31, True])
def test_absurd_numbers_of_workers_are_refused(n_jobs):
    with pytest.raises(InputError, match=f"n_jobs={n_jobs} is .*; give an integer"):
        list(in_order([], n_jobs=n_jobs, what="nothing"))
    for run in (estimate, partial(run_study, max_memory="1GiB")):  # before the data are read
        with pytest.raises(InputError, match=f"n_jobs={n_jobs} is .*; give an integer"):
            run(None, n_jobs=n_jobs)


def test_nothing_to_do_is_done():
    assert list(in_order([], n_jobs=2, what="nothing")) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_job_raises_is_raised_here(chosen, backend):
    jobs = [partial(jobs_of.failing, k) for k in range(4)]
    with chosen(backend), pytest.raises(InputError, match="'job' has no level"):
        list(in_order(jobs, n_jobs=2, what="failing"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_warnings_come_home_once_each(chosen, backend):
    jobs = [partial(jobs_of.warning, k) for k in range(5)]
    with chosen(backend), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        list(in_order(jobs, n_jobs=2, what="warning"))
    assert sorted(told(found)) == [f"job {k} is doubtful" for k in range(5)]
    assert {Path(w.filename).name for w in found} == {"worker_jobs.py"}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_every_unit_of_progress_is_told(chosen, backend, n_jobs):
    seen = []
    jobs = [partial(jobs_of.ticking, 6)] * 4
    with chosen(backend):
        list(in_order(jobs, n_jobs=n_jobs, what="units", ticks=Ticks(seen.append, 6)))
    assert sum(seen) == 24


def test_a_job_has_no_workers_of_its_own():
    for own, within in in_order([jobs_of.nested] * 3, n_jobs=2, what="outer"):
        assert set(within) == {own}


@pytest.mark.parametrize("backend", AWAY)
@pytest.mark.parametrize("case", ["anywhere", "threads", "locks"])
def test_where_jobs_are_done(chosen, backend, case):
    """What shares arrays, or cannot be sent, stays in this process."""
    lock = threading.Lock() if case == "locks" else None
    where = "threads" if case == "threads" else "anywhere"
    with chosen(backend):
        jobs = [partial(jobs_of.process, lock)] * 4
        found = set(in_order(jobs, n_jobs=2, what="processes", where=where))
    assert (os.getpid() in found) == (case != "anywhere")


def test_forked_jobs_find_what_cannot_be_sent():
    held = threading.Lock()
    jobs = [partial(jobs_of.process, held)] * 4
    found = list(in_order(jobs, n_jobs=2, what="forks", where="forks"))
    assert len(found) == 4 and os.getpid() not in found


def test_linear_algebra_has_one_thread_and_gets_its_own_back():
    from threadpoolctl import threadpool_info

    def threads():
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    before = threads()
    assert before and set(next(in_order([threads], n_jobs=1, what="threads"))) == {1}
    assert threads() == before


def test_libraries_are_searched_again_only_after_an_import(monkeypatch):
    from threadpoolctl import ThreadpoolController

    searched = []
    monkeypatch.setattr(
        parallel, "ThreadpoolController", lambda: searched.append(1) or ThreadpoolController()
    )
    for name in ("one of which blas is a part", None, "another"):
        if name:
            monkeypatch.setitem(sys.modules, name, None)
        with parallel.one_thread():
            pass
    assert len(searched) == 2


def test_every_parallel_place_goes_through_the_workers():
    users = []
    for path in (ROOT / "bayes_risk").rglob("*.py"):
        text = path.read_text()
        if not any(word in text for word in ("joblib", "multiprocessing", "concurrent")):
            continue
        names = {
            getattr(node, "module", None) or alias.name
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        if {n.partition(".")[0] for n in names} & {"joblib", "multiprocessing", "concurrent"}:
            users.append(path.name)
    assert users == ["parallel.py"]


# --- the same bytes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        ("threads", "normal"),
        ("dask", "CART"),
        ("loky", "Forest"),
        *(pytest.param(b, "DPMPM", marks=pytest.mark.slow) for b in ("threads", "dask")),
    ],
)
def test_an_audit_is_the_same_with_any_workers(chosen, backend, name):
    """DPMPM in processes of joblib: `test_a_run_leaves_the_same_bytes`."""
    expected = audits.alone(name)
    with chosen(backend):
        assert audits.found(name, n_jobs=2) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", audits.AUDITS)
def test_every_audit_is_the_same_with_any_workers(chosen, name):
    expected = audits.alone(name)
    for backend in BACKENDS:
        for n_jobs in (2, 3):
            with chosen(backend):
                assert audits.found(name, n_jobs=n_jobs) == expected, (backend, n_jobs)


EVERY_DAY = {"Forest", "normal"}  # an audit by trees and one by draws
SIZES = {"small": (8, 1, 8, 3), "odd": (13, 64, 5, 2), "large": (1_000, 2**24, 500, 1)}


@pytest.mark.parametrize(
    "size", ["odd", *(pytest.param(s, marks=pytest.mark.slow) for s in SIZES if s != "odd")]
)
@pytest.mark.parametrize(
    "name",
    [n if n in EVERY_DAY else pytest.param(n, marks=pytest.mark.slow) for n in audits.AUDITS],
)
def test_an_audit_is_the_same_with_blocks_of_any_size(monkeypatch, name, size):
    expected = audits.alone(name)
    block, room, few, shares = SIZES[size]
    for module, constant, value in (
        (log_ratios, "BLOCK", block),
        (log_ratios, "MAX_TARGET_DRAWS", room),
        (log_ratios, "FEW", few),
        (log_ratios, "SHARES", shares),
        (forest, "BLOCK", block),
    ):
        assert hasattr(module, constant)
        monkeypatch.setattr(module, constant, value)
    assert audits.found(name, n_jobs=2) == expected


@pytest.mark.parametrize(
    ("backend", "workers"),
    [("loky", 2), *(pytest.param("dask", n, marks=pytest.mark.slow) for n in (2, 4))],
)
def test_a_run_leaves_the_same_bytes(tmp_path, backend, workers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, n_jobs in (("threads", 1), (backend, workers)):
            study = parse_study(audits.STUDY).with_output(tmp_path / name)
            run_study(study, backend=name, n_jobs=n_jobs)
    assert sorted(os.listdir(tmp_path)) == sorted(["threads", backend])
    files = sorted(os.listdir(tmp_path / "threads"))
    assert files == sorted(os.listdir(tmp_path / backend))
    for file in set(files) - {"manifest.json", "report.html"}:  # these hold times
        one, other = ((tmp_path / name / file).read_bytes() for name in ("threads", backend))
        assert one == other, file


# --- nothing is read in threads --------------------------------------------------------------

QUICK = {"refits", "tables", "Forest", "CART", "PMM", "normal", "normal refits",
         "normal, knows half", "PoissonMixture"}  # fmt: skip


@pytest.mark.parametrize("what", ["parse", "eval", "class", "import"])
def test_what_is_read_in_threads_is_heard(chosen, what):
    jobs = [partial(jobs_of.read, what)] * 2
    with chosen("threads"), audits.read_in_threads() as found:
        list(in_order(jobs, n_jobs=1, what="reading"))
        assert found == []
        list(in_order(jobs, n_jobs=2, what="reading"))
    assert {stack.split()[0] for stack in found} == {"import" if what == "import" else "compile"}


@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in audits.AUDITS],
)
def test_threads_read_nothing(chosen, name):
    """Formulas are read where they are declared: Python cannot always read in several threads."""
    with chosen("threads"), audits.read_in_threads() as found:
        audits.found(name, n_jobs=2)
    assert found == []


@pytest.mark.parametrize(
    "name",
    [n if n in EVERY_DAY else pytest.param(n, marks=pytest.mark.slow) for n in audits.AUDITS],
)
def test_threads_import_nothing_for_the_first_time(name):
    code = (
        "from tests.helpers import worker_audits as audits\n"
        "with audits.read_in_threads() as found:\n"
        f"    audits.found({name!r}, n_jobs=2)\n"
        "raise SystemExit(''.join(found) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- what processes leave --------------------------------------------------------------------


@pytest.mark.parametrize("backend", AWAY)
def test_arrays_are_sent_without_files(chosen, backend, tmp_path):
    before = {p.name for place in PLACES for p in place.iterdir()}
    large = np.ones(2_000_000)
    with chosen(backend):
        jobs = [partial(jobs_of.of_array, large)] * 3
        assert list(in_order(jobs, n_jobs=2, what="arrays")) == [2e6] * 3
    new = {p.name for place in PLACES for p in place.iterdir()} - before
    own = str(os.getpid())
    assert [n for n in new if own in n and ("joblib" in n or "dask" in n)] == []
    assert "dask-scratch-space" not in new


PLACES = [p for p in (Path(tempfile.gettempdir()), Path("/dev/shm")) if p.is_dir()]


def test_a_cluster_listens_on_this_machine_alone(cluster):
    info = cluster.scheduler_info(n_workers=-1)
    addresses = [info["address"], *info["workers"]]
    addresses += [w["nanny"] for w in info["workers"].values()]
    assert len(addresses) == 5
    assert {a.rpartition(":")[0].partition("://")[2] for a in addresses} == {"127.0.0.1"}
    assert {w["memory_limit"] for w in info["workers"].values()} == {0}
    for path in ("", "info/main/workers.html", "metrics", "status"):
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"http://127.0.0.1:{info['services']['dashboard']}/{path}", timeout=10)


@pytest.mark.parametrize("backend", ["loky", "dask"])
def test_a_run_ends_its_workers_and_their_files(tmp_path, backend):
    with working(backend, 2, tmp_path):
        found = list(in_order([jobs_of.process] * 4, n_jobs=2, what="processes"))
    assert os.listdir(tmp_path) == []
    assert [pid for pid in set(found) if Path(f"/proc/{pid}/cmdline").exists()] == []


def test_a_backend_that_is_not_there_is_refused(monkeypatch):
    study = parse_study(audits.STUDY)
    with pytest.raises(InputError, match="backend='ray'.*threads"):
        run_study(study, backend="ray")
    monkeypatch.setattr(parallel, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'bayes-risk\[dask\]'"):
        run_study(study, backend="dask")


# --- workers that die ------------------------------------------------------------------------


def dying(chosen, folder, kind, *, always=False):
    """Three jobs that end well and one that is deadly; its results, as they come."""
    jobs = [partial(jobs_of.deadly, str(folder), k, 3, always) for k in range(4)]
    where = "forks" if kind == "forks" else "anywhere"
    with nullcontext() if kind == "forks" else chosen(kind):
        for value in in_order(jobs, n_jobs=2, what="deadly", where=where):
            if value[0] == 2:
                (folder / "come home").touch()
            yield value


def begun(folder, k):
    path = folder / f"begun {k}"
    return len(path.read_text()) if path.exists() else 0


@pytest.mark.parametrize("kind", [*AWAY, "forks"])
def test_a_job_whose_worker_died_is_done_again_and_finished_ones_are_kept(
    chosen, tmp_path, kind, monkeypatch
):
    handed, results = [], parallel._results

    def counted(jobs, *how):
        handed.append(len(jobs))
        return results(jobs, *how)

    monkeypatch.setattr(parallel, "_results", counted)
    found = np.concatenate(list(dying(chosen, tmp_path, kind)))
    assert found.tolist() == [0, 1, 2, 3]
    assert handed == [4, 1]  # those that came home are not asked for again
    times = [begun(tmp_path, k) for k in range(4)]
    assert times[3] >= 2
    if kind == "dask":  # joblib holds the last result; if it lay on the dead worker, Dask makes it
        assert sorted(times[:3])[:2] == [1, 1] and max(times[:3]) <= 2  # again, asked or not
    else:
        assert times[:3] == [1, 1, 1]


@pytest.mark.parametrize("kind", ["loky", "forks", pytest.param("dask", marks=pytest.mark.slow)])
def test_workers_that_always_die_are_given_up(chosen, tmp_path, kind):
    found = []
    with pytest.raises(ChildProcessError, match=r"'deadly' died 2 times .* 1 of 4 .*--jobs"):
        found.extend(dying(chosen, tmp_path, kind, always=True))
    assert np.concatenate(found).tolist() == [0, 1, 2]
    times = begun(tmp_path, 3)  # Dask may have put it on a worker that is just being replaced
    assert times == ATTEMPTS or (kind == "dask" and 0 < times < ATTEMPTS)
