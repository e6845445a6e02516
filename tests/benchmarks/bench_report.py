"""Seconds and bytes of a report of everything, for files of n records.

Run as a script: ``python tests/benchmarks/bench_report.py [n ...]``. Attribute risk of n records,
each with a k-hat and an error of its own, matching, utility and context measures of files of 14
columns; the other results (membership, privacy loss, full table, sensitivity, reweighting,
comparison) are small. ``CPU``: processor seconds. The first report of a process also imports.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import bayes_risk as br
from bayes_risk.matching.risk import identification_risk

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.bench_utility import KEYS, drawn
from tests.helpers.edge_results import attribute
from tests.helpers.every_result import every

SMALL = (
    *("privacy loss", "membership", "full table", "sensitivity", "reweighting", "matching"),
    "comparison",
)


def results(n: int) -> list[object]:
    """All that a report takes, for n records."""
    rng = np.random.default_rng(3)
    original, releases = drawn(n, 0), [drawn(n, seed) for seed in (1, 2, 3)]
    p = rng.beta(1, 4, n)
    risk = attribute(p, khat=0.0, mcse=rng.gamma(2, 0.002, n), reliable=rng.random(n) > 0.01)
    made = [c for c in original.columns if c not in KEYS]
    files = [original[KEYS].join(z[made]) for z in releases]
    return [
        risk,
        identification_risk(original, files, known=KEYS, synthesized=made[:3]),
        br.utility(original, releases, permutations=4, random_seed=1),
        br.context_measures(original, releases, keys=KEYS, target="v5", random_seed=1),
        *(every()[name] for name in SMALL),
    ]


def main() -> None:
    """Print a line for each n."""
    print(f"{'n':>9} {'seconds':>8} {'CPU':>6} {'kB':>6}")
    for n in [int(a) for a in sys.argv[1:]] or [1_000, 10_000, 100_000]:
        parts = results(n)
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                wall, cpu = time.perf_counter(), time.process_time()
                path = br.report(*parts, path=Path(folder) / "r.html")
                took = time.perf_counter() - wall, time.process_time() - cpu
                print(f"{n:>9,} {took[0]:>8.2f} {took[1]:>6.2f} {path.stat().st_size / 1e3:>6,.0f}")


if __name__ == "__main__":
    main()
