"""Real runs of a small study, stopped at random moments until they end with the same bytes."""

import importlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import chdir
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import numpy as np
from typer.testing import CliRunner

from bayes_risk._core.checkpoint import Store
from bayes_risk.app import cli, output
from tests.soak.choices import Choices, Drawn, pick
from tests.soak.damaged import damaged

ROOT = Path(__file__).resolve().parents[2]
SIGNALS = {signal.SIGKILL: 3, signal.SIGINT: 1, signal.SIGTERM: 1, signal.SIGHUP: 1}  # how often
MODELS = {
    "trees": 'kind = "CART"\norder = ["a", "b"]\n',
    "classes": "n_classes = 3\ndraws = 20\ntune = 10\nchains = 2\n",
}
STUDY = """
random_seed = 5
[data]
path = "o.csv"
[release]
m = 2
columns = ["a", "b"]
[attribute]
targets = 40
[identification]
known = ["c"]
synthesized = ["a", "b"]
[utility]
permutations = 5
[output]
release = true
redact = true
[compare]
replicates = 2
one = { release = { m = 1 } }
two = { release = { m = 2 } }
[model]
"""
FRESH = 0.1  # of the runs are commands of their own, others forks of this process
EVERY = 10  # runs, of which the last goes on to the end
WORK = r"\.out\.work|\.out\.compiled-\w+-\d+-\w+"  # what a killed run may leave beside its output
PASSING = r"br-\w+-\d+-\w+"  # and among temporary files, until the next run


def killed(what: str, model: str, kills: int, seed: int, folder: Path) -> Counter[str]:
    """Stop runs so many times, each as long as it takes to end; counts of what came of it."""
    rng, tally = np.random.default_rng(seed), Counter[str]()
    _write_study(model, rng, folder)
    (folder / "tmp").mkdir()
    with chdir(folder):  # loops are compiled here, not in every fork
        assert _here(what)[0] == 0
    shutil.rmtree(folder / "out")
    whole = {}
    for run in (_run, _forked):
        began = time.monotonic()
        code, said = run(what, folder)
        assert code == 0, said
        whole[run] = time.monotonic() - began
        (folder / "out").rename(folder / ("expected" if run is _run else "again"))
    assert content(folder / "again") == (expected := content(folder / "expected"))
    shutil.rmtree(folder / "again")
    signals = rng.permutation(np.repeat([int(s) for s in SIGNALS], [*SIGNALS.values()]))
    while tally["kills"] < kills:
        run = _run if rng.random() < FRESH else _forked
        number = signal.Signals(signals[tally["runs"] % len(signals)])
        after = rng.uniform(0, 1.1 * whole[run]) if (tally["runs"] + 1) % EVERY else None
        code, said = run(what, folder, number, after)
        tally.update(["runs", f"ended by {number.name}" if code else "ended by itself"])
        tally.update(["commands of their own"] if run is _run else [])
        _check_stop(code, said, number, folder)
        if (folder / "out").exists():
            assert content(folder / "out") == expected
            left = sorted(p.name for p in folder.iterdir())
            assert [n for n in left if not re.fullmatch(WORK, n)] == [
                *("expected", "o.csv", "out", "s.toml", "tmp")
            ]
            tally["finished"] += 1
            shutil.rmtree(folder / "out")
        tally["kills"] += code != 0
    assert _run(what, folder)[0] == 0  # the last is always brought to its end
    assert content(folder / "out") == expected
    assert sorted(p.name for p in folder.iterdir() if p.name != "tmp") == [
        *("expected", "o.csv", "out", "s.toml")
    ]
    assert [*(folder / "tmp").iterdir()] == []
    return tally


def _write_study(model: str, rng: np.random.Generator, folder: Path) -> None:
    rows = [",".join(row) for row in rng.choice(list("xyz"), (90, 3))]
    (folder / "o.csv").write_text("\n".join(["a,b,c", *rows]))
    (folder / "s.toml").write_text(STUDY + MODELS[model])


def _run(what: str, folder: Path, number: int = 0, after: float | None = None) -> tuple[int, str]:
    """Exit code, and what was said, of one run that is sent a signal after some seconds, if any."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "bayes_risk", what, "s.toml", "-o", "out"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if after is not None:
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
    said = process.communicate()[0]
    return process.returncode, said


def _forked(
    what: str, folder: Path, number: int = 0, after: float | None = None
) -> tuple[int, str]:
    """The same in a fork of this process, which has imported what a run imports."""
    importlib.import_module("pymc")
    end = math.inf if after is None else time.monotonic() + after
    with tempfile.TemporaryFile() as said, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        if not (pid := os.fork()):
            _in_fork(what, folder, said.fileno())
        while not (done := os.waitpid(pid, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.kill(pid, number)
                end = math.inf
            time.sleep(0.002)
        said.seek(0)
        return os.waitstatus_to_exitcode(done[1]), said.read().decode()


def _in_fork(what: str, folder: Path, said: int) -> NoReturn:
    """Be the command; nothing of the process that forked runs, nor ends, here."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
        os.chdir(folder)
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder / "tmp")
        sys.argv = ["bayes-risk", what, "s.toml", "-o", "out"]
        cli.main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        for folder_of_run in cli._own:
            if isinstance(folder_of_run, tempfile.TemporaryDirectory):
                folder_of_run.cleanup()
        os._exit(code)


