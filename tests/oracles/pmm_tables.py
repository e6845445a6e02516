"""Small tables with sensitive records for predictive mean matching."""

import pandas as pd

from bayes_risk.demo import visits
from bayes_risk.models.pmm.pmm import PMM

FAR = 4.0  # standard errors
IV = ["a", "b"]


def small_table():
    """22 records; a, b in a 3 x 2 table with two small cells, c a predictor."""
    cells = {"pu": 6, "pv": 5, "qu": 4, "qv": 1, "ru": 2, "rv": 4}
    rows = [(*cell, "yn"[i % 2]) for cell, count in cells.items() for i in range(count)]
    levels = {"a": list("pqr"), "b": list("uv"), "c": list("ny")}
    df = pd.DataFrame(rows, columns=["a", "b", "c"])
    return df.astype({c: pd.CategoricalDtype(v) for c, v in levels.items()})


def with_odd_ones():
    """The same, the sensitive records with a value of c that no other has."""
    df = small_table().astype({"c": str})
    cells = df[IV].apply(tuple, axis=1)
    return df.assign(c=df["c"].mask(cells.isin([("q", "v"), ("r", "u")]), "odd"))


def small_fit(df=None, **options):
    settings = {"threshold": 2, "identifying": IV, **options}
    return PMM(IV, **settings).fit(small_table() if df is None else df)


def numbers():
    return visits().iloc[:500].reset_index(drop=True)
