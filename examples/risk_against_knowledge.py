"""Risk against the share of the other records that the intruder knows.

McClure & Reiter (2016) drew this curve for a few records; here it is the mean over records of a
survey, for one release and for three. The intruder who knows nobody still has the release; the one
who knows all others is the worst case that audits assume. With a uniform prior the curve shows
what the release adds; with the predictive prior the intruder starts from what the known records
tell, and the gap to the dotted line is the release's part.

Run it with ``python examples/risk_against_knowledge.py``; it takes two to three minutes.
"""

import pandas as pd

import bayes_risk as br
from bayes_risk.demo import italy

PRIORS = ("uniform", "predictive")
TITLES = {
    "uniform": "Prior: all guesses alike",
    "predictive": "Prior: what the known records tell",
}
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)


def intruders(shares):
    """What is known of the other records, by name of the row."""
    known = {f"{share:.0%}": br.Intruder(knows_records=share) for share in shares}
    return {"none": br.Intruder(knows_records="none"), **known, "all": br.Intruder()}


def row(risk):
    """What one line of the table says of an audit."""
    found = risk.summary()
    return {
        "mean probability of the truth": found.loc["mean_probability", "value"],
        "+-": 2 * found.loc["mean_probability", "mcse"],
        "without the release": found.loc["mean_probability", "baseline"],
        "95 % of records below": found.loc["q95_probability", "value"],
        "unreliable": int(found.loc["unreliable", "value"]),
        "evidence": risk.assumptions["evidence"].partition(":")[0],
    }


def main(path="risk-against-knowledge.png", *, draws=500, shares=SHARES, targets=300):
    df = italy()
    fit = br.models.DPMPM(n_classes=10).fit(df, draws=draws, tune=draws, random_seed=1)
    release = fit.synthesize(m=3, random_seed=2)
    first = br.Release(datasets=release.datasets[:1], synthesized=release.synthesized)
    rows = {}
    for m, files in ((1, first), (3, release)):
        for name, intruder in intruders(shares).items():
            kept = br.attribute_evidence(
                fit, files, intruder=intruder, targets=targets, refit_budget=0, random_seed=3
            )
            for prior in PRIORS:
                rows[prior, m, name] = row(kept.risk(prior))
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = table.index.set_names(["prior", "releases", "records known"])
    table = pd.concat({prior: table.loc[prior] for prior in PRIORS}, names=["prior"])
    print(table.round(4).to_string())
    draw(table, path)
    return table


def draw(table, path):
    """The curves, with two standard errors and the probability without the release."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, len(PRIORS), sharey=True)
    for ax, prior in zip(panels, PRIORS, strict=True):
        for m, part in table.loc[prior].groupby(level="releases"):
            curve(ax, part.droplevel("releases"), f"{m} release" + ("s" if m > 1 else ""))
        before = part.droplevel("releases")["without the release"]
        ax.plot(before.index, before, color="0.5", linestyle=":", label="without the release")
        ax.set(xlabel="Other records that the intruder knows", title=TITLES[prior])
    panels[0].set(ylabel="Mean probability of the truth", ylim=(0, None))
    panels[1].legend(frameon=False)
    figure.savefig(path, dpi=150)


def curve(ax, part, label):
    """One curve, with bars of two standard errors."""
    mean = part["mean probability of the truth"]
    ax.errorbar(part.index, mean, yerr=part["+-"], marker="o", capsize=3, label=label)


if __name__ == "__main__":
    main()
