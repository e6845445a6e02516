"""Consumer Expenditure sample: identification risk as a curve over the radius, and over m.

Hornby & Hu (2021) synthesised income, expenditure and tenure of 5,571 units by trees in four
scenarios (their Table 2), and asked how many an intruder would match who knows age within 10 %,
urban and marital status: over the radius (their Figures 6 and 7) and over m (Figure 10). The data
come with their R package IdentificationRiskCalculation: columns Age, Urban, Tenure, Educ,
Expenditure, Marital, Income. Save them as CSV and run
``python examples/papers/hornby_hu_2021_radius.py FILE.csv``.

What differs from the paper: the ends of intervals belong to them, as the paper writes and its
package does not; the 449 incomes of 0 or less are matched like all others, which the package never
does. Its code draws income from its margin and not from a tree (`visit.sequence` of one variable),
and the curve of scenario 1, which falls here from the smallest radius on, rises and then falls in
its Figure 6. "mean" is the paper's definition, an intruder who uses one release; "pooled" is one
who uses all. Utility-risk maps (Figures 8 and 9) come with utility.
"""

import sys

import pandas as pd

import bayes_risk as br

SCENARIOS = {
    "(1) income": ["Income"],
    "(2) tenure, income": ["Tenure", "Income"],
    "(3) expenditure, income": ["Expenditure", "Income"],
    "(4) tenure, expenditure, income": ["Tenure", "Expenditure", "Income"],
}
RADII = [0.01, 0.025, 0.05, 0.1, 0.2, 0.3]
PUBLISHED = {  # the radius with the largest risk
    "(1) income": 0.025,
    "(2) tenure, income": 0.025,
    "(3) expenditure, income": 0.1,
    "(4) tenure, expenditure, income": 0.1,
}


def units(path):
    """The sample; codes are categories."""
    return pd.read_csv(path).astype(dict.fromkeys(["Urban", "Tenure", "Marital"], "category"))


def curve(df, order, *, m):
    """Risk over one radius for all synthesised amounts, and the releases."""
    release = br.models.CART(order).fit(df, random_seed=1).synthesize(m=m, random_seed=2)
    amounts = [name for name in order if name != "Tenure"]
    keys = {"known": ["Age", "Urban", "Marital"], "synthesized": order, "fallback": False}
    rows = {}
    for r in RADII:
        radius = {"Age": 0.1, **dict.fromkeys(amounts, r)}
        risk = br.identification_risk(df, release, radius=radius, **keys)
        rows[r] = line(risk, len(df))
    return pd.DataFrame(rows).T.rename_axis("radius"), release


def line(risk, n):
    """Expected match risk as a share of records, its error, and what is known without."""
    summary, error = risk.summary()["expected_match_risk"], risk.expected_match_risk_mcse
    return {
        "mean": summary["mean"] / n,
        "+- 2 s.e.": 2 * error["mean"] / n,
        "pooled": summary["pooled"] / n,
        "+- 2 s.e. ": 2 * error["pooled"] / n,
        "without release": risk.baseline_expected_match_risk / n,
    }


def over_m(df, release, m):
    """Scenario 1 at 10 %, the first m releases (Figure 10)."""
    sweep = br.identification_sweep(
        df,
        release,
        known=["Age", "Urban", "Marital"],
        synthesized=["Income"],
        fallback=False,
        radius={"Age": 0.1, "Income": 0.1},
        over={"m": m},
    )
    names = ["expected_match_risk", "mcse", "baseline"]
    tables = {rule: sweep.summary(rule)[names] / len(df) for rule in ("mean", "pooled")}
    return pd.concat(tables, axis=1)


def main(path, *, m=20):
    df = units(path)
    curves = {}
    for words, order in SCENARIOS.items():
        curves[words], release = curve(df, order, m=m)
        worst = curves[words]["mean"].idxmax()
        print(f"{words}: expected match risk a record, m = {m} (as in Figure 6)")
        print(curves[words].round(4).to_string())
        print(f"largest at {worst:.1%} (published: {PUBLISHED[words]:.1%})\n")
        if words == "(1) income":
            growth = over_m(df, release, [k for k in (1, 10, 20) if k <= m])
    print("Scenario 1 at 10 %, the first m releases (as in Figure 10)")
    print(growth.round(4).to_string())
    return curves, growth


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
