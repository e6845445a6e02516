"""Jobs of a stage, done by workers, their results in order."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from bayes_risk._core.validate import at_least

from .crews import crew_of
from .job import Died, Done, again, at_work, one_thread
from .watch import Watch

T = TypeVar("T")
RETRIES = 2  # times that unfinished jobs of a stage are done again when workers die
Where = Literal["anywhere", "threads", "forks"]


class Ticks(NamedTuple):
    """Progress within jobs: whom to tell of more units, and how many units a job has."""

    tell: Callable[[int], None]
    each: int


def in_order(
    jobs: Sequence[Callable[..., T]],
    *,
    n_jobs: int,
    what: str,
    where: Where = "anywhere",
    ticks: Ticks | None = None,
) -> Iterator[T]:
    """Results of jobs, one after another as they are asked for, worked on ahead.

    Parameters
    ----------
    jobs : list of callables
        For processes what each holds must be sendable; a stage that cannot be sent (locks, compiled
        functions) is done in threads.
    n_jobs : int
        Workers. 1, and any number within a job, does the jobs here; a Dask client has workers of
        its own.
    what : str
        The stage, for messages.
    where : {"anywhere", "threads", "forks"}
        ``"anywhere"``: where joblib's `parallel_config` says, in threads by default. ``"threads"``
        whatever it says, for jobs that write into shared arrays, are short, or would send more than
        they compute. ``"forks"``: processes that find everything in their memory, for compiled
        functions.
    ticks : Ticks, optional
        Then jobs take ``tick``, which they call with numbers of units. Of another process these
        are told when the job is done.

    Yields
    ------
    T
        The value of each job, in their order.

    Raises
    ------
    ChildProcessError
        Workers died more than `RETRIES` times. What was yielded is good.
    Exception
        What a job raises.

    Notes
    -----
    Linear algebra has one thread a worker, so that sums do not depend on the number of workers.
    When a worker dies, jobs that are not finished are done again from their start; random
    generators go to processes as copies, so the result is the same.
    """
    at_least("n_jobs", n_jobs, 1)
    if at_work():
        yield from (job() if ticks is None else job(tick=ticks.tell) for job in jobs)
        return
    held: dict[int, Done] = {}
    following = 0
    with one_thread(), Watch(what, len(jobs)) as watch:
        with closing(_finished(jobs, n_jobs, what, where, ticks)) as finished:
            for one in finished:
                watch.finished(one.seconds)
                held[one.k] = one
                while following in held:
                    ready = held.pop(following)
                    again(ready.warned)
                    with watch.aside():
                        yield ready.value
                    following += 1


def _finished(
    jobs: Sequence[Callable[..., Any]], n_jobs: int, what: str, where: Where, ticks: Ticks | None
) -> Generator[Done, None, None]:
    """Finished jobs in any order; those that were lost with a worker are done again."""
    left, crew = dict(enumerate(jobs)), crew_of(jobs, n_jobs, where)
    for _ in range(RETRIES + 1):  # the last one left too is done by a worker: it may be deadly
        given = {k: _ready(job, ticks, crew.away) for k, job in left.items()}
        try:
            with closing(crew.done(given)) as finished:
                for one in finished:
                    del left[one.k]
                    if ticks is not None and crew.away:
                        ticks.tell(ticks.each)
                    yield one
            return
        except Died as death:
            why = str(death)
    raise ChildProcessError(
        f"workers of stage {what!r} died {RETRIES + 1} times ({why}), {len(left)} of {len(jobs)} "
        "jobs unfinished; perhaps memory ran out: give fewer workers (--jobs), a ceiling "
        "(--max-memory), or --backend threads"
    )


def _ready(job: Callable[..., Any], ticks: Ticks | None, away: bool) -> Callable[[], Any]:
    return job if ticks is None else partial(job, tick=_nobody if away else ticks.tell)


def _nobody(more: int) -> None:
    """Tell nobody: who would listen is in another process."""
