"""Consumer Expenditure records: expenditure, children and income synthesised by regressions.

Hornby & Hu (2021) ask both questions of such a file: what does an intruder learn of a household's
income (attribute risk, on a grid around the truth), and which released record is the household's
(identification risk, with incomes matched within a radius)? The data come with their R package
AttributeRiskCalculation: 5,126 households with UrbanRural, Race, KidsCount, LogExpenditure and
LogIncome. Save them as CSV and run ``python examples/papers/hornby_hu_2021.py FILE.csv``.
"""

import sys
import warnings

import numpy as np
import pandas as pd
from match_table import NOTE, in_words, match_table

import bayes_risk as br

MODEL = br.models.Regression(
    {
        "LogExpenditure": "1 + C(UrbanRural) + C(Race)",
        "KidsCount": "1 + LogExpenditure + C(Race)",
        "LogIncome": "1 + LogExpenditure + KidsCount + C(UrbanRural)",
    },
    families={"KidsCount": "negative-binomial"},
)
GUESSES = {
    "LogExpenditure": br.Grid(additive=1.0, n=7),
    "KidsCount": br.Grid(additive=1, n=3),
    "LogIncome": br.Grid(additive=2.5, n=11),  # the range of the authors' own worked example
}
MEASURES = [
    "expected match risk",
    "true matches (% of records)",
    "single matches",
    "false matches (% of single)",
]


def main(path, *, draws=500, targets=300, m=3):
    df = pd.read_csv(path)
    fit = MODEL.fit(df, draws=draws, tune=draws, random_seed=1)
    release = fit.synthesize(m=m, random_seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.UnreliableWeightsWarning)
        risk, published = (
            br.attribute_risk(
                fit,
                release,
                guesses=GUESSES,
                targets=targets,
                evidence=evidence,
                refit_budget=0,
                random_seed=3,
                n_jobs=2,
            )
            for evidence in ("predictive", "importance")
        )
    matches = {
        f"within {percent} %": match_table(
            in_dollars(df),
            [in_dollars(z) for z in release.datasets],
            known=["UrbanRural", "Race"],
            synthesized=["KidsCount", "Expenditure", "Income"],
            radius={"Expenditure": percent / 100, "Income": percent / 100},
        )
        for percent in (5, 20, 50)
    }
    show(risk, published, matches)
    return risk, published, matches


def in_dollars(table):
    """Amounts instead of logarithms: radii are shares of amounts."""
    amounts = {"Expenditure": np.exp(table["LogExpenditure"]), "Income": np.exp(table["LogIncome"])}
    return table[["UrbanRural", "Race", "KidsCount"]].assign(**amounts)


def show(risk, published, matches):
    print(risk, end="\n\n")
    print("How close the intruder comes (on average; _prior: without the release)")
    print(risk.closeness_summary().T.round(4).to_string(), end="\n\n")
    doubtful = (~published.records["reliable"]).mean()
    print(
        f"The published estimator is unreliable for {100 * doubtful:.0f} % of the same records.\n"
    )
    print(f"Matches by income and expenditure, releases pooled\n{NOTE}")
    print(in_words(matches, MEASURES))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
