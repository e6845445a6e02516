"""Seconds and memory of identification risk of Parquet files, and how they grow with the records.

Run as a script: ``python tests/benchmarks/bench_identification_files.py [n ...]``. Five keys, two
of them known, m = 5 releases; a third of the synthesised values is drawn anew; row groups of
250,000. Each line is a process of its own, so its peak is its own: from files, from files with
1 GiB for DuckDB, and in memory from DataFrames with category columns.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

KNOWN = {"region": 20, "sex": 2}
SYNTHESISED = {"age": 90, "education": 12, "married": 5}
M, GROUP = 5, 250_000


def write(n: int, folder: Path, *, seed: int = 20) -> None:
    """A confidential file with text, category and numeric columns, and its releases."""
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, d, n, dtype=np.int16) for name, d in KNOWN.items()}
    genuine = {name: rng.integers(0, d, n, dtype=np.int16) for name, d in SYNTHESISED.items()}
    for l in range(M + 1):
        shown = {
            name: np.where(rng.random(n) < 1 / 3, rng.permutation(values), values) if l else values
            for name, values in genuine.items()
        }
        table = {name: levels(name, values) for name, values in (codes | shown).items()}
        pd.DataFrame(table).to_parquet(folder / f"{l}.parquet", row_group_size=GROUP)


def levels(name: str, codes: npt.NDArray[np.int16]) -> Any:
    """Text, a category, and numbers as they are."""
    if name not in ("region", "education"):
        return codes
    words = [f"{name} {d}" for d in range((KNOWN | SYNTHESISED)[name])]
    column = pd.Series(np.array(words, dtype=object)[codes])
    return column.astype("category" if name == "region" else "str")


def run(way: str, folder: Path) -> None:
    """Compute once and print the seconds, the peak and the pooled expected match risk."""
    import bayes_risk as br

    files = [str(folder / f"{l}.parquet") for l in range(M + 1)]
    keys: dict[str, Any] = {"known": list(KNOWN), "synthesized": list(SYNTHESISED)}
    if way == "memory":
        original, *releases = (pd.read_parquet(file).astype("category") for file in files)
        start = time.perf_counter()
        risk: Any = br.identification_risk(original, releases, **keys)
    else:
        start = time.perf_counter()
        most = "1GiB" if way == "1GiB" else None
        risk = br.identification_risk_of_files(files[0], files[1:], max_memory=most, **keys)
    print(f"{time.perf_counter() - start:.2f} {peak_of():.2f} {pooled(risk)}")


def pooled(risk: Any) -> str:
    """What must not depend on the way; and the profiles, where they are counted."""
    found = float(risk.summary().loc["pooled", "expected_match_risk"])
    return f"{found!r} {getattr(risk, 'n_profiles', 0)}"


def peak_of() -> float:
    """GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(sizes: list[int], ways: list[str]) -> None:
    """Print one line per size and way."""
    print(f"{len(KNOWN | SYNTHESISED)} keys, m = {M}")
    print(f"{'n':>11} {'way':>7} {'seconds':>8} {'ratio':>6} {'GiB':>6} {'profiles':>10}  pooled")
    before: dict[str, float] = {}
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write(n, Path(folder))
            for way in ways:
                command = [sys.executable, __file__, "--run", way, folder]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                seconds, peak, risk, profiles = done.stdout.split()[-4:]
                ratio = float(seconds) / before.get(way, float("nan"))
                before[way] = float(seconds)
                print(
                    f"{n:>11,} {way:>7} {seconds:>8} {ratio:>6.1f} {peak:>6} {int(profiles):>10,}"
                    f"  {risk}",
                    flush=True,
                )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2], Path(sys.argv[3]))
    else:
        chosen = [a for a in sys.argv[1:] if not a.isdigit()] or ["files", "1GiB", "memory"]
        given = [int(a) for a in sys.argv[1:] if a.isdigit()]
        main(given or [100_000, 1_000_000, 10_000_000], chosen)
