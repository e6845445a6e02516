"""Householders of the Current Population Survey: trees, utility and identification risk.

Drechsler & Reiter (2008) drew 10,000 of 51,016 householders, synthesised marital status and race,
or age as well, by trees with the Bayesian bootstrap (five releases, at least five records in a
leaf), and asked how far regressions survive (their Table 2) and how many people an intruder would
match who knows age, race, marital status and sex (Tables 3 to 6). Run
``python examples/papers/drechsler_reiter_2008.py FILE.csv`` with the householders of the March 1995
survey: columns sex, race, marital_status, education, age, hispanic_origin,
n_persons_worked_employer, weeks_worked, wage_per_hour, capital_gains, capital_losses, dividends,
tax_filer_status, class_of_worker, income_gt_50k, and in_sample_10000, which marks the sample.

What differs from the paper: the survey is of 1995, not 2000, and holds no child support, social
security or property taxes, so the regressions are of dividends and of wages. Its other columns tell
more of marital status (tax filing) than theirs. Scenarios I and III, where the intruder does not
know who is in the sample, and the strategies with a threshold (Tables 4 and 6) need population
counts and wait for those. Scenario II is a random fifth of the targets of scenario IV. The paper's
true match rate is the share of single matches that are right.
"""

import sys

import numpy as np  # noqa: F401 - the formulas use it
import pandas as pd
import statsmodels.formula.api as smf
from match_table import NOTE, in_words, match_table

import bayes_risk as br

KEYS = ["age", "marital_status", "race"]
# expected match risk, true matches, single matches, true match rate (per cent)
PUBLISHED = {
    "marital status and race": {"IV": (365.1, 172, 2905, 5.92), "II": (74.7, 37, 593, 6.24)},
    "age too": {"IV": (16.0, 12, 6359, 0.189), "II": (4.2, 3, 1252, 0.240)},
}
MEASURES = [
    "expected match risk",
    "true matches",
    "single matches",
    "true matches (% of single)",
]
REGRESSIONS = {
    "sqrt(dividends), if any": (
        "np.sqrt(dividends) ~ sex + C(race) + C(marital_status) + age",
        "dividends > 0",
    ),
    "log(hourly wage), if any": (
        "np.log(wage_per_hour) ~ sex + C(marital_status) + C(race) + age + I(age**2)",
        "wage_per_hour > 0",
    ),
}


def householders(path):
    """The sample; what is missing is a level of its own."""
    df = pd.read_csv(path)
    df = df[df["in_sample_10000"] == 1].drop(columns=["in_sample_10000", "instance_weight"])
    return df.fillna({"hispanic_origin": "unknown"}).reset_index(drop=True)


def matches(df, release, synthesized, published, seed=8):
    """Tables 3 and 5: all of the sample are targets (IV), and a random fifth of them (II)."""
    keys = {
        "known": [k for k in ["sex", *KEYS] if k not in synthesized],
        "synthesized": synthesized,
    }
    fifth = df.sample(n=min(1968, len(df)), random_state=seed).index
    return {
        scenario: match_table(df, release.datasets, targets=targets, **keys).assign(
            published=pd.Series(dict(zip(MEASURES, published[scenario], strict=True)))
        )
        for scenario, targets in (("IV", df.index), ("II", fifth))
    }


def regressions(df, release):
    """Table 2: coefficients of the sample, and combined over the releases."""
    tables = {}
    for name, (formula, subset) in REGRESSIONS.items():
        observed = smf.ols(formula, df.query(subset)).fit()
        fits = [smf.ols(formula, z.query(subset)).fit() for z in release.datasets]
        shared = [k for k in observed.params.index if all(k in f.params.index for f in fits)]
        combined = br.combine(
            [f.params[shared] for f in fits],
            [f.cov_params().loc[shared, shared] for f in fits],
        ).table
        table = pd.DataFrame(
            {
                "observed": observed.params[shared],
                "s.e.": observed.bse[shared],
                "synthetic": combined["estimate"],
                "s.e. ": combined["std_error"],
            }
        )
        table["distance"] = (table["synthetic"] - table["observed"]).abs() / table["s.e."]
        tables[name] = table
    return tables


def main(path, *, m=5, targets=1000):
    df = householders(path)
    results = {}
    for words, order in (("marital status and race", KEYS[1:]), ("age too", KEYS)):
        fit = br.models.CART(order).fit(df, random_seed=1)
        release = fit.synthesize(m=m, random_seed=2)
        guesses = {"marital_status": br.Levels(), "race": br.Levels()}
        if "age" in order:
            guesses["age"] = br.Grid(additive=10, n=21)
        risk = br.attribute_risk(
            fit, release, guesses=guesses, evidence="exact", targets=targets, random_seed=3
        )
        found = matches(df, release, order, PUBLISHED[words])
        results[words] = found, regressions(df, release), risk
        show(words, *results[words])
    return results


def show(words, found, tables, risk):
    print(f"\n{words.upper()} SYNTHESISED\n\nMatches (Tables 3 and 5; published: 2000 survey)")
    print(f"{NOTE}\n{in_words(found, MEASURES)}")
    for name, table in tables.items():
        print(f"\nRegression of {name} (as in Table 2; distance in standard errors)")
        print(table.round(3).to_string())
    print(f"\nAttribute risk (not in the paper)\n{risk}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
