"""A worst-case audit: the intruder knows all records but one, and may know yet more.

The Italian table of Hawala (2008): 2,313 people, education and profession synthesised, some of
them alone in their cell. How does the answer change with what the intruder believes beforehand,
and with the way in which the file was made?

Run it with ``python examples/worst_case_audit.py``.
"""

import pandas as pd

import bayes_risk as br
from bayes_risk.demo import italy


def main(draws=250, refit_budget=10):
    df = italy()
    fit = br.models.DPMPM(n_classes=10).fit(df, draws=draws, tune=draws, chains=2, random_seed=1)
    release = fit.synthesize(m=5, columns=["EDU", "PRO"], random_seed=2)

    def audit(release, **beliefs):
        # Neighbourhood(2) over two variables: the intruder weighs all 12 combinations
        return br.attribute_risk(
            fit,
            release,
            guesses=br.Neighbourhood(2),
            refit_budget=refit_budget,
            random_seed=3,
            **beliefs,
        )

    risks = {
        "every combination equally likely": audit(release),
        "margins known": audit(release, prior="marginal"),
        "truth suspected, 10 to 1": audit(release, prior=br.TruthFactor(10.0)),
        "profession known": audit(release, intruder=br.Intruder(knows_columns=["PRO"])),
        "own latent class (a worse file)": audit(
            fit.synthesize(m=5, columns=["EDU", "PRO"], classes="own", random_seed=2)
        ),
    }
    table = pd.DataFrame(
        {
            belief: {
                "mean probability of the truth": r.summary().loc["mean_probability", "value"],
                "without the release": r.summary().loc["mean_probability", "baseline"],
                "worst record": r.summary().loc["max_probability", "value"],
                "its Monte Carlo error": r.summary().loc["max_probability", "mcse"],
                "unreliable records": r.summary().loc["unreliable", "value"],
            }
            for belief, r in risks.items()
        }
    ).T
    print(table.round(3).to_string())

    # one record in full: the only clerk among the 18 to 22-year-olds with vocational schooling
    clerk = df.query("AGE == '18-22' and EDU == 'vocational school' and PRO == 'clerk'").index[0]
    print(risks["every combination equally likely"].posterior(clerk).round(3).to_string())
    return table


if __name__ == "__main__":
    main()
