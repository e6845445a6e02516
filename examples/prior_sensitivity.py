"""How far does a worst-case audit rest on what the intruder is taken to believe and know?

The Italian table of Hawala (2008): 2,313 people, education and profession synthesised. Ten priors
from one evidence; then what the intruder knows of the target, how many data sets are released, and
the hyper-priors of the synthesis model, one at a time around the audit.

Run it with ``python examples/prior_sensitivity.py``; it writes ``prior-tornado.png`` and
``prior-bars.png``.
"""

from pathlib import Path

import numpy as np

import bayes_risk as br
from bayes_risk.demo import italy


def degrees_overrated(values):
    """Weights of a table of guesses; education may be known and not among them."""
    if "EDU" not in values:
        return np.ones(len(values))
    return np.where(values["EDU"] == "degree", 3.0, 1.0)


PRIORS = {
    "every pair equally likely": "uniform",
    "margins of the known records": "marginal",
    "the model, without the release": "predictive",
    "margins of the release": "release",
    "pairs in the release": "release-joint",
    "truth suspected, 2 to 1": br.TruthFactor(2.0),
    "truth suspected, 10 to 1": br.TruthFactor(10.0),
    "misled, truth 1 to 5": br.TruthFactor(0.2),
    "nine tenths model, rest flat": br.MixedPrior({"predictive": 0.9, "uniform": 0.1}),
    "degrees are overrated": degrees_overrated,
}


def main(folder=".", draws=500, targets=None):
    df = italy()
    fit = br.models.DPMPM(n_classes=10).fit(df, draws=draws, tune=draws, chains=4, random_seed=1)
    release = fit.synthesize(m=3, columns=["EDU", "PRO"], random_seed=2)
    how = {"guesses": br.Neighbourhood(2), "targets": targets, "refit_budget": 0, "random_seed": 3}

    # ten priors: the evidence is gathered once
    evidence = br.attribute_evidence(fit, release, **how)
    table = evidence.compare(PRIORS)
    shown = ["mean_probability", "mcse", "baseline", "max_probability", "max_mcse"]
    print(table[[*shown, "share_ranked_first"]].round(3).to_string())

    # one factor at a time, every prior at each setting
    found = br.sensitivity(
        fit,
        release,
        over={
            "prior": PRIORS,
            "knows_columns": {"neither": [], "profession": ["PRO"], "education": ["EDU"]},
            "m": [1, 2, 3],
            "hyper": {
                "level_prior": [0.8, 1.0, 1.25],
                "concentration_prior": {"vague": (0.25, 0.25), "more classes": (2.0, 0.5)},
                "power": [0.8, 1.0, 1.25],
            },
        },
        **how,
    )
    print(found)
    hyper = found.summary().groupby(level=[f for f in found.factors if f.startswith("hyper")])
    print(hyper[["hyper_khat", "hyper_refitted"]].first().round(2).to_string())
    found.plot().figure.savefig(Path(folder) / "prior-tornado.png", dpi=150)
    found.plot("prior").figure.savefig(Path(folder) / "prior-bars.png", dpi=150)
    return table, found


if __name__ == "__main__":
    main()
