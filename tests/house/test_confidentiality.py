"""Marked values of a confidential table are looked for in all that a run leaves or says."""

import json
import logging
import os
import re
import stat
import struct
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from typer.testing import CliRunner

import bayes_risk as br
from bayes_risk.app.cli import app, warning_texts
from bayes_risk.app.run import audit as audit_room
from bayes_risk.app.run import run_study
from bayes_risk.app.study.study import parse_study
from bayes_risk.reporting.terminal import Bars

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")

LEVELS = ("Zwiebelschneider", "Quittenpfluecker", "Mondfahrerin")
NUMBERS = (123456.789, 98765.4321, 77777.125)
LABELS = ("LABELQUX7", "LABELZYX8")
N = 60


def people(seed: int = 3) -> pd.DataFrame:
    """Sixty people: jobs, incomes and labels are marked, ages are not."""
    rng = np.random.default_rng(seed)
    age = rng.choice(["young", "middle", "old"], N)
    job = np.where(rng.random(N) < 0.6, LEVELS[0], rng.choice(LEVELS[1:], N))
    pay = (90_000 + 5_000 * (age == "old") + rng.normal(0, 9_000, N)).round(3)
    pay[:3] = NUMBERS
    labels = [*LABELS, *(f"LABELQUX7-{i}" for i in range(N - 2))]
    return pd.DataFrame({"id": labels, "age": age, "job": job, "pay": pay})


def marks(df: pd.DataFrame, *, labels: bool) -> list[bytes]:
    """Bytes that stand for marked values: text, and numbers as they are written."""
    found = [level.encode() for level in LEVELS] + [b"LABEL"] * labels
    for number in df["pay"]:
        written = {f"{number!r}", f"{number:,}", f"{number:.8g}", f"{number:.7g}", f"{number:.2f}",
                   f"{number:,.2f}", f"{number:.6e}"}  # fmt: skip
        found += [text.encode() for text in written if len(re.sub(r"\D", "", text)) > 6]
        found += [struct.pack("<d", number), struct.pack(">d", number)]
    return found


def leaks(what: bytes, df: pd.DataFrame, *, labels: bool) -> list[bytes]:
    return [mark for mark in marks(df, labels=labels) if mark in what]


def of_netcdf(path: Path) -> bytes:
    """All that a NetCDF file holds, unpacked."""
    parts = []
    for group in ("attribute_risk", "identification_risk"):
        try:
            with xr.open_dataset(path, group=group, engine="h5netcdf") as data:
                parts.append(json.dumps(data.to_dict(data=False), default=str).encode())
                parts += [variable.to_numpy().tobytes() for variable in data.data_vars.values()]
        except OSError:
            continue
    return b"".join(parts)


