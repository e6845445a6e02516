"""One synthetic file, measured under the names of other tools: the table of docs/coming-from-r.md.

A random part of the Redbook survey of 1974 is synthesised; as many people of it are held out. What
each number is compared with is the same in the original, or known without the release.

Run it with ``python examples/names_elsewhere.py`` (half a minute).
"""

import pandas as pd

import bayes_risk as br
from bayes_risk.demo import fair

KEYS, TARGET = ["age", "educ", "occupation"], "affairs"
RATE = 0.05  # false positive rate of the empirical epsilon


def main():
    people = fair()[[*KEYS, "children", TARGET]].sample(2_000, random_state=1).sort_index()
    df = people.sample(1_000, random_state=2).sort_index()
    others = people.drop(df.index)  # non-members
    fit = br.models.DPMPM(n_classes=20).fit(df, draws=200, tune=300, random_seed=1)
    release = fit.synthesize(m=1, random_seed=2)

    context = br.context_measures(
        df, release, keys=KEYS, target=TARGET, holdout=others, random_seed=3
    )
    table = context.summary().droplevel("target")
    measures, original = table["value"], table["compare"]

    risk = br.attribute_risk(
        fit,
        release,
        guesses={TARGET: br.Levels()},
        prior="predictive",
        intruder=br.Intruder(knows_columns=[*KEYS, "children"]),
        random_seed=4,
    )
    r = risk.records
    gain = (r["probability"] - r["prior"]) / (1 - r["prior"])
    truth = risk.summary().loc["mean_probability"]
    member = br.membership(fit, release, records=300, others=others, random_seed=3)
    epsilon = member.empirical_epsilon().loc[RATE]

    rows = {
        "TCAP, matched": (measures["tcap"], original["tcap"]),
        "TCAP, conditional": (measures["correct"], None),
        "TCAP, certain": (measures["disdio"] / measures["iso"], original["disdio"]),
        "DCAP": (measures["dcap"], original["dcap"]),
        "DCAP, non-matches left out": (measures["dcap"] / measures["iso"], original["dcap"]),
        "WEAP, mean": (measures["caps"], original["caps"]),
        "WEAP, share of 1": (measures["dsyn"], original["dsyn"]),
        "RAPID, posterior": ((gain > 0.3).mean(), None),
        "uniques shown": (measures["uiois"], original["uiois"]),
        "replicated uniques": (measures["repu"], original["repu"]),
        "inference": (truth["value"], truth["baseline"]),
        "members told": (member.summary().loc["auc", "value"], 0.5),
        "epsilon": (epsilon["epsilon"], 0.0),
        "epsilon, low": (epsilon["low"], 0.0),
        "epsilon, high": (epsilon["high"], 0.0),
        "DCR, median": (measures["dcr_median"], original["dcr_median"]),
        "IMS": (measures["dcr_zero"], original["dcr_zero"]),
        "closer than holdout": (measures["closer_than_holdout"], 0.5),
    }
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["found", "compare"])
    print(table.astype(float).round(3).to_string())
    return table


if __name__ == "__main__":
    main()
