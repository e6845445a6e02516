"""Structural zeros: what a release and an audit look like with impossible combinations and without.

Children are not widowed and owners pay no rent. A model that does not know this puts some of its
weight there, releases records that nobody can be, and lets the intruder weigh guesses that nobody
can be. Three audits side by side: zeros ignored, zeros known to the intruder alone, and zeros
respected by the model as well.

Run it with ``python examples/structural_zeros.py``, or on a table with its rules, one a row and
empty where any value will do: ``python examples/structural_zeros.py RECORDS.csv RULES.csv``.
"""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk.intruder.guesses import possible

RULES = [
    {"age": ["0-14"], "marital": ["married", "widowed"]},
    {"age": ["0-14"], "work": ["employed", "retired"]},
    {"age": ["15-64"], "work": ["retired"]},
    {"tenure": ["owner"], "rent": ["low", "high"]},
    {"tenure": ["tenant"], "rent": ["none"]},
]


def simulated(n, seed=1):
    """A small population in which the rules hold."""
    rng = np.random.default_rng(seed)
    age = rng.choice(["0-14", "15-64", "65+"], size=n, p=[0.2, 0.6, 0.2])
    marital = rng.choice(["single", "married", "widowed"], size=n, p=[0.35, 0.55, 0.1])
    work = np.where(rng.random(n) < 0.7, "employed", "at home")
    work = np.where(age == "65+", np.where(rng.random(n) < 0.9, "retired", "employed"), work)
    tenure = np.where(rng.random(n) < 0.55, "owner", "tenant")
    rent = np.where(rng.random(n) < 0.5, "low", "high")
    return pd.DataFrame(
        {
            "age": age,
            "marital": np.where(age == "0-14", "single", marital),
            "work": np.where(age == "0-14", "at home", work),
            "tenure": tenure,
            "rent": np.where(tenure == "owner", "none", rent),
        }
    )


def audited(df, impossible, zeros, columns, *, n_classes, draws, targets, refit_budget):
    """Evidence of a release by a model with these zeros, and its mean number of impossible rows."""
    model = br.models.DPMPM(n_classes=n_classes, impossible=zeros)
    fit = model.fit(df, draws=draws, tune=draws, chains=4, random_seed=1)
    region = impossible.region(fit.microdata)
    release = fit.synthesize(m=3, columns=columns, random_seed=2)
    broken = np.mean([region.holds(release.codes(fit.microdata, l)).sum() for l in range(3)])
    gathered = br.attribute_evidence(
        fit,
        release,
        guesses=br.Neighbourhood(2),
        targets=targets,
        refit_budget=refit_budget,
        random_seed=3,
    )
    return gathered, region, broken


def only_possible(gathered, region):
    """The same evidence for an intruder who weighs no impossible guess."""
    cases, data = gathered.cases, replace(gathered.microdata, impossible=region)
    kept = possible(cases.guesses, data, cases.profiles, cases.columns, cases.record)
    return replace(gathered, cases=replace(cases, guesses=kept))


def figures(risk, broken):
    """Mean probability of the truth, its error, what it was before the release, and the worst."""
    counted = np.isfinite(risk.log_prior).sum(axis=0)[risk.case]
    mean, worst = (risk.summary().loc[f"{x}_probability"] for x in ("mean", "max"))
    return {
        "impossible records a file": broken,
        "guesses a record": counted.mean(),
        "mean probability of the truth": mean["value"],
        "error": mean["mcse"],
        "without the release": mean["baseline"],
        "worst record": worst["value"],
    }


def main(
    path=None, rules=None, columns=None, n=2000, n_classes=20, draws=500, targets=500,
    refit_budget=10,
):  # fmt: skip
    if path is None:
        df, impossible = simulated(n), br.Impossible(RULES)
        columns = columns or ["marital", "work", "rent"]
    else:
        df = pd.read_csv(path).dropna().head(n).reset_index(drop=True)
        impossible = br.Impossible(pd.read_csv(rules))
        columns = columns or ["MARST", "EDUC", "EMPSTAT"]
    effort = {
        "n_classes": n_classes, "draws": draws, "targets": targets, "refit_budget": refit_budget,
    }  # fmt: skip
    ignored, region, broken = audited(df, impossible, None, columns, **effort)
    respected, _, none = audited(df, impossible, impossible, columns, **effort)
    rows = {
        "ignored": figures(ignored.risk(), broken),
        "known to the intruder alone": figures(only_possible(ignored, region).risk(), broken),
        "respected": figures(respected.risk(), none),
    }
    table = pd.DataFrame(rows).T
    print(f"{len(df):,} records, {', '.join(columns)} synthesised, m = 3; zeros are")
    print(table.round(3).to_string())
    return table


if __name__ == "__main__":
    main(*sys.argv[1:3])
