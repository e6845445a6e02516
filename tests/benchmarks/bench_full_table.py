"""Seconds and memory of wide searches: two changes for all records, the full table, best-first.

Run by ``make bench``; needs the ACS file in ``../shared/data`` beside the checkout. Fits are made
once and not timed. Limits on two cores: two changes (543 guesses a record) for 10,000 records with
H = 1,000 draws under 180 s and 3 GiB; 100 targets over the full table under 600 s and 4 GiB.
"""

import argparse
import resource
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk.evidence.evidence import combined_ratios
from bayes_risk.evidence.leave_one_out import ratio_of_fit
from bayes_risk.evidence.prior_weights import PriorContext, prior_weights
from bayes_risk.evidence.problem import AuditProblem
from bayes_risk.evidence.runner import EvidenceRunner
from bayes_risk.risk.full_table.likeliest import best_first
from bayes_risk.risk.full_table.tables import GuessTable, draws_by_fit, tabulated
from bayes_risk.risk.posterior import weigh

DATA = Path(__file__).resolve().parents[3] / "shared/data/nist_acs_national2019_cat14.csv.gz"
CLASSES, CHAINS, M = 30, 2, 5


class Clock:
    """Wall seconds, processor seconds and peak memory since it was made."""

    def __init__(self):
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def __str__(self):
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.processor
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        return f"{wall:.1f} s, {cpu:.1f} s of processors, peak {peak:.2f} GiB"


def fitted(n):
    """A fit to the first n records, a release, and the six posteriors."""
    df = pd.read_csv(DATA)
    levels = {c: sorted(df[c].unique()) for c in df}
    model = br.models.DPMPM(CLASSES)
    fit = model.fit(df[:n], draws=500, chains=CHAINS, levels=levels, random_seed=1, n_jobs=2)
    release = fit.synthesize(m=M, random_seed=2)
    problem = problem_of(fit, release, list(fit.microdata.index[:64]))
    runner = EvidenceRunner(problem, "predictive", np.random.default_rng(3), 2, None)
    return fit, release, runner.fits(problem.cases)


def problem_of(fit, release, targets, distance=1):
    """The worst case of some targets."""
    rng, guesses = np.random.default_rng(0), br.Neighbourhood(distance)
    return AuditProblem.prepare(fit, release, None, guesses, targets, choose=rng, knowing=rng)


def two_changes(fit, release, posteriors, distance=2):
    """Evidence and posterior of all guesses at Hamming distance up to 2."""
    clock, problem = Clock(), problem_of(fit, release, None, distance)
    cases, rows = problem.cases, problem.rows
    rngs = np.random.default_rng(1).spawn(len(posteriors))
    pairs = zip(posteriors, rngs, strict=True)
    ratios = (ratio_of_fit(lambda p=p: p, cases, rng, 2) for p, rng in pairs)
    found = combined_ratios(ratios, len(posteriors) - 1, cases)
    context = PriorContext(fit.microdata, cases, problem.release, found.base)
    prior = prior_weights("uniform", context)
    nothing, none = np.full(len(cases), -np.inf), np.zeros(len(cases), dtype=bool)
    weigh(found, prior, cases.guesses.truth, nothing, none)
    shape = cases.guesses.codes.shape
    print(f"  {len(rows):,} records, {shape[1]:,} distinct, {shape[0]} guesses each: {clock}")


def full_table(fit, release, posteriors, targets):
    """Posterior over all values."""
    rows = np.random.default_rng(5).choice(len(fit.microdata.codes), targets, replace=False)
    cases = problem_of(fit, release, list(fit.microdata.index[rows])).cases
    rngs = np.random.default_rng(1).spawn(len(posteriors))
    each = zip(posteriors, rngs, strict=True)
    parts = [fit.tabulated(posterior, cases, rng=rng) for posterior, rng in each]
    table = GuessTable.of(fit.microdata.n_levels[cases.columns])
    for prior in ("predictive", "uniform"):
        clock = Clock()
        _, found = tabulated(parts, cases, fit.microdata, prior, table, draws=None, n_jobs=2)
        error = np.median([of["mcse_log_odds"] for of in found])
        draws = draws_by_fit(parts, table.n_cells, M, None)
        print(
            f"  {len(cases)} targets, {table.n_cells:,} values, draws {draws[0]} + {M} x "
            f"{draws[1]}, {prior} prior: {clock}; median error of log odds {error:.2f}",
            flush=True,
        )
    return parts, cases


def search(fit, parts, cases, k=100):
    """Best-first search of one mixture."""
    from bayes_risk.risk.full_table.tables import weighed

    one = weighed(parts[1], cases, 100)
    seconds, seen = [], []
    for u in range(min(len(cases), 10)):
        terms = one.part.terms(u, cases, fit.microdata.n_levels, one.log_v[:, u], one.draws)
        begin = time.process_time()
        found = best_first(terms, k, 5_000, np.random.default_rng(u))
        seconds.append(time.process_time() - begin)
        seen.append(np.exp(found.log_s - found.log_total).sum())
        assert found.complete
    print(
        f"  {k} likeliest values: {np.median(seconds):.2f} s of a processor a target (largest "
        f"{max(seconds):.2f}); they hold {np.median(seen):.2f} of the posterior"
    )


def main():
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--targets", type=int, default=100)
    options = parser.parse_args()
    if not DATA.exists():
        print(f"skipped: the ACS file is not there ({DATA.name})")
        return
    warnings.simplefilter("ignore")
    made = fitted(options.records)
    print("all values that differ in at most two variables, six fits of H = 1,000")
    two_changes(*made)
    print("the full table")
    parts, cases = full_table(*made, options.targets)
    print("best-first search")
    search(made[0], parts, cases)


if __name__ == "__main__":
    main()
