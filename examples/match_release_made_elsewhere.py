"""Matching a release that another tool made: no model is needed, only the files.

Here the other tool is a hot deck: education and profession of everyone are replaced by those of a
random person of the same age group. The risk is that an intruder who knows age, education and
profession of a target finds the record. In a shell:

    bayes-risk identify original.csv syn1.csv syn2.csv --known AGE --synthesized EDU,PRO

Run it with ``python examples/match_release_made_elsewhere.py``.
"""

import numpy as np

import bayes_risk as br
from bayes_risk.demo import italy


def hot_deck(df, rng):
    """Someone else's synthesiser: shuffle EDU and PRO together within each age group."""
    released = df.copy()
    for _, group in df.groupby("AGE", observed=True):
        donors = rng.choice(group.index, size=len(group))
        released.loc[group.index, ["EDU", "PRO"]] = df.loc[donors, ["EDU", "PRO"]].to_numpy()
    return released


def main(m=3):
    df = italy()
    rng = np.random.default_rng(2008)
    files = [hot_deck(df, rng) for _ in range(m)]  # pd.read_csv(...) for real ones

    keys = {"known": ["AGE"], "synthesized": ["EDU", "PRO"]}
    persistent = br.identification_risk(df, files, **keys)
    print(persistent)
    easily_discouraged = br.identification_risk(df, files, **keys, fallback=False)
    print(easily_discouraged.summary())

    # the records that a match would find most surely
    print(persistent.records.sort_values("probability", ascending=False).head())
    return persistent, easily_discouraged


if __name__ == "__main__":
    main()
