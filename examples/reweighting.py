"""Records weighed down by their own risk until a threshold holds.

A file of 2,019 person-years (RAND health insurance experiment): an index of chronic diseases is
synthesised by a regression that knows small groups by name, so a few records decide what the model
says of theirs. The loop that an agency would run: fit, synthesise, audit; weigh down the records at
risk; again, until no record's value is more probable to an intruder than the threshold allows.

    python examples/reweighting.py

It takes about half a minute: the evidence of a normal regression is exact, weighted or not.
"""

from pathlib import Path

import bayes_risk as br
from bayes_risk.demo import visits

FORMULA = "1 + C(health) * C(limited) * C(coinsurance)"


def main(
    path: str | Path | None = None, *, until: float = 0.4, rounds: int = 12, m: int = 10
) -> br.Reweighting:
    """Reweight until the threshold holds; write the path of risk and utility to a picture."""
    result = br.reweight(
        br.models.Regression({"disease": FORMULA}),
        visits(),
        until=until,
        rounds=rounds,
        fit={"draws": 500},
        synthesis={"m": m},
        audit={"guesses": {"disease": br.Grid(bounds=(0, 60), n=13, truth="add")}},
        random_seed=1974,
    )
    print(result)
    table = result.records
    print("\nThe records at highest risk before:")
    print(table.sort_values("before", ascending=False).head(5).round(3).to_string())
    kept = result.weights
    lighter = int((kept < 1).sum())
    print(f"\n{lighter} records weigh less than 1; all together weigh {kept.sum():.0f}")
    if path is not None:
        result.plot_path().figure.savefig(path)
    return result


if __name__ == "__main__":
    main("reweighting.png")
