"""Which way to make the file? Several models on one map of risk and utility, with replicates.

A third of the Redbook survey of 1974 (a table that comes with a dependency). What varies: how many
columns are synthesised, in which order, by which model, and how many data sets go out. Takes about
a minute.
"""

import sys
from pathlib import Path

import bayes_risk as br
from bayes_risk.demo import fair
from bayes_risk.models import CART, DPMPM

COLUMNS = ["rate_marriage", "religious", "children"]
KEYS = {"known": ["age", "educ"], "synthesized": COLUMNS}


def candidates(draws, m):
    trees = CART(order=COLUMNS)
    sampler = {"draws": draws, "tune": draws}
    return {
        "trees": br.Candidate(trees, m=m),
        "trees, reverse order": br.Candidate(CART(order=COLUMNS[::-1]), m=m),
        "trees, large leaves": br.Candidate(CART(order=COLUMNS, min_leaf=200), m=m),
        "trees, one data set": br.Candidate(trees, m=1),
        "trees, two columns": br.Candidate(CART(order=COLUMNS[:2]), m=m),
        "latent classes": br.Candidate(DPMPM(n_classes=15), m=m, columns=COLUMNS, fit=sampler),
    }


def main(path=Path("risk-utility-map.png"), *, draws=100, m=3, replicates=8, targets=200):
    """Compare the candidates, print who is on the front, and draw what the release adds."""
    found = br.compare(
        candidates(draws, m),
        fair()[["age", "educ", *COLUMNS]].iloc[::3],
        attribute={"targets": targets, "refit_budget": 0},
        identification=KEYS,
        replicates=replicates,
        random_seed=1974,
        n_jobs=2,
        progress=lambda name, done, total: print(f"{name}: {done} of {total}", file=sys.stderr),
    )
    print(found)
    table = found.summary()[["mean", "mcse", "baseline"]]
    measures = ["mean_probability", "gain", "expected_match_risk"]
    print(table.loc[(slice(None), measures), :].round(4))
    found.plot(risk="gain").figure.savefig(path, dpi=150)
    return found


if __name__ == "__main__":
    main()
