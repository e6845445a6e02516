"""What lies in the folder in which a command is given is neither run, loaded nor read."""

import json
import os
import pickle
import stat
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest

from bayes_risk._core import surroundings

ROOT = Path(__file__).resolve().parents[2]
WATCH = """
import json, os, sys
here, opened = os.getcwd(), set()
def watch(event, args):
    if event == "open" and isinstance(args[0], str):
        path = os.path.abspath(args[0])
        if path.startswith(here):
            opened.add(os.path.relpath(path, here))
sys.addaudithook(watch)
sys.argv = ["bayes-risk", *json.loads(os.environ["ARGV"])]
from bayes_risk.app.cli import main
try:
    main()
finally:
    print("OPENED", json.dumps(sorted(opened)))
"""
FILES = {"o.sav", "o.xlsx"}
RUNS = {
    "audit": (["audit", "s.toml", "-o", "out", "--jobs", "2"], {"s.toml", "o.csv"}),
    "loky": (["audit", "s.toml", "-o", "out", "--backend", "loky"], {"s.toml", "o.csv"}),
    "identify": (
        ["identify", "o.csv", "r.csv", "--known", "sex", "--synthesized", "job", "-o", "out"],
        {"o.csv", "r.csv"},
    ),
    "init": (["init", "o.csv", "-o", "new.toml"], {"o.csv"}),
    "dask": (["compare", "c.toml", "-o", "out", "--backend", "dask"], {"c.toml", "o.parquet"}),
    "sweep": (["sweep", "c.toml", "-o", "out"], {"c.toml", "o.parquet"}),
    "files": (["identify", "o.sav", "o.xlsx", "--synthesized", "job", "-o", "out"], FILES),
    "pymc": (  # what lies beside build.py is hashed, which may import it, and not run
        ["audit", "p.toml", "-o", "out", "--jobs", "2"],
        {"p.toml", "n.csv", "build.py", "pymc.py"},
    ),
}
STUDY = """
random_seed = 1
[data]
path = "o.csv"
[model]
n_classes = 2
draws = 20
tune = 20
[release]
columns = ["job"]
m = 1
[attribute]
"""


LONG = ("dask", "loky", "sweep")
COMPARED = """
random_seed = 1
[data]
path = "o.parquet"
[model]
kind = "CART"
order = ["job"]
[release]
columns = ["job"]
[attribute]
targets = 3
[utility]
permutations = 2
[context]
keys = ["job"]
[sweep]
m = [1, 2]
[compare]
replicates = 1
a = { release = { m = 1 } }
b = { release = { m = 2 } }
[output]
redact = true
"""
SAMPLED = """
random_seed = 1
[data]
path = "n.csv"
[model]
kind = "PyMCModel"
build = "build.py:build"
columns = ["x"]
draws = 20
tune = 20
chains = 2
[release]
m = 1
[attribute]
targets = 2
guesses = { x = { additive = 1.0, n = 3 } }
"""
BUILD = """
import pymc as pm

def build(df):
    with pm.Model() as model:
        x = pm.Data("x", df["x"])
        pm.Normal("x_", pm.Normal("mu", 0, 10), 1, observed=x)
    return model
"""
READ = {  # files for which libraries, compilers and linkers look, and what would be noticed
    ".numba_config.yaml": "cache_dir: evil\n",
    **dict.fromkeys(
        ("matplotlibrc", ".matplotlib", "arvizrc"), "text.usetex: True\ndata.no_key: 1\n"
    ),
    **dict.fromkeys(
        (".pytensorrc", ".theanorc", ".aesararc"), "[global]\ncxx = /no/such/compiler\n"
    ),
    **dict.fromkeys(("dask.yaml", "distributed.yaml", ".dask", "config.yaml"), "]["),
    **dict.fromkeys((".netrc", ".env", ".duckdbrc", "fonts.conf", "pyvenv.cfg", "specs"), "]["),
    **dict.fromkeys(("pyproject.toml", "setup.cfg", "tox.ini", "logging.conf"), "]["),
    **dict.fromkeys(("libgcc_s.so.1", "libm.so.6", "libc.so.6", "libmvec.so.1"), "]["),
    **dict.fromkeys(("-lc", "-lm", "-lgcc", "crti.o", "jupyter_config.py"), "]["),
}


class Planted:
    """Writes a file when it is loaded."""

    def __reduce__(self):
        return os.system, ("touch RAN_pickle",)


