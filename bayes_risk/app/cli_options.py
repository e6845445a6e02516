"""Options that several commands of ``bayes-risk`` share."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import MOST

if TYPE_CHECKING:
    from bayes_risk.matching.radii import Radius

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


def radius_of(given: list[str] | None) -> dict[str, "Radius"]:
    """Read NAME=UNITS or NAME=SHARE%, each name once."""
    from bayes_risk.matching.radii import Absolute, Relative

    radius: dict[str, Radius] = {}
    for part in names(given):
        name, _, number = (word.strip() for word in part.rpartition("="))
        if name in radius:
            raise InputError(f"--radius names {name!r} more than once; give each key one radius")
        share = number.endswith("%")
        units = _as_number(number.removesuffix("%"))
        if not name or units is None:
            raise InputError(
                f"--radius {part!r} is not NAME=UNITS or NAME=SHARE%; write age=2 for 2 units to "
                "either side, or income=10% for 10 % of the true value"
            )
        if not 0 <= units < float("inf"):
            raise InputError(f"--radius {part!r} is no radius; give a finite number >= 0")
        radius[name] = Relative(units / 100) if share else Absolute(units)
    return radius


def _as_number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
