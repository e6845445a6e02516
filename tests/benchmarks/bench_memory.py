"""Peak memory and CPU time of audits of 10^4, 10^5 and 10^6 records, estimated and measured.

Run by ``make bench``. Every audit runs in a process of its own.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

RUN = """
import json, resource, sys, time
from bayes_risk.run import run_study
from bayes_risk.run.costs import estimate
from bayes_risk.study.study import parse_study
given = json.loads(sys.argv[1])
study, ceiling = parse_study(given["study"]), given["ceiling"]
cost = estimate(study, max_memory=ceiling, time=False)
began = time.process_time()
run_study(study, max_memory=ceiling)
peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([cost.peak, peak, time.process_time() - began, cost.block, cost.workers]))
"""
COLUMNS = [f"v{j}" for j in range(8)]
CART = {"kind": "CART", "order": COLUMNS[1:]}
DPMPM = {"kind": "DPMPM", "n_classes": 10, "draws": 50, "tune": 50, "chains": 2}


def table(n, d=8, seed=1):
    """Records of six classes, eight columns of eight levels: nearly all distinct."""
    rng = np.random.default_rng(seed)
    k, columns = rng.integers(6, size=n), {}
    for name in COLUMNS:
        phi = rng.dirichlet(np.ones(d), size=6).cumsum(axis=1)
        code = (rng.random(n)[:, None] > phi[k]).sum(axis=1).clip(0, d - 1)
        columns[name] = [f"c{x}" for x in code]
    return pd.DataFrame(columns)


def run(folder, n, model, targets, ceiling):
    """Print one row."""
    path, output = folder / f"{n}.csv", folder / "out"
    if not path.exists():
        table(n).to_csv(path, index=False)
    attribute = {} if targets is None else {"targets": targets}
    own = ["v0"] if model is CART else []
    keys = {"known": own, "synthesized": ["v1", "v2"]}
    study = {
        "data": {"path": str(path)},
        "random_seed": 1,
        "model": model,
        "release": {"m": 3},
        "attribute": attribute | ({"refit_budget": 0} if model is DPMPM else {}),
        "identification": keys,
        "output": {"folder": str(output)},
    }
    given = json.dumps({"study": study, "ceiling": ceiling})
    done = subprocess.run([sys.executable, "-c", RUN, given], capture_output=True, text=True)
    name = f"{n:9,d} {model['kind']:6s} targets {targets or 'all'!s:6s} ceiling {ceiling or '-':6s}"
    if done.returncode:
        print(name, done.stderr.strip().splitlines()[-1][:200], flush=True)
        return
    expected, peak, seconds, block, workers = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{name} estimated {expected / 2**30:.2f} GiB, measured {peak / 2**30:.2f} GiB, "
        f"{seconds:.0f} s CPU, blocks of {block:.0f}, {workers} workers",
        flush=True,
    )
    shutil.rmtree(output)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for n in options.sizes:
            for model, targets in ((CART, None if n < 10**6 else 100_000), (DPMPM, 1_000)):
                for ceiling in (None, "2GiB"):
                    run(Path(folder), n, model, targets, ceiling)


if __name__ == "__main__":
    main()
