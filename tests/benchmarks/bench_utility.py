"""Seconds and memory of utility, context measures and bounds, and how they grow with n and m.

Run as a script: ``python tests/benchmarks/bench_utility.py [n ...]``. 14 categorical variables with
2 to 9 levels, as in an extract of the American Community Survey, drawn from a mixture of eight
classes; m releases drawn from the same mixture. In ``mixed`` 4 of the 14 are continuous, so that
all rows are distinct. ``CPU``: processor seconds of the call before it.
"""

import resource
import sys
import time
from collections.abc import Callable

import numpy as np
import pandas as pd

import bayes_risk as br

LEVELS = (2, 4, 9, 4, 7, 2, 3, 3, 2, 3, 3, 2, 2, 2)
CLASSES = 8
KEYS = ["v0", "v1", "v2", "v3"]


def drawn(n: int, seed: int, numbers: int = 0) -> pd.DataFrame:
    """Records of a latent class model that is the same for every seed."""
    model, rng = np.random.default_rng(1), np.random.default_rng([2, seed])
    z = rng.choice(CLASSES, n, p=model.dirichlet(np.ones(CLASSES)))
    columns = {}
    for j, d in enumerate(LEVELS):
        shares = model.dirichlet(0.5 * np.ones(d), size=CLASSES).cumsum(axis=1)
        columns[f"v{j}"] = (rng.random(n)[:, None] > shares[z, :-1]).sum(axis=1)
    for j in range(numbers):
        columns[f"v{len(LEVELS) - 1 - j}"] = z + rng.normal(size=n)
    return pd.DataFrame(columns)


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def utility_seconds(original: pd.DataFrame, releases: list[pd.DataFrame]) -> list[float]:
    """Wall and processor time of ``utility`` on two threads."""
    cpu = time.process_time()
    wall = seconds(lambda: br.utility(original, releases, random_seed=1, n_jobs=2))
    return [wall, time.process_time() - cpu]


def line(n: int, m: int) -> str:
    """One size: seconds of each function, and peak memory."""
    original, releases = drawn(n, 0), [drawn(n, 1 + l) for l in range(m)]
    times = [
        *utility_seconds(original, releases),
        *utility_seconds(drawn(n, 0, 4), [drawn(n, 1 + l, 4) for l in range(m)]),
        seconds(
            lambda: br.context_measures(
                original, releases, keys=KEYS, target=["v4", "v9"], distances=False
            )
        ),
        seconds(lambda: br.context_measures(original, releases, keys=KEYS, lookups=2_000)),
        seconds(lambda: br.release_bounds(original, synthesized=["v4"], patterns=KEYS, m=m)),
    ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return f"{n:>8,} {m:>3} " + " ".join(f"{t:>9.2f}" for t in times) + f" {peak:>9.2f}"


def main(sizes: list[int]) -> None:
    """Print one line a size and number of releases."""
    heads = ("utility", "CPU", "mixed", "CPU", "keys", "distances", "bounds", "peak GiB")
    print(f"{'n':>8} {'m':>3} " + " ".join(f"{h:>9}" for h in heads))
    br.utility(drawn(200, 0), drawn(200, 1), random_seed=1)  # imports
    for n in sizes:
        for m in (1, 5):
            print(line(n, m), flush=True)


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]] or [1_000, 10_000, 100_000])
