"""No pickle is loaded, no network is needed, and what a command writes is its owner's alone."""

import ast
import errno
import os
import pickle
import shlex
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk._core.checkpoint import Store
from bayes_risk.app import cli as process
from bayes_risk.app.cli import _plain_errors, app
from bayes_risk.app.output import write_json
from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import read_study
from bayes_risk.data.kinds import SUFFIXES
from bayes_risk.data.table import read_table
from bayes_risk.release.synthpop import read_releases
from tests.helpers.programs import python
from tests.helpers.sources import parsed

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [*(ROOT / "bayes_risk").rglob("*.py")]
AUDIT = (
    'random_seed = 1\n[data]\npath = "people.csv"\n[model]\nkind = "CART"\norder = ["job"]\n'
    '[release]\nm = 2\n[attribute]\n[identification]\nknown = ["age"]\nsynthesized = ["job"]\n'
    "[utility]\npermutations = 2\n"
)

# --- pickles and code -------------------------------------------------------------------------

LOADERS = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "torch", "yaml"}
CALLS = {"eval", "exec", "read_pickle", "to_pickle", "load_pickle", "allow_pickle", "compile"}
# Terms of formulas, after they were taken apart and all but arithmetic was refused.
# Stages that were kept: NumPy refuses pickles unless asked, and the file's hash is checked before.
MAY = {
    "bayes_risk/models/regression/formulas.py": ["eval", "compile"],
    "bayes_risk/_core/checkpoint.py": ["load"],
}
OF = {("joblib", "load"), ("joblib", "dump"), ("np", "load"), ("np", "save"), ("np", "fromfile")}


def loads_or_runs(path):
    """What a source calls or imports that loads pickles or runs text."""
    found = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.partition(".")[0] in LOADERS]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module] * ((node.module or "").partition(".")[0] in LOADERS)
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            found.append(node.arg)
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in CALLS:
                found.append(called.id)
            if isinstance(called, ast.Attribute):
                named = {ast.unparse(called.value)} if called.attr in {of[1] for of in OF} else ()
                of = any((name, called.attr) in OF for name in named)
                found += [called.attr] * (of or called.attr in {"read_pickle", "to_pickle"})
    return found


def test_no_source_loads_a_pickle_or_runs_text():
    found = {str(path.relative_to(ROOT)): loads_or_runs(path) for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == MAY


class Bomb:
    """A pickle that makes a folder where it is loaded."""

    def __init__(self, target: Path) -> None:
        self.target = str(target)

    def __reduce__(self):
        return os.mkdir, (self.target,)


BOMBS = {f"{suffix}-{protocol}": (suffix, protocol)
         for suffix in (*SUFFIXES, ".nc", ".pkl", ".npy") for protocol in (0, 5)}  # fmt: skip


@pytest.mark.check
@pytest.mark.parametrize(("suffix", "protocol"), BOMBS.values(), ids=BOMBS)
def test_a_pickle_under_another_name_is_not_loaded(tmp_path, suffix, protocol):
    """Protocol 0 is text, and may pass for a table of it; any other is a named error."""
    target, file = tmp_path / "ran", tmp_path / f"a{suffix}"
    file.write_bytes(pickle.dumps(Bomb(target), protocol=protocol))
    original = pd.DataFrame({"a": ["x", "y"]})
    for read in (lambda: read_table(file), lambda: read_releases([file], original)):
        try:
            table = read()
        except br.InputError as error:
            assert file.name in str(error)
        else:
            assert protocol == 0 and suffix == ".csv", table
    assert not target.exists()
    pickle.loads(file.read_bytes())  # it would have
    assert target.exists()


def test_a_pickled_table_of_pandas_and_of_numpy_is_refused(tmp_path):
    pd.DataFrame({"a": [1, 2]}).to_pickle(tmp_path / "a.csv")
    np.save(tmp_path / "b.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    for name in ("a.csv", "b.npy"):
        with pytest.raises(br.InputError, match=name):
            read_table(tmp_path / name)


def test_a_study_file_that_is_a_pickle_is_refused(tmp_path):
    (tmp_path / "s.toml").write_bytes(pickle.dumps(Bomb(tmp_path / "ran"), protocol=4))
    with pytest.raises(br.InputError, match=r"s\.toml"):
        read_study(tmp_path / "s.toml")
    assert not (tmp_path / "ran").exists()


def test_a_kept_step_that_became_a_pickle_is_computed_again(tmp_path):
    store = Store(tmp_path / "steps")
    store.put(("fit",), {"a": np.arange(3)})
    (file,) = (tmp_path / "steps").glob("*.npz")
    file.write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(KeyError):
        Store(tmp_path / "steps").get(("fit",))
    assert not (tmp_path / "ran").exists()


def test_kept_steps_hold_no_objects(tmp_path):
    store = Store(tmp_path / "steps")
    store.put(("fit",), {"a": np.array([{}, "b"], dtype=object)})
    assert len(store) == 0


@pytest.mark.parametrize("brought", [b"pickle", "draws.pkl", {"y": Bomb(Path("ran"))}])
def test_draws_are_tables_and_nothing_else(tmp_path, monkeypatch, brought):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "draws.pkl").write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))
    model = br.models.Regression({"y": "1 + x"})
    df = pd.DataFrame({"x": np.arange(20.0), "y": np.arange(20.0)})
    with pytest.raises(br.InputError):
        model.from_draws(df, brought)
    assert not (tmp_path / "ran").exists()


