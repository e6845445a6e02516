"""Runs that are stopped go on where they were, and end with the same bytes."""

import json
import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest

import bayes_risk as br
from bayes_risk._core.checkpoint import Store, _stem
from bayes_risk.app.output import RUN, differences, workplace
from bayes_risk.app.run import run_compare, run_study, run_sweep
from bayes_risk.app.study.files import files_behind
from bayes_risk.app.study.study import parse_study
from tests.helpers.programs import python

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.check,
    pytest.mark.filterwarnings("ignore::UserWarning"),  # short fits
]
CLASSES = {
    "title": "classes",
    "random_seed": 5,
    "data": {"demo": "italy"},
    "model": {"n_classes": 8, "draws": 40, "tune": 20, "chains": 2},
    "release": {"m": 2},
    "attribute": {"guesses": "hamming-2", "targets": 60, "target_mcse": 1e-6, "max_doublings": 1},
    "identification": {"known": [], "synthesized": ["AGE", "EDU", "PRO"]},
    "membership": {"records": 20, "held_out": 0.1, "comparisons": 20},
    "full_table": {"targets": 5},
}
NUTS = {
    "title": "numbers",
    "random_seed": 5,
    "data": {"demo": "visits"},
    "model": {
        "kind": "Regression",
        "formulas": {"disease": "1 + limited", "visits": "1 + disease"},
        "families": {"disease": "normal", "visits": "poisson"},
        "draws": 30,
        "tune": 30,
        "chains": 2,
    },
    "release": {"m": 2, "columns": ["disease", "visits"]},
    "attribute": {
        "guesses": {
            "disease": {"additive": 10.0, "n": 3},
            "visits": {"bounds": [0, 20], "n": 21, "truth": "add"},
        },
        "targets": 10,
    },
}
TREES = {
    "title": "trees",
    "random_seed": 5,
    "data": {"demo": "italy"},
    "model": {"kind": "CART", "order": ["EDU", "PRO"]},
    "release": {"m": 2, "columns": ["EDU", "PRO"]},
    "attribute": {"targets": 40},
    "compare": {
        "replicates": 2,
        "few": {"model": {"kind": "CART", "order": ["EDU", "PRO"], "min_leaf": 40}},
        "many": {"model": {"kind": "CART", "order": ["EDU", "PRO"]}},
    },
    "utility": {},
}
SWEPT = CLASSES | {
    "attribute": {"guesses": "neighbourhood", "targets": 30},
    "sweep": {"priors": ["uniform", "marginal"], "m": [1, 2], "model": {"level_prior": [0.5, 1.0]}},
}
SWEPT = {k: v for k, v in SWEPT.items() if k not in ("membership", "full_table")}
RUNS = {"audit": run_study, "sweep": run_sweep, "compare": run_compare}


class Stop(KeyboardInterrupt):
    """A stop at a chosen step."""


def content(folder):
    """What a run leaves, but for times."""
    found = {p.name: p.read_bytes() for p in folder.iterdir()}
    manifest = json.loads(found.pop("manifest.json"))
    del manifest["settings"]["output"]
    found.pop("report.html", None)  # holds how long it took
    return found, {k: v for k, v in manifest.items() if k not in ("seconds", "finished")}


def stopped_after(monkeypatch, n):
    """Stop the run when so many steps were written."""
    put, count = Store.put, iter(range(n))

    def counted(self, path, value):
        value = put(self, path, value)
        kept = path != RUN and (self.folder / f"{_stem(path)}.npz").exists()
        if kept and next(count, None) is None:
            raise Stop
        return value

    monkeypatch.setattr(Store, "put", counted)


