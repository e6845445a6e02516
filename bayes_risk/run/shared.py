"""What every run of a study does: its seeds, and its folder around the work."""

import secrets
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from bayes_risk.output import output_folder
from bayes_risk.study.making import Progress
from bayes_risk.study.study import Study

Result = TypeVar("Result")


class Writer(Protocol):
    """Writes a result into a folder."""

    def __call__(self, folder: Any, result: Any, *, command: str) -> None:
        """Write all files."""


def in_folder(
    study: Study,
    work: Callable[[], Result],
    write: Writer,
    *,
    stage: str,
    overwrite: bool,
    progress: Progress | None,
    command: str,
) -> Result:
    """Work, and write the study's folder if it names one: complete, or not there at all."""
    if study.output.folder is None:
        return work()
    say = progress or _quiet
    with output_folder(study.output.folder, overwrite=overwrite) as folder:
        result = work()
        say(stage, 0, 1)
        write(folder, result, command=command)
        say(stage, 1, 1)
    return result


def _quiet(stage: str, done: int, total: int) -> None:
    """Show nothing."""


def seed_of(study: Study) -> int:
    """The study's seed, or one drawn."""
    return secrets.randbits(32) if study.random_seed is None else study.random_seed


def seeds_of(seed: int) -> list[int]:
    """Of fit, release, attribute risk, membership, full table, and utility."""
    return [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(6)]


def diagnostics_of(study: Study, fit: Any) -> dict[str, Any]:
    """What the fit says of itself; notes of prediction models in words."""
    if fit is None:
        return {}
    found = dict(fit.diagnostics)
    return found | {"notes": list(fit.notes)} if study.model.kind == "PMM" else found
