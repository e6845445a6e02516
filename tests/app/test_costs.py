"""The bound on memory holds, near what is measured; a guard stops what passes the ceiling."""

import gc
import subprocess
import sys
import time
import tracemalloc
from contextlib import nullcontext
from dataclasses import fields

import numpy as np
import pandas as pd
import psutil
import pytest
from numba.core import event
from typer.testing import CliRunner

from bayes_risk._core import memory
from bayes_risk._core.checkpoint import Store, keeping, stage
from bayes_risk._core.errors import InputError, MemoryCeilingError
from bayes_risk._core.memory import at_stage, bytes_of, check_memory, guarded, resident
from bayes_risk.app.cli import app
from bayes_risk.app.run import run_study
from bayes_risk.app.run.runner import _without_compiling, estimate
from bayes_risk.app.study.study import parse_study
from bayes_risk.evidence import evidence
from bayes_risk.evidence import leave_one_out as log_ratios
from tests.helpers import worker_audits as audits

pytestmark = pytest.mark.check

FACTOR = 4  # that docs/reliability.md states
COLUMNS = [f"v{j}" for j in range(8)]
TOLD = r"took 9\.0 GiB in stage '.*', and max_memory is 8\.0 GiB; raise max_memory"
OTHERS = {
    "identification": {"known": ["v0"], "synthesized": ["v5", "v6"]},
    "utility": {"permutations": 2, "columns": ["v4", "v5", "v6", "v7"]},
    "context": {"keys": ["v0", "v1"], "target": ["v5"], "lookups": 100},
    "bounds": {},
}
DPMPM = {"kind": "DPMPM", "n_classes": 12, "draws": 30, "tune": 10, "chains": 2}
FEW = {"targets": 2_000, "refit_budget": 0}
WORK = {  # records, levels, study
    "trees": (6_000, 16, {"model": {"kind": "CART", "order": COLUMNS[5:]}, "release": {"m": 3},
                          "attribute": {"targets": 5_000}}),
    "what needs no model": (6_000, 16, OTHERS | {"model": {"kind": "CART", "order": COLUMNS[5:]},
                                                 "release": {"m": 3}}),
    "forests": (4_000, 6, {"model": {"kind": "Forest", "order": ["v7"], "n_trees": 60},
                           "release": {"m": 2}, "attribute": {"targets": 500}}),
    "mean matching": (3_000, 4, {"model": {"kind": "PMM", "order": COLUMNS[6:],
                                           "identifying": COLUMNS[3:], "threshold": 10},
                                 "release": {"m": 3}, "attribute": {}}),
    "mixtures": (4_000, 5, {"model": DPMPM, "release": {"m": 2}, "attribute": FEW}),
    "longer chains": (2_000, 5, {"model": DPMPM, "release": {"m": 2}, "attribute": FEW | {
        "targets": 400, "target_mcse": 1e-9, "max_doublings": 3}}),
    "members": (1_000, 4, {"model": DPMPM, "release": {"m": 2}, "membership": {
        "records": 150, "alternatives": 100, "refit_budget": 0}}),
    "full table": (1_000, 4, {"model": DPMPM, "release": {"m": 2},
                              "full_table": {"targets": 1, "draws": 30}}),
}  # fmt: skip
EVERY_DAY = {"trees"}


def table(n, d, seed=2):
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.geometric(0.5 if d == 4 else 0.3, size=(n, len(COLUMNS))) - 1, d - 1)
    return pd.DataFrame({c: [f"c{k}" for k in codes[:, j]] for j, c in enumerate(COLUMNS)})


def study_of(path, **more):
    model = {"kind": "CART", "order": ["v1", "v2"]}
    content = {"data": {"path": str(path)}, "random_seed": 1, "model": model}
    return parse_study(content | {"release": {"m": 2}, "attribute": {"targets": 50}} | more)


@pytest.fixture
def path(tmp_path):
    table(300, 4).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def same(one, other):
    arrays = [f.name for f in fields(one) if isinstance(getattr(one, f.name), np.ndarray)]
    return all(getattr(one, a).tobytes() == getattr(other, a).tobytes() for a in arrays)


