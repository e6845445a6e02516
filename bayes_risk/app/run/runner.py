"""Running a study: its audit, sweep or comparison, with workers, a bound and a folder.

Two runs of one `identity`, the seed among it, have the same results.
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bayes_risk._core.checkpoint import keeping
from bayes_risk._core.memory import bytes_of, check_memory, guarded
from bayes_risk._core.parallel import check_backend, working
from bayes_risk._core.progress import Asked, shows_progress
from bayes_risk._core.validate import at_least
from bayes_risk.app.output.folder import check_target, output_folder, workplace
from bayes_risk.app.output.numbers import plain
from bayes_risk.app.output.study import write_run
from bayes_risk.app.study.study import Study, candidate_study, files_in
from bayes_risk.release.provenance import data_hash
from bayes_risk.reporting.provenance import versions

from .audit import (
    STAGES,
    ComparisonResult,
    Progress,
    StudyResult,
    SweepResult,
    result_of,
    stages_of,
)
from .costs import estimate


def identity(study: Study, kind: str) -> dict[str, Any]:
    """Kind of run, settings, versions, and hashes of every file that the study names."""
    set_to = plain(study.settings())
    set_to.get("output", {}).pop("folder", None)
    levels = {
        k: v if isinstance(v, str) else list(map(str, v)) for k, v in study.data.levels.items()
    }
    named = [*files_in(study.model_copy(update={"output": None}))]
    for name in study.compare.candidates if study.compare is not None else ():
        one = candidate_study(study, name)
        named += files_in([one.model, one.release])
    # those that are not there are told where they are read
    files = {p for path in named for p in [path, *path.rglob("*")] if p.is_file()}
    return {
        "run": kind,
        "settings": set_to,
        "declared levels sha256": hashlib.sha256(
            json.dumps(levels, default=str).encode()
        ).hexdigest(),
        "file": {str(path): {"sha256": data_hash(path)} for path in sorted(files)},
        "version": versions(),
    }


WHOLE = "in all"
LEADS = {"attribute risk": "evidence", "sweep": "settings"}  # steps that say how far a stage is


def overall(stages: Sequence[str], progress: Progress) -> Progress:
    """Progress of a run as a whole too, beside that of its stages, which weigh as they take."""
    now, most = "", 0.0
    weight = sum(STAGES[stage] for stage in stages)

    def tell(step: str, done: int, total: int) -> None:
        nonlocal now, most
        progress(step, done, total)
        if step in stages:
            now = step
        elif now != "comparison" and step != LEADS.get(now):  # candidates have any name
            return
        before = sum(STAGES[stage] for stage in stages[: stages.index(now)])
        most = max(most, (before + STAGES[now] * done / max(total, 1)) / weight)
        progress(WHOLE, int(1_000 * most), 1_000)

    return tell


@shows_progress
def run(
    study: Study,
    what: str = "audit",
    *,
    overwrite: bool = False,
    restart: bool = False,
    progress: Asked = None,
    n_jobs: int = 2,
    backend: str | None = None,
    max_memory: str | int | None = None,
    command: str = "",
) -> Any:
    """Run a study, and write its folder if it names one.

    Parameters
    ----------
    study : Study
        From `read_study`, or made in a script.
    what : {"audit", "sweep", "compare"}
        Its audits; its attribute audit varied as ``[sweep]`` says, other risks left aside; or the
        candidates of ``[compare]``, membership, full table and sweep left aside.
    overwrite : bool
        Replace an output folder that an earlier run wrote.
    restart : bool
        Throw away the steps that a stopped run finished. By default the same study goes on from
        them, and ends with the same bytes as without the stop.
    progress : callable (stage, done, total), optional
        Called as work proceeds, for each stage and step, and for the run as a whole (``"in all"``,
        in thousandths). By default a bar in terminals and notebooks; False: none.
    n_jobs : int
        Number of workers, 2 by default. Results do not depend on it.
    backend : {"threads", "loky", "dask"}, optional
        Workers: threads; processes of joblib; or a Dask cluster of ``n_jobs`` processes on this
        machine, begun and closed by the run. By default those of joblib's ``parallel_config``,
        threads if it says nothing. Results do not depend on it.
    max_memory : str or int, optional
        The most memory to take, ``"2GiB"`` or a number of bytes: what is estimated to need more is
        refused, and the run stops where it is passed all the same. Results do not depend on it.
    command : str
        How the run was started, for the manifest.

    Returns
    -------
    StudyResult, SweepResult or ComparisonResult

    Raises
    ------
    InputError
        Data or settings that do not fit; an output folder that exists (before any work is done), or
        that another run is writing; finished steps of a run that was not the same; more work than
        ``max_memory`` can hold, with the estimate; ``"dask"`` without its packages; a study without
        the section.
    MemoryCeilingError
        More was taken than ``max_memory``. Finished steps are kept: the same with more goes on.
    ChildProcessError
        Workers died again and again. Finished steps are kept.

    Notes
    -----
    Steps are kept beside the folder while the run lasts, which is written whole or not at all.
    """
    at_least("n_jobs", n_jobs, 1)
    check_backend(backend)
    study.check_says(what)
    if max_memory is not None:
        cost = estimate(study, kind=what, n_jobs=n_jobs, backend=backend, time=False)
        cost.check(max_memory)

    show = None if progress is None else overall(stages_of(study, what), progress)

    def tell(stage: str, done: int, total: int) -> None:
        check_memory()
        if show is not None:
            show(stage, done, total)

    output = study.output.folder
    seed = secrets.randbits(32) if study.random_seed is None else study.random_seed
    quiet = progress is None and max_memory is None
    doing: Any = {"n_jobs": n_jobs, "progress": None if quiet else tell}
    with guarded(None if max_memory is None else bytes_of(max_memory)):
        if output is None:
            with working(backend, n_jobs, None):
                return result_of(study, what, seed, **doing)
        check_target(output, overwrite=overwrite)
        with workplace(output, identity(study, what), seed, restart=restart) as place:
            if place.store.found:
                tell("steps found", place.store.found, place.store.found)
            with working(backend, n_jobs, place.folder), keeping(place.store):
                result = result_of(study, what, place.random_seed, **doing)
            with output_folder(output, overwrite=overwrite, aside=place.folder) as folder:
                tell("report", 0, 1)
                write_run(folder, what, result, command)
                tell("report", 1, 1)
        return result


run_study: Callable[..., StudyResult] = partial(run, what="audit")
run_sweep: Callable[..., SweepResult] = partial(run, what="sweep")
run_compare: Callable[..., ComparisonResult] = partial(run, what="compare")
