"""What every run of a study does: its seeds, and its folder around the work."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from bayes_risk._core.steps import keeping
from bayes_risk._core.workers import Waiting, check_backend, telling, working
from bayes_risk.app.output import check_target, output_folder, workplace
from bayes_risk.app.study.making import Progress
from bayes_risk.app.study.study import Study

from .identity import identity

Result = TypeVar("Result")


class Writer(Protocol):
    """Writes a result into a folder."""

    def __call__(self, folder: Any, result: Any, *, command: str) -> None:
        """Write all files."""


def in_folder(
    study: Study,
    kind: str,
    work: Callable[[int], Result],
    write: Writer,
    *,
    overwrite: bool,
    restart: bool,
    progress: Progress | None,
    command: str,
    n_jobs: int,
    backend: str | None,
) -> Result:
    """``work(seed)``, and write the study's folder if it names one: complete, or not at all.

    Steps are kept beside the folder while the run lasts. ``backend`` and ``n_jobs``: the workers
    that are there meanwhile.
    """
    check_backend(backend)
    output, seed = study.output.folder, seed_of(study)
    if output is None:
        with _workers(backend, n_jobs, None, progress):
            return work(seed)
    say = progress or _quiet
    check_target(output, overwrite=overwrite)
    with workplace(output, identity(study, kind), seed, restart=restart) as place:
        if place.store.found:
            say("steps found", place.store.found, place.store.found)
        with _workers(backend, n_jobs, place.folder, progress), keeping(place.store):
            result = work(place.random_seed)
        with output_folder(output, overwrite=overwrite, aside=place.folder) as folder:
            say("report", 0, 1)
            write(folder, result, command=command)
            say("report", 1, 1)
    return result


@contextmanager
def _workers(
    backend: str | None, n_jobs: int, folder: Path | None, progress: Progress | None
) -> Iterator[None]:
    """Workers, and whom to tell when they are stuck."""

    def tell(waiting: Waiting) -> None:
        if progress is not None:
            done = waiting.total - waiting.unfinished
            progress(f"waiting for {waiting.stage}", done, waiting.total)

    with working(backend, n_jobs, folder):
        if progress is None:
            yield
            return
        with telling(tell):
            yield


def _quiet(stage: str, done: int, total: int) -> None:
    """Show nothing."""


def seed_of(study: Study) -> int:
    """The study's seed, or one drawn."""
    return secrets.randbits(32) if study.random_seed is None else study.random_seed


def seeds_of(seed: int) -> list[int]:
    """Of fit, release, attribute risk, membership, full table, utility, context, and bounds."""
    return [int(child.generate_state(1)[0]) for child in np.random.SeedSequence(seed).spawn(8)]


def diagnostics_of(study: Study, fit: Any) -> dict[str, Any]:
    """What the fit says of itself; notes of prediction models in words."""
    if fit is None:
        return {}
    found = dict(fit.diagnostics)
    return found | {"notes": list(fit.notes)} if study.model.kind == "PMM" else found
