"""Places: longitude and latitude synthesised, and how close an intruder comes to the true ones.

Wang & Reiter (2012) synthesised the places of deaths in Durham and measured, for each, the
expected distance R1 between the intruder's guess and the truth, and how many actual cases (R2)
are as close.
Here the same measures for bicycle crashes in three counties of North Carolina, with regressions in
place of their trees (so their Table 2 is no comparison): longitude given county, sex, race, age and
whether the crash was fatal, latitude given the same and longitude. The crashes are published by the
state's Department of Transportation; the file needs columns lon, lat, county, bike_sex, bike_race,
bike_age, killed. Run ``python examples/papers/wang_reiter_2012.py FILE.csv``.
"""

import sys

import pandas as pd

import bayes_risk as br
from bayes_risk.risk.geography import geography, geography_summary, unique_patterns

ATTRIBUTES = ["county", "bike_sex", "bike_race", "bike_age", "killed"]
AREA = ["Durham", "Orange", "Wake"]
KNOWN = "C(county) + C(bike_sex) + C(bike_race) + bike_age + killed"
MODEL = br.models.Regression({"lon": f"1 + {KNOWN}", "lat": f"1 + lon:C(county) + {KNOWN}"})


def crashes(path):
    df = pd.read_csv(path).dropna(subset=ATTRIBUTES)
    df = df.loc[df["county"].isin(AREA), ["lon", "lat", *ATTRIBUTES]]
    return df.reset_index(drop=True)


def main(path, *, n=15, m=5):
    df = crashes(path)
    fit = MODEL.fit(df, random_seed=1)
    release = fit.synthesize(m=m, random_seed=2)
    unique = unique_patterns(df, ATTRIBUTES)
    prior_knowledge = {
        "somewhere within 0.1 degrees": {
            "lon": br.Grid(additive=0.1, n=n),
            "lat": br.Grid(additive=0.1, n=n),
        },
        "somewhere in the three counties": {
            "lon": br.Grid(bounds=(df["lon"].min(), df["lon"].max()), n=n, truth="add"),
            "lat": br.Grid(bounds=(df["lat"].min(), df["lat"].max()), n=n, truth="add"),
        },
    }
    tables = {}
    for words, guesses in prior_knowledge.items():
        risk = br.attribute_risk(fit, release, guesses=guesses, evidence="exact", random_seed=3)
        places = geography(risk, "lon", "lat", population=df, unique=unique, distance="haversine")
        tables[words] = geography_summary(places)
        print(f"The intruder knows beforehand: {words} (R1 in kilometres, R2 in crashes)")
        print(tables[words].round(3).to_string(), end="\n\n")
    return df, tables


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
