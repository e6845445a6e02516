"""Intruders who know some of the records, DPMPM: price, the curve of knowledge, calibration.

Run by ``make bench``; the first two need the ACS file in ``../shared/data`` beside the checkout.

- price: seconds of an audit with half of the records known, over those of the worst case;
- curve (``--curve N``): risk against the fraction known, m = 1 and 3, N records;
- calibration (``--tables N``): ranks of the truth, N tables drawn from the model for each
  knowledge; ``--plot FILE`` draws them.
"""

import argparse
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import bayes_risk as br

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.oracles.weaker_calibration import KNOWS, calibration  # noqa: E402

DATA = Path(__file__).resolve().parents[3] / "shared/data/nist_acs_national2019_cat14.csv.gz"
CLASSES = 30
FRACTIONS = ("none", 0.1, 0.25, 0.5, 0.75, 0.9, "all-but-target")


def acs(n, m):
    """A fit of the first n ACS records, and a release."""
    table = pd.read_csv(DATA)[:n].astype("category")
    fit = br.models.DPMPM(CLASSES).fit(table, random_seed=1, n_jobs=2)
    return fit, fit.synthesize(m, random_seed=2)


def audited(fit, release, knows, **options):
    """An audit, its seconds by stage, and peak memory so far."""
    begin, cpu, ends = time.perf_counter(), time.process_time(), {}

    def note(stage, done, total):
        ends[stage.split(" ")[0]] = time.perf_counter() - begin

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        risk = br.attribute_risk(
            fit,
            release,
            intruder=br.Intruder(knows_records=knows),
            random_seed=3,
            n_jobs=2,
            progress=note,
            **options,
        )
    seconds = time.perf_counter() - begin, time.process_time() - cpu
    return risk, seconds, {k: round(v, 1) for k, v in ends.items()}


def price(n, m):
    """Half of the records known, against all but one."""
    fit, release = acs(n, m)
    found = {}
    for knows in ("all-but-target", 0.5):
        risk, found[knows], stages = audited(fit, release, knows)
        error = np.quantile(risk.mcse_log_evidence, [0.5, 0.95])
        unreliable = int((~risk.reliable[risk.case]).sum())
        print(
            f"  n={n} m={m} knows {knows}: {found[knows][0]:.0f} s, {found[knows][1]:.0f} s of "
            f"processor, stages end at {stages}; mcse "
            f"{error[0]:.3f} (95 %: {error[1]:.3f}), {unreliable} unreliable, peak "
            f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB",
            flush=True,
        )
    wall, cpu = np.array(found[0.5]) / found["all-but-target"]
    print(f"  ratio {wall:.2f}, of processor time {cpu:.2f}", flush=True)


def curve(n, targets=200):
    """Risk of the same targets against the share of the others that is known."""
    print(f"curve: n={n}, {targets} targets, uniform prior over one-variable neighbours")
    for m, ways in ((1, (None,)), (3, ("imputed", "independent-releases"))):
        fit, release = acs(n, m)
        for way in ways:
            for knows in FRACTIONS:
                evidence = way if knows != "all-but-target" else None
                risk, seconds, _ = audited(fit, release, knows, targets=targets, evidence=evidence)
                records = risk.records
                p, gain = records["probability"], records["log_bayes_factor"]
                print(
                    f"  m={m} {way or 'exact':8} {knows!s:>14}: mean probability {p.mean():.4f} "
                    f"(mcse {records['mcse'].mean():.3f} a record, {p.std() / len(p) ** 0.5:.4f} "
                    f"over records), largest {p.max():.2f}, log Bayes factor {gain.mean():+.3f}, "
                    f"unreliable {int((~risk.reliable[risk.case]).sum())}; {seconds[0]:.0f} s",
                    flush=True,
                )


def calibrated(n_tables, plot):
    """Ranks and statistics for each knowledge, m = 1 and 3."""
    all_ranks = {}
    for m in (1, 3):
        for name, knows in KNOWS.items():
            found, all_ranks[f"{name}, m = {m}"] = calibration(knows, m, n_tables)
            print(f"{name} known, m = {m}, {n_tables} tables\n{found.round(3).to_string()}")
            share = np.histogram(all_ranks[f"{name}, m = {m}"], 10, (0, 1))[0] / (30 * n_tables)
            print(f"  ranks by tenths: {share.round(3).tolist()}", flush=True)
    if plot:
        drawn(all_ranks, plot)


def drawn(all_ranks, file):
    """Ranks by tenths, with two standard errors between tables."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, sharex=True, sharey=True, figsize=(9, 5))
    for ax, (name, ranks) in zip(axes.flat, all_ranks.items(), strict=True):
        tenths = np.array([np.histogram(u, 10, (0, 1))[0] / len(u) for u in ranks])
        error = 2 * tenths.std(axis=0) / np.sqrt(len(tenths))
        ax.bar(np.arange(10) / 10 + 0.05, tenths.mean(axis=0), 0.09, yerr=error, color="0.7")
        ax.axhline(0.1, color="k", lw=0.8)
        ax.set_title(name)
    figure.supxlabel("posterior mass of likelier values than the truth")
    figure.tight_layout()
    figure.savefig(file)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--price", type=int, default=10_000, metavar="N")
    parser.add_argument("--releases", type=int, default=5, metavar="M")
    parser.add_argument("--curve", type=int, default=0, metavar="N")
    parser.add_argument("--tables", type=int, default=0, metavar="N")
    parser.add_argument("--plot", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.price and not DATA.exists():
        print(f"skipped: the ACS file is not there ({DATA.name})")
        return
    if options.price:
        price(options.price, options.releases)
    if options.curve:
        curve(options.curve)
    if options.tables:
        calibrated(options.tables, options.plot)


if __name__ == "__main__":
    main()
