"""Risk against the share of the other records that the intruder knows.

McClure & Reiter (2016) drew this curve for a few records; here it is the mean over records of a
survey, for one release and for three. The intruder who knows nobody still has the release; the one
who knows all others is the worst case that audits assume.

Run it with ``python examples/risk_against_knowledge.py``; it takes about two minutes.
"""

import pandas as pd

import bayes_risk as br
from bayes_risk.demo import italy

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)


def intruders(shares):
    """What is known of the other records, by name of the row."""
    known = {f"{share:.0%}": br.Intruder(knows_records=share) for share in shares}
    return {"none": br.Intruder(knows_records="none"), **known, "all": br.Intruder()}


def main(path="risk-against-knowledge.png", *, draws=500, shares=SHARES, targets=300):
    df = italy()
    fit = br.models.DPMPM(n_classes=10).fit(df, draws=draws, tune=draws, random_seed=1)
    release = fit.synthesize(m=3, random_seed=2)
    first = br.Release(datasets=release.datasets[:1], synthesized=release.synthesized)
    rows = {}
    for m, files in ((1, first), (3, release)):
        for name, intruder in intruders(shares).items():
            risk = br.attribute_risk(
                fit, files, intruder=intruder, targets=targets, refit_budget=0, random_seed=3
            )
            found = risk.summary()
            rows[m, name] = {
                "mean probability of the truth": found.loc["mean_probability", "value"],
                "+-": 2 * found.loc["mean_probability", "mcse"],
                "without the release": found.loc["mean_probability", "baseline"],
                "95 % of records below": found.loc["q95_probability", "value"],
                "unreliable": int(found.loc["unreliable", "value"]),
                "evidence": risk.assumptions["evidence"].partition(":")[0],
            }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = table.index.set_names(["releases", "records known"])
    print(table.round(4).to_string())
    draw(table, path)
    return table


def draw(table, path):
    """The curves, with two standard errors and the probability without the release."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    ax = figure.subplots()
    for m, part in table.groupby(level="releases"):
        known = part.index.get_level_values("records known")
        ax.errorbar(
            known,
            part["mean probability of the truth"],
            yerr=part["+-"],
            marker="o",
            capsize=3,
            label=f"{m} release" + ("s" if m > 1 else ""),
        )
    ax.axhline(table["without the release"].iloc[0], color="0.5", linestyle=":")
    ax.set(xlabel="Other records that the intruder knows", ylabel="Mean probability of the truth")
    ax.legend(frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
