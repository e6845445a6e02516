"""Options that several commands of ``bayes-risk`` share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import MOST

OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Folder for the results; must not exist yet.")
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace the folder of an earlier run.")
]
RestartOption = Annotated[
    bool, typer.Option("--restart", help="Throw away the finished steps of a run that was stopped.")
]
JobsOption = Annotated[
    int,
    typer.Option(
        "--jobs", min=1, max=MOST["n_jobs"], help="Number of workers; results do not depend on it."
    ),
]


class Backend(StrEnum):
    """Kinds of workers."""

    threads = "threads"
    loky = "loky"
    dask = "dask"


BackendOption = Annotated[
    Backend, typer.Option("--backend", help="Threads, processes, or a Dask cluster of processes.")
]
MemoryOption = Annotated[
    str | None,
    typer.Option("--max-memory", help="Most memory to take: 2GiB. Results do not depend on it."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Tell the memory and time that it would take, and stop.")
]


def names(given: list[str] | None) -> list[str]:
    """Names with commas between, of an option that may be repeated."""
    return [name.strip() for part in given or [] for name in part.split(",") if name.strip()]


def radius_of(given: list[str] | None) -> dict[str, float]:
    """Read NAME=NUMBER, each name once."""
    radius: dict[str, float] = {}
    for part in names(given):
        name, _, number = (word.strip() for word in part.rpartition("="))
        if name in radius:
            raise InputError(f"--radius names {name!r} more than once; give each key one radius")
        if not name or not _is_number(number):
            raise InputError(f"--radius {part!r} is not NAME=NUMBER; write it as income=0.1")
        radius[name] = float(number)
    return radius


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
