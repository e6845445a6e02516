"""Study files gone wrong: always a study, or an error that names what is wrong."""

import os
import time
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bayes_risk import InputError
from bayes_risk.app.cli import app
from bayes_risk.app.study.study import Study, parse_study, read_study
from bayes_risk.demo import STUDIES
from tests.soak.choices import Drawn
from tests.soak.mutations import garbled, mutated, nested

FILES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.toml"))
CONTENTS = {
    **{file.stem: tomllib.loads(file.read_text()) for file in FILES},
    **{name: dict(content) for name, content in STUDIES.items()},
}
SEED = 10**6 * int(os.environ.get("SOAK_SEED", "0"))
SHARE = float(os.environ.get("SOAK", "1"))
SECONDS = 5.0  # for one file; it takes milliseconds


def checked(question):
    """A study, or an error of at most so many characters, in time."""
    started = time.process_time()
    try:
        assert isinstance(question(), Study)
    except InputError as error:
        assert 10 < len(str(error)) <= 2_000
    assert time.process_time() - started < SECONDS


def check_contents(name, seeds):
    for seed in seeds:
        content = mutated(Drawn(seed), CONTENTS[name])
        checked(lambda content=content: parse_study(content))


def check_files(file, seeds, folder):
    path = folder / "s.toml"
    for seed in seeds:
        path.write_bytes(garbled(Drawn(seed), file.read_bytes()))
        checked(lambda: read_study(path))


@pytest.mark.check
@pytest.mark.parametrize("name", CONTENTS)
def test_changed_values(name):
    check_contents(name, range(40))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_changed_bytes(file, tmp_path):
    check_files(file, range(30), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", CONTENTS)
def test_many_changed_values(name):
    check_contents(name, range(SEED + 1_000, SEED + 1_000 + round(1_000 * SHARE)))


@pytest.mark.soak
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_many_changed_bytes(file, tmp_path):
    check_files(file, range(SEED + 1_000, SEED + 1_000 + round(5_000 * SHARE)), tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"x = " + b"[" * 5_000, "nested too deep"),
        (b"x = " + b"{a = " * 5_000, "nested too deep"),
        (b"random_seed = " + b"9" * 5_000, "no readable TOML|not a readable TOML"),
        (b".".join([b"a"] * 20_000) + b" = 1", "steps"),
        (b"#" * 2_000_001, "at most 2,000,000"),
        (b"title = '\xff'", "not a readable TOML"),
        (b"".join(b"[t%d]\n" % k for k in range(5_000)), "more$"),
        (b"title = 1" + b"0" * 4_000, r"0\.\.\."),
    ],
    ids=["lists", "tables", "digits", "dots", "bytes", "latin-1", "sections", "long value"],
)
def test_text_beyond_reason_is_refused_in_time(text, said, tmp_path):
    path = tmp_path / "s.toml"
    path.write_bytes(text)
    with pytest.raises(InputError, match=said):
        checked_error = None
        started = time.process_time()
        try:
            read_study(path)
        except InputError as error:
            checked_error = error
        assert time.process_time() - started < SECONDS
        if checked_error is not None:
            raise checked_error


def test_content_beyond_reason_is_refused():
    with pytest.raises(InputError, match="study holds tables or lists nested too deep"):
        parse_study({"data": nested(5_000)})
    with pytest.raises(InputError, match="too long to be shown"):
        parse_study({"title": 10**6_000, "data": {"file": "a.csv"}})


@pytest.mark.parametrize(
    ("command", "seed"), [(c, s) for s in range(9) for c in [("audit", "sweep", "compare")[s % 3]]]
)
def test_command_line_ends_with_two_and_one_line(command, seed, tmp_path):
    path = tmp_path / "s.toml"
    path.write_bytes(garbled(Drawn(seed), FILES[seed % len(FILES)].read_bytes()) + b"\nx = [")
    told = CliRunner().invoke(app, [command, str(path), "--output", str(tmp_path / "out")])
    assert told.exit_code == 2, told.output
    assert told.stderr.startswith("bayes-risk: ") and told.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["sweep", "compare"])
def test_help_names_the_section(command):
    told = CliRunner().invoke(app, [command, "--help"])
    assert f"[{command}]" in told.output
