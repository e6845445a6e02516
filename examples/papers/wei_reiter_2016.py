"""Plants and their workers: Poisson mixtures, and what the second largest learns of the largest.

Wei & Reiter (2016) synthesised skilled and unskilled workers and their wages of 1,051 Colombian
food manufacturers by mixtures of Poissons (MP), by mixtures of multinomials that keep every total
(MM), and by these with collapsed tails (TCMM). What is told of their findings (Hu 2019, section
3.3.3): MP and MM disclose the largest plant almost surely, TCMM much less, the less the lower the
quantile above which tails are collapsed. Run ``python examples/papers/wei_reiter_2016.py FILE.csv``
with Chilean plants of the R package *prodest*: columns ``id``, ``year``, ``skilled``,
``unskilled``; of each plant its last year is taken.

What differs from the paper: other plants, no wages, and our reading of how tails are collapsed (see
docs/mixtures.md). The paper's own figures are not at hand.
"""

import sys

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf

import bayes_risk as br

COUNTS = ["skilled", "unskilled"]
QUANTILES = (0.99, 0.95, 0.9, 0.8)
WITHIN = (1, 5, 10)


def plants(path):
    """The last year of each plant."""
    df = pd.read_csv(path).sort_values("year").groupby("id").last()
    return df[COUNTS]


def releases(df, *, m, draws, n_classes):
    """Each synthesizer's fit and release, by name."""
    kinds = {"MP": {}, "MM": {"kind": "MM"}}
    kinds |= {f"TCMM {q:g}": {"kind": "TCMM", "quantile": q} for q in QUANTILES}
    made = {}
    for name, options in kinds.items():
        model = br.models.PoissonMixture(n_classes=n_classes, **options)
        fit = model.fit(df, draws=draws, tune=draws, random_seed=1)
        made[name] = (fit, fit.synthesize(m=m, random_seed=2))
    return made


def utility(df, datasets):
    """What an analyst would see, averaged over the data sets."""

    def seen(z):
        log = np.log(z + 1)
        slope = smf.ols("unskilled ~ skilled", log).fit()
        return {
            "total of skilled": z["skilled"].sum(),
            "mean": z["skilled"].mean(),
            "99 % quantile": z["skilled"].quantile(0.99),
            "largest": z["skilled"].max(),
            "correlation of logs": log.corr().iloc[0, 1],
            "slope of logs": slope.params["skilled"],
        }

    return pd.DataFrame([seen(z) for z in datasets]).mean()


def alone(fit, release):
    """Confidential values of the five largest plants that the release shows as they are."""
    if release.groups is None:
        return 0
    largest = fit.microdata.index[np.argsort(-fit.microdata.codes[:, 0])[:5]]
    single = fit.singletons(release).query("members == 1 and column == 'skilled'")
    return single.loc[single["record"].isin(largest), "record"].nunique()


def second_learns(df, fit, release):
    """Probabilities that the second largest plant gives to values near the largest one's."""
    largest, second = df["skilled"].nlargest(2)
    guesses = {"skilled": br.Grid(bounds=(second, 2 * largest), n=2 * int(largest))}
    intruder = br.Intruder(knows_records="second-largest", largest="skilled")
    return near(
        br.attribute_risk(fit, release, intruder=intruder, guesses=guesses, random_seed=3)
    ).iloc[0]


def all_others_learn(df, fit, release):
    """The same for each of the five largest plants, where all other records are known."""
    return near(
        br.attribute_risk(
            fit,
            release,
            intruder=br.Intruder(knows_columns=["unskilled"]),
            guesses={"skilled": br.Grid(percent=50, n=101)},
            targets=list(df["skilled"].nlargest(5).index),
            random_seed=4,
        )
    )


def near(risk):
    """Pr(within p percent), upper bounds of its error, and what it is without the release."""
    found = risk.closeness("skilled", percent=WITHIN)
    columns = {f"probability_within_{p}_percent": f"within {p} %" for p in WITHIN}
    return pd.DataFrame(
        {
            words + end: found[name + ending]
            for end, ending in (("", ""), (" +-", "_mcse_bound"), (" before", "_prior"))
            for name, words in columns.items()
        }
    ).assign(reliable=found["reliable"])


def main(path, *, m=5, draws=1000, n_classes=60):
    df = plants(path)
    made = releases(df, m=m, draws=draws, n_classes=n_classes)
    largest = df["skilled"].nlargest(5).tolist()
    print(f"{len(df)} plants; the largest have {largest} skilled workers")
    print("\nUtility, mean of the releases")
    useful = {"confidential": utility(df, [df])}
    useful |= {name: utility(df, release.datasets) for name, (_, release) in made.items()}
    print(pd.DataFrame(useful).T.round(2).to_string())
    print("\nFive largest plants whose own number of skilled workers is released as it is (alone")
    print("in their component, in some release)")
    print(pd.Series({name: alone(*pair) for name, pair in made.items()}).to_string())
    print("\nWhat the second largest plant learns of the largest: probability of coming near")
    risks = pd.DataFrame({name: second_learns(df, *pair) for name, pair in made.items()}).T
    print(risks.to_string(float_format="{:.3f}".format))
    print("(published: MP and MM extremely high; TCMM much lower, falling with the quantile)")
    print("\nFive largest plants, all other records known, MP (the totals of MM and TCMM give them")
    print("away exactly)")
    worst = all_others_learn(df, *made["MP"])
    print(worst.to_string(float_format="{:.3f}".format))
    return risks, worst


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/papers/wei_reiter_2016.py FILE.csv")
    main(sys.argv[1])
