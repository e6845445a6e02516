"""Where does the truth stand among all values that a record could have?

A neighbourhood centred on the truth tells the intruder where to look. Here they are told nothing:
every combination of levels is a guess. First the file is audited by neighbourhoods, then its worst
records over the full table, under what the model itself would say of each value beforehand and
with every value equally likely.

Run it with ``python examples/full_table_acs.py``, which takes the Redbook survey that comes with
statsmodels, or name a CSV file: ``python examples/full_table_acs.py acs.csv.gz``.
"""

import sys

import pandas as pd

import bayes_risk as br
from bayes_risk.demo import fair


def main(path=None, n=10_000, worst=100, draws=250, n_classes=30, m=5, table_draws=None):
    """Audit the first n records; the full table of the worst by their neighbourhoods."""
    df = fair() if path is None else pd.read_csv(path)
    levels = {c: sorted(df[c].dropna().unique()) for c in df}
    model = br.models.DPMPM(n_classes=n_classes)
    fit = model.fit(
        df[:n].reset_index(drop=True),
        draws=draws,
        tune=draws,
        levels=levels if path is not None else None,
        missing="level",
        random_seed=1,
    )
    release = fit.synthesize(m=m, random_seed=2)
    near = br.attribute_risk(
        fit, release, prior="predictive", refit_budget=0, random_seed=3, n_jobs=2
    )
    labels = list(near.worst(worst).index)
    audits = {
        prior: br.full_table_risk(
            fit,
            release,
            targets=labels,
            prior=prior,
            draws=table_draws,
            random_seed=4,
            n_jobs=2,
        )
        for prior in ("predictive", "uniform")
    }
    for prior, audit in audits.items():
        print(f"prior: {prior}\n{audit!r}\n")
    print(audits["predictive"].top(labels[0], 5).to_string())
    return audits


if __name__ == "__main__":
    main(*sys.argv[1:2])
