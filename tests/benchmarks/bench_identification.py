"""Seconds that identification risk takes, and how they grow with the number of records.

Run as a script: ``python tests/benchmarks/bench_identification.py [n ...]``. Five keys, two of them
known, m = 5 releases; a third of the synthesised values is drawn anew. Peak memory: files and all.
Then one and two numeric keys within 10 %, of 100,000 records in few and many cells of exact keys;
one or two in one release, in processor seconds, the radius shrinking so that as many records match,
or staying; and targets of a whole population, 51,016 people of whom 10,000 are in the file.
"""

import resource
import sys
import time

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_risk.matching.risk import identification_risk

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


def growth(sizes: tuple[int, ...] = (10_000, 16_000, 100_000, 1_000_000)) -> None:
    """Print one line per size: one release, 40 cells of exact keys, or none."""
    print("\nm = 1, radius 10 % at n = 16,000, then smaller (matches stay) or the same (they grow)")
    print(f"{'n':>10} {'cells':>9} {'numeric':>9} {'radius':>9} {'CPU s':>9}")
    keys = ["income", "spent"]
    for cells, numeric, shrinks in [(40, 2, 0.5), (1, 2, 0.5), (40, 2, 0), (1, 2, 0), (40, 1, 0)]:
        seconds = {}
        for n in [sizes[0], *sizes]:  # compile first
            original, releases = make_numeric(n, cells, np.random.default_rng(1))
            r = 0.1 * (16_000 / n) ** shrinks
            start = time.process_time()
            identification_risk(
                original,
                releases[0],
                known=["cell"],
                synthesized=keys[:numeric],
                radius=dict.fromkeys(keys[:numeric], r),
                fallback=False,
            )
            seconds[n] = time.process_time() - start
        for n, spent in seconds.items():
            r = 0.1 * (16_000 / n) ** shrinks
            print(f"{n:>10,} {cells:>9} {numeric:>9} {r:>9.4f} {spent:>9.3f}")
        rise = np.log(seconds[sizes[-1]] / seconds[sizes[0]]) / np.log(sizes[-1] / sizes[0])
        print(f"exponent {rise:.2f}")


def whole_population(n: int = 51_016, in_file: int = 10_000) -> None:
    """Print the seconds for everybody as a target, with whole counts and with estimated ones."""
    rng = np.random.default_rng(3)
    levels = {"age": 76, "race": 4, "sex": 2, "married": 7}
    people = pd.DataFrame({c: (rng.random(n) ** 2 * d).astype(int) for c, d in levels.items()})
    file = people.sample(in_file, random_state=1)
    releases = [
        file.assign(**{c: rng.permutation(file[c]) for c in ("race", "married")}) for _ in range(M)
    ]
    counts = people.groupby(list(levels))["age"].transform("size").to_numpy(float)
    print(f"\ntargets {n:,}, records {in_file:,}, m = {M}\n{'counts':>10} {'seconds':>9}")
    estimated = np.stack([counts * (1 + 0.01 * l) for l in range(M)])
    for words, F in (("whole", counts), ("estimated", estimated)):
        start = time.perf_counter()
        identification_risk(
            file,
            releases,
            known=["age", "sex"],
            synthesized=["race", "married"],
            targets=people,
            population=F,
        )
        print(f"{words:>10} {time.perf_counter() - start:>9.3f}")


if __name__ == "__main__":
    main([int(n) for n in sys.argv[1:]] or [10_000, 100_000, 1_000_000])
    radius()
    growth()
    whole_population()
