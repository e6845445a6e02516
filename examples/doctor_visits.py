"""Doctor visits of the RAND health insurance experiment: counts released by three synthesizers.

The data come with statsmodels: 20,190 person-years and their outpatient visits. Visits are released
by a mixture of Poissons (MP), with every component's total kept (MM), and with a collapsed tail
(TCMM); then the intruder knows the person with the second largest number of visits, and asks for
the largest. Run ``python examples/doctor_visits.py``; it takes two to three minutes.
"""

import pandas as pd
import statsmodels.api as sm

import bayes_risk as br

SYNTHESIZERS = {
    "MP": {"kind": "MP"},
    "MM": {"kind": "MM"},
    "TCMM, 99 %": {"kind": "TCMM", "quantile": 0.99},
    "TCMM, 95 %": {"kind": "TCMM", "quantile": 0.95},
}


def visits():
    """Numbers of visits, and whether health was good at the start of the year."""
    data = sm.datasets.randhie.load_pandas().data
    return pd.DataFrame({"visits": data["mdvis"].astype(int)})


def seen(table):
    """What an analyst would compute."""
    y = table["visits"]
    return {
        "total": y.sum(),
        "without a visit (%)": 100 * (y == 0).mean(),
        "mean": y.mean(),
        "variance": y.var(),
        "99 % quantile": y.quantile(0.99),
        "largest": y.max(),
    }


def learnt(df, fit, release):
    """Pr(largest within 5 % of the truth) for who knows the second largest record."""
    largest, second = df["visits"].nlargest(2)
    risk = br.attribute_risk(
        fit,
        release,
        intruder=br.Intruder(knows_records="second-largest", largest="visits"),
        guesses={"visits": br.Grid(bounds=(second, 2 * largest), n=2 * int(largest))},
        random_seed=3,
    )
    near = risk.closeness("visits", percent=5).iloc[0]
    name = "probability_within_5_percent"
    return {
        "within 5 %": near[name],
        "+- (upper bound of s.e.)": near[f"{name}_mcse_bound"],
        "without the release": near[f"{name}_prior"],
        "reliable": near["reliable"],
    }


def main(*, m=3, draws=300, n_classes=40):
    df = visits()
    useful, risks = {"confidential": seen(df)}, {}
    for words, options in SYNTHESIZERS.items():
        fit = br.models.PoissonMixture(n_classes=n_classes, **options).fit(
            df, draws=draws, tune=draws, random_seed=1
        )
        release = fit.synthesize(m=m, random_seed=2)
        useful[words] = pd.DataFrame([seen(z) for z in release.datasets]).mean()
        risks[words] = learnt(df, fit, release)
    print(f"{len(df):,} person-years; most visits: {df['visits'].nlargest(5).tolist()}\n")
    print(pd.DataFrame(useful).T.round(2).to_string())
    print("\nProbability that the second largest gives to values near the largest")
    table = pd.DataFrame(risks).T
    print(table.to_string(float_format="{:.3f}".format))
    return table


if __name__ == "__main__":
    main()
