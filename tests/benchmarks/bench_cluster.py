"""What a cluster makes of a worst-case audit: the jobs counted, and the same bytes from 1, 2, 4.

Run by ``make bench``; the file of `bench_large.py`. Processor seconds of an audit's jobs are told
one by one. Stages follow each other, so the wall time with W workers on as many cores is the sum of
what each stage's jobs take on W, and of what lies between them: told for 1 to 100. Then the audit
is run on Dask clusters of 2 and 4 processes: wall and processor seconds beside what counting says
for as many cores as there are, and whether every number has the same bytes.
"""

import argparse
import hashlib
import heapq
import os
import resource
import tempfile
import time
from functools import partial
from pathlib import Path

import joblib
from bench_large import resampled  # type: ignore[import-not-found]

import bayes_risk as br
from bayes_risk._core import parallel

WORKERS = (1, 2, 4, 8, 16, 100)


class Counted:
    """Jobs of every call of `in_order`, in seconds, while one worker does them."""

    def __init__(self):
        self.stages, self._results = [], parallel._results

    def __enter__(self):
        def results(jobs, n_jobs, where, ticks):
            times = []
            self.stages.append((where, times))
            for job in jobs:
                begin = time.thread_time()
                with_ticks = {} if ticks is None else {"tick": ticks.tell}
                value = parallel._here(partial(job, **with_ticks))
                times.append(time.thread_time() - begin)
                yield value

        parallel._results = results
        return self

    def __exit__(self, *_):
        parallel._results = self._results

    def wall(self, whole, workers):
        """Seconds with so many workers: each stage's jobs go to whoever is free first."""
        jobs = sum(sum(times) for _, times in self.stages)
        return whole - jobs + sum(makespan(times, workers) for _, times in self.stages)


def makespan(times, workers):
    """When the last of some jobs is done, taken in order by whoever is free."""
    free = [0.0] * workers
    for t in times:
        heapq.heappush(free, heapq.heappop(free) + t)
    return max(free)


def used():
    """Processor seconds of this process and of those that ended."""
    found = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in found)


def digest(risk):
    """Of every number in the result's table."""
    return hashlib.sha256(risk.records.to_csv(float_format="%.17g").encode()).hexdigest()[:12]


def main():
    """One worker, then clusters."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=10_000)
    n = parser.parse_args().records
    fit = br.models.DPMPM(n_classes=30).fit(resampled(n), random_seed=1)
    release = fit.synthesize(5, random_seed=2)

    def audit(workers):
        return br.attribute_risk(fit, release, random_seed=3, n_jobs=workers)

    before = used()
    with Counted() as counted:
        expected = digest(audit(1))
    whole = used() - before
    jobs = [len(times) for _, times in counted.stages]
    print(f"{n} records, one worker: {whole:.1f} processor seconds")
    print(f"{sum(jobs)} jobs in {len(jobs)} stages; those of more than a hundredth of it:")
    for _, times in counted.stages:
        if sum(times) > whole / 100:
            print(f"  {len(times):4d} jobs, up to {max(times):.2f} s each, {sum(times):.1f} in all")
    for workers in WORKERS:
        wall = counted.wall(whole, workers)
        print(f"  {workers:4d} workers, by counting: {wall:.1f} s, x{whole / wall:.1f}")
    cores = os.cpu_count() or 1
    for workers in (2, 4):
        with tempfile.TemporaryDirectory() as folder:
            before = used()
            with parallel.working("dask", workers, Path(folder)):
                joblib.parallel.get_active_backend()[0].client.wait_for_workers(workers)
                begin = time.perf_counter()
                same = digest(audit(workers)) == expected
                wall = time.perf_counter() - begin
            by_count = counted.wall(whole, min(workers, cores))
            print(
                f"Dask, {workers} workers on {cores} cores: {wall:.1f} s ({by_count:.1f} by "
                f"counting), {used() - before:.1f} processor seconds, same bytes: {same}",
                flush=True,
            )


if __name__ == "__main__":
    main()
