"""Seconds, memory and power of membership: fresh and own classes, one release and several.

Run as a script: ``python tests/benchmarks/bench_membership.py [n ...]``. The Redbook survey
(``bayes_risk.demo.fair``), n members and as many people held out, a DPMPM of 40 classes, every
place compared with 100 people. ``H`` is the number of draws. The last columns are the area under
the curve with its standard error over people, and its Monte Carlo error.
"""

import resource
import sys
import time
import warnings

import numpy as np

import bayes_risk as br
from bayes_risk.demo import fair

DRAWS, COMPARISONS = 500, 100
RELEASES = [(1, "new"), (5, "new"), (1, "own")]


def line(fit, held_out, m: int, classes: str) -> str:
    """One mechanism: seconds, places a second, memory, area under the curve."""
    release = fit.synthesize(m=m, classes=classes, random_seed=3)
    start = time.perf_counter()
    found = br.membership(
        fit,
        release,
        others=held_out,
        comparisons=COMPARISONS,
        alternatives=COMPARISONS,
        random_seed=4,
        n_jobs=2,
    )
    seconds = time.perf_counter() - start
    row = found.summary().loc["auc"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return (
        f"{len(fit.microdata.codes):>6} {fit.n_draws:>5} {m:>3} {classes:>4} {seconds:>8.1f} "
        f"{peak:>9.2f} {row['value']:>7.4f} {row['standard_error']:>7.4f} {row['mcse']:>7.4f} "
        f"{int((~found.reliable).sum()):>11}"
    )


def main(sizes: list[int]) -> None:
    """Print one line a mechanism and size."""
    warnings.simplefilter("ignore", br.UnreliableWeightsWarning)  # they are counted
    print(
        f"{'n':>6} {'H':>5} {'m':>3} {'class':>4} {'seconds':>8} {'peak GiB':>9} {'auc':>7} "
        f"{'s.e.':>7} {'mcse':>7} {'unreliable':>11}"
    )
    df = fair()
    for n in sizes:
        order = np.random.default_rng(1).permutation(len(df))
        members, held_out = df.iloc[order[:n]], df.iloc[order[n : 2 * n]]
        model = br.models.DPMPM(n_classes=40)
        fit = model.fit(members, draws=DRAWS // 2, tune=DRAWS, chains=2, random_seed=2, n_jobs=2)
        for m, classes in RELEASES:
            print(line(fit, held_out, m, classes), flush=True)


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]] or [500, 1000])