@pytest.mark.parametrize(
    ("what", "study"),
    [
        pytest.param("audit", CLASSES, id="classes"),
        pytest.param("compare", TREES, id="compare"),
        pytest.param("audit", NUTS, id="numbers", marks=pytest.mark.slow),
        pytest.param("sweep", SWEPT, id="sweep", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_run_ends_with_the_same_bytes(tmp_path, monkeypatch, what, study):
    """Stopped at every second step until it ends."""
    run, given = RUNS[what], parse_study(study)
    run(given.with_output(tmp_path / "whole"))
    stops, target = 0, given.with_output(tmp_path / "out")
    while not (tmp_path / "out").exists():
        with monkeypatch.context() as patch:
            stopped_after(patch, 1)
            try:
                run(target)
            except Stop as stop:
                stops += 1
                (note,) = stop.__notes__
                assert "kept in" in note
        assert stops < 200
    assert stops > 2
    assert content(tmp_path / "out") == content(tmp_path / "whole")
    assert sorted(os.listdir(tmp_path)) == ["out", "whole"]


def test_a_drawn_seed_is_remembered(tmp_path, monkeypatch):
    study = parse_study(CLASSES | {"random_seed": None}).with_output(tmp_path / "out")
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stopped_after(patch, 0)
        run_study(study)
    _, seed = Store(tmp_path / ".out.work").get(RUN)
    assert run_study(study).random_seed == seed


# --- what others may have planted ---------------------------------------------------------------


def refused(tmp_path, why):
    """The run stops, says why in one line, and leaves all as it was."""
    before = {p: (p.lstat().st_mode, p.lstat().st_size) for p in tmp_path.rglob("*")}
    with pytest.raises(br.InputError, match=f"{why}.* not used; remove it, or give another"):
        with workplace(tmp_path / "out", {"run": 1}, 0):
            pytest.fail("ran")
    assert before == {p: (p.lstat().st_mode, p.lstat().st_size) for p in tmp_path.rglob("*")}


@pytest.mark.parametrize("name", ["", "steps"], ids=["folder", "steps"])
def test_a_linked_folder_is_refused(tmp_path, name):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    place = tmp_path / ".out.work" / name
    place.parent.mkdir(mode=0o700, exist_ok=True)
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(br.InputError, match="is a link, and is not used; remove it, or give"):
        with workplace(tmp_path / "out", {"run": 1}, 0):
            pytest.fail("ran")
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("how", ["symlink_to", "hardlink_to", "fifo"])
def test_a_lock_that_is_not_the_run_s_is_refused(tmp_path, how):
    (tmp_path / "victim").write_text("kept")
    (tmp_path / ".out.work").mkdir(mode=0o700)
    lock = tmp_path / ".out.work" / "lock"
    os.mkfifo(lock) if how == "fifo" else getattr(lock, how)(tmp_path / "victim")
    refused(tmp_path, "lock.* is a link or no file")


@pytest.mark.parametrize("mode", [0o707, 0o770, 0o755], ids=oct)
def test_a_working_folder_open_to_others_is_refused(tmp_path, mode):
    (tmp_path / ".out.work").mkdir()
    (tmp_path / ".out.work").chmod(mode)
    refused(tmp_path, "the working folder .* is open to others")


def test_a_working_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    (tmp_path / ".out.work").mkdir(mode=0o700)
    lstat = Path.lstat

    def of_another(path):
        found = list(lstat(path))
        found[4] += path.name == ".out.work"
        return os.stat_result(found)

    monkeypatch.setattr(Path, "lstat", of_another)
    refused(tmp_path, "belongs to another user")


def test_a_planted_description_of_the_run_is_not_read(tmp_path):
    with workplace(tmp_path / "theirs", {"run": 1}, 99):
        (note,) = (tmp_path / ".theirs.work").glob("*.npz")
        theirs = note.read_bytes()
    (tmp_path / "planted").write_bytes(theirs)
    (tmp_path / ".out.work").mkdir(mode=0o700)
    (tmp_path / ".out.work" / note.name).symlink_to(tmp_path / "planted")
    with (
        pytest.raises(br.InputError, match="is damaged: it does not name the run that was stopped"),
        workplace(tmp_path / "out", {"run": 1}, 5),
    ):
        pytest.fail("a planted description was followed")
    assert (tmp_path / "planted").read_bytes() == theirs


def test_steps_are_not_written_through_links(tmp_path):
    store = Store(tmp_path / "steps")
    store.put(("a",), np.arange(3))
    (file,) = store.folder.glob("*.npz")
    file.rename(tmp_path / "moved")
    file.symlink_to(tmp_path / "moved")
    with pytest.warns(UserWarning, match="damaged"):
        with pytest.raises(KeyError):
            store.get(("a",))
    file.with_suffix(".tmp").symlink_to(tmp_path / "victim")
    store.put(("a",), np.arange(4))
    assert not (tmp_path / "victim").exists() and not file.is_symlink()


# --- other runs -------------------------------------------------------------------------------


def stopped(study, monkeypatch):
    """A run stopped after its first step."""
    with monkeypatch.context() as patch, pytest.raises(Stop):
        stopped_after(patch, 0)
        run_study(study)


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A study of a file, its run stopped."""
    rng = np.random.default_rng(1)
    table = tmp_path / "data.csv"
    table.write_text("a,b\n" + "".join(f"{x},{y}\n" for x, y in rng.integers(0, 3, (60, 2))))
    given = {
        "random_seed": 1,
        "data": {"path": str(table), "levels": {"a": ["0", "1", "2"], "b": ["0", "1", "2"]}},
        "model": {"n_classes": 3, "draws": 20, "tune": 10, "chains": 2},
        "release": {"m": 1},
        "attribute": {"targets": 5},
        "output": {"folder": str(tmp_path / "out")},
    }
    stopped(parse_study(given), monkeypatch)
    return given


def with_changes(given, **changes):
    """The same study with some keys of its sections changed."""
    out = {k: dict(v) if isinstance(v, dict) else v for k, v in given.items()}
    for section, value in changes.items():
        out[section] = {**out[section], **value} if isinstance(value, dict) else value
    return parse_study(out)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model": {"draws": 40}}, "settings model draws was 20, is 40"),
        ({"random_seed": 2}, "settings random_seed was 1, is 2"),
        ({"data": {"levels": {"a": ["0", "2", "1"], "b": ["0", "1", "2"]}}}, "levels has changed"),
    ],
    ids=["draws", "seed", "levels"],
)
def test_another_study_is_refused_and_what_differs_is_named(begun, changes, told):
    with pytest.raises(br.InputError, match=told):
        run_study(with_changes(begun, **changes))
    run_study(with_changes(begun))  # what was kept is still there


def test_a_changed_file_is_refused_and_named(begun, tmp_path):
    table = tmp_path / "data.csv"
    table.write_text(table.read_text().replace("\n1,", "\n2,", 1))
    with pytest.raises(br.InputError, match=r"data\.csv has changed"):
        run_study(with_changes(begun))


def test_another_version_is_refused_and_named(begun, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("bayes_risk.app.run.runner.versions", lambda: {"bayes_risk": "99"})
        with pytest.raises(br.InputError, match='version bayes_risk was ".*", is "99"'):
            run_study(with_changes(begun))


def test_restart_throws_the_steps_away(begun, tmp_path):
    result = run_study(with_changes(begun, model={"draws": 40}), restart=True)
    assert result.diagnostics["draws"] == 40
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "out"]


def test_an_error_in_a_late_stage_keeps_finished_steps(begun, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise br.InputError("no")

    with monkeypatch.context() as patch, pytest.raises(br.InputError, match="no") as error:
        patch.setattr("bayes_risk.app.run.audit.judge", fails)
        run_study(with_changes(begun))
    assert "kept in" in error.value.__notes__[0]
    found = []
    run_study(with_changes(begun), progress=lambda stage, done, total: found.append(stage))
    assert found[0] == "steps found"
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "out"]


def test_what_is_kept_is_for_its_owner_alone(tmp_path, monkeypatch):
    table = tmp_path / "data.csv"
    table.write_text("a,b\n" + "u,x\nv,y\n" * 20)
    given = {
        "random_seed": 1,
        "data": {"path": str(table)},
        "model": {"n_classes": 3, "draws": 20, "tune": 10, "chains": 2},
        "release": {"m": 1},
        "attribute": {"targets": 5},
        "output": {"folder": str(tmp_path / "out")},
    }
    stopped(parse_study(given), monkeypatch)
    files = [p for p in (tmp_path / ".out.work").rglob("*") if p.is_file()]
    assert len(files) == 3
    assert [p.name for p in files if p.stat().st_mode & 0o077] == []


def test_differences_are_named_in_words():
    then, now = {"a": {"b": 1, "c": [1]}, "d": 2}, {"a": {"b": 1, "c": [2]}, "e": 3}
    assert differences(then, now) == ["a c was [1], is [2]", "d was 2, is null", "e was null, is 3"]
    assert differences({"file": {}}, {"file": {"x.csv": {"sha256": "1"}}}) == [
        "file x.csv has changed"
    ]


def held(output, ready, done):
    """Hold a workplace, as another process."""
    with workplace(Path(output), {"run": 1}, 0):
        ready.set()
        done.wait()


def test_one_run_at_a_time(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=held, args=(str(tmp_path / "out"), ready, done))
    other.start()
    try:
        assert ready.wait()
        with (
            pytest.raises(br.InputError, match="another run is writing '.*out'; wait for it, or"),
            workplace(tmp_path / "out", {"run": 1}, 0),
        ):
            pytest.fail("two runs")
    finally:
        done.set()
        other.join()
    with workplace(tmp_path / "out", {"run": 1}, 0):
        pass
    assert os.listdir(tmp_path) == []


def test_the_lock_of_a_dead_run_is_free(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=held, args=(str(tmp_path / "out"), ready, done))
    other.start()
    assert ready.wait()
    os.kill(other.pid, signal.SIGKILL)
    other.join()
    with workplace(tmp_path / "out", {"run": 1}, 0) as place:
        assert place.store.found == 0


CHILD = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from bayes_risk.app.run import run_study
from bayes_risk.app.study.files import files_behind
from bayes_risk.app.study.study import parse_study
import json, warnings
warnings.simplefilter("ignore")
study = parse_study(json.loads(sys.argv[2])).with_output(Path(sys.argv[3]))
def progress(stage, done, total):
    if stage != "steps found" and timer is None:
        start()
timer = None
def start():
    global timer
    timer = threading.Timer(float(sys.argv[4]), lambda: os.kill(os.getpid(), signal.SIGKILL))
    timer.daemon = True
    timer.start()
run_study(study, progress=progress)
"""


@pytest.mark.slow
@pytest.mark.parametrize("study", [CLASSES, NUTS], ids=["classes", "numbers"])
def test_killed_at_random_points(tmp_path, study):
    """Real processes, killed without warning until one ends."""
    run_study(parse_study(study).with_output(tmp_path / "whole"))
    rng, kills, limit = np.random.default_rng(7), 0, 1.0
    while not (tmp_path / "out").exists():
        after = str(rng.uniform(0.0, limit))
        words = [str(ROOT), json.dumps(study), str(tmp_path / "out"), after]
        done = python("-c", CHILD, *words)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        kills += done.returncode != 0
        limit *= 1.15  # compiling is no step: a slow machine needs longer
    assert kills > 3
    assert content(tmp_path / "out") == content(tmp_path / "whole")
    assert sorted(os.listdir(tmp_path)) == ["out", "whole"]


# --- every file that a run reads ----------------------------------------------------------------


@pytest.fixture
def begun_of_files(begun, tmp_path, monkeypatch):
    """The same of a synthesis that is named by its text file, with a helper of a build file."""
    table = tmp_path / "data.csv"
    export = tmp_path / "export"
    export.mkdir()
    for l in (1, 2):
        (export / f"syn_{l}.csv").write_text(table.read_text())
    (export / "synthesis_info_syn.txt").write_text(
        "Number of synthetic data sets: 2\nOutput file(s): (csv)\n"
    )
    given = dict(begun, release={"files": [str(export / "synthesis_info_syn.txt")]})
    given["release"]["columns"] = ["b"]
    given["output"] = {"folder": str(tmp_path / "files")}
    stopped(parse_study(given), monkeypatch)
    return given


@pytest.mark.parametrize("name", ["syn_1.csv", "syn_2.csv", "synthesis_info_syn.txt"])
def test_a_changed_file_behind_a_file_is_refused_and_named(begun_of_files, tmp_path, name):
    file = tmp_path / "export" / name
    file.write_text(file.read_text() + ("1,1\n" if name.endswith("csv") else "more: 1\n"))
    with pytest.raises(br.InputError, match=f"{name} has changed"):
        run_study(with_changes(begun_of_files))


def test_a_file_that_changes_while_it_is_read_is_refused(begun_of_files, tmp_path, monkeypatch):
    from bayes_risk.app.run import audit

    file, reads = tmp_path / "export" / "syn_1.csv", audit.provenance_of

    def changed_after(*given):
        file.write_text(file.read_text().replace("\n1,", "\n2,"))
        return reads(*given)

    monkeypatch.setattr(audit, "provenance_of", changed_after)
    with pytest.raises(br.InputError, match=r"syn_1\.csv has changed while it was read"):
        run_study(with_changes(begun_of_files))
    assert not (tmp_path / "files").exists()


def test_a_candidate_that_changes_while_it_is_read_is_refused(begun, tmp_path, monkeypatch):
    from bayes_risk.app.run import audit

    file, reads = tmp_path / "made.csv", audit.provenance_of
    file.write_text((tmp_path / "data.csv").read_text())

    def changed_after(*given):
        file.write_text(file.read_text().replace("\n1,", "\n2,"))
        return reads(*given)

    monkeypatch.setattr(audit, "provenance_of", changed_after)
    made = {"release": {"files": [str(file)], "columns": ["b"]}}
    compare = {"replicates": 1, "candidates": {"made": made}}
    given = begun | {"compare": compare, "output": {"folder": str(tmp_path / "compared")}}
    del given["attribute"]
    given["identification"] = {"known": ["a"], "synthesized": ["b"]}
    with pytest.raises(br.InputError, match=r"made\.csv has changed while it was read"):
        run_compare(parse_study(given))


def test_a_file_that_an_audit_reads_late_is_that_of_the_beginning(begun, tmp_path, monkeypatch):
    from bayes_risk.app.run import audit

    file, audits = tmp_path / "others.csv", audit.audits
    file.write_text("a,b\n" + "0,1\n2,2\n1,0\n" * 10)

    def changed_before(*given):
        file.write_text(file.read_text().replace("\n1,", "\n2,"))
        return audits(*given)

    monkeypatch.setattr(audit, "audits", changed_before)
    context = {"keys": ["a"], "target": ["b"], "holdout": str(file)}
    given = begun | {"context": context, "output": {"folder": str(tmp_path / "late")}}
    del given["attribute"]
    with pytest.raises(br.InputError, match=r"others\.csv has changed while the run went on"):
        run_study(parse_study(given))
    assert not (tmp_path / "late").exists()


def test_the_files_behind_a_python_file_are_those_that_it_imports(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "helper_of_build.py").write_text("import numpy\nimport further_of_build\n")
    (tmp_path / "further_of_build.py").write_text("import helper_of_build, json\n")
    build = tmp_path / "build.py"
    build.write_text("import helper_of_build\nimport bayes_risk, pandas\nimport no_such_module\n")
    names = ["build.py", "further_of_build.py", "helper_of_build.py"]
    assert sorted(p.name for p in files_behind(build)) == names
    monkeypatch.undo()  # scripts find what lies beside them
    (tmp_path / "folder_of_build").mkdir()  # no package: it has no __init__.py
    (tmp_path / "folder_of_build" / "inner.py").write_text("import further_of_build\n")
    (tmp_path / "helper_of_build.py").write_text("from folder_of_build.inner import x\n")
    assert sorted(p.name for p in files_behind(build)) == [*names, "inner.py"]


def test_the_catalog_of_a_sas_file_is_one_of_its_files(tmp_path):
    table = tmp_path / "a.sas7bdat"
    assert [*files_behind(table)] == [table]
    for name in ("formats.sas7bcat", "a.sas7bcat"):
        (tmp_path / name).write_text("")
        assert [*files_behind(table)] == [table, tmp_path / name]


def test_a_folder_that_is_no_synthesis_is_not_hashed(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("")
    assert [*files_behind(tmp_path)] == [tmp_path]
