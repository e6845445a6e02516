"""Seconds of trees: growing, five releases of three variables, and exact evidence.

Run as a script: ``python tests/benchmarks/bench_trees.py [n ...]``. Householders are simulated with
the columns that Drechsler & Reiter (2008) used (five minutes for the releases of 10,000), age of 76
values as an ordered category, so that all levels of all three variables are guessed: 85 guesses.
A last line a size: age as a number from smoothed leaves, simulated evidence for 11 guesses.
"""

import resource
import sys
import time

import numpy as np
import pandas as pd

import bayes_risk as br

ORDER = ["age", "marital_status", "race"]


def householders(n: int) -> pd.DataFrame:
    """Age, marital status, race, sex, education and amounts, somewhat dependent."""
    rng = np.random.default_rng(1)
    age = np.clip(rng.normal(48, 17, n).round(), 15, 90).astype(int)
    married = np.where(rng.random(n) < 0.3, 4, np.clip((age - 15) // 13, 0, 6))
    wage = np.where(rng.random(n) < 0.3, 0, rng.gamma(2.0, 20.0 * age, n).round())
    return pd.DataFrame(
        {
            "age": pd.Categorical(age, list(range(15, 91)), ordered=True),
            "marital_status": pd.Categorical(np.char.add("m", married.astype(str))),
            "race": pd.Categorical(rng.choice(list("wbai"), n, p=[0.86, 0.1, 0.03, 0.01])),
            "sex": pd.Categorical(rng.choice(list("fm"), n)),
            "education": pd.Categorical(rng.integers(31, 47, n), ordered=True),
            "household": rng.poisson(1.7, n),
            "wage": wage,
            "tax": (0.01 * wage * rng.random(n)).round(),
        }
    )


def smoothed(df: pd.DataFrame) -> str:
    """Seconds, largest error of the truth's probability, and records that cannot be trusted."""
    df = df.astype({"age": float}).drop(columns=["wage", "tax"])
    fit = br.models.CART(["age"], smoothing="kde").fit(df, random_seed=2)
    release = fit.synthesize(m=5, random_seed=3)
    start = time.perf_counter()
    risk = br.attribute_risk(
        fit, release, guesses={"age": br.Grid(additive=5, n=11)}, random_seed=4
    )
    seconds = time.perf_counter() - start
    doubtful = int((~risk.reliable[risk.case]).sum())
    return f"smoothed ages: {seconds:.1f} s, mcse {risk.mcse.max():.4f}, {doubtful} unreliable"


def main(sizes: list[int]) -> None:
    """Print one line a size."""
    print(f"{'n':>9} {'grown':>7} {'5 releases':>11} {'evidence':>9} {'growth':>7} {'peak GiB':>9}")
    before: tuple[int, float] | None = None
    for n in sizes:
        df = householders(n)
        clock = [time.perf_counter()]
        fit = br.models.CART(ORDER).fit(df, random_seed=2)
        clock.append(time.perf_counter())
        release = fit.synthesize(m=5, random_seed=3)
        clock.append(time.perf_counter())
        br.attribute_risk(fit, release, guesses=br.Neighbourhood(1), evidence="exact")
        clock.append(time.perf_counter())
        grown, released, evidence = np.diff(clock)
        growth = np.log(evidence / before[1]) / np.log(n / before[0]) if before else float("nan")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{n:>9,} {grown:>7.2f} {released:>11.2f} {evidence:>9.2f} {growth:>7.2f} {peak:>9.2f}",
            flush=True,
        )
        print(f"{'':>9} {smoothed(df)}", flush=True)
        before = (n, float(evidence))


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]] or [2_500, 10_000, 40_000])