# --- the bound --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"), [("2GiB", 2**31), ("1.5 MB", 1_500_000), ("7", 7), (" 3kib ", 3072)]
)
def test_amounts_are_read(text, size):
    assert bytes_of(text) == size


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "name", [n if n in EVERY_DAY else pytest.param(n, marks=pytest.mark.slow) for n in WORK]
)
def test_what_is_allocated_stays_beneath_the_bound_and_near_it(tmp_path, name):
    n, d, content = WORK[name]
    df = table(n, d)
    for file, rows in (("t.csv", n), ("few.csv", 500)):
        df[:rows].to_csv(tmp_path / file, index=False)
    study, small = (
        parse_study(content | {"data": {"path": str(tmp_path / f)}, "random_seed": 1})
        for f in ("t.csv", "few.csv")
    )
    cost = estimate(study, n_jobs=1, time=False)
    bound = cost.data
    run_study(small, n_jobs=1)  # whatever is imported and compiled, before
    gc.collect()
    tracemalloc.start()
    try:
        run_study(study, n_jobs=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    loaded = 32 * 2**20  # code that the small run did not need: of the program's allowance
    assert peak - loaded < bound < FACTOR * peak, (bound / 2**20, peak / 2**20)


def test_how_much_longer_an_audit_may_take_is_said(path):
    """Up to two to the power of the doublings; of evidence in closed form nothing."""
    found = {}
    for kind, model in (("CART", {"kind": "CART", "order": ["v1", "v2"]}), ("DPMPM", DPMPM)):
        for asked in ({}, {"target_mcse": 0.1, "max_doublings": 3}):
            audit = {"targets": 50, **asked}
            cost = estimate(study_of(path, model=model, attribute=audit), n_jobs=1, time=False)
            found[kind, bool(asked)] = cost
            said = "attribute risk again, up to 8 times as long, to reach target_mcse" in str(cost)
            assert said == (kind == "DPMPM" and bool(asked))
    assert found["CART", True].data == found["CART", False].data
    assert found["DPMPM", True].data > found["DPMPM", False].data


def test_errors_in_parts_are_those_of_the_whole(monkeypatch):
    deviations = np.random.default_rng(1).normal(size=(3, 4, 5, 83)).astype(np.float32)
    none = np.zeros(83)
    found = evidence.Evidence(
        log_evidence=np.zeros((2, 5, 83)),
        deviations=deviations,
        khat=none,
        ess=none,
    )
    whole = found.mcse()
    monkeypatch.setattr(evidence, "PART", 1)
    assert found.mcse().tobytes() == whole.tobytes()


@pytest.mark.slow
def test_sizes_of_blocks_change_no_bit(monkeypatch):
    expected = audits.alone("DPMPM")
    monkeypatch.setattr(log_ratios, "BLOCK", 1)
    assert audits.found("DPMPM", n_jobs=1) == expected


def test_a_lone_last_target_joins_the_block_before(monkeypatch):
    class Draws:
        batch = np.arange(4)

    monkeypatch.setattr(log_ratios, "MAX_TARGET_DRAWS", 1)
    monkeypatch.setattr(log_ratios, "BLOCK", 8)
    for n in range(1, 40):
        blocks = log_ratios.target_blocks(Draws(), range(n))
        assert [k for b in blocks for k in range(b.start, b.stop)] == list(range(n))
        assert n == 1 or min(b.stop - b.start for b in blocks) > 1


def test_what_cannot_be_held_is_refused_before_the_work(path, tmp_path):
    study = study_of(path, output={"folder": str(tmp_path / "out")})
    with pytest.raises(InputError, match=r"needs up to .*, and max_memory is 100 MiB; audit fewer"):
        run_study(study, n_jobs=1, max_memory="100MiB")
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_a_ceiling_that_holds_changes_no_result(path):
    free, bound = (run_study(study_of(path), max_memory=size) for size in (None, "8GiB"))
    assert same(free.attribute, bound.attribute)


def test_what_is_no_option_of_a_run_is_named(path):
    with pytest.raises(TypeError, match="unexpected keyword argument 'jobs'"):
        run_study(study_of(path), jobs=2)


# --- the guard --------------------------------------------------------------------------------


def test_without_a_ceiling_nothing_is_looked_at(monkeypatch):
    monkeypatch.setattr(memory, "resident", lambda: pytest.fail("looked"))
    with guarded(None), at_stage("fit"):
        check_memory()


@pytest.mark.parametrize(("taken", "stops"), [(8, False), (9, True)])
def test_what_passes_the_ceiling_is_told_with_its_stage(monkeypatch, taken, stops):
    monkeypatch.setattr(memory, "resident", lambda: taken * 2**30)
    monkeypatch.setattr(memory, "SECONDS", 0.0)
    told = pytest.raises(MemoryCeilingError, match=TOLD) if stops else nullcontext()
    with guarded(8 * 2**30), told:
        monkeypatch.setattr(memory, "resident", lambda: 1)
        with at_stage("fit"), at_stage("attribute risk"):
            monkeypatch.setattr(memory, "resident", lambda: taken * 2**30)
            check_memory()


def test_it_looks_twice_a_second_at_most(monkeypatch):
    looks = []
    monkeypatch.setattr(memory, "resident", lambda: looks.append(time.monotonic()) or 1)
    with guarded(10):
        for _ in range(1000):
            check_memory()
    assert len(looks) == 1


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


def test_a_process_that_has_ended_takes_nothing(monkeypatch):
    class Gone:
        def memory_full_info(self):
            raise psutil.NoSuchProcess(1)

    monkeypatch.setattr(psutil.Process, "children", lambda self, recursive: [Gone()])
    assert resident() > 0


def test_a_step_is_kept_before_the_run_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "resident", lambda: 11)
    store = Store(tmp_path / "steps")
    with guarded(10), keeping(store), pytest.raises(MemoryCeilingError):
        stage("one", lambda: np.ones(2))
    assert len(store) == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_run_that_passes_its_ceiling_goes_on_with_a_higher_one(tmp_path, path, monkeypatch):
    """It ends with the bytes of a run that was never stopped."""

    def numbers(folder):
        return [(folder / name).read_bytes() for name in ("summary.json", "records.csv", "risk.nc")]

    model = {"kind": "DPMPM", "n_classes": 12, "draws": 20, "tune": 10, "chains": 2}
    more = {"model": model, "attribute": {"refit_budget": 0}}
    whole, study = (
        study_of(path, **more, output={"folder": str(tmp_path / name)}) for name in ("whole", "out")
    )
    run_study(whole, n_jobs=1)
    taken, found = [1], []
    monkeypatch.setattr(memory, "SECONDS", 0.0)
    monkeypatch.setattr(memory, "resident", lambda: taken[0])

    def progress(stage, done, total):
        if stage == "evidence" and done == 1:
            taken[0] = 9 * 2**30

    with pytest.raises(MemoryCeilingError, match=TOLD) as stopped:
        run_study(study, n_jobs=1, max_memory="8GiB", progress=progress)
    assert "kept in" in stopped.value.__notes__[0]
    assert not (tmp_path / "out").exists()
    run_study(study, n_jobs=1, max_memory="16GiB", progress=lambda *step: found.append(step))
    assert found[0][0] == "steps found" and found[0][1] > 0
    assert numbers(tmp_path / "out") == numbers(tmp_path / "whole")


def test_the_command_says_it_in_one_line(tmp_path, path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(
        'data = { path = "t.csv" }\nmodel = { kind = "CART", order = ["v1"] }\nattribute = {}\n'
    )
    monkeypatch.setattr(memory, "resident", lambda: 9 * 2**30)
    result = CliRunner().invoke(app, ["audit", "s.toml", "--max-memory", "8GiB"])
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "the run took 9.0 GiB" in said
    assert "Traceback" not in result.output


def test_a_first_run_is_not_estimated_with_what_it_compiles():
    """The time to compile was multiplied by the number of records: 218 s for a run of 75 s."""
    with _without_compiling() as now:
        start, begun = now(), time.process_time()
        event.start_event("numba:compile")
        event.start_event("numba:compile")  # one loop compiles another
        event.end_event("numba:compile")
        while (compiled := time.process_time() - begun) < 0.05:
            pass
        event.end_event("numba:compile")
        assert 0 <= now() - start < compiled / 2
