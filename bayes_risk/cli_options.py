"""Options that several commands of ``bayes-risk`` share."""

from pathlib import Path
from typing import Annotated

import typer

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
    int, typer.Option("--jobs", min=1, help="Number of workers; results do not depend on it.")
]
MemoryOption = Annotated[
    str | None,
    typer.Option("--max-memory", help="Most memory to take: 2GiB. Results do not depend on it."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Tell the memory and time that it would take, and stop.")
]
