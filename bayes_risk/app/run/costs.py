"""What a study will cost: memory by arithmetic, time from small runs on its own data."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from bayes_risk._core.ceiling import block_bytes
from bayes_risk._core.errors import InputError
from bayes_risk._core.validate import at_least
from bayes_risk._core.watch import check_memory
from bayes_risk.app.costs import Sizes, beneath, bytes_of, in_words, memory_by_stage, watched
from bayes_risk.app.study.making import Progress, read_data
from bayes_risk.app.study.study import Study
from bayes_risk.evidence.leave_one_out import BLOCK, FEW, ROOM

from .variants import checked_variants, settings_of

PROCESSES = ("loky", "dask")
CURES = "audit fewer targets, weigh fewer guesses, keep fewer draws, or make fewer releases"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run will take.

    Attributes
    ----------
    sizes : Sizes
        Of a sweep or a comparison, those of the setting or candidate that takes most.
    memory : mapping of str to mapping of str to int
        Bytes by stage and part.
    block, workers : int
        Distinct cases that a worker has at once, and workers.
    max_memory : int or None
        The ceiling in bytes.
    seconds : mapping of str to float
        CPU time by stage, rough: within a factor of two or so. Empty: not asked for.
    settings : int
        Audits that are made one after another: settings of a sweep, replicates of candidates.
    """

    sizes: Sizes
    memory: Mapping[str, Mapping[str, int]]
    block: int
    workers: int
    max_memory: int | None
    seconds: Mapping[str, float]
    settings: int = 1

    @property
    def fullest(self) -> str:
        """The stage that holds most."""
        return max(self.memory, key=lambda stage: sum(self.memory[stage].values()))

    @property
    def peak(self) -> int:
        """Bytes that the fullest stage holds."""
        return sum(self.memory[self.fullest].values())

    @property
    def fits(self) -> bool:
        """Whether the peak stays beneath the ceiling."""
        return self.max_memory is None or self.peak <= self.max_memory

    @property
    def room(self) -> int:
        """Bytes of work space that a worker has for one block."""
        s = self.sizes
        return block_bytes(self.block, s.sampler.draws, s.guesses, s.batches)

    def check(self) -> None:
        """Stop where the ceiling cannot hold.

        Raises
        ------
        InputError
            The estimate, its largest part, and what would help.
        """
        if self.fits:
            return
        parts = self.memory[self.fullest]
        most = max((p for p in parts if p != "program"), key=lambda p: parts[p])
        time = f" and {sum(self.seconds.values()):,.0f} s" if self.seconds else ""
        raise InputError(
            f"the study needs about {in_words(self.peak)}{time}, and max_memory is "
            f"{in_words(self.max_memory or 0)}; most of it is {most}, {in_words(parts[most])}, in "
            f"stage {self.fullest!r}: {CURES}, or raise max_memory"
        )

    def __repr__(self) -> str:
        s, parts = self.sizes, self.memory[self.fullest]
        audits = f"{self.settings:,} audits, the largest of " if self.settings > 1 else ""
        lines = [
            f"{audits}{s.records:,} records, {s.cases:,} distinct cases, {s.guesses:,} guesses "
            f"each, {s.sampler.draws:,} draws, {s.releases} releases; {self.workers} workers",
            f"memory: about {in_words(self.peak)}, in stage {self.fullest!r}:",
            *(f"  {part:32s} {in_words(size):>10s}" for part, size in parts.items()),
        ]
        if self.seconds:
            total = sum(self.seconds.values())
            lines += [f"CPU time: about {total:,.0f} s, within a factor of two or so:"]
            lines += [f"  {stage:32s} {took:8,.0f} s" for stage, took in self.seconds.items()]
        if self.max_memory is not None:
            holds = "holds" if self.fits else f"does not hold; {CURES}"
            lines.append(f"ceiling of {in_words(self.max_memory)}: {holds}")
        return "\n".join(lines)


def estimate(
    study: Study,
    *,
    kind: str = "audit",
    n_jobs: int = 2,
    backend: str | None = None,
    max_memory: str | int | None = None,
    time: bool = True,
) -> Cost:
    """Memory and time that a study will take, before it is run; nothing is written.

    Parameters
    ----------
    study : Study
    kind : {"audit", "sweep", "comparison"}
        What is run of it. A sweep holds the evidence of one setting, the fits of all settings, and
        the posterior of every prior; a comparison one candidate at a time.
    n_jobs, backend, max_memory
        As in `run_study`: workers, what they are, and the ceiling.
    time : bool
        Whether to run the study on a few thousand of its records, to tell how long it takes.

    Returns
    -------
    Cost

    Raises
    ------
    InputError
        Data or settings that do not fit.

    Notes
    -----
    Memory is counted from the data (records, distinct cases, guesses) and the settings; of a
    `PyMCModel` what its own graph holds is left out. Time is that of three small runs, extended in
    a straight line in records, targets and draws, times the settings of a sweep or the replicates
    of each candidate.
    """
    at_least("n_jobs", n_jobs, 1)
    ceiling = None if max_memory is None else bytes_of(max_memory)
    df, _ = read_data(study.data)
    variants = checked_variants(study, df, kind)
    cost = _beneath([v.sizes for v in variants], n_jobs, backend in PROCESSES, ceiling)
    settings = settings_of(study, kind)
    if not time:
        return replace(cost, settings=settings)
    from .pilot import seconds_of_run

    seconds = seconds_of_run(study, df, variants, kind)
    return replace(cost, settings=settings, seconds=seconds)


@contextmanager
def held_beneath(
    study: Study,
    kind: str,
    max_memory: str | int | None,
    *,
    n_jobs: int,
    backend: str | None,
    progress: Progress | None,
) -> Iterator[dict[str, Any]]:
    """``n_jobs`` and ``progress`` that a ceiling leaves; within the block it is watched.

    Raises
    ------
    InputError
        A ceiling that cannot hold.
    MemoryCeilingError
        Within the block: more memory was taken all the same.
    """
    at_least("n_jobs", n_jobs, 1)
    if max_memory is None:
        yield {"n_jobs": n_jobs, "progress": progress}
        return
    how: dict[str, Any] = {"n_jobs": n_jobs, "backend": backend, "max_memory": max_memory}
    cost = estimate(study, kind=kind, time=False, **how)
    if not cost.fits:
        estimate(study, kind=kind, **how).check()

    def watching(stage: str, done: int, total: int) -> None:
        check_memory()
        if progress is not None:
            progress(stage, done, total)

    with beneath(cost.room), watched(cost.max_memory):
        yield {"n_jobs": cost.workers, "progress": watching}


def _beneath(every: Sequence[Sizes], n_jobs: int, processes: bool, ceiling: int | None) -> Cost:
    """As many workers and as large blocks as the ceiling allows, the workers given up last."""
    usual = max(BLOCK, ROOM // max(1, *(s.sampler.draws for s in every)))
    for workers in range(n_jobs, 0, -1):
        block = usual
        while True:
            found = _fullest(every, block, workers, processes and workers > 1, ceiling)
            if found.fits:
                return found
            if block == FEW:
                break
            block = max(block // 2, FEW)
    return found


def _fullest(
    every: Sequence[Sizes], block: int, workers: int, processes: bool, ceiling: int | None
) -> Cost:
    """The cost of the audit that takes most."""
    costs = [
        Cost(
            sizes=sizes,
            memory=memory_by_stage(sizes, block=block, workers=workers, processes=processes),
            block=block,
            workers=workers,
            max_memory=ceiling,
            seconds={},
        )
        for sizes in every
    ]
    return max(costs, key=lambda cost: cost.peak)
