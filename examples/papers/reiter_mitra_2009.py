"""Youth in custody: facility and race synthesised by multinomial regressions.

Reiter & Mitra (2009) synthesised the facility (46) and the race (5) of the respondents of the 1987
Survey of Youth in Custody: facility first, then race given the synthetic facility; and asked for
the identification risk of an intruder who knows facility, race and ethnicity, and of the synthesis
nothing (M is empty), the model (he fits it to each release and draws the two columns anew, many
times), or, here, all its parameters as the agency knows them. Here attribute risk
is added: what does someone who knows everybody else learn of one youth's facility and race?
The survey is in the R packages SDaA and SDAResources (``syc``). Save it as CSV and run
``python examples/papers/reiter_mitra_2009.py FILE.csv``; it takes some minutes.

What differs from the paper: which 36 incomplete records it left out and which predictors it used is
not known here; records with race, ethnicity, crime and weapon in the 46 largest facilities happen
to be 2,562, its number. The predictors here are few, and there is no table to be compared with.
"""

import sys
import warnings

import pandas as pd
from match_table import NOTE, in_words, match_table

import bayes_risk as br

MEASURES = [
    "expected match risk",
    "true matches",
    "single matches",
    "false matches (% of single)",
]

MODEL = br.models.Regression(
    {
        "facility": "1 + age + C(gender) + C(ethnicty)",
        "race": "1 + age + C(ethnicty) + C(facility)",
    },
    families={"facility": "categorical", "race": "categorical"},
    prior=br.models.RegressionPrior(intercept=3.0, slopes=1.0),
)


def youth(path):
    """Complete records, without the four smallest facilities."""
    df = pd.read_csv(path)
    smallest = df["facility"].value_counts().sort_index().sort_values(kind="stable").index[:4]
    df = df[~df["facility"].isin(smallest)]
    df = df.dropna(subset=["race", "ethnicty", "crimtype", "usewepn"])
    columns = ["facility", "race", "ethnicty", "age", "gender"]
    df = df[columns].astype(int).reset_index(drop=True)
    return df.astype({c: "category" for c in columns if c != "age"})  # a release may lack a level


def main(path, *, draws=300, targets=None, m=2, n_tables=20):
    df = youth(path)
    fit = MODEL.fit(df, draws=draws, tune=draws, random_seed=1)
    release = fit.synthesize(m=m, random_seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
        risk = br.attribute_risk(
            fit, release, targets=targets, refit_budget=0, random_seed=3, n_jobs=2
        )
    print(f"{len(df):,} records, {df['facility'].nunique()} facilities\n{risk}\n")
    again = {"draws": draws, "tune": draws}
    tables = {
        "M empty": release,
        "M known": br.replicates(release, MODEL, n_tables=n_tables, random_seed=4, **again),
        "parameters known": br.replicates(release, fit, n_tables=n_tables, random_seed=5),
        "unaltered file": br.Release(datasets=[df], synthesized=["facility", "race"]),
    }
    keys = {"known": ["ethnicty"], "synthesized": ["facility", "race"]}
    found = {
        words: match_table(df, table.datasets, **keys).loc[MEASURES]
        for words, table in tables.items()
    }
    print(f"Matches {NOTE}\n{in_words(found, MEASURES)}")
    return risk, found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
