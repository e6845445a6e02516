"""Bring your own model: area effects on income, and expenditure given income.

A hierarchical model as one would write it in PyMC, of simulated households in twenty areas. Two
columns are synthesised, income first. The intruder knows everybody but the target, and the
target's area; which income and expenditure do they believe in?

Run it with ``python examples/own_pymc_model.py``. The guide is docs/own-pymc-model.md.
"""

import numpy as np
import pandas as pd

import bayes_risk as br

AREAS = [f"area {k:02d}" for k in range(1, 21)]


def households(n=400):
    """Areas of very different size, some with one household, some of them rich."""
    rng = np.random.default_rng(7)
    area = rng.choice(len(AREAS), size=n, p=rng.dirichlet(np.full(len(AREAS), 0.5)))
    log_income = 10.3 + rng.normal(0, 0.7, len(AREAS))[area] + rng.normal(0, 0.3, n)
    return pd.DataFrame(
        {
            "Area": pd.Categorical.from_codes(area, categories=AREAS),
            "LogIncome": log_income,
            "LogExpenditure": 4.0 + 0.55 * log_income + rng.normal(0, 0.4, n),
        }
    )


def build(table):
    """The model of a table, whose columns stand in pm.Data: guesses take their place."""
    import pymc as pm

    with pm.Model(coords={"area": table["Area"].cat.categories}) as model:
        area = pm.Data("Area", table["Area"].cat.codes)
        log_income = pm.Data("LogIncome", table["LogIncome"])
        log_expenditure = pm.Data("LogExpenditure", table["LogExpenditure"])
        mean, spread = pm.Normal("mean", 10, 2), pm.HalfNormal("spread", 1)
        level = pm.Normal("level", mean, spread, dims="area")
        sd = pm.HalfNormal("sd", 1)
        pm.Normal("income", level[area], sd, observed=log_income)
        a, b, rest = pm.Normal("a", 10, 2), pm.Normal("b", 0, 1), pm.HalfNormal("rest", 1)
        mu = a + b * (log_income - 10.3)
        pm.Normal("expenditure", mu, rest, observed=log_expenditure)
    return model


def main(draws=300):
    df = households()
    model = br.models.PyMCModel(build, columns=["LogIncome", "LogExpenditure"])
    fit = model.fit(df, draws=draws, tune=draws, chains=2, random_seed=1)
    print(fit)

    release = fit.synthesize(m=2, random_seed=2)
    risk = br.attribute_risk(
        fit,
        release,
        guesses={
            "LogIncome": br.Grid(additive=1.0, n=7),
            "LogExpenditure": br.Grid(additive=1.0, n=7),
        },
        random_seed=3,
    )
    print(risk)

    # where few live, the area's effect is what the release says of them
    size = df.groupby("Area", observed=True)["Area"].transform("size")
    records = risk.records.assign(households=size.loc[risk.records.index])
    classes = pd.cut(records["households"], [0, 2, 5, 20, len(df)])
    by_size = records.groupby(classes, observed=True)[["prior", "probability", "mcse"]].mean()
    print(by_size.round(4).to_string())
    return risk


if __name__ == "__main__":
    main()
