"""What a study will cost: memory by arithmetic, time from small runs on its own data."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_risk._core.errors import InputError
from bayes_risk.costs import Sizes, beneath, bytes_of, in_words, memory_by_stage
from bayes_risk.costs.ceiling import block_bytes
from bayes_risk.evidence import BLOCK, FEW, ROOM
from bayes_risk.grids import as_guesses
from bayes_risk.microdata import Microdata
from bayes_risk.study.declare import attribute_options
from bayes_risk.study.making import declared, read_data
from bayes_risk.study.study import Study

SHARED = ("DPMPM", "PoissonMixture", "CART", "Forest")  # equal records have equal evidence
CLOSED = ("CART", "Forest", "PMM")
CURES = "audit fewer targets, weigh fewer guesses, keep fewer draws, or make fewer releases"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a study will take.

    Attributes
    ----------
    sizes : Sizes
    memory : mapping of str to mapping of str to int
        Bytes by stage and part.
    block, workers : int
        Distinct cases that a worker has at once, and workers.
    max_memory : int or None
        The ceiling in bytes.
    seconds : mapping of str to float
        CPU time by stage, rough: within a factor of two or so. Empty: not asked for.
    """

    sizes: Sizes
    memory: Mapping[str, Mapping[str, int]]
    block: int
    workers: int
    max_memory: int | None
    seconds: Mapping[str, float]

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
        lines = [
            f"{s.records:,} records, {s.cases:,} distinct cases, {s.guesses:,} guesses each, "
            f"{s.draws:,} draws, {s.releases} releases; {self.workers} workers",
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
    n_jobs: int = 2,
    max_memory: str | int | None = None,
    time: bool = True,
) -> Cost:
    """Memory and time that a study will take, before it is run; nothing is written.

    Parameters
    ----------
    study : Study
    n_jobs : int
        Workers.
    max_memory : str or int, optional
        The ceiling, as in `run_study`.
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
    Memory is counted from the data (records, distinct cases, guesses) and the settings; of models
    other than ``DPMPM``, what the sampler itself holds is left out. Time is that of three small
    runs, extended in a straight line in records, targets and draws.
    """
    ceiling = None if max_memory is None else bytes_of(max_memory)
    df, _ = read_data(study.data)
    declared(study, df)
    cost = _beneath(_sizes(study, df), n_jobs, ceiling)
    if not time:
        return cost
    from bayes_risk.run.pilot import seconds_of

    seconds = seconds_of(study, df, cost.sizes)
    return Cost(**{f: getattr(cost, f) for f in cost.__slots__} | {"seconds": seconds})


@contextmanager
def held_beneath(study: Study, n_jobs: int, max_memory: str | int | None) -> Iterator[int]:
    """Workers, and within the block the work space of each, that a ceiling leaves.

    Raises
    ------
    InputError
        A ceiling that cannot hold.
    """
    if max_memory is None:
        yield n_jobs
        return
    cost = estimate(study, n_jobs=n_jobs, max_memory=max_memory, time=False)
    if not cost.fits:
        estimate(study, n_jobs=n_jobs, max_memory=max_memory).check()
    s = cost.sizes
    with beneath(block_bytes(cost.block, s.draws, s.guesses, s.batches)):
        yield cost.workers


def _beneath(sizes: Sizes, n_jobs: int, ceiling: int | None) -> Cost:
    """As many workers and as large blocks as the ceiling allows, the workers given up last."""
    usual = max(BLOCK, ROOM // max(sizes.draws, 1))
    for workers in range(n_jobs, 0, -1):
        block = usual
        while True:
            memory = memory_by_stage(sizes, block=block, workers=workers)
            found = Cost(
                sizes=sizes,
                memory=memory,
                block=block,
                workers=workers,
                max_memory=ceiling,
                seconds={},
            )
            if found.fits:
                return found
            if block == FEW:
                break
            block = max(block // 2, FEW)
    return found


def _sizes(study: Study, df: Any) -> Sizes:
    """Counts of the data and settings."""
    data = Microdata.from_frame(df, missing=study.data.missing)
    kind, attribute = study.model.kind, study.attribute
    cases = guesses = 0
    names = study.release.columns or getattr(study.model, "order", None) or list(df.columns)
    if attribute is not None:
        columns = np.array([df.columns.get_loc(c) for c in names])
        numbers = [c for c in names if c in data.numbers]
        weighed = as_guesses(attribute_options(attribute)["guesses"], numbers)
        own = study.classes == "own" or kind not in SHARED
        cases = len(df) if own else len(np.unique(data.codes, axis=0))
        cases = min(cases, attribute.targets) if isinstance(attribute.targets, int) else cases
        guesses = len(weighed.of(data, data.codes[:2], columns).codes)
    draws, chains = getattr(study.model, "draws", 0), getattr(study.model, "chains", 0)
    sampled = kind not in CLOSED
    return Sizes(
        kind=kind,
        records=len(df),
        columns=len(df.columns),
        guessed=len(names),
        table=int(df.memory_usage(deep=True).sum()),
        program=_resident(),
        cases=cases,
        guesses=guesses,
        releases=study.release.m,
        draws=draws * chains if sampled and isinstance(draws, int) else 0,
        chains=chains if sampled else 0,
        levels=int(data.n_levels.sum()),
        classes=getattr(study.model, "n_classes", 1) or 1,
        sampled=sampled,
        confidential=study.output.confidential,
    )


def _resident() -> int:
    """Bytes of this process now, 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0
