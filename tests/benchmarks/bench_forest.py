"""Seconds and memory of random forests, for stated n, trees and targets.

Run as a script: ``python tests/benchmarks/bench_forest.py``. Every line is a process of its own, so
that its peak memory is its own (imports included: about 0.25 GiB). The table is the stand-in for
the Current Population Survey beside the checkout, or one simulated like it. The study is that of
Caiola & Reiter (2010): marital status, race and sex of 10,000 heads of households given nine other
variables, 500 trees, m = 5, which took them ten minutes; with 50,000 records R ran out of memory.
"""

import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk.models.trees.forest import Forest

FILE = "cps1995_heads_standin_51016.csv.gz"
ORDER = ["marital_status", "race", "sex"]
OTHERS = [
    *["age", "education", "hispanic_origin", "n_persons_worked_employer", "weeks_worked"],
    *["capital_gains", "dividends", "tax_filer_status", "class_of_worker"],
]
#       case: n, chain, votes, guesses in how many variables, targets
CASES = {
    "paper": (10_000, "all-others", "all", 1, 1_000),
    "paper, n / 4": (2_500, "all-others", "all", 1, 1_000),
    "paper, 4,000 targets": (10_000, "all-others", "all", 1, 4_000),
    "paper, all combinations": (10_000, "all-others", "all", 3, 1_000),
    "out-of-bag": (10_000, "all-others", "out-of-bag", 1, 1_000),
    "earlier only": (10_000, "earlier-only", "all", 1, 1_000),
    "large": (50_000, "all-others", "all", 1, 1_000),
}


def simulated(n: int) -> pd.DataFrame:
    """A table with as many levels, and about as much to be learnt of each variable."""
    rng = np.random.default_rng(1)
    age = rng.integers(15, 91, n)
    hidden = rng.normal(size=n) + age / 30
    levels = {
        **{"marital_status": 7, "race": 4, "sex": 2, "education": 16, "hispanic_origin": 9},
        **{"tax_filer_status": 6, "class_of_worker": 9},
    }
    table = {"age": age, "weeks_worked": np.clip((26 * hidden).astype(int), 0, 52)}
    for name, d in levels.items():
        cuts = np.quantile(hidden, 1 - 0.6 ** np.arange(1, d))
        value = np.searchsorted(cuts, hidden + rng.normal(size=n))
        table[name] = np.char.add("level ", value.astype(str))
    for name in OTHERS[-5:-2] + ["n_persons_worked_employer"]:
        table.setdefault(name, np.maximum(rng.normal(hidden - 3, 1), 0).round(2) * 1000)
    return pd.DataFrame(table)[ORDER + OTHERS]


def table(n: int) -> pd.DataFrame:
    """The stand-in's sample of 10,000 or its first n records; twelve variables."""
    file = Path(__file__).resolve().parents[3] / "shared" / "data" / FILE
    if not file.is_file():
        return simulated(n)
    df = pd.read_csv(file)
    chosen = df[df["in_sample_10000"] == 1] if n <= 10_000 else df
    return chosen.head(n)[ORDER + OTHERS].reset_index(drop=True)


def peak() -> float:
    """Largest memory of this process so far, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def audit(case: str) -> None:
    """Grow, synthesise, audit; print one line."""
    n, chain, votes, distance, targets = CASES[case]
    df = table(n)
    clock = [time.perf_counter()]
    fit: Any = Forest(ORDER, chain=chain, votes=votes).fit(
        df, missing="level", random_seed=1, n_jobs=2
    )
    clock.append(time.perf_counter())
    release = fit.synthesize(m=5, random_seed=2)
    clock.append(time.perf_counter())
    made = peak()
    risk = br.attribute_risk(
        fit,
        release,
        guesses=br.Neighbourhood(distance),
        targets=targets,
        evidence="exact",
        random_seed=3,
    )
    clock.append(time.perf_counter())
    fitted, drawn, audited = np.diff(clock)
    print(
        f"{case:<26} {n:>7,} {risk.n_guesses:>3} {targets:>6,} {fitted:>7.1f} {drawn:>9.1f} "
        f"{made:>9.2f} {audited:>8.1f} {peak():>9.2f}",
        flush=True,
    )


def growth(lines: dict[str, list[float]]) -> None:
    """Exponents of the seconds in n and in the number of targets."""
    for of, by, times in [("paper", "paper, n / 4", 4), ("large", "paper", 5)]:
        if of in lines and by in lines:
            ratio = np.log(np.array(lines[of]) / np.array(lines[by])) / np.log(times)
            what = ", ".join(
                f"{name} n^{r:.2f}"
                for name, r in zip(("fit", "synthesis", "audit"), ratio, strict=True)
            )
            print(f"from {by} to {of}: {what}")
    if {"paper", "paper, 4,000 targets"} <= set(lines):
        ratio = np.log(lines["paper, 4,000 targets"][2] / lines["paper"][2]) / np.log(4)
        print(f"audit: targets^{ratio:.2f}")


def main(chosen: list[str]) -> None:
    """One process a case."""
    print(
        f"{'case':<26} {'n':>7} {'G':>3} {'U':>6} {'fit s':>7} {'release s':>9} {'peak GiB':>9} "
        f"{'audit s':>8} {'peak GiB':>9}",
        flush=True,
    )
    lines = {}
    for case in chosen or CASES:
        done = subprocess.run(
            [sys.executable, __file__, "--case", case], check=True, stdout=subprocess.PIPE
        ).stdout.decode()
        print(done, end="", flush=True)
        fields = done[26:].split()
        lines[case] = [float(fields[3]), float(fields[4]), float(fields[6])]
    growth(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        audit(sys.argv[2])
    else:
        main(sys.argv[1:])
