"""Processor seconds, memory and growth of all counts that need no model: `br.links`, `br.exposure`.

Run as a script: ``python tests/benchmarks/bench_links.py [n ...]``. Ten columns (six of categories)
of n persons and of m = 5 files: other persons, or with every twentieth row the original's.
"""

import resource
import sys
import time
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br

M, SHOWN = 5, 0.05


def persons(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Ten columns that hang together."""
    kind = rng.integers(0, 5, n)
    found: dict[str, Any] = {
        f"c{j}": (kind * (j + 1) + rng.integers(0, 3 + j, n)) % (3 + j) for j in range(6)
    }
    found["age"] = np.clip(rng.normal(45 + 3 * kind, 15), 0, 99).round()
    found["pay"] = np.exp(rng.normal(9 + 0.3 * kind, 0.8)).round()
    found["hours"] = np.clip(rng.normal(38, 8, n), 0, 80).round()
    return pd.DataFrame(found | {"weight": rng.gamma(4, 50, n).round(2)})


def main(sizes: list[int]) -> None:
    """Print one line a size and kind of file."""
    print(f"{'n':>8} {'files':>8} {'links s':>8} {'all s':>8} {'growth':>7} {'peak GiB':>9}")
    before: dict[str, tuple[int, float]] = {}
    for n in [200, *sizes]:  # the first compiles
        rng = np.random.default_rng(0)
        y, files = persons(n, rng), [persons(n, rng) for _ in range(M)]
        shown = [z.where(pd.Series(rng.random(n) >= SHOWN), y) for z in files]
        for kind, released in (("others", files), ("leaking", shown)):
            start = time.process_time()
            br.links(y, released, corresponds=True)
            first = time.process_time() - start
            br.exposure(y, released, corresponds=True)
            both = time.process_time() - start - first
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            size, seconds = before.get(kind, (n, both))
            growth = np.log(both / seconds) / np.log(n / size) if n > size else np.nan
            before[kind] = n, both
            if n != 200:
                print(f"{n:>8} {kind:>8} {first:>8.1f} {both:>8.1f} {growth:>7.2f} {peak:>9.2f}")


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]] or [5_000, 20_000, 100_000])
