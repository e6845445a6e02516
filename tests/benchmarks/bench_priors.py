"""Ten priors for the price of one: seconds of evidence and of priors, on the ACS file.

Run by ``make bench``; needs the ACS file in ``../shared/data`` beside the checkout. Seconds are
those of the processor, which other work on the machine does not stretch. The ratio is that of
(evidence, ten priors, their summaries) to (evidence, one prior, its summary).
"""

import argparse
import resource
import time
import warnings
from pathlib import Path

import pandas as pd

import bayes_risk as br

DATA = Path(__file__).resolve().parents[3] / "shared/data/nist_acs_national2019_cat14.csv.gz"
PRIORS = {
    "uniform": "uniform",
    "margins": "marginal",
    "predictive": "predictive",
    "release": "release",
    "release, joint": "release-joint",
    "truth 2 to 1": br.TruthFactor(2.0),
    "truth 10 to 1": br.TruthFactor(10.0),
    "truth 1 to 10": br.TruthFactor(0.1),
    "predictive, 1 % uniform": br.MixedPrior({"predictive": 0.99, "uniform": 0.01}),
    "margins or release": br.MixedPrior({"marginal": 0.5, "release": 0.5}),
}


def seconds(work):
    """What it gives, and how long it took."""
    begin = time.process_time()
    found = work()
    return found, time.process_time() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--m", type=int, default=5)
    parser.add_argument("--draws", type=int, default=500)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = pd.read_csv(DATA)[: options.n]
    model = br.models.DPMPM(30)
    fit, fitted = seconds(
        lambda: model.fit(table, draws=options.draws, random_seed=1, chains=2, n_jobs=2)
    )
    release = fit.synthesize(m=options.m, random_seed=2)
    kept, gathered = seconds(
        lambda: br.attribute_evidence(fit, release, random_seed=3, refit_budget=0, n_jobs=2)
    )
    print(kept)
    print(f"fit {fitted:.1f} s; evidence {gathered:.1f} s")
    one, of_one = seconds(lambda: kept.compare({"uniform": "uniform"}))
    ten, of_ten = seconds(lambda: kept.compare(PRIORS))
    for name, prior in PRIORS.items():
        print(f"  {name:26s} {seconds(lambda p=prior: kept.compare({'': p}))[1]:6.2f} s by itself")
    ratio = (gathered + of_ten) / (gathered + of_one)
    print(f"one prior {of_one:.2f} s, ten {of_ten:.2f} s; ten cost {ratio:.3f} times one audit")
    print(ten[["mean_probability", "mcse", "baseline", "max_probability", "unreliable"]].round(4))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GiB")
    assert ten.loc["uniform"].equals(one.loc["uniform"])


if __name__ == "__main__":
    main()
