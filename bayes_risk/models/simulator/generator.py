"""Calling a generator: a function of Python, or a command on files in a private folder."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.errors import InputError
from bayes_risk._core.surroundings import OWN
from bayes_risk._core.validate import is_sequence
from bayes_risk.data.reader import starts_processes
from bayes_risk.data.writing import USUAL, write_delimited
from bayes_risk.release.alike import read_like

SEEDS = 2**31 - 1  # what R takes

# Linux ends the program, which has the table, with the thread that waits for it, killed or not
ENDING = (
    "import ctypes, os, sys\nctypes.CDLL(None).prctl(1, 9)\n"
    "os.getppid() == int(sys.argv[1]) and os.execvp(sys.argv[2], sys.argv[2:])"
)

Generator = Callable[[pd.DataFrame, int, int], pd.DataFrame | Sequence[pd.DataFrame]]


@dataclass(frozen=True, slots=True)
class Command:
    """A generator that is a command; called as a function of Python is.

    ``words``: the program and its arguments, without a shell. ``{input}`` stands for a CSV of the
    table, ``{output}`` for an empty folder that takes m CSV files, ``{m}`` and ``{seed}`` for whole
    numbers. ``seconds``: how long it may take.
    """

    words: tuple[str, ...]
    seconds: float

    @classmethod
    def of(cls, words: Any, seconds: float) -> "Command":
        """Checked; words that name a file are of the current folder, but for a bare program."""
        if not is_sequence(words) or not all(isinstance(w, str) and w for w in words):
            raise InputError(
                "command", 'is not a command; give a list of texts: ["Rscript", "make.R", '
                '"{input}", "{output}", "{m}", "{seed}"]'
            )  # fmt: skip
        for place in ("input", "output"):
            if not any(f"{{{place}}}" in word for word in words):
                raise InputError(
                    "command",
                    f"lacks {{{place}}}; it is given {{input}}, a CSV file of the table, and "
                    "{output}, a folder for its m CSV files",
                )
        # a program without a folder is the system's: another may be planted under its name
        bare = not os.path.dirname(words[0])
        found = [os.path.abspath(word) if os.path.isfile(word) else word for word in words]
        made = cls((words[0] if bare else found[0], *found[1:]), seconds)
        if shutil.which(made.words[0]) is None:
            raise InputError(
                "command", f"starts with {words[0]!r}, which is not a program here; install it, or "
                "give its path"
            )  # fmt: skip
        return made

    def __call__(self, df: pd.DataFrame, m: int, seed: int) -> list[pd.DataFrame]:
        """Run the command in a folder of its own, which is removed."""
        with tempfile.TemporaryDirectory(prefix="generator-") as name:
            folder = Path(name)  # of its owner alone
            source, output, log = folder / "input.csv", folder / "output", folder / "log.txt"
            output.mkdir()
            write_delimited(df, source, USUAL, index=False, index_label="")
            words = list(self.words)
            for place, value in (("input", source), ("output", output), ("m", m), ("seed", seed)):
                words = [word.replace(f"{{{place}}}", str(value)) for word in words]
            self._run(words, folder, log)
            return self._read(output, df, m, log)

    def _run(self, words: list[str], folder: Path, log: Path) -> None:
        if sys.platform == "linux" and starts_processes():
            words = [sys.executable, "-IS", "-c", ENDING, str(os.getpid()), *words]
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603
                words,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                raise InputError(
                    "seconds", self.seconds, "have passed and the command has not ended; give it "
                    f"more, or a faster generator{_kept(log)}"
                ) from None  # fmt: skip
            finally:
                _end(process)  # and what it left running
        if code:
            raise InputError("command", f"ended with exit code {code}; correct it{_kept(log)}")

    def _read(self, folder: Path, df: pd.DataFrame, m: int, log: Path) -> list[pd.DataFrame]:
        files = sorted(folder.glob("*.csv"), key=lambda file: (len(file.name), file.name))
        if len(files) != m:
            raise InputError(
                "command",
                f"left {len(files)} files that end in .csv in {{output}} for m = {m}; write "
                f"synthetic-1.csv to synthetic-{m}.csv there{_kept(log)}",
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # how a CSV is written is told from the file
            try:
                tables = [read_like(file, df, na=["NA"]) for file in files]
            except InputError as error:
                what = str(error).replace(str(folder), "{output}")
                raise InputError(
                    "command", f"wrote a file that cannot be read: {what}{_kept(log)}"
                ) from None
        return [t.set_axis(df.index) if len(t) == len(df) else t for t in tables]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command, and what it started."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _kept(log: Path) -> str:
    """Where what a command said is kept after it failed, in words; nothing: it said nothing."""
    if not log.stat().st_size:
        return "; it printed nothing"
    place = os.environ.get(OWN)  # where what a command leaves does not go with it
    handle, name = tempfile.mkstemp(".log", "generator-", place)  # of its owner alone
    os.close(handle)
    shutil.copyfile(log, name)
    return (
        f"; what it printed stands in {name!r}, and may hold values of the data: read it, then "
        "delete it"
    )


def generated_tables(
    generator: Generator, df: pd.DataFrame, m: int, seed: int, columns: Iterable[object]
) -> list[pd.DataFrame]:
    """The m tables that a generator makes of a table; errors name the generator, and no value.

    ``columns``: which they must have.
    """
    try:
        found = generator(df.copy(), m, seed)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            "generator",
            f"failed with {type(error).__name__}; it is called as generator(df, m, seed) with "
            f"m={m}, here with seed={seed}, on tables like the original with some values changed: "
            "correct it",
        ) from error
    tables = [found] if isinstance(found, pd.DataFrame) else found
    if not isinstance(tables, list | tuple) or not all(
        isinstance(table, pd.DataFrame) for table in tables
    ):
        raise InputError(
            "generator",
            f"returned a {type(found).__name__}; let it return a DataFrame, or a list of m",
        )
    if len(tables) != m:
        raise InputError(
            "generator", f"returned {len(tables)} tables for m = {m}; let it return a list of m"
        )
    if lacking := [c for c in columns for table in tables if c not in table.columns]:
        raise InputError(
            "generator", f"returned a table without column {lacking[0]!r}; the release has it"
        )
    return [table.copy() for table in tables]


def seed_from(rng: np.random.Generator) -> int:
    """A seed that generators in Python and R take."""
    return int(rng.integers(1, SEEDS))
