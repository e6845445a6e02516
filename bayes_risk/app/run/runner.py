"""Running a study: its audit, sweep or comparison, with workers, a bound and a folder.

Two runs of one `identity`, the seed among it, have the same results. What a run will take, before:
memory by arithmetic (docs/reliability.md), time from two small runs of it on its own data.
"""

import hashlib
import json
import secrets
import time as clocks
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from bayes_risk._core.checkpoint import keeping
from bayes_risk._core.errors import InputError
from bayes_risk._core.memory import bytes_in_words, bytes_of, guarded, resident
from bayes_risk._core.parallel import check_backend, working
from bayes_risk._core.progress import (
    Overall,
    Progress,
    ProgressOption,
    in_part,
    no_progress,
    shows_progress,
)
from bayes_risk._core.validate import whole_number
from bayes_risk.app.output import (
    SHOWN,
    Workplace,
    check_target,
    differences,
    output_folder,
    workplace,
    write_run,
)
from bayes_risk.app.study.declare import AUDITS, read_grouped, read_record_columns
from bayes_risk.app.study.files import files_behind
from bayes_risk.app.study.study import Study, candidate_study, changed, files_in, values_of
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.contract import CELLS
from bayes_risk.evidence.leave_one_out import BLOCK, MAX_TARGET_DRAWS
from bayes_risk.release.provenance import data_hash
from bayes_risk.reporting.provenance import versions

from . import audit
from .audit import Tried, Work, result_of, stages_of

PROGRAM, SAMPLER = 100 * 2**20, 100 * 2**20  # code that is compiled later, and of samplers
SHARED = ("model", "microdata", "idata", "files")  # among all fits, or counted with the table
SMALL = ((100, 10), (300, 30))  # records and draws of the small runs
WARM = 60  # records of a first one, which loads what the others need
START, REPORT = 4, 5  # CPU seconds until there is something to run, verdict included; of a page
BY_DRAW = ("fit", "attribute risk", "reweighting", "membership", "full table")
LARGEST = 5  # records of a count's largest values


def identity(study: Study, kind: str) -> dict[str, Any]:
    """Kind of run, settings, versions, and hashes of every file that it reads."""
    study = audit.with_keys(study, output={"folder": None})
    named = [*files_in(study)]
    for name in study.compare.candidates if study.compare is not None else ():
        one = candidate_study(study, name)
        named += files_in([one.model, one.release])
    for key, given in ((study.sweep and study.sweep.model) or {}).items():
        named += files_in([changed(study, key, value) for value in values_of(given)])
    # those that are not there are refused where they are read
    files = {p for path in named for p in files_behind(path) if p.is_file()}
    levels = json.dumps(study.data.levels).encode()
    return {
        "run": kind,
        "settings": study.settings(),
        "declared levels sha256": hashlib.sha256(levels).hexdigest(),
        "file": {str(path): {"sha256": data_hash(path)} for path in sorted(files)},
        "version": versions(),
    }


def unchanged(begun: Mapping[str, Any], study: Study, kind: str) -> None:
    """Refuse files that are not those of the beginning, if its `identity` is known."""
    now = identity(study, kind) if begun else {}
    for path in {*now.get("file", {})}.difference(begun.get("file", {})):
        if path.endswith(".py"):  # found since a Python file changed where modules are sought
            del now["file"][path]
    if found := differences(begun, now):
        changed = "; ".join(found[:SHOWN])
        raise InputError(f"{changed} while it was read; run again when it is whole")


