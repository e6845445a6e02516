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
more of marital status (tax filing) than theirs. Scenarios: the intruder knows a random 10,000 of
the 51,016 (I, II) or all of them (III, IV), and who is in the sample (II, IV) or not (I, III), when
he goes by the population counts F_t, known or estimated by an all-two-way log-linear model from
each release. Claims are made for everybody (Tables 3 and 5) or where the target is outside the
sample with a probability below 0.5 (Tables 4 and 6). The paper's true match rate is the share of
single matches that are right.
"""

import sys

import numpy as np  # noqa: F401 - the formulas use it
import pandas as pd
import statsmodels.formula.api as smf
from match_table import NOTE, in_words, match_table

import bayes_risk as br

KEYS = ["age", "marital_status", "race"]
KNOWN, ESTIMATED = "F known", "F estimated"
# expected match risk, true matches, single matches, true match rate (per cent)
PUBLISHED = {
    "marital status and race": {
        ("always", "I", KNOWN): (72.3, 26, 1942, 1.34),
        ("always", "I", ESTIMATED): (71.6, 40, 3445, 1.16),
        ("always", "II", ""): (74.7, 37, 593, 6.24),
        ("always", "III", KNOWN): (367.8, 131, 9769, 1.34),
        ("always", "III", ESTIMATED): (361.1, 201, 17555, 1.14),
        ("always", "IV", ""): (365.1, 172, 2905, 5.92),
        (0.5, "I", KNOWN): (3, 3, 17, 17.65),
        (0.5, "I", ESTIMATED): (1, 1, 11, 9.09),
        (0.5, "III", KNOWN): (9.5, 9, 102, 8.82),
        (0.5, "III", ESTIMATED): (6, 6, 64, 9.37),
    },
    "age too": {
        ("always", "I", KNOWN): (3.5, 2, 2651, 0.075),
        ("always", "I", ESTIMATED): (3.0, 3, 6879, 0.044),
        ("always", "II", ""): (4.2, 3, 1252, 0.240),
        ("always", "III", KNOWN): (14.0, 4, 13641, 0.029),
        ("always", "III", ESTIMATED): (14.7, 12, 34972, 0.034),
        ("always", "IV", ""): (16.0, 12, 6359, 0.189),
        (0.5, "I", KNOWN): (0, 0, 6, 0),
        (0.5, "I", ESTIMATED): (0, 0, 6, 0),
        (0.5, "III", KNOWN): (0, 0, 48, 0),
        (0.5, "III", ESTIMATED): (0, 0, 41, 0),
    },
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
    """All householders, the population, and the sample; what is missing is a level of its own."""
    everybody = pd.read_csv(path).fillna({"hispanic_origin": "unknown"})
    sample = everybody[everybody["in_sample_10000"] == 1]
    return everybody, sample.drop(columns=["in_sample_10000", "instance_weight"])


def matches(everybody, df, release, synthesized, published, seed=8):
    """Tables 3 to 6: one table of measures for each strategy, scenario and kind of counts."""
    known = [k for k in ["sex", *KEYS] if k not in synthesized]
    some = everybody.sample(n=min(10_000, len(everybody)), random_state=seed)
    keys = ["sex", *KEYS]
    size = len(everybody)
    counts = {
        KNOWN: br.Population.counted(everybody, keys),
        ESTIMATED: [br.Population.log_linear(z, keys, size=size) for z in release.datasets],
        "": None,
    }
    asked = {"I": some, "III": everybody, "II": some.index.intersection(df.index), "IV": df.index}
    found = {}
    for (strategy, scenario, kind), values in published.items():
        table = match_table(
            df,
            release.datasets,
            known=known,
            synthesized=synthesized,
            targets=asked[scenario],
            population=counts[kind],
            strategy=strategy,
        )
        table["published"] = pd.Series(dict(zip(MEASURES, values, strict=True)))
        claims = "" if strategy == "always" else ", below 0.5"
        found[f"{scenario} {kind}{claims}".strip()] = table
    return found


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
    everybody, df = householders(path)
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
        found = matches(everybody, df, release, order, PUBLISHED[words])
        results[words] = found, regressions(df, release), risk
        show(words, *results[words])
    return results


def show(words, found, tables, risk):
    print(f"\n{words.upper()} SYNTHESISED\n\nMatches (Tables 3 to 6; published: 2000 survey)")
    print(f"{NOTE}\n{in_words(found, MEASURES)}")
    for name, table in tables.items():
        print(f"\nRegression of {name} (as in Table 2; distance in standard errors)")
        print(table.round(3).to_string())
    print(f"\nAttribute risk (not in the paper)\n{risk}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
