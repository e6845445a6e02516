"""Seconds and memory of attribute audits of regressions, for stated n, m, H, G.

Run as a script: ``python tests/benchmarks/bench_regression.py``. Every line is a process of its
own, so that its peak memory is its own (imports included: about 0.25 GiB). The table is simulated
like the Consumer Expenditure file of AttributeRiskCalculation, whose published estimator takes 0.27
s a record for one variable and 5.2 s for two (n = 5,126, H = 50: 0.39 h and 7.4 h).
"""

import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

import bayes_risk as br

N = 5_126
GRID = br.Grid(percent=10, n=11)
#        case: n, H, n_jobs, evidence, modelled columns
CASES = {
    "one variable, importance": (N, 50, 1, "importance", 1),
    "one variable, importance, m = 5": (N, 50, 1, "importance-5", 1),
    "two variables, importance": (N, 50, 1, "importance", 2),
    "two variables, importance, n / 4": (N // 4, 50, 1, "importance", 2),
    "two variables, importance, 4 n": (4 * N, 50, 1, "importance", 2),
    "two variables, importance, H = 2,000": (N, 2000, 2, "importance", 2),
    "two variables, exact": (N, 0, 1, "exact", 2),
    "two variables, predictive": (N, 500, 2, "predictive", 2),
    "own PyMC model, one variable": (N, 50, 1, "own", 1),
    "own PyMC model, two variables": (N, 50, 1, "own", 2),
}


def table(n: int) -> pd.DataFrame:
    """Log expenditure and log income, as in the survey."""
    rng = np.random.default_rng(1)
    expenditure = rng.normal(8.83, 0.88, n)
    income = 4.0 + 0.75 * expenditure + rng.normal(0, 1.05, n)
    return pd.DataFrame({"LogExpenditure": expenditure, "LogIncome": income})


def regression(variables: int) -> "br.models.Regression":
    """Income given expenditure, or both in sequence."""
    formulas = {"LogExpenditure": "1", "LogIncome": "1 + LogExpenditure"}
    return br.models.Regression({k: formulas[k] for k in list(formulas)[2 - variables :]})


def own(variables: int) -> "br.models.PyMCModel":
    """The same as a PyMC model of the user's own."""
    import pymc as pm

    def build(rows: Any) -> Any:
        with pm.Model() as model:
            expenditure, income = (pm.Data(c, rows[c]) for c in ("LogExpenditure", "LogIncome"))
            if variables == 2:
                mean, spread = pm.Normal("mean", 8, 5), pm.HalfNormal("spread", 2)
                pm.Normal("LogExpenditure_", mean, spread, observed=expenditure)
            a, b = pm.Normal("a", 0, 10), pm.Normal("b", 0, 5)
            sigma = pm.HalfNormal("sigma", 5)
            pm.Normal("LogIncome_", a + b * expenditure, sigma, observed=income)
        return model

    return br.models.PyMCModel(build, columns=list(regression(variables).formulas))


def audit(case: str) -> None:
    """Fit outside the clock, audit inside it; print one line."""
    n, draws, n_jobs, evidence, variables = CASES[case]
    evidence, _, m = evidence.partition("-")
    warnings.simplefilter("ignore")
    df = table(n)
    model: Any = regression(variables)
    if evidence == "own":
        model, evidence = own(variables), "importance"
    fit = model.fit(df, draws=max(draws // 2, 4), tune=500, random_seed=2)
    release = fit.synthesize(m=int(m or 1), random_seed=3)
    release = br.Release(datasets=release.datasets, synthesized=release.synthesized)
    start = time.perf_counter()
    risk = br.attribute_risk(
        fit, release, guesses=GRID, evidence=evidence, n_jobs=n_jobs, random_seed=4
    )
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{case:<34} {n:>7,} {release.m:>2} {draws or '-':>6} {risk.n_guesses:>4} {n_jobs:>7} "
        f"{seconds:>8.2f} {1e3 * seconds / n:>11.3f} {peak:>9.2f}",
        flush=True,
    )


def main(chosen: list[str]) -> None:
    """One process a case."""
    print(
        f"{'case':<34} {'n':>7} {'m':>2} {'H':>6} {'G':>4} {'threads':>7} {'seconds':>8} "
        f"{'ms a record':>11} {'peak GiB':>9}",
        flush=True,
    )
    for case in chosen or CASES:
        subprocess.run([sys.executable, __file__, "--case", case], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        audit(sys.argv[2])
    else:
        main(sys.argv[1:])