# --- the network ------------------------------------------------------------------------------


def people(folder: Path) -> None:
    rng = np.random.default_rng(1)
    table = {"age": rng.choice(["young", "old"], 40), "job": rng.choice(["a", "b", "c"], 40)}
    pd.DataFrame(table).to_csv(folder / "people.csv", index=False)
    (folder / "s.toml").write_text(AUDIT)


@pytest.mark.check
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_audit_and_its_report_open_no_socket(tmp_path, monkeypatch):
    people(tmp_path)
    opened = []

    def refused(*words, **options):
        opened.append(words)
        raise OSError("no network")

    for name in ("socket", "create_connection", "getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, refused)
    study = read_study(tmp_path / "s.toml").with_output(tmp_path / "out")
    result = run_study(study, n_jobs=1)
    br.report(result.attribute, result.identification, result.utility, tmp_path / "r.html")
    assert opened == []
    for path in (tmp_path / "r.html", tmp_path / "out" / "report.html"):
        text = path.read_text()
        assert not [tag for tag in ('src="http', "src='http", "@import", "<link ") if tag in text]


def _alone() -> list[str]:
    """What starts a program in a network namespace without interfaces."""
    words = ["unshare", "--user", "--map-root-user", "--net"]
    try:
        done = subprocess.run([*words, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if done.returncode:
        pytest.skip(f"unshare is not permitted: {done.stderr.decode().strip()}")
    return words


@pytest.mark.check
def test_an_audit_runs_where_there_is_no_network(tmp_path):
    words = _alone()
    people(tmp_path)
    reach = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
    cut_off = subprocess.run([*words, sys.executable, "-c", reach], capture_output=True,
                             text=True,
                             check=False)  # fmt: skip
    assert "unreachable" in cut_off.stderr.lower()  # no route, not even to itself
    command = [sys.executable, "-m", "bayes_risk.app.cli", "audit", "s.toml", "--jobs", "1"]
    done = subprocess.run([*words, *command], cwd=tmp_path, capture_output=True,
                          text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "s-risk" / "report.html").is_file()


def test_numbers_are_not_written_through_a_link(tmp_path):
    (tmp_path / "n.json").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        write_json(tmp_path / "n.json", {"a": 1})
    words = ["identify", "a.csv", "b.csv", "--json", str(tmp_path / "n.json")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2 and "exists; give a new name to --json" in done.output
    assert os.listdir(tmp_path) == ["n.json"]


# --- whose files they are ---------------------------------------------------------------------


@pytest.mark.check
def test_a_command_writes_for_its_owner_alone_whatever_the_umask_was(tmp_path):
    people(tmp_path)
    (tmp_path / "copy.csv").write_bytes((tmp_path / "people.csv").read_bytes())
    code = (
        "import os, sys; os.umask(0); from bayes_risk.app.cli import main; sys.argv = "
        "['bayes-risk', 'identify', 'people.csv', 'copy.csv', '--known', 'age', "
        "'--synthesized', 'job', '--json', 'n.json']; main()"
    )
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE((tmp_path / "n.json").stat().st_mode) == 0o600


@pytest.mark.check
def test_workers_of_a_command_import_nothing_from_where_it_was_given(tmp_path):
    (tmp_path / "joblib.py").write_text("open('ran', 'w')\n")
    code = (
        "from bayes_risk.app.cli import own_process; own_process(); import joblib; "
        "print(joblib.Parallel(n_jobs=2, backend='loky')(joblib.delayed(abs)(-i) for i in (1, 2)))"
    )
    done = python("-P", "-c", code, cwd=tmp_path)
    assert done.stdout == "[1, 2]\n" and os.listdir(tmp_path) == ["joblib.py"], done.stderr


@pytest.fixture
def compiling(monkeypatch, tmp_path_factory):
    """A command before it compiles; folders that go at its end."""
    own = [True]
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("temporary")))
    monkeypatch.setattr(process, "_own", own)
    monkeypatch.delitem(sys.modules, "pytensor", raising=False)
    monkeypatch.setenv("PYTENSOR_FLAGS", "floatX=float64")
    yield own
    for made in own[1:]:
        made.cleanup()


@pytest.mark.parametrize("name", ["out", "o, u't"])
def test_a_command_compiles_in_a_new_folder_beside_its_output(tmp_path, compiling, name):
    """What lies at a name that can be guessed would be run: PyTensor unpickles its list."""
    (tmp_path / f".{name}.compiled").mkdir()
    process.compile_beside(tmp_path / name)
    (folder,) = [p for p in tmp_path.iterdir() if p.name != f".{name}.compiled"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    flags = os.environ["PYTENSOR_FLAGS"]
    parts = shlex.shlex(flags, posix=True)  # as PyTensor reads them
    parts.whitespace, parts.whitespace_split = ",", True
    assert list(parts) == ["floatX=float64", f"base_compiledir={folder}"]
    process.compile_beside(tmp_path / "other")
    assert os.environ["PYTENSOR_FLAGS"] == flags
    for made in compiling[1:]:
        made.cleanup()
    assert os.listdir(tmp_path) == [f".{name}.compiled"]


def test_a_dry_run_compiles_with_temporary_files_where_there_is_no_folder(tmp_path, compiling):
    process.compile_beside(tmp_path / "no" / "out")
    assert os.listdir(tmp_path) == [] and "base_compiledir" in os.environ["PYTENSOR_FLAGS"]


def test_what_a_command_leaves_among_temporary_files_goes_with_it(tmp_path, compiling):
    before = Path(tempfile.gettempdir())
    process.compile_beside(tmp_path / "out")
    (Path(os.environ["TMPDIR"]) / "cc1.s").write_text("")  # the compiler's
    with tempfile.NamedTemporaryFile(prefix="pytensor_compilation_error_", delete=False):
        pass
    for made in compiling[1:]:
        made.cleanup()
    assert [*before.iterdir()] == []


def _of_the_compiler():
    """As PyTensor says it: the text of g++ in an error of its own, and another error above."""
    try:
        raise RuntimeError(f"Compilation failed:\nto /x/cc1.s: {os.strerror(errno.ENOSPC)} 123.4")
    except RuntimeError:
        raise ValueError("of an Apply node 123.4")  # noqa: B904


def _of_the_system():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(Path.cwd() / "step.nc"))


@pytest.mark.parametrize("fails", [_of_the_compiler, _of_the_system])
def test_a_full_disk_is_named_with_the_cure(fails, capsys):
    with pytest.raises(typer.Exit) as ended, _plain_errors():
        fails()
    said = " ".join(capsys.readouterr().err.split())
    assert ended.value.exit_code == 2
    assert "disk full: free about 200 MiB, or use another disk (TMPDIR=FOLDER" in said
    assert "123.4" not in said and "unexpected" not in said


def test_another_error_is_not_taken_for_a_full_disk(capsys):
    with pytest.raises(typer.Exit), _plain_errors():
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    assert os.strerror(errno.EACCES) in capsys.readouterr().err


def test_a_script_keeps_its_own_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_own", [])
    monkeypatch.delenv("PYTENSOR_FLAGS", raising=False)
    process.compile_beside(tmp_path)
    assert "PYTENSOR_FLAGS" not in os.environ


OWN = """
import pymc as pm
TOP = 123456.789  # of the table


def build(table):
    with pm.Model() as model:
        a = pm.Normal("a", 0, 10)
        x, y = pm.Data("x", table["x"]), pm.Data("y", table["y"])
        pm.Normal("y_", pm.math.exp(a / TOP) * x, 2.0, observed=y)
    return model
"""


@pytest.mark.slow
def test_constants_of_a_compiled_model_do_not_stay_on_disk(tmp_path):
    """A scalar constant stands in what PyTensor compiles: with the run it goes."""
    rng, home = np.random.default_rng(1), tmp_path / "home"
    home.mkdir()
    x = rng.normal(10, 2, 40).round(3)
    table = pd.DataFrame({"x": x, "y": (x + rng.normal(0, 2, 40)).round(3)})
    table.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "s.toml").write_text(
        'random_seed = 1\n[data]\npath = "people.csv"\n[model]\nkind = "PyMCModel"\n'
        'build = "own.py:build"\ncolumns = ["y"]\ndraws = 20\ntune = 20\n'
        '[release]\nm = 1\ncolumns = ["y"]\n[attribute]\ntargets = 3\nrefit_budget = 0\n'
        "guesses = { y = { percent = 10, n = 3 } }\n"
    )
    start = "import sys; from bayes_risk.app.cli import main; "
    code = start + "sys.argv = ['', 'audit', 's.toml']; main()"
    done = python("-c", code, cwd=tmp_path, HOME=str(home), PYTENSOR_FLAGS="")
    assert done.returncode == 0, done.stderr
    held = [path for path in tmp_path.rglob("*") if path.is_file()]
    found = [path.name for path in held if b"123456.78" in path.read_bytes()]
    assert found == ["own.py"] and "Warning" not in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["home", "own.py", "people.csv", "s-risk", "s.toml"]
    assert not [path for path in held if path.suffix in (".so", ".cpp") and home in path.parents]