@shows_progress
def run(
    study: Study,
    what: str = "audit",
    *,
    overwrite: bool = False,
    restart: bool = False,
    progress: ProgressOption = None,
    n_jobs: int = 2,
    backend: str | None = None,
    max_memory: str | int | None = None,
    command: str = "",
) -> Any:
    """Run a study, and write its folder if it names one.

    Steps are kept beside the folder while the run lasts; it is written whole, or not at all.

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
        Called for each stage and step, and for the run as a whole (``"in all"``, in thousandths).
        By default a bar in terminals and notebooks; False: none.
    n_jobs : int
        Number of workers. Results do not depend on it, nor on the next two.
    backend : {"threads", "loky", "dask"}, optional
        Workers: threads; processes of joblib; or a Dask cluster of ``n_jobs`` processes on this
        machine, for the run. By default those of joblib's ``parallel_config``, else threads.
    max_memory : str or int, optional
        The most memory to take, ``"2GiB"`` or a number of bytes: what is estimated to need more is
        refused, and the run stops where it is passed all the same.
    command : str
        How the run was started, for the manifest.

    Returns
    -------
    StudyResult, SweepResult or ComparisonResult

    Raises
    ------
    InputError
        Before any work: data or settings that do not fit, a study without the section; an output
        folder that exists, or that another run is writing; finished steps of another run; more work
        than ``max_memory`` can hold, with the estimate; ``"dask"`` without its packages.
    MemoryCeilingError, ChildProcessError
        More was taken than ``max_memory``; workers died again and again. Finished steps are kept:
        the same with more memory, or fewer workers, goes on.
    """
    whole_number("n_jobs", n_jobs)
    check_backend(backend)
    study.check_says(what)
    if max_memory is not None:
        cost = estimate(study, kind=what, n_jobs=n_jobs, backend=backend, time=False)
        cost.check(max_memory)

    tell = Overall(stages_of(study, what), progress or no_progress)
    output = study.output.folder
    seed = secrets.randbits(32) if study.random_seed is None else study.random_seed
    place: Any = nullcontext(Workplace(None, None, seed))
    begun: dict[str, Any] = {} if output is None else identity(study, what)
    if output is not None:
        check_target(output, overwrite=overwrite)
        place = workplace(output, begun, seed, restart=restart)

    with guarded(None if max_memory is None else bytes_of(max_memory)), place as work:
        if work.store is not None and work.store.found:
            tell("steps found", work.store.found, work.store.found)
        with working(backend, n_jobs, work.folder), keeping(work.store):
            read = partial(unchanged, begun, study, what)
            how: dict[str, Any] = {"read": read, "n_jobs": n_jobs, "progress": tell}
            result = result_of(study, what, work.random_seed, **how)
            _check_read_late(study, begun)
        if output is not None:
            with output_folder(output, overwrite=overwrite, aside=work.folder) as folder:
                tell("report", 0, 1)
                write_run(folder, result, command=command)
                tell("report", 1, 1)
    return result


def _check_read_late(study: Study, begun: Mapping[str, Any]) -> None:
    """Files that single audits read, when their turn comes, are those of the beginning."""
    late = files_in([getattr(study, name) for name in AUDITS if getattr(study, name) is not None])
    for path in late:
        known = begun.get("file", {}).get(str(path), {}).get("sha256")
        if known is not None and data_hash(path) != known:
            raise InputError(
                f"{path} has changed while the run went on, which may have read the new one; run "
                "again when it is whole"
            )


# --- what a run will take ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run will take: the bytes of its largest audit, and all CPU seconds."""

    stages: Sequence[str]
    program: int  # bytes of code and whatever is in memory already
    data: int  # bytes of the run
    seconds: Mapping[str, float]  # by stage or candidate; empty: not asked for

    @property
    def peak(self) -> int:
        """Bytes that are needed at most."""
        return self.program + self.data

    def check(self, max_memory: str | int | None) -> None:
        """Stop where the ceiling cannot be promised."""
        if max_memory is not None and self.peak > bytes_of(max_memory):
            raise InputError(
                f"the study needs up to {bytes_in_words(self.peak)}, and `max_memory` is "
                f"{bytes_in_words(bytes_of(max_memory))}; audit fewer targets, use fewer guesses, "
                "keep fewer draws, make fewer releases, run one worker (`n_jobs=1`), or "
                "raise `max_memory`"
            )

    def __str__(self) -> str:
        seconds = START + REPORT * ("report" in self.stages) + sum(self.seconds.values())
        return (
            f"stages: {', '.join(self.stages)}\nmemory: up to {bytes_in_words(self.peak)}\n"
            f"CPU time: about {seconds:,.0f} s, within a factor of two or so"
        )


