"""Peak memory of audits of 10^4, 10^5 and 10^6 records: the bound, measured, beneath a ceiling.

Run by ``make bench``, or one section at a time: ``bench_memory.py --records 10000 --model CART``.
Every audit runs in a process of its own: free; beneath its bound; and beneath nine tenths of that,
which is refused.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

RUN = """
import json, resource, sys, threading, time, warnings
from bayes_risk._core.memory import resident
from bayes_risk.app.run import run_study
from bayes_risk.app.run.audit import tried_of
from bayes_risk.app.run.runner import estimate
from bayes_risk.app.study.declare import read_data
from bayes_risk.app.study.study import parse_study
warnings.simplefilter("ignore")
given = json.loads(sys.argv[1])
study, share = parse_study(given["study"]), given["share"]
cost = estimate(study, time=False)
ceiling = None if share is None else int(share * cost.peak)
seen, over = [resident()], threading.Event()

def look():  # processes that were started too
    while not over.wait(0.05):
        seen.append(resident())

threading.Thread(target=look, daemon=True).start()
began = time.process_time()
run_study(study, max_memory=ceiling)
over.set()
peak = max(*seen, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(json.dumps({
    "bound": cost.peak, "start": seen[0], "peak": peak, "seconds": time.process_time() - began,
    "m": study.m, **tried_of(study, "audit", read_data(study.data)[0])[""].work[0],
}))
"""
COLUMNS = [f"v{j}" for j in range(10)]
MADE = COLUMNS[7:]
SHORT = {"draws": 50, "tune": 50, "chains": 2}
FORMULAS = {"amount": "1 + C(v0) + C(v1)", "count": "1 + amount + C(v2)"}
MODELS = {
    "CART": {"kind": "CART", "order": MADE},
    "DPMPM": {"kind": "DPMPM", "n_classes": 10} | SHORT | {"tune": 10},
    "PoissonMixture": {"kind": "PoissonMixture", "n_classes": 10, "covariates": ["v0"]} | SHORT,
    "Regression": {"kind": "Regression", "formulas": FORMULAS, "families": {"count": "poisson"}}
    | SHORT,
    "PMM": {"kind": "PMM", "order": MADE, "identifying": COLUMNS[6:]},
}
USED = {  # by default the categories alone
    "PoissonMixture": ["v0", "count", "size"],
    "Regression": ["v0", "v1", "v2", "amount", "count"],
}
SYNTHESISED = {"PoissonMixture": ["count", "size"], "Regression": ["amount", "count"]}
STEPS = {"additive": 2, "n": 5}
GUESSES = {
    "PoissonMixture": {"count": STEPS, "size": STEPS},
    "Regression": {"amount": STEPS, "count": STEPS},
}
TARGETS = {"CART": 100_000, "PMM": 100_000}  # of larger tables; others:
FEW = 10_000
REFITTED = ("DPMPM", "PoissonMixture", "Regression")
ARRAYS = ("summary.json", "records.csv", "risk.nc", "utility.csv")  # all but times and paths
GiB = 2**30


def table(n, d=6, seed=1):
    """Records of six classes: ten columns of six levels, nearly all distinct; three of numbers."""
    rng = np.random.default_rng(seed)
    k, columns = rng.integers(6, size=n), {}
    for name in COLUMNS:
        phi = rng.dirichlet(np.ones(d), size=6).cumsum(axis=1)
        code = (rng.random(n)[:, None] > phi[k]).sum(axis=1).clip(0, d - 1)
        columns[name] = np.array([f"c{x}" for x in range(d)])[code]
    columns |= {"amount": rng.normal(k, 1.0).round(3), "count": rng.poisson(1 + 2 * k)}
    columns["size"] = rng.poisson(20 * (1 + k))
    return pd.DataFrame(columns)


def study_of(path, output, name, n):
    """Attribute and identification risk of two or three columns; of trees the utility too."""
    targets = TARGETS.get(name, FEW)
    attribute = {"targets": targets} if n > targets else {}
    if name in GUESSES:
        attribute["guesses"] = GUESSES[name]
    made, release = SYNTHESISED.get(name, MADE), {"m": 3}
    if name == "PoissonMixture":
        release["classes"] = "own"
    further = {"utility": {"permutations": 2}} if name == "CART" else {}
    return further | {
        "data": {"path": str(path), "columns": USED.get(name, COLUMNS)},
        "random_seed": 1,
        "model": MODELS[name],
        "release": release | ({} if name == "PMM" else {"columns": made}),
        "attribute": attribute | ({"refit_budget": 0} if name in REFITTED else {}),
        "identification": {"known": ["v0"], "synthesized": made[-2:]},
        "output": {"folder": str(output)},
    }


def run(folder, name, n, share):
    """One audit: what it said, and a hash of its results."""
    path, output = folder / f"{n}.csv", folder / "out"
    if not path.exists():
        table(n).to_csv(path, index=False)
    given = json.dumps({"study": study_of(path, output, name, n), "share": share})
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", RUN, given], capture_output=True, text=True)
    took = time.perf_counter() - began
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1].partition(": ")[2]
        print(f"  {share}: refused after {took:.0f} s: {last}", flush=True)
        return None
    files = [output / file for file in ARRAYS if (output / file).exists()]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    shutil.rmtree(output)
    return json.loads(done.stdout.splitlines()[-1]) | {"hash": digest}


def told(found):
    """One line."""
    return (
        f"  bound {found['bound'] / GiB:.2f} GiB, peak {found['peak'] / GiB:.2f} GiB, bound / peak "
        f"{found['bound'] / found['peak']:.2f}, above the start "
        f"{(found['peak'] - found['start']) / GiB:.2f} GiB; {found['seconds']:.0f} s CPU"
    )


def section(folder, name, n):
    """Free, beneath the bound, and beneath less."""
    free = run(folder, name, n, None)
    print(
        f"{n:,} records, {name}: {free['cases']:,} distinct cases, {free['guesses']} guesses, "
        f"m = {free['m']}, {free['draws']} draws\n{told(free)}",
        flush=True,
    )
    assert free["peak"] <= free["bound"], "the bound does not hold"
    bounded = run(folder, name, n, 1.02)
    assert bounded["hash"] == free["hash"], "results depend on the ceiling"
    print(told(bounded) + "; the same bytes", flush=True)
    assert run(folder, name, n, 0.9) is None


def main():
    """Print every section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--model", nargs="*", default=["CART", "DPMPM"], choices=list(MODELS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for n in options.records:
            for name in options.model:
                section(Path(folder), name, n)


if __name__ == "__main__":
    main()
