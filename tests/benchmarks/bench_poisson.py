"""Sweep time of Poisson mixtures, and how it grows with records and size of count.

Run by ``make bench``. Prints figures of this machine; ratios travel better than seconds.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk.models.mixture.columns import prior_of
from bayes_risk.models.mixture.sampler import initial_state, run_chain

CLASSES, COUNTS, TRADES = 20, 4, 16
BLOCKS, SWEEPS = 40, 5


def establishments(n, largest, *, seed):
    """Four related counts, log-normal across establishments, the greatest about ``largest``."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.normal(size=n) * 1.5)
    shares = rng.dirichlet(np.full(COUNTS, 5.0), n)
    mean = size[:, None] * shares / size.max() * largest * 2
    return pd.DataFrame(rng.poisson(mean), columns=[f"x{j}" for j in range(COUNTS)])


def trades(n, *, seed):
    """Counts of establishments of sixteen kinds, from ten to ten thousand: what 20 classes hold.

    (The log-normal `establishments` need far more classes than 20; their audits are marked
    unreliable, and rightly.)
    """
    rng = np.random.default_rng(seed)
    size = np.geomspace(10, 1e4, TRADES)
    shares = rng.dirichlet(np.full(COUNTS, 5.0), TRADES)
    kind = rng.choice(TRADES, n, p=size**-0.8 / (size**-0.8).sum())
    mean = COUNTS * (size[:, None] * shares)[kind]
    return pd.DataFrame(rng.poisson(mean), columns=[f"x{j}" for j in range(COUNTS)])


def sweeping(n, largest, zeros=None):
    """Milliseconds a sweep, the best block of processor time of a warm chain; distinct records."""
    model = br.models.PoissonMixture(CLASSES, zeros=zeros)
    fit = model.fit(establishments(n, largest, seed=1), sample=False)
    data, columns = fit.microdata, fit.columns
    prior = prior_of(model, data, columns)
    units = columns.rows(data.codes, prior).units()
    rng = np.random.default_rng(2)
    start = initial_state(prior, units, rng)
    warm = run_chain(prior, units, start, draws=1, tune=50, thin=1, rng=rng)
    blocks = []
    for _ in range(BLOCKS):
        begin = time.thread_time()
        warm = run_chain(prior, units, warm.last(0), draws=1, tune=0, thin=SWEEPS, rng=rng)
        blocks.append(time.thread_time() - begin)
    return 1e3 * min(blocks) / SWEEPS, len(units.multiplicity)


def audit(n, targets, m=5):
    """Seconds of the fit and of audits of the largest from m releases, and unreliable records.

    One count guessed at 101 values, the other three known; and four counts jointly, 5^4 guesses.
    """
    table = trades(n, seed=3)
    begin = time.perf_counter()
    fit = br.models.PoissonMixture(CLASSES).fit(
        table, draws=250, tune=1000, thin=2, random_seed=1, n_jobs=2
    )
    found = [(time.perf_counter() - begin, 0)]
    release = fit.synthesize(m=m, random_seed=2)
    records = list(table["x0"].nlargest(targets).index)
    one = {"x0": br.Grid(percent=10, n=101)}
    joint = {c: br.Grid(percent=10, n=5) for c in table}
    for guesses, known in ((one, tuple(table.columns[1:])), (joint, ())):
        begin = time.perf_counter()
        risk = br.attribute_risk(
            fit,
            release,
            intruder=br.Intruder(knows_columns=known),
            targets=records,
            guesses=guesses,
            random_seed=3,
            n_jobs=2,
        )
        found.append((time.perf_counter() - begin, int((~risk.records["reliable"]).sum())))
    return found


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
            fit, one, joint = audit(10_000, options.audit)
        print(f"audits of the {options.audit} largest of 10,000, 5 releases; fit {fit[0]:.1f} s")
        print(f"  one count, 101 guesses: {one[0]:.1f} s, {one[1]} unreliable")
        print(f"  four counts, 625 guesses: {joint[0]:.1f} s, {joint[1]} unreliable")


if __name__ == "__main__":
    main()
