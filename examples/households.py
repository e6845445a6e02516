"""Households: what an intruder learns of a person, knowing the other members or none of them.

Households are synthesised with `NestedDPMPM`, which keeps the rules between members: a child is at
least 15 years younger than the head, and there is one partner. Three intruders are audited: one who
knows all other members, one who knows the household's size and relations, and one who knows nobody
of it. Last, the households themselves are matched.

Run it with ``python examples/households.py``, or on a file of persons with the columns household,
relate (head, partner, child, other), age, sex and tenure: ``python examples/households.py FILE``.
"""

import sys

import numpy as np
import pandas as pd

import bayes_risk as br


def simulated(n, seed=1):
    """Persons of n households in which the rules hold; ages are multiples of 5."""
    rng, rows = np.random.default_rng(seed), []
    for household in range(n):
        tenure, head = rng.choice(["owner", "tenant"]), int(5 * rng.integers(4, 17))
        sex = rng.choice(["f", "m"])
        rows.append((household, "head", head, sex, tenure))
        if rng.random() < 0.55:
            age = max(20, head + 5 * int(rng.integers(-1, 2)))
            rows.append((household, "partner", age, "m" if sex == "f" else "f", tenure))
        for _ in range(int(rng.poisson(0.8)) if head < 60 else 0):
            age = 5 * int(rng.integers(0, (head - 15) // 5 + 1))
            rows.append((household, "child", age, rng.choice(["f", "m"]), tenure))
    return pd.DataFrame(rows, columns=["household", "relate", "age", "sex", "tenure"])


def main(file=None, n=300, draws=40, targets=60, refit_budget=5):
    df = simulated(n) if file is None else pd.read_csv(file)
    household = br.Households("household", relate="relate", head="head", variables=["tenure"])
    young = [age for age in sorted(df["age"].unique()) if age < 16]
    rules = [
        {"relate": ["child"], "age - head.age": [-14, float("inf")]},  # under 15 years younger
        {"relate": ["head", "partner"], "age": young},
    ]
    model = br.models.NestedDPMPM(
        household, spouse="partner", impossible=br.Impossible(rules), n_classes=10
    )
    fit = model.fit(df, draws=draws, tune=4 * draws, random_seed=1)
    release = fit.synthesize(m=2, random_seed=2)

    # guesses of a whole household are combinations of those of its members
    size = df.groupby("household")["relate"].transform("size")
    some = df.index[size.between(2, 3)][:targets]
    rows = {}
    for known in ("all but the target", "composition", "unknown"):
        risk = br.attribute_risk(
            fit,
            release,
            intruder=br.Intruder(household=known, knows_columns=["sex", "tenure"]),
            guesses=br.Neighbourhood(1),
            targets=some,
            refit_budget=refit_budget,
            random_seed=3,
        )
        found = risk.records
        rows[known] = {
            "P(truth), mean": found["probability"].mean(),
            "without the release": found["prior"].mean(),
            "worst": found["probability"].max(),
            "unreliable records": (~found["reliable"]).mean(),
        }
    table = pd.DataFrame(rows).T
    print(table.round(3).to_string(), end="\n\n")

    keys = {"known": [], "synthesized": ["relate", "age", "sex"]}
    matched = br.household_matching(df, release, household=household, **keys)
    print(matched.sentence())
    return table, matched


if __name__ == "__main__":
    main(*sys.argv[1:2])
