"""A run that is killed leaves no worker: workers have the table in memory."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

pytestmark = [
    pytest.mark.check,
    pytest.mark.skipif(os.name == "nt", reason="process groups and SIGKILL"),
]

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120  # polls of half a second: far more than are needed
BUILD = """
import pymc as pm

def build(df):
    with pm.Model() as model:
        x = pm.Data("x", df["x"])
        pm.Normal("x_", pm.Normal("mu", 0, 10), 1, observed=x)
    return model
"""
CHAINS = """
[model]
kind = "PyMCModel"
build = "build.py:build"
columns = ["x"]
draws = 100000
tune = 1000
chains = 2
[release]
m = 1
[attribute]
guesses = { x = { additive = 1.0, n = 3 } }
"""
REFITS = """
[model]
n_classes = 10
draws = 2000
tune = 2000
[release]
m = 1
[attribute]
evidence = "refit"
refit_budget = 60
targets = 60
"""
STUDIES = {
    "chains": (CHAINS, "threads"),
    "loky": (REFITS, "loky"),
    "dask": (REFITS, "dask"),
}


def group(leader, least=0):
    """Processes of a group that still run and hold so many bytes."""
    found = []
    for process in psutil.process_iter():
        try:
            runs = process.status() != psutil.STATUS_ZOMBIE
            if os.getpgid(process.pid) == leader and runs and process.memory_info().rss >= least:
                found.append(process)
        except (psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            continue
    return found


def polled(holds):
    """Whether something comes to hold."""
    for _ in range(LIMIT):
        if holds():
            return True
        time.sleep(0.5)
    return False


@pytest.mark.parametrize("study", ["chains", "loky", pytest.param("dask", marks=pytest.mark.slow)])
def test_no_worker_is_left_when_the_run_is_killed(tmp_path, study):
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": rng.normal(size=80).round(1)})
    if study != "chains":
        table = pd.DataFrame(rng.integers(0, 3, (80, 3)), columns=list("abc")).astype(str)
    table.to_csv(tmp_path / "o.csv", index=False)
    (tmp_path / "build.py").write_text(BUILD)
    text, backend = STUDIES[study]
    (tmp_path / "s.toml").write_text(f'random_seed = 1\n[data]\npath = "o.csv"\n{text}')
    run = subprocess.Popen(
        [sys.executable, "-P", "-m", "bayes_risk", "audit", "s.toml", "--backend", backend],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )

    def workers():
        """All but the run itself that hold as much memory as Python with NumPy does."""
        return [process for process in group(run.pid, 60 * 2**20) if process.pid != run.pid]

    try:
        begun = polled(lambda: len(workers()) >= 2 or run.poll() is not None)
        assert begun and run.poll() is None, run.stdout.read().decode()
        os.kill(run.pid, signal.SIGKILL)
        assert polled(lambda: not group(run.pid)), group(run.pid)
    finally:
        for process in group(run.pid):
            process.kill()
        run.wait()
        run.stdout.close()
