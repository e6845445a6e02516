"""The work on a range of records, and who does it: this process, or the workers of Dask."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_risk._core.errors import InputError
from bayes_risk._core.profile_counts import Tally, add, tally
from bayes_risk._core.profiles import Heap, Layout, Profiles, merge, record_profiles, split

from .parquet_levels import Levels, digits, distinct_values, together
from .parquet_rows import ParquetTable, plain

if TYPE_CHECKING:
    import pyarrow as pa

Ids = npt.NDArray[np.int64]
Progress = Callable[[str, int, int], None]
Check = Callable[[Ids], None]

MERGED = 8  # tables that one task of the tree adds up
BUCKET = 2**30  # bytes that the largest possible table of a bucket takes
MOST_BUCKETS = 64


class Plan(NamedTuple):
    """What is read: tables, the original first; keys; the column that names records; rows."""

    tables: tuple[ParquetTable, ...]
    known: tuple[str, ...]
    synthesized: tuple[str, ...]
    id: str | None
    batch: int

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys."""
        return (*self.known, *self.synthesized)

    @property
    def n(self) -> int:
        """Number of records."""
        return self.tables[0].n


class Codes(NamedTuple):
    """How the keys are coded: the levels in each table, and the layout of profiles."""

    levels: tuple[Mapping[str, Levels], ...]
    layout: Layout


class Counted(NamedTuple):
    """Profiles of a range; ``changed`` (m, k): records whose known key is not the original's."""

    profiles: list[Profiles]
    changed: Ids


def check_ids(plan: Plan, start: int, stop: int) -> None:
    """Compare the column that names records, row by row."""
    if plan.id is None:
        return
    for table in plan.tables[1:]:
        ours, theirs = (
            t.pieces([plan.id], start, stop, plan.batch) for t in (plan.tables[0], table)
        )
        at, a, b = start, None, None
        while at < stop:
            a = next(ours)[plan.id] if not a else a
            b = next(theirs)[plan.id] if not b else b
            n = min(len(a), len(b))
            _same_ids(a[:n], b[:n], plan.id, table.name, at)
            at, a, b = at + n, a[n:], b[n:]


def find_values(plan: Plan, report: Any, start: int, stop: int) -> list[dict[str, "pa.Array"]]:
    """The values of every key in every table; ids agree."""
    check_ids(plan, start, stop)
    found = []
    for l, table in enumerate(plan.tables):
        progress = None if report is None else partial(_later, report, l * plan.n)
        found.append(distinct_values(table, plan.keys, start, stop, plan.batch, progress))
    return found


def count_profiles(
    plan: Plan, codes: Codes, buckets: int, report: Any, start: int, stop: int
) -> Counted:
    """Count the profiles of a range of records, dealt out into buckets of cells."""
    k, m = len(plan.known), len(plan.tables) - 1
    heap, changed, done = Heap(), np.zeros((m, k), dtype=np.int64), start
    streams = [
        digits(table, levels, start, stop, plan.batch)
        for table, levels in zip(plan.tables, codes.levels, strict=True)
    ]
    for original, *released in zip(*streams, strict=True):
        changed += [(rows[:k] != original[:k]).sum(axis=1) for rows in released]
        shown = [rows[k:] for rows in released]
        heap.add(record_profiles(codes.layout, original[:k], original[k:], shown))
        done += original.shape[1]
        if report is not None:
            report(done)
    whole = heap.total()
    return Counted([whole] if buckets == 1 else split(whole, codes.layout, buckets), changed)