def estimate(
    study: Study,
    *,
    kind: str = "audit",
    n_jobs: int = 2,
    backend: str | None = None,
    time: bool = True,
    progress: Progress = no_progress,
) -> Cost:
    """Memory and time that a run of a `kind` will take, before it is run; nothing is written.

    ``time`` runs the study three times on some of its records, and extends this in a straight line
    in records, with targets in proportion, times draws.
    """
    whole_number("n_jobs", n_jobs)
    study.check_says(kind)
    df, _, grouped = read_grouped(study.data)
    study, df = read_record_columns(study, df, grouped)
    costs: list[tuple[int, int]] = []
    seconds: dict[str, float] = {}
    processes = backend in ("loky", "dask")
    runs = audit.tried_of(study, kind, df)
    phrase = "trying {:,} records{}".format
    small = {k: [phrase(min(n, len(df)), f" of {k}" if k else "") for n, _ in SMALL] for k in runs}
    tell = Overall(dict.fromkeys(chain(*small.values()), 1), progress)
    for name, one in runs.items():
        works = one.work or [{}]
        several = len(works) if kind == "sweep" else 1  # settings, made one after another
        if kind == "compare" and one.study.release.files is None:
            several = study.compare.replicates
        costs += [_bytes(one, work, df, n_jobs, processes, several) for work in works]
        if time:
            cases = max(work.get("cases", 0) for work in works)
            took = _seconds(one.study, df, cases, small[name], tell)
            if kind == "sweep":  # whose settings may need fits of their own
                took["sweep"] = several * (took.get("fit", 0) + took.pop("attribute risk"))
            seconds |= {name: several * sum(took.values())} if name else took
    program, data = max(costs, key=sum)
    stages = [*stages_of(study, kind)]
    if (more := max(_longer(r.study, w) for r in runs.values() for w in r.work or [{}])) > 1:
        stages.append(f"attribute risk again, up to {more} times as long, to reach target_mcse")
    return Cost(stages=stages, program=program, data=data, seconds=seconds)


def _longer(study: Study, work: Work) -> int:
    """How many times as many draws an audit needs, at most, until its errors are small enough."""
    wanted = study.attribute is not None and study.attribute.target_mcse is not None
    return 2**study.attribute.max_doublings if wanted and work.get("draws") else 1


# --- memory -----------------------------------------------------------------------------------


