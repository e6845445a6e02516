"""Real runs of a small study, stopped at random moments until they end with the same bytes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

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
EVERY = 10  # runs, of which the last goes on to the end
WORK = r"\.out\.work|\.out\.compiled-\w+-\d+-\w+"  # what a killed run may leave beside its output
PASSING = r"br-\w+-\d+-\w+"  # and among temporary files, until the next run


def killed(what: str, model: str, kills: int, seed: int, folder: Path) -> Counter[str]:
    """Stop runs so many times, each as long as it takes to end; counts of what came of it."""
    rng, tally = np.random.default_rng(seed), Counter[str]()
    rows = [",".join(row) for row in rng.choice(list("xyz"), (90, 3))]
    (folder / "o.csv").write_text("\n".join(["a,b,c", *rows]))
    (folder / "s.toml").write_text(STUDY + MODELS[model])
    (folder / "tmp").mkdir()
    began = time.monotonic()
    code, said = _run(what, folder)
    assert code == 0, said
    whole, expected = time.monotonic() - began, content(folder)
    (folder / "out").rename(folder / "expected")
    signals = rng.permutation(np.repeat([int(s) for s in SIGNALS], [*SIGNALS.values()]))
    while tally["kills"] < kills:
        number = signal.Signals(signals[tally["runs"] % len(signals)])
        after = rng.uniform(0, 1.3 * whole) if (tally["runs"] + 1) % EVERY else None
        code, said = _run(what, folder, number, after)
        tally.update(["runs", f"ended by {number.name}" if code else "ended by itself"])
        _check_stop(code, said, number, folder)
        if (folder / "out").exists():
            assert content(folder) == expected
            left = sorted(p.name for p in folder.iterdir())
            assert [n for n in left if not re.fullmatch(WORK, n)] == [
                *("expected", "o.csv", "out", "s.toml", "tmp")
            ]
            tally["finished"] += 1
            for path in (folder / "out").iterdir():
                path.unlink()
            (folder / "out").rmdir()
        tally["kills"] += code != 0
    while not (folder / "out").exists():  # the last is always brought to its end
        assert _run(what, folder)[0] == 0
    assert content(folder) == expected
    assert sorted(p.name for p in folder.iterdir() if p.name != "tmp") == [
        *("expected", "o.csv", "out", "s.toml")
    ]
    assert [*(folder / "tmp").iterdir()] == []
    return tally


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
    found: dict[str, Any] = {p.name: p.read_bytes() for p in (folder / "out").iterdir()}
    manifest = json.loads(found.pop("manifest.json"))
    found["manifest.json"] = {k: manifest[k] for k in manifest if k not in ("seconds", "finished")}
    del found["report.html"]
    return found
