"""What structural zeros cost: disjoint boxes, sweeps, synthesis and evidence, with and without.

Run by ``make bench``; needs the New York ACS file in ``../shared/data`` beside the checkout. Prints
figures of this machine; ratios travel better than seconds.
"""

import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk.data.microdata import Microdata
from bayes_risk.models.mixture.columns import Columns
from bayes_risk.models.mixture.sampler import initial_state, run_chains
from bayes_risk.models.mixture.state import Prior, ZeroLayout

FOLDER = Path(__file__).resolve().parents[3] / "shared/data"
FILE = FOLDER / "ny_acs_structural_zeros_{}.csv.gz"
CLASSES, SWEEPS = 30, 400


def seconds(call):
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


def sweeps(data, zeros):
    """Milliseconds a sweep."""
    starts = np.concatenate([[0], np.cumsum(data.n_levels)]).astype(np.int64)
    layout = None if zeros is None else ZeroLayout.of_boxes(zeros.region(data).boxes, starts)
    prior = Prior(
        n_classes=CLASSES, concentration=(0.25, 0.25), level=1.0, starts=starts, zeros=layout
    )
    units = Columns.of(levels=range(len(starts) - 1)).rows(data.codes, prior).units()
    state = initial_state(prior, units, np.random.default_rng(1))

    def chain(draws):
        rng = np.random.default_rng(2)
        return run_chains(prior, units, [state], draws=draws, tune=0, thin=1, rng=rng)

    chain(20)  # compiled
    return 1e3 * seconds(lambda: chain(SWEEPS))[0] / SWEEPS


def audit(df, zeros, columns):
    """Seconds of a fit, of a release and of the evidence, and the error of the log evidence."""
    model = br.models.DPMPM(CLASSES, impossible=zeros)
    fitted, fit = seconds(lambda: model.fit(df, draws=300, tune=300, chains=4, random_seed=1))
    made, release = seconds(lambda: fit.synthesize(m=2, columns=columns, random_seed=2))
    gathered, risk = seconds(
        lambda: br.attribute_risk(fit, release, targets=500, refit_budget=0, random_seed=3)
    )
    error = risk.mcse_log_evidence[np.isfinite(risk.log_prior)]
    return fitted, made, gathered, np.quantile(error, 0.5), np.quantile(error, 0.95)


def main():
    df = pd.read_csv(str(FILE).format("20000"))
    zeros = br.Impossible(pd.read_csv(str(FILE).format("MCZ")))
    data = Microdata.from_frame(df, missing="level")
    took, region = seconds(lambda: zeros.region(data))
    print(f"{len(region.words)} rules, {len(region.boxes)} disjoint boxes in {took:.2f} s")
    complete = df.dropna().reset_index(drop=True)
    small = Microdata.from_frame(complete)
    plain, cut = sweeps(small, None), sweeps(small, zeros)
    print(f"{len(complete):,} records: {plain:.2f} ms a sweep without zeros, {cut:.2f} with")
    warnings.simplefilter("ignore")
    for columns in (None, ["MARST", "EDUC", "EMPSTAT"]):
        for name, given in (("without", None), ("with", zeros)):
            fitted, made, gathered, middle, high = audit(complete, given, columns)
            print(
                f"{'all' if columns is None else len(columns)} columns, {name} zeros: fit "
                f"{fitted:.0f} s, release {made:.1f} s, evidence {gathered:.0f} s, error of the "
                f"log evidence {middle:.3f} (95 %: {high:.3f})"
            )


if __name__ == "__main__":
    main()
