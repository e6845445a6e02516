"""Independent audits of one release, other seeds and starts: is each other's number where they say?

Run by ``make bench``. ``held``: share of unflagged records whose stated 95 % interval (`low` to
`high`) has the estimate of another audit; ``z``: difference over stated errors. Files of
``../shared/data`` beside the checkout are used where they are.
"""

import argparse
import itertools
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import bayes_risk as br
from bayes_risk.demo import fair

ACS = Path(__file__).resolve().parents[3] / "shared/data/nist_acs_national2019_cat14.csv.gz"
CPS = ACS.with_name("cps1995_heads_standin_51016.csv.gz")


def redbook(n=3000):
    """Women of the 1974 Redbook survey (statsmodels), as categories."""
    df = fair()
    return df.sample(n, random_state=0).reset_index(drop=True).astype("category")


def survey(n, seed=0, categories=4):
    """A made-up survey: some categories, an age, two amounts, five kinds of people."""
    rng = np.random.default_rng(seed)
    k = rng.choice(5, n, p=[0.35, 0.3, 0.2, 0.1, 0.05])
    chances = rng.dirichlet(np.full(6, 0.5), (5, categories))  # shape (5, categories, 6)
    columns = {
        f"c{j}": pd.Categorical([rng.choice(6, p=chances[c, j]) for c in k], range(6))
        for j in range(categories)
    }
    columns["age"] = rng.poisson(np.array([25, 40, 33, 60, 75])[k])
    columns["income"] = np.exp(rng.normal(np.array([7, 8, 9, 7.5, 10])[k], 0.5)).round()
    columns["rent"] = np.exp(rng.normal(np.array([6, 6.5, 7, 5.5, 7.5])[k], 0.4)).round()
    return pd.DataFrame(columns)


MIXED = {"age": "count", "income": "lognormal", "rent": "lognormal"}
GRIDS = {"income": br.Grid(percent=30, n=5), "c0": br.Levels()}


def audits(make, release, times, **how):
    """Fit and audit anew, again and again, with other seeds and starts."""
    for seed in range(1, times + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield br.attribute_risk(make(seed), release, random_seed=100 + seed, **how)


def agreement(risks):
    """Share of records held, z, the same worst ten, widths: one row."""
    tables = [risk.records for risk in risks]
    p = np.stack([t["probability"] for t in tables])
    error = np.stack([t["mcse"] for t in tables])
    low, high = (np.stack([t[c] for t in tables]) for c in ("low", "high"))
    good = np.stack([t["reliable"].to_numpy(bool) for t in tables])
    pairs = list(itertools.permutations(range(len(risks)), 2))
    held = np.concatenate([((p[b] >= low[a]) & (p[b] <= high[a]))[good[a]] for a, b in pairs])
    both = [(a, b, good[a] & good[b]) for a, b in pairs if a < b]
    z = np.concatenate([((p[a] - p[b]) / np.hypot(error[a], error[b]))[g] for a, b, g in both])
    worst = np.argsort(-p, axis=1)[:, :10]
    found = [((p[b] >= low[a]) & (p[b] <= high[a]))[worst[a]].mean() for a, b in pairs]
    return {
        "held": held.mean(),
        "z_rms": np.sqrt(np.mean(z**2)),
        "z_beyond_3": np.mean(np.abs(z) > 3),
        "worst_ten_held": np.mean(found),
        "flagged": 1 - good.mean(),
        "width_median": np.median(high - low),
        "width_95": np.quantile(high - low, 0.95),
        "spread_median": np.median(p.std(axis=0, ddof=1)),
        "spread_95": np.quantile(p.std(axis=0, ddof=1), 0.95),
    }


def levels(df, **how):
    """A DPMPM of a table of categories."""
    return lambda seed: br.models.DPMPM(n_classes=30).fit(df, random_seed=seed, **how)


def mixed(df, families, **how):
    """A mixture of all families."""
    model = br.models.Mixture(families=families, n_classes=30)
    return lambda seed: model.fit(df, random_seed=seed, **how)


def acs(n):
    """Persons of the American Community Survey, 14 categories."""
    df = pd.read_csv(ACS, dtype=str).fillna("NA")
    return df.sample(n, random_state=1).reset_index(drop=True)


def resampled(n, share=0.05, seed=0):
    """Records of the survey drawn again, a share of cells redrawn from their column."""
    rng = np.random.default_rng(seed)
    df = acs(10_000).iloc[rng.integers(0, 10_000, n)].reset_index(drop=True)
    for name in df:
        anew = rng.random(n) < share
        df.loc[anew, name] = rng.choice(df[name].to_numpy(), anew.sum())
    return df.astype("category")


def drawn(n):
    """Records drawn from latent classes as the survey's 10,000 have."""
    fit = br.models.DPMPM(n_classes=30).fit(acs(10_000), random_seed=1)
    return fit.synthesize(1, n=n, random_seed=1).datasets[0]


def householders(n):
    """Householders of the Current Population Survey: four categories, an age, two amounts.

    Most have no wage by the hour and no dividends: 0 is missing.
    """
    df = pd.read_csv(CPS).sample(n, random_state=1).reset_index(drop=True)
    few = ["sex", "race", "marital_status", "education"]
    return df[[*few, "age", "wage_per_hour", "dividends"]]


def table(name, n, draws):
    """A table, how it is fitted from a seed, columns that are synthesised, what is guessed."""
    categories = {"redbook": redbook, "acs": acs, "resampled": resampled, "drawn": drawn}
    if name in categories:
        df = categories[name](n)
        return df, levels(df, draws=draws), None, {}
    if name == "cps":
        df = householders(n)
        none = {"wage_per_hour": 0, "dividends": 0}
        families = {"age": "count", "wage_per_hour": "lognormal", "dividends": "lognormal"}
        make = mixed(df, families, draws=draws, missing_numbers=none)
        grids = {
            "education": br.Levels(),
            "wage_per_hour": br.Grid(bounds=(0, 2000), n=5, truth="add"),
        }
        others = br.Intruder(knows_columns=[c for c in df if c not in grids])
        return df, make, None, {"guesses": grids, "intruder": others}
    df = survey(n)
    return df, mixed(df, MIXED, draws=draws), list(GRIDS), {"guesses": GRIDS}


def main():
    """One line a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=8)
    parser.add_argument("--tables", default="redbook,survey")
    parser.add_argument("--draws", type=int, default=250)
    parser.add_argument("--targets", type=int, default=300)
    parser.add_argument("--records", type=int, default=3000)
    parser.add_argument("--own", action="store_true", help="audits by the fit that made it")
    given = parser.parse_args()
    rows = []
    for name in given.tables.split(","):
        df, make, columns, guesses = table(name, given.records, given.draws)
        fit = make(0)
        release = fit.synthesize(5, columns, random_seed=0)
        if given.own:
            make = partial(lambda fit, seed: fit, fit)
        start = time.process_time()
        targets = list(range(0, len(df), max(len(df) // given.targets, 1)))
        found = list(audits(make, release, given.times, targets=targets, **guesses))
        seconds = (time.process_time() - start) / given.times
        chosen = sum(risk.modes is not None and len(risk.modes.kept) == 1 for risk in found)
        row = {"table": name, "records": len(df), **agreement(found)}
        rows.append(row | {"one_mode_chosen": chosen, "cpu_seconds_an_audit": seconds})
        print(pd.DataFrame(rows).to_string(index=False, float_format="%.3g"), flush=True)


if __name__ == "__main__":
    main()