def _check_stop(code: int, said: str, number: signal.Signals, folder: Path) -> None:
    """A stop is a line, or none; what stays is what is documented."""
    assert code in (0, 130, -number), said
    assert "Traceback" not in said or number in UNPREPARED, said
    left = {p.name for p in folder.iterdir()} - {"expected", "o.csv", "out", "s.toml", "tmp"}
    assert not [n for n in left if not re.fullmatch(WORK, n)], left
    assert not [p for p in (folder / "tmp").iterdir() if not re.fullmatch(PASSING, p.name)]


UNPREPARED = (signal.SIGINT,)  # while Python itself starts or ends, Ctrl-C is its own


def content(folder: Path) -> dict[str, Any]:
    """Bytes of the files of a run, but for how long it took and when."""
    found: dict[str, Any] = {p.name: p.read_bytes() for p in folder.iterdir()}
    manifest = json.loads(found.pop("manifest.json"))
    found["manifest.json"] = {k: manifest[k] for k in manifest if k not in ("seconds", "finished")}
    del found["report.html"]
    return found


# --- a stopped run whose working folder is damaged -----------------------------------------------


def gone_on(what: str, model: str, seeds: range, folder: Path) -> Counter[str]:
    """Runs that go on from a damaged folder end with the same bytes, or are refused in one line."""
    tally = Counter[str]()
    _write_study(model, np.random.default_rng(0), folder)
    with chdir(folder), mock.patch.object(output, "render_study", lambda *_, **__: ""):
        stopped, expected = _stopped(what, folder), content(folder / "out")
        shutil.rmtree(folder / "out")
        for seed in seeds:
            choices = Drawn(seed)
            shutil.copytree(pick(choices, stopped), work := folder / ".out.work")
            how = _damage(choices, work, stopped)
            code, said = _here(what)
            if code:
                own = [line for line in said.splitlines() if line.startswith("bayes-risk: ")]
                assert code == 2 and len(own) == 1 and "Traceback" not in said, (seed, how, said)
                assert not (folder / "out").exists()
            else:
                new = content(folder / "out")
                assert new == expected, (
                    seed,
                    how,
                    [k for k in expected if new.get(k) != expected[k]],
                )
                assert not os.path.lexists(work)
            tally.update(["folders", how, "refused" if code else "went on"])
            for path in (work, folder / "out"):
                shutil.rmtree(path, ignore_errors=True)
    return tally


def _here(what: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, [what, "s.toml", "--jobs", "1", "-o", "out"])
    return done.exit_code, done.output


def _stopped(what: str, folder: Path) -> list[Path]:
    """Working folders of the run, stopped after each of its steps."""
    kept, found = Store.put, list[Path]()

    def put(store: Store, path: Any, value: Any) -> Any:
        value = kept(store, path, value)
        shutil.copytree(folder / ".out.work", found_here := folder / f"stopped-{len(found)}")
        found.append(found_here)
        return value

    with mock.patch.object(Store, "put", put):
        assert _here(what)[0] == 0
    return found


def _damage(choices: Choices, work: Path, others: list[Path]) -> str:
    """Damage a file of a working folder, or put something else in its place; how, in a word."""
    path = pick(choices, sorted(p for p in work.rglob("*") if p.name != "lock") + [work / "lock"])
    how = pick(choices, ["bytes", "bytes", "bytes", "other", "gone", *PLACES])
    if how == "bytes" and path.is_file():
        path.write_bytes(damaged(choices, path.read_bytes()))
    elif how == "other":  # the content of another step, or of another stop
        every = sorted(
            p for w in (work, *others) for p in w.rglob("*.npz") if path not in (p, *p.parents)
        )
        _remove(path)
        shutil.copy(pick(choices, every), path)
    else:
        _remove(path)
        PLACES.get(how, lambda _: None)(path)
    return how


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


PLACES = {
    "folder": Path.mkdir,
    "link": lambda path: path.symlink_to(path.parents[1] / "o.csv"),
    "pipe": os.mkfifo,
    "no rights": lambda path: (path.write_text("x"), path.chmod(0)),
}