def _bytes(
    one: Tried, work: Work, df: pd.DataFrame, n_jobs: int, processes: bool, several: int
) -> tuple[int, int]:
    """A bound on the bytes of one audit: of code and what is in memory already, and of the run."""
    study, fit, (n, p), m = one.study, one.fit, df.shape, one.study.m
    size = H = 0
    if fit is not None:
        H, trees = fit.n_draws, getattr(fit.model, "n_trees", 1)  # one stands for so many
        size = trees * sum(_size(getattr(fit, f.name)) for f in fields(fit) if f.name not in SHARED)
    more = _longer(study, work)
    chains = more * work.get("chains", getattr(study.model, "chains", 1))
    U, G, q = (work.get(size, 0) for size in ("cases", "guesses", "columns"))
    H, priors = work.get("draws", H), len(study.sweep.priors or ()) if study.sweep else 0
    F, B = (m + 1, 2 * chains) if H else (2, 2)
    block = min(U, max(BLOCK, MAX_TARGET_DRAWS // max(H, 1))) * (80 * H + 40 * G * B)
    texts = [df[c].nunique(dropna=False) for c in df if df[c].dtype.kind not in "iuf"]
    of_level = fit.microdata.n_levels if fit else np.array(texts)
    levels = p + int(np.maximum(of_level - 2, 0).sum())
    rows = _rows(df) if study.utility and study.release.files is None else n
    design = rows * levels * (levels if levels < 45 else 1) if study.utility else 0  # of pairs
    dummies = 8 * n * levels if fit is not None else 0  # of models; distances have none
    points = 32 * n * p if study.context else 0
    tables = int(df.memory_usage(deep=True).sum()) + n * p * (20 * m + 40) + dummies + points
    program = PROGRAM + (SAMPLER if fit is not None and fit.n_draws else 0)
    pairs = U * G * (16 * m + 8 * F * B + 208 + 24 * priors)
    if not H:  # distances, and factors of each guessed column
        pairs += 16 * min(U * G * n, 2**21) + 16 * q * min(m * U * G, CELLS)
    more *= 1 + (more > 1)  # they are joined
    data = tables + size * (several + more * (m + 1)) + pairs
    each = block + 32 * design + (program + tables + pairs // F if processes else 0)
    return resident() + program, data + n_jobs * each


def _rows(df: pd.DataFrame) -> int:
    """Half the distinct rows of a table and of its release: few have more than columns drawn apart.

    Of all tables with the same columns those whose columns are independent are the most diverse.
    """
    rng, codes = np.random.default_rng(0), df.apply(lambda c: pd.factorize(c)[0])
    apart = codes.apply(lambda c: rng.permutation(c))
    return -(-(len(codes.drop_duplicates()) + len(apart.drop_duplicates())) // 2)


def _size(value: Any) -> int:
    """Bytes of the arrays in a value."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_dataclass(value) and not isinstance(value, Microdata):
        return sum(_size(getattr(value, f.name)) for f in fields(value))
    parts = value.values() if isinstance(value, Mapping) else value
    return sum(map(_size, parts)) if isinstance(value, Mapping | list | tuple) else 0


# --- time -------------------------------------------------------------------------------------


Seconds = dict[str, float]


def _seconds(study: Study, df: pd.DataFrame, cases: int, phrases: Any, tell: Progress) -> Seconds:
    """CPU seconds by stage of small runs, extended to all records and draws: a straight line."""
    draws = getattr(study.model, "draws", None)
    whole = (len(df), draws if isinstance(draws, int) else 1)  # of files: as they are
    least = study.m if whole[1] > 1 else 1  # draws of a chain, one for each data set
    sizes = [(min(n, whole[0]), min(max(d, least), whole[1])) for n, d in SMALL]
    tells = [in_part(tell, words) for words in phrases]
    _one(study, df, (min(WARM, whole[0]), sizes[0][1]), 0, tells[0])  # with few targets
    few = _one(study, df, sizes[0], cases, tells[0])
    tell(phrases[0], 1, 1)
    many = _one(study, df, sizes[1], cases, tells[1])
    tell(phrases[1], 1, 1)
    found = {}
    for stage, took in few.items():
        low, high, all_of_it = (n * (d if stage in BY_DRAW else 1) for n, d in [*sizes, whole])
        each = max(many[stage] - took, 0.0) / max(high - low, 1)
        rounds = (1 + study.reweight.rounds) / 2 if stage == "reweighting" else 1
        found[stage] = rounds * (took + each * (all_of_it - low))
    return found


def _one(study: Study, df: pd.DataFrame, size: Any, cases: int, tell: Progress) -> Seconds:
    """CPU seconds by stage of one small run; its levels are those of all records.

    The targets are others than the study's, for whom its grids may have no place, and the table
    stands in the place of releases made elsewhere.
    """
    n, draws = size
    rows = np.random.default_rng(0).choice(len(df), n, replace=False)
    if study.model.grouped and study.record_columns is not None:
        # whole households, in the order of the first of them drawn
        of = pd.factorize(study.record_columns[study.data.household])[0]
        each = [np.flatnonzero(of == one) for one in dict.fromkeys(of[rows].tolist())]
        rows = np.concatenate(each[: int(np.searchsorted(np.cumsum([*map(len, each)]), n)) + 1])
    alone = study.model_copy(update={"history": None})  # whose records are others
    small = audit.with_keys(alone, reweight={"rounds": 1})
    if draws > 1:
        model: Any = study.model
        tune = max(model.tune * draws // model.draws, 1)
        small = audit.with_keys(small, model={"draws": draws, "tune": tune})
    if (section := study.attribute) is not None:
        few: dict[str, Any] = {"refit_budget": 0, "target_mcse": None}
        if section.knows.largest is None:
            few["targets"] = max(cases * n // len(df), 2)
        else:
            rows = np.union1d(rows, df[section.knows.largest].to_numpy().argsort()[-LARGEST:])
        few["guesses"] = section.placed_anywhere().guesses
        small = audit.with_keys(small, attribute=few)
    whole = df.apply(lambda c: c.astype("category") if c.dtype.kind not in "iufb" else c)
    part = whole.iloc[np.sort(rows)]
    if study.record_columns is not None:
        small = small.with_record_columns(study.record_columns.loc[part.index])
    given = None if study.release.files is None else audit.stand_in(small, part, None)
    seeds = audit.stage_seeds(0)
    how: dict[str, Any] = {"n_jobs": 1, "progress": tell}
    with warnings.catch_warnings(), _without_compiling() as now:
        warnings.simplefilter("ignore")
        clock = audit.Clock(now)
        one = Tried(small, small.declared(part), None, given, [])
        ready = audit.fit_and_release(one, part, clock, seeds=seeds, **how)
        audit.audits(small, ready, clock, seeds[2:], how)
    return clock.seconds


@contextmanager
def _without_compiling() -> Iterator[Callable[[], float]]:
    """A clock of CPU seconds that stands still while numba compiles, as only a first run does."""
    from numba.core import event

    class Stops(event.Listener):  # type: ignore[misc]  # numba has no types
        depth, begun, seconds = 0, 0.0, 0.0

        def on_start(self, _: Any) -> None:
            self.begun = self.begun if self.depth else clocks.process_time()
            self.depth += 1

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            self.seconds += 0.0 if self.depth else clocks.process_time() - self.begun

    stops = Stops()
    with event.install_listener("numba:compile", stops):
        yield lambda: clocks.process_time() - stops.seconds


run_study: Callable[..., audit.StudyResult] = partial(run, what="audit")
run_sweep: Callable[..., audit.SweepResult] = partial(run, what="sweep")
run_compare: Callable[..., audit.ComparisonResult] = partial(run, what="compare")
