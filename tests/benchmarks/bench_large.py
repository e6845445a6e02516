"""Worst-case audits of large files: every record, five data sets, all defaults.

Run by ``make bench``. Records are drawn with replacement from the American Community Survey's 14
categories, and 5 % of the cells anew from their column; the file is ``../shared/data``'s beside the
checkout. With ``--drawn`` they are drawn from latent classes fitted to it. With ``--mixed`` they
are those of a made-up survey: seven categories, an age and two amounts, of which a category and an
amount are guessed together. One line a size: processor and wall seconds of fit, release and audit,
peak memory, records unreliable, growth exponents. Ten thousand records take a minute, a million
half an hour.
"""

import argparse
import resource
import time

import numpy as np
import pandas as pd
from bench_repetition import GRIDS, MIXED, drawn, resampled, survey  # type: ignore[import-not-found]

import bayes_risk as br


class Clock:
    """Processor and wall seconds of this process and its workers since the last look."""

    def __init__(self):
        self.last = self.now()

    @staticmethod
    def now():
        """Processor seconds, with those of workers that ended, and the wall's."""
        used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(u.ru_utime + u.ru_stime for u in used), time.perf_counter()

    def since(self):
        """Seconds since the last call."""
        before, self.last = self.last, self.now()
        return tuple(b - a for a, b in zip(before, self.last, strict=True))


def audited(n, jobs, draws, mixed, made):
    """Fit, release and audit of n records: one row."""
    df, model, how = made(n), br.models.DPMPM(n_classes=30), {}
    if mixed:
        df, model = survey(n, categories=7), br.models.Mixture(families=MIXED, n_classes=30)
        others = br.Intruder(knows_columns=[c for c in df if c not in GRIDS])
        how = {"guesses": GRIDS, "intruder": others}
    clock = Clock()
    fit = model.fit(df, random_seed=1, n_jobs=jobs, **draws)
    fitted = clock.since()
    release = fit.synthesize(5, random_seed=2)
    released = clock.since()
    risk = br.attribute_risk(fit, release, random_seed=3, n_jobs=jobs, **how)
    audit, records = clock.since(), risk.records
    return {
        "records": n,
        "distinct": len(df.drop_duplicates()),
        **{f"{k}_cpu": v[0] for k, v in (("fit", fitted), ("release", released), ("audit", audit))},
        "cpu": fitted[0] + released[0] + audit[0],
        "wall": fitted[1] + released[1] + audit[1],
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "unreliable": 1 - records["reliable"].mean(),
        "error_median": records["mcse"].median(),
        "modes": len(risk.modes.kept) if risk.modes is not None else 0,
    }


def main():
    """Sizes one after the other, growth exponents between them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", default="10000,20000")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--drawn", action="store_true")
    given = parser.parse_args()
    draws = {} if given.draws is None else {"draws": given.draws}
    rows = []
    for n in map(int, given.records.split(",")):
        rows.append(audited(n, given.jobs, draws, given.mixed, drawn if given.drawn else resampled))
        last = rows[-1] | {"exponent": np.nan}
        if len(rows) > 1:
            grown = np.log([rows[-1]["cpu"] / rows[-2]["cpu"], n / rows[-2]["records"]])
            last["exponent"] = grown[0] / grown[1]
        print(pd.DataFrame([last]).to_string(index=False, float_format="%.3g"), flush=True)


if __name__ == "__main__":
    main()
