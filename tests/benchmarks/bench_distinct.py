"""Sweeps of files all of whose records are distinct, where equal rows gain nothing.

Run by ``make bench``. Records come from five latent classes, 10 and 40 columns of 2 to 11 levels,
and stand beside as many drawn from 1,000 of them, equal ones once. Nanoseconds a record, column and
class of K = 30; where R has NPBayesImputeCat (``R_LIBS`` may name its library), those of its C++
sampler on the same file beside, in turn. ``splits`` are what it has not: a sweep of the same moves
as its own is the one without.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_risk.data.microdata import Microdata
from bayes_risk.models.mixture.columns import Columns
from bayes_risk.models.mixture.sampler import initial_state, run_chain
from bayes_risk.models.mixture.state import Prior

CLASSES, SWEEPS, TURNS = 30, 60, 3
LEVELS = (3, 4, 9, 2, 6, 5, 11, 4, 3, 3)
PEER = """
suppressMessages(library(NPBayesImputeCat))
X <- as.data.frame(lapply(read.csv("X.csv"), factor))
model <- CreateModel(X, NULL, {K}, 0, 0.25, 0.25, seed = 1)
model$Run(0, {sweeps}, 1, TRUE)
cat("seconds", system.time(model$Run(0, {sweeps}, 1, TRUE))["user.self"], "\n")
"""


def distinct(n, p, seed=0):
    """Records of five classes in p columns, no two alike."""
    rng, found = np.random.default_rng(seed), pd.DataFrame()
    levels = np.resize(LEVELS, p)
    tables = [[rng.dirichlet(np.full(d, 0.7)) for d in levels] for _ in range(5)]
    while len(found) < n:
        label = np.sort(rng.integers(5, size=n))
        codes = np.empty((n, p), np.int64)
        for k, of_class in enumerate(tables):
            for j, phi in enumerate(of_class):
                codes[label == k, j] = rng.choice(len(phi), (label == k).sum(), p=phi)
        found = pd.concat([found, pd.DataFrame(codes)]).drop_duplicates()
    found = found.sample(n, random_state=seed, ignore_index=True)
    return found.rename(columns=lambda j: f"x{j}").astype(str).astype("category")


def sampled(df):
    """Prior, units and where a chain goes on."""
    data = Microdata.from_frame(df)
    starts = np.concatenate([[0], np.cumsum(data.n_levels)]).astype(np.int64)
    prior = Prior(n_classes=CLASSES, concentration=(0.25, 0.25), level=1.0, starts=starts)
    units = Columns.of(levels=range(len(starts) - 1)).rows(data.codes, prior).units()
    rng = np.random.default_rng(1)
    start = initial_state(replace(prior, splits=5), units, rng)
    warm = run_chain(replace(prior, splits=5), units, start, draws=1, tune=SWEEPS, thin=1, rng=rng)
    return prior, units, warm


def ours(prior, units, start, splits):
    """Processor seconds of so many sweeps."""
    begin = time.process_time()
    how = {"draws": 1, "tune": SWEEPS - 1, "thin": 1, "rng": np.random.default_rng(2)}
    run_chain(replace(prior, splits=splits), units, start, **how)
    return time.process_time() - begin


def theirs(df):
    """The same of the peer; NaN where there is none."""
    if shutil.which("Rscript") is None:
        return np.nan
    with tempfile.TemporaryDirectory() as folder:
        df.to_csv(Path(folder) / "X.csv", index=False)
        script = Path(folder) / "peer.R"
        script.write_text(PEER.format(K=CLASSES, sweeps=SWEEPS))
        how = {"cwd": folder, "env": os.environ, "capture_output": True, "text": True}
        said = subprocess.run(["Rscript", "--vanilla", str(script)], check=False, **how).stdout
    found = re.search(r"seconds ([\d.]+)", said)
    return float(found[1]) if found else np.nan


def main():
    """One line a file; the middle of several turns."""
    print("ns a record, column and class; x: how many times as long the peer takes")
    last = {}
    for p in (10, 40):
        for n in (2_500, 10_000, 40_000):
            whole = distinct(n, p)
            rng = np.random.default_rng(3)
            grouped = whole.iloc[rng.integers(1_000, size=n)].reset_index(drop=True)
            line = [f"  n={n:6d} p={p:2d}"]
            for name, df in (("distinct", whole), ("1,000 rows", grouped)):
                state = sampled(df)
                turns = [(ours(*state, 0), ours(*state, 5), theirs(df)) for _ in range(TURNS)]
                plain, splits, peer = np.median(turns, axis=0) / (SWEEPS * n * p * CLASSES) * 1e9
                ratio = np.median([t[2] / t[0] for t in turns])
                line.append(
                    f"{name} {plain:.3f}, with splits {splits:.3f}, peer {peer:.3f} x{ratio:.1f}"
                )
                if (name, p) in last:
                    grown = np.log(np.median(turns, axis=0)[0] / last[name, p]) / np.log(4)
                    line[-1] += f", exponent {grown:.2f}"
                last[name, p] = np.median(turns, axis=0)[0]
            print("; ".join(line), flush=True)


if __name__ == "__main__":
    main()