class Alone:
    """One process reads everything once from the first record to the last."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress

    def values(self, plan: Plan) -> list[dict[str, "pa.Array"]]:
        """The values of every key in every table."""
        return find_values(plan, self._report("levels", plan.n * len(plan.tables)), 0, plan.n)

    def tally(
        self, plan: Plan, codes: Codes, fallback: bool, check: Callable[[Ids], None]
    ) -> Tally:
        """Match all targets; `check` looks at the known keys that changed."""
        found = count_profiles(plan, codes, 1, self._report("records", plan.n), 0, plan.n)
        check(found.changed)
        return tally(found.profiles[0], codes.layout, fallback=fallback)

    def _report(self, stage: str, total: int) -> Any:
        if self.progress is None:
            return None
        return partial(_report, self.progress, stage, total)


class OnWorkers:
    """A task a range of row groups; tables are added up in a tree; cells are matched in buckets.

    Everything is a task that the scheduler can give again: a worker that dies costs time only.
    """

    def __init__(self, client: Any, progress: Progress | None) -> None:
        self.client, self.progress = client, progress

    def values(self, plan: Plan) -> list[dict[str, "pa.Array"]]:
        """The values of every key in every table."""
        ranges = plan.tables[0].ranges(plan.batch)
        shared = self._submit(_same, plan)
        parts = [self._submit(find_values, shared, None, *where) for where in ranges]
        return list(self._gather("levels", [self._tree(_all_values, parts)], parts)[0])

    def tally(
        self, plan: Plan, codes: Codes, fallback: bool, check: Callable[[Ids], None]
    ) -> Tally:
        """Match all targets; `check` looks at the known keys that changed."""
        ranges, n_buckets = plan.tables[0].ranges(plan.batch), self._buckets(plan)
        shared, coded = self._submit(_same, plan), self._submit(_same, codes)
        parts = [
            self._submit(count_profiles, shared, coded, n_buckets, None, *where) for where in ranges
        ]
        changed = self._tree(_all_changed, [self._submit(_changed, part) for part in parts])
        tallies = []
        for b in range(n_buckets):
            tables = [self._submit(_bucket, part, b) for part in parts]
            whole = self._tree(merge, tables)
            tallies.append(self._submit(_tally, whole, codes.layout, fallback))
        total, *found = self._gather("records", [changed, *tallies], parts)
        check(total)
        return add([part for part in found if part is not None])

    def _buckets(self, plan: Plan) -> int:
        """One a thread, more if one could grow too large."""
        rows = plan.n * len(plan.tables)
        threads = sum(self.client.nthreads().values())
        return int(min(max(threads, -(-rows * 16 // BUCKET), 1), MOST_BUCKETS))

    def _submit(self, function: Any, *arguments: Any) -> Any:
        return self.client.submit(function, *arguments, pure=False)

    def _tree(self, combine: Any, parts: Sequence[Any]) -> Any:
        """Combine a few at a time until one is left."""
        while len(parts) > 1:
            groups = [parts[i : i + MERGED] for i in range(0, len(parts), MERGED)]
            parts = [self._submit(combine, list(group)) for group in groups]
        return parts[0] if parts else None

    def _gather(self, stage: str, wanted: Sequence[Any], parts: Sequence[Any]) -> list[Any]:
        """Wait for the answers, and say how many parts are done."""
        if self.progress is not None:
            import distributed

            finished: Any = distributed.as_completed
            for done, _ in enumerate(finished(parts), start=1):
                self.progress(stage, done, len(parts))
        return list(self.client.gather(list(wanted)))


def _report(progress: Progress, stage: str, total: int, done: int) -> None:
    progress(stage, done, total)


def _later(report: Callable[[int], None], before: int, done: int) -> None:
    report(before + done)


def _same(value: Any) -> Any:
    """Pass a value on: as a task's result it can be made again if its worker dies."""
    return value


def _all_values(parts: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Put the values found in several ranges together."""
    return [
        {key: together([values[key] for values in table]) for key in table[0]}
        for table in zip(*parts, strict=True)
    ]


def _changed(part: Counted) -> Ids:
    return part.changed


def _all_changed(parts: Sequence[Ids]) -> Ids:
    total: Ids = np.sum(parts, axis=0)
    return total


def _bucket(part: Counted, b: int) -> Profiles:
    return part.profiles[b]


def _tally(table: Profiles, layout: Layout, fallback: bool) -> Tally | None:
    return tally(table, layout, fallback=fallback) if len(table.records) else None


def _same_ids(ours: "pa.Array", theirs: "pa.Array", name: str, where: str, at: int) -> None:
    """Check one piece of the column that names records."""
    import pyarrow as pa

    ours, theirs = plain(ours), plain(theirs)
    try:
        theirs = theirs.cast(ours.type)
    except pa.ArrowException:
        raise InputError(
            f"id={name!r} is stored as {theirs.type} in {where} and as {ours.type} in the "
            "original; store it as one type"
        ) from None
    if not ours.equals(theirs):
        same = [a == b for a, b in zip(ours.to_pylist(), theirs.to_pylist(), strict=True)]
        raise InputError(
            f"id={name!r} of {where} is not the original's at record "
            f"{at + same.index(False) + 1:,}; records correspond by order: sort all files by "
            f"{name!r} and write them again"
        )
