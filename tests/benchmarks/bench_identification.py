"""Seconds that identification risk takes, and how they grow with the number of records.

Run as a script: ``python tests/benchmarks/bench_identification.py [n ...]``. Five keys, two of them
known, m = 5 releases; a third of the synthesised values is drawn anew. Peak memory: files and all.
Then one and two numeric keys within 10 %, of 100,000 records in few and many cells of exact keys.
"""

import resource
import sys
import time

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk.identification import identification_risk

KNOWN = {"region": 20, "sex": 2}
SYNTHESISED = {"age": 90, "education": 12, "married": 5}
M = 5


def make(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """A confidential file with text and numeric columns, and its releases."""
    levels = KNOWN | SYNTHESISED
    original = pd.DataFrame({name: rng.integers(0, d, n) for name, d in levels.items()})
    original["education"] = original["education"].map("level {}".format)
    original["region"] = original["region"].astype("category")
    releases = []
    for _ in range(M):
        released = original.copy()
        for name in SYNTHESISED:
            other = rng.permutation(original[name].to_numpy())
            released[name] = np.where(rng.random(n) < 1 / 3, other, original[name].to_numpy())
        releases.append(released)
    return original, releases


def main(sizes: list[int]) -> None:
    """Print one line per size; at the default sizes n grows tenfold from line to line."""
    print(f"{len(KNOWN | SYNTHESISED)} keys, m = {M}")
    print(f"{'n':>10} {'seconds':>9} {'ratio':>7} {'peak GiB':>9}")
    before = float("nan")
    for n in sizes:
        original, releases = make(n, np.random.default_rng(20))
        start = time.perf_counter()
        risk = identification_risk(
            original, releases, known=list(KNOWN), synthesized=list(SYNTHESISED)
        )
        risk.summary()
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{n:>10,} {seconds:>9.3f} {seconds / before:>7.1f} {peak:>9.2f}")
        before = seconds


def make_numeric(
    n: int, cells: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """Lognormal income and spending, which go together, before and after synthesis."""
    x = rng.normal(size=n)

    def amount(mean: float, slope: float, sd: float) -> npt.NDArray[np.float64]:
        return np.exp(mean + slope * x + sd * rng.normal(size=n)).round(2)

    original = pd.DataFrame(
        {
            "cell": rng.integers(0, cells, n),
            "income": amount(10, 1, 0),
            "spent": amount(9, 0.6, 0.5),
        }
    )
    return original, [
        original.assign(income=amount(10, 0.8, 0.6), spent=amount(9, 0.6, 0.5)) for _ in range(M)
    ]


def radius(n: int = 100_000) -> None:
    """Print one line per number of cells and of numeric keys; compile first."""
    print(f"\nradius 10 %, n = {n:,}, m = {M}\n{'cells':>10} {'numeric':>9} {'seconds':>9}")
    for size, cells, keys in [
        *[(1000, 1, ["income"]), (1000, 1, ["income", "spent"])],
        *[(n, 500, ["income"]), (n, 1, ["income"])],
        *[(n, 500, ["income", "spent"]), (n, 20, ["income", "spent"])],
    ]:
        original, releases = make_numeric(size, cells, np.random.default_rng(1))
        start = time.perf_counter()
        identification_risk(
            original,
            releases,
            known=["cell"],
            synthesized=keys,
            radius=dict.fromkeys(keys, 0.1),
        )
        if size == n:
            print(f"{cells:>10} {len(keys):>9} {time.perf_counter() - start:>9.2f}")


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]] or [10_000, 100_000, 1_000_000])
    radius()