class Watch:
    """Every call of the progress bar, and what lies in the folder of the run meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[str] = []
        self.open: list[int] = []

    def __call__(self, bars, stage, done, total):
        self.seen.append(f"{stage} {done} {total}")
        for place, folders, files in os.walk(self.folder):
            for name in [*folders, *files]:
                path = Path(place) / name
                self.seen.append(str(path.relative_to(self.folder)))
                if (
                    ".work" in str(path)
                    and ".partial" not in str(path)
                    and path.suffix in ("", ".json", ".jsonl", ".txt")
                ):
                    self.seen.append(path.read_text(errors="replace") if path.is_file() else "")
                if path.name.endswith(".work"):
                    self.open.append(stat.S_IMODE(path.stat().st_mode) & 0o077)

    def text(self) -> bytes:
        return "\n".join(self.seen).encode()


DPMPM = {"kind": "DPMPM", "n_classes": 3, "draws": 40, "tune": 20, "chains": 2}
KEYS = {"known": ["age"], "synthesized": ["job"]}
TREE = {"kind": "CART", "order": ["job", "pay"], "smoothing": "kde"}
NORMAL = {"kind": "Regression", "formulas": {"pay": "1 + age + C(job)"}, "draws": 40}
GRID = {"pay": {"percent": 10.0, "n": 5}}
CATEGORIES = {"data": {"columns": ["age", "job"]}, "model": DPMPM}
AUDITS = {
    "classes": CATEGORIES | {
        "attribute": {"refit_budget": 0, "targets": 20, "privacy_loss": True},
        "identification": {"known": [], "synthesized": ["age", "job"]},
        "utility": {"permutations": 2},
        "context": {"keys": ["age"], "target": "job"},
        "bounds": {"patterns": []},
        "membership": {"records": 10, "held_out": 0.2, "comparisons": 5},
        "full_table": {"targets": 5},
        "output": {"redact": True},
    },
    "rounds": CATEGORIES | {
        "attribute": {"refit_budget": 0}, "reweight": {"until": 0.2, "rounds": 1},
    },
    "numbers": {
        "model": NORMAL,
        "release": {"columns": ["pay"]},
        "attribute": {"guesses": GRID, "refit_budget": 0},
        "identification": {"known": ["age"], "synthesized": ["pay"], "radius": {"pay": 0.1}},
        "utility": {"permutations": 2, "numbers": ["pay"]},
        "context": {"keys": ["age"], "target": "pay", "groups": {"pay": 3}},
        "output": {"redact": True},
    },
    "trees": {
        "model": {"kind": "CART", "order": ["job", "pay"]},
        "attribute": {"guesses": {"pay": {"bounds": [5e4, 2e5], "n": 7, "truth": "add"},
                                  "job": "levels"}, "targets": 20},
        "identification": KEYS,
    },
}  # fmt: skip
SWEEPS = {
    "classes": CATEGORIES | {
        "attribute": {"refit_budget": 0, "targets": 20},
        "sweep": {"priors": ["uniform", "marginal"], "m": [1, 2]},
    },
}  # fmt: skip
SIDES = {
    "trees": CATEGORIES | {
        "identification": KEYS, "utility": {"permutations": 2},
        "compare": {
            "replicates": 2,
            "fine": {"model": {"kind": "CART", "order": ["job"]}},
            "coarse": {"model": {"kind": "CART", "order": ["job"], "min_leaf": 20}},
        },
    },
}  # fmt: skip
RUNS = [
    *(("audit", name, study) for name, study in AUDITS.items()),
    *(("sweep", name, study) for name, study in SWEEPS.items()),
    *(("compare", name, study) for name, study in SIDES.items()),
]
NAMES = [f"{command}-{name}" for command, name, _ in RUNS]
WITH_LABELS = {
    *("report.html", "records.csv", "risk.nc", "summary.json", "privacy_loss.csv", "context.csv"),
    *("membership.csv", "full_table.csv", "reweighting.csv", "explained.csv"),
}


@pytest.fixture
def call(tmp_path, monkeypatch):
    """The command line in a folder of its own, watched: what was printed, logged, shown."""
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    monkeypatch.setenv("COLUMNS", "200")
    people().to_csv("people.csv", index=False)
    watch = Watch(tmp_path / "home")
    monkeypatch.setattr(Bars, "__call__", lambda *words: watch(*words))
    return lambda *words: (CliRunner().invoke(app, [str(w) for w in words]), watch)


def write_study(content: dict) -> Path:
    from bayes_risk.reporting.content import as_toml

    base: dict[str, Any] = {
        "random_seed": 5,
        "data": {"path": "people.csv", "index": "id"},
        "release": {"m": 2},
    }
    both = {
        key: {**base.get(key, {}), **value} if isinstance(value, dict) else value
        for key, value in (base | content).items()
    }
    target = Path("s.toml")
    target.write_text(as_toml(both).replace("# declared levels, not shown: ", "levels = "))
    return target


@pytest.mark.check
@pytest.mark.parametrize(("command", "name", "study"), RUNS, ids=NAMES)
def test_a_run_leaves_no_marked_value(call, caplog, tmp_path, command, name, study):
    with caplog.at_level(logging.DEBUG):
        done, watch = call(command, write_study(study), "--jobs", 1, "--output", "out")
    assert done.exit_code == 0, done.output
    df = people()
    assert watch.seen and leaks(watch.text(), df, labels=True) == []
    assert leaks(done.output.encode(), df, labels=False) == []
    assert leaks(caplog.text.encode(), df, labels=True) == []
    files = sorted(Path("out").rglob("*"))
    for path in files:
        held = path.read_bytes() + (of_netcdf(path) if path.suffix == ".nc" else b"")
        assert leaks(held, df, labels=path.name not in WITH_LABELS) == [], path.name
        assert leaks(path.name.encode(), df, labels=True) == []
    assert sorted(os.listdir()) == ["out", "people.csv", "s.toml"]
    assert stat.S_IMODE(Path("out").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert set(watch.open) <= {0}


def test_the_marks_are_found_where_they_are():
    """The search itself: a file asked for by name holds values, and they are seen."""
    df = people()
    text = df.to_csv().encode()
    assert len(leaks(text, df, labels=True)) >= len(LEVELS) + N
    assert leaks(df["pay"].to_numpy().tobytes(), df, labels=False)


@pytest.mark.check
@pytest.mark.parametrize("asked", ["confidential", "release"])
def test_values_come_when_they_are_asked_for_by_name(call, asked):
    study = AUDITS["trees"] | {"output": {asked: True}}
    done, _ = call("audit", write_study(study), "--jobs", 1, "--output", "out")
    assert done.exit_code == 0, done.output
    held = {
        path.name
        for path in Path("out").iterdir()
        if leaks(
            path.read_bytes() + (of_netcdf(path) if path.suffix == ".nc" else b""),
            people(),
            labels=False,
        )
    }
    expected = {"risk.nc"} if asked == "confidential" else {"synthetic-1.csv", "synthetic-2.csv"}
    assert held == expected


@pytest.mark.check
def test_identify_says_and_writes_no_marked_value(call):
    df = people()
    df.assign(job=np.roll(df["job"], 1)).to_csv("syn.csv", index=False)
    done, _ = call("identify", "people.csv", "syn.csv", "--index", "id", "--known",
                   "age", "--synthesized", "job,pay", "--radius", "pay=10%",
                   "--json", "n.json", "--output", "out")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert leaks(done.output.encode() + Path("n.json").read_bytes(), df, labels=True) == []
    assert {p.name for p in Path("out").iterdir()} == {
        *("report.html", "summary.json", "records.csv", "manifest.json")
    }
    for path in Path("out").iterdir():
        by_label = path.name in ("records.csv", "report.html")  # the ten at highest risk
        assert leaks(path.read_bytes(), df, labels=not by_label) == [], path.name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(Path("n.json").stat().st_mode) == 0o600


# --- failures ---------------------------------------------------------------------------------


def lines(df: pd.DataFrame) -> list[str]:
    return df.to_csv(index=False).splitlines()


def ragged() -> None:
    text = lines(people())
    text[5] += f",{LEVELS[0]}"
    Path("people.csv").write_text("\n".join(text) + "\n")


def quoted() -> None:
    text = lines(people())
    text[5] = f'"{LEVELS[0]}'
    Path("people.csv").write_text("\n".join(text) + "\n")


def not_utf8() -> None:
    Path("people.csv").write_bytes(Path("people.csv").read_bytes() + b"LABEL\xfe,x,y,1\n")


def text_among_numbers() -> None:
    people().astype({"pay": object}).replace(NUMBERS[0], LEVELS[0]).to_csv(
        "people.csv", index=False
    )


def label_twice() -> None:
    df = people()
    df.loc[3, "id"] = LABELS[0]
    df.to_csv("people.csv", index=False)


def one_level() -> None:
    people().assign(job=LEVELS[0]).to_csv("people.csv", index=False)


def missing() -> None:
    df = people()
    df.loc[3, "job"] = None
    df.to_csv("people.csv", index=False)


def released(**changes) -> None:
    people().assign(**changes).to_csv("syn.csv", index=False)


def python(text: str) -> None:
    Path("own.py").write_text(text)


RAISES = "raise ValueError(f'no {table.iloc[0].to_dict()} and {table.to_numpy().tolist()}')"
OWN = {"kind": "PyMCModel", "build": "own.py:build", "columns": ["pay"]}
AUDIT = {"attribute": {"refit_budget": 0}}
FILES = {"release": {"files": ["syn.csv"], "columns": ["job"]}, "identification": KEYS,
         "model": DPMPM, "data": {"columns": ["age", "job"]}}  # fmt: skip
LISTED = {"data": {"columns": ["age", "job"], "levels": {"job": [*LEVELS, "none"]}}}
PAY = {"attribute": {"guesses": GRID}}
NO_LEVELS = {"data": {"columns": ["age", "job"], "levels": {"job": ["a", "b"]}}}
FEW_LEVELS = {"data": {"columns": ["age", "pay"], "levels": {"pay": [1.5, 2.5]}}}


def regression(formulas, **families):
    """A regression of the pay or the job, its values synthesised."""
    model = {"kind": "Regression", "formulas": formulas, "families": families, "draws": 40}
    return {"model": model, "release": {"columns": list(formulas)}}


FAILURES = {
    "unknown column": (None, CATEGORIES | {"identification": KEYS | {"known": ["ag"]}}),
    "levels that do not fit": (None, CATEGORIES | AUDIT | NO_LEVELS),
    "releases of other levels": (lambda: released(job=[f"{LEVELS[1]}x"] * N), FILES | LISTED),
    "releases of other kept values": (lambda: released(age=LEVELS[0]), FILES),
    "releases of other labels": (lambda: released(id=[f"LABEL{i}" for i in range(N)]), FILES),
    "releases with missing values": (
        lambda: released(job=[None, *people()["job"][1:]]), FILES | AUDIT,
    ),
    "ragged": (ragged, CATEGORIES | AUDIT),
    "open quote": (quoted, CATEGORIES | AUDIT),
    "not UTF-8": (not_utf8, CATEGORIES | AUDIT),
    "text among numbers": (
        text_among_numbers, regression({"pay": "1 + age"}) | PAY,
    ),
    "a text as a number": (None, regression({"job": "1"}, job="normal") | AUDIT),
    "a number as levels": (None, CATEGORIES | AUDIT | FEW_LEVELS),
    "two records of one label": (label_twice, CATEGORIES | AUDIT),
    "one level": (one_level, CATEGORIES | AUDIT),
    "missing values": (missing, CATEGORIES | AUDIT),
    "target that is nobody": (None, CATEGORIES | {"attribute": {"targets": ["P1"]}}),
    "wrong family": (None, regression({"pay": "1"}, pay="poisson") | PAY),
    "formula of a text": (None, regression({"pay": "1 + log(job)"}) | PAY),
    "grid without the truth": (
        None, {"model": NORMAL, "release": {"columns": ["pay"]},
               "attribute": {"guesses": {"pay": {"bounds": [0, 1], "n": 3}}}},
    ),
    "build that raises": (
        lambda: python(f"def build(table):\n    {RAISES}\n"), {"model": OWN} | PAY,
    ),
    "file that raises": (
        lambda: python("import pandas\ntable = pandas.read_csv('people.csv')\n" + RAISES + "\n"),
        {"model": OWN} | PAY,
    ),
    "analysis that raises": (
        lambda: python(f"def fit(table):\n    {RAISES}\n"),
        CATEGORIES | {"utility": {"analyses": ["own.py:fit"], "permutations": 2}},
    ),
    "analysis of a missing level": (
        lambda: python("def fit(table):\n    return {}[table['job'].iloc[0]]\n"),
        CATEGORIES | {"utility": {"analyses": ["own.py:fit"], "permutations": 2}},
    ),
    "constraint that raises": (
        lambda: python(f"def possible(table):\n    {RAISES}\n"),
        {"model": {"kind": "PMM", "order": ["pay"], "identifying": ["age"], "threshold": 30,
                   "constraints": ["own.py:possible"]}} | PAY,
    ),
    "no such keys": (None, CATEGORIES | {"context": {"keys": ["age"], "target": "income"}}),
    "no Parquet": (lambda: Path("p.parquet").write_bytes(b"PAR1" + LEVELS[0].encode()),
                   CATEGORIES | AUDIT | {"data": {"path": "p.parquet"}}),
    "no Stata": (lambda: Path("p.dta").write_bytes(b"<stata_dta>" + LEVELS[0].encode()),
                 CATEGORIES | AUDIT | {"data": {"path": "p.dta"}}),
}  # fmt: skip


@pytest.mark.check
@pytest.mark.parametrize(("prepare", "study"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_told_without_marked_values(call, caplog, prepare, study):
    if prepare is not None:
        prepare()
    file = write_study(study)
    if "files" in study.get("release", {}):
        file.write_text(re.sub(r"^m = 2\n", "", file.read_text(), flags=re.MULTILINE))
    with caplog.at_level(logging.DEBUG):
        done, watch = call("audit", file, "--jobs", 1, "--output", "out")
    assert done.exit_code == 2, (done.output, done.exception)
    said = done.output + "".join(traceback.format_exception(*done.exc_info)) + caplog.text
    assert "bayes-risk:" in done.output and "s.toml is not" not in done.output
    assert leaks(said.encode() + watch.text(), people(), labels=True) == []
    assert [name for name in os.listdir() if name.startswith((".", "out"))] == []


@pytest.mark.check
def test_an_error_that_nobody_foresaw_keeps_its_text_to_itself(call, monkeypatch):
    def breaks(*_):
        raise KeyError(f"{LEVELS[0]} {NUMBERS[0]} {LABELS[0]}")

    monkeypatch.setattr(audit_room, "judge", lambda *_, **__: breaks())
    done, _ = call("audit", write_study(CATEGORIES | AUDIT), "--jobs", 1, "--output", "out")
    assert done.exit_code == 1
    assert "internal error: KeyError" in done.output and "is hidden" in done.output
    assert leaks(done.output.encode(), people(), labels=True) == []
    monkeypatch.setenv("BAYES_RISK_TRACEBACK", "1")
    done, _ = call("audit", write_study(CATEGORIES | AUDIT), "--jobs", 1, "--restart",
                   "--output", "out")  # fmt: skip
    assert isinstance(done.exception, KeyError) and LEVELS[0] in str(done.exception)


@pytest.mark.check
def test_an_interruption_shows_and_leaves_no_marked_value_but_in_the_steps(call, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(audit_room, "judge", stopped)
    done, watch = call("audit", write_study(CATEGORIES | AUDIT), "--jobs", 1, "--output", "out")
    assert done.exit_code == 130
    assert leaks(done.output.encode() + watch.text(), people(), labels=True) == []
    left = [path for path in Path(".out.work").rglob("*")] if Path(".out.work").exists() else []
    assert left, "the steps are kept"
    for path in [Path(".out.work"), *left]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        assert leaks(str(path).encode(), people(), labels=True) == []
        if path.suffix != ".npz" and path.is_file():
            assert leaks(path.read_bytes(), people(), labels=True) == [], path


class OddWarning(UserWarning):
    """Of some other package."""


def test_a_warning_of_another_package_is_named_and_not_quoted():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            warnings.warn(f"{LEVELS[0]} is strange", OddWarning, stacklevel=1)
        warnings.warn("3 records are unreliable", br.UnreliableWeightsWarning, stacklevel=1)
        warnings.warn(f"{LEVELS[0]} is old", DeprecationWarning, stacklevel=1)
    said = warning_texts(caught)
    assert "3 records are unreliable" in said
    assert leaks("\n".join(said).encode(), people(), labels=False) == []
    assert {note.partition(" (")[0] for note in said} == {"OddWarning", "3 records are unreliable"}


@pytest.mark.check
def test_a_report_of_a_script_is_its_owners_alone(tmp_path):
    from tests.helpers.edge_results import attribute

    before = os.umask(0o000)
    try:
        br.report(attribute(), tmp_path / "r.html")
        study = parse_study({"data": {"demo": "italy"}, "model": {"kind": "CART", "order": ["PRO"]},
                             "attribute": {"targets": 5},
                             "output": {"folder": str(tmp_path / "out")}})  # fmt: skip
        run_study(study, n_jobs=1)
    finally:
        os.umask(before)
    paths = [tmp_path / "r.html", tmp_path / "out", *(tmp_path / "out").iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in paths} == {0}
