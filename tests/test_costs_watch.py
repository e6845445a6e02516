"""The watch on memory: a run that passes its ceiling stops between steps, and can go on later."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bayes_risk._core import watch
from bayes_risk._core.errors import MemoryCeilingError
from bayes_risk._core.steps import Store, keeping, kept, packing_of
from bayes_risk._core.watch import Watch, at_stage, check_memory, resident, watched
from bayes_risk.app.cli import app
from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import parse_study
from bayes_risk.evidence.leave_one_out import Ratio

pytestmark = pytest.mark.check

HAS_PROC = Path("/proc/self/statm").exists()
TOLD = r"took 9\.0 GiB in stage 'attribute risk', and max_memory is 8\.0 GiB; raise max_memory"


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(3)
    codes = np.minimum(rng.poisson(1.0, (200, 4)), 3)
    path = tmp_path / "t.csv"
    pd.DataFrame({f"v{j}": [f"c{k}" for k in codes[:, j]] for j in range(4)}).to_csv(
        path, index=False
    )
    return path


def study_of(path, folder):
    model = {"kind": "DPMPM", "n_classes": 12, "draws": 20, "tune": 10, "chains": 2}
    return parse_study(
        {
            "data": {"path": str(path)},
            "random_seed": 1,
            "model": model,
            "release": {"m": 2},
            "attribute": {"refit_budget": 0},
            "output": {"folder": str(folder)},
        }
    )


@pytest.fixture
def growing(monkeypatch):
    """Memory that passes any ceiling as soon as the evidence of a fit has been gathered."""
    passed, looks, seen = threading.Event(), [], threading.Event()
    monkeypatch.setattr(watch, "SECONDS", 0.002)

    def resident():
        if not passed.is_set():
            return 1
        looks.append(len(looks))
        if len(looks) == 3:  # the first look, of two readings, has been noted
            seen.set()
        return 9 * 2**30

    monkeypatch.setattr(watch, "resident", resident)

    def progress(stage, done, total):
        if stage == "evidence" and done == 1:
            passed.set()
            seen.wait()

    return progress


def numbers(folder):
    return [(folder / name).read_bytes() for name in ("summary.json", "records.csv", "risk.nc")]


# --- one look --------------------------------------------------------------------------------


def test_what_is_beneath_the_ceiling_goes_on():
    seen = Watch(10, lambda: 10)
    seen.look()
    seen.check()
    assert seen.most == 10


def test_what_passes_it_is_told_with_memory_ceiling_stage_and_cure():
    seen = Watch(8 * 2**30, lambda: 9 * 2**30)
    seen.stage = "attribute risk"
    seen.look()
    seen.stage = "report"
    with pytest.raises(MemoryCeilingError, match=TOLD):
        seen.check()


def test_memory_that_is_free_is_given_back_before_it_counts(monkeypatch):
    held = [20]
    monkeypatch.setattr(watch, "give_back", lambda: held.__setitem__(0, 5))
    seen = Watch(10, lambda: held[0])
    seen.look()
    seen.check()
    assert seen.most == 5


def test_without_a_ceiling_nothing_is_watched():
    before = threading.active_count()
    with watched(None) as none:
        assert none is None
        assert threading.active_count() == before
        check_memory()


def test_the_thread_looks_and_ends_with_the_block(monkeypatch):
    monkeypatch.setattr(watch, "SECONDS", 0.001)
    with pytest.raises(MemoryCeilingError), watched(10, lambda: 11) as seen:
        while True:
            check_memory()
            time.sleep(0.001)
    assert seen.most == 11
    assert not seen._thread.is_alive()
    check_memory()


def test_the_stage_is_the_innermost_and_then_the_one_around_it():
    with watched(10, lambda: 0) as seen:
        with at_stage("fit"):
            with at_stage("chains"):
                assert seen.stage == "chains"
            assert seen.stage == "fit"
        assert seen.stage == ""


@pytest.mark.skipif(not HAS_PROC, reason="the system does not tell of memory")
def test_memory_of_this_process_and_of_those_it_started():
    alone, size = resident(), 200 * 2**20
    held = np.ones(size, dtype=np.int8)
    with_array = resident()
    assert 0.9 * size < with_array - alone < 1.2 * size
    code = f"x = bytes([1]) * {size}; print(len(x), flush=True); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        child.stdout.readline()
        both = resident()
        child.communicate("\n")
    assert held.all()
    assert 0.9 * size < both - with_array < 1.3 * size


def test_where_the_system_does_not_tell_nothing_is_known(monkeypatch):
    monkeypatch.setattr(watch, "PROC", Path("/nowhere"))
    assert resident() == 0


# --- in a run --------------------------------------------------------------------------------


def test_a_step_is_kept_before_the_run_stops(tmp_path):
    two, four = np.ones(2), np.ones((2, 2))
    part = Ratio(value=four, deviation=four, khat=two, ess=two)
    store = Store(tmp_path / "steps")
    with watched(10, lambda: 11) as seen, keeping(store):
        seen.look()
        with pytest.raises(MemoryCeilingError):
            kept("one", lambda: part, packing_of(Ratio))
    assert list(store.steps) == ["/one"]


@pytest.mark.filterwarnings("ignore::bayes_risk.UnreliableWeightsWarning")
def test_a_run_that_passes_its_ceiling_goes_on_with_a_higher_one(tmp_path, table, growing):
    """It ends with the bytes of a run that was never stopped."""
    whole, study = tmp_path / "whole", study_of(table, tmp_path / "out")
    run_study(study_of(table, whole), n_jobs=1)
    with pytest.raises(MemoryCeilingError, match=TOLD) as stopped:
        run_study(study, n_jobs=1, max_memory="8GiB", progress=growing)
    assert "kept in" in stopped.value.__notes__[0]
    assert not (tmp_path / "out").exists()
    found = []
    run_study(study, n_jobs=1, max_memory="16GiB", progress=lambda *step: found.append(step))
    assert found[0][0] == "steps found"
    assert found[0][1] > 0
    assert numbers(tmp_path / "out") == numbers(whole)


def test_the_command_says_it_in_one_line(tmp_path, table, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(
        'data = { path = "t.csv" }\nmodel = { kind = "CART", order = ["v1"] }\nattribute = {}\n'
    )
    monkeypatch.setattr(watch, "SECONDS", 0.001)
    monkeypatch.setattr(watch, "resident", lambda: 9 * 2**30)
    result = CliRunner().invoke(app, ["audit", "s.toml", "--max-memory", "8GiB"])
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "the run took 9.0 GiB" in said
    assert "Traceback" not in result.output
