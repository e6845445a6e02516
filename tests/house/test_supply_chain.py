"""What is installed and what is built: the same bytes from the same sources."""

import ast
import importlib.util
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import tomllib
import zipfile
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.helpers.sources import parsed

pytestmark = pytest.mark.check

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("bayes_risk", "docs", "pyproject.toml", "setup.py", "README.md", "LICENSE")


def wheel(folder):
    """Bytes of a wheel built from a copy of the sources."""
    for name in SOURCES:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            hidden = shutil.ignore_patterns("__pycache__", "_build", "generated")
            shutil.copytree(source, target, symlinks=True, ignore=hidden)
        else:
            shutil.copy(source, target)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*command, "--no-index", "-w", str(folder / "dist"), str(folder)],
        env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"},
        check=True,
        timeout=300,
    )
    (built,) = (folder / "dist").glob("*.whl")
    return built.read_bytes()


@pytest.mark.slow
def test_the_same_sources_make_the_same_wheel(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert wheel(tmp_path / "one") == wheel(tmp_path / "two")


def test_a_wheel_has_the_pages_that_messages_name(tmp_path):
    """An installed package has no checkout: its pages lie beside its modules."""
    with zipfile.ZipFile(io.BytesIO(wheel(tmp_path))) as built:
        held = set(built.namelist())
        numbers = built.read("bayes_risk/docs/reading-the-numbers.md").decode()
    assert "{include}" not in numbers and "*Confidential table*" in numbers
    files = (p for p in (ROOT / "bayes_risk").rglob("*") if p.suffix in (".py", ".j2"))
    texts = [path.read_text(encoding="utf-8") for path in files]
    named = {page for text in texts for page in re.findall(r"\bdocs/[\w/-]+\.md\b", text)}
    assert "docs/study-file.md" in named
    assert sorted(page for page in named if f"bayes_risk/{page}" not in held) == []
    pages = [p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")]
    pages = [p for p in pages if not p.startswith(("_build/", "api/generated/"))]
    assert sorted(p for p in pages if f"bayes_risk/docs/{p}" not in held) == []


# --- versions that are allowed, and those that are tested ----------------------------------------


def script(name):
    """A script of .ci as a module."""
    spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = [Requirement(line) for line in PROJECT["dependencies"]]
vulnerabilities = script("vulnerabilities")


def test_the_lowest_versions_are_those_of_the_project():
    text = script("lowest").lowest(PROJECT["dependencies"])
    assert (ROOT / "requirements-lowest.txt").read_text() == text
    pinned = dict(vulnerabilities.pins(text))
    assert sorted(pinned) == sorted(need.name for need in CORE)
    assert [need.name for need in CORE if pinned[need.name] not in need.specifier] == []


def test_whatever_is_locked_says_whose_it_is():
    told = ("Author", "Author-email", "Maintainer", "Maintainer-email", "Home-page", "Project-URL")
    nameless = []
    for name, _ in vulnerabilities.pins((ROOT / "requirements-lock.txt").read_text()):
        with suppress(PackageNotFoundError):  # of other systems
            if not any(metadata(name).get(key) for key in told):
                nameless.append(name)
    assert nameless == []


@pytest.mark.parametrize("line", ["numpy", "numpy<3", "numpy>=1,>=2"])
def test_a_dependency_without_one_lower_bound_is_refused(line):
    with pytest.raises(SystemExit, match="lower bounds; give one"):
        script("lowest").lowest([line])


@pytest.mark.parametrize("need", CORE, ids=[need.name for need in CORE])
def test_what_is_locked_is_allowed_and_not_lowest(need):
    locked = dict(vulnerabilities.pins((ROOT / "requirements-lock.txt").read_text()))
    (lowest,) = (s.version for s in need.specifier if s.operator == ">=")
    assert locked[need.name] in need.specifier
    assert Version(lowest) <= Version(locked[need.name])


EXTRAS = {"pyarrow", "duckdb", "pyreadstat", "openpyxl", "distributed", "dask", "nutpie"}
NOTEBOOK = {"IPython"}  # where one runs this process
BROUGHT = {"pytensor", "arviz_stats", "pydantic_core", "markupsafe"}  # by what they belong to


def top_names(path):
    """What a module imports from outside, in functions too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0]


def test_everything_that_is_imported_is_a_dependency():
    files = (ROOT / "bayes_risk").rglob("*.py")
    found = {name for path in files for name in top_names(path)}
    found -= sys.stdlib_module_names | EXTRAS | NOTEBOOK | BROUGHT | {"bayes_risk"}
    names = {need.name.replace("scikit-learn", "sklearn") for need in CORE}
    unseen = {"h5netcdf", "h5py"}  # xarray finds the first by its name, and it needs the second
    assert names == found | unseen


# --- known vulnerabilities -----------------------------------------------------------------------

LOCK = """\
# a comment
numpy==2.4.6 \\
    --hash=sha256:00
pandas==3.1.1 ; sys_platform == "win32" \\
    --hash=sha256:11
"""
KNOWN = {
    "id": "GHSA-1",
    "aliases": ["CVE-1"],
    "fixed_in": ["2.5"],
    "summary": "bad",
    "withdrawn": None,
}


@contextmanager
def service(pages, answers=None):
    """An index on this machine: bodies by path, all else unknown; yields its address and calls.

    With ``answers``, an event, it says nothing until that is set.
    """
    calls = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            calls.append(self.path)
            if answers is not None:
                answers.wait()
            body = pages.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", calls
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def pages(numpy=(), pandas=()):
    """JSON pages of the two locked versions."""
    found = {"numpy/2.4.6": numpy, "pandas/3.1.1": pandas}
    return {
        f"/pypi/{which}/json": json.dumps({"info": {}, "vulnerabilities": list(known)}).encode()
        for which, known in found.items()
    }


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "lock.txt"
    path.write_text(LOCK)
    return path


def looked_up(lock, address, *options):
    return vulnerabilities.main(["--service", address, *options, str(lock)])


def test_pins_are_names_and_versions():
    assert vulnerabilities.pins(LOCK) == [("numpy", "2.4.6"), ("pandas", "3.1.1")]
    for path in vulnerabilities.LOCKS:
        text = path.read_text()
        lines = [line for line in text.splitlines() if line[0] not in " #"]
        assert len(vulnerabilities.pins(text)) == len(lines)


def test_no_known_vulnerability(lock, capsys):
    with service(pages()) as (address, calls):
        assert looked_up(lock, address) == 0
    assert capsys.readouterr().out == (
        "vulnerabilities: 0 found in 2 of 2 locked versions, 0 accepted\n"
    )
    assert set(calls) == set(pages())


def test_a_vulnerability_fails_and_is_named(lock, capsys):
    with service(pages(pandas=[KNOWN, KNOWN | {"withdrawn": "2026-01-01"}])) as (address, _):
        assert looked_up(lock, address) == 1
    assert capsys.readouterr().out == (
        "pandas 3.1.1: GHSA-1 CVE-1 (mended in 2.5)\n"
        "vulnerabilities: 1 found in 2 of 2 locked versions, 0 accepted\n"
    )


@pytest.mark.parametrize(("accepted", "code"), [("GHSA-1", 0), ("CVE-1", 0), ("CVE-2", 1)])
def test_an_accepted_one_does_not_fail(lock, capsys, monkeypatch, accepted, code):
    monkeypatch.setattr(vulnerabilities, "ACCEPTED", {accepted: "we never call it"})
    with service(pages(numpy=[KNOWN])) as (address, _):
        assert looked_up(lock, address) == code
    assert f"{code} found in 2 of 2 locked versions, {1 - code} accepted" in capsys.readouterr().out


def test_every_accepted_vulnerability_has_a_reason():
    assert [one for one, why in vulnerabilities.ACCEPTED.items() if len(why.split()) < 3] == []


NO_ANSWER = "vulnerabilities: not checked: no registry answered\n"
BROKEN = [
    b"",
    b"<html>",
    b"[]",
    b"null",
    b"{}",
    b'{"vulnerabilities": 5}',
    b'{"vulnerabilities": [5]}',
]


@pytest.mark.parametrize("body", [None, *BROKEN], ids=["unknown", *(b.decode() for b in BROKEN)])
def test_a_service_that_knows_nothing_is_no_answer(lock, capsys, body):
    found = {} if body is None else dict.fromkeys(pages(), body)
    with service(found) as (address, _):
        assert looked_up(lock, address) == 0
    assert capsys.readouterr().out == NO_ANSWER


def test_nobody_there_is_no_answer(lock, capsys):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but nobody listens: refused
        assert looked_up(lock, f"http://127.0.0.1:{closed.getsockname()[1]}") == 0
    assert looked_up(lock, "no address") == 0
    assert capsys.readouterr().out == 2 * NO_ANSWER


def test_a_service_that_does_not_answer_is_left(lock, capsys):
    answers = threading.Event()
    with service(pages(), answers) as (address, calls):
        try:
            assert looked_up(lock, address, "--timeout", "0.1") == 0
        finally:
            answers.set()
    assert capsys.readouterr().out == NO_ANSWER and len(calls) <= 3
    assert 3 * vulnerabilities.PROBE <= 5.0


def test_a_version_without_an_answer_is_counted(lock, capsys):
    some = pages(numpy=[KNOWN])
    del some["/pypi/pandas/3.1.1/json"]
    with service(some) as (address, _):
        assert looked_up(lock, address) == 1
    assert "1 found in 1 of 2 locked versions, 0 accepted; no answer on the other 1\n" in (
        capsys.readouterr().out
    )


def test_a_lock_without_pins_is_an_error(tmp_path, capsys):
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(SystemExit, match="2"):
        looked_up(tmp_path / "empty.txt", "http://127.0.0.1:1")
    assert "no pins in" in capsys.readouterr().err
