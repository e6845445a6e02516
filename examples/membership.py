"""Membership: could an intruder tell who answered the survey?

The Redbook survey of 1974: the synthesiser sees some of the women, at random; as many others of the
same population are held out. All columns are synthesised. How often does the release point to the
member of a pair, and what can it say of a person one has in mind?

Run it with ``python examples/membership.py`` (a few minutes).
"""

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk.demo import fair


def halves(df, size, seed=1):
    """Members and held-out people, at random."""
    order = np.random.default_rng(seed).permutation(len(df))
    return df.iloc[np.sort(order[:size])], df.iloc[np.sort(order[size : 2 * size])]


def main(size=1000, draws=500, places=200, comparisons=100, alternatives=100, n_jobs=2):
    members, held_out = halves(fair(), size)
    model = br.models.DPMPM(n_classes=30)
    fit = model.fit(members, draws=draws, tune=draws, chains=2, random_seed=2, n_jobs=n_jobs)

    releases = {
        "1 release, fresh classes": fit.synthesize(m=1, random_seed=3),
        "3 releases, fresh classes": fit.synthesize(m=3, random_seed=3),
        "1 release, own classes": fit.synthesize(m=1, classes="own", random_seed=3),
    }
    found = {
        words: br.membership(
            fit,
            release,
            records=places,
            others=held_out,
            comparisons=comparisons,
            alternatives=alternatives,
            random_seed=4,
            n_jobs=n_jobs,
        )
        for words, release in releases.items()
    }
    rows = ["auc", "power_at_1_percent", "power_at_5_percent", "mean_bayes_factor_of_others"]
    table = pd.concat(
        {w: f.summary().loc[rows, ["value", "standard_error", "mcse"]] for w, f in found.items()}
    )
    print(table.round(4).to_string(), end="\n\n")
    for words, membership in found.items():
        print(f"{words}: {membership.sentence()}", end="\n\n")

    # Somebody in mind: a student of 40 or over with four children, and the commonest profile
    person = members.iloc[:2].copy()
    person.index = ["in mind", "commonest"]
    person.loc["in mind", ["occupation", "age", "children"]] = ["student", "40 or over", "4"]
    person.loc["commonest"] = members.value_counts().index[0]
    asked = br.membership(
        fit,
        releases["1 release, fresh classes"],
        records=50,
        others=person,
        prior_odds=0.1,
        random_seed=5,
    )
    columns = ["prior", "probability", "log_bayes_factor", "mcse", "reliable"]
    print(asked.records.loc[person.index, columns].round(3).to_string())
    return found, asked


if __name__ == "__main__":
    main()