@pytest.fixture
def folder(tmp_path):
    """Files of a run, with a plant for every library that is imported."""
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"sex": rng.choice(["f", "m"], 60), "job": rng.choice(list("abc"), 60)})
    df.to_csv(tmp_path / "o.csv", index=False)
    df.assign(job=rng.permutation(df["job"])).to_csv(tmp_path / "r.csv", index=False)
    (tmp_path / "s.toml").write_text(STUDY)
    df.to_parquet(tmp_path / "o.parquet")
    df.to_excel(tmp_path / "o.xlsx", index=False)
    pyreadstat.write_sav(df, tmp_path / "o.sav")
    pd.DataFrame({"x": rng.normal(size=30).round(1)}).to_csv(tmp_path / "n.csv", index=False)
    for name, text in {"c": COMPARED, "p": SAMPLED}.items():
        (tmp_path / f"{name}.toml").write_text(text)
    (tmp_path / "build.py").write_text(BUILD)
    for name, text in READ.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "evil").mkdir()
    for name in {*packages_distributions(), *sys.stdlib_module_names, "sitecustomize"}:
        if name.isidentifier() and name != "bayes_risk":
            (tmp_path / f"{name}.py").write_text(f"open('RAN_{name}', 'w')\n")
    return tmp_path


def plant_pickles(folder, package=ROOT / "bayes_risk"):
    """A pickle in the place of every index that Numba would look for in the cache that is named."""
    for index in package.rglob("*.nbi"):
        place = folder / "evil" / f"{index.parent.parent.name}_{index.parent.parent.name}"
        for where in (folder / "evil", place):
            where.mkdir(exist_ok=True)
            (where / index.name).write_bytes(pickle.dumps(Planted()))


@pytest.mark.check
@pytest.mark.parametrize(
    "run", [pytest.param(r, marks=pytest.mark.slow) if r in LONG else r for r in RUNS]
)
def test_a_command_reads_its_files_alone(folder, run):
    argv, expected = RUNS[run]
    plant_pickles(folder)
    before = {str(p.relative_to(folder)) for p in folder.rglob("*")}
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", WATCH],
        cwd=folder,
        env=env | {"PYTHONPATH": str(ROOT), "ARGV": json.dumps(argv)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    opened = set(json.loads(done.stdout.rpartition("OPENED ")[2]))
    assert opened & before == expected
    new = {p.name for p in folder.iterdir()} - {p.partition("/")[0] for p in before}
    assert new == {"new.toml" if run == "init" else "out"}


@pytest.mark.check
def test_the_module_imports_nothing_from_the_folder_either(folder):
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "bayes_risk", *RUNS["init"][0]]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ran = sorted(p.name for p in folder.glob("RAN_*"))
    assert ran in ([], ["RAN_sitecustomize"])  # Python imports that one before any of our code


def cache_of(monkeypatch, tmp_path, **environment):
    """The folder that the command gives to Numba when the package cannot be written."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "unset")
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))
    held = surroundings.numba_cache()
    return held, Path(os.environ["NUMBA_CACHE_DIR"])


def test_compiled_functions_are_kept_where_the_user_alone_can_write(tmp_path, monkeypatch):
    held, place = cache_of(monkeypatch, tmp_path, XDG_CACHE_HOME=tmp_path / "cache")
    assert held is None and place == tmp_path / "cache/bayes-risk"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.parametrize("what", ["link", "open", "file"])
def test_a_cache_that_others_can_write_is_not_used(tmp_path, monkeypatch, what):
    cache = tmp_path / "cache"
    cache.mkdir()
    if what == "link":
        (cache / "bayes-risk").symlink_to(tmp_path)
    elif what == "open":
        (cache / "bayes-risk").mkdir()
        (cache / "bayes-risk").chmod(0o777)
    else:
        (cache / "bayes-risk").write_text("")
    held, place = cache_of(monkeypatch, tmp_path, XDG_CACHE_HOME=cache)
    assert held is not None and place == Path(held.name)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    held.cleanup()


@pytest.mark.parametrize(("mode", "used"), [(0o755, True), (0o777, False)])
def test_a_cache_that_the_user_names_is_used_if_nobody_else_can_write_to_it(
    tmp_path, monkeypatch, mode, used
):
    named = tmp_path / "named"
    named.mkdir()
    named.chmod(mode)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(named))
    held, place = surroundings.numba_cache(), Path(os.environ["NUMBA_CACHE_DIR"])
    assert (held is None) == used and (place == named) == used
    if held is not None:
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        held.cleanup()


def test_without_a_home_the_cache_goes_with_the_process(tmp_path, monkeypatch):
    held, place = cache_of(monkeypatch, tmp_path, XDG_CACHE_HOME="/proc/none/there")
    assert held is not None and place.is_dir()
    held.cleanup()
    assert not place.exists()
