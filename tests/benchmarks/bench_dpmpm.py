"""Sweep time, effective draws, evidence time and memory of the DPMPM audit, and how they grow.

Run by ``make bench``; needs the ACS file in ``../shared/data`` beside the checkout. Prints figures
of this machine; ratios travel better than seconds. The last table is slow: sampling seconds until
the log evidence is known to 0.1 for 95 % of (record, guess) pairs (``--precision 0``: without it).
"""

import argparse
import resource
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk.data.microdata import Microdata
from bayes_risk.evidence.diagnostics import ess_and_rhat
from bayes_risk.evidence.problem import AuditProblem
from bayes_risk.evidence.runner import EvidenceRunner
from bayes_risk.models.mixture.columns import Columns
from bayes_risk.models.mixture.posterior import log_masses
from bayes_risk.models.mixture.sampler import initial_state, run_chains
from bayes_risk.models.mixture.state import Prior

DATA = Path(__file__).resolve().parents[3] / "shared/data/nist_acs_national2019_cat14.csv.gz"
CLASSES, CHAINS = 30, 2
MIXING_CHAINS, SWEEPS = 8, 8_000


def prepared(n, swaps):
    """Coded table, prior and units of the first n ACS records."""
    data = Microdata.from_frame(pd.read_csv(DATA)[:n])
    starts = np.concatenate([[0], np.cumsum(data.n_levels)]).astype(np.int64)
    prior = Prior(
        n_classes=CLASSES, concentration=(0.25, 0.25), level=1.0, starts=starts, swaps=swaps
    )
    return data, prior, Columns.of(levels=range(len(starts) - 1)).rows(data.codes, prior).units()


def pairs(data, prior, size=300):
    """Rows of random records and of one random neighbour of each, shape (2 size, p)."""
    rng = np.random.default_rng(0)
    rows = data.codes[rng.integers(len(data.codes), size=size)]
    near = rows.copy()
    columns = rng.integers(rows.shape[1], size=size)
    moves = rng.integers(1, data.n_levels[columns])
    near[np.arange(size), columns] = (near[np.arange(size), columns] + moves) % data.n_levels[
        columns
    ]
    return Columns.of(levels=range(rows.shape[1])).rows(np.vstack([rows, near]), prior)


def mixing(n, swaps):
    """Milliseconds a sweep; effective draws of log p(y*) - log p(y_i) a second of one chain."""
    data, prior, units = prepared(n, swaps)
    rng = np.random.default_rng(1)
    starts = [initial_state(prior, units, child) for child in rng.spawn(MIXING_CHAINS)]
    options = {"rng": rng, "n_jobs": 2}
    warm = run_chains(prior, units, starts, draws=1, tune=SWEEPS // 4, thin=1, **options)
    starts = [warm.last(c) for c in range(MIXING_CHAINS)]
    begin = time.perf_counter()
    draws = run_chains(prior, units, starts, draws=SWEEPS // 8, tune=0, thin=8, **options)
    seconds = 2 * (time.perf_counter() - begin)  # two threads
    rows = pairs(data, prior)
    masses = log_masses(rows, draws, prior)
    half = masses.shape[1] // 2
    ess, _ = ess_and_rhat(masses[:, half:] - masses[:, :half], MIXING_CHAINS)
    ms = 1e3 * seconds / (MIXING_CHAINS * SWEEPS)
    return ms, np.quantile(ess, [0.5, 0.05]) / seconds, len(units.multiplicity)


def audit(n, m=5):
    """Seconds of fit and audit, and the Monte Carlo error that they leave."""
    table = pd.read_csv(DATA)[:n]
    begin = time.perf_counter()
    fit = br.models.DPMPM(CLASSES).fit(table, random_seed=1, chains=CHAINS, n_jobs=2)
    fitted = time.perf_counter()
    release = fit.synthesize(m=m, random_seed=2)
    stages = {}

    def note(stage, done, total):
        stages[stage.split(" ")[0]] = time.perf_counter()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        risk = br.attribute_risk(fit, release, random_seed=3, n_jobs=2, progress=note)
    end = time.perf_counter()
    return {
        "fit s": fitted - begin,
        "audit s": end - fitted,
        "evidence s": stages["evidence"] - stages["base"],
        "median mcse": np.median(risk.mcse_log_evidence),
        "95 % mcse": np.quantile(risk.mcse_log_evidence, 0.95),
        "unreliable": int((~risk.reliable[risk.case]).sum()),
        "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def precision(m, limit, swaps):
    """Error against sampling seconds, doubling until 0.1 for 95 % of pairs or the limit."""
    table = pd.read_csv(DATA)[:10_000]
    fit = br.models.DPMPM(CLASSES).fit(table, random_seed=1, chains=CHAINS, n_jobs=2)
    prior = replace(fit.posterior.prior, swaps=swaps)
    fit = replace(fit, posterior=replace(fit.posterior, prior=prior))
    release = fit.synthesize(m=m, random_seed=2)
    rows = np.sort(np.random.default_rng(5).choice(10_000, 400, replace=False))
    rng = np.random.default_rng(0)
    problem = AuditProblem.prepare(fit, release, None, None, list(rows), choose=rng, knowing=rng)
    runner = EvidenceRunner(problem, "predictive", np.random.default_rng(6), 2, None)
    cases = problem.cases
    sampling = -time.perf_counter()
    runner.fits(cases)
    sampling += time.perf_counter()
    while True:
        found = runner.evidence(cases)
        q = np.quantile(found.mcse(), [0.5, 0.95])
        print(
            f"  m={m} swaps={swaps}: {sampling:7.1f} s, error {q[0]:.3f} median, {q[1]:.3f} at 95 %"
        )
        if q[1] <= 0.1 or sampling > limit:
            return sampling * max(1.0, (q[1] / 0.1) ** 2), q[1] <= 0.1
        sampling -= time.perf_counter()
        runner.begun(cases).double(found.share_by_fit())
        sampling += time.perf_counter()


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", type=float, default=120.0, metavar="SECONDS")
    parser.add_argument("--sizes", type=int, nargs="*", default=[2_500, 10_000, 27_253])
    options = parser.parse_args()
    if not DATA.exists():
        print(f"skipped: the ACS file is not there ({DATA.name})")
        return
    print("sweeps: ms each; effective draws of log p(y*)/p(y_i) per second, median and 5 %")
    last = None
    for n in options.sizes:
        for swaps in (False, True):
            ms, ess, U = mixing(n, swaps)
            grown = f", x{ms / last:.2f}" if swaps and last else ""
            print(
                f"  n={n:6d} U={U:5d} swaps={swaps!s:5}: {ms:.3f} ms{grown}; "
                f"{ess[0]:.1f}, {ess[1]:.2f}",
                flush=True,
            )
        last = ms
    print("audit: six fits of 2 chains, all records, one-variable neighbourhoods")
    last_total = None
    for n in options.sizes:
        figures = audit(n)
        total = figures["fit s"] + figures["audit s"]
        grown = f"  x{total / last_total:.2f}" if last_total else ""
        print(f"  n={n:6d}: " + ", ".join(f"{k} {v:.3g}" for k, v in figures.items()) + grown)
        last_total = total
    for m in (1, 5) if options.precision else ():
        for swaps in (False, True):
            seconds, reached = precision(m, options.precision, swaps)
            print(
                f"  m={m} swaps={swaps}: {seconds:.0f} s"
                + ("" if reached else " (by 1/sqrt(time))")
            )


if __name__ == "__main__":
    main()
