"""Sweep time of Poisson mixtures, and how it grows with records and size of count.

Run by ``make bench``. Prints figures of this machine; ratios travel better than seconds.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk.models.latent_sampler import run_chain
from bayes_risk.models.poisson_mixture import prior_of
from bayes_risk.models.poisson_units import CountColumns, read_counts, scattered

CLASSES, COUNTS = 20, 4
BLOCKS, SWEEPS = 40, 5


def establishments(n, largest, *, seed):
    """Four related counts, log-normal across establishments, the greatest about ``largest``."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.normal(size=n) * 1.5)
    shares = rng.dirichlet(np.full(COUNTS, 5.0), n)
    mean = size[:, None] * shares / size.max() * largest * 2
    return pd.DataFrame(rng.poisson(mean), columns=[f"x{j}" for j in range(COUNTS)])


def sweeping(n, largest, zeros=None):
    """Milliseconds a sweep, the best block of processor time of a warm chain; distinct records."""
    model = br.models.PoissonMixture(CLASSES, zeros=zeros)
    data = read_counts(establishments(n, largest, seed=1), (), None)
    columns = CountColumns.of(data, (), None)
    prior = prior_of(model, data, columns)
    units = columns.units_of(data.codes, prior)
    rng = np.random.default_rng(2)
    start = scattered(prior, units, rng)
    warm = run_chain(prior, units, start, draws=1, tune=50, thin=1, rng=rng)
    blocks = []
    for _ in range(BLOCKS):
        begin = time.thread_time()
        warm = run_chain(prior, units, warm.last(0), draws=1, tune=0, thin=SWEEPS, rng=rng)
        blocks.append(time.thread_time() - begin)
    return 1e3 * min(blocks) / SWEEPS, len(units.multiplicity)


def audit(n, targets, m=5):
    """Seconds of the fit, and of the audit of the largest records from m releases."""
    table = establishments(n, 1e4, seed=3)
    begin = time.perf_counter()
    fit = br.models.PoissonMixture(CLASSES).fit(table, random_seed=1, n_jobs=2)
    fitted = time.perf_counter()
    release = fit.synthesize(m=m, random_seed=2)
    records = table["x0"].nlargest(targets).index
    grids = {c: br.Grid(percent=10, n=11) for c in table}
    br.attribute_risk(fit, release, targets=list(records), guesses=grids, random_seed=3, n_jobs=2)
    return fitted - begin, time.perf_counter() - fitted


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[2_500, 10_000, 40_000])
    parser.add_argument("--audit", type=int, default=0, metavar="TARGETS", help="50, say")
    options = parser.parse_args()
    print(f"sweeps, {COUNTS} counts, {CLASSES} classes: ms each")
    last = None
    for n in options.sizes:
        ms, U = sweeping(n, 1e4)
        print(f"  n={n:6d} U={U:6d}: {ms:.3f} ms" + (f", x{ms / last:.2f}" if last else ""))
        last = ms
    for largest, zeros in ((30, None), (1e9, None), (1e4, (1.0, 1.0))):
        ms, U = sweeping(10_000, largest, zeros)
        print(f"  n= 10000 U={U:6d} largest {largest:.0e} zeros={zeros}: {ms:.3f} ms", flush=True)
    if options.audit:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit, risk = audit(10_000, options.audit)
        print(f"audit of the {options.audit} largest, 5 releases: fit {fit:.1f} s, {risk:.1f} s")


if __name__ == "__main__":
    main()
